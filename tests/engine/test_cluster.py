"""Queries of the workers, and checks of their versions."""

import time

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

import hofs_dask as hd
from hofs_dask.engine import cluster
from hofs_dask.engine.cluster import check_cluster, current_workers
from hofs_dask.kernels._jit import all_kernels
from hofs_dask.preload import WORKER_SETTINGS
from hofs_dask.scheduling.process import PROCESS
from hofs_dask.scheduling.session import reset


def test_workers__without_a_client_is_this_process():
    (worker,) = current_workers()
    assert worker.address == ""
    assert worker.resident < worker.memory_limit


@pytest.mark.processes
def test_worker_settings__have_workers_load_all_kernels_at_start(scratch):
    def n_loaded():
        return sum(len(kernel.overloads) >= len(kernel.declared) for kernel in all_kernels())

    with (
        dask.config.set(WORKER_SETTINGS),
        LocalCluster(
            n_workers=1, dashboard_address="127.0.0.1:0", local_directory=scratch
        ) as local,
        Client(local) as client,
    ):
        until = time.monotonic() + 300
        while (found := list(client.run(n_loaded).values())) != [len(all_kernels())]:
            assert time.monotonic() < until, found
            time.sleep(0.1)


def test_workers__resident_memory_excludes_cached_chunks():
    (before,) = current_workers()
    PROCESS.chunks.get("a store", "a chunk", 2**28, 2**27, lambda _: np.ones(2**24), lambda _: None)
    (after,) = current_workers()
    PROCESS.chunks.clear()
    assert after.resident - before.resident < 2**25


def test_workers__are_queried_again_if_a_reduction_does_not_fit(client, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    codes = hd.encode(rng.normal(size=(100, 4)), np.arange(100) % 2, tmp_path / "codes.zarr")
    describe, asked = cluster._describe, []

    def full_at_first(client, addresses, modules):
        found = describe(client, addresses, modules)
        asked.append(addresses)
        if len(asked) == 1:  # garbage that is freed before the next query
            found = {address: (limit, limit) for address, (limit, _) in found.items()}
        return found

    reset()
    monkeypatch.setattr(cluster, "_describe", full_at_first)
    assert len(hd.select(codes, None, 2, method="mim")) == 2
    assert len(asked) == 2


def test_workers__of_a_client_are_sorted_by_address(client):
    workers = current_workers()
    assert [worker.address for worker in workers] == sorted(client.nthreads())
    assert all(worker.n_threads == 1 and worker.resident > 0 for worker in workers)


def test_workers__an_explicit_scheduler_takes_precedence_over_the_client(client):
    with dask.config.set(scheduler="threads"):
        assert current_workers()[0].address == ""


def test_workers__missing_ones_are_an_error_with_the_command_to_type():
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        Client(empty),
        dask.config.set({"hofs_dask.timeout": "1500 ms"}),
        pytest.warns(UserWarning, match=r"has no workers; waiting up to 1\.50 s for one"),
        pytest.raises(RuntimeError, match="has no workers.*dask worker tcp://"),
    ):
        current_workers()


def test_workers__too_small_to_compile_are_refused():
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


def test_versions__that_agree_pass(client):
    check_cluster(client)


def test_versions__that_differ_are_named_in_the_error(client, monkeypatch):
    here = cluster._versions()
    monkeypatch.setattr(cluster, "_versions", lambda: {**here, "numpy": "0.1"})
    # the versions of the workers, which are other processes, are not patched
    with pytest.raises(RuntimeError, match=r"numpy .* on the scheduler|numpy .* on worker"):
        check_cluster_with(client, here)


def check_cluster_with(client, elsewhere):
    """Run `check_cluster` with a scheduler and workers that report the versions ``elsewhere``."""

    class Answering:
        sync = staticmethod(client.sync)

        async def run_on_scheduler(self, _function):
            return elsewhere

        async def run(self, _function):
            return dict.fromkeys(await client.nthreads(), elsewhere)

    check_cluster(Answering())
