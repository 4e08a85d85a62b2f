"""The incremental ICA row: the next row of a lower-triangular unmixing matrix.

A row is a vector ``theta = [w, b]`` of weights of the columns ``u = [t, -1, -z_1, ..., -z_d]``: the
variable t that the row models, a constant, and the variables ``z_1`` to ``z_d`` that it may depend
on. The signal is ``s = u theta = w t - Z b``, where Z consists of the constant and these variables.
All functions accept a batch of rows along the leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba.types import boolean, float64, int32, int64, uint8, uint16, void

from hofs_dask.kernels._jit import const, jit
from hofs_dask.kernels.vector import (
    BITS,
    STRIP,
    add_any,
    log_1p,
    muladd,
    power_of_two,
    sum_logs,
)

#: Maximum of ``w`` for a standardised column. It is reached if t is an exact linear function of Z.
MAX_W = 100.0
#: The standard deviation of the logistic density.
LOGISTIC_SD = np.pi / np.sqrt(3.0)
#: Ridge term relative to the diagonal. It makes systems with collinear columns solvable and changes
#: values by less than 1e-9.
RIDGE = 1e-11
#: Maximum number of Newton steps; the hardest rows of the tests converge in seven.
MAX_STEPS = 12
#: If a step changes the weights by less than `NEAR_STEP` and gains less than `NEAR_GAIN`, the
#: quadratic model of the step is accurate.
NEAR_STEP, NEAR_GAIN = 1e-4, 1e-9


def least_squares(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least-squares rows ``[1, b]`` and their residual variances.

    Parameters
    ----------
    moments
        The second moments ``mean(u u^T)``, (..., column, column).

    Examples
    --------
    >>> t = np.array([1.0, 3.0, 5.0])
    >>> u = np.stack([t, -np.ones(3), -np.array([0.0, 1.0, 2.0])])
    >>> row, variance = least_squares(u @ u.T / 3)
    >>> row.round(6)
    array([1., 1., 2.])
    """
    inner = _ridged(moments[..., 1:, 1:])
    slopes = -np.linalg.solve(inner, moments[..., 1:, :1])[..., 0]
    row = np.concatenate([np.ones_like(slopes[..., :1]), slopes], axis=-1)
    variance = np.einsum("...i,...ij,...j->...", row, moments, row)
    return row, np.maximum(variance, 0.0)


def gaussian_entropy(variance: np.ndarray) -> np.ndarray:
    """Return the Gaussian cross-entropy of standardised columns, from their residual variances.

    Notes
    -----
    ``0.5 log(2 pi e sigma^2)`` with ``sigma >= 1 / MAX_W``.

    Examples
    --------
    >>> gaussian_entropy(np.array([1.0])).round(4)
    array([1.4189])
    """
    floored = np.maximum(variance, MAX_W**-2)
    result: np.ndarray = 0.5 * np.log(2 * np.pi * np.e * floored)
    return result


def logistic_start(moments: np.ndarray) -> np.ndarray:
    """Return the start of Newton's method: the least-squares rows, scaled to the logistic density.

    Examples
    --------
    >>> logistic_start(np.array([[1.0, -0.6], [-0.6, 1.0]])).round(4)
    array([2.2672, 1.3603])
    """
    row, variance = least_squares(moments)
    scale = np.minimum(LOGISTIC_SD / np.sqrt(np.maximum(variance, 1e-300)), MAX_W)
    result: np.ndarray = row * scale[..., None]
    return result


@jit()
def _sum(a: np.ndarray, n: int) -> float:
    total = 0.0
    for s in range(n):
        total = add_any(a[s], 1.0, total)
    return total


@jit()
def _dot(a: np.ndarray, b: np.ndarray, n: int) -> float:
    total = 0.0
    for s in range(n):
        total = add_any(a[s], b[s], total)
    return total


@jit()
def _times(a: np.ndarray, b: np.ndarray, n: int, out: np.ndarray) -> None:
    for s in range(n):
        out[s] = a[s] * b[s]


@jit()
def _add_sums(
    slope: np.ndarray,
    curve: np.ndarray,
    curve_x: np.ndarray,
    work: np.ndarray,
    n: int,
    members: np.ndarray,
    start: int,
    c: int,
    n_classes: int,
    gradient: np.ndarray,
    hessian: np.ndarray,
) -> None:
    """Add the sums over a strip of one class to gradient and Hessian.

    The entries of the candidate alone, such as the last of the gradient, are not changed.
    """
    n_members = members.shape[0]
    own = n_classes + n_members
    gradient[c] += _sum(slope, n)
    hessian[c, c] += _sum(curve, n)
    hessian[own, c] += _sum(curve_x, n)
    for j in range(n_members):
        number = members[j, start:]
        gradient[n_classes + j] += _dot(slope, number, n)
        hessian[own, n_classes + j] += _dot(curve_x, number, n)
        _times(curve, number, n, work)
        hessian[n_classes + j, c] += _sum(work, n)
        for k in range(j + 1):
            hessian[n_classes + j, n_classes + k] += _dot(work, members[k, start:], n)


