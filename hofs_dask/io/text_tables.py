"""Reader of CSV files; each task reads a range of bytes.

Encoding reads the files twice. Before that, they are read once to find the line ends that are not
inside quotes, and a second time to count the rows and infer the types of all columns.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import delayed

from hofs_dask.errors import some_of
from hofs_dask.io.partitions import check_partitions, partition_schema, partition_values
from hofs_dask.io.table import Table, TableColumn, check_unique
from hofs_dask.io.table_files import TEXT, TableFiles
from hofs_dask.scheduling.compute import compute

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of text in a block. If the values are short integers, the arrays have four times the bytes.
TEXT_BYTES = 16 * 2**20
_QUOTE, _NEWLINE = ord('"'), ord("\n")


@dataclass(frozen=True)
class Span:
    """A range of bytes of a CSV file.

    Attributes
    ----------
    path : str
        The file.
    begin, end : int
        The first byte, and the byte after the last one.
    """

    path: str
    begin: int
    end: int


@dataclass(frozen=True)
class Reader:
    """A callable that parses lines of CSV files.

    Attributes
    ----------
    system : fsspec.AbstractFileSystem
        The file system of the files.
    delimiter : str
        The character between columns.
    names : dict of str to tuple of str
        Names of the columns of each file, in the order of the file.
    types : dict of str to pyarrow.DataType
        Types of the columns; empty to infer them.
    folders : dict of str to dict
        Values of the columns that the folders of each file define, None if missing.
    folder_types : pyarrow.Schema
        Types of these columns, except those that are also in the files.
    """

    system: Any
    delimiter: str
    names: dict[str, tuple[str, ...]]
    types: dict[str, pa.DataType]
    folders: dict[str, dict[str, str | None]]
    folder_types: pa.Schema

    def __call__(self, span: Span, names: Sequence[str]) -> pa.Table:
        """Return the columns ``names`` of the lines in ``span``."""
        from pyarrow import ArrowInvalid, csv, py_buffer, repeat, scalar, system_memory_pool

        content = self.system.cat_file(span.path, start=span.begin, end=span.end)
        own, outside = self.names[span.path], self.folder_types.names
        try:
            table = csv.read_csv(
                py_buffer(content),
                csv.ReadOptions(
                    use_threads=False, column_names=own, block_size=max(len(content), 1) + 1
                ),
                csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                csv.ConvertOptions(
                    column_types=self.types or None,
                    include_columns=[name for name in names if name not in outside],
                    strings_can_be_null=True,
                    # not 1 and 0: a block that has only these would be one of integers
                    true_values=["true", "True", "TRUE"],
                    false_values=["false", "False", "FALSE"],
                ),
                # the pools of Arrow keep memory that is no longer used
                memory_pool=system_memory_pool(),
            )
        except ArrowInvalid as error:
            raise ValueError(
                f"{span.path!r} cannot be read as CSV, between its bytes {span.begin} and "
                f"{span.end} ({error}); write it again, or give it as Parquet"
            ) from error
        for field in self.folder_types:
            value = scalar(self.folders[span.path].get(field.name)).cast(field.type)
            table = table.append_column(field, repeat(value, table.num_rows))
        return table.select(list(names)) if outside else table


def open_text(files: TableFiles) -> Table:
    """Return CSV files as a table. They are read twice: for line ends, then for rows and types."""
    import pyarrow as pa

    delimiter = TEXT[files.suffix]
    ranges = [
        Span(path, begin, min(begin + TEXT_BYTES, size))
        for path in files.paths
        if (size := files.system.size(path))
        for begin in range(0, size, TEXT_BYTES)
    ]
    if not ranges:
        raise ValueError(f"{files.path!r} is empty; give a file with a header and rows")
    (ends,) = compute([delayed(find_line_ends)(files.system, each) for each in ranges])
    headers: dict[str, tuple[str, ...]] = {}
    spans = []
    for span in _whole_lines(ranges, ends):
        if span.begin == 0:
            end = ends[ranges.index(next(each for each in ranges if each.path == span.path))]
            first = span.end if end.outside is None else end.outside
            headers[span.path] = _header(files.system, Span(span.path, 0, first), delimiter)
            span = Span(span.path, first, span.end)
        if span.begin < span.end:
            spans.append(span)
    _check_headers(headers)
    inside = next(iter(headers.values()))
    folders = partition_values(files.paths, files.root)
    outside = pa.schema([each for each in partition_schema(folders) if each.name not in inside])
    names = (*inside, *outside.names)
    by_path = dict(zip(files.paths, folders, strict=True))
    reader = Reader(files.system, delimiter, headers, {}, by_path, outside)
    (found,) = compute([delayed(infer_types)(reader, span, names) for span in spans])
    kept = [(span, each) for span, each in zip(spans, found, strict=True) if each.n_rows]
    if not kept:
        raise ValueError(f"{files.path!r} has a header and no rows; give a file with rows")
    types = {name: _common([each.types[j] for _, each in kept]) for j, name in enumerate(names)}
    return Table(
        columns=tuple(
            TableColumn(name, types[name], any(each.missing[j] for _, each in kept))
            for j, name in enumerate(names)
        ),
        rows=tuple(each.n_rows for _, each in kept),
        pieces=tuple(span for span, _ in kept),
        read=replace(reader, types=types),
        read_together=names,
        in_memory=False,
        identity=files.identity,
        token=uuid.uuid4().hex,
    )


@dataclass(frozen=True)
class LineEnds:
    """The number of quotes in a range of bytes, and where its first line ends.

    Where it ends depends on whether the range begins outside or inside of quotes.

    Attributes
    ----------
    n_quotes : int
        Number of quotes in the range.
    outside, inside : int or None
        Position, within the range, after the first newline that is not in quotes, if the range
        begins outside of quotes (`outside`) or inside of them (`inside`). None if there is no such
        newline.
    """

    n_quotes: int
    outside: int | None
    inside: int | None


def find_line_ends(system: Any, span: Span) -> LineEnds:
    """Return the number of quotes and the first line ends of a range of bytes. This is a task."""
    content = np.frombuffer(system.cat_file(span.path, start=span.begin, end=span.end), np.uint8)
    newlines = np.flatnonzero(content == _NEWLINE)
    quotes = np.flatnonzero(content == _QUOTE)
    if not len(quotes):
        first = int(newlines[0]) + 1 if len(newlines) else None
        return LineEnds(0, first, None)
    before = np.searchsorted(quotes, newlines) % 2
    even, odd = newlines[before == 0], newlines[before == 1]
    return LineEnds(
        len(quotes),
        int(even[0]) + 1 if len(even) else None,
        int(odd[0]) + 1 if len(odd) else None,
    )


def _whole_lines(ranges: Sequence[Span], ends: Sequence[LineEnds]) -> list[Span]:
    """Return spans of whole lines: ranges whose limits are moved to the next line ends.

    Ranges in which no line ends are merged with the range before them.
    """
    spans: list[Span] = []
    n_quotes = 0
    for span, end in zip(ranges, ends, strict=True):
        if not span.begin:
            n_quotes = 0
            spans.append(span)
        else:
            first = end.inside if n_quotes % 2 else end.outside
            last = spans.pop()
            if first is None:
                spans.append(Span(span.path, last.begin, span.end))
            else:
                spans.append(Span(span.path, last.begin, span.begin + first))
                if span.begin + first < span.end:
                    spans.append(Span(span.path, span.begin + first, span.end))
        n_quotes += end.n_quotes
    return spans


def _header(system: Any, span: Span, delimiter: str) -> tuple[str, ...]:
    """Return the names of the columns, from the first line of a file."""
    from pyarrow import ArrowInvalid, csv, py_buffer

    line = system.cat_file(span.path, start=span.begin, end=span.end)
    try:
        options = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        table = csv.read_csv(py_buffer(line), parse_options=options)
        names = table.column_names
    except UnicodeDecodeError as error:
        raise _not_utf8(span.path) from error
    except ArrowInvalid as error:
        raise ValueError(
            f"the first line of {span.path!r} cannot be read as names of columns ({error})"
        ) from error
    if b"\0" in line:  # UTF-16
        raise _not_utf8(span.path)
    if table.num_rows:
        raise ValueError(
            f"some lines of {span.path!r} end with a carriage return alone; write the file again "
            "with line feeds, for example with pandas.read_csv and to_csv"
        )
    check_unique(names, repr(span.path))
    other = next((each for each in ";\t|," if each != delimiter and each in names[0]), None)
    if len(names) == 1 and other is not None:
        raise ValueError(
            f"{span.path!r} has one column, {names[0]!r}; write it with {delimiter!r} between its "
            f"columns, or read it with pandas.read_csv(..., sep={other!r})"
        )
    return tuple(names)


def _not_utf8(path: str, what: str = "its first line") -> ValueError:
    return ValueError(
        f"{path!r} is not a file in UTF-8, because {what} is not; write it again in UTF-8, for "
        "example with pandas.read_csv(..., encoding='latin-1') or encoding='utf-16', and to_csv"
    )


def _check_headers(headers: dict[str, tuple[str, ...]]) -> None:
    (first, names), *others = headers.items()
    for path, own in others:
        lacking = sorted({*names} ^ {*own})
        if lacking:
            raise ValueError(
                f"{path!r} and {first!r} have different columns: only one of them has "
                f"{some_of(lacking)}; give files with the same columns"
            )


@dataclass(frozen=True)
class Inferred:
    """The number of rows of a span; the type of each column, and whether values are missing."""

    n_rows: int
    types: tuple[pa.DataType, ...]
    missing: tuple[bool, ...]


def infer_types(reader: Reader, span: Span, names: Sequence[str]) -> Inferred:
    """Return the number of rows of a span and the types of all columns. This is a task."""
    import pyarrow.types as of

    table = reader(span, names)
    for field in table.schema:
        if of.is_binary(field.type):
            raise _not_utf8(span.path, f"the text of its column {field.name!r}")
    folders = reader.folders[span.path]
    twice = [name for name in folders if name not in reader.folder_types.names]
    check_partitions(span.path, table.select(twice), folders)
    return Inferred(
        table.num_rows,
        tuple(table.schema.types),
        tuple(column.null_count > 0 for column in table.columns),
    )


def _common(types: Sequence[pa.DataType]) -> pa.DataType:
    """Return one type for the values of all blocks: if the types differ, floats or else text."""
    import pyarrow as pa
    import pyarrow.types as of

    known = {kind for kind in types if not of.is_null(kind)}
    if not known:
        return pa.null()
    if len(known) == 1:
        return known.pop()
    if all(of.is_integer(kind) or of.is_floating(kind) for kind in known):
        return pa.float64()
    # one block with dates and times of day would be text
    if all(of.is_date(kind) or of.is_timestamp(kind) for kind in known):
        return pa.timestamp("s")  # refused later, like all dates
    return pa.string()
