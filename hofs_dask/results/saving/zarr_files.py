"""Results as Zarr v3 groups, uncompressed and with one chunk per array.

Other Zarr groups are refused. Before a file is decoded, its size is compared with the metadata, and
its codecs must be the ones that this module writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import zarr
from zarr.core.buffer.cpu import Buffer as CpuBuffer

from hofs_dask.results.saving.content import (
    MOST,
    DamagedError,
    ForeignError,
    UnreadError,
    check_attrs,
    damaged_if_unreadable,
    pack,
    unpack,
)

if TYPE_CHECKING:
    import xarray as xr
    from zarr.core.buffer import Buffer

#: Maximum size of a metadata document in bytes; attributes contain options, never arrays.
MOST_METADATA = 2**24

_ROOT = "zarr.json"
_GROUP = {"attributes", "zarr_format", "node_type"}
_ARRAY = {
    "attributes",
    "chunk_grid",
    "chunk_key_encoding",
    "codecs",
    "data_type",
    "dimension_names",
    "fill_value",
    "node_type",
    "shape",
    "storage_transformers",
    "zarr_format",
}
# Minimum bytes per value, by data type. A string is stored after its length, which has four bytes.
_SIZES = {"bool": 1, "int64": 8, "float64": 8, "string": 4}
_KEYS = {"name": "default", "configuration": {"separator": "/"}}


def to_files(dataset: xr.Dataset) -> dict[str, bytes]:
    """Return the contents of the files of a dataset, by name; the group metadata are last.

    Examples
    --------
    >>> import xarray as xr
    >>> list(to_files(xr.Dataset({"score": ("rank", [0.5])}, attrs={"format": "hofs_dask x"})))
    ['score/c/0', 'score/zarr.json', 'zarr.json']
    """
    stored = pack(dataset)
    made: dict[str, Buffer] = {}
    encoding: dict[Any, dict[str, Any]] = {}
    for name, variable in stored.variables.items():
        chunks = tuple(max(1, size) for size in variable.shape)
        encoding[name] = {"compressors": None, "chunks": chunks}
        if variable.dtype.kind == "f":
            encoding[name]["_FillValue"] = None
    # Zarr v3 has no specification of consolidated metadata and warns about it.
    stored.to_zarr(
        zarr.storage.MemoryStore(made),
        mode="w-",
        consolidated=False,
        encoding=encoding,
        write_empty_chunks=True,
        zarr_format=3,
    )
    names = sorted(made, key=lambda name: (name == _ROOT, name))
    return {name: made[name].to_bytes() for name in names}


def from_files(
    list_sizes: Callable[[], Mapping[str, int]],
    read: Callable[[str, int], bytes],
    formats: tuple[str, ...],
) -> tuple[xr.Dataset, set[str]]:
    """Return the dataset that was passed to `to_files`, and the names of files not part of it.

    Parameters
    ----------
    list_sizes
        Function that returns the size of every file by name. It is called only if the group is
        a result.
    read
        Function that returns the content of a file. Its arguments are the name and the maximum size
        of the file.
    formats
        Allowed values of the attribute `format`.

    Examples
    --------
    >>> import xarray as xr
    >>> files = to_files(xr.Dataset({"score": ("rank", [0.5])}, attrs={"format": "hofs_dask x"}))
    >>> sizes = {name: len(content) for name, content in files.items()} | {"notes.txt": 9}
    >>> from_files(lambda: sizes, lambda name, _: files[name], ("hofs_dask x",))[1]
    {'notes.txt'}
    """
    try:
        root = read(_ROOT, MOST_METADATA)
    except UnreadError:
        raise
    except OSError as error:
        raise ForeignError(f"its zarr.json cannot be read: {error}") from error
    check_attrs(_group_attrs(root), formats)
    with damaged_if_unreadable():
        sizes = list_sizes()
        if sum(sizes.values()) > MOST:
            raise DamagedError(f"it has more than {MOST} bytes, the maximum size of a result")
        files = {_ROOT: root} | _array_files(sizes, read)
        return unpack(_opened(files)), set(sizes) - set(files)


def _array_files(sizes: Mapping[str, int], read: Callable[[str, int], bytes]) -> dict[str, bytes]:
    """Return the metadata and the chunk of every array; raise an error if a size is wrong."""
    files: dict[str, bytes] = {}
    for name in sorted(sizes):
        variable, _, rest = name.partition("/")
        if rest != _ROOT:
            continue
        files[name] = read(name, MOST_METADATA)
        key, least, most = _chunk(variable, files[name])
        if key is None:
            continue
        if not least <= sizes.get(key, -1) <= most:
            found = f"has {sizes[key]} bytes" if key in sizes else "is missing"
            raise DamagedError(f"{key} {found}, {least} or more were expected")
        files[key] = read(key, sizes[key])
        # vlen-utf8 starts with the number of strings, for which the decoder allocates memory
        if most > least and files[key][:4] != ((least - 4) // 4).to_bytes(4, "little"):
            raise DamagedError(f"{key} does not contain the expected number of strings")
    return files


def _opened(files: Mapping[str, bytes]) -> xr.Dataset:
    """Return the stored form of a dataset from its files."""
    import xarray as xr

    buffers: dict[str, Buffer] = {
        name: CpuBuffer.from_bytes(content) for name, content in files.items()
    }
    with xr.open_zarr(
        zarr.storage.MemoryStore(buffers),
        chunks=None,
        consolidated=False,
        zarr_format=3,
        mask_and_scale=False,
        decode_times=False,
    ) as opened:
        dataset: xr.Dataset = opened.load()
    return dataset


def _group_attrs(content: bytes) -> Mapping[str, Any]:
    """Return the attributes of a Zarr group; raise an error if hofs_dask did not write it."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ForeignError(f"its zarr.json is not JSON ({error})") from error
    if not isinstance(found, dict) or found.get("node_type") != "group":
        raise ForeignError("its zarr.json does not describe a Zarr v3 group")
    attrs = found.get("attributes")
    if found.get("zarr_format") != 3 or not isinstance(attrs, dict):
        raise ForeignError("its zarr.json does not describe a Zarr v3 group with attributes")
    if {name for name, value in found.items() if value is not None} != _GROUP:
        raise ForeignError(f"its zarr.json has {sorted(found)}, {sorted(_GROUP)} were expected")
    return attrs


