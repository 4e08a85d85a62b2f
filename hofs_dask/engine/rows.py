"""The statistics of ICA rows. No dask, no zarr."""

from __future__ import annotations

import numpy as np

from hofs_dask.engine.statistic import Block, Context, Layout, Partial, Statistic, frozen
from hofs_dask.kernels.rows import add_row_terms


def means(context: Context, total: Partial) -> Partial:
    """The total over the number of samples."""
    return {name: array / context.shared["n_samples"] for name, array in total.items()}


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
    length = max(64, 131072 // max(1, m))
    for start in range(0, len(block.labels), length):
        rows = slice(start, start + length)
        labels = block.labels[rows]
        own = np.ascontiguousarray(-values[np.arange(m), block.codes[:, rows].T])
        label = label_columns[labels]
        numbers = np.empty((len(labels), n_members))
        for j in range(n_members):
            numbers[:, j] = members[j][block.columns[j, rows]]
        common = np.concatenate([-np.ones((len(labels), 1)), -numbers, -label], axis=1)
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
ROW_TERMS = Statistic("row-terms", _row_layout, _row_chunk, means)


def warm_up() -> None:
    """Compile every kernel for the types that map tasks call them with."""
    n_features, n_classes, n_codes = 2, 2, 2
    numbers = np.zeros((n_features, n_codes))
    shared = {"members": numbers[:1], "label_columns": np.zeros((n_classes, 1)), "n_samples": 4}
    own = {"values": numbers, "theta": np.ones((n_features, 1, 4))}
    context = frozen(Context(shared, own))
    cells = np.zeros((n_features, 4), np.uint8)
    block = frozen(Block(cells, cells[:1].copy(), cells[0].copy(), cells[1].copy()))
    ROW_TERMS.chunk(context, block, ROW_TERMS.identity(context, n_features))
