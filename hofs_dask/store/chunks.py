"""Read and write the chunks and tables of a code store, with checksums.

A chunk is one file: its bytes, followed by their checksum, in the format of the Zarr codecs bytes,
planes and crc32c. Every chunk that is read is compared with its checksum in the manifest. A damaged
chunk, or a chunk from another position or another store, is therefore an error.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

import google_crc32c
import numpy as np

from hofs_dask.errors import AGAIN, CodeStoreError
from hofs_dask.io.files import READ_FLAGS
from hofs_dask.io.places import Place
from hofs_dask.kernels.planes import WORD, first_bits
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.store.manifest import Table

#: The value that Zarr reads for absent chunks of codes; no code has this value.
CODE_FILL = 255

CHECKSUM_BYTES = 4
ALIGNMENT = 64


@dataclass(frozen=True)
class ColumnKind:
    """The dtype and the fill value of an array with one value per sample.

    No sample has the fill value.
    """

    dtype: str
    fill: int

    @property
    def itemsize(self) -> int:
        """The bytes of a value."""
        return np.dtype(self.dtype).itemsize

    def whole(self, values: np.ndarray, chunk_rows: int) -> np.ndarray:
        """Return values padded with the fill value to the length of a chunk.

        Examples
        --------
        >>> COLUMNS["labels"].whole(np.array([0, 1], np.uint8), 4)
        array([  0,   1, 255, 255], dtype=uint8)
        """
        found = np.full(chunk_rows, self.fill, self.dtype)
        found[: len(values)] = values
        return found

    def values(self, content: np.ndarray, n_rows: int) -> np.ndarray:
        """Return the first values of the bytes of a chunk.

        Examples
        --------
        >>> COLUMNS["groups"].values(np.array([7, 0, 0, 0, 8, 0, 0, 0], np.uint8), 1)
        array([7], dtype=uint32)
        """
        native = np.dtype(self.dtype).newbyteorder("=")
        return content.view(self.dtype)[:n_rows].astype(native, copy=False)


#: The arrays with one value per sample, by the first part of their names.
COLUMNS = {
    "labels": ColumnKind("|u1", 255),
    "groups": ColumnKind("<u4", 2**32 - 1),
    "weights": ColumnKind("<u2", 0),
}


@dataclass(frozen=True)
class Chunks:
    """A reader of the chunks of one array of a code store.

    Attributes
    ----------
    store : str
        Path of the store, for messages.
    place : Place
        The folder of the array.
    name : str
        Name of the array.
    chunk_bytes : int
        Bytes of a chunk without its checksum.
    checksums : dict of int to ndarray of uint32 (row chunk)
        Checksums of the chunks of each feature tile. Labels, groups, weights and copied columns
        have only tile 0.
    """

    store: str
    place: Place
    name: str
    chunk_bytes: int
    checksums: Mapping[int, np.ndarray]

    def only(self, tiles: set[int]) -> Chunks:
        """Return a reader of the chunks of some tiles."""
        some = {tile: self.checksums[tile] for tile in sorted(tiles)}
        return Chunks(self.store, self.place, self.name, self.chunk_bytes, some)

    def read(self, tile: int, row: int, *, keep: bool = True) -> np.ndarray:
        """Return the bytes of a chunk.

        Parameters
        ----------
        tile, row : int
            The index of the chunk along the features and along the samples.
        keep : bool
            Whether the bytes must stay valid. If False, they are overwritten when this thread reads
            the next chunk with ``keep=False``.

        Raises
        ------
        CodeStoreError
            The chunk is missing, unreadable or not the one that was written.
        """
        # remote storage is asked twice: an answer may be stale, or damaged on its way
        for _ in range(1 if self.place.is_local else 2):
            try:
                content = self._fetch(self._file(tile, row), keep)
            except OSError as error:
                raise self._unread(tile, row, error) from error
            if content is None:
                what = "does not have the size that was written"
            elif google_crc32c.value(content) != self.checksums[tile][row]:
                what = "does not match its checksum"
            else:
                return content
        raise self._damaged(tile, row, what)

    def refuse(self, tile: int, row: int, what: str) -> CodeStoreError:
        """Return the error for a chunk with invalid content."""
        return self._damaged(tile, row, what)

    def _file(self, tile: int, row: int) -> str:
        return chunk_file(self.name, tile, row)

    def _fetch(self, name: str, keep: bool) -> np.ndarray | None:
        """Return the bytes of a chunk, or None if its size is wrong."""
        n_bytes = self.chunk_bytes + CHECKSUM_BYTES
        if not self.place.is_local:
            fetched = self.place.read(name, n_bytes)
            whole = np.frombuffer(fetched, np.uint8)
            if len(whole) != n_bytes:
                return None
            content = _buffer(n_bytes, keep)
            content[:] = whole
            return content[: self.chunk_bytes]
        handle = os.open(f"{self.place.path}/{name}", READ_FLAGS)
        try:
            # the size of a pipe or a device is 0
            if os.fstat(handle).st_size != n_bytes:
                return None
            content = _buffer(n_bytes, keep)
            n_read = os.readv(handle, [content.data])
            while 0 < n_read < n_bytes:
                more = os.readv(handle, [content.data[n_read:]])
                n_read += more
                if not more:
                    break
        finally:
            os.close(handle)
        return content[: self.chunk_bytes] if n_read == n_bytes else None

    def _unread(self, tile: int, row: int, error: OSError) -> CodeStoreError:
        """Return the error for a chunk that could not be read."""
        if isinstance(error, FileNotFoundError):
            return self._damaged(tile, row, f"cannot be read ({error.strerror or error})")
        return unread(self.store, self.name, (tile, row), error)

    def _damaged(self, tile: int, row: int, what: str) -> CodeStoreError:
        try:
            is_gone = not self.place.children()
        except OSError as error:
            return unread(self.store, self.name, (tile, row), error)
        if is_gone:
            return CodeStoreError(
                f"the code store {self.store!r} was encoded again or removed after it was opened, "
                f"or cannot be reached from {socket.gethostname()}; open it again by a path that "
                "all workers can reach"
            )
        return damaged(self.store, self.name, (tile, row), what, is_local=self.place.is_local)


@dataclass(frozen=True)
class HeldChunks:
    """The chunks of an array of a code store that is in the memory of this process.

    Attributes
    ----------
    name : str
        Name of the array.
    arrays : dict of tuple of int to ndarray
        The chunks by tile and row chunk. Chunks of codes are bit planes, uint64 (feature, bit,
        word), without padding; all others have one value per sample.
    """

    name: str
    arrays: Mapping[tuple[int, int], np.ndarray]

    @property
    def nbytes(self) -> int:
        """The bytes of all chunks."""
        return sum(each.nbytes for each in self.arrays.values())


def chunk_file(name: str, tile: int, row: int) -> str:
    """Return the file name of a chunk. For labels, groups and weights, the tile is not part of it.

    Examples
    --------
    >>> chunk_file("codes", 0, 3), chunk_file("labels/y", 0, 3)
    ('codes/c/0/3', 'labels/y/c/3')
    """
    return f"{name}/c/{row}" if name.split("/")[0] in COLUMNS else f"{name}/c/{tile}/{row}"


def write_chunk(place: Place, file: str, content: np.ndarray) -> int:
    """Write a chunk atomically and return its checksum.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hex(write_chunk(Place(folder), "labels/y/c/0", np.arange(4, dtype=np.uint8)))
    '0xd9331aa3'
    """
    octets = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    checksum: int = google_crc32c.value(octets)
    place.write(file, [octets.data, checksum.to_bytes(CHECKSUM_BYTES, "little")])
    return checksum


def whole_planes(planes: np.ndarray, n_samples: int, chunk: tuple[int, int]) -> np.ndarray:
    """Return bit planes padded to the size of a whole chunk, for the last chunks along an axis.

    Parameters
    ----------
    planes : ndarray of uint64 (feature, bit, word)
        The planes of the existing features and samples.
    n_samples : int
        The number of existing samples.
    chunk : tuple of int
        Number of samples and of features in a chunk.

    Examples
    --------
    >>> whole_planes(np.zeros((1, 1, 1), np.uint64), 2, (4, 1))
    array([[[12]]], dtype=uint64)
    """
    if n_samples == chunk[0] and len(planes) == chunk[1]:
        return np.ascontiguousarray(planes, "<u8")
    # all bits of the fill value are set
    whole = np.empty((chunk[1], planes.shape[1], -(-chunk[0] // WORD)), "<u8")
    whole[:] = first_bits(chunk[0], whole.shape[2])
    own = whole[: len(planes), :, : planes.shape[2]]
    own[:] = own & ~first_bits(n_samples, planes.shape[2]) | planes
    return whole


def write_table(place: Place, name: str, table: np.ndarray) -> Table:
    """Write a small array as one chunk, and return its record for the manifest."""
    dtype = table.dtype.newbyteorder("<")
    stored = np.ascontiguousarray(table, dtype)
    write_chunk(place, _table_file(name, stored.ndim), stored)
    return Table(dtype.str, stored.shape, hashlib.sha256(stored.tobytes()).hexdigest())


def read_table(store: str, place: Place, name: str, table: Table) -> np.ndarray:
    """Return a small array of a store.

    Raises
    ------
    CodeStoreError
        The array is missing, unreadable or not the one that was written.
    """
    shape = table.shape
    first = (0,) * len(shape)
    try:
        content = place.read(_table_file(name, len(shape)), table.nbytes + CHECKSUM_BYTES)
    except FileNotFoundError as error:
        why = f"cannot be read ({error.strerror or error})"
        raise damaged(store, name, first, why, is_local=place.is_local) from error
    except OSError as error:
        raise unread(store, name, first, error) from error
    own = content[: table.nbytes]
    if len(own) < table.nbytes or hashlib.sha256(own).hexdigest() != table.sha256:
        raise damaged(store, name, first, "does not match its checksum", is_local=place.is_local)
    return np.frombuffer(own, table.dtype).reshape(shape).astype(np.dtype(table.dtype).type)


def damaged(
    store: str, name: str, chunk: tuple[int, ...], what: str, *, is_local: bool
) -> CodeStoreError:
    """Return the error for a damaged chunk; ``what`` is a verb phrase that says what is wrong.

    Remote storage may have returned an old version or damaged the chunk on its way.
    """
    first = "" if is_local else "run the same call again; if the error remains, "
    return CodeStoreError(
        f"chunk {chunk} of array {name!r} in the code store {store!r} {what}; {first}remove the "
        "store and encode the data again"
    )


def unread(store: str, name: str, chunk: tuple[int, ...], error: OSError) -> CodeStoreError:
    """Return the error for a chunk that may exist, but could not be read."""
    return CodeStoreError(
        f"chunk {chunk} of array {name!r} in the code store {store!r} cannot be read "
        f"({error.strerror or error}); {AGAIN}"
    )


def _table_file(name: str, ndim: int) -> str:
    return f"{name}/c/{'/'.join('0' * ndim)}"


def _buffer(n_bytes: int, keep: bool) -> np.ndarray:
    """Return memory that is aligned to 64 bytes, because reading into it is five times faster."""
    n_all = n_bytes + ALIGNMENT
    buffer = np.empty(n_all, np.uint8) if keep else PROCESS.memory("chunk", n_all)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + n_bytes]
