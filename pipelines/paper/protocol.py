"""Selection and classification inside folds, for all tables of errors."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import TypedDict

import dask
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut, StratifiedGroupKFold, StratifiedKFold
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import hofs_dask as hd
from hofs_dask.methods.base import Method
from hofs_dask.methods.registry import as_method
from pipelines.paper.data import DataSet

#: Incremented when a change here changes results, so that stored results are computed again.
VERSION = 3
SEED = 0
N_FOLDS, FEW_SAMPLES = 10, 100
#: Maximum number of features, and the step between numbers of features.
MOST, STEP = 100, 10
#: Numbers of features in the tables of global information and of the relative absolute error.
TOP_INFORMATION, TOP_ARAE = 11, 30

#: The eight ranked methods.
RANKED: tuple[Method, ...] = tuple(as_method(name) for name in hd.METHODS)
#: The criteria of the paper and of its authors' program, which are not ranked.
SHOWN: tuple[Method, ...] = (hd.HOFS(criterion="sum"), hd.HOFS(criterion="mean"))

#: Classifiers for the errors at every number of features ...
CURVES = ("svm", "3nn")
#: ... and for the relative absolute error.
CLASSIFIERS = ("svm", "3nn", "bayes", "tree")

#: What is measured for a set of features: the errors of the classifier of this name, or nats.
Measure = str
NATS: Measure = "nats"


def sizes(data: DataSet) -> list[int]:
    """Return the numbers of features to evaluate: 10 to 100 in steps of 10, at most all."""
    return list(range(STEP, min(MOST, data.n_features) + 1, STEP)) or [data.n_features]


def folds(data: DataSet) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows: ten stratified folds, or leave-one-out below 100 samples."""
    if data.groups is not None:
        splitter = StratifiedGroupKFold(N_FOLDS, shuffle=True, random_state=SEED)
    elif data.n_samples < FEW_SAMPLES:
        splitter = LeaveOneOut()
    else:
        splitter = StratifiedKFold(N_FOLDS, shuffle=True, random_state=SEED)
    with warnings.catch_warnings():
        # a class with fewer samples than folds is only in some of them
        warnings.filterwarnings("ignore", message="The least populated class")
        return list(splitter.split(data.x, data.y, data.groups))


class Ranking(TypedDict):
    """The result of a method: the positions of the chosen features by rank, and their subsets."""

    features: list[int]
    subsets: list[int]


def select(data: DataSet, rows: np.ndarray, methods: Iterable[str | Method]) -> dict[str, Ranking]:
    """Return the ranking of each method on some rows, by label.

    Only these rows are used, also for bins and categories. If the set has groups, they are given to
    the methods. The selection runs in this process, even if there is a Dask client.
    """
    x, y = data.x[rows], data.y[rows]
    usable = int((x != x[0]).any(axis=0).sum())
    n_features = min(sizes(data)[-1], usable)
    nominal = [f"x{column}" for column in np.flatnonzero(data.nominal)]
    groups = None if data.groups is None else data.groups[rows]
    with dask.config.set(scheduler="synchronous"), TemporaryDirectory() as folder:
        path = f"{folder}/codes.zarr"
        codes = hd.encode(x, y, path, nominal=nominal, target_kind="class", groups=groups)
        found = hd.compare(codes, None, n_features, methods=methods, progress=False)
        return {
            label: Ranking(
                features=found[label].indices.tolist(),
                subsets=found[label].to_dataset()["subset"].values.tolist(),
            )
            for label in found
        }


