"""The one call of Dask's compute, and waits for a cluster that end."""
