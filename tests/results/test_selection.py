"""`Selection`, tested with hand-made picks."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from hofs_dask.results.comparison import load
from hofs_dask.results.selection import VARIABLES, Pick, Selection
from hofs_dask.results.style import COLOURS, RESTART_LABEL
from hofs_dask.results.text import RESTART

NAMES = ["red", "green", "blue", "flat"]
ATTRS: dict[str, str | float] = {
    "method": "hofs",
    "options": json.dumps({"criterion": "joint", "threshold": 0.2, "affinity": None}),
    "target": "crop",
    "n_samples": 1000,
    "n_classes": 3,
    "fingerprint": "5f",
    "share": 0.25,
}


def made(names: list[Any] = NAMES, **attrs: str | float) -> Selection:
    """Return a selection of features 2, 0 and 1; features 2 and 1 share a subset."""
    picks = [
        Pick(2, subset=0, score=0.3, gain=0.3, information=0.3, margin=0.1, runner_up=0),
        Pick(0, subset=1, score=0.45, gain=0.15, information=0.45, margin=0.2, runner_up=1),
        Pick(1, subset=0, score=0.5, gain=0.05, information=0.5, margin=0.5),
    ]
    return Selection.from_picks(
        picks,
        names=names,
        relevance=[0.2, 0.1, 0.3, 0.0],
        usable=[True, True, True, False],
        attrs=ATTRS | attrs,
    )


def long_one(n_picks: int, n_subsets: int, n_features: int = 200) -> Selection:
    gains = 0.5 ** np.arange(n_picks)
    picks = [
        Pick(
            position,
            subset=position % n_subsets,
            score=total,
            gain=gain,
            information=total,
            margin=0.0,
        )
        for position, (gain, total) in enumerate(zip(gains, gains.cumsum(), strict=True))
    ]
    names = [f"band{position}" for position in range(n_features)]
    return Selection.from_picks(picks, names=names, relevance=np.zeros(n_features), attrs=ATTRS)


@pytest.fixture
def _closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


# Content


def test_selection__ranks_features_and_subsets() -> None:
    result = made()
    assert result.features == ["blue", "red", "green"]
    assert result.indices.tolist() == [2, 0, 1]
    assert result.subsets == [["blue", "green"], ["red"]]
    assert result.scores.tolist() == [0.3, 0.45, 0.5]
    assert len(result) == 3
    assert list(result) == ["blue", "red", "green"]
    assert "red" in result
    assert "flat" not in result


def test_to_dataset__has_every_variable_with_name_and_units() -> None:
    data = made().to_dataset()
    assert set(data.dims) == {"rank", "feature"}
    assert set(data.data_vars) == set(VARIABLES)
    for variable in data.variables.values():
        assert variable.attrs["long_name"]
        assert variable.attrs["units"] in ("nats", "1")
    assert data["rank"].values.tolist() == [1, 2, 3]
    assert data["subset"].values.tolist() == [0, 1, 0]
    assert data["runner_up"].dtype == data["index"].dtype == np.int64
    assert data["runner_up"].values.tolist() == [0, 1, -1]
    assert data["relevance"].sel(feature="blue").item() == 0.3
    assert data["usable"].values.tolist() == [True, True, True, False]
    assert ATTRS.items() <= data.attrs.items()


def test_to_dataset__describes_its_variables() -> None:
    data = made().to_dataset()
    penalty = "for joint minus the selection penalty"
    assert data["score"].attrs["long_name"].startswith("criterion")
    assert f"information that the feature added: {penalty}" in data["gain"].attrs["long_name"]
    assert data["information"].attrs["long_name"] == (
        "information about the target of the features chosen since the last restart: " + penalty
    )
    assert data["subset"].attrs["long_name"].endswith("numbered from 0 by first pick")


def restarted() -> Selection:
    """Return a selection with an included feature, a chosen one, and two after a restart."""
    picks = [
        Pick(0, subset=0, score=0.1, gain=0.1, information=0.1, margin=-0.2, forced=True),
        Pick(1, subset=1, score=0.3, gain=0.2, information=0.3, margin=0.1),
        Pick(2, subset=0, score=0.2, gain=0.2, information=0.2, margin=0.1, epoch=1),
        Pick(3, subset=0, score=0.3, gain=0.1, information=0.3, margin=np.nan, epoch=1),
    ]
    relevance = [0.1, 0.25, 0.2, 0.15]
    return Selection.from_picks(picks, names=NAMES, relevance=relevance, attrs={})


def test_to_dataframe__equals_the_printed_table() -> None:
    expected = pd.DataFrame(
        {
            "rank": [1, 2, 3, 4],
            "feature": NAMES,
            "subset": [0, 1, 0, 0],
            "gain": [0.1, 0.2, 0.2, 0.1],
            "information": [0.1, 0.3, 0.2, 0.3],
            "relevance": [0.1, 0.25, 0.2, 0.15],
            "margin": [np.nan, 0.1, 0.1, np.nan],
            "note": ["included", "", "restart", ""],
        }
    )
    pd.testing.assert_frame_equal(restarted().to_dataframe(), expected)
    header = next(line for line in repr(restarted()).splitlines() if line.startswith("rank"))
    assert header.split() == list(expected.columns)
    assert restarted().to_dataset()["margin"].values[0] == -0.2


@pytest.mark.parametrize("n_picks", [0, 1, 60])
def test_to_dataframe__has_one_row_per_rank(n_picks: int) -> None:
    table = long_one(n_picks, 3).to_dataframe()
    assert table["rank"].tolist() == list(range(1, n_picks + 1))
    assert len(table.columns) == 8


def test_to_dataset__is_a_copy() -> None:
    result = made()
    result.to_dataset()["score"][:] = 0
    assert result == made()


def test_from_picks__numbers_subsets_by_first_pick() -> None:
    picks = [
        Pick(position, subset=subset, score=0, gain=0, information=0, margin=0)
        for position, subset in enumerate([7, 2, 7, 0])
    ]
    result = Selection.from_picks(picks, names=list("abcd"), relevance=np.zeros(4), attrs={})
    assert result.to_dataset()["subset"].values.tolist() == [0, 1, 0, 2]
    assert result.subsets == [["a", "c"], ["b"], ["d"]]


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        (["a", "b", "c", "d"], np.str_),
        ([10, 20, 30, 40], np.int64),
        (list(np.array([400.0, 412.5, 430.25, 1e3])), np.float64),
        ([1, 2.5, 3, 4], np.float64),
        (["a", 1, 2.5, "1"], np.object_),
    ],
)
def test_from_picks__keeps_names_of_any_type(names: list[Any], dtype: type) -> None:
    result = made(names)
    assert np.issubdtype(result.to_dataset()["feature"].dtype, dtype)
    assert result.features == [names[2], names[0], names[1]]
    assert all(isinstance(name, str | int | float) for name in result.features)
    assert not any(isinstance(name, np.generic) for name in result.features)


def test_from_picks__accepts_numpy_numbers_as_attributes() -> None:
    attrs = made(n_samples=np.int64(7), share=np.float32(0.5), whole=np.True_).to_dataset().attrs
    assert type(attrs["n_samples"]) is int
    assert type(attrs["share"]) is float
    assert attrs["whole"] == 1


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"relevance": [1.0]}, ValueError, r"relevance has the shape \(1,\), .* 4 names"),
        ({"usable": [True] * 3}, ValueError, r"usable has the shape \(3,\), .* 4 names"),
        ({"attrs": {"options": {}}}, TypeError, r"options=\{\} is a dict; .* json.dumps"),
        ({"attrs": {"store": None}}, TypeError, "store=None is a NoneType"),
        ({"names": ["a"]}, ValueError, "pick 1 is not a position among 1 features"),
    ],
)
def test_from_picks__explains_errors(
    changed: dict[str, Any], error: type[Exception], words: str
) -> None:
    given: dict[str, Any] = {"names": NAMES, "relevance": np.zeros(4), "attrs": {}} | changed
    pick = Pick(1, subset=0, score=0, gain=0, information=0, margin=0)
    with pytest.raises(error, match=words):
        Selection.from_picks([pick], **given)


def test_from_picks__refuses_a_feature_twice() -> None:
    pick = Pick(1, subset=0, score=0, gain=0, information=0, margin=0)
    with pytest.raises(ValueError, match=r"picked twice: the picks are \[1, 1\]"):
        Selection.from_picks([pick, pick], names=NAMES, relevance=np.zeros(4), attrs={})


def test_selection__refuses_another_dataset() -> None:
    with pytest.raises(ValueError, match=r"format=None and lacks \['selected'"):
        Selection(xr.Dataset())


def test_selection__equals_only_a_selection_with_the_same_content() -> None:
    assert made() == made()
    assert made() != made(n_samples=1001)
    assert made() != made(["red", "green", "azure", "flat"])
    assert made() != "blue"
    with pytest.raises(TypeError, match="unhashable"):
        hash(made())


# Files


@pytest.mark.parametrize("suffix", [".zarr", "", ".nc"])
@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        ["rouge", "vért", "λ 400", ""],
        [10, 20, 30, 40],
        [400.0, 412.5, 430.25, 1e3],
        ["a", 1, 2.5, "1"],
    ],
    ids=["text", "unicode", "int", "float", "mixed"],
)
def test_save__loaded_result_is_equal(tmp_path: Path, suffix: str, names: list[Any]) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5py")
    result = made(names)
    result.save(tmp_path / f"result{suffix}")
    back = load(tmp_path / f"result{suffix}")
    assert back == result
    assert back.features == result.features
    assert [type(name) for name in back.features] == [type(name) for name in result.features]
    assert repr(back) == repr(result)
    assert {name: type(value) for name, value in back.to_dataset().attrs.items()} == {
        name: type(value) for name, value in result.to_dataset().attrs.items()
    }
    for name, variable in result.to_dataset().variables.items():
        assert back.to_dataset()[name].dtype == variable.dtype, name


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_save__writes_an_empty_selection(tmp_path: Path, suffix: str) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5py")
    result = Selection.from_picks([], names=NAMES, relevance=np.zeros(4), attrs=ATTRS)
    result.save(tmp_path / f"none{suffix}")
    assert load(str(tmp_path / f"none{suffix}")) == result
    assert result.features == result.subsets == []


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_save__replaces_an_earlier_selection(tmp_path: Path, suffix: str) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5py")
    path = tmp_path / f"result{suffix}"
    long_one(30, 4).save(path)
    made().save(path)
    assert load(path) == made()


def test_to_zarr__can_be_read_by_xarray(tmp_path: Path) -> None:
    made().to_zarr(tmp_path / "result.zarr")
    data = xr.open_zarr(tmp_path / "result.zarr", consolidated=False)
    assert data["selected"].values.tolist() == ["blue", "red", "green"]
    assert data["gain"].attrs["units"] == "nats"


def test_to_zarr__accepts_an_empty_folder(tmp_path: Path) -> None:
    made().to_zarr(tmp_path)
    assert load(tmp_path) == made()


def test_save__never_replaces_other_files(tmp_path: Path) -> None:
    store = tmp_path / "data.zarr"
    zarr.create_array(store, name="x", data=np.arange(3))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "letter.txt").write_text("text")
    (tmp_path / "file.zarr").write_text("text")
    for path in (store, folder, tmp_path / "file.zarr"):
        with pytest.raises(FileExistsError, match=re.escape(f"{path} exists and is not")):
            made().save(path)
    assert zarr.open_array(store, path="x", mode="r")[:].tolist() == [0, 1, 2]
    assert (folder / "letter.txt").read_text() == "text"


def test_save__never_replaces_another_netcdf(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    path = tmp_path / "data.nc"
    xr.Dataset({"x": ("t", [1, 2])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(FileExistsError, match="exists and is not"):
        made().save(path)
    with xr.open_dataset(path, engine="h5netcdf") as data:
        assert data["x"].values.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["r.csv", "r.json", "r.nc4", "r.v1.txt", "memory://x/r.csv"])
def test_save__refuses_other_suffixes(tmp_path: Path, name: str) -> None:
    path = name if "://" in name else str(tmp_path / name)
    suffix = Path(name).suffix
    with pytest.raises(ValueError, match=rf"ends with '\{suffix}'; .*\.zarr.*to_dataframe\(\)"):
        made().save(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".zarr", "", ".nc"])
def test_save__creates_missing_folders(tmp_path: Path, suffix: str) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5py")
    path = tmp_path / "new" / "folder" / f"result{suffix}"
    made().save(path)
    assert load(path) == made()


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_save__tilde_is_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5py")
    monkeypatch.setenv("HOME", str(tmp_path))
    made().save(f"~/result{suffix}")
    assert (tmp_path / f"result{suffix}").exists()
    assert load(f"~/result{suffix}") == made()


def test_load__reports_a_missing_path(tmp_path: Path) -> None:
    for name in ("none.zarr", "none.nc"):
        with pytest.raises(FileNotFoundError, match=f"no saved selection or .* at .*{name}"):
            load(tmp_path / name)


def test_load__reports_other_content(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    zarr.create_array(tmp_path / "array.zarr", data=np.arange(3))
    zarr.create_group(tmp_path / "group.zarr", attributes={"format": "hofs_dask codes"})
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.zarr").write_text("text")
    (tmp_path / "text.nc").write_text("text")
    xr.Dataset({"x": ("t", [1, 2])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match=f"{path.name} is not a saved selection or .*: give"):
            load(path)


def _without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Make importing one package fail as if it were not installed."""
    real = builtins.__import__

    def fake(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == missing:
            raise ImportError(f"No module named {missing!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fake)


def test_save__names_the_extra_for_netcdf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.nc").write_text("text")
    _without(monkeypatch, "h5netcdf")
    with pytest.raises(ImportError, match=re.escape("pip install 'hofs-dask[netcdf]'")):
        made().save(tmp_path / "result.nc")
    with pytest.raises(ImportError, match=re.escape("pip install 'hofs-dask[netcdf]'")):
        load(tmp_path / "there.nc")


def test_plot__names_the_extra_for_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "matplotlib")
    with pytest.raises(ImportError, match=re.escape("pip install 'hofs-dask[plot]'")):
        made().plot()


# Text


def test_repr__shows_subsets_and_ranks() -> None:
    assert repr(made()).splitlines() == [
        "3 of 4 features in 2 subsets, selected by hofs",
        "1000 samples, 3 classes of crop; information in nats",
        "criterion=joint, threshold=0.2",
        "1 feature is constant or all missing: flat",
        "",
        "subset 0  blue green",
        "subset 1  red",
        "",
        "rank  feature  subset    gain  information  relevance  margin",
        "   1  blue          0  0.3000       0.3000     0.3000  0.1000",
        "   2  red           1  0.1500       0.4500     0.2000  0.2000",
        "   3  green         0  0.0500       0.5000     0.1000  0.5000",
    ]


def test_repr__notes_included_features_and_restarts() -> None:
    assert repr(restarted()).splitlines()[-7:] == [
        "rank  feature  subset    gain  information  relevance  margin  note",
        "   1  red           0  0.1000       0.1000     0.1000       -  included",
        "   2  green         1  0.2000       0.3000     0.2500  0.1000",
        "   3  blue          0  0.2000       0.2000     0.2000  0.1000  restart",
        "   4  flat          0  0.1000       0.3000     0.1500       -",
        "restart: no remaining feature adds enough information to the features chosen so far.",
        "The remaining features are ranked again, and information starts again from zero.",
    ]
    assert RESTART in restarted()._repr_html_()
    assert RESTART not in repr(made()) + made()._repr_html_()


@pytest.mark.parametrize(
    ("attrs", "line"),
    [
        ({"n_dropped": 15}, "1000 samples (15 without a target dropped), 3 classes of crop"),
        ({"n_dropped": 0}, "1000 samples, 3 classes of crop"),
        (
            {"target_kind": "continuous", "n_classes": 8},
            "1000 samples, continuous crop in 8 classes",
        ),
        ({"target_kind": "ordinal"}, "1000 samples, 3 classes of crop"),
    ],
)
def test_repr__describes_the_target(attrs: dict[str, str | float], line: str) -> None:
    assert repr(made(**attrs)).splitlines()[1] == f"{line}; information in nats"


def test_repr__names_some_of_many_unusable_features() -> None:
    names = [f"band{position}" for position in range(100_000)]
    usable = np.arange(len(names)) < 2
    result = Selection.from_picks(
        [], names=names, relevance=np.zeros(len(names)), usable=usable, attrs={}
    )
    line = repr(result).splitlines()[2]
    assert (
        line
        == "99998 features are constant or all missing: band2 band3 band4 band5 band6 ... +99993"
    )
    assert line in result._repr_html_()
    every = Selection.from_picks([], names=names, relevance=np.zeros(len(names)), attrs={})
    assert "constant" not in repr(every) + every._repr_html_()


def test_repr__shows_numeric_names_unchanged() -> None:
    rows = repr(made([400.0, 412.5, 430.25, 1e3])).splitlines()[-3:]
    assert [row.split()[1] for row in rows] == ["430.25", "400.0", "412.5"]


def test_repr__has_a_dash_for_nan() -> None:
    pick = Pick(0, subset=0, score=1, gain=1, information=1, margin=np.nan)
    result = Selection.from_picks([pick], names=["a"], relevance=[1.0], attrs={})
    assert repr(result).splitlines()[-1].split() == ["1", "a", "0", *["1.0000"] * 3, "-"]


@pytest.mark.parametrize(("n_picks", "n_subsets"), [(50, 1), (200, 200), (1, 1), (0, 1)])
def test_repr__fits_one_screen(n_picks: int, n_subsets: int) -> None:
    lines = repr(long_one(n_picks, n_subsets)).splitlines()
    assert len(lines) <= 40
    assert max(len(line) for line in lines) <= 100


def test_repr__counts_omitted_items() -> None:
    text = repr(long_one(50, 15))
    assert "... and 5 more subsets: .subsets" in text
    assert "... and 30 more ranks: .to_dataframe()" in text
    assert re.search(r"subset 0  band0 band1 .* \.\.\. \+\d+", repr(long_one(50, 1)))


def test_repr_html__escapes_names() -> None:
    page = made(["<b>", "a&b", "<script>", "d"], target="<i>")._repr_html_()
    for raw in ("<b>", "<script>", "<i>", "a&b"):
        assert raw not in page
    assert "&lt;script&gt;" in page
    assert "a&amp;b" in page


def test_repr_html__has_one_row_per_rank_up_to_a_limit() -> None:
    assert made()._repr_html_().count("<tr") == 1 + 3
    page = long_one(120, 12)._repr_html_()
    assert page.count("<tr") == 1 + 50
    assert "... and 70 more ranks: .to_dataframe()" in page


# Figure


@pytest.mark.usefixtures("_closed_figures")
def test_plot__draws_information_and_gain_in_subset_colours() -> None:
    ax = made().plot()
    assert [bar.get_height() for bar in ax.patches] == [0.3, 0.15, 0.05]
    assert ax.lines[0].get_ydata().tolist() == [0.3, 0.45, 0.5]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["blue", "red", "green"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0: blue green", "1: red"]
    colours = [to_rgb(bar.get_facecolor()[:3]) for bar in ax.patches]
    assert colours == [to_rgb(COLOURS[number]) for number in (0, 1, 0)]


@pytest.mark.usefixtures("_closed_figures")
def test_plot__breaks_the_line_at_a_restart() -> None:
    picks = [
        Pick(position, 0, score=0, gain=0.1, information=total, margin=0, epoch=epoch)
        for position, (total, epoch) in enumerate([(0.1, 0), (0.2, 0), (0.1, 1), (0.2, 1)])
    ]
    ax = Selection.from_picks(picks, names=NAMES, relevance=np.zeros(4), attrs={}).plot()
    lines = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) == 2]
    assert [list(line) for line in lines] == [[0.1, 0.2], [0.1, 0.2]]
    assert len(ax.lines) == 2
    # there is a gap, which is explained
    before, after = (line.get_xdata() for line in ax.lines)
    assert after[0] - before[1] > 1.5
    assert [text.get_text() for text in ax.texts] == [RESTART_LABEL]
    assert "restart: information" in ax.get_legend().get_title().get_text()


