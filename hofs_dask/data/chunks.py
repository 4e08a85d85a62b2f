"""Reading and writing the chunks of a code store, and what is said of one that is damaged."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
import uuid
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr

from hofs_dask.data.codec import Planes
from hofs_dask.data.paths import is_url
from hofs_dask.errors import CodeStoreError
from hofs_dask.kernels.planes import WORD, first_bits, pack, unpacked

CODE_FILL = 255
LABEL_FILL = 254

#: Bytes of the checksum at the end of a chunk, and what the checksum of both then is.
CHECKSUM_BYTES, RESIDUE = 4, 0x48674BC7
ALIGNMENT = 64
READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)

#: What a thread read last and does not keep: memory that is touched anew for every chunk costs more
#: than the reading.
_THREAD = threading.local()


def read_codes(path: str, features: slice, rows: slice) -> np.ndarray:
    """Return codes of a store, uint8 (feature, sample) and C-contiguous.

    Parameters
    ----------
    path : str
        Of the store.
    features, rows : slice
        The region.

    Raises
    ------
    CodeStoreError
        Names the chunk that is corrupt, unreadable or missing.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.codes import temporary_store
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     _ = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_codes(path, slice(0, 4), slice(1, 3))
    array([[0, 0],
           [1, 0],
           [0, 1],
           [0, 0]], dtype=uint8)
    """
    return _read(path, _open(path, "codes"), (features, rows), CODE_FILL)


def read_planes(
    path: str, features: slice, rows: slice, *, name: str = "codes", keep: bool = True
) -> np.ndarray:
    """Return codes of a store as bit planes, uint64 (feature, bit, word).

    A whole chunk is read as it is stored: one read and one checksum, where going through Zarr
    would unpack the codes. Bits past the last sample may be set.

    Parameters
    ----------
    path : str
        Of the store.
    features, rows : slice
        The region.
    name : str
        Of the array: the codes of all features, or the copy of one.
    keep : bool
        False for planes that are done with before this thread reads the next ones that are not to
        be kept: they may share their memory.

    Raises
    ------
    CodeStoreError
        Names the chunk that is corrupt, unreadable or missing.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.codes import temporary_store
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     _ = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_planes(path, slice(2, 3), slice(0, 4))
    array([[[4]]], dtype=uint64)
    """
    array = _open(path, name)
    metadata: Any = array.metadata
    (codec,) = (each for each in metadata.codecs if isinstance(each, Planes))
    shape = codec.shape(array.chunks)
    content = _read_chunk(path, array, (features, rows), 8 * math.prod(shape), keep)
    if content is None:
        return pack(_read(path, array, (features, rows), CODE_FILL), codec.bits)
    # the last chunk of an axis is stored whole too
    n_words = -(-(rows.stop - rows.start) // WORD)
    planes = content.view("<u8").reshape(shape)[: features.stop - features.start, :, :n_words]
    return np.ascontiguousarray(planes, dtype=np.uint64)


def announce_planes(path: str, features: slice, rows: slice) -> None:
    """Tell the system that a chunk will be read next, so that the disk works while a thread does.

    Examples
    --------
    >>> announce_planes("no/such/store", slice(0, 4), slice(0, 4))
    """
    if is_url(path):
        return
    with contextlib.suppress(OSError, CodeStoreError):
        file = _chunk_file(path, _open(path, "codes"), (features, rows))
        if file is not None:
            announce_file(file)


def announce_file(file: str | os.PathLike[str]) -> None:
    """Tell the system that a file will be read next, if it is there and the system listens.

    Examples
    --------
    >>> announce_file("no/such/file")
    """
    if not hasattr(os, "posix_fadvise"):
        return
    with contextlib.suppress(OSError):
        handle = os.open(file, READ)
        try:
            if not _in_memory(handle):
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(handle)


def _in_memory(handle: int) -> bool:
    """Return whether the end of a file is: to ask is a fifth of what an announcement takes."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    last = max(os.fstat(handle).st_size - 1, 0)
    try:
        return os.preadv(handle, [bytearray(1)], last, os.RWF_NOWAIT) == 1
    except OSError:  # it would have to wait, or the file system cannot say
        return False


