"""Saving of results: a Dataset with a digest, written atomically as Zarr or netCDF."""
