"""Base classes of the states and scores of the searches that use a class posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hofs_dask.engine.posteriors import GROUPS, CandidateRows, PosteriorRow
from hofs_dask.engine.reduction import N_FOLDS
from hofs_dask.methods.base import Scores, State
from hofs_dask.methods.fields import ROUNDING, Check, Floats, Sizes, Wholes


@dataclass(frozen=True, kw_only=True)
class PosteriorState(State):
    """Base class for the state of a search with a class posterior, after some rounds."""

    #: The kinds of rows that may occur, the number of folds that rows are fitted for, and whether a
    #: row may assign probability zero to a class.
    kinds: ClassVar[tuple[str, ...]]
    n_folds: ClassVar[int] = N_FOLDS
    may_rule_out: ClassVar[bool] = False

    rows: tuple[PosteriorRow, ...]  # one row per pick of this epoch

    @property
    def first(self) -> int:
        """The rank of the first pick of this epoch, counted from 0."""
        return len(self.chosen) - len(self.rows)

    @property
    def picks(self) -> tuple[int, ...]:
        """The picks of this epoch."""
        return self.chosen[self.first :]

    def check_rows(self, sizes: Sizes) -> None:
        """Raise a ValueError if the rows, which were read from a file, are invalid.

        The first row must be a table, and the parents of a row must come before the row.
        """
        name, n_picks = type(self).__name__, sizes["pick"]
        if type(self.rows) is not tuple or not min(n_picks, 1) <= len(self.rows) <= n_picks:
            raise ValueError(f"{name}.rows does not match the last picks")
        for place, row in enumerate(self.rows):
            kinds = self.kinds if place else ("table",)
            if type(row) is not PosteriorRow or row.kind not in kinds:
                raise ValueError(f"{name}.rows[{place}] is not a row of a kind in {kinds}")
            self._check_row(row, place, sizes)

    def _check_row(self, row: PosteriorRow, place: int, sizes: Sizes) -> None:
        n_parents = 0 if row.kind == "table" else min(max(len(row.parents), 1), place)
        own = {
            **sizes,
            "place": place,
            "fold": self.n_folds,
            "parent": n_parents,
            "table": n_parents if row.kind == "pair" else 1,
            "cell": sizes["code"] ** 2 if row.kind == "pair" else sizes["code"],
        }
        if row.kind == "coarse":
            own["cell"] = GROUPS**n_parents * sizes["code"]
            shape = (n_parents, sizes["code"])
            groups = row.groups
            valid = isinstance(groups, np.ndarray) and groups.dtype == np.uint8
            if groups is None or not valid or groups.shape != shape:
                raise ValueError("PosteriorRow.groups is not an array of uint8 for the parents")
            if n_parents > 2 or groups.max(initial=0) >= GROUPS:
                raise ValueError(f"PosteriorRow.groups is not below {GROUPS}")
        elif row.groups is not None:
            raise ValueError(f"PosteriorRow.groups is not None for a row of kind {row.kind!r}")
        hole = -math.inf if self.may_rule_out else None
        checks: dict[str, tuple[Any, Check]] = {
            "parents": (row.parents, Wholes(("parent",), below="place")),
            "table": (
                row.table,
                Floats(("table", "fold", "class", "cell"), hole=hole, most=ROUNDING),
            ),
        }
        if row.kind in ("shared", "class"):
            if row.linear is None:
                raise ValueError("PosteriorRow.linear is None")
            checks |= {
                "values": (row.linear.values, Floats(("code",), hole=math.nan)),
                "slopes": (row.linear.slopes, Floats(("fold", "class", "parent"))),
                "shifts": (row.linear.shifts, Floats(("fold", "class"))),
                "scales": (row.linear.scales, Floats(("fold", "class"))),
            }
        elif row.linear is not None:
            raise ValueError(f"PosteriorRow.linear is not None for a row of kind {row.kind!r}")
        for name, (value, check) in checks.items():
            try:
                check(value, own)
            except ValueError as error:
                raise ValueError(f"PosteriorRow.{name} {error}") from error
        if row.column != place or type(row.column) is not int:
            raise ValueError(f"PosteriorRow.column is {row.column}, not {place}")


@dataclass(frozen=True)
class PosteriorScores(Scores):
    """The scores of one round, with the rows from which they were computed.

    Attributes
    ----------
    rows
        The rows of every candidate.
    kind
        The position in `KINDS` of the best row of each candidate, (feature,).
    row_gain
        How much this row increases the mean log posterior of the true class, (feature,).
    """

    rows: CandidateRows
    kind: np.ndarray
    row_gain: np.ndarray
