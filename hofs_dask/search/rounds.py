"""The greedy loop of a search, and `drive`, which runs several searches in the same scans."""

from __future__ import annotations

import functools
import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from hofs_dask.engine.cluster import kernels_to_compile
from hofs_dask.engine.counts import (
    DESIGN_EFFECTS,
    MARGINAL_COUNTS,
    GroupsContext,
    MarginalContext,
    other_kernel,
)
from hofs_dask.engine.held import HeldScans
from hofs_dask.engine.partition import read_bytes
from hofs_dask.engine.reduction import N_FOLDS, Partial, Request
from hofs_dask.engine.scanning import run, scans
from hofs_dask.errors import some_of
from hofs_dask.events import (
    Advanced,
    CompileStarted,
    Event,
    Notify,
    PanelsAdvanced,
    RoundEnded,
    RoundStarted,
    ScanEnded,
    ScanStarted,
    tell_all,
)
from hofs_dask.methods.affinity import join
from hofs_dask.methods.base import LEAST_DIFFERENCE, Ahead, Method, Search, Sizes, State
from hofs_dask.methods.interactions import Tuples, TupleState, start_interactions
from hofs_dask.methods.pairwise import PairMatrices, learn_all
from hofs_dask.methods.problem import Problem
from hofs_dask.scheduling.compute import release
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.search.checkpoint import Checkpoint, HeldRounds
from hofs_dask.search.picks import Pick, Ranking
from hofs_dask.search.snapshot import Snapshot
from hofs_dask.search.stopping import ALPHA, Share, Stop
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.layout import layout_of

#: A score is tied with the best score if it is lower by at most this fraction of the best score, or
#: by at most `LEAST_DIFFERENCE`. The tied feature with the lowest column index is chosen.
TIE = 1e-9

#: Affinities of picks are returned for at most this number of picks.
MOST_AFFINITIES = 1000
#: Informations that differ by less, in nats, are equal up to rounding.
SAME = 1e-9

#: The rule for a search that does not end before it has chosen the requested number of features.
NEVER = Stop()

Result = TypeVar("Result")
#: A generator that yields requests and events. It is sent the result of each request.
Steps = Generator[Request | Event, Any, Result]
#: A function that returns the totals of a scan.
_Run = Callable[..., list[Partial]]


def search(
    codes: CodeStore,
    method: Method,
    n_features: int | Share | None,
    *,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    stop: Stop = NEVER,
    checkpoint: Checkpoint | HeldRounds | None = None,
    of_resample: bool = False,
) -> Steps[Ranking]:
    """Yield the requests and events of a greedy search; return the ranking of the chosen features.

    Parameters
    ----------
    codes
        The code store, with the labels of the target.
    method
        A method object.
    n_features
        Number of features to choose, or a share of those that can be chosen; None for all
        significant features.
    include, exclude
        Columns that are chosen first, in this order, and columns that are never chosen.
    stop
        When to end the search early.
    checkpoint
        Checkpoint to save to after every round and to resume from.
    of_resample
        Whether the search is passed to `resampled`. Features that are constant in the resample are
        then excluded, so fewer features may be chosen.
    """
    if n_features is None and stop.alpha is None:
        raise ValueError("a search without a number of features needs stop.alpha")
    identity = _identity(codes, method, include, exclude, stop)
    shape = (codes.n_features, N_FOLDS, len(codes.labels.classes), int(codes.n_codes.max()))
    saved = checkpoint.load(identity, shape, method.state_type) if checkpoint else None
    counts = saved.counts if saved else (yield from _count_all(codes))
    effects = yield from _design_effects(codes)
    problem = describe(codes, counts, exclude, include, effects)
    candidates = problem.candidates.copy()
    automatic = n_features is None
    if n_features is None:
        n_features = max(int(candidates.sum()), len(include))
    elif isinstance(n_features, Share):
        n_features = max(n_features.of(int(candidates.sum())), len(include))
    if of_resample:
        include = [pick for pick in include if problem.usable[pick]]
        n_features = min(n_features, int(candidates.sum()))
    else:
        _check_request(codes.names, problem, candidates, n_features, include)
    least = stop.least(problem.label_entropy)
    work = method.search(problem)
    at = saved or Snapshot(counts=problem.counts, picks=(), state=work.start(), ended=False)
    candidates[[pick.index for pick in at.picks]] = False
    while len(at.picks) < n_features and not at.ended:
        rank, start = len(at.picks) + 1, time.perf_counter()
        n_left = int(candidates.sum())
        yield RoundStarted(rank, n_features, n_left, method.label, at_most=automatic)
        forced = include[rank - 1] if rank <= len(include) else None
        steps = next_pick(method, work, at.state, candidates, forced, least, stop.alpha)
        (pick, state), n_scans = yield from _counted(steps)
        if pick is None:
            at = replace(at, ended=True)
        else:
            at = replace(at, picks=(*at.picks, pick), state=state)
            candidates[pick.index] = False
        if checkpoint:
            checkpoint.save(identity, at)
        if pick is not None:
            yield RoundEnded(
                rank=rank,
                feature=codes.names[pick.index],
                subset=pick.subset,
                gain=pick.gain,
                information=pick.information,
                seconds=time.perf_counter() - start,
                n_scans=n_scans,
                method=method.label,
            )
    assert isinstance(at.state, State)
    # a checkpoint may have more picks than requested, and knows more about the last of them
    notes = duplicates(codes.names, problem, at.picks[: n_features - 1], at.state.redundancy)
    notes += cut_off(codes.names, at.picks, work.planned(at.state), n_features)
    return Ranking(
        at.picks[:n_features],  # the checkpoint may have more picks than requested
        names=codes.names,
        relevance=problem.relevance,
        usable=problem.usable,
        attrs={
            "method": method.name,
            "options": json.dumps(method.options),
            **attributes(codes, problem, notes),
            **_group_attrs(codes, method),
            **({"alpha": stop.alpha} if at.ended and stop.alpha is not None else {}),
        },
        axis=codes.axis,
        columns=codes.positions,
        missing=problem.missing,
        affinity=_affinity(at.state, [pick.index for pick in at.picks[:n_features]]),
    )


