"""Temporary folders for code stores."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dask.config


@contextlib.contextmanager
def temporary_store() -> Iterator[str]:
    """Return a path for a store in Dask's temporary directory, removed at the end of the block.

    Examples
    --------
    >>> from pathlib import Path
    >>> with temporary_store() as path:
    ...     Path(path).exists()
    False
    """
    parent = dask.config.get("temporary-directory", None)
    if parent:
        Path(parent).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="hofs_dask-", dir=parent)
    try:
        yield str(Path(folder) / "codes.zarr")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
