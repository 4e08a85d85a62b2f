"""Open any input as a `Source`: lazy blocks (sample, feature), a target and a fingerprint."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import dask.array.core as da
import dask.config
import numpy as np
import pandas as pd
import xarray as xr
import zarr
from zarr.storage import LocalStore

from hofs_dask.errors import unknown
from hofs_dask.io.arrays import from_array, from_zarr, open_path
from hofs_dask.io.axes import Axis
from hofs_dask.io.blocks import InPlace, canonical, row_blocks, unify, without_mask
from hofs_dask.io.columns import (
    Column,
    Features,
    is_dask_frame,
    plain,
    refuse_dtype,
    refuse_sparse,
)
from hofs_dask.io.fingerprint import Identity, LaterIdentity, digest, unique_digest
from hofs_dask.io.frames import from_dask_frame, from_frame, refuse_index_name
from hofs_dask.io.grids import from_data_array, from_dataset, open_node, within_groups
from hofs_dask.io.groups import groups_column
from hofs_dask.io.joins import join_labels
from hofs_dask.io.kinds import Name, TargetType
from hofs_dask.io.labelled import on_grid
from hofs_dask.io.listings import Origin
from hofs_dask.io.mappings import from_mapping
from hofs_dask.io.masks import mask_column
from hofs_dask.io.memory import Memory, memory_of
from hofs_dask.io.netcdf import is_netcdf, open_netcdf, refuse_pattern
from hofs_dask.io.places import Place, as_place, is_location
from hofs_dask.io.reading import BY, DEFAULTS, GROUPS, LAGS, WEIGHTS, WHERE, Reading, find_columns
from hofs_dask.io.samples import by_column, take_column, weights_column
from hofs_dask.io.table import Table
from hofs_dask.io.tables import from_table, is_table, open_table
from hofs_dask.io.targets import as_series, check_ignored, fits, names_column
from hofs_dask.io.units import without_units
from hofs_dask.io.unusable import check_on_bad, usable
from hofs_dask.scheduling.compute import is_here

#: The kinds of data that `open_source` reads.
KINDS = (
    "a numpy or Dask array (sample, feature)",
    "a dict of numpy or Dask arrays (sample,) by name",
    "a pandas or Dask data frame",
    "an xarray DataArray or Dataset",
    "a Zarr array or group, its path or URL, or a Zarr store or icechunk session that contains it",
    "a Parquet or CSV file, a folder of such files, or a pattern such as `data/*.parquet`",
    "an Arrow table or dataset, a polars data frame or lazy frame, or another object with Arrow's "
    "`__arrow_c_stream__`",
    "the path of a netCDF file",
)


@dataclass(frozen=True)
class SampleColumn:
    """A further column of a source, with one value per sample: groups, weights or a mask.

    Attributes
    ----------
    values : dask.array.Array (sample,)
        The values, with the row chunks of the parts of the source.
    in_memory : bool
        Whether the values are in the memory of this process.
    role : str
        The option that gave the column.
    name : str
        The name of the column; if it has none, the name of the option.
    identity : Identity
        Has the fingerprint of the values.
    """

    values: da.Array
    in_memory: bool
    role: str
    name: str
    identity: Identity

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the values, see `Source`."""
        return self.identity.fingerprint


