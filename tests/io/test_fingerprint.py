"""Every change of the data changes its fingerprint, or the fingerprint is None."""

import os
import pickle

import dask.array as da
import dask.dataframe as dd
import fsspec
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from dask.delayed import delayed
from zarr.storage import (
    FsspecStore,
    LocalStore,
    LoggingStore,
    MemoryStore,
    WrapperStore,
    ZipStore,
)

from hofs_dask.io.fingerprint import array_identity
from hofs_dask.io.graphs import guard_arrays
from hofs_dask.io.listings import Present, _shows_changes, chunk_at
from hofs_dask.io.reading import Reading
from hofs_dask.io.source import open_source

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = rng.integers(0, 3, 60)


def plus_one(block):
    return block + 1


def dataset():
    return xr.Dataset({"x": (("sample", "band"), X), "y": ("sample", Y)})


class OwnStore(LocalStore):
    """A store class of the user."""


# Stores


@pytest.mark.parametrize(
    "wrap",
    [LoggingStore, WrapperStore, lambda store: OwnStore(store.root)],
    ids=["LoggingStore", "WrapperStore", "subclass"],
)
def test_fingerprint__is_none_for_an_unknown_store_class(tmp_path, wrap):
    zarr.create_array(tmp_path / "x.zarr", data=X)
    array = zarr.open_array(wrap(LocalStore(tmp_path / "x.zarr")), mode="r")
    source = open_source(array, Y)
    assert source.fingerprint is None
    assert source.state() == source.opened_state
    assert source.places == (str(tmp_path / "x.zarr"),)
    assert open_source(tmp_path / "x.zarr", Y).fingerprint is not None


def test_fingerprint__is_none_for_a_memory_store():
    array = zarr.create_array(MemoryStore(), data=X)
    dataset().to_zarr("memory://fingerprints/d.zarr", consolidated=False)
    for data, target in ((array, Y), ("memory://fingerprints/d.zarr", "y")):
        source = open_source(data, target)
        assert source.fingerprint is None
        assert source.n_absent_chunks == 0
    assert source.target_fingerprint is None
    assert source.places == ("memory:///fingerprints/d.zarr",)


def test_fingerprint__of_a_zip_depends_on_its_file(tmp_path):
    def source(data):
        with ZipStore(tmp_path / "x.zip", mode="w") as store:
            zarr.create_array(store, data=data)
        return open_source(zarr.open_array(ZipStore(tmp_path / "x.zip", mode="r")), Y)

    one, other = source(X), source(X + 1)
    assert None not in (one.fingerprint, other.fingerprint)
    assert one.fingerprint != other.fingerprint
    assert one.places == (str(tmp_path / "x.zip"),)
    assert (one.opened_state == one.state(), other.opened_state == other.state()) == (False, True)


def test_fingerprint__detects_a_change_with_equal_size_and_mtime(tmp_path):
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=X, chunks=(20, 4), compressors=None)
    chunk = path / "c" / "1" / "0"
    before, times = open_source(path, Y), chunk.stat()
    content = bytearray(chunk.read_bytes())
    content[3] ^= 1
    chunk.write_bytes(content)
    os.utime(chunk, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert chunk.stat().st_mtime_ns == times.st_mtime_ns
    assert open_source(path, Y).fingerprint != before.fingerprint
    assert before.state() != before.opened_state


def test_fingerprint__of_local_files_is_the_same_through_fsspec(tmp_path):
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=X)
    remote = zarr.open_array(FsspecStore.from_url(f"local://{path}", read_only=True), mode="r")
    source = open_source(remote, Y)
    assert source.fingerprint == open_source(path, Y).fingerprint
    assert source.places == (str(path),)


@pytest.mark.parametrize(
    ("infos", "shows"),
    [
        ([{"size": 3}], False),
        ([{"size": 3, "ETag": "abc", "LastModified": "2026-01-01 10:00:00+00:00"}], True),
        ([{"size": 3, "ETag": None, "LastModified": "2026-01-01 10:00:00+00:00"}], False),
        ([{"size": 3, "generation": "17"}, {"size": 3}], False),
        ([{"size": 3, "md5Hash": "x"}], True),
        ([{"size": 3, "mtime": 1767261600.0}], False),
        ([{"size": 3, "mtime": 1767261600.25}], True),
        ([{"size": 3, "last_modified": "2026-01-01T10:00:00.123Z"}], True),
        # one time is a whole second by chance
        ([{"size": 3, "mtime": 1.5}, {"size": 3, "mtime": 2.5}, {"size": 3, "mtime": 3.0}], True),
    ],
)
def test_fingerprint__of_remote_objects_needs_a_version_or_an_exact_time(infos, shows):
    files = fsspec.filesystem("local")
    found = {str(j): info for j, info in enumerate(infos)}
    assert _shows_changes(files, found) == shows
    assert not _shows_changes(fsspec.filesystem("memory"), found)


