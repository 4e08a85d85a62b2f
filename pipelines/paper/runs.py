"""Parallel evaluation of folds; finished folds are stored, so that a stopped run resumes."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, Future, LocalCluster, as_completed

import hofs_dask
from hofs_dask.methods.base import Method
from pipelines.paper import protocol
from pipelines.paper.data import GROUPED, DataSet, load
from pipelines.paper.protocol import (
    CLASSIFIERS,
    CURVES,
    NATS,
    Ranking,
    first,
    key_of,
    sizes,
)
from pipelines.paper.quality import DEFAULT, METHOD, quality

#: The rows from which features are selected: the training rows of each fold, or all rows.
SCOPES = ("folds", "all")


@dataclass(frozen=True)
class Job:
    """Settings of a run that are sent to the workers."""

    data: str  # a folder, or "openml"
    cache: str  # folder of stored results
    methods: tuple[Method, ...]  # select inside each fold and on all data
    older: tuple[Method, ...]  # select only on all data
    package: str  # fingerprint of the code of the package


@dataclass(frozen=True)
class Outcome:
    """Combined results of all folds of one data set.

    Attributes
    ----------
    entropy
        H(y) in nats.
    chance
        Error rate of a random guess with the class frequencies.
    wrong
        Numbers of errors by scope, label of the method and classifier, one per number of features.
    wrong_top
        Numbers of errors with the first 30 features, by scope, label and classifier.
    nats
        The sum of log q(y | first 11 features), by scope and label.
    """

    name: str
    n_samples: int
    sizes: list[int]
    entropy: float
    chance: float
    wrong: dict[str, dict[str, dict[str, np.ndarray]]]
    wrong_top: dict[str, dict[str, dict[str, float]]]
    nats: dict[str, dict[str, float]]

    def errors(self, scope: str, label: str, classifier: str) -> np.ndarray:
        """Return the error rate for every number of features."""
        return self.wrong[scope][label][classifier] / self.n_samples

    def error(self, scope: str, label: str, classifier: str) -> float:
        """Return the mean error over all numbers of features, in per cent."""
        return 100 * float(self.errors(scope, label, classifier).mean())

    def information(self, scope: str, label: str) -> float:
        """Return the information of the first 11 features in nats: H(y) minus the held-out loss."""
        return self.entropy + self.nats[scope][label] / self.n_samples

    def arae(self, scope: str, label: str) -> float:
        """Return the relative absolute error of the first 30 features, mean over classifiers, in %.

        The absolute error of a prediction is ``sum_c |prediction_c - truth_c|`` over class
        indicators. It is divided by the absolute error of predicting the class frequencies.
        """
        wrong = self.wrong_top[scope][label]
        return 100 * float(np.mean(list(wrong.values()))) / self.n_samples / self.chance


def fingerprint_of_package() -> str:
    """Return a fingerprint of the code of the package."""
    folder = Path(hofs_dask.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def kept(path: Path, key: Mapping[str, object]) -> Any:
    """Return the value that `keep` stored in a file with this key, or None."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return content["value"] if content["key"] == key else None


