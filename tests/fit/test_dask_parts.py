"""What is used of `distributed` beside its documented interface, each by name.

Where one of these fails, a newer version of it lacks that part: see who uses it in flows/fit.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from distributed import Client, LocalCluster, Nanny, Scheduler, Status

from flows.fit.connect import connect

FIT = Path(__file__).parents[2] / "flows" / "fit"
PRIVATE = {"_forkserver_preload_set"}  # Dask's; this process has no public way to decide that
STANDARD = {"_forkserver", "_forkserver_pid", "_stop"}  # of Python's multiprocessing.forkserver


def test_no_other_private_part_is_used():
    """Names with an underscore of anything but the own instance."""
    found = set()
    for path in FIT.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                if not own and not node.attr.startswith("__"):
                    found.add(node.attr)
    assert found <= PRIVATE | STANDARD


CONTEXT = """
import sys
import dask, distributed.utils
assert hasattr(distributed.utils, "_forkserver_preload_set"), "distributed no longer has it"
distributed.utils._forkserver_preload_set = True
with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
    distributed.utils.get_mp_context()
assert "pandas" not in sys.modules
"""


def test_a_process_that_starts_workers_imports_nothing_for_them():
    run = subprocess.run([sys.executable, "-c", CONTEXT], capture_output=True, text=True)
    assert run.returncode == 0, f"distributed no longer heeds _forkserver_preload_set: {run.stderr}"


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Client, "processing"),
        (Client, "restart_workers"),
        (Client, "run_on_scheduler"),
        (Client, "sync"),
        (LocalCluster, "scale"),
        (Nanny, "pid"),
        (Scheduler, "identity"),
    ],
)
def test_what_is_called_of(owner, name):
    assert hasattr(owner, name), f"distributed no longer has {owner.__name__}.{name}"


def parts(dask_worker):
    return [hasattr(dask_worker, name) for name in ("metrics", "memory_manager", "address")]


def test_what_is_used_of_a_connection_and_of_a_worker():
    with connect(workers=1) as cluster:
        client = cluster.client
        (info,) = client.scheduler_info(n_workers=-1)["workers"].values()
        for name in ("last_seen", "memory_limit", "metrics", "nthreads", "status"):
            assert name in info, f"distributed no longer has {name} of a worker"
        for name in ("connection_args", "direct_to_workers", "rpc", "scheduler", "scheduler_comm"):
            assert hasattr(client, name), f"distributed no longer has Client.{name}"
        for nanny in cluster.local.nannies:
            assert nanny.process.status is Status.running
        (found,) = client.run(parts).values()
        assert all(found), "distributed no longer has metrics, memory_manager of a Worker"
