"""The curve of information by rank, and the bar of what the features explain."""

from __future__ import annotations

import math

import numpy as np

from hofs_dask.results.epochs import restarts
from hofs_dask.results.report.content import Curve, Step, Whole
from hofs_dask.results.report.drawings.canvas import (
    LETTER,
    WIDTH,
    hue,
    labels,
    line,
    nats,
    rect,
    side_axis,
    svg,
    text,
    upright,
)
from hofs_dask.results.report.markup import Attrs, Markup, element, joined
from hofs_dask.results.style import RESTART_LABEL

LEFT, RIGHT, TOP, PLOT = 62.0, 18.0, 26.0, 270.0
#: Width of the gap at a restart, in units of the drawing, and the part that all gaps may take.
GAP, MOST_GAPS = 26.0, 0.4
#: Letters of a name, and the narrowest place for a name that is written upwards.
LETTERS, NARROWEST = 20, 12.5
#: The entropy of the target is on the axis if it is at most this many times the largest value.
NEAR = 1.7


def draw_curve(curve: Curve, description: str) -> Markup:
    """Return the curve of information, with bars of the gains, as SVG."""
    steps = curve.steps
    epochs = np.cumsum([step.starts_epoch for step in steps])
    marked = set(restarts(epochs))
    n_gaps = len(marked)
    room = WIDTH - LEFT - RIGHT
    gap = GAP if n_gaps * GAP <= MOST_GAPS * room else 0.0
    slot = (room - n_gaps * gap) / max(len(steps), 1)
    every = max(1, math.ceil(NARROWEST / slot))
    names = labels([step.name for step in steps], LETTERS)
    is_flat = all(len(name) * LETTER < slot - 6 for name in names)
    letters = max(map(len, names[::every]), default=0)
    height = TOP + PLOT + (30.0 if is_flat else 16 + letters * LETTER) + 20
    values = [value for step in steps for value in (step.gain, step.information)]
    high, low = max([*values, 0.0]), min([*values, 0.0])
    with_total = 0 < curve.total <= NEAR * high
    high = max(high, curve.total if with_total else 0.0) or 1.0
    high += 0.06 * (high - low)
    bottom = TOP + PLOT

    def y_of(value: float) -> float:
        return bottom - (value - low) / (high - low) * PLOT

    drawn = [side_axis(low, high, TOP, bottom, LEFT, WIDTH - RIGHT)]
    if with_total:
        drawn.append(line(LEFT, y_of(curve.total), WIDTH - RIGHT, y_of(curve.total), "total"))
    points: list[list[tuple[float, float, Step]]] = [[]]
    x = LEFT
    for number, (step, name) in enumerate(zip(steps, names, strict=True)):
        if step.starts_epoch:
            points.append([])
        if number in marked:
            drawn += _restart(x + gap / 2, bottom, is_wide=gap > 0)
            x += gap
        middle = x + slot / 2
        points[-1].append((middle, y_of(step.information), step))
        top, foot = sorted((y_of(step.gain), y_of(0.0)))
        wide = min(0.72 * slot, 46.0)
        bar = rect(middle - wide / 2, top, wide, max(foot - top, 0.5), f"gain {hue(step.subset)}")
        hit = rect(x, TOP, slot, PLOT, "hit")
        tip = (
            f"{step.rank}. {step.name}\nadded {nats(step.gain)} nats\n"
            f"information {nats(step.information)} nats\nsubset {step.subset}"
        )
        attrs = {"data-f": str(step.feature), "data-tip": tip, "class": "spot"}
        drawn.append(element("g", attrs, hit, bar))
        if number % every == 0 and is_flat:
            drawn.append(text(middle, bottom + 18, name, "name", "middle"))
        elif number % every == 0:
            drawn.append(upright(middle + 4, bottom + 10, name, "name"))
        x += slot
    for part in points:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in part)
        drawn.append(element("polyline", {"points": path, "class": "curve"}))
    size = 5.5 if slot >= 14 else 3.6 if slot >= 7 else 2.4
    for x, y, step in (each for part in points for each in part):
        at: Attrs = {"cx": x, "cy": y, "r": size, "data-f": str(step.feature)}
        drawn.append(element("circle", {**at, "class": f"point {hue(step.subset)}"}))
        if slot >= 18:
            drawn.append(text(x, y - 10, str(step.subset), "small", "middle"))
    if with_total:
        words = f"everything there is to know: {nats(curve.total)} nats"
        drawn.append(text(LEFT + 6, y_of(curve.total) - 6, words, "label"))
    drawn.append(line(LEFT, y_of(0.0), WIDTH - RIGHT, y_of(0.0), "base"))
    drawn.append(text(LEFT - 50, 12, "information (nats)", "label"))
    some = "" if every == 1 else f", one of {every} named"
    drawn.append(text(WIDTH - RIGHT, height - 4, f"features by rank{some}", "label", "end"))
    return svg(WIDTH, height, description, joined(drawn))


def _restart(x: float, bottom: float, *, is_wide: bool) -> list[Markup]:
    """Return the mark of a restart, with its words if there is room."""
    drawn = [line(x, TOP, x, bottom, "restart")]
    if is_wide:
        drawn.insert(0, rect(x - GAP / 2 + 3, TOP, GAP - 6, bottom - TOP, "band"))
        drawn[1] = upright(x + 4, TOP + 6, RESTART_LABEL, "small")
    return drawn


def draw_whole(whole: Whole, description: str) -> Markup:
    """Return a bar of the entropy of the target, with the part of each feature, as SVG."""
    height, y, tall = 74.0, 22.0, 26.0
    scale = WIDTH / whole.total
    drawn = [rect(0, y, WIDTH, tall, "rest")]
    x = 0.0
    for part in whole.parts:
        wide = min(max(part.nats, 0.0) * scale, WIDTH - x)
        share = part.nats / whole.total
        tip = f"{part.name}\nadded {nats(part.nats)} nats, {share:.1%} of the entropy"
        attrs = {"data-f": str(part.feature), "data-tip": tip, "class": "spot"}
        gap = 1.0 if wide > 3 else 0.0
        drawn.append(
            element("g", attrs, rect(x, y, max(wide - gap, 0.3), tall, f"full {hue(part.subset)}"))
        )
        x += wide
    known = sum(max(part.nats, 0.0) for part in whole.parts)
    drawn.append(line(x, y - 6, x, y + tall + 6, "edge"))
    explained = f"explained: {nats(known)} nats ({known / whole.total:.0%})"
    left = f"not explained: {nats(whole.total - known)} nats"
    drawn.append(text(0, 12, f"entropy of {whole.target}: {nats(whole.total)} nats", "label"))
    drawn.append(text(0, y + tall + 20, explained, "label"))
    drawn.append(text(WIDTH, y + tall + 20, left, "label", "end"))
    return svg(WIDTH, height, description, joined(drawn))
