"""Remote storage: the same result from S3, obstore, zip, icechunk and the web as from the disk."""

import contextlib
import functools
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import icechunk
import numpy as np
import obstore.store
import pytest
import s3fs
import xarray as xr
import zarr
from click.testing import CliRunner
from fsspec.implementations.memory import MemoryFileSystem
from moto.server import ThreadedMotoServer
from obstore.store import S3Store
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore, ZipStore

import hofs_dask as hd
from hofs_dask.cli import main
from hofs_dask.errors import CheckpointError, CodeStoreError
from hofs_dask.io import objects
from hofs_dask.io.files import LockedError
from hofs_dask.io.places import Place, as_place
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.store import codes as codes_module
from tests.deploy.servers import answers, free_port, running, wait_for

pytestmark = [pytest.mark.servers, pytest.mark.processes]

N, M, PICKS = 3000, 12, 4
SECRET = "test-secret-of-nobody"


def make_dataset() -> xr.Dataset:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    x = rng.normal(size=(N, M)).astype(np.float32)
    x[:, 3] += y
    x[:, 7] += x[:, 3] + (y == 1)
    x[rng.random(N) < 0.1, 5] = np.nan
    bands = 400.5 + 10 * np.arange(M)
    return xr.Dataset({"x": (("sample", "band"), x), "y": ("sample", y)}, {"band": bands})


DATASET = make_dataset()
CHUNKS = (512, 5)  # of the code store
ENCODING = {"x": {"chunks": (700, M)}, "y": {"chunks": (700,)}}


@dataclass(frozen=True)
class Bucket:
    """A bucket of an S3 server on loopback."""

    endpoint: str

    @property
    def options(self) -> dict[str, Any]:
        return {"key": "user", "secret": SECRET, "endpoint_url": self.endpoint}

    @property
    def files(self) -> Any:
        return s3fs.S3FileSystem(**self.options)

    def obstore(self, prefix: str) -> ObjectStore:
        store = S3Store(
            "bucket",
            prefix=prefix,
            endpoint=self.endpoint,
            access_key_id="user",
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        return ObjectStore(store)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        made = Bucket(f"http://{host}:{port}")
        made.files.call_s3("create_bucket", Bucket="bucket")
        yield made
    finally:
        server.stop()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remote")
    DATASET.to_zarr(folder / "data.zarr", consolidated=False, encoding=ENCODING)
    hd.encode(folder / "data.zarr", "y", folder / "codes.zarr", chunks=CHUNKS)
    for name in ("data", "codes"):
        shutil.make_archive(str(folder / name), "zip", folder / f"{name}.zarr")
    return folder


def alike(one: hd.Selection, other: hd.Selection) -> bool:
    """Return whether two selections are identical but for the origin of their data."""
    ours, others = (each.to_dataset() for each in (one, other))
    return bool(ours.assign_attrs(fingerprint="").identical(others.assign_attrs(fingerprint="")))


@pytest.fixture(scope="module")
def expected(local: Path) -> hd.Selection:
    return hd.select(local / "data.zarr", "y", PICKS)


@pytest.fixture(scope="module")
def from_codes(local: Path) -> hd.Selection:
    return hd.select(local / "codes.zarr", None, PICKS)


@pytest.fixture(scope="module")
def uploaded(bucket: Bucket, local: Path) -> Bucket:
    for name in ("data.zarr", "codes.zarr"):
        bucket.files.put(str(local / name), f"bucket/{name}", recursive=True)
    return bucket


@pytest.fixture(scope="module")
def web(local: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(local))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def repository(folder: Path) -> icechunk.Repository:
    return icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder)))


def committed(folder: Path) -> icechunk.Session:
    """Return a session of a repository that contains the data."""
    repo = repository(folder)
    session = repo.writable_session("main")
    DATASET.to_zarr(session.store, consolidated=False, encoding=ENCODING, zarr_format=3)
    session.commit("data")
    return repo.readonly_session("main")


# Sources


