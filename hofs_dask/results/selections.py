"""`Selections`: the selection of each part of the data, by label."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hofs_dask.errors import unknown
from hofs_dask.io.kinds import Name
from hofs_dask.results import comparison_text
from hofs_dask.results.comparison import jaccard, padded
from hofs_dask.results.comparison_figure import plot
from hofs_dask.results.datasets import annotated, copy_axis, label_array
from hofs_dask.results.report.brief import render_brief
from hofs_dask.results.report.comparison import brief_of_comparison, report_of_comparison
from hofs_dask.results.report.write import write_page
from hofs_dask.results.selection import COORDINATES, VARIABLES, Selection

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

#: Names that the dim of the parts cannot have, because the Dataset uses them otherwise.
_USED = {*VARIABLES, *COORDINATES, "n_samples", "label_entropy"}


class Selections(Mapping[Name, Selection]):
    """The result of `hofs_dask.select_by`: the `Selection` of each part of the data, by label.

    Parameters
    ----------
    selections : mapping of label to Selection
        The selection of each part.
    by : str
        The name of the labels, which is the dim of `to_dataset`.

    Examples
    --------
    >>> import hofs_dask as hd
    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> site = np.repeat(["north", "south"], 200)
    >>> y = np.where(site == "north", x[:, 0], x[:, 2]) > 0
    >>> found = hd.select_by(x, y, 1, by=site)
    >>> found.features
    {'north': ['x0'], 'south': ['x2']}
    >>> found["south"].indices
    array([2])
    """

    __slots__ = ("_selections", "by")

    def __init__(self, selections: Mapping[Name, Selection], by: str) -> None:
        if not selections:
            raise ValueError("no selection was given; give that of one part or more")
        self._selections = dict(selections)
        self.by = f"by_{by}" if by in _USED else by

    @property
    def features(self) -> dict[Name, list[Any]]:
        """Names of the chosen features in order of rank, by label of the part."""
        return {label: each.features for label, each in self._selections.items()}

    def to_dataset(self) -> xr.Dataset:
        """Return all selections as one Dataset, with a dim of the parts.

        Variables by rank are padded where a part has fewer ranks than others: whole numbers with
        -1, other numbers with NaN, and names with an empty string. Positions refer to the dim
        ``feature`` of this Dataset. A feature that was skipped in a part has the relevance NaN
        there.

        Examples
        --------
        >>> import hofs_dask as hd
        >>> x = np.random.default_rng(0).normal(size=(400, 3))
        >>> found = hd.select_by(x, x[:, 1] > 0, 1, by=np.arange(400) % 2)
        >>> found.to_dataset()["selected"].dims
        ('by', 'rank')
        """
        import xarray as xr

        datasets = [each.to_dataset() for each in self.values()]
        names = list(dict.fromkeys(n for each in datasets for n in each["feature"].values.tolist()))
        place = {name: position for position, name in enumerate(names)}
        n_ranks = max(each.sizes["rank"] for each in datasets)
        columns: dict[str, NDArray[Any]] = {}
        for name, variable in VARIABLES.items():
            several = []
            for each in datasets:
                where = np.array([place[n] for n in each["feature"].values.tolist()], np.int64)
                values = each[name].values
                if variable.dims == ("rank",):
                    if name in ("index", "runner_up"):
                        values = np.where(values < 0, -1, where[values])
                    several.append(padded(name, values, n_ranks))
                else:
                    own = (
                        np.zeros(len(names), bool)
                        if name == "usable"
                        else np.full(len(names), np.nan)
                    )
                    own[where] = values
                    several.append(own)
            columns[name] = np.stack(several)
        described = annotated(columns, VARIABLES)
        variables = {
            name: ((self.by, *dims), values, attrs)
            for name, (dims, values, attrs) in described.items()
        }
        for name, words, units in (
            ("n_samples", "number of samples of the part", "1"),
            ("label_entropy", "entropy of the target in the part", "nats"),
        ):
            values = np.array([each.attrs[name] for each in datasets if name in each.attrs])
            if len(values) == len(datasets):
                variables[name] = ((self.by,), values, {"long_name": words, "units": units})
        coordinates = {"rank": np.arange(1, n_ranks + 1), "feature": label_array(names)}
        first = datasets[0]
        dataset = xr.Dataset(
            variables,
            coords={
                self.by: (self.by, label_array(list(self))),
                **annotated(coordinates, COORDINATES),
            },
            attrs={
                name: value
                for name, value in first.attrs.items()
                if name not in ("format", "n_samples", "label_entropy", "n_columns")
                and all(each.attrs.get(name) == value for each in datasets)
            },
        )
        same = all(each.sizes["feature"] == len(names) for each in datasets)
        return copy_axis(dataset, first) if same else dataset

    def to_dataframe(self) -> pd.DataFrame:
        """Return the names of the chosen features as a DataFrame with one column per part.

        Examples
        --------
        >>> import hofs_dask as hd
        >>> x = np.random.default_rng(0).normal(size=(400, 3))
        >>> hd.select_by(x, x[:, 1] > 0, 1, by=np.arange(400) % 2).to_dataframe()
               0   1
        rank
        1     x1  x1
        """
        return comparison_text.frame(self._side_by_side())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the ranks of all parts side by side and return the axes.

        Lines connect the ranks of the same feature. The colour of a feature shows its subset in the
        first part. Features that were chosen in every part are bold.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. By default, a new figure is created.

        Examples
        --------
        >>> import hofs_dask as hd
        >>> x = np.random.default_rng(0).normal(size=(400, 3))
        >>> hd.select_by(x, x[:, 1] > 0, 1, by=np.arange(400) % 2).plot().get_ylabel()
        'rank'
        """
        return plot(self._side_by_side(), ax, parts=self.by)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a report as one HTML file, with the ranks of all parts side by side.

        Parameters
        ----------
        path : str or path
            As for `Selection.to_html`.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import hofs_dask as hd
        >>> x = np.random.default_rng(0).normal(size=(400, 3))
        >>> found = hd.select_by(x, x[:, 1] > 0, 1, by=np.arange(400) % 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found.to_html(f"{folder}/report.html")
        ...     "1 from at least one" in Path(f"{folder}/report.html").read_text()
        True
        """
        write_page(report_of_comparison(self._side_by_side(), parts=self.by), path)

    def _side_by_side(self) -> xr.Dataset:
        """Return the ranks as the Dataset of a comparison, with parts in place of methods."""
        whole = self.to_dataset()
        index = whole["index"].values
        labels = label_array(list(map(str, self)))
        overlap = jaccard([each[each >= 0] for each in index], whole.sizes["rank"])
        made = whole[["index", "subset"]].rename({self.by: "method"})
        # the names are not kept with these variables, which do not lie along the features
        made = made.assign_coords(method=labels, feature=whole["feature"])
        made["usable"] = ("feature", whole["usable"].values.any(axis=0))
        made["overlap"] = (("rank", "method", "other"), overlap)
        n_samples = int(whole["n_samples"].sum()) if "n_samples" in whole else None
        made.attrs = whole.attrs | ({} if n_samples is None else {"n_samples": n_samples})
        return made

    def __getitem__(self, label: Name) -> Selection:
        if label not in self._selections:
            raise KeyError(str(unknown(f"label of {self.by}", label, self._selections)))
        return self._selections[label]

    def __iter__(self) -> Iterator[Name]:
        return iter(self._selections)

    def __len__(self) -> int:
        return len(self._selections)

    def __repr__(self) -> str:
        return comparison_text.as_text(self._side_by_side(), parts=self.by)

    def _repr_html_(self) -> str:
        return render_brief(brief_of_comparison(self._side_by_side(), parts=self.by))
