"""Run scans over a code store in memory, in this process and without Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np

from hofs_dask.engine.ahead import ReadAhead
from hofs_dask.engine.cluster import local_threads
from hofs_dask.engine.partition import Partition
from hofs_dask.engine.reduction import Block, Partial, Request, Tile, frozen
from hofs_dask.engine.scanning import (
    finish,
    fitting,
    is_light,
    join_tiles,
    map_spans,
    plan_tile,
    read_block,
)
from hofs_dask.scheduling.compute import threads
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.layout import layout_of

#: Cells of a scan from which on threads are used.
THREAD_CELLS = 2**20

Report = Callable[[int, int], None]


class HeldScans:
    """The scans of a code store in memory, by the functions that Dask tasks would run.

    The spans and the tree of float sums are those of tasks, so the totals have the same bits.
    Use it in a ``with`` block, whose end stops its threads.

    Examples
    --------
    >>> from hofs_dask.encoding.here import encode_here
    >>> from hofs_dask.engine.counts import MARGINAL_COUNTS, MarginalContext
    >>> from hofs_dask.io.source import open_source
    >>> source = open_source(np.arange(4.0)[:, None], np.arange(4) % 2)
    >>> request = Request(MARGINAL_COUNTS, MarginalContext(n_classes=2, n_codes=2))
    >>> with HeldScans(encode_here(source, source.memory, bins=2)) as scans:
    ...     scans.run([request])[0]["counts"].sum(axis=1)
    array([[[1, 1],
            [1, 1]]])
    """

    def __init__(self, codes: CodeStore) -> None:
        self._codes = codes
        self._partition = Partition(layout_of(codes))
        self._tiles = self._partition.layout.tiles
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the threads."""
        self._stack.close()

    @cached_property
    def _threads(self) -> Callable[..., Iterable[Any]]:
        return self._stack.enter_context(threads(local_threads()))

    @cached_property
    def _blocks(self) -> list[Block]:
        """The block of each tile, if it has all samples, without columns; otherwise empty."""
        n_samples = self._codes.n_samples
        if n_samples > self._codes.chunks[0]:
            return []
        return [
            read_block(
                plan_tile(self._codes, [], self._partition, (), {}, features, 0).place,
                slice(0, n_samples),
                features,
                {},
                ReadAhead(),
            )
            for features in self._tiles
        ]

    def run(self, scan: Sequence[Request], report: Report | None = None) -> list[Partial]:
        """Return the totals of several reductions, as `hofs_dask.engine.scanning.run` does."""
        codes = self._codes
        if not is_light(codes, scan):
            fitting(codes, scan)
        use_threads = (
            codes.n_samples * codes.n_features * len(scan) >= THREAD_CELLS and local_threads() > 1
        )
        each = self._threads if use_threads else map
        if self._blocks and all(request.resample is None for request in scan):
            parts = self._run_blocks(scan, each, report)
        else:
            parts = self._run_spans(scan, each, local_threads() if use_threads else 1, report)
        return [join_tiles([part[number] for part in parts]) for number in range(len(scan))]

    def _run_blocks(
        self, scan: Sequence[Request], each: Callable[..., Iterable[Any]], report: Report | None
    ) -> list[tuple[Partial, ...]]:
        """Return the totals for each tile, which is one block."""

        def total(tile: int) -> tuple[Partial, ...]:
            block, features = self._blocks[tile], self._tiles[tile]
            found = []
            for request in scan:
                context = request.context
                if len(self._tiles) > 1:
                    context = context.take(features)
                columns = Tile(self._planes(request.columns), len(block.labels))
                context = frozen(request.reduction.narrow(context))
                found.append(request.reduction.result(context, replace(block, columns=columns)))
            return tuple(found)

        return _reported(each(total, range(len(self._tiles))), len(self._tiles), report)

    def _planes(self, columns: Sequence[int]) -> np.ndarray:
        """Return the bit planes of some features, uint64 (column, bit, word)."""
        width, tile = self._codes.chunks[1], self._blocks[0].tile.planes
        planes = np.empty((len(columns), *tile.shape[1:]), np.uint64)
        for j, column in enumerate(columns):
            planes[j] = self._blocks[column // width].tile.planes[column % width]
        return planes

    def _run_spans(
        self,
        scan: Sequence[Request],
        each: Callable[..., Iterable[Any]],
        n_threads: int,
        report: Report | None,
    ) -> list[tuple[Partial, ...]]:
        """Return the totals for each tile, from several spans."""
        columns = tuple(dict.fromkeys(column for request in scan for column in request.columns))
        plans = [
            plan_tile(self._codes, scan, self._partition, columns, {}, features, 0)
            for features in self._tiles
        ]
        groups = self._partition.groups(n_threads)
        work = [(plan, group) for plan in plans for group in groups]
        mapped = each(lambda one: map_spans(one[0], one[1].start, one[1].stop, None), work)
        partials = _reported(mapped, len(work), report)
        n_groups = len(groups)

        def total(place: int) -> tuple[Partial, ...]:
            return finish(plans[place], *partials[place * n_groups : (place + 1) * n_groups])

        return list(each(total, range(len(plans))))


def _reported(results: Iterable[Any], n_results: int, report: Report | None) -> list[Any]:
    """Return all results, and report their number after each one."""
    found = []
    for result in results:
        found.append(result)
        if report is not None:
            report(len(found), n_results)
    return found
