"""Configuration of the documentation site: ``deploy/local/docs.sh`` builds it."""

import os
import re
import sys
from pathlib import Path

import sphinx_autosummary_accessors
from jupyter_client.manager import KernelManager
from sphinx.application import Sphinx

import hofs_dask

ROOT = Path(__file__).resolve().parent.parent
#: Code cells run in processes of their own, which must find the package of this clone.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
sys.path.insert(0, str(ROOT))
# ... and its command, without an activated environment
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# Talk to kernels over encrypted sockets where jupyter_client can: it warns otherwise.
if hasattr(KernelManager, "transport_encryption"):
    KernelManager.transport_encryption.default_value = "auto"
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # figures in pages

project = "hofs_dask"
author = "hofs_dask developers"
copyright = f"2026, {author}"  # noqa: A001
version = release = hofs_dask.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_autosummary_accessors",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",  # the site loads nothing from elsewhere
]
templates_path = ["_templates", sphinx_autosummary_accessors.templates_path]
exclude_patterns = ["_build"]
nitpicky = False

# Inventories of other projects need a network: only the hosted build links to them.
if os.environ.get("READTHEDOCS"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "dask": ("https://docs.dask.org/en/stable", None),
        "distributed": ("https://distributed.dask.org/en/stable", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
        "python": ("https://docs.python.org/3", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "xarray": ("https://docs.xarray.dev/en/stable", None),
    }

myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "cells")
nb_execution_in_temp = True
nb_merge_streams = True

default_role = "py:obj"  # names in docstrings link to their pages
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "hofs_dask"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_sidebars = {"index": [], "start": [], "concepts": []}
html_theme_options = {
    "github_url": "https://github.com/hofs-dask/hofs_dask",
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

#: Pages whose text is that of a file of the repository.
PAGES = {
    "architecture": "hofs_dask/ARCHITECTURE.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "gallery/full/bands": "pipelines/BANDS.md",
    "gallery/full/climate": "pipelines/CLIMATE.md",
    "gallery/full/paper": "pipelines/paper/PAGE.md",
    "model": "pipelines/MODEL.md",
    "deploy/index": "deploy/README.md",
    **{
        f"deploy/{target}": f"deploy/{target}/README.md"
        for target in ("cli", "cloud", "docker", "kubernetes", "local", "slurm", "ssh", "tls")
    },
}
SHOWN = {ROOT / file: page for page, file in PAGES.items()}
SOURCE = "https://github.com/hofs-dask/hofs_dask/blob/main/"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#]+)(#[^)]*)?\)")


def link_to_pages(_app: Sphinx, page: str, source: list[str]) -> None:
    """Read pages from the repository; link to pages, or to the repository for other files."""
    docs = ROOT / "docs"
    path = docs / f"{page}.md"
    if page in PAGES:
        path = ROOT / PAGES[page]
        source[0] = path.read_text(encoding="utf-8")

    def replaced(link: re.Match[str]) -> str:
        image, text, target, anchor = link.groups()
        found = Path(os.path.normpath(path.parent / target))
        if (found / "README.md").exists():
            found /= "README.md"
        if found in SHOWN:
            found = docs / f"{SHOWN[found]}.md"
        if image or found.is_relative_to(docs):
            found = Path(os.path.relpath(found, (docs / page).parent))
            return f"{image}[{text}]({found}{anchor or ''})"
        return f"[{text}]({SOURCE}{found.relative_to(ROOT)}{anchor or ''})"

    source[0] = LINK.sub(replaced, source[0])


def setup(app: Sphinx) -> None:
    """Register the rewriting of links."""
    app.connect("source-read", link_to_pages)
