"""Quantization: bin edges, categories and the values of codes.

The first read of a source makes a `Summary` of each block. The summaries are merged in row order.
`make_tables` converts the merged summary to one `Feature` per column, which describes the codes of
this column. The second read encodes the blocks accordingly.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np

from hofs_dask.kernels.cells import as_cells, make_room, set_planes
from hofs_dask.kernels.planes import pack
from hofs_dask.store.summary import (
    EXACT,
    MANY_CELLS,
    MAX_DISTINCT,
    PREFIX_ROWS,
    Category,
    Summary,
    clean_objects,
)

Bins = int | Literal["auto", "width"] | None

#: Maximum number of codes of a feature, 0..253; 255 is the fill value of the store.
MAX_CODES = 254
#: Minimum and maximum number of bins for ``bins="auto"``, and the average number of samples that a
#: combination of a bin of one feature, a bin of another feature and a class should have.
MIN_AUTO, MAX_AUTO, CELL_SAMPLES = 5, 32, 10
#: A text column with more values than this, all different, is refused as an identifier.
IDENTIFIER_ROWS = 20


# Options


def check_bins(bins: object) -> Bins:
    """Return the validated option ``bins``, or raise a ValueError with the valid values.

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


def count_bins(bins: Bins, n_samples: float, n_classes: int) -> int:
    """Return the number of bins for the option ``bins`` and the (effective) size of the data.

    Notes
    -----
    ``"auto"`` is ``floor(sqrt(n_samples / (10 n_classes)))``, limited to the range from 5 to 32. A
    combination of a bin of one feature, a bin of another feature and a class then has about ten
    samples.

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
    """Return the largest value that `count_bins` can return for any number of classes.

    Examples
    --------
    >>> most_bins("auto"), most_bins(100)
    (32, 100)
    """
    return bins if isinstance(bins, int) else MAX_AUTO


#: Columns of up to this many sampled rows are ordered together; more would not fit the CPU cache.
MOST_ORDERED = 2**15

# Tables


@dataclass(frozen=True)
class Feature:
    """The coding of one feature: which values each code represents.

    Attributes
    ----------
    edges : ndarray of float64
        Bin edges; the code of ``x`` is the number of edges ``<= x``.
    values : ndarray of float64
        The number that each code represents, NaN for the missing code.
    has_missing : bool
        Whether the last code represents missing values.
    categories : tuple or None
        The category of each code of a nominal feature, in order.
    n_folded : int
        Number of rare categories that are merged into the last category, ``"other"``.
    """

    edges: np.ndarray
    values: np.ndarray
    has_missing: bool
    categories: tuple[Category, ...] | None = None
    n_folded: int = 0

    @property
    def n_codes(self) -> int:
        """The number of codes, including the missing code."""
        return len(self.values)


@dataclass(frozen=True)
class Features(Sequence[Feature]):
    """The codings of several features as arrays, since a wide source has many features.

    Attributes
    ----------
    n_codes : ndarray of int64 (feature)
        Number of codes, including the missing code.
    has_missing : ndarray of bool (feature)
        Whether the last code represents missing values.
    edges : ndarray of float64 (feature, edge)
        Bin edges, padded with NaN.
    values : ndarray of float64 (feature, code)
        The number of each code, NaN for the missing code and after the last code.
    nominal : dict of int to Feature
        The features with categories, by position.

    Examples
    --------
    >>> one = Feature(np.array([0.5]), np.array([0.0, 1.0]), False)
    >>> features = Features.of([one, Feature(np.zeros(0), np.zeros(1), False)])
    >>> features.n_codes, features[0].edges, len(features[1:])
    (array([2, 1]), array([0.5]), 1)
    """

    n_codes: np.ndarray
    has_missing: np.ndarray
    edges: np.ndarray
    values: np.ndarray
    nominal: Mapping[int, Feature]

    @classmethod
    def of(cls, features: Sequence[Feature]) -> Features:
        """Return the codings of a sequence of features."""
        if isinstance(features, Features):
            return features
        return cls(
            n_codes=np.array([each.n_codes for each in features], np.int64),
            has_missing=np.array([each.has_missing for each in features], bool),
            edges=_pad([each.edges for each in features]),
            values=_pad([each.values for each in features]),
            nominal={j: each for j, each in enumerate(features) if each.categories is not None},
        )

    @classmethod
    def join(cls, several: Sequence[Features]) -> Features:
        """Return the features of several objects, one after the other."""
        if len(several) == 1:
            return several[0]
        starts = itertools.accumulate(map(len, several), initial=0)
        return cls(
            n_codes=np.concatenate([each.n_codes for each in several]),
            has_missing=np.concatenate([each.has_missing for each in several]),
            edges=_stack([each.edges for each in several]),
            values=_stack([each.values for each in several]),
            nominal={
                start + j: feature
                for start, each in zip(starts, several, strict=False)
                for j, feature in each.nominal.items()
            },
        )

    def __len__(self) -> int:
        return len(self.n_codes)

    @overload
    def __getitem__(self, item: int) -> Feature: ...

    @overload
    def __getitem__(self, item: slice) -> Features: ...

    def __getitem__(self, item: int | slice) -> Feature | Features:
        if isinstance(item, slice):
            places = range(*item.indices(len(self)))
            return Features(
                self.n_codes[item],
                self.has_missing[item],
                self.edges[item],
                self.values[item],
                {j - places.start: each for j, each in self.nominal.items() if j in places},
            )
        if item in self.nominal:
            return self.nominal[item]
        n_codes, has_missing = int(self.n_codes[item]), bool(self.has_missing[item])
        n_edges = max(n_codes - has_missing - 1, 0)
        return Feature(self.edges[item, :n_edges], self.values[item, :n_codes], has_missing)


def _pad(rows: Sequence[np.ndarray]) -> np.ndarray:
    padded = np.full((len(rows), max(1, max((len(row) for row in rows), default=1))), np.nan)
    for out, row in zip(padded, rows, strict=True):
        out[: len(row)] = row
    return padded


def _stack(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Return tables (row, column) one below the other, padded with NaN."""
    stacked = np.full((sum(map(len, tables)), max(each.shape[1] for each in tables)), np.nan)
    start = 0
    for each in tables:
        stacked[start : start + len(each), : each.shape[1]] = each
        start += len(each)
    return stacked