@dataclass(frozen=True)
class Split:
    """One fold, prepared for the classifiers."""

    data: DataSet
    train: np.ndarray
    test: np.ndarray

    @cached_property
    def columns(self) -> list[np.ndarray]:
        """The columns of each feature, (sample, column), scaled by means of the training rows.

        A numeric feature has one standardised column. A nominal feature has one indicator column
        per category, or a single one if it has two categories.
        """
        return [self._column(i) for i in range(self.data.n_features)]

    def _column(self, feature: int) -> np.ndarray:
        values = self.data.x[:, feature]
        seen = values[self.train]
        if self.data.nominal[feature]:
            categories = np.unique(seen)
            shown = categories[1:] if len(categories) == 2 else categories
            indicators: np.ndarray = (values[:, None] == shown).astype(np.float64)
            return indicators
        spread = float(seen.std())
        scaled: np.ndarray = (values - seen.mean()) / (spread if spread > 0 else 1.0)
        return scaled[:, None]

    def matrices(self, features: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the training and the test rows of some features."""
        matrix = np.concatenate([self.columns[i] for i in features], axis=1)
        return matrix[self.train], matrix[self.test]

    @property
    def y_train(self) -> np.ndarray:
        """The classes of the training rows."""
        classes: np.ndarray = self.data.y[self.train]
        return classes

    @property
    def y_test(self) -> np.ndarray:
        """The classes of the test rows."""
        classes: np.ndarray = self.data.y[self.test]
        return classes


def split_of(data: DataSet, fold: int) -> Split:
    """Return a fold for the classifiers, with its training rows in random order.

    3-NN uses the first of equally near neighbours. Categories have many equally near neighbours,
    and the sets are sorted by class. Without shuffling, 3-NN would often predict the first class.
    """
    train, test = folds(data)[fold]
    return Split(data, np.random.default_rng((SEED, fold)).permutation(train), test)


def wanted(data: DataSet, ranking: Sequence[int]) -> dict[tuple[int, ...], set[Measure]]:
    """Return the sets of features of a ranking to evaluate, and the measures of each set.

    A set is sorted by position, so that methods with the same set share its evaluation.
    """
    measures: dict[tuple[int, ...], set[Measure]] = {}
    for n_features in sizes(data):
        measures.setdefault(first(ranking, n_features), set()).update(CURVES)
    measures.setdefault(first(ranking, TOP_ARAE), set()).update(CLASSIFIERS)
    measures.setdefault(first(ranking, TOP_INFORMATION), set()).add(NATS)
    return measures


def first(ranking: Sequence[int], n_features: int) -> tuple[int, ...]:
    """Return the first features of a ranking, sorted by position.

    Examples
    --------
    >>> first([5, 2, 7], 2)
    (2, 5)
    """
    return tuple(sorted(ranking[:n_features]))


def key_of(features: Iterable[int]) -> str:
    """Return a short key that identifies a set of features.

    Examples
    --------
    >>> key_of([2, 5])
    '43885ddd7140669b'
    """
    return hashlib.sha256(",".join(map(str, features)).encode()).hexdigest()[:16]


def judge(
    split: Split,
    rankings: Iterable[Sequence[int]],
    known: Mapping[str, Mapping[Measure, float]] | None = None,
) -> dict[str, dict[Measure, float]]:
    """Return the measures of the feature sets of some rankings in a fold, by their `key_of`.

    Errors are counted and nats are summed over the test rows. Known results are returned unchanged.
    """
    result = {key: dict(measures) for key, measures in (known or {}).items()}
    # with several threads the order of equally near neighbours would vary
    with threadpool_limits(1):
        for ranking in rankings:
            for features, measures in wanted(split.data, ranking).items():
                found = result.setdefault(key_of(features), {})
                for measure in sorted(measures - found.keys()):
                    found[measure] = measured(split, features, measure)
    return result


def errors(
    data: DataSet, fold: int, methods: Iterable[str | Method]
) -> dict[str, dict[str, list[float]]]:
    """Return the error rates in a fold by method and classifier, one per number of features.

    Methods select from the training rows of the fold. `sizes` returns the numbers of features.
    """
    split = split_of(data, fold)
    selected = select(data, folds(data)[fold][0], methods)
    rankings = {label: ranking["features"] for label, ranking in selected.items()}
    found = judge(split, rankings.values())
    return {
        label: {
            classifier: [
                found[key_of(first(ranking, k))][classifier] / len(split.test) for k in sizes(data)
            ]
            for classifier in CURVES
        }
        for label, ranking in rankings.items()
    }


def measured(split: Split, features: Sequence[int], measure: Measure) -> float:
    """Return the number of misclassified test rows or, for `NATS`, the sum of `_log_shares`."""
    if measure == NATS:
        return float(_log_shares(split, features).sum())
    if measure == "bayes":
        answer = np.argmax(_bayes(split, features), axis=1)
    else:
        train, test = split.matrices(features)
        answer = _classifier(measure).fit(train, split.y_train).predict(test)
    return int((answer != split.y_test).sum())


def _classifier(name: str) -> LinearSVC | KNeighborsClassifier | DecisionTreeClassifier:
    if name == "svm":
        return LinearSVC(C=1.0, dual=False, max_iter=10_000)
    if name == "3nn":
        return KNeighborsClassifier(3, algorithm="brute")
    return DecisionTreeClassifier(min_samples_leaf=5, random_state=SEED)


def _bayes(split: Split, features: Sequence[int]) -> np.ndarray:
    """Return log p(class, features) of the test rows by naive Bayes.

    Numeric features have Gaussian densities. Categories have tables of counts, with 1 added to each
    count.
    """
    data, chosen = split.data, np.array(features)
    shares = np.bincount(split.y_train, minlength=data.n_classes) / len(split.train)
    with np.errstate(divide="ignore"):
        prior = np.log(shares)
    total = np.tile(prior, (len(split.test), 1))
    numbers, categories = chosen[~data.nominal[chosen]], chosen[data.nominal[chosen]]
    parts = []
    if len(numbers):
        parts.append((GaussianNB(), *split.matrices(numbers)))
    if len(categories):
        codes = data.x[:, categories].astype(np.int64)
        model = CategoricalNB(min_categories=codes.max(axis=0) + 1)
        parts.append((model, codes[split.train], codes[split.test]))
    for model, train, test in parts:
        found = model.fit(train, split.y_train).predict_joint_log_proba(test)
        total[:, model.classes_] += found - prior[model.classes_]
    return total


def _log_shares(split: Split, features: Sequence[int]) -> np.ndarray:
    """Return log q(class | features) of the test rows for their true classes.

    q is the mean of a logistic regression and a random forest, fitted to the training rows and
    mixed with one sample of equal class frequencies, so that no class has probability 0.
    """
    train, test = split.matrices(features)
    n_classes, n_train = split.data.n_classes, len(split.train)
    shares = np.full((len(test), n_classes), 1 / n_classes)
    for model in (
        LogisticRegression(max_iter=10_000),
        ExtraTreesClassifier(100, min_samples_leaf=5, random_state=SEED),
    ):
        model.fit(train, split.y_train)
        shares[:, model.classes_] += n_train / 2 * model.predict_proba(test)
    own: np.ndarray = shares[np.arange(len(test)), split.y_test]
    return np.log(own / (n_train + 1))
