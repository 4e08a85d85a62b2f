"""Synthetic data with known answers: two experiments of the paper, and the exclusive or."""

from __future__ import annotations

import math
from collections.abc import Callable

import dask.array as da
import numpy as np
import xarray as xr
from dask.array.core import normalize_chunks
from dask.delayed import delayed
from numpy.typing import NDArray
from scipy.integrate import quad

__all__ = ["heterogeneous_model", "tree_information", "tree_model", "xor_model"]

# Number of samples that are drawn with one seed. It is fixed, so that values do not depend on the
# chunks or on n_samples.
BLOCK = 8192

# Means of x1, x2, x3 in the class y = 1. For each of these features, two of x4 to x9 are this
# feature plus an error.
MEANS = (1.0, 1 / 1.5, 1 / 2.25)
PARENTS = (0, 0, 1, 1, 2, 2)
TREE_FEATURES = tuple(f"x{number}" for number in range(1, 10))

# One row per 100 samples: the class, then F1 to F10. A sign stands for a half-normal value with
# this sign.
HETEROGENEOUS = (
    (1, 1, 0, 0, "-", "-", 1, 0, 0, "-", "-"),
    (1, 1, 0, 0, "-", "-", 1, 1, 0, "-", "-"),
    (2, 2, 1, 0, "-", "-", 1, 1, 0, "-", "-"),
    (2, 2, 1, 0, "-", "-", 1, 1, 1, "-", "-"),
    (3, 0, 0, 1, "-", "-", 0, 1, 1, "-", "-"),
    (3, 0, 0, 1, "-", "-", 0, 0, 1, "+", "-"),
    (4, 0, 0, 0, "+", "-", 0, 0, 1, "+", "-"),
    (4, 0, 0, 0, "+", "-", 0, 0, 0, "+", "+"),
    (5, 0, 0, 0, "+", "+", 0, 0, 0, "+", "+"),
    (5, 0, 0, 0, "+", "+", 0, 0, 0, "+", "+"),
)
REPLACED = 200
HETEROGENEOUS_NOMINAL = (1, 2, 3, 6, 7, 8, 11, 12, 13, 16, 17, 18)


def tree_model(n_samples: int = 100_000, *, seed: int = 0, chunks: int | None = None) -> xr.Dataset:
    """Return samples of the tree model: nine Gaussian features that depend on a binary label.

    Parameters
    ----------
    n_samples : int
        Number of samples. The first samples do not depend on this number.
    seed : int
        Random seed.
    chunks : int, optional
        Samples per chunk. If given, the variables are Dask arrays with the same values.

    Returns
    -------
    xarray.Dataset
        `x` (sample, feature), features x1 to x9, and the label `y` (sample).

    Notes
    -----
    ``y`` is 0 or 1 with equal probability. ``x1 = y + e``, ``x2 = y/1.5 + e``,
    ``x3 = y/2.25 + e``; x4 and x5 are ``x1 + e``, x6 and x7 ``x2 + e``, x8 and x9 ``x3 + e``.
    Each ``e`` is an independent standard normal variable.

    Examples
    --------
    >>> model = tree_model(1000)
    >>> dict(model.sizes)
    {'sample': 1000, 'feature': 9}
    >>> tree_model(1000, chunks=300)["x"].chunks[0]
    (300, 300, 300, 100)
    """
    if n_samples < 1:
        raise ValueError(f"n_samples is {n_samples}: give 1 or more")
    if chunks is None:
        return _dataset(
            _tree_x(0, n_samples, seed), _tree_y(0, n_samples, seed), list(TREE_FEATURES)
        )
    lengths = normalize_chunks(chunks, shape=(n_samples,))[0]
    x = _lazy(_tree_x, lengths, seed, (len(TREE_FEATURES),), np.dtype(np.float64))
    y = _lazy(_tree_y, lengths, seed, (), np.dtype(np.int64))
    return _dataset(x, y, list(TREE_FEATURES))


