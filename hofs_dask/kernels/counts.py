"""Integer counts of coded variables, added into tables that the caller allocates."""

from __future__ import annotations

import numpy as np

from hofs_dask.kernels._jit import jit


@jit
def add_marginal_counts(
    codes: np.ndarray, labels: np.ndarray, folds: np.ndarray, out: np.ndarray
) -> None:
    """Add to ``out[i, fold, label, code]`` the samples of ``codes`` (sample, feature).

    Examples
    --------
    >>> out = np.zeros((1, 1, 2, 3), dtype=np.int64)
    >>> y = np.array([0, 1], dtype=np.uint8)
    >>> add_marginal_counts(np.array([[2], [0]], dtype=np.uint8), y, np.zeros_like(y), out)
    >>> out[0, 0]
    array([[0, 0, 1],
           [1, 0, 0]])
    """
    n_samples, n_features = codes.shape
    for s in range(n_samples):
        fold = folds[s]
        label = labels[s]
        for i in range(n_features):
            out[i, fold, label, codes[s, i]] += 1


@jit
def add_pair_counts(
    codes: np.ndarray,
    parent: np.ndarray,
    labels: np.ndarray,
    folds: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add to ``out[i, fold, parent code, label, code]`` the samples of ``codes``.

    Examples
    --------
    >>> out = np.zeros((1, 1, 2, 1, 2), dtype=np.int64)
    >>> column = np.array([0, 1, 1], dtype=np.uint8)
    >>> zero = np.zeros_like(column)
    >>> add_pair_counts(column[:, None], column, zero, zero, out)
    >>> out[0, 0, :, 0]
    array([[1, 0],
           [0, 2]])
    """
    n_samples, n_features = codes.shape
    for s in range(n_samples):
        fold = folds[s]
        label = labels[s]
        value = parent[s]
        for i in range(n_features):
            out[i, fold, value, label, codes[s, i]] += 1