@pytest.mark.usefixtures("_closed_figures")
@pytest.mark.parametrize(("n_picks", "n_subsets"), [(0, 1), (1, 1), (10, 3), (50, 30)])
def test_plot__renders_any_number_of_picks(n_picks: int, n_subsets: int, tmp_path: Path) -> None:
    ax = long_one(n_picks, n_subsets).plot()
    ax.figure.savefig(tmp_path / "result.png")
    legend = ax.get_legend()
    shown = 0 if legend is None else len(legend.get_texts())
    assert shown == min(n_picks, n_subsets, len(COLOURS) + 1)


LONG_NAMES = [
    f"{which} {what}"
    for which in ("mean", "largest", "standard deviation of the")
    for what in ("concave points", "fractal dimension", "symmetry of the nucleus", "radius")
]


def named(names: list[str], n_subsets: int) -> Selection:
    half = len(names) // 2
    picks = [
        Pick(
            i,
            i % n_subsets,
            score=0,
            gain=0.1,
            information=0.1 * (i + 1),
            margin=0,
            epoch=i // half,
        )
        for i in range(len(names))
    ]
    relevance = np.zeros(len(names))
    return Selection.from_picks(picks, names=names, relevance=relevance, attrs=ATTRS)


@pytest.mark.usefixtures("_closed_figures")
@pytest.mark.parametrize("size", [None, (4, 3), (6.4, 4.8)])
@pytest.mark.parametrize("names", [LONG_NAMES, list("abcdef")], ids=["long", "short"])
@pytest.mark.parametrize("layout", [None, "constrained"])
def test_plot__fits_the_figure(
    size: tuple[float, float] | None, names: list[str], layout: Any
) -> None:
    ax = None if size is None else plt.subplots(figsize=size, layout=layout)[1]
    ax = named(names, 3).plot(ax)
    figure = ax.figure
    figure.draw_without_rendering()
    drawn, page = ax.get_tightbbox(), figure.bbox
    assert page.x0 <= drawn.x0
    assert drawn.x1 <= page.x1
    assert page.y0 <= drawn.y0
    assert drawn.y1 <= page.y1
    words = ax.get_title(loc="left")
    (title,) = ax.findobj(lambda each: isinstance(each, Text) and each.get_text() == words)
    assert not title.get_window_extent().overlaps(ax.get_legend().get_window_extent())
    assert ax.get_title(loc="right") == ""


