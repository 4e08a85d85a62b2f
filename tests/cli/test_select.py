"""``hofs-dask select``."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import dask
import numpy as np
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.methods.registry import METHOD_NAMES
from tests.cli.shell import run


def test_select__netcdf_without_h5netcdf_is_a_usage_error(
    codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hofs_dask.cli.output.find_spec", lambda _: None)
    result = run("select", codes, "--n-features", 4, "--output", tmp_path / "result.nc")
    assert result.exit_code == 2
    assert "pip install 'hofs-dask[netcdf]'" in " ".join(result.stderr.split())


@pytest.mark.parametrize("ending", ["zarr", "nc"])
def test_select__prints_and_saves_what_the_function_returns(
    codes: Path, tmp_path: Path, ending: str
) -> None:
    if ending == "nc":
        pytest.importorskip("h5py")
    output = tmp_path / f"result.{ending}"
    result = run("select", codes, "--n-features", 4, "--output", output)
    assert result.exit_code == 0, result.output
    expected = hd.select(codes, None, n_features=4)
    assert result.stdout == f"{expected!r}\n"
    assert result.stderr == ""
    assert hd.load(output) == expected


def test_select__explain_prints_the_plan_and_runs_nothing(codes: Path, tmp_path: Path) -> None:
    kept = tmp_path / "run"
    result = run("select", codes, "--n-features", 3, "--explain", "--checkpoint", kept)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("hofs: 3 of ")
    for heading in ("chunks", "reductions", "scans", "memory"):
        assert f"\n  {heading} " in result.stdout
    assert "encoding" not in result.stdout
    assert not kept.exists()


def test_select__explain_of_a_source_includes_encoding(source: Path) -> None:
    given = ("select", source, "--target", "y", "--n-features", 2, "--method", "jmi", "--explain")
    result = run(*given)
    assert result.exit_code == 0, result.output
    assert "in two reads" in result.stdout
    assert "known after the first read" in result.stdout


def test_select__accepts_a_source_with_a_target(source: Path) -> None:
    result = run("select", source, "--target", "y", "--n-features", 2)
    assert result.stdout == f"{hd.select(source, 'y', n_features=2)!r}\n"


def test_select__source_without_target_is_a_usage_error(source: Path) -> None:
    result = run("select", source, "--n-features", 2)
    assert result.exit_code == 2
    assert "add --target NAME" in result.stderr


def test_select__options_reach_the_method(codes: Path, tmp_path: Path) -> None:
    options = ["--option", "criterion=sum", "--option", "source=gaussian", "--min-gain", "0.001"]
    output = tmp_path / "result.zarr"
    result = run("select", codes, "--n-features", 3, *options, "--output", output)
    assert result.exit_code == 0, result.output
    method = hd.HOFS(criterion="sum", source="gaussian")
    assert hd.load(output) == hd.select(codes, None, 3, method=method, min_gain=0.001)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_select__accepts_every_method(codes: Path, name: str) -> None:
    result = run("select", codes, "--n-features", 2, "--method", name)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{hd.select(codes, None, 2, method=name)!r}\n"


def test_select__accepts_options_after_the_name(codes: Path) -> None:
    expected = f"{hd.select(codes, None, 3, method=hd.VMI(form='pairwise', restart=0.001))!r}\n"
    options = ["--option", "form=pairwise", "--option", "restart=0.001"]
    assert run("select", codes, "--n-features", 3, "--method", "vmi", *options).stdout == expected
    text = "vmi:form=pairwise:restart=0.001"
    assert run("select", codes, "--n-features", 3, "--method", text).stdout == expected


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_select__writes_a_figure(codes: Path, tmp_path: Path, ending: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"result.{ending}"
    for _ in range(2):  # an earlier figure is replaced
        result = run("select", codes, "--n-features", 3, "--method", "mim", "--plot", picture)
        assert result.exit_code == 0, result.output
        assert picture.read_bytes().startswith(start)
        picture.write_bytes(picture.read_bytes() + b"old")
    assert picture.read_bytes().count(b"old") == 1


@pytest.mark.parametrize("content", [b"", b"my notes on Matplotlib", b"\x89PNG a photo"])
def test_select__other_files_are_not_replaced_by_a_figure(
    codes: Path, tmp_path: Path, content: bytes
) -> None:
    picture = tmp_path / "fig.png"
    picture.write_bytes(content)
    result = run("select", codes, "--n-features", 2, "--plot", picture)
    assert result.exit_code == 2
    assert "exists and is not a figure of this program" in " ".join(result.stderr.split())
    assert picture.read_bytes() == content


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("result.jpg", "should end with one of .png .svg .pdf"),
        ("none/result.png", "does not exist: create it"),
        ("folder.png", "is a folder; give the path of a file"),
    ],
)
def test_select__path_of_the_figure_is_checked_before_the_run(
    codes: Path, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "folder.png").mkdir()
    options = ["--checkpoint", tmp_path / "run", "--plot", tmp_path / name]
    result = run("select", codes, "--n-features", 2, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()


def test_select__figure_without_matplotlib_is_a_usage_error(
    codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hofs_dask.cli.output.find_spec", lambda _: None)
    result = run("select", codes, "--n-features", 2, "--plot", tmp_path / "result.png")
    assert result.exit_code == 2
    assert "pip install 'hofs-dask[plot]'" in " ".join(result.stderr.split())


def test_select__include_and_exclude_by_name_and_position(codes: Path, tmp_path: Path) -> None:
    options = ["--include", "x5", "--include", "1", "--exclude", "x1"]
    output = tmp_path / "result.zarr"
    result = run("select", codes, "--n-features", 4, *options, "--output", output)
    assert result.exit_code == 0, result.output
    assert hd.load(output) == hd.select(codes, None, 4, include=["x5", 1], exclude=["x1"])


def test_select__features_named_by_numbers_are_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    bands = xr.DataArray(
        rng.normal(size=(500, 3)) + y[:, None],
        dims=("sample", "feature"),
        coords={"feature": [400.0, 412.5, 425.0], "y": ("sample", y)},
    )
    bands.to_dataset(name="bands").to_zarr(tmp_path / "bands.zarr", consolidated=False)
    options = ["--include", "412.5", "--exclude", "425.0"]
    result = run("select", tmp_path / "bands.zarr", "--target", "y", "--n-features", 2, *options)
    assert result.exit_code == 0, result.output
    assert re.findall(r"^ +\d  (\S+)", result.stdout, re.MULTILINE) == ["412.5", "400.0"]


def test_select__progress_goes_to_stderr(codes: Path) -> None:
    result = run("select", codes, "--n-features", 3, "--progress")
    assert [line.split()[1] for line in result.stderr.splitlines()] == ["1/3", "2/3", "3/3"]
    assert "eta" not in result.stdout


def test_select__csv_and_json_have_the_ranks(codes: Path, tmp_path: Path) -> None:
    expected = hd.select(codes, None, n_features=9)
    for ending in ("csv", "json"):
        for _ in range(2):  # an earlier result is replaced
            result = run("select", codes, "--n-features", 9, "--output", tmp_path / f"r.{ending}")
            assert result.exit_code == 0, result.output
    header, *lines = (tmp_path / "r.csv").read_text().splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["subsets"] == expected.subsets
    assert written["options"]["criterion"] == "joint"
    data = expected.to_dataset()
    for rank, (row, entry) in enumerate(zip(rows, written["ranks"], strict=True)):
        assert row["feature"] == entry["feature"] == expected.features[rank]
        assert float(row["gain"]) == entry["gain"] == data["gain"].values[rank]
        assert float(row["redundancy"]) == entry["redundancy"] == data["redundancy"].values[rank]
        assert int(row["subset"]) == entry["subset"] == data["subset"].values[rank]
        second = data["runner_up"].values[rank]
        assert entry["runner_up"] == (None if second < 0 else f"x{second + 1}")
        assert row["runner_up"] == (entry["runner_up"] or "")
        assert entry["relevance"] == data["relevance"].sel(feature=entry["feature"]).item()
    # The last has no runner-up.
    assert rows[-1]["margin"] == ""
    assert written["ranks"][-1]["margin"] is written["ranks"][-1]["runner_up"] is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("result.txt", "should end with one of .zarr .nc .json .csv"),
        ("none/result.zarr", "does not exist: create it"),
        ("mine.csv", "exists and is not a selection"),
        ("compared.zarr", "exists and is not a saved selection"),
        ("compared.csv", "exists and is not a selection"),
        ("s3://bucket/ranks.csv", "a table can only be written to a local path"),
        ("mine.zarr", "exists and is not a saved selection"),
    ],
)
def test_select__output_is_checked_before_the_run(
    codes: Path, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "notes").write_text("mine")
    (tmp_path / "compared.csv").write_text("method,rank,feature,index,subset\n")
    if name == "compared.zarr":
        hd.compare(codes, None, 1, methods=["mim"]).save(tmp_path / name)
    output = name if "://" in name else tmp_path / name
    options = ["--n-features", 2, "--checkpoint", tmp_path / "run", "--output", output]
    result = run("select", codes, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "hosf"], "unknown method 'hosf'; valid: 'hofs'"),
        (["--option", "treshold=1"], "unknown option of hofs 'treshold'; valid: 'threshold'"),
        (["--option", "threshold=high"], "threshold is 'high'; give a number"),
        (["--option", "criterion=som"], "unknown criterion of HOFS 'som'; valid: 'sum'"),
        (["--option", "criterion"], "give KEY=VALUE"),
        (["--option", "source=gaussian", "--option", "source=logistic"], "source is given twice"),
        (["--method", "mifs", "--option", "bta=1"], "unknown option of mifs 'bta'; valid: 'beta'"),
        (["--method", "jmi", "--option", "beta=1"], "jmi has no options; leave out 'beta=1'"),
        (["--method", "mifs", "--option", "beta=-1"], "beta of MIFS is -1.0; give a number >= 0"),
        (["--workers", "0"], "0 is not in the range x>=1"),
    ],
)
def test_select__wrong_option_is_a_usage_error(
    codes: Path, arguments: list[str], message: str
) -> None:
    result = run("select", codes, "--n-features", 2, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_select__no_scheduler_is_a_clear_error(
    codes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hofs_dask.cli.clusters.PATIENCE", 1)
    result = run("select", codes, "--n-features", 3, "--scheduler", "tcp://127.0.0.1:9")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no Dask scheduler answered at 'tcp://127.0.0.1:9'")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("address", "encrypted", "words"),
    [
        (
            "tls://127.0.0.1:9",
            False,
            "needs certificates, .* type export DASK_CONFIG=DIR/dask.yaml",
        ),
        ("tcp://127.0.0.1:9", True, "is not encrypted; give the address tls://HOST:PORT"),
    ],
)
def test_select__address_that_does_not_fit_the_certificates_is_a_clear_error(
    codes: Path, address: str, encrypted: bool, words: str
) -> None:
    with dask.config.set({"distributed.comm.require-encryption": encrypted}):
        result = run("select", codes, "--n-features", 2, "--scheduler", address)
    assert result.exit_code == 1
    assert re.search(words, result.stderr)


def test_select__checkpoint_of_another_run_is_refused(codes: Path, tmp_path: Path) -> None:
    command = ["select", codes, "--n-features", 2, "--checkpoint", tmp_path / "run"]
    assert run(*command).exit_code == 0
    result = run(*command, "--option", "criterion=sum")
    assert result.exit_code == 1
    assert "criterion: 'joint' in the checkpoint, 'sum' now" in result.stderr


def test_select__interrupt_without_checkpoint_recommends_one(
    codes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, callback: Callable[[object], None], **_: object) -> None:
        callback(hd.RoundStarted(rank=3, n_features=5, n_candidates=7))
        raise KeyboardInterrupt

    monkeypatch.setattr("hofs_dask.api.select", interrupted)
    result = run("select", codes, "--n-features", 5)
    assert result.exit_code == 130
    assert result.stderr == (
        "Interrupted: 2 of 5 rounds were done and are lost; with --checkpoint DIR the same "
        "command resumes where it was interrupted.\n"
    )
