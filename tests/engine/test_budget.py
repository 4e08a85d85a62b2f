"""Memory is known before a reduction starts, and refused with both numbers and a remedy."""

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


def test_estimate__counts_partials_chunks_and_what_is_resident(codes, request_):
    found = budget.estimate(codes, [request_], (worker(1000 * MIB),))
    partial = 40 * 4 * 32 * 2 * 32 * 8
    # one task makes one, the last one takes it and makes the total
    assert found.partials == 3 * partial
    assert found.tasks >= partial + 1000 * 40
    assert found.needed == found.resident + found.tasks + found.partials + found.context
    assert found.total == found.needed + found.cache


def test_estimate__of_many_tasks_as_many_partials_wait_as_one_adds_up(codes, request_):
    workers = tuple(worker(1000 * MIB) for _ in range(3))
    cut = replace(codes, chunks=(250, 4))
    partial = 4 * 4 * 32 * 2 * 32 * 8
    # ten tiles, a task each: four for a worker
    assert budget.estimate(cut, [request_], workers).partials == (4 + 1 + 1) * partial
    assert budget.estimate(cut, [request_], workers[:1]).partials == 7 * partial


def test_estimate__the_cache_takes_what_is_left_and_no_more_than_the_data(codes, request_):
    roomy = budget.estimate(codes, [request_], (worker(10_000 * MIB),))
    # a chunk more than there is: codes and a column of five bits, a label of eight
    assert roomy.cache == 6000 * (41 * 5 + 8) // 8
    tight = budget.estimate(codes, [request_], (worker(roomy.needed + MIB),))
    assert tight.cache == 0
    with dask.config.set({"hofs_dask.cache": "50 kB"}):
        given = budget.estimate(codes, [request_], (worker(10_000 * MIB),))
    assert given.cache == 50_000


def test_estimate__looks_at_the_worker_with_the_least_room(codes, request_):
    workers = (worker(4000 * MIB), worker(800 * MIB), worker(2000 * MIB))
    assert budget.estimate(codes, [request_], workers).limit == 800 * MIB


def test_estimate__reads_as_a_line(codes, request_):
    text = str(budget.estimate(codes, [request_], (worker(1000 * MIB),)))
    assert "a worker" in text
    assert "partials" in text


def test_reduction_that_does_not_fit__is_refused_with_both_numbers_and_chunks(
    codes, request_, monkeypatch
):
    monkeypatch.setattr(scanning, "current_workers", Mock(return_value=(worker(150 * MIB),)))
    with pytest.raises(MemoryError, match=r"(?s)MiB.*112.50 MiB.*150.00 MiB.*chunks=\(1000, \d+\)"):
        scanning.run(codes, [request_])


def test_reduction_that_no_chunks_make_fit__says_how_much_memory_does(codes, request_, monkeypatch):
    tight = worker(160 * MIB, resident=130 * MIB)
    monkeypatch.setattr(scanning, "current_workers", Mock(return_value=(tight,)))
    with pytest.raises(MemoryError, match=r"give the workers \d+\.\d\d MiB or more$") as refused:
        scanning.run(codes, [request_])
    assert "chunks=(" not in str(refused.value)


def test_estimate_of_a_selection__refuses_more_features_than_there_are(codes):
    with pytest.raises(ValueError, match="n_features is 41 but only 40"):
        hd.estimate(codes, n_features=41)


def test_advice__fits(codes, request_, tmp_path, monkeypatch):
    """The chunks that the error names make the same reduction fit."""
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
def test_estimate_of_a_selection__covers_every_reduction_of_it(codes, monkeypatch, method):
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
