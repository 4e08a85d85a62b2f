"""A slow and simple implementation of HOFS on arrays in memory, the reference for the package.

It shares no code with the package. Formulas are written as in the documentation and computed over
all samples. A round uses only the picks and the posterior of earlier rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import comb
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orth
from scipy.optimize import minimize
from scipy.special import logsumexp

from tests import oracles_lookahead

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

N_FOLDS = 4
LARGEST_WEIGHT = 100.0
LEAST_VARIANCE = 1e-4
SHRINKAGE = 20
RIDGE = 1e-3
TIE = 1e-9


class Pick(TypedDict):
    """The pick of one round."""

    index: int
    subset: int
    score: float
    information: float
    gain: float
    epoch: int


def select(
    codes: Integers,
    values: Floats,
    n_codes: Integers,
    nominal: NDArray[np.bool_],
    labels: Integers,
    label_values: Floats,
    criterion: str,
    source: str = "logistic",
    coding: str = "indicator",
    *,
    n_features: int,
    include: Sequence[int] = (),
    threshold: float = 0.2,
    affinity: str | None = None,
    order: int = 2,
    rows: Integers | None = None,
    folds: Integers | None = None,
    groups: Integers | None = None,
    evidence: float = 1.0,
) -> list[Pick]:
    """Return the picks of HOFS in order.

    Parameters
    ----------
    codes : (n, m)
        Code of each cell.
    values : (m, B)
        Numeric value of each code, NaN if the code is missing or unused.
    n_codes, nominal : (m,)
        Number of codes of each feature, including the missing code, and whether it is nominal.
    labels : (n,)
        Class of each sample, 0 to C - 1.
    label_values : (C,)
        Numeric value of each class, for the ordinal coding.
    criterion, source, coding, n_features, include, threshold, affinity, order
        The options of the selection.
    rows : (n,)
        Row number of each sample, which determines its fold. By default the position.
    folds, groups : (n,)
        Fold and group of each sample, if samples are grouped; at most 64 groups.
    evidence : float
        Number of effective samples that each sample counts as. With weights, samples are repeated
        and their evidence is below 1.

    Examples
    --------
    >>> codes = np.array([[0, 0], [1, 0], [0, 1], [1, 1]] * 8)
    >>> values = np.array([[0.0, 1.0], [0.0, 1.0]])
    >>> picks = select(
    ...     codes, values, np.array([2, 2]), np.array([False, False]), codes[:, 1],
    ...     np.array([0.0, 1.0]), "sum", n_features=1,
    ... )
    >>> picks[0]["index"], round(picks[0]["score"], 6)
    (1, 0.693147)
    """
    if rows is None:
        rows = np.arange(len(labels))
    data = Data(codes, values, n_codes, nominal, labels, label_values, rows, evidence)
    if groups is not None and folds is not None:
        data.folds, data.groups = folds, groups
    if affinity is None:
        affinity = "within" if criterion == "joint" else "correlation"
    closeness = {"within": data.within, "correlation": data.correlation}[affinity]
    if criterion == "joint":
        return _select_joint(data, source, n_features, include, threshold, closeness, order)
    return _select_sum(data, criterion, source, coding, n_features, include, threshold, closeness)


# The data, and statistics of one or two features


@dataclass(eq=False)
class Data:
    """The samples, with a standardized numeric value for every cell, 0 for missing.

    Examples
    --------
    >>> codes = np.array([[0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1]] * 2)
    >>> values = np.array([[3.0, 5.0], [0.0, 1.0], [2.0, np.nan]])
    >>> never = np.zeros(3, dtype=bool)
    >>> labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> data = Data(codes, values, np.full(3, 2), never, labels, np.arange(2.0), np.arange(8))
    >>> data.numbers[:3, 0].tolist()
    [-1.0, -1.0, 1.0]
    >>> data.usable()
    [0, 1]
    >>> data.relevance(0), data.correlation(0, 1), data.within(0, 1)
    (0.0, -1.0, 1.0)
    """

    codes: Integers
    values: Floats
    n_codes: Integers
    nominal: NDArray[np.bool_]
    labels: Integers
    label_values: Floats
    rows: Integers
    evidence: float = 1.0
    numbers: Floats = field(init=False)
    groups: Integers | None = None

    def __post_init__(self) -> None:
        """Compute the numeric value of each cell and the fold of each sample."""
        self.codes = self.codes.astype(int)
        self.labels = self.labels.astype(int)
        self.n_samples, self.n_features = self.codes.shape
        self.n_classes = len(self.label_values)
        self.size = self.n_samples * self.evidence
        self.folds = np.array([fold_of(int(row)) for row in self.rows])
        self.missing = np.column_stack(
            [np.isnan(self.values[i, self.codes[:, i]]) for i in range(self.n_features)]
        )
        self.categorical = [self._has_three_categories(i) for i in range(self.n_features)]
        self.numbers = np.column_stack([self._numbers(i) for i in range(self.n_features)])

    def _has_three_categories(self, i: int) -> bool:
        n_categories = np.isfinite(self.values[i, : self.n_codes[i]]).sum()
        return bool(self.nominal[i] and n_categories >= 3)

    def _numbers(self, i: int) -> Floats:
        present = ~self.missing[:, i]
        column = np.zeros(self.n_samples)
        if not present.any():
            return column
        if self.categorical[i]:
            known = category_scores(self.labels[present], self.codes[present, i])
        else:
            known = self.values[i, self.codes[present, i]]
        if np.ptp(known) > 0:
            column[present] = (known - known.mean()) / known.std()
        return column

    def usable(self) -> list[int]:
        """Return the features with at least two codes besides the missing one."""
        return [
            i for i in range(self.n_features) if len(set(self.codes[~self.missing[:, i], i])) >= 2
        ]

    @cache  # noqa: B019
    def effective_size(self, i: int) -> float:
        """Return the number of independent samples that the cells of a feature are worth."""
        if self.groups is None:
            return self.size
        codes = self.codes[:, i].astype(int)
        return self.n_samples / design_effect(codes, self.labels, self.groups)

    def relevance(self, i: int) -> float:
        """Return the information of a feature about the class."""
        return information(self.codes[:, i], self.labels)

    def correlation(self, i: int, j: int) -> float:
        """Return the signed correlation of two features."""
        return correlation(self.numbers[:, i], self.numbers[:, j])

    def within(self, i: int, j: int) -> float:
        """Return the dependence of two features within classes, from 0 to 1."""
        if self.categorical[i] or self.categorical[j]:
            return self._within_codes(i, j)
        total, weight = 0.0, 0.0
        for c in range(self.n_classes):
            here = self.labels == c
            n = here.sum() * self.evidence
            if n >= 4:
                square = min(correlation(self.numbers[here, i], self.numbers[here, j]) ** 2, 1.0)
                total += n * max(0.0, square - (1 - square) / max(n - 2, 1))
                weight += n
        return float(np.sqrt(total / weight)) if weight else 0.0

    def _within_codes(self, i: int, j: int) -> float:
        total = 0.0
        for c in range(self.n_classes):
            here = self.labels == c
            x, z = self.codes[here, i], self.codes[here, j]
            if here.any():
                bias = (len(set(x)) - 1) * (len(set(z)) - 1) / 2 / self.evidence
                total += here.sum() * information(x, z) - bias
        return float(np.sqrt(1 - np.exp(-2 * max(0.0, total / self.n_samples))))


def fold_of(row: int) -> int:
    """Return the fold of a row, from a hash of its number.

    Examples
    --------
    >>> [fold_of(row) for row in range(3)]  # the last bits of e220...daf, 910a...cc1, 9758...6ce
    [3, 1, 2]
    """
    wrap = 2**64 - 1
    z = (row + 0x9E3779B97F4A7C15) & wrap
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & wrap
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & wrap
    return (z ^ (z >> 31)) % N_FOLDS


def entropy(symbols: Iterable[object]) -> float:
    """Return the plug-in entropy of a sequence, in nats.

    Examples
    --------
    >>> round(entropy("abab"), 6)
    0.693147
    """
    counted: dict[object, int] = {}
    for symbol in symbols:
        counted[symbol] = counted.get(symbol, 0) + 1
    p = np.array(list(counted.values())) / sum(counted.values())
    return float(-(p * np.log(p)).sum())


def information(x: Integers, y: Integers) -> float:
    """Return the plug-in mutual information of two sequences, in nats.

    Examples
    --------
    >>> round(information(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])), 6)
    0.693147
    """
    x, y = x.tolist(), y.tolist()
    return entropy(x) + entropy(y) - entropy(zip(x, y, strict=True))


def correlation(x: Floats, z: Floats) -> float:
    """Return the Pearson correlation of two columns, 0 if one of them is constant.

    Examples
    --------
    >>> correlation(np.array([1.0, 2.0]), np.array([4.0, 2.0]))
    -1.0
    """
    if np.ptp(x) == 0 or np.ptp(z) == 0:
        return 0.0
    x, z = x - x.mean(), z - z.mean()
    return float((x * z).sum() / np.sqrt((x * x).sum() * (z * z).sum()))


def category_scores(labels: Integers, categories: Integers) -> Floats:
    """Return the score of each sample's category on the first axis of correspondence analysis.

    Examples
    --------
    >>> scores = category_scores(np.array([0, 0, 0, 1, 1]), np.array([5, 5, 5, 7, 9]))
    >>> bool(scores[0] < 0 < scores[3])
    True
    """
    classes, row = np.unique(labels, return_inverse=True)
    kinds, column = np.unique(categories, return_inverse=True)
    shares = np.zeros((len(classes), len(kinds)))
    np.add.at(shares, (row, column), 1 / len(labels))
    r, c = shares.sum(1), shares.sum(0)
    expected = np.outer(r, c)
    _, _, right = np.linalg.svd((shares - expected) / np.sqrt(expected), full_matrices=False)
    scores: Floats = right[0] / np.sqrt(c)
    counts = np.bincount(column)
    if scores[counts.argmax()] > 0:
        scores = -scores
    return scores[column]


# The greedy search


def _subset_to_join(
    i: int,
    subsets: list[list[int]],
    threshold: float,
    closeness: Callable[[int, int], float],
) -> int:
    """Return the subset that a feature would join, or the number of a new one."""
    best, best_mean = len(subsets), threshold
    for k, members in enumerate(subsets):
        mean = sum(closeness(i, member) for member in members) / len(members)
        if mean > best_mean:
            best, best_mean = k, mean
    return best


def _join(i: int, k: int, subsets: list[list[int]]) -> None:
    if k == len(subsets):
        subsets.append([])
    subsets[k].append(i)


def _best(scores: dict[int, float]) -> int:
    """Return the feature with the largest score; the lowest one in a tie."""
    largest = max(scores.values())
    return min(i for i, score in scores.items() if score >= largest - TIE * abs(largest))


# The criteria "sum" and "mean"


def _select_sum(
    data: Data,
    criterion: str,
    source: str,
    coding: str,
    n_features: int,
    include: Sequence[int],
    threshold: float,
    closeness: Callable[[int, int], float],
) -> list[Pick]:
    targets = _ordinal_column(data) if coding == "ordinal" else _indicator_columns(data)
    known: dict[tuple[int, ...], float] = {}

    def h(features: Iterable[int]) -> float:
        """Return the entropy of the label given some features."""
        given = tuple(sorted(features))
        if given not in known:
            known[given] = 0.0
            for r in range(targets.shape[1]):
                columns = [data.numbers[:, list(given)], targets[:, :r]]
                known[given] += row_value(targets[:, r], np.hstack(columns), source)
        return known[given]

    picks: list[Pick] = []
    chosen: list[int] = []
    subsets: list[list[int]] = []
    while len(picks) < n_features:
        conditional = {
            i: sum(max(0.0, h([i]) - h([*members, i])) for members in subsets)
            for i in data.usable()
            if i not in chosen
        }
        share = 1 / len(picks) if criterion == "mean" and picks else 1
        scores = {i: data.relevance(i) + share * conditional[i] for i in conditional}
        i = include[len(picks)] if len(picks) < len(include) else _best(scores)
        total = data.relevance(i) + conditional[i]
        before = sum(max(0.0, h([]) - h(members)) for members in subsets)
        k = _subset_to_join(i, subsets, threshold, closeness)
        _join(i, k, subsets)
        chosen.append(i)
        picks.append(
            Pick(
                index=i,
                subset=k,
                score=scores[i],
                information=total,
                gain=total - before,
                epoch=0,
            )
        )
    return picks


def _ordinal_column(data: Data) -> Floats:
    """Return the numeric values of the classes as one standardized column."""
    return _standardise(data.label_values[data.labels])[:, None]


def _indicator_columns(data: Data) -> Floats:
    """Return standardized indicators of all classes except one, most frequent class first."""

    def place(c: int) -> tuple[int, list[int]]:
        here = data.codes[data.labels == c]
        cells = [
            int((here[:, i] == b).sum())
            for i in range(data.n_features)
            for b in range(data.n_codes[i])
        ]
        return -len(here), cells

    order = sorted(range(data.n_classes), key=place)
    return np.column_stack([_standardise((data.labels == c).astype(float)) for c in order[:-1]])


def _standardise(column: Floats) -> Floats:
    standard: Floats = (column - column.mean()) / column.std()
    return standard


def row_value(t: Floats, given: Floats, source: str) -> float:
    """Return the entropy of a column given others, from the optimal ICA row.

    Examples
    --------
    >>> t = np.array([-1.0, 1.0] * 10)
    >>> round(row_value(t, np.zeros((20, 0)), "gaussian"), 6)
    1.418939
    >>> round(row_value(t, t[:, None], "logistic"), 6)  # w = 100 and s = 0: log(4 / 100)
    -3.218876
    """
    z = np.column_stack([np.ones(len(t)), given])
    # An orthonormal basis spans the same rows and handles repeated columns.
    z = orth(z / np.linalg.norm(z, axis=0), rcond=1e-10) * np.sqrt(len(t))
    slopes = z.T @ t / len(t)
    rest = t - z @ slopes
    variance = max(float((rest**2).mean()), LEAST_VARIANCE)
    if source == "gaussian":
        return float(0.5 * np.log(2 * np.pi * np.e * variance))

    def loss(parameters: Floats) -> tuple[float, Floats]:
        w, b = parameters[0], parameters[1:]
        s = w * t - z @ b
        phi = np.abs(s) + 2 * np.log1p(np.exp(-np.abs(s)))
        slope = np.tanh(s / 2)
        gradient = np.concatenate([[(slope * t).mean() - 1 / w], -(slope @ z) / len(t)])
        return float(phi.mean() - np.log(w)), gradient

    weight = min(np.pi / np.sqrt(3 * variance), LARGEST_WEIGHT)
    starts = [np.array([1.0, *np.zeros(z.shape[1])]), np.array([weight, *(weight * slopes)])]
    bounds = [(1e-6, LARGEST_WEIGHT)] + [(None, None)] * z.shape[1]
    options = {"maxiter": 5000, "maxfun": 50000, "ftol": 1e-16, "gtol": 1e-9, "maxcor": 30}
    return min(
        float(minimize(loss, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun)
        for x in starts
    )


# The criterion "joint"


class Judged(NamedTuple):
    """A row of a candidate: the information with it, its penalty, and the posterior with it."""

    bound: float
    penalty: float
    posterior: Floats


def _select_joint(
    data: Data,
    source: str,
    n_features: int,
    include: Sequence[int],
    threshold: float,
    closeness: Callable[[int, int], float],
    order: int,
) -> list[Pick]:
    n = data.n_samples
    prior = np.log([(data.labels == c).mean() for c in range(data.n_classes)])

    def best_row(i: int) -> Judged:
        """Return the best row of a candidate."""
        joined = _subset_to_join(i, subsets, threshold, closeness)
        linear = [
            u
            for u in parents
            if joined < len(subsets) and u in subsets[joined] and not data.categorical[u]
        ]
        rows = [(_table_row(data, i), 1)]
        if linear and not data.categorical[i]:
            rows.append((_linear_row(data, i, linear, source, by_class=False), 4))
            rows.append((_linear_row(data, i, linear, source, by_class=True), 4))
        parent, most = None, 0.0
        for u in parents:
            gain = _parent_gain(data, i, u)
            if gain > most:
                parent, most = u, gain
        if parent is not None:
            rows.append((_pair_row(data, i, parent), 4 * len(parents)))
        if i in coarse and set(coarse[i]) <= set(parents):
            n_sets = len(parents) * (len(parents) + 1) / 2
            rows.append((_coarse_row(data, i, coarse[i]), 4 * n_sets))
        scored = []
        for row, n_alternatives in rows:
            bound = _posterior_information(data, posterior + row)
            scored.append(Judged(bound, np.log(n_alternatives) / sizes[i], posterior + row))
        return max(scored, key=lambda each: each.bound - each.penalty)

    def together(features: tuple[int, ...]) -> tuple[list[int], float]:
        """Return the features of a tuple, the best first, and what they gain one by one."""
        nonlocal posterior
        members = sorted(features, key=lambda i: (-gains[i], i))
        known = posterior, [*parents], [[*each] for each in subsets]
        coarse[members[-1]] = tuple(members[:-1])
        gain, k = 0.0, _subset_to_join(members[0], subsets, threshold, closeness)
        for i in members:
            without = _posterior_information(data, posterior)
            own = best_row(i)
            gain += own.bound - own.penalty - without
            posterior = own.posterior
            parents.append(i)
            _join(i, k, subsets)
        posterior, parents[:], subsets[:] = known
        return members, gain

    picks: list[Pick] = []
    chosen: list[int] = []
    subsets: list[list[int]] = []
    parents: list[int] = []
    tuples: list[list[Any]] | None = None
    planned: list[int] = []
    coarse: dict[int, tuple[int, ...]] = {}  # parents of coarse rows
    n_paired = n_thirds = 0
    posterior, before, charged, epoch = np.tile(prior, (n, 1)), 0.0, 0.0, 0
    to_earlier_epochs = dict.fromkeys(data.usable(), 0.0)
    relevance = {i: information(data.codes[:, i], data.labels) for i in data.usable()}
    sizes = {i: data.effective_size(i) for i in data.usable()}
    most = max(data.effective_size(i) if i in sizes else data.size for i in range(data.n_features))
    while len(picks) < n_features:
        forced = len(picks) < len(include)
        left = [i for i in data.usable() if i not in chosen]
        penalties = {i: 2 * np.log(len(left)) / sizes[i] for i in left}
        least = 2 * np.log(len(left)) / most
        judged = {i: best_row(i) for i in left}
        nets = {i: each.bound - each.penalty for i, each in judged.items()}
        # a millionth of the relevance breaks ties before the column order does
        scores = {
            i: nets[i] + to_earlier_epochs[i] + 1e-6 * relevance[i] - (penalties[i] - least)
            for i in left
        }
        without = _posterior_information(data, posterior)
        gains = {j: net - without for j, net in nets.items()}
        i = include[len(picks)] if forced else _best(scores)
        ahead = bool(planned)
        if ahead:
            i = planned.pop(0)
        elif not forced and order > 1:
            if tuples is None:
                found = oracles_lookahead.waiting(data, order, left)
                tuples = [[features, worth, worth, 0] for features, worth, _ in found]
            tuples = [each for each in tuples if set(each[0]) <= set(left)]
            clear = gains[i] >= 1e-3 * min(1.0, entropy(data.labels.tolist()) / np.log(2))
            clear = clear and len(left) * np.exp(-sizes[i] * gains[i]) <= oracles_lookahead.ALPHA
            if len(parents) >= 2 and n_paired < len(parents) and n_thirds < 5 and not clear:
                thirds = oracles_lookahead.thirds(data, parents, n_paired, left)
                n_paired = len(parents)
                if thirds:
                    coarse |= thirds
                    n_thirds += 1
                    continue
            least_gain = max(gains[i], 1e-3 * min(1.0, entropy(data.labels.tolist()) / np.log(2)))
            untried = [each for each in tuples if each[3] < 2]
            best = max(untried, key=lambda each: each[1] / len(each[0]), default=None)
            if best is not None and best[1] / len(best[0]) > least_gain:
                members, gain = together(best[0])
                n_tuples = comb(len(left), len(members))
                evidence = min(sizes[j] for j in members) * gain
                if gain / len(members) > least_gain and n_tuples * np.exp(-evidence) <= 0.5:
                    i, *planned = members
                else:
                    best[1], best[3] = gain, best[3] + 1
                    del coarse[members[-1]]
        total = max(0.0, nets[i] - charged - penalties[i])
        needed = _needed_gain(data, {j: sizes[j] * gain for j, gain in gains.items()}, sizes[i])
        needed = max(needed, 0.02 * max(relevance[j] for j in gains))
        if parents and not forced and not ahead and not planned and gains[i] < needed - 1e-12:
            for j in left:
                to_earlier_epochs[j] += max(gains[j], 0.0)
            parents, posterior, before, charged = [], np.tile(prior, (n, 1)), 0.0, 0.0
            coarse, n_paired = {}, 0
            tuples = [[features, worth, worth, 0] for features, _, worth, _ in tuples or []]
            epoch += 1
            continue
        k = picks[-1]["subset"] if ahead else _subset_to_join(i, subsets, threshold, closeness)
        picks.append(
            Pick(
                index=i,
                subset=k,
                score=scores[i],
                information=total,
                gain=total - before,
                epoch=epoch,
            )
        )
        _join(i, k, subsets)
        chosen.append(i)
        parents.append(i)
        posterior, before = judged[i].posterior, total
        charged += penalties[i] + judged[i].penalty
    return picks


def design_effect(x: Integers, y: Integers, groups: Integers) -> float:
    """Return the design effect of groups for codes x and classes y.

    All products of samples are in matrices (sample, sample).
    """
    n = len(x)
    in_class = np.array([y == c for c in set(y.tolist())], float)
    centre = np.eye(n) - in_class.T @ (in_class / in_class.sum(axis=1, keepdims=True))
    shares = in_class.mean(axis=1, keepdims=True)
    centred = (in_class - shares) / np.sqrt(shares)
    of_class = centred.T @ centred
    in_group = np.array([groups == g for g in set(groups.tolist())], float)
    size = in_group.sum(axis=1)
    equal = centre @ in_group.T @ in_group @ centre.T
    indicators = np.array([x == b for b in set(x.tolist())], float)
    indicators /= np.sqrt(indicators.mean(axis=1, keepdims=True))
    ranks = (x[:, None] < x).mean(axis=0) + (x[:, None] == x).mean(axis=0) / 2

    def over_pairs(products: Floats) -> Floats:
        return np.array([row @ products @ row - row @ products.diagonal() for row in in_group])

    correlation, known = 0.0, over_pairs(equal).max() > 1e-9
    for columns in (indicators, ranks[None]):
        of_code = centre @ columns.T @ columns @ centre.T
        if not known and of_code.trace() > 1e-9:
            correlation = 1.0
        for contribution in (size, over_pairs(of_class)):
            weight = contribution / np.maximum(size * (size - 1), 1)
            expected = weight @ over_pairs(equal)
            if expected <= 1e-9:
                continue
            between = max(weight @ over_pairs(of_code) / expected, 0.0)
            variance = of_code.trace() / n + between * (1 - equal.trace() / n)
            if variance > 1e-12:
                correlation = max(correlation, min(between / variance, 1.0))
    return 1 + correlation * max(over_pairs(of_class).sum() / of_class.trace(), 0.0)


def _needed_gain(data: Data, evidence: dict[int, float], size: float) -> float:
    """Return the gain that the best candidate needs, or the search restarts.

    The k-th largest of m values of evidence (gain times samples) is likely real if noise is
    expected to exceed it at most k / 2 times, m exp(-evidence) <= k / 2.
    """
    m = len(evidence)
    h = entropy(data.labels.tolist())
    likely = [
        each
        for k, each in enumerate(sorted(evidence.values(), reverse=True), start=1)
        if m * np.exp(-each) <= k / 2
    ]
    return max(min(likely, default=np.inf) / size, 1e-3 * min(1.0, h / np.log(2)))


def _posterior_information(data: Data, posterior: Floats) -> float:
    """Return the information of an unnormalized log posterior (n, C) about the class."""
    of_truth = posterior[np.arange(data.n_samples), data.labels]
    return entropy(data.labels.tolist()) + float((of_truth - logsumexp(posterior, axis=1)).mean())


def _count_codes(data: Data, i: int, samples: NDArray[np.bool_]) -> Floats:
    """Return counts (code, class) of a feature in some samples."""
    counts = np.zeros((data.n_codes[i], data.n_classes))
    for b, c in zip(data.codes[samples, i], data.labels[samples], strict=True):
        counts[b, c] += data.evidence
    return counts


def _table(data: Data, i: int, fold: int) -> Floats:
    """Return the shrunk table p(b|c) (code, class) of a feature, fitted without a fold."""
    counts = _count_codes(data, i, data.folds != fold)
    n_codes, n_classes = counts.shape
    of_class = counts.sum(0)
    p = (counts.sum(1) + 0.5) / (counts.sum(1) + 0.5).sum()
    target = np.tile(p[:, None], n_classes)
    freedom = (n_codes - 1) * (n_classes - 1)
    if not data.categorical[i] and n_codes > 2:
        target = _trend(data, i, counts, p)
        freedom = (n_codes - 2) * (n_classes - 1)
    trust = _trust(counts, target, freedom * data.size / data.effective_size(i))
    shrunk: Floats = trust * (counts + p[:, None]) / (of_class + 1) + (1 - trust) * target
    return shrunk


def _trust(counts: Floats, expected: Floats, freedom: float) -> float:
    """Return 1 - freedom / chi-square, at least 0, of counts against shares (code, class)."""
    chi2 = 0.0
    for c in range(counts.shape[1]):
        n = counts[:, c].sum()
        if n > 0:
            chi2 += n * ((counts[:, c] / n - expected[:, c]) ** 2 / expected[:, c]).sum()
    return max(0.0, 1 - freedom / chi2) if chi2 > 0 else 0.0


def _trend(data: Data, i: int, counts: Floats, p: Floats) -> Floats:
    """Return p(b) exp(t v_b) with the mean of each class, shrunk to the common mean."""
    v = data.values[i, : data.n_codes[i]]
    known = ~np.isnan(v)
    mean = (p[known] * v[known]).sum() / p[known].sum()
    v = np.where(known, v - mean, 0.0)
    v = v / np.sqrt((p * v**2).sum())
    n = counts.sum(0)
    means = np.array([(counts[:, c] * v).sum() / max(n[c], 1) for c in range(len(n))])
    chi2 = (n * means**2).sum()
    freedom = (len(n) - 1) * data.size / data.effective_size(i)
    means = means * max(0.0, 1 - freedom / chi2 if chi2 > 0 else 0.0)
    result = np.empty(counts.shape)
    for c, wanted in enumerate(means):
        t = min(max(wanted, -1.0), 1.0)
        for _ in range(4):
            q = p * np.exp(t * v) / (p * np.exp(t * v)).sum()
            found = (q * v).sum()
            step = (wanted - found) / max((q * (v - found) ** 2).sum(), 1e-3)
            t += min(max(step, -1.0), 1.0)
        result[:, c] = p * np.exp(t * v) / (p * np.exp(t * v)).sum()
    return result


def _table_row(data: Data, i: int) -> Floats:
    """Return log p(x|c) of each sample and class, fitted without the sample's fold."""
    row = np.empty((data.n_samples, data.n_classes))
    for fold in range(N_FOLDS):
        here = data.folds == fold
        row[here] = np.log(_table(data, i, fold))[data.codes[here, i]]
    return row


