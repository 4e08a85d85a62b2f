"""Weights of the samples, given in every way: the same column of the source."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

from hofs_dask.io.reading import Reading
from hofs_dask.io.source import open_source

X = np.arange(24.0).reshape(8, 3)
Y = np.arange(8) % 2
W = np.linspace(0.5, 2.0, 8)
NAMES = ["x0", "x1", "x2"]
FRAME = pd.DataFrame(X, columns=NAMES).assign(y=Y, w=W, g=Y)
DATASET = xr.Dataset({name: ("s", FRAME[name].to_numpy()) for name in FRAME})


def _zarr(path):
    DATASET.to_zarr(path / "x.zarr", consolidated=False)
    return str(path / "x.zarr")


GIVEN = {
    "array": lambda _: (X, Y, W),
    "list": lambda _: (X, Y, W.tolist()),
    "dask array": lambda _: (da.from_array(X, chunks=(3, 2)), Y, da.from_array(W, chunks=5)),
    "series": lambda _: (FRAME[NAMES], Y, pd.Series(W)),
    "nullable series": lambda _: (FRAME[NAMES], Y, pd.Series(W).astype("Float64")),
    "column": lambda _: (FRAME[[*NAMES, "w"]], Y, "w"),
    "dask column": lambda _: (dd.from_pandas(FRAME[[*NAMES, "y", "w"]], npartitions=2), "y", "w"),
    "dict": lambda _: ({name: FRAME[name].to_numpy() for name in [*NAMES, "y", "w"]}, "y", "w"),
    "variable": lambda _: (DATASET.drop_vars("g"), "y", "w"),
    "coordinate": lambda _: (xr.DataArray(X, dims=("s", "b"), coords={"w": ("s", W)}), Y, "w"),
    "data array": lambda _: (xr.DataArray(X, dims=("s", "b")), Y, xr.DataArray(W, dims="s")),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_weights__of_every_kind_are_the_same_column(kind, tmp_path):
    data, target, weights = GIVEN[kind](tmp_path)
    source = open_source(data, target, Reading(weights=weights))
    assert source.n_features == 3
    assert source.weights.values.chunks[0] == source.parts[0].chunks[0]
    assert np.array_equal(source.weights.values.compute(), W)


@pytest.mark.parametrize("opened", [False, True])
def test_weights_and_groups__are_both_taken_from_a_zarr_group(tmp_path, opened):
    path = _zarr(tmp_path)
    data = zarr.open_group(path, mode="r") if opened else path
    source = open_source(data, "y", Reading(weights="w", groups="g"))
    assert source.names == ("x0", "x1", "x2")
    assert np.array_equal(source.weights.values.compute(), W)
    assert np.array_equal(source.groups.values.compute(), Y)


def test_weights__with_some_dims_are_broadcast_by_name_and_stay_lazy():
    data = xr.DataArray(
        da.zeros((4, 5, 6, 2), chunks=(2, 5, 6, 2)), dims=("time", "lat", "lon", "band")
    )
    weights = xr.DataArray(np.cos(np.arange(5.0) / 4), dims="lat")
    source = open_source(data, np.zeros((4, 5, 6)), Reading(feature_dim="band", weights=weights))
    expected = np.broadcast_to(weights.values[None, :, None], (4, 5, 6)).reshape(-1)
    assert source.weights.values.chunks[0] == (60, 60)
    assert np.array_equal(source.weights.values.compute(), expected)
    other = open_source(data, np.zeros((4, 5, 6)), Reading(feature_dim="band", weights=weights + 1))
    assert source.weights.fingerprint != other.weights.fingerprint
    assert source.fingerprint == other.fingerprint


ERRORS = [
    (FRAME, "v", ValueError, "unknown column for weights 'v'; valid: 'x0', 'x1', 'x2', 'y', 'w'"),
    (FRAME, "y", ValueError, "weights and target are both 'y'; give another name for weights"),
    (FRAME, "g", ValueError, "weights and groups are both 'g'; give another name for weights"),
    (FRAME, W[:5], ValueError, "weights 'weights' has 5 values and the data has 8 samples"),
    (FRAME, {"lat": 2}, TypeError, "weights is {'lat': 2}; give an array with one weight per"),
    (FRAME, ["a"] * 8, TypeError, "weights 'weights' is object; give one number per sample"),
    (FRAME, W + 1j, TypeError, "weights 'weights' is complex128; give one number per sample"),
    (
        DATASET,
        xr.DataArray(W, dims="t"),
        ValueError,
        "weights has the dims ('t',) and the samples of the data have ('s',); give some of "
        "these dims, for example with weights.rename",
    ),
    (
        FRAME,
        pd.Series(W, index=np.arange(1, 9)),
        ValueError,
        "weights",
    ),
]


@pytest.mark.parametrize(("data", "weights", "error", "message"), ERRORS)
def test_weights__that_cannot_be_used_are_refused(data, weights, error, message):
    with pytest.raises(error) as caught:
        open_source(data, "y", Reading(weights=weights, groups="g"))
    assert str(caught.value).startswith(message)
