"""What hofs_dask costs, measured: ``python -m pipelines.bench``."""
