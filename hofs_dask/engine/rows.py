"""The reductions of the ICA rows of the label given a subset and each candidate. No dask, no zarr.

Newton's steps need sums over samples of functions of a signal, and samples of equal codes have
equal signals. Where the codes of the members of a subset and of a candidate have few choices, one
reduction counts them and all steps are taken on the counts; else every step is a reduction.
"""

from __future__ import annotations

import math

import numpy as np

from hofs_dask.engine.reduction import Block, Context, Layout, Partial, Reduction, Tile, frozen
from hofs_dask.kernels import rows as kernel

#: Samples that are sorted by class at a time: their codes stay in the second-level cache.
BLOCK = 8192


def cell_numbers(members: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """The number of every member in every cell, (member, cell); the last member runs fastest.

    Parameters
    ----------
    members, sizes
        The numbers of the codes, (member, code), and how many codes each member has.

    Examples
    --------
    >>> cell_numbers(np.array([[1.0, 2.0], [3.0, 4.0]]), (2, 2))
    array([[1., 1., 2., 2.],
           [3., 4., 3., 4.]])
    """
    places = np.indices(sizes).reshape(len(sizes), -1)
    return np.take_along_axis(members, places, axis=1) if sizes else np.zeros((0, 1))


def _counts_layout(context: Context, n_features: int) -> Layout:
    shared = context.shared
    n_codes = context.per_feature["values"].shape[1]
    shape = (n_features, len(shared["label_columns"]), n_codes, math.prod(shared["sizes"]))
    return {"counts": (shape, np.int32 if shared["n_samples"] < 2**31 else np.int64)}


def _counts_chunk(context: Context, block: Block, partial: Partial) -> None:
    counts = partial["counts"]
    n_codes, n_cells = counts.shape[2:]
    cells = np.zeros(len(block.labels), np.int32)
    for column, size in zip(block.columns.codes, context.shared["sizes"], strict=True):
        cells = cells * np.int32(size) + column
    cells += block.labels.astype(np.int32) * np.int32(n_codes * n_cells)
    kernel.add_cells(block.codes, frozen(cells), n_cells, counts.reshape(len(counts), -1))


def _solved(context: Context, total: Partial) -> Partial:
    shared, theta = context.shared, context.per_feature["theta"]
    n_members, n_rows = len(shared["members"]), shared["label_columns"].shape[1]
    starts = [theta[:, r, : 3 + n_members + r] for r in range(n_rows)]
    chain = kernel.Chain.start(starts, shared["label_columns"])
    members = cell_numbers(shared["members"], shared["sizes"])
    return {"value": chain.solve(total["counts"], members, context.per_feature["values"]).value}


#: ``value[i]``, the sum of the chained rows of the label columns given the members of a subset and
#: each candidate, at their optimum. Context: members (member, code), sizes, their numbers of codes,
#: label_columns (class, row), n_samples; per feature: values (code,), theta (row, column), where to
#: begin, see `kernels.rows.Chain`.
ROW_VALUES = Reduction("row-values", _counts_layout, _counts_chunk, _solved)


def _terms_layout(context: Context, n_features: int) -> Layout:
    shape = (n_features, *context.per_feature["rows"].shape[1:])
    return {
        "value": (shape[:2], np.float64),
        "gradient": (shape, np.float64),
        "hessian": ((*shape, shape[2]), np.float64),
    }


def _terms_chunk(context: Context, block: Block, partial: Partial) -> None:
    shared, own = context.shared, context.per_feature
    n_classes = shared["n_classes"]
    cells = len(block.tile) * min(BLOCK, len(block.labels))
    work = np.empty(cells + len(block.columns) * min(BLOCK, len(block.labels)), np.uint8)
    for start in range(0, len(block.labels), BLOCK):
        labels = block.labels[start : start + BLOCK]
        order = start + np.argsort(labels, kind="stable")
        starts = np.searchsorted(block.labels[order], np.arange(n_classes + 1))
        codes = block.tile.some(order, work)
        columns = block.columns.some(order, work[cells:])
        members = np.empty(columns.shape)
        for j, numbers in enumerate(shared["members"]):
            np.take(numbers, columns[j], out=members[j], mode="clip")
        rows = (own["values"], own["rows"], own["wanted"])
        kernel.add_sample_terms(codes, starts, members, *rows, *partial.values())


def _means(context: Context, total: Partial) -> Partial:
    return {name: array / context.shared["n_samples"] for name, array in total.items()}


#: The means of phi and its derivatives of the rows that `ROW_VALUES` solves, where the cells are
#: too many to count. Context: members, n_classes, n_samples; per feature: values (code,), rows
#: (row, class + member + 1), wanted (row,), see `kernels.rows.add_table_terms`.
ROW_TERMS = Reduction("row-terms", _terms_layout, _terms_chunk, _means)


def warm_up() -> None:
    """Compile every kernel for the types that map tasks call them with."""
    n_features, n_classes, n_codes = 2, 2, 2
    numbers, labels = np.zeros((n_features, n_codes)), np.array([[-1.0], [1.0]])
    shared = {"members": numbers[:1], "n_samples": 4, "n_classes": n_classes}
    solved = {**shared, "sizes": (n_codes,), "label_columns": labels}
    rows, wanted = np.zeros((n_features, 1, 4)), np.ones((n_features, 1), np.bool_)
    requests = (
        (ROW_VALUES, Context(solved, {"values": numbers, "theta": np.ones((n_features, 1, 4))})),
        (ROW_TERMS, Context(shared, {"values": numbers, "rows": rows, "wanted": wanted})),
    )
    cells = np.zeros((n_features, 4), np.uint8)
    block = frozen(
        Block(Tile.of(cells), Tile.of(cells[:1]), np.array([0, 0, 1, 1], np.uint8), cells[1])
    )
    for reduction, context in requests:
        total = reduction.identity(context, n_features)
        reduction.chunk(frozen(context), block, total)
        reduction.finalize(frozen(context), total)
    wide = np.zeros((1, n_features * n_codes), np.int64)
    kernel.add_cells(block.codes[:1], frozen(np.zeros(4, np.int32)), n_codes, wide)
    counts = np.ones((n_features, n_classes, n_codes, 1), np.int64)
    chain = kernel.Chain.start([np.ones((n_features, 3))], labels)
    chain.solve(counts, np.zeros((0, 1)), numbers)
