"""Damaged and forged files give the correct result, or an error that names the file."""

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
    """Run a module in a separate process: it forks, and the test process has threads."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_fuzzer__classifies_known_faults():
    done = run("tests.fuzz.faulty")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 8
    assert {name: name for name in found} == found


def test_fuzzer__finds_no_bad_case():
    """Takes about 50 s, of which 20 s to compile kernels."""
    done = run("tests.fuzz", "--cases", "240", "--seed", "0")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
