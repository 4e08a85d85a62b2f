"""Any input becomes a `Source`: lazy blocks of (sample, feature), a target, a fingerprint."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr
import zarr
from dask.base import tokenize
from dask.delayed import delayed

from hofs_dask.data.labels import TargetType
from hofs_dask.errors import unknown

#: Data without chunks is cut into row blocks of about this size.
BLOCK_BYTES = 64 * 2**20
#: Features that a block of a Zarr array should span, so that the code store needs few of them.
BLOCK_FEATURES = 1024

Name = str | int | float


@dataclass(frozen=True)
class Source:
    """Data as chunked blocks, with a target.

    Attributes
    ----------
    names : tuple
        Of the features: strings or numbers, ``x0, x1, ...`` where the data has no labels.
    parts : tuple of dask.array.Array (sample, feature)
        Side by side they are the data. Each has one dtype; their row chunks are identical.
    nominal : ndarray of bool (feature)
        Features whose values are categories.
    target : dask.array.Array (sample,) or None
        With the row chunks of the parts.
    target_name : str
        The name of the target, ``"target"`` where it has none.
    target_type : {"nominal", "integer", "number"}
        What the type of the target says about it.
    fingerprint, target_fingerprint : str
        Of the features and of the target: equal for equal content.
    """

    names: tuple[Name, ...]
    parts: tuple[da.Array, ...]
    nominal: np.ndarray
    target: da.Array | None
    target_name: str
    target_type: TargetType
    fingerprint: str
    target_fingerprint: str

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return int(self.parts[0].shape[0])

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.names)


@dataclass(frozen=True)
class _Column:
    """A target before it is checked: an array, what its type says, its name and fingerprint."""

    array: Any
    type: TargetType
    name: str
    fingerprint: str


@dataclass(frozen=True)
class _Features:
    """The features of an input before they are checked; ``parts`` are numpy or dask arrays."""

    names: Sequence[Hashable]
    parts: Sequence[Any]
    nominal: Sequence[bool]
    fingerprint: str
    sample_shape: tuple[int, ...]


def open_source(
    data: Any,
    target: Any,
    *,
    feature_dim: Hashable | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
) -> Source:
    """Return any supported data and its target as a `Source`, reading no more than it must.

    Parameters
    ----------
    data : array, data frame, xarray object, Zarr array or group, or the path of one
        A numpy or dask array (sample, feature); a pandas or dask DataFrame; a DataArray, whose
        other dims are stacked into samples in their order; a Dataset with one variable that holds
        ``feature_dim``, or whose variables are the features; a Zarr array or group.
    target : array, name or None
        One value a sample, or the name of a column, variable or coordinate of ``data``. A column
        or variable of ``data`` that is the target, by name or as an object, is not a feature.
    feature_dim : hashable, optional
        The dim of the features of an xarray object; by default ``"feature"``, or the last of two.
    nominal : iterable of names, or True, optional
        Features whose numbers are categories; positions do where names are strings. True for all.

    Notes
    -----
    Of a Dataset with ``feature_dim``, the one variable that holds this dim has all the features:
    variables without it are ignored, also those that have a value for each sample.

    Of a Dataset whose variables are the features, the one with the most dims says what a sample
    is. A variable over some of these dims only, such as a height (y, x) among images (time, y, x),
    is repeated along the others; a variable without dims, such as ``spatial_ref``, is ignored.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.zeros((4, 2)), [0, 1, 0, 1])
    >>> source.names, source.n_samples
    (('x0', 'x1'), 4)
    """
    if isinstance(data, str | os.PathLike):
        features, column = _from_path(as_path(data), target, feature_dim)
    elif isinstance(data, zarr.Array | zarr.Group):
        features, column = _from_zarr(data, str(data.store_path), target, feature_dim)
    elif isinstance(data, xr.Dataset):
        features, column = _from_dataset(data, target, feature_dim, _array_fingerprint)
    elif isinstance(data, xr.DataArray):
        features, column = _from_data_array(data, target, feature_dim, _array_fingerprint)
    elif _is_dask_frame(data):
        _refuse_feature_dim(feature_dim, "a data frame")
        features, column = _from_dask_frame(data, target)
    elif isinstance(data, pd.DataFrame):
        _refuse_feature_dim(feature_dim, "a data frame")
        features, column = _from_frame(data, target)
    else:
        _refuse_feature_dim(feature_dim, "an array")
        features, column = _from_array(data, target)
    return _check(features, column, nominal)


def as_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text that workers understand: a local one without scheme and absolute.

    A leading ``~`` is the home directory of this machine's user.

    Examples
    --------
    >>> as_path("file:///data/x.zarr"), as_path("s3://bucket/x.zarr")
    ('/data/x.zarr', 's3://bucket/x.zarr')
    """
    text = os.fspath(path).removeprefix("file://")
    if is_url(text):
        return text
    local = Path(text)
    # A name such as ~old.zarr is a name.
    return str((local.expanduser() if local.parts[:1] == ("~",) else local).absolute())


