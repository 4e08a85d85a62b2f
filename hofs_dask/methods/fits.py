"""Fit the rows of the criterion `joint`: the models of every candidate within each class.

Rows are cross-fitted: for every fold, each row is fitted to the samples of the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hofs_dask.kernels.rows import LOGISTIC_SD, MAX_W
from hofs_dask.methods.problem import Problem, to_unit_scale

#: The slopes and the scale of a class are shrunk towards values that all classes share. These
#: shared values have the weight of this many samples.
SLOPE_PRIOR = 20.0
#: Ridge term that is added to the variances of standardized parents.
SLOPE_RIDGE = 1e-3
#: Number of Newton steps that fit the tilt of a trend, see `_trends`.
N_TILTS = 4


def without_each_fold(counts: np.ndarray, axis: int) -> np.ndarray:
    """Return, for each fold, the sum of the counts of the other folds; folds are along ``axis``.

    Examples
    --------
    >>> without_each_fold(np.array([1, 2, 4]), 0)
    array([6, 5, 3])
    """
    result: np.ndarray = counts.sum(axis=axis, keepdims=True) - counts
    return result


def fit_tables(problem: Problem) -> np.ndarray:
    """Return p(code | class), fitted for each fold to the other folds.

    The axes are (feature, fold, class, code).

    Notes
    -----
    The table of a class is shrunk towards another table, its target: the deviation from the target
    is multiplied by ``max(0, 1 - freedom / chi2)``. For a numeric feature with three or more codes,
    the target is a trend. This is the table of all classes, tilted so that its mean is the mean of
    the class; the mean of the class has first been shrunk in the same way to the mean of all
    classes. For other features, the target is the table of all classes. There is no tuning
    constant, and the shrinkage vanishes as the number of samples grows. With groups, ``chi2`` is
    divided by the design effect.
    """
    counts = without_each_fold(problem.counts, 1) * problem.evidence
    valid = np.arange(problem.table_width) < problem.n_codes[:, None]
    pooled = counts.sum(axis=2) + np.where(valid, 0.5, 0.0)[:, None]
    pooled = (pooled / pooled.sum(axis=-1, keepdims=True))[:, :, None]
    size = counts.sum(axis=-1, keepdims=True)
    own = (counts + pooled) / (size + 1)
    n_codes, n_trends = problem.n_codes, np.zeros(problem.n_features)
    effect = problem.effective_size / problem.n_effective
    prior = pooled
    ordered = np.flatnonzero(problem.numeric & (n_codes > 2))
    if len(ordered):
        prior = np.broadcast_to(pooled, counts.shape).copy()
        # the standardized numbers are not used, because they depend on the samples of every fold
        values = to_unit_scale(np.nan_to_num(problem.values[ordered]))
        values[np.isnan(problem.numbers[ordered])] = np.nan
        prior[ordered] = _trends(
            counts[ordered], pooled[ordered], values[:, None, None], effect[ordered]
        )
        n_trends[ordered] = 1
    shares = counts / np.where(size > 0, size, 1)
    chi2 = (size * (shares - prior) ** 2 / np.where(prior > 0, prior, 1.0)).sum(axis=(2, 3))
    freedom = ((problem.n_classes - 1) * (n_codes - 1 - n_trends))[:, None]
    kept = _kept(chi2 / effect[:, None], freedom)[..., None, None]
    return np.where(valid[:, None, None], kept * own + (1 - kept) * prior, 1.0)


def _kept(chi2: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    """Return the factor ``max(0, 1 - freedom / chi2)`` by which a deviation is multiplied."""
    result: np.ndarray = np.maximum(1 - freedom / np.maximum(chi2, 1e-9), 0.0)
    return result


def _trends(
    counts: np.ndarray, pooled: np.ndarray, values: np.ndarray, effect: np.ndarray
) -> np.ndarray:
    """Return the table of all classes, tilted to the shrunk mean of each class.

    The result has the same axes as ``counts``.

    Parameters
    ----------
    counts
        Counts (feature, fold, class, code).
    pooled
        Table of all classes, (feature, fold, 1, code).
    values
        The numeric value of each code, (feature, 1, 1, code), NaN for the missing code.
    effect
        The design effect of groups, (feature,).

    Notes
    -----
    A tilted table is proportional to ``p(b) exp(t v_b)``, where ``v_b`` is the value of code b. A
    fixed number of Newton steps finds the ``t`` for which the table has a given mean. The missing
    code gets the mean as its value.
    """
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    weights = pooled * known
    weights = weights / weights.sum(axis=-1, keepdims=True)
    centred = np.where(known, filled - (weights * filled).sum(axis=-1, keepdims=True), 0.0)
    spread = np.sqrt((pooled * centred**2).sum(axis=-1, keepdims=True))
    unit = centred / np.where(spread > 0, spread, 1.0)
    size = counts.sum(axis=-1, keepdims=True)
    mean = (counts * unit).sum(axis=-1, keepdims=True) / np.where(size > 0, size, 1)
    chi2 = (size * mean**2).sum(axis=2, keepdims=True) / effect[:, None, None, None]
    mean = mean * _kept(chi2, counts.shape[2] - 1)
    tilt = np.clip(mean, -1.0, 1.0)
    for _ in range(N_TILTS):
        table = _tilted(pooled, tilt * unit)
        found = (table * unit).sum(axis=-1, keepdims=True)
        variance = (table * (unit - found) ** 2).sum(axis=-1, keepdims=True)
        tilt = tilt + np.clip((mean - found) / np.maximum(variance, 1e-3), -1.0, 1.0)
    return _tilted(pooled, tilt * unit)


def _tilted(table: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    weights = table * np.exp(exponent - exponent.max(axis=-1, keepdims=True))
    result: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return result


def fit_pairs(problem: Problem, pair_counts: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Return p(code | parent code, class), fitted for each fold to the other folds.

    The axes are (feature, fold, class, parent code, code).

    Notes
    -----
    The probabilities are shrunk towards a model in which the parent has the same effect in every
    class. This model has the weight of one independent sample per code. Its probability of code b
    in class c, given the parent code a, is proportional to ``p(b|c)`` times a ratio: the count of a
    and b together, divided by the count that is expected if b depends only on the class.
    """
    counts = (without_each_fold(pair_counts, 1) * problem.evidence).transpose(0, 1, 3, 2, 4)
    n_codes = problem.n_codes
    valid = (np.arange(tables.shape[-1]) < n_codes[:, None])[:, None, None, None]
    prior = (n_codes * (problem.effective_size / problem.n_effective))[:, None, None, None]
    size = counts.sum(axis=-1)
    tables = np.where(valid[:, 0], tables, 0.0)
    expected = np.einsum("ifca,ifcb->ifab", size, tables)
    total = expected.sum(axis=-1, keepdims=True)
    extra = prior * expected / np.where(total > 0, total, 1.0)
    explained = expected + extra
    ratio = (counts.sum(axis=2) + extra) / np.where(explained > 0, explained, 1.0)
    ratio = np.where(explained > 0, ratio, 1.0)
    guess = tables[:, :, :, None] * ratio[:, :, None]
    guess /= guess.sum(axis=-1, keepdims=True)
    result = (counts + prior[..., None] * guess) / (size + prior)[..., None]
    return np.where(valid, result, 1.0)


