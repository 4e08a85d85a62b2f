"""What one thread of a worker can do: a reduction, a read, an encoding, tried on a little data."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import Any

import numpy as np

from hofs_dask.engine.reduction import N_PARTS, NO_PLACES, Block, Partial, Request, Tile, frozen
from hofs_dask.kernels.hashing import fold_of
from hofs_dask.kernels.planes import WORD, n_bits
from hofs_dask.store.bins import Bins, encode_planes, make_tables, most_bins
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.summary import summarise

#: Features of the made-up data: a multiple of the size of a family.
N_FEATURES = 48
FAMILY = 4


@functools.lru_cache(maxsize=1)
def made_up(n_samples: int, n_classes: int, n_codes: int) -> Block:
    """Samples of features that come in families and say little or more about the label each.

    Examples
    --------
    >>> made_up(512, n_classes=3, n_codes=5).codes.max()
    np.uint8(4)
    """
    rng = np.random.default_rng(0)
    labels = np.arange(n_samples) % n_classes
    n_families = N_FEATURES // FAMILY
    signal = np.linspace(0.1, 1.0, n_families)[:, None] * (labels / (n_classes - 1) - 0.5)
    families = rng.standard_normal((n_families, n_samples)) + signal
    own = np.tile(np.linspace(0.8, 1.2, FAMILY), n_families)[:, None]
    values = np.repeat(families, FAMILY, axis=0) + own * rng.standard_normal(
        (N_FEATURES, n_samples)
    )
    values[:, -1] = 4.0  # so that every feature has the last code
    codes = np.clip((values / 4.0 + 0.5) * n_codes, 0, n_codes - 1).astype(np.uint8)
    parts = fold_of(0, n_samples, N_PARTS)
    tile = Tile.of(codes)
    return Block(tile, tile.only(NO_PLACES), labels.astype(np.uint8), parts)


def try_reduction(
    request: Request, n_samples: int, n_copies: int, n_classes: int, n_codes: int
) -> tuple[Partial, float]:
    """The finished total of a scan over made-up data, and the seconds that it computes a cell.

    The total is that of so many copies of the samples: what is summed up over all of them is so
    many times as large. The time is that of the thread, whatever else the machine does.
    """
    block = made_up(n_samples, n_classes, n_codes)
    reduction, context = request.reduction, frozen(request.context)
    own = frozen(replace(block, columns=block.tile.only(np.array(request.columns, np.intp))))
    total = reduction.identity(context, N_FEATURES)
    ready = frozen(reduction.prepare(context))
    reduction.chunk(ready, own, total)
    # once more: the first may have compiled, and touched the memory of the partial
    again = {name: array.copy() for name, array in total.items()}
    fresh = replace(  # not unpacked yet
        own, tile=Tile(own.tile.planes, n_samples), columns=Tile(own.columns.planes, n_samples)
    )
    start = time.thread_time()
    reduction.chunk(ready, fresh, again)
    seconds = (time.thread_time() - start) / (N_FEATURES * n_samples)
    copies = {name: n_copies * array for name, array in total.items()}
    return reduction.finalize(context, copies), seconds


def try_reading(codes: CodeStore) -> float:
    """Seconds to read and check a chunk of a store, as it is stored now."""
    n_rows = codes.checksums.shape[1]
    took = []
    for row in sorted({0, n_rows // 2, n_rows - 1}):
        start = time.perf_counter()
        codes.code_chunks.read(0, row, keep=False)
        took.append(time.perf_counter() - start)
    return min(took)


def try_encoding(dtype: np.dtype[Any], n_samples: int, bins: Bins) -> float:
    """Seconds to summarise and to code a cell of this type.

    Examples
    --------
    >>> try_encoding(np.dtype(np.float32), 10_000, "auto") > 0
    True
    """
    # as many as the encoder takes at once where there are many: it then compiles what it needs
    values = 100.0 * np.random.default_rng(0).standard_normal((min(n_samples, 2**15), 8))
    block = values.astype(dtype if dtype.kind in "iuf" else np.float64)
    limit, nominal = most_bins(bins) + 1, np.zeros(block.shape[1], dtype=bool)
    bits = n_bits(most_bins(bins) + 1)
    took = []
    for _ in range(2):
        planes = np.zeros((block.shape[1], bits, -(-len(block) // WORD)), np.uint64)
        start = time.thread_time()
        summary = summarise(block, 0, max(n_samples, len(block)), nominal, limit)
        middle = time.thread_time()
        features, _ = make_tables(summary, 0, most_bins(bins), most_bins(bins))
        later = time.thread_time()
        encode_planes(block, features, planes)
        took.append(middle - start + time.thread_time() - later)
    return min(took) / block.size