def test_source__s3_through_fsspec_obstore_and_a_cluster(uploaded, expected, client):
    url = "s3://bucket/data.zarr"
    assert alike(hd.select(url, "y", PICKS, storage_options=uploaded.options), expected)
    assert alike(hd.select(uploaded.obstore("data.zarr"), "y", PICKS), expected)


def test_source__s3_through_fsspec_obstore_and_threads(uploaded, expected):
    url = "s3://bucket/data.zarr"
    assert alike(hd.select(url, "y", PICKS, storage_options=uploaded.options), expected)
    assert alike(hd.select(uploaded.obstore("data.zarr"), "y", PICKS), expected)
    store = FsspecStore.from_url(url, storage_options=uploaded.options, read_only=True)
    assert alike(hd.select(store, "y", PICKS), expected)
    assert alike(hd.select(zarr.open(store, mode="r"), "y", PICKS), expected)


def test_source__zip_icechunk_and_memory(local, expected, tmp_path):
    assert alike(hd.select(local / "data.zip", "y", PICKS), expected)
    assert alike(hd.select(ZipStore(local / "data.zip"), "y", PICKS), expected)
    session = committed(tmp_path / "repo")
    assert alike(hd.select(session, "y", PICKS), expected)
    assert alike(hd.select(session.store, "y", PICKS), expected)
    memory = MemoryStore()
    DATASET.to_zarr(memory, consolidated=False, encoding=ENCODING)
    assert alike(hd.select(memory, "y", PICKS), expected)


def test_source__zip_and_icechunk_on_a_cluster(local, expected, tmp_path, client):
    assert alike(hd.select(local / "data.zip", "y", PICKS), expected)
    assert alike(hd.select(committed(tmp_path / "repo"), "y", PICKS), expected)


def test_source__web_server_without_listings(web, expected, from_codes):
    assert alike(hd.select(f"{web}/data.zarr", "y", PICKS), expected)
    assert alike(hd.select(f"{web}/codes.zarr", None, PICKS), from_codes)


def test_source__virtual_references_to_parts_of_a_file(expected, local, tmp_path):
    # all chunks in one file, and a table of the place of each
    references: dict[str, Any] = {}
    with (tmp_path / "all.bin").open("wb") as stream:
        for path in sorted((local / "data.zarr").rglob("*")):
            if not path.is_file():
                continue
            name, content = str(path.relative_to(local / "data.zarr")), path.read_bytes()
            if path.name == "zarr.json":
                references[name] = content.decode()
            else:
                references[name] = [str(tmp_path / "all.bin"), stream.tell(), len(content)]
                stream.write(content)
    options = {"fo": {"version": 1, "refs": references}, "remote_protocol": "file"}
    store = FsspecStore.from_url("reference://", storage_options=options, read_only=True)
    assert alike(hd.select(store, "y", PICKS), expected)


def test_source__has_a_fingerprint_where_storage_shows_changes(uploaded, tmp_path, bucket):
    url, options = "s3://bucket/data.zarr", uploaded.options
    session = committed(tmp_path / "repo")
    for number, data in enumerate((url, uploaded.obstore("data.zarr"), session)):
        store = tmp_path / f"codes-{number}"
        given = options if isinstance(data, str) else None
        one = hd.encode(data, "y", store, storage_options=given)
        two = hd.encode(data, "y", store, storage_options=given)
        assert one.fingerprint is not None
        assert one.folder == two.folder  # not encoded again


# Code stores


def locations(bucket: Bucket, name: str) -> Iterator[tuple[Any, dict[str, Any] | None]]:
    yield f"s3://bucket/{name}-url", bucket.options
    yield bucket.obstore(f"{name}-obstore"), None
    yield (
        FsspecStore.from_url(f"s3://bucket/{name}-fsspec", storage_options=bucket.options),
        None,
    )
    yield MemoryStore(), None


