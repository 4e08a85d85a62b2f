"""The screens on which progress is shown: a log, a terminal or a notebook."""

from __future__ import annotations

import html
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Minimum interval in seconds between two lines of a log about the same stage.
LOG_INTERVAL = 30.0
#: Seconds after which a terminal shows a bar. Shorter runs do not import rich, which takes 0.2 s.
BAR_DELAY = 0.3
#: Minimum interval in seconds between two updates of a notebook.
NOTEBOOK_INTERVAL = 0.25


@dataclass(frozen=True)
class Status:
    """The progress of the stage that is running.

    Attributes
    ----------
    title : str
        Name of the stage.
    n_ended, n_tasks : int
        Number of tasks that have ended, and number of all tasks (0 if unknown).
    facts : tuple of str
        Further facts, such as the rate and the time left.
    """

    title: str
    n_ended: int = 0
    n_tasks: int = 0
    facts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All facts in one line."""
        return "  ".join(self.facts)


class Screen(ABC):
    """Base class of the screens, which show permanent lines and one status that changes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def line(self, text: str) -> None:
        """Write a permanent line."""

    @abstractmethod
    def status(self, status: Status) -> None:
        """Show a status instead of the previous one."""

    @abstractmethod
    def close(self) -> None:
        """Remove the status."""


class Log(Screen):
    """A screen that writes plain lines to a stream that is not a terminal.

    Parameters
    ----------
    stream : file
        Stream to write to.
    interval : float
        Minimum time in seconds between two lines about the same stage.

    Examples
    --------
    >>> log = Log(sys.stdout, interval=0)
    >>> log.status(Status("start", 1, 4, ("1/4 tasks", "9 s left")))
    start  1/4 tasks  9 s left
    >>> log.line("done")
    done
    """

    def __init__(self, stream: TextIO, interval: float = LOG_INTERVAL) -> None:
        self._stream = stream
        self._interval = interval
        self._written = time.monotonic()

    def line(self, text: str) -> None:
        """Write a line."""
        self._written = time.monotonic()
        self._stream.write(text + "\n")
        self._stream.flush()

    def status(self, status: Status) -> None:
        """Write the status as a line, unless a line was written within the last interval."""
        if status.n_ended and time.monotonic() - self._written >= self._interval:
            self.line(f"{status.title}  {status.text}")

    def close(self) -> None:
        """Do nothing: a log has no status to remove."""


class Terminal(Screen):
    """A terminal that shows lines and, below them, a progress bar that disappears at the end.

    Parameters
    ----------
    stream : file
        The terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._status: Status | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._title = ""
        self._closed = False

    def line(self, text: str) -> None:
        """Write a line above the bar."""
        with self._lock:
            if self._bar is not None:
                self._bar.console.print(text, soft_wrap=True)
            else:
                self._stream.write(text + "\n")
                self._stream.flush()

    def status(self, status: Status) -> None:
        """Update the bar, which first appears `BAR_DELAY` seconds after the first status."""
        with self._lock:
            self._status = status
            if self._bar is not None:
                self._show(self._bar, status)
            elif self._timer is None:
                self._timer = threading.Timer(BAR_DELAY, self._start)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Remove the bar."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        with self._lock:
            if self._closed or self._status is None:
                return
            console = Console(
                file=self._stream, highlight=False, markup=False, emoji=False, force_jupyter=False
            )
            self._bar = Progress(
                TextColumn("{task.description}", table_column=Column(no_wrap=True)),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True)),
                TimeElapsedColumn(),
                console=console,
                transient=True,
                refresh_per_second=4,
                # what a callback prints to the terminal goes above the bar
                redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
                redirect_stderr=True,
            )
            self._show(self._bar, self._status)
            self._bar.start()

    def _show(self, bar: Progress, status: Status) -> None:
        total = status.n_tasks or None
        if self._task is None:
            self._task = bar.add_task(status.title, total=total, text=status.text)
        elif status.title != self._title:  # a new stage: the elapsed time starts again
            bar.reset(self._task, total=total, description=status.title, text=status.text)
        bar.update(self._task, total=total, completed=status.n_ended, text=status.text)
        self._title = status.title


class Notebook(Screen):
    """The output of a notebook cell: one HTML display that is updated, without widgets."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._status: Status | None = None
        self._shown: Any = None  # the handle of the display
        self._updated = 0.0
        self._start = time.monotonic()

    def line(self, text: str) -> None:
        """Add a line."""
        self._lines.append(text)
        self._update()

    def status(self, status: Status) -> None:
        """Update the bar."""
        self._status = status
        self._update()

    def close(self) -> None:
        """Remove the bar and collapse the lines."""
        self._status = None
        if self._lines:
            self._update(last=True)

    def _update(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._updated < NOTEBOOK_INTERVAL:
            return
        self._updated = now
        bundle = {"text/html": self._html(last), "text/plain": "\n".join(self._lines)}
        if self._shown is None:
            from IPython.display import display

            self._shown = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(bundle, raw=True)

    def _html(self, last: bool) -> str:
        lines = html.escape("\n".join(self._lines))
        style = "margin:0;white-space:pre;overflow-x:auto;font-family:monospace"
        pre = f'<pre style="{style}">{lines}</pre>'
        if last:
            told = f"progress: {len(self._lines)} lines in {duration(now_since(self._start))}"
            return f"<details><summary>{told}</summary>{pre}</details>"
        status = self._status
        if status is None:
            return pre
        value = f'value="{status.n_ended}" max="{status.n_tasks}"' if status.n_tasks else ""
        words = html.escape(f"{status.title}  {status.text}")
        return f"{pre}<div><progress {value}></progress> {words}</div>"


def now_since(start: float) -> float:
    """Return the seconds since ``start``, a time of `time.monotonic`."""
    return time.monotonic() - start


def open_screen(progress: bool | None) -> Screen | None:
    """Return the screen on which to show progress, or None to show no progress.

    Parameters
    ----------
    progress
        Whether to show progress. None means to show it only in a notebook or on a terminal.

    Examples
    --------
    >>> open_screen(False) is None
    True
    """
    if progress is False:
        return None
    if _in_notebook():
        return Notebook()
    stream: TextIO | None = sys.stderr
    if stream is None:
        return None
    if stream.isatty():
        return Terminal(stream)
    return Log(stream) if progress else None


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


def duration(seconds: float) -> str:
    """Return a duration as text.

    Examples
    --------
    >>> [duration(seconds) for seconds in (1.23, 34, 300, 9000)]
    ['1.2 s', '34 s', '5 min', '2.5 h']
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
