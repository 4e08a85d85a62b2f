"""The HTML report of a result: structure, escaping, size and files."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from dask.utils import format_bytes

import hofs_dask as hd
from hofs_dask.cli import main
from hofs_dask.methods.interactions import Tuples
from hofs_dask.results.comparison import Comparison
from hofs_dask.results.report.content import Curve, Matrix, Picture, Report, Whole
from hofs_dask.results.report.drawings.canvas import ticks
from hofs_dask.results.report.markup import Markup, element
from hofs_dask.results.report.page import render_page
from hofs_dask.results.report.selection import report_of_selection
from hofs_dask.results.selection import Pick, Selection
from hofs_dask.results.style import COLOURS, DARK_COLOURS, DARK_PAGE
from hofs_dask.search.rounds import Cost

#: Names that would run, load, hide or reorder something if they became markup.
HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)> 'quoted'",
    "</svg></style></title><b>bold</b>",
    "javascript:alert(1)&amp;&lt;i&gt;",
    "line one\nline two\ttab\x00\x1b[2J",
    "عربي",
    "\u202egnirts",
    "long" * 5000,
    "ordinary",
]
VOID = {"meta"}


class Page(HTMLParser):
    """The elements of a page, and what a reader sees as text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def tags(self) -> Counter[str]:
        return Counter(tag for tag, _ in self.elements)

    def values(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.elements if name in attrs]