def test_code_store__is_written_and_read_anywhere(bucket, local, from_codes):
    data = local / "data.zarr"
    for location, options in locations(bucket, "made"):
        codes = hd.encode(data, "y", location, storage_options=options, chunks=CHUNKS)
        assert alike(hd.select(codes, None, PICKS), from_codes)
        assert alike(hd.select(location, None, PICKS, storage_options=options), from_codes)
        one = hd.select(data, "y", PICKS, store=location, storage_options=options)
        assert alike(one, from_codes)  # not encoded again
        assert SECRET not in repr(codes)
        assert SECRET not in repr(codes.root)
    assert alike(hd.select(ZipStore(local / "codes.zip"), None, PICKS), from_codes)
    assert alike(hd.select(local / "codes.zip", None, PICKS), from_codes)


def test_code_store__is_written_and_read_by_a_cluster(bucket, local, from_codes, client):
    data = local / "data.zarr"
    for location, options in locations(bucket, "cluster"):
        if isinstance(location, str | ObjectStore):
            codes = hd.encode(data, "y", location, storage_options=options, chunks=CHUNKS)
            assert alike(hd.select(codes, None, PICKS), from_codes)
    assert alike(hd.select(local / "codes.zip", None, PICKS), from_codes)


def test_code_store__damaged_and_lost_chunks_are_named(bucket, local):
    PROCESS.chunks.clear()  # a store with the same content may have been read before
    for name, location in (("a", "s3://bucket/hurt-a"), ("b", bucket.obstore("hurt-b"))):
        options = bucket.options if isinstance(location, str) else None
        codes = hd.encode(local / "data.zarr", "y", location, storage_options=options)
        files = bucket.files
        key = f"bucket/hurt-{name}/{codes.folder}/codes/c/0/0"
        content = bytearray(files.cat_file(key))
        content[100] ^= 1
        files.pipe_file(key, bytes(content))
        with pytest.raises(CodeStoreError, match=r"chunk \(0, 0\) .* does not match its checksum"):
            hd.select(codes, None, 1)
        files.rm_file(key)
        with pytest.raises(CodeStoreError, match=r"chunk \(0, 0\) .* cannot be read"):
            hd.select(codes, None, 1)


def test_code_store__is_refused_where_it_cannot_be_written(local, tmp_path, web):
    data = local / "data.zarr"
    session = repository(tmp_path / "repo").writable_session("main")
    with pytest.raises(ValueError, match="an icechunk repository takes Zarr arrays only"):
        hd.encode(data, "y", session)
    with pytest.raises(ValueError, match="a ZipStore that can only be read here"):
        hd.encode(data, "y", ZipStore(tmp_path / "new.zip", mode="w"))
    with pytest.raises(ValueError, match="a web address can only be read"):
        hd.select(data, "y", 1, store=f"{web}/new")
    with pytest.raises(ValueError, match="a MemoryStore that can only be read"):
        hd.select(data, "y", 1, checkpoint=MemoryStore(read_only=True))


def test_place__that_is_no_store_or_read_only_is_refused(local, expected, tmp_path):
    data, folder = local / "data.zarr", tmp_path / "kept"
    calls: list[Callable[[Any], Any]] = [
        lambda store: hd.encode(data, "y", store),
        lambda store: hd.select(data, "y", 1, checkpoint=store),
        expected.save,
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"{folder}, a LocalStore that can only be read here"):
            call(LocalStore(folder, read_only=True))
        assert not folder.exists()
        with pytest.raises(TypeError, match=r"builtins.dict is given where something is stored;"):
            call({})
        with pytest.raises(TypeError, match=r"here zarr.storage.ObjectStore\(store\)"):
            call(obstore.store.MemoryStore())


# Results


def test_result__is_saved_and_loaded_anywhere(bucket, expected, tmp_path):
    for location, options in locations(bucket, "result.zarr"):
        expected.to_zarr(location, storage_options=options)
        assert alike(hd.load(location, storage_options=options), expected)
        with pytest.raises(FileExistsError, match="cannot be replaced in one step"):
            expected.to_zarr(location, storage_options=options)
    session = repository(tmp_path / "repo").writable_session("main")
    with pytest.raises(ValueError, match=r"result.to_dataset\(\).to_zarr\(session.store\)"):
        expected.save(session)
    expected.save("s3://bucket/saved.zarr", storage_options=bucket.options)
    assert alike(hd.load("s3://bucket/saved.zarr", storage_options=bucket.options), expected)


