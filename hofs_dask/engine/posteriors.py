"""The reduction of class posteriors: what each kind of row of each candidate gains."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hofs_dask.engine.reduction import (
    N_FOLDS,
    N_PARTS,
    Block,
    Context,
    Layout,
    Partial,
    Reduction,
    Tile,
    frozen,
)
from hofs_dask.kernels import grids
from hofs_dask.kernels import posterior as kernel

KINDS = ("table", "shared", "class", "pair")

#: Samples of one fold that are worked on at a time, about: enough that what is done once a piece
#: counts for little where there are few candidates, few enough for the second-level cache.
BLOCK = 2**14
#: Codes that are copied at a time at most, and numbers of picks or probabilities: less
#: than `BLOCK` samples where candidates, picks or classes are many.
BLOCK_CODES, BLOCK_NUMBERS = 4 * 2**20, 2**18


@dataclass(frozen=True)
class PosteriorRow:
    """One row of a class posterior, fitted without each fold in turn."""

    kind: str  # of KINDS
    column: int  # its place among the columns of the reduction
    parents: np.ndarray  # (parent,) the places of its parents
    table: np.ndarray  # logs, (table, fold, class, cell); a pair has a table a parent, others one
    values: np.ndarray | None = None  # (code,), NaN where missing; this and the rest if linear
    slopes: np.ndarray | None = None  # (fold, class, parent)
    shifts: np.ndarray | None = None  # (fold, class)
    scales: np.ndarray | None = None  # (fold, class)


_THREAD = threading.local()

#: Where the classes begin in a piece that is not sorted by them.
NO_STARTS = np.zeros(0, np.intp)
#: The base of a row without a parent.
NO_PARENT = np.zeros(1, np.intp)


@dataclass(frozen=True)
class _Piece:
    """Some samples of one fold, sorted by class where there are linear rows."""

    fold: int
    starts: np.ndarray  # (class + 1,) where each class begins; empty if they are not sorted
    codes: np.ndarray  # uint8 (feature, sample)
    columns: np.ndarray  # uint8 (column, sample)
    values: np.ndarray  # (column, code) the numbers of the codes of the columns

    @property
    def labels(self) -> np.ndarray:
        """The class of each sample."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def bases(self) -> np.ndarray:
        """Where a parent's row begins in a table of pairs, uint16 (1 + column, sample).

        The first is that of no parent.
        """
        found = np.zeros((1 + len(self.columns), self.codes.shape[1]), np.uint16)
        for j, column in enumerate(self.columns):
            np.multiply(column, self.values.shape[1], out=found[1 + j], dtype=np.uint16)
        return found

    @cached_property
    def numbers(self) -> np.ndarray:
        """The numbers of the columns, (column, sample)."""
        found = np.empty(self.columns.shape)
        for values, column, numbers in zip(self.values, self.columns, found, strict=True):
            np.take(values, column, out=numbers, mode="clip")
        return found


