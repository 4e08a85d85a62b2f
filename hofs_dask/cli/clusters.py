"""Where the work is done: a scheduler that was named, processes of this machine, or threads."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from distributed import Client

#: Seconds to wait for a scheduler, and then for its first worker.
PATIENCE = 10


@contextmanager
def cluster(scheduler: str | None, workers: int | None) -> Iterator[Client | None]:
    """The client of the scheduler or of that many local processes; None for Dask's threads."""
    if scheduler is not None and workers is not None:
        raise click.UsageError("--workers starts a cluster and --scheduler names one: give one")
    if scheduler is not None:
        with _connected(scheduler) as client:
            yield client
    elif workers is not None:
        import dask
        from distributed import Client, LocalCluster

        from hofs_dask.engine.cluster import MALLOC

        with (
            dask.config.set(MALLOC),
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                env={"NUMBA_NUM_THREADS": "1"},
            ) as local,
            Client(local) as client,
        ):
            client.run(_ignore_interrupts)
            yield client
    else:
        yield None


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    """Yield a client of a scheduler that answers, has workers and runs the same versions."""
    from concurrent.futures import CancelledError

    from distributed import Client
    from distributed.comm.core import CommClosedError

    from hofs_dask.engine.cluster import check_cluster

    try:
        client = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answered at {scheduler!r} within {PATIENCE} s; give the address "
            "that the scheduler printed when it started, such as tcp://host:8786"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise ConnectionError(
                f"the scheduler at {scheduler} has no workers; start some with: "
                f"dask worker {scheduler}"
            ) from error
        try:
            check_cluster(client)
            yield client
        except (CancelledError, CommClosedError) as error:
            raise ConnectionError(
                f"the connection to the scheduler at {scheduler} was lost; see its log, start it "
                "again, and run the same command: it goes on where a --checkpoint was given"
            ) from error


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to every process, to the one that the user started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
