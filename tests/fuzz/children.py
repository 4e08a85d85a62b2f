"""Calls of functions in forked child processes with limits."""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import dask

import hofs_dask
from tests.fuzz.records import Answer, Report
from tests.fuzz.site import Site

#: Bytes that a child may allocate.
ADDRESS_SPACE = 2 * 2**30
#: Time limit of a mutation in seconds.
MUTATION_LIMIT = 20.0

#: Threads that survive a fork: jemalloc, a part of pyarrow, restarts its own.
SAFE_THREADS = ("jemalloc_bg_thd",)

PACKAGE = str(Path(hofs_dask.__file__).parent)
LOG = "log.txt"


def run_in_child(use: Callable[[Path], Answer], folder: Path, time_limit: float) -> Report:
    """Call a function of a folder in a child and return a report."""
    names = [each.read_text().strip() for each in Path("/proc/self/task").glob("*/comm")]
    if len([name for name in names if name not in SAFE_THREADS]) > 1:
        raise RuntimeError(f"threads run in the process to fork: {names}")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            report = _measured(use, folder)
            with os.fdopen(writer, "wb") as stream:
                pickle.dump(report, stream)
        finally:
            os._exit(0)
    os.close(writer)
    content, in_time = _read_all(reader, time_limit)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not in_time:
        return Report(crash=f"more than {time_limit:.0f} s", log=_log_of(folder))
    if os.WIFSIGNALED(status):
        return Report(crash=signal.Signals(os.WTERMSIG(status)).name, log=_log_of(folder))
    if not content:
        return Report(error="the child ended without a report", log=_log_of(folder))
    report: Report = pickle.loads(content)
    return report


def done_in_child(mutate: Callable[[], str], site: Site) -> str:
    """Apply a mutation in a child, because of the libraries that it uses; return a description.

    They start threads, or crash on damaged files.
    """
    report = run_in_child(lambda _: {"done": mutate()}, site.root.parent, MUTATION_LIMIT)
    if report.crash:  # the changes before the crash are a case too
        return f"ended with {report.crash}"
    if report.answer is None:
        if report.error.startswith("builtins.LookupError"):
            raise LookupError(report.error)
        raise RuntimeError(f"{report.error}\n{report.log}")
    return str(report.answer["done"])


def _measured(use: Callable[[Path], Answer], folder: Path) -> Report:
    _confine(folder)
    start = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak memory
    try:
        report = Report(answer=use(folder))
    except BaseException as error:  # noqa: BLE001 - reported
        report = _as_report(error)
    return Report(
        report.answer, report.error, report.is_ours, growth=_memory("VmHWM") - start, log=report.log
    )


def _confine(folder: Path) -> None:
    """Limit the resources of this process, and make a folder its working directory."""
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = _memory("VmSize") + ADDRESS_SPACE
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        resource.setrlimit(limit, (size, size))
    place = folder / "cwd"
    place.mkdir(exist_ok=True)
    os.chdir(place)
    tempfile.tempdir = str(place)
    dask.config.set({"temporary-directory": str(place)})


def _as_report(error: BaseException) -> Report:
    """Return an error as text, and whether the package raised it on purpose."""
    kind = type(error)
    frames = traceback.extract_tb(error.__traceback__)
    ours = (
        frames[-1].filename.startswith(PACKAGE)
        and kind.__module__.partition(".")[0] in ("builtins", "hofs_dask")
        and isinstance(error, ValueError | TypeError | OSError | MemoryError)
        and bool(str(error))
    )
    log = "".join(traceback.format_exception(error))
    return Report(error=f"{kind.__module__}.{kind.__qualname__}: {error}", is_ours=ours, log=log)


def _read_all(reader: int, time_limit: float) -> tuple[bytes, bool]:
    """Return the content of a pipe until it is closed, and whether that was in time."""
    end, parts = time.monotonic() + time_limit, []
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while select.select([stream], [], [], max(end - time.monotonic(), 0))[0]:
            part = stream.read(2**16)
            if not part:
                return b"".join(parts), True
            parts.append(part)
    return b"", False


def _log_of(folder: Path) -> str:
    return (folder / LOG).read_text(errors="replace")[-4000:] if (folder / LOG).exists() else ""


def _memory(name: str) -> int:
    """Return a memory statistic of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)
