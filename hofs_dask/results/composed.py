"""Find chosen features in xarray data by composed names: variable, labels and lags."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hofs_dask.results.datasets import label_array

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Place:
    """Where a feature is in a DataArray: its positions along some dims, and its lags."""

    positions: dict[Hashable, int]
    lags: dict[Hashable, int]

    def take(self, data: xr.DataArray) -> xr.DataArray:
        """Return the values of the feature, lazily."""
        chosen = data.isel(self.positions, drop=True)
        return chosen.shift(self.lags) if any(self.lags.values()) else chosen


def chosen_composed(
    features: Sequence[Any], data: xr.Dataset | xr.DataArray, dims: Sequence[str] = ()
) -> Any:
    """Return the chosen features from xarray data; None if they are not found by composed names.

    ``dims`` are the dims of the features; dims that the data does not have are ignored. If none is
    left, the dims are found by the labels in the names. If this is possible in more than one way,
    the result is None.

    From a DataArray, the features are taken along their dim, if it is only one and there are no
    lags; otherwise, they are put side by side along a new dim ``feature``. From a Dataset, each
    feature becomes a variable. If the names do not contain variables, the features are taken from
    the first variable that has all of them.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> data = xr.Dataset({"T": (("time", "level"), [[1, 2], [3, 4]])}, {"level": [500, 850]})
    >>> chosen_composed([("T", 850)], data)["T", 850].values
    array([2, 4])
    """
    import xarray as xr

    if isinstance(data, xr.DataArray):
        places = _places(features, data, dims)
        return None if places is None else _joined(features, data, places)
    made: dict[Hashable, xr.DataArray] = {}
    for name in features:
        found = _in_dataset(name, data, dims)
        if found is None:
            break
        made[name] = found
    else:
        return xr.Dataset(made, attrs=data.attrs)
    for variable in data.data_vars.values():
        places = _places(features, variable, dims)
        if places is not None:
            return _joined(features, variable, places).to_dataset(name=variable.name)
    return None


def _in_dataset(name: Any, data: xr.Dataset, dims: Sequence[str]) -> xr.DataArray | None:
    """Return the feature of this name, taken from one variable; None if it is not found."""
    from hofs_dask.io.feature_names import split_lags

    base, lags = split_lags(name, list(data.dims))
    if base in data.data_vars:
        return Place({}, lags).take(data[base])
    if not isinstance(base, tuple) or base[0] not in data.data_vars:
        return None
    variable = data[base[0]]
    places = _places([base[1] if len(base) == 2 else base[1:]], variable, dims)
    return None if places is None else Place(places[0].positions, lags).take(variable)


def _places(features: Sequence[Any], data: xr.DataArray, dims: Sequence[str]) -> list[Place] | None:
    """Return the place of each feature; None unless there is exactly one way to find all."""
    from hofs_dask.io.feature_names import split_lags

    if not features:
        return None
    split = [split_lags(name, data.dims) for name in features]
    rows = [name if isinstance(name, tuple) else (name,) for name, _ in split]
    known = {str(dim): dim for dim in data.dims}
    given = [known[dim] for dim in dims if dim in known]
    orders = [given] if given else _orders(data.dims, max(map(len, rows)))
    ways = []
    for order in orders:
        tables = _tables(data, order)
        found = [where for row in rows if (where := _find(row, order, tables)) is not None]
        if len(found) == len(rows):
            ways.append(found)
    if len(ways) != 1:
        return None
    return [Place(where, lags) for where, (_, lags) in zip(ways[0], split, strict=True)]


def _orders(dims: Sequence[Hashable], most: int) -> list[list[Hashable]]:
    """Return all ordered choices of up to ``most`` dims."""
    sizes = range(1, min(most, len(dims)) + 1)
    return [list(some) for size in sizes for some in itertools.permutations(dims, size)]


def _tables(data: xr.DataArray, dims: Sequence[Hashable]) -> list[dict[tuple[Any, ...], int]]:
    """Return, for each dim, the position of each label of each coordinate along the dim."""
    from hofs_dask.io.feature_names import labels_along

    tables = []
    for dim in dims:
        coords = [dim, *(name for name, each in data.coords.items() if each.dims == (dim,))]
        table: dict[tuple[Any, ...], int] = {}
        for coord in dict.fromkeys(coords):
            for position, label in enumerate(labels_along(data, dim, coord) or ()):
                table.setdefault(label, position)
        if not table:  # names without coordinate: positions, or x0, x1, ... if alone
            table = {(j,): j for j in range(data.sizes[dim])}
            if len(dims) == 1:
                table |= {(f"x{j}",): j for j in range(data.sizes[dim])}
        tables.append(table)
    return tables


def _find(
    row: tuple[Any, ...], dims: Sequence[Hashable], tables: list[dict[tuple[Any, ...], int]]
) -> dict[Hashable, int] | None:
    """Return the position of a feature along each dim; None if one of its labels is not found."""
    if len(dims) == 1:
        return {dims[0]: tables[0][row]} if row in tables[0] else None
    if len(row) != len(dims):
        return None
    pairs = list(zip(dims, tables, ((part,) for part in row), strict=True))
    if any(label not in table for _, table, label in pairs):
        return None
    return {dim: table[label] for dim, table, label in pairs}


def _joined(features: Sequence[Any], data: xr.DataArray, places: list[Place]) -> xr.DataArray:
    """Return the features side by side, along their dim or along the dim ``feature``."""
    import xarray as xr

    dims = list(places[0].positions)
    if len(dims) == 1 and not any(any(place.lags.values()) for place in places):
        return data.isel({dims[0]: [place.positions[dims[0]] for place in places]})
    whole = xr.concat(
        [place.take(data) for place in places],
        "feature",
        coords="minimal",
        compat="override",
        join="override",
    )
    labels = {
        dim: ("feature", data[dim].values[[place.positions[dim] for place in places]])
        for dim in dims
        if dim in data.coords and dim != "feature"
    }
    whole = whole.transpose(..., "feature")
    coords: dict[Hashable, Any] = {"feature": ("feature", label_array(features)), **labels}
    return whole.assign_coords(coords)
