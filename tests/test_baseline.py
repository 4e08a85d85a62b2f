"""The results of all methods equal the recorded ones, for many kinds of input."""

import json
import warnings

import numpy as np
import pytest

from tests import baseline

RECORDED = json.loads(baseline.FILE.read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return dict(baseline.answers(tmp_path_factory.mktemp("baseline")))


def test_baseline__has_every_result(made):
    assert list(made) == list(RECORDED)
    assert len(list(baseline.cases())) >= 40
    assert {name.split(": ")[1] for name in made if name.count(": ")} >= set(baseline.METHODS)


@pytest.mark.parametrize("name", RECORDED)
def test_baseline__is_unchanged(made, name):
    with warnings.catch_warnings(action="ignore"):  # some inputs cause warnings on purpose
        found = json.loads(json.dumps(made[name]()))
    expected = RECORDED[name]
    for part in ("features", "subsets"):
        assert found.get(part) == expected.get(part)
    if "exact" in expected:
        assert json.dumps(found["exact"]) == json.dumps(expected["exact"])
    for figure, values in expected.get("close", {}).items():
        np.testing.assert_allclose(found["close"][figure], values, rtol=1e-12, atol=1e-12)
