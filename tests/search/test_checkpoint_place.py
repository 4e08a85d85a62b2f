"""The directory of a checkpoint: other files, links, locks and full disks."""

import contextlib
import errno
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.search.checkpoint import FILE, LOCK, open_checkpoint, open_part, read_checkpoint
from tests.search.checkpoints import names_in, table

ROOT = Path(__file__).parents[2]
N_CHOSEN = 7
#: Name of the incomplete file of a killed run.
PARTIAL = f"{FILE}.{'0123456789abcdef' * 2}.partial"


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    x, y = table()
    return hd.encode(x, y, tmp_path_factory.mktemp("table") / "codes.zarr", nominal=["x4"])


@pytest.fixture(scope="module")
def whole(codes):
    """The result of a run without interruption."""
    return hd.select(codes, None, N_CHOSEN)


@pytest.fixture
def used(codes, tmp_path):
    """A checkpoint after two rounds."""
    hd.select(codes, None, 2, checkpoint=tmp_path / "run")
    return tmp_path / "run"


def test_directory_with_other_files__is_refused_and_not_changed(codes, tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(
        ValueError, match="holds files that are not part of a checkpoint .'thesis.txt'"
    ):
        hd.select(codes, None, 2, checkpoint=tmp_path)
    assert names_in(tmp_path) == ["thesis.txt"]
    with pytest.raises(ValueError, match="thesis.txt', which is a file; give a directory"):
        hd.select(codes, None, 2, checkpoint=tmp_path / "thesis.txt")
    with pytest.raises(ValueError, match="'https://host/run', and a web address can only be read"):
        hd.select(codes, None, 2, checkpoint="https://host/run")


def test_directory__is_made_with_its_parents_and_may_get_other_files_later(codes, tmp_path):
    run = tmp_path / "a" / "b"
    hd.select(codes, None, 1, checkpoint=str(run))
    assert names_in(run) == [FILE, LOCK]
    (run / "notes.txt").write_text("mine")
    assert len(hd.select(codes, None, 2, checkpoint=run)) == 2
    assert (run / "notes.txt").read_text() == "mine"


def test_read_checkpoint__error_names_the_missing_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path))):
        read_checkpoint(tmp_path)


def test_lock__error_names_the_holder_and_a_killed_holder_frees_it(codes, used):
    script = (
        "import sys, time\n"
        "from hofs_dask.search.checkpoint import open_checkpoint\n"
        "with open_checkpoint(sys.argv[1]):\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, used], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with holder:
        try:
            assert holder.stdout.readline() == "locked\n"
            message = f"is in use by process {holder.pid} on {socket.gethostname()}; wait until"
            with pytest.raises(hd.CheckpointError, match=re.escape(message)):
                hd.select(codes, None, 3, checkpoint=used)
        finally:
            holder.kill()
    assert len(hd.select(codes, None, 3, checkpoint=used)) == 3


def test_file_that_is_not_a_checkpoint__is_refused_and_not_changed(codes, tmp_path):
    np.savez(tmp_path / FILE, a=np.arange(3))
    content = (tmp_path / FILE).read_bytes()
    with pytest.raises(hd.CheckpointError, match="cannot be read"):
        hd.select(codes, None, 2, checkpoint=tmp_path)
    assert (tmp_path / FILE).read_bytes() == content
    assert names_in(tmp_path) == [FILE]


@pytest.mark.parametrize(
    "names", [["thesis.txt"], [LOCK], [FILE + ".part"], [LOCK, "other"], [FILE + ".x.partial"]]
)
def test_directory__with_an_unknown_name_or_lock_is_refused_and_not_changed(names, tmp_path):
    for name in names:
        (tmp_path / name).write_text("a year of work")
    with pytest.raises(ValueError, match="holds files that are not part of a checkpoint"):
        open_checkpoint(tmp_path).__enter__()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        names, "a year of work"
    )


@pytest.mark.parametrize("path", ["x.zarr", "x.zarr/run", "."])
def test_directory__inside_or_around_the_source_is_refused(path, tmp_path):
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(ValueError, match="checkpoint is .* the data at .*; give a separate path"):
        open_checkpoint(tmp_path / path, sources=[str(tmp_path / "x.zarr")]).__enter__()
    with pytest.raises(ValueError, match="checkpoint is .* the data at .*; give a separate path"):
        open_part(tmp_path / path, "jmi", sources=[str(tmp_path / "x.zarr")])
    assert names_in(tmp_path / "x.zarr") == []
    with open_checkpoint(tmp_path / "run", sources=[str(tmp_path / "x.zarr")]):
        assert names_in(tmp_path) == ["run", "x.zarr"]