@dataclass(frozen=True)
class Refusal:
    """A feature that cannot be coded: its column index, the type of the error, and the message.

    The message is the end of a sentence that begins with the name of the feature.
    """

    column: int
    error: type[Exception]
    text: str


def make_tables(
    summary: Summary, first: int, bins: Bins, n_bins: int
) -> tuple[Features, list[Refusal]]:
    """Return the coding of each column, and a refusal for each column that cannot be coded.

    Parameters
    ----------
    summary : Summary
        The summary of all rows.
    first : int
        The position in the data of the first column of the summary.
    bins : int, "auto", "width" or None
        The option of the user.
    n_bins : int
        The number of bins, see `count_bins`.

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
    n_features = len(summary.n_missing)
    is_plain = summary.n_inf == 0
    is_plain[list({*summary.counts, *summary.strange})] = False
    if bins is None and summary.dtype.kind in "iuf":
        is_plain[:] = False
    has_missing = summary.n_missing > 0
    most = np.minimum(n_bins, MAX_CODES - has_missing)
    few = is_plain & (summary.n_distinct <= most) & (summary.n_distinct < len(summary.distinct))
    with np.errstate(invalid="ignore"):
        few &= ~((summary.low < -EXACT) | (summary.high > EXACT))
    many = is_plain & (summary.n_distinct > most) & ~has_missing & (bins != "width")
    several = [(np.flatnonzero(few), _few_values(summary, few))]
    plain, made = _plain_features(summary, np.flatnonzero(many), n_bins)
    several.append((plain, made))
    left = np.ones(n_features, bool)
    left[few], left[plain] = False, False
    rest, features, problems = [], [], []
    for j in np.flatnonzero(left).tolist():
        feature = _make_feature(summary, j, bins, n_bins)
        if isinstance(feature, Feature):
            rest.append(j)
            features.append(feature)
        else:
            problems.append(Refusal(first + j, *feature))
    several.append((np.array(rest, int), Features.of(features)))
    used = [(places, each) for places, each in several if len(each)]
    if len(used) == 1:
        return used[0][1], problems
    order = np.argsort(np.concatenate([places for places, _ in several]))
    return _reordered(Features.join([each for _, each in several]), order), problems


def _reordered(features: Features, order: np.ndarray) -> Features:
    """Return the features at these positions."""
    place = {int(old): new for new, old in enumerate(order)} if features.nominal else {}
    return Features(
        features.n_codes[order],
        features.has_missing[order],
        features.edges[order],
        features.values[order],
        {place[j]: each for j, each in features.nominal.items()},
    )


def _few_values(summary: Summary, few: np.ndarray) -> Features:
    """Return the codings of columns with one code per distinct value."""
    n_distinct, has_missing = summary.n_distinct[few], summary.n_missing[few] > 0
    n_codes = n_distinct + has_missing
    # the missing code, which is after the values, has NaN as all entries after the last code
    values = np.ascontiguousarray(summary.distinct[: max(n_codes.max(initial=1), 1), few].T) + 0.0
    return Features(n_codes, has_missing, _pad_edges(values[:, 1:]), values, {})


def _pad_edges(edges: np.ndarray) -> np.ndarray:
    """Return edges (feature, edge) with at least one column, without columns of padding only."""
    used = ~np.isnan(edges).all(axis=0)
    return (
        edges[:, : max(int(used.sum()), 1)] if edges.shape[1] else np.full((len(edges), 1), np.nan)
    )


def _plain_features(summary: Summary, many: np.ndarray, n_bins: int) -> tuple[np.ndarray, Features]:
    """Return the columns whose values at the ends of bins are not tied, and their codings.

    These columns are cut at the same positions of their ordered values, so that all of them are
    coded at once. For the other columns, `_make_feature` has the same rule.
    """
    none = np.zeros(0, int), Features.of([])
    n_rows = summary.sample.shape[1]
    bounded = np.maximum(np.abs(summary.low[many]), np.abs(summary.high[many])) < EXACT
    many = many[bounded]
    if summary.weights is not None or n_rows < n_bins or not len(many) or n_rows > MOST_ORDERED:
        return none
    ordered = np.sort(np.asarray(summary.sample[many], np.float64), axis=1)
    goals = n_rows * np.arange(1, n_bins + 1)
    ends = -(-goals // n_bins) - 1  # of the ideal bins
    closer = goals - ends * n_bins < (ends + 1) * n_bins - goals
    cuts = np.where(closer, ends, ends + 1)[:-1]
    if cuts[0] == 0 or cuts[-1] == n_rows or (cuts[1:] == cuts[:-1]).any():
        return none
    inner = ends[:-1]
    untied = (ordered[:, inner] > ordered[:, inner - 1]).all(axis=1)
    untied &= (ordered[:, inner] < ordered[:, inner + 1]).all(axis=1)
    untied &= ordered[:, n_rows - 1] > ordered[:, n_rows - 2]
    ordered, many = ordered[untied], many[untied]
    if not len(many):
        return none
    firsts = np.concatenate([[0], cuts])
    sizes = np.diff(np.append(firsts, n_rows))
    sums = np.add.reduceat(ordered.reshape(-1), _starts(firsts, ordered.shape))
    means = sums.reshape(len(many), n_bins) / sizes
    last = firsts + sizes - 1
    values = np.clip(means, ordered[:, firsts], ordered[:, last]) + 0.0
    edges = ordered[:, cuts] + 0.0
    n_codes = np.full(len(many), n_bins)
    return many, Features(n_codes, np.zeros(len(many), bool), edges, values, {})


def _starts(firsts: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the positions in a flat table (row, column) of these columns of every row."""
    starts: np.ndarray = (np.arange(shape[0])[:, None] * shape[1] + firsts).reshape(-1)
    return starts


