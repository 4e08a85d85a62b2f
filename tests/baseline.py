"""Recorded answers: selections of many inputs by all methods, which no change of structure moves.

``python -m tests.baseline`` writes them to ``tests/baseline.json``. They are written once, on
purpose, and again only where an answer is meant to change, which the changelog then says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

import hofs_dask as hd

FILE = Path(__file__).with_name("baseline.json")
N, M, PICKS = 360, 8, 5

#: Whose scores come from counts alone: they are the same to the last bit.
PAIRWISE = ("mim", "mifs", "mrmr", "jmi", "cmim", "spec_cmi", "cife", "icap", "disr", "jmim")
COUNTED: dict[str, Any] = {name: name for name in PAIRWISE} | {
    "mifs half": hd.MIFS(beta=0.5),
    "mrmr quotient": hd.MRMR(form="quotient"),
    "spec_cmi spectral": hd.SpecCMI(form="spectral"),
}
#: Whose scores are sums of floats.
SUMMED: dict[str, Any] = {
    "hofs": "hofs",
    "hofs gaussian": hd.HOFS(source="gaussian"),
    "hofs shared": hd.HOFS(slopes="shared"),
    "sum": hd.HOFS(criterion="sum"),
    "sum gaussian": hd.HOFS(criterion="sum", source="gaussian"),
    "mean": hd.HOFS(criterion="mean"),
    "vmi": "vmi",
    "vmi pairwise": hd.VMI(form="pairwise"),
}
METHODS = COUNTED | SUMMED
#: Whose scores are an eigenvector, the last digits of which depend on the processor.
EIGENVECTORS = ("spec_cmi spectral",)


@dataclass(frozen=True)
class Case:
    """An input, and how it is read."""

    data: Any
    target: Any
    options: dict[str, Any] = field(default_factory=dict)
    chunks: tuple[int, int] | None = None


def _table(seed: int = 0, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that depend on classes alone, together, twice over, or not at all."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, N)
    x = rng.normal(size=(N, M))
    x[:, 0] += y
    x[:, 1] = x[:, 0] + rng.normal(size=N)
    x[:, 2] = np.where(y % 2 == 1, -1, 1) * x[:, 3] + 0.5 * rng.normal(size=N)
    x[:, 4] = np.where(rng.random(N) < 0.5, y, rng.integers(0, 4, N))
    x[:, 5] *= 1 + 0.5 * y
    return x, y


def _holes(x: np.ndarray, share: float = 0.1) -> np.ndarray:
    return np.where(np.random.default_rng(9).random(x.shape) < share, np.nan, x)


def _frame(x: np.ndarray) -> pd.DataFrame:
    colours = np.array(["red", "green", "blue", "grey"])
    return pd.DataFrame(
        {
            "height": x[:, 0],
            "colour": colours[x[:, 4].astype(int) % 4],
            "open": x[:, 2] > 0,
            "size": pd.Categorical(x[:, 4].astype(int)),
            "width": np.float32(x[:, 5]),
            "count": (10 * x[:, 3]).astype(int),
            "odd": pd.array(np.where(x[:, 6] > 1, None, x[:, 6] > 0), dtype="boolean"),
            "noise": x[:, 7],
        }
    )


def cases() -> Iterator[tuple[str, Case]]:
    """The inputs, by name."""
    x, y = _table()
    for seed in (1, 2):
        yield f"seed {seed}", Case(*_table(seed))
    for n_classes in (3, 4, 7):
        yield f"{n_classes} classes", Case(*_table(3, n_classes))
    for dtype in ("f4", "f2", ">f8", "i4", "i1", "u2"):
        yield f"type {dtype}", Case((10 * x).astype(dtype), y)
    yield "booleans", Case(x > 0, y)
    yield "fortran", Case(np.asfortranarray(x), y)
    yield "text", Case(np.array(["a", "b", "c"], object)[(x > 0).astype(int) + (x > 1)], y)
    for share in (0.02, 0.3):
        yield f"missing {share}", Case(_holes(x, share), y)
    yield "zero-heavy", Case(np.where(x < 0.5, 0.0, x), y)
    yield "constant", Case(np.where(np.arange(M) == 6, 1.0, x), y)
    yield "all missing", Case(np.where(np.arange(M) == 6, np.nan, x), y)
    yield "duplicates", Case(np.column_stack([x[:, :4], x[:, :4]]), y)
    for bins in (3, 8, 31, "width"):
        yield f"bins {bins}", Case(x, y, {"bins": bins})
    codes = np.clip(np.round(x), 0, 3).astype(int)
    yield "codes", Case(codes, y, {"bins": None})
    yield "nominal", Case(x, y, {"nominal": ["x4"]})
    yield "all nominal", Case(codes, y, {"nominal": True})
    yield "frame", Case(_frame(x), y)
    yield "frame with its target", Case(_frame(x).assign(y=y), "y")
    yield "text target", Case(x, np.array(["no", "yes"])[y])
    yield (
        "missing target",
        Case(x, np.where(np.arange(N) % 7 == 0, np.nan, y), {"target_kind": "class"}),
    )
    yield "continuous target", Case(x, x[:, 0] + 0.3 * x[:, 3] ** 2)
    yield "ordinal target", Case(x, y + (x[:, 5] > 1), {"target_kind": "ordinal"})
    yield "rare class", Case(x, np.where(np.arange(N) < 3, 2, y))
    yield "few samples", Case(x[:40], y[:40])
    yield "wide", Case(np.random.default_rng(4).normal(size=(60, 50)) + y[:60, None], y[:60])
    for chunks in ((97, 3), (64, 8), (360, 1)):
        yield f"chunks {chunks}", Case(x, y, chunks=chunks)
    yield "dask", Case(da.from_array(x, chunks=(100, 3)), da.from_array(y, chunks=77))
    names = [f"band {j}" for j in range(M)]
    cube = xr.DataArray(
        x.reshape(20, 18, M), dims=("y", "x", "band"), coords={"band": names}, name="cube"
    )
    labels = xr.DataArray(y.reshape(20, 18), dims=("y", "x"), name="crop")
    yield "cube", Case(cube, labels, {"feature_dim": "band"})
    yield "cube in chunks", Case(cube.chunk(y=7), labels, {"feature_dim": "band"})
    yield "dataset", Case(cube.to_dataset(dim="band").assign(crop=labels), "crop")
    yield "included", Case(x, y, {"include": ["x7", "x1"]})
    yield "excluded", Case(x, y, {"exclude": ["x0", "x2"]})
    yield "least gain", Case(x, y, {"min_gain": 0.02})


def answers(folder: Path) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What is recorded, by name, each made when it is asked for.

    Every input is given to four methods, the first ones of a list that moves on from input to
    input; all methods are compared on the first.
    """
    labels = list(METHODS)
    for number, (name, case) in enumerate(cases()):
        for shift in range(4):
            label = labels[(4 * number + shift) % len(labels)]
            yield f"{name}: {label}", lambda case=case, label=label: _selected(case, label, folder)
    x, y = _table()
    compared = {"methods": list(METHODS.values()), "n_resamples": 3}
    yield "comparison", lambda: _compared(hd.compare(x, y, 4, **compared))
    for kind in ("spectral", "conditional", "joint", "redundancy"):
        yield (
            f"matrix: {kind}",
            lambda kind=kind: {
                "exact": hd.information_matrix(x, y, kind=kind).values.ravel().tolist()
            },
        )


