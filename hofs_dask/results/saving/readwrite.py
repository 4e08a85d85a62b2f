"""Read and write results as Zarr or netCDF; check what a path contains before it is replaced."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hofs_dask.errors import noted
from hofs_dask.io.places import Location, Place, StorageOptions, as_place
from hofs_dask.results.saving import atomic, remote
from hofs_dask.results.saving.content import (
    MOST,
    DamagedError,
    ForeignError,
    UnreadError,
    VersionError,
)
from hofs_dask.results.saving.netcdf import from_netcdf, require_netcdf, to_netcdf
from hofs_dask.results.saving.zarr_files import from_files, to_files

if TYPE_CHECKING:
    import xarray as xr

Result = TypeVar("Result")


def write_zarr(dataset: xr.Dataset, path: Location, options: StorageOptions | None = None) -> None:
    """Write the dataset of a result to a Zarr store; an earlier result of its kind is replaced.

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
    _write(dataset, path, options, netcdf=False)


def write(dataset: xr.Dataset, path: Location, options: StorageOptions | None = None) -> None:
    """Write the dataset of a result: to netCDF if the path ends with `.nc`, else to Zarr.

    Examples
    --------
    >>> import xarray as xr
    >>> write(xr.Dataset(attrs={"format": "hofs_dask selection"}), "result.csv")
    Traceback (most recent call last):
    ...
    ValueError: result.csv ends with '.csv'; .zarr and .nc can be written: give 'result.zarr', ...
    """
    suffix = Path(path).suffix if isinstance(path, str | os.PathLike) else ""
    if suffix not in ("", ".zarr", ".nc"):
        raise ValueError(
            f"{os.fspath(path)} ends with {suffix!r}; .zarr and .nc can be written: give "
            f"{Path(path).with_suffix('.zarr').name!r}, or make a table with to_dataframe()"
        )
    _write(dataset, path, options, netcdf=_is_netcdf(path))


def check_place(path: Location, file_format: str, options: StorageOptions | None = None) -> None:
    """Raise an error if a result of this format must not be written to a path.

    Raises
    ------
    FileExistsError
        The path contains other data, an earlier result with additional files, or an earlier
        result on remote storage.
    FileNotFoundError
        The path is a broken link.

    Examples
    --------
    >>> check_place("/", "hofs_dask selection")
    Traceback (most recent call last):
    ...
    FileExistsError: / exists and is not a saved selection, or is a damaged one: give ...
    """
    _check(_place(path, options), _given(path), file_format, _is_netcdf(path))


def read(
    path: Location,
    makers: Mapping[str, Callable[[xr.Dataset], Result]],
    options: StorageOptions | None = None,
) -> Result:
    """Return the result at this path, created by the function in ``makers`` for its format.

    Raises
    ------
    FileNotFoundError
        There is nothing at this path.
    ForeignError
        The content is not a result of these formats.
    ValueError
        The result is damaged, or was written by another version of hofs_dask.

    Examples
    --------
    >>> import xarray as xr
    >>> read("no/such/result.nc", {"hofs_dask selection": xr.Dataset})
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no saved selection at no/such/result.nc
    """
    given, kinds = _given(path), [_kind(each) for each in makers]
    place, netcdf = _place(path, options), _is_netcdf(path)
    if not _is_there(place):
        raise FileNotFoundError(f"there is no saved {' or '.join(kinds)} at {given}")
    if netcdf:
        require_netcdf()
    try:
        content = _stable_content if place.is_local else _repeated_content
        dataset, _ = content(place, netcdf, tuple(makers))
        return makers[dataset.attrs["format"]](dataset)
    except UnreadError:
        raise
    except DamagedError as error:
        first = "" if place.is_local else "run the same call again; if the error remains, "
        raise ValueError(
            f"{given}, a saved {' or '.join(kinds)}, is damaged ({error}): {first}restore a copy "
            "of it, or compute it again"
        ) from error
    except VersionError as error:
        raise ValueError(f"{given} cannot be read: {error}") from error
    except Exception as error:
        # libraries raise any exception for invalid content
        raise _not_saved(given, kinds, error) from error


def _write(
    dataset: xr.Dataset, path: Location, options: StorageOptions | None, *, netcdf: bool
) -> None:
    """Write the dataset of a result to a path that is free or has an earlier result of its kind."""
    given, file_format = _given(path), dataset.attrs["format"]
    if netcdf:
        require_netcdf()
    place = _place(path, options)
    place.refuse_read_only("the path of the result")
    if netcdf and not place.is_local:
        raise ValueError(
            f"{given} is a URL; a .nc file can only be written to a local path: give a URL that "
            "ends with .zarr"
        )
    content = _content_of(dataset, given, netcdf=netcdf)
    try:
        if place.is_local:
            atomic.put(
                Path(place.path),
                content,
                lambda found: _check(Place(os.fspath(found)), given, file_format, netcdf),
            )
        else:
            _check(place, given, file_format, netcdf)
            assert not isinstance(content, bytes)
            remote.create(place, content)
    except OSError as error:
        if error.errno is None:
            raise
        failed = OSError(error.errno, f"{error.strerror}; nothing was saved at", given)
        raise noted(failed, error) from error


