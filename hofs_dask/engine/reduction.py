"""The `Reduction` record and its input. This module uses neither Dask nor Zarr."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np

from hofs_dask.kernels import hashing
from hofs_dask.kernels.planes import n_bits, pack, unpack_some, unpacked

Partial = dict[str, np.ndarray]
Layout = Mapping[str, tuple[tuple[int, ...], type[np.generic]]]


#: Number of folds of the samples, and number of parts; the parts of equal remainder form a fold.
N_FOLDS, N_PARTS = hashing.N_FOLDS, 16

NO_PLACES = np.zeros(0, np.int64)


class Tile:
    """The codes of some features of one chunk, for all or some of its samples.

    Examples
    --------
    >>> tile = Tile.of(np.array([[0, 1, 2]], dtype=np.uint8))
    >>> tile.codes
    array([[0, 1, 2]], dtype=uint8)
    >>> tile.take(np.array([2, 2])).only(np.array([0, 0])).codes
    array([[2, 2],
           [2, 2]], dtype=uint8)
    """

    def __init__(self, planes: np.ndarray, n_chunk: int, samples: np.ndarray | None = None) -> None:
        self.planes: np.ndarray = frozen(planes)  # uint64 (feature, bit, word), all of the chunk
        self._n_chunk = n_chunk
        self._samples = samples  # positions in the chunk, ascending; None for every sample once

    @classmethod
    def of(cls, codes: np.ndarray) -> Tile:
        """Return the tile of an array of codes, uint8 (feature, sample)."""
        return cls(pack(codes, n_bits(int(codes.max(initial=0)) + 1)), codes.shape[1])

    def take(self, samples: np.ndarray) -> Tile:
        """Return the tile of the samples at these positions, ascending."""
        places = samples if self._samples is None else self._samples[samples]
        return Tile(self.planes, self._n_chunk, places)

    def only(self, features: np.ndarray) -> Tile:
        """Return the tile of the features at these positions."""
        return Tile(self.planes[features], self._n_chunk, self._samples)

    def __len__(self) -> int:
        return len(self.planes)

    @property
    def places(self) -> np.ndarray:
        """The positions of the samples in the chunk, int64; empty for every sample once."""
        found: np.ndarray = frozen(NO_PLACES if self._samples is None else self._samples)
        return found

    @cached_property
    def repeats(self) -> bool:
        """Whether a sample occurs more than once."""
        return bool((self.places[1:] == self.places[:-1]).any())

    def spread(self, values: np.ndarray, n_values: int) -> np.ndarray:
        """Return values of the samples, uint8 (sample,), as bit planes, uint64 (bit, word)."""
        if self._samples is not None:
            chunk = np.zeros(self._n_chunk, np.uint8)
            chunk[self._samples] = values
            values = chunk
        planes: np.ndarray = pack(values[None], n_bits(n_values))[0]
        return planes

    def some(self, samples: np.ndarray, work: np.ndarray) -> np.ndarray:
        """Return the codes of some samples in this order, uint8 (feature, sample).

        Parameters
        ----------
        samples
            Integers (sample,), positions among the samples of the tile. They should be near each
            other, such that the codes of one feature between them fit the CPU cache.
        work
            uint8 buffer for the codes.
        """
        places = samples if self._samples is None else self._samples[samples]
        first, last = (int(places.min()) >> 3, int(places.max()) >> 3) if len(places) else (0, -1)
        out = work[: len(self) * len(samples)].reshape(len(self), len(samples))
        planes = self.planes.astype("<u8", copy=False).view(np.uint8)
        words = np.empty(last + 1 - first, np.uint64)
        chosen = frozen((places - 8 * first).astype(np.int32))
        unpack_some(frozen(planes), first, chosen, words, out)
        return out

    @cached_property
    def codes(self) -> np.ndarray:
        """The codes, uint8 (feature, sample), unpacked on first access."""
        codes = unpacked(self.planes, self._n_chunk)
        if self._samples is not None:
            codes = np.take(codes, self._samples, axis=1)
        found: np.ndarray = frozen(np.ascontiguousarray(codes))
        return found


@dataclass(frozen=True)
class Block:
    """The samples of one chunk that have a label."""

    tile: Tile  # the candidates
    columns: Tile  # the columns of the request, usually chosen features
    labels: np.ndarray  # uint8 (sample,)
    parts: np.ndarray  # uint8 (sample,), below N_PARTS; the fold is part % N_FOLDS

    @property
    def folds(self) -> np.ndarray:
        """The folds, uint8 (sample,)."""
        return self.parts % np.uint8(N_FOLDS)

    @property
    def codes(self) -> np.ndarray:
        """The codes of the candidates, uint8 (feature, sample)."""
        return self.tile.codes


def per_feature() -> Any:
    """Declare a field of a `FeatureRecord` that has features along axis 0."""
    return field(metadata={"per_feature": True})


@dataclass(frozen=True)
class FeatureRecord:
    """A record with fields, declared by `per_feature`, that have features along axis 0.

    Such a field is an array or another `FeatureRecord`.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Numbers(FeatureRecord):
    ...     n_classes: int
    ...     values: np.ndarray = per_feature()
    >>> Numbers(2, np.array([5.0, 6.0, 7.0])).take(slice(1, 3)).values
    array([6., 7.])
    """

    def take(self, features: slice | np.ndarray) -> Self:
        """Return the record of some features."""
        cut = {}
        for item in fields(self):
            if item.metadata.get("per_feature"):
                value = getattr(self, item.name)
                cut[item.name] = (
                    value.take(features) if isinstance(value, FeatureRecord) else value[features]
                )
        return replace(self, **cut)


@dataclass(frozen=True)
class Context(FeatureRecord):
    """The parameters of a reduction, sent to every task. Each reduction has its own subclass."""


def placeholder(*shape: int) -> np.ndarray:
    """Return an array of zeros that takes no memory, for size estimates.

    Examples
    --------
    >>> placeholder(10, 3).nbytes
    240
    """
    return np.broadcast_to(np.float64(0.0), shape)


def frozen(value: Any) -> Any:
    """Return the value with every array in it read-only.

    Arrays that crossed the network are read-only, and numba compiles a second version of a kernel
    for writable ones. With read-only input everywhere, each kernel is compiled once.

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
    """Return the sum of two partials of the same reduction.

    Examples
    --------
    >>> combine({"counts": np.array([1, 2])}, {"counts": np.array([3, 0])})
    {'counts': array([4, 2])}
    """
    return {name: first[name] + second[name] for name in first}


