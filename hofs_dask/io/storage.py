"""Paths, file stamps and metadata of Zarr stores, and checks made before data is read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import zarr
from fsspec.implementations.local import LocalFileSystem
from zarr.storage import FsspecStore, LocalStore, WrapperStore, ZipStore

from hofs_dask.io.files import read_file

#: The files that describe a Zarr array or group.
METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
#: Maximum bytes of a metadata file.
MOST_METADATA = 2**30


def file_stamp(path: str | os.PathLike[str]) -> str:
    """Return the path, size, times and inode of a file as text, which differs if the file changed.

    Examples
    --------
    >>> file_stamp(__file__) == file_stamp(__file__)
    True
    """
    return stat_stamp(os.fspath(path), os.stat(path))  # noqa: PTH116 - many files, pathlib is slow


def innermost(store: Any) -> Any:
    """Return the store inside of wrapper stores.

    Examples
    --------
    >>> from zarr.storage import LoggingStore, MemoryStore
    >>> type(innermost(LoggingStore(MemoryStore()))).__name__
    'MemoryStore'
    """
    while isinstance(store, WrapperStore):
        store = store._store
    return store


def local_root(store: Any) -> str | None:
    """Return the folder of a local store, or None for any other store.

    Examples
    --------
    >>> local_root(LocalStore("/data/x.zarr"))
    '/data/x.zarr'
    """
    store = innermost(store)
    if isinstance(store, LocalStore):
        return str(store.root)
    if isinstance(store, FsspecStore) and isinstance(file_system(store), LocalFileSystem):
        return str(file_system(store)._strip_protocol(store.path))
    return None


def place_of(node: Any) -> str:
    """Return the local path or the URL of a Zarr array or group, "" if it has none.

    Examples
    --------
    >>> place_of(zarr.zeros(3))
    ''
    """
    store = innermost(node.store)
    root = local_root(store)
    if root is not None:
        return str(Path(root, node.path).absolute())
    if isinstance(store, ZipStore):
        return str(Path(store.path).absolute())
    if isinstance(store, FsspecStore):
        return str(file_system(store).unstrip_protocol(f"{store.path}/{node.path}".rstrip("/")))
    return ""


def metadata_key(array: zarr.Array[Any]) -> str:
    """Return the store key of the metadata of an array.

    Examples
    --------
    >>> metadata_key(zarr.zeros(3))
    'zarr.json'
    """
    name = "zarr.json" if array.metadata.zarr_format == 3 else ".zarray"
    return f"{array.path}/{name}".lstrip("/")


def check_metadata_files(folder: str | os.PathLike[str]) -> None:
    """Raise a ValueError if a metadata file of a Zarr array or group is not a regular file.

    Opening a pipe would block forever. An array whose chunks are pickled is refused too. For a
    group, the metadata of its arrays is also checked.

    Examples
    --------
    >>> check_metadata_files("/no/such/folder")
    """
    root = os.fspath(folder)
    folders = [root]
    if os.path.isdir(root):  # noqa: PTH112
        with os.scandir(root) as entries:
            folders += [entry.path for entry in entries if entry.is_dir()]
    for each in folders:
        for name in METADATA:
            check_file(f"{each}/{name}", MOST_METADATA)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _refuse(_codecs_of_file(f"{each}/.zarray"), each)


def check_file(path: str, most: int | None) -> None:
    """Raise a ValueError if a path exists but is not a regular file of at most ``most`` bytes.

    Examples
    --------
    >>> check_file("/dev/zero", 10)
    Traceback (most recent call last):
    ...
    ValueError: '/dev/zero' is not a regular file; write the array again
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - called for every chunk, pathlib is slow
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path!r} is not a regular file; write the array again")
    if most is not None and found.st_size > most:
        raise ValueError(
            f"{path!r} has {found.st_size} bytes, expected at most {most}; write the array again"
        )


def check_reachable(places: Iterable[str]) -> None:
    """Raise a FileNotFoundError if a local path does not exist on this machine.

    Parameters
    ----------
    places
        Local paths and URLs; URLs are not checked.

    Examples
    --------
    >>> check_reachable(["/no/such/path", "s3://bucket/x.zarr"])
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no '/no/such/path' on ...; give a path that all workers can reach
    """
    for place in places:
        if "://" not in place and not os.path.exists(place):  # noqa: PTH110
            raise FileNotFoundError(
                f"there is no {place!r} on {socket.gethostname()}; give a path that all workers "
                "can reach"
            )


def refuse_pickle(array: zarr.Array[Any], address: str) -> None:
    """Raise a ValueError if chunks are pickled, because reading them could run arbitrary code.

    Examples
    --------
    >>> refuse_pickle(zarr.zeros(3), "x.zarr")
    """
    _refuse(_codec_names(array.metadata.to_dict()), address)


def _refuse(codecs: Iterable[str], address: str) -> None:
    for codec in codecs:
        if "pickle" in codec:
            raise ValueError(
                f"the Zarr array {address!r} has the codec {codec!r}, and reading it could run "
                "arbitrary code; write it again as numbers or strings without this codec"
            )


def metadata_text(array: zarr.Array[Any]) -> str:
    """Return the metadata of an array as JSON text.

    Examples
    --------
    >>> metadata_text(zarr.zeros(3)) == metadata_text(zarr.zeros(4))
    False
    """
    return json.dumps(array.metadata.to_dict(), default=str, sort_keys=True)


def hash_lines(lines: Iterable[str]) -> str:
    """Return the SHA-256 digest of a sequence of texts.

    Examples
    --------
    >>> hash_lines(["ab", "c"]) == hash_lines(["a", "bc"])
    False
    """
    content = hashlib.sha256()
    for line in lines:
        content.update(f"{len(line)}:{line}".encode("utf-8", "surrogateescape"))
    return content.hexdigest()


def stat_stamp(name: str, found: os.stat_result) -> str:
    r"""Return the name, size, times and inode of a file as one text.

    Examples
    --------
    >>> stat_stamp("x", Path(__file__).stat()).split("\0")[0]
    'x'
    """
    return f"{name}\0{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"


def file_system(store: FsspecStore) -> Any:
    """Return the synchronous file system of a store.

    Examples
    --------
    >>> file_system(FsspecStore.from_url("memory://x")).protocol
    'memory'
    """
    files = getattr(store.fs, "sync_fs", None)
    if files is None:
        options = {**store.fs.storage_options, "asynchronous": False}
        files = type(store.fs)(*store.fs.storage_args, **options)
    return files


def _codecs_of_file(path: str) -> list[str]:
    try:
        return list(_codec_names(json.loads(read_file(path, MOST_METADATA))))
    except (ValueError, RecursionError):  # Zarr raises the error when it opens the array
        return []


def _codec_names(node: Any) -> Iterator[str]:
    """Yield the names of all codecs in metadata, including those inside of shards."""
    config = getattr(node, "get_config", None) or getattr(node, "to_dict", None)
    if config is not None:
        node = config()
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("id", "name") and isinstance(value, str):
                yield value
            elif key != "attributes":
                yield from _codec_names(value)
    elif isinstance(node, list | tuple):
        for each in node:
            yield from _codec_names(each)
