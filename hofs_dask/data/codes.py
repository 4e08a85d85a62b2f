"""The code store: a Zarr group of codes, tables and labels, written and read chunk by chunk.

Layout::

    <store>             attributes: format, version, fingerprint, names, options, complete
      codes             uint8 (feature, sample): the codes of a feature are one run of a chunk
      labels/<key>      uint8 (sample,), one a target; attributes: what `Labels` holds
      columns/<feature> uint8 (sample,), copies of single features, made as selections need them
      n_codes, missing_code, nominal (feature,);  values, edges (feature, code)

Each chunk carries a checksum and is written by one task. The fill values (255 in codes, 254 in
labels) are never written, so a chunk that is missing shows.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.config
import google_crc32c
import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from hofs_dask.data.bins import Feature
from hofs_dask.data.labels import Labels, interval_names
from hofs_dask.data.paths import as_path, is_url
from hofs_dask.data.summary import Category
from hofs_dask.errors import CodeStoreError, some_of, unknown

FORMAT = "hofs_dask codes"
VERSION = 2
CODE_FILL = 255
LABEL_FILL = 254

#: Bytes of the checksum at the end of a chunk, and what the checksum of both then is.
CHECKSUM_BYTES, RESIDUE = 4, 0x48674BC7
ALIGNMENT = 64
READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)

#: What a thread read last and does not keep: memory that is touched anew for every chunk costs more
#: than the reading.
_THREAD = threading.local()


@dataclass(frozen=True)
class CodeStore:
    """A code store with one of its targets, small enough to send anywhere.

    Attributes
    ----------
    path : str
        Of the Zarr group.
    fingerprint : str
        Of the source and the options that the codes were made with.
    names : tuple
        Of the features.
    n_samples : int
        Samples, those without a target included.
    n_codes : ndarray of int16 (feature)
        Codes of each feature, the missing one included.
    missing_code : ndarray of int16 (feature)
        The code that means missing, -1 where there is none.
    nominal : ndarray of bool (feature)
        Features whose codes are categories.
    values : ndarray of float64 (feature, code)
        The number that a code stands for; NaN for the missing code and past the last one.
    chunks : tuple of int
        Samples and features of one chunk.
    labels : Labels
        The target.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> source = open_source(np.eye(6), np.array([0, 1, 0, 1, 0, 1]))
    >>> with temporary_store() as path:
    ...     print(encode_source(source, path).n_codes)
    [2 2 2 2 2 2]
    """

    path: str
    fingerprint: str
    names: tuple[str | int | float, ...]
    n_samples: int
    n_codes: np.ndarray
    missing_code: np.ndarray
    nominal: np.ndarray
    values: np.ndarray
    chunks: tuple[int, int]
    labels: Labels

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.names)

    @property
    def n_rows_used(self) -> int:
        """The number of samples that have a target."""
        return self.n_samples - self.labels.n_dropped

    def categories(self, feature_index: int) -> list[Category | None]:
        """Return what each code of a feature means, None for the missing code.

        A nominal feature has its categories (``"other"`` for the rare ones past the last code),
        a numeric one the intervals of its bins.

        Examples
        --------
        >>> import numpy as np
        >>> from hofs_dask.data.encode import encode_source
        >>> from hofs_dask.data.source import open_source
        >>> data = np.array([["a"], ["b"], ["a"], ["b"]], dtype=object)
        >>> with temporary_store() as path:
        ...     encode_source(open_source(data, [0, 1, 0, 1]), path).categories(0)
        ['a', 'b']
        """
        if not 0 <= feature_index < self.n_features:
            raise IndexError(
                f"no feature {feature_index}: give a position from 0 to {self.n_features - 1}"
            )
        group = zarr.open_group(self.path, mode="r")
        missing: list[Category | None] = [None] * bool(self.missing_code[feature_index] >= 0)
        if self.nominal[feature_index]:
            known = group["nominal"].attrs["categories"]
            return [*known[str(feature_index)], *missing]  # type: ignore[call-overload,index,misc]
        n_codes = int(self.n_codes[feature_index])
        edges = np.asarray(group["edges"][feature_index])  # type: ignore[index]
        feature = Feature(
            edges[: max(n_codes - len(missing) - 1, 0)],
            self.values[feature_index, :n_codes],
            bool(missing),
        )
        return [*interval_names(feature), *missing]

    def __repr__(self) -> str:
        labels = self.labels
        constant = int((self.n_codes < 2).sum())
        lines = [
            f"CodeStore {self.path}",
            f"  samples   {self.n_samples}"
            + (f", {labels.n_dropped} of them without a target" * bool(labels.n_dropped)),
            f"  features  {self.n_features}: {some_of(self.names)}",
            f"            {int(self.nominal.sum())} nominal, "
            f"{int((self.missing_code >= 0).sum())} with missing values, {constant} constant",
            f"  codes     {self.n_codes.min()} to {self.n_codes.max()} a feature, "
            f"chunks of {self.chunks[0]} samples x {self.chunks[1]} features",
            f"  target    {labels.name}, {labels.kind}, {labels.n_classes} classes: "
            + some_of([f"{c} ({n})" for c, n in zip(labels.classes, labels.counts, strict=True)]),
        ]
        return "\n".join(lines)


def open_codes(path: str | os.PathLike[str], target: str | None = None) -> CodeStore:
    """Return the code store at a path, with one of its targets.

    Parameters
    ----------
    path : str or path
        Of the store.
    target : str, optional
        The name of the target, for a store that has several. Of targets with the same name the
        latest is taken; the key of the labels names an earlier one.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     _ = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     open_codes(path).labels.classes
    (0, 1)
    """
    path = as_path(path)
    if not is_url(path) and not Path(path).exists():
        raise FileNotFoundError(f"no code store at {path!r}: there is no such path")
    attributes = store_attributes(path)
    if attributes is None:
        raise FileNotFoundError(f"no code store at {path!r}")
    if attributes["version"] != VERSION:
        raise ValueError(
            f"the code store {path!r} has version {attributes['version']} and version {VERSION} is "
            "read; encode the data again"
        )
    if not attributes.get("complete"):
        raise ValueError(f"the code store {path!r} was not finished; encode the data again")
    keys = label_keys(path)
    if target in keys:
        return load_codes(path, target)
    group = zarr.open_group(path, mode="r")
    names = {key: str(group[f"labels/{key}"].attrs["name"]) for key in keys}
    if target is None and len(set(names.values())) > 1:
        raise ValueError(
            f"the code store {path!r} has several targets; give target= one of "
            + some_of(sorted(set(names.values())))
        )
    fitting = [key for key, name in names.items() if target in (None, name)]
    if not fitting:
        raise unknown(f"target of the code store {path!r}", target, dict.fromkeys(names.values()))
    return load_codes(path, fitting[-1])


def is_codes(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a code store, finished or not, at a path.

    Examples
    --------
    >>> is_codes("no/such/path")
    False
    """
    try:
        return store_attributes(as_path(path)) is not None
    except ValueError:
        return False