def _linear_row(data: Data, i: int, parents: list[int], source: str, *, by_class: bool) -> Floats:
    """Return the log row of the table plus the change of log density by the parents."""
    row = _table_row(data, i)
    for fold in range(N_FOLDS):
        means, covariances, sizes = _class_moments(data, [*parents, i], data.folds != fold)
        n = sizes.sum()
        shared = sum(size * s for size, s in zip(sizes, covariances, strict=True)) / n
        here = (data.folds == fold) & ~data.missing[:, i]
        x, x_parents = data.numbers[here, i], data.numbers[here][:, parents]
        for c in range(data.n_classes):
            if by_class:
                total = sizes[c] + SHRINKAGE
                s = (sizes[c] * covariances[c] + SHRINKAGE * shared) / total
                left, own = total - 1, sizes[c] / total
            else:
                s, total, left, own = shared, n, n - data.n_classes, 1.0
            s_uu, s_ui, s_ii = s[:-1, :-1], s[:-1, -1], s[-1, -1]
            beta = np.linalg.solve(s_uu + RIDGE * np.eye(len(parents)), s_ui)
            residual = s_ii - 2 * beta @ s_ui + beta @ s_uu @ beta
            scale = _scale(residual * total / max(left - own * len(parents), 1), source)
            own_scale = _scale(s_ii * total / max(left, 1), source)
            alone = x - means[c][-1]
            rest = alone - (x_parents - means[c][:-1]) @ beta
            row[here, c] += (
                np.log(scale / own_scale)
                + _log_density(scale * rest, source)
                - _log_density(own_scale * alone, source)
            )
    return row


