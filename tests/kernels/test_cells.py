"""Sweeps over tiles against numpy, on read-only, empty and awkwardly sized input."""

import numpy as np
import pytest

from hofs_dask.kernels.cells import (
    COLUMNS,
    ROWS,
    add_columns,
    add_sums,
    as_cells,
    make_room,
    set_codes,
)

# nothing, a cell, whole tiles of rows, parts of two, rows that no unrolled loop divides
SHAPES = [(0, 3), (1, 1), (ROWS, 4), (ROWS + 13, 3), (3, COLUMNS + 2)]


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    block = rng.normal(size=shape).round(1)
    block[rng.random(shape) < 0.1] = np.nan
    return as_cells(block.astype(dtype))


def draw_limits(n_features, dtype, seed=1):
    """Increasing limits, as many as the feature's position says, and the padding that goes on."""
    rng = np.random.default_rng(seed)
    n_limits = np.arange(n_features) % 17
    limits = np.full((n_features, 24), np.nan, dtype)
    for row, n in zip(limits, n_limits, strict=True):
        row[:n] = np.sort(rng.normal(size=n).round(1))
    return limits, n_limits


@pytest.mark.parametrize("function", [set_codes, set_codes.py_func])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_set_codes__equal_a_binary_search(function, dtype, shape):
    block = draw(shape, dtype)
    limits, n_limits = draw_limits(shape[1], dtype)
    out = np.full(shape[::-1], 255, np.uint8)
    assert function(block, limits, n_limits, np.full(shape[1], 99), *make_room(block), out)
    for column, row, n, codes in zip(block.T, limits, n_limits, out, strict=True):
        expected = np.searchsorted(row[:n], column, side="right")
        assert np.array_equal(codes, np.where(np.isnan(column), 99, expected))


def test_set_codes__says_that_a_missing_value_has_no_code():
    block = as_cells(np.array([[0.0, np.nan]]))
    limits, n_limits = draw_limits(2, np.float64)
    out = np.empty((2, 1), np.uint8)
    for missing, complete in (([1, 1], True), ([-1, 1], True), ([1, -1], False)):
        room = make_room(block)
        assert set_codes(block, limits, n_limits, np.array(missing), *room, out) is complete


@pytest.mark.parametrize("function", [add_columns, add_columns.py_func])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_add_columns__equal_numpy(function, dtype, shape):
    block = draw(shape, dtype)
    n_features, limit = shape[1], 9
    low, high = np.full(n_features, np.inf, dtype), np.full(n_features, -np.inf, dtype)
    n_missing, n_values = np.zeros(n_features, np.int32), np.zeros(n_features, np.int64)
    values = np.zeros((n_features, limit), dtype)
    function(block, *make_room(block), low, high, n_missing, values, n_values)
    for j, column in enumerate(block.T):
        present = column[~np.isnan(column)]
        assert n_missing[j] == len(column) - len(present)
        assert (low[j], high[j]) == (min(present, default=np.inf), max(present, default=-np.inf))
        distinct = np.unique(present)
        assert n_values[j] == min(len(distinct), limit)
        if n_values[j] < limit:
            assert np.array_equal(np.sort(values[j, : n_values[j]]), distinct)


@pytest.mark.parametrize("function", [add_sums, add_sums.py_func])
def test_add_sums__adds_in_row_order(function):
    column = np.random.default_rng(2).normal(size=ROWS + 13)
    limits = np.array([-1.0, 0.0, 0.5, *[np.nan] * 5])
    out = np.zeros(4)
    block = as_cells(column[:, None])
    function(block, limits, 3, 0.5, *make_room(block), out)
    codes = np.searchsorted(limits[:3], column, side="right")
    assert np.array_equal(out, np.bincount(codes, weights=column / 2))


@pytest.mark.parametrize(
    ("given", "kept"), [("?", "f4"), ("i2", "f4"), ("f2", "f4"), ("u4", "f8"), (">f8", "f8")]
)
def test_as_cells__loses_nothing_and_leaves_the_block_alone(given, kept):
    block = np.asfortranarray(np.arange(6).reshape(2, 3).astype(given))
    cells = as_cells(block)
    assert cells.dtype == np.dtype(kept)
    assert np.array_equal(cells, block)
    assert cells.flags.c_contiguous
    assert block.flags.writeable > cells.flags.writeable
