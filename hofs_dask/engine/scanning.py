"""Run scans over the code store: map tasks read chunks, and a fixed tree combines their partials.

A scan is one call of Dask's compute.
"""

from __future__ import annotations

import functools
import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import dask.base
import numpy as np
from dask.delayed import Delayed, delayed

from hofs_dask.engine.ahead import DEPTH, ReadAhead, Wanted
from hofs_dask.engine.budget import Estimate, check, estimate, size_of
from hofs_dask.engine.cluster import Worker, current_workers
from hofs_dask.engine.partition import FAN_IN, Partition
from hofs_dask.engine.reduction import (
    N_CLUSTERS,
    N_FOLDS,
    N_PARTS,
    NO_WEIGHTS,
    Block,
    Context,
    Partial,
    Reduction,
    Request,
    Tile,
    combine,
    frozen,
    split_sets,
)
from hofs_dask.kernels.hashing import draw_groups, fold_of, multiplicity
from hofs_dask.kernels.planes import WORD, first_above
from hofs_dask.scheduling.compute import compute
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.scheduling.waits import StrandedError, watch_tasks
from hofs_dask.store.chunks import COLUMNS, Chunks, HeldChunks
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.copies import add_copies, copy_chunks, joined, known_copies, write_copy
from hofs_dask.store.layout import Layout, cuts, layout_of

#: The columns of a scan are the features that the tasks of all tiles need. They are copied only if
#: they are at most this fraction of a tile. For more columns, reading whole tiles costs no more.
COPY_SHARE = 0.125
#: Up to this many columns are copied even if the tiles are narrow.
COPY_ALWAYS = 32
#: The plan of a tile is repeated in all its tasks if this takes at most `SMALL_GRAPH` bytes. A plan
#: takes about `PLAN_BYTES` in addition to its arrays.
SMALL_GRAPH, PLAN_BYTES = 2**18, 2**10


#: Bytes of partials and samples up to which a scan in memory is not checked for memory.
LIGHT_BYTES = 2**27


#: For each copied column, the checksums of some of its row chunks. A row chunk is the part of an
#: array for the samples of one chunk.
_Copied = dict[int, np.ndarray]


