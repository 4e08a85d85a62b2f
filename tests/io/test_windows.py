import errno
import os
import pickle
import tracemalloc
from pathlib import Path

import dask.array as da
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec

import hofs_dask as hd
from hofs_dask.io import windows as windows_module
from hofs_dask.io.files import announce_file
from hofs_dask.io.source import open_source
from hofs_dask.io.windows import Window, as_array, can_open, strips
from hofs_dask.kernels.planes import WORD
from hofs_dask.store.codes import read_codes

RNG = np.random.default_rng(5)
COMPRESSORS = {"none": None, "zstd": ZstdCodec(), "blosc": BloscCodec(), "gzip": GzipCodec()}


def no_zarr(*_):
    raise AssertionError("read through Zarr")


@pytest.mark.parametrize("compressors", COMPRESSORS.values(), ids=COMPRESSORS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i8", "?"])
def test_window__has_the_rows_of_the_array_without_asking_zarr(
    tmp_path, monkeypatch, compressors, dtype
):
    data = (100 * RNG.random((1003, 7))).astype(dtype)
    array = zarr.create_array(
        tmp_path / "x.zarr", data=data, chunks=(100, 7), compressors=compressors
    )
    assert can_open(array)
    monkeypatch.setattr(zarr.Array, "__getitem__", no_zarr)
    for first, last in ((0, 1003), (300, 1003), (200, 600), (1000, 1001), (100, 107)):
        window = Window(array, first, last)
        assert (window.shape, window.dtype, len(window)) == (
            (last - first, 7),
            data.dtype,
            last - first,
        )
        np.testing.assert_array_equal(as_array(window), data[first:last])
        np.testing.assert_array_equal(
            np.concatenate([strip.copy() for strip in strips(window)]), data[first:last]
        )


@given(
    n_rows=st.integers(1, 700),
    chunk=st.integers(1, 300),
    strip_bytes=st.integers(1, 3000),
)
def test_strips__are_whole_words_wherever_chunks_end(tmp_path_factory, n_rows, chunk, strip_bytes):
    path = tmp_path_factory.mktemp("windows") / "x.zarr"
    data = np.arange(2 * n_rows, dtype=np.float32).reshape(n_rows, 2)
    array = zarr.create_array(path, data=data, chunks=(chunk, 2), compressors=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows_module, "STRIP_BYTES", strip_bytes)
        found = [strip.copy() for strip in Window(array, 0, n_rows).strips()]
    assert all(len(strip) % WORD == 0 for strip in found[:-1])
    assert max(map(len, found)) <= max(chunk, strip_bytes // 8) + WORD
    np.testing.assert_array_equal(np.concatenate(found), data)


def test_window__a_chunk_that_was_never_written_is_the_fill_value(tmp_path):
    array = zarr.create_array(
        tmp_path / "x.zarr", shape=(6, 2), chunks=(2, 2), dtype="f4", fill_value=7
    )
    array[2:4] = 1
    np.testing.assert_array_equal(Window(array, 0, 6).read()[:, 0], [7, 7, 1, 1, 7, 7])


# Blosc reads on past the end of what it is given, in Zarr too.
@pytest.mark.parametrize("compressors", [None, ZstdCodec(), GzipCodec()], ids=type)
def test_window__a_damaged_chunk_is_an_error(tmp_path, compressors):
    array = zarr.create_array(
        tmp_path / "x.zarr", data=RNG.random((6, 2)), chunks=(2, 2), compressors=compressors
    )
    chunk = tmp_path / "x.zarr" / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"chunk \(1, 0\) of the Zarr array '.*x.zarr' cannot be"):
        Window(array, 0, 6).read()


@pytest.mark.parametrize("compressors", COMPRESSORS.values(), ids=COMPRESSORS)
@pytest.mark.parametrize("n_rows", [1000, 5000])
def test_window__a_chunk_of_another_size_is_an_error(tmp_path, compressors, n_rows):
    """As in an array that was opened before it was written again."""
    data = RNG.random((6000, 2))
    options = {"data": data, "compressors": compressors, "overwrite": True}
    old = zarr.create_array(tmp_path / "x.zarr", chunks=(2000, 2), **options)
    zarr.create_array(tmp_path / "x.zarr", chunks=(n_rows, 2), **options)
    with pytest.raises(ValueError, match="cannot be read"):
        Window(old, 0, 6000).read()


def test_window__an_array_that_a_worker_cannot_see_is_an_error(tmp_path):
    """To Zarr all its chunks would be missing."""
    array = zarr.create_array(tmp_path / "x.zarr", data=RNG.random((6, 2)), chunks=(2, 2))
    (tmp_path / "x.zarr").rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="no Zarr array at .* all workers can reach"):
        Window(array, 0, 6).read()


@pytest.mark.parametrize("compressors", COMPRESSORS.values(), ids=COMPRESSORS)
def test_window__a_chunk_that_was_there_when_the_array_was_opened_is_an_error(
    tmp_path, compressors
):
    path = tmp_path / "x.zarr"
    array = zarr.create_array(
        path, shape=(600, 2), chunks=(2, 2), dtype="f8", compressors=compressors
    )
    array[200:] = 1  # more absent chunks than are sent with every window
    array = open_source(path, None).array
    windows = [pickle.loads(pickle.dumps(Window(array, a, a + 200))) for a in (0, 200, 400)]
    (path / "c" / "120" / "0").unlink()
    assert not windows[0].read().any()
    assert windows[2].read().all()
    with pytest.raises(FileNotFoundError, match=r"chunk \(120, 0\) .*x.zarr' has gone since"):
        windows[1].read()


