"""Write the arrays of a code store that have one value per sample: labels, groups, weights."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import Delayed, delayed

from hofs_dask.encoding.kept import Kept, Mask, take
from hofs_dask.encoding.stages import warn_of_rounding
from hofs_dask.encoding.steps import Step, Steps
from hofs_dask.store.chunks import COLUMNS, chunk_file, write_chunk
from hofs_dask.store.groups import (
    Dealt,
    GroupCounts,
    count_groups,
    deal_groups,
    encode_groups,
    merge_groups,
)
from hofs_dask.store.labels import Coding, encode_target
from hofs_dask.store.manifest import GroupRecord, WeightRecord, as_digits
from hofs_dask.store.metadata import write_column_metadata
from hofs_dask.store.weights import WeightSums, quantise, sum_weights

if TYPE_CHECKING:
    import dask.array as da

    from hofs_dask.io.places import Place
    from hofs_dask.io.source import Source

FAN_IN = 16


@dataclass(frozen=True)
class Job:
    """A source and the folder that it is encoded into."""

    source: Source
    root: Place
    folder: str
    key: str  # the labels are written to the array labels/<key>
    part: str = ""  # name of the part of the data, for error messages

    @property
    def place(self) -> Place:
        """The folder."""
        return self.root / self.folder


def tree(merge: Callable[[list[Any]], Any], parts: list[Delayed], name: str) -> list[Delayed]:
    """Merge neighbouring parts, level by level, until at most ``FAN_IN`` tasks are left."""
    level = 0
    while len(parts) > FAN_IN:
        parts = [
            delayed(merge)(parts[a : a + FAN_IN], dask_key_name=f"{name}-{level}-{a}")
            for a in range(0, len(parts), FAN_IN)
        ]
        level += 1
    return parts


def rechunked(array: da.Array, chunks: tuple[tuple[int, ...], ...]) -> da.Array:
    """Rechunk an array by Dask's method "tasks".

    With "p2p", tasks that use the new chunks would wait until the old chunks are exchanged.
    """
    return array.rechunk(chunks, method="tasks")


#: A function that encodes the kept values of a block. It returns the values to store, and a result
#: that the task returns to the driver.
_Encode = Callable[[np.ndarray, Any], tuple[np.ndarray, Any]]


def _write_tasks(
    job: Job,
    name: str,
    values: da.Array,
    kept: Kept,
    chunk_rows: int,
    encode: _Encode,
    how: object,
) -> list[Delayed]:
    """Write the metadata of an array, and return one task per chunk that encodes and writes it.

    A task returns the checksum of its chunk and the second result of ``encode``. ``how`` is the
    second argument of ``encode``.
    """
    kind, run = name.split("/")[0], uuid.uuid4().hex
    spans = kept.spans(chunk_rows)
    blocks = rechunked(values, (tuple(span.n_source for span in spans),))
    shared = delayed(how, name=f"encode-how-{kind}-{run}", traverse=False)
    write_column_metadata(job.place, name, kept.n_rows, chunk_rows)
    return [
        delayed(_write)(
            block,
            span.mask,
            encode,
            shared,
            job.place,
            chunk_file(name, 0, row),
            kind,
            chunk_rows,
            dask_key_name=f"encode-write-{kind}-{row}-{run}",
        )
        for row, (block, span) in enumerate(
            zip(blocks.to_delayed(optimize_graph=False), spans, strict=True)
        )
    ]


def _write(
    block: np.ndarray,
    mask: Mask,
    encode: _Encode,
    how: object,
    place: Place,
    file: str,
    kind: str,
    chunk_rows: int,
) -> tuple[int, Any]:
    """Write a chunk; return its checksum and the second result of ``encode``."""
    values, more = encode(take(block, mask), how)
    return write_chunk(place, file, COLUMNS[kind].whole(values, chunk_rows)), more


def digits_of(written: list[tuple[int, Any]]) -> str:
    """Return the checksums of written chunks as hexadecimal digits."""
    return as_digits(np.array([checksum for checksum, _ in written], np.uint32))


def label_tasks(job: Job, kept: Kept, coding: Coding, chunk_rows: int) -> list[Delayed]:
    """Return one task per chunk of labels, which writes it and counts the samples of each class."""
    assert job.source.target is not None
    name = f"labels/{job.key}"
    return _write_tasks(job, name, job.source.target, kept, chunk_rows, _label, coding)


def _label(block: np.ndarray, coding: Coding) -> tuple[np.ndarray, np.ndarray]:
    labels = encode_target(block, coding)
    return labels, np.bincount(labels, minlength=coding.n_classes)


def write_groups(job: Job, kept: Kept, chunk_rows: int) -> Steps[GroupRecord | None]:
    """Assign the groups to folds and write them; return their manifest entry.

    The result is None if the samples are not grouped.
    """
    groups, run = job.source.groups, uuid.uuid4().hex
    if groups is None:
        return None
    counts = [
        delayed(_count)(block, mask, dask_key_name=f"encode-read-groups-{row}-{run}")
        for row, (block, mask) in enumerate(
            zip(groups.values.to_delayed(optimize_graph=False), kept.masks, strict=True)
        )
    ]
    (found,) = yield Step(
        (tree(merge_groups, counts, f"encode-merge-groups-{run}"),), here=groups.in_memory
    )
    dealt = deal_groups(merge_groups(found), groups.name)
    name = f"groups/{job.key}"
    tasks = _write_tasks(job, name, groups.values, kept, chunk_rows, _group, dealt)
    (written,) = yield Step((tasks,), here=groups.in_memory)
    return GroupRecord(groups.name, dealt.n_groups, digits_of(written))


def _count(block: np.ndarray, mask: Mask) -> GroupCounts:
    return count_groups(take(block, mask))


def _group(block: np.ndarray, dealt: Dealt) -> tuple[np.ndarray, None]:
    return encode_groups(block, dealt), None


def weight_blocks(source: Source, kept: Kept, run: str) -> list[Delayed] | list[None]:
    """Return one task per block that quantizes the weights of its kept rows.

    If all samples count equally, each item is None instead.
    """
    if kept.unit is None or source.weights is None:
        return [None] * len(kept.masks)
    return [
        delayed(_quantised)(block, mask, kept.unit, dask_key_name=f"encode-weights-{row}-{run}")
        for row, (block, mask) in enumerate(
            zip(source.weights.values.to_delayed(optimize_graph=False), kept.masks, strict=True)
        )
    ]


def _quantised(block: np.ndarray, mask: Mask, unit: float) -> np.ndarray:
    return quantise(take(block, mask), unit)


def write_weights(
    job: Job, kept: Kept, chunk_rows: int, sums: WeightSums | None
) -> Steps[WeightRecord | None]:
    """Write the weights; return their manifest entry, None if all samples count equally."""
    weights = job.source.weights
    if weights is None or kept.unit is None or sums is None:
        return None
    warn_of_rounding(weights.name, kept.unit, kept.weight, sums)
    tasks = _write_tasks(job, "weights", weights.values, kept, chunk_rows, _weight, kept.unit)
    (written,) = yield Step((tasks,), here=weights.in_memory)
    return WeightRecord(
        weights.name, kept.unit, sums.total, sums.squares, sums.largest, digits_of(written)
    )


def _weight(block: np.ndarray, unit: float) -> tuple[np.ndarray, WeightSums]:
    stored = quantise(block, unit)
    return stored, sum_weights(stored)