@pytest.mark.usefixtures("_closed_figures")
def test_plot__keeps_an_existing_layout_engine() -> None:
    figure, ax = plt.subplots(layout="tight")
    engine = figure.get_layout_engine()
    made().plot(ax)
    assert figure.get_layout_engine() is engine
    free = plt.figure()
    made().plot(free.add_axes((0.2, 0.2, 0.5, 0.5)))
    assert free.get_layout_engine() is None
    part = plt.figure().subfigures(1, 2)[0]
    made().plot(part.add_subplot())


@pytest.mark.usefixtures("_closed_figures")
def test_plot__writes_any_name_as_it_is_and_in_one_short_line() -> None:
    ax = made(names=[r"$\frac{a}$", "very long " * 30, ("sst", "time-1"), "z"]).plot()
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_xticklabels()] == [
        "sst time-1",
        r"$\frac{a}$",
        "very long..very long",
    ]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "0: sst time-1 ... +1",
        r"1: $\frac{a}$",
    ]
    two = made(names=["a", "b", "two\nlines", "z"]).plot()
    assert two.get_xticklabels()[0].get_text() == "two lines"


@pytest.mark.usefixtures("_closed_figures")
def test_plot__uses_the_given_axes() -> None:
    _, ax = plt.subplots()
    assert made().plot(ax) is ax
    assert len(plt.get_fignums()) == 1


