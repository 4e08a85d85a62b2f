"""A table with Arrow types as lazy arrays: each task reads some columns of one block of rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dask.array.core as da
from dask._task_spec import DataNode, Task, TaskRef
from dask.highlevelgraph import HighLevelGraph

from hofs_dask.errors import unknown
from hofs_dask.io.arrow import arrow_block, arrow_target_type, plan_arrow
from hofs_dask.io.blocks import BLOCK_BYTES
from hofs_dask.io.columns import Column, Features, Run, plan_runs
from hofs_dask.io.fingerprint import Identity, array_identity, combine, digest

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TableColumn:
    """The name and the type of a column of a table.

    Attributes
    ----------
    name : str
        The name.
    type : pyarrow.DataType
        The type.
    nullable : bool
        Whether values may be missing.
    """

    name: str
    type: pa.DataType
    nullable: bool


@dataclass(frozen=True)
class Table:
    """A table in files or in memory.

    Attributes
    ----------
    columns : tuple of TableColumn
        The columns; an index of pandas is not one of them.
    rows : tuple of int
        Number of rows of each block; one block if the table is in memory.
    pieces : tuple
        For each block, the object from which `read` reads it, such as row groups of files.
    read : function of a piece and names
        Returns the columns of a block that have these names, as a pyarrow.Table.
    read_together : tuple of str
        Names of columns that are always read together, since a part of a line of text cannot be
        read alone. Empty if each column is read by itself.
    in_memory : bool
        Whether the data is in the memory of this process.
    identity : Identity
        Fingerprint and origins of the files. Not used for data in memory.
    token : str
        Text that identifies the table in the names of tasks.
    """

    columns: tuple[TableColumn, ...]
    rows: tuple[int, ...]
    pieces: tuple[Any, ...]
    read: Callable[[Any, tuple[str, ...]], pa.Table]
    read_together: tuple[str, ...]
    in_memory: bool
    identity: Identity
    token: str

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self.columns]

    def without(self, name: Hashable) -> Table:
        """Return the table without one of its columns."""
        kept = tuple(column for column in self.columns if column.name != name)
        return replace(self, columns=kept)

    def column(self, name: Any, role: str = "target") -> Column:
        """Return a column by name; ``role`` is the option that names it, for error messages."""
        places = [j for j, column in enumerate(self.columns) if column.name == name]
        if not places:
            what = "the target" if role == "target" else role
            raise unknown(f"column for {what}", name, self.names)
        found = self.columns[places[0]]
        dtype, nominal = plan_arrow(f"{role} {name!r}", found.type, found.nullable)
        (part,) = self._arrays([Run((places[0],), dtype, nominal)])
        kind = arrow_target_type(found.type, nominal)
        return Column(part[:, 0], kind, found.name, self._identity([part], found.name))

    def features(self) -> Features:
        """Return all columns as features."""
        columns = self.columns
        runs, bad = plan_runs(
            self.names, lambda j, label: plan_arrow(label, columns[j].type, columns[j].nullable)
        )
        parts = self._arrays(runs)
        names = [columns[j].name for run in runs for j in run.columns]
        return Features(
            names=names,
            parts=parts,
            nominal=[run.nominal for run in runs for _ in run.columns],
            identity=self._identity(parts, names),
            sample_shape=(sum(self.rows),),
            in_table=True,
            bad=bad,
        )

    def _identity(self, parts: Sequence[Any], columns: object) -> Identity:
        """Return the identity of some columns: of the arrays if in memory, else of the files."""
        known = [array_identity(part) for part in parts] if self.in_memory else [self.identity]
        return combine(known, "table", columns)

    def _arrays(self, runs: Sequence[Run]) -> list[Any]:
        """Return an array (sample, feature) for each run: of numpy if in memory, else of Dask."""
        if not self.in_memory:
            return self._lazy(runs)
        table = self.read(self.pieces[0], tuple(self.names))
        return [arrow_block(table, run) for run in runs]

    def _lazy(self, runs: Sequence[Run]) -> list[da.Array]:
        """Return a Dask array for each run."""
        reader = f"table-{self.token}"
        reads: dict[Any, Any] = {reader: DataNode(reader, self.read)}
        blocks: list[dict[Any, Any]] = [{} for _ in runs]
        widths: list[list[int]] = [[] for _ in runs]
        outputs = [f"table-block-{self._digest([run])}" for run in runs]
        for cuts in self._groups(runs):
            # The names have one key. A copy in every task could be larger than the table itself.
            names = self.read_together or tuple(
                name for cut in cuts for name in self._names(cut.run)
            )
            place = {name: at for at, name in enumerate(names)}
            own = digest([self.token, names])
            named, read = f"table-names-{own}", f"table-read-{own}"
            reads[named] = DataNode(named, names)
            for b, piece in enumerate(self.pieces):
                reads[read, b] = Task((read, b), read_piece, TaskRef(reader), piece, TaskRef(named))
            for cut in cuts:
                columns = tuple(place[name] for name in self._names(cut.run))
                run = replace(cut.run, columns=columns)
                at = len(widths[cut.number])
                widths[cut.number].append(len(columns))
                for b in range(len(self.pieces)):
                    key = (outputs[cut.number], b, at)
                    blocks[cut.number][key] = Task(key, arrow_block, TaskRef((read, b)), run)
        shared = f"table-reads-{self._digest(runs)}"
        return [
            da.Array(
                HighLevelGraph({shared: reads, name: tasks}, {shared: set(), name: {shared}}),
                name,
                (self.rows, tuple(width)),
                dtype=run.dtype,
            )
            for run, name, tasks, width in zip(runs, outputs, blocks, widths, strict=True)
        ]

    def _groups(self, runs: Sequence[Run]) -> Iterator[list[_Cut]]:
        """Yield the columns that one task reads: as many as fit into a block, or all together."""
        rows = max(self.rows)
        group: list[_Cut] = []
        nbytes = 0
        for number, run in enumerate(runs):
            width = len(run.columns)
            if not self.read_together:
                width = max(1, BLOCK_BYTES // (rows * run.dtype.itemsize))
            for at in range(0, len(run.columns), width):
                part = replace(run, columns=run.columns[at : at + width])
                more = rows * run.dtype.itemsize * len(part.columns)
                if group and not self.read_together and nbytes + more > BLOCK_BYTES:
                    yield group
                    group, nbytes = [], 0
                group.append(_Cut(number, part))
                nbytes += more
        if group:
            yield group

    def _names(self, run: Run) -> list[str]:
        return [self.columns[j].name for j in run.columns]

    def _digest(self, runs: Sequence[Run]) -> str:
        return digest([self.token, [[self._names(run), str(run.dtype)] for run in runs]])


@dataclass(frozen=True)
class _Cut:
    """Some columns of a run, and the position of this run in the list of all runs."""

    number: int
    run: Run


def check_unique(names: Sequence[str], what: str) -> None:
    """Raise a ValueError if two columns have one name; ``what`` is the table in the message.

    Examples
    --------
    >>> check_unique(["a", "b", "a"], "'x.csv'")
    Traceback (most recent call last):
    ...
    ValueError: two columns of 'x.csv' are called 'a'; rename one of them
    """
    if len({*names}) < len(names):
        twice = next(name for j, name in enumerate(names) if name in names[:j])
        raise ValueError(f"two columns of {what} are called {twice!r}; rename one of them")


def read_piece(
    read: Callable[[Any, tuple[str, ...]], pa.Table], piece: Any, names: tuple[str, ...]
) -> pa.Table:
    """Return some columns of a block. This is the task that reads the files."""
    return read(piece, names)
