"""Temporary stores: their permissions and their removal."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import dask
import pytest

from hofs_dask.io.temporary import LOCK, PREFIX, remove_left, temporary_store

#: A program that creates a store with a file in it, prints its path and waits.
WAITING = """
import sys, time
from pathlib import Path
from hofs_dask.io.temporary import temporary_store
with temporary_store() as path:
    Path(path).mkdir()
    Path(path, "chunk").write_bytes(bytes(1000))
    print(path, flush=True)
    time.sleep(100)
"""


@pytest.fixture(autouse=True)
def parent(tmp_path):
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        yield tmp_path


def begin(parent: Path, program: str = WAITING) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "DASK_TEMPORARY_DIRECTORY": str(parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)]
)
def test_temporary_store__is_removed_on_sigterm_and_sigint(parent, number, code):
    process, path = begin(parent)
    assert path.is_dir()
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert number == signal.SIGINT or not errors
    assert not any(parent.iterdir())


def test_temporary_store__of_a_killed_process_is_removed_by_the_next_run(parent):
    process, path = begin(parent)
    process.kill()
    process.communicate(timeout=30)
    assert path.is_dir()
    with temporary_store() as own:
        assert [Path(own).parent] == list(parent.iterdir())


def test_temporary_store__of_a_running_process_is_kept(parent):
    process, path = begin(parent)
    try:
        with temporary_store():
            pass
        assert path.is_dir()
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_temporary_store__is_private_to_its_user(parent):
    with temporary_store() as path:
        folder = Path(path).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.name.startswith(PREFIX)


def left(parent: Path, name: str, owner: str) -> Path:
    folder = parent / name
    folder.mkdir(mode=0o700)
    (folder / LOCK).write_text(owner)
    return folder


def test_remove_left__removes_only_ended_runs_of_this_user_and_machine(parent):
    here = f"process 1 on {socket.gethostname()}\n"
    ended = left(parent, f"{PREFIX}ended", here)
    other = left(parent, f"{PREFIX}elsewhere", "process 1 on elsewhere\n")
    open_to_all = left(parent, f"{PREFIX}open", here)
    open_to_all.chmod(0o777)
    named = left(parent, "data", here)
    unlocked = parent / f"{PREFIX}unlocked"
    unlocked.mkdir(mode=0o700)
    link = parent / f"{PREFIX}link"
    link.symlink_to(named)
    remove_left(parent)
    assert not ended.exists()
    assert all(folder.exists() for folder in (other, open_to_all, named / LOCK, unlocked, link))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_remove_left__keeps_folders_of_other_users(parent):
    folder = left(parent, f"{PREFIX}other", f"process 1 on {socket.gethostname()}\n")
    os.chown(folder, 12345, 12345)
    remove_left(parent)
    assert folder.exists()


def test_temporary_store__restores_signal_handlers(parent):
    def own(*_: object) -> None: ...

    for handler in (signal.SIG_DFL, own):
        before = signal.signal(signal.SIGTERM, handler)
        try:
            with temporary_store():
                assert (signal.getsignal(signal.SIGTERM) is own) == (handler is own)
            assert signal.getsignal(signal.SIGTERM) == handler
        finally:
            signal.signal(signal.SIGTERM, before)


def test_temporary_store__works_in_any_thread(parent):
    found = []

    def use() -> None:
        with temporary_store() as path:
            found.append(Path(path).parent.is_dir())

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [True]
    assert not any(parent.iterdir())


def test_select__sigterm_leaves_no_store_and_no_traceback(parent):
    program = """
import os, signal, time
import dask.array as da, numpy as np
import hofs_dask as hd
from distributed import Client

def terminate(block):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(2)
    return block

if __name__ == "__main__":
    with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0"):
        x = da.zeros((100, 4), chunks=(100, 4)).map_blocks(terminate, meta=np.zeros((0, 0)))
        hd.select(x, np.arange(100) % 2, 1, method="mim")
"""
    process, _ = begin(parent, program)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert not list(parent.glob("hofs_dask-*"))
    assert "Traceback" not in errors, errors
