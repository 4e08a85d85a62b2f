"""The incremental ICA row compared with a general-purpose optimiser and the closed form."""

import numpy as np
import pytest
from scipy.optimize import minimize

from hofs_dask.kernels.rows import (
    MAX_W,
    Chain,
    Newton,
    add_cells,
    add_sample_terms,
    add_table_terms,
    gaussian_entropy,
    least_squares,
    logistic_start,
)


def standardised(t):
    return (t - t.mean()) / t.std()


def columns_of(z, t):
    return np.column_stack([t, -np.ones(len(t)), -z])


def means(u, theta):
    """Return the means over samples of phi and its derivatives in theta."""
    s = u @ theta
    slope = np.tanh(s / 2)
    value = np.mean(np.abs(s) + 2 * np.log1p(np.exp(-np.abs(s))))
    return value, slope @ u / len(u), (u * ((1 - slope**2) / 2)[:, None]).T @ u / len(u)


def fit(z, t):
    u = columns_of(z, t)
    moments = (u.T @ u / len(t))[None]
    state = Newton.start(logistic_start(moments))
    for _ in range(12):
        state = state.advance(*(term[None] for term in map(np.asarray, means(u, state.trial[0]))))
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
    # at w = MAX_W all signals are zero, and the value is phi(0) - log w = log 4 - log w
    assert state.value[0] == pytest.approx(np.log(4) - np.log(MAX_W), abs=1e-9)


def test_gaussian_row__agrees_with_the_closed_form():
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


N, M, C, B, K = 700, 3, 3, 4, 2


def coded_case(seed):
    """Return samples sorted by class, and rows of every feature."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, C, N))
    codes = rng.integers(0, B, (M, N)).astype(np.uint8)
    columns = rng.integers(0, B, (K, N)).astype(np.uint8)
    values, members = rng.normal(size=(M, B)), rng.normal(size=(K, B))
    return labels, codes, columns, values, members, rng.normal(size=(M, 2, C + K + 1))


def zeros():
    width = C + K + 1
    return np.zeros((M, 2)), np.zeros((M, 2, width)), np.zeros((M, 2, width, width))


ONES = np.zeros(0, np.uint16)


def sample_terms(case, rows, function=add_sample_terms, weights=None):
    labels, codes, columns, values, members, _ = case
    starts, terms = np.searchsorted(labels, np.arange(C + 1)), zeros()
    numbers = np.take_along_axis(members, columns.astype(int), axis=1)
    weights = np.zeros(0) if weights is None else weights.astype(float)
    function(codes, starts, numbers, weights, values, rows, np.ones((M, 2), bool), *terms)
    return terms


def table_terms(case, rows, function=add_table_terms, weights=ONES):
    labels, codes, columns, values, members, _ = case
    counts, terms = np.zeros((M, C * B * B * B), np.int32), zeros()
    cells = (columns[0].astype(np.int32) * B + columns[1]) + labels.astype(np.int32) * B**3
    add_cells(codes, cells, weights, B * B, counts)
    numbers = np.stack([np.repeat(members[0], B), np.tile(members[1], B)])
    counts = counts.reshape(M, C, B, B * B)
    function(counts, numbers, values, rows, np.ones((M, 2), bool), *terms)
    return terms


@pytest.mark.parametrize("terms", [sample_terms, table_terms])
def test_row_terms__agree_with_plain_formulas(terms):
    case = coded_case(2)
    labels, codes, columns, values, members, rows = case
    value, gradient, hessian = terms(case, rows)
    for i in range(M):
        numbers = np.take_along_axis(members, columns.astype(int), axis=1)
        u = np.column_stack([np.eye(C)[labels], numbers.T, values[i][codes[i]]])
        for r in range(2):
            expected = means(u, rows[i, r])
            assert value[i, r] / N == pytest.approx(expected[0], rel=1e-13)
            np.testing.assert_allclose(gradient[i, r] / N, expected[1], rtol=0, atol=1e-13)
            np.testing.assert_allclose(
                hessian[i, r] / N, np.tril(expected[2]), rtol=1e-11, atol=1e-14
            )


@pytest.mark.parametrize("terms", [sample_terms, table_terms])
def test_row_terms__plain_function_equals_its_compiled_alias(terms):
    case = coded_case(3)
    function = add_sample_terms if terms is sample_terms else add_table_terms
    with np.errstate(over="ignore"):  # power_of_two shifts integers into the exponent bits
        plain = terms(case, case[-1], function.py_func)
    for compiled, expected in zip(terms(case, case[-1]), plain, strict=True):
        np.testing.assert_allclose(compiled, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_row_terms__with_weights_from_samples_and_from_counts_agree(compiled):
    case = coded_case(6)
    weights = np.random.default_rng(0).integers(1, 2**16, N).astype(np.uint16)
    function = add_sample_terms if compiled else add_sample_terms.py_func
    with np.errstate(over="ignore"):
        found = sample_terms(case, case[-1], function, weights)
    for terms, expected in zip(found, table_terms(case, case[-1], weights=weights), strict=True):
        np.testing.assert_allclose(terms, expected, rtol=1e-11, atol=1e-6)


def test_row_terms__skip_rows_that_are_not_wanted():
    case = coded_case(4)
    wanted, found = np.zeros((M, 2), bool), zeros()
    wanted[1, 0] = True
    counts, numbers = np.ones((M, C, B, 1), np.int64), np.zeros((K, 1))
    add_table_terms(counts, numbers, case[3], case[-1], wanted, *found)
    assert (found[0] != 0).tolist() == wanted.tolist()


def test_chain__from_counts_and_from_samples_agree():
    case = coded_case(5)
    labels, codes, columns, values, members, _ = case
    label_columns = np.eye(C)[:, :2]
    theta = [np.random.default_rng(r).normal(size=(M, 3 + K + r)) for r in range(2)]
    theta = [np.abs(rows) for rows in theta]
    chain = Chain.start(theta, label_columns)
    for _ in range(12):
        terms = sample_terms(case, chain.trial)
        chain = chain.advance(*(term / N for term in terms))
    assert chain.done
    counts = np.zeros((M, C * B * B * B), np.int32)
    cells = (columns[0].astype(np.int32) * B + columns[1]) + labels.astype(np.int32) * B**3
    add_cells(codes, cells, ONES, B * B, counts)
    numbers = np.stack([np.repeat(members[0], B), np.tile(members[1], B)])
    solved = Chain.start(theta, label_columns).solve(
        counts.reshape(M, C, B, B * B), numbers, values
    )
    np.testing.assert_allclose(solved.value, chain.value, rtol=1e-11)