@jit()
def _derive(
    signals: np.ndarray, n: int, factors: np.ndarray, slope: np.ndarray, curve: np.ndarray
) -> float:
    """Compute ``1 + exp(-|s|)``, phi' and phi'' of all signals; return the sum of ``|s|``."""
    total = 0.0
    for s in range(n):
        signal = signals[s]
        size = -signal if signal < 0.0 else signal
        # beyond 690 the exponential is negligible next to 1
        decay = power_of_two(-BITS * size if size < 690.0 else -1000.0)
        factors[s] = 1.0 + decay
        inverse = np.divide(1.0, 1.0 + decay)
        first = (1.0 - decay) * inverse
        slope[s] = -first if signal < 0.0 else first
        curve[s] = 2.0 * decay * inverse * inverse
        total = add_any(size, 1.0, total)
    return total


@jit(
    void(const(uint8[:, ::1]), const(int32[::1]), const(uint16[::1]), int64, int32[:, ::1]),
    void(const(uint8[:, ::1]), const(int32[::1]), const(uint16[::1]), int64, int64[:, ::1]),
)
def add_cells(
    codes: np.ndarray, cells: np.ndarray, weights: np.ndarray, stride: int, out: np.ndarray
) -> None:
    """Add the weight of sample s to ``out[i, cells[s] + stride * codes[i, s]]``, for all s and i.

    ``weights`` is empty if all weights are 1.

    Examples
    --------
    >>> out, weights = np.zeros((1, 4), dtype=np.int32), np.array([1, 3], np.uint16)
    >>> add_cells(np.array([[1, 0]], np.uint8), np.array([0, 1], np.int32), weights, 2, out)
    >>> out
    array([[0, 3, 1, 0]], dtype=int32)
    """
    for i in range(codes.shape[0]):
        if weights.shape[0]:
            for s in range(codes.shape[1]):
                out[i, cells[s] + stride * codes[i, s]] += weights[s]
        else:
            for s in range(codes.shape[1]):
                out[i, cells[s] + stride * codes[i, s]] += 1


