"""Errors of classifiers on features selected inside folds; results of finished folds are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import dask
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import hofs_dask as hd
from hofs_dask.methods.registry import as_method
from pipelines.paper.data import DataSet
from pipelines.paper.protocol import SEED, Split, first, measured
from pipelines.paper.runs import keep, kept
from pipelines.paper.statistics import ranks, wilcoxon

#: Incremented when a change here changes results.
VERSION = 1
CLASSIFIERS = ("svm", "3nn", "forest")
MOST_FEATURES, STEP = 50, 5
#: Larger sets are reduced to `MOST_SAMPLES` samples. Sets of `LARGE` samples or more have fewer
#: folds.
MOST_SAMPLES, LARGE = 6000, 3000


@dataclass(frozen=True)
class Run:
    """One method with the tag of the version of the package that is evaluated."""

    method: str
    tag: str

    @property
    def label(self) -> str:
        """The name in tables and files."""
        return f"{self.method}@{self.tag}"


def sizes(data: DataSet) -> list[int]:
    """Return the numbers of features to evaluate: 5, 10, ..., at most half of all and 50."""
    most = min(MOST_FEATURES, data.n_features // 2)
    return list(range(STEP, most + 1, STEP)) or [max(1, most)]


def reduced(data: DataSet) -> DataSet:
    """Return at most 6000 samples of a set: the same ones in every run."""
    if data.n_samples <= MOST_SAMPLES:
        return data
    rows = np.sort(np.random.default_rng(SEED).permutation(data.n_samples)[:MOST_SAMPLES])
    groups = None if data.groups is None else data.groups[rows]
    classes = np.unique(data.y[rows], return_inverse=True)[1]
    return replace(data, x=data.x[rows], y=classes, groups=groups)


def folds(data: DataSet) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows: five stratified folds, three from 3000 samples on.

    If there are groups, there are five folds of whole groups.
    """
    if data.groups is not None:
        grouped = StratifiedGroupKFold(5, shuffle=True, random_state=SEED)
        return list(grouped.split(data.x, data.y, data.groups))
    n_folds = 3 if data.n_samples >= LARGE else 5
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=SEED).split(data.x, data.y))


def select(data: DataSet, rows: np.ndarray, method: str, n_features: int) -> list[int]:
    """Return the features that a method selects from some rows; the bins are also from these."""
    x, y = data.x[rows], data.y[rows]
    usable = int((x != x[0]).any(axis=0).sum())
    nominal = [f"x{column}" for column in np.flatnonzero(data.nominal)]
    with dask.config.set(scheduler="synchronous"), TemporaryDirectory() as folder:
        groups = None if data.groups is None else data.groups[rows]
        path = f"{folder}/codes.zarr"
        codes = hd.encode(x, y, path, nominal=nominal, target_kind="class", groups=groups)
        count = min(n_features, usable)
        found = hd.select(codes, None, count, method=as_method(method), progress=False)
        chosen: list[int] = found.indices.tolist()
        return chosen


def fold_errors(data: DataSet, fold: int, run: Run, cache: Path) -> dict[str, float]:
    """Return the error of each classifier in one fold, averaged over the numbers of features."""
    path = cache / data.name / f"{run.label}-{fold}.json"
    key = {"version": VERSION, "data": data.fingerprint}
    stored: dict[str, float] | None = kept(path, key)
    if stored is not None:
        return stored
    train, test = folds(data)[fold]
    ranking = select(data, train, run.method, sizes(data)[-1])
    shuffled = np.random.default_rng((SEED, fold)).permutation(train)
    split = Split(data, shuffled, test)
    with threadpool_limits(1):
        errors = {
            name: float(np.mean([_error(split, first(ranking, k), name) for k in sizes(data)]))
            for name in CLASSIFIERS
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    keep(path, key, errors)
    return errors


def _error(split: Split, features: Sequence[int], classifier: str) -> float:
    if classifier != "forest":
        return measured(split, features, classifier) / len(split.test)
    train, test = split.matrices(features)
    model = RandomForestClassifier(100, random_state=SEED, n_jobs=1).fit(train, split.y_train)
    return float((model.predict(test) != split.y_test).mean())


def stored_errors(data: DataSet, run: Run, cache: Path) -> dict[str, float] | None:
    """Return the mean error of each classifier over all folds, or None if a fold is not stored."""
    key = {"version": VERSION, "data": data.fingerprint}
    parts = [
        kept(cache / data.name / f"{run.label}-{fold}.json", key)
        for fold in range(len(folds(data)))
    ]
    if any(part is None for part in parts):
        return None
    return {name: float(np.mean([part[name] for part in parts])) for name in CLASSIFIERS}


def table(errors: np.ndarray, labels: Sequence[str], classifier: str) -> str:
    """Return mean errors, mean ranks and p-values against the first method, as Markdown.

    Parameters
    ----------
    errors
        (set, method).
    """
    mean_ranks = ranks(errors).mean(axis=0)
    lines = [
        f"| {classifier}, {len(errors)} sets | mean error, % | mean rank | Wilcoxon p |",
        "|---|--:|--:|--:|",
    ]
    for i, label in enumerate(labels):
        p = "" if i == 0 else f"{wilcoxon(errors[:, 0], errors[:, i]):.3g}"
        lines.append(f"| {label} | {100 * errors[:, i].mean():.2f} | {mean_ranks[i]:.2f} | {p} |")
    return "\n".join(lines)
