"""Killed workers and schedulers: the same result, or an error with the remedy."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client, Future, LocalCluster

import hofs_dask as hd
from hofs_dask.scheduling.compute import compute
from hofs_dask.scheduling.waits import LostSchedulerError, StrandedError, timeout

pytestmark = pytest.mark.processes

#: Maximum time, in seconds, to restart a killed worker on a busy machine.
LONG = 60
ROOT = Path(__file__).parent.parent
WAITING = "ignore:the scheduler at .* has no workers; waiting:UserWarning"


@pytest.fixture(scope="module")
def workers(scratch: str) -> Iterator[LocalCluster]:
    """Two workers that a nanny restarts, for tests that kill them."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
        local_directory=scratch,
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> hd.CodeStore:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400_000)
    x = rng.integers(0, 5, (len(y), 40)) + y[:, None] * (np.arange(40) % 3)
    return hd.encode(x, y, tmp_path_factory.mktemp("faults") / "codes.zarr", chunks=(20_000, 40))


def pids_of(client: Client) -> list[int]:
    client.wait_for_workers(2, timeout=LONG)
    return list(client.run(os.getpid).values())


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


@pytest.mark.filterwarnings(WAITING)
def test_scan__gives_the_same_result_if_all_workers_are_killed_during_it(workers, codes):
    threads: list[threading.Timer] = []

    def listen(event: object) -> None:
        if isinstance(event, hd.ScanStarted) and not threads:
            send(pids, signal.SIGSTOP)  # no task of the scan may finish before the kill
            threads.append(threading.Timer(0.5, send, [pids, signal.SIGKILL]))
            threads[0].start()

    with Client(workers) as client:
        expected = hd.select(codes, None, 2, method="mim")
        pids = pids_of(client)
        assert hd.select(codes, None, 2, method="mim", callback=listen) == expected
        assert not set(pids) & set(pids_of(client))
    assert expected == hd.select(codes, None, 2, method="mim")


@pytest.mark.filterwarnings(WAITING)
def test_scan__gives_the_same_result_if_all_workers_are_killed_before_it(workers, codes):
    with Client(workers) as client:
        expected = hd.select(codes, None, 2, method="mim")
        send(pids_of(client), signal.SIGKILL)
        assert hd.select(codes, None, 2, method="mim") == expected


def allow(failures: int, dask_scheduler: Any) -> int:
    """Set how often a task may be repeated after its worker ended; return the earlier number."""
    before: int = dask_scheduler.allowed_failures
    dask_scheduler.allowed_failures = failures
    return before


@pytest.mark.filterwarnings(WAITING)
def test_compute__a_task_that_ends_its_workers_is_an_error_with_the_remedy(workers):
    with Client(workers) as client:
        before = client.run_on_scheduler(allow, 0)
        with pytest.raises(RuntimeError, match="1 workers ended while .* run the same call again"):
            compute(delayed(os._exit)(1))
        client.run_on_scheduler(allow, before)


def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_compute__a_task_longer_than_the_timeout_is_not_an_error(client):
    # a worker reports its running tasks about once per second
    with dask.config.set({"hofs_dask.timeout": "2 s"}):
        assert compute(delayed(slow)(4.0)) == (4.0,)


def test_compute__waiting_behind_other_tasks_is_not_an_error(client):
    others = client.map(slow, [4.0, 4.1], priority=100)
    with dask.config.set({"hofs_dask.timeout": "2 s"}):
        assert compute(delayed(slow)(0.0)) == (0.0,)
    client.gather(others)


def test_compute__tasks_that_no_worker_can_run_are_an_error(client):
    with (
        dask.config.set({"hofs_dask.timeout": "1 s"}),
        dask.annotate(resources={"GPU": 1}),
        pytest.raises(RuntimeError, match=r"no progress for 1\.00 s.* \(1 no-worker\)"),
    ):
        compute(delayed(slow)(0.0))


