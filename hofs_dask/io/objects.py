"""Objects of remote storage, through fsspec or a Zarr store, with retries of failed requests."""

from __future__ import annotations

import contextlib
import errno
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from hofs_dask.errors import AGAIN

Found = TypeVar("Found")

#: Seconds before the second, third, ... attempt of a request that failed.
WAITS = (0.1, 0.5, 2.0)
#: Seconds after which a request is not repeated: the storage library has waited and repeated it.
PATIENCE = 20.0
#: Errors that another attempt would not change.
FINAL = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError)
#: Errors that tell what exists: they are handled by the caller.
FOUND = (FileNotFoundError, FileExistsError, IsADirectoryError)


class Objects(ABC):
    """Objects by name below one prefix.

    Every failure is an OSError. Unless the object is absent or exists, the message names it, and a
    note says to run the same call again.
    """

    def get(self, name: str, most: int) -> bytes:
        """Return an object of at most ``most`` bytes, by one request."""
        content = self._attempt(name, lambda: self._get(name, most))
        if len(content) > most:
            text = f"larger than the {most} bytes expected"
            raise OSError(errno.EFBIG, text, self._shown(name))
        return content

    def put(self, name: str, content: bytes) -> None:
        """Write or replace an object."""
        self._attempt(name, lambda: self._put(name, content))

    def create(self, name: str, content: bytes) -> None:
        """Write an object; raise a FileExistsError if it exists, as far as the storage can."""
        # one attempt: a second one would find what the first one wrote
        with self._named(name):
            if self._exists(name):  # not every storage refuses to create an object that exists
                raise FileExistsError(errno.EEXIST, "the object exists", self._shown(name))
            self._create(name, content)

    def children(self) -> set[str]:
        """Return the names of the objects and prefixes directly below, not from a cache."""
        return self._attempt("", self._children)

    def is_empty(self) -> bool:
        """Return whether there is no object at the prefix itself or below."""
        return not self.children() and not self._attempt("", self._is_object)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all objects below, by name, not from a cache."""
        return self._attempt("", self._sizes)

    def remove(self, name: str) -> None:
        """Remove an object, or all objects below a prefix, if there are any."""
        with contextlib.suppress(FileNotFoundError):
            self._attempt(name, lambda: self._remove(name))

    @abstractmethod
    def _get(self, name: str, most: int) -> bytes: ...

    @abstractmethod
    def _put(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def _create(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def _children(self) -> set[str]: ...

    def _exists(self, name: str) -> bool:
        try:
            self._get(name, 0)
        except FileNotFoundError:
            return False
        return True

    def _is_object(self) -> bool:
        """Return whether the prefix is the name of an object; a prefix of a Zarr store is not."""
        return False

    @abstractmethod
    def _sizes(self) -> dict[str, int]: ...

    @abstractmethod
    def _remove(self, name: str) -> None: ...

    @abstractmethod
    def _shown(self, name: str) -> str:
        """Return the address of an object for messages."""

    def _attempt(self, name: str, request: Callable[[], Found]) -> Found:
        start = time.monotonic()
        for wait in WAITS:
            try:
                with self._named(name):
                    return request()
            except FINAL:
                raise
            except OSError:
                if time.monotonic() - start > PATIENCE:
                    raise
                time.sleep(wait)
        with self._named(name):
            return request()

    @contextlib.contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Turn any exception of a storage library into an OSError that names the object."""
        try:
            yield
        except Exception as error:
            failed = self._failure(name, error)
            if not isinstance(failed, FOUND) and not isinstance(error, NotImplementedError):
                failed.add_note(AGAIN)
            if failed is error:
                raise
            raise failed from error

    def _failure(self, name: str, error: Exception) -> OSError:
        """Return the OSError for an exception of a storage library."""
        # storage libraries have exceptions of their own, and OSErrors without number and name
        kind: type[OSError] = OSError
        if isinstance(error, OSError):
            if error.filename is not None or isinstance(error, FOUND):
                return error
            kind = PermissionError if isinstance(error, PermissionError) else OSError
        elif type(error).__name__ == "AlreadyExistsError":
            kind = FileExistsError
        elif isinstance(error, NotImplementedError):  # for example, to write to a web server
            kind = PermissionError
        number, text = getattr(error, "errno", None), getattr(error, "strerror", None)
        if text is None:
            text = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return kind(number or errno.EIO, text, self._shown(name))