@dataclass(frozen=True)
class Source:
    """The features of any input as lazy blocks, with the target and further columns.

    Attributes
    ----------
    names : tuple
        Feature names: strings, numbers or tuples of these; ``x0, x1, ...`` if the data does not
        name its features.
    parts : tuple of dask.array.Array (sample, feature)
        The data, split along the features. Each part has one dtype; all have the same row chunks.
    nominal : ndarray of bool (feature)
        Whether the values of a feature are categories.
    target : dask.array.Array (sample,) or None
        The target, with the row chunks of the parts.
    target_in_memory : bool
        Whether the target is in the memory of this process.
    target_name : str
        The name of the target, ``"target"`` if it has none.
    target_type : {"nominal", "integer", "number"}
        The type of the target, inferred from its dtype.
    identity, target_identity : Identity
        Have the fingerprints of the features and of the target.
    origins : tuple of Origin
        The files and Zarr arrays that features, target and further columns are read from.
    opened_state : str
        The value of `state` when the source was opened.
    groups : SampleColumn or None
        The id of the group of each sample; None if samples are not grouped.
    weights : SampleColumn or None
        The weight of each sample; None if all samples count equally.
    by : SampleColumn or None
        For each sample, the label of its part of the data; None if the data is not split.
    masks : tuple of SampleColumn
        One mask for each of the options ``lags`` and ``where`` that was given: true for the samples
        that the option keeps. A sample is used only if all masks are true.
    ignore_label
        The class whose samples are ignored; None for none.
    feature_dims : tuple of str
        For xarray data, the dims along which the features are.
    notes : tuple of str
        Messages for the user that say what was left out when the source was opened.
    axis : Axis or None
        For xarray data, the description of the features: dim, units and further coordinates.
    columns : tuple
        The names of all features, including those that were left out, in the order of the data.
    on_bad : {"raise", "skip"}
        What to do with features whose values cannot be used.
    memory : Memory or None
        The same content as numpy arrays, if all of it is in the memory of this process.
    """

    names: tuple[Name, ...]
    parts: tuple[da.Array, ...]
    nominal: np.ndarray
    target: da.Array | None
    target_in_memory: bool
    target_name: str
    target_type: TargetType
    identity: Identity
    target_identity: Identity
    origins: tuple[Origin, ...] = ()
    opened_state: str = ""
    groups: SampleColumn | None = None
    weights: SampleColumn | None = None
    by: SampleColumn | None = None
    masks: tuple[SampleColumn, ...] = ()
    ignore_label: Any = None
    feature_dims: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    axis: Axis | None = None
    columns: tuple[Name, ...] = ()
    on_bad: str = "raise"
    memory: Memory | None = None

    def state(self) -> str:
        """Return a digest of the current state of all input files, without reading data.

        It differs from `opened_state` if a file was written, added or removed since the source was
        opened, as far as the storage reports this.

        Examples
        --------
        >>> import numpy as np
        >>> source = open_source(np.zeros((4, 3)), None)
        >>> source.state() == source.opened_state
        True
        """
        return digest([origin.state() for origin in self.origins])

    @property
    def fingerprint(self) -> str | None:
        """A digest of the features that is equal only for equal content.

        It is None if a change of the content cannot be detected, for example if tasks run functions
        of the user; such data is encoded every time.
        """
        return self.identity.fingerprint

    @property
    def target_fingerprint(self) -> str | None:
        """A digest of the target, equal only for equal content; None if it cannot be made."""
        return self.target_identity.fingerprint

    @property
    def places(self) -> tuple[str, ...]:
        """Local paths and URLs of the inputs, as far as they are known."""
        return tuple(dict.fromkeys(origin.place for origin in self.origins if origin.place))

    @property
    def n_absent_chunks(self) -> int:
        """Number of chunks that the Zarr stores do not contain; Zarr reads them as fill values."""
        return sum(origin.n_absent for origin in self.origins)

    def without(self, columns: Collection[int]) -> Source:
        """Return the source without the features at these positions; at least one must remain.

        Examples
        --------
        >>> import numpy as np
        >>> open_source(np.zeros((4, 3)), None).without([1]).names
        ('x0', 'x2')
        """
        kept = [j for j in range(self.n_features) if j not in columns]
        parts, places, first = [], [], 0
        for part in self.parts:
            own = [j - first for j in kept if first <= j < first + part.shape[1]]
            first += part.shape[1]
            places.append(own)
            if own:
                parts.append(part if len(own) == part.shape[1] else part[:, own])
        names = tuple(self.names[j] for j in kept)
        return replace(
            self,
            names=names,
            parts=tuple(parts),
            nominal=self.nominal[kept],
            axis=None if self.axis is None else self.axis.take(kept),
            identity=_named(self.identity, names),
            memory=None if self.memory is None else self.memory.without(places),
        )

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return int(self.parts[0].shape[0])

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.names)


