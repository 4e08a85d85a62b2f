"""The time of a scan with weights, relative to one without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import dask.config
import numpy as np

import hofs_dask as hd
from hofs_dask.engine.scanning import run
from pipelines.bench.tools import Figure, Run, counting_request, draw, fastest, ratio

#: Numbers of codes of a feature. With more, samples are counted one by one in both cases.
CODES = (2, 3, 5)
#: Samples of one latitude on a grid of a quarter of a degree and of one degree.
LONG, SHORT = 1440, 360


def bench_weights(job: Run) -> Iterator[Figure]:
    """Compare scans of `jmi` with and without weights, in one thread, with chunks in memory."""
    rng, n = np.random.default_rng(0), job.size.n_samples
    kinds: dict[str, tuple[np.ndarray | None, float | None]] = {
        "no weights": (None, None),
        "weights of 4 bits": (rng.integers(1, 16, n), 3.0),
        "weights of 8 bits": (rng.integers(1, 256, n), None),
        "weights of 16 bits": (rng.random(n) + 0.01, None),
        f"runs of {LONG} equal weights": (_runs(rng, n, LONG), 1.3),
        f"runs of {SHORT} equal weights": (_runs(rng, n, SHORT), None),
    }
    with dask.config.set(scheduler="synchronous"):
        for n_codes in CODES:
            size = replace(job.size, n_codes=n_codes)
            data, labels = draw(size)
            scans = {}
            for name, (weights, _) in kinds.items():
                folder = job.folder / f"{name} {n_codes}".replace(" ", "-")
                codes = hd.encode(data, labels, folder, bins=None, weights=weights)
                scans[name] = partial(run, codes, [counting_request(codes)])
                scans[name]()  # chunks are in memory from now on
            base, *others = fastest(10 * job.repeats, *scans.values())
            for (name, (_, target)), seconds in zip(list(kinds.items())[1:], others, strict=True):
                yield ratio(f"{name}, {n_codes} codes", size, seconds, "no weights", base, target)


def _runs(rng: np.random.Generator, n: int, length: int) -> np.ndarray:
    """Return weights that are equal for this many samples in a row."""
    return np.repeat(rng.random(n // length + 1) + 0.01, length)[:n]
