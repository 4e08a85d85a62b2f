"""Rows fitted without each fold, against samples and closed forms."""

import numpy as np
import pytest

from hofs_dask.methods.affinity import gram_row
from hofs_dask.methods.fits import (
    LOGISTIC_SD,
    Moments,
    fit_linear,
    fit_pairs,
    fit_tables,
    mean_log,
    parent_gain,
    to_factors,
    without_each_fold,
)
from tests.methods.problems import count_pairs, make_problem

N, C, B = 3000, 2, 4


@pytest.fixture
def samples():
    """Codes of three features: dependent on the class, on the first and the class, and noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, C, N)
    first = np.minimum(rng.integers(0, B - 1, N) + y, B - 1)
    second = np.where(rng.random(N) < 0.7, first, rng.integers(0, B, N))
    return np.column_stack([first, second, rng.integers(0, B, N)]), y


def test_without_each_fold__is_the_sum_of_the_others():
    counts = np.arange(24).reshape(2, 4, 3)
    found = without_each_fold(counts, 1)
    for fold in range(4):
        others = [other for other in range(4) if other != fold]
        np.testing.assert_array_equal(found[:, fold], counts[:, others].sum(axis=1))


def test_fit_tables__are_distributions_that_do_not_use_their_fold(samples):
    x, y = samples
    tables = fit_tables(make_problem(x, y))
    np.testing.assert_allclose(tables.sum(axis=-1), 1.0, rtol=1e-12)
    assert (tables > 0).all()
    changed = x.copy()
    changed[np.arange(N) % 4 == 1] = 0  # change one fold
    again = fit_tables(make_problem(changed, y))
    np.testing.assert_array_equal(again[:, 1], tables[:, 1])
    assert not np.array_equal(again[:, 0], tables[:, 0])


def test_fit_tables__of_an_irrelevant_feature_are_equal_for_all_classes():
    """Codes and classes are perfectly balanced, so chi-square is zero and shrinkage complete."""
    y, code = (each.ravel() for each in np.meshgrid(np.arange(2), np.arange(4)))
    x, y = np.tile(code, 8)[:, None], np.tile(y, 8)
    tables = fit_tables(make_problem(x, y, folds=np.arange(64) // 16))
    np.testing.assert_allclose(tables[:, :, 0], tables[:, :, 1])
    np.testing.assert_allclose(tables, 0.25)


def test_fit_tables__approach_the_frequencies_as_samples_grow(samples):
    x, y = samples
    many, labels = np.repeat(x, 40, axis=0), np.repeat(y, 40)
    tables = fit_tables(make_problem(many, labels, folds=np.tile(np.arange(4), 10 * N)))
    for label in range(C):
        shares = np.bincount(x[y == label, 0], minlength=B) / (y == label).sum()
        np.testing.assert_allclose(tables[0, :, label], np.tile(shares, (4, 1)), atol=2e-3)


def test_fit_tables__of_ordered_codes_follow_a_trend_if_samples_are_few():
    """The classes are a normal distribution and the same tilted by exp(v), seen in 240 samples.

    The other codes of a class inform about the probability of a code, so the table of ordered codes
    is closer to the truth than that of the same codes as categories.
    """
    centres = np.arange(6.0) - 2.5
    truth = np.exp(-(centres**2) / 4) * np.exp(np.array([[0.0], [0.6]]) * centres)
    truth /= truth.sum(axis=1, keepdims=True)
    losses = {True: [], False: []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = np.arange(240) % 2
        x = np.array([rng.choice(6, p=truth[label]) for label in y])[:, None]
        for nominal in losses:
            problem = make_problem(x, y, values=centres[None], nominal=[nominal])
            tables = fit_tables(problem)[0]
            losses[nominal].append((truth * np.log(truth / tables)).sum(axis=-1).mean())
    assert np.mean(losses[False]) < 0.8 * np.mean(losses[True])


def test_fit_tables__trends_have_the_mean_of_each_class(samples):
    """With three codes and many samples the tilt is fitted to the mean, the rest is kept too."""
    x, y = samples
    many, labels = np.repeat(x % 3, 40, axis=0), np.repeat(y, 40)
    tables = fit_tables(make_problem(many, labels, folds=np.tile(np.arange(4), 10 * N)))
    for label in range(C):
        mean = (many[labels == label, 0]).mean()
        np.testing.assert_allclose(tables[0, :, label] @ np.arange(3.0), mean, atol=2e-3)


def test_fit_pairs__are_distributions_given_the_parent(samples):
    x, y = samples
    problem, pairs = make_problem(x, y), count_pairs(x, y, 0)
    found = fit_pairs(problem, pairs, fit_tables(problem))
    assert found.shape == (3, 4, C, B, B)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-12)
    # the second feature mostly repeats its parent, the third is independent of it
    seen = np.array([[(x[y == label, 0] == code).any() for code in range(B)] for label in range(C)])
    repeated = np.diagonal(found[1], axis1=-2, axis2=-1)
    assert (repeated[:, seen] > 0.6).all()
    assert (repeated[:, ~seen] < 0.6).all()
    assert (np.abs(found[2] - 0.25) < 0.15).all()


def test_parent_gain__is_the_out_of_sample_log_ratio(samples):
    x, y = samples
    problem, counts = make_problem(x, y), count_pairs(x, y, 0)
    tables = fit_tables(problem)
    pairs = fit_pairs(problem, counts, tables)
    found = parent_gain(counts, pairs, tables)
    folds = np.arange(N) % 4
    for i in range(3):
        ratio = np.log(pairs[i, folds, y, x[:, 0], x[:, i]] / tables[i, folds, y, x[:, i]])
        expected = [ratio[folds == fold].sum() / N for fold in range(4)]
        np.testing.assert_allclose(found[i], expected, rtol=1e-10, atol=1e-14)
    assert found[1].sum() > 0.2
    assert found[2].sum() < 0.01


def test_to_factors__keep_ratios_and_have_maximum_one():
    logs = np.random.default_rng(0).normal(size=(3, C, B)) * 100
    found = to_factors(logs)
    np.testing.assert_array_equal(found.max(axis=-2), 1.0)
    ratio = np.log(found[:, 0]) - np.log(found[:, 1])
    np.testing.assert_allclose(ratio, logs[:, 0] - logs[:, 1], rtol=1e-9)


def test_mean_log__is_the_mean_over_samples(samples):
    x, y = samples
    problem = make_problem(x, y)
    tables, folds = fit_tables(problem), np.arange(N) % 4
    found = mean_log(problem, tables)
    for i in range(3):
        logs = np.log(tables[i, folds, y, x[:, i]])
        expected = [logs[folds == fold].sum() / N for fold in range(4)]
        np.testing.assert_allclose(found[i], expected, rtol=1e-10)


def moments_of(x, y, chosen):
    problem = make_problem(x, y)
    numbers = problem.filled
    gram = np.stack([gram_row(count_pairs(x, y, p), numbers[p], numbers) for p in chosen])
    return problem, Moments.of(problem, gram, tuple(chosen))


def test_moments__are_those_of_the_samples_of_the_other_folds(samples):
    x, y = samples
    problem, moments = moments_of(x, y, [0])
    values = np.stack([problem.filled[i][x[:, i]] for i in range(3)])
    for fold in range(4):
        for label in range(C):
            some = values[:, (np.arange(N) % 4 != fold) & (y == label)]
            at = np.s_[:, fold, label]
            assert moments.size[fold, label] == some.shape[1]
            np.testing.assert_allclose(moments.mean[at], some.mean(axis=1), rtol=1e-9)
            np.testing.assert_allclose(moments.variance[at], some.var(axis=1), rtol=1e-9)
            covariance = np.cov(some, bias=True)[0]
            np.testing.assert_allclose(moments.covariance[0][at], covariance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize("per_class", [True, False])
def test_fit_linear__is_least_squares_within_classes(samples, logistic, per_class):
    x, y = samples
    problem, moments = moments_of(x, y, [0])
    parents = np.array([[-1], [0], [0]])
    found = fit_linear(problem, moments, parents, per_class, logistic)
    values = np.stack([problem.filled[i][x[:, i]] for i in range(3)])
    some = np.arange(N) % 4 != 2
    inner = values[:, some].copy()
    for label in range(C):
        own = y[some] == label
        inner[:, own] -= inner[:, own].mean(axis=1, keepdims=True)
    shared = (inner[0] @ inner[1]) / (inner[0] @ inner[0])
    np.testing.assert_allclose(found.slopes[1, 2, :, 0], shared, atol=0.02)
    if not per_class:
        assert np.ptp(found.slopes[1, 2, :, 0]) == 0
    residual = (inner[1] - shared * inner[0]).std()
    unit = LOGISTIC_SD if logistic else 1.0
    np.testing.assert_allclose(found.scales[1, 2], unit / residual, rtol=0.05)
    assert not found.slopes[0].any()  # the first feature has no parent


def test_fit_linear__finds_separate_slopes_of_classes():
    """The effect of the parent has opposite signs in the classes, so a shared slope is zero."""
    rng = np.random.default_rng(3)
    y, first = rng.integers(0, 2, 8000), rng.integers(0, 4, 8000)
    x = np.column_stack([first, np.where(y == 1, first, 3 - first)])
    problem, moments = moments_of(x, y, [0])
    parents = np.array([[-1], [0]])
    shared = fit_linear(problem, moments, parents, False, True).slopes[1, 0, :, 0]
    apart = fit_linear(problem, moments, parents, True, True).slopes[1, 0, :, 0]
    np.testing.assert_allclose(shared, 0.0, atol=0.05)
    np.testing.assert_allclose(apart, [-1.0, 1.0], atol=0.05)
