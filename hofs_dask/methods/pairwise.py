"""The base class of the pairwise criteria, their search, and matrices of all pairs of features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from hofs_dask.engine.counts import PAIR_TERMS, PairTermsContext
from hofs_dask.engine.reduction import Partial, Request, placeholder
from hofs_dask.methods.affinity import correlation_of
from hofs_dask.methods.base import (
    LEARNED,
    Method,
    ReductionBound,
    Scores,
    Search,
    Sizes,
    State,
    append_row,
)
from hofs_dask.methods.fields import Floats, checked
from hofs_dask.methods.problem import Problem
from hofs_dask.methods.significance import conditional_p_values, marginal_p_values

#: Approximate bytes of the counts of one scan, if all pairs of features are counted. This limits
#: the number of columns (a panel) that are counted with every feature in one scan.
PANEL_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Pairs:
    """The information of every feature x_i and one chosen feature x_j, in nats; y is the label.

    The values of features that cannot be chosen are ignored.

    To add a value that follows from the counts of single features, add it to `Problem`, to this
    class, and to `Pairwise`, which creates this object. A value that needs counts of pairs also has
    to be added to `PAIR_TERMS` and `PairwiseState`.
    """

    relevance: np.ndarray  # (feature,) I(x_i : y)
    entropy: np.ndarray  # (feature,) H(x_i)
    chosen_relevance: float  # I(x_j : y)
    chosen_entropy: float  # H(x_j)
    redundancy: np.ndarray  # (feature,) I(x_i : x_j)
    conditional: np.ndarray  # (feature,) I(x_i : y | x_j)
    joint_entropy: np.ndarray  # (feature,) H(x_i, x_j, y)

    @property
    def joint(self) -> np.ndarray:
        """I(x_i, x_j : y), (feature,)."""
        return self.chosen_relevance + self.conditional

    @property
    def redundancy_given_label(self) -> np.ndarray:
        """I(x_i : x_j | y), (feature,)."""
        return self.redundancy + self.conditional - self.relevance


@dataclass(frozen=True)
class PairwiseMethod(Method):
    """Base class of the criteria that score pairs of a candidate and a chosen feature.

    The first pick is the most relevant feature. The gain of a later pick x_i is
    ``min_j I(x_i : y | x_j)``, the minimum over the earlier picks x_j. The information is the sum
    of the gains, at most H(y). Gains and information follow from the pair terms and need no
    additional scan.
    """

    #: How the terms of a feature and each chosen feature are combined: their sum or their minimum.
    combine: ClassVar[np.ufunc] = np.add

    @abstractmethod
    def term(self, pairs: Pairs) -> np.ndarray:
        """Return the term of every feature x_i with the chosen feature x_j, an array (feature,).

        Each term is computed once, so that the time of a round does not depend on the number of
        chosen features.
        """

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:  # noqa: ARG002
        """Return the scores of all features, (feature,). Called in every round after the first.

        Parameters
        ----------
        relevance
            I(x_i : y) of every feature.
        total
            The terms (see `term`) of all chosen features, added up, or their minimum if `combine`
            is `numpy.minimum`.
        n_chosen
            Number of chosen features.
        """
        return total

    @property
    def has_test(self) -> bool:
        """Whether the search can test features for significance."""
        return True

    @property
    def tests_given_picks(self) -> bool:
        """Whether a significant feature must add information to every pick, one at a time."""
        return True

    @property
    def all_pairs(self) -> bool:
        """Whether the method needs the terms of all pairs of features before the first pick."""
        return False

    @property
    def state_type(self) -> type[PairwiseState]:
        """The type of the state that the search keeps between rounds."""
        return PairwiseState

    def search(self, problem: Problem) -> Pairwise:
        """Return the object that computes the scores of this method for an encoded data set."""
        return Pairwise(problem, self)

    def largest_requests(self, sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests of a search that need the most memory; their arrays hold zeros."""
        width = _panel_width(sizes) if self.all_pairs else 1
        context = PairTermsContext(
            n_classes=sizes.n_classes,
            parents=placeholder(width, sizes.n_codes),
            after=placeholder(width),
            numbers=placeholder(sizes.n_features, sizes.n_codes),
            position=placeholder(sizes.n_features),
            marginals=placeholder(sizes.n_features, sizes.n_classes, sizes.n_codes),
        )
        return (Request(PAIR_TERMS, context, tuple(range(width))),)

    def bound_reductions(self, sizes: Sizes) -> ReductionBound:
        """Return the maximum number of reductions of a search, besides the marginal counts.

        ``sizes.n_picks`` is the number of picks, not counting the last. Each of them needs one
        reduction. If all pairs are needed, there is also one reduction per range of features whose
        pairs with all features are counted together.

        Examples
        --------
        >>> from hofs_dask import JMI
        >>> JMI().bound_reductions(Sizes(10**6, 400, 2, 5, n_picks=9)).by_name
        {'pair-terms': 9}
        """
        n_reductions = sizes.n_picks
        if self.all_pairs:
            n_reductions += -(-sizes.n_features // _panel_width(sizes))
        return ReductionBound({PAIR_TERMS.name: n_reductions}, n_reductions)


@dataclass(frozen=True, kw_only=True)
class PairwiseState(State):
    """The state of a pairwise method after some rounds."""

    conditional: np.ndarray = checked(LEARNED)  # (rank, feature) I(x_i : y | x_j)
    joint_entropy: np.ndarray = checked(LEARNED)  # (rank, feature) H(x_i, x_j, y)
    # (feature,) entries of the dominant eigenvector; empty if the method does not need all pairs
    centrality: np.ndarray = checked(Floats(("feature",), or_empty=True))


@dataclass(frozen=True)
class _Combined:
    """The terms and the conditional relevance of every feature, combined over chosen features."""

    chosen: tuple[int, ...]
    terms: np.ndarray  # (feature,)
    gain: np.ndarray  # (feature,) min_j I(x_i : y | x_j)


@dataclass(frozen=True)
class Pairwise(Search[PairwiseState, Scores]):
    """The search of all pairwise methods, with one scan per round."""

    problem: Problem
    method: PairwiseMethod
    # what the last round has combined, so that the next one only adds a term; a memo, not a state
    memo: list[_Combined] = field(default_factory=list, compare=False, repr=False)

    def start(self) -> PairwiseState:
        """Return the state before the first round."""
        none = np.zeros((0, self.problem.n_features))
        return PairwiseState(
            chosen=(),
            subsets=(),
            affinity=none,
            redundancy=none,
            conditional=none,
            joint_entropy=none,
            centrality=np.zeros(0),
            information=0.0,
            epoch=0,
        )

    def score(
        self, state: PairwiseState
    ) -> Generator[Request, Partial, tuple[PairwiseState, Scores]]:
        """Yield the requests of a round; return the updated state and the scores of features."""
        if self.method.all_pairs and not len(state.centrality):
            matrix = (yield from learn_all(self.problem)).spectral
            # the matrix contains only the features that can be chosen
            (among,) = np.nonzero(self.problem.candidates)
            centrality = np.zeros(len(matrix))
            centrality[among] = dominant_vector(matrix[np.ix_(among, among)])
            state = replace(state, centrality=centrality)
        if len(state.affinity) < len(state.chosen):
            state = yield from self.update(state)
        score = self.score_of(state)
        relevance = self.problem.relevance
        gain = self._combined(state).gain if state.chosen else relevance
        information = np.minimum(state.information + gain, self.problem.label_entropy)
        return state, Scores(score, information, gain)

    def update(self, state: PairwiseState) -> Generator[Request, Partial, PairwiseState]:
        """Yield the requests for the terms of the last pick; return the state with them."""
        terms = yield from learn(self.problem, state.chosen[-1])
        return replace(
            state,
            affinity=append_row(state.affinity, terms.correlation),
            redundancy=append_row(state.redundancy, terms.redundancy),
            conditional=append_row(state.conditional, terms.conditional),
            joint_entropy=append_row(state.joint_entropy, terms.joint_entropy),
        )

    def score_of(self, state: PairwiseState) -> np.ndarray:
        """Return the score of every feature."""
        relevance = self.problem.relevance
        if self.method.all_pairs:
            return state.centrality
        if not state.chosen:
            return relevance
        total = self._combined(state).terms
        return self.method.score(relevance, total, len(state.chosen))

    def _combined(self, state: PairwiseState) -> _Combined:
        """Return the terms and gains of all chosen features, combined in their order."""
        last = self.memo[0] if self.memo else None
        if last is not None and last.chosen != state.chosen[: len(last.chosen)]:
            last = None
        problem, combine = self.problem, self.method.combine
        for j in range(0 if last is None else len(last.chosen), len(state.chosen)):
            conditional = terms = state.conditional[j]
            if not self.method.all_pairs:
                pairs = Pairs(
                    relevance=problem.relevance,
                    entropy=problem.bounded_entropy,
                    chosen_relevance=float(problem.relevance[state.chosen[j]]),
                    chosen_entropy=float(problem.bounded_entropy[state.chosen[j]]),
                    redundancy=state.redundancy[j],
                    conditional=conditional,
                    joint_entropy=state.joint_entropy[j],
                )
                terms = self.method.term(pairs)
            if last is not None:
                conditional = np.minimum(last.gain, conditional)
                terms = combine(last.terms, terms)
            last = _Combined(state.chosen[: j + 1], terms, conditional)
        assert last is not None  # called after the first pick
        self.memo[:] = [last]
        return last

    def p_values(
        self,
        state: PairwiseState,
        scores: Scores,  # noqa: ARG002
    ) -> Generator[Request, Partial, np.ndarray]:
        """Return the p-value of every feature, (feature,); no scan is needed.

        The null hypothesis is that the feature adds no information about the label to at least one
        of the picks or, if `tests_given_picks` is false, has no information about the label.
        """
        yield from ()
        if state.chosen and self.method.tests_given_picks:
            return conditional_p_values(self.problem, state.conditional, list(state.chosen))
        return marginal_p_values(self.problem)

    def add(self, state: PairwiseState, scores: Scores, pick: int, subset: int) -> PairwiseState:
        """Return the state after a feature has been chosen."""
        return replace(
            state,
            chosen=(*state.chosen, pick),
            subsets=(*state.subsets, subset),
            information=float(scores.information[pick]),
        )


@dataclass(frozen=True)
class PairTerms:
    """The terms of every feature x_i with one chosen feature x_f, as arrays (feature,)."""

    redundancy: np.ndarray  # I(x_i : x_f)
    conditional: np.ndarray  # I(x_i : y | x_f)
    joint_entropy: np.ndarray  # H(x_i, x_f, y)
    correlation: np.ndarray  # signed Pearson correlation of x_i and x_f


def learn(problem: Problem, pick: int) -> Generator[Request, Partial, PairTerms]:
    """Yield the request for the pair terms of a pick with every feature; return the terms."""
    context = _context(problem, np.array([pick]), np.zeros(1, np.intp))
    terms = (yield Request(PAIR_TERMS, context, (pick,), key=("pair-terms", pick)))["terms"][:, 0]
    return PairTerms(
        redundancy=terms[:, 0],
        conditional=terms[:, 1],
        joint_entropy=terms[:, 2],
        correlation=correlation_of(problem, terms[:, 3:].sum(axis=1), pick),
    )


@dataclass(frozen=True)
class PairMatrices:
    """The terms of all pairs of features, as matrices (feature, feature) in nats."""

    redundancy: np.ndarray  # I(x_i : x_j), with H(x_i) on the diagonal
    conditional: np.ndarray  # I(x_i : y | x_j), with 0 on the diagonal
    joint: np.ndarray  # I(x_i, x_j : y), with I(x_i : y) on the diagonal

    @property
    def spectral(self) -> np.ndarray:
        """The matrix of SPEC_CMI, with the relevance on the diagonal.

        The entry of i and j is the mean of ``I(x_i : y | x_j)`` and ``I(x_j : y | x_i)``.
        """
        result: np.ndarray = (self.conditional + self.conditional.T) / 2
        np.fill_diagonal(result, self.joint.diagonal())
        return result


def learn_all(problem: Problem) -> Generator[Request, Partial, PairMatrices]:
    """Yield requests for the terms of all pairs, one panel of columns each; return the matrices."""
    m, relevance = problem.n_features, problem.relevance
    redundancy, conditional = np.zeros((m, m)), np.zeros((m, m))
    width = _panel_width(Sizes(problem.n_samples, m, problem.n_classes, problem.table_width, 0))
    for start in range(0, m, width):
        panel = np.arange(start, min(start + width, m))
        # the redundancy of a column with itself is its entropy
        context = _context(problem, panel, panel)
        terms = (yield Request(PAIR_TERMS, context, tuple(panel.tolist())))["terms"]
        redundancy[start:, panel] = terms[start:, :, 0]
        conditional[start:, panel] = terms[start:, :, 1]
    lower = np.tril_indices(m, -1)
    redundancy.T[lower] = redundancy[lower]
    # the chain rule for i and j: I(x_i, x_j : y) = I(x_j : y) + I(x_i : y | x_j)
    joint = conditional + relevance
    joint.T[lower] = joint[lower]
    np.fill_diagonal(joint, relevance)
    conditional.T[lower] = np.maximum(joint - relevance[:, None], 0.0)[lower]
    np.fill_diagonal(conditional, 0.0)
    return PairMatrices(redundancy, conditional, joint)


def dominant_vector(matrix: np.ndarray) -> np.ndarray:
    """Return the unit eigenvector of the largest eigenvalue of a symmetric nonnegative matrix.

    Examples
    --------
    >>> dominant_vector(np.array([[2.0, 1.0], [1.0, 2.0]])).round(4)
    array([0.7071, 0.7071])
    """
    from scipy.linalg import eigh

    last = len(matrix) - 1
    # all entries have the same sign, which is arbitrary
    vector: np.ndarray = np.abs(eigh(matrix, subset_by_index=[last, last])[1][:, 0])
    return vector


def _context(problem: Problem, parents: np.ndarray, after: np.ndarray) -> PairTermsContext:
    return PairTermsContext(
        n_classes=problem.n_classes,
        parents=problem.filled[parents],
        after=after,
        numbers=problem.filled,
        position=np.arange(problem.n_features),
        marginals=problem.marginals,
    )


def _panel_width(sizes: Sizes) -> int:
    column = 8 * sizes.n_features * sizes.n_classes * sizes.n_codes**2
    return min(max(1, PANEL_BYTES // column), sizes.n_features)
