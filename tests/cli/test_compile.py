"""``hofs-dask compile``: what it fills, and where it refuses."""

import os
import subprocess

import pytest

from hofs_dask.kernels._jit import all_kernels
from hofs_dask.kernels.cache import VARIABLE
from tests.cli.shell import COMMAND, run


def compile_in(directory):
    # what is compiled matters here, not how well; without any optimisation numba keeps nothing
    env = {**os.environ, VARIABLE: str(directory), "NUMBA_OPT": "1"}
    command = [*COMMAND, "compile"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)


@pytest.mark.processes
def test_compile__fills_the_cache_once(safe):
    n = len(all_kernels())
    done = compile_in(safe)
    assert done.stdout.startswith(f"{n} kernels in {safe}, {n} compiled in "), done.stderr
    n_files = len(list(safe.glob("*.kernel")))
    assert n_files == sum(len(kernel.declared) for kernel in all_kernels())
    (safe / "leftover").touch()
    assert compile_in(safe).stdout == f"{n} kernels in {safe}, 0 compiled\n"
    assert len(list(safe.glob("*.kernel"))) == n_files
    assert (safe / "leftover").exists()


def test_compile__without_a_directory_says_what_to_set(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    found = run("compile")
    assert found.exit_code == 1
    assert "there is no cache directory: HOFS_DASK_CACHE_DIR is empty. Unset it" in found.stderr


def test_compile__refuses_a_directory_that_others_can_write_to(monkeypatch, safe):
    safe.chmod(0o777)
    monkeypatch.setenv(VARIABLE, str(safe))
    found = run("compile")
    assert found.exit_code == 1
    assert f"{safe} is not used: others can write to it" in found.stderr
