"""Gains by definition compared with probabilities, and the kernels compared with the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.kernels import posterior as kernel
from hofs_dask.kernels.gains import gains, log_evidence


def test_gains__of_two_classes_agree_with_hand_calculation():
    """For q = (1/4, 3/4) and row (2, 1), the sum is 5/4 and the posterior (2/5, 3/5)."""
    found = gains(np.log([0.25, 0.75]), np.log([2.0, 1.0]))
    np.testing.assert_allclose(found, np.log([0.4 / 0.25, 0.6 / 0.75]), rtol=1e-14)


def test_gains__are_zero_for_equal_factors():
    found = gains(np.log([0.2, 0.3, 0.5]), np.full(3, -7.0))
    np.testing.assert_allclose(found, 0.0, atol=1e-15)


def test_gains__row_may_exclude_all_but_one_class():
    found = gains(np.log([0.2, 0.8]), np.array([0.0, -np.inf]))
    np.testing.assert_allclose(found, [-np.log(0.2), -np.inf])


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1.0, 30.0, 1000.0]))
def test_gains__give_a_posterior_that_sums_to_one(seed, scale):
    rng = np.random.default_rng(seed)
    posterior = np.log(rng.dirichlet(np.ones(4), size=7))
    row = rng.normal(size=(7, 4)) * scale
    after = posterior + gains(posterior, row, axis=1)
    np.testing.assert_allclose(np.exp(after).sum(axis=1), 1.0, rtol=1e-9)


@given(seed=st.integers(0, 2**32 - 1))
def test_log_evidence__is_the_same_along_any_axis(seed):
    rng = np.random.default_rng(seed)
    posterior, row = np.log(rng.dirichlet(np.ones(3), size=5)).T, rng.normal(size=(3, 5))
    found = log_evidence(posterior, row)
    np.testing.assert_array_equal(found, log_evidence(posterior.T, row.T, axis=1))


def test_log_evidence__does_not_change_its_input():
    posterior, row = np.log([0.5, 0.5]), np.array([1.0, 2.0])
    log_evidence(posterior, row)
    np.testing.assert_array_equal(posterior, np.log([0.5, 0.5]))
    np.testing.assert_array_equal(row, [1.0, 2.0])


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_score_tables__is_minus_the_log_evidence(n_classes):
    rng = np.random.default_rng(n_classes)
    n, m, n_codes, n_folds = 200, 5, 4, 3
    codes = rng.integers(0, n_codes, (m, n)).astype(np.uint8)
    tables = rng.uniform(0.05, 1.0, (m, 1, n_folds, n_classes, n_codes))
    probability = rng.dirichlet(np.ones(n_classes), size=n).T.copy()
    found, squares, fold = np.empty(m), np.empty(0), 1
    kernel.score_tables(
        codes,
        np.zeros((1, n), np.uint16),
        np.zeros((m, 1), np.intp),
        tables,
        fold,
        np.zeros(0, np.intp),
        np.zeros(0),
        probability,
        found,
        squares,
    )
    for i in range(m):
        row = np.log(tables[i, 0, fold][:, codes[i]])
        expected = -log_evidence(np.log(probability), row).sum()
        assert found[i] == pytest.approx(expected, rel=1e-11)