class UrlObjects(Objects):
    """Objects of an fsspec file system.

    Parameters
    ----------
    files : fsspec.AbstractFileSystem
        The file system, synchronous.
    root : str
        The path in it.
    """

    def __init__(self, files: Any, root: str) -> None:
        self.files, self.root = files, root.rstrip("/")

    @classmethod
    def at(cls, url: str, options: Any) -> UrlObjects:
        """Return the objects below a URL.

        Examples
        --------
        >>> UrlObjects.at("memory://a/b", None).root
        '/a/b'
        """
        from fsspec.core import url_to_fs

        return cls(*url_to_fs(url, **(options or {})))

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _shown(self, name: str) -> str:
        return str(self.files.unstrip_protocol(self._path(name)))

    def _get(self, name: str, most: int) -> bytes:
        # a range, so that a large object is not fetched as a whole
        return bytes(self.files.cat_file(self._path(name), start=0, end=most + 1))

    def _put(self, name: str, content: bytes) -> None:
        self.files.pipe_file(self._path(name), content)

    def _create(self, name: str, content: bytes) -> None:
        self.files.pipe_file(self._path(name), content, mode="create")

    def _children(self) -> set[str]:
        self.files.invalidate_cache()
        try:
            found = self.files.ls(self.root, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        names = {str(each).rstrip("/") for each in found}
        own = self.root.strip("/")
        return {each.rpartition("/")[2] for each in names if each.strip("/") != own}

    def _is_object(self) -> bool:
        return bool(self.files.isfile(self.root))

    def _sizes(self) -> dict[str, int]:
        self.files.invalidate_cache()
        found: dict[str, dict[str, Any]] = self.files.find(self.root, detail=True)
        return {name[len(self.root) + 1 :]: int(info["size"]) for name, info in found.items()}

    def _remove(self, name: str) -> None:
        try:
            self.files.rm(self._path(name), recursive=True)
        finally:
            self.files.invalidate_cache()


def objects_in(store: Any, prefix: str) -> Objects:
    """Return the objects of a Zarr store below a prefix, empty or with a slash at its end.

    Examples
    --------
    >>> from zarr.storage import MemoryStore
    >>> objects_in(MemoryStore(), "").children()
    set()
    """
    from zarr.storage import FsspecStore

    from hofs_dask.io.storage import file_system, innermost

    inner = innermost(store)
    if isinstance(inner, FsspecStore):  # fsspec itself creates objects conditionally
        return UrlObjects(file_system(inner), f"{inner.path}/{prefix}")
    return StoreObjects(store, prefix)


class StoreObjects(Objects):
    """Objects of a Zarr store.

    Parameters
    ----------
    store : zarr.abc.store.Store
        The store.
    prefix : str
        The prefix of all keys, empty or with a slash at its end.
    """

    def __init__(self, store: Any, prefix: str) -> None:
        self.store, self.prefix = store, prefix

    def _run(self, request: Coroutine[Any, Any, Found]) -> Found:
        """Return the result of a request to the store, which is opened first."""
        from zarr.core.sync import sync

        async def run() -> Found:
            await self.store._ensure_open()  # a zip file is opened by its first use only
            return await request

        return sync(run())

    def _shown(self, name: str) -> str:
        return f"{self.store}/{self.prefix}{name}"

    def _get(self, name: str, most: int) -> bytes:
        from zarr.abc.store import RangeByteRequest
        from zarr.core.buffer import default_buffer_prototype

        span = RangeByteRequest(0, most + 1)
        found = self._run(self.store.get(self.prefix + name, default_buffer_prototype(), span))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", self._shown(name))
        return bytes(found.to_bytes())

    def _put(self, name: str, content: bytes) -> None:
        from zarr.core.buffer import default_buffer_prototype

        buffer = default_buffer_prototype().buffer.from_bytes(content)
        self._run(self.store.set(self.prefix + name, buffer))

    def _create(self, name: str, content: bytes) -> None:
        from zarr.storage import ObjectStore

        if isinstance(self.store, ObjectStore):
            put: Any = self.store.store.put  # Zarr's own method does not report an existing object
            put(self.prefix + name, content, mode="create")
            return
        self._put(name, content)

    def _children(self) -> set[str]:
        async def collect() -> set[str]:
            prefix = self.prefix.rstrip("/")
            return {name.rstrip("/") async for name in self.store.list_dir(prefix)}

        return self._run(collect())

    def _sizes(self) -> dict[str, int]:
        async def collect() -> dict[str, int]:
            return {
                key.removeprefix(self.prefix): await self.store.getsize(key)
                async for key in self.store.list_prefix(self.prefix)
            }

        return self._run(collect())

    def _remove(self, name: str) -> None:
        key = self.prefix + name

        async def remove() -> None:
            if await self.store.exists(key):
                await self.store.delete(key)
            else:
                await self.store.delete_dir(key)

        self._run(remove())
