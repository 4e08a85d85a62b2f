"""Plans: chunks, reductions, scans, bytes and memory of a run that has not started."""

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from distributed.protocol.pickle import dumps

import hofs_dask as hd
from hofs_dask.engine.cluster import RESIDENT, Worker
from hofs_dask.planning.explain import plan_search

N, M = 4000, 30


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    x = rng.normal(size=(N, M)) + 0.5 * y[:, None]
    return hd.encode(x, y, tmp_path_factory.mktemp("explain") / "codes.zarr", bins=8)


def events_of(run, kind):
    events = []
    run(events.append)
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize(
    "method",
    [hd.HOFS(order=1), hd.JMI(), hd.SpecCMI(form="spectral"), hd.VMI(restart=100.0)],
    ids=lambda method: method.label,
)
def test_plan__counts_the_reductions_and_scans_of_the_run(codes, method):
    plan = hd.estimate(codes, n_features=6, method=method)
    done = events_of(
        lambda callback: hd.select(codes, None, 6, method=method, callback=callback), hd.ScanEnded
    )
    assert plan.searching.n_scans == len(done)
    assert plan.searching.reductions == Counter(event.reduction for event in done)


def test_plan__of_a_comparison_counts_shared_scans_and_separate_reductions(codes):
    hofs = hd.HOFS(order=1)
    plan = hd.estimate(codes, n_features=4, method=["jmi", "mrmr", hofs], n_resamples=2)
    alone = hd.estimate(codes, n_features=4, method=hofs)
    assert plan.searching.n_scans == alone.searching.n_scans
    assert plan.searching.reductions == {
        "marginal-counts": 3,
        "pair-terms": 3 * 2 * 3,
        "pair-counts": 3 * 3,
        "posterior-gains": 3 * 3,
    }


def test_plan__is_an_upper_bound_for_a_comparison(codes):
    options = {"n_resamples": 2}
    plan = hd.estimate(codes, n_features=4, method=["jmi", "vmi", "hofs"], **options)
    done = hd.compare(codes, None, 4, methods=["jmi", "vmi", "hofs"], **options)
    attrs = done.to_dataset().attrs
    assert attrs["n_scans"] <= plan.searching.n_scans
    assert attrs["n_reductions"] <= sum(plan.searching.reductions.values())


def test_plan__cached_bytes_are_read_once_and_others_in_every_scan(codes):
    searching = hd.estimate(codes, n_features=4, method="jmi").searching
    assert searching.n_read == searching.scan_bytes
    with dask.config.set({"hofs_dask.cache": "0 B"}):
        searching = hd.estimate(codes, n_features=4, method="jmi").searching
    assert searching.n_read == searching.scan_bytes * searching.n_scans


def test_plan__text_fits_a_terminal(codes):
    text = str(hd.estimate(codes, n_features=4, method=["hofs", "jmi"], n_resamples=3))
    assert max(map(len, text.splitlines())) <= 80
    assert "\N{NO-BREAK SPACE}" not in text
    for word in ("bits per code", "no shards", "at most", "pair-counts", "resident", "it fits"):
        assert word in text


def test_plan__text_names_the_refused_reduction_and_the_remedy(codes):
    small = (Worker("", 1, RESIDENT + 2**20, RESIDENT),)
    plan = plan_search(codes, [hd.HOFS()], 4, current=small)
    assert not plan.memory.fits
    assert repr(plan) == str(plan)  # what a notebook shows
    text = " ".join(str(plan).split())
    assert "it would be refused: the reduction " in text
    assert "give the workers" in text


@pytest.mark.parametrize("resident", [100 * 2**20, 2 * RESIDENT])
def test_plan__includes_memory_of_kernels_that_are_not_compiled_yet(codes, resident):
    workers = (Worker("", 1, 2**33, resident),)
    plan = plan_search(codes, [hd.HOFS()], 4, current=workers)
    assert plan.memory.resident == max(resident, RESIDENT)
    assert ("compiled kernels take" in str(plan)) == (resident < RESIDENT)


def test_plan__of_a_source_reads_no_data_and_states_its_assumptions():
    def refuse(block):
        raise AssertionError(f"a block of {block.shape} was read")

    lazy = da.zeros((100_000, 20), chunks=(10_000, 20), dtype=np.float32).map_blocks(
        refuse, dtype=np.float32, meta=np.zeros((0, 0), np.float32)
    )
    y = da.zeros(100_000, chunks=10_000, dtype=np.int64)
    plan = hd.estimate(lazy, y, 5, bins=12, method="jmi")
    assert plan.layout.bits == 4
    assert plan.encoding.n_read == 2 * 100_000 * 20 * 4
    assert plan.encoding.held == 10_000 * 20 * 4
    assert plan.searching.n_scans == 5
    assert "13 codes per feature (bins=12" in str(plan)
    alone = hd.estimate(lazy, y, bins=12, chunks=(5000, 7))
    assert alone.layout.chunks == (5000, 7)
    with pytest.raises(ValueError, match="give n_features for the memory"):
        _ = alone.memory


def test_estimate__missing_or_wrong_arguments_are_errors(codes):
    with pytest.raises(ValueError, match="encoded already; give n_features"):
        hd.estimate(codes)
    with pytest.raises(ValueError, match="unknown method 'hosf'"):
        hd.estimate(codes, n_features=3, method="hosf")
    with pytest.raises(ValueError, match="n_features is 31 but only 30"):
        hd.estimate(codes, n_features=31)


def test_estimate__takes_the_same_arguments_as_select(codes):
    frame = pd.DataFrame({"a": np.arange(50.0), "b": np.arange(50) % 7, "y": np.arange(50) % 2})
    by_name = hd.estimate(frame, "y", n_features=2)
    for plan in (hd.estimate(frame, "y", 2), hd.estimate(frame, target="y", n_features=2)):
        assert plan.title == by_name.title
        assert plan.searching.reductions == by_name.searching.reductions
    assert str(by_name).startswith("hofs: 2 of 2 features; 50 samples")
    assert "12 of 30" in str(hd.estimate(codes, None, 12))
    with pytest.raises(TypeError, match="target is a int, but a code store keeps its labels by"):
        hd.estimate(codes, 3)


@pytest.mark.parametrize("method", ["jmi", "hofs"])
def test_plan__on_a_cluster_sends_small_graphs_and_runs_no_scan(codes, client, monkeypatch, method):
    graphs = []
    send = type(client)._send_to_scheduler

    def listening(own, message):
        if message["op"] == "update-graph":
            graphs.append(message)
        send(own, message)

    monkeypatch.setattr(type(client), "_send_to_scheduler", listening)
    plan = hd.estimate(codes, n_features=3, method=[method, hd.VMI(form="pairwise")])
    assert plan.searching.n_workers == plan.searching.n_threads == 2
    assert "of 2 workers" in " ".join(str(plan).split())
    keys = [key for graph in graphs for key in graph["keys"]]
    assert all(key.startswith("prepare-") for key in keys)
    assert len(keys) <= 2
    assert sum(len(dumps(graph)) for graph in graphs) < 20_000
