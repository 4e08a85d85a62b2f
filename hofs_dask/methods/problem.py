"""The input of every method: what is known about an encoded data set without reading samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hofs_dask.engine.counts import PAIR_COUNTS, PairContext
from hofs_dask.engine.reduction import Request
from hofs_dask.kernels.entropy import entropy, information


@dataclass(frozen=True)
class Problem:
    """The codes, classes and marginal counts of an encoded data set, without its samples."""

    n_codes: np.ndarray  # (feature,) including the missing code
    missing_code: np.ndarray  # (feature,) -1 if no value is missing
    nominal: np.ndarray  # (feature,) bool
    values: np.ndarray  # (feature, code) the numeric value of each code
    counts: np.ndarray  # int64 (feature, fold, class, code) sums of the sample weights
    label_kind: str  # class, ordinal or continuous
    label_values: np.ndarray  # (class,) the numeric value of each class
    excluded: tuple[int, ...] = ()  # features that are never chosen
    included: tuple[int, ...] = ()  # features that are chosen regardless of their score
    n_groups: int | None = None  # number of groups of samples; None if samples are not grouped
    # (feature,) number of samples divided by the effective number of samples; None without groups
    design_effect: np.ndarray | None = None
    mean_weight: float = 1.0  # mean weight of a sample
    evidence: float = 1.0  # effective number of samples per unit of count: sum w / sum w^2
    tile_width: int = 1024  # features in a tile of the store

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.n_codes)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.counts.shape[2])

    @property
    def table_width(self) -> int:
        """The largest number of codes of a feature."""
        return int(self.counts.shape[3])

    @cached_property
    def class_counts(self) -> np.ndarray:
        """The counts of each class in each fold, (fold, class)."""
        result: np.ndarray = self.counts[0].sum(axis=-1)
        return result

    @cached_property
    def missing(self) -> np.ndarray:
        """The share of the samples, by weight, in which each feature is missing, (feature,)."""
        counts = self.counts.sum(axis=(1, 2))
        rows = np.flatnonzero(self.missing_code >= 0)
        result = np.zeros(self.n_features)
        result[rows] = counts[rows, self.missing_code[rows]] / max(self.total, 1)
        return result

    @cached_property
    def total(self) -> int:
        """The total weight of the samples, which is the divisor of means over samples."""
        return int(self.class_counts.sum())

    @property
    def n_samples(self) -> int:
        """The number of samples, which determines the cost of a scan."""
        return round(self.total / self.mean_weight)

    @property
    def effective_size(self) -> float:
        """The effective number of samples, ``(sum w)^2 / sum w^2``, for penalties and tests."""
        return self.total * self.evidence

    @cached_property
    def n_effective(self) -> np.ndarray:
        """The effective number of samples for each feature, by weights and groups, (feature,)."""
        result: np.ndarray = np.full(self.n_features, self.effective_size)
        return result if self.design_effect is None else result / self.design_effect

    @cached_property
    def label_entropy(self) -> float:
        """H(y) in nats."""
        return float(entropy(self.class_counts.sum(axis=0), 1))

    @cached_property
    def entropy(self) -> np.ndarray:
        """H(x_i) of every feature, in nats."""
        return entropy(self.counts.sum(axis=(1, 2)), 1)

    @cached_property
    def bounded_entropy(self) -> np.ndarray:
        """`entropy`, at least 0; that of a constant feature may be below because of rounding."""
        result: np.ndarray = np.maximum(self.entropy, 0.0)
        return result

    @cached_property
    def marginals(self) -> np.ndarray:
        """The counts of every feature over all folds, (feature, class, code)."""
        result: np.ndarray = self.counts.sum(axis=1)
        return result

    @cached_property
    def relevance(self) -> np.ndarray:
        """I(x_i : y) of every feature, in nats, estimated from counts."""
        return information(self.marginals)

    @cached_property
    def usable(self) -> np.ndarray:
        """Whether each feature is not constant: at least two codes occur, besides missing."""
        occupied = self.counts.sum(axis=(1, 2)) > 0
        rows = np.flatnonzero(self.missing_code >= 0)
        occupied[rows, self.missing_code[rows]] = False
        result: np.ndarray = occupied.sum(axis=1) > 1
        return result

    @cached_property
    def candidates(self) -> np.ndarray:
        """Whether each feature may be chosen: it is usable and not excluded."""
        result = self.usable.copy()
        result[list(self.excluded)] = False
        return result

    @cached_property
    def numeric(self) -> np.ndarray:
        """Whether each feature is used as a number, as is a nominal one with two categories."""
        n_categories = self.n_codes - (self.missing_code >= 0)
        return ~self.nominal | (n_categories <= 2)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The numeric value of every code, standardized over samples, (feature, code).

        The missing code has NaN. For a nominal feature with three or more categories, the value of
        a category is its score on the first axis of a correspondence analysis with y. The sign of
        the axis is chosen so that the most frequent category has a low score.
        """
        values = self.values.copy()
        for i in np.flatnonzero(~self.numeric):
            values[i] = category_scores(self.counts[i].sum(axis=0), int(self.missing_code[i]))
        return standardise(values, self.counts.sum(axis=(1, 2)), self.missing_code)

    @cached_property
    def filled(self) -> np.ndarray:
        """`numbers`, with NaN replaced by 0, the mean of the feature."""
        result: np.ndarray = np.nan_to_num(self.numbers)
        return result

    @cached_property
    def spread(self) -> np.ndarray:
        """The standard deviation of `filled` for every feature; below 1 if values are missing."""
        counts = self.counts.sum(axis=(1, 2))
        result: np.ndarray = np.sqrt((counts * self.filled**2).sum(axis=1) / self.total)
        return result


