"""Real servers for tests: started here, stopped by process id, on loopback or in own namespaces."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
CERTIFICATES = ROOT / "deploy" / "tls" / "certificates.sh"
#: Seconds for anything to start or to end on a busy machine.
LONG = 100


def unavailable(reason: str) -> None:
    """Skip the test, or fail in CI, where every server must be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def need(package: str, *programs: str) -> None:
    """Install Debian packages unless their programs are there."""
    _need(package, programs, lambda: all(shutil.which(program) for program in programs))


def need_file(package: str, path: str) -> None:
    """Install a Debian package unless its file is there."""
    _need(package, (path,), Path(path).is_file)


def _need(package: str, what: tuple[str, ...], is_there: Callable[[], bool]) -> None:
    if is_there():
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        unavailable(f"{', '.join(what)}: only root on Debian can install {package}")
    errors = ""
    # apt fails if another process installs at the same time
    with Path(tempfile.gettempdir(), "hofs-dask-tests-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_there():
            errors = _install(package)
    if not is_there():
        unavailable(f"cannot install {package}: {errors[-300:]}")


def _install(package: str) -> str:
    """Install Debian packages; return the errors of apt."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *package.split()]):
        done = subprocess.run(
            ["apt-get", "-qq", *command], env=environment, capture_output=True, text=True
        )
    return done.stderr


def wait_for(what: str, ready: Callable[[], object], log: Path | None = None) -> None:
    end = time.monotonic() + LONG
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: {log.read_text()[-2000:] if log else 'no log'}")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(
    command: list[object], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in the foreground of its own process, and end it by its id."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)), stdout=output, stderr=output, env=environment
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)


def workers_of(nanny: int) -> list[psutil.Process]:
    """Return the worker processes that a nanny started and that run."""
    found = []
    with suppress(psutil.Error):
        for child in psutil.Process(nanny).children():
            with suppress(psutil.Error):
                # a process that has ended but was not waited for has no command
                if "spawn_main" in " ".join(child.cmdline()):
                    found.append(child)
    return found


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of root below /run: sshd and munged refuse keys below one that others can write."""
    folder = Path(tempfile.mkdtemp(prefix="hofs-tests-", dir="/run"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def certificates(folder: Path) -> Path:
    subprocess.run([CERTIFICATES, folder], check=True, capture_output=True, timeout=LONG)
    return folder


@dataclass(frozen=True)
class Sshd:
    """Process id, port and keys of a running sshd."""

    pid: int
    port: int
    key: Path
    known_hosts: Path


@contextmanager
def sshd() -> Iterator[Sshd]:
    """An sshd on a free port of loopback, with a key of its own and no other way in."""
    if os.geteuid() != 0:
        unavailable("sshd needs root")
    need("openssh-server openssh-client", "sshd", "ssh-keygen")
    Path("/run/sshd").mkdir(exist_ok=True)
    with private_folder() as folder:
        for name in ("host", "user"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
            subprocess.run(keygen, check=True)
        port = free_port()
        public = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
        (folder / "config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {folder}/user.pub\nPasswordAuthentication no\nUsePAM no\n"
            f"PermitRootLogin prohibit-password\nSetEnv PYTHONPATH={ROOT}\n"
        )
        command = [shutil.which("sshd"), "-D", "-e", "-f", folder / "config"]
        with running(command, folder / "log") as process:
            wait_for("sshd", lambda: answers(port), folder / "log")
            yield Sshd(process.pid, port, folder / "user", folder / "known_hosts")


SLURM = """
ClusterName=hofs
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={control}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=1 RealMemory=4000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=1 RealMemory=4000
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm() -> Iterator[Path]:
    """A Slurm of two nodes with one core each; yields the path of its configuration."""
    if os.geteuid() != 0:
        unavailable("Slurm needs root")
    need("slurmctld slurmd slurm-client munge", "slurmctld", "slurmd", "sbatch", "munged")
    with private_folder() as folder:
        (folder / "key").write_bytes(os.urandom(128))
        (folder / "key").chmod(0o400)
        (folder / "state").mkdir()
        folder.chmod(0o755)  # anyone may use the socket; the key stays private
        names = ("control", "first", "second")
        ports = dict(zip(names, (free_port() for _ in names), strict=True))
        config = folder / "slurm.conf"
        config.write_text(SLURM.format(folder=folder, host=socket.gethostname(), **ports))
        environment = os.environ | {"SLURM_CONF": str(config)}
        munged: list[object] = [shutil.which("munged"), "--foreground", "--force"]
        for name in ("socket", "pid", "seed"):
            option = {"socket": "--socket", "pid": "--pid-file", "seed": "--seed-file"}[name]
            munged.append(f"{option}={folder}/munge.{name}")
        munged += [f"--key-file={folder}/key", f"--log-file={folder}/munge.log"]

        def idle() -> bool:
            shown = subprocess.run(
                ["sinfo", "-h", "-o", "%D %t"], env=environment, capture_output=True, text=True
            )
            return shown.stdout.split() == ["2", "idle"]

        with running(munged, folder / "munged.out"):
            socket_file = folder / "munge.socket"
            wait_for("munged", socket_file.exists, folder / "munged.out")
            with (
                running(["slurmctld", "-D"], folder / "slurmctld.log", environment),
                running(["slurmd", "-D", "-N", "n1"], folder / "n1.log", environment),
                running(["slurmd", "-D", "-N", "n2"], folder / "n2.log", environment),
            ):
                wait_for("Slurm", idle, folder / "slurmctld.log")
                yield config


@dataclass(frozen=True)
class Network:
    """Network namespaces joined by a bridge in a namespace of its own."""

    prefix: str
    addresses: dict[str, str]

    def inside(self, name: str, *command: object) -> list[object]:
        return ["ip", "netns", "exec", f"{self.prefix}{name}", *command]

    def python(self, name: str, *command: object) -> list[object]:
        return self.inside(name, sys.executable, "-m", *command)

    def cut(self, name: str) -> None:
        device = ["ip", "-n", f"{self.prefix}hub", "link", "set", name, "down"]
        subprocess.run(device, check=True)


def _ip(*arguments: object) -> None:
    subprocess.run(["ip", *map(str, arguments)], check=True, capture_output=True, text=True)


@contextmanager
def network(*names: str) -> Iterator[Network]:
    """A namespace for each name, with an address that the others can reach."""
    if os.geteuid() != 0:
        unavailable("network namespaces need root")
    need("iproute2", "ip")
    prefix = f"hofs{os.getpid()}"
    made: list[str] = []
    try:
        for name in ("hub", *names):
            try:
                _ip("netns", "add", f"{prefix}{name}")
            except subprocess.CalledProcessError as error:
                unavailable(f"no network namespaces: {error.stderr}")
            made.append(f"{prefix}{name}")
            _ip("-n", f"{prefix}{name}", "link", "set", "lo", "up")
        _ip("-n", f"{prefix}hub", "link", "add", "bridge", "type", "bridge")
        _ip("-n", f"{prefix}hub", "link", "set", "bridge", "up")
        addresses = {}
        for number, name in enumerate(names, start=1):
            own, hub = f"{prefix}{name}", f"{prefix}hub"
            addresses[name] = f"10.97.0.{number}"
            ends = ("link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", hub)
            _ip("-n", own, *ends)
            _ip("-n", own, "addr", "add", f"{addresses[name]}/24", "dev", "eth0")
            _ip("-n", own, "link", "set", "eth0", "up")
            _ip("-n", hub, "link", "set", name, "master", "bridge")
            _ip("-n", hub, "link", "set", name, "up")
        yield Network(prefix, addresses)
    finally:
        for namespace in made:
            subprocess.run(["ip", "netns", "del", namespace], check=False)
