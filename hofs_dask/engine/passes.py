"""Walks over the code store: map tasks that read their own codes, a fixed tree, one compute."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import dask.base
import numpy as np
from dask.delayed import Delayed, delayed

from hofs_dask.data.codes import (
    CodeStore,
    begin_columns,
    copied_columns,
    finish_columns,
    read_codes,
    read_column,
    read_labels,
    write_column,
)
from hofs_dask.data.compute import compute
from hofs_dask.data.labels import DROPPED
from hofs_dask.engine.budget import Estimate, check, estimate
from hofs_dask.engine.cache import CACHE
from hofs_dask.engine.cluster import Worker, current_workers
from hofs_dask.engine.statistic import (
    Block,
    Context,
    Partial,
    Pass,
    Statistic,
    combine,
    frozen,
)
from hofs_dask.engine.statistics import N_FOLDS
from hofs_dask.kernels.hashing import fold_of, multiplicity

#: Codes that a map task reads, about: enough to make a task worth its message and its partial.
TASK_BYTES = 256 * 2**20
#: As many tasks as this where there are chunks enough, so that a laptop's cores share small data.
MIN_TASKS = 16
#: Partials that one task of the tree combines: few, so that few wait in memory.
FAN_IN = 4
#: Columns beyond this share of a tile are not copied: reading their tiles is no dearer.
COPY_SHARE = 0.125
#: That few are copied, however narrow the tiles.
COPY_ALWAYS = 32


@dataclass(frozen=True)
class _Place:
    """Where a task finds its codes."""

    path: str
    label_key: str
    columns: tuple[int, ...]
    copied: frozenset[int]  # the columns that have a copy of their own
    n_samples: int
    n_features: int
    chunk_samples: int
    chunk_features: int
    fingerprint: str
    cache: int  # bytes of decoded chunks that a process may keep


@dataclass(frozen=True)
class _Job:
    """A pass as a task of its walk sees it, but for its context."""

    statistic: Statistic
    columns: tuple[int, ...]  # places among the columns of the walk
    resample: int | None


@dataclass(frozen=True)
class _Plan:
    """What the tasks of one tile do, but for their rows."""

    place: _Place
    features: slice
    jobs: tuple[_Job, ...]
    contexts: tuple[Context, ...]


def plan(codes: CodeStore, request: Pass) -> Estimate:
    """The memory that a pass takes of the current workers."""
    return estimate(codes, [request], current_workers(), FAN_IN)


def walks(codes: CodeStore, requests: Sequence[Pass]) -> list[list[Pass]]:
    """The requests in order, cut into as few walks as fit the memory of the current workers."""
    workers = current_workers()
    found: list[list[Pass]] = []
    for request in requests:
        if found and estimate(codes, [*found[-1], request], workers, FAN_IN).fits:
            found[-1].append(request)
        else:
            found.append([request])
    return found


def run(codes: CodeStore, walk: Sequence[Pass]) -> list[Partial]:
    """The finished totals of passes over all samples that have a label, in one walk over them.

    One task takes a span of row chunks and one tile of features; the spans depend on the store
    alone, so that the sums are the same on any cluster. Where there are several tiles, a column
    that all of them need is copied first, so that no tile has to read its neighbours.
    """
    workers = current_workers()
    found = estimate(codes, walk, workers, FAN_IN)
    if len(walk) == 1:  # several are put together only where they fit
        check(codes, walk[0], found, max(worker.n_threads for worker in workers))
    tiles, spans = _cuts(codes.n_features, codes.chunks[1]), _spans(codes)
    columns = tuple(dict.fromkeys(column for request in walk for column in request.columns))
    name = "+".join(dict.fromkeys(request.statistic.name for request in walk))
    have, new = frozenset[int](), tuple[int, ...]()
    copies: list[Any] = [None] * len(spans)
    if len(tiles) > 1 and len(columns) <= max(COPY_SHARE * codes.chunks[1], COPY_ALWAYS):
        have, copies, new = _copies(codes, columns, spans, name)
    place = _Place(
        codes.path,
        codes.labels.key,
        columns,
        have,
        codes.n_samples,
        codes.n_features,
        *codes.chunks,
        codes.fingerprint,
        found.cache,
    )
    jobs = tuple(
        _Job(
            request.statistic,
            tuple(columns.index(column) for column in request.columns),
            request.resample,
        )
        for request in walk
    )
    totals = []
    for features in tiles:
        contexts = tuple(request.context.tile(features) for request in walk)
        # all that the tasks of a tile have in common is one key of the graph
        common = delayed(_Plan(place, features, jobs, contexts), pure=False, traverse=False)
        partials = []
        for number, (rows, copy) in enumerate(zip(spans, copies, strict=True)):
            # neighbours go to one worker, the same each round: there its cache has their chunks,
            # and their partials meet without a transfer
            with _at(workers[number * len(workers) // len(spans)]):
                partials.append(_task(f"{name}-map", _map_span, common, rows, copy))
        while len(partials) > FAN_IN:
            partials = [
                _task(f"{name}-combine", _combine, *partials[a : a + FAN_IN])
                for a in range(0, len(partials), FAN_IN)
            ]
        totals.append(_task(f"{name}-finish", _finish, common, *partials))
    parts = compute(*totals)
    if new:
        finish_columns(codes.path, new)
    return [_joined([part[number] for part in parts]) for number in range(len(walk))]


def read_block(place: _Place, rows: slice, features: slice) -> tuple[Block, np.ndarray]:
    """The labelled samples of some rows, with the columns of the walk, and the rows' numbers."""
    n_rows = rows.stop - rows.start

    def cached(name: str, n_columns: int, read: Callable[[bool], np.ndarray]) -> np.ndarray:
        store = (place.path, place.fingerprint, place.label_key)
        chunk = (name, rows.start, rows.stop)
        return CACHE.get(store, chunk, place.cache, n_rows * n_columns, read)

    def tile(part: slice, *, own: bool) -> np.ndarray:
        return cached(
            f"codes {part}",
            part.stop - part.start,
            lambda keep: read_codes(place.path, part, rows, keep=keep or not own),
        )

    codes = tile(features, own=True)
    labels = cached("labels", 1, lambda _: read_labels(place.path, place.label_key, rows))
    columns = np.empty((len(place.columns), len(labels)), dtype=np.uint8)
    elsewhere: dict[int, list[int]] = {}
    for j, column in enumerate(place.columns):
        if features.start <= column < features.stop:
            columns[j] = codes[column - features.start]
        elif column in place.copied:
            read = functools.partial(_read_copy, place.path, column, rows)
            columns[j] = cached(f"column {column}", 1, read)
        else:
            elsewhere.setdefault(column // place.chunk_features, []).append(j)
    for number, places in elsewhere.items():
        first = number * place.chunk_features
        neighbour = tile(
            slice(first, min(first + place.chunk_features, place.n_features)), own=False
        )
        for j in places:
            columns[j] = neighbour[place.columns[j] - first]
    numbers = np.arange(rows.start, rows.stop, dtype=np.uint64)
    block = Block(codes, columns, labels, fold_of(rows.start, rows.stop, N_FOLDS))
    kept = np.flatnonzero(labels != DROPPED)
    if len(kept) == len(labels):
        return block, numbers
    return _taken(block, kept), numbers[kept]


def _read_copy(path: str, column: int, rows: slice, _keep: bool) -> np.ndarray:
    return read_column(path, column, rows)


def _taken(block: Block, samples: np.ndarray) -> Block:
    """The samples at these places of a block."""
    return Block(
        np.take(block.codes, samples, axis=1),
        np.take(block.columns, samples, axis=1),
        block.labels[samples],
        block.folds[samples],
    )


def _cuts(length: int, step: int) -> list[slice]:
    return _cuts_of(slice(0, length), step)


def _cuts_of(span: slice, step: int) -> list[slice]:
    starts = range(span.start, span.stop, step)
    return [slice(start, min(start + step, span.stop)) for start in starts]


def _spans(codes: CodeStore) -> list[slice]:
    chunk_samples, chunk_features = codes.chunks
    n_chunks = -(-codes.n_samples // chunk_samples)
    n_bytes = codes.n_samples * min(chunk_features, codes.n_features)
    n_tasks = min(n_chunks, max(MIN_TASKS, -(-n_bytes // TASK_BYTES)))
    return _cuts(codes.n_samples, chunk_samples * -(-n_chunks // n_tasks))


def _at(worker: Worker) -> AbstractContextManager[object]:
    """Tasks made in this context prefer a worker; another takes them when it is gone."""
    if not worker.address:
        return nullcontext()
    return dask.base.annotate(workers=[worker.address], allow_other_workers=True)


def _task(name: str, function: Callable[..., object], *arguments: object) -> Delayed:
    task: Delayed = delayed(function, name=name, pure=False, traverse=False)(*arguments)
    return task


def _copies(
    codes: CodeStore, columns: tuple[int, ...], spans: list[slice], name: str
) -> tuple[frozenset[int], list[Any], tuple[int, ...]]:
    """The columns that have copies, the tasks that make new ones, one a span, and the new ones."""
    have = frozenset(copied_columns(codes.path))
    new = tuple(column for column in columns if column not in have)
    if not new or not begin_columns(codes, new):  # the store may be one that cannot be written to
        return have, [None] * len(spans), ()
    copies = [
        _task(f"{name}-copy", _copy_columns, codes.path, new, rows, codes.chunks) for rows in spans
    ]
    return have.union(new), copies, new


def _copy_columns(
    path: str, columns: tuple[int, ...], span: slice, chunks: tuple[int, int]
) -> None:
    for column in columns:
        for rows in _cuts_of(span, chunks[0]):
            codes = read_codes(path, slice(column, column + 1), rows)
            write_column(path, column, rows, codes[0])


def _map_span(
    plan: _Plan,
    span: slice,
    _after: None,  # the copies of the columns of this span
) -> tuple[Partial, ...]:
    contexts = frozen(plan.contexts)
    n_features = plan.features.stop - plan.features.start
    totals = tuple(
        job.statistic.identity(context, n_features)
        for job, context in zip(plan.jobs, contexts, strict=True)
    )
    for rows in _cuts_of(span, plan.place.chunk_samples):
        block, numbers = read_block(plan.place, rows, plan.features)
        for resample in dict.fromkeys(job.resample for job in plan.jobs):
            samples = block
            if resample is not None:
                drawn = multiplicity(numbers, plan.place.n_samples, resample)
                samples = _taken(block, np.repeat(np.arange(len(drawn)), drawn))
            for job, context, total in zip(plan.jobs, contexts, totals, strict=True):
                if job.resample == resample:
                    columns = samples.columns[list(job.columns)]
                    job.statistic.chunk(context, frozen(replace(samples, columns=columns)), total)
    return totals


def _combine(*partials: tuple[Partial, ...]) -> tuple[Partial, ...]:
    return tuple(functools.reduce(combine, several) for several in zip(*partials, strict=True))


def _finish(plan: _Plan, *partials: tuple[Partial, ...]) -> tuple[Partial, ...]:
    return tuple(
        job.statistic.finalize(context, total)
        for job, context, total in zip(
            plan.jobs, frozen(plan.contexts), _combine(*partials), strict=True
        )
    )


def _joined(tiles: list[Partial]) -> Partial:
    """The total of all features from those of the tiles."""
    if len(tiles) == 1:
        return tiles[0]
    return {name: np.concatenate([tile[name] for tile in tiles]) for name in tiles[0]}
