"""The groups of samples, given by name, as an array or as blocks of coordinates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
import zarr

from hofs_dask.errors import unknown
from hofs_dask.io.arrays import open_named, open_path, unnamed
from hofs_dask.io.blocks import open_grid
from hofs_dask.io.columns import Column, Features, is_dask_frame, target_type
from hofs_dask.io.fingerprint import Identity, combine, digest
from hofs_dask.io.frames import check_index
from hofs_dask.io.grids import check_labels, spread
from hofs_dask.io.paths import as_path
from hofs_dask.io.targets import as_column, as_series, names_column, target_name

ROLE = "groups"


def take_groups(data: Any, groups: Any, target: Any) -> tuple[Any, Any]:
    """Return the data without the column or variable called ``groups``, and the values of that.

    If ``groups`` is not a name, data and groups are returned unchanged.

    Examples
    --------
    >>> data, groups = take_groups({"a": np.zeros(2), "site": np.array([7, 8])}, "site", None)
    >>> list(data), groups
    (['a'], array([7, 8]))
    """
    if not names_column(groups):
        return data, groups
    if names_column(target) and target == groups:
        raise ValueError(f"groups and target are both {groups!r}; give another name for groups")
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        path = as_path(data)
        return _take(open_path(path), path, groups)
    if isinstance(data, zarr.Array | zarr.Group):
        return _take(data, str(data.store_path), groups)
    if isinstance(data, xr.Dataset):
        if groups not in data.variables:
            raise unknown("variable for groups", groups, data.variables)
        return (data.drop_vars(groups) if groups in data.data_vars else data), data[groups]
    if isinstance(data, xr.DataArray):
        if groups not in data.coords:
            raise unknown("coordinate for groups", groups, data.coords)
        return data, data.coords[groups]
    if is_dask_frame(data) or isinstance(data, pd.DataFrame):
        if list(data.columns).count(groups) != 1:
            raise unknown("column for groups", groups, list(data.columns))
        return data.drop(columns=[groups]), data[groups]
    if isinstance(data, Mapping):
        if groups not in data:
            raise unknown("key for groups", groups, list(data))
        return {name: each for name, each in data.items() if name != groups}, data[groups]
    raise unnamed(ROLE, groups)


def _take(node: Any, address: str, groups: Hashable) -> tuple[Any, Any]:
    found = open_named(node, address, groups, ROLE)
    if isinstance(found, xr.Dataset):
        return take_groups(found, groups, None)
    return node, found


def groups_column(groups: Any, features: Features) -> Column:
    """Return groups as a column with one id per sample of the features.

    A DataArray with only some of the sample dims is broadcast along the others.

    Examples
    --------
    >>> from hofs_dask.io.arrays import from_array
    >>> groups_column(["a", "b"], from_array(np.zeros((2, 3)), None)[0]).name
    'groups'
    """
    if isinstance(groups, Column):
        return groups
    grid = features.grid
    if isinstance(groups, Mapping):
        if grid is None:
            raise TypeError(
                f"groups is {groups!r}, blocks of coordinates, but the data is not an xarray "
                "object; give groups as an array with one id per sample"
            )
        return _blocks(groups, grid)
    groups = as_series(groups)
    if isinstance(groups, xr.DataArray) and grid is not None:
        if not set(groups.dims) <= set(grid.dims):
            raise ValueError(
                f"groups {groups.name!r} has the dims {groups.dims} and the samples of the data "
                f"have {grid.dims}; give some of these dims, for example with groups.rename"
            )
        check_labels(groups, grid, list(groups.dims), ROLE)
        opened, identity = open_grid(groups)
        name = target_name(groups, ROLE)
        whole = combine([identity], "groups", list(map(str, groups.dims)), grid.shape)
        return Column(spread(opened, grid), target_type(groups.dtype), name, whole)
    if isinstance(groups, pd.Series) and features.index is not None:
        check_index(groups, features.index, ROLE)
    if isinstance(groups, pd.Series) and isinstance(groups.dtype, np.dtype):
        # dates are valid ids, but not valid values of a feature
        column = as_column(groups.to_numpy(), ROLE)
        assert column is not None
        return Column(column.array, column.type, target_name(groups, ROLE), column.identity)
    column = as_column(groups, ROLE)
    assert column is not None
    return column


def _blocks(blocks: Mapping[Hashable, Any], grid: xr.DataArray) -> Column:
    """Return the number of the block of coordinates that each sample is in."""
    if not blocks:
        raise ValueError('groups is empty; give the size of a block, such as {"lat": 10}')
    total: Any = 0
    kept: list[object] = []
    for name, size in blocks.items():
        if name not in grid.dims and name not in grid.coords:
            raise unknown("coordinate for groups", name, [*grid.dims, *grid.coords])
        numbers = _numbers(name, size, grid)
        kept.append([str(name), str(size), list(map(str, numbers.dims)), numbers.values.tolist()])
        total = total * (int(numbers.max()) + 1) + spread(numbers, grid)
    identity = Identity(digest(["blocks", kept, list(map(str, grid.dims)), grid.shape]))
    return Column(total, "integer", " x ".join(map(str, blocks)), identity)


def _numbers(name: Hashable, size: Any, grid: xr.DataArray) -> xr.DataArray:
    """Return, for each value of a coordinate, the number of its block, counted from 0."""
    coord = grid.coords.get(name)
    if coord is None:  # a dim without a coordinate: use positions as its values
        coord = xr.DataArray(np.arange(grid.sizes[name]), dims=(name,))
    what = f"groups has the block {size!r} of {name!r}"
    if isinstance(size, str):
        if coord.ndim != 1 or coord.dtype.kind != "M":
            raise TypeError(
                f"{what}, which is {coord.dtype} {coord.dims}; give a number for its width, or "
                f"groups=data[{name!r}] for one group per value"
            )
        series = pd.Series(0, index=pd.DatetimeIndex(coord.values))
        try:
            found = series.groupby(pd.Grouper(freq=size)).ngroup().to_numpy()
        except ValueError as error:
            raise ValueError(
                f"{what}; give a frequency of pandas, such as '1YE' or '7D'"
            ) from error
    else:
        is_number = isinstance(size, int | float | np.number) and not isinstance(size, bool)
        if not is_number or not 0 < size < np.inf or coord.dtype.kind not in "iuf":
            raise TypeError(
                f"{what}, which is {coord.dtype}; give a width above 0 for numbers, or a frequency "
                "such as '1YE' for dates"
            )
        if coord.dtype.kind == "f" and not np.isfinite(coord.values).all():
            raise ValueError(f"{what}, which has missing values; give groups as an array")
        found = np.unique(np.floor(coord.values / size), return_inverse=True)[1]
    return xr.DataArray(np.asarray(found, np.int64).reshape(coord.shape), dims=coord.dims)
