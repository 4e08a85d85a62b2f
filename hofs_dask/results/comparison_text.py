"""The printout of a comparison, which fits on one screen, and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hofs_dask.results import text
from hofs_dask.results.text import (
    SHOWN_RANKS,
    WIDTH,
    aligned,
    counted,
    facts,
    notes_of,
    share,
    shortened,
    unusable,
)

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Minimum width of a column; if columns still do not fit, methods are omitted.
LEAST_WIDTH = 7
LEAST_HEAD = len("stability")


def as_text(dataset: xr.Dataset, parts: str = "") -> str:
    """Return the printout: the summary, the first ranks of all methods and their agreement.

    ``parts`` is the name of the labels if parts of the data are compared instead of methods.

    Examples
    --------
    >>> from hofs_dask.results.comparison import Comparison
    >>> from hofs_dask.results.selection import Pick, Selection
    >>> pick = Pick(1, subset=0, score=0.5, gain=0.5, information=0.5, margin=0.4)
    >>> one = Selection.from_picks([pick], names=["a", "b"], relevance=[0.1, 0.5], attrs={})
    >>> result = Comparison.from_selections({"mim": one, "jmi": one}, attrs={})
    >>> as_text(result.to_dataset()).splitlines()[-3:]
    ['overlap of the first 1 pick (Jaccard index)', '      mim', 'jmi  1.00']
    """
    ranks = ranking(dataset, SHOWN_RANKS)
    n_shown = _n_fitting(ranks)
    shown = [row[: n_shown + 1] for row in ranks]
    lines = [*summary(dataset, parts), "", *aligned(_cut(shown), ["right", *["left"] * n_shown])]
    lines.extend(filter(None, [left_out(dataset, len(ranks) - 1, n_shown, parts)]))
    rows = agreement(dataset, n_shown)
    if rows:
        sides = ["left", *["right"] * (len(rows[0]) - 1)]
        lines += ["", agreement_title(dataset), *aligned(_cut(rows), sides)]
    if scans(dataset):
        lines += ["", scans(dataset)]
    return "\n".join(lines)


def summary(dataset: xr.Dataset, parts: str = "") -> list[str]:
    """Return the summary lines: how many features the methods chose, and a description of the data.

    ``parts`` is as for `as_text`.

    Examples
    --------
    >>> from hofs_dask.results.comparison import Comparison
    >>> from hofs_dask.results.selection import Selection
    >>> none = Selection.from_picks([], names=["a"], relevance=[0.1], attrs={"n_samples": 9})
    >>> summary(Comparison.from_selections({"mim": none, "jmi": none}, attrs={}).to_dataset())
    ['0 of 1 feature selected by each of 2 methods; 0 by at least one, 0 by all', '9 samples']
    """
    chosen = [set(each[each >= 0].tolist()) for each in dataset["index"].values]
    most = "up to " * (min(map(len, chosen)) < dataset.sizes["rank"])
    headline = f"{most}{dataset.sizes['rank']} of {counted(dataset.sizes['feature'], 'feature')}"
    if parts:
        headline += f" selected from each of {counted(len(chosen), 'part')} by {parts}"
    elif len(chosen) == 1:
        headline += f" selected by {dataset['method'].item()}"
    else:
        headline += f" selected by each of {len(chosen)} methods"
    if len(chosen) > 1:
        n_any, n_all = len(set.union(*chosen)), len(set.intersection(*chosen))
        word = "from" if parts else "by"
        headline += f"; {n_any} {word} at least one, {n_all} {word} all"
    details = facts(dataset.attrs)
    if "n_resamples" in dataset.attrs:
        details.append(counted(dataset.attrs["n_resamples"], "resample"))
    more = filter(None, [", ".join(details), unusable(dataset)])
    return [headline, *more, *notes_of(dataset.attrs)]


def names_of(dataset: xr.Dataset) -> dict[str, list[Any]]:
    """Return a dict from the label of each method to the names of its features, best first.

    Examples
    --------
    >>> import xarray as xr
    >>> index = {"index": (("method", "rank"), [[1, 0], [0, -1]])}
    >>> names_of(xr.Dataset(index, {"method": ["mim", "jmi"], "feature": ["a", "b"]}))
    {'mim': ['b', 'a'], 'jmi': ['a']}
    """
    features, index = dataset["feature"].values, dataset["index"].values
    return {
        label: features[each[each >= 0]].tolist()
        for label, each in zip(dataset["method"].values.tolist(), index, strict=True)
    }


def frame(dataset: xr.Dataset) -> pd.DataFrame:
    """Return a data frame of the chosen features: one row per rank, one column per method.

    Ranks that a method did not reach contain None.

    Examples
    --------
    >>> import xarray as xr
    >>> index = {"index": (("method", "rank"), [[1, 0], [0, -1]])}
    >>> coordinates = {"method": ["mim", "jmi"], "feature": ["a", "b"], "rank": [1, 2]}
    >>> frame(xr.Dataset(index, coordinates))["mim"].tolist()
    ['b', 'a']
    """
    import pandas as pd

    n_ranks = dataset.sizes["rank"]
    columns = {
        label: names + [None] * (n_ranks - len(names)) for label, names in names_of(dataset).items()
    }
    return pd.DataFrame(columns, index=pd.Index(dataset["rank"].values, name="rank"), dtype=object)


def ranking(dataset: xr.Dataset, limit: int) -> list[list[str]]:
    """Return a table of the chosen features as text: the header and one row per rank.

    Ranks that a method did not reach contain a dash.

    Examples
    --------
    >>> import xarray as xr
    >>> index = {"index": (("method", "rank"), [[1, 0], [0, -1]])}
    >>> coordinates = {"method": ["mim", "jmi"], "feature": ["a", "b"], "rank": [1, 2]}
    >>> ranking(xr.Dataset(index, coordinates), limit=20)
    [['rank', 'mim', 'jmi'], ['1', 'b', 'a'], ['2', 'a', '-']]
    """
    names = names_of(dataset)
    ranks = dataset["rank"].values[:limit].tolist()
    return [["rank", *names]] + [
        [str(rank), *(str(each[rank - 1]) if rank <= len(each) else "-" for each in names.values())]
        for rank in ranks
    ]


def agreement(dataset: xr.Dataset, n_methods: int) -> list[list[str]]:
    """Return a table of the overlap of the first ``n_methods`` methods, and their stability.

    The overlap fills a triangle. The row of the stability is absent if there are no resamples.

    Examples
    --------
    >>> import xarray as xr
    >>> overlap = {"overlap": (("rank", "method", "other"), [[[1.0, 0.25], [0.25, 1.0]]])}
    >>> agreement(xr.Dataset(overlap, {"method": ["mim", "jmi"]}), 2)
    [['', 'mim'], ['jmi', '0.25']]
    """
    labels = dataset["method"].values[:n_methods].tolist()
    if not dataset.sizes["rank"]:
        return []
    last = dataset["overlap"].values[-1]
    resampled = "stability" in dataset
    n_columns = len(labels) if resampled else len(labels) - 1
    rows = []
    for row, label in enumerate(labels[1:], start=1):
        values = [share(value) for value in last[row, :row].tolist()]
        rows.append([label, *values, *[""] * (n_columns - len(values))])
    if resampled:
        values = dataset["stability"].values[:n_methods, -1].tolist()
        rows.append(["stability", *map(share, values)])
    return [["", *labels[:n_columns]], *rows] if rows else []


def agreement_title(dataset: xr.Dataset) -> str:
    """Return the title of the table of `agreement`.

    Examples
    --------
    >>> import xarray as xr
    >>> agreement_title(xr.Dataset(coords={"rank": [1, 2]}))
    'overlap of the first 2 picks (Jaccard index)'
    """
    title = f"overlap of the first {counted(dataset.sizes['rank'], 'pick')} (Jaccard index)"
    if "stability" not in dataset:
        return title
    return f"{title}; stability: over {counted(dataset.attrs['n_resamples'], 'resample')}"


def left_out(dataset: xr.Dataset, n_ranks: int, n_methods: int, parts: str = "") -> str:
    """Return a line with the number of ranks and methods that are not shown, or an empty string.

    ``parts`` is as for `as_text`.

    Examples
    --------
    >>> import xarray as xr
    >>> left_out(xr.Dataset(coords={"rank": [1, 2], "method": ["mim"]}), 1, 1)
    '... and 1 more rank: .to_dataframe()'
    """
    sizes = {"rank": n_ranks, "method": n_methods}
    missing = {
        "part" if parts and name == "method" else name: dataset.sizes[name] - shown
        for name, shown in sizes.items()
    }
    return text.left_out(missing, ".to_dataframe()")


def scans(dataset: xr.Dataset) -> str:
    """Return a line with the number of scans and reductions, or an empty string if unknown.

    Examples
    --------
    >>> import xarray as xr
    >>> scans(xr.Dataset(attrs={"n_scans": 41, "n_reductions": 182}))
    '41 scans over the data for 182 reductions'
    """
    attrs = dataset.attrs
    if "n_scans" not in attrs or "n_reductions" not in attrs:
        return ""
    reductions = counted(attrs["n_reductions"], "reduction", "reductions")
    return f"{counted(attrs['n_scans'], 'scan')} over the data for {reductions}"


def _n_fitting(rows: list[list[str]]) -> int:
    """Return how many methods fit into a line if their names are shortened; at least one."""
    used, n_fitting = LEAST_HEAD, 0
    for column in list(zip(*rows, strict=True))[1:]:
        used += 2 + min(max(len("0.00"), *map(len, column)), LEAST_WIDTH)
        n_fitting += used <= WIDTH
    return max(n_fitting, 1)


def _cut(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows with names shortened so that rows fit into a line; equal names stay equal."""
    head, *natural = (max(map(len, column)) for column in zip(*rows, strict=True))
    for limit in range(max(LEAST_WIDTH, head, *natural), LEAST_WIDTH - 1, -1):
        first = max(limit, LEAST_HEAD)
        used = min(head, first) + sum(2 + min(width, limit) for width in natural)
        if used <= WIDTH:
            break
    heads = shortened((row[0] for row in rows), first)
    cells = shortened({cell for row in rows for cell in row[1:]}, limit)
    return [[heads[row[0]], *(cells[cell] for cell in row[1:])] for row in rows]
