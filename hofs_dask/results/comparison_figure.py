"""The figure of a comparison: ranks of all methods side by side, connected by feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hofs_dask.results.figure import add_legend, axes_for
from hofs_dask.results.style import ABSENT, COLOURS, INK, LATER, colour_of
from hofs_dask.results.text import labels, share, shortened

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

SHOWN_RANKS = 60
# Half the width and half the height of a cell. The distance between two methods or two ranks is 1.
HALF_WIDTH = 0.32
HALF_HEIGHT = 0.4
# Distance between the last rank and the steps of the stability, in units of ranks.
GAP = 1.2
# Width of a bold letter relative to the font size.
LETTER = 0.66
LARGEST = 8.5


def plot(dataset: xr.Dataset, ax: Axes | None = None, parts: str = "") -> Axes:
    """Plot the ranks of all methods side by side and return the axes.

    Parameters
    ----------
    dataset : xarray.Dataset
        The return value of `Comparison.to_dataset`.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on. By default a new figure is created.
    parts : str
        The name of the labels if parts of the data are compared instead of methods.

    Examples
    --------
    >>> from hofs_dask.results.comparison import Comparison
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> one = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
    >>> result = Comparison.from_selections({"mim": one, "jmi": one}, attrs={})
    >>> [label.get_text() for label in plot(result.to_dataset()).get_xticklabels()]
    ['mim', 'jmi']
    """
    chart = _chart(dataset.isel(rank=slice(SHOWN_RANKS)))
    letters = max(map(len, chart.names.values()), default=0)
    distance = min(max(1.4, letters * LETTER * LARGEST / 72 / (2 * HALF_WIDTH)), 2.0)
    width = min(24.0, max(6.4, 1.2 + distance * chart.n_methods))
    ax = axes_for(ax, width, 1.5 + 0.23 * max(chart.n_rows, 6))
    size = _letter_size(ax, chart)
    _draw_names(ax, chart, size)
    _draw_links(ax, chart)
    _draw_stability(ax, chart, size)
    _draw_scales(ax, chart, size)
    _draw_legend(ax, chart, size, parts)
    n_ranks = dataset.sizes["rank"]
    cut = f", the first {SHOWN_RANKS} of {n_ranks}" if n_ranks > SHOWN_RANKS else ""
    chosen = f"from each part by {parts}" if parts else "by each method"
    ax.set_title(f"features chosen {chosen}, by rank{cut}", loc="left", fontsize=size + 3)
    return ax


def colour_by_feature(dataset: xr.Dataset) -> dict[int, str]:
    """Return the colour of each chosen feature, by position.

    It is the colour of the feature's subset in the selection of the first method.

    Examples
    --------
    >>> import xarray as xr
    >>> index, subset = [[0, 2], [1, 2]], [[0, 1], [0, 0]]
    >>> dims = ("method", "rank")
    >>> colour_by_feature(xr.Dataset({"index": (dims, index), "subset": (dims, subset)}))
    {0: '#0072B2', 1: '#D0D0D0', 2: '#E69F00'}
    """
    index, subset = dataset["index"].values, dataset["subset"].values
    number = dict(zip(index[0].tolist(), subset[0].tolist(), strict=True))
    chosen = np.unique(index[index >= 0]).tolist()
    return {each: colour_of(number[each]) if each in number else ABSENT for each in chosen}


@dataclass(frozen=True)
class _Chart:
    """Content of the figure: one column per method, one row per rank, then the stability."""

    labels: list[str]
    index: NDArray[np.int64]  # by method and rank, -1 for none
    names: dict[int, str]
    colours: dict[int, str]
    by_all: frozenset[int]
    stability: NDArray[np.float64] | None

    @property
    def n_methods(self) -> int:
        return len(self.labels)

    @property
    def n_ranks(self) -> int:
        return int(self.index.shape[1])

    @property
    def ceiling(self) -> float:
        """The vertical position of stability 1, in units of ranks."""
        return self.n_ranks + GAP

    @property
    def floor(self) -> float:
        """The vertical position of stability 0, in units of ranks."""
        return self.ceiling + max(2.0, 0.1 * self.n_ranks)

    @property
    def n_rows(self) -> float:
        return self.n_ranks if self.stability is None else self.floor + 1


def _chart(dataset: xr.Dataset) -> _Chart:
    index, features = dataset["index"].values, dataset["feature"].values
    colours = colour_by_feature(dataset)
    by_all = frozenset.intersection(*(frozenset(row[row >= 0].tolist()) for row in index))
    return _Chart(
        labels=dataset["method"].values.tolist(),
        index=index,
        names=dict(zip(colours, labels(features[list(colours)].tolist()), strict=True)),
        colours=colours,
        by_all=by_all if len(index) > 1 else frozenset(),
        stability=dataset["stability"].values if "stability" in dataset else None,
    )


def _letter_size(ax: Axes, chart: _Chart) -> float:
    """Return the font size that fits a row, in points."""
    points = ax.bbox.height / ax.figure.dpi * 72 / max(chart.n_rows, 1)
    return min(max(0.68 * points, 3.5), LARGEST)


def _n_letters(ax: Axes, chart: _Chart, size: float, width: float) -> int:
    """Return how many letters of this size fit into `width`, a fraction of the column distance."""
    points = ax.bbox.width / ax.figure.dpi * 72 / chart.n_methods * width
    return max(4, int(points / (LETTER * size)))


def _draw_names(ax: Axes, chart: _Chart, size: float) -> None:
    """Write every name in a cell with the colour of its subset, bold if all methods chose it."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    short = shortened(chart.names.values(), _n_letters(ax, chart, size, 2 * HALF_WIDTH))
    cells, edges = [], []
    for (method, rank), found in np.ndenumerate(chart.index):
        column = int(found)
        if column < 0:
            continue
        corner = (method - HALF_WIDTH, rank + 1 - HALF_HEIGHT)
        cells.append(Rectangle(corner, 2 * HALF_WIDTH, 2 * HALF_HEIGHT))
        edges.append(np.array(to_rgb(chart.colours[column])))
        ax.text(
            method,
            rank + 1,
            short[chart.names[column]],
            ha="center",
            va="center_baseline",
            size=size,
            color=INK,
            weight="bold" if column in chart.by_all else "normal",
            zorder=3,
            parse_math=False,
        )
    fills = [1 - 0.25 * (1 - edge) for edge in edges]
    drawn = PatchCollection(cells, facecolors=fills, edgecolors=edges, linewidths=0.7, zorder=2)
    ax.add_collection(drawn)