def is_url(path: str) -> bool:
    """Return whether a path is an address of remote storage.

    Examples
    --------
    >>> is_url("s3://bucket/data.zarr"), is_url("data.zarr")
    (True, False)
    """
    return "://" in path


# One function an input: its features, and its target as a column


def _from_array(data: Any, target: Any) -> tuple[_Features, _Column | None]:
    _refuse_sparse("the data", data)
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.result_type(data.dtype, np.float32)), np.nan)
    if not isinstance(data, np.ndarray | da.Array):
        raise TypeError(
            f"data is a {type(data).__name__}; give a numpy or dask array, a pandas or dask "
            "DataFrame, an xarray DataArray or Dataset, or the path of a Zarr store"
        )
    if data.ndim != 2:
        raise ValueError(
            f"data has shape {data.shape}; give two dimensions, (sample, feature), for example "
            "data.reshape(len(data), -1)"
        )
    if _names_column(target):
        raise ValueError(
            f"target is the name {target!r}, but the columns of an array have no names; give the "
            "target as an array"
        )
    features = _Features(
        names=[f"x{j}" for j in range(data.shape[1])],
        parts=[data],
        nominal=[_is_nominal(data.dtype)] * data.shape[1],
        fingerprint=_array_fingerprint(data),
        sample_shape=data.shape[:1],
    )
    return features, _column(target)


def _from_frame(data: Any, target: Any) -> tuple[_Features, _Column | None]:
    target = _as_series(target)
    position = _find_column(data.columns, target)
    if position is not None:
        column: _Column | None = _pandas_column(data.iloc[:, position])
    else:
        column = _column(target)
    if isinstance(target, pd.Series):
        _check_index(target, data.index)
        position = _own_column(data, target)
    if position is not None:
        data = data.iloc[:, [j for j in range(data.shape[1]) if j != position]]
    runs = _frame_runs(data.columns, data.dtypes)
    features = _Features(
        names=list(data.columns),
        parts=[_frame_block(data, run) for run in runs],
        nominal=[run.nominal for run in runs for _ in run.columns],
        fingerprint=digest(["pandas", tokenize(data)]),
        sample_shape=(len(data),),
    )
    return features, column


def _from_dask_frame(data: Any, target: Any) -> tuple[_Features, _Column | None]:
    if _is_dask_frame(target) and target.ndim == 1 and target.name in list(data.columns):
        # Expressions are named after what they compute, so that nothing is read to compare them.
        own = _names_column(target.name) and data[target.name]._name == target._name
        target = target.name if own else target
    position = _find_column(data.columns, target)
    lengths = data.map_partitions(len, meta=("length", int)).compute().tolist()
    partitions = data.to_delayed()
    columns = [j for j in range(len(data.columns)) if j != position]

    def gather(run: _Run) -> Any:
        blocks = [
            da.from_delayed(
                delayed(_frame_block)(partition, run),
                shape=(length, len(run.columns)),
                dtype=run.dtype,
            )
            for partition, length in zip(partitions, lengths, strict=True)
        ]
        return da.concatenate(blocks)

    if position is not None:
        name = str(data.columns[position])
        run = _Run((position,), *_plan_column(f"target {name!r}", data.dtypes.iloc[position]))
        column: _Column | None = _Column(
            gather(run)[:, 0],
            _target_type(data.dtypes.iloc[position], run),
            name,
            digest(["dask frame", data._name, name]),
        )
    else:
        column = _column(target)
    runs = _frame_runs(data.columns, data.dtypes, columns)
    features = _Features(
        names=[data.columns[j] for j in columns],
        parts=[gather(run) for run in runs],
        nominal=[run.nominal for run in runs for _ in run.columns],
        fingerprint=digest(["dask frame", data._name, lengths, columns]),
        sample_shape=(sum(lengths),),
    )
    return features, column


Fingerprint = Callable[[Any], str]


def _from_data_array(
    data: xr.DataArray, target: Any, feature_dim: Hashable | None, fingerprint: Fingerprint
) -> tuple[_Features, _Column | None]:
    feature_dim = _feature_dim(data, feature_dim)
    sample_dims = [dim for dim in data.dims if dim != feature_dim]
    column = None
    if _names_column(target):
        others = {name: each for name, each in data.coords.items() if name not in data.dims}
        if not others:
            raise ValueError(
                f"target is the name {target!r}, but the DataArray has no coordinates beside its "
                "dims; give the target as an array, or add it as a coordinate and give its name"
            )
        if target not in others:
            raise unknown("coordinate for the target", target, others)
        column = _array_column(others[target], data, sample_dims, fingerprint)
    elif target is not None:
        column = _sample_column(target, data, sample_dims)
    names: list[Hashable] = [f"x{j}" for j in range(data.sizes[feature_dim])]
    if feature_dim in data.coords and data.coords[feature_dim].dims == (feature_dim,):
        names = list(data.coords[feature_dim].values.tolist())
        if data.coords[feature_dim].dtype.kind in "Mm":
            names = [str(name) for name in data.coords[feature_dim].values]
    _refuse_dtype(_feature(names[0] if names else "x0"), data.dtype)
    _refuse_sparse("the data", data.variable._data)
    array = _chunked(data).transpose(*sample_dims, feature_dim).data
    features = _Features(
        names=names,
        parts=[array.reshape(-1, array.shape[-1])] if array.size else [np.empty((0, len(names)))],
        nominal=[_is_nominal(data.dtype)] * len(names),
        fingerprint=digest(
            ["xarray", fingerprint(data), list(map(str, data.dims)), str(feature_dim)]
        ),
        sample_shape=tuple(data.sizes[dim] for dim in sample_dims),
    )
    return features, column


