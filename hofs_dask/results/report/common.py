"""Sections that several reports have: relevance, data, and how the result was made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hofs_dask.results.datasets import coordinate_label, feature_coordinates
from hofs_dask.results.report.content import (
    Cell,
    Column,
    Fact,
    Facts,
    Mark,
    Picture,
    Relevance,
    Section,
    Table,
    Text,
)
from hofs_dask.results.report.drawings.canvas import nats
from hofs_dask.results.report.markup import clean
from hofs_dask.results.text import counted, grouped, labels, texts, weighted

if TYPE_CHECKING:
    import xarray as xr

#: Rows of the table of all features. The rest is left out, so that pages stay small.
SHOWN_FEATURES = 1000
#: Names in a sentence or a fact.
SHOWN_NAMES = 40


def names_of(dataset: xr.Dataset) -> list[str]:
    """Return the names of all features as text, by position."""
    return list(map(clean, labels(dataset["feature"].values.tolist())))


def target_of(attrs: Mapping[str, Any]) -> str:
    """Return the name of the target."""
    return clean(str(attrs.get("target", "the target")))


def entropy_of(attrs: Mapping[str, Any]) -> float:
    """Return the entropy of the target in nats, NaN if it is unknown."""
    return float(attrs.get("label_entropy", np.nan))


def options_of(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the options of the method by name, or those of all methods by label."""
    options: dict[str, Any] = json.loads(dataset.attrs.get("options", "{}"))
    return options


def listed(names: Sequence[str]) -> str:
    """Return names in one line, the first ones only if there are many.

    Examples
    --------
    >>> listed(["a", "b"]), listed(list("abc") * 20)[-11:]
    ('a, b', 'a + 20 more')
    """
    more = len(names) - SHOWN_NAMES
    line = ", ".join(names[:SHOWN_NAMES])
    return f"{line} + {more} more" if more > 0 else line


def relevance_section(
    dataset: xr.Dataset,
    subset: Mapping[int, int],
    rank: Mapping[int, int],
    chosen: str,
    marked: str = "chosen features",
    remark: str = "A relevant feature is not chosen if the features chosen before it already "
    "contain its information.",
) -> Section:
    """Return the section with the relevance of all features.

    Parameters
    ----------
    dataset : xarray.Dataset
        The Dataset of a result.
    subset, rank : mapping
        The subset and the rank of each marked feature, by position.
    chosen : str
        The title of the column of ranks.
    marked : str
        What the marked features are.
    remark : str
        A sentence about relevant features that are not marked.
    """
    names, values = names_of(dataset), dataset["relevance"].values
    usable = dataset["usable"].values
    order = np.argsort(np.where(usable, -values, np.inf), kind="stable").tolist()
    place = {feature: position for position, feature in enumerate(order)}
    marks = tuple(
        Mark(names[j], j, subset[j], rank[j], place[j], float(values[j]))
        for j in sorted(rank, key=rank.__getitem__)
    )
    shown = [j for j in order if place[j] < SHOWN_FEATURES or j in rank]
    table = _features_table(dataset, names, shown, subset, rank, chosen)
    words = (
        "The relevance is the information of a single feature about "
        f"{target_of(dataset.attrs)}. {remark}"
    )
    top = names[order[0]] if order else "none"
    picture = Picture(
        Relevance(tuple(values[order].tolist()), marks),
        f"Relevance of all features; {marked} are coloured",
        f"Bars in descending order; the most relevant feature is {top} with "
        f"{nats(float(values[order[0]])) if order else 0} nats. "
        f"{counted(len(marks), 'feature')} marked. The table has all values.",
        (f"Coloured bars are {marked}, with their rank above. Faint bars are all others.",),
        table,
    )
    return Section("relevance", "All features", (Text(words), picture))


