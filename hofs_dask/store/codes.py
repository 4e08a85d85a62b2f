"""The code store: codes, tables and labels with a manifest, written once and read by chunk.

Layout::

    <store>
      zarr.json         attributes: format and version, which identify a code store
      manifest.json     contents of the store, with the checksum of every table and chunk
      lock              held while the store is written
      <folder>          the Zarr group that the manifest names
        codes           uint8 (feature, sample), stored as bit planes
        labels/<key>    uint8 (sample,), one array per target
        groups/<key>    uint32 (sample,), 4 * index of the group + fold of the group
        weights         uint16 (sample,), the weights in a common unit; absent if all are equal
        n_codes, missing_code, nominal (feature,);  values, edges (feature, code)
        columns/        copies of single features, made when a selection needs them

The arrays are written into a new folder, and the manifest last. Until then, readers use the earlier
folder. Samples that are not used, such as samples without a target or with weight zero, are not in
the store. No sample has Zarr's fill value.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hofs_dask.errors import AGAIN, CodeStoreError, advised, some_of, unknown
from hofs_dask.io.axes import Axis
from hofs_dask.io.files import LockedError, digest
from hofs_dask.io.kinds import Name
from hofs_dask.io.objects import FINAL
from hofs_dask.io.places import LOCK, Location, Place, as_place
from hofs_dask.io.temporary import temporary_store
from hofs_dask.kernels.planes import WORD, n_bits, unpacked
from hofs_dask.store.bins import Feature
from hofs_dask.store.chunks import COLUMNS, Chunks, HeldChunks, read_table
from hofs_dask.store.groups import Groups
from hofs_dask.store.labels import Labels, interval_names
from hofs_dask.store.manifest import (
    FILE,
    FORMAT,
    MOST_CODES,
    VERSION,
    Content,
    Manifest,
    Target,
    as_numbers,
    read_manifest,
    wrong_version,
)
from hofs_dask.store.summary import Category
from hofs_dask.store.weights import Weights

__all__ = ["CodeStore", "is_codes", "open_codes", "read_codes", "read_labels", "temporary_store"]

#: Prefix of the folders of a store.
FOLDER = "codes-"
#: Temporary files that remain if a process is killed while it writes a zarr.json or manifest.json.
PARTIAL = re.compile(r"(zarr|manifest)\.json\.[0-9a-f]{32}\.partial")
#: Maximum bytes of the files that are read to find out whether a path is a code store.
MOST_METADATA = 2**26


@dataclass(frozen=True)
class Held:
    """The chunks of a code store in memory: codes, labels, and groups and weights if it has them.

    Tasks read them as they read the files of a store, but in this process and without a copy.
    """

    codes: HeldChunks
    labels: HeldChunks
    groups: HeldChunks | None = None
    weights: HeldChunks | None = None


@dataclass(frozen=True)
class CodeStore:
    """A code store with one of its targets; a small object that is cheap to send to workers.

    Attributes
    ----------
    root : Place
        Where the store is.
    folder : str
        Name of the folder in the store that contains the arrays.
    identity : str
        A digest of the codes and their tables: equal for equal content.
    fingerprint : str or None
        A digest of the source and the encoding options; None if the source has no fingerprint.
    names : tuple
        Feature names.
    n_samples : int
        Number of samples; all have a target and a weight above zero.
    n_codes : ndarray of int16 (feature)
        Number of codes of each feature, including the missing code.
    missing_code : ndarray of int16 (feature)
        The code of missing values, -1 if there are none.
    nominal : ndarray of bool (feature)
        Whether the codes of a feature are categories.
    values : ndarray of float64 (feature, code)
        The number that a code represents; NaN for the missing code and after the last code.
    chunks : tuple of int
        Number of samples and of features in a chunk.
    labels : Labels
        The classes of the target.
    n_absent : int
        Number of chunks that were missing in the source, so that they were read as fill values.
    checksums : ndarray of uint32 (tile, row chunk)
        Checksums of the chunks of the codes.
    groups : Groups or None
        The groups of the samples, stored with the target.
    axis : Axis or None
        For xarray data, the description of the features: dim, units and further coordinates.
    feature_dims : tuple of str
        For xarray data, the dims along which the features are.
    weights : Weights or None
        The weights of the samples; None if all count equally.
    n_source : int
        Number of samples of the source, including those that are not in the store.
    columns : tuple
        Names of all columns of the source; empty if all of them are features of the store.
    held : Held or None
        The chunks, if they are in the memory of this process and not in files.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.encoding.encode import encode_source
    >>> from hofs_dask.io.source import open_source
    >>> source = open_source(np.eye(6), np.array([0, 1, 0, 1, 0, 1]))
    >>> with temporary_store() as path:
    ...     print(encode_source(source, path).n_codes)
    [2 2 2 2 2 2]
    """

    root: Place
    folder: str
    identity: str
    fingerprint: str | None
    names: tuple[Name, ...]
    n_samples: int
    n_codes: np.ndarray
    missing_code: np.ndarray
    nominal: np.ndarray
    values: np.ndarray
    chunks: tuple[int, int]
    labels: Labels
    n_absent: int = 0
    checksums: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint32))
    groups: Groups | None = None
    axis: Axis | None = None
    feature_dims: tuple[str, ...] = ()
    weights: Weights | None = None
    n_source: int = 0
    columns: tuple[Name, ...] = ()
    held: Held | None = None

    @property
    def positions(self) -> np.ndarray | None:
        """The position of each feature in the source, int64; None if all columns are features."""
        if not self.columns:
            return None
        place = {name: j for j, name in enumerate(self.columns)}
        return np.array([place[name] for name in self.names], np.int64)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.names)

    @property
    def bits(self) -> int:
        """The number of bits of a stored code."""
        return n_bits(int(self.n_codes.max()))

    @property
    def problem_identity(self) -> str:
        """A digest of codes, labels and groups, which determine the result of a search."""
        groups = [] if self.groups is None else [self.groups.identity]
        return digest([self.identity, self.labels.identity, *groups])

    @property
    def path(self) -> str:
        """The path or URL of the store."""
        return self.root.path

    @property
    def place(self) -> Place:
        """The folder of the arrays."""
        return self.root / self.folder

    @property
    def code_chunks(self) -> Chunks:
        """The chunks of the codes."""
        n_bytes = self.chunks[1] * self.bits * -(-self.chunks[0] // WORD) * (WORD // 8)
        checksums = dict(enumerate(self.checksums))
        return Chunks(self.path, self.place, "codes", n_bytes, checksums)

    @property
    def label_chunks(self) -> Chunks:
        """The chunks of the labels."""
        return self._column(f"labels/{self.labels.key}", self.labels.checksums)

    @property
    def group_chunks(self) -> Chunks | None:
        """The chunks of the groups, None if the samples are not grouped."""
        if self.groups is None:
            return None
        return self._column(f"groups/{self.labels.key}", self.groups.checksums)

    @property
    def weight_chunks(self) -> Chunks | None:
        """The chunks of the weights, None if all samples count equally."""
        return None if self.weights is None else self._column("weights", self.weights.checksums)

    def _column(self, name: str, checksums: np.ndarray) -> Chunks:
        """Return the chunks of an array with one value per sample."""
        n_bytes = COLUMNS[name.split("/")[0]].itemsize * self.chunks[0]
        return Chunks(self.path, self.place, name, n_bytes, {0: checksums})

    def manifest(self) -> Manifest:
        """Return the manifest; raise a CodeStoreError if the store was encoded again."""
        manifest = get_manifest(self.root)
        if manifest.folder != self.folder:
            raise CodeStoreError(
                f"the code store {self.path!r} was encoded again after it was opened; open it again"
            )
        return manifest

    def categories(self, feature_index: int) -> list[Category | None]:
        """Return the meaning of each code of a feature, None for the code of missing values.

        These are the categories of a nominal feature (``"other"`` for merged rare categories), and
        the intervals of the bins of a numeric feature.

        Examples
        --------
        >>> import numpy as np
        >>> from hofs_dask.encoding.encode import encode_source
        >>> from hofs_dask.io.source import open_source
        >>> data = np.array([["a"], ["b"], ["a"], ["b"]], dtype=object)
        >>> with temporary_store() as path:
        ...     encode_source(open_source(data, [0, 1, 0, 1]), path).categories(0)
        ['a', 'b']
        """
        if not 0 <= feature_index < self.n_features:
            raise IndexError(
                f"no feature {feature_index}; give a position from 0 to {self.n_features - 1}"
            )
        content = self.manifest().content
        missing: list[Category | None] = [None] * bool(self.missing_code[feature_index] >= 0)
        if self.nominal[feature_index]:
            return [*content.categories[str(feature_index)], *missing]
        n_codes = int(self.n_codes[feature_index])
        edges = read_table(self.path, self.place, "edges", content.tables["edges"])[feature_index]
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
            + (f", and {labels.n_dropped} without a target" * bool(labels.n_dropped)),
            f"  features  {self.n_features}: {some_of(self.names)}",
            f"            {int(self.nominal.sum())} nominal, "
            f"{int((self.missing_code >= 0).sum())} with missing values, {constant} constant",
            f"  codes     {self.n_codes.min()} to {self.n_codes.max()} per feature, "
            f"chunks of {self.chunks[0]} samples x {self.chunks[1]} features",
            f"  target    {labels.name}, {labels.kind}, {labels.n_classes} classes: "
            + some_of([f"{c} ({n})" for c, n in zip(labels.classes, labels.counts, strict=True)]),
        ]
        if self.groups is not None:
            lines.append(f"  groups    {self.groups.n_groups} of {self.groups.name}")
        if self.weights is not None:
            size = self.weights.effective_size
            lines.append(f"  weights   {self.weights.name}, effective sample size {size:.6g}")
        lines += [f"  note      {note}" for note in labels.notes]
        return "\n".join(lines)


def open_codes(location: Location, target: str | None = None) -> CodeStore:
    """Return the code store at a path or in a Zarr store, with one of its targets.

    Parameters
    ----------
    location : str, path, zarr.abc.store.Store or Place
        Path or URL of the store, or the Zarr store that contains it.
    target : str, optional
        Name of the target; required if the store has targets with different names. If several
        targets have this name, the latest is used. To open an earlier one, pass its key
        (``labels.key``) instead.

    Raises
    ------
    FileNotFoundError
        There is no code store at this path.
    ValueError
        The path is not a code store; or the store is not finished; or no target has this name or
        key; or `target` is None, but the store has targets with different names.
    CodeStoreError
        The code store is damaged.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.encoding.encode import encode_source
    >>> from hofs_dask.io.source import open_source
    >>> with temporary_store() as path:
    ...     _ = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     open_codes(path).labels.classes
    (0, 1)
    """
    root = as_place(location)
    manifest = get_manifest(root)
    by_key = {each.key: each for each in manifest.targets}
    if target is not None and target in by_key:
        return load_codes(root, manifest, by_key[target])
    names = dict.fromkeys(each.name for each in manifest.targets)
    if target is None and len(names) > 1:
        raise ValueError(
            f"the code store {root.path!r} has several targets; give target= one of "
            + some_of(sorted(names))
        )
    fitting = [each for each in manifest.targets if target in (None, each.name)]
    if not fitting:
        raise unknown(f"target of the code store {root.path!r}", target, names)
    return load_codes(root, manifest, fitting[-1])


def is_codes(location: Location) -> bool:
    """Return whether a path or a Zarr store is a code store, finished or unfinished.

    Examples
    --------
    >>> is_codes("no/such/path")
    False
    """
    return store_version(as_place(location)) is not None


def get_manifest(root: Place) -> Manifest:
    """Return the manifest of the finished store at a place.

    Examples
    --------
    >>> get_manifest(Place("/no/such/store"))
    Traceback (most recent call last):
    ...
    FileNotFoundError: no code store at '/no/such/store': the path does not exist
    """
    path = root.path
    if root.is_local and not Path(path).exists():
        raise FileNotFoundError(f"no code store at {path!r}: the path does not exist")
    version = store_version(root)
    manifest = None if version not in (None, VERSION) else read_manifest(root)
    if manifest is not None:
        return manifest
    if version is None:
        if (not root.is_local or Path(path).is_dir()) and not root.children():
            raise FileNotFoundError(f"no code store at {path!r}")
        raise ValueError(f"{path!r} is not a code store; give another path")
    if version != VERSION:
        raise wrong_version(path, version)
    raise ValueError(f"the code store {path!r} is not finished; encode the data again")


def load_codes(root: Place, manifest: Manifest, target: Target) -> CodeStore:
    """Return the code store of a manifest with one of its targets, and verify its tables."""
    content = manifest.content
    place = root / manifest.folder
    tables = {
        name: read_table(root.path, place, name, content.tables[name])
        for name in ("n_codes", "missing_code", "nominal", "values")
    }
    n_codes, missing = tables["n_codes"], tables["missing_code"]
    if (
        n_codes.min() < 1
        or n_codes.max() > min(MOST_CODES, tables["values"].shape[1])
        or n_bits(int(n_codes.max())) != content.bits
        or not (missing == n_codes - 1)[missing >= 0].all()
        or missing.min() < -1
        or tables["nominal"].max() > 1
    ):
        raise CodeStoreError(
            f"the tables of the code store {root.path!r} are inconsistent; remove the store and "
            "encode the data again"
        )
    return CodeStore(
        root=root,
        folder=manifest.folder,
        identity=manifest.identity,
        fingerprint=manifest.fingerprint,
        names=content.names,
        n_samples=content.n_samples,
        n_codes=n_codes,
        missing_code=missing,
        nominal=tables["nominal"].astype(bool),
        values=tables["values"],
        chunks=content.chunks,
        labels=Labels(
            name=target.name,
            key=target.key,
            kind=target.kind,  # type: ignore[arg-type]
            classes=target.classes,
            counts=np.array(target.counts, np.int64),
            values=np.array(target.values, np.float64),
            n_dropped=target.n_dropped,
            identity=target.content,
            checksums=as_numbers(target.checksums),
            notes=target.notes,
        ),
        n_absent=manifest.n_absent,
        checksums=as_numbers(content.checksums).reshape(content.grid),
        groups=_groups(target),
        axis=manifest.axis,
        feature_dims=content.feature_dims,
        weights=_weights(content),
        n_source=manifest.n_source,
        columns=manifest.columns,
    )


def _weights(content: Content) -> Weights | None:
    """Return the weights of the samples."""
    found = content.weights
    if found is None:
        return None
    return Weights(
        found.name,
        found.unit,
        found.total,
        found.squares,
        found.largest,
        as_numbers(found.checksums),
    )


def _groups(target: Target) -> Groups | None:
    """Return the groups that are stored with a target."""
    found = target.groups
    if found is None:
        return None
    return Groups(found.name, found.n_groups, digest(found), as_numbers(found.checksums))


@contextlib.contextmanager
def writing(root: Place) -> Iterator[str]:
    """Hold the lock of a store in a ``with`` block, and create a folder for its arrays.

    The name of the folder is yielded. The path must not exist, or be an empty folder or a code
    store. At the end of the block, folders that the manifest does not name are removed, and the
    store itself is removed if it has no manifest.

    Raises
    ------
    ValueError
        The path contains other data, or a store of another version.
    CodeStoreError
        Another process writes the store, or the path is not writable.

    Examples
    --------
    >>> with temporary_store() as path:
    ...     with writing(Place(path)) as folder:
    ...         print(is_codes(path), folder[:6])
    ...     is_codes(path)
    True codes-
    False
    """
    path = Path(root.path)
    version = _check_place(root)
    made = version is None and root.is_local and not path.exists()
    try:
        if root.is_local:
            path.mkdir(parents=True, exist_ok=True)
        with root.held():
            _check_place(root)
            folder = f"{FOLDER}{uuid.uuid4().hex}"
            metadata = {"zarr_format": 3, "node_type": "group"}
            about = {"attributes": {"format": FORMAT, "version": VERSION}}
            root.write("zarr.json", [json.dumps({**metadata, **about}).encode()])
            _remove_others(root)
            if root.is_local:
                (path / folder).mkdir()
            try:
                with advised(f"the code store {root.path!r} is not complete: {AGAIN}"):
                    yield folder
            finally:
                if not _remove_others(root):
                    root.remove("zarr.json")
                    root.remove(LOCK)
    except LockedError as error:
        raise CodeStoreError(
            f"the code store {root.path!r} is being written by {error}; wait until it is finished, "
            "or give another path"
        ) from error
    finally:
        if made:
            with contextlib.suppress(OSError):
                path.rmdir()  # fails if the folder is not empty


def read_codes(store: CodeStore, features: slice, rows: slice) -> np.ndarray:
    """Return codes of a store, uint8 (feature, sample) and C-contiguous.

    Raises
    ------
    CodeStoreError
        A chunk is missing, unreadable or not the one that was written.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.encoding.encode import encode_source
    >>> from hofs_dask.io.source import open_source
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_codes(store, slice(0, 4), slice(1, 3))
    array([[0, 0],
           [1, 0],
           [0, 1],
           [0, 0]], dtype=uint8)
    """
    chunks = store.code_chunks
    first, last, _ = features.indices(store.n_features)
    out = np.empty((last - first, len(range(*rows.indices(store.n_samples)))), np.uint8)
    for tile, own, to in _pieces(features, store.n_features, store.chunks[1]):
        for row, part, where in _pieces(rows, store.n_samples, store.chunks[0]):
            planes = as_planes(store, chunks.read(tile, row))[own]
            out[to, where] = unpacked(np.ascontiguousarray(planes), store.chunks[0])[:, part]
    return out


def read_column(chunks: Chunks, row: int, n_rows: int) -> np.ndarray:
    """Return the first values of a chunk of an array with one value per sample.

    Raises
    ------
    CodeStoreError
        The chunk is missing, unreadable or not the one that was written.
    """
    return COLUMNS[chunks.name.split("/")[0]].values(chunks.read(0, row), n_rows)


def read_labels(store: CodeStore, rows: slice) -> np.ndarray:
    """Return labels of a store, uint8 (sample,).

    Raises
    ------
    CodeStoreError
        A chunk is missing, unreadable or not the one that was written.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.encoding.encode import encode_source
    >>> from hofs_dask.io.source import open_source
    >>> with temporary_store() as path:
    ...     store = encode_source(open_source(np.eye(4), np.array([0, 1, 0, 1])), path)
    ...     read_labels(store, slice(1, 3))
    array([1, 0], dtype=uint8)
    """
    out = np.empty(len(range(*rows.indices(store.n_samples))), np.uint8)
    for row, part, where in _pieces(rows, store.n_samples, store.chunks[0]):
        out[where] = store.label_chunks.read(0, row)[part]
    return out


def as_planes(store: CodeStore, content: np.ndarray) -> np.ndarray:
    """Return the bytes of a chunk of codes as bit planes, uint64 (feature, bit, word)."""
    planes = content.view("<u8").reshape(store.chunks[1], store.bits, -1)
    return planes.astype(np.uint64, copy=False)


def _pieces(region: slice, size: int, chunk: int) -> Iterator[tuple[int, slice, slice]]:
    """Yield the index of each chunk along an axis that overlaps a region, and two slices.

    The first slice selects the overlap from the chunk, the second selects it from the region.
    """
    first, last, _ = region.indices(size)
    for number in range(first // chunk, -(-last // chunk) if first < last else 0):
        start, stop = max(first, number * chunk), min(last, (number + 1) * chunk)
        own = slice(start - number * chunk, stop - number * chunk)
        yield number, own, slice(start - first, stop - first)


def store_version(root: Place) -> object:
    """Return the version of the code store at a place, or None if it is not a code store.

    Raises
    ------
    OSError
        The files of a remote place cannot be read, so that it is unknown what they are.
    """
    failed: OSError | None = None
    for name in ("zarr.json", "manifest.json"):
        try:
            document = json.loads(root.read(name, MOST_METADATA))
            found = document["attributes"] if name == "zarr.json" else document
            if found["format"] == FORMAT:
                return found["version"]
        except (*FINAL, ValueError, KeyError, TypeError, RecursionError):
            continue
        except OSError as error:
            failed = error
    # a file that cannot be read here will not become a code store; a web server may answer anything
    if failed is not None and not root.is_local and not root.is_read_only:
        raise failed
    return None


def _check_place(root: Place) -> object:
    """Return the version of the store at a place, or None if it does not exist or is empty.

    Raise a ValueError if the place has other content.
    """
    path = root.path
    if root.is_local:
        local = Path(path)
        if local.is_symlink() and not local.exists():
            raise ValueError(f"{path!r} is a broken link; remove it or give another path")
        if local.exists() and not local.is_dir():
            raise ValueError(f"{path!r} is a file, not a code store; give another path")
        above = next((each for each in local.parents if each.exists()), local)
        if not above.is_dir():
            raise ValueError(f"{path!r} is below {str(above)!r}, a file; give another path")
    version = store_version(root)
    others = (name for name in root.children() - {LOCK} if not PARTIAL.match(name))
    if version is None and any(others):
        first = "" if root.is_local else "run the same call again; if the error remains, "
        raise ValueError(f"{path!r} is not empty and not a code store; {first}give another path")
    if version not in (None, VERSION):
        raise wrong_version(path, version)
    return version


def _remove_others(root: Place) -> bool:
    """Remove the folders that the manifest does not name, and partial files, of a locked store.

    Return whether there is a manifest.
    """
    manifest, names = read_manifest(root), root.children()
    # an answer may be stale; the folder that the manifest names must not be removed
    if manifest is None and FILE in names and not root.is_local:
        raise CodeStoreError(
            f"the manifest of the code store {root.path!r} is listed but cannot be read; {AGAIN}"
        )
    for name in names:
        is_left = name.startswith(FOLDER) and (manifest is None or name != manifest.folder)
        if is_left or PARTIAL.match(name):
            root.remove(name)
    return manifest is not None