# Transform


VALUES = np.arange(20.0).reshape(5, 4)
CHOSEN = VALUES[:, [2, 0, 1]]


def test_transform__returns_numpy_columns() -> None:
    for values in (VALUES, np.asfortranarray(VALUES), VALUES.astype("f2")):
        taken = made().transform(values)
        assert isinstance(taken, np.ndarray)
        assert taken.dtype == values.dtype
        np.testing.assert_array_equal(taken, CHOSEN)


def test_transform__stays_lazy_for_dask() -> None:
    taken = made().transform(da.from_array(VALUES, chunks=(2, 2)))
    assert isinstance(taken, da.Array)
    assert taken.chunks[0] == (2, 2, 1)
    np.testing.assert_array_equal(taken.compute(scheduler="synchronous"), CHOSEN)


def test_transform__finds_data_frame_columns_by_name() -> None:
    frame = pd.DataFrame(VALUES, columns=NAMES).assign(crop="maize")[["crop", *NAMES[::-1]]]
    taken = made().transform(frame)
    assert isinstance(taken, pd.DataFrame)
    assert list(taken.columns) == ["blue", "red", "green"]
    np.testing.assert_array_equal(taken.to_numpy(), CHOSEN)


def test_transform__finds_mixed_and_numeric_column_names() -> None:
    for names in (["a", 1, 2.5, "1"], [10, 20, 30, 40]):
        taken = made(names).transform(pd.DataFrame(VALUES, columns=names))
        np.testing.assert_array_equal(taken.to_numpy(), CHOSEN)


