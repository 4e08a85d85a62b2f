"""Passes over the code store: map tasks that read their own codes, a fixed tree, one compute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

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
from hofs_dask.engine.statistic import Block, Context, Partial, Pass, Statistic, frozen
from hofs_dask.engine.statistics import N_FOLDS
from hofs_dask.kernels.hashing import row_hash

#: Codes that a map task reads, about: enough to make a task worth its message and its partial.
TASK_BYTES = 256 * 2**20
#: As many tasks as this where there are chunks enough, so that a laptop's cores share small data.
MIN_TASKS = 16
#: Partials that one task of the tree combines: few, so that few wait in memory.
FAN_IN = 4


@dataclass(frozen=True)
class _Place:
    """Where a task finds its codes."""

    path: str
    label_key: str
    columns: tuple[int, ...]
    copied: frozenset[int]  # the columns that have a copy of their own
    chunk_samples: int
    chunk_features: int
    fingerprint: str
    cache: int  # bytes of decoded chunks that a process may keep


def plan(codes: CodeStore, request: Pass) -> Estimate:
    """The memory that a pass takes of the current workers."""
    return estimate(codes, request, current_workers(), FAN_IN)


def run(codes: CodeStore, request: Pass) -> Partial:
    """The finished total of a statistic over all samples that have a label.

    One task takes a span of row chunks and one tile of features; the spans depend on the store
    alone, so that the sums are the same on any cluster. Where there are several tiles, a column
    that all of them need is copied first, so that no tile has to read its neighbours.
    """
    statistic, context = request.statistic, request.context
    workers = current_workers()
    found = estimate(codes, request, workers, FAN_IN)
    check(codes, request, found, max(worker.n_threads for worker in workers))
    tiles, spans = _cuts(codes.n_features, codes.chunks[1]), _spans(codes)
    have = copied_columns(codes.path) if len(tiles) > 1 else set()
    new = tuple(column for column in request.columns if column not in have)
    copies: list[Delayed | None] = [None] * len(spans)
    if len(tiles) > 1 and new and begin_columns(codes, new):
        copies = [
            _task(f"{statistic.name}-copy", _copy_columns, codes.path, new, rows, codes.chunks)
            for rows in spans
        ]
        have = have.union(new)
    place = _Place(
        codes.path,
        codes.labels.key,
        request.columns,
        frozenset(have),
        *codes.chunks,
        codes.fingerprint,
        found.cache,
    )
    totals = []
    for features in tiles:
        tile = delayed(context.tile(features), pure=False, traverse=False)
        partials = []
        for number, (rows, copy) in enumerate(zip(spans, copies, strict=True)):
            # neighbours go to one worker, the same each round: there its cache has their chunks,
            # and their partials meet without a transfer
            with _at(workers[number * len(workers) // len(spans)]):
                partials.append(
                    _task(
                        f"{statistic.name}-map",
                        _map_span,
                        statistic,
                        tile,
                        place,
                        rows,
                        features,
                        copy,
                    )
                )
        while len(partials) > 1:
            partials = [
                _task(f"{statistic.name}-combine", _combine, statistic, *partials[a : a + FAN_IN])
                for a in range(0, len(partials), FAN_IN)
            ]
        totals.append(partials[0])
    parts = compute(*totals)
    if copies[0] is not None:
        finish_columns(codes.path, new)
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return statistic.finalize(context, whole)


def read_block(place: _Place, rows: slice, features: slice) -> Block:
    """The labelled samples of some rows, with the columns that the pass asked for."""

    def cached(name: str, read: Callable[[], np.ndarray]) -> np.ndarray:
        store = (place.path, place.fingerprint, place.label_key)
        return CACHE.get(store, (name, rows.start, rows.stop), place.cache, read)

    codes = cached(f"codes {features}", lambda: read_codes(place.path, rows, features))
    labels = cached("labels", lambda: read_labels(place.path, place.label_key, rows))
    columns = np.empty((len(labels), len(place.columns)), dtype=np.uint8)
    for j, column in enumerate(place.columns):
        if features.start <= column < features.stop:
            columns[:, j] = codes[:, column - features.start]
        elif column in place.copied:
            columns[:, j] = cached(
                f"column {column}", functools.partial(read_column, place.path, column, rows)
            )
        else:  # the store cannot be written to
            columns[:, j] = read_codes(place.path, rows, slice(column, column + 1))[:, 0]
    folds = fold_of(np.arange(rows.start, rows.stop, dtype=np.uint64))
    kept = labels != DROPPED
    if kept.all():
        return Block(codes, columns, labels, folds)
    return Block(codes[kept], columns[kept], labels[kept], folds[kept])


def fold_of(rows: np.ndarray) -> np.ndarray:
    """The folds of global row numbers: a hash, so that no chunking and no order moves them.

    Examples
    --------
    >>> fold_of(np.arange(6, dtype=np.uint64)).max() < 4
    np.True_
    """
    folds: np.ndarray = (row_hash(rows) % np.uint64(N_FOLDS)).astype(np.uint8)
    return folds


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


def _copy_columns(
    path: str, columns: tuple[int, ...], span: slice, chunks: tuple[int, int]
) -> None:
    for column in columns:
        for rows in _cuts_of(span, chunks[0]):
            codes = read_codes(path, rows, slice(column, column + 1))
            write_column(path, column, rows, codes[:, 0])


def _map_span(
    statistic: Statistic,
    context: Context,
    place: _Place,
    span: slice,
    features: slice,
    _after: None,  # the copies of the columns of this span
) -> Partial:
    context = frozen(context)
    total = statistic.identity(context, features.stop - features.start)
    for rows in _cuts_of(span, place.chunk_samples):
        statistic.chunk(context, frozen(read_block(place, rows, features)), total)
    return total


def _combine(statistic: Statistic, *partials: Partial) -> Partial:
    return functools.reduce(statistic.combine, partials)
