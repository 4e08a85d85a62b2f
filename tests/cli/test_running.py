"""What all commands share: help, errors and warnings, exit codes of real processes, a terminal."""

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
from contextlib import contextmanager
from pathlib import Path

import pytest

import hofs_dask as hd
from hofs_dask.cli import main
from tests.cli.shell import COMMAND, LONG, run, run_process


def test_help__has_an_example_of_every_command() -> None:
    for command in ([], *([name] for name in main.commands)):
        result = run(*command, "--help")
        assert result.exit_code == 0
        assert f"hofs-dask {' '.join(command)}" in result.output.split("Example:")[1]


def test_help__imports_nothing_that_takes_long() -> None:
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


def test_errors__of_unexpected_kinds_are_named(
    codes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("y")

    monkeypatch.setattr("hofs_dask.api.select", broken)
    result = run("select", codes, "--n-features", 5)
    assert result.exit_code == 1
    assert result.stderr == "Error: KeyError: 'y' (--debug shows where)\n"
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
def test_cluster__is_the_one_that_was_asked_for(
    source: Path,
    codes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    arguments: list[str],
) -> None:
    # The demonstration, `compare` and the scripts of deploy/cli start real ones.
    given = []

    @contextmanager
    def noted(scheduler: str | None, workers: int | None) -> Iterator[None]:
        given.append((scheduler, workers))
        yield None

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules[f"hofs_dask.cli.{command}"], "cluster", noted)
    data = source if command == "encode" else codes
    for options in (["--workers", "3"], ["--scheduler", "tcp://host:8786"], []):
        result = run(command, data, *arguments, *options)
        assert result.exit_code == 0, result.output
    assert given == [(None, 3), ("tcp://host:8786", None), (None, None)]


def test_process__exit_codes(tmp_path: Path) -> None:
    version = run_process("--version")
    assert version.returncode == 0
    assert re.fullmatch(r"hofs-dask, version \d+\.\d+\.\d+\n", version.stdout)
    missing = run_process("info", tmp_path / "none")
    assert missing.returncode == 1
    assert missing.stderr == f"Error: no such path: {str(tmp_path / 'none')!r}\n"
    assert run_process("select", "codes.zarr").returncode == 2


def test_process__term_gives_143_and_the_rest_is_done_by_the_same_command(
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
        first = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=LONG)
    finally:
        process.kill()
    assert first.startswith("round  1/20")
    assert process.returncode == 143, rest
    message = rest.splitlines()[-1]
    kept = re.fullmatch(
        rf"Terminated: (\d+) of 20 rounds are kept in {re.escape(str(tmp_path / 'run'))}; "
        "run the same command again to go on from there.",
        message,
    )
    assert kept, rest
    resumed = run(*arguments)
    assert resumed.exit_code == 0, resumed.output
    announced, first = resumed.stderr.splitlines()[:2]
    assert announced == f"{kept[1]} of 20 rounds are kept: going on"
    assert first.startswith(f"round {int(kept[1]) + 1:2}/20")
    assert hd.load(tmp_path / "result.zarr") == expected


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
        """Return the screen once it has the pattern."""
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


def test_terminal__ctrl_c_and_the_same_command_again(
    long_run: tuple[Path, hd.Selection], tmp_path: Path, terminal: Terminal
) -> None:
    codes, expected = long_run
    command = shlex.join(COMMAND) + (
        f" select {codes} --n-features 20 --checkpoint run --output result.zarr; echo code=$?"
    )
    terminal.type(f"cd {tmp_path}")
    terminal.type(command)
    # Nobody asked for progress: it is shown because this is a terminal.
    screen = terminal.wait_for(r"^round  3/20  \S+ +subset .* eta |^code=")
    assert not re.search("^code=", screen, re.MULTILINE), screen
    terminal.interrupt()
    screen = terminal.wait_for(r"^code=\d+")
    assert "code=130" in screen, screen
    kept = re.search(r"^Interrupted: (\d+) of 20 rounds are kept in run;", screen, re.MULTILINE)
    assert kept, screen
    assert "Traceback" not in screen
    assert not (tmp_path / "result.zarr").exists()
    terminal.type(f"clear; {command}")
    screen = terminal.wait_for(r"^code=0")
    rounds = re.findall(r"^round +(\d+)/20", screen, re.MULTILINE)
    assert [int(number) for number in rounds] == list(range(int(kept[1]) + 1, 21))
    assert hd.load(tmp_path / "result.zarr") == expected
