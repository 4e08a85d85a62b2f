"""The models have the structure of the paper, and values that do not depend on chunks."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from scipy.stats import multivariate_normal, norm

from hofs_dask.synthetic import (
    BLOCK,
    heterogeneous_model,
    tree_information,
    tree_model,
    xor_model,
)


@pytest.fixture(scope="module")
def tree() -> xr.Dataset:
    return tree_model(100_000)


@pytest.mark.parametrize("chunks", [997, BLOCK, BLOCK + 1, 20_000])
def test_tree_model__values_do_not_depend_on_chunks(chunks: int) -> None:
    lazy = tree_model(20_000, chunks=chunks)
    assert isinstance(lazy["x"].data, da.Array)
    assert lazy["x"].chunks[0] == lazy["y"].chunks[0]
    assert lazy.compute().identical(tree_model(20_000))


def test_tree_model__fewer_samples_are_the_first_of_more() -> None:
    assert tree_model(100).identical(tree_model(9000).isel(sample=slice(100)))


def test_tree_model__another_seed_gives_other_samples() -> None:
    assert not np.any(tree_model(100)["x"].values == tree_model(100, seed=1)["x"].values)


def test_tree_model__blocks_differ() -> None:
    x = tree_model(2 * BLOCK)["x"].values
    assert not np.any(x[:BLOCK] == x[BLOCK:])


def test_tree_model__means_and_covariances_are_those_of_the_tree(tree: xr.Dataset) -> None:
    x, y = tree["x"].values, tree["y"].values
    means = np.array([1, 1 / 1.5, 1 / 2.25])
    of_leaves = np.repeat(means, 2)
    np.testing.assert_allclose(x[y == 0].mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(x[y == 1].mean(axis=0), [*means, *of_leaves], atol=0.03)
    # Within a class, x1 to x3 have variance 1 and their children 2; related features covariance 1.
    family = np.array([0, 1, 2, 0, 0, 1, 1, 2, 2])
    expected = (family[:, None] == family).astype(float) + np.diag([0.0] * 3 + [1.0] * 6)
    for label in (0, 1):
        np.testing.assert_allclose(np.cov(x[y == label].T), expected, atol=0.04)


def test_tree_model__has_a_fair_label_and_names(tree: xr.Dataset) -> None:
    assert tree["feature"].values.tolist() == [f"x{number}" for number in range(1, 10)]
    assert tree["x"].dtype == np.float64
    assert np.issubdtype(tree["y"].dtype, np.integer)
    # Five standard deviations of a fair coin.
    assert abs(tree["y"].values.mean() - 0.5) < 5 * 0.5 / np.sqrt(100_000)


def test_tree_model__can_be_written_as_zarr(tmp_path: Path) -> None:
    model = tree_model(1000, chunks=300)
    model.to_zarr(tmp_path / "data.zarr", consolidated=False)
    back = xr.open_zarr(tmp_path / "data.zarr", consolidated=False)
    assert back["feature"].values.tolist() == [f"x{number}" for number in range(1, 10)]
    np.testing.assert_array_equal(back["x"], model["x"])


def test_tree_model__refuses_zero_samples() -> None:
    with pytest.raises(ValueError, match="n_samples is 0: give 1 or more"):
        tree_model(0)


@pytest.mark.parametrize("number", range(1, 10))
def test_tree_information__is_the_mean_log_ratio(tree: xr.Dataset, number: int) -> None:
    # The mean of log p(x|y)/p(x) over samples estimates I(x:y); its spread bounds the error.
    mean = [1, 1 / 1.5, 1 / 2.25, 1, 1, 1 / 1.5, 1 / 1.5, 1 / 2.25, 1 / 2.25][number - 1]
    scale = 1.0 if number <= 3 else np.sqrt(2)
    x, y = tree["x"].values[:, number - 1], tree["y"].values
    likelihood = np.stack([norm.pdf(x, 0, scale), norm.pdf(x, mean, scale)])
    ratio = np.log(likelihood[y, np.arange(len(y))] / likelihood.mean(axis=0))
    error = 5 * ratio.std() / np.sqrt(len(y))
    assert tree_information(f"x{number}") == pytest.approx(ratio.mean(), abs=error)


def test_tree_information__of_several_features_is_the_mean_log_ratio(tree: xr.Dataset) -> None:
    # x4 and x5 share the error of x1 and have one error each; x6 has two other errors
    means = np.array([1, 1, 1 / 1.5])
    covariance = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    x, y = tree["x"].values[:, [3, 4, 5]], tree["y"].values
    likelihood = np.stack(
        [multivariate_normal.pdf(x, mean, covariance) for mean in (np.zeros(3), means)]
    )
    ratio = np.log(likelihood[y, np.arange(len(y))] / likelihood.mean(axis=0))
    error = 5 * ratio.std() / np.sqrt(len(y))
    assert tree_information("x4", "x5", "x6") == pytest.approx(ratio.mean(), abs=error)


def test_tree_information__children_add_nothing_to_their_parents() -> None:
    known = tree_information("x1", "x2")
    assert tree_information("x1", "x4", "x2", "x5", "x7") == pytest.approx(known, abs=1e-12)
    assert tree_information() == 0.0


def test_tree_information__agrees_with_the_paper() -> None:
    printed = {"x1": 0.111, "x2": 0.052, "x3": 0.022, "x4": 0.058, "x8": 0.012}
    for feature, information in printed.items():
        assert tree_information(feature) == pytest.approx(information, abs=0.003)


def test_tree_information__error_lists_the_features() -> None:
    with pytest.raises(ValueError, match="'x10': give one of x1, x2"):
        tree_information("x10")


def test_heterogeneous_model__matches_the_table_of_the_paper() -> None:
    model = heterogeneous_model()
    y = model["y"].values
    assert np.unique(y, return_counts=True)[1].tolist() == [200] * 5
    assert (np.diff(y) >= 0).all()
    x = {name: model["x"].sel(feature=name).values for name in model["feature"].values.tolist()}
    row = np.arange(1000) + 1
    expected = {
        "F1": np.select([y == 1, y == 2], [1, 2], 0),
        "F2": (y == 2).astype(int),
        "F3": (y == 3).astype(int),
        "F6": (row <= 400).astype(int),
        "F7": ((row > 100) & (row <= 500)).astype(int),
        "F8": ((row > 300) & (row <= 700)).astype(int),
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(x[name], values, err_msg=name)
    for name, first_positive in {"F4": 601, "F5": 801, "F9": 501, "F10": 701}.items():
        np.testing.assert_array_equal(x[name] > 0, row >= first_positive, err_msg=name)
        assert not (x[name] == 0).any()


@pytest.mark.parametrize("seed", range(5))
def test_heterogeneous_model__copies_have_200_replaced_samples(seed: int) -> None:
    x = heterogeneous_model(seed)["x"].to_pandas()
    for original, copy in (("F1", "F11"), ("F2", "F12"), ("F3", "F13")):
        changed = x[original] != x[copy]
        assert 50 <= changed.sum() <= 200
        assert set(x[copy]) == set(x[original])
    for original, copy in (("F4", "F14"), ("F5", "F15")):
        changed = x[original] != x[copy]
        assert changed.sum() == 200
        assert (x[original][changed] < 0).all()
        assert (x[copy][changed] > 0).all()


def test_heterogeneous_model__lists_its_nominal_features() -> None:
    model = heterogeneous_model()
    nominal = model["x"].attrs["nominal"]
    whole = [
        name
        for name in model["feature"].values.tolist()
        if np.array_equal(model["x"].sel(feature=name), model["x"].sel(feature=name).round())
    ]
    assert nominal == whole


def test_heterogeneous_model__another_seed_gives_other_samples() -> None:
    assert heterogeneous_model(3).identical(heterogeneous_model(3))
    assert not heterogeneous_model(3).identical(heterogeneous_model(4))


def test_xor_model__label_is_determined_only_by_both_features() -> None:
    model = xor_model(100_000, noise=1)
    x1, x2, x3, _ = model["x"].values.T
    y = model["y"].values
    np.testing.assert_array_equal(y == 1, x1 == x2)
    assert (x3 == 0).all()
    for x in (x1, x2):
        assert abs(y[x == 1].mean() - y[x == 0].mean()) < 0.02


@pytest.mark.parametrize("noise", [0, 50])
def test_xor_model__has_the_given_number_of_noise_features(noise: int) -> None:
    names = xor_model(noise=noise)["feature"].values.tolist()
    assert names[:3] == ["x1", "x2", "x3"]
    assert len(names) == len(set(names)) == 3 + noise


def test_xor_model__refuses_invalid_sizes() -> None:
    with pytest.raises(ValueError, match="n_samples is 0 and noise 50"):
        xor_model(0)
    with pytest.raises(ValueError, match="n_samples is 10 and noise -1"):
        xor_model(10, noise=-1)
