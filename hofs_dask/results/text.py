"""The printout of a selection, which fits on one screen, and its table."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hofs_dask.results.datasets import coordinate_label, feature_coordinates

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Explanations of the notes of the table, and of a gain of zero.
TOGETHER = (
    "with the next: these features were chosen together, because they have information about\n"
    "the target only together. The gain of the last one is that of all."
)
CUT_OFF = (
    "partner cut off: this feature was chosen together with others that are not in this result,\n"
    "and says little without them."
)
RESTART = (
    "restart: no remaining feature adds enough information to the features chosen so far.\n"
    "The remaining features are ranked again, and information starts again from zero."
)
NO_GAIN = (
    "gain 0: the gain does not exceed the selection penalty, so the order of these features\n"
    "means little. With min_gain=0.001 the search stops before them."
)

NOT_SIGNIFICANT = (
    "end: no remaining feature depends significantly on the target, given the chosen ones\n"
    "(alpha={alpha:g} for all remaining features together)."
)
# Columns of the table that are aligned to the right.
NUMBERS = ("rank", "subset", "gain", "information", "relevance", "margin", "p_value")

# Limits of the printout, so that it fits on one screen.
WIDTH = 88
SHOWN_SUBSETS = 10
SHOWN_RANKS = 20
SHOWN_LETTERS = 24
# Smaller p-values are shown as "<1e-300".
SMALLEST_P = 1e-300
# Floats with more characters are rounded.
LONG_NUMBER = 8


def as_text(dataset: xr.Dataset) -> str:
    """Return the printout: the summary, the first subsets and the first ranks.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> result = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
    >>> as_text(result.to_dataset()).splitlines()[-2:]
    ['rank  feature  subset    gain  information  relevance  margin',
     '   1  b             0  0.5000       0.5000     0.5000  0.4000']
    """
    lines = [*summary(dataset), ""]
    subsets = subsets_of(dataset)
    width = len(str(min(len(subsets), SHOWN_SUBSETS) - 1))
    for number, names in enumerate(subsets[:SHOWN_SUBSETS]):
        label = f"subset {number:<{width}}  "
        lines.append(label + fitted(texts(names), WIDTH - len(label)))
    lines += filter(None, [left_out({"subset": len(subsets) - SHOWN_SUBSETS}, ".subsets")])
    lines += [""] if subsets else []
    rows = list(table(dataset, SHOWN_RANKS))
    lines.extend(aligned(rows, [side(column) for column in rows[0]]))
    more = left_out({"rank": dataset.sizes["rank"] - SHOWN_RANKS}, ".to_dataframe()")
    return "\n".join([*lines, *filter(None, [more]), *remarks(dataset)])


def summary(dataset: xr.Dataset) -> list[str]:
    """Return the summary lines: number of features, method, data and options.

    Examples
    --------
    >>> from hofs_dask.results.selection import Selection
    >>> attrs = {"method": "mim", "n_samples": 1, "n_classes": 2}
    >>> result = Selection.from_picks([], names=["a", "b"], relevance=[0.1, 0.5], attrs=attrs)
    >>> summary(result.to_dataset())
    ['0 of 2 features in 0 subsets, selected by mim', '1 sample, 2 classes; information in nats']
    """
    attrs = dataset.attrs
    headline = (
        f"{dataset.sizes['rank']} of {counted(dataset.sizes['feature'], 'feature')} "
        f"in {counted(len(subsets_of(dataset)), 'subset')}, "
        f"selected by {attrs.get('method', 'hand')}"
    )
    details = "; ".join(filter(None, [", ".join(facts(attrs)), "information in nats"]))
    options = json.loads(attrs.get("options", "{}"))
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    more = [", ".join(given), grouped(attrs), unusable(dataset)]
    return [headline, details, *filter(None, more), *notes_of(attrs)]


def grouped(attrs: Mapping[str, Any]) -> str:
    """Return a line about the groups of the samples, or an empty string.

    Examples
    --------
    >>> grouped({"groups": "subject", "n_groups": 40, "cross_fitted": 1})
    '40 groups of subject: all samples of a group are in one fold'
    """
    if "groups" not in attrs:
        return ""
    use = (
        "all samples of a group are in one fold"
        if attrs.get("cross_fitted")
        else "the method has no folds and ranks on all rows"
    )
    name = "" if attrs["groups"] == "groups" else f" of {attrs['groups']}"
    return f"{counted(attrs['n_groups'], 'group')}{name}: {use}"


def notes_of(attrs: Mapping[str, Any]) -> list[str]:
    """Return the notes about the data, such as what was left out when it was read, as lines.

    Examples
    --------
    >>> notes_of({"notes": "where leaves out 7 samples"})
    ['note: where leaves out 7 samples']
    """
    return [
        line
        for note in attrs.get("notes", "").splitlines()
        for line in textwrap.wrap(f"note: {note}", WIDTH, subsequent_indent="  ")
    ]


def weighted(attrs: Mapping[str, Any]) -> str:
    """Return a phrase about the weights of the samples, or an empty string.

    Examples
    --------
    >>> weighted({"weights": "area", "effective_size": 812.34})
    ' weighted by area (812.3 effective)'
    >>> weighted({"weights": "weights", "effective_size": 33510.4})
    ' weighted (33510 effective)'
    """
    if "weights" not in attrs:
        return ""
    name = "" if attrs["weights"] == "weights" else f" by {attrs['weights']}"
    size = attrs["effective_size"]
    return f" weighted{name} ({size:{'.0f' if size >= 1000 else '.4g'}} effective)"


def unusable(dataset: xr.Dataset) -> str:
    """Return a line with the constant and all-missing features, or an empty string.

    Examples
    --------
    >>> import xarray as xr
    >>> unusable(xr.Dataset({"usable": ("feature", [True, False])}, {"feature": ["a", "b"]}))
    '1 feature is constant or all missing: b'
    """
    names = texts(dataset["feature"].values[~dataset["usable"].values].tolist())
    if not names:
        return ""
    label = f"{counted(len(names), 'feature is', 'features are')} constant or all missing: "
    short = shortened(names[:WIDTH], SHOWN_LETTERS)
    return label + fitted([short.get(name, name) for name in names], WIDTH - len(label))


def facts(attrs: Mapping[str, Any]) -> list[str]:
    """Return phrases with the numbers of samples and classes, if the attributes have them.

    Examples
    --------
    >>> facts({"n_samples": 1, "n_classes": 2, "target": "crop"})
    ['1 sample', '2 classes of crop']
    """
    found = []
    if "n_samples" in attrs:
        dropped = attrs.get("n_dropped", 0)
        note = f" ({dropped} without a target dropped)" if dropped else ""
        found.append(counted(attrs["n_samples"], "sample") + weighted(attrs) + note)
    if "n_classes" in attrs:
        classes = counted(attrs["n_classes"], "class", "classes")
        target = attrs.get("target")
        if target is not None and attrs.get("target_kind") == "continuous":
            found.append(f"continuous {target} in {classes}")
        else:
            found.append(classes if target is None else f"{classes} of {target}")
    if attrs.get("n_absent_chunks"):
        chunks = counted(attrs["n_absent_chunks"], "chunk")
        found.append(f"{chunks} of the data absent and read as fill value")
    return found


def subsets_of(dataset: xr.Dataset) -> list[list[Any]]:
    """Return the names of the chosen features by subset; subsets and names are sorted by rank.

    Examples
    --------
    >>> import xarray as xr
    >>> chosen = {"selected": ("rank", ["a", "b", "c"]), "subset": ("rank", [0, 1, 0])}
    >>> subsets_of(xr.Dataset(chosen))
    [['a', 'c'], ['b']]
    """
    numbers, names = (dataset[name].values.tolist() for name in ("subset", "selected"))
    subsets: dict[int, list[Any]] = {}
    for number, name in zip(numbers, names, strict=True):
        subsets.setdefault(number, []).append(name)
    return list(subsets.values())


def frame(dataset: xr.Dataset) -> pd.DataFrame:
    """Return the complete table as a data frame, one row per rank.

    It has p-values if any feature was tested.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4, forced=True)
    >>> result = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
    >>> frame(result.to_dataset())[["feature", "subset", "margin", "note"]]
      feature  subset  margin      note
    0       b       0     NaN  included
    """
    import pandas as pd

    forced = dataset["forced"].values
    fresh = np.diff(dataset["epoch"].values, prepend=0) > 0
    later = dataset["together"].values > 0
    is_last = np.arange(len(later)) == len(later) - 1
    words = {
        "included": forced,
        "restart": fresh,
        "with the next": later & ~is_last,
        "partner cut off": later & is_last,
    }
    notes = [
        "; ".join(word for word, true in words.items() if true[row]) for row in range(len(forced))
    ]
    index, p = dataset["index"].values, dataset["p_value"].values
    return pd.DataFrame(
        {
            "rank": dataset["rank"].values,
            "feature": dataset["selected"].values.tolist(),
            **{name: dataset[name].values[index] for name in _further(dataset)},
            "subset": dataset["subset"].values,
            "gain": dataset["gain"].values,
            "information": dataset["information"].values,
            "relevance": dataset["relevance"].values[index],
            "margin": np.where(forced, np.nan, dataset["margin"].values),
            **({} if np.isnan(p).all() else {"p_value": p}),
            "note": notes,
        }
    )


def table(dataset: xr.Dataset, limit: int) -> Iterator[list[str]]:
    """Yield the header and one row per rank as text; an empty column of notes is omitted.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> result = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
    >>> header, row = table(result.to_dataset(), limit=20)
    >>> row
    ['1', 'b', '0', '0.5000', '0.5000', '0.5000', '0.4000']
    """
    shown = frame(dataset)[:limit]
    if not any(shown["note"]):
        shown = shown.drop(columns="note")
    further = _further(dataset)
    columns = {name: _cells(name, shown[name].tolist(), further) for name in shown.columns}
    titles = {name: coordinate_label(dataset, name) for name in ["feature", *further]}
    rows = {name: [titles.get(name, name), *cells] for name, cells in columns.items()}
    while further and sum(max(map(len, each)) + 2 for each in rows.values()) - 2 > WIDTH:
        del rows[further.pop()]
    yield from map(list, zip(*rows.values(), strict=True))


def _further(dataset: xr.Dataset) -> list[str]:
    """Return the names of the coordinates along the features, without the feature names."""
    dim = dataset.attrs.get("feature_dim")
    return [name for name in feature_coordinates(dataset) if name != dim]


def _cells(column: str, values: list[Any], further: Sequence[str]) -> list[str]:
    """Return the values of a column of the table as text."""
    if column == "feature" or column in further:
        return texts(values)
    if column in ("gain", "information", "relevance", "margin"):
        return [_nats(value) for value in values]
    if column == "p_value":
        return ["-" if np.isnan(value) else p_text(value, 1) for value in values]
    return [str(value) for value in values]


def texts(names: Sequence[Any]) -> list[str]:
    """Return names as text; long floats are rounded, unless different names would become equal.

    Examples
    --------
    >>> texts([412.4999961853027, 400.0, "red"])
    ['412.5', '400.0', 'red']
    >>> texts([0.12345678901, 0.12345678902])
    ['0.12345678901', '0.12345678902']
    """
    whole = [str(name) for name in names]
    short = [
        f"{name:.6g}" if isinstance(name, float) and len(text) > LONG_NUMBER else text
        for name, text in zip(names, whole, strict=True)
    ]
    return short if len(set(short)) == len(set(whole)) else whole


def labels(names: Sequence[Any]) -> list[str]:
    r"""Return names as text for figures and pages: the parts of a tuple alone, in one line.

    Examples
    --------
    >>> labels([("sst", "time-1"), ("T", 500.0), "two\nlines"])
    ['sst time-1', 'T 500.0', 'two lines']
    >>> labels([("a b", "c"), ("a", "b c")])
    ["('a b', 'c')", "('a', 'b c')"]
    """
    whole = texts(names)
    short = [
        " ".join(" ".join(texts(name) if isinstance(name, tuple) else [text]).split())
        for name, text in zip(names, whole, strict=True)
    ]
    return short if len(set(short)) == len(set(whole)) else whole


def fitted(names: list[str], width: int) -> str:
    """Return a line with the names that fit the width, and the number of the other names.

    Examples
    --------
    >>> fitted(["red", "green", "blue", "infrared"], width=20)
    'red ... +3'
    >>> fitted(["mean area", "worst area"], width=30)
    'mean area, worst area'
    """
    between = ", " if any(" " in name for name in names) else " "
    line = between.join(names)
    if len(line) <= width:
        return line
    shown = names[:width]  # a name has at least one letter
    while len(shown) > 1 and len(between.join(shown)) > width - 12:
        shown.pop()
    more = len(names) - len(shown)
    return f"{between.join(shown)} ... +{more}" if more else line


def remarks(dataset: xr.Dataset) -> list[str]:
    """Return texts that explain tuples, restarts, zero gains, and why the search ended.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> picks = [Pick(0, 0, 0.5, 0.5, 0.5, 0.1), Pick(1, 1, 0.1, 0.0, 0.0, 0.1, epoch=1)]
    >>> attrs = {"method": "hofs"}
    >>> result = Selection.from_picks(picks, names=["a", "b"], relevance=[0.5, 0.1], attrs=attrs)
    >>> [line.split(":")[0] for line in remarks(result.to_dataset())]
    ['restart', 'gain 0']
    """
    shown = dataset.isel(rank=slice(SHOWN_RANKS))
    later = shown["together"].values > 0
    idle = (shown["gain"].values == 0) & ~shown["forced"].values & ~later
    said = {
        TOGETHER: bool(later[: dataset.sizes["rank"] - 1].any()),
        CUT_OFF: 0 < len(later) == dataset.sizes["rank"] and bool(later[-1]),
        RESTART: bool((shown["epoch"].values > 0).any()),
        NO_GAIN: dataset.attrs.get("method") == "hofs" and bool(idle.any()),
    }
    lines = [line for line, true in said.items() if true]
    if "alpha" in dataset.attrs:
        lines.append(NOT_SIGNIFICANT.format(alpha=dataset.attrs["alpha"]))
    return lines


def p_text(value: float, digits: int) -> str:
    """Return a p-value as text; the smallest ones are zero as floats.

    Examples
    --------
    >>> p_text(0.0123, 1), p_text(0.0123, 2), p_text(0.0, 1)
    ('0.01', '0.012', '<1e-300')
    """
    return "<1e-300" if value < SMALLEST_P else f"{value:.{digits}g}"


def side(column: str) -> str:
    """Return the alignment of a column of the table.

    Examples
    --------
    >>> side("feature"), side("gain")
    ('left', 'right')
    """
    return "right" if column in NUMBERS else "left"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with a noun in the singular or plural.

    Examples
    --------
    >>> counted(1, "class", "classes"), counted(2, "scan")
    ('1 class', '2 scans')
    """
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def left_out(missing: Mapping[str, int], where: str) -> str:
    """Return a line that says how many items are not shown and where to see them, or "".

    Examples
    --------
    >>> left_out({"rank": 10, "method": 1}, ".to_dataframe()")
    '... and 10 more ranks and 1 more method: .to_dataframe()'
    >>> left_out({"rank": 0}, ".to_dataframe()")
    ''
    """
    parts = [counted(number, f"more {name}") for name, number in missing.items() if number > 0]
    return f"... and {' and '.join(parts)}: {where}" if parts else ""


