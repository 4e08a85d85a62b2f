"""Zarr arrays that raise an error if a chunk was removed or is too large.

Zarr reads a missing chunk as the fill value, even if the chunk was removed after the array was
opened, or if the worker cannot reach the disk. The arrays of this module raise an error in both
cases.
"""

from __future__ import annotations

import bz2
import math
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import zarr
from zarr.core.array import AsyncArray
from zarr.storage import LocalStore, StorePath, WrapperStore

from hofs_dask.errors import AGAIN
from hofs_dask.io.listings import Listing, chunk_at, list_array
from hofs_dask.io.storage import check_file, local_root, metadata_key, place_of, refuse_pickle

#: The maximum size of a chunk is twice the bytes that follow from its shape and dtype, plus these.
SPARE_BYTES = 2**20


class GuardedStore(WrapperStore[Any]):
    """A wrapper of the store of one Zarr array; reading a missing chunk raises an error.

    Only chunks that existed when the array was opened count as missing.

    Parameters
    ----------
    store : zarr.abc.store.Store
        The store to read from.
    array : zarr.Array
        The array in the store.
    listing : Listing
        Listing of the array, made when it was opened.
    """

    is_guard = True

    def __init__(self, store: Any, array: Any, listing: Listing) -> None:
        super().__init__(store)
        self.listing = listing
        self._metadata = metadata_key(array)
        self._prefix = f"{array.path}/" if array.path else ""
        self._ndim = array.ndim
        self.place = place_of(array) or str(array.store_path)
        self._root = local_root(store)
        self.most = most_bytes(array)
        self.compressor = compressor_name(array)

    def _with_store(self, store: Any) -> GuardedStore:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _store=store)
        return other

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return the value of a key; raise an error if a chunk was removed or is too large."""
        name = key.removeprefix(self._prefix)
        at = chunk_at(name, self._ndim)
        if at is None:
            return await self._store.get(key, prototype, byte_range)
        if self._root is not None:
            check_file(f"{self._root}/{key}", self.most)
        found = await self._asked(at, self._store.get(key, prototype, byte_range))
        if found is None:
            if not await self._asked(at, self._store.exists(self._metadata)):
                raise no_array(self.place)
            if self.listing.present is not None and self.listing.present.holds(at):
                raise lost_chunk(at, self.place)
        elif byte_range is None and self.most is not None and self.compressor is not None:
            content = memoryview(found.as_numpy_array()).cast("B")
            if unpacked_size(self.compressor, content, self.most) > self.most:
                raise ValueError(
                    f"chunk {at} of the Zarr array {self.place!r} decompresses to more than "
                    f"{self.most} bytes, twice the size of its shape; write the array again"
                )
        return found

    async def _asked(self, at: tuple[int, ...], request: Awaitable[Any]) -> Any:
        """Return the answer to a request; if remote storage fails, the error names the chunk."""
        try:
            return await request
        except Exception as error:
            if self._root is not None:
                raise
            raise OSError(
                f"chunk {at} of the Zarr array {self.place!r} cannot be read "
                f"({type(error).__name__}: {error}); {AGAIN}"
            ) from error


class GuardedArray(zarr.Array[Any]):
    """A Zarr array in a `GuardedStore`. If a chunk cannot be decoded, the error names the array."""

    def get_basic_selection(self, *arguments: Any, **options: Any) -> Any:
        """Do the same as the method of `zarr.Array`, with errors that name the array."""
        return self._named(super().get_basic_selection, *arguments, **options)

    def get_orthogonal_selection(self, *arguments: Any, **options: Any) -> Any:
        """Do the same as the method of `zarr.Array`, with errors that name the array."""
        return self._named(super().get_orthogonal_selection, *arguments, **options)

    def get_coordinate_selection(self, *arguments: Any, **options: Any) -> Any:
        """Do the same as the method of `zarr.Array`, with errors that name the array."""
        return self._named(super().get_coordinate_selection, *arguments, **options)

    def _named(self, select: Callable[..., Any], selection: Any, **options: Any) -> Any:
        store: Any = self.store
        place = store.place
        try:
            return select(selection, **options)
        except IndexError:
            raise
        except Exception as error:
            # for a damaged chunk, the type of the error depends on the codec
            if place in str(error):
                raise
            raise ValueError(
                f"a chunk of the Zarr array {place!r} cannot be read ({error}), within the "
                f"selection {selection}; write the array again"
            ) from error


def guarded(array: zarr.Array[Any]) -> zarr.Array[Any]:
    """Return a Zarr array; reading one of its chunks that was removed after this call is an error.

    Examples
    --------
    >>> array = zarr.array([1, 2, 3])
    >>> _ = zarr.core.sync.sync(array.store.delete("c/0"))
    >>> array[:].tolist()
    [0, 0, 0]
    >>> array = guarded(zarr.array([1, 2, 3]))
    >>> _ = zarr.core.sync.sync(array.store.delete("c/0"))
    >>> array[:]
    Traceback (most recent call last):
    ...
    FileNotFoundError: chunk (0,) of the Zarr array ... was removed after the array was opened ...
    """
    if isinstance(array.store, GuardedStore):
        return array
    refuse_pickle(array, place_of(array) or str(array.store_path))
    return _with_listing(array, list_array(array))


def listing_of(array: zarr.Array[Any]) -> Listing:
    """Return the listing of a guarded array, or a new listing of any other array.

    Examples
    --------
    >>> listing_of(guarded(zarr.zeros((4, 2), chunks=(2, 2)))).present.n_absent
    2
    """
    store: Any = array.store
    return store.listing if isinstance(store, GuardedStore) else list_array(array)


def _with_listing(array: zarr.Array[Any], listing: Listing) -> zarr.Array[Any]:
    inner: Any = array.store
    if isinstance(inner, GuardedStore):
        inner = inner._store
    if type(inner) is LocalStore and not inner.root.is_absolute():
        # an absolute path is valid in every process
        inner = LocalStore(inner.root.absolute(), read_only=True)
    store = GuardedStore(inner, array, listing)
    config: Any = array._async_array
    config = getattr(config, "config", None) or config._config
    made: Any = AsyncArray(array.metadata, StorePath(store, array.path), config)
    return GuardedArray(made)


def no_array(place: str) -> FileNotFoundError:
    """Return the error for an array that does not exist on this machine.

    Examples
    --------
    >>> no_array("/data/x.zarr")
    FileNotFoundError("there is no Zarr array at '/data/x.zarr' on ...
    """
    return FileNotFoundError(
        f"there is no Zarr array at {place!r} on {socket.gethostname()}; give a path that all "
        "workers can reach"
    )


def lost_chunk(at: tuple[int, ...], place: str) -> FileNotFoundError:
    """Return the error for a chunk that was removed after the array was opened.

    Examples
    --------
    >>> lost_chunk((0, 1), "/data/x.zarr")
    FileNotFoundError("chunk (0, 1) of the Zarr array '/data/x.zarr' was removed after ...
    """
    return FileNotFoundError(
        f"chunk {at} of the Zarr array {place!r} was removed after the array was opened (on "
        f"{socket.gethostname()}); write the array again, or open it again if it was changed"
    )


def most_bytes(array: zarr.Array[Any]) -> int | None:
    """Return the maximum number of bytes of a chunk, or None if the values have no fixed size.

    Examples
    --------
    >>> most_bytes(zarr.zeros((4, 2), chunks=(2, 2))) == 2 * 32 + SPARE_BYTES
    True
    """
    if array.dtype.kind in "OT":
        return None
    n_cells = math.prod(array.shards or array.chunks)
    return 2 * n_cells * max(array.dtype.itemsize, 1) + SPARE_BYTES


def compressor_name(array: zarr.Array[Any]) -> str | None:
    """Return the name of the compressor of an array, or None if `unpacked_size` cannot handle it.

    Examples
    --------
    >>> compressor_name(zarr.create_array({}, shape=3, dtype="i4", compressors=None)) is None
    True
    """
    metadata: Any = array.metadata.to_dict()
    if metadata["zarr_format"] == 2:
        names = [(metadata["compressor"] or {}).get("id", "")]
    else:
        names = [str(codec["name"]) for codec in metadata["codecs"]]
    known = [name.removeprefix("numcodecs.") for name in reversed(names)]
    return next((name for name in known if name in _SIZES), None)


def unpacked_size(compressor: str, content: memoryview, most: int) -> int:
    """Return an upper bound of the decompressed size of a chunk, or a number above ``most``.

    The size is read from the header. Formats without a size in the header are decompressed piece
    by piece until ``most`` is exceeded. For a damaged chunk, the result is 0; the decoder raises an
    error later.

    Examples
    --------
    >>> import zlib
    >>> unpacked_size("zlib", memoryview(zlib.compress(bytes(1000))), 100) > 100
    True
    """
    try:
        return _SIZES[compressor](content, most)
    except (struct.error, zlib.error, OSError, ValueError, IndexError):
        return 0


def _blosc_size(content: memoryview, most: int) -> int:  # noqa: ARG001
    return int(struct.unpack_from("<I", content, 4)[0])


def _lz4_size(content: memoryview, most: int) -> int:  # noqa: ARG001
    return int(struct.unpack_from("<I", content, 0)[0])


def _zstd_size(content: memoryview, most: int) -> int:
    """Return the total size of all frames (RFC 8878); a compressed block has at most 128 KiB."""
    total = at = 0
    while at < len(content) and total <= most:
        (magic,) = struct.unpack_from("<I", content, at)
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a skippable frame
            at += 8 + struct.unpack_from("<I", content, at + 4)[0]
            continue
        if magic != 0xFD2FB528:
            break
        flags = content[at + 4]
        single = flags >> 5 & 1
        at += 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
        width = (single, 2, 4, 8)[flags >> 6]
        size = int.from_bytes(content[at : at + width], "little") + (256 if width == 2 else 0)
        at += width
        blocks, last = 0, False
        while not last:
            header = int.from_bytes(content[at : at + 3], "little")
            last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
            blocks += length if kind < 2 else 2**17
            at += 3 + (1 if kind == 1 else length)
            if at > len(content):
                break
        at += 4 * (flags >> 2 & 1)
        total += size if width else blocks
    return total


def _stream_size(new: Callable[[], Any]) -> Callable[[memoryview, int], int]:
    def size(content: memoryview, most: int) -> int:
        total, left = 0, bytes(content)
        stream = new()
        while left and total <= most:
            total += len(stream.decompress(left, 2**16))
            if stream.eof:  # several streams may follow each other
                left, stream = stream.unused_data, new()
            else:
                left = getattr(stream, "unconsumed_tail", b"")
        return total

    return size


def _bz2_size(content: memoryview, most: int) -> int:
    total, left = 0, bytes(content)
    while left and total <= most:
        stream = bz2.BZ2Decompressor()
        while not stream.eof and total <= most and (left or not stream.needs_input):
            total += len(stream.decompress(left, 2**16))
            left = b""
        left = stream.unused_data
    return total


_SIZES: dict[str, Callable[[memoryview, int], int]] = {
    "blosc": _blosc_size,
    "bz2": _bz2_size,
    "gzip": _stream_size(lambda: zlib.decompressobj(31)),
    "lz4": _lz4_size,
    "zlib": _stream_size(zlib.decompressobj),
    "zstd": _zstd_size,
}
