"""What every test may ask for: a real two-process cluster, and a quiet, repeatable machine."""

import os
import signal

# One thread per library and process, as in every worker: the tests themselves run in parallel.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

# A shell starts background jobs with Ctrl-C ignored, and programs started by tests inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from hofs_dask.kernels.cache import (
    VARIABLE,
    UnsafeDirectoryError,
    default_directory,
    usable_directory,
)

# A home that others could write to has no cache of kernels, and a warning that says so.
try:
    if (_cache := default_directory()) is not None:
        usable_directory(_cache)
except (UnsafeDirectoryError, OSError):
    os.environ[VARIABLE] = ""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, settings

from hofs_dask.kernels._jit import all_kernels
from hofs_dask.scheduling.process import PROCESS

# The first call of a compiled function takes longer than any sensible deadline.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("repeatable")


@pytest.fixture
def safe() -> Iterator[Path]:
    """A directory that nobody else can write to: pytest's own are below a shared one."""
    folder = Path(tempfile.mkdtemp(prefix=".hofs-dask-tests-", dir=Path.home())).resolve()
    yield folder
    shutil.rmtree(folder)


def _report_no_compilation() -> None:
    PROCESS.announced.update(kernel.py_func.__name__ for kernel in all_kernels())


# What tests print and hear must not depend on the kernels that this machine has compiled before.
_report_no_compilation()  # for fixtures of modules


@pytest.fixture(autouse=True)
def nothing_to_compile() -> None:
    """Report no compilation, even after a test that did."""
    _report_no_compilation()


@pytest.fixture(scope="session", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Dask's temporary directory for this session, so that nothing is left in the system's."""
    path = str(tmp_path_factory.mktemp("dask-scratch"))
    with dask.config.set({"temporary-directory": path}):
        yield path


@pytest.fixture(scope="session")
def cluster(scratch: str) -> Iterator[LocalCluster]:
    """A cluster of two worker processes with one thread each, shared by the tests that need one."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
        local_directory=scratch,
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    """The current Dask client while a test runs; without this fixture there is none."""
    with Client(cluster) as client:
        yield client
