"""Class posteriors sample by sample: rows that add log-likelihoods, and what they gain.

A posterior is an array (sample, class) of ``log p(c) + sum of rows``, not normalised. Rows are
fitted without the fold that they are applied to, so every table has a leading fold axis.
"""

from __future__ import annotations

import math

import numpy as np

from hofs_dask.kernels._jit import jit

#: Samples a block: its posterior and codes stay in the first-level cache.
BLOCK = 1024


@jit
def add_table(
    posterior: np.ndarray, codes: np.ndarray, folds: np.ndarray, table: np.ndarray
) -> None:
    """Add ``table[fold, class, code]``, the log of p(code | class), to the posterior.

    Examples
    --------
    >>> posterior = np.zeros((1, 2))
    >>> zero = np.zeros(1, dtype=np.uint8)
    >>> add_table(posterior, zero, zero, np.array([[[-1.0], [-2.0]]]))
    >>> posterior
    array([[-1., -2.]])
    """
    n_samples, n_classes = posterior.shape
    for s in range(n_samples):
        fold = folds[s]
        code = codes[s]
        for c in range(n_classes):
            posterior[s, c] += table[fold, c, code]


@jit
def add_pair(
    posterior: np.ndarray,
    codes: np.ndarray,
    parent: np.ndarray,
    folds: np.ndarray,
    table: np.ndarray,
) -> None:
    """Add ``table[fold, class, parent code, code]`` to the posterior.

    Examples
    --------
    >>> posterior = np.zeros((1, 1))
    >>> zero = np.zeros(1, dtype=np.uint8)
    >>> add_pair(posterior, zero, zero, zero, np.full((1, 1, 1, 1), -3.0))
    >>> posterior
    array([[-3.]])
    """
    n_samples, n_classes = posterior.shape
    for s in range(n_samples):
        fold = folds[s]
        code = codes[s]
        value = parent[s]
        for c in range(n_classes):
            posterior[s, c] += table[fold, c, value, code]


@jit
def add_linear(
    posterior: np.ndarray,
    codes: np.ndarray,
    values: np.ndarray,
    parents: np.ndarray,
    folds: np.ndarray,
    table: np.ndarray,
    slopes: np.ndarray,
    shifts: np.ndarray,
    scales: np.ndarray,
    logistic: bool,
) -> None:
    """Add a table corrected by the log density of a linear signal to the posterior.

    Parameters
    ----------
    posterior
        What is added to, (sample, class).
    codes, values
        The codes of the feature, (sample,), and the number of each code, NaN where missing.
    parents
        The numbers of the parents, (sample, parent).
    folds
        The fold of each sample.
    table
        What the code itself adds, (fold, class, code).
    slopes, shifts, scales
        The row: (fold, class, parent), (fold, class) and (fold, class).
    logistic
        Whether the density of the signal is logistic, else gaussian.

    Notes
    -----
    The signal is ``s = scale * (x - shift - slopes . parents)`` and adds ``-|s| - 2 log(1 +
    exp(-|s|))`` or ``-s^2 / 2``; constants and scales are part of the table.

    Examples
    --------
    >>> posterior, zero = np.zeros((1, 1)), np.zeros(1, dtype=np.uint8)
    >>> one = np.ones((1, 1))
    >>> add_linear(posterior, zero, np.zeros(1), one, zero, np.zeros((1, 1, 1)),
    ...            np.ones((1, 1, 1)), one, one, False)
    >>> posterior
    array([[-2.]])
    """
    n_samples, n_classes = posterior.shape
    n_parents = parents.shape[1]
    for s in range(n_samples):
        fold = folds[s]
        code = codes[s]
        value = values[code]
        for c in range(n_classes):
            gain = table[fold, c, code]
            if not math.isnan(value):
                signal = value - shifts[fold, c]
                for j in range(n_parents):
                    signal -= slopes[fold, c, j] * parents[s, j]
                signal = abs(signal * scales[fold, c])
                if logistic:
                    gain -= signal + 2.0 * math.log1p(math.exp(-signal))
                else:
                    gain -= 0.5 * signal * signal
            posterior[s, c] += gain


@jit
def log_truth(posterior: np.ndarray, labels: np.ndarray, out: np.ndarray) -> None:
    """Set ``out[s]`` to the log of the posterior probability of the true class.

    Examples
    --------
    >>> out = np.empty(1)
    >>> log_truth(np.zeros((1, 4)), np.zeros(1, dtype=np.uint8), out)
    >>> np.exp(out)
    array([0.25])
    """
    n_samples, n_classes = posterior.shape
    for s in range(n_samples):
        top = posterior[s, 0]
        for c in range(1, n_classes):
            top = max(top, posterior[s, c])
        total = 0.0
        for c in range(n_classes):
            total += math.exp(posterior[s, c] - top)
        out[s] = posterior[s, labels[s]] - top - math.log(total)


@jit
def total_gain(now: np.ndarray, before: np.ndarray) -> float:
    """The sum of ``now - before``.

    Examples
    --------
    >>> total_gain(np.array([3.0, 1.0]), np.array([1.0, 2.0]))
    1.0
    """
    total = 0.0
    for s in range(now.shape[0]):
        total += now[s] - before[s]
    return total


