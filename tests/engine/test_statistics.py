"""The law of every statistic: any split of the samples gives the same finished total."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.engine.statistic import Block, Context
from hofs_dask.engine.statistics import (
    KINDS,
    MARGINAL_COUNTS,
    N_FOLDS,
    PAIR_COUNTS,
    POSTERIOR_GAINS,
    ROW_TERMS,
    PosteriorRow,
)

N, M, C, B = 60, 4, 3, 5


def contexts():
    """A context for each statistic, with every branch of its chunk function in it."""
    rng = np.random.default_rng(7)
    tables = rng.normal(size=(M, N_FOLDS, C, B))
    pair = rng.normal(size=(M, N_FOLDS, C, B, B))
    slopes, shifts = rng.normal(size=(M, N_FOLDS, C, 2)), rng.normal(size=(M, N_FOLDS, C))
    values = rng.normal(size=(M, B))
    values[1, 0] = np.nan
    none, first = np.zeros(0, int), np.array([0])
    linear = (values[1], slopes[1][..., :1], shifts[1], shifts[2] ** 2)
    rows = (
        PosteriorRow("table", 0, none, tables[0]),
        PosteriorRow("class", 1, first, tables[1], *linear),
        PosteriorRow("pair", 1, first, pair[2]),
    )
    candidates = {
        "values": values,
        "table": tables,
        "parents": np.array([[0, 1], [1, -1], [-1, -1], [0, -1]]),
        "pair_parent": np.array([0, 1, -1, 0]),
        "pair_table": pair,
    }
    for kind in ("shared", "class"):
        candidates[f"{kind}_table"] = tables
        candidates[f"{kind}_slopes"] = slopes
        candidates[f"{kind}_shifts"] = shifts
        candidates[f"{kind}_scales"] = shifts**2
    sizes = {"n_classes": C, "n_codes": B}
    return {
        MARGINAL_COUNTS: Context(sizes),
        PAIR_COUNTS: Context({**sizes, "by_fold": True}),
        ROW_TERMS: Context(
            {
                "members": rng.normal(size=(2, B)),
                "label_columns": rng.normal(size=(C, 2)),
                "n_samples": N,
            },
            {"values": np.nan_to_num(values), "theta": rng.normal(size=(M, 2, 6))},
        ),
        POSTERIOR_GAINS: Context(
            {
                "prior": np.log(np.full(C, 1 / C)),
                "rows": rows,
                "numbers": np.nan_to_num(values[:2]),
                "logistic": True,
                "n_samples": N,
            },
            candidates,
        ),
    }


CONTEXTS = contexts()


def samples(seed):
    rng = np.random.default_rng(seed)

    def draw(high, *shape):
        return rng.integers(0, high, shape).astype(np.uint8)

    return Block(draw(B, N, M), draw(B, N, 2), draw(C, N), draw(N_FOLDS, N))


def rows_of(block, rows):
    return Block(block.codes[rows], block.columns[rows], block.labels[rows], block.folds[rows])


def finished(statistic, block, splits):
    """The total over blocks cut at ``splits``, one partial each, combined in order."""
    context = CONTEXTS[statistic]
    total = statistic.identity(context, M)
    for start, stop in zip([0, *splits], [*splits, N], strict=True):
        partial = statistic.identity(context, M)
        statistic.chunk(context, rows_of(block, slice(start, stop)), partial)
        total = statistic.combine(total, partial)
    return statistic.finalize(context, total)


@pytest.mark.parametrize("statistic", list(CONTEXTS), ids=lambda statistic: statistic.name)
@given(seed=st.integers(0, 5), splits=st.lists(st.integers(0, N), max_size=6).map(sorted))
def test_statistic__is_the_same_for_any_split(statistic, seed, splits):
    block = samples(seed)
    whole, cut = finished(statistic, block, []), finished(statistic, block, splits)
    for name, array in whole.items():
        if array.dtype.kind == "i":
            np.testing.assert_array_equal(cut[name], array)
        else:
            np.testing.assert_allclose(cut[name], array, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("statistic", list(CONTEXTS), ids=lambda statistic: statistic.name)
@given(seed=st.integers(0, 5), edge=st.integers(1, M - 1))
def test_statistic__is_the_same_for_any_tiles(statistic, seed, edge):
    block, context = samples(seed), CONTEXTS[statistic]
    tiles = []
    for features in (slice(0, edge), slice(edge, M)):
        part = context.tile(features)
        partial = statistic.identity(part, features.stop - features.start)
        cut = Block(block.codes[:, features], block.columns, block.labels, block.folds)
        statistic.chunk(part, cut, partial)
        tiles.append(partial)
    whole = {name: np.concatenate([tile[name] for tile in tiles]) for name in tiles[0]}
    result, expected = statistic.finalize(context, whole), finished(statistic, block, [])
    for name, array in expected.items():
        np.testing.assert_allclose(result[name], array, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("statistic", list(CONTEXTS), ids=lambda statistic: statistic.name)
def test_statistic__nbytes_is_the_size_of_its_partial(statistic):
    context = CONTEXTS[statistic]
    partial = statistic.identity(context, M)
    assert statistic.nbytes(context, M) == sum(array.nbytes for array in partial.values())


@pytest.mark.parametrize("statistic", list(CONTEXTS), ids=lambda statistic: statistic.name)
def test_statistic__leaves_its_input_alone(statistic):
    block, context = samples(0), CONTEXTS[statistic]
    for array in (block.codes, block.columns, block.labels, block.folds):
        array.setflags(write=False)
    statistic.chunk(context, block, statistic.identity(context, M))


def test_posterior_gains__are_zero_where_a_candidate_has_no_row_of_a_kind():
    gain = finished(POSTERIOR_GAINS, samples(0), [])["gain"]
    assert not gain[2, [KINDS.index("shared"), KINDS.index("class"), KINDS.index("pair")]].any()
    assert gain[[0, 1, 3]].all()


def test_warm_up__leaves_nothing_to_compile_for_a_selection(tmp_path):
    """In a process of its own: what is compiled there already would hide a gap."""
    script = """
import numpy as np
import hofs_dask as hd
from hofs_dask.engine.statistics import warm_up
from hofs_dask.kernels import counts, posterior, rows

def compiled():
    modules = (counts, posterior, rows)
    return {
        (module.__name__, name): len(function.signatures)
        for module in modules for name, function in vars(module).items()
        if hasattr(function, "signatures")
    }

warm_up()
before = compiled()
rng = np.random.default_rng(0)
x1, x2 = rng.integers(0, 2, (2, 500))
x = np.column_stack([x1, x2, rng.normal(size=(500, 4)) + (x1 == x2)[:, None]])
x[:, 5] = x[:, 4] + rng.normal(size=500)
for criterion in ("joint", "sum", "mean"):
    hd.select(x, x1 == x2, 6, method=hd.HOFS(criterion=criterion))
after = compiled()
assert after == before, set(after.items()) - set(before.items())
print("nothing left to compile")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "nothing left to compile", done.stderr
