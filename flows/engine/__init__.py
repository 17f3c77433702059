"""The engine: fits over partitions, in this process or on Dask, with checkpoints and caches."""
