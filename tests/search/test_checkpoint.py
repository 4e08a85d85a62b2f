"""Resuming an interrupted search: states, interruptions, other runs, killed processes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.methods.pairwise import PairwiseState
from hofs_dask.search import checkpoint as module
from hofs_dask.search.checkpoint import FILE, LOCK, Checkpoint, open_checkpoint, read_checkpoint
from hofs_dask.search.snapshot import Snapshot
from tests.search.checkpoints import CutError, assert_same, cut_at, names_in, table

ROOT = Path(__file__).parents[2]
CRITERIA = ("joint", "sum", "mean")
N_CHOSEN = 7


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    x, y = table()
    return hd.encode(x, y, tmp_path_factory.mktemp("table") / "codes.zarr", nominal=["x4"])


@pytest.fixture(scope="module")
def whole(codes):
    """The results of runs without interruption."""
    return {c: hd.select(codes, None, N_CHOSEN, method=hd.HOFS(c)) for c in CRITERIA}


def count_reductions(events):
    return sum(isinstance(event, hd.ScanEnded) for event in events)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_states__round_trip_exactly(codes, whole, criterion, tmp_path, monkeypatch):
    saved = []
    save = Checkpoint.save

    def compare(self, run, snapshot):
        save(self, run, snapshot)
        assert_same(read_checkpoint(tmp_path)[1], snapshot)
        saved.append(snapshot)

    monkeypatch.setattr(Checkpoint, "save", compare)
    method = hd.HOFS(criterion)
    result = hd.select(codes, None, N_CHOSEN, method=method, checkpoint=tmp_path)
    assert result == whole[criterion]
    assert [len(snapshot.picks) for snapshot in saved] == list(range(1, N_CHOSEN + 1))
    if criterion == "joint":  # make sure that zeros, counts and restarts all occurred
        assert saved[-1].state.epoch > 1
        assert any(any(snapshot.state.pair_counts.strides) for snapshot in saved)
        assert any(not any(snapshot.state.pair_counts.strides) for snapshot in saved)
        kinds = {row.kind for snapshot in saved for row in snapshot.state.rows}
        assert kinds >= {"table", "shared", "pair"}


# Interruptions


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rank", range(1, N_CHOSEN))
def test_resume__after_any_round_gives_the_same_result(codes, whole, criterion, rank, tmp_path):
    options = {"method": hd.HOFS(criterion), "checkpoint": tmp_path}
    with pytest.raises(CutError):
        hd.select(codes, None, N_CHOSEN, **options, callback=cut_at(hd.RoundEnded, rank))
    events = []
    assert hd.select(codes, None, N_CHOSEN, **options, callback=events.append) == whole[criterion]
    label = hd.HOFS(criterion).label
    assert events[0] == hd.RoundStarted(rank + 1, N_CHOSEN, 9 - rank, label)
    ended = [event.rank for event in events if isinstance(event, hd.RoundEnded)]
    assert ended == list(range(rank + 1, N_CHOSEN + 1))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_resume__after_interruptions_in_every_round_gives_the_same_result(
    codes, whole, criterion, tmp_path
):
    options = {"method": hd.HOFS(criterion), "checkpoint": tmp_path}
    for rank in range(1, N_CHOSEN + 1):
        for kind in (hd.RoundStarted, hd.ScanEnded, hd.RoundEnded):
            if (kind, rank) == (hd.ScanEnded, 1):
                continue  # the first round needs no scan
            with pytest.raises(CutError):
                hd.select(codes, None, N_CHOSEN, **options, callback=cut_at(kind, rank))
    events = []
    assert hd.select(codes, None, N_CHOSEN, **options, callback=events.append) == whole[criterion]
    assert events == []


def test_resume__before_the_end_of_the_first_round_starts_over(codes, whole, tmp_path):
    with pytest.raises(CutError):
        hd.select(codes, None, 3, checkpoint=tmp_path, callback=cut_at(hd.ScanEnded, 0))
    assert not (tmp_path / FILE).exists()
    assert hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path) == whole["joint"]


@pytest.fixture
def interruptible():
    """Handle Ctrl-C as in a terminal; background processes of a shell ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_keyboard_interrupt__leaves_a_checkpoint(codes, whole, tmp_path):
    def interrupt(event):
        if isinstance(event, hd.ScanEnded) and event.rank == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path, callback=interrupt)
    assert len(read_checkpoint(tmp_path)[1].picks) == 2
    assert hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path) == whole["joint"]


