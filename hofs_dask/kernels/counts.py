"""Integer counts of coded variables, and information terms of pairs computed from them."""

from __future__ import annotations

import math

import numpy as np
from numba.types import float64, int64, uint8, uint32, uint64, void

from hofs_dask.kernels._jit import const, jit
from hofs_dask.kernels.planes import unpack


@jit(
    void(
        const(uint8[:, :, ::1]),
        const(int64[::1]),
        const(uint32[::1]),
        int64,
        uint64[:, ::1],
        uint8[::1],
        int64[:, ::1],
        int64,
    )
)
def add_counts(
    planes: np.ndarray,
    samples: np.ndarray,
    cells: np.ndarray,
    first: int,
    words: np.ndarray,
    codes: np.ndarray,
    out: np.ndarray,
    start: int,
) -> None:
    """Add 1 to ``out[i, start + cells[s] + code]`` for each sample s and feature i from ``first``.

    The same loop fills every table. All variables except the code of the feature itself (fold,
    class, code of a chosen feature) determine the number ``cells[s]``.

    Parameters
    ----------
    planes
        uint8 (feature, bit, byte), as for `unpack`.
    samples
        Integers (sample,): positions of the samples in the planes; empty for all samples in order.
    cells
        Integers (sample,): the first cell of a sample.
    first
        The first feature to count.
    words, codes
        Work memory for one feature: uint64 (1, byte) for `unpack`, and a view of it as uint8
        (sample,).
    out
        int64 (feature, cell).
    start
        The first cell of the table.

    Examples
    --------
    >>> from hofs_dask.kernels.planes import pack
    >>> out = np.zeros((1, 6), dtype=np.int64)
    >>> label = np.array([0, 1], dtype=np.uint32)
    >>> planes = pack(np.array([[2, 0]], dtype=np.uint8), 2).view(np.uint8)
    >>> words = np.zeros((1, 8), np.uint64)
    >>> every = np.zeros(0, np.int64)
    >>> add_counts(planes, every, 3 * label, 0, words, words.view(np.uint8)[0], out, 0)
    >>> out.reshape(2, 3)
    array([[0, 0, 1],
           [1, 0, 0]])
    """
    n_samples = cells.shape[0]
    taken = np.empty(samples.shape[0], np.uint8)
    for i in range(first, planes.shape[0]):
        unpack(planes[i : i + 1], words)
        counts = out[i][start:]
        if samples.shape[0]:
            for s in range(n_samples):
                taken[s] = codes[samples[s]]
            for s in range(n_samples):
                counts[cells[s] + taken[s]] += 1
        else:
            for s in range(n_samples):
                counts[cells[s] + codes[s]] += 1


@jit()
def _log_sum(counts: np.ndarray) -> float:
    """Return the sum of n log n."""
    total = 0.0
    for cell in range(counts.shape[0]):
        count = counts[cell]
        if count > 1:
            total += count * math.log(count)
    return total


@jit(void(const(int64[:, :, :, ::1]), const(float64[::1]), const(float64[:, ::1]), float64[:, ::1]))
def pair_terms(
    counts: np.ndarray, parent: np.ndarray, numbers: np.ndarray, out: np.ndarray
) -> None:
    """Set ``out[i]`` to information terms and Gram sums of feature i and a parent f.

    Parameters
    ----------
    counts
        int64 (feature, parent code, class, code).
    parent, numbers
        The values of the codes: of the parent, (parent code,), and of all features, (feature,
        code). The value of a missing code is zero.
    out
        float64 (feature, 3 + class): I(x_i : x_f), I(x_i : y | x_f), H(x_i, x_f, y) in nats, and
        the sum of products of the values in each class.

    Examples
    --------
    >>> counts = np.array([[5, 0], [0, 5]]).reshape(1, 2, 1, 2)
    >>> numbers, out = np.array([[-1.0, 1.0]]), np.zeros((1, 4))
    >>> pair_terms(counts, numbers[0], numbers, out)
    >>> out.round(4)
    array([[ 0.6931,  0.    ,  0.6931, 10.    ]])
    """
    n_features, n_parent, n_classes, n_codes = counts.shape
    for i in range(n_features):
        joint = counts[i]
        without_class = np.zeros((n_parent, n_codes), np.int64)
        without_code = np.zeros((n_parent, n_classes), np.int64)
        own, other = np.zeros(n_codes, np.int64), np.zeros(n_parent, np.int64)
        n_samples = 0
        for c in range(n_classes):
            gram = 0.0
            for a in range(n_parent):
                row = 0.0
                for b in range(n_codes):
                    count = joint[a, c, b]
                    without_class[a, b] += count
                    without_code[a, c] += count
                    own[b] += count
                    other[a] += count
                    n_samples += count
                    row += count * numbers[i, b]
                gram += row * parent[a]
            out[i, 3 + c] = gram
        if n_samples == 0:
            continue
        top = math.log(n_samples)
        h_joint = top - _log_sum(joint.ravel()) / n_samples
        h_pair = top - _log_sum(without_class.ravel()) / n_samples
        h_label = top - _log_sum(without_code.ravel()) / n_samples
        h_own = top - _log_sum(own) / n_samples
        h_other = top - _log_sum(other) / n_samples
        out[i, 0] = max(h_own + h_other - h_pair, 0.0)
        out[i, 1] = max(h_pair + h_label - h_other - h_joint, 0.0)
        out[i, 2] = h_joint
