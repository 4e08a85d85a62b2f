from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.engine.reduction import ALL_HASHES, Block, Tile, combine
from hofs_dask.engine.tuples import GROUP_COUNTS, TUPLES, GroupContext, TupleContext
from hofs_dask.kernels.hashing import row_hash

M, N, B, C = 5, 200, 4, 3


def samples():
    rng = np.random.default_rng(0)
    return rng.integers(0, B, (M, N)).astype(np.uint8), rng.integers(0, C, N).astype(np.uint8)


def context_of(codes, labels, order):
    counts = np.zeros((M, C, B), np.int64)
    for i, row in enumerate(codes):
        np.add.at(counts[i], (labels, row), 1)
    groups = np.tile(np.arange(B, dtype=np.uint8), (M, 1))
    columns = np.array([0, 2, 3])
    return TupleContext(
        order=order,
        below=ALL_HASHES,
        top=100,
        least=0.0,
        evidence=1.0,
        heads=np.array([[0], [1], [2]] if order == 2 else [[0, 1], [0, 2], [1, 2]]),
        columns=columns,
        column_groups=groups[columns],
        column_counts=counts[columns],
        position=np.arange(M),
        usable=np.ones(M, bool),
        groups=groups,
        counts=counts,
    )


def block_of(codes, labels, samples=slice(None)):
    return Block(
        Tile.of(codes[:, samples]),
        Tile.of(codes[[0, 2, 3]][:, samples]),
        labels[samples],
        np.zeros(len(labels[samples]), np.uint8),
    )


@pytest.mark.parametrize("order", [2, 3])
def test_tuples__counts_are_those_of_a_loop(order):
    codes, labels = samples()
    context = context_of(codes, labels, order)
    total = TUPLES.identity(context, M)
    TUPLES.chunk(context, block_of(codes, labels), total)
    g = B - 1
    joint = total["joint"].reshape(C, 3, *[g] * (order - 1), M, g)
    for h, head in enumerate(context.heads):
        columns = context.columns[head]
        for i in range(columns[-1] + 1, M):
            expected = np.zeros((C, *[B] * order), int)
            np.add.at(expected, (labels, *codes[columns], codes[i]), 1)
            inner = expected[(slice(None), *[slice(1, None)] * order)]
            np.testing.assert_array_equal(joint[:, h, ..., i, :], inner)


@pytest.mark.parametrize("order", [2, 3])
@given(splits=st.lists(st.integers(0, N), max_size=5).map(sorted))
def test_tuples__are_the_same_for_any_split(order, splits):
    codes, labels = samples()
    context = context_of(codes, labels, order)
    whole = TUPLES.identity(context, M)
    TUPLES.chunk(context, block_of(codes, labels), whole)
    total = TUPLES.identity(context, M)
    for start, stop in zip([0, *splits], [*splits, N], strict=True):
        partial = TUPLES.identity(context, M)
        TUPLES.chunk(context, block_of(codes, labels, slice(start, stop)), partial)
        total = combine(total, partial)
    for name, array in whole.items():
        np.testing.assert_array_equal(total[name], array)
    found, expected = TUPLES.finalize(context, total), TUPLES.finalize(context, whole)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("order", [2, 3])
def test_tuples__nbytes_and_tiles_without_tuples(order):
    context = context_of(*samples(), order)
    partial = TUPLES.identity(context, M)
    assert TUPLES.nbytes(context, M) == sum(array.nbytes for array in partial.values())
    assert TUPLES.prepare(context.take(slice(0, 1))) is None
    assert TUPLES.prepare(context.take(slice(4, 5))) is not None


@pytest.mark.parametrize("order", [2, 3])
def test_tuples__of_drawn_samples_are_those_of_these_samples_alone(order):
    codes, labels = samples()
    below, start = 2**62, 1000
    drawn = [s for s in range(N) if int(row_hash(np.array([start + s]))[0]) < below]
    assert 20 < len(drawn) < 80
    context = context_of(codes[:, drawn], labels[drawn], order)
    alone = TUPLES.identity(context, M)
    TUPLES.chunk(context, block_of(codes, labels, drawn), alone)
    some = replace(context, below=below)
    grouped = GroupContext(below, C, B, context.groups)
    total, counts = TUPLES.identity(some, M), GROUP_COUNTS.identity(grouped, M)
    for cut in (slice(0, 77), slice(77, N)):
        block = replace(block_of(codes, labels, cut), start=start + cut.start)
        TUPLES.chunk(some, block, total)
        GROUP_COUNTS.chunk(grouped, block, counts)
    for name, array in alone.items():
        assert (total[name] == array).all()
    assert (counts["counts"] == context.counts).all()


def test_drawn__depends_on_the_rows_of_a_resample():
    codes, labels = samples()
    block = replace(block_of(codes, labels), start=5)
    own = block.drawn(2**63)
    twice = np.repeat(np.arange(N), 2)
    taken = replace(block, tile=block.tile.take(twice), labels=labels[twice])
    assert taken.drawn(2**63).tolist() == [2 * s + k for s in own for k in (0, 1)]
    assert block.drawn(ALL_HASHES).tolist() == list(range(N))
