"""The design effect of clusters: closed forms, and an oracle that sums over pairs of samples."""

import numpy as np
import pytest

from hofs_dask.kernels.clusters import design_effect


def counted(cluster, y, x):
    counts = np.zeros((1, cluster.max() + 1, y.max() + 1, x.max() + 1), np.int64)
    np.add.at(counts[0], (cluster, y, x), 1)
    return counts


def effect(group, y, x, n_clusters=None):
    cluster = group if n_clusters is None else group % n_clusters
    return design_effect(counted(cluster, y, x), int(group.max()) + 1)[0]


def oracle(group, y, x):
    """One plus the sum of products over all pairs of samples of a group."""
    n = len(x)
    of_code, of_class = np.zeros((2, n, n))
    for b in np.unique(x):
        here = (x == b).astype(float)
        for c in np.unique(y):
            here[y == c] -= (x[y == c] == b).mean()
        of_code += np.outer(here, here) / (x == b).mean()
    for c in np.unique(y):
        here = (y == c) - (y == c).mean()
        of_class += np.outer(here, here) / (y == c).mean()
    excess = 0.0
    for g in np.unique(group):
        (rows,) = np.nonzero(group == g)
        pairs = [(i, j) for i in rows for j in rows if i != j]
        if pairs:
            i, j = np.array(pairs).T
            excess += of_code[i, j].sum() * of_class[i, j].sum() / len(pairs)
    return 1 + max(0.0, excess * n / of_code.trace() / of_class.trace())


@pytest.mark.parametrize("seed", range(6))
def test_design_effect__equals_a_sum_over_pairs(seed):
    rng = np.random.default_rng(seed)
    n, n_groups = 300, (2, 5, 20, 64, 10, 10)[seed]
    group = rng.permutation(np.arange(n) % n_groups)
    y = (rng.integers(0, 3, n_groups)[group] + (rng.random(n) < 0.3)) % 3
    x = (rng.integers(0, 4, n_groups)[group] + (rng.random(n) < 0.2)) % 4
    np.testing.assert_allclose(effect(group, y, x), oracle(group, y, x), rtol=1e-10)


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
