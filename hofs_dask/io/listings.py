"""Listings of the files of Zarr arrays: which chunks exist, and a stamp that shows changes."""

from __future__ import annotations

import bisect
import contextlib
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zarr
from fsspec.implementations.cached import CachingFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, ObjectStore, ZipStore

from hofs_dask.io.paths import is_url
from hofs_dask.io.places import remote
from hofs_dask.io.storage import file_stamp, file_system, hash_lines, local_root, stat_stamp

# Keys in the file info of fsspec that contain a version or checksum, or a modification time.
_VERSIONS = re.compile(r"etag|version|generation|md5|sha|crc|checksum", re.IGNORECASE)
_TIMES = re.compile(r"mtime|modified|updated", re.IGNORECASE)


@dataclass(frozen=True)
class Present:
    """The chunks of a Zarr array that exist in its store.

    Attributes
    ----------
    grid : tuple of int
        Number of chunks along each dim, or of shards if the array is sharded.
    numbers : tuple of int
        Indices (in C order over the grid) of the existing chunks or of the absent chunks,
        whichever are fewer; sorted.
    absent : bool
        Whether ``numbers`` lists the absent chunks.
    """

    grid: tuple[int, ...]
    numbers: tuple[int, ...]
    absent: bool

    @classmethod
    def of(cls, grid: tuple[int, ...], found: Iterable[tuple[int, ...]]) -> Present:
        """Return the record of a grid in which the chunks at the positions ``found`` exist.

        Examples
        --------
        >>> Present.of((2, 2), [(0, 0), (0, 1), (1, 0)])
        Present(grid=(2, 2), numbers=(3,), absent=True)
        """
        numbers = {_number(grid, at) for at in found if _within(grid, at)}
        absent = math.prod(grid) < 2 * len(numbers)
        if absent:
            numbers = set(range(math.prod(grid))) - numbers
        return cls(grid, tuple(sorted(numbers)), absent)

    @property
    def n_absent(self) -> int:
        """The number of chunks that do not exist."""
        return len(self.numbers) if self.absent else math.prod(self.grid) - len(self.numbers)

    def holds(self, at: tuple[int, ...]) -> bool:
        """Return whether the chunk at a position of the grid exists.

        Examples
        --------
        >>> present = Present.of((2, 2), [(0, 1)])
        >>> present.holds((0, 1)), present.holds((1, 1))
        (True, False)
        """
        number = _number(self.grid, at)
        place = bisect.bisect_left(self.numbers, number)
        return (self.numbers[place : place + 1] == (number,)) != self.absent


@dataclass(frozen=True)
class Listing:
    """The state of the files of a Zarr array.

    Attributes
    ----------
    stamp : str or None
        Digest of the state of all files, which is equal for two listings only if no file has
        changed; None if the storage cannot show changes.
    present : Present or None
        The existing chunks, or None if they cannot be listed.
    """

    stamp: str | None
    present: Present | None


@dataclass(frozen=True)
class Origin:
    """A Zarr array or a file that data is read from, or an unknown origin.

    Attributes
    ----------
    place : str
        Local path or URL, "" if there is none.
    array : zarr.Array or None
        The array; None for a file.
    listing : Listing or None
        Listing of the array when it was opened.
    stamp : str or None
        Stamp of the file, or of all `files`, when it was opened.
    files : tuple of str
        Paths or URLs of the files of a table.
    folder : object or None
        For temporary files, the `HeldFolder` that removes them when it is no longer referenced.
    """

    place: str = ""
    array: Any = field(default=None, compare=False, repr=False)
    listing: Listing | None = None
    stamp: str | None = None
    files: tuple[str, ...] = ()
    folder: Any = field(default=None, compare=False, repr=False)

    @property
    def n_absent(self) -> int:
        """Number of chunks that did not exist when the array was opened; 0 if unknown."""
        present = self.listing.present if self.listing else None
        return present.n_absent if present else 0

    def state(self) -> str | None:
        """Return a stamp of the current state of the files, or None if changes cannot be detected.

        Examples
        --------
        >>> Origin(__file__).state() == Origin(__file__).state()
        True
        >>> Origin().state() is None
        True
        """
        if self.array is not None:
            return self._with_groups(list_array(self.array).stamp)
        try:
            if self.files:
                return files_stamp(self.files)
            return file_stamp(self.place) if self.place else None
        except FileNotFoundError:
            return "gone"

    def opened_state(self) -> str | None:
        """Return the value that `state` had when the array or file was opened.

        Examples
        --------
        >>> Origin(__file__, stamp=file_stamp(__file__)).opened_state() == Origin(__file__).state()
        True
        """
        if self.array is not None and self.listing is not None:
            return self._with_groups(self.listing.stamp)
        return self.stamp

    def _with_groups(self, stamp: str | None) -> str | None:
        return None if stamp is None else hash_lines([stamp, *_group_stamps(self.array)])


