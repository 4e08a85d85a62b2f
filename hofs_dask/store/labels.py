"""The target: which class each sample is in."""

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
#: Quantile classes of a continuous target.
N_QUANTILES = 8


@dataclass(frozen=True)
class Labels:
    """The classes of one target in a code store.

    Attributes
    ----------
    name : str
        Of the target.
    key : str
        Of the array ``labels/<key>`` in the store.
    kind : {"class", "ordinal", "continuous"}
        What the classes are.
    classes : tuple
        The label of each class: by falling frequency, then by label, for ``"class"``; by value for
        ``"ordinal"``; the names of the intervals for ``"continuous"``.
    counts : ndarray of int64 (class)
        Samples of each class.
    values : ndarray of float64 (class)
        The number of each class: its value, the mean in its interval, or its index.
    n_dropped : int
        Samples whose target is missing, and which are not in the store.
    identity : str
        A digest of the labels: equal for equal content.
    checksums : ndarray of uint32 (row chunk)
        Of the chunks of the array.
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

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)


@dataclass(frozen=True)
class TargetSummary:
    """What some rows tell about the target: its numbers, and the rows of each value if counted."""

    numbers: Summary
    counts: dict[Category, int] | None


@dataclass(frozen=True)
class Coding:
    """How a target becomes classes: the code of its value, then the class of the code.

    Attributes
    ----------
    kind, classes, values
        As in `Labels`.
    feature : Feature
        Codes the values as it would those of a feature.
    class_of : ndarray of uint8
        The class of each code; `DROPPED` for the missing one.
    n_whole : int
        The different values of a target that was cut into ranges without having been asked for,
        where they are whole and could be classes as they are; else 0.
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
    """Return ``target_kind``, or raise a ValueError with the valid ones.

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
    block: np.ndarray, first_row: int, n_samples: int, target_kind: TargetKind, kind: TargetType
) -> TargetSummary:
    """Return the summary of some rows of the target.

    Parameters
    ----------
    block : ndarray (sample,)
        Its values.
    first_row, n_samples : int
        The global number of the first row, and of all rows.
    target_kind : {"auto", "class", "ordinal", "continuous"}
        As the user gave it.
    kind : {"nominal", "integer", "number"}
        What the type of the target says.

    Examples
    --------
    >>> import numpy as np
    >>> summarise_target(np.array([1, 1, 2]), 0, 3, "auto", "integer").counts
    {1: 2, 2: 1}
    """
    column = block[:, None]
    numbers = summarise(column, first_row, n_samples, np.array([False]), N_QUANTILES + 1)
    if block.dtype == object:
        return TargetSummary(numbers, numbers.counts[0])
    if target_kind == "continuous" or (target_kind == "auto" and kind == "number"):
        return TargetSummary(numbers, None)
    return TargetSummary(numbers, count_values(block))


def merge_targets(summaries: Sequence[TargetSummary]) -> TargetSummary:
    """Return the summary of all rows of several summaries, given in row order.

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
    """Return how the target becomes classes.

    Parameters
    ----------
    summary : TargetSummary
        Of all rows.
    name : str
        Of the target, for messages.
    target_kind, kind
        As in `summarise_target`.

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
            f"target {name!r} holds {', '.join(sorted(numbers.strange[0]))} among its objects; "
            "convert it to numbers with .astype(float) or to strings with .astype(str)"
        )
    if numbers.n_inf[0]:
        raise ValueError(
            f"target {name!r} holds {numbers.n_inf[0]} infinite values; replace them with NaN "
            "(their rows are dropped) or with a large number"
        )
    if n_missing == numbers.n_rows:
        raise ValueError(f"target {name!r} has no value: all {numbers.n_rows} are missing")
    asked = target_kind
    if target_kind == "auto":
        few = kind == "integer" and counts is not None and len(counts) <= MAX_CODES
        target_kind = "class" if kind == "nominal" or few else "continuous"
    if target_kind == "continuous":
        coding = _continuous(numbers, name)
        if asked == "auto":
            coding = replace(coding, n_whole=_count_whole(numbers.sample[0]))
    else:
        coding = _discrete(counts, n_missing, name, target_kind, kind)
    if coding.n_classes < 2:
        raise ValueError(
            f"target {name!r} has one value only, {coding.classes[0]!r}: there is nothing to "
            "select features for; give a target with two classes or more"
        )
    return coding


def encode_target(block: np.ndarray, coding: Coding) -> np.ndarray:
    """Return the class of each row, `DROPPED` where the target is missing.

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


def _count_whole(sample: np.ndarray) -> int:
    """Return the number of different values, 0 where some are not whole or they are too many."""
    values = np.unique(sample[~np.isnan(sample)])
    whole = N_QUANTILES < len(values) <= MAX_CODES and bool((values == np.round(values)).all())
    return len(values) if whole else 0


def _continuous(numbers: Summary, name: str) -> Coding:
    if numbers.dtype == object:
        raise ValueError(
            f'target {name!r} holds text, which has no order; give target_kind="class" or "auto"'
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
            f"target {name!r} has {number} classes, at most {MAX_CODES} can be coded; "
            f'give target_kind="continuous" if it is a number, or join its classes'
        )
    labels = sorted(counts, key=category_order)
    if target_kind == "ordinal":
        if any(isinstance(label, str) for label in labels):
            raise ValueError(
                f"target {name!r} holds text, which has no order; give its numbers, or "
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
        # Integers that came as floats because some of them are missing.
        classes = [int(each) for each in classes]
    return Coding(
        kind=target_kind,
        classes=tuple(classes),
        values=values,
        feature=feature,
        class_of=_class_of(class_of_label, feature),
    )


def _class_of(classes: np.ndarray, feature: Feature) -> np.ndarray:
    """Return the class of each code, the missing one included."""
    return np.append(classes, [DROPPED] * feature.has_missing).astype(np.uint8)


def interval_names(feature: Feature) -> tuple[str, ...]:
    """Return the interval of each code of a numeric feature but the missing one.

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
