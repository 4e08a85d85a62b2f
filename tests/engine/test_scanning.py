"""Results do not depend on chunks, tiles or scheduler, also on a two-process cluster."""

import itertools
import shutil
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from distributed.protocol.pickle import dumps
from hypothesis import given
from hypothesis import strategies as st

import hofs_dask as hd
from hofs_dask.engine import scanning
from hofs_dask.engine.counts import MARGINAL_COUNTS, MarginalContext
from hofs_dask.engine.partition import Partition
from hofs_dask.engine.reduction import Request
from hofs_dask.errors import CodeStoreError
from hofs_dask.kernels.hashing import fold_of, row_hash
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.store.copies import known_copies
from hofs_dask.store.layout import layout_of

N, M = 4500, 9
METHODS = {
    "joint": hd.HOFS(),
    "joint gaussian": hd.HOFS(source="gaussian"),
    "sum": hd.HOFS(criterion="sum"),
    "mean": hd.HOFS(criterion="mean", source="gaussian"),
}


def mixed_data():
    """Return data with numbers, categories, missing values, interactions and three classes."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, N)
    x = rng.normal(size=(N, M))
    x[:, 0] += y
    x[:, 1] = x[:, 0] + rng.normal(size=N)
    x[:, 2] = np.where(y == 1, -1, 1) * x[:, 3] + 0.5 * rng.normal(size=N)
    x[:, 4] = np.where(rng.random(N) < 0.5, np.array([2, 0, 1])[y], rng.integers(0, 4, N))
    x[:, 5] *= 1 + 0.5 * y
    x[rng.random(N) < 0.1, 1] = np.nan
    return x, np.where(np.arange(N) % 50 == 0, np.nan, y)


X, Y = mixed_data()


def answer(tmp_path, chunks, method, scheduler=None):
    codes = hd.encode(
        X, Y, tmp_path / "codes.zarr", chunks=chunks, nominal=["x4"], target_kind="class"
    )
    with dask.config.set({} if scheduler is None else {"scheduler": scheduler}):
        return hd.select(codes, None, 7, method=method)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return {
        name: answer(tmp_path_factory.mktemp("whole"), (N, M), method, "synchronous")
        for name, method in METHODS.items()
    }


def assert_same(result, expected):
    assert result.features == expected.features
    assert result.subsets == expected.subsets
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("length", "tile", "scheduler"),
    [
        (97, 7, "threads"),
        (97, M, "synchronous"),
        (1000, 1, "synchronous"),
        (1000, 7, "threads"),
        (4096, 1, "threads"),
        (4096, 7, "synchronous"),
        (N, 1, "threads"),
        (N, 7, "synchronous"),
        (N, M, "threads"),
    ],
)
@pytest.mark.parametrize("name", METHODS)
def test_selection__is_the_same_for_any_chunks(tmp_path, expected, name, length, tile, scheduler):
    assert_same(answer(tmp_path, (length, tile), METHODS[name], scheduler), expected[name])


@pytest.mark.parametrize("name", METHODS)
def test_selection__is_the_same_on_two_processes(tmp_path, expected, client, name):
    assert_same(answer(tmp_path, (1000, 7), METHODS[name]), expected[name])


def test_selection__is_the_same_for_any_chunks_of_the_source(tmp_path, expected):
    for length in (97, 1000, N):
        source = dask.array.from_array(X, chunks=(length, 4))
        target = dask.array.from_array(Y, chunks=313)
        result = hd.select(source, target, 7, nominal=["x4"], target_kind="class")
        assert_same(result, expected["joint"])


def test_scan__calls_compute_once(tmp_path, monkeypatch):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr", chunks=(500, 4), target_kind="class")
    calls = []
    compute = dask.base.compute

    def counting(*args, **options):
        calls.append(len(args))
        return compute(*args, **options)

    monkeypatch.setattr(dask.base, "compute", counting)
    context = MarginalContext(3, int(codes.n_codes.max()))
    scanning.run(codes, [Request(MARGINAL_COUNTS, context)])
    assert calls == [3]  # one call with one total per tile


def test_scan__graph_is_small_for_a_thousand_chunks(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(20_000, 3))
    codes = hd.encode(x, x[:, 0] > 0, tmp_path / "codes.zarr", chunks=(20, 3))
    many = Partition(layout_of(codes), task_cells=60, most_tasks=1000, least_spans=1000)
    sizes = []
    compute = dask.base.compute

    def measuring(*args, **options):
        graphs = [dict(arg.__dask_graph__()) for arg in args]
        sizes.append((len(dumps(graphs)), len(graphs[0])))
        return compute(*args, **options)

    monkeypatch.setattr(dask.base, "compute", measuring)
    context = MarginalContext(2, int(codes.n_codes.max()))
    scanning.run(codes, [Request(MARGINAL_COUNTS, context)], partition=many)
    (n_bytes, n_tasks) = sizes[0]
    assert n_tasks > 1000
    assert n_bytes < 1_000_000


def test_folds__do_not_depend_on_the_start_of_a_block():
    whole = fold_of(0, 1000, 4)
    np.testing.assert_array_equal(whole[300:500], fold_of(300, 500, 4))
    hashed = row_hash(np.arange(1000, dtype=np.uint64))
    np.testing.assert_array_equal(whole, hashed % np.uint64(4))
    # four folds of about a quarter: 1000 draws, standard deviation below 14
    assert np.bincount(whole, minlength=4) == pytest.approx(np.full(4, 250), abs=60)


def test_tiles__a_chosen_column_is_copied_once(tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr", chunks=(1000, 4), target_kind="class")
    first = hd.select(codes, None, 4, method=hd.HOFS(order=1))
    copies = set(known_copies(codes))
    # the last pick is not a column of any reduction
    assert copies == set(first.indices[:-1].tolist())
    written = {
        path: path.stat().st_mtime_ns
        for path in Path(codes.place, "columns").rglob("c/0/*")
        if path.is_file()
    }
    assert len(written) == len(copies) * 5
    assert hd.select(codes, None, 4, method=hd.HOFS(order=1)) == first
    assert all(path.stat().st_mtime_ns == time for path, time in written.items())


def test_tiles__a_single_tile_needs_no_copies(tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr", chunks=(1000, M), target_kind="class")
    hd.select(codes, None, 3)
    assert not Path(codes.place, "columns").exists()


def test_tiles__a_read_only_store_gives_the_same_result(tmp_path, monkeypatch):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr", chunks=(1000, 4), target_kind="class")
    Path(codes.place, "columns").write_text("no folder can be made here")
    alone = hd.select(codes, None, 4)
    assert not known_copies(codes)
    Path(codes.place, "columns").unlink()
    assert hd.select(codes, None, 4) == alone
    assert known_copies(codes)


def test_tiles__disk_space_for_only_some_copies_gives_the_same_result(tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr", chunks=(1000, 4), target_kind="class")
    picks = hd.select(codes, None, 4)
    shutil.rmtree(Path(codes.place, "columns"))
    Path(codes.place, "columns.json").unlink()
    Path(codes.place, "columns", str(picks.indices[0]), "c", "0", "3").mkdir(parents=True)
    assert hd.select(codes, None, 4) == picks
    assert picks.indices[0] not in known_copies(codes)


def test_tiles__a_damaged_copy_is_detected(tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes.zarr", chunks=(1000, 4), target_kind="class")
    picks = hd.select(codes, None, 4)
    first, second = (
        Path(codes.place, "columns", str(column), "c", "0", "2") for column in picks.indices[:2]
    )
    first.write_bytes(second.read_bytes())
    PROCESS.chunks.clear()
    with pytest.raises(
        CodeStoreError, match=rf"'columns/{picks.indices[0]}' .*does not match its checksum"
    ):
        hd.select(codes, None, 4)


@given(
    n_spans=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    fan_in=st.integers(2, 5),
)
def test_tree__adds_floats_in_the_same_order_for_any_distribution_of_spans(n_spans, cuts, fan_in):
    values = np.random.default_rng(n_spans).normal(size=n_spans) * 10.0 ** np.arange(n_spans)

    def level(parts):
        return [
            parts[a] + parts[a + 1] if a + 1 < len(parts) else parts[a]
            for a in range(0, len(parts), 2)
        ]

    expected = values
    while len(expected) > 1:
        expected = level(expected)
    partition = SimpleNamespace(spans=[None] * n_spans)
    plan = SimpleNamespace(jobs=(None,), place=SimpleNamespace(partition=partition))
    edges = sorted({0, n_spans, *(cut for cut in cuts if cut < n_spans)})
    partials = []
    for a, b in itertools.pairwise(edges):
        nodes = {}
        for span in range(a, b):
            nodes[0, span] = {"sum": values[span]}
            scanning._climb(nodes, n_spans)
        assert len(nodes) <= 2 * n_spans.bit_length()
        partials.append((nodes,))
    while len(partials) > 1:
        partials = [
            scanning._combine(plan, *partials[a : a + fan_in])
            for a in range(0, len(partials), fan_in)
        ]
    ((total,),) = ((nodes.values()) for nodes in partials[0])
    assert total["sum"] == expected[0]
