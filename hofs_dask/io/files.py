"""Atomic writes, reads with a size limit, JSON documents sealed by a digest, and file locks.

Other users may have write access to the folders. Therefore, nothing is written through a symbolic
link, and only regular files of at most the expected size are read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import socket
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hofs_dask.io.paths import is_url

#: Maximum bytes of a sealed document: more than the manifest of a million chunks needs.
MOST_JSON = 2**28

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Flags to open a file for reading; without O_NONBLOCK, opening a pipe would wait for a writer.
READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class LockedError(OSError):
    """Raised if another process holds the lock of a file; the message names that process."""


class SealError(ValueError):
    """Raised if a sealed document is damaged, or if the content is not a sealed document."""


def read_file(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file that is no larger than ``most`` bytes.

    Raises
    ------
    OSError
        The file does not exist, is not a regular file, or has more than ``most`` bytes.

    Examples
    --------
    >>> read_file("/dev/zero", 100)
    Traceback (most recent call last):
    ...
    OSError: [Errno 22] not a regular file: '/dev/zero'
    """
    name = os.fspath(path)
    handle = os.open(name, READ_FLAGS)
    try:
        size = check_regular(handle, name, most)
        with open(handle, "rb", closefd=False) as stream:
            content = stream.read(size + 1)
    finally:
        os.close(handle)
    if len(content) > size:
        raise OSError(errno.EBUSY, "file grew while it was read", name)
    return content


def check_regular(handle: int, name: str, most: int) -> int:
    """Return the size of an open file; raise an OSError if it is too large or not regular."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", name)
    if found.st_size > most:
        raise OSError(errno.EFBIG, f"larger than the {most} bytes expected", name)
    return found.st_size


def write_file(
    path: str | os.PathLike[str],
    parts: Iterable[bytes | memoryview],
    *,
    sync: bool = False,
    private: bool = False,
) -> None:
    """Write a file atomically: write a temporary file in the same folder, then rename it.

    Parameters
    ----------
    path
        Path of the file. An existing file is replaced; a symbolic link is replaced, not followed.
    parts
        The content.
    sync
        Whether to flush the file to disk before returning, so that it survives a power failure.
    private
        Whether only the user may read the file; otherwise the umask of the process decides.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(f"{folder}/a", [b"12", b"3"])
    ...     read_file(f"{folder}/a", 3)
    b'123'
    """
    name = os.fspath(path)
    partial = f"{name}.{uuid.uuid4().hex}.partial"
    try:
        mode = 0o600 if private else 0o666
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, mode)
        try:
            for part in parts:
                left = memoryview(part).cast("B")
                while left:
                    left = left[os.write(handle, left) :]
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(partial, name)  # noqa: PTH105 - called for every chunk, pathlib is slow
        if sync:
            sync_folder(os.path.dirname(name))  # noqa: PTH120
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)  # noqa: PTH108
        if error.errno is None:
            raise
        # an OSError raised by os.write has no filename
        raise OSError(error.errno, error.strerror, name) from error


def sync_folder(path: str) -> None:
    """Flush the directory entries of a folder to disk, so that they survive a power failure."""
    handle = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(content: object) -> str:
    """Return the SHA-256 digest of JSON content or a dataclass: equal for equal content.

    Examples
    --------
    >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(_canonical(content)).hexdigest()


def seal(document: dict[str, Any]) -> bytes:
    """Return a document as JSON, with a digest of its content.

    Examples
    --------
    >>> unseal(seal({"a": 1}))
    {'a': 1}
    """
    sealed = {**document, "digest": digest(document)}
    return json.dumps(sealed, sort_keys=True, default=vars).encode()


def unseal(content: bytes) -> dict[str, Any]:
    """Return the document that `seal` serialized.

    Raises
    ------
    SealError
        The content was not written by `seal`, or is damaged.

    Examples
    --------
    >>> unseal(seal({"a": 1}).replace(b": 1", b": 2"))
    Traceback (most recent call last):
    ...
    hofs_dask.io.files.SealError: its digest does not match its content
    """
    try:
        document = json.loads(content)
        found, expected = document.pop("digest"), digest(document)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise SealError("it is not a JSON document with a digest") from error
    if found != expected:
        raise SealError("its digest does not match its content")
    return dict(document)


def _canonical(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=vars).encode()


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file in a ``with`` block; the lock is also released if the process ends.

    Raises
    ------
    LockedError
        Another process holds the lock; the message names the process.
    OSError
        The file is a link or cannot be created, or the file system has no locks.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(f"{folder}/lock"):
    ...     read_file(f"{folder}/lock", 100).startswith(b"process ")
    True
    """
    import fcntl  # not available on Windows

    name = os.fspath(path)
    handle = os.open(name, os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o666)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            # the owner is written into the lock file; a hard link would change another file too
            raise OSError(errno.EMLINK, "the lock file is a hard link or not regular", name)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
            raise LockedError(holder or "another process") from error
        if not _is_at(handle, name):  # its last owner removed the file after it was opened above
            raise LockedError("another process")
        with contextlib.suppress(OSError):  # on a full disk, the owner is not written
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{owner()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _is_at(handle: int, name: str) -> bool:
    """Return whether an open file is the one that currently has this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name))  # noqa: PTH116
    except FileNotFoundError:
        return False


def owner() -> str:
    """Return the text that identifies this process in a lock file."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def check_apart(path: str, sources: Iterable[str], what: str) -> None:
    """Raise a ValueError if an output path equals, contains or is inside one of the sources.

    Parameters
    ----------
    path
        The output path, as returned by `as_path`.
    sources
        Paths and URLs that the data is read from.
    what
        The name of the option that contains the path.

    Examples
    --------
    >>> check_apart("/data/x.zarr/codes", ["/data/x.zarr"], "store")
    Traceback (most recent call last):
    ...
    ValueError: store is '/data/x.zarr/codes', which is inside the data at '/data/x.zarr'; ...
    """
    own = _parts(path)
    for source in sources:
        other = _parts(source)
        shorter = min(len(own), len(other))
        if own[:shorter] == other[:shorter]:
            where = "is" if own == other else "is inside" if own > other else "contains"
            raise ValueError(
                f"{what} is {path!r}, which {where} the data at {source!r}; give a separate path"
            )


def _parts(path: str) -> tuple[str, ...]:
    if is_url(path):
        scheme, _, rest = path.partition("://")
        if scheme not in ("file", "local"):
            return (scheme, *(part for part in rest.split("/") if part))
        path = rest if rest.startswith("/") else f"/{rest}"
    # not Path.resolve, which raises an error for circular links
    return ("file", *Path(os.path.realpath(path)).parts)
