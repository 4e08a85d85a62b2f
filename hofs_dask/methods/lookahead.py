"""Look-ahead of `joint`: tuples of features that say nothing alone, but much together.

A search that adds one feature at a time cannot find two features whose exclusive or is the label.
At its start, the search therefore looks for the tuples with the most synergy. A tuple waits until
its gain per feature exceeds that of the best single candidate. Its features are then chosen one
after the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hofs_dask.engine.posteriors import GROUPS, POSTERIOR_GAINS
from hofs_dask.engine.reduction import ALL_HASHES, Partial, Request
from hofs_dask.engine.tuples import (
    GROUP_COUNTS,
    PARENT_COUNTS,
    TUPLES,
    GroupContext,
    TupleContext,
)
from hofs_dask.methods import fields
from hofs_dask.methods.affinity import join
from hofs_dask.methods.base import Ahead, Sizes
from hofs_dask.methods.coarse import CoarseCounts, count_parents
from hofs_dask.methods.interactions import (
    MOST_WORDS,
    SCREENED,
    Tuples,
    codes_of_order,
    find_interactions,
    group_codes,
    heads_of_panel,
    p_values,
    panels,
    surely_found,
)
from hofs_dask.methods.problem import Problem

if TYPE_CHECKING:
    from hofs_dask.methods.joint import Joint, JointScores, JointState

#: Maximum number of codes of a feature in these tuples. With an even number, the groups of a
#: numeric feature do not cross its median.
CODES = GROUPS
#: A tuple must be significant at this level, adjusted for all tuples of its order. It is stricter
#: than usual because single features are tested as well.
ALPHA = 1e-2
#: At most `WAITING` tuples wait. They are taken from the `LISTED` tuples of each order with the
#: most synergy.
LISTED, WAITING = 100, 5
#: A tuple is ignored until the next restart when its gain has been computed this many times without
#: being sufficient.
MOST_TRIES = 2
#: A tuple is accepted only if at most this many tuples without information are expected to gain as
#: much by chance.
FALSE_SHARE = 0.5
#: By default, a search looks ahead if comparing all pairs takes at most `MOST_WORDS` intersections
#: of words of 64 samples (about ten seconds), or `MOST_SHARE` times the samples times the features.
MOST_SHARE = 0.5
#: Approximate time to test a pair, in intersections of words.
PAIR_WORDS = 300


@dataclass(frozen=True)
class Waiting:
    """A tuple of features with significant synergy that has not been chosen yet.

    Attributes
    ----------
    features
        Positions of the features, ascending.
    information
        Information of the tuple about the label, in nats.
    worth
        Gain that is expected if all features of the tuple are chosen, in nats. It is the
        information until the gain has been computed in this epoch.
    p_value
        P-value of the synergy, not adjusted for the number of tuples.
    n_tries
        How often the gain of the tuple has been computed in this epoch.
    """

    features: tuple[int, ...]
    information: float
    worth: float
    p_value: float
    n_tries: int


def check_waiting(value: Any, sizes: fields.Sizes) -> None:
    """Check the waiting tuples of a checkpoint; None if no tuples have been looked for yet."""
    if value is None:
        return
    if type(value) is not tuple or len(value) > WAITING:
        raise ValueError(f"is not a list of at most {WAITING} items")
    for each in value:
        fields.check_type(each, Waiting)
        check_planned(each.features, sizes)
        if type(each.n_tries) is not int or each.n_tries not in range(MOST_TRIES + 1):
            raise ValueError(f"has a number of tries that is not from 0 to {MOST_TRIES}")
        for number in (each.information, each.worth, each.p_value):
            if type(number) is not float or not abs(number) <= fields.LARGEST:
                raise ValueError("has a number that is not finite")


def check_planned(value: Any, sizes: fields.Sizes) -> None:
    """Check the columns of a tuple that are read from a checkpoint."""
    if type(value) is not tuple or len(value) > 3 or len(set(value)) < len(value):
        raise ValueError("is not a list of at most 3 different features")
    for item in value:
        fields.Whole("feature")(item, sizes)


def smallest_synergy(n_samples: float, df: int, n_tuples: int, miss: float = 1e-6) -> float:
    """Return the least synergy, in nats, that is found with probability ``1 - miss``.

    Parameters
    ----------
    n_samples
        Number of samples on which the tuples are compared.
    df
        Degrees of freedom of the test.
    n_tuples
        Number of tuples.
    miss
        Probability that a tuple with this synergy is not significant at the level `ALPHA`.

    Examples
    --------
    >>> round(smallest_synergy(2**15, 9, 19_900), 4)
    0.0019
    """
    from scipy.special import chdtri

    least = float(chdtri(df, ALPHA / n_tuples)) / (2 * n_samples)
    return surely_found(n_samples, df, least, miss)


def default_order(n_samples: int, n_features: int, n_classes: int, n_codes: int) -> int:
    """Return the order of the tuples that a search compares by default: 1 for none, or 2.

    The result does not depend on the machine, so that neither does the selection.

    Examples
    --------
    >>> [default_order(10_000, m, 2, 5) for m in (100, 2000, 50_000)]
    [2, 2, 1]
    """
    n_drawn = min(n_samples, SCREENED)
    n_groups = min(CODES, n_codes, codes_of_order(n_drawn, n_classes, 2))
    n_words = (n_groups - 1) ** 2 * (n_drawn / 64 + n_classes) + PAIR_WORDS
    cost = math.comb(n_features, 2) * n_words
    return 2 if cost <= max(MOST_WORDS, MOST_SHARE * n_samples * n_features) else 1


def tuple_requests(sizes: Sizes, order: int) -> tuple[Request, ...]:
    """Return the requests that compare all tuples of up to ``order`` features.

    Their arrays are placeholders.
    """
    n_drawn, m = min(sizes.n_samples, SCREENED), sizes.n_features
    found: list[Request] = []
    for each in range(2, min(order, m) + 1):
        n_groups = min(CODES, sizes.n_codes, codes_of_order(n_drawn, sizes.n_classes, each))
        groups = np.broadcast_to(np.uint8(0), (m, sizes.n_codes))
        counts = np.broadcast_to(np.int64(0), (m, sizes.n_classes, n_groups))
        below = ALL_HASHES * n_drawn // sizes.n_samples
        if below < ALL_HASHES:
            context = GroupContext(below, sizes.n_classes, n_groups, groups)
            found.append(Request(GROUP_COUNTS, context))
        tile = min(sizes.tile_width, m)
        most = heads_of_panel(tile, sizes.n_classes, n_groups, each)
        for columns, heads in panels(np.arange(m), each, most, tile):
            panel = TupleContext(
                order=each,
                below=below,
                top=LISTED,
                least=0.0,
                evidence=1.0,
                heads=heads,
                columns=columns,
                column_groups=groups[columns],
                column_counts=counts[columns],
                position=np.arange(m),
                usable=np.broadcast_to(np.True_, m),
                groups=groups,
                counts=counts,
            )
            found.append(Request(TUPLES, panel, tuple(columns.tolist())))
    return tuple(found)


def look_ahead(
    search: Joint, state: JointState, scores: JointScores
) -> Generator[Request, Partial, tuple[JointState, JointScores]]:
    """Yield requests; return the updated state and scores.

    If a tuple should be chosen, ``scores.ahead`` names its next feature.
    """
    problem = search.problem
    if search.order == 1 or len(state.chosen) < len(problem.included):
        return state, scores
    if state.planned:
        return state, replace(scores, ahead=Ahead(state.planned[0], state.planned[1:], False))
    if state.waiting is None:
        state = replace(state, waiting=(yield from _find(problem, search.order)))
    free = problem.candidates.copy()
    free[list(state.chosen)] = False
    waiting = tuple(each for each in state.waiting or () if free[list(each.features)].all())
    state = replace(state, waiting=waiting)
    single = int(np.argmax(np.where(free, scores.score, -np.inf)))
    if _may_have_third(search, state, scores, single, int(free.sum())):
        state, found = yield from _find_thirds(problem, state, free)
        if found:
            state, scores = yield from search.score_single(state)
            single = int(np.argmax(np.where(free, scores.score, -np.inf)))
    ready = [each for each in waiting if each.n_tries < MOST_TRIES]
    if not ready:
        return state, scores
    best = max(ready, key=lambda each: each.worth / len(each.features))
    order = len(best.features)
    least = max(float(scores.net_gain[single]), search.least_gain)
    if best.worth / order <= least:
        return state, scores
    members, coarse, gain, penalty = yield from _simulate(search, state, scores, best)
    n_tuples = math.comb(int(free.sum()), order)
    evidence = float(problem.n_effective[list(members)].min()) * gain
    tried = replace(best, worth=gain, n_tries=best.n_tries + 1)
    state = replace(state, waiting=tuple(tried if each is best else each for each in waiting))
    if gain / order > least and evidence >= math.log(n_tuples / FALSE_SHARE):
        ahead = Ahead(
            feature=members[0],
            rest=members[1:],
            is_first=True,
            gain=(gain - penalty) / order,
            p_value=best.p_value,
            p_adjusted=min(best.p_value * n_tuples, 1.0),
        )
        return replace(state, coarse=(*state.coarse, coarse)), replace(scores, ahead=ahead)
    return state, scores


def start_again(waiting: tuple[Waiting, ...] | None) -> tuple[Waiting, ...] | None:
    """Return the tuples as they are at the start of an epoch: none has been tried.

    A tuple that adds nothing to the picks of one epoch, because it repeats what they say, may be
    the best of the next one.
    """
    if waiting is None:
        return None
    return tuple(replace(each, worth=each.information, n_tries=0) for each in waiting)


def _may_have_third(
    search: Joint, state: JointState, scores: JointScores, single: int, n_free: int
) -> bool:
    """Return whether to look for a feature that needs two of the picks as parents.

    This is done if the best single candidate is not clearly significant, and there are picks that
    have not been tried.
    """
    if state.n_thirds >= WAITING or len(state.rows) < 2 or state.paired >= len(state.rows):
        return False
    gain = float(scores.net_gain[single])
    evidence = gain * float(search.problem.n_effective[single])
    return gain < search.least_gain or evidence < math.log(n_free / ALPHA)


def _find_thirds(
    problem: Problem, state: JointState, free: np.ndarray
) -> Generator[Request, Partial, tuple[JointState, bool]]:
    """Look for features with synergy with two picks; return the state, and whether any was found.

    All pairs of picks of the epoch are tried that were not tried before. The state has the counts
    for the coarse rows of the features that were found.
    """
    picks, m, n_classes = np.array(state.picks), problem.n_features, problem.n_classes
    share = min(SCREENED / problem.n_samples, 1.0)
    table = yield from group_codes(problem, 3, share=share, most_codes=CODES)
    pairs = [(i, j) for j in range(state.paired, len(picks)) for i in range(j)]
    heads = np.array(pairs, dtype=np.int64)
    step = heads_of_panel(min(problem.tile_width, m), n_classes, table.n_groups, 3)
    best: dict[int, tuple[float, tuple[int, int]]] = {}
    n_tuples = math.comb(len(picks), 2) * int(free.sum())
    for start in range(0, len(heads), step):
        context = TupleContext(
            order=3,
            below=table.below,
            top=LISTED,
            least=0.0,
            evidence=problem.evidence,
            heads=heads[start : start + step],
            columns=np.arange(-len(picks), 0),  # before every feature, so that all follow
            column_groups=table.groups[picks],
            column_counts=table.counts[picks],
            position=np.arange(m),
            usable=free,
            groups=table.groups,
            counts=table.counts,
        )
        total = yield Request(TUPLES, context, state.picks, share=share)
        synergy, _, _, df, correction = total["terms"].T
        columns = np.column_stack([picks[total["tuples"][:, :2]], total["tuples"][:, 2]])
        sizes = share * problem.n_effective[columns].min(axis=1)
        found = p_values(synergy, sizes, df, correction)
        for (first, second, feature), p_value in zip(columns.tolist(), found.tolist(), strict=True):
            if p_value * n_tuples <= ALPHA and p_value < best.get(feature, (1.0,))[0]:
                best[feature] = p_value, (first, second)
    state = replace(state, paired=len(picks))
    if not best:
        return state, False
    chosen = sorted(best, key=lambda feature: (best[feature][0], feature))[:WAITING]
    n_parents = math.comb(len(picks), 2)
    families = [(i, best[i][1], min(best[i][0] * n_parents, 1.0)) for i in chosen]
    counts = yield from count_parents(problem, families)
    return replace(state, coarse=(*state.coarse, *counts), n_thirds=state.n_thirds + 1), True


def third_bound(sizes: Sizes, n_scores: int) -> Counter[str]:
    """Return the maximum number of reductions of `_find_thirds`, by name.

    Parameters
    ----------
    sizes
        The sizes of the data.
    n_scores
        Number of reductions to score the candidates.
    """
    n_rounds, tile = max(sizes.n_picks - 1, 0), min(sizes.tile_width, sizes.n_features)
    n_groups = min(CODES, sizes.n_codes, codes_of_order(SCREENED, sizes.n_classes, 3))
    step = heads_of_panel(tile, sizes.n_classes, n_groups, 3)
    n_found = min(n_rounds, WAITING)
    return Counter(
        {
            TUPLES.name: n_rounds + math.comb(sizes.n_picks, 2) // step,
            GROUP_COUNTS.name: n_rounds if sizes.n_samples > SCREENED else 0,
            PARENT_COUNTS.name: n_found,
            POSTERIOR_GAINS.name: n_found * n_scores,
        }
    )


def _find(problem: Problem, order: int) -> Generator[Request, Partial, tuple[Waiting, ...]]:
    """Yield requests; return tuples with significant synergy, without a feature in two of them."""
    own = replace(problem, excluded=(*problem.excluded, *problem.included))
    waiting: list[Waiting] = []
    taken: set[int] = set()
    for each in range(2, order + 1):
        if int(own.candidates.sum()) < each:
            continue
        share = min(SCREENED / problem.n_samples, 1.0)
        found = yield from find_interactions(own, each, LISTED, share=share, most_codes=CODES)
        for t, p_value in enumerate(_p_values(problem, found, share)):
            features = tuple(found.columns[t].tolist())
            if p_value * found.n_tuples <= ALPHA and not taken & set(features):
                worth = float(found.information[t])
                waiting.append(Waiting(features, worth, worth, float(p_value), 0))
                taken |= set(features)
    waiting.sort(key=lambda each: -each.worth / len(each.features))
    return tuple(waiting[:WAITING])


def _p_values(problem: Problem, found: Tuples, share: float) -> np.ndarray:
    """Return the p-values of tuples, for the smallest effective size of their features."""
    if problem.design_effect is None or not len(found.columns):
        return found.p_value
    sizes = share * problem.n_effective[found.columns].min(axis=1)
    return p_values(found.synergy, sizes, found.df, np.ones(len(sizes)))


def _simulate(
    search: Joint, state: JointState, scores: JointScores, tried: Waiting
) -> Generator[Request, Partial, tuple[tuple[int, ...], CoarseCounts, float, float]]:
    """Yield requests; return features sorted by gain, counts, total gain and total penalty.

    The counts are those for a coarse row of the last feature given the others. The features are
    added to the state one after the other, as in the rounds of a search.
    """
    members = tuple(sorted(tried.features, key=lambda i: (-float(scores.net_gain[i]), i)))
    affinity = state.affinity[:, [members[0]]]
    subset = int(join(affinity, state.subsets, search.options.threshold)[0])
    family = (members[-1], members[:-1], tried.p_value)
    (coarse,) = yield from count_parents(search.problem, [family])
    state = replace(state, coarse=(*state.coarse, coarse))
    gain = penalty = 0.0
    for place, feature in enumerate(members):
        if place:
            state, scores = yield from search.score_single(state)
        gain += float(scores.net_gain[feature])
        penalty += float(search.pick_penalty(state)[feature])
        state = search.add(state, scores, feature, subset)
    return members, coarse, gain, penalty
