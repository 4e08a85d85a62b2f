"""Data in memory is encoded and searched in memory, with the same bits as through a code store."""

import dask
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.encoding.encode import encode_source
from hofs_dask.encoding.here import encode_here
from hofs_dask.io.source import open_source
from hofs_dask.kernels.planes import unpacked
from hofs_dask.methods.registry import METHOD_NAMES
from hofs_dask.store.codes import read_codes, read_labels

RNG = np.random.default_rng(17)
N = 20_000  # three row chunks
Y = RNG.integers(0, 3, N)
X = RNG.normal(size=(N, 12)) + Y[:, None] * RNG.normal(scale=0.3, size=12)
X[RNG.random(X.shape) < 0.01] = np.nan
X[:, 3] = np.round(X[:, 3])
GROUPS = RNG.integers(0, 50, N)
WEIGHTS = RNG.integers(1, 5, N).astype(float)
FRAME = pd.DataFrame(X[:3000], columns=list("abcdefghijkl")).assign(
    colour=RNG.choice(["red", "green", None], 3000),
    flag=RNG.random(3000) < 0.2,
    size=pd.Categorical(RNG.choice(["S", "M"], 3000)),
    count=RNG.integers(0, 200, 3000),
    big=(RNG.integers(0, 3, 3000) + 2**53).astype(np.int64),
    small=X[:3000, 0].astype(np.float32),
)


def same(one, other):
    one, other = one.to_dataset(), other.to_dataset()
    for each in (one, other):
        for name in ("fingerprint", "selections"):  # data in memory is not hashed
            each.attrs.pop(name, None)
    xr.testing.assert_identical(one, other)


@pytest.fixture
def no_tasks(monkeypatch, tmp_path):
    """Fail if Dask computes something or a file is written."""

    def fail(*_, **__):
        raise AssertionError("Dask was called")

    monkeypatch.setattr("hofs_dask.scheduling.compute.dask.base.compute", fail)
    with dask.config.set({"temporary-directory": str(tmp_path / "no")}):
        yield
    assert not (tmp_path / "no").exists()


METHODS = [*METHOD_NAMES, hd.HOFS(criterion="sum"), hd.HOFS(criterion="mean")]


@pytest.mark.parametrize("method", METHODS)
def test_select__has_the_bits_of_a_store(method, tmp_path):
    found = hd.select(X, Y, 4, method=method)
    same(found, hd.select(X, Y, 4, method=method, store=tmp_path / "codes"))


@pytest.mark.parametrize("method", ["hofs", "jmi", "vmi"])
@pytest.mark.parametrize(
    "options",
    [
        {"groups": GROUPS},
        {"weights": WEIGHTS},
        {"groups": GROUPS, "weights": WEIGHTS, "where": GROUPS < 40},
        {"ignore_label": 1, "bins": 4},
        {"bins": "width", "exclude": ["x3"], "include": ["x5"]},
        {"nominal": ["x3"]},
    ],
    ids=lambda each: "+".join(each),
)
def test_options__have_the_bits_of_a_store(options, method, tmp_path):
    found = hd.select(X, Y, 4, method=method, **options)
    stored = hd.select(X, Y, 4, method=method, store=tmp_path / "codes", **options)
    if "exclude" not in options:
        same(found, stored)
    assert found.features == stored.features
    np.testing.assert_array_equal(found.scores, stored.scores)


def test_other_functions__have_the_bits_of_a_store(tmp_path):
    store = {"store": tmp_path / "codes"}
    methods = {"methods": ["hofs", "jmi", "spec_cmi", "vmi"], "n_resamples": 2}
    same(hd.compare(X, Y, 3, **methods), hd.compare(X, Y, 3, **methods, **store))
    same(hd.interactions(X, Y, top=5), hd.interactions(X, Y, top=5, **store))
    found, stored = hd.information_matrix(X, Y), hd.information_matrix(X, Y, **store)
    xr.testing.assert_identical(found, stored)


@pytest.mark.parametrize("data", [FRAME, FRAME.to_xarray()], ids=["frame", "dataset"])
def test_mixed_types__have_the_bits_of_a_store(data, tmp_path):
    found = hd.select(data, "flag", 5, method="jmi")
    same(found, hd.select(data, "flag", 5, method="jmi", store=tmp_path / "codes"))


@pytest.mark.parametrize("bins", ["auto", 3, None])
def test_wide_data__has_the_bits_of_a_store(bins, tmp_path):
    x = RNG.integers(0, 5, (300, 2500))
    x[:, 0] = Y[:300]
    found = hd.select(x, Y[:300], 6, bins=bins)
    same(found, hd.select(x, Y[:300], 6, bins=bins, store=tmp_path / "codes"))
    assert found.features[0] == "x0"


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, bool, ">f8", object])
@pytest.mark.parametrize("order", ["C", "F"])
def test_encode_here__has_the_codes_of_a_store(dtype, order, tmp_path):
    x = np.asarray(RNG.integers(0, 60, (9000, 40)) % 256, order=order)
    x = (x > 30) if dtype is bool else x.astype(str) if dtype is object else x
    source = open_source(x.astype(dtype), Y[:9000])
    held, stored = encode_here(source, source.memory), encode_source(source, tmp_path / "codes")
    codes = read_codes(stored, slice(0, 40), slice(0, 9000))
    found = np.concatenate(
        [
            unpacked(held.held.codes.arrays[0, row], len(held.held.labels.arrays[0, row]))
            for row in range(len(held.held.labels.arrays))
        ],
        axis=1,
    )
    np.testing.assert_array_equal(found, codes)
    labels = np.concatenate(list(held.held.labels.arrays.values()))
    np.testing.assert_array_equal(labels, read_labels(stored, slice(0, 9000)))
    for name in ("n_codes", "missing_code", "nominal", "values"):
        np.testing.assert_array_equal(getattr(held, name), getattr(stored, name), strict=True)
    assert held.chunks[0] == stored.chunks[0]
    assert held.names == stored.names


@pytest.mark.usefixtures("no_tasks")
def test_select__calls_no_scheduler_and_writes_no_file():
    hd.select(X, Y, 3)
    hd.select(FRAME, "flag", 3, method="jmi", groups="count", weights=WEIGHTS[:3000])
    hd.compare(X, Y, 2, methods=["jmi", "vmi"], n_resamples=2)


def test_select__does_not_change_or_copy_the_data():
    x = X.copy()
    hd.select(x, Y, 3, method="jmi")
    np.testing.assert_array_equal(x, X)
    x.setflags(write=False)
    hd.select(x, Y, 3, method="jmi")


def test_events__are_those_of_a_store(tmp_path):
    found, stored = [], []
    hd.select(X, Y, 3, callback=found.append)
    hd.select(X, Y, 3, store=tmp_path / "codes", callback=stored.append)
    kinds = [[type(each) for each in events] for events in (found, stored)]
    once = [[kind for kind in each if kind is not hd.Advanced] for each in kinds]
    assert once[0] == once[1]
    assert hd.Advanced in kinds[0]


def test_memory_map__is_streamed_through_a_store(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr("hofs_dask.api.encode_here", None)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    same(hd.select(mapped, Y, 2, method="jmi"), hd.select(mapped, Y, 2, method="jmi"))


def test_checkpoint__of_data_in_memory_resumes(tmp_path):
    first = hd.select(X, Y, 2, checkpoint=tmp_path / "run")
    found = hd.select(X, Y, 3, checkpoint=tmp_path / "run")
    assert found.features[:2] == first.features
    np.testing.assert_array_equal(found.scores, hd.select(X, Y, 3).scores)
