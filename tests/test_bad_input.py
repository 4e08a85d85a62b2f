"""Bad input: the type of each error and the words in its message."""

from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr

import hofs_dask as hd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] > 0).astype(int)


def frame(**columns):
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], **columns})


def array(data=X):
    return xr.DataArray(data, dims=("time", "band"), coords={"band": [400, 500, 600, 700]})


def says(error, *words):
    """Expect an error whose message contains all words."""
    pattern = "".join(f"(?=.*{word})" for word in words)
    return pytest.raises(error, match=f"(?s){pattern}")


def test_different_lengths__error_names_both():
    with says(ValueError, "60", "59"):
        hd.select(X, Y[:-1], 1)


def test_unknown_dim__error_lists_valid_dims_most_similar_first():
    with says(ValueError, "bnad", "'band', 'time'"):
        hd.select(array(), Y, 1, feature_dim="bnad")


def test_unknown_target__error_lists_valid_names():
    with says(ValueError, "labl", "label"):
        hd.select(frame(label=Y), "labl", 1)


def test_target_name_without_coordinates__error_suggests_an_array():
    with says(ValueError, "'label'", "no coordinates", "as an array"):
        hd.select(array(), "label", 1)


def test_target_with_another_index__error_suggests_two_fixes():
    y = pd.Series(Y, index=np.arange(60)[::-1], name="label")
    with says(ValueError, "'label'", r"target\.loc\[data\.index\]", r"target\.to_numpy\(\)"):
        hd.select(frame(), y, 1)
    assert len(hd.select(frame(), y.loc[frame().index], 1)) == 1


def test_arrays_without_a_name__are_named_by_their_option():
    data = xr.DataArray(X, {"time": np.arange(60)}, dims=("time", "band"))
    other = xr.DataArray(np.ones(60), {"time": np.arange(60) + 1}, dims="time")
    with says(ValueError, "^weights and the data have different labels along 'time'"):
        hd.select(data, Y, 1, weights=other)
    with says(ValueError, "^target has 59 values along 'time'"):
        hd.select(data, other[1:], 1)
    with says(ValueError, "^target 'rain' has 59 values along 'time'"):
        hd.select(data, other[1:].rename("rain"), 1)
    with says(ValueError, r"^target has the dims \('q',\)"):
        hd.select(data, xr.DataArray(Y, dims="q"), 1)


def test_target_that_is_a_column_of_the_data__is_not_selected():
    data = frame(label=Y)
    assert set(hd.select(data, data["label"], 2)) == {"a", "b"}
    grid = xr.Dataset.from_dataframe(data)
    assert set(hd.select(grid, grid.label, 2)) == {"a", "b"}


@pytest.mark.parametrize("data", [X, frame()], ids=["array", "frame"])
def test_feature_dim_without_dims__is_refused(data):
    with says(ValueError, "feature_dim is 'band'", "omit feature_dim"):
        hd.select(data, Y, 1, feature_dim="band")


def test_unknown_method__error_lists_valid_methods():
    with says(ValueError, "hosf", "hofs"):
        hd.select(X, Y, 1, method="hosf")


@pytest.mark.parametrize(
    ("option", "given", "nearest"),
    [
        ("criterion", "jiont", "joint"),
        ("source", "logistc", "logistic"),
        ("affinity", "corelation", "correlation"),
        ("slopes", "share", "shared"),
        ("label_coding", "ordnial", "ordinal"),
    ],
)
def test_unknown_option__error_lists_the_most_similar_first(option, given, nearest):
    with says(ValueError, option, f"{given}'; valid: '{nearest}'"):
        hd.HOFS(**{option: given})


def test_negative_threshold__is_refused():
    with says(ValueError, "threshold", "-1"):
        hd.HOFS(threshold=-1)


def test_missing_path__error_names_it(tmp_path):
    with says(FileNotFoundError, "nowhere.zarr"):
        hd.select(str(tmp_path / "nowhere.zarr"), "y", 1)


def test_one_class_only__error_names_it():
    with says(ValueError, "class", "3"):
        hd.select(X, np.full(60, 3), 1)


