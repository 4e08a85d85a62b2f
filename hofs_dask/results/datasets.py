"""The variables, names and attributes of the Dataset of a result."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hofs_dask.io.axes import Axis, Coordinate

__all__ = ["Coordinate", "Variable"]

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Variable:
    """The description of a variable of a result, used to create, document and check it.

    Parameters
    ----------
    dims : tuple of str
        Dimensions.
    kinds : str
        Allowed dtypes, as letters of `numpy.dtype.kind`.
    units : str
        Unit, "1" for none.
    long_name : str
        Meaning of the variable.
    """

    dims: tuple[str, ...]
    kinds: str
    units: str
    long_name: str


#: Position of every feature in the data; absent if it is that in the result.
COLUMN = {
    "column": Variable(("feature",), "i", "1", "position of the feature in the data, from 0"),
}


#: Share of missing values of every feature; absent in results of earlier versions.
MISSING = {
    "missing": Variable(
        ("feature",), "f", "1", "share of the samples, by weight, in which the feature is missing"
    ),
}


def positions_in_data(dataset: xr.Dataset) -> tuple[NDArray[np.int64], int]:
    """Return the position in the data of every feature, and the number of columns of the data.

    A column that was excluded or skipped before the data was read is no feature of the result.

    Examples
    --------
    >>> import xarray as xr
    >>> column = {"column": ("feature", [0, 2])}
    >>> positions_in_data(xr.Dataset(column, {"feature": ["a", "c"]}, {"n_columns": 3}))
    (array([0, 2]), 3)
    """
    n_features = dataset.sizes["feature"]
    if "column" not in dataset:
        return np.arange(n_features), n_features
    columns, n_columns = dataset["column"].values, int(dataset.attrs.get("n_columns", -1))
    if not (np.diff(columns, prepend=-1) > 0).all() or columns[-1] >= n_columns:
        raise ValueError(
            f"the features have the columns {columns.tolist()[:5]} ...; ascending positions among "
            f"{n_columns} columns were expected"
        )
    return columns.astype(np.int64), n_columns


def annotated(
    columns: Mapping[str, NDArray[Any]], variables: Mapping[str, Variable]
) -> dict[str, tuple[tuple[str, ...], NDArray[Any], dict[str, str]]]:
    """Return the variables as tuples for `xarray.Dataset`: dimensions, values and attributes.

    Examples
    --------
    >>> annotated({"score": np.zeros(1)}, {"score": Variable(("rank",), "f", "nats", "criterion")})
    {'score': (('rank',), array([0.]), {'long_name': 'criterion', 'units': 'nats'})}
    """
    return {
        name: (each.dims, columns[name], {"long_name": each.long_name, "units": each.units})
        for name, each in variables.items()
    }


def check_variables(dataset: xr.Dataset, variables: Mapping[str, Variable]) -> None:
    """Raise an error if a variable has wrong dimensions or dtype, or ranks are not 1, 2, ...

    Examples
    --------
    >>> import xarray as xr
    >>> score = Variable(("rank",), "f", "nats", "criterion")
    >>> check_variables(xr.Dataset({"score": ("feature", [0.5])}), {"score": score})
    Traceback (most recent call last):
    ...
    ValueError: 'score' has the dimensions ('feature',), but ('rank',) were expected
    """
    for name, expected in variables.items():
        if name not in dataset:
            continue
        found = dataset[name]
        if found.dims != expected.dims:
            raise ValueError(
                f"{name!r} has the dimensions {found.dims}, but {expected.dims} were expected"
            )
        if found.size and found.dtype.kind not in expected.kinds:
            raise ValueError(
                f"{name!r} has the dtype {found.dtype}; a dtype of a kind in {expected.kinds!r} "
                "was expected"
            )
    ranks = dataset["rank"].values if "rank" in dataset.coords else np.empty(0)
    if not np.array_equal(ranks, np.arange(1, len(ranks) + 1)):
        raise ValueError(f"the ranks are {ranks[:5]} ..., but 1, 2, 3 ... were expected")


def check_positions(index: NDArray[np.int64], n_features: int) -> None:
    """Raise an error if a pick is out of range or occurs twice.

    Examples
    --------
    >>> check_positions(np.array([0, 3]), n_features=2)
    Traceback (most recent call last):
    ...
    ValueError: pick 3 is not a position among 2 features
    """
    outside = index[(index < 0) | (index >= n_features)]
    if outside.size:
        raise ValueError(f"pick {outside[0]} is not a position among {n_features} features")
    if len(np.unique(index)) < len(index):
        raise ValueError(f"a feature was picked twice: the picks are {index.tolist()}")


def check_runners_up(runner_up: NDArray[np.int64], n_features: int) -> None:
    """Raise an error if a runner-up is neither the position of a feature nor -1 (none).

    Examples
    --------
    >>> check_runners_up(np.array([-1, 2]), n_features=2)
    Traceback (most recent call last):
    ...
    ValueError: runner-up 2 is not a position among 2 features
    """
    outside = runner_up[(runner_up < -1) | (runner_up >= n_features)]
    if outside.size:
        raise ValueError(f"runner-up {outside[0]} is not a position among {n_features} features")


def feature_attrs(axis: Axis | None) -> dict[str, str]:
    """Return the attributes of the coordinate ``feature``, taken from the coordinate of the data.

    Examples
    --------
    >>> feature_attrs(Axis("band", {"units": "nm"}))
    {'long_name': 'band', 'units': 'nm'}
    >>> feature_attrs(None)
    {'long_name': 'name of the feature', 'units': '1'}
    """
    name = axis.dim if axis is not None and axis.dim else "name of the feature"
    return {"long_name": name, "units": "1"} | dict(axis.attrs if axis is not None else {})


def with_axis(dataset: xr.Dataset, axis: Axis | None) -> xr.Dataset:
    """Return the Dataset of a result, with the dim, units and coordinates of the features added.

    If a result already uses the name of a coordinate, the coordinate gets the prefix ``feature_``.

    Examples
    --------
    >>> import xarray as xr
    >>> axis = Axis("band", {"units": "nm"}, {"rank": Coordinate((2, 1))})
    >>> described = with_axis(xr.Dataset(coords={"feature": [450, 550]}), axis)
    >>> described.attrs, sorted(described.coords)
    ({'feature_dim': 'band'}, ['band', 'feature', 'feature_rank'])
    """
    if axis is None:
        return dataset
    made = dataset.copy()
    made["feature"].attrs = feature_attrs(axis)
    coords: dict[str, Any] = {
        name: ("feature", np.array(each.values), dict(each.attrs))
        for name, each in axis.coords.items()
    }
    if axis.dim:
        made.attrs["feature_dim"] = axis.dim
        if axis.dim != "feature":
            coords[axis.dim] = ("feature", made["feature"].values, feature_attrs(axis))
    used = {"rank", "feature", "method", "other", *dataset.variables}
    return made.assign_coords(
        {f"feature_{name}" if name in used else name: each for name, each in coords.items()}
    )


def copy_axis(dataset: xr.Dataset, of: xr.Dataset) -> xr.Dataset:
    """Return a copy of a Dataset with the feature coordinates of the Dataset ``of``."""
    made = dataset.copy()
    made["feature"].attrs = dict(of["feature"].attrs)
    return made.assign_coords({name: of[name].variable for name in feature_coordinates(of)})


def feature_coordinates(dataset: xr.Dataset) -> list[str]:
    """Return the names of the coordinates along the features, except ``feature`` itself.

    Examples
    --------
    >>> import xarray as xr
    >>> coords = {"feature": ["a", "b"], "wavelength": ("feature", [450.0, 550.0])}
    >>> feature_coordinates(xr.Dataset(coords=coords))
    ['wavelength']
    """
    return [
        str(name)
        for name, each in dataset.coords.items()
        if each.dims == ("feature",) and name != "feature"
    ]


def coordinate_label(dataset: xr.Dataset, name: str) -> str:
    """Return the label of a feature coordinate in tables and figures: long name and units.

    Examples
    --------
    >>> import xarray as xr
    >>> wavelength = ("feature", [450.0], {"long_name": "centre", "units": "nm"})
    >>> coordinate_label(xr.Dataset(coords={"wavelength": wavelength}), "wavelength")
    'centre (nm)'
    """
    attrs = dataset[name].attrs
    if name == "feature" and "feature_dim" not in dataset.attrs:
        return name
    units = attrs.get("units", "1")
    return f"{attrs.get('long_name', name)}{f' ({units})' if units not in ('', '1') else ''}"


def plain(attrs: Mapping[str, object]) -> dict[str, str | float]:
    """Return the attributes as plain strings and numbers, which every file format can store.

    Examples
    --------
    >>> plain({"n_samples": np.int64(7), "whole": True})
    {'n_samples': 7, 'whole': 1}
    """
    return {name: _plain(name, value) for name, value in attrs.items()}


def label_array(names: Sequence[Hashable]) -> NDArray[Any]:
    """Return names as an array of str, int or float, or of objects if their types are mixed.

    Examples
    --------
    >>> label_array([400, 412.5])
    array([400. , 412.5])
    """
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    kinds = {type(name) for name in plain}
    for kinds_of_array, dtype in (({str}, str), ({int}, np.int64), ({int, float}, np.float64)):
        if kinds <= kinds_of_array:
            return np.array(plain, dtype=dtype)
    mixed = np.empty(len(plain), dtype=object)
    for position, name in enumerate(plain):  # numpy would turn tuples into a second axis
        mixed[position] = name
    return mixed


def _plain(name: str, value: object) -> str | float:
    """Return an attribute as a plain string or number, or raise a TypeError."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"the attribute {name}={value!r} is a {type(value).__name__}; a string or a number was "
        "expected: use json.dumps"
    )
