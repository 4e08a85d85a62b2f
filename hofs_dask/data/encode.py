"""From a source to a code store: two reads, one compute each."""

from __future__ import annotations

import itertools
import os
import uuid
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from dask.delayed import Delayed, delayed
from zarr.codecs import Crc32cCodec

from hofs_dask.data.bins import (
    Bins,
    Feature,
    Refusal,
    check_bins,
    count_bins,
    encode_planes,
    make_tables,
    most_bins,
)
from hofs_dask.data.chunks import CODE_FILL, LABEL_FILL, open_array, write_labels, write_planes
from hofs_dask.data.codec import Planes
from hofs_dask.data.codes import (
    FORMAT,
    VERSION,
    CodeStore,
    label_keys,
    load_codes,
    store_attributes,
)
from hofs_dask.data.compute import compute, release
from hofs_dask.data.fingerprint import digest
from hofs_dask.data.labels import (
    DROPPED,
    Coding,
    TargetKind,
    TargetSummary,
    TargetType,
    check_kind,
    encode_target,
    make_coding,
    merge_targets,
    summarise_target,
)
from hofs_dask.data.layout import Room, check_chunks, choose_layout
from hofs_dask.data.paths import as_path
from hofs_dask.data.summary import SAMPLE_ROWS, Summary, merge_summaries, summarise
from hofs_dask.data.windows import Window
from hofs_dask.errors import some_of
from hofs_dask.kernels.planes import WORD, n_bits

if TYPE_CHECKING:
    import dask.array as da

    from hofs_dask.data.source import Source

#: The sampled rows of the features whose tables one task makes stay below this.
TILE_BYTES = 32 * 2**20
#: So few tiles are cut by the tasks that use them: a cut is a task of its own, and a worker that
#: has such a task to do waits for its next block.
FEW_TILES = 4
FAN_IN = 16


def encode_source(
    source: Source,
    store: str | os.PathLike[str],
    *,
    bins: int | str | None = "auto",
    target_kind: str = "auto",
    chunks: tuple[int, int] | None = None,
    room: Room | None = None,
) -> CodeStore:
    """Return the code store of a source, writing only what ``store`` does not hold yet.

    Parameters
    ----------
    source : Source
        Data with a target.
    store : str or path
        Where the store is, or will be. One of other data or options is written anew.
    bins : int, "auto", "width" or None
        Bins of a numeric feature with more distinct values than that.
    target_kind : {"auto", "class", "ordinal", "continuous"}
        How the target is read.
    chunks : tuple of int, optional
        Samples and features of a chunk. By default what `choose_layout` says.
    room : Room, optional
        What the smallest worker has free: chunks are such that a pass fits.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.chunks import read_codes
    >>> from hofs_dask.data.codes import temporary_store
    >>> from hofs_dask.data.source import open_source
    >>> data = np.arange(40.0).reshape(20, 2)
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(data, np.arange(20) % 2), path, bins=4)
    ...     read_codes(path, slice(0, 1), slice(0, 20))[0, ::5]
    array([0, 1, 2, 3], dtype=uint8)
    """
    checked_bins, kind = check_bins(bins), check_kind(target_kind)
    if chunks is not None:
        check_chunks(chunks)
    if source.target is None:
        raise ValueError(
            "target is None; give a target: an array or the name of a variable or column"
        )
    path = as_path(store)
    fingerprint = digest([source.fingerprint, checked_bins, source.nominal.tolist(), VERSION])
    key = digest([source.target_fingerprint, source.target_name, kind, VERSION])[:16]
    found = store_attributes(path)
    if found and found.get("complete") and found["fingerprint"] == fingerprint:
        coding = None if key in label_keys(path) else _add_labels(source, path, key, kind)
        return _checked(load_codes(path, key), coding)

    coding, features, n_bins = _first_read(source, checked_bins, kind)
    grid = choose_layout(
        source.n_samples,
        source.n_features,
        max(feature.n_codes for feature in features),
        n_classes=coding.n_classes,
        source_rows=source_rows(source),
        room=room,
        chunks=chunks,
    ).chunks
    attributes: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "fingerprint": fingerprint,
        "names": list(source.names),
        "options": {"bins": checked_bins, "n_bins": n_bins},
    }
    _create(path, source, features, grid, attributes)
    _create_labels(path, key, source.n_samples, grid[0])
    writes = _write_tasks(source, path, features, grid)
    labels = _label_tasks(source, path, key, coding, grid[0])
    # first what is for the driver: the scheduler may be a thread of the same process, and should
    # have it to itself while the workers write
    here, there = (labels, []) if source.target_in_memory else ([], labels)
    (counts,) = compute(here, here=True)
    _, more = compute(writes, there)
    release()
    _finish_labels(path, key, source.target_name, coding, [*counts, *more])
    zarr.open_group(path, mode="r+").attrs.put({**attributes, "complete": True})
    return _checked(load_codes(path, key), coding)


