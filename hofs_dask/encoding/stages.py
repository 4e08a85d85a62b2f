"""What encoding in tasks and encoding in memory have in common, without Dask."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hofs_dask.encoding.kept import Kept
from hofs_dask.errors import refusal, skipped, some_of
from hofs_dask.store.bins import (
    Bins,
    Features,
    Refusal,
    close_integers,
    count_bins,
    make_tables,
    unique_integers,
)
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.groups import FEW_GROUPS
from hofs_dask.store.labels import Coding
from hofs_dask.store.manifest import MOST_WEIGHT
from hofs_dask.store.summary import Summary, merge_summaries
from hofs_dask.store.weights import WeightSums

if TYPE_CHECKING:
    from hofs_dask.io.source import Source

#: A warning is given if at least this share of the samples misses every feature, and if the share
#: is more than 1.5 times the share that is expected by chance.
MANY_EMPTY = 0.01
#: Up to this many columns are listed in the advice to exclude them.
MOST_NAMED = 8
#: Rounding may change the total weight by this fraction without a warning.
MOST_EXCESS = 0.01

#: The tables of some columns: features, refusals, columns that look like identifiers, columns of
#: integers that floats do not tell apart, which sampled rows miss all of them (bits; None if not
#: floats), and the probability of this by chance.
Tables = tuple[Features, list[Refusal], list[int], list[int], np.ndarray | None, float]


def bytes_of(source: Source) -> int:
    """Return the bytes of the data in memory; 0 if unknown, as for objects."""
    known = all(part.dtype.kind not in "OT" for part in source.parts)
    return int(sum(part.nbytes for part in source.parts)) if known else 0


def judge_tables(
    source: Source, made: Sequence[Tables], n_sampled: int
) -> tuple[Features, float, Source]:
    """Return the codings of all columns, the share of samples that miss all, and the source.

    Columns that cannot be used are left out of the source, with a note, if they are to be skipped;
    otherwise an error names all of them. Other notes name columns that look like identifiers, and
    columns of integers that floats do not tell apart.
    """
    problems = [problem for _, several, *_ in made for problem in several]
    problems.sort(key=lambda problem: problem.column)
    if problems and (source.on_bad == "raise" or len(problems) == source.n_features):
        raise _refused(source, problems)
    empty = [flags for *_, flags, _ in made if flags is not None]
    share = 0.0
    if len(empty) == len(made):
        share = int(np.unpackbits(np.bitwise_and.reduce(empty)).sum()) / n_sampled
        by_chance = math.prod(each for *_, each in made)
        share = share if share > 1.5 * by_chance else 0.0
    unique = [source.names[column] for _, _, several, *_ in made for column in several]
    if unique:
        source = replace(source, notes=(*source.notes, _identifier_note(unique)))
    close = [source.names[column] for _, _, _, several, *_ in made for column in several]
    if close:
        note = (
            f"{some_of(close)}: numbers above 2**53 that are near each other are equal as float64; "
            "subtract the smallest one in the data, as integers"
        )
        source = replace(source, notes=(*source.notes, note))
    features = Features.join([several for several, *_ in made])
    return features, share, _without_refused(source, problems)


def _without_refused(source: Source, problems: Sequence[Refusal]) -> Source:
    """Return the source without the columns that cannot be used, with a note about them."""
    if not problems:
        return source
    notes = (*source.notes, *skipped(_texts(source, problems)))
    return replace(source.without([each.column for each in problems]), notes=notes)


def _identifier_note(names: Sequence[Hashable]) -> str:
    what = "has a different integer in every row" if len(names) == 1 else "have different integers"
    shown = f"{[*names]!r}" if len(names) <= MOST_NAMED else f"[{names[0]!r}, ...]"
    return f"{some_of(names)} {what}, as identifiers have; if they are, give exclude={shown}"


def target_notes(
    source: Source, kept: Kept, coding: Coding, notes: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the notes of a target: what was left out, and how it was understood."""
    if coding.n_whole and coding.kind == "class":
        found = f"{coding.n_whole} different whole numbers as floats"
        notes = (f"target {source.target_name!r} holds {found}, which are classes", *notes)
    roles = [mask.role for mask in source.masks]
    return (*source.notes, *kept.dropped.notes(roles, source.ignore_label), *notes)


