"""HOFS with the criterion `joint`: a class-conditional posterior of all chosen features."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hofs_dask.engine.counts import PAIR_COUNTS
from hofs_dask.engine.posteriors import KINDS, POSTERIOR_GAINS, PosteriorRow
from hofs_dask.engine.reduction import N_FOLDS, N_PARTS, Context, Partial, Request
from hofs_dask.kernels.entropy import information
from hofs_dask.methods.affinity import correlation, gram_row, join, within_classes
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
from hofs_dask.methods.options import HOFS
from hofs_dask.methods.problem import Problem, Scores, Sizes, count_pairs, empty

#: What a class without samples, which a resample may have, counts as.
LEAST_SHARE = 1e-300
#: How many times the logarithm of the number of candidates a pick pays.
PENALTY = 2.0
#: What of its relevance a candidate is given: rows of noise say exactly nothing, and of features
#: that add the same the more relevant one shall come first.
HEAD_START = 1e-6
#: Standard deviations that a mean over some parts may be off by: a normal one is once in 10^9.
DEVIATIONS = 6.0
#: Samples that a reduction goes through in the time that a cell of counts takes, about.
CELL_SAMPLES = 8
PARTS = tuple(range(N_PARTS))
#: The parts of the first fold: a piece of one fold is as long as can be.
FIRST_FOLD = PARTS[::N_FOLDS]
#: From so many samples on, candidates that cannot win are found by the first fold, and by one part
#: of it before: a further scan has to be worth what it costs.
STAGED, STAGED_TWICE = 100_000, 500_000


@dataclass(frozen=True)
class JointState:
    """What `joint` knows after some rounds."""

    chosen: tuple[int, ...]
    subsets: tuple[int, ...]
    affinity: np.ndarray  # (rank, feature), as many ranks as have been learned
    redundancy: np.ndarray  # (rank, feature) I(x_i : pick)
    gram: np.ndarray  # (rank, feature, fold, class)
    rows: tuple[PosteriorRow, ...]  # of the picks of this epoch
    pair_counts: np.ndarray  # (feature, fold, parent code, class, code) with the best parent
    pair_parent: np.ndarray  # (feature,) the place of that parent in this epoch, -1 for none
    pair_gain: np.ndarray  # (feature,) what that parent adds to the feature's log-likelihood
    bound: float  # H(y) + mean log posterior of the true class
    paid: float  # the penalty of the picks of this epoch
    information: float  # the bound less the penalty, at least 0
    earlier: np.ndarray  # (feature,) what each would add to the ends of the earlier epochs, summed
    epoch: int

    @property
    def first(self) -> int:
        """The rank of the first pick of this epoch."""
        return len(self.chosen) - len(self.rows)


@dataclass(frozen=True)
class Joint:
    """The criterion ``H(y) + mean(log posterior of the true class)``, cross-fitted."""

    problem: Problem
    options: HOFS
    restart_gain: float | None = 1e-3

    def start(self) -> JointState:
        """The state before the first round."""
        problem = self.problem
        n_features = problem.n_features
        return JointState(
            chosen=(),
            subsets=(),
            affinity=np.zeros((0, n_features)),
            redundancy=np.zeros((0, n_features)),
            gram=np.zeros((0, n_features, *problem.class_counts.shape)),
            **self._fresh(),
            earlier=np.zeros(n_features),
            epoch=0,
        )

    @staticmethod
    def largest_requests(sizes: Sizes, _options: HOFS) -> tuple[Request, ...]:
        """The reductions that take most memory, with arrays of the right sizes and no content."""
        m, c, b, k = sizes.n_features, sizes.n_classes, sizes.n_codes, sizes.n_picks
        candidates = {
            "table": empty(m, N_FOLDS, c, b),
            "linear_table": empty(m, 2, N_FOLDS, c, b),
            "slopes": empty(m, 2, N_FOLDS, c, k),
            "shifts": empty(m, 2, N_FOLDS, c),
            "scales": empty(m, 2, N_FOLDS, c),
            "pair_table": empty(m, 1, N_FOLDS, c, b * b),
        }
        rows = empty(k, N_FOLDS, c, b * b)
        shared = {"n_classes": c, "n_codes": b, "by_fold": True}
        return (
            Request(PAIR_COUNTS, Context(shared), (0,)),
            Request(POSTERIOR_GAINS, Context({"rows": rows}, candidates), tuple(range(k))),
        )

    def score(self, state: JointState) -> Generator[Request, Partial, tuple[JointState, Scores]]:
        """The state with what it had to learn, and the scores of every feature."""
        counts = self.problem.counts[:, :, None]  # with no pick; of the last one below
        if len(state.affinity) < len(state.chosen):
            state, counts = yield from self._learn(state)
        candidates = self._fit(state)
        shares = self.problem.class_counts.sum(axis=0) / self.problem.n_samples
        prior = np.log(np.maximum(shares, LEAST_SHARE))
        columns = state.chosen[state.first :]
        logistic = self.options.source == "logistic"
        linear = self._linear_kinds(candidates["parents"])
        may_win = np.ones(self.problem.n_features, np.bool_)
        n_cells = counts[0].size
        if len(state.rows) <= 1 and CELL_SAMPLES * n_cells <= self.problem.n_samples:
            posterior = np.broadcast_to(prior[:, None], (N_FOLDS, *prior.shape, 1))
            for row in state.rows:  # the first of an epoch is a table
                posterior = posterior + row.table[0]
            numbers = self.problem.filled[columns[0]] if columns else np.zeros(1)
            assert counts.shape[2] == len(numbers)  # they are those of the one pick
            gains = gains_on_counts(counts, posterior, candidates, linear, numbers, logistic)
        else:
            shared = {
                "prior": prior,
                "rows": state.rows,
                "numbers": self.problem.filled[list(columns)],
                "logistic": logistic,
                "linear": linear,
                "n_samples": self.problem.n_samples,
            }
            gains, may_win = yield from self._gains(state, shared, candidates, columns)
        gain, kind = self._choose_kind(state, gains, candidates)
        bound = state.bound + gain
        known = np.maximum(bound - state.paid - self._penalty(state), 0.0)
        score = np.where(may_win, bound + self._start_of(state), -np.inf)
        return state, Scores(score, known, known - state.information, (candidates, kind, gain))

    def _gains(
        self,
        state: JointState,
        shared: dict[str, Any],
        candidates: dict[str, np.ndarray],
        columns: tuple[int, ...],
    ) -> Generator[Request, Partial, tuple[np.ndarray, np.ndarray]]:
        """What each kind of row of each candidate gains, and which candidates may win.

        Of many samples some parts are summed up for all candidates, and the others for those that
        may still be the best or the second. The gains of those that may not are estimates.
        """
        problem, n_samples = self.problem, self.problem.n_samples
        stages = []
        if n_samples >= STAGED:
            cut = 1 if n_samples >= STAGED_TWICE else len(FIRST_FOLD)
            stages = [parts for parts in (FIRST_FOLD[:cut], FIRST_FOLD[cut:]) if parts]
        free = problem.candidates.copy()
        free[list(state.chosen)] = False
        forced = [pick for pick in problem.included if pick not in state.chosen]
        possible = self._possible(state, candidates)
        may_win = np.ones(problem.n_features, np.bool_)

        def ask(parts: tuple[int, ...], truth: np.ndarray, *, squares: bool) -> Request:
            own = {**candidates, "wanted": may_win, "truth": truth}
            context = Context({**shared, "parts": parts, "squares": squares}, own)
            share = len(parts) / N_PARTS * float(may_win.mean())
            return Request(POSTERIOR_GAINS, context, columns, share=share)

        gain, square, estimate = np.zeros((3, *possible.shape))
        share = 0.0
        for parts in stages:
            found = yield ask(parts, np.zeros(possible.shape), squares=True)
            gain, square = gain + found["gain"], square + found["square"]
            share += len(parts) / N_PARTS
            estimate = np.where(may_win[:, None], gain / share, estimate)
            # a part has each sample by chance: the variance of its sum over the chance is this;
            # and the rows of its fold are not those of the others
            error = DEVIATIONS * np.sqrt(square * (1 - share) / n_samples)
            error += DEVIATIONS * share * self._spread
            score = gain + share * self._start_of(state)[:, None]
            low, high = (
                np.where(possible, score + sign * error, -np.inf).max(axis=1) for sign in (-1, 1)
            )
            least = np.sort(low[free & may_win])[-2:]
            may_win &= free & (high >= least.min(initial=np.inf))
            may_win[forced] = True
        rest = [fold for fold in range(N_FOLDS) if not stages or fold]
        parts = tuple(part for part in PARTS if part % N_FOLDS in rest)
        truth = candidates["truth"][..., rest].sum(axis=-1)
        gain = gain + (yield ask(parts, truth, squares=False))["gain"]
        return np.where(may_win[:, None], gain, estimate), may_win

    def add(self, state: JointState, scores: Scores, pick: int, subset: int) -> JointState:
        """The state after a feature has been chosen."""
        candidates, kinds, gain = scores.detail
        row = self._row(state, candidates, KINDS[kinds[pick]], pick)
        return replace(
            state,
            chosen=(*state.chosen, pick),
            subsets=(*state.subsets, subset),
            rows=(*state.rows, row),
            bound=state.bound + float(gain[pick]),
            paid=state.paid + self._penalty(state),
            information=float(scores.information[pick]),
        )

    def restart(self, state: JointState, scores: Scores) -> JointState:
        """The state with a fresh posterior; subsets, affinities and the last gains stay."""
        # a row that does harm would be left out
        earlier = state.earlier + np.maximum(scores.detail[2], 0.0)
        return replace(state, **self._fresh(), earlier=earlier, epoch=state.epoch + 1)

    def _fresh(self) -> dict[str, Any]:
        """What an epoch begins with: no rows, no parents, nothing known, nothing paid."""
        problem = self.problem
        width = problem.table_width
        shape = (problem.n_features, N_FOLDS, width, problem.n_classes, width)
        return {
            "rows": (),
            "pair_counts": np.broadcast_to(np.int64(0), shape),
            "pair_parent": np.full(problem.n_features, -1),
            "pair_gain": np.zeros(problem.n_features),
            "bound": 0.0,
            "paid": 0.0,
            "information": 0.0,
        }

    def _start_of(self, state: JointState) -> np.ndarray:
        """What the scores of candidates begin with, before they add anything to this epoch."""
        result: np.ndarray = state.earlier + HEAD_START * self.problem.relevance
        return result

    def _penalty(self, state: JointState) -> float:
        """What the choice of one of many costs, in nats a sample.

        The best of M scores that say nothing is above their mean by the logarithm of M, about,
        over the number of samples: without this penalty noise would add up to information.
        """
        n_candidates = int(self.problem.usable.sum()) - len(state.chosen)
        return PENALTY * math.log(max(n_candidates, 1)) / self.problem.n_samples

    def _learn(
        self, state: JointState
    ) -> Generator[Request, Partial, tuple[JointState, np.ndarray]]:
        """Count the last pick against every feature: affinities, Gram row, closest picks.

        With the state go the counts.
        """
        problem, pick = self.problem, state.chosen[-1]
        counts = (yield count_pairs(problem, pick, by_fold=True))["counts"]
        measure = correlation if self.options.affinity == "correlation" else within_classes
        affinity = np.concatenate([state.affinity, measure(problem, counts, pick)[None]])
        redundancy = information(counts.sum(axis=(1, 3)))
        gram = gram_row(counts, problem.filled[pick], problem.filled)
        pairs = fit_pairs(counts, self._tables, problem.n_codes)
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

    def _fit(self, state: JointState) -> dict[str, np.ndarray]:
        """The rows of every candidate, fitted without each fold in turn."""
        problem = self.problem
        m, n_folds, c, b = problem.counts.shape
        parents = self._parents(state)
        truth = np.zeros((m, len(KINDS), n_folds))
        truth[:, 0] = mean_log(problem, self._tables)
        kinds = self._linear_kinds(parents)
        fits = []
        if kinds:
            moments = Moments.of(problem, state.gram[state.first :], state.chosen[state.first :])
            logistic = self.options.source == "logistic"
            fits = [fit_linear(problem, moments, parents, k == "class", logistic) for k in kinds]
        tables = np.empty((m, len(kinds), n_folds, c, b))
        for place, (kind, fit) in enumerate(zip(kinds, fits, strict=True)):
            tables[:, place] = to_factors(np.log(self._tables) + fit.table)
            logs = mean_log(problem, tables[:, place])
            truth[:, KINDS.index(kind)] = logs * (parents[:, :1] >= 0)
        shape = (m, len(kinds), n_folds, c)
        candidates = {
            "table": self._tables,
            "values": problem.numbers,
            "parents": parents,
            "linear_table": tables,
            "slopes": _stacked([fit.slopes for fit in fits], (*shape, parents.shape[1])),
            "shifts": _stacked([fit.shifts for fit in fits], shape),
            "scales": _stacked([fit.scales for fit in fits], shape),
            "pair_parents": np.zeros((m, 0), np.intp),
            "pair_table": np.zeros((m, 0, n_folds, c, b * b)),
            "truth": truth,
        }
        if (state.pair_parent >= 0).any():
            pairs = fit_pairs(state.pair_counts, self._tables, problem.n_codes)
            places = np.where(state.pair_parent >= 0, state.pair_parent + 1, -1)
            candidates["pair_parents"] = places[:, None]
            candidates["pair_table"] = pairs.reshape(m, 1, n_folds, c, b * b)
            gains = parent_gain(state.pair_counts, pairs, self._tables)
            truth[:, KINDS.index("pair")] = (truth[:, 0] + gains) * (places > 0)[:, None]
        return candidates

    @cached_property
    def _tables(self) -> np.ndarray:
        return fit_tables(self.problem)

    @cached_property
    def _spread(self) -> np.ndarray:
        """How far the fits of two folds may make a gain differ, (kind,): a standard deviation.

        A fit of d numbers to n samples loses, out of sample, half a chi-square of d over n. All
        that is counted of a row is taken for such a number, which is more than there are.
        """
        n_classes, width = self.problem.n_classes, self.problem.table_width
        n_numbers = np.full(len(KINDS), float(n_classes * width))
        n_numbers[KINDS.index("pair")] *= width
        n_fitted = self.problem.n_samples * (1 - 1 / N_FOLDS)
        result: np.ndarray = np.sqrt(n_numbers / 2) / n_fitted
        return result

    def _linear_kinds(self, parents: np.ndarray) -> tuple[str, ...]:
        """The kinds of linear rows that there are, given the parents of each candidate."""
        if not parents.shape[1]:
            return ()
        return tuple(kind for kind in ("shared", "class") if self.options.slopes in ("auto", kind))

    def _parents(self, state: JointState) -> np.ndarray:
        """The places of the parents of each candidate's linear row, padded with -1."""
        problem = self.problem
        wanted = join(state.affinity, state.subsets, self.options.threshold)
        lists: list[list[int]] = [[] for _ in range(problem.n_features)]
        for place, pick in enumerate(state.chosen[state.first :]):
            if problem.numeric[pick]:
                subset = state.subsets[state.first + place]
                for i in np.flatnonzero((wanted == subset) & problem.numeric):
                    lists[i].append(place)
        width = max((len(places) for places in lists), default=0)
        return np.array([places + [-1] * (width - len(places)) for places in lists], dtype=np.intp)

    def _row(
        self, state: JointState, candidates: dict[str, np.ndarray], kind: str, pick: int
    ) -> PosteriorRow:
        """The row of one kind of one candidate, as the posterior keeps it."""
        column = len(state.rows)
        if kind == "table":
            table = np.log(candidates["table"][[pick]])
            return PosteriorRow(kind, column, np.zeros(0, np.intp), table)
        if kind == "pair":
            table = np.log(candidates["pair_table"][pick])
            return PosteriorRow(kind, column, state.pair_parent[[pick]], table)
        parents = candidates["parents"][pick]
        parents = parents[parents >= 0]
        place = self._linear_kinds(candidates["parents"]).index(kind)
        return PosteriorRow(
            kind,
            column,
            parents,
            np.log(candidates["linear_table"][pick, [place]]),
            candidates["values"][pick].copy(),
            candidates["slopes"][pick, place, ..., : len(parents)].copy(),
            candidates["shifts"][pick, place].copy(),
            candidates["scales"][pick, place].copy(),
        )

    def _choose_kind(
        self, state: JointState, gain: np.ndarray, candidates: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The gain of every candidate's best kind of row, and the number of that kind."""
        gain = np.where(self._possible(state, candidates), gain, -np.inf)
        kind = gain.argmax(axis=1)
        return gain[np.arange(len(gain)), kind], kind

    def _possible(self, state: JointState, candidates: dict[str, np.ndarray]) -> np.ndarray:
        """The kinds of rows that each candidate has, (feature, kind)."""
        possible = np.zeros((self.problem.n_features, len(KINDS)), dtype=bool)
        possible[:, 0] = True
        for kind in self._linear_kinds(candidates["parents"]):
            possible[:, KINDS.index(kind)] = candidates["parents"][:, 0] >= 0
        possible[:, KINDS.index("pair")] = state.pair_parent >= 0
        return possible


def _stacked(arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The arrays along a second axis, of this shape where there are none."""
    return np.stack(arrays, axis=1) if arrays else np.zeros(shape)
