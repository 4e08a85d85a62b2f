"""The two synthetic models of the paper: results of the criteria and true values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import dask
import numpy as np

import hofs_dask as hd
from hofs_dask.methods.base import Method
from hofs_dask.synthetic import (
    HETEROGENEOUS,
    REPLACED,
    TREE_FEATURES,
    heterogeneous_model,
    tree_information,
    tree_model,
)

#: Methods in the tables: the default, the paper's, its authors' program, a baseline.
METHODS: tuple[Method, ...] = (
    hd.HOFS(),
    hd.HOFS(criterion="sum"),
    hd.HOFS(criterion="mean"),
    hd.VMI(),
)
SEED = 0
#: Number of features in the paper's figure of the heterogeneous model.
N_SHOWN = 14


def tree(n_samples: int = 100_000) -> dict[str, Any]:
    """Return the results for the tree model as plain numbers and names.

    Returns
    -------
    dict
        ``single``: I(x_i:y) from counts, and true values. ``gains``: by method, the gain of each
        feature over the features before it, for x1 to x9 in this order, and the true gains.
        ``subsets`` and ``ranking`` by method. ``covariance`` of the features.
    """
    model = tree_model(n_samples, seed=SEED)
    with dask.config.set(scheduler="synchronous"), TemporaryDirectory() as folder:
        codes = hd.encode(model, "y", f"{folder}/codes", feature_dim="feature")
        free = hd.compare(codes, None, 9, methods=METHODS)
        # included in this order, so that there are no restarts
        asked = hd.compare(codes, None, 9, methods=METHODS, include=TREE_FEATURES)
    known = [tree_information(*TREE_FEATURES[:count]) for count in range(len(TREE_FEATURES) + 1)]
    relevance = free[METHODS[0].label].to_dataset()["relevance"]
    return {
        "single": {
            "truth": [tree_information(feature) for feature in TREE_FEATURES],
            "counts": relevance.values.tolist(),
        },
        "gains": {
            "truth": np.diff(known).tolist(),
            **{label: asked[label].to_dataset()["gain"].values.tolist() for label in asked},
        },
        "subsets": {label: free[label].subsets for label in free},
        "ranking": {label: free[label].features for label in free},
        "covariance": np.cov(model["x"].values, rowvar=False).tolist(),
    }


def heterogeneous() -> dict[str, Any]:
    """Return the results for the heterogeneous model as plain numbers and names.

    Returns
    -------
    dict
        ``subsets`` and ``ranking`` by method. ``information`` of the first features of each
        ranking by method: the value of the method and the true value.
    """
    model = heterogeneous_model(SEED)
    found: dict[str, Any] = {"subsets": {}, "ranking": {}, "information": {}}
    with dask.config.set(scheduler="synchronous"), TemporaryDirectory() as folder:
        for method in METHODS:
            # only the default gets the nominal features; the paper uses categories as numbers
            nominal = model["x"].attrs["nominal"] if method == hd.HOFS() else None
            source = hd.encode(
                model, "y", f"{folder}/{method.label}", feature_dim="feature", nominal=nominal
            )
            free = hd.select(source, None, 20, method=method)
            first = free.features[:N_SHOWN]
            # included in the order of its ranking, so that there are no restarts
            asked = hd.select(source, None, N_SHOWN, method=method, include=first)
            found["subsets"][method.label] = free.subsets
            found["ranking"][method.label] = free.features
            found["information"][method.label] = {
                "seen": asked.to_dataset()["information"].values.tolist(),
                "truth": [heterogeneous_information(first[: k + 1]) for k in range(N_SHOWN)],
            }
    return found


def heterogeneous_information(features: Iterable[str]) -> float:
    """Return I(features : y) of the heterogeneous model in nats, from all combinations of values.

    Notes
    -----
    A sample is from one of ten blocks with equal probability. Given the block, features are
    independent. Of a numeric feature, only the sign depends on the block.

    Examples
    --------
    >>> round(heterogeneous_information(["F1", "F4", "F5"]), 4) == round(float(np.log(5)), 4)
    True
    >>> abs(round(heterogeneous_information(["F16"]), 9))
    0.0
    """
    cells = np.full((len(HETEROGENEOUS), 1), 1 / len(HETEROGENEOUS))
    for feature in features:
        shares = _shares(int(feature.removeprefix("F")))
        cells = (cells[:, :, None] * shares[:, None, :]).reshape(len(cells), -1)
    classes = np.array([row[0] for row in HETEROGENEOUS])
    joint = np.stack([cells[classes == c].sum(axis=0) for c in np.unique(classes)])
    return _entropy(joint.sum(axis=0)) + _entropy(joint.sum(axis=1)) - _entropy(joint)


def _shares(number: int) -> np.ndarray:
    """Return p(value | block) of a feature, (block, value)."""
    if number > 15:
        return np.ones((len(HETEROGENEOUS), 1))  # noise: one value for all
    values = [row[number if number <= 10 else number - 10] for row in HETEROGENEOUS]
    names = sorted(set(values), key=str)
    exact = np.array([[float(value == name) for name in names] for value in values])
    if number <= 10:
        return exact
    n_samples = 100 * len(HETEROGENEOUS)
    if number <= 13:
        share = REPLACED / n_samples
        replaced: np.ndarray = (1 - share) * exact + share / len(names)
        return replaced
    # some negative values became positive
    negative = exact[:, [names.index("-")]]
    turned = REPLACED / (100 * negative.sum())
    sign: np.ndarray = np.where(np.array(names) == "+", 1.0, -1.0)
    shares: np.ndarray = exact + turned * negative * sign
    return shares


def _entropy(shares: np.ndarray) -> float:
    positive = shares[shares > 1e-15]
    return float(-(positive * np.log(positive)).sum())


def mean_difference(found: Sequence[float], truth: Sequence[float]) -> float:
    """Return the mean absolute difference of two lists.

    Examples
    --------
    >>> mean_difference([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    return float(np.abs(np.array(found) - np.array(truth)).mean())