def _pieces(context: Context, block: Block) -> Iterator[_Piece]:
    """The samples of the wanted parts in pieces of one fold; one fold of tables is for all samples.

    A piece is void when the next one is asked for: they share their memory.
    """
    shared = context.shared
    n_features, n_folds, n_classes = context.per_feature["table"].shape[:3]
    of_fold = [sum(part % n_folds == fold for part in shared["parts"]) for fold in range(n_folds)]
    numbers_a_sample = max(n_classes, len(block.columns))
    most = max(min(BLOCK, BLOCK_CODES // n_features, BLOCK_NUMBERS // numbers_a_sample), 64)
    length = most * N_PARTS // max(of_fold)
    wanted = np.isin(np.arange(N_PARTS), shared["parts"])
    for start in range(0, len(block.labels), length):
        labels, parts = (array[start : start + length] for array in (block.labels, block.parts))
        if n_folds == 1 and not shared["linear"]:
            # tables do not ask for the class: the order is as good as any
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


def _memory(n_bytes: int) -> np.ndarray:
    """Memory of this thread: it is new only once, which costs more than what is done with it."""
    found: np.ndarray | None = getattr(_THREAD, "memory", None)
    if found is None or len(found) < n_bytes:
        found = _THREAD.memory = np.empty(n_bytes, np.uint8)
    return found


def _piece(
    context: Context,
    block: Block,
    rows: np.ndarray,
    fold: int,
    starts: np.ndarray = NO_STARTS,
) -> _Piece:
    """The samples at these rows of a block."""
    n_codes, n_columns = len(block.tile) * len(rows), len(block.columns) * len(rows)
    memory = _memory(n_codes + n_columns)
    codes, columns = block.tile.some(rows, memory), block.columns.some(rows, memory[n_codes:])
    return _Piece(fold, starts, codes, columns, context.shared["numbers"])


def _grids(context: Context) -> tuple[np.ndarray | None, ...]:
    """The logs of linear rows of few choices of codes, (1, fold, class, cell), None for others."""
    shared, found = context.shared, []
    for row in shared["rows"]:
        grid = None
        if row.slopes is not None and row.values is not None:
            n_cells = shared["numbers"].shape[1] ** len(row.parents) * len(row.values)
            if n_cells <= grids.GRID:
                grid = np.empty((1, *row.shifts.shape, n_cells))
                fit = (row.parents, row.table[0], row.slopes, row.shifts, row.scales)
                grids.set_grid(row.values, shared["numbers"], *fit, shared["logistic"], grid[0])
        found.append(grid)
    return tuple(found)


def _posterior(context: Context, piece: _Piece) -> tuple[np.ndarray, np.ndarray]:
    """The logs of the class probabilities that the chosen rows give, and these, (class, sample)."""
    shared = context.shared
    posterior = np.repeat(shared["prior"][:, None], piece.codes.shape[1], axis=1)
    for row, grid in zip(shared["rows"], shared["grids"], strict=True):
        codes = piece.columns[row.column]
        if grid is not None:
            cells = np.zeros((1, len(codes)), np.uint16)
            for parent in row.parents:
                cells[0] = cells[0] * np.uint16(shared["numbers"].shape[1]) + piece.columns[parent]
            cells *= np.uint16(grid.shape[-1] // shared["numbers"].shape[1] ** len(row.parents))
            kernel.add_tables(posterior, codes, cells, NO_PARENT, grid, piece.fold)
            continue
        bases = row.parents + 1 if row.kind == "pair" else NO_PARENT
        kernel.add_tables(posterior, codes, piece.bases, bases, row.table, piece.fold)
        if row.slopes is not None:
            fit = (row.parents, row.slopes, row.shifts, row.scales)
            numbers = (row.values, piece.numbers)
            kernel.add_linear(posterior, codes, *numbers, *fit, piece.fold, shared["logistic"])
    posterior -= posterior.max(axis=0)
    probability = np.exp(posterior)
    total = probability.sum(axis=0)
    posterior -= np.log(total)
    probability /= total
    return posterior, probability


def _gain_layout(_context: Context, n_features: int) -> Layout:
    shape = ((n_features, len(KINDS)), np.float64)
    return {"gain": shape, "square": shape}


def _wanted(context: Context) -> Context:
    """The context of the wanted features alone, with their places."""
    if "places" in context.shared:
        return context
    wanted = context.per_feature["wanted"]
    own = context.per_feature
    if not wanted.all():
        own = {name: array[wanted] for name, array in own.items()}
    return Context({**context.shared, "places": np.flatnonzero(wanted)}, own)


def _with_grids(context: Context) -> Context | None:
    """The context of the wanted features, if there are any, with the grids of the rows."""
    context = _wanted(context)
    if not len(context.shared["places"]):
        return None
    return replace(context, shared={**context.shared, "grids": _grids(context)})


def _gain_chunk(context: Context, block: Block, partial: Partial) -> None:
    """Add the gains of a block but for the tables of the true class, and their squares."""
    shared, own = context.shared, context.per_feature
    places = shared["places"]
    m = len(places)
    if m < len(block.tile):
        block = replace(block, tile=block.tile.only(places))
    gain, square = np.zeros((2, m, len(KINDS)))
    n_squared = m if shared["squares"] else 0
    no_parent = frozen(np.zeros((m, 1), np.intp))
    tables = {"table": (no_parent, own["table"][:, None])}
    if own["pair_parents"].shape[1]:
        tables["pair"] = (own["pair_parents"], own["pair_table"])
    linear = (own["linear_table"], own["slopes"], own["shifts"], own["scales"])
    kinds, few = [KINDS.index(kind) for kind in shared["linear"]], _few_cells(context)[:, None]
    parents_of_few = frozen(np.where(few, own["parents"], -1))
    parents_of_many = frozen(np.where(few, -1, own["parents"]))
    for piece in _pieces(context, block):
        posterior, probability = _posterior(context, piece)
        for kind, (parents, table) in tables.items():
            found, squares = np.empty(m), np.empty(n_squared)
            kernel.score_tables(
                piece.codes,
                piece.bases,
                parents,
                table,
                piece.fold,
                piece.starts,
                probability,
                found,
                squares,
            )
            for i in np.flatnonzero(np.isnan(found)).tolist():
                found[i] = _exact_tables(piece, posterior, i, parents[i], table[i])
                if shared["squares"]:
                    found[i] += _of_truth(piece, i, parents[i, 0], table[i, 0])
                    squares[i] = np.inf
            gain[:, KINDS.index(kind)] += found
            square[:n_squared, KINDS.index(kind)] += squares
        if shared["linear"]:
            rest = (shared["logistic"], piece.fold, piece.starts, probability)
            several = np.zeros((2, m, len(kinds)))
            squares_of = np.zeros((2, n_squared, len(kinds)))
            if few.any():
                grids.score_grids(
                    piece.codes,
                    piece.columns,
                    own["values"],
                    shared["numbers"],
                    parents_of_few,
                    *linear,
                    *rest,
                    several[0],
                    squares_of[0],
                )
            if not few.all():
                kernel.score_linear(
                    piece.codes,
                    own["values"],
                    piece.numbers,
                    parents_of_many,
                    *linear,
                    *rest,
                    several[1],
                    squares_of[1],
                )
            for way, i, place in np.argwhere(np.isnan(several)).tolist():
                whole = way == 0 or shared["squares"]
                several[way, i, place] = _exact_linear(context, piece, posterior, i, place, whole)
                squares_of[way, i : i + 1, place] = np.inf
            gain[:, kinds] += several.sum(axis=0)
            square[:n_squared, kinds] += squares_of.sum(axis=0)
    partial["gain"][places] += gain
    partial["square"][places] += square


def _exact_tables(
    piece: _Piece, posterior: np.ndarray, i: int, parents: np.ndarray, tables: np.ndarray
) -> float:
    """What `kernel.score_tables` sets for one feature, where products are too small."""
    after = posterior.copy()
    with np.errstate(divide="ignore"):  # a table may rule out a class that is not the true one
        logs = frozen(np.log(tables))
    kernel.add_tables(after, piece.codes[i], piece.bases, parents.copy(), logs, piece.fold)
    return -float(np.logaddexp.reduce(after, axis=0).sum())


def _of_truth(piece: _Piece, i: int, parent: int, table: np.ndarray) -> float:
    """The sum of the logs of a table (fold, class, cell) of the true class of each sample."""
    cells = piece.bases[parent] + piece.codes[i].astype(np.intp)
    return float(np.log(table[piece.fold, piece.labels, cells]).sum())


def _exact_linear(
    context: Context, piece: _Piece, posterior: np.ndarray, i: int, place: int, whole: bool
) -> float:
    """What a kernel sets for one linear row of a feature, where products are too small.

    The table of the true class is part of the whole.
    """
    own, logistic = context.per_feature, context.shared["logistic"]
    after = posterior.copy()
    fit = (own["slopes"][i, place], own["shifts"][i, place], own["scales"][i, place])
    numbers = (own["values"][i], piece.numbers, own["parents"][i])
    kernel.add_linear(after, piece.codes[i], *numbers, *fit, piece.fold, logistic)
    truth = piece.labels, np.arange(len(piece.labels))
    gain = float((after[truth] - posterior[truth]).sum())
    table = own["linear_table"][i, place][None]
    if whole:
        gain += _of_truth(piece, i, 0, table[0])
    return gain + _exact_tables(piece, after, i, np.zeros(1, np.intp), table)


def _few_cells(context: Context) -> np.ndarray:
    """The features whose linear rows are worked out by `grids.score_grids`, (feature,)."""
    own = context.per_feature
    n_parents = (own["parents"] >= 0).sum(axis=1)
    width = float(max(own["values"].shape[1], context.shared["numbers"].shape[1], 1))
    result: np.ndarray = width ** (n_parents + 1) <= grids.GRID
    return result


def _gains(context: Context, total: Partial) -> Partial:
    context = _wanted(context)
    shared, n_samples = context.shared, context.shared["n_samples"]
    gain = total["gain"] / n_samples
    if not shared["squares"]:
        truth = context.per_feature["truth"].copy()
        kinds = [KINDS.index(kind) for kind in shared["linear"]]
        truth[:, kinds] *= ~_few_cells(context)[:, None]  # of those it is in the sums
        gain[shared["places"]] += truth
    return {"gain": gain, "square": total["square"] / n_samples}


#: The mean gain in log posterior of the true class that each kind of row of each candidate brings:
#: ``gain[i, kind]`` in the order of `KINDS`, zero where a candidate has no row of a kind; with it
#: ``square[i, kind]``, the mean of squares of the gains of samples or a little more. Tables
#: are of 4 folds, or of 1 that all samples are in. Context: prior (class,), its log; rows; numbers
#: (column, code); logistic; linear, the kinds of linear rows; parts, those whose samples are summed
#: up; squares, whether they are wanted; n_samples, what sums are divided by. Per feature: wanted,
#: else all is zero; table (fold, class, code); values, parents, linear_table, slopes, shifts and
#: scales of `kernel.score_linear`; pair_parents, pair_table of `kernel.score_tables`, with places
#: of parents from 1; truth (kind,), what the tables of each kind have for the true class: the sum
#: of its logs over the same samples, divided as sums are. With squares it is found on the way.
POSTERIOR_GAINS = Reduction(
    "posterior-gains", _gain_layout, _gain_chunk, _gains, _with_grids, _wanted
)


def warm_up() -> None:
    """Compile every kernel for the types that map tasks call them with."""
    n_features, n_classes, n_codes = 2, 2, 2
    table = np.ones((n_features, 1, N_FOLDS, n_classes, n_codes))
    row, values = np.ones((n_features, 1, N_FOLDS, n_classes)), np.zeros((n_features, n_codes))
    parents = np.zeros((n_features, 11), np.intp)  # one candidate with a grid, one with too many
    parents[0, 1:] = -1
    candidates = {
        "table": table[:, 0],
        "values": values,
        "parents": parents,
        "linear_table": table,
        "slopes": np.ones((*row.shape, parents.shape[1])),
        "shifts": row,
        "scales": row,
        "pair_parents": np.zeros((n_features, 0), np.intp),
        "wanted": np.ones(n_features, np.bool_),
    }
    rest = (row[0, 0], row[0, 0])
    shared = {
        "prior": np.zeros(n_classes),
        "rows": tuple(
            PosteriorRow("class", 0, some, table[0], values[0], slopes, *rest)
            for some in (parents[0, :1], parents[1])
            for slopes in [np.ones((N_FOLDS, n_classes, len(some)))]
        ),
        "numbers": values[:1],
        "logistic": True,
        "linear": ("class",),
        "parts": (0,),
        "squares": True,
    }
    context = frozen(Context(shared, candidates))
    samples = np.zeros((n_features, 4), np.uint8)
    block = frozen(
        Block(Tile.of(samples), Tile.of(samples[:1]), samples[0].copy(), samples[1].copy())
    )
    ready, total = frozen(_with_grids(context)), POSTERIOR_GAINS.identity(context, n_features)
    POSTERIOR_GAINS.chunk(ready, block, total)