def count_pairs(problem: Problem, pick: int, *, by_fold: bool) -> Request:
    """Return the request that counts samples by code of a pick and code of every feature."""
    context = PairContext(problem.n_classes, problem.table_width, by_fold)
    return Request(PAIR_COUNTS, context, (pick,))


def standardise(values: np.ndarray, counts: np.ndarray, missing_code: np.ndarray) -> np.ndarray:
    """Return values (feature, code) scaled to mean 0 and variance 1 over the counted samples.

    The missing code and the entries after the last code of a feature have NaN.

    Examples
    --------
    >>> standardise(np.array([[0.0, 1.0]]), np.array([[3, 3]]), np.array([-1]))
    array([[-1.,  1.]])
    """
    weights = np.where(np.isnan(values), 0, counts).astype(np.float64)
    rows = np.flatnonzero(missing_code >= 0)
    weights[rows, missing_code[rows]] = 0.0
    filled = to_unit_scale(np.where(np.isnan(values), 0.0, values))
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    centred = filled - (weights * filled).sum(axis=1, keepdims=True) / total
    spread = np.sqrt((weights * centred**2).sum(axis=1, keepdims=True) / total)
    result: np.ndarray = centred / np.where(spread > 0, spread, 1.0)
    result[np.isnan(values)] = np.nan
    result[rows, missing_code[rows]] = np.nan
    return result


def to_unit_scale(values: np.ndarray) -> np.ndarray:
    """Return each row of values divided by a power of two, so that no absolute value exceeds 1.

    The squares of the result are then finite.

    Examples
    --------
    >>> to_unit_scale(np.array([[1e300, -5e299]])).round(2)
    array([[ 0.75, -0.37]])
    """
    largest = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    result: np.ndarray = np.ldexp(values, -np.frexp(largest)[1])
    return result


def category_scores(counts: np.ndarray, missing_code: int = -1) -> np.ndarray:
    """Return the scores of categories on the first axis of a correspondence analysis with classes.

    Parameters
    ----------
    counts
        Counts (class, category).
    missing_code
        The category to ignore, or -1.

    Examples
    --------
    >>> scores = category_scores(np.array([[4, 0, 1], [0, 4, 0]]))
    >>> bool(scores[0] < scores[2] < scores[1]) or bool(scores[0] > scores[2] > scores[1])
    True
    """
    used = counts.sum(axis=0) > 0
    if missing_code >= 0:
        used[missing_code] = False
    scores = np.full(counts.shape[1], np.nan)
    if not used.any():
        return scores
    shares = counts[:, used] / counts[:, used].sum()
    classes, categories = shares.sum(axis=1), shares.sum(axis=0)
    kept = classes > 0
    expected = np.outer(classes[kept], categories)
    residuals = (shares[kept] - expected) / np.sqrt(expected)
    axis = np.linalg.svd(residuals, full_matrices=False)[2][0] / np.sqrt(categories)
    # the sign of an axis is arbitrary: make the most frequent category low
    top = np.argmax(categories)
    sign = -1.0 if axis[top] > 0 else 1.0
    scores[used] = sign * axis
    return scores
