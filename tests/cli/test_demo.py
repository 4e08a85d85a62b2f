"""``hofs-dask demo``."""

from pathlib import Path

import hofs_dask as hd
from tests.cli.shell import run


def test_demo__finds_the_three_subsets(tmp_path: Path) -> None:
    result = run("demo", "--samples", 3000, "--output", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    assert "rank  feature  subset" in result.stdout
    found = hd.load(tmp_path / "demo" / "result.zarr")
    assert {"x1", "x4", "x5"} in map(set, found.subsets)
    # `demo` ran on processes, this selection runs on threads.
    assert found == hd.select(tmp_path / "demo" / "tree.zarr", "y", 9)
    assert (tmp_path / "demo" / "result.png").stat().st_size > 10_000
