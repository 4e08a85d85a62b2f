"""Damaged and forged files: each gives the honest answer, or an error that names it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="children are seen through /proc"),
]


def run(*arguments):
    """Run a module in a process of its own: children are forked, and this one has threads."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_fuzzer__tells_faults_apart():
    done = run("tests.fuzz.faulty")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 8
    assert {name: name for name in found} == found


def test_fuzzer__finds_no_bad_case():
    """About 50 s, for 20 of which kernels are compiled: some hundred cases belong in CI."""
    done = run("tests.fuzz", "--cases", "240", "--seed", "0")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
