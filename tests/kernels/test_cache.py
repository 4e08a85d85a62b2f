"""Compiled kernels on disk: safe places, whole files, damage, and many processes at once."""

import hashlib
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from numba.types import int32, int64

from hofs_dask.kernels import cache
from hofs_dask.kernels.cache import (
    MAGIC,
    VARIABLE,
    Files,
    KernelCache,
    UnsafeDirectoryError,
    default_directory,
    usable_directory,
)

# Calls a small kernel that calls another, and prints how many were compiled and what it returns.
SCRIPT = """
import numpy as np
from hofs_dask.kernels import hashing
found = hashing.fold_of(0, 8, 4).tolist()
compiled = sum(hashing._set_folds.stats.cache_misses.values())
print(compiled, found)
"""


def start(directory, **options):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, VARIABLE: str(directory), "NUMBA_OPT": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(directory):
    """How many kernels were compiled, and what they returned."""
    process = start(directory)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    compiled, _, found = out.strip().partition(" ")
    return int(compiled), found, err


def kernels_in(directory):
    return sorted(Path(directory).glob("*.kernel"))


# Where


def test_default_directory__is_that_of_the_environment(monkeypatch):
    monkeypatch.setenv(VARIABLE, "/somewhere")
    assert default_directory() == Path("/somewhere")
    monkeypatch.setenv(VARIABLE, "")
    assert default_directory() is None


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has its own place")
def test_default_directory__is_the_users_cache(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_directory() == Path("/caches/hofs_dask")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the convention says to ignore
    assert default_directory() == Path.home() / ".cache" / "hofs_dask"


def test_usable_directory__is_made_for_the_user_alone(safe):
    made = usable_directory(safe / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700
    assert usable_directory(made) == made


def unsafe_link(safe):
    (safe / "other").mkdir()
    (safe / "link").symlink_to(safe / "other")
    return safe / "link"


def unsafe_mode(safe):
    (safe / "open").mkdir()
    (safe / "open").chmod(0o777)
    return safe / "open"


def unsafe_group(safe):
    (safe / "group").mkdir()
    (safe / "group").chmod(0o770)
    return safe / "group"


def unsafe_above(safe):
    (safe / "shared").mkdir()
    (safe / "shared").chmod(0o1777)  # as a directory for temporary files
    return safe / "shared" / "mine"


def unsafe_link_above(safe):
    (safe / "there").symlink_to(unsafe_above(safe).parent)
    return safe / "there" / "mine"


def unsafe_file(safe):
    (safe / "file").write_text("")
    return safe / "file" / "below"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (unsafe_link, "it is a link"),
        (unsafe_mode, "others can write to it"),
        (unsafe_group, "others can write to it"),
        (unsafe_above, "everybody can write to"),
        (unsafe_link_above, "everybody can write to"),
        (lambda _safe: Path("relative"), "is not an absolute path"),
    ],
)
def test_usable_directory__refuses_what_others_could_write_to(safe, make, reason):
    with pytest.raises(UnsafeDirectoryError, match=reason):
        usable_directory(make(safe))


def test_usable_directory__refuses_what_belongs_to_another_user(safe, monkeypatch):
    (safe / "theirs").mkdir(mode=0o700)
    monkeypatch.setattr(cache.os, "geteuid", lambda: 12345)
    with pytest.raises(UnsafeDirectoryError, match="belongs to another user"):
        usable_directory(safe / "theirs")


def test_kernel_cache__says_why_a_directory_is_not_used(safe):
    kept = KernelCache(run, ((int64,),), lambda: unsafe_mode(safe))
    with pytest.warns(UserWarning, match="others can write to it. Set HOFS_DASK_CACHE_DIR to a"):
        assert kept.cache_path is None
    assert kept.load_overload((int64,), None) is None


@pytest.mark.parametrize("where", ["unsafe", "absent", "file"])
def test_kernels__are_compiled_where_there_is_no_cache(safe, where):
    directory = {"unsafe": unsafe_mode, "absent": lambda _: "", "file": unsafe_file}[where](safe)
    compiled, found, err = run(directory)
    assert compiled > 0
    assert len(found) > 2
    assert ("is not used" in err) == (where == "unsafe")
    assert not list(safe.rglob("*.kernel"))


# Files


def test_files__give_back_what_was_written(safe):
    files = Files(safe)
    assert files.read("a.kernel") is None
    files.write("a.kernel", b"content")
    assert files.read("a.kernel") == b"content"
    assert [path.name for path in safe.iterdir()] == ["a.kernel"]
    assert (safe / "a.kernel").stat().st_mode & 0o777 == 0o600


def test_files__that_are_damaged_are_not_there(safe):
    files = Files(safe)
    files.write("a.kernel", b"content")
    whole = (safe / "a.kernel").read_bytes()
    for place in range(len(whole)):
        (safe / "a.kernel").write_bytes(whole[:place])
        assert files.read("a.kernel") is None
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        (safe / "a.kernel").write_bytes(bytes(flipped))
        assert files.read("a.kernel") is None
    (safe / "a.kernel").write_bytes(whole + b"x")
    assert files.read("a.kernel") is None


def test_files__of_others_and_what_is_no_file_are_not_read(safe):
    files = Files(safe)
    body = b"content"
    sealed = MAGIC + hashlib.sha256(body).digest() + body
    (safe / "open.kernel").write_bytes(sealed)
    (safe / "open.kernel").chmod(0o666)
    (safe / "real").write_bytes(sealed)
    (safe / "real").chmod(0o600)
    (safe / "link.kernel").symlink_to(safe / "real")
    os.mkfifo(safe / "pipe.kernel")
    (safe / "folder.kernel").mkdir()
    for name in ("open", "link", "pipe", "folder"):
        assert files.read(f"{name}.kernel") is None
    assert files.read("real") == body