# Checkpoints


class InterruptionError(Exception):
    pass


def stop_after(rank: int) -> Any:
    def listen(event: object) -> None:
        if isinstance(event, hd.RoundEnded) and event.rank == rank:
            raise InterruptionError

    return listen


def test_checkpoint__resumes_to_the_identical_result_anywhere(bucket, local, from_codes):
    codes = hd.encode(local / "data.zarr", "y", local / "codes.zarr")
    for location, options in locations(bucket, "run"):
        run = {"checkpoint": location, "storage_options": options}
        for rank in (1, 3):
            with pytest.raises(InterruptionError):
                hd.select(codes, None, PICKS, callback=stop_after(rank), **run)
        place = as_place(location, options)
        assert place.children() == {"checkpoint.npz"}  # and no lock
        assert SECRET.encode() not in place.read("checkpoint.npz", 2**26)
        events: list[Any] = []
        assert alike(hd.select(codes, None, PICKS, callback=events.append, **run), from_codes)
        assert [each.rank for each in events if isinstance(each, hd.RoundEnded)] == [4]


def test_checkpoint__of_a_comparison_on_s3(bucket, local):
    codes = hd.encode(local / "data.zarr", "y", local / "codes.zarr")
    run = {"checkpoint": "s3://bucket/compared", "storage_options": bucket.options}
    found = hd.compare(codes, None, 2, methods=["mim", "jmi"], **run)
    assert found == hd.compare(codes, None, 2, methods=["mim", "jmi"])
    assert as_place("s3://bucket/compared", bucket.options).children() == {"mim", "jmi"}


def test_checkpoint__only_one_run_holds_it_and_unlock_frees_it(bucket, local, from_codes):
    codes = hd.encode(local / "data.zarr", "y", local / "codes.zarr")
    url, options = "s3://bucket/held", bucket.options
    words = f"in use by process {os.getpid()} on .*hofs-dask unlock {url}"
    for place in (as_place(url, options), as_place(bucket.obstore("held-too"))):
        with place.held(), pytest.raises(CheckpointError, match="in use by process"):
            hd.select(
                codes,
                None,
                1,
                checkpoint=place.store or url,
                storage_options=None if place.store else options,
            )
    with Place(url, options).held(), pytest.raises(CheckpointError, match=words):
        hd.select(codes, None, 1, checkpoint=url, storage_options=options)
    # as a killed process leaves it
    bucket.files.pipe_file("bucket/held/lock", b"process 1 on elsewhere 00ff\n")
    with pytest.raises(CheckpointError, match="in use by process 1 on elsewhere"):
        hd.select(codes, None, 1, checkpoint=url, storage_options=options)
    shell = ["--storage-option", f"endpoint_url={bucket.endpoint}"]
    shell += ["--storage-option", "key=user", "--storage-option", f"secret={SECRET}"]
    unlocked = CliRunner().invoke(main, ["unlock", url, *shell])
    assert unlocked.output == "Removed the lock of process 1 on elsewhere\n"
    assert alike(hd.select(codes, None, PICKS, checkpoint=url, storage_options=options), from_codes)


def test_checkpoint__other_objects_are_not_overwritten(bucket, local):
    codes = hd.encode(local / "data.zarr", "y", local / "codes.zarr")
    bucket.files.pipe_file("bucket/thesis/draft.txt", b"draft")
    with pytest.raises(ValueError, match="files that are not part of a checkpoint .'draft.txt'"):
        hd.select(codes, None, 1, checkpoint="s3://bucket/thesis", storage_options=bucket.options)
    assert bucket.files.ls("bucket/thesis") == ["bucket/thesis/draft.txt"]


# Storage that fails


