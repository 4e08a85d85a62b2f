"""Fingerprints: short texts that are equal for equal content, without reading files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zarr
from dask.base import tokenize

if TYPE_CHECKING:
    import dask.array as da


def digest(parts: Sequence[object]) -> str:
    """Return a fingerprint of what JSON can hold.

    Examples
    --------
    >>> digest(["a", 1])[:8]
    '2657442b'
    """
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def array_fingerprint(array: Any) -> str:
    """Return the fingerprint of a numpy or dask array: its content, else its graph and files.

    Examples
    --------
    >>> import numpy as np
    >>> array_fingerprint(np.arange(3)) == array_fingerprint(np.array([0, 1, 2]))
    True
    """
    import dask.array as da

    if isinstance(array, da.Array):
        files = [_zarr_fingerprint(each) for each in _zarr_arrays(array)]
        return digest(["dask", array.name, array.shape, str(array.dtype), array.chunks, files])
    return digest(["numpy", array.shape, str(array.dtype), tokenize(array)])


def store_fingerprint(array: zarr.Array[Any], name: str) -> str:
    """Return the fingerprint of an open Zarr array that has this name in its group.

    Examples
    --------
    >>> import zarr
    >>> array = zarr.array([1, 2, 3])
    >>> store_fingerprint(array, "x") == store_fingerprint(array, "y")
    False
    """
    # Without files it is as Dask tells arrays apart, by the content where that is in memory.
    return digest(["zarr", name, _zarr_fingerprint(array) or tokenize(array)])


def files_fingerprint(root: Path) -> str:
    """Return the fingerprint of a file or a folder: sizes and times, never the content.

    Examples
    --------
    >>> files_fingerprint(Path(__file__)) == files_fingerprint(Path(__file__).parent)
    False
    """
    if root.is_file():
        return digest([root.stat().st_size, root.stat().st_mtime_ns])
    listing = []
    for file in _files(root):
        stat = file.stat()
        name = file.path.removeprefix(f"{root}{os.sep}")
        listing.append([name, stat.st_size, stat.st_mtime_ns])
    return digest(sorted(listing))


def _files(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    """All files below a folder; paths of their own would take longer than asking for them."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                yield entry
            elif not entry.is_symlink():
                yield from _files(entry.path)


def _remote_fingerprint(files: Any, root: str) -> str:
    stamps = ("size", "ETag", "etag", "LastModified", "mtime", "updated")
    found = files.find(root, detail=True)
    return digest(
        [[key, *(str(info.get(stamp)) for stamp in stamps)] for key, info in sorted(found.items())]
    )


def _zarr_fingerprint(array: zarr.Array[Any]) -> str:
    """Return the fingerprint of the files of an open Zarr array, "" where it has none."""
    store: Any = array.store_path.store
    if hasattr(store, "root"):
        return files_fingerprint(Path(store.root) / array.path)
    if not hasattr(store, "fs"):
        # A zip is one file.
        file = Path(getattr(store, "path", ""))
        return files_fingerprint(file) if file.is_file() else ""
    files = getattr(store.fs, "sync_fs", None)
    if files is None:
        options = {**store.fs.storage_options, "asynchronous": False}
        files = type(store.fs)(*store.fs.storage_args, **options)
    return _remote_fingerprint(files, f"{store.path}/{array.path}".rstrip("/"))


def _zarr_arrays(array: da.Array) -> list[zarr.Array[Any]]:
    """Return the Zarr arrays that a dask array reads.

    The name of a dask array does not change with the files behind it, so these are looked at too.
    """
    arrays = []
    graph = array.dask
    for layer in sorted(name for name in graph.layers if name.startswith("original-")):
        node: Any = graph[layer]
        # A node of the graph, then the layers of lazy decoding that xarray wraps an array in.
        while node is not None and not isinstance(node, zarr.Array):
            inner = (getattr(node, name, None) for name in ("value", "array", "_array"))
            node = next((each for each in inner if each is not None), None)
        if node is not None:
            arrays.append(node)
    return arrays
