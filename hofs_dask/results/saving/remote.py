"""Functions that create and list the files of a result on remote storage.

Files are only created at an empty URL: object stores cannot rename many objects in one step, so a
result cannot be replaced.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from typing import Any

from hofs_dask.io.places import remote
from hofs_dask.results.saving.atomic import MOST_ENTRIES


def is_free(address: str) -> bool:
    """Return whether nothing exists at a URL and below it.

    Examples
    --------
    >>> is_free("memory://no/such/result.zarr")
    True
    """
    system, root = remote(address)
    system.invalidate_cache()
    try:
        return not system.ls(root, detail=False)
    except FileNotFoundError:
        return True


def create(address: str, files: Mapping[str, bytes]) -> None:
    """Write new files below a URL, in this order; raise FileExistsError if one exists.

    Examples
    --------
    >>> create("memory://example/result.zarr", {"zarr.json": b"{}"})
    >>> list_files("memory://example/result.zarr")
    {'zarr.json': 2}
    """
    system, root = remote(address)
    made: list[str] = []
    try:
        for name, content in files.items():
            system.pipe_file(f"{root}/{name}", content, mode="create")
            made.append(f"{root}/{name}")
    except Exception as error:
        for name in made:
            with contextlib.suppress(Exception):
                system.rm_file(name)
        text = f"{address} was not saved: {type(error).__name__}: {error}"
        if isinstance(error, FileExistsError):
            raise FileExistsError(f"{text}; another process writes to it") from error
        raise OSError(text) from error
    finally:
        system.invalidate_cache()


def list_files(address: str) -> dict[str, int]:
    """Return the sizes of the files below a URL, by relative path."""
    system, root = remote(address)
    system.invalidate_cache()
    found: dict[str, dict[str, Any]] = system.find(root, detail=True)
    if len(found) > MOST_ENTRIES:
        raise OSError(errno.EFBIG, "more files than a result has", address)
    return {name[len(root) + 1 :]: int(info["size"]) for name, info in found.items()}
