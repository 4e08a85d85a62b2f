"""Class posteriors of samples: rows that multiply class probabilities, and their gains.

A row multiplies the probability of class c by a factor ``R_c`` that depends on the codes of a
sample. The log posterior of the true class y then increases by ``log R_y - log Z``, where
``Z = sum_c q_c R_c`` and q is the previous posterior. If the factors are tables, no exponential or
logarithm is needed for single samples: the Z of many samples are multiplied, and the logarithm of
the product is computed.

A kernel processes samples of one fold, so that the tables of this fold stay in the L1 cache. It
loops over contiguous samples, so that LLVM vectorizes the loops. Loop indices come directly from
``range``, because numba wraps negative indices, and LLVM cannot know that a computed index is not
negative.
"""

from __future__ import annotations

import math

import numpy as np
from numba.types import boolean, float64, int64, uint8, uint16, void

from hofs_dask.kernels._jit import const, jit
from hofs_dask.kernels.vector import (
    BITS,
    STRIP,
    add_any,
    log_1p,
    muladd,
    power_of_two,
    sum_weighted,
)

#: Logs of densities, in bits, are clipped at this absolute value. 2^-500 is far below the smallest
#: factor, `vector.TINY`.
LIMIT = 500.0
#: If the signals of two classes differ by less than this, and the density of one class is clipped,
#: then the densities of both are below `vector.TINY`.
NEAR = 170.0


@jit(
    void(
        float64[:, ::1],
        const(uint8[::1]),
        const(uint16[:, ::1]),
        const(int64[::1]),
        const(float64[:, :, :, ::1]),
        int64,
    )
)
def add_tables(
    posterior: np.ndarray,
    codes: np.ndarray,
    bases: np.ndarray,
    parents: np.ndarray,
    tables: np.ndarray,
    fold: int,
) -> None:
    """Add ``tables[j, fold, class, bases[parents[j]] + codes]`` to log posteriors, for all j.

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


@jit()
def set_signals(
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
    """Set ``out = scale * (own - shift - slopes . parents)`` for the samples from ``start``."""
    constant = -scale * shift
    for j in range(0, parents.shape[0], 2):
        if parents[j] < 0:
            break
        # two parents at a time; the second may not exist
        two = j + 1 < parents.shape[0] and parents[j + 1] >= 0
        first, second = numbers[parents[j], start:], numbers[parents[j + two], start:]
        slope, other = -scale * slopes[j], -scale * slopes[j + two] * two
        for s in range(n_samples):
            before = muladd(scale, own[s], constant) if j == 0 else out[s]
            out[s] = muladd(other, second[s], muladd(slope, first[s], before))


@jit(
    void(
        float64[:, ::1],
        const(uint8[::1]),
        const(float64[::1]),
        const(float64[:, ::1]),
        const(int64[::1]),
        const(float64[:, :, ::1]),
        const(float64[:, ::1]),
        const(float64[:, ::1]),
        int64,
        boolean,
    )
)
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
    """Add the log density of a linear signal to log posteriors, except for samples without a value.

    Parameters
    ----------
    posterior
        The log posteriors to add to, (class, sample).
    codes, values
        The codes of the feature, (sample,), and the value of each code, NaN for the missing code.
    numbers, parents
        The values of all columns, (column, sample), and the columns that are parents, padded with
        -1.
    slopes, shifts, scales
        Parameters of the row: (fold, class, parent), (fold, class) and (fold, class).
    fold
        The fold of the samples.
    logistic
        Whether the density of the signal is logistic instead of Gaussian.

    Notes
    -----
    The signal is ``s = scale * (x - shift - slopes . parents)``. Its log density is ``-|s| - 2
    log(1 + exp(-|s|))`` or ``-s^2 / 2``, without constants and scales.

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
        set_signals(own, n_samples, numbers, 0, *row, signal)
        for s in range(n_samples):
            x = signal[s]
            if logistic:
                size = -x if x < 0.0 else x
                bits = BITS * size if size < 690.0 else 1000.0  # smaller powers are negligible
                gain = -size - 2.0 * log_1p(power_of_two(-bits))
            else:
                gain = -0.5 * x * x
            posterior[c, s] += gain if own[s] == own[s] else 0.0


