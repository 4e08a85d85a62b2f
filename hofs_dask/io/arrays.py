"""Readers of unlabelled numpy, Dask and Zarr arrays, and of paths of Zarr stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array.core as da
import numpy as np
import xarray as xr
import zarr

from hofs_dask.errors import AGAIN, unknown
from hofs_dask.io.blocks import open_dask, open_zarr, without_mask
from hofs_dask.io.columns import (
    Column,
    Features,
    is_nominal,
    refuse_sparse,
)
from hofs_dask.io.fingerprint import Identity, array_identity, store_identity
from hofs_dask.io.graphs import classic
from hofs_dask.io.grids import from_dataset
from hofs_dask.io.guard import guarded
from hofs_dask.io.places import Place
from hofs_dask.io.reading import DEFAULTS, Reading
from hofs_dask.io.storage import check_metadata_files, place_of
from hofs_dask.io.table_files import SUFFIXES
from hofs_dask.io.targets import as_column, names_column, zarr_column


def from_array(
    data: Any, target: Any, identity: Identity | None = None
) -> tuple[Features, Column | None]:
    """Return the features of a numpy or dask array, and the target as a `Column`.

    ``identity`` is the identity (fingerprint and origins) of the array, if it is already known.

    Examples
    --------
    >>> import numpy as np
    >>> features, column = from_array(np.zeros((4, 2)), [0, 1, 0, 1])
    >>> features.names, column.name
    (['x0', 'x1'], 'target')
    """
    refuse_sparse("the data", data)
    data = classic(data)
    if not isinstance(data, da.Array):
        data = without_mask(data)
    if not isinstance(data, np.ndarray | da.Array):
        raise TypeError(
            f"data is a {type(data).__name__}; give a numpy or dask array, a dict of arrays, a "
            "pandas or dask DataFrame, an xarray DataArray or Dataset, an Arrow table, or the path "
            "of a Zarr store or of Parquet or CSV files (docs/options.md lists all kinds of data)"
        )
    if data.ndim != 2:
        raise ValueError(
            f"data has shape {data.shape}; give two dimensions, (sample, feature), for example "
            "data.reshape(len(data), -1)"
        )
    if names_column(target):
        raise unnamed("target", target)
    if identity is None and isinstance(data, da.Array):
        data, identity = open_dask(data)
    features = Features(
        names=[f"x{j}" for j in range(data.shape[1])],
        parts=[data],
        nominal=[is_nominal(data.dtype)] * data.shape[1],
        identity=identity or array_identity(data),
        sample_shape=data.shape[:1],
    )
    return features, as_column(target)


def open_path(place: Place) -> Any:
    """Return the Zarr array or group at a place.

    Examples
    --------
    >>> open_path(Place("/no/such.zarr"))
    Traceback (most recent call last):
    ...
    FileNotFoundError: no such path: '/no/such.zarr'; give the path of a Zarr store
    """
    path = place.path
    if place.is_local and not Path(path).exists():
        raise FileNotFoundError(f"no such path: {path!r}; give the path of a Zarr store")
    if place.is_local:
        check_metadata_files(path)
    options: Any = place.options
    try:
        node: Any = (
            zarr.open(path, mode="r", storage_options=options)
            if place.store is None
            else zarr.open(place.store, path=place.prefix.rstrip("/"), mode="r")
        )
    except FileNotFoundError as error:
        if place.is_local and Path(path).is_dir() and not any(Path(path).iterdir()):
            raise ValueError(
                f"the folder {path!r} is empty; give a folder of Parquet or CSV files, or a Zarr "
                "store"
            ) from error
        kind = ValueError if place.is_local else FileNotFoundError
        hint = "np.load(path, mmap_mode='r')" if path.endswith(".npy") else "the path of one"
        raise kind(
            f"no Zarr array or group at {path!r}; give {hint}, or a table in files that end with "
            f"{', '.join(SUFFIXES)}; compressed CSV is not supported"
        ) from error
    except PermissionError:
        raise
    except OSError as error:
        if place.is_local:
            raise _unopened(path, error) from error
        raise OSError(f"the Zarr store {path!r} cannot be read ({error}); {AGAIN}") from error
    except Exception as error:
        # the type of the error depends on which metadata is damaged
        raise _unopened(path, error) from error
    return node


def _unopened(path: str, error: Exception) -> ValueError:
    return ValueError(
        f"the Zarr array or group at {path!r} cannot be opened ({error}); write it again"
    )


def from_zarr(
    node: Any, address: str, target: Any, reading: Reading = DEFAULTS
) -> tuple[Features, Column | None]:
    """Return the features of an open Zarr array or group, and the target as a `Column`.

    ``address`` is the path or URL of the array or group, for error messages.

    Examples
    --------
    >>> import zarr
    >>> from_zarr(zarr.zeros((4, 2)), "x.zarr", None)[0].names
    ['x0', 'x1']
    """
    ours, arrays = _describe(node, address)
    if _is_ours(ours):
        raise ValueError(
            f"{address!r} contains {ours}, not data; give the data itself (select, compare and "
            "matrix accept codes)"
        )
    if isinstance(node, zarr.Array):
        reading.refuse_dims(f"the Zarr array {address!r}")
        node = guarded(node)
        identity = store_identity(node, "")
        return from_array(open_zarr(node, identity), target, identity)
    if not arrays:
        raise ValueError(
            f"the Zarr group {address!r} contains no arrays; give the path of a group with arrays"
        )
    if _has_dims(arrays):
        return from_dataset(_open_dataset(node, address), target, reading)
    reading.refuse_dims(f"the table in the Zarr group {address!r}, which has arrays without dims,")
    if names_column(target) and target not in arrays:
        raise unknown(f"array of the Zarr group {address!r} for the target", target, arrays)
    tables = [
        name
        for name, array in arrays.items()
        if array.ndim == 2 and not (names_column(target) and name == target)
    ]
    if len(tables) != 1:
        raise ValueError(
            f"the Zarr group {address!r} contains {len(tables)} arrays with two dimensions "
            f"{tables}, expected one; give the path of the array, or write the group with xarray"
        )
    table, place = guarded(arrays[tables[0]]), place_of(node)
    own = None if names_column(target) else target
    identity = store_identity(table, tables[0], place)
    features, column = from_array(open_zarr(table, identity), own, identity)
    if names_column(target):
        column = zarr_column(arrays[target], str(target), place)
    return features, column


def open_named(node: Any, address: str, name: Any, role: str) -> xr.Dataset | Column:
    """Return a Zarr group as a Dataset if xarray wrote it, else its array ``name`` as a column.

    ``role`` is the option that was given this name, for error messages.
    """
    if isinstance(node, zarr.Array):
        raise unnamed(role, name)
    _, arrays = _describe(node, address)
    if arrays and _has_dims(arrays):
        return _open_dataset(node, address)
    if name not in arrays:
        raise unknown(f"array of the Zarr group {address!r} for {role}", name, arrays)
    return zarr_column(arrays[name], str(name), place_of(node))


def unnamed(role: str, name: Any) -> ValueError:
    """Return the error for a target or other column that is given by name for unnamed columns."""
    what = f"the {role}" if role == "target" else role
    return ValueError(
        f"{role} is the name {name!r}, but the columns of an array have no names; give {what} as "
        "an array"
    )


def _has_dims(arrays: dict[str, Any]) -> bool:
    return all(_dim_names(array) is not None for array in arrays.values())


def _open_dataset(node: Any, address: str) -> xr.Dataset:
    """Return a group that xarray wrote as a Dataset, with the variables sorted by name."""
    consolidated = node.metadata.consolidated_metadata is not None
    dataset: xr.Dataset
    try:
        dataset = xr.open_zarr(node.store, group=node.path, chunks=None, consolidated=consolidated)
    except Exception as error:
        # xarray reads the coordinates here; for damaged data, the type of the error depends on the
        # codec
        raise ValueError(
            f"the Zarr group at {address!r} cannot be opened by xarray ({error}); write it again"
        ) from error
    if consolidated:
        return dataset
    # a store lists its arrays in any order, but their order is part of the fingerprint
    return dataset[sorted(dataset.data_vars, key=str)]


def _is_ours(file_format: object) -> bool:
    return isinstance(file_format, str) and file_format.startswith("hofs_dask ")


def _describe(node: Any, address: str) -> tuple[object, dict[str, Any]]:
    """Return the ``format`` attribute of a Zarr array or group, and the arrays in the group."""
    try:
        ours = node.attrs.get("format")
        is_group = not isinstance(node, zarr.Array) and not _is_ours(ours)
        return ours, dict(sorted(node.arrays())) if is_group else {}
    except Exception as error:
        # the type of the error depends on which metadata is damaged
        raise ValueError(
            f"the metadata of the Zarr array or group at {address!r} cannot be read ({error}); "
            "write it again"
        ) from error


def _dim_names(array: Any) -> Any:
    """Return the names of the dims of a Zarr array, or None if its dims have no names."""
    names = getattr(array.metadata, "dimension_names", None)
    return names if names is not None else array.attrs.get("_ARRAY_DIMENSIONS")