def _from_dataset(
    data: xr.Dataset, target: Any, feature_dim: Hashable | None, fingerprint: Fingerprint
) -> tuple[_Features, _Column | None]:
    named = _names_column(target)
    if named and target not in data.variables:
        raise unknown("variable for the target", target, data.variables)
    labelled = data[target] if named else target if isinstance(target, xr.DataArray) else None
    # A variable without dims, such as spatial_ref, describes the Dataset.
    variables = [
        name
        for name, each in data.data_vars.items()
        if each.ndim and not (labelled is not None and _is_like(labelled, each))
    ]
    if feature_dim is not None and feature_dim not in data.dims:
        raise unknown("feature_dim", feature_dim, data.dims)
    dim = "feature" if feature_dim is None and "feature" in data.dims else feature_dim
    # A variable of one dim describes the features themselves, for example their width.
    holding = [
        name
        for name in variables
        if dim is not None and dim in data[name].dims and data[name].ndim > 1
    ]
    if not holding and dim is None and len(variables) == 1 and data[variables[0]].ndim > 1:
        holding = variables
    if len(holding) > 1 or (feature_dim is not None and not holding):
        raise ValueError(
            f"{len(holding)} variables hold the dim {dim!r}: {holding}; give the one to select "
            f"from, for example data[{(holding or variables or ['x'])[0]!r}]"
        )
    if holding:
        array = data[holding[0]]
        if named:
            # The rule for dims is that of an array, which is found before the target is aligned.
            dim = _feature_dim(array, dim)
            samples = [each for each in array.dims if each != dim]
            features, _ = _from_data_array(array, None, dim, fingerprint)
            return features, _array_column(data[target], array, samples, fingerprint)
        return _from_data_array(array, target, dim, fingerprint)
    if not variables:
        raise ValueError("the Dataset has no variables to select from beside the target")
    widest = max(variables, key=lambda name: data[name].ndim)
    like = _chunked(data[widest])
    for name in variables:
        if not set(data[name].dims) <= set(like.dims):
            raise _differ(data, widest, name)
        _refuse_dtype(_feature(name), data[name].dtype)
        _refuse_sparse(_feature(name), data[name].variable._data)
    repeated = [name for name in variables if data[name].ndim < like.ndim]
    if repeated and labelled is not None and set(labelled.dims) != set(like.dims):
        raise _differ(data, widest, repeated[0])
    column = None
    if named:
        column = _array_column(data[target], like, list(like.dims), fingerprint)
    elif target is not None:
        column = _sample_column(target, like, list(like.dims))
    if repeated and column is not None and not _fits(column.array.shape, like.shape):
        raise _differ(data, widest, repeated[0])
    parts, nominal = [], []
    for run in _runs([data[name].dtype for name in variables]):
        arrays = [_spread(data[variables[j]], like) for j in run]
        stack = da.stack if any(isinstance(array, da.Array) for array in arrays) else np.stack
        block = stack([array.reshape(-1) for array in arrays], axis=1)
        parts.append(block.rechunk({1: -1}) if isinstance(block, da.Array) else block)
        nominal += [_is_nominal(arrays[0].dtype)] * len(run)
    features = _Features(
        names=variables,
        parts=parts,
        nominal=nominal,
        fingerprint=digest(
            ["dataset", *([fingerprint(data[name]), data[name].dims] for name in variables)]
        ),
        sample_shape=like.shape,
    )
    return features, column


def _is_like(target: xr.DataArray, variable: xr.DataArray) -> bool:
    """Return whether a target is a variable of the data, or was made from it."""
    return target.name == variable.name and set(target.dims) == set(variable.dims)


def _differ(data: xr.Dataset, one: Hashable, other: Hashable) -> ValueError:
    return ValueError(
        f"variables {one!r} {data[one].dims} and {other!r} {data[other].dims} differ in their "
        "dims, so they cannot all be features; give the features alone, for example "
        f"data[[{one!r}]], or name the dim of the features with feature_dim="
    )


