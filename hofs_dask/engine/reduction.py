"""The class `Reduction` and its input, a `Block` of samples.

This module uses neither Dask nor Zarr.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np

from hofs_dask.kernels import hashing
from hofs_dask.kernels.hashing import row_hash, rows_below
from hofs_dask.kernels.planes import (
    STRIP,
    WORD,
    first_bits,
    n_bits,
    pack,
    split_words,
    unpack_some,
    unpacked,
)

Partial = dict[str, np.ndarray]
Layout = Mapping[str, tuple[tuple[int, ...], type[np.generic]]]


#: Number of folds and number of parts of the samples. A fold consists of several parts: part p is
#: in fold ``p % N_FOLDS``.
N_FOLDS, N_PARTS = hashing.N_FOLDS, 16
#: All hashes of row numbers are below this number.
ALL_HASHES = 2**64
#: Groups of samples are assigned to this many clusters, to estimate how much samples depend on each
#: other.
N_CLUSTERS = 64

NO_PLACES = np.zeros(0, np.int64)
#: The weights of samples that all count equally.
NO_WEIGHTS = np.zeros(0, np.uint16)
NO_WEIGHTS.setflags(write=False)
#: The same for code that uses weights as floats.
NO_FLOATS = np.zeros(0)


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
        self.planes: np.ndarray = frozen(planes)  # uint64 (feature, bit, word), the whole chunk
        self._n_chunk = n_chunk
        self._samples = samples  # ascending positions in the chunk; None for all samples

    @classmethod
    def of(cls, codes: np.ndarray) -> Tile:
        """Return the tile of an array of codes, uint8 (feature, sample)."""
        return cls(pack(codes, n_bits(int(codes.max(initial=0)) + 1)), codes.shape[1])

    def take(self, samples: np.ndarray) -> Tile:
        """Return the tile of the samples at these positions, which ascend and may repeat."""
        places = samples if self._samples is None else self._samples[samples]
        return Tile(self.planes, self._n_chunk, places)

    def only(self, features: np.ndarray) -> Tile:
        """Return the tile of the features at these positions."""
        return Tile(self.planes[features], self._n_chunk, self._samples)

    def __len__(self) -> int:
        return len(self.planes)

    @property
    def places(self) -> np.ndarray:
        """The positions of the samples in the chunk, int64; empty for the whole chunk in order."""
        found: np.ndarray = frozen(NO_PLACES if self._samples is None else self._samples)
        return found

    @cached_property
    def repeats(self) -> bool:
        """Whether a sample occurs more than once in the tile."""
        return bool((self.places[1:] == self.places[:-1]).any())

    def spread(self, values: np.ndarray, n_values: int) -> np.ndarray:
        """Return values of the samples, uint8 (sample,), as bit planes of the chunk.

        The planes are uint64 (bit, word). Samples that are not in the tile have the value 0.
        """
        if self._samples is not None:
            chunk = np.zeros(self._n_chunk, np.uint8)
            chunk[self._samples] = values
            values = chunk
        planes: np.ndarray = pack(values[None], n_bits(n_values))[0]
        return planes

    @property
    def samples(self) -> np.ndarray:
        """The samples of the tile, as a bit plane of the chunk, uint64 (word,)."""
        if self._samples is None:
            return first_bits(self._n_chunk, self.planes.shape[2])
        return self.spread(np.ones(len(self._samples), np.uint8), 2)[0]

    def spread_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the weights of all samples of the chunk; samples not in the tile have weight 0."""
        if self._samples is None:
            return weights
        chunk = np.zeros(self._n_chunk, weights.dtype)
        chunk[self._samples] = weights
        return chunk

    def some(self, samples: np.ndarray, work: np.ndarray) -> np.ndarray:
        """Return the codes of some samples, in the given order, uint8 (feature, sample).

        Parameters
        ----------
        samples
            Integers (sample,), positions among the samples of the tile. They should be close
            together, so that the codes of one feature from the first to the last fit into the CPU
            cache.
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


#: The weights of words whose samples all have weight 1.
NO_WORDS = np.zeros((0, STRIP), np.uint16)
#: Maximum number of sets of samples per word, see `split_words`. If a word has more sets, samples
#: are counted one by one, without bit masks.
MOST_SETS = 8


@dataclass(frozen=True)
class WordSets:
    """Samples of a chunk as bit masks; all samples of a mask have the same weight.

    A word is the bits of 64 samples. A word whose samples have several weights is repeated.
    """

    masks: np.ndarray  # uint64 (word,) all words of the chunk in order, then the repeated words
    repeated: np.ndarray  # int64 (repeated word,) positions of the repeated words in the chunk
    weights: np.ndarray  # weight of each word, uint16 (strip, word); no strips if all are 1

    @property
    def n_words(self) -> int:
        """The number of words to count."""
        return len(self.masks)

    def of(self, planes: np.ndarray) -> np.ndarray:
        """Return the words of bit planes (..., word), and after them the repeated words."""
        if not len(self.repeated):
            return planes
        return np.concatenate([planes, planes[..., self.repeated]], axis=-1)


@dataclass(frozen=True)
class WholeSets:
    """Samples of a chunk as bit masks, one for each weight or for each bit of the weights."""

    masks: np.ndarray  # uint64 (mask, word)
    values: np.ndarray  # int64 (mask,) the weight of the samples of each mask

    @property
    def n_words(self) -> int:
        """The number of words to count."""
        return self.masks.size


def split_sets(weights: np.ndarray) -> np.ndarray:
    """Return sets of samples of equal weight in each word, uint64 (2, set, word).

    The first part has the masks of the sets, the second one their weights. If words have more
    weights than bits, all samples that have a bit in their weight are a set. If it needs fewer
    masks, every word has a set for each weight, or for each bit, of the chunk, in the same order.
    No sets are returned if there are too many.

    Parameters
    ----------
    weights : ndarray of uint16 (sample,)
        The weights; 0 for samples to leave out.

    Examples
    --------
    >>> masks, values = split_sets(np.repeat(np.array([3, 5], np.uint16), 32))
    >>> values.tolist(), [hex(mask) for mask in masks[:, 0].tolist()]
    ([[3], [5]], ['0xffffffff', '0xffffffff00000000'])
    """
    n_words = -(-len(weights) // WORD)
    masks = np.zeros((MOST_SETS, n_words), np.uint64)
    values = np.zeros((MOST_SETS, n_words), np.uint16)
    n_sets = split_words(frozen(weights), masks, values)
    if n_sets < 0:
        return np.zeros((2, 0, n_words), np.uint64)
    distinct = [value for value in np.flatnonzero(np.bincount(weights)).tolist() if value]
    either = int(np.bitwise_or.reduce(weights, initial=0))
    bits = [1 << bit for bit in range(16) if either >> bit & 1]
    by_value = len(distinct) <= len(bits)
    parts = distinct if by_value else bits
    if len(parts) * n_words <= n_sets:
        some = [weights == part if by_value else weights & part > 0 for part in parts]
        planes = [pack(each.astype(np.uint8)[np.newaxis], 1)[0, 0] for each in some]
        return np.stack([np.array(planes), np.array([[part] * n_words for part in parts], "u8")])
    used = masks.any(axis=1)
    return np.stack([masks[used], values[used].astype(np.uint64)])


def joined(sets: np.ndarray) -> WordSets | WholeSets | None:
    """Return the sets that `split_sets` returns as they are counted; None if there are too many.

    Examples
    --------
    >>> found = joined(split_sets(np.repeat(np.array([3, 5], np.uint16), 96)))
    >>> found.n_words, found.repeated
    (4, array([1]))
    """
    masks, values = sets
    if not len(masks):
        return None
    if (values == values[:, :1]).all():
        return WholeSets(masks, values[:, 0].astype(np.int64))
    more, repeated = np.nonzero(masks[1:])
    words = np.concatenate([masks[0], masks[1:][more, repeated]])
    weights = np.concatenate([values[0], values[1:][more, repeated]]).astype(np.uint16)
    return WordSets(words, np.ascontiguousarray(repeated), _strips(weights))


def _strips(weights: np.ndarray) -> np.ndarray:
    """Return the weights of words as an array (strip, word), padded with zeros."""
    strips = np.zeros((-(-len(weights) // STRIP), STRIP), np.uint16)
    strips.reshape(-1)[: len(weights)] = weights
    return strips


@dataclass(frozen=True)
class Block:
    """The samples of one chunk, or a bootstrap resample of them."""

    tile: Tile  # the candidates
    columns: Tile  # the columns of the request, usually chosen features
    labels: np.ndarray  # uint8 (sample,)
    parts: np.ndarray  # uint8 (sample,), below N_PARTS; the fold is part % N_FOLDS
    clusters: np.ndarray | None = None  # uint8 (sample,), below N_CLUSTERS; None without groups
    # uint16 (sample,); empty if all samples have weight 1
    weights: np.ndarray = field(default_factory=lambda: NO_WEIGHTS)
    start: int = 0  # row number of the first sample of the chunk
    split: Callable[[], np.ndarray] | None = None  # `split_sets` of the weights, from a cache

    def drawn(self, below: int) -> np.ndarray:
        """Return the positions of the samples whose row number has a hash below ``below``.

        Examples
        --------
        >>> tile = Tile.of(np.zeros((1, 6), np.uint8))
        >>> Block(tile, tile, np.zeros(6, np.uint8), np.zeros(6, np.uint8)).drawn(2**63)
        array([3, 4, 5])
        """
        if below >= ALL_HASHES:
            return np.arange(len(self.labels))
        if not len(self.tile.places):
            return rows_below(self.start, len(self.labels), below)
        found = row_hash(self.tile.places.astype(np.uint64) + np.uint64(self.start))
        return np.flatnonzero(found < np.uint64(below))

    @cached_property
    def sets(self) -> WordSets | WholeSets | None:
        """The samples as bit masks, separated by weight; None if there are too many masks."""
        tile = self.tile
        if not len(self.weights):
            return WordSets(tile.samples, NO_PLACES, NO_WORDS)
        return joined(self.split() if self.split else split_sets(tile.spread_weights(self.weights)))

    @property
    def folds(self) -> np.ndarray:
        """The fold of each sample, uint8 (sample,)."""
        return self.parts % np.uint8(N_FOLDS)

    @property
    def codes(self) -> np.ndarray:
        """The codes of the candidates, uint8 (feature, sample)."""
        return self.tile.codes


def per_feature() -> Any:
    """Declare that a field of a `FeatureRecord` has features along axis 0."""
    return field(metadata={"per_feature": True})


@dataclass(frozen=True)
class FeatureRecord:
    """A base class for dataclasses with fields that have features along axis 0.

    Such a field is declared with `per_feature`. It is an array or another `FeatureRecord`.

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
        """Return the record for some of the features."""
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
    """A base class for the parameters of a reduction, which are sent to every task.

    Each reduction has its own subclass.
    """


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

    Arrays that were sent over the network are read-only. For writable arrays, numba would compile
    a second version of a kernel. If all input is read-only, each kernel is compiled once.

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


