"""The chunk cache: limited in size, keeps the first chunks, one store at a time."""

import dask
import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.scheduling.process import PROCESS, ChunkCache
from hofs_dask.store.chunks import Chunks


def cached_bytes():
    """Return the bytes in the chunk cache of the worker that runs this function."""
    from hofs_dask.scheduling.process import PROCESS

    return PROCESS.chunks.nbytes


class Reader:
    """Reads chunks of 100 bytes and counts the reads."""

    def __init__(self):
        self.reads = 0
        self.kept = []

    def __call__(self, keep):
        self.reads += 1
        self.kept.append(keep)
        return np.zeros(100, dtype=np.uint8)


def check(chunk):
    """Accept any chunk."""


def test_cache__chunk_is_checked_at_its_first_read():
    cache, reader, seen = ChunkCache(), Reader(), []
    for store in ("a", "b"):
        for chunk in (0, 1, 0, 1):
            cache.get(store, chunk, 0, 100, reader, seen.append)
    assert len(seen) == 4
    assert reader.reads == 8


def test_cache__invalid_chunk_is_checked_again():
    def refuse(chunk):
        raise ValueError("no")

    cache = ChunkCache()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.get("store", 0, 400, 100, Reader(), refuse)
    assert cache.nbytes == 0


def test_cache__data_that_fits_is_read_once():
    cache, reader = ChunkCache(), Reader()
    for _ in range(5):
        for chunk in range(4):
            cache.get("store", chunk, 400, 100, reader, check)
    assert reader.reads == 4
    assert cache.nbytes == 400


def test_cache__keeps_a_part_of_larger_data():
    cache, reader = ChunkCache(), Reader()
    for _ in range(5):
        for chunk in range(10):
            cache.get("store", chunk, 450, 100, reader, check)
            assert cache.nbytes <= 450
    # four chunks are read once, and six in each of five scans
    assert reader.reads == 4 + 5 * 6
    assert reader.kept.count(True) == 4


def test_cache__another_store_clears_the_cache():
    cache, reader = ChunkCache(), Reader()
    cache.get("a", 0, 100, 100, reader, check)
    cache.get("b", 0, 100, 100, reader, check)
    assert cache.nbytes == 100
    cache.get("b", 0, 100, 100, reader, check)
    assert reader.reads == 2


def test_cache__chunks_are_read_only():
    chunk = ChunkCache().get("store", 0, 100, 100, Reader(), check)
    with pytest.raises(ValueError, match="read-only"):
        chunk[0] = 1


@pytest.fixture
def codes(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 6))
    return hd.encode(x, x[:, 0] + x[:, 1] > 0, tmp_path / "codes.zarr", chunks=(500, 6))


@pytest.fixture
def reads(monkeypatch):
    """The row range of every read of codes."""
    seen = []
    read = Chunks.read

    def counting(chunks, tile, row, *, keep=True):
        if chunks.name == "codes":
            seen.append((500 * row, 500 * row + 500))
        return read(chunks, tile, row, keep=keep)

    monkeypatch.setattr(Chunks, "read", counting)
    PROCESS.chunks.clear()
    return seen


def test_select__reads_data_that_fits_the_cache_once(codes, reads):
    with dask.config.set({"hofs_dask.cache": "1 MiB"}):
        hd.select(codes, None, 3)
    assert sorted(reads) == [(0, 500), (500, 1000), (1000, 1500), (1500, 2000)]


def test_select__without_cache_gives_the_same_result(codes, reads):
    with dask.config.set({"hofs_dask.cache": "1 MiB"}):
        cached = hd.select(codes, None, 3)
    reads.clear()
    with dask.config.set({"hofs_dask.cache": 0}):
        assert hd.select(codes, None, 3) == cached
    assert len(reads) > 4 * 3


def test_chunks__are_read_by_the_same_worker_in_every_round(codes, client):
    with dask.config.set({"hofs_dask.cache": "1 MiB"}):
        hd.select(codes, None, 2, method="jmi")
        sizes = client.run(cached_bytes)
        hd.select(codes, None, 4, method="jmi")
        again = client.run(cached_bytes)
    # four chunks of 6 features with 4 planes of 8 words each, and 2000 labels: each worker caches
    # half of them, and no chunk is cached twice
    assert sum(sizes.values()) == sum(again.values()) == 4 * 6 * 4 * 8 * 8 + 2000
    assert min(sizes.values()) == 2 * 6 * 4 * 8 * 8 + 1000
