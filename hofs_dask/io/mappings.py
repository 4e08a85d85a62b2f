"""Reader of dicts of one-dimensional arrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import groupby
from typing import Any

import dask.array.core as da
import numpy as np

from hofs_dask.errors import unknown
from hofs_dask.io.blocks import open_dask, without_mask
from hofs_dask.io.columns import Column, Features, feature_label, is_nominal, target_type
from hofs_dask.io.fingerprint import Identity, array_identity, combine
from hofs_dask.io.graphs import classic
from hofs_dask.io.targets import as_column, names_column


def from_mapping(data: Mapping[Hashable, Any], target: Any) -> tuple[Features, Column | None]:
    """Return the features of a dict of arrays (sample,), and the target as a `Column`.

    If the target is one of the arrays, given by name or as the same object, it is not a feature.

    Examples
    --------
    >>> import numpy as np
    >>> features, column = from_mapping({"a": np.array([1.0, 2.0]), "y": np.array([0, 1])}, "y")
    >>> features.names, column.name
    (['a'], 'y')
    """
    opened = {name: _open(name, array) for name, array in data.items()}
    own = next((name for name, array in data.items() if _is_same(array, target)), None)
    if names_column(target):
        if target not in opened:
            raise unknown("key for the target", target, list(opened))
        own = target
    if own is None:
        column = as_column(target)
    else:
        array, identity = opened.pop(own)
        column = Column(array, target_type(array.dtype), str(own), identity)
    arrays = [array for array, _ in opened.values()]
    for name, array in zip(opened, arrays, strict=True):
        if array.shape != arrays[0].shape:
            raise ValueError(
                f"{feature_label(name)} has {array.shape[0]} values and "
                f"{feature_label(next(iter(opened)))} has {arrays[0].shape[0]}; give one value per "
                "sample"
            )
    runs = [list(run) for _, run in groupby(arrays, key=lambda each: (type(each), each.dtype))]
    features = Features(
        names=list(opened),
        parts=[
            da.stack(run, axis=1) if isinstance(run[0], da.Array) else np.stack(run, axis=1)
            for run in runs
        ],
        nominal=[is_nominal(array.dtype) for array in arrays],
        identity=combine([identity for _, identity in opened.values()], "mapping"),
        sample_shape=arrays[0].shape if arrays else (0,),
    )
    return features, column


def _is_same(array: Any, other: Any) -> bool:
    """Return whether two objects are the same array, or equal views of the same memory."""
    if not isinstance(array, np.ndarray) or not isinstance(other, np.ndarray):
        return array is other
    return array.__array_interface__ == other.__array_interface__


def _open(name: Hashable, array: Any) -> tuple[Any, Identity]:
    """Return an array of a mapping and its identity."""
    array = classic(array)
    if not isinstance(array, np.ndarray | da.Array):
        array = np.asarray(array)
    if array.ndim != 1:
        raise ValueError(
            f"{feature_label(name)} has shape {array.shape}; give one value per sample, an array "
            "with one dimension"
        )
    if isinstance(array, da.Array):
        return open_dask(array)
    array = without_mask(array)
    return array, array_identity(array)