def _affinity(state: State, index: list[int]) -> np.ndarray | None:
    """Return the affinity of every two picks, (rank, rank); None for one pick or very many.

    The state does not have the affinities of the last pick, but those of all earlier picks to it.
    """
    n = len(index)
    if not 2 <= n <= MOST_AFFINITIES or len(state.affinity) < n - 1:
        return None
    found = np.full((n, n), np.nan)
    rows, columns = np.tril_indices(n, -1)
    found[rows, columns] = found[columns, rows] = state.affinity[: n - 1, index][columns, rows]
    return found


def duplicates(
    names: Sequence[Hashable], problem: Problem, picks: Sequence[Pick], learned: np.ndarray
) -> list[str]:
    """Return a note for each pick but the last one that other features are duplicates of.

    The codes of duplicates determine each other, so that their mutual information is equal to the
    entropy of both. ``learned`` is I(x_i : pick), (pick, feature).
    """
    notes, known = [], set[int]()
    for pick, redundancy in zip(picks, learned, strict=False):
        own = problem.entropy[pick.index]
        equal = np.abs(redundancy - own) < SAME
        equal &= (np.abs(problem.entropy - own) < SAME) & problem.usable
        equal[pick.index] = False
        if pick.index not in known and equal.any():
            found = np.flatnonzero(equal)
            known.update(found.tolist())
            what = "a duplicate" if len(found) == 1 else "duplicates"
            others = some_of([names[column] for column in found.tolist()])
            notes.append(
                f"{others} {'is' if len(found) == 1 else 'are'} {what} of {names[pick.index]!r}: "
                "the codes of each determine those of the other"
            )
    return notes


def cut_off(
    names: Sequence[Hashable], picks: Sequence[Pick], planned: Sequence[int], n_features: int
) -> list[str]:
    """Return a note if the last of ``n_features`` picks is not the last of its tuple.

    ``picks`` may be longer, and ``planned`` are the features of a tuple that follow all picks.

    Examples
    --------
    >>> first = Pick(1, 0, score=0.1, gain=0.0, information=0.0, margin=0.0, together=1)
    >>> cut_off(["a", "b", "c"], [first], [2], 1)
    ["'c' is cut off by n_features=1: 'b' was chosen because of what it says together with 'c', \
and says little without it; n_features=2 includes it"]
    """
    if len(picks) < n_features or not (n_missing := picks[n_features - 1].together):
        return []
    n_kept = 1
    while n_kept < n_features and picks[n_features - 1 - n_kept].together == n_missing + n_kept:
        n_kept += 1
    kept = _and([names[pick.index] for pick in picks[n_features - n_kept : n_features]])
    rest = [*(pick.index for pick in picks[n_features:]), *planned][:n_missing]
    cut = _and([names[column] for column in rest])
    were, they, say = ("was", "it", "says") if n_kept == 1 else ("were", "they", "say")
    is_cut, pronoun = ("is", "it") if n_missing == 1 else ("are", "them")
    return [
        f"{cut} {is_cut} cut off by n_features={n_features}: {kept} {were} chosen because of what "
        f"{they} {say} together with {cut}, and {say} little without {pronoun}; "
        f"n_features={n_features + n_missing} includes {pronoun}"
    ]


