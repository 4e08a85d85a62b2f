"""What all drawings share: the SVG element, text, classes of colours, and axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from hofs_dask.results.report.markup import Attrs, Markup, clean, element
from hofs_dask.results.style import COLOURS
from hofs_dask.results.text import shortened

WIDTH = 940.0
#: Width of a letter of the labels, in units of the drawing.
LETTER = 6.4


def svg(width: float, height: float, description: str, *children: str) -> Markup:
    """Return a drawing with a description for readers who do not see it.

    Examples
    --------
    >>> svg(10, 5, "nothing")[:58]
    '<svg viewBox="0 0 10 5" width="10" height="5" role="img" a'
    """
    attrs: Attrs = {
        "viewBox": f"0 0 {width:g} {height:g}",
        "width": width,
        "height": height,
        "role": "img",
        "aria-label": description,
    }
    return element("svg", attrs, *children)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> Markup:
    """Return a text; the classes of ``kind`` give its size and colour."""
    attrs: Attrs = {"x": x, "y": y, "class": kind or None, "text-anchor": anchor}
    return element("text", attrs, words)


def upright(x: float, y: float, words: str, kind: str = "", anchor: str = "end") -> Markup:
    """Return a text that is written upwards."""
    turn = f"rotate(-90 {x:.2f} {y:.2f})"
    attrs: Attrs = {"x": x, "y": y, "class": kind or None, "text-anchor": anchor}
    return element("text", {**attrs, "transform": turn}, words)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a straight line."""
    return element("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": kind})


def rect(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    """Return a rectangle."""
    attrs: Attrs = {"x": x, "y": y, "width": width, "height": height, "class": kind}
    return element("rect", attrs)


def hue(subset: int | None) -> str:
    """Return the class of the colour of a subset; -1 is a feature without a subset.

    Examples
    --------
    >>> hue(0), hue(99), hue(-1), hue(None)
    ('s0', 'sx', 'sa', '')
    """
    if subset is None:
        return ""
    return "sa" if subset < 0 else f"s{subset}" if subset < len(COLOURS) else "sx"


def nats(value: float) -> str:
    """Return a number of nats as text.

    Examples
    --------
    >>> nats(0.12345), nats(float("nan")), nats(-0.00001), nats(1.5e-7)
    ('0.1235', 'unknown', '0', '0')
    """
    if math.isnan(value):
        return "unknown"
    return f"{value:.4f}" if abs(value) >= 5e-5 else "0"


def labels(names: Sequence[str], most: int) -> list[str]:
    """Return short forms of names for a drawing, which differ as far as possible."""
    tidy = [" ".join(clean(name).split()) for name in names]
    short = shortened(tidy, most)
    return [short[name] for name in tidy]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers between two numbers.

    Examples
    --------
    >>> [round(tick, 10) for tick in ticks(0, 0.47)]
    [0.0, 0.1, 0.2, 0.3, 0.4]
    """
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(n * power for n in (1, 2, 2.5, 5, 10, 20) if span / (n * power) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)]


def tick_label(value: float, others: Sequence[float]) -> str:
    """Return a number with the digits that tell it from the others.

    Examples
    --------
    >>> [tick_label(each, [0, 0.25, 0.5]) for each in (0, 0.25, 0.5)]
    ['0', '0.25', '0.5']
    """
    step = min((b - a for a, b in itertools.pairwise(others)), default=abs(value) or 1)
    digits = max(0, 1 - math.floor(math.log10(step))) if step > 0 else 2
    words = f"{value:.{digits}f}"
    words = words.rstrip("0").rstrip(".") if "." in words else words
    return "0" if words in ("-0", "") else words


def side_axis(low: float, high: float, top: float, bottom: float, left: float, right: float) -> str:
    """Return the grid and the numbers of a vertical axis, as markup."""
    marks = ticks(low, high)
    drawn = []
    for mark in marks:
        y = bottom - (mark - low) / (high - low) * (bottom - top) if high > low else bottom
        drawn.append(line(left, y, right, y, "grid"))
        drawn.append(text(left - 8, y + 4, tick_label(mark, marks), "tick", "end"))
    return Markup("".join(drawn))