@jit()
def mix(
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


@jit()
def multiply_class(
    cells: np.ndarray, table: np.ndarray, first: int, last: int, out: np.ndarray
) -> None:
    """Multiply ``out[first:last]`` by ``table[cells]``."""
    part, target = cells[first:last], out[first:last]
    for s in range(last - first):
        target[s] *= table[part[s]]


@jit()
def sum_squares(
    truth: np.ndarray, total: np.ndarray, weights: np.ndarray, start: int, n: int
) -> float:
    """Return an upper bound of the sum of ``(w log(truth / total))**2`` over the first n samples.

    The bound is the sum of ``w**2 (r + 1 / r - 2)``, where ``r = truth / total`` and w is the
    weight of a sample. ``weights[start]`` is the weight of the first sample. If ``weights`` is
    empty, all weights are 1.

    Examples
    --------
    >>> round(sum_squares(np.array([1.0, 2.0]), np.ones(2), np.zeros(0), 0, 2), 12)
    0.5
    """
    result = 0.0
    if weights.shape[0]:
        weight = weights[start:]
        for s in range(n):
            difference = weight[s] * (truth[s] - total[s])
            result = add_any(difference, np.divide(difference, truth[s] * total[s]), result)
        return result
    for s in range(n):
        difference = truth[s] - total[s]
        result = add_any(difference, np.divide(difference, truth[s] * total[s]), result)
    return result


@jit(
    void(
        const(uint8[:, ::1]),
        const(uint16[:, ::1]),
        const(int64[:, ::1]),
        const(float64[:, :, :, :, ::1]),
        int64,
        const(int64[::1]),
        const(float64[::1]),
        const(float64[:, ::1]),
        float64[::1],
        float64[::1],
    )
)
def score_tables(
    codes: np.ndarray,
    bases: np.ndarray,
    parents: np.ndarray,
    tables: np.ndarray,
    fold: int,
    starts: np.ndarray,
    weights: np.ndarray,
    probability: np.ndarray,
    out: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Set ``out[i]`` to minus the sum over samples of ``log Z`` for candidate i.

    The factors ``R_c`` of the candidate are products of tables; the docstring of the module defines
    R and Z. If ``squares`` is not empty, ``out[i]`` is instead the sum of ``log R_y - log Z``, and
    there must be one table per candidate.

    Parameters
    ----------
    codes
        The candidates, uint8 (feature, sample); all samples are in one fold.
    bases
        For each parent and sample, the position in a table where the entries for the code of the
        parent begin, uint16 (base, sample).
    parents
        For each table of each candidate, the index of its parent in ``bases``, (feature, table); -1
        for a candidate that is not scored.
    tables
        p(code | parent code, class), (feature, table, fold, class, base + code).
    fold
        The fold of the samples.
    starts
        The index of the first sample of each class, then the number of samples, (class + 1,). The
        samples must be sorted by class. Only used if ``squares`` is not empty.
    weights
        The weights of the samples in all sums, (sample,); empty if all weights are 1.
    probability
        The posterior, (class, sample).
    out
        (feature,): NaN if Z is below `vector.TINY` for any sample, 0 for a candidate that is not
        scored.
    squares
        (feature,): an upper bound of the sum of squared gains of the samples; empty if it is not
        needed.

    Examples
    --------
    >>> zero, half, out = np.zeros((1, 1), np.uint16), np.full((2, 1), 0.5), np.zeros(1)
    >>> score_tables(np.zeros((1, 1), np.uint8), zero, np.zeros((1, 1), np.intp),
    ...              np.array([0.5, 1.0]).reshape(1, 1, 1, 2, 1), 0, np.zeros(0, np.intp),
    ...              np.zeros(0), half, out, np.zeros(0))
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
        product = probability
        for j in range(last + 1):
            base = bases[parents[i, j]]
            table = tables[i, j, fold]
            for s in range(n_samples):
                cells[s] = base[s] + codes[i, s]
            if j < last:
                for c in range(n_classes):
                    for s in range(n_samples):
                        work[c, s] = product[c, s] * table[c, cells[s]]
                product = work
            else:
                mix(product, 0, cells, n_samples, table, total)
                if squares.size:
                    truth[:] = 1.0
                    for c in range(n_classes):
                        multiply_class(cells, table[c], starts[c], starts[c + 1], truth)
                    squares[i] = sum_squares(truth, total, weights, 0, n_samples)
                    out[i] = sum_weighted(truth, weights, 0, n_samples)
                out[i] -= sum_weighted(total, weights, 0, n_samples)


@jit()
def _alike(slopes: np.ndarray, shifts: np.ndarray, scales: np.ndarray) -> bool:
    """Return whether the signals of the classes differ only by constants below `NEAR`."""
    for c in range(1, slopes.shape[0]):
        if scales[c] != scales[0] or not -NEAR < scales[c] * (shifts[0] - shifts[c]) < NEAR:
            return False
        for j in range(slopes.shape[1]):
            if slopes[c, j] != slopes[0, j]:
                return False
    return True


@jit(
    void(
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
    weights: np.ndarray,
    probability: np.ndarray,
    out: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Set ``out[i]`` to the sum of ``log density_y - log Z`` for candidate i.

    The factors R are products of a table and a density; the docstring of the module defines R and
    Z. If ``squares`` is not empty, ``out[i]`` is instead the sum of ``log R_y - log Z``.

    Parameters
    ----------
    codes, values
        The candidates, uint8 (feature, sample), and the value of each code, (feature, code).
    numbers, parents
        The values of all columns, (column, sample), and the parents of each candidate, (feature,
        parent), padded with -1.
    tables
        The factors that multiply the densities, (feature, kind, fold, class, code), at most 1.
    slopes, shifts, scales
        Parameters of the rows, see `add_linear`, with axes (feature, kind, ...). A candidate has
        one row for each kind, which is a way to fit the slopes.
    logistic, fold
        Whether the density is logistic instead of Gaussian, and the fold of the samples.
    starts
        The index of the first sample of each class, then the number of samples, (class + 1,). The
        samples must be sorted by class.
    weights
        See `score_tables`.
    probability
        The posterior, (class, sample).
    out
        (feature, kind): NaN if a Z or a density of the true class is below `vector.TINY`; zero for
        a candidate without parents.
    squares
        (feature, kind), see `score_tables`.

    Examples
    --------
    >>> out, row = np.zeros((1, 1)), np.ones((1, 1, 1, 1))
    >>> score_linear(np.zeros((1, 1), np.uint8), np.zeros((1, 1)), np.zeros((1, 1)),
    ...              np.zeros((1, 1), np.intp), row[..., None], row[..., None], row, row, True,
    ...              0, np.array([0, 1]), np.zeros(0), np.ones((1, 1)), out, out[:0])
    >>> out
    array([[0.]])
    """
    n_classes, n_samples = probability.shape
    cells = np.empty(STRIP, np.uint16)
    own, signal, density = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    truth, total = np.empty(STRIP + 3), np.empty(STRIP + 3)
    work, own_truth = np.empty((n_classes, STRIP)), np.empty(STRIP + 3)
    # densities use powers of two: 2^s of a logistic signal in bits, 2^-(s^2) of a Gaussian one
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
            for s in range(n):  # a separate loop: merged with the one above, it is not vectorized
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
                        set_signals(own, n, numbers, start, *row, signal)
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
                mix(work, 0, cells, n, table, total)
                if squares.size:
                    for s in range(n):
                        own_truth[s] = truth[s]
                    for c in range(n_classes):
                        first, last = starts[c] - start, starts[c + 1] - start
                        first, last = (first if first > 0 else 0), (last if last < n else n)
                        if first < last:
                            multiply_class(cells, table[c], first, last, own_truth)
                    squares[i, kind] += sum_squares(own_truth, total, weights, start, n)
                    out[i, kind] += sum_weighted(own_truth, weights, start, n)
                else:
                    out[i, kind] += sum_weighted(truth, weights, start, n)
                out[i, kind] -= sum_weighted(total, weights, start, n)


@jit(
    void(
        const(uint8[:, ::1]),
        const(uint16[:, ::1]),
        const(int64[::1]),
        const(float64[:, ::1]),
        float64[:, :, ::1],
    )
)
def add_residuals(
    codes: np.ndarray,
    bases: np.ndarray,
    parents: np.ndarray,
    residuals: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Add the residuals of every sample to the sums of its cell, for every feature.

    A cell is a combination of the code of a feature and the code of its parent.

    Parameters
    ----------
    codes
        Codes (feature, sample).
    bases, parents
        The index of the cell is ``bases[parents[i], sample] + codes[i, sample]``.
    residuals
        Residuals (sample, class).
    sums
        Sums (feature, cell, class), to which the residuals are added.

    Examples
    --------
    >>> sums, zero = np.zeros((1, 2, 1)), np.zeros((1, 3), np.uint16)
    >>> codes, parents = np.array([[0, 1, 1]], np.uint8), np.zeros(1, np.intp)
    >>> add_residuals(codes, zero, parents, np.array([[0.5], [0.25], [-1.0]]), sums)
    >>> sums[0, :, 0]
    array([ 0.5 , -0.75])
    """
    n_classes = residuals.shape[1]
    for i in range(codes.shape[0]):
        base = bases[parents[i]]
        for sample in range(codes.shape[1]):
            cell = base[sample] + codes[i, sample]
            for c in range(n_classes):
                sums[i, cell, c] += residuals[sample, c]
