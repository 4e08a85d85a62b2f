"""Conversion of a target, given as an array of any kind, to a `Column`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array.core as da
import numpy as np
import pandas as pd
import xarray as xr
import zarr
from dask.base import tokenize

from hofs_dask.io.arrow import arrow_column, is_arrow_column
from hofs_dask.io.blocks import open_dask, open_grid, open_zarr, without_mask
from hofs_dask.io.columns import (
    Column,
    Run,
    frame_block,
    gather,
    is_dask_frame,
    plan_column,
    read_partitions,
    refuse_sparse,
    target_type,
)
from hofs_dask.io.fingerprint import (
    NO_IDENTITY,
    Identity,
    array_identity,
    digest,
    store_identity,
)
from hofs_dask.io.graphs import classic
from hofs_dask.io.guard import guarded


def names_column(target: Any) -> bool:
    """Return whether a target is the name of a column, variable or coordinate.

    Examples
    --------
    >>> names_column("y"), names_column([0, 1])
    (True, False)
    """
    return isinstance(target, str | int | float | tuple) and not isinstance(target, bool)


def as_column(target: Any, role: str = "target") -> Column | None:
    """Convert a target or another array with one value per sample to a `Column`; None to None.

    ``role`` is the name of the option, for error messages.

    Examples
    --------
    >>> column = as_column(["a", "b", None])
    >>> column.type, column.name
    ('nominal', 'target')
    """
    if target is None:
        return None
    target = as_series(target)
    if isinstance(target, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return pandas_column(pd.Series(target), role)
    if isinstance(target, xr.DataArray):
        opened, identity = open_grid(target)
        return Column(opened.data, target_type(target.dtype), target_name(target, role), identity)
    if is_dask_frame(target):
        if target.ndim != 1:
            raise TypeError(f"{role} is a dask DataFrame; give one of its columns")
        frame = target.to_frame(name=role)
        column = dask_column(frame, 0, *read_partitions(frame), role=role)
        return Column(column.array, column.type, target_name(target, role), column.identity)
    if isinstance(target, zarr.Array):
        return zarr_column(target, target.basename or role)
    if is_arrow_column(target):
        return arrow_column(target, role)
    refuse_sparse(f"the {role}" if role == "target" else role, target)
    if isinstance(target, list | tuple):
        target = np.asarray(target, dtype=object if _is_mixed(target) else None)
    target = classic(target)
    if not isinstance(target, np.ndarray | da.Array):
        raise TypeError(
            f"{role} is a {type(target).__name__}; give an array with one value per sample, or the "
            "name of a column or variable of the data"
        )
    kind = target_type(target.dtype)
    if isinstance(target, da.Array):
        lazy, identity = open_dask(target)
        return Column(lazy, kind, role, identity)
    target = without_mask(target)
    return Column(target, kind, role, array_identity(target))


def as_series(target: Any) -> Any:
    """Return the column of a one-column data frame, and anything else unchanged.

    Examples
    --------
    >>> import pandas as pd
    >>> as_series(pd.DataFrame({"y": [0, 1]})).name
    'y'
    """
    if isinstance(target, pd.DataFrame) and target.shape[1] == 1:
        return target.iloc[:, 0]
    return target


def check_ignored(label: Any) -> Any:
    """Return the option ``ignore_label`` as a plain value, or raise an error.

    Examples
    --------
    >>> check_ignored([0, 255])
    Traceback (most recent call last):
    ...
    TypeError: ignore_label is [0, 255]; give one class, such as 0, or where=~target.isin([0, 255])
    """
    plain = label.item() if isinstance(label, np.generic) else label
    if plain is None or (isinstance(plain, str | int | float) and plain == plain):
        return plain
    raise TypeError(
        f"ignore_label is {label!r}; give one class, such as 0, or where=~target.isin({label!r})"
    )


def target_name(target: Any, role: str = "target") -> str:
    """Return the name of a labelled target, or ``role`` if it has none.

    Examples
    --------
    >>> import pandas as pd
    >>> target_name(pd.Series([0], name="y")), target_name(pd.Series([0]))
    ('y', 'target')
    """
    return str(target.name) if target.name is not None else role


def fits(shape: tuple[int, ...], sample_shape: tuple[int, ...]) -> bool:
    """Return whether an array of this shape has one value per sample.

    Examples
    --------
    >>> fits((6,), (2, 3)), fits((2,), (2, 3))
    (True, False)
    """
    n_samples = int(np.prod(sample_shape))
    return shape in {sample_shape, (n_samples,), (n_samples, 1)}


def pandas_column(series: Any, role: str = "target") -> Column:
    """Return a pandas series as a column.

    Examples
    --------
    >>> import pandas as pd
    >>> pandas_column(pd.Series([0, 1], name="y")).type
    'integer'
    """
    name = target_name(series, role)
    run = Run((0,), *plan_column(f"{role} {name!r}", series.dtype))
    values = frame_block(series.to_frame(), run)[:, 0]
    identity = Identity(digest(["pandas", tokenize(series)]))
    return Column(values, target_type(series.dtype, run), name, identity)


def dask_column(
    frame: Any,
    position: int,
    partitions: Sequence[Any],
    lengths: Sequence[int],
    role: str = "target",
) -> Column:
    """Return the column at a position of a dask frame, as a `Column` read from its partitions.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> frame = dd.from_pandas(pd.DataFrame({"a": [1, 2, 3]}), npartitions=2)
    >>> dask_column(frame, 0, *read_partitions(frame)).array.compute().tolist()
    [1, 2, 3]
    """
    name, dtype = str(frame.columns[position]), frame.dtypes.iloc[position]
    run = Run((position,), *plan_column(f"{role} {name!r}", dtype))
    return Column(
        gather(partitions, lengths, run)[:, 0],
        target_type(dtype, run),
        name,
        NO_IDENTITY,
    )


def zarr_column(array: Any, name: str, place: str | None = None) -> Column:
    """Return an open Zarr array as a column.

    ``name`` is the name of the array in its group, and ``place`` is the path or URL of the group.

    Examples
    --------
    >>> import zarr
    >>> zarr_column(zarr.array([0, 1]), "y").type
    'integer'
    """
    array = guarded(array)
    identity = store_identity(array, name, place)
    return Column(open_zarr(array, identity), target_type(array.dtype), name, identity)


def _is_mixed(values: Sequence[Any]) -> bool:
    """Return whether a list has None or strings; numpy might convert its numbers to text."""
    return any(value is None or isinstance(value, str) for value in values)
