"""The record of a statistic, and what it is computed from. No dask, no zarr."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

Partial = dict[str, np.ndarray]
Layout = Mapping[str, tuple[tuple[int, ...], type[np.generic]]]


@dataclass(frozen=True)
class Block:
    """The samples of one chunk that have a label."""

    codes: np.ndarray  # uint8 (feature, sample): the candidates of one tile
    columns: np.ndarray  # uint8 (column, sample): the chosen features that the pass asked for
    labels: np.ndarray  # uint8 (sample,)
    folds: np.ndarray  # uint8 (sample,)


@dataclass(frozen=True)
class Context:
    """What the driver tells every task of a pass."""

    shared: Mapping[str, Any]
    per_feature: Mapping[str, np.ndarray] = field(default_factory=dict)  # features along axis 0

    def tile(self, features: slice) -> Context:
        """The part of the context that the features of one tile need."""
        cut = {name: array[features] for name, array in self.per_feature.items()}
        return replace(self, per_feature=cut)


def frozen(value: Any) -> Any:
    """The value with every array in it read-only: what crossed a network and what did not.

    numba compiles a kernel anew for arrays that may be written to; so that one compilation serves
    everywhere, kernels only ever see read-only input.

    Examples
    --------
    >>> frozen({"a": np.zeros(2)})["a"].flags.writeable
    False
    """
    if isinstance(value, np.ndarray):
        view = value.view()
        view.setflags(write=False)
        return view
    if isinstance(value, Mapping):
        return {name: frozen(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(frozen(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{item.name: frozen(getattr(value, item.name)) for item in fields(value)}
        )
    return value


def combine(first: Partial, second: Partial) -> Partial:
    """The partial of the samples of both, of any statistic.

    Examples
    --------
    >>> combine({"counts": np.array([1, 2])}, {"counts": np.array([3, 0])})
    {'counts': array([4, 2])}
    """
    return {name: first[name] + second[name] for name in first}


@dataclass(frozen=True)
class Statistic:
    """A sum over samples, as data: how a chunk adds to it and what the total means.

    The law: however the samples are split into blocks and the blocks into partials, the finished
    total is the same, exactly for integers and up to rounding for floats.
    """

    name: str
    layout: Callable[[Context, int], Layout]  # the arrays of a partial, features along axis 0
    chunk: Callable[[Context, Block, Partial], None]  # adds a block to a partial
    # what a tile's total means, features along axis 0; runs where the total is, so that only what
    # a method needs travels
    finalize: Callable[[Context, Partial], Partial]

    def identity(self, context: Context, n_features: int) -> Partial:
        """The partial of no samples."""
        layout = self.layout(context, n_features)
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.items()}

    def nbytes(self, context: Context, n_features: int) -> int:
        """The size of a partial, before there is one."""
        layout = self.layout(context, n_features)
        return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in layout.values())


@dataclass(frozen=True)
class Pass:
    """A sum over all samples: what a method asks the engine for."""

    statistic: Statistic
    context: Context
    columns: tuple[int, ...] = ()  # the features that every tile needs beside its own
    key: Hashable = None  # passes of equal keys have equal totals; None for one of its own
    resample: int | None = None  # the number of a bootstrap resample; None for the samples
