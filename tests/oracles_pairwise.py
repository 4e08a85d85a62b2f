"""A slow and simple implementation of the baselines on arrays in memory.

It shares no code with the package. Every information is computed as a mean over samples of the log
of a ratio of counts, never from other informations, so that identities which the package uses are
tested and not assumed.

The criteria are those of Brown et al., Conditional likelihood maximisation (2012), with CMIM in
the form of Fleuret (2004), SPEC_CMI of Nguyen et al. (2014), JMIM and NJMIM of Bennasar et al.
(2015), VMI of Gao et al. (2016), MRI of Wang et al. (2017), CFR and DCSF of Gao et al. (2018).

The criteria of higher order are JMI-3 of Sechidis et al. (2019), RelaxMRMR of Vinh et al. (2016),
HOCMIM of Souza et al. (2022) and CMICOT of Shishkin et al. (2016). From the third pick on, they use
codes that are merged until triples have enough samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

#: Scores closer than this to the best, relative or absolute, are a tie.
TIE, TIE_FLOOR = 1e-9, 1e-12


class Ranking(NamedTuple):
    """The chosen columns in order, and the score of each in its round."""

    indices: list[int]
    scores: list[float]


class Epochs(NamedTuple):
    """A ranking of VMI, whose scores are bounds of the posterior of the epoch."""

    indices: list[int]
    scores: list[float]
    epochs: list[int]


# Information from counts


def alike(*columns: Integers) -> Integers:
    """Return, for each sample, the number of samples with the same values in all columns.

    Examples
    --------
    >>> alike(np.array([0, 0, 0, 1]), np.array([5, 5, 7, 7])).tolist()
    [2, 2, 1, 1]
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        key = key * (int(column.max()) + 1) + column
    return np.bincount(key)[key]


def entropy(*columns: Integers) -> float:
    """Return the joint entropy of columns, in nats.

    Examples
    --------
    >>> a = np.array([0, 0, 1, 1])
    >>> entropy(a) / math.log(2), entropy(a, np.array([0, 1, 0, 1])) / math.log(2)
    (1.0, 2.0)
    """
    return float(-np.log(alike(*columns) / len(columns[0])).mean())


def information(a: Sequence[Integers], b: Sequence[Integers]) -> float:
    """Return I(a : b) of two groups of columns, in nats.

    Examples
    --------
    >>> a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> information([a], [a ^ b]), information([a, b], [a ^ b]) / math.log(2)
    (0.0, 1.0)
    """
    n = len(a[0])
    return float(np.log(n * alike(*a, *b) / (alike(*a) * alike(*b))).mean())


def conditional(a: Integers, b: Integers, given: Integers) -> float:
    """Return I(a : b | given), in nats.

    Examples
    --------
    >>> a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> conditional(a, b, a ^ b) / math.log(2)
    1.0
    """
    shared = alike(a, given) * alike(b, given)
    return float(np.log(alike(a, b, given) * alike(given) / shared).mean())


class Table:
    """The informations of columns of codes and a label, each computed once.

    Examples
    --------
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> table = Table(x, x[:, 0] ^ x[:, 1])
    >>> table.relevance(0), table.joint(0, 1) / math.log(2), table.candidates
    (0.0, 1.0, [0, 1])
    >>> table.entropy(0) / math.log(2)
    1.0
    """

    def __init__(self, x: Integers, y: Integers) -> None:
        self.columns, self.y = [x[:, i] for i in range(x.shape[1])], y
        self.candidates = [i for i, c in enumerate(self.columns) if len(np.unique(c)) > 1]
        self.entropy = cache(self._entropy)
        self.relevance = cache(self._relevance)
        self.between = cache(self._between)
        self.between_in_class = cache(self._between_in_class)
        self.joint = cache(self._joint)
        self.joint_entropy = cache(self._joint_entropy)
        self.given = cache(self._given)

    def _entropy(self, i: int) -> float:
        """Return H(x_i)."""
        return entropy(self.columns[i])

    def _relevance(self, i: int) -> float:
        """Return I(x_i : y)."""
        return information([self.columns[i]], [self.y])

    def _between(self, i: int, j: int) -> float:
        """Return I(x_i : x_j)."""
        return information([self.columns[i]], [self.columns[j]])

    def _between_in_class(self, i: int, j: int) -> float:
        """Return I(x_i : x_j | y)."""
        return conditional(self.columns[i], self.columns[j], self.y)

    def _joint(self, i: int, j: int) -> float:
        """Return I(x_i, x_j : y)."""
        return information([self.columns[i], self.columns[j]], [self.y])

    def _joint_entropy(self, i: int, j: int) -> float:
        """Return H(x_i, x_j, y)."""
        return entropy(self.columns[i], self.columns[j], self.y)

    def _given(self, i: int, j: int) -> float:
        """Return I(x_i : y | x_j)."""
        return conditional(self.columns[i], self.y, self.columns[j])


