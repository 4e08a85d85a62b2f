"""Growth of time and memory with sizes, workers, chunks, rounds and tasks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from unittest.mock import patch

import dask
import numpy as np
import psutil
from distributed import Client, LocalCluster

import hofs_dask as hd
from hofs_dask.engine import scanning
from hofs_dask.engine.cluster import Worker
from hofs_dask.engine.reduction import NO_PLACES, NO_WORDS, Context, Request
from hofs_dask.engine.scanning import run
from hofs_dask.kernels.planes import add_plane_counts, cell_masks, first_bits, n_bits, pack
from hofs_dask.store.codes import CodeStore
from pipelines.bench.tools import (
    Curve,
    Figure,
    Run,
    Size,
    counting_request,
    fastest,
    forget_chunks,
    kernel_seconds,
)
from pipelines.model import READ_ONLY, count

METHODS: dict[str, hd.JMI | hd.HOFS] = {"jmi": hd.JMI(), "joint": hd.HOFS()}
#: For each size that is varied, the factors by which it is multiplied, and the fixed factors by
#: which sizes are multiplied before.
AXES: dict[str, tuple[tuple[int, ...], dict[str, float]]] = {
    "n_samples": ((1, 4, 16, 32), {}),
    "n_features": ((1, 4, 16, 64, 200), {"n_samples": 0.4}),
    "n_picks": ((1, 2, 4, 8), {"n_samples": 2}),
    "n_classes": ((1, 2, 4, 8), {"n_samples": 4}),
    "n_codes": ((1, 2, 4, 8), {"n_samples": 4, "n_codes": 0.5}),
}
#: How much a slope may exceed 1 (linear growth) because of the noise of a busy machine.
SLOPE_NOISE = 0.1
#: Number and size of the chunks of the store with which the cost of a chunk is measured.
SMALL_CHUNKS, CHUNK_SAMPLES, CHUNK_FEATURES = 2000, 1000, 20
#: Number of chunks that the kernel processes in `_ceiling`, without a scan.
CEILING_CHUNKS = 48
#: Features per chunk of the store for the group scheduler, small to get many tasks.
TILE_FEATURES = 1
MIB = 2**20


def bench_scaling(job: Run) -> Iterator[Figure]:
    """Measure how the time of selections grows with every size."""
    with job.cluster():
        for axis, (factors, others) in AXES.items():
            base = _scaled(job.size, others)
            n_points = len(factors) if job.processes else 3  # a slope needs three
            sizes = [_scaled(base, {axis: factor}) for factor in factors[:n_points]]
            widest = max(size.n_picks for size in sizes)
            sizes = [replace(size, n_features=max(size.n_features, widest)) for size in sizes]
            for name, method in METHODS.items():
                times = [_time(job.resized(size), method) for size in sizes]
                x = tuple(float(getattr(size, axis)) for size in sizes)
                curve = Curve(axis, name, x, tuple(times), str(base))
                job.curves.append(curve)
                yield Figure(
                    f"{name}: slope with {axis}",
                    curve.slope,
                    "",
                    str(base),
                    {f"{value:g}": seconds for value, seconds in zip(x, times, strict=True)},
                    target=1 + SLOPE_NOISE,
                    note="of the last three points",
                )


def bench_workers(job: Run) -> Iterator[Figure]:
    """Measure the speed-up by a second worker, the limit of the machine, and a chunk's cost."""
    size = job.size
    with job.cluster(1) as one, job.cluster(2) as two:
        codes = job.codes()
        for name, method in METHODS.items():

            def select(
                client: Client, method: hd.JMI | hd.HOFS = method, n_picks: int = size.n_picks
            ) -> None:
                with client.as_current():
                    hd.select(codes, None, n_picks, method=method)

            for client in (one, two):
                select(client, n_picks=2)  # workers compile and read before anything is timed
            alone, both = fastest(job.repeats, partial(select, one), partial(select, two))
            yield Figure(
                f"{name}: two workers over one",
                alone / both,
                "",
                str(size),
                {"one": alone, "two": both},
                target=1.8,
                at_most=False,
            )
        yield _ceiling(job, two, "the cache", 1)
        yield _ceiling(job, two, "memory", CEILING_CHUNKS)
        with one.as_current():
            yield _cost_of_a_chunk(job, codes.n_samples)


