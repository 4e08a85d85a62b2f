"""Class posteriors sample by sample: rows that multiply the classes, and what they gain.

A row multiplies the probability of class c by a factor ``R_c`` that the codes of a sample decide.
The log posterior of the true class y then changes by ``log R_y - log Z``, ``Z = sum_c q_c R_c``,
with q the posterior before. Where factors are tables this needs no exponential and no logarithm a
sample: the Z of many samples are multiplied, and one logarithm is taken of the product.

Kernels work on samples of one fold, whose tables then stay in the first-level cache, and along
contiguous samples, so that LLVM makes vector code of the loops. Indices in loops are a range's own:
of a sum it could not know that it is not negative, which numba has a meaning for.
"""

from __future__ import annotations

import math

import numpy as np

from hofs_dask.kernels._jit import jit
from hofs_dask.kernels.vector import (
    BITS,
    LOG_2,
    STRIP,
    add_any,
    log_1p,
    muladd,
    power_of_two,
    sum_logs,
)

#: Logs of densities are cut here, in bits, far below `vector.TINY`.
LIMIT = 500.0
#: Ratios of classes above this are left to logarithms.
HUGE = 1e75
#: Choices of codes up to which a linear row is worked out for each and not for every sample.
GRID = 1024
#: Signals of two classes that are closer than this are both beyond reach where one is cut.
NEAR = 170.0


@jit
def add_tables(
    posterior: np.ndarray,
    codes: np.ndarray,
    bases: np.ndarray,
    parents: np.ndarray,
    tables: np.ndarray,
    fold: int,
) -> None:
    """Add ``tables[j, fold, class, bases[parents[j]] + codes]`` of every j to log posteriors.

    Examples
    --------
    >>> posterior, zero = np.zeros((1, 1)), np.zeros((1, 1), np.uint16)
    >>> codes, parents = np.zeros(1, np.uint8), np.zeros(1, np.intp)
    >>> add_tables(posterior, codes, zero, parents, np.full((1, 1, 1, 1), -3.0), 0)
    >>> posterior
    array([[-3.]])
    """
    n_classes, n_samples = posterior.shape
    for j in range(parents.shape[0]):
        base = bases[parents[j]]
        for c in range(n_classes):
            table = tables[j, fold, c]
            for s in range(n_samples):
                posterior[c, s] += table[base[s] + codes[s]]


@jit
def _signals(
    own: np.ndarray,
    n_samples: int,
    numbers: np.ndarray,
    start: int,
    parents: np.ndarray,
    slopes: np.ndarray,
    shift: float,
    scale: float,
    out: np.ndarray,
) -> None:
    """Set ``scale * (own - shift - slopes . parents)`` of the samples from ``start``."""
    constant = -scale * shift
    for j in range(0, parents.shape[0], 2):
        if parents[j] < 0:
            break
        # two at a time; the second may be none
        two = j + 1 < parents.shape[0] and parents[j + 1] >= 0
        first, second = numbers[parents[j], start:], numbers[parents[j + two], start:]
        slope, other = -scale * slopes[j], -scale * slopes[j + two] * two
        for s in range(n_samples):
            before = muladd(scale, own[s], constant) if j == 0 else out[s]
            out[s] = muladd(other, second[s], muladd(slope, first[s], before))


@jit
def add_linear(
    posterior: np.ndarray,
    codes: np.ndarray,
    values: np.ndarray,
    numbers: np.ndarray,
    parents: np.ndarray,
    slopes: np.ndarray,
    shifts: np.ndarray,
    scales: np.ndarray,
    fold: int,
    logistic: bool,
) -> None:
    """Add the log density of a linear signal to log posteriors, nothing where the code is missing.

    Parameters
    ----------
    posterior
        What is added to, (class, sample).
    codes, values
        The codes of the feature, (sample,), and the number of each code, NaN where missing.
    numbers, parents
        The numbers of all columns, (column, sample), and the columns that are parents, to the first
        below zero.
    slopes, shifts, scales
        The row: (fold, class, parent), (fold, class) and (fold, class).
    fold
        The fold of the samples.
    logistic
        Whether the density of the signal is logistic, else gaussian.

    Notes
    -----
    The signal is ``s = scale * (x - shift - slopes . parents)`` and adds ``-|s| - 2 log(1 +
    exp(-|s|))`` or ``-s^2 / 2``, without constants and scales.

    Examples
    --------
    >>> posterior, one = np.zeros((1, 1)), np.ones((1, 1))
    >>> add_linear(posterior, np.zeros(1, np.uint8), np.zeros(1), one, np.zeros(1, np.intp),
    ...            one[None], one, one, 0, False)
    >>> posterior
    array([[-2.]])
    """
    n_classes, n_samples = posterior.shape
    own, signal = np.empty(n_samples), np.empty(n_samples)
    for s in range(n_samples):
        own[s] = values[codes[s]]
    for c in range(n_classes):
        row = (parents, slopes[fold, c], shifts[fold, c], scales[fold, c])
        _signals(own, n_samples, numbers, 0, *row, signal)
        for s in range(n_samples):
            x = signal[s]
            if logistic:
                size = -x if x < 0.0 else x
                bits = BITS * size if size < 690.0 else 1000.0  # what is less is nothing beside 1
                gain = -size - 2.0 * log_1p(power_of_two(-bits))
            else:
                gain = -0.5 * x * x
            posterior[c, s] += gain if own[s] == own[s] else 0.0


