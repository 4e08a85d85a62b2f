"""Selections on models with known answers: the paper's models, interactions, spreads, noise."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import hofs_dask as hd
from hofs_dask.synthetic import heterogeneous_model, tree_information, tree_model

CRITERIA = ("joint", "sum", "mean")
TREE_SUBSETS = [{"x1", "x4", "x5"}, {"x2", "x6", "x7"}, {"x3", "x8", "x9"}]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The code store of the tree model, 100 000 samples with 32 bins."""
    model = tree_model()
    return hd.encode(model.x, model.y, tmp_path_factory.mktemp("tree") / "codes.zarr", bins=32)


@pytest.fixture(scope="module")
def tree_results(tree):
    return {
        criterion: hd.select(tree, None, 9, method=hd.HOFS(criterion=criterion))
        for criterion in CRITERIA
    }


@pytest.mark.parametrize("criterion", CRITERIA)
def test_tree__dependent_features_share_a_subset(tree_results, criterion):
    subsets = [set(subset) for subset in tree_results[criterion].subsets]
    assert sorted(subsets, key=sorted) == sorted(TREE_SUBSETS, key=sorted)


@pytest.mark.parametrize("criterion", ["joint", "sum"])
def test_tree__first_picks_are_the_roots_of_the_branches(tree_results, criterion):
    assert tree_results[criterion].features[:3] == ["x1", "x2", "x3"]


def test_tree__relevance_is_near_the_exact_integral(tree_results):
    relevance = tree_results["joint"].to_dataset().relevance
    for name in relevance.feature.values:
        truth = tree_information(str(name))
        assert float(relevance.sel(feature=name)) == pytest.approx(truth, abs=0.003)


@pytest.mark.parametrize("source", ["logistic", "gaussian"])
def test_tree__both_sources_find_the_subsets(tree, source):
    result = hd.select(tree, None, 9, method=hd.HOFS(criterion="sum", source=source))
    subsets = [set(subset) for subset in result.subsets]
    assert sorted(subsets, key=sorted) == sorted(TREE_SUBSETS, key=sorted)


def heterogeneous_structure_is_found(seed):
    model = heterogeneous_model(seed=seed)
    method = hd.HOFS(criterion="sum", affinity="correlation")
    subsets = [set(s) for s in hd.select(model.x, model.y, 20, method=method).subsets]
    numeric = {"F4", "F5", "F9", "F10", "F14", "F15"}
    return (
        numeric in subsets
        and any({"F1", "F2", "F6", "F7"} <= subset for subset in subsets)
        and any({"F3", "F8"} <= subset for subset in subsets)
        and all({f"F{i}"} in subsets for i in range(16, 21))
    )


def test_heterogeneous_model__sum_finds_the_groups_for_nine_of_ten_seeds():
    assert sum(heterogeneous_structure_is_found(seed) for seed in range(10)) >= 9


def xnor(n, seed, n_noise=0):
    rng = np.random.default_rng(seed)
    x1, x2 = rng.integers(0, 2, (2, n))
    noise = rng.normal(size=(n, n_noise))
    return np.column_stack([x1, x2, np.zeros(n), noise]), (x1 == x2).astype(int)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_xor__pair_is_chosen_and_the_constant_is_not(criterion):
    x, y = xnor(1000, seed=0)
    result = hd.select(x, y, 2, method=hd.HOFS(criterion=criterion))
    assert sorted(result.features) == ["x0", "x1"]
    assert not result.to_dataset().usable.sel(feature="x2")


def test_printout__names_constant_and_all_missing_features():
    x, y = xnor(1000, seed=0)
    x = np.column_stack([x, np.full(len(x), np.nan)])
    for result in (hd.select(x, y, 2), hd.compare(x, y, 2, methods=["mim"])):
        assert "2 features are constant or all missing: x2 x3" in repr(result).splitlines()
        assert result.to_dataset()["usable"].values.tolist() == [True, True, False, False]


def test_xor__joint_finds_the_pair_in_one_subset_with_all_information():
    x, y = xnor(1000, seed=0)
    result = hd.select(x, y, 2)
    assert [set(subset) for subset in result.subsets] == [{"x0", "x1"}]
    assert result.to_dataset().information[-1] == pytest.approx(np.log(2), abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_xor__partner_is_next_among_fifty_noise_features(seed):
    x, y = xnor(1000, seed, n_noise=50)
    result = hd.select(x, y, 2, include=["x0"])
    assert result.features == ["x0", "x1"]


def test_interaction__is_found_without_correlations_within_classes():
    # y = [x3 + x7 x8 > 0]: x7 and x8 are uncorrelated with everything, in every class
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, 12))
    y = x[:, 3] + x[:, 7] * x[:, 8] > 0
    result = hd.select(x, y, 3)
    assert result.features[0] == "x3"
    assert sorted(result.features[1:]) == ["x7", "x8"]


