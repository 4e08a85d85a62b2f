"""``hofs-dask info``."""

import re
from pathlib import Path

import numpy as np
import xarray as xr

import hofs_dask as hd
from tests.cli.shell import run


def test_info__describes_every_kind_of_path(source: Path, codes: Path, tmp_path: Path) -> None:
    options = ["--output", tmp_path / "r.zarr", "--checkpoint", tmp_path / "run"]
    printed = run("select", codes, "--n-features", 2, *options).stdout
    assert run("info", tmp_path / "r.zarr").stdout == printed
    checkpoint = run("info", tmp_path / "run").stdout
    assert re.search(r"rounds +2\n", checkpoint)
    assert re.search(r"criterion +joint\n", checkpoint)
    subsets = hd.load(tmp_path / "r.zarr").to_dataset()["subset"].values.tolist()
    printed_subsets = re.findall(r"^ +\d +\d+ +(\d+) +\d\.\d{4}", checkpoint, re.MULTILINE)
    assert [int(number) for number in printed_subsets] == subsets
    store = run("info", codes).stdout
    assert "samples   2000" in store
    for how in ([], ["--json"]):
        other = run("info", source, *how)
        assert other.exit_code == 1
        message = "is not a code store, a saved selection, comparison, matrix or interactions, or a"
        assert message in " ".join(other.stderr.split())


def test_info__explains_why_a_result_cannot_be_read(codes: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.zarr"
    hd.select(codes, None, 1, method="mim").save(path)
    group = path / "zarr.json"
    group.write_text(group.read_text().replace('"format_version": 2', '"format_version": 1'))
    old = run("info", path)
    assert old.exit_code == 1
    assert "make it again with 'hofs-dask select'" in old.stderr
    hd.select(codes, None, 1, method="jmi").save(tmp_path / "other.zarr")
    (tmp_path / "other.zarr/score/c/0").write_bytes(bytes(8))
    assert "is damaged" in run("info", tmp_path / "other.zarr").stderr


def test_info__lists_all_targets_of_a_store(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3))
    for position, name in enumerate(("first", "second")):
        target = xr.DataArray(x[:, position] > 0, dims="sample", name=name)
        hd.encode(x, target, tmp_path / "codes.zarr")
    targets = [
        line
        for line in run("info", tmp_path / "codes.zarr").stdout.splitlines()
        if line.startswith("  target")
    ]
    assert [line.split()[1] for line in targets] == ["second,", "first,"]


def test_info__lists_rounds_of_each_method_of_a_comparison(codes: Path, tmp_path: Path) -> None:
    kept = ["--checkpoint", tmp_path / "run"]
    methods = ["--method", "jmi,mifs:beta=0.5", "--include", "x3"]
    for n_features, more in ((2, ["--resamples", 2]), (3, [])):
        result = run("compare", codes, "--n-features", n_features, *methods, *more, *kept)
        assert result.exit_code == 0, result.output
    # A search that was interrupted in its first round has only a lock.
    (tmp_path / "run" / "vmi").mkdir()
    (tmp_path / "run" / "vmi" / "lock").touch()
    text = run("info", tmp_path / "run").stdout
    assert text.startswith(f"Checkpoint of a comparison {tmp_path / 'run'}\n")
    # Options that all methods share are shown, the others are not.
    assert re.search(r"^  target +y$", text, re.MULTILINE)
    assert re.search(r"^  include +\['x3'\]$", text, re.MULTILINE)
    assert "  beta " not in text
    expected = hd.compare(codes, None, 3, methods=["jmi", hd.MIFS(beta=0.5)], include=["x3"])
    columns = {label: " ".join(map(str, expected[label].indices)) for label in expected}
    assert text.split("\n\n")[1].splitlines() == [
        "method          rounds  resamples        columns by rank",
        f"mifs(beta=0.5)       3  2 with 2 rounds  {columns['mifs(beta=0.5)']}",
        f"jmi                  3  2 with 2 rounds  {columns['jmi']}",
        "vmi                  0",
    ]


def test_info__comparison_of_one_method_shows_its_options(codes: Path, tmp_path: Path) -> None:
    options = ["--method", "mifs:beta=0.5", "--checkpoint", tmp_path / "run"]
    assert run("compare", codes, "--n-features", 1, *options).exit_code == 0
    text = run("info", tmp_path / "run").stdout
    assert re.search(r"^  beta +0.5$", text, re.MULTILINE)
    assert "resamples" not in text


def test_info__directory_with_other_files_is_not_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "jmi").mkdir()
    (tmp_path / "jmi" / "lock").touch()
    result = run("info", tmp_path)
    assert result.exit_code == 1
    assert "is not a code store" in result.stderr
