"""A run is explained before anything of it runs: layout, reductions, bytes, memory and time."""

import dask
import dask.array as da
import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.engine import cluster, scanning
from hofs_dask.engine.cluster import Worker

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
    [hd.HOFS(), hd.JMI(), hd.SpecCMI(form="spectral"), hd.VMI(restart=0.0)],
    ids=lambda method: method.label,
)
def test_plan__counts_the_reductions_and_cells_of_the_run(codes, method):
    plan = hd.estimate(codes, 6, method=method)
    done = events_of(
        lambda callback: hd.select(codes, None, 6, method=method, callback=callback), hd.ScanEnded
    )
    assert plan.searching.n_scans == len(done)
    planned = {each.reduction: each.n_reductions for each in plan.searching.reductions}
    assert planned == {
        name: sum(event.reduction == name for event in done)
        for name in {event.reduction for event in done}
    }
    if method.label != "spec_cmi(form='spectral')":
        n_cells = sum(each.n_cells for each in plan.searching.reductions)
        assert n_cells == sum(event.n_cells for event in done)


def test_plan__of_all_pairs_counts_each_pair_once(codes):
    plan = hd.estimate(codes, 1, method=hd.SpecCMI(form="spectral"))
    (pairs,) = (each for each in plan.searching.reductions if each.reduction == "pair-terms")
    assert pairs.n_cells == N * M * (M + 1) // 2


def test_plan__of_a_comparison_shares_scans_but_not_reductions(codes):
    methods = ["jmi", "mrmr", "hofs"]
    plan = hd.estimate(codes, 4, method=methods, n_resamples=2)
    alone = hd.estimate(codes, 4)
    assert plan.searching.n_scans == alone.searching.n_scans
    assert {each.reduction: each.n_reductions for each in plan.searching.reductions} == {
        "marginal-counts": 3,
        "pair-terms": 3 * 2 * 3,
        "pair-counts": 3 * 3,
        "posterior-gains": 3 * 3,
    }


def test_plan__reads_what_is_kept_once_and_the_rest_every_scan(codes):
    searching = hd.estimate(codes, 4, method="jmi").searching
    assert searching.n_read == searching.scan_bytes
    with dask.config.set({"hofs_dask.cache": "0 B"}):
        searching = hd.estimate(codes, 4, method="jmi").searching
    assert searching.n_read == searching.scan_bytes * searching.n_scans


def test_plan__is_a_page_that_fits_a_terminal(codes):
    text = str(hd.estimate(codes, 4, method=["hofs", "jmi"], n_resamples=3))
    assert max(map(len, text.splitlines())) <= 80
    assert "\N{NO-BREAK SPACE}" not in text
    for word in ("bits a code", "no shards", "pair-counts", "a round", "resident", "about"):
        assert word in text


def test_plan__says_what_would_be_refused_and_what_to_do(codes, monkeypatch):
    resident = 100 * 2**20
    small = (Worker("", 1, int(1.4 * resident), resident),)
    monkeypatch.setattr(cluster, "current_workers", lambda *_: small)
    monkeypatch.setattr(scanning, "current_workers", lambda *_: small)
    monkeypatch.setattr("hofs_dask.planning.explain.current_workers", lambda *_: small)
    plan = hd.estimate(codes, 4)
    assert not plan.memory.fits
    text = " ".join(str(plan).split())
    assert "it would be refused: the reduction " in text
    assert "give the workers" in text


def test_plan__of_a_source_reads_nothing_and_says_what_it_assumes():
    def refuse(block):
        raise AssertionError(f"a block of {block.shape} was read")

    lazy = da.zeros((100_000, 20), chunks=(10_000, 20), dtype=np.float32).map_blocks(
        refuse, dtype=np.float32, meta=np.zeros((0, 0), np.float32)
    )
    y = da.zeros(100_000, chunks=10_000, dtype=np.int64)
    plan = hd.estimate(lazy, 5, target=y, bins=12, method="jmi")
    assert plan.layout.bits == 4
    assert plan.encoding.n_read == 2 * 100_000 * 20 * 4
    assert plan.encoding.held == 10_000 * 20 * 4
    assert plan.searching.n_scans == 5
    assert plan.seconds > plan.encoding.seconds > 0
    assert "13 codes a feature (bins=12" in str(plan)
    alone = hd.estimate(lazy, target=y, bins=12, chunks=(5000, 7))
    assert alone.layout.chunks == (5000, 7)
    with pytest.raises(ValueError, match="give n_features for the memory"):
        _ = alone.memory


def test_estimate__asks_for_what_is_missing(codes):
    with pytest.raises(ValueError, match="encoded already; give n_features"):
        hd.estimate(codes)
    with pytest.raises(ValueError, match="unknown method 'hosf'"):
        hd.estimate(codes, 3, method="hosf")
    with pytest.raises(ValueError, match="n_features is 31 but only 30"):
        hd.estimate(codes, 31)


def test_plan__on_a_cluster_is_rehearsed_by_a_worker(codes, client):
    plan = hd.estimate(codes, 3, method="jmi")
    assert plan.searching.n_workers == plan.searching.n_threads == 2
    assert "of 2 workers" in str(plan)
