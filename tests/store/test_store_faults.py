"""Faults of a code store: each one is an error, and no other data is deleted."""

import itertools
import json
import os
import shutil
import threading
from pathlib import Path

import dask
import dask.array as da
import fsspec
import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import hofs_dask as hd
from hofs_dask.cli import main
from hofs_dask.encoding import encode as encode_module
from hofs_dask.errors import CodeStoreError
from hofs_dask.events import RoundEnded
from hofs_dask.io.files import seal, unseal
from hofs_dask.io.places import Place
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.store.chunks import write_chunk
from hofs_dask.store.codes import open_codes

N, M = 900, 6


def make_data(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, M))
    x[rng.random(N) < 0.1, 1] = np.nan
    x[:, 2] = rng.integers(0, 3, N)
    return x, (x[:, 0] + rng.normal(size=N) > 0).astype(int)


X, Y = make_data()


@pytest.fixture
def codes(tmp_path):
    PROCESS.chunks.clear()
    return hd.encode(X, Y, tmp_path / "s", chunks=(300, 4), nominal=["x2"])


@pytest.fixture
def memory():
    """A URL in fsspec's memory with an unrelated file."""
    files = fsspec.filesystem("memory")
    files.pipe_file("/project/thesis.txt", b"draft")
    yield "memory://project"
    files.rm("/project", recursive=True)


def edit_manifest(codes, change):
    """Change the manifest of a store, and seal it with a valid digest."""
    file = Path(codes.path, "manifest.json")
    document = unseal(file.read_bytes())
    change(document)
    file.write_bytes(seal(document))


# Paths


@pytest.mark.parametrize("call", ["encode", "select"])
def test_path__url_with_other_data_is_refused_and_not_changed(memory, call):
    calls = {
        "encode": lambda: hd.encode(X, Y, memory),
        "select": lambda: hd.select(X, Y, 2, store=memory),
    }
    with pytest.raises(ValueError, match="is not empty and not a code store"):
        calls[call]()
    assert fsspec.filesystem("memory").cat_file("/project/thesis.txt") == b"draft"


def test_path__local_url_is_a_local_path(tmp_path):
    (tmp_path / "thesis.txt").write_text("draft")
    for scheme in ("file", "local"):
        with pytest.raises(ValueError, match="is not empty and not a code store"):
            hd.encode(X, Y, f"{scheme}://{tmp_path}")
    assert (tmp_path / "thesis.txt").read_text() == "draft"


def test_path__at_inside_or_above_the_source_is_refused(tmp_path):
    path = tmp_path / "folder" / "x.zarr"
    zarr.create_array(path, data=X)
    for store in (path, path / "codes", tmp_path / "folder"):
        with pytest.raises(ValueError, match="the data at"):
            hd.encode(path, Y, store)
    assert np.array_equal(zarr.open_array(path)[:], X, equal_nan=True)


def test_path__other_files_in_a_store_are_kept(codes):
    Path(codes.path, "notes.txt").write_text("mine")
    hd.encode(X + 1, Y, codes.path)
    assert Path(codes.path, "notes.txt").read_text() == "mine"


def test_path__link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(ValueError, match="is a broken link"):
        hd.encode(X, Y, tmp_path / "link")
    (tmp_path / "target").mkdir()
    hd.encode(X, Y, tmp_path / "link")
    assert open_codes(tmp_path / "target").n_samples == N


# Damage


