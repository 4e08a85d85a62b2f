"""Events of a search, and listeners that write progress lines."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

#: The remaining time is estimated from this many recent rounds, because later rounds take longer.
RECENT_ROUNDS = 5


@dataclass(frozen=True)
class RoundStarted:
    """A round of the search begins.

    Attributes
    ----------
    rank : int
        Rank of the feature that the round will choose, from 1.
    n_features : int
        Number of features to choose in all rounds.
    n_candidates : int
        Number of features that can still be chosen.
    method : str
        Label of the method.

    Examples
    --------
    >>> RoundStarted(rank=1, n_features=30, n_candidates=500).rank
    1
    """

    rank: int
    n_features: int
    n_candidates: int
    method: str = "hofs"


@dataclass(frozen=True)
class CompileStarted:
    """The compilation of kernels begins, before a scan or an encoding.

    Compiled kernels are kept on disk, so each one is compiled once per type of machine.

    Attributes
    ----------
    kernels : tuple of str
        Names of the kernels to compile.

    Examples
    --------
    >>> CompileStarted(("add_counts", "pair_terms")).kernels
    ('add_counts', 'pair_terms')
    """

    kernels: tuple[str, ...]


@dataclass(frozen=True)
class ScanStarted:
    """A scan over all samples begins.

    Attributes
    ----------
    rank : int
        Rank of the round to which the scan belongs, the lowest rank if several searches share the
        scan. It is 0 for the scan before the first round, which counts the codes of every feature.
    reduction : str
        Names of the reductions, as in the names of the Dask tasks, joined with ``+``.
    n_reductions : int
        Number of reductions.

    Examples
    --------
    >>> ScanStarted(2, reduction="pair-terms x2 + posterior-gains", n_reductions=3).n_reductions
    3
    """

    rank: int
    reduction: str
    n_reductions: int = 1


@dataclass(frozen=True)
class ScanEnded:
    """A scan over all samples has ended.

    Attributes
    ----------
    rank : int
        Rank of the round to which the scan belongs, the lowest rank if several searches share the
        scan. It is 0 for the scan before the first round, which counts the codes of every feature.
    reduction : str
        Names of the reductions, as in the names of the Dask tasks, joined with ``+``.
    n_reductions : int
        Number of reductions.
    n_bytes : int
        Bytes of the store that the scan used, including chunks that workers had in memory: the
        codes of all features and, once for every tile (the features of one chunk), the labels and
        the columns that the reductions need from other tiles.
    n_cells : int
        Number of samples times features times reductions.
    seconds : float
        Duration of the scan.

    Examples
    --------
    >>> done = ScanEnded(2, "pair-counts", 1, n_bytes=720, n_cells=700, seconds=0.5)
    >>> done.n_cells / done.seconds
    1400.0
    """

    rank: int
    reduction: str
    n_reductions: int
    n_bytes: int
    n_cells: int
    seconds: float


@dataclass(frozen=True)
class RoundEnded:
    """A round of the search has chosen a feature and saved the checkpoint, if there is one.

    Attributes
    ----------
    rank : int
        Rank of the chosen feature, from 1.
    feature : str, int or float
        Name of the chosen feature.
    subset : int
        Number of the subset that the feature joined. Subsets are numbered from 0 in the order in
        which they were opened.
    gain, information : float
        Information about the target, in nats: how much the feature added, and how much all features
        chosen since the last restart have together.
    seconds : float
        Duration of the round, including the checkpoint.
    n_scans : int
        Number of scans in the round; 0 if the counts of earlier rounds were sufficient.
    method : str
        Label of the method.

    Examples
    --------
    >>> ended = RoundEnded(1, "x3", subset=0, gain=0.4, information=0.4, seconds=0.2, n_scans=1)
    >>> ended.feature
    'x3'
    """

    rank: int
    feature: Hashable
    subset: int
    gain: float
    information: float
    seconds: float
    n_scans: int
    method: str = "hofs"


Event = RoundStarted | CompileStarted | ScanStarted | ScanEnded | RoundEnded
Notify = Callable[[Event], None]


def tell_all(listeners: Sequence[Notify], event: Event) -> None:
    """Call every listener with the event.

    Examples
    --------
    >>> tell_all([print], ScanStarted(1, "pair-terms"))
    ScanStarted(rank=1, reduction='pair-terms', n_reductions=1)
    """
    for listener in listeners:
        listener(event)


class _Lines(ABC):
    """Writes lines to a stream; on a terminal, also a transient line that is overwritten."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._transient = 0  # length of the transient line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._write_transient("")

    @abstractmethod
    def __call__(self, event: Event) -> None:
        """Write the lines for an event."""

    def _write(self, line: str) -> None:
        self._write_transient("")
        self._stream.write(line + "\n")
        self._stream.flush()

    def _write_compiling(self, event: CompileStarted) -> None:
        n = len(event.kernels)
        self._write(f"compiling {n} kernel{'s' if n != 1 else ''}, once for this machine")

    def _write_transient(self, text: str) -> None:
        """Replace the transient line; does nothing if the stream is not a terminal."""
        if self._terminal and (text or self._transient):
            erased = " " * self._transient
            self._stream.write(f"\r{erased}\r{text}")
            self._stream.flush()
            self._transient = len(text)


