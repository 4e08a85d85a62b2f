"""Columns: what their types say about them, and the arrays that those of a frame become."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
from dask.delayed import delayed

from hofs_dask.io.fingerprint import Identity
from hofs_dask.io.kinds import TargetType
from hofs_dask.scheduling.compute import compute

Name = str | int | float


@dataclass(frozen=True)
class Features:
    """The features of an input, before they are checked.

    Attributes
    ----------
    names : sequence
        Of the features, in order.
    parts : sequence of numpy or dask arrays (sample, feature)
        Side by side they are the data; each has one dtype, and all have as many rows.
    nominal : sequence of bool (feature)
        Whether the values of a feature are categories.
    identity : Identity
        What the content is known by, see `io.fingerprint`.
    sample_shape : tuple of int
        The sizes of the dims that samples are made of: one for a table, several for a cube. Rows
        of the parts are in their order, the last dim running fastest.
    """

    names: Sequence[Hashable]
    parts: Sequence[Any]
    nominal: Sequence[bool]
    identity: Identity
    sample_shape: tuple[int, ...]


@dataclass(frozen=True)
class Column:
    """A target, before it is checked.

    Attributes
    ----------
    array : numpy or dask array
        One value a sample: of one dim, or of the sample shape of the features.
    type : {"nominal", "integer", "number"}
        What its type says about it.
    name : str
        ``"target"`` where it has none.
    identity : Identity
        What the content is known by.
    """

    array: Any
    type: TargetType
    name: str
    identity: Identity


# Names and types


def plain(name: Hashable) -> Name:
    """Return a name as JSON can keep it.

    Examples
    --------
    >>> import numpy as np
    >>> plain(np.int64(3)), plain(("a", 1))
    (3, "('a', 1)")
    """
    if isinstance(name, np.generic):
        name = name.item()
    return name if isinstance(name, str | int | float) else str(name)


def feature_label(name: Hashable) -> str:
    """Return what a message calls a feature.

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
    """Return what the dtype of a target says about it, or the run that it is in.

    Examples
    --------
    >>> import numpy as np
    >>> target_type(np.dtype(int)), target_type(np.dtype("U3"))
    ('integer', 'nominal')
    """
    if run is not None and run.nominal:
        return "nominal"
    kind = getattr(dtype, "kind", "O")
    if kind in "bOUST":
        return "nominal"
    return "integer" if kind in "iu" else "number"


def refuse_dtype(what: str, dtype: Any) -> None:
    """Raise a TypeError for a dtype that has no codes, saying what to convert it to.

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
        "(x - x.min()) / np.timedelta64(1, 's'), or to parts such as its month",
        "m": "durations; convert it to numbers, for example x / np.timedelta64(1, 's')",
        "c": "complex numbers; give np.abs(x), or x.real and x.imag as two features",
    }
    raise TypeError(f"{what} is {dtype}: " + advice.get(kind, "convert it to numbers or strings"))


def refuse_sparse(what: str, array: Any) -> None:
    """Raise a TypeError for a sparse array, saying how to convert it.

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


def refuse_feature_dim(feature_dim: Hashable | None, what: str) -> None:
    """Raise a ValueError where ``feature_dim`` was given for data without dims.

    Examples
    --------
    >>> refuse_feature_dim("band", "an array")
    Traceback (most recent call last):
    ...
    ValueError: feature_dim is 'band', which names a dim of xarray data ...
    """
    if feature_dim is not None:
        raise ValueError(
            f"feature_dim is {feature_dim!r}, which names a dim of xarray data or of a Zarr group "
            f"that xarray wrote; the columns of {what} are its features: leave feature_dim out"
        )


# The columns of data frames


@dataclass(frozen=True)
class Run:
    """Neighbouring columns of a frame that become one array of one dtype."""

    columns: tuple[int, ...]
    dtype: np.dtype
    nominal: bool


def frame_runs(columns: Any, dtypes: Any, chosen: Sequence[int] | None = None) -> list[Run]:
    """Return the runs of the columns of a frame, or of those at the chosen positions.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"a": [1.0], "b": [2.0], "c": [True]})
    >>> [run.columns for run in frame_runs(frame.columns, frame.dtypes)]
    [(0, 1), (2,)]
    """
    wanted = range(len(columns)) if chosen is None else chosen
    planned = [(j, *plan_column(feature_label(columns[j]), dtypes.iloc[j])) for j in wanted]
    return [
        Run(tuple(planned[at][0] for at in run), planned[run[0]][1], planned[run[0]][2])
        for run in equal_neighbours([plan[1:] for plan in planned])
    ]


def equal_neighbours(keys: Sequence[object]) -> list[list[int]]:
    """Return the positions of neighbours with equal keys, in groups.

    A group is one array, so a frame of one dtype is not taken apart.

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
    """Return the numpy dtype that a column of a frame gets and whether it is nominal.

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
    refuse_dtype(what, dtype)
    raise TypeError(
        f"{what} is {dtype}: convert it to numbers with .astype(float) or to strings with "
        ".astype(str)"
    )


def frame_block(frame: Any, run: Run) -> np.ndarray:
    """Return the columns of a run of a pandas frame as an array.

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
    """Return whether data is a data frame or a series of Dask, which need not be installed.

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
    """Return the delayed partitions of a dask frame and their lengths, for which it is read.

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
    """Return the columns of a run of a dask frame as a dask array, one block a partition.

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
        # Intervals and the like become text; codes of -1 take the None at the end.
        labels = [
            each if isinstance(each, str | bool) else str(each) for each in series.cat.categories
        ]
        return np.asarray(np.array([*labels, None], dtype=object)[series.cat.codes.to_numpy()])
    missing = None if dtype.kind == "O" else np.nan
    return np.asarray(series.to_numpy(dtype=dtype, na_value=missing))
