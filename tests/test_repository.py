"""The repository keeps its own rules: layers, examples, scripts and a README that runs."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hofs_dask
from hofs_dask import synthetic
from hofs_dask.accessor import HofsAccessor

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "hofs_dask"

# A module may import its own layer and those to the left of it.
LAYERS = [
    "errors",  # what goes wrong, said with names: everything raises it
    "events",  # what is going on: encoding and search send it
    "kernels",
    "scheduling",  # the one call of Dask's compute: input, encoding and engine wait for it
    "io",
    "store",
    "engine",
    "encoding",
    "methods",
    "search",
    "planning",
    "results",
    "api",
    "accessor",  # the functions as an attribute of xarray objects
    "estimator",  # the api for scikit-learn
    "preload",  # what a Dask worker runs at its start
    "synthetic",  # data of the paper's models, for users
    "__init__",
    "demo",
    "cli",
    "__main__",
]

ALLOWED = {
    "errors": set[str](),
    "events": set[str](),
    "kernels": {"llvmlite", "numba", "numpy", "scipy"},
}
FORBIDDEN = {
    "methods": {"dask", "distributed", "xarray", "zarr"},
    "search": {"dask", "distributed", "xarray", "zarr"},
    "results": {"dask", "distributed"},
    "engine": {"xarray", "zarr"},
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_in(source: str, package: str) -> Iterator[str]:
    """Full names of the modules that a file of this package imports, anywhere in the file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            if module == "hofs_dask":
                yield from (f"hofs_dask.{alias.name}" for alias in node.names)
            else:
                yield module


def imports_of(path: Path) -> Iterator[list[str]]:
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return (name.split(".") for name in imports_in(path.read_text(), package))


def own_layers(path: Path) -> set[str]:
    return {name[1] for name in imports_of(path) if name[0] == "hofs_dask"}


def third_parties(path: Path) -> set[str]:
    return {name[0] for name in imports_of(path)} - {*sys.stdlib_module_names, "hofs_dask"}