def test_fingerprint__depends_on_existing_chunks_and_state_on_group_metadata(tmp_path):
    path = tmp_path / "d.zarr"
    dataset().chunk(sample=20).to_zarr(path, consolidated=False)
    source = open_source(path, "y")
    (path / "x" / "c" / "1" / "0").unlink()
    assert source.state() != source.opened_state
    lost = open_source(path, "y")
    assert lost.fingerprint != source.fingerprint
    assert lost.target_fingerprint == source.target_fingerprint
    assert (source.n_absent_chunks, lost.n_absent_chunks) == (0, 1)
    zarr.open_group(path, mode="r+").attrs["note"] = "changed"
    assert lost.state() != lost.opened_state


def test_present__holds_the_chunks_that_were_found():
    found = [(0, 1), (2, 0)]
    for grid in ((3, 2), (1000, 10**12)):
        present = Present.of(grid, found)
        assert [present.holds(at) for at in ((0, 0), (0, 1), (2, 0), (2, 1))] == [0, 1, 1, 0]
        assert present.n_absent == np.prod(grid, dtype=object) - 2
    assert Present.of((2, 2), [(0, 0), (0, 1), (1, 1), (5, 5)]).n_absent == 1


def test_chunk_at__parses_keys_of_both_zarr_formats():
    names = {"c/0/12": (0, 12), "0.12": (0, 12), "0/12": (0, 12), "c.0.12": (0, 12)}
    assert {name: chunk_at(name, 2) for name in names} == names
    for name in (".zarray", "zarr.json", "c/0", "c/0/x", ".zattrs"):
        assert chunk_at(name, 2) is None
    assert (chunk_at("c", 0), chunk_at("0", 0)) == ((), ())


# Dask


def known(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(20, 4), overwrite=True)
    lazy = da.from_array(X, chunks=20)
    stored = da.from_zarr(str(tmp_path / "x.zarr"))
    inline = da.from_array(zarr.open(tmp_path / "x.zarr"), chunks=20, inline_array=True)
    return {
        "numpy": lazy,
        "named": da.from_array(X, chunks=20, name="mine"),
        "sum": lazy + 1,
        "cut": lazy[3:, ::-1].rechunk((7, 2)),
        "ufunc": np.log1p(abs(lazy)),
        "stack": da.stack([lazy[:, 0], lazy.mean(axis=1)], axis=1),
        "concatenate": da.concatenate([lazy, stored]),
        "where": da.where(lazy > 0, lazy, 0),
        "zarr": stored,
        "inline": inline,
        "astype": stored.astype("f4"),
        "map_blocks of numpy": stored.map_blocks(np.negative),
    }


def test_fingerprint__of_dask_exists_for_known_data_and_functions(tmp_path):
    lazy = known(tmp_path)
    prints = {name: array_identity(array).fingerprint for name, array in lazy.items()}
    assert [name for name, each in prints.items() if each is None] == []
    assert len(set(prints.values())) == len(prints)


def test_fingerprint__of_dask_depends_on_content_not_only_on_names():
    def fingerprint(data, constant):
        lazy = da.from_array(data, chunks=20, name="mine")
        return array_identity(lazy.map_blocks(np.add, constant, name="sum")).fingerprint

    assert fingerprint(X, 1) == fingerprint(X.copy(), 1)
    assert len({fingerprint(X, 1), fingerprint(X + 1, 1), fingerprint(X, 2), None}) == 4


def unknown(tmp_path):
    np.save(tmp_path / "0.npy", X)
    lazy = da.from_array(X, chunks=20)
    file = h5py.File(tmp_path / "x.h5", "w")
    file["x"] = X
    read = da.from_delayed(delayed(np.load)(tmp_path / "0.npy"), X.shape, X.dtype)
    da.to_npy_stack(tmp_path / "stack", lazy)
    return {
        "map_blocks": lazy.map_blocks(plus_one),
        "lambda": lazy.map_blocks(lambda block: block + 1),
        "frompyfunc": lazy.map_blocks(np.frompyfunc(plus_one, 1, 1), dtype=float),
        "vectorize": lazy.map_blocks(np.vectorize(plus_one, otypes=[float])),
        "from_delayed": read,
        "npy_stack": da.from_npy_stack(tmp_path / "stack"),
        "h5py": da.from_array(file["x"], chunks=20),
        "memory": da.from_array(zarr.create_array(MemoryStore(), data=X), chunks=20),
        "random": da.random.default_rng().normal(size=X.shape),
        "apply_along_axis": da.apply_along_axis(plus_one, 0, lazy, dtype=float, shape=(60,)),
    }


