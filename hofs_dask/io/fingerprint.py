"""Fingerprints: digests that are equal only for equal content, made without reading files.

Data whose changes cannot be detected has no fingerprint. It is encoded again every time.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr

from hofs_dask.io.listings import UNKNOWN, Origin
from hofs_dask.io.storage import place_of


@dataclass(frozen=True)
class Identity:
    """The fingerprint of some data and the files that it is read from.

    Attributes
    ----------
    fingerprint : str or None
        A digest that is equal only for equal content; None if changes cannot be detected.
    origins : tuple of Origin
        The files and Zarr arrays that the data is read from; none for data in memory.
    """

    fingerprint: str | None
    origins: tuple[Origin, ...] = ()

    def at(self, place: str) -> Identity:
        """Return the identity with the path or URL of all origins set to ``place``.

        Examples
        --------
        >>> Identity("a", (Origin("/data/x.zarr/y"),)).at("/data/x.zarr").origins[0].place
        '/data/x.zarr'
        """
        return replace(self, origins=tuple(replace(origin, place=place) for origin in self.origins))


class LaterIdentity(Identity):
    """The identity of data in memory, whose content is hashed when the fingerprint is needed.

    Parameters
    ----------
    make : function
        Returns the fingerprint.
    origins : tuple of Origin
        See `Identity`.

    Examples
    --------
    >>> LaterIdentity(lambda: "a").fingerprint
    'a'
    """

    def __init__(self, make: Callable[[], str | None], origins: tuple[Origin, ...] = ()) -> None:
        vars(self).update(_make=make, origins=origins)

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint."""
        known = vars(self)
        if "_known" not in known:
            known["_known"] = known["_make"]()
        found: str | None = known["_known"]
        return found


#: The identity of data whose changes cannot be detected.
NO_IDENTITY = Identity(None, (UNKNOWN,))


def digest(parts: Sequence[object]) -> str:
    """Return the SHA-256 digest of values that JSON can store.

    Examples
    --------
    >>> digest(["a", 1])[:8]
    '2657442b'
    """
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def unique_digest(parts: Sequence[object]) -> str:
    """Return a digest for the name of a task; if a part is None, every call returns another digest.

    Examples
    --------
    >>> unique_digest(["a"]) == unique_digest(["a"]), unique_digest([None]) == unique_digest([None])
    (True, False)
    """
    return uuid.uuid4().hex if any(part is None for part in parts) else digest(parts)


def combine(identities: Sequence[Identity], *parts: object) -> Identity:
    """Return the identity of data that is assembled from the arrays with these identities.

    ``parts`` are values that describe how it is assembled, such as the names of dims. They are part
    of the fingerprint. If an array has no fingerprint, the result has none.

    Examples
    --------
    >>> combine([Identity("a"), Identity(None)]).fingerprint is None
    True
    """

    def known() -> str | None:
        prints = [each.fingerprint for each in identities]
        return None if None in prints else digest([prints, *parts])

    origins = tuple(origin for each in identities for origin in each.origins)
    if any(isinstance(each, LaterIdentity) for each in identities):
        return LaterIdentity(known, origins)
    return Identity(known(), origins)


def array_identity(array: Any) -> Identity:
    """Return the identity of a numpy or dask array, or of a lazy array of xarray.

    Examples
    --------
    >>> one, other = array_identity(np.arange(3)), array_identity(np.array([0, 1, 2]))
    >>> one.fingerprint == other.fingerprint
    True
    """
    from hofs_dask.io.graphs import Trail, is_mapped  # it imports dask.array

    def visited() -> Trail:
        trail = Trail()
        trail.visit(array)
        return trail

    if type(array) is np.ndarray and not is_mapped(array):
        return LaterIdentity(lambda: visited().fingerprint)
    trail = visited()
    return Identity(trail.fingerprint, trail.origins)


def store_identity(array: zarr.Array[Any], name: str, place: str | None = None) -> Identity:
    """Return the identity of an open Zarr array that has this name in the group at ``place``.

    Examples
    --------
    >>> store_identity(zarr.array([1, 2, 3]), "x").fingerprint is None  # in memory
    True
    """
    from hofs_dask.io.graphs import Trail  # it imports dask.array

    trail = Trail()
    trail.visit(name)
    trail.zarr_array(array, place_of(array) if place is None else place)
    return Identity(trail.fingerprint, trail.origins)