def tree_information(*features: str) -> float:
    """Return I(x_i, x_j, ... : y) of features of the tree model, in nats, by numerical integration.

    Parameters
    ----------
    *features : str
        Some of x1 to x9.

    Notes
    -----
    Both classes are Gaussian with the same covariance. If d is the Mahalanobis distance of their
    means and z is a standard normal variable, ``I = log 2 - E[log(1 + exp(d z - d^2 / 2))]``.

    Examples
    --------
    >>> [round(tree_information(f"x{number}"), 3) for number in range(1, 10)]
    [0.111, 0.053, 0.024, 0.059, 0.059, 0.027, 0.027, 0.012, 0.012]
    >>> round(tree_information("x1", "x2", "x3"), 3)
    0.171
    """
    for feature in features:
        if feature not in TREE_FEATURES:
            raise ValueError(f"feature is {feature!r}: give one of {', '.join(TREE_FEATURES)}")
    chosen = [TREE_FEATURES.index(feature) for feature in dict.fromkeys(features)]
    # errors[i, j]: coefficient of error j in feature i
    n_roots = len(MEANS)
    errors = np.eye(len(TREE_FEATURES))
    errors[n_roots:, :n_roots] = np.eye(n_roots)[list(PARENTS)]
    means = errors[:, :n_roots] @ MEANS
    covariance = (errors @ errors.T)[np.ix_(chosen, chosen)]
    distance = math.sqrt(means[chosen] @ np.linalg.solve(covariance, means[chosen]))

    def integrand(z: float) -> float:
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return density * float(np.logaddexp(0.0, distance * z - distance * distance / 2))

    # Beyond twelve standard deviations the density is below 1e-31.
    return math.log(2) - float(quad(integrand, -12, 12, epsabs=1e-12)[0])


def heterogeneous_model(seed: int = 0) -> xr.Dataset:
    """Return 1000 samples, 20 mixed features and 5 classes: the second experiment of the paper.

    Parameters
    ----------
    seed : int
        Random seed.

    Returns
    -------
    xarray.Dataset
        `x` (sample, feature), features F1 to F20, and the label `y` (sample), 1 to 5.
        ``x.attrs["nominal"]`` lists the features whose numbers are categories.

    Notes
    -----
    F1 to F5 describe the classes and F6 to F10 are biased copies of them. F11 to F13 are F1 to F3
    with 200 samples replaced by random categories, F14 and F15 are F4 and F5 with 200 negative
    values replaced by positive ones. F16 to F18 are random categories, F19 and F20 standard normal.

    Examples
    --------
    >>> model = heterogeneous_model()
    >>> dict(model.sizes)
    {'sample': 1000, 'feature': 20}
    >>> bool((model["x"].sel(feature="F4") > 0).sel(sample=model["y"] >= 4).all())
    True
    """
    rng = np.random.default_rng((seed, BLOCK))
    rows = [row for row in HETEROGENEOUS for _ in range(100)]
    columns: dict[str, NDArray[np.float64]] = {}
    for number in range(1, 11):
        cells = [row[number] for row in rows]
        if "-" in cells:
            signs = np.where([cell == "+" for cell in cells], 1.0, -1.0)
            columns[f"F{number}"] = signs * np.abs(rng.standard_normal(len(rows)))
        else:
            columns[f"F{number}"] = np.array(cells, dtype=np.float64)
    for number in (1, 2, 3):
        values = columns[f"F{number}"].copy()
        replaced = rng.choice(len(rows), size=REPLACED, replace=False)
        values[replaced] = rng.choice(np.unique(values), size=REPLACED)
        columns[f"F{number + 10}"] = values
    for number in (4, 5):
        values = columns[f"F{number}"].copy()
        replaced = rng.choice(np.flatnonzero(values < 0), size=REPLACED, replace=False)
        values[replaced] = np.abs(rng.standard_normal(REPLACED))
        columns[f"F{number + 10}"] = values
    for number, n_categories in ((16, 3), (17, 2), (18, 2)):
        columns[f"F{number}"] = rng.integers(n_categories, size=len(rows)).astype(np.float64)
    for number in (19, 20):
        columns[f"F{number}"] = rng.standard_normal(len(rows))
    model = _dataset(
        np.column_stack(list(columns.values())), np.array([row[0] for row in rows]), list(columns)
    )
    model["x"].attrs["nominal"] = [f"F{number}" for number in HETEROGENEOUS_NOMINAL]
    return model