@jit
def _mix(
    weights: np.ndarray, start: int, cells: np.ndarray, n: int, table: np.ndarray, out: np.ndarray
) -> None:
    """Set ``out = sum_c weights[c, start:] * table[c, cells]``, two classes at a time."""
    n_classes = weights.shape[0]
    odd = n_classes % 2
    if odd:
        weight, first = weights[0, start:], table[0]
        for s in range(n):
            out[s] = weight[s] * first[cells[s]]
    for c in range(odd, n_classes, 2):
        first, second = table[c], table[c + 1]
        weight, other = weights[c, start:], weights[c + 1, start:]
        for s in range(n):
            cell = cells[s]
            both = weight[s] * first[cell] + other[s] * second[cell]
            out[s] = both if c == 0 else out[s] + both


@jit
def _of_class(cells: np.ndarray, table: np.ndarray, first: int, last: int, out: np.ndarray) -> None:
    """Multiply ``out[first:last]`` by the table of their cells."""
    part, target = cells[first:last], out[first:last]
    for s in range(last - first):
        target[s] *= table[part[s]]


@jit
def sum_squares(truth: np.ndarray, total: np.ndarray, n: int) -> float:
    """The sum of squares of ``log(truth / total)`` of the first n, or more: of ``r + 1 / r - 2``.

    Examples
    --------
    >>> round(sum_squares(np.array([1.0, 2.0]), np.array([1.0, 1.0]), 2), 12)
    0.5
    """
    result = 0.0
    for s in range(n):
        difference = truth[s] - total[s]
        result = add_any(difference, np.divide(difference, truth[s] * total[s]), result)
    return result


