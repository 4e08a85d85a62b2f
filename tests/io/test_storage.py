"""Absent, removed and damaged chunks of Zarr arrays, and the paths of inputs."""

import json
import os
import pickle
import shutil
import socket
from pathlib import Path

import dask.array as da
import fsspec
import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from hofs_dask.io.source import open_source
from hofs_dask.io.storage import check_reachable

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = rng.integers(0, 3, 60)


def dataset():
    return xr.Dataset({"x": (("sample", "band"), X), "y": ("sample", Y)})


def values(source):
    return np.concatenate([part.compute() for part in source.parts], axis=1)


def lose(path):
    """Remove one chunk of x."""
    next(file for file in sorted((path / "x" / "c").rglob("*")) if file.is_file()).unlink()


def ways_in(path):
    """Return sources of the Zarr group at a path, opened in all supported ways."""
    lazy = xr.open_zarr(path, consolidated=False, chunks=None)
    chunks = xr.open_zarr(path, consolidated=False, chunks={})
    inline = xr.open_dataset(path, engine="zarr", consolidated=False, chunks={}, inline_array=True)
    array = zarr.open_array(path / "x", mode="r")
    return {
        "path": open_source(path, "y"),
        "group": open_source(zarr.open_group(path, mode="r"), "y"),
        "array": open_source(array, Y),
        "array by path": open_source(path / "x", Y),
        "dataset": open_source(lazy, "y"),
        "dataset of dask": open_source(chunks, "y"),
        "dataset of inline dask": open_source(inline, "y"),
        "data array": open_source(lazy["x"][:, 1:], lazy["y"]),
        "data array of dask": open_source(chunks["x"] * 2, chunks["y"]),
        "dask": open_source(da.from_zarr(str(path / "x")), Y),
        "dask of an array": open_source(da.from_array(array, chunks=(20, 4)), Y),
        "wrapper": open_source(
            zarr.open_array(zarr.storage.LoggingStore(array.store, "ERROR"), mode="r"), Y
        ),
    }


@pytest.fixture(params=[{"sample": 20}, {"sample": 20, "band": 2}], ids=str)
def group(tmp_path, request):
    path = tmp_path / "d.zarr"
    data = dataset().chunk(request.param)
    data.to_zarr(path, consolidated=False)
    return path


def test_removed_chunk__is_an_error_for_every_kind_of_input(group):
    sources = ways_in(group)
    lose(group)
    for name, source in sources.items():
        with pytest.raises(
            FileNotFoundError, match=r"chunk \(0, 0\) .* was removed after"
        ) as error:
            values(source)
        assert str(group / "x") in str(error.value), name


def test_removed_array__error_names_path_and_host(group):
    """A worker may lack the disk of the array; Zarr would read fill values there."""
    sources = ways_in(group)
    shutil.move(group, group.with_name("elsewhere"))
    for name, source in sources.items():
        message = f"there is no Zarr array at '{group / 'x'}' on {socket.gethostname()}"
        with pytest.raises(FileNotFoundError, match=message):
            values(source)
        with pytest.raises(FileNotFoundError, match="that all workers can reach"):
            check_reachable(source.places)
        assert name == "wrapper" or source.state() != source.opened_state, name


def test_removed_array__is_an_error_on_workers(client, group):
    sources = ways_in(group)
    for name, source in sources.items():
        assert np.isfinite(values(source)).all(), name
    shutil.move(group, group.with_name("elsewhere"))
    for source in sources.values():
        with pytest.raises(FileNotFoundError, match="there is no Zarr array at .* on "):
            values(source)


