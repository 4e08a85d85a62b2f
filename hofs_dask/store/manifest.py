"""The manifest of a code store: its contents, and the checksum of every table and chunk.

The manifest is written last and replaced atomically. Everything read from a store is compared with
its checksum in the manifest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hofs_dask.errors import AGAIN, CodeStoreError
from hofs_dask.io.axes import Axis, read_axis
from hofs_dask.io.files import MOST_JSON, SealError, digest, seal, unseal
from hofs_dask.io.kinds import Name
from hofs_dask.io.places import Place

FORMAT = "hofs_dask codes"
VERSION = 7
FILE = "manifest.json"

#: Maximum number of codes of a feature and of classes of a target: a byte has 256 values, some of
#: which are reserved.
MOST_CODES, MOST_CLASSES = 255, 254

#: Maximum number of groups, because the number and the fold of a group are stored in 32 bits.
MOST_GROUPS = 2**29
#: Maximum of a stored weight.
MOST_WEIGHT = 2**16 - 1


@dataclass(frozen=True)
class Table:
    """Record of a small array of a store.

    Attributes
    ----------
    dtype : str
        Numpy dtype string, with byte order.
    shape : tuple of int
        Shape of the array.
    sha256 : str
        Digest of the bytes of the array.
    """

    dtype: str
    shape: tuple[int, ...]
    sha256: str

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class GroupRecord:
    """Record of the groups of the samples, which are stored with a target.

    Attributes
    ----------
    name, n_groups
        See `Groups`.
    checksums : str
        Eight hexadecimal digits per chunk of the array ``groups/<key>`` (the key of the target).
    """

    name: str
    n_groups: int
    checksums: str


@dataclass(frozen=True)
class WeightRecord:
    """Record of the weights of the samples.

    Attributes
    ----------
    name, unit, total, squares, largest
        See `Weights`.
    checksums : str
        Eight hexadecimal digits per chunk of the array ``weights``.
    """

    name: str
    unit: float
    total: int
    squares: int
    largest: int
    checksums: str


@dataclass(frozen=True)
class Target:
    """Record of one target of a store and its labels.

    Attributes
    ----------
    key : str
        Key of the array ``labels/<key>``.
    name, kind, classes, counts, values, n_dropped
        See `Labels`.
    checksums : str
        Eight hexadecimal digits per chunk of the array ``labels/<key>``.
    groups : GroupRecord or None
        The groups of the samples.
    notes : tuple of str
        Messages for the user, see `Labels`.
    """

    key: str
    name: str
    kind: str
    classes: tuple[Any, ...]
    counts: tuple[int, ...]
    values: tuple[float, ...]
    n_dropped: int
    checksums: str
    groups: GroupRecord | None = None
    notes: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        """A digest of the labels without their key, groups and notes."""
        own = {name: value for name, value in vars(self).items() if name != "notes"}
        return digest({**own, "key": "", "groups": None})


@dataclass(frozen=True)
class Content:
    """Record of the codes of a store. It does not depend on the path of the store or the source.

    Attributes
    ----------
    names : tuple
        Feature names.
    n_samples : int
        Number of samples; all have a target and a weight above zero.
    bits : int
        Bits per code.
    chunks : tuple of int
        Number of samples and of features in a chunk.
    bins, n_bins
        The option ``bins``, and the resulting number of bins.
    checksums : str
        Eight hexadecimal digits per chunk of the codes, (feature chunk, row chunk) in C order.
    tables : dict of str to Table
        The small arrays.
    categories : dict of str to list
        The categories of each nominal feature, by the position of the feature.
    n_folded : dict of str to int
        The number of categories merged into "other", by the position of the feature.
    feature_dims : tuple of str
        For xarray data, the dims along which the features are.
    weights : WeightRecord or None
        The weights of the samples, which bins and tables depend on; None if all count equally.
    """

    names: tuple[Name, ...]
    n_samples: int
    bits: int
    chunks: tuple[int, int]
    bins: int | str | None
    n_bins: int
    checksums: str
    tables: dict[str, Table]
    categories: dict[str, list[Any]]
    n_folded: dict[str, int]
    feature_dims: tuple[str, ...] = ()
    weights: WeightRecord | None = None

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.names)

    @property
    def grid(self) -> tuple[int, int]:
        """The number of chunks along the features and along the samples."""
        return -(-self.n_features // self.chunks[1]), -(-self.n_samples // self.chunks[0])


@dataclass(frozen=True)
class Manifest:
    """Record of all contents of a code store.

    Attributes
    ----------
    folder : str
        Name of the folder that contains the arrays. It is new whenever the store is encoded again.
    fingerprint : str or None
        A digest of the source and the options; None if the source has no fingerprint.
    n_source : int
        Number of samples of the source, including those without a target.
    kept : str or None
        A digest of the mask of the source samples that are in the store; None if all of them are.
    n_absent : int
        Number of chunks that were missing in the source, so that they were read as fill values.
    content : Content
        The codes.
    targets : tuple of Target
        The labels, the latest last.
    axis : Axis or None
        For xarray data, the description of the features: dim, units and further coordinates.
    columns : tuple
        Names of all columns of the source, in their order; empty if all of them are features.
    """

    folder: str
    fingerprint: str | None
    n_source: int
    kept: str | None
    n_absent: int
    content: Content
    targets: tuple[Target, ...]
    axis: Axis | None = None
    columns: tuple[Name, ...] = ()

    @property
    def identity(self) -> str:
        """A digest of the codes and their tables."""
        return digest(self.content)

    def with_target(self, target: Target) -> Manifest:
        """Return the manifest with this target as the latest; one with the same key is replaced."""
        others = tuple(each for each in self.targets if each.key != target.key)
        return replace(self, targets=(*others, target))


def read_manifest(place: Place) -> Manifest | None:
    """Return the manifest of the store at a place, or None if there is none.

    Raises
    ------
    CodeStoreError
        The manifest is damaged.
    ValueError
        The manifest has another version.

    Examples
    --------
    >>> read_manifest(Place("/no/such/store")) is None
    True
    """
    try:
        document = unseal(place.read(FILE, MOST_JSON))
        if document.get("format") != FORMAT:
            raise SealError(f"its format is {document.get('format')!r}")
        if document.get("version") == VERSION:
            return _parsed(document)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if isinstance(error, IsADirectoryError) or place.is_local:
            raise _damaged(place, error) from error
        raise CodeStoreError(
            f"the manifest of the code store {place.path!r} cannot be read ({error}); {AGAIN}"
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise _damaged(place, error) from error
    raise wrong_version(place.path, document.get("version"))


def _damaged(place: Place, error: Exception) -> CodeStoreError:
    first = "" if place.is_local else "run the same call again; if the error remains, "
    return CodeStoreError(
        f"the manifest of the code store {place.path!r} cannot be read ({error}); {first}remove "
        "the store and encode the data again"
    )


def write_manifest(place: Place, manifest: Manifest) -> None:
    """Write the manifest of the store at a place.

    Raises
    ------
    ValueError
        Parts of the manifest are inconsistent, because the two reads of the data differed.
    """
    try:
        _check(manifest)
    except ValueError as error:
        raise ValueError(
            f"the data changed while it was read, or its tasks are random ({error}); nothing was "
            "stored: run the same call again when nothing writes to the data"
        ) from error
    document = {"format": FORMAT, "version": VERSION, **vars(manifest)}
    place.write(FILE, [seal(document)], sync=True)


def wrong_version(path: str, version: object) -> ValueError:
    """Return the error for a store of another version."""
    return ValueError(
        f"the code store {path!r} has version {version}, expected version {VERSION}; "
        "remove it and encode the data again, or give another path"
    )


def as_numbers(checksums: str) -> np.ndarray:
    """Return checksums as an array of integers, given their hexadecimal digits.

    Examples
    --------
    >>> as_numbers("0000000a0000000b")
    array([10, 11], dtype=uint32)
    """
    return np.frombuffer(bytes.fromhex(checksums), ">u4").astype(np.uint32)


def as_digits(checksums: np.ndarray) -> str:
    """Return checksums as hexadecimal digits.

    Examples
    --------
    >>> as_digits(np.array([10, 11]))
    '0000000a0000000b'
    """
    return np.ascontiguousarray(checksums, ">u4").tobytes().hex()


def _parsed(document: dict[str, Any]) -> Manifest:
    """Return the manifest of a document, or raise an error if its parts are inconsistent."""
    # stores of this version that were written before this field was added do not have it
    known = {"columns": (), **document}
    known = {name: known[name] for name in (field.name for field in fields(Manifest))}
    content = known["content"]
    tables = {
        str(name): Table(**{**table, "shape": _integers(table["shape"])})
        for name, table in content["tables"].items()
    }
    manifest = Manifest(
        **{
            **known,
            "content": Content(
                **{
                    **content,
                    "names": tuple(map(_as_name, content["names"])),
                    "chunks": _integers(content["chunks"]),
                    "feature_dims": tuple(map(str, content.get("feature_dims", ()))),
                    "tables": tables,
                    "weights": content["weights"] and WeightRecord(**content["weights"]),
                }
            ),
            "targets": tuple(
                Target(
                    **{
                        **target,
                        "classes": tuple(target["classes"]),
                        "counts": _integers(target["counts"]),
                        "values": tuple(float(value) for value in target["values"]),
                        "groups": target["groups"] and GroupRecord(**target["groups"]),
                        "notes": tuple(map(str, target.get("notes", ()))),
                    }
                )
                for target in known["targets"]
            ),
            "axis": None if known["axis"] is None else read_axis(known["axis"]),
            "columns": tuple(map(_as_name, known["columns"])),
        }
    )
    _check(manifest)
    return manifest


def _check(manifest: Manifest) -> None:
    """Raise a ValueError if parts of the manifest are inconsistent; kernels rely on this check."""
    content = manifest.content
    n_features, n_samples = content.n_features, content.n_samples
    _expect(_is_name(manifest.folder), "folder")
    _expect(isinstance(manifest.fingerprint, str | None), "fingerprint")
    _expect(isinstance(manifest.kept, str | None), "kept")
    _expect(_is_count(manifest.n_source) and _is_count(manifest.n_absent), "n_source")
    _expect(_is_count(content.n_bins) and isinstance(content.bins, int | str | None), "bins")
    _expect(isinstance(content.categories, dict), "categories")
    _expect(n_features > 0 and len(set(content.names)) == n_features, "names")
    parts = [part for name in content.names for part in (name if type(name) is tuple else [name])]
    _expect({type(each) for each in parts} <= {str, int, float, bool}, "names")
    _expect(_is_count(n_samples) and n_samples > 0, "n_samples")
    _expect(_is_count(content.bits) and 1 <= content.bits <= 8, "bits")
    length, width = content.chunks
    _expect(1 <= length <= n_samples and 1 <= width <= n_features, "chunks")
    _expect(len(as_numbers(content.checksums)) == math.prod(content.grid), "checksums")
    shapes = {
        "n_codes": ("<i2", (n_features,)),
        "missing_code": ("<i2", (n_features,)),
        "nominal": ("|u1", (n_features,)),
        "values": ("<f8", (n_features, None)),
        "edges": ("<f8", (n_features, None)),
    }
    _expect(set(content.tables) == set(shapes), "tables")
    for name, (dtype, shape) in shapes.items():
        table = content.tables[name]
        fits = len(table.shape) == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, table.shape, strict=True)
        )
        _expect(table.dtype == dtype and fits and table.shape[-1] <= max(n_features, 256), name)
    _expect(manifest.axis is None or manifest.axis.fits(n_features), "axis")
    columns = manifest.columns
    _expect(not columns or set(content.names) < set(columns), "columns")
    _expect(len(set(columns)) == len(columns), "columns")
    weights = content.weights
    if weights is not None:
        _expect(isinstance(weights.name, str) and isinstance(weights.unit, float), "weights")
        _expect(0 < weights.unit < math.inf, "weights")
        _expect(_is_count(weights.largest) and 2 <= weights.largest <= MOST_WEIGHT, "weights")
        _expect(_is_count(weights.total) and isinstance(weights.squares, int), "weights")
        _expect(n_samples < weights.total < n_samples * weights.largest, "weights")
        _expect(weights.total < weights.squares < weights.total * weights.largest, "weights")
        _expect(len(as_numbers(weights.checksums)) == content.grid[1], "weights")
    _expect(len(manifest.targets) > 0, "targets")
    _expect(len({each.key for each in manifest.targets}) == len(manifest.targets), "targets")
    for target in manifest.targets:
        n_classes = len(target.classes)
        _expect(_is_name(target.key) and isinstance(target.name, str), "target")
        _expect(target.kind in ("class", "ordinal", "continuous"), "kind")
        _expect(2 <= n_classes <= MOST_CLASSES, "classes")
        _expect(len(target.counts) == len(target.values) == n_classes, "classes")
        _expect(min(target.counts) >= 0 and sum(target.counts) == n_samples, "counts")
        _expect(_is_count(target.n_dropped), "n_dropped")
        _expect(len(as_numbers(target.checksums)) == content.grid[1], "checksums")
        groups = target.groups
        if groups is not None:
            _expect(isinstance(groups.name, str), "groups")
            _expect(_is_count(groups.n_groups), "groups")
            _expect(2 <= groups.n_groups <= min(n_samples, MOST_GROUPS), "groups")
            _expect(len(as_numbers(groups.checksums)) == content.grid[1], "groups")


def _expect(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"{name!r} is inconsistent with the rest")


def _integers(values: Any) -> tuple[int, ...]:
    if not all(_is_count(value) for value in values):
        raise ValueError(f"{values!r} are not non-negative integers")
    return tuple(values)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _as_name(value: Any) -> Any:
    """Return the name of a feature from its JSON form, in which a tuple is a list."""
    return tuple(value) if isinstance(value, list) else value


def _is_name(value: object) -> bool:
    """Return whether a value is a valid name of a folder."""
    return isinstance(value, str) and value.replace("-", "").isalnum() and value.isascii()
