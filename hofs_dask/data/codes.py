"""The code store: a Zarr group of codes, tables and labels, written and read chunk by chunk.

Layout::

    <store>             attributes: format, version, fingerprint, names, options, complete
      codes             uint8 (sample, feature)
      labels/<key>      uint8 (sample,), one a target; attributes: what `Labels` holds
      n_codes, missing_code, nominal (feature,);  values, edges (feature, code)

Each chunk carries a checksum and is written by one task. The fill values (255 in codes, 254 in
labels) are never written, so a chunk that is missing shows.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.config
import numpy as np
import zarr
from dask.base import compute
from dask.delayed import Delayed, delayed
from zarr.codecs import Crc32cCodec

from hofs_dask.data.bins import (
    SAMPLE_ROWS,
    Bins,
    Category,
    Feature,
    Problem,
    Summary,
    check_bins,
    count_bins,
    encode_block,
    make_tables,
    merge_summaries,
    most_bins,
    summarise,
)
from hofs_dask.data.labels import (
    DROPPED,
    Coding,
    Labels,
    TargetKind,
    check_kind,
    encode_target,
    interval_names,
    make_coding,
    merge_targets,
    summarise_target,
)
from hofs_dask.data.source import Source, as_path, is_url
from hofs_dask.errors import CodeStoreError, unknown

FORMAT = "hofs_dask codes"
VERSION = 1
CODE_FILL = 255
LABEL_FILL = 254
CHUNK_BYTES = 8 * 2**20
CHUNK_FEATURES = 1024
MIN_CHUNK_ROWS = 1024
#: The sampled rows of the features whose tables one task makes stay below this.
TILE_BYTES = 256 * 2**20
FAN_IN = 16


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
        >>> from hofs_dask.data.source import open_source
        >>> data = np.array([["a"], ["b"], ["a"]], dtype=object)
        >>> with temporary_store() as path, warnings.catch_warnings(action="ignore"):
        ...     encode_source(open_source(data, [0, 1, 0]), path).categories(0)
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
            f"  features  {self.n_features}: {_some(self.names)}",
            f"            {int(self.nominal.sum())} nominal, "
            f"{int((self.missing_code >= 0).sum())} with missing values, {constant} constant",
            f"  codes     {self.n_codes.min()} to {self.n_codes.max()} a feature, "
            f"chunks of {self.chunks[0]} samples x {self.chunks[1]} features",
            f"  target    {labels.name}, {labels.kind}, {labels.n_classes} classes: "
            + _some([f"{c} ({n})" for c, n in zip(labels.classes, labels.counts, strict=True)]),
        ]
        return "\n".join(lines)


# Writing


def encode_source(
    source: Source,
    store: str | os.PathLike[str],
    *,
    bins: int | str | None = "auto",
    target_kind: str = "auto",
    chunks: tuple[int, int] | None = None,
) -> CodeStore:
    """Return the code store of a source, writing only what ``store`` does not hold yet.

    Parameters
    ----------
    source : Source
        Data with a target.
    store : str or path
        Where the store is, or will be. One of other data or options is written anew.
    bins : int, "auto", "width" or None
        Bins of a numeric feature with more distinct values than that.
    target_kind : {"auto", "class", "ordinal", "continuous"}
        How the target is read.
    chunks : tuple of int, optional
        Samples and features of a chunk. By default about 8 MiB, in step with the source.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.source import open_source
    >>> data = np.arange(40.0).reshape(20, 2)
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(data, np.arange(20) % 2), path, bins=4)
    ...     read_codes(path, slice(0, 20, 1), slice(0, 1))[::5, 0]
    array([0, 1, 2, 3], dtype=uint8)
    """
    checked_bins, kind = check_bins(bins), check_kind(target_kind)
    if source.target is None:
        raise ValueError("the source has no target; give one: open_source(data, target)")
    path = as_path(store)
    fingerprint = _digest([source.fingerprint, checked_bins, source.nominal.tolist(), VERSION])
    key = _digest([source.target_fingerprint, source.target_name, kind, VERSION])[:16]
    found = _attributes(path)
    if found and found.get("complete") and found["fingerprint"] == fingerprint:
        if key not in _label_keys(path):
            _add_labels(source, path, key, kind)
        return _checked(_load(path, key))

    grid = _choose_chunks(source, chunks)
    coding, features, n_bins = _first_read(source, checked_bins, kind)
    attributes: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "fingerprint": fingerprint,
        "names": list(source.names),
        "options": {"bins": checked_bins, "n_bins": n_bins},
    }
    _create(path, source, features, grid, attributes)
    _create_labels(path, key, source.n_samples, grid[0])
    writes = _write_tasks(source, path, features, grid)
    counts = _label_tasks(source, path, key, coding, grid[0])
    _, class_counts = compute(writes, counts)
    _finish_labels(path, key, source.target_name, coding, class_counts)
    zarr.open_group(path, mode="r+").attrs.put({**attributes, "complete": True})
    return _checked(_load(path, key))


def _first_read(
    source: Source, bins: Bins, target_kind: TargetKind
) -> tuple[Coding, list[Feature], int]:
    """Read all once: how to code the target and each feature."""
    run = uuid.uuid4().hex
    coding = _coding_task(source, target_kind, run)
    n_bins = delayed(_resolve_bins)(
        bins, source.n_samples, coding, dask_key_name=f"encode-bins-{run}"
    )
    tables = []
    rows = min(source.n_samples, SAMPLE_ROWS)
    first_feature = 0
    for number, part in enumerate(source.parts):
        width = max(1, TILE_BYTES // (rows * max(part.dtype.itemsize, 1)))
        offsets = _starts(part.chunks[0])
        blocks = part.to_delayed(optimize_graph=False)
        for column, n_columns in enumerate(part.chunks[1]):
            cuts = [*range(0, n_columns, width), n_columns]
            # One key for all rows: a copy in every task would outgrow the data of a wide source.
            nominal = delayed(
                source.nominal[first_feature : first_feature + n_columns],
                name=f"encode-nominal-{number}-{column}-{run}",
                traverse=False,
            )
            tiles: list[list[Delayed]] = [[] for _ in cuts[1:]]
            for row, offset in enumerate(offsets):
                name = f"{number}-{column}-{row}-{run}"
                summaries = delayed(_summarise_tiles)(
                    blocks[row, column],
                    offset,
                    source.n_samples,
                    nominal,
                    most_bins(bins) + 1,
                    cuts,
                    dask_key_name=f"encode-summarise-{name}",
                )
                for tile, parts in enumerate(tiles):
                    parts.append(summaries[tile])
            for tile, parts in enumerate(tiles):
                name = f"{number}-{column}-{tile}-{run}"
                tables.append(
                    delayed(make_tables)(
                        _tree(merge_summaries, parts, f"encode-merge-{name}"),
                        first_feature + cuts[tile],
                        bins,
                        n_bins,
                        dask_key_name=f"encode-tables-{name}",
                    )
                )
            first_feature += n_columns
    made, coded, resolved = compute(tables, coding, n_bins)
    problems = [problem for _, several in made for problem in several]
    if problems:
        first: Problem = min(problems, key=lambda problem: problem.column)
        raise first.error(f"feature {source.names[first.column]!r} {first.text}")
    return coded, [feature for several, _ in made for feature in several], resolved


def _add_labels(source: Source, path: str, key: str, target_kind: TargetKind) -> None:
    """Write the labels of a further target into a store that has the codes."""
    rows = int(_open_array(path, "codes", "r").chunks[0])
    (coding,) = compute(_coding_task(source, target_kind, uuid.uuid4().hex))
    _create_labels(path, key, source.n_samples, rows)
    (counts,) = compute(_label_tasks(source, path, key, coding, rows))
    _finish_labels(path, key, source.target_name, coding, counts)


def _coding_task(source: Source, target_kind: TargetKind, run: str) -> Delayed:
    target = source.target
    assert target is not None
    blocks = target.to_delayed(optimize_graph=False)
    summaries = [
        delayed(summarise_target)(
            block,
            offset,
            source.n_samples,
            target_kind,
            source.target_type,
            dask_key_name=f"encode-summarise-target-{row}-{run}",
        )
        for row, (block, offset) in enumerate(zip(blocks, _starts(target.chunks[0]), strict=True))
    ]
    coding: Delayed = delayed(make_coding)(
        _tree(merge_targets, summaries, f"encode-merge-target-{run}"),
        source.target_name,
        target_kind,
        source.target_type,
        dask_key_name=f"encode-target-{run}",
    )
    return coding


def _write_tasks(
    source: Source, path: str, features: list[Feature], grid: tuple[int, int]
) -> list[Delayed]:
    """One task a chunk of the store: take its cells, code them, write them."""
    run = uuid.uuid4().hex
    rows = _chunk_sizes(source.n_samples, grid[0])
    tasks = []
    for column, first in enumerate(range(0, source.n_features, grid[1])):
        last = min(first + grid[1], source.n_features)
        pieces = []
        begin = 0
        for part in source.parts:
            end = begin + part.shape[1]
            if begin < last and first < end:
                piece = part[:, max(first - begin, 0) : min(last, end) - begin]
                blocks = piece.rechunk((rows, (piece.shape[1],)))
                # Unoptimised, chunks that several pieces need keep one key and are read once.
                pieces.append(blocks.to_delayed(optimize_graph=False)[:, 0])
            begin = end
        tables = delayed(
            features[first:last], name=f"encode-features-{column}-{run}", traverse=False
        )
        tasks += [
            delayed(_write_codes)(
                [piece[row] for piece in pieces],
                tables,
                path,
                row * grid[0],
                first,
                dask_key_name=f"encode-write-{row}-{column}-{run}",
            )
            for row in range(len(rows))
        ]
    return tasks


def _label_tasks(
    source: Source, path: str, key: str, coding: Coding, chunk_rows: int
) -> list[Delayed]:
    run = uuid.uuid4().hex
    assert source.target is not None
    target = source.target.rechunk((_chunk_sizes(source.n_samples, chunk_rows),))
    coded = delayed(coding, name=f"encode-coding-{run}", traverse=False)
    return [
        delayed(_write_labels)(
            block,
            coded,
            path,
            key,
            row * chunk_rows,
            dask_key_name=f"encode-write-labels-{row}-{run}",
        )
        for row, block in enumerate(target.to_delayed(optimize_graph=False))
    ]


def _summarise_tiles(
    block: np.ndarray,
    first_row: int,
    n_samples: int,
    nominal: np.ndarray,
    limit: int,
    cuts: Sequence[int],
) -> list[Summary]:
    return [
        summarise(block[:, a:b], first_row, n_samples, nominal[a:b], limit)
        for a, b in itertools.pairwise(cuts)
    ]


def _resolve_bins(bins: Bins, n_samples: int, coding: Coding) -> int:
    return count_bins(bins, n_samples, coding.n_classes)


def _write_codes(
    pieces: list[np.ndarray], features: list[Feature], path: str, first_row: int, first: int
) -> None:
    done = 0
    codes = []
    for piece in pieces:
        codes.append(encode_block(piece, features[done : done + piece.shape[1]]))
        done += piece.shape[1]
    joined = codes[0] if len(codes) == 1 else np.concatenate(codes, axis=1)
    array = _open_array(path, "codes", "r+")
    array[first_row : first_row + len(joined), first : first + done] = joined


def _write_labels(
    block: np.ndarray, coding: Coding, path: str, key: str, first_row: int
) -> np.ndarray:
    labels = encode_target(block, coding)
    array = _open_array(path, f"labels/{key}", "r+")
    array[first_row : first_row + len(labels)] = labels
    return np.bincount(labels, minlength=DROPPED + 1)


def _tree(merge: Callable[[list[Any]], Any], parts: list[Delayed], name: str) -> Delayed:
    """Merge in groups of neighbours, so that no task takes more than a few parts."""
    level = 0
    while len(parts) > 1:
        parts = [
            delayed(merge)(parts[a : a + FAN_IN], dask_key_name=f"{name}-{level}-{a}")
            for a in range(0, len(parts), FAN_IN)
        ]
        level += 1
    return parts[0]


def _choose_chunks(source: Source, chunks: tuple[int, int] | None) -> tuple[int, int]:
    n_samples, n_features = source.n_samples, source.n_features
    if chunks is not None:
        if len(chunks) != 2 or not all(isinstance(n, int) and n > 0 for n in chunks):
            raise ValueError(
                f"chunks is {chunks!r}; give two positive integers, samples and features of a "
                "chunk, for example chunks=(8192, 1024)"
            )
        return min(chunks[0], n_samples), min(chunks[1], n_features)
    features = min(n_features, CHUNK_FEATURES)
    rows = max(CHUNK_BYTES // features, MIN_CHUNK_ROWS)
    given = source.parts[0].chunks[0]
    if len(given) > 1 and set(given[:-1]) == {given[0]} and given[-1] <= given[0]:
        if given[0] <= rows:
            rows = round(rows / given[0]) * given[0]
        elif given[0] <= 4 * rows:
            rows = given[0]
    return min(rows, n_samples), features


def _chunk_sizes(size: int, chunk: int) -> tuple[int, ...]:
    return tuple(min(chunk, size - start) for start in range(0, size, chunk))


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(sizes[:-1]).tolist()]


def _create(
    path: str,
    source: Source,
    features: list[Feature],
    grid: tuple[int, int],
    attributes: dict[str, Any],
) -> None:
    """Write all of a store but its codes; it is complete once the attributes say so."""
    group = zarr.create_group(path, attributes=attributes, overwrite=True)
    group.create_array(
        "codes",
        shape=(source.n_samples, source.n_features),
        chunks=grid,
        dtype=np.uint8,
        fill_value=CODE_FILL,
        compressors=[Crc32cCodec()],
        dimension_names=("sample", "feature"),
    )
    n_codes = np.array([feature.n_codes for feature in features], np.int16)
    has_missing = np.array([feature.has_missing for feature in features])
    nominal = np.array([feature.categories is not None for feature in features])
    named = [(str(j), feature) for j, feature in enumerate(features) if feature.categories]
    _put_table(group, "n_codes", n_codes)
    _put_table(group, "missing_code", np.where(has_missing, n_codes - 1, -1).astype(np.int16))
    _put_table(
        group,
        "nominal",
        nominal,
        {
            "categories": {j: list(feature.categories or ()) for j, feature in named},
            "n_folded": {j: feature.n_folded for j, feature in named if feature.n_folded},
        },
    )
    _put_table(group, "values", _pad([feature.values for feature in features]))
    _put_table(group, "edges", _pad([feature.edges for feature in features]))
    group.create_group("labels")


def _put_table(
    group: zarr.Group, name: str, table: np.ndarray, attributes: dict[str, Any] | None = None
) -> None:
    array = group.create_array(
        name,
        shape=table.shape,
        chunks=tuple(max(size, 1) for size in table.shape),
        dtype=table.dtype,
        compressors=[Crc32cCodec()],
        attributes=attributes,
        dimension_names=("feature", "code")[: table.ndim],
    )
    array[...] = table


def _pad(rows: list[np.ndarray]) -> np.ndarray:
    padded = np.full((len(rows), max(1, max(len(row) for row in rows))), np.nan)
    for out, row in zip(padded, rows, strict=True):
        out[: len(row)] = row
    return padded


def _create_labels(path: str, key: str, n_samples: int, chunk_rows: int) -> None:
    zarr.open_group(path, mode="r+").create_array(
        f"labels/{key}",
        shape=(n_samples,),
        chunks=(chunk_rows,),
        dtype=np.uint8,
        fill_value=LABEL_FILL,
        compressors=[Crc32cCodec()],
        dimension_names=("sample",),
        overwrite=True,
    )


def _finish_labels(
    path: str, key: str, name: str, coding: Coding, counts: list[np.ndarray]
) -> None:
    total = np.sum(counts, axis=0)
    group = zarr.open_group(path, mode="r+")
    group[f"labels/{key}"].attrs.put(
        {
            "name": name,
            "kind": coding.kind,
            "classes": list(coding.classes),
            "counts": total[: coding.n_classes].tolist(),
            "values": coding.values.tolist(),
            "n_dropped": int(total[DROPPED]),
            "complete": True,
        }
    )
    labels = group["labels"]
    # The order of the keys tells which of several targets of one name is the latest.
    order: Any = labels.attrs.get("order", [])
    labels.attrs["order"] = [*order, key]


def _checked(store: CodeStore) -> CodeStore:
    """Return the store, with a warning if a class is too small to learn from."""
    labels = store.labels
    single = [c for c, n in zip(labels.classes, labels.counts, strict=True) if n == 1]
    if single and labels.kind != "continuous":
        warnings.warn(
            f"target {labels.name!r} has one sample only of class {_some(single)}; drop such "
            "samples or join the classes",
            stacklevel=3,
        )
    return store


# Reading


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
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     _ = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     open_codes(path).labels.classes
    (0, 1)
    """
    path = as_path(path)
    if not is_url(path) and not Path(path).exists():
        raise FileNotFoundError(f"no code store at {path!r}: there is no such path")
    attributes = _attributes(path)
    if attributes is None:
        raise FileNotFoundError(f"no code store at {path!r}")
    if attributes["version"] != VERSION:
        raise ValueError(
            f"the code store {path!r} has version {attributes['version']} and version {VERSION} is "
            "read; encode the data again"
        )
    if not attributes.get("complete"):
        raise ValueError(f"the code store {path!r} was not finished; encode the data again")
    keys = _label_keys(path)
    if target in keys:
        return _load(path, target)
    group = zarr.open_group(path, mode="r")
    names = {key: str(group[f"labels/{key}"].attrs["name"]) for key in keys}
    if target is None and len(set(names.values())) > 1:
        raise ValueError(
            f"the code store {path!r} has several targets; give target= one of "
            + _some(sorted(set(names.values())))
        )
    fitting = [key for key, name in names.items() if target in (None, name)]
    if not fitting:
        raise unknown(f"target of the code store {path!r}", target, dict.fromkeys(names.values()))
    return _load(path, fitting[-1])