@jit(
    void(
        const(int32[:, :, :, ::1]),
        const(float64[:, ::1]),
        const(float64[:, ::1]),
        const(float64[:, :, ::1]),
        const(boolean[:, ::1]),
        float64[:, ::1],
        float64[:, :, ::1],
        float64[:, :, :, ::1],
    ),
    void(
        const(int64[:, :, :, ::1]),
        const(float64[:, ::1]),
        const(float64[:, ::1]),
        const(float64[:, :, ::1]),
        const(boolean[:, ::1]),
        float64[:, ::1],
        float64[:, :, ::1],
        float64[:, :, :, ::1],
    ),
)
def add_table_terms(
    counts: np.ndarray,
    members: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    wanted: np.ndarray,
    value: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
) -> None:
    """Add sums over samples of ``phi(s)`` and its derivatives with respect to rows, from counts.

    The members are the features of a subset.

    Parameters
    ----------
    counts
        Integers (feature, class, code, cell); a cell is a combination of the members' codes.
    members, values
        The values of the members in each cell, (member, cell), and the values of the codes of the
        candidates, (feature, code).
    rows
        (feature, row, class + member + 1): one intercept per class, the slopes of the members, and
        the slope of the candidate.
    wanted
        Whether to compute the sums of a row, (feature, row).
    value, gradient, hessian
        The sums to add to, (feature, row) followed by 0, 1 and 2 axes (class + member + 1). Only
        the lower triangle of the Hessian is set.

    Notes
    -----
    ``phi(s) = |s| + 2 log(1 + exp(-|s|))``, so ``phi' = tanh(s / 2)`` and
    ``phi'' = (1 - phi'^2) / 2``.

    Examples
    --------
    >>> value, gradient, hessian = np.zeros((1, 1)), np.zeros((1, 1, 2)), np.zeros((1, 1, 2, 2))
    >>> add_table_terms(np.full((1, 1, 1, 1), 3), np.zeros((0, 1)), np.zeros((1, 1)),
    ...                 np.zeros((1, 1, 2)), np.ones((1, 1), np.bool_), value, gradient, hessian)
    >>> value.round(4)
    array([[4.1589]])
    """
    n_features, n_classes, n_codes, n_cells = counts.shape
    own = n_classes + members.shape[0]
    base, signals, factors = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    weight, slope, curve = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    slopes, curves, curves_x = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    for i in range(n_features):
        for r in range(rows.shape[1]):
            if not wanted[i, r]:
                continue
            row, first, second = rows[i, r], gradient[i, r], hessian[i, r]
            for start in range(0, n_cells, STRIP):
                n = n_cells - start if n_cells - start < STRIP else STRIP
                for s in range(n):
                    base[s] = 0.0
                _add_members(row, n_classes, members, start, n, base)
                for c in range(n_classes):
                    for s in range(n):
                        slopes[s] = 0.0
                        curves[s] = 0.0
                    for s in range(n):
                        curves_x[s] = 0.0
                    for b in range(n_codes):
                        count, x = counts[i, c, b, start:], values[i, b]
                        shift = row[c] + row[own] * x
                        for s in range(n):
                            signals[s] = base[s] + shift
                        _derive(signals, n, factors, slope, curve)
                        total = 0.0
                        for s in range(n):
                            signal = signals[s]
                            size = -signal if signal < 0.0 else signal
                            weight[s] = float(count[s])
                            phi = size + 2.0 * log_1p(factors[s] - 1.0)
                            total = add_any(weight[s], phi, total)
                        value[i, r] += total
                        for s in range(n):
                            curve[s] *= weight[s]
                        for s in range(n):
                            slopes[s] += weight[s] * slope[s]
                        for s in range(n):
                            curves[s] += curve[s]
                            curves_x[s] += x * curve[s]
                        first[own] += x * _dot(weight, slope, n)
                        second[own, own] += x * x * _sum(curve, n)
                    strip = (slopes, curves, curves_x, slope, n, members, start, c, n_classes)
                    _add_sums(*strip, first, second)


@jit()
def _add_members(
    row: np.ndarray, first: int, members: np.ndarray, start: int, n: int, out: np.ndarray
) -> None:
    """Add the values of the members in a strip, times their slopes ``row[first:]``, to ``out``."""
    for j in range(members.shape[0]):
        slope, number = row[first + j], members[j, start:]
        for s in range(n):
            out[s] = muladd(slope, number[s], out[s])


@jit(
    void(
        const(uint8[:, ::1]),
        const(int64[::1]),
        const(float64[:, ::1]),
        const(float64[::1]),
        const(float64[:, ::1]),
        const(float64[:, :, ::1]),
        const(boolean[:, ::1]),
        float64[:, ::1],
        float64[:, :, ::1],
        float64[:, :, :, ::1],
    )
)
def add_sample_terms(
    codes: np.ndarray,
    starts: np.ndarray,
    members: np.ndarray,
    weights: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    wanted: np.ndarray,
    value: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
) -> None:
    """Add the same sums as `add_table_terms`, computed from samples instead of counts.

    Parameters
    ----------
    codes, starts
        ``codes`` are the codes of the candidates, uint8 (feature, sample); samples are sorted by
        class. ``starts`` (class + 1,) has the index of the first sample of each class, followed by
        the number of samples.
    members
        The values of the members, which are the features of a subset, (member, sample).
    weights
        The weights of the samples, (sample,); empty if all are 1.
    values, rows, wanted, value, gradient, hessian
        See `add_table_terms`.

    Examples
    --------
    >>> value, gradient, hessian = np.zeros((1, 1)), np.zeros((1, 1, 2)), np.zeros((1, 1, 2, 2))
    >>> add_sample_terms(np.zeros((1, 3), np.uint8), np.array([0, 3]), np.zeros((0, 3)),
    ...                  np.zeros(0), np.zeros((1, 1)), np.zeros((1, 1, 2)),
    ...                  np.ones((1, 1), np.bool_), value, gradient, hessian)
    >>> value.round(4)
    array([[4.1589]])
    """
    n_classes = len(starts) - 1
    last = n_classes + members.shape[0]
    own, signals, factors = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP + 3)
    slope, curve, curve_x = np.empty(STRIP), np.empty(STRIP), np.empty(STRIP)
    for c in range(n_classes):
        for start in range(starts[c], starts[c + 1], STRIP):
            n = starts[c + 1] - start if starts[c + 1] - start < STRIP else STRIP
            for i in range(codes.shape[0]):
                code, number = codes[i, start:], values[i]
                for s in range(n):
                    own[s] = number[code[s]]
                for r in range(rows.shape[1]):
                    if not wanted[i, r]:
                        continue
                    row, first, second = rows[i, r], gradient[i, r], hessian[i, r]
                    for s in range(n):
                        signals[s] = muladd(row[last], own[s], row[c])
                    _add_members(row, n_classes, members, start, n, signals)
                    total = _derive(signals, n, factors, slope, curve)
                    if weights.shape[0]:
                        weight, total = weights[start:], 0.0
                        for s in range(n):
                            size = -signals[s] if signals[s] < 0.0 else signals[s]
                            phi = size + 2.0 * log_1p(factors[s] - 1.0)
                            total = add_any(weight[s], phi, total)
                        value[i, r] += total
                        _times(slope, weight, n, slope)
                        _times(curve, weight, n, curve)
                    else:
                        value[i, r] += total + 2.0 * sum_logs(factors, n)
                    _times(curve, own, n, curve_x)
                    first[last] += _dot(slope, own, n)
                    second[last, last] += _dot(curve_x, own, n)
                    strip = (slope, curve, curve_x, signals, n, members, start, c, n_classes)
                    _add_sums(*strip, first, second)


