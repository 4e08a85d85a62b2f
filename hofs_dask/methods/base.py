"""The base classes that every method extends: for its options, its search, and the search state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from hofs_dask.engine.reduction import Partial, Request
from hofs_dask.errors import unknown
from hofs_dask.methods.fields import Floats, Items, Whole, checked, finite
from hofs_dask.methods.problem import Problem

#: A feature joins the subset with the largest mean affinity if this affinity exceeds the threshold.
THRESHOLD = 0.2

#: Rounding error of scores, in nats. Scores that differ by less are considered equal, and a gain
#: that is smaller than a required minimum by less than this is accepted.
LEAST_DIFFERENCE = 1e-12

#: Check of an array of floats (pick, feature), for the picks whose pairs with every feature have
#: already been counted.
LEARNED = Floats(("learned", "feature"))


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine the reductions of a search and their memory."""

    n_samples: int
    n_features: int
    n_classes: int
    n_codes: int  # the largest number of codes of a feature
    n_picks: int  # number of picks before the last round: the number of features to choose minus 1
    tile_width: int = 1024  # features in a tile of the store


@dataclass(frozen=True)
class ReductionBound:
    """Maximum number of reductions of a search.

    A search requests one reduction at a time, so a search that runs alone needs as many scans as
    reductions. The actual number of reductions may depend on the data. The options `include` and
    `min_gain` can reduce it, but not increase it.

    Attributes
    ----------
    by_name
        Maximum number of requests of each reduction.
    in_all
        Maximum number of requests of all reductions together. It is less than the sum of
        ``by_name`` if a round needs one or the other of two reductions, but not both.
    """

    by_name: Mapping[str, int]
    in_all: int


@dataclass(frozen=True, kw_only=True)
class State:
    """Base class for the state of a search after some rounds; every method adds its own fields."""

    chosen: tuple[int, ...] = checked(Items("pick", Whole("feature")))
    subsets: tuple[int, ...] = checked(Items("pick", Whole("pick")))
    # (rank, feature), for the picks whose pairs with every feature have been counted
    affinity: np.ndarray = checked(LEARNED)
    redundancy: np.ndarray = checked(LEARNED)  # (rank, feature) I(x_i : pick)
    information: float = checked(finite)  # I(picks of this epoch : y), estimated, in nats
    epoch: int = checked(Whole("epoch"))


#: Marks a row of memory that no state uses, in its first entry; no term has this value.
FREE = -np.inf
#: Rows of memory for which there is room at first.
ROOM = 16


