"""What a method is: its options, the search that it does, and what that keeps between rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from hofs_dask.engine.reduction import Partial, Request
from hofs_dask.errors import unknown
from hofs_dask.methods.fields import Floats, Items, Whole, checked, finite
from hofs_dask.methods.problem import Problem

#: A feature joins the subset of the largest mean affinity when that exceeds this number.
THRESHOLD = 0.2

#: Floats of every feature that has been chosen and learned about, with every feature.
LEARNED = Floats(("learned", "feature"))


@dataclass(frozen=True)
class Sizes:
    """What the reductions of a search, and their memory, depend on."""

    n_samples: int
    n_features: int
    n_classes: int
    n_codes: int  # of the widest feature
    n_picks: int  # that a later round knows at most: one less than are chosen


@dataclass(frozen=True)
class ReductionBound:
    """How many reductions a search asks for at most.

    A search asks for one reduction after another, so that alone it takes as many scans. What it
    asks for may depend on the data: this is the most. `include` and `min_gain` only make it less.

    Attributes
    ----------
    by_name
        Of each reduction.
    in_all
        Of all: fewer than the sum where a round needs either of two.
    """

    by_name: Mapping[str, int]
    in_all: int


@dataclass(frozen=True, kw_only=True)
class State:
    """What a search knows after some rounds; every method adds its own fields."""

    chosen: tuple[int, ...] = checked(Items("pick", Whole("feature")))
    subsets: tuple[int, ...] = checked(Items("pick", Whole("pick")))
    # (rank, feature), as many ranks as have been learned about
    affinity: np.ndarray = checked(LEARNED)
    redundancy: np.ndarray = checked(LEARNED)  # (rank, feature) I(x_i : pick)
    information: float = checked(finite)  # of the features chosen in this epoch, in nats
    epoch: int = checked(Whole("epoch"))


@dataclass(frozen=True)
class Scores:
    """The scores of one round, all (feature,); those of features that are no candidates are void.

    Attributes
    ----------
    score
        What the greedy choice maximises.
    information
        The estimate of I(chosen and this : y), in nats.
    gain
        What this adds to what is known, in nats.
    """

    score: np.ndarray
    information: np.ndarray
    gain: np.ndarray


StateT = TypeVar("StateT", bound=State)
ScoresT = TypeVar("ScoresT", bound=Scores)


class Search(ABC, Generic[StateT, ScoresT]):
    """A method at work on a problem. States are frozen; every call returns a new one."""

    problem: Problem

    @property
    def restart_gain(self) -> float | None:
        """A best gain below this starts a new epoch; None for never."""
        return None

    @abstractmethod
    def start(self) -> StateT:
        """Return the state before the first round."""

    @abstractmethod
    def score(self, state: StateT) -> Generator[Request, Partial, tuple[StateT, ScoresT]]:
        """Return the state with what it had to learn, and the scores of every feature."""

    @abstractmethod
    def add(self, state: StateT, scores: ScoresT, pick: int, subset: int) -> StateT:
        """Return the state after a feature has been chosen."""

    def restart(self, state: StateT, scores: ScoresT) -> StateT:  # noqa: ARG002
        """Return the state of a new epoch, after scores of which none gained enough."""
        return state


@dataclass(frozen=True)
class Method(ABC):
    """The options of a method, validated once; the base of all method objects.

    A subclass with a name is registered by being defined: `hofs_dask.select`, the shell,
    checkpoints and the tables of the documentation know it by that name.
    """

    name: ClassVar[str]
    #: Whether the paper of HOFS compares with it: what `hofs_dask.compare` runs by default.
    in_paper: ClassVar[bool] = False
    #: All methods by name, in the order of their definition.
    registry: ClassVar[dict[str, type[Method]]] = {}

    def __init_subclass__(cls) -> None:
        """Register a method by its name."""
        super().__init_subclass__()
        if "name" in vars(cls):
            Method.registry[cls.name] = cls

    @property
    def options(self) -> dict[str, object]:
        """Every option by its name, as JSON can hold it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def label(self) -> str:
        """The name, with the options that are not the defaults.

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
        """A feature joins a subset when its mean affinity exceeds this."""
        return THRESHOLD

    @property
    @abstractmethod
    def state_type(self) -> type[State]:
        """The record that its search keeps between rounds."""

    @abstractmethod
    def search(self, problem: Problem) -> Search[Any, Any]:
        """Return the search that this method does on a problem."""

    @abstractmethod
    def largest_requests(self, sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests that take most memory, with arrays of the right sizes, no content."""

    @abstractmethod
    def bound_reductions(self, sizes: Sizes) -> ReductionBound:
        """Return how many reductions its search asks for at most, after the marginal counts."""

    def _check(self, option: str, valid: tuple[object, ...]) -> None:
        given = getattr(self, option)
        if given not in valid:
            raise unknown(f"{option} of {type(self).__name__}", given, valid)

    def _check_number(self, option: str) -> None:
        given = getattr(self, option)
        what = f"{option} of {type(self).__name__} is {given!r}; give a number >= 0"
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            raise TypeError(what)
        if not 0 <= given < float("inf"):
            raise ValueError(what)
