"""The class `Snapshot`, a search between two rounds, and the checks of one read from a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hofs_dask.engine.posteriors import LinearTerm, PosteriorRow
from hofs_dask.engine.reduction import N_FOLDS
from hofs_dask.kernels.tuples import N_TERMS
from hofs_dask.methods import registry  # noqa: F401 - defines all subclasses of State
from hofs_dask.methods.base import State
from hofs_dask.methods.coarse import CoarseCounts
from hofs_dask.methods.fields import (
    MOST_SAMPLES,
    Sizes,
    Wholes,
    check_fields,
    checked,
    flag,
    is_repeated,
)
from hofs_dask.methods.interactions import ORDERS, TupleState
from hofs_dask.methods.lookahead import Waiting
from hofs_dask.methods.posterior import PosteriorState
from hofs_dask.search.picks import Pick


def _counts(value: Any, sizes: Sizes) -> None:
    """Check marginal counts: all features must have the same number of samples of each class."""
    if is_repeated(value):
        raise ValueError("is a repeated number")
    Wholes(("feature", "fold", "class", "code"))(value, sizes)
    largest = value.sum(axis=(1, 2, 3), dtype=float).max(initial=0.0)
    of_classes = value.sum(axis=-1) if largest <= MOST_SAMPLES else value[:0]
    if not 0 < largest <= MOST_SAMPLES or (of_classes != of_classes[:1]).any():
        raise ValueError("does not count the same samples for every feature")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A search between two rounds, or a comparison of tuples between two panels.

    It has everything that the next round or panel needs.

    Attributes
    ----------
    counts : ndarray of int64 (feature, fold, class, code)
        Marginal counts, saved so that a resumed run does not have to count again.
    picks : tuple of Pick
        The picks of the finished rounds.
    state : State or TupleState
        State of the method, or of the comparison of tuples, which has no picks.
    ended : bool
        Whether the search has ended because no feature adds enough information.
    """

    counts: np.ndarray = checked(_counts)
    picks: tuple[Pick, ...]
    state: State | TupleState
    ended: bool = checked(flag)


def _all_states(kind: type[State] = State) -> list[type[State]]:
    """Return the state types of all methods, which are subclasses of `State`."""
    below = kind.__subclasses__()
    return [each for one in below for each in (one, *_all_states(one))]


#: The dataclasses whose objects a checkpoint may contain, by name. Objects of other classes are
#: never created from a file.
RECORDS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Snapshot,
        Pick,
        PosteriorRow,
        LinearTerm,
        Waiting,
        CoarseCounts,
        TupleState,
        *_all_states(),
    )
}


def check(snapshot: object) -> Snapshot:
    """Return the snapshot, or raise a ValueError if its fields are inconsistent.

    A search can safely resume from a snapshot that passes this check, if the store has the same
    numbers of features, classes and codes.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from hofs_dask.methods.pairwise import PairwiseState
    >>> counts, none = np.ones((3, 4, 2, 5), int), np.zeros((0, 3))
    >>> state = PairwiseState(
    ...     chosen=(),
    ...     subsets=(),
    ...     affinity=none,
    ...     redundancy=none,
    ...     conditional=none,
    ...     joint_entropy=none,
    ...     centrality=np.zeros(0),
    ...     information=0.0,
    ...     epoch=0,
    ... )
    >>> whole = Snapshot(counts=counts, picks=(), state=state, ended=False)
    >>> check(whole).ended
    False
    >>> check(replace(whole, counts=counts[:2]))
    Traceback (most recent call last):
    ...
    ValueError: PairwiseState.affinity has shape (0, 3), not (0, 2)
    """
    if not isinstance(snapshot, Snapshot):
        raise ValueError(f"it holds a {type(snapshot).__name__}, not a Snapshot")
    picks, state = snapshot.picks, snapshot.state
    if isinstance(state, TupleState):
        check_fields(snapshot, _tuple_sizes(snapshot, state))
        check_fields(state, _tuple_sizes(snapshot, state))
        if picks:
            raise ValueError("Snapshot.picks is not empty")
        return snapshot
    if not isinstance(state, State):
        raise ValueError(f"Snapshot.state is a {type(state).__name__}")
    sizes = _sizes(snapshot)
    check_fields(snapshot, sizes)
    for pick in picks:
        check_fields(pick, sizes)
    check_fields(state, sizes)
    chosen, subsets = (tuple(getattr(p, name) for p in picks) for name in ("index", "subset"))
    if len(set(chosen)) < len(chosen):
        raise ValueError("Snapshot.picks has a feature twice")
    if any(subset > max(subsets[:i], default=-1) + 1 for i, subset in enumerate(subsets)):
        raise ValueError("Snapshot.picks skips a subset number")
    if (state.chosen, state.subsets) != (chosen, subsets):
        raise ValueError(f"{type(state).__name__}.chosen differs from Snapshot.picks")
    if isinstance(state, PosteriorState):
        state.check_rows(sizes)
    return snapshot


def _tuple_sizes(snapshot: Snapshot, state: TupleState) -> dict[str, int]:
    """Return the expected sizes of the axes in a comparison of tuples, by name."""
    if not isinstance(snapshot.counts, np.ndarray) or snapshot.counts.ndim != 4:
        raise ValueError("Snapshot.counts does not have four axes")
    if not all(isinstance(each, np.ndarray) for each in (state.columns, state.recounted)):
        raise ValueError("TupleState has a field that is not an array")
    n_features, _, n_classes, n_codes = snapshot.counts.shape
    order = state.columns.shape[1] if state.columns.ndim == 2 else 0
    return {
        "feature": n_features,
        "fold": N_FOLDS,
        "class": n_classes,
        "code": n_codes,
        "order": order if order in ORDERS else ORDERS[0],
        "kept": len(state.columns) if state.columns.ndim else 0,
        "recounted": len(state.recounted) if state.recounted.ndim else 0,
        "term": N_TERMS,
        "panel end": MOST_SAMPLES,
        "recounted end": MOST_SAMPLES,
    }


def _sizes(snapshot: Snapshot) -> dict[str, int]:
    """Return the expected sizes of the axes in a snapshot, by name."""
    counts, picks, state = snapshot.counts, snapshot.picks, snapshot.state
    if not isinstance(counts, np.ndarray) or counts.ndim != 4:
        raise ValueError("Snapshot.counts does not have four axes")
    if type(picks) is not tuple or not all(type(pick) is Pick for pick in picks):
        raise ValueError("Snapshot.picks has an item that is not a Pick")
    n_features, _, n_classes, n_codes = counts.shape
    n_picks = len(picks)
    # a pick is counted with every feature in the round after it was chosen
    n_learned = max(n_picks - 1, 0)
    n_rows = len(getattr(state, "rows", ()))
    return {
        "feature": n_features,
        "fold": N_FOLDS,
        "class": n_classes,
        "code": n_codes,
        "pair code": n_codes**2,
        "pick": n_picks,
        "learned": n_learned,
        "subset": max((pick.subset for pick in picks[:n_learned]), default=-1) + 1,
        "epoch": max(n_picks, 1),
        "parent": max(n_rows - 1, 0),
        "pair": max(n_rows - 1, 0) if len(getattr(state, "pair_logs", ())) else 0,
    }
