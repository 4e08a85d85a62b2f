"""Kernels over the blocks of a source: ranges and distinct values of columns, or codes of values.

A cell is one value of a block. Blocks are (sample, feature), but the results are stored by feature.
A kernel therefore copies `ROWS` samples of `COLUMNS` features at a time into a transposed tile. The
tile consists of short columns, which stay in the CPU cache. A loop over a short column is
vectorized.
"""

from __future__ import annotations

import numpy as np
from numba.types import boolean, float32, float64, int32, int64, uint8, void

from hofs_dask.kernels._jit import const, jit
from hofs_dask.kernels.planes import transpose_bits

ROWS, COLUMNS = 256, 128
#: Number of unused cells after each short column. Without them, short columns would evict each
#: other from the L1 cache.
GAP = 16


def as_cells(block: np.ndarray) -> np.ndarray:
    """Return a block as float32 or float64, in C order and read-only, for the kernels.

    The block is copied only if necessary. The result is read-only, because numba would compile a
    kernel again for writable arrays.

    Examples
    --------
    >>> as_cells(np.arange(6, dtype=np.int16).reshape(2, 3)).dtype
    dtype('float32')
    """
    cells = np.ascontiguousarray(block, np.result_type(block.dtype, np.float32)).view()
    cells.flags.writeable = False
    return cells


def make_room(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return work memory for a tile of a block: short columns, and one integer per sample.

    An integer has as many bytes as a cell, so that a vector register holds equally many of both.

    Examples
    --------
    >>> [each.shape for each in make_room(np.zeros((4, 2), np.float32))]
    [(128, 272), (256,)]
    """
    cells = np.zeros((COLUMNS, ROWS + GAP), block.dtype)
    return cells, np.zeros(ROWS, f"i{block.dtype.itemsize}")


@jit()
def _transpose(block: np.ndarray, row: int, column: int, out: np.ndarray) -> None:
    """Set ``out`` to the short columns of a tile; entries after the last row are not changed."""
    n_rows = min(ROWS, block.shape[0] - row)
    for j in range(min(COLUMNS, block.shape[1] - column)):
        short = out[j]
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
        const(float32[:, ::1]),
        const(int64[::1]),
        float32[:, ::1],
        int32[::1],
        uint8[:, :, ::1],
    ),
    boolean(
        const(float64[:, ::1]),
        const(float64[:, ::1]),
        const(int64[::1]),
        float64[:, ::1],
        int64[::1],
        uint8[:, :, ::1],
    ),
)
def set_planes(
    block: np.ndarray,
    limits: np.ndarray,
    missing: np.ndarray,
    cells: np.ndarray,
    counts: np.ndarray,
    out: np.ndarray,
) -> bool:
    """Set the bit planes of the codes of a block.

    A code is the number of limits ``<= x``, or the missing code for NaN.

    Parameters
    ----------
    block
        float32 or float64 (sample, feature).
    limits
        (feature, limit), with the dtype of the block: increasing, then padded with NaN.
    missing
        int64 (feature,): the code of NaN, -1 if there is none.
    cells, counts
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
    >>> block, limits = np.array([[0.5], [2.0], [np.nan]]), np.array([[1.0, 2.0]])
    >>> out = np.zeros((1, 2, 1), np.uint8)
    >>> set_planes(block, limits, np.array([3]), *make_room(block), out)
    True
    >>> [f"{plane:03b}" for plane in out[0, :, 0]]
    ['100', '110']
    """
    n_samples, n_features = block.shape
    octets = np.zeros(ROWS, np.uint8)
    words = octets.view(np.uint64)
    n_unknown = 0
    for row in range(0, n_samples, ROWS):
        n_rows = min(ROWS, n_samples - row)
        for column in range(0, n_features, COLUMNS):
            _transpose(block, row, column, cells)
            for j in range(column, min(column + COLUMNS, n_features)):
                short, code, n_missing = cells[j - column], missing[j], 0
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


@jit()
def _widen(
    block: np.ndarray,
    row: int,
    n_rows: int,
    low: np.ndarray,
    high: np.ndarray,
    n_missing: np.ndarray,
) -> None:
    """Update the minimum, the maximum and the missing count of each column with further rows."""
    n_features = block.shape[1]
    whole = n_rows - n_rows % 4
    for s in range(row, row + whole, 4):
        for j in range(n_features):
            a, b, c, d = block[s, j], block[s + 1, j], block[s + 2, j], block[s + 3, j]
            least, most = low[j], high[j]
            least = a if a < least else least
            least = b if b < least else least
            least = c if c < least else least
            low[j] = d if d < least else least
            most = a if a > most else most
            most = b if b > most else most
            most = c if c > most else most
            high[j] = d if d > most else most
            n_missing[j] += (a != a) + (b != b) + (c != c) + (d != d)
    for s in range(row + whole, row + n_rows):
        for j in range(n_features):
            x = block[s, j]
            low[j] = x if x < low[j] else low[j]
            high[j] = x if x > high[j] else high[j]
            n_missing[j] += x != x


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


@jit(
    void(
        const(float32[:, ::1]),
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
    cells: np.ndarray,
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
    block
        float32 or float64 (sample, feature).
    cells, known
        Work memory, from `make_room`.
    low, high
        Minimum and maximum so far (feature,), with the dtype of the block; NaN is ignored.
    n_missing
        Number of NaN so far, integers (feature,). Integers with the bytes of a cell are fastest.
    values
        The distinct values so far (feature, limit), with the dtype of the block, unordered.
    n_values
        int64 (feature,): the number of distinct values so far. Once it has reached the limit, no
        more values are added.

    Examples
    --------
    >>> block = np.array([[1.0], [np.nan], [3.0], [1.0]])
    >>> low, high, values = np.array([np.inf]), np.array([-np.inf]), np.zeros((1, 5))
    >>> n_missing, n_values = np.zeros(1, np.int64), np.zeros(1, np.int64)
    >>> add_columns(block, *make_room(block), low, high, n_missing, values, n_values)
    >>> low, high, n_missing, values[0, : n_values[0]]
    (array([1.]), array([3.]), array([1]), array([1., 3.]))
    """
    n_samples, n_features = block.shape
    limit = values.shape[1]
    for row in range(0, n_samples, ROWS):
        n_rows = min(ROWS, n_samples - row)
        _widen(block, row, n_rows, low, high, n_missing)
        for column in range(0, n_features, COLUMNS):
            end = min(column + COLUMNS, n_features)
            wanted = 0
            for j in range(column, end):
                wanted += n_values[j] < limit
            if wanted == 0:
                continue
            _transpose(block, row, column, cells)
            for j in range(column, end):
                if n_values[j] < limit:
                    short = cells[j - column]
                    n_values[j] = _add_values(short, n_rows, values[j], n_values[j], known)
