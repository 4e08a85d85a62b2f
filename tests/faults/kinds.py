"""The faults: what each does to the cluster, the driver, the disk or the object store."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import psutil

from tests.faults.cluster import WORKERS, Cluster, send
from tests.faults.drivers import Driver
from tests.faults.storage import MODES

#: Longest time of a fault that ends by itself, in seconds.
LONGEST = 6.0
#: Times of faults that last until they are repaired.
FOREVER = 10_000.0


@dataclass
class Scene:
    """A case while it runs: what faults act on.

    Attributes
    ----------
    cluster : Cluster
        The cluster.
    driver : Driver
        The driver of the first attempt.
    rng : Generator
        Random generator of the faults.
    later : list of tuple of float and callable
        Times and actions that end faults.
    """

    cluster: Cluster
    driver: Driver
    rng: np.random.Generator
    later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        self.later.append((time.monotonic() + seconds, action))

    def act(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        due = [action for when, action in self.later if when <= now]
        self.later = [each for each in self.later if each[0] > now]
        for action in due:
            action()

    def seconds(self) -> float:
        """Draw the duration of a fault that ends by itself."""
        return round(float(self.rng.uniform(0.1, LONGEST)), 2)

    def name(self) -> str:
        """Draw a worker."""
        return WORKERS[self.rng.integers(len(WORKERS))]

    def worker(self) -> psutil.Process | None:
        """Draw a worker that runs."""
        found = self.cluster.workers()
        return found[self.rng.integers(len(found))] if found else None


Action = Callable[[Scene], str]


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes
    ----------
    inject : callable
        Injects the fault and returns a description; empty if there was nothing to act on.
    separate : bool
        Whether it needs network namespaces and a small disk, and so root.
    remote : bool
        Whether it acts on the object store.
    mends : tuple of str
        What must be replaced before the next attempt: ``"cluster"``, ``"workers"`` or nothing.
    """

    inject: Action
    separate: bool = False
    remote: bool = False
    mends: str = ""


def _worker_killed(scene: Scene) -> str:
    worker = scene.worker()
    if worker is None:
        return ""
    send(worker, signal.SIGKILL)
    return "SIGKILL"


def _all_workers_killed(scene: Scene) -> str:
    found = scene.cluster.workers()
    for worker in found:
        send(worker, signal.SIGKILL)
    return f"{len(found)} SIGKILL" if found else ""


def _paused(scene: Scene, processes: list[psutil.Process]) -> str:
    seconds = scene.seconds()
    for process in processes:
        send(process, signal.SIGSTOP)
        scene.after(seconds, lambda process=process: send(process, signal.SIGCONT))
    return f"for {seconds} s" if processes else ""


def _worker_paused(scene: Scene) -> str:
    return _paused(scene, [each for each in [scene.worker()] if each])


def _all_workers_paused(scene: Scene) -> str:
    return _paused(scene, scene.cluster.workers())


def _worker_hangs(scene: Scene) -> str:
    worker = scene.worker()
    if worker is None:
        return ""
    send(worker, signal.SIGSTOP)
    return "SIGSTOP"


def _nanny_and_worker_hang(scene: Scene) -> str:
    """Stop a machine: nothing on it answers, and the scheduler cannot restart the worker."""
    name = scene.name()
    for process in [*scene.cluster.worker(name), psutil.Process(scene.cluster.processes[name].pid)]:
        send(process, signal.SIGSTOP)
    return "SIGSTOP"


def _worker_without_memory(scene: Scene) -> str:
    """Let allocations fail: the limit is what the worker has, and a little more."""
    worker = scene.worker()
    if worker is None:
        return ""
    spare = int(scene.rng.integers(0, 24)) << 20
    with contextlib.suppress(psutil.Error, OSError):
        limit = worker.memory_full_info().data + spare
        resource.prlimit(worker.pid, resource.RLIMIT_DATA, (limit, limit))
        return f"RLIMIT_DATA {spare >> 20} MiB more than used"
    return ""


def _worker_over_memory_limit(scene: Scene) -> str:
    """Let a worker grow until its nanny ends it."""
    worker = scene.worker()
    if worker is None:
        return ""
    send(worker, signal.SIGUSR1)
    return "until its nanny ends it"


