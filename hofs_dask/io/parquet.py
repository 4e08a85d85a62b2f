"""Reader of Parquet files; each task reads some row groups."""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask.delayed import delayed

from hofs_dask.errors import some_of
from hofs_dask.io.arrow import plan_arrow
from hofs_dask.io.blocks import BLOCK_BYTES
from hofs_dask.io.fingerprint import NO_IDENTITY, Identity
from hofs_dask.io.listings import Origin, files_stamp
from hofs_dask.io.partitions import check_partitions, partition_schema, partition_values
from hofs_dask.io.table import Table, TableColumn, check_unique
from hofs_dask.io.table_files import TableFiles
from hofs_dask.scheduling.compute import compute

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

#: Assumed bytes of a value of an unsupported type, such as a list, to choose the size of blocks.
_UNKNOWN_BYTES = 8


@dataclass(frozen=True)
class Footer:
    """The metadata of a Parquet file.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns of the file and their types, without the columns that folder names such as
        ``year=2020`` define.
    rows : tuple of int
        Number of rows of each row group.
    missing : frozenset of str
        Names of the columns that have missing values or may have them, except float columns.
    categorical : frozenset of str
        Names of the columns that were categorical in pandas.
    """

    schema: pa.Schema
    rows: tuple[int, ...]
    missing: frozenset[str]
    categorical: frozenset[str]


