"""HOFS with the criterion `joint`: a class-conditional posterior of all chosen features."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hofs_dask.config import HOFS
from hofs_dask.engine.statistic import Context, Partial, Pass
from hofs_dask.engine.statistics import (
    KINDS,
    N_FOLDS,
    PAIR_COUNTS,
    POSTERIOR_GAINS,
    PosteriorRow,
)
from hofs_dask.methods.affinity import correlation, gram_row, join, within_classes
from hofs_dask.methods.fits import Moments, fit_linear, fit_pairs, fit_tables, parent_gain
from hofs_dask.methods.problem import Problem, Scores, Sizes, empty

#: How many times the logarithm of the number of candidates a pick pays.
PRICE = 2.0


@dataclass(frozen=True)
class JointState:
    """What `joint` knows after some rounds."""

    chosen: tuple[int, ...]
    subsets: tuple[int, ...]
    affinity: np.ndarray  # (rank, feature), as many ranks as have been learned
    gram: np.ndarray  # (rank, feature, fold, class)
    rows: tuple[PosteriorRow, ...]  # of the picks of this epoch
    pair_counts: np.ndarray  # (feature, fold, parent code, class, code) with the best parent
    pair_parent: np.ndarray  # (feature,) the place of that parent in this epoch, -1 for none
    pair_gain: np.ndarray  # (feature,) what that parent adds to the feature's log-likelihood
    bound: float  # H(y) + mean log posterior of the true class
    paid: float  # the price of the picks of this epoch
    information: float  # the bound less the price, at least 0
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
            gram=np.zeros((0, n_features, *problem.class_counts.shape)),
            **self._fresh(),
            epoch=0,
        )

    @staticmethod
    def largest_passes(sizes: Sizes) -> tuple[Pass, ...]:
        """The passes that take most memory, with arrays of the right sizes and no content."""
        m, c, b, k = sizes.n_features, sizes.n_classes, sizes.n_codes, sizes.n_picks
        table, row = empty(m, N_FOLDS, c, b), empty(m, N_FOLDS, c)
        candidates = {
            "values": empty(m, b),
            "table": table,
            "parents": empty(m, k),
            "pair_parent": empty(m),
            "pair_table": empty(m, N_FOLDS, c, b, b),
        }
        for kind in ("shared", "class"):
            candidates[f"{kind}_table"] = table
            candidates[f"{kind}_slopes"] = empty(m, N_FOLDS, c, k)
            candidates[f"{kind}_shifts"] = candidates[f"{kind}_scales"] = row
        rows = empty(k, N_FOLDS, c, b, b)
        shared = {"n_classes": c, "n_codes": b, "by_fold": True}
        return (
            Pass(PAIR_COUNTS, Context(shared), (0,)),
            Pass(POSTERIOR_GAINS, Context({"rows": rows}, candidates), tuple(range(k))),
        )

    def score(self, state: JointState) -> Generator[Pass, Partial, tuple[JointState, Scores]]:
        """The state with what it had to learn, and the scores of every feature."""
        if len(state.affinity) < len(state.chosen):
            state = yield from self._learn(state)
        candidates = self._fit(state)
        shares = self.problem.class_counts.sum(axis=0) / self.problem.n_samples
        columns = state.chosen[state.first :]
        shared = {
            "prior": np.log(shares),
            "rows": state.rows,
            "numbers": np.nan_to_num(self.problem.numbers[list(columns)]),
            "logistic": self.options.source == "logistic",
            "n_samples": self.problem.n_samples,
        }
        means = yield Pass(POSTERIOR_GAINS, Context(shared, candidates), columns)
        gain, kind = self._choose_kind(means["gain"], candidates)
        bound = state.bound + gain
        information = np.maximum(bound - state.paid - self._price(state), 0.0)
        return state, Scores(bound, information, (candidates, kind))

    def add(self, state: JointState, scores: Scores, pick: int, subset: int) -> JointState:
        """The state after a feature has been chosen."""
        candidates, kinds = scores.detail
        row = self._row(state, candidates, KINDS[kinds[pick]], pick)
        return replace(
            state,
            chosen=(*state.chosen, pick),
            subsets=(*state.subsets, subset),
            rows=(*state.rows, row),
            bound=float(scores.score[pick]),
            paid=state.paid + self._price(state),
            information=float(scores.information[pick]),
        )

    def restart(self, state: JointState) -> JointState:
        """The state with a fresh posterior; subsets and affinities stay."""
        return replace(state, **self._fresh(), epoch=state.epoch + 1)

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

    def _price(self, state: JointState) -> float:
        """What the choice of one of many costs, in nats a sample.

        The best of M scores that say nothing is above their mean by the logarithm of M, about,
        over the number of samples: without this price noise would add up to information.
        """
        n_candidates = int(self.problem.usable.sum()) - len(state.chosen)
        return PRICE * math.log(max(n_candidates, 1)) / self.problem.n_samples

    def _learn(self, state: JointState) -> Generator[Pass, Partial, JointState]:
        """Count the last pick against every feature: affinities, Gram row, closest picks."""
        problem, pick = self.problem, state.chosen[-1]
        shared = {
            "n_classes": problem.n_classes,
            "n_codes": problem.table_width,
            "by_fold": True,
        }
        counts = (yield Pass(PAIR_COUNTS, Context(shared), (pick,)))["counts"]
        measure = correlation if self.options.affinity == "correlation" else within_classes
        affinity = np.concatenate([state.affinity, measure(problem, counts, pick)[None]])
        numbers = np.nan_to_num(problem.numbers)
        gram = gram_row(counts, numbers[pick], numbers)
        pairs = fit_pairs(counts, self._tables, problem.n_codes)
        gain = parent_gain(counts, pairs, self._tables)
        better = gain > state.pair_gain
        pick_by = better[:, None, None, None, None]
        return replace(
            state,
            affinity=affinity,
            gram=np.concatenate([state.gram, gram[None]]),
            pair_counts=np.where(pick_by, counts, state.pair_counts),
            pair_parent=np.where(better, len(state.rows) - 1, state.pair_parent),
            pair_gain=np.where(better, gain, state.pair_gain),
        )

    def _fit(self, state: JointState) -> dict[str, np.ndarray]:
        """The rows of every candidate, fitted without each fold in turn."""
        problem = self.problem
        candidates = {
            "values": problem.numbers,
            "table": np.log(self._tables),
            "parents": self._parents(state),
        }
        if candidates["parents"].shape[1]:
            moments = Moments.of(problem, state.gram[state.first :], state.chosen[state.first :])
            for kind in ("shared", "class"):
                if self.options.slopes in ("auto", kind):
                    logistic = self.options.source == "logistic"
                    fitted = fit_linear(
                        problem, moments, candidates["parents"], kind == "class", logistic
                    )
                    for name, array in fitted.items():
                        candidates[f"{kind}_{name}"] = array
                    candidates[f"{kind}_table"] += candidates["table"]
        if (state.pair_parent >= 0).any():
            pairs = fit_pairs(state.pair_counts, self._tables, problem.n_codes)
            candidates["pair_parent"] = state.pair_parent
            candidates["pair_table"] = np.log(pairs)
        return candidates

    @cached_property
    def _tables(self) -> np.ndarray:
        return fit_tables(self.problem)

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
            return PosteriorRow(kind, column, np.zeros(0, np.intp), candidates["table"][pick])
        if kind == "pair":
            parents = state.pair_parent[[pick]]
            return PosteriorRow(kind, column, parents, candidates["pair_table"][pick])
        parents = candidates["parents"][pick]
        parents = parents[parents >= 0]
        return PosteriorRow(
            kind,
            column,
            parents,
            candidates[f"{kind}_table"][pick],
            candidates["values"][pick],
            candidates[f"{kind}_slopes"][pick][..., : len(parents)],
            candidates[f"{kind}_shifts"][pick],
            candidates[f"{kind}_scales"][pick],
        )

    def _choose_kind(
        self, gain: np.ndarray, candidates: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The gain of every candidate's best kind of row, and the number of that kind."""
        possible = np.zeros(gain.shape, dtype=bool)
        possible[:, 0] = True
        if candidates["parents"].shape[1]:
            has_parents = candidates["parents"][:, 0] >= 0
            for kind in ("shared", "class"):
                if f"{kind}_table" in candidates:
                    possible[:, KINDS.index(kind)] = has_parents
        if "pair_table" in candidates:
            possible[:, KINDS.index("pair")] = candidates["pair_parent"] >= 0
        gain = np.where(possible, gain, -np.inf)
        kind = gain.argmax(axis=1)
        return gain[np.arange(len(gain)), kind], kind