def is_codes(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a code store, finished or not, at a path.

    Examples
    --------
    >>> is_codes("no/such/path")
    False
    """
    try:
        return _attributes(as_path(path)) is not None
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


def read_codes(path: str, rows: slice, features: slice) -> np.ndarray:
    """Return codes of a store, uint8 (sample, feature) and C-contiguous.

    Raises
    ------
    CodeStoreError
        Names the chunk that is corrupt, unreadable or missing.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     _ = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_codes(path, slice(1, 3), slice(0, 4))
    array([[0, 1, 0, 0],
           [0, 0, 1, 0]], dtype=uint8)
    """
    return _read(path, "codes", (rows, features), CODE_FILL)


def read_labels(path: str, key: str, rows: slice) -> np.ndarray:
    """Return labels of a store, uint8 (sample,), 255 where the target is missing.

    Raises
    ------
    CodeStoreError
        Names the chunk that is corrupt, unreadable or missing.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.data.source import open_source
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_labels(path, store.labels.key, slice(1, 3))
    array([1, 0], dtype=uint8)
    """
    return _read(path, f"labels/{key}", (rows,), LABEL_FILL)


def _read(path: str, name: str, region: tuple[slice, ...], fill: int) -> np.ndarray:
    try:
        array = _open_array(path, name, "r")
    except (OSError, ValueError, KeyError) as error:
        raise CodeStoreError(
            f"array {name!r} of the code store {path!r} cannot be opened ({error}); encode the "
            "data again"
        ) from error
    try:
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


def _open_array(path: str, name: str, mode: str) -> zarr.Array[Any]:
    """Return an array of the store, opened once a process for as long as it is not replaced."""
    if is_url(path):
        return zarr.open_array(path, path=name, mode=mode)
    stamp = (Path(path) / name / "zarr.json").stat()
    return _open_cached(path, name, mode, (stamp.st_ino, stamp.st_mtime_ns))


@functools.lru_cache(maxsize=64)
def _open_cached(path: str, name: str, mode: str, stamp: tuple[int, int]) -> zarr.Array[Any]:
    del stamp  # It is there for the cache alone: a replaced array is another key.
    return zarr.open_array(path, path=name, mode=mode)


def _attributes(path: str) -> dict[str, Any] | None:
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


def _label_keys(path: str) -> list[str]:
    """Return the keys of the targets of a complete store, the latest last."""
    return list(zarr.open_group(path, path="labels", mode="r").attrs.get("order", []))  # type: ignore[arg-type]


def _load(path: str, key: str) -> CodeStore:
    attributes = _attributes(path)
    assert attributes is not None
    group = zarr.open_group(path, mode="r")
    found: dict[str, Any] = group[f"labels/{key}"].attrs.asdict()
    codes: Any = group["codes"]
    return CodeStore(
        path=path,
        fingerprint=attributes["fingerprint"],
        names=tuple(attributes["names"]),
        n_samples=codes.shape[0],
        n_codes=_get_table(group, path, "n_codes"),
        missing_code=_get_table(group, path, "missing_code"),
        nominal=_get_table(group, path, "nominal"),
        values=_get_table(group, path, "values"),
        chunks=codes.chunks,
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


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _some(names: Sequence[object], most: int = 8) -> str:
    text = ", ".join(str(name) for name in names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text