def keep(path: Path, key: Mapping[str, object], value: object) -> None:
    """Store a value and its key in a file, which is written atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(json.dumps({"key": key, "value": value}))
    beside.replace(path)


@lru_cache(maxsize=2)
def loaded(name: str, data: str) -> DataSet:
    """Return a data set by name; the last two are cached."""
    return load(name, data)


def rank(job: Job, name: str, fold: int | None) -> dict[str, Ranking]:
    """Return the rankings of all methods by label, on the training rows of a fold or all rows."""
    data = loaded(name, job.data)
    path = Path(job.cache) / name / f"rank-{'all' if fold is None else fold}.json"
    key = {"version": protocol.VERSION, "data": data.fingerprint, "package": job.package}
    known: dict[str, Ranking] = kept(path, key) or {}
    wanted = (*job.methods, *job.older) if fold is None else job.methods
    missing = [method for method in wanted if method.label not in known]
    if missing:
        rows = np.arange(data.n_samples) if fold is None else protocol.folds(data)[fold][0]
        known |= protocol.select(data, rows, missing)
        keep(path, key, known)
    return {method.label: known[method.label] for method in wanted}


def judge_fold(job: Job, name: str, fold: int, whole: Mapping[str, Ranking]) -> Any:
    """Return the results of a fold as plain numbers by scope and label.

    Parameters
    ----------
    job, name, fold
        Settings of the run, name of the data set, number of the fold.
    whole
        The rankings on all rows.
    """
    data = loaded(name, job.data)
    by_scope = {"folds": rank(job, name, fold), "all": whole}
    rankings = {
        scope: {label: ranking["features"] for label, ranking in found.items()}
        for scope, found in by_scope.items()
    }
    path = Path(job.cache) / name / f"judge-{fold}.json"
    key = {
        "version": protocol.VERSION,
        "data": data.fingerprint,
        "scikit-learn": version("scikit-learn"),
    }
    known = kept(path, key) or {}
    split = protocol.split_of(data, fold)
    every = [ranking for scope in SCOPES for ranking in rankings[scope].values()]
    found = protocol.judge(split, every, known)
    if found != known:
        keep(path, key, found)

    def at(ranking: Sequence[int], n_features: int) -> dict[str, float]:
        return found[key_of(first(ranking, n_features))]

    return {
        scope: {
            label: {
                **{
                    classifier: [at(ranking, k)[classifier] for k in sizes(data)]
                    for classifier in CURVES
                },
                "top": {c: at(ranking, protocol.TOP_ARAE)[c] for c in CLASSIFIERS},
                NATS: at(ranking, protocol.TOP_INFORMATION)[NATS],
            }
            for label, ranking in rankings[scope].items()
        }
        for scope in SCOPES
    }


def add_up(data: DataSet, parts: Sequence[Any]) -> Outcome:
    """Return the combined results of all folds of a set."""
    labels = {scope: list(parts[0][scope]) for scope in SCOPES}

    def total(scope: str, label: str, what: str) -> np.ndarray:
        return np.asarray(np.sum([part[scope][label][what] for part in parts], axis=0))

    shares = np.bincount(data.y) / data.n_samples
    return Outcome(
        name=data.name,
        n_samples=data.n_samples,
        sizes=sizes(data),
        entropy=float(-(shares * np.log(shares)).sum()),
        chance=float(1 - (shares**2).sum()),
        wrong={
            scope: {label: {c: total(scope, label, c) for c in CURVES} for label in labels[scope]}
            for scope in SCOPES
        },
        wrong_top={
            scope: {
                label: {c: sum(part[scope][label]["top"][c] for part in parts) for c in CLASSIFIERS}
                for label in labels[scope]
            }
            for scope in SCOPES
        },
        nats={
            scope: {label: float(total(scope, label, NATS)) for label in labels[scope]}
            for scope in SCOPES
        },
    )


@contextmanager
def workers(n_workers: int) -> Iterator[Client]:
    """Yield a client of single-thread worker processes, or of this process for 0 workers."""
    with (
        LocalCluster(
            n_workers=max(n_workers, 1),
            threads_per_worker=1,
            processes=n_workers > 0,
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
        ) as local,
        Client(local) as client,
    ):
        yield client


def judge_all(client: Client, job: Job, names: Sequence[str]) -> list[Outcome]:
    """Return the outcomes of some sets, with the folds of all sets in parallel."""
    futures: dict[str, Future[Any]] = {}
    folds_of: dict[str, list[str]] = {}
    sets = {name: load(name, job.data) for name in names}
    costs = {name: d.n_samples * d.n_features * d.n_classes for name, d in sets.items()}
    # the longest first, so that it is not the last to finish
    for name in sorted(names, key=lambda name: -costs[name]):
        data, cost = sets[name], costs[name]
        # a grouped set shares this task by its key: without folds, groups do not matter
        plain = name.removesuffix(GROUPED)
        whole = client.submit(rank, job, plain, None, key=f"rank-{plain}", priority=cost + 1)
        folds_of[name] = []
        for fold in range(len(protocol.folds(data))):
            label = f"{name}, fold {fold + 1}"
            futures[label] = client.submit(
                judge_fold, job, name, fold, whole, key=f"judge-{name}-{fold}", priority=cost
            )
            folds_of[name].append(label)
    found = gathered(futures)
    return [add_up(sets[name], [found[label] for label in folds_of[name]]) for name in names]


def quality_all(client: Client, job: Job, names: Sequence[str]) -> dict[str, Any]:
    """Return the quality of the incremental ICA on some sets, by name."""
    found = gathered(
        {f"{name}, quality": client.submit(_quality, job, name, pure=False) for name in names}
    )
    return {name: found[f"{name}, quality"] for name in names}


def _quality(job: Job, name: str) -> Any:
    data = loaded(name, job.data)
    # rankings of the error tables are reused
    found = rank(replace(job, methods=(), older=(METHOD, DEFAULT)), name, None)
    key = {"version": protocol.VERSION, "data": data.fingerprint, "package": job.package}
    path = Path(job.cache) / name / "quality.json"
    return _made(path, key, lambda: quality(data, found[METHOD.label], found[DEFAULT.label]))


def model_of(client: Client, job: Job, make: Callable[[], Any]) -> Any:
    """Return the result of a function of `models`."""
    name = f"the model {make.__name__}"
    return gathered({name: client.submit(_model, job, make, pure=False)})[name]


def _model(job: Job, make: Callable[[], Any]) -> Any:
    key = {"version": protocol.VERSION, "package": job.package}
    return _made(Path(job.cache) / f"{make.__name__}.json", key, make)


def _made(path: Path, key: Mapping[str, object], make: Callable[[], Any]) -> Any:
    """Return the stored result, or call a function and store its result."""
    if kept(path, key) is None:
        keep(path, key, make())
    return kept(path, key)


def gathered(futures: Mapping[str, Future[Any]]) -> dict[str, Any]:
    """Return the results of named tasks; print a line to standard error when a task has ended."""
    names = {future.key: name for name, future in futures.items()}
    found, start = {}, time.perf_counter()
    for future, result in as_completed(list(futures.values()), with_results=True):
        found[names[future.key]] = result
        minutes = (time.perf_counter() - start) / 60
        line = f"{len(found):4d} of {len(futures)}  {minutes:5.1f} min  {names[future.key]}"
        print(line, file=sys.stderr, flush=True)
        future.release()
    return found
