"""Select the samples that have a target; all others are ignored.

Bins, tables, folds, resamples and chunks depend only on the kept samples. A target with missing
values therefore gives the same result as a source without these samples.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import delayed

from hofs_dask.scheduling.compute import compute
from hofs_dask.store.summary import clean_objects

if TYPE_CHECKING:
    from hofs_dask.io.source import Source

#: Packed bits that mark the rows of a block that are kept; None if all rows are kept.
Mask = np.ndarray | None


@dataclass(frozen=True)
class Span:
    """The rows of the source that contain the samples of one chunk of a store."""

    n_source: int
    mask: Mask


@dataclass(frozen=True)
class Kept:
    """The rows of a source that are kept, block by block.

    Attributes
    ----------
    sizes : tuple of int
        Number of rows of each block of the source.
    masks : tuple of Mask
        The kept rows of each block.
    """

    sizes: tuple[int, ...]
    masks: tuple[Mask, ...]

    @cached_property
    def _counts(self) -> list[int]:
        return [
            size if mask is None else int(np.unpackbits(mask, count=size).sum())
            for size, mask in zip(self.sizes, self.masks, strict=True)
        ]

    @property
    def n_rows(self) -> int:
        """The number of kept rows."""
        return sum(self._counts)

    @property
    def whole(self) -> bool:
        """Whether every row is kept."""
        return all(mask is None for mask in self.masks)

    @property
    def firsts(self) -> list[int]:
        """The number of kept rows before each block."""
        return [0, *itertools.accumulate(self._counts[:-1])]

    @property
    def digest(self) -> str | None:
        """A digest of the kept rows that does not depend on the blocks; None if all are kept."""
        if self.whole:
            return None
        return hashlib.sha256(np.packbits(self._flags(0, sum(self.sizes))).tobytes()).hexdigest()

    def spans(self, length: int) -> list[Span]:
        """Return spans with ``length`` kept rows each; the last one may have fewer.

        Examples
        --------
        >>> kept = Kept((3, 3), (np.packbits([True, False, True]), None))
        >>> [(span.n_source, span.mask) for span in kept.spans(2)]
        [(3, array([160], dtype=uint8)), (2, None), (1, None)]
        """
        n_source = sum(self.sizes)
        ends = [self._end(n) for n in range(length, self.n_rows, length)]
        edges = [0, *ends, n_source]
        return [Span(b - a, self._mask(a, b)) for a, b in itertools.pairwise(edges)]

    def _end(self, n_kept: int) -> int:
        """Return how many rows from the start of the source contain ``n_kept`` kept rows."""
        if self.whole:
            return n_kept
        starts, firsts = [0, *itertools.accumulate(self.sizes)], self.firsts
        block = int(np.searchsorted(firsts, n_kept, side="left")) - 1
        flags = self._flags(starts[block], starts[block + 1])
        return starts[block] + int(np.flatnonzero(flags)[n_kept - firsts[block] - 1]) + 1

    def _mask(self, first: int, last: int) -> Mask:
        flags = None if self.whole else self._flags(first, last)
        return None if flags is None or flags.all() else np.packbits(flags)

    def _flags(self, first: int, last: int) -> np.ndarray:
        """Return a boolean array with the kept rows of a range of the source."""
        found, start = [], 0
        for size, mask in zip(self.sizes, self.masks, strict=True):
            own = slice(max(first - start, 0), max(min(last - start, size), 0))
            if own.start < own.stop:
                flags = np.ones(size, bool) if mask is None else _unpack(mask, size)
                found.append(flags[own])
            start += size
        return np.concatenate(found)


def find_kept(source: Source) -> Kept:
    """Return the samples of a source that have a target; raise a ValueError if there are none.

    Examples
    --------
    >>> from hofs_dask.io.source import open_source
    >>> find_kept(open_source(np.eye(3), [1.0, np.nan, 2.0])).n_rows
    2
    """
    target: Any = source.target
    sizes = tuple(target.chunks[0])
    if target.dtype.kind in "iub":  # these types have no missing values
        return Kept(sizes, (None,) * len(sizes))
    blocks = target.to_delayed(optimize_graph=False)
    masks = compute(*(delayed(_present)(block) for block in blocks), here=source.target_in_memory)
    kept = Kept(sizes, masks)
    if not kept.n_rows:
        raise ValueError(
            f"target {source.target_name!r} has no values: all {source.n_samples} are missing"
        )
    return kept


def take(block: np.ndarray, mask: Mask) -> np.ndarray:
    """Return the kept rows of a block.

    Examples
    --------
    >>> take(np.arange(3), np.packbits([True, False, True]))
    array([0, 2])
    """
    return block if mask is None else block[_unpack(mask, len(block))]


def _present(block: np.ndarray) -> Mask:
    """Return the mask of the values of a target that are not missing."""
    if block.dtype == object:
        values, strange = clean_objects(block)
        # unsupported types are kept here: a later check refuses them by name
        flags = np.array([bool(strange) or value is not None for value in values], dtype=bool)
    else:
        flags = ~np.isnan(block)
    return None if flags.all() else np.packbits(flags)


def _unpack(mask: np.ndarray, size: int) -> np.ndarray:
    return np.unpackbits(mask, count=size).view(bool)
