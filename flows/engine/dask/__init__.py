"""Dask: starting workers here or finding a cluster, and the seam to it. Its only user.

What is decided about a cluster is in `flows.engine.calls` and `flows.engine.on_cluster`.
"""

from flows.engine.calls import Cluster
from flows.engine.dask.connecting import connect, over
from flows.engine.dask.seam import OverDask
from flows.engine.handshake import ClusterError

__all__ = ["Cluster", "ClusterError", "OverDask", "connect", "over"]
