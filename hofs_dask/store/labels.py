"""The classes of a target, and the conversion of its values to classes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from hofs_dask.errors import unknown
from hofs_dask.io.kinds import TargetType
from hofs_dask.store.bins import (
    MAX_CODES,
    Feature,
    category_order,
    encode_block,
    make_tables,
)
from hofs_dask.store.summary import (
    Category,
    Summary,
    count_values,
    merge_counts,
    merge_summaries,
    summarise,
)

Kind = Literal["class", "ordinal", "continuous"]
TargetKind = Literal["auto", "class", "ordinal", "continuous"]

#: The label of a row whose target is missing.
DROPPED = 255
#: Number of quantile classes of a continuous target.
N_QUANTILES = 8
#: With ``target_kind="auto"``, floats that are whole numbers are classes if the target has at most
#: this many different ones.
MOST_WHOLE = 20


@dataclass(frozen=True)
class Labels:
    """The classes of one target in a code store.

    Attributes
    ----------
    name : str
        Name of the target.
    key : str
        Key of the array ``labels/<key>`` in the store.
    kind : {"class", "ordinal", "continuous"}
        The kind of target.
    classes : tuple
        The value or name of each class. ``"class"``: in order of decreasing frequency, then by
        value. ``"ordinal"``: in order of value. ``"continuous"``: the names of the intervals.
    counts : ndarray of int64 (class)
        Number of samples of each class.
    values : ndarray of float64 (class)
        The number that each class represents. ``"class"``: its index. ``"ordinal"``: its value.
        ``"continuous"``: the mean of its interval.
    n_dropped : int
        Number of samples with a missing target, which are not in the store.
    identity : str
        A digest of the labels: equal for equal content.
    checksums : ndarray of uint32 (row chunk)
        Checksums of the chunks of the array.
    notes : tuple of str
        Messages for the user that say what was left out when the data was read, and how the target
        was interpreted.
    """

    name: str
    key: str
    kind: Kind
    classes: tuple[Category, ...]
    counts: np.ndarray
    values: np.ndarray
    n_dropped: int
    identity: str = ""
    checksums: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))
    notes: tuple[str, ...] = ()

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)


@dataclass(frozen=True)
class TargetSummary:
    """Summary of some rows of the target: statistics of its numbers, and counts of its values.

    The counts are None if there are too many values, or if they are not needed. With weights, the
    count of a value is the sum of the weights of its rows.
    """

    numbers: Summary
    counts: dict[Category, int] | None


@dataclass(frozen=True)
class Coding:
    """The mapping of target values to classes: from value to code, and from code to class.

    Attributes
    ----------
    kind, classes, values
        See `Labels`.
    feature : Feature
        The codes of the target values; the target is coded like a feature.
    class_of : ndarray of uint8
        The class of each code; `DROPPED` for the missing code.
    n_whole : int
        The number of distinct values of the target, if ``target_kind`` is ``"auto"``, the values
        are whole numbers stored as floats, and there are at most `MAX_CODES` of them. Otherwise 0.
    """

    kind: Kind
    classes: tuple[Category, ...]
    values: np.ndarray
    feature: Feature
    class_of: np.ndarray
    n_whole: int = 0

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)


def check_kind(target_kind: str) -> TargetKind:
    """Return the validated option ``target_kind``, or raise a ValueError.

    Examples
    --------
    >>> check_kind("klass")
    Traceback (most recent call last):
    ...
    ValueError: unknown target_kind 'klass'; valid: 'class', 'auto', 'ordinal', 'continuous'
    """
    kinds: tuple[TargetKind, ...] = get_args(TargetKind)
    for kind in kinds:
        if kind == target_kind:
            return kind
    raise unknown("target_kind", target_kind, kinds)


def summarise_target(
    block: np.ndarray,
    first_row: int,
    n_samples: int,
    target_kind: TargetKind,
    kind: TargetType,
    weights: np.ndarray | None = None,
) -> TargetSummary:
    """Return the summary of some rows of the target.

    Parameters
    ----------
    block : ndarray (sample,)
        Values of the target.
    first_row, n_samples : int
        The global index of the first row, and the number of rows of the source.
    target_kind : {"auto", "class", "ordinal", "continuous"}
        The option of the user.
    kind : {"nominal", "integer", "number"}
        The type of the target, inferred from its dtype.
    weights : ndarray of uint16 (sample,), optional
        The weights of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> summarise_target(np.array([1, 1, 2]), 0, 3, "auto", "integer").counts
    {1: 2, 2: 1}
    """
    column = block[:, None]
    nominal = np.array([False])
    numbers = summarise(column, first_row, n_samples, nominal, N_QUANTILES + 1, weights)
    if block.dtype == object:
        return TargetSummary(numbers, numbers.counts[0])
    if target_kind == "continuous" or (target_kind == "auto" and kind == "number"):
        return TargetSummary(
            numbers, _count_whole(block, weights) if target_kind == "auto" else None
        )
    return TargetSummary(numbers, count_values(block, weights))


def merge_targets(summaries: Sequence[TargetSummary]) -> TargetSummary:
    """Return the merged summary of several summaries in row order.

    Examples
    --------
    >>> import numpy as np
    >>> one = summarise_target(np.array([1, 1, 2]), 0, 3, "auto", "integer")
    >>> merge_targets([one, one]).counts
    {1: 4, 2: 2}
    """
    return TargetSummary(
        merge_summaries([each.numbers for each in summaries]),
        merge_counts(each.counts for each in summaries),
    )


def make_coding(
    summary: TargetSummary, name: str, target_kind: TargetKind, kind: TargetType
) -> Coding:
    """Return the mapping of target values to classes.

    Parameters
    ----------
    summary : TargetSummary
        The summary of all rows.
    name : str
        Name of the target, for messages.
    target_kind, kind
        See `summarise_target`.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array(["b", "a", "b"], dtype=object)
    >>> summary = summarise_target(target, 0, 3, "auto", "nominal")
    >>> make_coding(summary, "y", "auto", "nominal").classes
    ('b', 'a')
    """
    numbers, counts = summary.numbers, summary.counts
    n_missing = int(numbers.n_missing[0])
    if 0 in numbers.strange:
        raise TypeError(
            f"target {name!r} contains objects of type {', '.join(sorted(numbers.strange[0]))}; "
            "convert it to numbers with .astype(float) or to strings with .astype(str)"
        )
    if numbers.n_inf[0]:
        raise ValueError(
            f"target {name!r} contains {numbers.n_inf[0]} infinite values; replace them with NaN "
            "(their rows are dropped) or with a large number"
        )
    if n_missing == numbers.n_rows:
        raise ValueError(f"target {name!r} has no values: all {numbers.n_rows} are missing")
    n_whole = 0
    if target_kind == "auto":
        most = MOST_WHOLE if kind == "number" else MAX_CODES
        few = kind != "nominal" and counts is not None and len(counts) <= most
        target_kind = "class" if kind == "nominal" or few else "continuous"
        if kind == "number" and counts is not None and len(counts) <= MAX_CODES:
            n_whole, kind = len(counts), "integer"
    if target_kind == "continuous":
        coding = _continuous(numbers, name)
    else:
        coding = _discrete(counts, n_missing, name, target_kind, kind)
    coding = replace(coding, n_whole=n_whole)
    if coding.n_classes < 2:
        raise ValueError(
            f"target {name!r} has only one value, {coding.classes[0]!r}; give a target with two "
            "classes or more"
        )
    return coding


def encode_target(block: np.ndarray, coding: Coding) -> np.ndarray:
    """Return the class of each row, or `DROPPED` if the target is missing.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array(["b", "a", None, "b"], dtype=object)
    >>> summary = summarise_target(target, 0, 4, "auto", "nominal")
    >>> encode_target(target, make_coding(summary, "y", "auto", "nominal"))
    array([  0,   1, 255,   0], dtype=uint8)
    """
    codes = encode_block(block[:, None], [coding.feature])[0]
    return np.asarray(coding.class_of[codes])


def _count_whole(block: np.ndarray, weights: np.ndarray | None) -> dict[Category, int] | None:
    """Return the number of rows of each value; None if not all are whole, or there are too many."""
    values = block[~np.isnan(block)]
    for some in (values[:1024], values):  # the first rows usually suffice to find a fraction
        if not (np.isfinite(some) & (some == np.round(some))).all():
            return None
    counts = count_values(block, weights)
    return None if counts is None or len(counts) > MAX_CODES else counts


def _continuous(numbers: Summary, name: str) -> Coding:
    if numbers.dtype == object:
        raise ValueError(
            f'target {name!r} contains text, which has no order; give target_kind="class" or "auto"'
        )
    (feature,), _ = make_tables(numbers, 0, N_QUANTILES, N_QUANTILES)
    n_classes = feature.n_codes - feature.has_missing
    return Coding(
        kind="continuous",
        classes=interval_names(feature),
        values=feature.values[:n_classes],
        feature=feature,
        class_of=_class_of(np.arange(n_classes), feature),
    )


def _discrete(
    counts: dict[Category, int] | None,
    n_missing: int,
    name: str,
    target_kind: Literal["class", "ordinal"],
    kind: TargetType,
) -> Coding:
    if counts is None or len(counts) > MAX_CODES:
        number = "more than a million" if counts is None else f"{len(counts)}"
        raise ValueError(
            f"target {name!r} has {number} classes, expected at most {MAX_CODES}; "
            f'give target_kind="continuous" if it is a number, or merge classes'
        )
    labels = sorted(counts, key=category_order)
    if target_kind == "ordinal":
        if any(isinstance(label, str) for label in labels):
            raise ValueError(
                f"target {name!r} contains text, which has no order; give numbers, or "
                'target_kind="class"'
            )
        values = np.array([float(label) for label in labels])
        order = list(range(len(labels)))
    else:
        values = np.arange(len(labels), dtype=np.float64)
        order = sorted(range(len(labels)), key=lambda code: -counts[labels[code]])
    codes = np.arange(len(labels) + (n_missing > 0), dtype=np.float64)
    feature = Feature(np.empty(0), codes, n_missing > 0, tuple(labels))
    class_of_label = np.empty(len(labels), np.int64)
    class_of_label[order] = np.arange(len(labels))
    classes = [labels[code] for code in order]
    if kind != "number" and all(isinstance(each, float) and each.is_integer() for each in classes):
        # Integers of which some are missing are given as floats.
        classes = [int(each) for each in classes]
    return Coding(
        kind=target_kind,
        classes=tuple(classes),
        values=values,
        feature=feature,
        class_of=_class_of(class_of_label, feature),
    )


def _class_of(classes: np.ndarray, feature: Feature) -> np.ndarray:
    """Return the class of each code, including the missing code."""
    return np.append(classes, [DROPPED] * feature.has_missing).astype(np.uint8)


def interval_names(feature: Feature) -> tuple[str, ...]:
    """Return the interval of each code of a numeric feature as text, without the missing code.

    Examples
    --------
    >>> import numpy as np
    >>> interval_names(Feature(np.array([0.5, 2.0]), np.array([0.0, 1.0, 3.0]), False))
    ('< 0.5', '0.5 to < 2', '>= 2')
    """
    if not len(feature.edges):
        n_values = len(feature.values) - feature.has_missing
        return tuple(f"{value:.6g}" for value in feature.values[:n_values])
    edges = [f"{edge:.6g}" for edge in feature.edges]
    between = [f"{a} to < {b}" for a, b in itertools.pairwise(edges)]
    return (f"< {edges[0]}", *between, f">= {edges[-1]}")
