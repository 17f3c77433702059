"""Fits of `vbmodels.estimators` over Dask: the executor behind their ``client=``.

Partitions are written where all workers can read them and the cluster's own executor does
the rest, so that a fit has the same bits as one in process with the same partitions.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flows.data import storage
from flows.data.runs import new_run_id
from flows.engine.block import Job
from flows.engine.dask import Cluster, connect, over
from flows.engine.on_cluster import OnCluster
from vbmodels.core.state import to_bytes


class DaskExecutor:
    """Works on an estimator's partitions on a Dask cluster.

    Parameters
    ----------
    client
        A ``distributed.Client``, a scheduler's address such as tcp://host:8786, or what
        `flows.engine.dask.connect` gives.
    store
        Folder or URL that all workers can read and write; by default a temporary folder of
        this machine, which is enough for workers on it.
    """

    def __init__(self, client: Any, store: str | None = None) -> None:
        self.client = client
        self.store = store

    @contextmanager
    def reduce_over(self, model: Any, batches: Sequence[Any]) -> Iterator[Summing]:
        """Give the reduce over these partitions; see `vbmodels.estimators.base`."""
        with self._folder() as folder, self._cluster() as cluster:
            urls = tuple(storage.join(folder, f"part-{i:05d}.npz") for i in range(len(batches)))
            for url, batch in zip(urls, batches, strict=True):
                storage.write_bytes(url, to_bytes(batch), durable=False)
            job = Job(model, type(batches[0]), urls, folder, run_id=uuid.uuid4().hex[:12])
            executor = cluster.executor(job)
            try:
                yield Summing(executor)
            finally:
                executor.close()

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
            return
        if isinstance(self.client, Cluster):
            yield self.client
            return
        yield over(self.client, "the client's cluster")


class Summing:
    """An executor's sums alone, as the loop of `vbmodels.core.fit.drive` asks for them."""

    most_sweeps: int | None = None

    def __init__(self, executor: OnCluster) -> None:
        self.executor = executor

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.executor.partitions

    def observe(self) -> Any:
        """Return the sum of first statistics."""
        return self.executor.observe().stats

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `vbmodels.core.protocol.Reduce`."""
        return self.executor(q, number=number, warm=warm)

    def visit(self, q: Any, *, number: int, warm: int | None, group: int, groups: int) -> Any:
        """Run a part of a sweep; see `vbmodels.core.protocol.Visiting`."""
        return self.executor.visit(q, number=number, warm=warm, group=group, groups=groups)