#: The type of the context of a reduction.
C = TypeVar("C", bound=Context)


def _as_given(context: C) -> C:
    return context


def _not_faster(context: Context, block: Block) -> Partial | None:  # noqa: ARG001
    return None


@dataclass(frozen=True)
class Reduction(Generic[C]):
    """A sum over samples that is computed in parts (partials), which are then merged.

    The total does not depend on how the samples are divided into blocks, or the blocks into
    partials: exactly for integers, and up to rounding for floats.
    """

    name: str
    layout: Callable[[C, int], Layout]  # shapes and types of a partial, features along axis 0
    chunk: Callable[[C, Block, Partial], None]  # adds a block to a partial
    # Computes the result from the total of a tile, with features along axis 0. This runs on the
    # worker that has the total, so that only the result is transferred.
    finalize: Callable[[C, Partial], Partial]
    # Returns the context that is passed to `chunk`; called once per task. None means that no
    # feature of the tile is needed, so its codes are not read.
    prepare: Callable[[C], C | None] = _as_given
    # Returns the part of the context of a tile that is sent to its tasks. `prepare` and `finalize`
    # are called with this part; they must also accept the full context.
    narrow: Callable[[C], C] = _as_given
    # Returns the result for a block of all samples, with the bits of `chunk` and `finalize` but
    # faster; None if it is not. This is called for data in memory.
    whole: Callable[[C, Block], Partial | None] = _not_faster

    def exact(self, context: C) -> bool:
        """Return whether the total has the same bits for any order of summation."""
        layout = self.layout(context, 0)
        return all(issubclass(dtype, np.integer) for _, dtype in layout.values())

    def identity(self, context: C, n_features: int) -> Partial:
        """Return the partial of zero samples: arrays of zeros."""
        layout = self.layout(context, n_features)
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.items()}

    def result(self, context: C, block: Block) -> Partial:
        """Return the result for a block of all samples."""
        found = self.whole(context, block)
        if found is not None:
            return found
        prepared = self.prepare(context)
        total = self.identity(context, len(block.tile))
        if prepared is not None:
            self.chunk(frozen(prepared), block, total)
        return self.finalize(context, total)

    def nbytes(self, context: C, n_features: int) -> int:
        """Return the size of a partial in bytes, without allocating it."""
        layout = self.layout(context, n_features)
        return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in layout.values())


@dataclass(frozen=True)
class Request:
    """A reduction that a method requests from the engine, with its parameters."""

    reduction: Reduction[Any]
    context: Context
    columns: tuple[int, ...] = ()  # features whose codes the tasks of every tile need
    key: Hashable = None  # requests with equal keys have equal totals; None equals no other key
    resample: int | None = None  # index of the bootstrap resample; None for the original samples
    share: float = 1.0  # approximate fraction of all codes that the reduction uses
