"""Gains of rows, computed from counts without a scan, if the epoch has at most one pick.

Samples with equal codes have equal posteriors. There are few cells, that is, combinations of a code
of the pick and a code of a candidate. The samples of each fold and class in each cell have already
been counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hofs_dask.engine.posteriors import KINDS, CandidateRows
from hofs_dask.kernels.gains import gains

#: Candidates are processed in blocks with about this many counts.
BLOCK = 2**18


def gains_on_counts(
    counts: np.ndarray,
    posterior: np.ndarray,
    candidates: CandidateRows,
    numbers: np.ndarray,
    logistic: bool,
) -> np.ndarray:
    """Return the gains (feature, kind) that the reduction `POSTERIOR_GAINS` would return.

    Parameters
    ----------
    counts
        Counts (feature, fold, code of the pick, class, code). Without a pick, the third axis has
        length 1.
    posterior
        Log probabilities of the current posterior, (fold, class, code of the pick), not normalized.
    candidates
        The rows of every candidate.
    numbers
        The numeric value of each code of the pick. Without a pick, an array of length 1.
    logistic
        Whether the density of linear rows is logistic; otherwise it is Gaussian.
    """
    n_features = len(counts)
    n_samples = int(counts[0].sum())
    posterior = posterior - np.logaddexp.reduce(posterior, axis=1)[:, None]
    before = posterior.transpose(0, 2, 1)[None, :, :, :, None]  # (1, fold, pick, class, 1)
    gain = np.zeros((n_features, len(KINDS)))
    step = max(1, BLOCK // counts[0].size)
    for start in range(0, n_features, step):
        some = slice(start, start + step)
        n = counts[some].astype(np.float64)
        for kind, logs in _rows(candidates.take(some), numbers, logistic):
            found = (n * gains(before, logs, axis=3)).sum(axis=(1, 2, 3, 4))
            gain[some, KINDS.index(kind)] = found / n_samples
    return np.where(candidates.possible, gain, 0.0)


def _rows(
    rows: CandidateRows, numbers: np.ndarray, logistic: bool
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each kind of row and its log factors.

    The axes of the log factors are (feature, fold, code of the pick, class, code).
    """
    yield "table", np.log(rows.table)[:, :, None]
    for place, kind in enumerate(rows.linear):
        slopes, shifts, scales = (
            array[:, place][:, :, None] for array in (rows.slopes, rows.shifts, rows.scales)
        )
        # (feature, fold, code of the pick, class): the part of the signal that depends on the pick
        centre = shifts + slopes[..., 0] * numbers[:, None]
        values = rows.values[:, None, None, None]
        signal = np.abs(scales[..., None] * (values - centre[..., None]))
        density = -signal - 2 * np.log1p(np.exp(-signal)) if logistic else -0.5 * signal**2
        density = np.where(np.isnan(values), 0.0, density)
        yield kind, np.log(rows.linear_table[:, place])[:, :, None] + density
    with_coarse = np.flatnonzero(rows.coarse_place >= 0)
    if len(with_coarse):
        n_folds, n_classes, n_codes = rows.table.shape[1:]
        logs = np.zeros((len(rows.table), n_folds, len(numbers), n_classes, n_codes))
        for i in with_coarse:
            own = rows.coarse[rows.coarse_place[i]]
            tables = np.log(own.table).reshape(n_folds, n_classes, -1, n_codes)
            logs[i] = tables[:, :, own.groups[0]].transpose(0, 2, 1, 3)
        yield "coarse", logs
    if rows.pair_parents.shape[1]:
        m, _, n_folds, n_classes, _ = rows.pair_table.shape
        tables = rows.pair_table.reshape(m, n_folds, n_classes, len(numbers), -1)
        yield "pair", np.log(tables).transpose(0, 1, 3, 2, 4)