# Codes of triples


def merged(column: Integers, most: int, missing: int) -> Integers:
    """Return a column with at most ``most`` codes: neighbours are merged by their mean ranks.

    ``missing`` is the code of missing cells. It stays apart if there are at least three codes;
    otherwise it joins the larger group.

    Examples
    --------
    >>> merged(np.array([0, 1, 2, 3, 7]), 2, -1).tolist(), merged(np.array([0, 1, 2, 7]), 3, 7)
    ([0, 0, 1, 1, 1], array([0, 1, 1, 2]))
    """
    if len(np.unique(column)) <= most:
        return np.unique(column, return_inverse=True)[1]
    valid = column != missing
    apart = not valid.all() and most > 2
    values = column[valid]
    ranks = [(values < v).sum() + (values == v).sum() / 2 for v in column]
    groups = np.array([int(rank * (most - apart) // len(values)) for rank in ranks])
    groups[valid] = np.unique(groups[valid], return_inverse=True)[1]
    largest = int(np.bincount(groups[valid]).argmax())
    groups[~valid] = most - 1 if apart else largest
    return np.unique(groups, return_inverse=True)[1]


def merged_table(x: Integers, y: Integers, missing: Sequence[int]) -> Table:
    """Return the table with few codes: a triple of b codes and C classes has 10 samples a cell.

    Examples
    --------
    >>> x = np.repeat(np.arange(16), 100)[:, None]
    >>> len(np.unique(merged_table(x, x[:, 0] % 2, [-1]).columns[0]))
    4
    """
    enough = [b for b in range(2, 9) if 10 * len(np.unique(y)) * b**3 <= len(y)]
    most = max(enough, default=2)
    columns = [merged(x[:, i], most, missing[i]) for i in range(x.shape[1])]
    return Table(np.column_stack(columns), y)


# Criteria: the score of column i given the columns `chosen`, at least one


def _mim(t: Table, i: int, chosen: Sequence[int]) -> float:
    return t.relevance(i)


def _mifs(beta: float) -> Criterion:
    def score(t: Table, i: int, chosen: Sequence[int]) -> float:
        return t.relevance(i) - beta * sum(t.between(i, j) for j in chosen)

    return score


def _mrmr_difference(t: Table, i: int, chosen: Sequence[int]) -> float:
    return t.relevance(i) - sum(t.between(i, j) for j in chosen) / len(chosen)


def _mrmr_quotient(t: Table, i: int, chosen: Sequence[int]) -> float:
    return t.relevance(i) / (sum(t.between(i, j) for j in chosen) / len(chosen))


def _jmi(t: Table, i: int, chosen: Sequence[int]) -> float:
    return sum(t.joint(i, j) for j in chosen)


def _cmim(t: Table, i: int, chosen: Sequence[int]) -> float:
    return min(t.relevance(i), *(t.given(i, j) for j in chosen))


def _spec_cmi(t: Table, i: int, chosen: Sequence[int]) -> float:
    return t.relevance(i) + sum(t.given(i, j) for j in chosen)


def _cife(t: Table, i: int, chosen: Sequence[int]) -> float:
    shared = sum(t.between(i, j) for j in chosen)
    return t.relevance(i) - shared + sum(t.between_in_class(i, j) for j in chosen)


def _icap(t: Table, i: int, chosen: Sequence[int]) -> float:
    surplus = [t.between(i, j) - t.between_in_class(i, j) for j in chosen]
    return t.relevance(i) - sum(max(0.0, s) for s in surplus)


def _disr(t: Table, i: int, chosen: Sequence[int]) -> float:
    return sum(t.joint(i, j) / t.joint_entropy(i, j) for j in chosen)


def _jmim(t: Table, i: int, chosen: Sequence[int]) -> float:
    return min(t.joint(i, j) for j in chosen)


def _cfr(t: Table, i: int, chosen: Sequence[int]) -> float:
    return sum(t.given(i, j) + t.between_in_class(i, j) - t.between(i, j) for j in chosen)


def _dcsf(t: Table, i: int, chosen: Sequence[int]) -> float:
    return sum(t.given(i, j) + t.given(j, i) - t.between(i, j) for j in chosen)


def _mri(t: Table, i: int, chosen: Sequence[int]) -> float:
    change = sum(t.between_in_class(i, j) - t.between(i, j) for j in chosen)
    return t.relevance(i) + 2 / (len(chosen) + 1) * change


def _njmim(t: Table, i: int, chosen: Sequence[int]) -> float:
    return min(t.joint(i, j) / t.joint_entropy(i, j) for j in chosen)


# Criteria of higher order: the score given at least two columns


def _joint_of_three(t: Table, i: int, j: int, k: int) -> float:
    """Return I(x_i, x_j, x_k : y)."""
    return information([t.columns[i], t.columns[j], t.columns[k]], [t.y])


def _given_two(t: Table, i: int, j: int, k: int) -> float:
    """Return I(x_i : y | x_j, x_k)."""
    both = t.columns[j] * (int(t.columns[k].max()) + 1) + t.columns[k]
    return conditional(t.columns[i], t.y, both)


def _jmi3(t: Table, i: int, chosen: Sequence[int]) -> float:
    return sum(_joint_of_three(t, i, j, k) for j, k in combinations(chosen, 2))


def _relax_mrmr(t: Table, i: int, chosen: Sequence[int]) -> float:
    n = len(chosen)
    shared = sum(t.between(i, j) for j in chosen) / n
    in_class = sum(t.between_in_class(i, j) for j in chosen) / n
    triples = sum(
        conditional(t.columns[i], t.columns[k], t.columns[j]) for j, k in permutations(chosen, 2)
    )
    return t.relevance(i) - shared + in_class - triples / (n * (n - 1))


def _hocmim(t: Table, i: int, chosen: Sequence[int]) -> float:
    def redundancy(z: int, before: int | None) -> float:
        """Return I(x_i : z | before) - I(x_i : z | before, y)."""
        a, b = t.columns[i], t.columns[z]
        if before is None:
            return t.between(i, z) - t.between_in_class(i, z)
        w = t.columns[before]
        within = w * (int(t.y.max()) + 1) + t.y
        return conditional(a, b, w) - conditional(a, b, within)

    score, taken = t.relevance(i), []
    for _ in range(min(len(chosen), 3)):
        left = {z: redundancy(z, taken[-1] if taken else None) for z in chosen if z not in taken}
        top = max(left.values())
        taken.append(next(z for z in chosen if left.get(z, -math.inf) > top - TIE_FLOOR))
        score -= left[taken[-1]]
    return score


def _cmicot(t: Table, i: int, chosen: Sequence[int]) -> float:
    def added(h: int, g: int) -> float:
        """Return I(x_i, x_h : y | x_g)."""
        pair = t.columns[i] * (int(t.columns[h].max()) + 1) + t.columns[h]
        return conditional(pair, t.y, t.columns[g])

    return max(min(added(h, g) for g in chosen) for h in chosen)


Criterion = Callable[[Table, int, Sequence[int]], float]

GREEDY: dict[str, Criterion] = {
    "mim": _mim,
    "mrmr difference": _mrmr_difference,
    "mrmr quotient": _mrmr_quotient,
    "jmi": _jmi,
    "cmim": _cmim,
    "spec_cmi greedy": _spec_cmi,
    "cife": _cife,
    "icap": _icap,
    "disr": _disr,
    "jmim": _jmim,
    "cfr": _cfr,
    "dcsf": _dcsf,
    "mri": _mri,
    "njmim": _njmim,
}


#: The criteria for the second pick, and for all later ones.
HIGHER: dict[str, tuple[Criterion, Criterion]] = {
    "jmi3": (_jmi, _jmi3),
    "relax_mrmr": (lambda t, i, chosen: t.given(i, chosen[0]), _relax_mrmr),
    "hocmim": (lambda t, i, chosen: t.given(i, chosen[0]), _hocmim),
    "cmicot": (lambda t, i, chosen: t.given(i, chosen[0]), _cmicot),
}


def select(
    x: Integers,
    y: Integers,
    n_features: int,
    method: str,
    *,
    beta: float = 1.0,
    restart: float = 0.01,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    missing: Sequence[int] | None = None,
) -> Ranking:
    """Return the picks of a method and their scores.

    Parameters
    ----------
    x, y : (n, m), (n,)
        Codes of the cells and of the labels.
    n_features
        Number of columns to choose.
    method
        A key of `GREEDY` or `HIGHER`, or ``"mifs"``, ``"spec_cmi spectral"``, ``"vmi naive"``,
        ``"vmi pairwise"``.
    beta, restart
        The options of MIFS and of VMI.
    include, exclude
        Columns that are chosen first, in this order, and columns that are ignored.
    missing
        The code of missing cells of each column, or -1; used by criteria of higher order.

    Examples
    --------
    >>> x = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1]])
    >>> select(x, x[:, 2], 3, "mim").indices
    [2, 0, 1]
    """
    if method.startswith("vmi "):
        form = method.removeprefix("vmi ")
        found = select_vmi(x, y, n_features, form, restart, include=include, exclude=exclude)
        return Ranking(found.indices, found.scores)
    table = Table(x, y)
    candidates = [i for i in table.candidates if i not in exclude]
    if method == "spec_cmi spectral":
        entries = spectral_entries(table, candidates)

        def score(t: Table, i: int, chosen: Sequence[int]) -> float:
            return entries[i]
    elif method in HIGHER:
        second, later = HIGHER[method]
        few = merged_table(x, y, [-1] * x.shape[1] if missing is None else missing)

        def score(t: Table, i: int, chosen: Sequence[int]) -> float:
            if len(chosen) < 2:
                return second(t, i, chosen) if chosen else t.relevance(i)
            return later(few, i, chosen)
    else:
        criterion = _mifs(beta) if method == "mifs" else GREEDY[method]

        def score(t: Table, i: int, chosen: Sequence[int]) -> float:
            return criterion(t, i, chosen) if chosen else t.relevance(i)

    chosen: list[int] = []
    made: list[float] = []
    for _ in range(n_features):
        scores = {i: score(table, i, chosen) for i in candidates if i not in chosen}
        pick = include[len(chosen)] if len(chosen) < len(include) else best(scores)
        chosen.append(pick)
        made.append(scores[pick])
    return Ranking(chosen, made)


def best(scores: dict[int, float]) -> int:
    """Return the column with the best score; the lowest one in a tie.

    Examples
    --------
    >>> best({3: 0.5, 1: 0.5 - 1e-12, 0: 0.4}), best({1: 0.0, 0: -1e-13}), best({1: 0.0, 0: -1e-9})
    (1, 0, 1)
    """
    top = max(scores.values())
    return min(i for i, s in scores.items() if s >= top - max(TIE * abs(top), TIE_FLOOR))


def spectral_entries(table: Table, candidates: Sequence[int]) -> dict[int, float]:
    """Return the entry of each candidate in the dominant eigenvector of SPEC_CMI's matrix.

    Examples
    --------
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> entries = spectral_entries(Table(x, x[:, 0] ^ x[:, 1]), [0, 1])
    >>> [round(entries[i] * 2**0.5, 9) for i in (0, 1)]
    [1.0, 1.0]
    """
    matrix = np.empty((len(candidates), len(candidates)))
    for a, i in enumerate(candidates):
        for b, j in enumerate(candidates):
            matrix[a, b] = (table.given(i, j) + table.given(j, i)) / 2
        matrix[a, a] = table.relevance(i)
    values, vectors = np.linalg.eigh(matrix)
    dominant = vectors[:, values.argmax()]
    dominant = dominant * np.sign(dominant.sum())
    return {i: float(dominant[a]) for a, i in enumerate(candidates)}


# VMI


def select_vmi(
    x: Integers,
    y: Integers,
    n_features: int,
    form: str = "naive",
    restart: float = 0.01,
    *,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
) -> Epochs:
    """Return the picks of VMI, their bounds, and the number of restarts before each.

    Every sample has a weight log p(c) + sum_t log q(x_t | x_<t, c) for every class, where x_<t are
    the columns chosen since the last restart. The bound is H(y) + the mean of log q(y | x).

    Parameters
    ----------
    x, y, n_features, include, exclude
        As for `select`.
    form
        ``"naive"``: q = p(x_t | c). ``"pairwise"``: the geometric mean of p(x_t | x_i, c) over the
        earlier columns x_i, and p(x_t | c) for the first.
    restart
        The posterior restarts if the gain is below this by more than rounding, except for the
        first column of an epoch.

    Examples
    --------
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> select_vmi(x, x[:, 0] ^ x[:, 1], 2, "naive").epochs
    [0, 1]
    >>> select_vmi(x, x[:, 0] ^ x[:, 1], 2, "pairwise").epochs
    [0, 0]
    """
    n_classes = int(y.max()) + 1
    prior = np.column_stack([np.full(len(y), math.log((y == c).mean())) for c in range(n_classes)])
    candidates = [i for i in Table(x, y).candidates if i not in exclude]
    chosen: list[int] = []
    bounds: list[float] = []
    epochs: list[int] = []
    since: list[int] = []  # the columns of this epoch
    weights, bound, epoch = prior, 0.0, 0
    while len(chosen) < n_features:
        left = [i for i in candidates if i not in chosen]
        new = {i: weights + _log_row(x, y, n_classes, i, since, form) for i in left}
        scores = {i: _bound(new[i], y) for i in left}
        forced = len(chosen) < len(include)
        pick = include[len(chosen)] if forced else best(scores)
        if since and not forced and scores[pick] - bound < restart - TIE_FLOOR:
            weights, bound, epoch, since = prior, 0.0, epoch + 1, []
            continue
        weights, bound = new[pick], scores[pick]
        since.append(pick)
        chosen.append(pick)
        bounds.append(bound)
        epochs.append(epoch)
    return Epochs(chosen, bounds, epochs)


def _log_row(
    x: Integers, y: Integers, n_classes: int, i: int, since: Sequence[int], form: str
) -> Floats:
    """Return log q(x_i | columns of the epoch, c) of every sample and class; -inf if unseen."""
    everyone = np.zeros(len(y), dtype=int)
    if form == "naive" or not since:
        return _log_share(x[:, i], everyone, y, n_classes)
    rows = [_log_share(x[:, i], x[:, j], y, n_classes) for j in since]
    mean: Floats = np.sum(rows, axis=0) / len(since)
    return mean


def _log_share(column: Integers, given: Integers, y: Integers, n_classes: int) -> Floats:
    """Return log p(column | given, c) of every sample and class from counts, without smoothing."""
    result = np.empty((len(y), n_classes))
    for c in range(n_classes):
        counts = np.zeros((given.max() + 1, column.max() + 1))
        np.add.at(counts, (given[y == c], column[y == c]), 1)
        both = counts[given, column]
        # if `given` does not occur in the class, the class already has probability zero
        shares = both / np.maximum(counts.sum(axis=1)[given], 1)
        result[:, c] = np.log(shares, out=np.full(len(y), -np.inf), where=both > 0)
    return result


def _bound(weights: Floats, y: Integers) -> float:
    own = weights[np.arange(len(y)), y]
    return entropy(y) + float((own - logsumexp(weights, axis=1)).mean())


# Statistics of a ranking


def redundancies(x: Integers, indices: Sequence[int]) -> list[float]:
    """Return the mean information of each pick with the earlier ones, 0 for the first.

    Examples
    --------
    >>> x = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]])
    >>> [round(r / math.log(2), 9) for r in redundancies(x, [0, 1, 2])]
    [0.0, 0.0, 0.5]
    """
    result = []
    for rank, i in enumerate(indices):
        shared = [information([x[:, i]], [x[:, j]]) for j in indices[:rank]]
        result.append(sum(shared) / len(shared) if shared else 0.0)
    return result


def gains(x: Integers, y: Integers, indices: Sequence[int]) -> list[float]:
    """Return the gain of each pick of a method without a model.

    For the first it is I(x:y), for each other the minimum of I(x:y|x_j) over earlier picks x_j.

    Examples
    --------
    >>> x = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]])
    >>> found = gains(x, x[:, 0] & x[:, 1], [0, 1, 2])
    >>> [round(v / entropy(x[:, 0] & x[:, 1]), 2) for v in found]
    [0.38, 0.62, 0.0]
    """
    table = Table(x, y)
    return [
        min([table.given(i, j) for j in indices[:rank]] or [table.relevance(i)])
        for rank, i in enumerate(indices)
    ]


def informations(x: Integers, y: Integers, indices: Sequence[int]) -> list[float]:
    """Return the information of the picks up to each rank: the sum of gains, at most H(y).

    Examples
    --------
    >>> x = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]])
    >>> found = informations(x, x[:, 0] & x[:, 1], [0, 1, 2])
    >>> [round(v / entropy(x[:, 0] & x[:, 1]), 2) for v in found]
    [0.38, 1.0, 1.0]
    """
    return np.minimum(np.cumsum(gains(x, y, indices)), entropy(y)).tolist()


def subsets(x: Integers, indices: Sequence[int], threshold: float = 0.2) -> list[int]:
    """Return the subset of each pick: that of the largest mean correlation above the threshold.

    Examples
    --------
    >>> x = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]])
    >>> subsets(x, [0, 1, 2])
    [0, 1, 0]
    """
    result: list[int] = []
    for rank, i in enumerate(indices):
        means = []
        for k in range(max(result, default=-1) + 1):
            members = [j for j, subset in zip(indices[:rank], result, strict=True) if subset == k]
            means.append(np.mean([np.corrcoef(x[:, i], x[:, j])[0, 1] for j in members]))
        joins = means and max(means) > threshold
        result.append(int(np.argmax(means)) if joins else len(means))
    return result
