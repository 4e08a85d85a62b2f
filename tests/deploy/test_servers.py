"""The same selection on every kind of cluster, each with its real server."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster

import hofs_dask as hd
from hofs_dask.cli.targets import Slurm
from tests.deploy.servers import (
    LONG,
    Network,
    Sshd,
    certificates,
    network,
    running,
    slurm,
    sshd,
    wait_for,
    workers_of,
)

pytestmark = [pytest.mark.processes, pytest.mark.servers]

N_FEATURES = 5
Reference = tuple[Path, hd.Selection]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """A code store of several chunks and tiles, and the result of a run on threads."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120_000)
    x = rng.normal(size=(len(y), 40)).astype(np.float32)
    x[:, ::3] += y[:, None] * np.linspace(0.8, 0.2, 14, dtype=np.float32)
    x[:, 1] += x[:, 0]
    path = tmp_path_factory.mktemp("data") / "codes.zarr"
    hd.encode(x, y, path, chunks=(10_000, 20))
    return path, hd.select(path, None, n_features=N_FEATURES)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a cluster."""
    return certificates(tmp_path_factory.mktemp("certificates") / "tls")


def shell(codes: Path, output: Path, *options: object) -> list[object]:
    """Return the command of the selection."""
    select = ["hofs_dask", "select", codes, "--n-features", N_FEATURES, "--progress"]
    return [*select, "--output", output, *options]


def check(command: list[object], output: Path, expected: hd.Selection) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=2 * LONG)
    assert done.returncode == 0, done.stderr
    found = hd.load(output)
    assert found == expected  # features, subsets and scores, to the last bit
    return done.stderr


def test_local_cluster__result_equals_that_of_threads(reference: Reference) -> None:
    codes, expected = reference
    local = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit="1GiB"
    )
    with local, Client(local):
        assert hd.select(codes, None, n_features=N_FEATURES) == expected


@dataclass(frozen=True)
class Ssh:
    """A configuration of a cluster, and the sshd that it uses."""

    file: Path
    server: Sshd

    def processes(self, kind: str) -> list[psutil.Process]:
        """Return the processes that ssh started for a class of distributed."""
        found = []
        for child in psutil.Process(self.server.pid).children(recursive=True):
            with suppress(psutil.Error):  # it may end meanwhile
                words = child.cmdline()
                is_dask = words[1:3] == ["-m", "distributed.cli.dask_spec"]
                if is_dask and f"distributed.{kind}" in " ".join(words):
                    found.append(child)
        return found

    def workers(self) -> set[psutil.Process]:
        return {child for nanny in self.processes("Nanny") for child in workers_of(nanny.pid)}


@pytest.fixture(scope="module")
def ssh(tls: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ssh]:
    """The configuration of a cluster on an sshd."""
    file = tmp_path_factory.mktemp("ssh") / "ssh.yaml"
    with sshd() as server:
        file.write_text(
            "hosts: [127.0.0.1, 127.0.0.1, 127.0.0.1]\nmemory-limit: 1GiB\ninterface: lo\n"
            f"tls: {tls}\npython: {sys.executable}\nconnect:\n  port: {server.port}\n"
            f"  username: root\n  client_keys: [{server.key}]\n"
            f"  known_hosts: {server.known_hosts}\n"
        )
        yield Ssh(file, server)


def test_ssh__result_equals_that_of_threads(reference: Reference, ssh: Ssh, tmp_path: Path) -> None:
    codes, expected = reference
    output = tmp_path / "result.zarr"
    options = ("--cluster", f"ssh:{ssh.file}")
    check([sys.executable, "-m", *shell(codes, output, *options)], output, expected)


def test_ssh__dead_worker_is_started_again_and_the_command_resumes_after_a_dead_scheduler(
    reference: Reference, ssh: Ssh, tmp_path: Path
) -> None:
    codes, expected = reference
    output = tmp_path / "result.zarr"
    options = ("--cluster", f"ssh:{ssh.file}", "--checkpoint", tmp_path / "run")
    command = [sys.executable, "-m", *shell(codes, output, *options)]
    started = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    with started as process:
        assert process.stderr is not None

        seen: list[str] = []

        def read_until(start: str) -> None:
            assert process.stderr is not None
            while not (seen and seen[-1].startswith(start)):
                seen.append(process.stderr.readline())
                assert seen[-1], "".join(seen)

        read_until("round 2/")
        before = ssh.workers()
        assert len(before) == 2
        min(before, key=lambda each: each.pid).kill()
        wait_for("a new worker", lambda: len(ssh.workers() - before) == 1)
        read_until("round 4/")
        nannies = ssh.processes("Nanny")
        (scheduler,) = ssh.processes("Scheduler")
        scheduler.kill()
        rest = process.stderr.read()
        process.wait(2 * LONG)
    assert process.returncode == 1, rest
    assert "run the same command" in rest
    assert "rounds are saved: resuming" in check(command, output, expected)
    # those that lost their scheduler do not stay
    wait_for("nannies to end", lambda: not any(nanny.is_running() for nanny in nannies))


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Path]:
    """A Slurm with two nodes."""
    with slurm() as config, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(config))
        yield config


def jobs() -> list[str]:
    """Return the ids of all jobs that wait or run."""
    shown = subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True)
    return sorted(shown.stdout.split(), key=int)


def slurm_target(tls: Path, logs: Path, kind: type[Slurm] = Slurm) -> Slurm:
    return kind(
        interface="lo",
        tls=str(tls),
        python=sys.executable,
        jobs=2,
        memory="1GiB",
        walltime="00:30:00",
        partition="main",
        logs=str(logs),
    )


def slurm_command(
    codes: Path, output: Path, tls: Path, folder: Path, *options: object
) -> list[object]:
    """Return the command of the selection on Slurm; its file is in a folder."""
    (folder / "slurm.yaml").write_text(
        f"jobs: 2\nmemory: 1GiB\nwalltime: '00:30:00'\ninterface: lo\ntls: {tls}\n"
        f"python: {sys.executable}\npartition: main\nlogs: {folder / 'logs'}\n"
    )
    cluster = ("--cluster", f"slurm:{folder / 'slurm.yaml'}")
    return [sys.executable, "-m", *shell(codes, output, *cluster, *options)]


@pytest.mark.usefixtures("two_nodes")
def test_slurm__result_equals_that_of_threads(
    reference: Reference, tls: Path, tmp_path: Path
) -> None:
    codes, expected = reference
    output = tmp_path / "result.zarr"
    command = slurm_command(codes, output, tls, tmp_path)
    check(command, output, expected)


@pytest.mark.usefixtures("two_nodes")
def test_slurm__cancelled_job_is_replaced_with_the_same_result(
    reference: Reference, tls: Path, tmp_path: Path
) -> None:
    codes, expected = reference
    cancelled: list[str] = []

    def listen(event: Any) -> None:
        if isinstance(event, hd.ScanStarted) and event.rank == 3 and not cancelled:
            cancelled.append(jobs()[0])
            command = ["scancel", cancelled[0]]
            threading.Timer(0.05, subprocess.run, [command]).start()

    wait_for("the jobs of an earlier test to end", lambda: not jobs())
    with slurm_target(tls, tmp_path / "logs").start() as cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=LONG)
        found = hd.select(codes, None, n_features=N_FEATURES, callback=listen)
        assert found == expected
        wait_for("a new job", lambda: len({*jobs()} - {*cancelled}) == 2)
        client.wait_for_workers(2, timeout=LONG)
    assert len(cancelled) == 1


@dataclass(frozen=True)
class Leaving(Slurm):
    """Jobs whose workers end after some seconds, and not before their time limit of 30 minutes."""

    lifetime: int = 8  # type: ignore[misc]
    stagger: int = 2  # type: ignore[misc]

    def __post_init__(self) -> None:
        """Accept a lifetime that is too short for users."""


@pytest.mark.filterwarnings("ignore:the scheduler at .* has no workers; waiting:UserWarning")
@pytest.mark.usefixtures("two_nodes")
def test_slurm__workers_leave_at_the_end_of_their_lifetime_and_new_jobs_replace_them(
    reference: Reference, tls: Path, tmp_path: Path
) -> None:
    codes, expected = reference
    wait_for("the jobs of an earlier test to end", lambda: not jobs())
    target = slurm_target(tls, tmp_path / "logs", Leaving)
    with target.start() as cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=LONG)
        first = {*jobs()}
        assert len(first) == 2

        def replaced() -> bool:
            """Select once more, while workers may leave."""
            assert hd.select(codes, None, n_features=N_FEATURES) == expected
            return len({*jobs()} - first) == 2 and first.isdisjoint(jobs())

        wait_for("new jobs", replaced)


@pytest.mark.usefixtures("two_nodes")
def test_slurm__killed_command_resumes_and_its_jobs_end(
    reference: Reference, tls: Path, tmp_path: Path
) -> None:
    codes, expected = reference
    output = tmp_path / "result.zarr"
    wait_for("the jobs of an earlier test to end", lambda: not jobs())
    command = slurm_command(codes, output, tls, tmp_path, "--checkpoint", tmp_path / "run")
    started = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    with started as process:
        assert process.stderr is not None
        lines: list[str] = []
        while not (lines and lines[-1].startswith("round 3/")):
            lines.append(process.stderr.readline())
            assert lines[-1], "".join(lines)
        process.kill()
    left = {*jobs()}
    assert left
    # no node is free before the workers of the killed command have noticed that it ended
    assert "rounds are saved: resuming" in check(command, output, expected)
    wait_for("the jobs of the killed command to end", lambda: not {*jobs()} & left)


@contextmanager
def cluster_in(net: Network, tls: Path, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A scheduler and two workers with TLS, each in its namespace."""
    # a cut link is noticed after the time to live of a worker, five minutes by default
    environment = os.environ | {
        "DASK_CONFIG": str(tls / "dask.yaml"),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "20s",
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15s",
    }
    address = f"tls://{net.addresses['s']}:8786"
    options = ("--dashboard-address", "127.0.0.1:0")
    with ExitStack() as stack:
        scheduler = net.python("s", "dask", "scheduler", "--host", net.addresses["s"], *options)
        stack.enter_context(running(scheduler, folder / "s.log", environment))
        log = folder / "s.log"
        wait_for("the scheduler", lambda: "Scheduler at" in log.read_text(), log)
        for name in ("w1", "w2"):
            worker = net.python(
                *(name, "dask", "worker", address, "--host", net.addresses[name], *options),
                *("--nthreads", 1, "--memory-limit", "1GiB", "--preload", "hofs_dask.preload"),
                *("--local-directory", folder / name),
            )
            stack.enter_context(running(worker, folder / f"{name}.log", environment))
        wait_for("workers", lambda: log.read_text().count("Starting worker") >= 2, log)
        yield address, environment