def _chunk(variable: str, content: bytes) -> tuple[str | None, int, int]:
    """Return the name of the chunk file of an array, and its minimum and maximum size in bytes.

    The name is None for an empty array.
    """
    name = f"{variable}/{_ROOT}"
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{name} is not JSON ({error})") from error
    if not isinstance(found, dict) or not found.keys() <= _ARRAY:
        raise DamagedError(f"{name} does not have the keys that hofs_dask writes")
    shape, kind = found.get("shape"), found.get("data_type")
    if (
        not isinstance(shape, list)
        or not all(type(size) is int and 0 <= size <= MOST for size in shape)
        or not isinstance(kind, str)
        or kind not in _SIZES
    ):
        raise DamagedError(f"{name} has a shape or a data_type that hofs_dask does not write")
    chunks = {"chunk_shape": [max(1, size) for size in shape]}
    expected = {
        "zarr_format": 3,
        "node_type": "array",
        "chunk_grid": {"name": "regular", "configuration": chunks},
        "chunk_key_encoding": _KEYS,
        "storage_transformers": found.get("storage_transformers") and [],
    }
    for key, value in expected.items():
        if found.get(key) != value:
            raise DamagedError(f"{name} has a {key} that hofs_dask does not write")
    if not _is_plain(found.get("codecs"), kind):
        raise DamagedError(f"{name} has codecs that hofs_dask does not write")
    count = math.prod(shape)
    if count == 0:
        return None, 0, 0
    key = "/".join([variable, "c", *("0" for _ in shape)])
    if kind == "string":
        return key, 4 + 4 * count, MOST
    return key, count * _SIZES[kind], count * _SIZES[kind]


def _is_plain(codecs: object, kind: str) -> bool:
    """Return whether the codecs store values of this type without compression."""
    if not isinstance(codecs, list) or len(codecs) != 1 or not isinstance(codecs[0], dict):
        return False
    settings = codecs[0].get("configuration") or {}
    if not codecs[0].keys() <= {"name", "configuration"}:
        return False
    if kind == "string":
        return bool(codecs[0].get("name") == "vlen-utf8" and settings == {})
    little = [{"endian": "little"}, *([{}] if kind == "bool" else [])]
    return codecs[0].get("name") == "bytes" and settings in little
