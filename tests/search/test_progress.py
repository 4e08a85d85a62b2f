"""Progress in logs, on a real terminal and in a real notebook kernel, and the time left."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import numpy as np
import pyte
import pytest

import hofs_dask as hd
from hofs_dask import kernels
from hofs_dask.encoding import encode
from hofs_dask.engine import cluster
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.search.progress import RoundProgress, ScanProgress, TimeLeft
from hofs_dask.search.screens import Log, Screen

#: Encodes and selects for about two seconds, on one thread.
JOB = """
import time
import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed
import hofs_dask as hd

def block(number):
    time.sleep(0.1)
    rng = np.random.default_rng(number)
    x = rng.normal(size=(500, 4))
    x[:, 2] += np.arange(500) % 2
    return x

blocks = [da.from_delayed(delayed(block)(n), (500, 4), float) for n in range(10)]
dask.config.set(scheduler="sync")
result = hd.select(da.concatenate(blocks), np.arange(5000) % 2, 3, progress=PROGRESS)
"""


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """A store of 2000 samples; x3, x1 and x4 are relevant, in this order."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 5))
    x[:, [3, 1, 4]] += y[:, None] * [3, 2, 1]
    return hd.encode(x, y, tmp_path_factory.mktemp("progress") / "codes.zarr", bins=5)


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Shown(Screen):
    """A screen that remembers the lines and statuses."""

    def __init__(self):
        self.lines, self.statuses = [], []

    def line(self, text):
        self.lines.append(text)

    def status(self, status):
        self.statuses.append(status)

    def close(self):
        pass


# Lines of a log


def test_progress__writes_nothing_without_a_terminal(codes, capsys):
    hd.select(codes, None, 2)
    hd.select(codes, None, 2, progress=False)
    assert capsys.readouterr() == ("", "")


def test_progress__works_without_a_standard_error(codes, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert len(hd.select(codes, None, 1, progress=True)) == 1


def test_progress__writes_one_line_per_round(codes, capsys):
    hd.select(codes, None, 4, method=hd.HOFS(order=1), progress=True)
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


def test_progress__writes_one_line_per_read_of_the_data(tmp_path, capsys):
    x, y = np.random.default_rng(0).normal(size=(1000, 3)), np.arange(1000) % 2
    hd.encode(x, y, tmp_path / "codes.zarr", progress=True)
    first, second = capsys.readouterr().err.splitlines()
    time, rate = r"\d+\.\d s", r"[\d.]+ [kM]B/s"
    assert re.fullmatch(rf"encoding 1/2 +{time}  read 1 chunk, 24.0 kB of data, {rate}", first)
    assert re.fullmatch(rf"encoding 2/2 +{time}  wrote 1 chunk, 24.0 kB of data, {rate}", second)


def test_progress__names_kernels_that_are_compiled_once(codes, capsys, monkeypatch):
    names = ["add_counts", "pair_terms", "a", "b", "c", "d"]
    monkeypatch.setattr(cluster, "missing", lambda _: names)
    PROCESS.announced.clear()
    events = []
    hd.select(codes, None, 3, method="jmi", progress=True, callback=events.append)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "compil" in line] == [
        "compiling 6 kernels, once for this machine: add_counts, pair_terms, a, b and 2 more"
    ]
    compiled = [event for event in events if isinstance(event, hd.CompileStarted)]
    assert compiled == [hd.CompileStarted(tuple(names))]
    hd.compare(codes, None, 2, methods=["jmi"], progress=True)
    assert "compil" not in capsys.readouterr().err


def test_progress__names_kernels_that_an_encoding_compiles(capsys, monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2**16, 4)), rng.integers(0, 2, 2**16)
    cells = [name for name in vars(kernels.cells) if name in ("set_planes", "add_columns")]
    monkeypatch.setattr(encode, "missing", lambda _, dtypes: cells if dtypes == {"float64"} else [])
    PROCESS.announced -= set(cells)
    hd.select(x, y, 1, method="mim", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"compiling 2 kernels, once for this machine: {', '.join(cells)}"
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "encoding 1/2",
        "encoding 2/2",
        "round 1/1",
    ]


def test_progress__lines_are_aligned():
    progress = RoundProgress(Log(stream := io.StringIO()))
    progress(hd.RoundStarted(1, n_features=12, n_candidates=20))
    progress(hd.RoundEnded(3, "x1", 0, 0.5, 0.5, seconds=1.0, n_scans=1))
    progress(hd.RoundEnded(10, "x15", 11, -0.1, 0.4, seconds=100.0, n_scans=12))
    first, second = stream.getvalue().splitlines()
    for word in ("subset", "gain", "information", "scan", "eta"):
        assert first.index(word) == second.index(word)


