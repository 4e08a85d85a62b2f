"""A cluster of real processes, started and stopped by deploy/cli/cluster.sh."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from distributed import Client

import hofs_dask as hd
from hofs_dask.cli import main
from hofs_dask.engine.cluster import KEPT_MEMORY

pytestmark = pytest.mark.processes

SCRIPTS = Path(__file__).parents[2] / "deploy" / "cli"
#: Seconds that a script may take, most of them for imports on a busy machine.
LONG = 100


def script(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [SCRIPTS / "cluster.sh", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Cluster:
    """Address and directory of a running cluster."""

    address: str
    directory: Path

    def processes(self) -> list[psutil.Process]:
        """Return all processes that the script started, and their children."""
        started = [
            psutil.Process(int(file.read_text().split()[0]))
            for file in self.directory.glob("*.pid")
        ]
        return started + [child for parent in started for child in parent.children(recursive=True)]

    def stop(self) -> subprocess.CompletedProcess[str]:
        return script("stop", "--run", self.directory)


def start(directory: Path, *arguments: str) -> Cluster:
    started = script(
        *("start", "--run", directory, "--python", sys.executable, "--memory-limit", "2GiB"),
        *("--port", free_port(), "--dashboard-port", 0, *arguments),
    )
    assert started.returncode == 0, started.stderr
    return Cluster(started.stdout.split()[1], directory)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers."""
    cluster = start(tmp_path_factory.mktemp("cluster") / "run")
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, hd.Selection]:
    """A code store with slow reductions, and the result of a run on threads."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200_000)
    x = rng.normal(size=(len(y), 60)).astype(np.float32)
    x[:, ::3] += y[:, None] * np.linspace(0.8, 0.2, 20, dtype=np.float32)
    x[:, 1] += x[:, 0]
    path = tmp_path_factory.mktemp("data") / "codes.zarr"
    hd.encode(x, y, path, chunks=(10_000, 60))
    return path, hd.select(path, None, n_features=3)


def test_cluster__result_equals_that_of_threads(
    cluster: Cluster, reference: tuple[Path, hd.Selection], tmp_path: Path
) -> None:
    codes, expected = reference
    arguments = ["select", str(codes), "--n-features", "3", "--scheduler", cluster.address]
    result = CliRunner().invoke(main, [*arguments, "--output", str(tmp_path / "result.zarr")])
    assert result.exit_code == 0, result.output
    assert hd.load(tmp_path / "result.zarr") == expected


@pytest.mark.parametrize(
    "known", [True, False], ids=["in a reduction", "while it is asked what it takes"]
)
def test_cluster__killed_worker_does_not_change_the_result(
    cluster: Cluster, reference: tuple[Path, hd.Selection], known: bool
) -> None:
    codes, expected = reference
    times: dict[str, float] = {}

    def kill(process: int) -> None:
        os.kill(process, signal.SIGKILL)
        times["killed"] = time.monotonic()

    def listen(event: Any) -> None:
        in_the_middle = getattr(event, "reduction", None) == "posterior-gains" and event.rank == 3
        if in_the_middle and isinstance(event, hd.ScanStarted) and "started" not in times:
            times["started"] = time.monotonic()
            threading.Timer(0.03, kill, [victim]).start()
        elif in_the_middle and isinstance(event, hd.ScanEnded):
            times.setdefault("done", time.monotonic())

    with Client(cluster.address) as client:
        client.wait_for_workers(2, timeout=30)
        if known:  # workers are asked once, when kernels that a reduction needs are new to them
            hd.select(codes, None, n_features=3)
        victim = next(iter(client.run(os.getpid).values()))
        assert hd.select(codes, None, n_features=3, callback=listen) == expected
    assert times["started"] < times["killed"] < times["done"]
    assert not psutil.pid_exists(victim)


def test_workers__have_one_thread_and_a_memory_limit(cluster: Cluster) -> None:
    def settings(dask_worker: object) -> dict[str, object]:
        names = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")]
        found: dict[str, object] = {name: os.environ.get(name) for name in names}
        for name in ("TRIM", "MMAP"):
            found[name] = os.environ.get(f"MALLOC_{name}_THRESHOLD_")
        found["threads"] = dask_worker.state.nthreads  # type: ignore[attr-defined]
        found["limit"] = dask_worker.memory_manager.memory_limit  # type: ignore[attr-defined]
        return found

    with Client(cluster.address) as client:
        client.wait_for_workers(2, timeout=30)
        for found in client.run(settings).values():
            assert {found[name] for name in found if name.endswith("_NUM_THREADS")} == {"1"}
            assert {found["TRIM"], found["MMAP"]} == {str(KEPT_MEMORY)}
            assert (found["threads"], found["limit"]) == (1, 2 * 2**30)


def test_ports__listen_on_loopback_only(cluster: Cluster) -> None:
    listening = {
        connection.laddr.ip
        for process in cluster.processes()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_stop__never_ends_a_process_of_others(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        try:
            for since in ("12345", ""):
                (tmp_path / "worker.pid").write_text(f"{bystander.pid}\n{since}\n")
                host = ["bash", SCRIPTS / "host.sh"]
                running = subprocess.run([*host, "running", tmp_path, "worker"], timeout=LONG)
                assert running.returncode == 1
                subprocess.run([*host, "end", tmp_path, "worker"], check=True, timeout=LONG)
                assert bystander.poll() is None
        finally:
            bystander.kill()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "cluster.sh start [HOST ...]"),
        (["start", "--prot", "1"], 2, "unknown option --prot"),
        (["start", "--port"], 2, "--port needs a value"),
        (["start", "--workers-per-host", "0"], 2, "--workers-per-host is 0: give 1 or more"),
        (["start", "--hosts", "none"], 2, "cannot read none"),
        (["start", "far"], 2, "far cannot reach 127.0.0.1: give --address"),
        (["start", "--python", "none"], 1, "has no hofs_dask: install it, or give --python"),
        (["stop"], 3, "no cluster in"),
        (["stop", "localhost"], 2, "stop takes no hosts"),
    ],
)
def test_script__explains_wrong_arguments(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    run = ["--run", str(tmp_path / "run")] if arguments else []
    result = script(*arguments[:1], *run, *arguments[1:])
    assert result.returncode == code, result.stderr
    assert message in result.stderr


def test_start__refuses_a_directory_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("mine")
    result = script("start", "--run", tmp_path)
    assert result.returncode == 2
    assert "contains other files" in result.stderr
    assert script("stop", "--run", tmp_path).returncode == 3
    assert (tmp_path / "hosts").read_text() == "mine"


def test_stop__leaves_no_process_on_any_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This replacement of ssh records the host and runs the command locally.
    stand_in = tmp_path / "bin" / "ssh"
    stand_in.parent.mkdir()
    stand_in.write_text(
        f'#!/bin/bash\nshift 2\necho "$1" >>{tmp_path}/asked\nshift\nexec bash -c "$*"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    (tmp_path / "hosts").write_text("# the only one\nfar\n\n")
    hosts = ["localhost", "--hosts", str(tmp_path / "hosts"), "--address", "127.0.0.2"]
    cluster = start(tmp_path / "a run", *hosts, "--workers-per-host", "1")
    try:
        processes = cluster.processes()
        assert len(processes) >= 5  # the scheduler, two nannies and a worker of each
        with Client(cluster.address) as client:
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            assert sorted(worker["name"] for worker in workers) == ["far", "localhost"]
        assert script("status", "--run", cluster.directory).returncode == 0
        again = script("start", "--run", cluster.directory)
        assert again.returncode == 1
        assert "has a cluster already" in again.stderr
    finally:
        stopped = cluster.stop()
    assert stopped.returncode == 0, stopped.stderr
    _, alive = psutil.wait_procs(processes, timeout=5)
    # Without an init process, orphans stay as zombies.
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    assert set((tmp_path / "asked").read_text().split()) == {"far"}
    assert {file.suffix for file in cluster.directory.iterdir()} == {".log", ""}
    gone = script("status", "--run", cluster.directory)
    assert gone.returncode == 3
    assert "no cluster in" in gone.stderr