class Progress(_Lines):
    """A listener that writes one line per round.

    On a terminal, a transient line shows the reduction that is running.

    Parameters
    ----------
    stream : file
        Stream to write to.

    Examples
    --------
    >>> with Progress(sys.stdout) as progress:
    ...     progress(RoundStarted(rank=3, n_features=4, n_candidates=9))
    ...     progress(RoundEnded(3, "x3", 0, 0.4, 0.4, seconds=0.2, n_scans=1))
    2 of 4 rounds are saved: resuming
    round 3/4  x3        subset 0  gain 0.4000  information 0.4000   1 scan     0.2 s  eta 0.2 s
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._n_features = 0
        self._name_width = 8
        self._recent: deque[float] = deque(maxlen=RECENT_ROUNDS)

    def __call__(self, event: Event) -> None:
        """Write the lines for an event."""
        match event:
            case RoundStarted():
                if self._n_features == 0 and event.rank > 1:
                    kept = f"{event.rank - 1} of {event.n_features} rounds are saved: resuming"
                    self._write(kept)
                self._n_features = event.n_features
            case CompileStarted():
                self._write_compiling(event)
            case ScanStarted():
                self._write_transient(f"{self._round(event.rank)}  {event.reduction} ...")
            case RoundEnded():
                if event.rank > 2:  # the first two rounds may need fewer reductions than later ones
                    self._recent.append(event.seconds)
                self._write(self._line(event))

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
            duration(event.seconds),
        ]
        if event.rank < self._n_features and self._recent:
            left = (self._n_features - event.rank) * sum(self._recent) / len(self._recent)
            parts.append(f"eta {duration(left)}")
        return "  ".join(parts)

    def _round(self, rank: int) -> str:
        if rank == 0:
            return "start"
        return f"round {rank:{len(str(self._n_features))}}/{self._n_features}"


class ScanProgress(_Lines):
    """A listener that writes one line per scan.

    The line has the reductions of the scan and the number of features that each method has chosen.

    Parameters
    ----------
    stream : file
        Stream to write to.

    Examples
    --------
    >>> with ScanProgress(sys.stdout) as progress:
    ...     progress(RoundEnded(1, "x3", 0, 0.4, 0.4, seconds=0.2, n_scans=1, method="jmi"))
    ...     progress(ScanStarted(2, "pair-terms x2", n_reductions=2))
    ...     progress(ScanEnded(2, "pair-terms x2", 2, n_bytes=720, n_cells=1400, seconds=0.5))
    scan 1    0.5 s  pair-terms x2  (chosen: jmi 1)
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._n_scans = 0
        self._chosen: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        """Write the lines for an event."""
        match event:
            case RoundEnded():
                self._chosen[event.method] = event.rank
            case CompileStarted():
                self._write_compiling(event)
            case ScanStarted():
                self._write_transient(f"scan {self._n_scans + 1}  {event.reduction} ...")
            case ScanEnded():
                self._n_scans += 1
                far = ", ".join(f"{method} {rank}" for method, rank in self._chosen.items())
                chosen = f"  (chosen: {far})" if far else ""
                time = duration(event.seconds)
                self._write(f"scan {self._n_scans}  {time}  {event.reduction}{chosen}")


def progress_stream(progress: bool | None) -> TextIO | None:
    """Return the stream for progress lines, or None if no lines are to be written.

    Parameters
    ----------
    progress
        Whether to write progress lines. None means only if standard error is a terminal.

    Examples
    --------
    >>> progress_stream(False) is None
    True
    """
    stream: TextIO | None = sys.stderr
    if stream is None or progress is False or (progress is None and not stream.isatty()):
        return None
    return stream


def duration(seconds: float) -> str:
    """Return a duration as text of fixed width.

    Examples
    --------
    >>> [duration(seconds).strip() for seconds in (1.23, 34, 300, 9000)]
    ['1.2 s', '34 s', '5 min', '2.5 h']
    """
    if seconds < 9.95:
        text = f"{seconds:.1f} s"
    elif seconds < 120:
        text = f"{seconds:.0f} s"
    elif seconds < 7200:
        text = f"{seconds / 60:.0f} min"
    else:
        text = f"{seconds / 3600:.1f} h"
    return f"{text:>7}"
