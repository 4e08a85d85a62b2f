"""Plug-in entropies and mutual information, in nats, from integer counts."""

from __future__ import annotations

import numpy as np


def entropy(counts: np.ndarray, n_axes: int) -> np.ndarray:
    """Return the joint entropies over the last ``n_axes`` axes of ``counts``, in nats.

    Notes
    -----
    ``H = -sum p log p`` with the relative frequencies ``p``; a table of zeros has entropy 0.

    Examples
    --------
    >>> entropy(np.array([[1, 1], [2, 0]]), 1).round(4)
    array([0.6931, 0.    ])
    """
    from scipy.special import xlogy

    flat = counts.reshape(*counts.shape[: counts.ndim - n_axes], -1).astype(np.float64)
    total = flat.sum(axis=-1)
    # in the form log N - sum n log n / N, equal counts give exactly equal entropies
    mean_log = xlogy(flat, flat).sum(axis=-1) / np.maximum(total, 1.0)
    result: np.ndarray = np.where(total > 0, np.log(np.maximum(total, 1.0)) - mean_log, 0.0)
    return result


def information(counts: np.ndarray) -> np.ndarray:
    """Return the mutual information between the last two axes of ``counts``, in nats.

    Examples
    --------
    >>> float(information(np.array([[5, 0], [0, 5]])).round(4))
    0.6931
    """
    first = entropy(counts.sum(axis=-1), 1)
    second = entropy(counts.sum(axis=-2), 1)
    result: np.ndarray = np.maximum(first + second - entropy(counts, 2), 0.0)
    return result
