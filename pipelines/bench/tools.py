"""Common tools of the benchmarks: data, clocks, clusters and records."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
from dask.delayed import delayed
from distributed import Client, LocalCluster

import hofs_dask as hd
from hofs_dask.engine.counts import MARGINAL_COUNTS, MarginalContext
from hofs_dask.engine.reduction import Block, Context, Partial, Request
from hofs_dask.engine.scanning import run
from hofs_dask.methods.pairwise import learn
from hofs_dask.preload import WORKER_SETTINGS
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.search.rounds import describe
from hofs_dask.store.codes import CodeStore
from pipelines.model import Scan

#: Maximum number of samples, and of cells, that one task draws.
DRAWN_ROWS, DRAWN_CELLS = 25_000, 5_000_000
#: Number of causes that related features share.
N_CAUSES = 6


@dataclass(frozen=True)
class Size:
    """Sizes of the data of a benchmark."""

    n_samples: int
    n_features: int
    n_codes: int = 5
    n_picks: int = 10
    n_classes: int = 2
    n_related: int = 0  # number of features that share six causes of y, see `draw`

    def __str__(self) -> str:
        related = f", {self.n_related} related" if self.n_related else ""
        return (
            f"{self.n_samples} x {self.n_features}{related}, {self.n_codes} codes, "
            f"{self.n_classes} classes, {self.n_picks} picks"
        )


@dataclass(frozen=True)
class Figure:
    """A measured number, and the target for it."""

    name: str
    value: float
    unit: str  # empty for a ratio
    size: str
    parts: dict[str, float]  # the measurements from which the number is computed
    target: float | None = None
    at_most: bool = True  # False if more is better
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return bool(self.value <= self.target if self.at_most else self.value >= self.target)


@dataclass(frozen=True)
class Curve:
    """The times of runs that differ in one size, the axis."""

    axis: str
    method: str
    x: tuple[float, ...]
    seconds: tuple[float, ...]
    size: str

    @property
    def slope(self) -> float:
        """The exponent of growth over the last three points, where overheads matter least."""
        x, y = np.log(self.x[-3:]), np.log(self.seconds[-3:])
        return float(np.polyfit(x, y, 1)[0])


def _pin(client: Client) -> None:
    """Pin each worker to a core, because otherwise two workers may share a core for a while."""
    processors = sorted(os.sched_getaffinity(0))
    for number, worker in enumerate(sorted(client.nthreads())):
        client.run(_stay, processors[number % len(processors)], workers=[worker])


def _stay(processor: int) -> None:
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {processor})


@dataclass
class Run:
    """A run of the benchmark: its settings and all its records."""

    folder: Path
    size: Size
    n_workers: int
    repeats: int
    processes: bool = True  # whether workers are processes; threads are faster for tests
    curves: list[Curve] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)

    def resized(self, size: Size) -> Run:
        """Return this run with data of another size."""
        return replace(self, size=size)

    @contextmanager
    def cluster(
        self, n_workers: int | None = None, memory_limit: str = "4 GiB"
    ) -> Iterator[Client]:
        """Yield a client of this number of single-thread workers."""
        with (
            dask.config.set(WORKER_SETTINGS),
            LocalCluster(
                n_workers=self.n_workers if n_workers is None else n_workers,
                threads_per_worker=1,
                processes=self.processes,
                memory_limit=memory_limit if self.processes else 0,
                dashboard_address="127.0.0.1:0",
            ) as local,
            Client(local) as client,
        ):
            if self.processes and hasattr(os, "sched_setaffinity"):
                _pin(client)
            yield client

    def codes(self, chunks: tuple[int, int] | None = None) -> CodeStore:
        """Return the code store for data of this size; it is created if it does not exist."""
        size = self.size
        shape = (size.n_samples, size.n_features, size.n_codes, size.n_classes, size.n_related)
        name = "-".join(map(str, shape))
        path = self.folder / (name + "".join(f"-{length}" for length in chunks or ()))
        return hd.encode(*draw(size), path, bins=None, chunks=chunks)

    def listener(self, codes: CodeStore, *, kept: bool) -> Callable[[object], None]:
        """Return a callback for `select` that records the time of every scan.

        It also records the time of the driver in each round, which is the rest of the round.
        ``kept`` says whether chunks are in memory; the first scan always reads the store.
        """
        methods = {"jmi": "jmi", hd.HOFS().label: "joint"}
        scanned = [0.0]

        def listen(event: object) -> None:
            if isinstance(event, hd.RoundStarted):
                scanned[0] = 0.0
            if isinstance(event, hd.RoundEnded) and event.method in methods and event.rank > 1:
                self.record(
                    codes,
                    f"{methods[event.method]} on the driver",
                    event.seconds - scanned[0],
                    n_columns=event.rank - 1,
                    kept=kept,
                )
            if isinstance(event, hd.ScanEnded):
                scanned[0] += event.seconds
                n_columns = {"marginal-counts": 0, "posterior-gains": event.rank - 1}
                self.record(
                    codes,
                    event.reduction,
                    event.seconds,
                    n_columns=n_columns.get(event.reduction, 1),
                    kept=kept and event.rank > 0,
                    share=event.n_cells / (codes.n_samples * codes.n_features),
                )

        return listen

    def record(
        self,
        codes: CodeStore,
        reduction: str,
        seconds: float,
        *,
        n_columns: int = 0,
        kept: bool = False,
        share: float = 1.0,
    ) -> None:
        """Record the time of a scan on the current workers."""
        n_workers = len(Client.current().nthreads())
        self.scans.append(
            Scan(
                reduction,
                codes.n_samples,
                codes.n_features,
                int(codes.n_codes.max()),
                len(codes.labels.classes),
                n_columns,
                *codes.chunks,
                n_workers,
                min(n_workers, os.cpu_count() or 1),
                kept,
                seconds,
                share,
            )
        )


def ratio(
    name: str,
    size: object,
    seconds: float,
    of: str,
    of_seconds: float,
    target: float | None = None,
    note: str = "",
) -> Figure:
    """Return the figure for the ratio of two times."""
    parts = {"seconds": seconds, of: of_seconds}
    return Figure(name, seconds / of_seconds, "", str(size), parts, target, note=note)


def fastest(
    repeats: int, *functions: Callable[[], object], before: Callable[[], object] | None = None
) -> list[float]:
    """Return the shortest time of each function in seconds; the functions run alternately.

    The function ``before`` is called before each run, and is not timed.
    """
    times = [math.inf] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            if before is not None:
                before()
            start = time.perf_counter()
            function()
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def draw(size: Size, seed: int = 0) -> tuple[da.Array, da.Array]:
    """Return the codes (sample, feature) and labels (sample,) of generated data.

    The features form groups of ten that depend on each other, and every seventh feature depends on
    y. If ``size.n_related`` is given, this many features are instead noisy copies of six causes of
    y, and all others are noise.
    """
    step = max(1, min(DRAWN_ROWS, DRAWN_CELLS // size.n_features))
    lengths = [min(step, size.n_samples - start) for start in range(0, size.n_samples, step)]
    blocks = [
        # the key identifies the content, so that an existing store is reused
        da.from_delayed(
            delayed(_block, pure=True)(size, n_rows, [seed, number]),
            (n_rows, size.n_features + 1),
            np.uint8,
        )
        for number, n_rows in enumerate(lengths)
    ]
    table = da.concatenate(blocks)
    return table[:, : size.n_features], table[:, size.n_features]


def _block(size: Size, n_rows: int, seed: Sequence[int]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    m = size.n_features
    y = rng.integers(0, size.n_classes, n_rows)
    z = rng.standard_normal((n_rows, m), np.float32)
    if size.n_related:
        causes = rng.standard_normal((n_rows, N_CAUSES), np.float32)
        total = causes.sum(axis=1) / math.sqrt(N_CAUSES) + 0.5 * rng.standard_normal(n_rows)
        y = np.searchsorted(np.linspace(-1, 1, size.n_classes + 1)[1:-1], total)
        related = np.arange(size.n_related)
        z[:, related] = 0.8 * z[:, related] + causes[:, related % N_CAUSES]
        return _coded(z, y, size.n_codes)
    causes = rng.standard_normal((n_rows, -(-m // 10)), np.float32)
    z += 0.7 * np.repeat(causes, 10, axis=1)[:, :m]
    telling = range(0, m, 7)
    strength = np.linspace(1.5, 0.3, len(telling), dtype=np.float32)
    z[:, telling] += np.float32(0.35) * (2 * y[:, None] / size.n_classes) * strength
    return _coded(z, y, size.n_codes)


def _coded(z: np.ndarray, y: np.ndarray, n_codes: int) -> np.ndarray:
    codes = np.clip((z / 1.3 + 2) / 4 * n_codes, 0, n_codes - 1).astype(np.uint8)
    return np.column_stack([codes, y.astype(np.uint8)])


def chunk_files(codes: CodeStore) -> list[Path]:
    """Return the chunk files of codes and labels, without copies of columns."""
    folders = [path for path in Path(codes.place.path).iterdir() if path.name != "columns"]
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if path.name != "zarr.json")


def counting_request(codes: CodeStore, pick: int = 0) -> Request:
    """Return the request by which a pairwise method counts one pick with all features."""
    context = MarginalContext(len(codes.labels.classes), int(codes.n_codes.max()))
    (total,) = run(codes, [Request(MARGINAL_COUNTS, context)])
    return next(learn(describe(codes, total["counts"]), pick))


def kernel_seconds(codes: CodeStore, request: Request, repeats: int) -> float:
    """Return the time of a reduction over the chunks of a store in one thread, without reading."""
    chunk = request.reduction.chunk
    times: list[float] = []

    def timed(context: Context, block: Block, partial: Partial) -> None:
        times.extend(fastest(5 * repeats, lambda: chunk(context, block, partial)))

    with dask.config.set({"scheduler": "synchronous", "hofs_dask.cache": "0"}):
        run(codes, [replace(request, reduction=replace(request.reduction, chunk=timed))])
    return sum(times)


def bincount_seconds(
    cells: np.ndarray, labels: np.ndarray, size: Size, picks: Sequence[int], repeats: int
) -> float:
    """Return the time of a loop of `np.bincount` over all features for all picks.

    The loop runs in one thread, with codes in memory and one call per feature. Every pick takes the
    same time, so only ``picks`` are timed and the result is multiplied.
    """

    def loop() -> None:
        for pick in picks:
            pair = (cells[pick].astype(np.int64) * size.n_classes + labels) * size.n_codes
            for column in cells:
                np.bincount(pair + column, minlength=size.n_classes * size.n_codes**2)

    return fastest(repeats, loop)[0] * size.n_picks / len(picks)


def forgetter(files: Iterable[Path]) -> Callable[[], None]:
    """Return a function that drops files from the page cache, so that they are read from disk."""
    known = list(files)
    for file in known:
        _with_file(file, os.fsync)

    def forget() -> None:
        for file in known:
            _with_file(file, lambda handle: os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED))

    return forget


def _with_file(path: Path, function: Callable[[int], None]) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        function(handle)
    finally:
        os.close(handle)


def forget_chunks() -> None:
    """Empty the workers' caches of decoded chunks."""
    Client.current().run(_clear)


def _clear() -> None:
    PROCESS.chunks.clear()


def machine() -> dict[str, Any]:
    """Return a description of the machine."""
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), cpu)
    packages = ("hofs-dask", "dask", "distributed", "numpy", "numba", "zarr")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": round(psutil.getloadavg()[0], 1),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "packages": {package: version(package) for package in packages},
    }
