"""Counts of pairs and triples of features with the class, and their information about the class.

The codes of a feature are merged into groups. A set contains the samples whose codes are in one
group, as the bits of words. A head consists of one or two columns (features that are read for every
tile), which are combined with every feature of a tile.

The samples of a slice are sorted by class and weight into segments, and each segment starts at a
new word. The sets of two features can then be intersected without a mask for the class. The counts
of the first code of a feature follow from counts of fewer features, so a pair of features with b
codes needs ``(b - 1) ** 2`` intersections.
"""

from __future__ import annotations

import math

import numpy as np
from numba.types import float64, int64, uint8, uint16, uint64, void

from hofs_dask.kernels._jit import const, jit
from hofs_dask.kernels.planes import popcount

#: Number of words of a set that are compared at a time, and number of sets in a block. A block of
#: this size stays in the L1 cache.
STRIP, BLOCK = 64, 32
#: Maximum number of iterations of a fit. The fit ends earlier if the absolute differences between a
#: margin of the fit and of the table sum to less than `CLOSE` times the number of samples.
MOST_CYCLES, CLOSE = 2000, 1e-9
#: Number of values that `fit_tables` computes for a table.
N_TERMS = 5
#: The grid of `deviance_moments`: the natural logarithm of its first mean, the step, and the number
#: of means. Beyond the last mean, which is about 64, series are used.
FIRST_LOG, LOG_STEP, N_MEANS = -13.8, 0.035, 513
#: Values of `deviance_moments` for the first counts, and the last count before its series.
FEW_COUNTS, MOST_COUNTS = (0.0, 3.625, -1.11, 1.311, 1.6), 99


@jit(void(const(uint8[:, ::1]), const(int64[::1]), const(int64[::1]), const(uint8[:, ::1]),
          uint64[:, :, ::1]))  # fmt: skip
