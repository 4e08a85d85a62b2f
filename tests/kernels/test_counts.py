"""Counts compared with loops, on read-only and empty input; pair terms with entropies."""

import math

import numpy as np
import pytest

from hofs_dask.kernels.counts import (
    add_counts,
    count_terms,
    fill_logs,
    n_together,
    pair_terms,
)
from hofs_dask.kernels.entropy import entropy, information
from hofs_dask.kernels.planes import first_bits, pack

EVERY, ONES = np.zeros(0, np.int64), np.zeros(0, np.uint16)


def random_block(n=200, m=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (m, n)).astype(np.uint8)
    cells = rng.integers(0, 6, n, dtype=np.uint32)
    cells.setflags(write=False)
    return codes, cells


def octets(codes, bits=2):
    planes = pack(codes, bits).view(np.uint8)
    planes.setflags(write=False)
    return planes


@pytest.mark.parametrize("function", [add_counts, add_counts.py_func])
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_counts__agree_with_a_loop(function, first, weighted):
    codes, cells = random_block()
    weights = np.random.default_rng(1).integers(1, 2**16, 200).astype(np.uint16)
    out = np.zeros((3, 24), dtype=np.int64)
    function(octets(codes), EVERY, cells, weights if weighted else ONES, 6, 4, first, out, 0)
    for i, cell in np.ndindex(out.shape):
        here = (4 * cells + codes[i] == cell) & (i >= first)
        assert out[i, cell] == (int(weights[here].sum(dtype=int)) if weighted else here.sum())


@pytest.mark.parametrize(("bits", "n_codes", "together"), [(1, 2, 8), (2, 3, 4), (3, 5, 2)])
def test_counts__of_several_features_at_a_time_agree_with_bincount(bits, n_codes, together):
    """Any number of features, so that the last ones are fewer than are counted at a time."""
    local = np.random.default_rng(bits)
    n, n_cells = 20_000, 3
    assert n_together(n, n_cells, bits) == together
    cells = local.integers(0, n_cells, n, dtype=np.uint32)
    weights = local.integers(1, 2**16, n).astype(np.uint16)
    for m in (1, together, together + 1, 2 * together + 1):
        codes = local.integers(0, n_codes, (m, n)).astype(np.uint8)
        out = np.zeros((m, n_cells * n_codes), np.int64)
        add_counts(octets(codes, bits), EVERY, cells, weights, n_cells, n_codes, 0, out, 0)
        for row, found in zip(codes, out, strict=True):
            np.testing.assert_array_equal(found, np.bincount(cells * n_codes + row, weights))


@pytest.mark.parametrize("function", [add_counts, add_counts.py_func])
def test_counts__of_some_samples_start_at_the_given_cell(function):
    codes, cells = random_block()
    places = np.repeat(np.arange(0, 200, 3), 2)
    out = np.zeros((3, 30), dtype=np.int64)
    function(octets(codes), places, cells[places], ONES, 6, 4, 0, out, 6)
    expected = [np.bincount(4 * cells[places] + row[places], minlength=24) for row in codes]
    np.testing.assert_array_equal(out[:, 6:], expected)
    assert not out[:, :6].any()


def test_counts__accept_zero_samples():
    codes, cells = random_block(n=0)
    out = np.zeros((3, 24), dtype=np.int64)
    add_counts(octets(codes), EVERY, cells, ONES, 6, 4, 0, out, 0)
    assert out.sum() == 0


