"""Groups of samples: folds, resamples, code stores and every way to give them."""

import hashlib
import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import hofs_dask as hd
from hofs_dask.engine.counts import MARGINAL_COUNTS, MarginalContext
from hofs_dask.engine.reduction import Request
from hofs_dask.engine.scanning import run
from hofs_dask.errors import CodeStoreError
from hofs_dask.kernels.hashing import draw_groups
from hofs_dask.scheduling.process import PROCESS
from tests.cli.shell import run as shell

rng = np.random.default_rng(5)
N = 600
G = rng.integers(0, 12, N)
Y = (G % 2) ^ (rng.random(N) < 0.2)
X = rng.integers(0, 4, (N, 5))
X[:, 2] += 2 * Y
NAMES = [f"x{j}" for j in range(5)]


def oracle_folds(ids):
    """Return the fold of each sample: the largest group first, to the emptiest of four folds."""

    def order(one):
        text = f"text {one}" if isinstance(one, str) else f"number {one!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    ids = list(ids)
    left = sorted(set(ids), key=lambda one: (-ids.count(one), order(one)))
    held, fold = {0: 0, 1: 0, 2: 0, 3: 0}, {}
    for one in left:
        fold[one] = min(held, key=lambda each: (held[each], each))
        held[fold[one]] += ids.count(one)
    return np.array([fold[one] for one in ids])


def oracle_counts(folds, weights=None):
    counts = np.zeros((5, 4, 2, int(X.max()) + 1), np.int64)
    weights = np.ones(N, int) if weights is None else weights
    classes = (0, 1) if (Y == 0).sum() >= (Y == 1).sum() else (1, 0)
    for i in range(5):
        for fold, y, code, weight in zip(folds, Y, X[:, i], weights, strict=True):
            counts[i, fold, classes.index(int(y)), code] += weight
    return counts


def counts_of(codes, resample=None):
    context = MarginalContext(2, int(codes.n_codes.max()))
    return run(codes, [Request(MARGINAL_COUNTS, context, resample=resample)])[0]["counts"]


def encoded(path, data=X, groups=G, target=Y, **options):
    return hd.encode(data, target, path / "codes.zarr", groups=groups, bins=None, **options)


def same(one, other):
    one, other = one.to_dataset(), other.to_dataset()
    skipped = {"fingerprint", "groups", "target"}
    assert {k: v for k, v in one.attrs.items() if k not in skipped} == {
        k: v for k, v in other.attrs.items() if k not in skipped
    }
    assert one.drop_attrs().equals(other.drop_attrs())


# Folds


@pytest.mark.parametrize("n_groups", [2, 3, 4, 10, 37])
@pytest.mark.parametrize("as_id", [int, str, float, lambda g: f"ä{g}"])
def test_folds__equal_the_oracle_for_any_type_of_id(tmp_path, n_groups, as_id):
    ids = [as_id(g) for g in np.random.default_rng(n_groups).integers(0, n_groups, N)]
    whole = [int(one) if isinstance(one, float) else one for one in ids]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        codes = encoded(tmp_path, groups=ids)
    assert codes.groups.n_groups == n_groups
    folds = oracle_folds(whole)
    assert np.array_equal(counts_of(codes), oracle_counts(folds))
    sizes = np.bincount(folds, minlength=4)
    assert (sizes > 0).sum() == min(n_groups, 4)
    if n_groups >= 10:
        assert sizes.max() <= 1.5 * sizes.min()


@pytest.mark.parametrize("rows", [7, 64, 600])
@pytest.mark.parametrize("chunks", [(50, 2), (600, 5), (64, 3)])
def test_folds__do_not_depend_on_chunks(tmp_path, rows, chunks):
    codes = encoded(
        tmp_path, da.from_array(X, chunks=(rows, 2)), da.from_array(G, chunks=33), chunks=chunks
    )
    assert np.array_equal(counts_of(codes), oracle_counts(oracle_folds(G.tolist())))


def test_folds__do_not_depend_on_the_order_of_rows(tmp_path):
    order = np.random.default_rng(1).permutation(N)
    codes = hd.encode(X[order], Y[order], tmp_path / "s", groups=G[order], bins=None)
    assert np.array_equal(counts_of(codes), oracle_counts(oracle_folds(G.tolist())))


def test_samples_without_target__take_their_group_with_them():
    target = Y.astype(str).astype(object)
    target[::3] = None
    ids = np.where(np.arange(N) % 3 == 0, None, G.astype(object))  # no id is needed there
    kept = np.arange(N) % 3 > 0
    one = hd.select(X, target, 3, groups=ids)
    other = hd.select(X[kept], target[kept], 3, groups=G[kept])
    assert one.features == other.features
    assert np.array_equal(one.to_dataset()["score"], other.to_dataset()["score"])


