"""Read and write a snapshot as one file: arrays, and a JSON text that describes them.

The text contains a digest of itself, the format and its version, the description of the run, the
snapshot as a tree, and the type, shape and sha256 of every array. Arrays have headers, so that
`numpy.load` can open the file; this module ignores the headers.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from hofs_dask.errors import AGAIN, CheckpointError
from hofs_dask.io.files import READ_FLAGS, SealError, check_regular, seal, unseal
from hofs_dask.io.places import Place
from hofs_dask.methods.fields import is_repeated
from hofs_dask.search.snapshot import RECORDS, Snapshot, check

FORMAT = "hofs_dask checkpoint"
VERSION = 6

Found = TypeVar("Found")

#: The array that holds the JSON text.
TEXT = "json"
#: Types that JSON stores unchanged; a float is stored exactly.
Plain = str | int | float | None

#: The types that arrays may have, by their names in files.
DTYPES = {
    np.dtype(kind).str: np.dtype(kind)
    for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f8")
}
#: Maximum bytes of a checkpoint, and of its text. For 20 000 picks, the text has 40 MB.
MOST_BYTES, MOST_TEXT = 2**36, 2**26

# do not follow a symbolic link, and do not wait for the writer of a pipe
_READ = READ_FLAGS | getattr(os, "O_NOFOLLOW", 0)
#: Exceptions that reading a damaged or malicious file may raise.
_FAULTS = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,  # an encrypted zip file, an unknown zip version, too deep recursion
    MemoryError,
    struct.error,
    zipfile.BadZipFile,
)


def to_bytes(run: Mapping[str, object], snapshot: Snapshot) -> memoryview:
    """Return the content of a checkpoint file, given the description of a run and its snapshot."""
    arrays: dict[str, np.ndarray] = {}
    text = {
        "format": FORMAT,
        "version": VERSION,
        "run": list(run.items()),  # a list keeps the order
        "tree": encode(snapshot, arrays),
        "arrays": {
            name: {
                "dtype": array.dtype.str,
                "shape": array.shape,
                "sha256": hashlib.sha256(array.data).hexdigest(),
            }
            for name, array in arrays.items()
        },
    }
    stream = io.BytesIO()
    sealed = np.frombuffer(seal(text), dtype=np.uint8)
    np.savez(stream, allow_pickle=False, **arrays, **{TEXT: sealed})
    return stream.getbuffer()


def read_snapshot(place: Place, name: str) -> tuple[dict[str, Any], Snapshot]:
    """Read and check a checkpoint; return the description of its run, and its snapshot."""
    return _checked(place, name, _read)


def _checked(place: Place, name: str, read: Callable[[Place, str], Found]) -> Found:
    """Return what a function reads from a checkpoint, or raise an error that names the file."""
    if not place.is_local:  # the object may be damaged on its way
        with contextlib.suppress(*_FAULTS):
            return read(place, name)
    with _reading(place, name):
        return read(place, name)


def _read(place: Place, name: str) -> tuple[dict[str, Any], Snapshot]:
    with _opened(place, name) as stream:
        archive = zipfile.ZipFile(stream)
        text = _text_of(archive)
        members = {info.filename: info for info in archive.infolist()}
        manifest = {f"{name}.npy": entry for name, entry in text["arrays"].items()}
        if {*manifest, f"{TEXT}.npy"} != {*members}:
            raise ValueError("its arrays are not those that its text lists")
        arrays = {
            name.removesuffix(".npy"): _array(archive, members[name], entry)
            for name, entry in manifest.items()
        }
    run = dict(text["run"])
    if not all(isinstance(name, str) for name in run):
        raise ValueError("its description of the run has no names")
    return run, check(decode(text["tree"], arrays))


def check_ours(place: Place, name: str) -> None:
    """Raise a CheckpointError if a file is not a checkpoint; only its JSON text is read."""
    _checked(place, name, _read_text)


def _read_text(place: Place, name: str) -> dict[str, Any]:
    with _opened(place, name) as stream:
        return _text_of(zipfile.ZipFile(stream))


@contextlib.contextmanager
def _reading(place: Place, name: str) -> Iterator[None]:
    """Turn any exception of reading a file into an error that names the file."""
    try:
        yield
    except _FAULTS as error:
        raise damaged(place, name, _reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, SealError):
        return f"{error}: it is damaged, or was written by an earlier version of hofs_dask"
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error) or type(error).__name__


def damaged(place: Place, name: str, reason: str) -> CheckpointError:
    """Return the error for a checkpoint that cannot be used; the message says what to do."""
    first = "" if place.is_local else f"{AGAIN}; if the error remains, "
    return CheckpointError(
        f"the checkpoint {f'{place.path}/{name}'!r} cannot be read ({reason}); {first}remove it to "
        "start over, or give another directory"
    )


def _opened(place: Place, name: str) -> IO[bytes]:
    """Open an object, or a regular file that is not a symbolic link."""
    if not place.is_local:
        return io.BytesIO(place.read(name, MOST_BYTES))
    file = Path(place.path, name)
    if file.is_symlink():
        raise OSError("it is a symbolic link")
    handle = os.open(file, _READ)
    try:
        check_regular(handle, str(file), MOST_BYTES)
    except OSError:
        os.close(handle)
        raise
    return open(handle, "rb")  # noqa: PTH123 - a handle, not a path


def _text_of(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the JSON text of a checkpoint as a dict, after checking the members of the archive."""
    infos = archive.infolist()
    if len({info.filename for info in infos}) < len(infos):
        raise ValueError("it has a member twice")
    # numpy stores members uncompressed; a compressed one may be a decompression bomb
    if any(
        info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size
        for info in infos
    ):
        raise ValueError("it has a compressed member")
    size = archive.fp.seek(0, os.SEEK_END) if archive.fp else 0
    if sum(info.file_size for info in infos) > size:
        raise ValueError("its members are larger than the file")
    member = archive.getinfo(f"{TEXT}.npy")
    if member.file_size > MOST_TEXT:
        raise ValueError(f"its text is larger than {MOST_TEXT} bytes")
    # numpy's header ends with a newline, and the JSON text has no newline
    text = unseal(archive.read(member).rpartition(b"\n")[2])
    if (text["format"], text["version"]) != (FORMAT, VERSION):
        raise ValueError(
            f"it is version {text['version']!r} of the format {text['format']!r}, but this "
            f"hofs_dask reads version {VERSION} of {FORMAT!r}"
        )
    return text


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, entry: Any) -> np.ndarray:
    """Return an array of a checkpoint, checked against the type, shape and sha256 in the text."""
    dtype, shape = DTYPES[entry["dtype"]], as_shape(entry["shape"])
    n_bytes = dtype.itemsize * math.prod(shape)
    if n_bytes > member.file_size:
        raise ValueError(f"array {member.filename} is shorter than the text says")
    content = archive.read(member)
    start = len(content) - n_bytes  # after the header
    if hashlib.sha256(memoryview(content)[start:]).hexdigest() != entry["sha256"]:
        raise ValueError(f"array {member.filename} differs from its sha256 in the text")
    return np.ndarray(shape, dtype, buffer=content, offset=start).copy()