def _class_moments(
    data: Data, features: list[int], samples: NDArray[np.bool_]
) -> tuple[list[Floats], list[Floats], Floats]:
    """Return the means, covariances and sizes of the classes in some samples."""
    means, covariances, sizes = [], [], []
    for c in range(data.n_classes):
        x = data.numbers[samples & (data.labels == c)][:, features]
        n = max(len(x), 1)
        mean = x.sum(0) / n
        means.append(mean)
        covariances.append((x - mean).T @ (x - mean) / n)
        sizes.append(len(x) * data.evidence)
    return means, covariances, np.array(sizes, dtype=float)


def _scale(variance: float, source: str) -> float:
    unit = np.pi / np.sqrt(3) if source == "logistic" else 1.0
    return float(min(unit / np.sqrt(max(variance, 1e-12)), LARGEST_WEIGHT))


def _log_density(s: Floats, source: str) -> Floats:
    logistic: Floats = -np.abs(s) - 2 * np.log1p(np.exp(-np.abs(s)))
    gaussian: Floats = -(s**2) / 2
    return logistic if source == "logistic" else gaussian


def _pair_row(data: Data, i: int, u: int) -> Floats:
    """Return log p(x_i|x_u,c), fitted without the sample's fold."""
    row = np.empty((data.n_samples, data.n_classes))
    for fold in range(N_FOLDS):
        here = data.folds == fold
        logs = np.log(_pair_table(data, i, u, fold))
        row[here] = logs[data.codes[here, u], :, data.codes[here, i]]
    return row


