"""What it costs, as ratios measured in one run: ``python -m pipelines.bench``.

Every figure compares two things that were timed one after the other on the same machine, the best
of a few runs each. A machine of its own is not needed, but nobody else should be at work on it.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import dask
import dask.array as da
import numpy as np
import psutil
from dask.delayed import delayed
from distributed import Client, LocalCluster

import hofs_dask as hd
from hofs_dask.data.chunks import read_codes, read_labels
from hofs_dask.data.codes import CodeStore
from hofs_dask.engine.passes import run
from hofs_dask.engine.statistic import Context, Pass, Statistic

FAMILY = ("mim", "mifs", "mrmr", "jmi", "cmim", "spec_cmi", "cife", "icap", "disr", "jmim")
#: Samples that one task draws.
DRAWN_ROWS = 25_000

#: A pass that reads and decodes and does nothing else.
READ_ONLY = Statistic("read-only", lambda _c, _n: {}, lambda _c, _b, _p: None, lambda _c, t: t)


@dataclass(frozen=True)
class Size:
    """How large the data of a benchmark is."""

    n_samples: int
    n_features: int
    n_codes: int
    n_picks: int

    def __str__(self) -> str:
        return f"{self.n_samples} x {self.n_features}, {self.n_codes} codes, {self.n_picks} picks"


@dataclass(frozen=True)
class Figure:
    """One ratio, and what it was made of."""

    name: str
    size: str
    seconds: float
    of: str
    of_seconds: float

    @property
    def ratio(self) -> float:
        """The first time over the second."""
        return self.seconds / self.of_seconds


def draw(path: Path, size: Size, seed: int = 0) -> CodeStore:
    """A code store of two classes: groups of ten features share a cause, every seventh tells."""
    n, m, bins = size.n_samples, size.n_features, size.n_codes

    def block(number: int) -> np.ndarray:
        rng = np.random.default_rng([seed, number])
        n_rows = min(DRAWN_ROWS, n - number * DRAWN_ROWS)
        y = rng.integers(0, 2, n_rows)
        z = (
            rng.normal(size=(n_rows, m))
            + 0.7 * np.repeat(rng.normal(size=(n_rows, -(-m // 10))), 10, axis=1)[:, :m]
        )
        telling = range(0, m, 7)
        z[:, telling] += 0.35 * y[:, None] * np.linspace(1.5, 0.3, len(telling))
        codes = np.clip((z / 1.3 + 2) / 4 * bins, 0, bins - 1).astype(np.uint8)
        return np.column_stack([codes, y.astype(np.uint8)])

    rows = [min(DRAWN_ROWS, n - start) for start in range(0, n, DRAWN_ROWS)]
    blocks = [
        da.from_delayed(delayed(block)(number), (n_rows, m + 1), np.uint8)
        for number, n_rows in enumerate(rows)
    ]
    table = da.concatenate(blocks)
    return hd.encode(table[:, :m], table[:, m], path, bins=None)


def best(function: Callable[[], object], repeats: int) -> float:
    """The shortest of several times that a function takes, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def bench_compare(codes: CodeStore, size: Size, repeats: int) -> Iterator[Figure]:
    """`compare` against its methods one after the other."""
    forget = _forgetter(codes)
    for what, cache, callback, methods in (
        ("the pairwise family, cached", "1 GiB", None, FAMILY),
        ("the pairwise family, streaming", "0", None, FAMILY),
        ("eight methods, cached", "1 GiB", None, hd.METHODS),
        ("eight methods, streaming from the page cache", "0", None, hd.METHODS),
        ("eight methods, streaming from the disk", "0", forget, hd.METHODS),
    ):

        def together(
            methods: Sequence[str] = methods, callback: Callable[..., None] | None = callback
        ) -> None:
            hd.compare(codes, None, size.n_picks, methods=methods, callback=callback)

        def apart(
            methods: Sequence[str] = methods, callback: Callable[..., None] | None = callback
        ) -> None:
            for method in methods:
                hd.select(codes, None, size.n_picks, method=method, callback=callback)

        with dask.config.set({"hofs_dask.cache": cache}):
            seconds, of_seconds = best(together, repeats), best(apart, repeats)
        yield Figure(f"compare: {what}", str(size), seconds, "one after the other", of_seconds)


