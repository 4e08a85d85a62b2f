"""Linear rows that depend on few combinations of codes.

A linear row (see `posterior`) depends on the codes of a feature and its parents. If these codes
have few combinations, the row is computed once for every combination, and then looked up for every
sample.
"""

from __future__ import annotations

import math

import numpy as np
from numba.types import boolean, float64, int64, uint8, void

from hofs_dask.kernels._jit import const, jit
from hofs_dask.kernels.posterior import LIMIT, mix, multiply_class, set_signals, sum_squares
from hofs_dask.kernels.vector import (
    BITS,
    LOG_2,
    STRIP,
    log_1p,
    muladd,
    power_of_two,
    sum_weighted,
)

#: If the ratio of the factors of two classes is larger than this, logarithms must be used.
HUGE = 1e75
#: Maximum number of combinations of codes for which a linear row is tabulated.
GRID = 1024


@jit()
def _fill_grid(
    own: np.ndarray, numbers: np.ndarray, parents: np.ndarray, k: int, grid: np.ndarray
) -> int:
    """Set the values of k parents and the candidate in every cell; return the number of cells.

    A cell is a combination of codes.
    """
    width: int = numbers.shape[1]
    n_cells: int = own.shape[0]
    for _ in range(k):
        n_cells *= width
    stride = n_cells
    for j in range(k):
        stride //= width
        for block in range(0, n_cells, stride * width):
            for a in range(width):
                number, first = numbers[parents[j], a], block + a * stride
                for cell in range(first, first + stride):
                    grid[j, cell] = number
    for block in range(0, n_cells, own.shape[0]):
        for b in range(own.shape[0]):
            grid[k, block + b] = own[b]
    return n_cells


@jit(
    void(
        const(float64[::1]),
        const(float64[:, ::1]),
        const(int64[::1]),
        const(float64[:, :, ::1]),
        const(float64[:, :, ::1]),
        const(float64[:, ::1]),
        const(float64[:, ::1]),
        boolean,
        float64[:, :, ::1],
    )
)
def set_grid(
    values: np.ndarray,
    numbers: np.ndarray,
    parents: np.ndarray,
    logs: np.ndarray,
    slopes: np.ndarray,
    shifts: np.ndarray,
    scales: np.ndarray,
    logistic: bool,
    out: np.ndarray,
) -> None:
    """Set ``out[fold, class]`` to a linear row for every combination of parent codes and own code.

    Parameters
    ----------
    values, numbers, parents
        The values of the codes of the feature, (code,); the values of the codes of all columns,
        (column, code); and the columns that are parents.
    logs
        The logs of the table of the feature, (fold, class, code).
    slopes, shifts, scales, logistic
        See `posterior.add_linear`.
    out
        (fold, class, cell): logs. A cell is a combination of codes; the own code varies fastest.

    Examples
    --------
    >>> one, out = np.ones((1, 1)), np.empty((1, 1, 1))
    >>> set_grid(np.zeros(1), one, np.zeros(1, np.intp), one[None], one[None], one, one, False, out)
    >>> out
    array([[[-1.]]])
    """
    k = parents.shape[0]
    grid, places = np.empty((k + 1, out.shape[2])), np.arange(k)
    n_cells = _fill_grid(values, numbers, parents, k, grid)
    for fold in range(out.shape[0]):
        for c in range(out.shape[1]):
            row = (slopes[fold, c], shifts[fold, c], scales[fold, c])
            _grid_logs(
                grid, k, n_cells, places, np.exp(logs[fold, c]), *row, logistic, out[fold, c]
            )
            for cell in range(n_cells):
                out[fold, c, cell] *= LOG_2


@jit()
def _grid_logs(
    grid: np.ndarray,
    k: int,
    n_cells: int,
    places: np.ndarray,
    table: np.ndarray,
    slopes: np.ndarray,
    shift: float,
    scale: float,
    logistic: bool,
    out: np.ndarray,
) -> None:
    """Set ``out`` to the log2 of the product of table and density, for one class and every cell."""
    set_signals(grid[k], n_cells, grid, 0, places, slopes, shift, scale, out)
    for cell in range(n_cells):
        x = out[cell]
        if logistic:
            size = -x if x < 0.0 else x
            bits = BITS * size if size < 690.0 else 1000.0  # smaller powers are negligible
            x = -size - 2.0 * log_1p(power_of_two(-bits))
        else:
            x = -0.5 * x * x
        out[cell] = BITS * x if grid[k, cell] == grid[k, cell] else 0.0
    n_codes = table.shape[0]
    for b in range(n_codes):
        log = BITS * math.log(table[b])
        for cell in range(b, n_cells, n_codes):
            out[cell] += log


