"""Clusters that a configuration file describes: on hosts reached over ssh, or as Slurm jobs."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hofs_dask.cli.certificates import check_certificates

if TYPE_CHECKING:
    from distributed import Security
    from distributed.deploy.spec import SpecCluster

#: Environment variables that limit libraries to one thread. The libraries read them when they are
#: imported.
THREADS = tuple(f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"))
#: Address of dashboards: other hosts cannot reach it, and the system chooses a free port.
DASHBOARD = "127.0.0.1:0"
#: Workers end about this many seconds before the time limit of their job.
MARGIN = 300


@dataclass(frozen=True)
class Target:
    """Base class of the configurations of clusters, with the settings that they share.

    Parameters
    ----------
    interface
        Network interface that scheduler and workers listen on, such as ``eth0``.
    tls
        Directory that ``deploy/tls/certificates.sh`` made, at the same path on every host. False
        means connections without encryption, which anyone on the network can use.
    python
        Path of the Python that runs the workers. Default: the Python of this process.
    """

    kind: ClassVar[str]

    interface: str
    tls: str | bool
    python: str | None = None

    def __post_init__(self) -> None:
        """Check the values that this package uses itself; Dask checks the others."""
        if self.tls is True or self.tls == "":
            raise ValueError(
                f"tls is {self.tls!r}: give the directory that deploy/tls/certificates.sh made, "
                "or false for connections without encryption that anyone on the network can use"
            )

    def security(self) -> Security | None:
        """Return the certificates of this cluster, or None without TLS."""
        if not isinstance(self.tls, str):
            return None
        from distributed import Security

        folder = Path(self.tls).expanduser().resolve()
        paths = {name: folder / f"{name}.pem" for name in ("ca", "cert", "key")}
        check_certificates(*map(str, paths.values()))
        pair = {
            f"tls_{role}_{part}": str(paths[part])
            for role in ("client", "scheduler", "worker")
            for part in ("cert", "key")
        }
        return Security(tls_ca_file=str(paths["ca"]), require_encryption=True, **pair)

    def settings(self) -> dict[str, Any]:
        """Return the Dask configuration of all processes; SSHCluster forwards it to its hosts."""
        from hofs_dask.preload import WORKER_SETTINGS

        security = self.security()
        if security is None:
            return dict(WORKER_SETTINGS)
        names = {"ca-file": "tls_ca_file"} | {
            f"{role}.{part}": f"tls_{role}_{part}"
            for role in ("client", "scheduler", "worker")
            for part in ("cert", "key")
        }
        paths = {
            f"distributed.comm.tls.{name}": getattr(security, attribute)
            for name, attribute in names.items()
        }
        encrypted = {"distributed.comm.require-encryption": True}
        return WORKER_SETTINGS | encrypted | paths


@dataclass(frozen=True)
class SSH(Target):
    """The configuration of a cluster on hosts that are reached over ssh.

    Parameters
    ----------
    hosts
        Names or addresses of the hosts. The scheduler runs on the first host, and workers run on
        all others. Repeat the first host to run workers there too.
    workers_per_host
        Worker processes on each host, with one thread each.
    memory_limit
        Memory limit of each worker, such as ``4GiB``.
    connect
        Options of asyncssh, such as ``port``, ``username``, ``client_keys`` and ``known_hosts``.

    Examples
    --------
    >>> SSH(interface="eth0", tls="/shared/tls", hosts=("a", "b"), memory_limit="4GiB").hosts
    ('a', 'b')
    """

    kind: ClassVar[str] = "ssh"

    hosts: tuple[str, ...] = ()
    workers_per_host: int = 1
    memory_limit: str = ""
    connect: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check hosts and memory."""
        super().__post_init__()
        if len(self.hosts) < 2:
            raise ValueError(
                f"hosts is {list(self.hosts)}: give the host of the scheduler and at least one "
                "host of workers, which may be the same, such as [node1, node1, node2]"
            )
        _check_count("workers-per-host", self.workers_per_host)
        _check_memory("memory-limit", self.memory_limit)

    def start(self) -> SpecCluster:
        """Start the scheduler and the workers, and return the cluster."""
        from distributed import SSHCluster

        shared = {"interface": self.interface, "dashboard_address": DASHBOARD}
        if self.tls:
            shared["protocol"] = "tls"
        return SSHCluster(
            list(self.hosts),
            connect_options=self.connect,
            worker_options=shared
            | {
                "nthreads": 1,
                "n_workers": self.workers_per_host,
                "memory_limit": self.memory_limit,
                "death_timeout": 60,
                "dashboard": False,
            },
            scheduler_options=shared | {"port": 0},
            remote_python=self.python,
            security=self.security(),
        )