def open_source(
    data: Any, target: Any, reading: Reading = DEFAULTS, exclude: Iterable[Hashable] = ()
) -> Source:
    """Return any supported data and its target as a `Source`, reading as little as possible.

    Parameters
    ----------
    data
        One of `KINDS`. The dims of a DataArray other than ``feature_dim`` are stacked into samples
        in their order. In a Dataset, a variable along ``feature_dim`` contains several
        features, and any other variable is one feature; see Notes.
    target : array, name or None
        One value per sample, or the name of a column, variable or coordinate of ``data``. A column
        or variable of ``data`` that is the target, given by name or as the same object, is not a
        feature.
    reading : Reading
        The options for reading data. ``feature_dim`` is by default ``"feature"``, or the last dim
        of a two-dimensional array. A column or variable of ``data`` that another option names, such
        as ``groups``, is not a feature.
    exclude : iterable of names
        Features that the caller will exclude, so that their types need not be supported. Positions
        are accepted if all names are strings.

    Notes
    -----
    In a Dataset with ``feature_dim``, a variable along this dim contains one feature for each
    coordinate label of the dim. The name of such a feature consists of the name of the variable and
    this coordinate label, such as ``("T", 500)``. A variable without this dim is one feature. If
    there is only one variable, its features are named by their coordinate labels alone.

    In a Dataset whose variables are the features, the dims of the variable with the most dims
    define the samples. A variable with only some of these dims, such as a height (y, x) among
    images (time, y, x), is broadcast along the others. A variable without dims, such as
    ``spatial_ref``, is ignored.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.zeros((4, 2)), [0, 1, 0, 1])
    >>> source.names, source.n_samples
    (('x0', 'x1'), 4)
    """
    with dask.config.set({"array.rechunk.method": "tasks"}):  # not P2P, see `with_fixed_tasks`
        return _open(data, target, reading, exclude)


def _open(data: Any, target: Any, reading: Reading, exclude: Iterable[Hashable]) -> Source:
    groups, weights = reading.groups, reading.weights
    if is_location(data):
        data = as_place(data)
        refuse_pattern(data.path)
        if data.is_local and is_netcdf(data.path):
            data = open_netcdf(data.path)
    if isinstance(data, xr.DataTree):
        data, target = open_node(data, target)
    address = ""
    if is_table(data):
        reading.refuse_dims("a table")
        if isinstance(data, Place) and data.options:
            raise ValueError(
                f"storage_options is given, but {data.path!r} is a table, which is read without "
                "them; set the options in fsspec's configuration"
            )
        data = open_table(data.path if isinstance(data, Place) else data)
    elif isinstance(data, Place):
        data, address = open_path(data), data.path
    data, target = without_units(data), without_units(target)
    if isinstance(target, list) and len(target) == 1 and isinstance(target[0], str):
        raise TypeError(f"target is the list {target!r}; give the name alone, {target[0]!r}")
    named = {GROUPS: groups, WEIGHTS: weights, WHERE: reading.where, BY: reading.by}
    for role, each in {"target": target, **named}.items():
        refuse_index_name(data, each, role)
    data, ids = take_column(data, groups, GROUPS, {"target": target})
    data, weighing = take_column(data, weights, WEIGHTS, {"target": target, GROUPS: groups})
    others = {"target": target, GROUPS: groups, WEIGHTS: weights}
    data, mask = take_column(data, reading.where, WHERE, others)
    data, by = take_column(data, reading.by, BY, {"target": target})
    given = {"target": target, GROUPS: ids, WEIGHTS: weighing, WHERE: mask, BY: by}
    data, given, notes = join_labels(data, given, reading)
    features, column = _read(data, address, given["target"], reading)
    for role, each in given.items():
        _refuse_positions(each, features, role)
    further = {
        role: on_grid(as_series(each), features.grid, role) if features.grid is not None else each
        for role, each in given.items()
        if role != "target" and each is not None
    }
    columns = {role: _COLUMNS[role](each, features) for role, each in further.items()}
    if features.history is not None:
        history = features.history
        if GROUPS in columns:
            history = within_groups(history, columns[GROUPS], features, reading)
        columns[LAGS] = history
    source = _check(features, column, reading, exclude, columns)
    label = check_ignored(reading.ignore_label)
    return replace(
        source,
        ignore_label=label,
        feature_dims=features.feature_dims,
        notes=(*notes, *source.notes),
    )


