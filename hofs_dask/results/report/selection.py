"""The content of the report of a selection."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hofs_dask.results import text
from hofs_dask.results.datasets import coordinate_label
from hofs_dask.results.report.chosen import affinity_section, is_within_classes, margins_section
from hofs_dask.results.report.common import (
    by_position,
    data_section,
    entropy_of,
    made_section,
    method_facts,
    names_of,
    options_of,
    percent,
    relevance_section,
    target_of,
)
from hofs_dask.results.report.content import (
    Brief,
    Cell,
    Column,
    Content,
    Curve,
    Fact,
    Group,
    Groups,
    Member,
    Part,
    Picture,
    Report,
    Section,
    Step,
    Table,
    Text,
    Whole,
)
from hofs_dask.results.report.drawings.canvas import nats
from hofs_dask.results.style import COLOURS
from hofs_dask.results.text import counted, shortened

if TYPE_CHECKING:
    import xarray as xr

#: Ranks of the short form.
SHOWN_RANKS = 50
#: Ranks of the report, subsets included. A longer selection shows the first ones.
MOST_RANKS = 600
#: The methods whose information is a bound of what all features have together. That of other
#: methods is a sum of terms of single pairs.
BOUNDS = ("hofs", "vmi")
#: The criteria whose values are sums over subsets, which may exceed the entropy of the target.
SUMS = ("sum", "mean")
#: Informations that differ by less, in nats, are equal up to rounding.
SAME = 1e-9
LETTERS = 40
#: At least this many later subsets of a single feature are shown as one list.
MERGED = 4


def brief_of_selection(dataset: xr.Dataset) -> Brief:
    """Return the short form of the report of a selection: the summary and the first ranks."""
    headline, *details = text.summary(dataset)
    left_out = text.left_out({"rank": dataset.sizes["rank"] - SHOWN_RANKS}, ".to_dataframe()")
    table = _ranks_table(dataset, "", SHOWN_RANKS, left_out)
    remarks = [Text(words) for words in text.remarks(dataset)]
    return Brief("selection", headline, tuple(details), (table, *remarks))


def report_of_selection(dataset: xr.Dataset) -> Report:
    """Return the content of the report of a selection.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> attrs = {"method": "hofs", "target": "crop", "label_entropy": 0.8}
    >>> result = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs=attrs)
    >>> report_of_selection(result.to_dataset()).headline
    '1 of 2 features in 1 subset explains 0.500 of 0.800 nats of crop'
    """
    shown = dataset.isel(rank=slice(MOST_RANKS))
    subset = by_position(shown["index"].values, shown["subset"].values)
    rank = by_position(shown["index"].values, shown["rank"].values)
    sections = [
        *selection_sections(shown),
        relevance_section(shown, subset, rank, "rank"),
        data_section(dataset),
        made_section(dataset.attrs, _method_of(dataset)),
    ]
    return Report(
        "selection", headline(dataset), tuple(_lead(dataset)), _figures(dataset), tuple(sections)
    )


def selection_sections(dataset: xr.Dataset) -> list[Section]:
    """Return the sections about the chosen features: subsets, information, affinity, margins."""
    if not dataset.sizes["rank"]:
        return []
    more = affinity_section(dataset)
    return [
        _subsets_section(dataset),
        _information_section(dataset),
        *more,
        margins_section(dataset),
    ]


def is_share(dataset: xr.Dataset) -> bool:
    """Return whether `information` is a part of the entropy of the target, and the latter known."""
    total, n_first = entropy_of(dataset.attrs), first_epoch(dataset)
    if not total > 0 or not n_first or dataset.attrs.get("method") not in BOUNDS:
        return False
    if options_of(dataset).get("criterion") in SUMS:
        return False
    return bool(dataset["information"].values[:n_first].max() <= total * (1 + 1e-9))


def first_epoch(dataset: xr.Dataset) -> int:
    """Return the number of features chosen before the first restart."""
    epochs = dataset["epoch"].values
    return int((epochs == epochs[:1]).sum())


def n_explaining(dataset: xr.Dataset) -> int:
    """Return after how many features, before the first restart, the information is largest.

    Examples
    --------
    >>> import xarray as xr
    >>> values = {"epoch": [0, 0, 0, 0, 1], "information": [0.2, 0.5, 0.5, 0.4, 0.6]}
    >>> n_explaining(xr.Dataset({name: ("rank", each) for name, each in values.items()}))
    2
    """
    information = dataset["information"].values[: first_epoch(dataset)]
    return int(np.argmax(information >= information.max() - SAME)) + 1


def headline(dataset: xr.Dataset) -> str:
    """Return the sentence that says what was found."""
    n, attrs = dataset.sizes["rank"], dataset.attrs
    subsets = counted(len(text.subsets_of(dataset)), "subset")
    start = f"{n} of {counted(dataset.sizes['feature'], 'feature')} in {subsets}"
    if not is_share(dataset):
        return f"{start}, selected by {attrs.get('method', 'hand')}"
    n_first, total = n_explaining(dataset), entropy_of(attrs)
    known = max(float(dataset["information"].values[n_first - 1]), 0.0)
    digits = max(3, 1 - math.floor(math.log10(known))) if known > 0 else 3
    verb = "explains" if n_first == 1 else "explain"
    who = "" if n_first == n else f"; the first {n_first}" if n_first > 1 else "; the first"
    amount = f"{known:.{min(digits, 6)}f} of {total:.3f} nats of {target_of(attrs)}"
    return f"{start}{who} {verb} {amount}"


def _lead(dataset: xr.Dataset) -> list[str]:
    """Return the sentences below the headline."""
    n = dataset.sizes["rank"]
    if not n:
        return ["No feature was chosen."]
    names, target = names_of(dataset), target_of(dataset.attrs)
    first = names[int(dataset["index"].values[0])]
    short = shortened([first], LETTERS)[first]
    if dataset["feature"].attrs.get("units", "1") not in ("", "1"):
        short = f"{coordinate_label(dataset, 'feature')} {short}"
    relevance = float(dataset["relevance"].values[dataset["index"].values[0]])
    words = []
    if is_share(dataset):
        n_best, n_first = n_explaining(dataset), first_epoch(dataset)
        known = max(float(dataset["information"].values[n_best - 1]), 0.0)
        part = percent(known / entropy_of(dataset.attrs))
        words.append(
            f"This is {part} of the uncertainty (entropy) of {target}. The first feature, "
            f"{short}, has {nats(relevance)} nats on its own."
        )
        if n_best < n_first:
            until = "" if n_first == n else " until the restart"
            one = n_first - n_best == 1
            words.append(
                f"The {'feature' if one else f'{n_first - n_best} features'} after that{until} "
                f"{'does' if one else 'do'} not increase the estimate."
            )
    else:
        words.append(f"The first feature, {short}, has {nats(relevance)} nats on its own.")
    if n > MOST_RANKS:
        words.append(f"This page shows the first {MOST_RANKS} ranks.")
    words.append(
        "Features that depend on each other within the classes share a subset. Features of "
        "different subsets may repeat the same signal, but with independent noise."
        if is_within_classes(options_of(dataset))
        else "Features that depend on each other share a subset. Features of different subsets "
        "depend little on each other."
    )
    return words


def _figures(dataset: xr.Dataset) -> tuple[Fact, ...]:
    """Return the key figures."""
    attrs, n = dataset.attrs, dataset.sizes["rank"]
    found = [
        Fact("features chosen", str(n), f"of {dataset.sizes['feature']:,}"),
        Fact("subsets", str(len(text.subsets_of(dataset)))),
    ]
    if is_share(dataset):
        known = max(float(dataset["information"].values[n_explaining(dataset) - 1]), 0.0)
        remark = f"of the entropy of {target_of(attrs)}"
        found.append(Fact("explained", percent(known / entropy_of(attrs)), remark))
    if "n_samples" in attrs:
        found.append(Fact("samples", f"{attrs['n_samples']:,}"))
    if "n_classes" in attrs:
        found.append(Fact("classes", str(attrs["n_classes"]), f"of {target_of(attrs)}"))
    found.append(Fact("method", str(attrs.get("method", "by hand"))))
    return tuple(found)


def _method_of(dataset: xr.Dataset) -> list[Fact]:
    return method_facts(str(dataset.attrs.get("method", "by hand")), options_of(dataset))


def _subsets_section(dataset: xr.Dataset) -> Section:
    names, index = names_of(dataset), dataset["index"].values.tolist()
    gain, ranks = dataset["gain"].values, dataset["rank"].values.tolist()
    notes = text.frame(dataset)["note"].tolist()
    top = float(np.max(gain, initial=0.0)) or 1.0
    members: dict[int, list[Member]] = {}
    total: dict[int, float] = {}
    for row, number in enumerate(dataset["subset"].values.tolist()):
        added = float(gain[row])
        member = Member(
            rank=ranks[row],
            name=names[index[row]],
            feature=index[row],
            subset=number,
            added=nats(added),
            share=added / top,
            note=notes[row],
        )
        members.setdefault(number, []).append(member)
        total[number] = total.get(number, 0.0) + added
    is_one = first_epoch(dataset) == len(index)
    is_sum = is_one and is_share(dataset)
    single = [
        several[0]
        for number, several in members.items()
        if len(several) == 1 and number >= len(COLOURS)
    ]
    merged = len(single) >= MERGED
    groups = [
        Group(
            f"Subset {number}",
            number,
            tuple(several),
            # gains add up to information before the first restart only, and not those of pairs
            f"{nats(total[number])} nats" if is_sum else counted(len(several), "feature"),
        )
        for number, several in members.items()
        if not (merged and several[0] in single)
    ]
    if merged:
        alone = tuple(
            replace(each, note="; ".join(filter(None, [f"subset {each.subset}", each.note])))
            for each in single
        )
        title = "Later subsets of a single feature"
        groups.append(Group(title, None, alone, counted(len(alone), "feature")))
    words = (
        "Every subset is a group of features that depend on each other. Within a subset, features "
        "are in order of rank; the number at the right is the information, in nats, that the "
        "feature added to all features chosen before it"
        + ("." if is_one else " since the last restart.")
    )
    return Section("subsets", "Subsets", (Text(words), Groups(tuple(groups))))


def _information_section(dataset: xr.Dataset) -> Section:
    names, index = names_of(dataset), dataset["index"].values.tolist()
    fresh = np.diff(dataset["epoch"].values, prepend=dataset["epoch"].values[:1]) > 0
    total, target = entropy_of(dataset.attrs), target_of(dataset.attrs)
    steps = tuple(
        Step(rank, names[j], j, subset, gain, information, starts)
        for rank, j, subset, gain, information, starts in zip(
            dataset["rank"].values.tolist(),
            index,
            dataset["subset"].values.tolist(),
            dataset["gain"].values.tolist(),
            dataset["information"].values.tolist(),
            fresh.tolist(),
            strict=True,
        )
    )
    content: list[Content] = []
    if is_share(dataset):
        content.append(_whole(dataset, steps[: n_explaining(dataset)]))
    legend = [
        "Points: information of all features so far; the number is the subset. Bars: what each "
        "feature added."
    ]
    if total > 0 and not is_share(dataset) and options_of(dataset).get("criterion") in SUMS:
        legend.append(
            "The criterion is a sum over subsets. It counts information that subsets share more "
            f"than once, and may exceed the entropy of {target}, {nats(total)} nats."
        )
    method = dataset.attrs.get("method", "hofs")
    if method not in BOUNDS:
        legend.append(
            f"The information of {method} is a sum of estimates from pairs of features, without a "
            "correction for chance. It is too large for many features or few samples."
        )
    restarts = [str(step.rank) for step in steps if step.starts_epoch]
    said = f"rank {', '.join(restarts[:3])}"
    said += f" and {len(restarts) - 3} later ranks" if len(restarts) > 3 else ""
    if restarts:
        legend.append(
            f"Restart before {said}: no remaining feature added enough to "
            "the features chosen so far, so the remaining features are ranked again, and "
            "information counts from zero again. The features from there on are substitutes for "
            "earlier ones, or features without information if their relevance is near zero. They "
            "are no additions to the earlier ones."
        )
    words = (
        f"From left to right, {counted(len(steps), 'feature')} by rank. The first is "
        f"{steps[0].name} with {nats(steps[0].information)} nats; the information at the end is "
        f"{nats(steps[-1].information)} nats."
    )
    if restarts:
        words += f" Information starts from zero again at {said}."
    title = "Information by rank, coloured by subset"
    table = _ranks_table(dataset, "all chosen features by rank, in nats", None, "", is_folded=True)
    content.append(Picture(Curve(steps, total), title, words, tuple(legend), table))
    content += [
        Text(" ".join(remark.split()), is_remark=True)
        for remark in text.remarks(dataset)
        if remark != text.RESTART
    ]
    return Section("information", "Information", tuple(content))


def _whole(dataset: xr.Dataset, steps: tuple[Step, ...]) -> Picture:
    total, target = entropy_of(dataset.attrs), target_of(dataset.attrs)
    # a decrease is taken from the features before it, so that the parts sum to the last value
    levels = np.minimum.accumulate([max(step.information, 0.0) for step in reversed(steps)])[::-1]
    before, parts = 0.0, []
    for step, level in zip(steps, levels.tolist(), strict=True):
        parts.append(Part(step.name, step.feature, step.subset, level - before))
        before = level
    words = f"{nats(before)} of {nats(total)} nats are explained, {percent(before / total)}."
    n, n_first = len(steps), first_epoch(dataset)
    first = f"the first {n} features explain" if n > 1 else "the first feature explains"
    some = "the features explain" if n == n_first else first
    some += " before the first restart" if n == n_first < dataset.sizes["rank"] else ""
    title = f"How much of {target} {some}"
    return Picture(Whole(tuple(parts), total, target), title, words)


def _ranks_table(
    dataset: xr.Dataset, caption: str, limit: int | None, remark: str, *, is_folded: bool = False
) -> Table:
    """Return the table of the printout, for the first ranks or for all."""
    header, *rows = text.table(dataset, limit or dataset.sizes["rank"])
    names = names_of(dataset)
    columns = tuple(Column(name, text.side(name) == "right") for name in header)
    made = []
    index, subsets = dataset["index"].values.tolist(), dataset["subset"].values.tolist()
    for row, words in enumerate(rows):
        cells = []
        for position, (column, word) in enumerate(zip(columns, words, strict=True)):
            is_name = position == 1  # after the rank
            cells.append(
                Cell(
                    names[index[row]] if is_name else word,
                    order=_number(word) if column.is_number else None,
                    feature=index[row] if is_name else None,
                    subset=subsets[row] if position == 0 else None,
                )
            )
        made.append(tuple(cells))
    return Table(caption, columns, tuple(made), remark, is_folded=is_folded)


def _number(word: str) -> float:
    try:
        return float(word.removeprefix("<"))
    except ValueError:
        return math.nan
