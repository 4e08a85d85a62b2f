"""The option `feature_names` names the columns of arrays, and is refused for data with names."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import hofs_dask as hd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 1] > 0


def as_zarr(x):
    return zarr.array(x, store=zarr.storage.MemoryStore())


@pytest.mark.parametrize("kind", [np.asarray, da.from_array, as_zarr])
def test_names__are_those_of_the_result(kind):
    result = hd.select(
        kind(X), Y, 2, method="mim", feature_names=["a", "b", 7], include=["a"], exclude=[7]
    )
    assert result.features == ["a", "b"]
    assert result.indices.tolist() == [0, 1]


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c", "d"]])
def test_names__of_another_number_are_refused(names):
    with pytest.raises(ValueError, match="the data has 3 columns; give one name per column"):
        hd.select(X, Y, 2, feature_names=names)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("abc", "feature_names is 'abc'; give a list with one name per column"),
        (3, "feature_names is 3; give a list with one name per column"),
        ({"a", "b", "c"}, "feature_names is a set, which has no order; give a list"),
    ],
)
def test_names__without_order_or_number_are_refused(names, message):
    with pytest.raises(TypeError, match=message):
        hd.select(X, Y, 2, feature_names=names)


def test_names__that_repeat_are_refused():
    with pytest.raises(ValueError, match="two features are called 'a'"):
        hd.select(X, Y, 2, feature_names=["a", "b", "a"])


def test_names__are_refused_for_a_data_frame():
    frame = pd.DataFrame(X, columns=list("abc"))
    with pytest.raises(ValueError, match="features of this DataFrame have names; leave"):
        hd.select(frame, Y, 2, feature_names=["d", "e", "f"])


def test_other_functions__accept_names(tmp_path):
    names = {"feature_names": ["a", "b", "c"]}
    assert hd.encode(X, Y, tmp_path / "codes", **names).names == ("a", "b", "c")
    assert hd.compare(X, Y, 1, methods=["mim"], **names)["mim"].features == ["b"]
    assert hd.information_matrix(X, Y, **names).indexes["feature"].tolist() == ["a", "b", "c"]
    assert hd.estimate(X, Y, 1, **names)
