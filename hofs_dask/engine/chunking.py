"""How large the chunks of a store are: chosen so that a scan fits the memory of a worker.

All of it follows from the numbers of samples, features, codes and classes and from the memory of a
worker, and every choice has its reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from dask.utils import format_bytes

from hofs_dask.engine.partition import CHUNK_COPIES, SAMPLE_BYTES, WAITING
from hofs_dask.kernels.planes import WORD, n_bits
from hofs_dask.store.layout import Layout, check_chunks

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
#: What a cell of pair counts takes, the largest partial there is: int64, four folds.
PAIR_BYTES = 4 * 8
#: The shares of the free memory of a worker that partials and chunks are planned to take.
PARTIAL_SHARE, CHUNK_SHARE = 0.5, 0.25


@dataclass(frozen=True)
class Room:
    """What a worker has free for a reduction; by default that of one of which nothing is known."""

    n_bytes: int = 2**30
    n_threads: int = 1


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
