"""Slow and simple interactions: counts by loops, fits by repeated scaling, tests by scipy."""

from itertools import combinations, pairwise

import numpy as np
from scipy.stats import chi2, poisson


def table_of(codes, labels, columns):
    """Count every combination of the codes of some columns and the class."""
    shape = [int(codes[c].max()) + 1 for c in columns] + [int(labels.max()) + 1]
    table = np.zeros(shape)
    for s in range(len(labels)):
        table[(*(codes[c][s] for c in columns), labels[s])] += 1
    return table


def entropy(table, axes):
    """Return the entropy of some variables of a table."""
    other = tuple(a for a in range(table.ndim) if a not in axes)
    p = table.sum(axis=other).ravel() / table.sum()
    return -sum(v * np.log(v) for v in p if v > 0)


def information(table, axes):
    """Return the information of some features about the class, the last axis."""
    label = table.ndim - 1
    return entropy(table, axes) + entropy(table, [label]) - entropy(table, [*axes, label])


def fitted(table, n_cycles=5000):
    """Return the expected counts without the term of the highest order, from uniform ones."""
    found = np.full(table.shape, table.sum() / table.size)
    for _ in range(n_cycles):
        before = found.copy()
        for axis in range(table.ndim):
            own, fit = table.sum(axis=axis, keepdims=True), found.sum(axis=axis, keepdims=True)
            found = found * np.divide(own, fit, out=np.zeros_like(fit), where=fit > 0)
        if np.abs(found - before).max() < 1e-11 * table.sum():
            break
    return found


def synergy(table):
    """Return the deviance per sample from the fit."""
    fit, used = fitted(table), table > 0
    return (table[used] * np.log(table[used] / fit[used])).sum() / table.sum()


def interaction(codes, labels, columns):
    """Return synergy, information, added, df and p-value of a tuple whose margins have no zeros."""
    table = table_of(codes, labels, columns)
    axes = range(len(columns))
    total = information(table, list(axes))
    best = max(
        information(table, list(some))
        for k in range(1, len(columns))
        for some in combinations(axes, k)
    )
    df = np.prod([n - 1 for n in table.shape])
    n = table.sum()
    found = synergy(table)
    correction = max(expected_deviance(table) / df, 1)
    return found, total, total - best, df, chi2.sf(2 * n * found / correction, df)


def deviance_of(mean):
    """Return the expected deviance of a Poisson count, and the second derivative by its mean."""
    counts = np.arange(int(mean + 15 * np.sqrt(mean) + 30))
    shares = poisson.pmf(counts, mean)

    def product(n):
        return n * np.log(np.maximum(n, 1))

    own, after, later = product(counts), product(counts + 1), product(counts + 2)
    value = 2 * (shares @ own - mean * np.log(mean))
    return value, 2 * (shares @ (later - 2 * after + own) - 1 / mean)


def of_count(count):
    """Return the value of a count whose expectation is the expected deviance."""
    few = [0, 3.625, -1.11, 1.311, 1.6]
    if count >= 4 and count < 5:
        return few[4] + (count - 4) * (of_count(5) - few[4])
    if count < 4:
        return np.interp(count, range(5), few)
    if count >= 100:
        return 1 + 1 / (6 * count)
    value, second = deviance_of(count)
    return value - count * second / 2


def expected_deviance(table):
    """Return the expected deviance without synergy, from the margins and the fit."""
    k, total, variance = table.ndim, 0.0, np.zeros(table.shape)
    for size in range(k):
        for axes in combinations(range(k), size):
            other = tuple(a for a in range(k) if a not in axes)
            margin = table.sum(axis=other, keepdims=True)
            sign = (-1) ** (k - size)
            total += sign * sum(of_count(n) for n in margin.ravel())
            if size:
                variance = variance - sign / np.maximum(margin, 1)
    for mean, spread in zip(fitted(table).ravel(), variance.ravel(), strict=True):
        if mean > 1e-6:
            value, second = deviance_of(mean)
            spread = min(max(spread, 1e-9), 1)
            bias = mean**2 * second / 2 * spread * of_count(1 / spread)
            total += max(value - bias, 0)
    return total


def merged(values, most):
    """Return codes of numbers merged to groups of about equal counts."""
    edges = np.unique(values)
    if len(edges) <= most:
        return np.searchsorted(edges, values)
    order = np.sort(values)
    middles = [(order < e).sum() + (order == e).sum() / 2 for e in edges]
    groups = [int(m * most // len(values)) for m in middles]
    dense = {g: k for k, g in enumerate(sorted(set(groups)))}
    assert all(b >= a for a, b in pairwise(groups))
    return np.array([dense[groups[k]] for k in np.searchsorted(edges, values)])
