"""The nine data sets of the paper: from a folder of .npz files, or from OpenML."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

#: Default folder of the data, beside the clone.
FOLDER = Path(__file__).parents[3] / "shared" / "data"
#: Value of `--data` instead of a folder.
OPENML = "openml"
#: Suffix of the name of a set whose folds keep the samples of a group together.
GROUPED = "-grouped"


@dataclass(frozen=True)
class Source:
    """The number of a set on OpenML, and how its columns are read."""

    data_id: int
    nominal: bool  # whether all columns are categories
    symbols: str = ""  # if not empty, samples with other symbols are dropped


#: The sets in the order of the paper's tables.
SETS = {
    "lung": Source(163, nominal=True),
    "splice": Source(46, nominal=True, symbols="ACGT"),
    "waveform": Source(60, nominal=False),
    "semeion": Source(1501, nominal=True),
    "optdigits": Source(28, nominal=False),
    "musk2": Source(1116, nominal=False),
    "spambase": Source(44, nominal=False),
    "promoter": Source(164, nominal=True),
    "madelon": Source(1485, nominal=False),
}
#: Names of identifier columns, in lower case.
IDENTIFIERS = ("id", "instance", "instance_name", "molecule_name", "conformation_name")


@dataclass(frozen=True)
class DataSet:
    """A data set: the features and the class of each sample."""

    name: str
    x: np.ndarray  # float64 (sample, feature), codes of categories if nominal
    y: np.ndarray  # int64 (sample,), classes from 0
    nominal: np.ndarray  # bool (feature,)
    groups: np.ndarray | None = None  # int64 (sample,), if folds keep groups together

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.x.shape[1])

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.y.max()) + 1

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the data."""
        groups = np.zeros(0) if self.groups is None else self.groups
        digest = hashlib.sha256()
        for array in (self.x, self.y, self.nominal, groups):
            digest.update(f"{array.shape} {array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def load(name: str, data: str | Path = FOLDER, *, data_home: str | None = None) -> DataSet:
    """Return a data set by name.

    Parameters
    ----------
    name
        One of `SETS`, or any ``<name>.npz`` of the folder. With the suffix ``-grouped``, folds
        keep groups together.
    data
        A folder of .npz files with ``X``, ``y``, ``feature_kinds`` ("numeric" or "nominal") and
        optionally groups of samples in ``molecule_code``; or ``"openml"``.
    data_home
        Cache folder of scikit-learn for OpenML.
    """
    plain = name.removesuffix(GROUPED)
    if str(data) == OPENML:
        if plain not in SETS:
            raise ValueError(f"{plain!r} has no OpenML number here; give one of {', '.join(SETS)}")
        found = fetch(plain, SETS[plain], data_home)
    else:
        found = _read(plain, Path(data))
    if plain != name and found.groups is None:
        raise ValueError(f"{plain!r} has no groups; ask for {plain!r} instead of {name!r}")
    groups = found.groups if plain != name else None
    return DataSet(name, found.x, found.y, found.nominal, groups)


def _read(name: str, folder: Path) -> DataSet:
    path = folder / f"{name}.npz"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.npz"))) or "no .npz files"
        raise FileNotFoundError(
            f"there is no {path}; the folder has {known}. Give --data FOLDER, or --data {OPENML}"
        )
    with np.load(path) as arrays:
        kinds = arrays["feature_kinds"]
        return DataSet(
            name,
            arrays["X"].astype(np.float64),
            _as_classes(arrays["y"]),
            kinds == "nominal",
            _as_classes(arrays["molecule_code"]) if "molecule_code" in arrays else None,
        )


def fetch(name: str, source: Source, data_home: str | None = None) -> DataSet:
    """Return a data set from OpenML through scikit-learn, which caches it on disk.

    Categories are encoded in the order of their names; a missing value is the last code. Samples
    with symbols that are not in ``source.symbols`` are dropped. Identifier columns are dropped too,
    so sets from OpenML have no groups.
    """
    from sklearn.datasets import fetch_openml

    found = fetch_openml(
        data_id=source.data_id, as_frame=True, data_home=data_home, parser="liac-arff"
    )
    frame, target = found.frame.drop(columns=found.target.name), found.target
    lower = {column.lower(): column for column in frame.columns}
    frame = frame.drop(columns=[lower[column] for column in IDENTIFIERS if column in lower])
    if source.symbols:
        kept = frame.isin(list(source.symbols)).all(axis=1)
        frame, target = frame[kept], target[kept]
    columns = [
        _as_codes(frame[column]) if source.nominal else frame[column].to_numpy(np.float64)
        for column in frame.columns
    ]
    return DataSet(
        name,
        np.column_stack(columns),
        _as_classes(target.astype(str).to_numpy()),
        np.full(len(columns), source.nominal),
    )


def _as_codes(column: object) -> np.ndarray:
    """Return the codes of a pandas column; categories are sorted by name."""
    import pandas as pd

    codes, names = pd.factorize(pd.Series(column).astype(object), sort=True)
    return np.where(codes < 0, len(names), codes).astype(np.float64)


def _as_classes(values: np.ndarray) -> np.ndarray:
    """Return the position of each value among the sorted distinct values."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