def test_no_groups__store_and_result_have_no_groups(tmp_path):
    codes = encoded(tmp_path, groups=None)
    assert codes.groups is None
    assert "groups" not in hd.select(codes, None, 1).to_dataset().attrs


# Every way to give groups


def _zarr(path):
    data = {name: ("s", column) for name, column in zip(NAMES, X.T, strict=True)}
    xr.Dataset({**data, "y": ("s", Y), "g": ("s", G)}).to_zarr(path / "x.zarr", consolidated=False)
    return str(path / "x.zarr")


def _plain_zarr(path):
    group = zarr.open_group(path / "p.zarr", mode="w")
    for name, array in {"x": X, "y": Y.astype(int), "g": G}.items():
        group.create_array(name, data=array)
    return str(path / "p.zarr")


FRAME = pd.DataFrame(X, columns=NAMES).assign(y=Y)
GIVEN = {
    "array": lambda _: (X, Y, G),
    "list of text": lambda _: (X, Y, [f"{g}" for g in G]),
    "dask array": lambda _: (da.from_array(X, chunks=(70, 2)), Y, da.from_array(G, chunks=100)),
    "series": lambda _: (FRAME, "y", pd.Series(G)),
    "categorical": lambda _: (FRAME, "y", pd.Series(G).astype("category")),
    "column": lambda _: (FRAME.assign(g=G), "y", "g"),
    "dask column": lambda _: (dd.from_pandas(FRAME.assign(g=G), npartitions=4), "y", "g"),
    "dict": lambda _: ({**dict(zip(NAMES, X.T, strict=True)), "y": Y, "g": G}, "y", "g"),
    "coordinate": lambda _: (
        xr.DataArray(X, dims=("s", "band"), coords={"g": ("s", G)}),
        Y,
        "g",
    ),
    "data array": lambda _: (
        xr.DataArray(X, dims=("s", "band")).chunk({"s": 50}),
        Y,
        xr.DataArray(G, dims="s"),
    ),
    "path": lambda path: (_zarr(path), "y", "g"),
    "group": lambda path: (zarr.open_group(_zarr(path), mode="r"), "y", "g"),
    "plain zarr": lambda path: (_plain_zarr(path), "y", "g"),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_groups__of_every_kind_give_the_same_selection(kind, tmp_path):
    data, target, groups = GIVEN[kind](tmp_path)
    found = hd.select(data, target, 3, groups=groups)
    folds = G if kind != "list of text" else np.array([f"{g}" for g in G])
    expected = hd.select(X, Y, 3, groups=folds)
    assert found.to_dataset()["feature"].size == 5
    assert found.to_dataset().attrs["n_groups"] == 12
    for name in ("index", "score", "gain", "information"):
        if name in expected.to_dataset():
            assert np.array_equal(found.to_dataset()[name], expected.to_dataset()[name]), name


def cube(chunked=False):
    local = np.random.default_rng(3)
    times = pd.date_range("2001-03-01", periods=40, freq="100D")
    lat = np.arange(-14, 16, 6.0)
    data = xr.DataArray(
        local.normal(size=(40, 5, 3, 4)),
        dims=("time", "lat", "x", "band"),
        coords={"time": times, "lat": lat},
    )
    label = (data.isel(band=1) + local.normal(size=(40, 5, 3)) > 0).drop_vars("time")
    return (data.chunk({"time": 7, "lat": 2}) if chunked else data), label


@pytest.mark.parametrize("chunked", [False, True])
def test_blocks_of_coordinates__equal_ids_made_by_hand(chunked, tmp_path):
    data, label = cube(chunked)
    codes = hd.encode(
        data, label, tmp_path / "a", groups={"time": "1YE", "lat": 10}, feature_dim="band"
    )
    years = data["time"].dt.year.values - 2001
    bands = np.floor(data["lat"].values / 10).astype(int) + 2
    table = years[:, None] * (bands.max() - bands.min() + 1) + (bands - bands.min())
    by_hand = np.repeat(table.reshape(-1), 3)
    other = hd.encode(
        data, label, tmp_path / "b", groups=by_hand.reshape(40, 5, 3), feature_dim="band"
    )
    assert codes.groups.n_groups == other.groups.n_groups == len(np.unique(by_hand))
    assert codes.groups.name == "time x lat"
    assert np.array_equal(counts_of(codes), counts_of(other))


def test_groups__with_some_dims_are_broadcast_by_name(tmp_path):
    data, label = cube(chunked=True)
    ids = xr.DataArray(np.arange(15).reshape(3, 5), dims=("x", "lat"))
    codes = hd.encode(data, label, tmp_path / "a", groups=ids, feature_dim="band")
    whole = np.broadcast_to(ids.values.T, (40, 5, 3))
    other = hd.encode(data, label, tmp_path / "b", groups=whole.copy(), feature_dim="band")
    assert np.array_equal(counts_of(codes), counts_of(other))


def test_dates__are_ids(tmp_path):
    data, label = cube()
    codes = hd.encode(data, label, tmp_path / "a", groups="time", feature_dim="band")
    assert codes.groups.n_groups == 40


# Resamples


def test_resample__draws_whole_groups_as_the_oracle(tmp_path):
    codes = encoded(tmp_path)
    order = sorted(set(G.tolist()), key=lambda g: hashlib.sha256(f"number {g}".encode()).digest())
    folds = oracle_folds(G.tolist())
    seen = set()
    for resample in range(5):
        drawn = draw_groups(12, resample)
        assert drawn.sum() == 12
        seen.add(tuple(drawn.tolist()))
        weights = np.array([drawn[order.index(g)] for g in G.tolist()])
        assert np.array_equal(counts_of(codes, resample), oracle_counts(folds, weights))
    assert len(seen) == 5


def test_compare__with_groups_and_resamples_does_not_depend_on_chunks():
    found = [
        hd.compare(
            da.from_array(X, chunks=(rows, 5)),
            Y,
            2,
            methods=["mim", "hofs"],
            n_resamples=3,
            groups=G,
        ).to_dataset()
        for rows in (600, 91)
    ]
    assert found[0].drop_attrs().equals(found[1].drop_attrs())


def test_draw_groups__draws_each_group_equally_often():
    drawn = np.array([draw_groups(6, resample) for resample in range(4000)])
    assert np.abs(drawn.mean(axis=0) - 1).max() < 0.06
    assert np.abs((drawn == 0).mean(axis=0) - (5 / 6) ** 6).max() < 0.03


# Code stores, checkpoints


def test_store__keeps_groups_and_is_reused_only_with_them(tmp_path):
    codes = encoded(tmp_path)
    assert "groups    12 of groups" in repr(codes)
    same(hd.select(codes.path, None, 3), hd.select(X, Y, 3, groups=G, bins=None))
    again = encoded(tmp_path)
    assert (again.folder, again.labels.key) == (codes.folder, codes.labels.key)
    other = encoded(tmp_path, groups=G // 2 + 100 * (G % 2))
    assert other.folder == codes.folder  # the codes are not written again
    assert other.labels.key != codes.labels.key
    plain = encoded(tmp_path, groups=None)
    assert plain.groups is None
    same(hd.select(plain, None, 3), hd.select(X, Y, 3, bins=None))
    same(hd.select(codes, None, 3), hd.select(X, Y, 3, groups=G, bins=None))


def test_store__damaged_groups_are_an_error(tmp_path):
    PROCESS.chunks.clear()  # a store with the same content may have been read before
    codes = encoded(tmp_path)
    (chunk,) = (tmp_path / "codes.zarr").glob("codes-*/groups/*/c/0")
    content = bytearray(chunk.read_bytes())
    content[5] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(CodeStoreError, match=r"chunk \(0, 0\) of array 'groups/.* does not match"):
        hd.select(codes, None, 1)


def test_store__opens_with_xarray(tmp_path):
    codes = encoded(tmp_path)
    found = xr.open_zarr(codes.path, group=f"{codes.folder}/groups", consolidated=False)
    values = found[codes.labels.key].values
    assert np.array_equal(values % 4, oracle_folds(G.tolist()))


def test_store__of_an_earlier_version_is_refused(tmp_path):
    codes = encoded(tmp_path)
    zarr.open_group(codes.path, mode="r+").attrs["version"] = 6
    with pytest.raises(
        ValueError,
        match="has version 6, expected version 7; remove it and encode the data again, or give "
        "another path",
    ):
        hd.select(codes.path, None, 1)


def test_checkpoint__of_other_groups_is_refused(tmp_path):
    hd.select(X, Y, 2, groups=G, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="group ids"):
        hd.select(X, Y, 3, groups=(G + 1) % 12, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="groups"):
        hd.select(X, Y, 3, checkpoint=tmp_path / "run")
    resumed = hd.select(X, Y, 3, groups=G, checkpoint=tmp_path / "run")
    same(resumed, hd.select(X, Y, 3, groups=G))


# Results, the shell, errors


def test_result__reports_groups_and_their_use():
    attrs = hd.select(X, Y, 1, groups=G).to_dataset().attrs
    assert (attrs["groups"], attrs["n_groups"], attrs["cross_fitted"]) == ("groups", 12, 1)
    named = FRAME.assign(site=G)
    assert "12 groups of site: all samples of a group are in one fold" in str(
        hd.select(named, "y", 1, groups="site")
    )
    baseline = hd.select(named, "y", 2, groups="site", method="jmi")
    assert "12 groups of site: the method has no folds and ranks on all rows" in str(baseline)
    assert baseline.features == hd.select(FRAME, "y", 2, method="jmi").features


def test_grouped_noise__does_not_outrank_a_true_feature():
    """Forty subjects whose features are constant: noise predicts the class of seen subjects."""
    for seed in range(5):
        local = np.random.default_rng(seed)
        subject = np.repeat(np.arange(40), 100)
        y = local.permutation(np.arange(40) % 2)[subject]
        x = local.normal(size=(40, 8))[subject] + 0.2 * local.normal(size=(4000, 8))
        x[:, 3] = y + local.normal(size=4000)
        assert hd.select(x, y, 1, groups=subject).features == ["x3"]


def test_shell__takes_groups_by_name(tmp_path):
    path = _zarr(tmp_path)
    made = shell("encode", path, tmp_path / "codes.zarr", "--target", "y", "--groups", "g")
    assert made.exit_code == 0, made.output
    assert "groups    12 of g" in made.stdout
    for store, options in (
        (path, ["--target", "y", "--groups", "g"]),
        (tmp_path / "codes.zarr", []),
    ):
        result = shell("select", store, "--n-features", "2", *options)
        assert result.exit_code == 0, result.output
        assert "12 groups of g: all samples of a group are in one fold" in result.stdout
    refused = shell("select", tmp_path / "codes.zarr", "--n-features", "2", "--groups", "g")
    assert refused.exit_code == 2
    assert "remove --groups, or encode the data again with it" in refused.output
    plan = shell("select", path, "--n-features", "2", "--target", "y", "--groups", "g", "--explain")
    assert plan.exit_code == 0, plan.output


def test_information_matrix__does_not_depend_on_groups():
    one = hd.information_matrix(FRAME.assign(g=G), "y", groups="g")
    assert one.equals(hd.information_matrix(FRAME, "y"))


def test_estimate__accepts_groups():
    assert hd.estimate(FRAME.assign(g=G), "y", 2, groups="g").memory.needed > 0


SOME = G.astype(float)
SOME[:4] = np.nan
ERRORS = [
    (
        (X, SOME),
        ValueError,
        "groups 'groups' has no id for 4 of 600 samples; give every sample an id "
        "(groups.fillna(-1) makes one group of these samples), or remove them",
    ),
    (
        (X, np.zeros(N)),
        ValueError,
        "groups 'groups' has only one id, 0; give two groups or more, or leave groups out",
    ),
    (
        (X, G[:-1]),
        ValueError,
        "groups 'groups' has 599 values and the data has 600 samples; give one value per sample",
    ),
    (
        (X, "site"),
        ValueError,
        "groups is the name 'site', but the columns of an array have no names; give groups as an "
        "array",
    ),
    ((FRAME, "sight"), ValueError, "unknown column for groups 'sight'"),
    (
        (FRAME, pd.Series(G, index=np.arange(N)[::-1])),
        ValueError,
        "groups 'groups' and the data have different indexes; give groups.loc[data.index] to match "
        "the values by label, or groups.to_numpy() to match them by position",
    ),
    (
        (X, {"lat": 10}),
        TypeError,
        "groups is {'lat': 10}, blocks of coordinates, but the data is not an xarray object; give "
        "groups as an array with one id per sample",
    ),
    ((X, 1j), TypeError, "groups is a complex; give an array with one value per sample"),
]


@pytest.mark.parametrize(("given", "error", "message"), ERRORS)
def test_wrong_groups__are_an_error(given, error, message):
    with pytest.raises(error) as found:
        hd.select(given[0], Y, 1, groups=given[1])
    assert str(found.value).startswith(message)


CUBE_ERRORS = [
    (
        {"time": "often"},
        ValueError,
        "groups has the block 'often' of 'time'; give a frequency of pandas, such as '1YE' or '7D'",
    ),
    (
        {"time": 3},
        TypeError,
        "groups has the block 3 of 'time', which is datetime64",
    ),
    (
        {"lat": "1YE"},
        TypeError,
        "groups has the block '1YE' of 'lat', which is float64 ('lat',); give a number for its "
        "width, or groups=data['lat'] for one group per value",
    ),
    ({"depth": 3}, ValueError, "unknown coordinate for groups 'depth'"),
    ({}, ValueError, 'groups is empty; give the size of a block, such as {"lat": 10}'),
    (
        xr.DataArray(np.zeros(4), dims="z", name="g"),
        ValueError,
        "groups 'g' has the dims ('z',) and the samples of the data have ('time', 'lat', 'x'); "
        "give some of these dims, for example with groups.rename",
    ),
    (
        xr.DataArray(np.arange(5), dims="lat", coords={"lat": np.arange(5)}, name="g"),
        ValueError,
        "groups 'g' and the data have different labels along 'lat'; give join=\"inner\" to use the "
        'common labels, or join="override" to match by position',
    ),
]


@pytest.mark.parametrize(("groups", "error", "message"), CUBE_ERRORS)
def test_wrong_groups_of_xarray_data__are_an_error(groups, error, message):
    data, label = cube()
    with pytest.raises(error) as found:
        hd.select(data, label, 1, groups=groups, feature_dim="band")
    assert str(found.value).startswith(message)


def test_groups_that_are_the_target__are_an_error():
    with pytest.raises(ValueError, match="groups and target are both 'y'; give another name"):
        hd.select(FRAME, "y", 1, groups="y")


def test_groups_for_a_code_store__are_refused(tmp_path):
    codes = encoded(tmp_path)
    with pytest.raises(ValueError, match="groups is given, but the data is a code store"):
        hd.select(codes, None, 1, groups=G)


@pytest.mark.parametrize("n_groups", [2, 3, 5, 7])
@pytest.mark.parametrize("criterion", ["joint", "sum"])
def test_few_groups__are_a_warning_and_give_a_finite_result(n_groups, criterion):
    ids = np.arange(N) % n_groups
    message = f"groups 'groups' has only {n_groups} groups, so estimates by fold and resample"
    with pytest.warns(UserWarning, match=message):
        found = hd.select(X, Y, 3, groups=ids, method=hd.HOFS(criterion=criterion))
    assert found.features[0] == "x2"
    assert np.isfinite(found.to_dataset()["score"]).all()


def test_groups_of_one_class_each__give_a_finite_result():
    ids = np.arange(N) // 75 * 2 + Y
    found = hd.select(X, Y, 3, groups=ids)
    assert np.isfinite(found.to_dataset()["score"]).all()


# The effective number of samples


def subjects(seed, n_subjects=40, n_rows=60, n_noise=11):
    """Rows of subjects of one class each; x0 depends on the class, the others on the subject."""
    draws = np.random.default_rng(seed)
    subject = np.repeat(np.arange(n_subjects), n_rows)
    y = draws.permutation(np.arange(n_subjects) % 2)[subject]
    x = draws.normal(size=(n_subjects, n_noise + 1))[subject]
    x += 0.1 * draws.normal(size=x.shape)
    x[:, 0] = y + draws.normal(size=len(y))
    return x, y, subject


def test_noise_of_groups__rarely_comes_before_a_true_feature():
    """40 subjects may differ by chance; without groups, every row seems to be independent."""
    found = {True: 0, False: 0}
    for seed in range(10):
        x, y, subject = subjects(seed)
        for given in found:
            first = hd.select(x, y, 1, groups=subject if given else None).features
            found[given] += first == ["x0"]
    assert found[True] >= 9
    assert found[False] <= 3


@pytest.mark.parametrize("method", ["hofs", "mim", "jmi"])
@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_auto__with_groups_rarely_chooses_noise_that_is_partly_of_the_group(method, sizes):
    """A part of the variance of noise is between groups; three groups may have half the samples."""
    rows = np.full(40, 30) if sizes == "equal" else np.r_[220, 200, 180, np.full(37, 16)]
    subject = np.repeat(np.arange(40), rows)
    n_wrong, n_found = 0, 0
    for seed in range(6):
        draws = np.random.default_rng(seed)
        y = draws.permutation(np.arange(40) % 2)[subject]
        x = np.sqrt(0.3) * draws.normal(size=(40, 15))[subject]
        x += np.sqrt(0.7) * draws.normal(size=x.shape)
        n_wrong += bool(hd.select(x, y, "auto", method=method, groups=subject).features)
        x[:, 0] = 0.8 * y + draws.normal(size=len(y))
        n_found += hd.select(x, y, "auto", method=method, groups=subject).features[:1] == ["x0"]
    assert n_wrong <= 1
    assert n_found >= 5
