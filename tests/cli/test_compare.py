"""``hofs-dask compare``."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hofs_dask as hd
from tests.cli.shell import run

METHODS = ["--method", "jmi,mifs:beta=0.5", "--method", "vmi"]
OBJECTS = [hd.JMI(), hd.MIFS(beta=0.5), hd.VMI()]
LABELS = ["jmi", "mifs(beta=0.5)", "vmi"]


def test_compare__on_processes_equals_threads(codes: Path) -> None:
    options = ["--n-features", 3, *METHODS, "--resamples", 2]
    result = run("compare", codes, *options, "--workers", 2)
    assert result.exit_code == 0, result.output
    assert result.stdout == run("compare", codes, *options).stdout


def test_compare__explain_prints_the_plan_and_runs_nothing(codes: Path, tmp_path: Path) -> None:
    kept = tmp_path / "run"
    options = ["--n-features", 3, *METHODS, "--resamples", 2, "--checkpoint", kept, "--explain"]
    result = run("compare", codes, *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("jmi, mifs(beta=0.5), vmi: 3 of ")
    assert "also in 2 resamples" in result.stdout
    assert not kept.exists()


@pytest.mark.parametrize("ending", ["zarr", "nc"])
def test_compare__prints_and_saves_what_the_function_returns(
    codes: Path, tmp_path: Path, ending: str
) -> None:
    if ending == "nc":
        pytest.importorskip("h5py")
    output = tmp_path / f"result.{ending}"
    options = ["--resamples", 2, "--include", "x5", "--exclude", "1", "--min-gain", "0.001"]
    expected = hd.compare(
        codes,
        None,
        4,
        methods=OBJECTS,
        n_resamples=2,
        include=["x5"],
        exclude=["x2"],
        min_gain=0.001,
    )
    for _ in range(2):  # an earlier result is replaced
        result = run("compare", codes, "--n-features", 4, *METHODS, *options, "--output", output)
        assert result.exit_code == 0, result.output
        assert result.stdout == f"{expected!r}\n"
        assert result.stderr == ""
        assert hd.load(output) == expected
    assert run("info", output).stdout == result.stdout


def test_compare__default_methods_are_those_of_the_paper(
    codes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []

    def noted(*_: object, methods: object, **__: object) -> str:
        given.extend(methods)  # type: ignore[call-overload]
        return "a result"

    monkeypatch.setattr("hofs_dask.api.compare", noted)
    assert run("compare", codes, "--n-features", 2).exit_code == 0
    assert [method.label for method in given] == list(hd.METHODS)


def test_compare__accepts_a_source_with_a_target(source: Path) -> None:
    options = ["--n-features", 2, "--method", "mim"]
    expected = hd.compare(source, "y", 2, methods=["mim"])
    assert run("compare", source, "--target", "y", *options).stdout == f"{expected!r}\n"
    result = run("compare", source, *options)
    assert result.exit_code == 2
    assert "add --target NAME" in result.stderr


def test_compare__progress_prints_one_line_per_scan(codes: Path) -> None:
    result = run("compare", codes, "--n-features", 2, "--method", "mim,jmi", "--progress")
    assert [line.split()[:2] for line in result.stderr.splitlines()] == [
        ["scan", "1"],
        ["scan", "2"],
    ]
    assert "marginal-counts" not in result.stdout


def test_compare__writes_a_figure(codes: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "result.png"
    result = run("compare", codes, "--n-features", 2, "--method", "mim,jmi", "--plot", picture)
    assert result.exit_code == 0, result.output
    assert picture.stat().st_size > 10_000


def test_compare__csv_and_json_have_the_ranks_of_all_methods(codes: Path, tmp_path: Path) -> None:
    options = ["--n-features", 3, *METHODS, "--resamples", 2]
    for ending in ("csv", "json"):
        for _ in range(2):  # an earlier result is replaced
            result = run("compare", codes, *options, "--output", tmp_path / f"r.{ending}")
            assert result.exit_code == 0, result.output
    expected = hd.compare(codes, None, 3, methods=OBJECTS, n_resamples=2)
    data = expected.to_dataset()
    with (tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    written = json.loads((tmp_path / "r.json").read_text())
    assert list(written["methods"]) == LABELS
    assert [row["method"] for row in rows] == np.repeat(LABELS, 3).tolist()
    for place, label in enumerate(LABELS):
        method, chosen = written["methods"][label], expected[label]
        assert method["subsets"] == chosen.subsets
        assert [rank["feature"] for rank in method["ranks"]] == chosen.features
        assert [row["feature"] for row in rows if row["method"] == label] == chosen.features
        stability = [rank["stability"] for rank in method["ranks"]]
        assert stability == data["stability"].values[place].tolist()
        for rank in method["ranks"]:
            assert rank["frequency"] == data["frequency"].values[place, rank["index"]]
        overlap = [written["overlap"][label][other] for other in LABELS]
        assert overlap == data["overlap"].values[-1, place].tolist()
    assert written["methods"]["mifs(beta=0.5)"]["options"] == {"beta": 0.5}
    assert written["n_resamples"] == 2


def test_compare__table_without_resamples_has_no_stability(codes: Path, tmp_path: Path) -> None:
    options = ["--method", "mim", "--output", tmp_path / "r.csv"]
    assert run("compare", codes, "--n-features", 2, *options).exit_code == 0
    header = (tmp_path / "r.csv").read_text().splitlines()[0]
    assert header.startswith("method,rank,feature,")
    assert header.endswith(",relevance")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "jim"], "unknown method 'jim'; valid: 'jmim', 'njmim', 'mim'"),
        (["--method", "jmi,"], "unknown method ''"),
        (["--method", "mifs:bta=1"], "unknown option of mifs 'bta'; valid: 'beta'"),
        (["--method", "jmi", "--method", "mim,jmi"], "jmi is given twice; give it once"),
        (["--resamples", "-1"], "-1 is not in the range x>=0"),
        (["--resamples", "1"], "1 resample has no stability; give 2 or more, or 0"),
        (["--output", "result.txt"], "should end with one of .zarr .nc .json .csv"),
        (["--plot", "result.txt"], "should end with one of .png .svg .pdf"),
    ],
)
def test_compare__wrong_option_is_a_usage_error(
    codes: Path, arguments: list[str], message: str
) -> None:
    result = run("compare", codes, "--n-features", 2, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_compare__saved_selection_is_not_replaced(codes: Path, tmp_path: Path) -> None:
    output = ["--output", tmp_path / "r.json"]
    assert run("select", codes, "--n-features", 1, "--method", "mim", *output).exit_code == 0
    result = run("compare", codes, "--n-features", 2, *output)
    assert result.exit_code == 2
    assert "exists and is not a comparison" in " ".join(result.stderr.split())


def cut_after(n_rounds: int, compare: Callable[..., hd.Comparison]) -> Callable[..., object]:
    """A `compare` that is interrupted when this many rounds have ended."""

    def interrupted(*arguments: object, callback: Callable[[object], None], **options: object):
        left = n_rounds

        def listen(event: object) -> None:
            nonlocal left
            callback(event)
            left -= isinstance(event, hd.RoundEnded)
            if not left:
                raise KeyboardInterrupt

        return compare(*arguments, callback=listen, **options)

    return interrupted


def test_compare__resumes_where_it_was_interrupted(
    codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--n-features", 3, *METHODS, "--resamples", 2, "--output", tmp_path / "result.zarr"]
    kept = ["--checkpoint", tmp_path / "run"]
    with monkeypatch.context() as patch:
        patch.setattr("hofs_dask.api.compare", cut_after(4, hd.compare))
        result = run("compare", codes, *options, *kept)
        lost = run("compare", codes, *options)
    assert result.exit_code == lost.exit_code == 130
    told = result.stderr.split()
    assert told[0] == "Interrupted:"
    assert 4 <= int(told[1]) < 27
    assert " ".join(told[2:]) == (
        f"of 27 rounds are saved in {tmp_path / 'run'}; run the same command again to resume."
    )
    assert lost.stderr == (
        "Interrupted: 4 of 9 rounds were done and are lost; with --checkpoint DIR the same command "
        "resumes where it was interrupted.\n"
    )
    assert not (tmp_path / "result.zarr").exists()
    assert run("compare", codes, *options, *kept).exit_code == 0
    expected = hd.compare(codes, None, 3, methods=OBJECTS, n_resamples=2)
    found = hd.load(tmp_path / "result.zarr")
    assert isinstance(found, hd.Comparison)
    assert found.selections == expected.selections


def test_compare__checkpoint_of_a_selection_is_refused(codes: Path, tmp_path: Path) -> None:
    kept = ["--checkpoint", tmp_path / "run"]
    assert run("select", codes, "--n-features", 1, "--method", "mim", *kept).exit_code == 0
    result = run("compare", codes, "--n-features", 1, "--method", "mim", *kept)
    assert result.exit_code == 1
    message = "which holds the checkpoint of a single selection; give another directory"
    assert message in result.stderr
