"""NetCDF files of results: text as characters, no compression, a digest of the bytes.

The digest is appended to the HDF5 file, where other readers ignore it. It is verified before
anything else is read, so that no damaged content is passed to the HDF5 library.
"""

from __future__ import annotations

import hashlib
import io
import math
from typing import TYPE_CHECKING, Any

from hofs_dask.results.saving.content import (
    DamagedError,
    ForeignError,
    check_attrs,
    damaged_if_unreadable,
    pack,
    unpack,
)

if TYPE_CHECKING:
    import xarray as xr

_MARK = b"\nhofs_dask sha256 "
_TAIL = len(_MARK) + 64
# netCDF gives this name to the HDF5 dataset of a dimension without coordinates.
_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"


def require_netcdf() -> None:
    """Raise an error if no netCDF engine is installed."""
    try:
        import h5netcdf  # noqa: F401
        import h5py  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "a .nc file needs h5netcdf: pip install 'hofs-dask[netcdf]', "
            "or give a path that ends with .zarr"
        ) from error


def to_netcdf(dataset: xr.Dataset) -> bytes:
    """Return a dataset as the content of a netCDF file.

    Examples
    --------
    >>> import xarray as xr
    >>> to_netcdf(xr.Dataset({"score": ("rank", [0.5])}, attrs={"format": "hofs_dask x"}))[1:4]
    b'HDF'
    """
    import h5netcdf
    import xarray as xr

    stored = pack(dataset)
    encoding: dict[Any, dict[str, Any]] = {}
    for name, variable in stored.variables.items():
        if variable.dtype.kind == "O":
            encoding[name] = {"dtype": "S1"}
        elif variable.dtype.kind == "f":
            encoding[name] = {"_FillValue": None}
    stream = io.BytesIO()
    with xr.backends.H5NetCDFStore(h5netcdf.File(stream, "w")) as store:
        stored.dump_to_store(store, encoding=encoding)
    content = stream.getvalue()
    return content + _MARK + hashlib.sha256(content).hexdigest().encode()


def from_netcdf(content: bytes, formats: tuple[str, ...]) -> xr.Dataset:
    """Return the dataset that was passed to `to_netcdf`.

    Examples
    --------
    >>> from_netcdf(b"text", ("hofs_dask x",))
    Traceback (most recent call last):
    ...
    hofs_dask.results.saving.content.ForeignError: it does not end with a digest: another ...
    """
    import xarray as xr

    whole = memoryview(content)
    if bytes(whole[-_TAIL:-64]) != _MARK:
        raise ForeignError(
            "it does not end with a digest: another program or an earlier hofs_dask wrote it, or "
            "it is damaged"
        )
    if hashlib.sha256(whole[:-_TAIL]).hexdigest().encode() != whole[-64:]:
        raise DamagedError("its digest does not match its content")
    with damaged_if_unreadable():
        _check(content, formats)
        with xr.open_dataset(
            io.BytesIO(content), engine="h5netcdf", mask_and_scale=False, decode_times=False
        ) as opened:
            return unpack(opened.load())


def _check(content: bytes, formats: tuple[str, ...]) -> None:
    """Raise an error if an HDF5 file is not a result, lacks data, or refers to other files."""
    import h5py

    with h5py.File(io.BytesIO(content), "r") as file:
        total = _size_of_attrs(file)
        check_attrs(dict(file.attrs), formats)
        for name in file:
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise DamagedError(f"{name} is a link")
            found = file[name]
            if not isinstance(found, h5py.Dataset):
                raise DamagedError(f"{name} is not an array")
            total += _size_of_attrs(found)
            if found.attrs.get("NAME", b"").startswith(_DIMENSION) or 0 in found.shape:
                continue
            plan = found.id.get_create_plist()
            size = math.prod(found.shape) * found.dtype.itemsize
            if (
                found.dtype.kind not in "ifS"
                or plan.get_layout() == h5py.h5d.CHUNKED
                or plan.get_external_count()
                or found.is_virtual
                or found.id.get_storage_size() != size
            ):
                raise DamagedError(f"{name} has a dtype or layout that hofs_dask does not write")
            total += size
        if total > 2 * len(content):
            raise DamagedError(f"its metadata imply {total} bytes, but it has {len(content)}")


def _size_of_attrs(item: Any) -> int:
    """Return the bytes of the attributes of a group or dataset, read one at a time."""
    total = 0
    for name in item.attrs:
        kind = item.attrs.get_id(name)
        count = math.prod(kind.shape or ())
        total += count * kind.dtype.itemsize
        if kind.dtype.kind == "O" and not kind.shape:
            total += len(item.attrs[name])
    return total
