"""P-values: closed forms, an oracle that loops over samples, and uniform nulls."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hofs_dask.methods.significance import (
    Residuals,
    conditional_p_values,
    marginal_p_values,
    p_values,
)
from tests.methods.problems import make_problem


def oracle_statistic(codes, residuals):
    """The statistic of one feature and its degrees of freedom, sample by sample.

    Under permutations, the sums of codes b and c have the covariance
    ``S (n_b [b = c] - n_b n_c / n) / (n - 1)``, with the covariance S of the residuals times n.
    """
    n = len(codes)
    if n < 2:
        return 0.0, 0
    centred = residuals - residuals.mean(axis=0)
    spread = sum(np.outer(r, r) for r in centred)
    levels = sorted(set(codes.tolist()))
    sums = np.concatenate([centred[codes == b].sum(axis=0) for b in levels])
    sizes = np.array([(codes == b).sum() for b in levels], float)
    between = (np.diag(sizes) - np.outer(sizes, sizes) / n) / (n - 1)
    covariance = np.kron(between, spread)
    rank = np.linalg.matrix_rank(spread, tol=1e-9 * n)
    return float(sums @ np.linalg.pinv(covariance, rcond=1e-9) @ sums), rank * (len(levels) - 1)


def either(p):
    """The probability that one of two independent p-values is below p, 1 - (1 - p)^2."""
    return p * (2 - p)


def oracle_p_value(codes, residuals, values, parent=None, n_parents=1):
    """The p-value of one numeric feature."""
    statistic, freedom = oracle_statistic(codes, residuals)
    numbers = values[codes] - values[codes].mean()
    centred = residuals - residuals.mean(axis=0)
    spread = centred.T @ centred
    slope = numbers @ centred
    trend = (len(codes) - 1) * slope @ np.linalg.pinv(spread, rcond=1e-9) @ slope
    trend /= (numbers**2).sum()
    rank = np.linalg.matrix_rank(spread, tol=1e-9 * len(codes))
    p = stats.chi2.sf(statistic, freedom)
    if freedom > rank:
        rest = stats.chi2.sf(statistic - trend, freedom - rank)
        p = either(min(stats.chi2.sf(trend, rank), rest))
    if parent is None:
        return p
    parts = [oracle_statistic(codes[parent == a], residuals[parent == a]) for a in set(parent)]
    total, freedom = (sum(each) for each in zip(*parts, strict=True))
    return either(min(p, n_parents * stats.chi2.sf(total, freedom), 1.0))


@pytest.mark.parametrize(("n", "n_classes", "n_codes"), [(60, 2, 2), (80, 2, 5), (200, 4, 6)])
def test_marginal_p_values__equal_the_oracle(n, n_classes, n_codes):
    rng = np.random.default_rng(n)
    x, y = rng.integers(0, n_codes, (n, 4)), rng.integers(0, n_classes, n)
    x[:, 1] = (x[:, 1] + y) % n_codes
    problem = make_problem(x, y)
    residuals = np.eye(n_classes)[y] - np.bincount(y) / n
    expected = [oracle_p_value(x[:, i], residuals, problem.filled[i]) for i in range(4)]
    np.testing.assert_allclose(marginal_p_values(problem), expected, rtol=1e-9)


def test_marginal_p_values__of_two_codes_and_classes_are_those_of_pearson():
    """The moments of permutations give Pearson's chi-square times (n - 1) / n."""
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 2, (50, 1)), rng.integers(0, 2, 50)
    table = np.array([[(y[x[:, 0] == b] == c).sum() for c in (0, 1)] for b in (0, 1)])
    pearson = stats.chi2_contingency(table, correction=False).statistic
    expected = stats.chi2.sf(pearson * 49 / 50, 1)
    np.testing.assert_allclose(marginal_p_values(make_problem(x, y)), [expected], rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_p_values__with_parents_equal_the_oracle(n_classes):
    rng = np.random.default_rng(n_classes)
    n, n_codes = 150, 4
    x, y = rng.integers(0, n_codes, (n, 5)), rng.integers(0, n_classes, n)
    x[:, 3] = (x[:, 0] + y) % n_codes  # depends on the class given x0 only
    probability = rng.dirichlet(np.ones(n_classes), n)
    residuals = np.eye(n_classes)[y] - probability
    parents = np.array([-1, 0, 0, 0, -1])
    sums, counts = np.zeros((5, n_codes, n_codes, n_classes)), np.zeros((5, n_codes, n_codes))
    products = np.zeros((5, n_codes, n_classes, n_classes))
    for i, parent in enumerate(parents):
        of = x[:, 0] if parent >= 0 else np.zeros(n, int)
        np.add.at(sums[i], (of, x[:, i]), residuals)
        np.add.at(counts[i], (of, x[:, i]), 1)
        np.add.at(products[i], of, residuals[:, :, None] * residuals[:, None, :])
    problem = make_problem(x, y)
    found = Residuals(sums, products, counts.astype(int), parents, n_parents=2)
    expected = [
        oracle_p_value(x[:, i], residuals, problem.filled[i], None if p < 0 else x[:, 0], 2)
        for i, p in enumerate(parents)
    ]
    np.testing.assert_allclose(p_values(problem, found, np.arange(5)), expected, rtol=1e-9)
    some = p_values(problem, found, np.array([3, 1]))
    np.testing.assert_allclose(some, [expected[3], expected[1]], rtol=1e-9)
    assert some[0] < 1e-6
    assert len(p_values(problem, found, np.zeros(0, int))) == 0


@pytest.mark.parametrize(
    ("n", "n_classes", "n_codes", "share"),
    [(2000, 2, 5, 0.5), (200, 2, 5, 0.5), (500, 3, 5, 0.5), (500, 10, 8, 0.5), (2000, 2, 5, 0.02)],
)
@pytest.mark.parametrize("nominal", [False, True])
def test_marginal_p_values__of_noise_are_uniform(n, n_classes, n_codes, share, nominal):
    rng = np.random.default_rng((n, n_classes, n_codes))
    y = rng.integers(0, n_classes, n) if n_classes > 2 else (rng.random(n) < share).astype(int)
    problem = make_problem(rng.integers(0, n_codes, (n, 1000)), y)
    problem = replace(problem, nominal=np.full(1000, nominal))
    assert stats.kstest(marginal_p_values(problem), "uniform").pvalue > 1e-3


def test_p_values__are_one_for_constant_features_and_perfect_models():
    y = np.arange(40) % 2
    x = np.column_stack([np.zeros(40, int), np.arange(40) % 4])
    problem = make_problem(x, y)
    assert marginal_p_values(problem)[0] == 1
    none = Residuals(
        np.zeros((2, 1, 4, 2)),
        np.zeros((2, 1, 2, 2)),
        problem.counts.sum(axis=(1, 2))[:, None],
        np.full(2, -1),
        0,
    )
    assert p_values(problem, none, np.arange(2)).tolist() == [1, 1]


def test_p_values__of_groups_use_the_effective_number_of_samples():
    """Ten equal copies of every sample are worth as much as one."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3, (60, 1)), rng.integers(0, 2, 60)
    x[:, 0] = np.where(rng.random(60) < 0.3, 2 * y, x[:, 0])
    copies = make_problem(np.repeat(x, 10, axis=0), np.repeat(y, 10))
    grouped = replace(copies, n_groups=60, design_effect=np.array([10.0]))
    alone, naive = marginal_p_values(make_problem(x, y)), marginal_p_values(copies)
    assert naive < 1e-3 * alone
    np.testing.assert_allclose(marginal_p_values(grouped), alone, rtol=0.5)


def test_conditional_p_values__are_the_largest_of_all_picks():
    rng = np.random.default_rng(1)
    problem = make_problem(rng.integers(0, 3, (300, 2)), rng.integers(0, 2, 300))
    terms = np.array([[0.02, 0.001], [0.01, 0.03]])
    expected = [max(stats.chi2.sf(600 * terms[j, i], 2 * 3) for j in range(2)) for i in range(2)]
    found = conditional_p_values(problem, terms, [0, 1])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