def fill_sets(
    codes: np.ndarray,
    samples: np.ndarray,
    places: np.ndarray,
    groups: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set, for each group of codes except the first, the bits of the samples with these codes.

    Parameters
    ----------
    codes
        uint8 (feature, sample).
    samples, places
        Positions of samples in ``codes``, and their bits in the sets.
    groups
        uint8 (feature, code): the group of each code.
    out
        uint64 (feature, group - 1, word), zero before the call.

    Examples
    --------
    >>> out = np.zeros((1, 2, 1), np.uint64)
    >>> codes, groups = np.array([[0, 2, 1, 2]], np.uint8), np.array([[0, 1, 2]], np.uint8)
    >>> fill_sets(codes, np.arange(4), np.arange(4), groups, out)
    >>> out.ravel()
    array([ 4, 10], dtype=uint64)
    """
    n_sets, n_kept = out.shape[1], samples.shape[0]
    n_words = places[n_kept - 1] // 64 + 1 if n_kept else 0
    # groups of the samples in the order of their bits; group 0 is not kept
    ordered = np.zeros(64 * n_words, np.uint8)
    for i in range(codes.shape[0]):
        row, group, target = codes[i], groups[i], out[i]
        for s in range(n_kept):
            ordered[places[s]] = group[row[samples[s]]]
        for k in range(n_sets):
            value, words = np.uint8(k + 1), target[k]
            for w in range(n_words):
                some = ordered[64 * w : 64 * w + 64]
                word = np.uint64(0)
                for bit in range(64):
                    word |= np.uint64(some[bit] == value) << np.uint64(bit)
                words[w] = word


@jit()
def _add_block(
    masks: np.ndarray,
    sets: np.ndarray,
    start: int,
    length: int,
    weight: int,
    first: int,
    out: np.ndarray,
) -> None:
    """Add weight times the number of samples in both a mask and a set to ``out[mask, set]``.

    Only the sets from ``first`` on are used.
    """
    n_sets = sets.shape[0]
    for m in range(masks.shape[0]):
        mask, row = masks[m][:length], out[m]
        k = first
        while k + 4 <= n_sets:  # four sets per load of a mask word
            one, two = sets[k][start : start + length], sets[k + 1][start : start + length]
            three, four = sets[k + 2][start : start + length], sets[k + 3][start : start + length]
            n_one = n_two = n_three = n_four = np.uint64(0)
            for w in range(length):
                n_one += popcount(mask[w] & one[w])
                n_two += popcount(mask[w] & two[w])
                n_three += popcount(mask[w] & three[w])
                n_four += popcount(mask[w] & four[w])
            row[k] += weight * np.int64(n_one)
            row[k + 1] += weight * np.int64(n_two)
            row[k + 2] += weight * np.int64(n_three)
            row[k + 3] += weight * np.int64(n_four)
            k += 4
        while k < n_sets:
            one = sets[k][start : start + length]
            n_one = np.uint64(0)
            for w in range(length):
                n_one += popcount(mask[w] & one[w])
            row[k] += weight * np.int64(n_one)
            k += 1


@jit(void(const(uint64[:, :, ::1]), const(uint64[:, ::1]), const(int64[:, ::1]),
          const(int64[::1]), const(int64[::1]), const(int64[::1]), const(int64[::1]),
          int64[:, :, ::1]))  # fmt: skip
def add_products(
    columns: np.ndarray,
    sets: np.ndarray,
    heads: np.ndarray,
    first: np.ndarray,
    starts: np.ndarray,
    classes: np.ndarray,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add, for each class, the weight of the samples in both a set of a head and one of a feature.

    If a head has two columns, its sets are the intersections of the sets of these columns.

    Parameters
    ----------
    columns
        uint64 (column, group - 1, word), from `fill_sets`.
    sets
        uint64 (feature * (group - 1), word), the sets of the features.
    heads
        Integers (head, 1 or 2): the columns that are combined with every feature.
    first
        Integers (head,): the first feature that each head is combined with.
    starts
        Integers (segment + 1,): the first word of each segment of samples.
    classes, weights
        Integers (segment,): the class and the weight of the samples of each segment.
    out
        int64 (class, head * (group - 1) ** n, feature * (group - 1)) for n columns per head.

    Examples
    --------
    >>> columns = np.array([[[0b1101]]], np.uint64)
    >>> out, head = np.zeros((1, 1, 2), np.int64), np.zeros((1, 1), np.int64)
    >>> sets = np.array([[0b0111], [0b0010]], np.uint64)
    >>> zero, three = np.zeros(1, np.int64), np.array([3])
    >>> add_products(columns, sets, head, zero, np.array([0, 1]), zero, three, out)
    >>> out.ravel()
    array([6, 0])
    """
    n_groups = columns.shape[1]
    single = heads.shape[1] == 1
    n_masks = n_groups if single else n_groups * n_groups
    masks = np.zeros((n_masks, STRIP), np.uint64)
    for segment in range(starts.shape[0] - 1):
        c, weight = classes[segment], weights[segment]
        for start in range(starts[segment], starts[segment + 1], STRIP):
            length = min(STRIP, starts[segment + 1] - start)
            for block in range(0, sets.shape[0], BLOCK):
                some = sets[block : block + BLOCK]
                for h in range(heads.shape[0]):
                    begin = max(first[h] * n_groups - block, 0)
                    if begin >= some.shape[0]:
                        continue
                    for a in range(n_groups):
                        one = columns[heads[h, 0], a][start : start + length]
                        if single:
                            target = masks[a]
                            for w in range(length):
                                target[w] = one[w]
                        else:
                            for b in range(n_groups):
                                two = columns[heads[h, 1], b][start : start + length]
                                target = masks[a * n_groups + b]
                                for w in range(length):
                                    target[w] = one[w] & two[w]
                    target_rows = out[c, h * n_masks : (h + 1) * n_masks, block : block + BLOCK]
                    _add_block(masks, some, start, length, weight, begin, target_rows)


@jit(void(const(uint8[:, ::1]), const(int64[::1]), const(uint8[:, ::1]), uint8[:, ::1]))
def order_groups(
    codes: np.ndarray, samples: np.ndarray, groups: np.ndarray, out: np.ndarray
) -> None:
    """Set ``out[i]`` to the groups of the codes of feature i, for samples in the given order.

    Parameters
    ----------
    codes
        uint8 (feature, sample).
    samples
        Positions of samples in ``codes``.
    groups
        uint8 (feature, code): the group of each code.
    out
        uint8 (feature, position in ``samples``).

    Examples
    --------
    >>> out = np.zeros((1, 2), np.uint8)
    >>> order_groups(np.array([[0, 1, 2]], np.uint8), np.array([2, 0]),
    ...              np.array([[5, 6, 7]], np.uint8), out)
    >>> out
    array([[7, 5]], dtype=uint8)
    """
    for i in range(codes.shape[0]):
        row, group, target = codes[i], groups[i], out[i]
        for s in range(samples.shape[0]):
            target[s] = group[row[samples[s]]]


@jit(void(const(uint8[:, ::1]), const(uint8[:, ::1]), const(int64[:, ::1]), const(int64[::1]),
          const(int64[::1]), const(uint16[::1]), int64, int64[:, :, ::1]))  # fmt: skip
def add_histograms(
    columns: np.ndarray,
    features: np.ndarray,
    heads: np.ndarray,
    first: np.ndarray,
    starts: np.ndarray,
    weights: np.ndarray,
    n_groups: int,
    out: np.ndarray,
) -> None:
    """Add what `add_products` adds for heads of one column, by counting samples one by one.

    The time does not depend on the number of groups, unlike that of `add_products`.

    Parameters
    ----------
    columns, features
        uint8 (column or feature, sample): the groups, for samples sorted by class.
    heads, first
        As for `add_products`; a head has one column.
    starts
        Integers (class + 1,): the first sample of each class, and the number of samples.
    weights
        uint16 (sample,), or empty if all samples have weight 1.
    n_groups
        Number of groups of every feature.
    out
        int64 (class, head * (group - 1), feature * (group - 1)).

    Examples
    --------
    >>> groups, out = np.array([[0, 1, 1]], np.uint8), np.zeros((1, 1, 1), np.int64)
    >>> zero, ends, ones = np.zeros((1, 1), np.int64), np.array([0, 3]), np.zeros(0, np.uint16)
    >>> add_histograms(groups, groups, zero, zero[0], ends, ones, 2, out)
    >>> out.item()
    2
    """
    g, n_samples = n_groups - 1, features.shape[1]
    base = np.zeros(n_samples, np.uint16)
    # two tables, so that an addition seldom waits for the one before
    even, odd = np.zeros(n_groups * n_groups, np.int64), np.zeros(n_groups * n_groups, np.int64)
    for h in range(heads.shape[0]):
        column = columns[heads[h, 0]]
        for s in range(n_samples):
            base[s] = np.uint16(column[s]) * np.uint16(n_groups)
        for i in range(first[h], features.shape[0]):
            row = features[i]
            for c in range(starts.shape[0] - 1):
                start, stop = starts[c], starts[c + 1]
                for cell in range(n_groups * n_groups):
                    even[cell] = 0
                    odd[cell] = 0
                if weights.shape[0]:
                    for s in range(start, stop):
                        even[np.uint64(base[s]) + np.uint64(row[s])] += np.int64(weights[s])
                else:
                    for s in range(start, stop - 1, 2):
                        even[np.uint64(base[s]) + np.uint64(row[s])] += 1
                        odd[np.uint64(base[s + 1]) + np.uint64(row[s + 1])] += 1
                    if (stop - start) % 2:
                        even[np.uint64(base[stop - 1]) + np.uint64(row[stop - 1])] += 1
                for u in range(g):
                    target = out[c, h * g + u, i * g : i * g + g]
                    place = (u + 1) * n_groups + 1
                    for v in range(g):
                        target[v] += even[place + v] + odd[place + v]


@jit(void(const(uint8[:, ::1]), const(uint8[:, ::1]), const(int64[:, ::1]),
          const(uint8[:, ::1]), const(uint8[:, ::1]), const(uint8[::1]), const(uint16[::1]),
          int64, int64, int64[:, ::1]))  # fmt: skip
def add_tables(
    columns: np.ndarray,
    features: np.ndarray,
    chosen: np.ndarray,
    column_groups: np.ndarray,
    groups: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    n_groups: int,
    n_classes: int,
    out: np.ndarray,
) -> None:
    """Add the samples of each cell to ``out[t]`` for the tuple ``chosen[t]``.

    Parameters
    ----------
    columns, features
        uint8 (column or feature, sample), the codes.
    chosen
        Integers (tuple, order): the indices of one or two columns, and of a feature.
    column_groups, groups
        uint8 (column or feature, code): the group of each code.
    labels
        uint8 (sample,), the classes.
    weights
        uint16 (sample,), or empty if all samples have weight 1.
    n_groups, n_classes
        Number of groups of every feature, and of classes.
    out
        int64 (tuple, cell). The class varies fastest, then the group of the feature.

    Examples
    --------
    >>> codes, both, out = np.array([[0, 1, 1]], np.uint8), np.array([[0, 1]], np.uint8), np.zeros
    >>> table = out((1, 8), np.int64)
    >>> labels, ones = np.array([0, 1, 0], np.uint8), np.zeros(0, np.uint16)
    >>> pair = np.zeros((1, 2), np.int64)
    >>> add_tables(codes, codes, pair, both, both, labels, ones, 2, 2, table)
    >>> table.ravel()
    array([1, 0, 0, 0, 0, 0, 1, 1])
    """
    order, n_samples, weighted = chosen.shape[1], labels.shape[0], weights.shape[0] > 0
    for t in range(chosen.shape[0]):
        last, one, table = chosen[t, order - 1], chosen[t, 0], out[t]
        first, first_group = columns[one], column_groups[one]
        codes, group = features[last], groups[last]
        for s in range(n_samples):
            cell = np.int64(first_group[first[s]])
            for k in range(1, order - 1):
                cell = cell * n_groups + column_groups[chosen[t, k], columns[chosen[t, k], s]]
            cell = (cell * n_groups + group[codes[s]]) * n_classes + labels[s]
            table[cell] += np.int64(weights[s]) if weighted else np.int64(1)


@jit()
def _complete(table: np.ndarray, n_codes: int, n_axes: int, n_classes: int) -> None:
    """Convert a table in which the entry of code 0 is the total over all codes to counts."""
    stride, n_outer = n_classes, n_codes ** (n_axes - 1)
    for _ in range(n_axes):
        for outer in range(n_outer):
            start = outer * stride * n_codes
            for k in range(1, n_codes):
                for cell in range(start, start + stride):
                    table[cell] -= table[cell + k * stride]
        stride *= n_codes
        n_outer //= n_codes


@jit()
def _fill(
    h: int,
    i: int,
    heads: np.ndarray,
    joint: np.ndarray,
    with_columns: np.ndarray,
    among_columns: np.ndarray,
    of_columns: np.ndarray,
    of_features: np.ndarray,
    table: np.ndarray,
) -> None:
    """Set the flat ``table`` to counts with axes (code of each column, code of feature, class)."""
    n_classes, b = of_features.shape[1], of_features.shape[2]
    g = b - 1
    for c in range(n_classes):
        total = 0
        for v in range(b):
            total += of_features[i, c, v]
        one = heads[h, 0]
        if heads.shape[1] == 1:
            table[c] = total
            for v in range(1, b):
                table[v * n_classes + c] = of_features[i, c, v]
                table[v * b * n_classes + c] = of_columns[one, c, v]
                for u in range(1, b):
                    table[(u * b + v) * n_classes + c] = joint[c, h * g + u - 1, i * g + v - 1]
        else:
            two = heads[h, 1]
            table[c] = total
            for v in range(1, b):
                table[v * n_classes + c] = of_features[i, c, v]
                table[v * b * n_classes + c] = of_columns[two, c, v]
                table[v * b * b * n_classes + c] = of_columns[one, c, v]
                for u in range(1, b):
                    table[(u * b + v) * n_classes + c] = with_columns[
                        c, two * g + u - 1, i * g + v - 1
                    ]
                    table[(u * b * b + v) * n_classes + c] = with_columns[
                        c, one * g + u - 1, i * g + v - 1
                    ]
                    table[(u * b + v) * b * n_classes + c] = among_columns[
                        c, one * g + u - 1, two * g + v - 1
                    ]
                    for t in range(1, b):
                        table[((t * b + u) * b + v) * n_classes + c] = joint[
                            c, (h * g + t - 1) * g + u - 1, i * g + v - 1
                        ]
    _complete(table, b, heads.shape[1] + 1, n_classes)


@jit()
def _margins(table: np.ndarray, subsets: np.ndarray, margins: np.ndarray) -> None:
    """Set ``margins[subset]`` to the counts of every proper subset of the variables."""
    for k in range(subsets.shape[0]):
        margin, where = margins[k], subsets[k]
        for cell in range(margin.shape[0]):
            margin[cell] = 0
        for cell in range(table.shape[0]):
            margin[where[cell]] += table[cell]


@jit()
def _log_sum(counts: np.ndarray, logs: np.ndarray) -> float:
    """Return the sum of n log n; ``logs[n]`` has this value for small n."""
    total, n_logs = 0.0, logs.shape[0]
    for cell in range(counts.shape[0]):
        n = counts[cell]
        total += logs[n] if n < n_logs else n * math.log(n)
    return total


@jit()
def _kirkwood(
    table: np.ndarray,
    subsets: np.ndarray,
    signs: np.ndarray,
    margins: np.ndarray,
    factors: np.ndarray,
    logs: np.ndarray,
    out: np.ndarray,
) -> float:
    """Set ``out`` to the normalized Kirkwood approximation; return the divergence from it."""
    n_samples = 0
    for cell in range(table.shape[0]):
        n_samples += table[cell]
        out[cell] = 1.0
    divergence = _log_sum(table, logs) / n_samples - math.log(n_samples)
    for k in range(subsets.shape[0]):
        margin, factor, where = margins[k], factors[k], subsets[k]
        own = _log_sum(margin, logs) / n_samples - math.log(n_samples)
        divergence -= signs[k] * own
        for cell in range(margin.shape[0]):
            n = margin[cell]
            if n == 0:
                factor[cell] = 0.0
            elif signs[k] > 0:
                factor[cell] = n / n_samples
            else:
                factor[cell] = n_samples / n
        for cell in range(table.shape[0]):
            out[cell] *= factor[where[cell]]
    total = 0.0
    for cell in range(table.shape[0]):
        total += out[cell]
    for cell in range(table.shape[0]):
        out[cell] /= total
    return divergence + math.log(total)


@jit()
def _own_sums(counts: np.ndarray, logs: np.ndarray, out: np.ndarray) -> None:
    """Set ``out[i]`` to two sums of n log n: over the codes, and over the codes and classes."""
    codes = np.zeros(counts.shape[2], np.int64)
    for i in range(counts.shape[0]):
        for v in range(counts.shape[2]):
            codes[v] = 0
        for c in range(counts.shape[1]):
            for v in range(counts.shape[2]):
                codes[v] += counts[i, c, v]
        out[i, 0] = _log_sum(codes, logs)
        out[i, 1] = _log_sum(counts[i].ravel(), logs)


@jit()
def _label_sum(counts: np.ndarray, logs: np.ndarray) -> tuple[float, int]:
    """Return the sum of n log n over the classes, and the number of samples."""
    classes = np.zeros(counts.shape[1], np.int64)
    n_samples = 0
    if counts.shape[0]:
        for c in range(counts.shape[1]):
            for v in range(counts.shape[2]):
                classes[c] += counts[0, c, v]
            n_samples += classes[c]
    return _log_sum(classes, logs), n_samples


@jit()
def _pair_sums(
    joint: np.ndarray,
    h: int,
    i: int,
    of_one: np.ndarray,
    of_two: np.ndarray,
    logs: np.ndarray,
    pair: np.ndarray,
    left: np.ndarray,
) -> tuple[float, float]:
    """Return the sums of n log n over the codes of two features, and over codes and classes.

    ``of_one`` and ``of_two`` are counts (class, group), and ``joint`` is from `add_products`. The
    arrays ``pair`` and ``left`` are overwritten.
    """
    (n_classes, b), g, n_logs = of_two.shape, of_two.shape[1] - 1, logs.shape[0]
    for u in range(b):
        for v in range(b):
            pair[u, v] = 0
    full = 0.0
    for c in range(n_classes):
        for v in range(b):
            left[v] = of_two[c, v]
        for u in range(1, b):
            rest = of_one[c, u]
            for v in range(1, b):
                n = joint[c, h * g + u - 1, i * g + v - 1]
                rest -= n
                left[v] -= n
                pair[u, v] += n
                full += logs[n] if n < n_logs else n * math.log(n)
            left[0] -= rest
            pair[u, 0] += rest
            full += logs[rest] if rest < n_logs else rest * math.log(rest)
        for v in range(b):
            n = left[v]
            pair[0, v] += n
            full += logs[n] if n < n_logs else n * math.log(n)
    both = 0.0
    for u in range(b):
        for v in range(b):
            n = pair[u, v]
            both += logs[n] if n < n_logs else n * math.log(n)
    return both, full


@jit(void(const(int64[:, ::1]), const(int64[::1]), const(int64[:, :, ::1]),
          const(int64[:, :, ::1]), const(int64[:, :, ::1]), const(float64[::1]),
          float64[:, ::1]))  # fmt: skip
def pair_bounds(
    heads: np.ndarray,
    first: np.ndarray,
    joint: np.ndarray,
    of_columns: np.ndarray,
    of_features: np.ndarray,
    logs: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set ``out[h, i]`` to an upper bound of the synergy of a column and a feature, in nats.

    The bound is the smallest of I(x_1 : x_2 | y), I(x_1 : y | x_2) and I(x_2 : y | x_1). Synergy is
    the divergence of the counts from the log-linear model of x_1, x_2 and y without the term of all
    three. Each of these informations is the divergence from a model that also lacks the term of one
    pair, so it is at least as large.

    Parameters
    ----------
    heads, first
        As for `add_products`.
    joint
        Counts from `add_products`.
    of_columns, of_features
        Counts (column, class, group) and (feature, class, group).
    logs
        Values of n log n, from 0 on.
    out
        float64 (head, feature); unchanged for features before ``first[h]``.

    Examples
    --------
    >>> counts, out = np.array([[[5, 5], [5, 5]]]), np.zeros((1, 1))  # y is x_1 xor x_2
    >>> joint = np.array([[[5]], [[0]]])
    >>> pair_bounds(np.array([[0]]), np.array([0]), joint, counts, counts, np.zeros(1), out)
    >>> out.round(4)
    array([[0.6931]])
    """
    n_features, b = of_features.shape[0], of_features.shape[2]
    own, other = np.zeros((n_features, 2)), np.zeros((of_columns.shape[0], 2))
    _own_sums(of_features, logs, own)
    _own_sums(of_columns, logs, other)
    pair, left = np.zeros((b, b), np.int64), np.zeros(b, np.int64)
    label, n_samples = _label_sum(of_features, logs)
    for h in range(heads.shape[0]):
        one = heads[h, 0]
        for i in range(first[h], n_features):
            both, full = _pair_sums(joint, h, i, of_columns[one], of_features[i], logs, pair, left)
            within = label - other[one, 1] - own[i, 1]
            beyond_one = other[one, 0] - both - other[one, 1]
            beyond_two = own[i, 0] - both - own[i, 1]
            out[h, i] = (full + min(within, beyond_one, beyond_two)) / n_samples


@jit(void(const(int64[:, ::1]), const(int64[::1]), const(int64[:, :, ::1]),
          const(int64[:, :, ::1]), const(int64[:, :, ::1]), const(int64[:, :, ::1]),
          const(int64[:, :, ::1]), const(float64[::1]), float64[:, ::1]))  # fmt: skip
def triple_bounds(
    heads: np.ndarray,
    first: np.ndarray,
    joint: np.ndarray,
    with_columns: np.ndarray,
    among_columns: np.ndarray,
    of_columns: np.ndarray,
    of_features: np.ndarray,
    logs: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set ``out[h, i]`` to an upper bound of the synergy of two columns and a feature, in nats.

    The bound is the smallest conditional mutual information of two variables given all others; the
    class is one of the variables. Synergy is the divergence of the counts from the log-linear
    model without the term of the highest order. Each conditional mutual information is the
    divergence from a model with fewer terms, so it is at least as large.

    Parameters
    ----------
    heads, first
        As for `add_products`.
    joint, with_columns, among_columns
        Counts from `add_products`: of heads with features, of single columns with features, and of
        columns with columns.
    of_columns, of_features
        Counts (column, class, group) and (feature, class, group).
    logs
        Values of n log n, from 0 on.
    out
        float64 (head, feature); unchanged for features before ``first[h]``.
    """
    n_columns, n_features = of_columns.shape[0], of_features.shape[0]
    n_classes, b = of_features.shape[1], of_features.shape[2]
    own, other = np.zeros((n_features, 2)), np.zeros((n_columns, 2))
    _own_sums(of_features, logs, own)
    _own_sums(of_columns, logs, other)
    pair, left = np.zeros((b, b), np.int64), np.zeros(b, np.int64)
    _, n_samples = _label_sum(of_features, logs)
    # sums over the codes of a column and a feature, and over these codes and the classes
    sums = np.zeros((n_columns, n_features, 2))
    for column in range(n_columns):
        for i in range(n_features):
            sums[column, i] = _pair_sums(
                with_columns, column, i, of_columns[column], of_features[i], logs, pair, left
            )
    table = np.zeros(b * b * b * n_classes, np.int64)
    n_logs = logs.shape[0]
    for h in range(heads.shape[0]):
        one, two = heads[h, 0], heads[h, 1]
        head, head_class = _pair_sums(
            among_columns, one, two, of_columns[one], of_columns[two], logs, pair, left
        )
        for i in range(first[h], n_features):
            _fill(h, i, heads, joint, with_columns, among_columns, of_columns, of_features, table)
            full, three = 0.0, 0.0
            for cell in range(0, table.shape[0], n_classes):
                total = 0
                for c in range(n_classes):
                    n = table[cell + c]
                    total += n
                    full += logs[n] if n < n_logs else n * math.log(n)
                three += logs[total] if total < n_logs else total * math.log(total)
            one_class, two_class = sums[one, i, 1], sums[two, i, 1]
            least = min(
                sums[two, i, 0] - two_class - three,  # first column and class
                sums[one, i, 0] - one_class - three,  # second column and class
                head - head_class - three,  # feature and class
                own[i, 1] - one_class - two_class,  # both columns
                other[two, 1] - two_class - head_class,  # first column and feature
                other[one, 1] - one_class - head_class,  # second column and feature
            )
            out[h, i] = (full + least) / n_samples


@jit(void(const(int64[:, ::1]), const(int64[:, ::1]), const(int64[:, :, ::1]),
          const(int64[:, :, ::1]), const(int64[:, :, ::1]), const(int64[:, :, ::1]),
          const(int64[:, :, ::1]), int64[:, ::1]))  # fmt: skip
def fill_tables(
    chosen: np.ndarray,
    heads: np.ndarray,
    joint: np.ndarray,
    with_columns: np.ndarray,
    among_columns: np.ndarray,
    of_columns: np.ndarray,
    of_features: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set ``out[t]`` to the counts of the tuple ``chosen[t]``, a head and a feature.

    Parameters
    ----------
    chosen
        Integers (tuple, 2): the indices of the head and of the feature.
    heads, joint, with_columns, among_columns, of_columns, of_features
        As for `triple_bounds`.
    out
        int64 (tuple, cell). The class varies fastest, then the code of the feature.
    """
    for t in range(chosen.shape[0]):
        h, i = chosen[t]
        _fill(h, i, heads, joint, with_columns, among_columns, of_columns, of_features, out[t])


@jit()
def _of_count(count: float, moments: np.ndarray) -> float:
    """Return a value whose expectation over counts is their expected deviance."""
    whole = int(count)
    if whole + 1 >= moments.shape[1]:
        return 1.0 + 1.0 / (6.0 * count)
    share = count - whole
    value: float = (1.0 - share) * moments[2, whole] + share * moments[2, whole + 1]
    return value


@jit()
def _of_cell(mean: float, variance: float, moments: np.ndarray) -> float:
    """Return an estimate of the expected deviance of a cell.

    ``mean`` is an estimate whose relative variance is ``variance``.
    """
    place = (math.log(mean) - FIRST_LOG) / LOG_STEP
    if place < 0.0:
        return 0.0
    cell = int(place)
    if cell + 1 >= moments.shape[1]:
        inverse = 1.0 / mean
        value = 1.0 + inverse / 6.0 * (1.0 + inverse)
        curve = inverse / 6.0 * (1.0 + 3.0 * inverse)
    else:
        share = place - cell
        value = (1.0 - share) * moments[0, cell] + share * moments[0, cell + 1]
        curve = (1.0 - share) * moments[1, cell] + share * moments[1, cell + 1]
    variance = min(max(variance, 1e-9), 1.0)
    return max(value - curve * variance * _of_count(1.0 / variance, moments), 0.0)


@jit(void(const(int64[:, ::1]), const(int64[:, ::1]), const(float64[::1]), const(int64[::1]),
          int64, const(float64[::1]), const(float64[:, ::1]), float64, float64,
          float64[:, ::1]))  # fmt: skip
def fit_tables(
    tables: np.ndarray,
    subsets: np.ndarray,
    signs: np.ndarray,
    sizes: np.ndarray,
    n_margin: int,
    logs: np.ndarray,
    moments: np.ndarray,
    evidence: float,
    least: float,
    out: np.ndarray,
) -> None:
    """Set ``out[t]`` to the synergy and four other statistics of table t.

    Parameters
    ----------
    tables
        int64 (tuple, cell).
    subsets, signs, sizes
        From `subsets_of`.
    n_margin
        Largest number of cells of a margin.
    logs
        Values of n log n, from 0 on.
    moments
        From `deviance_moments`.
    evidence
        Number of effective samples per unit of weight.
    least
        A table is not fitted if its Kirkwood approximation shows that its synergy is below this.
    out
        float64 (tuple, 5): the synergy, -1 if the table is not fitted; the information of the tuple
        about the class; the largest information of a proper subset of its features about the class;
        the degrees of freedom; and the correction of the test. Synergy and information are in nats.

    Notes
    -----
    Iterative proportional fitting starts at the normalized Kirkwood approximation. Every step
    reduces the divergence of the table from the fit, so the synergy never exceeds its bound.

    The correction is the expected deviance if there is no synergy, divided by the degrees of
    freedom, or 1 if this is less. Let d be the expected deviance of a Poisson count. If the model
    without the term of the highest order is replaced by one with a closed form (the Kirkwood
    approximation), the expected deviance is the sum of d(mean) over the cells of the table and of
    its margins, with alternating signs. If all means are large, d is 1, and the sum is the number
    of degrees of freedom.

    The means are estimated. For a margin, the counts themselves are used, with values whose
    expectation is d, see `deviance_moments`. For a cell, d is taken at the fit, whose relative
    variance is the sum of the inverse counts of its margins, with alternating signs; the second
    derivative of d then gives the bias.

    Examples
    --------
    >>> xor = np.array([[25, 0, 0, 25, 0, 25, 25, 0]])
    >>> out = np.zeros((1, 5))
    >>> none, moments = np.zeros(1), deviance_moments()
    >>> fit_tables(xor, *subsets_of((2, 2, 2)), 4, none, moments, 1.0, 0.0, out)
    >>> out.round(4)
    array([[0.6931, 0.6931, 0.    , 1.    , 1.0482]])
    """
    n_subsets, n_cells = subsets.shape
    margins = np.zeros((n_subsets, n_margin), np.int64)
    factors, fitted = np.zeros((n_subsets, n_margin)), np.zeros(n_cells)
    sums, entropies = np.zeros(n_margin), np.zeros(n_subsets)
    full = np.int64(0)
    for k in range(n_subsets):
        full |= sizes[k]
    n_axes = 0
    while full >> n_axes:
        n_axes += 1
    for t in range(tables.shape[0]):
        table = tables[t]
        _margins(table, subsets, margins)
        if _kirkwood(table, subsets, signs, margins, factors, logs, fitted) < least:
            out[t, 0] = -1.0
            continue
        n_samples = 0
        for cell in range(n_cells):
            n_samples += table[cell]
        for _ in range(MOST_CYCLES):
            apart, is_first = 0.0, True
            for k in range(n_subsets):
                left = full ^ sizes[k]
                if left & (left - 1):  # only the largest margins, which lack one variable
                    continue
                where, margin = subsets[k], margins[k]
                for cell in range(n_margin):
                    sums[cell] = 0.0
                for cell in range(n_cells):
                    sums[where[cell]] += fitted[cell]
                for cell in range(n_margin):
                    share = margin[cell] / n_samples
                    if is_first:
                        apart += abs(sums[cell] - share)
                    sums[cell] = share / sums[cell] if sums[cell] > 0.0 else 0.0
                for cell in range(n_cells):
                    fitted[cell] *= sums[where[cell]]
                is_first = False
            if apart < CLOSE:
                break
        divergence, possible = 0.0, 0
        for cell in range(n_cells):
            if table[cell] > 0:
                share = table[cell] / n_samples
                divergence += share * math.log(share / fitted[cell])
            if fitted[cell] > 0.0:
                possible += 1
        out[t, 0] = max(divergence, 0.0)
        top = math.log(n_samples)
        label, features = 0.0, 0.0
        for k in range(n_subsets):
            entropies[k] = top - _log_sum(margins[k], logs) / n_samples
            if sizes[k] == 1:
                label = entropies[k]
            if sizes[k] == full - 1:
                features = entropies[k]
        out[t, 1] = max(label + features - top + _log_sum(table, logs) / n_samples, 0.0)
        best = 0.0
        for k in range(n_subsets):  # a subset of features, and the same with the class
            if sizes[k] & 1 == 0 and sizes[k] != full - 1:
                for j in range(n_subsets):
                    if sizes[j] == sizes[k] + 1:
                        best = max(best, label + entropies[k] - entropies[j])
        out[t, 2] = min(best, out[t, 1])
        df = possible
        df -= 1 if n_axes % 2 else -1  # the empty margin
        expected = 0.0
        for k in range(n_subsets):
            occupied, own = 0, 0.0
            for cell in range(n_margin):
                if margins[k, cell] > 0:
                    occupied += 1
                    own += _of_count(evidence * margins[k, cell], moments)
            df -= occupied if signs[k] > 0 else -occupied
            expected -= signs[k] * own
        expected += -1.0 if n_axes % 2 else 1.0
        for cell in range(n_cells):
            if fitted[cell] <= 0.0:
                continue
            variance = 0.0
            for k in range(n_subsets):
                variance += signs[k] / (evidence * max(margins[k, subsets[k, cell]], 1))
            expected += _of_cell(evidence * n_samples * fitted[cell], variance, moments)
        out[t, 3] = max(df, 0)
        out[t, 4] = max(expected / df, 1.0) if df > 0 else 1.0


def subsets_of(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three arrays that describe the margins of a table.

    The first array contains, for each margin and each cell of the table, the index of the cell of
    the margin. The second contains the sign of the exponent of each margin in the Kirkwood
    approximation. The third contains the variables of each margin, as bits.

    Parameters
    ----------
    shape
        Number of values of each variable; the class is last and varies fastest.

    Returns
    -------
    tuple of ndarray
        int64 (margin, cell), float64 (margin,) and int64 (margin,). The class is bit 0.

    Examples
    --------
    >>> subsets, signs, sizes = subsets_of((2, 2))
    >>> subsets
    array([[0, 1, 0, 1],
           [0, 0, 1, 1]])
    >>> signs, sizes
    (array([1., 1.]), array([1, 2]))
    """
    n_axes = len(shape)
    cells = np.indices(shape).reshape(n_axes, -1)[::-1]  # the class first
    lengths = shape[::-1]
    subsets, signs, sizes = [], [], []
    for size in range(1, 2**n_axes - 1):
        number = np.zeros(cells.shape[1], np.int64)
        stride = 1
        for axis in range(n_axes):
            if size >> axis & 1:
                number += stride * cells[axis]
                stride *= lengths[axis]
        subsets.append(number)
        signs.append(-1.0 if (n_axes - 1 - size.bit_count()) % 2 else 1.0)
        sizes.append(size)
    return np.array(subsets), np.array(signs), np.array(sizes, np.int64)


def deviance_moments() -> np.ndarray:
    """Return expectations of the deviance of a Poisson count, for `fit_tables`.

    The deviance of a count n with mean m is ``2 (n log(n / m) - n + m)``.

    Returns
    -------
    ndarray
        float64 (3, value). Row 0 contains the expected deviance d(m), and row 1 contains
        ``m^2 d''(m) / 2``, for the means m of a grid. Row 2 contains values t(n) for the counts n
        from 0 on, such that the expectation of t(n) is about d(m) for every mean from 0.1 on. From
        5 on, t(n) is ``d(n) - n d''(n) / 2``, and from 100 on, ``1 + 1 / 6n``. The values before 5
        were fitted by least squares.

    Examples
    --------
    >>> moments = deviance_moments()
    >>> moments[:, [0, 200, 400]].round(3).tolist()
    [[0.0, 0.015, 1.159], [-0.0, -0.001, -0.175], [0.0, 1.001, 1.0]]
    """
    logs = FIRST_LOG + LOG_STEP * np.arange(N_MEANS)
    found = np.zeros((3, N_MEANS))
    found[0], found[1] = _poisson_deviance(np.exp(logs))
    counts = np.arange(1, N_MEANS, dtype=np.float64)
    found[2, 1:] = 1 + 1 / (6 * counts)
    first, last = len(FEW_COUNTS), MOST_COUNTS
    value, curve = _poisson_deviance(counts[first - 1 : last])
    found[2, first : last + 1] = value - curve / counts[first - 1 : last]
    found[2, :first] = FEW_COUNTS
    return found


def _poisson_deviance(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected deviance d of Poisson counts, and half of ``m^2 d''``.

    The derivative of the expectation of f(n) is the expectation of ``f(n + 1) - f(n)``.
    """
    from scipy.special import gammaln, xlogy

    counts = np.arange(int(means.max() + 12 * math.sqrt(means.max()) + 20), dtype=np.float64)
    shares = np.exp(np.outer(np.log(means), counts) - means[:, None] - gammaln(counts + 1))
    own = 2 * xlogy(counts, counts)
    after, later = (2 * xlogy(counts + k, counts + k) for k in (1, 2))
    value = shares @ own - 2 * xlogy(means, means)
    curve = means**2 * (shares @ (later - 2 * after + own)) - 2 * means
    return value, curve / 2