def _walltime(scene: Scene) -> str:
    """Let a worker, which came for this run, leave at the end of its lifetime."""
    seconds = round(float(scene.rng.uniform(2.5, 5)), 1)
    name = f"guest{len(scene.cluster.processes)}"
    scene.cluster.start_worker(name, scene.name(), "--lifetime", f"{seconds}s")
    return f"a worker with a lifetime of {seconds} s"


def _link_cut(scene: Scene) -> str:
    name = scene.name()
    scene.cluster.link(name, "down")
    scene.after(FOREVER, lambda: scene.cluster.link(name, "up"))
    return name


def _link_breaks(scene: Scene) -> str:
    name, seconds = scene.name(), scene.seconds()
    scene.cluster.link(name, "down")
    scene.after(seconds, lambda: scene.cluster.link(name, "up"))
    return f"{name} for {seconds} s"


def _driver_link_breaks(scene: Scene) -> str:
    seconds = scene.seconds() if scene.rng.random() < 0.7 else FOREVER
    scene.cluster.link("c", "down")
    scene.after(seconds, lambda: scene.cluster.link("c", "up"))
    return f"for {seconds} s" if seconds < FOREVER else "forever"


def _scheduler_killed(scene: Scene) -> str:
    scene.cluster.processes["s"].kill()
    return "SIGKILL"


def _scheduler_hangs(scene: Scene) -> str:
    scene.cluster.processes["s"].send_signal(signal.SIGSTOP)
    return "SIGSTOP"


def _scheduler_paused(scene: Scene) -> str:
    return _paused(scene, [psutil.Process(scene.cluster.processes["s"].pid)])


def _driver_ends(scene: Scene) -> str:
    number = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT][scene.rng.integers(3)]
    os.kill(scene.driver.pid, number)
    return number.name


def _disk_full(scene: Scene) -> str:
    """Fill the disk of code stores, checkpoints and scratch space."""
    balloon = scene.cluster.disk / "balloon"
    seconds = scene.seconds() if scene.rng.random() < 0.3 else FOREVER
    with balloon.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(2**16))
    with balloon.open("ab", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(512))
    scene.after(seconds, lambda: balloon.unlink(missing_ok=True))
    return f"for {seconds} s" if seconds < FOREVER else "until it is freed"


def _storage(mode: str) -> Action:
    def inject(scene: Scene) -> str:
        rate = round(float(scene.rng.choice([0.1, 0.3, 1.0])), 1)
        lasting = scene.rng.random() < 0.3 and mode != "slow"
        seconds = FOREVER if lasting else scene.seconds()
        scene.cluster.storage(mode, rate, seconds)
        scene.after(seconds, scene.cluster.storage)
        text = "until it is repaired" if lasting else f"for {seconds} s"
        return f"{rate:.0%} of requests, {text}"

    return inject


KINDS: dict[str, Kind] = {
    "worker killed": Kind(_worker_killed),
    "all workers killed": Kind(_all_workers_killed),
    "worker paused": Kind(_worker_paused),
    "all workers paused": Kind(_all_workers_paused),
    "worker hangs": Kind(_worker_hangs, mends="workers"),
    "machine hangs": Kind(_nanny_and_worker_hang, mends="cluster"),
    "worker without memory": Kind(_worker_without_memory, mends="workers"),
    "worker over its memory limit": Kind(_worker_over_memory_limit),
    "walltime": Kind(_walltime),
    "link cut": Kind(_link_cut, separate=True, mends="cluster"),
    "link breaks": Kind(_link_breaks, separate=True),
    "driver's link breaks": Kind(_driver_link_breaks, separate=True),
    "scheduler killed": Kind(_scheduler_killed, mends="cluster"),
    "scheduler hangs": Kind(_scheduler_hangs, mends="cluster"),
    "scheduler paused": Kind(_scheduler_paused),
    "driver ends": Kind(_driver_ends),
    "disk full": Kind(_disk_full, separate=True),
    **{f"storage: {mode}": Kind(_storage(mode), remote=True) for mode in MODES},
}
