"""The option ``groups``: the group of each sample, from an array or from blocks of coordinates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from hofs_dask.errors import unknown
from hofs_dask.io.columns import Column, Features
from hofs_dask.io.fingerprint import Identity, digest
from hofs_dask.io.frames import check_index
from hofs_dask.io.labelled import spread
from hofs_dask.io.reading import GROUPS
from hofs_dask.io.samples import sample_column
from hofs_dask.io.targets import as_column, as_series, target_name


def groups_column(groups: Any, features: Features) -> Column:
    """Return the option ``groups`` as a column with the id of the group of each sample.

    Examples
    --------
    >>> from hofs_dask.io.arrays import from_array
    >>> groups_column(["a", "b"], from_array(np.zeros((2, 3)), None)[0]).name
    'groups'
    """
    groups = as_series(groups)
    if isinstance(groups, Mapping):
        if features.grid is None:
            raise TypeError(
                f"groups is {groups!r}, blocks of coordinates, but the data is not an xarray "
                "object; give groups as an array with one id per sample"
            )
        return _blocks(groups, features.grid)
    if isinstance(groups, pd.Series) and isinstance(groups.dtype, np.dtype):
        check_index(groups, features, GROUPS)
        # dates are valid ids, but not valid values of a feature
        column = as_column(groups.to_numpy(), GROUPS)
        assert column is not None
        return Column(column.array, column.type, target_name(groups, GROUPS), column.identity)
    return sample_column(groups, features, GROUPS)


def _blocks(blocks: Mapping[Hashable, Any], grid: xr.DataArray) -> Column:
    """Return a column with the index of the block of coordinates that each sample is in."""
    if not blocks:
        raise ValueError('groups is empty; give the size of a block, such as {"lat": 10}')
    total: Any = 0
    kept: list[object] = []
    for name, size in blocks.items():
        if name not in grid.dims and name not in grid.coords:
            raise unknown(
                "coordinate for groups", name, list(dict.fromkeys([*grid.dims, *grid.coords]))
            )
        numbers = _numbers(name, size, grid)
        kept.append([str(name), str(size), list(map(str, numbers.dims)), numbers.values.tolist()])
        total = total * (int(numbers.max()) + 1) + spread(numbers, grid)
    identity = Identity(digest(["blocks", kept, list(map(str, grid.dims)), grid.shape]))
    return Column(total, "integer", " x ".join(map(str, blocks)), identity)


def _periods(index: pd.DatetimeIndex | xr.CFTimeIndex, size: str) -> np.ndarray:
    """Return the index of the period of this length that contains each date; -1 if it is missing.

    Examples
    --------
    >>> _periods(pd.DatetimeIndex(["2001-01-31", "2003-01-01", None, "2001-02-01"]), "1YE")
    array([ 0,  2, -1,  0])
    """
    if isinstance(index, pd.DatetimeIndex):
        # pandas returns the periods in the order of the dates, whatever the order of the index
        order = np.argsort(index, kind="stable")
        order = order[index[order].notna()]
        periods = np.full(len(index), -1)
        periods[order] = pd.Series(0, index=index[order]).groupby(pd.Grouper(freq=size)).ngroup()
        return periods
    order = np.asarray(index.argsort())
    dates = xr.DataArray(np.arange(len(index)), {"date": index[order].rename("date")}, ["date"])
    found = np.empty(len(index), np.int64)
    for number, (_, places) in enumerate(dates.resample(date=size)):
        found[order[places.values]] = number
    return found


def _numbers(name: Hashable, size: Any, grid: xr.DataArray) -> xr.DataArray:
    """Return, for each value of a coordinate, the index of the block that contains it."""
    coord = grid.coords.get(name)
    if coord is None:  # a dim without a coordinate: blocks of positions
        coord = xr.DataArray(np.arange(grid.sizes[name]), dims=(name,))
    what = f"groups has the block {size!r} of {name!r}"
    if isinstance(size, str):
        index = coord.to_index() if coord.ndim == 1 else None
        if not isinstance(index, pd.DatetimeIndex | xr.CFTimeIndex):
            raise TypeError(
                f"{what}, which is {coord.dtype} {coord.dims}; give a number for its width, or "
                f"groups=data[{name!r}] for one group per value"
            )
        try:
            found = _periods(index, size)
        except ValueError as error:
            raise ValueError(
                f"{what}; give a frequency of pandas, such as '1YE' or '7D'"
            ) from error
        if (found < 0).any():
            raise ValueError(f"{what}, which has missing dates; give groups as an array")
    else:
        is_number = isinstance(size, int | float | np.integer | np.floating)
        is_number = is_number and not isinstance(size, bool | np.timedelta64)
        if not is_number or not 0 < size < np.inf or coord.dtype.kind not in "iuf":
            raise TypeError(
                f"{what}, which is {coord.dtype}; give a width above 0 for numbers, or a frequency "
                "such as '1YE' for dates"
            )
        if coord.dtype.kind == "f" and not np.isfinite(coord.values).all():
            raise ValueError(f"{what}, which has missing values; give groups as an array")
        found = np.unique(np.floor(coord.values / size), return_inverse=True)[1]
    return xr.DataArray(np.asarray(found, np.int64).reshape(coord.shape), dims=coord.dims)