def _and(names: Sequence[Hashable]) -> str:
    """Return one to three names as text."""
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def attributes(
    codes: CodeStore, problem: Problem, notes: Sequence[str] = ()
) -> dict[str, str | float]:
    """Return the attributes that describe the data of a result, with further notes."""
    notes = [*codes.labels.notes, *notes]
    return {
        "target": codes.labels.name,
        "target_kind": codes.labels.kind,
        "n_samples": problem.n_samples,
        "n_dropped": codes.labels.n_dropped,
        **_weight_attrs(codes),
        "n_classes": problem.n_classes,
        "classes": json.dumps(_class_sizes(codes, problem)),
        "label_entropy": problem.label_entropy,
        "n_absent_chunks": codes.n_absent,
        "hofs_dask_version": PROCESS.version,
        **({"n_columns": len(codes.columns)} if codes.columns else {}),
        **({"feature_dims": json.dumps(codes.feature_dims)} if codes.feature_dims else {}),
        **({"notes": "\n".join(notes)} if notes else {}),
        # the fingerprint of the data, because the fingerprint of the store depends on its chunks
        **({} if codes.fingerprint is None else {"fingerprint": codes.fingerprint}),
    }


def _class_sizes(codes: CodeStore, problem: Problem) -> list[tuple[str, int]]:
    """Return the name of each class and the number of its samples, by weight."""
    counts = problem.class_counts.sum(axis=0) / problem.mean_weight
    names = map(str, codes.labels.classes)
    return [(name, round(count)) for name, count in zip(names, counts.tolist(), strict=True)]


def _weight_attrs(codes: CodeStore) -> dict[str, str | float]:
    """Return the attributes of a result about the weights of its samples."""
    if codes.weights is None:
        return {}
    return {"weights": codes.weights.name, "effective_size": codes.weights.effective_size}


def _group_attrs(codes: CodeStore, method: Method) -> dict[str, str | int]:
    """Return the attributes of a result about the groups of its samples."""
    if codes.groups is None:
        return {}
    return {
        "groups": codes.groups.name,
        "n_groups": codes.groups.n_groups,
        "cross_fitted": int(method.cross_fitted),
    }


def all_pairs(codes: CodeStore) -> Steps[PairMatrices]:
    """Yield the requests for all pairs of features of a code store; return their matrices."""
    problem = describe(codes, (yield from _count_all(codes)))
    return (yield from learn_all(problem))


def all_tuples(
    codes: CodeStore,
    order: int,
    top: int,
    exclude: Sequence[int] = (),
    *,
    exhaustive: bool = False,
    checkpoint: Checkpoint | None = None,
) -> Steps[tuple[Tuples, Problem]]:
    """Yield the requests and events of comparing all tuples of features; return the best tuples.

    Also return the problem that describes the data. The parameters are those of
    `hofs_dask.interactions` and `search`.
    """
    identity = {
        **_data_identity(codes),
        "order": order,
        "top": top,
        "exhaustive": exhaustive,
        "exclude": [codes.names[column] for column in sorted(exclude)],
    }
    shape = (codes.n_features, N_FOLDS, len(codes.labels.classes), int(codes.n_codes.max()))
    saved = checkpoint.load(identity, shape, TupleState) if checkpoint else None
    counts = saved.counts if saved else (yield from _count_all(codes))
    problem = describe(codes, counts, exclude)
    n_usable = int(problem.candidates.sum())
    if n_usable < order:
        raise ValueError(
            f"order is {order} but only {n_usable} of {problem.n_features} features can be used: "
            "the others are excluded, constant or all missing"
        )
    work = yield from start_interactions(problem, order, top, exhaustive=exhaustive)
    state: Any = saved.state if saved else work.start()
    n_panels, n_drawn = sum(1 for _ in work.panels()), work.n_drawn

    def advanced() -> PanelsAdvanced:
        return PanelsAdvanced(state.n_done, n_panels, work.n_tuples, n_drawn, problem.n_samples)

    yield advanced()
    steps, total = work.run(state), None
    while True:
        try:
            found = steps.send(total)
        except StopIteration as stop:
            return stop.value, problem
        if isinstance(found, Request):
            total = yield found
            continue
        is_panel, state, total = found.n_done > state.n_done, found, None
        if checkpoint:
            checkpoint.save(identity, Snapshot(counts=counts, picks=(), state=state, ended=False))
        if is_panel:
            yield advanced()


