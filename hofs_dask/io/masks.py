"""The option ``where``: a mask of samples, given as booleans or as positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from hofs_dask.io.columns import Column, Features
from hofs_dask.io.fingerprint import NO_IDENTITY, array_identity
from hofs_dask.io.frames import check_index
from hofs_dask.io.reading import WHERE
from hofs_dask.io.samples import sample_column
from hofs_dask.io.targets import as_series, names_column, target_name
from hofs_dask.scheduling.compute import compute


def mask_column(where: Any, features: Features) -> Column:
    """Return the option ``where`` as a column of booleans, one per sample.

    Examples
    --------
    >>> from hofs_dask.io.arrays import from_array
    >>> mask_column([0, 2], from_array(np.zeros((3, 2)), None)[0]).array.tolist()
    [True, False, True]
    """
    where = as_series(where)
    if isinstance(where, xr.Dataset):
        raise TypeError("where is a Dataset; give a DataArray, such as one of its variables")
    if isinstance(where, Mapping | slice):
        raise TypeError(f"where is {where!r}; {_ADVICE}")
    if isinstance(where, pd.Series):
        name = target_name(where, WHERE)
        if pd.api.types.is_bool_dtype(where.dtype):
            check_index(where, features, WHERE)
            flags = where.to_numpy(dtype=bool, na_value=False)
            return Column(flags, "nominal", name, array_identity(flags))
        where = where.to_numpy()
    if isinstance(where, list | tuple | range | pd.Index | pd.api.extensions.ExtensionArray):
        where = np.asarray(where)
    if (isinstance(where, np.ndarray) and where.dtype.kind in "iu") or _is_empty(where):
        return _from_positions(where, int(np.prod(features.sample_shape)))
    column = sample_column(where, features, WHERE)
    if column.array.dtype.kind != "b":
        raise TypeError(f"where is {column.array.dtype}; {_ADVICE}")
    return column


def mask_of_store(where: Any, n_samples: int, n_source: int) -> np.ndarray:
    """Return a mask of the samples of a code store, bool (sample,).

    Parameters
    ----------
    where
        Booleans with one value per sample of the store, or positions.
    n_samples, n_source
        Number of samples of the store and of its source. If they differ, positions are refused,
        because positions in the source would select other samples.

    Examples
    --------
    >>> mask_of_store([0, 2], 3, 3)
    array([ True, False,  True])
    """
    if names_column(where):
        raise TypeError(
            f"where is {where!r}, but a code store has no such columns; give booleans, one for "
            f"each of its {n_samples} samples, or the positions of samples"
        )
    features = Features((), (), (), NO_IDENTITY, (n_samples,))
    left_out = f"{n_source - n_samples} of the {n_source} samples of its source are not in it"
    if n_samples != n_source and _are_positions(where):
        raise ValueError(
            f"where has positions of samples, but the code store has only {n_samples} samples: "
            f"{left_out}; give booleans, one for each sample of the store"
        )
    column = mask_column(where, features)
    if column.array.shape != (n_samples,):
        raise ValueError(
            f"where has the shape {column.array.shape} and the code store has {n_samples} samples"
            + f", because {left_out}" * (n_samples != n_source)
            + "; give one boolean for each of them"
        )
    (flags,) = compute(column.array)
    return np.asarray(flags)


_ADVICE = (
    "give booleans, one per sample, such as label > 0 or label.notnull(), or the positions of "
    "samples as integers"
)


def _are_positions(where: Any) -> bool:
    where = as_series(where)
    dtype = getattr(where, "dtype", None)
    if dtype is None and isinstance(where, list | range):
        dtype = np.asarray(where).dtype
    return getattr(dtype, "kind", "") in "iu"


def _is_empty(where: Any) -> bool:
    return isinstance(where, np.ndarray) and where.size == 0


def _from_positions(where: np.ndarray, n_samples: int) -> Column:
    """Return the mask that is true at some positions of the stacked samples."""
    if where.ndim != 1:
        raise TypeError(f"where is {where.dtype} of shape {where.shape}; {_ADVICE}")
    outside = where[(where < 0) | (where >= n_samples)]
    if outside.size:
        raise ValueError(
            f"where has the position {outside[0]}, but the data has {n_samples} samples; give "
            f"positions from 0 to {n_samples - 1}"
        )
    flags = np.zeros(n_samples, bool)
    flags[where.astype(np.int64)] = True
    if flags.sum() < len(where):
        raise ValueError(
            f"where has {len(where)} positions of {flags.sum()} samples, so that some are given "
            "twice; give each position once, or booleans, for example where.astype(bool)"
        )
    return Column(flags, "nominal", WHERE, array_identity(flags))
