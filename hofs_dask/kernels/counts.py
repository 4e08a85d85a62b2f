"""Integer counts of coded variables, and information terms of pairs and triples from them."""

from __future__ import annotations

import math

import numpy as np
from numba.types import float64, int64, uint8, uint16, uint32, uint64, void

from hofs_dask.kernels._jit import const, jit
from hofs_dask.kernels.planes import popcount, unpack

#: Limits for tables that count several features together: maximum number of entries, and minimum
#: number of samples per entry.
MOST_ENTRIES, SAMPLES_PER_ENTRY = 8192, 8
#: Number of samples whose total weight always fits into 32 bits.
RUN = 2**16
#: `count_terms` computes up to `LANES` features at once, with at most `MOST_COUNTS` counts or, if a
#: feature has more, `LEAST_LANES` features.
LANES, LEAST_LANES, MOST_COUNTS = 128, 8, 8192


@jit()
def n_together(n_samples: int, n_cells: int, bits: int) -> int:
    """Return how many features with ``bits`` bits each `add_counts` counts together, as one byte.

    The table of their joint counts must fit into the L1 cache, and must be small compared with the
    number of samples.

    Examples
    --------
    >>> [n_together(10**6, cells, bits) for cells, bits in ((10, 3), (4, 1), (64, 5))]
    [2, 8, 1]
    """
    most = min(MOST_ENTRIES, n_samples // SAMPLES_PER_ENTRY)
    found = 8 // bits
    while found > 1 and n_cells << found * bits > most:
        found -= 1
    return found


@jit(
    void(
        const(uint8[:, :, ::1]),
        const(int64[::1]),
        const(uint32[::1]),
        const(uint16[::1]),
        int64,
        int64,
        int64,
        int64[:, ::1],
        int64,
    )
)
def add_counts(
    planes: np.ndarray,
    samples: np.ndarray,
    cells: np.ndarray,
    weights: np.ndarray,
    n_cells: int,
    n_codes: int,
    first: int,
    out: np.ndarray,
    start: int,
) -> None:
    """Add the weight of each sample to the count of its cell and code, for features from ``first``.

    A cell is a combination of all variables of a table except the code of the feature itself: fold,
    class, code of a chosen feature. Several features whose codes fit into one byte are counted
    together: their bits are unpacked to one number, the values of this number are counted, and
    these counts are then summed for each feature.

    Parameters
    ----------
    planes
        uint8 (feature, bit, byte), as for `unpack`.
    samples
        Integers (sample,): positions of the samples in the planes; empty for all samples in order.
    cells
        Integers (sample,): the index of the cell of each sample.
    weights
        Integers (sample,); empty if all samples have weight 1.
    n_cells, n_codes
        Number of cells, and of codes of a feature.
    first
        The first feature to count.
    out
        int64 (feature, count): counts of a cell and code at ``start + cell * n_codes + code``.
    start
        The position along the second axis of ``out`` where the table begins.

    Examples
    --------
    >>> from hofs_dask.kernels.planes import pack
    >>> out = np.zeros((1, 6), dtype=np.int64)
    >>> label, weights = np.array([0, 1], dtype=np.uint32), np.array([1, 5], dtype=np.uint16)
    >>> planes = pack(np.array([[2, 0]], dtype=np.uint8), 2).view(np.uint8)
    >>> add_counts(planes, np.zeros(0, np.int64), label, weights, 2, 3, 0, out, 0)
    >>> out.reshape(2, 3)
    array([[0, 0, 1],
           [5, 0, 0]])
    """
    n_features, bits, n_octets = planes.shape
    n_samples = cells.shape[0]
    words = np.empty((1, n_octets), np.uint64)
    codes = words.view(np.uint8)[0]
    entries = np.empty(n_samples, np.uint32)
    step = n_together(n_samples, n_cells, bits)
    table = np.zeros(n_cells << step * bits, np.uint32)
    for begin in range(first, n_features, step):
        n_own = min(step, n_features - begin)
        shift = np.uint32(n_own * bits)
        several = planes[begin : begin + n_own]
        unpack(several.reshape((1, n_own * bits, n_octets)), words)
        # the entries of the samples are computed in a separate loop, which is vectorized
        if samples.shape[0]:
            for s in range(n_samples):
                entries[s] = cells[s] << shift | np.uint32(codes[samples[s]])
        else:
            for s in range(n_samples):
                entries[s] = cells[s] << shift | np.uint32(codes[s])
        for run in range(0, n_samples, RUN):
            for entry in range(table.shape[0]):
                table[entry] = 0
            some, weight = entries[run : run + RUN], weights[run : run + RUN]
            if weights.shape[0]:
                for s in range(some.shape[0]):
                    table[some[s]] += weight[s]
            else:
                for s in range(some.shape[0]):
                    table[some[s]] += np.uint32(1)
            for j in range(n_own):
                counts = out[begin + j][start:]
                for entry in range(n_cells << n_own * bits):
                    if table[entry]:
                        cell, code = entry >> n_own * bits, entry >> j * bits & (1 << bits) - 1
                        counts[cell * n_codes + code] += np.int64(table[entry])


@jit(void(float64[::1]))
def fill_logs(out: np.ndarray) -> None:
    """Set ``out[n]`` to n log n, for n from 0 on; 0 for 0 and 1.

    Examples
    --------
    >>> out = np.empty(3)
    >>> fill_logs(out)
    >>> out.round(4)
    array([0.    , 0.    , 1.3863])
    """
    for n in range(out.shape[0]):
        out[n] = n * math.log(n) if n > 1 else 0.0


@jit()
def _log_sum(counts: np.ndarray, logs: np.ndarray, largest: int) -> float:
    """Return the sum of n log n over counts up to ``largest``, by table if it is long enough."""
    total = 0.0
    if largest < logs.shape[0]:
        for cell in range(counts.shape[0]):
            total += logs[counts[cell]]
        return total
    for cell in range(counts.shape[0]):
        count = counts[cell]
        if count > 1:
            total += count * math.log(count)
    return total


@jit(
    void(
        const(int64[:, :, :, :, ::1]),
        int64,
        const(int64[:, :, ::1]),
        const(float64[:, ::1]),
        const(float64[:, ::1]),
        const(float64[::1]),
        float64[:, :, ::1],
    )
)
def pair_terms(
    counts: np.ndarray,
    column: int,
    marginals: np.ndarray,
    parents: np.ndarray,
    numbers: np.ndarray,
    logs: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set ``out[i, column]`` to information terms and Gram sums of feature i and a parent f.

    Parameters
    ----------
    counts
        int64 (feature, column, parent code, class, code). The counts of the first parent code are
        not used: they are the marginal counts minus those of the other codes.
    column
        The column of the parent.
    marginals
        int64 (feature, class, code).
    parents, numbers
        The values of the codes: of the parents, (column, parent code), and of all features,
        (feature, code). The value of a missing code is zero.
    logs
        n log n for n from 0 on, by `fill_logs`; counts after its end are computed.
    out
        float64 (feature, column, 3 + class): I(x_i : x_f), I(x_i : y | x_f), H(x_i, x_f, y) in
        nats, and the sum of products of the values in each class.

    Examples
    --------
    >>> counts = np.array([[0, 0], [0, 5]]).reshape(1, 1, 2, 1, 2)
    >>> numbers, out = np.array([[-1.0, 1.0]]), np.zeros((1, 1, 4))
    >>> pair_terms(counts, 0, np.array([[[5, 5]]]), numbers, numbers, np.zeros(0), out)
    >>> out[0].round(4)
    array([[ 0.6931,  0.    ,  0.6931, 10.    ]])
    """
    n_features, _, n_parent, n_classes, n_codes = counts.shape
    joint = np.zeros((n_parent, n_classes, n_codes), np.int64)
    without_class = np.zeros((n_parent, n_codes), np.int64)
    without_code = np.zeros((n_parent, n_classes), np.int64)
    own, other = np.zeros(n_codes, np.int64), np.zeros(n_parent, np.int64)
    parent = parents[column]
    for i in range(n_features):
        for c in range(n_classes):
            for b in range(n_codes):
                joint[0, c, b] = marginals[i, c, b]
        for a in range(1, n_parent):
            for c in range(n_classes):
                for b in range(n_codes):
                    count = counts[i, column, a, c, b]
                    joint[a, c, b] = count
                    joint[0, c, b] -= count
        for b in range(n_codes):
            own[b] = 0
        n_samples = 0
        for a in range(n_parent):
            other[a] = 0
            for c in range(n_classes):
                without_code[a, c] = 0
            for b in range(n_codes):
                without_class[a, b] = 0
        for c in range(n_classes):
            gram = 0.0
            for a in range(n_parent):
                row, within = 0.0, 0
                for b in range(n_codes):
                    count = joint[a, c, b]
                    without_class[a, b] += count
                    own[b] += count
                    within += count
                    row += count * numbers[i, b]
                without_code[a, c] = within
                other[a] += within
                n_samples += within
                gram += row * parent[a]
            out[i, column, 3 + c] = gram
        if n_samples == 0:
            for k in range(3):
                out[i, column, k] = 0.0
            continue
        top = math.log(n_samples)
        h_joint = top - _log_sum(joint.ravel(), logs, n_samples) / n_samples
        h_pair = top - _log_sum(without_class.ravel(), logs, n_samples) / n_samples
        h_label = top - _log_sum(without_code.ravel(), logs, n_samples) / n_samples
        h_own = top - _log_sum(own, logs, n_samples) / n_samples
        h_other = top - _log_sum(other, logs, n_samples) / n_samples
        out[i, column, 0] = max(h_own + h_other - h_pair, 0.0)
        out[i, column, 1] = max(h_pair + h_label - h_other - h_joint, 0.0)
        out[i, column, 2] = h_joint


@jit()
def _entropy(counts: np.ndarray, logs: np.ndarray, n_samples: int) -> float:
    """Return the entropy of a distribution from its counts, in nats."""
    return math.log(n_samples) - _log_sum(counts, logs, n_samples) / n_samples


#: Number of terms that `triple_terms` computes.
N_TRIPLE_TERMS = 9


@jit(
    void(
        const(int64[:, :, :, :, :, ::1]),
        int64,
        const(float64[::1]),
        float64[:, :, ::1],
    )
)
def triple_terms(counts: np.ndarray, head: int, logs: np.ndarray, out: np.ndarray) -> None:
    """Set ``out[i, head]`` to information terms of feature i and a head of two features f and g.

    Parameters
    ----------
    counts
        int64 (feature, head, code of f, code of g, class, code).
    head
        The position of the head.
    logs
        n log n for n from 0 on, by `fill_logs`; counts after its end are computed.
    out
        float64 (feature, head, term), in nats: I(x_i, x_f, x_g : y), I(x_i : y | x_f, x_g),
        I(x_i : y | x_f), I(x_i : y | x_g), I(x_i : x_f, x_g), I(x_i : x_f), I(x_i : x_g),
        I(x_f : y | x_g), I(x_g : y | x_f).

    Examples
    --------
    The label is the exclusive or of f and g, and the feature is equal to f.

    >>> counts = np.zeros((1, 1, 2, 2, 2, 2), np.int64)
    >>> for f, g in np.ndindex(2, 2):
    ...     counts[0, 0, f, g, f ^ g, f] = 5
    >>> out = np.zeros((1, 1, 9))
    >>> triple_terms(counts, 0, np.zeros(0), out)
    >>> (out[0, 0] / np.log(2)).round(4)
    array([1., 0., 0., 1., 1., 1., 0., 1., 1.])
    """
    n_features, _, n_first, n_second, n_classes, n_codes = counts.shape
    table = np.zeros((n_first, n_second, n_classes, n_codes), np.int64)
    three = np.zeros((n_first, n_second, n_codes), np.int64)
    head_label = np.zeros((n_first, n_second, n_classes), np.int64)
    first_label_own = np.zeros((n_first, n_classes, n_codes), np.int64)
    second_label_own = np.zeros((n_second, n_classes, n_codes), np.int64)
    first_own, second_own = (
        np.zeros((n_first, n_codes), np.int64),
        np.zeros((n_second, n_codes), np.int64),
    )
    first_label, second_label = (
        np.zeros((n_first, n_classes), np.int64),
        np.zeros((n_second, n_classes), np.int64),
    )
    both = np.zeros((n_first, n_second), np.int64)
    first, second = np.zeros(n_first, np.int64), np.zeros(n_second, np.int64)
    label, own = np.zeros(n_classes, np.int64), np.zeros(n_codes, np.int64)
    for i in range(n_features):
        for margin in (
            three.ravel(),
            head_label.ravel(),
            first_label_own.ravel(),
            second_label_own.ravel(),
            first_own.ravel(),
            second_own.ravel(),
            first_label.ravel(),
            second_label.ravel(),
            both.ravel(),
            first,
            second,
            label,
            own,
        ):
            for cell in range(margin.shape[0]):
                margin[cell] = 0
        for f in range(n_first):
            for g in range(n_second):
                for c in range(n_classes):
                    within = 0
                    for b in range(n_codes):
                        count = counts[i, head, f, g, c, b]
                        table[f, g, c, b] = count
                        three[f, g, b] += count
                        first_label_own[f, c, b] += count
                        second_label_own[g, c, b] += count
                        first_own[f, b] += count
                        second_own[g, b] += count
                        own[b] += count
                        within += count
                    head_label[f, g, c] = within
                    first_label[f, c] += within
                    second_label[g, c] += within
                    both[f, g] += within
                    first[f] += within
                    second[g] += within
                    label[c] += within
        n_samples = label.sum()
        if n_samples == 0:
            for term in range(out.shape[2]):
                out[i, head, term] = 0.0
            continue
        h_all = _entropy(table.ravel(), logs, n_samples)
        h_three = _entropy(three.ravel(), logs, n_samples)
        h_head_label = _entropy(head_label.ravel(), logs, n_samples)
        h_both = _entropy(both.ravel(), logs, n_samples)
        h_first, h_second = _entropy(first, logs, n_samples), _entropy(second, logs, n_samples)
        h_label, h_own = _entropy(label, logs, n_samples), _entropy(own, logs, n_samples)
        h_first_own = _entropy(first_own.ravel(), logs, n_samples)
        h_second_own = _entropy(second_own.ravel(), logs, n_samples)
        h_first_label = _entropy(first_label.ravel(), logs, n_samples)
        h_second_label = _entropy(second_label.ravel(), logs, n_samples)
        h_first_label_own = _entropy(first_label_own.ravel(), logs, n_samples)
        h_second_label_own = _entropy(second_label_own.ravel(), logs, n_samples)
        out[i, head, 0] = max(h_three + h_label - h_all, 0.0)
        out[i, head, 1] = max(h_three + h_head_label - h_both - h_all, 0.0)
        out[i, head, 2] = max(h_first_own + h_first_label - h_first - h_first_label_own, 0.0)
        out[i, head, 3] = max(h_second_own + h_second_label - h_second - h_second_label_own, 0.0)
        out[i, head, 4] = max(h_own + h_both - h_three, 0.0)
        out[i, head, 5] = max(h_own + h_first - h_first_own, 0.0)
        out[i, head, 6] = max(h_own + h_second - h_second_own, 0.0)
        out[i, head, 7] = max(h_both + h_second_label - h_second - h_head_label, 0.0)
        out[i, head, 8] = max(h_both + h_first_label - h_first - h_head_label, 0.0)


@jit(
    void(
        const(uint64[:, :, ::1]),
        const(uint64[:, ::1]),
        const(int64[:, :, ::1]),
        const(float64[::1]),
        const(float64[:, ::1]),
        const(float64[::1]),
        float64[:, :, ::1],
    )
)
def count_terms(
    planes: np.ndarray,
    masks: np.ndarray,
    marginals: np.ndarray,
    parent: np.ndarray,
    numbers: np.ndarray,
    logs: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set ``out[i, 0]`` to the terms of `pair_terms` for feature i and one parent, with equal bits.

    Samples are counted and terms computed for many features at once: the arrays have features along
    the last axis, so that a vector register has values of several features. For few samples, this
    is several times faster than `add_plane_counts` and `pair_terms`, whose loops over the words of
    a feature or over its counts are short.

    Parameters
    ----------
    planes
        uint64 (feature, bit, word): the codes of all samples.
    masks
        uint64 (cell, word): the samples of each code of the parent but the first, and each class.
    marginals
        int64 (feature, class, code).
    parent, numbers
        The values of the codes of the parent, (code,), and of all features, (feature, code).
    logs
        n log n for all n up to the number of samples, by `fill_logs`.
    out
        float64 (feature, 1, 3 + class), as for `pair_terms`.

    Examples
    --------
    >>> from hofs_dask.kernels.planes import pack
    >>> planes, logs = pack(np.array([[0] * 5 + [1] * 5], np.uint8), 1), np.empty(11)
    >>> fill_logs(logs)
    >>> numbers, out = np.array([[-1.0, 1.0]]), np.zeros((1, 1, 4))
    >>> count_terms(planes, planes[0], np.array([[[5, 5]]]), numbers[0], numbers, logs, out)
    >>> out[0].round(4)
    array([[ 0.6931,  0.    ,  0.6931, 10.    ]])
    """
    n_features = planes.shape[0]
    _, n_classes, n_codes = marginals.shape
    n_parent, n_known = parent.shape[0], n_classes * n_codes
    if n_features == 0:
        return
    # all features have the same samples, so H(y, x_f) and H(x_f) are the same for all of them
    label, other = np.zeros((n_parent, n_classes), np.int64), np.zeros(n_parent, np.int64)
    for c in range(n_classes):
        for b in range(n_codes):
            label[0, c] += marginals[0, c, b]
    for cell in range(masks.shape[0]):
        a, c = 1 + cell // n_classes, cell % n_classes
        for w in range(masks.shape[1]):
            label[a, c] += np.int64(popcount(masks[cell, w]))
        label[0, c] -= label[a, c]
    n_samples = 0
    for a in range(n_parent):
        for c in range(n_classes):
            other[a] += label[a, c]
        n_samples += other[a]
    if n_samples == 0:
        out[:] = 0.0
        return
    top = math.log(n_samples)
    h_label = top - _log_sum(label.ravel(), logs, n_samples) / n_samples
    h_other = top - _log_sum(other, logs, n_samples) / n_samples
    lanes = min(max(MOST_COUNTS // (n_parent * n_known), LEAST_LANES), LANES, n_features)
    sets = np.zeros((n_codes, lanes), np.uint64)
    joint = np.zeros((n_parent * n_known, lanes), np.int64)
    pair, own = np.zeros((n_codes, lanes), np.int64), np.zeros((n_codes, lanes), np.int64)
    values, row = np.zeros((n_codes, lanes)), np.zeros(lanes)
    sums, gram = np.zeros((3, lanes)), np.zeros((n_classes, lanes))
    for start in range(0, n_features, lanes):
        begin = min(start, n_features - lanes)  # the last features may be computed twice
        _count_short(planes, masks, begin, sets, joint[n_known:])
        own[:] = 0
        for b in range(n_codes):
            for c in range(n_classes):
                for f in range(lanes):
                    joint[c * n_codes + b, f] = marginals[begin + f, c, b]
                    own[b, f] += marginals[begin + f, c, b]
            for f in range(lanes):
                values[b, f] = numbers[begin + f, b]
        for cell in range(n_known, joint.shape[0]):
            first, more = joint[cell % n_known], joint[cell]
            for f in range(lanes):
                first[f] -= more[f]
        sums[:], gram[:] = 0.0, 0.0
        for a in range(n_parent):
            pair[:] = 0
            for c in range(n_classes):
                row[:] = 0.0
                for b in range(n_codes):
                    counts, value = joint[(a * n_classes + c) * n_codes + b], values[b]
                    of_code = pair[b]
                    # separate loops, since a loop over many arrays would not be vectorized
                    for f in range(lanes):
                        of_code[f] += counts[f]
                    for f in range(lanes):
                        row[f] += counts[f] * value[f]
                    _add_logs(counts, logs, sums[0])
                of_class, weight = gram[c], parent[a]
                for f in range(lanes):
                    of_class[f] += row[f] * weight
            for b in range(n_codes):
                _add_logs(pair[b], logs, sums[1])
        for b in range(n_codes):
            _add_logs(own[b], logs, sums[2])
        for f in range(lanes):
            h_joint = top - sums[0, f] / n_samples
            h_pair = top - sums[1, f] / n_samples
            h_own = top - sums[2, f] / n_samples
            out[begin + f, 0, 0] = max(h_own + h_other - h_pair, 0.0)
            out[begin + f, 0, 1] = max(h_pair + h_label - h_other - h_joint, 0.0)
            out[begin + f, 0, 2] = h_joint
            for c in range(n_classes):
                out[begin + f, 0, 3 + c] = gram[c, f]


@jit()
def _add_logs(counts: np.ndarray, logs: np.ndarray, sums: np.ndarray) -> None:
    """Add n log n of the count of each feature to ``sums``."""
    for f in range(sums.shape[0]):
        sums[f] += logs[np.uint64(counts[f])]


@jit()
def _count_short(
    planes: np.ndarray,
    masks: np.ndarray,
    begin: int,
    sets: np.ndarray,
    out: np.ndarray,
) -> None:
    """Set ``out[c * n_codes + k]`` to the samples of cell c with code k, for several features.

    The method is that of `add_plane_counts`, but a vector register has a word of each feature.
    """
    _, bits, n_words = planes.shape
    n_codes, lanes = sets.shape
    n_cells, n_sets = out.shape[0] // n_codes, min(n_codes, 1 << bits)
    for row in range(out.shape[0]):
        for f in range(lanes):
            out[row, f] = 0
    for w in range(n_words):
        bit = 0
        for f in range(lanes):
            sets[0, f] = ~np.uint64(0)
        for k in range(1, n_sets):
            if k == 1 << (bit + 1):
                bit += 1
            larger, smaller = sets[k], sets[k - (1 << bit)]
            if k == 1 << bit:
                for f in range(lanes):
                    larger[f] = planes[begin + f, bit, w]
            else:
                one = sets[1 << bit]
                for f in range(lanes):
                    larger[f] = one[f] & smaller[f]
        for c in range(n_cells):
            mask = masks[c, w]
            n_all = np.int64(popcount(mask))
            count = out[c * n_codes]
            for f in range(lanes):
                count[f] += n_all
            for k in range(1, n_sets):
                one, count = sets[k], out[c * n_codes + k]
                for f in range(lanes):
                    count[f] += np.int64(popcount(mask & one[f]))
    for c in range(n_cells):
        for b in range(bits):
            for k in range(n_sets):
                other = k | (1 << b)
                if other != k and other < n_sets:
                    less, more = out[c * n_codes + k], out[c * n_codes + other]
                    for f in range(lanes):
                        less[f] -= more[f]
