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
    by the inverse of its frequency. The factor is at least 1.

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
    n_clusters = int((size > 0).sum())
    share = of_class.sum(axis=0) / total
    labels, spread_of_labels = _pairs(of_class - size[:, None] * share, of_class, share, share)
    p_code = n.sum(axis=(1, 2)) / total
    # (feature, class, code) the share of each code within a class
    within = n.sum(axis=1) / np.maximum(of_class.sum(axis=0)[:, None], 1.0)
    sums = n.sum(axis=2) - np.einsum("gc,icb->igb", of_class, within)
    squares = np.einsum("igcb,icb->igb", n, (1 - within) ** 2)
    squares += np.einsum("igcb,icb->igb", of_class[None, :, :, None] - n, within**2)
    weight = 1 / np.where(p_code > 0, p_code, 1.0)
    codes = np.einsum("igb,ib->ig", sums**2 - squares, weight)
    spread = np.einsum("igb,ib->i", squares, weight)
    # two samples of a cluster that are in different groups are uncorrelated
    n_pairs = np.maximum(size * (size - 1), 1.0) / max(n_groups / max(n_clusters, 1), 1.0)
    scale = spread * spread_of_labels / total
    excess = (codes * labels / n_pairs).sum(axis=1) / np.where(scale > 0, scale, 1.0)
    result: np.ndarray = 1 + np.maximum(np.where(scale > 0, excess, 0.0), 0.0)
    return result


def _pairs(
    sums: np.ndarray, counts: np.ndarray, share: np.ndarray, frequency: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return sums of products over pairs of samples of each cluster, and the sum of squares."""
    squares = counts * (1 - share) ** 2 + (counts.sum(axis=1, keepdims=True) - counts) * share**2
    weight = 1 / np.where(frequency > 0, frequency, 1.0)
    return ((sums**2 - squares) * weight).sum(axis=1), float((squares * weight).sum())
