"""Drivers: forked processes that make a run on a cluster, and report their events."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import pickle
import select
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dask
from distributed import Client

import hofs_dask as hd
from tests.faults.records import Report, Round
from tests.faults.runs import Run, Site
from tests.fuzz.records import answer_of

#: What a report has in place of a signal if the driver took too long.
HANG = "hang"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


class Driver:
    """A process that makes a run.

    Parameters
    ----------
    run : Run
        The run.
    site : Site
        Its files.
    address : str, optional
        The scheduler; None for Dask's threads.
    namespace : str, optional
        Network namespace of the process.
    patience : float
        Seconds without progress after which the package ends a run with an error.
    """

    def __init__(
        self, run: Run, site: Site, address: str | None, namespace: str | None, patience: float
    ) -> None:
        self.report = Report()
        self._folder = Path(tempfile.mkdtemp(dir=site.reports))
        self._start = time.monotonic()
        self._rest = b""
        self._reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.close(self._reader)
                _main(run, site, address, namespace, patience, writer, self._folder)
            except BaseException:  # noqa: BLE001 - a child must not return
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(writer)

    def watch(self, seconds: float) -> bool:
        """Read events for some time, or until there are any; return whether it ended."""
        if not select.select([self._reader], [], [], max(seconds, 0))[0]:
            return False
        content = os.read(self._reader, 2**16)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            self._note(json.loads(line))
        if content:
            return False
        self._end()
        return True

    def kill(self) -> None:
        """Kill the driver."""
        os.kill(self.pid, signal.SIGKILL)
        while not self.watch(1):
            pass

    def _note(self, event: dict[str, Any]) -> None:
        self.report.n_events += 1
        where = {"RoundStarted": self.report.started, "RoundEnded": self.report.ended}
        if event["event"] in where:
            where[event["event"]].append(Round(event["method"], event["rank"]))

    def _end(self) -> None:
        os.close(self._reader)
        _, status = os.waitpid(self.pid, 0)
        self.report.seconds = time.monotonic() - self._start
        if os.WIFSIGNALED(status):
            self.report.crash = signal.Signals(os.WTERMSIG(status)).name
        result = self._folder / "result"
        if result.exists():
            self.report.answer, self.report.error, self.report.log = pickle.loads(
                result.read_bytes()
            )
        elif not self.report.crash:
            self.report.crash = "no result"
        if not self.report.log:
            self.report.log = (self._folder / "log").read_text(errors="replace")[-3000:]


def _main(
    run: Run,
    site: Site,
    address: str | None,
    namespace: str | None,
    patience: float,
    writer: int,
    folder: Path,
) -> None:
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if namespace is not None:
        _enter(namespace)
    warnings.simplefilter("ignore")
    os.environ["PYTHONWARNINGS"] = "ignore"

    def note(event: str, rank: int = 0, method: str = "") -> None:
        line = {"event": event, "rank": rank, "method": method}
        os.write(writer, f"{json.dumps(line)}\n".encode())

    def listen(event: object) -> None:
        if isinstance(event, hd.Advanced):  # their number depends on the time
            return
        rank, method = getattr(event, "rank", 0), getattr(event, "method", "")
        note(type(event).__name__, rank, method)

    answer, error, log_text = None, "", ""
    scratch = tempfile.mkdtemp(prefix="driver-", dir=site.own.parent)
    settings = {"hofs_dask.timeout": f"{patience} s", "temporary-directory": scratch}
    try:
        with dask.config.set(settings):
            if address is None:
                answer = answer_of(run.result(site, listen))
            else:
                # the client is not closed: this would wait for a scheduler that does not answer
                keep = Client(address, timeout=patience)
                note("Connected")
                answer = answer_of(run.result(site, listen))
                keep.status  # noqa: B018
    except BaseException as caught:  # noqa: BLE001 - reported
        text = "; ".join([str(caught), *getattr(caught, "__notes__", [])])
        error = f"{type(caught).__name__}: {text}"
        log_text = "".join(traceback.format_exception(caught))[-6000:]
    (folder / "partial").write_bytes(pickle.dumps((answer, error, log_text)))
    (folder / "partial").rename(folder / "result")


def _enter(namespace: str) -> None:
    """Move this process to a network namespace; `os.setns` is newer than the oldest Python."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(handle, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    os.close(handle)


def to_end(driver: Driver, limit: float, steps: Sequence[Callable[[], None]] = ()) -> Report:
    """Return the report of a driver; call all steps repeatedly.

    A driver that takes longer is killed, after it wrote the stacks of its threads to its log.
    """
    end = time.monotonic() + limit
    try:
        while time.monotonic() < end:
            if driver.watch(0.02):
                return driver.report
            for step in steps:
                step()
        os.kill(driver.pid, signal.SIGUSR1)
        time.sleep(1)
    except BaseException:
        driver.kill()
        raise
    driver.kill()
    driver.report.crash = HANG
    return driver.report