def resampled(steps: Steps[Result], resample: int) -> Steps[Result]:
    """Run the steps of a search on a bootstrap resample.

    Yield the requests of ``steps`` with the index of the resample, but not the events; return the
    result.
    """
    total: Any = None
    while True:
        try:
            request = steps.send(total)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        total = None
        if isinstance(request, Request):
            key = None if request.key is None else (resample, request.key)
            total = yield replace(request, resample=resample, key=key)


@dataclass(frozen=True)
class Cost:
    """What a run of searches cost, without reading and encoding the data.

    Attributes
    ----------
    n_scans, n_reductions : int
        Number of scans over the samples, and of the reductions that they computed.
    n_bytes : int
        Bytes of the code store that the scans used, as in `ScanEnded`.
    seconds : float
        Duration.
    """

    n_scans: int
    n_reductions: int
    n_bytes: int
    seconds: float


def drive(
    codes: CodeStore, searches: Mapping[Hashable, Steps[Result]], listeners: Sequence[Notify] = ()
) -> tuple[dict[Hashable, Result], Cost]:
    """Run several searches together; return their results and what they cost.

    The current requests of all searches are computed in one scan over the samples, or in several
    if they do not fit into memory together. A request that several searches share is computed once.
    """
    results: dict[Hashable, Result] = {}
    asked: dict[Hashable, Request] = {}
    kept: dict[Hashable, Partial] = {}
    ranks: dict[Hashable, int] = {}
    n_scans = n_reductions = n_bytes = 0
    start = time.perf_counter()

    def send(name: Hashable, total: Partial | None) -> None:
        while True:
            try:
                found = searches[name].send(total)
            except StopIteration as stop:
                asked.pop(name, None)
                results[name] = stop.value
                return
            if isinstance(found, Request):
                asked[name] = found
                return
            if isinstance(found, RoundStarted):
                ranks[name] = found.rank
            tell_all(listeners, found)
            total = None

    for name in searches:
        send(name, None)
    with ExitStack() as stack:
        compute: _Run = functools.partial(run, codes)
        skip = other_kernel(codes.n_samples, is_held=codes.held is not None)
        if codes.held is not None:
            compute = stack.enter_context(HeldScans(codes)).run
        while asked:
            known = [name for name, request in asked.items() if request.key in kept]
            for name in known:
                send(name, kept[asked[name].key])
            if known:
                continue
            groups: dict[Hashable, list[Hashable]] = {}
            for name, request in asked.items():
                groups.setdefault(("of", name) if request.key is None else request.key, []).append(
                    name
                )
            unique = [asked[names[0]] for names in groups.values()]
            totals: list[Partial] = []
            to_compile = kernels_to_compile(unique, skip)
            if to_compile:
                tell_all(listeners, CompileStarted(tuple(to_compile)))
            for scan in scans(codes, unique):
                rank = min((ranks[name] for name in asked if name in ranks), default=0)
                totals += _scan(codes, scan, rank, listeners, compute)
                n_scans, n_reductions = n_scans + 1, n_reductions + len(scan)
                n_bytes += _bytes_of(codes, scan)
            for names, request, total in zip(groups.values(), unique, totals, strict=True):
                if request.key is not None and len(searches) > 1:
                    kept[request.key] = total
                for name in names:
                    send(name, total)
    release()
    cost = Cost(n_scans, n_reductions, n_bytes, time.perf_counter() - start)
    return {name: results[name] for name in searches}, cost


def _bytes_of(codes: CodeStore, scan: Sequence[Request]) -> int:
    """Return the bytes of the code store that a scan uses."""
    n_columns = len({column for request in scan for column in request.columns})
    return read_bytes(layout_of(codes), n_columns)