#: The origin of data from a function of the user or an unsupported object.
UNKNOWN = Origin()


def list_array(array: zarr.Array[Any]) -> Listing:
    """Return the current listing of the files of an open Zarr array.

    Local stores, zip files, commits of icechunk, and remote storage with a version or an exact
    time for every object show every change and have a stamp. Other stores have none.

    Raises
    ------
    ValueError
        A chunk is not a regular file, for example a pipe or a device.

    Examples
    --------
    >>> list_array(zarr.zeros((4, 2), chunks=(2, 2))).present.n_absent
    2
    """
    store: Any = array.store
    if getattr(store, "is_guard", False):
        store = store._store
    trusted = type(store)
    root = local_root(store)
    stamp: str | None = None
    if root is not None:
        lines = sorted(_local_lines(str(Path(root, array.path))))
        names = [line.partition("\0")[0] for line in lines]
        if trusted in (LocalStore, FsspecStore) and "" not in names:
            stamp = hash_lines(lines)
    elif trusted is FsspecStore and "https" in file_system(store).protocol:
        return Listing(None, None)  # web servers have no listings
    elif trusted is FsspecStore:
        parts = (store.path.rstrip("/"), array.path)
        found = _remote_infos(file_system(store), "/".join(part for part in parts if part))
        names = list(found)
        stamp = _remote_stamp(found) if _shows_changes(file_system(store), found) else None
    else:
        prefix = f"{array.path}/" if array.path else ""
        names = [name.removeprefix(prefix) for name in _list_keys(store, prefix)]
        if trusted is ZipStore and store.read_only and _is_open_at(store):
            stamp = hash_lines([file_stamp(store.path)])
        elif trusted is ObjectStore:
            stamp = _object_stamp(store.store, prefix)
        elif trusted.__name__ == "IcechunkStore" and store.read_only:
            stamp = hash_lines([str(store.session.snapshot_id)])
    if "" in names:
        return Listing(stamp, None)
    places = (chunk_at(name, array.ndim) for name in names)
    return Listing(stamp, Present.of(chunk_grid(array), (at for at in places if at is not None)))


def files_stamp(places: Sequence[str]) -> str | None:
    """Return a digest of the state of files of one file system: equal only if no file has changed.

    The result is None if the storage cannot show changes.

    Examples
    --------
    >>> files_stamp([__file__]) == files_stamp([__file__])
    True
    """
    if not is_url(places[0]):
        return hash_lines(file_stamp(place) for place in places)
    files, _ = remote(places[0])
    files.invalidate_cache()
    wanted = [files._strip_protocol(place) for place in places]
    found: dict[str, dict[str, Any]] = {}
    # one request for a folder, not one for each of its files
    for folder in sorted({name.rpartition("/")[0] for name in wanted}):
        with contextlib.suppress(OSError, NotImplementedError):
            found |= {info["name"]: info for info in files.ls(folder, detail=True)}
    infos = {name: found.get(name) or files.info(name) for name in wanted}
    return _remote_stamp(infos) if _shows_changes(files, infos) else None


def _is_open_at(store: Any) -> bool:
    """Return whether the open zip file of a store is still the file at its path."""
    try:
        opened = os.fstat(store._zf.fp.fileno())
        return os.path.samestat(opened, os.stat(store.path))  # noqa: PTH116
    except (AttributeError, OSError):
        return False


