"""Labelled arrays of xarray: DataArray and Dataset."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from hofs_dask.errors import unknown
from hofs_dask.io.axes import axis_of_dim, axis_of_variables
from hofs_dask.io.blocks import open_grid
from hofs_dask.io.columns import (
    Column,
    Features,
    equal_neighbours,
    feature_label,
    is_nominal,
    refuse_dtype,
    refuse_sparse,
    target_type,
)
from hofs_dask.io.fingerprint import combine
from hofs_dask.io.targets import as_column, fits, names_column, target_name


def from_data_array(
    data: xr.DataArray, target: Any, feature_dim: Hashable | None
) -> tuple[Features, Column | None]:
    """Return the features of a DataArray, and its target as a column.

    Examples
    --------
    >>> import xarray as xr
    >>> data = xr.DataArray([[1.0, 2.0]], dims=("time", "band"), coords={"band": ["red", "blue"]})
    >>> from_data_array(data, None, "band")[0].names
    ['red', 'blue']
    """
    feature_dim = _feature_dim(data, feature_dim)
    sample_dims = [dim for dim in data.dims if dim != feature_dim]
    column = None
    if names_column(target):
        others = {name: each for name, each in data.coords.items() if name not in data.dims}
        if not others:
            raise ValueError(
                f"target is the name {target!r}, but the DataArray has no coordinates besides its "
                "dims; give the target as an array, or add it as a coordinate and give its name"
            )
        if target not in others:
            raise unknown("coordinate for the target", target, others)
        column = _array_column(others[target], data, sample_dims)
    elif target is not None:
        column = _sample_column(target, data, sample_dims)
    names: list[Hashable] = [f"x{j}" for j in range(data.sizes[feature_dim])]
    if feature_dim in data.coords and data.coords[feature_dim].dims == (feature_dim,):
        names = list(data.coords[feature_dim].values.tolist())
        if data.coords[feature_dim].dtype.kind in "Mm":
            names = [str(name) for name in data.coords[feature_dim].values]
    refuse_dtype(feature_label(names[0] if names else "x0"), data.dtype)
    refuse_sparse("the data", data.variable._data)
    opened, identity = open_grid(data)
    array = opened.transpose(*sample_dims, feature_dim).data
    features = Features(
        names=names,
        parts=[array.reshape(-1, array.shape[-1])] if array.size else [np.empty((0, len(names)))],
        nominal=[is_nominal(data.dtype)] * len(names),
        identity=combine([identity], "xarray", list(map(str, data.dims)), str(feature_dim)),
        sample_shape=tuple(data.sizes[dim] for dim in sample_dims),
        grid=opened.isel({feature_dim: 0}, drop=True).transpose(*sample_dims) if names else None,
        axis=axis_of_dim(data, feature_dim),
    )
    return features, column


def from_dataset(
    data: xr.Dataset, target: Any, feature_dim: Hashable | None
) -> tuple[Features, Column | None]:
    """Return the features of a Dataset, and its target as a column.

    Examples
    --------
    >>> import xarray as xr
    >>> data = xr.Dataset({"red": ("time", [1.0, 2.0]), "y": ("time", [0, 1])})
    >>> features, column = from_dataset(data, "y", None)
    >>> features.names, column.name
    (['red'], 'y')
    """
    named = names_column(target)
    if named and target not in data.variables:
        raise unknown("variable for the target", target, data.variables)
    labelled = data[target] if named else target if isinstance(target, xr.DataArray) else None
    # A variable without dims, such as spatial_ref, is metadata.
    variables = [
        name
        for name, each in data.data_vars.items()
        if each.ndim and not (labelled is not None and _is_like(labelled, each))
    ]
    if feature_dim is not None and feature_dim not in data.dims:
        raise unknown("feature_dim", feature_dim, data.dims)
    dim = "feature" if feature_dim is None and "feature" in data.dims else feature_dim
    # A variable whose only dim is this one describes the features, for example their bandwidth.
    holding = [
        name
        for name in variables
        if dim is not None and dim in data[name].dims and data[name].ndim > 1
    ]
    if not holding and dim is None and len(variables) == 1 and data[variables[0]].ndim > 1:
        holding = variables
    if len(holding) > 1 or (feature_dim is not None and not holding):
        raise ValueError(
            f"{len(holding)} variables have the dim {dim!r}: {holding}, expected one; give the one "
            f"to select from, for example data[{(holding or variables or ['x'])[0]!r}]"
        )
    if holding:
        array = data[holding[0]]
        if named:
            # The feature dim must be known before the target is aligned with the sample dims.
            dim = _feature_dim(array, dim)
            samples = [each for each in array.dims if each != dim]
            features, _ = from_data_array(array, None, dim)
            return features, _array_column(data[target], array, samples)
        return from_data_array(array, target, dim)
    if not variables:
        raise ValueError(
            "the Dataset has no variables besides the target; add the features as variables"
        )
    widest = max(variables, key=lambda name: data[name].ndim)
    like = data[widest]
    for name in variables:
        if not set(data[name].dims) <= set(like.dims):
            raise _differ(data, widest, name)
        refuse_dtype(feature_label(name), data[name].dtype)
        refuse_sparse(feature_label(name), data[name].variable._data)
    repeated = [name for name in variables if data[name].ndim < like.ndim]
    if repeated and labelled is not None and set(labelled.dims) != set(like.dims):
        raise _differ(data, widest, repeated[0])
    column = None
    if named:
        column = _array_column(data[target], like, list(like.dims))
    elif target is not None:
        column = _sample_column(target, like, list(like.dims))
    if repeated and column is not None and not fits(column.array.shape, like.shape):
        raise _differ(data, widest, repeated[0])
    opened = {name: open_grid(data[name]) for name in variables}
    like = opened[widest][0]
    parts, nominal = [], []
    for run in equal_neighbours([data[name].dtype for name in variables]):
        arrays = [spread(opened[variables[j]][0], like) for j in run]
        stack = da.stack if any(isinstance(array, da.Array) for array in arrays) else np.stack
        block = stack([array.reshape(-1) for array in arrays], axis=1)
        parts.append(block.rechunk({1: -1}) if isinstance(block, da.Array) else block)
        nominal += [is_nominal(arrays[0].dtype)] * len(run)
    features = Features(
        names=variables,
        parts=parts,
        nominal=nominal,
        identity=combine(
            [opened[name][1] for name in variables],
            "dataset",
            [data[name].dims for name in variables],
        ),
        sample_shape=like.shape,
        grid=like,
        axis=axis_of_variables(data, variables),
    )
    return features, column


def _feature_dim(data: xr.DataArray, feature_dim: Hashable | None) -> Hashable:
    if feature_dim is not None:
        if feature_dim not in data.dims:
            raise unknown("feature_dim", feature_dim, data.dims)
        return feature_dim
    if "feature" in data.dims:
        return "feature"
    if data.ndim == 2:
        return data.dims[-1]
    dims = ", ".join(repr(dim) for dim in data.dims)
    example = repr(data.dims[-1]) if data.dims else "..."
    raise ValueError(
        f"the data has the dims {dims}, and none is called 'feature'; give the dim of the "
        f"features, for example feature_dim={example}"
    )


def _is_like(target: xr.DataArray, variable: xr.DataArray) -> bool:
    """Return whether a target has the name and the dims of a variable."""
    return target.name == variable.name and set(target.dims) == set(variable.dims)


def _differ(data: xr.Dataset, one: Hashable, other: Hashable) -> ValueError:
    return ValueError(
        f"variables {one!r} {data[one].dims} and {other!r} {data[other].dims} have different "
        "dims, so they cannot all be features; give only the features, for example "
        f"data[[{one!r}]], or name the dim of the features with feature_dim="
    )


def spread(variable: xr.DataArray, like: xr.DataArray) -> Any:
    """Return the array of ``variable``, broadcast to the dims of ``like``."""
    missing = [dim for dim in like.dims if dim not in variable.dims]
    if not missing:
        return variable.transpose(*like.dims).data
    if like.chunks is not None:
        variable = variable.chunk({dim: like.chunksizes[dim] for dim in variable.dims})
    array = variable.expand_dims(missing).transpose(*like.dims).data
    if isinstance(array, da.Array):
        return da.broadcast_to(array, like.shape, chunks=like.chunks)
    return np.broadcast_to(array, like.shape)


def _sample_column(target: Any, data: xr.DataArray, dims: list[Hashable]) -> Column | None:
    if isinstance(target, xr.DataArray):
        return _array_column(target, data, dims)
    return as_column(target)


def _array_column(target: xr.DataArray, data: xr.DataArray, dims: list[Hashable]) -> Column:
    """Return a labelled target with its dims in the order of the sample dims."""
    if set(target.dims) != set(dims):
        raise ValueError(
            f"target {target.name!r} has the dims {target.dims} and the samples of the data have "
            f"{tuple(dims)}; give the same dims, for example with target.rename or broadcast_like"
        )
    check_labels(target, data, dims)
    opened, identity = open_grid(target)
    array = opened.transpose(*dims).data
    return Column(array, target_type(target.dtype), target_name(target), identity)


def check_labels(
    target: xr.DataArray, data: xr.DataArray, dims: list[Hashable], role: str = "target"
) -> None:
    """Raise a ValueError if two arrays differ in length or labels along some dims."""
    for dim in dims:
        if target.sizes[dim] != data.sizes[dim]:
            raise ValueError(
                f"{role} {target.name!r} has {target.sizes[dim]} values along {dim!r} and the data "
                f"has {data.sizes[dim]} samples; give one value per sample"
            )
        if (
            dim in target.indexes
            and dim in data.indexes
            and not target.indexes[dim].equals(data.indexes[dim])
        ):
            raise ValueError(
                f"{role} {target.name!r} and the data have different labels along {dim!r}; align "
                f"them first with xr.align(data, {role})"
            )
