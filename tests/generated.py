"""What is written from the code: ``python -m tests.generated`` writes it again.

- docs/methods.md: the tables of criteria, from their docstrings;
- docs/options.md: the kinds of data, from `hofs_dask.io.source.KINDS`;
- docs/api.md: the names of the methods;
- hofs_dask/__init__.pyi: the public names of the criteria.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType

from hofs_dask.io.source import KINDS
from hofs_dask.methods import criteria, triples
from hofs_dask.methods.base import Method
from hofs_dask.methods.registry import METHOD_NAMES

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- made by python -m tests.generated -->\n", "<!-- end -->\n"


def _criteria(family: ModuleType) -> list[type[Method]]:
    kinds = [Method.registry[name] for name in METHOD_NAMES]
    return [kind for kind in kinds if kind.__module__ == family.__name__]


def row(kind: type[Method]) -> str:
    """The line of a criterion: its call, its reference, and the formula of its Notes."""
    text = inspect.getdoc(kind)
    options = ", ".join(f"{field.name}={field.default!r}" for field in fields(kind))
    options = options.replace("'", '"')
    reference = re.search(r"\(([^()]* \d{4})\)", text.splitlines()[0])
    # the first sentence of the Notes
    (notes,) = re.findall(r"Notes\n-----\nScore (.*?)\.(?:\n\n| [A-Z]|$)", text, re.S)
    formula = " ".join(notes.split()).replace("``", "`").replace("|", "\\|")
    cited = f", {reference[1]}" if reference else ""
    return f"| `hd.{kind.__name__}({options})`{cited} | {formula} |\n"


def methods_page(page: str) -> str:
    """The page with the tables that the docstrings give."""
    head = "| {} | score, which is maximised |\n|---|---|\n"
    pairwise = head.format("pairwise criterion") + "".join(map(row, _criteria(criteria)))
    higher = head.format("criterion of higher order") + "".join(map(row, _criteria(triples)))
    return _between(page, f"{pairwise}\n{higher}")


def options_page(page: str) -> str:
    """The page with all kinds of data."""
    return _between(page, "".join(f"- {kind}\n" for kind in KINDS))


def api_page(page: str) -> str:
    """The page with the names of all methods."""
    names = "".join(f"   {Method.registry[name].__name__}\n" for name in METHOD_NAMES)
    head = "```{eval-rst}\n.. autosummary::\n   :toctree: api\n   :nosignatures:\n\n"
    return _between(page, f"{head}{names}```\n")


def public_names(stub: str) -> str:
    """The stub with a line for each criterion."""
    for family in (criteria, triples):
        module = family.__name__.removeprefix("hofs_dask")
        first = stub.index(f"from {module} ")
        rest = re.sub(rf"from {re.escape(module)} import .*\n", "", stub)
        # ruff expects names in capitals before others
        names = sorted(
            (kind.__name__ for kind in _criteria(family)), key=lambda n: (not n.isupper(), n)
        )
        lines = "".join(f"from {module} import {name} as {name}\n" for name in names)
        stub = rest[:first] + lines + rest[first:]
    return stub


def _between(page: str, text: str) -> str:
    before, rest = page.split(BEGIN)
    return before + BEGIN + text + END + rest.split(END)[1]


FILES: dict[Path, Callable[[str], str]] = {
    ROOT / "docs" / "methods.md": methods_page,
    ROOT / "docs" / "options.md": options_page,
    ROOT / "docs" / "api.md": api_page,
    ROOT / "hofs_dask" / "__init__.pyi": public_names,
}

if __name__ == "__main__":
    for path, write in FILES.items():
        path.write_text(write(path.read_text()))
