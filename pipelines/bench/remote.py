"""Rounds from remote storage against the time that their bytes take on the link."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dask

from hofs_dask.engine.scanning import run
from hofs_dask.store.codes import open_codes
from pipelines.bench.link import BANDWIDTH, LATENCY, slow_link
from pipelines.bench.tools import Figure, Run, chunk_files, counting_request, fastest, ratio


def bench_remote(job: Run) -> Iterator[Figure]:
    """Measure a round from a server with latency against the time of its bytes."""
    with job.cluster(), dask.config.set({"hofs_dask.cache": "0"}):
        codes = job.codes()
        n_bytes = sum(file.stat().st_size for file in chunk_files(codes) if "c" in file.parts)
        with slow_link(Path(codes.path).parent) as url:
            remote = open_codes(f"{url}/{Path(codes.path).name}")
            round_of = partial(run, remote, [counting_request(remote)])
            round_of()  # workers connect and compile before anything is timed
            (seconds,) = fastest(job.repeats, round_of)
        yield ratio(
            "a round from remote storage",
            job.size,
            seconds,
            f"its bytes at {BANDWIDTH / 1e6:.0f} MB/s",
            n_bytes / BANDWIDTH,
            target=1.5,
            note=f"{1000 * LATENCY:.0f} ms a request, chunks of {codes.chunks[0]} samples",
        )
