"""The counts of the model match the engine, and its fit recovers known constants."""

import json
from collections import Counter
from dataclasses import replace

import dask
import numpy as np
import pytest
from click.testing import CliRunner

import hofs_dask as hd
from hofs_dask.engine import scanning
from hofs_dask.engine.budget import size_of
from hofs_dask.engine.reduction import Context, Request
from hofs_dask.store.chunks import Chunks
from pipelines.bench.tools import counting_request
from pipelines.model import (
    READ_ONLY,
    UNITS,
    Scan,
    Store,
    count,
    driver_parts,
    fit,
    main,
    parts_of,
    request,
)


def encoded(folder, n_samples, n_features, chunks):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (n_samples, n_features))
    return hd.encode(x, rng.integers(0, 2, n_samples), folder / "codes.zarr", chunks=chunks)


def store_of(codes):
    n_codes, n_classes = int(codes.n_codes.max()), len(codes.labels.classes)
    return Store(codes.n_samples, codes.n_features, n_codes, n_classes, *codes.chunks)


def graph_of(codes, asked, monkeypatch):
    """Return the graph of a scan, the bytes that its tasks read, and its total."""
    graph, read, compute, read_chunk = {}, [], scanning.compute, Chunks.read

    def spying(*totals, watch):
        for total in totals:
            graph.update(total.dask)
        return compute(*totals, watch=watch)

    def reading(chunks, tile, row, *, keep=True):
        found = read_chunk(chunks, tile, row, keep=keep)
        if chunks.name == "codes":  # copies of columns are read beside them
            read.append(found.nbytes)
        return found

    monkeypatch.setattr(scanning, "compute", spying)
    monkeypatch.setattr(Chunks, "read", reading)
    with dask.config.set({"scheduler": "synchronous", "hofs_dask.cache": "0"}):
        (total,) = scanning.run(codes, [asked])
    return graph, read, total


@pytest.mark.parametrize(
    ("n_samples", "n_features", "chunks"),
    [(100, 5, (100, 5)), (1000, 5, (10, 5)), (330, 7, (10, 2)), (4100, 3, (100, 3))],
)
@pytest.mark.parametrize("small", [0, scanning.SMALL_GRAPH], ids=["plans are keys", "or not"])
def test_count__equals_the_graph(tmp_path, monkeypatch, n_samples, n_features, chunks, small):
    monkeypatch.setattr(scanning, "SMALL_GRAPH", small)
    codes = encoded(tmp_path, n_samples, n_features, chunks)
    asked = counting_request(codes)
    store = store_of(codes)
    found = count(store, request("pair-terms", store, 1), 1, new_columns=1)
    graph, read, total = graph_of(codes, asked, monkeypatch)
    stages = ("map", "combine", "finish", "copy", "Plan")
    kinds = Counter(stage for key in graph for stage in stages if stage in str(key))
    assert kinds["Plan"] == found.plans
    assert kinds["map"] == found.maps
    assert kinds["combine"] == found.combines
    assert kinds["finish"] == found.finishes
    assert kinds["copy"] == found.copies
    assert kinds.total() == len(graph) == found.tasks
    plans = [node.value for key, node in graph.items() if "Plan" in str(key)]
    assert bool(plans) == (small == 0)
    assert not plans or sum(size_of(plan.contexts) for plan in plans) == found.context
    n_copied = -(-n_samples // chunks[0]) if found.copies else 0
    assert len(read) == found.chunks + n_copied
    assert sum(array.nbytes for array in total.values()) == found.returned
    partial = asked.reduction.identity(asked.context.take(slice(0, chunks[1])), chunks[1])
    assert sum(array.nbytes for array in partial.values()) == found.partial


def test_count__scan_that_only_reads_sends_nothing():
    store = Store(10_000, 40, 5, 2, 100, 4)
    found = count(store, Request(READ_ONLY, Context()), 4)
    assert (found.partial, found.combined, found.context, found.returned) == (0, 0, 0, 0)
    # three planes of two words per chunk and feature, a checksum per chunk, a label per tile
    assert found.read == 1000 * (4 * 3 * 2 * 8 + 4) + 10 * 10_000


def scans():
    """Return scans of all kinds and sizes with zero time."""
    for reduction, n_columns in (
        ("read-only", 0),
        ("pair-terms", 1),
        ("posterior-gains", 4),
        ("jmi on the driver", 4),
        ("joint on the driver", 4),
    ):
        for n_samples in (10_000, 1_000_000):
            for n_features, tile in ((10, 10), (2_000, 2_000), (2_000, 100)):
                for n_classes in (2, 8):
                    for kept in (False, True):
                        yield Scan(
                            reduction=reduction,
                            n_samples=n_samples,
                            n_features=n_features,
                            n_codes=4 if n_classes == 2 else 64,
                            n_classes=n_classes,
                            n_columns=n_columns,
                            chunk_samples=1000,
                            chunk_features=tile,
                            n_workers=2,
                            n_cores=2,
                            kept=kept,
                            seconds=0.0,
                        )


def known_constants():
    return dict.fromkeys(UNITS, 0.5e-9) | {
        "scan": 20e-3,
        "task": 1e-3,
        "chunk": 1e-4,
        "round": 0.01,
    }


def timed(constants):
    return [
        replace(scan, seconds=sum(constants[name] * n for name, n in parts_of(scan).items()))
        for scan in scans()
    ]


def test_fit__recovers_known_constants():
    constants = known_constants()
    found = fit(timed(constants))
    for name, value in constants.items():
        assert found.constants[name] == pytest.approx(value, rel=1e-6), name
    assert np.abs(found.errors).max() < 1e-6


def test_fit__uses_the_fastest_of_equal_scans():
    constants = known_constants()
    usual = timed(constants)
    slowed = [replace(scan, seconds=3 * scan.seconds) for scan in usual]
    found = fit([*slowed, *usual])
    assert len(found.scans) == len(usual)
    assert np.abs(found.errors).max() < 1e-6


def test_driver_parts__grow_with_picks_or_with_tables():
    store = Store(1000, 10, 4, 2, 100, 10)
    assert driver_parts(store, "jmi", 3)["jmi on the driver"] == 30
    assert driver_parts(store, "joint", 3)["joint on the driver"] == 10 * 2 * 16


def test_main__prints_constants_and_predictions(tmp_path):
    path = tmp_path / "bench.json"
    content = {
        "machine": [{"date": "2026-01-01", "cpu": "a processor", "cores": 2}],
        "scans": [vars(scan) for scan in timed(known_constants())],
    }
    path.write_text(json.dumps(content))
    done = CliRunner().invoke(main, [str(path)], catch_exceptions=False)
    assert "a processor" in done.output
    assert "1 PB" in done.output
    for name in UNITS:
        assert name in done.output
