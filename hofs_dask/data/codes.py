"""The code store: a Zarr group of codes, tables and labels, written and read chunk by chunk.

Layout::

    <store>             attributes: format, version, fingerprint, names, options, complete
      codes             uint8 (feature, sample), stored as bit planes
      labels/<key>      uint8 (sample,), one a target; attributes: what `Labels` holds
      columns/<feature> uint8 (1, sample), a copy of one feature, made when a selection needs it
      n_codes, missing_code, nominal (feature,);  values, edges (feature, code)

Each chunk is one file, carries a checksum and is written by one task. The fill values (255 in
codes, 254 in labels) are never written, so a chunk that is missing shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from hofs_dask.data.bins import Feature
from hofs_dask.data.chunks import CODE_FILL, damaged
from hofs_dask.data.codec import Planes
from hofs_dask.data.labels import Labels, interval_names
from hofs_dask.data.paths import as_path, is_url
from hofs_dask.data.summary import Category
from hofs_dask.data.temporary import temporary_store as temporary_store
from hofs_dask.errors import some_of, unknown
from hofs_dask.kernels.planes import n_bits

FORMAT = "hofs_dask codes"
VERSION = 4


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

    @property
    def bits(self) -> int:
        """The bits that a stored code takes."""
        return n_bits(int(self.n_codes.max()))

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
                shape=(1, store.n_samples),
                chunks=(1, store.chunks[0]),
                dtype=np.uint8,
                fill_value=CODE_FILL,
                serializer=Planes(store.bits),
                compressors=[Crc32cCodec()],
                dimension_names=("feature", "sample"),
            )
    except OSError:
        return False
    return True


def finish_columns(path: str, features: Iterable[int]) -> None:
    """Say that the copies of features are whole."""
    done = sorted(copied_columns(path).union(features))
    zarr.open_group(path, path="columns", mode="r+").attrs["complete"] = done


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
        raise damaged(path, name, (0,), f"cannot be read ({error})") from error
