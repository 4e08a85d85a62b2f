"""The short form of a report, for notebooks: styles are written at the elements."""

from __future__ import annotations

from hofs_dask.results.report.content import Brief, Cell, Column, Table, Text
from hofs_dask.results.report.markup import Markup, element, escaped, joined
from hofs_dask.results.style import ABSENT, colour_of


def render_brief(brief: Brief) -> str:
    """Return the short form as HTML.

    Examples
    --------
    >>> render_brief(Brief("selection", "1 of 2", ("<i>",), ()))
    '<div class="hofs-selection"><p><strong>1 of 2</strong><br>&lt;i&gt;</p></div>'
    """
    head = Markup("<br>").join(
        [element("strong", None, brief.headline), *map(escaped, brief.details)]
    )
    parts = [part for each in brief.parts for part in _part(each)]
    return element("div", {"class": f"hofs-{brief.kind}"}, element("p", None, Markup(head)), *parts)


def _part(part: Table | Text) -> list[Markup]:
    if isinstance(part, Text):
        return [element("p", {"style": "margin-top:0.6em"}, part.words)]
    rows = [element("tr", None, *(_head(column) for column in part.columns))]
    for row in part.rows:
        cells = (_cell(cell, column) for cell, column in zip(row, part.columns, strict=True))
        rows.append(element("tr", None, *cells))
    style = "border-collapse:collapse;font-variant-numeric:tabular-nums"
    caption = [element("p", None, part.caption)] if part.caption else []
    remark = [element("p", None, part.remark)] if part.remark else []
    return [*caption, element("table", {"style": style}, joined(rows)), *remark]


def _head(column: Column) -> Markup:
    return element("th", {"style": _style(column)}, column.title)


def _cell(cell: Cell, column: Column) -> Markup:
    style = _style(column)
    if cell.subset is not None:
        style += f";border-left:0.4em solid {ABSENT if cell.subset < 0 else colour_of(cell.subset)}"
    if cell.shade is not None:
        style += f";background:rgba(0,114,178,{cell.shade / 2:.2f})"
    return element("td", {"style": style}, cell.text)


def _style(column: Column) -> str:
    return f"padding:0.15em 0.7em;text-align:{'right' if column.is_number else 'left'}"
