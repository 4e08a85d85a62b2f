"""The benchmark of encoding runs, on tiny data."""

from pipelines.bench_encoding import bench_encoding


def test_bench_encoding__times_every_kind_of_source(tmp_path):
    found = bench_encoding(tmp_path, n_samples=2_000, n_features=3, repeats=1)
    assert len({name for name, *_ in found}) == 3
    for _, seconds, of, of_seconds in found:
        assert of == "two reads and one write"
        assert min(seconds, of_seconds) > 0
