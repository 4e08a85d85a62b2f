import os
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import xarray as xr
import zarr

import hofs_dask as hd
from hofs_dask.io import arrays
from hofs_dask.io import blocks as blocks_module
from hofs_dask.io import source as source_module
from hofs_dask.io.paths import as_path
from hofs_dask.io.reading import Reading
from hofs_dask.io.source import open_source

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = rng.integers(0, 3, 60)
NAMES = ["a", "b", "c", "d"]


def values(source):
    return np.concatenate([part.compute() for part in source.parts], axis=1)


def labelled(dims=("sample", "band")):
    return xr.DataArray(X, dims=dims, coords={dims[1]: [0.4, 0.5, 0.6, 0.7]}, name="x")


# Every kind of input

#: The same data in every kind, given a directory to write to; the target is "y" if it has a name.
INPUTS = {
    "numpy": lambda _: (X, Y),
    "dask array": lambda _: (da.from_array(X, chunks=(25, 2)), Y),
    "dict": lambda _: ({**dict(zip(NAMES, X.T, strict=True)), "y": Y}, "y"),
    "dict of dask arrays": lambda _: (
        {name: da.from_array(column, chunks=25) for name, column in zip(NAMES, X.T, strict=True)},
        Y,
    ),
    "frame": lambda _: (pd.DataFrame(X, columns=NAMES).assign(y=Y), "y"),
    "dask frame": lambda _: (
        dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=Y), npartitions=3),
        "y",
    ),
    "dataset": lambda _: (xr.Dataset({**_columns(), "y": ("sample", Y)}), "y"),
    "data array": lambda _: (labelled(), Y),
    "zarr array": lambda path: (zarr.array(X, store=str(path / "x.zarr"), chunks=(25, 2)), Y),
    "zarr group": lambda path: (zarr.open_group(_written(path), mode="r"), "y"),
    "path": lambda path: (_written(path), "y"),
    "parquet": lambda path: (_saved(path, "parquet"), "y"),
    "csv": lambda path: (_saved(path, "csv"), "y"),
    "arrow": lambda _: (pa.table(dict(zip(NAMES, X.T, strict=True)) | {"y": Y}), "y"),
}


def _saved(path, kind):
    frame = pd.DataFrame(X, columns=NAMES).assign(y=Y)
    getattr(frame, f"to_{kind}")(path / f"x.{kind}", index=False)
    return path / f"x.{kind}"


def _columns():
    return {name: ("sample", column) for name, column in zip(NAMES, X.T, strict=True)}


def _written(path):
    xr.Dataset({**_columns(), "y": ("sample", Y)}).to_zarr(path / "x.zarr", consolidated=False)
    return str(path / "x.zarr")


@pytest.mark.parametrize("kind", INPUTS)
def test_input__of_every_kind_has_the_same_content(kind, tmp_path):
    source = open_source(*INPUTS[kind](tmp_path))
    assert (source.n_samples, source.n_features) == X.shape
    assert np.array_equal(values(source), X)
    assert np.array_equal(source.target.compute(), Y)
    assert source.target_type == "integer"


# Dicts


def test_dict__keeps_types_and_masks():
    data = {"a": X[:, 0], "n": np.arange(60), "s": np.array(["u", "v"] * 30)}
    data["m"] = np.ma.masked_array(X[:, 1], X[:, 1] > 0)
    source = open_source(data, Y)
    assert source.names == ("a", "n", "s", "m")
    assert source.nominal.tolist() == [False, False, True, False]
    masked = source.parts[-1].compute()[:, -1]
    assert np.array_equal(np.isnan(masked), X[:, 1] > 0)


def test_dict__target_given_as_an_object_is_not_a_feature():
    data = {"a": X[:, 0], "y": Y}
    source = open_source(data, data["y"])
    assert (source.names, source.target_name) == (("a",), "y")
    records = np.rec.fromarrays([X[:, 0], Y], names=["a", "y"])  # each field is a new view
    source = open_source({name: records[name] for name in ("a", "y")}, records["y"])
    assert (source.names, source.target_name) == (("a",), "y")


@pytest.mark.parametrize(
    ("data", "target", "message"),
    [
        ({"a": X[:, 0], "b": X[:9, 1]}, Y, "feature 'b' has 9 values and feature 'a' has 60"),
        ({"a": X}, Y, r"feature 'a' has shape \(60, 4\); give one value per sample"),
        ({"a": X[:, 0]}, "z", "key for the target 'z'"),
        ({}, Y, "the data is empty"),
    ],
)
def test_dict__that_cannot_be_used_is_refused(data, target, message):
    with pytest.raises(ValueError, match=message):
        open_source(data, target)


def test_dict__is_transformed_to_its_chosen_arrays():
    data = dict(zip(NAMES, X.T, strict=True))
    result = hd.select(data, X[:, 2] > 0, 1)
    assert result.features == ["c"]
    (found,) = result.transform(data).items()
    assert found[0] == "c"
    assert found[1] is data["c"]


# Arrays


def test_numpy__is_one_block_with_default_names():
    source = open_source(X, Y)
    assert source.names == ("x0", "x1", "x2", "x3")
    assert (source.n_samples, source.n_features) == X.shape
    assert source.parts[0].chunks == ((60,), (4,))
    assert np.array_equal(values(source), X)
    assert np.array_equal(source.target.compute(), Y)
    assert (source.target_name, source.target_type) == ("target", "integer")


