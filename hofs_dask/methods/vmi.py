"""The VMI method: variational information maximization (Gao, Ver Steeg & Galstyan 2016)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hofs_dask.engine.counts import PAIR_COUNTS, PAIR_TERMS, PairContext
from hofs_dask.engine.posteriors import (
    KINDS,
    POSTERIOR_GAINS,
    CandidateRows,
    GainsContext,
    PosteriorRow,
)
from hofs_dask.engine.reduction import N_PARTS, Partial, Request, placeholder
from hofs_dask.kernels.entropy import information
from hofs_dask.methods.affinity import correlation
from hofs_dask.methods.base import LEAST_DIFFERENCE, Method, ReductionBound, Search, Sizes
from hofs_dask.methods.criteria import MIM
from hofs_dask.methods.fields import ROUNDING, Floats, checked
from hofs_dask.methods.pairwise import learn
from hofs_dask.methods.posterior import PosteriorScores, PosteriorState
from hofs_dask.methods.problem import Problem, count_pairs

VMIForm = Literal["naive", "pairwise"]


@dataclass(frozen=True)
class VMI(Method):
    """Method: variational information maximization (Gao, Ver Steeg & Galstyan 2016).

    Parameters
    ----------
    form
        Model of the features within a class. ``"naive"`` assumes that the features are independent.
        ``"pairwise"`` uses the geometric mean of the distributions of a feature given each of the
        features chosen before it.
    restart
        The search restarts if the best gain is below this number of nats. The remaining features
        are then ranked by a new model, without the earlier picks.

    Examples
    --------
    >>> VMI(restart=0.001).restart
    0.001
    """

    name: ClassVar[str] = "vmi"
    in_paper: ClassVar[bool] = True

    form: VMIForm = "naive"
    restart: float = 0.01

    def __post_init__(self) -> None:
        """Check all options."""
        self._check("form", get_args(VMIForm))
        self._check_number("restart")

    @property
    def state_type(self) -> type[VMIState]:
        """The type of the state that the search keeps between rounds."""
        return VMIState

    def search(self, problem: Problem) -> VariationalInformation:
        """Return the object that computes the scores of this method for an encoded data set."""
        return VariationalInformation(problem, self)

    def largest_requests(self, sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests of a search that need the most memory; their arrays hold zeros."""
        m, c, b, k = sizes.n_features, sizes.n_classes, sizes.n_codes, sizes.n_picks
        pairwise = self.form == "pairwise"
        counted = MIM().largest_requests(sizes)  # counts of a pick with every feature
        largest = PosteriorRow("table", 0, np.zeros(0, np.intp), placeholder(1, 1, c, b))
        if pairwise:
            counted = (Request(PAIR_COUNTS, PairContext(c, b, by_fold=False), (0,)),)
            largest = PosteriorRow("pair", 0, np.zeros(k, np.intp), placeholder(k, 1, c, b * b))
        context = GainsContext(
            prior=placeholder(c),
            rows=(largest,) * k,
            numbers=placeholder(k, b),
            logistic=True,
            total=0,
            parts=tuple(range(N_PARTS)),
            squares=False,
            candidates=CandidateRows.empty((m, 1, c, b), n_pairs=k * pairwise),
            wanted=np.broadcast_to(np.True_, m),
        )
        return (*counted, Request(POSTERIOR_GAINS, context, tuple(range(k))))

    def bound_reductions(self, sizes: Sizes) -> ReductionBound:
        """Return the maximum number of reductions of a search, besides the marginal counts.

        One reduction scores the candidates before the first pick. Each pick then needs at most
        three more: one counts it with every feature, one scores the candidates again, and, if the
        search restarts, one scores them by the new model.

        Examples
        --------
        >>> VMI().bound_reductions(Sizes(1000, 20, 2, 5, n_picks=3)).by_name
        {'pair-terms': 3, 'posterior-gains': 7}
        """
        counted = PAIR_TERMS if self.form == "naive" else PAIR_COUNTS
        gains = 1 + 2 * sizes.n_picks
        by_name = {counted.name: sizes.n_picks, POSTERIOR_GAINS.name: gains}
        return ReductionBound(by_name, sizes.n_picks + gains)


@dataclass(frozen=True, kw_only=True)
class VMIState(PosteriorState):
    """The state of a VMI search after some rounds.

    ``information`` is H(y) plus the mean log posterior of the true class.
    """

    kinds: ClassVar[tuple[str, ...]] = ("table", "pair")
    n_folds: ClassVar[int] = 1
    may_rule_out: ClassVar[bool] = True

    # (pick, feature, class, cell) log p(code | code of the pick, class); a cell is a pair of codes
    pair_logs: np.ndarray = checked(
        Floats(("pair", "feature", "class", "pair code"), hole=-np.inf, most=ROUNDING)
    )
    # (pick, feature) the mean of `pair_logs` for the true class
    pair_truth: np.ndarray = checked(Floats(("pair", "feature")))