@dataclass(frozen=True)
class _Place:
    """The chunks that the tasks of a tile read, and the values that are valid in them."""

    codes: Chunks | HeldChunks  # of the tiles that the tasks read
    labels: Chunks | HeldChunks
    groups: Chunks | HeldChunks | None
    n_groups: int  # 0 if the samples are not grouped
    weights: Chunks | HeldChunks | None
    largest_weight: int  # 1 if all samples count equally
    copied: _Copied  # the columns that have been copied, with checksums for all row chunks
    columns: tuple[int, ...]
    column_codes: tuple[int, ...]  # number of codes of each column
    n_codes: dict[int, np.ndarray]  # number of codes of each feature, for each tile that is read
    n_classes: int
    partition: Partition
    identity: str
    cache: int  # maximum bytes of chunks that a process keeps

    @classmethod
    def of(
        cls,
        codes: CodeStore,
        partition: Partition,
        columns: tuple[int, ...],
        copied: _Copied,
        features: slice,
        cache: int,
    ) -> _Place:
        """Return the chunks for the tasks of the tile of ``features``."""
        layout, held = partition.layout, codes.held
        width = layout.chunks[1]
        tiles = {features.start // width}
        tiles |= {column // width for column in columns if column not in copied}
        return cls(
            codes=held.codes if held else codes.code_chunks.only(tiles),
            labels=held.labels if held else codes.label_chunks,
            groups=held.groups if held else codes.group_chunks,
            n_groups=codes.groups.n_groups if codes.groups else 0,
            weights=held.weights if held else codes.weight_chunks,
            largest_weight=codes.weights.largest if codes.weights else 1,
            copied=copied,
            columns=columns,
            column_codes=tuple(codes.n_codes[list(columns)].tolist()),
            n_codes={tile: codes.n_codes[tile * width : (tile + 1) * width] for tile in tiles},
            n_classes=codes.labels.n_classes,
            partition=partition,
            identity="" if held else codes.problem_identity,
            cache=cache,
        )

    @property
    def layout(self) -> Layout:
        """The layout of the store."""
        return self.partition.layout


@dataclass(frozen=True)
class _Job:
    """A reduction of a scan, without its parameters (the context)."""

    reduction: Reduction[Any]
    columns: tuple[int, ...]  # positions among the columns of the scan
    resample: int | None


@dataclass(frozen=True)
class _Plan:
    """The reductions and chunks that all tasks of one tile have in common."""

    place: _Place
    features: slice
    jobs: tuple[_Job, ...]
    contexts: tuple[Context, ...]


#: Partial totals, by node (level, position) of a fixed binary tree over the spans. The tree ensures
#: that floats are added in the same order, regardless of which tasks read which spans. Integer
#: totals do not depend on the order and have a single node, None.
_Nodes = dict[tuple[int, int] | None, Partial]


def scans(
    codes: CodeStore, requests: Sequence[Request], workers: tuple[Worker, ...] | None = None
) -> list[list[Request]]:
    """Group the requests, in order, into few scans that each fit the memory of the workers.

    By default, the workers are those of the current client. They first compile the kernels of the
    requests.
    """
    # skip the query of the workers, which takes time
    if len(requests) == 1 or (codes.held is not None and is_light(codes, requests)):
        return [list(requests)]
    workers = workers or current_workers(requests)
    found: list[list[Request]] = []
    for request in requests:
        if found and estimate(codes, [*found[-1], request], workers).fits:
            found[-1].append(request)
        else:
            found.append([request])
    return found


def run(
    codes: CodeStore,
    scan: Sequence[Request],
    *,
    pinned: bool = True,
    partition: Partition | None = None,
    report: Callable[[int, int], None] | None = None,
) -> list[Partial]:
    """Return the totals of several reductions, computed in one scan over all samples.

    A task reads some spans of one tile of features. The spans depend only on the store, so the sums
    are the same on any cluster. The number of spans per task depends on the workers. If there are
    several tiles, the columns that the tasks of all tiles need are copied first, so that no task
    has to read a second tile. ``report`` is called with the number of map tasks that have ended
    and the number of all map tasks, if there are several map tasks.
    """
    workers, found = fitting(codes, scan)
    partition = partition or Partition(layout_of(codes))
    tiles, spans = partition.layout.tiles, partition.spans
    groups = partition.groups(sum(worker.n_threads for worker in workers))
    columns = tuple(dict.fromkeys(column for request in scan for column in request.columns))
    name = "+".join(dict.fromkeys(request.reduction.name for request in scan))
    copied: _Copied = {}
    copies: list[Any] = [None] * len(groups)
    if len(tiles) > 1 and len(columns) <= max(COPY_SHARE * codes.chunks[1], COPY_ALWAYS):
        rows = [slice(spans[group.start].start, spans[group.stop - 1].stop) for group in groups]
        copied, copies = _copies(codes, columns, rows, name)
    totals = []
    for number, features in enumerate(tiles):
        plan = plan_tile(codes, scan, partition, columns, copied, features, found.cache)
        of_plan = _tasks_of(plan, len(groups), workers)
        partials = []
        for position, (group, copy) in enumerate(zip(groups, copies, strict=True)):
            # Neighbouring groups go to the same worker in every round, because its cache holds
            # their chunks, and their partials are then combined without a transfer.
            task = number * len(groups) + position
            with _at(workers[task * len(workers) // (len(tiles) * len(groups))], pinned):
                partials.append(
                    of_plan(f"scan-map-{name}", map_spans, group.start, group.stop, copy)
                )
        while len(partials) > FAN_IN:
            partials = [
                of_plan(f"scan-combine-{name}", _combine, *partials[a : a + FAN_IN])
                for a in range(0, len(partials), FAN_IN)
            ]
        totals.append(of_plan(f"scan-finish-{name}", finish, *partials))
    n_tasks = len(tiles) * len(groups)
    watch = None if report is None else watch_tasks("scan-map-", n_tasks, report)
    try:
        computed = compute(*totals, *(copy for copy in copies if copy is not None), watch=watch)
    except StrandedError:
        if not pinned:
            raise
        return run(codes, scan, pinned=False, partition=partition, report=report)
    parts, made = computed[: len(totals)], computed[len(totals) :]
    new = joined(made)
    if new:
        add_copies(codes, new)
    return [join_tiles([part[number] for part in parts]) for number in range(len(scan))]


def fitting(codes: CodeStore, scan: Sequence[Request]) -> tuple[tuple[Worker, ...], Estimate]:
    """Return the workers and the estimated memory of a scan; refuse a scan that needs too much."""
    workers = current_workers(scan)
    found = estimate(codes, scan, workers)
    if len(scan) == 1 and not found.fits:  # `scans` combines several only if they fit
        # memory of earlier work may have been released since the last query
        workers = current_workers(scan, anew=True)
        found = estimate(codes, scan, workers)
        check(codes, scan[0], found, workers)
    return workers, found


def plan_tile(
    codes: CodeStore,
    scan: Sequence[Request],
    partition: Partition,
    columns: tuple[int, ...],
    copied: _Copied,
    features: slice,
    cache: int,
) -> _Plan:
    """Return the plan of the tasks of a tile."""
    jobs = tuple(
        _Job(
            request.reduction,
            tuple(columns.index(column) for column in request.columns),
            request.resample,
        )
        for request in scan
    )
    whole = features.stop - features.start == codes.n_features
    contexts = tuple(
        request.reduction.narrow(request.context if whole else request.context.take(features))
        for request in scan
    )
    place = _Place.of(codes, partition, columns, copied, features, cache)
    return _Plan(place, features, jobs, contexts)


def is_light(codes: CodeStore, scan: Sequence[Request]) -> bool:
    """Return whether the partials of a scan in memory are so small that none needs a check."""
    n_bytes = sum(each.reduction.nbytes(each.context, codes.n_features) for each in scan)
    return n_bytes <= LIGHT_BYTES and codes.n_samples * len(scan) <= LIGHT_BYTES


def read_block(
    place: _Place, rows: slice, features: slice, copied: Mapping[int, Chunks], ahead: ReadAhead
) -> Block:
    """Return the samples of a row chunk: codes of a tile and of the scan's columns, and labels."""
    layout, n_rows = place.layout, rows.stop - rows.start
    row, width = rows.start // layout.chunks[0], layout.chunks[1]
    n_words = -(-n_rows // WORD)

    def cached(
        chunks: Chunks,
        number: int,
        n_features: int,
        read: Callable[[bool], np.ndarray],
        n_codes: np.ndarray,
    ) -> np.ndarray:
        def check(planes: np.ndarray) -> None:
            wrong = first_above(planes, n_codes, n_rows)
            if wrong >= 0:
                raise chunks.refuse(number, row, "has a code above the maximum of its feature")

        n_bytes = n_features * layout.bits * n_words * 8
        key = (chunks.name, number, row)
        return PROCESS.chunks.get(place.identity, key, place.cache, n_bytes, read, check)

    def tile(number: int, *, own: bool) -> np.ndarray:
        chunks, n_features = place.codes, len(place.n_codes[number])
        if isinstance(chunks, HeldChunks):
            return chunks.arrays[number, row]

        def read(keep: bool) -> np.ndarray:
            content = ahead.read(chunks, number, row, keep=keep or not own)
            return _as_planes(content, (width, layout.bits), n_features, n_words)

        return cached(chunks, number, n_features, read, place.n_codes[number])

    def copy(column: int, n_codes: int) -> np.ndarray:
        def read(_keep: bool) -> np.ndarray:
            # a new buffer, because the shared buffer of uncached chunks still holds the tile
            content = ahead.read(copied[column], 0, row)
            return _as_planes(content, (1, layout.bits), 1, n_words)

        (planes,) = cached(copied[column], 0, 1, read, np.array([n_codes]))
        own: np.ndarray = planes
        return own

    planes = tile(features.start // width, own=True)
    what = "has a class that the target does not have"
    labels = _read_column(place, place.labels, rows, 0, place.n_classes, what, ahead)
    columns = np.empty((len(place.columns), *planes.shape[1:]), np.uint64)
    others: dict[int, np.ndarray] = {}  # a tile that is not cached is read once, not per column
    for j, column in enumerate(place.columns):
        if features.start <= column < features.stop:
            columns[j] = planes[column - features.start]
        elif column in copied:
            columns[j] = copy(column, place.column_codes[j])
        else:
            if column // width not in others:
                others = {column // width: tile(column // width, own=False)}
            columns[j] = others[column // width][column % width]
    parts = fold_of(rows.start, rows.stop, N_PARTS)
    clusters = None
    if place.groups is not None:
        # all samples of a group are in one fold; the part within the fold still depends on the row
        groups = read_groups(place, rows, ahead)
        parts -= parts % np.uint8(N_FOLDS)
        parts += (groups % N_FOLDS).astype(np.uint8)
        clusters = (groups // N_FOLDS % N_CLUSTERS).astype(np.uint8)
    weights, split = NO_WEIGHTS, None
    if place.weights is not None:
        weights = read_weights(place, rows, ahead)
        split = functools.partial(_split_weights, place, row, weights)
    tiles = Tile(planes, n_rows), Tile(columns, n_rows)
    return Block(*tiles, labels, parts, clusters, weights, rows.start, split)


def read_groups(place: _Place, rows: slice, ahead: ReadAhead) -> np.ndarray:
    """Return the group of each sample of a row chunk, uint32: ``N_FOLDS * number + fold``."""
    assert place.groups is not None
    what = "has a group that the store does not have"
    return _read_column(place, place.groups, rows, 0, N_FOLDS * place.n_groups, what, ahead)


def read_weights(place: _Place, rows: slice, ahead: ReadAhead) -> np.ndarray:
    """Return the weight of each sample of a row chunk, uint16."""
    assert place.weights is not None
    what = "has a weight that the store does not have"
    return _read_column(place, place.weights, rows, 1, place.largest_weight + 1, what, ahead)


def _split_weights(place: _Place, row: int, weights: np.ndarray) -> np.ndarray:
    """Return the sets of equal weight of a row chunk, from the cache if there is room."""

    def split(_keep: bool) -> np.ndarray:
        return split_sets(weights)

    key, n_bytes = ("weight-sets", row), 2 * len(weights)
    return PROCESS.chunks.get(place.identity, key, place.cache, n_bytes, split, lambda _: None)


def _read_column(
    place: _Place,
    chunks: Chunks | HeldChunks,
    rows: slice,
    least: int,
    limit: int,
    what: str,
    ahead: ReadAhead,
) -> np.ndarray:
    """Return a row chunk of an array with one value per sample.

    A chunk with a value below ``least``, or not below ``limit``, is refused.
    """
    row, n_rows = rows.start // place.layout.chunks[0], rows.stop - rows.start
    if isinstance(chunks, HeldChunks):
        return chunks.arrays[0, row]
    kind = COLUMNS[chunks.name.split("/")[0]]

    def read(_keep: bool) -> np.ndarray:
        return kind.values(ahead.read(chunks, 0, row), n_rows)

    def check(values: np.ndarray) -> None:
        if values.max() >= limit or values.min() < least:
            raise chunks.refuse(0, row, what)

    key, n_bytes = (chunks.name, row), n_rows * kind.itemsize
    return PROCESS.chunks.get(place.identity, key, place.cache, n_bytes, read, check)


def _blocks(
    place: _Place, several: Sequence[slice], features: slice, copied: Mapping[int, Chunks]
) -> Iterator[Block]:
    """Yield the samples of some row chunks; the next ones are requested from remote storage."""
    with ReadAhead() as ahead:
        for number, rows in enumerate(several):
            if isinstance(place.codes, Chunks) and not place.codes.place.is_local:
                for later in several[number : number + 1 + DEPTH]:
                    ahead.start(_wanted(place, later, features, copied))
            yield read_block(place, rows, features, copied, ahead)


def _wanted(
    place: _Place, rows: slice, features: slice, copied: Mapping[int, Chunks]
) -> Iterator[Wanted]:
    """Yield the chunks that `read_block` will read, without those in the cache."""
    row, tile = rows.start // place.layout.chunks[0], features.start // place.layout.chunks[1]
    others = [
        copied[column]
        for column in place.columns
        if column in copied and not features.start <= column < features.stop
    ]
    columns = (place.labels, place.groups, place.weights)
    several = [
        (place.codes, tile, (place.codes.name, tile, row)),
        *((each, 0, (each.name, row)) for each in columns if each is not None),
        *((each, 0, (each.name, 0, row)) for each in others),
    ]
    for chunks, number, key in several:
        if isinstance(chunks, Chunks) and not PROCESS.chunks.holds(place.identity, key):
            yield chunks, number, row


def _as_planes(
    content: np.ndarray, chunk: tuple[int, int], n_features: int, n_words: int
) -> np.ndarray:
    """Return the bit planes of a chunk, uint64 (feature, bit, word), without their padding."""
    planes = content.view("<u8").reshape(*chunk, -1)[:n_features, :, :n_words]
    return np.ascontiguousarray(planes, dtype=np.uint64)


def _taken(block: Block, samples: np.ndarray) -> Block:
    """Return the given samples of a block."""
    return Block(
        block.tile.take(samples),
        block.columns.take(samples),
        block.labels[samples],
        block.parts[samples],
        None if block.clusters is None else block.clusters[samples],
        block.weights[samples] if len(block.weights) else NO_WEIGHTS,
        block.start,
    )


def _at(worker: Worker, pinned: bool) -> AbstractContextManager[object]:
    """Return a context in which new tasks are assigned to a worker.

    If the worker is lost, another one may run the tasks. But if all workers are lost at once, the
    scheduler keeps the tasks waiting for this one.
    """
    if not worker.address or not pinned:
        return nullcontext()
    return dask.base.annotate(workers=[worker.address], allow_other_workers=True)


def _task(name: str, function: Callable[..., object], *arguments: object) -> Delayed:
    # the option `name` of `delayed` names only the function; this sets the name of the task
    made = delayed(function, pure=False, traverse=False)
    task: Delayed = made(*arguments, dask_key_name=f"{name}-{uuid.uuid4().hex}")
    return task


def is_small(shared: object, n_tasks: int) -> bool:
    """Return whether an object is small enough to be repeated in ``n_tasks`` tasks."""
    return n_tasks * (PLAN_BYTES + size_of(shared)) <= SMALL_GRAPH


def _tasks_of(plan: _Plan, n_tasks: int, workers: tuple[Worker, ...]) -> Callable[..., Delayed]:
    """Return a function that makes the tasks of a tile, with the plan as their first argument.

    A large plan is a separate key of the graph, for which all other tasks wait about 6 ms. A small
    plan is instead repeated in every task. It is pickled here: the scheduler would otherwise
    unpickle the plan of every task and pickle it again, which takes longer than the other work of
    the scheduler for a task.
    """
    if not is_small((plan.place, plan.contexts), n_tasks):
        common = delayed(plan, pure=False, traverse=False)
        return lambda name, function, *arguments: _task(name, function, common, *arguments)
    if not workers[0].address:  # this process
        return lambda name, function, *arguments: _task(
            name, functools.partial(function, plan), *arguments
        )
    content = cloudpickle.dumps(plan)
    return lambda name, function, *arguments: _task(
        name, functools.partial(_unpickled, function, content), *arguments
    )


def _unpickled(
    function: Callable[..., tuple[_Nodes, ...]], plan: bytes, *arguments: object
) -> tuple[_Nodes, ...]:
    """Call the function of a task with its plan."""
    return function(pickle.loads(plan), *arguments)


def _copies(
    codes: CodeStore, columns: tuple[int, ...], groups: list[slice], name: str
) -> tuple[_Copied, list[Any]]:
    """Return the existing copies of columns, and a task per group that makes the missing copies."""
    have = known_copies(codes)
    new = tuple(column for column in columns if column not in have)
    copied = {column: have[column] for column in columns if column in have}
    if not new or codes.place.is_read_only:
        return copied, [None] * len(groups)
    width = codes.chunks[1]
    source = codes.code_chunks.only({column // width for column in new})
    return copied, [
        _task(f"scan-copy-{name}", _copy_columns, source, new, rows, codes.chunks, codes.bits)
        for rows in groups
    ]


def _copy_columns(
    codes: Chunks, columns: tuple[int, ...], span: slice, chunks: tuple[int, int], bits: int
) -> _Copied | None:
    """Copy the columns of a span; return checksums, or None if the store cannot be written to."""
    found: dict[int, list[int]] = {column: [] for column in columns}
    for rows in cuts(span, chunks[0]):
        row, n_rows = rows.start // chunks[0], rows.stop - rows.start
        for column in columns:
            content = codes.read(column // chunks[1], row, keep=False)
            planes = _as_planes(content, (chunks[1], bits), chunks[1], -(-n_rows // WORD))
            own = planes[column % chunks[1]][None]
            try:
                checksum = write_copy(codes.place, column, row, own, n_rows, chunks[0])
            except OSError:  # for example a read-only store or a full disk
                return None
            found[column].append(checksum)
    return {column: np.array(each, np.uint32) for column, each in found.items()}


def map_spans(
    plan: _Plan,
    first: int,  # span numbers as int, since Dask traverses containers
    last: int,
    new: _Copied | None,  # the columns that were copied for these spans
) -> tuple[_Nodes, ...]:
    """Return the partials of some spans of a tile, for each reduction."""
    contexts = frozen(plan.contexts)
    ready = frozen(
        tuple(job.reduction.prepare(each) for job, each in zip(plan.jobs, contexts, strict=True))
    )
    found: tuple[_Nodes, ...] = tuple({} for _ in plan.jobs)
    place = plan.place
    spans = place.partition.spans
    copied = _copied_chunks(place, spans[first].start // place.layout.chunks[0], new)
    chunk_rows = place.layout.chunks[0]
    idle = all(context is None for context in ready)
    of_task = (
        [] if idle else [rows for span in spans[first:last] for rows in cuts(span, chunk_rows)]
    )
    blocks = _blocks(place, of_task, plan.features, copied)
    for number in range(first, last):
        totals = []
        for job, context, nodes in zip(plan.jobs, contexts, found, strict=True):
            node = None if job.reduction.exact(context) else (0, number)
            if node not in nodes:
                n_features = plan.features.stop - plan.features.start
                nodes[node] = job.reduction.identity(context, n_features)
            totals.append(nodes[node])
        for rows in [] if idle else cuts(spans[number], chunk_rows):
            _add_chunk(plan, ready, rows, next(blocks), totals)
        for nodes in found:
            _climb(nodes, len(spans))
    return found


def _copied_chunks(place: _Place, first_row: int, new: _Copied | None) -> dict[int, Chunks]:
    """Return the copied columns that a task can read, from row chunk ``first_row`` on."""
    if isinstance(place.codes, HeldChunks):
        return {}
    checksums = dict(place.copied)
    for column, own in (new or {}).items():
        checksums[column] = np.concatenate([np.zeros(first_row, np.uint32), own])
    layout = place.layout
    return {
        column: replace(
            copy_chunks(place.codes, column, layout.chunks[0], layout.bits), checksums={0: each}
        )
        for column, each in checksums.items()
    }


def _add_chunk(
    plan: _Plan,
    contexts: Sequence[Context | None],
    rows: slice,
    block: Block,
    totals: Sequence[Partial],
) -> None:
    for resample in dict.fromkeys(job.resample for job in plan.jobs):
        samples = block
        if resample is not None:
            if plan.place.groups is None:
                numbers = np.arange(rows.start, rows.stop, dtype=np.uint64)
                drawn = multiplicity(numbers, plan.place.layout.n_samples, resample)
            else:
                numbers = read_groups(plan.place, rows, ReadAhead()) // N_FOLDS
                drawn = draw_groups(plan.place.n_groups, resample)[numbers]
            samples = _taken(block, np.repeat(np.arange(len(drawn)), drawn))
        for job, context, total in zip(plan.jobs, contexts, totals, strict=True):
            if job.resample == resample and context is not None:
                columns = samples.columns.only(np.array(job.columns, np.intp))
                job.reduction.chunk(context, frozen(replace(samples, columns=columns)), total)


def _climb(nodes: _Nodes, n_leaves: int) -> None:
    """Combine sibling nodes into their parents, as far up the tree as possible."""
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
    n_spans = len(plan.place.partition.spans)
    for partial in partials:
        for nodes, more in zip(found, partial, strict=True):
            for node, total in more.items():
                nodes[node] = combine(nodes[node], total) if node in nodes else total
            _climb(nodes, n_spans)
    return found


def finish(plan: _Plan, *partials: tuple[_Nodes, ...]) -> tuple[Partial, ...]:
    """Return the results of a tile from the partials of all its spans."""
    finished = []
    for job, context, nodes in zip(
        plan.jobs, frozen(plan.contexts), _combine(plan, *partials), strict=True
    ):
        (total,) = nodes.values()
        finished.append(job.reduction.finalize(context, total))
    return tuple(finished)


def join_tiles(tiles: list[Partial]) -> Partial:
    """Return the result for all features: the results of the tiles, concatenated."""
    if len(tiles) == 1:
        return tiles[0]
    return {name: np.concatenate([tile[name] for tile in tiles]) for name in tiles[0]}
