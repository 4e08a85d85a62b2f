"""What a walk over the samples takes of a worker's memory, known before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask.config
import numpy as np
from dask.utils import format_bytes, parse_bytes

from hofs_dask.data.codes import CodeStore
from hofs_dask.engine.cluster import Worker
from hofs_dask.engine.statistic import Pass

#: A worker pauses at 80 % of its limit; what is planned stays below.
USABLE = 0.75
#: The share of a worker's memory limit that decoded chunks may take where there is room.
CACHE_SHARE = 0.3
#: Copies of the codes of a chunk as bytes: all of them, those that have a label.
CHUNK_COPIES = 2
#: Bytes a sample beside its codes: its row number and hash, label and fold.
SAMPLE_BYTES = 40
#: What a block of signals or posteriors takes within a map task.
BLOCK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Estimate:
    """The memory of the worker that a pass presses most.

    Attributes
    ----------
    resident
        What the process takes before the pass.
    tasks
        Chunks, blocks and one partial a thread.
    partials
        Partials that wait to be combined.
    context
        What the driver sends.
    cache
        Decoded chunks that are kept for the next pass.
    limit
        What the worker may take.
    """

    resident: int
    tasks: int
    partials: int
    context: int
    cache: int
    limit: int

    @property
    def needed(self) -> int:
        """Bytes without which the pass cannot run."""
        return self.resident + self.tasks + self.partials + self.context

    @property
    def total(self) -> int:
        """The expected peak, in bytes."""
        return self.needed + self.cache

    @property
    def fits(self) -> bool:
        """Whether a worker can do it without pausing."""
        return self.needed <= int(USABLE * self.limit)

    def __str__(self) -> str:
        parts = ("resident", "tasks", "partials", "context", "cache")
        inner = ", ".join(f"{name} {format_bytes(getattr(self, name))}" for name in parts)
        return f"{format_bytes(self.total)} of {format_bytes(self.limit)} a worker ({inner})"


def estimate(
    codes: CodeStore, walk: Sequence[Pass], workers: tuple[Worker, ...], fan_in: int
) -> Estimate:
    """The memory that a walk takes of the worker with the least room.

    Parameters
    ----------
    codes
        The store.
    walk
        The passes that share it.
    workers
        The processes that it runs on.
    fan_in
        Partials that one task combines.
    """
    worker = min(workers, key=lambda worker: worker.memory_limit - worker.resident)
    tile = min(codes.chunks[1], codes.n_features)
    columns = {column for request in walk for column in request.columns}
    resampled = any(request.resample is not None for request in walk)
    chunk = codes.chunks[0] * (tile + len(columns)) * (CHUNK_COPIES + resampled)
    chunk += codes.chunks[0] * (SAMPLE_BYTES + tile * codes.bits // 8)
    partial = sum(request.statistic.nbytes(request.context, tile) for request in walk)
    found = Estimate(
        resident=worker.resident,
        tasks=worker.n_threads * (chunk + BLOCK_BYTES + partial),
        # those that one task combines, its running sum, and two on their way
        partials=(fan_in + 3) * partial,
        context=2 * sum(_size(request.context) for request in walk),
        cache=0,
        limit=worker.memory_limit,
    )
    # codes, labels and copied columns, shared out in whole chunks
    width = codes.n_features * codes.bits / 8 + 1 + len(columns)
    share = int((codes.n_samples // len(workers) + codes.chunks[0]) * width)
    room = int(USABLE * found.limit) - found.needed
    cache = max(min(_cache_setting(found.limit), room, share), 0)
    return Estimate(**{**vars(found), "cache": cache})


def check(codes: CodeStore, request: Pass, found: Estimate, n_threads: int) -> None:
    """Raise a MemoryError with both numbers and the chunks to use where a pass does not fit."""
    if found.fits:
        return
    usable = int(USABLE * found.limit)
    tile = min(codes.chunks[1], codes.n_features)
    # what does not shrink with the width of a tile
    fixed = found.resident + n_threads * (BLOCK_BYTES + codes.chunks[0] * SAMPLE_BYTES)
    narrower = int(tile * (usable - fixed) / max(found.needed - fixed, 1) / 1.1)
    enough = format_bytes(int(found.needed / USABLE) + 1)
    advice = f"give the workers {enough} or more" + ", or fewer threads" * (n_threads > 1)
    if narrower >= 1:
        advice = f"encode again with chunks=({codes.chunks[0]}, {narrower}), or {advice}"
    raise MemoryError(
        f"a pass for {request.statistic.name} takes {format_bytes(found.needed)} of a worker that "
        f"may use {format_bytes(usable)} of its {format_bytes(found.limit)} with chunks of "
        f"{codes.chunks[0]} samples x {tile} features; {advice}"
    )


def _cache_setting(limit: int) -> int:
    setting: Any = dask.config.get("hofs_dask.cache", None)
    return int(CACHE_SHARE * limit) if setting is None else int(parse_bytes(setting))


def _size(value: Any) -> int:
    """The bytes of the arrays in a context."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(_size(item) for item in value.values())
    if isinstance(value, tuple):
        return sum(_size(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return sum(_size(getattr(value, name)) for name in value.__dataclass_fields__)
    return 0