def test_finished_run__is_returned_without_a_scan(codes, whole, tmp_path):
    hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path)
    before = (tmp_path / FILE).stat()
    events = []
    again = hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path, callback=events.append)
    assert again == whole["joint"]
    assert events == []
    assert (tmp_path / FILE).stat().st_mtime_ns == before.st_mtime_ns


def test_finished_run__by_min_gain_is_returned_without_a_scan(codes, tmp_path):
    options = {"min_gain": 0.01, "include": ["x0"]}
    expected = hd.select(codes, None, 9, **options)
    assert 1 < len(expected) < 9
    assert hd.select(codes, None, 9, **options, checkpoint=tmp_path) == expected
    events = []
    again = hd.select(codes, None, 9, **options, checkpoint=tmp_path, callback=events.append)
    assert again == expected
    assert count_reductions(events) == 0


@pytest.mark.parametrize("criterion", CRITERIA)
def test_more_features__resume_from_a_finished_run(codes, whole, criterion, tmp_path):
    options = {"method": hd.HOFS(criterion), "checkpoint": tmp_path}
    hd.select(codes, None, 3, **options)
    events = []
    assert hd.select(codes, None, N_CHOSEN, **options, callback=events.append) == whole[criterion]
    assert min(event.rank for event in events if isinstance(event, hd.RoundStarted)) == 4


def test_fewer_features__are_the_first_of_the_saved_picks(codes, tmp_path):
    hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path)
    events = []
    few = hd.select(codes, None, 2, checkpoint=tmp_path, callback=events.append)
    assert few == hd.select(codes, None, 2)
    assert events == []
    assert len(read_checkpoint(tmp_path)[1].picks) == N_CHOSEN


def test_source__is_encoded_again_and_the_search_resumes(tmp_path):
    x, y = table()
    with pytest.raises(CutError):
        hd.select(x, y, 4, checkpoint=tmp_path / "run", callback=cut_at(hd.RoundEnded, 2))
    events = []
    result = hd.select(x, y, 4, checkpoint=tmp_path / "run", callback=events.append)
    assert min(event.rank for event in events if isinstance(event, hd.RoundStarted)) == 3
    assert result == hd.select(x, y, 4)


# Checkpoints of other runs


@pytest.fixture
def used(codes, tmp_path):
    """A checkpoint after two rounds."""
    hd.select(codes, None, 2, checkpoint=tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": hd.HOFS("sum")}, "criterion: 'joint' in the checkpoint, 'sum' now"),
        ({"method": hd.HOFS(threshold=0.3)}, "threshold: 0.2 in the checkpoint, 0.3 now"),
        ({"include": ["x1", 0]}, "include: [] in the checkpoint, ['x1', 'x0'] now"),
        ({"exclude": ["x8", "x2"]}, "exclude: [] in the checkpoint, ['x2', 'x8'] now"),
        ({"min_gain": np.float32(0.5)}, "min_gain: None in the checkpoint, 0.5 now"),
    ],
)
def test_other_options__error_names_the_option_and_both_values(codes, used, options, message):
    before = (used / FILE).read_bytes()
    with pytest.raises(ValueError, match=re.escape(message)):
        hd.select(codes, None, 2, checkpoint=used, **options)
    assert (used / FILE).read_bytes() == before


def test_other_options__error_names_all_options_and_the_remedy(codes, used):
    with pytest.raises(ValueError) as error:
        hd.select(codes, None, 2, checkpoint=used, method=hd.HOFS("mean"), min_gain=0.1)
    assert str(error.value) == (
        f"the checkpoint {str(used)!r} belongs to another run: "
        "criterion: 'joint' in the checkpoint, 'mean' now; "
        "min_gain: None in the checkpoint, 0.1 now. "
        "Give another directory, or remove this one to start over"
    )


def test_other_data__is_refused(codes, used):
    x, y = table(seed=1)
    with pytest.raises(ValueError, match=f"data: '{codes.identity}' in the checkpoint, '"):
        hd.select(x, y, 2, checkpoint=used)


def saved_at(directory, run):
    """Save a search without rounds that depends on ``run``."""
    none = np.zeros((0, 3))
    state = PairwiseState(
        chosen=(),
        subsets=(),
        affinity=none,
        redundancy=none,
        conditional=none,
        joint_entropy=none,
        centrality=np.zeros(0),
        information=0.0,
        epoch=0,
    )
    with open_checkpoint(directory) as checkpoint:
        checkpoint.save(
            run, Snapshot(counts=np.ones((3, 4, 2, 5), int), picks=(), state=state, ended=False)
        )


