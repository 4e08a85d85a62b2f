"""What other users of the machine can read or reach: nothing that was not asked for."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from click.testing import CliRunner

import hofs_dask as hd
from hofs_dask.cli import main
from hofs_dask.cli.clusters import cluster


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A umask that hides nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def codes(tmp_path: Path) -> hd.CodeStore:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    return hd.encode(rng.integers(0, 4, (300, 5)) + y[:, None], y, tmp_path / "codes.zarr")


def modes(path: Path) -> set[int]:
    """Return what others may do with a file or a folder and its files.

    Folders within a folder that others cannot enter are not counted, nor are locks, which only name
    a process.
    """
    found = [path, *(each for each in path.rglob("*") if each.is_file() and each.name != "lock")]
    return {stat.S_IMODE(each.lstat().st_mode) & 0o077 for each in found}


def test_checkpoint__is_private(codes, tmp_path, open_umask):
    hd.select(codes, None, 2, checkpoint=tmp_path / "run")
    assert modes(tmp_path / "run") == {0}
    hd.compare(codes, None, 1, methods=["mim", "jmi"], checkpoint=tmp_path / "both")
    assert modes(tmp_path / "both" / "mim") == {0}


@pytest.mark.parametrize("name", ["result.zarr", "result.nc"])
def test_result__is_private(codes, tmp_path, open_umask, name):
    result = hd.select(codes, None, 2)
    for _ in range(2):  # created, then replaced
        result.save(tmp_path / name)
        assert modes(tmp_path / name) == {0}


def test_table__is_private(codes, tmp_path, open_umask):
    output = tmp_path / "ranks.csv"
    arguments = ["select", codes.path, "--n-features", "2", "--output", str(output)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert modes(output) == {0}


def listening() -> set[str]:
    """Return the addresses on which this process and its children listen."""
    own = psutil.Process()
    return {
        each.laddr.ip
        for process in (own, *own.children(recursive=True))
        for each in process.net_connections(kind="inet")
        if each.status == psutil.CONN_LISTEN
    }


@pytest.mark.processes
def test_workers__listen_on_loopback_only():
    before = listening()
    with cluster(None, 2, None):
        assert listening() - before <= {"127.0.0.1"}
        assert "127.0.0.1" in listening()
