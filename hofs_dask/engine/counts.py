"""The reductions that count samples. This module uses neither Dask nor Zarr."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hofs_dask.engine.reduction import (
    N_CLUSTERS,
    N_FOLDS,
    NO_FLOATS,
    NO_PLACES,
    NO_WEIGHTS,
    NO_WORDS,
    Block,
    Context,
    Layout,
    Partial,
    Reduction,
    Tile,
    WholeSets,
    frozen,
    per_feature,
)
from hofs_dask.kernels import counts as counting
from hofs_dask.kernels import hashing, planes
from hofs_dask.kernels.clusters import design_effect
from hofs_dask.kernels.counts import (
    N_TRIPLE_TERMS,
    add_counts,
    count_terms,
    fill_logs,
    pair_terms,
    triple_terms,
)
from hofs_dask.kernels.planes import (
    WORD,
    add_plane_counts,
    cell_masks,
    counts_words_at_once,
    n_bits,
    pack,
)
from hofs_dask.scheduling.process import PROCESS

#: The modules of the kernels that the reductions call.
KERNEL_MODULES = (counting, hashing, planes)
#: The kernels of these modules that only some reductions call, and the names of these reductions.
KERNELS_OF: Mapping[str, tuple[str, ...]] = {"triple_terms": ("triple-terms",)}

#: There are two ways to count: intersect bit masks, or unpack the codes and count sample by sample.
#: Up to this many intersections per feature, the first way is faster. An intersection takes 0.0030
#: ns per sample with AVX2 and 0.0010 ns with AVX-512. The second way takes 0.5 ns per sample, so it
#: is faster from about 170 intersections on with AVX2, and from about 500 on with AVX-512.
MOST_PRODUCTS = 200
#: The same limit for weighted samples, if the second way counts one feature at a time, which takes
#: 0.7 ns: for processors that count the bits of several words at once (AVX-512), and for others.
MOST_WEIGHTED = 540 if counts_words_at_once() else 210
#: Up to this many words per plane, the samples of many features are counted at once.
SHORT_WORDS = 32

#: Number of features whose codes are merged at a time.
MERGED = 256
#: Logarithms of counts up to this one are looked up in a table, which fits the L2 cache.
MOST_LOGS = 2**16


def as_it_is(context: Context, total: Partial) -> Partial:
    """Return the total unchanged."""
    return total


@dataclass(frozen=True)
class MarginalContext(Context):
    """The parameters of the reduction `MARGINAL_COUNTS`."""

    n_classes: int
    n_codes: int  # the largest number of codes of a feature


@dataclass(frozen=True)
class GroupsContext(Context):
    """The parameters of the reduction `DESIGN_EFFECTS`."""

    n_classes: int
    n_codes: int  # the largest number of codes of a feature
    n_groups: int


@dataclass(frozen=True)
class PairContext(Context):
    """The parameters of the reduction `PAIR_COUNTS`."""

    n_classes: int
    n_codes: int  # the largest number of codes of a feature
    by_fold: bool  # whether each fold is counted separately


@dataclass(frozen=True)
class PairTermsContext(Context):
    """The parameters of the reduction `PAIR_TERMS`."""

    n_classes: int
    parents: np.ndarray  # (column, code) the numeric value of each code of each column
    after: np.ndarray  # (column,) position of the first feature that each column is paired with
    numbers: np.ndarray = per_feature()  # (feature, code) the numeric value of each code
    position: np.ndarray = per_feature()  # (feature,) position among all features
    marginals: np.ndarray = per_feature()  # (feature, class, code) counts of the same samples


@dataclass(frozen=True)
class TripleTermsContext(Context):
    """The parameters of the reduction `TRIPLE_TERMS`.

    The codes of a feature are merged into a few groups.
    """

    n_classes: int
    n_groups: int  # the largest number of groups of a feature
    heads: np.ndarray  # (head, 2) positions in the columns of the request
    column_groups: np.ndarray  # uint8 (column, code) the group of each code
    groups: np.ndarray = per_feature()  # uint8 (feature, code) the group of each code


#: Samples are counted per cell, for example per fold and class. The number of a cell consists of
#: digits (here fold and class). A `_Digit` is the digit of every sample, and its base. The digits
#: are an array (sample,), or the codes of the column at the given position.
_Digit = tuple[int | np.ndarray, int]


def _add(
    block: Block,
    digits: Sequence[_Digit],
    counts: np.ndarray,
    *,
    first: int = 0,
    table: int = 0,
    known: int = 0,
) -> None:
    """Add the weights of samples to one of the tables of ``counts`` (feature, table, cell, code).

    Parameters
    ----------
    block
        The samples.
    digits
        The digits that form the cell number of each sample; the last digit varies fastest.
    counts
        The counts to add to, int64 and C-contiguous.
    first
        Features of the tile before this position are skipped.
    table
        Position of the table to add to.
    known
        Cells with a number below this do not have to be counted.
    """
    m, n_tables, n_cells, n_codes = counts.shape
    start = table * n_cells * n_codes
    out = counts.reshape(m, n_tables * n_cells * n_codes)
    tile = block.tile
    n_products = (n_cells - known) * (n_codes - 1)
    most = MOST_PRODUCTS
    if len(block.weights):
        # features whose bits fit into a byte are counted together, sample by sample
        most = MOST_WEIGHTED // max(8 // tile.planes.shape[1], 1)
    # a bit mask cannot represent a repeated sample
    sets = block.sets if n_products <= most and not tile.repeats else None
    if sets is not None and sets.n_words * n_products <= most * tile.planes.shape[2]:
        planes = [
            (block.columns.planes[what], base)
            if isinstance(what, int)
            else (tile.spread(what, base), base)
            for what, base in digits
        ]
        where = start + known * n_codes
        if isinstance(sets, WholeSets):
            _add_whole(sets, tile, planes, known, n_codes, first, out, where)
            return
        masks = cell_masks(sets.masks, [(sets.of(each), base) for each, base in planes])
        masks = np.ascontiguousarray(masks[:, known:])
        repeated, masks, weights = frozen((sets.repeated, masks, sets.weights))
        add_plane_counts(tile.planes, repeated, masks, weights, n_codes, first, out, where)
        return
    cells = _numbered(block, digits).astype(np.uint32, copy=False)
    octets = tile.planes.astype("<u8", copy=False).view(np.uint8)
    samples = frozen(octets), tile.places, frozen(cells), block.weights
    add_counts(*samples, n_cells, n_codes, first, out, start)


def _add_whole(
    sets: WholeSets,
    tile: Tile,
    digits: Sequence[tuple[np.ndarray, int]],
    known: int,
    n_codes: int,
    first: int,
    out: np.ndarray,
    start: int,
) -> None:
    """Add the weights of samples as the number of samples of each mask, times its weight.

    All masks are counted at once, as further cells, so that the sets of a feature are made once.
    """
    several = [cell_masks(mask, digits)[:, known:] for mask in sets.masks]
    masks = np.concatenate(several, axis=1)
    size = several[0].shape[1] * n_codes
    counts = np.zeros((len(out), len(several) * size), np.int64)
    none, masks, ones = frozen((NO_PLACES, masks, NO_WORDS))
    add_plane_counts(tile.planes, none, masks, ones, n_codes, first, counts, 0)
    by_mask = counts.reshape(len(out), len(several), size)
    for value, each in zip(sets.values.tolist(), by_mask.transpose(1, 0, 2), strict=True):
        out[:, start : start + size] += value * each


def _numbered(block: Block, digits: Sequence[_Digit]) -> np.ndarray:
    """Return, for every sample, the cell number that its digits form.

    The array has the smallest possible integer type, because allocations beyond 128 KiB are slow.
    """
    largest = math.prod(base for _, base in digits)
    kind = "uint16" if largest <= 2**16 else "uint32"
    number: np.ndarray = np.zeros(len(block.labels), kind)
    for what, base in digits:
        number *= base
        number += block.columns.codes[what] if isinstance(what, int) else what
    return number


def _tables(counts: np.ndarray, n_tables: int) -> np.ndarray:
    """Return counts (feature, ..., code) reshaped to (feature, table, cell, code)."""
    m, n_codes = len(counts), counts.shape[-1]
    return counts.reshape(m, n_tables, math.prod(counts.shape[1:-1]) // n_tables, n_codes)


def _marginal_layout(context: MarginalContext, n_features: int) -> Layout:
    return {"counts": ((n_features, N_FOLDS, context.n_classes, context.n_codes), np.int64)}


def _marginal_chunk(context: MarginalContext, block: Block, partial: Partial) -> None:
    digits = [(block.folds, N_FOLDS), (block.labels, context.n_classes)]
    _add(block, digits, _tables(partial["counts"], 1))


#: ``counts[i, fold, class, code]``: number of samples per fold, class and code of feature i.
MARGINAL_COUNTS = Reduction("marginal-counts", _marginal_layout, _marginal_chunk, as_it_is)


def _cluster_layout(context: GroupsContext, n_features: int) -> Layout:
    return {"counts": ((n_features, N_CLUSTERS, context.n_classes, context.n_codes), np.int64)}


def _cluster_chunk(context: GroupsContext, block: Block, partial: Partial) -> None:
    assert block.clusters is not None  # requested only for samples in groups
    digits = [(block.clusters, N_CLUSTERS), (block.labels, context.n_classes)]
    # Samples count equally here: `effective_size` accounts for weights separately.
    block = replace(block, weights=NO_WEIGHTS)
    _add(block, digits, _tables(partial["counts"], 1))


def _effects(context: GroupsContext, total: Partial) -> Partial:
    return {"effect": design_effect(total["counts"], context.n_groups)}


#: ``effect[i]``: the design effect for feature i, that is, the number of samples divided by the
#: effective number of samples. It is above 1 if samples of the same group depend on each other.
DESIGN_EFFECTS = Reduction("design-effects", _cluster_layout, _cluster_chunk, _effects)


def _pair_layout(context: PairContext, n_features: int) -> Layout:
    n_folds = N_FOLDS if context.by_fold else 1
    shape = (n_features, n_folds, context.n_codes, context.n_classes, context.n_codes)
    return {"counts": (shape, np.int64)}


def _pair_chunk(context: PairContext, block: Block, partial: Partial) -> None:
    digits: list[_Digit] = [(0, context.n_codes), (block.labels, context.n_classes)]
    if context.by_fold:
        digits.insert(0, (block.folds, N_FOLDS))
    _add(block, digits, _tables(partial["counts"], 1))


#: ``counts[i, fold, parent code, class, code]``: number of samples per fold, code of the parent
#: (the only column of the request), class and code of feature i.
PAIR_COUNTS = Reduction("pair-counts", _pair_layout, _pair_chunk, as_it_is)


def _terms_layout(context: PairTermsContext, n_features: int) -> Layout:
    n_parents, n_codes = context.parents.shape
    shape = (n_features, n_parents, n_codes, context.n_classes, n_codes)
    return {"counts": (shape, np.int64)}


def _terms_chunk(context: PairTermsContext, block: Block, partial: Partial) -> None:
    n_classes = context.n_classes
    tables = _tables(partial["counts"], len(block.columns))
    for j in range(len(block.columns)):
        digits: list[_Digit] = [(j, context.parents.shape[1]), (block.labels, n_classes)]
        # if both features of a pair are columns, the pair is counted only once
        first = int(np.searchsorted(context.position, context.after[j]))
        _add(block, digits, tables, first=first, table=j, known=n_classes)


def _terms(context: PairTermsContext, total: Partial) -> Partial:
    counts, parents = frozen(total["counts"]), context.parents
    terms = np.empty((len(counts), len(parents), 3 + context.n_classes))
    n_samples = int(context.marginals[0].sum()) if len(counts) else 0
    logs = log_table(n_samples)
    for column in range(len(parents)):
        pair_terms(counts, column, context.marginals, parents, context.numbers, logs, terms)
    return {"terms": terms}


def _whole_terms(context: PairTermsContext, block: Block) -> Partial | None:
    """Return the terms of a single column and few samples, by a kernel for many features."""
    n_parent, n_classes, tile = len(context.parents[0]), context.n_classes, block.tile
    n_words, n_codes = tile.planes.shape[2], context.marginals.shape[2]
    n_products = (n_parent - 1) * n_classes * (n_codes - 1)
    is_short = n_words <= SHORT_WORDS and n_products <= MOST_PRODUCTS
    if not is_short or len(block.columns) > 1 or len(block.weights):
        return None
    labels = tile.spread(block.labels, n_classes)
    digits = [(block.columns.planes[0], n_parent), (labels, n_classes)]
    masks = np.ascontiguousarray(cell_masks(tile.samples, digits)[0, n_classes:, :n_words])
    terms = np.empty((len(tile), 1, 3 + n_classes))
    count_terms(
        tile.planes,
        frozen(masks),
        context.marginals,
        frozen(context.parents[0]),
        context.numbers,
        log_table(len(block.labels)),
        terms,
    )
    return {"terms": terms}


def other_kernel(n_samples: int, *, is_held: bool) -> str:
    """Return the kernel that is usually not called: one of the two that compute pair terms.

    Examples
    --------
    >>> other_kernel(1000, is_held=True), other_kernel(1000, is_held=False)
    ('pair_terms', 'count_terms')
    """
    return "pair_terms" if is_held and n_samples <= SHORT_WORDS * WORD else "count_terms"


def log_table(largest: int) -> np.ndarray:
    """Return n log n for n from 0 to ``largest`` or more; empty if there would be too many."""
    if largest > MOST_LOGS:
        return NO_FLOATS

    def fill(n: int) -> np.ndarray:
        logs = np.empty(n)
        fill_logs(logs)
        return logs

    table: np.ndarray = frozen(PROCESS.table("logs", largest + 1, fill))
    return table


#: ``terms[i, j]`` for every feature i and every column j: I(x_i : x_j), I(x_i : y | x_j),
#: H(x_i, x_j, y), and the Gram sum of x_i and x_j within each class.
PAIR_TERMS = Reduction("pair-terms", _terms_layout, _terms_chunk, _terms, whole=_whole_terms)


def _triple_layout(context: TripleTermsContext, n_features: int) -> Layout:
    b = context.n_groups
    shape = (n_features, len(context.heads), b, b, context.n_classes, b)
    return {"counts": (shape, np.int64)}


def _triple_chunk(context: TripleTermsContext, block: Block, partial: Partial) -> None:
    n_groups = context.n_groups
    tables = _tables(partial["counts"], len(context.heads))
    columns = [
        group[codes]
        for group, codes in zip(context.column_groups, block.columns.codes, strict=True)
    ]
    for start in range(0, len(tables), MERGED):
        some = np.arange(start, min(start + MERGED, len(tables)))
        codes = block.tile.only(some).codes
        merged = np.empty_like(codes)
        for group, own, out in zip(context.groups[some], codes, merged, strict=True):
            np.take(group, own, out=out)
        tile = Tile(pack(merged, n_bits(n_groups)), codes.shape[1])
        part = replace(block, tile=tile)
        for head, (first, second) in enumerate(context.heads.tolist()):
            digits: list[_Digit] = [
                (columns[first], n_groups),
                (columns[second], n_groups),
                (block.labels, context.n_classes),
            ]
            _add(part, digits, tables[some[0] : some[-1] + 1], table=head)


def _triple_terms(context: TripleTermsContext, total: Partial) -> Partial:
    counts = frozen(total["counts"])
    terms = np.empty((*counts.shape[:2], N_TRIPLE_TERMS))
    logs = log_table(int(counts[0, 0].sum()) if counts.size else 0)
    for head in range(counts.shape[1]):
        triple_terms(counts, head, logs, terms)
    return {"terms": terms}


#: ``terms[i, head]`` for every feature i and every head of two columns: the terms that the kernel
#: `triple_terms` lists. They are computed from the counts n[i, head, code, code, class, code].
TRIPLE_TERMS = Reduction("triple-terms", _triple_layout, _triple_chunk, _triple_terms)
