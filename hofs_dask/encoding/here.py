"""Encode data in memory as a code store in memory, without Dask and without files.

The functions of the tasks of `encode_source` run in this process, so codes, tables and labels are
the same.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from hofs_dask.encoding.encode import TILE_BYTES, kernels_to_compile
from hofs_dask.encoding.kept import Kept, find_kept_here, take
from hofs_dask.encoding.stages import (
    Tables,
    bytes_of,
    empty_note,
    judge_tables,
    resolve_bins,
    source_rows,
    tables_of_columns,
    target_notes,
    warn_of_rounding,
    with_warnings,
)
from hofs_dask.engine.chunking import Room, choose_layout, widest_tile
from hofs_dask.engine.cluster import local_threads
from hofs_dask.events import (
    Advanced,
    CompileStarted,
    EncodeEnded,
    EncodeStarted,
    Notify,
    tell_all,
)
from hofs_dask.io.places import Place
from hofs_dask.kernels.planes import WORD
from hofs_dask.scheduling.compute import threads
from hofs_dask.store.bins import Bins, Features, check_bins, encode_planes, most_bins
from hofs_dask.store.chunks import HeldChunks
from hofs_dask.store.codes import CodeStore, Held
from hofs_dask.store.groups import Groups, count_groups, deal_groups, encode_groups
from hofs_dask.store.labels import (
    Coding,
    Labels,
    check_kind,
    encode_target,
    make_coding,
    summarise_target,
)
from hofs_dask.store.layout import cuts
from hofs_dask.store.metadata import count_bits, tables_of
from hofs_dask.store.summary import SAMPLE_ROWS, summarise
from hofs_dask.store.weights import Weights, quantise, sum_weights

if TYPE_CHECKING:
    from hofs_dask.io.memory import Memory
    from hofs_dask.io.source import Source

#: Cells from which on threads are used.
THREAD_CELLS = 2**20


def encode_here(
    source: Source,
    memory: Memory,
    *,
    bins: int | str | None = "auto",
    target_kind: str = "auto",
    room: Room | None = None,
    listeners: Sequence[Notify] = (),
) -> CodeStore:
    """Return the code store of a source in memory, which is in memory too.

    Parameters
    ----------
    source : Source
        Data with a target.
    memory : Memory
        The content of the source.
    bins, target_kind, room, listeners
        As for `encode_source`.

    Examples
    --------
    >>> from hofs_dask.io.source import open_source
    >>> source = open_source(np.arange(8.0)[:, None], np.arange(8) % 2)
    >>> encode_here(source, source.memory, bins=4).held.codes.arrays[0, 0][0]
    array([[204],
           [240]], dtype=uint64)
    """
    checked_bins, kind = check_bins(bins), check_kind(target_kind)
    kept = find_kept_here(source, memory)
    to_compile = kernels_to_compile(source)
    if to_compile:
        tell_all(listeners, CompileStarted(tuple(to_compile)))
    mask, n_rows = kept.masks[0], kept.n_rows
    stored = weights = None
    if kept.unit is not None and memory.weights is not None and source.weights is not None:
        stored = quantise(take(memory.weights, mask), kept.unit)
        sums = sum_weights(stored)
        warn_of_rounding(source.weights.name, kept.unit, kept.weight, sums)
        weights = Weights(source.weights.name, kept.unit, sums.total, sums.squares, sums.largest)
    target = take(memory.target, mask)
    summary = summarise_target(target, 0, n_rows, kind, source.target_type, stored)
    coding = make_coding(summary, source.target_name, kind, source.target_type)
    n_bins = resolve_bins(checked_bins, n_rows, None if stored is None else sums, coding)
    with _threads(n_rows * source.n_features) as each:
        features, share, used = judge_tables(
            source,
            _first_read(source, memory, kept, stored, checked_bins, n_bins, each, listeners),
            min(n_rows, SAMPLE_ROWS),
        )
        parts = [take(part, mask) for part in (used.memory or memory).parts]
        grid = choose_layout(
            n_rows,
            used.n_features,
            int(features.n_codes.max()),
            n_classes=coding.n_classes,
            source_rows=source_rows(used) if kept.whole else None,
            room=room,
        ).chunks
        per_tile = widest_tile(used.n_features, count_bits(features), coding.n_classes)
        grid = grid[0], max(grid[1], min(per_tile, -(-used.n_features // local_threads())))
        chunks = _encode(used, parts, features, grid, each, listeners)
    labels = encode_target(target, coding)
    groups, ids = _groups(source, memory, kept)
    tables = tables_of(features)
    return with_warnings(
        CodeStore(
            root=Place(""),
            folder="",
            identity="",
            fingerprint=None,  # it would take longer than a short search
            names=used.names,
            n_samples=n_rows,
            n_codes=tables["n_codes"],
            missing_code=tables["missing_code"],
            nominal=tables["nominal"].astype(bool),
            values=tables["values"],
            chunks=grid,
            labels=_labels(used, kept, coding, labels, empty_note(share)),
            n_absent=source.n_absent_chunks,
            groups=groups,
            axis=used.axis,
            feature_dims=source.feature_dims,
            weights=weights,
            n_source=source.n_samples,
            held=Held(
                chunks,
                _column("labels", labels, grid[0]),
                None if ids is None else _column("groups", ids, grid[0]),
                None if stored is None else _column("weights", stored, grid[0]),
            ),
        ),
        coding,
    )


_Each = Callable[..., Iterable[Any]]


def _threads(n_cells: int) -> Any:
    """Return a context with a `map`, which uses threads if there are many cells."""
    n_threads = local_threads()
    return nullcontext(map) if n_cells < THREAD_CELLS or n_threads == 1 else threads(n_threads)


def _first_read(
    source: Source,
    memory: Memory,
    kept: Kept,
    weights: np.ndarray | None,
    bins: Bins,
    n_bins: int,
    each: _Each,
    listeners: Sequence[Notify],
) -> list[Tables]:
    """Return the tables of all columns, some columns at a time, so that few values are copied."""
    rows, mask = min(kept.n_rows, SAMPLE_ROWS), kept.masks[0]
    tiles, first_feature = [], 0
    for part in memory.parts:
        most = max(1, TILE_BYTES // (max(rows, kept.n_rows // 4) * max(part.dtype.itemsize, 1)))
        n_tiles = -(-part.shape[1] // most)
        edges = [part.shape[1] * tile // n_tiles for tile in range(n_tiles + 1)]
        tiles += [(part, first_feature, a, b) for a, b in itertools.pairwise(edges)]
        first_feature += part.shape[1]

    def read(tile: tuple[np.ndarray, int, int, int]) -> Tables:
        part, start, a, b = tile
        nominal = source.nominal[start + a : start + b]
        block = take(part[:, a:b], mask)
        limit = most_bins(bins) + 1
        summary = summarise(block, 0, kept.n_rows, nominal, limit, weights, n_bins=n_bins)
        return tables_of_columns([summary], None, start + a, bins, n_bins)

    return _reported(each(read, tiles), "encode-read", len(tiles), bytes_of(source), listeners)


def _encode(
    source: Source,
    parts: Sequence[np.ndarray],
    features: Features,
    grid: tuple[int, int],
    each: _Each,
    listeners: Sequence[Notify],
) -> HeldChunks:
    """Return the chunks of the codes."""
    bits, n_rows = count_bits(features), len(parts[0])
    starts = [0, *itertools.accumulate(part.shape[1] for part in parts)]
    rows, tiles = cuts(slice(0, n_rows), grid[0]), cuts(slice(0, len(features)), grid[1])

    def encode(place: tuple[int, int]) -> np.ndarray:
        own, tile = rows[place[1]], tiles[place[0]]
        n_own = own.stop - own.start
        planes = np.zeros((tile.stop - tile.start, bits, -(-n_own // WORD)), np.uint64)
        for part, first in zip(parts, starts, strict=False):
            a, b = max(tile.start, first), min(tile.stop, first + part.shape[1])
            if a < b:
                block = part[own, a - first : b - first]
                encode_planes(block, features[a:b], planes[a - tile.start : b - tile.start])
        planes.setflags(write=False)
        return planes

    places = [(tile, row) for tile in range(len(tiles)) for row in range(len(rows))]
    made = _reported(each(encode, places), "encode-write", len(places), bytes_of(source), listeners)
    return HeldChunks("codes", dict(zip(places, made, strict=True)))


def _reported(
    results: Iterable[Any], stage: str, n_tasks: int, n_bytes: int, listeners: Sequence[Notify]
) -> list[Any]:
    """Return all results of a read of the data, and send its events."""
    tell_all(listeners, EncodeStarted(stage, n_tasks, n_bytes))
    start, found = time.perf_counter(), []
    for result in results:
        found.append(result)
        tell_all(listeners, Advanced(len(found), n_tasks))
    seconds = time.perf_counter() - start
    tell_all(listeners, EncodeEnded(stage, n_tasks, n_bytes, seconds))
    return found


def _labels(
    source: Source, kept: Kept, coding: Coding, labels: np.ndarray, notes: tuple[str, ...]
) -> Labels:
    return Labels(
        name=source.target_name,
        key="",
        kind=coding.kind,
        classes=coding.classes,
        counts=np.bincount(labels, minlength=coding.n_classes),
        values=coding.values,
        n_dropped=kept.dropped.n_missing,
        notes=target_notes(source, kept, coding, notes),
    )


def _groups(source: Source, memory: Memory, kept: Kept) -> tuple[Groups | None, np.ndarray | None]:
    """Return the groups of the samples and their stored values, None if there are none."""
    if memory.groups is None or source.groups is None:
        return None, None
    ids = take(memory.groups, kept.masks[0])
    dealt = deal_groups(count_groups(ids), source.groups.name)
    return Groups(source.groups.name, dealt.n_groups), encode_groups(ids, dealt)


def _column(name: str, values: np.ndarray, chunk_rows: int) -> HeldChunks:
    """Return the chunks of an array with one value per sample."""
    rows = cuts(slice(0, len(values)), chunk_rows)
    values.setflags(write=False)
    return HeldChunks(name, {(0, row): values[own] for row, own in enumerate(rows)})
