"""The criteria `sum` and `mean`: rows solved on counts agree with rows solved on samples."""

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.methods import total


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows__solved_on_counts_agree_with_samples(monkeypatch, n_classes):
    rng = np.random.default_rng(1)
    y = rng.integers(0, n_classes, 900)
    x = rng.normal(size=(900, 7)) + rng.normal(size=(900, 1)) + 0.5 * y[:, None]
    x[rng.random(x.shape) < 0.05] = np.nan
    reductions, results = [], []

    def listen(event):
        if isinstance(event, hd.ScanEnded):
            reductions[-1].append(event.reduction)

    for few in (total.FEW_CELLS, 0):
        monkeypatch.setattr(total, "FEW_CELLS", few)
        reductions.append([])
        method = hd.HOFS(criterion="sum")
        results.append(hd.select(x, y, 4, method=method, bins=4, callback=listen))
    assert ("row-values" in reductions[0], "row-terms" in reductions[0]) == (True, False)
    assert ("row-values" in reductions[1], "row-terms" in reductions[1]) == (False, True)
    assert results[1].indices.tolist() == results[0].indices.tolist()
    np.testing.assert_allclose(results[1].scores, results[0].scores, rtol=1e-10)
