"""Results in the language of the data: dims, units and coordinates of the features."""

import itertools
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.io.axes import Axis, Coordinate, read_axis
from hofs_dask.results.datasets import feature_coordinates
from hofs_dask.results.selection import Pick

CENTRES = np.array([450.12345678, 550.0, 650.0, 850.0])


@pytest.fixture(scope="module")
def cube():
    """An image of 20 x 30 pixels and four bands; bands 2 and 0 separate the classes."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, (20, 30))
    values = rng.normal(size=(20, 30, 4))
    values[..., 2] += 3 * label
    values[..., 0] += label
    return xr.DataArray(
        values,
        dims=("y", "x", "wavelength"),
        coords={
            "wavelength": ("wavelength", CENTRES, {"units": "nm", "long_name": "centre"}),
            "region": ("wavelength", ["blue", "green", "red", "infrared"]),
            "fwhm": ("wavelength", np.array([9, 10, 10, 12], np.uint8), {"units": "nm"}),
            "label": (("y", "x"), label),
            "rank": ("wavelength", [True, False, True, True]),
        },
        name="reflectance",
    )


@pytest.fixture(scope="module")
def result(cube):
    return hd.select(cube, "label", 2, feature_dim="wavelength")


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def made_pick(index, subset, rank):
    gain = 0.5 / (rank + 1) ** 1.5
    return Pick(index, subset, score=gain, gain=gain, information=1 - 0.5 / (rank + 1), margin=0.0)


def test_report__names_the_first_feature_with_its_units(result, tmp_path):
    result.to_html(tmp_path / "report.html")
    assert "The first feature, centre (nm) 650" in (tmp_path / "report.html").read_text()


def test_dataset__has_dim_units_and_coordinates_of_the_features(result):
    table = result.to_dataset()
    assert table.attrs["feature_dim"] == "wavelength"
    assert table["feature"].attrs == {"units": "nm", "long_name": "centre"}
    assert feature_coordinates(table) == ["region", "fwhm", "feature_rank", "wavelength"]
    assert table["fwhm"].values.tolist() == [9, 10, 10, 12]
    assert table["fwhm"].attrs == {"units": "nm"}
    assert table["feature_rank"].values.tolist() == [True, False, True, True]
    best = table["relevance"].swap_dims(feature="wavelength").sel(wavelength=650.0)
    assert best == table["relevance"].max()


def test_dataset__of_variables_has_their_units():
    rng = np.random.default_rng(0)
    made = xr.Dataset({name: ("time", rng.normal(size=300)) for name in ("t2m", "rain", "y")})
    made["t2m"].attrs = {"units": "K", "long_name": "air temperature", "valid_min": 0.0}
    result = hd.select(made.assign(y=made["t2m"] > 0), "y", 1)
    table = result.to_dataset()
    assert table["units"].values.tolist() == ["K", ""]
    assert table["long_name"].values.tolist() == ["air temperature", ""]
    assert "feature_dim" not in table.attrs
    assert re.search(r"1  t2m +K +air temperature +0 ", repr(result))


def test_code_store__keeps_the_description(cube, result, tmp_path):
    path = tmp_path / "codes.zarr"
    hd.encode(cube, "label", path, feature_dim="wavelength")
    assert hd.select(path, None, 2) == result
    # the same values in other units: the codes are reused, the description is that of the data
    other = cube.assign_coords(wavelength=cube["wavelength"].assign_attrs(units="10-9 m"))
    again = hd.select(other, "label", 2, feature_dim="wavelength", store=path)
    assert again.to_dataset()["feature"].attrs["units"] == "10-9 m"


def test_code_store__refuses_a_damaged_description():
    document = json.loads(json.dumps(vars(Axis("band", {"units": "nm"})), default=vars))
    assert read_axis(document) == Axis("band", {"units": "nm"})
    coordinate = {"values": [[1]], "attrs": {}}
    for wrong in (
        {**document, "dim": 3},
        {**document, "attrs": {"units": 5}},
        {**document, "attrs": {"history": "x"}},
        {**document, "coords": {"a": coordinate}},
    ):
        with pytest.raises(ValueError, match="axis of the features|attributes of a coordinate"):
            read_axis(wrong)


def test_exclude__removes_coordinates_too(cube):
    found = hd.select(cube, "label", 1, feature_dim="wavelength", exclude=[550.0]).to_dataset()
    assert found["region"].values.tolist() == ["blue", "red", "infrared"]


@pytest.mark.parametrize("name", ["result.zarr", "result.nc"])
def test_save__keeps_the_coordinates(result, cube, tmp_path, name):
    result.save(tmp_path / name)
    assert hd.load(tmp_path / name) == result
    both = hd.compare(cube, "label", 2, methods=["mim", "jmi"], feature_dim="wavelength")
    both.save(tmp_path / f"both-{name}")
    assert hd.load(tmp_path / f"both-{name}") == both


def test_compare__keeps_the_coordinates(cube, result):
    both = hd.compare(cube, "label", 2, methods=["hofs", "jmi"], feature_dim="wavelength")
    assert feature_coordinates(both.to_dataset()) == feature_coordinates(result.to_dataset())
    assert both["hofs"] == result


def test_matrix__names_the_coordinate(cube):
    made = hd.information_matrix(cube, "label", feature_dim="wavelength")
    assert made["feature"].attrs == made["other"].attrs == {"units": "nm", "long_name": "centre"}


def test_tables__have_units_and_sensible_digits(result):
    text = repr(result)
    assert "rank  centre (nm)  region  fwhm (nm)  subset" in text
    assert "450.123 " in text
    assert "450.12345678" not in text
    assert "centre (nm)" in result._repr_html_()
    frame = result.to_dataframe()
    assert frame["feature"].tolist() == [650.0, 450.12345678]
    assert frame["region"].tolist() == ["red", "blue"]


def test_tables__leave_out_coordinates_that_do_not_fit():
    coords = {name: Coordinate((20 * "a", 20 * "b")) for name in ("first", "second")}
    result = hd.Selection.from_picks(
        [made_pick(index=1, subset=0, rank=0)],
        names=["a", "b"],
        relevance=[0.1, 0.5],
        attrs={},
        axis=Axis("band", {}, coords),
    )
    assert "first" in repr(result)
    assert "second" not in repr(result)
    assert max(map(len, repr(result).splitlines())) <= 88
    assert result.to_dataframe()["second"].tolist() == [20 * "b"]


def test_getitem__cuts_after_a_rank(cube):
    whole = hd.select(cube, "label", 4, feature_dim="wavelength")
    first = hd.select(cube, "label", 2, feature_dim="wavelength")
    assert whole[:2] == first
    assert whole[0:3].features == whole.features[:3]
    assert whole[:-1].features == whole.features[:-1]
    assert whole[:99] == whole
    assert whole[0] == whole.features[0]
    assert whole[-1] == whole.features[-1]
    assert whole[:2].plot().get_xlabel() == "centre (nm), by rank"
    for wrong in (slice(1, 3), slice(None, None, 2)):
        with pytest.raises(ValueError, match=r"give result\[:5\]"):
            whole[wrong]


def test_transform__leaves_the_target_out_of_every_kind_of_data(cube, result):
    label = cube["label"].drop_vars("label")
    image = xr.Dataset({"cube": cube.drop_vars("label"), "label": label})
    chosen = result.transform(image)
    assert list(chosen.data_vars) == ["cube"]
    assert chosen["cube"].wavelength.values.tolist() == result.features
    assert "label" in result.transform(cube).coords  # a coordinate is no feature
    rng = np.random.default_rng(0)
    table = xr.Dataset({name: ("time", rng.normal(size=300)) for name in ("a", "b")})
    table["y"] = table["b"] > 0
    found = hd.select(table, "y", 1)
    assert list(found.transform(table).data_vars) == ["b"]
    assert list(found.transform(table.to_dataframe()).columns) == ["b"]
    assert list(found.transform({name: table[name].values for name in table})) == ["b"]


# Figures


def test_spectrum__draws_relevance_along_a_coordinate(result):
    ax = result.plot.spectrum(x="wavelength")
    assert ax.get_xlabel() == "centre (nm)"
    assert ax.get_ylabel() == "relevance (nats)"
    (line,) = ax.get_lines()
    table = result.to_dataset()
    np.testing.assert_array_equal(line.get_xdata(), CENTRES)
    np.testing.assert_array_equal(line.get_ydata(), table["relevance"].values)
    drawn = [each.get_offsets() for each in ax.collections if each.get_label()[0] != "_"]
    assert sorted(np.concatenate(drawn)[:, 0].tolist()) == sorted(result.features)
    assert [text.get_text() for text in ax.texts] == ["1", "2"]
    assert result.plot.spectrum(x="fwhm").get_xlabel() == "fwhm (nm)"
    own = plt.figure().add_subplot()
    assert result.plot.spectrum(ax=own) is own


def test_spectrum__refuses_names_and_unknown_coordinates(result):
    with pytest.raises(ValueError, match=r"'region' has names such as 'blue'.*x= one of 'fwhm'"):
        result.plot.spectrum(x="region")
    with pytest.raises(ValueError, match=r"coordinate of the features.*'fwhm'"):
        result.plot.spectrum(x="fwmh")
    x = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(ValueError, match=r"'feature' has names such as 'x0'.*use result.plot\(\)"):
        hd.select(x, x[:, 0] > 0, 1).plot.spectrum()
    with pytest.raises(ValueError, match=r"no coordinate, so 'band' is unknown; select from one"):
        hd.select(x, x[:, 0] > 0, 1).plot.spectrum(x="band")


def test_plots__are_readable_with_200_features():
    """No two labels on the axis of ranks overlap, and no two ranks of a spectrum."""
    names = np.round(400 + 10.5 * np.arange(200), 1)
    picks = [made_pick(index=(37 * rank) % 200, subset=rank % 12, rank=rank) for rank in range(200)]
    relevance = 0.3 + 0.2 * np.sin(np.arange(200) / 9)
    axis = Axis("band", {"units": "nm"}, {"width": Coordinate(tuple(range(200)))})
    result = hd.Selection.from_picks(
        picks, names=names.tolist(), relevance=relevance, attrs={"method": "jmi"}, axis=axis
    )
    ax = result.plot()
    assert ax.get_xlabel() == "band (nm), by rank, one of 3 named"
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(a.x1 <= b.x0 for a, b in itertools.pairwise(boxes))
    ax = result.plot.spectrum()
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) > 15
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
