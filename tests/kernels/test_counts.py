"""Counts against loops, on read-only and empty input; terms of pairs against entropies."""

import numpy as np
import pytest

from hofs_dask.kernels.counts import add_counts, pair_terms
from hofs_dask.kernels.entropy import entropy, information
from hofs_dask.kernels.planes import (
    MANY_CODES,
    STRIP,
    add_plane_counts,
    cell_masks,
    n_bits,
    pack,
    popcount,
    unpack,
    unpacked,
)

EVERY = np.zeros(0, np.int64)


def random_block(n=200, m=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (m, n)).astype(np.uint8)
    cells = 4 * rng.integers(0, 6, n)
    cells.setflags(write=False)
    return codes, cells


def room(n_samples):
    words = np.zeros((1, -(-n_samples // 64) * 8), np.uint64)
    return words, words.view(np.uint8)[0]


def octets(codes):
    planes = pack(codes, 2).view(np.uint8)
    planes.setflags(write=False)
    return planes


@pytest.mark.parametrize("function", [add_counts, add_counts.py_func])
@pytest.mark.parametrize("first", [0, 2])
def test_counts__equal_a_loop_over_cells(function, first):
    codes, cells = random_block()
    out = np.zeros((3, 24), dtype=np.int64)
    function(octets(codes), EVERY, cells, first, *room(200), out)
    for i, cell in np.ndindex(out.shape):
        here = (cells + codes[i] == cell) & (i >= first)
        assert out[i, cell] == here.sum()


@pytest.mark.parametrize("function", [add_counts, add_counts.py_func])
def test_counts__of_some_samples_begin_where_they_are_told(function):
    codes, cells = random_block()
    places = np.repeat(np.arange(0, 200, 3), 2)
    out = np.zeros((3, 30), dtype=np.int64)
    function(octets(codes), places, cells[places], 0, *room(200), out, 6)
    expected = [np.bincount(cells[places] + row[places], minlength=24) for row in codes]
    np.testing.assert_array_equal(out[:, 6:], expected)
    assert not out[:, :6].any()


@pytest.mark.parametrize("n_codes", [1, 2, 3, 5, 8, 11, 200])
@pytest.mark.parametrize("n_samples", [1, 63, 64, 65, 64 * STRIP + 7, MANY_CODES // 3 + 1])
def test_planes__hold_codes(n_codes, n_samples):
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
def test_plane_counts__are_those_of_codes(n_codes, n_samples, some):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, n_codes, (3, n_samples)).astype(np.uint8)
    places = np.flatnonzero(rng.random(n_samples) < (0.7 if some else 1.0))
    taken = codes[:, places]
    cells = rng.integers(0, 6, n_samples).astype(np.uint8)
    planes = pack(codes, n_bits(n_codes))
    # what is stored past the last sample is anything
    planes[..., -1:] |= ~np.uint64(0) << np.uint64(n_samples % 64) if n_samples % 64 else 0
    within = np.zeros((1, n_samples), np.uint8)
    within[:, places] = 1
    halves = [(pack((cells // 2)[None], 2)[0], 3), (pack((cells % 2)[None], 1)[0], 2)]
    masks = cell_masks(pack(within, 1)[0, 0], halves)
    wide = n_codes + 20
    out = np.zeros((3, 2 + 6 * wide), np.int64)
    for _ in range(2):
        add_plane_counts(planes, masks, wide, 1, out, 2)
    assert not out[:1].any()
    assert not out[:, :2].any()
    for i in (1, 2):
        cell = cells[places].astype(int) * wide + taken[i]
        np.testing.assert_array_equal(out[i, 2:], 2 * np.bincount(cell, minlength=6 * wide))


def test_popcount__of_a_word():
    assert [popcount(word) for word in (0, 1, 2**64 - 1)] == [0, 1, 64]


def test_counts__take_zero_rows():
    codes, cells = random_block(n=0)
    out = np.zeros((3, 24), dtype=np.int64)
    add_counts(octets(codes), EVERY, cells, 0, *room(0), out)
    assert out.sum() == 0


@pytest.mark.parametrize("function", [pair_terms, pair_terms.py_func])
def test_pair_terms__are_entropies_and_products(function):
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 5, (4, 3, 2, 3))  # feature, parent code, class, code
    counts[1] = 0
    parent, numbers = rng.normal(size=3), rng.normal(size=(4, 3))
    out = np.full((4, 5), 7.0)
    out[1] = 0
    function(counts, parent, numbers, out)
    pair, label, other = counts.sum(axis=2), counts.sum(axis=3), counts.sum(axis=(2, 3))
    np.testing.assert_allclose(out[:, 0], information(pair), atol=1e-14)
    given = entropy(pair, 2) + entropy(label, 2) - entropy(other, 1) - entropy(counts, 3)
    np.testing.assert_allclose(out[:, 1], given, atol=1e-14)
    np.testing.assert_allclose(out[:, 2], entropy(counts, 3), atol=1e-14)
    gram = np.einsum("iacb,a,ib->ic", counts, parent, numbers)
    np.testing.assert_allclose(out[:, 3:], gram, atol=1e-12)


def test_entropy__of_known_tables():
    # fair coin: log 2; certain: 0; uniform on four cells: log 4; no counts: 0
    tables = np.array([[1, 1, 0, 0], [4, 0, 0, 0], [2, 2, 2, 2], [0, 0, 0, 0]])
    np.testing.assert_allclose(entropy(tables, 1), [np.log(2), 0, np.log(4), 0], atol=1e-15)


def test_information__of_independent_and_of_equal_variables():
    assert information(np.outer([1, 3], [2, 5])) == pytest.approx(0, abs=1e-15)
    # y = x, with shares 1/4 and 3/4: I = H(x)
    share = np.array([0.25, 0.75])
    assert information(np.diag([1, 3])) == pytest.approx(-(share * np.log(share)).sum())
