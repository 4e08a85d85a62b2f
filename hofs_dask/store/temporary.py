"""Stores for one run: removed at its end, when it is terminated, or by a later run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import tempfile
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import dask.config

from hofs_dask.io.files import locked, read_file

#: How the folders begin that a later run may remove, and those that have no lock yet.
PREFIX, UNLOCKED = "hofs_dask-run-", "hofs_dask-new-"
#: The file whose lock a run holds as long as it needs its folder.
LOCK = "lock"
#: The store that it is for.
STORE = "codes.zarr"


@contextlib.contextmanager
def temporary_store() -> Iterator[str]:
    """Return a path for a store in Dask's temporary directory, removed at the end of the block.

    SIGTERM ends the block too where it would end the process: it raises ``SystemExit(143)``. What
    a process leaves that is killed is removed by the next one of the same user on this machine.

    Examples
    --------
    >>> import os
    >>> with temporary_store() as path:
    ...     os.path.exists(path), os.path.exists(os.path.dirname(path))
    (False, True)
    >>> os.path.exists(os.path.dirname(path))
    False
    """
    parent = Path(dask.config.get("temporary-directory", None) or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    remove_left(parent)
    with _terminable(), contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=UNLOCKED, dir=parent))
        stack.callback(lambda: _remove(folder))
        # some systems and disks have no locks: what is left there stays until somebody removes it
        with contextlib.suppress(OSError, ImportError):
            stack.enter_context(locked(folder / LOCK))
            folder = folder.rename(parent / folder.name.replace(UNLOCKED, PREFIX, 1))
        yield str(folder / STORE)


def remove_left(parent: Path) -> None:
    """Remove the temporary folders of runs of this user on this machine that have ended.

    Parameters
    ----------
    parent
        The folder that they are in.
    """
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ImportError):
            found = folder.lstat()
            is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if not is_own or found.st_mode & 0o077:
                continue
            # on a shared disk the lock of a process elsewhere may look free
            if not read_file(folder / LOCK, 400).endswith(f" on {socket.gethostname()}\n".encode()):
                continue
            with locked(folder / LOCK):
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: what is left without one would stay for good."""
    shutil.rmtree(folder / STORE, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the block with ``SystemExit(143)`` where nobody else sees to it."""

    def end(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - as it is called
        raise SystemExit(128 + number)

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