def _spread(variable: xr.DataArray, like: xr.DataArray) -> Any:
    """Return the array of a variable over all dims of another, as lazy as that."""
    missing = [dim for dim in like.dims if dim not in variable.dims]
    variable = _chunked(variable)
    if not missing:
        return variable.transpose(*like.dims).data
    if like.chunks is not None:
        variable = variable.chunk({dim: like.chunksizes[dim] for dim in variable.dims})
    array = variable.expand_dims(missing).transpose(*like.dims).data
    if isinstance(array, da.Array):
        return da.broadcast_to(array, like.shape, chunks=like.chunks)
    return np.broadcast_to(array, like.shape)


def _from_path(
    path: str, target: Any, feature_dim: Hashable | None
) -> tuple[_Features, _Column | None]:
    if not is_url(path) and not Path(path).exists():
        raise FileNotFoundError(f"no such path: {path!r}; give the path of a Zarr store")
    try:
        node: Any = zarr.open(path, mode="r")
    except FileNotFoundError as error:
        kind = ValueError if not is_url(path) else FileNotFoundError
        raise kind(f"no Zarr array or group at {path!r}; give the path of one") from error
    return _from_zarr(node, path, target, feature_dim)


def _from_zarr(
    node: Any, address: str, target: Any, feature_dim: Hashable | None
) -> tuple[_Features, _Column | None]:
    if isinstance(node, zarr.Array):
        _refuse_feature_dim(feature_dim, f"the Zarr array {address!r}")
        features, column = _from_array(_open_zarr_array(node, ""), target)
        return _with_fingerprint(features, _store_fingerprint(node, "")), column
    arrays: dict[str, Any] = dict(sorted(node.arrays()))
    if not arrays:
        raise ValueError(
            f"the Zarr group {address!r} holds no arrays; give the path of one that does"
        )
    if all(_dim_names(array) is not None for array in arrays.values()):
        consolidated = node.metadata.consolidated_metadata is not None
        dataset = xr.open_zarr(node.store, group=node.path, chunks=None, consolidated=consolidated)

        def fingerprint(variable: xr.DataArray) -> str:
            return _store_fingerprint(arrays[str(variable.name)], str(variable.name))

        return _from_dataset(dataset, target, feature_dim, fingerprint)
    _refuse_feature_dim(
        feature_dim, f"the table in the Zarr group {address!r}, which has arrays without dims,"
    )
    if _names_column(target) and target not in arrays:
        raise unknown(f"array of the Zarr group {address!r} for the target", target, arrays)
    tables = [
        name
        for name, array in arrays.items()
        if array.ndim == 2 and not (_names_column(target) and name == target)
    ]
    if len(tables) != 1:
        raise ValueError(
            f"the Zarr group {address!r} holds {len(tables)} arrays of two dimensions {tables}, "
            "one is expected; give the path of the array, or write the group with xarray"
        )
    table = arrays[tables[0]]
    features, column = _from_array(
        _open_zarr_array(table, tables[0]), None if _names_column(target) else target
    )
    if _names_column(target):
        column = _zarr_column(arrays[target], str(target))
    return _with_fingerprint(features, _store_fingerprint(table, tables[0])), column


def _with_fingerprint(features: _Features, fingerprint: str) -> _Features:
    return _Features(
        features.names, features.parts, features.nominal, fingerprint, features.sample_shape
    )


def _zarr_column(array: Any, name: str) -> _Column:
    return _Column(
        _open_zarr_array(array, name),
        _target_type(array.dtype),
        name,
        _store_fingerprint(array, name),
    )


def _open_zarr_array(array: Any, name: str) -> Any:
    grid = array.shards or array.chunks
    # The fingerprint is part of the name, so that a changed store is another array for Dask.
    token = digest([str(array.store_path), _store_fingerprint(array, name)])
    chunks = _block_chunks(array.shape, grid, array.dtype.itemsize)
    return da.from_array(array, chunks=chunks, name=f"source-{token}")


# Checks that hold for every input


def _check(
    features: _Features, column: _Column | None, nominal: Iterable[Hashable] | bool | None
) -> Source:
    names = tuple(_plain(name) for name in features.names)
    for part in features.parts:
        _refuse_unknown_chunks("the data", part)
    n_samples = int(np.prod(features.sample_shape))
    if not names or not n_samples:
        raise ValueError(f"the data is empty: it has {n_samples} samples and {len(names)} features")
    if len(set(names)) < len(names):
        twice = next(name for j, name in enumerate(names) if name in names[:j])
        raise ValueError(f"two features are called {twice!r}; rename one of them")
    first = 0
    for part in features.parts:
        _refuse_dtype(_feature(names[first]), part.dtype)
        if isinstance(part, da.Array):
            _refuse_sparse(_feature(names[first]), part._meta)
        first += part.shape[1]
    # In memory, a block spans all parts, so that they are cut at the same rows.
    row_bytes = sum(part[:1].nbytes for part in features.parts)
    token = digest([features.fingerprint])
    lazy = [_lazy(part, row_bytes, f"source-{j}-{token}") for j, part in enumerate(features.parts)]
    parts = _unify([_canonical(part) for part in lazy])
    flags = np.array(features.nominal, dtype=bool)
    flags[_positions(nominal, names)] = True
    target = None
    if column is not None:
        target = _check_target(column, features.sample_shape, parts[0].chunks[0])
    return Source(
        names=names,
        parts=parts,
        nominal=flags,
        target=target,
        target_name=column.name if column else "",
        target_type=column.type if column else "number",
        fingerprint=digest([features.fingerprint, names]),
        target_fingerprint=column.fingerprint if column else "",
    )


