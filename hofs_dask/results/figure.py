"""The figure of a selection: information and gain by rank, coloured by subset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hofs_dask.results.datasets import coordinate_label
from hofs_dask.results.epochs import restarts
from hofs_dask.results.style import COLOURS, GRID, LATER, LINE, RESTART_LABEL, colour_of
from hofs_dask.results.text import fitted, labels, shortened, subsets_of, summary

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# Axes narrower than this have a smaller font.
SMALL_INCHES = 4.0
# Width of the gap at a restart, in ranks and relative to the number of ranks.
LEAST_GAP, GAP = 0.6, 0.025
# Height of axes in which the words at a restart fit.
RESTART_INCHES = 2.9
# Width of a name on the axis of ranks.
NAME_INCHES = 0.16


def plot(dataset: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Plot the information and the gain by rank, coloured by subset, and return the axes.

    Parameters
    ----------
    dataset : xarray.Dataset
        The return value of `Selection.to_dataset`.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on. By default a new figure is created.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> result = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
    >>> [label.get_text() for label in plot(result.to_dataset()).get_xticklabels()]
    ['b']
    """
    width = min(16.0, max(6.4, 2.5 + 0.28 * dataset.sizes["rank"]))
    ax = axes_for(ax, width, 4.4)
    _draw(ax, dataset)
    return ax


def axes_for(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or the axes of a new figure of this size in inches.

    If the figure has no layout engine, and the constrained layout can move the axes, this layout is
    used, so that nothing is cut off.

    Examples
    --------
    >>> axes_for(None, 5, 4).figure.get_size_inches().tolist()
    [5.0, 4.0]
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> axes_for(ax, 5, 4) is ax
    True
    >>> type(figure.get_layout_engine()).__name__
    'ConstrainedLayoutEngine'
    """
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot() needs matplotlib: pip install 'hofs-dask[plot]'") from error
        ax = plt.figure(figsize=(width, height)).add_subplot()
    from matplotlib.figure import Figure

    figure = ax.figure
    is_subplot = ax.get_subplotspec() is not None
    if is_subplot and isinstance(figure, Figure) and figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    return ax


def add_legend(
    ax: Axes,
    title: str,
    size: float,
    anchor: tuple[float, float],
    handles: Sequence[Artist] | None = None,
    n_columns: int = 1,
) -> None:
    """Add a legend whose upper left corner is at `anchor`.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The axes.
    title : str
        Title above the entries.
    size : float
        Font size in points.
    anchor : tuple of float
        Upper left corner, in axes coordinates.
    handles : sequence of matplotlib.artist.Artist, optional
        Entries. By default all artists that have a label.
    n_columns : int
        Number of columns.
    """
    legend = ax.legend(
        handles=handles,
        title=title,
        ncols=n_columns,
        fontsize=size,
        title_fontsize=size,
        alignment="left",
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
        borderaxespad=0.0,
        loc="upper left",
        bbox_to_anchor=anchor,
    )
    for text in (legend.get_title(), *legend.get_texts()):
        text.set_parse_math(False)


def subset_groups(dataset: xr.Dataset, width: int) -> Iterator[tuple[NDArray[np.bool_], str, str]]:
    """Yield a mask of the ranks, the colour and the label of each subset.

    The subsets that share one colour are merged.
    """
    numbers = dataset["subset"].values
    subsets = subsets_of(dataset)
    for number, names in enumerate(subsets[: len(COLOURS)]):
        written = labels(names)
        short = shortened(written, width)
        label = f"{number}: {fitted([short[name] for name in written], width)}"
        yield numbers == number, colour_of(number), label
    if len(subsets) > len(COLOURS):
        yield numbers >= len(COLOURS), LATER, f"{len(COLOURS)} and later"


def _draw(ax: Axes, dataset: xr.Dataset) -> None:
    """Draw gains as bars, and information as a line through points coloured by subset."""
    ranks, subsets, epochs = (dataset[name].values for name in ("rank", "subset", "epoch"))
    information, gain = dataset["information"].values, dataset["gain"].values
    colours = [colour_of(subset) for subset in subsets.tolist()]
    crowded = len(ranks) > 15
    small = ax.bbox.width / ax.figure.dpi < SMALL_INCHES
    size = 7 if small else 8 if crowded else 9
    marked = restarts(epochs)
    gap = max(LEAST_GAP, GAP * len(ranks))
    x = ranks + gap * np.isin(np.arange(len(ranks)), marked).cumsum()
    ax.bar(x, gain, width=0.7, color=colours, alpha=0.35, linewidth=0, zorder=1)
    for epoch in np.unique(epochs):
        within = epochs == epoch
        ax.plot(x[within], information[within], color=LINE, linewidth=1.2, zorder=2)
    _mark_restarts(ax, [x[start] - 0.5 - gap for start in marked], gap)
    for members, colour, label in subset_groups(dataset, 18 if small else 26):
        ax.scatter(
            x[members],
            information[members],
            s=26 if crowded or small else 52,
            color=colour,
            edgecolor="white",
            linewidth=0.8,
            zorder=3,
            label=label,
        )
    most = 14 if small else 20
    names = labels(dataset["selected"].values.tolist())
    short = shortened(names, most)
    names = [short[name] for name in names]
    long = crowded or max((len(name) for name in names), default=0) > 4
    # a name needs 0.16 inches; of more names than fit, every second, third, ... is written
    room = max(1, int(ax.bbox.width / ax.figure.dpi / NAME_INCHES))
    every = max(1, -(-len(ranks) // room))
    angle = 90 if long else 0
    ax.set_xticks(x[::every], names[::every], rotation=angle, fontsize=size, parse_math=False)
    ax.tick_params("y", labelsize=size)
    ax.set_xlim(0.3, max([1.0, *x]) + 0.7)
    some = "" if every == 1 else f", one of {every} named"
    label = f"{coordinate_label(dataset, 'feature')}, by rank{some}"
    ax.set_xlabel(label, fontsize=size + 1, parse_math=False)
    ax.set_ylabel("information (nats)", fontsize=size + 1)
    ax.set_title(summary(dataset)[0].split(", selected by ")[0], loc="left", fontsize=size + 2)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    if len(ranks):
        said = f"\n{RESTART_LABEL.replace('counts', chr(10) + '   counts')}" if len(marked) else ""
        add_legend(ax, f"points: information\nbars: gain{said}\n\nsubset", size, (1.02, 1.0))


def _mark_restarts(ax: Axes, starts: Sequence[float], gap: float) -> None:
    """Shade the gap at each restart; write what a restart is, as far as there is room."""
    inches = ax.bbox.height / ax.figure.dpi
    words = RESTART_LABEL if inches > RESTART_INCHES else "restart"
    for start in starts:
        ax.axvspan(start, start + gap, color=GRID, linewidth=0, zorder=0)
        ax.text(
            start + gap / 2,
            0.97,
            words,
            rotation=90,
            ha="center",
            va="top",
            size=7,
            color=LINE,
            transform=ax.get_xaxis_transform(),
        )