_COLUMNS: dict[str, Callable[[Any, Features], Column]] = {
    GROUPS: groups_column,
    WEIGHTS: weights_column,
    WHERE: mask_column,
    BY: by_column,
}


def _refuse_positions(given: Any, features: Features, role: str) -> None:
    """Raise a ValueError if values without dims are given for variables with dims in two orders."""
    labelled = names_column(given) or isinstance(given, xr.DataArray | pd.Series | Mapping)
    if given is None or labelled or not features.other_order:
        return
    dims = features.grid.dims
    raise ValueError(
        f"{role} has no dims, and the variables of the data have theirs in different orders, "
        f"{dims} and {features.other_order}; give an xarray.DataArray"
    )


def _read(data: Any, address: str, target: Any, reading: Reading) -> tuple[Features, Column | None]:
    """Return the features of any data, named by the option ``feature_names``, and the target."""
    features, column = _read_any(data, address, target, reading)
    if reading.feature_names is None:
        return features, column
    named = Table | zarr.Group | xr.Dataset | xr.DataArray | pd.DataFrame | Mapping
    if isinstance(data, named) or is_dask_frame(data):
        raise ValueError(
            "feature_names names the columns of an array, but the features of this "
            f"{type(data).__name__} have names; leave feature_names out, or rename them in the data"
        )
    given: Any = reading.feature_names
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"feature_names is {given!r}; give a list with one name per column")
    if isinstance(given, set | frozenset):
        raise TypeError(
            "feature_names is a set, which has no order; give a list with one name per column, in "
            "the order of the columns"
        )
    names = [plain(name) for name in given]
    if len(names) != len(features.names):
        raise ValueError(
            f"feature_names has {len(names)} names and the data has {len(features.names)} columns; "
            "give one name per column"
        )
    return replace(features, names=names), column


def _read_any(
    data: Any, address: str, target: Any, reading: Reading
) -> tuple[Features, Column | None]:
    """Return the features of any data, and the target as a column.

    ``address`` is the path of the data if it was given by path, for messages.
    """
    if isinstance(data, Table):
        return from_table(data, target)
    if isinstance(data, zarr.Array | zarr.Group):
        return from_zarr(_absolute(data), address or str(data.store_path), target, reading)
    if isinstance(data, xr.Dataset):
        return from_dataset(data, target, reading)
    if isinstance(data, xr.DataArray):
        return from_data_array(data, target, reading)
    if is_dask_frame(data):
        reading.refuse_dims("a data frame")
        return from_dask_frame(data, target)
    if isinstance(data, pd.DataFrame):
        reading.refuse_dims("a data frame")
        return from_frame(data, target)
    if isinstance(data, Mapping):
        reading.refuse_dims("a dict of arrays")
        return from_mapping(data, target)
    reading.refuse_dims("an array")
    return from_array(data, target)


def _absolute(node: zarr.Array[Any] | zarr.Group) -> Any:
    """Return the array or group, opened by an absolute path that is valid in every process."""
    if not isinstance(node.store, LocalStore) or node.store.root.is_absolute():
        return node
    store = LocalStore(node.store.root.absolute(), read_only=True)
    return zarr.open(store, path=node.path, mode="r")


