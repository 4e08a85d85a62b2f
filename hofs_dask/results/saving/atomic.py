"""Atomic replacement of files and folders: at any moment, the old or the new version exists.

The new version is written to a locked folder beside the final path. Then the new and the old
version are exchanged in one step. Systems without this operation need two renames. A process that
is killed between the two renames leaves both versions in the locked folder, where `interrupted`
finds the new one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hofs_dask.io.files import LockedError, locked, sync_folder, write_file

#: Maximum number of files that are listed; a result has fewer than a hundred.
MOST_ENTRIES = 10_000

Exchange = Callable[[Path, Path], bool]


def is_free(path: Path) -> bool:
    """Return whether a path is absent or an empty folder."""
    if not path.is_dir():
        return not os.path.lexists(path)
    with os.scandir(path) as entries:
        return next(entries, None) is None


def list_files(place: str) -> dict[str, int]:
    """Return the sizes of all files below a folder, by relative path.

    Raises
    ------
    OSError
        The folder contains a special file or a link, or too many files.
    """
    sizes: dict[str, int] = {}
    folders, seen = [""], 0
    while folders:
        folder = folders.pop()
        with os.scandir(Path(place, folder)) as entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                seen += 1
                if seen > MOST_ENTRIES or name.count("/") > 40:
                    raise OSError(errno.EFBIG, "more files than a result has", place)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{name}/")
                elif entry.is_file(follow_symlinks=False):
                    sizes[name] = entry.stat(follow_symlinks=False).st_size
                else:
                    raise OSError(errno.EINVAL, "not a regular file", entry.path)
    return sizes


def exchange(one: Path, other: Path) -> bool:
    """Exchange two files or folders in one step; return False if the system cannot do this.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, other = Path(folder, "one"), Path(folder, "other")
    ...     _ = one.write_text("1"), other.write_text("2")
    ...     not exchange(one, other) or one.read_text()
    '2'
    """
    paths = os.fsencode(one), os.fsencode(other)
    if os.name != "posix":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        here = ctypes.c_int(-100)  # AT_FDCWD
        failed = library.renameat2(here, paths[0], here, paths[1], ctypes.c_uint(2))
    elif sys.platform == "darwin" and hasattr(library, "renamex_np"):
        failed = library.renamex_np(*paths, ctypes.c_uint(2))  # RENAME_SWAP
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False  # an old kernel, or a file system such as NFS
    raise OSError(number, os.strerror(number), os.fspath(other))


def put(
    path: Path,
    content: bytes | Mapping[str, bytes],
    check: Callable[[Path], None],
    exchange: Exchange = exchange,
) -> None:
    """Write a file, or a folder of files, atomically and synced to disk, readable by the user only.

    Parameters
    ----------
    path
        The path, which is not a link.
    content
        The content of the file, or the contents of the files in the folder by name.
    check
        Function that raises an error if the content of a path must not be replaced.
    exchange
        Function that exchanges two paths in one step, or returns False.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in _beside(path):
        _finish(folder, path)
    check(path)
    with _workplace(path) as folder:
        new = folder / "new"
        if isinstance(content, bytes):
            write_file(new, [content], sync=True, private=True)
        else:
            _write_folder(new, content)
        sync_folder(os.fspath(folder))
        if is_free(path):
            _rename_to_free(new, path)
        else:
            _replace(folder, path, check, exchange)
        sync_folder(os.fspath(path.parent))
    for folder in _beside(path):
        _clear(folder, path)


def interrupted(path: Path) -> Path | None:
    """Return the new version of a path if a process was killed between its two renames.

    This version is complete, because the old one is moved only after the new one is on disk.
    """
    for folder in _beside(path):
        if _is_between(folder, path):
            return folder / "new"
    return None


def _replace(folder: Path, path: Path, check: Callable[[Path], None], exchange: Exchange) -> None:
    """Move `new` from a folder to an existing path, and the old version into the folder."""
    new, old = folder / "new", folder / "old"
    if exchange(new, path):
        try:
            check(new)  # the old version, which another process may have replaced meanwhile
        except BaseException:
            exchange(new, path)
            raise
    elif path.is_dir():
        path.rename(old)
        try:
            check(old)
            new.rename(path)
        except BaseException:
            old.rename(path)
            raise
    else:
        new.replace(path)


def _rename_to_free(new: Path, path: Path) -> None:
    if new.is_dir():
        new.rename(path)  # fails if the path is no longer absent or an empty folder
        return
    try:
        os.link(new, path)  # fails if a file exists by now
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        new.rename(path)


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(0o700)
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        write_file(file, [content], private=True)
    for item in (*folder.rglob("*"), folder):
        sync_folder(os.fspath(item))


@contextlib.contextmanager
def _workplace(path: Path) -> Iterator[Path]:
    """Yield a new locked folder beside a path, and remove it afterwards."""
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            folder = path.parent / f"{_prefix(path)}{uuid.uuid4().hex}"
            folder.mkdir(0o700)
            try:
                stack.enter_context(locked(folder / "lock"))
            except (FileNotFoundError, LockedError):
                continue  # another process removed the folder, because it was not locked yet
            except (OSError, ImportError):
                pass  # on a system without locks, no process removes the folders of others
            break
        try:
            yield folder
        finally:
            _remove(folder, path)


def _finish(folder: Path, path: Path) -> None:
    """Do the second rename on behalf of a process that was killed between the two renames."""
    with _taken_over(folder) as dead:
        if dead and _is_between(folder, path):
            (folder / "new").rename(path)
            sync_folder(os.fspath(path.parent))


def _clear(folder: Path, path: Path) -> None:
    """Remove a folder if its process has certainly ended."""
    with _taken_over(folder) as dead:
        if dead:
            _remove(folder, path)


@contextlib.contextmanager
def _taken_over(folder: Path) -> Iterator[bool]:
    """Lock a folder and yield whether `_workplace` created it in a process that has ended."""
    with contextlib.ExitStack() as stack:
        try:
            names = [item.name for item in folder.iterdir()]
            dead = all(name in ("lock", "old") or name.startswith("new") for name in names)
            if names:
                dead = dead and "lock" in names
                if dead:
                    stack.enter_context(locked(folder / "lock"))
        except (OSError, ImportError):
            dead = False
        yield dead


def _remove(folder: Path, path: Path) -> None:
    """Remove a folder that `_workplace` created, unless it has the only copy of a result.

    The lock is removed last.
    """
    if (folder / "old").exists() and not path.exists():
        return
    with contextlib.suppress(OSError):
        for item in list(folder.iterdir()):
            if item.name == "lock":
                continue
            if item.is_dir() and not item.is_symlink():
                shutil.rmtree(item)
            else:
                item.unlink()
        (folder / "lock").unlink(missing_ok=True)
        folder.rmdir()


def _is_between(folder: Path, path: Path) -> bool:
    old, new = folder / "old", folder / "new"
    return not os.path.lexists(path) and old.is_dir() and new.is_dir()


def _beside(path: Path) -> list[Path]:
    """Return the folders beside a path that have names as given by `_workplace`."""
    pattern = re.compile(re.escape(_prefix(path)) + "[0-9a-f]{32}")
    try:
        with os.scandir(path.parent) as entries:
            return [
                path.parent / entry.name
                for entry in entries
                if pattern.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def _prefix(path: Path) -> str:
    """Return the prefix of the folders for a path, with a hash instead of a possibly long name."""
    return f".hofs_dask-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}-"