@pytest.mark.parametrize(
    ("saved", "now"),
    [
        ({"data": "a", "data source": "s"}, {"data": "a", "data source": "t"}),
        ({"data": "a", "data source": "s"}, {"data": "b", "data source": "s"}),
        ({"data": "a", "data source": None}, {"data": "a", "data source": None}),
        ({"data": "a", "data source": None}, {"data": "a", "data source": "s"}),
        ({"data": "a"}, {"data": "a", "data source": "s"}),
        ({"data": "a", "data source": "s"}, {"data": "a"}),
        # a method may have an option of a similar name
        ({"data": "a", "source": "x"}, {"data": "a", "source": "x"}),
    ],
)
def test_data__matches_by_its_identity_or_by_that_of_its_source(tmp_path, saved, now):
    saved_at(tmp_path, saved)
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.load(now).picks == ()


@pytest.mark.parametrize(
    ("saved", "now", "message"),
    [
        (
            {"data": "a", "data source": "s"},
            {"data": "b", "data source": "t"},
            "another run: data: 'a' in the checkpoint, 'b' now; "
            "data source: 's' in the checkpoint, 't' now. ",
        ),
        # two unknown sources do not match
        (
            {"data": "a", "data source": None},
            {"data": "b", "data source": None},
            "another run: data: 'a' in the checkpoint, 'b' now. ",
        ),
        ({"data": "a"}, {"data": "b", "data source": "s"}, "data: 'a' in the checkpoint, 'b' now"),
        ({"data": "a", "source": "x"}, {"data": "b", "source": "x"}, "data: 'a' in the checkpoint"),
    ],
)
def test_data__of_another_identity_and_source_is_refused(tmp_path, saved, now, message):
    saved_at(tmp_path, saved)
    with (
        open_checkpoint(tmp_path) as checkpoint,
        pytest.raises(ValueError, match=re.escape(message)),
    ):
        checkpoint.load(now)


def test_other_target__is_refused(codes, used, tmp_path):
    shutil.copytree(codes.path, tmp_path / "codes.zarr")
    x, y = table()
    options = {"nominal": ["x4"], "target_kind": "ordinal"}
    other = hd.encode(x, y, tmp_path / "codes.zarr", **options)
    with pytest.raises(ValueError) as error:
        hd.select(other, None, 2, checkpoint=used)
    assert "target_kind: 'class' in the checkpoint, 'ordinal' now" in str(error.value)
    assert "data" not in str(error.value)
    other = hd.encode(x, 2 - y, tmp_path / "codes.zarr", nominal=["x4"])
    with pytest.raises(ValueError, match="belongs to another run: target values: '"):
        hd.select(other, None, 2, checkpoint=used)


def test_other_version__is_refused_unless_only_the_patch_number_differs(codes, used, monkeypatch):
    monkeypatch.setattr(module, "version", lambda _: "0.2.99")
    assert len(hd.select(codes, None, 2, checkpoint=used)) == 2
    monkeypatch.setattr(module, "version", lambda _: "0.3.0")
    message = "hofs_dask version: '0.2' in the checkpoint, '0.3' now"
    with pytest.raises(ValueError, match=re.escape(message)):
        hd.select(codes, None, 2, checkpoint=used)


# Killed processes

