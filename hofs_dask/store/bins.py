"""Edges, categories and value tables: what turns a value of a feature into a code.

The first read of a source makes a `Summary` of each block; summaries merge, in row order, into one
of all rows; `make_tables` turns that into the `Tables` with which the second read codes the blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hofs_dask.kernels.cells import as_cells, make_room, set_planes
from hofs_dask.kernels.planes import pack
from hofs_dask.store.summary import MANY_CELLS, MAX_DISTINCT, Category, Summary, clean_objects

Bins = int | Literal["auto", "width"] | None

#: Codes 0..253 of one feature; 255 is the fill value of the store.
MAX_CODES = 254
#: The range of ``bins="auto"`` and the samples that a (bin, bin, class) cell should keep.
MIN_AUTO, MAX_AUTO, CELL_SAMPLES = 5, 32, 10
#: A text column of more rows than this, all different, is an identifier.
IDENTIFIER_ROWS = 20


# Options


def check_bins(bins: object) -> Bins:
    """Return ``bins`` as it is kept, or raise a ValueError that says what is allowed.

    Examples
    --------
    >>> check_bins(12)
    12
    >>> check_bins("deciles")
    Traceback (most recent call last):
    ...
    ValueError: bins is 'deciles'; give "auto", "width", None or an integer from 2 to 254
    """
    if bins is None:
        return None
    if bins == "auto":
        return "auto"
    if bins == "width":
        return "width"
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool) and 2 <= bins <= MAX_CODES:
        return int(bins)
    raise ValueError(
        f'bins is {bins!r}; give "auto", "width", None or an integer from 2 to {MAX_CODES}'
    )


def count_bins(bins: Bins, n_samples: int, n_classes: int) -> int:
    """Return the number of bins that ``bins`` means for so many samples and classes.

    Notes
    -----
    ``"auto"`` is ``floor(sqrt(n_samples / (10 n_classes)))`` between 5 and 32, so that a
    (bin, bin, class) cell keeps about ten samples.

    Examples
    --------
    >>> count_bins("auto", 100_000, 2)
    32
    >>> count_bins("auto", 2_000, 2)
    10
    >>> count_bins(7, 2_000, 2)
    7
    """
    if isinstance(bins, int):
        return bins
    wanted = int(np.sqrt(n_samples / (CELL_SAMPLES * n_classes)))
    return min(max(wanted, MIN_AUTO), MAX_AUTO)


def most_bins(bins: Bins) -> int:
    """Return the largest number that `count_bins` can give before the classes are known.

    Examples
    --------
    >>> most_bins("auto"), most_bins(100)
    (32, 100)
    """
    return bins if isinstance(bins, int) else MAX_AUTO


# Tables


@dataclass(frozen=True)
class Feature:
    """How one feature is coded.

    Attributes
    ----------
    edges : ndarray of float64
        The code of a number is how many of these it reaches.
    values : ndarray of float64
        The number that each code stands for, NaN for the missing code.
    has_missing : bool
        Whether the last code means that the value is missing.
    categories : tuple or None
        The category of each code of a nominal feature, in order.
    n_folded : int
        Rare categories that share the last category, ``"other"``.
    """

    edges: np.ndarray
    values: np.ndarray
    has_missing: bool
    categories: tuple[Category, ...] | None = None
    n_folded: int = 0

    @property
    def n_codes(self) -> int:
        """The number of codes, the missing one included."""
        return len(self.values)


@dataclass(frozen=True)
class Refusal:
    """Why a feature cannot be coded: its column, the error and the words after its name."""

    column: int
    error: type[Exception]
    text: str


def make_tables(
    summary: Summary, first: int, bins: Bins, n_bins: int
) -> tuple[list[Feature], list[Refusal]]:
    """Return how each column of a summary of all rows is coded, and what forbids it.

    Parameters
    ----------
    summary : Summary
        Of all rows.
    first : int
        The position of its first column in the data.
    bins : int, "auto", "width" or None
        As the user gave it.
    n_bins : int
        The number that it means.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.store.summary import summarise
    >>> column = np.array([[0.0], [0.0], [0.0], [0.0], [1.0], [2.0], [3.0], [np.nan]])
    >>> summary = summarise(column, 0, 8, np.array([False]), 3)
    >>> (feature,), problems = make_tables(summary, 0, 2, 2)
    >>> feature.values, problems
    (array([ 0.,  2., nan]), [])
    """
    features, problems = [], []
    for j in range(len(summary.n_missing)):
        feature = _make_feature(summary, j, bins, n_bins)
        if isinstance(feature, Feature):
            features.append(feature)
        else:
            problems.append(Refusal(first + j, *feature))
    return features, problems


def _make_feature(
    summary: Summary, j: int, bins: Bins, n_bins: int
) -> Feature | tuple[type[Exception], str]:
    n_missing, low, high = int(summary.n_missing[j]), summary.low[j], summary.high[j]
    if j in summary.strange:
        return TypeError, (
            f"holds {', '.join(sorted(summary.strange[j]))} among its objects; convert it to "
            "numbers with .astype(float) or to strings with .astype(str)"
        )
    if summary.n_inf[j]:
        return ValueError, (
            f"holds {summary.n_inf[j]} infinite values; replace them with NaN (coded as missing) "
            "or with a large number"
        )
    if bins is None and summary.dtype.kind in "iuf":
        if summary.dtype.kind == "f" or low < 0 or high >= MAX_CODES:
            return ValueError, (
                f"is {summary.dtype} from {low:g} to {high:g}, but bins=None takes integers from 0 "
                f'to {MAX_CODES - 1} as the codes that they are; give bins="auto"'
            )
        codes = np.arange(int(high) + 1.0)
        categories = tuple(range(int(high) + 1)) if j in summary.counts else None
        return Feature(codes[1:], codes, False, categories)
    if j in summary.counts:
        return _make_nominal(summary.counts[j], summary.n_rows, n_missing, summary.dtype == object)
    n_bins = min(n_bins, MAX_CODES - (n_missing > 0))
    # Integers past 2**53 can be equal as floats.
    distinct = np.unique(summary.distinct[: summary.n_distinct[j], j])
    if summary.n_distinct[j] <= n_bins and summary.n_distinct[j] < len(summary.distinct):
        edges, values = distinct[1:], distinct
    else:
        kind = np.float32 if summary.dtype == np.float32 else np.float64
        column = summary.sample[j].astype(kind, copy=False)
        ordered = np.sort(column[~np.isnan(column)] if n_missing else column)
        if bins == "width":
            edges = width_edges(low, high, n_bins)
        else:
            edges = quantile_edges(ordered, n_bins, low, high)
        values = bin_means(ordered, edges, low, high)
    if n_missing:
        values = np.append(values, np.nan)
    return Feature(edges + 0.0, values + 0.0, n_missing > 0)


def _make_nominal(
    counts: dict[Category, int] | None, n_rows: int, n_missing: int, is_text: bool
) -> Feature | tuple[type[Exception], str]:
    n_values = n_rows - n_missing
    drop = "an identifier says nothing about new samples: leave it out"
    if counts is None:
        return ValueError, f"has more than {MAX_DISTINCT} distinct categories; {drop}"
    if is_text and n_values > IDENTIFIER_ROWS and len(counts) == n_values:
        return ValueError, f"has a distinct value in each of its {n_values} rows; {drop}"
    room = MAX_CODES - (n_missing > 0)
    categories = sorted(counts, key=category_order)
    n_folded = 0
    if len(categories) > room:
        frequent = sorted(categories, key=lambda each: -counts[each])[: room - 1]
        n_folded = len(categories) - len(frequent)
        categories = [*sorted(frequent, key=category_order), "other"]
    values = np.arange(len(categories), dtype=np.float64)
    if n_missing:
        values = np.append(values, np.nan)
    return Feature(np.empty(0), values, n_missing > 0, tuple(categories), n_folded)


def category_order(category: Category) -> tuple[bool, float, str]:
    """Return the sort key of a category: numbers by value, then strings.

    Examples
    --------
    >>> sorted(["b", 10, 9.5, "a"], key=category_order)
    [9.5, 10, 'a', 'b']
    """
    if isinstance(category, str):
        return True, 0.0, category
    return False, category, ""  # not as a float, which large integers are not


def quantile_edges(ordered: np.ndarray, n_bins: int, low: float, high: float) -> np.ndarray:
    """Return increasing edges of at most ``n_bins`` bins of nearly equal counts.

    Parameters
    ----------
    ordered : ndarray of float32 or float64
        The sampled values in increasing order, none missing.
    n_bins : int
        Bins wanted, at least two.
    low, high : float
        The range over all rows.

    Notes
    -----
    An *atom* is a value that holds more than ``1 / n_bins`` of the samples. It gets a bin of its
    own; the values between atoms share the other bins by their counts. Where atoms leave fewer bins
    than there are stretches between them, the smallest atoms are given up. An edge is the lowest
    sampled value of its bin (or the next number after an atom), so that edges follow any
    increasing change of units.

    Examples
    --------
    >>> import numpy as np
    >>> column = np.array([0.0] * 6 + [1.0, 2.0, 3.0, 4.0])
    >>> np.searchsorted(quantile_edges(column, 3, 0.0, 4.0), column, side="right")
    array([0, 0, 0, 0, 0, 0, 1, 1, 2, 2])
    """
    cuts = _plain_cuts(ordered, n_bins)
    if cuts is not None:
        return np.asarray(ordered[cuts], np.float64)
    starts = np.flatnonzero(np.append([True] * (len(ordered) > 0), ordered[1:] != ordered[:-1]))
    unique = ordered[starts]
    if len(unique) < 2:
        # The sample hides that the column varies: its range does not.
        atom = float(unique[0]) if len(unique) else low
        edges = [atom] * bool(low < atom) + [np.nextafter(atom, np.inf)] * bool(high > atom)
        return np.array(edges[: n_bins - 1])
    counts = np.diff(np.append(starts, len(ordered)))
    atoms = _atoms(counts, n_bins)
    is_atom = np.zeros(len(unique), bool)
    is_atom[atoms] = True
    bounds = [-1, *atoms, len(unique)]
    stretches = [(a + 1, b) for a, b in itertools.pairwise(bounds) if b > a + 1]
    shares = _share_bins(
        np.array([counts[a:b].sum() for a, b in stretches]),
        np.array([b - a for a, b in stretches]),
        n_bins - len(atoms),
    )
    firsts = set(atoms)
    for (a, b), share in zip(stretches, shares, strict=True):
        firsts.add(a)
        firsts.update((a + _cuts(counts[a:b], share)).tolist())
    lowest = np.array(sorted(firsts - {0}), dtype=np.int64)
    after_atom = is_atom[lowest - 1] & ~is_atom[lowest]
    before = unique[lowest - 1].astype(np.float64)
    return np.where(after_atom, np.nextafter(before, np.inf), unique[lowest])


def width_edges(low: float, high: float, n_bins: int) -> np.ndarray:
    """Return increasing edges of at most ``n_bins`` bins of equal width from low to high.

    Examples
    --------
    >>> width_edges(0.0, 1.0, 4)
    array([0.25, 0.5 , 0.75])
    """
    share = np.arange(1, n_bins) / n_bins
    edges = np.unique(low * (1 - share) + high * share)
    edges = edges[(edges > low) & (edges <= high)]
    return edges if len(edges) else np.array([high])


def bin_means(ordered: np.ndarray, edges: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the mean of the values in each bin; one without a value gets the middle of its edges.

    Parameters
    ----------
    ordered : ndarray of float32 or float64
        The sampled values in increasing order, none missing.
    edges : ndarray of float64
        Increasing.
    low, high : float
        The range over all rows.

    Examples
    --------
    >>> import numpy as np
    >>> bin_means(np.array([1.0, 2.0, 6.0]), np.array([4.0, 8.0]), 1.0, 10.0)
    array([1.5, 6. , 9. ])
    """
    reached = np.searchsorted(ordered, _round_up(edges, ordered.dtype))
    bounds = np.concatenate([[0], reached, [len(ordered)]])
    counts = np.diff(bounds)
    used = counts > 0
    first, last = bounds[:-1][used], bounds[1:][used] - 1
    # A sum of numbers near the largest float would overflow: scaling by a power of two is exact.
    power = 64 if max(abs(low), abs(high)) > 1e280 else 0
    scaled = np.ldexp(ordered, -power) if power else ordered
    sums = np.add.reduceat(scaled, first, dtype=np.float64) if len(first) else first
    means = np.append(low, edges) / 2 + np.append(edges, high) / 2
    # Rounding must not carry a mean out of its bin, nor a one-value bin off its value.
    exact = np.ldexp(sums / counts[used], power)
    means[used] = np.clip(exact, ordered[first], ordered[last])
    return means


