"""Posterior rows compared with plain formulas, for plain functions and compiled aliases."""

import numpy as np
import pytest
from scipy.special import logsumexp

from hofs_dask.kernels import grids
from hofs_dask.kernels import posterior as kernel

M, F, B, K = 4, 2, 5, 3
COMPILED = pytest.mark.parametrize("compiled", [True, False])

#: The weights of samples that all count equally.
NONE = np.zeros(0)


def alias(function, compiled):
    return function if compiled else function.py_func


def problem(n_samples, n_classes, seed=0):
    """Return samples of fold 1, sorted by class, and their posterior."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, n_classes, n_samples))
    columns = rng.integers(0, B, (K, n_samples))
    bases = np.vstack([np.zeros(n_samples), B * columns]).astype(np.uint16)
    return {
        "rng": rng,
        "labels": labels,
        "starts": np.searchsorted(labels, np.arange(n_classes + 1)),
        "codes": rng.integers(0, B, (M, n_samples)).astype(np.uint8),
        "bases": bases,
        "numbers": rng.normal(size=(K, n_samples)),
        "probability": rng.dirichlet(np.ones(n_classes), n_samples).T.copy(),
    }


def rows_of(rng, n_classes, n_kinds=2, n_parents=2):
    """Return linear rows in argument order; the first kind has equal slopes in all classes."""
    tables = rng.uniform(0.1, 1.0, size=(M, n_kinds, F, n_classes, B))
    slopes = rng.normal(size=(M, n_kinds, F, n_classes, n_parents))
    shifts = rng.normal(size=(M, n_kinds, F, n_classes))
    scales = rng.uniform(0.5, 2.0, size=(M, n_kinds, F, n_classes))
    slopes[:, 0], scales[:, 0] = slopes[:, 0, :, :1], scales[:, 0, :, :1]
    return tables, slopes, shifts, scales


def log_density(signal, logistic):
    if logistic:
        return -np.abs(signal) - 2 * np.log1p(np.exp(-np.abs(signal)))
    return -(signal**2) / 2


def signals(value, numbers, parents, slopes, shifts, scales):
    """Return the signals (class, sample)."""
    used = parents[parents >= 0]
    mean = slopes[:, : len(used)] @ numbers[used]
    return scales[:, None] * (value - shifts[:, None] - mean)


def of_truth(array, labels):
    return array[labels, np.arange(len(labels))]


@COMPILED
def test_add_tables__adds_the_table_of_every_parent(compiled):
    given = problem(30, 3)
    codes, bases = given["codes"][0], given["bases"]
    tables = given["rng"].normal(size=(2, F, 3, B * B))
    posterior = np.zeros((3, 30))
    parents = np.array([2, 1])
    alias(kernel.add_tables, compiled)(posterior, codes, bases, parents, tables, 1)
    expected = tables[0, 1][:, bases[2] + codes] + tables[1, 1][:, bases[1] + codes]
    np.testing.assert_allclose(posterior, expected, rtol=1e-15)


@COMPILED
@pytest.mark.parametrize("logistic", [True, False])
def test_add_linear__adds_log_densities_including_tiny_ones(compiled, logistic):
    given = problem(30, 3)
    values = given["rng"].normal(size=B)
    values[:2] = np.nan, 1e4  # a missing code adds nothing
    _, slopes, shifts, scales = (array[0, 1] for array in rows_of(given["rng"], 3))
    codes, parents = given["codes"][0], np.array([2, -1])
    posterior = np.zeros((3, 30))
    row = (parents, slopes, shifts, scales, 1, logistic)
    alias(kernel.add_linear, compiled)(posterior, codes, values, given["numbers"], *row)
    fit = (slopes[1], shifts[1], scales[1])
    signal = signals(values[codes], given["numbers"], parents, *fit)
    expected = np.where(codes == 0, 0.0, log_density(signal, logistic))
    np.testing.assert_allclose(posterior, expected, rtol=1e-13)


@COMPILED
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4])
def test_score_tables__is_minus_the_log_of_the_mixture_of_classes(compiled, n_classes):
    given = problem(40, n_classes)
    codes, bases, q = given["codes"], given["bases"], given["probability"]
    tables = given["rng"].uniform(0.01, 1.0, size=(M, 2, F, n_classes, B * B))
    parents = np.array([[1, 3], [2, 2], [-1, -1], [3, 1]])
    out, starts = np.full(M, 7.0), given["starts"]
    alias(kernel.score_tables, compiled)(
        codes, bases, parents, tables, 1, starts, NONE, q, out, np.zeros(0)
    )
    for i in range(M):
        first, second = (tables[i, j, 1][:, bases[parents[i, j]] + codes[i]] for j in (0, 1))
        expected = 0.0 if i == 2 else -np.log((q * first * second).sum(axis=0)).sum()
        assert out[i] == pytest.approx(expected, rel=1e-13)


def test_score_tables__is_nan_if_all_classes_are_too_small():
    given = problem(40, 2)
    codes, q = given["codes"], given["probability"]
    tables = given["rng"].uniform(0.1, 1.0, size=(M, 1, F, 2, B))
    tables[0, 0, 1, 0, 2] = 0.0  # zero in one class is allowed
    tables[1, 0, 1, :, 2] = 0.0
    tables[2, 0, 1, :, 2] = 1e-200
    out, no_parent = np.zeros(M), np.zeros((M, 1), int)
    rest = (tables, 1, given["starts"], NONE, q, out, np.zeros(0))
    kernel.score_tables(codes, given["bases"], no_parent, *rest)
    np.testing.assert_array_equal(np.isnan(out), [False, True, True, False])
    total = (q * tables[0, 0, 1][:, codes[0]]).sum(axis=0)
    assert out[0] == pytest.approx(-np.log(total).sum(), rel=1e-13)


@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize(
    ("n_samples", "n_classes", "compiled"),
    [(40, 3, False), (40, 1, True), (40, 3, True), (2 * kernel.STRIP + 77, 4, True)],
)
def test_score_linear__is_the_gain_of_tables_times_densities(
    n_samples, n_classes, compiled, logistic
):
    given = problem(n_samples, n_classes)
    codes, numbers, q = given["codes"], given["numbers"], given["probability"]
    values = given["rng"].normal(size=(M, B))
    values[0, 4] = np.nan  # a missing code uses only the table
    tables, slopes, shifts, scales = rows_of(given["rng"], n_classes)
    parents = np.array([[1, 2], [2, -1], [-1, -1], [0, 1]])
    out = np.full((M, 2), 7.0)
    rows = (tables, slopes, shifts, scales, logistic, 1, given["starts"], NONE, q, out, out[:0])
    alias(kernel.score_linear, compiled)(codes, values, numbers, parents, *rows)
    for i in range(M):
        for kind in range(2):
            fit = (slopes[i, kind, 1], shifts[i, kind, 1], scales[i, kind, 1])
            density = log_density(signals(values[i][codes[i]], numbers, parents[i], *fit), logistic)
            density[:, np.isnan(values[i][codes[i]])] = 0.0
            logs = np.log(q) + np.log(tables[i, kind, 1][:, codes[i]]) + density
            gain = of_truth(density, given["labels"]) - logsumexp(logs, axis=0)
            expected = 0.0 if i == 2 else gain.sum()
            assert out[i, kind] == pytest.approx(expected, rel=1e-12)


@COMPILED
@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_score_grids__is_the_gain_of_tables_times_densities(n_classes, logistic, compiled):
    given = problem(kernel.STRIP + 77 if compiled else 40, n_classes)
    codes, q, labels = given["codes"], given["probability"], given["labels"]
    columns = (given["bases"][1:] // B).astype(np.uint8)
    values, numbers = given["rng"].normal(size=(M, B)), given["rng"].normal(size=(K, B))
    values[0, 4] = np.nan  # a missing code uses only the table
    tables, slopes, shifts, scales = rows_of(given["rng"], n_classes)
    parents = np.array([[1, 2], [2, -1], [-1, -1], [0, 1]])
    out, squares = np.full((M, 2), 7.0), np.full((M, 2), 7.0)
    rows = (tables, slopes, shifts, scales, logistic, 1, given["starts"], NONE, q, out, squares)
    alias(grids.score_grids, compiled)(codes, columns, values, numbers, parents, *rows)
    number = np.take_along_axis(numbers, columns.astype(int), axis=1)
    for i in range(M):
        for kind in range(2):
            fit = (slopes[i, kind, 1], shifts[i, kind, 1], scales[i, kind, 1])
            density = log_density(signals(values[i][codes[i]], number, parents[i], *fit), logistic)
            density[:, np.isnan(values[i][codes[i]])] = 0.0
            added = np.log(tables[i, kind, 1][:, codes[i]]) + density
            gain = of_truth(added, labels) - logsumexp(np.log(q) + added, axis=0)
            expected = 0.0 if i == 2 else gain.sum()
            assert out[i, kind] == pytest.approx(expected, rel=1e-12, abs=1e-12)
            least = 0.0 if i == 2 else (gain**2).sum()
            assert squares[i, kind] >= least - 1e-9


@COMPILED
def test_squares__are_a_close_upper_bound_of_squared_gains(compiled):
    given = problem(400, 3)
    codes, bases, labels, q = (given[name] for name in ("codes", "bases", "labels", "probability"))
    numbers, values = given["numbers"], given["rng"].normal(size=(M, B))
    tables, slopes, shifts, scales = rows_of(given["rng"], 3)
    tables = tables**0.3  # gains of moderate size
    scales *= 0.3
    parents = np.array([[1, 2], [2, -1], [-1, -1], [0, 1]])
    no_parent = np.array([[0], [0], [-1], [0]])
    out, squares, squares_of = np.zeros((M, 2)), np.full(M, 7.0), np.full((M, 2), 7.0)
    rest = (1, given["starts"], NONE, q)
    first = tables[:, :1].copy()
    alias(kernel.score_tables, compiled)(
        codes, bases, no_parent, first, *rest, out[:, 0].copy(), squares
    )
    rows = (tables, slopes, shifts, scales, True, *rest, out, squares_of)
    alias(kernel.score_linear, compiled)(codes, values, numbers, parents, *rows)
    for i in (0, 1, 3):
        logs = np.log(tables[i, 0, 1][:, codes[i]])
        fit = (slopes[i, 0, 1], shifts[i, 0, 1], scales[i, 0, 1])
        density = log_density(signals(values[i][codes[i]], numbers, parents[i], *fit), True)
        for found, added in ((squares[i], logs), (squares_of[i, 0], logs + density)):
            gain = of_truth(added, labels) - logsumexp(np.log(q) + added, axis=0)
            assert (gain**2).sum() <= found <= 1.2 * (gain**2).sum()
    assert squares[2] == 0
    assert not squares_of[2].any()


@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize("apart", [0.0, 1000.0])
def test_score_linear__is_nan_if_densities_are_too_small(logistic, apart):
    given = problem(40, 2)
    codes, numbers, q = given["codes"], given["numbers"], given["probability"]
    tables, slopes, shifts, scales = rows_of(given["rng"], 2)
    values = given["rng"].normal(size=(M, B))
    values[1, 2] = 1e4
    shifts[2, :, :, 1] += apart  # moves class 1 far away
    parents, out = np.zeros((M, 2), int), np.zeros((M, 2))
    rows = (tables, slopes, shifts, scales, logistic, 1, given["starts"], NONE, q, out, out[:0])
    kernel.score_linear(codes, values, numbers, parents, *rows)
    expected = [[False] * 2, [True] * 2, [apart > 0] * 2, [False] * 2]
    np.testing.assert_array_equal(np.isnan(out), expected)


@pytest.mark.parametrize("logistic", [True, False])
def test_add_linear__does_not_depend_on_the_position_of_a_sample(logistic):
    given = problem(61, 2)
    values = given["rng"].normal(size=B)
    _, slopes, shifts, scales = (array[0, 1] for array in rows_of(given["rng"], 2))

    def added(samples):
        codes = given["codes"][0, samples].copy()
        numbers, posterior = given["numbers"][:, samples].copy(), np.zeros((2, len(codes)))
        row = (np.array([0, 2]), slopes, shifts, scales, 1, logistic)
        kernel.add_linear(posterior, codes, values, numbers, *row)
        return posterior

    whole = added(slice(None))
    for s in range(61):
        np.testing.assert_array_equal(added(slice(s, s + 1))[:, 0], whole[:, s])


def test_kernels__accept_zero_samples_and_read_only_input():
    given = problem(0, 2)
    codes, q = given["codes"], given["probability"]
    tables, slopes, shifts, scales = rows_of(given["rng"], 2)
    parents, values = np.zeros((M, 2), int), np.zeros((M, B))
    for array in (codes, q, tables, slopes, shifts, scales, parents, values):
        array.setflags(write=False)
    one, out = np.ones(M), np.ones((M, 2))
    squares = np.ones(M), np.ones((M, 2))
    rest = (tables, 1, given["starts"], NONE, q, one, squares[0])
    kernel.score_tables(codes, given["bases"], parents, *rest)
    rows = (tables, slopes, shifts, scales, True, 1, given["starts"], NONE, q, out, squares[1])
    kernel.score_linear(codes, values, given["numbers"], parents, *rows)
    for array in (one, out, *squares):
        assert not array.any()


@COMPILED
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights__are_the_number_of_times_that_a_sample_counts(compiled, n_classes):
    """Squared gains are those of the weighted samples, whose parts are drawn at random."""
    given = problem(kernel.STRIP + 77 if compiled else 40, n_classes)
    codes, bases, q = given["codes"], given["bases"], given["probability"]
    columns = (bases[1:] // B).astype(np.uint8)
    weights = given["rng"].integers(1, 6, codes.shape[1])
    values, codes_of = given["rng"].normal(size=(M, B)), given["rng"].normal(size=(K, B))
    tables, slopes, shifts, scales = rows_of(given["rng"], n_classes)
    numbers = np.take_along_axis(codes_of, columns.astype(int), axis=1)
    parents, no_parent = np.array([[1, 2], [2, -1], [-1, -1], [0, 1]]), np.zeros((M, 1), int)

    def score(rows, weights):
        starts = np.searchsorted(given["labels"][rows], np.arange(n_classes + 1))
        some = np.ascontiguousarray(codes[:, rows])
        one, outs = np.zeros(M), np.zeros((2, M, 2))
        one2, outs2 = np.zeros(M), np.zeros((2, M, 2))
        rest = (1, starts, weights, np.ascontiguousarray(q[:, rows]))
        first = tables[:, :1].copy()
        alias(kernel.score_tables, compiled)(
            some, bases[:, rows].copy(), no_parent, first, *rest, one, one2
        )
        fit = (parents, tables, slopes, shifts, scales, True, *rest)
        alias(kernel.score_linear, compiled)(
            some, values, numbers[:, rows].copy(), *fit, outs[0], outs2[0]
        )
        alias(grids.score_grids, compiled)(
            some, columns[:, rows].copy(), values, codes_of, *fit, outs[1], outs2[1]
        )
        return np.concatenate([one, outs.ravel()]), np.concatenate([one2, outs2.ravel()])

    every = np.arange(codes.shape[1])
    found, squares = score(every, weights.astype(float))
    expected, _ = score(np.repeat(every, weights), NONE)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    _, expected = score(np.repeat(every, weights**2), NONE)
    np.testing.assert_allclose(squares, expected, rtol=1e-12, atol=1e-12)