def open_parquet(files: TableFiles) -> Table:
    """Return Parquet files as a table. Only their metadata is read."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem

    from hofs_dask.io.paths import is_url

    # pyarrow reads local files itself, which is faster than through fsspec
    system = PyFileSystem(FSSpecHandler(files.system)) if is_url(files.path) else LocalFileSystem()
    values = partition_values(files.paths, files.root)
    try:
        inside = ds.ParquetFileFormat().inspect(files.paths[0], system).names
        check_unique(inside, repr(files.paths[0]))
        # a column that is also in the files has the type that it has there
        folders = [field for field in partition_schema(values) if field.name not in inside]
        dataset = ds.dataset(
            list(files.paths),
            format="parquet",
            filesystem=system,
            partitioning=ds.partitioning(pa.schema(folders), flavor="hive"),
            partition_base_dir=files.root or None,
        )
    except pa.ArrowInvalid as error:
        raise _damaged(files.path, error) from error
    return _from_fragments(dataset, values, files.identity, files.path)


def from_parquet_dataset(dataset: ds.FileSystemDataset) -> Table:
    """Return a pyarrow dataset of Parquet files, which must have no filter, as a `Table`."""
    from pyarrow.dataset import get_partition_keys
    from pyarrow.fs import LocalFileSystem

    identity = NO_IDENTITY
    if isinstance(dataset.filesystem, LocalFileSystem) and dataset.files:
        places = tuple(dataset.files)
        stamp = files_stamp(places)
        origin = Origin(places[0], files=places, stamp=stamp)
        identity = Identity(stamp, (origin,))
    values = [get_partition_keys(each.partition_expression) for each in dataset.get_fragments()]
    return _from_fragments(dataset, values, identity, "the dataset")


def _from_fragments(
    dataset: ds.FileSystemDataset,
    folders: Sequence[Mapping[str, Any]],
    identity: Identity,
    what: str,
) -> Table:
    """Return the files of a dataset, whose folders define the values ``folders``, as a table."""
    import pyarrow as pa

    fragments = list(dataset.get_fragments())
    tasks = [
        delayed(read_footer)(fragment, values)
        for fragment, values in zip(fragments, folders, strict=True)
    ]
    try:
        (footers,) = compute(tasks)
    except pa.ArrowInvalid as error:
        raise _damaged(what, error) from error
    if not any(any(footer.rows) for footer in footers):
        raise ValueError("the data has 0 rows; give a table with rows")
    schema = _schema(dataset.schema, footers, dataset.files, what)
    index, _ = _pandas_columns(schema)
    categorical = set().union(*(footer.categorical for footer in footers))
    missing = set().union(*(footer.missing for footer in footers))
    for values, footer in zip(folders, footers, strict=True):
        known = {name for name, value in values.items() if value is not None}
        missing |= {*schema.names} - {*footer.schema.names} - known
    columns = tuple(
        _column(field, missing, categorical) for field in schema if field.name not in index
    )
    pieces = list(_pieces(fragments, footers, _row_bytes(columns)))
    return Table(
        columns=columns,
        rows=tuple(rows for rows, _ in pieces),
        pieces=tuple(piece for _, piece in pieces),
        read=functools.partial(read_row_groups, schema),
        read_together=(),
        in_memory=False,
        identity=identity,
        token=uuid.uuid4().hex,
    )


def _damaged(what: str, error: Exception) -> ValueError:
    return ValueError(f"{what!r} has a damaged Parquet file; write it again or remove it ({error})")


def read_footer(fragment: ds.ParquetFileFragment, folders: Mapping[str, Any]) -> Footer:
    """Return the metadata of a Parquet file. There may be thousands of files, so this is a task.

    ``folders`` has the values that the folders of the file define, for a check of columns that are
    also in the file.
    """
    import pyarrow.types as of

    metadata = fragment.metadata
    schema = fragment.physical_schema
    check_unique(schema.names, repr(fragment.path))
    twice = [name for name in folders if name in schema.names]
    if twice:
        # a fragment of a dataset returns the values of the folders
        file = fragment.format.make_fragment(fragment.path, fragment.filesystem)
        check_partitions(fragment.path, file.to_table(columns=twice), folders)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    leaves = {
        metadata.schema.column(j).path: j
        for j in range(metadata.num_columns)
        if metadata.schema.column(j).max_repetition_level == 0
    }
    missing = set()
    for field in schema:
        if of.is_floating(field.type) or not field.nullable:
            continue  # a missing float becomes NaN
        leaf = leaves.get(field.name)
        if leaf is None or any(_nulls(group.column(leaf)) for group in groups):
            missing.add(field.name)
    rows = tuple(group.num_rows for group in groups)
    return Footer(schema, rows, frozenset(missing), frozenset(_pandas_columns(schema)[1]))


def _nulls(column: Any) -> bool:
    """Return whether a column of a row group has missing values or may have them."""
    found = column.statistics if column.is_stats_set else None
    return found is None or not found.has_null_count or found.null_count > 0


def _schema(
    schema: pa.Schema, footers: Sequence[Footer], files: Sequence[str], what: str
) -> pa.Schema:
    """Return the schema of the dataset, with types that can represent the values of all files."""
    import pyarrow as pa

    first = footers[0].schema
    if all(footer.schema.equals(first) for footer in footers):
        return schema
    for footer, file in zip(footers, files, strict=True):
        lacking = sorted({*first.names} ^ {*footer.schema.names})
        if lacking:
            raise ValueError(
                f"{file!r} and {files[0]!r} of {what} have different columns: only one of them has "
                f"{some_of(lacking)}; give files with the same columns"
            )
    try:
        merged = pa.unify_schemas(
            [footer.schema.remove_metadata() for footer in footers], promote_options="permissive"
        )
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise TypeError(
            f"a column has different types in the files of {what} ({error}); write them with one "
            "type"
        ) from error
    fields = [merged.field(each.name) if each.name in merged.names else each for each in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _pandas_columns(schema: pa.Schema) -> tuple[set[str], set[str]]:
    """Return the names of columns that are the index of a pandas frame, and of categorical ones."""
    try:
        stored = json.loads((schema.metadata or {})[b"pandas"])
        index = {name for name in stored["index_columns"] if isinstance(name, str)}
        kinds = {each["name"]: each["pandas_type"] for each in stored["columns"]}
    except (KeyError, ValueError, TypeError):
        return set(), set()
    return index, {name for name, kind in kinds.items() if kind == "categorical"}


def _column(field: pa.Field, missing: Collection[str], categorical: Collection[str]) -> TableColumn:
    import pyarrow as pa

    kind = field.type
    if field.name in categorical and not pa.types.is_dictionary(kind):
        kind = pa.dictionary(pa.int32(), kind)  # Parquet keeps only dictionaries of text
    return TableColumn(field.name, kind, field.nullable and field.name in missing)


def _row_bytes(columns: Sequence[TableColumn]) -> int:
    """Return the bytes that one row takes in the arrays that the columns are converted to."""
    total = 0
    for column in columns:
        try:
            total += plan_arrow("", column.type, column.nullable)[0].itemsize
        except TypeError:
            total += _UNKNOWN_BYTES
    return total


def _pieces(
    fragments: Sequence[ds.ParquetFileFragment], footers: Sequence[Footer], row_bytes: int
) -> Iterator[tuple[int, tuple[ds.ParquetFileFragment, ...]]]:
    """Yield the number of rows and the row groups of each block.

    A block consists of consecutive row groups, of several files if the files are small.
    """
    limit = max(1, BLOCK_BYTES // max(row_bytes, 1))
    held: dict[int, list[int]] = {}
    total = 0

    def piece() -> tuple[int, tuple[ds.ParquetFileFragment, ...]]:
        return total, tuple(
            fragments[file].subset(row_group_ids=numbers) for file, numbers in held.items()
        )

    for file, footer in enumerate(footers):
        for number, rows in enumerate(footer.rows):
            if not rows:
                continue
            if total and total + rows > limit:
                yield piece()
                held, total = {}, 0
            held.setdefault(file, []).append(number)
            total += rows
    if total:
        yield piece()


def read_row_groups(
    schema: pa.Schema, fragments: Sequence[ds.ParquetFileFragment], names: Sequence[str]
) -> pa.Table:
    """Return the columns ``names`` of some row groups as one table."""
    import pyarrow as pa

    # Arrow's memory pools keep freed memory, which counts towards the memory use of a worker
    pool = pa.system_memory_pool()
    tables = [
        fragment.to_table(schema=schema, columns=list(names), use_threads=False, memory_pool=pool)
        for fragment in fragments
    ]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
