"""The stored form of the Dataset of a result: plain variables, a format version and a digest."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hofs_dask.io.files import digest

if TYPE_CHECKING:
    import xarray as xr

#: Format version, incremented when older versions cannot read the files.
VERSION = 2
#: Maximum size of a result in bytes, enough for a matrix of 46 000 features.
MOST = 2**34

#: The command that creates a result of each format.
COMMANDS = {
    "hofs_dask selection": "hofs-dask select",
    "hofs_dask comparison": "hofs-dask compare",
    "hofs_dask matrix": "hofs-dask matrix",
    "hofs_dask interactions": "hofs-dask interactions",
}

# Attributes that only the stored form has.
_OWN = ("format_version", "digest", "names")


class DamagedError(ValueError):
    """Stored content differs from what was written."""


class ForeignError(ValueError):
    """Stored content is not a result of an expected kind."""


class VersionError(ValueError):
    """A stored result has another format version."""


class UnreadError(OSError):
    """Remote storage failed, so that the stored content is not known."""


@contextlib.contextmanager
def damaged_if_unreadable() -> Iterator[None]:
    """Convert exceptions that libraries raise for invalid content into a DamagedError.

    Examples
    --------
    >>> with damaged_if_unreadable():
    ...     json.loads("{")
    Traceback (most recent call last):
    ...
    hofs_dask.results.saving.content.DamagedError: JSONDecodeError: Expecting property name ...
    """
    try:
        yield
    except (DamagedError, ForeignError, VersionError, UnreadError):
        raise
    except Exception as error:
        raise DamagedError(f"{type(error).__name__}: {str(error)[:300]}") from error


def pack(dataset: xr.Dataset) -> xr.Dataset:
    """Return the stored form of a dataset: with a digest, and with names of mixed types as JSON.

    Text has a variable length, because Zarr v3 does not specify fixed-length text and warns:
    https://github.com/zarr-developers/zarr-extensions/tree/main/data-types

    Examples
    --------
    >>> import xarray as xr
    >>> stored = pack(xr.Dataset({"feature": ["a"]}, attrs={"format": "hofs_dask selection"}))
    >>> sorted(stored.attrs)
    ['digest', 'format', 'format_version']
    """
    mixed = "feature" in dataset and dataset["feature"].dtype.kind == "O"
    attrs = {"format_version": VERSION, "digest": content_digest(dataset)}
    stored = dataset.drop_encoding().assign_attrs(attrs | ({"names": "json"} if mixed else {}))
    for name, variable in dataset.variables.items():
        if variable.dtype.kind == "O":
            values = _each(json.dumps, variable.values)
        elif variable.dtype.kind == "U":
            values = variable.values.astype(object)
        else:
            continue
        stored = stored.assign({name: (variable.dims, values, variable.attrs)})
    return stored


def unpack(stored: xr.Dataset) -> xr.Dataset:
    """Return the dataset that was passed to `pack`.

    Raises
    ------
    DamagedError
        The digest does not match the content.

    Examples
    --------
    >>> import xarray as xr
    >>> stored = pack(xr.Dataset({"feature": ["a"]}))
    >>> unpack(stored)["feature"].values.tolist()
    ['a']
    >>> unpack(stored.assign(feature=["b"]))
    Traceback (most recent call last):
    ...
    hofs_dask.results.saving.content.DamagedError: its digest does not match its content
    """
    names = _named(stored) if stored.attrs.get("names") == "json" else set()
    dataset = stored.drop_encoding()
    for name, variable in stored.variables.items():
        if variable.dtype.kind in "bif":
            continue
        if name in names:
            values = _each(_as_name, variable.values)
        else:
            values = np.array(variable.values.tolist(), dtype=str).reshape(variable.shape)
        dataset = dataset.assign({name: (variable.dims, values, variable.attrs)})
    dataset.attrs = {
        name: _plain(value) for name, value in stored.attrs.items() if name not in _OWN
    }
    if content_digest(dataset) != stored.attrs.get("digest"):
        raise DamagedError("its digest does not match its content")
    return dataset


def _named(stored: xr.Dataset) -> set[str]:
    """Return the variables that have names of features; one has the name of their dim."""
    dim = stored.attrs.get("feature_dim", "feature")
    text = dim in stored.variables and stored[dim].dtype.kind not in "bif"
    return {"feature", "selected", dim if text else f"feature_{dim}"}


def content_digest(dataset: xr.Dataset) -> str:
    """Return a digest of the variables, coordinates and attributes, independent of storage.

    Examples
    --------
    >>> import xarray as xr
    >>> one, other = xr.Dataset({"x": 1}), xr.Dataset({"x": 1.0})
    >>> content_digest(one) == content_digest(one.copy(deep=True))
    True
    >>> content_digest(one) == content_digest(other)
    False
    """
    variables = {
        str(name): {
            "dims": [str(dim) for dim in variable.dims],
            "shape": list(variable.shape),
            "values": _digest_of(variable.values),
            "attrs": {str(key): _plain(value) for key, value in variable.attrs.items()},
        }
        for name, variable in dataset.variables.items()
    }
    attrs = {str(name): _plain(value) for name, value in dataset.attrs.items()}
    coords = sorted(str(name) for name in dataset.coords)
    return digest({"variables": variables, "coords": coords, "attrs": attrs})


def check_attrs(attrs: Mapping[Any, Any], formats: tuple[str, ...]) -> None:
    """Raise an error if these are not the attributes of a readable result.

    Raises
    ------
    ForeignError
        The format is not one of `formats`.
    VersionError
        The result was written by another version of hofs_dask.

    Examples
    --------
    >>> check_attrs({"format": "hofs_dask selection"}, ("hofs_dask selection",))
    Traceback (most recent call last):
    ...
    hofs_dask.results.saving.content.VersionError: it has format_version None, 2 was expected: ...
    """
    found = attrs.get("format")
    if not isinstance(found, str) or found not in formats:
        wanted = " or ".join(f"format={each!r}" for each in formats)
        raise ForeignError(f"{wanted} was expected, found {_short(found)}")
    version = _plain(attrs.get("format_version"))
    if type(version) is not int or version != VERSION:
        raise VersionError(
            f"it has format_version {_short(version)}, {VERSION} was expected: another version of "
            f"hofs_dask wrote it; make it again with {COMMANDS[found]!r}, at another path"
        )


def _digest_of(values: NDArray[Any]) -> str:
    """Return a digest of the dtype and the values of an array."""
    if values.size == 0:
        return "empty"  # the dtype of an empty array of text is lost in files
    if values.dtype.kind in "OU":
        kind = "mixed" if values.dtype.kind == "O" else "text"
        return digest([kind, values.ravel().tolist()])
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return f"{little.dtype.str} {hashlib.sha256(little.data).hexdigest()}"


def _plain(value: Any) -> Any:
    """Return a number or text as a Python object; netCDF reads numbers as arrays of size 1."""
    one = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.shape == (1,))
    return value.item() if one else value


def _as_name(text: str) -> Any:
    """Return a name that JSON stored; a tuple is stored as a list."""
    name = json.loads(text)
    return tuple(name) if isinstance(name, list) else name


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _each(function: Callable[[Any], Any], values: NDArray[Any]) -> NDArray[np.object_]:
    """Apply a function to each value and return an object array of the same shape."""
    made = np.empty(values.size, dtype=object)
    for position, value in enumerate(values.ravel().tolist()):  # numpy would turn tuples into axes
        made[position] = function(value)
    return made.reshape(values.shape)
