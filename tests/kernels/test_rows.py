"""The incremental ICA row against a general-purpose optimiser and the closed form."""

import numpy as np
import pytest
from scipy.optimize import minimize

from hofs_dask.kernels.rows import (
    MAX_W,
    Newton,
    add_row_terms,
    gaussian_entropy,
    least_squares,
    logistic_start,
)


def standardised(t):
    return (t - t.mean()) / t.std()


def columns_of(z, t):
    return np.column_stack([t, -np.ones(len(t)), -z])


def fit(z, t):
    u = columns_of(z, t)
    moments = (u.T @ u / len(t))[None]
    state = Newton.start(logistic_start(moments))
    for _ in range(12):
        value, gradient = np.zeros(1), np.zeros((1, u.shape[1]))
        hessian = np.zeros((1, u.shape[1], u.shape[1]))
        add_row_terms(u[:, :-1].copy(), u[:, -1:].copy(), state.trial, value, gradient, hessian)
        state = state.advance(value / len(t), gradient / len(t), hessian / len(t))
        if state.done:
            break
    return state


def optimise(z, t):
    u = columns_of(z, t)

    def value(theta):
        s = np.abs(u @ theta)
        return np.mean(s + 2 * np.log1p(np.exp(-s))) - np.log(theta[0])

    def gradient(theta):
        result = np.tanh(u @ theta / 2) @ u / len(u)
        result[0] -= 1 / theta[0]
        return result

    start = np.zeros(u.shape[1])
    start[0] = 1.0
    bounds = [(1e-6, MAX_W)] + [(None, None)] * (u.shape[1] - 1)
    return minimize(
        value,
        start,
        jac=gradient,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 20000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-10},
    ).fun


def random_case(rng, n):
    z = rng.normal(size=(n, 4))
    return z, z @ [1, 0.5, 0, 0] + rng.normal(size=n)


def heavy_tailed_case(rng, n):
    z = rng.normal(size=(n, 4))
    return z, z[:, 0] + rng.standard_t(1.5, size=n)


def collinear_case(rng, n):
    z = rng.normal(size=(n, 3))
    return np.column_stack([z, z[:, 0] + 1e-5 * z[:, 1]]), z[:, 0] + rng.normal(size=n)


def rank_deficient_case(rng, n):
    z = rng.normal(size=(n, 3))
    return np.column_stack([z, z[:, 0], np.zeros(n)]), z[:, 0] + rng.normal(size=n)


def separable_case(rng, n):
    z = rng.normal(size=(n, 4))
    return z, (z[:, 0] > 0).astype(float)


def rare_separable_case(rng, n):
    z = rng.normal(size=(n, 4))
    return z, (z[:, 0] > 2.3).astype(float)


def nearly_exact_case(rng, n):
    z = rng.normal(size=(n, 4))
    t = (z[:, 0] > 0).astype(float)
    copy = t.copy()
    copy[:3] = 1 - copy[:3]
    return np.column_stack([z, copy]), t


CASES = [
    random_case,
    heavy_tailed_case,
    collinear_case,
    rank_deficient_case,
    separable_case,
    rare_separable_case,
    nearly_exact_case,
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_logistic_row__agrees_with_a_general_purpose_optimiser(case, seed):
    z, t = case(np.random.default_rng(seed), 2000)
    t = standardised(t)
    state = fit(z, t)
    assert state.done
    assert state.value[0] == pytest.approx(optimise(z, t), abs=1e-6)


def test_logistic_row__saturates_at_the_bound_for_an_exact_function():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 3))
    state = fit(z, standardised(z @ [1.0, 2.0, -1.0]))
    # at w = MAX_W with every signal zero the value is phi(0) - log w = log 4 - log w
    assert state.value[0] == pytest.approx(np.log(4) - np.log(MAX_W), abs=1e-9)


def test_gaussian_row__is_the_closed_form():
    rng = np.random.default_rng(1)
    z, t = random_case(rng, 3000)
    t = standardised(t)
    u = columns_of(z, t)
    row, variance = least_squares(u.T @ u / len(t))
    residual = (
        t
        - np.column_stack([np.ones(len(t)), z])
        @ np.linalg.lstsq(np.column_stack([np.ones(len(t)), z]), t)[0]
    )
    sigma = np.sqrt(np.mean(residual**2))
    assert gaussian_entropy(variance) == pytest.approx(
        0.5 * np.log(2 * np.pi * np.e * sigma**2), abs=1e-9
    )
    assert u @ row == pytest.approx(residual, abs=1e-6)


def test_row_terms__plain_function_equals_its_compiled_alias():
    rng = np.random.default_rng(2)
    fixed, own, theta = rng.normal(size=(7, 2)), rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    results = []
    for function in (add_row_terms, add_row_terms.py_func):
        value, gradient, hessian = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3, 3))
        function(fixed, own, theta, value, gradient, hessian)
        results.append((value, gradient, hessian))
    for compiled, plain in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-12)


def test_row_terms__derivatives_equal_differences():
    rng = np.random.default_rng(3)
    fixed, own, theta = rng.normal(size=(50, 2)), rng.normal(size=(50, 1)), np.array([[1.0, 2, 3]])

    def terms(at):
        value, gradient, hessian = np.zeros(1), np.zeros((1, 3)), np.zeros((1, 3, 3))
        add_row_terms(fixed, own, at, value, gradient, hessian)
        return value[0], gradient[0], hessian[0]

    step = 1e-6
    _, gradient, hessian = terms(theta)
    for j in range(3):
        up, down = theta.copy(), theta.copy()
        up[0, j] += step
        down[0, j] -= step
        assert (terms(up)[0] - terms(down)[0]) / (2 * step) == pytest.approx(gradient[j], abs=1e-5)
        slope = (terms(up)[1] - terms(down)[1]) / (2 * step)
        np.testing.assert_allclose(slope[: j + 1], hessian[j, : j + 1], atol=1e-5)
