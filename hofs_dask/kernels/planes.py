"""Codes as bit planes: a word of plane b contains bit b of the codes of 64 samples.

Five codes need three bits instead of eight. Counting whole words is faster than counting sample by
sample: the number of samples that are in both of two sets a and b is the number of bits set in
``a & b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numpy as np
from numba import types
from numba.extending import intrinsic, overload
from numba.types import int32, int64, uint8, uint16, uint64, void

from hofs_dask.kernels._jit import const, jit

WORD = 64
#: Words of a set that are compared at a time, so that the sets of a feature stay in the L1 cache.
STRIP = 256
#: Bytes of a plane that are unpacked at a time, so that the codes stay in the L1 cache.
OCTETS = 1024
#: Features that are checked at a time, so that their planes stay in the cache.
CHECKED = 32


def n_bits(n_codes: int) -> int:
    """Return the number of bit planes for ``n_codes`` codes.

    Examples
    --------
    >>> [n_bits(n) for n in (1, 2, 5, 8, 9)]
    [1, 1, 3, 3, 4]
    """
    return max(n_codes - 1, 1).bit_length()


def first_bits(n_samples: int, n_words: int) -> np.ndarray:
    """Return a plane, uint64 (word,), in which the bits of the first samples are set.

    Examples
    --------
    >>> first_bits(65, 2).tolist() == [2**64 - 1, 1]
    True
    """
    plane = np.zeros(n_words, np.uint64)
    plane[: n_samples // WORD] = ~np.uint64(0)
    if n_samples % WORD:
        plane[n_samples // WORD] = (1 << n_samples % WORD) - 1
    return plane


def first_above(planes: np.ndarray, n_codes: np.ndarray, n_samples: int) -> int:
    """Return the index of the first feature that has a code >= its entry of ``n_codes``.

    Return -1 if there is none.

    Parameters
    ----------
    planes
        uint64 (feature, bit, word); bits after the last sample may be set.
    n_codes
        Number of codes of each feature, (feature,).
    n_samples
        The number of samples.

    Examples
    --------
    >>> planes = pack(np.array([[0, 1, 2], [0, 3, 2]], dtype=np.uint8), 2)
    >>> first_above(planes, np.array([3, 4]), 3), first_above(planes, np.array([3, 3]), 3)
    (-1, 1)
    """
    bits, last = planes.shape[1], first_bits(n_samples, planes.shape[2])
    work = np.empty((CHECKED, planes.shape[2]), np.uint64)
    found = []
    for limit in np.unique(n_codes[n_codes < 2**bits]).tolist():
        own = np.flatnonzero(n_codes == limit)
        for start in range(0, len(own), CHECKED):
            some = own[start : start + CHECKED]
            run = slice(some[0], some[-1] + 1)
            cells = planes[run if some[-1] - some[0] < len(some) else some]
            above = work[: len(some)]
            # from the lowest bit up, compute whether the bits so far are >= the bits of the limit
            lowest = (limit & -limit).bit_length() - 1
            np.bitwise_and(cells[:, lowest], last, out=above)
            for bit in range(lowest + 1, bits):
                combine = np.bitwise_and if limit >> bit & 1 else np.bitwise_or
                combine(above, cells[:, bit], out=above)
            above[:, -1] &= last[-1]
            if above.any():
                found += some[above.any(axis=1)].tolist()
    return min(found, default=-1)


@jit()
def transpose_bits(word: np.uint64) -> Any:
    """Return the word with bit i of byte j moved to bit j of byte i.

    Examples
    --------
    >>> hex(transpose_bits(np.uint64(0xFF)))
    '0x101010101010101'
    """
    moved = (word ^ (word >> np.uint64(7))) & np.uint64(0x00AA00AA00AA00AA)
    word = word ^ moved ^ (moved << np.uint64(7))
    moved = (word ^ (word >> np.uint64(14))) & np.uint64(0x0000CCCC0000CCCC)
    word = word ^ moved ^ (moved << np.uint64(14))
    moved = (word ^ (word >> np.uint64(28))) & np.uint64(0x00000000F0F0F0F0)
    return word ^ moved ^ (moved << np.uint64(28))


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Return the planes of codes, uint64 (feature, bit, word); unused bits are zero.

    Parameters
    ----------
    codes
        uint8 (feature, sample); only the lowest ``bits`` bits are used.
    bits
        Number of planes per feature.

    Examples
    --------
    >>> pack(np.array([[0, 1, 2, 3]], dtype=np.uint8), 2)
    array([[[10],
            [12]]], dtype=uint64)
    """
    n_features, n_samples = codes.shape
    n_words = -(-n_samples // WORD)
    planes = np.zeros((n_features, bits, n_words * 8), np.uint8)
    for bit in range(bits):
        packed = np.packbits(codes & np.uint8(1 << bit), axis=1, bitorder="little")
        planes[:, bit, : packed.shape[1]] = packed
    return planes.view("<u8").astype(np.uint64, copy=False)


@jit()
def _unpack_one(planes: np.ndarray, first: int, out: np.ndarray) -> None:
    """Set ``out`` (byte,) to the codes of one feature from the byte ``first`` on.

    The loop uses arithmetic, which is vectorized and converts eight bytes or more at once. A lookup
    table would not be vectorized.
    """
    for start in range(0, out.shape[0], OCTETS):
        length = min(OCTETS, out.shape[0] - start)
        codes = out[start : start + length]
        for j in range(length):
            codes[j] = 0
        for bit in range(planes.shape[0]):
            plane = planes[bit][first + start : first + start + length]
            shift = np.uint64(8 * bit)
            for j in range(length):
                codes[j] |= np.uint64(plane[j]) << shift
        for j in range(length):
            codes[j] = transpose_bits(codes[j])


@jit(void(const(uint8[:, :, ::1]), uint64[:, ::1]))
def unpack(planes: np.ndarray, out: np.ndarray) -> None:
    """Set ``out[i]`` to the codes of feature i, eight samples at a time.

    Parameters
    ----------
    planes
        uint8 (feature, bit, byte): the bytes of little-endian words.
    out
        uint64 (feature, byte): eight codes per word, one per byte. It may be shorter than the
        planes.

    Examples
    --------
    >>> out = np.zeros((1, 8), np.uint64)
    >>> unpack(pack(np.array([[0, 1, 2, 3]], dtype=np.uint8), 2).view(np.uint8), out)
    >>> out.view(np.uint8)[0, :4]
    array([0, 1, 2, 3], dtype=uint8)
    """
    for i in range(planes.shape[0]):
        _unpack_one(planes[i], 0, out[i])


@jit(void(const(uint8[:, :, ::1]), int64, const(int32[::1]), uint64[::1], uint8[:, ::1]))
def unpack_some(
    planes: np.ndarray, first: int, places: np.ndarray, words: np.ndarray, out: np.ndarray
) -> None:
    """Set ``out[i]`` to the codes of feature i at some samples, in any order.

    One feature is unpacked at a time, so that its codes stay in the cache. All codes between the
    first and the last sample are unpacked, because that loop is vectorized.

    Parameters
    ----------
    planes
        uint8 (feature, bit, byte), as for `unpack`.
    first
        The first byte that is needed.
    places
        Integers (sample,): sample positions relative to the first sample of this byte.
    words
        Work memory, uint64 (byte,): one word per byte that is needed.
    out
        uint8 (feature, sample).

    Examples
    --------
    >>> planes = pack(np.array([[0, 1, 2, 3]], dtype=np.uint8), 2).view(np.uint8)
    >>> out = np.zeros((1, 2), np.uint8)
    >>> unpack_some(planes, 0, np.array([3, 1], np.int32), np.zeros(1, np.uint64), out)
    >>> out
    array([[3, 1]], dtype=uint8)
    """
    codes = words.view(np.uint8)
    for i in range(planes.shape[0]):
        _unpack_one(planes[i], first, words)
        target = out[i]
        for s in range(places.shape[0]):
            target[s] = codes[places[s]]


def unpacked(planes: np.ndarray, n_samples: int) -> np.ndarray:
    """Return the codes of planes, uint8 (feature, sample).

    Examples
    --------
    >>> unpacked(pack(np.array([[0, 1, 2, 3]], dtype=np.uint8), 2), 3)
    array([[0, 1, 2]], dtype=uint8)
    """
    octets = planes.astype("<u8", copy=False).view(np.uint8)
    octets.setflags(write=False)  # otherwise numba compiles again for writable arrays
    out = np.empty((len(planes), -(-n_samples // 8)), np.uint64)
    unpack(octets, out)
    return out.astype("<u8", copy=False).view(np.uint8)[:, :n_samples]


def popcount(word: int) -> int:
    """Return the number of bits that are set in a word.

    Examples
    --------
    >>> popcount(11)
    3
    """
    return int(word).bit_count()


def _generate_popcount(_context: Any, word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(word), generate


_ctpop: Any = intrinsic(_generate_popcount)


@overload(popcount, strict=False)
def _popcount(_word: Any) -> Any:
    return lambda word: _ctpop(word)


def counts_words_at_once() -> bool:
    """Return whether the processor has an instruction that counts the bits of several words."""
    return bool(llvm.get_host_cpu_features().get("avx512vpopcntdq", False))


@jit(void(const(uint64[:, :, ::1]), const(uint64[:, ::1]), int64, uint64[:, :, ::1]))
def _split(masks: np.ndarray, planes: np.ndarray, n_values: int, out: np.ndarray) -> None:
    """Set ``out[strip, c * n_values + v]`` to the samples of mask c with code v in ``planes``."""
    bits, n_words = planes.shape
    for strip in range(masks.shape[0]):
        begin = strip * STRIP
        length = min(STRIP, n_words - begin)
        for c in range(masks.shape[1]):
            mask = masks[strip, c]
            for value in range(min(n_values, 1 << bits)):
                target = out[strip, c * n_values + value]
                for w in range(length):
                    target[w] = mask[w]
                for bit in range(bits):
                    plane = planes[bit][begin : begin + length]
                    flip = np.uint64(0) if value >> bit & 1 else ~np.uint64(0)
                    for w in range(length):
                        target[w] &= plane[w] ^ flip


def cell_masks(within: np.ndarray, digits: Sequence[tuple[np.ndarray, int]]) -> np.ndarray:
    """Return the samples of each cell as bit masks, uint64 (strip, cell, word), zero-padded.

    A cell is a combination of the values of several variables (digits), such as fold and class; the
    last digit varies fastest. The samples of a cell are found by combining planes with ``&``,
    without a loop over samples.

    Parameters
    ----------
    within
        uint64 (word,): the samples to include.
    digits
        The planes of each digit, uint64 (bit, word), and its number of values.

    Examples
    --------
    >>> labels = pack(np.array([[0, 1, 0]], np.uint8), 1)[0]
    >>> cell_masks(np.array([7], np.uint64), [(labels, 2)])[0, :, 0]
    array([5, 2], dtype=uint64)
    """
    n_strips = -(-len(within) // STRIP)
    masks = np.zeros((n_strips, 1, STRIP), np.uint64)
    masks.reshape(-1)[: len(within)] = within
    for planes, n_values in digits:
        found = np.zeros((n_strips, masks.shape[1] * n_values, STRIP), np.uint64)
        for array in (masks, planes := planes.view()):
            array.setflags(write=False)
        _split(masks, planes, n_values, found)
        masks = found
    return masks


@jit()
def _add_common(sets: np.ndarray, masks: np.ndarray, n_words: int, out: np.ndarray) -> None:
    """Add the number of samples in both mask c and set k to ``out[c, k]``, for k from 1 on.

    Loading a word takes as long as counting its bits. So two sets are counted with two masks at a
    time, and the last set, if it is left over, with four masks.
    """
    n_sets, n_masks = sets.shape[0], masks.shape[0]
    k = 1
    while k + 2 <= n_sets:
        x, y = sets[k][:n_words], sets[k + 1][:n_words]
        c = 0
        while c + 2 <= n_masks:
            p, q = masks[c][:n_words], masks[c + 1][:n_words]
            px = py = qx = qy = np.uint64(0)
            for w in range(n_words):
                px += popcount(p[w] & x[w])
                py += popcount(p[w] & y[w])
                qx += popcount(q[w] & x[w])
                qy += popcount(q[w] & y[w])
            out[c, k] += np.int64(px)
            out[c, k + 1] += np.int64(py)
            out[c + 1, k] += np.int64(qx)
            out[c + 1, k + 1] += np.int64(qy)
            c += 2
        if c < n_masks:
            p = masks[c][:n_words]
            px = py = np.uint64(0)
            for w in range(n_words):
                px += popcount(p[w] & x[w])
                py += popcount(p[w] & y[w])
            out[c, k] += np.int64(px)
            out[c, k + 1] += np.int64(py)
        k += 2
    if k < n_sets:
        x = sets[k][:n_words]
        c = 0
        while c + 4 <= n_masks:
            p, q = masks[c][:n_words], masks[c + 1][:n_words]
            r, t = masks[c + 2][:n_words], masks[c + 3][:n_words]
            px = qx = rx = tx = np.uint64(0)
            for w in range(n_words):
                px += popcount(p[w] & x[w])
                qx += popcount(q[w] & x[w])
                rx += popcount(r[w] & x[w])
                tx += popcount(t[w] & x[w])
            out[c, k] += np.int64(px)
            out[c + 1, k] += np.int64(qx)
            out[c + 2, k] += np.int64(rx)
            out[c + 3, k] += np.int64(tx)
            c += 4
        while c < n_masks:
            p, px = masks[c][:n_words], np.uint64(0)
            for w in range(n_words):
                px += popcount(p[w] & x[w])
            out[c, k] += np.int64(px)
            c += 1


@jit()
def _add_weighted(
    sets: np.ndarray, masks: np.ndarray, weights: np.ndarray, n_words: int, out: np.ndarray
) -> None:
    """Do what `_add_common` does, with the weight of each word as a factor of its samples."""
    n_sets, n_masks = sets.shape[0], masks.shape[0]
    k = 1
    while k + 2 <= n_sets:
        x, y = sets[k][:n_words], sets[k + 1][:n_words]
        c = 0
        while c + 2 <= n_masks:
            p, q = masks[c][:n_words], masks[c + 1][:n_words]
            px = py = qx = qy = np.uint64(0)
            for w in range(n_words):
                weight = np.uint64(weights[w])
                px += popcount(p[w] & x[w]) * weight
                py += popcount(p[w] & y[w]) * weight
                qx += popcount(q[w] & x[w]) * weight
                qy += popcount(q[w] & y[w]) * weight
            out[c, k] += np.int64(px)
            out[c, k + 1] += np.int64(py)
            out[c + 1, k] += np.int64(qx)
            out[c + 1, k + 1] += np.int64(qy)
            c += 2
        if c < n_masks:
            p = masks[c][:n_words]
            px = py = np.uint64(0)
            for w in range(n_words):
                weight = np.uint64(weights[w])
                px += popcount(p[w] & x[w]) * weight
                py += popcount(p[w] & y[w]) * weight
            out[c, k] += np.int64(px)
            out[c, k + 1] += np.int64(py)
        k += 2
    if k < n_sets:
        x = sets[k][:n_words]
        c = 0
        while c + 4 <= n_masks:
            p, q = masks[c][:n_words], masks[c + 1][:n_words]
            r, t = masks[c + 2][:n_words], masks[c + 3][:n_words]
            px = qx = rx = tx = np.uint64(0)
            for w in range(n_words):
                weight = np.uint64(weights[w])
                px += popcount(p[w] & x[w]) * weight
                qx += popcount(q[w] & x[w]) * weight
                rx += popcount(r[w] & x[w]) * weight
                tx += popcount(t[w] & x[w]) * weight
            out[c, k] += np.int64(px)
            out[c + 1, k] += np.int64(qx)
            out[c + 2, k] += np.int64(rx)
            out[c + 3, k] += np.int64(tx)
            c += 4
        while c < n_masks:
            p, px = masks[c][:n_words], np.uint64(0)
            for w in range(n_words):
                weight = np.uint64(weights[w])
                px += popcount(p[w] & x[w]) * weight
            out[c, k] += np.int64(px)
            c += 1


@jit(int64(const(uint16[::1]), uint64[:, ::1], uint16[:, ::1]))
def split_words(weights: np.ndarray, masks: np.ndarray, values: np.ndarray) -> int:
    """Split the samples of each word into sets of equal weight; return the number of sets.

    A word has one set for each of its distinct weights. If these are more than the bits that occur
    in its weights, it has instead one set for each bit, with the samples whose weight has this bit;
    a sample is then in several sets, and the values of its sets add up to its weight. The result is
    -1 if a word has more sets than ``masks`` has room for.

    Parameters
    ----------
    weights
        Integers (sample,); samples of weight 0 are in no set.
    masks, values
        The samples of each set, uint64 (set, word), and the weight that the set stands for, (set,
        word); both are zero before the call.

    Examples
    --------
    >>> weights = np.array([3, 3, 9], np.uint16)
    >>> masks, values = np.zeros((2, 1), np.uint64), np.zeros((2, 1), np.uint16)
    >>> split_words(weights, masks, values), masks.ravel(), values.ravel()
    (2, array([3, 4], dtype=uint64), array([3, 9], dtype=uint16))
    """
    n_found, room = 0, masks.shape[0]
    for word in range(masks.shape[1]):
        some = weights[word * WORD : (word + 1) * WORD]
        differ, either = np.uint16(0), np.uint16(0)
        for s in range(some.shape[0]):
            differ |= some[s] ^ some[0]
            either |= some[s]
        if differ == 0 and some.shape[0] == WORD and either:
            masks[0, word], values[0, word] = ~np.uint64(0), some[0]
            n_found += 1
            continue
        n_bits_set = 0
        for bit in range(16):
            n_bits_set += int(either) >> bit & 1
        most, n_own = min(n_bits_set, room), 0
        for s in range(some.shape[0]):
            if some[s] == 0:
                continue
            k = 0
            while k < n_own and values[k, word] != some[s]:
                k += 1
            if k == most:
                n_own = -1
                break
            if k == n_own:
                values[k, word] = some[s]
                n_own += 1
            masks[k, word] |= np.uint64(1) << np.uint64(s)
        if n_own < 0:  # too many weights: one set per bit
            if n_bits_set > room:
                return -1
            n_own = 0
            for bit in range(16):
                if int(either) >> bit & 1:
                    mask = np.uint64(0)
                    for s in range(some.shape[0]):
                        mask |= np.uint64(int(some[s]) >> bit & 1) << np.uint64(s)
                    masks[n_own, word], values[n_own, word] = mask, 1 << bit
                    n_own += 1
        n_found += n_own
    return n_found


@jit(void(const(uint64[:, :, ::1]), const(int64[::1]), const(uint64[:, :, ::1]),
          const(uint16[:, ::1]), int64, int64, int64[:, ::1], int64))  # fmt: skip
def add_plane_counts(
    planes: np.ndarray,
    repeated: np.ndarray,
    masks: np.ndarray,
    weights: np.ndarray,
    n_codes: int,
    first: int,
    out: np.ndarray,
    start: int,
) -> None:
    """Add the number of samples of each cell and code to ``out``, for the features from ``first``.

    The kernel counts the sets S_k of samples whose code has all bits of k. S_k is a plane, or the
    ``&`` of a plane and an earlier set. The count of code k is the count of S_k minus the counts of
    all larger codes that have all bits of k.

    Parameters
    ----------
    planes
        uint64 (feature, bit, word).
    repeated
        Positions of words that follow the words of the planes, (repeated word,).
    masks
        The samples of each cell, from `cell_masks`: of all words, then of the repeated words.
    weights
        The weight of the samples of each word, (strip, word); no strips if all weights are 1.
    n_codes
        Number of codes of a feature.
    first
        The first feature to count.
    out
        int64 (feature, count): counts of a cell and code at ``start + cell * n_codes + code``.
    start
        The position along the second axis of ``out`` where the table begins.

    Examples
    --------
    >>> codes, labels = np.array([[[0, 2, 1, 2]], [[0, 0, 1, 1]]], np.uint8)
    >>> masks = cell_masks(np.array([15], np.uint64), [(pack(labels, 1)[0], 2)])
    >>> out = np.zeros((1, 6), np.int64)
    >>> none, ones = np.zeros(0, np.int64), np.zeros((0, STRIP), np.uint16)
    >>> add_plane_counts(pack(codes, 2), none, masks, ones, 3, 0, out, 0)
    >>> out.reshape(2, 3)
    array([[1, 0, 1],
           [0, 1, 1]])
    """
    n_features, bits, n_words = planes.shape
    n_cells = masks.shape[1]
    n_sets = min(n_codes, 1 << bits)  # n_codes may exceed what the planes hold
    sets = np.zeros((n_sets, STRIP), np.uint64)
    found, totals = np.empty((n_cells, n_sets), np.int64), np.zeros(n_cells, np.int64)
    for strip in range(masks.shape[0]):
        for c in range(n_cells):
            mask, n_bits_set = masks[strip, c], np.uint64(0)
            if weights.shape[0]:
                for w in range(STRIP):
                    n_bits_set += popcount(mask[w]) * np.uint64(weights[strip, w])
            else:
                for w in range(STRIP):
                    n_bits_set += popcount(mask[w])
            totals[c] += np.int64(n_bits_set)
    for i in range(first, n_features):
        for c in range(n_cells):
            found[c, 0] = totals[c]  # not as a slice, which takes a second longer to compile
            for k in range(1, n_sets):
                found[c, k] = 0
        for strip in range(masks.shape[0]):
            begin = strip * STRIP
            length = min(STRIP, n_words + repeated.shape[0] - begin)
            n_own = max(min(length, n_words - begin), 0)
            again = repeated[max(begin - n_words, 0) :]
            bit = 0
            for k in range(1, n_sets):
                if k == 1 << (bit + 1):
                    bit += 1
                plane, rest = planes[i, bit], k - (1 << bit)
                larger, smaller = sets[k], sets[rest]
                if rest:
                    highest = sets[1 << bit]
                    for w in range(length):
                        larger[w] = highest[w] & smaller[w]
                else:
                    some = plane[begin : begin + n_own]
                    for w in range(n_own):
                        larger[w] = some[w]
                    for w in range(n_own, length):
                        larger[w] = plane[again[w - n_own]]
            if weights.shape[0]:
                _add_weighted(sets, masks[strip], weights[strip], length, found)
            else:
                _add_common(sets, masks[strip], length, found)
        counts = out[i][start:]
        for c in range(n_cells):
            for b in range(bits):
                for k in range(n_sets):
                    other = k | (1 << b)
                    if other != k and other < n_sets:
                        found[c, k] -= found[c, other]
            for k in range(n_sets):
                counts[c * n_codes + k] += found[c, k]