@dataclass(frozen=True)
class Newton:
    """The state of Newton's method for a batch of rows.

    Evaluate the terms of the objective at `trial`, then call `advance` with them.
    """

    trial: np.ndarray  # (row, column): where to evaluate the terms next
    best: np.ndarray  # (row, column): the best rows so far
    value: np.ndarray  # (row,): mean phi - log w at the best rows, at the optimum when finished
    step: np.ndarray  # (row, column): the step from the best rows to the trial
    finished: np.ndarray  # (row,): whether the row has converged

    @classmethod
    def start(cls, theta: np.ndarray) -> Newton:
        """Return the initial state at ``theta`` (row, column)."""
        worst = np.full(len(theta), np.inf)
        return cls(theta, theta, worst, np.zeros_like(theta), np.zeros(len(theta), dtype=bool))

    @property
    def done(self) -> bool:
        """Whether all rows have converged."""
        return bool(self.finished.all())

    def advance(self, value: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> Newton:
        """Return the next state, given the means of phi and its derivatives at the trial.

        If the trial of a row is not better than the best values so far, the step is halved.
        Otherwise the next Newton step is taken, with ``0 < w <= MAX_W``. Terms of finished rows are
        ignored.

        Notes
        -----
        A row is finished when the quadratic model predicts the remaining gain accurately. The third
        derivative of phi is at most the second, so the relative error of the model is less than the
        largest change of a signal by the step. For a remaining gain of 1e-9 nats and a step of 1e-4
        in columns whose absolute values sum to at most 100, the error is 1e-11 nats.
        """
        rest = np.flatnonzero(~self.finished)
        w = self.trial[rest, 0]
        value = value[rest] - np.log(w)
        gradient = gradient[rest]
        gradient[:, 0] -= 1 / w
        hessian = np.tril(hessian[rest]) + np.tril(hessian[rest], -1).swapaxes(1, 2)
        hessian[:, 0, 0] += 1 / w**2

        better = value <= self.value[rest]
        step, decrement, left = _bounded_step(w, gradient, hessian)
        near = np.max(np.abs(step), axis=1, initial=0.0) < NEAR_STEP
        finished = better & ((decrement < 1e-13) | (near & (decrement < NEAR_GAIN)))
        best = np.where(better[:, None], self.trial[rest], self.best[rest])
        best_value = np.where(better, value, self.value[rest])
        best_value = np.where(finished & near, best_value - left, best_value)
        step = np.where(better[:, None], step, self.step[rest] / 2)
        # a rejected tiny step is due to rounding at the optimum
        tiny = np.max(np.abs(step), axis=1, initial=0.0) < 1e-10
        finished |= ~better & tiny

        def changed(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            result = old.copy()
            result[rest] = new
            return result

        return Newton(
            changed(self.trial, best + step),
            changed(self.best, best),
            changed(self.value, best_value),
            changed(self.step, step),
            changed(self.finished, finished),
        )


@dataclass(frozen=True)
class Chain:
    """The state of Newton's method for the rows of all label columns, for a batch of candidates.

    There is one row per label column. The columns of row r are label column r, the intercept, the
    members, the label columns before r, and the candidate. `expand` converts the row to the form
    that kernels use: one intercept per class, the slopes of the members, and the slope of the
    candidate.
    """

    rows: tuple[Newton, ...]
    expand: tuple[np.ndarray, ...]  # (class + member + 1, column) of each row

    @classmethod
    def start(cls, theta: Sequence[np.ndarray], label_columns: np.ndarray) -> Chain:
        """Return the initial state, given rows (candidate, column), one array per label column.

        ``label_columns`` (class, column) are the values of the label columns in each class.
        """
        n_classes = len(label_columns)
        expand = []
        for r, rows in enumerate(theta):
            width = rows.shape[1]
            n_members = width - 3 - r
            mix = np.zeros((n_classes + n_members + 1, width))
            mix[:n_classes, 0] = label_columns[:, r]
            mix[:n_classes, 1] = -1.0
            mix[n_classes:-1, 2 : 2 + n_members] = -np.eye(n_members)
            mix[:n_classes, 2 + n_members : -1] = -label_columns[:, :r]
            mix[-1, -1] = -1.0
            expand.append(mix)
        return cls(tuple(Newton.start(rows) for rows in theta), tuple(expand))

    @property
    def trial(self) -> np.ndarray:
        """The rows at which to evaluate the terms next, (candidate, row, class + member + 1)."""
        pairs = zip(self.rows, self.expand, strict=True)
        return np.stack([row.trial @ mix.T for row, mix in pairs], axis=1)

    @property
    def wanted(self) -> np.ndarray:
        """Whether a row is not finished, (candidate, row)."""
        return np.stack([~row.finished for row in self.rows], axis=1)

    @property
    def done(self) -> bool:
        """Whether all rows have converged."""
        return all(row.done for row in self.rows)

    @property
    def value(self) -> np.ndarray:
        """The sum of the values of the rows of each candidate, (candidate,)."""
        result: np.ndarray = np.sum([row.value for row in self.rows], axis=0)
        return result

    def advance(self, value: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> Chain:
        """Return the next state, given the means of the terms at the trial."""
        rows = []
        for r, (row, mix) in enumerate(zip(self.rows, self.expand, strict=True)):
            lower = hessian[:, r]
            whole = np.tril(lower) + np.tril(lower, -1).swapaxes(1, 2)
            rows.append(row.advance(value[:, r], gradient[:, r] @ mix, mix.T @ whole @ mix))
        return replace(self, rows=tuple(rows))

    def solve(self, counts: np.ndarray, members: np.ndarray, values: np.ndarray) -> Chain:
        """Return the state at the optimum, computed from counts (candidate, class, code, cell).

        Parameters
        ----------
        counts, members, values
            See `add_table_terms`.
        """
        n_samples = int(counts[0].sum()) if len(counts) else 1
        table = (_read_only(counts), _read_only(members), _read_only(values))
        chain = self
        for _ in range(MAX_STEPS):
            if chain.done:
                break
            trial = chain.trial
            terms = (
                np.zeros(trial.shape[:2]),
                np.zeros(trial.shape),
                np.zeros((*trial.shape, trial.shape[2])),
            )
            add_table_terms(*table, _read_only(trial), _read_only(chain.wanted), *terms)
            chain = chain.advance(*(term / n_samples for term in terms))
        return chain


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view, so that kernels are compiled only for read-only arrays."""
    view = array.view()
    view.setflags(write=False)
    return view


def _bounded_step(
    w: np.ndarray, gradient: np.ndarray, hessian: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the next steps, and the gains that the linear and the quadratic model predict."""
    matrix = _ridged(hessian)
    step = np.linalg.solve(matrix, -gradient[..., None])[..., 0]
    # w changes at most by a factor of three per step, because the barrier -log w is quadratic
    # only locally
    target = np.clip(w + step[:, 0], w / 3, np.minimum(3 * w, MAX_W))
    held = target != w + step[:, 0]
    if held.any():
        move = (target - w)[held]
        inner = np.linalg.solve(
            matrix[held][:, 1:, 1:],
            -(gradient[held, 1:] + hessian[held, 1:, 0] * move[:, None])[..., None],
        )[..., 0]
        step[held, 0] = move
        step[held, 1:] = inner
    decrement = -np.einsum("ri,ri->r", step, gradient)
    left = decrement - np.einsum("ri,rij,rj->r", step, hessian, step) / 2
    return step, np.abs(decrement), left


def _ridged(matrix: np.ndarray) -> np.ndarray:
    diagonal = np.einsum("...ii->...i", matrix)
    largest = np.max(diagonal, axis=-1, keepdims=True, initial=0.0)
    result = matrix.copy()
    np.einsum("...ii->...i", result)[...] += RIDGE * diagonal + 1e-14 * largest + 1e-300
    return result
