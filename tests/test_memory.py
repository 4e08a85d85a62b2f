"""Bounded memory on real worker processes, which measure their own peaks."""

import os
from contextlib import contextmanager
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

import hofs_dask as hd
from hofs_dask.engine import scanning

pytestmark = pytest.mark.processes

MIB = 2**20
SIGNAL = np.array([1.0, 0.7, 0.5, 0.4, 0.3], dtype=np.float32)


def memory(field):
    """Return a field of this process's status, in bytes: VmHWM is the peak, VmRSS the current."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field))
    return int(line.split()[1]) * 1024


def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")


@contextmanager
def small_cluster(limit, folder):
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 65536}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address="127.0.0.1:0",
            local_directory=str(folder),
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def fill(path, block, rows):
    """Write one block of rows; return its labels."""
    array = zarr.open_array(path, mode="r+")
    n_rows = min(rows, array.shape[0] - block * rows)
    rng = np.random.default_rng(block)
    x = rng.standard_normal((n_rows, array.shape[1]), dtype=np.float32)
    y = rng.integers(0, 2, n_rows)
    x[:, :5] += y[:, None] * SIGNAL
    x[:, 5] = x[:, 0] + rng.standard_normal(n_rows, dtype=np.float32)
    array[block * rows : block * rows + n_rows] = x
    return y


def peaks_of(folder, n_samples, n_features, limit, rows=20_000):
    """Return the peaks of two workers in encoding and selection, and the largest estimate."""
    path = str(folder / "source.zarr")
    shape = (n_samples, n_features)
    zarr.create_array(path, shape=shape, chunks=(rows, n_features), dtype="f4", compressors=None)
    estimates = []
    plan = scanning.estimate

    def recording(*arguments):
        estimates.append(plan(*arguments))
        return estimates[-1]

    with small_cluster(limit, folder / "scratch") as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "estimate", recording)
        blocks = range(-(-n_samples // rows))
        y = np.concatenate(client.gather([client.submit(fill, path, b, rows) for b in blocks]))
        client.run(forget_peak)
        codes = hd.encode(path, y, folder / "codes.zarr")
        encoding = max(client.run(memory, "VmHWM").values())
        client.run(forget_peak)
        result = hd.select(codes, None, 3)
        selecting = max(client.run(memory, "VmHWM").values())
    assert result.features == ["x0", "x1", "x2"]
    return encoding, selecting, max(found.total for found in estimates)


def report(name, encoding, selecting, estimate):
    print(
        f"\n{name}: peak of a worker {encoding / MIB:.0f} MiB encoding, "
        f"{selecting / MIB:.0f} MiB selecting, estimate {estimate / MIB:.0f} MiB"
    )


def assert_bounded(half, whole, limit):
    for encoding, selecting, estimate in (half, whole):
        assert max(encoding, selecting) < limit
        assert selecting <= estimate <= 1.5 * selecting
    assert max(whole[:2]) < 1.2 * max(half[:2])


def test_memory__of_a_small_selection_is_bounded(tmp_path):
    limit = 800 * 10**6
    (tmp_path / "half").mkdir()
    (tmp_path / "whole").mkdir()
    # both have more samples than the subsample for tables, so its memory is the same
    half = peaks_of(tmp_path / "half", 150_000, 100, limit, rows=25_000)
    whole = peaks_of(tmp_path / "whole", 300_000, 100, limit, rows=25_000)
    report("60 MB", *half)
    report("120 MB", *whole)
    assert_bounded(half, whole, limit)


@pytest.mark.slow
def test_memory__of_six_gigabytes_is_bounded_on_workers_of_one_gigabyte(tmp_path):
    limit = 10**9
    (tmp_path / "half").mkdir()
    half = peaks_of(tmp_path / "half", 1_500_000, 500, limit)
    report("3 GB", *half)
    (tmp_path / "whole").mkdir()
    whole = peaks_of(tmp_path / "whole", 3_000_000, 500, limit)
    report("6 GB", *whole)
    assert_bounded(half, whole, limit)


@pytest.mark.slow
def test_memory__does_not_grow_over_a_hundred_rounds(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 5000)
    x = rng.normal(size=(5000, 110)) + y[:, None] * rng.uniform(0, 0.5, 110)
    series = []
    with small_cluster(10**9, tmp_path / "scratch") as client:
        codes = hd.encode(x, y, tmp_path / "codes.zarr", chunks=(1000, 110))

        def note(event):
            if isinstance(event, hd.RoundEnded):
                workers = sorted(client.run(memory, "VmRSS").values())
                series.append([memory("VmRSS"), *workers])

        hd.select(codes, None, 100, callback=note)
        pids = client.run(os.getpid)
    assert len(pids) == 2
    table = np.array(series) / MIB
    print("\nround: client and scheduler, two workers (MiB)")
    for rank in range(9, 100, 10):
        print(f"{rank + 1:5d}: " + "  ".join(f"{size:7.1f}" for size in table[rank]))
    assert len(table) == 100
    late = table[20:]
    assert (late.max(axis=0) < 1.05 * table[19] + 10).all()


@pytest.mark.slow
def test_memory__of_all_pairs_is_bounded_on_workers_of_one_gigabyte(tmp_path):
    limit, n_features = 10**9, 2000
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 5000)
    x = rng.integers(0, 5, (5000, n_features)).astype(np.uint8)
    x[:, 40] = np.where(rng.random(5000) < 0.7, y, x[:, 40])
    method = hd.SpecCMI(form="spectral")
    with small_cluster(limit, tmp_path / "scratch") as client:
        codes = hd.encode(x, y, tmp_path / "codes.zarr", bins=None)
        estimate = hd.estimate(codes, n_features=3, method=method).memory.total
        client.run(forget_peak)
        result = hd.select(codes, None, 3, method=method)
        peak = max(client.run(memory, "VmHWM").values())
    print(f"\n2000 features: peak of a worker {peak / MIB:.0f}, estimate {estimate / MIB:.0f} MiB")
    assert result.features[0] == "x40"
    assert peak < limit
    assert peak <= estimate
