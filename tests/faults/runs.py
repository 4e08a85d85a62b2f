"""The runs into which faults are injected, and their data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
import zarr

import hofs_dask as hd
from hofs_dask.kernels._jit import all_kernels, compile_kernels

Listener = Callable[[Any], None]


@dataclass(frozen=True)
class Site:
    """Where a run reads and writes.

    Attributes
    ----------
    data : Path
        Folder with the source and the code store, which `make_data` wrote.
    own : Path
        Folder of the case on the disk that may be full.
    url : str
        Prefix of the case in the object store.
    options : dict
        Options of fsspec for it.
    reports : Path
        Folder of the reports of drivers, on a disk that does not become full.
    """

    data: Path
    own: Path
    url: str
    options: dict[str, Any]
    reports: Path


@dataclass(frozen=True)
class Run:
    """A run, by its name.

    Attributes
    ----------
    name : str
        Its name.
    result : callable
        Returns the result, on the current Dask client. It has a checkpoint.
    remote : bool
        Whether it uses the object store.
    """

    name: str
    result: Callable[[Site, Listener | None], Any]
    remote: bool = False


def make_data(folder: Path) -> None:
    """Write a source of which some features depend on each other, and a code store."""
    rng = np.random.default_rng(0)
    n, m = 60_000, 36
    y = rng.integers(0, 3, n)
    x = rng.integers(0, 5, (n, m)).astype(np.float32)
    x += y[:, None] * (np.arange(m) % 4 == 0) * 1.5 * rng.random(m)
    x[:, 1] += x[:, 0]
    x[:, 5] += x[:, 4]
    for name, source in {"x": x[:40_000], "small": x[:20_000, :12]}.items():
        zarr.create_array(folder / f"{name}.zarr", data=source, chunks=(10_000, source.shape[1]))
        np.save(folder / f"{name}-y.npy", y[: len(source)])
    hd.encode(x, y, folder / "codes.zarr", chunks=(2_000, 18))


def _select(site: Site, listen: Listener | None) -> Any:
    codes, run = site.data / "codes.zarr", site.own / "run"
    return hd.select(codes, None, 8, checkpoint=run, callback=listen)


def _compare(site: Site, listen: Listener | None) -> Any:
    codes, run = site.data / "codes.zarr", site.own / "run"
    methods = ["hofs", "jmi"]
    return hd.compare(codes, None, 5, methods=methods, checkpoint=run, callback=listen)


def _encode(site: Site, listen: Listener | None) -> Any:
    """Encode and select, with chunks of codes that are not kept in memory."""
    x, y = site.data / "x.zarr", np.load(site.data / "x-y.npy")
    with dask.config.set({"hofs_dask.cache": "0"}):
        codes = hd.encode(x, y, site.own / "codes.zarr", chunks=(5_000, 12), callback=listen)
        return hd.select(codes, None, 3, checkpoint=site.own / "run", callback=listen)


def _remote(site: Site, listen: Listener | None) -> Any:
    """Encode to an object store and select from it; the checkpoint is there too."""
    x, y = site.data / "small.zarr", np.load(site.data / "small-y.npy")
    options, url = site.options, site.url
    with dask.config.set({"hofs_dask.cache": "0"}):
        codes = hd.encode(
            x,
            y,
            f"{url}/codes.zarr",
            chunks=(10_000, 6),
            storage_options=options,
            callback=listen,
        )
        run = {"checkpoint": f"{url}/run", "storage_options": options}
        return hd.select(codes, None, 3, callback=listen, **run)


RUNS = {
    run.name: run
    for run in (
        Run("select", _select),
        Run("compare", _compare),
        Run("encode", _encode),
        Run("remote", _remote, remote=True),
    )
}


if __name__ == "__main__":
    # a worker that compiles does not answer, and would be taken for one that hangs
    compile_kernels(all_kernels())
    make_data(Path(sys.argv[1]))