def test_numpy__large_data_is_split_into_row_blocks(monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 25 * 4 * 8)
    assert open_source(X, None).parts[0].chunks == ((25, 25, 10), (4,))
    mixed = pd.DataFrame(X, columns=NAMES).assign(n=np.arange(60))
    assert [part.chunks[0] for part in open_source(mixed, None).parts] == [(20, 20, 20)] * 2


@pytest.mark.parametrize(
    "data",
    [
        X.astype(np.float16),
        X.astype(">f8"),
        X.astype(">i4"),
        np.asfortranarray(X),
        X.astype(np.longdouble),
        X[::-1],
        np.ma.masked_array(X, X > 1),
    ],
    ids=["float16", "big-endian", "big-endian-int", "fortran", "longdouble", "reversed", "masked"],
)
def test_numpy__dtypes_and_memory_layouts_are_converted(data):
    found = values(open_source(data, Y))
    assert found.dtype.isnative
    assert found.dtype.itemsize <= 8
    assert np.array_equal(found, np.ma.filled(data, np.nan), equal_nan=True)


def test_dask__keeps_its_chunks_and_rechunks_the_target():
    source = open_source(da.from_array(X, chunks=(25, 3)), da.from_array(Y, chunks=60))
    assert source.parts[0].chunks == ((25, 25, 10), (3, 1))
    assert source.target.chunks == ((25, 25, 10),)


def test_array__text_and_booleans_are_nominal():
    text = np.array([["a", "b"], ["c", "b"]])
    for data in (text, text.astype("S"), text.astype(object), text.astype(np.dtypes.StringDType())):
        source = open_source(data, [0, 1])
        assert source.nominal.all()
        assert values(source).tolist() == text.tolist()
    assert open_source(X > 0, Y).nominal.all()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (X.astype("datetime64[s]"), r"feature 'x0' is datetime64\[s\].*np.timedelta64"),
        (X.astype("timedelta64[s]"), r"feature 'x0' is timedelta64\[s\].*np.timedelta64"),
        (X.astype(complex), r"feature 'x0' is complex128.*np.abs"),
        (da.from_array(X.astype(complex)), r"feature 'x0' is complex128.*np.abs"),
        (scipy.sparse.csr_array(X), r"sparse csr_array; convert it with \.toarray\(\)"),
        (np.zeros((3, 2), dtype="i4,f4"), "feature 'x0' is .* convert it"),
        (X.tolist(), "data is a list; give a numpy"),
    ],
    ids=["dates", "durations", "complex", "lazy-complex", "sparse", "records", "list"],
)
def test_array__unsupported_types_are_refused(data, words):
    with pytest.raises(TypeError, match=words):
        open_source(data, Y)


def test_dask__sparse_blocks_are_refused():
    data = da.from_array(X, chunks=30).map_blocks(
        scipy.sparse.csr_array, meta=scipy.sparse.csr_array((0, 0))
    )
    with pytest.raises(TypeError, match="sparse"):
        open_source(data, Y)


def test_dask__unknown_chunks_are_refused():
    data = da.from_array(X, chunks=(20, 4))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        open_source(data[data[:, 0] > 0], Y)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_array__empty_data_is_refused(shape):
    with pytest.raises(ValueError, match=f"{shape[0]} samples and {shape[1]} features"):
        open_source(np.empty(shape), np.empty(shape[0]))


def test_array__needs_two_dimensions():
    with pytest.raises(ValueError, match=r"shape \(60,\).*reshape"):
        open_source(X[:, 0], Y)


# Data frames


def mixed_frame():
    return pd.DataFrame(
        {
            "float": X[:, 0],
            "more": X[:, 1],
            "int": np.arange(60, dtype=np.int8),
            "bool": X[:, 2] > 0,
            "text": np.where(X[:, 3] > 0, "p", "n"),
            "object": pd.Series(["u", None, np.nan] * 20, dtype=object),
            "category": pd.Categorical(["lo", "hi"] * 30),
            "numbers": pd.Categorical([3, 1, None] * 20),
            "interval": pd.cut(X[:, 0], 3),
            "nullable": pd.array([1, 2, None] * 20, dtype="Int64"),
            "nullable_float": pd.array([1.5, None, 2.5] * 20, dtype="Float32"),
            "nullable_bool": pd.array([True, False, None] * 20, dtype="boolean"),
            "string": pd.array(["s", None, "t"] * 20, dtype="string"),
            "y": Y,
        }
    )


def check_mixed(source):
    names = list(mixed_frame().columns[:-1])
    assert list(source.names) == names
    found = dict(zip(names, values(source).T, strict=True))
    nominal = {name for name, flag in zip(names, source.nominal, strict=True) if flag}
    assert nominal == {
        "bool", "text", "object", "category", "numbers", "interval", "nullable_bool", "string",
    }  # fmt: skip
    assert np.array_equal(found["float"].astype(float), X[:, 0])
    assert found["category"][:2].tolist() == ["lo", "hi"]
    assert found["numbers"][:2].tolist() == [3, 1]
    assert isinstance(found["interval"][0], str)
    assert found["nullable_bool"][:3].tolist() == [True, False, None]
    assert np.isnan(found["nullable"][2])
    assert {part.dtype for part in source.parts} == {
        np.dtype(t) for t in (float, np.int8, bool, object, np.float32)
    }
    assert (source.target_name, source.target_type) == ("y", "integer")
    assert np.array_equal(source.target.compute(), Y)


