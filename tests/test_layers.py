"""The layers of the project, read from the imports of every source file.

Imports point down only: cli -> pipelines -> families -> stages -> machinery -> base ->
vbmodels. A family binds the stages of one kind of job and knows no Prefect.
Stages do not import stages, models do not import models, and each heavy library has its
one home.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# vbmodels: what every room may share, and where each library beyond NumPy and SciPy lives.
SHARED = {"state", "cavi", "expfam", "linalg", "bounds", "moments", "special"}
# Samplers also report their diagnostics, and so need ArviZ; the variational models do not.
SAMPLERS = ("gibbs", "metropolis", "hmc")
MODEL_LIBRARIES = {"numpy", "scipy"}
MODEL_HOMES = {
    "numba": lambda path: path.name == "kernels.py",
    "sklearn": lambda path: path.parts[1] == "estimators",
    "arviz": lambda path: path.as_posix() == "vbmodels/diagnostics.py",
}

# flows: the level of every top module; what is not named is machinery between stages and base.
LEVELS = {
    "cli": 6,
    "demo": 6,
    "entry": 7,
    "pipelines": 5,
    "families": 4,
    "ingest": 3,
    "partition": 3,
    "fit": 3,
    "score": 3,
    "publish": 3,
    "schemas": 1,
    "settings": 1,
    "storage": 1,
    "faults": 1,
}
MACHINERY = 2
STAGE = 3
FLOW_HOMES = {
    "dask": lambda path: path.as_posix() == "flows/cluster.py",
    "distributed": lambda path: path.as_posix() == "flows/cluster.py",
    "fsspec": lambda path: path.parts[1] == "storage",
    "s3fs": lambda path: path.parts[1] == "storage",
    "pyarrow.fs": lambda path: path.parts[1] == "storage",
    "prefect": lambda path: path.parts[1] == "pipelines",
    "prefect_dask": lambda path: path.parts[1] == "pipelines",
    "typer": lambda path: path.as_posix() == "flows/cli.py",
}


def sources(root: Path) -> Iterator[Path]:
    """Yield the source files of both packages, relative to ``root``."""
    for package in ("vbmodels", "flows"):
        for path in sorted((root / package).rglob("*.py")):
            yield path.relative_to(root)


def imports(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) for every import, inside functions and by name alike."""
    for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                inside = path.parent.parts[: len(path.parent.parts) - node.level + 1]
                base = ".".join([*inside, *([base] if base else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and _by_name(node.func) and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _by_name(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__"}


def within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def wrong(path: Path, name: str) -> str | None:
    """Say what is wrong with one import, or nothing."""
    return (
        _wrong_in_models(path, name) if path.parts[0] == "vbmodels" else _wrong_in_flows(path, name)
    )


def _wrong_in_models(path: Path, name: str) -> str | None:
    top, *rest = name.split(".")
    if top != "vbmodels":
        if top in sys.stdlib_module_names or top in MODEL_LIBRARIES:
            return None
        if top in MODEL_HOMES:
            return None if MODEL_HOMES[top](path) else f"{top} has another home in vbmodels"
        return "vbmodels sees arrays only"
    here, there = Path(path.parts[1]).stem, rest[0] if rest else ""
    if here == there or there in SHARED or here in {"estimators", "__init__"}:
        return None
    if there == "diagnostics" and path.stem.endswith(SAMPLERS):
        return None
    if here in SHARED:
        return f"{here} is shared by all models and may not depend on {there}"
    return f"{here} may share only {sorted(SHARED)}"


def _wrong_in_flows(path: Path, name: str) -> str | None:
    for library, home in FLOW_HOMES.items():
        if within(name, library) and not home(path):
            return f"{library} has another home in flows"
    if not name.startswith("flows."):
        return None
    here, there = Path(path.parts[1]).stem, name.split(".")[1]
    if here in {there, "__init__"}:
        return None
    mine, theirs = LEVELS.get(here, MACHINERY), LEVELS.get(there, MACHINERY)
    if mine < theirs:
        return f"imports point down, {here} is below {there}"
    if mine == theirs == STAGE:
        return "stages do not import stages"
    return None


def violations(root: Path) -> list[str]:
    """Return every forbidden import as file:line and sentence."""
    return [
        f"{path.as_posix()}:{line}: {name}: {fault}"
        for path in sources(root)
        for line, name in imports(root, path)
        if (fault := wrong(path, name))
    ]


def test_imports_keep_the_layers():
    found = violations(ROOT)
    assert not found, "\n".join(found)


def test_there_is_something_to_read():
    assert {"vbmodels/cavi.py", "flows/storage/access.py"} <= {p.as_posix() for p in sources(ROOT)}


PLANTED = [
    ("vbmodels/keywords/a.py", "import pandas"),
    ("vbmodels/keywords/a.py", "from flows import storage"),
    ("vbmodels/keywords/a.py", "from vbmodels.mil import batch"),
    ("vbmodels/keywords/a.py", "from ..mil.batch import Bags"),
    ("vbmodels/keywords/a.py", "from vbmodels import diagnostics"),
    ("vbmodels/keywords/a.py", "def f():\n    import numba"),
    ("vbmodels/mil/gibbs.py", "from sklearn.svm import SVC"),
    ("vbmodels/mil/gibbs.py", "import arviz"),
    ("vbmodels/mil/estimators.py", "import sklearn"),
    ("vbmodels/cavi.py", "from vbmodels.keywords import pooled"),
    ("vbmodels/special.py", "import importlib\nimportlib.import_module('pyarrow')"),
    ("vbmodels/expfam/gamma.py", "import arviz"),
    ("flows/fit.py", "from distributed import Client"),
    ("flows/pipelines/keywords.py", "import dask.array"),
    ("flows/ingest/keywords.py", "from pyarrow import fs"),
    ("flows/ingest/keywords.py", "import pyarrow.fs as fs"),
    ("flows/cache.py", "import fsspec"),
    ("flows/fit.py", "from prefect import task"),
    ("flows/score.py", "from flows.fit import run_fit"),
    ("flows/ingest/keywords.py", "from ..publish import run"),
    ("flows/storage/objects.py", "from flows.on_cluster import OnCluster"),
    ("flows/executor.py", "from flows import fit"),
    ("flows/publish/run.py", "from flows.pipelines import catalogue"),
    ("flows/families/bags.py", "from prefect import task"),
    ("flows/fit.py", "from flows.families import base"),
    ("flows/pipelines/keywords.py", "import flows.cli"),
]

ALLOWED = [
    ("vbmodels/keywords/a.py", "import numpy.linalg\nfrom scipy import special"),
    ("vbmodels/keywords/a.py", "from vbmodels.expfam import Gamma\nfrom . import b"),
    ("vbmodels/keywords/kernels.py", "from numba import njit"),
    ("vbmodels/estimators/bags.py", "import sklearn\nfrom vbmodels.mil import vmmic"),
    ("vbmodels/estimators/base.py", "from vbmodels import diagnostics"),
    ("vbmodels/diagnostics.py", "import arviz"),
    ("vbmodels/mil/mil_gibbs.py", "from vbmodels.diagnostics import diagnose"),
    ("flows/families/bags.py", "from flows import fit\nfrom flows.ingest import keywords"),
    (
        "flows/cluster.py",
        "import dask\nfrom distributed import Client\nfrom flows.block import Job",
    ),
    ("flows/storage/access.py", "import fsspec, s3fs\nfrom pyarrow import fs"),
    ("flows/pipelines/keywords.py", "from prefect import flow\nfrom flows import fit, storage"),
    ("flows/score.py", "from vbmodels.keywords import pooled\nimport pyarrow as pa"),
    ("flows/ingest/keywords.py", "from .text import tokenise\nfrom flows.schemas import DOCUMENTS"),
]


def planted(root: Path, file: str, text: str) -> list[str]:
    path = root / file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return violations(root)


@pytest.mark.parametrize(("file", "text"), PLANTED)
def test_planted_import_is_found(tmp_path, file, text):
    found = planted(tmp_path, file, text)
    assert len(found) == 1
    assert found[0].startswith(f"{file}:")


@pytest.mark.parametrize(("file", "text"), ALLOWED)
def test_allowed_import_is_let_through(tmp_path, file, text):
    assert planted(tmp_path, file, text) == []