def test_class_of_one_sample__warns():
    y = Y.copy()
    y[0] = 7
    with pytest.warns(UserWarning, match="7"):
        hd.select(X, y, 1)


def test_integer_target_with_many_values__warning_suggests_target_kind():
    with pytest.warns(UserWarning, match='target_kind="continuous" if it is a number'):
        hd.select(X, np.arange(60), 1)
    result = hd.select(X, np.arange(60), 1, target_kind="continuous")
    assert "continuous target in 8 classes" in repr(result)


@pytest.mark.parametrize("shape", [(0, 4), (60, 0)])
def test_empty_data__is_refused(shape):
    with says(ValueError, "0"):
        hd.select(np.zeros(shape), np.zeros(shape[0], dtype=int), 1)


def test_too_many_features__error_names_the_usable_number():
    data = frame(flat=np.zeros(60))
    with says(ValueError, "n_features is 3", "only 2", "flat"):
        hd.select(data, Y, 3)


@pytest.mark.parametrize("given", [0, -1])
def test_fewer_than_one_feature__is_refused(given):
    with says(ValueError, "n_features", str(given)):
        hd.select(X, Y, given)


@pytest.mark.parametrize("given", [2.0, "2", None, True])
def test_number_of_features_that_is_not_an_integer__is_refused(given):
    with says(TypeError, "n_features", "whole number"):
        hd.select(X, Y, given)


def test_name_in_include_and_exclude__error_names_it():
    with says(ValueError, "x1", "include", "exclude"):
        hd.select(X, Y, 1, include=["x1"], exclude=["x1"])


def test_unknown_name_in_include__error_suggests_the_most_similar():
    with says(ValueError, "alpa", "'alpha'"):
        hd.select(frame(alpha=X[:, 2]), Y, 1, include=["alpa"])


def test_string_instead_of_a_list__error_suggests_the_list():
    with says(TypeError, r"\['x1'\]"):
        hd.select(X, Y, 1, exclude="x1")


def test_set_of_names_in_include__error_says_to_give_a_list():
    with says(TypeError, "include is a set", "give a list"):
        hd.select(X, Y, 2, include={"x0", "x1"})


def test_constant_feature_in_include__error_names_it():
    with says(ValueError, "flat", "constant"):
        hd.select(frame(flat=np.zeros(60)), Y, 1, include=["flat"])


def test_more_included_than_n_features__error_names_both_numbers():
    with says(ValueError, "2", "n_features is 1"):
        hd.select(X, Y, 1, include=["x0", "x1"])


@pytest.mark.parametrize("given", [np.nan, "0.1"])
def test_min_gain_that_is_not_a_number__is_refused(given):
    with pytest.raises((TypeError, ValueError), match="min_gain"):
        hd.select(X, Y, 1, min_gain=given)


def test_too_many_classes__error_suggests_target_kind():
    x = RNG.normal(size=(600, 2))
    with says(ValueError, "300", "target_kind"):
        hd.select(x, np.repeat(np.arange(300), 2), 1, target_kind="class")


def test_unknown_target_kind__error_lists_valid_kinds():
    with says(ValueError, "classs", "'class'"):
        hd.select(X, Y, 1, target_kind="classs")


@pytest.mark.parametrize("given", ["atuo", 1, 300, 2.5])
def test_invalid_bins__are_refused(given):
    with pytest.raises((TypeError, ValueError), match="bins"):
        hd.select(X, Y, 1, bins=given)


def test_nan_in_features__has_a_separate_code():
    x = X.copy()
    x[Y == 1, 2] = np.nan  # a missing value predicts the class
    assert hd.select(x, Y, 1, exclude=["x0"]).features == ["x2"]


def test_nan_in_target__drops_rows_and_reports_them():
    y = Y.astype(float)
    y[:5] = np.nan
    result = hd.select(X, y, 1, target_kind="class")
    assert result.to_dataset().attrs["n_dropped"] == 5
    assert result.to_dataset().attrs["n_samples"] == 55
    assert "55 samples (5 without a target dropped)" in repr(result)