def _content_of(dataset: xr.Dataset, given: str, *, netcdf: bool) -> bytes | dict[str, bytes]:
    """Return the content of the file, or of each file by name, after reading it back as a check."""
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
            f"{error}); names must be valid text or numbers"
        ) from error


def _given(path: Location) -> str:
    """Return a path as it was given, or the description of a store, for messages."""
    return os.fspath(path) if isinstance(path, str | os.PathLike) else as_place(path).path


def _place(path: Location, options: StorageOptions | None) -> Place:
    """Return the place of a result; links in a local path are resolved.

    Raises
    ------
    FileNotFoundError
        The path is a broken link or a link to itself.
    """
    place = as_place(path, options)
    if not place.is_local:
        return place
    local = place.path
    if os.path.islink(local) and not os.path.exists(local):  # noqa: PTH110, PTH114 - no ELOOP
        raise FileNotFoundError(
            f"{local} is a link to {os.readlink(local)}, which does not exist: remove the link "  # noqa: PTH115
            "or give another path"
        )
    return replace(place, path=os.path.realpath(local))


def _is_there(place: Place) -> bool:
    """Return whether a result exists at a path, or was left beside it by a killed process."""
    if not place.is_local:
        return not remote.is_free(place)
    local = place.path
    # the path again at the end: another process may have finished the rename meanwhile
    return (
        os.path.lexists(local)
        or atomic.interrupted(Path(local)) is not None
        or os.path.lexists(local)
    )


def _content(place: Place, netcdf: bool, formats: tuple[str, ...]) -> tuple[xr.Dataset, set[str]]:
    """Return the dataset at a path, and the names of files that are not part of it."""
    read: Callable[[str, int], bytes] = place.read
    sizes = functools.partial(atomic.list_files, place.path)
    if not place.is_local:
        read, sizes = functools.partial(remote.read, place), functools.partial(remote.sizes, place)
    if netcdf:
        return from_netcdf(read("", MOST), formats), set()
    return from_files(sizes, read, formats)


def _repeated_content(
    place: Place, netcdf: bool, formats: tuple[str, ...]
) -> tuple[xr.Dataset, set[str]]:
    """Return the same as `_content`; read a remote result again if it was damaged on its way."""
    with contextlib.suppress(DamagedError, ForeignError):
        return _content(place, netcdf, formats)
    return _content(place, netcdf, formats)


def _stable_content(
    place: Place, netcdf: bool, formats: tuple[str, ...]
) -> tuple[xr.Dataset, set[str]]:
    """Return the same as `_content`; read again if a local result was replaced meanwhile."""
    for _ in range(10):
        before = _identity(place.path)
        found = atomic.interrupted(Path(place.path)) if before is None else None
        try:
            return _content(place if found is None else Place(os.fspath(found)), netcdf, formats)
        except Exception:
            if _identity(place.path) == before:
                raise
    raise OSError(f"{place.path} was replaced ten times while it was read: try again")


def _identity(place: str) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        found = Path(place).stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns
    return None


def _check(place: Place, given: str, file_format: str, netcdf: bool) -> None:
    """Raise an error if the content of a path must not be replaced by a result of this format."""
    if place.is_local:
        path = Path(place.path)
        free = atomic.is_free(path) and not (netcdf and path.is_dir())
    else:
        free = remote.is_free(place)
    if free:
        return
    kind = _kind(file_format)
    kind = "table of interactions" if kind == "interactions" else kind
    try:
        _, foreign = _content(place, netcdf, (file_format,))
    except UnreadError:
        raise
    except Exception as error:
        raise FileExistsError(
            f"{given} exists and is not a saved {kind}, or is a damaged one: give another path, "
            f"or remove it first ({error})"
        ) from error
    if not place.is_local:
        raise FileExistsError(
            f"{given} is a saved {kind}, which cannot be replaced in one step on remote storage: "
            "give another path, or remove it"
        )
    if foreign:
        raise FileExistsError(
            f"{given} is a saved {kind} and contains {min(foreign)!r}, which is not part of it and "
            "would be deleted: move this file, or give another path"
        )


def _not_saved(given: str, kinds: Sequence[str], error: Exception) -> ForeignError:
    names = {"matrix": "hofs-dask matrix"}
    writers = " or ".join(names.get(kind, f"{kind.capitalize()}.save") for kind in kinds)
    return ForeignError(
        f"{given} is not a saved {' or '.join(kinds)}: give a path written by {writers} ({error})"
    )


def _is_netcdf(path: Location) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path).endswith(".nc")


def _kind(file_format: str) -> str:
    """Return the kind of result of a format, such as "selection"."""
    return file_format.removeprefix("hofs_dask ")
