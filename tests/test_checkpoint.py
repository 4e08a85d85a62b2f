"""A search that is cut goes on to the same result: states, interruptions, kills, locks, disks."""

import contextlib
import errno
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hofs_dask as hd
from hofs_dask import checkpoint as module
from hofs_dask.checkpoint import (
    FILE,
    LOCK,
    PART,
    Checkpoint,
    decode,
    encode,
    read_checkpoint,
)

ROOT = Path(__file__).parent.parent
CRITERIA = ("joint", "sum", "mean")
N_CHOSEN = 7


def table(n_samples=1500, n_features=9, seed=0):
    """Pairs that tell more together, a nominal column, missing values, and noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_samples)
    x = rng.normal(size=(n_samples, n_features))
    x[:, 5] += x[:, 3]
    x[:, 3] += y
    x[:, 7] = rng.random(n_samples) < 0.4 + 0.2 * (y == 1)
    x[:, 2] = (x[:, 7] > 0) ^ (y == 1) ^ (rng.random(n_samples) < 0.2)
    x[:, 4] = np.where(rng.random(n_samples) < 0.5, y, rng.integers(0, 4, n_samples))
    x[rng.random(x.shape) < 0.02] = np.nan
    return x, y


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    x, y = table()
    return hd.encode(x, y, tmp_path_factory.mktemp("table") / "codes.zarr", nominal=["x4"])


@pytest.fixture(scope="module")
def whole(codes):
    """What a run that is never cut gives."""
    return {c: hd.select(codes, None, N_CHOSEN, method=hd.HOFS(c)) for c in CRITERIA}


class CutError(Exception):
    """The run is cut here."""


def names_in(directory):
    return sorted(entry.name for entry in directory.iterdir())


def cut_at(kind, rank):
    def callback(event):
        if isinstance(event, kind) and event.rank == rank:
            raise CutError

    return callback


def count_passes(events):
    return sum(isinstance(event, hd.PassDone) for event in events)


def assert_same(first, second):
    """Equal bit for bit, with the same types and the same order in memory."""
    assert type(first) is type(second)
    if is_dataclass(first):
        for field in fields(first):
            assert_same(getattr(first, field.name), getattr(second, field.name))
    elif isinstance(first, tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif isinstance(first, np.ndarray):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        assert first.tobytes() == second.tobytes()
        order = [
            np.argsort([-stride for stride in a.strides], kind="stable") for a in (first, second)
        ]
        assert (order[0] == order[1]).all()
    else:
        assert repr(first) == repr(second)


# Values to files and back


@given(
    hnp.arrays(
        st.sampled_from([np.int64, np.uint8, np.int16, np.float64, bool]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    st.randoms(use_true_random=False),
)
def test_codec__arrays_come_back_bit_for_bit_in_their_order(array, random):
    axes = list(range(array.ndim))
    random.shuffle(axes)
    array = array.transpose(axes)
    arrays = {}
    tree = json.loads(json.dumps(encode(array, arrays)))
    assert_same(decode(tree, arrays), array)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3).map(tuple),
        max_leaves=8,
    )
)
def test_codec__plain_values_come_back_exactly(value):
    tree = json.loads(json.dumps(encode(value, {})))
    assert_same(decode(tree, {}), value)


def test_codec__counts_take_the_smallest_type_and_repeated_numbers_none():
    arrays = {}
    zeros = np.broadcast_to(np.int64(0), (1000, 4, 30, 3, 30))
    counts = (np.array([[0, 255]]), np.array([256]), np.array([70_000]), np.array([-1]), zeros)
    tree = encode(counts, arrays)
    kept = [arrays[str(i)] for i in range(5)]
    assert [array.dtype.name for array in kept] == ["uint8", "uint16", "uint32", "int64", "uint8"]
    assert kept[4].size == 1
    back = decode(json.loads(json.dumps(tree)), arrays)
    assert_same(back, counts)
    assert not any(back[4].strides)


def test_codec__other_types_are_refused():
    with pytest.raises(TypeError, match="cannot hold a dict"):
        encode(({},), {})
    with pytest.raises(KeyError):
        decode({"record": "Path", "fields": {}}, {})


@pytest.mark.parametrize("criterion", CRITERIA)
def test_states__come_back_bit_for_bit(codes, whole, criterion, tmp_path, monkeypatch):
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
    if criterion == "joint":  # the test has seen both: shared zeros and counts, and fresh starts
        assert saved[-1].state.epoch > 1
        assert any(any(snapshot.state.pair_counts.strides) for snapshot in saved)
        assert any(not any(snapshot.state.pair_counts.strides) for snapshot in saved)
        kinds = {row.kind for snapshot in saved for row in snapshot.state.rows}
        assert kinds >= {"table", "shared", "pair"}


# Interruptions


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rank", range(1, N_CHOSEN))
def test_resume__after_any_round_gives_the_same(codes, whole, criterion, rank, tmp_path):
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
def test_resume__after_cuts_in_every_round_gives_the_same(codes, whole, criterion, tmp_path):
    options = {"method": hd.HOFS(criterion), "checkpoint": tmp_path}
    for rank in range(1, N_CHOSEN + 1):
        for kind in (hd.RoundStarted, hd.PassDone, hd.RoundEnded):
            if (kind, rank) == (hd.PassDone, 1):
                continue  # the first round needs no pass
            with pytest.raises(CutError):
                hd.select(codes, None, N_CHOSEN, **options, callback=cut_at(kind, rank))
    events = []
    assert hd.select(codes, None, N_CHOSEN, **options, callback=events.append) == whole[criterion]
    assert events == []


def test_resume__before_the_first_round_has_ended_starts_anew(codes, whole, tmp_path):
    with pytest.raises(CutError):
        hd.select(codes, None, 3, checkpoint=tmp_path, callback=cut_at(hd.PassDone, 0))
    assert not (tmp_path / FILE).exists()
    assert hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path) == whole["joint"]


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal; a process that a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_keyboard_interrupt__leaves_a_checkpoint(codes, whole, tmp_path):
    def interrupt(event):
        if isinstance(event, hd.PassDone) and event.rank == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path, callback=interrupt)
    assert len(read_checkpoint(tmp_path)[1].picks) == 2
    assert hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path) == whole["joint"]


def test_finished_run__is_returned_without_a_pass(codes, whole, tmp_path):
    hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path)
    before = (tmp_path / FILE).stat()
    events = []
    again = hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path, callback=events.append)
    assert again == whole["joint"]
    assert events == []
    assert (tmp_path / FILE).stat().st_mtime_ns == before.st_mtime_ns


def test_finished_run__by_min_gain_is_returned_without_a_pass(codes, tmp_path):
    options = {"min_gain": 0.01, "include": ["x0"]}
    expected = hd.select(codes, None, 9, **options)
    assert 1 < len(expected) < 9
    assert hd.select(codes, None, 9, **options, checkpoint=tmp_path) == expected
    events = []
    again = hd.select(codes, None, 9, **options, checkpoint=tmp_path, callback=events.append)
    assert again == expected
    assert count_passes(events) == 0


@pytest.mark.parametrize("criterion", CRITERIA)
def test_more_features__go_on_from_a_finished_run(codes, whole, criterion, tmp_path):
    options = {"method": hd.HOFS(criterion), "checkpoint": tmp_path}
    hd.select(codes, None, 3, **options)
    events = []
    assert hd.select(codes, None, N_CHOSEN, **options, callback=events.append) == whole[criterion]
    assert min(event.rank for event in events) == 4


def test_fewer_features__are_the_first_of_those_chosen(codes, tmp_path):
    hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path)
    events = []
    few = hd.select(codes, None, 2, checkpoint=tmp_path, callback=events.append)
    assert few == hd.select(codes, None, 2)
    assert events == []
    assert len(read_checkpoint(tmp_path)[1].picks) == N_CHOSEN


def test_source__is_encoded_again_and_the_search_goes_on(tmp_path):
    x, y = table()
    with pytest.raises(CutError):
        hd.select(x, y, 4, checkpoint=tmp_path / "run", callback=cut_at(hd.RoundEnded, 2))
    events = []
    result = hd.select(x, y, 4, checkpoint=tmp_path / "run", callback=events.append)
    assert min(event.rank for event in events) == 3
    assert result == hd.select(x, y, 4)


# Checkpoints of something else


@pytest.fixture
def used(codes, tmp_path):
    """The checkpoint of two rounds."""
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
def test_other_options__are_refused_by_name_with_both_values(codes, used, options, message):
    before = (used / FILE).read_bytes()
    with pytest.raises(ValueError, match=re.escape(message)):
        hd.select(codes, None, 2, checkpoint=used, **options)
    assert (used / FILE).read_bytes() == before


def test_other_options__are_all_named_with_what_to_do(codes, used):
    with pytest.raises(ValueError) as error:
        hd.select(codes, None, 2, checkpoint=used, method=hd.HOFS("mean"), min_gain=0.1)
    assert str(error.value) == (
        f"the checkpoint {str(used)!r} is of another run: "
        "criterion: 'joint' in the checkpoint, 'mean' now; "
        "min_gain: None in the checkpoint, 0.1 now. "
        "Give another directory, or remove this one to start anew"
    )


def test_other_data__is_refused(codes, used):
    x, y = table(seed=1)
    with pytest.raises(ValueError, match=f"data: '{codes.fingerprint}' in the checkpoint, '"):
        hd.select(x, y, 2, checkpoint=used)


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
    with pytest.raises(ValueError, match="is of another run: target values: '"):
        hd.select(other, None, 2, checkpoint=used)


def test_other_version__is_refused_but_for_the_last_number(codes, used, monkeypatch):
    monkeypatch.setattr(module, "version", lambda _: "0.1.99")
    assert len(hd.select(codes, None, 2, checkpoint=used)) == 2
    monkeypatch.setattr(module, "version", lambda _: "0.2.0")
    message = "hofs_dask version: '0.1' in the checkpoint, '0.2' now"
    with pytest.raises(ValueError, match=re.escape(message)):
        hd.select(codes, None, 2, checkpoint=used)


def test_directory_of_something_else__is_refused_and_untouched(codes, tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(ValueError, match="holds something else than a checkpoint .'thesis.txt'"):
        hd.select(codes, None, 2, checkpoint=tmp_path)
    assert names_in(tmp_path) == ["thesis.txt"]
    with pytest.raises(ValueError, match="thesis.txt', which is a file; give a directory"):
        hd.select(codes, None, 2, checkpoint=tmp_path / "thesis.txt")
    with pytest.raises(ValueError, match="'s3://bucket/run'; give a directory of this machine"):
        hd.select(codes, None, 2, checkpoint="s3://bucket/run")


def test_directory__is_made_with_its_parents_and_may_hold_other_things_later(codes, tmp_path):
    run = tmp_path / "a" / "b"
    hd.select(codes, None, 1, checkpoint=str(run))
    assert names_in(run) == [FILE, LOCK]
    (run / "notes.txt").write_text("mine")
    assert len(hd.select(codes, None, 2, checkpoint=run)) == 2
    assert (run / "notes.txt").read_text() == "mine"


def test_read_checkpoint__says_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path))):
        read_checkpoint(tmp_path)


def test_lock__second_run_is_told_who_holds_it_and_death_frees_it(codes, used):
    script = (
        "import sys, time\n"
        "from hofs_dask.checkpoint import open_checkpoint\n"
        "with open_checkpoint(sys.argv[1]):\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, used], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with holder:
        try:
            assert holder.stdout.readline() == "locked\n"
            message = f"is in use by process {holder.pid} on {socket.gethostname()}; wait until"
            with pytest.raises(hd.CheckpointError, match=re.escape(message)):
                hd.select(codes, None, 3, checkpoint=used)
        finally:
            holder.kill()
    assert len(hd.select(codes, None, 3, checkpoint=used)) == 3


# Disks


def test_truncated_file__is_named(codes, used):
    content = (used / FILE).read_bytes()
    for size in (0, 1, 100, len(content) // 2, len(content) - 1):
        (used / FILE).write_bytes(content[:size])
        with pytest.raises(hd.CheckpointError, match=re.escape(f"{str(used / FILE)!r} cannot be")):
            hd.select(codes, None, 2, checkpoint=used)
        assert (used / FILE).stat().st_size == size


def test_changed_bytes__are_noticed_or_harmless(used):
    run, snapshot = read_checkpoint(used)
    content = (used / FILE).read_bytes()
    rng = np.random.default_rng(0)
    n_noticed = 0
    for place in rng.choice(len(content), 300, replace=False):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.integers(8)
        (used / FILE).write_bytes(changed)
        try:
            found = read_checkpoint(used)
        except hd.CheckpointError:
            n_noticed += 1
        else:  # zip keeps dates and the like
            assert found[0] == run
            assert_same(found[1], snapshot)
    assert n_noticed > 200


def test_file_of_something_else__is_left_alone(codes, tmp_path):
    np.savez(tmp_path / FILE, a=np.arange(3))
    content = (tmp_path / FILE).read_bytes()
    with pytest.raises(hd.CheckpointError, match="cannot be read"):
        hd.select(codes, None, 2, checkpoint=tmp_path)
    assert (tmp_path / FILE).read_bytes() == content


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("a small file system can be mounted by root alone")
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_full_disk__leaves_the_round_before(codes, whole, small_disk):
    def fill(event):
        if isinstance(event, hd.RoundEnded) and event.rank == 3:
            with contextlib.suppress(OSError), (small_disk / "fill").open("wb", 0) as stream:
                while True:
                    stream.write(bytes(4096))

    run = small_disk / "run"
    with pytest.raises(hd.CheckpointError) as error:
        hd.select(codes, None, N_CHOSEN, checkpoint=run, callback=fill)
    assert isinstance(error.value.__cause__, OSError)
    assert error.value.__cause__.errno == errno.ENOSPC
    assert f"{str(run / FILE)!r} cannot be written (No space left on device)" in str(error.value)
    assert names_in(run) == [FILE, LOCK]
    assert len(read_checkpoint(run)[1].picks) == 3
    with pytest.raises(hd.CheckpointError, match="No space"):  # and still none
        hd.select(codes, None, N_CHOSEN, checkpoint=run)
    (small_disk / "fill").unlink()
    assert hd.select(codes, None, N_CHOSEN, checkpoint=run) == whole["joint"]


def test_file_too_large__leaves_the_round_before(codes, whole, tmp_path):
    """The same where nothing can be mounted: no file may grow past 4 KiB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(event):
        if isinstance(event, hd.RoundEnded) and event.rank == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))

    try:
        with pytest.raises(hd.CheckpointError, match="File too large"):
            hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path, callback=limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names_in(tmp_path) == [FILE, LOCK]
    assert len(read_checkpoint(tmp_path)[1].picks) == 3
    assert hd.select(codes, None, N_CHOSEN, checkpoint=tmp_path) == whole["joint"]


