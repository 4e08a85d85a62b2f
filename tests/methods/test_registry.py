"""The registry: every method is known to the API, the command line and checkpoints."""

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.cli.methods import method_list, parse_method
from hofs_dask.methods.base import Method
from hofs_dask.methods.pairwise import PairwiseMethod
from hofs_dask.methods.registry import METHOD_NAMES, METHODS, as_method
from hofs_dask.search.snapshot import RECORDS
from tests import generated


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_method__is_registered_under_its_name(name):
    method = as_method(name)
    assert method.name == name
    assert parse_method(name) == method
    assert f"\n  {name}" in method_list()
    assert RECORDS[method.state_type.__name__] is method.state_type
    kind = type(method)
    page = (generated.ROOT / "docs" / "methods.md").read_text()
    assert f"`hd.{kind.__name__}(" in page, "add it to docs/methods.md"
    assert getattr(hd, kind.__name__, None) is kind, "add it to hofs_dask/__init__.pyi"


@pytest.mark.parametrize("path", generated.FILES, ids=lambda path: path.name)
def test_file__is_as_generated(path):
    text = path.read_text()
    assert generated.FILES[path](text) == text, "run python -m tests.generated"


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_state__every_field_is_checked_when_it_is_read_from_a_file(name):
    state = as_method(name).state_type
    unchecked = {field.name for field in fields(state) if "check" not in field.metadata}
    assert unchecked <= {"rows"}  # `check_rows` checks every field of these


def test_methods__of_the_paper_are_in_its_order():
    assert METHODS == ("hofs", "mim", "mifs", "mrmr", "jmi", "cmim", "spec_cmi", "vmi")


@pytest.fixture
def least_redundant():
    """A user-defined criterion, removed from the registry after the test."""

    @dataclass(frozen=True)
    class LeastRedundant(PairwiseMethod):
        """Prefers the feature that is least redundant with the chosen ones."""

        name: ClassVar[str] = "least_redundant"
        combine: ClassVar[np.ufunc] = np.maximum

        def term(self, pairs):
            return pairs.redundancy

        def score(self, relevance, total, n_chosen):  # noqa: ARG002
            return -total

    yield LeastRedundant
    del Method.registry["least_redundant"]


def test_criterion__defined_by_a_user_can_be_selected_with(least_redundant):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    x[:, 1] = x[:, 0] + 0.1 * rng.normal(size=500)
    x[:, 2] += 0.5 * x[:, 0]
    y = x[:, 0] > 0
    result = hd.select(x, y, 4, method=least_redundant())
    assert result.features[:2] == ["x0", "x3"]
    assert result.features[-1] == "x1"
    assert hd.select(x, y, 4, method="least_redundant") == result
