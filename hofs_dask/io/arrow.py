"""Arrow columns: the numpy types that they are converted to, and the conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hofs_dask.io.columns import Column, Run, refuse_dtype, target_type
from hofs_dask.io.fingerprint import array_identity
from hofs_dask.io.kinds import TargetType

if TYPE_CHECKING:
    import pyarrow as pa


def import_arrow(what: str) -> Any:
    """Return the module pyarrow; if it is missing, raise an ImportError with the install command.

    Parameters
    ----------
    what
        The data that is read with pyarrow, for the error message.

    Examples
    --------
    >>> import_arrow("'x.parquet'").__name__
    'pyarrow'
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            f"{what} is read with pyarrow, which is not installed; type: "
            "pip install 'hofs-dask[tabular]'"
        ) from error
    return pa


def is_arrow_column(data: Any) -> bool:
    """Return whether an object is a single column (not a table) with Arrow's C interface.

    Examples
    --------
    >>> import pyarrow as pa
    >>> is_arrow_column(pa.array([1, 2])), is_arrow_column(pa.table({"a": [1]}))
    (True, False)
    """
    if hasattr(data, "columns") or hasattr(data, "schema"):
        return False
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def arrow_column(data: Any, role: str = "target") -> Column:
    """Convert a column of pyarrow, polars or another library with Arrow's interface to a `Column`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> arrow_column(pa.array(["a", "b", None])).type
    'nominal'
    """
    pa = import_arrow(f"{role}, a {type(data).__name__},")
    named = getattr(data, "name", None)
    name = named if isinstance(named, str) and named else role
    values = pa.chunked_array(data if hasattr(data, "__arrow_c_stream__") else [pa.array(data)])
    dtype, nominal = plan_arrow(f"{role} {name!r}", values.type, values.null_count > 0)
    array = arrow_values(values, dtype)
    return Column(array, arrow_target_type(values.type, nominal), name, array_identity(array))


def plan_arrow(what: str, kind: pa.DataType, nullable: bool) -> tuple[np.dtype, bool]:
    """Return the numpy dtype that an Arrow column is converted to, and whether it is nominal.

    ``nullable`` says whether values may be missing; if so, integers are converted to floats.

    Examples
    --------
    >>> import pyarrow as pa
    >>> plan_arrow("feature 'x'", pa.int16(), False), plan_arrow("feature 'x'", pa.int16(), True)
    ((dtype('int16'), False), (dtype('float64'), False))
    >>> plan_arrow("feature 'x'", pa.date32(), False)
    Traceback (most recent call last):
    ...
    TypeError: feature 'x' is date32[day]: dates; convert it to numbers, ...
    """
    import pyarrow.types as of

    if of.is_dictionary(kind):
        numeric = of.is_integer(kind.value_type) or of.is_floating(kind.value_type)
        plan_arrow(what, kind.value_type, nullable)  # raises for unsupported categories
        return np.dtype(np.float64 if numeric else object), True
    if of.is_boolean(kind):
        return np.dtype(object if nullable else bool), True
    if of.is_integer(kind):
        return np.dtype(np.float64 if nullable else kind.to_pandas_dtype()), False
    if of.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype()), False
    if of.is_decimal(kind) or of.is_null(kind):
        return np.dtype(np.float64), False
    if of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind):
        return np.dtype(object), True
    if of.is_duration(kind):
        refuse_dtype(what, np.dtype("m8[s]"), str(kind))
    if of.is_timestamp(kind) or of.is_date(kind):
        refuse_dtype(what, np.dtype("M8[s]"), str(kind))
    if of.is_nested(kind):
        raise TypeError(f"{what} is {kind}: give each of its elements as a separate column")
    raise TypeError(f"{what} is {kind}: convert it to numbers or strings")


def arrow_target_type(kind: pa.DataType, nominal: bool) -> TargetType:
    """Return the target type that corresponds to an Arrow type.

    Decimals with no digits after the point count as integers.

    Examples
    --------
    >>> import pyarrow as pa
    >>> arrow_target_type(pa.int64(), False), arrow_target_type(pa.decimal128(9, 2), False)
    ('integer', 'number')
    """
    import pyarrow.types as of

    if nominal:
        return "nominal"
    whole = of.is_integer(kind) or (of.is_decimal(kind) and kind.scale <= 0)
    return target_type(np.dtype(np.int64 if whole else np.float64))


def arrow_block(table: pa.Table, run: Run) -> np.ndarray:
    """Return a run of columns of an Arrow table as an array (sample, feature).

    Examples
    --------
    >>> import pyarrow as pa
    >>> arrow_block(pa.table({"a": [1, None]}), Run((0,), np.dtype(float), False)).tolist()
    [[1.0], [nan]]
    """
    block = np.empty((table.num_rows, len(run.columns)), run.dtype, order="F")
    for j, column in enumerate(run.columns):
        block[:, j] = arrow_values(table.column(column), run.dtype)
    return block


def arrow_values(values: pa.ChunkedArray, dtype: np.dtype) -> np.ndarray:
    """Return an Arrow column as an array of the dtype that `plan_arrow` returned for it.

    Missing values become NaN, or None in an array of objects. Equal strings share one object.

    Examples
    --------
    >>> import pyarrow as pa
    >>> arrow_values(pa.chunked_array([["a", None, "a"]]), np.dtype(object)).tolist()
    ['a', None, 'a']
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as of

    if values.null_count and dtype.kind in "iub":
        raise ValueError(
            f"a column of type {values.type} has missing values, but the metadata of its file says "
            "that it has none; write the file again"
        )
    if of.is_dictionary(values.type):
        return np.concatenate(
            [np.empty(0, dtype), *(_decode(each, dtype) for each in values.chunks)]
        )
    if dtype.kind != "O":
        if of.is_decimal(values.type) or of.is_null(values.type):
            values = pc.cast(values, pa.float64())
        elif dtype.kind == "f" and of.is_integer(values.type):
            values = pc.cast(values, pa.float64(), safe=False)
        found: np.ndarray = values.to_numpy(zero_copy_only=False)
        return found
    if of.is_string(values.type) or of.is_string_view(values.type):
        values = pc.cast(values, pa.large_string())  # a whole block may exceed 2 GB of text
    return _decode(values.combine_chunks().dictionary_encode(), dtype)


def _decode(coded: pa.DictionaryArray, dtype: np.dtype) -> np.ndarray:
    """Return the values of a dictionary array; categories that are not numbers become text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = None if dtype.kind == "O" else np.nan
    labels = [
        missing if each is None else each if dtype.kind != "O" else _text(each)
        for each in coded.dictionary.to_pylist()
    ]
    table = np.array([*labels, missing], dtype=dtype)
    codes = pc.fill_null(pc.cast(coded.indices, pa.int64()), len(labels))
    return np.asarray(table[codes.to_numpy(zero_copy_only=False)])


def _text(category: Any) -> Any:
    return category if isinstance(category, str | bool) else str(category)
