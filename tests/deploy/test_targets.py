"""Configuration files of clusters, the script of a job, certificates: no server is needed."""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import dask
import pytest
import yaml
from click.testing import CliRunner, Result

from hofs_dask.cli import main
from hofs_dask.cli.certificates import check_certificates
from hofs_dask.cli.targets import SSH, Slurm, read_target
from tests.deploy.servers import CERTIFICATES, LONG, ROOT

SLURM = """
jobs: 2
workers-per-job: 4
memory: 8GiB
walltime: "01:00:00"
interface: ib0
tls: false
python: /env/python
partition: main
directives: [--constraint=fast]
"""


def job(tmp_path: Path, text: str) -> Result:
    (tmp_path / "slurm.yaml").write_text(text)
    return CliRunner().invoke(main, ["job-script", f"slurm:{tmp_path / 'slurm.yaml'}"])


def test_job_script__is_complete_without_slurm(tmp_path: Path) -> None:
    result = job(tmp_path, SLURM)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "#!/usr/bin/env bash",
        "",
        "#SBATCH -J dask-worker",
        "#SBATCH -p main",
        "#SBATCH -n 1",
        "#SBATCH --cpus-per-task=4",
        "#SBATCH --mem=8G",
        "#SBATCH -t 01:00:00",
        "#SBATCH --constraint=fast",
        "export OMP_NUM_THREADS=1",
        "export OPENBLAS_NUM_THREADS=1",
        "export MKL_NUM_THREADS=1",
        "export NUMBA_NUM_THREADS=1",
        "export MALLOC_TRIM_THRESHOLD_=33554432",
        "export MALLOC_MMAP_THRESHOLD_=33554432",
        "/env/python -m distributed.cli.dask_worker SCHEDULER --name NAME --nthreads 1 "
        "--memory-limit 2.00GiB --nworkers 4 --nanny --death-timeout 60 --lifetime 3300s "
        "--lifetime-stagger 240s --preload hofs_dask.preload --dashboard-address 127.0.0.1:0 "
        "--no-dashboard --interface ib0",
    ]


