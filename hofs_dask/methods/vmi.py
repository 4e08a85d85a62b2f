"""VMI: variational information maximisation (Gao, Ver Steeg & Galstyan 2016)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hofs_dask.engine.counts import PAIR_COUNTS
from hofs_dask.engine.posteriors import KINDS, POSTERIOR_GAINS, PosteriorRow
from hofs_dask.engine.reduction import N_PARTS, Context, Partial, Request
from hofs_dask.kernels.entropy import information
from hofs_dask.methods.affinity import correlation
from hofs_dask.methods.options import VMI
from hofs_dask.methods.pairwise import Pairwise, learn
from hofs_dask.methods.problem import Problem, Scores, Sizes, count_pairs, empty


@dataclass(frozen=True)
class VMIState:
    """What VMI knows after some rounds."""

    chosen: tuple[int, ...]
    subsets: tuple[int, ...]
    affinity: np.ndarray  # (rank, feature), as many ranks as have been learned
    redundancy: np.ndarray  # (rank, feature) I(x_i : pick)
    rows: tuple[PosteriorRow, ...]  # of the picks of this epoch
    pair_logs: np.ndarray  # (place, feature, class, cell) log p(code | code of the pick, class)
    pair_truth: np.ndarray  # (place, feature) the mean of it for the true class
    information: float  # H(y) + mean log posterior of the true class
    epoch: int

    @property
    def picks(self) -> tuple[int, ...]:
        """The picks of this epoch."""
        return self.chosen[len(self.chosen) - len(self.rows) :]


@dataclass(frozen=True)
class VariationalInformation:
    """The bound ``H(y) + mean(log posterior of the true class)`` with unsmoothed tables, in sample.

    The rows of the posterior are ``p(x_i|c)`` (naive), or the geometric mean of ``p(x_i|x_j,c)``
    over the picks j of this epoch (pairwise); the first of an epoch is ``p(x_i|c)`` in both.
    """

    problem: Problem
    options: VMI

    @property
    def restart_gain(self) -> float:
        """A best gain below this starts a new epoch."""
        return self.options.restart

    def start(self) -> VMIState:
        """The state before the first round."""
        none = np.zeros((0, self.problem.n_features))
        return VMIState((), (), none, none, **self._fresh(), epoch=0)

    @staticmethod
    def largest_requests(sizes: Sizes, options: VMI) -> tuple[Request, ...]:
        """The reductions that take most memory, with arrays of the right sizes and no content."""
        m, c, b, k = sizes.n_features, sizes.n_classes, sizes.n_codes, sizes.n_picks
        counted = Pairwise.largest_requests(sizes, options)
        candidates, rows = {"table": empty(m, 1, c, b)}, empty(k, c, b)
        if options.form == "pairwise":
            shared = {"n_classes": c, "n_codes": b, "by_fold": False}
            counted = (Request(PAIR_COUNTS, Context(shared), (0,)),)
            candidates["pair_table"] = empty(m, k, 1, c, b * b)
            rows = empty(k, k, c, b * b)
        context = Context({"rows": rows}, candidates)
        return (*counted, Request(POSTERIOR_GAINS, context, tuple(range(k))))

    def score(self, state: VMIState) -> Generator[Request, Partial, tuple[VMIState, Scores]]:
        """The state with what it had to learn, and the scores of every feature."""
        if len(state.affinity) < len(state.chosen):
            state = yield from self._learn(state)
        problem, picks = self.problem, state.picks
        shared = {
            "prior": _log(problem.class_counts.sum(axis=0) / problem.n_samples),
            "rows": state.rows,
            "numbers": problem.filled[list(picks)],
            "logistic": True,
            "linear": (),
            "parts": tuple(range(N_PARTS)),
            "squares": False,
            "n_samples": problem.n_samples,
        }
        candidates = self._candidates(state)
        gain = (yield Request(POSTERIOR_GAINS, Context(shared, candidates), picks))["gain"]
        kind = "pair" if len(state.pair_logs) else "table"
        bound = state.information + gain[:, KINDS.index(kind)]
        return state, Scores(bound, bound, bound - state.information)

    def add(self, state: VMIState, scores: Scores, pick: int, subset: int) -> VMIState:
        """The state after a feature has been chosen."""
        column = len(state.rows)
        n_pairs = len(state.pair_logs)
        row = PosteriorRow("table", column, np.zeros(0, np.intp), _log(self._tables()[[pick]]))
        if n_pairs:
            table = state.pair_logs[:, pick, None] / n_pairs
            row = PosteriorRow("pair", column, np.arange(n_pairs), table)
        return replace(
            state,
            chosen=(*state.chosen, pick),
            subsets=(*state.subsets, subset),
            rows=(*state.rows, row),
            information=float(scores.information[pick]),
        )

    def restart(self, state: VMIState, _scores: Scores) -> VMIState:
        """The state with a fresh posterior; subsets and affinities stay."""
        return replace(state, **self._fresh(), epoch=state.epoch + 1)

    def _fresh(self) -> dict[str, Any]:
        """What an epoch begins with."""
        m, _, c, b = self.problem.counts.shape
        return {
            "rows": (),
            "pair_logs": np.zeros((0, m, c, b * b)),
            "pair_truth": np.zeros((0, m)),
            "information": 0.0,
        }

    def _learn(self, state: VMIState) -> Generator[Request, Partial, VMIState]:
        """Count the last pick against every feature."""
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
        """p(code | class) of every feature, (feature, 1, class, code)."""
        counts = self.problem.counts.sum(axis=1, keepdims=True)
        result: np.ndarray = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
        return result

    def _candidates(self, state: VMIState) -> dict[str, np.ndarray]:
        """The rows of every candidate."""
        problem = self.problem
        m, _, c, b = problem.counts.shape
        n_pairs = len(state.pair_logs)
        tables = self._tables()
        truth = np.zeros((m, len(KINDS)))
        truth[:, 0] = _mean_log(problem.counts.sum(axis=1), _log(tables[:, 0]))
        pairs = np.zeros((m, 0, c, b * b))
        if n_pairs:
            truth[:, KINDS.index("pair")] = state.pair_truth.mean(axis=0)
            pairs = np.exp(state.pair_logs / n_pairs).swapaxes(0, 1)
        no_rows = np.zeros((m, 0, 1, c))
        return {
            "table": tables,
            "values": problem.numbers,
            "parents": np.zeros((m, 0), np.intp),
            "linear_table": np.zeros((m, 0, 1, c, b)),
            "slopes": no_rows[..., None],
            "shifts": no_rows,
            "scales": no_rows,
            "pair_parents": np.tile(np.arange(1, n_pairs + 1), (m, 1)),
            "pair_table": np.ascontiguousarray(pairs)[:, :, None],
            "truth": truth,
            "wanted": np.ones(m, np.bool_),
        }


def _log(shares: np.ndarray) -> np.ndarray:
    """The logs, minus infinity of zero."""
    with np.errstate(divide="ignore"):
        result: np.ndarray = np.log(shares)
    return result


def _mean_log(counts: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """The mean log (feature, class, cell) of the true class, (feature,): where nothing is, 0."""
    products = counts * np.where(counts > 0, logs, 0.0)
    result: np.ndarray = products.sum(axis=(1, 2)) / counts[0].sum()
    return result
