"""Benchmarks of hofs_dask: ``python -m pipelines.bench``."""