@pytest.fixture
def leaving(scratch: str) -> Iterator[Client]:
    """The client of a cluster whose only worker leaves after half a second."""
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            local_directory=scratch,
        ) as cluster,
        Client(cluster) as client,
    ):
        timer = threading.Timer(0.5, cluster.scale, [0])
        timer.start()
        yield client
        timer.join()


def test_compute__lost_workers_are_an_error_after_the_timeout(leaving):
    start = time.monotonic()
    with (
        dask.config.set({"hofs_dask.timeout": "2 s"}),
        pytest.warns(UserWarning, match="has no workers; waiting up to 2.00 s") as warned,
        pytest.raises(RuntimeError, match=r"has no workers.*dask worker .*hofs_dask\.timeout"),
    ):
        compute(delayed(slow)(10.0))
    assert len(warned) == 1
    assert time.monotonic() - start < 10


def test_compute__tasks_for_a_lost_worker_are_an_error(leaving):
    start = time.monotonic()
    (address,) = leaving.nthreads()
    with (
        dask.annotate(workers=[address], allow_other_workers=True),
        pytest.raises(StrandedError, match="wait for workers that are gone"),
    ):
        compute(delayed(slow)(10.0))
    assert time.monotonic() - start < 10


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler with a worker, in another process."""
    program = (
        "import sys, time; from distributed import LocalCluster\n"
        "c = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol='tcp://', "
        "host='127.0.0.1', dashboard_address='127.0.0.1:0')\n"
        "print(c.scheduler_address, flush=True); time.sleep(100)"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def remote(scheduler: subprocess.Popen[bytes]) -> Iterator[Client]:
    """A client of the scheduler."""
    assert scheduler.stdout is not None
    with Client(scheduler.stdout.readline().decode().strip(), timeout=3) as client:
        yield client


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_scheduler__lost_in_a_scan_is_an_error_with_the_remedy(scheduler, remote, number):
    threading.Timer(0.5, os.kill, [scheduler.pid, number]).start()
    reason = "was lost" if number == signal.SIGKILL else "did not answer"
    with (
        dask.config.set({"hofs_dask.timeout": "2 s"}),
        pytest.raises(LostSchedulerError, match=f"scheduler .*{reason}") as caught,
    ):
        compute(delayed(slow)(30.0))
    scheduler.kill()  # closing the client would wait for a stopped scheduler
    for words in (
        "run the same call",
        "a checkpoint, if one was given, contains all finished rounds",
    ):
        assert words in str(caught.value)


def test_scheduler__lost_before_a_scan_is_an_error_with_the_remedy(scheduler, remote, codes):
    scheduler.kill()
    scheduler.wait()
    with pytest.raises(LostSchedulerError, match="the scheduler was lost: no connection to tcp"):
        hd.select(codes, None, 1, method="mim")


def test_compute__tasks_cancelled_by_another_client_are_an_error(client):
    with Client(client.scheduler.address, set_as_default=False) as other:

        def cancel() -> None:
            (key,) = client.futures
            other.cancel([Future(key, other)], force=True)

        threading.Timer(0.5, cancel).start()
        with pytest.raises(RuntimeError, match="cancelled by another client.*run the same call"):
            compute(delayed(slow)(5.0))


@pytest.mark.servers
def test_harness__runs_with_faults_give_the_undisturbed_result():
    """The short form: every kind of fault that needs neither root nor an object store."""
    kinds = ["worker killed", "worker without memory", "scheduler killed", "driver ends"]
    options = [option for kind in kinds for option in ("--kind", kind)]
    command = [sys.executable, "-m", "tests.faults", "--cases", str(len(kinds)), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    assert done.stdout.count("->") == len(kinds)


@pytest.mark.parametrize("given", ["soon", 0, "-1 s", None])
def test_timeout__invalid_value_is_an_error(given):
    with (
        dask.config.set({"hofs_dask.timeout": given}),
        pytest.raises(ValueError, match="hofs_dask.timeout is .*give a positive time"),
    ):
        timeout()