def bench_cached(codes: CodeStore, size: Size, repeats: int) -> Iterator[Figure]:
    """Whole runs from the store against a loop of `np.bincount` in memory, on one thread."""
    cells = read_codes(codes.path, slice(0, codes.n_features), slice(0, codes.n_samples))
    labels = read_labels(codes.path, codes.labels.key, slice(0, codes.n_samples))
    chosen = hd.select(codes, None, size.n_picks, method="jmi").indices

    def loop() -> None:
        for pick in chosen:
            pair = (cells[pick].astype(np.int64) * 2 + labels) * size.n_codes
            for column in cells:
                np.bincount(pair + column, minlength=2 * size.n_codes**2)

    of_seconds = best(loop, 1)
    for method in ("mrmr", "jmi"):
        with dask.config.set({"hofs_dask.cache": "1 GiB"}):
            whole = partial(hd.select, codes, None, size.n_picks, method=method)
            seconds = best(whole, repeats)
        yield Figure(f"{method}, cached", str(size), seconds, "np.bincount loop", of_seconds)


def bench_streaming(codes: CodeStore, size: Size, repeats: int) -> Iterator[Figure]:
    """A round against a walk that only reads, and that against the raw files."""
    files = sorted(path for path in Path(codes.path, "codes", "c").rglob("*") if path.is_file())

    def raw() -> None:
        for file in files:
            file.read_bytes()

    events: list[hd.PassDone] = []

    def keep(event: object) -> None:
        if isinstance(event, hd.PassDone) and event.statistic == "pair-terms":
            events.append(event)

    with dask.config.set({"hofs_dask.cache": "0"}):
        reading = best(lambda: run(codes, [Pass(READ_ONLY, Context({}))]), 5 * repeats)
        for _ in range(repeats):
            hd.select(codes, None, min(size.n_picks, 8), method="jmi", callback=keep)
    a_round = min(event.seconds for event in events)
    yield Figure("a round of jmi, streaming", str(size), a_round, "a walk that only reads", reading)
    yield Figure(
        "a walk that only reads", str(size), reading, "the raw files", best(raw, 5 * repeats)
    )


BENCHMARKS = {"compare": bench_compare, "cached": bench_cached, "streaming": bench_streaming}
SIZES = {
    "compare": Size(2_000_000, 100, 5, 10),
    "cached": Size(2_000_000, 200, 5, 20),
    "streaming": Size(2_000_000, 200, 5, 20),
}
SMALL = Size(3_000, 12, 5, 3)


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), cpu)
    packages = ("hofs-dask", "dask", "distributed", "numpy", "numba", "zarr")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {package: version(package) for package in packages},
    }


def _forgetter(codes: CodeStore) -> Callable[[object], None]:
    """A listener that makes the system forget the store before every walk: data beyond memory."""
    files = [path for path in Path(codes.path, "codes").rglob("c/**/*") if path.is_file()]
    for file in files:
        _with_file(file, os.fsync)

    def forget(event: object) -> None:
        if isinstance(event, hd.PassStarted):
            for file in files:
                _with_file(
                    file, lambda handle: os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                )

    return forget


def _with_file(path: Path, function: Callable[[int], None]) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        function(handle)
    finally:
        os.close(handle)


@contextmanager
def _cluster(n_workers: int) -> Iterator[None]:
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit="4 GiB",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster),
    ):
        yield


@click.command()
@click.option(
    "--only", type=click.Choice(list(BENCHMARKS)), multiple=True, help="One group; again for more."
)
@click.option("--small", is_flag=True, help="Tiny data: whether it runs, not how fast.")
@click.option("--workers", default=2, show_default=True, help="Worker processes.")
@click.option("--repeats", default=2, show_default=True, help="Runs that the best is taken of.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A JSON file.")
def main(
    only: tuple[str, ...], small: bool, workers: int, repeats: int, output: Path | None
) -> None:
    """Measure what hofs_dask costs, as ratios."""
    found: list[Figure] = []
    about = machine()
    click.echo(f"{about['date']}, {about['cpu']}, {about['cores']} cores, {workers} workers")
    with TemporaryDirectory() as folder, _cluster(workers):
        for name in only or BENCHMARKS:
            size = SMALL if small else SIZES[name]
            path = Path(folder, f"{size.n_samples}-{size.n_features}-{size.n_codes}")
            codes = draw(path, size)
            hd.select(codes, None, 2, method="vmi")  # workers compile before anything is timed
            for figure in BENCHMARKS[name](codes, size, repeats):
                found.append(figure)
                click.echo(
                    f"{figure.ratio:6.2f}  {figure.name} ({figure.seconds:.3g} s) over "
                    f"{figure.of} ({figure.of_seconds:.3g} s); {figure.size}"
                )
    if output is not None:
        figures = [{**asdict(figure), "ratio": figure.ratio} for figure in found]
        output.write_text(json.dumps({"machine": about, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
