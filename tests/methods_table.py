"""The table of pairwise criteria in docs/methods.md, made from their docstrings.

``python -m tests.methods_table`` writes it again.
"""

import inspect
import re
from dataclasses import fields
from pathlib import Path

from hofs_dask.methods.base import Method
from hofs_dask.methods.pairwise import PairwiseMethod
from hofs_dask.methods.registry import METHOD_NAMES

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
BEGIN = "<!-- made by python -m tests.methods_table -->\n"
END = "<!-- end -->\n"


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


def table() -> str:
    """All lines, with the head."""
    kinds = [Method.registry[name] for name in METHOD_NAMES]
    rows = [row(kind) for kind in kinds if issubclass(kind, PairwiseMethod)]
    return "| pairwise criterion | score, which is maximised |\n|---|---|\n" + "".join(rows)


def written(page: str) -> str:
    """The page with the table that the docstrings give."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