def encode(value: object, arrays: dict[str, np.ndarray]) -> object:
    """Return a value as a tree of lists and dicts for JSON; its arrays are added to ``arrays``.

    A value is an object of a class in `RECORDS`, a tuple, an array, or an object of a type in
    `Plain`. Integer arrays are stored in the smallest type that can hold their values. An array
    that repeats one number is stored as this number.

    Examples
    --------
    >>> arrays = {}
    >>> tree = encode((1, np.arange(3)), arrays)
    >>> arrays["0"].dtype
    dtype('uint8')
    >>> decode(tree, arrays)
    (1, array([0, 1, 2]))
    """
    if isinstance(value, Plain):
        return value
    if isinstance(value, tuple):
        return [encode(item, arrays) for item in value]
    if isinstance(value, np.ndarray):
        # float sums depend on the memory order of the axes, so the order is stored
        axes = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        repeated = is_repeated(value)
        stored = value[(0,) * value.ndim] if repeated else value.transpose(axes)
        name = str(len(arrays))
        arrays[name] = np.asarray(_shrunk(np.asarray(stored)), order="C")
        tree = {"array": name, "dtype": value.dtype.str, "axes": axes}
        return tree | {"shape": value.shape} if repeated else tree
    if is_dataclass(value) and type(value) is RECORDS.get(type(value).__name__):
        items = {field.name: encode(getattr(value, field.name), arrays) for field in fields(value)}
        return {"record": type(value).__name__, "fields": items}
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def decode(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return the value from which `encode` made a tree; its arrays are removed from ``arrays``.

    A tree that `encode` did not make either gives a value of the same types, or makes this function
    raise a ValueError, TypeError, LookupError, AttributeError or RecursionError.

    Examples
    --------
    >>> decode({"array": "0", "dtype": "<i8", "axes": [0]}, {"0": np.array([7], np.uint8)})
    array([7])
    """
    if isinstance(tree, list):
        return tuple(decode(item, arrays) for item in tree)
    if not isinstance(tree, dict):
        return tree
    if "record" in tree:
        items = {name: decode(item, arrays) for name, item in tree["fields"].items()}
        return RECORDS[tree["record"]](**items)
    # each array is used once, so that a forged text cannot make many large arrays from a small one
    stored, dtype = arrays.pop(tree["array"]), DTYPES[tree["dtype"]]
    if not np.can_cast(stored.dtype, dtype, "same_kind"):
        raise ValueError(f"an array of {stored.dtype} cannot be cast to {dtype}")
    array = stored.astype(dtype, copy=False)
    if "shape" in tree:
        if array.ndim:
            raise ValueError("an array that repeats one number has several numbers")
        return np.broadcast_to(array, as_shape(tree["shape"]))
    axes = as_shape(tree["axes"])
    if sorted(axes) != list(range(array.ndim)):
        raise ValueError(f"{axes} is not an order of {array.ndim} axes")
    return array.transpose(np.argsort(axes))


def as_shape(sizes: object) -> tuple[int, ...]:
    """Return the shape of an array from JSON, or raise a ValueError.

    Examples
    --------
    >>> as_shape([2, 3])
    (2, 3)
    """
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("a shape is not a list of whole numbers")
    return tuple(sizes)


def _shrunk(array: np.ndarray) -> np.ndarray:
    """Return an array of non-negative integers in its smallest unsigned type, others unchanged."""
    if array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
        return array
    return array.astype(np.min_scalar_type(array.max()), copy=False)
