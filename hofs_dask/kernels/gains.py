"""The gain of a row in log posterior: its definition, on logs.

The kernels of `posterior` and `grids` work out the same on probabilities, without logs and
faster; they are tested against this.
"""

from __future__ import annotations

import numpy as np


def log_evidence(posterior: np.ndarray, row: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return the log of what the posterior, times the row, adds up to over the classes.

    Parameters
    ----------
    posterior
        Logs of class probabilities that add up to one, with the classes along ``axis``.
    row
        Logs of what each class is multiplied by, of a shape that broadcasts with it.
    axis
        The axis of the classes.

    Examples
    --------
    >>> log_evidence(np.log([0.5, 0.5]), np.log([0.2, 0.6])).round(6) == np.log(0.4).round(6)
    np.True_
    """
    after = posterior + row
    top = after.max(axis=axis, keepdims=True)
    # a sample that every class is ruled out for has a sum of zero
    safe = np.where(np.isfinite(top), top, 0.0)
    after -= safe
    total = np.exp(after, out=after).sum(axis=axis)
    with np.errstate(divide="ignore"):
        return np.log(total) + safe.squeeze(axis=axis)


def gains(posterior: np.ndarray, row: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return what a row adds to the log posterior of each class, were it the true one.

    Notes
    -----
    ``log q(c | x, row) - log q(c | x) = row_c - log sum_k q(k | x) exp(row_k)``.

    Parameters
    ----------
    posterior, row, axis
        As for `log_evidence`.

    Examples
    --------
    >>> gains(np.log([0.5, 0.5]), np.log([0.2, 0.6])).round(4)
    array([-0.6931,  0.4055])
    """
    return row - np.expand_dims(log_evidence(posterior, row, axis), axis)
