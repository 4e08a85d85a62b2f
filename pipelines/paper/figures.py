"""The figures of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from hofs_dask.synthetic import TREE_FEATURES
from pipelines.paper import printed
from pipelines.paper.runs import Outcome

mpl.use("agg")
import matplotlib.pyplot as plt

COLOURS = {
    "hofs": "#d55e00",
    "mim": "#999999",
    "mifs": "#cc79a7",
    "mrmr": "#e69f00",
    "jmi": "#0072b2",
    "cmim": "#009e73",
    "spec_cmi": "#56b4e9",
    "vmi": "#000000",
}
#: Pixels per inch, and metadata without the software version, so that runs give identical files.
RESOLUTION, METADATA = 110, {"Software": None}


def draw_curves(
    outcomes: Sequence[Outcome], names: Mapping[str, str], scope: str, classifier: str, path: Path
) -> None:
    """Write a figure of errors against the number of features, one panel per set."""
    n_columns = min(3, len(outcomes))
    n_rows = -(-len(outcomes) // n_columns)
    figure, panels = plt.subplots(
        n_rows, n_columns, figsize=(4 * n_columns, 3 * n_rows), squeeze=False, layout="constrained"
    )
    for panel in panels.ravel()[len(outcomes) :]:
        panel.set_axis_off()
    for outcome, panel in zip(outcomes, panels.ravel(), strict=False):
        for label in outcome.wrong[scope]:
            strong = label == "hofs"
            panel.plot(
                outcome.sizes,
                100 * outcome.errors(scope, label, classifier),
                marker="o" if strong else "",
                color=COLOURS.get(label, "#aa4499"),
                label=names[label],
                linestyle="-" if label in COLOURS else (":" if "sum" in label else "--"),
                linewidth=2 if strong else 1,
                markersize=4,
                zorder=3 if strong else 2,
            )
        panel.set_title(outcome.name, fontsize=10)
        panel.grid(alpha=0.3)
    for panel in panels[-1]:
        panel.set_xlabel("features")
    for panel in panels[:, 0]:
        panel.set_ylabel("error, %")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    _save(figure, path)


def draw_ranks(
    ranks: Mapping[str, Mapping[str, float]],
    difference: float,
    names: Mapping[str, str],
    path: Path,
) -> None:
    """Write a figure of mean ranks, one row per table, with the critical difference."""
    figure, panel = plt.subplots(figsize=(8, 0.7 * len(ranks) + 1.2), layout="constrained")
    for row, by_label in enumerate(ranks.values()):
        best = min(by_label.values())
        panel.plot([best, best + difference], [row + 0.3] * 2, color="#999999", linewidth=3)
        for label, rank in by_label.items():
            panel.plot(rank, row, "o", color=COLOURS.get(label, "#aa4499"), markersize=7)
    for label in next(iter(ranks.values())):
        panel.plot([], [], "o", color=COLOURS.get(label, "#aa4499"), label=names[label])
    panel.set_yticks(range(len(ranks)), list(ranks))
    panel.set_ylim(len(ranks) - 0.4, -0.5)
    panel.set_xlabel("mean rank; bars: from the best, what is not significant by Nemenyi")
    panel.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    _save(figure, path)


def draw_tree(found: Mapping[str, Any], path: Path) -> None:
    """Write a figure of the covariances of the tree model and the information of its features."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    image = left.imshow(found["covariance"], cmap="viridis", vmin=0)
    places = range(len(TREE_FEATURES))
    left.set_xticks(places, TREE_FEATURES)
    left.set_yticks(places, TREE_FEATURES)
    left.set_title("covariance")
    figure.colorbar(image, ax=left)
    gains = found["gains"]
    lines = {
        "truth": (gains["truth"], "k", "-"),
        "HOFS, joint": (gains["hofs"], COLOURS["hofs"], "-"),
        "HOFS, printed": (printed.TREE_GAINS["hofs"], COLOURS["hofs"], ":"),
        "VMI": (gains["vmi"], COLOURS["jmi"], "-"),
        "VMI, printed": (printed.TREE_GAINS["vmi"], COLOURS["jmi"], ":"),
    }
    for name, (values, colour, style) in lines.items():
        right.plot(places, np.cumsum(values), style, color=colour, label=name, marker="o", ms=3)
    right.set_xticks(places, TREE_FEATURES)
    right.set_title("information of the features up to this one, nats")
    right.set_ylim(bottom=0)
    right.grid(alpha=0.3)
    right.legend(frameon=False)
    _save(figure, path)


def draw_heterogeneous(found: Mapping[str, Any], names: Mapping[str, str], path: Path) -> None:
    """Write a figure of the information of the first features of the heterogeneous model."""
    figure, panels = plt.subplots(
        1, len(names), figsize=(5 * len(names), 3.6), layout="constrained"
    )
    for panel, (label, name) in zip(np.atleast_1d(panels), names.items(), strict=True):
        curves = found["information"][label]
        places = range(len(curves["truth"]))
        panel.plot(places, curves["truth"], "o-", color="k", ms=3, label="truth")
        panel.plot(places, curves["seen"], "o-", color="#d55e00", ms=3, label=name)
        panel.set_xticks(places, found["ranking"][label][: len(places)], fontsize=8)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        panel.legend(frameon=False)
        panel.set_ylabel("information, nats")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=RESOLUTION, metadata=METADATA)
    plt.close(figure)
