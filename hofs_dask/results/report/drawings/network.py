"""Features on a circle, and the tuples that interact as lines between them."""

from __future__ import annotations

import math

from hofs_dask.results.report.content import Network
from hofs_dask.results.report.drawings.canvas import LETTER, labels, svg, text
from hofs_dask.results.report.markup import Attrs, Markup, element, joined

RADIUS, LETTERS = 215.0, 18
#: With more features than this, names are written along the radius.
UPRIGHT = 26


def draw_network(network: Network, description: str) -> Markup:
    """Return a network as SVG."""
    n = max(len(network.knots), 1)
    names = labels([knot.name for knot in network.knots], LETTERS)
    room = 24 + LETTER * max(map(len, names), default=0)
    radius = max(RADIUS, n * 13 / (2 * math.pi)) if n > UPRIGHT else RADIUS
    cx, cy = room + radius, radius + (room if n > UPRIGHT else 30)
    angles = [2 * math.pi * k / n - math.pi / 2 for k in range(n)]
    places = [(cx + radius * math.cos(a), cy + radius * math.sin(a)) for a in angles]
    drawn = []
    for link in sorted(network.links, key=lambda each: each.share):
        (x1, y1), (x2, y2) = places[link.start], places[link.end]
        # the lines bend towards the centre, so that neighbours are joined by a visible line
        bend = f"M{x1:.1f} {y1:.1f}Q{(x1 + x2 + cx) / 3:.1f} {(y1 + y2 + cy) / 3:.1f}"
        feature = network.knots[link.start].feature, network.knots[link.end].feature
        drawn.append(
            element(
                "path",
                {
                    "d": f"{bend} {x2:.1f} {y2:.1f}",
                    "class": "link strong spot" if link.is_strong else "link spot",
                    "stroke-width": 1.2 + 6 * link.share,
                    "data-tip": link.words,
                    "data-f": " ".join(map(str, feature)),
                },
            )
        )
    for knot, name, angle, (x, y) in zip(network.knots, names, angles, places, strict=True):
        right = math.cos(angle) > -1e-9
        attrs = {"data-f": str(knot.feature), "data-tip": knot.name, "class": "spot"}
        point = element("circle", {"cx": x, "cy": y, "r": 6, "class": "point s0"})
        drawn.append(element("g", attrs, point, _name(x, y, name, angle, right=right, n=n)))
    height = cy + radius + (room if n > UPRIGHT else 30)
    return svg(cx + radius + room, height, description, joined(drawn))


def _name(x: float, y: float, name: str, angle: float, *, right: bool, n: int) -> Markup:
    out_x, out_y = 12 * math.cos(angle), 12 * math.sin(angle)
    if n <= UPRIGHT:
        flat = abs(math.cos(angle)) < 0.2
        anchor = "middle" if flat else "start" if right else "end"
        return text(
            x + out_x, y + out_y + 4 + (4 * math.sin(angle) if flat else 0), name, "name", anchor
        )
    turn = math.degrees(angle) + (0 if right else 180)
    place: Attrs = {"x": x + out_x, "y": y + out_y + 3.5, "class": "name"}
    anchor = "start" if right else "end"
    rotate = f"rotate({turn:.1f} {x + out_x:.1f} {y + out_y:.1f})"
    return element("text", {**place, "text-anchor": anchor, "transform": rotate}, name)
