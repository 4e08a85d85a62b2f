"""Run several encodings of the same data together.

An encoding is a generator, which yields the tasks whose results it needs next. The tasks of all
encodings are computed in one call. A chunk of the source that several encodings need is one task,
so it is read once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hofs_dask.events import Advanced, EncodeEnded, EncodeStarted, Notify, tell_all
from hofs_dask.scheduling.compute import compute
from hofs_dask.scheduling.waits import watch_tasks

Result = TypeVar("Result")


@dataclass(frozen=True)
class Step:
    """The tasks whose results an encoding needs next.

    Attributes
    ----------
    tasks : tuple
        Tasks, or lists of tasks.
    here : bool
        Whether to compute the tasks in this thread.
    stage : str
        For a read of the source, its name in events and in the names of tasks; otherwise empty.
    n_tasks : int
        Number of tasks of this read.
    """

    tasks: tuple[Any, ...]
    here: bool = False
    stage: str = ""
    n_tasks: int = 0


#: A generator that yields steps, receives the results of their tasks, and returns a result.
Steps = Generator[Step, tuple[Any, ...], Result]


def run_together(
    several: Sequence[Steps[Result]], n_bytes: int = 0, listeners: Sequence[Notify] = ()
) -> list[Result]:
    """Run several generators of steps together, and return their results.

    Parameters
    ----------
    several
        The generators. Steps of the same stage are computed in one call.
    n_bytes
        Bytes of the source, for events.
    listeners
        Called with the events `EncodeStarted`, `Advanced` and `EncodeEnded`.

    Examples
    --------
    >>> from dask.delayed import delayed
    >>> def steps(number):
    ...     (found,) = yield Step((delayed(number),))
    ...     return found + 1
    >>> run_together([steps(1), steps(2)])
    [2, 3]
    """
    results: dict[int, Result] = {}
    asked: dict[int, Step] = {}

    def send(number: int, found: Any) -> None:
        try:
            asked[number] = several[number].send(found)
        except StopIteration as stop:
            asked.pop(number, None)
            results[number] = stop.value

    try:
        for number in range(len(several)):
            send(number, None)
        while asked:
            first = next(iter(asked.values()))
            same = [n for n, step in asked.items() if _kind(step) == _kind(first)]
            found = _computed([asked[number] for number in same], n_bytes, listeners)
            for number, own in zip(same, found, strict=True):
                send(number, own)
    finally:
        for steps in several:
            steps.close()
    return [results[number] for number in range(len(several))]


def _kind(step: Step) -> tuple[bool, str]:
    return step.here, step.stage


def _computed(
    steps: Sequence[Step], n_bytes: int, listeners: Sequence[Notify]
) -> Sequence[tuple[Any, ...]]:
    """Return the results of steps of one stage, computed in one call; send events of a read."""
    first, n_tasks = steps[0], sum(step.n_tasks for step in steps)
    tasks = [step.tasks for step in steps]
    if not first.stage or not listeners:
        return compute(*tasks, here=first.here)
    tell_all(listeners, EncodeStarted(first.stage, n_tasks, n_bytes))
    start = time.perf_counter()

    def advanced(n_ended: int, n_tasks: int) -> None:
        tell_all(listeners, Advanced(n_ended, n_tasks))

    watch = watch_tasks(rf"{first.stage}-\d", n_tasks, advanced)
    found = compute(*tasks, here=first.here, watch=watch)
    seconds = time.perf_counter() - start
    tell_all(listeners, EncodeEnded(first.stage, n_tasks, n_bytes, seconds))
    return found
