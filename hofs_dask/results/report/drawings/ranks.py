"""The ranks of several methods side by side, and lines by rank."""

from __future__ import annotations

from hofs_dask.results.report.content import Lines, Place, Ranks
from hofs_dask.results.report.drawings.canvas import (
    LETTER,
    WIDTH,
    hue,
    labels,
    line,
    rect,
    side_axis,
    svg,
    text,
)
from hofs_dask.results.report.markup import Markup, element, joined

LEFT, TOP, ROW = 34.0, 30.0, 24.0
LEAST, MOST = 118.0, 210.0
#: Part of the width of a column that a cell takes.
CELL = 0.72


def draw_ranks(ranks: Ranks, description: str) -> Markup:
    """Return the chosen features of all methods by rank, joined by lines, as SVG."""
    n_columns = max(len(ranks.columns), 1)
    column = min(MOST, max(LEAST, (WIDTH - LEFT) / n_columns))
    wide, n_rows = CELL * column, max(map(len, ranks.columns), default=0)
    places = {each.feature: each for rows in ranks.columns for each in rows if each}
    short = dict(
        zip(
            places,
            labels([each.name for each in places.values()], int((wide - 12) / LETTER)),
            strict=True,
        )
    )
    drawn = [
        text(LEFT - 10, TOP + (rank + 0.5) * ROW + 4, str(rank + 1), "tick", "end")
        for rank in range(n_rows)
    ]
    heads = labels(ranks.labels, int(column / LETTER))
    for number, head in enumerate(heads):
        drawn.append(text(LEFT + number * column + wide / 2, 16, head, "head", "middle"))
    for number in range(n_columns - 1):
        drawn += _links(ranks, number, column, wide)
    for number, rows in enumerate(ranks.columns):
        for rank, place in enumerate(rows):
            if place is not None:
                x, y = LEFT + number * column, TOP + rank * ROW
                drawn.append(_cell(place, x, y, wide, short[place.feature], ranks))
    return svg(
        LEFT + (n_columns - 1) * column + wide + 4,
        TOP + n_rows * ROW + 6,
        description,
        joined(drawn),
    )


def _cell(place: Place, x: float, y: float, wide: float, name: str, ranks: Ranks) -> Markup:
    kind = "name strong" if place.feature in ranks.shared else "name"
    found = [
        f"{label}: {row + 1}"
        for label, rows in zip(ranks.labels, ranks.columns, strict=True)
        for row, each in enumerate(rows)
        if each is not None and each.feature == place.feature
    ]
    tip = f"{place.name}\nrank by {', '.join(found)}"
    attrs = {"data-f": str(place.feature), "data-tip": tip, "class": "spot"}
    box = rect(x, y + 2, wide, ROW - 4, f"cell {hue(place.subset)}")
    return element("g", attrs, box, text(x + wide / 2, y + ROW / 2 + 4, name, kind, "middle"))


def _links(ranks: Ranks, number: int, column: float, wide: float) -> list[Markup]:
    """Return the lines between the same features of two neighbouring methods."""
    there = {each.feature: row for row, each in enumerate(ranks.columns[number + 1]) if each}
    start, drawn = LEFT + number * column + wide, []
    end, bend = LEFT + (number + 1) * column, 0.5 * (column - wide)
    for row, each in enumerate(ranks.columns[number]):
        if each is None or each.feature not in there:
            continue
        y1, y2 = (TOP + (rank + 0.5) * ROW for rank in (row, there[each.feature]))
        path = f"M{start:.1f} {y1:.1f}C{start + bend:.1f} {y1:.1f} "
        path += f"{end - bend:.1f} {y2:.1f} {end:.1f} {y2:.1f}"
        kind = f"join {hue(each.subset)}{' strong' if each.feature in ranks.shared else ''}"
        drawn.append(element("path", {"d": path, "class": kind, "data-f": str(each.feature)}))
    return drawn


def draw_lines(lines: Lines, description: str) -> Markup:
    """Return lines of numbers from 0 to 1 by rank, as SVG."""
    left, top, plot = 62.0, 16.0, 220.0
    right = 30 + LETTER * max((len(name) for name in _ends(lines)), default=0)
    bottom = top + plot
    n = max((len(each.values) for each in lines.lines), default=1)
    room = WIDTH - left - right
    drawn = [side_axis(0.0, 1.0, top, bottom, left, WIDTH - right)]
    ends: list[tuple[float, int]] = []
    for number, each in enumerate(lines.lines):
        points = [
            (left + (rank + 0.5) / n * room, bottom - value * plot)
            for rank, value in enumerate(each.values)
            if value == value
        ]
        if not points:
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(element("polyline", {"points": path, "class": f"trend {hue(number)}"}))
        for rank, (x, y) in enumerate(points):
            tip = f"{each.label}\nrank {rank + 1}: {each.values[rank]:.2f}"
            kind = f"point spot {hue(number)}"
            at = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3.4"}
            drawn.append(element("circle", {**at, "class": kind, "data-tip": tip}))
        ends.append((points[-1][1], number))
    lowest = -100.0
    names = _ends(lines)
    for y, number in sorted(ends):
        lowest = max(y, lowest + 15)
        x = WIDTH - right + 6
        drawn.append(rect(x, lowest - 4, 10, 8, f"full {hue(number)}"))
        drawn.append(text(x + 15, lowest + 4, names[number], "name"))
    drawn.append(line(left, bottom, WIDTH - right, bottom, "base"))
    every = max(1, -(-n // 30))
    for rank in range(0, n, every):
        x = left + (rank + 0.5) / n * room
        drawn.append(text(x, bottom + 16, str(rank + 1), "tick", "middle"))
    drawn.append(text(WIDTH - right, bottom + 34, "rank", "label", "end"))
    height = max(bottom + 40, lowest + 20)
    return svg(WIDTH, height, description, joined(drawn))


def _ends(lines: Lines) -> list[str]:
    return labels([each.label for each in lines.lines], 22)
