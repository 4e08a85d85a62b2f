"""The tasks of a scan cover every chunk once, for any number of threads."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.engine.partition import Partition
from hofs_dask.store.layout import Layout


def test_partition__spans_and_groups_of_a_small_store():
    partition = Partition(Layout(1000, 10, (100, 4), bits=3))
    assert partition.spans[0].start == 0
    assert partition.spans[-1].stop == 1000
    assert [group.stop - group.start for group in partition.groups(6)] == [5, 5]
    # two map tasks and one finish task for each of three tiles
    assert partition.n_tasks(6) == 3 * (2 + 1)
    # ten map tasks, three combine tasks of at most four, one finish task
    assert partition.n_tasks(1000) == 3 * (10 + 3 + 1)


@given(
    n_samples=st.integers(1, 10**7),
    length=st.integers(1000, 10**6),
    n_threads=st.integers(1, 100),
    task_cells=st.integers(1, 10**9),
    most_tasks=st.integers(1, 16),
    least_spans=st.integers(1, 200),
)
def test_partition__covers_all_chunks_once(
    n_samples, length, n_threads, task_cells, most_tasks, least_spans
):
    layout = Layout(n_samples, 7, (min(length, n_samples), 3), bits=3)
    partition = Partition(layout, task_cells, most_tasks, least_spans)
    spans, groups = partition.spans, partition.groups(n_threads)
    assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])]
    assert spans[-1].stop == n_samples
    assert all(span.start % layout.chunks[0] == 0 for span in spans)
    assert (groups[0].start, groups[-1].stop) == (0, len(spans))
    assert all(a.stop == b.start < b.stop for a, b in itertools.pairwise(groups))
    assert len(groups) <= n_threads * most_tasks
