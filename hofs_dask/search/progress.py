"""Listeners that show the progress of a run, and estimates of the time left."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import median
from types import TracebackType
from typing import Self

from hofs_dask.events import (
    Advanced,
    CompileStarted,
    EncodeEnded,
    EncodeStarted,
    Event,
    PanelsAdvanced,
    RoundEnded,
    RoundStarted,
    ScanEnded,
    ScanStarted,
)
from hofs_dask.search.screens import Screen, Status, duration

#: Number of recent rounds from which the time of the next rounds is estimated.
RECENT_ROUNDS = 10
#: Seconds over which the rate of a stage is measured.
RATE_WINDOW = 30.0
#: Maximum number of kernels that the line about compilation names.
NAMED_KERNELS = 4

Clock = Callable[[], float]


class TimeLeft:
    """An estimator of the time left, from the durations of the rounds of a search.

    The estimate starts from the median duration of the last five rounds, so that single slow rounds
    do not matter. After four rounds, it also follows a trend: the median change in duration per
    round, over all pairs of the last ten rounds. If k rounds have ended, the trend is continued for
    the next k rounds, and the durations after those are taken as constant. No round is estimated at
    less than half of the median.

    Examples
    --------
    >>> left = TimeLeft()
    >>> for seconds in (2.0, 2.0, 90.0, 2.0, 2.0):  # one worker was restarted
    ...     left.add(seconds)
    >>> left.of_rounds(10)
    20.0
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT_ROUNDS)
        self._n_seen = 0

    def add(self, seconds: float) -> None:
        """Add the duration of a round."""
        self._recent.append(seconds)
        self._n_seen += 1

    def of_rounds(self, n_rounds: int) -> float | None:
        """Return the estimated seconds of the next rounds, or None if no round has ended."""
        if not self._recent:
            return None
        recent = list(self._recent)
        last = recent[-5:]
        level, slope = median(last), 0.0
        if len(recent) >= 4:
            pairs = combinations(enumerate(recent), 2)
            slope = median((b - a) / (j - i) for (i, a), (j, b) in pairs)
        # the median is an estimate for the middle one of the last rounds
        middle = (len(last) - 1) / 2
        steps = (min(ahead, self._n_seen) + middle for ahead in range(1, n_rounds + 1))
        return sum(max(level + slope * step, level / 2) for step in steps)


class _Stage:
    """The stage that is running: a scan, or one of the two reads of an encoding."""

    def __init__(self, title: str, unit: str, clock: Clock, n_bytes: int = 0) -> None:
        self.title = title
        self._unit = unit
        self._n_bytes = n_bytes
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])
        self.compiles = False  # whether the first tasks, and so their rate, wait for a compilation

    def advanced(self, n_ended: int, n_tasks: int, more: Sequence[str] = ()) -> Status:
        """Return the status after ``n_ended`` tasks have ended.

        If ``more`` is given, it is shown instead of the time left of the stage.
        """
        now = self._clock()
        if self.compiles and n_ended:
            self._seen, self.compiles = deque([(now, n_ended)]), False
        self._seen.append((now, n_ended))
        while len(self._seen) > 2 and self._seen[1][0] < now - RATE_WINDOW:
            self._seen.popleft()
        (before, n_before) = self._seen[0]
        rate = (n_ended - n_before) / (now - before) if now > before else 0.0
        facts = [f"{n_ended}/{n_tasks} {self._unit}"]
        if self._n_bytes:
            share = self._n_bytes / n_tasks
            facts.append(f"{size(n_ended * share)} of {size(self._n_bytes)}")
            if rate > 0:
                facts.append(f"{size(rate * share)}/s")
        if more:
            facts += more
        elif n_ended == n_tasks:
            facts.append("finishing")
        elif rate > 0:
            facts.append(f"{duration((n_tasks - n_ended) / rate)} left")
        return Status(self.title, n_ended, n_tasks, tuple(facts))