@jit(
    void(
        const(uint8[:, ::1]),
        const(uint8[:, ::1]),
        const(float64[:, ::1]),
        const(float64[:, ::1]),
        const(int64[:, ::1]),
        const(float64[:, :, :, :, ::1]),
        const(float64[:, :, :, :, ::1]),
        const(float64[:, :, :, ::1]),
        const(float64[:, :, :, ::1]),
        boolean,
        int64,
        const(int64[::1]),
        const(float64[::1]),
        const(float64[:, ::1]),
        float64[:, ::1],
        float64[:, ::1],
    )
)
def score_grids(
    codes: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    numbers: np.ndarray,
    parents: np.ndarray,
    tables: np.ndarray,
    slopes: np.ndarray,
    shifts: np.ndarray,
    scales: np.ndarray,
    logistic: bool,
    fold: int,
    starts: np.ndarray,
    weights: np.ndarray,
    probability: np.ndarray,
    out: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Set ``out[i]`` to the sum of ``log R_y - log Z`` for candidate i, whose row is linear.

    The docstring of `posterior` defines R and Z. A row is computed once for every combination of
    the codes of its parents and of the candidate, and then looked up for every sample. There are at
    most `GRID` combinations.

    Parameters
    ----------
    codes, columns
        The candidates, uint8 (feature, sample), and the selected features, uint8 (column, sample).
    values, numbers
        The values of their codes, (feature, code) and (column, code).
    parents, tables, slopes, shifts, scales, logistic, fold, starts, weights, probability
        See `posterior.score_linear`; here R is the table times the density.
    out, squares
        See `posterior.score_linear`; NaN if a Z is below `vector.TINY` or if the ratio of the
        factors of two classes is too large.

    Examples
    --------
    >>> out, row, code = np.zeros((1, 1)), np.ones((1, 1, 1, 1)), np.zeros((1, 1), np.uint8)
    >>> score_grids(code, code, np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1), np.intp),
    ...             row[..., None], row[..., None], row, row, True, 0, np.array([0, 1]),
    ...             np.zeros(0), np.ones((1, 1)), out, out[:0])
    >>> out
    array([[0.]])
    """
    n_classes, n_samples = probability.shape
    n_codes, width = values.shape[1], numbers.shape[1]
    grid, logs = np.empty((parents.shape[1] + 1, GRID)), np.empty((n_classes, GRID))
    places = np.empty(parents.shape[1], np.intp)
    cells, truth, total = np.empty(n_samples, np.uint16), np.empty(STRIP + 3), np.empty(STRIP + 3)
    for i in range(codes.shape[0]):
        for kind in range(slopes.shape[1]):
            out[i, kind] = 0.0
            if squares.size:
                squares[i, kind] = 0.0
        if parents[i, 0] < 0:
            continue
        k = 0
        for s in range(n_samples):
            cells[s] = 0
        for j in range(parents.shape[1]):
            places[j] = j if parents[i, j] >= 0 else -1
            if parents[i, j] >= 0:
                k += 1
                column = columns[parents[i, j]]
                for s in range(n_samples):
                    cells[s] = cells[s] * width + column[s]
        code = codes[i]
        for s in range(n_samples):
            cells[s] = cells[s] * n_codes + code[s]
        n_cells = _fill_grid(values[i], numbers, parents[i], k, grid)
        for kind in range(slopes.shape[1]):
            for c in range(n_classes):
                row = (slopes[i, kind, fold, c], shifts[i, kind, fold, c], scales[i, kind, fold, c])
                table = tables[i, kind, fold, c]
                _grid_logs(grid, k, n_cells, places, table, *row, logistic, logs[c])
            # with two classes, the ratios of their factors; otherwise the ratios to the largest
            # factor
            if n_classes == 2:
                for cell in range(n_cells):
                    x = logs[1, cell] - logs[0, cell]
                    x = x if x > -LIMIT else -LIMIT
                    x = x if x < LIMIT else LIMIT
                    logs[0, cell] = power_of_two(x)
                    logs[1, cell] = power_of_two(-x)
            else:
                for cell in range(n_cells):
                    top = logs[0, cell]
                    for c in range(1, n_classes):
                        top = logs[c, cell] if logs[c, cell] > top else top
                    for c in range(n_classes):
                        x = logs[c, cell] - top
                        logs[c, cell] = power_of_two(x if x > -LIMIT else -LIMIT)
            for start in range(0, n_samples, STRIP):
                n = n_samples - start if n_samples - start < STRIP else STRIP
                part = cells[start:]
                for s in range(n):
                    truth[s] = 1.0
                if n_classes != 2:
                    mix(probability, start, part, n, logs, total)
                for c in range(n_classes):
                    first, last = starts[c] - start, starts[c + 1] - start
                    first, last = (first if first > 0 else 0), (last if last < n else n)
                    if first >= last:
                        continue
                    if n_classes == 2:
                        mine, other = probability[c, start:], probability[1 - c, start:]
                        _weigh(mine, other, part, logs[c], first, last, total)
                    else:
                        multiply_class(part, logs[c], first, last, truth)
                if squares.size:
                    squares[i, kind] += sum_squares(truth, total, weights, start, n)
                if n_classes != 2:
                    out[i, kind] += sum_weighted(truth, weights, start, n)
                out[i, kind] -= sum_weighted(total, weights, start, n)


@jit()
def _weigh(
    mine: np.ndarray,
    other: np.ndarray,
    cells: np.ndarray,
    ratio: np.ndarray,
    first: int,
    last: int,
    out: np.ndarray,
) -> None:
    """Set ``out = mine + other * ratio[cells]`` from first to last; 0 for values above `HUGE`."""
    mine, other, cells, out = (
        mine[first:last],
        other[first:last],
        cells[first:last],
        out[first:last],
    )
    for s in range(last - first):
        x = ratio[cells[s]]
        x = muladd(other[s], x, mine[s])
        out[s] = x if x < HUGE else 0.0
