"""Cost of scheduler and driver with many thin workers: ``python -m pipelines.thin``. See MODEL.md.

The scheduler runs in a process of its own, all workers in another one, and the driver in this one.
Processor time is measured, not elapsed time: the workers of a real cluster run elsewhere.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np
import psutil
from distributed import Client, Worker

import hofs_dask as hd
from hofs_dask.engine.partition import Partition
from hofs_dask.engine.reduction import Request
from hofs_dask.engine.scanning import run
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.layout import layout_of
from pipelines.bench.tools import counting_request

#: Samples and features of the store, and of its chunks: many small chunks.
SHAPE, CHUNKS = (64_000, 4), (64, 4)
#: Numbers of map tasks per worker in a scan; 16 is the most.
TASKS_A_THREAD = (1, 4, 16)


@dataclass(frozen=True)
class Cost:
    """Processor time of a scan.

    Attributes
    ----------
    n_workers, n_keys
        Number of workers, and of keys of the graph.
    scheduler, driver
        Seconds of processor time of the scheduler and of the driver.
    idle
        Seconds of processor time of the scheduler per second without tasks.
    """

    n_workers: int
    n_keys: int
    scheduler: float
    driver: float
    idle: float


async def _host(address: str, n_workers: int) -> None:
    workers = (
        Worker(address, nthreads=1, name=str(i), dashboard=False, memory_limit=0, host="127.0.0.1")
        for i in range(n_workers)
    )
    started = await asyncio.gather(*workers)
    await asyncio.gather(*(worker.finished() for worker in started))


@contextmanager
def _cluster(n_workers: int) -> Iterator[tuple[Client, psutil.Process]]:
    """Yield a client and the process of the scheduler."""
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    command += ["--port", "0", "--dashboard-address", "127.0.0.1:0", "--scheduler-file"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scheduler.json")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        with subprocess.Popen([*command, str(file)], **quiet) as scheduler:  # type: ignore[call-overload]
            try:
                while not file.exists():
                    time.sleep(0.1)
                client = Client(scheduler_file=str(file))
                address = client.scheduler_info()["address"]
                host = [sys.executable, "-m", __spec__.name, "--host", address, str(n_workers)]
                with client, subprocess.Popen(host, **quiet) as workers:  # type: ignore[call-overload]
                    try:
                        client.wait_for_workers(n_workers, timeout=300)
                        yield client, psutil.Process(scheduler.pid)
                    finally:
                        workers.terminate()
            finally:
                scheduler.terminate()


def measure(n_workers: int, codes: CodeStore, repeats: int) -> Iterator[Cost]:
    """Yield the cost of scans with one and several tasks per worker."""
    request: Request = counting_request(codes)
    with _cluster(n_workers) as (client, scheduler):
        del client
        run(codes, [request])  # imports and opens
        idle = _spent(scheduler, partial(time.sleep, 3)) / 3
        for tasks in TASKS_A_THREAD:
            layout = layout_of(codes)
            cells = codes.n_samples * codes.n_features // (n_workers * tasks)
            partition = Partition(layout, max(cells, 1), tasks, n_workers * tasks)
            n_keys = partition.n_tasks(n_workers)
            scan = partial(run, codes, [request], partition=partition)
            scan()
            driver = time.process_time()
            spent = _spent(scheduler, partial(_repeat, scan, repeats))
            driver = time.process_time() - driver
            yield Cost(n_workers, n_keys, spent / repeats, driver / repeats, idle)


def _repeat(function: Callable[[], object], repeats: int) -> None:
    for _ in range(repeats):
        function()


def _spent(process: psutil.Process, function: Callable[[], object]) -> float:
    before = sum(process.cpu_times()[:2])
    function()
    return sum(process.cpu_times()[:2]) - before


@click.command()
@click.option("--workers", default="16,64,128", show_default=True, help="Numbers of workers.")
@click.option("--repeats", default=5, show_default=True, help="Scans per measurement.")
@click.option("--host", hidden=True, nargs=2)
def main(workers: str, repeats: int, host: tuple[str, str] | None) -> None:
    """Measure what a key costs scheduler and driver, on numbers of thin workers."""
    if host is not None:
        asyncio.run(_host(host[0], int(host[1])))
        return
    rng = np.random.default_rng(0)
    print("| workers | keys | scheduler, ms a key | driver, ms a key | idle scheduler, % |")
    print("|---" * 5 + "|")
    with tempfile.TemporaryDirectory() as folder:
        x, y = rng.integers(0, 3, SHAPE), rng.integers(0, 2, SHAPE[0])
        codes = hd.encode(x, y, Path(folder, "codes.zarr"), chunks=CHUNKS)
        for n_workers in map(int, workers.split(",")):
            for cost in measure(n_workers, codes, repeats):
                own, driver = (1e3 * each / cost.n_keys for each in (cost.scheduler, cost.driver))
                print(
                    f"| {cost.n_workers} | {cost.n_keys} | {own:.2f} | {driver:.2f} "
                    f"| {100 * cost.idle:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
