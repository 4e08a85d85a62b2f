"""Counts against loops, on read-only and empty input."""

import numpy as np
import pytest

from hofs_dask.kernels.counts import add_marginal_counts, add_pair_counts
from hofs_dask.kernels.entropy import entropy, information


def random_block(n=200, m=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (n, m)).astype(np.uint8)
    labels = rng.integers(0, 3, n).astype(np.uint8)
    folds = rng.integers(0, 4, n).astype(np.uint8)
    for array in (codes, labels, folds):
        array.setflags(write=False)
    return codes, labels, folds


@pytest.mark.parametrize("function", [add_marginal_counts, add_marginal_counts.py_func])
def test_marginal_counts__equal_a_loop_over_cells(function):
    codes, labels, folds = random_block()
    out = np.zeros((3, 4, 3, 4), dtype=np.int64)
    function(codes, labels, folds, out)
    for i, f, c, b in np.ndindex(out.shape):
        assert out[i, f, c, b] == np.sum((folds == f) & (labels == c) & (codes[:, i] == b))


@pytest.mark.parametrize("function", [add_pair_counts, add_pair_counts.py_func])
def test_pair_counts__equal_a_loop_over_cells(function):
    codes, labels, folds = random_block()
    parent = np.ascontiguousarray(codes[:, 1])
    out = np.zeros((3, 4, 4, 3, 4), dtype=np.int64)
    function(codes, parent, labels, folds, out)
    for i, f, a, c, b in np.ndindex(out.shape):
        here = (folds == f) & (parent == a) & (labels == c) & (codes[:, i] == b)
        assert out[i, f, a, c, b] == here.sum()


def test_counts__take_zero_rows():
    codes, labels, folds = random_block(n=0)
    out = np.zeros((3, 4, 3, 4), dtype=np.int64)
    add_marginal_counts(codes, labels, folds, out)
    assert out.sum() == 0


def test_entropy__of_known_tables():
    # fair coin: log 2; certain: 0; uniform on four cells: log 4; no counts: 0
    tables = np.array([[1, 1, 0, 0], [4, 0, 0, 0], [2, 2, 2, 2], [0, 0, 0, 0]])
    np.testing.assert_allclose(entropy(tables, 1), [np.log(2), 0, np.log(4), 0], atol=1e-15)


def test_information__of_independent_and_of_equal_variables():
    assert information(np.outer([1, 3], [2, 5])) == pytest.approx(0, abs=1e-15)
    # y = x, with shares 1/4 and 3/4: I = H(x)
    share = np.array([0.25, 0.75])
    assert information(np.diag([1, 3])) == pytest.approx(-(share * np.log(share)).sum())
