"""The base class of selections and comparisons: a Dataset that is checked, compared and saved."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self

from hofs_dask.io.places import Location, StorageOptions, check_options
from hofs_dask.results.datasets import Variable, check_variables
from hofs_dask.results.report.content import Report
from hofs_dask.results.report.write import write_page
from hofs_dask.results.saving.readwrite import write, write_zarr

if TYPE_CHECKING:
    import xarray as xr

    from hofs_dask.search.rounds import Cost


#: Attributes with the cost of a search. The same result may have another cost.
COST = ("search_scans", "search_reductions", "search_bytes", "search_seconds")


class Result(ABC):
    """Base class of results, which are stored as an xarray Dataset.

    Parameters
    ----------
    dataset : xarray.Dataset
        The return value of `to_dataset`.
    """

    __slots__ = ("_dataset",)

    #: The value of the attribute `format` of the Dataset.
    FORMAT: ClassVar[str]

    def __init__(self, dataset: xr.Dataset) -> None:
        required, optional = self._variables()
        missing = [name for name in required if name not in dataset.variables]
        if dataset.attrs.get("format") != self.FORMAT or missing:
            raise ValueError(
                f"a Dataset with the attribute format={self.FORMAT!r} was expected; this one has "
                f"format={dataset.attrs.get('format')!r} and lacks {missing}: "
                f"give the return value of {type(self).__name__}.to_dataset()"
            )
        check_variables(dataset, {**required, **optional})
        self._dataset = dataset

    def with_cost(self, cost: Cost) -> Self:
        """Return this result with the cost of its search, which saved files and reports state."""
        values = (cost.n_scans, cost.n_reductions, cost.n_bytes, cost.seconds)
        attrs = dict(zip(COST, values, strict=True))
        return type(self)(self._dataset.assign_attrs(attrs))

    @classmethod
    @abstractmethod
    def _variables(cls) -> tuple[Mapping[str, Variable], Mapping[str, Variable]]:
        """Return the required and the optional variables and coordinates of the Dataset."""

    @abstractmethod
    def _report(self) -> Report:
        """Return the content of the report."""

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a report as one HTML file, which works offline and can be sent to others.

        The report has figures, tables, a description of the data, and how the result was made. It
        loads nothing.

        Parameters
        ----------
        path : str or path
            A path that ends with `.html`. An earlier report is replaced. Missing folders are
            created.

        Raises
        ------
        FileExistsError
            The path contains another file, or is a folder.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from hofs_dask import Selection
        >>> result = Selection.from_picks([], names=["a"], relevance=[0.1], attrs={})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.to_html(f"{folder}/report.html")
        ...     Path(f"{folder}/report.html").read_text()[:15]
        '<!DOCTYPE html>'
        """
        write_page(self._report(), path)

    def to_dataset(self) -> xr.Dataset:
        """Return a copy of all variables as an xarray Dataset, without the cost of the search.

        Examples
        --------
        >>> from hofs_dask import Selection
        >>> result = Selection.from_picks([], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
        >>> result.to_dataset()["relevance"].sel(feature="b").item()
        0.5
        """
        found = self._dataset.copy(deep=True)
        found.attrs = {name: value for name, value in found.attrs.items() if name not in COST}
        return found

    def to_zarr(self, path: Location, *, storage_options: StorageOptions | None = None) -> None:
        """Write a Zarr store that `hofs_dask.load` and `xarray.open_zarr` read.

        Parameters
        ----------
        path : str, path or zarr.abc.store.Store
            A new directory or URL, an empty Zarr store, or the directory of an earlier result of
            the same kind, which is replaced in one step. Symbolic links are followed.
        storage_options : dict, optional
            Options of fsspec for a URL.

        Examples
        --------
        >>> import tempfile
        >>> from hofs_dask import Selection, load
        >>> result = Selection.from_picks([], names=["a"], relevance=[0.1], attrs={})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.to_zarr(f"{folder}/result.zarr")
        ...     load(f"{folder}/result.zarr") == result
        True
        """
        check_options(storage_options, [path])
        write_zarr(self._dataset, path, storage_options)

    def save(self, path: Location, *, storage_options: StorageOptions | None = None) -> None:
        """Write a netCDF file if the path ends with `.nc`, else a Zarr store.

        Parameters
        ----------
        path : str, path or zarr.abc.store.Store
            A new path or URL, an empty Zarr store, or the local path of an earlier result of the
            same kind, which is replaced in one step: if the process is killed, either the earlier
            result or the new one is on disk. The path ends with `.nc`, `.zarr` or no suffix.
            Missing folders are created.
        storage_options : dict, optional
            Options of fsspec for a URL.

        Raises
        ------
        FileExistsError
            The path contains other data, an earlier result with additional files, or an earlier
            result on remote storage, which cannot be replaced in one step.
        OSError
            The result cannot be written. An earlier result is unchanged.

        Examples
        --------
        >>> import tempfile
        >>> from hofs_dask import Selection, load
        >>> result = Selection.from_picks([], names=["a"], relevance=[0.1], attrs={})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.save(f"{folder}/result.zarr")
        ...     load(f"{folder}/result.zarr") == result
        True
        """
        check_options(storage_options, [path])
        write(self._dataset, path, storage_options)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return bool(_without_origin(self._dataset).identical(_without_origin(other._dataset)))

    __hash__ = None  # type: ignore[assignment]


def _without_origin(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset without its cost and the fingerprint, which data in memory does not have."""
    own = {"fingerprint", *COST}
    attrs = {name: value for name, value in dataset.attrs.items() if name not in own}
    if "selections" in attrs:
        each = json.loads(attrs["selections"])
        attrs["selections"] = {
            label: {name: value for name, value in own.items() if name != "fingerprint"}
            for label, own in each.items()
        }
    found = dataset.copy()
    found.attrs = attrs
    return found
