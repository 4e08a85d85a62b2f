"""Paths of Parquet and CSV files: folders, patterns and remote storage, and their stamps."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hofs_dask.io.fingerprint import Identity, digest
from hofs_dask.io.listings import Origin, files_stamp
from hofs_dask.io.paths import is_url
from hofs_dask.io.places import StorageOptions, remote
from hofs_dask.io.storage import METADATA

PARQUET = (".parquet", ".pq", ".parq")
#: Suffixes of text files, and the character between their columns.
TEXT = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*PARQUET, *TEXT)
_PATTERN = re.compile(r"[*?\[]")
#: The folder of a Delta table that lists its current files.
_DELTA_LOG = "_delta_log"


@dataclass(frozen=True)
class TableFiles:
    """The files of a table.

    Attributes
    ----------
    path : str
        The path, URL or pattern that was given.
    root : str
        The folder that contains the partitions, such as ``year=2020``, as a path of `system`.
    paths : tuple of str
        The sorted paths of the files, as paths of `system`.
    system : fsspec.AbstractFileSystem
        The file system.
    suffix : str
        The suffix of all files.
    identity : Identity
        Fingerprint and origin of the files.
    """

    path: str
    root: str
    paths: tuple[str, ...]
    system: Any
    suffix: str
    identity: Identity


def is_table_path(path: str, options: StorageOptions | None = None) -> bool:
    """Return whether a path has the suffix of a table, is a pattern, or is a folder of table files.

    The options are those of fsspec for a URL.

    Examples
    --------
    >>> is_table_path("/data/x.parquet"), is_table_path("/data/*.csv"), is_table_path("/x.zarr")
    (True, True, False)
    """
    name = PurePosixPath(path.rstrip("/"))
    if name.suffix in SUFFIXES:
        return True
    if name.suffix == ".zarr":
        return False
    if not is_url(path):
        if not os.path.isdir(path):  # noqa: PTH112
            return bool(_PATTERN.search(path)) and not Path(path).exists()
        names = set(os.listdir(path))  # noqa: PTH208
    else:
        system, root = remote(path, options)
        if _PATTERN.search(path):
            return True
        # a Zarr array may have a million files, so it is recognized without listing them
        if any(system.exists(f"{root}/{each}") for each in METADATA):
            return False
        try:
            names = {str(each).rstrip("/").rpartition("/")[2] for each in system.ls(root, False)}
        except (FileNotFoundError, NotADirectoryError):
            return False
    if names & {*METADATA}:
        return False
    return any(each == _DELTA_LOG or _is_data(each) or "=" in each for each in names)


def find_files(path: str) -> TableFiles:
    """Return the files of a table, given by the path of a file or folder or by a pattern.

    Examples
    --------
    >>> find_files("/no/such.parquet")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no such path: '/no/such.parquet'; give a Parquet or CSV file, a folder ...
    """
    system, root = remote(path)
    # file systems cache listings, which may be out of date
    system.invalidate_cache()
    is_folder = system.isdir(root)
    if system.isfile(root):
        found, root = [root], root.rpartition("/")[0]
    elif is_folder:
        names = {str(each).rstrip("/").rpartition("/")[2] for each in system.ls(root, detail=False)}
        if _DELTA_LOG in names:
            raise ValueError(
                f"{path!r} is a Delta table, whose current files are listed in its log; give "
                "deltalake.DeltaTable(path).to_pyarrow_dataset()"
            )
        found = [each for each in system.find(root) if _is_data(each.removeprefix(root))]
    elif _PATTERN.search(root):
        found = [each for each in system.glob(root) if system.isfile(each)]
        root = _PATTERN.split(root)[0].rpartition("/")[0]
    else:
        found = []
    suffixes = sorted({PurePosixPath(each).suffix for each in found})
    if not found:
        what = "no files match" if _PATTERN.search(path) else "no such path:"
        raise FileNotFoundError(
            f"{what} {path!r}; give a Parquet or CSV file, a folder of such files, or a pattern "
            "such as 'data/*.parquet'"
        )
    if len({suffix in PARQUET for suffix in suffixes}) > 1 or not {*suffixes} <= {*SUFFIXES}:
        raise ValueError(
            f"{path!r} are {len(found)} files that end with {', '.join(suffixes)}; give files of "
            f"one kind: {', '.join(SUFFIXES)}"
        )
    paths = tuple(sorted(found))
    local = [str(Path(each)) for each in paths] if not is_url(path) else []
    places = local or [str(system.unstrip_protocol(each)) for each in paths]
    place = path if is_folder else places[0]
    stamp = files_stamp(places)
    origin = Origin(place, files=tuple(places), stamp=stamp)
    fingerprint = None if stamp is None else digest(["table", stamp])
    return TableFiles(path, root, paths, system, suffixes[0], Identity(fingerprint, (origin,)))


def _is_data(path: str) -> bool:
    """Return whether a file contains data, by its relative path: not a log or a hidden file."""
    parts = PurePosixPath(path.lstrip("/")).parts
    return PurePosixPath(path).suffix in SUFFIXES and not any(
        fnmatch.fnmatch(part, "[_.]*") for part in parts
    )
