"""Functions that wait for a Dask cluster, but not forever: they return a result or raise an error.

A wait continues while there is progress: tasks change their state, or a worker executes a task. It
ends after a time without progress. The default is ten minutes; to change it::

    dask.config.set({"hofs_dask.timeout": "6 hours"})

or ``DASK_HOFS_DASK__TIMEOUT=6h`` in the environment.
"""

from __future__ import annotations

import asyncio
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.config
from dask.utils import format_time, parse_timedelta

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.scheduler import KilledWorker

#: First and maximum interval in seconds between two checks for progress; it doubles each time.
FIRST_LOOK, LAST_LOOK = 1.0, 5.0
#: Minimum interval in seconds between two checks if the ended tasks are counted.
WATCHED_LOOK = 0.5
#: Seconds between two checks for workers while there are none.
PAUSE = 0.2
#: Seconds to wait for the answer of a scheduler when checking whether it is alive.
PROBE = 5.0


@dataclass(frozen=True)
class Watch:
    """A description of tasks that are counted while a computation runs.

    Attributes
    ----------
    pattern : str
        Regular expression that matches the start of the keys of these tasks.
    n_tasks : int
        Number of these tasks.
    report : function
        Called repeatedly with the number of these tasks that have ended.
    """

    pattern: str
    n_tasks: int
    report: Callable[[int], None]


def watch_tasks(pattern: str, n_tasks: int, report: Callable[[int, int], None]) -> Watch | None:
    """Return a watch that calls ``report(n_ended, n_tasks)``; None if there is at most one task.

    The first call, with ``n_ended=0``, is made at once.

    Examples
    --------
    >>> watch = watch_tasks("scan-map-", 4, print)
    0 4
    >>> watch.report(2)
    2 4
    """
    if n_tasks < 2:
        return None
    report(0, n_tasks)
    return Watch(pattern, n_tasks, lambda n_ended: report(n_ended, n_tasks))


class LostSchedulerError(RuntimeError):
    """Raised if the connection to the scheduler was lost; the message names its address."""


class StrandedError(RuntimeError):
    """Raised if tasks wait for lost workers, and the scheduler will not reassign the tasks."""


