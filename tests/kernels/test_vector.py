"""Functions of one number compared with numpy, for plain functions and compiled aliases."""

import numpy as np
import pytest

from hofs_dask.kernels import vector as kernel

COMPILED = pytest.mark.parametrize("compiled", [True, False])


def alias(function, compiled):
    return function if compiled else function.py_func


@COMPILED
def test_power_of_two__is_accurate_to_a_few_ulps(compiled):
    function = alias(kernel.power_of_two, compiled)
    x = np.concatenate([np.linspace(-1000, 1000, 3001), np.linspace(-1, 1, 1001)])
    found = np.array([function(one) for one in x])
    assert np.abs(found / np.exp2(x.astype(np.longdouble)) - 1).max() < 1e-15


@COMPILED
def test_log_1p__is_accurate_to_a_few_ulps(compiled):
    function = alias(kernel.log_1p, compiled)
    t = np.concatenate([[0.0, 1.0], np.geomspace(1e-300, 1, 2001)])
    found = np.array([function(one) for one in t])
    np.testing.assert_allclose(found, np.log1p(t), rtol=1e-15)


@COMPILED
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 17, 64, 1000])
def test_sum_logs__agrees_with_numpy_for_any_number_of_factors(compiled, n):
    factors = 10 ** np.random.default_rng(n).uniform(-75, 75, n)
    work = np.concatenate([factors, np.full(3, np.nan)])
    found = alias(kernel.sum_logs, compiled)(work, n)
    assert found == pytest.approx(np.log(factors).sum(), rel=1e-13, abs=1e-12)


@COMPILED
@pytest.mark.parametrize("factor", [0.0, 1e-76, np.nan, 1e-310])
def test_sum_logs__is_nan_if_a_factor_is_too_small(compiled, factor):
    work = np.ones(12)
    work[5] = factor
    assert np.isnan(alias(kernel.sum_logs, compiled)(work, 9))