def _draw_links(ax: Axes, chart: _Chart) -> None:
    """Connect the ranks of a feature in neighbouring methods, thicker if all methods chose it."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    bend = 0.5 - HALF_WIDTH
    paths, colours, widths = [], [], []
    for thick in (False, True):
        for left in range(chart.n_methods - 1):
            start, end = left + HALF_WIDTH, left + 1 - HALF_WIDTH
            there = {column: rank for rank, column in enumerate(chart.index[left + 1].tolist(), 1)}
            for here, column in enumerate(chart.index[left].tolist(), 1):
                if column < 0 or column not in there or (column in chart.by_all) != thick:
                    continue
                ends = [(start, here), (end, there[column])]
                middle = [(start + bend, here), (end - bend, there[column])]
                path = Path([ends[0], *middle, ends[1]], codes)
                width = 1.7 if thick else 0.9
                # A white outline separates lines that cross.
                paths += [path, path]
                colours += ["white", chart.colours[column]]
                widths += [width + 1.4, width]
    drawn = PathCollection(paths, facecolors="none", edgecolors=colours, linewidths=widths)
    ax.add_collection(drawn)


def _draw_stability(ax: Axes, chart: _Chart, size: float) -> None:
    """Draw the stability up to each rank as steps below each method; write the last value."""
    if chart.stability is None:
        return
    for method, values in enumerate(chart.stability):
        edges = np.linspace(method - HALF_WIDTH, method + HALF_WIDTH, chart.n_ranks + 1)
        tops = chart.floor + values * (chart.ceiling - chart.floor)
        ax.stairs(tops, edges, baseline=chart.floor, fill=True, color=LATER)
        for value in values[-1:].tolist():
            ax.text(method, chart.floor + 0.2, share(value), ha="center", va="top", size=size)
    for level in (chart.ceiling, chart.floor):
        ends = np.arange(chart.n_methods) - HALF_WIDTH
        ax.hlines([level] * len(ends), ends, ends + 2 * HALF_WIDTH, color=ABSENT, linewidth=0.7)


def _draw_scales(ax: Axes, chart: _Chart, size: float) -> None:
    """Label the methods above the chart and the ranks beside it."""
    ax.set_xlim(-0.5, chart.n_methods - 0.5)
    ax.set_ylim(chart.n_rows + 0.7, 0.4)
    ax.xaxis.tick_top()
    short = shortened(chart.labels, _n_letters(ax, chart, size + 1.5, 0.95))
    heads = list(short.values())
    ax.set_xticks(range(chart.n_methods), heads, fontsize=size + 1.5, parse_math=False)
    ticks = {float(rank): str(rank) for rank in range(1, chart.n_ranks + 1)}
    if chart.stability is not None:
        middle = (chart.ceiling + chart.floor) / 2
        ticks |= {chart.ceiling: "1", middle: "stability", chart.floor: "0"}
    ax.set_yticks(list(ticks), list(ticks.values()), fontsize=size)
    ax.set_ylabel("rank", rotation=0, ha="right", va="bottom", fontsize=size)
    ax.yaxis.set_label_coords(-0.005, 1.0)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _draw_legend(ax: Axes, chart: _Chart, size: float, parts: str) -> None:
    """Explain the colours, the bold names and the steps below the chart."""
    from matplotlib.patches import Patch

    first = chart.labels[0]
    words = {colour: str(number) for number, colour in enumerate(COLOURS)}
    words |= {LATER: "later", ABSENT: f"not chosen {'from' if parts else 'by'} {first}"}
    used = set(chart.colours.values())
    handles = [Patch(color=colour, label=word) for colour, word in words.items() if colour in used]
    if not handles:
        return
    title = [
        f"colour: subset of {first}",
        f"bold: chosen {'from every part' if parts else 'by every method'}" * bool(chart.by_all),
        "steps: stability up to each rank" * (chart.stability is not None),
    ]
    add_legend(ax, "; ".join(filter(None, title)), size, (0.0, 0.0), handles, len(handles))
