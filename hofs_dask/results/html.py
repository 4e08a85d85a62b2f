"""A selection as the part of a page that a notebook shows."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from hofs_dask.results.figure import colour_of
from hofs_dask.results.text import remarks, side, summary, table

if TYPE_CHECKING:
    import xarray as xr

SHOWN_RANKS = 50


def as_html(dataset: xr.Dataset) -> str:
    """Return the summary and the table of the first ranks, which have the colours of subsets.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> result = Selection.from_picks([pick], names=["a", "<b>"], relevance=[0.1, 0.5], attrs={})
    >>> "&lt;b&gt;" in as_html(result.to_dataset())
    True
    """
    headline, *details = (html.escape(line) for line in summary(dataset))
    header, *rows = table(dataset, SHOWN_RANKS)
    colours = [colour_of(number) for number in dataset["subset"].values.tolist()]
    cell = "padding:0.15em 0.7em;text-align:"
    head = "".join(
        f'<th style="{cell}{side(column)}">{html.escape(column)}</th>' for column in header
    )
    body = []
    for row, colour in zip(rows, colours, strict=False):
        cells = "".join(
            f'<td style="{cell}{side(column)}">{html.escape(value)}</td>'
            for column, value in zip(header, row, strict=True)
        )
        body.append(f'<tr style="border-left:0.4em solid {colour}">{cells}</tr>')
    more = dataset.sizes["rank"] - len(rows)
    return (
        '<div class="hofs-selection">'
        f"<p><strong>{headline}</strong><br>{'<br>'.join(details)}</p>"
        '<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        + (f"<p>... and {more} more: <code>.to_dataframe()</code></p>" if more else "")
        + "".join(f"<p>{line}</p>" for line in remarks(dataset))
        + "</div>"
    )
