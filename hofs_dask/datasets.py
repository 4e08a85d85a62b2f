"""The Dataset behind a result: how it is made, written and read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import zarr
from numpy.typing import NDArray

from hofs_dask.data.paths import as_path, is_url

if TYPE_CHECKING:
    import xarray as xr

Result = TypeVar("Result")


def annotated(
    columns: Mapping[str, NDArray[Any]], table: Mapping[str, tuple[str | tuple[str, ...], str, str]]
) -> dict[str, tuple[str | tuple[str, ...], NDArray[Any], dict[str, str]]]:
    """Return what xarray makes variables of: those of the table, with units and long names.

    Examples
    --------
    >>> annotated({"score": np.zeros(1)}, {"score": ("rank", "nats", "criterion")})
    {'score': ('rank', array([0.]), {'long_name': 'criterion', 'units': 'nats'})}
    """
    return {
        name: (dims, columns[name], {"long_name": long_name, "units": units})
        for name, (dims, units, long_name) in table.items()
    }


def plain(attrs: Mapping[str, object]) -> dict[str, str | float]:
    """Return the attributes as plain strings and numbers, which every store can hold.

    Examples
    --------
    >>> plain({"n_samples": np.int64(7), "whole": True})
    {'n_samples': 7, 'whole': 1}
    """
    return {name: _plain(name, value) for name, value in attrs.items()}


def write_zarr(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """Write the dataset of a result to a new Zarr store, or over an earlier result of its kind.

    Examples
    --------
    >>> import tempfile
    >>> import xarray as xr
    >>> result = xr.Dataset({"feature": ["a"]}, attrs={"format": "hofs_dask selection"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_zarr(result, folder)
    ...     xr.open_zarr(folder, consolidated=False).attrs["format"]
    'hofs_dask selection'
    """
    address = as_path(path)
    earlier = _zarr_format(address) == dataset.attrs["format"]
    if not earlier and not is_url(address) and _is_occupied(Path(address)):
        raise _taken(path, dataset)
    # Zarr v3 has no specification of consolidated metadata: asking for it warns.
    _packed(dataset).to_zarr(address, mode="w" if earlier else "w-", consolidated=False)


def write(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """Write the dataset of a result: a netCDF file where the path ends with `.nc`, else Zarr.

    Examples
    --------
    >>> import xarray as xr
    >>> write(xr.Dataset(attrs={"format": "hofs_dask selection"}), "result.csv")
    Traceback (most recent call last):
    ...
    ValueError: result.csv ends with '.csv'; .zarr and .nc can be written: give 'result.zarr', ...
    """
    if not _is_netcdf(path):
        suffix = Path(path).suffix
        if suffix not in ("", ".zarr"):
            raise ValueError(
                f"{os.fspath(path)} ends with {suffix!r}; .zarr and .nc can be written: give "
                f"{Path(path).with_suffix('.zarr').name!r}, or make a table with to_dataframe()"
            )
        write_zarr(dataset, path)
        return
    _require_netcdf()
    file = Path(as_path(path))
    if file.exists() and _netcdf_format(str(file)) != dataset.attrs["format"]:
        raise _taken(path, dataset)
    file.parent.mkdir(parents=True, exist_ok=True)
    _packed(dataset).to_netcdf(file, engine="h5netcdf")


def read(
    path: str | os.PathLike[str], makers: Mapping[str, Callable[[xr.Dataset], Result]]
) -> Result:
    """Return the result at this path, made by the maker for its format.

    Examples
    --------
    >>> import xarray as xr
    >>> read("no/such/result.nc", {"hofs_dask selection": xr.Dataset})
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no saved selection at no/such/result.nc
    """
    import xarray as xr

    given, address = os.fspath(path), as_path(path)
    kinds = [_kind(each) for each in makers]
    if not is_url(address) and not Path(address).exists():
        raise FileNotFoundError(f"there is no saved {' or '.join(kinds)} at {given}")
    try:
        if _is_netcdf(path):
            _require_netcdf()
            found = _netcdf_format(address)
        else:
            found = _zarr_format(address)
        if not isinstance(found, str) or found not in makers:
            wanted = " or ".join(f"format={each!r}" for each in makers)
            raise ValueError(f"{wanted} was expected, found {found!r}")
        if _is_netcdf(path):
            with xr.open_dataset(address, engine="h5netcdf") as opened:
                stored = opened.load()
        else:
            stored = xr.open_zarr(address, chunks=None, consolidated=False).load()
        return makers[found](_unpacked(stored))
    except (OSError, ValueError) as error:
        writers = " or ".join(f"{kind.capitalize()}.save" for kind in kinds)
        raise ValueError(
            f"{given} is not a saved {' or '.join(kinds)}: give what {writers} wrote ({error})"
        ) from error


def label_array(names: Sequence[Hashable]) -> NDArray[Any]:
    """Return the names as an array of text, of integers, of floats, or, mixed, of objects.

    Examples
    --------
    >>> label_array([400, 412.5])
    array([400. , 412.5])
    """
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    kinds = {type(name) for name in plain}
    for kinds_of_array, dtype in (({str}, str), ({int}, np.int64), ({int, float}, np.float64)):
        if kinds <= kinds_of_array:
            return np.array(plain, dtype=dtype)
    mixed = np.empty(len(plain), dtype=object)
    mixed[:] = plain
    return mixed


def _plain(name: str, value: object) -> str | float:
    """Return the attribute as a plain string or number, which every store can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"the attribute {name}={value!r} is a {type(value).__name__}; a string or a number was "
        "expected: use json.dumps"
    )


def _packed(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset as it is stored: text of any length, mixed names as JSON.

    Fixed-length text has no specification in Zarr v3 and writing it warns:
    https://github.com/zarr-developers/zarr-extensions/tree/main/data-types
    """
    mixed = dataset["feature"].dtype.kind == "O"
    stored = dataset.assign_attrs(names="json") if mixed else dataset
    for name, variable in dataset.variables.items():
        if variable.dtype.kind == "O":
            values = _each(json.dumps, variable.values)
        elif variable.dtype.kind == "U":
            values = variable.values.astype(object)
        else:
            continue
        stored = stored.assign({name: (variable.dims, values, variable.attrs)})
    return stored


def _unpacked(stored: xr.Dataset) -> xr.Dataset:
    """Return the dataset that `_packed` was given."""
    attrs = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in stored.attrs.items()
        if name != "names"
    }
    mixed = stored.attrs.get("names") == "json"
    dataset = stored.drop_encoding()
    for name, variable in stored.variables.items():
        if variable.dtype.kind in "bif":
            continue
        if mixed and name in ("feature", "selected"):
            values = _each(json.loads, variable.values)
        else:
            values = np.array(variable.values.tolist(), dtype=str).reshape(variable.shape)
        dataset = dataset.assign({name: (variable.dims, values, variable.attrs)})
    dataset.attrs = attrs
    return dataset


def _each(function: Callable[[Any], Any], values: NDArray[Any]) -> NDArray[np.object_]:
    """Return an array of the same shape with what the function makes of each value."""
    made = np.empty(values.size, dtype=object)
    made[:] = [function(value) for value in values.ravel().tolist()]
    return made.reshape(values.shape)


def _is_netcdf(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).endswith(".nc")


def _require_netcdf() -> None:
    """Raise where no netCDF engine is installed."""
    try:
        import h5netcdf  # noqa: F401
        import h5py  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "a .nc file needs h5netcdf: pip install 'hofs-dask[netcdf]', "
            "or give a path that ends with .zarr"
        ) from error


def _zarr_format(address: str) -> object:
    """Return what the Zarr group at this address says it is, None where there is no group."""
    try:
        return zarr.open_group(address, mode="r").attrs.get("format")
    except (OSError, ValueError):
        return None


def _netcdf_format(address: str) -> object:
    """Return what the netCDF file at this address says it is, None where it is no such file."""
    import xarray as xr

    try:
        with xr.open_dataset(address, engine="h5netcdf") as opened:
            return opened.attrs.get("format")
    except (OSError, ValueError):
        return None


def _is_occupied(path: Path) -> bool:
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _taken(path: str | os.PathLike[str], dataset: xr.Dataset) -> FileExistsError:
    kind = _kind(dataset.attrs["format"])
    return FileExistsError(
        f"{os.fspath(path)} holds something that is not a saved {kind}: give another path"
    )


def _kind(file_format: str) -> str:
    """Return the word for what has this format."""
    return file_format.removeprefix("hofs_dask ")
