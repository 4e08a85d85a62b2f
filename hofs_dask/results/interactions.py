"""`Interactions`: the pairs or triples of features with the most synergy, stored as a Dataset."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hofs_dask.errors import unknown
from hofs_dask.methods.interactions import Tuples
from hofs_dask.results import interactions_text as text
from hofs_dask.results.base import Result
from hofs_dask.results.datasets import (
    COLUMN,
    Variable,
    annotated,
    label_array,
    plain,
    positions_in_data,
)
from hofs_dask.results.interactions_figure import heat_map, network
from hofs_dask.results.report.brief import render_brief
from hofs_dask.results.report.content import Report
from hofs_dask.results.report.interactions import brief_of_interactions, report_of_interactions

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

_RANK, _MEMBERS, _FEATURE = ("rank",), ("rank", "member"), ("feature",)

#: All variables of the Dataset.
VARIABLES = {
    "selected": Variable(_MEMBERS, "ifUO", "1", "name of each feature of the tuple"),
    "index": Variable(_MEMBERS, "i", "1", "position of each feature among all, from 0"),
    "synergy": Variable(
        _RANK,
        "f",
        "nats",
        "deviance per sample from the log-linear model with all effects of fewer variables",
    ),
    "information": Variable(_RANK, "f", "nats", "information of the tuple about the target"),
    "added": Variable(
        _RANK, "f", "nats", "information of the tuple beyond that of its best proper subset"
    ),
    "df": Variable(_RANK, "i", "1", "degrees of freedom of the test of the synergy"),
    "p_value": Variable(_RANK, "f", "1", "probability of such a synergy if there is none"),
    "p_adjusted": Variable(
        _RANK, "f", "1", "p-value times the number of tuples (Bonferroni), at most 1"
    ),
    "relevance": Variable(
        _FEATURE, "f", "nats", "mutual information of the single feature and the target"
    ),
    "usable": Variable(
        _FEATURE, "b", "1", "whether the feature is in tuples: not constant, not all missing"
    ),
}
COORDINATES = {
    "rank": Variable(_RANK, "i", "1", "rank, from 1"),
    "feature": Variable(_FEATURE, "ifUO", "1", "name of the feature"),
}
#: A tuple is significant if its adjusted p-value is at most this number.
ALPHA = 0.05


class Interactions(Result):
    """The result of `hofs_dask.interactions`: tuples of features, ranked by synergy.

    Parameters
    ----------
    dataset : xarray.Dataset
        The return value of `to_dataset`.

    Examples
    --------
    >>> import hofs_dask as hd
    >>> x = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1]] * 50)
    >>> hd.interactions(x, x[:, 0] ^ x[:, 1], top=1)
    1 of 3 pairs of 3 features, 1 significant at 0.05
    200 samples, 2 classes of target; at most 2 codes per feature; nats
    <BLANKLINE>
    rank  features  synergy  information   added  df  p_value  p_adjusted
       1  x0 x1      0.6931       0.6931  0.6931   1  7.6e-61     2.3e-60
    """

    __slots__ = ()

    FORMAT = "hofs_dask interactions"

    def __init__(self, dataset: xr.Dataset) -> None:
        super().__init__(dataset)
        index, n_features = dataset["index"].values, dataset.sizes["feature"]
        if index.size and not (index.min() >= 0 and index.max() < n_features):
            raise ValueError(
                f"the tuples have the columns {index.min()} to {index.max()}; there are "
                f"{n_features} features"
            )
        if (np.diff(index, axis=1) <= 0).any():
            raise ValueError("the columns of a tuple are not ascending")
        positions_in_data(dataset)

    @classmethod
    def _variables(cls) -> tuple[Mapping[str, Variable], Mapping[str, Variable]]:
        return VARIABLES | COORDINATES, COLUMN

    @classmethod
    def from_tuples(
        cls,
        found: Tuples,
        *,
        names: Sequence[Hashable],
        relevance: ArrayLike,
        usable: ArrayLike,
        attrs: Mapping[str, str | float],
        columns: ArrayLike | None = None,
    ) -> Interactions:
        """Create the result from the tuples that were found.

        Parameters
        ----------
        found : Tuples
            The tuples, best first.
        names : sequence of str, int or float
            Names of all features of the data.
        relevance, usable : array
            I(x_i:y) of every feature, in nats, and whether tuples may contain the feature.
        attrs : mapping
            Attributes of the Dataset that describe the run.
        columns : array of int, optional
            Position of each feature in the data, as for `Selection.from_picks`.
        """
        import xarray as xr

        labels = label_array(names)
        values_of = {
            "selected": labels[found.columns],
            "index": found.columns,
            "relevance": np.array(relevance, np.float64),
            "usable": np.array(usable, bool),
            "df": found.df,
        }
        for name in ("synergy", "information", "added", "p_value", "p_adjusted"):
            values_of[name] = np.array(getattr(found, name), np.float64)
        described = VARIABLES
        if columns is not None:
            values_of["column"], described = np.array(columns, np.int64), VARIABLES | COLUMN
        coordinates = {"rank": np.arange(1, len(found.columns) + 1), "feature": labels}
        own = {
            "order": found.columns.shape[1],
            "n_tuples": found.n_tuples,
            "n_codes": found.n_codes,
        }
        screened: dict[str, float] = {}
        if found.n_screened is not None:
            screened = {"n_screened": found.n_screened, "smallest_synergy": found.smallest}
        dataset = xr.Dataset(
            annotated(values_of, described),
            coords=annotated(coordinates, COORDINATES),
            attrs={"format": cls.FORMAT} | plain(attrs) | own | screened,
        )
        return cls(dataset)

    @property
    def tuples(self) -> list[tuple[Any, ...]]:
        """Names of the features of each tuple, by rank."""
        return [tuple(names) for names in self._dataset["selected"].values.tolist()]

    @property
    def indices(self) -> NDArray[np.int64]:
        """Positions of the features of each tuple in the data, (rank, member).

        Columns are counted as by `Selection.indices`.
        """
        return positions_in_data(self._dataset)[0][self._dataset["index"].values]

    @property
    def synergy(self) -> NDArray[np.float64]:
        """Synergy of each tuple, in nats."""
        return np.array(self._dataset["synergy"].values, dtype=np.float64)

    @property
    def smallest_synergy(self) -> float:
        """The smallest synergy that screening finds with probability 1 - 1e-6, in nats.

        A tuple with at least this synergy is in the result, unless `top` others have more. It is 0
        if there was no screening.
        """
        return float(self._dataset.attrs.get("smallest_synergy", 0.0))

    @property
    def significant(self) -> NDArray[np.bool_]:
        """Whether the adjusted p-value of each tuple is at most 0.05."""
        return np.array(self._dataset["p_adjusted"].values <= ALPHA)

    def to_dataframe(self) -> pd.DataFrame:
        """Return all tuples as a pandas DataFrame, one row per tuple.

        Examples
        --------
        >>> import hofs_dask as hd
        >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50)
        >>> found = hd.interactions(x, x[:, 0] ^ x[:, 1])
        >>> found.to_dataframe()[["feature_1", "feature_2", "df"]]
          feature_1 feature_2  df
        0        x0        x1   1
        """
        return text.frame(self._dataset)

    def plot(self, ax: Axes | None = None, *, kind: str = "network") -> Axes:
        """Plot the tuples, and return the axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. By default, a new figure is created.
        kind : {"network", "heat_map"}
            ``"network"`` draws features as points and tuples as lines. Lines are wider for more
            synergy, and grey if the tuple is not significant. ``"heat_map"`` draws, for every two
            features, the largest synergy of a tuple that contains both.

        Examples
        --------
        >>> import hofs_dask as hd
        >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50)
        >>> hd.interactions(x, x[:, 0] ^ x[:, 1]).plot(kind="heat_map").get_title(loc="left")
        'synergy (nats)'
        """
        drawings = {"network": network, "heat_map": heat_map}
        if kind not in drawings:
            raise unknown("kind of plot", kind, list(drawings))
        return drawings[kind](self._dataset, ax)

    def __len__(self) -> int:
        return int(self._dataset.sizes["rank"])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.tuples)

    def _report(self) -> Report:
        return report_of_interactions(self._dataset)

    def __repr__(self) -> str:
        return text.as_text(self._dataset)

    def _repr_html_(self) -> str:
        return render_brief(brief_of_interactions(self._dataset))