def timeout() -> float:
    """Return how many seconds a wait may last without progress before it ends with an error.

    Examples
    --------
    >>> timeout()
    600.0
    >>> with dask.config.set({"hofs_dask.timeout": "2 hours"}):
    ...     timeout()
    7200.0
    """
    given = dask.config.get("hofs_dask.timeout", "10 minutes")
    try:
        seconds = float(parse_timedelta(given))
    except (ValueError, TypeError, KeyError, AttributeError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(
            f"the Dask setting hofs_dask.timeout is {given!r}; give a positive time such as "
            "'10 minutes'"
        )
    return seconds


def ask(client: Client, method: Callable[..., Any], *arguments: object) -> Any:
    """Return the result of a client method; raise an error if the scheduler does not answer.

    Examples
    --------
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     len(ask(client, client.nthreads))
    1
    """

    async def call() -> Any:
        return await method(*arguments)  # client methods are coroutines on the client's event loop

    limit = timeout()
    start = time.monotonic()
    try:
        return client.sync(call, callback_timeout=limit)
    except (OSError, CancelledError) as error:
        if isinstance(error, TimeoutError) and time.monotonic() - start >= limit:
            raise _unanswered(client, limit) from error
        _explain(client, error)
        raise


def gather(
    client: Client,
    futures: Sequence[Future[Any]],
    *,
    strict: bool = False,
    watch: Watch | None = None,
) -> list[Any]:
    """Return the results of futures like `Client.gather`; raise an error if there is no progress.

    The futures are released if an error is raised.

    Parameters
    ----------
    client
        The client of the futures.
    futures
        The futures to wait for.
    strict
        Whether to raise a StrandedError at once if tasks may only run on a worker that was lost. If
        False, wait until the worker returns or the time limit is reached.
    watch
        The tasks to count while they run. Their number is reported in this thread.

    Raises
    ------
    StrandedError
        Tasks wait for workers that were lost.
    LostSchedulerError
        The connection to the scheduler was lost.
    RuntimeError
        There was no progress for too long.
    """
    from distributed.scheduler import KilledWorker

    patience = _Patience(client, futures, strict=strict, watch=watch)
    gathering: asyncio.Future[list[Any]] | None = None

    async def wait() -> bool:
        """Return whether the results arrived within a pause; if not, check for progress."""
        nonlocal gathering
        if gathering is None:
            gathering = asyncio.ensure_future(client.gather(futures))
        if (await asyncio.wait({gathering}, timeout=patience.pause))[0]:
            return True
        await patience.look()
        return False

    async def result() -> list[Any]:
        assert gathering is not None
        return await gathering

    async def give_up() -> None:
        # releasing the futures ends the gather; cancelling it would leave tasks on the loop
        if gathering is None:
            return
        if not (await asyncio.wait({gathering}, timeout=FIRST_LOOK))[0]:
            gathering.cancel()
        elif not gathering.cancelled():
            gathering.exception()  # otherwise it is logged as never retrieved

    try:
        while not client.sync(wait):
            patience.report()
        results: list[Any] = client.sync(result)
    except BaseException as error:
        for future in futures:
            future.release()
        if client.loop is not None:
            client.loop.add_callback(give_up)
        if isinstance(error, (OSError, CancelledError)):
            _explain(client, error)
        if isinstance(error, KilledWorker):
            raise RuntimeError(_killed(error)) from error
        raise
    return results


def threads_of_workers(client: Client) -> dict[str, int]:
    """Return the number of threads of each worker by address; wait until there is a worker.

    Examples
    --------
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0") as client:
    ...     len(threads_of_workers(client))
    1
    """
    threads: dict[str, int] = ask(client, client.nthreads)
    limit, start, warned = timeout(), time.monotonic(), False
    while not threads:
        waited = time.monotonic() - start
        if waited >= limit:
            raise RuntimeError(_no_workers(client, limit))
        if waited >= FIRST_LOOK and not warned:
            _warn_of_no_workers(client, limit)
            warned = True
        time.sleep(PAUSE)
        threads = ask(client, client.nthreads)
    return threads


def address_of(client: Client) -> str:
    """Return the address of the scheduler of a client."""
    return str(getattr(client.scheduler, "address", "an unknown address"))


def _explain(client: Client, error: OSError | CancelledError) -> None:
    """Raise a clearer error for a lost scheduler or cancelled tasks; return for other errors."""
    if isinstance(error, CancelledError):
        reason = getattr(error, "reason", "")
        if client.status == "running" and reason != "scheduler-connection-lost":
            raise RuntimeError(
                f"tasks were cancelled by another client of the scheduler at {address_of(client)}, "
                "or by its restart; run the same call again"
            ) from error
    elif client.status == "running" and _answers(client):
        return
    raise LostSchedulerError(
        f"the scheduler was lost: no connection to {address_of(client)}. See its log, start it and "
        "its workers again, and run the same call with a new client; a checkpoint, if one was "
        "given, contains all finished rounds"
    ) from error


@dataclass(frozen=True)
class _Look:
    """State of the awaited tasks and their dependencies, as seen by the scheduler."""

    states: dict[str, int]  # number of unfinished tasks in each state
    n_watched: int | None  # number of unfinished tasks that a `Watch` counts; None if not known yet
    is_busy: bool  # whether a worker of these tasks executes a task
    gone: list[str]  # lost workers whose waiting tasks may run on other workers
    gone_strict: list[str]  # lost workers whose waiting tasks may run on no other worker
    n_workers: int


class _Patience:
    """Checks tasks for progress, and raises an error if there is none for too long."""

    def __init__(
        self, client: Client, futures: Sequence[Future[Any]], *, strict: bool, watch: Watch | None
    ) -> None:
        self._client = client
        self._keys = [future.key for future in futures]
        self._strict = strict
        self._watch = watch
        self._n_left = 0 if watch is None else watch.n_tasks
        self._limit = timeout()
        self._since = time.monotonic()
        self._states: dict[str, int] | None = None
        self._warned = False
        self.pause = min(FIRST_LOOK if watch is None else WATCHED_LOOK, self._limit / 2)

    async def look(self) -> None:
        """Raise an error if tasks are stranded, or made no progress within the time limit.

        This runs on the event loop of the client.
        """
        client, limit = self._client, self._limit
        pattern = None if self._watch is None else self._watch.pattern
        asked = time.monotonic()
        try:
            found: _Look = await asyncio.wait_for(
                client.run_on_scheduler(_look_at, self._keys, pattern), limit
            )
        except TimeoutError as error:
            raise _unanswered(client, limit) from error
        gone = found.gone + found.gone_strict * self._strict
        if gone:
            raise StrandedError(
                f"tasks wait for workers that are gone: {', '.join(gone[:4])}; run the same call "
                "again"
            )
        now = time.monotonic()
        if found.n_watched is not None:
            self._n_left = found.n_watched
        if found.is_busy or found.states != self._states:
            self._since, self._states = now, found.states
        elif now - self._since >= limit:
            raise RuntimeError(_no_progress(client, limit, found))
        if not found.n_workers and not self._warned:
            _warn_of_no_workers(client, limit)
            self._warned = True
        longest = max(limit / 4, 0.05)
        if self._watch is None:
            self.pause = min(2 * self.pause, LAST_LOOK, longest)
        else:  # at most a few percent of the scheduler's time
            self.pause = min(max(WATCHED_LOOK, 30 * (now - asked)), LAST_LOOK, longest)

    def report(self) -> None:
        """Report the number of watched tasks that have ended."""
        if self._watch is not None:
            self._watch.report(self._watch.n_tasks - self._n_left)


def _look_at(keys: list[Any], pattern: str | None, dask_scheduler: Any) -> _Look:
    """Return the state of tasks and their dependencies; runs on the scheduler."""
    tasks, workers = dask_scheduler.tasks, dask_scheduler.workers
    todo = [tasks[key] for key in keys if key in tasks]
    seen = set(todo)
    states: Counter[str] = Counter()
    at: set[Any] = set()
    gone: dict[bool, set[str]] = {True: set(), False: set()}
    n_watched = 0
    while todo:
        task = todo.pop()
        states[task.state] += 1
        if pattern is not None and task.state != "memory":
            n_watched += isinstance(task.key, str) and re.match(pattern, task.key) is not None
        if task.processing_on is not None:
            at.add(task.processing_on)
        wanted = task.worker_restrictions
        # after the last worker is lost, tasks with loose restrictions are not reassigned, see
        # SchedulerState.bulk_schedule_unrunnable_after_adding_worker
        if task.state == "no-worker" and wanted and not any(each in workers for each in wanted):
            gone[bool(task.loose_restrictions)].update(wanted)
        new = [each for each in task.waiting_on or () if each not in seen]
        seen.update(new)
        todo += new
    if states["queued"]:
        at.update(workers.values())
    # a large graph arrives at the scheduler some time after its futures were made
    known = all(key in tasks for key in keys)
    return _Look(
        dict(states),
        n_watched if known else None,
        any(worker.executing for worker in at),
        sorted(gone[True]),
        sorted(gone[False]),
        len(workers),
    )


def _answers(client: Client) -> bool:
    async def call() -> Any:
        return await client.nthreads()

    try:
        client.sync(call, callback_timeout=PROBE)
    except (OSError, CancelledError):
        return False
    return True


#: What to do after the cause of an error was removed.
RESUME = "run the same call again: a checkpoint, if one was given, contains all finished rounds"


def _unanswered(client: Client, limit: float) -> LostSchedulerError:
    return LostSchedulerError(
        f"the scheduler at {address_of(client)} did not answer for {format_time(limit)}; see its "
        f"log, and {RESUME}"
    )


def _killed(error: KilledWorker) -> str:
    return (
        f"{error.allowed_failures + 1} workers ended while they ran the task {error.task!r}, the "
        f"last one at {error.last_worker.address}; see the logs of the workers: they may need more "
        f"memory. Then {RESUME}"
    )


def _no_workers(client: Client, limit: float) -> str:
    address = address_of(client)
    return (
        f"the scheduler at {address} has no workers, after a wait of {format_time(limit)}; start "
        f"some, for example with: dask worker {address}, and {RESUME}. To wait longer for a queue: "
        "dask.config.set({'hofs_dask.timeout': '6 hours'})"
    )


def _no_progress(client: Client, limit: float, found: _Look) -> str:
    if not found.n_workers:
        return _no_workers(client, limit)
    states = ", ".join(f"{number} {state}" for state, number in sorted(found.states.items()))
    return (
        f"tasks made no progress for {format_time(limit)} on the {found.n_workers} workers of the "
        f"scheduler at {address_of(client)} ({states or 'none known'}); see the logs of the "
        "workers: a paused worker needs more memory, and an unreachable worker must be restarted. "
        f"Then {RESUME}. To wait longer: "
        "dask.config.set({'hofs_dask.timeout': '1 hour'})"
    )


def _warn_of_no_workers(client: Client, limit: float) -> None:
    address = address_of(client)
    warnings.warn(
        f"the scheduler at {address} has no workers; waiting up to {format_time(limit)} for one. "
        f"To start one: dask worker {address}",
        stacklevel=2,
    )