def test_removed_array__without_chunks_is_an_error(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", shape=(6, 2), chunks=(2, 1), dtype="f4", fill_value=7)
    source = open_source(tmp_path / "x.zarr", None)
    assert (values(source) == 7).all()
    shutil.rmtree(tmp_path / "x.zarr")
    with pytest.raises(FileNotFoundError, match="there is no Zarr array at"):
        values(source)


def test_absent_chunks__are_counted_and_read_as_fill_value(group):
    lose(group)
    for name, source in ways_in(group).items():
        assert source.n_absent_chunks == 1, name
        assert np.isnan(values(source)).any(), name
    (group / "y" / "c" / "0").unlink()
    assert ways_in(group)["path"].n_absent_chunks == 2


def test_absent_chunks__of_a_sharded_array_counts_shards(tmp_path):
    array = zarr.create_array(
        tmp_path / "x.zarr", shape=(40, 2), chunks=(5, 2), shards=(10, 2), dtype="f4"
    )
    array[:10] = 1
    source = open_source(tmp_path / "x.zarr", None)
    assert source.n_absent_chunks == 3
    assert values(source).sum() == 20
    (tmp_path / "x.zarr" / "c" / "0" / "0").unlink()
    with pytest.raises(FileNotFoundError, match=r"chunk \(0, 0\) .* was removed after"):
        values(source)


def test_removed_chunk__of_a_remote_array_is_an_error():
    data = dataset().chunk(sample=20)
    data.to_zarr("memory://lost/d.zarr", consolidated=False)
    source = open_source("memory://lost/d.zarr", "y")
    np.testing.assert_array_equal(values(source), X)
    fsspec.filesystem("memory").rm("/lost/d.zarr/x/c/1/0")
    with pytest.raises(FileNotFoundError, match=r"chunk \(1, 0\) .*memory:.* was removed after"):
        values(source)


def test_places__are_the_paths_of_all_inputs(group, tmp_path):
    for name, source in ways_in(group).items():
        alone = "array" in name.split() and "data" not in name
        here = group / "x" if alone or name in ("dask", "wrapper") else group
        assert source.places == (str(here),), name
    zarr.create_array(tmp_path / "y.zarr", data=Y)
    source = open_source(group / "x", zarr.open_array(tmp_path / "y.zarr", mode="r"))
    assert source.places == (str(group / "x"), str(tmp_path / "y.zarr"))
    plain = zarr.create_group(tmp_path / "g.zarr")
    plain.create_array("table", data=X)
    plain.create_array("y", data=Y)
    assert open_source(tmp_path / "g.zarr", "y").places == (str(tmp_path / "g.zarr"),)
    assert open_source(X, Y).places == ()


def test_state__changes_when_a_file_changes(group):
    sources = ways_in(group)
    chunk = group / "x" / "c" / "1" / "0"
    for name, source in sources.items():
        assert source.state() == source.opened_state, name
    chunk.write_bytes(chunk.read_bytes())
    for name, source in sources.items():
        assert (source.state() == source.opened_state) == (name == "wrapper"), name
    assert open_source(X, Y).state() == open_source(X, Y).opened_state is not None


@pytest.mark.parametrize("name", ["x/c/1/0", "x/zarr.json", "zarr.json"])
def test_pipe__instead_of_a_file_is_refused(group, name):
    opened = xr.open_zarr(group, consolidated=False)
    before = open_source(opened, "y")
    (group / name).unlink()
    os.mkfifo(group / name)
    with pytest.raises(ValueError, match="is not a regular file"):
        open_source(group, "y")
    if name == "x/c/1/0":
        with pytest.raises(ValueError, match="is not a regular file"):
            open_source(opened, "y")
        with pytest.raises(ValueError, match="is not a regular file"):
            values(before)


@pytest.mark.parametrize(
    "codec", [{"filters": [{"id": "pickle", "protocol": 5}]}, {"compressor": {"id": "pickle"}}]
)
@pytest.mark.parametrize("dtype", ["|O", "<f8"])
def test_pickle__is_refused_before_a_chunk_is_read(tmp_path, codec, dtype):
    """Loading a pickle can run any code."""
    ran = tmp_path / "ran"

    class Runs:
        def __reduce__(self):
            return Path.touch, (ran,)

    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=2)
    group.create_array("x", data=np.ones((4, 2)), chunks=(4, 2), compressors=None)
    file = tmp_path / "g.zarr" / "x" / ".zarray"
    described = {**json.loads(file.read_text()), **codec, "dtype": dtype, "fill_value": None}
    file.write_text(json.dumps(described))
    (tmp_path / "g.zarr" / "x" / "0.0").write_bytes(pickle.dumps(Runs()))
    for path in (tmp_path / "g.zarr" / "x", tmp_path / "g.zarr"):
        with pytest.raises(ValueError, match="codec 'pickle'.*write it again"):
            open_source(path, None)
    with pytest.raises(ValueError, match="cannot be opened|pickle"):
        open_source(f"local://{tmp_path}/g.zarr/x", None)
    assert not ran.exists()


def test_huge_chunk__is_refused_before_it_is_read(group):
    sources = ways_in(group)
    chunk = group / "x" / "c" / "1" / "0"
    with chunk.open("wb") as file:
        file.truncate(2**40)
    for source in sources.values():
        with pytest.raises(ValueError, match=r"1/0' has 1099511627776 bytes, expected at most"):
            values(source)


