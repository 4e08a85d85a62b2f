"""The increase of the log posterior by a row, computed from logarithms according to its formula.

The kernels in `posterior` and `grids` compute the same values faster, from probabilities. The tests
compare these kernels with this module. The docstring of `posterior` explains what a row is.
"""

from __future__ import annotations

import numpy as np


def log_evidence(posterior: np.ndarray, row: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return the log of the sum over classes of posterior times row.

    Parameters
    ----------
    posterior
        Logs of class probabilities that sum to one, with the classes along ``axis``.
    row
        Logs of the factor of each class, of a shape that broadcasts with ``posterior``.
    axis
        The axis of the classes.

    Examples
    --------
    >>> log_evidence(np.log([0.5, 0.5]), np.log([0.2, 0.6])).round(6) == np.log(0.4).round(6)
    np.True_
    """
    after = posterior + row
    top = after.max(axis=axis, keepdims=True)
    # the sum is zero if the row excludes every class
    safe = np.where(np.isfinite(top), top, 0.0)
    after -= safe
    total = np.exp(after, out=after).sum(axis=axis)
    with np.errstate(divide="ignore"):
        return np.log(total) + safe.squeeze(axis=axis)


def gains(posterior: np.ndarray, row: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return how much a row increases the log posterior of each class.

    Notes
    -----
    ``log q(c | x, row) - log q(c | x) = row_c - log sum_k q(k | x) exp(row_k)``.

    Parameters
    ----------
    posterior, row, axis
        See `log_evidence`.

    Examples
    --------
    >>> gains(np.log([0.5, 0.5]), np.log([0.2, 0.6])).round(4)
    array([-0.6931,  0.4055])
    """
    return row - np.expand_dims(log_evidence(posterior, row, axis), axis)
