"""A notebook with progress, results and figures, executed and opened in a real browser."""

import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Locator, Route, sync_playwright

from tests.deploy.servers import ROOT, need

pytestmark = [pytest.mark.servers, pytest.mark.processes]

CELLS = [
    """
import time
import dask, dask.array as da, numpy as np, xarray as xr
from dask.delayed import delayed
import hofs_dask as hd
dask.config.set(scheduler="sync")

def block(number):
    time.sleep(0.05)
    rng = np.random.default_rng(number)
    x = rng.normal(size=(500, 20))
    x[:, [3, 4, 12]] += (np.arange(500) % 2)[:, None] * [2, 1, 1]
    return x

blocks = [da.from_delayed(delayed(block)(n), (500, 20), float) for n in range(10)]
centres = xr.DataArray(400.0 + 25 * np.arange(20), dims="wavelength", attrs={"units": "nm"})
cube = xr.DataArray(da.concatenate(blocks), {"wavelength": centres}, ("pixel", "wavelength"))
result = hd.select(cube, np.arange(5000) % 2, 5)
""",
    "result",
    'result.plot.spectrum(x="wavelength");',
    'hd.compare(cube, np.arange(5000) % 2, 3, methods=["hofs", "jmi"], progress=False)',
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the executed notebook as HTML, in the light and the dark theme of Jupyter."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(each.strip()) for each in CELLS],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python"}},
    )
    inline = "module://matplotlib_inline.backend_inline"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": inline}
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(env=environment)
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    assert [each.output_type for each in outputs if each.output_type == "error"] == []
    assert [each for each in outputs if each.output_type == "stream"] == []
    folder = tmp_path_factory.mktemp("notebook")
    for theme in ("light", "dark"):
        html, _ = HTMLExporter(theme=theme).from_notebook_node(notebook)
        (folder / f"{theme}.html").write_text(html)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_notebook__is_readable_in_a_browser(pages: Path, scheme: str, tmp_path: Path) -> None:
    need("chromium", "chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        shown = browser.new_page(color_scheme=scheme, viewport={"width": 1000, "height": 1400})
        shown.route("**/*", _local)
        shown.goto((pages / f"{scheme}.html").as_uri(), wait_until="load")
        # progress is folded, and its lines are there
        summary = shown.locator("details > summary", has_text="progress: ")
        assert summary.is_visible()
        lines = shown.locator("details pre")
        assert not lines.is_visible()
        summary.click()
        assert lines.is_visible()
        assert lines.inner_text().count("round ") == 5
        # the table names the coordinate of the data
        table = shown.locator(".hofs-selection table")
        assert "wavelength (nm)" in table.inner_text()
        assert table.locator("tr").count() == 6
        for part in (table.locator("td").first, summary, lines):
            assert (_brightness(part, "color") > 128) == (scheme == "dark")
        assert shown.locator(".hofs-comparison table").first.is_visible()
        figure = shown.locator(".jp-RenderedImage img, .output_png img").first
        assert figure.evaluate("image => image.naturalWidth") > 300
        screenshot = os.environ.get("HOFS_DASK_SCREENSHOTS", str(tmp_path))
        shown.screenshot(path=f"{screenshot}/notebook-{scheme}.png", full_page=True)
        browser.close()


def _brightness(part: Locator, name: str) -> float:
    """Return the mean of red, green and blue of a colour of an element, from 0 to 255."""
    style = part.evaluate(f"element => getComputedStyle(element).{name}")
    red, green, blue = (float(each) for each in re.findall(r"[\d.]+", style)[:3])
    return (red + green + blue) / 3


def _local(route: Route) -> None:
    """Load files only: the page must be readable without a network."""
    if route.request.url.startswith("file:"):
        route.continue_()
    else:
        route.abort()
