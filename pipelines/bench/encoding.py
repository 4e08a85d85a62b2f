"""The time of encoding, relative to reading the source twice and writing the codes once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import xarray as xr
import zarr
from dask.delayed import delayed

import hofs_dask as hd
from hofs_dask.encoding import encode as encoding
from hofs_dask.io.places import Place
from hofs_dask.io.source import Source, open_source
from hofs_dask.kernels.planes import WORD
from hofs_dask.scheduling.compute import compute
from hofs_dask.store.chunks import chunk_file, write_chunk
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.metadata import write_metadata
from pipelines.bench.tools import Figure, Run, fastest, forgetter, ratio

#: Rows per chunk of the Zarr sources; with 100 features a chunk has 4 MB.
SOURCE_ROWS = 10_000


def bench_encoding(job: Run) -> Iterator[Figure]:
    """Time the encoding of float32 data, and two reads and one write of the same data."""
    size, folder = job.size, job.folder / "encoding"
    rng = np.random.default_rng(0)
    table = rng.standard_normal((size.n_samples, size.n_features), dtype=np.float32)
    target = rng.integers(0, 2, size.n_samples)
    chunks = (min(size.n_samples, SOURCE_ROWS), size.n_features)
    zarr.create_array(folder / "plain.zarr", data=table, chunks=chunks, compressors=None)
    zarr.create_array(folder / "packed.zarr", data=table, chunks=chunks)
    grid = xr.DataArray(table, dims=("sample", "feature"), name="x")
    grid.to_zarr(folder / "group.zarr", encoding={"x": {"chunks": chunks}}, consolidated=False)
    del table, grid
    sources = (
        ("plain", "plain Zarr"),
        ("packed", "packed Zarr"),
        ("group", "Zarr group of xarray"),
    )
    with job.cluster():
        for kind, name in sources:
            data = folder / f"{kind}.zarr"
            store = folder / "store.zarr"

            def encode(data: Path = data, store: Path = store) -> CodeStore:
                shutil.rmtree(store, ignore_errors=True)
                return hd.encode(data, target, store)

            codes = encode()
            source = open_source(data, target)

            def read(source: Source = source) -> None:
                (part,) = source.parts
                blocks = part.to_delayed(optimize_graph=False).ravel()
                compute([delayed(len)(block) for block in blocks])

            def write(codes: CodeStore = codes) -> None:
                _write(codes, folder / "copy.zarr")

            forget = forgetter(data.glob("**/c/*/*"))

            def encode_anew(forget: Callable[[], None] = forget) -> None:
                # also forget between the two reads: a source larger than memory is not cached
                with patch.object(encoding, "write_metadata", _after(forget, write_metadata)):
                    encode()

            seconds, to_read, to_write = fastest(3 * job.repeats, encode, read, write)
            cold, read_cold = fastest(job.repeats, encode_anew, read, before=forget)
            of = "two reads by Dask and Zarr and one write"
            whole = 2 * to_read + to_write
            yield ratio(f"encoding: {name}", size, seconds, of, whole, target=1 / 0.7)
            whole = 2 * read_cold + to_write
            yield ratio(f"encoding: {name} from the disk", size, cold, of, whole, target=1 / 0.7)


def _after(first: Callable[[], None], function: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls ``first`` and then ``function``."""

    def both(*arguments: object) -> None:
        first()
        function(*arguments)

    return both


def _write(codes: CodeStore, path: Path) -> None:
    """Write as many chunks as a store has, with random content from the memory of the workers."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    n_tiles, n_rows = codes.checksums.shape
    compute(
        [
            delayed(_write_chunk)(str(path), codes.bits, codes.chunks, tile, row)
            for tile in range(n_tiles)
            for row in range(n_rows)
        ]
    )


def _write_chunk(path: str, bits: int, chunks: tuple[int, int], tile: int, row: int) -> None:
    planes = _draw(chunks[1], bits, -(-chunks[0] // WORD))
    write_chunk(Place(path), chunk_file("codes", tile, row), planes)


@lru_cache(maxsize=2)
def _draw(n_features: int, bits: int, n_words: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 2**64, (n_features, bits, n_words), dtype=np.uint64)