@jit
def score_tables(
    codes: np.ndarray,
    bases: np.ndarray,
    parents: np.ndarray,
    tables: np.ndarray,
    fold: int,
    starts: np.ndarray,
    probability: np.ndarray,
    out: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Set ``out[i]`` to minus the sum of ``log Z`` for rows that are products of tables.

    With squares it is the sum of ``log R_y - log Z``, and there is one table only.

    Parameters
    ----------
    codes
        The candidates, uint8 (feature, sample), all samples of one fold.
    bases, parents
        Where the rows of parents begin in a table, uint16 (base, sample), and which of them each
        table of each candidate takes, (feature, table); -1 for a candidate without such a row.
    tables
        p(code | parent code, class), (feature, table, fold, class, base + code).
    fold
        The fold of the samples.
    starts
        Where the classes begin, (class + 1,), where the samples are sorted by them.
    probability
        The posterior, (class, sample).
    out
        (feature,): NaN where the Z of a sample is below `vector.TINY`, zero without a row.
    squares
        (feature,): the sum of squares of the gains of samples, or a little more; of no length
        where it is not wanted.

    Examples
    --------
    >>> zero, half, out = np.zeros((1, 1), np.uint16), np.full((2, 1), 0.5), np.zeros(1)
    >>> score_tables(np.zeros((1, 1), np.uint8), zero, np.zeros((1, 1), np.intp),
    ...              np.array([0.5, 1.0]).reshape(1, 1, 1, 2, 1), 0, np.zeros(0, np.intp), half,
    ...              out, np.zeros(0))
    >>> np.exp(-out).round(12)
    array([0.75])
    """
    n_classes, n_samples = probability.shape
    last = parents.shape[1] - 1
    cells, total = np.empty(n_samples, np.uint16), np.empty(n_samples + 3)
    work, truth = np.empty((n_classes, n_samples)), np.empty(n_samples + 3)
    for i in range(codes.shape[0]):
        out[i] = 0.0
        if squares.size:
            squares[i] = 0.0
        if parents[i, 0] < 0:
            continue
        weights = probability
        for j in range(last + 1):
            base = bases[parents[i, j]]
            table = tables[i, j, fold]
            for s in range(n_samples):
                cells[s] = base[s] + codes[i, s]
            if j < last:
                for c in range(n_classes):
                    for s in range(n_samples):
                        work[c, s] = weights[c, s] * table[c, cells[s]]
                weights = work
            else:
                _mix(weights, 0, cells, n_samples, table, total)
                if squares.size:
                    truth[:] = 1.0
                    for c in range(n_classes):
                        _of_class(cells, table[c], starts[c], starts[c + 1], truth)
                    squares[i] = sum_squares(truth, total, n_samples)
                    out[i] = sum_logs(truth, n_samples)
                out[i] -= sum_logs(total, n_samples)


@jit
def _alike(slopes: np.ndarray, shifts: np.ndarray, scales: np.ndarray) -> bool:
    """Whether the signals of the classes differ by constants, that are not too large."""
    for c in range(1, slopes.shape[0]):
        if scales[c] != scales[0] or not -NEAR < scales[c] * (shifts[0] - shifts[c]) < NEAR:
            return False
        for j in range(slopes.shape[1]):
            if slopes[c, j] != slopes[0, j]:
                return False
    return True


@jit
def score_linear(
    codes: np.ndarray,
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
    probability: np.ndarray,
    out: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Set ``out[i]`` to the sum of ``log density_y - log Z`` for tables times densities.

    With squares it is the sum of ``log R_y - log Z``.

    Parameters
    ----------
    codes, values
        The candidates, uint8 (feature, sample), and the number of each code, (feature, code).
    numbers, parents
        The numbers of all columns, (column, sample), and the parents of each candidate, (feature,
        parent), padded with -1.
    tables
        What the densities are multiplied by, (feature, kind, fold, class, code), 1 at most.
    slopes, shifts, scales
        The rows, see `add_linear`, with axes (feature, kind, ...).
    logistic, fold
        The density of the signals, and the fold of the samples.
    starts
        The samples are sorted by class: where each begins, (class + 1,).
    probability
        The posterior, (class, sample).
    out
        (feature, kind): NaN where a Z or a density of the true class is below `vector.TINY`, zero
        without parents.
    squares
        (feature, kind), see `score_tables`.

    Examples
    --------
    >>> out, row = np.zeros((1, 1)), np.ones((1, 1, 1, 1))
    >>> score_linear(np.zeros((1, 1), np.uint8), np.zeros((1, 1)), np.zeros((1, 1)),
    ...              np.zeros((1, 1), np.intp), row[..., None], row[..., None], row, row, True,
    ...              0, np.array([0, 1]), np.ones((1, 1)), out, out[:0])
    >>> out
    array([[0.]])
    """
    n_classes, n_samples = probability.shape
    cells = np.empty(STRIP, np.uint16)
    own, signal, density = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    truth, total = np.empty(STRIP + 3), np.empty(STRIP + 3)
    work, own_truth = np.empty((n_classes, STRIP)), np.empty(STRIP + 3)
    # densities are powers of two: 2^s of a logistic signal in bits, 2^-(s^2) of a gaussian one
    unit = BITS if logistic else math.sqrt(0.5 * BITS)
    for i in range(codes.shape[0]):
        for kind in range(slopes.shape[1]):
            out[i, kind] = 0.0
            if squares.size:
                squares[i, kind] = 0.0
    for start in range(0, n_samples, STRIP):
        n = n_samples - start if n_samples - start < STRIP else STRIP
        for i in range(codes.shape[0]):
            if parents[i, 0] < 0:
                continue
            value, code = values[i], codes[i, start:]
            for s in range(n):
                cells[s] = code[s]
            for s in range(n):  # a loop of its own: with the one above it would not be vector code
                own[s] = value[cells[s]]
            for kind in range(slopes.shape[1]):
                slope, shift, scale = (
                    slopes[i, kind, fold],
                    shifts[i, kind, fold],
                    scales[i, kind, fold],
                )
                alike = logistic and _alike(slope, shift, scale)
                for c in range(n_classes):
                    factor = 1.0
                    if c == 0 or not alike:
                        row = (parents[i], slope[c], shift[c], scale[c] * unit)
                        _signals(own, n, numbers, start, *row, signal)
                        if logistic:
                            for s in range(n):
                                x = signal[s]
                                x = x if x < LIMIT else LIMIT
                                signal[s] = power_of_two(x if x > -LIMIT else -LIMIT)
                    else:
                        factor = math.exp(scale[c] * (shift[0] - shift[c]))
                    before = probability[c, start:]
                    for s in range(n):
                        if logistic:
                            x = factor * signal[s]
                            x = np.divide(x, (1.0 + x) * (1.0 + x))
                        else:
                            x = -signal[s] * signal[s]
                            x = power_of_two(x if x > -LIMIT else -LIMIT)
                        x = x if own[s] == own[s] else 1.0
                        density[s] = x
                        work[c, s] = x * before[s]
                    first, last = starts[c] - start, starts[c + 1] - start
                    first, last = (first if first > 0 else 0), (last if last < n else n)
                    if first < last:
                        of_class, density_of_class = truth[first:last], density[first:last]
                        for s in range(last - first):
                            of_class[s] = density_of_class[s]
                table = tables[i, kind, fold]
                _mix(work, 0, cells, n, table, total)
                if squares.size:
                    own_truth[:n] = truth[:n]
                    for c in range(n_classes):
                        first, last = starts[c] - start, starts[c + 1] - start
                        first, last = (first if first > 0 else 0), (last if last < n else n)
                        if first < last:
                            _of_class(cells, table[c], first, last, own_truth)
                    squares[i, kind] += sum_squares(own_truth, total, n)
                    out[i, kind] += sum_logs(own_truth, n)
                else:
                    out[i, kind] += sum_logs(truth, n)
                out[i, kind] -= sum_logs(total, n)


@jit
def _fill_grid(
    own: np.ndarray, numbers: np.ndarray, parents: np.ndarray, k: int, grid: np.ndarray
) -> int:
    """Set the numbers of k parents, and last the candidate's own, in every cell; their number."""
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


@jit
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
    """Set ``out[fold, class]`` to a linear row for every choice of its parents' codes and its own.

    Parameters
    ----------
    values, numbers, parents
        The numbers of the feature's codes, (code,), those of all columns, (column, code), and which
        of these are parents.
    logs
        The logs of its table, (fold, class, code).
    slopes, shifts, scales, logistic
        See `add_linear`.
    out
        (fold, class, cell): logs, the cells in the order of the parents' codes and then its own.

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


@jit
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
    """Set the log of table times density of one class in every cell, in bits."""
    _signals(grid[k], n_cells, grid, 0, places, slopes, shift, scale, out)
    for cell in range(n_cells):
        x = out[cell]
        if logistic:
            size = -x if x < 0.0 else x
            bits = BITS * size if size < 690.0 else 1000.0  # what is less is nothing beside 1
            x = -size - 2.0 * log_1p(power_of_two(-bits))
        else:
            x = -0.5 * x * x
        out[cell] = BITS * x if grid[k, cell] == grid[k, cell] else 0.0
    n_codes = table.shape[0]
    for b in range(n_codes):
        log = BITS * math.log(table[b])
        for cell in range(b, n_cells, n_codes):
            out[cell] += log


@jit
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
    probability: np.ndarray,
    out: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Set ``out[i]`` to the sum of ``log R_y - log Z`` of linear rows of few choices of codes.

    A row is worked out for every choice of the codes of its parents and of the candidate, `GRID` at
    most, and looked up for the samples.

    Parameters
    ----------
    codes, columns
        The candidates, uint8 (feature, sample), and the chosen features, uint8 (column, sample).
    values, numbers
        The numbers of their codes, (feature, code) and (column, code).
    parents, tables, slopes, shifts, scales, logistic, fold, starts, probability
        See `score_linear`; here R is the table times the density.
    out, squares
        See `score_linear`; NaN where a Z is below `vector.TINY` or a ratio of classes too large.

    Examples
    --------
    >>> out, row, code = np.zeros((1, 1)), np.ones((1, 1, 1, 1)), np.zeros((1, 1), np.uint8)
    >>> score_grids(code, code, np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1), np.intp),
    ...             row[..., None], row[..., None], row, row, True, 0, np.array([0, 1]),
    ...             np.ones((1, 1)), out, out[:0])
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
            # powers: of two classes the ratios of either to the other, else of all to the largest
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
                    _mix(probability, start, part, n, logs, total)
                for c in range(n_classes):
                    first, last = starts[c] - start, starts[c + 1] - start
                    first, last = (first if first > 0 else 0), (last if last < n else n)
                    if first >= last:
                        continue
                    if n_classes == 2:
                        mine, other = probability[c, start:], probability[1 - c, start:]
                        _weigh(mine, other, part, logs[c], first, last, total)
                    else:
                        _of_class(part, logs[c], first, last, truth)
                if squares.size:
                    squares[i, kind] += sum_squares(truth, total, n)
                if n_classes != 2:
                    out[i, kind] += sum_logs(truth, n)
                out[i, kind] -= sum_logs(total, n)


@jit
def _weigh(
    mine: np.ndarray,
    other: np.ndarray,
    cells: np.ndarray,
    ratio: np.ndarray,
    first: int,
    last: int,
    out: np.ndarray,
) -> None:
    """Set ``out = mine + other * ratio[cells]`` from first to last; nothing where it is `HUGE`."""
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
