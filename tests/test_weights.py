"""Weights of samples: exact counts, every method, bins, code stores, and errors."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import hofs_dask as hd
from hofs_dask.engine import scanning
from hofs_dask.engine.counts import (
    MARGINAL_COUNTS,
    PAIR_COUNTS,
    MarginalContext,
    PairContext,
)
from hofs_dask.engine.reduction import Block, Request, Tile, WholeSets, joined, split_sets
from hofs_dask.engine.scanning import run
from hofs_dask.errors import CodeStoreError
from hofs_dask.kernels.hashing import fold_of, multiplicity
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.store.codes import read_codes, read_labels
from hofs_dask.store.weights import quantise, summarise_weights, unit_of
from tests.cli.shell import run as shell
from tests.oracles_interactions import expected_deviance, table_of

rng = np.random.default_rng(11)
N = 700
Y = rng.integers(0, 3, N)
X = rng.integers(0, 5, (N, 6))
X[:, 2] += Y
X[:, 4] = np.where(rng.random(N) < 0.7, X[:, 2], X[:, 4])
W = rng.integers(1, 16, N)
REAL = rng.gamma(2.0, size=N)
COUNTED = [method for method in hd.METHODS if method != "hofs"]


def stored_weights(codes):
    return zarr.open_array(f"{codes.place}/weights", mode="r")[:].astype(np.int64)


def encoded(path, weights=W, data=X, target=Y, **options):
    return hd.encode(data, target, path / "codes.zarr", weights=weights, **options)


def same(one, other):
    assert one.to_dataset().drop_attrs().equals(other.to_dataset().drop_attrs())


# Counts


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 300),
    n_codes=st.integers(2, 20),
    n_classes=st.integers(1, 4),
    shape=st.sampled_from(["random", "bits", "runs", "two"]),
)
def test_counts__equal_those_of_numpy_for_any_weights(seed, n, n_codes, n_classes, shape):
    local = np.random.default_rng(seed)

    def draw(high, *size):
        return local.integers(0, high, size).astype(np.uint8)

    weights = {
        "random": local.integers(1, 2**16, n),
        "bits": local.integers(1, 16, n),
        "runs": np.repeat(local.integers(1, 256, n), local.integers(1, 200, n))[:n],
        "two": np.where(local.random(n) < 0.1, 3, 200),
    }[shape].astype(np.uint16)
    codes, parent, labels, folds = (
        draw(n_codes, 5, n),
        draw(n_codes, 1, n),
        draw(n_classes, n),
        draw(4, n),
    )
    block = Block(Tile.of(codes), Tile.of(parent), labels, folds, None, weights)
    cases = (
        (MARGINAL_COUNTS, MarginalContext(n_classes, n_codes), 4 * n_classes, folds),
        (PAIR_COUNTS, PairContext(n_classes, n_codes, False), n_codes * n_classes, parent[0]),
    )
    for reduction, context, n_cells, first in cases:
        partial = reduction.identity(context, 5)
        reduction.chunk(context, block, partial)
        cells = first.astype(np.int64) * n_classes + labels
        for i in range(5):
            expected = np.bincount(cells * n_codes + codes[i], weights, n_cells * n_codes)
            np.testing.assert_array_equal(partial["counts"][i].ravel(), expected)


@pytest.mark.parametrize(
    ("weights", "masks"),
    [
        (np.arange(300) % 15 + 1, [1, 2, 4, 8]),
        (rng.permutation(300) % 3 * 100 + 7, [7, 107, 207]),  # three weights, which have six bits
        (np.repeat([3, 70, 9], 100), None),
    ],
)
def test_sets__weights_in_all_words_are_counted_by_value_or_by_bit(weights, masks):
    sets = split_sets(weights.astype(np.uint16))
    found = joined(sets)
    if masks is None:
        assert found.repeated.tolist() == [1, 3]
    else:
        assert isinstance(found, WholeSets)
        assert found.values.tolist() == masks
    masks, values = sets
    bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")
    total = (bits.reshape(len(masks), -1, 64) * values[:, :, np.newaxis]).sum(axis=0).ravel()
    np.testing.assert_array_equal(total[:300], weights)
    assert not total[300:].any()


def test_scans__split_the_weights_of_a_chunk_once(tmp_path, monkeypatch):
    codes = encoded(tmp_path, W, bins=4, chunks=(128, 6))
    context = MarginalContext(3, int(codes.n_codes.max()))
    n_splits = []

    def watched(weights):
        n_splits.append(len(weights))
        return split_sets(weights)

    monkeypatch.setattr(scanning, "split_sets", watched)
    for _ in range(3):
        run(codes, [Request(MARGINAL_COUNTS, context)] * 2)
    assert sorted(n_splits) == sorted([128] * (N // 128) + [N % 128])


@pytest.mark.parametrize("resample", [None, 0, 3])
def test_scan__sums_stored_weights_times_draws(tmp_path, resample):
    codes = encoded(tmp_path, REAL, bins=4, chunks=(128, 2))
    context = MarginalContext(3, int(codes.n_codes.max()))
    found = run(codes, [Request(MARGINAL_COUNTS, context, resample=resample)])[0]["counts"]
    weights, every = stored_weights(codes), slice(0, N)
    if resample is not None:
        weights = weights * multiplicity(np.arange(N, dtype=np.uint64), N, resample)
    cells, labels = read_codes(codes, slice(0, 6), every), read_labels(codes, every)
    for i in range(6):
        expected = np.zeros(found.shape[1:], np.int64)
        np.add.at(expected, (fold_of(0, N, 4), labels, cells[i]), weights)
        np.testing.assert_array_equal(found[i], expected)


# Methods


@pytest.mark.parametrize("method", [*COUNTED, hd.HOFS(criterion="sum"), hd.VMI(form="pairwise")])
def test_integer_weights__equal_repeated_rows(method):
    rows = np.repeat(np.arange(N), W)
    found = hd.select(X, Y, 4, method=method, weights=W, bins=8).to_dataset()
    expected = hd.select(X[rows], Y[rows], 4, method=method, bins=8).to_dataset()
    for name in ("index", "subset"):
        np.testing.assert_array_equal(found[name], expected[name])
    for name in ("score", "gain", "information", "relevance"):
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-12)


def test_bins_and_tables__equal_those_of_repeated_rows(tmp_path):
    data, rows = rng.normal(size=(N, 4)), np.repeat(np.arange(N), W)
    data[:, 1] = data[:, 1].round(1)
    data[::7, 2] = np.nan
    found = hd.encode(data, Y, tmp_path / "a", weights=W, bins=9)
    expected = hd.encode(data[rows], Y[rows], tmp_path / "b", bins=9)
    assert [found.categories(i) for i in range(4)] == [expected.categories(i) for i in range(4)]
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)


def test_continuous_target__has_weighted_quantiles(tmp_path):
    target, rows = rng.normal(size=N), np.repeat(np.arange(N), W)
    found = hd.encode(X, target, tmp_path / "a", weights=W, bins=9)
    expected = hd.encode(X[rows], target[rows], tmp_path / "b", bins=9)
    assert found.labels.classes == expected.labels.classes
    np.testing.assert_allclose(found.labels.values, expected.labels.values, rtol=1e-12)


def test_rare_categories__are_rare_by_weight(tmp_path):
    names = np.array([f"c{j:03}" for j in np.arange(2800) % 280], dtype=object)[:, None]
    weights = np.where(np.arange(2800) % 280 < 40, 1, 9)
    codes = hd.encode(names, np.arange(2800) % 2, tmp_path / "s", weights=weights)
    kept = codes.categories(0)
    assert kept[-1] == "other"
    assert [f"c{j:03}" for j in range(40, 280)] == kept[13:-1]


@pytest.mark.parametrize("order", [2, 3])
def test_interactions__have_the_same_synergy_as_repeated_rows(order):
    weights = np.where(np.arange(N) % 5 == 0, 2, 1)
    rows = np.repeat(np.arange(N), weights)
    data = (X > 2).astype(int)
    found = hd.interactions(data, Y, weights=weights, top=20, order=order)
    expected = hd.interactions(data[rows], Y[rows], top=20, order=order)
    assert found.tuples == expected.tuples
    one, other = found.to_dataset(), expected.to_dataset()
    for name in ("synergy", "information", "added"):
        np.testing.assert_allclose(one[name], other[name], rtol=0, atol=1e-12)
    # with weights, the test uses the table of as many samples as are effective
    n_rows, size = len(rows), weights.sum() ** 2 / (weights**2).sum()
    for t, columns in enumerate(one["index"].values):
        table = table_of(data[rows].T, Y[rows], columns)
        df, synergy = one["df"].values[t], one["synergy"].values[t]
        correction = max(expected_deviance(table * size / n_rows) / df, 1) if df else 1
        p = chi2.sf(2 * size * synergy / correction, df) if df else 1
        assert one["p_value"].values[t] == pytest.approx(p, rel=5e-3)


def test_information_matrix__equals_that_of_repeated_rows():
    rows = np.repeat(np.arange(N), W)
    found = hd.information_matrix(X, Y, kind="joint", weights=W, bins=8)
    expected = hd.information_matrix(X[rows], Y[rows], kind="joint", bins=8)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


# Invariances


@pytest.mark.parametrize("constant", [1, 0.1, 7, np.float32(1 / 3)])
def test_constant_weights__give_the_unweighted_result_to_the_last_bit(constant, tmp_path):
    weights = np.full(N, constant)
    given = {"methods": ["hofs", "jmi", "vmi"], "n_resamples": 2}
    same(hd.compare(X, Y, 3, weights=weights, **given), hd.compare(X, Y, 3, **given))
    assert encoded(tmp_path, weights).weights is None
    same(hd.interactions(X, Y, weights=weights), hd.interactions(X, Y))


def test_samples_of_weight_zero__are_as_if_they_were_not_there():
    weights = np.where(np.arange(N) % 3 == 0, 0, W)
    data = X.astype(float)
    data[::3] = 1e9  # would change bins, tables and counts
    kept = weights > 0
    given = {"methods": ["hofs", "jmi", "vmi", hd.HOFS(criterion="sum")], "n_resamples": 2}
    one = hd.compare(data, Y, 4, weights=weights, **given)
    other = hd.compare(data[kept], Y[kept], 4, weights=weights[kept], **given)
    same(one, other)
    mask = hd.select(data, Y, 4, weights=kept)
    same(mask, hd.select(data[kept], Y[kept], 4))
    assert "weights leaves out 234 samples of weight 0" in str(mask)


def test_scale_of_weights__does_not_matter():
    same(hd.select(X, Y, 4, weights=W), hd.select(X, Y, 4, weights=W * 0.37))
    same(hd.select(X, Y, 4, weights=REAL), hd.select(X, Y, 4, weights=REAL * 8))


@pytest.mark.parametrize("rows", [13, 64, 350])
def test_chunks__do_not_change_the_result(rows, tmp_path):
    whole = hd.compare(X, Y, 4, methods=["hofs", "jmi", "vmi"], weights=REAL).to_dataset()
    data, weights = da.from_array(X, chunks=(rows, 4)), da.from_array(REAL, chunks=101)
    cut = hd.compare(data, Y, 4, methods=["hofs", "jmi", "vmi"], weights=weights).to_dataset()
    np.testing.assert_array_equal(cut["index"], whole["index"])
    np.testing.assert_allclose(cut["score"], whole["score"], rtol=1e-12, atol=1e-12)
    codes = encoded(tmp_path, weights, data, bins=6, chunks=(rows, 4))
    other = hd.encode(X, Y, tmp_path / "other", weights=REAL, bins=6)
    np.testing.assert_array_equal(stored_weights(codes), stored_weights(other))
    found, expected = (hd.select(each, None, 4, method="jmi") for each in (codes, other))
    same(found, expected)


def test_weights_by_latitude__are_broadcast_and_lazy():
    local = np.random.default_rng(3)
    lat = np.linspace(-80, 80, 9)
    data = xr.DataArray(
        local.normal(size=(10, 9, 12, 4)), dims=("time", "lat", "lon", "band"), coords={"lat": lat}
    )
    label = data.isel(band=1) + local.normal(size=(10, 9, 12)) > 0
    area = np.cos(np.deg2rad(data["lat"])).rename("area")
    lazy = hd.select(data.chunk({"time": 3}), label, 2, feature_dim="band", weights=area.chunk())
    whole = np.broadcast_to(area.values[None, :, None], (10, 9, 12)).copy()
    same(lazy, hd.select(data, label, 2, feature_dim="band", weights=whole))
    attrs = lazy.to_dataset().attrs
    assert attrs["weights"] == "area"
    exact = whole.sum() ** 2 / (whole**2).sum()
    assert attrs["effective_size"] == pytest.approx(exact, rel=1e-4)
    assert f"weighted by area ({attrs['effective_size']:.4g} effective)" in str(lazy)


def test_groups_and_weights__work_together(tmp_path):
    ids = np.arange(N) % 23
    codes = encoded(tmp_path, groups=ids)
    assert codes.groups.n_groups == 23
    same(hd.select(codes, None, 4), hd.select(X, Y, 4, groups=ids, weights=W))
    assert hd.compare(codes, None, 2, methods=["mim"], n_resamples=2).features["mim"][0] == "x2"


# Quantization


@given(st.lists(st.integers(1, 255), min_size=2), st.floats(1e-6, 1e6))
def test_small_multiples_of_a_unit__are_exact(multiples, unit):
    weights = np.array(multiples) * unit
    found = unit_of(summarise_weights(weights), "w")
    if len(set(multiples)) == 1:
        assert found is None
    else:
        ratios = quantise(weights, found) / weights
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)


@given(st.integers(0, 1000))
def test_other_weights__are_within_half_a_level(seed):
    weights = np.random.default_rng(seed).lognormal(size=1000)
    unit = unit_of(summarise_weights(weights), "w")
    assert unit == weights.max() / (2**16 - 1)
    stored = quantise(weights, unit)
    assert (np.abs(stored * unit - weights) <= unit / 2 + 1e-12)[stored > 1].all()
    assert (weights[stored == 1] < 1.5 * unit).all()


def test_weights__of_which_few_are_huge_are_a_warning():
    weights = np.append(1e9, rng.random(N - 1))
    with pytest.warns(UserWarning, match="the largest weight of 'weights' is so far above the oth"):
        hd.select(X, Y, 1, weights=weights, method="mim")


def test_auto_bins__use_the_effective_size(tmp_path):
    data, target = rng.normal(size=(20_000, 1)), np.arange(20_000) % 2
    weights = np.where(np.arange(20_000) % 100 < 2, 255, 1)
    codes = hd.encode(data, target, tmp_path / "s", weights=weights)
    size = weights.sum() ** 2 / (weights**2).sum()
    assert codes.n_codes[0] == int(np.sqrt(size / 20)) < 31
    assert hd.encode(data, target, tmp_path / "t").n_codes[0] == 31


# Code stores, checkpoints


def test_store__keeps_weights_and_is_reused_only_with_them(tmp_path):
    codes = encoded(tmp_path)
    assert f"weights   weights, effective sample size {codes.weights.effective_size:.6g}" in repr(
        codes
    )
    np.testing.assert_array_equal(stored_weights(codes), W)
    assert codes.weights.total == W.sum()
    assert codes.weights.squares == (W**2).sum()
    same(hd.select(codes.path, None, 3), hd.select(X, Y, 3, weights=W))
    again = encoded(tmp_path)
    assert (again.folder, again.labels.key) == (codes.folder, codes.labels.key)
    other = encoded(tmp_path, target=(Y + 1) % 3)
    assert other.folder == codes.folder  # a second target of the same weighted codes
    same(hd.select(other, None, 3), hd.select(X, (Y + 1) % 3, 3, weights=W))
    plain = encoded(tmp_path, None)
    assert plain.folder != codes.folder
    assert plain.weights is None


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_store__damaged_weights_are_an_error(tmp_path, damage):
    PROCESS.chunks.clear()  # a store with the same content may have been read before
    codes = encoded(tmp_path)
    (chunk,) = (tmp_path / "codes.zarr").glob("codes-*/weights/c/0")
    if damage == "remove":
        chunk.unlink()
    else:
        content = bytearray(chunk.read_bytes())
        content[5] ^= 1
        chunk.write_bytes(bytes(content))
    what = "cannot be read" if damage == "remove" else "does not match its checksum"
    with pytest.raises(CodeStoreError, match=rf"chunk \(0, 0\) of array 'weights' .* {what}"):
        hd.select(codes, None, 1)


def test_checkpoint__of_other_weights_is_refused(tmp_path):
    hd.select(X, Y, 2, weights=W, checkpoint=tmp_path / "run")
    for weights in (16 - W, None):
        with pytest.raises(ValueError, match="data"):
            hd.select(X, Y, 3, weights=weights, checkpoint=tmp_path / "run")
    resumed = hd.select(X, Y, 3, weights=W, checkpoint=tmp_path / "run")
    same(resumed, hd.select(X, Y, 3, weights=W))


def test_weights__of_a_code_store_are_its_own(tmp_path):
    codes = encoded(tmp_path)
    with pytest.raises(ValueError, match="weights is given, but the data is a code store"):
        hd.select(codes, None, 1, weights=W)


def test_estimate__accepts_weights():
    assert hd.estimate(X, Y, 2, weights=W).memory.needed > 0


def test_shell__takes_weights_by_name(tmp_path):
    data = {f"x{j}": ("s", X[:, j]) for j in range(6)}
    path = str(tmp_path / "x.zarr")
    xr.Dataset({**data, "y": ("s", Y), "w": ("s", W)}).to_zarr(path, consolidated=False)
    made = shell("encode", path, tmp_path / "codes.zarr", "--target", "y", "--weights", "w")
    assert made.exit_code == 0, made.output
    assert "weights   w, effective sample size" in made.stdout
    for store, options in (
        (path, ["--target", "y", "--weights", "w"]),
        (tmp_path / "codes.zarr", []),
    ):
        result = shell("select", store, "--n-features", "2", *options)
        assert result.exit_code == 0, result.output
        assert "700 samples weighted by w (" in result.stdout
    refused = shell("select", tmp_path / "codes.zarr", "--n-features", "2", "--weights", "w")
    assert refused.exit_code == 2
    assert "remove --weights, or encode the data again with it" in refused.output


BAD = [
    (np.nan, "is missing for 3 of 700 samples; give every sample a weight (weights.fillna(0) "),
    (-1.0, "is negative for 3 of 700 samples; give numbers >= 0"),
    (np.inf, "is infinite for 3 of 700 samples; give finite numbers"),
]


@pytest.mark.parametrize(("value", "message"), BAD)
def test_bad_weights__are_refused(value, message):
    weights = W.astype(float)
    weights[[1, 2, 30]] = value
    with pytest.raises(ValueError) as caught:
        hd.select(X, Y, 1, weights=weights)
    assert str(caught.value).startswith(f"weights 'weights' {message}")
    target = Y.astype(float)
    target[[1, 2, 30]] = np.nan  # weights of samples without a target are not used
    assert hd.select(X, target, 1, target_kind="class", weights=weights).features == ["x2"]


@pytest.mark.parametrize("method", ["hofs", "jmi"])
@pytest.mark.parametrize("of", ["class", "sample"])
def test_auto__with_weights_rarely_chooses_noise(method, of):
    """In 0.05 of the runs; 6 or more of 40 have a probability of 0.014 at that rate."""
    chosen = 0
    for seed in range(40):
        rng = np.random.default_rng((seed, 3))
        x, y = rng.normal(size=(300, 12)), rng.integers(0, 3, 300)
        w = np.array([1, 4, 9])[y] if of == "class" else rng.random(300) + 0.1
        chosen += len(hd.select(x, y, "auto", method=method, weights=w).features) > 0
    assert chosen <= 5


@pytest.mark.parametrize("method", ["hofs", "jmi", "mim"])
def test_auto__with_weights_chooses_what_is_significant(method):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(900, 12)), rng.integers(0, 2, 900)
    x[:, 4] += y
    x[:, 9] += 0.7 * y
    found = hd.select(x, y, "auto", method=method, weights=np.where(y == 1, 5.0, 1.0))
    assert found.features == ["x4", "x9"]
    whole = np.repeat(np.arange(900), np.where(y == 1, 5, 1))
    repeated = hd.select(x[whole], y[whole], "auto", method=method).to_dataset()
    # repeated samples would count as evidence; weights do not
    assert (found.to_dataset()["p_value"].values > 1e3 * repeated["p_value"].values[:2]).all()


def test_weights__that_are_too_small_are_refused():
    with pytest.raises(ValueError, match=r"weights 'weights' is at most 1e-31.*, too small to be"):
        hd.select(X, Y, 1, weights=np.where(np.arange(N) % 3, 1e-310, 3e-311))


def test_weights__of_any_precision_are_the_same_numbers():
    half = REAL.astype(np.float16)
    expected = hd.select(X, Y, 2, method="jmi", weights=half.astype(np.float64))
    for dtype in (np.float16, np.float32):
        same(hd.select(X, Y, 2, method="jmi", weights=half.astype(dtype)), expected)


def test_weights__that_are_all_zero_are_refused():
    with pytest.raises(
        ValueError, match="weights 'weights' is 0 for all 700 samples; give some weights above 0"
    ):
        hd.select(X, Y, 1, weights=np.zeros(N))
