"""The reduction `POSTERIOR_GAINS`: how much each candidate improves a class posterior.

A posterior is built from rows. A row is a model of one feature within each class, given some
earlier picks (its parents). There are several kinds of rows, and each kind has its own gain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hofs_dask.engine.reduction import (
    N_PARTS,
    NO_FLOATS,
    Block,
    Context,
    FeatureRecord,
    Layout,
    Partial,
    Reduction,
    frozen,
    per_feature,
    placeholder,
)
from hofs_dask.kernels import grids, hashing, planes
from hofs_dask.kernels import posterior as kernel
from hofs_dask.kernels.gains import log_evidence
from hofs_dask.scheduling.process import PROCESS

#: The modules of the kernels that the reductions call.
KERNEL_MODULES = (grids, hashing, planes, kernel)

#: The kinds of rows. "table" has one probability per code. "shared" and "class" are linear in the
#: parents; the slopes are the same for all classes ("shared") or differ between classes ("class").
#: "pair" has one probability per pair of a code of the feature and a code of its parent. "coarse"
#: has one per code and combination of merged codes of one or two parents.
KINDS = ("table", "shared", "class", "pair", "coarse")

#: Number of groups that the codes of a parent of a coarse row are merged into.
GROUPS = 4

#: A block is processed in pieces of about this many samples, all of one fold. It is large enough
#: that the overhead of a piece is small for few candidates, and small enough for the L2 cache.
BLOCK = 2**14
#: Maximum number of codes per piece, and maximum number of values of picks or of probabilities.
#: With many candidates, picks or classes, a piece has fewer than `BLOCK` samples.
BLOCK_CODES, BLOCK_NUMBERS = 4 * 2**20, 2**18


@dataclass(frozen=True)
class LinearTerm:
    """The parameters of the linear part of a row, see `kernel.add_linear`."""

    values: np.ndarray  # (code,) the numeric value of each code, NaN for missing
    slopes: np.ndarray  # (fold, class, parent)
    shifts: np.ndarray  # (fold, class)
    scales: np.ndarray  # (fold, class)


@dataclass(frozen=True)
class PosteriorRow:
    """One row of a class posterior: the model of one feature within each class.

    It is cross-fitted: for each fold, there are parameters that were fitted to the other folds.
    """

    kind: str  # one of `KINDS`
    column: int  # position among the columns of the reduction
    parents: np.ndarray  # (parent,) positions of the parents among the columns
    # (table, fold, class, cell) log factors; the kind "pair" has one table per parent, others one
    table: np.ndarray
    linear: LinearTerm | None = None
    groups: np.ndarray | None = None  # uint8 (parent, code) of a coarse row, as in `CoarseRow`


@dataclass(frozen=True)
class CoarseRow:
    """A row with one probability per code and combination of merged codes of one or two parents."""

    parents: np.ndarray  # (parent,) positions among the columns
    groups: np.ndarray  # uint8 (parent, code) the group of each code, below `GROUPS`
    table: np.ndarray  # factors, (fold, class, cell); the code varies fastest, then the last parent


@dataclass(frozen=True)
class CandidateRows(FeatureRecord):
    """The rows that each candidate could add to a class posterior, at most one of each kind.

    For each fold, there are parameters that were fitted to the other folds. If rows are instead
    fitted once, to all samples, the fold axis has length 1. Tables hold factors, not logs; only
    their ratios between classes matter.
    """

    linear: tuple[str, ...]  # the kinds of linear rows: "shared", "class", both or none
    coarse: tuple[CoarseRow, ...]  # of a few features
    table: np.ndarray = per_feature()  # (feature, fold, class, code)
    values: np.ndarray = per_feature()  # (feature, code) the value of each code, NaN for missing
    parents: np.ndarray = per_feature()  # (feature, parent) columns of linear rows, -1 for none
    linear_table: np.ndarray = per_feature()  # (feature, linear, fold, class, code)
    slopes: np.ndarray = per_feature()  # (feature, linear, fold, class, parent)
    shifts: np.ndarray = per_feature()  # (feature, linear, fold, class)
    scales: np.ndarray = per_feature()  # (feature, linear, fold, class)
    pair_parents: np.ndarray = per_feature()  # (feature, pair) column + 1 of pair rows, -1: none
    pair_table: np.ndarray = per_feature()  # (feature, pair, fold, class, parent code x code)
    coarse_place: np.ndarray = per_feature()  # (feature,) position in `coarse`, -1 for none
    # (feature, kind, fold) the log table entries of the true class, summed over the samples of the
    # fold and divided by the total weight of all samples
    truth: np.ndarray = per_feature()

    @classmethod
    def empty(
        cls,
        shape: tuple[int, int, int, int],
        *,
        linear: tuple[str, ...] = (),
        n_parents: int = 0,
        n_pairs: int = 0,
    ) -> CandidateRows:
        """Return rows of these sizes whose arrays are placeholders that take no memory.

        Parameters
        ----------
        shape
            Number of features, folds, classes and codes.
        linear, n_parents, n_pairs
            The kinds of linear rows, and the maximum number of linear and of pair parents.

        Examples
        --------
        >>> CandidateRows.empty((10, 4, 2, 5), n_pairs=1).pair_table.shape
        (10, 1, 4, 2, 25)
        """
        m, n_folds, n_classes, n_codes = shape
        of_linear = (m, len(linear), n_folds, n_classes)
        return cls(
            linear=linear,
            table=placeholder(*shape),
            values=placeholder(m, n_codes),
            parents=np.broadcast_to(np.intp(-1), (m, n_parents)),
            linear_table=placeholder(*of_linear, n_codes),
            slopes=placeholder(*of_linear, n_parents),
            shifts=placeholder(*of_linear),
            scales=placeholder(*of_linear),
            pair_parents=np.broadcast_to(np.intp(-1), (m, n_pairs)),
            pair_table=placeholder(m, n_pairs, n_folds, n_classes, n_codes**2),
            coarse=(),
            coarse_place=np.broadcast_to(np.intp(-1), m),
            truth=placeholder(m, len(KINDS), n_folds),
        )

    @property
    def possible(self) -> np.ndarray:
        """Whether each candidate has a row of each kind, bool (feature, kind)."""
        found = np.zeros((len(self.table), len(KINDS)), np.bool_)
        found[:, KINDS.index("table")] = True
        for kind in self.linear:
            found[:, KINDS.index(kind)] = (self.parents >= 0).any(axis=1)
        found[:, KINDS.index("pair")] = (self.pair_parents > 0).any(axis=1)
        found[:, KINDS.index("coarse")] = self.coarse_place >= 0
        return found

    def row(self, i: int, kind: str, column: int) -> PosteriorRow:
        """Return one row of one candidate, in the form in which it is added to a posterior.

        Parameters
        ----------
        i
            The position of the candidate among the features.
        kind
            One of `KINDS`. The candidate must have a row of this kind, see `possible`.
        column
            The position that the candidate will have among the columns of the reduction.
        """
        with np.errstate(divide="ignore"):  # a table may rule out a class
            if kind == "table":
                return PosteriorRow(kind, column, np.zeros(0, np.intp), np.log(self.table[[i]]))
            if kind == "pair":
                parents = self.pair_parents[i] - 1
                return PosteriorRow(kind, column, parents, np.log(self.pair_table[i]))
            if kind == "coarse":
                own = self.coarse[self.coarse_place[i]]
                return PosteriorRow(
                    kind, column, own.parents, np.log(own.table)[None], groups=own.groups
                )
        parents = self.parents[i][self.parents[i] >= 0]
        place = self.linear.index(kind)
        term = LinearTerm(
            self.values[i].copy(),
            self.slopes[i, place, ..., : len(parents)].copy(),
            self.shifts[i, place].copy(),
            self.scales[i, place].copy(),
        )
        return PosteriorRow(kind, column, parents, np.log(self.linear_table[i, [place]]), term)


@dataclass(frozen=True)
class GainsContext(Context):
    """The parameters of the reduction `POSTERIOR_GAINS`."""

    prior: np.ndarray  # (class,) log probabilities
    rows: tuple[PosteriorRow, ...]  # rows of the current posterior
    numbers: np.ndarray  # (column, code) the numeric value of each code
    logistic: bool  # density of linear rows: logistic or Gaussian
    total: int  # divisor of the sums: the total weight of the samples
    parts: tuple[int, ...]  # the parts of the samples (see `N_PARTS`) to sum over
    squares: bool  # whether to also sum the squares of gains
    candidates: CandidateRows = per_feature()
    wanted: np.ndarray = per_feature()  # bool (feature,); for other features the gains are zero
    places: np.ndarray | None = None  # (wanted feature,) positions in the tile, set by `narrowed`
    grids: tuple[np.ndarray | None, ...] = ()  # for each of `rows`, see `_grids`; set by `prepared`


#: Class boundaries of a piece that is not sorted by class.
NO_STARTS = np.zeros(0, np.intp)
#: The position in `_Piece.bases` for a row without a parent.
NO_PARENT = frozen(np.zeros(1, np.intp))


@dataclass(frozen=True)
class _Piece:
    """Some samples of one fold, sorted by class if there are linear rows."""

    fold: int
    starts: np.ndarray  # (class + 1,) start of each class; empty if the samples are not sorted
    codes: np.ndarray  # uint8 (feature, sample)
    columns: np.ndarray  # uint8 (column, sample)
    values: np.ndarray  # (column, code) the numeric value of each code
    weights: np.ndarray  # float64 (sample,); empty if all samples have weight 1

    def sum(self, values: np.ndarray) -> float:
        """Return the weighted sum of values of the samples."""
        return float(values.sum() if not len(self.weights) else values @ self.weights)

    @property
    def labels(self) -> np.ndarray:
        """The class of each sample."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def bases(self) -> np.ndarray:
        """The position in a pair table of the first cell of a column's code, uint16.

        The shape is (1 + column, sample). The first entry is zero, for a row without a parent.
        """
        found = np.zeros((1 + len(self.columns), self.codes.shape[1]), np.uint16)
        for j, column in enumerate(self.columns):
            np.multiply(column, self.values.shape[1], out=found[1 + j], dtype=np.uint16)
        return frozen(found)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The numeric values of the columns, (column, sample)."""
        found = np.empty(self.columns.shape)
        for values, column, numbers in zip(self.values, self.columns, found, strict=True):
            np.take(values, column, out=numbers, mode="clip")
        return frozen(found)


def pieces(context: GainsContext, block: Block) -> Iterator[_Piece]:
    """Yield the samples of the requested parts in pieces of one fold each.

    If the candidate rows were fitted only once, to all samples, there is a single fold. All pieces
    share one buffer, so a piece is valid only until the next one is requested.
    """
    n_features, n_folds, n_classes = context.candidates.table.shape[:3]
    of_fold = [sum(part % n_folds == fold for part in context.parts) for fold in range(n_folds)]
    numbers_a_sample = max(n_classes, len(block.columns))
    most = max(min(BLOCK, BLOCK_CODES // n_features, BLOCK_NUMBERS // numbers_a_sample), 64)
    length = most * N_PARTS // max(of_fold)
    wanted = np.isin(np.arange(N_PARTS), context.parts)
    for start in range(0, len(block.labels), length):
        labels, parts = (array[start : start + length] for array in (block.labels, block.parts))
        if n_folds == 1 and not context.candidates.linear:
            # tables do not use the class, so no sorting is needed
            yield _piece(context, block, np.arange(start, start + len(labels)), 0)
            continue
        rows = np.flatnonzero(wanted[parts])
        groups = labels[rows].astype(np.uint16)
        groups += n_classes * (parts[rows] % n_folds).astype(np.uint16)
        order = np.argsort(groups, kind="stable")
        edges = np.searchsorted(groups[order], np.arange(n_folds * n_classes + 1))
        for fold in range(n_folds):
            starts = edges[fold * n_classes : (fold + 1) * n_classes + 1]
            if starts[-1] > starts[0]:
                chosen = start + rows[order[starts[0] : starts[-1]]]
                yield _piece(context, block, chosen, fold, starts - starts[0])


def _piece(
    context: GainsContext,
    block: Block,
    rows: np.ndarray,
    fold: int,
    starts: np.ndarray = NO_STARTS,
) -> _Piece:
    """Return the piece of the samples at these positions (``rows``) of a block."""
    n_codes, n_columns = len(block.tile) * len(rows), len(block.columns) * len(rows)
    memory = PROCESS.memory("posterior-gains", n_codes + n_columns)
    codes, columns = block.tile.some(rows, memory), block.columns.some(rows, memory[n_codes:])
    weights = block.weights[rows].astype(np.float64) if len(block.weights) else NO_FLOATS
    samples = frozen(codes), frozen(columns), context.numbers, frozen(weights)
    return _Piece(fold, frozen(starts), *samples)


def _grids(context: GainsContext) -> tuple[np.ndarray | None, ...]:
    """Return, for each row of the posterior, a log table (1, fold, class, cell) or None.

    A linear row is replaced by such a table if it has few cells, which are the combinations of
    codes of its parents and its feature. For all other rows, the entry is None.
    """
    found: list[np.ndarray | None] = []
    for row in context.rows:
        grid = None
        if row.linear is not None:
            term = row.linear
            n_cells = context.numbers.shape[1] ** len(row.parents) * len(term.values)
            if n_cells <= grids.GRID:
                grid = np.empty((1, *term.shifts.shape, n_cells))
                fit = (row.parents, row.table[0], term.slopes, term.shifts, term.scales)
                grids.set_grid(term.values, context.numbers, *fit, context.logistic, grid[0])
        found.append(grid)
    return tuple(found)


def _coarse_bases(parents: np.ndarray, groups: np.ndarray, piece: _Piece) -> np.ndarray:
    """Return the offsets of the cells of a coarse row, uint16 (1, sample)."""
    found = np.zeros((1, piece.codes.shape[1]), np.uint16)
    for parent, group in zip(parents, groups, strict=True):
        found[0] = found[0] * np.uint16(GROUPS) + group[piece.columns[parent]]
    found *= np.uint16(piece.values.shape[1])
    bases: np.ndarray = frozen(found)
    return bases


def class_posterior(context: GainsContext, piece: _Piece) -> tuple[np.ndarray, np.ndarray]:
    """Return the log probabilities and the probabilities of the classes, (class, sample) each."""
    n_codes = context.numbers.shape[1]
    posterior = np.repeat(context.prior[:, None], piece.codes.shape[1], axis=1)
    for row, grid in zip(context.rows, context.grids, strict=True):
        codes = piece.columns[row.column]
        if grid is not None:
            cells = np.zeros((1, len(codes)), np.uint16)
            for parent in row.parents:
                cells[0] = cells[0] * np.uint16(n_codes) + piece.columns[parent]
            cells *= np.uint16(grid.shape[-1] // n_codes ** len(row.parents))
            kernel.add_tables(posterior, codes, frozen(cells), NO_PARENT, grid, piece.fold)
            continue
        if row.groups is not None:
            bases = _coarse_bases(row.parents, row.groups, piece)
            kernel.add_tables(posterior, codes, bases, NO_PARENT, row.table, piece.fold)
            continue
        bases = frozen(row.parents + 1) if row.kind == "pair" else NO_PARENT
        kernel.add_tables(posterior, codes, piece.bases, bases, row.table, piece.fold)
        if row.linear is not None:
            fit = (row.parents, row.linear.slopes, row.linear.shifts, row.linear.scales)
            numbers = (row.linear.values, piece.numbers)
            kernel.add_linear(posterior, codes, *numbers, *fit, piece.fold, context.logistic)
    posterior -= posterior.max(axis=0)
    probability = np.exp(posterior)
    total = probability.sum(axis=0)
    posterior -= np.log(total)
    probability /= total
    return posterior, frozen(probability)


def _gain_layout(_context: GainsContext, n_features: int) -> Layout:
    shape = ((n_features, len(KINDS)), np.float64)
    return {"gain": shape, "square": shape}


def narrowed(context: GainsContext) -> GainsContext:
    """Return the context without the features that are not wanted, and with `places` set."""
    if context.places is not None:
        return context
    places = np.flatnonzero(context.wanted)
    if len(places) < len(context.wanted):
        context = context.take(places)
    return replace(context, places=places)


def prepared(context: GainsContext) -> GainsContext | None:
    """Return the `narrowed` context with `grids` set, or None if no feature is wanted."""
    context = narrowed(context)
    if not len(context.wanted):
        return None
    return replace(context, grids=_grids(context))


def _gain_chunk(context: GainsContext, block: Block, partial: Partial) -> None:
    """Add the gains of a block and, if requested, their squares to a partial.

    Without squares, the log table entries of the true class are added in `_gains` instead.
    """
    rows, places = context.candidates, context.places
    assert places is not None  # the context is prepared
    m = len(places)
    if m < len(block.tile):
        block = replace(block, tile=block.tile.only(places))
    gain, square = np.zeros((2, m, len(KINDS)))
    n_squared = m if context.squares else 0
    no_parent = frozen(np.zeros((m, 1), np.intp))
    tables = {"table": (no_parent, rows.table[:, None])}
    if rows.pair_parents.shape[1]:
        tables["pair"] = (rows.pair_parents, rows.pair_table)
    linear = (rows.linear_table, rows.slopes, rows.shifts, rows.scales)
    kinds, few = [KINDS.index(kind) for kind in rows.linear], _few_cells(context)[:, None]
    parents_of_few = frozen(np.where(few, rows.parents, -1))
    parents_of_many = frozen(np.where(few, -1, rows.parents))
    for piece in pieces(context, block):
        posterior, probability = class_posterior(context, piece)
        for kind, (parents, table) in tables.items():
            found, squares = np.empty(m), np.empty(n_squared)
            kernel.score_tables(
                piece.codes,
                piece.bases,
                parents,
                table,
                piece.fold,
                piece.starts,
                piece.weights,
                probability,
                found,
                squares,
            )
            for i in np.flatnonzero(np.isnan(found)).tolist():
                found[i] = _exact_tables(piece, posterior, i, parents[i], table[i])
                if context.squares:
                    found[i] += _of_truth(piece, i, parents[i, 0], table[i, 0])
                    squares[i] = np.inf
            gain[:, KINDS.index(kind)] += found
            square[:n_squared, KINDS.index(kind)] += squares
        for i in np.flatnonzero(rows.coarse_place >= 0).tolist():
            own = _coarse_gain(piece, posterior, probability, i, rows, squares=context.squares)
            gain[i, KINDS.index("coarse")] += own[0]
            square[i, KINDS.index("coarse")] += own[1]
        if rows.linear:
            rest = (piece.starts, piece.weights, probability)
            several = np.zeros((2, m, len(kinds)))
            squares_of = np.zeros((2, n_squared, len(kinds)))
            if few.any():
                grids.score_grids(
                    piece.codes,
                    piece.columns,
                    rows.values,
                    context.numbers,
                    parents_of_few,
                    *linear,
                    context.logistic,
                    piece.fold,
                    *rest,
                    several[0],
                    squares_of[0],
                )
            if not few.all():
                kernel.score_linear(
                    piece.codes,
                    rows.values,
                    piece.numbers,
                    parents_of_many,
                    *linear,
                    context.logistic,
                    piece.fold,
                    *rest,
                    several[1],
                    squares_of[1],
                )
            for way, i, place in np.argwhere(np.isnan(several)).tolist():
                whole = way == 0 or context.squares
                several[way, i, place] = _exact_linear(context, piece, posterior, i, place, whole)
                squares_of[way, i : i + 1, place] = np.inf
            gain[:, kinds] += several.sum(axis=0)
            square[:n_squared, kinds] += squares_of.sum(axis=0)
    partial["gain"][places] += gain
    partial["square"][places] += square


def _coarse_gain(
    piece: _Piece,
    posterior: np.ndarray,
    probability: np.ndarray,
    i: int,
    rows: CandidateRows,
    *,
    squares: bool,
) -> tuple[float, float]:
    """Return the score of the coarse row of a feature, and the sum of squared gains or 0."""
    own = rows.coarse[rows.coarse_place[i]]
    codes = piece.codes[i : i + 1]
    bases = _coarse_bases(own.parents, own.groups, piece)
    table: np.ndarray = frozen(own.table[None, None])
    found, squared = np.empty(1), np.empty(int(squares))
    kernel.score_tables(
        codes,
        bases,
        frozen(np.zeros((1, 1), np.intp)),
        table,
        piece.fold,
        piece.starts,
        piece.weights,
        probability,
        found,
        squared,
    )
    if not np.isnan(found[0]):
        return float(found[0]), float(squared.sum())
    row = np.zeros(posterior.shape)
    kernel.add_tables(row, codes[0], bases, NO_PARENT, frozen(np.log(table[0])), piece.fold)
    exact = -piece.sum(log_evidence(posterior, row))
    if not squares:
        return exact, 0.0
    cells = bases[0] + codes[0].astype(np.intp)
    return exact + piece.sum(np.log(own.table[piece.fold, piece.labels, cells])), np.inf


def _exact_tables(
    piece: _Piece, posterior: np.ndarray, i: int, parents: np.ndarray, tables: np.ndarray
) -> float:
    """Return the score of one feature for which the products in `kernel.score_tables` underflow."""
    row = np.zeros(posterior.shape)
    with np.errstate(divide="ignore"):  # a table may rule out a class that is not the true one
        logs = frozen(np.log(tables))
    kernel.add_tables(row, piece.codes[i], piece.bases, frozen(parents), logs, piece.fold)
    return -piece.sum(log_evidence(posterior, row))


def _of_truth(piece: _Piece, i: int, parent: int, table: np.ndarray) -> float:
    """Return the log of the table entry of the true class, summed over samples.

    The table has the axes (fold, class, cell).
    """
    cells = piece.bases[parent] + piece.codes[i].astype(np.intp)
    return piece.sum(np.log(table[piece.fold, piece.labels, cells]))


def _exact_linear(
    context: GainsContext, piece: _Piece, posterior: np.ndarray, i: int, place: int, whole: bool
) -> float:
    """Return the score of one linear row of a feature for which products in the kernel underflow.

    If ``whole`` is true, the score includes the log table entries of the true class.
    """
    rows = context.candidates
    after = posterior.copy()
    fit = (rows.slopes[i, place], rows.shifts[i, place], rows.scales[i, place])
    numbers = (rows.values[i], piece.numbers, rows.parents[i])
    kernel.add_linear(after, piece.codes[i], *numbers, *fit, piece.fold, context.logistic)
    truth = piece.labels, np.arange(len(piece.labels))
    gain = piece.sum(after[truth] - posterior[truth])
    table = rows.linear_table[i, place][None]
    if whole:
        gain += _of_truth(piece, i, 0, table[0])
    return gain + _exact_tables(piece, after, i, np.zeros(1, np.intp), table)


def _few_cells(context: GainsContext) -> np.ndarray:
    """Return whether the linear rows of each feature have few cells, bool (feature,).

    These rows are scored by `grids.score_grids`.
    """
    rows = context.candidates
    n_parents = (rows.parents >= 0).sum(axis=1)
    width = float(max(rows.values.shape[1], context.numbers.shape[1], 1))
    result: np.ndarray = width ** (n_parents + 1) <= grids.GRID
    return result


def _gains(context: GainsContext, total: Partial) -> Partial:
    context = narrowed(context)
    rows = context.candidates
    gain = total["gain"] / context.total
    if not context.squares:
        n_folds = rows.truth.shape[2]
        folds = sorted({part % n_folds for part in context.parts})
        truth = rows.truth[..., folds].sum(axis=-1)
        kinds = [KINDS.index(kind) for kind in rows.linear]
        truth[:, kinds] *= ~_few_cells(context)[:, None]  # `grids.score_grids` includes it
        gain[context.places] += truth
    return {"gain": gain, "square": total["square"] / context.total}


#: ``gain[i, kind]``, with kinds in the order of `KINDS`, is the increase of the mean log posterior
#: probability of the true class when candidate i is added with a row of this kind. It is 0 if the
#: candidate has no such row. ``square[i, kind]`` is the mean over samples of the squared increase,
#: or slightly more. If squares are requested, the log table entries of the true class are summed
#: over the samples. Otherwise their known sum `CandidateRows.truth` is added, and `parts` must form
#: whole folds.
POSTERIOR_GAINS = Reduction(
    "posterior-gains", _gain_layout, _gain_chunk, _gains, prepared, narrowed
)
