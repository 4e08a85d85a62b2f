"""What `select` and `compare` share."""

from dataclasses import fields

import pytest

from hofs_dask.cli.compare import compare
from hofs_dask.cli.options import ReadingOptions
from hofs_dask.cli.searching import Search
from hofs_dask.cli.select import select
from tests.cli.shell import run


def test_search_command__both_commands_have_the_same_options() -> None:
    shared = {field.name for kind in (Search, ReadingOptions) for field in fields(kind)}
    shared |= {"debug", "storage_option"}
    assert {param.name for param in select.params} - shared == {"method", "options"}
    assert {param.name for param in compare.params} - shared == {"methods", "resamples"}
    for one, other in zip(select.params[2:], compare.params[2:], strict=True):
        assert one.opts == other.opts
        assert one.type.name == other.type.name


@pytest.mark.parametrize("command", ["select", "compare"])
def test_search_command__needs_a_store_and_a_number_of_features(command: str) -> None:
    assert "Missing argument 'STORE'" in run(command, "--n-features", 2).stderr
    assert "Missing option '--n-features'" in run(command, "codes.zarr").stderr
