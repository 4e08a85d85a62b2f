"""Conversion of data in memory, files and Zarr stores to chunked Dask arrays."""

from __future__ import annotations

from typing import Any

import dask.array.core as da
import numpy as np
import xarray as xr

from hofs_dask.io.fingerprint import Identity, array_identity, unique_digest
from hofs_dask.io.graphs import classic, guard_arrays, guard_node, with_fixed_tasks
from hofs_dask.scheduling.compute import is_here

#: Data without chunks is split into blocks of rows with about this many bytes.
BLOCK_BYTES = 64 * 2**20
#: Number of features that a block of a Zarr array should have, so that encoding needs few blocks.
BLOCK_FEATURES = 1024


def open_grid(data: xr.DataArray) -> tuple[xr.DataArray, Identity]:
    """Return a DataArray, chunked with Dask unless it is in memory, and its identity.

    Reading a Zarr chunk that was removed after this call raises an error.

    Examples
    --------
    >>> import xarray as xr
    >>> open_grid(xr.DataArray([1, 2, 3]))[0].chunks is None
    True
    """
    if data.chunks is not None:
        array, identity = open_dask(classic(data.data))
        return (data if array is data.data else data.copy(data=array)), identity
    if data.variable._in_memory:
        return data, array_identity(data.data)
    lazy = guard_node(data.variable._data)
    identity = array_identity(lazy)
    # Whole shards: with one Dask chunk per inner chunk, a shard would be decoded many times,
    # https://github.com/dask/dask/issues/12586
    named = (data.encoding.get(key) for key in ("shards", "chunks", "chunksizes"))
    grid = next((grid for grid in named if grid and len(grid) == data.ndim), (1, *data.shape[1:]))
    chunks = _block_chunks(data.shape, grid, data.dtype.itemsize)
    token = unique_digest([identity.fingerprint])
    chunked = data.copy(data=lazy).chunk(dict(zip(data.dims, chunks, strict=True)), token=token)
    return chunked.copy(data=classic(chunked.data)), identity


def open_dask(array: da.Array) -> tuple[da.Array, Identity]:
    """Return a dask array and its identity.

    Reading a Zarr chunk that was removed after this call raises an error.

    Examples
    --------
    >>> import dask.array
    >>> open_dask(dask.array.zeros(3))[0].shape
    (3,)
    """
    array = guard_arrays(array)
    return with_fixed_tasks(array), array_identity(array)


def open_zarr(array: Any, identity: Identity) -> Any:
    """Return an open Zarr array with a known identity as a dask array.

    Examples
    --------
    >>> import zarr
    >>> open_zarr(zarr.zeros((5, 2), chunks=(2, 2)), Identity("x")).shape
    (5, 2)
    """
    grid = array.shards or array.chunks
    # The fingerprint is part of the name, so that a changed store gets a different name.
    token = unique_digest([str(array.store_path), identity.fingerprint])
    chunks = _block_chunks(array.shape, grid, array.dtype.itemsize)
    return da.from_array(array, chunks=chunks, name=f"source-{token}")


class InPlace:
    """A numpy array that tasks of this process slice; Dask would copy the array itself.

    Examples
    --------
    >>> import numpy as np
    >>> InPlace(np.arange(3))[1:]
    array([1, 2])
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, place: Any) -> np.ndarray:
        found: np.ndarray = self._array[place]
        return found


def row_blocks(array: Any, row_bytes: int, name: str) -> Any:
    """Return an array as a dask array; data in memory is split into row blocks of about 64 MiB.

    ``row_bytes`` is the size of one row over all parts of the data. ``name`` is the name of the
    dask array; if no name were given, Dask would hash the content again.

    Examples
    --------
    >>> import numpy as np
    >>> row_blocks(np.zeros((5, 2)), BLOCK_BYTES // 3, "x").chunks
    ((3, 2), (2,))
    """
    if isinstance(array, da.Array):
        return array
    rows = max(1, BLOCK_BYTES // max(row_bytes, 1))
    chunks = (min(rows, len(array)), *array.shape[1:])
    held = np.asarray(array)
    return da.from_array(InPlace(held) if is_here() else held, chunks=chunks, name=name)


def without_mask(array: Any) -> Any:
    """Return a numpy array with masked values set to NaN, or to None if they are not numbers.

    Examples
    --------
    >>> import numpy as np
    >>> without_mask(np.ma.masked_array([1, 2], [False, True]))
    array([ 1., nan])
    """
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if array.dtype.kind in "bOUST":
        objects = np.array(array.data, dtype=object)
        objects[np.ma.getmaskarray(array)] = None
        return objects
    return np.ma.filled(array.astype(np.result_type(array.dtype, np.float32)), np.nan)


def canonical(array: Any) -> Any:
    """Return a dask array of numbers in native byte order, or of objects, without masks.

    Examples
    --------
    >>> import dask.array as da
    >>> canonical(da.ones(3, dtype=">f4")).dtype.isnative
    True
    """
    if isinstance(array._meta, np.ma.MaskedArray):
        array = array.map_blocks(without_mask, meta=without_mask(array._meta))
    dtype = array.dtype
    if dtype.kind in "UST":
        return array.map_blocks(_as_objects, dtype=object, meta=np.empty((0,) * array.ndim, object))
    if dtype.kind == "f" and dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def native(array: np.ndarray) -> np.ndarray:
    """Return a numpy array as native numbers or objects, without a mask; see `canonical`.

    Examples
    --------
    >>> import numpy as np
    >>> native(np.ones(3, dtype=">f4")).dtype.isnative
    True
    """
    array = np.asarray(without_mask(array))
    if array.dtype.kind in "UST":
        return _as_objects(array)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def unify(parts: list[da.Array]) -> tuple[da.Array, ...]:
    """Return the parts of the data, rechunked along the samples to the chunks of the first part.

    Examples
    --------
    >>> import dask.array as da
    >>> [part.chunks[0] for part in unify([da.ones((4, 1), chunks=2), da.ones((4, 1), chunks=3)])]
    [(2, 2), (2, 2)]
    """
    rows = tuple(size for size in parts[0].chunks[0] if size)
    return tuple(part if part.chunks[0] == rows else part.rechunk({0: rows}) for part in parts)


def _block_chunks(shape: tuple[int, ...], grid: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return chunk sizes for blocks of about `BLOCK_FEATURES` features and `BLOCK_BYTES` bytes.

    They are multiples of ``grid``, the sizes of the stored chunks, but not larger than ``shape``.
    """
    chunks = [max(1, min(size, chunk)) for size, chunk in zip(shape, grid, strict=True)]
    if len(chunks) > 1:
        chunks[-1] = min(shape[-1], chunks[-1] * max(1, BLOCK_FEATURES // chunks[-1]))
    nbytes = int(np.prod(chunks)) * itemsize
    if chunks:
        chunks[0] = min(shape[0], chunks[0] * max(1, BLOCK_BYTES // max(nbytes, 1)))
    return tuple(max(1, chunk) for chunk in chunks)


def _as_objects(block: np.ndarray) -> np.ndarray:
    if block.dtype.kind == "S":
        block = np.char.decode(block, "utf-8", "replace")
    return block.astype(object)
