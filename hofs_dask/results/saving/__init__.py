"""Results as files: a Dataset with a digest, as Zarr or netCDF, put in its place whole."""
