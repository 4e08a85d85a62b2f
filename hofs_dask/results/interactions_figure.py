"""The figures of interactions: a network and a heat map."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hofs_dask.results.figure import axes_for
from hofs_dask.results.interactions_text import summary
from hofs_dask.results.style import COLOURS, GRID, INK, LATER
from hofs_dask.results.text import labels, shortened

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

#: Maximum number of tuples that are drawn.
SHOWN = 50
#: Maximum number of features whose names are written horizontally.
FLAT = 26


def network(dataset: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Plot features as points on a circle and tuples as lines, and return the axes."""
    ax = axes_for(ax, 6.4, 6.0)
    shown = dataset.isel(rank=slice(SHOWN))
    index, synergy = shown["index"].values, shown["synergy"].values
    features = list(dict.fromkeys(index.ravel().tolist()))
    angles = np.linspace(0.0, 2 * np.pi, len(features), endpoint=False)
    x, y = (dict(zip(features, side, strict=True)) for side in (np.cos(angles), np.sin(angles)))
    for members, value, p in zip(index.tolist(), synergy, shown["p_adjusted"].values, strict=True):
        for i, j in combinations(members, 2):
            ax.plot(
                [x[i], x[j]],
                [y[i], y[j]],
                color=COLOURS[0] if p <= 0.05 else LATER,
                linewidth=0.5 + 4.5 * value / max(synergy.max(), 1e-300),
                alpha=0.8 if p <= 0.05 else 0.35,
                zorder=1,
            )
    ax.scatter(list(x.values()), list(y.values()), s=40, color=COLOURS[1], zorder=2)
    names = labels(dataset["feature"].values.tolist())
    short = shortened([names[i] for i in features], 16)
    for i, angle in zip(features, angles, strict=True):
        if len(features) <= FLAT:
            side = "center" if abs(x[i]) < 0.2 else "left" if x[i] > 0 else "right"
            lift = (0.04 if side == "center" else 0.0) * np.sign(y[i])
            place = (1.06 * x[i], 1.06 * y[i] + lift)
            name = short[names[i]]
            ax.annotate(name, place, ha=side, va="center", fontsize=8, parse_math=False)
            continue
        # many names are written along the radius, so that they do not overlap
        right = np.cos(angle) > -1e-9
        ax.annotate(
            short[names[i]],
            (1.05 * x[i], 1.05 * y[i]),
            rotation=np.degrees(angle) + (0 if right else 180),
            rotation_mode="anchor",
            ha="left" if right else "right",
            va="center",
            fontsize=8 if len(features) <= 60 else 6,
            parse_math=False,
        )
    height = 1.3 if len(features) <= FLAT else 1.5
    ax.set(xlim=(-1.5, 1.5), ylim=(-height, height), aspect="equal")
    caption = "wider: more synergy; grey: not significant at 0.05"
    ax.annotate(caption, (0.0, -height + 0.02), ha="center", va="bottom", fontsize=8)
    ax.axis("off")
    ax.set_title(summary(dataset)[0], loc="left", fontsize=10)
    return ax


def heat_map(dataset: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Plot, for every two features, the largest synergy of a tuple with both; return the axes."""
    ax = axes_for(ax, 6.4, 5.6)
    shown = dataset.isel(rank=slice(SHOWN))
    index, synergy = shown["index"].values, shown["synergy"].values
    features = sorted(set(index.ravel().tolist()))
    place = {feature: number for number, feature in enumerate(features)}
    matrix = np.full((len(features), len(features)), np.nan)
    for members, value in zip(index.tolist(), synergy.tolist(), strict=True):
        for i, j in combinations([place[member] for member in members], 2):
            matrix[i, j] = matrix[j, i] = np.nanmax([matrix[i, j], value])
    image = ax.imshow(matrix, cmap=_shades(), vmin=0.0)
    ax.figure.colorbar(image, ax=ax)
    names = labels(dataset["feature"].values.tolist())
    short = shortened([names[i] for i in features], 16)
    ticks = [short[names[i]] for i in features]
    size = 8 if len(ticks) <= 30 else 5
    ax.set_xticks(range(len(ticks)), ticks, rotation=90, fontsize=size, parse_math=False)
    ax.set_yticks(range(len(ticks)), ticks, fontsize=size, parse_math=False)
    ax.set_title("synergy (nats)", loc="left", fontsize=10)
    return ax


def _shades() -> Colormap:
    """Return a map from light to dark, so that the most synergy stands out on a white page."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("synergy", [GRID, COLOURS[0], INK])
