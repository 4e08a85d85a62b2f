"""Parsing and listing of methods."""

import re

import pytest

import hofs_dask as hd
from hofs_dask.cli.methods import method_list, parse_method
from hofs_dask.methods.hofs import HOFS
from hofs_dask.methods.registry import METHOD_NAMES, as_method
from tests.cli.shell import run


def test_parse_method__converts_none_and_numbers_by_type() -> None:
    assert parse_method("hofs", ["affinity=none", "threshold=1"]) == hd.HOFS(threshold=1.0)
    within = parse_method("hofs", ["affinity=within"])
    assert isinstance(within, HOFS)
    assert within.affinity == "within"


def test_parse_method__parses_options_after_colons() -> None:
    assert parse_method("mifs:beta=0.5") == hd.MIFS(beta=0.5)
    assert parse_method("hofs:criterion=sum:source=gaussian", ["threshold=0.3"]) == hd.HOFS(
        criterion="sum", source="gaussian", threshold=0.3
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown method ''"),
        ("jim", "unknown method 'jim'; valid: 'jmim', 'njmim', 'mim'"),
        ("mifs:", "'' has no '='; give KEY=VALUE, such as beta="),
        ("mifs:beta", "'beta' has no '='"),
        ("mifs:beta=much", "beta is 'much'; give a number"),
        ("mifs:beta=1:beta=2", "beta is given twice; give it once"),
        ("mim:beta=1", "mim has no options; leave out 'beta=1'"),
        ("mrmr:form=ratio", "unknown form of MRMR 'ratio'; valid: 'quotient', 'difference'"),
    ],
)
def test_parse_method__explains_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_method(text)


def test_method_list__has_every_method_and_option_and_fits_a_terminal() -> None:
    text = method_list()
    for name in METHOD_NAMES:
        assert f"\n  {name}" in text
        for option in as_method(name).options:
            assert f" {option}=" in text
    assert "form=greedy|spectral" in text
    assert "affinity=none|within|correlation" in text
    assert max(map(len, text.splitlines())) <= 78


def test_method_list__names_the_default_methods_only_if_several_are_run() -> None:
    assert "Compared by default" not in method_list()
    text = " ".join(method_list(several=True).split())
    assert text.endswith(f"Compared by default: {', '.join(hd.METHODS)}")


@pytest.mark.parametrize("command", ["select", "compare"])
def test_help__lists_methods_and_examples_last(command: str) -> None:
    text = run(command, "--help").stdout
    for name in METHOD_NAMES:
        assert f"\n    {name}" in text
    assert text.rindex("\n    mri") < text.index("Examples:")
    assert ("Compared by default: hofs" in text) == (command == "compare")
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("command", ["encode", "select", "compare", "interactions", "matrix"])
def test_help__has_own_options_before_shared_ones(command: str) -> None:
    text = run(command, "--help").stdout
    _, own, reading, running = re.split(r"\nOptions[a-z ]*:\n", text)
    assert "--target" in own
    assert "--feature-dim" in reading
    assert "--workers" in running
    assert "--help" in running
