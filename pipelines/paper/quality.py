"""Quality of the incremental ICA: correlation of signals and balance of entropies."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import dask
import numpy as np

import hofs_dask as hd
from hofs_dask.engine.counts import MARGINAL_COUNTS, MarginalContext
from hofs_dask.engine.reduction import Request
from hofs_dask.engine.scanning import run
from hofs_dask.kernels.rows import (
    MAX_STEPS,
    Newton,
    gaussian_entropy,
    least_squares,
    logistic_start,
)
from hofs_dask.search.rounds import describe
from hofs_dask.store.codes import read_codes
from pipelines.paper.data import DataSet
from pipelines.paper.protocol import MOST, TOP_ARAE, TOP_INFORMATION, Ranking

#: The criterion of the paper, and the default.
METHOD, DEFAULT = hd.HOFS(criterion="sum"), hd.HOFS()
#: With fewer samples per cell than this, the distribution of classes in a cell is unreliable.
FEW_SAMPLES = 10


def quality(data: DataSet, chosen: Ranking, by_default: Ranking) -> dict[str, Any]:
    """Return the quality of the ICA rows of the paper's criterion on a data set, as plain numbers.

    Parameters
    ----------
    data
        The data set.
    chosen
        Ranking by the criterion of the paper, `METHOD`.
    by_default
        Ranking by the default criterion, `DEFAULT`.

    Returns
    -------
    dict
        ``features``, ``signals``: the mean absolute Pearson correlation of two features of one
        subset, and of their signals, for the first 11, the first 30 and all selected features;
        None if no subset has two features. ``within``: the same for the signals in the subsets of
        the default, whose rows are least squares within classes. ``subsets``: size, samples per
        occupied cell, and three variants of R_balance of each subset. ``bare``: the same for an
        empty subset.

    Notes
    -----
    ``R_balance = [H(X_j, y) - H(X_j)] / [H(s_y) + log a_yy]`` of a subset X_j. Numerator and
    denominator are the entropy of the class given the subset: computed from counts of occupied
    cells, and from the ICA rows of the class.
    ``column``: the class is one column of the numbers 0, 1, 2, ..., as in the paper.
    ``indicators``: 0/1 columns of all classes except the rarest, as in the package. ``gaussian``:
    one column with a gaussian instead of a logistic signal.
    """
    codes, numbers = _encoded(data)
    before = _members_before(chosen)
    signals = {i: solve_row(numbers[i], numbers[earlier])[0] for i, earlier in before.items()}
    centred = numbers - _class_means(numbers, data.y)
    # the default models categories by tables
    default = {
        i: [j for j in earlier if not data.nominal[j]]
        for i, earlier in _members_before(by_default).items()
        if not data.nominal[i]
    }
    within = {i: _residual(centred[i], centred[earlier]) for i, earlier in default.items()}
    subsets: dict[int, list[int]] = {}
    for feature, subset in zip(chosen["features"], chosen["subsets"], strict=True):
        subsets.setdefault(subset, []).append(feature)
    return {
        "features": _mean_correlations(before, numbers),
        "signals": _mean_correlations(before, signals),
        "within": _mean_correlations(default, within),
        "subsets": [
            _balance(codes[members], numbers[members], data.y) for members in subsets.values()
        ],
        "bare": _balance(codes[:0], numbers[:0], data.y),
    }


def solve_row(target: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the signal of the ICA row of a column, and its cross-entropy ``H(s) + log a``.

    Parameters
    ----------
    target
        A standardised column (sample,).
    given
        The columns before the target, (column, sample).

    Examples
    --------
    >>> target = np.array([-1.0, 1.0, -1.0, 1.0])
    >>> signal, value = solve_row(target, np.zeros((0, 4)))
    >>> bool(np.allclose(signal, -signal[::-1])), round(value, 3)
    (True, 1.497)
    """
    columns = np.vstack([target, -np.ones_like(target), -given])
    newton = Newton.start(logistic_start(columns @ columns.T / len(target))[None])
    for _ in range(MAX_STEPS):
        if newton.done:
            break
        signal = newton.trial[0] @ columns
        size, slope = np.abs(signal), np.tanh(signal / 2)
        value = np.mean(size + 2 * np.log1p(np.exp(-size)))
        gradient = columns @ slope / len(target)
        hessian = (columns * ((1 - slope**2) / 2)) @ columns.T / len(target)
        newton = newton.advance(value[None], gradient[None], hessian[None])
    return newton.best[0] @ columns, float(newton.value[0])