def test_pandas__mixed_types():
    check_mixed(open_source(mixed_frame(), "y"))


def test_pandas__adjacent_columns_of_one_dtype_are_one_part():
    assert len(open_source(pd.DataFrame(X, columns=NAMES), Y).parts) == 1
    assert len(open_source(mixed_frame()[["float", "more", "int"]], Y).parts) == 2


def test_dask_frame__mixed_types():
    check_mixed(open_source(dd.from_pandas(mixed_frame(), npartitions=3), "y"))


def test_dask_frame__target_is_a_column():
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=Y), npartitions=2)
    source = open_source(frame[NAMES], frame["y"])
    assert source.names == tuple(NAMES)
    assert source.target_name == "y"
    assert np.array_equal(source.target.compute(), Y)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.Series(pd.date_range("2020", periods=60)), "feature 'bad' is datetime64"),
        (pd.Series(pd.date_range("2020", periods=60, tz="UTC")), "feature 'bad' is datetime64"),
        (pd.Series(pd.to_timedelta(np.arange(60), "s")), "feature 'bad' is timedelta64"),
        (pd.Series(X[:, 0].astype(complex)), "feature 'bad' is complex128"),
        (pd.Series(pd.arrays.SparseArray(X[:, 0])), "feature 'bad' is sparse"),
        (pd.Series(pd.period_range("2020", periods=60)), "feature 'bad' is period"),
    ],
    ids=["dates", "zoned-dates", "durations", "complex", "sparse", "periods"],
)
def test_pandas__unsupported_types_are_refused_by_column_name(column, words):
    with pytest.raises(TypeError, match=words):
        open_source(pd.DataFrame({"good": X[:, 0], "bad": column}), Y)
    with pytest.raises(TypeError, match=words.replace("feature 'bad'", "target 'bad'")):
        open_source(pd.DataFrame({"good": X[:, 0]}), column.rename("bad"))


@pytest.mark.parametrize("lazy", [False, True])
def test_pandas__decimals_of_arrow_are_floats(lazy):
    decimals = pd.ArrowDtype(pa.decimal128(9, 2))
    values = [Decimal("1.50"), None, Decimal("2.25"), Decimal("-3.00")]
    frame = pd.DataFrame(
        {"cost": pd.Series(values, dtype=decimals), "y": pd.Series(values[::-1], dtype=decimals)}
    )
    source = open_source(dd.from_pandas(frame, npartitions=2) if lazy else frame, "y")
    np.testing.assert_array_equal(source.parts[0].compute()[:, 0], [1.5, np.nan, 2.25, -3])
    np.testing.assert_array_equal(source.target.compute(), [-3, 2.25, np.nan, 1.5])
    assert source.nominal.tolist() == [False]
    assert source.target_type == "number"


def test_pandas__names_are_kept_and_must_be_unique():
    assert open_source(pd.DataFrame(X, columns=[1, 2.5, "c", np.int64(7)]), Y).names == (
        1, 2.5, "c", 7,
    )  # fmt: skip
    with pytest.raises(ValueError, match="two features are called 'a'"):
        open_source(pd.DataFrame(X, columns=["a", "b", "a", "c"]), Y)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("role", ["target", "groups", "weights", "where"])
def test_frame__name_of_the_index_is_refused_with_what_to_give(role, lazy):
    frame = pd.DataFrame(X, columns=NAMES, index=pd.Index(np.arange(60) // 3, name="id"))
    data = dd.from_pandas(frame, npartitions=2) if lazy else frame
    target = Y if role != "target" else "id"
    reading = Reading() if role == "target" else Reading(**{role: "id"})
    call = r"reset_index\(\)" if lazy else r"reset_index\('id'\)"
    with pytest.raises(
        ValueError, match=f"{role} is 'id', which is the index .*; give data.{call}"
    ):
        open_source(data, target, reading)
    several = frame.set_index(np.arange(60), append=True)
    assert open_source(several.reset_index("id"), Y, Reading(groups="id")).names == tuple(NAMES)


@pytest.mark.parametrize("as_frame", [False, True])
def test_pandas__target_with_a_different_index_is_refused(as_frame):
    frame = pd.DataFrame(X, columns=NAMES, index=[f"s{i}" for i in range(60)])
    target = pd.Series(Y, index=frame.index, name="y")

    def opened(target, frame=frame):
        return open_source(frame, target.to_frame() if as_frame else target)

    assert np.array_equal(opened(target).target.compute(), Y)
    for other in (target[::-1], target.reset_index(drop=True)):
        with pytest.raises(ValueError, match=r"'y'.*target\.loc\[data\.index\].*to_numpy\(\)"):
            opened(other)
    with pytest.raises(ValueError, match=r"'y'.*target\.loc\[data\.index\]"):
        opened(target, frame.reset_index(drop=True))
    reordered = opened(target[::-1].loc[frame.index])
    assert np.array_equal(reordered.target.compute(), Y)
    assert np.array_equal(open_source(frame, target[::-1].to_numpy()).target.compute(), Y[::-1])
    # A RangeIndex and an Index with the same labels are equal.
    numbered = frame.set_axis(list(range(60)))
    assert opened(target.reset_index(drop=True), numbered).n_samples == 60


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame["y"],
        lambda frame: frame[["y"]],
        lambda frame: frame["y"].astype("category"),
        lambda frame: frame["y"].astype(float),
        lambda frame: frame["y"].copy(),
    ],
    ids=["series", "frame", "category", "float", "copy"],
)
@pytest.mark.parametrize("missing", [False, True])
def test_pandas__target_taken_from_the_frame_is_not_a_feature(make, missing):
    column = pd.array([None, *Y[1:].tolist()], dtype="Int64") if missing else Y
    frame = pd.DataFrame(X, columns=NAMES).assign(y=column)
    source = open_source(frame, make(frame))
    assert source.names == tuple(NAMES)
    assert source.target_name == "y"


