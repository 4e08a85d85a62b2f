"""Behaviour of all commands: help, errors, warnings, exit codes, signals and terminals."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

import hofs_dask as hd
from hofs_dask.cli import main
from tests.cli.shell import COMMAND, LONG, run, run_process

pytestmark = pytest.mark.processes


def test_help__has_an_example_of_every_command() -> None:
    for command in ([], *([name] for name in main.commands)):
        result = run(*command, "--help")
        assert result.exit_code == 0
        assert f"hofs-dask {' '.join(command)}" in re.split("Examples?:\n", result.output)[1]


def test_help__makes_no_slow_imports() -> None:
    program = "import sys; from hofs_dask.cli import main; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = {name.split(".")[0] for name in done.stdout.split()}
    assert "hofs_dask" in imported
    assert not imported & {"dask", "distributed", "matplotlib", "numba", "numpy", "xarray", "zarr"}


def test_warnings__are_one_line(codes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warned(*_: object, **__: object) -> str:
        warnings.simplefilter("always")
        warnings.warn("a class has one sample\nonly", stacklevel=1)
        return "a result"

    monkeypatch.setattr("hofs_dask.api.select", warned)
    assert run("select", codes, "--n-features", 5).stderr == (
        "Warning: a class has one sample only\n"
    )


def test_errors__unexpected_types_are_named(codes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("y")

    monkeypatch.setattr("hofs_dask.api.select", broken)
    result = run("select", codes, "--n-features", 5)
    assert result.exit_code == 1
    assert result.stderr == "Error: KeyError: 'y' (--debug shows the traceback)\n"
    assert isinstance(run("select", codes, "--n-features", 5, "--debug").exception, KeyError)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("encode", ["out.zarr", "--target", "y"]),
        ("select", ["--n-features", "1", "--method", "mim"]),
        ("compare", ["--n-features", "1", "--method", "mim"]),
        ("matrix", ["--output", "matrix.csv"]),
    ],
)
def test_cluster__matches_the_options(
    source: Path,
    codes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    arguments: list[str],
) -> None:
    # Other tests start real clusters: `demo`, `compare` and deploy/cli.
    given = []

    @contextmanager
    def noted(scheduler: str | None, workers: int | None, target: str | None) -> Iterator[None]:
        given.append((scheduler, workers, target))
        yield None

    monkeypatch.chdir(tmp_path)
    module = "searching" if command in ("select", "compare") else command
    monkeypatch.setattr(sys.modules[f"hofs_dask.cli.{module}"], "cluster", noted)
    data = source if command == "encode" else codes
    for options in (
        ["--workers", "3"],
        ["--scheduler", "tcp://host:8786"],
        ["--cluster", "ssh:c.yaml"],
        [],
    ):
        result = run(command, data, *arguments, *options)
        assert result.exit_code == 0, result.output
    assert given == [
        (None, 3, None),
        ("tcp://host:8786", None, None),
        (None, None, "ssh:c.yaml"),
        (None, None, None),
    ]


def test_process__exit_codes_of_success_and_errors(tmp_path: Path) -> None:
    version = run_process("--version")
    assert version.returncode == 0
    assert re.fullmatch(r"hofs-dask, version \d+\.\d+\.\d+\n", version.stdout)
    missing = run_process("info", tmp_path / "none")
    assert missing.returncode == 1
    assert missing.stderr == f"Error: no such path: {str(tmp_path / 'none')!r}\n"
    assert run_process("select", "codes.zarr").returncode == 2


def test_process__sigterm_exits_with_143_and_the_same_command_resumes(
    long_run: tuple[Path, hd.Selection], tmp_path: Path
) -> None:
    codes, expected = long_run
    arguments = ["select", codes, "--n-features", 20, "--progress"]
    arguments += ["--checkpoint", tmp_path / "run", "--output", tmp_path / "result.zarr"]
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        while (first := process.stderr.readline()).startswith("compiling"):
            pass  # the first run of a machine
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=LONG)
    finally:
        process.kill()
    assert first.startswith("round  1/20")
    assert process.returncode == 143, rest
    message = rest.splitlines()[-1]
    kept = re.fullmatch(
        rf"Terminated: (\d+) of 20 rounds are saved in {re.escape(str(tmp_path / 'run'))}; "
        "run the same command again to resume.",
        message,
    )
    assert kept, rest
    resumed = run(*arguments)
    assert resumed.exit_code == 0, resumed.output
    announced, first = resumed.stderr.splitlines()[:2]
    assert announced == f"{kept[1]} of 20 rounds are saved: resuming"
    assert first.startswith(f"round {int(kept[1]) + 1:2}/20")
    assert hd.load(tmp_path / "result.zarr") == expected


#: The program with a signal to itself when it begins to import a module.
EARLY = """
import importlib.abc, os, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from hofs_dask.cli import main
main(["info", "none"])
"""


@pytest.mark.parametrize("module", ["click", "hofs_dask.cli.select", "zarr", "numpy"])
def test_process__ctrl_c_during_imports_prints_one_line(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY, module], capture_output=True, text=True, timeout=LONG
    )
    assert done.returncode == 130
    assert done.stderr in ("Aborted!\n", "Interrupted.\n")


def started(*arguments: object) -> subprocess.Popen[str]:
    """Start the program in a new process group, like a shell."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def last_words(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines of stderr without progress."""
    try:
        _, errors = process.communicate(timeout=LONG)
    finally:
        process.kill()
    return [line for line in errors.splitlines() if not line.startswith("round ")]


