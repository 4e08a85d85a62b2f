"""Estimate the memory that a scan needs on a worker, before the scan starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask.config
import numpy as np
from dask.utils import format_bytes, parse_bytes

from hofs_dask.engine.ahead import DEPTH
from hofs_dask.engine.chunking import Room, choose_layout
from hofs_dask.engine.cluster import RESIDENT, Worker, memory_limits
from hofs_dask.engine.partition import CHUNK_COPIES, FAN_IN, WAITING, Partition, held_bytes
from hofs_dask.engine.reduction import Request
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.layout import layout_of

#: Fraction of a worker's memory limit that a scan may use; Dask pauses a worker at 80 %.
USABLE = 0.75
#: Maximum fraction of a worker's memory limit for cached chunks.
CACHE_SHARE = 0.3
#: Bytes that are planned per thread for temporary arrays of a map task, such as posteriors.
BLOCK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Estimate:
    """The estimated memory of a scan on the worker with the least free memory, in bytes.

    Attributes
    ----------
    resident
        Memory that the process uses before the scan.
    tasks
        Chunks, temporary arrays and partials of the running tasks, one task per thread.
    partials
        Partials that wait to be combined.
    context
        The contexts (parameters) of the reductions, which the driver sends.
    cache
        Decoded chunks that are kept for the next scan.
    limit
        Memory limit of the worker.
    """

    resident: int
    tasks: int
    partials: int
    context: int
    cache: int
    limit: int

    @property
    def needed(self) -> int:
        """The bytes that the scan needs: everything except the cache, which is optional."""
        return self.resident + self.tasks + self.partials + self.context

    @property
    def total(self) -> int:
        """The expected peak memory of the worker, in bytes."""
        return self.needed + self.cache

    @property
    def fits(self) -> bool:
        """Whether the scan needs so little memory that Dask does not pause the worker."""
        return self.needed <= int(USABLE * self.limit)

    def __str__(self) -> str:
        parts = ("resident", "tasks", "partials", "context", "cache")
        inner = ", ".join(f"{name} {format_bytes(getattr(self, name))}" for name in parts)
        return f"{format_bytes(self.total)} of {format_bytes(self.limit)} per worker ({inner})"


def estimate(codes: CodeStore, scan: Sequence[Request], workers: tuple[Worker, ...]) -> Estimate:
    """Return the memory that a scan needs on the worker with the least free memory.

    Parameters
    ----------
    codes
        The code store.
    scan
        The requests that share the scan.
    workers
        The processes that run the scan.
    """
    worker = min(workers, key=lambda worker: worker.memory_limit - worker.resident)
    layout = layout_of(codes)
    columns = {column for request in scan for column in request.columns}
    resampled = any(request.resample is not None for request in scan)
    chunk = held_bytes(layout, len(columns), CHUNK_COPIES + resampled)
    if not codes.root.is_local:
        chunk += (DEPTH + 1) * layout.chunk_bytes  # requested before they are needed
    groups = Partition(layout).groups(sum(worker.n_threads for worker in workers))
    # for float sums, a task keeps one partial per node of the tree, at most two per level
    n_nodes = 2 * max(group.stop - group.start for group in groups).bit_length() - 1
    partial = sum(
        request.reduction.nbytes(request.context, layout.chunks[1])
        * (1 if request.reduction.exact(request.context) else n_nodes)
        for request in scan
    )
    # Partials that wait on a worker: the results of its own map tasks, the inputs of one combine
    # task, and their sum. With few map tasks there are fewer than `WAITING`.
    n_own = -(-len(layout.tiles) * len(groups) // len(workers))
    n_waiting = min(WAITING, n_own + min(FAN_IN, len(groups)) + 1)
    found = Estimate(
        resident=worker.resident,
        tasks=worker.n_threads * (chunk + BLOCK_BYTES + partial),
        partials=n_waiting * partial,
        context=2 * sum(size_of(request.context) for request in scan),
        cache=0,
        limit=worker.memory_limit,
    )
    # bytes that one worker reads, up to one chunk more: codes, copied columns, labels, groups, and
    # weights with their sets of equal weight
    width = (codes.n_features + len(columns)) * codes.bits / 8 + 1
    width += 4 * (codes.groups is not None) + 4 * (codes.weights is not None)
    share = int((codes.n_samples // len(workers) + codes.chunks[0]) * width)
    room = int(USABLE * found.limit) - found.needed
    cache = max(min(_cache_setting(found.limit), room, share), 0)
    return replace(found, cache=cache)


def check(codes: CodeStore, request: Request, found: Estimate, workers: tuple[Worker, ...]) -> None:
    """Raise a MemoryError if a reduction does not fit into the memory of a worker.

    The message suggests a chunk size that fits, if there is one.
    """
    if found.fits:
        return
    enough = format_bytes(int(found.needed / USABLE) + 1)
    several = any(worker.n_threads > 1 for worker in workers)
    advice = f"give the workers {enough} or more" + ", or fewer threads" * several
    fitting = _fitting_chunks(codes, request, workers)
    if fitting is not None:
        advice = f"encode again with chunks={fitting}, or {advice}"
    raise MemoryError(
        f"the reduction {request.reduction.name} needs {format_bytes(found.needed)} on a worker "
        f"that may use {format_bytes(int(USABLE * found.limit))} of its "
        f"{format_bytes(found.limit)} "
        f"with chunks of {codes.chunks[0]} samples x {layout_of(codes).chunks[1]} features; "
        + advice
    )


def room() -> Room | None:
    """Return the free memory and the threads of the worker with the least memory per thread.

    The result is None if no worker has a memory limit.

    Examples
    --------
    >>> room().n_threads > 0
    True
    """
    rooms = [
        Room(int(USABLE * limit) - RESIDENT, n_threads)
        for limit, n_threads in memory_limits()
        if limit
    ]
    return min(rooms, key=lambda each: each.n_bytes // each.n_threads, default=None)


def _fitting_chunks(
    codes: CodeStore, request: Request, workers: tuple[Worker, ...]
) -> tuple[int, int] | None:
    """Return a chunk shape (samples, features) that makes the reduction fit, or None."""
    usable = min(int(USABLE * worker.memory_limit) - worker.resident for worker in workers)
    n_threads = max(worker.n_threads for worker in workers)
    samples, features = choose_layout(
        codes.n_samples,
        codes.n_features,
        int(codes.n_codes.max()),
        n_classes=len(codes.labels.classes),
        room=Room(usable - n_threads * BLOCK_BYTES, n_threads),
    ).chunks
    while True:
        chunks = min(samples, codes.chunks[0]), min(features, codes.chunks[1])
        if estimate(replace(codes, chunks=chunks), [request], workers).fits:
            return chunks
        if features == 1:
            return None
        features = -(-features // 2)


def _cache_setting(limit: int) -> int:
    setting: Any = dask.config.get("hofs_dask.cache", None)
    return int(CACHE_SHARE * limit) if setting is None else int(parse_bytes(setting))


def size_of(value: Any) -> int:
    """Return the number of bytes of all arrays in nested tuples, dicts and dataclasses."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(size_of(item) for item in value.values())
    if isinstance(value, tuple):
        return sum(size_of(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return sum(size_of(getattr(value, name)) for name in value.__dataclass_fields__)
    return 0