@pytest.mark.parametrize("dims", [("time", "band"), ("band", "time")])
def test_transform__finds_the_dimension_with_the_names(dims: tuple[str, str]) -> None:
    array = xr.DataArray(
        VALUES, dims=("time", "band"), coords={"band": NAMES, "time": np.arange(5)}
    ).transpose(*dims)
    taken = made().transform(array)
    assert isinstance(taken, xr.DataArray)
    assert taken.dims == dims
    assert taken["band"].values.tolist() == ["blue", "red", "green"]
    np.testing.assert_array_equal(taken.transpose("time", "band"), CHOSEN)


def test_transform__finds_reordered_wavelengths_of_a_lazy_cube() -> None:
    wavelengths = [400.0, 412.5, 430.25, 1e3]
    cube = xr.DataArray(
        da.from_array(np.arange(24.0).reshape(2, 4, 3), chunks=1),
        dims=("y", "wavelength", "x"),
        coords={"wavelength": wavelengths[::-1]},
    )
    taken = made(wavelengths).transform(cube)
    assert taken.chunks is not None
    assert taken["wavelength"].values.tolist() == [430.25, 400.0, 412.5]
    assert taken.identical(cube.sel(wavelength=[430.25, 400.0, 412.5]))


def test_transform__uses_the_stored_dimension_or_the_one_of_the_right_size() -> None:
    square = xr.DataArray(np.arange(16).reshape(4, 4), dims=("a", "b"))
    assert made(feature_dim="a").transform(square).identical(square.isel(a=[2, 0, 1]))
    assert made().transform(square.rename(a="feature")).sizes == {"feature": 3, "b": 4}
    assert made().transform(square.isel(a=[0, 1])).sizes == {"a": 2, "b": 3}
    with pytest.raises(ValueError, match=r"blue, red, green were not found .* a \(4\), b \(4\)"):
        made().transform(square)


