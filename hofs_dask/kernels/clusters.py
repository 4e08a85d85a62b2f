"""The design effect of dependent samples, from counts of clusters of samples."""

from __future__ import annotations

import numpy as np


def design_effect(counts: np.ndarray, n_groups: int) -> np.ndarray:
    """Return the factor by which dependent samples inflate the variance of counts, per feature.

    The effective number of samples is the number of samples divided by this factor.

    Parameters
    ----------
    counts
        Counts (feature, cluster, class, code). A cluster contains one group or more, and each
        group is in one cluster.
    n_groups
        Number of groups. Samples of different groups are independent.

    Notes
    -----
    This is the factor of Moulton (1986), ``1 + (m - 1) r_x r_y`` for groups of m samples. For two
    samples of a group, r_x is the correlation of the feature and r_y the correlation of the class.
    r_x is computed within classes, so that the factor is 1 for a feature that depends on the group
    only through the class. Codes and classes are represented by indicator variables, each weighted
    by the inverse of its frequency. If the ranks of the codes have a larger correlation, r_x is
    that of the ranks: most of what noise seems to tell is then a trend. The factor is at least 1.

    A large group determines the mean of its class to a great extent, so that its samples are close
    to this mean. The sums of products over pairs are therefore divided by what is expected of them
    if all samples of a group are equal. r_x is the larger of two averages over the groups: weighted
    by samples, which is precise if all groups have the same r_x, and weighted by what the classes
    of a group contribute to r_y.

    Examples
    --------
    Forty groups, each with eight equal samples:

    >>> rng = np.random.default_rng(0)
    >>> counts = np.zeros((1, 40, 2, 2), int)
    >>> counts[0, np.arange(40), rng.permutation(40) % 2, rng.permutation(40) % 2] = 8
    >>> design_effect(counts, 40).round(1)
    array([8.])
    """
    if not len(counts):
        return np.ones(0)
    n = counts.astype(np.float64)
    of_class = n[0].sum(axis=-1)  # (cluster, class), the same for every feature
    size, total = of_class.sum(axis=1), of_class.sum()
    share = of_class.sum(axis=0) / total
    squares_of_sums, spread_of_labels = _sums(of_class, share)
    labels = squares_of_sums - spread_of_labels
    products = _of_indicators(n, of_class), _of_ranks(n, of_class)
    # two samples of a cluster that are in different groups are uncorrelated
    per_cluster = max(n_groups / max(int((size > 0).sum()), 1), 1.0)
    n_pairs = np.maximum(size * (size - 1), 1.0) / per_cluster
    pairs, left = _if_equal(of_class)
    pairs = pairs / per_cluster
    correlation = np.zeros(len(n))
    for codes, squares in products:
        spread = squares / total
        for each in (size, labels):
            expected = float(pairs @ (each / n_pairs))
            if expected <= 0:
                continue
            between = np.maximum(codes @ (each / n_pairs) / expected, 0.0)
            variance = spread + between * (1 - left)
            ratio = between / np.where(variance > 0, variance, 1.0)
            correlation = np.maximum(correlation, np.minimum(ratio, 1.0))
        if not (pairs > 0).any():  # nothing is known about pairs: as if all samples were equal
            correlation[spread > 0] = 1.0
    result: np.ndarray = 1 + correlation * max(float(labels.sum() / spread_of_labels.sum()), 0.0)
    return result


def _of_indicators(n: np.ndarray, of_class: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sums over pairs and sums of squares of code indicators minus their class means.

    The axes are (feature, cluster) and (feature,). Indicators are weighted by 1 / frequency.
    """
    within = n.sum(axis=1) / np.maximum(of_class.sum(axis=0)[:, None], 1.0)
    sums = n.sum(axis=2) - np.einsum("gc,icb->igb", of_class, within)
    squares = np.einsum("igcb,icb->igb", n, (1 - within) ** 2)
    squares += np.einsum("igcb,icb->igb", of_class[None, :, :, None] - n, within**2)
    p_code = n.sum(axis=(1, 2)) / of_class.sum()
    weight = 1 / np.where(p_code > 0, p_code, 1.0)
    pairs = np.einsum("igb,ib->ig", sums**2 - squares, weight)
    return pairs, np.einsum("igb,ib->i", squares, weight)


def _of_ranks(n: np.ndarray, of_class: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as `_of_indicators` for the mean rank of each code."""
    of_code = n.sum(axis=(1, 2))
    rank = (np.cumsum(of_code, axis=1) - of_code / 2) / of_class.sum()
    means = np.einsum("igcb,ib->ic", n, rank) / np.maximum(of_class.sum(axis=0), 1.0)
    sums = np.einsum("igcb,ib->ig", n, rank) - means @ of_class.T
    squares = np.einsum("igcb,icb->ig", n, (rank[:, None] - means[:, :, None]) ** 2)
    return sums**2 - squares, squares.sum(axis=1)


def _sums(counts: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared sums of class indicators, and sums of their squares, of each cluster."""
    size, weight = counts.sum(axis=1, keepdims=True), 1 / np.where(share > 0, share, 1.0)
    sums = counts - size * share
    squares = counts * (1 - share) ** 2 + (size - counts) * share**2
    return (sums**2 * weight).sum(axis=1), (squares * weight).sum(axis=1)


def _if_equal(counts: np.ndarray) -> tuple[np.ndarray, float]:
    """Return sums of products over pairs, and a mean square, if samples of a cluster are equal.

    A cluster has a random value with variance 1. Its samples, minus the means of their classes,
    have the expected sum of products over pairs that is returned for each cluster. The mean of
    their expected squares over all samples is returned, too.
    """
    size, of_class = counts.sum(axis=1), counts.sum(axis=0)
    shares = counts / np.maximum(of_class, 1.0)
    products = shares.T @ shares
    squares = (counts * (1 - 2 * shares + np.diag(products))).sum(axis=1)
    sums = size**2 - 2 * size * (counts * shares).sum(axis=1)
    sums += np.einsum("gc,gd,cd->g", counts, counts, products)
    pairs = sums - squares
    return np.where(pairs > 1e-9 * size**2, pairs, 0.0), float(squares.sum() / size.sum())
