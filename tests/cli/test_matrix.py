"""``hofs-dask matrix``."""

import csv
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.api import MatrixKind
from hofs_dask.cli.output import MATRIX_KINDS
from tests.cli.shell import run


def test_matrix__kinds_are_those_of_the_function() -> None:
    assert get_args(MatrixKind) == MATRIX_KINDS


@pytest.mark.parametrize("kind", MATRIX_KINDS)
def test_matrix__writes_what_the_function_returns(codes: Path, tmp_path: Path, kind: str) -> None:
    expected = hd.information_matrix(codes, None, kind=kind)
    output = tmp_path / "matrix.zarr"
    for _ in range(2):  # an earlier matrix is replaced
        result = run("matrix", codes, "--kind", kind, "--output", output)
        assert result.exit_code == 0, result.output
    written = xr.open_zarr(output, consolidated=False)[f"{kind}_information"]
    np.testing.assert_array_equal(written.values, expected.values)
    assert written["feature"].values.tolist() == written["other"].values.tolist()
    assert written.attrs == expected.attrs
    assert run("info", output).stdout == result.stdout
    # The largest entry off the diagonal is printed first.
    first = result.stdout.splitlines()[4].split()
    others = expected.values[~np.eye(9, dtype=bool)]
    assert first[2] == f"{others.max():.4f}"
    assert expected.sel(feature=first[0], other=first[1]).item() == others.max()
    n_pairs = 72 if kind == "conditional" else 36
    assert result.stdout.splitlines()[-1] == f"... and {n_pairs - 10} more pairs"


def test_matrix__writes_netcdf_and_csv(codes: Path, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    expected = hd.information_matrix(codes, None)
    for ending in ("nc", "csv"):
        for _ in range(2):  # an earlier matrix is replaced
            result = run("matrix", codes, "--output", tmp_path / f"matrix.{ending}")
            assert result.exit_code == 0, result.output
    with xr.open_dataset(tmp_path / "matrix.nc", engine="h5netcdf") as written:
        np.testing.assert_array_equal(written["spectral_information"].values, expected.values)
    with (tmp_path / "matrix.csv").open() as file:
        header, *rows = csv.reader(file)
    names = expected["feature"].values.tolist()
    assert header == ["spectral_information", *names]
    assert [row[0] for row in rows] == names
    assert [[float(cell) for cell in row[1:]] for row in rows] == expected.values.tolist()


def test_matrix__accepts_a_source_with_a_target(source: Path, tmp_path: Path) -> None:
    output = ["--output", tmp_path / "matrix.csv"]
    assert run("matrix", source, *output).exit_code == 2
    result = run("matrix", source, "--target", "y", *output, "--progress")
    assert result.exit_code == 0, result.output
    assert "\nscan 1 " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--output'"),
        (["--output", "matrix.json"], "should end with one of .zarr .nc .csv"),
        (["--output", "matrix.csv", "--kind", "mutual"], "'mutual' is not one of"),
        (["--output", "mine.csv"], "exists and is not a matrix"),
    ],
)
def test_matrix__wrong_option_is_a_usage_error(
    codes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("feature,a,b\n")
    result = run("matrix", codes, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_matrix__interrupt_reports_that_nothing_was_written(
    codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hofs_dask.api.information_matrix", interrupted)
    result = run("matrix", codes, "--output", tmp_path / "matrix.csv")
    assert result.exit_code == 130
    assert result.stderr == ("Interrupted: nothing was written; run the same command again.\n")
