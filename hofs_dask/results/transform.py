"""Take the chosen features from an array, data frame or xarray object, by name or position."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from hofs_dask.errors import some_of
from hofs_dask.results.composed import chosen_composed
from hofs_dask.results.datasets import positions_in_data

if TYPE_CHECKING:
    import xarray as xr


def chosen_of(dataset: xr.Dataset, data: Any) -> Any:
    """Return the chosen features of `data`, sorted by rank. Lazy data stays lazy.

    Parameters
    ----------
    dataset : xarray.Dataset
        The return value of `Selection.to_dataset`.
    data : array, dict of arrays, data frame, Arrow table or dataset, DataArray or Dataset
        Features are found by name. Arrays without names must have the same columns as the data
        passed to `select`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> chosen = {"selected": ("rank", ["b"]), "index": ("rank", [1])}
    >>> chosen_of(xr.Dataset(chosen, {"feature": ["a", "b"]}), np.array([[1, 2], [3, 4]]))
    array([[2],
           [4]])
    """
    import xarray as xr

    features = dataset["selected"].values.tolist()
    if isinstance(data, xr.DataTree):
        data = data.to_dataset()
    if isinstance(data, xr.Dataset) and all(name in data.data_vars for name in features):
        return data[features]
    if isinstance(data, xr.Dataset | xr.DataArray):
        dims = json.loads(dataset.attrs.get("feature_dims", "[]"))
        composed = chosen_composed(features, data, dims)
        if composed is not None:
            return composed
    if isinstance(data, xr.Dataset):
        along = _positions_along(dataset, data, list(data.data_vars))
        # as in the other cases, variables that are not features are left out, such as the target
        held = [name for name, each in data.data_vars.items() if {*along} <= {*each.dims}]
        return data[held].isel(along)
    if isinstance(data, xr.DataArray):
        return data.isel(_positions_along(dataset, data, []))
    if isinstance(data, Mapping):
        _check_present(features, list(data), "keys")
        return {name: data[name] for name in features}
    if hasattr(data, "replace_schema"):  # a dataset of pyarrow
        import pyarrow as pa

        _check_present(features, data.schema.names, "columns")
        fields = [data.schema.field(name) for name in features]
        return data.replace_schema(pa.schema(fields))
    if hasattr(data, "select") and not hasattr(data, "iloc"):  # pyarrow and polars
        _check_present(features, _column_names(data), "columns")
        return data.select(features)
    if hasattr(data, "columns"):
        _check_present(features, list(data.columns), "columns")
        return data[features]
    if hasattr(data, "__array_function__"):
        if data.ndim != 2:
            raise ValueError(
                f"an array with {data.ndim} dimensions was given, 2 were expected: "
                "give (sample, feature)"
            )
        positions, n_columns = positions_in_data(dataset)
        _check_size(n_columns, data.shape[1], "columns")
        return data[:, positions[dataset["index"].values]]
    raise TypeError(
        f"a {type(data).__name__} was given; an array, a dict, a data frame, a DataArray or a "
        "Dataset was expected: open a store with xarray.open_zarr, files with "
        "pyarrow.dataset.dataset, convert a list with numpy.asarray"
    )


def _column_names(data: Any) -> list[str]:
    """Return the names of the columns of a table of pyarrow or a frame of polars."""
    names: list[str] = (
        data.column_names if hasattr(data, "column_names") else data.collect_schema().names()
    )
    return names


def _positions_along(
    dataset: xr.Dataset, data: xr.Dataset | xr.DataArray, variables: list[Hashable]
) -> dict[Hashable, Any]:
    """Return the dimension of the features, and the positions of the chosen features along it."""
    features, (positions, n_columns) = (
        dataset["selected"].values.tolist(),
        positions_in_data(dataset),
    )
    stored = dataset.attrs.get("feature_dim")
    labelled = [dim for dim in data.dims if dim in data.indexes]
    if stored in data.dims:
        dim: Hashable = stored
    else:
        holding = [dim for dim in labelled if all(name in data.indexes[dim] for name in features)]
        unlabelled = [dim for dim in data.dims if dim not in labelled]
        of_size = [dim for dim in unlabelled if data.sizes[dim] == n_columns]
        candidates = holding or (["feature"] if "feature" in data.dims else of_size)
        if len(candidates) != 1:
            _check_part(features, variables, "variables")
            for each in labelled:
                _check_part(features, list(data.indexes[each]), f"coordinates of {each!r}")
            known = variables or [f"{dim} ({data.sizes[dim]})" for dim in data.dims]
            raise ValueError(
                f"the features {some_of(features)} were not found in "
                f"{'the variables' if variables else 'the dimensions'} {some_of(known)}: "
                "give the data passed to select, or add a coordinate with the names of the features"
            )
        dim = candidates[0]
    if dim not in labelled:
        _check_size(n_columns, data.sizes[dim], f"entries along {dim!r}")
        return {dim: positions[dataset["index"].values]}
    present = data.indexes[dim]
    _check_present(features, list(present), f"coordinates of {dim!r}")
    return {dim: [int(present.get_indexer_for([name])[0]) for name in features]}


def _check_part(features: list[Any], present: list[Any], where: str) -> None:
    """Raise an error if some, but not all, chosen features are present."""
    if any(name in present for name in features):
        _check_present(features, present, where)


def _check_present(features: list[Any], present: list[Any], where: str) -> None:
    """Raise an error if a chosen feature is missing; the message lists the most similar names."""
    known = set(present)
    missing = [name for name in features if name not in known]
    if missing:
        texts = [str(name) for name in present]
        nearest = get_close_matches(str(missing[0]), texts, n=5, cutoff=0.0)
        raise ValueError(
            f"the features {some_of(missing)} are not among the {len(present)} {where}; "
            f"most similar to {missing[0]!r}: {', '.join(nearest)}"
        )


def _check_size(expected: int, given: int, what: str) -> None:
    """Raise an error if data without names has another number of features."""
    if given != expected:
        raise ValueError(
            f"{given} {what} were given, {expected} were expected: "
            "give the data passed to select, without the target"
        )