def empty_note(share: float) -> tuple[str, ...]:
    """Return a note, and warn, if many samples miss every feature."""
    if share < MANY_EMPTY:
        return ()
    found = f"{share:.1%} of the samples miss every feature"
    warnings.warn(
        f"{found}, and a missing value has a separate code, which may predict the target; if these "
        "samples are outside of a mask, leave them out with where=",
        stacklevel=5,
    )
    return (found,)


def _refused(source: Source, problems: Sequence[Refusal]) -> Exception:
    """Return one error for all features whose values cannot be used."""
    names = [source.names[each.column] for each in problems]
    kinds = {each.error for each in problems}
    return (kinds.pop() if len(kinds) == 1 else ValueError)(
        refusal(_texts(source, problems), names)
    )


def _texts(source: Source, problems: Sequence[Refusal]) -> list[str]:
    return [f"feature {source.names[each.column]!r} {each.text}" for each in problems]


def resolve_bins(bins: Bins, n_samples: int, sums: WeightSums | None, coding: Coding) -> int:
    """Return the number of bins for the effective number of samples."""
    size = n_samples if sums is None else sums.total**2 / sums.squares
    return count_bins(bins, size, coding.n_classes)


def tables_of_columns(
    summaries: list[Summary], cut: slice | None, first: int, bins: Bins, n_bins: int
) -> Tables:
    """Return the tables of some columns, see `Tables`.

    The probability that a row misses all features holds if they are missing independently.
    """
    if cut is not None:
        summaries = [each.columns(cut.start, cut.stop) for each in summaries]
    merged = merge_summaries(summaries)
    features, refusals = make_tables(merged, first, bins, n_bins)
    by_chance = float(np.prod(merged.n_missing / merged.n_rows))
    unique = [first + j for j in unique_integers(merged)]
    close = [first + j for j in close_integers(merged)]
    return features, refusals, unique, close, merged.empty_rows(), by_chance


def source_rows(source: Source) -> int | None:
    """Return the number of rows per chunk of the source; the last chunk may be smaller.

    The result is None if there is only one chunk, or if chunks have different sizes.

    Examples
    --------
    >>> from hofs_dask.io.source import open_source
    >>> import dask.array as da
    >>> source_rows(open_source(da.zeros((25, 2), chunks=(10, 2)), None))
    10
    """
    rows = source.parts[0].chunks[0]
    regular = len(rows) > 1 and set(rows[:-1]) == {rows[0]} and rows[-1] <= rows[0]
    return int(rows[0]) if regular else None


def warn_of_rounding(name: str, unit: float, weight: float, sums: WeightSums) -> None:
    """Warn if rounding changes the total weight much."""
    excess = sums.total * unit / weight - 1
    if abs(excess) > MOST_EXCESS:
        warnings.warn(
            f"the largest weight of {name!r} is so far above the others that rounding to "
            f"{MOST_WEIGHT} levels changes their total by {100 * excess:.1f} %; limit the largest "
            "weights, for example with weights.clip(max=...)",
            stacklevel=4,
        )


def with_warnings(store: CodeStore, coding: Coding | None = None) -> CodeStore:
    """Return the store; warn about classes of one sample, possible classes, and few groups.

    Possible classes are whole numbers, stored as floats, that were not interpreted as classes.
    ``coding`` is None if the labels were already in the store.
    """
    labels = store.labels
    if coding is not None and coding.n_whole and labels.kind == "continuous":
        warnings.warn(
            f"target {labels.name!r} holds {coding.n_whole} different whole numbers as floats and "
            f"is cut into {len(labels.classes)} ranges; if the numbers are classes, give "
            'target_kind="class", otherwise target_kind="continuous"',
            stacklevel=3,
        )
    single = [c for c, n in zip(labels.classes, labels.counts, strict=True) if n == 1]
    if single and labels.kind != "continuous":
        numbers = all(type(each) in (int, float) for each in labels.classes)
        otherwise = ', or give target_kind="continuous" if it is a number' if numbers else ""
        warnings.warn(
            f"target {labels.name!r} has only one sample of class {some_of(single)}; drop such "
            f"samples or merge the classes{otherwise}",
            stacklevel=3,
        )
    groups = store.groups
    if groups is not None and groups.n_groups < FEW_GROUPS:
        warnings.warn(
            f"groups {groups.name!r} has only {groups.n_groups} groups, so estimates by fold and "
            f"resample vary strongly; give {FEW_GROUPS} groups or more if a finer grouping exists",
            stacklevel=3,
        )
    return store
