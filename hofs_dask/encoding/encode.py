"""Encode a source as a code store. This reads the source twice, with one compute each."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from dask.delayed import Delayed, delayed

from hofs_dask.encoding.columns import (
    Job,
    digits_of,
    label_tasks,
    rechunked,
    tree,
    weight_blocks,
    write_groups,
    write_weights,
)
from hofs_dask.encoding.kept import Kept, Mask, Span, find_kept, take
from hofs_dask.encoding.stages import (
    bytes_of,
    empty_note,
    judge_tables,
    resolve_bins,
    source_rows,
    tables_of_columns,
    target_notes,
    with_warnings,
)
from hofs_dask.encoding.steps import Step, Steps, run_together
from hofs_dask.engine.chunking import Room, choose_layout
from hofs_dask.errors import AGAIN, CodeStoreError, advised, some_of
from hofs_dask.events import CompileStarted, Notify, tell_all
from hofs_dask.io.files import check_apart, digest
from hofs_dask.io.kinds import TargetType
from hofs_dask.io.paths import is_url
from hofs_dask.io.places import Location, Place, as_place
from hofs_dask.io.storage import check_reachable
from hofs_dask.kernels import cells
from hofs_dask.kernels._jit import kernels_in, missing
from hofs_dask.kernels.planes import WORD
from hofs_dask.scheduling.compute import compute, release
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.store.bins import (
    Bins,
    Features,
    check_bins,
    encode_planes,
    most_bins,
)
from hofs_dask.store.chunks import chunk_file, whole_planes, write_chunk
from hofs_dask.store.codes import CodeStore, load_codes, store_version, writing
from hofs_dask.store.labels import (
    Coding,
    TargetKind,
    TargetSummary,
    check_kind,
    make_coding,
    merge_targets,
    summarise_target,
)
from hofs_dask.store.layout import check_chunks
from hofs_dask.store.manifest import (
    VERSION,
    Content,
    GroupRecord,
    Manifest,
    Target,
    as_digits,
    read_manifest,
    write_manifest,
)
from hofs_dask.store.metadata import count_bits, tables_of, write_metadata, write_tables
from hofs_dask.store.summary import MANY_CELLS, SAMPLE_ROWS, Summary, merge_summaries, summarise
from hofs_dask.store.weights import WeightSums, merge_sums, sum_weights

if TYPE_CHECKING:
    import dask.array as da

    from hofs_dask.io.source import Source

#: Maximum bytes of the sampled rows from which one task makes the tables of its features.
TILE_BYTES = 32 * 2**20
#: Up to this many tiles, the tasks that use a tile also slice it from its block. With more tiles,
#: each slice is a separate task, which delays the next block of the worker.
FEW_TILES = 4


def kernels_to_compile(source: Source) -> list[str]:
    """Return the names of the kernels that must be compiled to encode a source.

    A kernel is returned only by the first call that needs it.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.io.source import open_source
    >>> kernels_to_compile(open_source(np.zeros((4, 2)), [0, 1, 0, 1]))  # too small for kernels
    []
    """
    dtypes = {
        cells.block_type(part.dtype).name
        for part in source.parts
        if part.dtype.kind in "biuf" and math.prod(map(max, part.chunks)) >= MANY_CELLS
    }
    if dtypes <= PROCESS.announced:
        return []
    PROCESS.announced |= dtypes  # looking up files takes longer than a short encoding
    found = [name for name in missing(kernels_in([cells]), dtypes) if name not in PROCESS.announced]
    PROCESS.announced.update(found)
    return found


def encode_source(
    source: Source,
    store: Location,
    *,
    bins: int | str | None = "auto",
    target_kind: str = "auto",
    chunks: tuple[int, int] | None = None,
    room: Room | None = None,
    listeners: Sequence[Notify] = (),
) -> CodeStore:
    """Return the code store of a source; write only the parts that ``store`` does not have yet.

    Parameters
    ----------
    source : Source
        Data with a target.
    store : str, path, zarr.abc.store.Store or Place
        Path, URL or Zarr store: absent, empty, or a code store. A code store of other data or
        other options is replaced when the new one is complete.
    bins : int, "auto", "width" or None
        Number of bins of a numeric feature. If a feature has at most as many distinct values as
        there are bins, each value gets its own code.
    target_kind : {"auto", "class", "ordinal", "continuous"}
        How to interpret the target.
    chunks : tuple of int, optional
        Number of samples and of features in a chunk. By default, `choose_layout` chooses them.
    room : Room, optional
        Free memory of the smallest worker. Chunks are chosen so that a reduction fits into it.
    listeners : sequence of functions
        Called with the events `CompileStarted`, `EncodeStarted`, `Advanced` and `EncodeEnded`.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.store.codes import read_codes, temporary_store
    >>> from hofs_dask.io.source import open_source
    >>> data = np.arange(40.0).reshape(20, 2)
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(data, np.arange(20) % 2), path, bins=4)
    ...     read_codes(store, slice(0, 1), slice(0, 20))[0, ::5]
    array([0, 1, 2, 3], dtype=uint8)
    """
    checked_bins, kind = check_bins(bins), check_kind(target_kind)
    if chunks is not None:
        check_chunks(chunks)
    if source.target is None:
        raise ValueError(
            "target is None; give a target: an array or the name of a variable or column"
        )
    root = as_place(store)
    root.refuse_read_only("store")
    check_apart(root.path, source.places, "store")
    fingerprint, key = _fingerprints(source, checked_bins, kind)

    def found() -> CodeStore | None:
        """Return the store if it already has these codes and labels, otherwise None."""
        manifest = read_manifest(root)
        if manifest is None or fingerprint is None or manifest.fingerprint != fingerprint:
            return None
        target = next((each for each in manifest.targets if each.key == key), None)
        return None if target is None else load_codes(root, manifest, target)

    made = None
    # another process may replace the files during this read, which holds no lock
    with contextlib.suppress(CodeStoreError):
        made = found() if store_version(root) == VERSION else None
    if made is not None:
        return with_warnings(made)
    with writing(root) as folder, _advised(source):
        made = found()  # another process may have written the store while this one waited
        if made is not None:
            return with_warnings(made)
        manifest = read_manifest(root)
        if manifest is not None and fingerprint is not None and manifest.fingerprint == fingerprint:
            job = Job(source, root, manifest.folder, key or uuid.uuid4().hex[:16])
            ((manifest, target, coding),) = run_together([_add_labels(job, kind, manifest)])
        else:
            job = Job(source, root, folder, key or uuid.uuid4().hex[:16])
            steps = _encode(job, checked_bins, kind, chunks, room, fingerprint)
            ((manifest, coding),) = _run([job], [steps], listeners)
            (target,) = manifest.targets
        _check_unchanged(source)
        write_manifest(root, manifest)
        return with_warnings(load_codes(root, manifest, target), coding)


def encode_together(
    sources: Mapping[str, Source],
    stores: Sequence[str],
    *,
    bins: int | str | None = "auto",
    target_kind: str = "auto",
    room: Room | None = None,
    listeners: Sequence[Notify] = (),
) -> list[CodeStore]:
    """Encode several sources that have the same data but different masks; return the code stores.

    The data is read twice in total, not twice for each source. The stores are the same as those
    that `encode_source` would write.

    Parameters
    ----------
    sources : mapping of str to Source
        The sources, by the names that error messages use. They differ only in their masks.
    stores : sequence of str
        The path of an empty folder for each source.
    bins, target_kind, room, listeners
        See `encode_source`.
    """
    checked_bins, kind = check_bins(bins), check_kind(target_kind)
    with contextlib.ExitStack() as stack:
        jobs, steps = [], []
        for (part, source), path in zip(sources.items(), stores, strict=True):
            fingerprint, key = _fingerprints(source, checked_bins, kind)
            root = as_place(path)
            folder = stack.enter_context(writing(root))
            job = Job(source, root, folder, key or uuid.uuid4().hex[:16], part)
            jobs.append(job)
            steps.append(_named(job, _encode(job, checked_bins, kind, None, room, fingerprint)))
        stack.enter_context(_advised(jobs[0].source))
        made = _run(jobs, steps, listeners)
        for job, (manifest, _) in zip(jobs, made, strict=True):
            _check_unchanged(job.source)
            write_manifest(job.root, manifest)
    return [
        with_warnings(load_codes(job.root, manifest, manifest.targets[0]), coding)
        for job, (manifest, coding) in zip(jobs, made, strict=True)
    ]


_Made = tuple[Manifest, Coding]


def _run(
    jobs: Sequence[Job], steps: Sequence[Steps[_Made]], listeners: Sequence[Notify]
) -> list[_Made]:
    """Run encodings of the same data together; before that, report the kernels to compile."""
    source = jobs[0].source
    to_compile = kernels_to_compile(source)
    if to_compile:
        tell_all(listeners, CompileStarted(tuple(to_compile)))
    made = run_together(steps, bytes_of(source), listeners)
    release()
    return made


def _named(job: Job, steps: Steps[_Made]) -> Steps[_Made]:
    """Yield the steps of a job; add the name of its part of the data to the message of an error."""
    try:
        return (yield from steps)
    except (ValueError, TypeError) as error:
        if job.part in str(error):
            raise
        raise type(error)(f"{job.part}: {error}") from error


def _advised(source: Source) -> contextlib.AbstractContextManager[None]:
    """Name the data in errors of the storage that it is read from."""
    places = [repr(place) for place in source.places if is_url(place)]
    if not places:
        return contextlib.nullcontext()
    return advised(f"the data at {some_of(places)} could not be encoded: {AGAIN}")


def _check_unchanged(source: Source) -> None:
    if source.state() != source.opened_state:
        raise ValueError(
            "the data changed while it was read, so no codes were kept; run the same call again "
            "when no other process writes to the data"
        )


def _fingerprints(source: Source, bins: Bins, kind: TargetKind) -> tuple[str | None, str | None]:
    """Return the fingerprint of the codes and the key of the labels, each None if unknown."""
    fingerprint = key = None
    # the samples of the store depend on the masks, and bins and tables also on the weights
    skip = [] if source.on_bad == "raise" else [source.on_bad]
    marks = [mask.fingerprint for mask in source.masks]
    if source.weights is not None:
        marks.append(source.weights.fingerprint)
    if source.fingerprint is not None and None not in marks:
        nominal = source.nominal.tolist()
        roles = [mask.role for mask in source.masks]
        if source.weights is not None:
            roles.append(source.weights.name)
        fingerprint = digest([source.fingerprint, bins, nominal, VERSION, roles, marks, *skip])
    if source.target_fingerprint is not None:
        parts = [source.target_fingerprint, source.target_name, kind, VERSION]
        if source.ignore_label is not None:
            parts.append(source.ignore_label)
        groups = source.groups
        if groups is None:
            key = digest(parts)[:16]
        elif groups.fingerprint is not None:
            key = digest([*parts, groups.fingerprint, groups.name])[:16]
    return fingerprint, key


def _encode(
    job: Job,
    bins: Bins,
    kind: TargetKind,
    chunks: tuple[int, int] | None,
    room: Room | None,
    fingerprint: str | None,
) -> Steps[_Made]:
    """Write codes, tables and labels into the folder of a job; return their manifest."""
    source, kept = job.source, (yield from find_kept(job.source))
    first_read = yield from _first_read(job, kept, bins, kind)
    coding, features, n_bins, empty, sums, source = first_read
    job = replace(job, source=source)
    grid = choose_layout(
        kept.n_rows,
        source.n_features,
        int(features.n_codes.max()),
        n_classes=coding.n_classes,
        source_rows=source_rows(source) if kept.whole else None,
        room=room,
        chunks=chunks,
    ).chunks
    write_metadata(job.place, kept.n_rows, grid, count_bits(features), tables_of(features))
    groups = yield from write_groups(job, kept, grid[0])
    weights = yield from write_weights(job, kept, grid[0], sums)
    writes = _write_tasks(job, kept, features, grid)
    labels = label_tasks(job, kept, coding, grid[0])
    # The tasks on the driver run first. The driver may also run the scheduler, with which they
    # would otherwise compete while the workers write.
    here, there = (labels, []) if source.target_in_memory else ([], labels)
    (coded,) = yield Step((here,), here=True)
    (tables, *checksums), more = yield Step(
        (writes, there), stage="encode-write", n_tasks=len(writes) - 1
    )
    named = {str(j): each for j, each in features.nominal.items() if each.categories}
    content = Content(
        names=source.names,
        n_samples=kept.n_rows,
        bits=count_bits(features),
        chunks=grid,
        bins=bins,
        n_bins=n_bins,
        checksums=as_digits(np.array(checksums, np.uint32)),
        tables=tables,
        categories={j: list(feature.categories or ()) for j, feature in named.items()},
        n_folded={j: feature.n_folded for j, feature in named.items() if feature.n_folded},
        weights=weights,
        feature_dims=source.feature_dims,
    )
    manifest = Manifest(
        folder=job.folder,
        fingerprint=fingerprint,
        n_source=source.n_samples,
        kept=kept.digest,
        n_absent=source.n_absent_chunks,
        content=content,
        targets=(_target(job, kept, coding, [*coded, *more], groups, empty_note(empty)),),
        axis=source.axis,
        columns=() if len(source.columns) == source.n_features else source.columns,
    )
    return manifest, coding


def _first_read(
    job: Job, kept: Kept, bins: Bins, target_kind: TargetKind
) -> Steps[tuple[Coding, Features, int, float, WeightSums | None, Source]]:
    """Read the source once; return the coding of the target and of each feature.

    The other results are the number of bins, the share of samples that miss every feature, the
    sums of the weights, and the source without the features to skip.
    """
    source, run = job.source, uuid.uuid4().hex
    weights = weight_blocks(source, kept, run)
    coding = _coding(job, kept, target_kind, weights, run)
    sums = None
    if kept.unit is not None:
        several = [
            delayed(sum_weights)(block, dask_key_name=f"encode-sum-weights-{row}-{run}")
            for row, block in enumerate(weights)
        ]
        merged_sums = tree(merge_sums, several, f"encode-merge-weights-{run}")
        sums = delayed(merge_sums)(merged_sums, dask_key_name=f"encode-total-weight-{run}")
    n_bins = delayed(resolve_bins)(
        bins, kept.n_rows, sums, coding, dask_key_name=f"encode-bins-{run}"
    )
    tables = []
    rows = min(kept.n_rows, SAMPLE_ROWS)
    first_feature = 0
    for number, part in enumerate(source.parts):
        width = max(1, TILE_BYTES // (rows * max(part.dtype.itemsize, 1)))
        blocks = part.to_delayed(optimize_graph=False)
        for column, n_columns in enumerate(part.chunks[1]):
            # Tiles have equal widths, because the read ends when the task of the widest tile ends.
            n_tiles = -(-n_columns // width)
            few = n_tiles <= FEW_TILES
            cuts = [n_columns * tile // n_tiles for tile in range(n_tiles + 1)]
            # The flags are one key of the graph. If every task had a copy, the graph of a wide
            # source would be larger than its data.
            nominal = delayed(
                source.nominal[first_feature : first_feature + n_columns],
                name=f"encode-nominal-{number}-{column}-{run}",
                traverse=False,
            )
            name = f"{number}-{column}-{run}"
            summaries = [
                delayed(_summarise)(
                    block,
                    mask,
                    own,
                    first,
                    kept.n_rows,
                    nominal,
                    most_bins(bins) + 1,
                    None if few else cuts,
                    source.places,
                    dask_key_name=f"encode-read-{row}-{name}",
                )
                for row, (block, mask, own, first) in enumerate(
                    zip(blocks[:, column], kept.masks, weights, kept.firsts, strict=True)
                )
            ]
            merged = tree(merge_summaries, summaries, f"encode-merge-{name}") if few else []
            for tile, (begin, end) in enumerate(itertools.pairwise(cuts)):
                if not few:
                    own = [each[tile] for each in summaries]
                    merged = tree(merge_summaries, own, f"encode-merge-{tile}-{name}")
                tables.append(
                    delayed(tables_of_columns)(
                        merged,
                        slice(begin, end) if few else None,
                        first_feature + begin,
                        bins,
                        n_bins,
                        dask_key_name=f"encode-tables-{tile}-{name}",
                    )
                )
            first_feature += n_columns
    n_tasks = sum(math.prod(part.numblocks) for part in source.parts)
    made, coded, resolved, summed = yield Step(
        (tables, coding, n_bins, sums), stage="encode-read", n_tasks=n_tasks
    )
    found, share, judged = judge_tables(source, made, rows)
    return coded, found, resolved, share, summed, judged


def _add_labels(
    job: Job, target_kind: TargetKind, manifest: Manifest
) -> Steps[tuple[Manifest, Target, Coding]]:
    """Write the labels of another target to a store that already holds the codes."""
    source, kept = job.source, (yield from find_kept(job.source))
    if kept.digest != manifest.kept:
        others = some_of(sorted({each.name for each in manifest.targets}))
        raise ValueError(
            f"target {source.target_name!r} is missing or ignored for other samples than {others}, "
            f"the target that the store {job.root.path!r} was encoded with; give another store"
        )
    rows = manifest.content.chunks[0]
    run = uuid.uuid4().hex
    weights = weight_blocks(source, kept, run)
    (coding,) = yield Step((_coding(job, kept, target_kind, weights, run),))
    (written,) = yield Step((label_tasks(job, kept, coding, rows),), here=source.target_in_memory)
    groups = yield from write_groups(job, kept, rows)
    release()
    target = _target(job, kept, coding, written, groups)
    same = next(
        (
            each
            for each in manifest.targets
            if (each.content, each.groups) == (target.content, target.groups)
        ),
        target,
    )
    if same is not target:  # a target without a fingerprint whose labels the store already has
        job.place.remove(f"labels/{target.key}")
        if groups is not None:
            job.place.remove(f"groups/{target.key}")
    return manifest.with_target(same), same, coding


def _target(
    job: Job,
    kept: Kept,
    coding: Coding,
    written: list[tuple[int, np.ndarray]],
    groups: GroupRecord | None,
    notes: tuple[str, ...] = (),
) -> Target:
    """Return the manifest entry of the written labels."""
    counts = np.sum([each for _, each in written], axis=0)
    return Target(
        key=job.key,
        name=job.source.target_name,
        kind=coding.kind,
        classes=coding.classes,
        counts=tuple(counts.tolist()),
        values=tuple(coding.values.tolist()),
        n_dropped=kept.dropped.n_missing,
        checksums=digits_of(written),
        groups=groups,
        notes=target_notes(job.source, kept, coding, notes),
    )


def _coding(
    job: Job,
    kept: Kept,
    target_kind: TargetKind,
    weights: list[Delayed] | list[None],
    run: str,
) -> Delayed | Coding:
    """Return the coding of the target if target and weights are in memory, otherwise a task."""
    source, target = job.source, job.source.target
    assert target is not None
    blocks = target.to_delayed(optimize_graph=False)
    summaries = [
        delayed(_summarise_target)(
            block,
            mask,
            own,
            first,
            kept.n_rows,
            target_kind,
            source.target_type,
            dask_key_name=f"encode-read-target-{row}-{run}",
        )
        for row, (block, mask, own, first) in enumerate(
            zip(blocks, kept.masks, weights, kept.firsts, strict=True)
        )
    ]
    coding: Delayed = delayed(_make_coding)(
        tree(merge_targets, summaries, f"encode-merge-target-{run}"),
        f"{source.target_name} in {job.part}" if job.part else source.target_name,
        target_kind,
        source.target_type,
        dask_key_name=f"encode-target-{run}",
    )
    here = source.target_in_memory and (source.weights is None or source.weights.in_memory)
    return compute(coding, here=True)[0] if here else coding


def _write_tasks(job: Job, kept: Kept, features: Features, grid: tuple[int, int]) -> list[Delayed]:
    """Return a task that writes the tables, and one task per chunk that encodes and writes it.

    A task writes the tables because the driver may be busy running the scheduler.
    """
    source, run = job.source, uuid.uuid4().hex
    bits = count_bits(features)
    spans = kept.spans(grid[0])
    rows = tuple(span.n_source for span in spans)
    firsts = range(0, source.n_features, grid[1])
    tables = [
        delayed(
            features[first : first + grid[1]],
            name=f"encode-features-{column}-{run}",
            traverse=False,
        )
        for column, first in enumerate(firsts)
    ]
    tasks = [delayed(write_tables)(job.place, tables, dask_key_name=f"encode-write-tables-{run}")]
    for column, first in enumerate(firsts):
        last = min(first + grid[1], source.n_features)
        pieces = []
        begin = 0
        for part in source.parts:
            end = begin + part.shape[1]
            if begin < last and first < end:
                own = part[:, max(first - begin, 0) : min(last, end) - begin]
                pieces.append(_pieces(own, rows) if kept.whole else _kept_pieces(own, spans))
            begin = end
        tasks += [
            delayed(_write_codes)(
                [piece[row] for piece in pieces],
                tables[column],
                job.place,
                bits,
                grid,
                (column, row),
                min(grid[0], kept.n_rows - row * grid[0]),
                source.places,
                dask_key_name=f"encode-write-{row}-{column}-{run}",
            )
            for row, span in enumerate(spans)
        ]
    return tasks


def _pieces(part: da.Array, rows: tuple[int, ...]) -> list[list[Delayed]]:
    """Return, for each chunk of the store, a list with the task that reads its rows."""
    # Without optimization, a chunk that several pieces need remains one key, so it is read once.
    cut = rechunked(part, (rows, (part.shape[1],))).to_delayed(optimize_graph=False)
    return [[piece] for piece in cut[:, 0]]


def _kept_pieces(part: da.Array, spans: Sequence[Span]) -> list[list[Delayed]]:
    """Return, for each chunk of the store, a list of tasks that return its kept rows, by block.

    A task copies the kept rows of one block of the source, so that the block does not have to stay
    in memory until all rows of the chunk were read.
    """
    whole = rechunked(part, (part.chunks[0], (part.shape[1],)))
    blocks = whole.to_delayed(optimize_graph=False)[:, 0]
    edges = np.cumsum([0, *part.chunks[0]]).tolist()
    pieces: list[list[Delayed]] = []
    start = 0
    for span in spans:
        stop, flags, own = start + span.n_source, span.flags, []
        for block in range(bisect.bisect_right(edges, start) - 1, bisect.bisect_left(edges, stop)):
            low, high = max(start, edges[block]), min(stop, edges[block + 1])
            some = flags[low - start : high - start]
            if some.any():
                own.append(
                    delayed(_kept_rows)(
                        blocks[block],
                        slice(low - edges[block], high - edges[block]),
                        None if some.all() else np.packbits(some),
                        dask_key_name=f"encode-keep-{uuid.uuid4().hex}",
                    )
                )
        pieces.append(own)
        start = stop
    return pieces


def _kept_rows(block: np.ndarray, rows: slice, mask: Mask) -> np.ndarray:
    return take(block[rows], mask)


def _summarise(
    block: np.ndarray,
    mask: Mask,
    weights: np.ndarray | None,
    first_row: int,
    n_samples: int,
    nominal: np.ndarray,
    limit: int,
    cuts: Sequence[int] | None,
    sources: tuple[str, ...],
) -> Summary | list[Summary]:
    """Return the summary of the kept rows of a block, or a list with one summary per tile."""
    check_reachable(sources)
    summary = summarise(take(block, mask), first_row, n_samples, nominal, limit, weights)
    if cuts is None:
        return summary
    return [summary.columns(a, b) for a, b in itertools.pairwise(cuts)]


def _summarise_target(
    block: np.ndarray,
    mask: Mask,
    weights: np.ndarray | None,
    first_row: int,
    n_samples: int,
    target_kind: TargetKind,
    kind: TargetType,
) -> TargetSummary:
    return summarise_target(take(block, mask), first_row, n_samples, target_kind, kind, weights)


def _write_codes(
    pieces: list[list[np.ndarray]],
    features: Features,
    place: Place,
    bits: int,
    grid: tuple[int, int],
    chunk: tuple[int, int],
    n_rows: int,
    sources: tuple[str, ...],
) -> int:
    """Write a chunk of codes and return its checksum."""
    check_reachable(sources)
    whole = [own[0] if len(own) == 1 else np.concatenate(own) for own in pieces]
    if any(len(piece) != n_rows for piece in whole):
        raise ValueError(
            f"a block of the data has {[len(piece) for piece in whole]} rows, but its chunks "
            f"declare {n_rows}; fix the function that makes the block, or its declared chunks"
        )
    planes = np.zeros((len(features), bits, -(-n_rows // WORD)), np.uint64)
    done = 0
    for piece in whole:
        some = slice(done, done + piece.shape[1])
        encode_planes(piece, features[some], planes[some])
        done = some.stop
    return write_chunk(place, chunk_file("codes", *chunk), whole_planes(planes, n_rows, grid))


def _make_coding(
    summaries: list[TargetSummary], name: str, target_kind: TargetKind, kind: TargetType
) -> Coding:
    return make_coding(merge_targets(summaries), name, target_kind, kind)