def _features_table(
    dataset: xr.Dataset,
    names: Sequence[str],
    shown: Sequence[int],
    subset: Mapping[int, int],
    rank: Mapping[int, int],
    chosen: str,
) -> Table:
    values, usable = dataset["relevance"].values, dataset["usable"].values
    top = float(np.nanmax(values, initial=0.0)) or 1.0
    missing = dataset["missing"].values if "missing" in dataset else None
    further = further_coordinates(dataset)
    columns = [Column(coordinate_label(dataset, "feature"))]
    columns += [Column(coordinate_label(dataset, name)) for name in further]
    columns += [Column("relevance", is_number=True), Column(chosen, is_number=True)]
    columns += [Column("missing", is_number=True)] if missing is not None else []
    columns += [Column("note")] if not usable.all() else []
    values_of = {name: texts(dataset[name].values.tolist()) for name in further}
    rows = []
    for j in shown:
        value = float(values[j])
        row = [Cell(names[j], feature=j, subset=subset.get(j))]
        row += [Cell(values_of[name][j]) for name in further]
        row += [
            Cell(nats(value), value, share=value / top),
            Cell(str(rank[j]), rank[j]) if j in rank else Cell("", np.nan),
        ]
        if missing is not None:
            row.append(Cell(percent(missing[j]), float(missing[j])))
        if not usable.all():
            row.append(Cell("" if usable[j] else "constant or all missing"))
        rows.append(tuple(row))
    left = len(names) - len(shown)
    remark = f"{counted(left, 'feature')} with less relevance not shown." if left else ""
    return Table(
        f"relevance of {counted(len(names), 'feature')}, in nats",
        tuple(columns),
        tuple(rows),
        remark,
        is_folded=True,
    )


def further_coordinates(dataset: xr.Dataset) -> list[str]:
    """Return the names of the coordinates along the features, without that of their names."""
    dim = dataset.attrs.get("feature_dim")
    return [name for name in feature_coordinates(dataset) if name != dim]


def percent(share: float) -> str:
    """Return a share in percent; a small share is not rounded to nothing.

    Examples
    --------
    >>> percent(0.25), percent(0.0), percent(1e-5), percent(0.99999)
    ('25 %', '0 %', '< 0.1 %', '> 99.9 %')
    """
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f}".rstrip("0").rstrip(".") + " %"


def data_section(dataset: xr.Dataset) -> Section:
    """Return the section that describes the samples, the target and the features."""
    attrs = dataset.attrs
    facts = [*_sample_facts(attrs), *_target_facts(attrs), *_feature_facts(dataset)]
    notes = [Text(note, is_remark=True) for note in attrs.get("notes", "").splitlines()]
    classes = _classes_table(attrs)
    return Section("data", "Data", (Facts(tuple(facts)), *classes, *notes))


def _sample_facts(attrs: Mapping[str, Any]) -> list[Fact]:
    found = []
    if "n_samples" in attrs:
        found.append(Fact("samples", f"{attrs['n_samples']:,}", weighted(attrs).strip()))
    if "n_dropped" in attrs:
        found.append(
            Fact("samples dropped, because they have no target", f"{attrs['n_dropped']:,}")
        )
    if grouped(attrs):
        found.append(Fact("groups of samples", f"{attrs['n_groups']:,}", grouped(attrs)))
    if attrs.get("n_absent_chunks"):
        remark = "read as the fill value"
        found.append(Fact("chunks absent from the data", f"{attrs['n_absent_chunks']:,}", remark))
    return found


def _target_facts(attrs: Mapping[str, Any]) -> list[Fact]:
    found = []
    if "target" in attrs:
        found.append(Fact("target", target_of(attrs), _classes_of(attrs)))
    if "label_entropy" in attrs:
        remark = "the information that is needed to know the target of a sample"
        found.append(Fact("entropy of the target", f"{nats(entropy_of(attrs))} nats", remark))
    return found


def _classes_of(attrs: Mapping[str, Any]) -> str:
    """Return a phrase about the classes of the target."""
    if "n_classes" not in attrs:
        return ""
    classes = counted(attrs["n_classes"], "class", "classes")
    kinds = {"ordinal": "in order", "continuous": "of equal numbers of samples, from numbers"}
    return f"{classes} {kinds.get(str(attrs.get('target_kind')), '')}".strip()


