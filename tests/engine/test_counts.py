"""Every reduction gives the same total for any split of the samples."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.engine.counts import (
    DESIGN_EFFECTS,
    MARGINAL_COUNTS,
    N_FOLDS,
    PAIR_COUNTS,
    PAIR_TERMS,
    TRIPLE_TERMS,
    GroupsContext,
    MarginalContext,
    PairContext,
    PairTermsContext,
    TripleTermsContext,
)
from hofs_dask.engine.posteriors import (
    GROUPS,
    KINDS,
    POSTERIOR_GAINS,
    CandidateRows,
    CoarseRow,
    GainsContext,
    LinearTerm,
    PosteriorRow,
)
from hofs_dask.engine.reduction import NO_WEIGHTS, Block, Tile, combine, frozen
from hofs_dask.engine.residuals import RESIDUALS
from hofs_dask.engine.rows import ROW_TERMS, ROW_VALUES, RowTermsContext, RowValuesContext
from hofs_dask.engine.tuples import GROUP_COUNTS, PARENT_COUNTS, GroupContext, ParentContext
from hofs_dask.kernels.cache import VARIABLE

N, M, C, B = 60, 4, 3, 5


def contexts():
    """Return a context for each reduction that covers every branch of its chunk function."""
    rng = np.random.default_rng(7)
    tables = rng.uniform(0.1, 1.0, size=(M, 2, N_FOLDS, C, B))
    pair = rng.uniform(0.1, 1.0, size=(M, 1, N_FOLDS, C, B * B))
    slopes, shifts = rng.normal(size=(M, 2, N_FOLDS, C, 2)), rng.normal(size=(M, 2, N_FOLDS, C))
    values = rng.normal(size=(M, B))
    values[1, 0] = np.nan
    none, first = np.zeros(0, int), np.array([0])
    linear = LinearTerm(values[1], slopes[1, 1, ..., :1].copy(), shifts[1, 1], shifts[2, 1] ** 2)
    groups = rng.integers(0, GROUPS, (1, 2, B)).astype(np.uint8)
    table = rng.uniform(0.1, 1.0, size=(N_FOLDS, C, GROUPS * B))
    coarse = CoarseRow(first, groups[0, :1], table)
    rows = (
        PosteriorRow("table", 0, none, np.log(tables[0, :1])),
        PosteriorRow("class", 1, first, np.log(tables[1, :1]), linear),
        PosteriorRow("pair", 1, first, np.log(pair[2])),
        PosteriorRow("coarse", 1, first, np.log(coarse.table)[None], groups=coarse.groups),
    )
    truth = rng.normal(size=(M, len(KINDS), N_FOLDS))
    truth[2, 1:] = 0.0
    candidates = CandidateRows(
        linear=("shared", "class"),
        table=tables[:, 0].copy(),
        values=values,
        parents=np.array([[0, 1], [1, -1], [-1, -1], [0, -1]]),
        linear_table=tables,
        slopes=slopes,
        shifts=shifts,
        scales=shifts**2,
        pair_parents=np.array([[1], [2], [-1], [1]]),
        pair_table=pair,
        coarse=(coarse,),
        coarse_place=np.array([-1, 0, -1, -1]),
        truth=truth,
    )
    filled = np.nan_to_num(values)
    gains = GainsContext(
        prior=np.log(np.full(C, 1 / C)),
        rows=rows,
        numbers=filled[:2],
        logistic=True,
        total=N,
        parts=tuple(range(16)),
        squares=True,
        candidates=candidates,
        wanted=np.ones(M, bool),
    )
    return {
        MARGINAL_COUNTS: MarginalContext(C, B),
        DESIGN_EFFECTS: GroupsContext(C, B, 50),
        PAIR_COUNTS: PairContext(C, B, by_fold=True),
        PAIR_TERMS: PairTermsContext(
            n_classes=C,
            parents=rng.normal(size=(2, B)),
            after=np.array([0, 2]),
            numbers=rng.normal(size=(M, B)),
            position=np.arange(M),
            marginals=np.zeros((M, C, B), np.int64),  # see `context_of`
        ),
        TRIPLE_TERMS: TripleTermsContext(
            n_classes=C,
            n_groups=3,
            heads=np.array([[0, 1], [1, 0]]),
            column_groups=rng.integers(0, 3, (2, B), np.uint8),
            groups=rng.integers(0, 3, (M, B), np.uint8),
        ),
        ROW_VALUES: RowValuesContext(
            members=rng.normal(size=(2, B)),
            sizes=(B, B),
            label_columns=np.eye(C)[:, :2],
            total=N,
            values=filled,
            theta=rng.uniform(0.1, 0.2, size=(M, 2, 6)),
        ),
        ROW_TERMS: RowTermsContext(
            members=rng.normal(size=(2, B)),
            n_classes=C,
            total=N,
            values=filled,
            rows=rng.normal(size=(M, 2, C + 3)),
            wanted=np.ones((M, 2), bool),
        ),
        POSTERIOR_GAINS: gains,
        RESIDUALS: gains,
        PARENT_COUNTS: ParentContext(
            C, B, GROUPS, np.array([[1, 0]]), groups, place=np.array([-1, -1, 0, -1])
        ),
        GROUP_COUNTS: GroupContext(2**64, C, GROUPS, rng.integers(0, GROUPS, (M, B), np.uint8)),
    }


CONTEXTS = contexts()


def samples(seed):
    rng = np.random.default_rng(seed)

    def draw(high, *shape):
        return rng.integers(0, high, shape).astype(np.uint8)

    columns, labels, folds = Tile.of(draw(B, 2, N)), draw(C, N), draw(N_FOLDS, N)
    weights = (draw(9, N) + np.uint16(1)) if seed % 2 else NO_WEIGHTS
    return Block(Tile.of(draw(B, M, N)), columns, labels, folds, draw(40, N), weights)


def rows_of(block, rows):
    return Block(
        Tile.of(block.codes[:, rows]),
        Tile.of(block.columns.codes[:, rows]),
        block.labels[rows],
        block.folds[rows],
        block.clusters[rows],
        block.weights[rows] if len(block.weights) else NO_WEIGHTS,
    )


def context_of(reduction, block):
    """Return the context of a reduction for a block, with its marginal counts for pair terms."""
    context = CONTEXTS[reduction]
    if reduction is not PAIR_TERMS:
        return context
    marginals = np.zeros((M, C, B), np.int64)
    for i, codes in enumerate(block.codes):
        weights = block.weights if len(block.weights) else 1
        np.add.at(marginals[i], (block.labels, codes), weights)
    return replace(context, marginals=marginals)


def finished(reduction, block, splits):
    """Return the total over blocks split at ``splits``, one partial each, combined in order."""
    context = context_of(reduction, block)
    total = reduction.identity(context, M)
    n_samples = len(block.labels)
    for start, stop in zip([0, *splits], [*splits, n_samples], strict=True):
        partial = reduction.identity(context, M)
        reduction.chunk(reduction.prepare(context), rows_of(block, slice(start, stop)), partial)
        total = combine(total, partial)
    return reduction.finalize(context, total)


@pytest.mark.parametrize("reduction", list(CONTEXTS), ids=lambda reduction: reduction.name)
@given(seed=st.integers(0, 5), splits=st.lists(st.integers(0, N), max_size=6).map(sorted))
def test_reduction__is_the_same_for_any_split(reduction, seed, splits):
    block = samples(seed)
    whole, cut = finished(reduction, block, []), finished(reduction, block, splits)
    for name, array in whole.items():
        if array.dtype.kind == "i":
            np.testing.assert_array_equal(cut[name], array)
        else:
            np.testing.assert_allclose(cut[name], array, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reduction", list(CONTEXTS), ids=lambda reduction: reduction.name)
@given(seed=st.sampled_from([1, 3, 5]))
def test_reduction__with_integer_weights_equals_repeated_samples(reduction, seed):
    if reduction in (DESIGN_EFFECTS, RESIDUALS):
        return  # these are not linear in the weights, see `test_residuals`
    block = samples(seed)
    repeated = replace(rows_of(block, np.repeat(np.arange(N), block.weights)), weights=NO_WEIGHTS)
    found, expected = finished(reduction, block, []), finished(reduction, repeated, [])
    for name in set(found) - {"square"}:  # the squares are those of weighted gains
        if found[name].dtype.kind == "i":
            np.testing.assert_array_equal(found[name], expected[name])
        else:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduction", list(CONTEXTS), ids=lambda reduction: reduction.name)
@given(seed=st.integers(0, 5), edge=st.integers(1, M - 1))
def test_reduction__is_the_same_for_any_tiles(reduction, seed, edge):
    block = samples(seed)
    context = context_of(reduction, block)
    tiles = []
    for features in (slice(0, edge), slice(edge, M)):
        part = context.take(features)
        partial = reduction.identity(part, features.stop - features.start)
        cut = replace(block, tile=Tile.of(block.codes[features]))
        ready = reduction.prepare(part)
        if ready is not None:  # no feature of the tile is needed
            reduction.chunk(ready, cut, partial)
        tiles.append(reduction.finalize(part, partial))
    result = {name: np.concatenate([tile[name] for tile in tiles]) for name in tiles[0]}
    expected = finished(reduction, block, [])
    for name, array in expected.items():
        np.testing.assert_allclose(result[name], array, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduction", list(CONTEXTS), ids=lambda reduction: reduction.name)
def test_reduction__nbytes_is_the_size_of_its_partial(reduction):
    context = CONTEXTS[reduction]
    partial = reduction.identity(context, M)
    assert reduction.nbytes(context, M) == sum(array.nbytes for array in partial.values())


@pytest.mark.parametrize("reduction", list(CONTEXTS), ids=lambda reduction: reduction.name)
def test_reduction__does_not_change_its_input(reduction):
    """With writable and with read-only arrays."""
    block = samples(0)
    context = context_of(reduction, block)
    given = (context, block.tile.planes, block.columns.planes, block.labels, block.parts)
    before = pickle.dumps(given)
    totals = []
    for ready in (reduction.prepare(context), frozen(reduction.prepare(context))):
        total = reduction.identity(context, M)
        reduction.chunk(ready, block, total)
        kept = {name: array.copy() for name, array in total.items()}
        totals.append(reduction.finalize(context, total))
        for name, array in kept.items():
            np.testing.assert_array_equal(total[name], array)
    assert pickle.dumps(given) == before
    for name, array in totals[0].items():
        np.testing.assert_array_equal(array, totals[1][name])


def test_posterior_gains__are_zero_for_kinds_that_a_candidate_does_not_have():
    gain = finished(POSTERIOR_GAINS, samples(0), [])["gain"]
    assert not gain[2, [KINDS.index("shared"), KINDS.index("class"), KINDS.index("pair")]].any()
    others = [number for number, kind in enumerate(KINDS) if kind != "coarse"]
    assert gain[np.ix_([0, 1, 3], others)].all()


def test_compile_kernels__leaves_nothing_to_compile_for_a_selection(tmp_path):
    """In a process of its own: what is compiled there already would hide a gap."""
    script = """
