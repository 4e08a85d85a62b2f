"""The arrays of a source that is in the memory of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hofs_dask.io.blocks import native
from hofs_dask.io.columns import Column
from hofs_dask.io.graphs import is_mapped
from hofs_dask.io.reading import GROUPS, LAGS, WEIGHTS, WHERE


@dataclass(frozen=True)
class Memory:
    """The content of a source as numpy arrays: native numbers or objects, without masks.

    Attributes
    ----------
    parts : tuple of ndarray (sample, feature)
        The data, split along the features as in `Source`.
    target, groups, weights : ndarray (sample,) or None
        The further columns of the source.
    masks : tuple of ndarray of bool (sample,)
        The masks of the source.
    """

    parts: tuple[np.ndarray, ...]
    target: np.ndarray
    groups: np.ndarray | None
    weights: np.ndarray | None
    masks: tuple[np.ndarray, ...]

    def without(self, columns: Sequence[Sequence[int]]) -> Memory:
        """Return the content with some columns of each part, given by position."""
        parts = [part[:, own] for part, own in zip(self.parts, columns, strict=True) if own]
        return replace(self, parts=tuple(parts))


def memory_of(
    parts: Sequence[Any], target: Column | None, further: Mapping[str, Column]
) -> Memory | None:
    """Return the arrays of a source, or None if one of them is lazy or a file mapped to memory.

    Examples
    --------
    >>> memory_of([np.zeros((2, 3), ">f4")], None, {}) is None  # no target
    True
    """
    arrays = [*parts, *(column.array for column in further.values())]
    if target is None or not all(_is_held(each) for each in [*arrays, target.array]):
        return None
    columns = {role: native(column.array.reshape(-1)) for role, column in further.items()}
    return Memory(
        parts=tuple(native(part) for part in parts),
        target=native(target.array.reshape(-1)),
        groups=columns.get(GROUPS),
        weights=columns.get(WEIGHTS),
        masks=tuple(columns[role] for role in (LAGS, WHERE) if role in columns),
    )


def _is_held(array: Any) -> bool:
    return isinstance(array, np.ndarray) and not is_mapped(array)