def _named(identity: Identity, names: tuple[Name, ...]) -> Identity:
    """Return the identity of features with these names."""

    def known() -> str | None:
        found = identity.fingerprint
        return None if found is None else digest([found, names])

    return LaterIdentity(known, identity.origins)


# Checks of every input


def _check(
    features: Features,
    column: Column | None,
    reading: Reading,
    exclude: Iterable[Hashable],
    further: Mapping[str, Column],
) -> Source:
    check_on_bad(reading.on_bad)
    names = tuple(plain(name) for name in features.names)
    if any(part.ndim != 2 for part in features.parts):
        shapes = [part.shape for part in features.parts]
        raise ValueError(f"parts of shapes {shapes} were read; (sample, feature) is expected")
    for part in features.parts:
        _refuse_unknown_chunks("the data", part)
    n_samples = int(np.prod(features.sample_shape))
    if not (names or features.bad) or not n_samples:
        raise ValueError(f"the data is empty: it has {n_samples} samples and {len(names)} features")
    for part in features.parts:
        if part.shape[0] != n_samples:
            raise ValueError(
                f"the features have different lengths: {part.shape[0]} and {n_samples} samples; "
                "give one value per sample for each feature"
            )
    n_columns = sum(part.shape[1] for part in features.parts)
    if n_columns != len(names):
        raise ValueError(f"{n_columns} columns were read for {len(names)} names")
    if len(set(names)) < len(names):
        twice = next(name for j, name in enumerate(names) if name in names[:j])
        raise ValueError(f"two features are called {twice!r}; rename one of them")
    features = usable(features, exclude, reading.on_bad)
    names = tuple(plain(name) for name in features.names)
    # The bytes of a row are summed over all parts, so that all parts get the same row chunks.
    row_bytes = sum(part[:1].nbytes for part in features.parts)
    # the tasks of other processes have names that depend on the content
    token = uuid.uuid4().hex if is_here() else unique_digest([features.identity.fingerprint])
    whole = [part if isinstance(part, da.Array) else without_mask(part) for part in features.parts]
    lazy = [row_blocks(part, row_bytes, f"source-{j}-{token}") for j, part in enumerate(whole)]
    parts = unify([canonical(part) for part in lazy])
    flags = np.array(features.nominal, dtype=bool)
    for j in _positions(reading.nominal, tuple(features.columns)):
        if features.columns[j] in names:
            flags[names.index(features.columns[j])] = True
    target = None
    if column is not None:
        target = _check_target(column, features.sample_shape, parts[0].chunks[0])
    out = {features.columns[j] for j in find_columns(features.columns, exclude, "exclude")}
    if column is not None and column.name in names and column.name not in out:
        _check_namesake(features, names.index(column.name), column)
        warnings.warn(
            f"the target and a feature are both called {column.name!r}; the feature is used: its "
            "values differ from those of the target; if it is the target in another form, give "
            f"exclude=[{column.name!r}]",
            stacklevel=6,
        )
    columns = [*([] if column is None else [column]), *further.values()]
    shape, rows = features.sample_shape, parts[0].chunks[0]
    checked = {role: _further(each, shape, rows, role) for role, each in further.items()}
    origins = sum((each.identity.origins for each in columns), features.identity.origins)
    return Source(
        names=names,
        parts=parts,
        nominal=flags,
        target=target,
        target_in_memory=column is not None and isinstance(column.array, np.ndarray),
        target_name=column.name if column else "",
        target_type=column.type if column else "number",
        identity=_named(features.identity, names),
        target_identity=column.identity if column else Identity(""),
        origins=origins,
        opened_state=digest([origin.opened_state() for origin in origins]),
        groups=checked.get(GROUPS),
        weights=checked.get(WEIGHTS),
        by=checked.get(BY),
        masks=tuple(checked[role] for role in (LAGS, WHERE) if role in checked),
        notes=features.notes,
        axis=features.axis,
        columns=tuple(features.columns),
        on_bad=reading.on_bad,
        memory=memory_of(features.parts, column, further),
    )


