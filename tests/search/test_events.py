"""Events of a search, and the lines of progress."""

import io
import re
import sys

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask import kernels
from hofs_dask.encoding import encode
from hofs_dask.engine import cluster
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.search.events import Progress

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
    return events, hd.select(codes, None, 3, callback=events.append)


class Terminal(io.StringIO):
    def isatty(self):
        return True


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
    result = hd.select(codes, None, 5, callback=events.append).to_dataset()
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


def test_progress__writes_nothing_without_a_terminal(codes, capsys):
    hd.select(codes, None, 2)
    hd.select(codes, None, 2, progress=False)
    assert capsys.readouterr() == ("", "")


def test_progress__writes_one_line_per_round(codes, capsys):
    hd.select(codes, None, 4, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    number, time = r"\d\.\d{4}", r"\d+(\.\d)? s"
    scans = ["0 scans", "1 scan", "2 scans", "2 scans"]
    # the first two rounds show no remaining time
    ends = ["", "", rf"  eta +{time}", ""]
    rounds = zip(err.splitlines(), ["x3", "x1", "x4", "x\\d"], scans, ends, strict=True)
    for rank, (line, feature, n_scans, end) in enumerate(rounds, start=1):
        assert re.fullmatch(
            rf"round {rank}/4  {feature} +subset {rank - 1}  gain +{number}  "
            rf"information +{number} +{n_scans} +{time}{end}",
            line,
        )


def test_progress__reports_kernels_that_are_compiled_once(codes, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "missing", lambda _: ["add_counts", "pair_terms"])
    PROCESS.announced.clear()
    events = []
    hd.select(codes, None, 3, method="jmi", progress=True, callback=events.append)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "compil" in line] == [
        "compiling 2 kernels, once for this machine"
    ]
    compiled = [event for event in events if isinstance(event, hd.CompileStarted)]
    assert compiled == [hd.CompileStarted(("add_counts", "pair_terms"))]
    hd.compare(codes, None, 2, methods=["jmi"], progress=True)
    assert "compil" not in capsys.readouterr().err


def test_progress__reports_kernels_that_an_encoding_compiles(capsys, monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2**16, 4)), rng.integers(0, 2, 2**16)
    cells = [name for name in vars(kernels.cells) if name in ("set_planes", "add_columns")]
    monkeypatch.setattr(encode, "missing", lambda _, dtypes: cells if dtypes == {"float64"} else [])
    PROCESS.announced -= set(cells)
    hd.select(x, y, 1, method="mim", progress=True)
    assert capsys.readouterr().err.startswith(
        "compiling 2 kernels, once for this machine\nround 1/1"
    )


def test_progress__lines_are_aligned():
    stream = io.StringIO()
    progress = Progress(stream)
    progress(hd.RoundStarted(1, n_features=12, n_candidates=20))
    progress(hd.RoundEnded(3, "x1", 0, 0.5, 0.5, seconds=1.0, n_scans=1))
    progress(hd.RoundEnded(10, "x15", 11, -0.1, 0.4, seconds=100.0, n_scans=12))
    first, second = stream.getvalue().splitlines()
    for word in ("subset", "gain", "information", "scan", "eta"):
        assert first.index(word) == second.index(word)


def test_progress__reports_a_resumed_search():
    stream = io.StringIO()
    progress = Progress(stream)
    progress(hd.RoundStarted(6, n_features=20, n_candidates=20))
    progress(hd.RoundStarted(7, n_features=20, n_candidates=19))
    assert stream.getvalue() == "5 of 20 rounds are saved: resuming\n"


def test_progress__eta_is_based_on_recent_rounds():
    stream = io.StringIO()
    progress = Progress(stream)
    progress(hd.RoundStarted(1, n_features=10, n_candidates=20))
    for rank, seconds in enumerate([100.0, 2.0, 2.0, 2.0, 2.0, 2.0], start=1):
        progress(hd.RoundEnded(rank, "x", 0, 0.5, 0.5, seconds=seconds, n_scans=1))
    assert stream.getvalue().splitlines()[-1].endswith("eta   8.0 s")


def test_progress__shows_the_running_reduction_on_a_terminal(codes, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    hd.select(codes, None, 2)
    text = terminal.getvalue()
    assert "\rstart  marginal-counts ..." in text
    assert "\rround 2/2  pair-counts ..." in text
    # the visible part of each line is the text after the last carriage return
    shown = [line.rpartition("\r")[2] for line in text.split("\n")]
    assert [line[:9] for line in shown] == ["round 1/2", "round 2/2", ""]
    monkeypatch.setattr(sys, "stderr", silent := Terminal())
    hd.select(codes, None, 1, progress=False)
    assert silent.getvalue() == ""


def test_progress__clears_its_line_before_an_error(codes, monkeypatch):
    def stop(event):
        if isinstance(event, hd.ScanEnded):
            raise RuntimeError("enough")

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(RuntimeError, match="enough"):
        hd.select(codes, None, 2, callback=stop)
    line = "start  marginal-counts ..."
    assert terminal.getvalue() == f"\r\r{line}\r{' ' * len(line)}\r"


def test_progress__works_without_a_standard_error(codes, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert len(hd.select(codes, None, 1, progress=True)) == 1


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
