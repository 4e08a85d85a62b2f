"""``hofs-dask interactions``."""

import csv
from pathlib import Path

import pytest

import hofs_dask as hd
from tests.cli.shell import run


@pytest.mark.parametrize("order", [2, 3])
def test_interactions__writes_what_the_function_returns(
    codes: Path, tmp_path: Path, order: int
) -> None:
    expected = hd.interactions(codes, None, order=order, top=4)
    output, picture, table = (tmp_path / f"found.{end}" for end in ("zarr", "png", "csv"))
    options = ["--order", order, "--top", 4]
    for _ in range(2):  # an earlier result is replaced
        result = run("interactions", codes, *options, "--output", output, "--plot", picture)
        assert result.exit_code == 0, result.output
    assert hd.load(output) == expected
    assert result.stdout == f"{expected!r}\n" == run("info", output).stdout
    assert picture.stat().st_size > 1000
    assert run("interactions", codes, *options, "--output", table).exit_code == 0
    with table.open() as file:
        header, *rows = csv.reader(file)
    assert header == list(expected.to_dataframe().columns)
    assert [tuple(row[1 : 1 + order]) for row in rows] == expected.tuples


def test_interactions__other_files_are_not_replaced(codes: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n")
    result = run("interactions", codes, "--output", tmp_path / "mine.csv")
    assert result.exit_code == 2
    assert "is not a table of interactions" in " ".join(result.stderr.split())


def test_interactions__excludes_features(codes: Path) -> None:
    name = hd.interactions(codes, None, top=1).tuples[0][0]
    result = run("interactions", codes, "--exclude", name)
    assert result.exit_code == 0, result.output
    table = result.stdout.splitlines()[4:]
    assert len(table) > 10
    assert not any(name in line.split()[1:3] for line in table)


def test_interactions__wrong_order(codes: Path) -> None:
    assert run("interactions", codes, "--order", 4).exit_code == 2


def test_interactions__explains_and_resumes(codes: Path, tmp_path: Path) -> None:
    plan = run("interactions", codes, "--order", 3, "--explain")
    assert plan.exit_code == 0, plan.output
    assert plan.stdout == f"{hd.estimate(codes, order=3)}\n"
    assert "  comparing " in plan.stdout
    kept = tmp_path / "kept"
    first, second = (run("interactions", codes, "--checkpoint", kept) for _ in range(2))
    assert first.exit_code == second.exit_code == 0, first.output
    assert first.stdout == second.stdout == f"{hd.interactions(codes, None)!r}\n"
    about = run("info", kept).stdout
    assert "panels              1" in about
    assert '"panels": 1' in run("info", kept, "--json").stdout