def test_transform__accepts_features_as_variables_or_as_a_dimension() -> None:
    variables = xr.Dataset({name: ("t", VALUES[:, i]) for i, name in enumerate(NAMES)})
    taken = made().transform(variables.assign(crop=("t", np.arange(5))))
    assert isinstance(taken, xr.Dataset)
    assert list(taken.data_vars) == ["blue", "red", "green"]
    one = xr.Dataset({"x": (("t", "feature"), VALUES)}, coords={"feature": NAMES})
    np.testing.assert_array_equal(made().transform(one)["x"], CHOSEN)


def test_transform__names_missing_and_similar_features() -> None:
    frame = pd.DataFrame(VALUES, columns=["red", "green", "blau", "flat"])
    with pytest.raises(ValueError, match=r"features blue are not among the 4 columns; .*: blau"):
        made().transform(frame)
    array = xr.DataArray(VALUES, dims=("t", "b"), coords={"b": list(frame.columns)})
    with pytest.raises(ValueError, match="features blue are not among the 4 coordinates of 'b'"):
        made(feature_dim="b").transform(array)
    with pytest.raises(ValueError, match="blue, red, green were not found in the variables blau"):
        made().transform(xr.Dataset({"blau": ("t", [1])}))


def test_transform__names_only_missing_features() -> None:
    some = xr.Dataset({name: ("t", [1.0]) for name in ("red", "green", "blau")})
    with pytest.raises(ValueError, match="features blue are not among the 3 variables; .*: blau"):
        made().transform(some)
    array = xr.DataArray(VALUES[:, :3], dims=("t", "b"), coords={"b": ["red", "green", "blau"]})
    for data in (array, array.to_dataset(name="x")):
        with pytest.raises(
            ValueError, match="features blue are not among the 3 coordinates of 'b'"
        ):
            made().transform(data)