def selection(names: list[Any], n_picks: int, n_subsets: int = 3, **attrs: Any) -> Selection:
    """Return a selection with a restart in the middle, and one runner-up that is never chosen."""
    half = max(n_picks // 2, 1)
    picks = [
        Pick(
            rank,
            subset=rank % n_subsets,
            score=0.2 / (rank + 1),
            gain=0.05 / (rank % half + 1),
            information=0.05 * sum(1 / (k + 1) for k in range(rank % half + 1)),
            margin=0.01,
            runner_up=len(names) - 1,
            epoch=rank // half,
        )
        for rank in range(n_picks)
    ]
    about = {"method": "hofs", "target": "crop", "label_entropy": 0.69, "n_samples": 1000}
    relevance = np.linspace(0.3, 0.0, len(names))
    return Selection.from_picks(picks, names=names, relevance=relevance, attrs=about | attrs)


def comparison(names: list[Any], n_picks: int) -> Comparison:
    methods = {label: selection(names, n_picks, method=label) for label in ("mim", "<u>jmi</u>")}
    chosen = [np.arange(n_picks), np.arange(n_picks)[::-1]]
    return Comparison.from_selections(
        methods, attrs={"n_scans": 3, "n_reductions": 5}, resamples=dict.fromkeys(methods, chosen)
    )


def interactions(names: list[Any]) -> hd.Interactions:
    columns = np.array([[0, 1], [1, 2], [0, 3]])
    found = Tuples(
        columns=columns,
        synergy=np.array([0.3, 0.2, 0.1]),
        information=np.array([0.4, 0.3, 0.2]),
        added=np.array([0.3, 0.2, 0.1]),
        df=np.full(3, 4),
        p_value=np.array([1e-9, 1e-3, 0.5]),
        p_adjusted=np.array([1e-8, 1e-2, 1.0]),
        n_tuples=10,
        n_codes=3,
    )
    return hd.Interactions.from_tuples(
        found,
        names=names,
        relevance=np.linspace(0.3, 0, len(names)),
        usable=np.ones(len(names), bool),
        attrs={"n_samples": 100, "n_classes": 2, "target": "<b>crop</b>"},
    )


def shown(result: Any, folder: Path) -> tuple[str, Page]:
    result.to_html(folder / "page.html")
    text = (folder / "page.html").read_text(encoding="utf-8")
    return text, Page(text)


RESULTS = {
    "selection": lambda: selection(HOSTILE, 9, target="<b>crop</b>"),
    "comparison": lambda: comparison(HOSTILE, 6),
    "interactions": lambda: interactions(HOSTILE),
}


# Safety


@pytest.mark.parametrize("kind", RESULTS)
def test_page__hostile_names_stay_text(kind: str, tmp_path: Path) -> None:
    text, page = shown(RESULTS[kind](), tmp_path)
    assert page.tags["script"] == page.tags["style"] == page.tags["title"] == 1
    assert not page.tags.keys() & {"img", "b", "i", "u", "iframe", "link", "object", "base"}
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    assert set(page.values("href")) <= {f"#{name}" for name in page.values("id")}
    assert not {"src", "style", "action", "srcset"} & {n for _, a in page.elements for n in a}
    read = " ".join(page.texts)
    assert "<script>alert(1)</script>" in read
    assert not re.search("[\x00-\x08\x0e-\x1f\u202e]", text)
    assert "long" * 100 not in text


@pytest.mark.parametrize("kind", RESULTS)
def test_page__policy_allows_only_its_own_style_and_script(kind: str, tmp_path: Path) -> None:
    text, page = shown(RESULTS[kind](), tmp_path)
    (policy,) = (
        attrs["content"]
        for tag, attrs in page.elements
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag in ("style", "script"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert "http://" not in text
    assert "https://" not in text


def test_element__escapes_text_and_attributes() -> None:
    made = element("a", {"title": "\"'<>&"}, "<&", Markup("<b></b>"))
    assert made == '<a title="&quot;&#x27;&lt;&gt;&amp;">&lt;&amp;<b></b></a>'


# Content


def drawings(report: Report) -> list[Any]:
    blocks = [each for section in report.sections for each in section.content]
    return [each.drawing for each in blocks if isinstance(each, Picture)]


def test_selection__has_all_sections() -> None:
    report = report_of_selection(selection(list("abcdefgh"), 6).to_dataset())
    assert [each.name for each in report.sections] == [
        "subsets",
        "information",
        "margins",
        "relevance",
        "data",
        "made",
    ]
    start = "6 of 8 features in 3 subsets; the first 3 explain 0.092 of 0.690 nats of crop"
    assert report.headline == start
    whole, curve, *_ = drawings(report)
    assert isinstance(whole, Whole)
    assert sum(part.nats for part in whole.parts) == pytest.approx(0.05 * (1 + 1 / 2 + 1 / 3))
    assert isinstance(curve, Curve)
    assert [step.rank for step in curve.steps if step.starts_epoch] == [4]


def test_selection__a_sum_is_not_called_a_share() -> None:
    for attrs in ({"options": '{"criterion": "sum"}'}, {"label_entropy": 0.01}):
        report = report_of_selection(selection(list("abcd"), 2, **attrs).to_dataset())
        assert report.headline == "2 of 4 features in 2 subsets, selected by hofs"
        assert not any(isinstance(each, Whole) for each in drawings(report))
        (_, cards) = report.sections[0].content
        assert [card.added for card in cards.groups] == ["1 feature", "1 feature"]


def test_headline__is_that_of_the_features_with_the_largest_information(tmp_path: Path) -> None:
    picks = [
        Pick(0, 0, 0.3, 0.3, 0.3, 0.1),
        Pick(1, 1, 0.2, 0.2, 0.5, 0.1, p_value=0.0),
        Pick(2, 2, -0.01, -0.01, 0.49, 0.1),
        Pick(3, 3, -0.02, -0.02, 0.47, 0.1),
    ]
    attrs = {"method": "hofs", "label_entropy": 0.8, "target": "crop"}
    result = Selection.from_picks(picks, names=list("abcd"), relevance=[0.1] * 4, attrs=attrs)
    report = report_of_selection(result.to_dataset())
    assert report.headline == (
        "4 of 4 features in 4 subsets; the first 2 explain 0.500 of 0.800 nats of crop"
    )
    whole, *_ = drawings(report)
    assert isinstance(whole, Whole)
    assert [part.nats for part in whole.parts] == [0.3, 0.2]
    read = " ".join(shown(result, tmp_path)[1].texts)
    assert "How much of crop the first 2 features explain" in read
    assert "The 2 features after that do not increase the estimate." in read
    assert "<1e-300" in read


def test_margins__a_feature_chosen_with_the_next_is_no_close_choice(tmp_path: Path) -> None:
    for together, count in ((0, "1 choice was"), (1, "0 choices were")):
        picks = [
            Pick(0, 0, 0.0, 0.0, 0.0, margin=-0.0002, runner_up=3, together=together),
            Pick(1, 0, 0.6, 0.6, 0.6, margin=0.3, runner_up=3),
        ]
        result = Selection.from_picks(picks, names=list("abcd"), relevance=[0.0] * 4, attrs={})
        read = " ".join(shown(result, tmp_path)[1].texts)
        assert f"{count} close" in read
        assert ("the runner-up, which does not replace it" in read) == bool(together)


def test_selection__restarts_are_explained_where_they_occur(tmp_path: Path) -> None:
    _, page = shown(selection(list("abcdefgh"), 6), tmp_path)
    read = " ".join(page.texts)
    assert "restart: information counts from zero again" in read
    words = r"Restart before rank 4: no remaining feature added enough .* zero again"
    assert re.search(words, read)
    _, page = shown(selection(list("abcdefgh"), 1), tmp_path)
    assert "estart" not in " ".join(page.texts)


@pytest.mark.parametrize(("n", "n_subsets"), [(0, 1), (1, 1), (5, 2), (60, 30), (250, 120)])
def test_selection__any_number_of_features(n: int, n_subsets: int, tmp_path: Path) -> None:
    names = [f"feature {k} of a group" for k in range(260)]
    text, page = shown(selection(names, n, n_subsets), tmp_path)
    assert len(text) < 2_000_000
    read = " ".join(page.texts)
    assert all(name in read for name in names[:n])
    assert "nan" not in re.sub("[a-z]*nan[a-z]+", "", " ".join(page.values("d")))
    for value in (v for name in ("x", "y", "cx", "cy", "width") for v in page.values(name)):
        assert re.fullmatch(r"-?[\d.]+|device-width.*", value)


def test_selection__of_very_many_features_stays_small(tmp_path: Path) -> None:
    result = selection(list(range(100_000)), 1500, 200)
    text, page = shown(result, tmp_path)
    assert len(text) < 2_000_000
    assert "99000 features with less relevance not shown." in " ".join(page.texts)
    assert "This page shows the first 600 ranks." in " ".join(page.texts)


def test_comparison__has_agreement_and_stability(tmp_path: Path) -> None:
    _, page = shown(comparison(list("abcdefgh"), 6), tmp_path)
    ids = page.values("id")
    assert {"ranks", "agreement", "stability", "relevance", "data", "made"} <= set(ids)
    read = " ".join(page.texts)
    assert "2 of 2" in read
    assert "for 5 reductions" in read


def test_selections__compare_parts(tmp_path: Path) -> None:
    from hofs_dask.results.selections import Selections

    several = {site: selection(list("abcd"), 2) for site in ("north", "<south>")}
    _, page = shown(Selections(several, "site"), tmp_path)
    read = " ".join(page.texts)
    assert "2 of 4 features selected from each of 2 parts by site" in read
    assert "<south>" in read


def test_pictures__have_a_description_and_a_table(tmp_path: Path) -> None:
    for make in RESULTS.values():
        _, page = shown(make(), tmp_path)
        pictures = [attrs for tag, attrs in page.elements if attrs.get("role") == "img"]
        assert pictures
        assert all(len(attrs["aria-label"] or "") > 40 for attrs in pictures)
        regions = [attrs for _, attrs in page.elements if attrs.get("role") == "region"]
        assert all(attrs["tabindex"] == "0" and attrs["aria-label"] for attrs in regions)
        assert page.tags["table"] >= 2
        assert page.tags["main"] == page.tags["nav"] == page.tags["h1"] == 1
        ids = page.values("id")
        assert len(set(ids)) == len(ids)


def test_affinity__is_a_matrix_sorted_by_subset(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    x = y[:, None] + rng.normal(size=(1000, 2))
    x = np.column_stack([x, x + 0.5 * rng.normal(size=(1000, 2)), np.ones(1000)])
    x[:100, 3] = np.nan
    result = hd.select(x, y, 4, method="jmi")
    affinity = result.to_dataset()["affinity"]
    assert affinity.dims == ("rank", "other_rank")
    values, index = affinity.values, result.indices
    shared = ~np.isnan(x).any(axis=1)
    expected = np.corrcoef(x[shared][:, index].T)
    np.fill_diagonal(expected, np.nan)
    np.testing.assert_allclose(values, expected, atol=0.1)  # codes instead of values
    report = report_of_selection(result.to_dataset())
    (matrix,) = (each for each in drawings(report) if isinstance(each, Matrix))
    assert sorted(block.subset for block in matrix.blocks) == [b.subset for b in matrix.blocks]
    order = [block.feature for block in matrix.blocks]
    position = {feature: rank for rank, feature in enumerate(index.tolist())}
    row, column = (position[feature] for feature in order[:2])
    assert matrix.values[0][1] == values[row, column]
    # the parts of a comparison, and the first ranks, have it too
    both = hd.compare(x, y, 4, methods=["jmi", "mim"])
    assert both["jmi"] == result
    assert result[:3] == hd.select(x, y, 3, method="jmi")
    assert result[:1] == hd.select(x, y, 1, method="jmi")
    for name in ("result.zarr", "result.nc"):
        both.save(tmp_path / name)
        assert hd.load(tmp_path / name)["jmi"] == result


def test_data__has_missing_values_and_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(["<no>", "yes"], [300, 100])
    x = rng.normal(size=(400, 3))
    x[:40, 1] = np.nan
    result = hd.select(x, y, 2)
    data = result.to_dataset()
    assert data["missing"].values.tolist() == [0.0, 0.1, 0.0]
    assert data.attrs["classes"] == '[["<no>", 300], ["yes", 100]]'
    _, page = shown(result, tmp_path)
    read = " ".join(page.texts)
    assert "x1 (10 %)" in read
    assert "classes of target <no> " not in read
    assert re.search(r"<no> +300 +75 %", read)


def test_ticks__are_round_and_inside() -> None:
    for low, high in ((0, 1e-7), (-0.03, 0.4), (0, 12345), (0, 0)):
        found = ticks(low, high)
        assert 1 <= len(found) <= 6
        assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in found)


def _luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours__have_contrast_on_a_dark_page() -> None:
    assert len(DARK_COLOURS) == len(COLOURS)
    page = _luminance(DARK_PAGE) + 0.05
    assert all((_luminance(colour) + 0.05) / page >= 3 for colour in DARK_COLOURS)


# Files


def test_to_html__replaces_a_report_and_nothing_else(tmp_path: Path) -> None:
    result, path = selection(list("abcd"), 2), tmp_path / "new" / "page.html"
    result.to_html(path)
    interactions(list("abcd")).to_html(path)
    assert "interactions" in path.read_text()
    path.write_text("<html>mine</html>")
    with pytest.raises(FileExistsError, match="is not a report"):
        result.to_html(path)
    assert path.read_text() == "<html>mine</html>"
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(FileExistsError, match="is a folder"):
        result.to_html(tmp_path / "folder.html")
    with pytest.raises(ValueError, match=r"'report.txt' does not end with .html; .* 'report.html'"):
        result.to_html("report.txt")


def test_to_html__is_private_and_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        selection(list("abcd"), 3).to_html(tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert (tmp_path / "a.html").stat().st_mode & 0o077 == 0


def test_shell__writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    selection(HOSTILE, 5).save("selection.zarr")
    done = run(main, ["report", "selection.zarr"])
    assert (done.exit_code, done.output) == (0, "Wrote selection.html\n")
    assert "&lt;script&gt;alert(1)" in Path("selection.html").read_text()
    done = run(main, ["report", "selection.zarr", "--output", "deep/page.html"])
    assert done.exit_code == 0
    assert Path("deep/page.html").exists()
    for arguments, words in (
        (["none.zarr"], "no such path: 'none.zarr'"),
        (["selection.zarr", "--output", "page.pdf"], "does not end with .html"),
        (["selection.zarr", "--output", "s3://bucket/page.html"], "is a URL"),
    ):
        done = run(main, ["report", *arguments])
        assert done.exit_code != 0
        assert words in done.output + str(done.exception)


def test_page__without_sections_is_complete() -> None:
    page = Page(render_page(Report("selection", "", (), (), ())))
    assert page.tags["main"] == 1


def test_made__states_the_cost_of_the_search(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 6))
    scans: list[hd.ScanEnded] = []
    result = hd.select(
        x,
        x[:, 0] > x[:, 1],
        3,
        method="jmi",
        callback=lambda event: scans.append(event) if isinstance(event, hd.ScanEnded) else None,
    )
    result.save(tmp_path / "result.zarr")
    loaded = hd.load(tmp_path / "result.zarr")
    for each in (result, loaded):
        _, page = shown(each, tmp_path)
        read = " ".join(page.texts)
        n_bytes = format_bytes(sum(scan.n_bytes for scan in scans))
        assert f"for {sum(scan.n_reductions for scan in scans)} reductions, over {n_bytes}" in read
        assert re.search(r"time of the search [\d.]+ m?s", read)
    # another run with the same result may have another cost
    cost = Cost(n_scans=1, n_reductions=1, n_bytes=1, seconds=1e6)
    assert result.with_cost(cost) == loaded == result
    assert not any("search" in name for name in result.to_dataset().attrs)
