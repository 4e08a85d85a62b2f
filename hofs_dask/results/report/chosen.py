"""The sections about the affinity of the chosen features, and about runners-up and margins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from hofs_dask.results.report.common import names_of, options_of, percent
from hofs_dask.results.report.content import (
    Block,
    Cell,
    Column,
    Matrix,
    Picture,
    Section,
    Table,
    Text,
)
from hofs_dask.results.report.drawings.canvas import nats
from hofs_dask.results.text import counted

if TYPE_CHECKING:
    import xarray as xr

#: Features of the matrix.
SHOWN_BLOCKS = 200
#: Pairs of the table behind the matrix.
SHOWN_PAIRS = 150
#: A choice is close if its margin is less than this share of the largest gain.
CLOSE = 0.01


def is_within_classes(options: Mapping[str, object]) -> bool:
    """Return whether the affinity of a method with these options is the one within the classes.

    Examples
    --------
    >>> is_within_classes({"criterion": "joint"}), is_within_classes({"criterion": "sum"})
    (True, False)
    """
    return options.get("criterion") == "joint" and options.get("affinity") != "correlation"


def affinity_section(dataset: xr.Dataset) -> list[Section]:
    """Return the section with the dependence between chosen features, if the result has it."""
    if "affinity" not in dataset or dataset.sizes["rank"] < 2:
        return []
    names, index = names_of(dataset), dataset["index"].values
    subset = dataset["subset"].values
    order = np.argsort(subset[:SHOWN_BLOCKS], kind="stable")
    values = np.nan_to_num(dataset["affinity"].values)[np.ix_(order, order)]
    blocks = tuple(
        Block(names[j], j, number)
        for j, number in zip(index[order].tolist(), subset[order].tolist(), strict=True)
    )
    rows, columns = np.triu_indices(len(order), 1)
    strength = values[rows, columns]
    first = np.argsort(-strength, kind="stable")[:SHOWN_PAIRS].tolist()
    pairs = tuple(
        (
            Cell(blocks[i].name, feature=blocks[i].feature, subset=blocks[i].subset),
            Cell(blocks[j].name, feature=blocks[j].feature, subset=blocks[j].subset),
            Cell(f"{value:.2f}", value, share=value),
            Cell("yes" if blocks[i].subset == blocks[j].subset else "no"),
        )
        for i, j, value in zip(
            rows[first].tolist(), columns[first].tolist(), strength[first].tolist(), strict=True
        )
    )
    left = len(strength) - len(first)
    table = Table(
        "pairs of chosen features that depend most on each other",
        (Column("feature"), Column("other"), Column("affinity", True), Column("same subset")),
        pairs,
        f"{counted(left, 'pair')} with less affinity not shown." if left else "",
        is_folded=True,
    )
    threshold = options_of(dataset).get("threshold", 0.2)
    options = options_of(dataset)
    within = "dependence within the classes, from 0 to 1"
    measure = within if is_within_classes(options) else "correlation"
    words = (
        f"The affinity of two features is their {measure}. A feature joins the subset with the "
        f"largest mean affinity above {threshold}, or opens a new one."
    )
    n = dataset.sizes["rank"]
    some = f", the first {SHOWN_BLOCKS} of {n}" if n > SHOWN_BLOCKS else ""
    best = pairs[0] if pairs else None
    said = f" The largest is {best[2].text}, of {best[0].text} and {best[1].text}." if best else ""
    picture = Picture(
        Matrix(blocks, tuple(map(tuple, values.tolist())), "affinity"),
        f"Affinity of the chosen features, ordered by subset{some}",
        f"A matrix with one row and one column per feature; subsets are framed.{said}",
        (
            "The stronger the colour of a cell, the more two features depend on each other. "
            "Frames are subsets.",
        ),
        table,
    )
    return [Section("affinity", "How the features depend on each other", (Text(words), picture))]


def margins_section(dataset: xr.Dataset) -> Section:
    """Return the section with the runner-up and the margin of every round."""
    names, ranks = names_of(dataset), dataset["rank"].values.tolist()
    forced, margin = dataset["forced"].values, dataset["margin"].values
    index, others = dataset["index"].values.tolist(), dataset["runner_up"].values.tolist()
    subsets = dataset["subset"].values.tolist()
    with_next = dataset["together"].values > 0
    top = float(np.max(dataset["gain"].values, initial=0.0)) or 1.0
    chosen = dict(zip(index, ranks, strict=True))
    most = float(np.nanmax(np.where(forced, np.nan, margin), initial=0.0)) or 1.0
    rows, close = [], 0
    for row, (rank, j, other) in enumerate(zip(ranks, index, others, strict=True)):
        value = math.nan if forced[row] or other < 0 else float(margin[row])
        close += value < CLOSE * top and not with_next[row]
        later = f"rank {chosen[other]}" if other in chosen else "not chosen" if other >= 0 else ""
        rows.append(
            (
                Cell(str(rank), rank),
                Cell(names[j], feature=j, subset=subsets[row]),
                Cell(names[other], feature=other) if other >= 0 else Cell("none"),
                Cell("-", math.nan)
                if math.isnan(value)
                else Cell(nats(value), value, share=max(value, 0.0) / most),
                Cell(later, chosen.get(other, math.nan)),
            )
        )
    columns = (
        Column("rank", True),
        Column("chosen"),
        Column("runner-up"),
        Column("margin", True),
        Column("runner-up chosen later"),
    )
    words = (
        "In every round, the runner-up is the feature with the second best score, and the margin "
        "is the difference of the scores. With a small margin, the runner-up would have served "
        f"almost as well. {counted(close, 'choice was', 'choices were')} close: the margin was "
        f"less than {percent(CLOSE)} of the largest gain."
    )
    if with_next.any():
        words += (
            " A feature that was chosen together with the next one is not counted: it was chosen "
            "for what the two say together, so its own score may be less than that of the "
            "runner-up, which does not replace it."
        )
    folded = len(rows) > 30
    table = Table("chosen features and runners-up", columns, tuple(rows), is_folded=folded)
    return Section("margins", "Runners-up and margins", (Text(words), table))
