"""Time that a killed worker costs a run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from distributed import Client, LocalCluster

import hofs_dask as hd
from pipelines.bench.tools import Figure, Run, fastest, ratio


def bench_killed(job: Run) -> Iterator[Figure]:
    """Measure a selection during which a worker is killed, against one without."""
    with job.cluster() as client:
        codes, n_picks = job.codes(), job.size.n_picks
        select = partial(hd.select, codes, None, n_picks)
        select()  # compiles, copies columns, and fills the caches of the workers
        (usual,) = fastest(1, select)

        def disturbed() -> None:
            timer = threading.Timer(usual / 2, _lost(client))
            timer.start()
            select()
            timer.join()

        times = [usual, float("inf")]
        for _ in range(job.repeats):
            times[1] = min(times[1], *fastest(1, disturbed))
            _wait(client, job.n_workers)
            select()  # fills the cache of the new worker
            times[0] = min(times[0], *fastest(1, select))
        yield ratio(
            "a run with a killed worker",
            job.size,
            times[1],
            "undisturbed",
            times[0],
            target=1.25,
            note=f"one of {job.n_workers} workers, in the middle of the run",
        )


def _lost(client: Client) -> Callable[[], None]:
    """Return a function that ends a worker: a process is killed, a thread leaves."""
    victim = min(client.run(os.getpid).values())
    if victim != os.getpid():
        return partial(os.kill, victim, signal.SIGKILL)
    local = client.cluster
    assert isinstance(local, LocalCluster)
    return partial(local.scale, len(local.workers) - 1)


def _wait(client: Client, n_workers: int) -> None:
    """Wait until there are all workers again."""
    local = client.cluster
    assert isinstance(local, LocalCluster)
    local.scale(n_workers)
    time.sleep(1)  # the scheduler may not have noticed the loss yet
    client.wait_for_workers(n_workers)
