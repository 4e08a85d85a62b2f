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
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic, overload

from hofs_dask.kernels._jit import jit

#: Sums of factors that are below this are left to logarithms: a product of four that are not does
#: not underflow.
TINY = 1e-75
#: Logs of densities are cut here, in bits, far below `TINY`.
LIMIT = 500.0
#: Signals of two classes that are closer than this are both beyond reach where one is cut.
NEAR = 170.0
#: Samples that a linear row is worked out for at a time: its arrays stay in the first-level cache.
STRIP = 512

LOG_2 = math.log(2.0)
BITS = 1.0 / LOG_2  # of one nat
#: Adding this rounds a number below 2^51 to a whole one, which is then in the lowest bits.
ROUND = 1.5 * 2.0**52

MANTISSA, ONE = (1 << 52) - 1, 1023 << 52


def muladd(a: float, b: float, c: float) -> float:
    """``a b + c``, in one instruction where the machine has it.

    Of ``a * b + c`` the compiler would have to make two, which takes an exponential twice as long.

    Examples
    --------
    >>> muladd(2.0, 3.0, 1.0)
    7.0
    """
    return a * b + c


def _generate_muladd(_context: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double, double, double])
        function = builder.module.declare_intrinsic("llvm.fmuladd", [double], kind)
        return builder.call(function, arguments)

    return a(a, b, c), generate


_fmuladd: Any = intrinsic(_generate_muladd)


@overload(muladd, strict=False)
def _muladd(_a: Any, _b: Any, _c: Any) -> Any:
    return lambda a, b, c: _fmuladd(a, b, c)


@jit
def power_of_two(x: float) -> float:
    """``2^x`` of x from -1000 to 1000, to 1e-15: vector code in a loop over samples, as exp is not.

    Examples
    --------
    >>> power_of_two(-3.0), round(power_of_two(0.5) ** 2, 12)
    (0.125, 2.0)
    """
    shifted = x + ROUND
    r = x - (shifted - ROUND)
    # (2^r - 1 - r log 2) / r^2 for |r| <= 1/2, the polynomial of least relative error of 2^r
    r2 = r * r
    r4 = r2 * r2
    a = muladd(0.055504108664637744, r, 0.24022650695909264)
    b = muladd(0.0013333558206561256, r, 0.009618129107968281)
    c = muladd(1.5252668712485216e-05, r, 0.00015403529979615287)
    d = muladd(1.0206784957291852e-07, r, 1.3215670442989366e-06)
    high = muladd(7.034291600569109e-09, r4, muladd(d, r2, c))
    p = muladd(muladd(high, r4, muladd(b, r2, a)), r2, muladd(LOG_2, r, 1.0))
    # times the whole power: that goes to the bits of the exponent
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    result: float = np.int64(bits).view(np.float64)
    return result


@jit
def log_1p(t: float) -> float:
    """``log(1 + t)`` of t from 0 to 1, to 5e-16, as a loop over samples can be vector code.

    Examples
    --------
    >>> round(log_1p(1.0), 12) == round(math.log(2.0), 12)
    True
    """
    f = np.divide(t, t + 2.0)
    # atanh(f) / f - 1 over f^2, for f^2 < 1/9
    z = f * f
    p = muladd(0.0887440597389964, z, 0.049491632305609906)
    p = muladd(p, z, 0.06793621067585771)
    p = muladd(p, z, 0.07682096263695962)
    p = muladd(p, z, 0.09091410352555342)
    p = muladd(p, z, 0.11111096327859957)
    p = muladd(p, z, 0.14285714531583701)
    p = muladd(p, z, 0.1999999999799887)
    p = muladd(p, z, 0.3333333333333894)
    result: float = 2.0 * muladd(p * z, f, f)
    return result


@jit
def sum_logs(factors: np.ndarray, n: int) -> float:
    """The sum of the logs of the first n factors, all 1e75 at most; NaN where one is below `TINY`.

    Products of four are cut into mantissas, that go on, and exponents, that are added; the array is
    overwritten and must have room for n + 3.

    Examples
    --------
    >>> round(sum_logs(np.array([2.0, 0.5, 4.0, 1.0, 1.0, 1.0]), 3) / math.log(2.0), 12)
    2.0
    """
    n_tiny = exponent = 0
    for s in range(n):
        n_tiny += not factors[s] >= TINY
    if n_tiny:
        return math.nan
    while n > 1:
        quarter = (n + 3) // 4
        for s in range(n, 4 * quarter):
            factors[s] = 1.0
        for s in range(quarter):
            first = factors[s] * factors[s + quarter]
            second = factors[s + 2 * quarter] * factors[s + 3 * quarter]
            bits = np.float64(first * second).view(np.int64)
            exponent += int(bits >> 52) - 1023
            factors[s] = np.int64((bits & MANTISSA) | ONE).view(np.float64)
        n = quarter
    return math.log(factors[0]) + exponent * LOG_2 if n else 0.0


