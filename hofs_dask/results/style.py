"""Colours of all figures and of the HTML report."""

from __future__ import annotations

#: Okabe and Ito's colour-blind safe palette without yellow, and two more colours.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#7A5195", "#8C6D31")
#: The same hues on a dark page: every one has a contrast of at least 3 to `DARK_PAGE`.
DARK_COLOURS = (
    "#4AA8E0",
    "#F0B23C",
    "#2BC295",
    "#DE95BC",
    "#F28146",
    "#8CCBF2",
    "#B08AD0",
    "#C3A25E",
)
DARK_PAGE = "#14181D"
#: Colour of later subsets, for which no colour is left.
LATER = "#8A8A8A"
#: Colour of features that the first method of a comparison did not choose.
ABSENT = "#D0D0D0"
#: Colours of text, of lines that are not data, and of grids.
INK = "#222222"
LINE = "#555555"
GRID = "#E4E4E4"
#: The words at a restart, in figures and reports.
RESTART_LABEL = "restart: information counts from zero again"


def colour_of(subset: int) -> str:
    """Return the colour of the subset with this number. Subsets from 8 on share one colour.

    Examples
    --------
    >>> colour_of(0), colour_of(100)
    ('#0072B2', '#8A8A8A')
    """
    return COLOURS[subset] if subset < len(COLOURS) else LATER