def test_files__a_full_or_absent_directory_costs_nothing_but_time(safe):
    files = Files(safe / "gone")
    files.write("a.kernel", b"content")
    assert files.read("a.kernel") is None
    with files.locked("a.kernel") as held:
        assert not held


def test_lock__is_waited_for_and_given_up(safe, monkeypatch):
    files = Files(safe)
    monkeypatch.setattr(cache, "MOST_SECONDS", 0.1)
    with files.locked("a") as first, files.locked("a") as second:
        assert (first, second) == (True, False)
    monkeypatch.setattr(cache, "MOST_SECONDS", 60.0)
    seen, entered = [], threading.Event()

    def wait():
        entered.set()
        with files.locked("b") as held:
            seen.append(held)

    with files.locked("b") as held:
        assert held
        thread = threading.Thread(target=wait)
        thread.start()
        entered.wait()
        time.sleep(0.1)
        assert not seen
    thread.join(timeout=60)
    assert seen == [True]


class Codegen:
    def magic_tuple(self):
        return ("x86_64", "skylake", "+avx2")


class Target:
    """What of numba's target context a cache asks for."""

    def refresh(self):
        pass

    def codegen(self):
        return Codegen()


def test_kernel_cache__does_not_wait_for_itself_after_an_interruption(safe, monkeypatch):
    kept = KernelCache(run, ((int64,),), lambda: safe)
    assert kept.load_overload((int64,), Target()) is None  # it is to be compiled: locked
    assert list(safe.glob("*.lock"))

    def wait(_seconds):
        raise AssertionError("it waits for its own lock")

    monkeypatch.setattr(cache.time, "sleep", wait)
    assert kept.load_overload((int64,), Target()) is None


def test_lock__that_is_not_held_stays_with_its_holder(safe, monkeypatch):
    files = Files(safe)
    monkeypatch.setattr(cache, "MOST_SECONDS", 0.1)
    with files.locked("a"):
        with files.locked("a") as second:
            assert not second
        assert (safe / "a.lock").exists()
        with files.locked("a") as third:
            assert not third
    assert not (safe / "a.lock").exists()


def test_holds__only_undamaged_files(safe):
    kept = KernelCache(run, ((int64,),), lambda: safe)
    assert not kept.holds((int64,), Target())
    name = kept._file_name((int64,), Codegen())
    (safe / name).write_bytes(b"damaged")
    assert not kept.holds((int64,), Target())
    Files(safe).write(name, b"whole")
    assert kept.holds((int64,), Target())


def test_code__whose_symbols_are_not_found_is_not_loaded(safe, monkeypatch):
    kept = KernelCache(run, ((int64,),), lambda: safe)
    refreshed = []
    target = Target()
    target.refresh = lambda: refreshed.append(True)
    monkeypatch.setattr(cache.rtsys, "initialize", lambda _: None)
    Files(safe).write("a.kernel", pickle.dumps((["no_such_symbol"], ())))
    assert kept._load("a.kernel", target) is None
    assert refreshed == [True]


@pytest.mark.parametrize("what", ["SOURCES", "numba", "llvmlite", "package", "setting"])
def test_file_name__depends_on_all_that_the_code_does(what, monkeypatch):
    kept = KernelCache(run, ((int64,),), lambda: None)
    before = kept._file_name((int64,), Codegen())
    assert before == kept._file_name((int64,), Codegen())
    assert before != kept._file_name((int32,), Codegen())
    if what == "SOURCES":
        monkeypatch.setattr(cache, "SOURCES", "0" * 64)
    elif what == "package":
        monkeypatch.setattr(cache, "PACKAGE_VERSION", "99.0")
    elif what == "setting":
        monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    else:
        monkeypatch.setattr(getattr(cache, what), "__version__", "99.0")
    assert kept._file_name((int64,), Codegen()) != before


# Whole processes


@pytest.mark.processes
def test_second_process__compiles_nothing_and_repairs_what_is_damaged(safe):
    compiled, expected, _ = run(safe)
    files = kernels_in(safe)
    assert compiled == len(files) == 1
    assert run(safe)[:2] == (0, expected)
    rng = random.Random(0)
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole[: rng.randrange(len(whole))])
    assert run(safe)[:2] == (1, expected)
    assert run(safe)[:2] == (0, expected)


@pytest.mark.processes
def test_many_processes__on_an_empty_cache_compile_each_kernel_once(safe):
    processes = [start(safe) for _ in range(6)]
    out = [process.communicate(timeout=300) for process in processes]
    assert all(process.returncode == 0 for process in processes), out
    assert len({text.strip().partition(" ")[2] for text, _ in out}) == 1
    files = kernels_in(safe)
    compiled = [int(text.partition(" ")[0]) for text, _ in out]
    assert sum(compiled) == len(files)
    assert {path.suffix for path in safe.iterdir()} == {".kernel"}


@pytest.mark.processes
def test_process__killed_while_it_compiles_leaves_the_cache_whole(safe):
    expected = run("")[1]
    for delay in (0.5, 1.0, 1.5, 2.0):
        process = start(safe)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert run(safe)[1] == expected
    assert run(safe)[:2] == (0, expected)
