"""Records that the workers of a Dask cluster hold."""
