"""The result of a search: the pick of each round, and the ranking of all picks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hofs_dask.io.axes import Axis
from hofs_dask.io.kinds import Name
from hofs_dask.methods.fields import Whole, checked, flag, number


@dataclass(frozen=True)
class Pick:
    """The feature that one round of the greedy search chose, with its scores.

    Parameters
    ----------
    index : int
        Position of the chosen feature in the data.
    subset : int
        Number of the subset that the feature joined or opened.
    score : float
        Value of the criterion, in nats.
    gain : float
        Information that the feature added, in nats; for `joint`, minus the selection penalty.
    information : float
        Information of the features chosen since the last restart, in nats.
    margin : float
        Score of the feature minus the score of the runner-up, in nats.
    runner_up : int
        Position of the feature with the second-best score, -1 for none.
    epoch : int
        Number of restarts of the search before this pick.
    forced : bool
        Whether the user requested the feature by ``include``.
    redundancy : float
        Mean mutual information with the previously chosen features, in nats.
    p_value : float
        Probability of at least this much dependence on the label by chance, not adjusted for the
        number of candidates. NaN if the feature was not tested. For the first feature of a tuple,
        that of the synergy of the tuple.
    together : int
        Number of later picks of the same tuple, which was chosen as a whole.

    Examples
    --------
    >>> Pick(3, subset=0, score=0.5, gain=0.1, information=0.5, margin=0.2, runner_up=1).index
    3
    """

    index: int = checked(Whole("feature"))
    subset: int = checked(Whole("pick"))
    score: float = checked(number)
    gain: float = checked(number)
    information: float = checked(number)
    margin: float = checked(number)
    runner_up: int = checked(Whole("feature", least=-1), default=-1)
    epoch: int = checked(Whole("epoch"), default=0)
    forced: bool = checked(flag, default=False)
    redundancy: float = checked(number, default=0.0)
    p_value: float = checked(number, default=float("nan"))
    together: int = checked(Whole("feature"), default=0)


@dataclass(frozen=True)
class Ranking:
    """The picks of a search, and the features that they were chosen from.

    Parameters
    ----------
    picks : tuple of Pick
        One per rank, best first.
    names : tuple
        Name of every feature of the data.
    relevance : ndarray of float64 (feature)
        I(x_i:y) of every feature, in nats.
    usable : ndarray of bool (feature)
        False for features that are constant or all missing.
    attrs : mapping
        Method, options (JSON), target, n_samples, n_classes, ...
    axis : Axis or None
        The coordinates and attributes of the features, for xarray data.
    columns : ndarray of int64 (feature) or None
        Position of every feature in the data, if columns of the data are not features.
    missing : ndarray of float64 (feature) or None
        Share of the samples, by weight, in which the feature is missing.
    affinity : ndarray of float64 (rank, rank) or None
        Affinity of every two picks, NaN on the diagonal. Subsets are formed by it.
    """

    picks: tuple[Pick, ...]
    names: tuple[Name, ...]
    relevance: np.ndarray
    usable: np.ndarray
    attrs: Mapping[str, str | float]
    axis: Axis | None = None
    columns: np.ndarray | None = None
    missing: np.ndarray | None = None
    affinity: np.ndarray | None = None
