"""The time of `interactions`: against mdfs, with more workers, with screening, and its growth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import dask.config
import numpy as np
from distributed import Client

import hofs_dask as hd
from pipelines.bench.tools import Curve, Figure, Run, Size, draw, fastest

#: Numbers of codes for which the time of a pair is measured.
CODES = (3, 5, 16)
#: By how much the samples of the benchmark of two workers exceed those of the others.
LONGER = 20
#: For each size that is varied, the factors by which it is multiplied.
AXES: dict[str, tuple[int, ...]] = {
    "n_samples": (1, 4, 16),
    "n_features": (1, 2, 4),
    "n_codes": (1, 2, 4),
    "n_classes": (1, 2, 4),
}
#: Triples are compared for the number of features divided by this number.
FEWER = 10


def bench_interactions(job: Run) -> Iterator[Figure]:
    """Compare all pairs and triples in one thread, then with one and two workers."""
    size = job.size
    with dask.config.set(scheduler="synchronous"):
        yield _against_mdfs(job, size, 2)
        yield _against_mdfs(job, replace(size, n_features=max(size.n_features // FEWER, 5)), 3)
        for n_codes in CODES:
            yield _per_pair(job, replace(size, n_codes=n_codes))
        for axis, factors in AXES.items():
            yield _growth(job, axis, factors)
    yield _two_workers(job, replace(size, n_samples=LONGER * size.n_samples))


def bench_screening(job: Run) -> Iterator[Figure]:
    """Compare all pairs of large data with screening, on two workers."""
    size = job.size
    with job.cluster():
        codes = job.codes()
        found: list[hd.Interactions] = []
        (seconds,) = fastest(1, lambda: found.append(hd.interactions(codes, None)))
    (result,) = found
    yield Figure(
        "all pairs with screening",
        seconds,
        "s",
        _sizes(size),
        {"smallest synergy": result.smallest_synergy},
        note=f"{job.n_workers} workers, from a code store",
    )


def _against_mdfs(job: Run, size: Size, order: int) -> Figure:
    """Return the time for data in memory, encoding included, relative to that of mdfs."""
    data, labels = (array.compute() for array in draw(size))
    n = math.comb(size.n_features, order) * size.n_samples
    both: list[Callable[[], object]] = [
        partial(hd.interactions, data, labels, order=order, bins=None, progress=False)
    ]
    has_mdfs = find_spec("mdfs") is not None
    if has_mdfs:
        both.append(_mdfs(data, labels, order, size.n_codes - 1))
    both[0]()  # kernels are compiled or loaded
    times = fastest(job.repeats, *both)
    per_tuple = [1e9 * time / n for time in times]
    name = f"{'pairs' if order == 2 else 'triples'} of data in memory, one thread"
    if not has_mdfs:
        note = "mdfs is not installed: pip install mdfs"
        return Figure(name, per_tuple[0], "ns/sample-tuple", _sizes(size), {}, note=note)
    return Figure(
        name,
        times[0] / times[1],
        "times mdfs",
        _sizes(size),
        dict(zip(("hofs_dask", "mdfs"), per_tuple, strict=True)),
        target=0.1,
        note="nanoseconds per sample and tuple, encoding included",
    )


def _mdfs(data: np.ndarray, labels: np.ndarray, order: int, divisions: int) -> Callable[[], object]:
    from mdfs import compute_max_ig  # type: ignore[import-not-found, unused-ignore]

    return partial(
        compute_max_ig,
        np.asfortranarray(data, dtype=np.float64),
        labels.astype(np.intc),
        dimensions=order,
        divisions=divisions,
        discretizations=1,
        range_=0.0,
        seed=0,
        return_tuples=True,
    )


def _per_pair(job: Run, size: Size) -> Figure:
    """Return the time of a pair for one sample, from a code store, in one thread."""
    codes = job.resized(size).codes()
    seconds = _seconds(job, codes)
    n_codes = int(hd.interactions(codes, None, top=1).to_dataset().attrs["n_codes"])
    return Figure(
        f"pairs: time for {size.n_codes} codes",
        1e9 * seconds / (math.comb(size.n_features, 2) * size.n_samples),
        "ns/sample-pair",
        _sizes(size),
        {"seconds": seconds, "codes after merging": n_codes},
        note="from a code store, one thread",
    )


def _growth(job: Run, axis: str, factors: tuple[int, ...]) -> Figure:
    size = replace(job.size, n_features=max(job.size.n_features // 2, 4))
    sizes = [replace(size, **{axis: getattr(size, axis) * factor}) for factor in factors]
    times = [_seconds(job, job.resized(each).codes()) for each in sizes]
    x = tuple(float(getattr(each, axis)) for each in sizes)
    return Figure(
        f"pairs: slope with {axis}",
        Curve(axis, "interactions", x, tuple(times), _sizes(size)).slope,
        "",
        _sizes(size),
        {f"{value:g}": seconds for value, seconds in zip(x, times, strict=True)},
        note="of three points, one thread",
    )


def _seconds(job: Run, codes: object) -> float:
    def compare() -> object:
        return hd.interactions(codes, None, exhaustive=True)

    compare()  # kernels are loaded and chunks are in memory from now on
    return fastest(job.repeats, compare)[0]


def _two_workers(job: Run, size: Size) -> Figure:
    job = job.resized(size)
    with job.cluster(1) as one, job.cluster(2) as two:
        codes = job.codes()

        def compare(client: Client) -> None:
            with client.as_current():
                hd.interactions(codes, None, exhaustive=True)

        for client in (one, two):
            compare(client)
        alone, both = fastest(job.repeats, partial(compare, one), partial(compare, two))
    return Figure(
        "pairs: two workers over one",
        alone / both,
        "",
        _sizes(size),
        {"one": alone, "two": both},
        target=1.8,
        at_most=False,
    )


def _sizes(size: Size) -> str:
    return f"{size.n_samples} x {size.n_features}, {size.n_codes} codes, {size.n_classes} classes"
