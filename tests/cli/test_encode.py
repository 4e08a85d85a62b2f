"""``hofs-dask encode``."""

from pathlib import Path

import pytest

import hofs_dask as hd
from tests.cli.shell import run


def test_encode__writes_what_the_function_writes(source: Path, tmp_path: Path) -> None:
    options = ["--bins", "8", "--chunks", "1000,4", "--target-kind", "class", "--nominal", "x2"]
    result = run("encode", source, tmp_path / "codes.zarr", "--target", "y", *options)
    assert result.exit_code == 0, result.output
    assert "chunks of 1000 samples x 4 features" in result.stdout
    expected = hd.encode(
        source, "y", tmp_path / "other.zarr", bins=8, chunks=(1000, 4), nominal=["x2"]
    )
    written = hd.encode(
        source, "y", tmp_path / "codes.zarr", bins=8, chunks=(1000, 4), nominal=["x2"]
    )
    assert written.fingerprint == expected.fingerprint
    assert written.nominal.tolist() == expected.nominal.tolist()


def test_encode__explain_prints_the_plan_and_writes_nothing(source: Path, tmp_path: Path) -> None:
    place = tmp_path / "codes.zarr"
    result = run("encode", source, place, "--target", "y", "--bins", "8", "--explain")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("encode: ")
    assert "4 bits per code" in result.stdout
    assert "in two reads" in result.stdout
    assert "reductions" not in result.stdout
    assert not place.exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--bins", "many"], "'many' is not a number, auto, width or none"),
        (["--chunks", "1000"], "'1000' is not two numbers such as 100000,64"),
        (["--target-kind", "klass"], "'klass' is not one of"),
        (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "give only one"),
    ],
)
def test_encode__wrong_option_is_a_usage_error(
    source: Path, tmp_path: Path, option: list[str], message: str
) -> None:
    result = run("encode", source, tmp_path / "codes.zarr", "--target", "y", *option)
    assert result.exit_code == 2
    assert message in result.stderr
