"""The criterion `joint`: screening of candidates does not change the result."""

from functools import partial

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.engine.scanning import run
from hofs_dask.methods import joint
from tests.methods.problems import make_problem


def data(n=20_000, n_classes=2):
    """Return groups of three dependent features, one of each relevant; the last are noise."""
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
def test_screening__gives_the_same_result_as_all_samples(monkeypatch, tmp_path, source, n_classes):
    codes = hd.encode(*data(60_000, n_classes), tmp_path / "codes", bins=5)
    wanted = []

    def spy(codes, scan, *, report=None):
        wanted.extend(
            request.context.wanted.sum()
            for request in scan
            if request.reduction.name == "posterior-gains"
        )
        return run(codes, scan, report=report)

    def find():
        return hd.select(codes, None, 6, method=hd.HOFS(source=source)).to_dataset()

    whole = find()
    monkeypatch.setattr("hofs_dask.search.rounds.run", spy)
    monkeypatch.setattr(joint, "STAGED", 0)
    in_two = find()
    assert set(wanted[::2]) == {15}  # one fold for all candidates
    assert max(wanted[1:4:2]) < 8  # the other folds for few
    wanted.clear()
    monkeypatch.setattr(joint, "STAGED_TWICE", 0)
    in_three = find()
    assert set(wanted[::3]) == {15}  # a quarter of a fold for all
    assert all(a >= b for a, b in zip(wanted[1::3], wanted[2::3], strict=True))
    for found in (in_two, in_three):
        assert set(whole) == set(found)
        for name, array in whole.items():
            check = np.testing.assert_array_equal
            if array.dtype.kind == "f":
                check = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12)
            check(found[name].values, array.values, err_msg=name)


def test_screening__keeps_included_features(monkeypatch):
    x, y = data(5000)
    whole = hd.select(x, y, 3, include=["x14", "x13"], bins=5)
    for threshold in ("STAGED", "STAGED_TWICE"):
        monkeypatch.setattr(joint, threshold, 0)
        found = hd.select(x, y, 3, include=["x14", "x13"], bins=5)
        assert found.indices.tolist() == whole.indices.tolist()
        np.testing.assert_allclose(found.scores, whole.scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("threshold", ["STAGED", "STAGED_TWICE"])
def test_screening__of_noise_gives_the_same_result(monkeypatch, tmp_path, seed, threshold):
    """Rows of noise features shrink to zero in some folds and not in others."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 20_000)
    x = rng.normal(size=(len(y), 14))
    x[:, :3] += y[:, None] * [0.9, 0.7, 0.5]
    codes = hd.encode(x, y, tmp_path / "codes", bins=5)
    whole = hd.select(codes, None, 12, min_gain=-1)
    monkeypatch.setattr(joint, "STAGED", 0)
    monkeypatch.setattr(joint, threshold, 0)
    assert hd.select(codes, None, 12, min_gain=-1).indices.tolist() == whole.indices.tolist()


def latent_groups(seed, n=300, n_features=1500):
    """Return four noisy copies of each of six causes of y; the other features are noise."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n, 6))
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * causes.sum(axis=1)))).astype(int)
    x = rng.normal(size=(n, n_features))
    x[:, :24] = np.repeat(causes, 4, axis=1) + 0.5 * rng.normal(size=(n, 24))
    return x, y


def test_few_samples__new_information_comes_before_copies_of_known():
    """Of many features and few samples, most hidden causes are found before a copy or noise."""
    found = []
    for seed in range(3):
        first = hd.select(*latent_groups(seed), 6).indices
        found.append(len({i // 4 for i in first if i < 24}))
    assert np.mean(found) >= 5


@pytest.mark.parametrize(
    ("gains", "exhausted"),
    [
        ([0.08, 0.0, 0.0, 0.0], False),  # 4 exp(-100 g) is below 1/2 from 0.0208 on
        ([0.02, 0.0, 0.0, 0.0], True),
        ([0.02, 0.02, 0.02, 0.0], False),  # three likely ones: below 3/2 from 0.0098 on
        ([0.009, 0.009, 0.009, 0.0], True),
    ],
)
def test_exhausted__depends_on_the_number_of_likely_candidates(gains, exhausted):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, (100, 4)), np.arange(100) % 2
    work = joint.Joint(make_problem(x, y), hd.HOFS())
    scores = joint.JointScores(*[np.array(gains)] * 8)
    assert work.is_exhausted(scores, 0, np.ones(4, bool)) is exhausted


def test_exhausted__the_gain_is_compared_with_the_largest_relevance():
    y = np.arange(1000) % 2
    x = np.random.default_rng(0).integers(0, 2, (1000, 4))
    x[:, 3] = y  # log 2 nats, of which 2 % are 0.01386; noise alone reaches 0.0021
    work = joint.Joint(make_problem(x, y), hd.HOFS())
    for gain, exhausted in ((0.0138, True), (0.0139, False)):
        scores = joint.JointScores(*[np.array([gain, 0.0, 0.0, -1.0])] * 8)
        assert work.is_exhausted(scores, 0, np.ones(4, bool)) is exhausted
        assert not work.is_exhausted(scores, 0, np.arange(4) < 3)  # x3 is not a candidate
