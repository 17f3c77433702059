"""Whether workers have what this process has: Dask compares only versions, and only warns."""

from __future__ import annotations

import hashlib
import logging
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vbmodels
from flows.faults import first_line
from flows.fit.job import ClusterError

log = logging.getLogger(__name__)


PACKAGES = {
    "charset-normalizer": "charset_normalizer",
    "dask": "dask",
    "distributed": "distributed",
    "h5py": "h5py",
    "janome": "janome",
    "jieba": "jieba",
    "llvmlite": "llvmlite",
    "numba": "numba",
    "numpy": "numpy",
    "py3langid": "py3langid",
    "pyarrow": "pyarrow",
    "pypdf": "pypdf",
    "pyreadstat": "pyreadstat",
    "pysam": "pysam",
    "pystemmer": "Stemmer",
    "python-calamine": "python_calamine",
    "python-docx": "docx",
    "pythainlp": "pythainlp",
    "scikit-learn": "sklearn",
    "scipy": "scipy",
    "stop-words": "stop_words",
    "textblob": "textblob",
    "threadpoolctl": "threadpoolctl",
}
"""Distributions that decide what is read and computed, and the module of each."""


class Wanted(NamedTuple):
    """What all workers of a cluster must have: what this process has."""

    cluster: str
    environment: Mapping[str, str]
    loaded: frozenset[str]  # packages that are used here, so that a worker may not lack them

    def refuse_other(self, peer: str, theirs: Mapping[str, str]) -> None:
        """Raise `ClusterError` naming all packages in which the process ``peer`` differs."""
        ours = self.environment
        known = {name: ours[name] for name in ours.keys() - self.loaded} | dict(theirs)
        if different := [n for n in ours if n != "cpu" and known.get(n) != ours[n]]:
            there, here = (
                ", ".join(f"{name} {where.get(name, 'not at all')}" for name in different)
                for where in (theirs, ours)
            )
            raise ClusterError(
                f"{peer} of {self.cluster} has {there}; this process has {here}; install the same "
                "versions everywhere"
            )


@cache
def environment() -> dict[str, str]:
    """Return what the last bits of a result may depend on, of this process."""
    config: Any = np.show_config(mode="dicts")
    simd = ",".join(config.get("SIMD Extensions", {}).get("found", []))
    source = hashlib.sha256()  # equal version numbers may hide a difference
    for package in (Path(vbmodels.__file__).parent, Path(__file__).parents[1]):
        for path in sorted(package.rglob("*.py")):
            source.update(path.relative_to(package.parent).as_posix().encode() + path.read_bytes())
    versions = {
        "python": "{}.{}".format(*sys.version_info),  # its minor release matters
        "vbflows": f"of source {source.hexdigest()[:12]}",
    }
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions | {"cpu": simd or platform.machine()}


def wanted(cluster: str) -> Wanted:
    """Return what workers must have for what this process has loaded."""
    ours = environment()
    loaded = frozenset(n for n, module in PACKAGES.items() if n in ours and module in sys.modules)
    return Wanted(cluster, ours, loaded | {"vbflows"})


def environment_with(modules: Sequence[str], _after: object) -> dict[str, str]:
    """Import modules, those whose packages are here, and return `environment`."""
    for name in modules:
        with suppress(ImportError):
            import_module(name)
    return environment()


def refuse_other(cluster: str, peer: str, theirs: Any) -> None:
    """Raise `ClusterError` naming what process ``peer`` lacks, or all packages in which it differs.

    ``theirs`` is its `environment`, or what it raised when it was to return that.
    """
    if isinstance(theirs, BaseException):
        missing = re.search(r"No module named \W*([\w.]+)", first_line(theirs))
        raise ClusterError(
            f"{peer} of {cluster} lacks the package {missing[1]!r}; install vbflows on the "
            "scheduler and every worker"
            if missing
            else f"{peer} of {cluster} refuses work: {first_line(theirs)}"
        )
    wanted(cluster).refuse_other(peer, theirs)
    if environment()["cpu"] != theirs.get("cpu"):
        _warn_of_processor(peer)


@cache
def _warn_of_processor(peer: str) -> None:
    """Warn once of each process."""
    log.warning(
        f"{peer} has another type of processor than this process: the last bits of a result "
        "may differ by worker"
    )
