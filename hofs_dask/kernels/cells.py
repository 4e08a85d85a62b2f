"""Kernels over the blocks of a source: ranges and distinct values of columns, or codes of values.

A cell is one value of a block. Blocks are (sample, feature), but the results are stored by feature.
A kernel therefore copies `ROWS` samples of `COLUMNS` features at a time into a transposed tile. The
tile consists of short columns, which stay in the CPU cache. A loop over a short column is
vectorized. The distinct values of many features are found without a tile, one sample after the
other, by loops over features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba.types import boolean, float32, float64, int32, int64, uint8, void
from numpy.lib.stride_tricks import as_strided

from hofs_dask.kernels._jit import const, jit
from hofs_dask.kernels.planes import transpose_bits

ROWS, COLUMNS = 256, 128
#: Number of unused cells after each short column. Without them, short columns would evict each
#: other from the L1 cache.
GAP = 16
#: Cells of a short column whose minimum is computed at a time.
LANES = 16
#: From this number of features on, distinct values are found by loops over features.
WIDE = 64


@dataclass(frozen=True)
class Cells:
    """A block for the kernels, without a copy if possible.

    Attributes
    ----------
    array
        float32, float64 or int64, in C order and read-only: (sample, feature), or (feature, sample)
        if `by_feature`. The second axis may be longer than that of the block.
    by_feature
        Whether the features are along the first axis.
    n_samples, n_features
        The size of the block.
    """

    array: np.ndarray
    by_feature: bool
    n_samples: int
    n_features: int

    @property
    def dtype(self) -> np.dtype:
        """The type that the kernels convert values to, float32 or float64."""
        return np.dtype(np.float32 if self.array.dtype == np.float32 else np.float64)


def block_type(dtype: np.dtype) -> np.dtype:
    """Return the type in which the kernels read blocks of a type.

    Examples
    --------
    >>> [block_type(np.dtype(each)).name for each in ("int64", "int16", "uint32", ">f4")]
    ['int64', 'float32', 'float64', 'float32']
    """
    return np.dtype(np.int64) if dtype == np.int64 else np.result_type(dtype, np.float32)


def as_cells(block: np.ndarray) -> Cells:
    """Return a block (sample, feature) of numbers for the kernels.

    It is copied only if its type has no kernel, or if neither samples nor features are adjacent in
    memory.

    Examples
    --------
    >>> cells = as_cells(np.arange(6, dtype=np.int16).reshape(2, 3)[:, 1:])
    >>> cells.dtype, cells.array.shape
    (dtype('float32'), (2, 2))
    >>> as_cells(np.zeros((2, 3))[:, 1:]).array.shape  # rows of the whole array
    (2, 3)
    """
    n_samples, n_features = block.shape
    if block.dtype != block_type(block.dtype) or not block.dtype.isnative:
        block = np.ascontiguousarray(block, block_type(block.dtype))
    item, found = block.dtype.itemsize, None
    for by_feature, array in ((False, block), (True, block.T)):
        length, step = array.strides[0] // item, array.strides[1]
        is_regular = step == item and length >= array.shape[1] and array.strides[0] % item == 0
        if is_regular and found is None and (len(array) > 1 or by_feature):
            # the kernels do not read behind the block, so that the last row may be incomplete
            found = as_strided(array, (len(array), length), writeable=False), by_feature
    if found is None:
        found = np.ascontiguousarray(block).view(), False
        found[0].flags.writeable = False
    return Cells(*found, n_samples, n_features)


def make_room(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Return work memory for a tile of a block: short columns, and one integer per sample.

    An integer has as many bytes as a cell, so that a vector register holds equally many of both.

    Examples
    --------
    >>> [each.shape for each in make_room(as_cells(np.zeros((4, 2), np.float32)))]
    [(128, 272), (256,)]
    """
    tile = np.zeros((COLUMNS, ROWS + GAP), cells.dtype)
    return tile, np.zeros(ROWS, f"i{cells.dtype.itemsize}")


@jit()
def _transpose(
    block: np.ndarray,
    by_feature: bool,
    row: int,
    n_rows: int,
    column: int,
    n_columns: int,
    out: np.ndarray,
) -> None:
    """Set ``out`` to the short columns of a tile; entries after the last row are not changed."""
    for j in range(n_columns):
        short = out[j]
        if by_feature:
            cells = block[column + j, row : row + n_rows]
            for s in range(n_rows):
                short[s] = cells[s]
        else:
            for s in range(n_rows):
                short[s] = block[row + s, column + j]