def _feature_facts(dataset: xr.Dataset) -> list[Fact]:
    names, usable = names_of(dataset), dataset["usable"].values
    found = [Fact("features", f"{len(names):,}")]
    idle = [names[j] for j in np.flatnonzero(~usable).tolist()]
    found.append(Fact("constant or all missing", f"{len(idle):,}", listed(idle)))
    if "missing" in dataset:
        missing = dataset["missing"].values
        holes = np.flatnonzero(missing > 0)
        worst = holes[np.argsort(-missing[holes], kind="stable")].tolist()
        remark = listed([f"{names[j]} ({percent(float(missing[j]))})" for j in worst])
        found.append(Fact("features with missing values", f"{len(holes):,}", remark))
    if "n_columns" in dataset.attrs:
        n_more = int(dataset.attrs["n_columns"]) - len(names)
        remark = "excluded, skipped, or used as the target"
        found.append(Fact("columns of the data that are not features", f"{n_more:,}", remark))
    return found


def _classes_table(attrs: Mapping[str, Any]) -> list[Table]:
    """Return the table of the classes of the target, if the result has their sizes."""
    if "classes" not in attrs:
        return []
    sizes: list[list[Any]] = json.loads(attrs["classes"])
    total = sum(size for _, size in sizes) or 1
    rows = [
        (
            Cell(str(name)),
            Cell(f"{size:,}", size, share=size / total),
            Cell(percent(size / total), size),
        )
        for name, size in sizes
    ]
    columns = (Column(target_of(attrs)), Column("samples", True), Column("share", True))
    caption = f"classes of {target_of(attrs)}"
    return [Table(caption, columns, tuple(rows), is_folded=len(rows) > 12)]


def made_section(attrs: Mapping[str, Any], more: Sequence[Fact] = ()) -> Section:
    """Return the section about how the result was made."""
    facts = list(more)
    if "alpha" in attrs:
        facts.append(Fact("significance level", f"{attrs['alpha']:g}"))
    if "search_scans" in attrs:
        reductions = counted(attrs["search_reductions"], "reduction")
        remark = f"for {reductions}, over {size(attrs['search_bytes'])} of codes in total"
        facts.append(Fact("scans over the samples", str(attrs["search_scans"]), remark))
        remark = "without reading and encoding the data"
        facts.append(Fact("time of the search", duration(attrs["search_seconds"]), remark))
    elif "n_scans" in attrs:
        remark = f"for {counted(attrs['n_reductions'], 'reduction')}"
        facts.append(Fact("scans over the samples", str(attrs["n_scans"]), remark))
    if "hofs_dask_version" in attrs:
        facts.append(Fact("version of hofs_dask", str(attrs["hofs_dask_version"])))
    if "fingerprint" in attrs:
        remark = "changes if the data changes"
        facts.append(Fact("fingerprint of the data", str(attrs["fingerprint"]), remark))
    unit = Text("All information is in nats (1 nat is 1.44 bits).", is_remark=True)
    return Section("made", "How it was made", (Facts(tuple(facts)), unit))


def method_facts(method: str, options: Mapping[str, Any]) -> list[Fact]:
    """Return the facts about a method and its options."""
    given = ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)
    return [Fact("method", method), *([Fact("options", given)] if given else [])]


def size(n_bytes: float) -> str:
    """Return a number of bytes with a unit.

    Examples
    --------
    >>> size(999), size(33_660), size(5 * 2**30)
    ('999 B', '32.87 kiB', '5.00 GiB')
    """
    if n_bytes < 1024:
        return f"{n_bytes} B"
    power = min(int(math.log2(n_bytes)) // 10, 4)
    return f"{n_bytes / 1024**power:.2f} {' kMGT'[power]}iB"


def duration(seconds: float) -> str:
    """Return a duration in two units at most.

    Examples
    --------
    >>> duration(0.0123), duration(59.97), duration(119.7), duration(7300)
    ('12 ms', '1 min 0 s', '2 min 0 s', '2 h 1 min')
    """
    if round(seconds, 1) < 60:
        return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def by_position(keys: NDArray[np.int64], values: NDArray[Any]) -> dict[int, int]:
    """Return a dict from the positions of features to numbers."""
    return dict(zip(keys.tolist(), values.tolist(), strict=True))
