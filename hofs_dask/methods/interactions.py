"""Find the pairs or triples of features with the most synergy, see `hofs_dask.interactions`."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from hofs_dask.engine.reduction import ALL_HASHES, Partial, Request
from hofs_dask.engine.tuples import GROUP_COUNTS, TUPLES, GroupContext, TupleContext
from hofs_dask.methods.problem import Problem

#: Approximate bytes of the counts that a task of one scan holds.
PANEL_BYTES = 32 * 2**20
#: Minimum mean number of samples per combination of codes and class.
CELL_SAMPLES = 10
#: Maximum number of codes of a feature, including the missing code.
MOST_CODES = 255
#: The supported orders, that is, numbers of features in a tuple.
ORDERS = (2, 3)


@dataclass(frozen=True)
class Tuples:
    """The tuples (pairs or triples of features) with the most synergy, best first."""

    columns: np.ndarray  # int64 (tuple, order) positions of the features, ascending
    synergy: np.ndarray  # (tuple,) nats
    information: np.ndarray  # (tuple,) information of the tuple about y, in nats
    added: np.ndarray  # (tuple,) information beyond the best proper subset, in nats
    df: np.ndarray  # (tuple,) int64 degrees of freedom
    p_value: np.ndarray  # (tuple,)
    p_adjusted: np.ndarray  # (tuple,) p-value times the number of tuples, at most 1
    n_tuples: int  # number of tuples that were compared
    n_codes: int  # largest number of codes of a feature, after codes were merged


def codes_of_order(n_samples: float, n_classes: int, order: int) -> int:
    """Return how many codes a feature may have if tuples of this order are to be counted.

    The result is the largest b with ``10 C b**order <= N``, at least 2. C is the number of classes
    and N the number of samples.

    Examples
    --------
    >>> [codes_of_order(n, 2, 2) for n in (100, 180, 20_000)]
    [2, 3, 31]
    >>> codes_of_order(5000, 2, 3)
    6
    """
    b = 2
    while CELL_SAMPLES * n_classes * (b + 1) ** order <= n_samples:
        b += 1
    return b


def merged_codes(problem: Problem, most: int) -> np.ndarray:
    """Return the group that each code is merged into, uint8 (feature, code).

    A feature has at most ``most`` groups. Codes are merged only if more than this many codes occur.
    For a numeric feature, adjacent codes then form groups of about equal counts. Its missing code
    forms a separate group or, if ``most`` is 2, is added to the largest group. For a nominal
    feature, the rarest categories form one group. Codes that do not occur are in group 0.
    """
    counts = problem.counts.sum(axis=(1, 2))
    groups = np.zeros(counts.shape, np.uint8)
    for i, row in enumerate(counts):
        (used,) = np.nonzero(row)
        missing = int(problem.missing_code[i])
        if len(used) <= most:
            groups[i, used] = np.arange(len(used))
        elif problem.nominal[i]:
            frequent = used[np.argsort(-row[used], kind="stable")[: most - 1]]
            groups[i, used] = most - 1
            groups[i, np.sort(frequent)] = np.arange(most - 1)
        else:
            values = used[used != missing]
            apart = len(values) < len(used)
            n_groups = most - 1 if apart and most > 2 else most
            # twice the number of samples up to the middle of each code; the factor avoids fractions
            middle = 2 * np.cumsum(row[values]) - row[values]
            group = middle * n_groups // (2 * row[values].sum())
            groups[i, values] = np.unique(group, return_inverse=True)[1]
            if apart and most > 2:
                groups[i, missing] = groups[i, values].max() + 1
            elif apart:
                groups[i, missing] = np.argmax(np.bincount(groups[i, values], row[values]))
    return groups


@dataclass(frozen=True)
class GroupedCodes:
    """Codes merged to groups, and the samples of each group."""

    below: int  # only samples with a hash below this number are counted
    groups: np.ndarray  # uint8 (feature, code)
    counts: np.ndarray  # int64 (feature, class, group)

    @property
    def n_groups(self) -> int:
        """The largest number of groups of a feature."""
        return int(self.counts.shape[2])


def group_codes(
    problem: Problem, order: int, *, share: float = 1.0, most_codes: int = MOST_CODES
) -> Generator[Request, Partial, GroupedCodes]:
    """Merge the codes of all features for tuples of ``order`` features; return their counts.

    The parameters are those of `find_interactions`.
    """
    m, n_classes = problem.n_features, problem.n_classes
    most = min(codes_of_order(share * problem.effective_size, n_classes, order), most_codes)
    groups = merged_codes(problem, most)
    n_groups = int(groups.max(initial=1)) + 1
    below = ALL_HASHES if share >= 1 else int(share * ALL_HASHES)
    if below < ALL_HASHES:
        drawn = GroupContext(below, n_classes, n_groups, groups)
        counts = (yield Request(GROUP_COUNTS, drawn, share=share))["counts"]
        return GroupedCodes(below, groups, counts)
    marginals = problem.counts.sum(axis=1)
    counts = np.zeros((m, n_classes, n_groups), np.int64)
    for i, group in enumerate(groups):
        for code, each in enumerate(group.tolist()):
            counts[i, :, each] += marginals[i, :, code]
    return GroupedCodes(below, groups, counts)


def find_interactions(
    problem: Problem,
    order: int,
    top: int,
    *,
    share: float = 1.0,
    most_codes: int = MOST_CODES,
) -> Generator[Request, Partial, Tuples]:
    """Yield the requests that count all tuples; return the tuples with the most synergy.

    Each request counts the tuples of one group of columns (a panel).

    Parameters
    ----------
    problem
        The data set.
    order
        Number of features in a tuple.
    top
        Maximum number of tuples to return.
    share
        Fraction of the samples to use. These samples are drawn by a hash of the row number.
    most_codes
        Maximum number of codes of a feature, after codes are merged.
    """
    m, n_classes, tile = problem.n_features, problem.n_classes, problem.tile_width
    grouped = yield from group_codes(problem, order, share=share, most_codes=most_codes)
    groups, counts, n_groups = grouped.groups, grouped.counts, grouped.n_groups
    effective_size = float(counts[0].sum()) * problem.evidence
    found = np.zeros((0, order), np.int64)
    terms = np.zeros((0, 5))
    least = 0.0
    most_heads = heads_of_panel(min(tile, m), n_classes, n_groups, order)
    position = np.arange(m)
    for columns, heads in panels(np.flatnonzero(problem.candidates), order, most_heads, tile):
        context = TupleContext(
            order=order,
            below=grouped.below,
            top=top,
            least=least,
            heads=heads,
            columns=columns,
            column_groups=groups[columns],
            column_counts=counts[columns],
            position=position,
            usable=problem.candidates,
            groups=groups,
            counts=counts,
        )
        part = share * len(heads) / max(math.comb(m, order - 1), 1)
        total = yield Request(TUPLES, context, tuple(columns.tolist()), share=part)
        found = np.concatenate([found, total["tuples"]])
        terms = np.concatenate([terms, total["terms"]])
        best = np.lexsort((*found.T[::-1], -terms[:, 0]))[:top]
        found, terms = found[best], terms[best]
        if len(found) == top:
            least = float(terms[-1, 0])
    n_tuples = math.comb(int(problem.candidates.sum()), order)
    synergy, information, best_subset, df, correction = terms.T
    # `fit_tables` computed the correction from counts, not from effective samples
    correction = 1.0 + (correction - 1.0) / problem.evidence
    p_value = p_values(synergy, effective_size, df, correction)
    return Tuples(
        columns=found,
        synergy=synergy,
        information=information,
        added=information - best_subset,
        df=df.astype(np.int64),
        p_value=p_value,
        p_adjusted=np.minimum(p_value * n_tuples, 1.0),
        n_tuples=n_tuples,
        n_codes=n_groups,
    )


def p_values(
    synergy: np.ndarray, n_samples: float | np.ndarray, df: np.ndarray, correction: np.ndarray
) -> np.ndarray:
    """Return the probability of estimating at least this synergy if the true synergy is 0.

    The deviance G is twice the number of samples times the synergy. If the true synergy is 0, then
    G divided by Williams' correction for finite samples has about a chi-square distribution.

    Examples
    --------
    >>> p_values(np.array([0.01]), 1000, np.array([4.0]), np.array([1.0])).round(5)
    array([0.0005])
    """
    from scipy.special import chdtrc

    found = chdtrc(np.maximum(df, 1), 2 * n_samples * synergy / correction)
    result: np.ndarray = np.where(df > 0, found, 1.0)
    return result


def heads_of_panel(tile: int, n_classes: int, n_groups: int, order: int) -> int:
    """Return the maximum number of heads of a panel for tiles of ``tile`` features."""
    n_bytes = 8 * tile * n_classes * (n_groups - 1) ** order
    return max(PANEL_BYTES // max(n_bytes, 1), 1)


def panels(
    candidates: np.ndarray, order: int, most: int, tile: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the columns of each panel, and its heads.

    A head is a tuple without its last feature, given as positions among the columns. A panel has at
    most ``most`` heads. Its columns come from one tile; for triples, from one or two tiles.

    Examples
    --------
    >>> [columns.tolist() for columns, _ in panels(np.arange(5), 2, 3, 1000)]
    [[0, 1, 2], [3, 4]]
    """
    if order == 2:
        for block in _blocks(candidates, most, tile):
            if block[0] < candidates[-1]:
                yield block, np.arange(len(block), dtype=np.int64)[:, None]
        return
    blocks = list(_blocks(candidates, max(math.isqrt(most), 1), tile))
    for a, first in enumerate(blocks):
        for second in blocks[a:]:
            same = second is first
            columns = first if same else np.concatenate([first, second])
            if same:
                heads = np.stack(np.triu_indices(len(first), 1), axis=1)
            else:
                pairs = np.indices((len(first), len(second))).reshape(2, -1).T
                heads = pairs + np.array([0, len(first)])
            heads = heads[columns[heads[:, -1]] < candidates[-1]]
            if len(heads):
                yield columns, np.ascontiguousarray(heads, dtype=np.int64)


def _blocks(candidates: np.ndarray, most: int, tile: int) -> Iterator[np.ndarray]:
    """Yield blocks of at most ``most`` candidates; a block is within one tile."""
    for own in np.split(candidates, np.flatnonzero(np.diff(candidates // tile)) + 1):
        for start in range(0, len(own), most):
            yield own[start : start + most]
