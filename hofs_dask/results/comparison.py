"""`Comparison`: the selections of several methods and their agreement, stored as a Dataset."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hofs_dask.errors import unknown
from hofs_dask.io.places import Location, StorageOptions, as_place, check_options
from hofs_dask.results import selection
from hofs_dask.results.base import Result
from hofs_dask.results.comparison_figure import plot
from hofs_dask.results.comparison_text import as_text, frame, names_of
from hofs_dask.results.datasets import (
    COLUMN,
    MISSING,
    Variable,
    annotated,
    check_positions,
    check_runners_up,
    copy_axis,
    plain,
    positions_in_data,
)
from hofs_dask.results.interactions import Interactions
from hofs_dask.results.report.brief import render_brief
from hofs_dask.results.report.comparison import brief_of_comparison, report_of_comparison
from hofs_dask.results.report.content import Report
from hofs_dask.results.saving.content import DamagedError, ForeignError
from hofs_dask.results.saving.readwrite import read
from hofs_dask.results.selection import Selection
from hofs_dask.store.codes import is_codes

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

__all__ = ["Comparison", "load"]

#: Variables that a comparison has in addition to the variables of a selection.
AGREEMENT = {
    "overlap": Variable(
        ("rank", "method", "other"),
        "f",
        "1",
        "Jaccard index of the features chosen by two methods up to this rank",
    ),
}
AFFINITY = {
    name: replace(each, dims=("method", *each.dims)) for name, each in selection.AFFINITY.items()
}
RESAMPLED = {
    "stability": Variable(
        ("method", "rank"),
        "f",
        "1",
        "mean Jaccard index of the features chosen from two resamples up to this rank",
    ),
    "frequency": Variable(
        ("method", "feature"),
        "f",
        "1",
        "share of the resamples from which the method chose the feature",
    ),
}
COORDINATES = {
    "method": Variable(("method",), "U", "1", "label of the method"),
    "other": Variable(("other",), "U", "1", "label of the method compared with"),
    **selection.COORDINATES,
}

# Fill values for ranks that a method did not reach, by `numpy.dtype.kind`.
PADS = {"i": -1, "f": np.nan, "b": False, "U": "", "O": ""}


class Comparison(Result):
    """The result of a comparison: selections by several methods from the same data.

    Returned by `hofs_dask.compare` and `hofs_dask.load`. ``comparison[label]`` is the `Selection`
    of the method with this label. Iterating over a comparison gives the labels.

    Parameters
    ----------
    dataset : xarray.Dataset
        The return value of `to_dataset`.

    Notes
    -----
    The Dataset has the dimensions `method`, `rank`, `feature` and `other`. If a method chose fewer
    features than others, its missing ranks are filled: index, subset, runner-up and epoch with -1,
    other numbers with NaN, and names with an empty string (NaN if names are numbers).

    Select a method with ``.sel({"method": "mim"})``. Do not use ``.sel(method="mim")``, because
    `sel` has an argument called `method` with another meaning.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick
    >>> def chosen(*order):
    ...     picks = [Pick(i, subset=0, score=1, gain=1, information=1, margin=0) for i in order]
    ...     return Selection.from_picks(
    ...         picks,
    ...         names=["red", "green", "blue", "infrared"],
    ...         relevance=[0.2, 0.1, 0.3, 0.0],
    ...         attrs={"n_samples": 1000, "n_classes": 2, "target": "crop"},
    ...     )
    >>> result = Comparison.from_selections(
    ...     {"hofs": chosen(2, 0, 1), "mim": chosen(2, 0, 3), "jmi": chosen(0, 1, 2)},
    ...     attrs={"n_scans": 4, "n_reductions": 11},
    ... )
    >>> result
    3 of 4 features selected by each of 3 methods; 4 by at least one, 2 by all
    1000 samples, 2 classes of crop
    <BLANKLINE>
    rank  hofs   mim       jmi
       1  blue   blue      red
       2  red    red       green
       3  green  infrared  blue
    <BLANKLINE>
    overlap of the first 3 picks (Jaccard index)
         hofs   mim
    mim  0.50
    jmi  1.00  0.50
    <BLANKLINE>
    4 scans over the data for 11 reductions
    >>> result["mim"].features
    ['blue', 'red', 'infrared']
    """

    __slots__ = ()

    FORMAT = "hofs_dask comparison"

    def __init__(self, dataset: xr.Dataset) -> None:
        super().__init__(dataset)
        for index in dataset["index"].values:
            check_positions(index[index >= 0], dataset.sizes["feature"])
        check_runners_up(dataset["runner_up"].values, dataset.sizes["feature"])
        positions_in_data(dataset)

    @classmethod
    def _variables(cls) -> tuple[Mapping[str, Variable], Mapping[str, Variable]]:
        required = _by_rank_and_method() | AGREEMENT | COORDINATES
        return required, RESAMPLED | COLUMN | MISSING | AFFINITY

    @classmethod
    def from_selections(
        cls,
        selections: Mapping[str, Selection],
        *,
        attrs: Mapping[str, str | float],
        resamples: Mapping[str, Sequence[NDArray[np.int64]]] | None = None,
    ) -> Comparison:
        """Create a comparison from the selections of several methods.

        Parameters
        ----------
        selections : mapping of str to Selection
            The selection of each method, by label. All must be from the same features and target.
        attrs : mapping
            Attributes of the Dataset that describe the run, such as n_scans and n_reductions.
        resamples : mapping of str to sequence of arrays, optional
            For each label, one array per bootstrap resample with the positions of the features
            that the method chose from it, in order of rank. All methods must have the same number
            of resamples. With one resample, the stability is NaN.

        Returns
        -------
        Comparison
            The comparison. It has the attributes that all selections share, and `attrs`.

        Notes
        -----
        The overlap at rank k is the Jaccard index of the first k features of two methods. The
        stability at rank k is the mean Jaccard index of the first k features of every two
        resamples. The Jaccard index of two sets is the size of their intersection divided by the
        size of their union, or 1 if both sets are empty. If fewer than k features were chosen, all
        of them are used.

        Examples
        --------
        >>> from hofs_dask.results.selection import Pick
        >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4, runner_up=0)
        >>> one = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
        >>> resamples = [np.array([1]), np.array([1]), np.array([0])]
        >>> result = Comparison.from_selections(
        ...     {"mim": one}, attrs={}, resamples={"mim": resamples}
        ... )
        >>> result.to_dataset()["stability"].sel({"method": "mim", "rank": 1}).round(3).item()
        0.333
        """
        import xarray as xr

        datasets = _alike(selections)
        labels, first = np.array(list(datasets), dtype=str), next(iter(datasets.values()))
        n_ranks = max(each.sizes["rank"] for each in datasets.values())
        variables = _by_rank_and_method()
        columns: dict[str, NDArray[Any]] = {}
        for name, variable in variables.items():
            if "rank" in variable.dims:
                columns[name] = np.stack(
                    [padded(name, each[name].values, n_ranks) for each in datasets.values()]
                )
            else:
                columns[name] = first[name].values
        for optional in (COLUMN, MISSING):
            for name in optional.keys() & first.data_vars:
                columns[name] = first[name].values
                variables |= optional
        affinity = [each.get("affinity") for each in datasets.values()]
        if any(each is not None for each in affinity):
            columns["affinity"] = np.full((len(labels), n_ranks, n_ranks), np.nan)
            for method, each in enumerate(affinity):
                if each is not None:
                    n = len(each)
                    columns["affinity"][method, :n, :n] = each.values
            variables |= AFFINITY
        columns["overlap"] = jaccard([each["index"].values for each in datasets.values()], n_ranks)
        variables |= AGREEMENT
        own: dict[str, str | float] = {}
        if resamples is not None:
            chosen = _checked(resamples, labels.tolist(), first.sizes["feature"])
            columns |= _resampled(chosen, n_ranks, first.sizes["feature"])
            variables |= RESAMPLED
            own["n_resamples"] = len(chosen[0])
        coordinates = {
            "method": labels,
            "other": labels,
            "rank": np.arange(1, n_ranks + 1),
            "feature": first["feature"].values,
        }
        dataset = xr.Dataset(
            annotated(columns, variables),
            coords=annotated(coordinates, COORDINATES),
            attrs=_shared(datasets) | plain(attrs) | own | _by_method(datasets),
        )
        return cls(copy_axis(dataset.assign_attrs(format=cls.FORMAT), first))

    @property
    def selections(self) -> dict[str, Selection]:
        """The selection of each method, by label."""
        return {label: self[label] for label in self}

    @property
    def features(self) -> dict[str, list[Any]]:
        """Names of the chosen features in order of rank, by label of the method."""
        return names_of(self._dataset)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the names of the chosen features as a DataFrame with one column per method.

        Examples
        --------
        >>> from hofs_dask.results.selection import Pick
        >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4, runner_up=0)
        >>> one = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
        >>> Comparison.from_selections({"mim": one, "jmi": one}, attrs={}).to_dataframe()
             mim jmi
        rank
        1      b   b
        """
        return frame(self._dataset)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the ranks of all methods side by side and return the axes.

        Lines connect the ranks of the same feature. The colour of a feature shows its subset in the
        selection of the first method. Features that every method chose are bold. If there are
        resamples, the stability of each method by rank is drawn below its ranks.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. By default, a new figure is created. If the figure has no layout
            engine, the constrained layout is used, so that nothing is cut off.

        Examples
        --------
        >>> one = Selection.from_picks([], names=["a"], relevance=[0.1], attrs={"method": "mim"})
        >>> Comparison.from_selections({"mim": one}, attrs={}).plot().get_ylabel()
        'rank'
        """
        return plot(self._dataset, ax)

    def __len__(self) -> int:
        return int(self._dataset.sizes["method"])

    def __iter__(self) -> Iterator[str]:
        return iter(self._dataset["method"].values.tolist())

    def __getitem__(self, label: str) -> Selection:
        import xarray as xr

        labels = list(self)
        if label not in labels:
            raise KeyError(str(unknown("method", label, labels)))
        whole = self._dataset
        index = whole["index"].values[labels.index(label)]
        found = whole.isel(method=labels.index(label), rank=slice(int((index >= 0).sum())))
        variables = selection.VARIABLES | {
            name: each for name, each in (COLUMN | MISSING).items() if name in whole
        }
        columns = {name: found[name].values for name in (*variables, "rank", "feature")}
        n = len(columns["rank"])
        if "affinity" in whole and n > 1:
            columns["affinity"] = found["affinity"].values[:, :n]
            variables |= selection.AFFINITY
        columns["selected"] = columns["feature"][columns["index"]]
        dataset = xr.Dataset(
            annotated(columns, variables),
            coords=annotated(columns, selection.COORDINATES),
            attrs={"format": Selection.FORMAT} | _attrs_of(whole, label),
        )
        return Selection(copy_axis(dataset, whole))

    def _report(self) -> Report:
        return report_of_comparison(self._dataset)

    def __repr__(self) -> str:
        return as_text(self._dataset)

    def _repr_html_(self) -> str:
        return render_brief(brief_of_comparison(self._dataset))


def load(
    path: Location, *, storage_options: StorageOptions | None = None
) -> Selection | Comparison | Interactions | xr.DataArray:
    """Load a result that `save`, `to_zarr` or the command line wrote.

    It is a selection, a comparison, interactions, or the DataArray of an information matrix.

    Parameters
    ----------
    path : str, path or zarr.abc.store.Store
        Path or URL of a Zarr store or of a netCDF file whose name ends with `.nc`, or a Zarr store
        object.
    storage_options : dict, optional
        Options of fsspec for a URL.

    Raises
    ------
    FileNotFoundError
        There is nothing at this path.
    ValueError
        The path contains something else, a result of another format version, or a damaged result.

    Examples
    --------
    >>> load("no/such/result.zarr")
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no saved selection or comparison or interactions or matrix at no/...
    """
    makers: dict[str, Callable[[xr.Dataset], Selection | Comparison | Interactions | xr.DataArray]]
    makers = {
        Selection.FORMAT: Selection,
        Comparison.FORMAT: Comparison,
        Interactions.FORMAT: Interactions,
        MATRIX_FORMAT: matrix_of,
    }
    check_options(storage_options, [path])
    try:
        return read(path, makers, storage_options)
    except ForeignError as error:
        if not is_codes(as_place(path, storage_options)):
            raise
        raise ForeignError(
            f"{path} is a code store, not a result: give its path to select as data"
        ) from error


#: The attribute `format` of a saved matrix.
MATRIX_FORMAT = "hofs_dask matrix"


def matrix_of(dataset: xr.Dataset) -> xr.DataArray:
    """Return the information matrix in a dataset that ``hofs-dask matrix`` wrote.

    Examples
    --------
    >>> import xarray as xr
    >>> matrix_of(xr.Dataset({"joint_information": (("feature", "other"), [[0.5]])})).name
    'joint_information'
    """
    arrays = [each for each in dataset.data_vars.values() if each.ndim == 2]
    if len(arrays) != 1 or len(dataset.data_vars) != 1:
        raise DamagedError(
            f"the saved matrix is damaged: it has the variables {[*dataset.data_vars]}, and one "
            "with two dims was expected; write it again with: hofs-dask matrix"
        )
    return arrays[0]


def _by_rank_and_method() -> dict[str, Variable]:
    """Return the variables of a selection; those with the dimension `rank` also get `method`."""
    return {
        name: replace(each, dims=("method", "rank")) if each.dims == ("rank",) else each
        for name, each in selection.VARIABLES.items()
    }


def _alike(selections: Mapping[str, Selection]) -> dict[str, xr.Dataset]:
    """Return the datasets of the selections by label; raise an error if their features differ."""
    if not selections:
        raise ValueError("no selection was given, one or more were expected: give a method")
    for label, given in selections.items():
        if not isinstance(label, str) or not isinstance(given, Selection):
            raise TypeError(
                f"the value of {label!r} is a {type(given).__name__}; a str label and a Selection "
                "were expected: give {'mim': select(data, target, 10, method='mim')}"
            )
    datasets = {label: given.to_dataset() for label, given in selections.items()}
    start, first = next(iter(datasets.items()))
    for label, each in datasets.items():
        for name in ("feature", "relevance", "usable"):
            if not each[name].identical(first[name]):
                raise ValueError(
                    f"{label!r} and {start!r} differ in {name!r}; selections of the same data and "
                    "target were expected: select from one code store"
                )
    return datasets


def padded(name: str, values: NDArray[Any], n_ranks: int) -> NDArray[Any]:
    """Return values by rank, extended to ``n_ranks`` ranks by the fill value of their type.

    Examples
    --------
    >>> padded("index", np.array([4]), 2)
    array([ 4, -1])
    """
    n_more = n_ranks - len(values)
    if n_more and name == "selected" and values.dtype.kind == "i":
        values = values.astype(np.float64)
    pad = np.full(n_more, PADS[values.dtype.kind], dtype=values.dtype)
    return np.concatenate([values, pad])


def jaccard(picks: Sequence[NDArray[np.int64]], n_ranks: int) -> NDArray[np.float64]:
    """Return the Jaccard index of every two lists of picks up to each rank, (rank, list, list).

    Examples
    --------
    >>> jaccard([np.array([0, 1]), np.array([0, 2])], 2)[:, 0, 1].round(2)
    array([1.  , 0.33])
    """
    _, columns = np.unique(np.concatenate(picks), return_inverse=True)
    place = np.full((len(picks), columns.max(initial=-1) + 1), n_ranks)
    start = 0
    for row, index in enumerate(picks):
        place[row, columns[start : start + len(index)]] = np.arange(len(index))
        start += len(index)
    found = np.ones((n_ranks, len(picks), len(picks)))
    for rank in range(n_ranks):
        chosen = (place <= rank).astype(np.float64)
        both = chosen @ chosen.T
        either = both.diagonal()[:, np.newaxis] + both.diagonal() - both
        np.divide(both, either, out=found[rank], where=either > 0)
    return found


def _checked(
    resamples: Mapping[str, Sequence[NDArray[np.int64]]], labels: list[str], n_features: int
) -> list[list[NDArray[np.int64]]]:
    """Return the picks of the resamples by method; raise an error if they do not match."""
    if sorted(resamples) != sorted(labels):
        raise ValueError(
            f"resamples were given for {sorted(resamples)}, but expected for {sorted(labels)}: "
            "give the resamples of every method that is compared"
        )
    numbers = {label: len(resamples[label]) for label in labels}
    if len({*numbers.values()}) > 1 or not numbers[labels[0]]:
        raise ValueError(
            f"the numbers of resamples are {numbers}; the same number, 1 or more, was expected "
            "for every method: give resamples=None for none"
        )
    chosen = [[np.asarray(index, dtype=np.int64) for index in resamples[name]] for name in labels]
    for each in chosen:
        for index in each:
            check_positions(index, n_features)
    return chosen


def _resampled(
    chosen: list[list[NDArray[np.int64]]], n_ranks: int, n_features: int
) -> dict[str, NDArray[np.float64]]:
    """Return the stability by rank and the frequency of each feature, for each method."""
    n_resamples = len(chosen[0])
    stability = np.full((len(chosen), n_ranks), np.nan)
    if n_resamples > 1:
        pairs = np.triu_indices(n_resamples, k=1)
        for method, each in enumerate(chosen):
            stability[method] = jaccard(each, n_ranks)[:, *pairs].mean(axis=1)
    counts = [np.bincount(np.concatenate(each), minlength=n_features) for each in chosen]
    return {"stability": stability, "frequency": np.stack(counts) / n_resamples}


def _shared(datasets: Mapping[str, xr.Dataset]) -> dict[str, str | float]:
    """Return the attributes that have the same value in all selections."""
    first, *others = (each.attrs for each in datasets.values())
    return {
        str(name): value
        for name, value in first.items()
        if all(name in each and each[name] == value for each in others)
    }


def _by_method(datasets: Mapping[str, xr.Dataset]) -> dict[str, str]:
    """Return two attributes as JSON: the options by label, and all other attributes by label."""
    options, others = {}, {}
    for label, each in datasets.items():
        others[label] = {
            name: value for name, value in each.attrs.items() if name not in ("format", "options")
        }
        if "options" in each.attrs:
            options[label] = json.loads(each.attrs["options"])
            if json.dumps(options[label]) != each.attrs["options"]:
                raise ValueError(
                    f"the options of {label!r} are {each.attrs['options']!r}; the output of "
                    f"json.dumps was expected: {json.dumps(options[label])!r}"
                )
    return {"options": json.dumps(options), "selections": json.dumps(others)}


def _attrs_of(dataset: xr.Dataset, label: str) -> dict[str, str | float]:
    """Return the original attributes of the selection with this label."""
    options = json.loads(dataset.attrs["options"])
    attrs: dict[str, str | float] = json.loads(dataset.attrs["selections"])[label]
    return attrs | ({"options": json.dumps(options[label])} if label in options else {})