def test_pandas__target_with_other_values_keeps_the_feature_of_its_name():
    frame = pd.DataFrame(X, columns=NAMES)
    with pytest.warns(UserWarning, match="both called 'a'"):
        assert open_source(frame, pd.Series(Y, name="a")).names == tuple(NAMES)
    assert open_source(frame, pd.Series(X[:, 0], name="z")).names == tuple(NAMES)


def test_dask_frame__target_taken_from_the_frame_is_not_a_feature():
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=Y), npartitions=2)
    source = open_source(frame, frame["y"])
    assert source.names == tuple(NAMES)
    assert np.array_equal(source.target.compute(), Y)
    other = (frame["y"] + 1).rename("z")
    assert open_source(frame, other).names == (*NAMES, "y")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=Y), npartitions=2), "not compared"),
        (dict(zip([*NAMES, "y"], [*X.T, Y.copy()], strict=True)), "have the same values"),
    ],
    ids=["lazy", "equal"],
)
def test_target__with_the_name_of_a_feature_that_may_be_equal_is_refused(data, why):
    y = pd.Series(Y, name="y")
    with pytest.raises(ValueError, match=f"both called 'y'.* {why}.* give target='y' or exclude="):
        open_source(data, y)
    assert open_source(data, y, exclude=["y"]).target_name == "y"
    assert open_source(data, "y").names == tuple(NAMES)
    assert "y" in open_source(data, y.rename("z")).names


def test_mapping__target_with_other_values_keeps_the_feature_of_its_name():
    data = dict(zip(NAMES, X.T, strict=True))
    with pytest.warns(UserWarning, match="both called 'a'.* its values differ"):
        assert open_source(data, pd.Series(Y, name="a")).names == tuple(NAMES)


@pytest.mark.parametrize(
    "data",
    [X, da.from_array(X), pd.DataFrame(X), dd.from_pandas(pd.DataFrame(X), npartitions=2)],
    ids=["numpy", "dask", "pandas", "dask frame"],
)
def test_feature_dim__is_refused_for_data_without_dims(data):
    with pytest.raises(ValueError, match="feature_dim is 'band'.*omit feature_dim"):
        open_source(data, Y, Reading(feature_dim="band"))


# xarray


def test_data_array__coordinate_names_the_features():
    source = open_source(labelled(), Y)
    assert source.names == (0.4, 0.5, 0.6, 0.7)
    assert np.array_equal(values(source), X)


def test_data_array__dims_other_than_feature_dim_are_stacked_in_order():
    cube = rng.normal(size=(5, 3, 4, 2))
    for array in (cube, da.from_array(cube, chunks=(2, 2, 3, 1))):
        data = xr.DataArray(array, dims=("time", "band", "y", "x"))
        source = open_source(data, None, Reading(feature_dim="band"))
        assert np.array_equal(values(source), np.moveaxis(cube, 1, -1).reshape(-1, 3))
        assert source.names == ("x0", "x1", "x2")


def test_data_array__dim_named_feature_is_the_default_feature_dim():
    data = xr.DataArray(X.reshape(4, 15, 4).transpose(2, 0, 1), dims=("feature", "y", "x"))
    assert np.array_equal(values(open_source(data, None)), X)


def test_data_array__error_lists_the_dims():
    data = xr.DataArray(np.zeros((2, 3, 4)), dims=("time", "y", "wave"))
    with pytest.raises(ValueError, match=r"'time', 'y', 'wave'.*feature_dim='wave'"):
        open_source(data, None)
    with pytest.raises(ValueError, match="unknown feature_dim 'waves'; valid: 'wave'"):
        open_source(data, None, Reading(feature_dim="waves"))


def test_data_array__target_is_aligned_by_dims():
    cube = rng.normal(size=(5, 4, 3))
    target = xr.DataArray(np.arange(20).reshape(4, 5), dims=("x", "y"), name="t")
    data = xr.DataArray(cube, dims=("y", "x", "feature"))
    source = open_source(data, target)
    assert np.array_equal(source.target.compute(), np.arange(20).reshape(4, 5).T.ravel())
    assert source.target_name == "t"
    with pytest.raises(ValueError, match=r"dims \('z', 'y'\).*\('y', 'x'\)"):
        open_source(data, target.rename(x="z"))
    with pytest.raises(ValueError, match=r"5 values along 'y'.*data has 4"):
        open_source(data.isel(y=slice(4)), target)
    stacked = open_source(data, target.values.T)
    assert np.array_equal(stacked.target.compute(), source.target.compute())


