"""The greedy loop: score, choose, assign, add."""

from __future__ import annotations

import json
from collections.abc import Generator, Hashable, Sequence
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np

from hofs_dask.config import HOFS
from hofs_dask.data.codes import CodeStore
from hofs_dask.engine.passes import drive, run
from hofs_dask.engine.statistic import Context, Partial, Pass
from hofs_dask.engine.statistics import MARGINAL_COUNTS
from hofs_dask.errors import some_of
from hofs_dask.methods.affinity import join
from hofs_dask.methods.joint import Joint
from hofs_dask.methods.problem import Problem, Scores
from hofs_dask.methods.total import Total
from hofs_dask.selection import Pick, Selection

#: Scores closer than this, relative to the best, are a tie: the lowest column wins.
TIE = 1e-9


class Search(Protocol):
    """A method at work on a problem. States are frozen; every call returns a new one."""

    @property
    def restart_gain(self) -> float | None:
        """A best gain below this starts a new epoch; None for never."""

    def start(self) -> Any:
        """The state before the first round."""

    def score(self, state: Any) -> Generator[Pass, Partial, tuple[Any, Scores]]:
        """The state with what it had to learn, and the scores of every feature."""

    def add(self, state: Any, scores: Scores, pick: int, subset: int, /) -> Any:
        """The state after a feature has been chosen."""

    def restart(self, state: Any) -> Any:
        """The state of a new epoch."""


def search(
    codes: CodeStore,
    method: HOFS,
    n_features: int,
    *,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    min_gain: float | None = None,
) -> Selection:
    """The ranked selection of `n_features` features of a code store.

    Parameters
    ----------
    codes
        The store, with the labels to select for.
    method
        A method object.
    n_features
        How many features to choose.
    include, exclude
        Columns that come first, in this order, and columns that are never chosen.
    min_gain
        Stop when the best feature gains less than this, in nats.
    """
    problem = describe(codes)
    candidates = problem.usable.copy()
    candidates[list(exclude)] = False
    _check_request(codes.names, problem, candidates, n_features, include)
    work: Search = (Joint if method.criterion == "joint" else Total)(problem, method)
    state = work.start()
    picks: list[Pick] = []
    fresh = True
    while len(picks) < n_features:
        forced = len(picks) < len(include)
        state, scores = drive(codes, work.score(state))
        best, runner_up = choose(scores.score, candidates)
        pick = include[len(picks)] if forced else best
        gain = float(scores.information[pick]) - state.information
        if not (forced or fresh):
            if min_gain is not None:
                if gain < min_gain:
                    break
            elif work.restart_gain is not None and gain < work.restart_gain:
                state, fresh = work.restart(state), True
                continue
        other = best if pick != best else runner_up
        subset = int(join(state.affinity[:, [pick]], state.subsets, method.threshold)[0])
        picks.append(
            Pick(
                index=pick,
                subset=subset,
                score=float(scores.score[pick]),
                gain=gain,
                information=float(scores.information[pick]),
                margin=float(scores.score[pick] - scores.score[other]) if other >= 0 else np.nan,
                runner_up=other,
                epoch=state.epoch,
                forced=forced,
            )
        )
        state, fresh = work.add(state, scores, pick, subset), False
        candidates[pick] = False
    return Selection.from_picks(
        picks,
        names=codes.names,
        relevance=problem.relevance,
        usable=problem.usable,
        attrs={
            "method": "hofs",
            "options": json.dumps(method.options),
            "target": codes.labels.name,
            "target_kind": codes.labels.kind,
            "n_samples": problem.n_samples,
            "n_dropped": codes.labels.n_dropped,
            "n_classes": problem.n_classes,
            "label_entropy": problem.label_entropy,
            "fingerprint": codes.fingerprint,
            "hofs_dask_version": version("hofs-dask"),
        },
    )


def describe(codes: CodeStore) -> Problem:
    """The problem of a code store: its tables, and one pass that counts every feature."""
    shared = {"n_classes": len(codes.labels.classes), "n_codes": int(codes.n_codes.max())}
    counts = run(codes, Pass(MARGINAL_COUNTS, Context(shared)))["counts"]
    return Problem(
        n_codes=codes.n_codes,
        missing_code=codes.missing_code,
        nominal=codes.nominal,
        values=codes.values,
        counts=counts,
        label_kind=codes.labels.kind,
        label_values=codes.labels.values,
    )


def choose(score: np.ndarray, candidates: np.ndarray) -> tuple[int, int]:
    """The best candidate and the runner-up, -1 for none; ties go to the lowest column.

    Examples
    --------
    >>> choose(np.array([0.1, 0.5, 0.5]), np.array([True, True, True]))
    (1, 2)
    """
    best = _first_of_the_best(score, candidates)
    rest = candidates.copy()
    if best >= 0:
        rest[best] = False
    return best, _first_of_the_best(score, rest)


def _first_of_the_best(score: np.ndarray, candidates: np.ndarray) -> int:
    if not candidates.any():
        return -1
    top = score[candidates].max()
    return int(np.flatnonzero(candidates & (score >= top - TIE * max(abs(top), TIE)))[0])


def _check_request(
    names: Sequence[Hashable],
    problem: Problem,
    candidates: np.ndarray,
    n_features: int,
    include: Sequence[int],
) -> None:
    constant = [name for name, usable in zip(names, problem.usable, strict=True) if not usable]
    for pick in include:
        if not problem.usable[pick]:
            raise ValueError(
                f"feature {names[pick]!r} in include is constant or all missing; leave it out"
            )
    if len(include) > n_features:
        raise ValueError(
            f"include names {len(include)} features but n_features is {n_features}; "
            "included features count towards n_features"
        )
    n_usable = int(candidates.sum())
    if n_features > n_usable:
        n_excluded = int(problem.usable.sum()) - n_usable
        found = (
            f"{problem.n_features} features, {len(constant)} of them constant or all missing"
            f"{f' ({some_of(constant)})' if constant else ''} and {n_excluded} excluded"
        )
        raise ValueError(
            f"n_features is {n_features} but only {n_usable} features can be chosen: {found}"
        )
