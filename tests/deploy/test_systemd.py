"""The units of systemd are valid, and their commands start a cluster with TLS."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import dask
import numpy as np
import psutil
import pytest
import yaml
from distributed import Client

import hofs_dask as hd
from hofs_dask.engine.cluster import KEPT_MEMORY
from tests.deploy.servers import LONG, ROOT, certificates, free_port, running

pytestmark = pytest.mark.processes

UNITS = ROOT / "deploy" / "cli" / "systemd"
NAMES = ("hofs-dask-scheduler", "hofs-dask-worker")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Copies of the units for this machine: other addresses, paths and numbers, nothing else."""
    certificates(tmp_path / "tls")
    port = str(free_port())
    for name in NAMES:
        text = (UNITS / f"{name}.service").read_text()
        for old, new in {
            "/shared/venv/bin": str(Path(sys.executable).parent),
            "/shared/tls": str(tmp_path / "tls"),
            "10.0.0.1:8786": f"127.0.0.1:{port}",
            "--port 8786": f"--port {port}",
            "10.0.0.1": "127.0.0.1",
            "10.0.0.2": "127.0.0.2",
            "127.0.0.1:8787": "127.0.0.1:0",
            "--nworkers 16": "--nworkers 2",
        }.items():
            text = text.replace(old, new)
        (tmp_path / f"{name}.service").write_text(text)
    return tmp_path


def command_of(unit: Path) -> tuple[list[object], dict[str, str]]:
    """Return the command of a unit and the environment that the unit sets."""
    text = unit.read_text()
    settings = [
        each for line in re.findall("^Environment=(.*)", text, re.M) for each in line.split()
    ]
    (command,) = re.findall("^ExecStart=(.*)", text, re.M)
    words: list[object] = list(shlex.split(command.replace("%T", str(unit.parent))))
    return words, dict(each.split("=") for each in settings)


def test_systemd__units_are_valid(units: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    for name in NAMES:
        unit = units / f"{name}.service"
        done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
        assert not [line for line in done.stderr.splitlines() if name in line], done.stderr


def test_systemd__commands_start_a_cluster_that_only_its_certificates_can_use(units: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    x = rng.normal(size=(2000, 8)) + y[:, None] * (np.arange(8) == 3)
    codes = hd.encode(x, y, units / "codes.zarr", chunks=(500, 8))
    expected = hd.select(codes, None, 2)
    with ExitStack() as stack:
        processes = []
        for name in NAMES:
            command, settings = command_of(units / f"{name}.service")
            log = units / f"{name}.log"
            started = running(command, log, os.environ | settings | {"PYTHONPATH": str(ROOT)})
            processes.append(stack.enter_context(started))
        address = str(command[2])
        tls = yaml.safe_load((units / "tls" / "dask.yaml").read_text())
        stack.enter_context(dask.config.set(dask.config.merge(dask.config.config, tls)))
        client = stack.enter_context(Client(address, timeout=LONG))
        client.wait_for_workers(2, timeout=LONG)
        assert hd.select(codes, None, 2) == expected
        for limit, environment in client.run(_settings).values():
            assert limit == 4 * 2**30
            assert environment == ["1", "1", "1", "1", str(KEPT_MEMORY), str(KEPT_MEMORY)]
        family = [psutil.Process(process.pid) for process in processes]
        family += [child for parent in family for child in parent.children(recursive=True)]
        listening = {
            connection.laddr.ip
            for process in family
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1", "127.0.0.2"}


def _settings(dask_worker: object) -> tuple[int, list[str | None]]:
    names = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")]
    names += ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"]
    limit = dask_worker.memory_manager.memory_limit  # type: ignore[attr-defined]
    return limit, [os.environ.get(name) for name in names]
