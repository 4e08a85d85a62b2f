"""Affinities, which measure how two features depend on each other, and the subsets they define."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hofs_dask.kernels.entropy import entropy
from hofs_dask.methods.problem import Problem

#: Classes with fewer samples than this are ignored when correlations within classes are computed.
MIN_CLASS_SAMPLES = 4


def gram_row(pair_counts: np.ndarray, parent: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums of the parent's value times a feature's value, (feature, fold, class).

    The sums are over the samples of a fold and class.

    Parameters
    ----------
    pair_counts
        Counts (feature, fold, parent code, class, code).
    parent, values
        The numeric value of each code of the parent, (code,), and of each code of every feature,
        (feature, code). The value of the missing code is 0.

    Examples
    --------
    >>> counts = np.array([[1, 0], [0, 2]]).reshape(1, 1, 2, 1, 2)
    >>> gram_row(counts, np.array([-1.0, 2.0]), np.array([[-1.0, 2.0]]))
    array([[[9.]]])
    """
    weighted = np.einsum("ifacb,a->ifcb", pair_counts, parent)
    result: np.ndarray = np.einsum("ifcb,ib->ifc", weighted, values)
    return result


def correlation(problem: Problem, pair_counts: np.ndarray, parent: int) -> np.ndarray:
    """Return the signed Pearson correlation of the parent with every feature."""
    numbers = problem.filled
    gram = gram_row(pair_counts, numbers[parent], numbers).sum(axis=(1, 2))
    return correlation_of(problem, gram, parent)


def correlation_of(problem: Problem, gram: np.ndarray, parent: int) -> np.ndarray:
    """Return the signed Pearson correlation of the parent with every feature, (feature,).

    It is computed from ``gram`` (feature,), the sums of products with the parent's values.
    """
    scale = problem.spread * problem.spread[parent] * problem.total
    result: np.ndarray = np.where(scale > 0, gram / np.where(scale > 0, scale, 1.0), 0.0)
    return result


def within_classes(problem: Problem, pair_counts: np.ndarray, parent: int) -> np.ndarray:
    """Return the dependence of the parent and every feature within classes, from 0 to 1.

    Notes
    -----
    For two numeric features, ``sqrt(sum_c p(c) max(0, r_c^2 - (1 - r_c^2) / (n_c - 2)))``, where
    r_c is the correlation in class c and n_c the number of samples of this class. If one of the two
    features is nominal, ``sqrt(1 - exp(-2 I))``, where I is the mutual information within classes
    minus its expectation under independence.
    """
    per_class = pair_counts.sum(axis=1)
    linear = _correlation_within(problem, per_class, parent)
    if problem.numeric.all():
        return linear
    nominal = ~problem.numeric if problem.numeric[parent] else np.ones_like(problem.numeric)
    result = linear
    result[nominal] = _information_within(per_class[nominal], problem.evidence)
    return result


def _correlation_within(problem: Problem, counts: np.ndarray, parent: int) -> np.ndarray:
    numbers = np.nan_to_num(np.where(problem.numeric[:, None], problem.numbers, 0.0))
    per_class = problem.class_counts.sum(axis=0)
    effective = per_class * problem.evidence
    enough = effective >= MIN_CLASS_SAMPLES
    size = np.maximum(per_class, 1)
    marginal = problem.counts.sum(axis=1)
    mean = np.einsum("icb,ib->ic", marginal, numbers) / size
    variance = np.einsum("icb,ib->ic", marginal, numbers**2) / size - mean**2
    gram = gram_row(counts[:, None], numbers[parent], numbers)[:, 0]
    covariance = gram / size - mean * mean[parent]
    scale = variance * variance[parent]
    constant = scale < 1e-20
    squared = np.where(constant, 0.0, covariance**2 / np.where(constant, 1.0, scale))
    squared = np.minimum(squared, 1.0)
    corrected = np.maximum(squared - (1 - squared) / np.maximum(effective - 2, 1), 0.0)
    shares = np.where(enough, per_class, 0) / max(per_class[enough].sum(), 1)
    result: np.ndarray = np.sqrt(corrected @ shares)
    return result


def _information_within(counts: np.ndarray, evidence: float) -> np.ndarray:
    by_class = counts.transpose(0, 2, 1, 3)
    size = by_class.sum(axis=(2, 3))
    first, second = by_class.sum(axis=3), by_class.sum(axis=2)
    inner = entropy(first, 1) + entropy(second, 1) - entropy(by_class, 2)
    freedom = ((first > 0).sum(axis=2) - 1) * ((second > 0).sum(axis=2) - 1)
    total = np.maximum(size.sum(axis=1), 1)
    mean = ((size * inner) - np.maximum(freedom, 0) / (2 * evidence)).sum(axis=1) / total
    result: np.ndarray = np.sqrt(1 - np.exp(-2 * np.maximum(mean, 0.0)))
    return result


def mean_affinities(affinity: np.ndarray, subsets: Sequence[int]) -> np.ndarray:
    """Return the mean affinity of every feature to every subset, (subset, feature).

    Parameters
    ----------
    affinity
        The affinity of each chosen feature to every feature, (rank, feature).
    subsets
        The subset of each chosen feature.

    Examples
    --------
    >>> mean_affinities(np.array([[0.2], [0.4], [0.1]]), [0, 0, 1])
    array([[0.3],
           [0.1]])
    """
    numbers = np.asarray(subsets, dtype=np.intp)
    n_subsets = int(numbers.max(initial=-1)) + 1
    sums = np.zeros((n_subsets, affinity.shape[1]))
    np.add.at(sums, numbers, affinity)
    return sums / np.bincount(numbers, minlength=n_subsets)[:, None]


def join(affinity: np.ndarray, subsets: Sequence[int], threshold: float) -> np.ndarray:
    """Return the index of the subset that each feature would join if it were chosen, (feature,).

    Existing subsets are numbered from 0. The next number means that the feature would open a new
    subset.

    Examples
    --------
    >>> join(np.array([[0.9, 0.1]]), [0], 0.2)
    array([0, 1])
    """
    means = mean_affinities(affinity, subsets)
    if len(means) == 0:
        return np.zeros(affinity.shape[1], dtype=np.intp)
    best = means.argmax(axis=0)
    result: np.ndarray = np.where(means.max(axis=0) > threshold, best, len(means))
    return result
