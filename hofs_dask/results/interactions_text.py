"""The printout of interactions, and their table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hofs_dask.results.text import aligned, counted, facts, left_out, notes_of, p_text, unusable

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

SHOWN_RANKS = 20
#: The words for one tuple and for several tuples, by order.
WORDS = {2: ("pair", "pairs"), 3: ("triple", "triples")}
_NATS, _SHARES = ("synergy", "information", "added"), ("p_value", "p_adjusted")


def as_text(dataset: xr.Dataset) -> str:
    """Return the printout: the summary and the first ranks."""
    header, *rows = table(dataset, SHOWN_RANKS)
    sides = ["left" if name == "features" else "right" for name in header]
    more = left_out({"rank": dataset.sizes["rank"] - SHOWN_RANKS}, ".to_dataframe()")
    lines = [*summary(dataset), "", *aligned([header, *rows], sides)]
    return "\n".join([*lines, *filter(None, [more])])


def summary(dataset: xr.Dataset) -> list[str]:
    """Return the summary lines: how many tuples, a description of the data, how many codes."""
    attrs = dataset.attrs
    words = WORDS[attrs["order"]]
    n_significant = int((dataset["p_adjusted"].values <= 0.05).sum())
    headline = (
        f"{dataset.sizes['rank']} of {counted(attrs['n_tuples'], *words)} of "
        f"{counted(dataset.sizes['feature'], 'feature')}, {n_significant} significant at 0.05"
    )
    codes = f"at most {attrs['n_codes']} codes per feature"
    details = "; ".join(filter(None, [", ".join(facts(attrs)), codes, "nats"]))
    return [
        headline,
        details,
        *filter(None, [_screening(attrs), unusable(dataset)]),
        *notes_of(attrs),
    ]


def _screening(attrs: Mapping[str, Any]) -> str:
    """Return a sentence about screening, or no text without screening."""
    if "n_screened" not in attrs:
        return ""
    word = WORDS[attrs["order"]][0]
    return (
        f"screened on {counted(attrs['n_screened'], 'sample')}: a {word} with a synergy of at "
        f"least {attrs['smallest_synergy']:.2g} is found with probability 1 - 1e-6"
    )


def frame(dataset: xr.Dataset) -> pd.DataFrame:
    """Return the complete table as a data frame, one row per tuple."""
    import pandas as pd

    members = {
        f"feature_{number + 1}": dataset["selected"].values[:, number].tolist()
        for number in range(dataset.attrs["order"])
    }
    values = {name: dataset[name].values for name in (*_NATS, "df", *_SHARES)}
    return pd.DataFrame({"rank": dataset["rank"].values, **members, **values})


def table(dataset: xr.Dataset, limit: int) -> Iterator[list[str]]:
    """Yield the header and one row per tuple as text."""
    yield ["rank", "features", *_NATS, "df", *_SHARES]
    shown = dataset.isel(rank=slice(limit))
    for row, names in enumerate(shown["selected"].values.tolist()):
        nats = [f"{shown[name].values[row]:.4f}" for name in _NATS]
        shares = [p_text(shown[name].values[row], 2) for name in _SHARES]
        df = str(shown["df"].values[row])
        yield [str(row + 1), " ".join(map(str, names)), *nats, df, *shares]
