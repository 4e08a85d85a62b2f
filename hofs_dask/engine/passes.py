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

from hofs_dask.data.chunks import announce_planes, read_labels, read_planes, write_planes
from hofs_dask.data.codes import CodeStore, begin_columns, copied_columns, finish_columns
from hofs_dask.data.compute import compute
from hofs_dask.data.labels import DROPPED
from hofs_dask.data.layout import FAN_IN, Layout, cuts, layout_of
from hofs_dask.data.waits import StrandedError
from hofs_dask.engine.budget import check, estimate, size_of
from hofs_dask.engine.cache import CACHE
from hofs_dask.engine.cluster import Worker, current_workers
from hofs_dask.engine.statistic import (
    N_PARTS,
    Block,
    Context,
    Partial,
    Pass,
    Statistic,
    Tile,
    combine,
    frozen,
)
from hofs_dask.kernels.hashing import fold_of, multiplicity
from hofs_dask.kernels.planes import WORD

#: Columns beyond this share of a tile are not copied: reading their tiles is no dearer.
COPY_SHARE = 0.125
#: That few are copied, however narrow the tiles.
COPY_ALWAYS = 32
#: Bytes of plans that a graph may hold more than once, and of a plan without its contexts, about.
SMALL_GRAPH, PLAN_BYTES = 2**18, 2**10


@dataclass(frozen=True)
class _Place:
    """Where a task finds its codes."""

    path: str
    label_key: str
    columns: tuple[int, ...]
    copied: frozenset[int]  # the columns that have a copy of their own
    layout: Layout
    fingerprint: str
    cache: int  # bytes of chunks that a process may keep


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


#: A part of a total: what the samples below some nodes of a fixed binary tree over the spans add up
#: to, by level and place. However the spans are shared out, floats are added in the same order.
#: A total of integers is the same in any order and has but one node, None.
_Nodes = dict[tuple[int, int] | None, Partial]


def walks(codes: CodeStore, requests: Sequence[Pass]) -> list[list[Pass]]:
    """The requests in order, cut into as few walks as fit the memory of the current workers."""
    if len(requests) == 1:  # there is nothing to cut, and asking takes time
        return [list(requests)]
    workers = current_workers(requests)
    found: list[list[Pass]] = []
    for request in requests:
        if found and estimate(codes, [*found[-1], request], workers).fits:
            found[-1].append(request)
        else:
            found.append([request])
    return found


