"""Reports of real results, opened in a real browser and checked for accessibility."""

import os
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from playwright.sync_api import Browser, Page, sync_playwright

import hofs_dask as hd
from hofs_dask.synthetic import tree_model
from tests.deploy.servers import need

pytestmark = [pytest.mark.servers, pytest.mark.processes]

WIDTHS = [390, 820, 1440]
#: A name that would call a function if it became markup.
HOSTILE = "<img src=x onerror=hofs()><script>hofs()</script>"


def _tree() -> hd.Selection:
    """Nine features in three subsets."""
    return hd.select(tree_model(20_000), "y", 9)


def _table() -> hd.Selection:
    """30 of 60 features, with missing values and a constant feature."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 2000)
    x = rng.normal(size=(2000, 60))
    x[:, :20] += (y[:, None] == np.arange(20) % 3) * rng.random(20)
    x[:, 20:40] = x[:, :20] + rng.normal(size=(2000, 20))
    x[:100, 5], x[:, 59] = np.nan, 1.0
    names = [f"{which} of measure {k}" for k in range(20) for which in ("mean", "sd", "range")]
    return hd.select(pd.DataFrame(x, columns=names), pd.Series(y, name="kind"), 30)


def _bands() -> hd.Selection:
    """200 of 220 bands."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 600)
    base = np.cumsum(rng.normal(size=(600, 220)), axis=1) / 8 + 0.3 * y[:, None]
    cube = xr.DataArray(
        base,
        dims=("pixel", "wavelength"),
        coords={"wavelength": ("wavelength", 400 + 7.5 * np.arange(220), {"units": "nm"})},
    )
    target = xr.DataArray(y, dims="pixel", name="crop")
    return hd.select(cube, target, 200, method="jmi", feature_dim="wavelength")


def _nominal() -> hd.Selection:
    """Categories, missing ones and names that are not harmless."""
    rng = np.random.default_rng(2)
    k = rng.integers(0, 2, 2000)
    data = pd.DataFrame(
        {
            HOSTILE: np.array(list("abcd"))[(k + rng.integers(0, 3, 2000)) % 4],
            "</svg></style></title>": np.where(
                rng.random(2000) < 0.3, None, np.array(["u", "v"])[k]
            ),
            "two\nlines": rng.random(2000) < 0.3 + 0.3 * k,
            "عربي": np.array(list("xyz"))[rng.integers(0, 3, 2000)],
            "very long " * 30: rng.random(2000) + 0.3 * k,
        }
    )
    return hd.select(data, pd.Series(np.array(["<b>no</b>", "yes"])[k], name="<u>answer</u>"), 5)


def _compared() -> hd.Comparison:
    methods = ["hofs", "mim", "jmi", "mrmr", "vmi"]
    return hd.compare(tree_model(3000), "y", 6, methods=methods, n_resamples=3)


def _interactions() -> hd.Interactions:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, (3000, 20))
    y = (x[:, 3] == x[:, 7]) ^ (rng.random(3000) < 0.2)
    return hd.interactions(x, np.where(rng.random(3000) < 0.3, x[:, 11] > x[:, 12], y), top=30)