def append_row(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return rows with one more, which is written behind them if there is free memory.

    Other arrays do not change: memory is free until a row has been written to it.

    Examples
    --------
    >>> one = append_row(np.zeros((0, 2)), np.array([1.0, 2.0]))
    >>> two, other = append_row(one, np.array([3.0, 4.0])), append_row(one, np.array([5.0, 6.0]))
    >>> two.tolist(), other.tolist(), two.base is one.base
    ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [5.0, 6.0]], True)
    """
    n_rows, memory = len(rows), rows.base
    has_room = (
        isinstance(memory, np.ndarray)
        and memory.shape[1:] == rows.shape[1:]
        and memory.ctypes.data == rows.ctypes.data
        and len(memory) > n_rows
        and memory.flags.writeable
        and memory[n_rows, 0] == FREE
    )
    if not has_room:
        memory = np.empty((max(2 * n_rows, ROOM), rows.shape[1]))
        memory[:n_rows] = rows
        memory[n_rows:, 0] = FREE
    assert memory is not None
    memory[n_rows] = row
    result: np.ndarray = memory[: n_rows + 1]
    return result


@dataclass(frozen=True)
class Scores:
    """The scores of one round, as arrays (feature,); only the values of candidates are used.

    Attributes
    ----------
    score
        The criterion that the greedy search maximizes.
    information
        An estimate of the mutual information between y and the chosen features plus this feature,
        in nats.
    gain
        How much this feature increases the information of the chosen features, in nats.
    """

    score: np.ndarray
    information: np.ndarray
    gain: np.ndarray


@dataclass(frozen=True)
class Ahead:
    """The next feature to choose, if all features of a tuple are to be chosen one after the other.

    Attributes
    ----------
    feature, rest
        Position of this feature, and positions of the features of the tuple that follow it.
    is_first
        Whether this feature is the first of the tuple.
    gain
        Gain of the tuple per feature, minus penalties, in nats.
    p_value, p_adjusted
        P-value of the synergy, and this p-value adjusted for the number of tuples.
    """

    feature: int
    rest: tuple[int, ...]
    is_first: bool
    gain: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = 0.0


StateT = TypeVar("StateT", bound=State)
ScoresT = TypeVar("ScoresT", bound=Scores)


class Search(ABC, Generic[StateT, ScoresT]):
    """Base class of the search of a method on a problem.

    A search object does not change. Its methods take a state and return a new state.
    """

    problem: Problem

    def is_exhausted(self, scores: ScoresT, pick: int, candidates: np.ndarray) -> bool:  # noqa: ARG002
        """Return whether the search should restart because the best candidate adds too little.

        Parameters
        ----------
        scores
            The scores of the round.
        pick
            The index of the best candidate.
        candidates
            Whether each feature can still be chosen, bool (feature,).
        """
        return False

    @abstractmethod
    def start(self) -> StateT:
        """Return the state before the first round."""

    @abstractmethod
    def score(self, state: StateT) -> Generator[Request, Partial, tuple[StateT, ScoresT]]:
        """Yield the requests of a round; return the updated state and the scores of features."""

    def p_values(self, state: StateT, scores: ScoresT) -> Generator[Request, Partial, np.ndarray]:
        """Yield requests; return the p-value of every feature, (feature,).

        The null hypothesis is that the feature adds no information about the label to the picks.
        This is called only if `Method.has_test` is true.

        Parameters
        ----------
        state, scores
            The values that `score` has returned in this round.
        """
        raise NotImplementedError(f"{type(self).__name__} has no test")

    def adds(self, scores: ScoresT) -> np.ndarray:
        """Return whether each feature has a positive gain, bool (feature,)."""
        return scores.gain > 0

    def ahead(self, scores: ScoresT) -> Ahead | None:  # noqa: ARG002
        """Return the next feature of a tuple that is chosen as a whole, or None."""
        return None

    def planned(self, state: StateT) -> tuple[int, ...]:  # noqa: ARG002
        """Return the features of the tuple of the last pick that are still to be chosen."""
        return ()

    @abstractmethod
    def add(self, state: StateT, scores: ScoresT, pick: int, subset: int) -> StateT:
        """Return the state after a feature has been chosen."""

    def restart(self, state: StateT, scores: ScoresT) -> StateT:  # noqa: ARG002
        """Return the first state of a new epoch, after a round in which no gain was sufficient."""
        return state


@dataclass(frozen=True)
class Method(ABC):
    """Base class of all method objects. A method object holds the validated options of a method.

    Defining a subclass with a ``name`` registers it. `hofs_dask.select`, the command line,
    checkpoints and the tables of the documentation use this name.
    """

    name: ClassVar[str]
    #: Whether the comparison in the HOFS paper includes the method. By default,
    #: `hofs_dask.compare` runs the methods for which this is true.
    in_paper: ClassVar[bool] = False
    #: All methods by name, in the order of their definition.
    registry: ClassVar[dict[str, type[Method]]] = {}

    def __init_subclass__(cls) -> None:
        """Register a method under its name."""
        super().__init_subclass__()
        if "name" in vars(cls):
            Method.registry[cls.name] = cls

    @property
    def options(self) -> dict[str, object]:
        """All options by name; the values can be written to JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def label(self) -> str:
        """The name, followed by the options that differ from the defaults.

        Examples
        --------
        >>> from hofs_dask import JMI, MIFS
        >>> MIFS(beta=0.5).label, JMI().label
        ('mifs(beta=0.5)', 'jmi')
        """
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    @property
    def subset_threshold(self) -> float:
        """A feature joins a subset only if its mean affinity to the members exceeds this number."""
        return THRESHOLD

    @property
    def cross_fitted(self) -> bool:
        """Whether scores are cross-fitted, and therefore depend on the option ``groups``."""
        return False

    @property
    def has_test(self) -> bool:
        """Whether the search can test features for significance."""
        return False

    @property
    @abstractmethod
    def state_type(self) -> type[State]:
        """The type of the state that the search keeps between rounds."""

    @abstractmethod
    def search(self, problem: Problem) -> Search[Any, Any]:
        """Return the object that computes the scores of this method for an encoded data set."""

    @abstractmethod
    def largest_requests(self, sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests of a search that need the most memory; their arrays hold zeros."""

    @abstractmethod
    def bound_reductions(self, sizes: Sizes) -> ReductionBound:
        """Return the maximum number of reductions of a search, besides the marginal counts."""

    def _check(self, option: str, valid: tuple[object, ...]) -> None:
        given = getattr(self, option)
        if isinstance(given, (bool, float)) or given not in valid:  # 2.0 and True are not 2 and 1
            raise unknown(f"{option} of {type(self).__name__}", given, valid)

    def _check_number(self, option: str) -> None:
        given = getattr(self, option)
        what = f"{option} of {type(self).__name__} is {given!r}; give a number >= 0"
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            raise TypeError(what)
        if not 0 <= given < float("inf"):
            raise ValueError(what)