def test_layers__every_module_has_one() -> None:
    assert {layer_of(path) for path in MODULES} <= set(LAYERS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports__point_downward_only(path: Path) -> None:
    layer = layer_of(path)
    lower = LAYERS[: LAYERS.index(layer) + 1]
    assert own_layers(path) <= set(lower), f"{layer} may import {lower}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports__layers_know_only_their_libraries(path: Path) -> None:
    layer = layer_of(path)
    found = third_parties(path)
    assert found <= ALLOWED.get(layer, found)
    assert not found & FORBIDDEN.get(layer, set())


def test_imports__the_check_sees_every_form() -> None:
    source = """
from .. import api
from ..store.codes import read_codes
from .problem import Problem
from hofs_dask import load
def f():
    import dask.array
"""
    assert list(imports_in(source, "hofs_dask.methods")) == [
        "hofs_dask.api",
        "hofs_dask.store.codes",
        "hofs_dask.methods.problem",
        "hofs_dask.load",
        "dask.array",
    ]


def public_names() -> list[str]:
    """What can carry a docstring of its own: functions and classes, not constants."""
    return [name for name in hofs_dask.__all__ if callable(getattr(hofs_dask, name))]


@pytest.mark.parametrize("name", public_names())
def test_public_names__have_a_docstring_with_an_example(name: str) -> None:
    thing = getattr(hofs_dask, name)
    assert thing.__doc__, name
    if isinstance(thing, type) and issubclass(thing, Exception):
        return  # an error is shown by the examples of what raises it
    assert ">>> " in thing.__doc__, f"{name} has no example"


@pytest.mark.parametrize(
    "script",
    [
        ".ci/run",
        "deploy/local/demo.sh",
        "deploy/local/docs.sh",
        "deploy/local/test.sh",
        "deploy/cli/cluster.sh",
        "deploy/cli/host.sh",
        "deploy/tls/certificates.sh",
    ],
)
def test_scripts__can_be_run_and_parsed(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_links__lead_somewhere() -> None:
    folders = (ROOT / "deploy", ROOT / "docs", PACKAGE)
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}"


def test_api_page__lists_every_public_name() -> None:
    listed = re.findall(r"^   ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    accessor = [name for name in vars(HofsAccessor) if not name.startswith("_")]
    assert {*listed} == {
        *public_names(),
        *synthetic.__all__,
        *(f"{kind}.hofs.{name}" for kind in ("DataArray", "Dataset") for name in accessor),
    }


def test_readme__example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert example is not None
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    # A tenth of the samples: the example is tested, not the figures that the README quotes.
    exec(example[1].replace("100_000", "10_000").replace("chunks=10_000", "chunks=1_000"), space)
    assert hofs_dask.load("result.zarr") == space["result"]


def test_readme__quotes_the_figures_of_the_pages() -> None:
    text = (ROOT / "README.md").read_text()
    bench = json.loads((ROOT / "pipelines" / "results" / "bench.json").read_text())
    (jmi,) = (figure for figure in bench["figures"] if figure["name"] == "jmi, cached")
    assert f"{jmi['parts']['seconds']:.1f} s on two cores" in text
    assert f"{1 / jmi['value']:.0f} times as long" in text

    paper = (ROOT / "pipelines" / "paper" / "PAGE.md").read_text()
    hofs, vmi = (
        re.findall(r"\d+\.\d+", re.search(rf"^\| {name} \|.*", paper, re.MULTILINE)[0])
        for name in ("HOFS", "VMI")
    )
    assert f"3-NN ({float(hofs[5]):.1f}; VMI {float(vmi[5]):.1f})" in text
    assert f"linear SVM ({float(vmi[1]):.1f}; HOFS {float(hofs[1]):.1f})" in text

    genetics = (ROOT / "docs" / "gallery" / "genetics.md").read_text()
    assert "99 s of processor time" in text
    assert "99 s of processor time" in genetics


def test_import__leaves_alone_what_only_data_needs() -> None:
    """Half a second each: they are imported where something is opened, computed or drawn."""
    script = "import sys, hofs_dask; hofs_dask.select; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    late = {"dask.array", "distributed", "matplotlib", "sklearn"}
    assert not late.intersection(done.stdout.split())


def test_requirements__are_enough_for_a_selection() -> None:
    """What extras install, or other packages bring along, is not imported."""
    script = """
import sys
optional = "aiohttp h5netcdf icechunk matplotlib obstore polars pyarrow s3fs sklearn"
sys.modules.update(dict.fromkeys(optional.split()))  # an import of these is an error
import hofs_dask
from hofs_dask.synthetic import tree_model
print(*hofs_dask.select(tree_model(2000, chunks=1000), "y", 1, method="mim"))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "x1\n"


def _changing_state(tree: ast.Module) -> Iterator[str]:
    """Yield what a module keeps that calls may change: containers, thread locals and caches."""
    makers = {
        "dict",
        "list",
        "set",
        "defaultdict",
        "deque",
        "Counter",
        "WeakKeyDictionary",
        "local",
    }
    for node in tree.body:
        value = (
            getattr(node, "value", None) if isinstance(node, ast.Assign | ast.AnnAssign) else None
        )
        empty = (isinstance(value, ast.Dict) and not value.keys) or (
            isinstance(value, ast.List | ast.Set) and not value.elts
        )
        made = isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in makers
        if empty or (made and not value.args):
            yield ast.unparse(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield ast.unparse(node)
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if "cache" in ast.unparse(decorator).replace("cached_property", ""):
                    yield f"{ast.unparse(decorator)} of {node.name}"


def test_state__that_changes_is_in_the_two_modules_of_it() -> None:
    found = {
        str(path.relative_to(PACKAGE)): states
        for path in sorted(PACKAGE.rglob("*.py"))
        if (states := list(_changing_state(ast.parse(path.read_text()))))
    }
    # what a worker process keeps is one object, `PROCESS`
    assert set(found) == {"scheduling/session.py"}, found


#: Words of the glossary's right column: each has an established term instead.
AVOIDED = re.compile(
    r"""\bwalk(s|ed|ing)?\b | (?<![a-z])rivals?(?![a-z]) | \bprices?\b | \b(pays?|paid)\b
    | fresh[ _]starts? | \bafresh\b | \b(tells?|told)\sof\b | \bdear(er|est)?\b
    | \brehears\w* | \bmade-up\b | turned\ssquares? | asks?\ssome\ssamples
    | \bn_(walks|passes)\b | \bPass(Started|Done)\b""",
    re.VERBOSE | re.IGNORECASE,
)


def test_glossary__its_terms_are_used_and_no_others() -> None:
    """In prose and identifiers; the changelog and one decision name what was there before."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.pyi", "*.md", "*.sh", "*.toml"],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout.split()
    history = {"CHANGELOG.md", "docs/decisions/planning-without-seconds.md"}
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in sorted({*listed} - history - {"tests/test_repository.py"})
        if (ROOT / name).exists()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1)
        if AVOIDED.search(re.sub(r"\b(os|ast)\.walk\b", "", line))
    ]
    assert not found, "\n".join(found)
