"""Fits over partitions: in this process, in its threads, or on Dask, with the same bits.

In the order of a fit: `job` (what is fitted), `compute` (where), `driver` (the loop), `checkpoint`
(resume), `executor` (one process), `holder` (what a worker holds), `tree` (sums and placement),
`cluster_executor` (workers that may be lost). Dask's part: `connect` (a cluster), `cluster` (its
workers, tasks and actors), `versions` (the same source everywhere), `estimator` (``client=``).
"""
