"""Helpers that make problems and counts from columns of codes."""

import numpy as np

from hofs_dask.methods.problem import Problem

N_FOLDS = 4


def make_problem(x, y, *, values=None, nominal=None, missing=None, folds=None):
    """Return the problem of columns of codes (sample, feature) and classes (sample,)."""
    n_codes, n_classes, m = int(x.max()) + 1, int(y.max()) + 1, x.shape[1]
    folds = np.arange(len(y)) % N_FOLDS if folds is None else folds
    counts = np.zeros((m, N_FOLDS, n_classes, n_codes), np.int64)
    for i, column in enumerate(x.T):
        np.add.at(counts[i], (folds, y, column), 1)
    if values is None:
        values = np.tile(np.arange(n_codes, dtype=float), (m, 1))
    return Problem(
        n_codes=np.full(m, n_codes),
        missing_code=np.full(m, -1) if missing is None else np.asarray(missing),
        nominal=np.zeros(m, bool) if nominal is None else np.asarray(nominal),
        values=values,
        counts=counts,
        label_kind="class",
        label_values=np.arange(n_classes, dtype=float),
    )


def count_pairs(x, y, parent, folds=None):
    """Return counts (feature, fold, parent code, class, code) of every column with one column."""
    n_codes, n_classes = int(x.max()) + 1, int(y.max()) + 1
    folds = np.arange(len(y)) % N_FOLDS if folds is None else folds
    counts = np.zeros((x.shape[1], N_FOLDS, n_codes, n_classes, n_codes), np.int64)
    for i, column in enumerate(x.T):
        np.add.at(counts[i], (folds, x[:, parent], y, column), 1)
    return counts
