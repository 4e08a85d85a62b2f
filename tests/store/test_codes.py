import itertools
import pickle
import resource
import shutil
import warnings
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import hofs_dask as hd
from hofs_dask.encoding import encode as encode_module
from hofs_dask.encoding.encode import encode_source
from hofs_dask.errors import CodeStoreError
from hofs_dask.io.reading import Reading
from hofs_dask.io.source import open_source
from hofs_dask.kernels.planes import unpacked
from hofs_dask.store import metadata as metadata_module
from hofs_dask.store import summary as summary_module
from hofs_dask.store.chunks import write_chunk
from hofs_dask.store.codes import (
    as_planes,
    is_codes,
    open_codes,
    read_codes,
    read_labels,
    temporary_store,
)
from hofs_dask.store.manifest import VERSION, read_manifest

ALL = slice(None)


def make_data(n=1200, seed=0):
    """Return columns that are continuous, mostly zero, of few values, constant and missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 7))
    x[:, 1] = np.where(rng.random(n) < 0.7, 0, x[:, 1])
    x[:, 2] = rng.integers(0, 3, n)
    x[:, 3] = 5
    x[rng.random(n) < 0.1, 4] = np.nan
    x[:, 5] = np.nan
    return x, rng.integers(0, 3, n)


X, Y = make_data()


def encode(path, data=X, target=Y, *, nominal=None, feature_dim=None, **options):
    source = open_source(data, target, Reading(nominal=nominal, feature_dim=feature_dim))
    return encode_source(source, path, **options)


def contents(store):
    return (
        read_codes(store, ALL, ALL),
        read_labels(store, ALL),
        store.values,
        store.n_codes,
        store.missing_code,
        np.asarray(zarr.open_group(store.place.path, mode="r")["edges"]),
    )


def assert_same(one, other):
    for a, b in zip(contents(one), contents(other), strict=True):
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
    assert one.labels.classes == other.labels.classes
    assert one.labels.counts.tolist() == other.labels.counts.tolist()


def chunk_files(path, array="codes"):
    (folder,) = Path(path).glob("codes-*")
    return sorted(file for file in (folder / array / "c").rglob("*") if file.is_file())


# Encoding


def test_encode__writes_codes_and_tables(tmp_path):
    store = encode(tmp_path / "s")
    assert store.n_codes.tolist() == [6, 6, 3, 1, 7, 1, 6]  # floor(sqrt(1200 / 30)) bins
    assert store.missing_code.tolist() == [-1, -1, -1, -1, 6, 0, -1]
    assert store.n_codes.dtype == store.missing_code.dtype == np.int16
    assert store.values.shape == (7, 7)
    assert not store.nominal.any()
    codes = read_codes(store, ALL, ALL)
    assert codes.dtype == np.uint8
    assert codes.flags.c_contiguous
    assert np.array_equal(codes[2], X[:, 2])
    assert np.array_equal(codes[4] == 6, np.isnan(X[:, 4]))
    for j in (0, 1, 4, 6):
        for b in range(store.n_codes[j] - (store.missing_code[j] >= 0)):
            assert store.values[j, b] == pytest.approx(X[codes[j] == b, j].mean(), rel=1e-12)
    assert store.n_features == 7
    assert store.n_samples == 1200


def test_encode__writes_manifest_and_chunk_files(tmp_path):
    store = encode(tmp_path / "s", chunks=(500, 4))
    root = zarr.open_group(tmp_path / "s", mode="r")
    assert root.attrs.asdict() == {"format": "hofs_dask codes", "version": VERSION}
    manifest = read_manifest(store.root)
    assert (manifest.content.bins, manifest.content.n_bins) == ("auto", 6)
    assert manifest.identity == store.identity
    group = root[store.folder]
    assert group["codes"].chunks == (4, 500)
    assert store.chunks == (500, 4)
    assert group["codes"].fill_value == 255
    assert group[f"labels/{store.labels.key}"].chunks == (500,)
    # Four features with three planes of eight words each, and a checksum of four bytes.
    assert {file.stat().st_size for file in chunk_files(tmp_path / "s")} == {4 * 3 * 8 * 8 + 4}
    assert len(chunk_files(tmp_path / "s")) == 6


@pytest.mark.parametrize("bins", ["auto", 9, "width"])
def test_encode__does_not_depend_on_chunks(tmp_path, bins):
    one = encode(tmp_path / "one", bins=bins)
    for number, (length, width) in enumerate([(97, 3), (1000, 7), (1200, 1), (1, 7)][:3]):
        data = da.from_array(X, chunks=(length, width))
        target = da.from_array(Y, chunks=211)
        path = tmp_path / f"{number}"
        assert_same(one, encode(path, data, target, bins=bins, chunks=(length, 2)))


def test_encode__does_not_depend_on_chunks_when_tables_are_sampled(tmp_path, monkeypatch):
    monkeypatch.setattr(summary_module, "SAMPLE_ROWS", 300)
    one = encode(tmp_path / "one", target=X[:, 0])
    for length in (97, 1000):
        data = da.from_array(X, chunks=(length, 3))
        assert_same(one, encode(tmp_path / f"{length}", data, X[:, 0]))


def test_encode__does_not_depend_on_the_width_of_tiles(tmp_path, monkeypatch):
    one = encode(tmp_path / "one")
    monkeypatch.setattr(encode_module, "TILE_BYTES", 1200 * 8 * 2)
    assert_same(one, encode(tmp_path / "two"))


def test_encode__every_input_gives_the_same_codes(tmp_path):
    names = [f"x{j}" for j in range(7)]
    frame = pd.DataFrame(X, columns=names).assign(y=Y)
    array = xr.DataArray(X, dims=("sample", "feature"), coords={"feature": names}, name="x")
    dataset = array.to_dataset().assign(y=("sample", Y))
    with warnings.catch_warnings(action="ignore"):  # zarr warns about the string dtype
        dataset.to_zarr(tmp_path / "x.zarr", consolidated=False)
    columns = xr.Dataset({name: ("sample", X[:, j]) for j, name in enumerate(names)})
    plain = zarr.create_group(tmp_path / "plain.zarr")
    plain.create_array("x", data=X, chunks=(100, 3), shards=(300, 6))
    plain.create_array("y", data=Y)
    cube = array.data.reshape(30, 40, 7).transpose(2, 0, 1)
    inputs = [
        (da.from_array(X, chunks=(97, 3)), Y, None),
        (frame, "y", None),
        (dd.from_pandas(frame, npartitions=3), "y", None),
        (array, Y, None),
        (array.chunk(sample=100), xr.DataArray(Y, dims="sample"), None),
        (array.assign_coords(y=("sample", Y)), "y", None),
        (dataset, "y", "feature"),
        (columns.assign(y=("sample", Y)), "y", None),
        (tmp_path / "x.zarr", "y", None),
        (tmp_path / "plain.zarr", "y", None),
        (xr.DataArray(cube, dims=("band", "r", "c")), Y.reshape(30, 40), "band"),
        (np.asfortranarray(X).astype(">f8"), Y, None),
    ]
    reference = encode(tmp_path / "reference")
    for number, (data, target, dim) in enumerate(inputs):
        store = encode(tmp_path / str(number), data, target, feature_dim=dim)
        assert_same(reference, store)
        assert list(store.names) == names


def test_encode__codes_a_frame_of_mixed_dtypes(tmp_path):
    frame = pd.DataFrame(
        {
            "height": X[:, 0],
            "colour": np.where(X[:, 0] > 0, "red", "blue"),
            "width": X[:, 6],
            "open": pd.array([True, False, None, True] * 300, dtype="boolean"),
            "size": pd.Categorical([10, 9] * 600),
        }
    )
    store = encode(tmp_path / "s", frame, Y)
    assert store.nominal.tolist() == [False, True, False, True, True]
    assert store.categories(1) == ["blue", "red"]
    assert store.categories(3) == [False, True, None]
    assert store.categories(4) == [9, 10]
    assert len(store.categories(0)) == 6
    codes = read_codes(store, ALL, ALL)
    assert np.array_equal(codes[1], X[:, 0] > 0)
    assert codes[3, :4].tolist() == [1, 0, 2, 1]
    assert codes[4, :2].tolist() == [1, 0]
    with pytest.raises(IndexError, match="from 0 to 4"):
        store.categories(5)


@pytest.mark.parametrize("scale", [1e300, 1e307, 1e-300])
@pytest.mark.parametrize("bins", ["auto", "width"])
def test_encode__huge_and_tiny_values_get_the_same_codes(tmp_path, scale, bins):
    small, scaled = (encode(tmp_path / f"{s}", X * s, Y, bins=bins) for s in (1.0, scale))
    assert small.n_codes.tolist() == scaled.n_codes.tolist()
    assert np.isfinite(scaled.values[0, : scaled.n_codes[0]]).all()
    if bins == "auto":
        assert np.array_equal(read_codes(small, ALL, ALL), read_codes(scaled, ALL, ALL))


def test_encode__nominal_numbers_are_categories(tmp_path):
    store = encode(tmp_path / "s", np.array([[10], [9], [100], [9]] * 9), Y[:36], nominal=True)
    assert store.categories(0) == [9, 10, 100]
    assert read_codes(store, ALL, slice(4)).ravel().tolist() == [1, 0, 2, 0]


def test_encode__bins_none_keeps_codes(tmp_path):
    data = np.arange(1200).reshape(-1, 1) % 254
    store = encode(tmp_path / "s", data, bins=None)
    assert np.array_equal(read_codes(store, ALL, ALL), data.T)
    with pytest.raises(ValueError, match="feature 'x1' is int64 from 0 to 254"):
        encode(tmp_path / "t", np.array([[0, 0], [1, 254]] * 4), Y[:8], bins=None)


def test_encode__width_uses_the_exact_range(tmp_path):
    store = encode(tmp_path / "s", X[:, :1], bins="width")
    edges = np.asarray(zarr.open_group(store.place.path)["edges"])[0]
    low, high = X[:, 0].min(), X[:, 0].max()
    assert edges == pytest.approx(low + (high - low) * np.arange(1, 6) / 6)


@pytest.mark.parametrize("chunks", [(0, 1), (5,), (2.5, 3), (1, 2, 3)])
def test_encode__invalid_chunks_are_refused(tmp_path, chunks):
    with pytest.raises(ValueError, match="give two positive integers"):
        encode(tmp_path / "s", chunks=chunks)


def test_encode__computes_twice(tmp_path):
    calls = []

    def counting(dsk, keys, **options):
        calls.append(keys)
        return dask.get(dsk, keys, **options)

    source = open_source(da.from_array(X, chunks=(100, 3)), da.from_array(Y, chunks=100))
    with dask.config.set(scheduler=counting):
        encode_source(source, tmp_path / "s")
        assert len(calls) == 2
        encode_source(source, tmp_path / "s")
        assert len(calls) == 2


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_encode__schedulers_agree(tmp_path, scheduler):
    one = encode(tmp_path / "one")
    with dask.config.set(scheduler=scheduler):
        assert_same(one, encode(tmp_path / "two", da.from_array(X, chunks=(97, 3)), Y))


def test_encode__cluster_and_synchronous_scheduler_agree(tmp_path, client):
    frame = pd.DataFrame(X).assign(text=np.where(X[:, 0] > 0, "red", "blue"))
    one = encode(tmp_path / "one", frame, Y, chunks=(300, 3))
    with dask.config.set(scheduler="synchronous"):
        two = encode(tmp_path / "two", frame, Y)
    assert_same(one, two)
    bad = frame.assign(bad=np.where(X[:, 0] > 2, np.inf, 0))
    with pytest.raises(ValueError, match="feature 'bad' contains"):
        encode(tmp_path / "three", bad, Y)


def test_store__is_pickled_and_has_a_short_repr(tmp_path):
    store = encode(tmp_path / "s")
    text = repr(pickle.loads(pickle.dumps(store)))
    assert "1200" in text
    assert "3 classes" in text
    assert len(text.splitlines()) < 12


# Targets


def labels_of(tmp_path, target, **options):
    target = np.asarray(target) if isinstance(target, list) else target
    store = encode(tmp_path / "s", X[: len(target)], target, **options)
    return store.labels, read_labels(store, ALL)


def test_target__classes_are_ordered_by_frequency_then_label(tmp_path):
    labels, codes = labels_of(tmp_path, ["b", "c", "a", "c", "d", "b", "a", "d", "d"])
    assert labels.kind == "class"
    assert labels.classes == ("d", "a", "b", "c")
    assert labels.counts.tolist() == [3, 2, 2, 2]
    assert labels.values.tolist() == [0, 1, 2, 3]
    assert codes.tolist() == [2, 3, 1, 3, 0, 2, 1, 0, 0]


@pytest.mark.parametrize(
    ("target", "kind", "classes"),
    [
        (np.array([True, False, True, False, True]), "class", (True, False)),
        (np.array([7, -1, 7, -1, 7]), "class", (7, -1)),
        (pd.Series([7, None, 7, 2, 2], dtype="Int64"), "class", (2, 7)),
        (pd.Series([1.5, 2.5, 1.5, 2.5, 1.5]).astype("category"), "class", (1.5, 2.5)),
        (pd.Series(["u", None, "u", "v", "v"]), "class", ("u", "v")),
        (np.array([1.0, 2.0, 1.0, 2.0, 1.0]), "class", (1, 2)),
        (np.array([1.5, 2.0, 1.5, 2.0, 1.5]), "continuous", ("< 2", ">= 2")),
    ],
)
def test_target__auto_infers_the_kind(tmp_path, target, kind, classes):
    labels, codes = labels_of(tmp_path, target)
    assert (labels.kind, labels.classes) == (kind, classes)
    missing = pd.isna(np.asarray(target, dtype=object))
    assert codes.max() == 1
    assert labels.n_dropped == missing.sum() == len(target) - len(codes)


def test_target__many_integers_are_continuous(tmp_path):
    labels, codes = labels_of(tmp_path, np.arange(1200))
    assert labels.kind == "continuous"
    assert labels.n_classes == 8
    assert labels.counts.tolist() == [150] * 8
    assert labels.values == pytest.approx(74.5 + 150 * np.arange(8))
    assert np.array_equal(codes, np.arange(1200) // 150)


def test_target__continuous_gives_an_atom_its_own_class(tmp_path):
    target = np.where(np.arange(1200) < 600, 0.0, X[:, 0] ** 2)
    labels, codes = labels_of(tmp_path, target)
    assert labels.values[0] == 0
    assert np.array_equal(codes == 0, target == 0)
    assert labels.n_classes == 8


def test_target__ordinal_keeps_the_values(tmp_path):
    labels, codes = labels_of(tmp_path, [3.5, 1, 2, 1, 3.5, 2], target_kind="ordinal")
    assert (labels.kind, labels.classes) == ("ordinal", (1.0, 2.0, 3.5))
    assert labels.values.tolist() == [1, 2, 3.5]
    assert codes.tolist() == [2, 0, 1, 0, 2, 1]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kept", [np.arange(1200) % 3 > 0, np.arange(1200) >= 200])
def test_target__rows_without_a_target_have_no_effect(tmp_path, kept, lazy):
    data, target = X.copy(), np.where(kept, Y, np.nan)
    data[~kept] = 1e9 * np.arange((~kept).sum())[:, None]  # would move every edge
    if lazy:
        data, target = da.from_array(data, chunks=(97, 3)), da.from_array(target, chunks=211)
    store = encode(tmp_path / "s", data, target, target_kind="class", chunks=(100, 7))
    alone = encode(tmp_path / "t", X[kept], Y[kept].astype(float), target_kind="class")
    assert_same(store, alone)
    assert store.labels.n_dropped == (~kept).sum()
    assert store.n_samples == kept.sum() == store.labels.counts.sum()


def test_target__rows_without_a_target_do_not_change_the_sampled_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(summary_module, "SAMPLE_ROWS", 300)
    target = np.where(np.arange(1200) % 3 > 0, X[:, 0], np.nan)
    store = encode(tmp_path / "s", X, da.from_array(target, chunks=211))
    alone = encode(tmp_path / "t", X[~np.isnan(target)], target[~np.isnan(target)])
    assert_same(store, alone)


@pytest.mark.parametrize(
    ("target", "options", "error", "words"),
    [
        (np.zeros(1200), {}, ValueError, "only one value, 0"),
        (["a"] * 1200, {}, ValueError, "only one value, 'a'"),
        (np.full(1200, np.nan), {}, ValueError, "all 1200 are missing"),
        ([None] * 1200, {}, ValueError, "all 1200 are missing"),
        (np.where(Y > 0, np.inf, X[:, 0]), {}, ValueError, f"{(Y > 0).sum()} infinite"),
        (np.arange(1200), {"target_kind": "class"}, ValueError, "1200 classes.*target_kind"),
        (np.arange(1200), {"target_kind": "ordinal"}, ValueError, "1200 classes.*target_kind"),
        (
            [str(k) for k in range(1200)],
            {"target_kind": "auto"},
            ValueError,
            "1200 classes.*target_kind",
        ),
        (["a", "b"] * 600, {"target_kind": "ordinal"}, ValueError, "contains text"),
        (["a", "b"] * 600, {"target_kind": "continuous"}, ValueError, "contains text"),
        (Y, {"target_kind": "clas"}, ValueError, "unknown target_kind 'clas'; valid: 'class'"),
        (
            np.array([1, "a"] * 600, dtype=object),
            {},
            TypeError,
            "'target' contains objects of type int",
        ),
    ],
)
def test_target__invalid_values_are_refused(tmp_path, target, options, error, words):
    with pytest.raises(error, match=words):
        encode(tmp_path / "s", X, target, **options)
    assert not (tmp_path / "s").exists()


def test_target__none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="give a target"):
        encode(tmp_path / "s", X, None)


def test_target__class_of_one_sample_warns(tmp_path):
    target = np.where(np.arange(1200) == 5, 9, Y)
    advice = ', or give target_kind="continuous" if it is a number'
    with pytest.warns(UserWarning, match=f"only one sample of class 9; .*{advice}"):
        encode(tmp_path / "s", X, target)
    for text in (target.astype(str), target == 9):
        with pytest.warns(UserWarning, match="merge the classes$"):
            encode(tmp_path / "s", X, text)


def test_target__many_small_integer_classes_warn(tmp_path):
    with pytest.warns(UserWarning, match='target_kind="continuous"'):
        encode(tmp_path / "s", X[:100], np.arange(100))
    assert (
        encode(
            tmp_path / "s", X[:100], np.arange(100), target_kind="continuous"
        ).labels.counts.min()
        > 1
    )


# Data that cannot be coded


def test_features__error_names_the_first_bad_feature(tmp_path):
    bad = X.copy()
    bad[[3, 7, 900], 4] = np.inf
    bad[0, 6] = -np.inf
    with pytest.raises(ValueError, match="feature 'x4' contains 3 infinite"):
        encode(tmp_path / "s", da.from_array(bad, chunks=(100, 1)), Y)
    assert not (tmp_path / "s").exists()


def test_features__error_names_an_identifier(tmp_path):
    frame = pd.DataFrame({"x": X[:, 0], "id": [f"n{k}" for k in range(1200)]})
    with pytest.raises(ValueError, match="feature 'id' has a distinct value in each"):
        encode(tmp_path / "s", frame, Y)


def test_features__error_names_unsupported_types(tmp_path):
    frame = pd.DataFrame({"x": X[:, 0], "odd": np.array(["a", 3] * 600, dtype=object)})
    with pytest.raises(TypeError, match="feature 'odd' contains objects of type int"):
        encode(tmp_path / "s", frame, Y)


def test_features__random_tasks_are_detected(tmp_path):
    reads = itertools.count()

    def unstable(block):
        return np.where(next(reads) > 0, np.nan, block)

    data = da.from_array(X[:, :1], chunks=(1200, 1)).map_blocks(unstable, meta=np.empty((0, 0)))
    source = open_source(data, Y)
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="changed"):
        encode_source(source, tmp_path / "s")
    assert not (tmp_path / "s").exists()


# Reuse


def stamps(path, array="codes"):
    return [file.stat().st_mtime_ns for file in chunk_files(path, array)]


def test_reuse__same_data_and_options_write_no_files(tmp_path):
    one = encode(tmp_path / "s", chunks=(500, 4))
    before = stamps(tmp_path / "s"), stamps(tmp_path / "s", f"labels/{one.labels.key}")
    two = encode(tmp_path / "s", X.copy(), Y.copy())
    assert before == (stamps(tmp_path / "s"), stamps(tmp_path / "s", f"labels/{two.labels.key}"))
    assert_same(one, two)


def test_reuse__another_target_adds_only_labels(tmp_path):
    encode(tmp_path / "s", chunks=(500, 4))
    before = stamps(tmp_path / "s")
    other = xr.DataArray(X[:, 0], dims="n", name="height")
    store = encode(tmp_path / "s", X, other)
    assert stamps(tmp_path / "s") == before
    assert (store.labels.name, store.labels.kind) == ("height", "continuous")
    # bins="auto" depends on the number of classes, but the codes are not changed.
    assert store.n_codes[0] == 6
    assert read_labels(store, ALL).max() == 7
    assert open_codes(tmp_path / "s", "target").labels.kind == "class"
    assert open_codes(tmp_path / "s", "height").labels.kind == "continuous"
    with pytest.raises(ValueError, match="several targets.*height, target"):
        open_codes(tmp_path / "s")
    with pytest.raises(ValueError, match="unknown target of .*'heigt'; valid: 'height'"):
        open_codes(tmp_path / "s", "heigt")


def test_reuse__latest_target_with_a_name_is_opened(tmp_path):
    first = encode(tmp_path / "s").labels.key
    second = encode(tmp_path / "s", target=Y[::-1].copy()).labels.key
    assert first != second
    assert open_codes(tmp_path / "s").labels.key == second
    assert open_codes(tmp_path / "s", first).labels.key == first


@pytest.mark.parametrize(
    "change", [{"data": X + 1}, {"bins": 4}, {"nominal": ["x2"]}], ids=["data", "bins", "nominal"]
)
def test_reuse__changed_data_or_options_are_encoded_again(tmp_path, change):
    one = encode(tmp_path / "s")
    read_codes(one, ALL, ALL)
    two = encode(tmp_path / "s", **change)
    assert two.fingerprint != one.fingerprint
    assert_same(encode(tmp_path / "fresh", **change), two)


def test_reuse__reading_a_replaced_store_is_an_error(tmp_path):
    one = encode(tmp_path / "s")
    assert read_codes(one, ALL, ALL).shape == (7, 1200)
    two = encode(tmp_path / "s", X[:50], Y[:50])
    with pytest.raises(CodeStoreError, match="encoded again or removed after it was opened"):
        read_codes(one, ALL, ALL)
    assert read_codes(two, ALL, ALL).shape == (7, 50)
    assert len(list((tmp_path / "s").glob("codes-*"))) == 1


def test_reuse__target_missing_in_other_rows_is_refused(tmp_path):
    encode(tmp_path / "s")
    target = pd.Series(np.where(X[:, 0] > 1, np.nan, X[:, 0]), name="height")
    with pytest.raises(ValueError, match="'height' is missing or ignored for other samples"):
        encode(tmp_path / "s", X, target)
    assert open_codes(tmp_path / "s").labels.name == "target"


def test_reuse__failed_encoding_keeps_the_earlier_store(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(encode_module, "write_manifest", fail)
        with pytest.raises(OSError, match="no"):
            encode(tmp_path / "s")
    assert not (tmp_path / "s").exists()
    one = encode(tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr(encode_module, "write_manifest", fail)
        with pytest.raises(OSError, match="no"):
            encode(tmp_path / "s", X + 1)
    assert_same(open_codes(tmp_path / "s"), one)  # the earlier store is unchanged


def test_reuse__folders_of_a_killed_process_are_removed(tmp_path):
    """A process that is killed while it writes leaves a folder without a manifest."""
    one = encode(tmp_path / "s")
    shutil.copytree(one.place, tmp_path / "s" / "codes-0123")
    (tmp_path / "s" / "manifest.json").unlink()
    assert is_codes(tmp_path / "s")
    with pytest.raises(ValueError, match="is not finished; encode the data again"):
        open_codes(tmp_path / "s")
    two = encode(tmp_path / "s")
    assert_same(two, encode(tmp_path / "fresh"))
    assert [path.name for path in (tmp_path / "s").glob("codes-*")] == [two.folder]


def test_reuse__other_data_at_the_path_is_not_changed(tmp_path):
    zarr.create_group(tmp_path / "group").create_array("x", data=X)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("draft")
    (tmp_path / "file").write_text("draft")
    for name in ("group", "folder", "file"):
        with pytest.raises(ValueError, match="give another path"):
            encode(tmp_path / name)
        with pytest.raises(ValueError, match="give another path"):
            open_codes(tmp_path / name)
        assert not is_codes(tmp_path / name)
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "draft"
    assert np.array_equal(zarr.open_group(tmp_path / "group")["x"][:], X, equal_nan=True)
    (tmp_path / "empty").mkdir()
    assert encode(tmp_path / "empty").n_samples == 1200


# Opening and reading


def test_open__returns_the_store_that_encode_returned(tmp_path):
    one = encode(tmp_path / "s")
    two = open_codes(str(tmp_path / "s"))
    assert_same(one, two)
    assert (one.names, one.chunks, one.fingerprint) == (two.names, two.chunks, two.fingerprint)


def test_open__missing_path_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        open_codes(tmp_path / "nothing")
    assert not is_codes(tmp_path / "nothing")


def test_open__other_version_is_an_error(tmp_path):
    encode(tmp_path / "s")
    zarr.open_group(tmp_path / "s", mode="r+").attrs["version"] = 99
    for call in (open_codes, encode):
        with pytest.raises(ValueError, match="version 99"):
            call(tmp_path / "s")


def test_open__accepts_urls(tmp_path):
    for place in (f"file://{tmp_path}", "memory://tests"):
        store = encode(f"{place}/s")
        assert_same(store, encode(tmp_path / "local"))
        assert_same(store, encode(f"{place}/s"))
        assert is_codes(f"{place}/s")
        assert not is_codes(f"{place}/nothing")
        with pytest.raises(FileNotFoundError, match="nothing"):
            open_codes(f"{place}/nothing")


def test_read__returns_any_region(tmp_path):
    store = encode(tmp_path / "s", chunks=(100, 3))
    whole = read_codes(store, ALL, ALL)
    part = read_codes(store, slice(2, 6), slice(150, 420))
    assert np.array_equal(part, whole[2:6, 150:420])
    assert part.flags.c_contiguous
    assert read_codes(store, ALL, slice(5, 5)).shape == (7, 0)


def test_read__error_names_a_corrupt_chunk(tmp_path):
    store = encode(tmp_path / "s", chunks=(100, 3))
    file = Path(store.place, "codes", "c", "1", "4")
    damaged = bytearray(file.read_bytes())
    damaged[17] ^= 1
    file.write_bytes(damaged)
    read_codes(store, ALL, slice(0, 400))
    for rows in (slice(0, 1200), slice(450, 460)):
        with pytest.raises(CodeStoreError, match=r"chunk \(1, 4\) of array 'codes' in .*/s"):
            read_codes(store, ALL, rows)


@pytest.mark.parametrize("size", [0, 2, 100])
def test_read__error_names_a_truncated_chunk(tmp_path, size):
    store = encode(tmp_path / "s", chunks=(100, 3))
    file = Path(store.place, "codes", "c", "2", "0")
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(CodeStoreError, match=r"chunk \(2, 0\)"):
        read_codes(store, ALL, ALL)


def test_read__error_names_a_missing_chunk(tmp_path):
    store = encode(tmp_path / "s", chunks=(100, 3))
    Path(store.place, "codes", "c", "0", "7").unlink()
    with pytest.raises(CodeStoreError, match=r"chunk \(0, 7\) of array 'codes' .*No such file"):
        read_codes(store, ALL, slice(650, 900))
    key = store.labels.key
    Path(store.place, "labels", key, "c", "2").unlink()
    with pytest.raises(CodeStoreError, match=rf"chunk \(0, 2\) of array 'labels/{key}' .*No such"):
        read_labels(store, ALL)


def test_open__error_names_a_corrupt_table(tmp_path):
    encode(tmp_path / "s")
    (file,) = chunk_files(tmp_path / "s", "values")
    damaged = bytearray(file.read_bytes())
    damaged[3] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(CodeStoreError, match="array 'values'"):
        open_codes(tmp_path / "s")


def test_code_store_error__survives_pickling():
    error = CodeStoreError("chunk (0, 1) of array 'codes'")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_temporary_store__is_in_dasks_directory_and_removed(tmp_path):
    with dask.config.set({"temporary-directory": str(tmp_path / "scratch")}):
        with temporary_store() as path:
            encode(path)
            assert Path(path).is_relative_to(tmp_path / "scratch")
        assert not any((tmp_path / "scratch").iterdir())


def test_read__chunks_that_are_not_kept_share_memory(tmp_path):
    store = encode(tmp_path / "s", chunks=(100, 7))
    whole = read_codes(store, ALL, ALL)

    def planes(row, *, keep):
        return as_planes(store, store.code_chunks.read(0, row, keep=keep))

    first = planes(0, keep=False)
    assert first.ctypes.data % 64 == 0
    assert np.array_equal(unpacked(first, 100), whole[:, :100])
    second = planes(1, keep=False)
    assert np.shares_memory(first, second)
    assert np.array_equal(unpacked(second, 100), whole[:, 100:200])
    kept = planes(0, keep=True)
    assert not np.shares_memory(kept, second)
    assert np.array_equal(unpacked(second, 100), whole[:, 100:200])


def test_codes__are_readable_by_xarray(tmp_path):
    store = encode(tmp_path / "s", chunks=(128, 7))
    assert store.bits == int(store.n_codes.max() - 1).bit_length()
    opened = xr.open_zarr(
        store.path,
        group=store.folder,
        consolidated=False,
        drop_variables=["edges", "values"],
        mask_and_scale=False,
    )["codes"]
    assert opened.dims == ("feature", "sample")
    assert opened.dtype == np.uint8
    assert np.array_equal(opened, read_codes(store, ALL, ALL))
    (*_, file) = chunk_files(tmp_path / "s", "codes")
    assert file.stat().st_size == 7 * store.bits * 128 // 8 + 4


def test_chunk_files__are_identical_to_those_of_zarr(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (150, 7)).astype(np.uint8)
    found, expected = (
        hd.encode(x, x[:, 0] > 2, tmp_path / name, bins=None, chunks=(64, 4))
        for name in ("found", "expected")
    )
    for name, cells in (("codes", x.T), (f"labels/{expected.labels.key}", (x[:, 0] > 2) * 1)):
        zarr.open_array(expected.place.path, path=name, mode="r+")[:] = cells.astype(np.uint8)
        files = sorted(file for file in Path(expected.place, name).rglob("*") if file.is_file())
        assert len(files) > 1
        for file in files:
            other = Path(found.place, file.relative_to(expected.place))
            assert other.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("lazy", [False, True])
def test_tables__write_error_is_raised(lazy, tmp_path, monkeypatch):
    """A separate task writes the tables, in parallel with the codes."""

    def fail(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr(metadata_module, "write_table", fail)
    target = da.from_array(Y, chunks=100) if lazy else Y
    with pytest.raises(OSError, match="the disk is full"):
        encode(tmp_path / "s", X, target)
    assert not (tmp_path / "s").exists()


def test_write_chunk__failure_keeps_the_old_chunk_and_names_it(tmp_path):
    x = np.arange(4000, dtype=np.uint8).reshape(2000, 2) % 3
    codes = hd.encode(x, x[:, 0] > 0, tmp_path / "codes", bins=None)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))  # simulates a full disk
    try:
        with pytest.raises(OSError, match="File too large: '.*/codes/c/0/0'"):
            write_chunk(codes.place, "codes/c/0/0", np.zeros((2, 2, 32), np.uint64))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    np.testing.assert_array_equal(read_codes(codes, slice(0, 2), slice(0, 2000)), x.T)
    assert not list(Path(codes.path).rglob("*.partial"))


def test_write_chunk__does_not_restore_a_removed_store(tmp_path):
    x = np.arange(4000, dtype=np.uint8).reshape(2000, 2) % 3
    codes = hd.encode(x, x[:, 0] > 0, tmp_path / "codes", bins=None)
    shutil.rmtree(codes.path)
    with pytest.raises(FileNotFoundError):
        write_chunk(codes.place, "codes/c/0/0", np.zeros((2, 2, 32), np.uint64))
    assert not Path(codes.path).exists()


def test_encode__error_names_and_counts_infinite_values(tmp_path):
    data = np.random.default_rng(5).normal(size=(40_000, 9))
    data[[5, 20_000, 39_999], 4] = np.inf
    array = zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(1000, 9))
    with pytest.raises(ValueError, match="'x4'.* 3 "):
        hd.encode(array, np.arange(len(data)) % 2, tmp_path / "codes.zarr")


@pytest.mark.parametrize("rows", [1000, 997, 40_000])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1"])
def test_encode__codes_do_not_depend_on_the_chunks_of_a_zarr_array(tmp_path, rows, dtype):
    rng = np.random.default_rng(5)
    data = (20 * rng.normal(size=(40_000, 9)) + 100).astype(dtype)
    if data.dtype.kind == "f":
        data[rng.random(data.shape) < 0.01] = np.nan
    data[:, 3] = rng.integers(0, 4, len(data))
    target = rng.integers(0, 3, len(data))
    zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(rows, 9))

    def encode(source, name, chunks):
        codes = hd.encode(source, target, tmp_path / name, nominal=["x3"], chunks=chunks)
        return read_codes(codes, slice(0, 9), slice(0, len(data))), codes.values

    expected = encode(da.from_array(data, chunks=(7000, 9)), "blocks.zarr", None)
    for name, chunks in (("even.zarr", (4 * rows, 9)), ("odd.zarr", (1500, 4))):
        for a, b in zip(encode(tmp_path / "x.zarr", name, chunks), expected, strict=True):
            np.testing.assert_array_equal(a, b)
