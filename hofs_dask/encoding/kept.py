"""Select the samples to encode: with a target, in all masks, and with a weight above zero.

Bins, tables, folds, resamples and chunks depend only on the kept samples. A target with missing
values, a mask or an ignored class therefore gives the same result as a source without these
samples.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import delayed

from hofs_dask.encoding.steps import Step, Steps
from hofs_dask.io.reading import BY, LAGS, WEIGHTS
from hofs_dask.store.summary import clean_objects
from hofs_dask.store.weights import WeightSummary, merge_weights, summarise_weights, unit_of

if TYPE_CHECKING:
    from hofs_dask.io.memory import Memory
    from hofs_dask.io.source import Source

#: Packed bits that mark the rows of a block that are kept; None if all rows are kept.
Mask = np.ndarray | None


@dataclass(frozen=True)
class Span:
    """Consecutive rows of the source with the samples of one chunk: their number and their mask."""

    n_source: int
    mask: Mask

    @property
    def flags(self) -> np.ndarray:
        """A boolean array: whether each row is kept.

        Examples
        --------
        >>> Span(3, np.packbits([True, False, True])).flags
        array([ True, False,  True])
        """
        return (
            np.ones(self.n_source, bool) if self.mask is None else _unpack(self.mask, self.n_source)
        )


@dataclass(frozen=True)
class Dropped:
    """The numbers of samples that are not kept, by the first reason that applies.

    Attributes
    ----------
    n_outside : tuple of int
        Number of samples outside of each mask.
    n_ignored : int
        Number of samples of the ignored class.
    n_missing : int
        Number of samples without a target.
    n_weightless : int
        Number of samples of weight zero.
    """

    n_outside: tuple[int, ...] = ()
    n_ignored: int = 0
    n_missing: int = 0
    n_weightless: int = 0

    def notes(self, masks: Sequence[str], label: object) -> tuple[str, ...]:
        """Return a message for each option that says how many samples it leaves out.

        ``masks`` are the options that made the masks, and ``label`` is the ignored class.

        Examples
        --------
        >>> Dropped(n_outside=(7,)).notes(["where"], None)
        ('where leaves out 7 samples',)
        """
        pairs = zip(masks, self.n_outside, strict=True)
        counts = [(option, n) for option, n in pairs if option != BY]
        if label is not None:
            counts.append((f"ignore_label={label!r}", self.n_ignored))
        if self.n_weightless:
            counts.append((WEIGHTS, self.n_weightless))
        ends = {LAGS: " without history", WEIGHTS: " of weight 0"}
        return tuple(
            f"{option} {'leave' if option == LAGS else 'leaves'} out {n} sample{'s' * (n != 1)}"
            + ends.get(option, "")
            for option, n in counts
        )


@dataclass(frozen=True)
class Kept:
    """The rows of a source that are kept, block by block.

    Attributes
    ----------
    sizes : tuple of int
        Number of rows of each block of the source.
    masks : tuple of Mask
        The kept rows of each block.
    dropped : Dropped
        The numbers of the other rows, by reason.
    unit : float or None
        The weight that is stored as 1; None if all samples count equally.
    weight : float
        The total weight of the kept rows; 0 without weights.
    """

    sizes: tuple[int, ...]
    masks: tuple[Mask, ...]
    dropped: Dropped = Dropped()
    unit: float | None = None
    weight: float = 0.0

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


def find_kept(source: Source) -> Steps[Kept]:
    """Find the samples of a source that are kept; raise a ValueError if no sample is kept.

    Examples
    --------
    >>> from hofs_dask.encoding.steps import run_together
    >>> from hofs_dask.io.source import open_source
    >>> (kept,) = run_together([find_kept(open_source(np.eye(3), [1.0, np.nan, 2.0]))])
    >>> kept.n_rows
    2
    """
    target: Any = source.target
    sizes = tuple(target.chunks[0])
    blocks: list[Any] = [None] * len(sizes)
    if target.dtype.kind not in "iub" or source.ignore_label is not None:
        # integers have no missing values
        blocks = target.to_delayed(optimize_graph=False)
    elif not source.masks and source.weights is None:
        return Kept(sizes, (None,) * len(sizes))
    masks = [mask.values.to_delayed(optimize_graph=False) for mask in source.masks]
    weights: list[Any] = [None] * len(sizes)
    in_memory = source.target_in_memory or blocks[0] is None
    if source.weights is not None:
        weights = source.weights.values.to_delayed(optimize_graph=False)
        in_memory = in_memory and source.weights.in_memory
    made = yield Step(
        tuple(
            delayed(_keep)(size, block, [mask[row] for mask in masks], source.ignore_label, own)
            for row, (size, block, own) in enumerate(zip(sizes, blocks, weights, strict=True))
        ),
        here=in_memory and all(mask.in_memory for mask in source.masks),
    )
    return _merge(source, sizes, made)


def find_kept_here(source: Source, memory: Memory) -> Kept:
    """Return the samples of a source in memory that are kept, as one block.

    Examples
    --------
    >>> from hofs_dask.io.source import open_source
    >>> source = open_source(np.eye(3), [1.0, np.nan, 2.0])
    >>> find_kept_here(source, source.memory).n_rows
    2
    """
    target, size = memory.target, len(memory.target)
    block = None if target.dtype.kind in "iub" and source.ignore_label is None else target
    return _merge(
        source, (size,), [_keep(size, block, memory.masks, source.ignore_label, memory.weights)]
    )


def _merge(
    source: Source,
    sizes: tuple[int, ...],
    made: Sequence[tuple[Mask, Dropped, WeightSummary | None]],
) -> Kept:
    """Return the kept samples of all blocks; raise a ValueError if there is none."""
    dropped = Dropped(
        tuple(map(sum, zip(*(each.n_outside for _, each, _ in made), strict=True))),
        sum(each.n_ignored for _, each, _ in made),
        sum(each.n_missing for _, each, _ in made),
        sum(each.n_weightless for _, each, _ in made),
    )
    summaries = [summary for *_, summary in made if summary is not None and summary.n_rows]
    unit, weight = None, 0.0
    if source.weights is not None and summaries:
        summary = merge_weights(summaries)
        unit, weight = unit_of(summary, source.weights.name), summary.total
    kept = Kept(sizes, tuple(mask for mask, *_ in made), dropped, unit, weight)
    if not kept.n_rows:
        found, name = kept.dropped, source.target_name
        if found.n_missing == source.n_samples:
            raise ValueError(f"target {name!r} has no values: all {found.n_missing} are missing")
        raise ValueError(
            f"none of the {source.n_samples} samples is left: "
            + ", ".join(found.notes([mask.role for mask in source.masks], source.ignore_label))
            + f", and target {name!r} is missing for {found.n_missing}" * bool(found.n_missing)
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


def _keep(
    size: int,
    block: np.ndarray | None,
    masks: Sequence[np.ndarray],
    label: object,
    weights: np.ndarray | None,
) -> tuple[Mask, Dropped, WeightSummary | None]:
    """Return the mask of kept rows of a block, the numbers of dropped rows, and a weight summary.

    ``block`` is the target, or None if no value can be missing or ignored.
    """
    flags, n_outside = np.ones(size, bool), []
    for mask in masks:
        n_outside.append(int((flags & ~mask).sum()))
        flags &= mask
    n_ignored = n_missing = 0
    if block is not None:
        ignored = flags & _is_label(block, label)
        missing = flags & ~ignored & ~_present(block)
        flags &= ~(ignored | missing)
        n_ignored, n_missing = int(ignored.sum()), int(missing.sum())
    dropped = Dropped(tuple(n_outside), n_ignored, n_missing)
    summary = None
    if weights is not None:
        summary = summarise_weights(weights[flags])
        flags &= weights != 0
        dropped = replace(dropped, n_weightless=summary.n_zero)
    return None if flags.all() else np.packbits(flags), dropped, summary


def _present(block: np.ndarray) -> np.ndarray:
    """Return a boolean array: whether each value of a target is present."""
    if block.dtype == object:
        values, strange = clean_objects(block)
        # unsupported types are kept here: a later check refuses them by name
        return np.array([bool(strange) or value is not None for value in values], dtype=bool)
    return np.ones(len(block), bool) if block.dtype.kind in "iub" else ~np.isnan(block)


def _is_label(block: np.ndarray, label: object) -> np.ndarray:
    """Return a boolean array: whether each value of a target is the ignored class."""
    if label is None:
        return np.zeros(len(block), bool)
    if isinstance(label, str) != (block.dtype == object) and not isinstance(label, bool):
        held = "text" if block.dtype == object else "numbers"
        raise ValueError(f"ignore_label is {label!r}, but the target holds {held}")
    return (
        np.fromiter((each == label for each in block), bool, len(block))
        if (block.dtype == object)
        else np.asarray(block == label)
    )


def _unpack(mask: np.ndarray, size: int) -> np.ndarray:
    return np.unpackbits(mask, count=size).view(bool)
