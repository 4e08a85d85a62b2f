"""A rehearsal asks for the reductions that the real search asks for."""

from collections import Counter

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.planning.rehearsal import N_ROUNDS, rehearse

METHODS = [
    hd.HOFS(),
    hd.HOFS(criterion="sum"),
    hd.JMI(),
    hd.SpecCMI(form="spectral"),
    hd.VMI(),
    hd.VMI(form="pairwise"),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
@pytest.mark.parametrize(("n_classes", "n_codes"), [(2, 2), (7, 5)])
def test_rehearsal__gives_a_cost_to_every_reduction(method, n_classes, n_codes):
    found = rehearse(method, 9, 1000, n_classes, n_codes, "class")
    assert found.steps[0].reduction == "marginal-counts"
    assert all(0 < step.seconds < 1e-4 for step in found.steps)
    assert len(found.driver) == N_ROUNDS
    assert {step.rank for step in found.steps} <= set(range(N_ROUNDS + 1))


@pytest.mark.parametrize("n_samples", [3000, 120_000])  # of many, some are scored first
@pytest.mark.parametrize("method", [METHODS[0], *METHODS[2:]], ids=lambda method: method.label)
def test_rehearsal__asks_for_what_the_search_asks_for(method, n_samples, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n_samples)
    x = rng.normal(size=(n_samples, 8)) + y[:, None]
    codes = hd.encode(x, y, tmp_path / "codes.zarr", bins=5)
    events = []
    hd.select(codes, None, 3, method=method, callback=events.append)
    asked = Counter(event.reduction for event in events if isinstance(event, hd.ScanEnded))
    rehearsed = rehearse(method, 3, n_samples, 2, 5, "class").steps
    assert Counter(step.reduction for step in rehearsed) == asked


def test_rehearsal__knows_that_few_candidates_are_scored_on_all_samples():
    def cost(n_samples):
        steps = rehearse(hd.HOFS(), 3, n_samples, 2, 5, "class").steps
        gains = [step for step in steps if step.reduction == "posterior-gains" and step.rank == 3]
        return len(gains), sum(step.seconds for step in gains)

    (one, all_of_them), (three, most_of_them) = cost(10_000), cost(1_000_000)
    assert (one, three) == (1, 3)
    assert most_of_them < 0.8 * all_of_them