@pytest.mark.parametrize("name", ["n_codes", "missing_code", "nominal", "values"])
@pytest.mark.parametrize("damage", ["lost", "flipped", "cut", "pipe", "folder", "another"])
def test_tables__error_names_a_damaged_table(codes, name, damage, tmp_path):
    (file,) = (path for path in Path(codes.place, name, "c").rglob("*") if path.is_file())
    content = file.read_bytes()
    file.unlink()
    if damage == "flipped":
        file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    elif damage == "cut":
        file.write_bytes(content[:-5])
    elif damage == "pipe":
        os.mkfifo(file)
    elif damage == "folder":
        file.mkdir()
    elif damage == "another":
        other = hd.encode(X[:, ::-1] * 2, Y, tmp_path / "other", chunks=(300, 4), nominal=["x1"])
        shutil.copy(Path(other.place, file.relative_to(codes.place)), file)
    with pytest.raises(CodeStoreError, match=f"array '{name}' in the code store"):
        open_codes(codes.path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("codes/c/0/0", "codes/c/0/1"),
        ("codes/c/0/0", "codes/c/1/0"),
        ("codes/c/1/2", None),
        ("labels/KEY/c/0", "labels/KEY/c/1"),
        ("labels/KEY/c/1", None),
    ],
)
def test_chunks__error_names_a_swapped_or_missing_chunk(codes, one, other):
    first = Path(codes.place, one.replace("KEY", codes.labels.key))
    if other is None:
        first.unlink()
    else:
        second = Path(codes.place, other.replace("KEY", codes.labels.key))
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    with (
        dask.config.set({"hofs_dask.cache": 0}),  # a task of an earlier test may still fill it
        pytest.raises(CodeStoreError, match=r"chunk \(\d, \d\) of array"),
    ):
        hd.select(codes.path, None, 2)


def test_chunks__pipe_instead_of_a_chunk_does_not_hang(codes):
    file = Path(codes.place, "codes/c/0/1")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CodeStoreError, match=r"chunk \(0, 1\) of array 'codes'"):
        hd.select(codes.path, None, 2)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"null", b"{" * 99_999, b"\xff" * 9])
def test_manifest__invalid_content_is_an_error(codes, content):
    Path(codes.path, "manifest.json").write_bytes(content)
    for call in (open_codes, lambda path: hd.select(path, None, 2)):
        with pytest.raises(CodeStoreError, match=r"manifest of the code store .* cannot be read"):
            call(codes.path)


def test_manifest__flipped_bit_is_an_error(codes):
    file = Path(codes.path, "manifest.json")
    content = file.read_bytes()
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(CodeStoreError, match="cannot be read"):
            open_codes(codes.path)


def test_manifest__pipe_instead_of_a_file_does_not_hang(codes):
    file = Path(codes.path, "manifest.json")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CodeStoreError, match="not a regular file"):
        open_codes(codes.path)


# Forged content with valid checksums


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["targets"][0]["classes"].pop(),
        lambda document: document["targets"][0].update(classes=[0], counts=[N], values=[0.0]),
        lambda document: document["content"].update(bits=1),
        lambda document: document["content"].update(bits=64),
        lambda document: document["content"].update(n_samples=10**15, chunks=[10**15, 4]),
        lambda document: document["content"].update(n_samples=10**15),
        lambda document: document["content"].update(chunks=[0, 4]),
        lambda document: document["content"]["names"].pop(),
        lambda document: document["content"]["tables"].pop("values"),
        lambda document: document["content"]["tables"]["values"].update(shape=[M, 10**12]),
        lambda document: document["content"]["tables"]["values"].update(dtype="|O"),
        lambda document: document.update(folder="../elsewhere"),
        lambda document: document["targets"][0].update(key="../../elsewhere"),
        lambda document: document["targets"].clear(),
        lambda document: document.update(fingerprint=[]),
        lambda document: document.update(n_absent=-1),
    ],
)
def test_manifest__inconsistent_parts_are_an_error(codes, change):
    edit_manifest(codes, change)
    with pytest.raises(CodeStoreError):
        hd.select(codes.path, None, 2)


@pytest.mark.parametrize("method", ["hofs", "jmi", "vmi", hd.HOFS(criterion="sum")])
def test_codes__out_of_range_are_an_error(codes, method):
    whole = np.full((4, codes.bits, 5), 2**64 - 1, np.uint64)
    checksum = write_chunk(codes.place, "codes/c/0/1", whole)

    def change(document):
        content = document["content"]
        content["checksums"] = (
            content["checksums"][:8] + f"{checksum:08x}" + (content["checksums"][16:])
        )

    edit_manifest(codes, change)
    message = r"chunk \(0, 1\) of array 'codes' .* above the maximum"
    with pytest.raises(CodeStoreError, match=message):
        hd.select(codes.path, None, 2, method=method)


