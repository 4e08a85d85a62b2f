"""Upper bounds for the number of reductions of a search."""

from collections import Counter

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.kernels.rows import MAX_STEPS
from hofs_dask.methods.base import Sizes
from hofs_dask.search.rounds import sizes_of

ALL_METHODS = [
    hd.HOFS(),
    hd.HOFS(criterion="sum"),
    hd.HOFS(criterion="mean"),
    hd.HOFS(criterion="sum", source="gaussian"),
    hd.JMI(),
    hd.SpecCMI(),
    hd.SpecCMI(form="spectral"),
    hd.VMI(),
    hd.VMI(form="pairwise"),
]


def encoded(folder, n_samples, n_features, noise):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_samples)
    x = noise * rng.normal(size=(n_samples, n_features)) + y[:, None]
    return hd.encode(x, y, folder / "codes.zarr", bins=5)


def asked_for(codes, method, n_features):
    """Return the number of reductions of a run, by name."""
    events = []
    hd.select(codes, None, n_features, method=method, callback=events.append)
    asked = Counter(event.reduction for event in events if isinstance(event, hd.ScanEnded))
    assert asked.pop("marginal-counts") == 1
    return asked


@pytest.mark.parametrize("n_samples", [200, 3000, 120_000])  # with many, candidates are screened
@pytest.mark.parametrize("method", ALL_METHODS, ids=lambda method: method.label)
def test_bound__is_not_exceeded_by_a_search(method, n_samples, tmp_path):
    codes = encoded(tmp_path, n_samples, 8, noise=2.0)
    for n_rounds in (1, 2, 5):
        asked = asked_for(codes, method, n_rounds)
        bound = method.bound_reductions(sizes_of(codes, n_rounds))
        assert asked <= Counter(bound.by_name)
        assert asked.total() <= bound.in_all <= sum(bound.by_name.values())


@pytest.mark.parametrize(
    ("method", "n_samples", "noise"),
    [
        (hd.JMI(), 3000, 1.0),
        (hd.SpecCMI(form="spectral"), 3000, 1.0),
        (hd.HOFS(criterion="sum", source="gaussian"), 3000, 1.0),
        (hd.HOFS(order=1), 3000, 2.0),  # every round adds to the epoch
        (hd.HOFS(order=1), 120_000, 2.0),
        (hd.HOFS(order=1), 200, 1e9),  # with noise and few samples every round restarts
        (hd.VMI(restart=100.0), 3000, 1.0),  # every round restarts
        (hd.VMI(form="pairwise", restart=100.0), 3000, 1.0),
    ],
    ids=lambda value: getattr(value, "label", str(value)),
)
def test_bound__is_reached(method, n_samples, noise, tmp_path):
    codes = encoded(tmp_path, n_samples, 8, noise)
    bound = method.bound_reductions(sizes_of(codes, 5))
    asked = asked_for(codes, method, 5)
    assert asked == +Counter(bound.by_name)
    assert asked.total() == bound.in_all


def test_bound__of_joint_by_hand():
    def gains(n_samples, n_rounds):
        sizes = Sizes(n_samples, 50, n_classes=2, n_codes=5, n_picks=n_rounds - 1)
        return hd.HOFS(order=1).bound_reductions(sizes).by_name.get("posterior-gains", 0)

    # 4 folds x 2 classes x 5 codes are 40 cells, with a pick 200: counts from 320 and 1600 samples
    assert [gains(10_000, n) for n in (1, 2, 3, 6)] == [0, 0, 1, 4]
    assert [gains(1000, n) for n in (1, 2, 3, 6)] == [0, 1, 2, 5]
    assert [gains(100, n) for n in (1, 2, 3, 6)] == [1, 3, 5, 11]
    assert gains(100_000, 6) == 2 * 4
    assert gains(500_000, 6) == 3 * 4


def test_bound__of_rows_by_hand():
    def bound(n_samples, n_codes, n_rounds):
        sizes = Sizes(n_samples, 50, n_classes=2, n_codes=n_codes, n_picks=n_rounds - 1)
        return hd.HOFS(criterion="sum").bound_reductions(sizes)

    # 2 classes x 8 codes of a candidate x 8^k of k members: 2^(4 + 3 k) cells, counts up to 2^12
    found = bound(1000, 8, 5)
    assert found.by_name == {
        "pair-counts": 4,
        "row-values": 3,  # for subsets of two in rounds 3, 4 and 5
        "row-terms": 2 * MAX_STEPS,  # for subsets of three and four
    }
    assert found.in_all == 4 + 1 + 2 * MAX_STEPS
    # with many samples, counts up to 2^15
    assert bound(2**20, 8, 4).by_name.get("row-terms", 0) == 0
    assert bound(2**20, 8, 5).by_name["row-terms"] == MAX_STEPS
    # even a table of two codes each is too large
    assert bound(1000, 254, 3).by_name["row-terms"] == MAX_STEPS
