"""Fits of `vbmodels.estimators` over Dask: the executor behind their ``client=``.

Partitions are written where all workers can read them, so that a fit has the same bits as one in
process with the same partitions.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from flows import storage
from flows.fit.cluster import Cluster
from flows.fit.connect import connect, over
from flows.fit.executor import Executor
from flows.fit.job import Job
from flows.records.runs import new_run_id
from vbmodels.core.state import to_bytes


class DaskExecutor:
    """Works on an estimator's partitions on a Dask cluster.

    The client is a ``distributed.Client``, a scheduler's address such as tcp://host:8786, or what
    `flows.fit.connect.connect` gives. All workers can read and write the store, a folder or URL; by
    default it is a temporary folder of this machine, which is enough for workers on it.
    """

    def __init__(self, client: Any, store: str | None = None) -> None:
        self.client, self.store = client, store

    @contextmanager
    def reduce_over(self, model: Any, batches: Sequence[Any]) -> Iterator[Executor]:
        """Give the reduce over these partitions; see `vbmodels.estimators.executors`."""
        with self._folder() as folder, self._cluster() as cluster:
            urls = tuple(storage.join(folder, f"part-{i:05d}.npz") for i in range(len(batches)))
            for url, batch in zip(urls, batches, strict=True):
                storage.write_bytes(url, to_bytes(batch), durable=False)
            job = Job(model, type(batches[0]), urls, folder, run_id=uuid.uuid4().hex[:12])
            with closing(cluster.executor(job)) as executor:
                yield executor

    @contextmanager
    def _folder(self) -> Iterator[str]:
        below = ("runs", new_run_id(), "work")  # where what is stored is sealed
        if self.store is None:
            with tempfile.TemporaryDirectory(prefix="vbflows-") as folder:
                yield storage.join(folder, *below)
            return
        folder = storage.join(self.store, f"fit-{uuid.uuid4().hex[:12]}")
        try:
            yield storage.join(folder, *below)
        finally:
            storage.delete(folder)

    @contextmanager
    def _cluster(self) -> Iterator[Cluster]:
        if isinstance(self.client, str):
            with connect(scheduler=self.client) as cluster:
                yield cluster
        elif isinstance(self.client, Cluster):
            yield self.client
        else:
            yield over(self.client, "the client's cluster")