#: Script that forks drivers, so that each starts with compiled kernels, and kills them. Each driver
#: logs the start and end of its rounds.
DRIVERS = """
import json, os, random, signal, sys, time, traceback
from pathlib import Path
import dask
import hofs_dask as hd

store, folder, n_features, what = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
fsync, replace, write = os.fsync, os.replace, os.write
dask.config.set(scheduler="synchronous")  # threads do not outlive a fork

def record(log, what, rank):
    with open(log, "a") as stream:
        stream.write(json.dumps([what, rank]) + "\\n")
        stream.flush()
        fsync(stream.fileno())

def start(run, before=lambda: None):
    # start one driver and return its process id
    pid = os.fork()
    if pid:
        return pid
    try:
        before()
        log = run / "log"
        kinds = {hd.RoundStarted: "started", hd.RoundEnded: "ended"}
        def listen(event):
            if type(event) in kinds:
                record(log, kinds[type(event)], event.rank)
        result = hd.select(store, None, n_features, checkpoint=run / "state", callback=listen)
        part = run / f"{os.getpid()}.zarr"
        result.save(part)
        replace(part, run / "result.zarr")  # it may be killed during the save
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)

def end(pid):
    # return whether the driver was killed; otherwise it must have succeeded
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, status
    return False

def random_kills():
    rng = random.Random(0)
    n_kills = n_runs = 0
    while n_kills < 10:
        run = folder / f"run{n_runs}"
        run.mkdir()
        n_runs += 1
        killed = True
        while killed:
            pid = start(run)
            # wait longer each time, so that it ends even if the machine becomes slower
            time.sleep(rng.uniform(0, (0.5 + 0.05 * n_kills) * seconds))
            os.kill(pid, signal.SIGKILL)
            killed = end(pid)
            if killed:
                n_kills += 1
                record(run / "log", "killed", 0)

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def at_call(function, number, then):
    # return the function with its call of this number replaced
    calls = []
    def wrapped(*args, **kwargs):
        calls.append(1)
        return (then if len(calls) == number else function)(*args, **kwargs)
    return wrapped

def write_half(handle, content):
    write(handle, content[:1000])
    die()

def kills_while_saving():
    # saving the third round is the third write and replace, and the fifth and sixth fsync
    places = {
        "half": lambda: setattr(os, "write", at_call(write, 3, write_half)),
        "unsynced": lambda: setattr(os, "fsync", at_call(fsync, 5, die)),
        "unnamed": lambda: setattr(os, "replace", at_call(replace, 3, die)),
        "named": lambda: setattr(os, "fsync", at_call(fsync, 6, die)),
    }
    for name, before in places.items():
        run = folder / name
        run.mkdir()
        assert end(start(run, before))
        left = [path for path in (run / "state").iterdir() if path.suffix == ".partial"]
        assert len(left) == (name != "named")
        record(run / "log", "killed", 0)
        assert not end(start(run))

hd.select(store, None, 4)  # compiles
begin = time.perf_counter()
assert not end(start(folder.parent / "whole"))
seconds = time.perf_counter() - begin  # duration of an uninterrupted run
{"random": random_kills, "saving": kills_while_saving}[what]()
"""


def drive(store, folder, n_features, what):
    (folder / "runs").mkdir()
    (folder / "whole").mkdir()
    folder = folder / "runs"
    subprocess.run(
        [sys.executable, "-c", DRIVERS, store, folder, str(n_features), what],
        cwd=ROOT,
        check=True,
        timeout=120,
    )
    return [
        (run, [tuple(json.loads(line)) for line in (run / "log").read_text().splitlines()])
        for run in sorted(folder.iterdir())
    ]


def assert_no_round_twice(log, n_features):
    """Check that each round follows the last one that ended.

    After a kill, the next round is the interrupted one, or the one after it, because a round is
    saved before its end is logged.
    """
    allowed, running = {1}, None
    for what, rank in log:
        if what == "started":
            assert rank in allowed
            allowed, running = set(), rank
        elif what == "ended":
            assert rank == running
            allowed, running = {rank + 1}, None
        elif running is not None:
            allowed, running = {running, running + 1}, None
    assert n_features + 1 in allowed


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A store on which a round takes about a tenth of a second, and its selection."""
    x, y = table(3000, 12)
    codes = hd.encode(x, y, tmp_path_factory.mktemp("larger") / "codes.zarr", nominal=["x4"])
    return codes.path, hd.select(codes, None, 12)


@pytest.mark.processes
def test_kill__at_random_moments_repeats_no_round_and_gives_the_same_result(larger, tmp_path):
    store, expected = larger
    runs = drive(store, tmp_path, 12, "random")
    assert sum(what == "killed" for _, log in runs for what, _ in log) >= 10
    for run, log in runs:
        assert hd.load(run / "result.zarr") == expected
        assert_no_round_twice(log, 12)


@pytest.mark.processes
def test_kill__at_any_step_of_saving_keeps_this_round_or_the_previous(larger, tmp_path):
    store, _ = larger
    expected = hd.select(store, None, 5)
    runs = drive(store, tmp_path, 5, "saving")
    again = {}
    for run, log in runs:
        assert hd.load(run / "result.zarr") == expected
        assert_no_round_twice(log, 5)
        again[run.name] = log[log.index(("killed", 0)) + 1]
        assert names_in(run / "state") == [FILE, LOCK]
    # the third round is saved once its file has its final name
    assert again == {
        "half": ("started", 3),
        "unsynced": ("started", 3),
        "unnamed": ("started", 3),
        "named": ("started", 4),
    }


def test_checkpoint__an_error_of_memory_says_how_to_resume(tmp_path):
    x, y = table()

    def listen(event):
        if isinstance(event, hd.RoundEnded):
            raise MemoryError("no memory")

    with pytest.raises(MemoryError) as caught:
        hd.select(x, y, 2, checkpoint=tmp_path / "run", callback=listen)
    (note,) = caught.value.__notes__
    assert note.startswith("the checkpoint contains all finished rounds")
    assert note.endswith("run the same call again")
