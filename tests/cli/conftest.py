"""Stores that the commands read."""

from pathlib import Path

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.synthetic import tree_model


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Zarr store of the tree model."""
    path = tmp_path_factory.mktemp("cli") / "tree.zarr"
    tree_model(2000, chunks=500).to_zarr(path, consolidated=False)
    return path


@pytest.fixture(scope="session")
def codes(source: Path) -> Path:
    """Its code store."""
    path = source.with_name("codes.zarr")
    hd.encode(source, "y", path)
    return path


@pytest.fixture(scope="session")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, hd.Selection]:
    """A code store for a long run, and the result of that run without interruption."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 20_000)
    x = rng.normal(size=(len(y), 24)) + y[:, None] * np.linspace(0.5, 0.1, 24)
    path = tmp_path_factory.mktemp("long") / "codes.zarr"
    hd.encode(x, y, path, chunks=(5000, 24))
    return path, hd.select(path, None, n_features=20)