def test_labels__out_of_range_are_an_error(codes):
    name = f"labels/{codes.labels.key}"
    checksum = write_chunk(codes.place, f"{name}/c/1", np.full(300, 7, np.uint8))

    def change(document):
        target = document["targets"][0]
        target["checksums"] = target["checksums"][:8] + f"{checksum:08x}" + target["checksums"][16:]

    edit_manifest(codes, change)
    with pytest.raises(CodeStoreError, match="has a class that the target does not have"):
        hd.select(codes.path, None, 2)


# Concurrent processes


@pytest.mark.parametrize("event", ["replaced", "removed"])
def test_select__store_replaced_or_removed_during_the_run_is_an_error(codes, event):
    x, y = make_data(seed=1)

    def meddle(what):
        if isinstance(what, RoundEnded) and what.rank == 1:
            if event == "replaced":
                hd.encode(x, y, codes.path, chunks=(300, 4))
            else:
                shutil.rmtree(codes.path)

    with (
        dask.config.set({"hofs_dask.cache": 0}),
        pytest.raises(CodeStoreError, match="encoded again or removed after it was opened"),
    ):
        hd.select(codes, None, 4, callback=meddle)
    assert Path(codes.path).exists() == (event == "replaced")
    PROCESS.chunks.clear()
    fresh = hd.encode(x, y, codes.path, chunks=(300, 4))
    assert fresh.identity == open_codes(codes.path).identity


def test_encode__second_writer_is_refused(tmp_path, monkeypatch):
    """Two threads suffice, because a lock belongs to an open file, not to a process."""
    inside, go = threading.Event(), threading.Event()
    write = encode_module.write_manifest

    def slow(*arguments):
        inside.set()
        assert go.wait(60)
        write(*arguments)

    monkeypatch.setattr(encode_module, "write_manifest", slow)
    first = threading.Thread(target=hd.encode, args=(X, Y, tmp_path / "s"))
    first.start()
    try:
        assert inside.wait(60)
        with pytest.raises(CodeStoreError, match=rf"written by process {os.getpid()} on .*; wait"):
            hd.encode(X + 1, Y, tmp_path / "s")
    finally:
        go.set()
        first.join()
    assert open_codes(tmp_path / "s").n_samples == N
    monkeypatch.undo()
    hd.encode(X + 1, Y, tmp_path / "s")


def test_lock__error_of_a_remote_store_names_owner_and_unlock_command():
    url = "memory://locked/s"
    words = f"process {os.getpid()} on .* unlock"
    with Place(url).held(), pytest.raises(CodeStoreError, match=words):
        hd.encode(X, Y, url)
    fsspec.filesystem("memory").pipe_file("/locked/s/lock", b"process 1 on elsewhere\n")
    with pytest.raises(CodeStoreError, match=f"1 on elsewhere .*hofs-dask unlock {url}"):
        hd.encode(X, Y, url)
    result = CliRunner().invoke(main, ["unlock", url])
    assert result.output == "Removed the lock of process 1 on elsewhere\n"
    assert "no code store" in str(CliRunner().invoke(main, ["unlock", url]).output)
    assert hd.encode(X, Y, url).n_samples == N
    assert CliRunner().invoke(main, ["unlock", url]).output == f"{url} is not locked\n"
    assert not fsspec.filesystem("memory").exists("/locked/s/lock")
    fsspec.filesystem("memory").rm("/locked", recursive=True)


def test_lock__link_is_not_followed(tmp_path):
    (tmp_path / "thesis.txt").write_text("draft")
    for link in (os.symlink, os.link):
        (tmp_path / "s").mkdir()
        link(tmp_path / "thesis.txt", tmp_path / "s" / "lock")
        with pytest.raises(OSError):
            hd.encode(X, Y, tmp_path / "s")
        assert (tmp_path / "thesis.txt").read_text() == "draft"
        shutil.rmtree(tmp_path / "s")


# Sources that change or have wrong metadata


def test_encode__target_that_differs_between_reads_keeps_the_earlier_store(codes):
    reads = itertools.count()

    def flip(block):
        changed = block.astype(float)
        changed[: 5 if next(reads) < 6 else 10] = np.nan
        return changed

    target = da.from_array(Y, chunks=300).map_blocks(flip, dtype=float, meta=np.zeros(0))
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(ValueError, match="changed while it was read, or its tasks are random"),
    ):
        hd.encode(X * 2, target, codes.path, target_kind="class")
    assert open_codes(codes.path).identity == codes.identity
    assert len(list(Path(codes.path).glob("codes-*"))) == 1


