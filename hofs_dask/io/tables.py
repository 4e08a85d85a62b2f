"""Tabular data: Parquet and CSV files, Arrow data, and objects with Arrow's C interface."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from hofs_dask.io.arrow import import_arrow, is_arrow_column
from hofs_dask.io.blocks import BLOCK_BYTES
from hofs_dask.io.columns import Column, Features
from hofs_dask.io.fingerprint import NO_IDENTITY, Identity
from hofs_dask.io.frames import check_index
from hofs_dask.io.listings import Origin
from hofs_dask.io.paths import as_path
from hofs_dask.io.places import Place
from hofs_dask.io.table import Table, TableColumn, check_unique
from hofs_dask.io.table_files import TEXT, find_files, is_table_path
from hofs_dask.io.targets import as_column, as_series, names_column
from hofs_dask.io.temporary import HeldFolder

if TYPE_CHECKING:
    import pyarrow as pa


def is_table(data: Any) -> bool:
    """Return whether `open_table` can open the data. No library is imported.

    Examples
    --------
    >>> import pyarrow as pa
    >>> is_table(pa.table({"a": [1]})), is_table("data/*.parquet"), is_table("data.zarr")
    (True, True, False)
    """
    if isinstance(data, Place):
        return data.store is None and is_table_path(data.path, data.options)
    if isinstance(data, str | os.PathLike):
        return is_table_path(as_path(data))
    if type(data).__module__.split(".")[0] in ("pandas", "dask", "numpy", "xarray"):
        return False  # these have readers of their own
    return hasattr(data, "__arrow_c_stream__") or _is_arrow_dataset(data) or _is_lazy(data)


def open_table(data: Any) -> Table:
    """Return Parquet or CSV files, Arrow data or an object with Arrow's interface as a `Table`.

    Data that is neither in memory nor in files with known rows, such as a lazy frame, is first
    written to a temporary Parquet file, block by block.

    Examples
    --------
    >>> import pyarrow as pa
    >>> open_table(pa.table({"a": [1.5, 2.5]})).rows
    (2,)
    """
    if isinstance(data, str | os.PathLike):
        return _open_path(as_path(data))
    pa = import_arrow(f"data, a {type(data).__name__},")
    if _is_lazy(data):
        return _written(data.sink_parquet)
    is_lazy = _is_arrow_dataset(data) or isinstance(data, pa.RecordBatchReader)
    table = data if is_lazy else pa.table(data)
    check_unique(table.schema.names, f"the {type(data).__name__}")
    if _is_arrow_dataset(data):
        return _open_dataset(data)
    if is_lazy:
        return _written(lambda path: _write_batches(data, path))
    return _in_memory(table)


def from_table(data: Table, target: Any) -> tuple[Features, Column | None]:
    """Return the features of a table, and the target as a `Column`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> features, column = from_table(open_table(pa.table({"a": [1.5, 2.5], "y": [0, 1]})), "y")
    >>> features.names, column.name
    (['a'], 'y')
    """
    target = as_series(target)
    own = target if names_column(target) else _own_column(data, target)
    if own is None:
        features = data.features()
        if isinstance(target, pd.Series):
            check_index(target, features, "target")
        return features, as_column(target)
    column = data.column(own)
    return data.without(own).features(), column


def _open_path(path: str) -> Table:
    import_arrow(repr(path))
    files = find_files(path)
    if files.suffix in TEXT:
        from hofs_dask.io.text_tables import open_text

        return open_text(files)
    from hofs_dask.io.parquet import open_parquet

    return open_parquet(files)


def _open_dataset(data: Any) -> Table:
    import pyarrow.dataset as ds

    from hofs_dask.io.parquet import from_parquet_dataset

    is_parquet = isinstance(data, ds.FileSystemDataset) and isinstance(
        data.format, ds.ParquetFileFormat
    )
    if is_parquet and not _has_filter(data):
        return from_parquet_dataset(data)
    return _written(lambda path: _write_batches(data.scanner().to_reader(), path))


def _has_filter(dataset: Any) -> bool:
    try:
        dataset.get_fragments()
    except ValueError:  # pyarrow does not expose the filter
        return True
    return False


def _in_memory(table: pa.Table) -> Table:
    columns = tuple(
        TableColumn(field.name, field.type, column.null_count > 0)
        for field, column in zip(table.schema, table.columns, strict=True)
    )
    return Table(
        columns=columns,
        rows=(table.num_rows,),
        pieces=(table,),
        read=_select,
        read_together=(),
        in_memory=True,
        identity=NO_IDENTITY,
        token=uuid.uuid4().hex,
    )


def _select(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.select(list(names))


def _own_column(data: Table, target: Any) -> str | None:
    """Return the name of the column that an Arrow target was taken from, or None."""
    if not data.in_memory or not is_arrow_column(target):
        return None
    import pyarrow as pa

    values = pa.chunked_array(target if hasattr(target, "__arrow_c_stream__") else [target])
    named = getattr(target, "name", None)
    for column in data.columns:
        if column.type == values.type and (not named or named == column.name):
            (table,) = data.pieces
            if table.column(column.name).equals(values):
                return column.name
    return None


def _is_lazy(data: Any) -> bool:
    return type(data).__module__.startswith("polars.") and hasattr(data, "sink_parquet")


def _is_arrow_dataset(data: Any) -> bool:
    return any(base.__module__ == "pyarrow._dataset" for base in type(data).__mro__)


def _written(write: Callable[[str], object]) -> Table:
    """Call ``write`` with the path of a temporary Parquet file, and return the file as a table."""
    from hofs_dask.io.parquet import open_parquet

    folder = HeldFolder()
    path = str(folder.path / "data.parquet")
    write(path)
    files = find_files(path)
    origin = Origin(path, stamp=files.identity.origins[0].stamp, files=(path,), folder=folder)
    return open_parquet(replace(files, identity=Identity(None, (origin,))))


def _write_batches(batches: pa.RecordBatchReader, path: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = max(1, BLOCK_BYTES // (8 * max(1, len(batches.schema))))
    held: list[pa.RecordBatch] = []
    with pq.ParquetWriter(path, batches.schema) as writer:

        def write() -> None:
            writer.write_table(pa.Table.from_batches(held, batches.schema), row_group_size=rows)
            held.clear()

        for batch in batches:
            held.append(batch)
            if sum(len(each) for each in held) >= rows:
                write()
        write()