def read_labels(path: str, key: str, rows: slice) -> np.ndarray:
    """Return labels of a store, uint8 (sample,), 255 where the target is missing.

    Raises
    ------
    CodeStoreError
        Names the chunk that is corrupt, unreadable or missing.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.codes import temporary_store
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_labels(path, store.labels.key, slice(1, 3))
    array([1, 0], dtype=uint8)
    """
    array = _open(path, f"labels/{key}")
    content = _read_chunk(path, array, (rows,), array.chunks[0], keep=True)
    if content is None:
        return _read(path, array, (rows,), LABEL_FILL)
    return content[: len(range(*rows.indices(array.shape[0])))]  # the last is stored whole too


def write_planes(path: str, name: str, features: slice, rows: slice, planes: np.ndarray) -> None:
    """Write codes of a store that are bit planes.

    A whole chunk is one checksum and one write, byte for byte what Zarr would write in four times
    the time; it is there as a whole or not at all.

    Parameters
    ----------
    path, name : str
        Of the store, and of the array within.
    features, rows : slice
        The region.
    planes : ndarray of uint64 (feature, bit, word)
        What belongs there.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.codes import temporary_store
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     _ = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     ones = np.full((4, 1, 1), 15, np.uint64)
    ...     write_planes(path, "codes", slice(0, 4), slice(0, 4), ones)
    ...     read_codes(path, slice(0, 1), slice(0, 4))
    array([[1, 1, 1, 1]], dtype=uint8)
    """
    array = open_array(path, name, "r+")
    file = None if is_url(path) else _chunk_file(path, array, (features, rows))
    n_samples = rows.stop - rows.start
    if file is None:
        array[features, rows] = unpacked(planes, n_samples)
        return
    if len(planes) < array.chunks[0] or n_samples < array.chunks[1]:
        # the last of an axis is stored whole too; of the code that fills it all bits are set
        whole = np.empty((array.chunks[0], planes.shape[1], -(-array.chunks[1] // WORD)), np.uint64)
        whole[:] = first_bits(array.chunks[1], whole.shape[2])
        own = whole[: len(planes), :, : planes.shape[2]]
        own[:] = own & ~first_bits(n_samples, planes.shape[2]) | planes
        planes = whole
    _write_file(file, np.ascontiguousarray(planes, "<u8"))


def write_labels(path: str, key: str, rows: slice, labels: np.ndarray) -> None:
    """Write labels of a store, uint8.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.codes import temporary_store
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     write_labels(path, store.labels.key, slice(0, 4), np.ones(4, np.uint8))
    ...     read_labels(path, store.labels.key, slice(0, 2))
    array([1, 1], dtype=uint8)
    """
    array = open_array(path, f"labels/{key}", "r+")
    file = None if is_url(path) else _chunk_file(path, array, (rows,))
    if file is None:
        array[rows] = labels
        return
    whole = np.full(array.chunks, LABEL_FILL, np.uint8)
    whole[: len(labels)] = labels
    _write_file(file, whole)


def _write_file(name: str, content: np.ndarray) -> None:
    """Write a chunk and its checksum."""
    file, content = Path(name), content.reshape(-1).view(np.uint8)
    checksum = google_crc32c.value(content).to_bytes(CHECKSUM_BYTES, "little")
    # below the array alone: a task that is late must not bring back a store that was removed
    for folder in (file.parent.parent, file.parent):
        if folder.name.isdecimal() or folder.name == "c":
            folder.mkdir(exist_ok=True)
    partial = file.with_name(f"{file.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb", buffering=0) as target:
            for part in (content.data, checksum):
                left = memoryview(part)
                while left:
                    left = left[target.write(left) :]
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def _open(path: str, name: str) -> zarr.Array[Any]:
    try:
        return open_array(path, name, "r")
    except (OSError, ValueError, KeyError) as error:
        raise CodeStoreError(
            f"array {name!r} of the code store {path!r} cannot be opened ({error}); encode the "
            "data again"
        ) from error


def _read(path: str, array: zarr.Array[Any], region: tuple[slice, ...], fill: int) -> np.ndarray:
    """Return a region of an array through Zarr, which knows more ways to read and to fail."""
    try:
        found = np.ascontiguousarray(array[region])
    except Exception as error:
        # What a damaged chunk raises depends on the codec and the kind of storage.
        chunk, cause = _first_damaged(array, region)
        raise damaged(path, array.path, chunk, f"cannot be read ({cause or error})") from error
    if found.size and found.max() >= fill and (found == fill).any():
        cell = np.argwhere(found == fill)[0]
        starts = [part.indices(size)[0] for part, size in zip(region, array.shape, strict=True)]
        chunk = tuple(
            int(at + start) // size
            for at, start, size in zip(cell, starts, array.chunks, strict=True)
        )
        raise damaged(path, array.path, chunk, "is missing")
    return found


def _read_chunk(
    path: str, array: zarr.Array[Any], region: tuple[slice, ...], n_bytes: int, keep: bool
) -> np.ndarray | None:
    """Return the bytes of the one whole chunk that a region is, None where it is none or damaged.

    One read and one checksum, where going through Zarr takes four times as long. Whatever is odd
    is left to Zarr.
    """
    file = None if is_url(path) else _chunk_file(path, array, region)
    return None if file is None else _read_file(file, n_bytes, keep)


def _chunk_file(path: str, array: zarr.Array[Any], region: tuple[slice, ...]) -> str | None:
    """Return the file of the one whole chunk that a region is, None where it is none.

    Text: a walk asks for it three times a chunk, and a path takes itself apart every time.
    """
    places = []
    for part, size, chunk in zip(region, array.shape, array.chunks, strict=True):
        first, last, _ = part.indices(size)
        if first % chunk or last != min(first + chunk, size) or first >= last:
            return None
        places.append(str(first // chunk))
    return f"{path}/{array.path}/c/{'/'.join(places)}"


def _read_file(file: str, n_bytes: int, keep: bool) -> np.ndarray | None:
    """Return the bytes of a chunk from its file, None where it is not there or is damaged."""
    try:
        handle = os.open(file, READ)
        try:
            content = _buffer(n_bytes + CHECKSUM_BYTES, keep)
            n_read = os.readv(handle, [content.data])
            complete = n_read == len(content) == os.fstat(handle).st_size
        finally:
            os.close(handle)
    except OSError:
        return None
    if not complete or google_crc32c.value(content) != RESIDUE:
        return None
    return content[:n_bytes]


def _buffer(n_bytes: int, keep: bool) -> np.ndarray:
    """Return memory that begins at a multiple of 64: elsewhere the kernel copies at a fifth."""
    buffer: np.ndarray | None = getattr(_THREAD, "buffer", None)
    if keep or buffer is None or len(buffer) < n_bytes + ALIGNMENT:
        buffer = np.empty(n_bytes + ALIGNMENT, np.uint8)
        if not keep:
            _THREAD.buffer = buffer
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + n_bytes]


def _first_damaged(
    array: zarr.Array[Any], region: tuple[slice, ...]
) -> tuple[tuple[int, ...], Exception | None]:
    """Return the first chunk of a region that cannot be read, and why."""
    spans = []
    for part, size, chunk in zip(region, array.shape, array.chunks, strict=True):
        start, stop, _ = part.indices(size)
        spans.append(range(start // chunk, max(-(-stop // chunk), start // chunk + 1)))
    for index in np.ndindex(*(len(span) for span in spans)):
        position = tuple(span[i] for span, i in zip(spans, index, strict=True))
        try:
            array.get_block_selection(position)
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            return position, error
    return tuple(span[0] for span in spans), None


def damaged(path: str, name: str, chunk: tuple[int, ...], what: str) -> CodeStoreError:
    """Return the error that names a chunk and what is wrong with it."""
    return CodeStoreError(
        f"chunk {chunk} of array {name!r} in the code store {path!r} {what}; remove the store and "
        "encode the data again"
    )


def open_array(path: str, name: str, mode: str) -> zarr.Array[Any]:
    """Return an array of the store, opened once a process for as long as it is not replaced."""
    if is_url(path):
        return zarr.open_array(path, path=name, mode=mode)
    stamp = os.stat(f"{path}/{name}/zarr.json")  # noqa: PTH116 - see _chunk_file
    return _open_cached(path, name, mode, (stamp.st_ino, stamp.st_mtime_ns))


@functools.lru_cache(maxsize=64)
def _open_cached(path: str, name: str, mode: str, stamp: tuple[int, int]) -> zarr.Array[Any]:
    del stamp  # It is there for the cache alone: a replaced array is another key.
    return zarr.open_array(path, path=name, mode=mode)