@dataclass(frozen=True)
class VariationalInformation(Search[VMIState, PosteriorScores]):
    """The search of the method `VMI`.

    The score is ``H(y) + mean(log posterior of the true class)``, a lower bound of the information.
    It is computed in sample, from tables without smoothing. The posterior of a class c is
    proportional to p(c) times one factor per pick x_i of the epoch. In the naive form, the factor
    is ``p(x_i|c)``. In the pairwise form, it is the geometric mean of ``p(x_i|x_j,c)`` over the
    earlier picks j of the epoch, and ``p(x_i|c)`` for the first pick.
    """

    problem: Problem
    options: VMI

    def is_exhausted(
        self,
        scores: PosteriorScores,
        pick: int,
        candidates: np.ndarray,  # noqa: ARG002
    ) -> bool:
        """Return whether the gain of the best candidate is below the option ``restart``."""
        return float(scores.gain[pick]) < self.options.restart - LEAST_DIFFERENCE

    def start(self) -> VMIState:
        """Return the state before the first round."""
        none = np.zeros((0, self.problem.n_features))
        return VMIState(
            chosen=(), subsets=(), affinity=none, redundancy=none, **self._new_epoch(), epoch=0
        )

    def score(
        self, state: VMIState
    ) -> Generator[Request, Partial, tuple[VMIState, PosteriorScores]]:
        """Yield the requests of a round; return the updated state and the scores of features."""
        if len(state.affinity) < len(state.chosen):
            state = yield from self._learn(state)
        problem, picks = self.problem, state.picks
        rows = self._candidates(state)
        context = GainsContext(
            prior=_log(problem.class_counts.sum(axis=0) / problem.total),
            rows=state.rows,
            numbers=problem.filled[list(picks)],
            logistic=True,
            total=problem.total,
            parts=tuple(range(N_PARTS)),
            squares=False,
            candidates=rows,
            wanted=np.ones(problem.n_features, np.bool_),
        )
        gains = (yield Request(POSTERIOR_GAINS, context, picks))["gain"]
        kind = KINDS.index("pair" if len(state.pair_logs) else "table")
        gain = gains[:, kind]
        bound = state.information + gain
        kinds = np.full(len(gain), kind)
        return state, PosteriorScores(bound, bound, bound - state.information, rows, kinds, gain)

    def add(self, state: VMIState, scores: PosteriorScores, pick: int, subset: int) -> VMIState:
        """Return the state after a feature has been chosen."""
        row = scores.rows.row(pick, KINDS[scores.kind[pick]], column=len(state.rows))
        return replace(
            state,
            chosen=(*state.chosen, pick),
            subsets=(*state.subsets, subset),
            rows=(*state.rows, row),
            information=float(scores.information[pick]),
        )

    def restart(self, state: VMIState, scores: PosteriorScores) -> VMIState:  # noqa: ARG002
        """Return the first state of a new epoch: without rows, but with subsets and affinities."""
        return replace(state, **self._new_epoch(), epoch=state.epoch + 1)

    def _new_epoch(self) -> dict[str, Any]:
        """Return the values that some fields of the state have at the start of an epoch."""
        m, _, c, b = self.problem.counts.shape
        return {
            "rows": (),
            "pair_logs": np.zeros((0, m, c, b * b)),
            "pair_truth": np.zeros((0, m)),
            "information": 0.0,
        }

    def _learn(self, state: VMIState) -> Generator[Request, Partial, VMIState]:
        """Count the last pick with every feature; return the updated state."""
        problem, pick = self.problem, state.chosen[-1]
        if self.options.form == "naive":
            terms = yield from learn(problem, pick)
            return replace(
                state,
                affinity=np.vstack([state.affinity, terms.correlation]),
                redundancy=np.vstack([state.redundancy, terms.redundancy]),
            )
        counts = (yield count_pairs(problem, pick, by_fold=False))["counts"]
        by_class = counts[:, 0].swapaxes(1, 2)
        logs = _log(by_class / np.maximum(by_class.sum(axis=-1, keepdims=True), 1))
        logs = logs.reshape(1, *logs.shape[:2], -1)
        truth = _mean_log(by_class.reshape(logs.shape[1:]), logs[0])
        return replace(
            state,
            affinity=np.vstack([state.affinity, correlation(problem, counts, pick)]),
            redundancy=np.vstack([state.redundancy, information(counts.sum(axis=(1, 3)))]),
            pair_logs=np.concatenate([state.pair_logs, logs]),
            pair_truth=np.vstack([state.pair_truth, truth]),
        )

    def _tables(self) -> np.ndarray:
        """Return p(code | class) of every feature, (feature, 1, class, code)."""
        counts = self.problem.counts.sum(axis=1, keepdims=True)
        result: np.ndarray = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
        return result

    def _candidates(self, state: VMIState) -> CandidateRows:
        """Return the rows of every candidate."""
        problem = self.problem
        m, _, c, b = problem.counts.shape
        n_pairs = len(state.pair_logs)
        tables = self._tables()
        truth = np.zeros((m, len(KINDS), 1))
        truth[:, 0, 0] = _mean_log(problem.counts.sum(axis=1), _log(tables[:, 0]))
        rows = replace(
            CandidateRows.empty((m, 1, c, b)), table=tables, values=problem.numbers, truth=truth
        )
        if not n_pairs:
            return rows
        truth[:, KINDS.index("pair"), 0] = state.pair_truth.mean(axis=0)
        pairs = np.exp(state.pair_logs / n_pairs).swapaxes(0, 1)
        return replace(
            rows,
            pair_parents=np.tile(np.arange(1, n_pairs + 1), (m, 1)),
            pair_table=np.ascontiguousarray(pairs)[:, :, None],
        )


def _log(shares: np.ndarray) -> np.ndarray:
    """Return the logs of numbers; minus infinity for zero, without a warning."""
    with np.errstate(divide="ignore"):
        result: np.ndarray = np.log(shares)
    return result


def _mean_log(counts: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return the mean of ``logs`` (feature, class, cell) for the true class, (feature,).

    Cells without samples do not contribute.
    """
    products = counts * np.where(counts > 0, logs, 0.0)
    result: np.ndarray = products.sum(axis=(1, 2)) / counts[0].sum()
    return result