def run(codes: CodeStore, walk: Sequence[Pass], *, pinned: bool = True) -> list[Partial]:
    """The finished totals of passes over all samples that have a label, in one walk over them.

    One task takes some spans of row chunks and one tile of features. Spans depend on the store
    alone, so that the sums are the same on any cluster; how many make a task depends on the
    workers. Where there are several tiles, a column that all of them need is copied first, so that
    no tile has to read its neighbours.
    """
    workers = current_workers(walk)
    found = estimate(codes, walk, workers)
    if len(walk) == 1 and not found.fits:  # several are put together only where they fit
        # what earlier work left behind may be gone by now
        workers = current_workers(walk, anew=True)
        found = estimate(codes, walk, workers)
        check(codes, walk[0], found, workers)
    layout = layout_of(codes)
    tiles, spans = layout.tiles, layout.spans
    groups = layout.groups(sum(worker.n_threads for worker in workers))
    columns = tuple(dict.fromkeys(column for request in walk for column in request.columns))
    name = "+".join(dict.fromkeys(request.statistic.name for request in walk))
    have, new = frozenset[int](), tuple[int, ...]()
    copies: list[Any] = [None] * len(groups)
    if len(tiles) > 1 and len(columns) <= max(COPY_SHARE * codes.chunks[1], COPY_ALWAYS):
        rows = [slice(spans[group.start].start, spans[group.stop - 1].stop) for group in groups]
        have, copies, new = _copies(codes, columns, rows, name)
    place = _Place(
        codes.path,
        codes.labels.key,
        columns,
        have,
        layout,
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
    for number, features in enumerate(tiles):
        contexts = tuple(
            request.statistic.narrow(request.context.tile(features)) for request in walk
        )
        of_plan = _tasks_of(_Plan(place, features, jobs, contexts), len(groups))
        partials = []
        for position, (group, copy) in enumerate(zip(groups, copies, strict=True)):
            # neighbours go to one worker, the same each round: there its cache has their chunks,
            # and their partials meet without a transfer
            task = number * len(groups) + position
            with _at(workers[task * len(workers) // (len(tiles) * len(groups))], pinned):
                partials.append(of_plan(f"{name}-map", _map_spans, group.start, group.stop, copy))
        while len(partials) > FAN_IN:
            partials = [
                of_plan(f"{name}-combine", _combine, *partials[a : a + FAN_IN])
                for a in range(0, len(partials), FAN_IN)
            ]
        totals.append(of_plan(f"{name}-finish", _finish, *partials))
    try:
        parts = compute(*totals)
    except StrandedError:
        if not pinned:
            raise
        return run(codes, walk, pinned=False)
    if new:
        finish_columns(codes.path, new)
    return [_joined([part[number] for part in parts]) for number in range(len(walk))]


def read_block(place: _Place, rows: slice, features: slice) -> tuple[Block, np.ndarray | None]:
    """The labelled samples of some rows with the columns of the walk, and which; None for all."""
    layout, n_rows = place.layout, rows.stop - rows.start

    def cached(name: str, n_bytes: int, read: Callable[[bool], np.ndarray]) -> np.ndarray:
        store = (place.path, place.fingerprint, place.label_key)
        return CACHE.get(store, (name, rows.start, rows.stop), place.cache, n_bytes, read)

    def tile(part: slice, *, own: bool) -> np.ndarray:
        def read(keep: bool) -> np.ndarray:
            if own and rows.stop < layout.n_samples:
                following = slice(rows.stop, min(rows.stop + n_rows, layout.n_samples))
                announce_planes(place.path, part, following)
            return read_planes(place.path, part, rows, keep=keep or not own)

        n_bytes = (part.stop - part.start) * layout.bits * -(-n_rows // WORD) * 8
        return cached(f"codes {part}", n_bytes, read)

    planes = tile(features, own=True)
    labels = cached("labels", n_rows, lambda _: read_labels(place.path, place.label_key, rows))
    columns = np.empty((len(place.columns), *planes.shape[1:]), np.uint64)
    elsewhere: dict[int, list[int]] = {}
    for j, column in enumerate(place.columns):
        if features.start <= column < features.stop:
            columns[j] = planes[column - features.start]
        elif column in place.copied:
            read = functools.partial(_read_copy, place.path, column, rows)
            (columns[j],) = cached(f"column {column}", columns[j].nbytes, read)
        else:
            elsewhere.setdefault(column // layout.chunks[1], []).append(j)
    for number, places in elsewhere.items():
        neighbour = tile(layout.tiles[number], own=False)
        first = number * layout.chunks[1]
        for j in places:
            columns[j] = neighbour[place.columns[j] - first]
    parts = fold_of(rows.start, rows.stop, N_PARTS)
    block = Block(Tile(planes, n_rows), Tile(columns, n_rows), labels, parts)
    kept = labels != DROPPED
    if kept.all():
        return block, None
    labelled = np.flatnonzero(kept)
    return _taken(block, labelled), labelled


def _read_copy(path: str, column: int, rows: slice, _keep: bool) -> np.ndarray:
    return read_planes(path, slice(0, 1), rows, name=f"columns/{column}")


def _taken(block: Block, samples: np.ndarray) -> Block:
    """The samples at these places of a block."""
    return Block(
        block.tile.take(samples),
        block.columns.take(samples),
        block.labels[samples],
        block.parts[samples],
    )


def _at(worker: Worker, pinned: bool) -> AbstractContextManager[object]:
    """Tasks made in this context prefer a worker; another takes them when it is gone.

    Where all workers are lost at once, the scheduler leaves them waiting for this one.
    """
    if not worker.address or not pinned:
        return nullcontext()
    return dask.base.annotate(workers=[worker.address], allow_other_workers=True)


def _task(name: str, function: Callable[..., object], *arguments: object) -> Delayed:
    task: Delayed = delayed(function, name=name, pure=False, traverse=False)(*arguments)
    return task


def is_small(contexts: tuple[Context, ...], n_tasks: int) -> bool:
    """Whether so many tasks of a tile have what they have in common each for itself."""
    return n_tasks * (PLAN_BYTES + size_of(contexts)) <= SMALL_GRAPH


def _tasks_of(plan: _Plan, n_tasks: int) -> Callable[..., Delayed]:
    """What makes the tasks of a tile, whose functions are given the plan first.

    It is one key of the graph. But a key is a task that all others wait for, some 6 ms, so that
    each has the plan itself where that is small.
    """
    if is_small(plan.contexts, n_tasks):
        return lambda name, function, *arguments: _task(
            name, functools.partial(function, plan), *arguments
        )
    common = delayed(plan, pure=False, traverse=False)
    return lambda name, function, *arguments: _task(name, function, common, *arguments)


def _copies(
    codes: CodeStore, columns: tuple[int, ...], groups: list[slice], name: str
) -> tuple[frozenset[int], list[Any], tuple[int, ...]]:
    """The columns that have copies, the tasks that make new ones, one a group, and the new ones."""
    have = frozenset(copied_columns(codes.path))
    new = tuple(column for column in columns if column not in have)
    if not new or not begin_columns(codes, new):  # the store may be one that cannot be written to
        return have, [None] * len(groups), ()
    copies = [
        _task(f"{name}-copy", _copy_columns, codes.path, new, rows, codes.chunks, codes.n_features)
        for rows in groups
    ]
    return have.union(new), copies, new


def _copy_columns(
    path: str, columns: tuple[int, ...], span: slice, chunks: tuple[int, int], n_features: int
) -> None:
    for rows in cuts(span, chunks[0]):
        for column in columns:
            first = column // chunks[1] * chunks[1]
            tile = slice(first, min(first + chunks[1], n_features))
            planes = read_planes(path, tile, rows, keep=False)
            own = planes[column - first : column - first + 1]
            write_planes(path, f"columns/{column}", slice(0, 1), rows, own)


def _map_spans(
    plan: _Plan,
    first: int,  # of the spans: numbers, as Dask looks into everything else that a task is given
    last: int,
    _after: None,  # the copies of the columns of these spans
) -> tuple[_Nodes, ...]:
    contexts = frozen(plan.contexts)
    ready = frozen(
        tuple(job.statistic.prepare(each) for job, each in zip(plan.jobs, contexts, strict=True))
    )
    found: tuple[_Nodes, ...] = tuple({} for _ in plan.jobs)
    spans = plan.place.layout.spans
    for number in range(first, last):
        totals = []
        for job, context, nodes in zip(plan.jobs, contexts, found, strict=True):
            node = None if job.statistic.exact(context) else (0, number)
            if node not in nodes:
                n_features = plan.features.stop - plan.features.start
                nodes[node] = job.statistic.identity(context, n_features)
            totals.append(nodes[node])
        for rows in cuts(spans[number], plan.place.layout.chunks[0]):
            if any(context is not None for context in ready):
                _add_chunk(plan, ready, rows, totals)
        for nodes in found:
            _climb(nodes, len(spans))
    return found


def _add_chunk(
    plan: _Plan, contexts: Sequence[Context | None], rows: slice, totals: Sequence[Partial]
) -> None:
    block, places = read_block(plan.place, rows, plan.features)
    for resample in dict.fromkeys(job.resample for job in plan.jobs):
        samples = block
        if resample is not None:
            numbers = np.arange(rows.start, rows.stop, dtype=np.uint64)
            numbers = numbers if places is None else numbers[places]
            drawn = multiplicity(numbers, plan.place.layout.n_samples, resample)
            samples = _taken(block, np.repeat(np.arange(len(drawn)), drawn))
        for job, context, total in zip(plan.jobs, contexts, totals, strict=True):
            if job.resample == resample and context is not None:
                columns = samples.columns.only(np.array(job.columns, np.intp))
                job.statistic.chunk(context, frozen(replace(samples, columns=columns)), total)


def _climb(nodes: _Nodes, n_leaves: int) -> None:
    """Put in one what neighbours have that are below one node, as high as they reach."""
    level = 0
    while n_leaves > 1:
        for node in sorted(node for node in nodes if node is not None and node[0] == level):
            place, other = node[1], (level, node[1] + 1)
            if place % 2 == 0 and other in nodes:
                nodes[level + 1, place // 2] = combine(nodes.pop(node), nodes.pop(other))
            elif place == n_leaves - 1 and place % 2 == 0:
                nodes[level + 1, place // 2] = nodes.pop(node)
        level, n_leaves = level + 1, -(-n_leaves // 2)


def _combine(plan: _Plan, *partials: tuple[_Nodes, ...]) -> tuple[_Nodes, ...]:
    found: tuple[_Nodes, ...] = tuple({} for _ in plan.jobs)
    n_spans = len(plan.place.layout.spans)
    for partial in partials:
        for nodes, more in zip(found, partial, strict=True):
            for node, total in more.items():
                nodes[node] = combine(nodes[node], total) if node in nodes else total
            _climb(nodes, n_spans)
    return found


def _finish(plan: _Plan, *partials: tuple[_Nodes, ...]) -> tuple[Partial, ...]:
    finished = []
    for job, context, nodes in zip(
        plan.jobs, frozen(plan.contexts), _combine(plan, *partials), strict=True
    ):
        (total,) = nodes.values()
        finished.append(job.statistic.finalize(context, total))
    return tuple(finished)


def _joined(tiles: list[Partial]) -> Partial:
    """The total of all features from those of the tiles."""
    if len(tiles) == 1:
        return tiles[0]
    return {name: np.concatenate([tile[name] for tile in tiles]) for name in tiles[0]}