def aligned(rows: list[list[str]], sides: list[str]) -> Iterator[str]:
    """Yield the rows as lines with aligned columns.

    Examples
    --------
    >>> list(aligned([["rank", "feature"], ["1", "b"]], ["right", "left"]))
    ['rank  feature', '   1  b']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(sides))]
    for row in rows:
        cells = (
            value.ljust(width) if where == "left" else value.rjust(width)
            for value, width, where in zip(row, widths, sides, strict=True)
        )
        yield "  ".join(cells).rstrip()


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Return a short form of every name, with as few equal short forms as possible.

    Two dots replace the inner letters of a long name. All long names keep the same number of last
    letters, which is about half of the letters that are kept, unless another number tells more
    names apart.

    Examples
    --------
    >>> shortened(["area", "mean smoothness", "mean compactness"], 8)
    {'area': 'area', 'mean smoothness': 'm..hness', 'mean compactness': 'm..tness'}
    """
    given, room = list(names), width - 2

    def cut(name: str, n_last: int) -> str:
        if len(name) <= width:
            return name
        return f"{name[: room - n_last]}..{name[len(name) - n_last :]}"

    middle_first = sorted(range(room + 1), key=lambda n_last: abs(2 * n_last - room))
    best = max(middle_first, key=lambda n_last: len({cut(name, n_last) for name in given}))
    return {name: cut(name, best) for name in given}


def share(value: float) -> str:
    """Return a fraction with two decimals, or a dash for NaN (the stability of one resample).

    Examples
    --------
    >>> share(0.456), share(float("nan"))
    ('0.46', '-')
    """
    return "-" if np.isnan(value) else f"{value:.2f}"


def _nats(value: float) -> str:
    """Return a number with four decimals, or a dash for NaN (a margin without a runner-up)."""
    return "-" if np.isnan(value) else f"{value:.4f}"
