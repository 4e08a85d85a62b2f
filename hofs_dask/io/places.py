"""The same few file operations for a local folder and for a prefix of remote storage.

A *place* is the path of such a folder or the URL of such a prefix. Names within a place are
relative and use slashes. All writes are atomic: a local file is written under another name and then
renamed, and remote storage writes an object as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hofs_dask.io.files import LockedError, locked, owner, read_file, write_file
from hofs_dask.io.paths import is_url

LOCK = "lock"


def read(place: str, name: str, most: int) -> bytes:
    """Return the content of a file or object of at most ``most`` bytes.

    An empty name means the place itself.

    Raises
    ------
    OSError
        The file does not exist, is not a regular file, or has more than ``most`` bytes.

    Examples
    --------
    >>> read("/no/such/place", "manifest.json", 100)
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: '/no/such/place/manifest.json'
    """
    if not is_url(place):
        return read_file(f"{place}/{name}" if name else place, most)
    files, root = remote(place)
    path = f"{root}/{name}" if name else root
    if files.info(path)["size"] > most:
        raise OSError(errno.EFBIG, f"larger than the {most} bytes expected", f"{place}/{name}")
    content: bytes = files.cat_file(path, start=0, end=most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than the {most} bytes expected", f"{place}/{name}")
    return content


def write(
    place: str, name: str, parts: Iterable[bytes | memoryview], *, sync: bool = False
) -> None:
    """Write a file or object atomically, and create folders below the place as needed.

    The place itself is not created, so that a late task cannot restore a removed store.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(folder, "a/b", [b"text"])
    ...     read(folder, "a/b", 4)
    b'text'
    """
    if is_url(place):
        files, root = remote(place)
        files.pipe_file(f"{root}/{name}", b"".join(bytes(part) for part in parts))
        return
    folder = place
    for step in name.split("/")[:-1]:
        folder = f"{folder}/{step}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)  # noqa: PTH102 - called for every chunk, pathlib is slow
    write_file(f"{place}/{name}", parts, sync=sync)


def children(place: str) -> set[str]:
    """Return the names of the files and folders in a place, or an empty set if it does not exist.

    Examples
    --------
    >>> children("/no/such/place")
    set()
    """
    if is_url(place):
        files, root = remote(place)
        files.invalidate_cache()
        try:
            found = files.ls(root, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        names = {str(each).rstrip("/") for each in found}
        return {each.rpartition("/")[2] for each in names if each.strip("/") != root.strip("/")}
    try:
        return set(os.listdir(place))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return set()


def remove(place: str, name: str) -> None:
    """Remove a file or folder, if it exists.

    Examples
    --------
    >>> remove("/no/such/place", "codes")
    """
    if is_url(place):
        files, root = remote(place)
        with contextlib.suppress(FileNotFoundError):
            files.rm(f"{root}/{name}", recursive=True)
        return
    path = Path(place, name)
    if path.is_dir() and not path.is_symlink():
        # a rename is atomic, so that no reader sees a half-removed folder
        with contextlib.suppress(OSError):
            path = path.rename(path.with_name(f"{path.name}-{uuid.uuid4().hex}"))
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def held(place: str) -> Iterator[None]:
    """Hold the lock of a place in a ``with`` block.

    Raises
    ------
    LockedError
        Another process holds the lock. The message names the process and, for remote storage,
        the command that removes a stale lock.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, held(folder):
    ...     children(folder)
    {'lock'}
    """
    if not is_url(place):
        with locked(f"{place}/{LOCK}"):
            yield
        return
    files, root = remote(place)
    path, content = f"{root}/{LOCK}", f"{owner()}\n".encode()
    try:
        files.pipe_file(path, content, mode="create")
    except FileExistsError as error:
        raise LockedError(f"{_holder(files, path)} {_unlock(place)}") from error
    try:
        # not every storage raises an error if the object exists
        if files.cat_file(path) != content:
            raise LockedError(f"{_holder(files, path)} {_unlock(place)}")
        yield
    finally:
        with contextlib.suppress(OSError):
            if files.cat_file(path) == content:
                files.rm_file(path)


def unlock(place: str) -> str | None:
    """Remove the lock of a remote place; return its owner, or None if there was no lock.

    A local lock is released when its process ends, so there is nothing to remove.

    Examples
    --------
    >>> unlock("memory://no/such/place") is None
    True
    """
    if not is_url(place):
        return None
    files, root = remote(place)
    path = f"{root}/{LOCK}"
    if not files.exists(path):
        return None
    holder = _holder(files, path)
    files.rm_file(path)
    return holder


def remote(place: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path within it.

    Examples
    --------
    >>> remote("memory://a/b")[1]
    '/a/b'
    """
    from fsspec.core import url_to_fs

    files, root = url_to_fs(place)
    return files, root.rstrip("/")


def _holder(files: Any, path: str) -> str:
    with contextlib.suppress(OSError):
        return str(files.cat_file(path, start=0, end=200).decode(errors="replace")).strip()
    return "another process"


def _unlock(place: str) -> str:
    return f"(if that process has ended, run: hofs-dask unlock {place})"
