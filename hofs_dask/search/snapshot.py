"""A search between two rounds, and what each field of it has to be.

A file may be made by anyone: what is read from it is checked against the sizes of the problem
before a method indexes an array with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hofs_dask.engine.posteriors import PosteriorRow
from hofs_dask.engine.reduction import N_FOLDS
from hofs_dask.methods.joint import JointState
from hofs_dask.methods.pairwise import PairwiseState
from hofs_dask.methods.total import TotalState
from hofs_dask.methods.vmi import VMIState
from hofs_dask.search.picks import Pick

#: The largest number of a state, far above any number of nats or samples: sums, squares and cubes
#: of it are finite.
LARGEST = 1e30
#: How far the log of a probability may be above zero.
ROUNDING = 1e-6
#: The most samples: floats hold every whole number up to it.
MOST_SAMPLES = 2**53


@dataclass(frozen=True)
class Snapshot:
    """A search between two rounds: all that the next round needs.

    Attributes
    ----------
    counts : ndarray of int64 (feature, fold, class, code)
        Of every feature, so that a run that is resumed need not count again.
    picks : tuple of Pick
        What the rounds so far chose.
    state : JointState, TotalState, PairwiseState or VMIState
        What the method has learned.
    ended : bool
        Whether no further feature gains enough.
    """

    counts: np.ndarray
    picks: tuple[Pick, ...]
    state: Any
    ended: bool


#: The records that a checkpoint may hold, by name: nothing else is ever made from a file.
RECORDS = {
    cls.__name__: cls
    for cls in (Snapshot, Pick, JointState, TotalState, PairwiseState, VMIState, PosteriorRow)
}


def is_repeated(array: np.ndarray) -> bool:
    """Return whether an array repeats one number, which takes no memory."""
    return array.size > 1 and not any(array.strides)


# What the fields of records have to be. Sizes, such as the number of features, have names.

Sizes = Mapping[str, int]
#: Raises a ValueError where a value is not what it has to be.
Check = Callable[[Any, Sizes], None]


@dataclass(frozen=True)
class _One:
    """One value of a type; a whole number from `least` to below the size `below`."""

    kind: type
    least: int = 0
    below: str | None = None

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if type(value) is not self.kind:
            raise ValueError(f"is of type {type(value).__name__}, not {self.kind.__name__}")
        if self.below is not None and value not in range(self.least, sizes[self.below]):
            raise ValueError(f"is not from {self.least} to {sizes[self.below] - 1}")


def _finite(value: Any, _sizes: Sizes) -> None:
    if type(value) is not float or not abs(value) <= LARGEST:
        raise ValueError("is not a finite number")


def _none(value: Any, _sizes: Sizes) -> None:
    if value is not None:
        raise ValueError("is given, but not for this kind of row")


@dataclass(frozen=True)
class _Many:
    """A tuple of a length, with a check for every item."""

    length: str
    item: Check

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if type(value) is not tuple or len(value) != sizes[self.length]:
            raise ValueError(f"is not a list of {sizes[self.length]}")
        for item in value:
            self.item(item, sizes)


@dataclass(frozen=True)
class _Array:
    """Floats, or whole numbers from `least` to below the size `below`, of a shape.

    All are finite but for `hole`, a float that says that there is none, and floats are at most
    `most`. The first axis may be empty where `or_empty`.
    """

    axes: tuple[str, ...]
    kind: type = float
    least: int = 0
    below: str | None = None
    hole: float | None = None
    most: float = LARGEST
    or_empty: bool = False

    def __call__(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or value.dtype != np.dtype(self.kind):
            raise ValueError(f"is not an array of {np.dtype(self.kind)}")
        shape = tuple(sizes[axis] for axis in self.axes)
        if value.shape != shape and not (self.or_empty and value.shape == (0, *shape[1:])):
            raise ValueError(f"is of shape {value.shape}, not {shape}")
        if is_repeated(value):
            value = value[(0,) * value.ndim]
        if self.hole is not None:
            value = value[~np.isnan(value) if math.isnan(self.hole) else value != self.hole]
        least: float = -LARGEST
        most = self.most
        if self.kind is int:
            least, most = self.least, sizes[self.below] - 1 if self.below else MOST_SAMPLES
        # written so that NaN is out of range
        if value.size and not (least <= value.min() and value.max() <= most):
            raise ValueError(f"has values that are not from {least:.4g} to {most:.4g}")


_FLAG, _NUMBER = _One(bool), _One(float)
_EPOCH = _One(int, below="epoch")
_FEATURES = _Array(("feature",))
_LEARNED = _Array(("learned", "feature"))
_CHOSEN: dict[str, Check] = {
    "chosen": _Many("pick", _One(int, below="feature")),
    "subsets": _Many("pick", _One(int, below="pick")),
    "affinity": _LEARNED,
    "redundancy": _LEARNED,
    "information": _finite,
    "epoch": _EPOCH,
}

#: The check of every field of the records that have no other records in them.
CHECKS: dict[type, dict[str, Check]] = {
    Pick: {
        "index": _One(int, below="feature"),
        "subset": _One(int, below="pick"),
        "score": _NUMBER,
        "gain": _NUMBER,
        "information": _NUMBER,
        "margin": _NUMBER,
        "runner_up": _One(int, -1, below="feature"),
        "epoch": _EPOCH,
        "forced": _FLAG,
        "redundancy": _NUMBER,
    },
    JointState: {
        **_CHOSEN,
        "gram": _Array(("learned", "feature", "fold", "class")),
        "pair_counts": _Array(("feature", "fold", "code", "class", "code"), int),
        "pair_parent": _Array(("feature",), int, -1, below="parent"),
        "pair_gain": _FEATURES,
        "bound": _finite,
        "paid": _finite,
        "earlier": _FEATURES,
    },
    TotalState: {
        **_CHOSEN,
        "gram": _Array(("learned", "feature", "class")),
        "alone": _Array(("feature",), or_empty=True),
        "terms": _Array(("subset", "feature")),
        "known": _Array(("subset",)),
    },
    PairwiseState: {
        **_CHOSEN,
        "conditional": _LEARNED,
        "joint_entropy": _LEARNED,
        "centrality": _Array(("feature",), or_empty=True),
    },
    VMIState: {
        **_CHOSEN,
        "pair_logs": _Array(
            ("pair", "feature", "class", "pair code"), hole=-math.inf, most=ROUNDING
        ),
        "pair_truth": _Array(("pair", "feature")),
    },
}

#: The kinds of rows that are linear.
_SLOPES = ("shared", "class")
_ROW: dict[str, Check] = {
    "column": _One(int),
    "parents": _Array(("row parent",), int, below="place"),
}
_LINEAR: dict[str, Check] = {
    "values": _Array(("code",), hole=math.nan),
    "slopes": _Array(("row fold", "class", "row parent")),
    "shifts": _Array(("row fold", "class")),
    "scales": _Array(("row fold", "class")),
}
_LOGS: dict[type, Check] = {
    JointState: _Array(("row table", "row fold", "class", "cell"), most=ROUNDING),
    VMIState: _Array(("row table", "row fold", "class", "cell"), hole=-math.inf, most=ROUNDING),
}


def check(snapshot: object) -> Snapshot:
    """Return the snapshot, or raise a ValueError where its fields do not fit each other.

    What passes is safe to resume from with a store of as many features, classes and codes.

    Examples
    --------
    >>> counts, none = np.ones((3, 4, 2, 5), int), np.zeros((0, 3))
    >>> state = PairwiseState((), (), none, none, none, none, np.zeros(0), information=0.0)
    >>> check(Snapshot(counts, picks=(), state=state, ended=False)).ended
    False
    >>> check(Snapshot(counts[:2], picks=(), state=state, ended=False))
    Traceback (most recent call last):
    ...
    ValueError: PairwiseState.affinity is of shape (0, 3), not (0, 2)
    """
    if not isinstance(snapshot, Snapshot):
        raise ValueError(f"it holds a {type(snapshot).__name__}, not a Snapshot")
    picks, state = snapshot.picks, snapshot.state
    if type(state) not in CHECKS or isinstance(state, Pick):
        raise ValueError(f"Snapshot.state is a {type(state).__name__}")
    sizes = _sizes(snapshot)
    _check_fields(snapshot, {"counts": _counts, "ended": _FLAG}, sizes)
    _Many("pick", _is_pick)(picks, sizes)
    for pick in picks:
        _check_fields(pick, CHECKS[Pick], sizes)
    _check_fields(state, CHECKS[type(state)], sizes)
    chosen, subsets = (tuple(getattr(p, name) for p in picks) for name in ("index", "subset"))
    if len(set(chosen)) < len(chosen):
        raise ValueError("Snapshot.picks has a feature twice")
    if any(subset > max(subsets[:i], default=-1) + 1 for i, subset in enumerate(subsets)):
        raise ValueError("Snapshot.picks leaves out a subset")
    if (state.chosen, state.subsets) != (chosen, subsets):
        raise ValueError(f"{type(state).__name__}.chosen is not what was picked")
    if isinstance(state, JointState | VMIState):
        _check_rows(state, sizes)
    return snapshot


def _check_fields(record: object, checks: Mapping[str, Check], sizes: Sizes) -> None:
    for name, check_field in checks.items():
        try:
            check_field(getattr(record, name), sizes)
        except ValueError as error:
            raise ValueError(f"{type(record).__name__}.{name} {error}") from error


def _is_pick(value: Any, _sizes: Sizes) -> None:
    if type(value) is not Pick:
        raise ValueError("has an item that is not a Pick")


def _counts(value: Any, sizes: Sizes) -> None:
    """Check counts: of as many samples of each class for every feature."""
    if is_repeated(value):
        raise ValueError("repeats one number")
    _Array(("feature", "fold", "class", "code"), int)(value, sizes)
    largest = value.sum(axis=(1, 2, 3), dtype=float).max(initial=0.0)
    of_classes = value.sum(axis=-1) if largest <= MOST_SAMPLES else value[:0]
    if not 0 < largest <= MOST_SAMPLES or (of_classes != of_classes[:1]).any():
        raise ValueError("is not of the same samples for every feature")


def _sizes(snapshot: Snapshot) -> dict[str, int]:
    """Return the sizes that arrays of a snapshot have."""
    counts, state = snapshot.counts, snapshot.state
    if not isinstance(counts, np.ndarray) or counts.ndim != 4:
        raise ValueError("Snapshot.counts is not of four axes")
    n_features, _, n_classes, n_codes = counts.shape
    n_picks = len(snapshot.picks)
    # the last pick is learned about in the round after it
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
        "subset": max((pick.subset for pick in snapshot.picks[:n_learned]), default=-1) + 1,
        "epoch": max(n_picks, 1),
        "parent": max(n_rows - 1, 0),
        "pair": max(n_rows - 1, 0) if len(getattr(state, "pair_logs", ())) else 0,
        "row fold": N_FOLDS if isinstance(state, JointState) else 1,
    }


def _check_rows(state: JointState | VMIState, sizes: Sizes) -> None:
    """Check the rows of an epoch: the first is a table, and parents come before their children."""
    n_rows = len(state.rows)
    if type(state.rows) is not tuple or not min(sizes["pick"], 1) <= n_rows <= sizes["pick"]:
        raise ValueError(f"{type(state).__name__}.rows are not those of the last picks")
    kinds = ("table", "pair") if isinstance(state, VMIState) else ("table", "pair", *_SLOPES)
    for place, row in enumerate(state.rows):
        if type(row) is not PosteriorRow or row.kind not in kinds[: None if place else 1]:
            raise ValueError(f"{type(state).__name__}.rows has none of {kinds} at {place}")
        n_parents = 0 if row.kind == "table" else min(max(len(row.parents), 1), place)
        own = {
            "place": place,
            "row parent": n_parents,
            "row table": n_parents if row.kind == "pair" else 1,
            "cell": sizes["pair code" if row.kind == "pair" else "code"],
        }
        linear = _LINEAR if row.kind in _SLOPES else dict.fromkeys(_LINEAR, _none)
        _check_fields(row, {**_ROW, "table": _LOGS[type(state)], **linear}, {**sizes, **own})
        if row.column != place:
            raise ValueError(f"PosteriorRow.column is {row.column}, not {place}")