def test_job_script__has_the_certificates(tmp_path: Path) -> None:
    tls = tmp_path / "tls"
    subprocess.run([CERTIFICATES, tls], check=True, capture_output=True, timeout=LONG)
    result = job(tmp_path, SLURM.replace("tls: false", f"tls: {tls}"))
    assert result.exit_code == 0, result.output
    expected = (
        f"--protocol tls:// --tls-ca-file {tls}/ca.pem --tls-cert {tls}/cert.pem "
        f"--tls-key {tls}/key.pem"
    )
    assert expected in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("jobs: 2", "jobs: 0", "jobs is 0: give a whole number, 1 or more"),
        ("memory: 8GiB", "memory: much", "memory is 'much': give a size such as 4GiB"),
        ("memory: 8GiB", "", "memory is '': give a size"),
        ('"01:00:00"', "1h", "walltime is '1h': give hours, minutes and seconds"),
        ('"01:00:00"', '"00:05:00"', "give at least 00:10:00"),
        ("tls: false", "", "add tls; see deploy/slurm/cluster.yaml"),
        ("tls: false", "tls: true", "give the directory that deploy/tls/certificates.sh made"),
        ("tls: false", "tls: /none", "make the certificates with deploy/tls/certificates.sh"),
        ("partition", "queue", "unknown setting queue; known are interface, tls, python, jobs"),
        ("[--constraint=fast]", "fast", "directives is 'fast': give a list"),
        ("jobs: 2", "jobs: [", "is not YAML"),
    ],
)
def test_configuration__errors_say_what_to_write(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SLURM
    result = job(tmp_path, SLURM.replace(old, new))
    assert result.exit_code == 1
    assert message in result.stderr


def test_ssh__needs_a_scheduler_and_workers(tmp_path: Path) -> None:
    (tmp_path / "ssh.yaml").write_text(
        "{hosts: [a], memory-limit: 1GiB, interface: lo, tls: false}"
    )
    with pytest.raises(ValueError, match="give the host of the scheduler and at least one"):
        read_target(f"ssh:{tmp_path / 'ssh.yaml'}")


def test_examples__can_be_read() -> None:
    ssh = read_target(f"ssh:{ROOT / 'deploy' / 'ssh' / 'cluster.yaml'}")
    slurm = read_target(f"slurm:{ROOT / 'deploy' / 'slurm' / 'cluster.yaml'}")
    assert isinstance(ssh, SSH)
    assert isinstance(slurm, Slurm)
    assert ssh.tls == slurm.tls == "/shared/tls"


def test_certificates__are_private_and_verify(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    subprocess.run([CERTIFICATES, folder], check=True, capture_output=True, timeout=LONG)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert sorted(file.name for file in folder.iterdir()) == [
        "ca.pem",
        "cert.pem",
        "dask.yaml",
        "key.pem",
    ]
    verify = ["openssl", "verify", "-CAfile", folder / "ca.pem", folder / "cert.pem"]
    subprocess.run(verify, check=True, capture_output=True)
    shown = ["openssl", "x509", "-in", folder / "cert.pem", "-noout", "-text"]
    text = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    assert "NIST CURVE: P-256" in text
    comm = yaml.safe_load((folder / "dask.yaml").read_text())["distributed"]["comm"]
    assert comm["require-encryption"] is True
    assert comm["tls"]["worker"]["key"] == str(folder / "key.pem")


def test_certificates__never_replace_files(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("mine")
    done = subprocess.run([CERTIFICATES, tmp_path], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 2
    assert "is not an empty directory: give a new one" in done.stderr
    assert (tmp_path / "key.pem").read_text() == "mine"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates of two clusters."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("one", "two"):
        command = [CERTIFICATES, folder / name]
        subprocess.run(command, check=True, capture_output=True, timeout=LONG)
    return folder


def expire(own: Path, other: Path) -> None:
    """Replace all files; the certificate ended yesterday, the authority is valid."""
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    for command in (
        f"req -x509 {curve} -keyout ca-key.pem -out ca.pem -days 2 -subj /CN=a",
        f"req {curve} -keyout key.pem -out request.pem -subj /CN=b",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out cert.pem "
        "-days -1",
    ):
        openssl = ["openssl", *command.split()]
        subprocess.run(openssl, cwd=own, check=True, capture_output=True, timeout=LONG)


DAMAGE: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "expired": (expire, "certificate has expired"),
    "of another authority": (
        lambda own, other: shutil.copy(other / "ca.pem", own),
        "certificate signature failure|self.signed certificate|unable to get local issuer",
    ),
    "with another key": (
        lambda own, other: shutil.copy(other / "key.pem", own),
        "key_values_mismatch",
    ),
    "not a certificate": (
        lambda own, _: (own / "cert.pem").write_text("none"),
        "pem lib|no_start_line",
    ),
    "missing": (
        lambda own, _: (own / "key.pem").unlink(),
        r"key.pem' cannot be read \(No such file",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_certificates__that_cannot_be_used_are_an_error_before_anything_starts(
    tmp_path: Path, made: Path, kind: str
) -> None:
    damage, message = DAMAGE[kind]
    tls = shutil.copytree(made / "one", tmp_path / "tls")
    damage(tls, made / "two")
    target = SSH("lo", str(tls), hosts=("127.0.0.1",) * 2, memory_limit="1GiB")
    with pytest.raises((ValueError, OSError), match=message) as caught:
        target.start()
    assert str(tls) in str(caught.value)
    assert "with deploy/tls/certificates.sh" in str(caught.value).replace("\n", " ")
    settings = {"ca-file": "ca", "client.cert": "cert", "client.key": "key"}
    paths = {
        f"distributed.comm.tls.{name}": str(tls / f"{file}.pem") for name, file in settings.items()
    }
    with dask.config.set(paths):
        command = ["select", "codes", "--n-features", "1", "--scheduler", "tls://127.0.0.1:9"]
        result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert re.search(message, result.stderr), result.stderr


def test_certificates__that_others_can_read_are_a_warning(tmp_path: Path, made: Path) -> None:
    tls = shutil.copytree(made / "one", tmp_path / "tls")
    files = [str(tls / f"{name}.pem") for name in ("ca", "cert", "key")]
    check_certificates(*files)
    (tls / "key.pem").chmod(0o640)  # shared with a group on purpose
    check_certificates(*files)
    (tls / "key.pem").chmod(0o644)
    with pytest.warns(UserWarning, match=f"every user of this machine can read {tls}/key.pem"):
        check_certificates(*files)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_certificates__of_another_user_are_an_error(made: Path) -> None:
    files = [str(made / "one" / f"{name}.pem") for name in ("ca", "cert", "key")]
    os.seteuid(65534)
    try:
        with pytest.raises(OSError, match=r"ca.pem' cannot be read \(Permission denied\)"):
            check_certificates(*files)
    finally:
        os.seteuid(0)