def test_directory_that_cannot_be_made__is_named(codes, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hd.CheckpointError, match=re.escape(str(tmp_path / "file" / "run"))):
        hd.select(codes, None, 1, checkpoint=tmp_path / "file" / "run")


# Kills

#: Forks drivers, so that each begins with its kernels compiled, and kills them. Each one appends
#: what it begins and ends to a log.
DRIVERS = """
import json, os, random, signal, sys, time, traceback
from pathlib import Path
import dask, numpy as np
import hofs_dask as hd

store, folder, n_features, what = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
fsync, replace, savez = os.fsync, Path.replace, np.savez
dask.config.set(scheduler="synchronous")  # threads do not outlive a fork

def record(log, what, rank):
    with open(log, "a") as stream:
        stream.write(json.dumps([what, rank]) + "\\n")
        stream.flush()
        fsync(stream.fileno())

def start(run, before=lambda: None):
    # one driver: its process id
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
        replace(part, run / "result.zarr")  # it may be killed while it writes this
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)

def end(pid):
    # whether the driver was killed, else it must have succeeded
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
            # ever longer, so that a machine that became slower does not keep it from its end
            time.sleep(rng.uniform(0, (0.5 + 0.05 * n_kills) * seconds))
            os.kill(pid, signal.SIGKILL)
            killed = end(pid)
            if killed:
                n_kills += 1
                record(run / "log", "killed", 0)

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def at_call(function, number, then):
    # the function, but for its call of this number
    calls = []
    def wrapped(*args, **kwargs):
        calls.append(1)
        return (then if len(calls) == number else function)(*args, **kwargs)
    return wrapped

def write_half(stream, **_):
    stream.write(bytes(1000))
    stream.flush()
    die()

def kills_while_saving():
    # the third round is saved by the third archive and name, and the fifth and sixth sync
    places = {
        "half": lambda: setattr(np, "savez", at_call(savez, 3, write_half)),
        "unsynced": lambda: setattr(os, "fsync", at_call(fsync, 5, die)),
        "unnamed": lambda: setattr(Path, "replace", at_call(replace, 3, die)),
        "named": lambda: setattr(os, "fsync", at_call(fsync, 6, die)),
    }
    for name, before in places.items():
        run = folder / name
        run.mkdir()
        assert end(start(run, before))
        record(run / "log", "killed", 0)
        assert not end(start(run))

hd.select(store, None, 4)  # compiles
begin = time.perf_counter()
assert not end(start(folder.parent / "whole"))
seconds = time.perf_counter() - begin  # of a whole run, on this machine as it is now
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
    """A round follows the one that ended; after a kill comes the round that was cut.

    Or the one after it: a round is saved before it is written down here as ended.
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


def test_kill__at_random_moments_no_round_is_done_twice_and_the_result_is_the_same(
    larger, tmp_path
):
    store, expected = larger
    runs = drive(store, tmp_path, 12, "random")
    assert sum(what == "killed" for _, log in runs for what, _ in log) >= 10
    for run, log in runs:
        assert hd.load(run / "result.zarr") == expected
        assert_no_round_twice(log, 12)


def test_kill__at_any_step_of_saving_leaves_this_round_or_the_one_before(larger, tmp_path):
    store, _ = larger
    expected = hd.select(store, None, 5)
    runs = drive(store, tmp_path, 5, "saving")
    again = {}
    for run, log in runs:
        assert hd.load(run / "result.zarr") == expected
        assert_no_round_twice(log, 5)
        again[run.name] = log[log.index(("killed", 0)) + 1]
        assert not (run / "state" / PART).exists()
    # the third round counts from the moment that its file has the name
    assert again == {
        "half": ("started", 3),
        "unsynced": ("started", 3),
        "unnamed": ("started", 3),
        "named": ("started", 4),
    }
