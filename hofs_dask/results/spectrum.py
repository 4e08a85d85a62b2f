"""The figure of relevance along a coordinate of the features, such as a wavelength."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hofs_dask.errors import unknown
from hofs_dask.results.datasets import coordinate_label, feature_coordinates
from hofs_dask.results.figure import add_legend, axes_for, subset_groups
from hofs_dask.results.style import LATER
from hofs_dask.results.text import summary

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

#: Maximum number of chosen features whose ranks are written beside their points.
NUMBERED = 30


def plot_spectrum(dataset: xr.Dataset, x: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot the relevance of all features along a coordinate, and mark the chosen features.

    Parameters
    ----------
    dataset : xarray.Dataset
        The return value of `Selection.to_dataset`.
    x : str, optional
        Name of a coordinate along the features. By default, or for the dim of the features, the
        names of the features are used.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on. By default a new figure is created.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> result = Selection.from_picks([pick], names=[450.0, 550.0], relevance=[0.1, 0.5], attrs={})
    >>> plot_spectrum(result.to_dataset()).get_xlabel()
    'feature'
    """
    name = _named(dataset, x)
    values = dataset[name].values
    if values.dtype.kind not in "iuf":
        known = feature_coordinates(dataset)
        numbers = [each for each in known if dataset[each].dtype.kind in "if"]
        advice = (
            f"give x= one of {', '.join(map(repr, numbers))}"
            if numbers
            else "use result.plot(), or give the data a coordinate of numbers along its features"
        )
        raise ValueError(
            f"the coordinate {name!r} has names such as {str(values[0])!r}, and a spectrum needs "
            f"numbers: {advice}"
        )
    ax = axes_for(ax, 9.0, 4.0)
    order = np.argsort(values, kind="stable")
    relevance, usable = dataset["relevance"].values, dataset["usable"].values
    ax.plot(values[order], np.where(usable, relevance, np.nan)[order], color=LATER, linewidth=1.0)
    index, ranks = dataset["index"].values, dataset["rank"].values
    top = float(np.nanmax(np.where(usable, relevance, np.nan), initial=0.0)) or 1.0
    for members, colour, label in subset_groups(dataset, 30):
        chosen = index[members]
        ax.vlines(values[chosen], 0, relevance[chosen], color=colour, linewidth=1.0, alpha=0.6)
        ax.scatter(
            values[chosen],
            relevance[chosen],
            s=34,
            color=colour,
            edgecolor="white",
            linewidth=0.8,
            zorder=3,
            label=label,
        )
    _write_ranks(ax, values[index], relevance[index], ranks, top)
    ax.set_ylim(0, 1.12 * top)
    ax.margins(x=0.02)
    ax.set_xlabel(coordinate_label(dataset, name), parse_math=False)
    ax.set_ylabel("relevance (nats)")
    ax.set_title(summary(dataset)[0].split(", selected by ")[0], loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    if len(ranks):
        most = "" if len(ranks) <= NUMBERED else f" up to {NUMBERED}"
        add_legend(ax, f"line: relevance\nnumbers: rank{most}\n\nsubset", 8, (1.02, 1.0))
    return ax


def _write_ranks(ax: Axes, x: np.ndarray, y: np.ndarray, ranks: np.ndarray, top: float) -> None:
    """Write ranks above the points; of points that are close together, only the best rank."""
    span = float(np.ptp(x)) or 1.0
    written: list[tuple[float, float]] = []
    for position in range(min(len(ranks), NUMBERED)):
        here = (float(x[position]) / span, float(y[position]) / top)
        if all(abs(here[0] - a) > 0.022 or abs(here[1] - b) > 0.06 for a, b in written):
            written.append(here)
            ax.annotate(
                str(ranks[position]),
                (x[position], y[position]),
                xytext=(0, 5),
                textcoords="offset points",
                ha="center",
                size=8,
                zorder=4,
            )


def _named(dataset: xr.Dataset, x: str | None) -> str:
    """Return the name of the coordinate for `x`, which may also be None or the feature dim."""
    if x is None or x in ("feature", dataset.attrs.get("feature_dim")):
        return "feature"
    known = feature_coordinates(dataset)
    if not known:
        raise ValueError(
            f"the features have no coordinate, so {x!r} is unknown; select from one DataArray, or "
            "from a Dataset in which only one variable is features"
        )
    if x not in known:
        raise unknown("coordinate of the features", x, known)
    return x
