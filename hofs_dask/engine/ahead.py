"""Read the next chunks of a task from remote storage while the task computes."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

import numpy as np

from hofs_dask.scheduling.process import PROCESS
from hofs_dask.store.chunks import Chunks

#: Number of row chunks that a task requests before it needs them. Local files need none: the
#: operating system reads ahead.
DEPTH = 2

#: A chunk: its array, its tile and its row.
Wanted = tuple[Chunks, int, int]


class ReadAhead:
    """Chunks that one task has requested and not used yet.

    Examples
    --------
    >>> from hofs_dask.io.places import Place
    >>> from hofs_dask.store.chunks import write_chunk
    >>> place = Place("memory://example-ahead")
    >>> checksum = write_chunk(place, "labels/y/c/0", np.arange(4, dtype=np.uint8))
    >>> labels = Chunks("example", place, "labels/y", 4, {0: np.array([checksum])})
    >>> with ReadAhead() as ahead:
    ...     ahead.start([(labels, 0, 0)])
    ...     ahead.read(labels, 0, 0)
    array([0, 1, 2, 3], dtype=uint8)
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int, int], Future[np.ndarray]] = {}

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._pending.values():
            future.cancel()
        self._pending.clear()

    def start(self, wanted: Iterable[Wanted]) -> None:
        """Request chunks that are not local and not requested yet."""
        for chunks, tile, row in wanted:
            key = (chunks.name, tile, row)
            if not chunks.place.is_local and key not in self._pending:
                self._pending[key] = PROCESS.fetchers.submit(chunks.read, tile, row)

    def read(self, chunks: Chunks, tile: int, row: int, *, keep: bool = True) -> np.ndarray:
        """Return a chunk, requested before or now; the arguments are those of `Chunks.read`."""
        found = self._pending.pop((chunks.name, tile, row), None)
        return chunks.read(tile, row, keep=keep) if found is None else found.result()
