"""Slow and simple interactions: counts by loops, fits by repeated scaling, tests by scipy."""

from itertools import combinations, pairwise

import numpy as np
from scipy.stats import chi2


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
    correction = 1 + np.prod(
        [
            (n / table.sum(axis=tuple(a for a in range(table.ndim) if a != axis))).sum() - 1
            for axis in range(table.ndim)
        ]
    ) / (6 * n * df)
    found = synergy(table)
    return found, total, total - best, df, chi2.sf(2 * n * found / correction, df)


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
