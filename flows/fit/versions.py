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
from typing import Any

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


@cache
def environment() -> dict[str, str]:
    """Return what the last bits of a result may depend on, of this process."""
    config: Any = np.show_config(mode="dicts")
    simd = ",".join(config.get("SIMD Extensions", {}).get("found", []))
    source = hashlib.sha256()  # equal version numbers may hide a difference
    for package in (Path(vbmodels.__file__).parent, Path(__file__).parents[1]):
        for path in sorted(package.rglob("*.py")):
            source.update(path.relative_to(package.parent).as_posix().encode() + path.read_bytes())
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return {**found, "vbflows": source.hexdigest()[:12], "cpu": simd or platform.machine()}


def environment_with(modules: Sequence[str], _after: object) -> dict[str, str]:
    """Import modules, those whose packages are here, and return `environment`."""
    for name in modules:
        with suppress(ImportError):
            import_module(name)
    return environment()


def refuse_other(cluster: str, place: str, theirs: Any) -> None:
    """Raise `ClusterError` naming what a place lacks, or all packages in which it differs.

    ``theirs`` is its `environment`, or what it raised when it was to return that. A package that
    one side lacks matters where it is loaded here.
    """
    if isinstance(theirs, BaseException):
        missing = re.search(r"No module named \W*([\w.]+)", first_line(theirs))
        raise ClusterError(
            f"{place} of {cluster} does not have the package {missing[1]!r}; install vbflows on "
            "the scheduler and on every worker"
            if missing
            else f"{place} of {cluster} refuses work: {first_line(theirs)}"
        )
    ours = environment()
    differing = [name for name in ours if name != "cpu" and _differs(name, ours, theirs)]
    if differing:
        there = ", ".join(_said(name, theirs.get(name)) for name in differing)
        here = ", ".join(_said(name, ours[name]) for name in differing)
        raise ClusterError(
            f"{place} of {cluster} has {there}; this process has {here}; install the same "
            "versions everywhere"
        )
    if ours["cpu"] != theirs.get("cpu"):
        log.warning(
            f"{place} has another type of processor than this process: the last bits of a result "
            "may depend on which worker made it"
        )


def _differs(name: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    if name not in theirs:
        return PACKAGES.get(name, name) in sys.modules
    if name == "python":  # its minor release matters, a package's whole version
        return ours[name].split(".")[:2] != theirs[name].split(".")[:2]
    return ours[name] != theirs[name]


def _said(name: str, version: str | None) -> str:
    if version is None:
        return f"no {name}"
    return f"another source ({version})" if name == "vbflows" else f"{name} {version}"
