"""Coarse rows of `joint`: a feature given one or two parents whose codes are merged.

They model features that interact. A table of three features, or of two with many codes, has too few
samples per cell unless codes are merged.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hofs_dask.engine.posteriors import GROUPS, CandidateRows, CoarseRow
from hofs_dask.engine.reduction import Partial, Request
from hofs_dask.engine.tuples import PARENT_COUNTS, ParentContext
from hofs_dask.methods import fields
from hofs_dask.methods.fits import fit_pairs, fit_tables
from hofs_dask.methods.interactions import codes_of_order, merged_codes
from hofs_dask.methods.problem import Problem

#: Maximum number of coarse rows that a search keeps.
MOST_ROWS = 40


@dataclass(frozen=True)
class CoarseCounts:
    """The counts of a feature and its parents, from which a coarse row is fitted.

    Attributes
    ----------
    feature, parents
        The column of the feature, and one or two columns of its parents.
    counts
        int64 (fold, combination of groups of codes of the parents, class, code).
    p_value
        P-value of the synergy of the feature and its parents, adjusted for the choice of the
        parents.
    """

    feature: int
    parents: tuple[int, ...]
    counts: np.ndarray
    p_value: float


def check_coarse(value: Any, sizes: fields.Sizes) -> None:
    """Check counts that are read from a checkpoint."""
    if type(value) is not tuple or len(value) > MOST_ROWS:
        raise ValueError(f"is not a list of at most {MOST_ROWS} items")
    for each in value:
        fields.check_type(each, CoarseCounts)
        columns = (each.feature, *each.parents) if type(each.parents) is tuple else ()
        if len(columns) not in (2, 3) or len(set(columns)) < len(columns):
            raise ValueError("has an item without one or two parents")
        for column in columns:
            fields.Whole("feature")(column, sizes)
        own = {**sizes, "cell": GROUPS ** len(each.parents)}
        fields.Wholes(("fold", "cell", "class", "code"))(each.counts, own)
        if type(each.p_value) is not float or not 0 <= each.p_value <= 1:
            raise ValueError("has a p-value that is not from 0 to 1")


def parent_groups(problem: Problem, n_parents: int, features: np.ndarray) -> np.ndarray:
    """Return the groups of the codes of some features, uint8 (feature, code).

    They depend on the number of parents of the coarse row.
    """
    most = codes_of_order(problem.effective_size, problem.n_classes, 1 + n_parents)
    some = replace(
        problem,
        counts=problem.counts[features],
        missing_code=problem.missing_code[features],
        nominal=problem.nominal[features],
    )
    return merged_codes(some, min(GROUPS, most))


def count_parents(
    problem: Problem, families: Sequence[tuple[int, tuple[int, ...], float]]
) -> Generator[Request, Partial, tuple[CoarseCounts, ...]]:
    """Request and return the counts of features with their parents.

    Parameters
    ----------
    problem
        The data set.
    families
        One tuple (feature, parents, p-value) for each feature to count with its parents. The
        p-value is that of their synergy, and is copied to the result. All tuples have the same
        number of parents, and no two have the same feature.
    """
    families = sorted(families)
    parents = np.array([each[1] for each in families])
    columns = np.unique(parents)
    place = np.full(problem.n_features, -1)
    place[[each[0] for each in families]] = np.arange(len(families))
    context = ParentContext(
        n_classes=problem.n_classes,
        n_codes=problem.table_width,
        n_groups=GROUPS,
        parents=np.searchsorted(columns, parents),
        groups=parent_groups(problem, parents.shape[1], columns)[np.searchsorted(columns, parents)],
        place=place,
    )
    total = yield Request(PARENT_COUNTS, context, tuple(columns.tolist()))
    return tuple(
        CoarseCounts(feature, own, counts, p_value)
        for (feature, own, p_value), counts in zip(families, total["counts"], strict=True)
    )


def with_coarse(
    problem: Problem,
    rows: CandidateRows,
    counts: Sequence[CoarseCounts],
    picks: Sequence[int],
    truth: np.ndarray,
) -> CandidateRows:
    """Return rows with the coarse rows of all features whose parents are among the picks.

    Parameters
    ----------
    problem
        The data set.
    rows
        The rows of every candidate, with tables.
    counts
        The counts of some features; of several counts of a feature, the last are used.
    picks
        The picks of the epoch.
    truth
        The field of this name of the rows for coarse rows, (feature, fold), which is set.
    """
    own = {each.feature: each for each in counts if set(each.parents) <= set(picks)}
    if not own:
        return rows
    place = np.full(problem.n_features, -1)
    made = []
    for position, (feature, each) in enumerate(own.items()):
        place[feature] = position
        n_parents = len(each.parents)
        groups = parent_groups(problem, n_parents, np.array([feature, *each.parents]))
        table = _fit(problem, each, groups[0], rows.table[feature])
        logs = np.log(table).transpose(0, 2, 1, 3)
        truth[feature] = (each.counts * logs).sum(axis=(1, 2, 3)) / problem.total
        made.append(
            CoarseRow(
                parents=np.array([picks.index(parent) for parent in each.parents], dtype=np.intp),
                groups=groups[1:],
                table=np.ascontiguousarray(table.reshape(*table.shape[:2], -1)),
            )
        )
    return replace(rows, coarse=tuple(made), coarse_place=place)


def _fit(problem: Problem, each: CoarseCounts, groups: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return p(code | groups of the parents, class), (fold, class, cell, code).

    Notes
    -----
    The probability of the group of the code is fitted as in a pair row whose parent is the
    combination of all parents. Within a group, the probabilities of codes are those of the table.
    """
    n_groups = int(groups.max()) + 1
    merged = np.zeros((*each.counts.shape[:3], n_groups), np.int64)
    for code, group in enumerate(groups.tolist()):
        merged[..., group] += each.counts[..., code]
    effect = problem.design_effect
    own = replace(
        problem,
        n_codes=np.array([n_groups]),
        missing_code=np.array([-1]),
        nominal=np.array([True]),
        values=np.zeros((1, n_groups)),
        counts=merged.sum(axis=1)[None],
        excluded=(),
        included=(),
        design_effect=None if effect is None else effect[[each.feature]],
    )
    alone = fit_tables(own)
    ratio = (fit_pairs(own, merged[None], alone) / alone[:, :, :, None])[0]
    result: np.ndarray = table[:, :, None] * ratio[..., groups]
    return result