def _scan(
    codes: CodeStore,
    scan: Sequence[Request],
    rank: int,
    listeners: Sequence[Notify],
    compute: _Run,
) -> list[Partial]:
    """Run one scan by ``compute`` and notify the listeners; return the totals."""
    if not listeners:
        return compute(scan)
    numbers = Counter(request.reduction.name for request in scan)
    name = " + ".join(f"{name} x{n}" if n > 1 else name for name, n in numbers.items())
    tell_all(listeners, ScanStarted(rank, name, len(scan)))
    start = time.perf_counter()

    def advanced(n_ended: int, n_tasks: int) -> None:
        tell_all(listeners, Advanced(n_ended, n_tasks))

    totals = compute(scan, report=advanced)
    seconds = time.perf_counter() - start
    n_bytes = _bytes_of(codes, scan)
    n_cells = round(codes.n_samples * codes.n_features * sum(each.share for each in scan))
    tell_all(listeners, ScanEnded(rank, name, len(scan), n_bytes, n_cells, seconds))
    return totals


def sizes_of(codes: CodeStore, n_features: int) -> Sizes:
    """Return the sizes that determine the reductions of a search for ``n_features`` features."""
    return Sizes(
        n_samples=codes.n_samples,
        n_features=codes.n_features,
        n_classes=len(codes.labels.classes),
        n_codes=int(codes.n_codes.max()),
        n_picks=n_features - 1,
        tile_width=layout_of(codes).chunks[1],
    )


def next_pick(
    method: Method,
    work: Search[Any, Any],
    state: Any,
    candidates: np.ndarray,
    forced: int | None,
    min_gain: float | None = None,
    alpha: float | None = None,
) -> Generator[Request, Partial, tuple[Pick | None, Any]]:
    """Yield the requests of one round; return its pick and the new state.

    The pick is None if the search ends.

    Parameters
    ----------
    method, work, state
        The method, its search, and the state before the round.
    candidates
        Whether each feature can be chosen, bool (feature,).
    forced
        The feature that is chosen regardless of its score, or None.
    min_gain
        End the search if the gain of the feature with the best score is below this, in nats. If
        gains are not cross-fitted, also end it if this feature is not significant. The first
        feature is always chosen.
    alpha
        Choose only among the features that are significant at this level, adjusted for the number
        of candidates. End the search if no feature is significant.
    """
    is_first = not state.chosen  # first pick of the epoch
    while True:
        state, scores = yield from work.score(state)
        best, runner_up = choose(scores.score, candidates)
        ahead = work.ahead(scores) if forced is None else None
        if ahead is not None and not _enters(ahead, min_gain, alpha):
            ahead = None
        p = np.full(len(candidates), np.nan)
        if alpha is not None:
            p = yield from work.p_values(state, scores)
            if ahead is not None and ahead.is_first:
                p[ahead.feature] = ahead.p_value
            if forced is None and ahead is None:
                significant = candidates & work.adds(scores) & (p * candidates.sum() <= alpha)
                best = _best_significant(significant, scores.score, p)
                if best < 0:
                    return None, state
                runner_up = choose(scores.score, candidates & (np.arange(len(p)) != best))[0]
        pick = best if forced is None else forced
        if ahead is not None:
            pick = ahead.feature
        gain = float(scores.gain[pick])
        if forced is not None or ahead is not None or is_first or alpha is not None:
            break
        if min_gain is not None:
            if gain < min_gain - LEAST_DIFFERENCE:
                return None, state
            if method.cross_fitted or not method.has_test:
                break
            p = yield from work.p_values(state, scores)
            if p[pick] * candidates.sum() > ALPHA:
                return None, state
            break
        if not work.is_exhausted(scores, pick, candidates):
            break
        state, is_first = work.restart(state, scores), True
    other = best if pick != best else runner_up
    affinity = state.affinity[:, [pick]]
    subset = int(join(affinity, state.subsets, method.subset_threshold)[0])
    if ahead is not None and not ahead.is_first:
        subset = state.subsets[-1]
    margin = float(scores.score[pick] - scores.score[other]) if other >= 0 else np.nan
    if forced is None and ahead is None and margin < 0:
        margin = 0.0  # in a tie, rounding may give the chosen feature the smaller score
    made = Pick(
        index=pick,
        subset=subset,
        score=float(scores.score[pick]),
        gain=gain,
        information=float(scores.information[pick]),
        margin=margin,
        runner_up=other,
        epoch=state.epoch,
        forced=forced is not None,
        redundancy=float(state.redundancy[:, pick].mean()) if state.chosen else 0.0,
        p_value=float(p[pick]),
        together=0 if ahead is None else len(ahead.rest),
    )
    return made, work.add(state, scores, pick, subset)


def _enters(ahead: Ahead, min_gain: float | None, alpha: float | None) -> bool:
    """Return whether the next feature of a tuple is chosen, given the rules of the search."""
    if not ahead.is_first:
        return True
    if min_gain is not None and ahead.gain < min_gain - LEAST_DIFFERENCE:
        return False
    return alpha is None or ahead.p_adjusted <= alpha


