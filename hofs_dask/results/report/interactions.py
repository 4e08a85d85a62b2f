"""The content of the report of interactions."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hofs_dask.results import interactions_text, text
from hofs_dask.results.report.common import data_section, made_section, names_of, relevance_section
from hofs_dask.results.report.content import (
    Brief,
    Cell,
    Column,
    Fact,
    Knot,
    Link,
    Network,
    Picture,
    Report,
    Section,
    Table,
    Text,
)
from hofs_dask.results.report.drawings.canvas import nats
from hofs_dask.results.text import counted, p_text

if TYPE_CHECKING:
    import xarray as xr

#: Ranks of the short form, tuples that are drawn, and rows of the table.
SHOWN_RANKS, DRAWN, LISTED = 50, 50, 1000
#: A tuple is significant if its adjusted p-value is at most this number.
ALPHA = 0.05


def brief_of_interactions(dataset: xr.Dataset) -> Brief:
    """Return the short form of the report of interactions: the summary and the first tuples."""
    headline, *details = interactions_text.summary(dataset)
    header, *rows = interactions_text.table(dataset, SHOWN_RANKS)
    columns = tuple(Column(name, name != "features") for name in header)
    left_out = text.left_out({"rank": dataset.sizes["rank"] - len(rows)}, ".to_dataframe()")
    made = tuple(tuple(map(Cell, row)) for row in rows)
    return Brief("interactions", headline, tuple(details), (Table("", columns, made, left_out),))


def report_of_interactions(dataset: xr.Dataset) -> Report:
    """Return the content of the report of interactions.

    Examples
    --------
    >>> import hofs_dask as hd
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50)
    >>> report = report_of_interactions(hd.interactions(x, x[:, 0] ^ x[:, 1]).to_dataset())
    >>> report.headline
    '1 of 1 pair of 2 features, 1 significant at 0.05'
    """
    attrs, one = dataset.attrs, interactions_text.WORDS[dataset.attrs["order"]][0]
    rank: dict[int, int] = {}
    strong = np.flatnonzero(dataset["p_adjusted"].values <= ALPHA).tolist()
    for row in strong:
        for j in dataset["index"].values[row].tolist():
            rank.setdefault(j, row + 1)
    figures = [
        Fact(
            interactions_text.WORDS[attrs["order"]][1],
            str(dataset.sizes["rank"]),
            f"of {attrs['n_tuples']:,}",
        ),
        Fact("significant", str(len(strong)), "after adjustment for all of them"),
        Fact("features", f"{dataset.sizes['feature']:,}"),
    ]
    if "n_samples" in attrs:
        figures.append(Fact("samples", f"{attrs['n_samples']:,}"))
    lead = (
        f"The synergy of a {one} is the information about {attrs.get('target', 'the target')} that "
        "its features have only together, beyond the effects of fewer features.",
    )
    marked = f"features of significant {interactions_text.WORDS[attrs['order']][1]}"
    alone = "Features with synergy may have none: they say something only together."
    sections = [
        *_network_section(dataset),
        _table_section(dataset, one),
        relevance_section(dataset, dict.fromkeys(rank, 0), rank, f"best {one}", marked, alone),
        data_section(dataset),
        made_section(attrs, [Fact("codes per feature", f"at most {attrs['n_codes']}")]),
    ]
    headline = interactions_text.summary(dataset)[0]
    return Report("interactions", headline, lead, tuple(figures), tuple(sections))


def _network_section(dataset: xr.Dataset) -> list[Section]:
    shown = dataset.isel(rank=slice(DRAWN))
    if not shown.sizes["rank"]:
        return []
    names, index = names_of(dataset), shown["index"].values.tolist()
    synergy, p_adjusted = shown["synergy"].values, shown["p_adjusted"].values
    place = {j: k for k, j in enumerate(_ordered(index))}
    top = float(synergy.max(initial=0.0)) or 1.0
    links = tuple(
        Link(
            place[i],
            place[j],
            share=float(synergy[rank]) / top,
            is_strong=bool(p_adjusted[rank] <= ALPHA),
            words=f"{rank + 1}. {', '.join(names[k] for k in members)}\n"
            f"synergy {nats(float(synergy[rank]))} nats\n"
            f"adjusted p-value {p_text(float(p_adjusted[rank]), 2)}",
        )
        for rank, members in enumerate(index)
        for i, j in combinations(members, 2)
    )
    knots = tuple(Knot(names[j], j) for j in place)
    best = ", ".join(names[k] for k in index[0])
    n = dataset.sizes["rank"]
    some = f" (the first {DRAWN} of {n})" if n > DRAWN else ""
    picture = Picture(
        Network(knots, links),
        f"Features that interact{some}",
        f"{counted(len(knots), 'feature')} on a circle. The most synergy is between {best}: "
        f"{nats(float(synergy[0]))} nats.",
        ("Wider lines have more synergy. Blue lines are significant, grey lines are not.",),
    )
    return [Section("network", "Network", (picture,))]


def _ordered(index: list[list[int]]) -> list[int]:
    """Return the features in an order in which members of a tuple are near each other."""
    near: dict[int, list[int]] = {}
    for members in index:
        for j in members:
            near.setdefault(j, []).extend(each for each in members if each != j)
    order: dict[int, None] = {}
    for start in near:
        stack = [start]
        while stack:
            j = stack.pop()
            if j not in order:
                order[j] = None
                stack += [each for each in reversed(near[j]) if each not in order]
    return list(order)


def _table_section(dataset: xr.Dataset, one: str) -> Section:
    names, shown = names_of(dataset), dataset.isel(rank=slice(LISTED))
    several = interactions_text.WORDS[dataset.attrs["order"]][1]
    top = float(shown["synergy"].values.max(initial=0.0)) or 1.0
    members = tuple(Column(f"feature {k + 1}") for k in range(dataset.attrs["order"]))
    terms = ("synergy", "information", "added")
    rows = []
    for row, features in enumerate(shown["index"].values.tolist()):
        values = {name: float(shown[name].values[row]) for name in terms}
        p, adjusted = (float(shown[name].values[row]) for name in ("p_value", "p_adjusted"))
        rows.append(
            (
                Cell(str(row + 1), row + 1),
                *(Cell(names[j], feature=j) for j in features),
                Cell(nats(values["synergy"]), values["synergy"], share=values["synergy"] / top),
                *(Cell(nats(values[name]), values[name]) for name in terms[1:]),
                Cell(str(shown["df"].values[row]), float(shown["df"].values[row])),
                Cell(p_text(p, 2), p),
                Cell(p_text(adjusted, 2), adjusted),
                Cell("yes" if adjusted <= ALPHA else "no"),
            )
        )
    columns = (
        Column("rank", True),
        *members,
        *(Column(name, is_number=True) for name in (*terms, "df", "p", "adjusted p")),
        Column(f"≤ {ALPHA}"),
    )
    left = dataset.sizes["rank"] - len(rows)
    remark = f"{counted(left, one, several)} with less synergy not shown." if left else ""
    words = Text(
        f"Information is that of the whole {one} about the target; added is what it has beyond its "
        "best smaller part. The p-value is adjusted for the number of all tuples (Bonferroni); a "
        f"{one} is significant if it is at most {ALPHA}."
    )
    table = Table(f"{several} by synergy, in nats", columns, tuple(rows), remark)
    return Section("tuples", several.capitalize(), (words, table))
