"""The groups of samples: the ids of the user, stored numbers, and the fold of each group."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hofs_dask.kernels.hashing import N_FOLDS
from hofs_dask.store.summary import MAX_DISTINCT, Category, is_missing, merge_counts

#: Fewer groups than this are too few for reliable cross-fitting and resamples.
FEW_GROUPS = 8


@dataclass(frozen=True)
class Groups:
    """The groups of the samples of a code store.

    Attributes
    ----------
    name : str
        Name of the groups.
    n_groups : int
        Number of groups.
    identity : str
        A digest of the groups: equal for equal content.
    checksums : ndarray of uint32 (row chunk)
        Checksums of the chunks of the array ``groups/<key>``.
    """

    name: str
    n_groups: int
    identity: str = ""
    checksums: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))


@dataclass(frozen=True)
class GroupCounts:
    """The number of samples of each group, of samples without an id, and of all samples.

    ``counts`` is None if there are too many groups.
    """

    counts: dict[Category, int] | None
    n_missing: int
    n_rows: int


@dataclass(frozen=True)
class Dealt:
    """The values that the store contains for groups, as a dict by the id of the group.

    The value is ``N_FOLDS * number + fold`` as a uint32. Groups have the numbers 0, 1, 2, ...
    """

    ids: dict[Category, int]

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return len(self.ids)


def count_groups(block: np.ndarray) -> GroupCounts:
    """Return the number of samples of each group of a block.

    Examples
    --------
    >>> count_groups(np.array([3.0, 5.0, 3.0, np.nan]))
    GroupCounts(counts={3: 2, 5: 1}, n_missing=1, n_rows=4)
    """
    ids, inverse = _ids(block)
    counts = np.bincount(inverse[inverse >= 0], minlength=len(ids)).tolist()
    found = dict(zip(ids, counts, strict=True))
    return GroupCounts(merge_counts([found]), int((inverse < 0).sum()), len(block))


def merge_groups(parts: Sequence[GroupCounts]) -> GroupCounts:
    """Return the sum of the counts of several blocks.

    Examples
    --------
    >>> merge_groups([count_groups(np.array([1, 2])), count_groups(np.array([2]))]).counts
    {1: 1, 2: 2}
    """
    return GroupCounts(
        merge_counts(each.counts for each in parts),
        sum(each.n_missing for each in parts),
        sum(each.n_rows for each in parts),
    )


def deal_groups(found: GroupCounts, name: str) -> Dealt:
    """Return the number and the fold of each group; raise a ValueError for unusable groups.

    Groups are numbered in the order of the hashes of their ids. Then `deal_sizes` assigns them to
    folds.

    Examples
    --------
    >>> dealt = deal_groups(GroupCounts({"a": 6, "b": 2, "c": 2, "d": 1, "e": 1}, 0, 12), "site")
    >>> {one: value % N_FOLDS for one, value in dealt.ids.items()}
    {'e': 3, 'c': 1, 'a': 0, 'd': 3, 'b': 2}
    """
    if found.n_missing:
        raise ValueError(
            f"groups {name!r} has no id for {found.n_missing} of {found.n_rows} samples; give "
            "every sample an id (groups.fillna(-1) makes one group of these samples), or remove "
            "them"
        )
    counts = found.counts
    if counts is None:
        raise ValueError(
            f"groups {name!r} has more than {MAX_DISTINCT} different ids; give ids that several "
            "samples share, or leave groups out if all samples are independent"
        )
    if len(counts) < 2:
        raise ValueError(
            f"groups {name!r} has only one id, {next(iter(counts))!r}; give two groups or more, or "
            "leave groups out"
        )
    order = sorted(counts, key=_hash)
    dealt = deal_sizes([counts[one] for one in order])
    return Dealt(dict(zip(order, dealt, strict=True)))


def deal_sizes(sizes: Sequence[int]) -> list[int]:
    """Return the stored value of each group, given the sizes of the groups 0, 1, 2, ...

    Groups are assigned to folds by their sizes, the largest group first and groups of equal size in
    the order of their numbers. Each group joins the fold that has the fewest samples so far.

    Examples
    --------
    >>> [value % N_FOLDS for value in deal_sizes([1, 2, 6, 1, 2])]
    [3, 1, 0, 3, 2]
    """
    filled, folds = [0] * N_FOLDS, [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda number: (-sizes[number], number)):
        folds[number] = filled.index(min(filled))
        filled[folds[number]] += sizes[number]
    return [N_FOLDS * number + fold for number, fold in enumerate(folds)]


def encode_groups(block: np.ndarray, dealt: Dealt) -> np.ndarray:
    """Return the stored value of the group of each sample, uint32.

    Examples
    --------
    >>> ids = np.array(["a", "b", "a"], dtype=object)
    >>> encode_groups(ids, deal_groups(count_groups(ids), "site"))
    array([0, 5, 0], dtype=uint32)
    """
    ids, inverse = _ids(block)
    if (inverse < 0).any() or any(one not in dealt.ids for one in ids):
        raise ValueError(
            "the groups changed while they were read; run the same call again when no other "
            "process writes to them"
        )
    values = np.array([dealt.ids[one] for one in ids], np.uint32)
    return np.asarray(values[inverse], np.uint32)


def _ids(block: np.ndarray) -> tuple[list[Category], np.ndarray]:
    """Return the distinct ids of a block, and the index of the id of each row, -1 if missing."""
    if block.dtype == object:
        places: dict[Category, int] = {}
        found = [
            -1 if _no_id(one) else places.setdefault(_plain(one), len(places)) for one in block
        ]
        return list(places), np.array(found, np.int64)
    if block.dtype.kind in "Mm":
        missing = np.isnat(block)
        # convert to one unit, so that equal dates have equal ids
        block = np.where(missing, 0, block.astype(f"{block.dtype.kind}8[ns]").astype(np.int64))
    else:
        missing = np.isnan(block) if block.dtype.kind == "f" else np.zeros(len(block), bool)
    values, inverse = np.unique(block[~missing], return_inverse=True)
    rows = np.full(len(block), -1, np.int64)
    rows[~missing] = inverse
    return [_plain(one) for one in values], rows


def _no_id(value: object) -> bool:
    return is_missing(value) or type(value).__name__ == "NaTType"


def _plain(value: object) -> Category:
    """Return an id as a plain value; equal numbers of different types are the same id."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value if isinstance(value, int | float | str) else str(value)


def _hash(one: Category) -> tuple[bytes, str]:
    """Return the sort key of an id: a hash that is the same on every machine."""
    text = f"text {one}" if isinstance(one, str) else f"number {one!r}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), text
