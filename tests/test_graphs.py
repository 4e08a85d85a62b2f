"""Sources with unusual graphs and arrays: P2P rechunks, query planning, units, netCDF files."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pint
import pytest
import xarray as xr
from click.testing import CliRunner

import hofs_dask as hd
from hofs_dask.cli import main

N_SAMPLES = 8000


def made(n_samples=N_SAMPLES):
    """Data whose column 7 is the target, with some missing values; x2 and x0 are relevant."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_samples, 8))
    x[:, 7] = x[:, 2] + 0.5 * x[:, 0] > 0
    x[:5, 7] = np.nan
    return x


# P2P rechunks


@pytest.fixture
def messages():
    """The warnings of the scheduler while a test runs."""

    class Handler(logging.Handler):
        def emit(self, record):
            found.append(record.getMessage())

    found: list[str] = []
    handler = Handler(logging.WARNING)
    logger = logging.getLogger("distributed.scheduler")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


def test_p2p__target_and_features_of_one_rechunk_are_read_correctly(client, messages):
    """Column groups of such an array are wrong if they are computed by dask as they are."""
    x = made()
    with dask.config.set({"array.rechunk.method": "p2p"}):
        array = da.from_array(x, chunks=(N_SAMPLES // 10, 8)).rechunk((N_SAMPLES // 7, 4))
        assert any("p2p" in name for name in array.dask.layers)
        found = hd.select(array[:, :7], array[:, 7], 3, method="jmi")
    assert (
        found.to_dataset()
        .drop_attrs()
        .identical(hd.select(x[:, :7], x[:, 7], 3, method="jmi").to_dataset().drop_attrs())
    )
    assert not [each for each in messages if "run_spec" in each]


def test_p2p__a_dataset_with_clashing_chunks_is_read_correctly(client, messages):
    x = made()
    names = [f"v{j}" for j in range(7)]
    dims = ("time", "place")
    whole = xr.Dataset({name: (dims, x[:, j].reshape(80, 100)) for j, name in enumerate(names)})
    whole["y"] = (dims, x[:, 7].reshape(80, 100))
    sizes = [(7, 100), (80, 9), (13, 31), (80, 100), (1, 100), (9, 50), (30, 30), (11, 40)]
    with dask.config.set({"array.rechunk.method": "p2p"}):
        lazy = xr.Dataset(
            {
                name: whole[name].chunk(dict(zip(dims, size, strict=True)))
                for name, size in zip([*names, "y"], sizes, strict=True)
            }
        )
        found = hd.select(lazy, "y", 3, method="jmi")
    assert found.features == hd.select(whole, "y", 3, method="jmi").features
    assert found.to_dataset()["relevance"].equals(
        hd.select(whole, "y", 3, method="jmi").to_dataset()["relevance"]
    )
    assert not [each for each in messages if "run_spec" in each]


# Query planning

PLANNED = """
import json, sys
import dask
dask.config.set({"array.query-planning": PLANNING, "scheduler": "sync"})
import dask.array as da
import numpy as np
import xarray as xr
import hofs_dask as hd
assert da.ARRAY_EXPR_ENABLED is PLANNING

rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 6))
y = (x[:, 2] + 0.5 * x[:, 0] > 0).astype(int)
lazy = da.from_array(x, chunks=(700, 4))
cube = xr.DataArray(x.reshape(50, 60, 6), dims=("a", "b", "f")).chunk(a=20, f=2)
label = xr.DataArray(y.reshape(50, 60), dims=("a", "b"))
table = xr.Dataset({f"v{j}": (("a", "b"), x[:, j].reshape(50, 60)) for j in range(6)})
table["height"] = ("a", np.arange(50.0))
table["y"] = label
table.drop_vars("height").to_netcdf(sys.argv[1], engine="h5netcdf")
found = [
    hd.select(lazy, y, 3),
    hd.select((lazy * 2 + 1)[:, ::-1], da.from_array(y, chunks=500), 3, exclude=["x1"]),
    hd.select({"p": lazy[:, 0], "q": lazy[:, 2]}, y, 2),
    hd.select(cube, label.chunk(a=7), 3, feature_dim="f"),
    hd.select(table.chunk(a=20), "y", 3, groups={"a": 10}),
    hd.select(table, "y", 3),
    hd.select(sys.argv[1], "y", 3),
]
print(json.dumps([[each.features, each.scores.tolist()] for each in found]))
"""


@pytest.mark.filterwarnings("ignore")
def test_query_planning__gives_the_same_results(tmp_path):
    results = []
    for planning in ("False", "True"):
        command = [
            sys.executable,
            "-c",
            PLANNED.replace("PLANNING", planning),
            str(tmp_path / f"{planning}.nc"),
        ]
        environment = os.environ | {"PYTHONPATH": str(Path(hd.__file__).parents[1])}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout))
    assert results[0] == results[1]


# Units of pint


def test_pint__magnitudes_are_read_and_units_are_kept():
    x = made()[5:]
    units = pint.UnitRegistry()
    expected = hd.select(x[:, :7], x[:, 7], 2, method="jmi")
    found = hd.select(units.Quantity(x[:, :7], "kelvin"), x[:, 7], 2, method="jmi")
    assert found == expected
    columns = {f"x{j}": ("time", units.Quantity(x[:, j], "kelvin")) for j in range(7)}
    data = xr.Dataset(columns).assign(y=("time", x[:, 7]))
    found = hd.select(data, "y", 2, method="jmi")
    assert found.features == expected.features
    assert found.to_dataset()["units"].values.tolist() == ["kelvin"] * 7
    cube = xr.DataArray(units.Quantity(x[:, :7], "kelvin"), dims=("time", "band"))
    target = xr.DataArray(units.Quantity(x[:, 7], "1"), dims="time")
    assert hd.select(cube, target, 2, method="jmi").indices.tolist() == expected.indices.tolist()


# netCDF files


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_netcdf__path_gives_the_result_of_the_dataset(tmp_path, engine, client):
    x = made()
    names = [f"v{j}" for j in range(7)]
    data = xr.Dataset({name: ("time", x[:, j]) for j, name in enumerate(names)})
    data["y"] = ("time", x[:, 7])
    data["v2"].attrs["units"] = "K"
    path = tmp_path / "data.nc"
    data.to_netcdf(path, engine=engine)
    expected = hd.select(data, "y", 3, method="jmi")
    for given in (path, str(path)):
        found = hd.select(given, "y", 3, method="jmi")
        assert found.features == expected.features
        assert found.to_dataset()["units"].values.tolist() == ["", "", "K", "", "", "", ""]
    arguments = ["select", str(path), "--target", "y", "--n-features", "3", "--method", "jmi"]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.output
    assert str(expected).splitlines()[0] in shown.output


def test_netcdf__files_that_are_no_data_are_refused(tmp_path):
    x = made()[5:]
    result = hd.select(x[:, :7], x[:, 7], 1, method="mim")
    result.save(tmp_path / "result.nc")
    with pytest.raises(ValueError, match="contains a hofs_dask selection, not data"):
        hd.select(tmp_path / "result.nc", "y", 1)
    (tmp_path / "damaged.nc").write_bytes(b"CDF\x01 and nothing else")
    with pytest.raises(ValueError, match=r"cannot be opened \(.*xarray\.open_dataset"):
        hd.select(tmp_path / "damaged.nc", "y", 1)
    with pytest.raises(FileNotFoundError, match="no such path"):
        hd.select(tmp_path / "none.nc", "y", 1)
