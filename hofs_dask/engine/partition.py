"""Divide a scan into tasks: a task reads a group of spans, and a span is one or more chunks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hofs_dask.store.layout import Layout, cuts

#: Approximate number of cells (samples times features) per map task: so many that the overhead of a
#: task is small.
TASK_CELLS = 256 * 2**20
#: Maximum number of tasks per thread: a scheduler handles only a few thousand tasks per second.
MOST_TASKS = 16
#: Minimum and maximum number of spans, the leaves of the tree of float sums. A store with fewer
#: chunks than the minimum has one span per chunk.
LEAST_SPANS, MOST_SPANS = 64, 2**14
#: Number of partials that one combine task adds. It is small so that few partials wait in memory.
FAN_IN = 4
#: Maximum number of partials on a worker in addition to one per thread: the inputs of a combine
#: task, their sum, and two partials that are being transferred.
WAITING = FAN_IN + 3

#: Maximum number of copies of a chunk with one byte per code in a task, without resamples.
CHUNK_COPIES = 2
#: Bytes per sample in addition to the codes: for its position, hash, label and fold.
SAMPLE_BYTES = 40


@dataclass(frozen=True)
class Partition:
    """The division of the samples and features of a store into the tasks of a scan.

    Attributes
    ----------
    layout
        The layout of the store.
    task_cells
        Approximate number of cells per task.
    most_tasks
        Maximum number of tasks per thread.
    least_spans
        Minimum number of spans, if there are enough chunks.

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
        """The samples of each span, which is one or more whole chunks.

        The spans do not depend on the workers.
        """
        n_samples, (length, width) = self.layout.n_samples, self.layout.chunks
        n_chunks = -(-n_samples // length)
        by_cells = min(-(-n_samples * width // self.task_cells), MOST_SPANS)
        n_spans = min(n_chunks, max(self.least_spans, by_cells))
        return cuts(slice(0, n_samples), length * -(-n_chunks // n_spans))

    def groups(self, n_threads: int) -> list[slice]:
        """Return, for each map task of a tile, the slice of `spans` that the task reads.

        The spans are divided so that all threads get about equal work.
        """
        cells_a_thread = self.layout.n_samples * self.layout.n_features / n_threads
        n_tasks = n_threads * min(max(round(cells_a_thread / self.task_cells), 1), self.most_tasks)
        n_spans = len(self.spans)
        n_groups = min(-(-n_tasks // len(self.layout.tiles)), n_spans)
        edges = [number * n_spans // n_groups for number in range(n_groups + 1)]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]

    def n_tasks(self, n_threads: int) -> int:
        """Return the number of tasks of one scan: for each tile, the map tasks and their tree."""
        level = len(self.groups(n_threads))
        total = level
        while level > FAN_IN:
            level = -(-level // FAN_IN)
            total += level
        return len(self.layout.tiles) * (total + 1)


def held_bytes(layout: Layout, n_columns: int = 0, copies: int = CHUNK_COPIES) -> int:
    """Return the bytes that a thread holds: a packed chunk, and unpacked copies of it.

    The copies also contain the ``n_columns`` columns of the requests.

    Examples
    --------
    >>> held_bytes(Layout(1000, 10, (1000, 10), bits=3))
    63844
    """
    unpacked = layout.chunks[0] * ((layout.chunks[1] + n_columns) * copies + SAMPLE_BYTES)
    return layout.chunk_bytes + unpacked


def read_bytes(layout: Layout, n_columns: int = 0) -> int:
    """Return the number of bytes that a scan reads.

    A scan reads all codes once, and the labels and the copied columns once per tile.

    Examples
    --------
    >>> layout = Layout(1024, 10, (1024, 5), bits=3)
    >>> read_bytes(layout) == layout.n_bytes + 2 * 1024
    True
    """
    n_tiles = len(layout.tiles)
    copies = n_columns * layout.bits / 8 if n_tiles > 1 else 0.0
    return layout.n_bytes + round(n_tiles * layout.n_samples * (1 + copies))
