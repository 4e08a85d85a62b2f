"""Further columns with one value per sample: groups, weights and masks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
import xarray as xr
import zarr

from hofs_dask.errors import unknown
from hofs_dask.io.arrays import open_named, unnamed
from hofs_dask.io.blocks import open_grid
from hofs_dask.io.columns import Column, Features, is_dask_frame, target_type
from hofs_dask.io.fingerprint import combine
from hofs_dask.io.frames import check_index
from hofs_dask.io.labelled import called, check_labels, is_same, refuse_latitudes, spread
from hofs_dask.io.reading import BY, WEIGHTS
from hofs_dask.io.table import Table
from hofs_dask.io.targets import as_column, as_series, names_column, target_name


def take_column(data: Any, given: Any, role: str, others: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the data without the column or variable called ``given``, and this column.

    A DataArray that is a variable of a Dataset is taken like its name. If ``given`` is neither a
    name nor such an array, both are returned unchanged. ``role`` is the option that names the
    column, such as ``"groups"``, and ``others`` has the values of the other options that may name
    a column.

    Examples
    --------
    >>> import numpy as np
    >>> data = {"a": np.zeros(2), "site": np.array([7, 8])}
    >>> data, groups = take_column(data, "site", "groups", {"target": None})
    >>> list(data), groups
    (['a'], array([7, 8]))
    """
    if not names_column(given):
        if isinstance(given, xr.DataArray) and isinstance(data, xr.Dataset):
            name: Any = given.name
            if name in data.data_vars and is_same(given, data[name]):
                return data.drop_vars(name), given
        return data, given
    for other, name in others.items():
        if names_column(name) and name == given:
            raise ValueError(f"{role} and {other} are both {given!r}; give another name for {role}")
    if isinstance(data, Table):
        return data.without(given), data.column(given, role)
    if isinstance(data, zarr.Array | zarr.Group):
        return _take(data, str(data.store_path), given, role)
    if isinstance(data, xr.Dataset | xr.DataArray) and _is_of_date(data, given):
        known = data[str(given).rpartition(".")[0]].notnull()
        # the season of a missing date is the text "nan"
        return data, data[given] if known.all() else data[given].where(known)
    if isinstance(data, xr.Dataset):
        if given not in data.variables:
            raise unknown(f"variable for {role}", given, data.variables)
        return (data.drop_vars(given) if given in data.data_vars else data), data[given]
    if isinstance(data, xr.DataArray):
        if given not in data.coords:
            raise unknown(f"coordinate for {role}", given, data.coords)
        return data, data.coords[given]
    if is_dask_frame(data) or isinstance(data, pd.DataFrame):
        if list(data.columns).count(given) != 1:
            raise unknown(f"column for {role}", given, list(data.columns))
        return data.drop(columns=[given]), data[given]
    if isinstance(data, Mapping):
        if given not in data:
            raise unknown(f"key for {role}", given, list(data))
        return {name: each for name, each in data.items() if name != given}, data[given]
    raise unnamed(role, given)


def _is_of_date(data: xr.Dataset | xr.DataArray, given: Hashable) -> bool:
    """Return whether a name means a component of the dates of a coordinate, like ``time.season``.

    Examples
    --------
    >>> data = xr.DataArray([1], {"time": pd.to_datetime(["2001-01-01"])}, dims="time")
    >>> _is_of_date(data, "time.season"), _is_of_date(data, "time")
    (True, False)
    """
    if not isinstance(given, str) or given in data.coords:
        return False
    if isinstance(data, xr.Dataset) and given in data.data_vars:
        return False
    name, _, part = given.rpartition(".")
    return name in data.coords and hasattr(getattr(data[name], "dt", None), part)


def _take(node: Any, address: str, given: Hashable, role: str) -> tuple[Any, Any]:
    found = open_named(node, address, given, role)
    if isinstance(found, xr.Dataset):
        return take_column(found, given, role, {})
    return node, found


def sample_column(given: Any, features: Features, role: str) -> Column:
    """Return an array as a `Column` with one value per sample of the features.

    A DataArray with only some of the sample dims is broadcast along the others.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.io.arrays import from_array
    >>> sample_column(["a", "b"], from_array(np.zeros((2, 3)), None)[0], "groups").name
    'groups'
    """
    if isinstance(given, Column):
        return given
    grid = features.grid
    given = as_series(given)
    if isinstance(given, xr.DataArray) and grid is not None:
        if not set(given.dims) <= set(grid.dims):
            raise ValueError(
                f"{called(role, given)} has the dims {given.dims} and the samples of the data "
                f"have {grid.dims}; give some of these dims, for example with {role}.rename"
            )
        check_labels(given, grid, list(given.dims), role)
        opened, identity = open_grid(given)
        name = target_name(given, role)
        whole = combine([identity], role, list(map(str, given.dims)), grid.shape)
        return Column(spread(opened, grid), target_type(given.dtype), name, whole)
    if isinstance(given, pd.Series):
        check_index(given, features, role)
    column = as_column(given, role)
    assert column is not None
    return column


def by_column(given: Any, features: Features) -> Column:
    """Return the option ``by`` as a column: for each sample, the label of its part of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.io.arrays import from_array
    >>> by_column(["a", "b"], from_array(np.zeros((2, 3)), None)[0]).type
    'nominal'
    """
    if isinstance(given, Mapping):
        raise TypeError(
            f"by is {given!r}; give an array with one label per sample, the name of a column, "
            "variable or coordinate of the data, or a part of its dates such as 'time.season'"
        )
    return sample_column(given, features, BY)


def weights_column(given: Any, features: Features) -> Column:
    """Return weights as a column of numbers with one value per sample of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.io.arrays import from_array
    >>> weights_column([0.5, 1.0], from_array(np.zeros((2, 3)), None)[0]).type
    'number'
    """
    if isinstance(given, Mapping):
        raise TypeError(
            f"weights is {given!r}; give an array with one weight per sample, such as "
            "np.where(y == 1, 5, 1) for weights of classes, or the name of a column or variable of "
            "the data"
        )
    if isinstance(given, xr.DataArray):
        refuse_latitudes(given)
    column = sample_column(given, features, WEIGHTS)
    if column.array.dtype.kind not in "biuf":
        raise TypeError(
            f"weights {column.name!r} is {column.array.dtype}; give one number per sample"
        )
    return column