def unique_integers(summary: Summary) -> list[int]:
    """Return the columns of integers whose sampled values are all different, as in identifiers.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.store.summary import summarise
    >>> column = np.arange(100)[:, None] % [[100, 99]]
    >>> unique_integers(summarise(column, 0, 100, np.array([False, False]), 6, n_bins=5))
    [0]
    """
    n_rows = summary.sample.shape[1]
    if summary.dtype.kind not in "iu" or n_rows <= IDENTIFIER_ROWS:
        return []
    wide = summary.high - summary.low >= n_rows - 1
    wide[list(summary.counts)] = False
    found = []
    for j in np.flatnonzero(wide & (summary.n_distinct == len(summary.distinct))).tolist():
        # most columns have equal values among the first ones
        for several in (summary.sample[j, :PREFIX_ROWS], summary.sample[j]):
            ordered = np.sort(several)
            if (ordered[1:] == ordered[:-1]).any():
                break
        else:
            found.append(j)
    return found


def close_integers(summary: Summary) -> list[int]:
    """Return the columns of integers of which few are different numbers as float64.

    These are integers beyond 2**53 in a narrow range, such as identifiers with a common prefix.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.store.summary import summarise
    >>> column = np.arange(100)[:, None] + np.array([[2**60, 2**50]])
    >>> close_integers(summarise(column, 0, 100, np.array([False, False]), 6))
    [0]
    """
    if summary.dtype.kind not in "iu":
        return []
    largest = np.maximum(np.abs(summary.low), np.abs(summary.high))
    close = (largest > EXACT) & (summary.high - summary.low < MAX_CODES * np.spacing(largest))
    close[list(summary.counts)] = False
    return np.flatnonzero(close).tolist()


