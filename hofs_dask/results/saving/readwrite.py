"""Read and write results as Zarr or netCDF; check what a path contains before it is replaced."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hofs_dask.io import places
from hofs_dask.io.paths import as_path, is_url
from hofs_dask.results.saving import atomic, remote
from hofs_dask.results.saving.content import MOST, DamagedError, ForeignError, VersionError
from hofs_dask.results.saving.netcdf import from_netcdf, require_netcdf, to_netcdf
from hofs_dask.results.saving.zarr_files import from_files, to_files

if TYPE_CHECKING:
    import xarray as xr

Result = TypeVar("Result")


def write_zarr(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """Write the dataset of a result to a Zarr store; an earlier result of this kind is replaced.

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
    """Write the dataset of a result: to netCDF if the path ends with `.nc`, otherwise to Zarr.

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
    _check(_place(path), os.fspath(path), file_format, _is_netcdf(path))


def read(
    path: str | os.PathLike[str], makers: Mapping[str, Callable[[xr.Dataset], Result]]
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
    given, kinds = os.fspath(path), [_kind(each) for each in makers]
    place, netcdf = _place(path), _is_netcdf(path)
    if not _is_there(place):
        raise FileNotFoundError(f"there is no saved {' or '.join(kinds)} at {given}")
    if netcdf:
        require_netcdf()
    try:
        content = _content if is_url(place) else _stable_content
        dataset, _ = content(place, netcdf, tuple(makers))
        return makers[dataset.attrs["format"]](dataset)
    except DamagedError as error:
        raise ValueError(
            f"{given}, a saved {' or '.join(kinds)}, is damaged ({error}): restore a copy of "
            "it, or compute it again"
        ) from error
    except VersionError as error:
        raise ValueError(f"{given} cannot be read: {error}") from error
    except Exception as error:
        # libraries raise any exception for invalid content
        raise _not_saved(given, kinds, error) from error


def _write(dataset: xr.Dataset, path: str | os.PathLike[str], *, netcdf: bool) -> None:
    """Write the dataset of a result; the path must be free or have a result of the same kind."""
    given, file_format = os.fspath(path), dataset.attrs["format"]
    if netcdf:
        require_netcdf()
    place = _place(path)
    if netcdf and is_url(place):
        raise ValueError(
            f"{given} is a URL; a .nc file can only be written to a local path: give a URL that "
            "ends with .zarr"
        )
    content = _content_of(dataset, given, netcdf=netcdf)
    try:
        if is_url(place):
            _check(place, given, file_format, netcdf)
            assert not isinstance(content, bytes)
            remote.create(place, content)
        else:
            atomic.put(
                Path(place),
                content,
                lambda found: _check(os.fspath(found), given, file_format, netcdf),
            )
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{error.strerror}; nothing was saved at", given) from error


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


def _place(path: str | os.PathLike[str]) -> str:
    """Return a URL unchanged, or a local path with links resolved.

    Raises
    ------
    FileNotFoundError
        The path is a broken link or a link to itself.
    """
    place = as_path(path)
    if is_url(place):
        return place
    if os.path.islink(place) and not os.path.exists(place):  # noqa: PTH110, PTH114 - no ELOOP
        raise FileNotFoundError(
            f"{place} is a link to {os.readlink(place)}, which does not exist: remove the link "  # noqa: PTH115
            "or give another path"
        )
    return os.path.realpath(place)


def _is_there(place: str) -> bool:
    """Return whether a result exists at a path, or was left beside it by a killed process."""
    if is_url(place):
        return not remote.is_free(place)
    # the path is tested again at the end, because another process may have renamed it meanwhile
    return (
        os.path.lexists(place)
        or atomic.interrupted(Path(place)) is not None
        or os.path.lexists(place)
    )


def _content(place: str, netcdf: bool, formats: tuple[str, ...]) -> tuple[xr.Dataset, set[str]]:
    """Return the dataset at a path, and the names of files that are not part of it."""
    if netcdf:
        return from_netcdf(places.read(place, "", MOST), formats), set()
    list_files = remote.list_files if is_url(place) else atomic.list_files
    return from_files(
        lambda: list_files(place), lambda name, most: places.read(place, name, most), formats
    )


def _stable_content(
    place: str, netcdf: bool, formats: tuple[str, ...]
) -> tuple[xr.Dataset, set[str]]:
    """Return the same as `_content`; read again if a local result was replaced meanwhile."""
    for _ in range(10):
        before = _identity(place)
        found = atomic.interrupted(Path(place)) if before is None else None
        try:
            return _content(place if found is None else os.fspath(found), netcdf, formats)
        except Exception:
            if _identity(place) == before:
                raise
    raise OSError(f"{place} was replaced ten times while it was read: try again")


def _identity(place: str) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        found = Path(place).stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns
    return None


def _check(place: str, given: str, file_format: str, netcdf: bool) -> None:
    """Raise an error if the content of a path must not be replaced by a result of this format."""
    if is_url(place):
        free = remote.is_free(place)
    else:
        free = atomic.is_free(Path(place)) and not (netcdf and Path(place).is_dir())
    if free:
        return
    kind = _kind(file_format)
    try:
        _, foreign = _content(place, netcdf, (file_format,))
    except Exception as error:
        raise FileExistsError(
            f"{given} exists and is not a saved {kind}, or is a damaged one: give another path, "
            f"or remove it first ({error})"
        ) from error
    if is_url(place):
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
    writers = " or ".join(f"{kind.capitalize()}.save" for kind in kinds)
    return ForeignError(
        f"{given} is not a saved {' or '.join(kinds)}: give a path written by {writers} ({error})"
    )


def _is_netcdf(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).endswith(".nc")


def _kind(file_format: str) -> str:
    """Return the kind of result of a format, such as "selection"."""
    return file_format.removeprefix("hofs_dask ")
