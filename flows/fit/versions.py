"""Whether workers have what this process has: Dask compares only versions, and only warns."""

from __future__ import annotations

import hashlib
import logging
import platform
import re
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import vbmodels
from flows.faults import first_line
from flows.fit.job import ClusterError

log = logging.getLogger(__name__)


@cache
def environment() -> dict[str, str]:
    """Return what the last bits of a result may depend on, of this process."""
    config: Any = np.show_config(mode="dicts")
    simd = ",".join(config.get("SIMD Extensions", {}).get("found", []))
    source = hashlib.sha256()  # equal version numbers may hide a difference
    for package in (Path(vbmodels.__file__).parent, Path(__file__).parents[1]):
        for path in sorted(package.rglob("*.py")):
            source.update(path.relative_to(package.parent).as_posix().encode() + path.read_bytes())
    packages = {name: metadata.version(name) for name in ("numpy", "scipy", "dask", "distributed")}
    python = platform.python_version()
    cpu = simd or platform.machine()
    return {"python": python, **packages, "vbflows": source.hexdigest()[:12], "cpu": cpu}


def refuse_other(cluster: str, place: str, theirs: Any) -> None:
    """Raise `ClusterError` naming what a place lacks, or the first package in which it differs.

    ``theirs`` is its `environment`, or what it raised when it was to return that.
    """
    if isinstance(theirs, BaseException):
        missing = re.search(r"No module named \W*([\w.]+)", first_line(theirs))
        raise ClusterError(
            f"{place} of {cluster} does not have the package {missing[1]!r}; install vbflows on "
            "the scheduler and on every worker"
            if missing
            else f"{place} of {cluster} refuses work: {first_line(theirs)}"
        )
    for name, ours in environment().items():
        # Python's minor release matters, a package's whole version.
        parts = 2 if name == "python" else None
        there = str(theirs.get(name))
        if ours.split(".")[:parts] == there.split(".")[:parts]:
            continue
        if name != "cpu":
            what = "vbflows of another source" if name == "vbflows" else f"{name} {there}"
            raise ClusterError(
                f"{place} of {cluster} has {what}, expected {name} {ours} as in this process; "
                "install the same versions everywhere"
            )
        log.warning(
            f"{place} has another type of processor than this process: the last bits of a result "
            "may depend on which worker made it"
        )
