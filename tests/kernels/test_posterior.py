"""Posterior rows against plain formulas; plain functions against their compiled aliases."""

import numpy as np
import pytest
from scipy.special import logsumexp

from hofs_dask.kernels import posterior as kernel

N, M, F, C, B = 40, 3, 4, 3, 5


@pytest.fixture
def block():
    rng = np.random.default_rng(0)
    return {
        "codes": rng.integers(0, B, (N, M)).astype(np.uint8),
        "labels": rng.integers(0, C, N).astype(np.uint8),
        "folds": rng.integers(0, F, N).astype(np.uint8),
        "posterior": rng.normal(size=(N, C)),
        "rng": rng,
    }


def truth(posterior, labels):
    return posterior[np.arange(len(labels)), labels] - logsumexp(posterior, axis=1)


def test_log_truth__is_the_log_of_the_softmax(block):
    for function in (kernel.log_truth, kernel.log_truth.py_func):
        out = np.empty(N)
        function(block["posterior"], block["labels"], out)
        np.testing.assert_allclose(out, truth(block["posterior"], block["labels"]), rtol=1e-12)


@pytest.mark.parametrize("plain", [False, True])
def test_score_tables__are_the_gains_of_added_tables(block, plain):
    tables = block["rng"].normal(size=(M, F, C, B))
    before = truth(block["posterior"], block["labels"])
    out = np.zeros(M)
    function = kernel.score_tables.py_func if plain else kernel.score_tables
    function(
        block["codes"], block["labels"], block["folds"], block["posterior"], before, tables, out
    )
    for i in range(M):
        after = block["posterior"] + tables[i][block["folds"], :, block["codes"][:, i]]
        gain = truth(after, block["labels"]) - before
        assert out[i] == pytest.approx(gain.sum(), rel=1e-10)


@pytest.mark.parametrize("plain", [False, True])
def test_score_pairs__are_the_gains_of_pair_tables(block, plain):
    tables = block["rng"].normal(size=(M, F, C, B, B))
    columns = block["codes"][:, ::-1].copy()
    chosen = np.array([2, -1, 0])
    before = truth(block["posterior"], block["labels"])
    out = np.zeros(M)
    function = kernel.score_pairs.py_func if plain else kernel.score_pairs
    state = (block["labels"], block["folds"], block["posterior"], before)
    function(block["codes"], columns, chosen, *state, tables, out)
    assert out[1] == 0
    for i in (0, 2):
        parent = columns[:, chosen[i]]
        after = block["posterior"] + tables[i][block["folds"], :, parent, block["codes"][:, i]]
        gain = truth(after, block["labels"]) - before
        assert out[i] == pytest.approx(gain.sum(), rel=1e-10)


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_score_linear__are_the_gains_of_linear_rows(block, plain, logistic):
    rng = block["rng"]
    tables, values = rng.normal(size=(M, F, C, B)), rng.normal(size=(M, B))
    values[0, 4] = np.nan  # missing: the table alone
    numbers = rng.normal(size=(N, 4))
    parents = np.array([[1, 3], [2, -1], [-1, -1]])
    slopes = rng.normal(size=(M, F, C, 2))
    shifts, scales = rng.normal(size=(M, F, C)), rng.uniform(0.5, 2, size=(M, F, C))
    before = truth(block["posterior"], block["labels"])
    state = (block["labels"], block["folds"], block["posterior"], before)
    out = np.zeros(M)
    function = kernel.score_linear.py_func if plain else kernel.score_linear
    row = (tables, slopes, shifts, scales, logistic)
    function(block["codes"], values, numbers, parents, *state, *row, out)
    assert out[2] == 0
    folds = block["folds"]
    for i in (0, 1):
        used = parents[i][parents[i] >= 0]
        codes = block["codes"][:, i]
        mean = np.einsum("scp,sp->sc", slopes[i][folds][:, :, : len(used)], numbers[:, used])
        s = scales[i][folds] * (values[i][codes][:, None] - shifts[i][folds] - mean)
        density = -np.abs(s) - 2 * np.log1p(np.exp(-np.abs(s))) if logistic else -(s**2) / 2
        density[np.isnan(values[i][codes])] = 0
        after = block["posterior"] + tables[i][folds, :, codes] + density
        gain = truth(after, block["labels"]) - before
        assert out[i] == pytest.approx(gain.sum(), rel=1e-10)


def test_kernels__take_zero_rows_and_read_only_input(block):
    none = slice(0, 0)
    posterior = block["posterior"][none].copy()
    before = np.zeros(0)
    out = np.zeros(M)
    tables = np.zeros((M, F, C, B))
    tables.setflags(write=False)
    state = (block["labels"][none], block["folds"][none], posterior, before)
    kernel.score_tables(block["codes"][none], *state, tables, out)
    assert not out.any()
