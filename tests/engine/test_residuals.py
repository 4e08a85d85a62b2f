"""Residuals of a class posterior, compared with a loop over the samples."""

from dataclasses import replace

import numpy as np
import pytest

from hofs_dask.engine.posteriors import CandidateRows, GainsContext, PosteriorRow
from hofs_dask.engine.reduction import N_FOLDS, NO_WEIGHTS, Block, Tile
from hofs_dask.engine.residuals import RESIDUALS

N, M, C, B = 80, 3, 3, 4
rng = np.random.default_rng(2)
TABLE = rng.uniform(0.05, 1.0, size=(N_FOLDS, C, B))
PRIOR = np.array([0.5, 0.3, 0.2])
CODES = rng.integers(0, B, (M, N)).astype(np.uint8)
PICK, LABELS = rng.integers(0, B, N).astype(np.uint8), rng.integers(0, C, N).astype(np.uint8)
FOLDS = rng.integers(0, N_FOLDS, N).astype(np.uint8)
WEIGHTS = rng.integers(1, 6, N).astype(np.uint16)


def find(weights):
    """Return the totals for a posterior of one pick."""
    row = PosteriorRow("table", 0, np.zeros(0, int), np.log(TABLE)[None])
    candidates = replace(
        CandidateRows.empty((M, N_FOLDS, C, B), n_pairs=1),
        pair_parents=np.array([[1], [-1], [1]]),
    )
    context = GainsContext(
        prior=np.log(PRIOR),
        rows=(row,),
        numbers=np.zeros((1, B)),
        logistic=True,
        total=N,
        parts=tuple(range(16)),
        squares=False,
        candidates=candidates,
        wanted=np.ones(M, bool),
    )
    block = Block(Tile.of(CODES), Tile.of(PICK[None]), LABELS, FOLDS, None, weights)
    partial = RESIDUALS.identity(context, M)
    RESIDUALS.chunk(RESIDUALS.prepare(context), block, partial)
    return RESIDUALS.finalize(context, partial)


@pytest.mark.parametrize("weights", [NO_WEIGHTS, WEIGHTS], ids=["equal", "weights"])
def test_residuals__equal_a_loop_over_the_samples(weights):
    """Residuals minus their weighted mean within a predicted class, times weights."""
    weight = weights.astype(float) if len(weights) else np.ones(N)
    adjusted, predicted = np.zeros((N, C)), np.zeros(N, int)
    for s in range(N):
        p = PRIOR * TABLE[FOLDS[s], :, PICK[s]]
        p = p / p.sum()
        adjusted[s] = [(LABELS[s] == c) - p[c] for c in range(C)]
        predicted[s] = np.argmax(p)
    assert len(set(predicted.tolist())) > 1
    for c in set(predicted.tolist()):
        here = predicted == c
        adjusted[here] -= np.average(adjusted[here], axis=0, weights=weight[here])
    adjusted *= weight[:, None]
    sums, products = np.zeros((M, B * B, C)), np.zeros((M, B, C, C))
    for i, has_parent in enumerate((True, False, True)):
        for s in range(N):
            stratum = int(PICK[s]) if has_parent else 0
            sums[i, stratum * B + CODES[i, s]] += adjusted[s]
            products[i, stratum] += np.outer(adjusted[s], adjusted[s])
    found = find(weights)
    np.testing.assert_allclose(found["sums"], sums, atol=1e-12)
    np.testing.assert_allclose(found["products"], products, atol=1e-12)
