"""How a scan is cut into tasks: spans of chunks, shares of spans, and what a task holds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hofs_dask.store.layout import Layout, cuts

#: Cells that a map task goes through, about: enough to make a task worth its message.
TASK_CELLS = 256 * 2**20
#: A thread is given no more tasks than this: a scheduler does some thousand tasks a second.
MOST_TASKS = 16
#: Spans that the samples are cut into, as the chunks allow: leaves of the tree of floating sums.
LEAST_SPANS, MOST_SPANS = 64, 2**14
#: Partials that one task of the tree combines: few, so that few wait in memory.
FAN_IN = 4
#: Partials of a worker beside those of its threads: what a task combines, its sum, two on the way.
WAITING = FAN_IN + 3

#: Copies of the codes of a chunk as bytes: all of them, those that have a label.
CHUNK_COPIES = 2
#: Bytes a sample beside its codes: its row number and hash, label and fold.
SAMPLE_BYTES = 40


@dataclass(frozen=True)
class Partition:
    """How the samples and features of a store are shared out to the tasks of a scan.

    Attributes
    ----------
    layout
        The chunks of the store.
    task_cells
        Cells of a task, about.
    most_tasks
        Tasks of a thread at most.
    least_spans
        Spans of the samples at least, as far as there are chunks.

    Examples
    --------
    >>> partition = Partition(Layout(100_000, 400, (20_992, 400), bits=3))
    >>> len(partition.spans), partition.groups(2), partition.n_tasks(2)
    (5, [slice(0, 2, None), slice(2, 5, None)], 3)
    """

    layout: Layout
    task_cells: int = TASK_CELLS
    most_tasks: int = MOST_TASKS
    least_spans: int = LEAST_SPANS

    @property
    def spans(self) -> list[slice]:
        """The samples of each span: whole chunks, the same wherever the store is worked on."""
        n_samples, (length, width) = self.layout.n_samples, self.layout.chunks
        n_chunks = -(-n_samples // length)
        by_cells = min(-(-n_samples * width // self.task_cells), MOST_SPANS)
        n_spans = min(n_chunks, max(self.least_spans, by_cells))
        return cuts(slice(0, n_samples), length * -(-n_chunks // n_spans))

    def groups(self, n_threads: int) -> list[slice]:
        """The spans of each map task of a tile: equal shares, whole tasks for every thread."""
        cells_a_thread = self.layout.n_samples * self.layout.n_features / n_threads
        n_tasks = n_threads * min(max(round(cells_a_thread / self.task_cells), 1), self.most_tasks)
        n_spans = len(self.spans)
        n_groups = min(-(-n_tasks // len(self.layout.tiles)), n_spans)
        edges = [number * n_spans // n_groups for number in range(n_groups + 1)]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]

    def n_tasks(self, n_threads: int) -> int:
        """The tasks of one scan: map tasks and the tree of each tile."""
        level = len(self.groups(n_threads))
        total = level
        while level > FAN_IN:
            level = -(-level // FAN_IN)
            total += level
        return len(self.layout.tiles) * (total + 1)


def held_bytes(layout: Layout, n_columns: int = 0, copies: int = CHUNK_COPIES) -> int:
    """What a thread holds of a chunk, as it was read and unpacked, and of other columns.

    Examples
    --------
    >>> held_bytes(Layout(1000, 10, (1000, 10), bits=3))
    63844
    """
    unpacked = layout.chunks[0] * ((layout.chunks[1] + n_columns) * copies + SAMPLE_BYTES)
    return layout.chunk_bytes + unpacked


def read_bytes(layout: Layout, n_columns: int = 0) -> int:
    """What a scan reads of a store: codes, and for every tile labels and copies of columns.

    Examples
    --------
    >>> layout = Layout(1024, 10, (1024, 5), bits=3)
    >>> read_bytes(layout) == layout.n_bytes + 2 * 1024
    True
    """
    n_tiles = len(layout.tiles)
    copies = n_columns * layout.bits / 8 if n_tiles > 1 else 0.0
    return layout.n_bytes + round(n_tiles * layout.n_samples * (1 + copies))