class FlakyFileSystem(MemoryFileSystem):
    """Memory that fails, or returns part of an object, for the first requests of each object."""

    protocol = "flaky"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    n_failures = 0
    error: type[Exception] | None = OSError
    seen: ClassVar[dict[str, int]] = {}
    cachable = False

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        count = self.seen[path] = self.seen.get(path, 0) + 1
        content = super().cat_file(path, start, end, **options)
        if count <= self.n_failures and ("codes/c" in path or path.endswith(".npz")):
            if self.error is None:
                return bytes(len(content))  # stale or mixed up, of the right size
            raise self.error("503 Slow Down")
        return content


fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)


@pytest.fixture
def flaky(local: Path) -> Iterator[hd.CodeStore]:
    codes = hd.encode(local / "data.zarr", "y", "flaky://codes")
    FlakyFileSystem.seen = {}
    yield codes
    FlakyFileSystem.store.clear()
    FlakyFileSystem.n_failures = 0


@pytest.mark.parametrize("error", [OSError, TimeoutError, RuntimeError, None])
def test_storage__that_fails_twice_is_asked_again(flaky, expected, error, monkeypatch):
    monkeypatch.setattr(FlakyFileSystem, "error", error)
    FlakyFileSystem.n_failures = 1 if error is None else 2
    assert alike(hd.select(flaky, None, PICKS), expected)


def test_storage__that_fails_slowly_is_not_asked_again(flaky, monkeypatch):
    monkeypatch.setattr(objects, "PATIENCE", -1.0)
    PROCESS.reset()
    FlakyFileSystem.n_failures = 1
    with pytest.raises(CodeStoreError, match=r"503 Slow Down.*run the same call again"):
        hd.select(flaky, None, 1)
    assert {n for path, n in FlakyFileSystem.seen.items() if "/codes/c/" in path} == {1}


