"""The content of the report of a comparison of methods, or of selections from parts of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hofs_dask.results import comparison_text
from hofs_dask.results.report.common import (
    data_section,
    made_section,
    method_facts,
    names_of,
    options_of,
    percent,
    relevance_section,
)
from hofs_dask.results.report.content import (
    Brief,
    Cell,
    Column,
    Content,
    Fact,
    Line,
    Lines,
    Picture,
    Place,
    Ranks,
    Report,
    Section,
    Table,
    Text,
)
from hofs_dask.results.report.markup import clean
from hofs_dask.results.text import counted, share

if TYPE_CHECKING:
    import xarray as xr

#: Ranks of the short form, and of the picture of ranks.
SHOWN_RANKS, DRAWN_RANKS = 50, 60
#: Methods or parts of the report.
MOST_COLUMNS = 40
#: Rows of the table of the features that were chosen at all.
SHOWN_FEATURES = 600


@dataclass(frozen=True)
class Words:
    """The words for what is compared: methods, or parts of the data by a label."""

    parts: str = ""

    @property
    def one(self) -> str:
        """The word for one of them."""
        return "part" if self.parts else "method"

    @property
    def by(self) -> str:
        """The word that joins a feature and what chose it."""
        return "from" if self.parts else "by"


def brief_of_comparison(dataset: xr.Dataset, parts: str = "") -> Brief:
    """Return the short form of the report of a comparison: the summary and two tables.

    ``parts`` is the name of the labels if parts of the data are compared instead of methods.
    """
    n_methods = dataset.sizes["method"]
    headline, *details = comparison_text.summary(dataset, parts)
    ranking = _ranking_table(dataset, SHOWN_RANKS)
    left_out = comparison_text.left_out(dataset, len(ranking.rows), n_methods, parts)
    tables: list[Table | Text] = [ranking, *([Text(left_out)] if left_out else [])]
    triangle = _agreement_table(dataset)
    tables += [triangle] if triangle else []
    scans = comparison_text.scans(dataset)
    tables += [Text(scans)] if scans else []
    return Brief("comparison", headline, tuple(details), tuple(tables))


def report_of_comparison(dataset: xr.Dataset, parts: str = "") -> Report:
    """Return the content of the report of a comparison; ``parts`` is as for the short form.

    Examples
    --------
    >>> from hofs_dask.results.comparison import Comparison
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> one = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
    >>> result = Comparison.from_selections({"mim": one, "jmi": one}, attrs={})
    >>> [section.title for section in report_of_comparison(result.to_dataset()).sections]
    ['Ranks side by side', 'Agreement', 'All features', 'Data', 'How it was made']
    """
    words = Words(parts)
    shown = dataset.isel(method=slice(MOST_COLUMNS))
    if "other" in shown.dims:
        shown = shown.isel(other=slice(MOST_COLUMNS))
    headline = comparison_text.summary(dataset, parts)[0]
    index = shown["index"].values
    first = {j: rank for rank, j in enumerate(index[0].tolist(), start=1) if j >= 0}
    subset = {
        j: number
        for j, number in zip(index[0].tolist(), shown["subset"].values[0].tolist(), strict=True)
        if j >= 0
    }
    label = clean(str(shown["method"].values[0]))
    stability = [_stability_section(shown)] if "stability" in shown else []
    sections = [
        _ranks_section(shown, words, dataset.sizes["method"]),
        _agreement_section(shown, words),
        *stability,
    ]
    if "relevance" in dataset and dataset["relevance"].ndim == 1:
        sections.append(relevance_section(dataset, subset, first, f"rank {words.by} {label}"))
    sections += [data_section(dataset), made_section(dataset.attrs, _methods(dataset))]
    lead = (
        f"A feature that every {words.one} chooses is a safe choice. The colours are the subsets "
        f"of {label}.",
    )
    return Report("comparison", headline, lead, _figures(dataset, words), tuple(sections))


def _figures(dataset: xr.Dataset, words: Words) -> tuple[Fact, ...]:
    chosen = [set(row[row >= 0].tolist()) for row in dataset["index"].values]
    overlap = dataset["overlap"].values
    found = [
        Fact(f"{words.one}s", str(len(chosen))),
        Fact(f"chosen {words.by} every {words.one}", str(len(set.intersection(*chosen)))),
        Fact(f"chosen {words.by} at least one", str(len(set.union(*chosen)))),
    ]
    if len(chosen) > 1 and len(overlap):
        last = overlap[-1][np.triu_indices(len(chosen), 1)]
        remark = "mean Jaccard index of two lists"
        found.append(Fact("overlap", share(float(last.mean())), remark))
    if "stability" in dataset and dataset.sizes["rank"]:
        values = dataset["stability"].values[:, -1]
        if np.isfinite(values).any():
            best = int(np.nanargmax(values))
            remark = f"of {dataset['method'].values[best]}, the most stable"
            found.append(Fact("stability", share(float(values[best])), remark))
    if "n_samples" in dataset.attrs:
        found.append(Fact("samples", f"{dataset.attrs['n_samples']:,}"))
    return tuple(found)


def _methods(dataset: xr.Dataset) -> list[Fact]:
    """Return the facts about the methods and their options."""
    if "method" in dataset.attrs:
        return method_facts(str(dataset.attrs["method"]), options_of(dataset))
    found = []
    for label, options in options_of(dataset).items():
        if isinstance(options, dict):
            given = [f"{name}={value}" for name, value in options.items() if value is not None]
            found.append(Fact(f"method {label}", ", ".join(given) or "no options"))
    return found


def _ranking_table(dataset: xr.Dataset, limit: int, *, is_folded: bool = False) -> Table:
    """Return the table of the chosen features, coloured by the subsets of the first column."""
    header, *rows = comparison_text.ranking(dataset, limit)
    index, subset = dataset["index"].values, dataset["subset"].values
    number = dict(zip(index[0].tolist(), subset[0].tolist(), strict=True))
    made = []
    for row, columns in zip(rows, index.T.tolist(), strict=False):
        cells = [Cell(row[0], float(row[0]))]
        for words, j in zip(row[1:], columns, strict=True):
            if j < 0:
                cells.append(Cell(words))
            else:
                cells.append(Cell(words, feature=j, subset=number.get(j, -1)))
        made.append(tuple(cells))
    heads = tuple(Column(name, name == "rank" and not at) for at, name in enumerate(header))
    caption = "chosen features by rank" if is_folded else ""
    return Table(caption, heads, tuple(made), is_folded=is_folded)


def _agreement_table(dataset: xr.Dataset) -> Table | None:
    """Return the table of the overlap of every two methods, and their stability."""
    rows = comparison_text.agreement(dataset, dataset.sizes["method"])
    if not rows:
        return None
    heads = (Column(rows[0][0]), *(Column(name, is_number=True) for name in rows[0][1:]))
    made = [(Cell(row[0]), *map(_shaded, row[1:])) for row in rows[1:]]
    return Table(comparison_text.agreement_title(dataset), heads, tuple(made))


def _shaded(words: str) -> Cell:
    is_share = words[:1].isdigit()
    value = float(words) if is_share else np.nan
    return Cell(words, order=value, shade=value if is_share else None)


def _ranks_section(dataset: xr.Dataset, words: Words, n_methods: int) -> Section:
    names, index, subset = names_of(dataset), dataset["index"].values, dataset["subset"].values
    number = {j: k for j, k in zip(index[0].tolist(), subset[0].tolist(), strict=True) if j >= 0}
    chosen = [frozenset(row[row >= 0].tolist()) for row in index]
    shared = frozenset.intersection(*chosen) if len(chosen) > 1 else frozenset()
    labels = tuple(clean(str(label)) for label in dataset["method"].values.tolist())
    columns = tuple(
        tuple(Place(names[j], j, number.get(j, -1)) if j >= 0 else None for j in row[:DRAWN_RANKS])
        for row in index.tolist()
    )
    n_ranks = dataset.sizes["rank"]
    some = f", the first {DRAWN_RANKS} of {n_ranks}" if n_ranks > DRAWN_RANKS else ""
    legend = [
        f"Colours: subsets of {labels[0]}; grey features were not chosen {words.by} {labels[0]}."
    ]
    if shared:
        legend.append(f"Bold: chosen {words.by} every {words.one}.")
    if n_methods > len(labels):
        legend.append(f"The first {len(labels)} of {counted(n_methods, words.one)} are shown.")
    common = ", ".join(names[j] for j in index[0].tolist() if j in shared) or "none"
    picture = Picture(
        Ranks(labels, columns, shared),
        f"Features chosen {words.by} each {words.one}, by rank{some}",
        f"One column per {words.one}; lines connect the same feature. Chosen {words.by} every "
        f"{words.one}: {common[:400]}.",
        tuple(legend),
        _ranking_table(dataset, 1000, is_folded=True),
    )
    return Section("ranks", "Ranks side by side", (picture,))


def _agreement_section(dataset: xr.Dataset, words: Words) -> Section:
    triangle = _agreement_table(dataset)
    note = Text(
        "The overlap of two lists is the number of common features divided by the number of "
        "different features (Jaccard index): 1 for the same features, 0 for none in common."
    )
    own: list[Content] = [note, triangle] if triangle else []
    return Section("agreement", "Agreement", (*own, _votes_table(dataset, words)))


def _votes_table(dataset: xr.Dataset, words: Words) -> Table:
    """Return the table of all chosen features: how often, and at which ranks."""
    names, index = names_of(dataset), dataset["index"].values
    labels = [clean(str(label)) for label in dataset["method"].values.tolist()]
    ranks = [{j: rank for rank, j in enumerate(row, 1) if j >= 0} for row in index.tolist()]
    frequency = dataset["frequency"].values.mean(axis=0) if "frequency" in dataset else None
    n = len(labels)

    def place(j: int) -> tuple[int, float, int]:
        own = [each[j] for each in ranks if j in each]
        return -len(own), float(np.mean(own)), j

    chosen = sorted({j for each in ranks for j in each}, key=place)
    shown = chosen[:SHOWN_FEATURES]
    rows = []
    for j in shown:
        votes, mean, _ = place(j)
        row = [
            Cell(names[j], feature=j),
            Cell(f"{-votes} of {n}", -votes, share=-votes / n),
            Cell(f"{mean:.1f}", mean),
        ]
        if frequency is not None:
            row.append(Cell(percent(float(frequency[j])), float(frequency[j])))
        row += [Cell(str(each[j]), each[j]) if j in each else Cell("", np.nan) for each in ranks]
        rows.append(tuple(row))
    columns = [Column("feature"), Column(f"{words.one}s", True), Column("mean rank", True)]
    columns += [Column("share of resamples", True)] if frequency is not None else []
    columns += [Column(label, is_number=True) for label in labels]
    left = len(chosen) - len(shown)
    return Table(
        f"how many {words.one}s chose each feature, and at which rank",
        tuple(columns),
        tuple(rows),
        f"{counted(left, 'feature')} not shown." if left else "",
        is_folded=len(rows) > 40,
    )


def _stability_section(dataset: xr.Dataset) -> Section:
    labels = tuple(clean(str(label)) for label in dataset["method"].values.tolist())
    values = dataset["stability"].values
    lines = tuple(
        Line(label, tuple(row)) for label, row in zip(labels, values.tolist(), strict=True)
    )
    n = dataset.attrs.get("n_resamples", 0)
    words = (
        f"Every method was repeated on {counted(n, 'bootstrap resample')}. The stability at a rank "
        "is the mean overlap of the features chosen from two resamples up to this rank: 1 if a "
        "method always chooses the same features."
    )
    columns = (Column("rank", True), *(Column(label, is_number=True) for label in labels))
    rows = tuple(
        (
            Cell(str(rank), rank),
            *(Cell(share(value), value, shade=value) for value in column.tolist()),
        )
        for rank, column in enumerate(values.T, start=1)
    )
    table = Table("stability by rank", columns, rows, is_folded=True)
    last = ", ".join(
        f"{label} {share(value)}"
        for label, value in zip(labels, values[:, -1].tolist() if values.size else [], strict=False)
    )
    title = "Stability up to each rank"
    picture = Picture(Lines(lines), title, f"At the last rank: {last}.", (), table)
    return Section("stability", "Stability", (Text(words), picture))
