"""The weights of samples, quantized to small integers, so that weighted counts are integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hofs_dask.store.manifest import MOST_WEIGHT

#: Weights are stored exactly if all of them are whole multiples, up to this number, of one unit.
SMALL = 255
#: The largest weight must be at least this number.
LEAST = 1e-300
#: A weight counts as a whole multiple of a unit if the relative difference is at most this.
EXACT = 1e-6


@dataclass(frozen=True)
class Weights:
    """The weights of the samples of a code store.

    Attributes
    ----------
    name : str
        Name of the weights.
    unit : float
        The weight that is stored as 1.
    total, squares : int
        Sums of the stored weights and of their squares.
    largest : int
        The largest stored weight.
    checksums : ndarray of uint32 (row chunk)
        Checksums of the chunks of the array ``weights``.
    """

    name: str
    unit: float
    total: int
    squares: int
    largest: int
    checksums: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))

    @property
    def effective_size(self) -> float:
        """The effective number of samples, ``(sum w)**2 / sum w**2``.

        Examples
        --------
        >>> Weights("w", 1.0, total=4, squares=10, largest=3).effective_size
        1.6
        """
        return self.total**2 / self.squares


@dataclass(frozen=True)
class WeightSums:
    """The sum of stored weights, the sum of their squares, and the largest stored weight."""

    total: int
    squares: int
    largest: int


def sum_weights(stored: np.ndarray) -> WeightSums:
    """Return the sums and the maximum of stored weights.

    Examples
    --------
    >>> sum_weights(np.array([1, 3], np.uint16))
    WeightSums(total=4, squares=10, largest=3)
    """
    counts = np.bincount(stored, minlength=1)
    values = np.arange(len(counts))
    return WeightSums(int(counts @ values), int(counts @ values**2), len(counts) - 1)


def merge_sums(parts: Sequence[WeightSums]) -> WeightSums:
    """Return the sums and the maximum over several parts.

    Examples
    --------
    >>> merge_sums([WeightSums(4, 10, 3), WeightSums(2, 4, 2)])
    WeightSums(total=6, squares=14, largest=3)
    """
    return WeightSums(
        sum(each.total for each in parts),
        sum(each.squares for each in parts),
        max(each.largest for each in parts),
    )


@dataclass(frozen=True)
class WeightSummary:
    """Statistics of some weights.

    Attributes
    ----------
    n_rows, n_missing, n_negative, n_infinite, n_zero : int
        Number of weights, and of those that are missing, negative, infinite and zero.
    low, high : float
        The smallest and the largest weight above zero; NaN if there is none.
    distinct : tuple of float or None
        The different weights above zero in increasing order; None if there are more than `SMALL`.
    total : float
        The sum of the weights above zero.
    """

    n_rows: int
    n_missing: int
    n_negative: int
    n_infinite: int
    n_zero: int
    low: float
    high: float
    distinct: tuple[float, ...] | None
    total: float


def summarise_weights(block: np.ndarray) -> WeightSummary:
    """Return the statistics of some weights.

    Examples
    --------
    >>> summarise_weights(np.array([0.0, 2.0, np.nan, 1.0])).distinct
    (1.0, 2.0)
    """
    numbers = block.astype(np.float64, copy=False)
    infinite = np.isinf(numbers)
    positive = numbers[(numbers > 0) & ~infinite]
    distinct = np.unique(positive)
    return WeightSummary(
        n_rows=len(numbers),
        n_missing=int(np.isnan(numbers).sum()),
        n_negative=int((numbers < 0).sum()),
        n_infinite=int(infinite.sum()),
        n_zero=int((numbers == 0).sum()),
        low=float(distinct[0]) if len(distinct) else np.nan,
        high=float(distinct[-1]) if len(distinct) else np.nan,
        distinct=None if len(distinct) > SMALL else tuple(distinct.tolist()),
        total=float(positive.sum()),
    )


def merge_weights(parts: Sequence[WeightSummary]) -> WeightSummary:
    """Return the statistics over several parts.

    Examples
    --------
    >>> parts = [summarise_weights(np.array([2.0, 1.0])), summarise_weights(np.array([2.0, 0.5]))]
    >>> merge_weights(parts).distinct
    (0.5, 1.0, 2.0)
    """
    found: set[float] | None = set()
    for each in parts:
        if found is not None:
            found = None if each.distinct is None else found | set(each.distinct)
            found = None if found is not None and len(found) > SMALL else found
    return WeightSummary(
        n_rows=sum(each.n_rows for each in parts),
        n_missing=sum(each.n_missing for each in parts),
        n_negative=sum(each.n_negative for each in parts),
        n_infinite=sum(each.n_infinite for each in parts),
        n_zero=sum(each.n_zero for each in parts),
        low=float(np.fmin.reduce([each.low for each in parts])),
        high=float(np.fmax.reduce([each.high for each in parts])),
        distinct=None if found is None else tuple(sorted(found)),
        total=sum(each.total for each in parts),
    )


def unit_of(found: WeightSummary, name: str) -> float | None:
    """Return the weight that is stored as 1, or None if all weights above zero are equal.

    If all weights are whole multiples, up to `SMALL`, of a common unit, this unit is returned and
    they are stored exactly. Otherwise the largest weight is stored as `MOST_WEIGHT`.

    Raises
    ------
    ValueError
        A weight is missing, negative or infinite, or all are zero.

    Examples
    --------
    >>> unit_of(summarise_weights(np.array([0.5, 1.5, 2.0])), "w")
    0.5
    >>> unit_of(summarise_weights(np.array([3.0, 3.0])), "w") is None
    True
    """
    of = f"of {found.n_rows} samples"
    if found.n_missing:
        raise ValueError(
            f"weights {name!r} is missing for {found.n_missing} {of}; give every sample a weight "
            "(weights.fillna(0) drops these samples)"
        )
    if found.n_negative:
        raise ValueError(
            f"weights {name!r} is negative for {found.n_negative} {of}; give numbers >= 0"
        )
    if found.n_infinite:
        raise ValueError(
            f"weights {name!r} is infinite for {found.n_infinite} {of}; give finite numbers"
        )
    if np.isnan(found.high):
        raise ValueError(
            f"weights {name!r} is 0 for all {found.n_rows} samples; give some weights above 0"
        )
    if found.high < LEAST:
        raise ValueError(
            f"weights {name!r} is at most {found.high}, too small to be divided; only ratios of "
            "weights matter: multiply them by a constant, for example weights / weights.max()"
        )
    unit = _common_unit(found.distinct) if found.distinct is not None else None
    unit = found.high / MOST_WEIGHT if unit is None else unit
    low, high = quantise(np.array([found.low, found.high]), unit)
    return None if low == high else unit


def _common_unit(distinct: Sequence[float]) -> float | None:
    """Return the largest unit of which all weights are whole multiples; None if there is none."""
    ratios = np.array(distinct) / distinct[0]
    for parts in range(1, SMALL + 1):
        multiples = ratios * parts
        if multiples[-1] > SMALL * (1 + EXACT):
            return None
        if (np.abs(multiples - np.rint(multiples)) <= EXACT * multiples).all():
            return distinct[0] / parts
    return None


def quantise(block: np.ndarray, unit: float) -> np.ndarray:
    """Return weights divided by the unit and rounded, but at least 1, as uint16.

    A ValueError is raised if a weight is not above zero, or if a result is above `MOST_WEIGHT`.

    Examples
    --------
    >>> quantise(np.array([0.1, 1.0, 2.5]), 0.5)
    array([1, 2, 5], dtype=uint16)
    """
    numbers = np.rint(block.astype(np.float64) / unit)  # float16 would overflow
    if not ((block > 0) & (numbers <= MOST_WEIGHT)).all():
        raise ValueError(
            "the weights changed while they were read; run the same call again when no other "
            "process writes to them"
        )
    return np.maximum(numbers, 1).astype(np.uint16)