def test_encode__block_shorter_than_its_declared_size_is_an_error(tmp_path):
    data = da.from_array(X, chunks=(300, M)).map_blocks(
        lambda block: block[:-1], chunks=((300,) * 3, (M,)), meta=np.zeros((0, 0))
    )
    with pytest.raises(ValueError, match="its chunks declare 300"):
        hd.encode(data, Y, tmp_path / "s", chunks=(300, M))
    assert not (tmp_path / "s").exists()


def test_encode__source_that_changes_during_encoding_is_an_error(tmp_path):
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=X, chunks=(300, M))

    def meddle(block):
        zarr.open_array(path, mode="r+")[:] = X[::-1]
        return block

    target = da.from_array(Y, chunks=300).map_blocks(meddle, dtype=int, meta=np.zeros(0, int))
    with pytest.raises(ValueError, match="the data changed while it was read"):
        hd.encode(path, target, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_categories__of_a_replaced_store_are_an_error(codes):
    assert codes.categories(2) == [0.0, 1.0, 2.0]
    hd.encode(X + 1, Y, codes.path, nominal=["x2"])
    with pytest.raises(CodeStoreError, match="encoded again after it was opened"):
        codes.categories(2)


def test_encode__partial_files_of_a_killed_process_are_removed(tmp_path):
    left = tmp_path / "s" / f"zarr.json.{'0' * 32}.partial"
    left.parent.mkdir()
    left.write_text("{")
    (tmp_path / "s" / "lock").touch()
    assert hd.encode(X, Y, tmp_path / "s").n_samples == N
    assert not left.exists()


def test_path__store_and_checkpoint_must_not_overlap(tmp_path):
    for checkpoint in (tmp_path / "s", tmp_path / "s" / "run", tmp_path):
        with pytest.raises(ValueError, match="checkpoint is .*, which .* the data at"):
            hd.select(X, Y, 2, store=tmp_path / "s", checkpoint=checkpoint)
    assert list(tmp_path.iterdir()) == []


def test_path__below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("draft")
    with pytest.raises(ValueError, match="is below .*file', a file"):
        hd.encode(X, Y, tmp_path / "file" / "s")


# Samples without a target


@pytest.mark.parametrize(
    "method", ["hofs", "jmi", "vmi", hd.HOFS(criterion="sum"), hd.HOFS(criterion="mean")]
)
def test_select__samples_without_a_target_do_not_change_the_result(method):
    rng = np.random.default_rng(3)
    kept = rng.random(N) < 0.4
    x = np.where(kept[:, None], X, 1e6 * rng.normal(size=X.shape))
    among = hd.select(x, np.where(kept, Y, np.nan), 4, method=method, target_kind="class")
    alone = hd.select(X[kept], Y[kept].astype(float), 4, method=method, target_kind="class")
    assert among.features == alone.features
    assert among.subsets == alone.subsets
    assert among.scores.tolist() == alone.scores.tolist()
    ours, theirs = among.to_dataset(), alone.to_dataset()
    for name in ours.variables:
        assert ours[name].identical(theirs[name])
    assert among.to_dataset().attrs["n_dropped"] == (~kept).sum()


def test_compare__resamples_use_only_samples_with_a_target():
    kept = np.arange(N) % 3 > 0
    options = {"methods": ["mim", "jmi"], "n_resamples": 4, "target_kind": "class"}
    among = hd.compare(X, np.where(kept, Y, np.nan), 3, **options)
    alone = hd.compare(X[kept], Y[kept].astype(float), 3, **options)
    for name in ("stability", "frequency", "index"):
        assert among.to_dataset()[name].identical(alone.to_dataset()[name])


def test_result__has_the_fingerprint_of_its_source(codes):
    attrs = hd.select(codes, None, 2).to_dataset().attrs
    assert attrs["fingerprint"] == open_codes(codes.path).fingerprint
    assert attrs["n_absent_chunks"] == 0
    assert json.loads(Path(codes.path, "manifest.json").read_bytes())["n_absent"] == 0