@dataclass(frozen=True)
class Slurm(Target):
    """The configuration of a cluster of Slurm jobs; the scheduler runs in the command's process.

    Parameters
    ----------
    jobs
        Number of jobs. A job that ends is submitted again.
    workers_per_job
        Worker processes of a job, with one thread each.
    memory
        Memory of a job, such as ``64GiB``.
    walltime
        Time limit of a job, such as ``04:00:00``. The workers end about five minutes earlier.
    partition, account
        Slurm partition and account of the jobs.
    directives
        Other options of ``sbatch``, such as ``--constraint=fast``.
    logs
        Directory of the logs of all jobs.

    Examples
    --------
    >>> Slurm("ib0", "/shared/tls", jobs=4, memory="64GiB", walltime="04:00:00").lifetime
    14100
    """

    kind: ClassVar[str] = "slurm"

    jobs: int = 1
    workers_per_job: int = 1
    memory: str = ""
    walltime: str = ""
    partition: str | None = None
    account: str | None = None
    directives: tuple[str, ...] = ()
    logs: str | None = None

    def __post_init__(self) -> None:
        """Check numbers, memory and time."""
        super().__post_init__()
        _check_count("jobs", self.jobs)
        _check_count("workers-per-job", self.workers_per_job)
        _check_memory("memory", self.memory)
        if self.lifetime < MARGIN:
            raise ValueError(
                f"walltime is {self.walltime}: give at least 00:10:00, because workers end five "
                "minutes before the time limit"
            )

    @property
    def lifetime(self) -> int:
        """Seconds after which a worker ends."""
        match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", str(self.walltime))
        if match is None:
            raise ValueError(
                f"walltime is {self.walltime!r}: give hours, minutes and seconds in quotes, such "
                'as "04:00:00", or days before them, such as "1-00:00:00"'
            )
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds - MARGIN

    @property
    def stagger(self) -> int:
        """Most seconds by which workers end earlier or later, so that not all end at once."""
        return MARGIN - 60

    def _options(self) -> dict[str, Any]:
        from hofs_dask.engine.cluster import KEPT_MEMORY

        exports = [f"export {name}=1" for name in THREADS]
        exports += [f"export MALLOC_{name}_THRESHOLD_={KEPT_MEMORY}" for name in ("TRIM", "MMAP")]
        return {
            "cores": self.workers_per_job,
            "processes": self.workers_per_job,
            "memory": self.memory,
            "walltime": self.walltime,
            "queue": self.partition,
            "account": self.account,
            "interface": self.interface,
            "python": self.python,
            "job_extra_directives": list(self.directives),
            "job_script_prologue": exports,
            "log_directory": self.logs,
            "protocol": "tls://" if self.tls else None,
            "worker_extra_args": [
                *("--lifetime", f"{self.lifetime}s"),
                *("--lifetime-stagger", f"{self.stagger}s"),
                *("--preload", "hofs_dask.preload"),
                *("--dashboard-address", DASHBOARD, "--no-dashboard"),
            ],
        }

    def start(self) -> SpecCluster:
        """Start a scheduler in this process, submit the jobs, and return the cluster."""
        from dask_jobqueue.slurm import SLURMCluster

        cluster = SLURMCluster(
            **self._options(),
            security=self.security(),
            scheduler_options={"interface": self.interface, "dashboard_address": DASHBOARD},
        )
        # `adapt` with equal limits submits a job again after it ends; `scale` does not do this.
        n_workers = self.jobs * self.workers_per_job
        cluster.adapt(minimum=n_workers, maximum=n_workers)
        return cluster

    def job_script(self) -> str:
        """Return the script of a job, without a connection to Slurm."""
        from dask_jobqueue.slurm import SLURMJob

        job = SLURMJob(
            scheduler="SCHEDULER", name="NAME", **self._options(), security=self.security()
        )
        return str(job.job_script())


#: Classes of cluster configurations by kind.
TARGETS: dict[str, type[SSH] | type[Slurm]] = {target.kind: target for target in (SSH, Slurm)}


def read_target(text: str) -> SSH | Slurm:
    """Return the configuration of a cluster for the text ``KIND:FILE``.

    Examples
    --------
    >>> read_target("pbs:cluster.yaml")
    Traceback (most recent call last):
    ...
    ValueError: 'pbs:cluster.yaml' is not a cluster: give ssh:FILE or slurm:FILE
    """
    import yaml

    kind, _, file = text.partition(":")
    if kind not in TARGETS or not file:
        raise ValueError(f"{text!r} is not a cluster: give ssh:FILE or slurm:FILE")
    target = TARGETS[kind]
    try:
        given = yaml.safe_load(Path(file).expanduser().read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{file} is not YAML: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"{file} has no settings: see deploy/{kind}/cluster.yaml for an example")
    settings = {str(name).replace("-", "_"): value for name, value in given.items()}
    known = {each.name: each for each in fields(target)}
    if unknown := sorted({*settings} - {*known}):
        raise ValueError(f"{file}: unknown setting {_shown(unknown)}; known are {_shown(known)}")
    required = [
        name
        for name, each in known.items()
        if each.default is MISSING and each.default_factory is MISSING
    ]
    if missing := sorted({*required} - {*settings}):
        raise ValueError(f"{file}: add {_shown(missing)}; see deploy/{kind}/cluster.yaml")
    for name in ("hosts", "directives"):
        if name in settings:
            if not isinstance(settings[name], list):
                raise ValueError(f"{file}: {name} is {settings[name]!r}: give a list")
            settings[name] = tuple(map(str, settings[name]))
    return target(**settings)


def _shown(names: Any) -> str:
    return ", ".join(name.replace("_", "-") for name in names)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}: give a whole number, 1 or more")


def _check_memory(name: str, value: object) -> None:
    from dask.utils import parse_bytes

    try:
        usable = isinstance(value, str) and value[:1].isdigit() and parse_bytes(value) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{name} is {value!r}: give a size such as 4GiB")
