"""The greedy loop: score, choose, assign, add."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Hashable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import numpy as np

from hofs_dask.checkpoint import Checkpoint, Snapshot
from hofs_dask.config import HOFS
from hofs_dask.data.codes import CodeStore
from hofs_dask.engine.budget import Estimate
from hofs_dask.engine.passes import plan, run
from hofs_dask.engine.statistic import Context, Partial, Pass
from hofs_dask.engine.statistics import MARGINAL_COUNTS
from hofs_dask.errors import some_of
from hofs_dask.events import Event, Notify, PassDone, PassStarted, RoundEnded, RoundStarted
from hofs_dask.methods.affinity import join
from hofs_dask.methods.joint import Joint
from hofs_dask.methods.problem import Problem, Scores, Sizes
from hofs_dask.methods.total import Total
from hofs_dask.selection import Pick, Selection

#: Scores closer than this, relative to the best, are a tie: the lowest column wins.
TIE = 1e-9

Result = TypeVar("Result")


class Search(Protocol):
    """A method at work on a problem. States are frozen; every call returns a new one."""

    @property
    def options(self) -> HOFS:
        """The method object."""

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
    checkpoint: Checkpoint | None = None,
    listeners: Sequence[Notify] = (),
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
    checkpoint
        Where the search is kept after every round, and taken up from.
    listeners
        What is called with every event.
    """
    watch = _Watch(codes, listeners)
    identity = _identity(codes, method, include, exclude, min_gain)
    saved = checkpoint.load(identity) if checkpoint else None
    problem = describe(codes, saved.counts if saved else watch.run(_count_all(codes))["counts"])
    candidates = problem.usable.copy()
    candidates[list(exclude)] = False
    _check_request(codes.names, problem, candidates, n_features, include)
    work: Search = (Joint if method.criterion == "joint" else Total)(problem, method)
    at = saved or Snapshot(problem.counts, picks=(), state=work.start(), ended=False)
    candidates[[pick.index for pick in at.picks]] = False
    while len(at.picks) < n_features and not at.ended:
        rank = len(at.picks) + 1
        watch.start_round(rank, n_features, int(candidates.sum()))
        forced = include[rank - 1] if rank <= len(include) else None
        pick, state = next_pick(work, watch, at.state, candidates, forced, min_gain)
        if pick is None:
            at = replace(at, ended=True)
        else:
            at = replace(at, picks=(*at.picks, pick), state=state)
            candidates[pick.index] = False
        if checkpoint:
            checkpoint.save(identity, at)
        if pick is not None:
            watch.end_round(pick)
    return Selection.from_picks(
        at.picks[:n_features],  # an earlier run may have gone further
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


def largest_pass(codes: CodeStore, method: HOFS, n_features: int) -> Estimate:
    """The memory of the largest pass of a search, for the worker that it presses most."""
    sizes = Sizes(
        n_features=codes.n_features,
        n_classes=len(codes.labels.classes),
        n_codes=int(codes.n_codes.max()),
        n_picks=n_features - 1,
    )
    passes = (Joint if method.criterion == "joint" else Total).largest_passes(sizes)
    return max((plan(codes, request) for request in passes), key=lambda found: found.total)


def next_pick(
    work: Search,
    watch: _Watch,
    state: Any,
    candidates: np.ndarray,
    forced: int | None,
    min_gain: float | None,
) -> tuple[Pick | None, Any]:
    """The pick of one round and the state that knows it; None where nothing gains enough."""
    least = work.restart_gain if min_gain is None else min_gain
    fresh = not state.chosen
    while True:
        state, scores = watch.drive(work.score(state))
        best, runner_up = choose(scores.score, candidates)
        pick = best if forced is None else forced
        gain = float(scores.information[pick]) - state.information
        if forced is not None or fresh or least is None or gain >= least:
            break
        if min_gain is not None:
            return None, state
        state, fresh = work.restart(state), True
    other = best if pick != best else runner_up
    subset = int(join(state.affinity[:, [pick]], state.subsets, work.options.threshold)[0])
    made = Pick(
        index=pick,
        subset=subset,
        score=float(scores.score[pick]),
        gain=gain,
        information=float(scores.information[pick]),
        margin=float(scores.score[pick] - scores.score[other]) if other >= 0 else np.nan,
        runner_up=other,
        epoch=state.epoch,
        forced=forced is not None,
    )
    return made, work.add(state, scores, pick, subset)


def describe(codes: CodeStore, counts: np.ndarray) -> Problem:
    """The problem of a code store: its tables, and the counts of every feature."""
    return Problem(
        n_codes=codes.n_codes,
        missing_code=codes.missing_code,
        nominal=codes.nominal,
        values=codes.values,
        counts=counts,
        label_kind=codes.labels.kind,
        label_values=codes.labels.values,
    )


def _count_all(codes: CodeStore) -> Pass:
    """The pass that counts the codes of every feature."""
    shared = {"n_classes": len(codes.labels.classes), "n_codes": int(codes.n_codes.max())}
    return Pass(MARGINAL_COUNTS, Context(shared))


def _identity(
    codes: CodeStore,
    method: HOFS,
    include: Sequence[int],
    exclude: Sequence[int],
    min_gain: float | None,
) -> dict[str, object]:
    """All that the picks depend on, by name. How many are asked for does not change them."""
    return {
        "data": codes.fingerprint,
        "target": codes.labels.name,
        "target_kind": codes.labels.kind,
        "target values": codes.labels.key,
        "method": "hofs",
        **method.options,
        "include": [codes.names[column] for column in include],
        "exclude": [codes.names[column] for column in sorted(exclude)],
        "min_gain": None if min_gain is None else float(min_gain),
    }


class _Watch:
    """Runs passes, and tells the listeners what happens and how long it takes."""

    def __init__(self, codes: CodeStore, listeners: Sequence[Notify]) -> None:
        self._codes = codes
        self._listeners = listeners
        self._rank = 0
        self._n_passes = 0
        self._start = 0.0

    def start_round(self, rank: int, n_features: int, n_candidates: int) -> None:
        self._rank, self._n_passes, self._start = rank, 0, time.perf_counter()
        self._tell(RoundStarted(rank, n_features, n_candidates))

    def end_round(self, pick: Pick) -> None:
        self._tell(
            RoundEnded(
                rank=self._rank,
                feature=self._codes.names[pick.index],
                subset=pick.subset,
                gain=pick.gain,
                information=pick.information,
                seconds=time.perf_counter() - self._start,
                n_passes=self._n_passes,
            )
        )

    def run(self, request: Pass) -> Partial:
        """The finished total of a pass."""
        codes, name = self._codes, request.statistic.name
        self._tell(PassStarted(self._rank, name))
        start = time.perf_counter()
        total = run(codes, request)
        seconds = time.perf_counter() - start
        self._n_passes += 1
        n_columns = codes.n_features + len(request.columns) + 1  # the label
        n_bytes, n_cells = codes.n_samples * n_columns, codes.n_rows_used * codes.n_features
        self._tell(PassDone(self._rank, name, n_bytes, n_cells, seconds))
        return total

    def drive(self, steps: Generator[Pass, Any, Result]) -> Result:
        """What a method's generator returns, given the total of every pass that it asks for."""
        total = None
        while True:
            try:
                request = steps.send(total)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            total = self.run(request)

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)


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