@pytest.mark.parametrize("sign", [1, -1])
def test_infinity__error_names_the_first_feature_and_the_count(sign):
    x = X.copy()
    x[3:6, 2] = x[1, 3] = sign * np.inf
    with says(ValueError, "x2", "3", "inf"):
        hd.select(x, Y, 1)


def test_strings_categoricals_and_booleans__are_nominal():
    colour = np.where(Y == 1, "red", RNG.choice(["blue", "green"], 60))
    data = pd.DataFrame(
        {
            "noise": X[:, 1],
            "colour": colour,
            "grade": pd.Categorical(RNG.choice(list("abc"), 60)),
            "flag": RNG.random(60) > 0.5,
        }
    )
    assert hd.select(data, Y, 1).features == ["colour"]


def test_identifier__is_refused_by_name():
    with says(ValueError, "name", "identifier"):
        hd.select(frame(name=[f"sample {i}" for i in range(60)]), Y, 1)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.date_range("2020-01-01", periods=60), ["when", "datetime"]),
        (X[:, 0] + 1j, ["when", "complex"]),
    ],
)
def test_datetimes_and_complex_numbers__error_names_the_column(column, words):
    with says(TypeError, *words):
        hd.select(frame(when=column), Y, 1)


def test_sparse_array__error_suggests_toarray():
    with says(TypeError, "sparse", "toarray"):
        hd.select(scipy.sparse.csr_array(X), Y, 1)


@pytest.mark.parametrize(
    "data",
    [
        X.astype(np.float16),
        X.astype(np.float16).astype(">f8"),
        np.asfortranarray(X.astype(np.float16), dtype=np.float64),
    ],
    ids=["float16", "big-endian", "Fortran order"],
)
def test_unusual_memory_layouts__give_the_same_selection(data):
    expected = hd.select(X.astype(np.float16).astype(np.float64), Y, 3)
    assert hd.select(data, Y, 3).features == expected.features


def corrupt(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(bytes(raw))


def chunk_files(codes):
    return sorted(path for path in Path(codes.place, "codes", "c").rglob("*") if path.is_file())


@pytest.mark.parametrize("harm", [corrupt, lambda path: path.unlink()], ids=["corrupt", "missing"])
def test_damaged_chunk__error_names_store_array_and_chunk(tmp_path, harm):
    store = tmp_path / "codes.zarr"
    codes = hd.encode(X, Y, store, chunks=(20, 2))
    harm(chunk_files(codes)[3])
    with says(hd.CodeStoreError, "codes.zarr", "codes", r"\(1, 0\)"):
        hd.select(codes, None, 1)


def test_array_target_for_a_code_store__error_suggests_encode(tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr")
    with says(TypeError, "encode"):
        hd.select(codes, Y, 1)


def test_invalid_names_and_numbers__are_refused_before_the_data_is_read():
    def refuse(block):
        raise AssertionError("the data was read")

    lazy = da.from_array(X, chunks=20).map_blocks(refuse, dtype=float, meta=np.zeros((0, 0)))
    with says(ValueError, "x99"):
        hd.select(lazy, Y, 1, include=["x99"])
    with says(ValueError, "n_features is 5", "only 4"):
        hd.select(lazy, Y, 5)


def test_method_class__error_suggests_an_instance():
    with says(TypeError, "method is a class", r"hofs_dask\.JMI\(\)"):
        hd.select(X, Y, 1, method=hd.JMI)


@pytest.mark.parametrize("lazy", [False, True])
def test_float_target_with_integer_values__warns_that_it_is_binned(lazy):
    x = np.random.default_rng(3).normal(size=(300, 3))
    y = np.arange(300) % 30 * 1.0
    target = da.from_array(y, chunks=100) if lazy else y
    with pytest.warns(UserWarning, match='30 different whole numbers .* target_kind="class"'):
        hd.select(x, target, 1)
    assert hd.select(x, target, 1, target_kind="class").to_dataset().attrs["n_classes"] == 30
    assert hd.select(x, target, 1, target_kind="continuous").to_dataset().attrs["n_classes"] == 8
    hd.select(x, y % 8, 1)  # eight values in eight bins: no warning
    hd.select(x, y + 0.5, 1)