def test_transform__error_has_both_sizes() -> None:
    with pytest.raises(ValueError, match="5 columns were given, 4 were expected"):
        made().transform(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="1 dimensions was given, 2 were expected"):
        made().transform(np.zeros(4))
    with pytest.raises(ValueError, match="6 entries along 'feature' were given, 4 were expected"):
        made().transform(xr.DataArray(np.zeros((3, 6)), dims=("t", "feature")))


@pytest.mark.parametrize("data", [VALUES.tolist(), "data.zarr", None])
def test_transform__error_lists_accepted_types(data: object) -> None:
    with pytest.raises(
        TypeError, match=f"a {type(data).__name__} was given; an array, a dict, a data"
    ):
        made().transform(data)


@given(st.data())
def test_transform__is_the_same_for_every_kind_of_data(data: st.DataObject) -> None:
    n_features = data.draw(st.integers(1, 8))
    order = data.draw(st.permutations(range(n_features)))
    order = order[: data.draw(st.integers(0, n_features))]
    subsets = data.draw(st.lists(st.integers(0, 3), min_size=len(order), max_size=len(order)))
    names = [f"f{position}" for position in range(n_features)]
    picks = [
        Pick(index, subset=subset, score=0, gain=0, information=0, margin=0)
        for index, subset in zip(order, subsets, strict=True)
    ]
    result = Selection.from_picks(picks, names=names, relevance=np.zeros(n_features), attrs={})
    values = np.arange(3.0 * n_features).reshape(3, n_features)
    taken = result.transform(values)
    np.testing.assert_array_equal(taken, values[:, order])
    np.testing.assert_array_equal(result.transform(pd.DataFrame(values, columns=names)), taken)
    array = xr.DataArray(values, dims=("t", "feature"), coords={"feature": names})
    np.testing.assert_array_equal(result.transform(array), taken)
    assert sorted(name for names in result.subsets for name in names) == sorted(result.features)
    assert [subset[0] for subset in result.subsets] == sorted(
        (subset[0] for subset in result.subsets), key=result.features.index
    )
