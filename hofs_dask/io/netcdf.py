"""Reader of netCDF files, which are opened with xarray."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import xarray as xr

from hofs_dask.io.paths import is_url

#: The first bytes of netCDF 3 and netCDF 4 (HDF5) files.
MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05", b"\x89HDF")


def is_netcdf(path: str) -> bool:
    """Return whether a path is a netCDF file, by its first bytes.

    Examples
    --------
    >>> is_netcdf("/no/such/file.nc")
    False
    """
    if is_url(path) or not Path(path).is_file():
        return False
    with suppress(OSError), Path(path).open("rb") as file:
        return file.read(4) in MAGIC
    return False


def refuse_pattern(path: str) -> None:
    """Raise a ValueError if a path is a pattern of netCDF files.

    Examples
    --------
    >>> refuse_pattern("data/*.nc")
    Traceback (most recent call last):
    ...
    ValueError: 'data/*.nc' is a pattern of netCDF files; give xarray.open_mfdataset('data/*.nc')
    """
    if "*" in path and path.endswith((".nc", ".nc4", ".cdf")):
        raise ValueError(
            f"{path!r} is a pattern of netCDF files; give xarray.open_mfdataset({path!r})"
        )


def open_netcdf(path: str) -> xr.Dataset:
    """Return a netCDF file as a lazy Dataset.

    The Dataset refers to the file by its absolute path, which is valid in every process.

    Raises
    ------
    ValueError
        The file is a result of this package, or xarray cannot open it.
    """
    try:
        opened = xr.open_dataset(Path(path).absolute())
    except Exception as error:  # the type depends on the engine and on what is damaged
        raise ValueError(
            f"the netCDF file {path!r} cannot be opened ({_first_line(error)}); give "
            "xarray.open_dataset(path, ...) with the options that it needs, such as "
            "decode_times=False"
        ) from error
    kind: Any = opened.attrs.get("format", "")
    if isinstance(kind, str) and kind.startswith("hofs_dask "):
        opened.close()
        raise ValueError(f"{path!r} contains a {kind}, not data; give the data itself")
    return opened


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
