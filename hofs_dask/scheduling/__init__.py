"""The only call of Dask's compute, waits with a time limit, and the state of processes."""
