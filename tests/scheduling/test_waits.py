"""Waits for a cluster, and the tasks that are counted meanwhile."""

from distributed import Future

from hofs_dask.scheduling.waits import Watch, _Patience


def test_watch__counts_no_task_while_the_scheduler_does_not_have_the_graph(client):
    reported = []
    watch = Watch("read-", 5, reported.append)
    patience = _Patience(client, [Future("total", client)], strict=False, watch=watch)
    client.sync(patience.look)
    patience.report()
    assert reported == [0]


def test_watch__counts_the_tasks_that_are_in_memory(client):
    reported = []
    parts = client.map(abs, range(3), key=[f"read-{number}" for number in range(3)])
    total = client.submit(sum, parts)
    total.result()
    watch = Watch("read-", 3, reported.append)
    patience = _Patience(client, [total], strict=False, watch=watch)
    client.sync(patience.look)
    patience.report()
    assert reported == [3]
