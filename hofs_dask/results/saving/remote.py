"""Files of a result on remote storage: created at an empty place, and listed up to a limit.

Files are only created at an empty URL: object stores cannot rename many objects in one step, so a
result cannot be replaced.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping

from hofs_dask.io.places import Place
from hofs_dask.results.saving.atomic import MOST_ENTRIES


def is_free(place: Place) -> bool:
    """Return whether nothing exists at a place and below it.

    Examples
    --------
    >>> is_free(Place("memory://no/such/result.zarr"))
    True
    """
    return place.objects.is_empty()


def create(place: Place, files: Mapping[str, bytes]) -> None:
    """Write new files at a place, in this order; raise FileExistsError if one exists.

    Examples
    --------
    >>> create(Place("memory://example/result.zarr"), {"zarr.json": b"{}"})
    >>> list_files(Place("memory://example/result.zarr"))
    {'zarr.json': 2}
    """
    objects, made = place.objects, []
    try:
        for name, content in files.items():
            objects.create(name, content)
            made.append(name)
    except Exception as error:
        for name in made:
            with contextlib.suppress(Exception):
                objects.remove(name)
        text = f"{place.path} was not saved: {type(error).__name__}: {error}"
        if isinstance(error, FileExistsError):
            raise FileExistsError(f"{text}; another process writes to it") from error
        raise OSError(text) from error


def list_files(place: Place) -> dict[str, int]:
    """Return the sizes of the files at a place, by relative path."""
    found = place.objects.sizes()
    if len(found) > MOST_ENTRIES:
        raise OSError(errno.EFBIG, "more files than a result has", place.path)
    return found