@contextlib.contextmanager
def temporary_store() -> Iterator[str]:
    """Return a path for a store in Dask's temporary directory, removed at the end of the block.

    Examples
    --------
    >>> with temporary_store() as path:
    ...     is_codes(path)
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


def read_codes(path: str, features: slice, rows: slice, *, keep: bool = True) -> np.ndarray:
    """Return codes of a store, uint8 (feature, sample) and C-contiguous.

    Parameters
    ----------
    path : str
        Of the store.
    features, rows : slice
        The region.
    keep : bool
        False for codes that are done with before this thread reads the next ones that are not to
        be kept: they may share their memory.

    Raises
    ------
    CodeStoreError
        Names the chunk that is corrupt, unreadable or missing.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     _ = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_codes(path, slice(0, 4), slice(1, 3))
    array([[0, 0],
           [1, 0],
           [0, 1],
           [0, 0]], dtype=uint8)
    """
    return _read(path, "codes", (features, rows), CODE_FILL, keep)


def read_labels(path: str, key: str, rows: slice) -> np.ndarray:
    """Return labels of a store, uint8 (sample,), 255 where the target is missing.

    Raises
    ------
    CodeStoreError
        Names the chunk that is corrupt, unreadable or missing.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.encode import encode_source
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_labels(path, store.labels.key, slice(1, 3))
    array([1, 0], dtype=uint8)
    """
    return _read(path, f"labels/{key}", (rows,), LABEL_FILL)


def read_column(path: str, feature: int, rows: slice) -> np.ndarray:
    """Return the codes of one feature, uint8 (sample,), from its copy.

    Raises
    ------
    CodeStoreError
        Names the chunk that is corrupt, unreadable or missing.
    """
    return _read(path, f"columns/{feature}", (rows,), CODE_FILL)


def copied_columns(path: str) -> set[int]:
    """Return the features that have a whole copy of their own beside the codes."""
    try:
        group = zarr.open_group(path, path="columns", mode="r")
    except FileNotFoundError:
        return set()
    return {int(feature) for feature in group.attrs.get("complete", ())}  # type: ignore[arg-type,union-attr]


def begin_columns(store: CodeStore, features: Iterable[int]) -> bool:
    """Make room for copies of features; False where the store cannot be written to.

    The copy of a feature holds the same bytes whoever writes it, so that runs that share a store
    may both write it.
    """
    try:
        group = zarr.open_group(store.path, path="columns", mode="a")
        for feature in features:
            group.require_array(
                str(feature),
                shape=(store.n_samples,),
                chunks=(store.chunks[0],),
                dtype=np.uint8,
                fill_value=CODE_FILL,
                compressors=[Crc32cCodec()],
                dimension_names=("sample",),
            )
    except OSError:
        return False
    return True


def write_column(path: str, feature: int, rows: slice, codes: np.ndarray) -> None:
    """Write some rows, whole chunks, of the copy of a feature."""
    open_array(path, f"columns/{feature}", "r+")[rows] = codes


def finish_columns(path: str, features: Iterable[int]) -> None:
    """Say that the copies of features are whole."""
    done = sorted(copied_columns(path).union(features))
    zarr.open_group(path, path="columns", mode="r+").attrs["complete"] = done


def _read(
    path: str, name: str, region: tuple[slice, ...], fill: int, keep: bool = True
) -> np.ndarray:
    try:
        array = open_array(path, name, "r")
    except (OSError, ValueError, KeyError) as error:
        raise CodeStoreError(
            f"array {name!r} of the code store {path!r} cannot be opened ({error}); encode the "
            "data again"
        ) from error
    found = None if is_url(path) else _read_file(Path(path) / name, array, region, keep)
    try:
        if found is None:
            found = np.ascontiguousarray(array[region])
    except Exception as error:
        # What a damaged chunk raises depends on the codec and the kind of storage.
        chunk, cause = _first_damaged(array, region)
        raise _damaged(path, name, chunk, f"cannot be read ({cause or error})") from error
    if found.size and found.max() >= fill and (found == fill).any():
        cell = np.argwhere(found == fill)[0]
        starts = [part.indices(size)[0] for part, size in zip(region, array.shape, strict=True)]
        chunk = tuple(
            int(at + start) // size
            for at, start, size in zip(cell, starts, array.chunks, strict=True)
        )
        raise _damaged(path, name, chunk, "is missing")
    return found


def _read_file(
    folder: Path, array: zarr.Array[Any], region: tuple[slice, ...], keep: bool
) -> np.ndarray | None:
    """Return a region that is one whole chunk from its file, None where it is not or is damaged.

    One read and one checksum, where going through Zarr takes four times as long. Whatever is odd is
    left to Zarr, which knows more ways to read and to fail.
    """
    bounds = [part.indices(size)[:2] for part, size in zip(region, array.shape, strict=True)]
    grid = list(zip(bounds, array.shape, array.chunks, strict=True))
    if any(a % chunk or b != min(a + chunk, size) or a >= b for (a, b), size, chunk in grid):
        return None
    n_bytes = math.prod(array.chunks)
    try:
        file = os.open(folder.joinpath("c", *(str(a // chunk) for (a, _), _, chunk in grid)), READ)
        try:
            content = _buffer(n_bytes + CHECKSUM_BYTES, keep)
            n_read = os.readv(file, [content.data])
            complete = n_read == len(content) == os.fstat(file).st_size
        finally:
            os.close(file)
    except OSError:
        return None
    if not complete or google_crc32c.value(content) != RESIDUE:
        return None
    whole = content[:n_bytes].reshape(array.chunks)
    # the last chunk of an axis is stored whole too
    return np.ascontiguousarray(whole[tuple(slice(b - a) for a, b in bounds)])


def _buffer(n_bytes: int, keep: bool) -> np.ndarray:
    """Return memory that begins at a multiple of 64: elsewhere the kernel copies at a fifth."""
    buffer: np.ndarray | None = getattr(_THREAD, "buffer", None)
    if keep or buffer is None or len(buffer) < n_bytes + ALIGNMENT:
        buffer = np.empty(n_bytes + ALIGNMENT, np.uint8)
        if not keep:
            _THREAD.buffer = buffer
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + n_bytes]


def _first_damaged(
    array: zarr.Array[Any], region: tuple[slice, ...]
) -> tuple[tuple[int, ...], Exception | None]:
    """Return the first chunk of a region that cannot be read, and why."""
    spans = []
    for part, size, chunk in zip(region, array.shape, array.chunks, strict=True):
        start, stop, _ = part.indices(size)
        spans.append(range(start // chunk, max(-(-stop // chunk), start // chunk + 1)))
    for index in np.ndindex(*(len(span) for span in spans)):
        position = tuple(span[i] for span, i in zip(spans, index, strict=True))
        try:
            array.get_block_selection(position)
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            return position, error
    return tuple(span[0] for span in spans), None


def _damaged(path: str, name: str, chunk: tuple[int, ...], what: str) -> CodeStoreError:
    return CodeStoreError(
        f"chunk {chunk} of array {name!r} in the code store {path!r} {what}; remove the store and "
        "encode the data again"
    )


def open_array(path: str, name: str, mode: str) -> zarr.Array[Any]:
    """Return an array of the store, opened once a process for as long as it is not replaced."""
    if is_url(path):
        return zarr.open_array(path, path=name, mode=mode)
    stamp = (Path(path) / name / "zarr.json").stat()
    return _open_cached(path, name, mode, (stamp.st_ino, stamp.st_mtime_ns))


@functools.lru_cache(maxsize=64)
def _open_cached(path: str, name: str, mode: str, stamp: tuple[int, int]) -> zarr.Array[Any]:
    del stamp  # It is there for the cache alone: a replaced array is another key.
    return zarr.open_array(path, path=name, mode=mode)


def store_attributes(path: str) -> dict[str, Any] | None:
    """Return the attributes of a code store, None where there is nothing at all."""
    if not is_url(path):
        if not Path(path).exists() or (Path(path).is_dir() and not any(Path(path).iterdir())):
            return None
        if not Path(path).is_dir():
            raise ValueError(f"{path!r} is a file, not a code store; give another path")
    try:
        attributes = zarr.open_group(path, mode="r").attrs.asdict()
    except FileNotFoundError:
        if is_url(path):
            return None
        attributes = {}
    except (ValueError, KeyError, TypeError):
        attributes = {}
    if attributes.get("format") != FORMAT:
        raise ValueError(f"{path!r} holds something else than a code store; give another path")
    return attributes


def label_keys(path: str) -> list[str]:
    """Return the keys of the targets of a complete store, the latest last."""
    return list(zarr.open_group(path, path="labels", mode="r").attrs.get("order", []))  # type: ignore[arg-type]


def load_codes(path: str, key: str) -> CodeStore:
    """Return the code store at a path with the target of a key."""
    attributes = store_attributes(path)
    assert attributes is not None
    group = zarr.open_group(path, mode="r")
    found: dict[str, Any] = group[f"labels/{key}"].attrs.asdict()
    codes: Any = group["codes"]
    return CodeStore(
        path=path,
        fingerprint=attributes["fingerprint"],
        names=tuple(attributes["names"]),
        n_samples=codes.shape[1],
        n_codes=_get_table(group, path, "n_codes"),
        missing_code=_get_table(group, path, "missing_code"),
        nominal=_get_table(group, path, "nominal"),
        values=_get_table(group, path, "values"),
        chunks=codes.chunks[::-1],
        labels=Labels(
            name=found["name"],
            key=key,
            kind=found["kind"],
            classes=tuple(found["classes"]),
            counts=np.array(found["counts"], np.int64),
            values=np.array(found["values"], np.float64),
            n_dropped=found["n_dropped"],
        ),
    )


def _get_table(group: zarr.Group, path: str, name: str) -> np.ndarray:
    try:
        return np.asarray(group[name][...])  # type: ignore[index]
    except Exception as error:
        raise _damaged(path, name, (0,), f"cannot be read ({error})") from error
