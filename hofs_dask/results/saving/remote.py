"""Files of a result on remote storage: created at an empty place, and listed up to a limit.

Files are only created at an empty URL: object stores cannot rename many objects in one step, so a
result cannot be replaced.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping, Sequence

from hofs_dask.errors import AGAIN
from hofs_dask.io.objects import Objects
from hofs_dask.io.places import Place
from hofs_dask.results.saving.atomic import MOST_ENTRIES
from hofs_dask.results.saving.content import UnreadError


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
        text = f"{place.path} was not saved: {type(error).__name__}: {error}"
        is_free = _remove(objects, made)
        if isinstance(error, FileExistsError):
            raise FileExistsError(f"{text}; another process writes to it") from error
        do = AGAIN if is_free else "remove what was left there and run the same call again"
        raise OSError(f"{text}; {do}, or give another path") from error


def _remove(objects: Objects, names: Sequence[str]) -> bool:
    """Remove objects; return whether the place is empty after that."""
    with contextlib.suppress(OSError):
        for name in names:
            objects.remove(name)
        return objects.is_empty()
    return False


def read(place: Place, name: str, most: int) -> bytes:
    """Return the content of a file; raise an UnreadError if the storage fails."""
    with _unread():
        return place.read(name, most)


def sizes(place: Place) -> dict[str, int]:
    """Return the sizes of the files at a place; raise an UnreadError if the storage fails."""
    with _unread():
        return list_files(place)


@contextlib.contextmanager
def _unread() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        notes = getattr(error, "__notes__", [])
        if AGAIN not in notes:  # the file is not there, or too large
            raise
        raise UnreadError(f"{error}; {AGAIN}") from error


def list_files(place: Place) -> dict[str, int]:
    """Return the sizes of the files at a place, by relative path."""
    found = place.objects.sizes()
    if len(found) > MOST_ENTRIES:
        raise OSError(errno.EFBIG, "more files than a result has", place.path)
    return found
