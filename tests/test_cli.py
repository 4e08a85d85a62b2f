"""The command line: every command, exit codes of real processes, and a real terminal."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner, Result

import hofs_dask as hd
from hofs_dask.cli import main, parse_method
from hofs_dask.synthetic import tree_model

# The script where the package is installed with it, else the module.
SCRIPT = Path(sys.executable).with_name("hofs-dask")
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "hofs_dask"]
#: Seconds that a process may take, most of them for imports and compilation on a busy machine.
LONG = 100


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Zarr store of the tree model."""
    path = tmp_path_factory.mktemp("cli") / "tree.zarr"
    tree_model(2000, chunks=500).to_zarr(path, consolidated=False)
    return path


@pytest.fixture(scope="module")
def codes(source: Path) -> Path:
    """Its code store."""
    path = source.with_name("codes.zarr")
    hd.encode(source, "y", path)
    return path


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, hd.Selection]:
    """A code store with many rounds in it, and the result of them all, uninterrupted."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 20_000)
    x = rng.normal(size=(len(y), 24)) + y[:, None] * np.linspace(0.5, 0.1, 24)
    path = tmp_path_factory.mktemp("long") / "codes.zarr"
    hd.encode(x, y, path, chunks=(5000, 24))
    return path, hd.select(path, None, n_features=20)


def test_help__has_an_example_of_every_command() -> None:
    for command in ([], ["encode"], ["select"], ["info"], ["demo"]):
        result = run(*command, "--help")
        assert result.exit_code == 0
        assert f"hofs-dask {' '.join(command)}" in result.output.split("Example:")[1]


def test_encode__writes_what_the_function_writes(source: Path, tmp_path: Path) -> None:
    options = ["--bins", "8", "--chunks", "1000,4", "--target-kind", "class", "--nominal", "x2"]
    result = run("encode", source, tmp_path / "codes.zarr", "--target", "y", *options)
    assert result.exit_code == 0, result.output
    assert "chunks of 1000 samples x 4 features" in result.stdout
    expected = hd.encode(
        source, "y", tmp_path / "other.zarr", bins=8, chunks=(1000, 4), nominal=["x2"]
    )
    written = hd.encode(
        source, "y", tmp_path / "codes.zarr", bins=8, chunks=(1000, 4), nominal=["x2"]
    )
    assert written.fingerprint == expected.fingerprint
    assert written.nominal.tolist() == expected.nominal.tolist()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--bins", "many"], "'many' is neither a number nor auto, width or none"),
        (["--chunks", "1000"], "'1000' is not two numbers such as 100000,64"),
        (["--target-kind", "klass"], "'klass' is not one of"),
        (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "give one"),
    ],
)
def test_encode__wrong_option_is_a_usage_error(
    source: Path, tmp_path: Path, option: list[str], message: str
) -> None:
    result = run("encode", source, tmp_path / "codes.zarr", "--target", "y", *option)
    assert result.exit_code == 2
    assert message in result.stderr


def test_select__netcdf_without_its_library_is_a_usage_error(
    codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hofs_dask.cli.find_spec", lambda _: None)
    result = run("select", codes, "--n-features", 4, "--output", tmp_path / "result.nc")
    assert result.exit_code == 2
    assert "pip install 'hofs-dask[netcdf]'" in " ".join(result.stderr.split())


@pytest.mark.parametrize("ending", ["zarr", "nc"])
def test_select__prints_and_saves_what_the_function_returns(
    codes: Path, tmp_path: Path, ending: str
) -> None:
    if ending == "nc":
        pytest.importorskip("h5py")
    output = tmp_path / f"result.{ending}"
    result = run("select", codes, "--n-features", 4, "--output", output)
    assert result.exit_code == 0, result.output
    expected = hd.select(codes, None, n_features=4)
    assert result.stdout == f"{expected!r}\n"
    assert result.stderr == ""
    assert hd.load(output) == expected


def test_select__estimate_is_a_line_and_runs_nothing(codes: Path, tmp_path: Path) -> None:
    kept = tmp_path / "run"
    result = run("select", codes, "--n-features", 3, "--estimate", "--checkpoint", kept)
    assert result.exit_code == 0
    assert re.fullmatch(r"\S+ MiB of \S+ GiB a worker \(resident .*\)\n", result.output)
    assert not kept.exists()


def test_select__takes_a_source_with_a_target(source: Path) -> None:
    result = run("select", source, "--target", "y", "--n-features", 2)
    assert result.stdout == f"{hd.select(source, 'y', n_features=2)!r}\n"


def test_select__source_without_target_is_a_usage_error(source: Path) -> None:
    result = run("select", source, "--n-features", 2)
    assert result.exit_code == 2
    assert "add --target NAME" in result.stderr


def test_select__options_reach_the_method(codes: Path, tmp_path: Path) -> None:
    options = ["--option", "criterion=sum", "--option", "source=gaussian", "--min-gain", "0.001"]
    output = tmp_path / "result.zarr"
    result = run("select", codes, "--n-features", 3, *options, "--output", output)
    assert result.exit_code == 0, result.output
    method = hd.HOFS(criterion="sum", source="gaussian")
    assert hd.load(output) == hd.select(codes, None, 3, method=method, min_gain=0.001)


def test_select__include_and_exclude_by_name_and_position(codes: Path, tmp_path: Path) -> None:
    options = ["--include", "x5", "--include", "1", "--exclude", "x1"]
    output = tmp_path / "result.zarr"
    result = run("select", codes, "--n-features", 4, *options, "--output", output)
    assert result.exit_code == 0, result.output
    assert hd.load(output) == hd.select(codes, None, 4, include=["x5", 1], exclude=["x1"])


def test_select__features_named_by_numbers_are_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    bands = xr.DataArray(
        rng.normal(size=(500, 3)) + y[:, None],
        dims=("sample", "feature"),
        coords={"feature": [400.0, 412.5, 425.0], "y": ("sample", y)},
    )
    bands.to_dataset(name="bands").to_zarr(tmp_path / "bands.zarr", consolidated=False)
    options = ["--include", "412.5", "--exclude", "425.0"]
    result = run("select", tmp_path / "bands.zarr", "--target", "y", "--n-features", 2, *options)
    assert result.exit_code == 0, result.output
    assert re.findall(r"^ +\d  (\S+)", result.stdout, re.MULTILINE) == ["412.5", "400.0"]


def test_select__progress_goes_to_stderr(codes: Path) -> None:
    result = run("select", codes, "--n-features", 3, "--progress")
    assert [line.split()[1] for line in result.stderr.splitlines()] == ["1/3", "2/3", "3/3"]
    assert "eta" not in result.stdout


def test_select__csv_and_json_hold_the_ranks(codes: Path, tmp_path: Path) -> None:
    expected = hd.select(codes, None, n_features=9)
    for ending in ("csv", "json"):
        for _ in range(2):  # an earlier result is replaced
            result = run("select", codes, "--n-features", 9, "--output", tmp_path / f"r.{ending}")
            assert result.exit_code == 0, result.output
    header, *lines = (tmp_path / "r.csv").read_text().splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["subsets"] == expected.subsets
    assert written["options"]["criterion"] == "joint"
    data = expected.to_dataset()
    for rank, (row, entry) in enumerate(zip(rows, written["ranks"], strict=True)):
        assert row["feature"] == entry["feature"] == expected.features[rank]
        assert float(row["gain"]) == entry["gain"] == data["gain"].values[rank]
        assert int(row["subset"]) == entry["subset"] == data["subset"].values[rank] + 1
        assert entry["relevance"] == data["relevance"].sel(feature=entry["feature"]).item()
    # The last has no runner-up.
    assert rows[-1]["margin"] == ""
    assert written["ranks"][-1]["margin"] is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("result.txt", "should end with one of .zarr .nc .json .csv"),
        ("none/result.zarr", "there is no folder"),
        ("mine.csv", "holds something that is not a result"),
        ("mine.zarr", "holds something that is not a result"),
    ],
)
def test_select__output_is_checked_before_the_run(
    codes: Path, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "notes").write_text("mine")
    options = ["--n-features", 2, "--checkpoint", tmp_path / "run", "--output", tmp_path / name]
    result = run("select", codes, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "hosf"], "unknown method 'hosf'; valid: 'hofs'"),
        (["--option", "treshold=1"], "unknown option of hofs 'treshold'; valid: 'threshold'"),
        (["--option", "threshold=high"], "threshold is 'high'; give a number"),
        (["--option", "criterion=som"], "unknown criterion of HOFS 'som'; valid: 'sum'"),
        (["--option", "criterion"], "give KEY=VALUE"),
        (["--workers", "0"], "0 is not in the range x>=1"),
    ],
)
def test_select__wrong_option_is_a_usage_error(
    codes: Path, arguments: list[str], message: str
) -> None:
    result = run("select", codes, "--n-features", 2, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_parse_method__none_and_numbers_by_the_type_of_the_option() -> None:
    assert parse_method("hofs", ["affinity=none", "threshold=1"]) == hd.HOFS(threshold=1.0)
    assert parse_method("hofs", ["affinity=within"]).affinity == "within"


def test_select__on_processes_equals_threads(codes: Path) -> None:
    # One round of this criterion compiles the least; the demonstration runs all of another.
    options = ["--n-features", 1, "--option", "criterion=sum"]
    result = run("select", codes, *options, "--workers", 2)
    assert result.exit_code == 0, result.output
    assert result.stdout == run("select", codes, *options).stdout


def test_select__no_scheduler_is_a_clear_error(
    codes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hofs_dask.cli.PATIENCE", 1)
    result = run("select", codes, "--n-features", 3, "--scheduler", "tcp://127.0.0.1:9")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no Dask scheduler answered at 'tcp://127.0.0.1:9'")
    assert len(result.stderr.splitlines()) == 1


def test_select__checkpoint_of_another_run_is_refused(codes: Path, tmp_path: Path) -> None:
    command = ["select", codes, "--n-features", 2, "--checkpoint", tmp_path / "run"]
    assert run(*command).exit_code == 0
    result = run(*command, "--option", "criterion=sum")
    assert result.exit_code == 1
    assert "criterion: 'joint' in the checkpoint, 'sum' now" in result.stderr


def test_select__interrupt_without_checkpoint_advises_one(
    codes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, callback: Callable[[object], None], **_: object) -> None:
        callback(hd.RoundStarted(rank=3, n_features=5, n_candidates=7))
        raise KeyboardInterrupt

    monkeypatch.setattr("hofs_dask.api.select", interrupted)
    result = run("select", codes, "--n-features", 5)
    assert result.exit_code == 130
    assert result.stderr == (
        "Interrupted: 2 of 5 rounds were done and are lost; with --checkpoint DIR the same "
        "command goes on where it was cut short.\n"
    )


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


def test_info__says_what_a_path_is(source: Path, codes: Path, tmp_path: Path) -> None:
    options = ["--output", tmp_path / "r.zarr", "--checkpoint", tmp_path / "run"]
    printed = run("select", codes, "--n-features", 2, *options).stdout
    assert run("info", tmp_path / "r.zarr").stdout == printed
    checkpoint = run("info", tmp_path / "run").stdout
    assert re.search(r"rounds +2\n", checkpoint)
    assert re.search(r"criterion +joint\n", checkpoint)
    store = run("info", codes).stdout
    assert "samples   2000" in store
    other = run("info", source)
    assert other.exit_code == 1
    assert "neither a code store nor a saved selection nor a checkpoint" in other.stderr


def test_info__lists_all_targets_of_a_store(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3))
    for position, name in enumerate(("first", "second")):
        target = xr.DataArray(x[:, position] > 0, dims="sample", name=name)
        hd.encode(x, target, tmp_path / "codes.zarr")
    targets = [
        line
        for line in run("info", tmp_path / "codes.zarr").stdout.splitlines()
        if line.startswith("  target")
    ]
    assert [line.split()[1] for line in targets] == ["second,", "first,"]


def test_demo__finds_the_three_families(tmp_path: Path) -> None:
    result = run("demo", "--samples", 3000, "--output", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    assert "rank  feature  subset" in result.stdout
    subsets = {frozenset(subset) for subset in hd.load(tmp_path / "demo" / "result.zarr").subsets}
    assert {"x1", "x4", "x5"} in subsets
    assert (tmp_path / "demo" / "result.png").stat().st_size > 10_000


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
    screen = terminal.wait_for(r"^round  2/20  \S+ +subset .* eta |^code=")
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
