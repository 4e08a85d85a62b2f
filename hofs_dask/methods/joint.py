"""HOFS with the criterion `joint`, which uses the posterior of the class given the picks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hofs_dask.engine.counts import PAIR_COUNTS, PairContext
from hofs_dask.engine.posteriors import (
    GROUPS,
    KINDS,
    POSTERIOR_GAINS,
    CandidateRows,
    GainsContext,
    PosteriorRow,
)
from hofs_dask.engine.reduction import N_FOLDS, N_PARTS, Partial, Request, placeholder
from hofs_dask.engine.residuals import RESIDUALS
from hofs_dask.engine.tuples import PARENT_COUNTS
from hofs_dask.kernels.entropy import information
from hofs_dask.methods.affinity import correlation, gram_row, join, within_classes
from hofs_dask.methods.base import LEAST_DIFFERENCE, Ahead, ReductionBound, Search, Sizes
from hofs_dask.methods.coarse import CoarseCounts, check_coarse, with_coarse
from hofs_dask.methods.fields import Floats, Whole, Wholes, checked, finite
from hofs_dask.methods.fits import (
    Moments,
    fit_linear,
    fit_pairs,
    fit_tables,
    mean_log,
    parent_gain,
    to_factors,
)
from hofs_dask.methods.gains import gains_on_counts
from hofs_dask.methods.lookahead import (
    Waiting,
    check_planned,
    check_waiting,
    look_ahead,
    start_again,
    third_bound,
    tuple_requests,
)
from hofs_dask.methods.posterior import PosteriorScores, PosteriorState
from hofs_dask.methods.problem import Problem, count_pairs
from hofs_dask.methods.significance import Residuals, marginal_p_values, p_values

if TYPE_CHECKING:
    from hofs_dask.methods.hofs import HOFS

#: Prior probability of a class without samples. Such a class can occur in a bootstrap resample.
LEAST_SHARE = 1e-300
#: The selection penalty is this factor times the log of the number of candidates, divided by the
#: effective number of samples.
PENALTY = 2.0
#: A search restarts if more than this fraction of the best candidates are expected to be noise.
FALSE_SHARE = 0.5
#: A search also restarts if the best candidate adds less than this, in nats. If H(y) is below
#: log 2, this limit is multiplied by H(y) / log 2.
LEAST_GAIN = 1e-3
#: A search also restarts if the best candidate adds less than this fraction of the relevance of the
#: most relevant candidate. Otherwise faint features that are independent of the picks would come
#: before relevant ones, whose gain a model with simple rows underestimates.
LEAST_SHARE_OF_RELEVANCE = 0.02
#: The score of a candidate includes this fraction of its relevance, so that the more relevant of
#: two features with equal gains comes first. The gains of many noise features are exactly zero.
HEAD_START = 1e-6
#: How far the mean over some parts of the samples may differ from the mean over all, in standard
#: deviations. A normal variable exceeds this about once in 10^9 cases.
DEVIATIONS = 6.0
#: Gains are computed from counts if there are at least this many samples per count. With fewer
#: samples, a reduction over the samples is faster.
CELL_SAMPLES = 8
PARTS = tuple(range(N_PARTS))
#: The parts of the first fold. Candidates are screened on parts of one fold, because the samples of
#: a piece, which has one fold (see `engine.posteriors.pieces`), are then closest together.
FIRST_FOLD = PARTS[::N_FOLDS]
#: From `STAGED` samples on, candidates are screened on the first fold. From `STAGED_TWICE` samples
#: on, they are first screened on one part of this fold. With fewer samples, the additional scan
#: costs more than it saves.
STAGED, STAGED_TWICE = 100_000, 500_000


@dataclass(frozen=True, kw_only=True)
class JointState(PosteriorState):
    """The state of a search with the criterion `joint` after some rounds."""

    kinds: ClassVar[tuple[str, ...]] = KINDS

    # (rank, feature, fold, class) sums of products of the values of a pick and a feature
    gram: np.ndarray = checked(Floats(("learned", "feature", "fold", "class")))
    # (feature, fold, parent code, class, code), counts with the best parent of each feature
    pair_counts: np.ndarray = checked(Wholes(("feature", "fold", "code", "class", "code")))
    # (feature,) the position of this parent among the picks of this epoch, -1 for none
    pair_parent: np.ndarray = checked(Wholes(("feature",), -1, below="parent"))
    # (feature,) how much this parent increases the mean log-likelihood of the feature
    pair_gain: np.ndarray = checked(Floats(("feature",)))
    bound: float = checked(finite)  # H(y) + mean log posterior of the true class
    penalty: float = checked(finite)  # sum of the penalties of the picks of this epoch
    # (feature,) the gain of the feature in the last round of each earlier epoch, summed
    earlier: np.ndarray = checked(Floats(("feature",)))
    # the tuples that may be chosen as a whole; None if none have been looked for yet
    waiting: tuple[Waiting, ...] | None = checked(check_waiting)
    planned: tuple[int, ...] = checked(check_planned)  # features of a tuple to choose next
    coarse: tuple[CoarseCounts, ...] = checked(check_coarse)  # counts for coarse rows
    # number of picks of this epoch of which all pairs have been tried as parents of coarse rows
    paired: int = checked(Whole("epoch"))
    n_thirds: int = checked(Whole("epoch"))  # how often such parents have been found


@dataclass(frozen=True)
class JointScores(PosteriorScores):
    """The scores of one round, with the penalties that are subtracted from them.

    Attributes
    ----------
    net_gain
        The gain of the best row minus the penalty of its kind, (feature,).
    charged
        The sum of all penalties of this epoch if the feature is chosen, (feature,).
    ahead
        The next feature of a tuple that is chosen as a whole, or None.
    """

    net_gain: np.ndarray
    charged: np.ndarray
    ahead: Ahead | None = None


@dataclass(frozen=True)
class Joint(Search[JointState, JointScores]):
    """The search with the criterion `joint`.

    The criterion is ``H(y) + mean(log posterior of the true class)``, cross-fitted.
    """

    problem: Problem
    options: HOFS

    def is_exhausted(self, scores: JointScores, pick: int, candidates: np.ndarray) -> bool:
        """Return whether the best candidate adds too little, or is more likely noise than not.

        Notes
        -----
        The least gain is `least_gain`, or a fraction of the largest relevance of the candidates, if
        that is more.

        A candidate without information gains more than g with a probability of about exp(-N g),
        where N is its effective number of samples. If the gain times N is at least z for k of M
        candidates, then about M exp(-z) of these k candidates have no information. The pick is
        accepted if there is a k for which this fraction, M exp(-z) / k, is at most `FALSE_SHARE`
        (Benjamini & Hochberg 1995).
        """
        sizes = self.problem.n_effective
        evidence = np.sort((sizes * scores.net_gain)[candidates])[::-1]
        n_likely = np.arange(1, len(evidence) + 1)
        least = np.log(len(evidence) / (n_likely * FALSE_SHARE))
        likely = evidence[evidence >= least]
        most_relevant = float(self.problem.relevance[candidates].max(initial=0.0))
        least_gain = max(self.least_gain, LEAST_SHARE_OF_RELEVANCE * most_relevant)
        needed = max(likely.min(initial=np.inf) / sizes[pick], least_gain)
        return bool(scores.net_gain[pick] < needed - LEAST_DIFFERENCE)

    @property
    def least_gain(self) -> float:
        """The least gain of a feature that does not cause a restart, in nats."""
        return LEAST_GAIN * min(1.0, self.problem.label_entropy / math.log(2))

    @cached_property
    def order(self) -> int:
        """The largest number of features that are chosen as a whole."""
        problem = self.problem
        sizes = problem.n_samples, problem.n_features, problem.n_classes, problem.table_width
        return self.options.order_for(Sizes(*sizes, n_picks=0))

    def start(self) -> JointState:
        """Return the state before the first round."""
        problem = self.problem
        n_features = problem.n_features
        return JointState(
            chosen=(),
            subsets=(),
            affinity=np.zeros((0, n_features)),
            redundancy=np.zeros((0, n_features)),
            gram=np.zeros((0, n_features, *problem.class_counts.shape)),
            **self._new_epoch(),
            earlier=np.zeros(n_features),
            waiting=None,
            planned=(),
            n_thirds=0,
            epoch=0,
        )

    @staticmethod
    def largest_requests(sizes: Sizes, order: int) -> tuple[Request, ...]:
        """Return the requests of a search that need the most memory; their arrays hold zeros."""
        m, c, b, k = sizes.n_features, sizes.n_classes, sizes.n_codes, sizes.n_picks
        rows = CandidateRows.empty(
            (m, N_FOLDS, c, b), linear=("shared", "class"), n_parents=k, n_pairs=1
        )
        largest = PosteriorRow("pair", 0, np.zeros(1, np.intp), placeholder(1, N_FOLDS, c, b * b))
        context = GainsContext(
            prior=placeholder(c),
            rows=(largest,) * k,
            numbers=placeholder(k, b),
            logistic=True,
            total=0,
            parts=PARTS,
            squares=True,
            candidates=rows,
            wanted=np.broadcast_to(np.True_, m),
        )
        return (
            Request(PAIR_COUNTS, PairContext(c, b, by_fold=True), (0,)),
            Request(POSTERIOR_GAINS, context, tuple(range(k))),
            *tuple_requests(sizes, order)[-1:],
        )

    @staticmethod
    def bound_reductions(sizes: Sizes, order: int) -> ReductionBound:
        """Return the maximum number of reductions of a search, besides the marginal counts.

        Parameters
        ----------
        sizes
            The sizes of the data.
        order
            The largest number of features that are chosen as a whole.

        Notes
        -----
        Counting a pick takes one reduction. Computing the gains of candidates takes one to three,
        depending on the number of samples. It takes none if there are many samples and the epoch
        has at most one pick, because counts are then sufficient. If the best gain is too small, the
        search restarts, and the candidates are scored again in a new epoch without picks.

        If tuples of features have significant synergy, the gain of one of them is computed each
        time that the candidates are scored, and this takes as long as choosing its features. It is
        computed at most ten times in an epoch.

        Examples
        --------
        >>> Joint.bound_reductions(Sizes(10**6, 400, 2, 5, n_picks=9), order=1).by_name
        {'pair-counts': 9, 'posterior-gains': 24}
        >>> Joint.bound_reductions(Sizes(10**6, 400, 2, 5, n_picks=9), order=2).by_name
        {'pair-counts': 28, 'posterior-gains': 96, 'group-counts': 9, 'tuples': 9, ...}
        """
        staged = 1 + (sizes.n_samples >= STAGED) + (sizes.n_samples >= STAGED_TWICE)
        n_picks = sizes.n_picks

        def to_score(n_cells: int) -> int:
            """Return the number of reductions that score candidates with ``n_cells`` counts."""
            return 0 if CELL_SAMPLES * n_cells <= sizes.n_samples else staged

        table = N_FOLDS * sizes.n_classes * sizes.n_codes
        no_pick, one_pick = to_score(table), to_score(table * sizes.n_codes)
        # every round after the first may restart
        gains = no_pick * (1 + n_picks) + one_pick * min(n_picks, 1) + staged * max(n_picks - 1, 0)
        # a round scores candidates at most twice, and each time for one tuple
        n_tried = 2 * n_picks + 1 if order > 1 else 0
        n_added = n_tried * (order - 1)
        by_name = Counter(
            {PAIR_COUNTS.name: n_picks + n_added, POSTERIOR_GAINS.name: gains + staged * n_added}
        )
        if order > 1:
            by_name.update(request.reduction.name for request in tuple_requests(sizes, order))
            by_name[PARENT_COUNTS.name] += n_tried
            by_name += third_bound(sizes, staged)
        return ReductionBound(dict(by_name), by_name.total())

    def score(
        self, state: JointState
    ) -> Generator[Request, Partial, tuple[JointState, JointScores]]:
        """Yield the requests of a round; return the updated state and the scores of features."""
        state, scores = yield from self.score_single(state)
        return (yield from look_ahead(self, state, scores))

    def ahead(self, scores: JointScores) -> Ahead | None:
        """Return the next feature of a tuple that is chosen as a whole, or None."""
        return scores.ahead

    def planned(self, state: JointState) -> tuple[int, ...]:
        """Return the features of the tuple of the last pick that are still to be chosen."""
        return state.planned

    def score_single(
        self, state: JointState
    ) -> Generator[Request, Partial, tuple[JointState, JointScores]]:
        """Yield the requests of a round without tuples; return the updated state and the scores."""
        counts = self.problem.counts[:, :, None]  # without a pick
        if len(state.affinity) < len(state.chosen):
            state, counts = yield from self._learn(state)
        rows = self._fit(state)
        may_win = np.ones(self.problem.n_features, np.bool_)
        n_cells = counts[0].size
        if len(state.rows) <= 1 and CELL_SAMPLES * n_cells <= self.problem.n_samples:
            prior = self._prior
            posterior = np.broadcast_to(prior[:, None], (N_FOLDS, *prior.shape, 1))
            for row in state.rows:  # the first row of an epoch is a table
                posterior = posterior + row.table[0]
            numbers = self.problem.filled[state.picks[0]] if state.picks else np.zeros(1)
            assert counts.shape[2] == len(numbers)  # these are the counts with the only pick
            gains = gains_on_counts(counts, posterior, rows, numbers, self._logistic)
        else:
            gains, may_win = yield from self._gains(state, rows)
        penalty = self._kind_penalty(state)
        net = np.where(rows.possible, gains - penalty, -np.inf)
        kind = net.argmax(axis=1)
        best = np.arange(len(gains)), kind
        gain, net_gain = gains[best], net[best]
        bound = state.bound + gain
        charged = state.penalty + penalty[best] + self.pick_penalty(state)
        known = np.maximum(bound - charged, 0.0)
        score = np.where(may_win, state.bound + net_gain + self._start_of(state), -np.inf)
        return state, JointScores(
            score=score,
            information=known,
            gain=known - state.information,
            rows=rows,
            kind=kind,
            row_gain=gain,
            net_gain=net_gain,
            charged=charged,
        )

    def _gains(
        self, state: JointState, rows: CandidateRows
    ) -> Generator[Request, Partial, tuple[np.ndarray, np.ndarray]]:
        """Return the gain of each row of each candidate, and which candidates may be the best.

        The gains have the axes (feature, kind). With many samples, all candidates are first
        screened on some parts of the samples. The remaining parts are used only for the candidates
        that may still be best or second best. The gains of the other candidates are estimates from
        the first parts.
        """
        problem, n_samples = self.problem, self.problem.n_samples
        stages = []
        if n_samples >= STAGED and problem.n_groups is None:  # parts made of groups are not random
            cut = 1 if n_samples >= STAGED_TWICE else len(FIRST_FOLD)
            stages = [parts for parts in (FIRST_FOLD[:cut], FIRST_FOLD[cut:]) if parts]
        free = problem.candidates.copy()
        free[list(state.chosen)] = False
        waiting = [i for each in state.waiting or () for i in each.features]
        exact = [i for i in (*problem.included, *waiting, *state.planned) if i not in state.chosen]
        possible = rows.possible
        may_win = np.ones(problem.n_features, np.bool_)

        def ask(parts: tuple[int, ...], *, squares: bool) -> Request:
            context = self._context(state, rows, parts, may_win.copy(), squares=squares)
            share = len(parts) / N_PARTS * float(may_win.mean())
            return Request(POSTERIOR_GAINS, context, state.picks, share=share)

        gain, square, estimate = np.zeros((3, *possible.shape))
        share = 0.0
        for parts in stages:
            found = yield ask(parts, squares=True)
            gain, square = gain + found["gain"], square + found["square"]
            share += len(parts) / N_PARTS
            estimate = np.where(may_win[:, None], gain / share, estimate)
            # The first term is the standard error of a sum over randomly drawn parts. The second
            # term is added below, because the rows differ between folds.
            error = DEVIATIONS * np.sqrt(square * (1 - share) / problem.total)
            error += DEVIATIONS * share * self._spread
            score = gain + share * (self._start_of(state)[:, None] - self._kind_penalty(state))
            low, high = (
                np.where(possible, score + sign * error, -np.inf).max(axis=1) for sign in (-1, 1)
            )
            least = np.sort(low[free & may_win])[-2:]
            may_win &= free & (high >= least.min(initial=np.inf))
            may_win[exact] = True
        rest = tuple(part for part in PARTS if not stages or part % N_FOLDS)
        gain = gain + (yield ask(rest, squares=False))["gain"]
        return np.where(may_win[:, None], gain, estimate), may_win

    def p_values(
        self, state: JointState, scores: JointScores
    ) -> Generator[Request, Partial, np.ndarray]:
        """Yield requests; return the p-value of every feature, (feature,).

        The test uses the residuals of the posterior given the picks of this epoch. With weights, it
        uses residuals even if there are no picks, because weights may depend on the class.
        """
        problem = self.problem
        if not state.rows and problem.evidence == 1:
            return marginal_p_values(problem)
        rows = scores.rows
        wanted = problem.candidates.copy()
        wanted[list(state.chosen)] = False
        context = self._context(state, rows, PARTS, wanted, squares=False)
        total = yield Request(RESIDUALS, context, state.picks)
        products = total["products"]
        m, n_strata = products.shape[:2]
        counts = np.zeros((m, n_strata, problem.table_width), np.int64)
        has_parent = state.pair_parent >= 0
        counts[:, 0] = problem.counts.sum(axis=(1, 2))
        if has_parent.any():
            counts[has_parent] = state.pair_counts[has_parent].sum(axis=(1, 3))
        found = Residuals(
            sums=total["sums"].reshape(m, n_strata, -1, problem.n_classes),
            products=products * problem.evidence,
            counts=counts,
            parents=state.pair_parent,
            n_parents=len(state.rows),
        )
        result = np.ones(m)
        result[wanted] = p_values(problem, found, np.flatnonzero(wanted))
        for each in state.coarse:  # the residuals within codes of one pick do not show two parents
            if rows.coarse_place[each.feature] >= 0:
                smaller = min(float(result[each.feature]), each.p_value)
                result[each.feature] = smaller * (2 - smaller)
        return result

    def adds(self, scores: JointScores) -> np.ndarray:
        """Return whether each feature has a positive gain after penalties, bool (feature,)."""
        return scores.net_gain > 0

    def _context(
        self,
        state: JointState,
        rows: CandidateRows,
        parts: tuple[int, ...],
        wanted: np.ndarray,
        *,
        squares: bool,
    ) -> GainsContext:
        return GainsContext(
            prior=self._prior,
            rows=state.rows,
            numbers=self.problem.filled[list(state.picks)],
            logistic=self._logistic,
            total=self.problem.total,
            parts=parts,
            squares=squares,
            candidates=rows,
            wanted=wanted,
        )

    def add(self, state: JointState, scores: JointScores, pick: int, subset: int) -> JointState:
        """Return the state after a feature has been chosen."""
        row = scores.rows.row(pick, KINDS[scores.kind[pick]], column=len(state.rows))
        ahead = scores.ahead
        return replace(
            state,
            chosen=(*state.chosen, pick),
            subsets=(*state.subsets, subset),
            planned=ahead.rest if ahead is not None and ahead.feature == pick else (),
            rows=(*state.rows, row),
            bound=state.bound + float(scores.row_gain[pick]),
            penalty=float(scores.charged[pick]),
            information=float(scores.information[pick]),
        )

    def restart(self, state: JointState, scores: JointScores) -> JointState:
        """Return the first state of a new epoch: without rows, but with subsets and affinities."""
        # a negative gain counts as 0, because a row with a negative gain would not be added
        earlier = state.earlier + np.maximum(scores.net_gain, 0.0)
        return replace(
            state,
            **self._new_epoch(),
            earlier=earlier,
            waiting=start_again(state.waiting),
            epoch=state.epoch + 1,
        )

    def _new_epoch(self) -> dict[str, Any]:
        """Return the values that some fields of the state have at the start of an epoch."""
        problem = self.problem
        width = problem.table_width
        shape = (problem.n_features, N_FOLDS, width, problem.n_classes, width)
        return {
            "rows": (),
            "pair_counts": np.broadcast_to(np.int64(0), shape),
            "pair_parent": np.full(problem.n_features, -1),
            "pair_gain": np.zeros(problem.n_features),
            "bound": 0.0,
            "penalty": 0.0,
            "information": 0.0,
            "coarse": (),
            "paired": 0,
        }

    def _start_of(self, state: JointState) -> np.ndarray:
        """Return the terms of the scores that do not depend on the rows of this epoch, (feature,).

        With groups, candidates have different selection penalties. The score of a candidate is
        reduced by the difference between its penalty and the smallest penalty.
        """
        penalty = self.pick_penalty(state)
        result: np.ndarray = state.earlier + HEAD_START * self.problem.relevance
        return result - (penalty - penalty.min())

    def pick_penalty(self, state: JointState) -> np.ndarray:
        """Return the selection penalty of each candidate if it is chosen, in nats, (feature,).

        The best of M noise features has a score that exceeds the mean of their scores by about
        log(M) divided by its effective number of samples. Without the penalty, this feature would
        seem to add information.
        """
        n_candidates = int(self.problem.usable.sum()) - len(state.chosen)
        result: np.ndarray = PENALTY * math.log(max(n_candidates, 1)) / self.problem.n_effective
        return result

    def _kind_penalty(self, state: JointState) -> np.ndarray:
        """Return the penalty of each kind of row of each candidate, in nats, (feature, kind).

        A row that is not a table was chosen from several alternatives: the kinds of rows and, for a
        pair or a coarse row, the possible parents. If k alternatives are noise, the score of the
        best one grows like log(k) divided by the effective number of samples.
        """
        n_rows = max(len(state.rows), 1)
        n_alternatives = np.full(len(KINDS), len(KINDS) - 1.0)  # few features have coarse rows
        n_alternatives[KINDS.index("table")] = 1
        n_alternatives[KINDS.index("pair")] *= n_rows
        n_alternatives[KINDS.index("coarse")] *= n_rows * (n_rows + 1) / 2
        result: np.ndarray = np.log(n_alternatives) / self.problem.n_effective[:, None]
        return result

    def _learn(
        self, state: JointState
    ) -> Generator[Request, Partial, tuple[JointState, np.ndarray]]:
        """Count the last pick with every feature; return the updated state and the counts.

        This updates affinities, Gram rows and the best parent of each feature.
        """
        problem, pick = self.problem, state.chosen[-1]
        counts = (yield count_pairs(problem, pick, by_fold=True))["counts"]
        measure = correlation if self.options.affinity == "correlation" else within_classes
        affinity = np.concatenate([state.affinity, measure(problem, counts, pick)[None]])
        redundancy = information(counts.sum(axis=(1, 3)))
        gram = gram_row(counts, problem.filled[pick], problem.filled)
        pairs = fit_pairs(problem, counts, self._tables)
        gain = parent_gain(counts, pairs, self._tables).sum(axis=1)
        better = gain > state.pair_gain
        pick_by = better[:, None, None, None, None]
        learned = replace(
            state,
            affinity=affinity,
            redundancy=np.concatenate([state.redundancy, redundancy[None]]),
            gram=np.concatenate([state.gram, gram[None]]),
            pair_counts=np.where(pick_by, counts, state.pair_counts),
            pair_parent=np.where(better, len(state.rows) - 1, state.pair_parent),
            pair_gain=np.where(better, gain, state.pair_gain),
        )
        return learned, counts

    def _fit(self, state: JointState) -> CandidateRows:
        """Return the rows of every candidate, fitted for each fold to the other folds."""
        problem = self.problem
        m, n_folds, c, b = problem.counts.shape
        parents = self._parents(state)
        truth = np.zeros((m, len(KINDS), n_folds))
        truth[:, 0] = mean_log(problem, self._tables)
        linear = self._linear_kinds(parents)
        rows = replace(
            CandidateRows.empty((m, n_folds, c, b), linear=linear, n_parents=parents.shape[1]),
            table=self._tables,
            values=problem.numbers,
            parents=parents,
            truth=truth,
        )
        if linear:
            moments = Moments.of(problem, state.gram[state.first :], state.picks)
            fits = [
                fit_linear(problem, moments, parents, kind == "class", self._logistic)
                for kind in linear
            ]
            tables = np.empty((m, len(linear), n_folds, c, b))
            for place, (kind, fit) in enumerate(zip(linear, fits, strict=True)):
                tables[:, place] = to_factors(np.log(self._tables) + fit.table)
                logs = mean_log(problem, tables[:, place])
                truth[:, KINDS.index(kind)] = logs * (parents[:, :1] >= 0)
            rows = replace(
                rows,
                linear_table=tables,
                slopes=np.stack([fit.slopes for fit in fits], axis=1),
                shifts=np.stack([fit.shifts for fit in fits], axis=1),
                scales=np.stack([fit.scales for fit in fits], axis=1),
            )
        if (state.pair_parent >= 0).any():
            pairs = fit_pairs(problem, state.pair_counts, self._tables)
            places = np.where(state.pair_parent >= 0, state.pair_parent + 1, -1)
            gains = parent_gain(state.pair_counts, pairs, self._tables)
            truth[:, KINDS.index("pair")] = (truth[:, 0] + gains) * (places > 0)[:, None]
            rows = replace(
                rows,
                pair_parents=places[:, None],
                pair_table=pairs.reshape(m, 1, n_folds, c, b * b),
            )
        of_coarse = truth[:, KINDS.index("coarse")]
        return with_coarse(problem, rows, state.coarse, state.picks, of_coarse)

    @property
    def _logistic(self) -> bool:
        return self.options.source == "logistic"

    @cached_property
    def _prior(self) -> np.ndarray:
        """The log prior probabilities of the classes, (class,)."""
        shares = self.problem.class_counts.sum(axis=0) / self.problem.total
        result: np.ndarray = np.log(np.maximum(shares, LEAST_SHARE))
        return result

    @cached_property
    def _tables(self) -> np.ndarray:
        return fit_tables(self.problem)

    @cached_property
    def _spread(self) -> np.ndarray:
        """How much the gain of a row differs between folds, as a standard deviation, (kind,).

        Out of sample, a fit of d parameters to n samples loses X / (2 n) nats, where X is a
        chi-square variable with d degrees of freedom. All table entries of a row are counted as
        parameters, which overestimates d.
        """
        n_classes, width = self.problem.n_classes, self.problem.table_width
        n_numbers = np.full(len(KINDS), float(n_classes * width))
        n_numbers[KINDS.index("pair")] *= width
        n_numbers[KINDS.index("coarse")] *= GROUPS**2
        n_fitted = self.problem.effective_size * (1 - 1 / N_FOLDS)
        result: np.ndarray = np.sqrt(n_numbers / 2) / n_fitted
        return result

    def _linear_kinds(self, parents: np.ndarray) -> tuple[str, ...]:
        """Return the kinds of linear rows to fit; none if no candidate has parents."""
        if not parents.shape[1]:
            return ()
        return tuple(kind for kind in ("shared", "class") if self.options.slopes in ("auto", kind))

    def _parents(self, state: JointState) -> np.ndarray:
        """Return the positions of the parents of each candidate's linear row, padded with -1."""
        problem = self.problem
        wanted = join(state.affinity, state.subsets, self.options.threshold)
        lists: list[list[int]] = [[] for _ in range(problem.n_features)]
        for place, pick in enumerate(state.picks):
            if problem.numeric[pick]:
                subset = state.subsets[state.first + place]
                for i in np.flatnonzero((wanted == subset) & problem.numeric):
                    lists[i].append(place)
        width = max((len(places) for places in lists), default=0)
        return np.array([places + [-1] * (width - len(places)) for places in lists], dtype=np.intp)