def _pair_table(data: Data, i: int, u: int, fold: int) -> Floats:
    """Return the table p(b|a,c) (a, c, b) of a feature and its parent, fitted without a fold."""
    p = _table(data, i, fold)
    counts = np.zeros((data.n_codes[u], data.n_classes, data.n_codes[i]))
    kept = data.folds != fold
    for a, c, b in zip(data.codes[kept, u], data.labels[kept], data.codes[kept, i], strict=True):
        counts[a, c, b] += data.evidence
    n_parent_codes, n_classes, n_codes = counts.shape
    n_prior = n_codes * data.size / data.effective_size(i)
    result = np.empty(counts.shape)
    for a in range(n_parent_codes):
        expected = np.zeros(n_codes)
        for c in range(n_classes):
            expected += counts[a, c].sum() * p[:, c]
        ratio = np.ones(n_codes)
        if expected.sum() > 0:
            weight = n_prior * expected / expected.sum()
            ratio = (counts[a].sum(0) + weight) / (expected + weight)
        for c in range(n_classes):
            guess = p[:, c] * ratio
            guess = guess / guess.sum()
            result[a, c] = (counts[a, c] + n_prior * guess) / (counts[a, c].sum() + n_prior)
    return result


def _coarse_row(data: Data, i: int, parents: tuple[int, ...]) -> Floats:
    """Return log p(x_i|merged codes of parents,c), fitted without the sample's fold.

    The parents are one nominal feature of combinations. The probability of a group of codes is
    that of a pair row, and within a group the probabilities are those of the table.
    """
    most = oracles_lookahead.most_codes(data, 1 + len(parents))
    own = np.array(oracles_lookahead.grouped(data, i, most))
    combined = np.zeros(data.n_samples, int)
    for u in parents:
        combined = 4 * combined + np.array(oracles_lookahead.grouped(data, u, most))
    codes = np.column_stack([own, combined])
    n_codes = codes.max(axis=0) + 1
    merged = Data(
        codes,
        np.zeros((2, n_codes.max())),
        n_codes,
        np.array([True, True]),
        data.labels,
        data.label_values,
        data.rows,
        data.evidence,
    )
    merged.folds = data.folds
    merged.effective_size = lambda _: data.effective_size(i)  # type: ignore[method-assign]
    return _table_row(data, i) + _pair_row(merged, 0, 1) - _table_row(merged, 0)


def _parent_gain(data: Data, i: int, u: int) -> float:
    """Return the gain in log-likelihood of a feature by a parent, within the true classes."""
    difference = _pair_row(data, i, u) - _table_row(data, i)
    return float(difference[np.arange(data.n_samples), data.labels].mean())
