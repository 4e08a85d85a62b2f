"""Where something is stored: a local folder, a URL, or a Zarr store, with the same operations.

All writes are atomic: local files by a rename, remote objects by nature. Names within a place are
relative and use slashes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hofs_dask.errors import AGAIN
from hofs_dask.io.files import LockedError, locked, owner, read_file, write_file
from hofs_dask.io.objects import Objects, UrlObjects, objects_in
from hofs_dask.io.paths import as_path, is_url

LOCK = "lock"

#: Options of fsspec for URLs.
StorageOptions = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """A local folder, a prefix of remote storage, or a prefix of a Zarr store.

    Attributes
    ----------
    path : str
        The absolute local path, the URL, or a description of the store.
    options : mapping or None
        Options of fsspec for a URL, which may hold credentials: they are not shown.
    store : zarr.abc.store.Store or None
        The Zarr store; None for a path.
    prefix : str
        The prefix of all keys in the Zarr store.
    read_only : bool
        Whether the place was given as a `zarr.storage.LocalStore` that must not be written to.

    Examples
    --------
    >>> Place("s3://bucket/codes.zarr", {"secret": "abc"}) / "codes"
    Place(path='s3://bucket/codes.zarr/codes')
    """

    path: str
    options: StorageOptions | None = field(default=None, repr=False, hash=False)
    store: Any = field(default=None, repr=False, hash=False)
    prefix: str = field(default="", repr=False)
    read_only: bool = field(default=False, repr=False)

    def __truediv__(self, name: str) -> Place:
        prefix = f"{self.prefix}{name}/" if self.store is not None else ""
        return replace(self, path=f"{self.path}/{name}", prefix=prefix)

    def __str__(self) -> str:
        return self.path

    def __fspath__(self) -> str:
        if not self.is_local:
            raise TypeError(f"{self.path!r} is not a local path; use the methods of the place")
        return self.path

    @property
    def is_local(self) -> bool:
        """Whether this is a folder of the local file system."""
        return self.store is None and not is_url(self.path)

    @property
    def objects(self) -> Objects:
        """The objects of remote storage or of a Zarr store."""
        if self.store is not None:
            return objects_in(self.store, self.prefix)
        return UrlObjects.at(self.path, self.options)

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file or object of at most ``most`` bytes.

        An empty name means the place itself.

        Raises
        ------
        OSError
            The file does not exist, is not a regular file, or is larger.

        Examples
        --------
        >>> Place("/no/such/place").read("manifest.json", 100)
        Traceback (most recent call last):
        ...
        FileNotFoundError: [Errno 2] No such file or directory: '/no/such/place/manifest.json'
        """
        if self.is_local:
            return read_file(f"{self.path}/{name}" if name else self.path, most)
        return self.objects.get(name, most)

    def write(
        self,
        name: str,
        parts: Iterable[bytes | memoryview],
        *,
        sync: bool = False,
        private: bool = False,
    ) -> None:
        """Write a file or object atomically, and create folders below the place as needed.

        The place itself is not created, so that a late task cannot restore a removed store. A
        private file can be read by its user only.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Place(folder).write("a/b", [b"text"])
        ...     Place(folder).read("a/b", 4)
        b'text'
        """
        if not self.is_local:
            self.objects.put(name, b"".join(bytes(part) for part in parts))
            return
        folder = self.path
        for step in name.split("/")[:-1]:
            folder = f"{folder}/{step}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)  # noqa: PTH102 - called for every chunk, pathlib is slow
        write_file(f"{self.path}/{name}", parts, sync=sync, private=private)

    def children(self) -> set[str]:
        """Return the names of the files and folders in a place, none if it does not exist.

        Examples
        --------
        >>> Place("/no/such/place").children()
        set()
        """
        if not self.is_local:
            return self.objects.children()
        try:
            return set(os.listdir(self.path))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def remove(self, name: str) -> None:
        """Remove a file or folder, if it exists.

        Examples
        --------
        >>> Place("/no/such/place").remove("codes")
        """
        if not self.is_local:
            self.objects.remove(name)
            return
        path = Path(self.path, name)
        if path.is_dir() and not path.is_symlink():
            # a rename is atomic, so that no reader sees a half-removed folder
            with contextlib.suppress(OSError):
                path = path.rename(path.with_name(f"{path.name}-{uuid.uuid4().hex}"))
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of a place in a ``with`` block.

        Raises
        ------
        LockedError
            Another process holds the lock. The message names the process and, for remote storage,
            the command that removes a stale lock.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Place(folder).held():
        ...     Place(folder).children()
        {'lock'}
        """
        if self.is_local:
            with locked(f"{self.path}/{LOCK}"):
                yield
            return
        objects = self.objects
        content = f"{owner()} {uuid.uuid4().hex}\n".encode()
        left = f"the lock of {self.path!r} could not be removed {self._unlock()}"
        try:
            self._lock(objects, content)
            yield
        except BaseException as error:
            if not isinstance(error, LockedError) and not _released(objects, content):
                error.add_note(left)
            raise
        if not _released(objects, content):
            warnings.warn(left, stacklevel=3)

    def _lock(self, objects: Objects, content: bytes) -> None:
        """Create the lock, with a content that no other lock has."""
        failed: OSError | None = None
        try:
            objects.create(LOCK, content)
        except OSError as error:  # the lock may be there: the storage library repeats requests
            failed = error
        try:
            found = objects.get(LOCK, 400)
        except OSError as error:
            if failed is None or isinstance(failed, FileExistsError):
                failed = error
            text = f"the lock cannot be written and read ({failed.strerror or failed})"
            unlocked = OSError(failed.errno or errno.EIO, text, self.path)
            unlocked.add_note(AGAIN)
            raise unlocked from failed
        if found != content:
            raise LockedError(f"{self._holder(objects)} {self._unlock()}") from failed

    def unlock(self) -> str | None:
        """Remove the lock of a remote place; return its owner, or None if there was no lock.

        A local lock is released when its process ends, so there is nothing to remove.

        Examples
        --------
        >>> Place("memory://no/such/place").unlock() is None
        True
        """
        if self.is_local or LOCK not in self.children():
            return None
        objects = self.objects
        holder = self._holder(objects)
        objects.remove(LOCK)
        return holder

    @property
    def is_read_only(self) -> bool:
        """Whether no files can be written here, as on the web or in a zip file."""
        if self.store is None:
            return self.read_only or self.path.startswith(("http://", "https://"))
        kind = type(self.store).__name__
        return self.store.read_only or kind in ("IcechunkStore", "ZipStore")

    def refuse_read_only(self, what: str) -> None:
        """Raise a ValueError if no files can be written here."""
        if not self.is_read_only:
            return
        if self.store is None and not self.read_only:
            raise ValueError(
                f"{what} is {self.path!r}, and a web address can only be read; give a path, or the "
                "URL of an object store such as s3://bucket/name"
            )
        kind = "LocalStore" if self.store is None else type(self.store).__name__
        if kind == "IcechunkStore":
            raise ValueError(
                f"{what} is {self.path}, and an icechunk repository takes Zarr arrays only; give a "
                "path, a URL or another store (write a result with "
                "result.to_dataset().to_zarr(session.store), then commit the session)"
            )
        raise ValueError(
            f"{what} is {self.path}, a {kind} that can only be read here; give a path or a URL"
        )

    def _holder(self, objects: Objects) -> str:
        with contextlib.suppress(OSError):
            text = objects.get(LOCK, 400).decode(errors="replace")
            return " ".join(text.split()[:4])
        return "another process"

    def _unlock(self) -> str:
        if self.store is not None:
            return f"(if that process has ended, delete the object {self.prefix}{LOCK})"
        return f"(if that process has ended, run: hofs-dask unlock {self.path})"


def _released(objects: Objects, content: bytes) -> bool:
    """Remove the lock with this content; return False if it may still be there."""
    try:
        try:
            found = objects.get(LOCK, 400)
        except FileNotFoundError:
            return LOCK not in objects.children()
        if found == content:
            objects.remove(LOCK)
    except OSError:
        return False
    return True


#: What a user gives as a place: a path, a URL, or a Zarr store.
Location = Any


def as_place(given: Location, options: StorageOptions | None = None) -> Place:
    """Return the place of a path, a URL or a Zarr store.

    Parameters
    ----------
    given : str, path, zarr.abc.store.Store or Place
        A local path that ends with ``.zip`` is opened as a zip file, if it is a file.
    options : mapping, optional
        Options of fsspec, used for URLs only.

    Examples
    --------
    >>> as_place("file:///data/x.zarr").path
    '/data/x.zarr'
    """
    if isinstance(given, Place):
        return given
    if not isinstance(given, str | os.PathLike):
        return _store_place(getattr(given, "store", given) if is_session(given) else given)
    path = as_path(given)
    if is_url(path):
        return Place(path, dict(options) if options else None)
    if path.endswith(".zip") and os.path.isfile(path):  # noqa: PTH113
        from zarr.storage import ZipStore

        return Place(path, store=ZipStore(path, mode="r"))
    return Place(path)


def is_location(given: object) -> bool:
    """Return whether something is a path, a URL, a Zarr store, an icechunk session or a place.

    Examples
    --------
    >>> is_location("data.zarr"), is_location([1, 2])
    (True, False)
    """
    known = isinstance(given, str | os.PathLike | Place)
    return known or is_store(given) or is_session(given)


def is_store(given: object) -> bool:
    """Return whether something is a Zarr store; Zarr is imported only if it may be one.

    Examples
    --------
    >>> from zarr.storage import MemoryStore
    >>> is_store(MemoryStore())
    True
    """
    if not (hasattr(given, "list_prefix") and hasattr(given, "supports_writes")):
        return False
    from zarr.abc.store import Store

    return isinstance(given, Store)


def is_session(given: object) -> bool:
    """Return whether something is an icechunk session."""
    kind = type(given)
    return kind.__module__.partition(".")[0] == "icechunk" and hasattr(given, "snapshot_id")


def remote(url: str, options: StorageOptions | None = None) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path within it.

    Examples
    --------
    >>> remote("memory://a/b")[1]
    '/a/b'
    """
    found = UrlObjects.at(url, options)
    return found.files, found.root


