"""Copy some samples of a code store to a new code store with the same bins.

The samples of the new store are numbered from 0. Folds, resamples and chunks are therefore the same
as in a store that is encoded from these samples alone with the same bins.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from dataclasses import dataclass, replace

import numpy as np
from dask.delayed import delayed

from hofs_dask.encoding.stages import with_warnings
from hofs_dask.engine.chunking import Room, choose_layout
from hofs_dask.io.files import digest
from hofs_dask.io.places import Location, Place, as_place
from hofs_dask.kernels.hashing import N_FOLDS
from hofs_dask.kernels.planes import pack
from hofs_dask.scheduling.compute import compute, release
from hofs_dask.store.bins import category_order
from hofs_dask.store.chunks import (
    COLUMNS,
    Chunks,
    chunk_file,
    read_table,
    whole_planes,
    write_chunk,
    write_table,
)
from hofs_dask.store.codes import (
    CodeStore,
    load_codes,
    read_codes,
    read_column,
    writing,
)
from hofs_dask.store.groups import deal_sizes
from hofs_dask.store.labels import Labels
from hofs_dask.store.layout import cuts
from hofs_dask.store.manifest import GroupRecord, Target, WeightRecord, as_digits, write_manifest
from hofs_dask.store.metadata import write_column_metadata, write_metadata
from hofs_dask.store.weights import Weights, sum_weights


def take_samples(
    codes: CodeStore, samples: np.ndarray, store: Location, *, room: Room | None = None
) -> CodeStore:
    """Copy some samples of a code store to a new code store, and return the new store.

    Bins, categories and their values do not change, even if a code no longer occurs. Classes
    without samples are left out, and the others are ordered by their frequency in these samples.
    Groups without samples are left out too, and the others are assigned to folds again. Weights are
    divided by their greatest common divisor.

    Parameters
    ----------
    codes : CodeStore
        The store to copy from.
    samples : ndarray of bool (sample,)
        Whether to copy each sample.
    store : str, path, zarr.abc.store.Store or Place
        Path, URL or Zarr store for the new store.
    room : Room, optional
        Free memory of the smallest worker. Chunks are chosen so that a reduction fits into it.

    Examples
    --------
    >>> from hofs_dask.encoding.encode import encode_source
    >>> from hofs_dask.io.source import open_source
    >>> from hofs_dask.store.codes import temporary_store
    >>> source = open_source(np.arange(16.0).reshape(8, 2), np.arange(8) % 2)
    >>> with temporary_store() as path, temporary_store() as other:
    ...     some = take_samples(encode_source(source, path, bins=4), np.arange(8) < 6, other)
    ...     read_codes(some, slice(0, 1), slice(0, 6))
    array([[0, 0, 1, 1, 2, 2]], dtype=uint8)
    """
    manifest = codes.manifest()
    columns = _take_columns(codes, samples)
    grid = choose_layout(
        len(columns.classes),
        codes.n_features,
        int(codes.n_codes.max()),
        n_classes=columns.labels.n_classes,
        room=room,
    ).chunks
    root = as_place(store)
    with writing(root) as folder:
        place = root / folder
        tables = {
            name: read_table(codes.path, codes.place, name, table)
            for name, table in manifest.content.tables.items()
        }
        write_metadata(place, len(columns.classes), grid, codes.bits, tables)
        made = replace(
            manifest,
            folder=folder,
            fingerprint=columns.fingerprint,
            n_source=codes.n_samples,
            kept=columns.digest,
            content=replace(
                manifest.content,
                n_samples=len(columns.classes),
                chunks=grid,
                tables={name: write_table(place, name, table) for name, table in tables.items()},
                weights=_write_weights(columns, place, grid[0]),
                checksums=_write_codes(codes, samples, place, grid),
            ),
            targets=(_write_target(columns, place, grid[0]),),
        )
        write_manifest(root, made)
        return with_warnings(replace(load_codes(root, made, made.targets[0]), axis=codes.axis))


@dataclass(frozen=True)
class _Columns:
    """Labels, groups and weights of the samples that are copied."""

    labels: Labels  # without checksums
    classes: np.ndarray  # uint8 (sample,)
    groups: np.ndarray | None  # uint32 (sample,)
    group_name: str
    weights: np.ndarray | None  # uint16 (sample,)
    weight: Weights | None  # without checksums
    fingerprint: str | None
    digest: str  # of the mask of copied samples


def _take_columns(codes: CodeStore, samples: np.ndarray) -> _Columns:
    """Read labels, groups and weights of the samples that are copied, and renumber their values."""
    if not samples.any():
        raise ValueError(f"where leaves none of the {codes.n_samples} samples of the code store")
    given = codes.labels
    labels = _column(codes, codes.label_chunks, samples, given.n_classes)
    weights, weight, groups = None, None, None
    if codes.weights is not None and codes.weight_chunks is not None:
        limit = codes.weights.largest + 1
        weights = _column(codes, codes.weight_chunks, samples, limit)
        unit = np.gcd.reduce(np.unique(weights))
        weights = weights // unit
        sums = sum_weights(weights)
        if sums.largest > 1:  # otherwise all samples count equally
            scale = codes.weights.unit * int(unit)
            weight = Weights(codes.weights.name, scale, sums.total, sums.squares, sums.largest)
    if codes.groups is not None and codes.group_chunks is not None:
        limit = N_FOLDS * codes.groups.n_groups
        numbers = _column(codes, codes.group_chunks, samples, limit) // N_FOLDS
        groups = _deal_again(numbers, codes.groups.name)
    counts = np.bincount(labels, minlength=given.n_classes)
    order = np.flatnonzero(counts).tolist()
    if len(order) < 2:
        raise ValueError(
            f"target {given.name!r} has only one value, {given.classes[order[0]]!r}, in the "
            f"{len(labels)} samples of where; give samples of two classes or more"
        )
    values = given.values[order]
    if given.kind == "class":
        size = np.bincount(labels, weights, minlength=given.n_classes)
        order.sort(key=lambda c: (-size[c], category_order(given.classes[c])))
        values = np.arange(len(order), dtype=np.float64)
    class_of = np.zeros(given.n_classes, np.uint8)
    class_of[order] = np.arange(len(order))
    n_left = codes.n_samples - len(labels)
    note = f"where leaves out {n_left} of {codes.n_samples} samples of a code store, with its bins"
    kept = hashlib.sha256(np.packbits(samples).tobytes()).hexdigest()
    return _Columns(
        labels=replace(
            given,
            classes=tuple(given.classes[c] for c in order),
            counts=counts[order],
            values=values,
            notes=(*given.notes, note),
        ),
        classes=class_of[labels],
        groups=groups,
        group_name=codes.groups.name if codes.groups else "",
        weights=None if weight is None else weights,
        weight=weight,
        fingerprint=None if codes.fingerprint is None else digest([codes.fingerprint, kept]),
        digest=kept,
    )


def _column(codes: CodeStore, chunks: Chunks, samples: np.ndarray, limit: int) -> np.ndarray:
    """Return the labels, groups or weights of the samples that are copied."""
    found = []
    for row, rows in enumerate(cuts(slice(0, codes.n_samples), codes.chunks[0])):
        values = read_column(chunks, row, rows.stop - rows.start)
        if values.max() >= limit:
            raise chunks.refuse(0, row, "has a value that the store does not have")
        found.append(values[samples[rows]])
    return np.concatenate(found)


def _deal_again(numbers: np.ndarray, name: str) -> np.ndarray:
    """Return the new stored value of the group of each sample, given the old group numbers."""
    present, inverse, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    if len(present) < 2:
        raise ValueError(
            f"groups {name!r} has only one group in the {len(numbers)} samples of where; give "
            "samples of two groups or more"
        )
    values: np.ndarray = np.array(deal_sizes(sizes.tolist()), np.uint32)[inverse]
    return values


def _write_target(columns: _Columns, place: Place, chunk_rows: int) -> Target:
    """Write labels and groups; return the manifest entry of the target."""
    labels, groups = columns.labels, None
    if columns.groups is not None:
        n_groups = len(np.unique(columns.groups))
        checksums = _write_column(columns.groups, place, f"groups/{labels.key}", chunk_rows)
        groups = GroupRecord(columns.group_name, n_groups, checksums)
    return Target(
        key=labels.key,
        name=labels.name,
        kind=labels.kind,
        classes=labels.classes,
        counts=tuple(labels.counts.tolist()),
        values=tuple(labels.values.tolist()),
        n_dropped=labels.n_dropped,
        checksums=_write_column(columns.classes, place, f"labels/{labels.key}", chunk_rows),
        groups=groups,
        notes=labels.notes,
    )


def _write_weights(columns: _Columns, place: Place, chunk_rows: int) -> WeightRecord | None:
    found = columns.weight
    if found is None or columns.weights is None:
        return None
    checksums = _write_column(columns.weights, place, "weights", chunk_rows)
    return WeightRecord(
        found.name, found.unit, found.total, found.squares, found.largest, checksums
    )


def _write_column(values: np.ndarray, place: Place, name: str, chunk_rows: int) -> str:
    """Write an array with one value per sample; return the checksums of its chunks."""
    kind = COLUMNS[name.split("/")[0]]
    write_column_metadata(place, name, len(values), chunk_rows)
    checksums = [
        write_chunk(place, chunk_file(name, 0, row), kind.whole(values[rows], chunk_rows))
        for row, rows in enumerate(cuts(slice(0, len(values)), chunk_rows))
    ]
    return as_digits(np.array(checksums, np.uint32))


def _write_codes(codes: CodeStore, samples: np.ndarray, place: Place, grid: tuple[int, int]) -> str:
    """Write the codes of the copied samples, one task per chunk; return the checksums."""
    run = uuid.uuid4().hex
    (positions,) = np.nonzero(samples)
    ends = positions[grid[0] - 1 : -1 : grid[0]] + 1
    edges = [int(positions[0]), *ends.tolist(), int(positions[-1]) + 1]
    source = delayed(codes, name=f"take-store-{run}", traverse=False)
    tasks = [
        delayed(_take)(
            source,
            features.start,
            features.stop,
            first,
            np.packbits(samples[first:last]),
            last - first,
            place,
            chunk_file("codes", tile, row),
            grid,
            dask_key_name=f"take-samples-{row}-{tile}-{run}",
        )
        for tile, features in enumerate(cuts(slice(0, codes.n_features), grid[1]))
        for row, (first, last) in enumerate(itertools.pairwise(edges))
    ]
    (checksums,) = compute(tasks)
    release()
    return as_digits(np.array(checksums, np.uint32))


def _take(
    codes: CodeStore,
    first_feature: int,
    last_feature: int,
    first: int,
    mask: np.ndarray,
    n_source: int,
    place: Place,
    file: str,
    grid: tuple[int, int],
) -> int:
    """Write a chunk of codes of the copied samples; return its checksum."""
    flags = np.unpackbits(mask, count=n_source).view(bool)
    length, last = codes.chunks[0], first + n_source
    edges = [first, *range(first - first % length + length, last, length), last]
    blocks = []
    for a, b in itertools.pairwise(edges):
        own = flags[a - first : b - first]
        if own.any():
            block = read_codes(codes, slice(first_feature, last_feature), slice(a, b))
            blocks.append(block if own.all() else block[:, own])
    cells = np.concatenate(blocks, axis=1)
    planes = pack(cells, codes.bits)
    return write_chunk(place, file, whole_planes(planes, cells.shape[1], grid))
