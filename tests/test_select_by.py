"""`select_by`: the selection of each part of the data, with the reads of one."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hofs_dask as hd
from tests.reads import Reads

RNG = np.random.default_rng(11)
N = 600
X = RNG.normal(size=(N, 5))
SITE = RNG.choice(["north", "south", "east"], N, p=[0.5, 0.3, 0.2])
SIGNAL = np.select([SITE == "north", SITE == "south"], [X[:, 0], X[:, 1]], X[:, 3] + X[:, 4])
Y = (SIGNAL + 0.5 * RNG.normal(size=N) > 0).astype(int)
#: Shifted by site, so that bins of all sites together would hold few codes of each.
X += np.where(SITE == "north", 20, 0)[:, np.newaxis]
NAMES = ["a", "b", "c", "d", "e"]


def _same(found, expected):
    """Two selections are the same to the last bit, except for what describes the part."""
    one, other = found.to_dataset(), expected.to_dataset()
    for each in (one, other):
        for name in ("notes", "fingerprint"):
            each.attrs.pop(name, None)
    xr.testing.assert_identical(one, other)


@pytest.mark.parametrize("method", ["hofs", "jmi", "vmi"])
def test_select_by__each_part_is_the_selection_of_its_samples_alone(method):
    found = hd.select_by(X, Y, 3, by=SITE, method=method)
    assert list(found) == ["east", "north", "south"]
    for label, each in found.items():
        own = label == SITE
        _same(each, hd.select(X, Y, 3, method=method, where=own))
        _same(each, hd.select(X[own], Y[own], 3, method=method))
    assert found["north"].features[0] == "x0"
    assert found["south"].features[0] == "x1"


@pytest.mark.parametrize("chunk", [7, 100, N])
def test_select_by__options_apply_to_each_part(chunk):
    lazy = da.from_array(X, chunks=(chunk, 2))
    options = {
        "weights": RNG.integers(1, 9, N),
        "groups": np.arange(N) // 10,
        "where": RNG.random(N) < 0.8,
        "exclude": ["x2"],
        "include": ["x4"],
    }
    by = da.from_array(SITE, chunks=50)
    target = da.from_array(np.where(np.arange(N) % 17, Y, np.nan), chunks=30)
    found = hd.select_by(lazy, target, 3, by, **options)
    for label, each in found.items():
        own = {**options, "where": options["where"] & (label == SITE)}
        _same(each, hd.select(X, target.compute(), 3, **own))
        assert each.features[0] == "x4"
        np.testing.assert_array_equal(each.transform(X), X[:, each.indices])


def test_select_by__frames_dicts_and_names():
    frame = pd.DataFrame(X, columns=NAMES).assign(y=Y, site=pd.Categorical(SITE))
    expected = hd.select_by(X, Y, 2, SITE).to_dataframe().replace({"x0": "a", "x1": "b"})
    expected = expected.replace({"x2": "c", "x3": "d", "x4": "e"})
    for data in (frame, {name: frame[name].to_numpy() for name in frame if name != "site"}):
        by = "site" if data is frame else SITE
        found = hd.select_by(data, "y", 2, by)
        assert found.to_dataframe().equals(expected)
        assert found.by == ("site" if data is frame else "by")


def climate(reads):
    time = pd.date_range("2001-01-01", periods=730, freq="D")
    shape = (730, 3, 4)
    values = RNG.normal(size=(4, *shape))
    season = xr.DataArray(time, dims="time").dt.season.values[:, np.newaxis, np.newaxis]
    rain = np.where(season == "DJF", values[0], np.roll(values[2], 1, axis=0)) > 0.4
    dims = ("time", "lat", "lon")
    chunks = (100, 3, 2)
    data = xr.Dataset(
        {f"v{j}": (dims, reads.array(values[j], chunks)) for j in range(4)},
        {"time": time, "lat": [-50.0, 0.0, 50.0], "lon": [0.0, 90.0, 180.0, 270.0]},
    )
    data["v0"].attrs["units"] = "K"
    data["rain"] = (dims, rain)
    return data, values


def test_select_by__season_reads_every_chunk_twice_in_total():
    reads = [Reads() for _ in range(4)]

    class Each:
        def __init__(self):
            self.left = list(reads)

        def array(self, values, chunks):
            return self.left.pop(0).array(values, chunks)

    data, _ = climate(Each())
    assert not any(each.counts for each in reads)
    found = data.hofs.select_by("rain", 2, "time.season", weights=np.cos(np.deg2rad(data["lat"])))
    for each in reads:
        assert len(each.counts) == 8 * 2
        assert set(each.counts.values()) == {2}
    assert list(found) == ["DJF", "JJA", "MAM", "SON"]
    assert found["DJF"].features[0] == "v0"
    assert found.by == "season"


def test_select_by__lags_reach_into_the_part_before():
    data, values = climate(Reads())
    found = hd.select_by(data, "rain", 1, by="time.season", lags={"time": [0, 1]}, method="mim")
    assert found.features == {
        "DJF": ["v0"],
        **{season: [("v2", "time-1")] for season in ("JJA", "MAM", "SON")},
    }
    dates = pd.DatetimeIndex(data["time"].values)
    spring = xr.DataArray(dates, dims="time").dt.season.values == "MAM"
    shifted = np.stack([*values, *np.roll(values, 1, axis=1)], axis=-1)[spring]
    alone = hd.select(shifted.reshape(-1, 8), data["rain"].values[spring].ravel(), 1, method="mim")
    np.testing.assert_array_equal(found["MAM"].scores, alone.scores)


def test_to_dataset__has_a_dim_of_the_parts(tmp_path):
    data, _ = climate(Reads())
    found = hd.select_by(data, "rain", 3, by="time.season", method="jmi")
    whole = found.to_dataset()
    assert whole.sizes == {"season": 4, "rank": 3, "feature": 4}
    for label, each in found.items():
        part, own = whole.sel(season=label), each.to_dataset()
        for name in ("selected", "score", "gain", "subset", "relevance", "index"):
            np.testing.assert_array_equal(part[name], own[name])
        assert int(part["n_samples"]) == own.attrs["n_samples"]
    assert whole["units"].values.tolist() == ["K", "", "", ""]
    assert whole["n_samples"].sum() == 730 * 12
    assert "n_samples" not in whole.attrs
    whole.to_netcdf(tmp_path / "seasons.nc")
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "seasons.nc"), whole)


def test_to_dataset__parts_with_fewer_ranks_or_features_are_padded():
    found = hd.select_by(X, Y, 4, by=SITE, min_gain=0.05)
    lengths = {label: len(each) for label, each in found.items()}
    assert min(lengths.values()) < max(lengths.values())
    whole = found.to_dataset()
    for label, n in lengths.items():
        part = whole.sel(by=label)
        assert (part["index"].values[n:] == -1).all()
        assert (part["selected"].values[n:] == "").all()
        assert np.isnan(part["gain"].values[n:]).all()
    # an identifier in one part, which is no feature there
    text = (X % 2 > 1).astype(int).astype(str).astype(object)
    text[SITE == "east", 2] = [f"id{j}" for j in range((SITE == "east").sum())]
    skipped = hd.select_by(text, Y, 1, by=SITE, on_bad="skip", method="mim")
    relevance = skipped.to_dataset()["relevance"]
    assert np.isnan(relevance.sel(by="east", feature="x2"))
    assert not np.isnan(relevance.sel(by="north", feature="x2"))


def test_printout__table_html_and_figure():
    found = hd.select_by(X, Y, 2, by=SITE, method="mim")
    lines = repr(found).splitlines()
    assert lines[0].startswith("2 of 5 features selected from each of 3 parts by by; ")
    assert lines[0].endswith("from all")
    assert lines[1] == "600 samples, 2 classes of target"
    assert lines[3].split() == ["rank", "east", "north", "south"]
    assert "overlap of the first 2 picks (Jaccard index)" in lines
    assert "selected from each of 3 parts" in found._repr_html_()
    axes = found.plot()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["east", "north", "south"]
    assert axes.get_title(loc="left") == "features chosen from each part by by, by rank"
    with pytest.raises(KeyError, match="unknown label of by 'nort'; valid: 'north'"):
        found["nort"]


def test_labels__missing_ones_are_in_no_part():
    by = np.where(np.arange(N) % 5, np.arange(N) % 2, np.nan)
    found = hd.select_by(X, Y, 1, by=by, method="mim")
    assert list(found) == [0.0, 1.0]
    sizes = found.to_dataset()["n_samples"].values.tolist()
    assert sizes == [int((by == 0).sum()), int((by == 1).sum())]


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        (None, ValueError, "by is None; give labels of the parts"),
        (np.arange(N) * 1.5, None, None),
        (np.full(N, np.nan), ValueError, f"by 'by' has no values: all {N} are missing"),
        ({"time": 3}, TypeError, "by is {'time': 3}; give an array with one label per sample"),
        (SITE[:9], ValueError, f"by 'by' has 9 values and the data has {N} samples"),
        ("site", ValueError, "site"),
    ],
)
def test_labels__that_cannot_be_used_are_refused(by, error, message):
    if error is None:
        wide = np.repeat(np.arange(1001.0), 2)
        with pytest.raises(ValueError, match="by 'by' has more than 1000 different values"):
            hd.select_by(np.zeros((2002, 2)), np.arange(2002) % 2, 1, by=wide)
        return
    with pytest.raises(error, match=message):
        hd.select_by(X, Y, 1, by=by)


@pytest.mark.parametrize("lazy", [False, True])
def test_errors__name_the_part(lazy):
    y = np.where(SITE == "south", 1, Y)
    target = da.from_array(y, chunks=50) if lazy else y
    with pytest.raises(ValueError, match="by=south") as raised:
        hd.select_by(X, target, 1, by=SITE)
    assert "only one value" in str(raised.value)
    constant = np.where((SITE == "east")[:, np.newaxis], [0, 1], [1, 1]) * X[:, :2]
    with pytest.raises(ValueError, match="by=east: n_features is 2 but only 1 features can be"):
        hd.select_by(constant, Y, 2, by=SITE)
    with pytest.raises(ValueError, match="by=east: none of the 600 samples is left"):
        hd.select_by(X, Y, 1, by=SITE, where=SITE != "east")


def test_code_store__is_refused(tmp_path):
    codes = hd.encode(X, Y, tmp_path / "codes")
    for data in (codes, codes.path):
        with pytest.raises(ValueError, match="give the data that was encoded"):
            hd.select_by(data, None, 1, by=SITE)


def test_part_of_dates__is_accepted_for_other_names():
    data, _ = climate(Reads())
    by_name = hd.select(data, "rain", 2, groups="time.month", method="jmi")
    by_hand = hd.select(data, "rain", 2, groups=data["time"].dt.month, method="jmi")
    assert by_name.to_dataset().attrs["n_groups"] == 12
    assert by_name.features == by_hand.features
    array = data["v0"].expand_dims(band=["x"]).assign_coords(band=["x"])
    one = hd.select_by(array, data["rain"], 1, by="time.season", feature_dim="band")
    assert list(one) == ["DJF", "JJA", "MAM", "SON"]
    with pytest.raises(ValueError, match=r"unknown variable for by 'time.seson'"):
        hd.select_by(data, "rain", 1, by="time.seson")