# Not Blosc, which reads past the end of a truncated buffer.
@pytest.mark.parametrize("codec", [None, ZstdCodec(), GzipCodec()], ids=type)
def test_damaged_chunk__error_names_the_array(tmp_path, codec):
    path = tmp_path / "x.zarr"
    source = open_source(zarr.create_array(path, data=X, chunks=(2, 2), compressors=codec), None)
    chunk = path / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(ValueError, match="Zarr array '.*x.zarr' cannot be read"):
        values(source)


@pytest.mark.parametrize("n_rows", [1000, 5000])
@pytest.mark.parametrize("codec", [None, ZstdCodec(), BloscCodec(), GzipCodec()], ids=type)
def test_chunk_of_wrong_size__is_an_error(tmp_path, codec, n_rows):
    """An array was opened and then written again with other chunks."""
    path = tmp_path / "x.zarr"

    def write(rows):  # three chunks
        options = {"chunks": (rows, 2), "compressors": codec, "overwrite": True}
        return zarr.create_array(path, data=np.ones((3 * rows, 2)), **options)

    source = open_source(write(2000), None)
    write(n_rows)
    with pytest.raises(ValueError, match="cannot be read"):
        values(source)


def test_relative_path__refers_to_the_directory_at_opening(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = zarr.create_group("g.zarr")
    group.create_array("x", data=X)
    group.create_array("y", data=np.arange(len(X)) % 2)
    zarr.create_array("x.zarr", data=X)
    sources = [
        open_source(zarr.open("x.zarr", mode="r"), np.arange(len(X)) % 2),
        open_source(zarr.open("g.zarr", mode="r"), "y"),
    ]
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    for source in sources:
        np.testing.assert_array_equal(values(source), X)
        np.testing.assert_array_equal(source.target.compute(), np.arange(len(X)) % 2)


@pytest.mark.parametrize(
    ("zarr_format", "codec", "packer"),
    [
        (2, numcodecs.Zstd(), numcodecs.Zstd()),
        (2, numcodecs.Blosc(), numcodecs.Blosc()),
        (2, numcodecs.GZip(), numcodecs.GZip()),
        (2, numcodecs.Zlib(), numcodecs.Zlib()),
        (2, numcodecs.BZ2(), numcodecs.BZ2()),
        (2, numcodecs.LZ4(), numcodecs.LZ4()),
        (3, ZstdCodec(), numcodecs.Zstd()),
        (3, BloscCodec(typesize=8), numcodecs.Blosc()),
        (3, GzipCodec(), numcodecs.GZip()),
    ],
    ids=str,
)
def test_decompression_bomb__is_refused_before_decompression(tmp_path, zarr_format, codec, packer):
    """A chunk of shape (2, 2) decompresses to 64 MiB."""
    path = tmp_path / "x.zarr"
    array = zarr.create_array(
        path, data=X, chunks=(2, 2), compressors=codec, zarr_format=zarr_format
    )
    source = open_source(array, None)
    np.testing.assert_array_equal(values(source), X)
    chunk = path / ("c/1/0" if zarr_format == 3 else "1.0")
    chunk.write_bytes(packer.encode(np.zeros(2**26, np.uint8)))
    with pytest.raises(ValueError, match=r"chunk \(1, 0\) .* decompresses to more than"):
        values(source)


def test_zstd__frame_without_a_size_in_its_header_is_read(tmp_path):
    """Some writers omit the size; then the limit is 128 KiB per block."""
    block = 2**17

    def frame(n_blocks):  # RFC 8878: run-length encoded blocks
        blocks = b"".join(
            ((block << 3) | (1 << 1) | (j == n_blocks - 1)).to_bytes(3, "little") + b"\7"
            for j in range(n_blocks)
        )
        return bytes.fromhex("28b52ffd") + bytes([0, 0x38]) + blocks

    path = tmp_path / "x.zarr"
    array = zarr.create_array(
        path, shape=(2 * block, 2), chunks=(block, 1), dtype="u1", compressors=ZstdCodec()
    )
    array[:] = 7
    chunk = path / "c" / "1" / "0"
    chunk.write_bytes(frame(1))
    source = open_source(path, None)
    assert (values(source) == 7).all()
    chunk.write_bytes(frame(100))
    with pytest.raises(ValueError, match=r"chunk \(1, 0\) .* decompresses to more than"):
        values(source)
