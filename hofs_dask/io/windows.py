"""Windows on Zarr arrays: what a task reads itself, a strip at a time, and uses in the cache.

A block of Dask is read as a whole before it is used, into memory that is touched for the first
time, by way of Zarr, which copies it twice. A chunk that is a file of numbers, compressed or not,
can be decoded right where it is used.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numcodecs import Blosc, Zstd
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec
from zarr.storage import LocalStore

from hofs_dask.io.files import READ_FLAGS, announce_file, check_regular
from hofs_dask.io.guard import (
    guarded,
    guarded_rows,
    unpacked_size,
)
from hofs_dask.io.storage import innermost
from hofs_dask.kernels.planes import WORD

#: Bytes of a strip, about: chunks are put together up to this.
STRIP_BYTES = 4 * 2**20

#: What decodes chunks, by the codec that Zarr names. What they need to know is in the chunk.
DECODERS: dict[str, Any] = {"blosc": Blosc(), "zstd": Zstd()}
CODECS = (BloscCodec, GzipCodec, ZstdCodec)


def can_open(array: Any) -> bool:
    """Return whether windows can be opened on an array: numbers, in files, a chunk the full width.

    Examples
    --------
    >>> can_open(zarr.zeros((4, 2)))  # in memory
    False
    """
    if not isinstance(array, zarr.Array) or array.ndim != 2 or array.metadata.zarr_format != 3:
        return False
    dtype = array.dtype
    serializer, *compressors = array.metadata.codecs
    return (
        type(innermost(array.store)) is LocalStore
        and dtype.kind in "biuf"
        and dtype.isnative
        and dtype.itemsize <= 8
        and array.chunks[1] == array.shape[1]
        and isinstance(serializer, BytesCodec)
        and (dtype.itemsize == 1 or serializer == BytesCodec())  # of the order of this machine
        and [type(codec) for codec in compressors] in [[], *([kind] for kind in CODECS)]
    )


class Window:
    """Some rows of a Zarr array that `can_open` holds of, from the first of a chunk on.

    Parameters
    ----------
    array : zarr.Array
        The array. A chunk that was there when it was guarded must be there when it is read.
    first, last : int
        The rows, the last one left out.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     array = zarr.create_array(f"{folder}/x.zarr", data=np.eye(6), chunks=(2, 6))
    ...     window = Window(array, 2, 6)
    ...     window.shape, window.read()[:2, :4]
    ((4, 6), array([[0., 0., 1., 0.],
           [0., 0., 0., 1.]]))
    """

    # Not a dataclass: Dask looks into those.
    def __init__(self, array: Any, first: int, last: int) -> None:
        n_rows = array.chunks[0]
        self._array = guarded_rows(guarded(array), first // n_rows, -(-last // n_rows))
        self._folder = str(Path(innermost(array.store).root, array.path).absolute())
        self._first, self._last = first, last
        self.shape: tuple[int, int] = (last - first, array.shape[1])
        self.dtype: np.dtype[Any] = array.dtype
        self.size = math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def read(self) -> np.ndarray:
        """Return all rows."""
        out = np.empty(self.shape, self.dtype)
        self._read(self._first, out)
        return out

    def strips(self) -> Iterator[np.ndarray]:
        """Yield the rows in their order, some at a time, in memory that is used again.

        All but the last are whole words of samples, wherever the chunks end.
        """
        n_rows = self._array.chunks[0]
        row_bytes = max(self.shape[1] * self.dtype.itemsize, 1)
        step = n_rows * max(1, STRIP_BYTES // (n_rows * row_bytes))
        buffer = np.empty((WORD + min(step, len(self)), self.shape[1]), self.dtype)
        held = 0
        for start in range(self._first, self._last, step):
            stop = min(start + step, self._last)
            self._read(start, buffer[held : held + stop - start])
            # so that the disk works while this thread does; another may be the one that needs it
            for first in range(start + step, min(start + 2 * step, self._array.shape[0]), n_rows):
                announce_file(self._file_of(first // n_rows))
            held += stop - start
            whole = held if stop == self._last else held - held % WORD
            yield buffer[:whole]
            buffer[: held - whole] = buffer[whole:held]
            held -= whole

    def _read(self, first: int, out: np.ndarray) -> None:
        """Set rows from that of a chunk on."""
        n_rows = self._array.chunks[0]
        for start in range(first, first + len(out), n_rows):
            own = out[start - first : start - first + n_rows]
            if not _decode(self._array, self._file_of(start // n_rows), own):
                self._ask_zarr(start, own)

    def _ask_zarr(self, start: int, out: np.ndarray) -> None:
        """Set the rows of a chunk that is missing, and so full of one value, or damaged."""
        number = start // self._array.chunks[0]
        try:
            out[:] = self._array[start : start + len(out)]
        except FileNotFoundError:  # the array, or a chunk that was there
            raise
        except Exception as error:
            # what a damaged chunk raises depends on the codec
            raise ValueError(
                f"chunk ({number}, 0) of the Zarr array {self._folder!r} cannot be read ({error}); "
                "write the array again"
            ) from error

    def _file_of(self, number: int) -> str:
        """Return the file of a chunk, which may not be there."""
        return f"{self._folder}/{self._array.metadata.encode_chunk_key((number, 0))}"


def strips(block: np.ndarray | Window) -> Iterator[np.ndarray]:
    """Yield the rows of a block in their order: those of a window strip by strip.

    Examples
    --------
    >>> [strip.shape for strip in strips(np.zeros((3, 2)))]
    [(3, 2)]
    """
    return block.strips() if isinstance(block, Window) else iter([block])


def as_array(block: np.ndarray | Window) -> np.ndarray:
    """Return all rows of a block at once.

    Examples
    --------
    >>> as_array(np.zeros((3, 2))).shape
    (3, 2)
    """
    return block.read() if isinstance(block, Window) else block


def _decode(array: Any, file: str, out: np.ndarray) -> bool:
    """Set the first rows of a chunk; return False where its file is not what it should be."""
    n_bytes = math.prod(array.chunks) * array.dtype.itemsize
    most, compressor = array.store.most, array.store.compressor
    content = out.reshape(-1).view(np.uint8).data
    try:
        handle = os.open(file, READ_FLAGS)
        try:
            size = check_regular(handle, file, most)
            if compressor is None:
                return size == n_bytes and os.readv(handle, [content]) == len(content)
            packed = bytearray(size)
            if os.readv(handle, [packed]) != size:
                return False
        finally:
            os.close(handle)
        # not into place: a decoder does not say how much of it was set
        whole = _unpack(compressor, packed, n_bytes, most)
    except (EOFError, OSError, RuntimeError, ValueError, zlib.error):
        return False
    if len(whole) != n_bytes:
        return False
    content[:] = whole[: len(content)]
    return True


def _unpack(compressor: str, packed: bytearray, n_bytes: int, most: int) -> memoryview:
    """Return what a chunk unpacks to, of which there may not be much more than expected."""
    if compressor == "gzip":
        stream = zlib.decompressobj(31)
        whole = stream.decompress(packed, n_bytes)
        # the checksum is at the end, after the last byte
        rest = stream.decompress(stream.unconsumed_tail, 1)
        return memoryview(whole if stream.eof and not rest and not stream.unused_data else b"")
    if unpacked_size(compressor, memoryview(packed), most) > most:
        return memoryview(b"")
    return memoryview(DECODERS[compressor].decode(packed)).cast("B")
