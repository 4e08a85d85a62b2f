"""The criteria of higher order, which score triples: a candidate and two chosen features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, cast

import numpy as np

from hofs_dask.engine.counts import TRIPLE_TERMS, TripleTermsContext
from hofs_dask.engine.reduction import Partial, Request, placeholder
from hofs_dask.kernels.entropy import information
from hofs_dask.methods.base import LEAST_DIFFERENCE, ReductionBound, Sizes
from hofs_dask.methods.fields import Floats, Wholes, checked
from hofs_dask.methods.interactions import codes_of_order, merged_codes
from hofs_dask.methods.pairwise import Pairs, Pairwise, PairwiseMethod, PairwiseState
from hofs_dask.methods.problem import Problem

#: Maximum number of codes of a feature in a triple.
MOST_CODES = 8
#: Approximate bytes of the counts of one scan.
PANEL_BYTES = 32 * 2**20
#: Check of an array of floats (pick, feature); infinity marks a value that is not known yet.
OF_PICKS = Floats(("learned", "feature"), hole=np.inf)


@dataclass(frozen=True)
class Triples:
    """The terms of every feature x_i with a pair of chosen features x_j and x_k, in nats.

    They are computed from merged codes. Arrays have the axis (feature,).
    """

    relevance: np.ndarray  # I(x_i : y)
    joint: np.ndarray  # I(x_i, x_j, x_k : y)
    given_both: np.ndarray  # I(x_i : y | x_j, x_k)
    given_first: np.ndarray  # I(x_i : y | x_j)
    given_second: np.ndarray  # I(x_i : y | x_k)
    with_both: np.ndarray  # I(x_i : x_j, x_k)
    with_first: np.ndarray  # I(x_i : x_j)
    with_second: np.ndarray  # I(x_i : x_k)
    first_given_second: np.ndarray  # I(x_j : y | x_k), the same for all features
    second_given_first: np.ndarray  # I(x_k : y | x_j), the same for all features


@dataclass(frozen=True, kw_only=True)
class TripleState(PairwiseState):
    """The state of a criterion of higher order after some rounds.

    Its size grows with the number of picks, not with the number of their pairs. Each pick x_j has
    partners: the other picks. The value of a partner is `TripleMethod.value`.
    """

    # (feature,) the sum of `TripleMethod.summand` over all pairs of picks
    total: np.ndarray = checked(Floats(("feature",)))
    given: np.ndarray = checked(OF_PICKS)  # I(x_i : y | x_j), from merged codes
    # the lowest and the second lowest value of a partner of each pick
    lowest: np.ndarray = checked(OF_PICKS)
    second: np.ndarray = checked(OF_PICKS)
    # the rank of the partner with the lowest value, or -1
    partner: np.ndarray = checked(Wholes(("learned", "feature"), -1, below="pick"))


@dataclass(frozen=True)
class TripleMethod(PairwiseMethod):
    """Base class of the criteria that score a candidate with pairs of chosen features.

    The first pick is the most relevant feature, and the score of the second pick is
    ``I(x_i : y | x_j)``, given the first. From the third pick on, the terms of a score are computed
    from the counts of triples. There, every feature has at most `MOST_CODES` codes, and at most so
    many that a combination of three codes and a class has ten samples on average. If it has more,
    they are merged as in `hofs_dask.interactions`. Gains and p-values are those of a pairwise
    criterion.
    """

    @abstractmethod
    def score_triples(self, state: TripleState, relevance: np.ndarray) -> np.ndarray:
        """Return the scores of all features, given at least two picks.

        ``relevance`` (feature,) is I(x_i : y), from merged codes.
        """

    def summand(self, triples: Triples) -> np.ndarray:
        """Return what a pair of picks adds to `TripleState.total`, as an array (feature,)."""
        return np.zeros(len(triples.joint))

    def value(self, triples: Triples, *, of_first: bool) -> np.ndarray:  # noqa: ARG002
        """Return the value of one pick of a pair as the partner of the other one, (feature,).

        With ``of_first``, the second pick is the partner of the first.
        """
        return triples.given_both

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return the scores from which the second pick is chosen."""
        return pairs.conditional

    @property
    def state_type(self) -> type[TripleState]:
        """The type of the state that the search keeps between rounds."""
        return TripleState

    def search(self, problem: Problem) -> TripleSearch:
        """Return the object that computes the scores of this method for an encoded data set."""
        return TripleSearch(problem, self)

    def largest_requests(self, sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests of a search that need the most memory; their arrays hold zeros."""
        n_heads = min(_n_heads(sizes), max(sizes.n_picks - 1, 1))
        n_columns = n_heads + 1
        context = TripleTermsContext(
            n_classes=sizes.n_classes,
            n_groups=_most_codes(sizes.n_samples, sizes),
            heads=placeholder(n_heads, 2),
            column_groups=placeholder(n_columns, sizes.n_codes),
            groups=placeholder(sizes.n_features, sizes.n_codes),
        )
        largest = super().largest_requests(sizes)
        return (*largest, Request(TRIPLE_TERMS, context, tuple(range(n_columns))))

    def bound_reductions(self, sizes: Sizes) -> ReductionBound:
        """Return the maximum number of reductions of a search, besides the marginal counts.

        ``sizes.n_picks`` is the number of picks, not counting the last. Each of them needs one
        reduction for its pairs with all features. Each pick except the first also needs one
        reduction for the triples of this pick, an earlier pick and any feature, or several
        reductions if there are too many earlier picks for one.

        Examples
        --------
        >>> from hofs_dask import JMI3
        >>> JMI3().bound_reductions(Sizes(10**6, 400, 2, 5, n_picks=9)).by_name
        {'pair-terms': 9, 'triple-terms': 8}
        """
        n_heads = _n_heads(sizes)
        n_triples = sum(-(-n_earlier // n_heads) for n_earlier in range(sizes.n_picks))
        by_name = {**super().bound_reductions(sizes).by_name, TRIPLE_TERMS.name: n_triples}
        return ReductionBound(by_name, sum(by_name.values()))


def _most_codes(n_samples: float, sizes: Sizes) -> int:
    """Return the maximum number of codes of a feature in a triple."""
    own = codes_of_order(n_samples, sizes.n_classes, 3)
    return min(own, MOST_CODES, max(sizes.n_codes, 2))


def _n_heads(sizes: Sizes) -> int:
    """Return how many pairs of picks one scan counts with all features."""
    width = min(sizes.tile_width, sizes.n_features)
    n_cells = _most_codes(sizes.n_samples, sizes) ** 3 * sizes.n_classes
    return max(PANEL_BYTES // (8 * width * n_cells), 1)


@dataclass(frozen=True)
class TripleSearch(Pairwise):
    """The search of the criteria of higher order."""

    method: TripleMethod

    @cached_property
    def groups(self) -> np.ndarray:
        """The group that each code is merged into, uint8 (feature, code)."""
        problem = self.problem
        most = codes_of_order(problem.effective_size, problem.n_classes, 3)
        return merged_codes(problem, min(most, MOST_CODES))

    @cached_property
    def relevance(self) -> np.ndarray:
        """I(x_i : y) of every feature from merged codes, (feature,)."""
        counts = np.zeros((*self.problem.marginals.shape[:2], int(self.groups.max()) + 1), np.int64)
        for i, group in enumerate(self.groups):
            np.add.at(counts[i].T, group, self.problem.marginals[i].T)
        return information(counts)

    def start(self) -> TripleState:
        """Return the state before the first round."""
        none = np.zeros((0, self.problem.n_features))
        return TripleState(
            chosen=(),
            subsets=(),
            affinity=none,
            redundancy=none,
            conditional=none,
            joint_entropy=none,
            centrality=np.zeros(0),
            information=0.0,
            epoch=0,
            total=np.zeros(self.problem.n_features),
            given=none,
            lowest=none,
            second=none,
            partner=none.astype(int),
        )

    def update(self, state: PairwiseState) -> Generator[Request, Partial, TripleState]:
        """Yield the requests for the terms of the last pick; return the state with them."""
        learned = cast("TripleState", (yield from super().update(state)))
        return (yield from self._learn_triples(learned))

    def score_of(self, state: PairwiseState) -> np.ndarray:
        """Return the score of every feature."""
        if len(state.chosen) < 2:
            return super().score_of(state)
        return self.method.score_triples(cast("TripleState", state), self.relevance)

    def _learn_triples(self, state: TripleState) -> Generator[Request, Partial, TripleState]:
        """Count the last pick and each earlier one with every feature; return the updated state."""
        problem, picks = self.problem, state.chosen
        last = len(picks) - 1
        unknown = np.full((1, problem.n_features), np.inf)
        total = state.total.copy()
        given, lowest, second = (
            np.concatenate([rows, unknown]) for rows in (state.given, state.lowest, state.second)
        )
        partner = np.concatenate([state.partner, np.full(unknown.shape, -1)])
        n_groups = int(self.groups.max(initial=1)) + 1
        sizes = Sizes(
            problem.n_samples,
            problem.n_features,
            problem.n_classes,
            problem.table_width,
            n_picks=last,
            tile_width=problem.tile_width,
        )
        step = _n_heads(sizes)
        for start in range(0, last, step):
            earlier = range(start, min(start + step, last))
            columns = (*picks[earlier.start : earlier.stop], picks[last])
            context = TripleTermsContext(
                n_classes=problem.n_classes,
                n_groups=n_groups,
                heads=np.array([(place, len(earlier)) for place in range(len(earlier))]),
                column_groups=self.groups[list(columns)],
                groups=self.groups,
            )
            found = yield Request(TRIPLE_TERMS, context, columns)
            for place, first in enumerate(earlier):
                triples = Triples(self.relevance, *found["terms"][:, place].T)
                total += self.method.summand(triples)
                given[first], given[last] = triples.given_first, triples.given_second
                for own, other in ((first, last), (last, first)):
                    value = self.method.value(triples, of_first=own == first)
                    better = value < lowest[own] - LEAST_DIFFERENCE
                    second[own] = np.where(better, lowest[own], np.minimum(second[own], value))
                    lowest[own] = np.where(better, value, lowest[own])
                    partner[own] = np.where(better, other, partner[own])
        return replace(
            state, total=total, given=given, lowest=lowest, second=second, partner=partner
        )


@dataclass(frozen=True)
class JMI3(TripleMethod):
    """Method: joint mutual information of triples, JMI-3 (Sechidis et al. 2019).

    Notes
    -----
    Score ``sum_{j<k} I(x_i, x_j, x_k : y)``. The second pick maximises ``I(x_i, x_j : y)``. In the
    paper (https://doi.org/10.1007/s10994-019-05795-1), informations are shrinkage estimates. Here
    they are plug-in estimates from merged codes.

    Examples
    --------
    >>> JMI3().label
    'jmi3'
    """

    name: ClassVar[str] = "jmi3"

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return the scores from which the second pick is chosen."""
        return pairs.joint

    def summand(self, triples: Triples) -> np.ndarray:
        """Return what a pair of picks adds to `TripleState.total`, as an array (feature,)."""
        return triples.joint

    def score_triples(self, state: TripleState, relevance: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return the scores of all features, given at least two picks."""
        return state.total


@dataclass(frozen=True)
class RelaxMRMR(TripleMethod):
    """Method: mRMR with relaxed assumptions (Vinh, Zhou, Chan & Bailey 2016).

    Notes
    -----
    Score ``I(x_i : y) - mean_j I(x_i : x_j) + mean_j I(x_i : x_j | y) - mean_{j!=k} I(x_i : x_k |
    x_j)``. The last mean is over ordered pairs of chosen features, see
    https://doi.org/10.1016/j.patcog.2015.11.007. With one chosen feature, it is left out, and the
    score is ``I(x_i : y | x_j)``.

    Examples
    --------
    >>> RelaxMRMR().label
    'relax_mrmr'
    """

    name: ClassVar[str] = "relax_mrmr"

    def summand(self, triples: Triples) -> np.ndarray:
        """Return what a pair of picks adds to `TripleState.total`, as an array (feature,)."""
        given = triples.given_first + triples.given_second
        redundancy = triples.with_first + triples.with_second
        # I(x_i : x_j | y) - I(x_i : x_j) is equal to I(x_i : y | x_j) - I(x_i : y)
        change = given - 2 * triples.relevance
        return change - (2 * triples.with_both - redundancy)

    def score_triples(self, state: TripleState, relevance: np.ndarray) -> np.ndarray:
        """Return the scores of all features, given at least two picks."""
        n_picks = len(state.chosen)
        # every pick is in n_picks - 1 pairs
        return relevance + state.total / (n_picks * (n_picks - 1))


@dataclass(frozen=True)
class HOCMIM(TripleMethod):
    """Method: high-order conditional mutual information maximisation (Souza et al. 2022).

    Notes
    -----
    Score ``I(x_i : y) - R(x_i, z_1) - R(x_i, z_2 | z_1) - R(x_i, z_3 | z_2)``, where the z are
    chosen features. R is the redundancy of x_i and z, ``I(x_i : z) - I(x_i : z | y)``, given the
    previous z. They are chosen one after the other, and each maximises its own term. With two
    chosen features, the last term is left out.

    The paper (https://arxiv.org/abs/2207.08476) expands ``I(x_i : y | all x_j)`` by the chain rule,
    up to a number of terms, of which the z maximise the sum. Here this number is 3. By its Markov
    approximation, a term depends on the previous z only, so that counts of triples are sufficient.
    In contrast to the authors' program, terms are not left out if they change the score by less
    than 5 %.

    Examples
    --------
    >>> HOCMIM().label
    'hocmim'
    """

    name: ClassVar[str] = "hocmim"

    def score_triples(self, state: TripleState, relevance: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return the scores of all features, given at least two picks."""
        every = np.arange(state.given.shape[1])
        # R(x_i, z | w) is equal to I(x_i : y | w) - I(x_i : y | w, z)
        first = (state.given < state.given.min(axis=0) + LEAST_DIFFERENCE).argmax(axis=0)
        score: np.ndarray = state.lowest[first, every]
        if len(state.chosen) > 2:
            then = state.partner[first, every]
            taken = state.partner[then, every] == first
            last = np.where(taken, state.second[then, every], state.lowest[then, every])
            score = score + last - state.given[then, every]
        return score


@dataclass(frozen=True)
class CMICOT(TripleMethod):
    """Method: conditional mutual information with complementary teams (Shishkin et al. 2016).

    Notes
    -----
    Score ``max_h min_g I(x_i, x_h : y | x_g)``, where h and g are chosen features, possibly the
    same one. In the paper (Advances in Neural Information Processing Systems 29), h and g are teams
    of several chosen features, assembled greedily, and each feature is represented by binary
    features. Here a team is one feature, whose codes are merged but not split into binary
    features, and all pairs of teams are compared.

    Examples
    --------
    >>> CMICOT().label
    'cmicot'
    """

    name: ClassVar[str] = "cmicot"

    def value(self, triples: Triples, *, of_first: bool) -> np.ndarray:
        """Return ``I(x_i, x_h : y | x_g)``, an array (feature,).

        h is the first pick of the pair and g the second, or the reverse if not ``of_first``.
        """
        own = triples.first_given_second if of_first else triples.second_given_first
        return own + triples.given_both

    def score_triples(self, state: TripleState, relevance: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return the scores of all features, given at least two picks."""
        # if g is h, the information is I(x_i : y | x_h)
        result: np.ndarray = np.minimum(state.given, state.lowest).max(axis=0)
        return result
