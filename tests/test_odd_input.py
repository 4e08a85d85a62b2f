"""Unusual but valid input."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.store.codes import read_codes, read_labels

N = 2000
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, N)
X = RNG.normal(size=(N, 2))
HIDDEN = np.arange(N) < 500


def labels_of(codes):
    return read_labels(codes, slice(0, N))


@pytest.mark.parametrize("dtype", [float, np.float32, int, np.int8])
def test_mask__of_features_is_a_missing_value(dtype, tmp_path):
    x, mask = (10 * X).astype(dtype), np.column_stack([Y == 1, HIDDEN])
    there, lazy = np.ma.masked_array(x, mask), da.ma.masked_array(da.from_array(x), mask)
    found = [
        hd.encode(data, Y, tmp_path / name) for name, data in (("there", there), ("lazy", lazy))
    ]
    for codes in found:
        cells = read_codes(codes, slice(0, 2), slice(0, N))
        assert np.array_equal(cells == codes.missing_code[:, None], mask.T)
    assert hd.select(lazy, Y, 1, method="mim").features == ["x0"]


@pytest.mark.parametrize("dtype", [float, int, bool, "U3"])
@pytest.mark.parametrize("lazy", [False, True])
def test_mask__of_a_target_drops_the_samples(dtype, lazy, tmp_path):
    y = np.ma.masked_array(Y.astype(dtype), HIDDEN)
    if lazy:
        y = da.from_array(y, chunks=300)
    codes = hd.encode(X, y, tmp_path / "codes", target_kind="class")
    assert codes.labels.n_dropped == 500
    classes = np.array([str(each) for each in codes.labels.classes])
    assert classes[labels_of(codes)].tolist() == Y.astype(dtype)[~HIDDEN].astype(str).tolist()
    assert sorted(map(str, codes.labels.classes)) == sorted(map(str, np.unique(Y.astype(dtype))))


@pytest.mark.parametrize(
    ("low", "dtype"), [(2**53, "i8"), (-(2**60), "i8"), (2**63, "u8"), (2**64 - 2, "u8")]
)
def test_large_integers__are_distinct_classes_and_categories(low, dtype, tmp_path):
    values = np.array([low, low + 1], dtype)[Y]
    # the chunks have the values in another order, and one distant value
    column = np.append(values, np.array([3, 3], dtype))
    target = da.from_array(column[::-1], chunks=1100)
    codes = hd.encode(da.from_array(column[::-1, None], chunks=1100), target, tmp_path, nominal=[0])
    assert set(codes.labels.classes) == {low, low + 1, 3}
    classes = np.array(codes.labels.classes, dtype)
    kept = read_labels(codes, slice(0, N + 2))
    assert np.array_equal(classes[kept], column[::-1])
    cells = read_codes(codes, slice(0, 1), slice(0, N + 2))[0]
    assert np.array_equal(np.unique(column)[cells], column[::-1])


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, lambda columns: dd.from_pandas(pd.DataFrame(columns), 3)]
)
def test_large_integers__that_floats_do_not_tell_apart_are_named_in_a_note(kind):
    big, small = 2**60 + Y.astype(np.int64), 2**50 + Y.astype(np.int64)
    columns = {
        "a": X[:, 0],
        "big": big,
        "small": small,
        "spread": big * (1 + np.arange(len(Y)) % 7),
    }
    found = hd.select(kind(columns), Y, 1, method="mim")
    assert found.features == ["small"]
    (note,) = [each for each in found.to_dataset().attrs["notes"].splitlines() if "2**53" in each]
    assert note.startswith("big: numbers above 2**53 that are near each other are equal as float64")
    columns["big"] -= 2**60
    assert "2**53" not in hd.select(kind(columns), Y, 1).to_dataset().attrs.get("notes", "")


def test_exclude__removes_features_that_cannot_be_coded(tmp_path):
    frame = pd.DataFrame({"id": np.arange(N).astype(str), "a": X[:, 0], "b": X[:, 1] + Y})
    frame["spoilt"] = np.inf
    result = hd.select(frame, Y, 2, exclude=["id", "spoilt"], include=["a"])
    assert result.features == ["a", "b"]
    compared = hd.compare(frame, Y, 1, methods=["jmi"], exclude=[0, 3])
    assert compared.selections["jmi"].features == ["b"]
    with pytest.raises(ValueError, match="'id' has a distinct value in each"):
        hd.select(frame, Y, 2, exclude=["id", "spoilt"], store=tmp_path / "codes")


@pytest.mark.parametrize(
    ("name", "given"),
    [("bins", 3), ("nominal", np.array(["x0"])), ("target_kind", "ordinal"), ("feature_dim", "z")],
)
def test_codes__refuse_encoding_options(name, given, tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes")
    message = f"{name} is .*, but the data is a code store.*leave {name} out"
    for data in (codes, codes.path):
        with pytest.raises(ValueError, match=message):
            hd.select(data, None, 1, **{name: given})
        with pytest.raises(ValueError, match=message):
            hd.compare(data, None, 1, **{name: given})
        with pytest.raises(ValueError, match=message):
            hd.information_matrix(data, None, **{name: given})
        with pytest.raises(ValueError, match=message):
            hd.estimate(data, None, 1, **{name: given})
    with pytest.raises(ValueError, match="store is .*, but the data is a code store"):
        hd.select(codes, None, 1, store=tmp_path / "other")


def test_code_stores_and_results__are_refused_as_data(tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr")
    hd.select(codes, None, 1).save(tmp_path / "result.zarr")
    with pytest.raises(ValueError, match="contains hofs_dask codes, not data"):
        hd.encode(codes.path, "target", tmp_path / "again.zarr")
    with pytest.raises(ValueError, match="contains hofs_dask selection, not data"):
        hd.select(tmp_path / "result.zarr", "epoch", 1)


def test_codes__open_with_xarray(tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr", bins=7)
    opened = xr.open_zarr(codes.path, group=codes.folder, consolidated=False)
    assert dict(opened.sizes) == {"feature": 2, "sample": N, "code": 7, "edge": 6}
