"""A rehearsal asks for the passes that the real search asks for."""

from collections import Counter

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.rehearsal import N_ROUNDS, rehearse

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
def test_rehearsal__gives_a_cost_to_every_pass(method, n_classes, n_codes):
    found = rehearse(method, 9, n_classes, n_codes, "class")
    assert found.steps[0].statistic == "marginal-counts"
    assert all(0 < step.seconds < 1e-4 for step in found.steps)
    assert len(found.driver) == N_ROUNDS
    assert {step.rank for step in found.steps} <= set(range(N_ROUNDS + 1))


@pytest.mark.parametrize("method", [METHODS[0], *METHODS[2:]], ids=lambda method: method.label)
def test_rehearsal__asks_for_what_the_search_asks_for(method, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    x = rng.normal(size=(3000, 8)) + y[:, None]
    codes = hd.encode(x, y, tmp_path / "codes.zarr", bins=5)
    events = []
    hd.select(codes, None, 3, method=method, callback=events.append)
    asked = Counter(event.statistic for event in events if isinstance(event, hd.PassDone))
    rehearsed = rehearse(method, 3, 2, 5, "class").steps
    assert Counter(step.statistic for step in rehearsed) == asked