@pytest.mark.parametrize("gap", [0.0, 0.02, 0.2])
def test_process__ctrl_c_twice_prints_one_line(
    long_run: tuple[Path, hd.Selection], gap: float
) -> None:
    process = started("select", long_run[0], "--n-features", 20, "--progress")
    assert process.stderr is not None
    process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(gap)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    words = last_words(process)
    assert process.returncode == 130
    assert len(words) == 1, words
    assert re.match(r"Aborted!$|Interrupted: .+ the same command", words[0])


def children_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "Interrupted"), (signal.SIGTERM, "Terminated")]
)
def test_process__signal_while_workers_start_prints_one_line(
    long_run: tuple[Path, hd.Selection], number: int, word: str
) -> None:
    process = started("select", long_run[0], "--n-features", 20, "--workers", 2)
    end = time.monotonic() + LONG
    while len(children_of(process)) < 2:  # one is the resource tracker of multiprocessing
        assert time.monotonic() < end
        time.sleep(0.01)
    children = children_of(process)
    if number == signal.SIGINT:  # a terminal sends it to the whole process group
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    words = last_words(process)
    assert process.returncode == 128 + number, words
    assert len(words) == 1, words
    assert words[0].startswith(f"{word}: ")
    assert not psutil.wait_procs(children, timeout=10)[1]


def test_process__lost_scheduler_prints_one_line(
    long_run: tuple[Path, hd.Selection], tmp_path: Path
) -> None:
    program = (
        "import time; from distributed import LocalCluster\n"
        "c = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol='tcp://', "
        "host='127.0.0.1', dashboard_address='127.0.0.1:0')\n"
        "print(c.scheduler_address, flush=True); time.sleep(100)"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as scheduler:
        try:
            assert scheduler.stdout is not None
            address = scheduler.stdout.readline().strip()
            arguments = ["select", long_run[0], "--n-features", 20, "--progress"]
            process = started(*arguments, "--scheduler", address)
            assert process.stderr is not None
            while (first := process.stderr.readline()).startswith("compiling"):
                pass  # the first run of a machine
        finally:
            scheduler.kill()
    words = last_words(process)
    assert first.startswith("round  1/20")
    assert process.returncode == 1
    assert words == [
        f"Error: the connection to the scheduler at {address} was lost; see its log, start it "
        "again, and run the same command: it resumes from a --checkpoint"
    ]


class Terminal:
    """A shell in a terminal of tmux."""

    def __init__(self, name: str) -> None:
        self._tmux = ["tmux", "-L", name, "-f", "/dev/null"]
        shell = "env PS1='$ ' bash --noprofile --norc"
        self._call("new-session", "-d", "-x", "180", "-y", "50", shell)

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], check=True, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    def type(self, text: str) -> None:
        self._call("send-keys", "-l", text)
        self._call("send-keys", "Enter")

    def interrupt(self) -> None:
        self._call("send-keys", "C-c")

    def screen(self) -> str:
        return self._call("capture-pane", "-p", "-J", "-S", "-500")

    def wait_for(self, pattern: str) -> str:
        """Wait for a pattern and return the screen."""
        end = time.monotonic() + LONG
        while not re.search(pattern, screen := self.screen(), re.MULTILINE):
            assert time.monotonic() < end, f"no {pattern!r} on the screen:\n{screen}"
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        self._call("kill-server")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    if shutil.which("tmux") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for arguments in (["update", "-q"], ["install", "-y", "-q", "tmux"]):
            subprocess.run(["apt-get", *arguments], capture_output=True, timeout=300)
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed, and could not be")
    terminal = Terminal(f"hofs-dask-{os.getpid()}")
    try:
        yield terminal
    finally:
        terminal.close()


def test_terminal__same_command_resumes_after_ctrl_c(
    long_run: tuple[Path, hd.Selection], tmp_path: Path, terminal: Terminal
) -> None:
    codes, expected = long_run
    command = shlex.join(COMMAND) + (
        f" select {codes} --n-features 20 --checkpoint run --output result.zarr; echo code=$?"
    )
    terminal.type(f"cd {tmp_path}")
    terminal.type(command)
    # Without an option, progress is shown on a terminal.
    screen = terminal.wait_for(r"^round  3/20  \S+ +subset .* eta |^code=")
    assert not re.search("^code=", screen, re.MULTILINE), screen
    terminal.interrupt()
    screen = terminal.wait_for(r"^code=\d+")
    assert "code=130" in screen, screen
    kept = re.search(r"^Interrupted: (\d+) of 20 rounds are saved in run;", screen, re.MULTILINE)
    assert kept, screen
    assert "Traceback" not in screen
    assert not (tmp_path / "result.zarr").exists()
    terminal.type(f"clear; {command}")
    screen = terminal.wait_for(r"^code=0")
    rounds = re.findall(r"^round +(\d+)/20", screen, re.MULTILINE)
    assert [int(number) for number in rounds] == list(range(int(kept[1]) + 1, 21))
    assert hd.load(tmp_path / "result.zarr") == expected
