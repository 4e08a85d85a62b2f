"""Methods that look at pairs: every criterion is a class with its score, one line on pair terms.

To add a criterion, add a class: a name, a docstring with the formula, and `score`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from hofs_dask.engine.counts import PAIR_TERMS, PairTermsContext
from hofs_dask.engine.reduction import Partial, Request, placeholder
from hofs_dask.methods.affinity import correlation_of
from hofs_dask.methods.base import LEARNED, Method, ReductionBound, Scores, Search, Sizes, State
from hofs_dask.methods.fields import Floats, checked
from hofs_dask.methods.problem import Problem

MRMRForm = Literal["difference", "quotient"]
SpecCMIForm = Literal["greedy", "spectral"]

#: Bytes of counts of one scan over all pairs, about: so many columns are counted at a time.
PANEL_BYTES = 32 * 2**20
#: The least mean redundancy that `mrmr` divides by, in nats.
LEAST_REDUNDANCY = 1e-12


@dataclass(frozen=True)
class Pairs:
    """What a criterion scores: every feature i, the chosen features j, the label y. In nats.

    A score of a feature that cannot be chosen is ignored. A term that is not here: if it follows
    from the counts of single features, add it to `Problem` and here, where `Pairwise.score` makes
    this record; if it needs counts of pairs, add it to `PAIR_TERMS` and `PairwiseState` too.
    """

    relevance: np.ndarray  # (feature,) I(x_i : y)
    entropy: np.ndarray  # (feature,) H(x_i)
    chosen_relevance: np.ndarray  # (chosen, 1) I(x_j : y)
    chosen_entropy: np.ndarray  # (chosen, 1) H(x_j)
    redundancy: np.ndarray  # (chosen, feature) I(x_i : x_j)
    conditional: np.ndarray  # (chosen, feature) I(x_i : y | x_j)
    joint_entropy: np.ndarray  # (chosen, feature) H(x_i, x_j, y)

    @property
    def joint(self) -> np.ndarray:
        """I(x_i, x_j : y), (chosen, feature)."""
        return self.chosen_relevance + self.conditional

    @property
    def redundancy_given_label(self) -> np.ndarray:
        """I(x_i : x_j | y), (chosen, feature)."""
        return self.redundancy + self.conditional - self.relevance


@dataclass(frozen=True)
class PairwiseMethod(Method):
    """A criterion on pairs of a candidate and a chosen feature.

    The first pick is the most relevant feature. The gain of a pick is what it says about the label
    beyond any single earlier pick, ``min_j I(x_i : y | x_j)``; information is their sum, at most
    H(y). Both are read off the pair terms and cost no scan.
    """

    @abstractmethod
    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature, once something has been chosen."""

    @property
    def all_pairs(self) -> bool:
        """Whether the method needs the terms of all pairs of features before it chooses."""
        return False

    @property
    def state_type(self) -> type[PairwiseState]:
        """The record that its search keeps between rounds."""
        return PairwiseState

    def search(self, problem: Problem) -> Pairwise:
        """Return the search that this method does on a problem."""
        return Pairwise(problem, self)

    def largest_requests(self, sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests that take most memory, with arrays of the right sizes, no content."""
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
        """Return how many reductions its search asks for at most, after the marginal counts.

        One a pick but the last, and all pairs in panels of columns where they are needed.

        Examples
        --------
        >>> JMI().bound_reductions(Sizes(10**6, 400, 2, 5, n_picks=9)).by_name
        {'pair-terms': 9}
        """
        n_reductions = sizes.n_picks
        if self.all_pairs:
            n_reductions += -(-sizes.n_features // _panel_width(sizes))
        return ReductionBound({PAIR_TERMS.name: n_reductions}, n_reductions)


@dataclass(frozen=True)
class MIM(PairwiseMethod):
    """Mutual information maximisation: the features that say most about the target by themselves.

    Notes
    -----
    Score ``I(x_i : y)``.

    Examples
    --------
    >>> MIM().label
    'mim'
    """

    name: ClassVar[str] = "mim"
    in_paper: ClassVar[bool] = True

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        return pairs.relevance


@dataclass(frozen=True)
class MIFS(PairwiseMethod):
    """Mutual information feature selection (Battiti 1994): relevance less redundancy.

    Parameters
    ----------
    beta
        The weight of the redundancy with each chosen feature.

    Notes
    -----
    Score ``I(x_i : y) - beta sum_j I(x_i : x_j)``.

    Examples
    --------
    >>> MIFS(beta=0.5).options
    {'beta': 0.5}
    """

    name: ClassVar[str] = "mifs"
    in_paper: ClassVar[bool] = True

    beta: float = 1.0

    def __post_init__(self) -> None:
        """Check every option once."""
        self._check_number("beta")

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        return pairs.relevance - self.beta * pairs.redundancy.sum(axis=0)


@dataclass(frozen=True)
class MRMR(PairwiseMethod):
    """Minimum redundancy, maximum relevance (Peng, Long & Ding 2005).

    Parameters
    ----------
    form
        ``"difference"``, relevance less mean redundancy, or ``"quotient"``, relevance over it.

    Notes
    -----
    Score ``I(x_i : y) - mean_j I(x_i : x_j)``, or their quotient.

    Examples
    --------
    >>> MRMR(form="quotient").label
    "mrmr(form='quotient')"
    """

    name: ClassVar[str] = "mrmr"
    in_paper: ClassVar[bool] = True

    form: MRMRForm = "difference"

    def __post_init__(self) -> None:
        """Check every option once."""
        self._check("form", get_args(MRMRForm))

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        redundancy: np.ndarray = pairs.redundancy.mean(axis=0)
        if self.form == "difference":
            return pairs.relevance - redundancy
        return pairs.relevance / np.maximum(redundancy, LEAST_REDUNDANCY)


@dataclass(frozen=True)
class JMI(PairwiseMethod):
    """Joint mutual information (Yang & Moody 1999).

    Notes
    -----
    Score ``sum_j I(x_i, x_j : y)``.

    Examples
    --------
    >>> JMI().label
    'jmi'
    """

    name: ClassVar[str] = "jmi"
    in_paper: ClassVar[bool] = True

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        return pairs.joint.sum(axis=0)


@dataclass(frozen=True)
class CMIM(PairwiseMethod):
    """Conditional mutual information maximisation (Fleuret 2004).

    Notes
    -----
    Score ``min(I(x_i : y), min_j I(x_i : y | x_j))``.

    Examples
    --------
    >>> CMIM().label
    'cmim'
    """

    name: ClassVar[str] = "cmim"
    in_paper: ClassVar[bool] = True

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        return np.minimum(pairs.relevance, pairs.conditional.min(axis=0))


@dataclass(frozen=True)
class SpecCMI(PairwiseMethod):
    """Global selection by conditional mutual information (Nguyen et al. 2014).

    Parameters
    ----------
    form
        ``"greedy"``, one feature after the other, or ``"spectral"``, the largest entries of the
        dominant eigenvector of the matrix of all pairs.

    Notes
    -----
    Greedy score ``I(x_i : y) + sum_j I(x_i : y | x_j)``.

    Examples
    --------
    >>> SpecCMI(form="spectral").form
    'spectral'
    """

    name: ClassVar[str] = "spec_cmi"
    in_paper: ClassVar[bool] = True

    form: SpecCMIForm = "greedy"

    def __post_init__(self) -> None:
        """Check every option once."""
        self._check("form", get_args(SpecCMIForm))

    @property
    def all_pairs(self) -> bool:
        """Whether the method needs the terms of all pairs of features before it chooses."""
        return self.form == "spectral"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the greedy score of every feature."""
        return pairs.relevance + pairs.conditional.sum(axis=0)


@dataclass(frozen=True)
class CIFE(PairwiseMethod):
    """Conditional infomax feature extraction (Lin & Tang 2006).

    Notes
    -----
    Score ``I(x_i : y) - sum_j I(x_i : x_j) + sum_j I(x_i : x_j | y)``. What the label changes of a
    redundancy, ``I(x_i : x_j | y) - I(x_i : x_j)``, is ``I(x_i : y | x_j) - I(x_i : y)``.

    Examples
    --------
    >>> CIFE().label
    'cife'
    """

    name: ClassVar[str] = "cife"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        return pairs.relevance + (pairs.conditional - pairs.relevance).sum(axis=0)


@dataclass(frozen=True)
class ICAP(PairwiseMethod):
    """Interaction capping (Jakulin 2005): redundancy counts, synergy does not.

    Notes
    -----
    Score ``I(x_i : y) - sum_j max(0, I(x_i : x_j) - I(x_i : x_j | y))``.

    Examples
    --------
    >>> ICAP().label
    'icap'
    """

    name: ClassVar[str] = "icap"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        lost = np.maximum(pairs.relevance - pairs.conditional, 0.0)
        return pairs.relevance - lost.sum(axis=0)


@dataclass(frozen=True)
class DISR(PairwiseMethod):
    """Double input symmetrical relevance (Meyer & Bontempi 2006).

    Notes
    -----
    Score ``sum_j I(x_i, x_j : y) / H(x_i, x_j, y)``.

    Examples
    --------
    >>> DISR().label
    'disr'
    """

    name: ClassVar[str] = "disr"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        return (pairs.joint / pairs.joint_entropy).sum(axis=0)


@dataclass(frozen=True)
class JMIM(PairwiseMethod):
    """Joint mutual information maximisation (Bennasar, Hicks & Setchi 2015).

    Notes
    -----
    Score ``min_j I(x_i, x_j : y)``.

    Examples
    --------
    >>> JMIM().label
    'jmim'
    """

    name: ClassVar[str] = "jmim"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        return pairs.joint.min(axis=0)


@dataclass(frozen=True)
class CFR(PairwiseMethod):
    """Composition of feature relevancy (Gao, Hu, Zhang & He 2018).

    Notes
    -----
    Score ``sum_j [I(x_i : y | x_j) + I(x_i : x_j | y) - I(x_i : x_j)]``.

    Examples
    --------
    >>> CFR().label
    'cfr'
    """

    name: ClassVar[str] = "cfr"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        terms = pairs.conditional + pairs.redundancy_given_label - pairs.redundancy
        return terms.sum(axis=0)


@dataclass(frozen=True)
class DCSF(PairwiseMethod):
    """Dynamic change of selected features with the class (Gao, Hu & Zhang 2018).

    Notes
    -----
    Score ``sum_j [I(x_i : y | x_j) + I(x_j : y | x_i) - I(x_i : x_j)]``.

    Examples
    --------
    >>> DCSF().label
    'dcsf'
    """

    name: ClassVar[str] = "dcsf"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        of_chosen = pairs.joint - pairs.relevance  # I(x_j : y | x_i)
        return (pairs.conditional + of_chosen - pairs.redundancy).sum(axis=0)


@dataclass(frozen=True)
class MRI(PairwiseMethod):
    """Maximal relevance and maximal independence (Wang, Wei, Yang & Wang 2017).

    Notes
    -----
    Score ``I(x_i : y) + 2 / (n_chosen + 1) sum_j [I(x_i : x_j | y) - I(x_i : x_j)]``.

    Examples
    --------
    >>> MRI().label
    'mri'
    """

    name: ClassVar[str] = "mri"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        change = pairs.redundancy_given_label - pairs.redundancy
        return pairs.relevance + 2 / (len(change) + 1) * change.sum(axis=0)


@dataclass(frozen=True)
class NJMIM(PairwiseMethod):
    """Normalised joint mutual information maximisation (Bennasar, Hicks & Setchi 2015).

    Notes
    -----
    Score ``min_j I(x_i, x_j : y) / H(x_i, x_j, y)``.

    Examples
    --------
    >>> NJMIM().label
    'njmim'
    """

    name: ClassVar[str] = "njmim"

    def score(self, pairs: Pairs) -> np.ndarray:
        """Return the score of every feature."""
        return (pairs.joint / pairs.joint_entropy).min(axis=0)


@dataclass(frozen=True, kw_only=True)
class PairwiseState(State):
    """What a method that looks at pairs knows after some rounds."""

    conditional: np.ndarray = checked(LEARNED)  # (rank, feature) I(x_i : y | x_j)
    joint_entropy: np.ndarray = checked(LEARNED)  # (rank, feature) H(x_i, x_j, y)
    # (feature,) of the matrix of all pairs; empty where it is not needed
    centrality: np.ndarray = checked(Floats(("feature",), or_empty=True))


@dataclass(frozen=True)
class Pairwise(Search[PairwiseState, Scores]):
    """The search of every method that looks at pairs: one scan a round."""

    problem: Problem
    method: PairwiseMethod

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
        """Return the state with what it had to learn, and the scores of every feature."""
        if self.method.all_pairs and not len(state.centrality):
            matrix = (yield from learn_all(self.problem)).spectral
            # a feature that cannot be chosen is as if it were not there
            (among,) = np.nonzero(self.problem.candidates)
            centrality = np.zeros(len(matrix))
            centrality[among] = dominant_vector(matrix[np.ix_(among, among)])
            state = replace(state, centrality=centrality)
        if len(state.affinity) < len(state.chosen):
            terms = yield from learn(self.problem, state.chosen[-1])
            state = replace(
                state,
                affinity=np.vstack([state.affinity, terms.correlation]),
                redundancy=np.vstack([state.redundancy, terms.redundancy]),
                conditional=np.vstack([state.conditional, terms.conditional]),
                joint_entropy=np.vstack([state.joint_entropy, terms.joint_entropy]),
            )
        relevance = self.problem.relevance
        if self.method.all_pairs:
            score = state.centrality
        elif not state.chosen:
            score = relevance
        else:
            chosen, entropy = list(state.chosen), self.problem.entropy
            pairs = Pairs(
                relevance=relevance,
                entropy=entropy,
                chosen_relevance=relevance[chosen, None],
                chosen_entropy=entropy[chosen, None],
                redundancy=state.redundancy,
                conditional=state.conditional,
                joint_entropy=state.joint_entropy,
            )
            score = self.method.score(pairs)
        gain = state.conditional.min(axis=0) if state.chosen else relevance
        information = np.minimum(state.information + gain, self.problem.label_entropy)
        return state, Scores(score, information, gain)

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
    """What the pairs of one chosen feature with every feature say, all (feature,)."""

    redundancy: np.ndarray  # I(x_i : x_f)
    conditional: np.ndarray  # I(x_i : y | x_f)
    joint_entropy: np.ndarray  # H(x_i, x_f, y)
    correlation: np.ndarray  # signed


def learn(problem: Problem, pick: int) -> Generator[Request, Partial, PairTerms]:
    """Count a chosen feature against every feature."""
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
    """What all pairs say, (feature, feature), in nats."""

    redundancy: np.ndarray  # I(x_i : x_j), the entropy on the diagonal
    conditional: np.ndarray  # I(x_i : y | x_j), 0 on the diagonal
    joint: np.ndarray  # I(x_i, x_j : y), the relevance on the diagonal

    @property
    def spectral(self) -> np.ndarray:
        """The matrix of SPEC_CMI: the mean of both conditional informations, relevance within."""
        result: np.ndarray = (self.conditional + self.conditional.T) / 2
        np.fill_diagonal(result, self.joint.diagonal())
        return result


def learn_all(problem: Problem) -> Generator[Request, Partial, PairMatrices]:
    """Count all pairs, a panel of columns against all features at a time, each pair once."""
    m, relevance = problem.n_features, problem.relevance
    redundancy, conditional = np.zeros((m, m)), np.zeros((m, m))
    width = _panel_width(Sizes(problem.n_samples, m, problem.n_classes, problem.table_width, 0))
    for start in range(0, m, width):
        panel = np.arange(start, min(start + width, m))
        # a column with itself too: that is its entropy
        context = _context(problem, panel, panel)
        terms = (yield Request(PAIR_TERMS, context, tuple(panel.tolist())))["terms"]
        redundancy[start:, panel] = terms[start:, :, 0]
        conditional[start:, panel] = terms[start:, :, 1]
    lower = np.tril_indices(m, -1)
    redundancy.T[lower] = redundancy[lower]
    # the chain rule both ways: I(x_i, x_j : y) = I(x_j : y) + I(x_i : y | x_j)
    joint = conditional + relevance
    joint.T[lower] = joint[lower]
    np.fill_diagonal(joint, relevance)
    conditional.T[lower] = np.maximum(joint - relevance[:, None], 0.0)[lower]
    np.fill_diagonal(conditional, 0.0)
    return PairMatrices(redundancy, conditional, joint)


def dominant_vector(matrix: np.ndarray) -> np.ndarray:
    """Return the unit eigenvector of the largest eigenvalue of a symmetric matrix of numbers >= 0.

    Examples
    --------
    >>> dominant_vector(np.array([[2.0, 1.0], [1.0, 2.0]])).round(4)
    array([0.7071, 0.7071])
    """
    from scipy.linalg import eigh

    last = len(matrix) - 1
    # of such a matrix all entries have one sign, which is arbitrary
    vector: np.ndarray = np.abs(eigh(matrix, subset_by_index=[last, last])[1][:, 0])
    return vector


def _context(problem: Problem, parents: np.ndarray, after: np.ndarray) -> PairTermsContext:
    return PairTermsContext(
        n_classes=problem.n_classes,
        parents=problem.filled[parents],
        after=after,
        numbers=problem.filled,
        position=np.arange(problem.n_features),
        marginals=problem.counts.sum(axis=1),
    )


def _panel_width(sizes: Sizes) -> int:
    column = 8 * sizes.n_features * sizes.n_classes * sizes.n_codes**2
    return min(max(1, PANEL_BYTES // column), sizes.n_features)
