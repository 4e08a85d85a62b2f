"""Split a source into parts by the labels of the option ``by``; each part is a `Source`."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dask.array.core as da
import numpy as np
import pandas as pd
from dask.delayed import delayed

from hofs_dask.encoding.columns import tree
from hofs_dask.io.columns import plain
from hofs_dask.io.fingerprint import combine
from hofs_dask.io.kinds import Name
from hofs_dask.io.reading import BY
from hofs_dask.scheduling.compute import compute

if TYPE_CHECKING:
    from hofs_dask.io.source import Source

#: Maximum number of parts of a source.
MOST_PARTS = 1000


def split_source(source: Source) -> dict[Name, Source]:
    """Return a source for each label of ``source.by``, as a dict in the order of the labels.

    Each of these sources has an additional mask, which is true for the samples with its label.
    Samples without a label are in no source. The labels are read, but the data is not.

    Examples
    --------
    >>> from hofs_dask.io.reading import Reading
    >>> from hofs_dask.io.source import open_source
    >>> y, site = np.array([0, 1, 0, 1]), np.array(["b", "a", "a", "b"])
    >>> list(split_source(open_source(np.eye(4), y, Reading(by=site))))
    ['a', 'b']
    """
    by = source.by
    assert by is not None
    blocks = by.values.to_delayed(optimize_graph=False)
    tasks = tree(
        _merged, [delayed(_distinct)(block) for block in blocks], f"split-{uuid.uuid4().hex}"
    )
    labels = _merged(list(compute(*tasks, here=by.in_memory)))
    if not len(labels):
        raise ValueError(f"by {by.name!r} has no values: all {source.n_samples} are missing")
    if len(labels) > MOST_PARTS:
        raise ValueError(
            f"by {by.name!r} has more than {MOST_PARTS} different values; give labels of few parts "
            "of the data, such as 'time.season'"
        )
    parts: dict[Name, Source] = {}
    for label in labels:
        mask = replace(
            by,
            values=da.map_blocks(_has_label, by.values, label, dtype=bool, meta=np.empty(0, bool)),
            role=BY,
            identity=combine([by.identity], str(label)),
        )
        parts[_name(label)] = replace(source, masks=(*source.masks, mask), by=None, memory=None)
    return parts


def _distinct(block: np.ndarray) -> np.ndarray:
    """Return the distinct labels of a block, but not more than `MOST_PARTS` + 1."""
    found = pd.unique(block[~pd.isna(block)])
    return np.asarray(found)[: MOST_PARTS + 1]


def _merged(several: list[np.ndarray]) -> np.ndarray:
    """Return the sorted distinct labels of several blocks, but not more than `MOST_PARTS` + 1."""
    found = pd.unique(np.concatenate(several))
    try:
        found = np.sort(found)
    except TypeError:  # labels of several types
        found = np.array(sorted(found.tolist(), key=str), dtype=object)
    return np.asarray(found)[: MOST_PARTS + 1]


def _has_label(block: np.ndarray, label: Any) -> np.ndarray:
    return np.asarray(block == label, dtype=bool)


def _name(label: Any) -> Name:
    """Return a label as a string or number; a date becomes a string."""
    if isinstance(label, np.datetime64):
        return str(pd.Timestamp(label))
    return plain(label)
