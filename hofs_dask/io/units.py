"""Arrays with pint units: magnitudes are read, and xarray data keeps the units as an attribute."""

from __future__ import annotations

from typing import Any

import xarray as xr


def without_units(data: Any) -> Any:
    """Return the magnitudes of data with pint units, and anything else unchanged.

    The units of an xarray object become its attribute ``units``.

    Examples
    --------
    >>> without_units([1, 2])
    [1, 2]
    """
    if isinstance(data, xr.DataArray) and _has_units(data.variable._data):
        quantity: Any = data.variable._data
        found = data.copy(data=quantity.magnitude)
        return found.assign_attrs(units=str(quantity.units))
    if isinstance(data, xr.Dataset):
        named = [name for name, each in data.variables.items() if _has_units(each._data)]
        return data.assign({name: without_units(data[name]) for name in named}) if named else data
    return data.magnitude if _has_units(data) else data


def _has_units(array: Any) -> bool:
    """Return whether an array is a quantity of pint, without importing pint."""
    return type(array).__module__.split(".")[0] == "pint" and hasattr(array, "magnitude")
