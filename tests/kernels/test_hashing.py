"""Row hashes compared with known values and with Python integers, and their properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.kernels.hashing import (
    DRAW_CHANCES,
    N_BLOCKS,
    fold_of,
    multiplicity,
    row_hash,
    rows_below,
)

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def splitmix64(state):
    """One step of the generator, https://prng.di.unimi.it/splitmix64.c."""
    z = (state + GAMMA) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


# Closed forms


def test_row_hash__is_the_published_sequence():
    # the first three numbers of splitmix64 from seed 0; each step adds gamma to the state
    states = np.array([0, GAMMA, 2 * GAMMA & MASK], np.uint64)
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert row_hash(states).tolist() == expected


def test_draw_chances__are_a_poisson_distribution():
    # P(0) = P(1) = 1/e, P(2) = 1/2e; the probability of 18 or more is below the double precision
    np.testing.assert_allclose(DRAW_CHANCES[:3] * math.e, [1.0, 2.0, 2.5], rtol=1e-15)
    assert DRAW_CHANCES[-1] == pytest.approx(1.0, abs=1e-15)


def test_rows_below__extreme_thresholds_select_none_and_all():
    assert len(rows_below(5, 100, 0)) == 0
    np.testing.assert_array_equal(rows_below(5, 100, MASK), np.arange(100))


# Compared with Python integers


@given(rows=st.lists(st.integers(0, MASK), max_size=20))
def test_row_hash__is_a_step_of_splitmix64(rows):
    given_rows = np.array(rows, np.uint64)
    given_rows.setflags(write=False)
    assert row_hash(given_rows).tolist() == [splitmix64(row) for row in rows]


@given(
    start=st.integers(0, 2**40),
    n_rows=st.integers(0, 200),
    n_folds=st.sampled_from([1, 2, 4, 8]),
)
def test_fold_of__is_the_hash_modulo_the_folds(start, n_rows, n_folds):
    expected = [splitmix64(row) % n_folds for row in range(start, start + n_rows)]
    assert fold_of(start, start + n_rows, n_folds).tolist() == expected


@given(start=st.integers(0, 2**40), n_rows=st.integers(0, 200), threshold=st.integers(0, MASK))
def test_rows_below__agree_with_row_hash(start, n_rows, threshold):
    expected = [s for s in range(n_rows) if splitmix64(start + s) < threshold]
    assert rows_below(start, n_rows, threshold).tolist() == expected


# Properties


@given(cut=st.integers(0, 300), resample=st.integers(0, 50))
def test_hashes__do_not_depend_on_chunks(cut, resample):
    rows = np.arange(300, dtype=np.uint64)
    rows.setflags(write=False)
    parts = [fold_of(0, cut, 4), fold_of(cut, 300, 4)]
    np.testing.assert_array_equal(np.concatenate(parts), fold_of(0, 300, 4))
    below = [rows_below(0, cut, 2**62), cut + rows_below(cut, 300 - cut, 2**62)]
    np.testing.assert_array_equal(np.concatenate(below), rows_below(0, 300, 2**62))
    drawn = [multiplicity(part, 300, resample) for part in (rows[:cut], rows[cut:])]
    np.testing.assert_array_equal(np.concatenate(drawn), multiplicity(rows, 300, resample))


@given(n_samples=st.integers(1, 10 * N_BLOCKS), resample=st.integers(0, 50))
def test_multiplicity__is_equal_within_a_block(n_samples, resample):
    drawn = multiplicity(np.arange(n_samples, dtype=np.uint64), n_samples, resample)
    length = -(-n_samples // N_BLOCKS)
    np.testing.assert_array_equal(drawn, np.repeat(drawn[::length], length)[:n_samples])


def test_multiplicity__has_mean_and_variance_one():
    rows = np.arange(N_BLOCKS, dtype=np.uint64)
    drawn = np.concatenate([multiplicity(rows, N_BLOCKS, r) for r in range(100)])
    # 102 400 draws: the standard error is 0.003 for the mean and 0.0054 for the variance
    assert drawn.mean() == pytest.approx(1.0, abs=0.02)
    assert drawn.var() == pytest.approx(1.0, abs=0.03)
