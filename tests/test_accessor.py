"""The accessor of xarray objects: the same options, results and reads as the functions."""

import inspect
import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask import api
from hofs_dask.accessor import HofsAccessor
from tests.reads import Reads

RNG = np.random.default_rng(3)
SHAPE = (6, 10, 8, 5)  # time, y, x, band
VALUES = RNG.normal(size=SHAPE)
LABEL = (VALUES[..., 2] + 0.5 * VALUES[..., 4] + RNG.normal(size=SHAPE[:3]) > 0).astype("i2") + 1
LAND = RNG.random(SHAPE[1:3]) < 0.7
CHUNKS = (2, 5, 8, 5)
FUNCTIONS = (
    "select",
    "select_by",
    "compare",
    "interactions",
    "information_matrix",
    "encode",
    "estimate",
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accessor__has_the_options_of_the_functions(name):
    own, function = (inspect.signature(getattr(where, name)) for where in (HofsAccessor, api))
    # the features of xarray objects have names
    left_out = ("data", "feature_names")
    theirs = {key: each for key, each in function.parameters.items() if key not in left_out}
    assert list(own.parameters) == ["self", *theirs]
    for key, each in theirs.items():
        found = own.parameters[key]
        assert found.kind == each.kind
        assert found.default == each.default or key == "methods"  # all methods, by name
    assert own.return_annotation == function.return_annotation


def cube(values=None):
    lazy = da.from_array(VALUES, chunks=CHUNKS) if values is None else values
    return xr.DataArray(
        lazy,
        dims=("time", "y", "x", "band"),
        coords={"band": ["blue", "green", "red", "nir", "swir"]},
    )


def test_accessor__chunked_cube_with_a_mask_equals_the_stacked_numpy_call():
    reads = Reads()
    data = cube(reads.array(VALUES, CHUNKS))
    target = xr.DataArray(LABEL, dims=("time", "y", "x"), name="crop").chunk(time=3)
    mask = xr.DataArray(LAND, dims=("y", "x")).chunk(y=4)
    assert not reads.counts
    found = data.hofs.select(target, 4, feature_dim="band", where=mask)
    inside = np.broadcast_to(LAND, SHAPE[:3])
    expected = hd.select(VALUES[inside], LABEL[inside], 4)
    assert found.indices.tolist() == expected.indices.tolist()
    for name in ("scores", "indices"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("gain", "information", "relevance", "margin", "subset"):
        one, other = (each.to_dataset()[name].values for each in (found, expected))
        np.testing.assert_array_equal(one, other)
    n_chunks = int(np.prod([-(-n // c) for n, c in zip(SHAPE, CHUNKS, strict=True)]))
    assert len(reads.counts) == n_chunks
    assert set(reads.counts.values()) == {2}


@pytest.mark.parametrize("method", ["hofs", "jmi", "vmi"])
def test_accessor__chunked_cube_with_a_mask_and_weights_equals_the_stacked_numpy_call(method):
    reads, labels, masks, areas = (Reads() for _ in range(4))
    data = cube(reads.array(VALUES, CHUNKS))
    area = np.cos(np.linspace(-1.4, 1.4, SHAPE[1]))[:, np.newaxis] * np.linspace(1, 2, SHAPE[2])
    target = xr.DataArray(
        labels.array(LABEL[..., np.newaxis], (3, 10, 8, 1))[..., 0],
        dims=("time", "y", "x"),
        name="crop",
    )
    mask = xr.DataArray(
        masks.array(LAND[np.newaxis, ..., np.newaxis], (1, 4, 8, 1))[0, ..., 0], dims=("y", "x")
    )
    weights = xr.DataArray(
        areas.array(area[np.newaxis, ..., np.newaxis], (1, 10, 4, 1))[0, ..., 0],
        dims=("y", "x"),
        name="area",
    )
    assert not any(each.counts for each in (reads, labels, masks, areas))
    found = data.hofs.select(
        target, 4, method=method, feature_dim="band", where=mask, weights=weights
    )
    inside = np.broadcast_to(LAND, SHAPE[:3])
    expected = hd.select(
        VALUES[inside],
        LABEL[inside],
        4,
        method=method,
        weights=np.broadcast_to(area, SHAPE[:3])[inside],
    )
    one, other = found.to_dataset(), expected.to_dataset()
    for name in ("index", "score", "gain", "information", "relevance", "margin", "subset"):
        np.testing.assert_array_equal(one[name].values, other[name].values)
    for name in ("n_samples", "effective_size", "label_entropy"):
        assert one.attrs[name] == other.attrs[name]
    n_chunks = int(np.prod([-(-n // c) for n, c in zip(SHAPE, CHUNKS, strict=True)]))
    assert len(reads.counts) == n_chunks
    assert set(reads.counts.values()) == {2}


def test_accessor__transform_and_other_reads_are_lazy():
    data = cube()
    target = xr.DataArray(LABEL, dims=("time", "y", "x"), name="crop")
    result = data.hofs.select(target, 2, feature_dim="band", method="mim")

    def refuse(*_args, **_options):
        raise AssertionError("something was computed")

    with dask.config.set(scheduler=refuse):
        chosen = result.transform(data)
    assert chosen.sizes["band"] == 2


def test_accessor__every_function(tmp_path):
    data = cube().to_dataset("band").assign(crop=(("time", "y", "x"), LABEL))
    assert set(data.hofs.compare("crop", 1, methods=["mim", "jmi"]).features) == {"mim", "jmi"}
    assert set(data.hofs.compare("crop", 1).features) == set(hd.METHODS)
    pairs = data.hofs.interactions("crop", top=2)
    assert len(pairs.tuples) == 2
    matrix = data.hofs.information_matrix("crop", kind="redundancy")
    assert matrix.sizes == {"feature": 5, "other": 5}
    codes = data.hofs.encode("crop", tmp_path / "codes")
    assert hd.select(codes, None, 1).features == data.hofs.select("crop", n_features=1).features
    assert "480 samples" in str(data.hofs.estimate("crop", 2))


@pytest.mark.parametrize("first", ["hofs_dask", "xarray"])
def test_import__registers_the_accessor_without_importing_xarray(first):
    second = "xarray" if first == "hofs_dask" else "hofs_dask"
    code = f"""
import sys
import {first}
assert ("xarray" in sys.modules) == ({first!r} == "xarray")
import {second}, xarray
assert hasattr(xarray.Dataset, "hofs") and hasattr(xarray.DataArray, "hofs")
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_accessor__features_of_several_kinds_with_lags_are_read_twice():
    bands, height = Reads(), Reads()
    data = cube(bands.array(VALUES, CHUNKS)).to_dataset(name="refl")
    wet = VALUES[:, :, :, :1]
    data["wet"] = (
        data["refl"].isel(band=0, drop=True).copy(data=height.array(wet, (2, 5, 8, 1))[..., 0])
    )
    data["dem"] = (("y", "x"), RNG.normal(size=SHAPE[1:3]))
    data["crop"] = (("time", "y", "x"), LABEL)
    found = data.hofs.select("crop", 3, feature_dim="band", lags={"time": [0, 1]}, method="jmi")
    assert found.to_dataset().sizes["feature"] == 2 * (5 + 1) + 1
    assert found.features[0] == ("refl", "red")
    for reads in (bands, height):
        assert len(reads.counts) == 6
        assert set(reads.counts.values()) == {2}
