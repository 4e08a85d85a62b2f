"""The options that several commands share."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import hofs_dask as hd
from tests.cli.shell import run

READING = ("--feature-dim", "band", "--nominal", 600, "--target-kind", "continuous", "--bins", 4)


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cube whose bands are the features, one of them nominal, with a continuous label."""
    rng = np.random.default_rng(0)
    bands = rng.normal(size=(12, 10, 4))
    bands[..., 2] = rng.integers(0, 9, (12, 10))
    crop = bands[..., 0] + (bands[..., 2] == 4)
    dims = ("y", "x", "band")
    dataset = xr.Dataset({"light": (dims, bands), "crop": (dims[:2], crop)})
    path = tmp_path_factory.mktemp("cube") / "cube.zarr"
    dataset.assign_coords(band=[400, 500, 600, 700]).to_zarr(path, consolidated=False)
    return path


@pytest.mark.parametrize("command", ["select", "compare"])
def test_reading_options__reach_the_search(command: str, cube: Path) -> None:
    result = run(command, cube, "--target", "crop", "--n-features", 2, *READING)
    assert result.exit_code == 0, result.output
    found, plain = (
        getattr(hd, command)(
            cube,
            "crop",
            n_features=2,
            feature_dim="band",
            nominal=nominal,
            target_kind="continuous",
            bins=4,
        )
        for nominal in ([600], None)
    )
    assert result.stdout == f"{found!r}\n"
    assert repr(found) != repr(plain)


def test_reading_options__reach_the_plan_and_the_matrix(cube: Path, tmp_path: Path) -> None:
    plan = run("select", cube, "--target", "crop", "--n-features", 2, "--explain", *READING)
    assert "in two reads" in plan.stdout
    output = tmp_path / "matrix.zarr"
    result = run("matrix", cube, "--target", "crop", "--output", output, *READING)
    assert result.exit_code == 0, result.output
    expected = hd.information_matrix(
        cube, "crop", feature_dim="band", nominal=[600], target_kind="continuous", bins=4
    )
    written = xr.open_zarr(output, consolidated=False)["spectral_information"]
    np.testing.assert_array_equal(written.values, expected.values)


@pytest.mark.parametrize("command", ["select", "compare", "matrix", "interactions"])
@pytest.mark.parametrize(
    "option",
    [("--bins", 4), ("--nominal", "x1"), ("--feature-dim", "band"), ("--target-kind", "ordinal")],
)
def test_reading_options__are_refused_for_a_code_store(
    command: str, option: tuple[object, ...], codes: Path, tmp_path: Path
) -> None:
    to_file = ("--output", tmp_path / "m.zarr")
    needed = to_file if command in ("matrix", "interactions") else ("--n-features", 2)
    result = run(command, codes, *needed, *option)
    assert result.exit_code == 2
    message = " ".join(result.stderr.split())
    assert f"remove {option[0]}, or encode the data again with it" in message


@pytest.fixture(scope="module")
def climate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Temperature on levels, a land mask and classes of rain, with 0 for no class."""
    rng = np.random.default_rng(1)
    air = rng.normal(size=(40, 2, 8))
    rain = np.roll(air[:, 1] > 0, 1, axis=0) + 1
    rain[:, :2] = 0
    dataset = xr.Dataset(
        {
            "T": (("time", "level", "x"), air),
            "wind": (("time", "x"), rng.normal(size=(40, 8))),
            "land": ("x", np.arange(8) < 6),
            "rain": (("time", "x"), rain),
        },
        {"level": [500, 850], "pressure": ("level", [5e4, 8.5e4])},
    )
    path = tmp_path_factory.mktemp("climate") / "climate.zarr"
    dataset.to_zarr(path, consolidated=False)
    return path


def test_reading_options__masks_lags_and_features_of_several_kinds(climate: Path) -> None:
    options = ("--where", "land", "--ignore-label", 0, "--lags", "time=0,1")
    levels = ("--feature-dim", "level", "--feature-coord", "pressure", "--exclude", "wind")
    common = (climate, "--target", "rain", "--n-features", 1, "--method", "mim")
    result = run("select", *common, *options, *levels)
    assert result.exit_code == 0, result.output
    assert "1 of 5 features" in result.output
    assert "('T', 85000.0, 'time-1')" in result.output
    for note in (
        "note: lags leave out 8 samples without history",
        "note: where leaves out 78 samples",
        "note: ignore_label=0 leaves out 78 samples",
    ):
        assert note in result.output
    forced = run("select", *common, *levels[:2], "--include", "('T', 500)")
    assert "('T', 500)" in forced.output, forced.output
    several = run("select", *common, "--feature-dim", "level,x")
    assert "give the same dims" in several.output or "features are along" in several.output
    wrong = run("select", *common, "--lags", "time")
    assert "'time' is not a dim and its lags, such as time=0,1,2" in wrong.output
