"""`Comparison`, tested with hand-made selections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PatchCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch

from hofs_dask.results.comparison import AGREEMENT, COORDINATES, RESAMPLED, Comparison, load
from hofs_dask.results.comparison_figure import HALF_WIDTH, SHOWN_RANKS
from hofs_dask.results.datasets import Variable
from hofs_dask.results.saving.readwrite import read, write
from hofs_dask.results.selection import VARIABLES, Pick, Selection
from hofs_dask.results.style import ABSENT, COLOURS, LATER
from hofs_dask.results.text import WIDTH, shortened

NAMES = ["red", "green", "blue", "near", "far", "flat"]
KINDS = {
    "text": NAMES,
    "unicode": ["rouge", "vért", "λ 400", "", "d", "e"],
    "int": [10, 20, 30, 40, 50, 60],
    "float": [400.0, 412.5, 430.25, 1e3, 0.5, -1.0],
    "mixed": ["a", 1, 2.5, "1", 3, "b"],
}
ATTRS: dict[str, str | float] = {
    "target": "crop",
    "n_samples": 1000,
    "n_classes": 3,
    "label_entropy": 1.0986122886681098,
}
ORDERS = {"hofs": [2, 0, 1], "mim": [2, 3, 0], "jmi": [0, 2]}
RESAMPLES = {
    "hofs": [np.array([2, 0, 1])] * 4,
    "mim": [np.array(order) for order in ([2, 3, 0], [3, 2, 0], [2, 3, 1], [2, 0, 1])],
    "jmi": [np.array(order) for order in ([0, 2], [0], [0, 2], [0, 1])],
}


def chosen(
    label: str, order: list[int], names: list[Any] = NAMES, n_subsets: int = 2, **attrs: str | float
) -> Selection:
    """Return a selection of these features in this order, with different values at each rank."""
    picks = [
        Pick(
            index,
            subset=rank % n_subsets,
            score=0.5 + 0.1 * rank,
            gain=0.5 / (rank + 1),
            information=0.5 + 0.2 * rank,
            margin=0.01 * rank if rank else np.nan,
            runner_up=order[rank + 1] if rank + 1 < len(order) else -1,
            epoch=rank // 2,
            forced=rank == 0,
        )
        for rank, index in enumerate(order)
    ]
    return Selection.from_picks(
        picks,
        names=names,
        relevance=np.arange(len(names)) / 10,
        usable=np.arange(len(names)) < 5,
        attrs=ATTRS | {"method": label, "options": json.dumps({"beta": len(label)})} | attrs,
    )


def originals(names: list[Any] = NAMES) -> dict[str, Selection]:
    return {label: chosen(label, order, names) for label, order in ORDERS.items()}


def made(names: list[Any] = NAMES, *, resampled: bool = True, **attrs: str | float) -> Comparison:
    """Return a comparison of three methods, of which the last ended early."""
    return Comparison.from_selections(
        originals(names),
        resamples=RESAMPLES if resampled else None,
        attrs={"n_scans": 41, "n_reductions": 182} | attrs,
    )


def many(
    n_methods: int,
    n_ranks: int,
    *,
    prefix: str = "band ",
    n_subsets: int = 4,
    resampled: bool = False,
) -> Comparison:
    """Return a comparison of methods that choose similar features in random order."""
    rng = np.random.default_rng(0)
    names = [f"{prefix}{position}" for position in range(2 * n_ranks + 1)]

    def order() -> list[int]:
        near = np.arange(len(names)) + rng.normal(0, 3, len(names))
        return [int(index) for index in np.argsort(near)[:n_ranks]]

    labels = [f"method {number}" for number in range(n_methods)]
    return Comparison.from_selections(
        {label: chosen(label, order(), names, n_subsets) for label in labels},
        resamples={label: [np.array(order()) for _ in range(3)] for label in labels}
        if resampled
        else None,
        attrs={"n_scans": 41, "n_reductions": 182},
    )


@pytest.fixture
def _closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


# Content


def test_comparison__is_indexed_by_label() -> None:
    result = made()
    assert list(result) == ["hofs", "mim", "jmi"]
    assert len(result) == 3
    assert "mim" in result
    assert "cmim" not in result
    assert result.features == {
        "hofs": ["blue", "red", "green"],
        "mim": ["blue", "near", "red"],
        "jmi": ["red", "blue"],
    }
    assert result["jmi"].features == ["red", "blue"]
    with pytest.raises(KeyError, match=r"unknown method 'min'; valid: 'mim'"):
        result["min"]


@pytest.mark.parametrize("names", KINDS.values(), ids=KINDS)
def test_selections__equal_those_that_were_compared(names: list[Any]) -> None:
    given = originals(names)
    assert made(names).selections == given
    for label, found in made(names).selections.items():
        assert repr(found) == repr(given[label])
        for name, variable in given[label].to_dataset().variables.items():
            kind = found.to_dataset()[name].dtype.kind
            assert kind == variable.dtype.kind, name
        attrs = given[label].to_dataset().attrs
        assert {name: type(attrs[name]) for name in attrs} == {
            name: type(value) for name, value in found.to_dataset().attrs.items()
        }


def test_selections__keep_their_attributes() -> None:
    bare = chosen("b", [1]).to_dataset()
    bare.attrs = {"format": bare.attrs["format"]}
    given = {"a": chosen("hofs", [0], share=0.25, n_samples=999), "b": Selection(bare)}
    result = Comparison.from_selections(given, attrs={"n_samples": 5, "share": 1})
    assert result.selections == given
    assert result.to_dataset().attrs["n_samples"] == 5


def test_to_dataset__has_every_variable_with_name_and_units() -> None:
    data = made().to_dataset()
    assert dict(data.sizes) == {"method": 3, "rank": 3, "feature": 6, "other": 3}
    assert set(data.data_vars) == {*VARIABLES, *AGREEMENT, *RESAMPLED}
    assert set(data.coords) == set(COORDINATES)
    for name, each in VARIABLES.items():
        assert data[name].dims == (("method", "rank") if each.dims == ("rank",) else each.dims)
        assert data[name].attrs == {"units": each.units, "long_name": each.long_name}
    for variable in data.variables.values():
        assert variable.attrs["long_name"]
        assert variable.attrs["units"] in ("nats", "1")
    assert data["overlap"].dims == ("rank", "method", "other")
    assert data["stability"].dims == ("method", "rank")
    assert data["frequency"].dims == ("method", "feature")
    assert data["method"].values.tolist() == data["other"].values.tolist() == list(ORDERS)
    assert data["relevance"].sel(feature="blue").item() == 0.2
    assert set(made(resampled=False).to_dataset().data_vars) == {*VARIABLES, *AGREEMENT}


def test_to_dataset__has_shared_attributes_and_those_of_each_method() -> None:
    attrs = made().to_dataset().attrs
    expected = {
        "format": "hofs_dask comparison",
        "n_scans": 41,
        "n_reductions": 182,
        "n_resamples": 4,
    }
    assert (ATTRS | expected).items() <= attrs.items()
    assert "method" not in attrs
    assert json.loads(attrs["options"]) == {
        "hofs": {"beta": 4},
        "mim": {"beta": 3},
        "jmi": {"beta": 3},
    }
    assert json.loads(attrs["selections"])["mim"]["method"] == "mim"
    assert "n_resamples" not in made(resampled=False).to_dataset().attrs


def test_to_dataset__pads_a_method_that_ended_early() -> None:
    last = made().to_dataset().isel(method=2, rank=2)
    for name in ("index", "subset", "runner_up", "epoch"):
        assert last[name].item() == -1
    for name in ("score", "gain", "information", "margin"):
        assert np.isnan(last[name].item())
    assert last["selected"].item() == ""
    assert last["forced"].item() is False


@pytest.mark.parametrize(
    ("kind", "pad"), [("text", ""), ("int", np.nan), ("float", np.nan), ("mixed", "")]
)
def test_to_dataset__pads_names_of_any_type(kind: str, pad: object) -> None:
    selected = made(KINDS[kind]).to_dataset()["selected"].values
    assert selected[0].tolist() == [KINDS[kind][index] for index in ORDERS["hofs"]]
    np.testing.assert_equal(selected[2, 2], pad)


def test_to_dataset__keeps_integers_if_no_method_ended_early() -> None:
    given = {label: chosen(label, [1, 0], KINDS["int"]) for label in ("mim", "jmi")}
    data = Comparison.from_selections(given, attrs={}).to_dataset()
    assert data["selected"].dtype == np.int64


def test_to_dataset__is_a_copy() -> None:
    result = made()
    result.to_dataset()["score"][:] = 0
    assert result == made()


def test_from_selections__includes_all_variables_by_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes = {"long_name": "a further figure", "units": "nats"}
    given = {
        label: Selection(
            each.to_dataset().assign(further=("rank", np.arange(len(each)) + 0.5, notes))
        )
        for label, each in originals().items()
    }
    further = Variable(("rank",), "f", "nats", "a further figure")
    monkeypatch.setitem(VARIABLES, "further", further)
    result = Comparison.from_selections(given, attrs={})
    np.testing.assert_equal(result.to_dataset()["further"].values[2], [0.5, 1.5, np.nan])
    assert result.selections == given


def test_comparison__equals_only_a_comparison_with_the_same_content() -> None:
    assert made() == made()
    assert made() != made(n_scans=40)
    assert made() != made(resampled=False)
    assert made() != made(["rouge", *NAMES[1:]])
    assert made() != made()["mim"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(made())


def test_comparison__refuses_another_dataset() -> None:
    with pytest.raises(ValueError, match=r"format=None and lacks \['selected'"):
        Comparison(xr.Dataset())
    with pytest.raises(ValueError, match="format='hofs_dask selection' and lacks"):
        Comparison(made()["mim"].to_dataset())


# Agreement


def test_overlap__is_the_jaccard_index_of_the_first_picks() -> None:
    overlap = made().to_dataset()["overlap"].values
    # {2} {2} {0}; {2,0} {2,3} {0,2}; {2,0,1} {2,3,0} {0,2}
    np.testing.assert_allclose(overlap[0], [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(overlap[1], [[1, 1 / 3, 1], [1 / 3, 1, 1 / 3], [1, 1 / 3, 1]])
    np.testing.assert_allclose(
        overlap[2], [[1, 1 / 2, 2 / 3], [1 / 2, 1, 2 / 3], [2 / 3, 2 / 3, 1]]
    )


def test_stability__is_the_mean_over_pairs_of_resamples() -> None:
    data = made().to_dataset()
    stability = data["stability"].values
    np.testing.assert_allclose(stability[0], 1)
    # of mim {2} {3} {2} {2}; {2,3} {2,3} {2,3} {2,0}; {2,3,0} {2,3,0} {2,3,1} {2,0,1}
    np.testing.assert_allclose(stability[1], [3 / 6, (3 + 3 * (1 / 3)) / 6, (1 + 5 * (1 / 2)) / 6])
    # of jmi {0} {0} {0} {0}; {0,2} {0} {0,2} {0,1}: the second resample ended early
    np.testing.assert_allclose(stability[2], [1, *[(1 + 3 * (1 / 2) + 2 * (1 / 3)) / 6] * 2])
    frequency = data["frequency"].sel({"method": "mim"})
    assert frequency.sel(feature=["red", "green", "blue", "near", "far"]).values.tolist() == [
        0.75,
        0.5,
        1.0,
        0.75,
        0.0,
    ]


def test_stability__is_nan_for_one_resample() -> None:
    resamples = {label: picks[:1] for label, picks in RESAMPLES.items()}
    result = Comparison.from_selections(originals(), resamples=resamples, attrs={})
    assert result.to_dataset()["stability"].isnull().all()
    assert result.to_dataset()["frequency"].values[0].tolist() == [1, 1, 1, 0, 0, 0]
    assert repr(result).splitlines()[-1].split() == ["stability", "-", "-", "-"]


ORDER = st.lists(st.integers(0, 7), unique=True, max_size=6)


@given(st.lists(ORDER, min_size=1, max_size=4), st.lists(ORDER, min_size=2, max_size=5))
def test_agreement__equals_that_of_python_sets(
    orders: list[list[int]], resamples: list[list[int]]
) -> None:
    def jaccard(first: list[int], second: list[int], rank: int) -> float:
        one, other = set(first[:rank]), set(second[:rank])
        return len(one & other) / len(one | other) if one | other else 1.0

    names = list("abcdefgh")
    given = {f"m{number}": chosen("m", order, names) for number, order in enumerate(orders)}
    drawn = {label: [np.array(order, dtype=int) for order in resamples] for label in given}
    result = Comparison.from_selections(given, resamples=drawn, attrs={})
    data = result.to_dataset()
    assert data.sizes["rank"] == max(map(len, orders))
    for rank in data["rank"].values.tolist():
        for row, column in np.ndindex(len(orders), len(orders)):
            expected = jaccard(orders[row], orders[column], rank)
            assert data["overlap"].values[rank - 1, row, column] == pytest.approx(expected)
        pairs = [jaccard(*pair, rank) for pair in combinations(resamples, 2)]
        assert data["stability"].values[0, rank - 1] == pytest.approx(np.mean(pairs))
    assert result.selections == given
    assert repr(result)
    assert result._repr_html_()


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"selections": {}}, ValueError, "no selection was given, one or more"),
        ({"selections": {"mim": [1, 2]}}, TypeError, "the value of 'mim' is a list; a str label"),
        ({"selections": {1: chosen("mim", [0])}}, TypeError, "the value of 1 is a Selection"),
        (
            {"selections": {"a": chosen("a", [0]), "b": chosen("b", [0], [*NAMES[1:], "x"])}},
            ValueError,
            "'b' and 'a' differ in 'feature'; selections of the same data",
        ),
        (
            {"selections": {"a": chosen("a", [0], options='{"x":1}')}},
            ValueError,
            "the options of 'a' are .* the output of json.dumps",
        ),
        ({"attrs": {"x": None}}, TypeError, "x=None is a NoneType"),
        (
            {"resamples": {"mim": []}},
            ValueError,
            r"resamples were given for \['mim'\], but expected for \['hofs'",
        ),
        (
            {"resamples": RESAMPLES | {"jmi": RESAMPLES["jmi"][:3]}},
            ValueError,
            "numbers of resamples are {'hofs': 4, 'mim': 4, 'jmi': 3}; the same number",
        ),
        (
            {"resamples": dict.fromkeys(ORDERS, ())},
            ValueError,
            "numbers of resamples are .* give resamples=None for none",
        ),
        (
            {"resamples": {label: [np.array([6])] for label in ORDERS}},
            ValueError,
            "pick 6 is not a position among 6 features",
        ),
        (
            {"resamples": {label: [np.array([1, 1])] for label in ORDERS}},
            ValueError,
            "a feature was picked twice",
        ),
    ],
)
def test_from_selections__explains_errors(
    changed: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Comparison.from_selections(**({"selections": originals(), "attrs": {}} | changed))


def test_from_selections__refuses_other_relevances() -> None:
    data = chosen("b", [0]).to_dataset()
    data["relevance"][0] = 9.0
    with pytest.raises(ValueError, match="'b' and 'a' differ in 'relevance'"):
        Comparison.from_selections({"a": chosen("a", [0]), "b": Selection(data)}, attrs={})


# Files


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
@pytest.mark.parametrize("names", KINDS.values(), ids=KINDS)
def test_save__loaded_result_is_equal(tmp_path: Path, suffix: str, names: list[Any]) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5py")
    result = made(names)
    result.save(tmp_path / f"result{suffix}")
    back = load(tmp_path / f"result{suffix}")
    assert isinstance(back, Comparison)
    assert back == result
    assert back.features == result.features
    assert back.selections == originals(names)
    assert repr(back) == repr(result)
    assert {name: type(value) for name, value in back.to_dataset().attrs.items()} == {
        name: type(value) for name, value in result.to_dataset().attrs.items()
    }
    for name, variable in result.to_dataset().variables.items():
        assert back.to_dataset()[name].dtype.kind == variable.dtype.kind, name


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_save__writes_an_empty_comparison(tmp_path: Path, suffix: str) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5py")
    none = {label: chosen(label, []) for label in ("mim", "jmi")}
    result = Comparison.from_selections(none, attrs={})
    result.save(tmp_path / f"none{suffix}")
    assert load(tmp_path / f"none{suffix}") == result
    assert result.selections == none
    assert repr(result).splitlines()[-1].split() == ["rank", "mim", "jmi"]


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_save__replaces_only_an_earlier_comparison(tmp_path: Path, suffix: str) -> None:
    if suffix == ".nc":
        pytest.importorskip("h5py")
    path, other = tmp_path / f"comparison{suffix}", tmp_path / f"selection{suffix}"
    many(4, 9).save(path)
    made().save(path)
    made()["mim"].save(other)
    with pytest.raises(
        FileExistsError, match="and is not a saved comparison, or is a damaged one: give another"
    ):
        made().save(other)
    with pytest.raises(FileExistsError, match="and is not a saved selection, or is a damaged"):
        made()["mim"].save(path)
    assert load(path) == made()
    assert load(other) == made()["mim"]


def test_save__refuses_other_suffixes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends with '\.csv'; .*to_dataframe\(\)"):
        made().save(tmp_path / "r.csv")


def test_to_zarr__can_be_read_by_xarray(tmp_path: Path) -> None:
    made().to_zarr(tmp_path / "result.zarr")
    data = xr.open_zarr(tmp_path / "result.zarr", consolidated=False)
    assert data["selected"].sel({"method": "mim"}).values.tolist() == ["blue", "near", "red"]
    assert float(data["overlap"].sel({"method": "mim", "other": "hofs", "rank": 3})) == 0.5


def test_load__explains_missing_and_other_files(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError,
        match=r"no saved selection or comparison or interactions or matrix at .*none\.zarr",
    ):
        load(tmp_path / "none.zarr")
    (tmp_path / "text.zarr").write_text("text")
    words = (
        r"text.zarr is not a saved selection or comparison or interactions or matrix: give a path"
    )
    with pytest.raises(ValueError, match=words):
        load(tmp_path / "text.zarr")
    made().save(tmp_path / "comparison.zarr")
    with pytest.raises(ValueError, match="is not a saved selection: .*'hofs_dask comparison'"):
        read(tmp_path / "comparison.zarr", {Selection.FORMAT: Selection})


def test_load__names_an_incomplete_file(tmp_path: Path) -> None:
    data = made().to_dataset().drop_vars("score")
    write(data, tmp_path / "old.zarr")
    with pytest.raises(ValueError, match=r"old.zarr is not a saved .* lacks \['score'\]"):
        load(tmp_path / "old.zarr")


# Text


def test_repr__shows_ranks_overlap_and_stability() -> None:
    assert repr(made()).splitlines() == [
        "up to 3 of 6 features selected by each of 3 methods; 4 by at least one, 2 by all",
        "1000 samples, 3 classes of crop, 4 resamples",
        "1 feature is constant or all missing: flat",
        "",
        "rank  hofs   mim   jmi",
        "   1  blue   blue  red",
        "   2  red    near  blue",
        "   3  green  red   -",
        "",
        "overlap of the first 3 picks (Jaccard index); stability: over 4 resamples",
        "           hofs   mim   jmi",
        "mim        0.50",
        "jmi        0.67  0.67",
        "stability  1.00  0.58  0.53",
        "",
        "41 scans over the data for 182 reductions",
    ]


def test_repr__omits_unknown_facts() -> None:
    plain = Comparison.from_selections(originals(), attrs={})
    assert repr(plain).splitlines()[-4:] == [
        "overlap of the first 3 picks (Jaccard index)",
        "     hofs   mim",
        "mim  0.50",
        "jmi  0.67  0.67",
    ]
    alone = Comparison.from_selections({"mim": chosen("mim", [2, 3])}, attrs={})
    assert repr(alone).splitlines()[0] == "2 of 6 features selected by mim"
    assert repr(alone).splitlines()[-1] == "   2  near"


def test_repr__uses_the_singular() -> None:
    assert "1 scan over the data for 1 reduction" in repr(made(n_scans=1, n_reductions=1))


@pytest.mark.parametrize("prefix", ["x", "band ", "standard deviation of the radius "])
@pytest.mark.parametrize(("n_methods", "n_ranks"), [(1, 1), (8, 30), (30, 5), (3, 100)])
def test_repr__fits_one_screen(prefix: str, n_methods: int, n_ranks: int) -> None:
    text = repr(many(n_methods, n_ranks, prefix=prefix, resampled=True))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert len(text.splitlines()) <= 42


def test_repr__counts_omitted_items() -> None:
    assert "... and 10 more ranks: .to_dataframe()" in repr(many(3, 30))
    text = repr(many(30, 25))
    assert re.search(r"\.\.\. and 5 more ranks and \d+ more methods: \.to_dataframe\(\)", text)
    assert "..." not in repr(many(3, 5)).replace("..", "")


def test_repr__shortens_a_name_in_the_same_way_in_every_column() -> None:
    names = [f"{what} of the {part}" for what in ("mean", "largest") for part in ("rim", "radius")]
    orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]]
    wide = {f"method {i:02}": chosen("m", orders[i % 3], names) for i in range(9)}
    result = Comparison.from_selections(wide, attrs={})
    rows = [line.split("  ") for line in repr(result).splitlines() if re.match(r" +\d  ", line)]
    cells = {cell.strip() for row in rows for cell in row[2:] if cell.strip()}
    assert len(cells) == 4


def test_to_dataframe__has_one_column_per_method() -> None:
    table = made().to_dataframe()
    assert table.index.tolist() == [1, 2, 3]
    assert table.index.name == "rank"
    assert table["hofs"].tolist() == ["blue", "red", "green"]
    assert table["jmi"].tolist() == ["red", "blue", None]
    assert made(KINDS["int"]).to_dataframe()["jmi"].tolist() == [10, 30, None]


def test_shortened__keeps_names_distinct_if_possible() -> None:
    assert shortened(["abc", "abd"], 3) == {"abc": "abc", "abd": "abd"}
    same_start = [f"reflectance {number}" for number in range(100, 120)]
    same_end = [f"{number} nanometres" for number in range(100, 120)]
    for names in (same_start, same_end):
        short = shortened(names, 8)
        assert len(set(short.values())) == len(names)
        assert max(map(len, short.values())) == 8


def test_repr_html__has_one_row_per_rank_up_to_a_limit() -> None:
    page = made()._repr_html_()
    assert page.count("<tr") == (1 + 3) + (1 + 3)
    assert "41 scans over the data for 182 reductions" in page
    assert page.count("rgba(0,114,178,") == 3 + 3
    assert page.count(f"solid {COLOURS[0]}") == 4  # blue three times, green
    assert page.count(f"solid {ABSENT}") == 1
    page = many(3, 70)._repr_html_()
    assert page.count("<tr") == (1 + 50) + (1 + 2)
    assert "... and 20 more ranks" in page


def test_repr_html__escapes_names() -> None:
    names = ["<b>", "a&b", "<script>", "d", "e", "f"]
    given = {"<i>": chosen("<i>", [0, 1, 2], names), "2": chosen("2", [1], names)}
    page = Comparison.from_selections(given, attrs={"target": "<u>"})._repr_html_()
    for raw in ("<b>", "<script>", "<i>", "<u>", "a&b"):
        assert raw not in page
    assert "&lt;script&gt;" in page


# Figure


def written(ax: Any) -> dict[tuple[float, float], Any]:
    return {text.get_position(): text for text in ax.texts}


@pytest.mark.usefixtures("_closed_figures")
def test_plot__writes_every_name_at_its_rank() -> None:
    ax = made(resampled=False).plot()
    texts = {place: text.get_text() for place, text in written(ax).items()}
    assert texts == {
        (method, rank + 1): NAMES[index]
        for method, order in enumerate(ORDERS.values())
        for rank, index in enumerate(order)
    }
    assert [label.get_text() for label in ax.get_xticklabels()] == list(ORDERS)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2", "3"]
    bottom, top = ax.get_ylim()
    assert bottom > top
    bold = {text.get_text() for text in ax.texts if text.get_weight() == "bold"}
    assert bold == {"blue", "red"}


@pytest.mark.usefixtures("_closed_figures")
def test_plot__connects_a_feature_in_neighbouring_methods() -> None:
    ax = made(resampled=False).plot()
    cells, links = ax.collections
    assert isinstance(cells, PatchCollection)
    assert isinstance(links, PathCollection)
    # blue, green: subset 0 of hofs; red: subset 1; near: not chosen by it
    edges = [to_hex(colour).upper() for colour in cells.get_edgecolor()]
    expected = [0, 1, 0, 0, None, 1, 1, 0]
    assert edges == [ABSENT if number is None else COLOURS[number] for number in expected]
    joined = {
        (to_hex(colour).upper(), *path.vertices[0], *path.vertices[-1])
        for path, colour in zip(links.get_paths(), links.get_edgecolor(), strict=True)
        if to_hex(colour) != "#ffffff"
    }
    assert {(colour, round(y), round(end)) for colour, _, y, _, end in joined} == {
        (COLOURS[0], 1, 1),  # blue in hofs and mim
        (COLOURS[1], 2, 3),  # red in hofs and mim
        (COLOURS[0], 1, 2),  # blue in mim and jmi
        (COLOURS[1], 3, 1),  # red in mim and jmi
    }
    for _, x, _, end, _ in joined:
        assert round(end - x, 6) < 1
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["0", "1", "not chosen by hofs"]


@pytest.mark.usefixtures("_closed_figures")
def test_plot__shows_the_stability_below_each_method() -> None:
    ax = made().plot()
    steps = [patch for patch in ax.patches if isinstance(patch, StepPatch)]
    floor, ceiling = (
        place
        for place, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        if place > 3 and label.get_text() in "01"
    )
    floor, ceiling = max(floor, ceiling), min(floor, ceiling)
    stability = made().to_dataset()["stability"].values
    for patch, values in zip(steps, stability, strict=True):
        heights = (floor - patch.get_data().values) / (floor - ceiling)
        np.testing.assert_allclose(heights, values)
    assert [text.get_text() for text in ax.texts[-3:]] == ["1.00", "0.58", "0.53"]


@pytest.mark.usefixtures("_closed_figures")
def test_plot__reports_omitted_ranks_and_shared_colours() -> None:
    ax = many(2, SHOWN_RANKS + 5, n_subsets=12).plot()
    assert ax.get_title(loc="left").endswith(f"the first {SHOWN_RANKS} of {SHOWN_RANKS + 5}")
    assert len(ax.texts) == 2 * SHOWN_RANKS
    assert LATER in [to_hex(each.get_facecolor()).upper() for each in ax.get_legend().get_patches()]
    assert "later" in [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.usefixtures("_closed_figures")
@pytest.mark.parametrize(
    ("n_methods", "n_ranks", "size", "resampled"),
    [
        (1, 0, None, False),
        (1, 0, None, True),
        (1, 1, (6.4, 4.8), True),
        (8, 30, None, False),
        (8, 30, None, True),
        (8, 30, (6.4, 4.8), True),
    ],
)
def test_plot__fits_the_figure_and_names_fit_their_cells(
    n_methods: int, n_ranks: int, size: tuple[float, float] | None, resampled: bool
) -> None:
    ax = None if size is None else plt.subplots(figsize=size)[1]
    result = many(n_methods, n_ranks, prefix="Wide NAME of band ", resampled=resampled)
    ax = result.plot(ax)
    figure = ax.figure
    figure.draw_without_rendering()
    drawn, page = ax.get_tightbbox(), figure.bbox
    assert page.x0 <= drawn.x0 <= drawn.x1 <= page.x1
    assert page.y0 <= drawn.y0 <= drawn.y1 <= page.y1
    unit = ax.transData.transform([[0, 0], [1, 1]])
    width, height = abs(unit[1] - unit[0])
    for text in ax.texts:
        extent = text.get_window_extent()
        assert extent.width <= 2 * HALF_WIDTH * width
        assert extent.height <= 1.1 * height


@pytest.mark.usefixtures("_closed_figures")
def test_plot__uses_the_given_axes() -> None:
    _, ax = plt.subplots()
    assert made().plot(ax) is ax
    assert len(plt.get_fignums()) == 1
