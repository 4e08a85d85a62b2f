"""`Axis`: the dim, the units and further coordinates of the features of xarray data."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

#: The attributes of coordinates and variables that are kept.
KEPT = ("long_name", "standard_name", "units")


@dataclass(frozen=True)
class Coordinate:
    """A coordinate with one value per feature.

    Attributes
    ----------
    values : tuple (feature)
        Strings, integers, floats or booleans.
    attrs : dict of str to str
        The attributes long_name, standard_name and units, as far as the coordinate has them.
    """

    values: tuple[str | int | float, ...]
    attrs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Axis:
    """The description of the features of xarray data.

    Attributes
    ----------
    dim : str
        The dim of the features; empty if they are not along a single dim, for example if they are
        the variables of a Dataset.
    attrs : dict of str to str
        The long_name, standard_name and units of the coordinate of this dim.
    coords : dict of str to Coordinate
        Further coordinates along this dim. Without a dim: the coordinates ``units`` and
        ``long_name``, which have the attributes of the variable of each feature.

    Examples
    --------
    >>> import xarray as xr
    >>> band = xr.Variable("band", [450.0, 550.0], {"units": "nm"})
    >>> data = xr.DataArray([[1.0, 2.0]], {"band": band}, dims=("time", "band"))
    >>> axis_of_dim(data.assign_coords(name=("band", ["blue", "green"])), "band")
    Axis(dim='band', attrs={'units': 'nm'},
         coords={'name': Coordinate(values=('blue', 'green'), attrs={})})
    """

    dim: str = ""
    attrs: Mapping[str, str] = field(default_factory=dict)
    coords: Mapping[str, Coordinate] = field(default_factory=dict)

    def take(self, positions: Sequence[int]) -> Axis:
        """Return the description of only the features at these positions."""
        coords = {
            name: Coordinate(tuple(each.values[j] for j in positions), each.attrs)
            for name, each in self.coords.items()
        }
        return Axis(self.dim, self.attrs, coords)

    def fits(self, n_features: int) -> bool:
        """Return whether every coordinate has one value per feature."""
        return all(len(each.values) == n_features for each in self.coords.values())


def axis_of_dim(data: xr.DataArray, dim: Hashable) -> Axis:
    """Return the description of the features along a dim."""
    coords: dict[str, Coordinate] = {}
    for name, each in data.coords.items():
        values = _plain_values(each) if each.dims == (dim,) and name != dim else None
        if values is not None:
            coords[str(name)] = Coordinate(values, _kept(each.attrs))
    attrs = _kept(data.coords[dim].attrs) if dim in data.coords else {}
    return Axis(str(dim), attrs, coords)


def axis_of_attrs(attrs: Sequence[Mapping[Any, Any]]) -> Axis:
    """Return the description of features, given the attributes of the variable of each feature."""
    kept = [_kept(each) for each in attrs]
    coords = {
        key: Coordinate(tuple(each.get(key, "") for each in kept))
        for key in ("units", "long_name")
        if any(key in each for each in kept)
    }
    return Axis(coords=coords)


def read_axis(document: Any) -> Axis:
    """Return the `Axis` that a parsed JSON document describes; raise an error if it is invalid.

    Examples
    --------
    >>> read_axis({"dim": "band", "attrs": {"units": "nm"}, "coords": {}})
    Axis(dim='band', attrs={'units': 'nm'}, coords={})
    """
    coords = {
        str(name): Coordinate(tuple(each["values"]), _checked(each["attrs"]))
        for name, each in document["coords"].items()
    }
    kinds = {type(value) for each in coords.values() for value in each.values}
    if not isinstance(document["dim"], str) or not kinds <= {str, int, float, bool}:
        raise ValueError("the axis of the features has other values than text, numbers or booleans")
    return Axis(document["dim"], _checked(document["attrs"]), coords)


def _checked(attrs: Any) -> dict[str, str]:
    if not all(name in KEPT and isinstance(value, str) for name, value in attrs.items()):
        raise ValueError(f"the attributes of a coordinate are {attrs!r}")
    return dict(attrs)


def _kept(attrs: Mapping[Any, Any]) -> dict[str, str]:
    return {name: str(attrs[name]) for name in KEPT if name in attrs}


def _plain_values(coordinate: xr.DataArray) -> tuple[Any, ...] | None:
    """Return the values of a coordinate as Python objects; None if a result cannot store them."""
    if coordinate.dtype.kind == "M":
        return tuple(map(str, coordinate.values))
    values = coordinate.values.tolist()
    if coordinate.dtype.kind in "OT":
        return tuple(values) if all(isinstance(each, str) for each in values) else None
    return tuple(values) if coordinate.dtype.kind in "biufU" else None
