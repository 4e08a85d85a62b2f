"""Affinities and subsets of features, against direct computation from samples."""

import numpy as np
import pytest

from hofs_dask.methods.affinity import correlation, gram_row, join, mean_affinities, within_classes
from tests.methods.problems import count_pairs, make_problem


def draw(n=4000, n_classes=2, n_codes=4, seed=0):
    """Return codes of four features: one, one that depends on it, one of the class only, noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    first = rng.integers(0, n_codes, n)
    second = np.where(rng.random(n) < 0.6, first, rng.integers(0, n_codes, n))
    third = np.minimum(y + rng.integers(0, 2, n), n_codes - 1)
    return np.column_stack([first, second, third, rng.integers(0, n_codes, n)]), y


def test_gram_row__is_the_sum_of_products_over_samples():
    x, y = draw()
    problem = make_problem(x, y)
    numbers = problem.filled
    found = gram_row(count_pairs(x, y, 0), numbers[0], numbers)
    of_samples = np.stack([numbers[i][x[:, i]] for i in range(4)])
    folds = np.arange(len(y)) % 4
    for fold in range(4):
        for label in range(2):
            some = (folds == fold) & (y == label)
            expected = of_samples[:, some] @ of_samples[0, some]
            np.testing.assert_allclose(found[:, fold, label], expected, rtol=1e-12)


def test_correlation__is_the_signed_pearson_correlation():
    x, y = draw()
    x[:, 3] = 3 - x[:, 1]
    found = correlation(make_problem(x, y), count_pairs(x, y, 0), 0)
    np.testing.assert_allclose(found, np.corrcoef(x.T)[0], rtol=1e-12)
    assert found[0] == pytest.approx(1.0)
    assert found[3] < 0


def test_correlation__of_a_constant_is_zero():
    x, y = draw()
    x[:, 2] = 1
    assert correlation(make_problem(x, y), count_pairs(x, y, 0), 0)[2] == 0.0


def test_within_classes__is_the_corrected_correlation_in_each_class():
    x, y = draw(n_classes=3)
    found = within_classes(make_problem(x, y), count_pairs(x, y, 0), 0)
    squared = np.zeros(4)
    for label in range(3):
        some = x[y == label]
        r2 = np.corrcoef(some.T)[0] ** 2
        squared += len(some) / len(x) * np.maximum(r2 - (1 - r2) / (len(some) - 2), 0.0)
    np.testing.assert_allclose(found, np.sqrt(squared), rtol=1e-9, atol=1e-12)


def test_within_classes__is_near_zero_for_features_that_depend_only_on_the_label():
    """Both are the label with independent noise: correlated, but not within a class."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 20_000)
    x = np.column_stack([(y ^ (rng.random(20_000) < 0.1)) for _ in range(2)]).astype(int)
    problem, pairs = make_problem(x, y), count_pairs(x, y, 0)
    assert correlation(problem, pairs, 0)[1] > 0.6
    assert within_classes(problem, pairs, 0)[1] < 0.05


def test_within_classes__of_a_nominal_feature_is_computed_from_information():
    x, y = draw()
    nominal = [True, False, False, False]
    found = within_classes(make_problem(x, y, nominal=nominal), count_pairs(x, y, 0), 0)
    pairs = count_pairs(x, y, 0).sum(axis=1)
    for i in range(4):
        mean = 0.0
        for label in range(2):
            table = pairs[i, :, label].astype(float)
            n = table.sum()
            outer = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
            cells = table > 0
            inner = (table[cells] * np.log(table[cells] / outer[cells])).sum()
            used = [(table.sum(axis=axis) > 0).sum() - 1 for axis in (0, 1)]
            mean += (inner - used[0] * used[1] / 2) / len(y)
        expected = np.sqrt(1 - np.exp(-2 * max(mean, 0.0)))
        assert found[i] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_mean_affinities__are_means_over_the_members():
    affinity = np.array([[0.2, 0.5], [0.4, 0.1], [0.1, 0.9]])
    found = mean_affinities(affinity, [0, 0, 1])
    np.testing.assert_allclose(found, [[0.3, 0.3], [0.1, 0.9]])


def test_mean_affinities__without_picks_are_empty():
    assert mean_affinities(np.zeros((0, 3)), []).shape == (0, 3)


@pytest.mark.parametrize(
    ("affinity", "subsets", "expected"),
    [
        ([[0.9, 0.1]], [0], [0, 1]),  # above, below
        ([[0.2, 0.21]], [0], [1, 0]),  # equal to the threshold is not above it
        ([[0.3, 0.5], [0.5, 0.3]], [0, 1], [1, 0]),  # the largest mean wins
        ([[0.4, 0.4], [0.4, 0.4]], [0, 1], [0, 0]),  # a tie goes to the first
        ([[-0.9, 0.0]], [0], [1, 1]),  # negative affinities are below the threshold
    ],
)
def test_join__returns_the_subset_with_the_largest_mean_above_the_threshold(
    affinity, subsets, expected
):
    assert join(np.array(affinity), subsets, 0.2).tolist() == expected


def test_join__the_first_pick_opens_the_first_subset():
    assert join(np.zeros((0, 2)), [], 0.2).tolist() == [0, 0]
