"""Alignment of labelled arrays: labels, dims, pandas series, bounds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import dask.array.core as da
import numpy as np
import pandas as pd
import xarray as xr

from hofs_dask.io.graphs import classic

#: Labels that differ by less than this fraction of the smallest step are the same up to rounding.
ROUNDING = 0.01


def spread(variable: xr.DataArray, like: xr.DataArray, tail: Sequence[Hashable] = ()) -> Any:
    """Return the values of a variable, broadcast to the dims of ``like``.

    If values must be repeated and ``like`` has chunks, the result is a dask array. ``tail`` are
    further dims of the variable, which come last.

    Examples
    --------
    >>> like = xr.DataArray(np.zeros((2, 3)), dims=("time", "x"))
    >>> spread(xr.DataArray([1, 2, 3], dims="x"), like)
    array([[1, 2, 3],
           [1, 2, 3]])
    """
    missing = [dim for dim in like.dims if dim not in variable.dims]
    if not missing:
        return variable.transpose(*like.dims, *tail).data
    if like.chunks is not None:
        own = [dim for dim in variable.dims if dim not in tail]
        # the coordinate of a dim ignores chunk()
        variable = xr.DataArray(variable.variable.to_base_variable())
        variable = variable.chunk({dim: like.chunksizes[dim] for dim in own})
    array = classic(variable.expand_dims(missing).transpose(*like.dims, *tail).data)
    shape = (*like.shape, *(variable.sizes[dim] for dim in tail))
    if isinstance(array, da.Array):
        whole = like.chunks if like.chunks is not None else tuple((n,) for n in like.shape)
        return da.broadcast_to(array, shape, chunks=(*whole, *array.chunks[like.ndim :]))
    return np.broadcast_to(array, shape)


def called(role: str, array: xr.DataArray) -> str:
    """Return the text that names an array in messages: its role, and its name if it has one.

    Examples
    --------
    >>> called("weights", xr.DataArray([1.0])), called("weights", xr.DataArray([1.0], name="area"))
    ('weights', "weights 'area'")
    """
    return role if array.name is None else f"{role} {array.name!r}"


def check_labels(
    target: xr.DataArray, data: xr.DataArray, dims: list[Hashable], role: str = "target"
) -> None:
    """Raise a ValueError if target and data differ in length or labels along one of the dims.

    ``role`` is the option that gave the target or another column, for error messages.
    """
    for dim in dims:
        if target.sizes[dim] != data.sizes[dim]:
            raise ValueError(
                f"{called(role, target)} has {target.sizes[dim]} values along {dim!r} and the data "
                f"has {data.sizes[dim]} samples; give one value per sample"
                + (
                    ', or join="inner" to use the common labels'
                    if dim in target.indexes and dim in data.indexes
                    else ""
                )
            )
        if (
            dim in target.indexes
            and dim in data.indexes
            and not target.indexes[dim].equals(data.indexes[dim])
        ):
            raise ValueError(
                f"{called(role, target)} and the data have different labels along {dim!r}"
                + _how_to_join(target.indexes[dim], data.indexes[dim], role)
            )


def _how_to_join(own: pd.Index, other: pd.Index, role: str) -> str:
    """Return the end of an error message for indexes of the same length with different labels."""
    if isinstance(own, xr.CFTimeIndex) or isinstance(other, xr.CFTimeIndex):
        calendar = getattr(other, "calendar", "standard")
        if getattr(own, "calendar", "standard") != calendar:
            return (
                ", of different calendars; convert them with "
                f"{role}.convert_calendar({calendar!r}, use_cftime="
                f"{isinstance(other, xr.CFTimeIndex)})"
            )
    elif own.is_unique and own.sort_values().equals(other.sort_values()):
        return ' in another order; give join="inner" to match them by label'
    elif all(each.dtype.kind in "iuf" for each in (own, other)) and len(own) > 1:
        numbers = other.to_numpy().astype(float)
        differences = np.abs(own.to_numpy().astype(float) - numbers)
        if (differences <= ROUNDING * np.abs(np.diff(numbers)).min()).all():
            return (
                f" that are equal up to rounding ({own.dtype} and {other.dtype}); give "
                'join="override" to match by position'
            )
    return '; give join="inner" to use the common labels, or join="override" to match by position'


def refuse_unknown_sizes(what: str, array: xr.DataArray) -> None:
    """Raise a ValueError if the sizes of an array are not known, as after a mask of Dask.

    Examples
    --------
    >>> import dask.array
    >>> lazy = dask.array.arange(4)
    >>> refuse_unknown_sizes("the data", xr.DataArray(lazy[lazy > 1], dims="x"))
    Traceback (most recent call last):
    ...
    ValueError: the sizes of the data are unknown along 'x'; call .data.compute_chunk_sizes() ...
    """
    for dim, size in zip(array.dims, array.shape, strict=True):
        if np.isnan(size):
            raise ValueError(
                f"the sizes of {what} are unknown along {dim!r}; call .data.compute_chunk_sizes() "
                "first, or leave out samples with where="
            )


def refuse_latitudes(weights: xr.DataArray) -> None:
    """Raise a ValueError if weights are the latitudes of the data instead of areas.

    Examples
    --------
    >>> refuse_latitudes(xr.DataArray([30.0, 60.0], dims="lat", name="lat"))
    Traceback (most recent call last):
    ...
    ValueError: weights 'lat' are latitudes; for the area of grid cells, give np.cos(np.deg2rad(...
    """
    if not weights.variable._in_memory or weights.dtype.kind not in "iuf" or not weights.size:
        return
    says_so = (
        str(weights.name).lower() in ("lat", "latitude", "nav_lat", "xlat")
        or weights.attrs.get("standard_name") == "latitude"
        or weights.attrs.get("units") in ("degrees_north", "degree_north", "degrees_N")
    )
    # cosines keep the name of the latitudes, and may keep their attributes
    if says_so and 1 < np.nanmax(np.abs(weights.values)) <= 90:
        raise ValueError(
            f"{called('weights', weights)} are latitudes; for the area of grid cells, give "
            f"np.cos(np.deg2rad({weights.name if weights.name is not None else 'latitude'}))"
        )


def is_same(one: xr.DataArray, other: xr.DataArray) -> bool:
    """Return whether two arrays are known to be equal; lazy data is not read.

    Examples
    --------
    >>> one = xr.DataArray([1.0, np.nan], dims="x")
    >>> is_same(one, one.copy()), is_same(one, one + 1)
    (True, False)
    """
    if set(one.dims) != set(other.dims) or one.dtype != other.dtype:
        return False
    if one.dims != other.dims:
        other = other.transpose(*one.dims)
    if one.shape != other.shape:
        return False
    a, b = one.variable._data, other.variable._data
    if a is b:
        return True
    if isinstance(a, da.Array) and isinstance(b, da.Array):
        return bool(a.name == b.name)
    if one.variable._in_memory and other.variable._in_memory:
        return bool(one.variable.equals(other.variable))
    return False


def fill_values(array: xr.DataArray, role: str) -> list[str]:
    """Return a message if an array has a fill value that was not replaced by NaN.

    This is known for integers, and for floats in memory, without reading lazy data.

    Examples
    --------
    >>> band = xr.DataArray(np.array([7, 65535], "u2"), attrs={"_FillValue": 65535}, name="red")
    >>> fill_values(band, "the data")[0][:60]
    "the data 'red' has the attribute _FillValue=65535, so this v"
    """
    for name in ("_FillValue", "missing_value"):
        fill = np.asarray(array.attrs.get(name, np.nan)).ravel()[:1]
        if fill.dtype.kind not in "iuf" or not np.isfinite(fill).all():
            continue
        floats = array.dtype.kind == "f" and array.variable._in_memory
        if array.dtype.kind in "iu" or (floats and (array.values == fill).any()):
            return [
                f"{called(role, array)} has the attribute {name}={fill.item()}, so this value was "
                "not replaced by NaN and counts like any other; decode it with xr.decode_cf, open "
                "the file with masked values, or leave these samples out"
            ]
    return []


def bounds_of(data: xr.Dataset) -> dict[Hashable, Hashable]:
    """Return the variables that are bounds of a coordinate, as a dict {variable: coordinate}.

    Examples
    --------
    >>> time = xr.Variable("time", [0, 1], {"bounds": "time_bnds"})
    >>> bounds_of(xr.Dataset({"time_bnds": (("time", "nv"), np.zeros((2, 2)))}, {"time": time}))
    {'time_bnds': 'time'}
    """
    found: dict[Hashable, Hashable] = {}
    for name, variable in data.variables.items():
        for key in ("bounds", "climatology"):
            bounds = variable.attrs.get(key, variable.encoding.get(key))
            if isinstance(bounds, str) and bounds in data.variables:
                found[bounds] = name
    for name, each in data.data_vars.items():
        base = str(name).removesuffix("_bnds").removesuffix("_bounds")
        if base != str(name) and base in data.dims and base in each.dims and each.shape[-1] == 2:
            found.setdefault(name, base)
    return found


def on_grid(given: Any, like: xr.DataArray, role: str) -> Any:
    """Return a pandas series, reordered by its index to the order of the samples.

    A series whose index has only some of the sample dims, or further dims, becomes a DataArray.
    Anything that is not a series is returned unchanged.

    Examples
    --------
    >>> like = xr.DataArray([0, 0], dims="x", coords={"x": ["a", "b"]})
    >>> on_grid(pd.Series([1, 2], index=["b", "a"]), like, "target").tolist()
    [2, 1]
    """
    if not isinstance(given, pd.Series):
        return given
    names = set(given.index.names)
    stacked = like.indexes.get(like.dims[0]) if like.ndim == 1 else None
    if isinstance(stacked, pd.MultiIndex) and names == set(stacked.names):
        given = given.reorder_levels(list(stacked.names))
        if not given.index.is_unique or set(given.index) != set(stacked):
            raise _by_position(given, role, f"the data has other labels along {like.dims[0]!r}")
        return given.reindex(stacked).reset_index(drop=True)
    if None not in names and (names < set(like.dims) or names > set(like.dims)):
        grid = as_grid(given, list(given.index.names), role)  # the caller broadcasts it
        same = {
            dim: like.indexes[dim]
            for dim in grid.dims
            if dim in like.indexes and set(like.indexes[dim]) == set(grid.indexes[dim])
        }
        return grid.reindex(same)
    places = as_grid(pd.Series(np.arange(len(given)), index=given.index), list(like.dims), role)
    for dim in like.dims:
        if dim not in places.dims:
            raise _by_position(given, role, f"the samples of the data have the dims {like.dims}")
        whole = like.indexes.get(dim)
        if whole is None:
            whole = pd.RangeIndex(like.sizes[dim])
        if isinstance(whole, xr.CFTimeIndex) != isinstance(places.indexes[dim], xr.CFTimeIndex):
            calendar = getattr(whole, "calendar", "standard")
            why = f"the data has dates of the calendar {calendar!r} along {dim!r}"
            raise _by_position(given, role, why)
        if len(whole) != places.sizes[dim] or set(places.indexes[dim]) != set(whole):
            raise _by_position(given, role, f"the data has other labels along {dim!r}")
        places = places.reindex({dim: whole})
    order = places.transpose(*like.dims).values.reshape(-1)
    if order.dtype.kind == "f" and np.isnan(order).any():
        raise _by_position(given, role, f"{np.isnan(order).sum()} samples have no value")
    return given.iloc[order.astype(np.int64)].reset_index(drop=True)


def as_grid(series: Any, dims: list[Hashable], role: str) -> xr.DataArray:
    """Convert a pandas series to a DataArray whose dims are the levels of the index.

    Each level must have the name of a dim. If there is only one dim, a single level needs no name.

    Examples
    --------
    >>> as_grid(pd.Series([1, 2]), ["x"], "target").dims
    ('x',)
    """
    if not series.index.is_unique:
        raise _by_position(series, role, "some labels occur twice")
    names = list(series.index.names)
    if names == [None] and len(dims) == 1:
        series, names = series.rename_axis(dims[0]), dims
    if any(name is None or name not in dims for name in names):
        raise _by_position(series, role, f"the samples of the data have the dims {tuple(dims)}")
    return xr.DataArray.from_series(series)


def _by_position(series: Any, role: str, why: str) -> ValueError:
    names = ", ".join("unnamed" if name is None else repr(name) for name in series.index.names)
    return ValueError(
        f"{role} is a pandas Series with the index {names} of {len(series)} labels, but {why}; "
        f"name the index after the dims with {role}.rename_axis(...), or give {role}.to_numpy() "
        "to match the values by position"
    )
