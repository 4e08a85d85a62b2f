"""Chunks on remote storage are requested before a task needs them, a few at a time."""

import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import dask
import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import hofs_dask as hd
from hofs_dask.engine.ahead import DEPTH
from hofs_dask.engine.cluster import current_workers
from hofs_dask.engine.scanning import run
from hofs_dask.store.codes import open_codes
from pipelines.bench.link import BANDWIDTH, slow_link
from pipelines.bench.tools import counting_request, fastest


class SlowFileSystem(MemoryFileSystem):
    """Memory that takes a moment to answer and counts the chunks of codes in flight."""

    protocol = "slow"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    lock = threading.Lock()
    n_now = 0
    n_most = 0
    cachable = False

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        if "/codes/c/" not in path:
            return super().cat_file(path, start, end, **options)
        kind = SlowFileSystem
        with self.lock:
            kind.n_now += 1
            kind.n_most = max(kind.n_most, kind.n_now)
        time.sleep(0.01)
        content = super().cat_file(path, start, end, **options)
        with self.lock:
            kind.n_now -= 1
        return content


fsspec.register_implementation("slow", SlowFileSystem, clobber=True)


def test_scan__requests_a_bounded_number_of_chunks_ahead(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    x = rng.integers(0, 5, (4000, 6)) + y[:, None]
    expected = hd.select(hd.encode(x, y, tmp_path / "codes", chunks=(100, 6)), None, 3)
    codes = hd.encode(x, y, "slow://codes", chunks=(100, 6))
    with dask.config.set({"hofs_dask.cache": "0"}):
        assert hd.select(codes, None, 3) == expected
    n_threads = sum(worker.n_threads for worker in current_workers())
    assert 1 < SlowFileSystem.n_most <= n_threads * (1 + DEPTH)
    SlowFileSystem.store.clear()


@pytest.mark.processes
def test_round__takes_at_most_one_and_a_half_times_its_bytes(tmp_path):
    # chunks of 4 MB; the last one of each task and the first one wait for the latency
    rng = np.random.default_rng(0)
    n_rows, n_features = 32 * 32_768, 250
    y = rng.integers(0, 2, n_rows)
    x = rng.integers(0, 15, (n_rows, n_features), dtype=np.uint8)
    codes = hd.encode(x, y, tmp_path / "codes.zarr", bins=None, chunks=(32_768, n_features))
    files = [file for file in Path(codes.place, "codes", "c").rglob("*") if file.is_file()]
    n_bytes = sum(file.stat().st_size for file in files)
    assert n_bytes / len(files) > 4e6
    with (
        slow_link(tmp_path) as url,
        dask.config.set({"hofs_dask.cache": "0", "scheduler": "threads"}),
    ):
        remote = open_codes(f"{url}/codes.zarr")
        request = counting_request(remote)
        (seconds,) = fastest(3, lambda: run(remote, [request]))
    assert seconds <= 1.5 * n_bytes / BANDWIDTH
