"""The criterion `joint`: candidates that cannot win are left out, and nothing else changes."""

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.engine.passes import run
from hofs_dask.methods import joint


def data(n=20_000, n_classes=2):
    """Groups of three features with a cause in common, one of each tells; the last are noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    x = rng.normal(size=(n, 15))
    for first in (0, 3, 6):
        x[:, first : first + 3] += rng.normal(size=(n, 1))
        x[:, first] += (1.2 - 0.1 * first) * y
    x[:, 9] = x[:, 0]
    return x, y


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("source", ["logistic", "gaussian"])
def test_stages__find_the_same_as_all_samples_at_once(monkeypatch, tmp_path, source, n_classes):
    codes = hd.encode(*data(n_classes=n_classes), tmp_path / "codes", bins=5)
    wanted = []

    def spy(codes, walk):
        wanted.extend(
            request.context.per_feature["wanted"].sum()
            for request in walk
            if request.statistic.name == "posterior-gains"
        )
        return run(codes, walk)

    results = []
    for staged in (joint.STAGED, 0):
        monkeypatch.setattr(joint, "STAGED", staged)
        if staged == 0:
            monkeypatch.setattr("hofs_dask.rounds.run", spy)
        results.append(hd.select(codes, None, 6, method=hd.HOFS(source=source)).to_dataset())
    whole, in_stages = results
    assert set(wanted[::2]) == {15}  # one fold of all
    assert max(wanted[1:6:2]) < 8  # the rest of few
    assert set(whole) == set(in_stages)
    for name, array in whole.items():
        found, expected = in_stages[name].values, array.values
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=name)


def test_stages__include_is_summed_up_whatever_it_gains(monkeypatch):
    x, y = data(5000)
    results = []
    for staged in (joint.STAGED, 0):
        monkeypatch.setattr(joint, "STAGED", staged)
        results.append(hd.select(x, y, 3, include=["x14", "x13"], bins=5))
    assert results[1].indices.tolist() == results[0].indices.tolist()
    np.testing.assert_allclose(results[1].scores, results[0].scores, rtol=1e-9, atol=1e-12)
