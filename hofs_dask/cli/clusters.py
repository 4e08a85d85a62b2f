"""The cluster that a command runs on: a given scheduler, local processes, or threads."""

from __future__ import annotations

import functools
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

import click

from hofs_dask.cli.certificates import check_certificates
from hofs_dask.cli.running import DEBUG

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy.spec import SpecCluster

#: Seconds to wait for a scheduler.
PATIENCE = 10


@contextmanager
def cluster(
    scheduler: str | None, workers: int | None, target: str | None = None
) -> Iterator[Client | None]:
    """Yield a client of the cluster that the options name, or None to run on threads."""
    options = {"--workers": workers, "--scheduler": scheduler, "--cluster": target}
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} were given: give only one of them")
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(DEBUG):
        logging.disable(logging.NOTSET)
    if scheduler is not None:
        with _connected(scheduler) as client:
            yield client
    elif target is not None:
        with _started(target) as client:
            yield client
    elif workers is not None:
        import dask
        from distributed import Client, LocalCluster

        from hofs_dask.preload import WORKER_SETTINGS

        with dask.config.set(WORKER_SETTINGS), ExitStack() as stack:
            with _signals_deferred():
                local = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                )
                stack.enter_context(local)
            yield stack.enter_context(Client(local))
    else:
        yield None


@contextmanager
def _started(target: str) -> Iterator[Client]:
    """Yield a client of a cluster that a file describes, and stop the cluster at the end."""
    import dask
    from distributed import Client

    from hofs_dask.cli.targets import read_target
    from hofs_dask.engine.cluster import check_cluster
    from hofs_dask.scheduling.waits import threads_of_workers

    described = read_target(target)
    with dask.config.set(described.settings()), ExitStack() as stack:
        with _signals_deferred():
            started = described.start()
            stack.push(functools.partial(_stop, started))
        advice = "run the same command again: it resumes from a --checkpoint"
        stack.enter_context(_losses(started.scheduler_address, advice))
        client = stack.enter_context(Client(started))
        threads_of_workers(client)  # waits for the first worker
        check_cluster(client)
        yield client


def _stop(started: SpecCluster, _kind: object, error: BaseException | None, _where: object) -> None:
    """Stop a cluster. If its scheduler was lost, workers end by themselves."""
    import dask

    if error is None:
        started.close()
        return
    # an error of stopping would hide the first one
    with dask.config.set({"distributed.comm.timeouts.connect": "3s"}), suppress(Exception):
        started.close()


@contextmanager
def _losses(scheduler: str, advice: str) -> Iterator[None]:
    """Raise a ConnectionError with advice if the scheduler is lost in the ``with`` block."""
    from concurrent.futures import CancelledError

    from distributed.comm.core import CommClosedError

    from hofs_dask.scheduling.waits import LostSchedulerError

    try:
        yield
    except (CancelledError, CommClosedError, LostSchedulerError) as error:
        raise ConnectionError(
            f"the connection to the scheduler at {scheduler} was lost; {advice}"
        ) from error


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    """Yield a client of a scheduler, after checking its workers and versions."""
    from distributed import Client

    from hofs_dask.engine.cluster import check_cluster
    from hofs_dask.scheduling.waits import threads_of_workers

    _check_encryption(scheduler)
    try:
        client = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answered at {scheduler!r} within {PATIENCE} s; give the address "
            "that the scheduler printed when it started, such as tcp://host:8786, or "
            "tls://host:8786 if it has certificates"
        ) from error
    advice = "see its log, start it again, and run the same command: it resumes from a --checkpoint"
    with client, _losses(scheduler, advice):
        threads_of_workers(client)
        check_cluster(client)
        yield client


def _check_encryption(scheduler: str) -> None:
    """Refuse an address that does not fit the certificates in Dask's configuration."""
    from distributed import Security

    security = Security()
    names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
    files = [getattr(security, name) for name in names]
    if scheduler.startswith("tls://") and all(files):
        check_certificates(*files)
    own = security.get_connection_args("client")
    if scheduler.startswith("tls://") and own["ssl_context"] is None:
        raise ConnectionError(
            f"the address {scheduler!r} needs certificates, and Dask's configuration has none; "
            "type export DASK_CONFIG=DIR/dask.yaml, where DIR is the folder of the certificates"
        )
    if scheduler.startswith("tcp://") and own["require_encryption"]:
        raise ConnectionError(
            f"Dask's configuration requires TLS, and {scheduler!r} is not encrypted; give the "
            "address tls://HOST:PORT of the scheduler"
        )


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM to the end of the block, since a half-started cluster cannot close.

    Threads and processes that are started in the block ignore Ctrl-C permanently. This is intended:
    a terminal sends Ctrl-C to all processes, but only the main process should handle it. One of
    these threads runs the event loop of the cluster, which also restarts workers.
    """
    _start_resource_tracker()
    terminated = False

    def note(*_: object) -> None:
        nonlocal terminated
        terminated = True

    on_term = signal.signal(signal.SIGTERM, note)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, on_term)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if terminated:
            signal.raise_signal(signal.SIGTERM)


def _start_resource_tracker() -> None:
    """Start the resource tracker of multiprocessing before Ctrl-C is blocked.

    When the tracker starts, it unblocks Ctrl-C. It removes the semaphores that a killed process
    leaves; its warnings about them are suppressed.
    """
    before = os.environ.get("PYTHONWARNINGS")
    quiet = "ignore:resource_tracker:UserWarning"
    os.environ["PYTHONWARNINGS"] = f"{before},{quiet}" if before else quiet
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before
