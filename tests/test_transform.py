"""`transform` of the very data that was given, for each kind of data and each way to leave out."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hofs_dask as hd
from tests.cli.shell import run

N = 240
RNG = np.random.default_rng(3)
Y = RNG.integers(0, 3, N)
X = RNG.normal(size=(N, 6)) + 0.4 * Y[:, np.newaxis] * np.arange(6)
NAMES = ["a", "b", "c", "d", "e", "f"]
BANDS = xr.DataArray(X.reshape(12, 20, 6), dims=("y", "x", "band"), name="radiance")
LABELLED = BANDS.assign_coords(band=[400, 450, 500, 550, 600, 650], quality=("band", [*"uvwxyz"]))
CLASSES = xr.DataArray(Y.reshape(12, 20), dims=("y", "x"))

#: Data, target, and the names of its six features.
KINDS = {
    "numpy": (X, Y, [f"x{j}" for j in range(6)]),
    "dask": (da.from_array(X, chunks=(50, 4)), Y, [f"x{j}" for j in range(6)]),
    "dict": (dict(zip(NAMES, X.T, strict=True)), Y, NAMES),
    "frame": (pd.DataFrame(X, columns=NAMES), Y, NAMES),
    "unlabelled": (BANDS, CLASSES, [f"x{j}" for j in range(6)]),
    "labelled": (LABELLED, CLASSES, LABELLED["band"].values.tolist()),
    "dataset": (BANDS.to_dataset("band").rename(dict(enumerate(NAMES))), CLASSES, NAMES),
    "one variable": (BANDS.to_dataset(name="radiance"), CLASSES, [f"x{j}" for j in range(6)]),
}
#: Options, the positions in `X` that can be chosen, and the first of these that must be chosen.
WAYS = {
    "all": ({}, [0, 1, 2, 3, 4, 5], None),
    "exclude": ({"exclude": [1, 5]}, [0, 2, 3, 4], None),
    "include and exclude": ({"include": [2], "exclude": [0, 4]}, [1, 2, 3, 5], 2),
    "where": ({"where": True, "exclude": [5]}, [0, 1, 2, 3, 4], None),
    "weights": ({"weights": True, "exclude": [0, 1, 5]}, [2, 3, 4], None),
}


def _columns(data):
    """The features of transformed data, (sample, feature)."""
    if isinstance(data, xr.Dataset):
        data = data.to_dataarray("band") if len(data) > 1 or "band" not in data.dims else data
        data = data["radiance"] if isinstance(data, xr.Dataset) else data
    if isinstance(data, xr.DataArray):
        data = data.transpose("y", "x", "band").values.reshape(N, -1)
    if isinstance(data, dict):
        data = np.stack(list(data.values()), axis=1)
    return np.asarray(data)


def _options(kind, way):
    (_, target, names), (given, allowed, first) = KINDS[kind], WAYS[way]
    options = dict(given)
    if kind in ("unlabelled", "labelled", "one variable"):
        options["feature_dim"] = "band"
    for name in ("include", "exclude"):
        if name in options:
            options[name] = [names[j] for j in options[name]]
    for name, values in (("where", np.arange(N) % 5 > 0), ("weights", np.arange(N) % 3 + 1)):
        if name in options:
            options[name] = (
                target.copy(data=values.reshape(target.shape))
                if isinstance(target, xr.DataArray)
                else values
            )
    return options, allowed, first


#: Every kind with one way, and every way with one kind; some with a code store that is kept.
CASES = [
    *((kind, "exclude", kind == "unlabelled") for kind in KINDS),
    *(("numpy", way, way == "include and exclude") for way in WAYS if way != "exclude"),
]


@pytest.mark.parametrize(("kind", "way", "kept"), CASES)
def test_transform__of_the_data_given_has_the_chosen_features(kind, way, kept, tmp_path):
    data, target, names = KINDS[kind]
    options, allowed, first = _options(kind, way)
    store = tmp_path / "codes" if kept else None
    result = hd.select(data, target, 3, method="jmi", store=store, **options)
    assert set(result.indices.tolist()) <= set(allowed)
    assert result.features == [names[j] for j in result.indices]
    assert first is None or result.indices[0] == first
    np.testing.assert_array_equal(_columns(result.transform(data)), X[:, result.indices])
    # the features that can be chosen alone give the same ones
    alone = hd.select(
        X[:, allowed],
        Y,
        3,
        method="jmi",
        include=[] if first is None else [f"x{allowed.index(first)}"],
        **{
            name: np.ravel(value) for name, value in options.items() if name in ("where", "weights")
        },
    )
    assert result.indices.tolist() == [allowed[j] for j in alone.indices]
    result.save(tmp_path / "result.nc")
    again = hd.load(tmp_path / "result.nc")
    assert again == result
    np.testing.assert_array_equal(_columns(again[:2].transform(data)), X[:, result.indices[:2]])


def test_transform__features_left_out_keep_their_place_in_comparisons_and_tuples(tmp_path):
    compared = hd.compare(X, Y, 2, methods=["mim", "jmi"], exclude=["x0", "x4"], n_resamples=2)
    alone = hd.compare(X[:, [1, 2, 3, 5]], Y, 2, methods=["mim", "jmi"], n_resamples=2)
    compared.save(tmp_path / "compared.zarr")
    for each in (compared, hd.load(tmp_path / "compared.zarr")):
        for label in each:
            expected = np.array([1, 2, 3, 5])[alone[label].indices]
            assert each[label].indices.tolist() == expected.tolist()
            np.testing.assert_array_equal(each[label].transform(X), X[:, expected])
    pairs = hd.interactions(X, Y, top=4, exclude=["x0", "x4"])
    assert pairs.tuples == [(f"x{a}", f"x{b}") for a, b in pairs.indices]


def test_transform__skipped_features_keep_their_place(tmp_path):
    mixed = np.array([[f"id{row}", *(str(int(v > 0)) for v in X[row])] for row in range(N)], object)
    for data, dims in ((mixed, None), (xr.DataArray(mixed, dims=("pixel", "band")), "band")):
        result = hd.select(data, Y, 2, method="mim", on_bad="skip", feature_dim=dims)
        assert result.features == [f"x{j}" for j in result.indices]
        np.testing.assert_array_equal(result.transform(data), mixed[:, result.indices])
    axis = xr.DataArray(mixed, dims=("pixel", "band")).assign_coords(unit=("band", [*"abcdefg"]))
    result = hd.select(axis, Y, 2, method="mim", on_bad="skip")
    assert result.to_dataset()["unit"].values.tolist() == [*"bcdefg"]
    # a code store that is opened later knows the columns, too
    hd.encode(mixed, Y, tmp_path / "codes", on_bad="skip")
    later = hd.select(tmp_path / "codes", None, 2, method="mim")
    np.testing.assert_array_equal(later.transform(mixed), mixed[:, later.indices])


def test_transform__positions_at_the_shell_are_those_of_the_data(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES).assign(y=Y)
    frame.to_csv(tmp_path / "x.csv", index=False)
    out = tmp_path / "ranks.csv"
    ran = run(
        *("select", tmp_path / "x.csv", "--target", "y", "--n-features", 2),
        *("--exclude", "a", "--output", out),
    )
    assert ran.exit_code == 0, ran.output
    ranks = pd.read_csv(out)
    assert [NAMES[j] for j in ranks["index"]] == ranks["feature"].tolist()


@pytest.mark.parametrize("kind", ["frame", "dict"])
def test_indices__do_not_count_columns_used_as_target_or_groups(kind):
    frame = pd.DataFrame(X, columns=NAMES).assign(y=Y, g=np.arange(N) // 20)[["y", "g", *NAMES]]
    data = frame if kind == "frame" else {name: frame[name].to_numpy() for name in frame}
    result = hd.select(data, "y", 2, method="mim", groups="g", exclude=[0])
    assert result.features == [NAMES[j] for j in result.indices]
    assert "a" not in result.features
    np.testing.assert_array_equal(result.transform(X), X[:, result.indices])
    assert hd.select(data, "y", 1, method="mim", groups="g", include=[1]).features == ["b"]
    pairs = hd.interactions(data, "y", groups="g", top=2)
    assert pairs.tuples == [(NAMES[a], NAMES[b]) for a, b in pairs.indices]


def test_transform__other_columns_are_refused_by_their_number():
    result = hd.select(X, Y, 1, method="mim", exclude=["x0"])
    with pytest.raises(ValueError, match="5 columns were given, 6 were expected"):
        result.transform(X[:, 1:])


def test_transform__result_with_wrong_columns_is_refused():
    dataset = hd.select(X, Y, 1, method="mim", exclude=["x0"]).to_dataset()
    dataset["column"] = ("feature", dataset["column"].values[::-1])
    with pytest.raises(ValueError, match="ascending positions among 6 columns were expected"):
        hd.Selection(dataset)


@pytest.mark.parametrize("lags", [None, {"y": [0, 1]}])
def test_transform__features_of_several_kinds_with_some_excluded(lags):
    data = xr.Dataset({"T": LABELLED.drop_vars("quality"), "oro": BANDS.isel(band=5, drop=True)})
    data["y1"] = ("y", RNG.normal(size=12))
    names = [("T", 400), "y1"]
    options = {"feature_dim": "band", "lags": lags, "exclude": names, "method": "mim"}
    result = hd.select(data, CLASSES, 3, **options)
    assert not set(result.features) & set(names)
    chosen = result.transform(data)
    assert list(chosen.data_vars) == result.features
    for name in result.features:
        key, *more = name if isinstance(name, tuple) else (name,)
        lag = 1 if more and more[-1] == "y-1" else 0
        expected = data[key].sel(band=more[0]) if key == "T" else data[key]
        np.testing.assert_array_equal(chosen[name], expected.shift(y=lag) if lag else expected)