import importlib, pkgutil
import numpy as np
import hofs_dask as hd
import hofs_dask.kernels
from hofs_dask.kernels._jit import compile_kernels, kernels_in

names = [module.name for module in pkgutil.iter_modules(hofs_dask.kernels.__path__)]
modules = [importlib.import_module("hofs_dask.kernels." + name) for name in names]

rng = np.random.default_rng(0)
x1, x2 = rng.integers(0, 2, (2, 500))
x = np.column_stack([x1, x2, rng.normal(size=(500, 4)) + (x1 == x2)[:, None]])
x[:, 5] = x[:, 4] + rng.normal(size=500)
kernels = kernels_in(modules)
compile_kernels(kernels)

def refuse(*given):
    raise AssertionError(f"a call that fits no declared signature exactly: {given}")

for kernel in kernels:
    kernel._compile_for_args = refuse
codes = hd.encode(x, x1 == x2, "codes.zarr")
for dtype in ("f4", "f8"):  # so many cells that kernels encode them
    hd.encode(np.tile(x, (100, 1)).astype(dtype), np.tile(x1 == x2, 100), f"{dtype}.zarr")
for criterion in ("joint", "sum", "mean"):
    hd.select(codes, None, 6, method=hd.HOFS(criterion=criterion))
for method in ("jmi", "jmi3", "vmi", hd.VMI(form="pairwise"), hd.SpecCMI(form="spectral")):
    hd.select(codes, None, 4, method=method)
print("nothing left to compile")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        # kernels come from the cache; without one, compile fast, as their speed is irrelevant
        env=os.environ | ({"NUMBA_OPT": "0"} if os.environ.get(VARIABLE) == "" else {}),
    )
    assert done.stdout.strip() == "nothing left to compile", done.stderr


@pytest.mark.parametrize("some", [False, True])
def test_tile__returns_codes_of_samples_in_any_order(some):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, (3, 1000)).astype(np.uint8)
    tile = Tile.of(codes)
    if some:
        places = np.sort(rng.integers(0, 1000, 700))
        tile, codes = tile.take(places), codes[:, places]
    for n in (0, 1, 500):
        samples = rng.permutation(codes.shape[1])[:n]
        found = tile.some(samples, np.empty(3 * 500, np.uint8))
        np.testing.assert_array_equal(found, codes[:, samples])
