"""P-values of tests whether the residuals of a model of the classes depend on a feature.

The null hypothesis is that a feature is independent of the classes and of the picks. The values of
the feature can then be permuted among the samples. The sums of residuals over the samples of each
code therefore have the moments of random permutations, whatever the model is. No test uses the row
of the tested feature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hofs_dask.engine.reduction import N_CLUSTERS
from hofs_dask.methods.problem import Problem

#: Eigenvalues below this fraction of the largest one are treated as zero.
RANK_SHARE = 1e-9


@dataclass(frozen=True)
class Residuals:
    """Sums of residuals over samples.

    The residual of a sample for a class is 1 if the sample has this class and 0 otherwise, minus
    the posterior probability of the class given the picks.
    """

    sums: np.ndarray  # (feature, parent code, code, class)
    # (feature, parent code, class, class) sums of products of the residuals for two classes
    products: np.ndarray
    counts: np.ndarray  # (feature, parent code, code) numbers of samples
    parents: np.ndarray  # (feature,) position of the feature's parent among the picks, -1 for none
    n_parents: int  # number of picks that the parent was chosen from


def marginal_p_values(problem: Problem) -> np.ndarray:
    """Return the p-value of each feature from its marginal counts, regardless of any picks."""
    counts = problem.counts.sum(axis=1)  # (feature, class, code)
    share = problem.class_counts.sum(axis=0) / problem.total
    by_code = counts.sum(axis=1)
    sums = counts.swapaxes(1, 2) - by_code[:, :, None] * share
    products = problem.total * (np.diag(share) - np.outer(share, share))
    n_features = len(counts)
    found = Residuals(
        sums=sums[:, None],
        products=np.broadcast_to(products, (n_features, 1, *products.shape)),
        counts=by_code[:, None],
        parents=np.full(n_features, -1),
        n_parents=0,
    )
    return p_values(problem, found, np.arange(n_features))


def p_values(problem: Problem, found: Residuals, features: np.ndarray) -> np.ndarray:
    """Return the p-values of the features at these positions; 1 for a constant feature.

    Notes
    -----
    There are N samples, B codes and C classes. Let u_b be the vector of the sums of centred
    residuals over the n_b samples of code b, and S the sum over all samples of the products of
    centred residuals. Under random permutations, ``(N - 1) sum_b u_b' S^- u_b / n_b`` has the mean
    (B - 1)(C - 1), and its distribution is nearly chi-square. If the codes are ordered, this
    statistic is split into a trend along the values of the codes, and the rest. The two parts are
    independent, so ``1 - (1 - p)^2`` is uniform, where p is the smaller of their two p-values.

    If a feature interacts with a pick, all its u_b may be zero. A second statistic is therefore
    computed for a feature with a parent, which is one of the picks: the same statistic within each
    code of the parent, summed over these codes. Its p-value is multiplied by the number of picks
    that the parent was chosen from, and combined with the first p-value in the same way.

    With groups, a statistic is divided by the design effect. It is then compared with an F
    distribution, whose denominator has as many degrees of freedom as there are clusters of groups,
    minus one.
    """
    sums, counts = found.sums[features], found.counts[features]
    parents = found.parents[features]
    if not len(features):
        return np.ones(0)
    together, sizes = sums.sum(axis=1), counts.sum(axis=1)
    whole = _Test.of(together, found.products[features[0]].sum(axis=0), sizes)
    trend = _of_trend(whole, problem.filled[features], together, sizes)
    rest = np.maximum(whole.statistic - trend, 0.0)
    rank = np.full(len(features), float(whole.rank))

    def tail(statistic: np.ndarray, freedom: np.ndarray, some: np.ndarray) -> np.ndarray:
        return _tail(problem, statistic, freedom, features[some])

    everyone = np.arange(len(features))
    smaller = np.minimum(
        tail(trend, rank, everyone), tail(rest, whole.freedom - whole.rank, everyone)
    )
    ordered = problem.numeric[features] & (whole.freedom > whole.rank)
    overall = tail(whole.statistic, whole.freedom, everyone)
    result = np.where(ordered, _first_of_two(smaller), overall)
    for parent in np.unique(parents[parents >= 0]):
        some = np.flatnonzero(parents == parent)
        total, freedom = np.zeros((2, len(some)))
        for code, products in enumerate(found.products[features[some[0]]]):
            part = _Test.of(sums[some, code], products, counts[some, code])
            total, freedom = total + part.statistic, freedom + part.freedom
        within = np.minimum(found.n_parents * tail(total, freedom, some), 1.0)
        result[some] = _first_of_two(np.minimum(result[some], within))
    return result


@dataclass(frozen=True)
class _Test:
    """The test statistics of features, which have the same samples and residuals."""

    statistic: np.ndarray  # (feature,)
    freedom: np.ndarray  # (feature,) degrees of freedom
    rank: int  # number of linearly independent residuals of a sample
    inverse: np.ndarray  # (class, class) the pseudoinverse of S, times N - 1

    @classmethod
    def of(cls, sums: np.ndarray, products: np.ndarray, counts: np.ndarray) -> _Test:
        """Return the test for sums of residuals, (feature, code, class).

        ``counts`` (feature, code) are numbers of samples. ``products`` (class, class) are the sums
        over all samples of the products of residuals.
        """
        n_samples = int(counts[0].sum())
        mean = sums[0].sum(axis=0) / max(n_samples, 1)
        values, vectors = np.linalg.eigh(products - n_samples * np.outer(mean, mean))
        # residuals of a perfect model are zero up to rounding
        kept = values > RANK_SHARE * max(values.max(), RANK_SHARE * n_samples)
        chosen = vectors[:, kept]
        inverse = (n_samples - 1) * (chosen / values[kept]) @ chosen.T
        centred = sums - counts[..., None] * mean
        lengths = np.einsum("ibc,cd,ibd->ib", centred, inverse, centred)
        statistic = (lengths / np.maximum(counts, 1)).sum(axis=1)
        rank = int(kept.sum())
        n_codes = (counts > 0).sum(axis=1)
        return cls(statistic, np.maximum(n_codes - 1.0, 0.0) * rank, rank, inverse)


def _of_trend(whole: _Test, values: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the part of the statistic that is a trend in the values of the codes, (feature,)."""
    total = counts.sum(axis=1, keepdims=True)
    values = values - (counts * values).sum(axis=1, keepdims=True) / total
    slope = np.einsum("ib,ibc->ic", values, sums)
    spread = (counts * values**2).sum(axis=1)
    length = np.einsum("ic,cd,id->i", slope, whole.inverse, slope)
    result: np.ndarray = np.where(spread > 0, length / np.where(spread > 0, spread, 1.0), 0.0)
    return result