def test_comparison__in_a_directory_with_other_files_is_refused(used, tmp_path):
    with pytest.raises(ValueError, match="which holds the checkpoint of a single selection"):
        open_part(used, "jmi")
    folder = tmp_path / "folder"
    (folder / "jmi").mkdir(parents=True)
    (folder / "jmi" / "thesis.txt").write_text("all of it")
    for name in ("jmi", "mim"):
        with pytest.raises(ValueError, match="holds files that are not part of a comparison"):
            open_part(folder, name)
    with open_part(tmp_path / "new", "jmi"), open_part(tmp_path / "new", "jmi 0"):
        assert names_in(tmp_path / "new") == ["jmi", "jmi 0"]
    (tmp_path / "new" / "notes.txt").write_text("mine")
    with open_part(tmp_path / "new", "mim"):
        assert names_in(tmp_path / "new") == ["jmi", "jmi 0", "mim", "notes.txt"]


@pytest.mark.parametrize("name", [LOCK, FILE + ".part", PARTIAL])
@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_planted_link__does_not_overwrite_its_target(codes, used, tmp_path, name, kind):
    target = tmp_path / "thesis.txt"
    target.write_text("all of it")
    (used / name).unlink(missing_ok=True)
    (used / name).symlink_to(target) if kind == "symbolic" else (used / name).hardlink_to(target)
    # a foreign lock is refused; the other names are not used
    with contextlib.suppress(ValueError, hd.CheckpointError):
        hd.select(codes, None, 3, checkpoint=used)
    assert target.read_text() == "all of it"
    assert (len(read_checkpoint(used)[1].picks) == 2) == (name == LOCK)


def test_incomplete_files__of_a_killed_run_are_removed_and_no_others(codes, used):
    kept = [FILE + ".bak", FILE + ".x.partial", "notes.partial", "x" + PARTIAL]
    for name in (PARTIAL, *kept):
        (used / name).write_text("")
    (used / PARTIAL.replace("0", "f")).mkdir()
    hd.select(codes, None, 2, checkpoint=used)
    assert names_in(used) == sorted([FILE, LOCK, PARTIAL.replace("0", "f"), *kept])


def test_incomplete_files__of_a_running_search_are_not_removed(used):
    with open_checkpoint(used):
        (used / PARTIAL).write_text("half")
        with pytest.raises(hd.CheckpointError, match=f"in use by process {os.getpid()} on "):
            open_checkpoint(used).__enter__()
        assert (used / PARTIAL).read_text() == "half"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 128 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk]
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_full_disk__keeps_the_previous_round(codes, whole, small_disk):
    def fill(event):
        if isinstance(event, hd.RoundEnded) and event.rank == 3:
            with contextlib.suppress(OSError), (small_disk / "fill").open("wb", 0) as stream:
                while True:
                    stream.write(bytes(4096))

    run = small_disk / "run"
    with pytest.raises(hd.CheckpointError) as error:
        hd.select(codes, None, N_CHOSEN, checkpoint=run, callback=fill)
    assert isinstance(error.value.__cause__, OSError)
    assert error.value.__cause__.errno == errno.ENOSPC
    assert f"{str(run / FILE)!r} cannot be written (No space left on device)" in str(error.value)
    assert "the checkpoint of the previous round is intact" in str(error.value)
    assert names_in(run) == [FILE, LOCK]
    assert len(read_checkpoint(run)[1].picks) == 3
    with pytest.raises(hd.CheckpointError, match="No space"):  # the disk is still full
        hd.select(codes, None, N_CHOSEN, checkpoint=run)
    (small_disk / "fill").unlink()
    assert hd.select(codes, None, N_CHOSEN, checkpoint=run) == whole


def test_full_disk__error_says_if_no_round_is_saved(codes, small_disk):
    def fill(event):
        if isinstance(event, hd.RoundStarted):
            with contextlib.suppress(OSError), (small_disk / "fill").open("wb", 0) as stream:
                while True:
                    stream.write(bytes(4096))

    with pytest.raises(hd.CheckpointError) as error:
        hd.select(codes, None, 2, checkpoint=small_disk / "run", callback=fill)
    assert str(small_disk / "run" / FILE) in str(error.value)
    assert "no round has been saved yet" in str(error.value)
    assert "intact" not in str(error.value)


def test_file_too_large__keeps_the_previous_round(codes, whole, tmp_path):
    """The same without a mount: files are limited to 4 KiB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(event):
        if isinstance(event, hd.RoundEnded) and event.rank == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))

    try:
        with pytest.raises(hd.CheckpointError, match="File too large"):
            hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path, callback=limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names_in(tmp_path) == [FILE, LOCK]
    assert len(read_checkpoint(tmp_path)[1].picks) == 3
    assert hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path) == whole


def test_directory_that_cannot_be_made__error_names_it(codes, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hd.CheckpointError, match=re.escape(str(tmp_path / "file" / "run"))):
        hd.select(codes, None, 1, checkpoint=tmp_path / "file" / "run")
