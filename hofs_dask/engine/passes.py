"""Passes over the code store: map tasks that read their own codes, a fixed tree, one compute."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import dask.base
import numpy as np
from dask.delayed import delayed

from hofs_dask.data.codes import CodeStore, read_codes, read_labels
from hofs_dask.engine.statistic import Block, Context, Partial, Pass, Statistic
from hofs_dask.engine.statistics import N_FOLDS
from hofs_dask.kernels.hashing import row_hash

#: Codes that a map task reads, about: enough to make a task worth its message.
TASK_BYTES = 64 * 2**20
#: As many tasks as this where there are chunks enough, so that a laptop's cores share small data.
MIN_TASKS = 16
#: Partials that one task of the tree combines.
FAN_IN = 8

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Place:
    """Where a task finds its codes."""

    path: str
    label_key: str
    columns: tuple[int, ...]
    chunk_samples: int
    chunk_features: int


def run(codes: CodeStore, request: Pass) -> Partial:
    """The finished total of a statistic over all samples that have a label.

    One task takes a span of row chunks and one tile of features; the spans depend on the store
    alone, so that the sums are the same on any cluster.
    """
    statistic, context = request.statistic, request.context
    chunk_samples, chunk_features = codes.chunks
    place = _Place(codes.path, codes.labels.key, request.columns, chunk_samples, chunk_features)
    totals = []
    for features in _cuts(codes.n_features, chunk_features):
        tile = delayed(context.tile(features), pure=False, traverse=False)
        partials = [
            delayed(_map_span, name=f"{statistic.name}-map", pure=False, traverse=False)(
                statistic, tile, place, rows, features
            )
            for rows in _spans(codes)
        ]
        while len(partials) > 1:
            partials = [
                delayed(_combine, name=f"{statistic.name}-combine", pure=False)(
                    statistic, partials[start : start + FAN_IN]
                )
                for start in range(0, len(partials), FAN_IN)
            ]
        totals.append(partials[0])
    tiles = dask.base.compute(*totals)
    whole = {name: np.concatenate([tile[name] for tile in tiles]) for name in tiles[0]}
    return statistic.finalize(context, whole)


def drive(codes: CodeStore, steps: Generator[Pass, Partial, Result]) -> Result:
    """What a method's generator returns, given the total of every pass that it asks for."""
    try:
        request = next(steps)
        while True:
            request = steps.send(run(codes, request))
    except StopIteration as stop:
        result: Result = stop.value
        return result


def read_block(place: _Place, rows: slice, features: slice) -> Block:
    """The labelled samples of some rows, with the columns that the pass asked for."""
    codes = read_codes(place.path, rows, features)
    labels = read_labels(place.path, place.label_key, rows)
    columns = np.empty((len(labels), len(place.columns)), dtype=np.uint8)
    for tile in sorted({column // place.chunk_features for column in place.columns}):
        start = tile * place.chunk_features
        source = (
            codes
            if start == features.start
            else read_codes(place.path, rows, slice(start, start + place.chunk_features))
        )
        for j, column in enumerate(place.columns):
            if column // place.chunk_features == tile:
                columns[:, j] = source[:, column - start]
    folds = fold_of(np.arange(rows.start, rows.stop, dtype=np.uint64))
    kept = labels != 255
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
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def _spans(codes: CodeStore) -> list[slice]:
    chunk_samples, chunk_features = codes.chunks
    n_chunks = -(-codes.n_samples // chunk_samples)
    n_bytes = codes.n_samples * min(chunk_features, codes.n_features)
    n_tasks = min(n_chunks, max(MIN_TASKS, -(-n_bytes // TASK_BYTES)))
    return _cuts(codes.n_samples, chunk_samples * -(-n_chunks // n_tasks))


def _map_span(
    statistic: Statistic, context: Context, place: _Place, span: slice, features: slice
) -> Partial:
    partial = statistic.identity(context, features.stop - features.start)
    for cut in _cuts(span.stop - span.start, place.chunk_samples):
        rows = slice(span.start + cut.start, span.start + cut.stop)
        statistic.chunk(context, read_block(place, rows, features), partial)
    return partial


def _combine(statistic: Statistic, partials: list[Partial]) -> Partial:
    return reduce(statistic.combine, partials)
