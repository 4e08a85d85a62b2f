"""Who the workers are, and whether their versions fit."""

import dask
import pytest
from distributed import Client, LocalCluster

from hofs_dask.engine import cluster
from hofs_dask.engine.cluster import check_cluster, current_workers


def test_workers__without_a_client_this_process_is_the_one():
    (worker,) = current_workers()
    assert worker.address == ""
    assert worker.resident < worker.memory_limit


def test_workers__of_the_client_by_address(client):
    workers = current_workers()
    assert [worker.address for worker in workers] == sorted(client.nthreads())
    assert all(worker.n_threads == 1 and worker.resident > 0 for worker in workers)


def test_workers__a_scheduler_that_was_asked_for_wins_over_the_client(client):
    with dask.config.set(scheduler="threads"):
        assert current_workers()[0].address == ""


def test_workers__none_is_an_error_that_says_what_to_type():
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        Client(empty),
        pytest.raises(RuntimeError, match="dask worker tcp://"),
    ):
        current_workers()


def test_workers__too_small_to_compile_are_refused_at_once():
    with (
        LocalCluster(
            n_workers=1,
            processes=False,
            memory_limit="200 MiB",
            dashboard_address="127.0.0.1:0",
        ) as small,
        Client(small),
        pytest.raises(MemoryError, match=r"limit of 200\.00 MiB.*give each worker 512 MiB"),
    ):
        current_workers()


def test_versions__that_agree_are_fine(client):
    check_cluster(client)


def test_versions__that_differ_are_named(client, monkeypatch):
    here = cluster._versions()
    monkeypatch.setattr(cluster, "_versions", lambda: {**here, "numpy": "0.1"})
    # the workers are other processes: theirs are not patched
    with pytest.raises(RuntimeError, match=r"numpy .* on the scheduler|numpy .* on worker"):
        check_cluster_with(client, here)


def check_cluster_with(client, elsewhere):
    """`check_cluster` where scheduler and workers answer with other versions than this process."""

    class Answering:
        def run_on_scheduler(self, _function):
            return elsewhere

        def run(self, _function):
            return dict.fromkeys(client.nthreads(), elsewhere)

    check_cluster(Answering())
