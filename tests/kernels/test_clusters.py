"""The design effect of clusters: closed forms, and an oracle that sums over pairs of samples."""

import numpy as np
import pytest
from scipy import stats

from hofs_dask.kernels.clusters import design_effect
from tests import oracles


def counted(cluster, y, x):
    counts = np.zeros((1, cluster.max() + 1, y.max() + 1, x.max() + 1), np.int64)
    np.add.at(counts[0], (cluster, y, x), 1)
    return counts


def effect(group, y, x, n_clusters=None):
    cluster = group if n_clusters is None else group % n_clusters
    return design_effect(counted(cluster, y, x), int(group.max()) + 1)[0]


@pytest.mark.parametrize("seed", range(6))
def test_design_effect__equals_a_sum_over_pairs(seed):
    rng = np.random.default_rng(seed)
    n, n_groups = 300, (2, 5, 20, 64, 10, 10)[seed]
    group = rng.permutation(np.arange(n) % n_groups)
    if seed % 2:  # groups of different sizes
        group = np.minimum(group, rng.integers(0, n_groups, n))
    y = (rng.integers(0, 3, n_groups)[group] + (rng.random(n) < 0.3)) % 3
    x = (rng.integers(0, 4, n_groups)[group] + (rng.random(n) < 0.2)) % 4
    counts = counted(group, y, x)
    (found,) = design_effect(counts, len(np.unique(group)))
    assert found == pytest.approx(oracles.design_effect(x, y, group), rel=1e-9)


def test_design_effect__of_equal_samples_is_their_number():
    """250 equal samples of each of 40 subjects are worth about 40 samples."""
    found = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(40), 250)
        found.append(effect(group, rng.integers(0, 2, 40)[group], rng.integers(0, 5, 40)[group]))
    assert np.mean(found) == pytest.approx(250, rel=0.02)
    assert np.min(found) > 200


def test_design_effect__needs_no_cluster_per_group():
    """Groups that share clusters give about the same factor."""
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(640), 20)
    y, x = rng.integers(0, 2, 640)[group], rng.integers(0, 5, 640)[group]
    assert effect(group, y, x) == pytest.approx(20, rel=0.02)
    assert effect(group, y, x, n_clusters=64) == pytest.approx(20, rel=0.4)


def test_design_effect__of_independent_samples_is_near_1():
    rng = np.random.default_rng(0)
    found = [effect(*(rng.integers(0, k, 10_000) for k in (40, 2, 5))) for _ in range(100)]
    assert np.min(found) >= 1
    assert np.max(found) < 1.01


@pytest.mark.parametrize("of_group", [False, True])
def test_design_effect__does_not_count_a_true_effect_as_dependence(of_group):
    """The class is one of the sample, or of the group."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(50), 100)
    y = rng.integers(0, 2, 50)[group] if of_group else rng.integers(0, 2, 5000)
    x = np.where(rng.random(5000) < 0.8, y, 1 - y)
    assert effect(group, y, x) < 1.2


def test_design_effect__is_1_for_constant_features_and_single_samples():
    zeros, ones = np.zeros(20, int), np.arange(20) % 2
    assert effect(ones, ones, zeros) == 1.0
    assert effect(np.arange(20), ones, zeros) == 1.0
    assert effect(np.arange(20), ones, np.arange(20) % 4) == 1.0
    assert design_effect(np.zeros((0, 3, 2, 2), int), 3).shape == (0,)


def p_values_of_noise(group, y, share, n_features=300):
    """P-values of noise features with a share of their variance between groups: trend and total."""
    n, n_groups, n_codes = len(y), int(group.max()) + 1, 5
    rng = np.random.default_rng(0)
    noise = np.sqrt(share) * rng.normal(size=(n_features, n_groups))[:, group]
    noise += np.sqrt(1 - share) * rng.normal(size=(n_features, n))
    codes = noise.argsort(axis=1).argsort(axis=1) * n_codes // n
    counts = np.concatenate([counted(group, y, x) for x in codes])
    effects = design_effect(counts, n_groups)
    total = counts.sum(axis=1)
    expected = total.sum(axis=1, keepdims=True) * total.sum(axis=2, keepdims=True) / n
    chi2 = ((total - expected) ** 2 / expected).sum(axis=(1, 2))
    centred = codes - codes.mean(axis=1, keepdims=True)
    trend = n * np.array([np.corrcoef(x, y)[0, 1] ** 2 for x in centred])
    dof = (n_codes - 1) * int(y.max())
    left = n_groups - 1
    return stats.f.sf(trend / effects, 1, left), stats.f.sf(chi2 / effects / dof, dof, left)


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_design_effect__p_values_of_noise_are_not_too_small(sizes, share):
    """Noise that is correlated within groups is not significant more often than expected.

    Three of the unequal groups have half of the samples.
    """
    sizes = np.full(40, 40) if sizes == "equal" else np.r_[300, 280, 250, np.full(37, 20)]
    group = np.repeat(np.arange(40), sizes)
    y = (np.arange(40) % 2)[group]
    for p_values in p_values_of_noise(group, y, share):
        assert (p_values < 0.05).mean() < 0.1
        assert (p_values < 0.005).mean() < 0.025
