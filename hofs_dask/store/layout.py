"""How codes are cut up: the one place that decides chunks, tiles, spans and bits.

All of it follows from the numbers of samples, features, codes and classes and from the memory of a
worker. What a chunk takes as a file and in memory is said here too, for whoever plans a scan.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dask.utils import format_bytes

from hofs_dask.kernels.planes import WORD, n_bits
from hofs_dask.store.chunks import CHECKSUM_BYTES

if TYPE_CHECKING:
    from hofs_dask.store.codes import CodeStore

#: Cells of a chunk where memory allows: a task is then long and a read large enough to be cheap.
CHUNK_CELLS = 8 * 2**20
#: Features of a chunk at most: a tile's share of contexts and partials stays small.
CHUNK_FEATURES = 1024
#: A chunk is not cut shorter than this, whatever the memory.
MIN_CHUNK_SAMPLES = 1024
#: Where a store of few features has samples enough, it has this many chunks to share out.
MIN_CHUNKS = 16
#: Chunks of few features are not cut shorter than this to reach that number.
SHARED_CHUNK_SAMPLES = 8192
#: Samples of a cache line of a plane of bits: eight words.
LINE = 8 * WORD

#: Cells that a map task goes through, about: enough to make a task worth its message.
TASK_CELLS = 256 * 2**20
#: A thread is given no more tasks than this: a scheduler does some thousand tasks a second.
MOST_TASKS = 16
#: Spans that the samples are cut into, as the chunks allow: leaves of the tree of floating sums.
LEAST_SPANS, MOST_SPANS = 64, 2**14
#: Partials that one task of the tree combines: few, so that few wait in memory.
FAN_IN = 4
#: Partials of a worker beside those of its threads: what a task combines, its sum, two on the way.
WAITING = FAN_IN + 3

#: Copies of the codes of a chunk as bytes: all of them, those that have a label.
CHUNK_COPIES = 2
#: Bytes a sample beside its codes: its row number and hash, label and fold.
SAMPLE_BYTES = 40
#: What a cell of pair counts takes, the largest partial there is: int64, four folds.
PAIR_BYTES = 4 * 8
#: The shares of the free memory of a worker that partials and chunks are planned to take.
PARTIAL_SHARE, CHUNK_SHARE = 0.5, 0.25


@dataclass(frozen=True)
class Room:
    """What a worker has free for a reduction; by default that of one of which nothing is known."""

    n_bytes: int = 2**30
    n_threads: int = 1


@dataclass(frozen=True)
class Layout:
    """How the codes of a store are cut up, and why.

    Attributes
    ----------
    n_samples, n_features
        Of the store.
    chunks
        Samples and features of a chunk. The features of a chunk are the tile that a task works on.
    bits
        Bits a code: what the feature with the most codes needs.
    reasons
        A sentence a decision.

    Examples
    --------
    >>> layout = Layout(100_000, 400, (20_992, 400), bits=3)
    >>> layout.n_chunks, layout.chunk_bytes
    (5, 3148804)
    """

    n_samples: int
    n_features: int
    chunks: tuple[int, int]
    bits: int
    reasons: tuple[str, ...] = ()

    @property
    def n_chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.n_samples // self.chunks[0]) * -(-self.n_features // self.chunks[1])

    @property
    def chunk_bytes(self) -> int:
        """What the file of a chunk takes: a plane a bit, of whole words, and a checksum."""
        n_words = -(-self.chunks[0] // WORD)
        return self.chunks[1] * self.bits * n_words * (WORD // 8) + CHECKSUM_BYTES

    @property
    def n_bytes(self) -> int:
        """What all chunks take in files."""
        return self.n_chunks * self.chunk_bytes

    @property
    def tiles(self) -> list[slice]:
        """The features of each tile."""
        return cuts(slice(0, self.n_features), self.chunks[1])

    @property
    def spans(self) -> list[slice]:
        """The samples of each span: whole chunks, the same wherever the store is worked on."""
        n_chunks = -(-self.n_samples // self.chunks[0])
        n_cells = self.n_samples * self.chunks[1]
        n_spans = min(n_chunks, max(LEAST_SPANS, min(-(-n_cells // TASK_CELLS), MOST_SPANS)))
        return cuts(slice(0, self.n_samples), self.chunks[0] * -(-n_chunks // n_spans))

    def groups(self, n_threads: int) -> list[slice]:
        """The spans of each map task of a tile: equal shares, whole tasks for every thread."""
        cells_a_thread = self.n_samples * self.n_features / n_threads
        n_tasks = n_threads * min(max(round(cells_a_thread / TASK_CELLS), 1), MOST_TASKS)
        n_spans = len(self.spans)
        n_groups = min(-(-n_tasks // len(self.tiles)), n_spans)
        edges = [number * n_spans // n_groups for number in range(n_groups + 1)]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]

    def n_tasks(self, n_threads: int) -> int:
        """The tasks of one scan: map tasks and the tree of each tile."""
        level = len(self.groups(n_threads))
        total = level
        while level > FAN_IN:
            level = -(-level // FAN_IN)
            total += level
        return len(self.tiles) * (total + 1)

    def held_bytes(self, n_columns: int = 0, copies: int = CHUNK_COPIES) -> int:
        """What a thread holds of a chunk, as it was read and unpacked, and of other columns."""
        unpacked = self.chunks[0] * ((self.chunks[1] + n_columns) * copies + SAMPLE_BYTES)
        return self.chunk_bytes + unpacked


def layout_of(codes: CodeStore) -> Layout:
    """The layout that a store has."""
    chunk_samples, chunk_features = codes.chunks
    return Layout(
        codes.n_samples,
        codes.n_features,
        (chunk_samples, min(chunk_features, codes.n_features)),
        codes.bits,
    )


def choose_layout(
    n_samples: int,
    n_features: int,
    n_codes: int,
    *,
    n_classes: int = 2,
    source_rows: int | None = None,
    room: Room | None = None,
    chunks: tuple[int, int] | None = None,
) -> Layout:
    """The layout of a store, with its reasons.

    Parameters
    ----------
    n_samples, n_features
        Of the data.
    n_codes
        Codes of the feature that has the most.
    n_classes
        Classes of the target.
    source_rows
        Rows of a chunk of the source, where they are all the same.
    room
        What the smallest worker has free, None where that is not known.
    chunks
        Samples and features of a chunk, where the user gave them.

    Examples
    --------
    >>> choose_layout(1_000_000, 400, 5).chunks
    (20480, 400)
    >>> choose_layout(1_000_000, 400, 5, source_rows=10_000).chunks
    (20000, 400)
    >>> choose_layout(1_000_000, 5000, 32, n_classes=10, room=Room(400 * 2**20)).chunks
    (62464, 80)
    """
    bits = n_bits(n_codes)
    per_feature = PAIR_BYTES * n_classes * n_codes**2
    if chunks is not None:
        shape = check_chunks(chunks)
        shape = min(shape[0], n_samples), min(shape[1], n_features)
        made: tuple[str, ...] = (
            f"chunks of {shape[0]:,} samples x {shape[1]:,} features: as given",
        )
    else:
        free = room or Room()
        width, why_width = _tile(n_features, per_feature, free)
        length, why_length = _length(n_samples, width, source_rows, free)
        shape, made = (length, width), (why_width, why_length)
    layout = Layout(n_samples, n_features, shape, bits)
    reasons = (
        f"{bits} bit{'s' * (bits > 1)} a code, in planes: the widest feature has {n_codes} codes",
        *made,
        f"a chunk takes {format_bytes(shape[0] * shape[1])} as bytes, "
        f"{format_bytes(layout.chunk_bytes)} as a file",
        "no shards: a chunk is one file and one read, without an index",
        "no compression: bits are packed already; a checksum shows damage",
    )
    return Layout(n_samples, n_features, shape, bits, reasons)


def check_chunks(chunks: object) -> tuple[int, int]:
    """The samples and features of a chunk that a user gave, or a ValueError.

    Examples
    --------
    >>> check_chunks((8192, 1024))
    (8192, 1024)
    """
    if (
        not isinstance(chunks, Sequence)
        or len(chunks) != 2
        or not all(isinstance(n, int) and n > 0 for n in chunks)
    ):
        raise ValueError(
            f"chunks is {chunks!r}; give two positive integers, samples and features of a "
            "chunk, for example chunks=(8192, 1024)"
        )
    return chunks[0], chunks[1]


def cuts(span: slice, step: int) -> list[slice]:
    """The pieces of a span, all but the last of one length.

    Examples
    --------
    >>> cuts(slice(0, 5), 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    starts = range(span.start, span.stop, step)
    return [slice(start, min(start + step, span.stop)) for start in starts]


def _tile(n_features: int, per_feature: int, free: Room) -> tuple[int, str]:
    """The features of a chunk, and why."""
    n_partials = free.n_threads + WAITING
    room = int(PARTIAL_SHARE * free.n_bytes)
    fitting = max(1, room // (n_partials * per_feature))
    most = min(n_features, CHUNK_FEATURES, fitting)
    # tiles of one width: a chunk that is mostly empty is as long a file
    width = -(-n_features // -(-n_features // most))
    if width == n_features:
        return width, f"{width:,} features a chunk: all of them, one tile"
    tiles = f"{width:,} features a chunk, {-(-n_features // width):,} tiles"
    if fitting < CHUNK_FEATURES:
        return width, (
            f"{tiles}: {n_partials} partials of {format_bytes(per_feature)} a feature "
            f"fit half of the {format_bytes(free.n_bytes)} free"
        )
    return width, f"{tiles}: at most {CHUNK_FEATURES:,}, so that a tile's tables stay small"


def _length(n_samples: int, width: int, source_rows: int | None, free: Room) -> tuple[int, str]:
    """The samples of a chunk, and why."""
    held = (CHUNK_COPIES + 1) * width + SAMPLE_BYTES
    fitting = int(CHUNK_SHARE * free.n_bytes) // (free.n_threads * held)
    wanted = max(CHUNK_CELLS // width, MIN_CHUNK_SAMPLES)
    shared = max(-(-n_samples // MIN_CHUNKS), SHARED_CHUNK_SAMPLES)
    length = max(min(wanted, shared, fitting), MIN_CHUNK_SAMPLES)
    if length == shared:
        many = n_samples > MIN_CHUNKS * SHARED_CHUNK_SAMPLES
        why = f"{MIN_CHUNKS} chunks to share out" if many else "as short as is worth sharing out"
    elif length == wanted:
        why = f"about {format_bytes(CHUNK_CELLS)} as bytes"
    else:
        why = f"{free.n_threads} at a time fit a quarter of the {format_bytes(free.n_bytes)} free"
    length = max(length // LINE, 1) * LINE
    if source_rows is not None and n_samples > length:
        # in step before whole words: a chunk of the source is then read for one chunk alone, and
        # the bits that a last word leaves free are few; four times as long is still a chunk
        most = min(4 * length, max(fitting, length))
        if source_rows <= most:
            length = min(max(round(length / source_rows), 1), most // source_rows) * source_rows
            why += f", in step with the source's {source_rows:,}"
        else:
            why += f", however long the source's {source_rows:,}"
    if length >= n_samples:
        return n_samples, f"{n_samples:,} samples a chunk: all of them"
    return length, f"{length:,} samples a chunk: {why}"