def test_data_array__target_with_different_labels_is_refused():
    data = labelled().assign_coords(sample=np.arange(60))
    target = xr.DataArray(Y, dims="sample", coords={"sample": np.arange(60)[::-1]}, name="y")
    with pytest.raises(ValueError, match="along .sample. in another order; give join=.inner."):
        open_source(data, target)


def test_data_array__target_is_a_coordinate():
    data = labelled().assign_coords(y=("sample", Y))
    source = open_source(data, "y")
    assert np.array_equal(source.target.compute(), Y)
    with pytest.raises(ValueError, match="unknown coordinate for the target 'Y'; valid: 'y'"):
        open_source(data, "Y")


def test_data_array__target_name_without_coordinates_is_refused():
    for data in (labelled(), labelled().drop_vars("band")):
        with pytest.raises(ValueError, match="'y', but the DataArray has no coord.*as an array"):
            open_source(data, "y")


def images():
    data = xr.Dataset(
        {name: (("time", "y", "x"), X[:, j].reshape(3, 4, 5)) for j, name in enumerate(NAMES)}
    )
    return data.assign(crop=(("time", "y", "x"), Y.reshape(3, 4, 5)))


def test_dataset__target_variable_is_not_a_feature():
    data = images()
    for target in (data.crop, data.crop.transpose("x", "y", "time"), data.crop.copy()):
        assert open_source(data, target).names == tuple(NAMES)
        lazy = data.chunk(time=1)
        assert open_source(lazy, lazy.crop.transpose(*target.dims)).names == tuple(NAMES)
    with pytest.raises(ValueError, match=r"variable 'crop', the name of the target, with other"):
        open_source(data, data.crop > 0)
    assert np.array_equal(open_source(data, data.crop).target.compute(), Y)
    assert open_source(data, data.crop.rename("wheat")).names == (*NAMES, "crop")
    # One variable remains, and it contains all features.
    one = labelled().to_dataset().assign(y=("sample", Y))
    assert open_source(one, one.y).names == (0.4, 0.5, 0.6, 0.7)


def test_dataset__variables_without_dims_are_ignored():
    data = images().assign(spatial_ref=0)
    assert open_source(data, "crop").names == tuple(NAMES)
    one = labelled().to_dataset().assign(y=("sample", Y), spatial_ref=0)
    assert open_source(one, "y").names == (0.4, 0.5, 0.6, 0.7)
    assert open_source(one, "y", Reading(feature_dim="band")).names == (0.4, 0.5, 0.6, 0.7)


def test_dataset__variables_with_fewer_dims_are_broadcast(tmp_path):
    height, day = rng.normal(size=(5, 4)), rng.normal(size=3)
    data = images().assign(dem=(("x", "y"), height), day=("time", day))
    data = data[["dem", *NAMES, "day", "crop"]]
    data.to_zarr(tmp_path / "d.zarr", consolidated=False)
    mixed = data.chunk(time=2, y=3, x=2).assign(dem=data.dem)  # dem in memory, the rest lazy
    expected = np.column_stack([np.tile(height.T.ravel(), 3), X, np.repeat(day, 20)])
    for each in (data, data.chunk(time=1), mixed, tmp_path / "d.zarr"):
        source = open_source(each, "crop")
        order = [source.names.index(name) for name in ("dem", *NAMES, "day")]
        assert len(source.names) == 6
        assert np.array_equal(values(source)[:, order], expected)
        assert np.array_equal(source.target.compute(), Y)


def test_dataset__broadcasting_is_lazy():
    shape = (1000, 1000, 1000)
    lazy = da.zeros(shape, chunks=(10, 1000, 1000))
    data = xr.Dataset({"a": (("time", "y", "x"), lazy), "dem": (("y", "x"), np.eye(1000))})
    source = open_source(data, None)
    assert source.n_samples == 10**9
    assert source.names == ("a", "dem")
    first = source.parts[0][:1000, 1].compute()
    assert first[0] == 1
    assert first.sum() == 1


def test_dataset__fingerprint_depends_on_the_order_of_the_dims():
    square = rng.normal(size=(6, 6))
    one, other = (
        xr.Dataset({"a": (("y", "x"), square), "b": (dims, square)})
        for dims in (("y", "x"), ("x", "y"))
    )
    assert open_source(one, None).fingerprint != open_source(other, None).fingerprint


def test_dataset__variables_are_not_broadcast_if_the_target_has_fewer_values():
    data = labelled().to_dataset().assign(z=("sample", Y))
    for target in (Y, xr.DataArray(Y, dims="sample"), da.from_array(Y)):
        named = isinstance(target, xr.DataArray)
        message = (
            r"give feature_dim='band' if" if named else r"and the data has 240 samples \(60, 4\)"
        )
        with pytest.raises(ValueError, match=message):
            open_source(data, target)


def test_dataset__variables_without_the_feature_dim_are_features():
    data = labelled().to_dataset().assign(y=("sample", Y), z=("sample", Y))
    source = open_source(data, "y", Reading(feature_dim="band"))
    assert source.names == (("x", 0.4), ("x", 0.5), ("x", 0.6), ("x", 0.7), "z")
    np.testing.assert_array_equal(np.hstack([part.compute() for part in source.parts])[:, 4], Y)


