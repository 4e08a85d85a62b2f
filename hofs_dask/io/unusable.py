"""Columns of unsupported types: excluded, skipped, or refused with one error for all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import dask.array as da

from hofs_dask.errors import refusal, skipped, unknown
from hofs_dask.io.columns import (
    BadColumn,
    Features,
    feature_label,
    plain,
    refuse_dtype,
    refuse_sparse,
)
from hofs_dask.io.kinds import Name
from hofs_dask.io.reading import find_columns

ON_BAD = ("raise", "skip")


def check_on_bad(on_bad: object) -> None:
    """Raise a ValueError if the option is not one of `ON_BAD`.

    Examples
    --------
    >>> check_on_bad("drop")
    Traceback (most recent call last):
    ...
    ValueError: unknown on_bad 'drop'; valid: 'skip', 'raise'
    """
    if on_bad not in ON_BAD:
        raise unknown("on_bad", on_bad, ON_BAD)


def usable(features: Features, exclude: Iterable[Hashable], on_bad: str) -> Features:
    """Return the features whose types can be used, with a note about those that are skipped.

    Columns of unsupported types that are in ``exclude`` are left out. If there are others, they
    are skipped if ``on_bad`` is ``"skip"``; otherwise one TypeError names all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask.io.mappings import from_mapping
    >>> data = {"a": np.zeros(2), "when": np.zeros(2, "M8[s]"), "z": np.zeros(2, complex)}
    >>> usable(from_mapping(data, None)[0], ["z"], "skip").notes
    ("skipped feature 'when', which is datetime64[s]: dates",)
    >>> usable(from_mapping(data, None)[0], [], "raise")
    Traceback (most recent call last):
    ...
    TypeError: 2 features cannot be used: feature 'when' is datetime64[s]: dates; ...
    """
    names = [plain(name) for name in features.names]
    parts: list[Any] = []
    kept: list[int] = []
    bad: list[BadColumn] = []
    first = 0
    for part in features.parts:
        own = range(first, first + part.shape[1])
        first += part.shape[1]
        problem = _problem(names[own.start], part)
        if problem is None:
            parts.append(part)
            kept.extend(own)
        else:
            label = feature_label(names[own.start])
            texts = [problem.replace(label, feature_label(names[j]), 1) for j in own]
            bad += [BadColumn(j, names[j], text) for j, text in zip(own, texts, strict=True)]
    columns: list[Name] = list(names)
    for each in sorted(features.bad, key=lambda each: each.position):
        columns.insert(each.position, each.name)
    bad += features.bad
    out = {columns[j] for j in find_columns(columns, exclude, "exclude")}
    place = {name: j for j, name in enumerate(columns)}
    left = [each for each in bad if each.name not in out]
    left.sort(key=lambda each: place[each.name])
    if left and (on_bad == "raise" or not kept):
        raise TypeError(refusal([each.text for each in left], [each.name for each in left]))
    return replace(
        features,
        names=[features.names[j] for j in kept],
        parts=parts,
        nominal=[features.nominal[j] for j in kept],
        columns=columns,
        axis=None if features.axis is None else features.axis.take(kept),
        notes=(*features.notes, *skipped([each.text for each in left])),
    )


def _problem(name: Name, part: Any) -> str | None:
    """Return a text that says why the dtype of a part cannot be used, or None if it can."""
    try:
        refuse_dtype(feature_label(name), part.dtype)
        if isinstance(part, da.Array):
            refuse_sparse(feature_label(name), part._meta)
    except TypeError as error:
        return str(error)
    return None