@pytest.mark.parametrize("seed", range(5))
def test_spread__feature_whose_variance_differs_between_classes_is_found(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 1000)
    x = rng.normal(size=(1000, 30))
    x[:, 17] *= np.where(y == 1, 2.0, 1.0)
    assert hd.select(x, y, 1).features == ["x17"]


def two_class_information(first, second, low=-12, high=12):
    """Return I(x:y) for equal classes with these two densities, by numerical integration."""

    def integrand(x):
        p, q = first(x), second(x)
        mixture = (p + q) / 2
        return sum(0.5 * f * np.log(f / mixture) for f in (p, q) if f > 0)

    return quad(integrand, low, high, limit=500)[0]


def shift_information(distance):
    return two_class_information(norm(0, 1).pdf, norm(distance, 1).pdf)


def tree_sample(n, seed):
    model = tree_model(n, seed=seed)
    # x1, x2, x3 are independent given y, and x4..x9 add nothing. Normals of unit variance whose
    # means differ by 1, 1/1.5 and 1/2.25 are equivalent to one with the norm of that vector.
    truth = shift_information(np.sqrt(1 + 1.5**-2 + 2.25**-2))
    return model.x.values, model.y.values, truth


def correlated_sample(n, seed):
    # Two normals of correlation r whose means differ by (1, 0): the Mahalanobis distance is
    # 1 / sqrt(1 - r^2), so the second feature is informative only together with the first.
    rng, r = np.random.default_rng(seed), 0.8
    y = rng.integers(0, 2, n)
    x = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], n)
    x[:, 0] += y
    noise = rng.normal(size=(n, 4))
    return np.column_stack([x, noise]), y, shift_information(1 / np.sqrt(1 - r**2))


def spread_sample(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 5))
    x[:, 2] *= np.where(y == 1, 2.0, 1.0)
    return x, y, two_class_information(norm(0, 1).pdf, norm(0, 2).pdf, -30, 30)


@pytest.mark.parametrize("n", [500, 5000])
@pytest.mark.parametrize("sample", [tree_sample, correlated_sample, spread_sample])
def test_information__stays_below_the_truth_up_to_sampling_error(sample, n):
    excess = []
    for seed in range(8):
        x, y, truth = sample(n, seed)
        result = hd.select(x, y, min(6, x.shape[1]))
        excess.append(float(result.to_dataset().information.max()) - truth)
    # the log posterior of a sample varies by less than 0.7 nats here, and each seed is one draw
    assert np.mean(excess) < 3 * 0.7 / np.sqrt(n * len(excess))
    if n == 5000:  # the bound is also tight
        assert np.mean(excess) > -0.2 * truth


@pytest.mark.parametrize("n", [32, 300, 3000])
@pytest.mark.parametrize("kind", ["numbers", "categories"])
def test_information__is_near_zero_on_pure_noise(kind, n):
    largest = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        draw = rng.normal if kind == "numbers" else lambda size, rng=rng: rng.integers(0, 3, size)
        y = rng.integers(0, 3, n)
        result = hd.select(draw(size=(n, 56)), y, 10)
        largest.append(float(result.to_dataset().information.max()))
    assert np.mean(largest) < 0.03
    assert max(largest) < 0.1


def test_continuous_target__works_with_every_criterion():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 8))
    y = x[:, 2] + 0.5 * x[:, 5] + 0.3 * rng.normal(size=2000)
    for criterion in CRITERIA:
        result = hd.select(x, y, 2, method=hd.HOFS(criterion=criterion))
        assert result.features == ["x2", "x5"]
        assert result.to_dataset().attrs["target_kind"] == "continuous"