def test_progress__reports_a_resumed_search():
    progress = RoundProgress(Log(stream := io.StringIO()))
    progress(hd.RoundStarted(6, n_features=20, n_candidates=20))
    progress(hd.RoundStarted(7, n_features=20, n_candidates=19))
    assert stream.getvalue() == "5 of 20 rounds are saved: resuming\n"


def test_log__has_a_line_about_a_long_stage_now_and_then():
    stream, events = io.StringIO(), [hd.Advanced(n, 8) for n in range(9)]
    progress = ScanProgress(Log(stream, interval=0.0), clock := Clock())
    progress(hd.EncodeStarted("encode-read", 8, 80_000_000))
    for event in events:
        progress(event)
        clock.now += 2.0
    lines = stream.getvalue().splitlines()
    assert lines[0] == "encoding 1/2  1/8 chunks  10.0 MB of 80.0 MB  5.0 MB/s  14 s left"
    assert lines[-1] == "encoding 1/2  8/8 chunks  80.0 MB of 80.0 MB  5.0 MB/s  finishing"
    progress = ScanProgress(Log(rare := io.StringIO(), interval=1000.0), Clock())
    progress(hd.EncodeStarted("encode-read", 8, 80_000_000))
    for event in events:
        progress(event)
    assert rare.getvalue() == ""


# The time left


@pytest.mark.parametrize(
    ("rounds", "n_seen", "tolerance"),
    [
        ([2.0] * 30, 3, 0.0),
        ([2.0] * 10 + [120.0] + [2.0] * 19, 12, 0.0),  # one slow round
        ([1.0 + 0.5 * n for n in range(40)], 20, 0.01),  # every round takes longer
        ([1.0 + 0.5 * n for n in range(40)], 10, 0.35),
        ([20.0 - 0.5 * n for n in range(30)], 15, 0.25),  # ... or shorter
        ([1.0, 3.0] * 20, 10, 0.6),  # alternating
    ],
)
def test_time_left__learns_from_rounds(rounds, n_seen, tolerance):
    left = TimeLeft()
    assert left.of_rounds(3) is None
    for seconds in rounds[:n_seen]:
        left.add(seconds)
    estimated, true = left.of_rounds(len(rounds) - n_seen), sum(rounds[n_seen:])
    assert estimated == pytest.approx(true, rel=tolerance + 1e-9)


def test_time_left__ignores_rounds_that_compiled():
    progress = RoundProgress(shown := Shown(), Clock())
    progress(hd.RoundStarted(3, n_features=10, n_candidates=20))
    progress(hd.CompileStarted(("pair_terms",)))
    progress(hd.RoundEnded(3, "x", 0, 0.5, 0.5, seconds=60.0, n_scans=1))
    progress(hd.RoundStarted(4, n_features=10, n_candidates=19))
    progress(hd.RoundEnded(4, "x", 0, 0.5, 0.5, seconds=2.0, n_scans=1))
    assert "eta" not in shown.lines[-2]
    assert shown.lines[-1].endswith("eta    12 s")


def test_time_left__of_a_run_falls_within_a_round():
    progress = RoundProgress(shown := Shown(), clock := Clock())
    for rank in (3, 4):
        progress(hd.RoundStarted(rank, n_features=6, n_candidates=20))
        clock.now += 10.0
        progress(hd.RoundEnded(rank, "x", 0, 0.5, 0.5, seconds=10.0, n_scans=1))
    progress(hd.RoundStarted(5, n_features=6, n_candidates=20))
    progress(hd.ScanStarted(5, "pair-counts"))
    clock.now += 4.0
    progress(hd.Advanced(2, 5))
    assert shown.statuses[-1].title == "round 5/6  pair-counts"
    assert shown.statuses[-1].facts == ("2/5 tasks", "run: 16 s left")


def test_time_left__of_a_comparison_is_that_of_its_slowest_method():
    progress = ScanProgress(shown := Shown(), clock := Clock())
    for rank in (1, 2, 3):
        for method in ("jmi", "hofs"):
            progress(hd.RoundStarted(rank, 5, 20, method))
        clock.now += 3.0
        for method in ("jmi", "hofs"):
            progress(hd.RoundEnded(rank, "x", 0, 0.5, 0.5, 3.0, 1, method))
    progress(hd.RoundStarted(4, 5, 20, "jmi"))
    progress(hd.RoundStarted(4, 5, 20, "hofs"))
    progress(hd.ScanStarted(4, "pair-terms"))
    assert shown.statuses[-1].text == "run: 6.0 s left"