def _plain_cuts(ordered: np.ndarray, n_bins: int) -> np.ndarray | None:
    """Return the first position of each bin but the first, None if it takes more to find them.

    A run of equal values that is longer than a bin should be holds one of the places where bins
    should end. So without looking elsewhere it is known whether there are atoms; without them a bin
    ends where the run at its place begins or ends, if no other bin ends there, too.
    """
    n_values = len(ordered)
    if n_values < n_bins:
        return None
    goals = n_values * np.arange(1, n_bins + 1)
    runs = ordered[-(-goals // n_bins) - 1]
    begin, end = np.searchsorted(ordered, runs), np.searchsorted(ordered, runs, side="right")
    # Compared as integers, times n_bins: a share of a count need not be whole.
    closer = goals - begin * n_bins < end * n_bins - goals
    cuts = np.where(closer, begin, end)[:-1]
    has_atoms = ((end - begin) * n_bins > n_values).any()
    if has_atoms or cuts[0] == 0 or cuts[-1] == n_values or (cuts[1:] == cuts[:-1]).any():
        return None
    return cuts


def _atoms(counts: np.ndarray, n_bins: int) -> list[int]:
    """Return the positions of the values that get a bin of their own."""
    atoms = np.flatnonzero(counts * n_bins > counts.sum()).tolist()
    while atoms:
        bounds = np.array([-1, *atoms, len(counts)])
        n_stretches = int((np.diff(bounds) > 1).sum())
        if n_stretches <= n_bins - len(atoms):
            break
        atoms.remove(min(atoms, key=lambda atom: counts[atom]))
    return atoms


def _share_bins(totals: np.ndarray, n_values: np.ndarray, n_bins: int) -> list[int]:
    """Return how many bins each stretch gets: at least one, at most one a value, by its total."""
    if len(totals) == 1:
        return [min(n_bins, int(n_values[0]))]
    shares = np.ones(len(totals), np.int64)
    for _ in range(n_bins - len(totals)):
        crowding = np.where(shares < n_values, totals / shares, 0.0)
        if not crowding.any():
            break
        shares[np.argmax(crowding)] += 1
    return shares.tolist()


def _cuts(counts: np.ndarray, n_bins: int) -> np.ndarray:
    """Return the first position of each of ``n_bins`` runs of nearly equal counts but the first."""
    steps = np.arange(1, n_bins)
    ends = np.cumsum(counts)
    # Compared as integers, times n_bins: a share of a count need not be whole.
    goals, scaled = ends[-1] * steps, ends * n_bins
    after = np.searchsorted(scaled, goals)
    before = np.maximum(after - 1, 0)
    closer = goals - scaled[before] < scaled[after] - goals
    cuts = np.where(closer, before, after) + 1
    cuts = np.maximum.accumulate(cuts - steps) + steps
    return np.asarray(np.minimum(cuts, len(counts) - n_bins + steps))


# The second read


def count_edges(column: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return how many edges each number reaches, uint8; none for NaN.

    Notes
    -----
    One comparison an edge, eight or more numbers at a time, is some ten times faster than a binary
    search for each number.

    Examples
    --------
    >>> import numpy as np
    >>> count_edges(np.array([0.0, 1.0, 5.0, np.nan]), np.array([1.0, 2.0]))
    array([0, 1, 2, 0], dtype=uint8)
    """
    if column.dtype != np.float32:
        column = column.astype(np.float64, copy=False)
    limits = _round_up(edges, column.dtype)
    codes = np.zeros(len(column), np.uint8)
    reached = np.empty(len(column), np.bool_)
    for limit in limits:
        np.greater_equal(column, limit, out=reached)
        codes += reached.view(np.uint8)
    return codes


def encode_block(block: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    """Return the codes of a block (sample, feature), one row a feature.

    Raises
    ------
    ValueError
        For a value that the first read did not see: the source has changed.

    Examples
    --------
    >>> import numpy as np
    >>> feature = Feature(np.array([0.5]), np.array([0.0, 1.0, np.nan]), True)
    >>> encode_block(np.array([[0.2], [np.nan], [0.7]]), [feature]).ravel()
    array([0, 2, 1], dtype=uint8)
    """
    if block.dtype == object:
        rows = [_encode_objects(block[:, j], feature) for j, feature in enumerate(features)]
        return np.array(rows, np.uint8)
    columns = np.ascontiguousarray(block.T)
    codes = np.empty(columns.shape, np.uint8)
    for column, feature, out in zip(columns, features, codes, strict=True):
        if feature.categories is None:
            out[:] = count_edges(column, feature.edges)
            _set_missing(column, feature, out)
        else:
            out[:] = _encode_categories(column, feature)
    return codes


def encode_planes(block: np.ndarray, features: Sequence[Feature], out: np.ndarray) -> None:
    """Set the bit planes of the codes of a block, which `encode_block` describes.

    Parameters
    ----------
    block : ndarray (sample, feature)
        The values.
    features : sequence of Feature
        How they are coded.
    out : ndarray of uint64 (feature, bit, word)
        Zero at first.

    Examples
    --------
    >>> import numpy as np
    >>> feature = Feature(np.array([0.5]), np.array([0.0, 1.0, np.nan]), True)
    >>> out = np.zeros((1, 2, 1), np.uint64)
    >>> encode_planes(np.array([[0.2], [np.nan], [0.7]]), [feature], out)
    >>> [f"{plane:03b}" for plane in out[0, :, 0]]
    ['100', '010']
    """
    bits = out.shape[1]
    if block.dtype == object or block.size < MANY_CELLS:
        out[:] = pack(encode_block(block, features), bits)
        return
    dtype = np.result_type(block.dtype, np.float32)
    numeric = [feature.categories is None for feature in features]
    edges = [
        each.edges if own else each.edges[:0] for each, own in zip(features, numeric, strict=True)
    ]
    limits = np.full((len(edges), max(len(each) for each in edges)), np.nan, dtype)
    for each, row in zip(edges, limits, strict=True):
        row[: len(each)] = _round_up(each, dtype)
    # Those of categories are coded later.
    codes = [f.n_codes - 1 if f.has_missing else -1 for f in features]
    missing = np.where(numeric, codes, 0)
    for array in (limits, missing):
        array.setflags(write=False)
    if not set_planes(as_cells(block), limits, missing, *make_room(limits), out.view(np.uint8)):
        raise _changed()
    for j, feature in enumerate(features):
        if feature.categories is not None:
            found = _encode_categories(block[:, j], feature).astype(np.uint8)
            out[j] = pack(found[None], bits)[0]


def _round_up(edges: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return edges in another type of floats, whose numbers they part as the edges do."""
    rounded = edges.astype(dtype)
    too_low = rounded < edges
    rounded[too_low] = np.nextafter(rounded[too_low], dtype.type(np.inf))
    return rounded


def _encode_categories(column: np.ndarray, feature: Feature) -> np.ndarray:
    """Return the codes of a column of numbers that are categories; those not known are folded."""
    categories = feature.categories or ()
    kind = column.dtype if column.dtype.kind in "iu" else np.float64
    known = np.array(categories[: -1 if feature.n_folded else None], kind)
    codes = _find_integers(column, known)
    if codes is None:
        numbers = column.astype(kind)
        codes = np.searchsorted(known, numbers)
        if len(known):
            codes[known[np.minimum(codes, len(known) - 1)] != numbers] = len(known)
        codes[np.isnan(numbers)] = -1
    if not feature.n_folded and codes.max(initial=-1) == len(known):
        raise _changed()
    _set_missing(column, feature, codes)
    return codes


def _find_integers(column: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """Return the place of each integer among known ones, past the last where it is not there.

    By a table that has a place for each integer in their range; None where that is too wide.
    """
    if column.dtype.kind not in "iu" or not len(known):
        return None
    low, high = int(known[0]), int(known[-1])
    if high - low >= len(column) or high >= 2**63 - 1:
        return None
    places = np.full(high - low + 2, len(known))
    places[known.astype(np.int64) - low] = np.arange(len(known))
    integers = column.astype(np.int64, copy=False)
    outside = (integers < low) | (integers > high)
    return np.asarray(places[np.where(outside, high + 1, integers) - low])


def _set_missing(column: np.ndarray, feature: Feature, codes: np.ndarray) -> None:
    if column.dtype.kind == "f":
        missing = np.isnan(column)
        if missing.any():
            codes[missing] = _missing_code(feature)


def _encode_objects(column: np.ndarray, feature: Feature) -> list[int]:
    categories = feature.categories or ()
    known = categories[: -1 if feature.n_folded else None]
    codes: dict[Category | None, int] = {category: code for code, category in enumerate(known)}
    values, _ = clean_objects(column)
    if None in values:
        codes[None] = _missing_code(feature)
    if feature.n_folded:
        return [codes.get(value, len(known)) for value in values]
    try:
        return [codes[value] for value in values]
    except KeyError:
        raise _changed() from None


def _missing_code(feature: Feature) -> int:
    if not feature.has_missing:
        raise _changed()
    return feature.n_codes - 1


def _changed() -> ValueError:
    return ValueError(
        "the data holds a value in the second read that it did not hold in the first: it changed "
        "while it was read, or its tasks are random; write it to a Zarr store and encode that"
    )
