"""Names of features along the dims of xarray data."""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from hofs_dask.errors import unknown
from hofs_dask.io.columns import plain
from hofs_dask.io.kinds import Name

Labels = tuple[Any, ...]


def as_dims(feature_dim: Hashable | Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    """Return the dims that the option ``feature_dim`` names, as a tuple. Only a list names several.

    Examples
    --------
    >>> as_dims("band"), as_dims(["variable", "level"]), as_dims(None)
    (('band',), ('variable', 'level'), ())
    """
    if feature_dim is None:
        return ()
    given: Any = feature_dim
    return tuple(given) if isinstance(given, list) else (given,)


def check_dims(dims: Sequence[Hashable], known: Iterable[Hashable]) -> None:
    """Raise a ValueError if the option ``feature_dim`` names a dim that the data does not have.

    Examples
    --------
    >>> check_dims([("band", "y")], ["band", "y"])
    Traceback (most recent call last):
    ...
    ValueError: feature_dim is the tuple ('band', 'y'); give several dims as a list, ['band', 'y']
    """
    known = list(known)
    for dim in dims:
        if dim in known:
            continue
        if isinstance(dim, tuple) and dim and all(part in known for part in dim):
            raise ValueError(
                f"feature_dim is the tuple {dim!r}; give several dims as a list, {list(dim)}"
            )
        raise unknown("feature_dim", dim, known)


def coord_dim(data: xr.DataArray | xr.Dataset, coord: Hashable) -> Hashable:
    """Return the dim of a coordinate that names the features; raise an error unless it has one dim.

    Examples
    --------
    >>> data = xr.DataArray(np.zeros((2, 3)), dims=("time", "band"))
    >>> coord_dim(data.assign_coords(wavelength=("band", [0.4, 0.5, 0.6])), "wavelength")
    'band'
    """
    if coord not in data.coords:
        raise unknown("feature_coord", coord, data.coords)
    dims = data.coords[coord].dims
    if len(dims) != 1:
        raise ValueError(
            f"feature_coord {coord!r} has the dims {dims}; give a coordinate that has only one "
            "dim, along which the features are"
        )
    return dims[0]


def labels_along(
    data: xr.DataArray | xr.Dataset, dim: Hashable, coord: Hashable | None = None
) -> list[Labels] | None:
    """Return a list of the labels along a dim, each as a tuple; None if there is no coordinate.

    ``coord`` is the name of the coordinate with the labels, by default ``dim``. For a MultiIndex,
    a tuple has one entry for each level, except for levels with a missing value.

    Examples
    --------
    >>> data = xr.DataArray([1, 2], dims="band", coords={"band": ["red", "blue"]})
    >>> labels_along(data, "band")
    [('red',), ('blue',)]
    """
    name = dim if coord is None else coord
    if name not in data.coords or data.coords[name].dims != (dim,):
        return None
    values = data.coords[name].values
    index = data.indexes.get(name)
    if isinstance(index, pd.MultiIndex):
        return [tuple(_plain(each) for each in label if not _is_nan(each)) for label in index]
    return [(_plain(value),) for value in values]


def joined(parts: Labels) -> Name:
    """Return the name of a feature: the tuple of its parts, or the part if there is only one.

    Examples
    --------
    >>> joined(("t2m",)), joined(("T", 500))
    ('t2m', ('T', 500))
    """
    return plain(parts[0] if len(parts) == 1 else parts)


def names_along(
    data: xr.DataArray, dims: Sequence[Hashable], coord: Hashable | None, first: Labels = ()
) -> list[Labels]:
    """Return the parts of the name of each feature: ``first``, then its labels along the dims.

    The labels along a dim without coordinate are positions (0, 1, ...), or ``x0``, ``x1``, ... if
    the name has no other parts.

    Examples
    --------
    >>> data = xr.DataArray(np.zeros((1, 2)), dims=("variable", "level"))
    >>> names_along(data.assign_coords(variable=["T"]), ("variable", "level"), None)
    [('T', 0), ('T', 1)]
    """
    columns = []
    for dim in dims:
        own = coord if coord is not None and data.coords[coord].dims == (dim,) else None
        labels = labels_along(data, dim, own)
        if labels is None:
            alone = len(dims) == 1 and not first
            labels = [(f"x{j}" if alone else j,) for j in range(data.sizes[dim])]
        columns.append(labels)
    return [first + tuple(itertools.chain(*labels)) for labels in itertools.product(*columns)]


def lag_text(dim: Hashable, lag: int) -> str:
    """Return the part of a feature name that states the lag along a dim.

    Examples
    --------
    >>> lag_text("time", 2)
    'time-2'
    """
    return f"{dim}-{lag}"


def split_lags(name: Name, dims: Sequence[Hashable]) -> tuple[Name, dict[Hashable, int]]:
    """Return the name of a feature without its lags, and the lags by dim.

    Examples
    --------
    >>> split_lags(("T", 500, "time-1"), ["time", "level"])
    (('T', 500), {'time': 1})
    """
    if not isinstance(name, tuple):
        return name, {}
    by_text = {str(dim): dim for dim in dims}
    parts, lags = list(name), {}
    while len(parts) > 1 and isinstance(parts[-1], str):
        found = re.fullmatch(r"(.+)-(\d+)", parts[-1])
        if found is None or found[1] not in by_text:
            break
        lags[by_text[found[1]]] = int(found[2])
        parts.pop()
    return joined(tuple(parts)), lags


def check_lags(lags: Any, dims: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Return the option ``lags`` as a dict from each dim to its lags, as numbers of steps.

    An option that is not valid raises an error.

    ``dims`` are the sample dims.

    Examples
    --------
    >>> check_lags({"time": range(3)}, ["time", "lat"])
    {'time': [0, 1, 2]}
    """
    if lags is None:
        return {}
    if not isinstance(lags, Mapping):
        raise TypeError(f'lags is {lags!r}; give steps by dim, such as {{"time": [0, 1, 2]}}')
    checked = {}
    for dim, given in lags.items():
        if dim not in dims:
            raise unknown("sample dim in lags", dim, dims)
        steps = [given] if isinstance(given, int | np.integer) else list(given)
        for step in steps:
            if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 0:
                raise ValueError(
                    f"lags has {step!r} for {dim!r}; give whole numbers of steps back, 0 or more"
                )
        if not steps or len(set(steps)) < len(steps):
            raise ValueError(f"lags has {steps} for {dim!r}; give each number of steps once")
        checked[dim] = [int(step) for step in steps]
    return checked


def _plain(value: Any) -> Any:
    """Return a label as text or a number; ``.sel`` accepts the text of a date or a duration."""
    if isinstance(value, np.timedelta64) and not np.isnat(value):
        value = pd.Timedelta(value)
    if isinstance(value, pd.Timedelta):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, np.datetime64) or hasattr(value, "isoformat"):  # cftime, time zones
        text = str(value) if isinstance(value, np.datetime64) else value.isoformat()
        return re.sub(r"(T00:00(:00)?)?(\.0+)?$", "", text) if "T" in text else text
    return plain(value)


def _is_nan(value: Any) -> bool:
    return value is None or value is pd.NaT or (isinstance(value, float) and bool(np.isnan(value)))
