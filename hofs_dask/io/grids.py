"""Readers of labelled arrays of xarray: DataArray, Dataset and DataTree."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array.core as da
import numpy as np
import pandas as pd
import xarray as xr

from hofs_dask.errors import some_of, unknown
from hofs_dask.io.axes import Axis, axis_of_attrs, axis_of_dim
from hofs_dask.io.blocks import open_grid
from hofs_dask.io.columns import (
    Column,
    Features,
    feature_label,
    is_nominal,
    refuse_sparse,
    target_type,
)
from hofs_dask.io.feature_names import (
    as_dims,
    check_dims,
    check_lags,
    coord_dim,
    joined,
    lag_text,
    names_along,
)
from hofs_dask.io.fingerprint import Identity, combine, digest
from hofs_dask.io.labelled import (
    bounds_of,
    called,
    check_labels,
    fill_values,
    is_same,
    on_grid,
    refuse_unknown_sizes,
    spread,
)
from hofs_dask.io.reading import DEFAULTS, LAGS, Reading
from hofs_dask.io.targets import as_column, as_series, names_column, target_name

#: A step between two labels is a gap if it is this many times the median step.
GAP = 1.5


@dataclass(frozen=True)
class Field:
    """A variable that holds features.

    Attributes
    ----------
    array : xarray.DataArray
        The values.
    dims : tuple
        The dims along which the features are; empty for a variable that is a single feature.
    names : list of tuples
        The parts of the name of each feature.
    """

    array: xr.DataArray
    dims: tuple[Hashable, ...]
    names: list[tuple[Any, ...]]

    @property
    def sample_dims(self) -> list[Hashable]:
        """The dims of the samples: all dims of the array except `dims`."""
        return [dim for dim in self.array.dims if dim not in self.dims]


def from_data_array(
    data: xr.DataArray, target: Any, reading: Reading = DEFAULTS
) -> tuple[Features, Column | None]:
    """Return the features of a DataArray, and the target as a `Column`.

    Examples
    --------
    >>> import xarray as xr
    >>> data = xr.DataArray([[1.0, 2.0]], dims=("time", "band"), coords={"band": ["red", "blue"]})
    >>> from_data_array(data, None, Reading(feature_dim="band"))[0].names
    ['red', 'blue']
    """
    dims = _feature_dims(data, reading)
    if names_column(target):
        others = {name: each for name, each in data.coords.items() if name not in data.dims}
        if not others:
            raise ValueError(
                f"target is the name {target!r}, but the DataArray has no coordinates except those "
                "of its dims; give the target as an array, or add it as a coordinate"
            )
        if target not in others:
            raise unknown("coordinate for the target", target, others)
        target = others[target]
    if isinstance(target, xr.DataArray):
        _refuse_own_label(data, target, dims)
    field = Field(data, dims, names_along(data, dims, reading.feature_coord))
    return _assembled([field], target, reading)


def _refuse_own_label(data: xr.DataArray, target: xr.DataArray, dims: Sequence[Hashable]) -> None:
    """Raise a ValueError if the target was selected from the data by the label of a feature."""
    for dim in dims:
        label = target.coords.get(dim)
        if dim not in target.dims and label is not None and label.item() in data.coords[dim]:
            raise ValueError(
                f"{called('target', target)} has the label {label.item()!r} along {dim!r}, and so "
                f"has a feature, which would predict itself; leave it out with "
                f"data.drop_sel({dim}={label.item()!r}), or, if the target is something else, give "
                f"target.drop_vars({dim!r})"
            )


def from_dataset(
    data: xr.Dataset, target: Any, reading: Reading = DEFAULTS
) -> tuple[Features, Column | None]:
    """Return the features of a Dataset, and the target as a `Column`.

    Examples
    --------
    >>> import xarray as xr
    >>> data = xr.Dataset({"red": ("time", [1.0, 2.0]), "y": ("time", [0, 1])})
    >>> features, column = from_dataset(data, "y")
    >>> features.names, column.name
    (['red'], 'y')
    """
    if names_column(target) and target not in data.variables:
        raise unknown("variable for the target", target, data.variables)
    own: Hashable = None
    if names_column(target):
        own, target = target, data[target]
    elif isinstance(target, xr.DataArray) and target.name in data.data_vars:
        own = target.name
        if not is_same(target, data[own]):
            raise ValueError(
                f"the data has a variable {own!r}, the name of the target, with other values; drop "
                f"it with data.drop_vars({own!r}), or rename the target with "
                f"target.rename({f'{own}_target'!r})"
            )
    coord = reading.feature_coord
    dims = as_dims(reading.feature_dim)
    check_dims(dims, data.dims)
    if coord is not None and not dims:
        dims = (coord_dim(data, coord),)
    if not dims and "feature" in data.dims:
        dims = ("feature",)
    bounds = bounds_of(data)
    left_out, variables = {}, []
    for name, each in data.data_vars.items():
        if name == own:
            continue
        if not each.ndim:
            left_out[name] = "no dims"
        elif name in bounds:
            left_out[name] = f"bounds of {bounds[name]}"
        elif dims and set(each.dims) <= set(dims):
            left_out[name] = f"no dims besides {', '.join(map(str, dims))}"
        else:
            variables.append(name)
    if not variables:
        raise ValueError(
            "the Dataset has no variables besides the target; add the features as variables"
        )
    holding = [name for name in variables if set(dims) & set(data[name].dims)]
    if reading.feature_dim is not None and not holding:
        raise ValueError(
            f"no variable has the dim {some_of(dims)} and a dim of samples; give the dim along "
            f"which the features of {some_of(variables)} are"
        )
    notes: tuple[str, ...] = ()
    if left_out:
        texts = [f"{name} ({why})" for name, why in left_out.items()]
        notes = (f"not used as features: {', '.join(texts)}",)
    array = data[variables[0]]
    alone = isinstance(target, xr.DataArray) and set(target.dims) == set(array.dims)
    if len(variables) == 1 and array.ndim > 1 and (dims or not alone):
        dims = _feature_dims(array, reading)
        fields = [Field(array, dims, names_along(array, dims, coord))]
    else:
        fields = []
        for name in variables:
            along = tuple(dim for dim in dims if dim in data[name].dims)
            fields.append(Field(data[name], along, names_along(data[name], along, coord, (name,))))
    return _assembled(fields, target, reading, notes)


def open_node(tree: xr.DataTree, target: Any) -> tuple[xr.Dataset, Any]:
    """Return the node of a DataTree that contains the features, as a Dataset, and the target.

    A target that is a path, such as ``"/coarse/label"``, names a variable of any node. If the node
    ``tree`` has no variables, the features are taken from the node of the target.

    Examples
    --------
    >>> data = xr.Dataset({"red": ("time", [1.0, 2.0]), "y": ("time", [0, 1])})
    >>> list(open_node(xr.DataTree.from_dict({"/fine": data}), "/fine/y")[0])
    ['red', 'y']
    """
    node: Any = tree
    if isinstance(target, str) and "/" in target:
        path, _, name = target.rpartition("/")
        try:
            other: Any = tree[path or "/"]
        except KeyError as error:
            raise unknown("node for the target", path, _nodes(tree)) from error
        if name not in other.variables:
            raise unknown(f"variable of the node {other.path!r} for the target", name, other)
        if not tree.data_vars:
            node = other
        target = name if node is other else other[name]
    if not node.data_vars:
        raise ValueError(
            f"the node {node.path!r} of the DataTree has no variables; give one of its nodes, such "
            f"as tree[{(_nodes(tree) or ['/node'])[0]!r}], or the path of the target, such as "
            f"{(_nodes(tree) or ['/node'])[0] + '/label'!r}"
        )
    return node.to_dataset(), target


def _nodes(tree: xr.DataTree) -> list[str]:
    return [str(node.path) for node in tree.subtree if node.data_vars]


def _feature_dims(data: xr.DataArray, reading: Reading) -> tuple[Hashable, ...]:
    given = as_dims(reading.feature_dim)
    check_dims(given, data.dims)
    if given:
        return given
    if reading.feature_coord is not None:
        return (coord_dim(data, reading.feature_coord),)
    if "feature" in data.dims:
        return ("feature",)
    if data.ndim == 2:
        return (data.dims[-1],)
    dims = ", ".join(repr(dim) for dim in data.dims)
    example = repr(data.dims[-1]) if data.dims else "..."
    raise ValueError(
        f"the data has the dims {dims}, and none is called 'feature'; give the dim of the "
        f"features, for example feature_dim={example}"
    )


def _assembled(
    fields: list[Field], target: Any, reading: Reading, notes: tuple[str, ...] = ()
) -> tuple[Features, Column | None]:
    """Return the features of the fields, broadcast to the same samples, and the target."""
    for field in fields:
        label = feature_label(joined(field.names[0]) if field.names else "x0")
        refuse_sparse("the data" if field.dims else label, field.array.variable._data)
        refuse_unknown_sizes("the data" if field.dims else label, field.array)
    opened = [open_grid(field.array) for field in fields]
    widest = max(range(len(fields)), key=lambda j: len(fields[j].sample_dims))
    like = _without(opened[widest][0], fields[widest].dims)
    column = None
    target = on_grid(as_series(target), like, "target")
    if isinstance(target, xr.DataArray):
        refuse_unknown_sizes("the target", target)
        of_target, identity = open_grid(target)
        shared = [dim for field in fields for dim in field.dims if dim in target.dims]
        if shared:
            raise ValueError(
                f"{called('target', target)} has the dims {target.dims}, but the features are "
                f"along {shared[0]!r}; give one value per sample, for example "
                f"target.isel({shared[0]}=0)"
            )
        if set(like.dims) < set(target.dims):
            like = of_target
        _check_dims(fields, like, target)
        check_labels(target, like, list(target.dims))
        array = of_target.transpose(*like.dims).data
        column = Column(array, target_type(target.dtype), target_name(target), identity)
    else:
        _check_dims(fields, like, None)
        column = as_column(target)
    lags = check_lags(reading.lags, list(like.dims))
    undecoded = [text for field in fields for text in fill_values(field.array, "feature")]
    if isinstance(target, xr.DataArray):
        undecoded += fill_values(target, "target")
    for text in undecoded:
        warnings.warn(text, stacklevel=2)
    order = _check_order(lags, like, grouped=reading.groups is not None)
    notes = (*notes, *undecoded, *order)
    names, blocks, nominal = [], [], []
    for field, (array, _) in zip(fields, opened, strict=True):
        own = {dim: lags[dim] for dim in lags if dim in field.array.dims}
        values = spread(array, like, field.dims)
        for steps in itertools.product(*own.values()):
            moved = values
            for dim, step in zip(own, steps, strict=True):
                moved = shifted(moved, list(like.dims).index(dim), step, dim)
            parts = tuple(lag_text(dim, n) for dim, n in zip(own, steps, strict=True) if n)
            names += [joined(name + parts) for name in field.names]
            blocks.append(_table(moved, like.ndim))
            nominal += [is_nominal(array.dtype)] * len(field.names)
    features = Features(
        names=names,
        parts=_merged(blocks),
        nominal=nominal,
        identity=combine(
            [identity for _, identity in opened],
            "xarray",
            [[*map(str, field.array.dims), "of", *map(str, field.dims)] for field in fields],
            [list(map(str, like.dims)), list(like.shape)],
            {str(dim): steps for dim, steps in lags.items()},
        ),
        sample_shape=like.shape,
        grid=like,
        feature_dims=tuple(map(str, dict.fromkeys(dim for each in fields for dim in each.dims))),
        history=_history(lags, like),
        other_order=_other_order(fields, like),
        axis=_axis(fields, lags, reading.feature_coord),
        notes=notes,
    )
    return features, column


def _other_order(fields: list[Field], like: xr.DataArray) -> tuple[Hashable, ...]:
    """Return the sample dims of the first variable whose order differs from that of the samples."""
    for field in fields:
        own = field.sample_dims
        if own != [dim for dim in like.dims if dim in own]:
            return tuple(own)
    return ()


def _axis(
    fields: list[Field], lags: dict[Hashable, list[int]], coord: Hashable | None
) -> Axis | None:
    """Return the coordinates along the dim of the features, or the units of the variables."""
    first = fields[0]
    plain = not any(isinstance(joined(name), tuple) for name in first.names)
    if len(fields) == 1 and len(first.dims) == 1 and not lags and plain:
        (dim,) = first.dims
        if coord is None:
            return axis_of_dim(first.array, dim)
        return axis_of_dim(first.array.swap_dims({dim: coord}), coord)
    about: list[dict[Any, Any]] = []
    for field in fields:
        own = [lags[dim] for dim in lags if dim in field.array.dims]
        n_copies = int(np.prod([len(steps) for steps in own]))
        about += [field.array.attrs] * (len(field.names) * n_copies)
    return axis_of_attrs(about)


def _without(array: xr.DataArray, dims: Sequence[Hashable]) -> xr.DataArray:
    """Return the array without ``dims``, the dims of its features."""
    if not all(array.sizes[dim] for dim in dims):
        return xr.zeros_like(array.isel({dim: slice(0) for dim in dims}).sum(dims))
    return array.isel(dict.fromkeys(dims, 0), drop=True)


def _check_dims(fields: list[Field], like: xr.DataArray, target: xr.DataArray | None) -> None:
    """Raise a ValueError if features or target cannot be broadcast to the samples."""
    for field in fields:
        if not set(field.sample_dims) <= set(like.dims):
            name = field.names[0][0] if field.names else field.array.name
            raise ValueError(
                f"{like.name!r} {like.dims} and feature {name!r} {tuple(field.sample_dims)} have "
                "different dims, so that not all are features of the same samples; leave one out, "
                f"for example with data.drop_vars({name!r}), or name the dims of the features with "
                "feature_dim="
            )
    if target is None or set(target.dims) == set(like.dims):
        return
    missing = [dim for dim in like.dims if dim not in target.dims]
    if set(target.dims) < set(like.dims):
        dims = [*missing, *dict.fromkeys(dim for field in fields for dim in field.dims)]
        widest = next(field for field in fields if set(missing) <= set(field.sample_dims))
        wide = "data" if len(fields) == 1 else f"data[{widest.array.name!r}]"
        if widest.dims:
            wide += f".isel({', '.join(f'{dim}=0' for dim in widest.dims)})"
        raise ValueError(
            f"{called('target', target)} has the dims {target.dims} and the samples of the data "
            f"have {like.dims}; give feature_dim={dims if len(dims) > 1 else dims[0]!r} if the "
            f"features are along {some_of(missing)} too, or target.broadcast_like({wide}) if the "
            "target is the same for all of these samples"
        )
    raise ValueError(
        f"{called('target', target)} has the dims {target.dims} and the samples of the data "
        f"have {like.dims}; give the same dims, for example with target.rename"
    )


def _table(array: Any, n_dims: int) -> Any:
    """Reshape an array (sample dims..., feature dims...) to (sample, feature)."""
    n_features = int(np.prod(array.shape[n_dims:]))
    if not array.size:
        return np.empty((int(np.prod(array.shape[:n_dims])), n_features), array.dtype)
    return array.reshape(-1, n_features)


def _merged(blocks: list[Any]) -> list[Any]:
    """Return the blocks, with adjacent one-column blocks of the same dtype merged into one."""
    parts = []
    for (single, _), run in itertools.groupby(
        blocks, key=lambda block: (block.shape[1] == 1, block.dtype)
    ):
        some = list(run)
        if not single or len(some) == 1:
            parts += some
            continue
        lazy = any(isinstance(block, da.Array) for block in some)
        block = (da if lazy else np).concatenate(some, axis=1)
        parts.append(block.rechunk({1: -1}) if lazy else block)
    return parts


def shifted(array: Any, axis: int, step: int, dim: Hashable) -> Any:
    """Return an array shifted by ``step`` along an axis; the first ``step`` values are arbitrary.

    ``dim`` is the name of the axis, for error messages.

    Examples
    --------
    >>> shifted(np.array([1, 2, 3]), 0, 1, "time")
    array([1, 1, 2])
    """
    size = array.shape[axis]
    if step >= size:
        raise ValueError(
            f"lags has {step} for {dim!r}, but the data has only {size} steps along it; give at "
            f"most {size - 1}"
        )
    if not step:
        return array
    first, last = ((slice(None),) * axis + (slice(0, n),) for n in (step, size - step))
    join = da if isinstance(array, da.Array) else np
    return join.concatenate([array[first], array[last]], axis=axis)


def _check_order(
    lags: dict[Hashable, list[int]], like: xr.DataArray, *, grouped: bool
) -> list[str]:
    """Return messages about uneven steps; raise a ValueError if labels do not increase.

    If samples are ``grouped``, labels may begin again with each group, and gaps may be between
    groups, which lags do not cross.
    """
    notes = []
    for dim, steps in lags.items():
        index = like.indexes.get(dim)
        dates = isinstance(index, pd.DatetimeIndex | xr.CFTimeIndex)
        if isinstance(index, pd.MultiIndex) and max(steps) and not grouped:
            names = ", ".join(map(str, index.names))
            raise ValueError(
                f"lags shift along {dim!r} by position, but it is stacked from {names}, so that a "
                f"step back may be a sample elsewhere; give data.unstack({dim!r}), and the lags by "
                "one of these dims, or groups=, which lags do not cross"
            )
        other = None if index is not None or grouped else _backwards(like, dim)
        if other is not None and max(steps):
            raise ValueError(
                f"lags shift along {dim!r} by position, but its coordinate {other!r} does not "
                "increase, so that a step back may be a sample elsewhere; give groups=, which lags "
                "do not cross"
            )
        if index is None or not max(steps) or not (dates or index.dtype.kind in "iuf"):
            continue
        if len(index) < 2:  # `shifted` refuses the lag
            continue
        labels = index.to_numpy()
        widths = labels[1:] - labels[:-1]
        backwards = float(np.mean(widths <= labels[0] - labels[0]))
        if backwards > (0.5 if grouped else 0):
            raise ValueError(
                f"lags shift along {dim!r} by position, but its labels do not increase, so that a "
                f"step back may be a later sample; sort data and target with sortby({dim!r})"
            )
        gaps = int((widths > GAP * np.sort(widths)[len(widths) // 2]).sum())
        if gaps and not grouped:
            notes.append(
                f"lags count positions along {dim!r}, but {gaps} of its steps are longer than "
                f"{GAP} times the median; fill missing labels with reindex, or give groups=, which "
                "lags do not cross"
            )
            warnings.warn(notes[-1], stacklevel=2)
    return notes


def _backwards(like: xr.DataArray, dim: Hashable) -> Hashable | None:
    """Return the name of a coordinate with dates along a dim that do not increase, or None."""
    for name, each in like.coords.items():
        dates = each.dims == (dim,) and each.dtype.kind == "M" and each.chunks is None
        if dates and not (each.to_index().is_monotonic_increasing and each.to_index().is_unique):
            return name
    return None


def _history(lags: dict[Hashable, list[int]], like: xr.DataArray) -> Column | None:
    """Return booleans per sample: whether all its lagged values exist; None without lags."""
    longest = {dim: max(steps) for dim, steps in lags.items() if max(steps)}
    if not longest:
        return None
    flags: Any = True
    for dim, step in longest.items():
        known = xr.DataArray(np.arange(like.sizes[dim]) >= step, dims=[dim])
        flags = flags & spread(known, like)
    about = [[str(dim), step] for dim, step in longest.items()]
    identity = Identity(digest(["lags", about, list(map(str, like.dims)), like.shape]))
    return Column(flags, "nominal", LAGS, identity)


def within_groups(history: Column, groups: Column, features: Features, reading: Reading) -> Column:
    """Return booleans per sample: whether all its lagged values exist and belong to its group."""
    ids = groups.array.reshape(features.sample_shape)
    flags: Any = history.array
    for dim, steps in check_lags(reading.lags, list(features.grid.dims)).items():
        axis = list(features.grid.dims).index(dim)
        for step in range(1, max(steps) + 1):
            flags = flags & (ids == shifted(ids, axis, step, dim))
    identity = combine([history.identity, groups.identity], "within groups")
    return Column(flags, "nominal", history.name, identity)
