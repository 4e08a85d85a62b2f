"""The relevance of all features in descending order, with the chosen features marked."""

from __future__ import annotations

from hofs_dask.results.report.content import Relevance
from hofs_dask.results.report.drawings.canvas import (
    WIDTH,
    hue,
    line,
    nats,
    side_axis,
    svg,
    text,
)
from hofs_dask.results.report.markup import Attrs, Markup, element, joined

LEFT, RIGHT, TOP, PLOT = 62.0, 18.0, 34.0, 210.0
#: More features than this are drawn as an area, not as bars.
BARS = 300
#: Points of the outline of the area, at most.
POINTS = 800
#: Least distance of two ranks that are written above their marks.
DISTANCE = 15.0
#: A bar that is narrower has a point at its top.
NARROW = 6.0


def draw_relevance(relevance: Relevance, description: str) -> Markup:
    """Return the relevance of all features, in descending order, as SVG."""
    values, bottom = relevance.values, TOP + PLOT
    n, room = max(len(values), 1), WIDTH - LEFT - RIGHT
    high = 1.08 * (max(values, default=0.0) or 1.0)
    slot = room / n

    def at(place: float, value: float) -> tuple[float, float]:
        return LEFT + (place + 0.5) * slot, bottom - max(value, 0.0) / high * PLOT

    drawn = [side_axis(0.0, high, TOP, bottom, LEFT, WIDTH - RIGHT)]
    chosen = {mark.place for mark in relevance.marks}
    if n <= BARS:
        paths = []
        for place, value in enumerate(values):
            if place not in chosen:
                x, y = at(place, value)
                half = max(0.36 * slot, 0.3)
                paths.append(f"M{x - half:.1f} {bottom:.1f}V{y:.1f}h{2 * half:.1f}V{bottom:.1f}z")
        drawn.append(element("path", {"d": "".join(paths), "class": "others"}))
    else:
        steps = sorted({round(k * (n - 1) / (POINTS - 1)) for k in range(POINTS)})
        outline = " ".join(f"{x:.1f} {y:.1f}" for x, y in (at(k, values[k]) for k in steps))
        path = f"M{LEFT} {bottom} L{outline} L{WIDTH - RIGHT} {bottom}z"
        drawn.append(element("path", {"d": path, "class": "others"}))
    distance = DISTANCE if len(relevance.marks) < 100 else 1.5 * DISTANCE
    last = -distance
    for mark in sorted(relevance.marks, key=lambda each: each.place):
        x, y = at(mark.place, mark.relevance)
        wide = min(max(0.72 * slot, 1.6), 46.0)
        colour = hue(mark.subset)
        tip = (
            f"{mark.name}\nrelevance {nats(mark.relevance)} nats, place {mark.place + 1} of {n}\n"
            f"chosen at rank {mark.rank}, subset {mark.subset}"
        )
        box = {"x": x - wide / 2, "y": y, "width": wide, "height": max(bottom - y, 1.0)}
        parts = [element("rect", {**box, "class": f"full {colour}"})]
        if wide < NARROW:
            top: Attrs = {"cx": x, "cy": y, "r": 3.2}
            parts.append(element("circle", {**top, "class": f"point {colour}"}))
        if x - last >= distance:
            parts.append(text(x, y - 8, str(mark.rank), "small", "middle"))
            last = x
        attrs = {"data-f": str(mark.feature), "data-tip": tip, "class": "spot"}
        drawn.append(element("g", attrs, *parts))
    drawn.append(line(LEFT, bottom, WIDTH - RIGHT, bottom, "base"))
    drawn.append(text(LEFT - 50, 12, "relevance (nats)", "label"))
    words = f"{len(values)} features, the most relevant first"
    drawn.append(text(WIDTH - RIGHT, bottom + 22, words, "label", "end"))
    return svg(WIDTH, bottom + 30, description, joined(drawn))
