"""A matrix between features, sorted by subset."""

from __future__ import annotations

import json

from hofs_dask.results.report.content import Matrix
from hofs_dask.results.report.drawings.canvas import (
    LETTER,
    hue,
    labels,
    line,
    rect,
    svg,
    text,
    upright,
)
from hofs_dask.results.report.markup import Markup, clean, element, joined

#: Sizes of a cell and of the whole matrix, in units of the drawing.
LARGEST, SIDE = 30.0, 640.0
LETTERS = 18
#: Number of different shades.
LEVELS = 9


def draw_matrix(matrix: Matrix, description: str) -> Markup:
    """Return a matrix whose cells are darker for larger values, as SVG.

    Cells of the same shade are one path, so that a matrix of many features stays small.
    """
    n = len(matrix.blocks)
    cell = min(LARGEST, SIDE / max(n, 1))
    names = labels([block.name for block in matrix.blocks], LETTERS)
    is_named = cell >= 11
    room = 22 + (max(map(len, names), default=0) * LETTER if is_named else 0)
    side = n * cell
    paths: dict[int, list[str]] = {}
    for row, values in enumerate(matrix.values):
        start = 0
        levels = [_level(value) for value in values]
        for column in range(1, n + 1):
            if column == n or levels[column] != levels[start]:
                if levels[start] > 0:
                    x, y, wide = room + start * cell, room + row * cell, (column - start) * cell
                    path = f"M{x:.1f} {y:.1f}h{wide:.1f}v{cell:.1f}h-{wide:.1f}z"
                    paths.setdefault(levels[start], []).append(path)
                start = column
    drawn = [rect(room, room, side, side, "sheet")]
    for level, parts in sorted(paths.items()):
        drawn.append(element("path", {"d": "".join(parts), "class": f"q{level}"}))
    first = 0
    for position in range(1, n + 1):
        if position < n and matrix.blocks[position].subset == matrix.blocks[first].subset:
            continue
        at, wide = room + first * cell, (position - first) * cell
        colour = hue(matrix.blocks[first].subset)
        drawn.append(rect(at, at, wide, wide, f"frame {colour}"))
        drawn.append(rect(room - 8, at, 5, max(wide - 0.6, 0.6), f"full {colour}"))
        drawn.append(rect(at, room - 8, max(wide - 0.6, 0.6), 5, f"full {colour}"))
        first = position
    if is_named:
        for position, name in enumerate(names):
            at = room + (position + 0.5) * cell
            drawn.append(text(room - 14, at + 4, name, "name", "end"))
            drawn.append(upright(at + 4, room - 14, name, "name", "start"))
    drawn.append(line(room, room, room + side, room + side, "grid"))
    hit = element(
        "rect",
        {
            "x": room,
            "y": room,
            "width": side,
            "height": side,
            "class": "hit matrix",
            "data-names": json.dumps([clean(block.name) for block in matrix.blocks]),
            "data-values": "".join(f"{_percent(v):02d}" for row in matrix.values for v in row),
            "data-unit": matrix.unit,
        },
    )
    key = _key(room + side + 22, room, matrix.unit)
    return svg(room + side + 130, max(room + side + 6, room + 190), description, *drawn, key, hit)


def _key(x: float, y: float, unit: str) -> Markup:
    """Return the key of the shades."""
    drawn = [text(x, y + 4, unit, "label")]
    for level in range(LEVELS, 0, -1):
        top = y + 14 + (LEVELS - level) * 16
        drawn.append(rect(x, top, 16, 16, f"q{level}"))
    drawn += [
        text(x + 24, y + 18 + (1 - value) * LEVELS * 16, f"{value:g}", "tick")
        for value in (1.0, 0.5, 0.0)
    ]
    return joined(drawn)


def _level(value: float) -> int:
    """Return the shade of a value from 0 to 1, 0 for none; of a negative value, that of none."""
    if not value > 0.02:
        return 0
    return min(LEVELS, 1 + int(value * LEVELS))


def _percent(value: float) -> int:
    return min(99, max(0, round(100 * value))) if value == value else 0