@pytest.mark.parametrize("compressors", COMPRESSORS.values(), ids=COMPRESSORS)
def test_window__what_is_no_chunk_is_refused_before_it_is_read(tmp_path, compressors):
    path = tmp_path / "x.zarr"
    data = RNG.random((6, 2))
    array = zarr.create_array(path, data=data, chunks=(2, 2), compressors=compressors)
    window = Window(array, 0, 6)
    chunk = path / "c" / "1" / "0"
    chunk.unlink()
    os.mkfifo(chunk)
    with pytest.raises(ValueError, match="cannot be read .*1/0' is not a regular file"):
        window.read()
    chunk.unlink()
    with chunk.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match="cannot be read .*has 1099511627776 bytes where a chunk"):
        window.read()


@pytest.mark.parametrize(
    ("compressors", "packer"),
    [
        (ZstdCodec(), numcodecs.Zstd()),
        (BloscCodec(), numcodecs.Blosc()),
        (GzipCodec(), numcodecs.GZip()),
    ],
    ids=["zstd", "blosc", "gzip"],
)
def test_window__a_bomb_is_not_unpacked(tmp_path, compressors, packer):
    path = tmp_path / "x.zarr"
    array = zarr.create_array(path, data=np.ones((6, 2)), chunks=(2, 2), compressors=compressors)
    window = Window(array, 0, 6)
    (path / "c" / "1" / "0").write_bytes(packer.encode(np.zeros(2**26, np.uint8)))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="cannot be read .*unpacks to more than"):
            window.read()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_encode__a_relative_path_is_that_of_this_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = zarr.create_group("g.zarr")
    group.create_array("x", data=RNG.random((6, 2)))
    group.create_array("y", data=np.arange(6) % 2)
    zarr.create_array("x.zarr", data=RNG.random((6, 2)))
    sources = [
        open_source(zarr.open("x.zarr", mode="r"), np.arange(6) % 2),
        open_source(zarr.open("g.zarr", mode="r"), "y"),
    ]
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    for source in sources:
        assert source.parts[0].compute().std() > 0
        assert source.target.compute().tolist() == [0, 1] * 3


def test_can_open__whatever_a_file_of_numbers_is_not_is_left_to_zarr(tmp_path):
    zeros = np.zeros((4, 2))

    def make(name, data=zeros, **options):
        return zarr.create_array(tmp_path / name, data=data, **{"chunks": (2, 2), **options})

    assert can_open(make("plain"))
    assert not can_open(make("narrow", chunks=(2, 1)))
    assert not can_open(make("sharded", shards=(4, 2)))
    assert not can_open(make("big", serializer=BytesCodec(endian="big")))
    assert not can_open(make("checked", compressors=Crc32cCodec()))
    assert not can_open(make("twice", compressors=[ZstdCodec(), GzipCodec()]))
    assert not can_open(make("complex", np.zeros((4, 2), complex)))
    assert not can_open(make("text", np.full((4, 2), "a", "T")))
    assert not can_open(make("old", zarr_format=2))
    assert not can_open(make("cube", np.zeros((4, 2, 2)), chunks=(2, 2, 2)))
    assert not can_open(zarr.zeros((4, 2)))
    assert not can_open(np.zeros((4, 2)))


@pytest.mark.parametrize("rows", [1000, 997, 40_000])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1"])
def test_encode__windows_give_the_codes_that_blocks_give(tmp_path, monkeypatch, rows, dtype):
    data = (20 * RNG.normal(size=(40_000, 9)) + 100).astype(dtype)
    if data.dtype.kind == "f":
        data[RNG.random(data.shape) < 0.01] = np.nan
    data[:, 3] = RNG.integers(0, 4, len(data))
    target = RNG.integers(0, 3, len(data))
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=data, chunks=(rows, 9))

    def encode(source, name):
        codes = hd.encode(source, target, tmp_path / name, nominal=["x3"], chunks=(4 * rows, 9))
        every = slice(0, 9), slice(0, len(data))
        return read_codes(codes, *every), codes.values

    expected = encode(da.from_array(data, chunks=(7000, 9)), "blocks.zarr")
    monkeypatch.setattr(windows_module, "STRIP_BYTES", 2**16)
    decoded = []

    def decode(array, file, out):
        decoded.append(int(Path(file).parent.name))
        return windows_module_decode(array, file, out)

    windows_module_decode = windows_module._decode
    monkeypatch.setattr(windows_module, "_decode", decode)
    found = encode(str(path), "windows.zarr")
    assert set(decoded) == set(range(-(-len(data) // rows)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_encode__what_is_infinite_is_named_with_its_count(tmp_path):
    data = RNG.normal(size=(40_000, 9))
    data[[5, 20_000, 39_999], 4] = np.inf
    array = zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(1000, 9))
    with pytest.raises(ValueError, match="'x4'.* 3 "):
        hd.encode(array, RNG.integers(0, 2, len(data)), tmp_path / "codes.zarr")


def test_encode__chunks_out_of_step_are_left_to_dask(tmp_path):
    data = RNG.normal(size=(40_000, 9))
    target = RNG.integers(0, 2, len(data))
    array = zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(1000, 9))
    odd = hd.encode(array, target, tmp_path / "odd.zarr", chunks=(1500, 4))
    even = hd.encode(data, target, tmp_path / "even.zarr")
    every = slice(0, 9), slice(0, len(data))
    np.testing.assert_array_equal(read_codes(odd, *every), read_codes(even, *every))


def test_announce__where_the_system_cannot_say_what_is_in_memory(monkeypatch, tmp_path):
    announced = []

    def cannot_say(*_):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", cannot_say)
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: announced.append(arguments[-1]))
    (tmp_path / "chunk").write_bytes(b"1234")
    announce_file(tmp_path / "chunk")
    assert announced == [os.POSIX_FADV_WILLNEED]