RESULTS = {
    "tree": _tree,
    "table": _table,
    "bands": _bands,
    "nominal": _nominal,
    "compared": _compared,
    "interactions": _interactions,
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of each result."""
    folder = tmp_path_factory.mktemp("reports")
    for name, make in RESULTS.items():
        make().to_html(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in RESULTS}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    need("chromium", "chromium")
    with sync_playwright() as driver:
        yield driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", RESULTS)
def test_report__opens_without_errors_requests_and_barriers(
    pages: dict[str, Path], browser: Browser, tmp_path: Path, name: str, scheme: str
) -> None:
    assert pages[name].stat().st_size < 2_000_000
    folder = Path(os.environ.get("HOFS_DASK_SCREENSHOTS", str(tmp_path)))
    for width in WIDTHS:
        shown, said, requests = _opened(browser, pages[name], width, scheme)
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        shown.screenshot(path=folder / f"report-{name}-{width}-{scheme}.png", full_page=True)
        if width == WIDTHS[1]:
            assert _violations(shown) == []
        assert said == []
        assert requests == [pages[name].as_uri()]
        shown.close()


def test_report__hover_sort_and_filter(pages: dict[str, Path], browser: Browser) -> None:
    shown, said, _ = _opened(browser, pages["table"], 1440, "light")
    tip = shown.locator("#tip")
    assert not tip.is_visible()
    bar = shown.locator("#relevance svg g.spot").first
    bar.scroll_into_view_if_needed()
    # the event of this scrolling, which hides tips, is sent before the second next frame
    shown.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    bar.hover()
    assert tip.is_visible()
    assert "chosen at rank" in tip.inner_text()
    feature = bar.get_attribute("data-f")
    assert shown.locator(f"#subsets li[data-f='{feature}'].hot").count() == 1
    shown.keyboard.press("Escape")
    assert not tip.is_visible()
    shown.locator("#relevance summary").focus()
    shown.keyboard.press("Enter")
    table = shown.locator("#relevance table")
    head = table.get_by_role("button", name="relevance")
    head.focus()
    for order, pick in (("ascending", min), ("descending", max)):
        shown.keyboard.press("Enter")
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == order
        values = [float(each) for each in table.locator("tbody td:nth-child(2)").all_inner_texts()]
        assert values[0] == pick(values)
    shown.locator("#relevance input").fill("sd of measure 1")
    rows = table.locator("tbody tr:visible")
    assert rows.count() == 11  # 1 and 10 to 19
    assert shown.locator("#relevance [role=status]").inner_text() == "11 of 60 rows"
    assert said == []


def test_report__prints_all_tables(pages: dict[str, Path], browser: Browser) -> None:
    shown, said, _ = _opened(browser, pages["table"], 1440, "dark")
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown.emulate_media(media="print", color_scheme="dark")
    assert shown.locator("details:not([open])").count() == 0
    assert not shown.locator("nav").is_visible()
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.pdf(format="A4").startswith(b"%PDF")
    assert said == []


def test_report__is_complete_without_its_script(pages: dict[str, Path], browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto(pages["tree"].as_uri())
    assert shown.locator("svg[role=img]").count() >= 3
    assert shown.locator("#margins tbody tr").count() == 9
    context.close()


def test_report__hostile_names_run_nothing(pages: dict[str, Path], browser: Browser) -> None:
    shown, said, requests = _opened(browser, pages["nominal"], 1440, "light", call="hofs")
    for spot in shown.locator("[data-tip]").all():
        spot.hover(force=True)
    assert "<script>hofs()</script>" in shown.locator("#subsets").inner_text()
    assert shown.locator("img").count() == 0
    assert shown.evaluate("window.called") == 0
    assert said == []
    assert len(requests) == 1


def _opened(
    browser: Browser, page: Path, width: int, scheme: str, call: str = "hofs"
) -> tuple[Page, list[str], list[str]]:
    """Open a page; also return what it says on the console, and what it requests."""
    viewport = {"width": width, "height": 900}
    shown = browser.new_page(color_scheme=scheme, viewport=viewport, reduced_motion="reduce")
    said: list[str] = []
    requests: list[str] = []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda request: requests.append(request.url))
    shown.add_init_script(f"window.called = 0; window.{call} = () => {{ window.called += 1; }}")
    shown.goto(page.as_uri(), wait_until="load")
    return shown, said, requests


def _violations(shown: Page) -> list[Any]:
    """Return the serious faults that axe-core finds on the page, with two tables opened."""
    shown.evaluate("[...document.querySelectorAll('details')].slice(0, 2).map(e => e.open = true)")
    shown.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = shown.evaluate("axe.run({resultTypes: ['violations'], elementRef: false})")
    passed = {rule["id"] for rule in found["passes"]}
    assert passed >= {"color-contrast", "svg-img-alt", "scrollable-region-focusable", "list"}
    return [
        (fault["id"], [node["html"][:200] for node in fault["nodes"][:3]])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
