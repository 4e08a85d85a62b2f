"""The state that a process keeps between tasks: cached chunks, and work memory of its threads.

No other module that tasks use has mutable state.

Every scan reads all chunks in the same order. If they do not all fit into the cache, an LRU cache
would always have evicted the chunk that is needed next. This cache instead keeps the first chunks
until its budget is used up, and does not keep the others. Chunks that are kept are read only once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.metadata import version

import numpy as np

#: Maximum number of requests to remote storage at once that a process makes ahead of its tasks.
N_FETCHERS = 16


class ChunkCache:
    """A cache of the chunks of one store, limited in bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._store: Hashable = None
        self._chunks: dict[Hashable, np.ndarray] = {}
        self._checked: set[Hashable] = set()
        self._size = 0

    @property
    def nbytes(self) -> int:
        """The bytes of all cached chunks."""
        return self._size

    def get(
        self,
        store: Hashable,
        chunk: Hashable,
        budget: int,
        n_bytes: int,
        read: Callable[[bool], np.ndarray],
        check: Callable[[np.ndarray], None],
    ) -> np.ndarray:
        """Return a chunk from the cache, or read it and keep it if there is room.

        The result must not be written to.

        Parameters
        ----------
        store
            Identifies the store; chunks of another store are evicted.
        chunk
            Identifies the chunk within the store.
        budget
            Maximum bytes of all cached chunks.
        n_bytes
            Bytes of this chunk.
        read
            Function that reads the chunk. Its argument is whether the chunk will be kept.
        check
            Function that raises an error if the content is invalid. It is called only when a chunk
            is read for the first time; later reads rely on the checksum.

        Examples
        --------
        >>> cache = ChunkCache()
        >>> read = lambda keep: print("reads") or np.zeros(3)
        >>> for _ in range(2):
        ...     chunk = cache.get("store", 0, 100, 24, read, lambda chunk: None)
        reads
        """
        with self._lock:
            if store != self._store:
                self._checked = set()
            if store != self._store or self._size > budget:
                self._store, self._chunks, self._size = store, {}, 0
            if chunk in self._chunks:
                return self._chunks[chunk]
            fits = self._size + n_bytes <= budget
            is_new = chunk not in self._checked
        found = read(fits)
        if is_new:
            check(found)
        with self._lock:
            if store == self._store:
                self._checked.add(chunk)
            fits = fits and self._size + found.nbytes <= budget
            if fits and store == self._store and chunk not in self._chunks:
                found.setflags(write=False)
                self._chunks[chunk] = found
                self._size += found.nbytes
        return found

    def holds(self, store: Hashable, chunk: Hashable) -> bool:
        """Return whether a chunk of a store is cached.

        Examples
        --------
        >>> ChunkCache().holds("store", 0)
        False
        """
        with self._lock:
            return store == self._store and chunk in self._chunks

    def clear(self) -> None:
        """Remove all chunks."""
        with self._lock:
            self._store, self._chunks, self._size = None, {}, 0
            self._checked = set()


class Process:
    """The state of a process that runs tasks."""

    def __init__(self) -> None:
        self.chunks = ChunkCache()
        # kernels whose compilation was reported, and the modules or types that were looked up
        self.announced: set[str] = set()
        self._thread = threading.local()
        self._tables: dict[str, np.ndarray] = {}
        self._fetchers: ThreadPoolExecutor | None = None

    @property
    def fetchers(self) -> ThreadPoolExecutor:
        """The threads that read from remote storage ahead of the tasks."""
        if self._fetchers is None:
            self._fetchers = ThreadPoolExecutor(N_FETCHERS, "hofs_dask-fetch")
        return self._fetchers

    def memory(self, use: str, n_bytes: int) -> np.ndarray:
        """Return a uint8 array of at least ``n_bytes`` bytes as work memory of this thread.

        ``use`` is the name of a purpose. Later calls with the same name return the same memory,
        because the first access to new memory takes longer than the computation. The content is
        undefined.

        Examples
        --------
        >>> process = Process()
        >>> process.memory("codes", 10) is process.memory("codes", 5)
        True
        """
        kept: dict[str, np.ndarray] = vars(self._thread)
        found = kept.get(use)
        if found is None or len(found) < n_bytes:
            found = kept[use] = np.empty(n_bytes, np.uint8)
        return found

    def table(self, name: str, n: int, fill: Callable[[int], np.ndarray]) -> np.ndarray:
        """Return a table of a function of 0, 1, ... with at least ``n`` entries, made by ``fill``.

        Examples
        --------
        >>> process = Process()
        >>> len(process.table("squares", 3, lambda n: np.arange(n) ** 2)) >= 3
        True
        """
        found = self._tables.get(name)
        if found is None or len(found) < n:
            found = self._tables[name] = fill(n)
        return found

    @cached_property
    def version(self) -> str:
        """The version of the package, which takes milliseconds to read."""
        return version("hofs-dask")

    def reset(self) -> None:
        """Remove all chunks, the record of reported kernels, and the work memory of all threads.

        The threads that read ahead end.
        """
        if self._fetchers is not None:
            self._fetchers.shutdown()
            self._fetchers = None
        self.chunks.clear()
        self.announced.clear()
        self._thread = threading.local()
        self._tables = {}


#: The state of this process.
PROCESS = Process()