def _check_target(
    column: _Column, sample_shape: tuple[int, ...], row_chunks: tuple[int, ...]
) -> da.Array:
    array = column.array
    what = f"target {column.name!r}"
    _refuse_dtype(what, array.dtype)
    n_samples = int(np.prod(sample_shape))
    if isinstance(array, da.Array):
        _refuse_sparse(what, array._meta)
    _refuse_unknown_chunks(what, array)
    if not _fits(array.shape, sample_shape):
        size = array.shape[0] if array.ndim == 1 else array.shape
        shape = f" {sample_shape}" if len(sample_shape) > 1 else ""
        raise ValueError(
            f"{what} has {size} values and the data has {n_samples} samples{shape}; give one value "
            "a sample"
        )
    if isinstance(array, np.ndarray):
        array = da.from_array(
            array.reshape(-1), chunks=-1, name=f"target-{digest([column.fingerprint])}"
        )
    checked: da.Array = _canonical(array.reshape(-1).rechunk((row_chunks,)))
    return checked


def _fits(shape: tuple[int, ...], sample_shape: tuple[int, ...]) -> bool:
    """Return whether an array of this shape has one value a sample."""
    n_samples = int(np.prod(sample_shape))
    return shape in {sample_shape, (n_samples,), (n_samples, 1)}


def _positions(nominal: Iterable[Hashable] | bool | None, names: tuple[Name, ...]) -> list[int]:
    if nominal is None or nominal is False:
        return []
    if nominal is True:
        return list(range(len(names)))
    given = [nominal] if isinstance(nominal, str | int | float) else list(nominal)
    where = {name: j for j, name in enumerate(names)}
    all_text = all(isinstance(name, str) for name in names)
    positions = []
    for each in given:
        name = _plain(each)
        if name in where:
            positions.append(where[name])
        elif all_text and isinstance(name, int) and -len(names) <= name < len(names):
            positions.append(name)
        else:
            raise unknown("feature in nominal", name, names)
    return positions


def _feature(name: Hashable) -> str:
    return f"feature {_plain(name)!r}"


def _refuse_dtype(what: str, dtype: Any) -> None:
    """Raise a TypeError for a dtype that has no codes, saying what to convert it to."""
    kind = getattr(dtype, "kind", "O")
    if kind in "biufOUST":
        return
    advice = {
        "M": "dates; convert it to numbers, for example "
        "(x - x.min()) / np.timedelta64(1, 's'), or to parts such as its month",
        "m": "durations; convert it to numbers, for example x / np.timedelta64(1, 's')",
        "c": "complex numbers; give np.abs(x), or x.real and x.imag as two features",
    }
    raise TypeError(f"{what} is {dtype}: " + advice.get(kind, "convert it to numbers or strings"))


def _refuse_sparse(what: str, array: Any) -> None:
    module = type(array).__module__.split(".")[0]
    if module == "sparse":
        raise TypeError(f"{what} is sparse; convert it with .todense()")
    if module == "scipy":
        raise TypeError(f"{what} is a sparse {type(array).__name__}; convert it with .toarray()")


def _refuse_feature_dim(feature_dim: Hashable | None, what: str) -> None:
    if feature_dim is not None:
        raise ValueError(
            f"feature_dim is {feature_dim!r}, which names a dim of xarray data or of a Zarr group "
            f"that xarray wrote; the columns of {what} are its features: leave feature_dim out"
        )


def _refuse_unknown_chunks(what: str, array: Any) -> None:
    if np.isnan(np.array(array.shape, dtype=float)).any():
        raise ValueError(
            f"the chunk sizes of {what} are unknown; call .compute_chunk_sizes() first"
        )


def _canonical(array: Any) -> Any:
    """Return the array with blocks of native numbers or of objects."""
    dtype = array.dtype
    if dtype.kind in "UST":
        return array.map_blocks(_as_objects, dtype=object, meta=np.empty((0,) * array.ndim, object))
    if dtype.kind == "f" and dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _as_objects(block: np.ndarray) -> np.ndarray:
    if block.dtype.kind == "S":
        block = np.char.decode(block, "utf-8", "replace")
    return block.astype(object)