STRANGER = """
import ssl, sys
from distributed import Client, Security

class Bare(Security):  # a client of its own making: Dask's refuses to start without a certificate
    def get_connection_args(self, role):
        context = ssl.create_default_context(cafile=ca)
        context.check_hostname = False
        return {"ssl_context": context, "require_encryption": True, "extra_conn_args": {}}

url, *files = sys.argv[1:]
security = None
if len(files) == 1:
    ca, = files
    security = Bare()
elif files:
    ca, cert, key = files
    security = Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key,
                        require_encryption=True)
try:
    Client(url, security=security, timeout=10)
except OSError as error:  # an error of the script itself is none
    print("refused", type(error).__name__)
else:
    print("connected")
"""


def test_namespaces__tls_cut_links_and_strangers(
    reference: Reference, tls: Path, tmp_path: Path
) -> None:
    codes, expected = reference
    foreign = certificates(tmp_path / "foreign")
    with (
        network("s", "w1", "w2", "c") as net,
        cluster_in(net, tls, tmp_path) as (
            address,
            environment,
        ),
    ):

        def stranger(url: str, *files: object) -> str:
            script = net.inside("c", sys.executable, "-c", STRANGER, url, *files)
            done = subprocess.run(
                list(map(str, script)), capture_output=True, text=True, timeout=LONG
            )
            return done.stdout.strip()

        # the control first: the same script with the certificates of the cluster gets in
        own = [tls / f"{name}.pem" for name in ("ca", "cert", "key")]
        assert stranger(address, *own) == "connected"
        assert stranger(address.replace("tls", "tcp")).startswith("refused")  # plain TCP
        assert stranger(address, own[0]).startswith("refused")  # no certificate
        others = [own[0], foreign / "cert.pem", foreign / "key.pem"]
        assert stranger(address, *others).startswith("refused")  # of another authority
        log = (tmp_path / "s.log").read_text()  # it was the scheduler that refused, three times
        for reason in ("WRONG_VERSION", "PEER_DID_NOT_RETURN", "CERTIFICATE_VERIFY_FAILED"):
            assert reason in log

        run = [*net.python("c", *shell(codes, tmp_path / "a.zarr", "--scheduler", address))]
        env = ["env", f"DASK_CONFIG={environment['DASK_CONFIG']}"]
        check([*env, *run], tmp_path / "a.zarr", expected)

        run = [*net.python("c", *shell(codes, tmp_path / "b.zarr", "--scheduler", address))]
        command = list(map(str, [*env, *run]))
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    if line.startswith(f"round 2/{N_FEATURES}".encode()):
                        net.cut("w1")
                        break
                else:
                    pytest.fail("the run ended before its link was cut")
                rest = process.stderr.read()
                assert process.wait(2 * LONG) == 0, rest
            finally:
                process.kill()
        assert hd.load(tmp_path / "b.zarr") == expected
