"""Chunks on remote storage are requested before a task needs them, a few at a time."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import dask
import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import hofs_dask as hd
from hofs_dask.engine.ahead import DEPTH
from hofs_dask.engine.cluster import current_workers
from hofs_dask.engine.reduction import Block, Context, Partial
from hofs_dask.engine.scanning import run
from pipelines.bench.tools import counting_request

#: Seconds after which a request is given up that waits for others.
LONG = 60
N_CHUNKS = 40


class HeldFileSystem(MemoryFileSystem):
    """Memory that answers the first requests for codes only when several are in flight."""

    protocol = "held"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    cachable = False
    changed = threading.Condition()
    n_wanted = 0  # requests that must be in flight before the first one is answered
    n_now = 0
    n_most = 0
    asked: ClassVar[list[int]] = []  # rows of the chunks, in the order of their requests

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        if "/codes/c/" not in path:
            return super().cat_file(path, start, end, **options)
        kind = HeldFileSystem
        with self.changed:
            kind.n_now += 1
            kind.n_most = max(kind.n_most, kind.n_now)
            kind.asked.append(int(path.rpartition("/")[2]))
            self.changed.notify_all()
            if not self.changed.wait_for(lambda: kind.n_most >= kind.n_wanted, LONG):
                raise PermissionError(f"only {kind.n_most} requests in flight")
        content = super().cat_file(path, start, end, **options)
        with self.changed:
            kind.n_now -= 1
        return content


fsspec.register_implementation("held", HeldFileSystem, clobber=True)


@pytest.fixture
def held() -> Iterator[tuple[hd.CodeStore, np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 100 * N_CHUNKS)
    x = rng.integers(0, 5, (100 * N_CHUNKS, 6)) + y[:, None]
    HeldFileSystem.n_wanted = 0
    codes = hd.encode(x, y, "held://codes", chunks=(100, 6))
    HeldFileSystem.n_now = HeldFileSystem.n_most = 0
    HeldFileSystem.asked.clear()
    with dask.config.set({"hofs_dask.cache": "0"}):
        yield codes, x, y
    HeldFileSystem.store.clear()


def test_scan__requests_several_chunks_before_the_first_one_arrives(held, tmp_path):
    # one task at a time; the first request is answered when all others that a task may make are in
    # flight, so that a scan that requests fewer fails
    codes, x, y = held
    HeldFileSystem.n_wanted = 1 + DEPTH
    with dask.config.set({"scheduler": "synchronous"}):
        found = hd.select(codes, None, 3, method="jmi")
    assert HeldFileSystem.n_most == 1 + DEPTH
    expected = hd.encode(x, y, tmp_path / "codes", chunks=(100, 6))
    assert found == hd.select(expected, None, 3, method="jmi")


def test_scan__requests_chunks_while_it_computes_others(held):
    # the scan is a single task; when it counts a chunk, the next ones have been requested
    codes, _, _ = held
    request = counting_request(codes)
    HeldFileSystem.asked.clear()
    rows: list[int] = []

    def counted(context: Context, block: Block, partial: Partial) -> None:
        rows.append(len(rows))
        wanted = min(len(rows) + DEPTH, N_CHUNKS)
        with HeldFileSystem.changed:  # the requests are made by other threads
            assert HeldFileSystem.changed.wait_for(
                lambda: len(HeldFileSystem.asked) >= wanted, LONG
            )
            assert len(HeldFileSystem.asked) == wanted
        request.reduction.chunk(context, block, partial)

    spied = replace(request, reduction=replace(request.reduction, chunk=counted))
    with dask.config.set({"scheduler": "synchronous"}):
        run(codes, [spied])
    assert len(rows) == N_CHUNKS
    assert sorted(HeldFileSystem.asked) == list(range(N_CHUNKS))


def test_scan__requests_a_bounded_number_of_chunks_on_several_threads(held):
    codes, _, _ = held
    with dask.config.set({"scheduler": "threads"}):
        hd.select(codes, None, 3)
    n_threads = sum(worker.n_threads for worker in current_workers())
    assert HeldFileSystem.n_most <= n_threads * (1 + DEPTH)
