"""xarray data as a scientist has it: features of several kinds, lags, alignment, data trees."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.io.reading import Reading
from hofs_dask.io.source import open_source
from hofs_dask.results.composed import chosen_composed

RNG = np.random.default_rng(8)
N_TIME, N_LAT, N_LON = 40, 5, 6
TIME = pd.date_range("2001-01-01", periods=N_TIME, freq="D")
LEVEL = [500, 700, 850]


def climate(lazy=False):
    """A Dataset with variables of several kinds; rain depends on T at 850, yesterday, and oro."""
    shape = (N_TIME, N_LAT, N_LON)
    air = RNG.normal(size=(N_TIME, len(LEVEL), N_LAT, N_LON)).astype("f4")
    t2m, oro = RNG.normal(size=shape), RNG.normal(size=(N_LAT, N_LON))
    nino = RNG.normal(size=N_TIME)
    signal = np.roll(air[:, 2], 1, axis=0) * 2 + oro + 0.3 * t2m
    data = xr.Dataset(
        {
            "T": (("time", "level", "lat", "lon"), air),
            "t2m": (("lat", "time", "lon"), t2m.transpose(1, 0, 2)),
            "oro": (("lat", "lon"), oro),
            "nino": ("time", nino),
            "rain": (("time", "lat", "lon"), (signal > 0).astype("i1")),
            "time_bnds": (("time", "bnds"), np.stack([TIME, TIME], axis=1)),
            "weight": ("level", [1.0, 2.0, 3.0]),
            "spatial_ref": ((), 0),
        },
        {
            "time": ("time", TIME, {"bounds": "time_bnds"}),
            "level": LEVEL,
            "lat": np.linspace(-60, 60, N_LAT),
            "lon": np.arange(N_LON) * 60.0,
        },
    )
    return data.chunk(time=7, level=2, lat=3) if lazy else data


DATA = climate()
NAMES = (("T", 500), ("T", 700), ("T", 850), "t2m", "oro", "nino")


def table(data=DATA):
    """The features of `climate` as a table, by hand."""
    whole = data[["T", "t2m", "oro", "nino"]].broadcast_like(data["rain"])
    dims = ("time", "lat", "lon")
    columns = [whole["T"].sel(level=level).transpose(*dims).values.ravel() for level in LEVEL]
    columns += [
        whole[name].isel(level=0, missing_dims="ignore").transpose(*dims).values.ravel()
        for name in ("t2m", "oro", "nino")
    ]
    return np.stack(columns, axis=1)


def values(source):
    return np.concatenate([part.compute() for part in source.parts], axis=1)


@pytest.mark.parametrize("lazy", [False, True])
def test_dataset__variables_of_several_kinds_are_features(lazy):
    data = DATA.chunk(time=7, level=2, lat=3) if lazy else DATA
    source = open_source(data, "rain", Reading(feature_dim="level"))
    assert source.names == NAMES
    np.testing.assert_array_equal(values(source), table())
    np.testing.assert_array_equal(source.target.compute(), DATA["rain"].values.ravel())
    assert source.notes == (
        "not used as features: time_bnds (bounds of time), weight (no dims besides level), "
        "spatial_ref (no dims)",
    )


@pytest.mark.parametrize("lazy", [False, True])
def test_dataset__result_works_with_sel_transform_and_files(lazy, tmp_path):
    data = DATA.chunk(time=7, level=2, lat=3) if lazy else DATA
    result = hd.select(data, "rain", 4, feature_dim="level", method="jmi")
    by_hand = hd.select(table(), DATA["rain"].values.ravel(), 4, method="jmi")
    assert result.indices.tolist() == by_hand.indices.tolist()
    np.testing.assert_array_equal(result.scores, by_hand.scores)
    assert result.features == [NAMES[j] for j in by_hand.indices]
    found = result.to_dataset()
    assert float(found["relevance"].sel(feature=("T", 700))) == found["relevance"].values[1]
    assert float(found["relevance"].sel(feature="oro")) == found["relevance"].values[4]
    chosen = result.transform(data)
    assert list(chosen.data_vars) == result.features
    for name in result.features:
        expected = data[name[0]].sel(level=name[1]) if isinstance(name, tuple) else data[name]
        xr.testing.assert_equal(
            chosen[name].drop_vars("level", errors="ignore"),
            expected.drop_vars("level", errors="ignore"),
        )
        assert (chosen[name].chunks is not None) == lazy
    for path in ("result.zarr", "result.nc"):
        result.save(tmp_path / path)
        again = hd.load(tmp_path / path)
        xr.testing.assert_identical(again.to_dataset(), found)
        assert again.features == result.features
    assert "('T', 850)" in repr(result) or "oro" in repr(result)
    again = hd.select(chosen.assign(rain=data["rain"]), "rain", 4, method="jmi")
    assert again.features == result.features


def test_dataset__code_store_and_other_functions_keep_composed_names(tmp_path):
    codes = hd.encode(DATA, "rain", tmp_path / "codes", feature_dim="level")
    assert codes.names == NAMES
    assert hd.CodeStore is type(codes)
    forced = hd.select(codes.path, None, 2, include=[("T", 500)], exclude=["nino"], method="mim")
    assert forced.features[0] == ("T", 500)
    options = {"feature_dim": "level"}
    nominal = hd.select(DATA, "rain", 1, **options, nominal=[("T", 500)], bins=4, method="mim")
    assert len(nominal) == 1
    matrix = hd.information_matrix(DATA, "rain", **options)
    assert float(matrix.sel(feature=("T", 500), other="oro")) == matrix.values[0, 4]
    pairs = hd.interactions(DATA, "rain", top=3, **options)
    pairs.save(tmp_path / "pairs.zarr")
    assert hd.load(tmp_path / "pairs.zarr").tuples == pairs.tuples
    compared = hd.compare(DATA, "rain", 2, methods=["mim", "jmi"], **options)
    compared.save(tmp_path / "compared.nc")
    assert hd.load(tmp_path / "compared.nc").features == compared.features
    assert "T" in repr(compared)


def test_data_array__several_feature_dims():
    data = DATA[["T"]].to_dataarray("var").transpose("time", "var", "lat", "level", "lon")
    data = xr.concat([data, data.assign_coords(var=["U"]) * 2], "var")
    for each in (data, data.chunk(time=7, lat=2, level=1)):
        source = open_source(each, DATA["rain"], Reading(feature_dim=["var", "level"]))
        assert source.names[:4] == (("T", 500), ("T", 700), ("T", 850), ("U", 500))
        expected = data.transpose("time", "lat", "lon", "var", "level").values.reshape(-1, 6)
        np.testing.assert_array_equal(values(source), expected)
    result = hd.select(data, DATA["rain"], 2, feature_dim=["var", "level"], method="mim")
    chosen = result.transform(data.chunk())
    assert chosen.dims == ("time", "lat", "lon", "feature")
    assert chosen.chunks is not None
    for name, each in zip(result.features, chosen.transpose("feature", ...), strict=True):
        np.testing.assert_array_equal(each, data.sel(var=name[0], level=name[1]))
    again = hd.select(chosen, DATA["rain"], 2, feature_dim="feature", method="mim")
    assert again.features == result.features


def test_data_array__stacked_array():
    stacked = DATA[["T", "t2m"]].to_stacked_array("feature", sample_dims=["time", "lat", "lon"])
    result = hd.select(stacked, DATA["rain"], 3, method="mim")
    names = open_source(stacked, None).names
    assert names == (("T", 500), ("T", 700), ("T", 850), "t2m")
    chosen = result.transform(stacked)
    for name, each in zip(result.features, chosen.transpose("feature", ...), strict=True):
        expected = DATA["T"].sel(level=name[1]) if isinstance(name, tuple) else DATA["t2m"]
        np.testing.assert_array_equal(each, expected.transpose("time", "lat", "lon"))


def test_feature_coord__names_the_features():
    cube = xr.DataArray(
        RNG.normal(size=(30, 4)),
        dims=("pixel", "band"),
        coords={"wavelength": ("band", [0.4, 0.5, 0.6, 0.7]), "date": 3, "y": ("pixel", range(30))},
    )
    label = np.arange(30) % 2
    for options in (
        {"feature_coord": "wavelength"},
        {"feature_coord": "wavelength", "feature_dim": "band"},
    ):
        result = hd.select(cube, label, 2, method="mim", **options)
        assert set(result.features) <= {0.4, 0.5, 0.6, 0.7}
        xr.testing.assert_identical(result.transform(cube), cube.isel(band=result.indices))
    several = cube.to_dataset(name="x").assign(height=("pixel", RNG.normal(size=30)))
    source = open_source(several, label, Reading(feature_coord="wavelength"))
    assert source.names == (("x", 0.4), ("x", 0.5), ("x", 0.6), ("x", 0.7), "height")


@pytest.mark.parametrize("lazy", [False, True])
def test_lags__are_features_without_a_leak_at_the_ends(lazy):
    data = DATA.chunk(time=7, level=2, lat=3) if lazy else DATA
    result = hd.select(data, "rain", 3, feature_dim="level", lags={"time": [0, 1, 2]})
    assert result.features[0] == ("T", 850, "time-1")
    assert "note: lags leave out 60 samples without history" in repr(result)
    # by hand
    shifted = {}
    for name in ("T", "t2m", "oro", "nino"):
        for lag in (0, 1, 2) if "time" in DATA[name].dims else (0,):
            text = (f"time-{lag}",) if lag else ()
            array = DATA[name].shift(time=lag) if lag else DATA[name]
            for level in LEVEL if name == "T" else [None]:
                labels = (name,) if level is None else (name, level)
                one = array if level is None else array.sel(level=level, drop=True)
                shifted[(labels + text) if len(labels + text) > 1 else name] = one
    frame = xr.Dataset(shifted).isel(time=slice(2, None))
    by_hand = hd.select(frame, DATA["rain"].isel(time=slice(2, None)), 3)
    assert result.features == by_hand.features
    np.testing.assert_array_equal(result.scores, by_hand.scores)
    chosen = result.transform(data)
    for name in result.features:
        xr.testing.assert_equal(chosen[name].drop_vars("level", errors="ignore"), shifted[name])


def test_lags__do_not_cross_groups():
    station = np.repeat(["a", "b", "c", "d", "e", "f", "g", "h"], 25)
    x = RNG.normal(size=(200, 2))
    data = xr.Dataset(
        {"p": ("obs", x[:, 0]), "q": ("obs", x[:, 1]), "station": ("obs", station)},
    )
    target = np.concatenate([[0, *(x[a : a + 24, 0] > 0)] for a in range(0, 200, 25)])
    source_options = {"lags": {"obs": [1, 2]}, "groups": "station"}
    result = hd.select(data, target, 2, method="jmi", **source_options)
    attrs = result.to_dataset().attrs
    assert attrs["n_samples"] == 200 - 8 * 2
    assert result.features[0] == ("p", "obs-1")
    lazy = hd.select(data.chunk(obs=33), target, 2, method="jmi", **source_options)
    np.testing.assert_array_equal(lazy.scores, result.scores)


def test_lags__data_array():
    cube = DATA["T"].transpose("time", "lat", "lon", "level")
    result = hd.select(cube, DATA["rain"], 2, feature_dim="level", lags={"time": [0, 1]})
    assert result.features[0] == (850, "time-1")
    chosen = result.transform(cube)
    assert chosen.sizes["feature"] == 2
    np.testing.assert_array_equal(chosen.isel(feature=0), cube.sel(level=850).shift(time=1).values)


def test_lags__over_a_gap_are_a_warning():
    days = DATA.isel(time=[*range(10), *range(20, N_TIME)])
    options = {"feature_dim": "level", "lags": {"time": [0, 1]}, "method": "mim"}
    message = (
        "lags count positions along 'time', but 1 of its steps are longer than 1.5 times the "
        "median; fill missing labels with reindex, or give groups=, which lags do not cross"
    )
    with pytest.warns(UserWarning, match="lags count") as caught:
        result = hd.select(days, "rain", 1, **options)
    assert [str(each.message) for each in caught] == [message]
    assert message in result.to_dataset().attrs["notes"]
    season = xr.DataArray(np.arange(30) // 2, dims="time", name="part")
    hd.select(days, "rain", 1, groups=season, **options)  # no warning


def test_groups__blocks_of_dates_of_any_calendar():
    months = xr.date_range("2001-11-01", periods=30, freq="MS", calendar="noleap", use_cftime=True)
    data = xr.Dataset(
        {name: ("time", RNG.normal(size=30)) for name in "ab"}, {"time": months[::-1]}
    )
    source = open_source(data, np.arange(30) % 2, Reading(groups={"time": "1YS"}))
    expected = [2001] * 2 + [2002] * 12 + [2003] * 12 + [2004] * 4
    np.testing.assert_array_equal(source.groups.values.compute(), np.array(expected)[::-1] - 2001)


def test_fill_values__that_are_not_decoded_are_a_warning():
    counts = np.array([[1, 2, 3, 65535], [3, 2, 1, 5]] * 20, "u2")
    raw = xr.DataArray(counts, dims=("s", "band"), attrs={"_FillValue": 65535}, name="refl")
    label = xr.DataArray(np.arange(40) % 3, dims="s", attrs={"_FillValue": 0}, name="crop")
    ends = (
        "so this value was not replaced by NaN and counts like any other; decode it with "
        "xr.decode_cf, open the file with masked values, or leave these samples out"
    )
    with pytest.warns(UserWarning, match="has the attribute") as caught:
        hd.select(raw, label, 1, method="mim")
    assert [str(each.message) for each in caught] == [
        f"feature 'refl' has the attribute _FillValue=65535, {ends}",
        f"target 'crop' has the attribute _FillValue=0, {ends}",
    ]
    decoded = xr.decode_cf(raw.to_dataset())["refl"]
    hd.select(decoded, label.drop_attrs(), 1, method="mim")  # no warning
    masked = raw.where(raw != 65535).assign_attrs(raw.attrs)
    hd.select(masked, label.drop_attrs(), 1, method="mim")
    with pytest.warns(UserWarning, match="feature 'refl' has the attribute _FillValue=65535"):
        hd.select(raw.astype(float).assign_attrs(raw.attrs), label.drop_attrs(), 1, method="mim")


def test_dates__that_are_missing_are_in_no_part_and_refused_in_blocks():
    data = DATA[["nino", "oro", "rain"]]
    data = data.assign_coords(time=data["time"].where(data["time"].dt.day != 3))
    parts = hd.select_by(data, "rain", 1, by="time.season", method="mim")
    assert list(parts) == ["DJF"]
    attrs = parts["DJF"].to_dataset().attrs
    assert attrs["n_samples"] == (N_TIME - 2) * N_LAT * N_LON
    message = "groups has the block '7D' of 'time', which has missing dates; give groups as an arr"
    with pytest.raises(ValueError, match=message):
        hd.select(data, "rain", 1, groups={"time": "7D", "lat": 30})
    with pytest.raises(TypeError, match="which is float64; give a width above 0 for numbers"):
        hd.select(data, "rain", 1, groups={"lat": np.timedelta64(7, "D")})
    with pytest.raises(ValueError, match="unknown coordinate for groups 'height'") as caught:
        hd.select(data, "rain", 1, groups={"height": 1})
    assert str(caught.value).count("'lat'") == 1


@pytest.mark.parametrize("option", ["weights", "where", "groups"])
def test_dataset__a_variable_that_an_option_takes_is_no_feature(option):
    values = {"weights": np.arange(1, 41), "where": np.arange(40) < 30, "groups": np.arange(40)}
    data = DATA[["nino"]].assign(
        soi=-DATA["nino"], given=("time", values[option]), y=("time", np.arange(40) % 2)
    )
    lazy = data.chunk(time=9)
    for each, given in ((data, "given"), (data, data["given"]), (lazy, lazy["given"])):
        result = hd.select(each, "y", 2, method="mim", **{option: given})
        assert set(result.features) == {"nino", "soi"}


def test_dataset__with_one_variable_has_one_feature():
    result = hd.select(DATA[["t2m", "rain"]], "rain", 1, method="mim")
    assert result.features == ["t2m"]


OTHER_DAYS = DATA["rain"].isel(time=slice(5, None))
MORE_DAYS = DATA["rain"].assign_coords(time=TIME + pd.Timedelta("2D"))


def test_join__inner_uses_common_labels_and_reports():
    result = hd.select(
        DATA, OTHER_DAYS.rename("y"), 2, feature_dim="level", join="inner", exclude=["rain"]
    )
    some = DATA.isel(time=slice(5, None))
    expected = hd.select(some, some["rain"].rename("y"), 2, feature_dim="level", exclude=["rain"])
    assert result.features == expected.features
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert (
        "join='inner' leaves out 5 of 40 labels along 'time' of the data"
        in result.to_dataset().attrs["notes"]
    )
    both = hd.select(
        DATA.drop_vars("rain"), MORE_DAYS, 1, feature_dim="level", join="inner", method="mim"
    )
    notes = both.to_dataset().attrs["notes"]
    assert "leaves out 2 of 40 labels along 'time' of the data" in notes
    assert "leaves out 2 of 40 labels along 'time' of target" in notes
    assert both.to_dataset().attrs["n_samples"] == 38 * N_LAT * N_LON


def test_join__override_matches_by_position():
    features = DATA.drop_vars("rain")
    result = hd.select(features, MORE_DAYS, 2, feature_dim="level", join="override", method="jmi")
    expected = hd.select(DATA, "rain", 2, feature_dim="level", method="jmi")
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_join__frames():
    frame = pd.DataFrame(RNG.normal(size=(50, 3)), columns=list("abc"), index=np.arange(50))
    target = pd.Series(np.arange(60) % 2, index=np.arange(60)[::-1], name="y")
    result = hd.select(frame, target, 2, join="inner", method="mim")
    expected = hd.select(frame, target.loc[frame.index], 2, method="mim")
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert "leaves out 10 of 60 rows of target" in result.to_dataset().attrs["notes"]


def test_series__is_matched_by_its_index():
    daily = DATA[["nino"]].assign(soi=("time", RNG.normal(size=N_TIME)))
    flags = pd.Series(np.arange(N_TIME) % 3 == 0, index=TIME, name="wet")
    expected = hd.select(daily, flags.to_numpy(), 1, method="mim")
    for given in (flags, flags[::-1], flags.rename_axis("time").sample(frac=1, random_state=0)):
        result = hd.select(daily, given, 1, method="mim")
        np.testing.assert_array_equal(result.scores, expected.scores)
    later = flags.set_axis(TIME + pd.Timedelta("1D"))
    joined = hd.select(daily, later.rename_axis("time"), 1, method="mim", join="inner")
    assert joined.to_dataset().attrs["n_samples"] == N_TIME - 1
    wet = DATA["rain"].to_series().sample(frac=1, random_state=1)
    features = DATA.drop_vars("rain")
    result = hd.select(features, wet, 2, feature_dim="level", method="jmi")
    expected = hd.select(DATA, "rain", 2, feature_dim="level", method="jmi")
    np.testing.assert_array_equal(result.scores, expected.scores)
    # a mask and groups as series
    mask = pd.Series(np.arange(N_TIME) < 30, index=TIME)[::-1]
    masked = hd.select(daily, flags, 1, method="mim", where=mask)
    assert masked.to_dataset().attrs["n_samples"] == 30
    # one that lacks dims is broadcast, but a target is not
    options = {"feature_dim": "level", "method": "mim"}
    days = mask.rename_axis("time")
    masked = hd.select(DATA, "rain", 1, where=days, **options)
    assert masked.to_dataset().attrs["n_samples"] == 30 * N_LAT * N_LON
    with pytest.raises(ValueError, match="target 'wet' has the dims .*give feature_dim="):
        hd.select(features, flags.rename_axis("time"), 1, **options)
    assert len(hd.select(DATA[["nino", "oro"]], wet, 1, method="mim")) == 1


def test_target__with_more_dims_than_every_feature():
    indices = DATA[["nino", "oro", "rain"]]
    result = hd.select(indices, "rain", 2, method="mim")
    assert result.to_dataset().attrs["n_samples"] == N_TIME * N_LAT * N_LON
    assert result.features == ["oro", "nino"]


def tree():
    return xr.DataTree.from_dict(
        {"/": xr.Dataset(), "/coarse": DATA[["T", "t2m", "rain"]], "/other": DATA[["nino"]]}
    )


def test_tree__node_or_path_of_the_target():
    options = {"feature_dim": "level", "method": "jmi"}
    expected = hd.select(DATA[["T", "t2m", "rain"]], "rain", 2, **options)
    for data, target in (
        (tree(), "/coarse/rain"),
        (tree()["/coarse"], "rain"),
        (tree()["/coarse"], "/coarse/rain"),
    ):
        result = hd.select(data, target, 2, **options)
        np.testing.assert_array_equal(result.scores, expected.scores)
        assert result.features == expected.features


#: Variables with their dims in different orders: values without dims are ambiguous.
TURNED = DATA[["t2m", "rain"]].assign(t=DATA["T"].isel(level=0, drop=True))
STACKED = DATA[["t2m", "rain"]].stack(sample=["lat", "lon", "time"])
MASKED = da.arange(N_TIME)[da.arange(N_TIME) > 2]
LAT = DATA["lat"].where(DATA["lat"] > 0, 1.0)

NOLEAP = DATA.drop_vars(["rain", "time_bnds"]).convert_calendar("noleap", use_cftime=True)

ERRORS = [
    (
        DATA,
        DATA["nino"].rename("y"),
        {"feature_dim": "level"},
        "target 'y' has the dims ('time',) and the samples of the data have ('time', 'lat', 'lon')"
        "; give feature_dim=['lat', 'lon', 'level'] if the features are along lat, lon too, or "
        "target.broadcast_like(data['T'].isel(level=0)) if the target is the same for all of these "
        "samples",
    ),
    (
        DATA["T"],
        DATA["nino"].broadcast_like(DATA["T"]),
        {"feature_dim": "level"},
        "target 'nino' has the dims ('time', 'level', 'lat', 'lon'), but the features are along "
        "'level'; give one value per sample, for example target.isel(level=0)",
    ),
    (
        DATA,
        (DATA["rain"] > 0).rename("rain"),
        {"feature_dim": "level"},
        "the data has a variable 'rain', the name of the target, with other values; drop it with "
        "data.drop_vars('rain'), or rename the target with target.rename('rain_target')",
    ),
    (
        DATA.drop_vars("rain"),
        OTHER_DAYS,
        {"feature_dim": "level"},
        "target 'rain' has 35 values along 'time' and the data has 40 samples; give one value per "
        'sample, or join="inner" to use the common labels',
    ),
    (
        DATA.drop_vars("rain"),
        MORE_DAYS,
        {"feature_dim": "level"},
        "target 'rain' and the data have different labels along 'time'; give join=\"inner\" to use "
        'the common labels, or join="override" to match by position',
    ),
    (
        DATA[["nino"]].assign(soi=DATA["nino"]),
        pd.Series(np.arange(N_TIME) % 2),
        {},
        "target is a pandas Series with the index unnamed of 40 labels, but the data has other "
        "labels along 'time'; name the index after the dims with target.rename_axis(...), or give "
        "target.to_numpy() to match the values by position",
    ),
    (
        DATA,
        "rain",
        {"feature_dim": ["level", "lvl"]},
        "unknown feature_dim 'lvl'; valid: 'level', 'lat', 'lon', 'time', 'bnds'",
    ),
    (
        DATA,
        "rain",
        {"feature_dim": "level", "lags": {"tme": [1]}},
        "unknown sample dim in lags 'tme'; valid: 'time', 'lat', 'lon'",
    ),
    (
        DATA,
        "rain",
        {"feature_dim": "level", "lags": {"time": [-1]}},
        "lags has -1 for 'time'; give whole numbers of steps back, 0 or more",
    ),
    (
        DATA,
        "rain",
        {"feature_dim": "level", "lags": {"time": [40]}},
        "lags has 40 for 'time', but the data has only 40 steps along it; give at most 39",
    ),
    (
        table(),
        DATA["rain"].values.ravel(),
        {"lags": {"time": [1]}},
        "lags is {'time': [1]}, which needs the dims of xarray data, and an array has none; omit "
        "lags, or give an xarray object",
    ),
    (
        table(),
        DATA["rain"].values.ravel(),
        {"join": "inner"},
        "join is 'inner', but a ndarray has no labels to join by; leave join out, or give a pandas "
        "data frame or an xarray object",
    ),
    (
        DATA,
        DATA["rain"].isel(lat=slice(None, None, -1)).rename("y"),
        {"feature_dim": "level"},
        "target 'y' and the data have different labels along 'lat' in another order; give "
        'join="inner" to match them by label',
    ),
    (
        DATA,
        DATA["rain"].assign_coords(lon=DATA["lon"].astype("f4") + np.float32(0.01)).rename("y"),
        {"feature_dim": "level"},
        "target 'y' and the data have different labels along 'lon' that are equal up to rounding "
        '(float32 and float64); give join="override" to match by position',
    ),
    (
        NOLEAP,
        DATA["rain"].rename("y"),
        {"feature_dim": "level"},
        "target 'y' and the data have different labels along 'time', of different calendars; "
        "convert them with target.convert_calendar('noleap', use_cftime=True)",
    ),
    (
        NOLEAP[["nino"]].assign(soi=NOLEAP["nino"]),
        pd.Series(np.arange(N_TIME) % 2, index=TIME),
        {},
        "target is a pandas Series with the index unnamed of 40 labels, but the data has dates of "
        "the calendar 'noleap' along 'time'; name the index after the dims with "
        "target.rename_axis(...), or give target.to_numpy() to match the values by position",
    ),
    (
        DATA,
        OTHER_DAYS.rename("y"),
        {"feature_dim": "level", "join": "override"},
        "join=\"override\" matches by position, but target has 35 values along 'time' and the data "
        'has 40; give join="inner" to use the common labels',
    ),
    (
        DATA.isel(time=[0, 1, 1]),
        DATA["rain"].rename("y"),
        {"feature_dim": "level", "join": "inner"},
        "join is \"inner\", but some labels along 'time' of the data occur twice; give each label "
        "once, for example with drop_duplicates('time')",
    ),
    (
        DATA.isel(time=slice(0, 10)),
        DATA["rain"].isel(time=slice(20, None)).rename("y"),
        {"feature_dim": "level", "join": "inner"},
        "join=\"inner\" leaves nothing: the data has no labels along 'time' in common with the "
        "others",
    ),
    (
        DATA.isel(time=slice(None, None, -1)),
        "rain",
        {"feature_dim": "level", "lags": {"time": [0, 1]}},
        "lags shift along 'time' by position, but its labels do not increase, so that a step back "
        "may be a later sample; sort data and target with sortby('time')",
    ),
    (
        DATA["T"],
        DATA["T"].sel(level=700) > 0,
        {"feature_dim": "level"},
        "target 'T' has the label 700 along 'level', and so has a feature, which would predict "
        "itself; leave it out with data.drop_sel(level=700), or, if the target is something else, "
        "give target.drop_vars('level')",
    ),
    (
        TURNED,
        TURNED["rain"].values,
        {"exclude": ["rain"]},
        "target has no dims, and the variables of the data have theirs in different orders, ('lat',"
        " 'time', 'lon') and ('time', 'lat', 'lon'); give an xarray.DataArray",
    ),
    (
        TURNED,
        "rain",
        {"where": TURNED["rain"].values > 0},
        "where has no dims, and the variables of the data have theirs in different orders, ('lat', "
        "'time', 'lon') and ('time', 'lat', 'lon'); give an xarray.DataArray",
    ),
    (
        STACKED,
        "rain",
        {"lags": {"sample": [0, 1]}},
        "lags shift along 'sample' by position, but it is stacked from lat, lon, time, so that a "
        "step back may be a sample elsewhere; give data.unstack('sample'), and the lags by one of "
        "these dims, or groups=, which lags do not cross",
    ),
    (
        STACKED.reset_index("sample"),
        "rain",
        {"lags": {"sample": [0, 1]}},
        "lags shift along 'sample' by position, but its coordinate 'time' does not increase, so "
        "that a step back may be a sample elsewhere; give groups=, which lags do not cross",
    ),
    (
        "/fields/*.nc",
        "rain",
        {},
        "'/fields/*.nc' is a pattern of netCDF files; give xarray.open_mfdataset('/fields/*.nc')",
    ),
    (
        STACKED.drop_vars("rain"),
        STACKED["rain"].isel(sample=slice(3, None)).to_series(),
        {},
        "target is a pandas Series with the index 'lat', 'lon', 'time' of 1197 labels, but the "
        "data has other labels along 'sample'; name the index after the dims with "
        "target.rename_axis(...), or give target.to_numpy() to match the values by position",
    ),
    (
        DATA.isel(time=[3]),
        "rain",
        {"feature_dim": "level", "lags": {"time": [0, 1]}},
        "lags has 1 for 'time', but the data has only 1 steps along it; give at most 0",
    ),
    (
        DATA,
        ["rain"],
        {"feature_dim": "level"},
        "target is the list ['rain']; give the name alone, 'rain'",
    ),
    (
        DATA,
        "rain",
        {"feature_dim": ("level", "lat")},
        "feature_dim is the tuple ('level', 'lat'); give several dims as a list, ['level', 'lat']",
    ),
    (
        DATA,
        "rain",
        {"feature_dim": "level", "where": DATA[["nino"]] > 0},
        "where is a Dataset; give a DataArray, such as one of its variables",
    ),
    (
        DATA[["nino", "oro", "rain"]],
        "rain",
        {"where": np.ones((N_LAT, N_LON), bool)},
        "where has (5, 6) values and the data has 1200 samples (40, 5, 6); give one value per "
        "sample, or a DataArray that has some of the dims",
    ),
    (
        DATA,
        "rain",
        {"feature_dim": "level", "weights": LAT},
        "weights 'lat' are latitudes; for the area of grid cells, give np.cos(np.deg2rad(lat))",
    ),
    (
        xr.DataArray(MASKED[:, None], dims=("time", "feature")),
        np.arange(37) % 2,
        {},
        "the sizes of the data are unknown along 'time'; call .data.compute_chunk_sizes() first, "
        "or leave out samples with where=",
    ),
    (
        DATA[["nino"]].assign(soi=-DATA["nino"]).drop_vars("time"),
        xr.DataArray(MASKED % 2, dims="time"),
        {},
        "the sizes of the target are unknown along 'time'; call .data.compute_chunk_sizes() first, "
        "or leave out samples with where=",
    ),
    (
        DATA[["nino"]].assign(date=("time", TIME), y=("time", np.arange(N_TIME) % 2)),
        "y",
        {},
        f"feature 'date' is {TIME.dtype}: dates; convert it to numbers, for example (x - x.min()) "
        "/ np.timedelta64(1, 's'), or to components such as the month",
    ),
    (DATA, "rain", {"join": "outer"}, "unknown join 'outer'; valid: 'override', 'inner', 'exact'"),
    (
        DATA,
        "rain",
        {"feature_coord": "wavelength"},
        "unknown feature_coord 'wavelength'; valid: 'level', 'lat', 'lon', 'time'",
    ),
    (
        tree(),
        "rain",
        {},
        "the node '/' of the DataTree has no variables; give one of its nodes, such as "
        "tree['/coarse'], or the path of the target, such as '/coarse/label'",
    ),
    (
        tree(),
        "/corse/rain",
        {},
        "unknown node for the target '/corse'; valid: '/coarse', '/other'",
    ),
]


@pytest.mark.parametrize(("data", "target", "options", "message"), ERRORS)
def test_errors__say_what_to_type(data, target, options, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        hd.select(data, target, 1, **options)
    assert str(caught.value) == message


def test_errors__the_calls_that_they_suggest_work():
    y = DATA["nino"].rename("y") > 0
    data = DATA[["T", "t2m"]]
    wide = y.broadcast_like(data["T"].isel(level=0))
    assert len(hd.select(data, wide, 1, feature_dim="level")) == 1
    points = hd.select(data, y, 2, feature_dim=["level", "lat", "lon"], method="mim")
    assert points.to_dataset().sizes["feature"] == 4 * N_LAT * N_LON
    assert points.transform(data).sizes["time"] == N_TIME


def test_names__dates_are_short_and_work_with_sel():
    data = DATA["t2m"].isel(time=slice(0, 4)).drop_vars(["lat", "lon"])
    names = open_source(data, None, Reading(feature_dim="time")).names
    assert names == ("2001-01-01", "2001-01-02", "2001-01-03", "2001-01-04")
    assert float(data.sel(time=names[2])[0, 0]) == float(data[0, 2, 0])
    hours = data.assign_coords(time=pd.date_range("2001-01-01T06:30", periods=4, freq="h"))
    names = open_source(hours, None, Reading(feature_dim="time")).names
    assert names[0] == "2001-01-01T06:30:00"


LABELS = {
    "cftime": xr.date_range("2001-01-30", periods=4, calendar="360_day", use_cftime=True),
    "hours": pd.timedelta_range("6h", periods=4, freq="6h"),
    "days": pd.timedelta_range("1D", periods=4),
    "months": pd.period_range("2001-01", periods=4, freq="M"),
    "bins": pd.interval_range(0, 4),
    "mixed": np.array(["red", 1, "nir", 2.5], object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_names__of_any_label_work_with_transform_and_files(kind, tmp_path):
    cube = DATA["t2m"].isel(time=slice(4)).drop_vars("time").rename(time="band")
    cube = cube.assign_coords(band=LABELS[kind])
    target = DATA["rain"].isel(time=7, drop=True)
    result = hd.select(cube, target, 4, feature_dim="band", method="mim")
    xr.testing.assert_identical(result.transform(cube), cube.isel(band=result.indices))
    if kind not in ("bins", "mixed"):
        for name, position in zip(result.features, result.indices, strict=True):
            found = cube.sel(band=name).squeeze(drop=True)
            np.testing.assert_array_equal(found, cube.isel(band=position))
    for path in ("result.zarr", "result.nc"):
        result.save(tmp_path / path)
        assert hd.load(tmp_path / path) == result
    names = {"cftime": "2001-01-30", "hours": "0 days 06:00:00", "days": "1 days"}
    assert result.to_dataset()["feature"].values[0] == names.get(kind, str(LABELS[kind][0]))


def test_names__without_coordinate_work_with_lags():
    cube = DATA["T"].drop_vars("level")
    lags = {"time": [0, 1]}
    result = hd.select(cube, DATA["rain"], 2, feature_dim="level", lags=lags, method="mim")
    assert result.features[0] == ("x2", "time-1")
    shifted = result.transform(cube).isel(feature=0)
    np.testing.assert_array_equal(shifted, cube.isel(level=2).shift(time=1))


def test_series__of_stacked_samples_is_matched_by_its_index():
    shuffled = STACKED["rain"].to_series().sample(frac=1, random_state=2)
    turned = shuffled.reorder_levels(["time", "lat", "lon"])
    expected = hd.select(STACKED, "rain", 1, method="mim")
    features = STACKED[["t2m"]].assign(double=("sample", 2 * STACKED["t2m"].values))
    for target in (shuffled, turned):
        result = hd.select(features, target, 1, method="mim")
        np.testing.assert_array_equal(result.scores, expected.scores)


def test_dates__are_excluded_or_skipped():
    data = DATA[["nino"]].assign(date=("time", TIME), soi=-DATA["nino"])
    target = np.arange(N_TIME) % 2
    result = hd.select(data, target, 1, method="mim", on_bad="skip")
    assert f"skipped feature 'date', which is {TIME.dtype}: dates" in repr(result)
    assert len(hd.select(data, target, 2, method="mim", exclude=["date"])) == 2


def test_weights__cosines_of_latitudes_are_areas():
    options = {"feature_dim": "level", "method": "mim"}
    area = np.cos(np.deg2rad(LAT))
    for each in (area, area.assign_attrs(units="degrees_north")):
        assert len(hd.select(DATA, "rain", 1, weights=each, **options)) == 1


def test_names__ambiguous_labels_are_not_guessed():
    data = xr.DataArray(np.zeros((3, 3)), dims=("a", "b"), coords={"a": [1, 2, 3], "b": [1, 2, 3]})
    assert chosen_composed([1, 2], data) is None


def test_reading__computes_nothing():
    with dask.config.set(scheduler=_refuse):
        data = climate(lazy=True)
        options = Reading(
            feature_dim="level",
            lags={"time": [0, 1]},
            where=data["t2m"] > 0,
            groups={"time": "7D"},
            join="inner",
        )
        source = open_source(data, data["rain"], options)
    assert source.n_samples == N_TIME * N_LAT * N_LON
    assert [mask.role for mask in source.masks] == ["lags", "where"]
    assert not any(mask.in_memory for mask in source.masks)


@pytest.mark.parametrize("option", ["weights", "groups", "by"])
def test_reading__coordinates_of_dims_are_broadcast_by_tasks(option):
    """In memory, they would take eight bytes per sample in the client and in the graph."""
    data = climate(lazy=True)
    area = data["lat"].copy(data=np.cos(np.deg2rad(data["lat"].values)))
    given = {"weights": area, "groups": "lat", "by": data["lat"]}[option]
    source = open_source(data, "rain", Reading(feature_dim="level", **{option: given}))
    column = getattr(source, option)
    assert not column.in_memory
    expected = area if option == "weights" else data["lat"]
    expected = expected.broadcast_like(DATA["rain"]).transpose("time", "lat", "lon")
    np.testing.assert_array_equal(column.values.compute(), expected.values.ravel())


def _refuse(*_args, **_options):
    raise AssertionError("something was computed")
