"""Kernels over blocks compared with numpy, on read-only, empty and oddly sized input."""

import numpy as np
import pytest

from hofs_dask.kernels.cells import (
    COLUMNS,
    ROWS,
    WIDE,
    add_columns,
    as_cells,
    make_room,
    set_planes,
)
from hofs_dask.kernels.planes import WORD, pack, unpacked

# no rows, one cell, a whole tile of rows, parts of two tiles, more features than a tile, and many
SHAPES = [(0, 3), (1, 1), (ROWS, 4), (ROWS + 13, 11), (3, COLUMNS + 2), (40, WIDE)]
#: Blocks with the same content: in C order, in Fortran order, columns and rows of larger arrays,
#: neither rows nor columns adjacent.
VIEWS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "columns": lambda x: np.hstack([x, x, x])[:, x.shape[1] : 2 * x.shape[1]],
    "rows": lambda x: np.asfortranarray(np.vstack([x, x]))[len(x) :],
    "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2],
}


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    block = rng.normal(size=shape).round(1)
    if np.dtype(dtype).kind == "i":
        return np.rint(10 * block).astype(dtype)
    block[rng.random(shape) < 0.1] = np.nan
    return block.astype(dtype)


def draw_limits(n_features, levels, dtype, seed=1):
    """Return increasing limits padded with NaN, j of them for feature j (modulo the maximum)."""
    rng = np.random.default_rng(seed)
    limits = np.full((n_features, 2**levels - 1), np.nan, dtype)
    n_limits = np.arange(n_features) % (limits.shape[1] + 1)
    for row, n in zip(limits, n_limits, strict=True):
        row[:n] = np.sort(rng.normal(size=n).round(1))
    return limits, n_limits


def call(kernel, block, *rest):
    cells = as_cells(block)
    limits, room = rest[:2], make_room(cells)
    data = cells.array, cells.by_feature, cells.n_samples
    if kernel is set_planes:
        return set_planes(*data, *limits, *room, rest[2].view(np.uint8))
    return add_columns(*data, *room, *rest)


def planes_of(block, bits):
    return np.zeros((block.shape[1], bits, -(-len(block) // WORD)), np.uint64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("levels", [1, 2, 5, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_set_planes__agrees_with_a_binary_search(dtype, levels, shape):
    block = draw(shape, dtype)
    limits, n_limits = draw_limits(shape[1], levels, as_cells(block).dtype)
    bits = min(levels + 1, 8)  # one more than needed, if possible
    missing = 2**bits - 1 - n_limits % 2
    for view in VIEWS.values():
        planes = planes_of(block, bits)
        assert call(set_planes, view(block), limits, missing, planes)
        found = unpacked(planes, shape[0])
        several = zip(block.T, limits, n_limits, missing, found, strict=True)
        for column, row, n, code, codes in several:
            expected = np.searchsorted(row[:n], column, side="right")
            assert np.array_equal(codes, np.where(np.isnan(column), code, expected))
        assert np.array_equal(planes, pack(found, bits))  # no bits after the last sample


def test_set_planes__returns_false_if_a_missing_value_has_no_code():
    block = np.array([[0.0, np.nan]])
    limits, _ = draw_limits(2, 2, np.float64)
    for missing, complete in (([1, 1], True), ([-1, 1], True), ([1, -1], False)):
        planes = planes_of(block, 2)
        assert call(set_planes, block, limits, np.array(missing), planes) is complete


def test_set_planes__short_tile_ignores_cells_of_the_previous_tile():
    """The work memory still has missing values of the previous tile, which must not count."""
    block = np.zeros((3, COLUMNS + 1))
    block[:, 0] = np.nan
    missing = np.array([1] + [-1] * COLUMNS)
    assert call(set_planes, block, np.ones((COLUMNS + 1, 1)), missing, planes_of(block, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_add_columns__agrees_with_numpy(dtype, shape):
    block = draw(shape, dtype)
    n_features, limit, kind = shape[1], 9, as_cells(block).dtype
    for view in VIEWS.values():
        low, high = np.full(n_features, np.inf, kind), np.full(n_features, -np.inf, kind)
        n_missing, n_values = np.zeros((2, n_features), np.int64)
        n_missing = n_missing.astype(f"i{kind.itemsize}")
        values = np.full((limit, n_features), np.nan, kind)
        call(add_columns, view(block), low, high, n_missing, values, n_values)
        for j, column in enumerate(block.T):
            present = column[~np.isnan(column)]
            ends = min(present, default=np.inf), max(present, default=-np.inf)
            assert n_missing[j] == len(column) - len(present)
            assert (low[j], high[j]) == ends
            distinct = np.unique(present)
            assert n_values[j] == min(len(distinct), limit)
            if n_values[j] < limit:
                assert np.array_equal(np.sort(values[: n_values[j], j]), distinct)


@pytest.mark.parametrize(
    ("given", "kept"), [("?", "f4"), ("i2", "f4"), ("f2", "f4"), ("u4", "f8"), (">f8", "f8")]
)
def test_as_cells__keeps_all_values_and_does_not_change_the_block(given, kept):
    block = np.asfortranarray(np.arange(6).reshape(2, 3).astype(given))
    cells = as_cells(block)
    assert cells.dtype == cells.array.dtype == np.dtype(kept)
    assert np.array_equal(cells.array, block)
    assert block.flags.writeable > cells.array.flags.writeable


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("view", ["C", "F", "columns", "rows"])
def test_as_cells__does_not_copy(dtype, view):
    block = VIEWS[view](draw((5, 7), dtype))
    assert np.shares_memory(as_cells(block).array, block)
