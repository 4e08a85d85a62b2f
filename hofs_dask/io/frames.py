"""Readers of pandas and Dask data frames."""

from __future__ import annotations

from typing import Any

import pandas as pd
from dask.base import tokenize

from hofs_dask.errors import unknown
from hofs_dask.io.columns import (
    Column,
    Features,
    frame_block,
    frame_runs,
    gather,
    is_dask_frame,
    read_partitions,
)
from hofs_dask.io.fingerprint import NO_IDENTITY, Identity, digest
from hofs_dask.io.targets import (
    as_column,
    as_series,
    dask_column,
    names_column,
    pandas_column,
    target_name,
)


def from_frame(data: Any, target: Any) -> tuple[Features, Column | None]:
    """Return the features of a pandas DataFrame, and the target as a `Column`.

    Examples
    --------
    >>> import pandas as pd
    >>> features, column = from_frame(pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}), "y")
    >>> features.names, column.name
    (['a'], 'y')
    """
    target = as_series(target)
    position = _find_column(data.columns, target)
    if position is not None:
        column: Column | None = pandas_column(data.iloc[:, position])
    else:
        column = as_column(target)
    if isinstance(target, pd.Series):
        _check_labels(target, data.index, "target")
        position = _own_column(data, target)
    if position is not None:
        data = data.iloc[:, [j for j in range(data.shape[1]) if j != position]]
    runs, bad = frame_runs(data.columns, data.dtypes)
    features = Features(
        names=[data.columns[j] for run in runs for j in run.columns],
        parts=[frame_block(data, run) for run in runs],
        nominal=[run.nominal for run in runs for _ in run.columns],
        identity=Identity(digest(["pandas", tokenize(data)])),
        sample_shape=(len(data),),
        index=data.index,
        bad=bad,
    )
    return features, column


def from_dask_frame(data: Any, target: Any) -> tuple[Features, Column | None]:
    """Return the features of a dask DataFrame, and the target as a `Column`.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> frame = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}), npartitions=2)
    >>> features, column = from_dask_frame(frame, "y")
    >>> features.names, column.name
    (['a'], 'y')
    """
    if is_dask_frame(target) and target.ndim == 1 and target.name in list(data.columns):
        # Equal expressions have equal names, so they are compared without reading data.
        own = names_column(target.name) and data[target.name]._name == target._name
        target = target.name if own else target
    position = _find_column(data.columns, target)
    partitions, lengths = read_partitions(data)
    columns = [j for j in range(len(data.columns)) if j != position]
    if position is not None:
        column: Column | None = dask_column(data, position, partitions, lengths)
    else:
        column = as_column(target)
    runs, bad = frame_runs(data.columns, data.dtypes, columns)
    features = Features(
        names=[data.columns[j] for run in runs for j in run.columns],
        parts=[gather(partitions, lengths, run) for run in runs],
        nominal=[run.nominal for run in runs for _ in run.columns],
        identity=NO_IDENTITY,
        sample_shape=(sum(lengths),),
        bad=bad,
    )
    return features, column


def refuse_index_name(data: Any, given: Any, role: str) -> None:
    """Raise a ValueError if a column is given by name, but this is the name of the index.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"a": [1.0]}, index=pd.Index([7], name="id"))
    >>> refuse_index_name(frame, "id", "groups")
    Traceback (most recent call last):
    ...
    ValueError: groups is 'id', which is the index of the data, not a column; give ...
    """
    lazy = is_dask_frame(data)
    if not (lazy or isinstance(data, pd.DataFrame)) or not names_column(given):
        return
    levels = [data.index.name] if lazy else list(data.index.names)
    if given in levels and given not in list(data.columns):
        call = "reset_index()" if lazy else f"reset_index({given!r})"
        raise ValueError(
            f"{role} is {given!r}, which is the index of the data, not a column; give data.{call}"
        )


def _find_column(columns: Any, target: Any) -> int | None:
    """Return the position of the column that the target names, or None if it is not a name."""
    if not names_column(target):
        return None
    places = [j for j, name in enumerate(columns) if name == target]
    if not places:
        raise unknown("column for the target", target, list(columns))
    if len(places) > 1:
        raise ValueError(f"two columns are called {target!r}; rename one of them")
    return places[0]


def check_index(given: Any, features: Features, role: str) -> None:
    """Raise a ValueError if the index of a series differs from that of the data.

    The index of a table is the positions of its rows, from 0 on. The index of a series of another
    length is not checked.

    Examples
    --------
    >>> features = Features((), (), (), NO_IDENTITY, (2,), in_table=True)
    >>> check_index(pd.Series([0, 1], index=[1, 0], name="y"), features, "target")
    Traceback (most recent call last):
    ...
    ValueError: the index of target 'y' is not 0 to 1, the positions of the rows of the table; ...
    """
    if features.index is not None:
        _check_labels(given, features.index, role)
    (n_samples, *_) = features.sample_shape
    if not features.in_table or len(given) != n_samples:
        return
    if not given.index.equals(pd.RangeIndex(n_samples)):
        raise ValueError(
            f"the index of {role} {target_name(given, role)!r} is not 0 to {n_samples - 1}, the "
            f"positions of the rows of the table; give {role}.to_numpy() if the values are in the "
            f"order of the rows, or {role}.sort_index() if its index has these positions in "
            "another order"
        )


def _check_labels(given: Any, index: Any, role: str) -> None:
    """Raise a ValueError if a series has as many values as a frame but another index."""
    if len(given) == len(index) and not given.index.equals(index):
        raise ValueError(
            f"{role} {target_name(given, role)!r} and the data have different indexes; give "
            f"{role}.loc[data.index] to match the values by label, or {role}.to_numpy() to match "
            "them by position"
        )


def _own_column(data: Any, target: Any) -> int | None:
    """Return the position of the column that the target was taken from, or None."""
    places = [j for j, name in enumerate(data.columns) if name == target.name]
    if len(places) != 1 or len(target) != len(data):
        return None
    column = data.iloc[:, places[0]]
    if column.dtype != target.dtype and column.isna().equals(target.isna()):
        # A target converted to another dtype, such as categorical, still has the same values.
        column, target = (each.dropna().astype(object) for each in (column, target))
    return places[0] if column.equals(target) else None
