"""What this process keeps between tasks: chunks that were read, and memory of its threads.

No other module has state of a process that changes.

A scan reads every chunk once, in order, so a cache that drops the oldest for the newest would
always have dropped the one that comes next. This one keeps what came first until its budget is
spent and lets the rest stream by: data that fits is read once, of larger data a share is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

import numpy as np


class ChunkCache:
    """Chunks of one store at a time, up to a number of bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._store: Hashable = None
        self._chunks: dict[Hashable, np.ndarray] = {}
        self._checked: set[Hashable] = set()
        self._size = 0

    @property
    def nbytes(self) -> int:
        """What the chunks take now."""
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
        """The chunk, read if it is not here, kept if there is room; it must not be written to.

        Parameters
        ----------
        store
            Identifies the store; chunks of another one make room.
        chunk
            Identifies the chunk within the store.
        budget
            Bytes that all chunks may take.
        n_bytes
            What this chunk takes.
        read
            Reads the chunk; its argument is whether that will be kept.
        check
            Raises where the chunk holds what it cannot. It is called when a chunk is read for the
            first time: after that its checksum is enough.

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

    def clear(self) -> None:
        """Forget all chunks."""
        with self._lock:
            self._store, self._chunks, self._size = None, {}, 0
            self._checked = set()


class Process:
    """The state of a process that runs tasks."""

    def __init__(self) -> None:
        self.chunks = ChunkCache()
        self.announced: set[str] = set()  # kernels whose compilation was reported
        self._thread = threading.local()

    def memory(self, use: str, n_bytes: int) -> np.ndarray:
        """Return memory of this thread, uint8, at least as long; what it held before is void.

        Memory that is touched for the first time costs more than what is done with it, so that a
        thread keeps some for each use.

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

    def reset(self) -> None:
        """Forget all chunks, what was reported, and the memory of every thread."""
        self.chunks.clear()
        self.announced.clear()
        self._thread = threading.local()


#: The state of this process.
PROCESS = Process()
