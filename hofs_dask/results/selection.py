"""`Selection`: ranked features and their subsets, stored as an xarray Dataset."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hofs_dask.results.base import Result
from hofs_dask.results.datasets import (
    COLUMN,
    MISSING,
    Variable,
    annotated,
    check_positions,
    check_runners_up,
    label_array,
    plain,
    positions_in_data,
    with_axis,
)
from hofs_dask.results.plots import SelectionPlots
from hofs_dask.results.report.brief import render_brief
from hofs_dask.results.report.content import Report
from hofs_dask.results.report.selection import brief_of_selection, report_of_selection
from hofs_dask.results.text import as_text, frame, subsets_of
from hofs_dask.results.transform import chosen_of
from hofs_dask.search.picks import Pick, Ranking

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from hofs_dask.io.axes import Axis

__all__ = ["Pick", "Selection"]

Data = TypeVar("Data")

_RANK, _FEATURE = ("rank",), ("feature",)

#: All variables of the Dataset.
VARIABLES = {
    "selected": Variable(_RANK, "ifUO", "1", "name of the chosen feature"),
    "index": Variable(_RANK, "i", "1", "position of the chosen feature among all, from 0"),
    "subset": Variable(
        _RANK, "i", "1", "subset that the feature joined, numbered from 0 by first pick"
    ),
    "score": Variable(_RANK, "f", "nats", "criterion; without a unit if it is a ratio"),
    "gain": Variable(
        _RANK,
        "f",
        "nats",
        "information that the feature added: for joint minus the selection penalty, for pairwise "
        "methods the minimum over single earlier picks",
    ),
    "information": Variable(
        _RANK,
        "f",
        "nats",
        "information about the target of the features chosen since the last restart: for joint "
        "minus the selection penalty",
    ),
    "redundancy": Variable(
        _RANK, "f", "nats", "mean mutual information with the features chosen before"
    ),
    "margin": Variable(
        _RANK, "f", "nats", "score of the chosen feature minus score of the runner-up"
    ),
    "p_value": Variable(
        _RANK,
        "f",
        "1",
        "probability of as much dependence on the target by chance, for this feature alone; NaN if "
        "it was not tested",
    ),
    "runner_up": Variable(
        _RANK, "i", "1", "position of the feature with the second best score, from 0; -1 for none"
    ),
    "epoch": Variable(_RANK, "i", "1", "number of restarts before this pick"),
    "forced": Variable(_RANK, "b", "1", "whether the user included the feature"),
    "together": Variable(
        _RANK, "i", "1", "number of later picks of the same tuple, which was chosen as a whole"
    ),
    "relevance": Variable(
        _FEATURE, "f", "nats", "mutual information of the single feature and the target"
    ),
    "usable": Variable(
        _FEATURE, "b", "1", "whether the feature can be chosen: not constant, not all missing"
    ),
}
#: Absent if there is only one chosen feature or very many.
AFFINITY = {
    "affinity": Variable(
        ("rank", "other_rank"),
        "f",
        "1",
        "affinity of every two chosen features, by which subsets are formed; NaN on the diagonal",
    ),
}
COORDINATES = {
    "rank": Variable(_RANK, "i", "1", "rank, from 1"),
    "feature": Variable(_FEATURE, "ifUO", "1", "name of the feature"),
}


class Selection(Result):
    """The result of a selection: ranked features with their subsets, scores and gains.

    Returned by `hofs_dask.select` and `hofs_dask.load`.

    Parameters
    ----------
    dataset : xarray.Dataset
        The return value of `to_dataset`.

    Examples
    --------
    >>> picks = [
    ...     Pick(2, subset=0, score=0.30, gain=0.30, information=0.30, margin=0.1, runner_up=0),
    ...     Pick(0, subset=1, score=0.45, gain=0.15, information=0.45, margin=0.2, runner_up=1),
    ... ]
    >>> result = Selection.from_picks(
    ...     picks,
    ...     names=["red", "green", "blue"],
    ...     relevance=[0.2, 0.1, 0.3],
    ...     attrs={"method": "mim", "target": "crop", "n_samples": 1000, "n_classes": 2},
    ... )
    >>> result
    2 of 3 features in 2 subsets, selected by mim
    1000 samples, 2 classes of crop; information in nats
    <BLANKLINE>
    subset 0  blue
    subset 1  red
    <BLANKLINE>
    rank  feature  subset    gain  information  relevance  margin
       1  blue          0  0.3000       0.3000     0.3000  0.1000
       2  red           1  0.1500       0.4500     0.2000  0.2000
    >>> result.transform(np.array([[1, 2, 3], [4, 5, 6]]))
    array([[3, 1],
           [6, 4]])
    """

    __slots__ = ()

    FORMAT = "hofs_dask selection"

    def __init__(self, dataset: xr.Dataset) -> None:
        super().__init__(dataset)
        check_positions(dataset["index"].values, dataset.sizes["feature"])
        check_runners_up(dataset["runner_up"].values, dataset.sizes["feature"])
        positions_in_data(dataset)

    @classmethod
    def _variables(cls) -> tuple[Mapping[str, Variable], Mapping[str, Variable]]:
        return VARIABLES | COORDINATES, COLUMN | MISSING | AFFINITY

    @classmethod
    def from_picks(
        cls,
        picks: Sequence[Pick],
        *,
        names: Sequence[Hashable],
        relevance: ArrayLike,
        attrs: Mapping[str, str | float],
        usable: ArrayLike | None = None,
        axis: Axis | None = None,
        columns: ArrayLike | None = None,
        missing: ArrayLike | None = None,
        affinity: ArrayLike | None = None,
    ) -> Selection:
        """Create a selection from the picks of a search.

        Parameters
        ----------
        picks : sequence of Pick
            The picks in the order of their ranks.
        names : sequence of str, int or float
            Names of all features of the data.
        relevance : array of float
            I(x_i:y) of every feature, in nats.
        attrs : mapping
            Attributes of the Dataset that describe the run, such as method, options (as JSON),
            target, n_samples and n_classes.
        usable : array of bool, optional
            False for features that are constant or all missing. By default, all features are
            usable.
        axis : Axis, optional
            The dim, units and further coordinates of the features, for xarray data.
        columns : array of int, optional
            Position of each feature in the data, if the data has further columns. Their number
            must be in `attrs` as ``n_columns``.
        missing : array of float, optional
            Share of the samples, by weight, in which each feature is missing.
        affinity : array of float (rank, rank), optional
            Affinity of every two picks.

        Returns
        -------
        Selection
            The selection. Its subsets are numbered by the rank of their first feature.

        Examples
        --------
        >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4, runner_up=0)
        >>> Selection.from_picks(
        ...     [pick], names=[400.0, 412.5], relevance=[0.1, 0.5], attrs={"method": "mim"}
        ... ).features
        [412.5]
        """
        import xarray as xr

        labels = label_array(names)
        index = np.array([pick.index for pick in picks], dtype=np.int64)
        check_positions(index, len(labels))
        per_feature = {
            "relevance": np.array(relevance, dtype=np.float64),
            "usable": np.ones(len(labels), bool) if usable is None else np.array(usable, bool),
        }
        for name, values in per_feature.items():
            if values.shape != labels.shape:
                raise ValueError(
                    f"{name} has the shape {values.shape}, but there are {len(labels)} names: "
                    f"give one value per name"
                )
        first_pick = {pick.subset: None for pick in picks}
        number = {subset: position for position, subset in enumerate(first_pick)}
        per_rank = {
            "selected": labels[index],
            "index": index,
            "subset": np.array([number[pick.subset] for pick in picks], dtype=np.int64),
            "runner_up": np.array([pick.runner_up for pick in picks], dtype=np.int64),
            "epoch": np.array([pick.epoch for pick in picks], dtype=np.int64),
            "forced": np.array([pick.forced for pick in picks], dtype=bool),
            "together": np.array([pick.together for pick in picks], dtype=np.int64),
        }
        for name in ("score", "gain", "information", "redundancy", "margin", "p_value"):
            per_rank[name] = np.array([getattr(pick, name) for pick in picks], dtype=np.float64)
        described = VARIABLES
        if columns is not None:
            per_feature["column"] = np.array(columns, np.int64)
            described = described | COLUMN
        if missing is not None:
            per_feature["missing"] = np.array(missing, np.float64)
            described = described | MISSING
        if affinity is not None:
            per_rank["affinity"] = np.array(affinity, np.float64)
            described = described | AFFINITY
        values_of = per_rank | per_feature
        coordinates = {"rank": np.arange(1, len(picks) + 1), "feature": labels}
        dataset = xr.Dataset(
            annotated(values_of, described),
            coords=annotated(coordinates, COORDINATES),
            attrs={"format": cls.FORMAT} | plain(attrs),
        )
        return cls(with_axis(dataset, axis))

    @classmethod
    def from_ranking(cls, found: Ranking) -> Selection:
        """Create a selection from the ranking that a search returns."""
        return cls.from_picks(
            found.picks,
            names=found.names,
            relevance=found.relevance,
            usable=found.usable,
            attrs=found.attrs,
            axis=found.axis,
            columns=found.columns,
            missing=found.missing,
            affinity=found.affinity,
        )

    @property
    def features(self) -> list[Any]:
        """Names of the chosen features, by rank."""
        return list(self._dataset["selected"].values.tolist())

    @property
    def indices(self) -> NDArray[np.int64]:
        """Positions of the chosen features in the data, by rank.

        Features that were excluded or skipped are counted. Columns or variables that are used as
        target, groups, weights, where or by are not, so for a data frame that has them, use
        `features` or `transform`.
        """
        return positions_in_data(self._dataset)[0][self._dataset["index"].values]

    @property
    def subsets(self) -> list[list[Any]]:
        """Names of the chosen features in each subset. Subsets and names are in order of rank."""
        return subsets_of(self._dataset)

    @property
    def scores(self) -> NDArray[np.float64]:
        """Score of each chosen feature in its round, in nats unless the criterion is a ratio."""
        return np.array(self._dataset["score"].values, dtype=np.float64)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table of the printout with all ranks, as a pandas DataFrame.

        The margin of a feature that the user included is NaN. For xarray data, the coordinates
        along the features are additional columns.

        Examples
        --------
        >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4, runner_up=0)
        >>> result = Selection.from_picks(
        ...     [pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={"method": "mim"}
        ... )
        >>> result.to_dataframe()[["rank", "feature", "gain"]]
           rank feature  gain
        0     1       b   0.5
        """
        return frame(self._dataset)

    def transform(self, data: Data) -> Data:
        """Return only the chosen features of `data`, in order of rank.

        Lazy data stays lazy. The target and other variables that are not features are left out;
        coordinates are kept.

        Parameters
        ----------
        data : array, dict of arrays, data frame, Arrow table or dataset, DataArray or Dataset
            Data that contains the chosen features. They are found by name. Arrays without names
            must have the same columns as the data that was passed to `select`.

        Returns
        -------
        same type as data
            The chosen features, in order of rank.

        Examples
        --------
        >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4, runner_up=0)
        >>> result = Selection.from_picks(
        ...     [pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={"method": "mim"}
        ... )
        >>> result.transform(np.array([[1, 2], [3, 4]]))
        array([[2],
               [4]])
        """
        chosen: Data = chosen_of(self._dataset, data)
        return chosen

    @property
    def plot(self) -> SelectionPlots:
        """The plotting methods: ``plot()`` by rank, and ``plot.spectrum()`` along a coordinate.

        ``plot(ax=None)`` plots information and gain by rank. ``plot.spectrum(x=None, ax=None)``
        plots the relevance of all features along the numeric coordinate ``x`` of the features, such
        as ``"wavelength"`` (by default, along their names), with the chosen features marked. Both
        draw on ``ax``, by default on a new figure, and return the matplotlib axes:
        ``result.plot().figure.savefig("ranks.png")`` saves the figure.

        Examples
        --------
        >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4, runner_up=0)
        >>> result = Selection.from_picks(
        ...     [pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={"method": "mim"}
        ... )
        >>> result.plot().get_ylabel()
        'information (nats)'
        """
        return SelectionPlots(self._dataset)

    @overload
    def __getitem__(self, key: int) -> Any: ...

    @overload
    def __getitem__(self, key: slice) -> Selection: ...

    def __getitem__(self, key: int | slice) -> Any:
        """Return the name at a position, or the selection of the first ranks for ``result[:5]``."""
        if not isinstance(key, slice):
            return self.features[key]
        if key.start not in (None, 0) or key.step not in (None, 1):
            raise ValueError(
                f"a slice from {key.start} in steps of {key.step} was given; a selection can be "
                "cut after a rank: give result[:5], or cut the names with result.features[2:5]"
            )
        cut = self._dataset.isel(rank=slice(key.stop))
        if "affinity" in cut:
            cut = cut.isel(other_rank=slice(key.stop))
            cut = cut if cut.sizes["rank"] > 1 else cut.drop_vars("affinity")
        return Selection(cut)

    def __len__(self) -> int:
        return int(self._dataset.sizes["rank"])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.features)

    def _report(self) -> Report:
        return report_of_selection(self._dataset)

    def __repr__(self) -> str:
        return as_text(self._dataset)

    def _repr_html_(self) -> str:
        return render_brief(brief_of_selection(self._dataset))
