"""The incremental ICA row: one further row of a lower-triangular unmixing matrix.

A row is a vector ``theta`` over the columns ``u = [t, -1, -z_1, ..., -z_d]``: the signal is
``s = u theta = w t - Z b``. All functions take a batch of rows along the leading axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hofs_dask.kernels._jit import jit

#: The largest ``w`` of a standardised column: an exact function saturates here.
MAX_W = 100.0
#: The standard deviation of the logistic density.
LOGISTIC_SD = np.pi / np.sqrt(3.0)
#: Relative to the diagonal: what keeps collinear columns solvable and moves no value by 1e-9.
RIDGE = 1e-11


def least_squares(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows ``[1, b]`` of least squares and their residual variances.

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
    """The gaussian cross-entropies of standardised columns with these residual variances.

    Notes
    -----
    ``0.5 log(2 pi e sigma^2)`` with ``sigma`` no smaller than ``1 / MAX_W``.

    Examples
    --------
    >>> gaussian_entropy(np.array([1.0])).round(4)
    array([1.4189])
    """
    floored = np.maximum(variance, MAX_W**-2)
    result: np.ndarray = 0.5 * np.log(2 * np.pi * np.e * floored)
    return result


def logistic_start(moments: np.ndarray) -> np.ndarray:
    """The least-squares rows scaled to the logistic density: where Newton's steps begin.

    Examples
    --------
    >>> logistic_start(np.array([[1.0, -0.6], [-0.6, 1.0]])).round(4)
    array([2.2672, 1.3603])
    """
    row, variance = least_squares(moments)
    scale = np.minimum(LOGISTIC_SD / np.sqrt(np.maximum(variance, 1e-300)), MAX_W)
    result: np.ndarray = row * scale[..., None]
    return result


@jit
def add_row_terms(
    fixed: np.ndarray,
    own: np.ndarray,
    theta: np.ndarray,
    value: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
) -> None:
    """Add the sums over samples of ``phi(s)`` and its two derivatives in ``theta``.

    Parameters
    ----------
    fixed
        The columns that all rows share, (sample, column - 1).
    own
        The last column of each row, (sample, row).
    theta
        The rows, (row, column).
    value, gradient, hessian
        What is added to: (row,), (row, column) and (row, column, column).

    Notes
    -----
    ``phi(s) = |s| + 2 log(1 + exp(-|s|))``, so ``phi' = tanh(s / 2)`` and
    ``phi'' = (1 - phi'^2) / 2``. Only the lower triangle of the Hessian is added to. A plain loop
    and not a matrix product: BLAS brings threads of its own under Dask's.

    Examples
    --------
    >>> value, gradient, hessian = np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2, 2))
    >>> zeros = np.zeros((3, 1))
    >>> add_row_terms(zeros, zeros, np.ones((1, 2)), value, gradient, hessian)
    >>> value.round(4)
    array([4.1589])
    """
    n_samples, n_fixed = fixed.shape
    n_rows = own.shape[1]
    n_columns = n_fixed + 1
    column = np.empty(n_columns)
    for r in range(n_rows):
        for s in range(n_samples):
            for j in range(n_fixed):
                column[j] = fixed[s, j]
            column[n_fixed] = own[s, r]
            signal = 0.0
            for j in range(n_columns):
                signal += theta[r, j] * column[j]
            size = abs(signal)
            decay = math.exp(-size)
            value[r] += size + 2.0 * math.log1p(decay)
            slope = math.copysign((1.0 - decay) / (1.0 + decay), signal)
            curve = 2.0 * decay / ((1.0 + decay) * (1.0 + decay))
            for j in range(n_columns):
                gradient[r, j] += slope * column[j]
                weight = curve * column[j]
                for k in range(j + 1):
                    hessian[r, j, k] += weight * column[k]


@dataclass(frozen=True)
class Newton:
    """The state of a batch of rows on their way to the optimum: ask at `trial`, then `advance`."""

    trial: np.ndarray  # (row, column): where the terms are wanted next
    best: np.ndarray  # (row, column): the best rows so far
    value: np.ndarray  # (row,): mean phi - log w at the best rows
    step: np.ndarray  # (row, column): the step from the best rows to the trial
    decrement: np.ndarray  # (row,): what the next step would gain at least, about

    @classmethod
    def start(cls, theta: np.ndarray) -> Newton:
        """Begin at ``theta`` (row, column)."""
        worst = np.full(len(theta), np.inf)
        return cls(theta, theta, worst, np.zeros_like(theta), worst)

    @property
    def done(self) -> bool:
        """True when no row has anything left to gain."""
        return bool(np.all(self.decrement < 1e-13))

    def advance(self, value: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> Newton:
        """The state after the means of phi's terms at the trial are known.

        A trial that is not better than the best row halves its step; one that is better takes
        the next Newton step, kept within ``0 < w <= MAX_W``.
        """
        w = self.trial[:, 0]
        value = value - np.log(w)
        gradient = gradient.copy()
        gradient[:, 0] -= 1 / w
        hessian = np.tril(hessian) + np.tril(hessian, -1).swapaxes(1, 2)
        hessian[:, 0, 0] += 1 / w**2

        better = value <= self.value
        step, decrement = _bounded_step(w, gradient, hessian)
        best = np.where(better[:, None], self.trial, self.best)
        step = np.where(better[:, None], step, self.step / 2)
        decrement = np.where(better, decrement, self.decrement)
        # a rejected step of no length is rounding at the optimum, not work left to do
        tiny = np.max(np.abs(step), axis=1, initial=0.0) < 1e-10
        decrement = np.where(~better & tiny, 0.0, decrement)
        best_value = np.where(better, value, self.value)
        return Newton(best + step, best, best_value, step, decrement)


def _bounded_step(
    w: np.ndarray, gradient: np.ndarray, hessian: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    matrix = _ridged(hessian)
    step = np.linalg.solve(matrix, -gradient[..., None])[..., 0]
    # w grows at most threefold and shrinks at most to a third a step: the barrier -log w is
    # quadratic only near by
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
    return step, np.abs(decrement)


def _ridged(matrix: np.ndarray) -> np.ndarray:
    diagonal = np.einsum("...ii->...i", matrix)
    largest = np.max(diagonal, axis=-1, keepdims=True, initial=0.0)
    result = matrix.copy()
    np.einsum("...ii->...i", result)[...] += RIDGE * diagonal + 1e-14 * largest + 1e-300
    return result
