"""Find the pairs or triples of features with the most synergy, see `hofs_dask.interactions`."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from hofs_dask.engine.reduction import ALL_HASHES, N_FOLDS, Partial, Request
from hofs_dask.engine.tuples import (
    GROUP_COUNTS,
    TUPLE_TABLES,
    TUPLES,
    GroupContext,
    ListedContext,
    TupleContext,
)
from hofs_dask.kernels.tuples import N_TERMS
from hofs_dask.methods.base import Sizes
from hofs_dask.methods.fields import Floats, Whole, Wholes, checked
from hofs_dask.methods.problem import Problem

#: Approximate bytes of the counts that a task of one scan holds.
PANEL_BYTES = 32 * 2**20
#: Minimum mean number of samples per combination of codes and class.
CELL_SAMPLES = 10
#: Maximum number of codes of a feature, including the missing code.
MOST_CODES = 255
#: The supported orders, that is, numbers of features in a tuple.
ORDERS = (2, 3)
#: All tuples are compared on about this many samples, drawn by a hash of their row number, if there
#: are at least twice as many samples and comparing all tuples on all samples takes more than
#: `MOST_WORDS` intersections of words of 64 samples (about ten seconds).
SCREENED, MOST_WORDS = 2**15, 5e10
#: The tuples that are then counted again on all samples: this many, or this many times as many as
#: are returned.
KEPT, KEPT_SHARE = 1000, 10


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
    n_screened: int | None = None  # samples on which all tuples were compared; None for all samples
    smallest: float = 0.0  # tuples with at least this synergy are found, see `surely_found`


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


def screened_share(
    n_samples: int, n_features: int, n_classes: int, n_codes: int, order: int
) -> float:
    """Return the fraction of the samples on which all tuples are compared by default.

    It depends on the size of the data alone, so that the same data gives the same tuples on every
    machine.

    Examples
    --------
    >>> screened_share(20_000, 1000, 2, 3, 2)
    1.0
    >>> screened_share(100_000, 20_000, 2, 3, 2)
    0.32768
    """
    b = min(n_codes, codes_of_order(n_samples, n_classes, order))
    n_words = math.comb(n_features, order) * (b - 1) ** order * n_samples / 64
    if n_samples < 2 * SCREENED or n_words <= MOST_WORDS:
        return 1.0
    return SCREENED / n_samples


def surely_found(n_samples: float, df: int, least: float, miss: float = 1e-6) -> float:
    """Return the smallest synergy that is estimated as ``least`` or more, with high probability.

    Parameters
    ----------
    n_samples
        Number of samples.
    df
        Degrees of freedom of the tuple.
    least
        Synergy in nats, as estimated from the samples.
    miss
        Probability that the estimate is below ``least``.

    Notes
    -----
    The deviance of a tuple with synergy s is approximately a noncentral chi-square variable with
    noncentrality ``2 n_samples s``.

    Examples
    --------
    >>> round(surely_found(2**15, 4, 0.0005), 4)
    0.0016
    """
    from scipy.special import chdtr, chndtrinc

    deviance = 2 * n_samples * least
    if chdtr(df, deviance) <= miss:
        return 0.0
    return float(chndtrinc(deviance, df, miss)) / (2 * n_samples)


@dataclass(frozen=True)
class TupleState:
    """The comparison of all tuples after some panels."""

    n_done: int = checked(Whole("panel end"))  # panels that were counted
    columns: np.ndarray = checked(Wholes(("kept", "order"), below="feature"))  # best first
    terms: np.ndarray = checked(Floats(("kept", "term")))  # values from `fit_tables`
    # panels whose tuples were counted again on all samples, and the new terms of these tuples,
    # which are sorted by their columns
    n_recounted: int = checked(Whole("recounted end"))
    recounted: np.ndarray = checked(Floats(("recounted", "term")))


@dataclass(frozen=True)
class TupleSearch:
    """The comparison of all tuples, panel by panel.

    With ``recount``, all tuples are compared on the drawn samples alone, and the best of them are
    counted again on all samples.
    """

    problem: Problem
    order: int
    top: int
    grouped: GroupedCodes
    share: float = 1.0
    recount: bool = False

    @property
    def n_tuples(self) -> int:
        """The number of tuples that are compared."""
        return math.comb(int(self.problem.candidates.sum()), self.order)

    @property
    def n_kept(self) -> int:
        """Maximum number of tuples that are kept while tuples are compared."""
        return max(KEPT, KEPT_SHARE * self.top) if self.recount else self.top

    def panels(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the columns and heads of each panel."""
        problem, tile = self.problem, self.problem.tile_width
        n_groups = self.grouped.n_groups
        most = heads_of_panel(
            min(tile, problem.n_features), problem.n_classes, n_groups, self.order
        )
        return panels(np.flatnonzero(problem.candidates), self.order, most, tile)

    def start(self) -> TupleState:
        """Return the state before the first panel."""
        none = np.zeros((0, self.order), np.int64)
        return TupleState(0, none, np.zeros((0, N_TERMS)), 0, np.zeros((0, N_TERMS)))

    def run(self, state: TupleState) -> Generator[Request | TupleState, Any, Tuples]:
        """Yield the request of each panel, and then the new state; return the best tuples."""
        for columns, heads in islice(self.panels(), state.n_done, None):
            total = yield self.request(state, columns, heads)
            found = np.concatenate([state.columns, total["tuples"]])
            terms = np.concatenate([state.terms, total["terms"]])
            best = np.lexsort((*found.T[::-1], -terms[:, 0]))[: self.n_kept]
            state = replace(state, n_done=state.n_done + 1, columns=found[best], terms=terms[best])
            yield state
        if not self.recount:
            return self._result(state.columns, state.terms)
        kept = state.columns[np.lexsort(state.columns.T[::-1])]
        for some in islice(self.batches(kept), state.n_recounted, None):
            columns = np.unique(some[:, :-1])
            context = ListedContext(
                tuples=some,
                columns=columns,
                n_classes=self.problem.n_classes,
                n_groups=self.grouped.n_groups,
                evidence=self.problem.evidence,
                column_groups=self.grouped.groups[columns],
                position=np.arange(self.problem.n_features),
                groups=self.grouped.groups,
            )
            part = len(np.unique(some[:, -1])) / self.problem.n_features
            total = yield Request(TUPLE_TABLES, context, tuple(columns.tolist()), share=part)
            order = np.lexsort(total["tuples"].T[::-1])
            state = replace(
                state,
                n_recounted=state.n_recounted + 1,
                recounted=np.concatenate([state.recounted, total["terms"][order]]),
            )
            yield state
        best = np.argsort(-state.recounted[:, 0], kind="stable")[: self.top]
        result = self._result(kept[best], state.recounted[best])
        return replace(
            result,
            n_screened=self.n_drawn,
            smallest=surely_found(
                self._drawn * self.problem.evidence, self.least_df, self._least(state)
            ),
        )

    @property
    def least_df(self) -> int:
        """The smallest number of degrees of freedom of a tuple."""
        occupied = (self.grouped.counts.sum(axis=1) > 0).sum(axis=1)[self.problem.candidates]
        smallest = np.sort(np.maximum(occupied - 1, 1))[: self.order]
        return int(smallest.prod()) * (self.problem.n_classes - 1)

    @property
    def _drawn(self) -> float:
        """The sum of the weights of the samples on which all tuples are compared."""
        return float(self.grouped.counts[0].sum())

    @property
    def n_drawn(self) -> int:
        """The number of samples on which all tuples are compared."""
        return round(self._drawn / self.problem.mean_weight)

    @property
    def most_batches(self) -> int:
        """The maximum number of batches."""
        n_heads = self.n_kept * (self.order - 1)
        return -(-self.n_kept // self._most_tables) + -(-n_heads // self._most_columns)

    @property
    def _most_tables(self) -> int:
        n_cells: int = self.grouped.n_groups**self.order * self.problem.n_classes
        return max(PANEL_BYTES // (8 * n_cells), 1)

    @property
    def _most_columns(self) -> int:
        return max(self.problem.tile_width, self.order)

    @property
    def expected_smallest(self) -> float:
        """The smallest synergy that is surely found if almost no tuple has synergy, in nats."""
        from scipy.special import chdtri

        n_samples = self._drawn * self.problem.evidence
        deviance = float(chdtri(self.least_df, min(self.n_kept / self.n_tuples, 1.0)))
        return surely_found(n_samples, self.least_df, deviance / (2 * n_samples))

    def batches(self, kept: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the tuples that are counted again together; ``kept`` is sorted by columns."""
        most, tile = self._most_tables, self._most_columns
        start, columns = 0, set[int]()
        for t, members in enumerate(kept[:, :-1].tolist()):
            columns |= set(members)
            if t - start == most or len(columns) > tile:
                yield kept[start:t]
                start, columns = t, set(members)
        if start < len(kept):
            yield kept[start:]

    def _least(self, state: TupleState) -> float:
        """Return the synergy below which a tuple is not among the kept ones."""
        return float(state.terms[-1, 0]) if len(state.terms) == self.n_kept else 0.0

    def request(self, state: TupleState, columns: np.ndarray, heads: np.ndarray) -> Request:
        """Return the request for a panel."""
        problem, grouped = self.problem, self.grouped
        m = problem.n_features
        context = TupleContext(
            order=self.order,
            below=grouped.below,
            top=self.n_kept,
            least=self._least(state),
            evidence=problem.evidence,
            heads=heads,
            columns=columns,
            column_groups=grouped.groups[columns],
            column_counts=grouped.counts[columns],
            position=np.arange(m),
            usable=problem.candidates,
            groups=grouped.groups,
            counts=grouped.counts,
        )
        part = self.share * len(heads) / max(math.comb(m, self.order - 1), 1)
        return Request(TUPLES, context, tuple(columns.tolist()), share=part)

    def _result(self, columns: np.ndarray, terms: np.ndarray) -> Tuples:
        problem, n_tuples = self.problem, self.n_tuples
        counted = problem.counts[0] if self.recount else self.grouped.counts[0]
        synergy, information, best_subset, df, correction = terms.T
        p_value = p_values(synergy, float(counted.sum()) * problem.evidence, df, correction)
        return Tuples(
            columns=columns,
            synergy=synergy,
            information=information,
            added=information - best_subset,
            df=df.astype(np.int64),
            p_value=p_value,
            p_adjusted=np.minimum(p_value * n_tuples, 1.0),
            n_tuples=n_tuples,
            n_codes=self.grouped.n_groups,
        )


def start_interactions(
    problem: Problem, order: int, top: int, *, exhaustive: bool
) -> Generator[Request, Partial, TupleSearch]:
    """Yield the requests of the preparation; return the comparison of all tuples.

    The parameters are those of `hofs_dask.interactions`.
    """
    share = share_of(problem, order, top, exhaustive=exhaustive)
    grouped = yield from group_codes(problem, order, share=share)
    return TupleSearch(problem, order, top, grouped, share, recount=share < 1)


def planned_tuples(
    sizes: Sizes, order: int, top: int, exclude: Sequence[int] = (), *, exhaustive: bool = False
) -> TupleSearch:
    """Return the comparison of all tuples of data that is not read yet.

    The arrays of counts are placeholders, with all codes and classes in all features.
    """
    m, n_classes, n_codes = sizes.n_features, sizes.n_classes, sizes.n_codes
    each = 10**6  # large, so that the shares of the cells can be rounded
    total = N_FOLDS * n_classes * n_codes * each
    problem = Problem(
        n_codes=np.broadcast_to(n_codes, m),
        missing_code=np.broadcast_to(-1, m),
        nominal=np.broadcast_to(np.False_, m),
        values=np.broadcast_to(0.0, (m, n_codes)),
        counts=np.broadcast_to(each, (m, N_FOLDS, n_classes, n_codes)),
        label_kind="class",
        label_values=np.arange(n_classes),
        excluded=tuple(exclude),
        mean_weight=total / sizes.n_samples,
        evidence=sizes.n_samples / total,
        tile_width=sizes.tile_width,
    )
    share = share_of(problem, order, top, exhaustive=exhaustive)
    n_groups = min(codes_of_order(share * sizes.n_samples, n_classes, order), n_codes)
    grouped = GroupedCodes(
        below=ALL_HASHES if share >= 1 else int(share * ALL_HASHES),
        groups=np.broadcast_to(np.uint8(0), (m, n_codes)),
        counts=np.broadcast_to(
            np.int64(round(share * total / (n_classes * n_groups))), (m, n_classes, n_groups)
        ),
    )
    return TupleSearch(problem, order, top, grouped, share, recount=share < 1)


def share_of(problem: Problem, order: int, top: int, *, exhaustive: bool) -> float:
    """Return the fraction of the samples on which all tuples are compared."""
    n_usable, n_codes = int(problem.candidates.sum()), int(problem.n_codes.max())
    if exhaustive or math.comb(n_usable, order) <= max(KEPT, KEPT_SHARE * top):
        return 1.0
    return screened_share(problem.n_samples, n_usable, problem.n_classes, n_codes, order)


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
    grouped = yield from group_codes(problem, order, share=share, most_codes=most_codes)
    search = TupleSearch(problem, order, top, grouped, share)
    steps, total = search.run(search.start()), None
    while True:
        try:
            found = steps.send(total)
        except StopIteration as stop:
            result: Tuples = stop.value
            return result
        total = (yield found) if isinstance(found, Request) else None


def p_values(
    synergy: np.ndarray, n_samples: float | np.ndarray, df: np.ndarray, correction: np.ndarray
) -> np.ndarray:
    """Return the probability of estimating at least this synergy if the true synergy is 0.

    The deviance G is twice the number of samples times the synergy. If the true synergy is 0, then
    G divided by the correction from `fit_tables` has about a chi-square distribution.

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
