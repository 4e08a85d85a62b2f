"""A real cluster with an object store: every process can be killed, stopped or cut off alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.deploy.servers import Network, free_port, network, wait_for, workers_of

WORKERS = ("w1", "w2")
#: Processes of the object store.
SERVERS = ("moto", "proxy")
#: Names of network namespaces: scheduler, workers, the driver, the object store.
HOSTS = ("s", *WORKERS, "c", "o")
#: Memory limit of a worker in bytes. Its nanny kills a worker that uses 95 % of it.
MEMORY = 700 * 2**20
#: Bytes of the disk of the runs.
DISK = 48 * 2**20
SETTINGS = {
    # a worker that hangs is noticed after this time, five minutes by default
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "15s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "8s",
    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "100",
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
}
ROOT = Path(__file__).parents[2]
BUCKET = "bucket"


@dataclass
class Cluster:
    """A scheduler, two workers with nannies and an object store.

    Attributes
    ----------
    folder : Path
        Folder of logs and of the disk.
    net : Network or None
        The namespaces; None if all processes are on loopback.
    processes : dict of str to Popen
        Scheduler, nannies and servers by name.
    """

    folder: Path
    net: Network | None
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    # places

    @property
    def disk(self) -> Path:
        """The folder on a small disk, if the user is root."""
        return self.folder / "disk"

    def host(self, name: str) -> str:
        return self.net.addresses[name] if self.net else "127.0.0.1"

    def port(self, name: str) -> int:
        if name not in self.ports:
            self.ports[name] = free_port()
        return self.ports[name]

    @property
    def address(self) -> str:
        return f"tcp://{self.host('s')}:{self.port('scheduler')}"

    @property
    def namespace(self) -> str | None:
        """Namespace of drivers."""
        return f"{self.net.prefix}c" if self.net else None

    @property
    def options(self) -> dict[str, Any]:
        """Options of fsspec for the object store."""
        endpoint = f"http://{self.host('o')}:{self.port('proxy')}"
        short = {"connect_timeout": 3, "read_timeout": 5, "retries": {"max_attempts": 1}}
        keys = {"key": "user", "secret": "of nobody"}
        return {**keys, "endpoint_url": endpoint, "config_kwargs": short}

    # processes

    def _start(self, name: str, host: str, *command: object) -> None:
        program: list[object] = [sys.executable, "-m", *command]
        inside = self.net.inside(host, *program) if self.net else program
        environment = os.environ | SETTINGS | {"PYTHONPATH": str(ROOT)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                list(map(str, inside)), stdout=log, stderr=log, env=environment, cwd=self.folder
            )

    def start_worker(self, name: str, host: str, *options: object) -> None:
        """Start a worker with a nanny."""
        self._start(
            *(name, host, "distributed.cli.dask_worker", self.address, "--host", self.host(host)),
            *("--nthreads", 1, "--memory-limit", MEMORY, "--preload", "hofs_dask.preload"),
            *("--preload", "tests.faults.hog", "--dashboard-address", "127.0.0.1:0"),
            *("--local-directory", self.folder / "scratch", "--name", name),
            *("--death-timeout", 300, *options),
        )

    def start(self) -> None:
        """Start the scheduler and the workers."""
        (self.folder / "s.log").write_bytes(b"")
        self._start(
            *("s", "s", "distributed.cli.dask_scheduler", "--host", self.host("s")),
            *("--port", self.port("scheduler"), "--dashboard-address", "127.0.0.1:0"),
        )
        for name in WORKERS:
            self.start_worker(name, name)
        self._wait_for_workers()

    def _wait_for_workers(self) -> None:
        def ready() -> bool:
            return all(self.worker(name) and self._registered(name) for name in WORKERS)

        wait_for("the cluster", ready, self.folder / "w1.log")

    def _registered(self, name: str) -> bool:
        """Return whether the present worker of a nanny has a connection to the scheduler."""
        with contextlib.suppress(psutil.Error, OSError):
            return any(self.port("scheduler") in _peers(process) for process in self.worker(name))
        return False

    def worker(self, name: str) -> list[psutil.Process]:
        """Return the worker process of a nanny, if it runs."""
        nanny = self.processes.get(name)
        return workers_of(nanny.pid) if nanny is not None and nanny.poll() is None else []

    def workers(self) -> list[psutil.Process]:
        return [process for name in WORKERS for process in self.worker(name)]

    def stop(self, keep: Iterable[str] = ()) -> None:
        """Kill all other processes and their children."""
        for name in [name for name in self.processes if name not in keep]:
            process = self.processes.pop(name)
            children = []
            with contextlib.suppress(psutil.Error):
                children = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            for child in children:
                with contextlib.suppress(psutil.Error):
                    child.kill()

    def restart(self) -> None:
        """Replace the scheduler and all workers."""
        self.stop(keep=SERVERS)
        self.start()

    def replace_workers(self) -> None:
        """Kill the workers; their nannies, if they run, start new ones."""
        before = {process.pid for process in self.workers()}
        for process in self.workers():
            send(process, signal.SIGKILL)

        def new() -> bool:
            if any(self.processes[name].poll() is not None for name in WORKERS):
                return True  # a nanny ended with a worker without memory; `heal` starts it again
            now = {process.pid for process in self.workers()}
            return len(now) == len(WORKERS) and not now & before

        wait_for("new workers", new, self.folder / "w1.log")

    def heal(self) -> None:
        """Start again what was lost in a case."""
        self.stop(keep=("s", *WORKERS, *SERVERS))
        if any(self.processes[name].poll() is not None for name in ("s", *WORKERS)):
            self.restart()
            return
        try:
            self._wait_for_workers()
        except TimeoutError:
            self.restart()

    # network

    def link(self, host: str, state: str) -> None:
        """Set the link of a host up or down."""
        assert self.net is not None
        hub = f"{self.net.prefix}hub"
        subprocess.run(["ip", "-n", hub, "link", "set", host, state], check=True)

    # object store

    def start_storage(self) -> None:
        """Start an S3 server, and a proxy in front of it that can fail."""
        self._start("moto", "o", "moto.server", "-H", "127.0.0.1", "-p", self.port("moto"))
        self._start(
            *("proxy", "o", "tests.faults.storage", self.host("o"), self.port("proxy")),
            *(self.port("moto"), self.folder / "storage.json", BUCKET),
        )
        log = self.folder / "proxy.log"
        wait_for("the object store", lambda: "ready" in log.read_text(), log)

    def unlock(self, url: str) -> None:
        """Remove the lock of a killed driver by the command that the error names."""
        options = [f"{name}={json.dumps(value)}" for name, value in self.options.items()]
        options = [each for option in options for each in ("--storage-option", option)]
        command: list[object] = [sys.executable, "-m", "hofs_dask", "unlock", url, *options]
        command = self.net.inside("c", *command) if self.net else command
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run(list(map(str, command)), check=True, env=environment, capture_output=True)

    def storage(self, mode: str = "", rate: float = 1.0, seconds: float = 0.0) -> None:
        """Let requests to the object store fail, or repair it."""
        content = {"mode": mode, "rate": rate, "until": time.monotonic() + seconds}
        part = self.folder / "storage.part"
        part.write_text(json.dumps(content))
        part.rename(self.folder / "storage.json")


def _peers(process: psutil.Process) -> set[int]:
    """Return the remote ports of the open connections of a process, in its namespace."""
    folder = Path(f"/proc/{process.pid}")
    own = {str(entry.readlink()) for entry in (folder / "fd").iterdir()}
    found = set()
    for line in (folder / "net" / "tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if f"socket:[{columns[9]}]" in own and columns[3] == "01":
            found.add(int(columns[2].split(":")[1], 16))
    return found


@contextlib.contextmanager
def cluster(folder: Path, *, separate: bool, storage: bool) -> Iterator[Cluster]:
    """Start a cluster, in namespaces of its own and with a small disk if ``separate``."""
    with ExitStack() as stack:
        made = Cluster(folder, stack.enter_context(network(*HOSTS)) if separate else None)
        made.disk.mkdir()
        if separate:
            _mount(made.disk, stack)
        stack.callback(made.stop)
        made.storage()
        if storage:
            made.start_storage()
        made.start()
        yield made


def _mount(disk: Path, stack: ExitStack) -> None:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "hofs-faults", disk], check=True
    )
    stack.callback(subprocess.run, ["umount", "-l", disk], check=True)


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to a process, if it still runs."""
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)