def _check_namesake(features: Features, at: int, column: Column) -> None:
    """Raise a ValueError if a feature with the name of the target is equal to it, or may be."""
    for part in features.parts:
        if at < part.shape[1]:
            break
        at -= part.shape[1]
    if isinstance(part, np.ndarray) and isinstance(column.array, np.ndarray):
        values = [pd.Series(each.reshape(-1), dtype=object) for each in (part[:, at], column.array)]
        if not values[0].equals(values[1]):
            return
        why = "they have the same values"
    else:
        why = "they are not compared, because they are not in memory"
    raise ValueError(
        f"the target and a feature are both called {column.name!r}, and {why}; if the feature is "
        f"the target, give target={column.name!r} or exclude=[{column.name!r}]; if not, give the "
        "target another name"
    )


def _further(
    column: Column, sample_shape: tuple[int, ...], row_chunks: tuple[int, ...], role: str
) -> SampleColumn:
    """Check a column of groups, weights or a mask, and return it as a `SampleColumn`."""
    return SampleColumn(
        _check_target(column, sample_shape, row_chunks, role),
        isinstance(column.array, np.ndarray),
        role,
        column.name,
        column.identity,
    )


def _check_target(
    column: Column,
    sample_shape: tuple[int, ...],
    row_chunks: tuple[int, ...],
    role: str = "target",
) -> da.Array:
    array = column.array
    what = role if role == column.name == WHERE else f"{role} {column.name!r}"
    if role not in (GROUPS, BY) or array.dtype.kind not in "Mm":  # dates are valid ids
        refuse_dtype(what, array.dtype)
    n_samples = int(np.prod(sample_shape))
    if isinstance(array, da.Array):
        refuse_sparse(what, array._meta)
    _refuse_unknown_chunks(what, array)
    if not fits(array.shape, sample_shape):
        size = array.shape[0] if array.ndim == 1 else array.shape
        shape = f" {sample_shape}" if len(sample_shape) > 1 else ""
        some = ", or a DataArray that has some of the dims" if shape and role != "target" else ""
        raise ValueError(
            f"{what} has {size} values and the data has {n_samples} samples{shape}; give one value "
            f"per sample{some}"
        )
    if isinstance(array, np.ndarray):
        # A single chunk would be sent to one worker, and from there to all others.
        here = is_here()
        token = uuid.uuid4().hex if here else column.identity.fingerprint
        array = da.from_array(
            InPlace(array.reshape(-1)) if here else array.reshape(-1),
            chunks=(row_chunks,),
            name=f"{role}-{unique_digest([token, row_chunks])}",
        )
    checked: da.Array = canonical(array.reshape(-1).rechunk((row_chunks,)))
    return checked


def _positions(nominal: Iterable[Hashable] | bool | None, names: tuple[Name, ...]) -> list[int]:
    if nominal is None or nominal is False:
        return []
    if nominal is True:
        return list(range(len(names)))
    where = {name: j for j, name in enumerate(names)}
    one = isinstance(nominal, str | int | float) or (
        isinstance(nominal, tuple) and plain(nominal) in where
    )
    given: list[Any] = [nominal] if one else list(nominal)
    all_text = all(isinstance(name, str) for name in names)
    positions = []
    for each in given:
        name = plain(each)
        if name in where:
            positions.append(where[name])
        elif all_text and isinstance(name, int) and -len(names) <= name < len(names):
            positions.append(name)
        else:
            raise unknown("feature in nominal", name, names)
    return positions


def _refuse_unknown_chunks(what: str, array: Any) -> None:
    if np.isnan(np.array(array.shape, dtype=float)).any():
        raise ValueError(
            f"the chunk sizes of {what} are unknown; call .compute_chunk_sizes() first"
        )