def test_dataset__variables_are_the_features():
    data = xr.Dataset({name: (("y", "x"), X[:, j].reshape(6, 10)) for j, name in enumerate(NAMES)})
    data["b"] = data["b"].transpose("x", "y")
    data["flag"] = data["a"] > 0
    data["t"] = (("x", "y"), Y.reshape(6, 10).T)
    for each in (data, data.chunk(y=4, x=3)):
        source = open_source(each, "t")
        assert source.names == (*NAMES, "flag")
        assert np.array_equal(values(source)[:, :4], X)
        assert source.nominal.tolist() == [False] * 4 + [True]
        assert np.array_equal(source.target.compute(), Y)


def test_dataset__one_variable_contains_all_features():
    data = labelled().to_dataset().assign(y=("sample", Y), width=("band", np.ones(4)))
    source = open_source(data, "y", Reading(feature_dim="band"))
    assert source.names == (0.4, 0.5, 0.6, 0.7)
    assert np.array_equal(source.target.compute(), Y)
    # feature_dim may be omitted if there is one candidate variable.
    assert open_source(data.drop_vars("width"), "y").names == source.names
    assert open_source(data.rename(band="feature"), "y").names == source.names


def test_dataset__errors_name_variables_and_dims():
    data = labelled().to_dataset().assign(y=("sample", Y), z=("sample", Y))
    with pytest.raises(ValueError, match="unknown variable for the target 'yy'; valid: 'y'"):
        open_source(data, "yy")
    with pytest.raises(ValueError, match="unknown feature_dim 'bnad'; valid: 'band'"):
        open_source(data, "y", Reading(feature_dim="bnad"))
    with pytest.raises(ValueError, match="target 'y' has the dims .* give feature_dim='band' if"):
        open_source(data, "y")
    with pytest.raises(ValueError, match="no variable has the dim band and a dim of samples"):
        open_source(data.drop_vars("x"), "y", Reading(feature_dim="band"))
    with pytest.raises(ValueError, match="no variables besides the target"):
        open_source(data[["y"]], "y")
    dates = data.assign(when=("sample", np.arange(60).astype("datetime64[s]")))[["when", "z"]]
    with pytest.raises(TypeError, match="feature 'when' is datetime64"):
        open_source(dates, "z")


# Zarr


def test_zarr__array(tmp_path):
    array = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, chunks=(7, 3), dtype="f8")
    array[:] = X
    source = open_source(tmp_path / "x.zarr", Y)
    assert np.array_equal(values(source), X)
    assert source.names == ("x0", "x1", "x2", "x3")


def test_zarr__shards_are_read_whole(tmp_path):
    array = zarr.create_array(
        tmp_path / "x.zarr", shape=(64, 4), shards=(16, 4), chunks=(2, 2), dtype="f8"
    )
    array[:] = 1
    (rows, columns) = open_source(str(tmp_path / "x.zarr"), None).parts[0].chunks
    assert rows == (64,)
    assert columns == (4,)


def test_zarr__plain_group(tmp_path):
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("table", data=X)
    group.create_array("y", data=Y)
    source = open_source(tmp_path / "g.zarr", "y")
    assert np.array_equal(values(source), X)
    assert np.array_equal(source.target.compute(), Y)
    assert (source.target_name, source.target_type) == ("y", "integer")
    with pytest.raises(ValueError, match="for the target 'yy'; valid: 'y'"):
        open_source(tmp_path / "g.zarr", "yy")
    group.create_array("other", data=X)
    with pytest.raises(ValueError, match="contains 2 arrays with two dimensions"):
        open_source(tmp_path / "g.zarr", "y")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_zarr__group_of_xarray(tmp_path, zarr_format, consolidated):
    data = labelled().to_dataset().assign(y=("sample", Y)).chunk(sample=16)
    data.to_zarr(tmp_path / "d.zarr", zarr_format=zarr_format, consolidated=consolidated)
    source = open_source(str(tmp_path / "d.zarr"), "y")
    assert source.names == (0.4, 0.5, 0.6, 0.7)
    assert np.array_equal(values(source), X)
    assert np.array_equal(source.target.compute(), Y)


def test_zarr__variables_without_consolidated_metadata_are_sorted(tmp_path):
    names = [f"f{i}" for i in range(40)]
    data = xr.Dataset(dict.fromkeys([*reversed(names), "y"], ("sample", X[:, 0])))
    data.assign(y=("sample", Y)).to_zarr(tmp_path / "d.zarr", consolidated=False)
    sources = [open_source(str(tmp_path / "d.zarr"), "y") for _ in range(4)]
    assert all(source.names == tuple(sorted(names)) for source in sources)
    assert len({source.fingerprint for source in sources}) == 1


def stores(tmp_path):
    return {
        "local": tmp_path / "store.zarr",
        "memory": zarr.storage.MemoryStore(),
        "zip": zarr.storage.ZipStore(tmp_path / "store.zip", mode="w"),
    }