def _lazy(array: Any, row_bytes: int, name: str) -> Any:
    """Return a dask array, of row blocks of about 64 MiB if it was in memory.

    It gets its name by hand, since the fingerprint has hashed its content already.
    """
    if isinstance(array, da.Array):
        return array
    rows = max(1, BLOCK_BYTES // max(row_bytes, 1))
    chunks = (min(rows, len(array)), *array.shape[1:])
    return da.from_array(np.asarray(array), chunks=chunks, name=name)


def _unify(parts: list[da.Array]) -> tuple[da.Array, ...]:
    """Return the parts with the row chunks of the first."""
    rows = tuple(size for size in parts[0].chunks[0] if size)
    return tuple(part if part.chunks[0] == rows else part.rechunk({0: rows}) for part in parts)


# Targets


def _names_column(target: Any) -> bool:
    return isinstance(target, str | int | float | tuple) and not isinstance(target, bool)


def _find_column(columns: Any, target: Any) -> int | None:
    """Return the position of the column that the target names, None where it is an array."""
    if not _names_column(target):
        return None
    places = [j for j, name in enumerate(columns) if name == target]
    if not places:
        raise unknown("column for the target", target, list(columns))
    if len(places) > 1:
        raise ValueError(f"two columns are called {target!r}; rename one of them")
    return places[0]


def _column(target: Any) -> _Column | None:
    """Return a target that was given as an array."""
    if target is None:
        return None
    target = _as_series(target)
    if isinstance(target, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return _pandas_column(pd.Series(target))
    if isinstance(target, xr.DataArray):
        name = _target_name(target)
        fingerprint = _array_fingerprint(target)
        target = _chunked(target).data
        return _Column(target, _target_type(target.dtype), name, fingerprint)
    if _is_dask_frame(target):
        if target.ndim != 1:
            raise TypeError("target is a dask DataFrame; give one of its columns")
        column = _from_dask_frame(target.to_frame(name="target"), "target")[1]
        assert column is not None
        name = _target_name(target)
        return _Column(column.array, column.type, name, column.fingerprint)
    if isinstance(target, zarr.Array):
        return _zarr_column(target, target.basename or "target")
    _refuse_sparse("the target", target)
    if isinstance(target, list | tuple):
        target = np.asarray(target, dtype=object if _is_mixed(target) else None)
    if not isinstance(target, np.ndarray | da.Array):
        raise TypeError(
            f"target is a {type(target).__name__}; give an array with one value a sample, or the "
            "name of a column or variable of the data"
        )
    return _Column(target, _target_type(target.dtype), "target", _array_fingerprint(target))


def _target_name(target: Any) -> str:
    return str(target.name) if target.name is not None else "target"


def _as_series(target: Any) -> Any:
    """Return a data frame of one column as that column, anything else as it is."""
    if isinstance(target, pd.DataFrame) and target.shape[1] == 1:
        return target.iloc[:, 0]
    return target


def _check_index(target: Any, index: Any) -> None:
    """Raise where the labels of a target do not say what the order of its values does."""
    if len(target) == len(index) and not target.index.equals(index):
        raise ValueError(
            f"target {_target_name(target)!r} and the data have different indexes; give "
            "target.loc[data.index] to take the values by label, or target.to_numpy() to take "
            "them in the order that they are in"
        )


def _own_column(data: Any, target: Any) -> int | None:
    """Return the position of the column of a frame that the target was taken from."""
    places = [j for j, name in enumerate(data.columns) if name == target.name]
    if len(places) != 1 or len(target) != len(data):
        return None
    column = data.iloc[:, places[0]]
    if column.dtype != target.dtype and column.isna().equals(target.isna()):
        # One that was made a categorical, for example, still has the values of the column.
        column, target = (each.dropna().astype(object) for each in (column, target))
    return places[0] if column.equals(target) else None


def _is_mixed(values: Sequence[Any]) -> bool:
    """Return whether numpy would turn a list with missing or mixed values into text."""
    return any(value is None or isinstance(value, str) for value in values)


def _sample_column(target: Any, data: xr.DataArray, dims: list[Hashable]) -> _Column | None:
    if isinstance(target, xr.DataArray):
        return _array_column(target, data, dims, _array_fingerprint)
    return _column(target)


def _array_column(
    target: xr.DataArray, data: xr.DataArray, dims: list[Hashable], fingerprint: Fingerprint
) -> _Column:
    """Return a labelled target in the order of the samples of the data."""
    if set(target.dims) != set(dims):
        raise ValueError(
            f"target {target.name!r} has the dims {target.dims} and the samples of the data "
            f"{tuple(dims)}; give the same dims, for example with target.rename or broadcast_like"
        )
    for dim in dims:
        if target.sizes[dim] != data.sizes[dim]:
            raise ValueError(
                f"target {target.name!r} has {target.sizes[dim]} values along {dim!r} and the data "
                f"has {data.sizes[dim]} samples; give one value a sample"
            )
        if (
            dim in target.indexes
            and dim in data.indexes
            and not target.indexes[dim].equals(data.indexes[dim])
        ):
            raise ValueError(
                f"target {target.name!r} and the data have other labels along {dim!r}; align them "
                "first with xr.align(data, target)"
            )
    array = _chunked(target).transpose(*dims).data
    name = _target_name(target)
    return _Column(array, _target_type(target.dtype), name, fingerprint(target))


def _target_type(dtype: Any, run: _Run | None = None) -> TargetType:
    if run is not None and run.nominal:
        return "nominal"
    kind = getattr(dtype, "kind", "O")
    if kind in "bOUST":
        return "nominal"
    return "integer" if kind in "iu" else "number"


# Data frames


@dataclass(frozen=True)
class _Run:
    """Neighbouring columns of a frame that become one array of one dtype."""

    columns: tuple[int, ...]
    dtype: np.dtype
    nominal: bool


def _frame_runs(columns: Any, dtypes: Any, chosen: Sequence[int] | None = None) -> list[_Run]:
    wanted = range(len(columns)) if chosen is None else chosen
    planned = [(j, *_plan_column(_feature(columns[j]), dtypes.iloc[j])) for j in wanted]
    return [
        _Run(tuple(planned[at][0] for at in run), planned[run[0]][1], planned[run[0]][2])
        for run in _runs([plan[1:] for plan in planned])
    ]


def _plan_column(what: str, dtype: Any) -> tuple[np.dtype, bool]:
    """Return the numpy dtype that a column of a frame gets and whether it is nominal."""
    if isinstance(dtype, pd.SparseDtype):
        raise TypeError(f"{what} is sparse; convert it with .sparse.to_dense()")
    if isinstance(dtype, pd.CategoricalDtype):
        categories = dtype.categories
        numeric = categories is not None and categories.dtype.kind in "iuf"
        return (np.dtype(np.float64) if numeric else np.dtype(object)), True
    if isinstance(dtype, np.dtype):
        _refuse_dtype(what, dtype)
        return dtype, _is_nominal(dtype)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        return np.dtype(object), True
    if pd.api.types.is_numeric_dtype(dtype) and dtype.kind in "iuf":
        return np.dtype(np.float32 if dtype.itemsize == 4 and dtype.kind == "f" else float), False
    _refuse_dtype(what, dtype)
    raise TypeError(
        f"{what} is {dtype}: convert it to numbers with .astype(float) or to strings with "
        ".astype(str)"
    )


def _frame_block(frame: Any, run: _Run) -> np.ndarray:
    """Return the columns of a run of a pandas frame as an array."""
    chosen = frame.iloc[:, list(run.columns)]
    if all(isinstance(dtype, np.dtype) for dtype in chosen.dtypes):
        return np.asarray(chosen.to_numpy(dtype=run.dtype))
    block = np.empty(chosen.shape, run.dtype, order="F")
    for j in range(chosen.shape[1]):
        block[:, j] = _series_values(chosen.iloc[:, j], run.dtype)
    return block


def _series_values(series: Any, dtype: np.dtype) -> np.ndarray:
    if hasattr(series.dtype, "categories") and dtype.kind == "O":
        # Intervals and the like become text; codes of -1 take the None at the end.
        labels = [
            each if isinstance(each, str | bool) else str(each) for each in series.cat.categories
        ]
        return np.asarray(np.array([*labels, None], dtype=object)[series.cat.codes.to_numpy()])
    missing = None if dtype.kind == "O" else np.nan
    return np.asarray(series.to_numpy(dtype=dtype, na_value=missing))


def _pandas_column(series: Any) -> _Column:
    name = _target_name(series)
    run = _Run((0,), *_plan_column(f"target {name!r}", series.dtype))
    values = _frame_block(series.to_frame(), run)[:, 0]
    return _Column(
        values, _target_type(series.dtype, run), name, digest(["pandas", tokenize(series)])
    )


def _is_dask_frame(data: Any) -> bool:
    return any(base.__module__.startswith("dask.dataframe") for base in type(data).__mro__) and (
        hasattr(data, "to_delayed")
    )


# xarray and Zarr


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
        f"the data has the dims {dims}, and none is called 'feature'; say which one holds the "
        f"features, for example feature_dim={example}"
    )


def _chunked(data: xr.DataArray) -> xr.DataArray:
    """Return an array that is read lazily where it was opened from a file and not loaded."""
    if data.chunks is not None or data.variable._in_memory:
        return data
    # Whole shards: one Dask chunk an inner chunk would decode a shard many times over,
    # https://github.com/dask/dask/issues/12586
    named = (data.encoding.get(key) for key in ("shards", "chunks", "chunksizes"))
    grid = next((grid for grid in named if grid and len(grid) == data.ndim), (1, *data.shape[1:]))
    return data.chunk(
        dict(zip(data.dims, _block_chunks(data.shape, grid, data.dtype.itemsize), strict=True))
    )


def _block_chunks(shape: tuple[int, ...], grid: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return whole multiples of a chunk grid: first more features, then more rows, to 64 MiB."""
    chunks = [max(1, min(size, chunk)) for size, chunk in zip(shape, grid, strict=True)]
    if len(chunks) > 1:
        chunks[-1] = min(shape[-1], chunks[-1] * max(1, BLOCK_FEATURES // chunks[-1]))
    nbytes = int(np.prod(chunks)) * itemsize
    if chunks:
        chunks[0] = min(shape[0], chunks[0] * max(1, BLOCK_BYTES // max(nbytes, 1)))
    return tuple(max(1, chunk) for chunk in chunks)


def _dim_names(array: Any) -> Any:
    """Return the dims that xarray gave a Zarr array, None where it has none."""
    names = getattr(array.metadata, "dimension_names", None)
    return names if names is not None else array.attrs.get("_ARRAY_DIMENSIONS")


# Fingerprints


def digest(parts: Sequence[object]) -> str:
    """Return a fingerprint of what JSON can hold.

    Examples
    --------
    >>> digest(["a", 1])[:8]
    '2657442b'
    """
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _array_fingerprint(array: Any) -> str:
    """Return the fingerprint of an array: its content in memory, else its graph and its files."""
    if isinstance(array, xr.DataArray):
        path = array.encoding.get("source")
        array = _chunked(array).data
        if isinstance(array, da.Array) and isinstance(path, str) and Path(path).is_file():
            return digest([_files_fingerprint(Path(path)), _array_fingerprint(array)])
    if isinstance(array, da.Array):
        files = [_zarr_fingerprint(each) for each in _zarr_arrays(array)]
        return digest(["dask", array.name, array.shape, str(array.dtype), array.chunks, files])
    return digest(["numpy", array.shape, str(array.dtype), tokenize(array)])


def _zarr_arrays(array: da.Array) -> list[zarr.Array[Any]]:
    """Return the Zarr arrays that a dask array reads.

    The name of a dask array does not change with the files behind it, so these are looked at too.
    """
    arrays = []
    graph = array.dask
    for layer in sorted(name for name in graph.layers if name.startswith("original-")):
        node: Any = graph[layer]
        # A node of the graph, then the layers of lazy decoding that xarray wraps an array in.
        while node is not None and not isinstance(node, zarr.Array):
            inner = (getattr(node, name, None) for name in ("value", "array", "_array"))
            node = next((each for each in inner if each is not None), None)
        if node is not None:
            arrays.append(node)
    return arrays


def _zarr_fingerprint(array: zarr.Array[Any]) -> str:
    """Return the fingerprint of the files of an open Zarr array, "" where it has none."""
    store: Any = array.store_path.store
    if hasattr(store, "root"):
        return _files_fingerprint(Path(store.root) / array.path)
    if not hasattr(store, "fs"):
        # A zip is one file.
        file = Path(getattr(store, "path", ""))
        return _files_fingerprint(file) if file.is_file() else ""
    files = getattr(store.fs, "sync_fs", None)
    if files is None:
        options = {**store.fs.storage_options, "asynchronous": False}
        files = type(store.fs)(*store.fs.storage_args, **options)
    return _remote_fingerprint(files, f"{store.path}/{array.path}".rstrip("/"))


def _store_fingerprint(array: zarr.Array[Any], name: str) -> str:
    # Without files it is as Dask tells arrays apart, by the content where that is in memory.
    return digest(["zarr", name, _zarr_fingerprint(array) or tokenize(array)])


def _files_fingerprint(root: Path) -> str:
    """Return the fingerprint of a file or a folder: sizes and times, never the content."""
    if root.is_file():
        return digest([root.stat().st_size, root.stat().st_mtime_ns])
    listing = []
    for folder, _, names in os.walk(root):
        for each in names:
            file = Path(folder) / each
            stat = file.stat()
            listing.append([str(file.relative_to(root)), stat.st_size, stat.st_mtime_ns])
    return digest(sorted(listing))


def _remote_fingerprint(files: Any, root: str) -> str:
    stamps = ("size", "ETag", "etag", "LastModified", "mtime", "updated")
    found = files.find(root, detail=True)
    return digest(
        [[key, *(str(info.get(stamp)) for stamp in stamps)] for key, info in sorted(found.items())]
    )


# Small things


def _plain(name: Hashable) -> Name:
    """Return a name as JSON can keep it."""
    if isinstance(name, np.generic):
        name = name.item()
    return name if isinstance(name, str | int | float) else str(name)


def _is_nominal(dtype: np.dtype) -> bool:
    return dtype.kind in "bOUST"


def _runs(keys: Sequence[object]) -> list[list[int]]:
    """Return the positions of neighbours with equal keys, in groups.

    A group is one array, so a frame of one dtype is not taken apart.
    """
    runs: list[list[int]] = []
    for j, key in enumerate(keys):
        if runs and keys[runs[-1][0]] == key:
            runs[-1].append(j)
        else:
            runs.append([j])
    return runs
