"""Gains from counts against gains computed sample by sample."""

import numpy as np
import pytest
from scipy.special import logsumexp

from hofs_dask.engine.posteriors import GROUPS, KINDS, CandidateRows, CoarseRow
from hofs_dask.methods import gains
from hofs_dask.methods.gains import gains_on_counts

N, M, F, B = 300, 5, 4, 3


def draw(n_classes, n_picks):
    """Return samples, and rows of every kind for each feature; the last has no parents."""
    rng = np.random.default_rng(0)
    codes, pick = rng.integers(0, B, (M, N)), rng.integers(0, B if n_picks else 1, N)
    labels, folds = rng.integers(0, n_classes, N), rng.integers(0, F, N)
    width = B if n_picks else 1
    parents, pair_parents = np.zeros((M, n_picks), int), np.ones((M, n_picks), int)
    parents[-1] = pair_parents[-1] = -1
    values = rng.normal(size=(M, B))
    values[:, 0] = np.nan
    coarse = CoarseRow(
        np.zeros(1, int),
        rng.integers(0, GROUPS, (1, B)).astype(np.uint8),
        rng.uniform(0.1, 1.0, (F, n_classes, GROUPS * B)),
    )
    candidates = CandidateRows(
        linear=("shared", "class") if n_picks else (),
        table=rng.uniform(0.1, 1.0, (M, F, n_classes, B)),
        values=values,
        parents=parents,
        linear_table=rng.uniform(0.1, 1.0, (M, 2 * n_picks, F, n_classes, B)),
        slopes=rng.normal(size=(M, 2 * n_picks, F, n_classes, n_picks)),
        shifts=rng.normal(size=(M, 2 * n_picks, F, n_classes)),
        scales=rng.uniform(0.5, 50.0, (M, 2 * n_picks, F, n_classes)),
        pair_parents=pair_parents,
        pair_table=rng.uniform(0.1, 1.0, (M, n_picks, F, n_classes, width * B)),
        coarse=(coarse,) * n_picks,
        coarse_place=np.where(np.arange(M) == 1, n_picks - 1, -1),
        truth=np.zeros((M, len(KINDS), F)),
    )
    posterior = rng.normal(size=(F, n_classes, width))
    return codes, pick, labels, folds, candidates, posterior, rng.normal(size=width)


def count(codes, pick, labels, folds, n_classes, width):
    counts = np.zeros((M, F, width, n_classes, B), int)
    for i in range(M):
        np.add.at(counts[i], (folds, pick, labels, codes[i]), 1)
    return counts


def of_samples(codes, pick, labels, folds, candidates, posterior, numbers, logistic):
    """Return the gain of each kind of row in the mean log posterior of the true class."""
    every = np.arange(N)

    def truth(logs):
        return (logs[every, labels] - logsumexp(logs, axis=1)).mean()

    before, found = posterior[folds, :, pick], np.zeros((M, len(KINDS)))
    for i in range(M):
        added = {"table": np.log(candidates.table[i, folds, :, codes[i]])}
        if candidates.parents.shape[1] and candidates.parents[i, 0] >= 0:
            for place, kind in enumerate(("shared", "class")):
                slopes, shifts, scales = (
                    getattr(candidates, name)[i, place, folds]
                    for name in ("slopes", "shifts", "scales")
                )
                own = candidates.values[i, codes[i]][:, None]
                s = scales * (own - shifts - slopes[..., 0] * numbers[pick][:, None])
                density = -np.abs(s) - 2 * np.log1p(np.exp(-np.abs(s))) if logistic else -(s**2) / 2
                logs = np.log(candidates.linear_table[i, place, folds, :, codes[i]])
                added[kind] = logs + np.where(np.isnan(own), 0.0, density)
            cells = pick * B + codes[i]
            added["pair"] = np.log(candidates.pair_table[i, 0, folds, :, cells])
        if candidates.coarse_place[i] >= 0:
            own = candidates.coarse[0]
            cells = own.groups[0, pick] * B + codes[i]
            added["coarse"] = np.log(own.table[folds, :, cells])
        for kind, logs in added.items():
            found[i, KINDS.index(kind)] = truth(before + logs) - truth(before)
    return found


@pytest.mark.parametrize("block", [1, gains.BLOCK])
@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_picks", [0, 1])
def test_gains_on_counts__agree_with_samples(monkeypatch, n_picks, n_classes, logistic, block):
    monkeypatch.setattr(gains, "BLOCK", block)
    *samples, candidates, posterior, numbers = draw(n_classes, n_picks)
    counts = count(*samples, n_classes, len(numbers))
    found = gains_on_counts(counts, posterior, candidates, numbers, logistic)
    expected = of_samples(*samples, candidates, posterior, numbers, logistic)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    assert (expected != 0).sum() == M + (3 * (M - 1) + 1) * n_picks