def parent_gain(pair_counts: np.ndarray, pairs: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Return how much knowing the parent increases the log-likelihood of each feature.

    The axes are (feature, fold). The sum over the folds is the mean over all samples, which is out
    of sample.
    """
    counts = pair_counts.transpose(0, 1, 3, 2, 4)
    gains = np.log(pairs / tables[:, :, :, None])
    sums: np.ndarray = (counts * gains).sum(axis=(2, 3, 4))
    # features without a parent have no counts
    return sums / max(int(counts.sum(axis=(1, 2, 3, 4)).max(initial=0)), 1)


def to_factors(logs: np.ndarray) -> np.ndarray:
    """Return the exponentials of logs (..., class, code), scaled to a maximum of 1 per code.

    Only the ratios between classes matter. All factors are at least exp(-690), so that their logs
    are finite.

    Examples
    --------
    >>> to_factors(np.array([[1000.0], [1000.0 + np.log(2)]])).round(12)
    array([[0.5],
           [1. ]])
    """
    result: np.ndarray = np.exp(np.maximum(logs - logs.max(axis=-2, keepdims=True), -690.0))
    return result


def mean_log(problem: Problem, factors: np.ndarray) -> np.ndarray:
    """Return what each fold contributes to the mean log factor of the true class, (feature, fold).

    The mean over all samples is the sum over the folds. The axes of ``factors`` are (feature, fold,
    class, code).
    """
    result: np.ndarray = np.einsum("ifcb,ifcb->if", problem.counts, np.log(factors))
    return result / problem.total


@dataclass(frozen=True)
class Moments:
    """Means and covariances within classes, computed for each fold from the other folds."""

    size: np.ndarray  # (fold, class) effective number of samples
    mean: np.ndarray  # (feature, fold, class)
    variance: np.ndarray  # (feature, fold, class)
    covariance: np.ndarray  # (pick, feature, fold, class), with the picks of the epoch
    chosen: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem, gram: np.ndarray, chosen: tuple[int, ...]) -> Moments:
        """Return the moments, computed from the counts of the problem and Gram rows of picks."""
        numbers = problem.filled
        size = without_each_fold(problem.class_counts, 0)
        safe = np.maximum(size, 1)
        first = without_each_fold(np.einsum("ifcb,ib->ifc", problem.counts, numbers), 1)
        second = without_each_fold(np.einsum("ifcb,ib->ifc", problem.counts, numbers**2), 1)
        mean = first / safe
        products = without_each_fold(gram, 2) / safe
        covariance = products - mean[None] * mean[list(chosen)][:, None]
        variance = np.maximum(second / safe - mean**2, 0.0)
        return cls(size * problem.evidence, mean, variance, covariance, chosen)


@dataclass(frozen=True)
class LinearRows:
    """The linear rows of every candidate, see `kernels.posterior.add_linear`."""

    # (feature, fold, class, code), the part of log q(x|parents,c) - log q(x|c) that does not depend
    # on the values of the parents
    table: np.ndarray
    slopes: np.ndarray  # (feature, fold, class, parent)
    shifts: np.ndarray  # (feature, fold, class)
    scales: np.ndarray  # (feature, fold, class)


def fit_linear(
    problem: Problem, moments: Moments, parents: np.ndarray, per_class: bool, logistic: bool
) -> LinearRows:
    """Return the linear rows of every candidate on its parents, by least squares within classes.

    Parameters
    ----------
    problem
        The marginal counts and numeric values of all features.
    moments
        The moments of all features within the classes.
    parents
        Positions of each candidate's parents among the picks, (feature, parent), -1 for none.
    per_class
        Whether each class has its own slopes and scale, fitted to moments that are shrunk towards
        those that all classes share. Otherwise all classes have the same slopes and scale.
    logistic
        Whether the density is logistic; otherwise it is Gaussian.
    """
    slopes = np.zeros((*moments.mean.shape, parents.shape[1]))
    alone, freedom = _drawn(moments.variance, moments.size, per_class)
    residual = alone.copy()
    n_parents = (parents >= 0).sum(axis=1)
    keys, groups = np.unique(parents, axis=0, return_inverse=True)
    for g, key in enumerate(keys):
        places = key[key >= 0]
        if len(places) == 0:
            continue
        members = np.flatnonzero(groups.ravel() == g)
        picks = [moments.chosen[place] for place in places]
        between = _drawn(moments.covariance[places][:, picks], moments.size, per_class)[0]
        across = _drawn(moments.covariance[places][:, members], moments.size, per_class)[0]
        between, across = between.transpose(2, 3, 0, 1), across.transpose(2, 3, 0, 1)
        beta = np.linalg.solve(between + SLOPE_RIDGE * np.eye(len(places)), across)
        slopes[members, :, :, : len(places)] = beta.transpose(3, 0, 1, 2)
        fitted = np.einsum("fcpm,fcpq,fcqm->mfc", beta, between, beta)
        residual[members] += fitted - 2 * np.einsum("fcpm,fcpm->mfc", beta, across)
    # correct the variances for the degrees of freedom of the slopes
    n_own = _own_share(moments.size, per_class) * n_parents[:, None, None]
    residual = residual * freedom.total / np.maximum(freedom.left - n_own, 1.0)
    alone = alone * freedom.total / np.maximum(freedom.left, 1.0)
    unit = LOGISTIC_SD if logistic else 1.0
    scales = np.minimum(unit / np.sqrt(np.maximum(residual, 1e-12)), MAX_W)
    own_scales = np.minimum(unit / np.sqrt(np.maximum(alone, 1e-12)), MAX_W)
    shifts = moments.mean.copy()
    for j in range(parents.shape[1]):
        rows = np.flatnonzero(parents[:, j] >= 0)
        means = moments.mean[[moments.chosen[place] for place in parents[rows, j]]]
        shifts[rows] -= slopes[rows, :, :, j] * means
    numbers = problem.numbers[:, None, None, :]
    signal = np.abs(numbers - moments.mean[..., None]) * own_scales[..., None]
    density = -signal - 2 * np.log1p(np.exp(-signal)) if logistic else -0.5 * signal**2
    table = np.log(scales / own_scales)[..., None] - density
    return LinearRows(np.where(np.isnan(numbers), 0.0, table), slopes, shifts, scales)


@dataclass(frozen=True)
class _Freedom:
    total: np.ndarray  # (fold, class) weight of a moment, in samples
    left: np.ndarray  # (fold, class) degrees of freedom after subtracting the means


def _drawn(moment: np.ndarray, size: np.ndarray, per_class: bool) -> tuple[np.ndarray, _Freedom]:
    """Return moments (..., fold, class) that all classes share, and their degrees of freedom.

    If ``per_class`` is true, each class has its own moments, which are shrunk towards the
    shared ones.
    """
    total = size.sum(axis=-1, keepdims=True)
    shared = (moment * size).sum(axis=-1, keepdims=True) / np.where(total > 0, total, 1)
    if not per_class:
        whole = np.broadcast_to(total, size.shape)
        return np.broadcast_to(shared, moment.shape), _Freedom(whole, whole - size.shape[-1])
    weight = size + SLOPE_PRIOR
    return (size * moment + SLOPE_PRIOR * shared) / weight, _Freedom(weight, weight - 1)


def _own_share(size: np.ndarray, per_class: bool) -> np.ndarray:
    """Return the weight that the samples of a class have in the moments of this class.

    The result has the axes (fold, class). It is 1 if all classes share the moments.
    """
    if not per_class:
        return np.ones(size.shape)
    result: np.ndarray = size / (size + SLOPE_PRIOR)
    return result
