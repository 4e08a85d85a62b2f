"""The subjects: functions that write and use them, on small data with all kinds of values."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from fsspec.implementations.memory import MemoryFileSystem

import hofs_dask as hd
from hofs_dask.engine import counts, posteriors
from hofs_dask.kernels._jit import compile_kernels, kernels_in
from tests.fuzz.records import Answer, Subject, answer_of

N, M, PICKS = 700, 24, 3
CHUNKS = (256, 6)
METHODS: dict[str, Any] = {"hofs": "hofs", "jmi": "jmi", "vmi": "vmi"}


def make_data() -> tuple[np.ndarray, np.ndarray]:
    """Return features: some depend on each other, some have missing values, one is nominal."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    x = rng.normal(size=(N, M))
    x[:, 3] += y
    x[:, 8] = np.where(rng.random(N) < 0.5, y, rng.integers(0, 4, N))
    x[:, 15] += x[:, 3] * (y == 1)
    x[rng.random(N) < 0.1, 5] = np.nan
    return x, y


X, Y = make_data()

#: The folder of a case, or the URL of its files.
Where = Path | str
#: Bytes that are uploaded of a file.
MOST_BYTES = 2**22


def remotely(use: Callable[[Where], Answer]) -> Callable[[Path], Answer]:
    """Return a function that uses the files of a folder as objects of remote storage."""

    def upload(folder: Path) -> Answer:
        MemoryFileSystem.store.clear()  # forked processes inherit the objects of this one
        files = MemoryFileSystem()
        for path in folder.rglob("*"):
            if stat.S_ISREG(path.lstat().st_mode):  # there are no links and no empty folders
                with path.open("rb") as stream:
                    files.pipe_file(str(path), stream.read(MOST_BYTES))
        return use(f"memory://{folder}")

    return upload


# Code stores


def make_codes(folder: Path) -> None:
    store = hd.encode(X, Y, folder / "codes.zarr", chunks=CHUNKS, nominal=["x8"])
    for method in METHODS.values():  # creates copies of columns
        hd.select(store, None, PICKS, method=method)


def use_codes(method: Any) -> Callable[[Where], Answer]:
    return lambda folder: answer_of(
        hd.select(f"{folder}/codes.zarr", None, PICKS + 1, method=method)
    )


# Checkpoints


def resume(method: Any, n_features: int) -> Callable[[Where], Answer]:
    return lambda folder: answer_of(
        hd.select(
            f"{folder}/codes.zarr",
            None,
            n_features,
            method=method,
            checkpoint=f"{folder}/checkpoint",
        )
    )


def make_checkpoint(method: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        hd.encode(X, Y, folder / "codes.zarr", chunks=CHUNKS, nominal=["x8"])
        resume(method, PICKS)(folder)

    return make


def make_remote_checkpoint(folder: Path) -> None:
    make_checkpoint("hofs")(folder)
    (folder / "checkpoint" / "lock").unlink()  # a run on remote storage removes it at its end


# Results


def make_result(name: str) -> Callable[[Path], None]:
    return lambda folder: hd.select(X, Y, PICKS, nominal=["x8"]).save(folder / name)


def make_comparison(folder: Path) -> None:
    hd.compare(X, Y, PICKS, methods=["mim", "jmi"], n_resamples=2).save(folder / "result.zarr")


def use_result(name: str) -> Callable[[Where], Answer]:
    def use(folder: Where) -> Answer:
        result = hd.load(f"{folder}/{name}")
        shown: Answer = {"repr": repr(result), "attrs": result.to_dataset().attrs}
        if isinstance(result, hd.Selection):
            shown["transform"] = result.transform(X[:5]).tobytes()
        return answer_of(result) | shown

    return use


# Sources


def make_array(zarr_format: int, compressors: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        zarr.create_array(
            folder / "data.zarr",
            data=X,
            chunks=(CHUNKS[0], M),
            zarr_format=zarr_format,  # type: ignore[arg-type]
            compressors=compressors,
        )

    return make


def use_array(folder: Where) -> Answer:
    return answer_of(hd.select(f"{folder}/data.zarr", Y, PICKS, method="jmi"))


def read_array(folder: Where) -> Answer:
    array = zarr.open_array(f"{folder}/data.zarr", mode="r")
    return answer_of(hd.select(np.asarray(array[...]), Y, PICKS, method="jmi"))


def make_group(folder: Path) -> None:
    data = {
        "x": (("sample", "feature"), X),
        "y": ("sample", Y),
    }
    dataset = xr.Dataset(data, coords={"feature": [f"x{j}" for j in range(M)]})
    dataset = dataset.assign_coords(feature=dataset["feature"].astype(object))
    encoding = {"x": {"chunks": CHUNKS}, "y": {"chunks": CHUNKS[:1]}}
    dataset.to_zarr(folder / "data.zarr", zarr_format=3, consolidated=False, encoding=encoding)


def use_group(folder: Where) -> Answer:
    return answer_of(hd.select(f"{folder}/data.zarr", "y", PICKS, method="jmi"))


def read_group(folder: Where) -> Answer:
    dataset = xr.open_zarr(f"{folder}/data.zarr", chunks=None, consolidated=False).load()
    return answer_of(hd.select(dataset, "y", PICKS, method="jmi"))


SUBJECTS = (
    *(
        Subject("codes", name, "codes.zarr", make_codes, use_codes(method))
        for name, method in METHODS.items()
        if name != "vmi"
    ),
    Subject("codes", "remote", "codes.zarr", make_codes, remotely(use_codes("hofs"))),
    *(
        Subject(
            "checkpoint", name, "checkpoint", make_checkpoint(method), resume(method, PICKS + 2)
        )
        for name, method in METHODS.items()
    ),
    Subject(
        *("checkpoint", "remote", "checkpoint"),
        make_remote_checkpoint,
        remotely(resume("hofs", PICKS + 2)),
    ),
    Subject(
        *("result", "remote", "result.zarr"),
        make_result("result.zarr"),
        remotely(use_result("result.zarr")),
    ),
    Subject("result", "zarr", "result.zarr", make_result("result.zarr"), use_result("result.zarr")),
    Subject("netcdf", "nc", "result.nc", make_result("result.nc"), use_result("result.nc")),
    Subject("comparison", "zarr", "result.zarr", make_comparison, use_result("result.zarr")),
    *(
        Subject("source", name, "data.zarr", make_array(*how), use_array, read_array)
        for name, how in {
            "v3": (3, "auto"),
            "v3 plain": (3, None),
            "v2": (2, "auto"),
            "v2 plain": (2, None),
        }.items()
    ),
    Subject("source", "group", "data.zarr", make_group, use_group, read_group),
    Subject(
        *("source", "remote", "data.zarr"),
        make_group,
        remotely(use_group),
        remotely(read_group),
    ),
)
NAMES = tuple(dict.fromkeys(subject.name for subject in SUBJECTS))


def compile_all() -> None:
    """Compile kernels that only damaged artefacts may need."""
    compile_kernels(kernels_in([*counts.KERNEL_MODULES, *posteriors.KERNEL_MODULES]))
