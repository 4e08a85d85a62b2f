"""Row hashing: which rows are sampled and which fold a row is in, whatever the chunking."""

from __future__ import annotations

import numpy as np

__all__ = ["row_hash"]


def row_hash(rows: np.ndarray) -> np.ndarray:
    """Return a well-mixed 64-bit hash of each row number.

    Parameters
    ----------
    rows : ndarray of uint64
        Global row numbers, of any shape.

    Returns
    -------
    ndarray of uint64
        One step of the splitmix64 generator with the row number as its state.

    Notes
    -----
    The high bits choose the sample of rows and the low bits the fold, so the two are independent.

    Examples
    --------
    >>> import numpy as np
    >>> row_hash(np.arange(3, dtype=np.uint64)) & np.uint64(3)
    array([3, 1, 2], dtype=uint64)
    """
    mixed = rows.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