def xor_model(n_samples: int = 1000, *, noise: int = 50, seed: int = 0) -> xr.Dataset:
    """Return samples whose label depends on two features together, but on neither of them alone.

    Parameters
    ----------
    n_samples : int
        Number of samples.
    noise : int
        Number of irrelevant features.
    seed : int
        Random seed.

    Returns
    -------
    xarray.Dataset
        `x` (sample, feature), features x1, x2, the constant x3 and noise1, noise2, ...,
        and the label `y` (sample).

    Notes
    -----
    x1, x2 and the noise are 0 or 1 with equal probability; ``y = 1`` if x1 equals x2.

    Examples
    --------
    >>> model = xor_model(noise=2)
    >>> model["feature"].values.tolist()
    ['x1', 'x2', 'x3', 'noise1', 'noise2']
    >>> x1, x2 = model["x"].sel(feature=["x1", "x2"]).transpose()
    >>> bool(((x1 == x2) == model["y"]).all())
    True
    """
    if n_samples < 1 or noise < 0:
        raise ValueError(
            f"n_samples is {n_samples} and noise {noise}: give n_samples >= 1 and noise >= 0"
        )
    rng = np.random.default_rng(seed)
    coins = rng.integers(2, size=(n_samples, 2 + noise)).astype(np.float64)
    x = np.insert(coins, 2, 0.0, axis=1)
    names = ["x1", "x2", "x3", *(f"noise{number}" for number in range(1, noise + 1))]
    return _dataset(x, (x[:, 0] == x[:, 1]).astype(np.int64), names)


def _dataset(
    x: NDArray[np.float64] | da.Array, y: NDArray[np.int64] | da.Array, names: list[str]
) -> xr.Dataset:
    # Names as objects: Zarr v3 has no specification of fixed-length text and warns about it.
    # https://github.com/zarr-developers/zarr-extensions/tree/main/data-types
    return xr.Dataset(
        {"x": (("sample", "feature"), x), "y": ("sample", y)},
        coords={"feature": np.array(names, dtype=object)},
    )


def _blocks(start: int, stop: int) -> list[tuple[int, slice]]:
    """Return the index of each block with some of these samples, and the slice of their rows."""
    return [
        (block, slice(max(start - block * BLOCK, 0), min(stop - block * BLOCK, BLOCK)))
        for block in range(start // BLOCK, -(-stop // BLOCK))
    ]


def _coin(rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.integers(2, size=BLOCK)


def _tree_y(start: int, stop: int, seed: int) -> NDArray[np.int64]:
    """Return the labels of the samples from start to stop."""
    return np.concatenate(
        [_coin(np.random.default_rng((seed, block)))[rows] for block, rows in _blocks(start, stop)]
    )


def _tree_x(start: int, stop: int, seed: int) -> NDArray[np.float64]:
    """Return the features of the samples from start to stop."""
    parts = []
    for block, rows in _blocks(start, stop):
        rng = np.random.default_rng((seed, block))
        y = _coin(rng)
        x = rng.standard_normal((BLOCK, len(TREE_FEATURES)))
        x[:, : len(MEANS)] += np.outer(y, MEANS)
        x[:, len(MEANS) :] += x[:, PARENTS]
        parts.append(x[rows])
    return np.concatenate(parts)


def _lazy(
    draw: Callable[[int, int, int], NDArray[np.generic]],
    lengths: tuple[int, ...],
    seed: int,
    width: tuple[int, ...],
    dtype: np.dtype[np.generic],
) -> da.Array:
    """Return a Dask array; each chunk is a task that draws its samples."""
    stops = np.cumsum(lengths).tolist()
    array: da.Array = da.concatenate(
        [
            da.from_delayed(
                delayed(draw, pure=True)(stop - length, stop, seed),
                shape=(length, *width),
                dtype=dtype,
            )
            for length, stop in zip(lengths, stops, strict=True)
        ]
    )
    return array