def _members_before(chosen: Ranking) -> dict[int, list[int]]:
    """Return, for each feature by rank, the members of its subset that were chosen before it."""
    subsets: dict[int, list[int]] = {}
    found = {}
    for feature, subset in zip(chosen["features"], chosen["subsets"], strict=True):
        members = subsets.setdefault(subset, [])
        found[feature] = members.copy()
        members.append(feature)
    return found


def _mean_correlations(before: dict[int, list[int]], columns: Any) -> dict[str, float | None]:
    """Return the mean absolute correlation of two columns of one subset.

    The result has one entry per number of selected features, as text; see `quality`.
    """
    found = [
        (rank, _correlation(columns[i], columns[j]))
        for rank, (i, earlier) in enumerate(before.items())
        for j in earlier
    ]
    return {
        str(count): _mean([value for rank, value in found if rank < count])
        for count in (TOP_INFORMATION, TOP_ARAE, MOST)
    }


def _class_means(numbers: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the mean of each feature in the class of each sample, (feature, sample)."""
    return np.stack([np.bincount(y, column) / np.bincount(y) for column in numbers])[:, y]


def _residual(target: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return the residual of a column (sample,) after regression on others (column, sample)."""
    slopes = np.linalg.lstsq(given.T, target, rcond=None)[0]
    left: np.ndarray = target - slopes @ given
    return left


def _encoded(data: DataSet) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of all features and their numeric values, (feature, sample)."""
    nominal = [f"x{column}" for column in np.flatnonzero(data.nominal)]
    with dask.config.set(scheduler="synchronous"), TemporaryDirectory() as folder:
        store = hd.encode(data.x, data.y, f"{folder}/codes", nominal=nominal, target_kind="class")
        context = MarginalContext(data.n_classes, int(store.n_codes.max()))
        (total,) = run(store, [Request(MARGINAL_COUNTS, context)])
        codes = read_codes(store, slice(0, data.n_features), slice(0, data.n_samples))
    numbers = np.take_along_axis(describe(store, total["counts"]).filled, codes.astype(np.intp), 1)
    return codes, numbers


def _balance(codes: np.ndarray, numbers: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return R_balance, the size and the samples per cell of a subset (feature, sample)."""
    cells, joint = _cells(codes), _cells(np.vstack([codes, y.astype(np.uint8)[None]]))
    counted = _entropy(joint) - _entropy(cells)
    frequent = np.argsort(-np.bincount(y), kind="stable")[:-1]
    column = y.astype(np.float64)
    rest = np.vstack([column, -np.ones_like(column), -numbers])
    variance = least_squares(rest @ rest.T / len(y))[1]
    return {
        "size": len(codes),
        "samples": len(y) / len(cells),
        "column": counted / _row_entropy(column[None], numbers),
        "indicators": counted / _row_entropy((y == frequent[:, None]).astype(np.float64), numbers),
        "gaussian": counted / float(gaussian_entropy(variance)),
    }


def _row_entropy(labels: np.ndarray, given: np.ndarray) -> float:
    """Return the entropy of the label columns given other columns, from one ICA row per column.

    The entropy is in the units of the label columns, before they are standardised.
    """
    total = 0.0
    for column in labels:
        spread = float(column.std())
        scaled = (column - column.mean()) / spread
        total += solve_row(scaled, given)[1] + float(np.log(spread))
        given = np.vstack([given, scaled])
    return total


def _cells(codes: np.ndarray) -> np.ndarray:
    """Return the number of samples in every occupied cell."""
    if not len(codes):
        return np.array([codes.shape[1]])
    counts: np.ndarray = np.unique(codes, axis=1, return_counts=True)[1]
    return counts


def _entropy(counts: np.ndarray) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return the absolute Pearson correlation of two columns."""
    return abs(float(np.corrcoef(one, other)[0, 1]))


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
