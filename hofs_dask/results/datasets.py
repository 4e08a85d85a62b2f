"""The Dataset behind a result: how it is made, written and read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hofs_dask.io.files import read_file
from hofs_dask.io.paths import as_path, is_url
from hofs_dask.results.saving.atomic import interrupted, is_free, list_folder, put, resolved
from hofs_dask.results.saving.content import MOST, DamagedError, ForeignError
from hofs_dask.results.saving.netcdf import from_netcdf, require_netcdf, to_netcdf
from hofs_dask.results.saving.remote import Remote
from hofs_dask.results.saving.zarr_files import from_files, to_files

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
    _write(dataset, path, netcdf=False)


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
    suffix = Path(path).suffix
    if suffix not in ("", ".zarr", ".nc"):
        raise ValueError(
            f"{os.fspath(path)} ends with {suffix!r}; .zarr and .nc can be written: give "
            f"{Path(path).with_suffix('.zarr').name!r}, or make a table with to_dataframe()"
        )
    _write(dataset, path, netcdf=_is_netcdf(path))


def check_place(path: str | os.PathLike[str], file_format: str) -> None:
    """Raise where a result of this format must not be written.

    Raises
    ------
    FileExistsError
        There is something that is not an earlier result of this format, or there is one on
        remote storage, or one with other files among its own.
    FileNotFoundError
        The path is a link to nothing.

    Examples
    --------
    >>> check_place("/", "hofs_dask selection")
    Traceback (most recent call last):
    ...
    FileExistsError: / holds something that is not a saved selection, or a damaged one: give ...
    """
    place = _place(path)
    if isinstance(place, Remote):
        _check_remote(place, path, file_format)
    else:
        _check_local(place, path, file_format, _is_netcdf(path))


def read(
    path: str | os.PathLike[str], makers: Mapping[str, Callable[[xr.Dataset], Result]]
) -> Result:
    """Return the result at this path, made by the maker for its format.

    Raises
    ------
    FileNotFoundError
        There is nothing at this path.
    ValueError
        What is there is no result of these formats, or it is damaged.

    Examples
    --------
    >>> import xarray as xr
    >>> read("no/such/result.nc", {"hofs_dask selection": xr.Dataset})
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no saved selection at no/such/result.nc
    """
    given, kinds = os.fspath(path), [_kind(each) for each in makers]
    place = _place(path)
    if not _is_there(place):
        raise FileNotFoundError(f"there is no saved {' or '.join(kinds)} at {given}")
    if _is_netcdf(path):
        require_netcdf()
    try:
        if isinstance(place, Remote):
            dataset, _ = _remote_content(place, _is_netcdf(path), tuple(makers))
        else:
            dataset, _ = _stable_content(place, _is_netcdf(path), tuple(makers))
        return makers[dataset.attrs["format"]](dataset)
    except DamagedError as error:
        raise ValueError(
            f"{given}, a saved {' or '.join(kinds)}, is damaged ({error}): take a copy of it, or "
            "make it again"
        ) from error
    except Exception as error:
        # whatever the libraries raise for content that is not what they wrote
        raise _not_saved(given, kinds, error) from error


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


def _write(dataset: xr.Dataset, path: str | os.PathLike[str], *, netcdf: bool) -> None:
    """Write a dataset of a result to a place that is free or has an earlier result of its kind."""
    given, file_format = os.fspath(path), dataset.attrs["format"]
    if netcdf:
        require_netcdf()
    place = _place(path)
    if netcdf and isinstance(place, Remote):
        raise ValueError(
            f"{given} is an address; a .nc file is written to a path of this machine: give an "
            "address that ends with .zarr"
        )
    content = _content_of(dataset, given, netcdf=netcdf)
    try:
        if isinstance(place, Remote):
            _check_remote(place, path, file_format)
            assert not isinstance(content, bytes)
            place.create(content)
        else:
            put(place, content, lambda found: _check_local(found, path, file_format, netcdf))
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{error.strerror}; nothing was saved at", given) from error


def _content_of(dataset: xr.Dataset, given: str, *, netcdf: bool) -> bytes | dict[str, bytes]:
    """Return the content of the file, or of the files by name, from which the dataset is read."""
    formats = (dataset.attrs["format"],)
    try:
        if netcdf:
            file = to_netcdf(dataset)
            from_netcdf(file, formats)
            return file
        files = to_files(dataset)
        sizes = {name: len(content) for name, content in files.items()}
        from_files(lambda: sizes, lambda name, _: files[name], formats)
        return files
    except Exception as error:
        raise ValueError(
            f"{given} was not written: its content cannot be stored ({type(error).__name__}: "
            f"{error}); names that are valid text or numbers were expected"
        ) from error


def _place(path: str | os.PathLike[str]) -> Path | Remote:
    """Return where a path leads: to a file or folder of this machine, or to remote storage."""
    address = as_path(path)
    if is_url(address):
        remote = Remote(address)
        if remote.local is None:
            return remote
        address = str(remote.local)
    return resolved(address)


def _is_there(place: Path | Remote) -> bool:
    """Return whether there is anything at a place, or was until a process was killed."""
    if isinstance(place, Remote):
        return not place.is_free()
    # in this order: what is not found beside its place by now is in it
    return os.path.lexists(place) or bool(interrupted(place)) or os.path.lexists(place)


def _local_content(
    path: Path, netcdf: bool, formats: tuple[str, ...]
) -> tuple[xr.Dataset, set[str]]:
    """Return the dataset at a path of this machine, and the names of files that are not of it."""
    if netcdf:
        return from_netcdf(_read(path, MOST), formats), set()
    if not path.is_dir():
        raise ForeignError("it is not a folder")
    return from_files(
        lambda: list_folder(path), lambda name, most: _read(path / name, most), formats
    )


def _read(path: Path, most: int) -> bytes:
    """Return the content of a regular file; memory is taken for what it has, not for the most."""
    return read_file(path, min(most, path.stat().st_size))


def _stable_content(
    path: Path, netcdf: bool, formats: tuple[str, ...]
) -> tuple[xr.Dataset, set[str]]:
    """Return what `_local_content` does, and try again where it was replaced meanwhile."""
    for _ in range(10):
        before = _identity(path)
        found = interrupted(path) if before is None else None
        try:
            return _local_content(found or path, netcdf, formats)
        except Exception:
            if _identity(path) == before:
                raise
    raise OSError(f"{path} is replaced again and again while it is read: try again")


def _identity(path: Path) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns
    return None


def _remote_content(
    place: Remote, netcdf: bool, formats: tuple[str, ...]
) -> tuple[xr.Dataset, set[str]]:
    """Return the dataset on remote storage, and the names of files that are not of it."""
    if netcdf:
        return from_netcdf(place.read("", MOST), formats), set()
    return from_files(place.list_files, place.read, formats)


def _check_local(place: Path, path: str | os.PathLike[str], file_format: str, netcdf: bool) -> None:
    """Raise where what is at a place of this machine must not be replaced by such a result."""
    given, kind = os.fspath(path), _kind(file_format)
    if is_free(place) and not (netcdf and place.is_dir()):
        return
    try:
        _, foreign = _local_content(place, netcdf, (file_format,))
    except Exception as error:
        raise FileExistsError(
            f"{given} holds something that is not a saved {kind}, or a damaged one: give another "
            f"path, or remove it if it is yours to remove ({error})"
        ) from error
    if foreign:
        raise FileExistsError(
            f"{given} holds a saved {kind} and {min(foreign)!r}, which is not of it and would be "
            "lost: move it away, or give another path"
        )


def _check_remote(place: Remote, path: str | os.PathLike[str], file_format: str) -> None:
    """Raise where remote storage has anything at an address."""
    if place.is_free():
        return
    given, kind = os.fspath(path), _kind(file_format)
    try:
        _remote_content(place, _is_netcdf(path), (file_format,))
    except Exception as error:
        raise FileExistsError(
            f"{given} holds something that is not a saved {kind}, or a damaged one: give another "
            f"path, or remove it if it is yours to remove ({error})"
        ) from error
    raise FileExistsError(
        f"{given} holds a saved {kind}, which remote storage cannot replace in one step: give "
        "another path, or remove it"
    )


def _not_saved(given: str, kinds: Sequence[str], error: Exception) -> ValueError:
    writers = " or ".join(f"{kind.capitalize()}.save" for kind in kinds)
    return ValueError(
        f"{given} is not a saved {' or '.join(kinds)}: give what {writers} wrote ({error})"
    )


def _is_netcdf(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).endswith(".nc")


def _kind(file_format: str) -> str:
    """Return the word for what has this format."""
    return file_format.removeprefix("hofs_dask ")
