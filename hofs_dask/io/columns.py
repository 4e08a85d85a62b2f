"""Columns: their types, and the conversion of data frame columns to arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask.array.core as da
import numpy as np
import pandas as pd
from dask.delayed import delayed

from hofs_dask.io.axes import Axis
from hofs_dask.io.fingerprint import Identity
from hofs_dask.io.kinds import Name, TargetType
from hofs_dask.scheduling.compute import compute


@dataclass(frozen=True)
class BadColumn:
    """A column of a data frame or table whose type cannot be used.

    Attributes
    ----------
    position : int
        The position of the column, not counting the target, groups, weights and masks.
    name : str or number
        The name of the column.
    text : str
        The error message.
    """

    position: int
    name: Name
    text: str


@dataclass(frozen=True)
class Features:
    """The features of an input, before they are checked.

    Attributes
    ----------
    names : sequence
        Feature names, in order.
    parts : sequence of numpy or dask arrays (sample, feature)
        The data, split along the features. Each part has one dtype; all have the same length.
    nominal : sequence of bool (feature)
        Whether the values of a feature are categories.
    identity : Identity
        Fingerprint and origins of the content, see `io.fingerprint`.
    sample_shape : tuple of int
        Sizes of the dims that are stacked into samples: one for a table, several for a cube. The
        rows of the parts are in C order over these dims.
    grid : xarray.DataArray or None
        For xarray data, an array with only the sample dims, in the order of `sample_shape`, and
        with their coordinates and chunks.
    other_order : tuple
        For a Dataset, the sample dims of the first variable that has them in another order than
        `grid`. Empty if there is none.
    index : pandas.Index or None
        The index of a pandas data frame.
    in_table : bool
        Whether the data is a table, whose rows have positions and no labels.
    feature_dims : tuple of str
        For xarray data, the dims along which the features are.
    history : Column or None
        If there are lags, a column of booleans: whether all lagged values of a sample exist.
    notes : tuple of str
        Messages for the user that say which variables are not used as features.
    axis : Axis or None
        For xarray data, the description of the features: dim, units and further coordinates.
    bad : tuple of BadColumn
        Columns whose types cannot be used. They are not in `names`.
    columns : sequence
        The names of all columns, including the bad ones, in the order of the data. Set by
        `io.unusable.usable`.
    """

    names: Sequence[Hashable]
    parts: Sequence[Any]
    nominal: Sequence[bool]
    identity: Identity
    sample_shape: tuple[int, ...]
    grid: Any = None
    other_order: tuple[Hashable, ...] = ()
    index: Any = None
    in_table: bool = False
    feature_dims: tuple[str, ...] = ()
    history: Column | None = None
    notes: tuple[str, ...] = ()
    axis: Axis | None = None
    bad: tuple[BadColumn, ...] = ()
    columns: Sequence[Name] = ()


@dataclass(frozen=True)
class Column:
    """A target, groups, weights or a mask: one value per sample, before the values are checked.

    Attributes
    ----------
    array : numpy or dask array
        One value per sample: one-dimensional, or of the sample shape of the features.
    type : {"nominal", "integer", "number"}
        The type of the values, inferred from their dtype.
    name : str
        The name of the column. If it has none, the name of the option, such as ``"target"``.
    identity : Identity
        Fingerprint and origins of the content.
    """

    array: Any
    type: TargetType
    name: str
    identity: Identity


# Names and types


def plain(name: Hashable) -> Name:
    """Return a name as a string, a number or a tuple of these, which JSON can store.

    Examples
    --------
    >>> import numpy as np
    >>> plain(np.int64(3)), plain(("a", 1)), plain(None)
    (3, ('a', 1), 'None')
    """
    if type(name) is str:  # names are many
        return name
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple):
        return tuple(plain(part) for part in name)
    return name if isinstance(name, str | int | float) else str(name)


def feature_label(name: Hashable) -> str:
    """Return the text that names a feature in messages.

    Examples
    --------
    >>> feature_label("height")
    "feature 'height'"
    """
    return f"feature {plain(name)!r}"


def is_nominal(dtype: np.dtype) -> bool:
    """Return whether values of a dtype are categories.

    Examples
    --------
    >>> import numpy as np
    >>> is_nominal(np.dtype(bool)), is_nominal(np.dtype(int))
    (True, False)
    """
    return dtype.kind in "bOUST"


def target_type(dtype: Any, run: Run | None = None) -> TargetType:
    """Return the type of a target, from its dtype and, for a column of a data frame, its run.

    Examples
    --------
    >>> import numpy as np
    >>> target_type(np.dtype(int)), target_type(np.dtype("U3"))
    ('integer', 'nominal')
    """
    if run is not None and run.nominal:
        return "nominal"
    kind = getattr(dtype, "kind", "O")
    if run is not None and kind == "O":  # decimals, which become floats
        kind = run.dtype.kind
    if kind in "bOUST":
        return "nominal"
    return "integer" if kind in "iu" else "number"


def refuse_dtype(what: str, dtype: Any, shown: str | None = None) -> None:
    """Raise a TypeError for an unsupported dtype; the message suggests a conversion.

    ``shown`` is the name of the type in the message; by default, this is the name of the dtype.

    Examples
    --------
    >>> import numpy as np
    >>> refuse_dtype("feature 'x'", np.dtype(complex))
    Traceback (most recent call last):
    ...
    TypeError: feature 'x' is complex128: complex numbers; give np.abs(x), or x.real ...
    """
    kind = getattr(dtype, "kind", "O")
    if kind in "biufOUST":
        return
    advice = {
        "M": "dates; convert it to numbers, for example "
        "(x - x.min()) / np.timedelta64(1, 's'), or to components such as the month",
        "m": "durations; convert it to numbers, for example x / np.timedelta64(1, 's')",
        "c": "complex numbers; give np.abs(x), or x.real and x.imag as two features",
    }
    text = advice.get(kind, "convert it to numbers or strings")
    raise TypeError(f"{what} is {shown or dtype}: {text}")


def refuse_sparse(what: str, array: Any) -> None:
    """Raise a TypeError for a sparse array; the message suggests a conversion.

    Examples
    --------
    >>> import scipy.sparse
    >>> refuse_sparse("the data", scipy.sparse.eye_array(2, format="csr"))
    Traceback (most recent call last):
    ...
    TypeError: the data is a sparse csr_array; convert it with .toarray()
    """
    module = type(array).__module__.split(".")[0]
    if module == "sparse":
        raise TypeError(f"{what} is sparse; convert it with .todense()")
    if module == "scipy":
        raise TypeError(f"{what} is a sparse {type(array).__name__}; convert it with .toarray()")


# The columns of data frames


@dataclass(frozen=True)
class Run:
    """Adjacent columns of a data frame (their positions) that are converted to one array."""

    columns: tuple[int, ...]
    dtype: np.dtype
    nominal: bool


def plan_runs(
    names: Sequence[Hashable], plan: Callable[[int, str], tuple[np.dtype, bool]]
) -> tuple[list[Run], tuple[BadColumn, ...]]:
    """Return the columns that can be used, grouped into runs, and the columns that cannot be used.

    ``plan(position, label)`` returns the numpy dtype of a column and whether it is nominal, or
    raises a TypeError if the column cannot be used. ``label`` names the column in this error.

    Examples
    --------
    >>> plan_runs(["a", "b"], lambda j, label: (np.dtype(float), False))
    ([Run(columns=(0, 1), dtype=dtype('float64'), nominal=False)], ())
    """
    planned, bad = [], []
    for j, name in enumerate(names):
        try:
            planned.append((j, *plan(j, feature_label(name))))
        except TypeError as error:
            bad.append(BadColumn(j, plain(name), str(error)))
    runs = [
        Run(tuple(planned[at][0] for at in run), planned[run[0]][1], planned[run[0]][2])
        for run in equal_neighbours([each[1:] for each in planned])
    ]
    return runs, tuple(bad)


def frame_runs(
    columns: Any, dtypes: Any, chosen: Sequence[int] | None = None
) -> tuple[list[Run], tuple[BadColumn, ...]]:
    """Return the result of `plan_runs` for all columns of a data frame, or for chosen positions.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"a": [1.0], "b": [2.0], "c": [True]})
    >>> [run.columns for run in frame_runs(frame.columns, frame.dtypes)[0]]
    [(0, 1), (2,)]
    """
    wanted = range(len(columns)) if chosen is None else chosen
    runs, bad = plan_runs(
        [columns[j] for j in wanted], lambda at, label: plan_column(label, dtypes.iloc[wanted[at]])
    )
    return [replace(run, columns=tuple(wanted[at] for at in run.columns)) for run in runs], bad


def equal_neighbours(keys: Sequence[object]) -> list[list[int]]:
    """Return the positions of the keys, grouped into runs of equal adjacent keys.

    A run becomes one array, so a frame of one dtype is not split.

    Examples
    --------
    >>> equal_neighbours(["f", "f", "i", "f"])
    [[0, 1], [2], [3]]
    """
    runs: list[list[int]] = []
    for j, key in enumerate(keys):
        if runs and keys[runs[-1][0]] == key:
            runs[-1].append(j)
        else:
            runs.append([j])
    return runs


def plan_column(what: str, dtype: Any) -> tuple[np.dtype, bool]:
    """Return the numpy dtype that a frame column is converted to, and whether it is nominal.

    Examples
    --------
    >>> import pandas as pd
    >>> plan_column("feature 'x'", pd.Series([1, None], dtype="Int64").dtype)
    (dtype('float64'), False)
    """
    if isinstance(dtype, pd.SparseDtype):
        raise TypeError(f"{what} is sparse; convert it with .sparse.to_dense()")
    if isinstance(dtype, pd.CategoricalDtype):
        categories = dtype.categories
        numeric = categories is not None and categories.dtype.kind in "iuf"
        return (np.dtype(np.float64) if numeric else np.dtype(object)), True
    if isinstance(dtype, np.dtype):
        refuse_dtype(what, dtype)
        return dtype, is_nominal(dtype)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        return np.dtype(object), True
    if pd.api.types.is_numeric_dtype(dtype) and dtype.kind in "iuf":
        return np.dtype(np.float32 if dtype.itemsize == 4 and dtype.kind == "f" else float), False
    if isinstance(dtype, pd.ArrowDtype) and str(dtype).startswith("decimal"):
        return np.dtype(float), False
    refuse_dtype(what, dtype)
    raise TypeError(
        f"{what} is {dtype}: convert it to numbers with .astype(float) or to strings with "
        ".astype(str)"
    )


def frame_block(frame: Any, run: Run) -> np.ndarray:
    """Return a run of columns of a pandas frame as an array.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"a": pd.Series([1, None], dtype="Int64")})
    >>> frame_block(frame, Run((0,), np.dtype(float), False)).tolist()
    [[1.0], [nan]]
    """
    chosen = frame.iloc[:, list(run.columns)]
    if all(isinstance(dtype, np.dtype) for dtype in chosen.dtypes):
        return np.asarray(chosen.to_numpy(dtype=run.dtype))
    block = np.empty(chosen.shape, run.dtype, order="F")
    for j in range(chosen.shape[1]):
        block[:, j] = _series_values(chosen.iloc[:, j], run.dtype)
    return block


def is_dask_frame(data: Any) -> bool:
    """Return whether data is a dask DataFrame or Series, without importing dask.dataframe.

    Examples
    --------
    >>> import pandas as pd
    >>> is_dask_frame(pd.DataFrame())
    False
    """
    return any(base.__module__.startswith("dask.dataframe") for base in type(data).__mro__) and (
        hasattr(data, "to_delayed")
    )


def read_partitions(frame: Any) -> tuple[list[Any], list[int]]:
    """Return the delayed partitions of a dask frame and their lengths; this computes the lengths.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> read_partitions(dd.from_pandas(pd.DataFrame({"a": [1, 2, 3]}), npartitions=2))[1]
    [2, 1]
    """
    (lengths,) = compute(frame.map_partitions(len, meta=("length", int)))
    return frame.to_delayed(), lengths.tolist()


def gather(partitions: Sequence[Any], lengths: Sequence[int], run: Run) -> Any:
    """Return a run of columns of a dask frame as a dask array with one block per partition.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> run = Run((0,), np.dtype(float), False)
    >>> gather([pd.DataFrame({"a": [1.0, 2.0]})], [2], run).compute().tolist()
    [[1.0], [2.0]]
    """
    blocks = [
        da.from_delayed(
            delayed(frame_block)(partition, run),
            shape=(length, len(run.columns)),
            dtype=run.dtype,
        )
        for partition, length in zip(partitions, lengths, strict=True)
    ]
    return da.concatenate(blocks)


def _series_values(series: Any, dtype: np.dtype) -> np.ndarray:
    if hasattr(series.dtype, "categories") and dtype.kind == "O":
        # Categories such as intervals become text. Missing values have the code -1, which indexes
        # the None at the end.
        labels = [
            each if isinstance(each, str | bool) else str(each) for each in series.cat.categories
        ]
        return np.asarray(np.array([*labels, None], dtype=object)[series.cat.codes.to_numpy()])
    missing = None if dtype.kind == "O" else np.nan
    return np.asarray(series.to_numpy(dtype=dtype, na_value=missing))
