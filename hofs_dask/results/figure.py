"""A selection as a figure: the information and the gain by rank, coloured by subset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hofs_dask.results.text import fitted, subsets_of, summary

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which the colour-blind tell apart, without the yellow.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#7A5195", "#8C6D31")
LATER = "#9A9A9A"
# Axes that are narrower have smaller letters.
SMALL_INCHES = 4.0


def plot(dataset: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Return axes with the information and the gain by rank, coloured by subset.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `Selection.to_dataset` returned.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure without it.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> result = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
    >>> [label.get_text() for label in plot(result.to_dataset()).get_xticklabels()]
    ['b']
    """
    if ax is None:
        ax = new_axes(min(16.0, max(6.4, 2.5 + 0.28 * dataset.sizes["rank"])), 4.4)
    make_room(ax)
    _draw(ax, dataset)
    return ax


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a new figure of this size in inches, which cuts nothing off.

    Examples
    --------
    >>> new_axes(5, 4).figure.get_size_inches().tolist()
    [5.0, 4.0]
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install 'hofs-dask[plot]'") from error
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def make_room(ax: Axes) -> None:
    """Let the figure of the axes move them, where it can and does not do so already.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> make_room(ax)
    >>> type(figure.get_layout_engine()).__name__
    'ConstrainedLayoutEngine'
    """
    from matplotlib.figure import Figure

    figure = ax.figure
    is_subplot = ax.get_subplotspec() is not None
    if is_subplot and isinstance(figure, Figure) and figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")


def colour_of(subset: int) -> str:
    """Return the colour of the subset with this number, one for all those past the colours.

    Examples
    --------
    >>> colour_of(0), colour_of(100)
    ('#0072B2', '#9A9A9A')
    """
    return COLOURS[subset] if subset < len(COLOURS) else LATER


def _groups(dataset: xr.Dataset, width: int) -> Iterator[tuple[NDArray[np.bool_], str, str]]:
    """Yield the ranks, the colour and the legend of each subset, those past the colours as one."""
    numbers = dataset["subset"].values
    subsets = subsets_of(dataset)
    for number, names in enumerate(subsets[: len(COLOURS)]):
        label = f"{number + 1}: {fitted([str(name) for name in names], width)}"
        yield numbers == number, colour_of(number), label
    if len(subsets) > len(COLOURS):
        yield numbers >= len(COLOURS), LATER, f"{len(COLOURS) + 1} and later"


def _draw(ax: Axes, dataset: xr.Dataset) -> None:
    """Draw gains as bars and the information as a line through points coloured by subset."""
    ranks, subsets, epochs = (dataset[name].values for name in ("rank", "subset", "epoch"))
    information, gain = dataset["information"].values, dataset["gain"].values
    colours = [colour_of(subset) for subset in subsets.tolist()]
    crowded = len(ranks) > 15
    small = ax.bbox.width / ax.figure.dpi < SMALL_INCHES
    size = 7 if small else 8 if crowded else 9
    ax.bar(ranks, gain, width=0.7, color=colours, alpha=0.35, linewidth=0, zorder=1)
    for epoch in np.unique(epochs):
        within = epochs == epoch
        ax.plot(ranks[within], information[within], color="#555555", linewidth=1.2, zorder=2)
        if epoch > epochs.min():
            start = ranks[within][0] - 0.5
            ax.axvline(start, color="#555555", linewidth=0.8, linestyle=":")
            ax.text(
                start,
                0.98,
                "restart",
                rotation=90,
                va="top",
                size=7,
                color="#555555",
                transform=ax.get_xaxis_transform(),
            )
    for members, colour, label in _groups(dataset, 18 if small else 26):
        ax.scatter(
            ranks[members],
            information[members],
            s=26 if crowded or small else 52,
            color=colour,
            edgecolor="white",
            linewidth=0.8,
            zorder=3,
            label=label,
        )
    most = 14 if small else 20
    names = [
        name if len(name) <= most else f"{name[: most - 3]}..."
        for name in map(str, dataset["selected"].values.tolist())
    ]
    long = crowded or max((len(name) for name in names), default=0) > 4
    ax.set_xticks(ranks, names, rotation=90 if long else 0, fontsize=size)
    ax.tick_params("y", labelsize=size)
    ax.set_xlim(0.3, max(len(ranks), 1) + 0.7)
    ax.set_xlabel("feature, in order of choice", fontsize=size + 1)
    ax.set_ylabel("information (nats)", fontsize=size + 1)
    ax.set_title(summary(dataset)[0].split(", by ")[0], loc="left", fontsize=size + 2)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    ax.set_axisbelow(True)
    if len(ranks):
        ax.legend(
            title="points: all so far\nbars: gain\n\nsubset",
            fontsize=size,
            title_fontsize=size,
            alignment="left",
            frameon=False,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
        )