def _best_significant(significant: np.ndarray, score: np.ndarray, p: np.ndarray) -> int:
    """Return the significant feature with the best score, or -1 if no feature is significant.

    A feature that was discarded by screening has no score. If no significant feature has a score,
    the one with the smallest p-value is returned.
    """
    scored = significant & np.isfinite(score)
    return choose(score, scored)[0] if scored.any() else choose(-p, significant)[0]


def _counted(
    steps: Generator[Request, Partial, Result],
) -> Generator[Request, Partial, tuple[Result, int]]:
    """Yield the requests of the steps; return their result and the number of requests."""
    n_reductions = 0
    total: Any = None
    while True:
        try:
            request = steps.send(total)
        except StopIteration as stop:
            return stop.value, n_reductions
        n_reductions += 1
        total = yield request


def describe(
    codes: CodeStore,
    counts: np.ndarray,
    exclude: Sequence[int] = (),
    include: Sequence[int] = (),
    design_effect: np.ndarray | None = None,
) -> Problem:
    """Return the problem (the input of a method) of a code store and its marginal counts."""
    return Problem(
        n_codes=codes.n_codes,
        missing_code=codes.missing_code,
        nominal=codes.nominal,
        values=codes.values,
        counts=counts,
        label_kind=codes.labels.kind,
        label_values=codes.labels.values,
        excluded=tuple(exclude),
        included=tuple(include),
        n_groups=None if codes.groups is None else codes.groups.n_groups,
        design_effect=design_effect,
        mean_weight=1.0 if codes.weights is None else codes.weights.total / codes.n_samples,
        evidence=1.0 if codes.weights is None else codes.weights.total / codes.weights.squares,
        tile_width=layout_of(codes).chunks[1],
    )


def _count_all(codes: CodeStore) -> Generator[Request, Partial, np.ndarray]:
    """Yield the request for the marginal counts of every feature; return the counts."""
    context = MarginalContext(len(codes.labels.classes), int(codes.n_codes.max()))
    total = yield Request(MARGINAL_COUNTS, context, key="marginal-counts")
    return total["counts"]


def _design_effects(codes: CodeStore) -> Generator[Request, Partial, np.ndarray | None]:
    """Yield the request for the design effects of groups; return them, or None without groups."""
    if codes.groups is None:
        return None
    n_classes, n_codes = len(codes.labels.classes), int(codes.n_codes.max())
    context = GroupsContext(n_classes, n_codes, codes.groups.n_groups)
    total = yield Request(DESIGN_EFFECTS, context, key=DESIGN_EFFECTS.name)
    return total["effect"]


def _data_identity(codes: CodeStore) -> dict[str, object]:
    """Return the description of the data of a run, by name."""
    return {
        "data": codes.identity,
        "data source": codes.fingerprint,
        "target": codes.labels.name,
        "target_kind": codes.labels.kind,
        "target values": codes.labels.identity,
        "target source": codes.labels.key,
        "groups": None if codes.groups is None else codes.groups.name,
        "group ids": None if codes.groups is None else codes.groups.identity,
        "group source": None if codes.groups is None else codes.labels.key,
        "weights": None if codes.weights is None else codes.weights.name,
    }


def _identity(
    codes: CodeStore,
    method: Method,
    include: Sequence[int],
    exclude: Sequence[int],
    stop: Stop,
) -> dict[str, object]:
    """Return the description of a run: everything that its picks depend on, by name.

    It does not include the number of features to choose: a longer search has the same first picks.
    """
    return {
        **_data_identity(codes),
        "method": method.name,
        **method.options,
        "include": [codes.names[column] for column in include],
        "exclude": [codes.names[column] for column in sorted(exclude)],
        "min_gain": stop.given_min_gain,
        "alpha": stop.alpha,
    }


def choose(score: np.ndarray, candidates: np.ndarray) -> tuple[int, int]:
    """Return the best candidate and the runner-up (-1 if there is none).

    Of features with tied scores, the one with the lowest column index comes first.

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
    top = np.where(candidates, score, -np.inf).max()
    if not top < np.inf:
        raise ValueError(
            f"the best score is {top}, not a finite number; if the run was resumed from a "
            "checkpoint, remove the checkpoint to start over"
        )
    tied = score >= top - max(TIE * abs(top), LEAST_DIFFERENCE)
    return int(np.argmax(candidates & tied))


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
