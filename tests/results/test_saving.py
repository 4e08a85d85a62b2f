"""Saved results: damage is detected, writes are atomic, other files are not touched."""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import stat
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import fsspec  # type: ignore[import-untyped]
import numpy as np
import pytest
import xarray as xr
import zarr

import hofs_dask as hd
from hofs_dask.cli.output import output_check, write_selection
from hofs_dask.io.files import locked
from hofs_dask.results.comparison import Comparison, load
from hofs_dask.results.saving import atomic
from hofs_dask.results.saving.readwrite import write
from hofs_dask.results.selection import Pick, Selection


def made(*order: int, names: tuple[Any, ...] = ("red", "green", "blue", "λ 400")) -> Selection:
    picks = [
        Pick(index, subset=0, score=0.5, gain=0.25, information=0.5, margin=0.1) for index in order
    ]
    attrs = {"method": "mim", "options": "{}", "n_samples": 1000, "share": 0.5}
    return Selection.from_picks(picks, names=names, relevance=[0.1, 0.2, 0.3, 0.0], attrs=attrs)


OLD, NEW = made(0, 1), made(2, 1, 3)


@pytest.fixture(params=[".zarr", ".nc"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == ".nc":
        pytest.importorskip("h5py")
    return tmp_path / "results" / f"result{request.param}"


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def files_of(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


# Damage


def flip(path: Path, place: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def edit(path: Path, rng: random.Random) -> None:
    """Change one value in a JSON document."""
    document = json.loads(path.read_text())
    branches = [document]
    for branch in branches:
        values = branch.values() if isinstance(branch, dict) else branch
        branches += [value for value in values if isinstance(value, dict | list) and value]
    branch = rng.choice(branches)
    key = rng.choice(list(branch)) if isinstance(branch, dict) else rng.randrange(len(branch))
    branch[key] = rng.choice([None, -1, 0, 1, 2**70, 1.5, "", "x", [], {}, [2**40], True, "int64"])
    path.write_text(json.dumps(document))


def mutate(path: Path, rng: random.Random) -> str:
    """Damage a saved result in a random way and return a description."""
    files = files_of(path)
    file, other = rng.choice(files), rng.choice(files)
    content = file.read_bytes()
    kinds = ["flip", "cut", "grow", "zeros"]
    kinds += ["delete", "swap", "copy", "edit", "folder"] if path.is_dir() else []
    kind = rng.choice(kinds)
    if kind == "flip":
        flip(file, rng.randrange(len(content)), rng.randrange(8))
    elif kind == "cut":
        file.write_bytes(content[: rng.randrange(len(content))])
    elif kind == "grow":
        file.write_bytes(content + rng.randbytes(rng.choice([1, 8, 4096])))
    elif kind == "zeros":
        start = rng.randrange(len(content))
        file.write_bytes(
            content[:start] + bytes(min(8, len(content) - start)) + content[start + 8 :]
        )
    elif kind == "delete":
        file.unlink()
    elif kind == "swap":
        swapped = other.read_bytes()
        other.write_bytes(content)
        file.write_bytes(swapped)
    elif kind == "copy":
        other.write_bytes(content)
    elif kind == "edit":
        edit(rng.choice([each for each in files if each.suffix == ".json"]), rng)
    else:
        shutil.copytree(file.parent, path / f"again{rng.randrange(9)}", dirs_exist_ok=True)
    return f"{kind} {file.relative_to(path.parent)}"


def outcome(path: Path) -> Selection | Comparison | str:
    """Return the loaded result, or the message of an expected error."""
    try:
        return load(path)
    except (ValueError, OSError) as error:
        return str(error)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore")  # libraries warn before they raise
def test_load__damaged_files_never_give_another_result(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    result = Comparison.from_selections({"mim": OLD, "jmi": NEW}, attrs={"n_scans": 3})
    result.save(path)
    sound = path.with_name("sound")
    shutil.copytree(path, sound) if path.is_dir() else shutil.copy(path, sound)
    refused = 0
    for _ in range(40):
        case = mutate(path, rng)
        found = outcome(path)
        assert found == result or str(path) in str(found), f"{case}: {found}"
        refused += isinstance(found, str)
        if path.is_dir():
            shutil.rmtree(path)
            shutil.copytree(sound, path)
        else:
            shutil.copy(sound, path)
    assert load(path) == result
    assert refused > 20


def test_load__reports_damage(path: Path) -> None:
    NEW.save(path)
    file = path / "score/c/0" if path.is_dir() else path
    flip(file, 11, 3)
    with pytest.raises(ValueError, match=rf"{path}, a saved .*, is damaged \(.*digest"):
        load(path)


def test_load__memory_is_bounded_by_the_file_size(path: Path) -> None:
    NEW.save(path)
    load(path)  # imports
    tracemalloc.start()
    try:
        load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_load__missing_chunk_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "result.zarr"
    NEW.save(path)
    (path / "selected/c/0").unlink()
    with pytest.raises(ValueError, match=r"is damaged \(selected/c/0 is missing"):
        load(path)


@pytest.mark.parametrize("version", [0, 1, 3, "2", None])
@pytest.mark.parametrize("kind", ["select", "compare"])
def test_load__refuses_other_versions_with_the_command_to_run(
    tmp_path: Path, version: object, kind: str
) -> None:
    path = tmp_path / "result.zarr"
    result = NEW if kind == "select" else Comparison.from_selections({"mim": NEW}, attrs={})
    result.save(path)
    edit_group(path, format_version=version)
    words = f"hofs_dask wrote it; make it again with 'hofs-dask {kind}', at another path"
    with pytest.raises(ValueError, match=rf"result.zarr cannot be read: .* {words}"):
        load(path)
    with pytest.raises(FileExistsError, match=rf"give another path, or remove it .* {words}"):
        result.save(path)


def edit_group(path: Path, **attrs: object) -> None:
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"].update(attrs)
    (path / "zarr.json").write_text(json.dumps(document))


def edit_array(path: Path, **changes: object) -> None:
    document = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps(document | changes))


def grid(*shape: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(shape)}}


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def huge_and_missing(path: Path) -> None:
    edit_array(path / "score", shape=[2**34], chunk_grid=grid(2**34))
    (path / "score/c/0").unlink()


def huge_file_of_nothing(path: Path) -> None:
    edit_array(path / "score", shape=[2**32], chunk_grid=grid(2**32))
    os.truncate(path / "score/c/0", 2**35)


def huge_number_of_words(path: Path) -> None:
    (path / "selected/c/0").write_bytes(b"\xff\xff\xff\x7f" + bytes(100))


def many_dimensions(path: Path) -> None:
    edit_array(path / "score", shape=[2**33, 2**33, 0], chunk_grid=grid(2**33, 2**33, 1))


def bomb(path: Path) -> None:
    from numcodecs.zstd import Zstd

    (path / "score/c/0").write_bytes(Zstd().encode(bytes(2**27)))
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}]
    edit_array(path / "score", shape=[2**24], chunk_grid=grid(2**24), codecs=codecs)


def consolidated(path: Path) -> None:
    edit_array(path, consolidated_metadata={"kind": "inline", "metadata": {}})


def many_files(path: Path) -> None:
    for number in range(atomic.MOST_ENTRIES):
        (path / f"{number}.txt").touch()


HOSTILE: dict[str, Callable[[Path], None]] = {
    "fifo as chunk": lambda path: fifo(path / "score/c/0"),
    "fifo as metadata": lambda path: fifo(path / "score/zarr.json"),
    "fifo as group": lambda path: fifo(path / "zarr.json"),
    "device as chunk": lambda path: device(path / "score/c/0"),
    "device as group": lambda path: device(path / "zarr.json"),
    "folder as chunk": lambda path: folder(path / "score/c/0"),
    "folder as group": lambda path: folder(path / "zarr.json"),
    "loop as chunk": lambda path: loop(path / "score/c/0"),
    "loop as group": lambda path: loop(path / "zarr.json"),
    "huge and missing": huge_and_missing,
    "huge file of nothing": huge_file_of_nothing,
    "huge number of words": huge_number_of_words,
    "many dimensions": many_dimensions,
    "bomb": bomb,
    "consolidated": consolidated,
    "many files": many_files,
    "deep": lambda path: (path / "zarr.json").write_text("[" * 10**6) and None,
    "long number": lambda path: (path / "zarr.json").write_text("1" * 10**6) and None,
}


@pytest.fixture
def seconds() -> Iterator[None]:
    """Let a test fail if it blocks."""

    def late(*_: object) -> None:
        raise AssertionError("this takes too long")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("seconds")
@pytest.mark.parametrize("harm", HOSTILE.values(), ids=HOSTILE)
def test_load__hostile_files_are_refused_without_waiting_or_much_memory(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "result.zarr"
    NEW.save(path)
    harm(path)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"result.zarr"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("seconds")
@pytest.mark.parametrize("harm", [fifo, folder, loop, device])
def test_load__netcdf_must_be_a_regular_file(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    pytest.importorskip("h5py")
    path = tmp_path / "result.nc"
    NEW.save(path)
    harm(path)
    with pytest.raises((ValueError, OSError), match=r"result.nc"):
        load(path)


class Touch:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_load__runs_no_code(tmp_path: Path) -> None:
    import pickle

    path, proof = tmp_path / "result.zarr", tmp_path / "ran"
    attrs = {"format": "hofs_dask selection", "format_version": 2, "digest": ""}
    (path / "selected").mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / ".zattrs").write_text(json.dumps(attrs))
    metadata = {
        "zarr_format": 2,
        "shape": [1],
        "chunks": [1],
        "dtype": "|O",
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": [{"id": "pickle", "protocol": 5}],
    }
    (path / "selected/.zarray").write_text(json.dumps(metadata))
    (path / "selected/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["rank"]}')
    (path / "selected/0").write_bytes(pickle.dumps(Touch(proof)))
    with pytest.raises(ValueError, match=r"result.zarr is not a saved"):
        load(path)
    assert not proof.exists()


def forged(content: bytes) -> bytes:
    """Return the content of a netCDF file with a recomputed digest."""
    body = content[: content.rindex(b"\nhofs_dask sha256 ")]
    return body + b"\nhofs_dask sha256 " + hashlib.sha256(body).hexdigest().encode()


def netcdf_with(write: Callable[[Any], None], path: Path) -> bytes:
    """Return a saved result with additional content and a recomputed digest."""
    h5py = pytest.importorskip("h5py")
    NEW.save(path)
    with h5py.File(path, "r+") as file:
        write(file)
    content = path.read_bytes()
    return forged(
        content if b"\nhofs_dask sha256 " in content else content + b"\nhofs_dask sha256 "
    )


def add_bomb(file: Any) -> None:
    file.create_dataset("bomb", shape=(2**33,), chunks=(2**20,), compression="gzip")


def add_huge(file: Any) -> None:
    file.create_dataset("huge", shape=(2**33,), dtype="f8")


def add_words(file: Any) -> None:
    import h5py

    file.create_dataset("words", data=["a" * 100] * 10, dtype=h5py.string_dtype())


def add_link(file: Any) -> None:
    import h5py

    file["other"] = h5py.ExternalLink("/dev/zero", "/x")


def add_external(file: Any) -> None:
    file.create_dataset("outside", shape=(8,), dtype="i8", external=[("/etc/hostname", 0, 64)])


def add_group(file: Any) -> None:
    file.create_group("more")


def add_variable(file: Any) -> None:
    file.create_dataset("more", data=np.arange(3))


@pytest.mark.parametrize(
    "write", [add_bomb, add_huge, add_words, add_link, add_external, add_group, add_variable]
)
@pytest.mark.filterwarnings("ignore")
def test_load__netcdf_with_additional_content_is_refused(
    tmp_path: Path, write: Callable[[Any], None]
) -> None:
    path = tmp_path / "result.nc"
    path.write_bytes(netcdf_with(write, path))
    with pytest.raises(ValueError, match=r"result.nc, a saved .*, is damaged"):
        load(path)


def test_load__netcdf_with_a_new_digest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "result.nc"
    path.write_bytes(netcdf_with(lambda file: file.flush(), path))
    assert load(path) == NEW


def test_save__xarray_reads_what_was_written(path: Path) -> None:
    NEW.save(path)
    engine = "zarr" if path.is_dir() else "h5netcdf"
    options = {"consolidated": False} if path.is_dir() else {}
    with xr.open_dataset(path, engine=engine, **options) as data:
        assert data["selected"].values.tolist() == NEW.features
        assert data["forced"].dtype == bool
        assert data.attrs["format_version"] == 2


def test_save__refuses_invalid_names(path: Path) -> None:
    OLD.save(path)
    with pytest.raises(ValueError, match=f"{path} was not written: its content cannot be stored"):
        made(0, 1, names=("\ud800", "b", "c", "d")).save(path)
    assert load(path) == OLD


def test_save__keeps_names_with_unusual_characters(path: Path) -> None:
    result = made(0, 1, names=("a\0b", " ", "", "\n"))
    result.save(path)
    assert load(path) == result


def lie(data: xr.Dataset) -> None:
    data["index"][0] = 9


def lie_about_the_second(data: xr.Dataset) -> None:
    data["runner_up"][..., 0] = 9


def bend(data: xr.Dataset) -> None:
    data["score"] = ("feature", np.zeros(4))


@pytest.mark.parametrize("change", [lie, lie_about_the_second, bend])
def test_load__refuses_invalid_content(path: Path, change: Callable[[xr.Dataset], None]) -> None:
    for result in (NEW, Comparison.from_selections({"mim": NEW, "jmi": NEW}, attrs={})):
        data = result.to_dataset()
        if isinstance(result, Comparison) and change is lie:
            data["index"][1, 2] = 9
        else:
            change(data)
        file = path.with_name(f"{type(result).__name__}{path.suffix}")
        write(data, file)
        words = r"(pick 9|runner-up 9|dimensions)"
        with pytest.raises(ValueError, match=rf"{file} is not a saved .*{words}"):
            load(file)


# Kills


class Killed:
    """An audit hook that kills this process at its nth access to a folder."""

    def __init__(self, folder: Path, moment: int) -> None:
        self.folder, self.left = str(folder), moment

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event.split(".")[0] not in ("open", "os", "shutil"):
            return
        if any(
            isinstance(each, str | Path) and str(each).startswith(self.folder) for each in arguments
        ):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def forked(work: Callable[[], object]) -> int:
    """Run a function in a child process and return its exit status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def content_of(path: Path) -> object:
    found = path if path.exists() else atomic.interrupted(path)
    if found is None:
        return None
    if found.is_file():
        return found.read_bytes()
    return {name: (found / name).read_bytes() for name in atomic.list_files(str(found))}


def anything(_: Path) -> None:
    """Allow every replacement."""


FILES: list[tuple[Any, Any]] = [
    ({"a/b": b"old", "c": b"1"}, {"a/b": b"new", "d": b"2"}),
    (b"old", b"new"),
]


@pytest.mark.processes
@pytest.mark.parametrize("exchange", [atomic.exchange, lambda *_: False], ids=["one", "two"])
@pytest.mark.parametrize(("old", "new"), FILES, ids=["folder", "file"])
@pytest.mark.parametrize("first", [False, True], ids=["replaced", "new"])
def test_put__killed_at_any_step_leaves_the_old_or_the_new_version(
    tmp_path: Path, exchange: atomic.Exchange, old: Any, new: Any, first: bool
) -> None:
    if sys.platform != "linux" and exchange is atomic.exchange:
        pytest.skip("other systems may not have it")
    seen, moment = set(), 0
    while True:
        moment += 1
        path = tmp_path / str(moment) / "result"
        if not first:
            atomic.put(path, old, anything)

        def work(path: Path = path, moment: int = moment) -> None:
            sys.addaudithook(Killed(tmp_path, moment))
            atomic.put(path, new, anything, exchange)

        ended = forked(work)
        found = content_of(path)
        assert found in (new, None if first else old), f"killed at step {moment}"
        if ended == 0:
            break
        assert os.WTERMSIG(ended) == signal.SIGKILL
        seen.add(str(found))
        atomic.put(path, old, anything, exchange)
        assert content_of(path) == old
        assert names_in(path.parent) == ["result"], f"killed at step {moment}"
    assert found == new
    assert names_in(path.parent) == ["result"]
    assert moment > 10
    assert len(seen) == 2  # it was killed before and after


@pytest.mark.processes
def test_save__killed_at_random_moments_leaves_the_old_or_the_new_version(path: Path) -> None:
    rng = random.Random(0)
    OLD.save(path)

    def work() -> None:
        while True:
            NEW.save(path)
            OLD.save(path)

    for _ in range(8):
        child = os.fork()
        if not child:
            try:
                work()
            finally:
                os._exit(1)
        end = time.monotonic() + rng.uniform(0.02, 0.4)
        try:
            while time.monotonic() < end:
                assert load(path) in (OLD, NEW)  # also while it is replaced
        finally:
            os.kill(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)[1]
        assert os.WTERMSIG(ended) == signal.SIGKILL
        assert load(path) in (OLD, NEW)
    NEW.save(path)
    assert load(path) == NEW
    assert names_in(path.parent) == [path.name]


def test_put__keeps_folders_that_may_be_in_use(tmp_path: Path) -> None:
    path = tmp_path / "result"
    prefix = atomic._prefix(path)
    living, foreign = tmp_path / f"{prefix}{'0' * 32}", tmp_path / f"{prefix}{'1' * 32}"
    for each in (living, foreign):
        each.mkdir()
        (each / "lock").touch()
    (living / "new").mkdir()
    (foreign / "letter.txt").write_text("text")
    unlocked = tmp_path / f"{prefix}{'2' * 32}"
    (unlocked / "new").mkdir(parents=True)
    dead = tmp_path / f"{prefix}{'3' * 32}"
    (dead / "new").mkdir(parents=True)
    (dead / "lock").touch()
    with locked(living / "lock"):
        atomic.put(path, b"1", anything)
    assert names_in(tmp_path) == sorted(["result", living.name, foreign.name, unlocked.name])


def test_put__restores_files_that_appeared_after_the_check(tmp_path: Path) -> None:
    path = tmp_path / "result"
    atomic.put(path, {"a": b"old"}, anything)

    def late(one: Path, other: Path) -> bool:
        (other / "letter.txt").write_text("text")
        return atomic.exchange(one, other)

    def check(found: Path) -> None:
        if found.exists() and names_in(found) != ["a"]:
            raise FileExistsError("there is a letter")

    for exchange in (
        late,
        lambda _, other: bool((other / "letter.txt").write_text("text")) and False,
    ):
        (path / "letter.txt").unlink(missing_ok=True)
        with pytest.raises(FileExistsError, match="there is a letter"):
            atomic.put(path, {"a": b"new"}, check, exchange)
        assert content_of(path) == {"a": b"old", "letter.txt": b"text"}
        assert names_in(tmp_path) == ["result"]


def test_load__finds_the_new_version_between_two_renames(tmp_path: Path) -> None:
    path = tmp_path / "result.zarr"
    NEW.save(path)
    workplace = tmp_path / f"{atomic._prefix(path)}{'0' * 32}"
    workplace.mkdir()
    (workplace / "lock").touch()
    path.rename(workplace / "new")
    OLD.save(workplace / "old")
    assert load(path) == NEW
    other = Comparison.from_selections({"mim": OLD}, attrs={})
    with pytest.raises(FileExistsError, match="not a saved comparison"):
        other.save(path)
    OLD.save(path)
    assert load(path) == OLD
    assert names_in(tmp_path) == ["result.zarr"]


@pytest.mark.parametrize("name", ["ranks.csv", "ranks.json"])
def test_write_selection__replaces_tables_atomically(tmp_path: Path, name: str) -> None:
    table, link = tmp_path / name, tmp_path / f"link-{name}"
    link.symlink_to(table)
    write_selection(OLD, str(table))
    before = table.read_text()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(OSError, match=name):
            write_selection(NEW, str(link))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert table.read_text() == before
    write_selection(NEW, str(link))
    assert link.is_symlink()
    assert table.read_text() != before
    assert names_in(tmp_path) == sorted([table.name, link.name])


# Disks


def test_save__full_disk_names_the_path_and_keeps_the_old_version(path: Path) -> None:
    OLD.save(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        with pytest.raises(OSError, match=rf"File too large; nothing was saved at: '{path}'"):
            NEW.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert load(path) == OLD
    assert names_in(path.parent) == [path.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_save__forbidden_folder_names_the_path(path: Path) -> None:
    OLD.save(path)
    path.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(PermissionError, match=f"nothing was saved at: '{path}'"):
            NEW.save(path)
        assert load(path) == OLD
    finally:
        path.parent.chmod(stat.S_IRWXU)


# Paths and URLs


@pytest.mark.parametrize("scheme", ["memory", "local"])
def test_save__refuses_a_url_with_other_content(tmp_path: Path, scheme: str) -> None:
    address = f"{scheme}://{tmp_path}/project"
    system, root = fsspec.core.url_to_fs(address)
    for name in ("notes.txt", "data.zarr/zarr.json"):
        system.makedirs(str(Path(root, name).parent), exist_ok=True)
        system.pipe_file(f"{root}/{name}", b"text")
    for place in (address, f"{address}/data.zarr"):
        with pytest.raises(FileExistsError, match=f"^{place} exists and is not a saved"):
            NEW.save(place)
    assert system.cat_file(f"{root}/notes.txt") == b"text"
    assert system.cat_file(f"{root}/data.zarr/zarr.json") == b"text"
    assert len(system.find(root)) == 2


def test_save__writes_to_a_free_url_once(tmp_path: Path) -> None:
    address = f"memory://{tmp_path}/result.zarr"
    with pytest.raises(
        FileNotFoundError,
        match="no saved selection or comparison or interactions or matrix at memory",
    ):
        load(address)
    OLD.save(address)
    assert load(address) == OLD
    with pytest.raises(FileExistsError, match="give another path, or remove it"):
        NEW.save(address)
    assert load(address) == OLD
    system, root = fsspec.core.url_to_fs(address)
    system.pipe_file(f"{root}/score/c/0", bytes(8))
    with pytest.raises(ValueError, match=rf"{address}, a saved .*, is damaged"):
        load(address)
    with pytest.raises(ValueError, match="is a URL; a .nc file"):
        NEW.save(f"memory://{tmp_path}/result.nc")


def test_load__reads_netcdf_from_a_url(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    OLD.save(tmp_path / "result.nc")
    for address in (f"memory://{tmp_path}/result.nc", "memory://result.nc"):
        system, root = fsspec.core.url_to_fs(address)
        system.pipe_file(root, (tmp_path / "result.nc").read_bytes())
        assert load(address) == OLD


def test_output_check__checks_a_url_before_the_run(tmp_path: Path) -> None:
    address = f"memory://{tmp_path}/result.zarr"
    context, option = click.Context(click.Command("select")), click.Option(["--output"])
    assert output_check("selection")(context, option, address) == address
    OLD.save(address)
    with pytest.raises(click.BadParameter, match="give another path, or remove it"):
        output_check("selection")(context, option, address)
    with pytest.raises(click.BadParameter, match="a .nc file can only be written to a local path"):
        output_check("selection")(context, option, "memory://result.nc")


def test_save__replaces_a_result_at_a_file_url(tmp_path: Path) -> None:
    for address in (f"local://{tmp_path}/a.zarr", f"file://{tmp_path}/b.zarr"):
        OLD.save(address)
        NEW.save(address)
        assert load(address) == NEW
    assert names_in(tmp_path) == ["a.zarr", "b.zarr"]


def test_save__follows_links(path: Path) -> None:
    OLD.save(path)
    link = path.parent.parent / f"link{path.suffix}"
    link.symlink_to(path)
    NEW.save(link)
    assert link.is_symlink()
    assert load(link) == load(path) == NEW
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    for work in (lambda: NEW.save(link), lambda: load(link)):
        with pytest.raises(FileNotFoundError, match=f"{link} is a link to {path}"):
            work()
    assert link.is_symlink()
    assert names_in(path.parent) == []


def test_save__never_deletes_additional_files(tmp_path: Path) -> None:
    path = tmp_path / "result.zarr"
    for name in ("notes.txt", "score/c/1", "more/data.csv"):
        OLD.save(path)
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("text")
        assert load(path) == OLD
        with pytest.raises(
            FileExistsError, match=f"'{name}', which is not part of it and would be deleted"
        ):
            NEW.save(path)
        assert (path / name).read_text() == "text"
        shutil.rmtree(path)
    OLD.save(path)
    zarr.create_array(path, name="mine", data=np.arange(3))
    with pytest.raises(FileExistsError, match="exists and is not a saved selection"):
        NEW.save(path)
    assert zarr.open_array(path, path="mine", mode="r")[:].tolist() == [0, 1, 2]


def test_save__does_not_replace_another_kind_of_result(path: Path) -> None:
    other = Comparison.from_selections({"mim": OLD}, attrs={})
    other.save(path)
    with pytest.raises(FileExistsError, match="exists and is not a saved selection"):
        NEW.save(path)
    assert load(path) == other


def test_save__accepts_long_file_names(tmp_path: Path) -> None:
    path = tmp_path / f"{'a' * 250}.zarr"
    OLD.save(path)
    NEW.save(path)
    assert load(path) == NEW


def test_save__of_interactions_names_what_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "notes").touch()
    x = np.random.default_rng(0).normal(size=(100, 3))
    found = hd.interactions(x, x[:, 0] > 0, top=1)
    with pytest.raises(FileExistsError, match="is not a saved table of interactions, or is a"):
        found.save(tmp_path / "mine.zarr")