@jit()
def _count_limits(cells: np.ndarray, limits: np.ndarray, out: np.ndarray) -> None:
    """Set ``out`` to the number of limits ``<= x`` for each cell of a short column; 0 for NaN."""
    for s in range(ROWS):
        out[s] = 0
    rest = len(limits) - len(limits) % 4
    for k in range(0, rest, 4):  # four limits per load of a cell
        a, b, c, d = limits[k], limits[k + 1], limits[k + 2], limits[k + 3]
        for s in range(ROWS):
            x = cells[s]
            out[s] += (x >= a) + (x >= b) + (x >= c) + (x >= d)
    for k in range(rest, len(limits)):
        limit = limits[k]
        for s in range(ROWS):
            out[s] += cells[s] >= limit


@jit(
    boolean(
        const(float32[:, ::1]),
        boolean,
        int64,
        const(float32[:, ::1]),
        const(int64[::1]),
        float32[:, ::1],
        int32[::1],
        uint8[:, :, ::1],
    ),
    boolean(
        const(float64[:, ::1]),
        boolean,
        int64,
        const(float64[:, ::1]),
        const(int64[::1]),
        float64[:, ::1],
        int64[::1],
        uint8[:, :, ::1],
    ),
    boolean(
        const(int64[:, ::1]),
        boolean,
        int64,
        const(float64[:, ::1]),
        const(int64[::1]),
        float64[:, ::1],
        int64[::1],
        uint8[:, :, ::1],
    ),
)
def set_planes(
    block: np.ndarray,
    by_feature: bool,
    n_samples: int,
    limits: np.ndarray,
    missing: np.ndarray,
    tile: np.ndarray,
    counts: np.ndarray,
    out: np.ndarray,
) -> bool:
    """Set the bit planes of the codes of a block.

    A code is the number of limits ``<= x``, or the missing code for NaN.

    Parameters
    ----------
    block, by_feature, n_samples
        The attributes of `Cells`.
    limits
        (feature, limit), with the type of the cells: increasing, then padded with NaN.
    missing
        int64 (feature,): the code of NaN, -1 if there is none.
    tile, counts
        Work memory, from `make_room`.
    out
        uint8 (feature, bit, byte): the bytes of little-endian words. Bytes without samples are not
        changed.

    Returns
    -------
    bool
        Whether every NaN had a code.

    Examples
    --------
    >>> cells, limits = as_cells(np.array([[0.5], [2.0], [np.nan]])), np.array([[1.0, 2.0]])
    >>> room, out = make_room(cells), np.zeros((1, 2, 1), np.uint8)
    >>> set_planes(cells.array, cells.by_feature, 3, limits, np.array([3]), *room, out)
    True
    >>> [f"{plane:03b}" for plane in out[0, :, 0]]
    ['100', '110']
    """
    n_features = out.shape[0]
    octets = np.zeros(ROWS, np.uint8)
    words = octets.view(np.uint64)
    n_unknown = 0
    for row in range(0, n_samples, ROWS):
        n_rows = min(ROWS, n_samples - row)
        for column in range(0, n_features, COLUMNS):
            n_columns = min(COLUMNS, n_features - column)
            _transpose(block, by_feature, row, n_rows, column, n_columns, tile)
            for j in range(column, column + n_columns):
                short, code, n_missing = tile[j - column], missing[j], 0
                _count_limits(short, limits[j], counts)
                for s in range(n_rows):
                    is_missing = short[s] != short[s]
                    n_missing += is_missing
                    octets[s] = code if is_missing else counts[s]
                for s in range(n_rows, ROWS):
                    octets[s] = 0
                n_unknown += n_missing if code < 0 else 0
                for byte in range(len(words)):
                    words[byte] = transpose_bits(words[byte])
                for bit in range(out.shape[1]):
                    plane = out[j, bit][row // 8 : (row + n_rows + 7) // 8]
                    for byte in range(len(plane)):
                        plane[byte] = words[byte] >> np.uint64(8 * bit)
    return n_unknown == 0


@jit(
    void(
        const(float32[:, ::1]),
        boolean,
        int64,
        float32[:, ::1],
        int32[::1],
        float32[::1],
        float32[::1],
        int32[::1],
        float32[:, ::1],
        int64[::1],
    ),
    void(
        const(float64[:, ::1]),
        boolean,
        int64,
        float64[:, ::1],
        int64[::1],
        float64[::1],
        float64[::1],
        int64[::1],
        float64[:, ::1],
        int64[::1],
    ),
    void(
        const(int64[:, ::1]),
        boolean,
        int64,
        float64[:, ::1],
        int64[::1],
        float64[::1],
        float64[::1],
        int64[::1],
        float64[:, ::1],
        int64[::1],
    ),
)
def add_columns(
    block: np.ndarray,
    by_feature: bool,
    n_samples: int,
    tile: np.ndarray,
    known: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    n_missing: np.ndarray,
    values: np.ndarray,
    n_values: np.ndarray,
) -> None:
    """Update range, missing count and distinct values of each column with a block of further rows.

    Parameters
    ----------
    block, by_feature, n_samples
        The attributes of `Cells`.
    tile, known
        Work memory, from `make_room`.
    low, high
        Minimum and maximum so far (feature,), with the type of the cells; NaN is ignored.
    n_missing
        Number of NaN so far, integers (feature,). Integers with the bytes of a cell are fastest.
    values
        The distinct values so far (limit, feature), with the type of the cells, unordered and
        padded with NaN.
    n_values
        int64 (feature,): the number of distinct values so far. Once it has reached the limit, no
        more values are added.

    Examples
    --------
    >>> cells = as_cells(np.array([[1.0], [np.nan], [3.0], [1.0]]))
    >>> low, high, values = np.array([np.inf]), np.array([-np.inf]), np.full((5, 1), np.nan)
    >>> n_missing, n_values = np.zeros(1, np.int64), np.zeros(1, np.int64)
    >>> room = make_room(cells)
    >>> add_columns(cells.array, False, 4, *room, low, high, n_missing, values, n_values)
    >>> low, high, n_missing, values[: n_values[0], 0]
    (array([1.]), array([3.]), array([1]), array([1., 3.]))
    """
    limit, n_features = values.shape
    of_tile = np.zeros((COLUMNS, limit), values.dtype)
    is_wide = n_features >= WIDE and not by_feature
    for column in range(0, n_features, COLUMNS):
        end = min(column + COLUMNS, n_features)
        n_columns = end - column
        for j in range(n_columns):
            for k in range(limit):
                of_tile[j, k] = values[k, column + j]
        for row in range(0, n_samples, ROWS):
            n_rows = min(ROWS, n_samples - row)
            n_open = 0
            for j in range(column, end):
                n_open += n_values[j] < limit
            if not by_feature:
                found = low[column:end], high[column:end], n_missing[column:end]
                _widen(block, row, n_rows, column, *found)
                if is_wide and n_open:
                    _add_by_sample(
                        block, row, n_rows, column, end, tile[0], known, values, n_values
                    )
                if is_wide or n_open == 0:
                    continue
            _transpose(block, by_feature, row, n_rows, column, n_columns, tile)
            for j in range(n_columns):
                short, at = tile[j], column + j
                if by_feature:
                    low[at], high[at], n_nan = _range_of(short, n_rows, low[at], high[at])
                    n_missing[at] += n_nan
                if n_values[at] < limit:
                    n_values[at] = _add_values(short, n_rows, of_tile[j], n_values[at], known)
        if not is_wide:
            for j in range(n_columns):
                for k in range(limit):
                    values[k, column + j] = of_tile[j, k]


@jit()
def _widen(
    block: np.ndarray,
    row: int,
    n_rows: int,
    column: int,
    low: np.ndarray,
    high: np.ndarray,
    n_missing: np.ndarray,
) -> None:
    """Update the minimum, the maximum and the missing count of some columns with further rows."""
    n_columns = len(low)
    whole = n_rows - n_rows % 4
    for s in range(row, row + whole, 4):
        first, second = block[s, column:], block[s + 1, column:]
        third, fourth = block[s + 2, column:], block[s + 3, column:]
        for j in range(n_columns):
            a, b, c, d = first[j], second[j], third[j], fourth[j]
            least = low[j]
            least = a if a < least else least
            least = b if b < least else least
            least = c if c < least else least
            low[j] = d if d < least else least
        for j in range(n_columns):
            a, b, c, d = first[j], second[j], third[j], fourth[j]
            most = high[j]
            most = a if a > most else most
            most = b if b > most else most
            most = c if c > most else most
            high[j] = d if d > most else most
        for j in range(n_columns):
            a, b, c, d = first[j], second[j], third[j], fourth[j]
            n_missing[j] += (a != a) + (b != b) + (c != c) + (d != d)
    for s in range(row + whole, row + n_rows):
        for j in range(n_columns):
            x = block[s, column + j]
            low[j] = x if x < low[j] else low[j]
            high[j] = x if x > high[j] else high[j]
            n_missing[j] += x != x


@jit()
def _range_of(cells: np.ndarray, n_rows: int, low: float, high: float) -> tuple[float, float, int]:
    """Return the minimum, the maximum and the number of NaN, of some cells and an earlier range."""
    lows, highs = np.full(LANES, low, cells.dtype), np.full(LANES, high, cells.dtype)
    n_nan, whole = 0, n_rows - n_rows % LANES
    for s in range(n_rows):
        n_nan += cells[s] != cells[s]
    for s in range(0, whole, LANES):
        for k in range(LANES):  # several at once, since the order of comparisons is kept otherwise
            x = cells[s + k]
            lows[k] = x if x < lows[k] else lows[k]
            highs[k] = x if x > highs[k] else highs[k]
    for s in range(whole, n_rows):
        x = cells[s]
        lows[0] = x if x < lows[0] else lows[0]
        highs[0] = x if x > highs[0] else highs[0]
    for k in range(1, LANES):
        lows[0], highs[0] = min(lows[0], lows[k]), max(highs[0], highs[k])
    return lows[0], highs[0], n_nan


@jit()
def _add_values(
    cells: np.ndarray, n_rows: int, values: np.ndarray, n_values: int, known: np.ndarray
) -> int:
    """Append new distinct values of a short column to ``values``; return the number of values."""
    for s in range(ROWS):
        known[s] = 0
    last = n_values - 1
    for k in range(0, n_values, 4):
        a, b = values[k], values[min(k + 1, last)]
        c, d = values[min(k + 2, last)], values[min(k + 3, last)]
        for s in range(ROWS):
            x = cells[s]
            known[s] |= (x == a) | (x == b) | (x == c) | (x == d)
    n_new = 0
    for s in range(n_rows):
        n_new += (known[s] == 0) & (cells[s] == cells[s])
    if n_new == 0:
        return n_values
    for s in range(n_rows):
        if known[s] == 0 and cells[s] == cells[s]:
            k = 0
            while k < n_values and values[k] != cells[s]:
                k += 1
            if k == n_values:
                values[k] = cells[s]
                n_values += 1
                if n_values == values.shape[0]:
                    break
    return n_values


@jit()
def _add_by_sample(
    block: np.ndarray,
    row: int,
    n_rows: int,
    column: int,
    end: int,
    cells: np.ndarray,
    known: np.ndarray,
    values: np.ndarray,
    n_values: np.ndarray,
) -> None:
    """Append new distinct values of the columns from ``column`` to ``end`` to ``values``."""
    limit, n_columns = values.shape[0], end - column
    n_most = 0
    for j in range(column, end):
        if n_values[j] < limit:
            n_most = max(n_most, n_values[j])
    for s in range(row, row + n_rows):
        given = block[s, column:end]
        for j in range(n_columns):
            cells[j] = given[j]
            known[j] = n_values[column + j] == limit
        for j in range(n_columns):
            known[j] |= cells[j] != cells[j]
        for k in range(n_most):
            value = values[k, column:end]
            for j in range(n_columns):
                known[j] |= cells[j] == value[j]
        n_known = 0
        for j in range(n_columns):
            n_known += known[j]
        if n_known == n_columns:
            continue
        for j in range(n_columns):
            if known[j] == 0:
                n = n_values[column + j]
                values[n, column + j] = cells[j]
                n_values[column + j] = n + 1
                n_most = max(n_most, n + 1)