def test_ordinal_target__differs_from_classes_for_sum():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 2000)
    x = rng.normal(size=(2000, 6))
    x[:, 1] += y
    x[:, 4] += y == 2
    method = hd.HOFS(criterion="sum")
    ordinal = hd.select(x, y, 2, method=method, target_kind="ordinal")
    classes = hd.select(x, y, 2, method=method)
    assert ordinal.features[0] == classes.features[0] == "x1"
    assert ordinal.scores[1] != pytest.approx(classes.scores[1], abs=1e-3)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_classes_relabelled__give_the_same_picks(criterion):
    rng = np.random.default_rng(3)
    y = rng.permutation(np.repeat([0, 1, 2], 400))  # equal sizes, so only the names differ
    x = rng.normal(size=(1200, 8))
    x[:, 0] += y == 0
    x[:, 1] += 0.9 * (y == 1)
    x[:, 2] += 0.8 * (y == 2)
    method = hd.HOFS(criterion=criterion)
    first = hd.select(x, y, 6, method=method)
    second = hd.select(x, np.array([2, 0, 1])[y], 6, method=method)
    third = hd.select(x, np.array(["c", "a", "b"])[y], 6, method=method)
    for other in (second, third):
        assert other.features == first.features
        assert other.subsets == first.subsets
        np.testing.assert_allclose(other.scores, first.scores, rtol=1e-9, atol=1e-9)


def test_include__comes_first_in_order_and_counts_towards_n_features():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 800)
    x = rng.normal(size=(800, 6))
    x[:, 5] += y
    result = hd.select(x, y, 3, include=["x3", 1])
    assert result.features == ["x3", "x1", "x5"]
    assert result.to_dataset().forced.values.tolist() == [True, True, False]


def test_exclude__is_never_chosen():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 800)
    x = rng.normal(size=(800, 3))
    x[:, 2] += y
    assert "x2" not in hd.select(x, y, 2, exclude=["x2"]).features


@pytest.mark.parametrize("criterion", CRITERIA)
def test_min_gain__stops_the_search(criterion):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 12))
    x[:, 7] += 2 * y
    x[:, 3] += y
    result = hd.select(x, y, 12, method=hd.HOFS(criterion=criterion), min_gain=0.02)
    assert result.features == ["x7", "x3"]


def test_ties__go_to_the_lowest_column():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    twin = rng.normal(size=500) + y
    x = np.column_stack([rng.normal(size=500), twin, twin])
    for criterion in CRITERIA:
        result = hd.select(x, y, 1, method=hd.HOFS(criterion=criterion)).to_dataset()
        assert result.selected[0] == "x1"
        assert result.feature[result.runner_up[0]] == "x2"
        assert result.margin[0] == pytest.approx(0, abs=1e-9)


def test_nominal_features__work_with_every_criterion():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1500)
    # the order of categories is arbitrary: treating codes as numbers would hide the pattern
    category = np.array([3, 0, 4])[y]
    category = np.where(rng.random(1500) < 0.4, rng.integers(0, 5, 1500), category)
    x = np.column_stack([rng.normal(size=(1500, 4)), category])
    for criterion in CRITERIA:
        method = hd.HOFS(criterion=criterion)
        result = hd.select(x, y, 3, method=method, nominal=["x4"])
        assert result.features[0] == "x4"


@pytest.mark.parametrize("criterion", CRITERIA)
def test_missing_values__work_with_every_criterion(criterion):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1500)
    x = rng.normal(size=(1500, 6))
    x[:, 2] += 2 * y
    x[:, 4] = x[:, 2] + rng.normal(size=1500)
    x[rng.random(x.shape) < 0.2] = np.nan
    result = hd.select(x, y, 6, method=hd.HOFS(criterion=criterion))
    assert result.features[0] == "x2"
    assert np.isfinite(result.scores).all()


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_numbers__of_any_scale_give_the_same_result(scale):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    y = x[:, 0] + x[:, 2] * 0.5 + 0.3 * rng.normal(size=500)
    method = hd.HOFS(criterion="sum")
    expected = hd.select(x, y, 3, method=method)
    result = hd.select(x * scale, y * scale, 3, method=method)
    assert result.features == expected.features
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-6)


def test_first_call__works_in_a_process_that_has_not_imported_distributed():
    script = """
import numpy as np
import hofs_dask as hd

x = np.random.default_rng(0).normal(size=(50, 3))
print(hd.select(x, x[:, 1] > 0, 1).features)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "['x1']", done.stderr


def test_noise__is_ranked_by_relevance():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, size=(60, 30))
    result = hd.select(x, rng.integers(0, 2, 60), 30, nominal=True)
    data = result.to_dataset()
    relevance = data.relevance.values[result.indices]
    # if no row gains anything, the score is a millionth of the relevance
    idle = np.isclose(result.scores, 1e-6 * relevance, rtol=0, atol=1e-12)
    assert idle.sum() > 3
    assert (np.diff(relevance[idle]) <= 0).all()
    assert (data.margin.values[:-1] >= 0).all()
