"""Choose the chunks of a store so that a scan fits into the memory of a worker.

The layout depends on the numbers of samples, features, codes and classes and on the memory of a
worker. It includes the reason for every choice as text.
"""

from __future__ import annotations

from dataclasses import dataclass

from dask.utils import format_bytes

from hofs_dask.engine.partition import CHUNK_COPIES, SAMPLE_BYTES, WAITING
from hofs_dask.kernels.planes import WORD, n_bits
from hofs_dask.store.layout import Layout, check_chunks

#: Cells (samples times features) per chunk if memory allows. Chunks of this size are so large that
#: the overhead of a task and of a read is small.
CHUNK_CELLS = 8 * 2**20
#: Maximum number of features per chunk, which keeps the contexts and partials of a tile small.
CHUNK_FEATURES = 1024
#: Minimum number of samples per chunk, even if memory is short.
MIN_CHUNK_SAMPLES = 1024
#: A store gets about this many chunks or more, so that all workers have tasks.
MIN_CHUNKS = 16
#: To reach `MIN_CHUNKS`, chunks are not made shorter than this many samples.
SHARED_CHUNK_SAMPLES = 8192
#: Number of samples whose bits fill one cache line of a bit plane (eight words).
LINE = 8 * WORD
#: Bytes per combination of two codes and a class in `PAIR_COUNTS`, the reduction with the largest
#: partials: an int64 for each of four folds.
PAIR_BYTES = 4 * 8
#: Bytes of the pair counts of a tile of a store in memory.
HELD_BYTES = 64 * 2**20
#: Fractions of the free memory of a worker that are planned for partials and for chunks.
PARTIAL_SHARE, CHUNK_SHARE = 0.5, 0.25


@dataclass(frozen=True)
class Room:
    """The free memory and the number of threads of a worker.

    The defaults are assumed if the worker is unknown.
    """

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
    """Return the layout of a store, with the reason for each choice.

    Parameters
    ----------
    n_samples, n_features
        Size of the data.
    n_codes
        Largest number of codes of a feature.
    n_classes
        Number of classes of the target.
    source_rows
        Number of samples per chunk of the source; None if its chunks differ in length.
    room
        Free memory and threads of the worker with the least memory; None if unknown.
    chunks
        Samples and features per chunk, if the user gave them.

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
        f"{bits} bit{'s' * (bits > 1)} per code, in planes: features have up to {n_codes} codes",
        *made,
        f"a chunk takes {format_bytes(shape[0] * shape[1])} with one byte per code, "
        f"{format_bytes(layout.chunk_bytes)} as a file",
        "no shards: a chunk is one file and one read, without an index",
        "no compression: the bits are already packed; a checksum detects damage",
    )
    return Layout(n_samples, n_features, shape, bits, reasons)


def widest_tile(n_features: int, bits: int, n_classes: int) -> int:
    """Return how many features a tile of a store in memory may have.

    Wide tiles need few calls. Their pair counts take at most `HELD_BYTES`.

    Examples
    --------
    >>> widest_tile(20_000, 2, 2), widest_tile(20_000, 5, 10)
    (20000, 204)
    """
    per_feature = PAIR_BYTES * n_classes * 4**bits
    return min(n_features, max(1, HELD_BYTES // per_feature))


def _tile(n_features: int, per_feature: int, free: Room) -> tuple[int, str]:
    """Return the number of features per chunk, and the reason."""
    n_partials = free.n_threads + WAITING
    room = int(PARTIAL_SHARE * free.n_bytes)
    fitting = max(1, room // (n_partials * per_feature))
    most = min(n_features, CHUNK_FEATURES, fitting)
    # tiles of equal width, because a mostly empty chunk takes as many bytes as a full one
    width = -(-n_features // -(-n_features // most))
    if width == n_features:
        return width, f"{width:,} features per chunk: all features, one tile"
    tiles = f"{width:,} features per chunk, {-(-n_features // width):,} tiles"
    if fitting < CHUNK_FEATURES:
        return width, (
            f"{tiles}: {n_partials} partials of {format_bytes(per_feature)} per feature "
            f"fit half of the {format_bytes(free.n_bytes)} of free memory"
        )
    return width, f"{tiles}: at most {CHUNK_FEATURES:,}, which keeps the tables of a tile small"


def _length(n_samples: int, width: int, source_rows: int | None, free: Room) -> tuple[int, str]:
    """Return the number of samples per chunk, and the reason."""
    held = (CHUNK_COPIES + 1) * width + SAMPLE_BYTES
    fitting = int(CHUNK_SHARE * free.n_bytes) // (free.n_threads * held)
    wanted = max(CHUNK_CELLS // width, MIN_CHUNK_SAMPLES)
    shared = max(-(-n_samples // MIN_CHUNKS), SHARED_CHUNK_SAMPLES)
    length = max(min(wanted, shared, fitting), MIN_CHUNK_SAMPLES)
    if length == shared:
        many = n_samples > MIN_CHUNKS * SHARED_CHUNK_SAMPLES
        why = f"{MIN_CHUNKS} chunks for the workers" if many else "shorter tasks are not efficient"
    elif length == wanted:
        why = f"about {format_bytes(CHUNK_CELLS)} with one byte per code"
    else:
        why = (
            f"{free.n_threads} at a time fit a quarter of the {format_bytes(free.n_bytes)} "
            "of free memory"
        )
    length = max(length // LINE, 1) * LINE
    if source_rows is not None and n_samples > length:
        # A multiple of the source's chunks is better than a multiple of whole words: each source
        # chunk is then read once, and a last word that is not full wastes few bits.
        most = min(4 * length, max(fitting, length))
        if source_rows <= most:
            length = min(max(round(length / source_rows), 1), most // source_rows) * source_rows
            why += f", a multiple of the {source_rows:,} of the source"
        else:
            why += f"; the {source_rows:,} of the source are too many"
    if length >= n_samples:
        return n_samples, f"{n_samples:,} samples per chunk: all samples"
    return length, f"{length:,} samples per chunk: {why}"