@pytest.mark.parametrize("length", [0, 5, 1000])
@pytest.mark.parametrize("function", [pair_terms, pair_terms.py_func])
def test_pair_terms__agree_with_entropies_and_products(function, length):
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 5, (4, 2, 3, 2, 3))  # feature, column, parent code, class, code
    counts[1] = 0
    marginals = counts[:, 0].sum(axis=1)
    parents, numbers = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
    logs, out = np.zeros(length), np.full((4, 2, 5), 7.0)
    fill_logs(logs)
    table, counts[:, 0, 0] = counts[:, 0].copy(), 7  # the first parent code is not used
    function(counts, 0, marginals, parents, numbers, logs, out)
    assert (out[:, 1] == 7).all()
    out = out[:, 0]
    pair, label, other = table.sum(axis=2), table.sum(axis=3), table.sum(axis=(2, 3))
    np.testing.assert_allclose(out[:, 0], information(pair), atol=1e-14)
    given = entropy(pair, 2) + entropy(label, 2) - entropy(other, 1) - entropy(table, 3)
    np.testing.assert_allclose(out[:, 1], given, atol=1e-14)
    np.testing.assert_allclose(out[:, 2], entropy(table, 3), atol=1e-14)
    gram = np.einsum("iacb,a,ib->ic", table, parents[0], numbers)
    np.testing.assert_allclose(out[:, 3:], gram, atol=1e-12)


def test_pair_terms__have_the_same_bits_with_and_without_a_table():
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 500, (50, 1, 4, 3, 4))
    marginals, numbers = counts[:, 0].sum(axis=1), rng.normal(size=(50, 4))
    found = []
    for length in (0, 100_000):
        logs, out = np.zeros(length), np.zeros((50, 1, 6))
        fill_logs(logs)
        pair_terms(counts, 0, marginals, numbers[:1], numbers, logs, out)
        found.append(out)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("n", "m", "n_codes", "n_classes"),
    [(1, 1, 2, 1), (63, 5, 3, 2), (130, 300, 4, 3), (64, 9, 9, 2)],
)
def test_count_terms__have_the_bits_of_counts_and_pair_terms(n, m, n_codes, n_classes):
    rng = np.random.default_rng(5)
    codes, label = rng.integers(0, n_codes, (m, n)), rng.integers(0, n_classes, n)
    counts = np.zeros((m, 1, n_codes, n_classes, n_codes), np.int64)
    for i, row in enumerate(codes):
        np.add.at(counts[i, 0], (codes[0], label, row), 1)
    parents, numbers = rng.normal(size=(1, n_codes)), rng.normal(size=(m, n_codes))
    logs, found, expected = np.zeros(n + 1), *np.full((2, m, 1, 3 + n_classes), 7.0)
    fill_logs(logs)
    marginals = counts[:, 0].sum(axis=1)
    pair_terms(counts, 0, marginals, parents, numbers, logs, expected)
    cells = [(codes[0] == a) & (label == c) for a in range(1, n_codes) for c in range(n_classes)]
    masks = pack(np.array(cells, np.uint8), 1)[:, 0] & first_bits(n, -(-n // 64))
    planes = pack(codes.astype(np.uint8), (n_codes - 1).bit_length())
    count_terms(planes, masks, marginals, parents[0], numbers, logs, found)
    np.testing.assert_array_equal(found, expected)


def test_fill_logs__has_the_bits_of_the_math_library():
    logs = np.zeros(70_000)
    fill_logs(logs)
    assert logs.tolist() == [0.0, 0.0, *(n * math.log(n) for n in range(2, len(logs)))]


def test_entropy__of_known_tables():
    # fair coin: log 2; certain: 0; uniform on four cells: log 4; no counts: 0
    tables = np.array([[1, 1, 0, 0], [4, 0, 0, 0], [2, 2, 2, 2], [0, 0, 0, 0]])
    np.testing.assert_allclose(entropy(tables, 1), [np.log(2), 0, np.log(4), 0], atol=1e-15)


def test_information__of_independent_and_of_equal_variables():
    assert information(np.outer([1, 3], [2, 5])) == pytest.approx(0, abs=1e-15)
    # y = x with probabilities 1/4 and 3/4: I = H(x)
    share = np.array([0.25, 0.75])
    assert information(np.diag([1, 3])) == pytest.approx(-(share * np.log(share)).sum())
