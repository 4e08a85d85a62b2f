"""The statistics: counts, terms of ICA rows, gains of posteriors. No dask, no zarr."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hofs_dask.engine.statistic import Block, Context, Layout, Partial, Statistic, frozen
from hofs_dask.kernels import posterior as kernel
from hofs_dask.kernels.counts import add_marginal_counts, add_pair_counts
from hofs_dask.kernels.rows import add_row_terms

#: How many folds a statistic can keep apart.
N_FOLDS = 4

KINDS = ("table", "shared", "class", "pair")


def _as_it_is(context: Context, total: Partial) -> Partial:
    return total


def _means(context: Context, total: Partial) -> Partial:
    return {name: array / context.shared["n_samples"] for name, array in total.items()}


def _sliced(block: Block, length: int) -> Iterator[Block]:
    for start in range(0, len(block.labels), length):
        rows = slice(start, start + length)
        yield Block(block.codes[rows], block.columns[rows], block.labels[rows], block.folds[rows])


def _marginal_layout(context: Context, n_features: int) -> Layout:
    shared = context.shared
    return {"counts": ((n_features, N_FOLDS, shared["n_classes"], shared["n_codes"]), np.int64)}


def _marginal_chunk(context: Context, block: Block, partial: Partial) -> None:
    add_marginal_counts(block.codes, block.labels, block.folds, partial["counts"])


#: ``counts[i, fold, class, code]`` of every feature. Context: n_classes, n_codes.
MARGINAL_COUNTS = Statistic("marginal-counts", _marginal_layout, _marginal_chunk, _as_it_is)


def _pair_layout(context: Context, n_features: int) -> Layout:
    shared = context.shared
    n_folds = N_FOLDS if shared["by_fold"] else 1
    shape = (n_features, n_folds, shared["n_codes"], shared["n_classes"], shared["n_codes"])
    return {"counts": (shape, np.int64)}


def _pair_chunk(context: Context, block: Block, partial: Partial) -> None:
    folds = block.folds if context.shared["by_fold"] else frozen(np.zeros_like(block.folds))
    parent = block.columns[:, 0]
    add_pair_counts(block.codes, parent, block.labels, folds, partial["counts"])


#: ``counts[i, fold, parent code, class, code]`` of every feature with the one column of the pass.
#: Context: n_classes, n_codes, by_fold.
PAIR_COUNTS = Statistic("pair-counts", _pair_layout, _pair_chunk, _as_it_is)


def _row_layout(context: Context, n_features: int) -> Layout:
    _, n_rows, n_columns = context.per_feature["theta"].shape
    shape = (n_features, n_rows, n_columns)
    return {
        "value": (shape[:2], np.float64),
        "gradient": (shape, np.float64),
        "hessian": ((*shape, n_columns), np.float64),
    }


def _row_chunk(context: Context, block: Block, partial: Partial) -> None:
    values, theta = context.per_feature["values"], context.per_feature["theta"]
    members, label_columns = context.shared["members"], context.shared["label_columns"]
    m, n_members, n_rows = len(values), len(members), label_columns.shape[1]
    # a block of signals takes a few arrays of (sample, feature); keep each near a megabyte
    for part in _sliced(block, max(64, 131072 // max(1, len(values)))):
        n_samples = len(part.labels)
        own = -values[np.arange(len(values)), part.codes]
        label = label_columns[part.labels]
        numbers = np.empty((n_samples, n_members))
        for j in range(n_members):
            numbers[:, j] = members[j][part.columns[:, j]]
        common = np.concatenate([-np.ones((n_samples, 1)), -numbers, -label], axis=1)
        for r in range(n_rows):
            width = 3 + n_members + r
            fixed = np.concatenate([label[:, r : r + 1], common[:, : width - 2]], axis=1)
            # contiguous arrays of their own: for slices the kernel would be compiled again
            terms = (np.zeros(m), np.zeros((m, width)), np.zeros((m, width, width)))
            add_row_terms(fixed, own, theta[:, r, :width].copy(), *terms)
            partial["value"][:, r] += terms[0]
            partial["gradient"][:, r, :width] += terms[1]
            partial["hessian"][:, r, :width, :width] += terms[2]


#: The means of phi and its derivatives for the chained rows of the label columns given the
#: members of a subset and each candidate: row r is over the columns label r, intercept, members,
#: labels before r, candidate. Context: members (member, code), label_columns (class, row),
#: n_samples; per feature: values (code,), theta (row, column).
ROW_TERMS = Statistic("row-terms", _row_layout, _row_chunk, _means)


@dataclass(frozen=True)
class PosteriorRow:
    """One row of a class posterior, fitted without each fold in turn."""

    kind: str  # of KINDS
    column: int  # its place among the columns of the pass
    parents: np.ndarray  # (parent,) the places of its parents
    table: np.ndarray  # (fold, class, code), for a pair (fold, class, parent code, code)
    values: np.ndarray | None = None  # (code,), NaN where missing; this and the rest if linear
    slopes: np.ndarray | None = None  # (fold, class, parent)
    shifts: np.ndarray | None = None  # (fold, class)
    scales: np.ndarray | None = None  # (fold, class)


def _posterior(context: Context, block: Block, numbers: np.ndarray) -> np.ndarray:
    prior = context.shared["prior"]
    posterior = np.tile(prior, (len(block.labels), 1))
    for row in context.shared["rows"]:
        codes = block.columns[:, row.column]
        if row.kind == "table":
            kernel.add_table(posterior, codes, block.folds, row.table)
        elif row.kind == "pair":
            parent = block.columns[:, row.parents[0]]
            kernel.add_pair(posterior, codes, parent, block.folds, row.table)
        else:
            kernel.add_linear(
                posterior,
                codes,
                row.values,
                numbers[:, row.parents],
                block.folds,
                row.table,
                row.slopes,
                row.shifts,
                row.scales,
                context.shared["logistic"],
            )
    return posterior


def _gain_layout(context: Context, n_features: int) -> Layout:
    return {"gain": ((n_features, len(KINDS)), np.float64)}


def _gain_chunk(context: Context, block: Block, partial: Partial) -> None:
    shared, own = context.shared, context.per_feature
    gains = partial["gain"]
    for part in _sliced(block, kernel.BLOCK):
        numbers = np.empty(part.columns.shape)
        for j, values in enumerate(shared["numbers"]):
            numbers[:, j] = values[part.columns[:, j]]
        posterior = _posterior(context, part, numbers)
        before = np.empty(len(part.labels))
        kernel.log_truth(posterior, part.labels, before)
        state = (part.labels, part.folds, posterior, before)
        kernel.score_tables(part.codes, *state, own["table"], gains[:, 0])
        for kind in ("shared", "class"):
            if f"{kind}_table" in own:
                kernel.score_linear(
                    part.codes,
                    own["values"],
                    numbers,
                    own["parents"],
                    *state,
                    own[f"{kind}_table"],
                    own[f"{kind}_slopes"],
                    own[f"{kind}_shifts"],
                    own[f"{kind}_scales"],
                    shared["logistic"],
                    gains[:, KINDS.index(kind)],
                )
        if "pair_table" in own:
            kernel.score_pairs(
                part.codes,
                part.columns,
                own["pair_parent"],
                *state,
                own["pair_table"],
                gains[:, KINDS.index("pair")],
            )


#: The mean gain in log posterior of the true class that each kind of row of each candidate brings:
#: ``gain[i, kind]`` in the order of `KINDS`, zero where a candidate has no row of a kind. Context:
#: prior (class,), rows, numbers (column, code), logistic, n_samples; per feature: values, parents,
#: table and the arrays of the other kinds.
POSTERIOR_GAINS = Statistic("posterior-gains", _gain_layout, _gain_chunk, _means)


def warm_up() -> None:
    """Compile every kernel for the types that map tasks call them with."""
    n_features, n_classes, n_codes = 2, 2, 2
    table = np.zeros((n_features, N_FOLDS, n_classes, n_codes))
    pair_table = np.zeros((n_features, N_FOLDS, n_classes, n_codes, n_codes))
    slopes, shifts = np.zeros((n_features, N_FOLDS, n_classes, 1)), table[..., 0].copy()
    values, first, none = (
        np.zeros((n_features, n_codes)),
        np.zeros(1, np.intp),
        np.zeros(0, np.intp),
    )
    linear = {"table": table, "slopes": slopes, "shifts": shifts, "scales": shifts}
    candidates = {
        "values": values,
        "table": table,
        "parents": np.zeros((n_features, 1), np.intp),
        "pair_parent": np.zeros(n_features, np.intp),
        "pair_table": pair_table,
    }
    for kind in ("shared", "class"):
        candidates.update({f"{kind}_{name}": array for name, array in linear.items()})
    posterior = {
        "prior": np.zeros(n_classes),
        "rows": (
            PosteriorRow("table", 0, none, table[0]),
            PosteriorRow("class", 0, first, table[0], values[0], slopes[0], shifts[0], shifts[0]),
            PosteriorRow("pair", 0, first, pair_table[0]),
        ),
        "numbers": values[:1],
        "logistic": True,
        "n_samples": 4,
    }
    rows = {"members": values[:1], "label_columns": np.zeros((n_classes, 1)), "n_samples": 4}
    sizes = {"n_classes": n_classes, "n_codes": n_codes, "by_fold": True}
    requests = (
        (MARGINAL_COUNTS, Context(sizes)),
        (PAIR_COUNTS, Context(sizes)),
        (ROW_TERMS, Context(rows, {"values": values, "theta": np.ones((n_features, 1, 4))})),
        (POSTERIOR_GAINS, Context(posterior, candidates)),
    )
    cells = np.zeros((4, n_features), np.uint8)
    block = frozen(Block(cells, cells[:, :1].copy(), cells[:, 0].copy(), cells[:, 1].copy()))
    for statistic, context in requests:
        statistic.chunk(frozen(context), block, statistic.identity(context, n_features))