def _make_feature(
    summary: Summary, j: int, bins: Bins, n_bins: int
) -> Feature | tuple[type[Exception], str]:
    n_missing, low, high = int(summary.n_missing[j]), summary.low[j], summary.high[j]
    if j in summary.strange:
        return TypeError, (
            f"contains objects of type {', '.join(sorted(summary.strange[j]))}; convert it to "
            "numbers with .astype(float) or to strings with .astype(str)"
        )
    if summary.n_inf[j]:
        return ValueError, (
            f"contains {summary.n_inf[j]} infinite values; replace them with NaN (coded as "
            "missing) or with a large number"
        )
    if bins is None and summary.dtype.kind in "iuf":
        if summary.dtype.kind == "f" or low < 0 or high >= MAX_CODES:
            return ValueError, (
                f"is {summary.dtype} from {low:g} to {high:g}, but bins=None needs codes: integers "
                f'from 0 to {MAX_CODES - 1}; give bins="auto"'
            )
        codes = np.arange(int(high) + 1.0)
        categories = tuple(range(int(high) + 1)) if j in summary.counts else None
        return Feature(codes[1:], codes, False, categories)
    if j in summary.counts:
        return _make_nominal(summary.counts[j], summary.n_rows, n_missing, summary.dtype == object)
    n_bins = min(n_bins, MAX_CODES - (n_missing > 0))
    n_distinct = summary.n_distinct[j]
    if n_distinct <= n_bins and n_distinct < len(summary.distinct):
        values = summary.distinct[:n_distinct, j]
        if not -EXACT <= low <= high <= EXACT:
            # different integers above 2**53 can be equal as floats
            values = np.unique(values)
        edges = values[1:]
    else:
        kind = np.float32 if summary.dtype == np.float32 else np.float64
        column = summary.sample[j].astype(kind, copy=False)
        weights = summary.weights
        if weights is None:
            ordered = np.sort(column[~np.isnan(column)] if n_missing else column)
        else:
            order = np.argsort(column, kind="stable")[: (~np.isnan(column)).sum()]  # NaN is last
            ordered, weights = column[order], weights[order].astype(np.int64)
        if bins == "width":
            edges = width_edges(low, high, n_bins)
        else:
            edges = quantile_edges(ordered, n_bins, low, high, weights)
        values = bin_means(ordered, edges, low, high, weights)
    if n_missing:
        values = np.append(values, np.nan)
    return Feature(edges + 0.0, values + 0.0, n_missing > 0)


def _make_nominal(
    counts: dict[Category, int] | None, n_rows: int, n_missing: int, is_text: bool
) -> Feature | tuple[type[Exception], str]:
    n_values = n_rows - n_missing
    drop = "it looks like an identifier: omit it"
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
    return False, category, ""  # not float(category), which rounds large integers


