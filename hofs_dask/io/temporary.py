"""Temporary folders of a run, which are removed when it ends, on SIGTERM, or by a later run."""

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
import weakref
from collections.abc import Iterator
from pathlib import Path

import dask.config

from hofs_dask.io.files import locked, read_file

#: Prefixes of the folders that a later run may remove, and of folders that have no lock yet.
PREFIX, UNLOCKED = "hofs_dask-run-", "hofs_dask-new-"
#: The lock file that a run holds while it uses its folder.
LOCK = "lock"
#: Name of the store in the folder.
STORE = "codes.zarr"


@contextlib.contextmanager
def temporary_store() -> Iterator[str]:
    """Provide a path for a store in Dask's temporary directory, removed at the end of the block.

    Unless the program handles SIGTERM, the signal raises ``SystemExit(143)``, which ends the block.
    The folder of a killed process is removed by the next run of the same user on this machine.

    Examples
    --------
    >>> import os
    >>> with temporary_store() as path:
    ...     os.path.exists(path), os.path.exists(os.path.dirname(path))
    (False, True)
    >>> os.path.exists(os.path.dirname(path))
    False
    """
    with _terminable(), temporary_folder() as folder:
        yield str(folder / STORE)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Provide a folder in Dask's temporary directory, removed at the end of the block.

    Examples
    --------
    >>> with temporary_folder() as folder:
    ...     folder.is_dir()
    True
    >>> folder.is_dir()
    False
    """
    parent = Path(dask.config.get("temporary-directory", None) or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    remove_left(parent)
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=UNLOCKED, dir=parent))
        stack.callback(lambda: _remove(folder))
        # without file locks, the folder of a killed process is not removed by later runs
        with contextlib.suppress(OSError, ImportError):
            stack.enter_context(locked(folder / LOCK))
            folder = folder.rename(parent / folder.name.replace(UNLOCKED, PREFIX, 1))
        yield folder


class HeldFolder:
    """A temporary folder that is removed when this object is deleted or the process ends.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    lock : threading.Lock
        Held by the thread that uses the folder.

    Examples
    --------
    >>> folder = HeldFolder()
    >>> path = folder.path
    >>> path.is_dir()
    True
    >>> del folder
    >>> path.is_dir()
    False
    """

    def __init__(self) -> None:
        stack = contextlib.ExitStack()
        self.path = stack.enter_context(temporary_folder())
        self.lock = threading.Lock()
        weakref.finalize(self, _close, stack, os.getpid())


def _close(stack: contextlib.ExitStack, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        stack.close()


def remove_left(parent: Path) -> None:
    """Remove temporary folders that killed processes of this user left on this machine.

    Parameters
    ----------
    parent
        The folder that contains the temporary folders.
    """
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ImportError):
            found = folder.lstat()
            is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if not is_own or found.st_mode & 0o077:
                continue
            # on a shared disk, a lock held on another machine may appear to be free
            if not read_file(folder / LOCK, 400).endswith(f" on {socket.gethostname()}\n".encode()):
                continue
            with locked(folder / LOCK):
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder. Its lock is removed last, because later runs ignore folders without one."""
    shutil.rmtree(folder / STORE, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM raise ``SystemExit(143)`` in the block, unless it has another handler."""

    def end(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - signal handler
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