class Listener(ABC):
    """Base class of listeners that show events on a screen.

    Parameters
    ----------
    screen : Screen
        Where to show the events.
    clock : function
        Returns the time in seconds.
    """

    def __init__(self, screen: Screen, clock: Clock = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock
        self._stage: _Stage | None = None
        self._left = TimeLeft()
        self._compiled = False  # whether kernels were compiled in this round

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._screen.close()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case CompileStarted():
                self._compiled = True
                self._screen.line(_compiling(event))
                self._screen.status(Status("compiling"))
            case EncodeStarted():
                title = f"encoding {_read(event)}"
                self._begin(_Stage(title, "chunks", self._clock, event.n_bytes))
            case EncodeEnded():
                self._screen.line(_encoded(event))
                self._compiled = False
            case ScanStarted():
                self._begin(_Stage(self._title(event), "tasks", self._clock))
            case Advanced():
                if self._stage is not None:
                    more = self._more()
                    self._screen.status(self._stage.advanced(event.n_ended, event.n_tasks, more))
            case RoundStarted() | ScanEnded() | PanelsAdvanced() | RoundEnded():
                self._of_search(event)

    def _begin(self, stage: _Stage) -> None:
        stage.compiles = self._compiled
        self._stage = stage
        self._screen.status(Status(stage.title, facts=tuple(self._more())))

    @abstractmethod
    def _title(self, event: ScanStarted) -> str:
        """Return the title of a scan."""

    @abstractmethod
    def _more(self) -> list[str]:
        """Return the time left of the run as a list with one text; empty if it is unknown."""

    @abstractmethod
    def _of_search(self, event: RoundStarted | ScanEnded | PanelsAdvanced | RoundEnded) -> None:
        """Show an event of a search."""


class RoundProgress(Listener):
    """A listener that writes one line per round.

    Examples
    --------
    >>> import sys
    >>> from hofs_dask.search.screens import Log
    >>> progress = RoundProgress(Log(sys.stdout))
    >>> progress(RoundStarted(rank=3, n_features=4, n_candidates=9))
    2 of 4 rounds are saved: resuming
    >>> progress(RoundEnded(3, "x3", 0, 0.4, 0.4, seconds=0.2, n_scans=1))
    round 3/4  x3        subset 0  gain  0.4000  information  0.4000   1 scan     0.2 s  eta   0.2 s
    """

    def __init__(self, screen: Screen, clock: Clock = time.monotonic) -> None:
        super().__init__(screen, clock)
        self._n_features = 0
        self._at_most = False
        self._rank = 0
        self._name_width = 8
        self._started = clock()

    def _title(self, event: ScanStarted) -> str:
        return f"{self._round(event.rank)}  {event.reduction}"

    def _of_search(self, event: RoundStarted | ScanEnded | PanelsAdvanced | RoundEnded) -> None:
        match event:
            case RoundStarted():
                if self._n_features == 0 and event.rank > 1:
                    whole = "" if event.at_most else f" of {event.n_features}"
                    saved = f"{event.rank - 1}{whole} rounds are saved: resuming"
                    self._screen.line(saved)
                self._n_features, self._rank = event.n_features, event.rank
                self._at_most = event.at_most
                self._started = self._clock()
            case RoundEnded():
                # the first two rounds may need fewer reductions
                if event.rank > 2 and not self._compiled:
                    self._left.add(event.seconds)
                self._compiled = False
                self._screen.line(self._line(event))

    def _more(self) -> list[str]:
        whole = self._left.of_rounds(self._n_features - self._rank + 1)
        if whole is None or self._at_most:
            return []
        left = max(whole - (self._clock() - self._started), 0.0)
        return [f"run: {duration(left)} left"]

    def _line(self, event: RoundEnded) -> str:
        name = str(event.feature)
        self._name_width = max(self._name_width, len(name))
        parts = [
            self._round(event.rank),
            name.ljust(self._name_width),
            f"subset {event.subset:<{len(str(self._n_features))}}",
            f"gain {event.gain:7.4f}",
            f"information {event.information:7.4f}",
            f"{event.n_scans:2} scan{'s' if event.n_scans != 1 else ' '}",
            f"{duration(event.seconds):>7}",
        ]
        left = self._left.of_rounds(self._n_features - event.rank)
        if event.rank < self._n_features and left is not None and not self._at_most:
            parts.append(f"eta {duration(left):>7}")
        return "  ".join(parts)

    def _round(self, rank: int) -> str:
        if rank == 0:
            return "start"
        total = "" if self._at_most else f"/{self._n_features}"
        return f"round {rank:{len(str(self._n_features))}}{total}"


class ScanProgress(Listener):
    """A listener that writes one line per scan.

    The line has the reductions of the scan and the number of features that each method has chosen.

    Examples
    --------
    >>> import sys
    >>> from hofs_dask.search.screens import Log
    >>> progress = ScanProgress(Log(sys.stdout))
    >>> progress(RoundEnded(1, "x3", 0, 0.4, 0.4, seconds=0.2, n_scans=1, method="jmi"))
    >>> progress(ScanEnded(2, "pair-terms x2", 2, n_bytes=720, n_cells=1400, seconds=0.5))
    scan 1    0.5 s  pair-terms x2  (chosen: jmi 1)

    For a comparison of all tuples, the first line states what is compared.

    >>> progress(PanelsAdvanced(2, 38, n_tuples=4950, n_drawn=32768, n_samples=100_000))
    comparing 4,950 tuples on 32,768 of 100,000 samples in 38 scans, 2 of them saved
    """

    def __init__(self, screen: Screen, clock: Clock = time.monotonic) -> None:
        super().__init__(screen, clock)
        self._n_scans = 0
        self._chosen: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._rounds_left = 0
        self._at_most = False
        self._panels: int | None = None
        self._started = clock()

    def _title(self, event: ScanStarted) -> str:
        return f"scan {self._n_scans + 1}  {event.reduction}"

    def _of_search(self, event: RoundStarted | ScanEnded | PanelsAdvanced | RoundEnded) -> None:
        match event:
            case RoundStarted():
                self._wanted[event.method] = event.n_features - event.rank + 1
                self._at_most |= event.at_most
                self._learn()
            case RoundEnded():
                self._chosen[event.method] = event.rank
                self._wanted[event.method] = self._wanted.get(event.method, 1) - 1
            case ScanEnded():
                self._n_scans += 1
                far = ", ".join(f"{method} {rank}" for method, rank in self._chosen.items())
                chosen = f"  (chosen: {far})" if far else ""
                spent = f"{duration(event.seconds):>7}"
                self._screen.line(f"scan {self._n_scans}  {spent}  {event.reduction}{chosen}")
            case PanelsAdvanced():
                self._of_panels(event)

    def _of_panels(self, event: PanelsAdvanced) -> None:
        """Write what will be compared, or add the duration of a panel."""
        now = self._clock()
        if self._panels is None:
            kept = f"{event.n_ended:,} of them saved" if event.n_ended else ""
            drawn = f"{event.n_drawn:,} of " if event.n_drawn < event.n_samples else ""
            scans = f"{event.n_panels:,} scan{'s' * (event.n_panels != 1)}"
            panels = ", ".join(filter(None, [scans, kept]))
            self._screen.line(
                f"comparing {event.n_tuples:,} tuples on {drawn}{event.n_samples:,} samples in "
                f"{panels}"
            )
        elif not self._compiled:
            self._left.add(now - self._started)
        self._started, self._compiled, self._panels = now, False, event.n_ended
        self._rounds_left = event.n_panels - event.n_ended

    def _learn(self) -> None:
        """Add the duration of a round, if the methods with the most rounds left have ended one."""
        left = max(self._wanted.values())
        if left < self._rounds_left:
            now = self._clock()
            if not self._compiled:
                self._left.add((now - self._started) / (self._rounds_left - left))
            self._started, self._compiled = now, False
        elif not self._rounds_left:
            self._started = self._clock()
        self._rounds_left = left

    def _more(self) -> list[str]:
        whole = self._left.of_rounds(self._rounds_left)
        if whole is None or self._at_most:
            return []
        return [f"run: {duration(max(whole - (self._clock() - self._started), 0.0))} left"]


def size(n_bytes: float) -> str:
    """Return a number of bytes as text, in units of 1000.

    Examples
    --------
    >>> [size(n) for n in (0, 999, 1_500_000, 3.4e9)]
    ['0 B', '999 B', '1.5 MB', '3.4 GB']
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n_bytes < 999.5 or unit == "TB":
            break
        n_bytes /= 1000
    digits = 0 if unit == "B" or n_bytes >= 99.95 else 1
    return f"{n_bytes:.{digits}f} {unit}"


def _compiling(event: CompileStarted) -> str:
    n, named = len(event.kernels), event.kernels[:NAMED_KERNELS]
    more = f" and {n - len(named)} more" if n > len(named) else ""
    return (
        f"compiling {n} kernel{'s' if n != 1 else ''}, once for this machine: "
        f"{', '.join(named)}{more}"
    )


def _read(event: EncodeStarted | EncodeEnded) -> str:
    return "1/2" if event.stage == "encode-read" else "2/2"


def _encoded(event: EncodeEnded) -> str:
    did = "read" if event.stage == "encode-read" else "wrote"
    chunks = f"{did} {event.n_tasks} chunk{'s' if event.n_tasks != 1 else ''}"
    facts = [chunks]
    if event.n_bytes:
        facts.append(f"{size(event.n_bytes)} of data, {size(event.n_bytes / event.seconds)}/s")
    return f"encoding {_read(event)}  {duration(event.seconds):>7}  {', '.join(facts)}"
