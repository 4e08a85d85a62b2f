"""The only call of Dask's `compute` in the package."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import dask.base
import dask.config
from dask.callbacks import Callback

from hofs_dask.scheduling.session import session
from hofs_dask.scheduling.waits import Watch, gather

if TYPE_CHECKING:
    from distributed import Client, Future

#: Minimum interval in seconds between two reports of the tasks that have ended.
REPORT_INTERVAL = 0.1


def compute(*tasks: Any, here: bool = False, watch: Watch | None = None) -> tuple[Any, ...]:
    """Return the results of tasks, computed on the current client or the configured scheduler.

    With ``here=True``, the tasks run in this thread, so that data in memory is not sent anywhere.
    ``watch`` describes the tasks to count while they run; it reports their number in this thread.
    Dask's warning about graphs above 10 MB is disabled, because the large objects in these graphs
    (data in memory, or the context of a reduction) are sent only once.

    Raises
    ------
    StrandedError
        Tasks wait for workers that were lost. The tasks can be submitted again.
    LostSchedulerError
        The connection to the scheduler was lost.
    RuntimeError
        There was no progress for the time in the Dask setting ``hofs_dask.timeout``.

    Examples
    --------
    >>> from dask.delayed import delayed
    >>> compute(delayed(1), delayed(2))
    (1, 2)
    """
    # Set only after distributed was imported. A value that is set earlier would replace the
    # defaults of distributed.
    quiet = (
        dask.config.set({"distributed.admin.large-graph-warning-threshold": "100 GiB"})
        if "distributed" in sys.modules and not here
        else nullcontext()
    )
    client = None if here else current_client()
    with quiet, nullcontext() if here else aside():
        if client is None:
            with nullcontext() if watch is None else _counted(watch):
                result: tuple[Any, ...] = dask.base.compute(*tasks, scheduler=_scheduler(here))
            return result
        collections, repack = dask.base.unpack_collections(*tasks)
        futures: list[Future[Any]] = client.compute(collections)
        # this releases the results of the previous call, see `Session.last`
        session(client).last = []
        result = tuple(repack(gather(client, futures, watch=watch)))
        session(client).last = futures
    return result


@contextmanager
def _counted(watch: Watch) -> Iterator[None]:
    """Count the tasks that Dask's single-machine schedulers complete in the ``with`` block."""
    n_ended, last = 0, time.monotonic()

    def ended(key: Any, *_: object) -> None:
        nonlocal n_ended, last
        if isinstance(key, str) and re.match(watch.pattern, key):
            n_ended += 1
            now = time.monotonic()
            if now - last >= REPORT_INTERVAL or n_ended == watch.n_tasks:
                last = now
                watch.report(n_ended)

    with Callback(posttask=ended):
        yield


def _scheduler(here: bool) -> str | None:
    """Return the scheduler to use if there is no client; None lets Dask choose."""
    if here:
        return "sync"
    # to find out that there is no client, Dask would import distributed, which takes 0.2 s
    unset = dask.config.get("scheduler", None) is None and dask.config.get("pool", None) is None
    return "threads" if "distributed" not in sys.modules and unset else None


def is_here() -> bool:
    """Return whether tasks would run in this process: there is no client, nor other processes.

    Examples
    --------
    >>> is_here()
    True
    """
    scheduler = dask.config.get("scheduler", None)
    local = scheduler is None or (
        isinstance(scheduler, str) and scheduler.startswith(("sync", "thread", "single"))
    )
    return local and current_client() is None


@contextmanager
def threads(n_threads: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """Provide a `map` that runs in threads of this process, for work that needs no graph.

    Examples
    --------
    >>> with threads(2) as each:
    ...     list(each(abs, [-1, 2]))
    [1, 2]
    """
    with ThreadPoolExecutor(n_threads) as pool:
        yield pool.map


def release() -> None:
    """Release the last results of the current client.

    Examples
    --------
    >>> release()
    """
    client = current_client()
    if client is not None:
        session(client).last = []


def current_client() -> Client | None:
    """Return the client that `dask.compute` would use, or None if it would use none.

    If distributed has not been imported yet, return None without importing it.

    Examples
    --------
    >>> current_client() is None
    True
    """
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        client = default_client()
    except ValueError:
        return None
    uses_client = dask.base.get_scheduler() == client.get
    return client if uses_client else None


@contextmanager
def aside() -> Iterator[None]:
    """Secede from the thread pool of the worker in the ``with`` block, if this is a task.

    Otherwise a task that waits for other tasks would occupy a thread that these tasks need.

    Examples
    --------
    >>> with aside():
    ...     pass
    """
    if "distributed" not in sys.modules:
        yield
        return
    from distributed import rejoin, secede
    from distributed.worker import thread_state  # type: ignore[attr-defined]

    left = False
    if getattr(thread_state, "key", None) is not None:
        with suppress(KeyError):  # already seceded
            secede()
            left = True
    try:
        yield
    finally:
        if left:
            rejoin()
