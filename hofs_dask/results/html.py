"""HTML of results for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hofs_dask.results import comparison_text, interactions_text, text
from hofs_dask.results.comparison_figure import colour_by_feature
from hofs_dask.results.figure import colour_of

if TYPE_CHECKING:
    import xarray as xr

SHOWN_RANKS = 50


def selection_html(dataset: xr.Dataset) -> str:
    """Return HTML with the summary and the first ranks of a selection, coloured by subset.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> result = Selection.from_picks([pick], names=["a", "<b>"], relevance=[0.1, 0.5], attrs={})
    >>> "&lt;b&gt;" in selection_html(result.to_dataset())
    True
    """
    header, *rows = text.table(dataset, SHOWN_RANKS)
    sides = [text.side(column) for column in header]
    lines = [_row("th", header, sides)]
    for row, subset in zip(rows, dataset["subset"].values.tolist(), strict=False):
        lines.append(_row("td", row, sides, [_border(colour_of(subset))]))
    left_out = text.left_out({"rank": dataset.sizes["rank"] - len(rows)}, ".to_dataframe()")
    parts = [_table(lines), *map(_paragraph, [left_out, *text.remarks(dataset)])]
    return _page("selection", text.summary(dataset), parts)


def comparison_html(dataset: xr.Dataset, parts: str = "") -> str:
    """Return HTML with the summary and the tables, coloured by the subsets of the first method.

    ``parts`` is the name of the labels if parts of the data are compared instead of methods.

    Examples
    --------
    >>> from hofs_dask.results.comparison import Comparison
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> one = Selection.from_picks([pick], names=["a", "<b>"], relevance=[0.1, 0.5], attrs={})
    >>> result = Comparison.from_selections({"mim": one}, attrs={})
    >>> "&lt;b&gt;" in comparison_html(result.to_dataset())
    True
    """
    n_methods = dataset.sizes["method"]
    header, *rows = comparison_text.ranking(dataset, SHOWN_RANKS)
    sides = ["right", *["left"] * n_methods]
    colours = colour_by_feature(dataset)
    lines = [_row("th", header, sides)]
    for row, index in zip(rows, dataset["index"].values.T.tolist(), strict=False):
        styles = ["", *(_border(colours.get(column, "transparent")) for column in index)]
        lines.append(_row("td", row, sides, styles))
    left_out = comparison_text.left_out(dataset, len(rows), n_methods, parts)
    pieces = [_table(lines), _paragraph(left_out)]
    triangle = comparison_text.agreement(dataset, n_methods)
    if triangle:
        shaded = [_shaded(row) for row in triangle]
        pieces += [_paragraph(comparison_text.agreement_title(dataset)), _table(shaded)]
    pieces.append(_paragraph(comparison_text.scans(dataset)))
    return _page("comparison", comparison_text.summary(dataset, parts), pieces)


def interactions_html(dataset: xr.Dataset) -> str:
    """Return HTML with the summary and the first ranks of interactions."""
    header, *rows = interactions_text.table(dataset, SHOWN_RANKS)
    sides = ["left" if name == "features" else "right" for name in header]
    lines = [_row("th", header, sides), *(_row("td", row, sides) for row in rows)]
    left_out = text.left_out({"rank": dataset.sizes["rank"] - len(rows)}, ".to_dataframe()")
    parts = [_table(lines), _paragraph(left_out)]
    return _page("interactions", interactions_text.summary(dataset), parts)


def _page(kind: str, summary: Iterable[str], parts: Iterable[str]) -> str:
    headline, *details = map(html.escape, summary)
    head = "<br>".join([f"<strong>{headline}</strong>", *details])
    return f'<div class="hofs-{kind}"><p>{head}</p>{"".join(parts)}</div>'


def _paragraph(words: str) -> str:
    return f"<p>{html.escape(words)}</p>" if words else ""


def _table(lines: Iterable[str]) -> str:
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">{rows}</table>'
    )


def _row(tag: str, cells: Sequence[str], sides: Sequence[str], styles: Sequence[str] = ()) -> str:
    """Return a row of cells with their alignments and styles; missing styles are empty."""
    padded = [*styles, *[""] * (len(cells) - len(styles))]
    return "".join(map(_cell, [tag] * len(cells), cells, sides, padded))


def _shaded(row: list[str]) -> str:
    """Return a row of numbers from 0 to 1 as table cells; larger numbers are darker."""
    cells = [_cell("th", row[0], "left")]
    for words in row[1:]:
        is_share = words[:1].isdigit() and row[0]
        shade = f"background:rgba(0,114,178,{float(words) / 2:.2f})" if is_share else ""
        cells.append(_cell("td" if row[0] else "th", words, "right", shade))
    return "".join(cells)


def _border(colour: str) -> str:
    return f"border-left:0.4em solid {colour}"


def _cell(tag: str, words: str, where: str, style: str = "") -> str:
    style = ";".join(filter(None, ["padding:0.15em 0.7em", f"text-align:{where}", style]))
    return f'<{tag} style="{style}">{html.escape(words)}</{tag}>'
