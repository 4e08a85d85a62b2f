"""The documentation site, built from the sources and opened in a real browser."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.deploy.servers import ROOT, need

pytestmark = [pytest.mark.servers, pytest.mark.processes]

PAGES = [
    "index",
    "start",
    "concepts",
    "guide/choosing",
    "gallery/index",
    "gallery/bands",
    "mathematics",
    "api/hofs_dask.select",
    "cluster",
    "results",
]
WIDTHS = [390, 820, 1440]


#: The brightness of the text of an element.
BRIGHTNESS = "e => Math.max(...getComputedStyle(e).color.match(/\\d+/g).slice(0, 3).map(Number))"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in another folder with warnings as errors; all examples are run."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("_build", "api"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "deploy", "hofs_dask", "pipelines"):
        (folder / name).symlink_to(ROOT / name)
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "html"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    need("chromium", "chromium")
    with sync_playwright() as driver:
        yield driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_site__pages_open_without_errors_and_requests(
    site: Path, browser: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    shown = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    errors, requests = _watch(shown)
    folder = Path(os.environ.get("HOFS_DASK_SCREENSHOTS", str(tmp_path)))
    for page in PAGES:
        shown.goto((site / f"{page}.html").as_uri(), wait_until="load")
        assert shown.locator("h1").first.is_visible()
        # nothing is wider than the window, except what scrolls in a box of its own
        assert shown.evaluate("document.documentElement.scrollWidth") <= width + 1, page
        for result in shown.locator(".hofs-selection, .xr-wrap").all():
            assert (result.evaluate(BRIGHTNESS) > 128) == (scheme == "dark"), page
        shown.screenshot(path=folder / f"{page.replace('/', '-')}-{width}-{scheme}.png")
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    shown.close()


def test_site__examples_show_results_and_figures(site: Path, browser: Browser) -> None:
    shown = browser.new_page()
    shown.goto((site / "start.html").as_uri(), wait_until="load")
    assert shown.locator(".hofs-selection table").first.locator("tr").count() == 10
    figure = shown.locator(".cell_output img").first
    assert figure.evaluate("image => image.naturalWidth") > 300
    assert "worst" in shown.locator(".cell_output").last.inner_text()  # features of the shell
    shown.goto((site / "mathematics.html").as_uri(), wait_until="load")
    shown.wait_for_selector("mjx-container", timeout=20_000)
    shown.close()


@pytest.mark.parametrize(
    ("page", "n_figures"),
    [("bands", 2), ("climate", 1), ("genetics", 1), ("words", 1), ("paper", 2)],
)
def test_site__gallery_has_figures(site: Path, browser: Browser, page: str, n_figures: int) -> None:
    shown = browser.new_page()
    shown.goto((site / "gallery" / f"{page}.html").as_uri(), wait_until="load")
    figures = shown.locator(".cell_output img").all()
    assert len(figures) == n_figures
    for figure in figures:
        assert figure.evaluate("image => image.naturalWidth") > 300
    shown.close()


def test_site__links_lead_to_pages_and_sections(site: Path) -> None:
    texts = {page: page.read_text() for page in site.rglob("*.html")}
    ids = {page: {*re.findall(r'\bid="([^"]+)"', text)} for page, text in texts.items()}
    wrong = []
    for page, text in texts.items():
        for link in re.findall(r'<a [^>]*href="(?!\w+:)([^"]+)"', text):
            path, _, section = link.partition("#")
            found = (page.parent / path).resolve() if path else page
            if not found.exists() or (section and section not in ids.get(found, {section})):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert len(texts) > 100
    assert wrong == []


def test_site__search_finds_an_option(site: Path, browser: Browser) -> None:
    shown = browser.new_page()
    shown.goto((site / "search.html").as_uri() + "?q=ignore_label", wait_until="load")
    # results are added to the page one by one
    found = shown.locator("#search-results li").filter(has_text="Masks").first
    found.wait_for(timeout=20_000)
    assert "guide/samples" in str(found.locator("a").first.get_attribute("href"))
    shown.close()


def _watch(page: Page) -> tuple[list[str], list[str]]:
    """Return lists to which errors of the console and requests of a page are added."""
    errors: list[str] = []
    requests: list[str] = []

    def requested(request: Request) -> None:
        requests.append(request.url)

    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", requested)
    return errors, requests
