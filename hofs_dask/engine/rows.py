"""The reductions for ICA rows of the label given a subset and each candidate.

A row is a linear combination of the label, the features of a subset (its members) and a candidate.
Its value for a sample is the signal. A Newton step needs sums over samples of functions of the
signal. Samples with equal codes have equal signals. If the codes of a subset and a candidate have
few combinations, one reduction counts the samples of each combination, and all Newton steps use
these counts. Otherwise, every Newton step is a reduction. This module uses neither Dask nor Zarr.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hofs_dask.engine.reduction import (
    NO_FLOATS,
    Block,
    Context,
    Layout,
    Partial,
    Reduction,
    frozen,
    per_feature,
)
from hofs_dask.kernels import hashing, planes
from hofs_dask.kernels import rows as kernel

#: The modules of the kernels that the reductions call.
KERNEL_MODULES = (hashing, planes, kernel)

#: Number of samples that are sorted by class at a time, so that their codes stay in the L2 cache.
BLOCK = 8192


@dataclass(frozen=True)
class RowValuesContext(Context):
    """The parameters of the reduction `ROW_VALUES`."""

    members: np.ndarray  # (member, code) the numeric value of each code
    sizes: tuple[int, ...]  # (member,) number of codes
    label_columns: np.ndarray  # (class, row) the values of the label columns, one column per row
    total: int  # the total weight of the samples
    values: np.ndarray = per_feature()  # (feature, code) the numeric value of each code
    theta: np.ndarray = per_feature()  # (feature, row, column) initial rows, see `kernel.Chain`


@dataclass(frozen=True)
class RowTermsContext(Context):
    """The parameters of the reduction `ROW_TERMS`, see `kernel.add_table_terms`."""

    members: np.ndarray  # (member, code) the numeric value of each code
    n_classes: int
    total: int  # the total weight of the samples
    values: np.ndarray = per_feature()  # (feature, code) the numeric value of each code
    rows: np.ndarray = per_feature()  # (feature, row, class + member + 1) coefficients
    wanted: np.ndarray = per_feature()  # bool (feature, row) whether to compute the terms


def cell_numbers(members: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Return the numeric value of each member in each cell, (member, cell).

    A cell is a combination of codes of the members. The codes of the last member vary fastest.

    Parameters
    ----------
    members, sizes
        The numeric value of each code, (member, code), and the number of codes of each member.

    Examples
    --------
    >>> cell_numbers(np.array([[1.0, 2.0], [3.0, 4.0]]), (2, 2))
    array([[1., 1., 2., 2.],
           [3., 4., 3., 4.]])
    """
    places = np.indices(sizes).reshape(len(sizes), -1)
    return np.take_along_axis(members, places, axis=1) if sizes else np.zeros((0, 1))


def _counts_layout(context: RowValuesContext, n_features: int) -> Layout:
    n_codes = context.values.shape[1]
    shape = (n_features, len(context.label_columns), n_codes, math.prod(context.sizes))
    return {"counts": (shape, np.int32 if context.total < 2**31 else np.int64)}


def _counts_chunk(context: RowValuesContext, block: Block, partial: Partial) -> None:
    counts = partial["counts"]
    n_codes, n_cells = counts.shape[2:]
    cells = np.zeros(len(block.labels), np.int32)
    for column, size in zip(block.columns.codes, context.sizes, strict=True):
        cells = cells * np.int32(size) + column
    cells += block.labels.astype(np.int32) * np.int32(n_codes * n_cells)
    samples = block.codes, frozen(cells), block.weights
    kernel.add_cells(*samples, n_cells, counts.reshape(len(counts), -1))


def _solved(context: RowValuesContext, total: Partial) -> Partial:
    n_members, n_rows = len(context.members), context.label_columns.shape[1]
    starts = [context.theta[:, r, : 3 + n_members + r] for r in range(n_rows)]
    chain = kernel.Chain.start(starts, context.label_columns)
    members = cell_numbers(context.members, context.sizes)
    return {"value": chain.solve(total["counts"], members, context.values).value}


#: ``value[i]``: the optimal value of the ICA objective for a subset and candidate i, summed over
#: the rows of all label columns.
ROW_VALUES = Reduction("row-values", _counts_layout, _counts_chunk, _solved)


def _terms_layout(context: RowTermsContext, n_features: int) -> Layout:
    shape = (n_features, *context.rows.shape[1:])
    return {
        "value": (shape[:2], np.float64),
        "gradient": (shape, np.float64),
        "hessian": ((*shape, shape[2]), np.float64),
    }


def _terms_chunk(context: RowTermsContext, block: Block, partial: Partial) -> None:
    cells = len(block.tile) * min(BLOCK, len(block.labels))
    work = np.empty(cells + len(block.columns) * min(BLOCK, len(block.labels)), np.uint8)
    for start in range(0, len(block.labels), BLOCK):
        labels = block.labels[start : start + BLOCK]
        order = start + np.argsort(labels, kind="stable")
        starts = np.searchsorted(block.labels[order], np.arange(context.n_classes + 1))
        codes = block.tile.some(order, work)
        columns = block.columns.some(order, work[cells:])
        members = np.empty(columns.shape)
        for j, numbers in enumerate(context.members):
            np.take(numbers, columns[j], out=members[j], mode="clip")
        rows = (context.values, context.rows, context.wanted)
        weights = block.weights[order].astype(np.float64) if len(block.weights) else NO_FLOATS
        samples = (frozen(codes), frozen(starts), frozen(members), frozen(weights))
        kernel.add_sample_terms(*samples, *rows, *partial.values())


def _means(context: RowTermsContext, total: Partial) -> Partial:
    return {name: array / context.total for name, array in total.items()}


#: The means over samples of phi (minus the log density of the signal) and of its first two
#: derivatives, for given rows. They are used instead of `ROW_VALUES` if there are too many cells to
#: count.
ROW_TERMS = Reduction("row-terms", _terms_layout, _terms_chunk, _means)
