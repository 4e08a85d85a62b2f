"""Bit planes: closed forms, loops over bits, properties; empty and read-only input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hofs_dask.kernels.planes import (
    STRIP,
    WORD,
    add_plane_counts,
    cell_masks,
    first_above,
    first_bits,
    n_bits,
    pack,
    popcount,
    split_words,
    transpose_bits,
    unpack,
    unpack_some,
    unpacked,
)

#: The weights of words whose samples all have weight 1.
ONES = np.zeros((0, STRIP), np.uint16)
#: No repeated words.
NONE = np.zeros(0, np.int64)


def read_only(array):
    array.setflags(write=False)
    return array


def bit_of(planes, feature, bit, sample):
    """Return one bit of the planes, computed with Python integers."""
    return int(planes[feature, bit, sample // WORD]) >> sample % WORD & 1


# Closed forms


def test_n_bits__is_the_least_number_for_all_codes():
    assert [n_bits(n) for n in (1, 2, 3, 4, 5, 256)] == [1, 1, 2, 2, 3, 8]


def test_first_bits__sets_only_the_first_bits():
    every = 2**64 - 1
    expected = {0: [0, 0], 1: [1, 0], 64: [every, 0], 65: [every, 1], 128: [every, every]}
    assert {n: first_bits(n, 2).tolist() for n in expected} == expected


def test_popcount__counts_set_bits():
    assert [popcount(word) for word in (0, 1, 2**64 - 1)] == [0, 1, 64]


@pytest.mark.parametrize("function", [transpose_bits, transpose_bits.py_func])
def test_transpose_bits__moves_rows_to_columns(function):
    # byte 0 to bit 0 of every byte; bit 1 of byte 0 to bit 0 of byte 1; the diagonal stays
    for word, expected in (
        (0xFF, 0x0101010101010101),
        (0x02, 0x0100),
        (0x8040201008040201, 0x8040201008040201),
    ):
        assert int(function(np.uint64(word))) == expected


def test_pack__gives_the_planes_of_known_codes():
    # codes 0 1 2 3: bit 0 is set in samples 1 and 3, bit 1 in samples 2 and 3
    codes = np.array([[0, 1, 2, 3]], np.uint8)
    assert pack(codes, 2).tolist() == [[[0b1010], [0b1100]]]


def test_cell_masks__gives_the_masks_of_known_digits():
    # samples 0 to 3 have the digits (class, code) 00, 10, 01, 11; sample 3 is not included
    classes, codes = pack(np.array([[0, 1, 0, 1], [0, 0, 1, 1]], np.uint8), 1)
    masks = cell_masks(np.array([0b0111], np.uint64), [(classes, 2), (codes, 2)])
    assert masks[0, :, 0].tolist() == [0b0001, 0b0100, 0b0010, 0]


# Compared with loops


@given(word=st.integers(0, 2**64 - 1))
def test_transpose_bits__agrees_with_a_loop_over_bits(word):
    moved = sum((word >> (8 * j + i) & 1) << (8 * i + j) for i in range(8) for j in range(8))
    assert int(transpose_bits(np.uint64(word))) == moved


@pytest.mark.parametrize("n_samples", [1, 63, 64, 65, 200, 64 * STRIP + 7])
def test_pack__bits_agree_with_the_codes(n_samples):
    codes = read_only(np.random.default_rng(0).integers(0, 32, (2, n_samples)).astype(np.uint8))
    planes = pack(codes, 5)
    for sample in {*range(0, n_samples, max(n_samples // 200, 1)), n_samples - 1}:
        for feature in range(2):
            bits = [bit_of(planes, feature, bit, sample) for bit in range(5)]
            assert bits == [codes[feature, sample] >> bit & 1 for bit in range(5)]
    past = first_bits(n_samples, planes.shape[2])
    assert not (planes & ~past).any()


@pytest.mark.parametrize("n_codes", [1, 2, 3, 5, 8, 11, 200])
@pytest.mark.parametrize("n_samples", [1, 63, 64, 65, 64 * STRIP + 7])
def test_pack__is_inverted_by_unpack(n_codes, n_samples):
    codes = np.random.default_rng(0).integers(0, n_codes, (3, n_samples)).astype(np.uint8)
    planes = pack(codes, n_bits(n_codes))
    assert planes.shape == (3, max(int(np.ceil(np.log2(n_codes))), 1), -(-n_samples // 64))
    np.testing.assert_array_equal(unpacked(planes, n_samples), codes)
    out = np.zeros((3, planes.shape[2] * 8), np.uint64)
    unpack.py_func(planes.view(np.uint8), out)
    np.testing.assert_array_equal(out.view(np.uint8)[:, :n_samples], codes)


@pytest.mark.parametrize("n_codes", [1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("n_samples", [0, 1, 64, 64 * STRIP + 7, 64 * STRIP * 2])
@pytest.mark.parametrize("some", [False, True], ids=["every sample", "some samples"])
def test_add_plane_counts__agrees_with_counts_of_codes(n_codes, n_samples, some):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, n_codes, (3, n_samples)).astype(np.uint8)
    places = np.flatnonzero(rng.random(n_samples) < (0.7 if some else 1.0))
    taken = codes[:, places]
    cells = rng.integers(0, 6, n_samples).astype(np.uint8)
    planes = pack(codes, n_bits(n_codes))
    # bits after the last sample are undefined
    planes[..., -1:] |= ~np.uint64(0) << np.uint64(n_samples % 64) if n_samples % 64 else 0
    within = np.zeros((1, n_samples), np.uint8)
    within[:, places] = 1
    halves = [(pack((cells // 2)[None], 2)[0], 3), (pack((cells % 2)[None], 1)[0], 2)]
    masks = cell_masks(pack(within, 1)[0, 0], halves)
    wide = n_codes + 20
    out = np.zeros((3, 2 + 6 * wide), np.int64)
    for _ in range(2):
        add_plane_counts(planes, NONE, masks, ONES, wide, 1, out, 2)
    assert not out[:1].any()
    assert not out[:, :2].any()
    for i in (1, 2):
        cell = cells[places].astype(int) * wide + taken[i]
        np.testing.assert_array_equal(out[i, 2:], 2 * np.bincount(cell, minlength=6 * wide))


@given(data=st.data(), n_features=st.integers(1, 80), n_samples=st.integers(1, 200))
def test_first_above__agrees_with_a_search_over_codes(data, n_features, n_samples):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_codes = rng.integers(1, 9, n_features)
    codes = rng.integers(0, 8, (n_features, n_samples)).astype(np.uint8)
    mostly = rng.random(n_features) < data.draw(st.sampled_from([0.5, 0.99, 1.0]))
    codes[mostly] %= n_codes[mostly, None].astype(np.uint8)
    wrong = np.flatnonzero((codes >= n_codes[:, None]).any(axis=1))
    planes = pack(codes, 3)
    planes |= ~first_bits(n_samples, planes.shape[2])  # bits after the last sample may be set
    expected = int(wrong[0]) if len(wrong) else -1
    assert first_above(planes, n_codes, n_samples) == expected


@pytest.mark.parametrize("function", [unpack_some, unpack_some.py_func])
def test_unpack_some__returns_codes_in_any_order(function):
    codes = np.random.default_rng(2).integers(0, 8, (3, 300)).astype(np.uint8)
    planes = read_only(pack(codes, 3).view(np.uint8))
    places = np.array([250, 17, 17, 199])
    out = np.zeros((3, 4), np.uint8)
    function(planes, 2, (places - 16).astype(np.int32), np.zeros(40, np.uint64), out)
    np.testing.assert_array_equal(out, codes[:, places])


# Properties


@given(
    codes=arrays(np.uint8, st.tuples(st.integers(1, 4), st.integers(0, 200))),
    bits=st.integers(1, 8),
)
def test_pack__keeps_the_given_number_of_bits(codes, bits):
    found = unpacked(read_only(pack(codes, bits)), codes.shape[1])
    np.testing.assert_array_equal(found, codes & (2**bits - 1))


@given(
    digits=arrays(np.uint8, st.tuples(st.just(2), st.integers(0, 300)), elements=st.integers(0, 2))
)
def test_cell_masks__partition_the_samples(digits):
    n_samples = digits.shape[1]
    within = first_bits(n_samples, -(-n_samples // WORD))
    masks = cell_masks(within, [(planes, 3) for planes in read_only(pack(digits, 2))])
    assert sum(popcount(int(word)) for word in masks.ravel()) == n_samples
    whole = np.bitwise_or.reduce(masks, axis=1).reshape(-1)[: len(within)]
    np.testing.assert_array_equal(whole, within)


def test_planes__accept_zero_samples():
    planes = pack(np.zeros((2, 0), np.uint8), 3)
    assert planes.shape == (2, 3, 0)
    assert unpacked(planes, 0).shape == (2, 0)
    assert first_above(np.zeros((2, 3, 1), np.uint64), np.array([5, 5]), 0) == -1


@pytest.mark.parametrize("compiled", [False, True])
@given(
    seed=st.integers(0, 1000),
    n_samples=st.integers(1, 300),
    kind=st.sampled_from(["few", "bits", "runs", "many"]),
)
def test_split_words__gives_each_sample_its_weight(compiled, seed, n_samples, kind):
    local = np.random.default_rng(seed)
    weights = {
        "few": local.choice([0, 7, 300], n_samples),
        "bits": local.integers(0, 16, n_samples),
        "runs": np.repeat(local.integers(1, 2**16, n_samples), 100)[:n_samples],
        "many": local.integers(1, 2**16, n_samples),
    }[kind].astype(np.uint16)
    masks = np.zeros((8, -(-n_samples // 64)), np.uint64)
    values = np.zeros(masks.shape, np.uint16)
    function = split_words if compiled else split_words.py_func
    found = function(weights, masks, values)
    if found < 0:
        assert kind == "many"
        return
    assert found == (masks > 0).sum()
    samples = np.arange(n_samples)
    bits = masks[:, samples // 64] >> (samples % 64).astype(np.uint64) & np.uint64(1)
    total = (bits.astype(int) * values[:, samples // 64]).sum(axis=0)
    np.testing.assert_array_equal(total, weights)
    if kind == "runs" and n_samples >= 128:
        assert found <= 2 * masks.shape[1]