def _first_of_two(smaller: np.ndarray) -> np.ndarray:
    """Return the p-value of the smaller of two independent p-values."""
    result: np.ndarray = smaller * (2 - smaller)
    return result


def _tail(
    problem: Problem,
    statistic: np.ndarray,
    freedom: np.ndarray,
    features: np.ndarray,
) -> np.ndarray:
    """Return the probability of a larger statistic by chance; 1 for zero degrees of freedom."""
    from scipy.stats import chi2, f

    safe = np.maximum(freedom, 1.0)
    # counts are sums of weights, which exceed the effective number of samples
    statistic = statistic * (problem.n_effective[features] / problem.total)
    if problem.n_groups is None:
        tail = chi2.sf(statistic, safe)
    else:
        n_clusters = min(problem.n_groups, N_CLUSTERS)
        tail = f.sf(statistic / safe, safe, n_clusters - 1)
    result: np.ndarray = np.where(freedom > 0, tail, 1.0)
    return result


def conditional_p_values(problem: Problem, conditional: np.ndarray, picks: list[int]) -> np.ndarray:
    """Return the p-value of every feature, the largest over the picks, (feature,).

    For each pick x_j, a G-test tests whether I(x_i : y | x_j) is zero.

    Parameters
    ----------
    problem
        The data.
    conditional
        I(x_i : y | x_j) in nats, (pick, feature).
    picks
        The positions of the picks x_j among all features.
    """
    occupied = (problem.counts.sum(axis=(1, 2)) > 0).sum(axis=1)
    freedom = (occupied - 1) * (problem.n_classes - 1.0)
    statistics = 2 * problem.total * conditional
    tails = [
        _tail(problem, statistic, freedom * occupied[pick], np.arange(problem.n_features))
        for statistic, pick in zip(statistics, picks, strict=True)
    ]
    result: np.ndarray = np.max(tails, axis=0)
    return result
