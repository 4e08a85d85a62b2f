"""The option ``join``: how the samples of data, target and further columns are matched."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
import xarray as xr

from hofs_dask.errors import unknown
from hofs_dask.io.feature_names import as_dims
from hofs_dask.io.labelled import as_grid
from hofs_dask.io.reading import Reading

JOINS = ("exact", "inner", "override")


def join_labels(
    data: Any, columns: Mapping[str, Any], reading: Reading
) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Return data and columns with the same labels, and messages that say what was left out.

    ``columns`` contains what the options ``"target"``, ``"groups"`` and so on were given, by name.

    Examples
    --------
    >>> frame, y = pd.DataFrame({"a": [1, 2, 3]}), pd.Series([0, 1], index=[2, 1])
    >>> data, columns, notes = join_labels(frame, {"target": y}, Reading(join="inner"))
    >>> data.index.tolist(), columns["target"].tolist(), notes
    ([1, 2], [1, 0], ("join='inner' leaves out 1 of 3 rows of the data",))
    """
    join = reading.join
    if join not in JOINS:
        raise unknown("join", join, JOINS)
    if join == "exact":
        return data, dict(columns), ()
    if isinstance(data, xr.DataArray | xr.Dataset):
        skipped = as_dims(reading.feature_dim)
        dims: list[Hashable] = [dim for dim in data.dims if dim not in skipped]
        if join == "override":
            for role, each in columns.items():
                _check_sizes(data, each, role)
            return data, {role: _bare(each) for role, each in columns.items()}, ()
        return _inner(data, columns, dims)
    if isinstance(data, pd.DataFrame):
        if join == "override":
            return data, {role: _bare(each) for role, each in columns.items()}, ()
        return _inner_frame(data, columns)
    raise TypeError(
        f"join is {join!r}, but a {type(data).__name__} has no labels to join by; leave join out, "
        "or give a pandas data frame or an xarray object"
    )


def _bare(given: Any) -> Any:
    """Return a Series without its index, or a DataArray without the coordinates of its dims."""
    if isinstance(given, pd.Series):
        return given.array if isinstance(given.dtype, pd.CategoricalDtype) else given.to_numpy()
    if isinstance(given, xr.DataArray):
        return given.drop_vars([dim for dim in given.dims if dim in given.coords])
    return given


def _check_sizes(data: Any, given: Any, role: str) -> None:
    """Raise a ValueError if a DataArray cannot be matched with the data by position."""
    for dim in given.dims if isinstance(given, xr.DataArray) else ():
        if data.sizes.get(dim, given.sizes[dim]) != given.sizes[dim]:
            raise ValueError(
                f'join="override" matches by position, but {role} has {given.sizes[dim]} values '
                f'along {dim!r} and the data has {data.sizes[dim]}; give join="inner" to use the '
                "common labels"
            )


def _inner(
    data: Any, columns: Mapping[str, Any], dims: list[Hashable]
) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    arrays = {
        role: as_grid(each, dims, role) if isinstance(each, pd.Series) else each
        for role, each in columns.items()
        if isinstance(each, xr.DataArray | pd.Series)
    }
    for role, each in {"the data": data, **arrays}.items():
        for dim, index in each.indexes.items():
            if dim in dims and not index.is_unique:
                raise ValueError(
                    f'join is "inner", but some labels along {dim!r} of {role} occur twice; give '
                    f"each label once, for example with drop_duplicates({dim!r})"
                )
    found, *others = xr.align(data, *arrays.values(), join="inner", copy=False)
    made = {**columns, **dict(zip(arrays, others, strict=True))}
    notes = []
    for role, old, new in [("the data", data, found)] + [
        (role, arrays[role], made[role]) for role in arrays
    ]:
        for dim in old.dims:
            if not new.sizes[dim]:
                raise ValueError(
                    f'join="inner" leaves nothing: {role} has no labels along {dim!r} in common '
                    "with the others"
                )
            n_left = old.sizes[dim] - new.sizes[dim]
            if n_left:
                notes.append(
                    f"join='inner' leaves out {n_left} of {old.sizes[dim]} labels along {dim!r} "
                    f"of {role}"
                )
    return found, made, tuple(notes)


def _inner_frame(
    data: pd.DataFrame, columns: Mapping[str, Any]
) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    series = {role: each for role, each in columns.items() if isinstance(each, pd.Series)}
    common = data.index
    for role, each in {"the data": data, **series}.items():
        if not each.index.is_unique:
            raise ValueError(
                f'join is "inner", but some labels of the index of {role} occur twice; give each '
                "label once"
            )
        common = common[common.isin(each.index)]
    if not len(common):
        raise ValueError('join="inner" leaves nothing: the indexes have no labels in common')
    made = {**columns, **{role: each.loc[common] for role, each in series.items()}}
    n_left = {"the data": (len(data) - len(common), len(data))} | {
        role: (len(each) - len(common), len(each)) for role, each in series.items()
    }
    notes = tuple(
        f"join='inner' leaves out {n} of {of} rows of {role}"
        for role, (n, of) in n_left.items()
        if n
    )
    return data.loc[common], made, notes