#: The context of a reduction.
C = TypeVar("C", bound=Context)


def _as_given(context: C) -> C:
    return context


@dataclass(frozen=True)
class Reduction(Generic[C]):
    """A mergeable sum over samples.

    The finished total does not depend on how the samples are split into blocks and the blocks into
    partials: exactly for integers, up to rounding for floats.
    """

    name: str
    layout: Callable[[C, int], Layout]  # the arrays of a partial, features along axis 0
    chunk: Callable[[C, Block, Partial], None]  # adds a block to a partial
    # Returns the result from a tile's total, features along axis 0. It runs on the worker that has
    # the total, so that only the result is transferred.
    finalize: Callable[[C, Partial], Partial]
    # Returns the context that `chunk` gets, computed once per task; None if no feature of the tile
    # is needed, whose codes are then not read.
    prepare: Callable[[C], C | None] = _as_given
    # Returns the part of a tile's context that is sent to its tasks. `prepare` and `finalize` get
    # this part; they also accept the full context.
    narrow: Callable[[C], C] = _as_given

    def exact(self, context: C) -> bool:
        """Return whether the total is bit-identical in any order of summation."""
        layout = self.layout(context, 0)
        return all(issubclass(dtype, np.integer) for _, dtype in layout.values())

    def identity(self, context: C, n_features: int) -> Partial:
        """Return the partial of no samples."""
        layout = self.layout(context, n_features)
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.items()}

    def nbytes(self, context: C, n_features: int) -> int:
        """Return the size of a partial in bytes, without allocating it."""
        layout = self.layout(context, n_features)
        return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in layout.values())


@dataclass(frozen=True)
class Request:
    """A reduction over all samples that a method requests from the engine."""

    reduction: Reduction[Any]
    context: Context
    columns: tuple[int, ...] = ()  # features that every tile needs in addition to its own
    key: Hashable = None  # requests of equal keys have equal totals; None is never equal
    resample: int | None = None  # number of the bootstrap resample; None for the original samples
    share: float = 1.0  # approximate fraction of the cells that it computes with
