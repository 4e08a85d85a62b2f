"""Hashes of row numbers, which determine sampled rows and folds regardless of the chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.types import int64, uint8, uint64, void

from hofs_dask.kernels._jit import jit

__all__ = ["draw_groups", "fold_of", "multiplicity", "row_hash", "rows_below"]

#: Number of folds of the samples.
N_FOLDS = 4
#: Number of blocks of adjacent rows that a bootstrap resample draws from; smaller data has blocks
#: of one row. Blocks preserve the correlation of rows that are adjacent in time or space.
N_BLOCKS = 1024
#: Cumulative probabilities of 0, 1, ... draws: a Poisson distribution with mean 1.
DRAW_CHANCES = np.exp(-1.0) * np.cumsum(1.0 / np.cumprod([1.0, *range(1, 18)]))


@jit()
def _mix(rows: Any) -> Any:
    """Return one step of the splitmix64 generator, for a number (in kernels) or for an array."""
    mixed = rows + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def row_hash(rows: np.ndarray) -> np.ndarray:
    """Return a well-mixed 64-bit hash of each row number.

    Parameters
    ----------
    rows : ndarray of uint64
        Global row numbers, of any shape.

    Returns
    -------
    ndarray of uint64
        One step of the splitmix64 generator with the row number as state.

    Notes
    -----
    The high bits choose the sampled rows and the low bits the fold, so the two are independent.

    Examples
    --------
    >>> import numpy as np
    >>> row_hash(np.arange(3, dtype=np.uint64)) & np.uint64(3)
    array([3, 1, 2], dtype=uint64)
    """
    plain: Any = _mix
    mixed: np.ndarray = plain.py_func(rows.astype(np.uint64))
    return mixed


@jit(void(int64, int64, uint8[::1]))
def _set_folds(start: int, n_folds: int, out: np.ndarray) -> None:
    for s in range(out.shape[0]):
        out[s] = _mix(np.uint64(start + s)) & np.uint64(n_folds - 1)


def fold_of(start: int, stop: int, n_folds: int) -> np.ndarray:
    """Return the folds of the rows from ``start`` to ``stop - 1``.

    The fold of a row is its `row_hash` modulo ``n_folds``. It is computed in a single loop, because
    this function runs for every chunk of every scan. ``n_folds`` must be a power of two, because a
    division would take most of the time.

    Examples
    --------
    >>> fold_of(0, 6, 4)
    array([3, 1, 2, 1, 2, 2], dtype=uint8)
    """
    folds = np.empty(stop - start, np.uint8)
    _set_folds(start, n_folds, folds)
    return folds


@jit(int64(int64, uint64, int64[::1]))
def _find_below(start: int, threshold: np.uint64, out: np.ndarray) -> int:
    n_found = 0
    for s in range(out.shape[0]):
        out[n_found] = s
        n_found += _mix(np.uint64(start + s)) < threshold
    return n_found


def rows_below(start: int, n_rows: int, threshold: int) -> np.ndarray:
    """Return the indices, relative to ``start``, of rows with a hash below a threshold.

    Examples
    --------
    >>> rows_below(0, 6, 2**63)
    array([3, 4, 5])
    """
    rows = np.empty(n_rows, np.int64)
    return rows[: _find_below(start, np.uint64(threshold), rows)]


def multiplicity(rows: np.ndarray, n_samples: int, resample: int) -> np.ndarray:
    """Return the number of times that each row is in a bootstrap resample.

    Parameters
    ----------
    rows : ndarray of uint64
        Global row numbers.
    n_samples : int
        Total number of rows.
    resample : int
        The index of the resample (0, 1, 2, ...).

    Notes
    -----
    The number of times that a block of adjacent rows is drawn is a Poisson variable with mean 1. It
    is computed from a hash of the block and the resample, so it does not depend on the chunks.

    Examples
    --------
    >>> import numpy as np
    >>> multiplicity(np.arange(8, dtype=np.uint64), 8, resample=0)
    array([2, 2, 0, 1, 1, 0, 0, 0])
    """
    length = -(-n_samples // N_BLOCKS)
    blocks = row_hash(rows // np.uint64(length))
    mixed = row_hash(blocks ^ row_hash(np.array([resample + 1], dtype=np.uint64)))
    uniform = (mixed >> np.uint64(11)) * 2.0**-53
    return np.searchsorted(DRAW_CHANCES, uniform, side="right")


def draw_groups(n_groups: int, resample: int) -> np.ndarray:
    """Return the number of times that each group is in a bootstrap resample of groups.

    Parameters
    ----------
    n_groups : int
        Number of groups. The same number of groups is drawn, with replacement.
    resample : int
        The index of the resample (0, 1, 2, ...).

    Examples
    --------
    >>> draw_groups(5, resample=0)
    array([2, 0, 0, 3, 0])
    """
    seed = row_hash(np.array([resample + 1], dtype=np.uint64))
    drawn = row_hash(row_hash(np.arange(n_groups, dtype=np.uint64)) ^ seed)
    return np.bincount((drawn % np.uint64(n_groups)).astype(np.int64), minlength=n_groups)
