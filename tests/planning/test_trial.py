"""What one thread can do is tried on a little data."""

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.engine.counts import MARGINAL_COUNTS, MarginalContext
from hofs_dask.engine.reduction import Request
from hofs_dask.planning.trial import N_FEATURES, made_up, try_encoding, try_reading, try_reduction


@pytest.mark.parametrize(("n_classes", "n_codes"), [(2, 2), (2, 254), (254, 2), (10, 32)])
def test_made_up__has_every_class_and_the_last_code(n_classes, n_codes):
    block = made_up(512, n_classes, n_codes)
    assert set(block.labels) == set(range(n_classes))
    assert (block.codes.max(axis=1) == n_codes - 1).all()
    assert all(len(set(row)) > 1 for row in block.codes)


def test_try_reduction__gives_the_total_of_all_copies_and_a_cost():
    request = Request(MARGINAL_COUNTS, MarginalContext(3, 5))
    total, seconds = try_reduction(request, 512, 1000, 3, 5)
    assert total["counts"].sum() == 1000 * 512 * N_FEATURES
    assert 0 < seconds < 1e-4


def test_try_reading__and_encoding_take_time(tmp_path):
    x = np.random.default_rng(0).normal(size=(3000, 8))
    codes = hd.encode(x, x[:, 0] > 0, tmp_path / "codes.zarr", chunks=(1000, 4))
    assert 0 < try_reading(codes) < 1
    for dtype in ("f4", "i2", "O", "U5"):
        assert 0 < try_encoding(np.dtype(dtype), 10**6, "auto") < 1e-3