def test_fingerprint__of_dask_is_none_for_functions_that_may_read_anything(tmp_path):
    for name, array in unknown(tmp_path).items():
        source = open_source(array, array[:, 0])
        assert (source.fingerprint, source.target_fingerprint) == (None, None), name


def test_fingerprint__of_a_dask_frame_is_none():
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(y=Y), npartitions=2)
    for target in ("y", frame["y"]):
        source = open_source(frame, target)
        assert (source.fingerprint, source.target_fingerprint) == (None, None)


def test_task_names__are_unique_for_data_without_a_fingerprint():
    array = zarr.create_array(MemoryStore(), data=X)
    one = open_source(array, array[:, 0]).parts[0].compute()
    array[:] = 0
    assert not open_source(array, Y).parts[0].compute().any()
    assert one.any()


# Files


def test_fingerprint__of_open_netcdf_is_none_and_its_state_depends_on_the_file(tmp_path):
    path = tmp_path / "d.nc"

    def sources(data):
        data.to_netcdf(path, engine="h5netcdf")
        for chunks in (None, {}):
            with xr.open_dataset(path, engine="h5netcdf", chunks=chunks) as opened:
                yield open_source(opened, "y", Reading(feature_dim="band"))
                yield open_source(opened["x"][5:] * 2, opened["y"][5:])
        with xr.open_dataset(path, engine="h5netcdf").load() as loaded:
            yield open_source(loaded["x"], loaded["y"])

    before = list(sources(dataset()))
    after = list(sources(dataset() + 1))
    for one in before[:4]:
        assert one.target_fingerprint is None
        assert one.places == (str(path),)
        assert one.state() != one.opened_state
    assert before[4].places == ()
    assert before[4].fingerprint not in (None, after[4].fingerprint)
    assert before[4].target_fingerprint not in (None, after[4].target_fingerprint)


def test_fingerprint__of_a_memmap_is_none_and_its_state_depends_on_the_file(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    written = np.load(path, mmap_mode="r+")
    for data in (mapped, written, np.asarray(mapped)):
        whole, rest = open_source(data, Y), open_source(data[:, 1:], Y)
        assert whole.places == rest.places == (str(path),)
        assert whole.fingerprint is rest.fingerprint is None
        assert whole.state() == whole.opened_state
    times = path.stat()
    np.save(path, X + 1)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert whole.state() != whole.opened_state


def test_fingerprint__of_an_open_zip_that_was_replaced_is_none(tmp_path):
    def write(values, name):
        with ZipStore(tmp_path / name, mode="w") as store:
            zarr.create_array(store, data=values)

    write(X, "x.zip")
    opened = zarr.open_array(ZipStore(tmp_path / "x.zip", mode="r"))
    assert open_source(opened, Y).fingerprint is not None
    write(X + 1, "y.zip")
    (tmp_path / "y.zip").replace(tmp_path / "x.zip")
    assert open_source(opened, Y).fingerprint is None


def test_state__detects_changed_features_next_to_an_unknown_target(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=X)
    target = da.from_array(Y, chunks=9).map_blocks(lambda block: block)
    source = open_source(tmp_path / "x.zarr", target)
    assert source.target_fingerprint is None
    assert source.state() == source.opened_state
    zarr.open_array(tmp_path / "x.zarr", mode="r+")[:] = X + 1
    assert source.state() != source.opened_state


# Guards


def test_guard__keeps_name_values_and_fingerprint(tmp_path):
    for name, array in known(tmp_path).items():
        again = guard_arrays(array)
        assert again.name == array.name, name
        np.testing.assert_array_equal(again, array)
        prints = array_identity(again).fingerprint, array_identity(array).fingerprint
        assert prints[0] == prints[1], name


def test_guard__survives_pickling(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(20, 4))
    (part,) = open_source(tmp_path / "x.zarr", Y).parts
    copy = pickle.loads(pickle.dumps(part))
    (tmp_path / "x.zarr" / "c" / "2" / "0").unlink()
    np.testing.assert_array_equal(copy[:40].compute(), X[:40])
    with pytest.raises(FileNotFoundError, match=r"chunk \(2, 0\) .* was removed after"):
        copy.compute()