@jit
def gather(codes: np.ndarray, start: int, rows: np.ndarray, out: np.ndarray) -> None:
    """Set ``out[i]`` to ``codes[i, start + rows]``.

    Examples
    --------
    >>> out = np.zeros((1, 2), np.uint8)
    >>> gather(np.array([[5, 6, 7]], np.uint8), 1, np.array([1, 0], np.uint16), out)
    >>> out
    array([[7, 6]], dtype=uint8)
    """
    for i in range(codes.shape[0]):
        source, target = codes[i, start:], out[i]
        for s in range(rows.shape[0]):
            target[s] = source[rows[s]]


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
    weights: np.ndarray, cells: np.ndarray, n: int, table: np.ndarray, out: np.ndarray
) -> float:
    """The sum of logs of ``out = sum_c weights[c] * table[c, cells]``, two classes at a time."""
    n_classes = weights.shape[0]
    odd = n_classes % 2
    if odd:
        for s in range(n):
            out[s] = weights[0, s] * table[0, cells[s]]
    for c in range(odd, n_classes, 2):
        first, second = table[c], table[c + 1]
        for s in range(n):
            cell = cells[s]
            both = weights[c, s] * first[cell] + weights[c + 1, s] * second[cell]
            out[s] = both if c == 0 else out[s] + both
    return sum_logs(out, n)


@jit
def score_tables(
    codes: np.ndarray,
    bases: np.ndarray,
    parents: np.ndarray,
    tables: np.ndarray,
    fold: int,
    probability: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set ``out[i]`` to minus the sum of ``log Z`` for rows that are products of tables.

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
    probability
        The posterior, (class, sample).
    out
        (feature,): NaN where the Z of a sample is below `TINY`, zero without a row.

    Examples
    --------
    >>> zero, half, out = np.zeros((1, 1), np.uint16), np.full((2, 1), 0.5), np.zeros(1)
    >>> score_tables(np.zeros((1, 1), np.uint8), zero, np.zeros((1, 1), np.intp),
    ...              np.array([0.5, 1.0]).reshape(1, 1, 1, 2, 1), 0, half, out)
    >>> np.exp(-out).round(12)
    array([0.75])
    """
    n_classes, n_samples = probability.shape
    last = parents.shape[1] - 1
    cells, total = np.empty(n_samples, np.uint16), np.empty(n_samples + 3)
    work = np.empty((n_classes, n_samples))
    for i in range(codes.shape[0]):
        out[i] = 0.0
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
                out[i] = -_mix(weights, cells, n_samples, table, total)


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
) -> None:
    """Set ``out[i]`` to the sum of ``log density_y - log Z`` for tables times densities.

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
        (feature, kind): NaN where a Z or a density of the true class is below `TINY`, zero without
        parents.

    Examples
    --------
    >>> out, row = np.zeros((1, 1)), np.ones((1, 1, 1, 1))
    >>> score_linear(np.zeros((1, 1), np.uint8), np.zeros((1, 1)), np.zeros((1, 1)),
    ...              np.zeros((1, 1), np.intp), row[..., None], row[..., None], row, row, True,
    ...              0, np.array([0, 1]), np.ones((1, 1)), out)
    >>> out
    array([[0.]])
    """
    n_classes, n_samples = probability.shape
    cells = np.empty(STRIP, np.uint16)
    own, signal, density = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    truth, total = np.empty(STRIP + 3), np.empty(STRIP + 3)
    work = np.empty((n_classes, STRIP))
    # densities are powers of two: 2^s of a logistic signal in bits, 2^-(s^2) of a gaussian one
    unit = BITS if logistic else math.sqrt(0.5 * BITS)
    for i in range(codes.shape[0]):
        for kind in range(slopes.shape[1]):
            out[i, kind] = 0.0
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
                total_log = _mix(work, cells, n, tables[i, kind, fold], total)
                out[i, kind] += sum_logs(truth, n) - total_log