def test_storage__that_keeps_failing_is_named_and_the_checkpoint_resumes(
    flaky, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(FlakyFileSystem, "error", RuntimeError)

    def listen(event: object) -> None:
        if isinstance(event, hd.RoundEnded) and event.rank == 2:
            FlakyFileSystem.n_failures = 10**6

    with pytest.raises(CodeStoreError, match=r"503 Slow Down.*run the same call again"):
        hd.select(
            flaky,
            None,
            PICKS,
            checkpoint=tmp_path / "run",
            callback=lambda event: (listen(event), PROCESS.reset()),
        )
    FlakyFileSystem.n_failures = 0
    assert alike(hd.select(flaky, None, PICKS, checkpoint=tmp_path / "run"), expected)


def test_checkpoint__damaged_on_its_way_is_read_again(flaky, local, monkeypatch):
    codes = local / "codes.zarr"
    expected = hd.select(codes, None, 2)
    hd.select(codes, None, 1, checkpoint="flaky://run")
    monkeypatch.setattr(FlakyFileSystem, "error", None)
    FlakyFileSystem.n_failures, FlakyFileSystem.seen = 1, {}
    assert alike(hd.select(codes, None, 2, checkpoint="flaky://run"), expected)
    FlakyFileSystem.n_failures, FlakyFileSystem.seen = 9, {}
    with pytest.raises(CheckpointError, match="run the same call again; if the error remains"):
        hd.select(codes, None, 2, checkpoint="flaky://run")


@dataclass
class Proxy:
    """A proxy in front of the S3 server, whose requests can fail."""

    endpoint: str
    command: Path

    @property
    def options(self) -> dict[str, Any]:
        config = {"connect_timeout": 3, "read_timeout": 3, "retries": {"max_attempts": 1}}
        keys = {"key": "user", "secret": SECRET}
        return {**keys, "endpoint_url": self.endpoint, "config_kwargs": config}

    def set(self, mode: str) -> None:
        """Let all requests fail in this way, or repair the storage with an empty mode."""
        content = {"mode": mode, "rate": 1.0, "until": time.monotonic() + 1000}
        part = self.command.with_suffix(".part")
        part.write_text(json.dumps(content))
        part.rename(self.command)

    @contextlib.contextmanager
    def failing(self, mode: str) -> Iterator[None]:
        self.set(mode)
        try:
            yield
        finally:
            self.set("")


@pytest.fixture(scope="module")
def served(uploaded: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder, port = tmp_path_factory.mktemp("proxy"), free_port()
    made = Proxy(f"http://127.0.0.1:{port}", folder / "storage.json")
    made.set("")
    server = uploaded.endpoint.rpartition(":")[2]
    command = [sys.executable, "-m", "tests.faults.storage", "127.0.0.1", port, server]
    with running([*command, made.command, "bucket"], folder / "log", os.environ):
        wait_for("the proxy", lambda: answers(port), folder / "log")
        yield made


@pytest.fixture
def proxy(served: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    monkeypatch.setattr(objects, "WAITS", (0.01,))
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    PROCESS.reset()
    return served


def text_of(error: BaseException) -> str:
    """Return the message and the notes of an error."""
    return "; ".join([str(error), *getattr(error, "__notes__", [])])


@pytest.mark.parametrize("mode", ["throttle", "drop"])
def test_storage__that_fails_is_named_by_every_call(proxy, local, expected, mode):
    codes, given = local / "codes.zarr", {"storage_options": proxy.options}
    hd.encode(local / "data.zarr", "y", f"s3://bucket/{mode}-there", **given)
    expected.save(f"s3://bucket/{mode}-loaded.zarr", **given)
    calls: dict[str, Callable[[str], Any]] = {
        "new": lambda url: hd.encode(local / "data.zarr", "y", url, **given),
        "there": lambda url: hd.encode(local / "data.zarr", "y", url, **given),
        "data.zarr": lambda url: hd.select(url, "y", 1, **given),
        "codes.zarr": lambda url: hd.select(url, None, 1, **given),
        "run": lambda url: hd.select(codes, None, 1, checkpoint=url, **given),
        "saved.zarr": lambda url: expected.save(url, **given),
        "loaded.zarr": lambda url: hd.load(url, **given),
    }
    for name, call in calls.items():
        url = f"s3://bucket/{name if name in ('data.zarr', 'codes.zarr') else f'{mode}-{name}'}"
        with proxy.failing(mode), pytest.raises(OSError, match=".") as caught:
            call(url)
        assert url in text_of(caught.value), name
        assert "run the same call again" in text_of(caught.value), name
        call(url)


def test_storage__that_fails_later_is_named_and_the_same_calls_resume(
    proxy, local, expected, tmp_path
):
    def fail(kind: type) -> Callable[[object], None]:
        return lambda event: proxy.set("fail") if isinstance(event, kind) else None

    given = {"storage_options": proxy.options}
    url = "s3://bucket/later"
    calls: list[tuple[str, type, Callable[[Any], Any]]] = [
        (
            f"{url}-codes",
            hd.EncodeStarted,
            lambda listen: hd.encode(
                local / "data.zarr", "y", f"{url}-codes", callback=listen, **given
            ),
        ),
        (
            "s3://bucket/data.zarr",
            hd.EncodeStarted,
            lambda listen: hd.encode(
                "s3://bucket/data.zarr", "y", tmp_path / "codes", callback=listen, **given
            ),
        ),
        (
            f"{url}-run",
            hd.RoundEnded,
            lambda listen: hd.select(
                local / "codes.zarr",
                None,
                PICKS,
                checkpoint=f"{url}-run",
                callback=listen,
                **given,
            ),
        ),
    ]
    for place, kind, call in calls:
        try:
            with pytest.raises(OSError, match=".") as caught:
                call(fail(kind))
        finally:
            proxy.set("")
        text = text_of(caught.value)
        assert place in text
        assert "run the same call again" in text
        left = re.search(r"the lock of .* could not be removed .*hofs-dask unlock (\S+)\)", text)
        assert (left is not None) == place.startswith(url)
        if left:
            assert as_place(left[1], proxy.options).unlock() is not None
        call(None)
    assert alike(hd.select(f"{url}-codes", None, PICKS, **given), expected)


def test_storage__whose_answer_about_the_lock_is_lost(flaky, monkeypatch):
    place = Place("flaky://locked")

    def written_but_lost(files: Any, path: str, content: bytes, **options: Any) -> None:
        MemoryFileSystem.pipe_file(files, path, content, **options)
        raise FileExistsError(path)  # the answer to a request that was sent again

    monkeypatch.setattr(FlakyFileSystem, "pipe_file", written_but_lost, raising=False)
    with place.held():
        assert place.children() == {"lock"}
        with pytest.raises(LockedError, match=f"process {os.getpid()}"), place.held():
            pass
        assert place.children() == {"lock"}
    assert place.children() == set()


def test_storage__that_replaces_an_object_that_exists_has_a_lock(flaky, monkeypatch):
    place = Place("flaky://replaced")

    def replace(files: Any, path: str, content: bytes, **options: Any) -> None:
        MemoryFileSystem.pipe_file(files, path, content)

    monkeypatch.setattr(FlakyFileSystem, "pipe_file", replace, raising=False)
    with place.held():
        before = place.read("lock", 400)
        with pytest.raises(LockedError, match=f"process {os.getpid()}"), place.held():
            pass
        assert place.read("lock", 400) == before
    assert place.children() == set()


def test_storage__that_keeps_the_lock_is_reported(flaky, monkeypatch):
    place = Place("flaky://kept")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("read only")

    with pytest.warns(UserWarning, match="could not be removed .*unlock flaky://kept"):  # noqa: SIM117
        with place.held():
            monkeypatch.setattr(FlakyFileSystem, "rm", refuse)


def test_code_store__whose_manifest_is_stale_is_not_removed(flaky, local, monkeypatch):
    before = flaky.root.children()

    def stale(files: Any, path: str, *rest: Any, **options: Any) -> bytes:
        if path.endswith(".json"):
            raise FileNotFoundError(path)
        return bytes(MemoryFileSystem.cat_file(files, path, *rest, **options))

    with monkeypatch.context() as patch:
        patch.setattr(FlakyFileSystem, "cat_file", stale)
        with pytest.raises(ValueError, match="run the same call again; if the error remains"):
            hd.encode(local / "data.zarr", "y", "flaky://codes", bins=3)
        patch.setattr(codes_module, "store_version", lambda _: codes_module.VERSION)
        with pytest.raises(CodeStoreError, match="listed but cannot be read.*the same call again"):
            hd.encode(local / "data.zarr", "y", "flaky://codes", bins=3)
    assert flaky.root.children() == before


# Options


def test_storage_options__are_checked(local):
    codes = local / "codes.zarr"
    with pytest.raises(ValueError, match="no URL that it applies to"):
        hd.select(codes, None, 1, storage_options={"anon": True})
    with pytest.raises(TypeError, match="storage_options is a str"):
        hd.select("s3://bucket/x", None, 1, storage_options="anon")
    with pytest.raises(ValueError, match="no URL that it applies to"):
        hd.load(codes, storage_options={"anon": True})


def test_shell__reads_and_writes_urls(uploaded, expected, tmp_path):
    options = json.dumps({"endpoint_url": uploaded.endpoint})
    shell = ["--storage-option", f"client_kwargs={options}", "--storage-option", "key=user"]
    shell += ["--storage-option", f"secret={SECRET}"]
    url = "s3://bucket/shell-codes.zarr"
    made = CliRunner().invoke(
        main, ["encode", "s3://bucket/data.zarr", url, "--target", "y", *shell]
    )
    assert made.exit_code == 0, made.output
    result = "s3://bucket/shell-result.zarr"
    run = ["select", url, "--n-features", str(PICKS), "--output", result]
    run += ["--checkpoint", "s3://bucket/shell-run", *shell]
    found = CliRunner().invoke(main, run)
    assert found.exit_code == 0, found.output
    assert alike(hd.load(result, storage_options=uploaded.options), expected)
    for path, word in ((url, "CodeStore"), (result, "430.5"), ("s3://bucket/shell-run", "rounds")):
        shown = CliRunner().invoke(main, ["info", path, *shell])
        assert word in shown.output
        assert SECRET not in shown.output
    bad = CliRunner().invoke(main, ["info", url, "--storage-option", SECRET])
    assert bad.exit_code == 2
    assert SECRET not in bad.output
