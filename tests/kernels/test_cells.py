"""Kernels over tiles compared with numpy, on read-only, empty and oddly sized input."""

import numpy as np
import pytest

from hofs_dask.kernels.cells import (
    COLUMNS,
    ROWS,
    add_columns,
    as_cells,
    make_room,
    set_planes,
)
from hofs_dask.kernels.planes import WORD, pack, unpacked

# no rows, one cell, a whole tile of rows, parts of two tiles, less than an unrolled loop
SHAPES = [(0, 3), (1, 1), (ROWS, 4), (ROWS + 13, 11), (3, COLUMNS + 2)]


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    block = rng.normal(size=shape).round(1)
    block[rng.random(shape) < 0.1] = np.nan
    return as_cells(block.astype(dtype))


def draw_limits(n_features, levels, dtype, seed=1):
    """Return increasing limits padded with NaN, j of them for feature j (modulo the maximum)."""
    rng = np.random.default_rng(seed)
    limits = np.full((n_features, 2**levels - 1), np.nan, dtype)
    n_limits = np.arange(n_features) % (limits.shape[1] + 1)
    for row, n in zip(limits, n_limits, strict=True):
        row[:n] = np.sort(rng.normal(size=n).round(1))
    return limits, n_limits


def planes_of(block, bits):
    """Return zero planes for a block, as words and as the bytes that the kernel sets."""
    words = np.zeros((block.shape[1], bits, -(-len(block) // WORD)), np.uint64)
    return words, words.view(np.uint8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 2, 5, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_set_planes__agrees_with_a_binary_search(dtype, levels, shape):
    block = draw(shape, dtype)
    limits, n_limits = draw_limits(shape[1], levels, dtype)
    bits = min(levels + 1, 8)  # one more than needed, if possible
    missing = 2**bits - 1 - n_limits % 2
    words, planes = planes_of(block, bits)
    assert set_planes(block, limits, missing, *make_room(block), planes)
    found = unpacked(words, shape[0])
    for column, row, n, code, codes in zip(block.T, limits, n_limits, missing, found, strict=True):
        expected = np.searchsorted(row[:n], column, side="right")
        assert np.array_equal(codes, np.where(np.isnan(column), code, expected))
    assert np.array_equal(words, pack(found, bits))  # no bits after the last sample


def test_set_planes__returns_false_if_a_missing_value_has_no_code():
    block = as_cells(np.array([[0.0, np.nan]]))
    limits, _ = draw_limits(2, 2, np.float64)
    for missing, complete in (([1, 1], True), ([-1, 1], True), ([1, -1], False)):
        _, planes = planes_of(block, 2)
        room = make_room(block)
        assert set_planes(block, limits, np.array(missing), *room, planes) is complete


def test_set_planes__short_tile_ignores_cells_of_the_previous_tile():
    """The work memory still has missing values of the previous tile, which must not count."""
    block = np.zeros((3, COLUMNS + 1))
    block[:, 0] = np.nan
    missing = np.array([1] + [-1] * COLUMNS)
    _, planes = planes_of(block, 1)
    cells, counts = make_room(block)
    cells[:] = np.nan
    limits = np.ones((COLUMNS + 1, 1))
    assert set_planes(as_cells(block), limits, missing, cells, counts, planes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_add_columns__agrees_with_numpy(dtype, shape):
    block = draw(shape, dtype)
    n_features, limit = shape[1], 9
    low, high = np.full(n_features, np.inf, dtype), np.full(n_features, -np.inf, dtype)
    n_missing, n_values = np.zeros((2, n_features), np.int64)
    n_missing = n_missing.astype(f"i{block.dtype.itemsize}")
    values = np.zeros((n_features, limit), dtype)
    add_columns(block, *make_room(block), low, high, n_missing, values, n_values)
    for j, column in enumerate(block.T):
        present = column[~np.isnan(column)]
        assert n_missing[j] == len(column) - len(present)
        assert (low[j], high[j]) == (min(present, default=np.inf), max(present, default=-np.inf))
        distinct = np.unique(present)
        assert n_values[j] == min(len(distinct), limit)
        if n_values[j] < limit:
            assert np.array_equal(np.sort(values[j, : n_values[j]]), distinct)


@pytest.mark.parametrize(
    ("given", "kept"), [("?", "f4"), ("i2", "f4"), ("f2", "f4"), ("u4", "f8"), (">f8", "f8")]
)
def test_as_cells__keeps_all_values_and_does_not_change_the_block(given, kept):
    block = np.asfortranarray(np.arange(6).reshape(2, 3).astype(given))
    cells = as_cells(block)
    assert cells.dtype == np.dtype(kept)
    assert np.array_equal(cells, block)
    assert cells.flags.c_contiguous
    assert block.flags.writeable > cells.flags.writeable