def bench_rounds(job: Run) -> Iterator[Figure]:
    """Measure the memory of workers and driver over many rounds."""
    with job.cluster() as client:
        codes, last = job.codes(), job.size.n_picks
        first = max(last // 10, 1)
        workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        everyone = [*workers, psutil.Process()]
        seen: dict[int, list[int]] = {}

        def look(event: object) -> None:
            if isinstance(event, hd.RoundEnded) and event.rank in (first, last):
                seen[event.rank] = [process.memory_info().rss for process in everyone]

        hd.select(codes, None, last, method="jmi", callback=look)
        early, late = np.array(seen[first]) / MIB, np.array(seen[last]) / MIB
        for who, before, after in (
            ("workers", early[:-1].max(), late[:-1].max()),
            ("driver and scheduler", early[-1], late[-1]),
        ):
            yield Figure(
                f"memory of {who}: round {last} over round {first}",
                after / before,
                "",
                str(job.size),
                {f"MiB at {first}": before, f"MiB at {last}": after},
                target=1.05,
            )


def bench_memory(job: Run) -> Iterator[Figure]:
    """Compare the peak memory of workers with the estimate, for two numbers of samples.

    Memory is measured with a cache, which uses all memory that it may use, and without a cache,
    where memory must not grow with the number of samples.
    """
    limit = "768 MiB"
    sizes = [replace(job.size, n_samples=factor * job.size.n_samples) for factor in (1, 4)]
    with job.cluster():
        stores = [job.resized(size).codes() for size in sizes]
    for name, method in METHODS.items():
        peaks = []
        for codes, size in zip(stores, sizes, strict=True):
            peak, expected = _peak_of(job, codes, size, method, limit)
            parts = {"MiB estimated": expected / MIB, "MiB at the peak": peak / MIB}
            text = f"{name}: estimate over peak of {size.n_samples} samples"
            enough = Figure(f"{text}, enough", expected / peak, "", f"{size}, limit {limit}", parts)
            yield replace(enough, target=1.0, at_most=False)
            yield replace(enough, name=f"{text}, not too much", target=1.3)
            with dask.config.set({"hofs_dask.cache": "0"}):
                peaks.append(_peak_of(job, codes, size, method, limit)[0])
        yield Figure(
            f"{name}, no cache: peak of four times the samples over that of one time",
            peaks[1] / peaks[0],
            "",
            f"{sizes[0]}, limit {limit}",
            {f"{size.n_samples}": peak / MIB for size, peak in zip(sizes, peaks, strict=True)},
            target=1.05,
        )


def _peak_of(
    job: Run, codes: CodeStore, size: Size, method: hd.JMI | hd.HOFS, limit: str
) -> tuple[int, int]:
    """Return the measured and the expected peak memory of a worker in a selection, in bytes."""
    # new processes, so that memory of an earlier run does not count
    with job.cluster(memory_limit=limit) as client:
        expected = hd.estimate(codes, n_features=size.n_picks, method=method).memory
        # measured from outside, so that the worker needs no additional imports
        workers = list(client.run(os.getpid).values())
        for pid in workers:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        hd.select(codes, None, size.n_picks, method=method)
        return max(map(_peak, workers)), expected.total


def bench_scheduler(job: Run) -> Iterator[Figure]:
    """Measure the cost of a task by scans of many tiny tasks on increasing numbers of workers."""
    size = job.size
    counts = [n for n in (2, 8, 16, 32) if n <= max(job.n_workers, 2)]
    request = Request(READ_ONLY, Context())
    with (
        job.cluster(counts[0], "1 GiB") as client,
        patch.object(scanning, "current_workers", _workers),
    ):
        local = client.cluster
        assert isinstance(local, LocalCluster)
        codes = job.codes(chunks=(size.n_samples, TILE_FEATURES))
        driver, times = psutil.Process(), []
        for n_workers in counts:
            local.scale(n_workers)
            client.wait_for_workers(n_workers)
            run(codes, [request])  # imports and opens
            busy = sum(driver.cpu_times()[:2])
            (seconds,) = fastest(job.repeats, partial(run, codes, [request]))
            busy = (sum(driver.cpu_times()[:2]) - busy) / job.repeats
            job.record(codes, "read-only", seconds)
            n_tasks = count(job.scans[-1].store, request, n_workers).tasks
            times.append(seconds / n_tasks)
            x = tuple(map(float, counts[: len(times)]))
            job.curves[:] = [Curve("workers", "a task", x, tuple(times), f"{n_tasks} tasks")]
            yield Figure(
                f"a task on {n_workers} workers",
                1e3 * seconds / n_tasks,
                "ms",
                f"{size.n_samples} x {size.n_features}, {n_tasks} tasks",
                {"seconds": seconds, "seconds of driver and scheduler": busy},
                note=f"{1e3 * busy / n_tasks:.2f} ms of it driver and scheduler",
            )


def _scaled(size: Size, factors: dict[str, float]) -> Size:
    return replace(size, **{name: int(getattr(size, name) * by) for name, by in factors.items()})


def _time(job: Run, method: hd.JMI | hd.HOFS) -> float:
    """Return the time of a selection; the first scan reads the store, others use the cache."""
    codes, n_picks = job.codes(), job.size.n_picks
    listen = job.listener(codes, kept=True)
    hd.select(codes, None, min(2, n_picks), method=method)  # compiles, and copies columns
    select = partial(hd.select, codes, None, n_picks, method=method, callback=listen)
    return fastest(job.repeats, select, before=forget_chunks)[0]


def _ceiling(job: Run, client: Client, where: str, n_chunks: int) -> Figure:
    """Return the speed-up of two independent processes on this machine."""
    places = sorted(client.nthreads())
    n_rows = max(job.size.n_samples // CEILING_CHUNKS, 64)

    def work(n_workers: int) -> None:
        several = [
            client.submit(_count, job.size, n_rows, n_chunks, workers=[place], pure=False)
            for place in places[:n_workers]
        ]
        client.gather(several)

    work(2)
    alone, both = fastest(3 * job.repeats, partial(work, 1), partial(work, 2))
    return Figure(
        f"the bare kernel, codes in {where}: two processes over one",
        2 * alone / both,
        "",
        f"{CEILING_CHUNKS} chunks of {n_rows} x {job.size.n_features}, {job.size.n_codes} codes",
        {"one": alone, "two": both},
        note="what the machine allows",
    )


def _count(size: Size, n_rows: int, n_chunks: int) -> None:
    """Count one pick with all features in `CEILING_CHUNKS` chunks; ``n_chunks`` are different."""
    planes, masks = _chunks(size, n_rows, n_chunks)
    out = np.zeros((size.n_features, size.n_classes * size.n_codes**2), np.int64)
    for number in range(CEILING_CHUNKS):
        own = planes[number % n_chunks]
        start = size.n_classes * size.n_codes
        add_plane_counts(own, NO_PLACES, masks, NO_WORDS, size.n_codes, 0, out, start)


@lru_cache(maxsize=1)
def _chunks(size: Size, n_rows: int, n_chunks: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return copies of a chunk, and a bit mask per class and code of a pick, without code 0."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, size.n_codes, (size.n_features, n_rows)).astype(np.uint8)
    labels = rng.integers(0, size.n_classes, (1, n_rows)).astype(np.uint8)
    planes = pack(codes, n_bits(size.n_codes))
    digits = [(planes[0], size.n_codes), (pack(labels, n_bits(size.n_classes))[0], size.n_classes)]
    masks = cell_masks(first_bits(n_rows, planes.shape[2]), digits)[:, size.n_classes :]
    return [planes.copy() for _ in range(n_chunks)], np.ascontiguousarray(masks)


def _cost_of_a_chunk(job: Run, n_samples: int) -> Figure:
    """Return the time of a scan on one worker minus the time of its kernel, per chunk."""
    n_chunks = max(min(SMALL_CHUNKS, n_samples // 100), 4)
    size = Size(n_chunks * CHUNK_SAMPLES, CHUNK_FEATURES)
    codes = job.resized(size).codes(chunks=(CHUNK_SAMPLES, CHUNK_FEATURES))
    request = counting_request(codes)
    kernel = kernel_seconds(codes, request, 1)
    with dask.config.set({"hofs_dask.cache": "0"}):
        run(codes, [request])
        (scan,) = fastest(3 * job.repeats, partial(run, codes, [request]))
    job.record(codes, "pair-terms", scan, n_columns=1)
    return Figure(
        "overhead a chunk",
        1e3 * (scan - kernel) / n_chunks,
        "ms",
        f"{n_chunks} chunks of {CHUNK_SAMPLES} x {CHUNK_FEATURES}, one worker",
        {"scan": scan, "kernel": kernel},
        target=1.0,
    )


def _workers(_scan: Sequence[Request]) -> tuple[Worker, ...]:
    """Return the current workers without compiling kernels, for scans that only read."""
    places = sorted(Client.current().nthreads())
    return tuple(Worker(place, 1, 2**30, 2**28) for place in places)


def _peak(pid: int) -> int:
    """Return the peak memory of a process, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024