def _first_read(
    source: Source, bins: Bins, target_kind: TargetKind
) -> tuple[Coding, list[Feature], int]:
    """Read all once: how to code the target and each feature."""
    run = uuid.uuid4().hex
    coding = _coding(source, target_kind, run)
    n_bins = delayed(_resolve_bins)(
        bins, source.n_samples, coding, dask_key_name=f"encode-bins-{run}"
    )
    tables = []
    rows = min(source.n_samples, SAMPLE_ROWS)
    first_feature = 0
    for number, part in enumerate(source.parts):
        width = max(1, TILE_BYTES // (rows * max(part.dtype.itemsize, 1)))
        offsets = _starts(part.chunks[0])
        blocks = _windows(source, part.chunks[0])
        if blocks is None:
            blocks = part.to_delayed(optimize_graph=False)
        for column, n_columns in enumerate(part.chunks[1]):
            # Of equal widths: the read ends with these tasks, and the widest keeps all waiting.
            n_tiles = -(-n_columns // width)
            few = n_tiles <= FEW_TILES
            cuts = [n_columns * tile // n_tiles for tile in range(n_tiles + 1)]
            # One key for all rows: a copy in every task would outgrow the data of a wide source.
            nominal = delayed(
                source.nominal[first_feature : first_feature + n_columns],
                name=f"encode-nominal-{number}-{column}-{run}",
                traverse=False,
            )
            name = f"{number}-{column}-{run}"
            summaries = [
                delayed(_summarise)(
                    block,
                    offset,
                    source.n_samples,
                    nominal,
                    most_bins(bins) + 1,
                    None if few else cuts,
                    dask_key_name=f"encode-summarise-{row}-{name}",
                )
                for row, (block, offset) in enumerate(zip(blocks[:, column], offsets, strict=True))
            ]
            merged = _tree(merge_summaries, summaries, f"encode-merge-{name}") if few else []
            for tile, (begin, end) in enumerate(itertools.pairwise(cuts)):
                if not few:
                    own = [each[tile] for each in summaries]
                    merged = _tree(merge_summaries, own, f"encode-merge-{tile}-{name}")
                tables.append(
                    delayed(_make_tables)(
                        merged,
                        slice(begin, end) if few else None,
                        first_feature + begin,
                        bins,
                        n_bins,
                        dask_key_name=f"encode-tables-{tile}-{name}",
                    )
                )
            first_feature += n_columns
    made, coded, resolved = compute(tables, coding, n_bins)
    problems = [problem for _, several in made for problem in several]
    if problems:
        first: Refusal = min(problems, key=lambda problem: problem.column)
        raise first.error(f"feature {source.names[first.column]!r} {first.text}")
    return coded, [feature for several, _ in made for feature in several], resolved


def _add_labels(source: Source, path: str, key: str, target_kind: TargetKind) -> Coding:
    """Write the labels of a further target into a store that has the codes; return their coding."""
    rows = int(open_array(path, "codes", "r").chunks[1])
    (coding,) = compute(_coding(source, target_kind, uuid.uuid4().hex))
    _create_labels(path, key, source.n_samples, rows)
    labels = _label_tasks(source, path, key, coding, rows)
    (counts,) = compute(labels, here=source.target_in_memory)
    release()
    _finish_labels(path, key, source.target_name, coding, counts)
    made: Coding = coding
    return made


def _coding(source: Source, target_kind: TargetKind, run: str) -> Delayed | Coding:
    """How to code the target: at once where it is in memory, else a task."""
    target = source.target
    assert target is not None
    blocks = target.to_delayed(optimize_graph=False)
    summaries = [
        delayed(summarise_target)(
            block,
            offset,
            source.n_samples,
            target_kind,
            source.target_type,
            dask_key_name=f"encode-summarise-target-{row}-{run}",
        )
        for row, (block, offset) in enumerate(zip(blocks, _starts(target.chunks[0]), strict=True))
    ]
    coding: Delayed = delayed(_make_coding)(
        _tree(merge_targets, summaries, f"encode-merge-target-{run}"),
        source.target_name,
        target_kind,
        source.target_type,
        dask_key_name=f"encode-target-{run}",
    )
    return compute(coding, here=True)[0] if source.target_in_memory else coding


def _write_tasks(
    source: Source, path: str, features: list[Feature], grid: tuple[int, int]
) -> list[Delayed]:
    """One task a chunk of the store: take its cells, code them, write them. And one for tables.

    That one is not for the driver, which may be the scheduler too and has tasks to send.
    """
    run = uuid.uuid4().hex
    bits = _bits(features)
    rows = _chunk_sizes(source.n_samples, grid[0])
    firsts = range(0, source.n_features, grid[1])
    tables = [
        delayed(
            features[first : first + grid[1]],
            name=f"encode-features-{column}-{run}",
            traverse=False,
        )
        for column, first in enumerate(firsts)
    ]
    tasks = [delayed(_write_tables)(path, tables, dask_key_name=f"encode-write-tables-{run}")]
    for column, first in enumerate(firsts):
        last = min(first + grid[1], source.n_features)
        pieces = []
        begin = 0
        for part in source.parts:
            end = begin + part.shape[1]
            if begin < last and first < end:
                pieces.append(
                    _pieces(source, part, rows, max(first - begin, 0), min(last, end) - begin)
                )
            begin = end
        tasks += [
            delayed(_write_codes)(
                [piece[row] for piece in pieces],
                tables[column],
                path,
                bits,
                row * grid[0],
                first,
                dask_key_name=f"encode-write-{row}-{column}-{run}",
            )
            for row in range(len(rows))
        ]
    return tasks


def _pieces(
    source: Source, part: da.Array, rows: tuple[int, ...], first: int, last: int
) -> np.ndarray:
    """What has some columns of a part, of so many rows each: windows, or tasks that read them."""
    blocks = _windows(source, rows) if last - first == part.shape[1] else None
    if blocks is None:
        cut = part[:, first:last].rechunk((rows, (last - first,)))
        # Unoptimised, chunks that several pieces need keep one key and are read once.
        blocks = cut.to_delayed(optimize_graph=False)
    pieces: np.ndarray = blocks[:, 0]
    return pieces


def _windows(source: Source, rows: tuple[int, ...]) -> np.ndarray | None:
    """Windows (row, 1) of so many rows on the array that a source is, None where it cannot be."""
    starts = _starts(rows)
    if source.array is None or any(start % source.array.chunks[0] for start in starts):
        return None
    windows = np.empty((len(rows), 1), object)
    windows[:, 0] = [Window(source.array, a, a + n) for a, n in zip(starts, rows, strict=True)]
    return windows


def _label_tasks(
    source: Source, path: str, key: str, coding: Coding, chunk_rows: int
) -> list[Delayed]:
    """One task a chunk of labels: write them, count the samples of each class."""
    run = uuid.uuid4().hex
    assert source.target is not None
    target = source.target.rechunk((_chunk_sizes(source.n_samples, chunk_rows),))
    coded = delayed(coding, name=f"encode-coding-{run}", traverse=False)
    return [
        delayed(_write_labels)(
            block,
            coded,
            path,
            key,
            row * chunk_rows,
            dask_key_name=f"encode-write-labels-{row}-{run}",
        )
        for row, block in enumerate(target.to_delayed(optimize_graph=False))
    ]


def _summarise(
    block: np.ndarray | Window,
    first_row: int,
    n_samples: int,
    nominal: np.ndarray,
    limit: int,
    cuts: Sequence[int] | None,
) -> Summary | list[Summary]:
    """The summary of a block, or one for each tile between the cuts."""
    summary = summarise(block, first_row, n_samples, nominal, limit)
    if cuts is None:
        return summary
    return [summary.columns(a, b) for a, b in itertools.pairwise(cuts)]


def _resolve_bins(bins: Bins, n_samples: int, coding: Coding) -> int:
    return count_bins(bins, n_samples, coding.n_classes)


def _write_codes(
    pieces: list[np.ndarray | Window],
    features: list[Feature],
    path: str,
    bits: int,
    first_row: int,
    first: int,
) -> None:
    n_rows = len(pieces[0])
    planes = np.zeros((len(features), bits, -(-n_rows // WORD)), np.uint64)
    done = 0
    for piece in pieces:
        some = slice(done, done + piece.shape[1])
        encode_planes(piece, features[some], planes[some])
        done = some.stop
    rows = slice(first_row, first_row + n_rows)
    write_planes(path, "codes", slice(first, first + done), rows, planes)


def _write_labels(
    block: np.ndarray, coding: Coding, path: str, key: str, first_row: int
) -> np.ndarray:
    labels = encode_target(block, coding)
    write_labels(path, key, slice(first_row, first_row + len(labels)), labels)
    return np.bincount(labels, minlength=DROPPED + 1)


def _tree(merge: Callable[[list[Any]], Any], parts: list[Delayed], name: str) -> list[Delayed]:
    """Merge in groups of neighbours, until there are so few that one task can take them."""
    level = 0
    while len(parts) > FAN_IN:
        parts = [
            delayed(merge)(parts[a : a + FAN_IN], dask_key_name=f"{name}-{level}-{a}")
            for a in range(0, len(parts), FAN_IN)
        ]
        level += 1
    return parts


def _make_tables(
    summaries: list[Summary], cut: slice | None, first: int, bins: Bins, n_bins: int
) -> tuple[list[Feature], list[Refusal]]:
    if cut is not None:
        summaries = [each.columns(cut.start, cut.stop) for each in summaries]
    return make_tables(merge_summaries(summaries), first, bins, n_bins)


def _make_coding(
    summaries: list[TargetSummary], name: str, target_kind: TargetKind, kind: TargetType
) -> Coding:
    return make_coding(merge_targets(summaries), name, target_kind, kind)


def source_rows(source: Source) -> int | None:
    """Return the rows of a chunk of the source, None where it has one chunk or they differ.

    Examples
    --------
    >>> from hofs_dask.data.source import open_source
    >>> import dask.array as da
    >>> source_rows(open_source(da.zeros((25, 2), chunks=(10, 2)), None))
    10
    """
    rows = source.parts[0].chunks[0]
    regular = len(rows) > 1 and set(rows[:-1]) == {rows[0]} and rows[-1] <= rows[0]
    return int(rows[0]) if regular else None


def _chunk_sizes(size: int, chunk: int) -> tuple[int, ...]:
    return tuple(min(chunk, size - start) for start in range(0, size, chunk))


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(sizes[:-1]).tolist()]


def _create(
    path: str,
    source: Source,
    features: list[Feature],
    grid: tuple[int, int],
    attributes: dict[str, Any],
) -> None:
    """Create a store with room for codes and labels; it is complete once the attributes say so."""
    group = zarr.create_group(path, attributes=attributes, overwrite=True)
    group.create_array(
        "codes",
        shape=(source.n_features, source.n_samples),
        chunks=grid[::-1],
        dtype=np.uint8,
        fill_value=CODE_FILL,
        serializer=Planes(_bits(features)),
        compressors=[Crc32cCodec()],
        dimension_names=("feature", "sample"),
    )
    group.create_group("labels")


def _write_tables(path: str, tiles: list[list[Feature]]) -> None:
    """Write how the features of a store are coded."""
    features = list(itertools.chain.from_iterable(tiles))
    group = zarr.open_group(path, mode="r+")
    n_codes = np.array([feature.n_codes for feature in features], np.int16)
    has_missing = np.array([feature.has_missing for feature in features])
    nominal = np.array([feature.categories is not None for feature in features])
    named = [(str(j), feature) for j, feature in enumerate(features) if feature.categories]
    _put_table(group, "n_codes", n_codes)
    _put_table(group, "missing_code", np.where(has_missing, n_codes - 1, -1).astype(np.int16))
    _put_table(
        group,
        "nominal",
        nominal,
        {
            "categories": {j: list(feature.categories or ()) for j, feature in named},
            "n_folded": {j: feature.n_folded for j, feature in named if feature.n_folded},
        },
    )
    _put_table(group, "values", _pad([feature.values for feature in features]))
    _put_table(group, "edges", _pad([feature.edges for feature in features]), dim="edge")


def _bits(features: list[Feature]) -> int:
    """The planes of a feature of the store."""
    return n_bits(max(feature.n_codes for feature in features))


def _put_table(
    group: zarr.Group,
    name: str,
    table: np.ndarray,
    attributes: dict[str, Any] | None = None,
    dim: str = "code",
) -> None:
    array = group.create_array(
        name,
        shape=table.shape,
        chunks=tuple(max(size, 1) for size in table.shape),
        dtype=table.dtype,
        compressors=[Crc32cCodec()],
        attributes=attributes,
        dimension_names=("feature", dim)[: table.ndim],
    )
    array[...] = table


def _pad(rows: list[np.ndarray]) -> np.ndarray:
    padded = np.full((len(rows), max(1, max(len(row) for row in rows))), np.nan)
    for out, row in zip(padded, rows, strict=True):
        out[: len(row)] = row
    return padded


def _create_labels(path: str, key: str, n_samples: int, chunk_rows: int) -> None:
    zarr.open_group(path, mode="r+").create_array(
        f"labels/{key}",
        shape=(n_samples,),
        chunks=(chunk_rows,),
        dtype=np.uint8,
        fill_value=LABEL_FILL,
        compressors=[Crc32cCodec()],
        dimension_names=("sample",),
        overwrite=True,
    )


def _finish_labels(
    path: str, key: str, name: str, coding: Coding, counts: list[np.ndarray]
) -> None:
    total = np.sum(counts, axis=0)
    group = zarr.open_group(path, mode="r+")
    group[f"labels/{key}"].attrs.put(
        {
            "name": name,
            "kind": coding.kind,
            "classes": list(coding.classes),
            "counts": total[: coding.n_classes].tolist(),
            "values": coding.values.tolist(),
            "n_dropped": int(total[DROPPED]),
            "complete": True,
        }
    )
    labels = group["labels"]
    # The order of the keys tells which of several targets of one name is the latest.
    order: Any = labels.attrs.get("order", [])
    labels.attrs["order"] = [*order, key]


def _checked(store: CodeStore, coding: Coding | None) -> CodeStore:
    """Return the store, with a warning of classes that are too small or may not be meant.

    The coding is that of labels that have been made just now.
    """
    labels = store.labels
    if coding is not None and coding.n_whole:
        warnings.warn(
            f"target {labels.name!r} holds {coding.n_whole} different whole numbers as floats and "
            f"is cut into {len(labels.classes)} ranges; if they are classes, give "
            'target_kind="class", else target_kind="continuous"',
            stacklevel=3,
        )
    single = [c for c, n in zip(labels.classes, labels.counts, strict=True) if n == 1]
    if single and labels.kind != "continuous":
        numbers = all(type(each) in (int, float) for each in labels.classes)
        otherwise = ', or give target_kind="continuous" if it is a number' if numbers else ""
        warnings.warn(
            f"target {labels.name!r} has one sample only of class {some_of(single)}; drop such "
            f"samples or join the classes{otherwise}",
            stacklevel=3,
        )
    return store
