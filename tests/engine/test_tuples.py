import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.engine.reduction import Block, Tile, combine
from hofs_dask.engine.tuples import TUPLES, TupleContext

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
        top=100,
        least=0.0,
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
