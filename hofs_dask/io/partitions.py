"""Columns of tables that are defined by names of folders, such as ``year=2020``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    import pyarrow as pa

#: The value in the name of a folder whose rows miss the value.
MISSING = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?\d{1,10}")


def partition_values(paths: Sequence[str], root: str) -> list[dict[str, str | None]]:
    """Return the names and values that the folders of each file define; None is a missing value.

    ``root`` is the folder that contains the partitions.

    Examples
    --------
    >>> partition_values(["/data/year=2020/x.csv", "/data/year=2021/kind=a%20b/x.csv"], "/data")
    [{'year': '2020'}, {'year': '2021', 'kind': 'a b'}]
    """
    found = []
    for path in paths:
        folders = path.removeprefix(root).split("/")[:-1]
        pairs = (folder.partition("=") for folder in folders if folder.find("=") > 0)
        values = {unquote(name): unquote(value) for name, _, value in pairs}
        found.append({name: None if each == MISSING else each for name, each in values.items()})
    return found


def partition_schema(values: Sequence[Mapping[str, str | None]]) -> pa.Schema:
    """Return the columns that folders define: integers if all known values are, else text.

    Examples
    --------
    >>> partition_schema([{"year": "2020", "kind": "a"}, {"year": None}])
    year: int32
    kind: string
    """
    import pyarrow as pa

    names = dict.fromkeys(name for each in values for name in each)
    fields = []
    for name in names:
        known = {value for each in values if (value := each.get(name)) is not None}
        fields.append((name, pa.int32() if known and all(map(_is_integer, known)) else pa.string()))
    return pa.schema(fields)


def check_partitions(path: str, table: pa.Table, values: Mapping[str, Any]) -> None:
    """Raise a ValueError if a column of a file and its folder have one name and other values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> check_partitions("/k=1/x.csv", pa.table({"k": [1, 1]}), {"k": "1"})
    >>> check_partitions("/k=1/x.csv", pa.table({"k": [1, 5]}), {"k": "1"})
    Traceback (most recent call last):
    ...
    ValueError: '/k=1/x.csv' has a column 'k' with the value 5, but its folder is called 'k=1'; ...
    """
    for name in table.column_names:
        if name not in values:
            continue
        given = values[name]
        found = table.column(name).unique()
        same = _as_type(given, found.type)
        other = [
            each for each in found.to_pylist() if each != same or (each is None) != (given is None)
        ]
        if other:
            raise ValueError(
                f"{path!r} has a column {name!r} with the value {other[0]!r}, but its folder is "
                f"called '{name}={MISSING if given is None else given}'; write the files again "
                "without this column, or rename the folders"
            )


def _is_integer(value: str) -> bool:
    return _INTEGER.fullmatch(value) is not None and -(2**31) <= int(value) < 2**31


def _as_type(value: Any, kind: pa.DataType) -> Any:
    """Return the value of a folder as a value of a column; None if it cannot be converted."""
    import pyarrow as pa

    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    try:
        return pa.scalar(value).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
