"""Plots of time against each size, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipelines.bench.tools import Curve

TITLES = {
    "n_samples": "samples",
    "n_features": "features",
    "n_picks": "picks",
    "n_classes": "classes",
    "n_codes": "codes a feature",
    "workers": "worker processes",
}
COLOURS = {"jmi": "#0072b2", "joint": "#d55e00", "a task": "#009e73"}
N_COLUMNS = 3


def draw_curves(curves: Sequence[Curve], path: Path) -> None:
    """Write a figure with one panel per size."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    axes = list(dict.fromkeys(curve.axis for curve in curves))
    n_rows = -(-len(axes) // N_COLUMNS)
    figure, panels = plt.subplots(
        n_rows, N_COLUMNS, figsize=(11, 3.3 * n_rows), squeeze=False, layout="constrained"
    )
    for panel in panels.ravel()[len(axes) :]:
        panel.set_axis_off()
    for axis, panel in zip(axes, panels.ravel(), strict=False):
        for curve in (curve for curve in curves if curve.axis == axis):
            colour, x, y = COLOURS[curve.method], np.array(curve.x), np.array(curve.seconds)
            if axis == "workers":
                panel.plot(x, 1e3 * y, "o-", color=colour, markersize=4)
                continue
            label = f"{curve.method}, slope {curve.slope:.2f}"
            panel.plot(x, y, "o-", color=colour, label=label, markersize=4)
            panel.plot(x, y[-1] * x / x[-1], color=colour, linestyle=":", linewidth=1)
        panel.set_title(curve.size, fontsize=8)
        panel.set_xscale("log")
        panel.set_xticks(x, [_short(value) for value in curve.x])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        panel.set_xlabel(TITLES[axis])
        if axis == "workers":
            panel.set_ylim(bottom=0)
            panel.set_ylabel("milliseconds a task")
        else:
            panel.set_yscale("log")
            panel.set_ylabel("seconds")
            panel.legend(frameon=False, fontsize=9)
    figure.supxlabel("dotted: in proportion to the last point", fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _short(value: float) -> str:
    """Return the number with k for thousands and M for millions."""
    for letter, unit in (("M", 1e6), ("k", 1e3)):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"
