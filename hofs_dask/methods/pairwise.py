"""The baselines that look at pairs: every score is a line on what pair counts say."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from hofs_dask.engine.counts import PAIR_TERMS
from hofs_dask.engine.reduction import Context, Partial, Request
from hofs_dask.methods.affinity import correlation_of
from hofs_dask.methods.options import (
    CIFE,
    CMIM,
    DISR,
    ICAP,
    JMI,
    JMIM,
    MIFS,
    MIM,
    MRMR,
    Method,
    SpecCMI,
)
from hofs_dask.methods.problem import Problem, Scores, Sizes, empty

#: The counts that one scan over all pairs keeps, about: so many columns are counted at a time.
PANEL_BYTES = 32 * 2**20
#: The least mean redundancy that `mrmr` divides by, in nats.
LEAST_REDUNDANCY = 1e-12


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
    width = _panel_width(Sizes(m, problem.n_classes, problem.table_width, 0))
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


@dataclass(frozen=True)
class PairwiseState:
    """What a baseline that looks at pairs knows after some rounds."""

    chosen: tuple[int, ...]
    subsets: tuple[int, ...]
    affinity: np.ndarray  # (rank, feature), as many ranks as have been learned; so the next three
    redundancy: np.ndarray  # I(x_i : x_j)
    conditional: np.ndarray  # I(x_i : y | x_j)
    joint_entropy: np.ndarray  # H(x_i, x_j, y)
    centrality: np.ndarray  # (feature,) of the matrix of all pairs; empty where it is not needed
    information: float
    epoch: int = 0


@dataclass(frozen=True)
class Pairwise:
    """MIM, MIFS, mRMR, JMI, CMIM, SPEC_CMI, CIFE, ICAP, DISR and JMIM: one reduction a round.

    What they are said to know is what each pick tells of the label beyond any single earlier pick,
    ``min_j I(x_i : y | x_j)``, summed up and at most H(y): an estimate that costs no reduction.
    """

    problem: Problem
    options: Method
    restart_gain: float | None = None

    def start(self) -> PairwiseState:
        """The state before the first round."""
        none = np.zeros((0, self.problem.n_features))
        return PairwiseState((), (), none, none, none, none, np.zeros(0), information=0.0)

    @staticmethod
    def largest_requests(sizes: Sizes, options: Method) -> tuple[Request, ...]:
        """The reductions that take most memory, with arrays of the right sizes and no content."""
        width = _panel_width(sizes) if _needs_all_pairs(options) else 1
        own = {
            "numbers": empty(sizes.n_features, sizes.n_codes),
            "position": empty(sizes.n_features),
            "marginals": empty(sizes.n_features, sizes.n_classes, sizes.n_codes),
        }
        shared = {
            "n_classes": sizes.n_classes,
            "parents": empty(width, sizes.n_codes),
            "after": empty(width),
        }
        return (Request(PAIR_TERMS, Context(shared, own), tuple(range(width))),)

    def score(
        self, state: PairwiseState
    ) -> Generator[Request, Partial, tuple[PairwiseState, Scores]]:
        """The state with what it had to learn, and the scores of every feature."""
        spectral = _needs_all_pairs(self.options)
        if spectral and not len(state.centrality):
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
        if spectral:
            score = state.centrality
        elif not state.chosen:
            score = relevance
        else:
            score = criterion(self.options, relevance, state)
        gain = state.conditional.min(axis=0) if state.chosen else relevance
        information = np.minimum(state.information + gain, self.problem.label_entropy)
        return state, Scores(score, information, gain)

    def add(self, state: PairwiseState, scores: Scores, pick: int, subset: int) -> PairwiseState:
        """The state after a feature has been chosen."""
        return replace(
            state,
            chosen=(*state.chosen, pick),
            subsets=(*state.subsets, subset),
            information=float(scores.information[pick]),
        )

    def restart(self, state: PairwiseState, _scores: Scores) -> PairwiseState:
        """The state itself: these criteria have no restarts."""
        return state


def dominant_vector(matrix: np.ndarray) -> np.ndarray:
    """The unit eigenvector of the largest eigenvalue of a symmetric matrix of numbers >= 0.

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


def criterion(options: Method, relevance: np.ndarray, state: PairwiseState) -> np.ndarray:
    """The score of every feature once something has been chosen.

    Notes
    -----
    The change that the label makes to a redundancy, ``I(x_i : x_j | y) - I(x_i : x_j)``, is
    ``I(x_i : y | x_j) - I(x_i : y)``, and ``I(x_i, x_j : y)`` is ``I(x_j : y) + I(x_i : y | x_j)``.
    """
    redundancy, conditional = state.redundancy, state.conditional
    joint = relevance[list(state.chosen)][:, None] + conditional
    score: np.ndarray
    match options:
        case MIM():
            score = relevance
        case MIFS():
            score = relevance - options.beta * redundancy.sum(axis=0)
        case MRMR(form="difference"):
            score = relevance - redundancy.mean(axis=0)
        case MRMR():
            score = relevance / np.maximum(redundancy.mean(axis=0), LEAST_REDUNDANCY)
        case JMI():
            score = joint.sum(axis=0)
        case CMIM():
            score = np.minimum(relevance, conditional.min(axis=0))
        case SpecCMI():
            score = relevance + conditional.sum(axis=0)
        case CIFE():
            score = relevance + (conditional - relevance).sum(axis=0)
        case ICAP():
            score = relevance - np.maximum(relevance - conditional, 0.0).sum(axis=0)
        case DISR():
            score = (joint / state.joint_entropy).sum(axis=0)
        case JMIM():
            score = joint.min(axis=0)
        case _:
            raise TypeError(f"{options!r} is not a method that looks at pairs")
    return score


def _context(problem: Problem, parents: np.ndarray, after: np.ndarray) -> Context:
    shared = {"n_classes": problem.n_classes, "parents": problem.filled[parents], "after": after}
    own = {
        "numbers": problem.filled,
        "position": np.arange(problem.n_features),
        "marginals": problem.counts.sum(axis=1),
    }
    return Context(shared, own)


def _needs_all_pairs(options: Method) -> bool:
    return isinstance(options, SpecCMI) and options.form == "spectral"


def _panel_width(sizes: Sizes) -> int:
    column = 8 * sizes.n_features * sizes.n_classes * sizes.n_codes**2
    return min(max(1, PANEL_BYTES // column), sizes.n_features)
