"""The function that draws any drawing."""

from __future__ import annotations

from typing import assert_never

from hofs_dask.results.report.content import (
    Curve,
    Drawing,
    Lines,
    Matrix,
    Network,
    Ranks,
    Relevance,
    Whole,
)
from hofs_dask.results.report.drawings.curve import draw_curve, draw_whole
from hofs_dask.results.report.drawings.matrix import draw_matrix
from hofs_dask.results.report.drawings.network import draw_network
from hofs_dask.results.report.drawings.ranks import draw_lines, draw_ranks
from hofs_dask.results.report.drawings.relevance import draw_relevance
from hofs_dask.results.report.markup import Markup


def draw(drawing: Drawing, description: str) -> Markup:
    """Return a drawing as SVG.

    Examples
    --------
    >>> draw(Relevance((), ()), "no features")[:4]
    '<svg'
    """
    match drawing:
        case Curve():
            return draw_curve(drawing, description)
        case Whole():
            return draw_whole(drawing, description)
        case Matrix():
            return draw_matrix(drawing, description)
        case Relevance():
            return draw_relevance(drawing, description)
        case Network():
            return draw_network(drawing, description)
        case Ranks():
            return draw_ranks(drawing, description)
        case Lines():
            return draw_lines(drawing, description)
    assert_never(drawing)
