"""Base classes of a method: its options, its search, and the state of the search."""

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

#: A feature joins the subset with the largest mean affinity if that exceeds this number.
THRESHOLD = 0.2

#: Scores closer than this, in nats, are equal, and a gain may be this much below a minimum: the
#: rounding error of equal terms that cancel.
LEAST_DIFFERENCE = 1e-12

#: Floats for each pick whose statistics are known, with every feature.
LEARNED = Floats(("learned", "feature"))


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine the reductions of a search and their memory."""

    n_samples: int
    n_features: int
    n_classes: int
    n_codes: int  # the largest of all features
    n_picks: int  # picks known in the last round: one less than the features to choose


@dataclass(frozen=True)
class ReductionBound:
    """Maximum number of reductions of a search.

    A search requests one reduction at a time, so a single search needs as many scans. The actual
    number may depend on the data, and `include` and `min_gain` can only reduce it.

    Attributes
    ----------
    by_name
        Maximum for each reduction.
    in_all
        Maximum in total. It is below the sum if a round needs one of two reductions.
    """

    by_name: Mapping[str, int]
    in_all: int


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a search after some rounds; every method adds its own fields."""

    chosen: tuple[int, ...] = checked(Items("pick", Whole("feature")))
    subsets: tuple[int, ...] = checked(Items("pick", Whole("pick")))
    # (rank, feature), for the ranks whose statistics are known
    affinity: np.ndarray = checked(LEARNED)
    redundancy: np.ndarray = checked(LEARNED)  # (rank, feature) I(x_i : pick)
    information: float = checked(finite)  # of the features chosen in this epoch, in nats
    epoch: int = checked(Whole("epoch"))


@dataclass(frozen=True)
class Scores:
    """The scores of one round, arrays (feature,); only those of candidates are meaningful.

    Attributes
    ----------
    score
        The criterion that the greedy search maximizes.
    information
        The estimate of I(chosen features and this one : y), in nats.
    gain
        The increase of information by this feature, in nats.
    """

    score: np.ndarray
    information: np.ndarray
    gain: np.ndarray


StateT = TypeVar("StateT", bound=State)
ScoresT = TypeVar("ScoresT", bound=Scores)


class Search(ABC, Generic[StateT, ScoresT]):
    """The search of a method on a problem. States are frozen; every call returns a new one."""

    problem: Problem

    def is_exhausted(self, scores: ScoresT, pick: int, candidates: np.ndarray) -> bool:  # noqa: ARG002
        """Return whether the search restarts because this pick, the best, adds too little.

        Parameters
        ----------
        scores
            The scores of the round.
        pick
            The index of the best candidate.
        candidates
            Which features can still be chosen, bool (feature,).
        """
        return False

    @abstractmethod
    def start(self) -> StateT:
        """Return the state before the first round."""

    @abstractmethod
    def score(self, state: StateT) -> Generator[Request, Partial, tuple[StateT, ScoresT]]:
        """Yield the requests of a round; return the updated state and the scores of features."""

    @abstractmethod
    def add(self, state: StateT, scores: ScoresT, pick: int, subset: int) -> StateT:
        """Return the state after a feature has been chosen."""

    def restart(self, state: StateT, scores: ScoresT) -> StateT:  # noqa: ARG002
        """Return the state of a new epoch, after a round in which no gain was sufficient."""
        return state


@dataclass(frozen=True)
class Method(ABC):
    """The validated options of a method; base class of all method objects.

    Defining a subclass with a ``name`` registers it. `hofs_dask.select`, the command line,
    checkpoints and the tables of the documentation use this name.
    """

    name: ClassVar[str]
    #: Whether the HOFS paper includes the method in its comparison, the default of
    #: `hofs_dask.compare`.
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
        """All options by name, as values that JSON can hold."""
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
        """A feature joins a subset if its mean affinity exceeds this number."""
        return THRESHOLD

    @property
    def cross_fitted(self) -> bool:
        """Whether scores are estimated by fold, so that groups of samples affect them."""
        return False

    @property
    @abstractmethod
    def state_type(self) -> type[State]:
        """The type of the state that the search keeps between rounds."""

    @abstractmethod
    def search(self, problem: Problem) -> Search[Any, Any]:
        """Return the search of this method on a problem."""

    @abstractmethod
    def largest_requests(self, sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests that need the most memory, with placeholder arrays."""

    @abstractmethod
    def bound_reductions(self, sizes: Sizes) -> ReductionBound:
        """Return the maximum number of reductions of a search, without the marginal counts."""

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