def quantile_edges(
    ordered: np.ndarray, n_bins: int, low: float, high: float, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return increasing edges of at most ``n_bins`` bins of nearly equal counts.

    Parameters
    ----------
    ordered : ndarray of float32 or float64
        The sampled values in increasing order, without missing values.
    n_bins : int
        The desired number of bins, at least two.
    low, high : float
        Minimum and maximum over all rows, not only over the sampled values.
    weights : ndarray of int64, optional
        The weights of the values: a value of weight 2 counts as two.

    Notes
    -----
    An *atom* is a value that more than ``1 / n_bins`` of the samples have. It gets a separate bin.
    The values between two atoms are a *stretch*. The remaining bins are divided among the stretches
    in proportion to their counts. If there are too few bins for this, the atoms with the smallest
    counts are treated as ordinary values. An edge is the lowest sampled value of the bin above it,
    or the next floating-point number after an atom. An increasing transformation of the data does
    not change which samples share a bin.

    Examples
    --------
    >>> import numpy as np
    >>> column = np.array([0.0] * 6 + [1.0, 2.0, 3.0, 4.0])
    >>> np.searchsorted(quantile_edges(column, 3, 0.0, 4.0), column, side="right")
    array([0, 0, 0, 0, 0, 0, 1, 1, 2, 2])
    """
    cuts = _plain_cuts(ordered, n_bins) if weights is None else None
    if cuts is not None:
        return np.asarray(ordered[cuts], np.float64)
    starts = np.flatnonzero(np.append([True] * (len(ordered) > 0), ordered[1:] != ordered[:-1]))
    unique = ordered[starts]
    if len(unique) < 2:
        # The sampled values are all equal, but the range over all rows may be wider.
        atom = float(unique[0]) if len(unique) else low
        edges = [atom] * bool(low < atom) + [np.nextafter(atom, np.inf)] * bool(high > atom)
        return np.array(edges[: n_bins - 1])
    if weights is None:
        counts = np.diff(np.append(starts, len(ordered)))
    else:
        counts = np.add.reduceat(weights, starts)
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


def bin_means(
    ordered: np.ndarray,
    edges: np.ndarray,
    low: float,
    high: float,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the mean of the values in each bin; for an empty bin, the midpoint of its edges.

    Parameters
    ----------
    ordered : ndarray of float32 or float64
        The sampled values in increasing order, without missing values.
    edges : ndarray of float64
        Increasing bin edges.
    low, high : float
        Minimum and maximum over all rows, not only over the sampled values.
    weights : ndarray of int64, optional
        The weights of the values.

    Examples
    --------
    >>> import numpy as np
    >>> bin_means(np.array([1.0, 2.0, 6.0]), np.array([4.0, 8.0]), 1.0, 10.0)
    array([1.5, 6. , 9. ])
    """
    reached = np.searchsorted(ordered, _round_up(edges, ordered.dtype))
    bounds = np.concatenate([[0], reached, [len(ordered)]])
    sizes = np.diff(bounds)
    used = sizes > 0
    first, last = bounds[:-1][used], bounds[1:][used] - 1
    # A sum of numbers near the largest float would overflow; scaling by a power of two is exact.
    power = 64 if max(abs(low), abs(high)) > 1e280 else 0
    scaled = np.ldexp(ordered, -power) if power else ordered
    counts = sizes[used]
    if weights is not None and len(first):
        scaled, counts = scaled * weights, np.add.reduceat(weights, first)
    sums = np.add.reduceat(scaled, first, dtype=np.float64) if len(first) else first
    means = np.append(low, edges) / 2 + np.append(edges, high) / 2
    # Rounding must not move a mean out of its bin; if all values of a bin are equal, the mean must
    # be this value.
    exact = np.ldexp(sums / counts, power)
    means[used] = np.clip(exact, ordered[first], ordered[last])
    return means


def _plain_cuts(ordered: np.ndarray, n_bins: int) -> np.ndarray | None:
    """Return the index of the first value of every bin except the first bin, in simple cases.

    A bin should ideally end at a multiple of the bin size. If equal values are on both sides of
    this position, the bin ends at the nearer end of this run of equal values. The result is None if
    there are atoms, if there are fewer values than bins, or if a bin would be empty. Every run of
    equal values that is longer than a bin contains an ideal end, so only the runs at ideal ends can
    be atoms.
    """
    n_values = len(ordered)
    if n_values < n_bins:
        return None
    goals = n_values * np.arange(1, n_bins + 1)
    runs = ordered[-(-goals // n_bins) - 1]
    begin, end = np.searchsorted(ordered, runs), np.searchsorted(ordered, runs, side="right")
    # Multiplied by n_bins, so that integers are compared.
    closer = goals - begin * n_bins < end * n_bins - goals
    cuts = np.where(closer, begin, end)[:-1]
    has_atoms = ((end - begin) * n_bins > n_values).any()
    if has_atoms or cuts[0] == 0 or cuts[-1] == n_values or (cuts[1:] == cuts[:-1]).any():
        return None
    return cuts


def _atoms(counts: np.ndarray, n_bins: int) -> list[int]:
    """Return the positions of the values that get a separate bin."""
    atoms = np.flatnonzero(counts * n_bins > counts.sum()).tolist()
    while atoms:
        bounds = np.array([-1, *atoms, len(counts)])
        n_stretches = int((np.diff(bounds) > 1).sum())
        if n_stretches <= n_bins - len(atoms):
            break
        atoms.remove(min(atoms, key=lambda atom: counts[atom]))
    return atoms


def _share_bins(totals: np.ndarray, n_values: np.ndarray, n_bins: int) -> list[int]:
    """Return the number of bins of each stretch, in proportion to its total count.

    A stretch gets at least one bin, and at most one bin per distinct value.
    """
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
    """Return the index of the first value of every bin but the first; counts are nearly equal."""
    steps = np.arange(1, n_bins)
    ends = np.cumsum(counts)
    # Multiplied by n_bins, so that integers are compared.
    goals, scaled = ends[-1] * steps, ends * n_bins
    after = np.searchsorted(scaled, goals)
    before = np.maximum(after - 1, 0)
    closer = goals - scaled[before] < scaled[after] - goals
    cuts = np.where(closer, before, after) + 1
    cuts = np.maximum.accumulate(cuts - steps) + steps
    return np.asarray(np.minimum(cuts, len(counts) - n_bins + steps))


# The second read


def count_edges(column: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the number of edges ``<= x`` for each value ``x`` of a column, as uint8; 0 for NaN.

    Notes
    -----
    One vectorized comparison per edge is about ten times faster than a binary search per number.

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
    """Return the codes (feature, sample) of a block (sample, feature).

    Raises
    ------
    ValueError
        The block has a value that the first read did not find, so the source has changed.

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
    """Set ``out`` to the bit planes of the codes that `encode_block` returns.

    Parameters
    ----------
    block : ndarray (sample, feature)
        The values.
    features : sequence of Feature
        The coding of each feature.
    out : ndarray of uint64 (feature, bit, word)
        The output, initially zero.

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
    cells, several = as_cells(block), Features.of(features)
    limits = np.ascontiguousarray(_round_up(several.edges, cells.dtype))
    missing = np.where(several.has_missing, several.n_codes - 1, -1)
    for j in several.nominal:  # coded below
        missing[j], limits[j] = 0, np.nan
    for array in (limits, missing):
        array.setflags(write=False)
    room = make_room(cells)
    data = cells.array, cells.by_feature, cells.n_samples
    if not set_planes(*data, limits, missing, *room, out.view(np.uint8)):
        raise _changed()
    for j, feature in several.nominal.items():
        found = _encode_categories(block[:, j], feature).astype(np.uint8)
        out[j] = pack(found[None], bits)[0]


def _round_up(edges: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return edges rounded up to a float type, which does not change the bins of its numbers."""
    rounded = edges.astype(dtype)
    too_low = rounded < edges
    rounded[too_low] = np.nextafter(rounded[too_low], dtype.type(np.inf))
    return rounded


def _encode_categories(column: np.ndarray, feature: Feature) -> np.ndarray:
    """Return the codes of a numeric column of categories; unknown values become "other"."""
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
    """Return the index of each integer in ``known``, or ``len(known)`` if it is not in ``known``.

    This uses a table over the range of the integers. If the range is too wide, None is returned.
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
        "the second read of the data found a value that the first read did not: the data changed "
        "while it was read, or its tasks are random; write it to a Zarr store and encode that"
    )
