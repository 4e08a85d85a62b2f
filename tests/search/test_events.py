"""Events of an encoding and of a search."""

import re
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest

import hofs_dask as hd

N_SAMPLES, N_FEATURES, N_DROPPED = 2000, 5, 40


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """A store of 2000 samples, 40 without a target; x3, x1 and x4 are relevant, in this order."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N_SAMPLES).astype(float)
    x = rng.normal(size=(N_SAMPLES, N_FEATURES))
    x[:, 3] += 3 * y
    x[:, 1] += 2 * y
    x[:, 4] += y
    y[:N_DROPPED] = np.nan
    store = tmp_path_factory.mktemp("events") / "codes.zarr"
    return hd.encode(x, y, store, bins=5, target_kind="class")


@pytest.fixture(scope="module")
def heard(codes):
    """The events of a selection of three features, and the selection."""
    events = []
    return events, hd.select(codes, None, 3, method=hd.HOFS(order=1), callback=events.append)


def test_events__are_sent_in_the_order_of_the_search(heard):
    assert [(type(event).__name__, event.rank) for event in heard[0]] == [
        ("ScanStarted", 0),
        ("ScanEnded", 0),
        ("RoundStarted", 1),
        ("RoundEnded", 1),
        ("RoundStarted", 2),
        ("ScanStarted", 2),
        ("ScanEnded", 2),
        ("RoundEnded", 2),
        ("RoundStarted", 3),
        ("ScanStarted", 3),
        ("ScanEnded", 3),
        ("ScanStarted", 3),
        ("ScanEnded", 3),
        ("RoundEnded", 3),
    ]


def test_round_started__has_numbers_of_features_and_candidates(heard):
    started = [event for event in heard[0] if isinstance(event, hd.RoundStarted)]
    assert [event.n_features for event in started] == [3, 3, 3]
    assert [event.n_candidates for event in started] == [5, 4, 3]


def test_scan_ended__counts_bytes_and_cells_of_labelled_samples(heard):
    done = [event for event in heard[0] if isinstance(event, hd.ScanEnded)]
    begun = [event for event in heard[0] if isinstance(event, hd.ScanStarted)]
    names = ["marginal-counts", "pair-counts", "pair-counts", "posterior-gains"]
    assert [event.reduction for event in done] == [event.reduction for event in begun] == names
    # three bits per code, in one chunk of whole words with a checksum, and one byte per label; the
    # chosen columns are in the same chunk
    n_words = -(-(N_SAMPLES - N_DROPPED) // 64)
    n_bytes = N_FEATURES * 3 * n_words * 8 + 4 + N_SAMPLES - N_DROPPED
    assert {event.n_bytes for event in done} == {n_bytes}
    assert {event.n_cells for event in done} == {(N_SAMPLES - N_DROPPED) * N_FEATURES}
    assert all(event.seconds > 0 for event in done)


def test_round_ended__has_the_values_of_the_selection(heard):
    events, result = heard
    ended = [event for event in events if isinstance(event, hd.RoundEnded)]
    table = result.to_dataset()
    assert [event.feature for event in ended] == result.features == ["x3", "x1", "x4"]
    for name in ("subset", "gain", "information"):
        assert [getattr(event, name) for event in ended] == table[name].values.tolist()
    assert [event.n_scans for event in ended] == [0, 1, 2]
    done = [event for event in events if isinstance(event, hd.ScanEnded)]
    for event in ended:
        assert event.seconds >= sum(part.seconds for part in done if part.rank == event.rank)


def test_round_ended__includes_scans_before_a_restart(codes):
    events = []
    method = hd.HOFS(order=1)  # looking ahead takes further scans
    result = hd.select(codes, None, 5, method=method, callback=events.append).to_dataset()
    fresh = np.flatnonzero(np.diff(result.epoch.values)) + 2
    ended = {event.rank: event for event in events if isinstance(event, hd.RoundEnded)}
    assert len(ended) == 5
    # an epoch of three picks ends after a posterior reduction, one of one pick after its counts
    assert [ended[rank].n_scans for rank in fresh] == [2, 1]
    for rank in fresh:
        n_done = sum(isinstance(e, hd.ScanEnded) and e.rank == rank for e in events)
        assert ended[rank].n_scans == n_done


def test_min_gain__last_round_has_no_end_event(codes):
    events = []
    result = hd.select(codes, None, 5, min_gain=0.05, callback=events.append)
    assert len(result) == 2
    assert max(event.rank for event in events if isinstance(event, hd.RoundStarted)) == 3
    assert max(event.rank for event in events if isinstance(event, hd.RoundEnded)) == 2


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, StopIteration])
@pytest.mark.parametrize("kind", [hd.RoundStarted, hd.ScanStarted, hd.ScanEnded, hd.RoundEnded])
def test_callback__exception_ends_the_run(codes, kind, error):
    def stop(event):
        if isinstance(event, kind) and event.rank == 2:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        hd.select(codes, None, 2, callback=stop)


def slow_source(n_chunks, seconds):
    """Return a Dask array of ``n_chunks`` chunks that take some seconds each, and a target."""

    def block(block_info=None):
        time.sleep(seconds)
        number = block_info[None]["chunk-location"][0]
        return np.random.default_rng(number).normal(size=(100, 3))

    # The scheduler gives a worker few blocks of one array at a time. A worker may compute all of
    # its delayed objects before it encodes the first, and tasks then end all at once.
    chunks = ((100,) * n_chunks, (3,))
    lazy = da.map_blocks(block, chunks=chunks, dtype=float, meta=np.empty((0, 0)))
    return lazy, np.arange(100 * n_chunks) % 2


def check_encoding(events, n_chunks):
    """Check the events of the two reads of a source of (100, 3) floats a chunk."""
    stages = [event for event in events if isinstance(event, hd.EncodeStarted | hd.EncodeEnded)]
    n_bytes = n_chunks * 100 * 3 * 8
    assert [(type(event), event.stage) for event in stages] == [
        (hd.EncodeStarted, "encode-read"),
        (hd.EncodeEnded, "encode-read"),
        (hd.EncodeStarted, "encode-write"),
        (hd.EncodeEnded, "encode-write"),
    ]
    assert {event.n_tasks for event in stages} == {n_chunks}
    assert {event.n_bytes for event in stages} == {n_bytes}
    for start, end in zip(stages[::2], stages[1::2], strict=True):
        between = events[events.index(start) + 1 : events.index(end)]
        assert all(isinstance(event, hd.Advanced) for event in between)
        counts = [event.n_ended for event in between]
        assert counts == sorted(counts)
        assert counts[0] == 0
        assert {event.n_tasks for event in between} == {n_chunks}
        assert len({*counts} - {0, n_chunks}) >= 2, "some reports come while tasks run"


def test_encode__reports_chunks_that_are_done(tmp_path):
    events = []
    x, y = slow_source(8, 0.15)
    with dask.config.set(scheduler="threads", num_workers=2):
        hd.encode(x, y, tmp_path / "codes.zarr", chunks=(100, 3), callback=events.append)
    check_encoding(events, 8)


def test_encode__reports_chunks_that_are_done_on_a_cluster(tmp_path, client):
    events, threads = [], set()
    hd.encode(*slow_source(4, 0.0), tmp_path / "imports.zarr", chunks=(100, 3))
    x, y = slow_source(12, 0.4)

    def listen(event):
        events.append(event)
        threads.add(threading.get_ident())

    hd.encode(x, y, tmp_path / "codes.zarr", chunks=(100, 3), callback=listen)
    check_encoding(events, 12)
    assert threads == {threading.get_ident()}, "callbacks run in the thread of the caller"


def test_encode__of_strings_reports_no_bytes(tmp_path):
    events = []
    x = np.array([["a"], ["b"], ["a"], ["b"]], dtype=object)
    hd.encode(x, [0, 1, 1, 0], tmp_path / "codes.zarr", callback=events.append)
    assert [type(event) for event in events] == [hd.EncodeStarted, hd.EncodeEnded] * 2
    assert {event.n_bytes for event in events} == {0}


def test_encode__reports_nothing_for_a_store_that_is_there(tmp_path):
    events = []
    x, y = np.eye(4), [0, 1, 0, 1]
    hd.encode(x, y, tmp_path / "codes.zarr")
    hd.encode(x, y, tmp_path / "codes.zarr", callback=events.append)
    assert events == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["threads", "cluster"])
def test_callback__exception_ends_a_running_encoding(tmp_path, request, place, error):
    if place == "cluster":
        request.getfixturevalue("client")

    def stop(event):
        if isinstance(event, hd.Advanced) and event.n_ended:
            raise error("enough")

    x, y = slow_source(8, 0.3)
    with pytest.raises(error, match="enough"):
        hd.encode(x, y, tmp_path / "codes.zarr", callback=stop)
    assert not (tmp_path / "codes.zarr").exists()


def test_scan__reports_tasks_that_have_ended(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3, (4000, 3)), rng.integers(0, 2, 4000)
    codes = hd.encode(x, y, tmp_path / "codes.zarr", chunks=(1000, 3))
    events = []
    monkeypatch.setattr("hofs_dask.scheduling.compute.REPORT_INTERVAL", 0.0)
    with dask.config.set(scheduler="threads", num_workers=4):
        hd.select(codes, None, 1, method="mim", callback=events.append)
    assert [event.n_ended for event in events if isinstance(event, hd.Advanced)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"callback": "print"}, "callback is a str; give a function of one event, such as print"),
        ({"progress": "yes"}, "progress is 'yes'; give True, False or None"),
    ],
)
def test_options__of_a_wrong_type_are_refused(codes, options, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        hd.select(codes, None, 1, **options)