def _selected(case: Case, label: str, folder: Path) -> dict[str, Any]:
    data, target, options = case.data, case.target, dict(case.options)
    n_picks = min(PICKS, 4)
    if case.chunks is not None:
        data, target = hd.encode(data, target, folder / f"{case.chunks}", chunks=case.chunks), None
    dataset = hd.select(data, target, n_picks, method=METHODS[label], **options).to_dataset()
    figures = {
        name: dataset[name].values.tolist()
        for name in ("score", "gain", "information", "redundancy", "relevance")
    }
    picks = {
        "features": [str(name) for name in dataset["selected"].values],
        "subsets": dataset["subset"].values.tolist(),
    }
    if label in EIGENVECTORS:
        return picks | {"close": {"score": figures.pop("score")}, "exact": figures}
    return picks | {"exact" if label in COUNTED else "close": figures}


def _compared(found: hd.Comparison) -> dict[str, Any]:
    dataset = found.to_dataset()
    return {
        "features": found.features,
        "exact": {
            name: dataset[name].values.ravel().tolist()
            for name in ("overlap", "stability", "frequency")
        },
    }


def record(folder: Path) -> None:
    """Write all answers to the file."""
    found = {name: make() for name, make in answers(folder)}
    lines = (f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in found.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    import tempfile
    import warnings

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as made, dask.config.set(scheduler="synchronous"):
        record(Path(made))