@pytest.mark.parametrize("kind", ["local", "memory", "zip"])
def test_zarr__open_objects_are_accepted(tmp_path, kind):
    group = zarr.create_group(stores(tmp_path)[kind])
    table, y = group.create_array("table", data=X, chunks=(20, 4)), group.create_array("y", data=Y)
    for data, target, name in ((group, "y", "y"), (table, y, "y"), (table, Y, "target")):
        source = open_source(data, target)
        assert np.array_equal(values(source), X)
        assert np.array_equal(source.target.compute(), Y)
        assert (source.target_name, source.target_type) == (name, "integer")
        again = open_source(data, target)
        assert source.fingerprint == again.fingerprint
        assert (source.fingerprint is None) == (kind != "local")
        # without a fingerprint, task names must be unique, as the data may have changed
        assert (source.parts[0].name == again.parts[0].name) == (kind == "local")
        with pytest.raises(ValueError, match="feature_dim is 'band'.*omit feature_dim"):
            open_source(data, target, Reading(feature_dim="band"))


def test_zarr__object_and_path_have_the_same_fingerprint(tmp_path):
    group = zarr.create_group(tmp_path / "g.zarr")
    table, _ = group.create_array("table", data=X), group.create_array("y", data=Y)
    labelled().to_dataset().assign(y=("sample", Y)).to_zarr(tmp_path / "d.zarr", consolidated=False)
    for data, path, target in (
        (group, tmp_path / "g.zarr", "y"),
        (table, tmp_path / "g.zarr" / "table", Y),
        (zarr.open_group(tmp_path / "d.zarr", mode="r"), tmp_path / "d.zarr", "y"),
    ):
        one, other = open_source(data, target), open_source(path, target)
        assert one.fingerprint == other.fingerprint
        assert one.target_fingerprint == other.target_fingerprint
        assert one.names == other.names


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_zarr__group_of_xarray_as_object(tmp_path, kind):
    store = stores(tmp_path)[kind]
    data = labelled().to_dataset().assign(y=("sample", Y))
    data.to_zarr(store, group="deep/down", consolidated=False)
    for mode in ("r", "r+"):
        group = zarr.open_group(store, path="deep/down", mode=mode)
        source = open_source(group, "y", Reading(feature_dim="band"))
        assert source.names == (0.4, 0.5, 0.6, 0.7)
        assert np.array_equal(values(source), X)
        assert np.array_equal(source.target.compute(), Y)


def test_zarr__feature_dim_is_refused_for_arrays_without_dims(tmp_path):
    zarr.create_group(tmp_path / "g.zarr").create_array("table", data=X)
    for path in (tmp_path / "g.zarr", tmp_path / "g.zarr" / "table"):
        with pytest.raises(ValueError, match="feature_dim is 'band'.*omit feature_dim"):
            open_source(path, Y, Reading(feature_dim="band"))


def test_path__tilde_is_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    zarr.create_array(tmp_path / "x.zarr", data=X)
    assert open_source("~/x.zarr", Y).n_samples == 60
    assert as_path("~/x.zarr") == as_path(Path("~") / "x.zarr") == str(tmp_path / "x.zarr")
    # A file name may begin with a tilde.
    assert as_path("~x.zarr") == str(Path.cwd() / "~x.zarr")
    assert as_path("a/~/x.zarr") == str(Path.cwd() / "a" / "~" / "x.zarr")


def test_zarr__url(tmp_path):
    data = labelled().to_dataset().assign(y=("sample", Y))
    for place in (f"file://{tmp_path}", "memory://sources"):
        data.to_zarr(f"{place}/d.zarr".removeprefix("file://"), consolidated=False)
        source = open_source(f"{place}/d.zarr", "y")
        assert np.array_equal(values(source), X)
        assert source.fingerprint == open_source(f"{place}/d.zarr", "y").fingerprint
        with pytest.raises(FileNotFoundError, match="nothing"):
            open_source(f"{place}/nothing.zarr", "y")


def test_zarr__errors_name_the_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.zarr"):
        open_source(tmp_path / "nothing.zarr", "y")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"no Zarr array or group at .*folder"):
        open_source(tmp_path / "folder", "y")
    zarr.create_group(tmp_path / "empty.zarr")
    with pytest.raises(ValueError, match="contains no arrays"):
        open_source(tmp_path / "empty.zarr", "y")


def test_xarray_from_zarr__is_lazy_with_and_without_dask(tmp_path):
    labelled().to_dataset().assign(y=("sample", Y)).to_zarr(tmp_path / "d.zarr", consolidated=False)
    for chunks in (None, {}):
        with xr.open_zarr(tmp_path / "d.zarr", chunks=chunks, consolidated=False) as data:
            source = open_source(data, "y", Reading(feature_dim="band"))
            assert not data["x"].variable._in_memory
            assert np.array_equal(values(source), X)


# Targets


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (Y.tolist(), "integer"),
        (Y > 0, "nominal"),
        (np.where(Y > 0, "p", "q"), "nominal"),
        (["p", None] * 30, "nominal"),
        (Y.astype(float), "number"),
        (Y[:, None], "integer"),
        (pd.Series(Y, name="t"), "integer"),
        (pd.Series(Y, name="t").to_frame(), "integer"),
        (pd.Index(Y), "integer"),
        (pd.Series([1, None, 3] * 20, dtype="Int64"), "integer"),
        (pd.Series(Y).astype("category"), "nominal"),
        (pd.Categorical(["a", "b"] * 30), "nominal"),
        (da.from_array(Y, chunks=7), "integer"),
        (xr.DataArray(Y, dims="n"), "integer"),
    ],
)
def test_target__types(target, kind):
    source = open_source(X, target)
    assert source.target_type == kind
    assert source.target.shape == (60,)