def chunk_grid(array: zarr.Array[Any]) -> tuple[int, ...]:
    """Return the number of chunks along each dim, or of shards if the array is sharded.

    Examples
    --------
    >>> chunk_grid(zarr.zeros((5, 2), chunks=(2, 2)))
    (3, 1)
    """
    sizes = array.shards or array.chunks
    return tuple(-(-n // max(size, 1)) for n, size in zip(array.shape, sizes, strict=True))


def chunk_at(name: str, ndim: int) -> tuple[int, ...] | None:
    """Return the grid position that a chunk key contains, or None if it is not a chunk key.

    The key is relative to the array.

    Examples
    --------
    >>> chunk_at("c/2/10", 2), chunk_at("2.10", 2), chunk_at("zarr.json", 2)
    ((2, 10), (2, 10), None)
    """
    if name.startswith("c"):
        name = name[2:]
        if not ndim and not name:
            return ()
    elif not ndim and name == "0":
        return ()
    parts = name.split("/" if "/" in name else ".")
    if len(parts) != ndim:
        return None
    try:
        return tuple(map(int, parts))
    except ValueError:
        return None


def _number(grid: tuple[int, ...], at: tuple[int, ...]) -> int:
    number = 0
    for size, each in zip(grid, at, strict=True):
        number = number * size + each
    return number


def _within(grid: tuple[int, ...], at: tuple[int, ...]) -> bool:
    return len(at) == len(grid) and all(0 <= each < n for each, n in zip(at, grid, strict=True))


def _local_lines(folder: str, prefix: str = "") -> Iterator[str]:
    """Yield the name and stamp of every file in a folder.

    A symbolic link to a folder is not followed; the empty string is yielded for it.
    """
    try:
        scan = os.scandir(folder)
    except FileNotFoundError:
        return
    with scan as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir():
                if entry.is_symlink():  # the link may point to one of its parents
                    yield ""
                else:
                    yield from _local_lines(entry.path, f"{name}/")
                continue
            try:
                found = entry.stat()
            except FileNotFoundError:  # a broken link, or removed in the meantime
                continue
            if not stat.S_ISREG(found.st_mode):
                raise ValueError(f"{entry.path!r} is not a regular file; write the array again")
            yield stat_stamp(name, found)


def _group_stamps(array: zarr.Array[Any]) -> list[str]:
    """Return stamps of the metadata of parent groups, which may contain metadata of the array."""
    root = local_root(array.store)
    if root is None:
        return []
    folders = [Path(root, *Path(array.path).parts[:n]) for n in range(len(Path(array.path).parts))]
    stamps = []
    for folder in folders:
        for name in ("zarr.json", ".zmetadata"):
            try:
                stamps.append(file_stamp(folder / name))
            except (FileNotFoundError, NotADirectoryError):
                continue
    return stamps


def _remote_infos(files: Any, root: str) -> dict[str, dict[str, Any]]:
    files.invalidate_cache(root)
    found = files.find(root, detail=True)
    prefix = files._strip_protocol(root).rstrip("/") + "/"
    return {name.removeprefix(prefix): info for name, info in sorted(found.items())}


def _remote_stamp(found: dict[str, dict[str, Any]]) -> str:
    return hash_lines(
        f"{name}\0{sorted((key, str(value)) for key, value in info.items())}"
        for name, info in found.items()
    )


def _shows_changes(files: Any, found: dict[str, dict[str, Any]]) -> bool:
    """Return whether the listing would show that an object was overwritten.

    Every object needs a version or a time, and most of the times must have fractions of a second.
    The result is always False for cached listings and for objects in memory.
    """
    if isinstance(files, CachingFileSystem | MemoryFileSystem):
        return False
    times = [
        [str(value) for key, value in info.items() if _TIMES.search(key)]
        for info in found.values()
        if not any(_VERSIONS.search(key) and value for key, value in info.items())
    ]
    # one time may be a whole second by chance, but not most of them
    exact = sum(any(re.search(r"[.]\d*[1-9]", each) for each in several) for several in times)
    return not times or (all(times) and 2 * exact > len(times))


def _object_stamp(objects: Any, prefix: str) -> str | None:
    """Return the stamp of all objects of obstore below a prefix; None if one has no version."""
    found = [each for some in objects.list(prefix or None) for each in some]
    if not all(each["e_tag"] or each["version"] for each in found):
        return None
    names = ("path", "size", "e_tag", "version")
    return hash_lines(sorted("\0".join(str(each[name]) for name in names) for each in found))


def _list_keys(store: Any, prefix: str) -> list[str]:
    async def collect() -> list[str]:
        return [key async for key in store.list_prefix(prefix)]

    if not store.supports_listing:
        return [""]
    return sync(collect())
