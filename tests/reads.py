"""A source that counts how often it is read."""

import threading
from collections import Counter

import dask.array as da
import numpy as np


class Reads:
    """Dask arrays that count the reads of each chunk.

    Attributes
    ----------
    counts
        The number of reads of the chunk that begins at a position.
    """

    def __init__(self):
        self.counts = Counter()
        self.lock = threading.Lock()

    def array(self, values, chunks):
        def block(block_info=None):
            where = block_info[None]["array-location"]
            with self.lock:
                self.counts[tuple(a for a, _ in where)] += 1
            return values[tuple(slice(a, b) for a, b in where)]

        whole = da.core.normalize_chunks(chunks, values.shape)
        meta = np.empty((0,) * values.ndim, values.dtype)
        return da.map_blocks(block, chunks=whole, dtype=values.dtype, meta=meta)
