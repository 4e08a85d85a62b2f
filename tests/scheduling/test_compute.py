import time
from contextlib import nullcontext

import numpy as np
import pytest
from dask.delayed import delayed
from distributed import worker_client

import hofs_dask as hd
from hofs_dask.scheduling.compute import compute, release

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 6))
Y = (X[:, 0] > 0).astype(int)


def tasks_of(client):
    """Return the tasks that the scheduler knows, after pending messages have arrived."""
    for _ in range(50):
        found = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
        if not found:
            break
        time.sleep(0.1)
    return found


def test_compute__keeps_the_structure_of_nested_tasks(client):
    assert compute([delayed(1), [delayed(2)]], 3, delayed(4)) == ([1, [2]], 3, 4)


def test_compute__futures_are_released_by_the_next_call_and_by_release(client):
    for number in range(3):
        compute(delayed(number, pure=False))
        assert len(client.futures) == 1
    release()
    assert tasks_of(client) == []


def test_compute__error_of_a_task_is_raised_and_releases_its_futures(client):
    with pytest.raises(ZeroDivisionError):
        compute(delayed(lambda: 1 // 0)())
    assert tasks_of(client) == []


def test_select__leaves_no_tasks_on_the_cluster(client):
    hd.select(X, Y, 2, method="jmi")
    assert tasks_of(client) == []


@pytest.mark.parametrize("aside", [False, True])
def test_select__within_a_task_does_not_deadlock(client, aside):
    """Every worker has one thread, and `select` also runs a task on every worker to prepare it."""

    def nested():
        with worker_client() if aside else nullcontext():
            return hd.select(X, Y, 2, method="mim").features

    tasks = [client.submit(nested, pure=False) for _ in range(3)]
    expected = hd.select(X, Y, 2, method="mim").features
    assert client.gather(tasks) == [expected] * 3
