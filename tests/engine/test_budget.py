"""Memory estimates of scans, and the error for a reduction that does not fit."""

from dataclasses import replace
from unittest.mock import Mock

import dask
import numpy as np
import pytest

import hofs_dask as hd
from hofs_dask.engine import budget, scanning
from hofs_dask.engine.cluster import Worker
from hofs_dask.engine.counts import PAIR_COUNTS, PairContext
from hofs_dask.engine.reduction import Request

MIB = 2**20


@pytest.fixture
def codes(tmp_path):
    x = np.random.default_rng(0).normal(size=(5000, 40))
    return hd.encode(x, x[:, 0] > 0, tmp_path / "codes.zarr", bins=32, chunks=(1000, 40))


@pytest.fixture
def request_():
    context = PairContext(2, 32, by_fold=True)
    return Request(PAIR_COUNTS, context, (0,))


def worker(limit, threads=1, resident=100 * MIB):
    return Worker("", threads, limit, resident)


def test_estimate__adds_up_partials_chunks_and_resident_memory(codes, request_):
    found = budget.estimate(codes, [request_], (worker(1000 * MIB),))
    partial = 40 * 4 * 32 * 2 * 32 * 8
    # the partial of the map task, the input of the last task, and the total
    assert found.partials == 3 * partial
    assert found.tasks >= partial + 1000 * 40
    assert found.needed == found.resident + found.tasks + found.partials + found.context
    assert found.total == found.needed + found.cache


def test_estimate__many_tasks_leave_as_many_partials_as_one_combine_takes(codes, request_):
    workers = tuple(worker(1000 * MIB) for _ in range(3))
    cut = replace(codes, chunks=(250, 4))
    partial = 4 * 4 * 32 * 2 * 32 * 8
    # ten tiles with one task each: four per worker
    assert budget.estimate(cut, [request_], workers).partials == (4 + 1 + 1) * partial
    assert budget.estimate(cut, [request_], workers[:1]).partials == 7 * partial


def test_estimate__cache_is_limited_by_free_memory_and_by_the_data(codes, request_):
    roomy = budget.estimate(codes, [request_], (worker(10_000 * MIB),))
    # one chunk more than the data: codes and a column of five bits, a label of eight
    assert roomy.cache == 6000 * (41 * 5 + 8) // 8
    tight = budget.estimate(codes, [request_], (worker(roomy.needed + MIB),))
    assert tight.cache == 0
    with dask.config.set({"hofs_dask.cache": "50 kB"}):
        given = budget.estimate(codes, [request_], (worker(10_000 * MIB),))
    assert given.cache == 50_000


def test_estimate__is_for_the_worker_with_the_least_free_memory(codes, request_):
    workers = (worker(4000 * MIB), worker(800 * MIB), worker(2000 * MIB))
    assert budget.estimate(codes, [request_], workers).limit == 800 * MIB


def test_estimate__text_names_its_parts(codes, request_):
    text = str(budget.estimate(codes, [request_], (worker(1000 * MIB),)))
    assert "per worker" in text
    assert "partials" in text


def test_reduction_that_does_not_fit__error_names_both_sizes_and_chunks_that_fit(
    codes, request_, monkeypatch
):
    monkeypatch.setattr(scanning, "current_workers", Mock(return_value=(worker(150 * MIB),)))
    with pytest.raises(MemoryError, match=r"(?s)MiB.*112.50 MiB.*150.00 MiB.*chunks=\(1000, \d+\)"):
        scanning.run(codes, [request_])


def test_reduction_that_fits_no_chunks__error_names_the_memory_needed(codes, request_, monkeypatch):
    tight = worker(160 * MIB, resident=130 * MIB)
    monkeypatch.setattr(scanning, "current_workers", Mock(return_value=(tight,)))
    with pytest.raises(MemoryError, match=r"give the workers \d+\.\d\d MiB or more$") as refused:
        scanning.run(codes, [request_])
    assert "chunks=(" not in str(refused.value)


def test_estimate_of_a_selection__refuses_more_features_than_there_are(codes):
    with pytest.raises(ValueError, match="n_features is 41 but only 40"):
        hd.estimate(codes, n_features=41)


def test_advice__suggested_chunks_fit(codes, request_, tmp_path, monkeypatch):
    small = worker(150 * MIB)
    monkeypatch.setattr(scanning, "current_workers", Mock(return_value=(small,)))
    with pytest.raises(MemoryError) as refused:
        scanning.run(codes, [request_])
    text = str(refused.value)
    chunks = text[text.index("chunks=(") + 8 :].split(")")[0]
    rows, features = (int(part) for part in chunks.split(","))
    x = np.random.default_rng(0).normal(size=(5000, 40))
    again = hd.encode(x, x[:, 0] > 0, tmp_path / "again.zarr", bins=32, chunks=(rows, features))
    total = scanning.run(again, [request_])[0]["counts"]
    monkeypatch.undo()
    np.testing.assert_array_equal(total, scanning.run(codes, [request_])[0]["counts"])


@pytest.mark.parametrize(
    "method",
    [
        hd.HOFS(),
        hd.HOFS(criterion="sum"),
        hd.JMI(),
        hd.SpecCMI(form="spectral"),
        hd.VMI(),
        hd.VMI(form="pairwise"),
    ],
    ids=lambda method: method.label,
)
def test_estimate_of_a_selection__is_an_upper_bound_for_every_reduction(codes, monkeypatch, method):
    found = []
    estimate = scanning.estimate

    def recording(*arguments):
        found.append(estimate(*arguments))
        return found[-1]

    monkeypatch.setattr(scanning, "estimate", recording)
    ahead = hd.estimate(codes, n_features=4, method=method).memory
    found.clear()
    hd.select(codes, None, 4, method=method)

    def without_resident(planned):
        return planned.tasks + planned.partials + planned.context

    assert without_resident(ahead) >= max(map(without_resident, found))