@jit
def _copy(source: np.ndarray, out: np.ndarray) -> None:
    # a loop: numba takes seconds to compile the assignment of a whole array
    for s in range(source.shape[0]):
        for c in range(source.shape[1]):
            out[s, c] = source[s, c]


@jit
def score_tables(
    codes: np.ndarray,
    labels: np.ndarray,
    folds: np.ndarray,
    posterior: np.ndarray,
    before: np.ndarray,
    tables: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add to ``out[i]`` the gains of each feature's table over the posterior.

    Parameters
    ----------
    codes
        The candidates, (sample, feature).
    labels, folds
        The class and the fold of each sample.
    posterior, before
        The posterior (sample, class) and its `log_truth`.
    tables
        One table a feature, (feature, fold, class, code).
    out
        The sums of gains, (feature,).

    Examples
    --------
    >>> out, zero = np.zeros(1), np.zeros(1, dtype=np.uint8)
    >>> table = np.log(np.array([[[[1.0], [1.0]]]]))
    >>> score_tables(zero[:, None], zero, zero, np.zeros((1, 2)), np.log([0.25]), table, out)
    >>> np.exp(out).round(6)
    array([2.])
    """
    work = np.empty(posterior.shape)
    now = np.empty(before.shape)
    for i in range(codes.shape[1]):
        _copy(posterior, work)
        add_table(work, codes[:, i], folds, tables[i])
        log_truth(work, labels, now)
        out[i] += total_gain(now, before)


@jit
def score_pairs(
    codes: np.ndarray,
    columns: np.ndarray,
    chosen: np.ndarray,
    labels: np.ndarray,
    folds: np.ndarray,
    posterior: np.ndarray,
    before: np.ndarray,
    tables: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add to ``out[i]`` the gains of each feature's pair table over the posterior.

    ``columns[:, chosen[i]]`` is the parent of feature i, ``chosen[i] < 0`` means none; ``tables``
    is (feature, fold, class, parent code, code). See `score_tables` for the rest.

    Examples
    --------
    >>> out, zero = np.zeros(1), np.zeros((1, 1), dtype=np.uint8)
    >>> table = np.zeros((1, 1, 2, 1, 1))
    >>> none = np.array([-1])
    >>> posterior, before = np.zeros((1, 2)), np.zeros(1)
    >>> score_pairs(zero, zero, none, zero[0], zero[0], posterior, before, table, out)
    >>> out
    array([0.])
    """
    work = np.empty(posterior.shape)
    now = np.empty(before.shape)
    for i in range(codes.shape[1]):
        if chosen[i] >= 0:
            _copy(posterior, work)
            add_pair(work, codes[:, i], columns[:, chosen[i]], folds, tables[i])
            log_truth(work, labels, now)
            out[i] += total_gain(now, before)


@jit
def score_linear(
    codes: np.ndarray,
    values: np.ndarray,
    numbers: np.ndarray,
    parents: np.ndarray,
    labels: np.ndarray,
    folds: np.ndarray,
    posterior: np.ndarray,
    before: np.ndarray,
    tables: np.ndarray,
    slopes: np.ndarray,
    shifts: np.ndarray,
    scales: np.ndarray,
    logistic: bool,
    out: np.ndarray,
) -> None:
    """Add to ``out[i]`` the gains of each feature's linear row over the posterior.

    ``numbers`` (sample, column) are the numbers of the chosen features, ``parents`` (feature,
    parent) the columns that each candidate's row takes, padded with -1; ``slopes`` is (feature,
    fold, class, parent), ``shifts`` and ``scales`` are (feature, fold, class). A feature without
    parents is left alone. See `score_tables` for the rest.

    Examples
    --------
    >>> out, zero = np.zeros(1), np.zeros((1, 1), dtype=np.uint8)
    >>> row = np.zeros((1, 1, 2))
    >>> score_linear(zero, np.zeros((1, 1)), np.zeros((1, 1)), np.array([[-1]]), zero[0], zero[0],
    ...              np.zeros((1, 2)), np.zeros(1), row[..., None], row[..., None], row, row,
    ...              True, out)
    >>> out
    array([0.])
    """
    work = np.empty(posterior.shape)
    now = np.empty(before.shape)
    n_samples = codes.shape[0]
    for i in range(codes.shape[1]):
        n_parents = 0
        while n_parents < parents.shape[1] and parents[i, n_parents] >= 0:
            n_parents += 1
        if n_parents == 0:
            continue
        own = np.empty((n_samples, n_parents))
        for s in range(n_samples):
            for j in range(n_parents):
                own[s, j] = numbers[s, parents[i, j]]
        _copy(posterior, work)
        add_linear(
            work,
            codes[:, i],
            values[i],
            own,
            folds,
            tables[i],
            slopes[i],
            shifts[i],
            scales[i],
            logistic,
        )
        log_truth(work, labels, now)
        out[i] += total_gain(now, before)
