"""What encoding costs, against reading the source twice and writing the codes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.base
import numpy as np
import zarr
from dask.delayed import delayed

import hofs_dask as hd
from hofs_dask.data.codes import CodeStore, open_array, read_codes
from hofs_dask.data.source import Source, open_source

#: Rows of a chunk of the Zarr sources, 100 features of which are 4 MB.
SOURCE_ROWS = 10_000


def bench_encoding(
    folder: Path, n_samples: int, n_features: int, repeats: int
) -> list[tuple[str, float, str, float]]:
    """Times of encoding float32 data, each beside that of its two reads and one write alone.

    Parameters
    ----------
    folder : Path
        An empty folder for the sources and the stores.
    n_samples, n_features : int
        The size of the data.
    repeats : int
        The shortest of so many times is taken.

    Returns
    -------
    list of tuple
        What was timed, its seconds, what it is compared to, the seconds of that.
    """
    rng = np.random.default_rng(0)
    table = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    target = rng.integers(0, 2, n_samples)
    chunks = (min(n_samples, SOURCE_ROWS), n_features)
    plain = zarr.create_array(folder / "plain.zarr", data=table, chunks=chunks, compressors=None)
    packed = zarr.create_array(folder / "packed.zarr", data=table, chunks=chunks)
    found = []
    for name, data in (("plain Zarr", plain), ("packed Zarr", packed), ("numpy", table)):
        store = folder / "store.zarr"

        def encode(data: Any = data, store: Path = store) -> CodeStore:
            shutil.rmtree(store, ignore_errors=True)
            return hd.encode(data, target, store)

        codes = encode()
        source = open_source(data, target)
        cells = read_codes(codes.path, slice(0, n_features), slice(0, n_samples))

        def read_and_write(
            source: Source = source, codes: CodeStore = codes, cells: np.ndarray = cells
        ) -> None:
            _read(source)
            _read(source)
            _write(codes, cells, folder / "copy.zarr")

        of_seconds = best(read_and_write, repeats)
        seconds = best(encode, repeats)
        found.append((f"encoding: {name}", seconds, "two reads and one write", of_seconds))
    return found


def best(function: Callable[[], object], repeats: int) -> float:
    """The shortest of several times that a function takes, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def _read(source: Source) -> None:
    """Read every block of a source as the encoder does, and copy it if it is in memory."""
    (part,) = source.parts
    dask.base.compute([delayed(_touch)(block) for block in part.to_delayed().ravel()])


def _touch(block: np.ndarray) -> int:
    return len(block if block.base is None else block.copy())


def _write(codes: CodeStore, cells: np.ndarray, path: Path) -> None:
    """Write the codes of a store, which are in memory, into an array like that of the store."""
    shutil.rmtree(path, ignore_errors=True)
    (path / "codes").mkdir(parents=True)
    shutil.copy(Path(codes.path, "codes", "zarr.json"), path / "codes")
    rows, features = codes.chunks
    everything = delayed(cells, name=f"cells-{id(cells)}", traverse=False)
    dask.base.compute(
        [
            delayed(_write_chunk)(everything, str(path), slice(i, i + features), slice(s, s + rows))
            for i in range(0, codes.n_features, features)
            for s in range(0, codes.n_samples, rows)
        ]
    )


def _write_chunk(cells: np.ndarray, path: str, features: slice, rows: slice) -> None:
    open_array(path, "codes", "r+")[features, rows] = cells[features, rows]
