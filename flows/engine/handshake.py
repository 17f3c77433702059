"""Whether a cluster can do the work: the same Python, packages and source everywhere.

A worker that is busy with someone else's work is not waited for: every result carries the
environment that it was made in, and is refused if that differs.

What it finds, a result would tell as well, but later: after partitions were written and read. Dask
compares its own versions alone, not this package's source nor what a worker has installed.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import CancelledError
from importlib.util import find_spec
from typing import Any

from flows.engine.seam import Unreachable
from flows.engine.worker import environment
from flows.faults import ComputeError

ANSWER = 30.0  # seconds that a worker may take to load this package
BUSY = object()


class ClusterError(ComputeError):
    """The cluster cannot be used, or was lost; one sentence for the user."""


def check_versions(cluster: Any) -> None:
    """Compare every worker's Python, packages and source with this process's."""
    client, ours = cluster.client, environment()
    found = _asked(cluster, client._get_versions)
    theirs = {f"worker {address}": version for address, version in found["workers"].items()}
    theirs["the scheduler"] = found["scheduler"]
    mine = found["client"]
    for place, version in theirs.items():
        for part, name in (("host", "python"), ("packages", "dask"), ("packages", "distributed")):
            here, there = mine[part].get(name), version[part].get(name)
            if _release(name, here) != _release(name, there):
                raise ClusterError(_mismatch(cluster, place, name, here, there))
    # A worker that cannot import what a task names dies of it, so that is asked for first.
    for address, spec in _asked_of_all(cluster, find_spec, "flows").items():
        if spec is None or isinstance(spec, ImportError):
            raise _without_package(cluster, f"worker {address}", "flows")
    for address, theirs in _asked_of_all(cluster, environment).items():
        if isinstance(theirs, ImportError):
            raise _without_package(cluster, f"worker {address}", theirs.name or first_line(theirs))
        refuse_other_environment(cluster, f"worker {address}", ours, theirs)


def _asked_of_all(cluster: Any, function: Any, *arguments: Any) -> dict[str, Any]:
    """Return what each worker answers, or the ImportError that it met."""
    serial = os.urandom(6).hex()
    futures = {
        address: cluster.client.submit(
            function,
            *arguments,
            key=f"vbflows-check-{serial}-{i}",
            workers=[address],
            priority=100,
        )
        for i, address in enumerate(_present(cluster))
    }
    deadline = time.monotonic() + ANSWER
    answers = {a: _answer(cluster, a, future, deadline) for a, future in futures.items()}
    return {address: answer for address, answer in answers.items() if answer is not BUSY}


def _answer(cluster: Any, address: str, future: Any, deadline: float) -> Any:
    while True:
        try:
            return future.result(timeout=1.0)
        except ImportError as error:
            return error
        except (RuntimeError, CancelledError) as error:
            if isinstance(error.__cause__, ImportError):
                missing = error.__cause__.name or first_line(error.__cause__)
                raise _without_package(cluster, "the scheduler", missing) from error
            raise ClusterError(f"{cluster.name} refuses work: {first_line(error)}") from error
        except TimeoutError:
            if address not in _present(cluster):
                raise ClusterError(
                    f"worker {address} of {cluster.name} went away when it was asked to load "
                    "vbflows; look at its log"
                ) from None
            if time.monotonic() > deadline and _busy(cluster, address):
                return BUSY
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"worker {address} of {cluster.name} does not answer; restart or remove it"
                ) from None


def _asked(cluster: Any, question: Any, **arguments: Any) -> Any:
    """Ask all sides at once, one of which may have been stopped: Dask sets no limit."""
    try:
        return cluster.client.sync(question, callback_timeout=2 * ANSWER, **arguments)
    except TimeoutError as error:
        raise ClusterError(
            f"{cluster.name} does not answer within {2 * ANSWER:.0f} s; look for a scheduler or a "
            "worker that is stopped, and restart it"
        ) from error


def _present(cluster: Any) -> list[str]:
    try:
        return sorted(cluster.workers())
    except Unreachable as error:
        raise ClusterError(f"{error}; restart it") from error


def _busy(cluster: Any, address: str) -> bool:
    """Whether a worker was given other tasks than those of this check."""
    found = _asked(cluster, cluster.client.scheduler.processing, workers=[address])
    given = found.get(address, ())
    return any(not str(key).startswith("vbflows-check") for key in given)


def refuse_other_environment(
    cluster: Any, place: str, ours: dict[str, str], theirs: dict[str, str]
) -> None:
    """Raise `ClusterError` naming the first package in which a worker differs."""
    for name, version in ours.items():
        there = theirs.get(name)
        if name != "cpu" and _release(name, version) != _release(name, there):
            raise ClusterError(_mismatch(cluster, place, name, version, there))


def _release(name: str, version: str | None) -> str | None:
    """Python's minor release matters, a package's whole version."""
    return ".".join(str(version).split(".")[:2]) if name == "python" and version else version


def _mismatch(cluster: Any, place: str, name: str, here: Any, there: Any) -> str:
    what = "vbflows of another source" if name == "vbflows" else f"{name} {there}"
    return (
        f"{place} of {cluster.name} has {what}, expected {name} {here} as in this process; "
        "install the same versions everywhere"
    )


def _without_package(cluster: Any, place: str, missing: str) -> ClusterError:
    return ClusterError(
        f"{place} of {cluster.name} does not have the package {missing!r}; install vbflows on "
        "the scheduler and on every worker"
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error, or its name."""
    return (str(error) or type(error).__name__).splitlines()[0]
