"""Functions of one number that LLVM vectorizes in a loop over samples.

LLVM does not vectorize calls of the math library, so these functions use only arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic, overload

from hofs_dask.kernels._jit import jit

#: Factors below this are computed with logarithms. A product of four larger factors cannot
#: underflow.
TINY = 1e-75

#: Samples that are processed at a time, so that their arrays stay in the L1 cache.
STRIP = 512

LOG_2 = math.log(2.0)
BITS = 1.0 / LOG_2  # bits per nat
#: Adding this to a number below 2^51 rounds it to an integer, which is then in the lowest bits.
ROUND = 1.5 * 2.0**52

MANTISSA, ONE = (1 << 52) - 1, 1023 << 52
#: If the lowest bits of this number are set to a small integer n, its bits are the float 2^52 + n.
WHOLE = 1075 << 52
SQRT_2 = math.sqrt(2.0)


def muladd(a: float, b: float, c: float) -> float:
    """Return ``a b + c``, as one instruction if the machine has it.

    ``a * b + c`` compiles to two instructions, which doubles the time of an exponential.

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


def add_any(a: float, b: float, total: float) -> float:
    """Return ``a b + total``; the compiler may reorder such additions in order to vectorize a sum.

    Examples
    --------
    >>> add_any(2.0, 3.0, 1.0)
    7.0
    """
    return a * b + total


def _generate_add_any(_context: Any, a: Any, b: Any, total: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        first, second, third = arguments
        product = builder.fmul(first, second, flags=("contract",))
        return builder.fadd(product, third, flags=("reassoc", "contract"))

    return a(a, b, total), generate


_fadd_any: Any = intrinsic(_generate_add_any)


@overload(add_any, strict=False)
def _add_any(_a: Any, _b: Any, _total: Any) -> Any:
    return lambda a, b, total: _fadd_any(a, b, total)


@jit()
def power_of_two(x: float) -> float:
    """Return ``2^x`` for x from -1000 to 1000, with a relative error of 1e-15.

    Unlike `math.exp`, it is vectorized in loops.

    Examples
    --------
    >>> power_of_two(-3.0), round(power_of_two(0.5) ** 2, 12)
    (0.125, 2.0)
    """
    shifted = x + ROUND
    r = x - (shifted - ROUND)
    # minimax polynomial of (2^r - 1 - r log 2) / r^2 for |r| <= 1/2, by relative error of 2^r
    r2 = r * r
    r4 = r2 * r2
    a = muladd(0.055504108664637744, r, 0.24022650695909264)
    b = muladd(0.0013333558206561256, r, 0.009618129107968281)
    c = muladd(1.5252668712485216e-05, r, 0.00015403529979615287)
    d = muladd(1.0206784957291852e-07, r, 1.3215670442989366e-06)
    high = muladd(7.034291600569109e-09, r4, muladd(d, r2, c))
    p = muladd(muladd(high, r4, muladd(b, r2, a)), r2, muladd(LOG_2, r, 1.0))
    # multiply by the integer power of two: add it to the exponent bits
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    result: float = np.int64(bits).view(np.float64)
    return result


@jit()
def log_1p(t: float) -> float:
    """Return ``log(1 + t)`` for t from 0 to 1, with an error of 5e-16.

    Unlike `math.log1p`, it is vectorized in loops.

    Examples
    --------
    >>> round(log_1p(1.0), 12) == round(math.log(2.0), 12)
    True
    """
    return _twice_atanh(np.divide(t, t + 2.0))


@jit()
def _twice_atanh(f: float) -> float:
    """Return ``2 atanh(f)`` for f from -1/3 to 1/3."""
    # polynomial of (atanh(f) / f - 1) / f^2, for f^2 < 1/9
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


@jit()
def sum_logs(factors: np.ndarray, n: int) -> float:
    """Return the sum of the logs of the first n factors; NaN if one is below `TINY`.

    Factors must be at most 1e75. Four factors at a time are multiplied. The product is split into
    an exponent, which is added to a sum, and a mantissa, which is a factor of the next round. The
    array is overwritten and must have length n + 3.

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


@jit()
def weighted_logs(factors: np.ndarray, weights: np.ndarray, n: int) -> float:
    """Return the sum of weight times log of the first n factors; NaN if one is below `TINY`.

    Factors must be finite.

    Examples
    --------
    >>> factors, weights = np.array([2.0, 0.5, 4.0]), np.array([1.0, 3.0, 2.0])
    >>> round(weighted_logs(factors, weights, 3) / math.log(2.0), 12)
    2.0
    """
    n_tiny, total = 0, 0.0
    for s in range(n):
        n_tiny += not factors[s] >= TINY
    if n_tiny:
        return math.nan
    for s in range(n):
        bits = np.float64(factors[s]).view(np.int64)
        exponent = np.int64((bits >> 52) | WHOLE).view(np.float64) - (2.0**52 + 1023.0)
        mantissa = np.int64((bits & MANTISSA) | ONE).view(np.float64)
        upper = mantissa > SQRT_2
        mantissa = 0.5 * mantissa if upper else mantissa
        exponent = exponent + 1.0 if upper else exponent
        log = _twice_atanh(np.divide(mantissa - 1.0, mantissa + 1.0))
        total = add_any(weights[s], muladd(exponent, LOG_2, log), total)
    return total


@jit()
def sum_weighted(factors: np.ndarray, weights: np.ndarray, start: int, n: int) -> float:
    """Return the sum of weight times log of the first n factors; NaN if one is below `TINY`.

    ``weights[start]`` is the weight of the first factor. If ``weights`` is empty, all weights are
    1, and the factors are overwritten.

    Examples
    --------
    >>> round(sum_weighted(np.full(4, math.e), np.zeros(0), 0, 1), 12)
    1.0
    """
    if weights.shape[0]:
        return weighted_logs(factors, weights[start:], n)
    return sum_logs(factors, n)