def test_target__wrong_length_names_both_sizes():
    for wrong in (Y[:50], da.from_array(Y[:50]), pd.Series(Y[:50])):
        with pytest.raises(ValueError, match="'target' has 50 values and the data has 60 samples"):
            open_source(X, wrong)


def test_target__unsupported_types_are_refused():
    with pytest.raises(TypeError, match="target 'target' is complex128"):
        open_source(X, Y.astype(complex))
    with pytest.raises(TypeError, match="target is a dict"):
        open_source(X, {})
    with pytest.raises(TypeError, match="sparse"):
        open_source(X, scipy.sparse.csr_array(X))


def test_target__unknown_name_is_refused():
    with pytest.raises(ValueError, match="columns of an array have no names"):
        open_source(X, "y")
    with pytest.raises(ValueError, match="unknown column for the target 'A'; valid: 'a'"):
        open_source(pd.DataFrame(X, columns=NAMES), "A")


# nominal=


def test_nominal__accepts_names_positions_or_true():
    frame = pd.DataFrame(X, columns=NAMES)
    assert open_source(frame, Y, Reading(nominal=["b", 3])).nominal.tolist() == [
        False,
        True,
        False,
        True,
    ]
    assert open_source(frame, Y, Reading(nominal="c")).nominal.tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert open_source(frame, Y, Reading(nominal=True)).nominal.all()
    assert not open_source(frame, Y, Reading(nominal=())).nominal.any()
    numbered = pd.DataFrame(X, columns=[3, 2, 1, 0])
    assert open_source(numbered, Y, Reading(nominal=[3])).nominal.tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_nominal__error_suggests_the_most_similar_name():
    frame = pd.DataFrame(X, columns=["colour", "size", "weight", "age"])
    with pytest.raises(ValueError, match="unknown feature in nominal 'color'; valid: 'colour'"):
        open_source(frame, Y, Reading(nominal=["color"]))


# Fingerprints


def test_fingerprint__in_memory_depends_on_content_and_names():
    one = open_source(X, Y)
    same = open_source(X.copy(), Y.copy())
    assert one.fingerprint == same.fingerprint
    assert one.target_fingerprint == same.target_fingerprint
    other = X.copy()
    other[3, 2] += 1
    assert open_source(other, Y).fingerprint != one.fingerprint
    assert open_source(X, Y[::-1]).fingerprint == one.fingerprint
    assert open_source(X, Y[::-1]).target_fingerprint != one.target_fingerprint
    frame = pd.DataFrame(X, columns=NAMES)
    assert open_source(frame, Y).fingerprint == open_source(frame.copy(), Y).fingerprint
    renamed = frame.rename(columns={"a": "z"})
    assert open_source(frame, Y).fingerprint != open_source(renamed, Y).fingerprint


def test_fingerprint__of_dask_depends_on_its_graph():
    lazy = da.from_array(X, chunks=20)
    assert open_source(lazy, Y).fingerprint == open_source(lazy, Y).fingerprint
    assert open_source(lazy + 1, Y).fingerprint != open_source(lazy, Y).fingerprint


def test_fingerprint__of_files_depends_on_their_timestamps(tmp_path):
    path = tmp_path / "d.zarr"
    labelled().to_dataset().assign(y=("sample", Y)).to_zarr(path, consolidated=False)

    def prints():
        opened = xr.open_zarr(path, consolidated=False)
        unchunked = xr.open_zarr(path, consolidated=False, chunks=None)
        sources = [
            open_source(path, "y"),
            open_source(opened, "y", Reading(feature_dim="band")),
            open_source(opened["x"] * 2, opened["y"]),
            open_source(unchunked["x"], unchunked["y"]),
            open_source(da.from_zarr(path / "x"), da.from_zarr(path / "y")),
        ]
        return [source.fingerprint for source in sources], [s.target_fingerprint for s in sources]

    before, targets = prints()
    assert prints() == (before, targets)
    chunk = next(file for file in (path / "x" / "c").rglob("*") if file.is_file())
    later = time.time_ns() + 10**9
    os.utime(chunk, ns=(later, later))
    after, targets_after = prints()
    assert all(a != b for a, b in zip(after, before, strict=True))
    assert targets_after == targets


def test_fingerprint__of_a_slice_differs_from_the_whole(tmp_path):
    path = tmp_path / "d.zarr"
    labelled().to_dataset().to_zarr(path, consolidated=False)
    for chunks in (None, {}):
        data = xr.open_zarr(path, consolidated=False, chunks=chunks)["x"]
        whole, part = (open_source(d, None) for d in (data, data.isel(band=[0, 1, 2, 3])[:30]))
        assert whole.fingerprint != part.fingerprint
        shifted = open_source(data[30:], None)
        assert shifted.fingerprint != part.fingerprint


def test_open_source__parts_of_different_lengths_are_refused(monkeypatch):
    def of_two_lengths(data, target):
        features, column = arrays.from_array(data, target)
        return replace(features, parts=[data[:, :1], data[:-1, 1:]]), column

    monkeypatch.setattr(source_module, "from_array", of_two_lengths)
    with pytest.raises(ValueError, match="different lengths: 9 and 10 samples; give one value"):
        open_source(np.zeros((10, 2)), np.arange(10) % 2)