def test_rate__does_not_include_the_compilation():
    progress = ScanProgress(shown := Shown(), clock := Clock())
    progress(hd.CompileStarted(("set_planes",)))
    assert shown.statuses[-1].title == "compiling"
    progress(hd.EncodeStarted("encode-read", 10, 0))
    clock.now = 100.0  # the first chunk waits for the kernels
    progress(hd.Advanced(1, 10))
    assert shown.statuses[-1].text == "1/10 chunks"
    clock.now = 102.0
    progress(hd.Advanced(3, 10))
    assert shown.statuses[-1].text == "3/10 chunks  7.0 s left"


# Terminals and notebooks


def run_on_terminal(code):
    """Run a program on a pseudo terminal; return all last lines that were shown, and the screen."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
    environment = os.environ | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True
    )
    os.close(slave)
    screen = pyte.Screen(110, 30)
    stream, last = pyte.ByteStream(screen), []
    while True:
        try:
            stream.feed(os.read(master, 65536))
        except OSError:  # the program has ended
            break
        lines = [line.rstrip() for line in screen.display if line.strip()]
        if lines and lines[-1:] != last[-1:]:
            last.append(lines[-1])
    os.close(master)
    assert process.wait(60) == 0, screen.display
    return last, lines, screen


@pytest.mark.processes
def test_terminal__shows_a_bar_and_leaves_the_lines():
    last, lines, screen = run_on_terminal(JOB.replace("PROGRESS", "None"))
    facts = r"[1-9]\d?/10 chunks +[\d.]+ kB of 160 kB +[\d.]+ kB/s .*0:00:0\d"
    assert any(re.match(rf"encoding 1/2 ━[━╺╸]+ {facts}", line) for line in last), last
    assert [line.split("  ")[0] for line in lines] == [
        "encoding 1/2",
        "encoding 2/2",
        "round 1/3",
        "round 2/3",
        "round 3/3",
    ]
    assert not any("━" in line for line in lines)
    assert not screen.cursor.hidden


@pytest.mark.processes
def test_terminal__clears_the_bar_before_an_error():
    last, lines, screen = run_on_terminal(
        "import sys\n"
        + JOB.replace("progress=PROGRESS", "callback=stop")
        .replace(
            "blocks =",
            "def stop(event):\n"
            "    if isinstance(event, hd.Advanced) and event.n_ended > 6:\n"
            "        sys.exit('enough')\n"
            "blocks =",
        )
        .replace("result =", "try:\n    result =")
        + "except SystemExit as error:\n    print('stopped:', error)\n"
    )
    assert any("━" in line for line in last)
    assert lines == ["stopped: enough"]
    assert not screen.cursor.hidden


@pytest.mark.processes
def test_terminal__shows_nothing_without_progress():
    _, lines, _ = run_on_terminal(JOB.replace("PROGRESS", "False") + "print(result.features[0])")
    assert lines == ["x2"]


def run_in_notebook(code):
    """Run a cell in a real kernel; return the messages that it sends to the notebook."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    messages = []
    try:
        reply = client.execute_interactive(
            code, timeout=100, output_hook=lambda message: messages.append(message)
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", reply["content"]
    return [(message["msg_type"], message["content"]) for message in messages]


@pytest.mark.processes
def test_notebook__shows_a_bar_and_folds_the_lines_at_the_end():
    messages = run_in_notebook(JOB.replace("PROGRESS", "None"))
    assert "stream" not in dict(messages)
    shown = [content for kind, content in messages if kind == "display_data"]
    updates = [content for kind, content in messages if kind == "update_display_data"]
    assert len(shown) == 1
    assert {each["transient"]["display_id"] for each in updates} == {
        shown[0]["transient"]["display_id"]
    }
    pages = [each["data"]["text/html"] for each in [*shown, *updates]]
    bar = r'<progress value="[1-9]\d?" max="10"></progress> encoding 1/2  [1-9]\d?/10 chunks'
    assert any(re.search(bar, page) for page in pages), pages
    assert re.match(r"<details><summary>progress: 5 lines in [\d.]+ s</summary>", pages[-1])
    assert "<progress" not in pages[-1]
    assert updates[-1]["data"]["text/plain"].count("round ") == 3


@pytest.mark.processes
def test_notebook__shows_nothing_without_progress():
    messages = run_in_notebook(JOB.replace("PROGRESS", "False"))
    assert [kind for kind, _ in messages if "display" in kind or kind == "stream"] == []
