"""The reduction that counts pairs or triples of features and returns those with most synergy.

A tuple (pair or triple) consists of a head, which is one or two of the columns of the request, and
a feature of the tile that comes after them in the order of all features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hofs_dask.engine.counts import as_it_is
from hofs_dask.engine.reduction import (
    ALL_HASHES,
    N_FOLDS,
    Block,
    Context,
    Layout,
    Partial,
    Reduction,
    Tile,
    frozen,
    per_feature,
)
from hofs_dask.kernels import hashing, planes, tuples
from hofs_dask.kernels.planes import WORD
from hofs_dask.kernels.tuples import (
    N_TERMS,
    add_histograms,
    add_products,
    add_tables,
    deviance_moments,
    fill_sets,
    fill_tables,
    fit_tables,
    order_groups,
    pair_bounds,
    subsets_of,
    triple_bounds,
)

#: The modules of the kernels that the reduction calls.
KERNEL_MODULES = (hashing, planes, tuples)

#: Samples are processed in slices: approximate bytes of the bit sets of a slice, and minimum number
#: of samples in a slice.
SLICE_BYTES, LEAST_SLICE = 8 * 2**20, 4096
#: For counts n below this number, n log n is looked up in a table.
MOST_LOGS = 2**16
#: Maximum rounding error of a bound of the synergy, in nats.
ROUNDING = 1e-12
#: Maximum number of tables that are fitted at a time.
FITTED = 4096
#: Pairs of features with at least this many groups of codes are counted sample by sample.
HISTOGRAM_GROUPS = 20
#: Samples are sorted by a key: the class times this number, plus the weight.
KEYS = 2**16


@dataclass(frozen=True)
class TupleContext(Context):
    """The parameters of the reduction `TUPLES`.

    The codes of a feature are merged into a few groups.
    """

    order: int  # features in a tuple: 2 or 3
    below: int  # only samples with a hash below this number are counted
    top: int  # maximum number of tuples to return
    least: float  # tuples with less synergy than this are not returned
    evidence: float  # number of effective samples per unit of weight
    heads: np.ndarray  # int64 (head, order - 1) positions in columns, ascending
    columns: np.ndarray  # int64 (column,) position among all features
    column_groups: np.ndarray  # uint8 (column, code) the group of each code
    column_counts: np.ndarray  # int64 (column, class, group) of the same samples
    position: np.ndarray = per_feature()  # int64 (feature,) position among all features
    usable: np.ndarray = per_feature()  # bool (feature,) whether tuples may contain the feature
    groups: np.ndarray = per_feature()  # uint8 (feature, code) the group of each code
    counts: np.ndarray = per_feature()  # int64 (feature, class, group) of the same samples

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.counts.shape[1])

    @property
    def n_groups(self) -> int:
        """The largest number of groups of codes that a feature has."""
        return int(self.counts.shape[2])

    @property
    def first(self) -> np.ndarray:
        """For each head, the position in the tile of the first feature that comes after it."""
        after = self.columns[self.heads[:, -1]]
        found = np.searchsorted(self.position, after, side="right").astype(np.int64)
        first: np.ndarray = frozen(found)
        return first


def _layout(context: TupleContext, n_features: int) -> Layout:
    n_sets, n_classes = context.n_groups - 1, context.n_classes
    n_heads, n_columns = len(context.heads), len(context.columns)
    found = {"joint": (n_classes, n_heads * n_sets ** (context.order - 1), n_features * n_sets)}
    if context.order == 3:
        found["with_columns"] = (n_classes, n_columns * n_sets, n_features * n_sets)
        found["among_columns"] = (n_classes, n_columns * n_sets, n_columns * n_sets)
    return {name: (shape, np.int64) for name, shape in found.items()}


def _prepare(context: TupleContext) -> TupleContext | None:
    return context if (context.first < len(context.position)).any() else None


def _count_pairs(context: TupleContext, block: Block, partial: Partial) -> None:
    """Add the counts of pairs of features with many groups."""
    drawn = block.drawn(context.below)
    order = np.argsort(block.labels[drawn], kind="stable")
    chosen = drawn[order]
    starts = np.searchsorted(block.labels[chosen], np.arange(context.n_classes + 1))

    def grouped(tile: Tile, groups: np.ndarray) -> np.ndarray:
        codes, samples = tile.codes, chosen
        if context.below < ALL_HASHES:
            codes = tile.some(drawn, np.empty(len(tile) * len(drawn), np.uint8))
            samples = order
        found = np.empty((len(tile), len(chosen)), np.uint8)
        order_groups(frozen(codes), frozen(samples), groups, found)
        result: np.ndarray = frozen(found)
        return result

    add_histograms(
        grouped(block.columns, context.column_groups),
        grouped(block.tile, context.groups),
        context.heads,
        context.first,
        frozen(starts),
        frozen(block.weights[chosen] if len(block.weights) else block.weights),
        context.n_groups,
        partial["joint"],
    )


def _chunk(context: TupleContext, block: Block, partial: Partial) -> None:
    if context.order == 2 and context.n_groups >= HISTOGRAM_GROUPS:
        _count_pairs(context, block, partial)
        return
    n_sets, n_features = context.n_groups - 1, len(block.tile)
    width = (n_features + len(block.columns)) * n_sets
    length = max(8 * SLICE_BYTES // max(width, 1), LEAST_SLICE)
    every = frozen(np.arange(len(context.columns), dtype=np.int64)[:, None])
    zeros = frozen(np.zeros(len(every), np.int64))
    drawn = block.drawn(context.below)
    for start in range(0, len(drawn), length):
        some = drawn[start : start + length]
        weights = block.weights[some] if len(block.weights) else block.weights
        samples, places, segments = _sorted(block.labels[some], weights, start)
        n_words = int(segments[0][-1])

        def sets(tile: Tile, groups: np.ndarray) -> np.ndarray:
            made = np.zeros((len(tile), n_sets, n_words), np.uint64)  # noqa: B023
            if context.below >= ALL_HASHES:
                fill_sets(tile.codes, samples, places, groups, made)  # noqa: B023
            else:
                chosen = drawn[samples]  # noqa: B023
                work = np.empty(len(tile) * len(chosen), np.uint8)
                codes = frozen(tile.some(chosen, work))
                in_order = frozen(np.arange(len(chosen)))
                fill_sets(codes, in_order, places, groups, made)  # noqa: B023
            found: np.ndarray = frozen(made)
            return found

        columns = sets(block.columns, context.column_groups)
        features = sets(block.tile, context.groups).reshape(n_features * n_sets, n_words)
        add_products(columns, features, context.heads, context.first, *segments, partial["joint"])
        if context.order == 3:
            add_products(columns, features, every, zeros, *segments, partial["with_columns"])
            flat = columns.reshape(len(every) * n_sets, n_words)
            add_products(columns, flat, every, zeros, *segments, partial["among_columns"])


#: Segments of sorted samples: the first word of each segment (and the end of the last one), the
#: class of its samples, and their weight.
_Segments = tuple[np.ndarray, np.ndarray, np.ndarray]


def _sorted(
    labels: np.ndarray, weights: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray, _Segments]:
    """Return the samples sorted by segment, the bit position of each, and the segments.

    All samples of a segment have one class and one weight. With many different weights, a sample is
    instead in one segment for each bit of its weight.
    """
    samples = np.arange(len(labels))
    keys = labels.astype(np.int64) * KEYS
    if not len(weights):
        return _segments(samples, keys + 1, first)
    by_weight = _segments(samples, keys + weights, first)
    if by_weight[2][0][-1] * WORD <= 2 * len(labels):
        return by_weight
    bits = [np.flatnonzero(weights & np.uint16(1 << bit)) for bit in range(16)]
    several = np.concatenate([keys[own] + (1 << bit) for bit, own in enumerate(bits)])
    by_bit = _segments(np.concatenate(bits), several, first)
    return min(by_weight, by_bit, key=lambda found: found[2][0][-1])


def _segments(
    samples: np.ndarray, keys: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray, _Segments]:
    """Return samples sorted by key, the bit position of each, and the segments of equal keys."""
    found, counts = np.unique(keys, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(-(-counts // WORD))])
    before = np.cumsum(counts) - counts
    places = np.arange(len(keys)) + np.repeat(starts[:-1] * WORD - before, counts)
    order = np.argsort(keys, kind="stable")
    segments: _Segments = frozen((starts, found // KEYS, found % KEYS))
    return frozen(samples[order] + first), frozen(places), segments


def _logs(n_samples: int) -> np.ndarray:
    """Return n log n for all numbers of samples below `MOST_LOGS`."""
    numbers = np.arange(min(n_samples + 1, MOST_LOGS), dtype=np.float64)
    logs: np.ndarray = frozen(numbers * np.log(np.maximum(numbers, 1.0)))
    return logs


def _finalize(context: TupleContext, total: Partial) -> Partial:
    """Return the tuples with the most synergy: their features, and the terms of `fit_tables`."""
    first, heads = context.first, context.heads
    shape = (*[context.n_groups] * context.order, context.n_classes)
    subsets, signs, sizes = frozen(subsets_of(shape))
    n_margin = int(subsets.max()) + 1
    n_samples = int(context.counts[0].sum()) if len(context.counts) else 0
    logs, moments = _logs(n_samples), frozen(deviance_moments())
    none = np.zeros((0, 0, 0), np.int64)
    joint, with_columns, among_columns = (
        frozen(total.get(name, none)) for name in ("joint", "with_columns", "among_columns")
    )
    of_columns, of_features = frozen((context.column_counts, context.counts))
    bound = np.full((len(heads), len(context.position)), -np.inf)
    if context.order == 2:
        pair_bounds(heads, first, joint, of_columns, of_features, logs, bound)
    else:
        triple_bounds(
            heads,
            first,
            joint,
            with_columns,
            among_columns,
            of_columns,
            of_features,
            logs,
            bound,
        )
    bound[:, ~context.usable] = -np.inf
    flat = bound.ravel()
    # Tuples with the largest bounds of the synergy are fitted first. When `top` tuples are fitted,
    # another tuple is fitted only if its bound reaches the smallest synergy of these.
    (candidates,) = np.nonzero(flat >= max(context.least, 0.0) - ROUNDING)
    kept = np.zeros(0, np.intp)
    terms = np.zeros((0, N_TERMS))
    least, step = context.least, max(context.top, 1)
    while len(candidates):
        largest = np.argpartition(-flat[candidates], min(step, len(candidates)) - 1)
        some, candidates = candidates[largest[:step]], candidates[largest[step:]]
        chosen = frozen(np.stack(np.divmod(some, bound.shape[1]), axis=1))
        made = np.zeros((len(some), subsets.shape[1]), np.int64)
        fill_tables(
            chosen, heads, joint, with_columns, among_columns, of_columns, of_features, made
        )
        own = np.zeros((len(some), N_TERMS))
        fit_tables(
            frozen(made),
            subsets,
            signs,
            sizes,
            n_margin,
            logs,
            moments,
            context.evidence,
            least - ROUNDING,
            own,
        )
        fitted = own[:, 0] >= 0
        kept = np.concatenate([kept, some[fitted]])
        terms = np.concatenate([terms, own[fitted]])
        order = np.lexsort((kept, -terms[:, 0]))[: context.top]
        kept, terms = kept[order], terms[order]
        if len(kept) == context.top:
            least = max(least, terms[-1, 0])
        candidates = candidates[flat[candidates] >= least - ROUNDING]
        step = min(step, FITTED)
    head, feature = np.divmod(kept, bound.shape[1])
    columns = context.columns[heads[head]].reshape(len(kept), context.order - 1)
    return {
        "tuples": np.concatenate([columns, context.position[feature][:, None]], axis=1),
        "terms": terms,
    }


@dataclass(frozen=True)
class GroupContext(Context):
    """The parameters of the reduction `GROUP_COUNTS`."""

    below: int  # only samples with a hash below this number are counted
    n_classes: int
    n_groups: int
    groups: np.ndarray = per_feature()  # uint8 (feature, code) the group of each code


def _group_layout(context: GroupContext, n_features: int) -> Layout:
    return {"counts": ((n_features, context.n_classes, context.n_groups), np.int64)}


def _group_chunk(context: GroupContext, block: Block, partial: Partial) -> None:
    drawn = block.drawn(context.below)
    codes = block.tile.some(drawn, np.empty(len(block.tile) * len(drawn), np.uint8))
    cells = block.labels[drawn].astype(np.int64) * context.n_groups
    weights = block.weights[drawn] if len(block.weights) else None
    shape = (context.n_classes, context.n_groups)
    for own, group, counts in zip(codes, context.groups, partial["counts"], strict=True):
        found = np.bincount(cells + group[own], weights, context.n_classes * context.n_groups)
        counts += found.reshape(shape).astype(np.int64)


@dataclass(frozen=True)
class ParentContext(Context):
    """Context of `PARENT_COUNTS`."""

    n_classes: int
    n_codes: int  # the largest number of codes of a feature
    n_groups: int  # groups of codes of a parent
    parents: np.ndarray  # (counted feature, parent) positions among the columns
    groups: np.ndarray  # uint8 (counted feature, parent, code) the group of each code of a parent
    place: np.ndarray = per_feature()  # (feature,) position among the counted features, or -1


def _parent_layout(context: ParentContext, n_features: int) -> Layout:  # noqa: ARG001
    n_cells = context.n_groups ** context.parents.shape[1]
    n_counted = int((context.place >= 0).sum())
    shape = (n_counted, N_FOLDS, n_cells, context.n_classes, context.n_codes)
    return {"counts": (shape, np.int64)}


def _with_counted(context: ParentContext) -> ParentContext | None:
    return context if (context.place >= 0).any() else None


def _parent_chunk(context: ParentContext, block: Block, partial: Partial) -> None:
    weights = block.weights if len(block.weights) else None
    (features,) = np.nonzero(context.place >= 0)
    codes = block.tile.only(features).codes
    for i, own, counts in zip(features, codes, partial["counts"], strict=True):
        cells = block.folds.astype(np.int64)
        place = context.place[i]
        for parent, group in zip(context.parents[place], context.groups[place], strict=True):
            cells = cells * context.n_groups + group[block.columns.codes[parent]]
        cells = (cells * context.n_classes + block.labels) * context.n_codes + own
        found = np.bincount(cells, weights, counts.size)
        counts += found.reshape(counts.shape).astype(np.int64)


@dataclass(frozen=True)
class ListedContext(Context):
    """Context of `TUPLE_TABLES`."""

    tuples: np.ndarray  # int64 (tuple, order) positions among all features, ascending
    columns: np.ndarray  # int64 (column,) position among all features, ascending
    n_classes: int
    n_groups: int
    evidence: float  # number of effective samples per unit of weight
    column_groups: np.ndarray  # uint8 (column, code) the group of each code
    position: np.ndarray = per_feature()  # int64 (feature,) position among all features, ascending
    groups: np.ndarray = per_feature()  # uint8 (feature, code) the group of each code

    @property
    def own(self) -> np.ndarray:
        """The tuples whose last feature is in the tile."""
        own: np.ndarray = self.tuples[np.isin(self.tuples[:, -1], self.position)]
        return own


def _listed_layout(context: ListedContext, n_features: int) -> Layout:  # noqa: ARG001
    own = context.own
    n_cells = context.n_groups ** own.shape[1] * context.n_classes
    return {"tables": ((len(own), n_cells), np.int64)}


def _with_listed(context: ListedContext) -> ListedContext | None:
    return context if len(context.own) else None


def _listed_chunk(context: ListedContext, block: Block, partial: Partial) -> None:
    own = context.own
    last, features = np.unique(own[:, -1], return_inverse=True)
    places = np.searchsorted(context.position, last)
    heads = np.searchsorted(context.columns, own[:, :-1])
    add_tables(
        frozen(block.columns.codes),
        frozen(block.tile.only(places).codes),
        frozen(np.concatenate([heads, features[:, None]], axis=1)),
        frozen(context.column_groups),
        frozen(context.groups[places]),
        frozen(block.labels),
        frozen(block.weights),
        context.n_groups,
        context.n_classes,
        partial["tables"],
    )


def _listed_terms(context: ListedContext, total: Partial) -> Partial:
    """Return the tuples of the tile, and their values from `fit_tables`."""
    own, tables = context.own, total["tables"]
    terms = np.zeros((len(own), N_TERMS))
    subsets, signs, sizes = frozen(
        subsets_of((*[context.n_groups] * own.shape[1], context.n_classes))
    )
    n_samples = int(tables[0].sum()) if len(tables) else 0
    n_margin = int(subsets.max()) + 1
    fit_tables(
        frozen(tables),
        subsets,
        signs,
        sizes,
        n_margin,
        _logs(n_samples),
        frozen(deviance_moments()),
        context.evidence,
        0.0,
        terms,
    )
    return {"tuples": own, "terms": terms}


#: ``terms[t]`` are the values from `fit_tables` of the listed tuple ``tuples[t]``.
TUPLE_TABLES = Reduction("tuple-tables", _listed_layout, _listed_chunk, _listed_terms, _with_listed)


#: ``counts[t]``: the samples of each fold, combination of groups of codes of the parents, class and
#: code, for the counted features in ascending order.
PARENT_COUNTS = Reduction("parent-counts", _parent_layout, _parent_chunk, as_it_is, _with_counted)


#: ``counts[i, class, group]``: number of samples per class and group of codes of feature i.
GROUP_COUNTS = Reduction("group-counts", _group_layout, _group_chunk, as_it_is)


#: ``tuples[t]`` are the features of the tuples with the most synergy, most synergy first, and
#: ``terms[t]`` their values from `fit_tables`.
TUPLES = Reduction("tuples", _layout, _chunk, _finalize, _prepare)
