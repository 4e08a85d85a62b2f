"""Tests of differences between methods over several data sets."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats


def ranks(errors: np.ndarray) -> np.ndarray:
    """Return the rank of every method in every set by increasing error; ties share a mean rank.

    Parameters
    ----------
    errors
        (set, method).

    Examples
    --------
    >>> ranks(np.array([[0.2, 0.1, 0.2]]))
    array([[2.5, 1. , 2.5]])
    """
    # rounded, so that errors that differ only by rounding are equal
    result: np.ndarray = stats.rankdata(np.round(errors, 9), axis=1)
    return result


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    """Return the critical difference of mean ranks of the Nemenyi test.

    Notes
    -----
    ``q sqrt(k (k + 1) / (6 N))``, q the quantile of the studentised range over ``sqrt(2)``.

    Examples
    --------
    >>> round(critical_difference(8, 9), 3)
    3.5
    """
    quantile = float(stats.studentized_range.ppf(1 - level, n_methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * n_sets))


def friedman(errors: np.ndarray) -> float:
    """Return the p-value of the Friedman test of the hypothesis that all methods are equal.

    Examples
    --------
    >>> friedman(np.array([[1.0, 2.0, 3.0]] * 6)) < 0.01
    True
    """
    return float(stats.friedmanchisquare(*np.round(errors, 9).T).pvalue)


def wilcoxon(errors: np.ndarray, others: np.ndarray) -> float:
    """Return the p-value of Wilcoxon's signed-rank test that two methods are equal.

    Examples
    --------
    >>> wilcoxon(np.arange(6.0), np.arange(6.0) + [1, 2, 3, 4, 5, 6])
    0.03125
    """
    differences = np.round(errors - others, 9)
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences).pvalue)
