"""Speed relative to simple alternatives: a loop, a read, an import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import dask
import numpy as np

import hofs_dask as hd
from hofs_dask.engine.reduction import Context, Request
from hofs_dask.engine.scanning import run
from hofs_dask.store.codes import CodeStore, read_codes, read_labels
from pipelines.bench.tools import (
    Figure,
    Run,
    bincount_seconds,
    chunk_files,
    counting_request,
    fastest,
    forget_chunks,
    forgetter,
    kernel_seconds,
    ratio,
)
from pipelines.model import READ_ONLY

FAMILY = ("mim", "mifs", "mrmr", "jmi", "cmim", "spec_cmi", "cife", "icap", "disr", "jmim")
#: Number of picks for which the loop of `np.bincount` is timed.
LOOP_PICKS = 2
#: Variants of HOFS: name, options, and the target for the ratio of their time to the loop's time.
HOFS_TARGETS: tuple[tuple[str, hd.HOFS, float], ...] = (
    ("sum, gaussian", hd.HOFS(criterion="sum", source="gaussian"), 0.3),
    ("joint", hd.HOFS(), 1.0),
    ("sum, logistic", hd.HOFS(criterion="sum"), 1.5),
)
MANY_CLASSES = 10
#: The largest default number of codes of a feature.
MANY_CODES = 32


def bench_compare(job: Run) -> Iterator[Figure]:
    """Time `compare`, and the same methods run one after the other."""
    with job.cluster():
        codes, size = job.codes(), job.size
        forget = forgetter(chunk_files(codes))

        def from_disk(event: object) -> None:
            if isinstance(event, hd.ScanStarted):
                forget()

        hd.select(codes, None, 2, method="vmi")  # workers compile before anything is timed
        for what, cache, callback, methods in (
            ("the pairwise family, cached", "1 GiB", None, FAMILY),
            ("the pairwise family, streaming", "0", None, FAMILY),
            ("eight methods, cached", "1 GiB", None, hd.METHODS),
            ("eight methods, streaming from the page cache", "0", None, hd.METHODS),
            ("eight methods, streaming from the disk", "0", from_disk, hd.METHODS),
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
                # one repetition is enough for long runs of many scans
                seconds, of_seconds = fastest(1, together, apart)
            yield ratio(f"compare: {what}", size, seconds, "one after the other", of_seconds)


def bench_cached(job: Run) -> Iterator[Figure]:
    """Compare runs from the store with a loop of `np.bincount`, and time the kernel alone."""
    with job.cluster():
        codes, size = job.codes(), job.size
        cells, labels = _in_memory(codes)
        hd.select(codes, None, 2, method="jmi")  # workers compile before anything is timed
        loop = bincount_seconds(cells, labels, size, range(LOOP_PICKS), job.repeats)
        for method in ("mrmr", "jmi"):
            yield ratio(
                f"{method}, cached",
                size,
                _whole_run(job, codes, method, job.repeats),
                "np.bincount loop",
                loop,
                target=1 / 6,
                note="reading the store included; two picks of the loop timed and multiplied",
            )
        wide = job.resized(replace(size, n_samples=size.n_samples // 10, n_codes=MANY_CODES))
        codes = wide.codes()
        seconds = kernel_seconds(codes, counting_request(codes), job.repeats)
        n_cells = codes.n_samples * codes.n_features
        yield Figure(
            "pair counts, kernel alone",
            1e9 * seconds / n_cells,
            "ns a cell a core",
            str(wide.size),
            {"seconds": seconds, "cells": n_cells},
            target=1.0,
        )


def bench_streaming(job: Run) -> Iterator[Figure]:
    """Compare a round with a scan that only reads, and this scan with reading the files."""
    with job.cluster() as client, dask.config.set({"hofs_dask.cache": "0"}):
        codes, size = job.codes(), job.size
        files = chunk_files(codes)
        forget = forgetter(files)
        counting, reading = counting_request(codes), Request(READ_ONLY, Context())
        workers = sorted(client.nthreads())
        shares = [list(map(str, files[i :: len(workers)])) for i in range(len(workers))]

        def raw() -> None:
            pairs = zip(shares, workers, strict=True)
            client.gather(
                [client.submit(_read_files, own, workers=[at], pure=False) for own, at in pairs]
            )

        scans: tuple[Callable[[], object], ...] = (
            partial(run, codes, [counting]),
            partial(run, codes, [reading]),
            raw,
        )
        for where in ("the page cache", "the disk"):
            before = forget if where == "the disk" else None
            a_round, a_read, the_files = fastest(3 * job.repeats, *scans, before=before)
            if before is None:
                job.record(codes, "pair-terms", a_round, n_columns=1)
                job.record(codes, "read-only", a_read)
            yield ratio(
                f"a round of jmi from {where}",
                size,
                a_round,
                "a scan that only reads",
                a_read,
                target=1.3,
            )
            yield ratio(
                f"a scan that only reads from {where}",
                size,
                a_read,
                "one read a file",
                the_files,
                target=2.0,
                note=f"{sum(file.stat().st_size for file in files) / the_files / 1e9:.2f} GB/s raw",
            )


def bench_hofs(job: Run) -> Iterator[Figure]:
    """Compare HOFS with a loop of `np.bincount` for JMI, and measure its growth with classes."""
    with job.cluster():
        codes, size = job.codes(), job.size
        cells, labels = _in_memory(codes)
        loop = bincount_seconds(cells, labels, size, range(LOOP_PICKS), job.repeats)
        del cells, labels
        hd.select(codes, None, 2, method="vmi")  # workers compile before anything is timed
        for name, method, target in HOFS_TARGETS:
            seconds = _whole_run(job, codes, method, 1)
            note = "two picks of the loop timed and multiplied"
            yield ratio(name, size, seconds, "np.bincount loop", loop, target, note)
        # Newton steps grow with the classes; fewer samples are enough to measure this
        few = replace(size, n_samples=max(size.n_samples // 5, 1000), n_picks=min(size.n_picks, 3))
        jobs = [job.resized(replace(few, n_classes=n)) for n in (size.n_classes, MANY_CLASSES)]
        for name, method, _ in HOFS_TARGETS:
            before, after = (_whole_run(each, each.codes(), method, 1) for each in jobs)
            text = f"{name}: {MANY_CLASSES} classes"
            yield ratio(text, jobs[1].size, after, f"{size.n_classes} classes", before)


def bench_related(job: Run) -> Iterator[Figure]:
    """Measure HOFS on features that share causes, where few candidates can be screened out."""
    with job.cluster():
        codes, size = job.codes(), job.size
        cells, labels = _in_memory(codes)
        loop = bincount_seconds(cells, labels, size, range(LOOP_PICKS), job.repeats)
        del cells, labels
        hd.select(codes, None, 2, method="vmi")  # workers compile before anything is timed
        seconds = _whole_run(job, codes, hd.HOFS(), job.repeats)
        note = "two picks of the loop timed and multiplied"
        yield ratio("joint, related features", size, seconds, "np.bincount loop", loop, 0.6, note)


def bench_small(job: Run) -> Iterator[Figure]:
    """Time selections from small data in memory without a cluster, and the import."""
    size = job.size
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size.n_samples)
    x = rng.standard_normal((size.n_samples, size.n_features))
    x[:, ::7] += 0.5 * y[:, None]
    for method in ("hofs", "jmi"):
        select = partial(hd.select, x, y, size.n_picks, method=method)
        select()
        (seconds,) = fastest(3 * job.repeats, select)
        name = f"{method} of a small array, warm"
        yield Figure(name, seconds, "s", str(size), {"seconds": seconds}, target=0.3)

    def fresh(statement: str) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    whole, bare, nothing = fastest(
        2 * job.repeats,
        partial(fresh, "import hofs_dask; hofs_dask.select"),
        partial(fresh, "import numpy, numba"),
        partial(fresh, "pass"),
    )
    parts = {"seconds": whole, "numpy and numba alone": bare, "nothing": nothing}
    yield Figure("import and select of a fresh process", whole, "s", "", parts, target=1.5)


def _in_memory(codes: CodeStore) -> tuple[np.ndarray, np.ndarray]:
    everything = slice(0, codes.n_samples)
    cells = read_codes(codes, slice(0, codes.n_features), everything)
    return cells, read_labels(codes, everything)


def _whole_run(job: Run, codes: CodeStore, method: str | hd.HOFS, repeats: int) -> float:
    """Return the time of a selection; the first scan reads the store, others use the cache."""
    listen = job.listener(codes, kept=True)
    whole = partial(hd.select, codes, None, job.size.n_picks, method=method, callback=listen)
    with dask.config.set({"hofs_dask.cache": "1 GiB"}):
        return fastest(repeats, whole, before=forget_chunks)[0]


def _read_files(files: Sequence[str]) -> None:
    """Read files with one read each, into a reused buffer."""
    buffer = bytearray(max((Path(file).stat().st_size for file in files), default=0))
    for name in files:
        with Path(name).open("rb", buffering=0) as file:
            file.readinto(buffer)