def check_options(options: object, locations: Iterable[object]) -> None:
    """Raise an error if storage options are not a mapping, or none of the locations is a URL.

    Examples
    --------
    >>> check_options({"anon": True}, ["data.zarr"])
    Traceback (most recent call last):
    ...
    ValueError: storage_options is given, but no URL that it applies to; leave it out, or give ...
    """
    if options is None:
        return
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TypeError(
            f"storage_options is a {type(options).__name__}; give a dict of options of fsspec by "
            'name, such as {"anon": True}'
        )
    urls = (isinstance(each, str | os.PathLike) and is_url(as_path(each)) for each in locations)
    if options and not any(urls):
        raise ValueError(
            "storage_options is given, but no URL that it applies to; leave it out, or give a URL "
            "such as s3://bucket/data.zarr"
        )


def _store_place(store: Any) -> Place:
    from zarr.storage import LocalStore

    if not is_store(store):
        kind = f"{type(store).__module__}.{type(store).__qualname__}"
        is_obstore = kind.startswith("obstore.")
        raise TypeError(
            f"a {kind} is given where something is stored; give a path, a URL, or a Zarr store"
            + (", here zarr.storage.ObjectStore(store)" if is_obstore else "")
        )
    if isinstance(store, LocalStore):
        return Place(str(store.root.absolute()), read_only=store.read_only)
    return Place(str(store), store=store)
