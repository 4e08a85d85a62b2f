"""Summaries of blocks: statistics of their columns, computed by the first read of a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hofs_dask.kernels.cells import add_columns, as_cells, make_room
from hofs_dask.kernels.hashing import rows_below

Category = str | int | float | bool

#: Bin edges and values are computed from a random sample of about this many rows. If a source has
#: at most this many rows, all of them are used.
SAMPLE_ROWS = 131_072
#: A nominal feature with more distinct values than this is refused as an identifier.
MAX_DISTINCT = 1_000_000
#: Blocks with fewer values (rows x columns) than this are processed by numpy, because compiling a
#: kernel would take longer.
MANY_CELLS = 2**15
#: Number of rows that are checked first. For most columns, they already show that there are more
#: distinct values than bins.
PREFIX_ROWS = 1024
#: Integers up to this one can be represented exactly as float64.
EXACT = 2**53


@dataclass(frozen=True)
class Summary:
    """Statistics of the columns of one block or of several merged blocks.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    n_missing, n_inf : ndarray of int64 (feature)
        Number of missing and infinite values.
    low, high : ndarray of float64 (feature)
        Minimum and maximum; NaN if all values are missing.
    distinct : ndarray of float64 (limit, feature)
        Distinct values in increasing order, padded with NaN. See `summarise` for ``limit``.
    n_distinct : ndarray of int64 (feature)
        Number of distinct values. The value ``limit`` means ``limit`` or more.
    counts : dict
        For each nominal column, the number of rows with each value, or None if there are more than
        `MAX_DISTINCT` values.
    strange : dict
        For each column with objects of unsupported types, the names of these types.
    dtype : numpy dtype
        Dtype of the columns.
    sample : ndarray (feature, sampled row)
        The values of the rows that `sampled_rows` chose, in row order.
    weights : ndarray of uint16 (sampled row) or None
        The weights of these rows; None if all samples count equally.
    """

    n_rows: int
    n_missing: np.ndarray
    n_inf: np.ndarray
    low: np.ndarray
    high: np.ndarray
    distinct: np.ndarray
    n_distinct: np.ndarray
    counts: dict[int, dict[Category, int] | None]
    strange: dict[int, frozenset[str]]
    dtype: np.dtype
    sample: np.ndarray
    weights: np.ndarray | None = None

    def empty_rows(self) -> np.ndarray | None:
        """Return packed bits that are 1 for sampled rows without any value; None if not floats.

        Examples
        --------
        >>> import numpy as np
        >>> block = np.array([[np.nan, np.nan], [1.0, np.nan]])
        >>> summarise(block, 0, 2, np.array([False, False]), 33).empty_rows()
        array([128], dtype=uint8)
        """
        if self.dtype.kind != "f":
            return None
        whole = np.flatnonzero(self.n_missing == 0)
        some = self.sample[whole[:1]] if len(whole) else self.sample
        return np.packbits(np.isnan(some).all(axis=0))

    def columns(self, first: int, last: int) -> Summary:
        """Return the summary of the columns from ``first`` to ``last - 1``.

        Examples
        --------
        >>> import numpy as np
        >>> summary = summarise(np.eye(3), 0, 3, np.array([False] * 3), 33)
        >>> summary.columns(1, 3).sample.shape
        (2, 3)
        """
        if (first, last) == (0, len(self.n_missing)):
            return self
        some = slice(first, last)
        return Summary(
            n_rows=self.n_rows,
            n_missing=self.n_missing[some],
            n_inf=self.n_inf[some],
            low=self.low[some],
            high=self.high[some],
            distinct=self.distinct[:, some],
            n_distinct=self.n_distinct[some],
            counts={j - first: each for j, each in self.counts.items() if first <= j < last},
            strange={j - first: each for j, each in self.strange.items() if first <= j < last},
            dtype=self.dtype,
            sample=self.sample[some],
            weights=self.weights,
        )


def sampled_rows(first_row: int, n_rows: int, n_samples: int) -> np.ndarray:
    """Return the positions in a block of the rows that belong to the random sample of the source.

    Parameters
    ----------
    first_row : int
        The global index of the first row of the block.
    n_rows : int
        Number of rows of the block.
    n_samples : int
        Number of rows of the source.

    Examples
    --------
    >>> sampled_rows(10, 3, 1000)
    array([0, 1, 2])
    >>> len(sampled_rows(0, 100_000, 1_310_720))
    10021
    """
    if n_samples <= SAMPLE_ROWS:
        return np.arange(n_rows)
    return rows_below(first_row, n_rows, (SAMPLE_ROWS << 64) // n_samples)


def summarise(
    block: np.ndarray,
    first_row: int,
    n_samples: int,
    nominal: np.ndarray,
    limit: int,
    weights: np.ndarray | None = None,
    *,
    n_bins: int = 0,
) -> Summary:
    """Return the summary of a block of numbers, booleans or objects.

    Parameters
    ----------
    block : ndarray (sample, feature)
        The values.
    first_row : int
        The global index of the first row of the block.
    n_samples : int
        Number of rows of the source.
    nominal : ndarray of bool (feature)
        Whether the values of a column are categories.
    limit : int
        Maximum number of distinct values to keep: one more than the number of bins.
    weights : ndarray of uint16 (sample,), optional
        The weights of the rows. The number of rows of a category is then the sum of their weights.
    n_bins : int
        If these are all rows of the source, and no bins are made of up to this many distinct
        values: the rows of columns with fewer are not sampled, which saves time.

    Examples
    --------
    >>> import numpy as np
    >>> block = np.array([[1.0, 5.0], [2.0, np.nan], [1.0, 7.0]])
    >>> summary = summarise(block, 0, 3, np.array([False, False]), 33)
    >>> summary.n_missing, summary.n_distinct
    (array([0, 1]), array([2, 2]))
    """
    if block.dtype == object:
        return _summarise_objects(block, weights)
    n_rows, n_features = block.shape
    found = _look_at_many(block, limit, ~nominal) if block.size >= MANY_CELLS else None
    n_missing, low, high, distinct, n_distinct = found or _look_at_few(block, limit, ~nominal)
    n_inf = np.zeros(n_features, np.int64)
    for j in np.flatnonzero(np.isinf(low) | np.isinf(high)):
        n_inf[j] = np.isinf(block[:, j]).sum()
    sampled = sampled_rows(first_row, n_rows, n_samples)
    (many,) = np.nonzero(n_distinct + (n_missing > 0) > n_bins)
    rows = block if len(sampled) == n_rows else block[sampled]
    if not n_bins or len(many) == n_features or (block.dtype.kind == "f" and (n_missing > 0).all()):
        sample = np.ascontiguousarray(rows.T)
    else:
        sample = np.empty((n_features, len(sampled)), block.dtype)
        sample[many] = rows[:, many].T
        if block.dtype.kind == "f":
            # for `empty_rows`: no row misses a column without missing values
            sample[np.flatnonzero(n_missing == 0)[0]] = rows[:, np.flatnonzero(n_missing == 0)[0]]
    return Summary(
        n_rows=n_rows,
        n_missing=n_missing,
        n_inf=n_inf,
        low=low,
        high=high,
        distinct=distinct,
        n_distinct=n_distinct,
        counts={int(j): count_values(block[:, j], weights) for j in np.flatnonzero(nominal)},
        strange={},
        dtype=block.dtype,
        sample=sample,
        weights=None if weights is None else weights[sampled],
    )


def merge_summaries(summaries: Sequence[Summary]) -> Summary:
    """Merge several summaries, given in row order, and return the summary of all their rows.

    Examples
    --------
    >>> import numpy as np
    >>> column, numeric = np.arange(6.0)[:, None], np.array([False])
    >>> parts = [summarise(column[a : a + 3], a, 6, numeric, 33) for a in (0, 3)]
    >>> merge_summaries(parts).n_distinct
    array([6])
    """
    if len(summaries) == 1:
        return summaries[0]
    first = summaries[0]
    limit = len(first.distinct)
    stacked = np.sort(np.concatenate([each.distinct for each in summaries]), axis=0)
    stacked[1:][stacked[1:] == stacked[:-1]] = np.nan
    distinct = np.sort(stacked, axis=0)[:limit]
    overflow = np.any([each.n_distinct == limit for each in summaries], axis=0)
    n_distinct = np.where(overflow, limit, (~np.isnan(distinct)).sum(axis=0))
    return Summary(
        n_rows=sum(each.n_rows for each in summaries),
        n_missing=np.sum([each.n_missing for each in summaries], axis=0),
        n_inf=np.sum([each.n_inf for each in summaries], axis=0),
        low=np.fmin.reduce([each.low for each in summaries]),
        high=np.fmax.reduce([each.high for each in summaries]),
        distinct=distinct,
        n_distinct=n_distinct,
        counts={j: merge_counts(each.counts[j] for each in summaries) for j in first.counts},
        strange={
            j: frozenset().union(*(each.strange.get(j, frozenset()) for each in summaries))
            for j in sorted({j for each in summaries for j in each.strange})
        },
        dtype=first.dtype,
        sample=np.concatenate([each.sample for each in summaries], axis=1),
        weights=None
        if first.weights is None
        else np.concatenate([each.weights for each in summaries if each.weights is not None]),
    )


def count_values(
    column: np.ndarray, weights: np.ndarray | None = None
) -> dict[Category, int] | None:
    """Return the number of rows, or the sum of their weights, for each value of a column.

    The values are numbers or booleans. Missing values are not counted. The result is None if there
    are more than `MAX_DISTINCT` distinct values.

    Examples
    --------
    >>> import numpy as np
    >>> count_values(np.array([3.0, np.nan, 1.0, 3.0]))
    {1.0: 1, 3.0: 2}
    """
    if column.dtype.kind == "f":
        known = ~np.isnan(column)
        weights = None if weights is None else weights[known]
        column = column[known] + column.dtype.type(0)
    if weights is None:
        values, counts = _count_integers(column) or np.unique(column, return_counts=True)
    else:
        values, places = np.unique(column, return_inverse=True)
        # sums of at most 2**53 are exact as floats
        counts = np.bincount(places, weights, minlength=len(values)).astype(np.int64)
    if len(values) > MAX_DISTINCT:
        return None
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def merge_counts(
    counts: Iterable[dict[Category, int] | None],
) -> dict[Category, int] | None:
    """Return the sum of several counts, or None if there are more than `MAX_DISTINCT` values.

    Examples
    --------
    >>> merge_counts([{"a": 1}, {"a": 2, "b": 1}])
    {'a': 3, 'b': 1}
    """
    total: Counter[Category] = Counter()
    for each in counts:
        if each is None:
            return None
        total.update(each)
        if len(total) > MAX_DISTINCT:
            return None
    return dict(total)


def clean_objects(column: np.ndarray) -> tuple[list[Category | None], frozenset[str]]:
    """Return the values of a column of objects, and the names of unsupported types.

    Missing values and values of unsupported types are None.

    Examples
    --------
    >>> import numpy as np
    >>> clean_objects(np.array(["a", float("nan"), True, 3], dtype=object))
    (['a', None, True, None], frozenset({'int'}))
    """
    values = column.tolist()
    if set(map(type, values)) <= {str, bool, type(None)}:
        return values, frozenset()
    cleaned: list[Category | None] = []
    strange = set()
    for value in values:
        if isinstance(value, str):
            cleaned.append(str(value))
        elif isinstance(value, bool | np.bool_):
            cleaned.append(bool(value))
        else:
            cleaned.append(None)
            if not is_missing(value):
                strange.add(type(value).__name__)
    return cleaned, frozenset(strange)


def is_missing(value: object) -> bool:
    """Return whether an object is None, NaN or ``pandas.NA``.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing("")
    (True, True, False)
    """
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _summarise_objects(block: np.ndarray, weights: np.ndarray | None) -> Summary:
    n_rows, n_features = block.shape
    n_missing = np.zeros(n_features, np.int64)
    counts: dict[int, dict[Category, int] | None] = {}
    strange = {}
    for j in range(n_features):
        values, types = clean_objects(block[:, j])
        count = Counter(values)
        n_missing[j] = count.pop(None, 0)
        if weights is not None:
            count = Counter()
            for value, weight in zip(values, weights.tolist(), strict=True):
                if value is not None:
                    count[value] += weight
        counts[j] = merge_counts([{key: n for key, n in count.items() if key is not None}])
        if types:
            strange[j] = types
    nothing = np.full(n_features, np.nan)
    return Summary(
        n_rows=n_rows,
        n_missing=n_missing,
        n_inf=np.zeros(n_features, np.int64),
        low=nothing,
        high=nothing,
        distinct=nothing[None],
        n_distinct=np.zeros(n_features, np.int64),
        counts=counts,
        strange=strange,
        dtype=block.dtype,
        sample=np.empty((n_features, 0)),
    )


Look = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _look_at_few(block: np.ndarray, limit: int, wanted: np.ndarray) -> Look:
    """Return five statistics of each column.

    These are the number of missing values, the minimum, the maximum, the distinct values, and the
    number of distinct values. Distinct values are determined only for columns that are ``wanted``,
    and at most ``limit`` of them are returned and counted.
    """
    n_rows, n_features = block.shape
    n_missing = np.zeros(n_features, np.int64)
    if block.dtype.kind == "f":
        n_missing += np.isnan(block).sum(axis=0)
    low, high = np.full((2, n_features), np.nan)
    if n_rows:
        low = np.fmin.reduce(block, axis=0).astype(np.float64)
        high = np.fmax.reduce(block, axis=0).astype(np.float64)
    distinct = np.full((limit, n_features), np.nan)
    n_distinct = np.zeros(n_features, np.int64)
    prefix = np.sort(block[:PREFIX_ROWS], axis=0)
    # NaN sorts last and differs from every value, so missing values are subtracted below.
    steps = (prefix[1:] != prefix[:-1]).sum(axis=0)
    if block.dtype.kind == "f":
        steps = steps - np.isnan(prefix).sum(axis=0)
    many = (steps + 1 >= limit) & wanted
    n_distinct[many] = limit
    for j in np.flatnonzero(wanted & ~many):
        column = block[:, j]
        values = (_count_integers(column) or (np.unique(column),))[0]
        values = values[~np.isnan(values)].astype(np.float64) + 0.0  # -0.0 to 0.0
        n_distinct[j] = min(len(values), limit)
        distinct[: n_distinct[j], j] = values[:limit]
    return n_missing, low, high, distinct, n_distinct


def _look_at_many(block: np.ndarray, limit: int, wanted: np.ndarray) -> Look | None:
    """Return the same as `_look_at_few`, by a kernel that reads the block once.

    If a column has ``limit`` or more distinct values, none of them are returned. The result is None
    if there are integers that floats do not represent exactly.
    """
    cells = as_cells(block)
    n_features = len(wanted)
    n_values = np.where(wanted, 0, limit)
    low, high = np.full((2, n_features), [[np.inf], [-np.inf]], cells.dtype)
    n_missing = np.zeros(n_features, f"i{cells.dtype.itemsize}")
    values = np.full((limit, n_features), np.nan, cells.dtype)
    data = cells.array, cells.by_feature, cells.n_samples
    add_columns(*data, *make_room(cells), low, high, n_missing, values, n_values)
    # an integer beyond the range may be rounded to its end
    if block.dtype.kind in "iu" and not -EXACT < low.min() <= high.max() < EXACT:
        return None
    empty = n_missing == cells.n_samples
    low[empty] = high[empty] = np.nan
    n_values[~wanted] = 0
    values[:, n_values == limit] = np.nan
    most = int(n_values[n_values < limit].max(initial=0))
    distinct = values.astype(np.float64)
    distinct[:most] = np.sort(distinct[:most], axis=0) + 0.0  # -0.0 to 0.0
    return n_missing.astype(np.int64), low.astype(float), high.astype(float), distinct, n_values


def _count_integers(column: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the distinct values and their counts; None unless they are integers in a small range.

    The range is small if it is not larger than the number of rows.
    """
    if column.dtype.kind not in "iu" or not len(column):
        return None
    low, high = int(column.min()), int(column.max())
    if high - low >= len(column) or high > EXACT:
        return None
    counts = np.bincount(column.astype(np.int64) - low)
    found = np.flatnonzero(counts)
    return found + low, counts[found]
