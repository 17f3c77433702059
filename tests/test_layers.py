"""The layers of the project, read from the imports of every source file.

Imports point down only: cli -> pipelines -> run -> catalogue -> a family -> the protocol of
families -> report, engine -> data -> settings -> faults; all of them -> vbmodels. Families do not
import families, models import the core only, and each heavy library has its one home.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# vbmodels: the room that all share, and where each library beyond NumPy and SciPy lives.
CORE = "core"
# Samplers also report their diagnostics, and so need ArviZ; the variational models do not.
SAMPLERS = ("gibbs", "metropolis", "hmc")
MODEL_LIBRARIES = {"numpy", "scipy"}
MODEL_HOMES = {
    "numba": lambda path: path.name.endswith("_kernels.py"),
    "sklearn": lambda path: path.parts[1] == "estimators",
    "arviz": lambda path: path.as_posix() == "vbmodels/core/diagnostics.py",
    "pytest": lambda path: path.as_posix() == "vbmodels/testing/contract.py",
}

# flows: the level of every room; those of one level do not know each other.
FAMILIES = ("bags", "experts", "features", "keywords", "variants")
LEVELS = {
    "entry": 10,
    "cli": 9,
    "demo": 8,
    "warm": 8,
    "pipelines": 8,
    "sphinx": 8,
    "run": 7,
    "catalogue": 6,
    **dict.fromkeys(FAMILIES, 5),
    "one_table": 5,  # for families of others
    "family": 4,
    "engine": 3,
    "report": 3,
    "data": 2,
    "settings": 1,
    "faults": 0,
}
FLOW_HOMES = {
    "dask": lambda path: path.as_posix().startswith("flows/engine/dask/"),
    "distributed": lambda path: path.as_posix().startswith("flows/engine/dask/"),
    "fsspec": lambda path: path.parts[1:3] == ("data", "storage"),
    "s3fs": lambda path: path.parts[1:3] == ("data", "storage"),
    "h5py": lambda path: path.parts[1:3] == ("data", "storage"),
    "pyarrow.fs": lambda path: path.parts[1:3] == ("data", "storage"),
    "prefect": lambda path: path.parts[1:3] == ("run", "prefect"),
    "prefect_dask": lambda path: path.parts[1:3] == ("run", "prefect"),
    "deltalake": lambda path: path.parts[1:3] == ("run", "delta"),
    "openlineage": lambda path: path.parts[1:3] == ("run", "lineage"),
    "opentelemetry": lambda path: path.parts[1:3] == ("run", "telemetry"),
    "typer": lambda path: path.parts[1] == "cli",
    "docutils": lambda path: path.as_posix() == "flows/sphinx.py",
    "sphinx": lambda path: path.as_posix() == "flows/sphinx.py",
    "numba": lambda path: path.name.endswith("_kernels.py"),
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
    if rest[:2] == [CORE, "diagnostics"] and here not in {"estimators", "testing"}:
        return None if path.stem.endswith(SAMPLERS) else "only samplers need diagnostics"
    if there in (here, CORE) or here in {"estimators", "__init__"}:
        return None
    if here == CORE:
        return f"the core is shared by all models and may not depend on {there}"
    return "a family of models may import the core only"


def _wrong_in_flows(path: Path, name: str) -> str | None:
    for library, home in FLOW_HOMES.items():
        if within(name, library) and not home(path):
            return f"{library} has another home in flows"
    if not name.startswith("flows."):
        return None
    here, there = Path(path.parts[1]).stem, name.split(".")[1]
    if here in {there, "__init__"}:
        return None
    mine, theirs = LEVELS[here], LEVELS[there]
    if mine < theirs:
        return f"imports point down, {here} is below {there}"
    if mine == theirs:
        return f"{here} and {there} do not know each other"
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


def for_annotations(root: Path, path: Path) -> set[int]:
    """Return the lines of a file that a type checker alone runs."""
    tree = ast.parse((root / path).read_text(encoding="utf-8"))
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for line in range(node.lineno, node.end_lineno + 1)
    }


def cycles(root: Path) -> list[str]:
    """Return every module that imports itself by way of others, inside functions too.

    What is imported for annotations alone is left out.
    """
    unrun = {path: for_annotations(root, path) for path in sources(root)}
    names = {p: ".".join(p.with_suffix("").parts).removesuffix(".__init__") for p in sources(root)}
    modules = set(names.values())
    below = {
        name: {
            found
            for line, wanted in imports(root, path)
            if line not in unrun[path]
            for found in (wanted, wanted.rpartition(".")[0])
            if found in modules and found != name
        }
        for path, name in names.items()
    }
    # An import of a name that is a module is one of that module, not of its package's too.
    for name, wanted in below.items():
        below[name] = {w for w in wanted if not any(o.startswith(f"{w}.") for o in wanted)}
    found = []
    for name in sorted(modules):
        seen: set[str] = set()
        todo = set(below[name])
        while todo:
            one = todo.pop()
            seen.add(one)
            todo |= below[one] - seen
        if name in seen:
            found.append(name)
    return found


def test_no_module_imports_itself_by_way_of_others():
    assert cycles(ROOT) == []


def test_a_planted_cycle_is_found(tmp_path):
    room = tmp_path / "flows" / "data"
    room.mkdir(parents=True)
    (room / "a.py").write_text("from flows.data import b", encoding="utf-8")
    (room / "b.py").write_text("def f():\n    from flows.data.a import c", encoding="utf-8")
    assert cycles(tmp_path) == ["flows.data.a", "flows.data.b"]


def test_there_is_something_to_read():
    assert {"vbmodels/core/cavi.py", "flows/data/storage/access.py"} <= {
        p.as_posix() for p in sources(ROOT)
    }


PLANTED = [
    ("vbmodels/keywords/a.py", "import pandas"),
    ("vbmodels/keywords/a.py", "from flows import data"),
    ("vbmodels/keywords/a.py", "from vbmodels.bags import batch"),
    ("vbmodels/keywords/published/a.py", "from vbmodels.bags.published import rows"),
    ("vbmodels/keywords/a.py", "from ..bags.batch import Bags"),
    ("vbmodels/keywords/a.py", "from vbmodels.core import diagnostics"),
    ("vbmodels/keywords/a.py", "def f():\n    import numba"),
    ("vbmodels/bags/gibbs.py", "from sklearn.svm import SVC"),
    ("vbmodels/bags/gibbs.py", "import arviz"),
    ("vbmodels/bags/estimators.py", "import sklearn"),
    ("vbmodels/core/cavi.py", "from vbmodels.keywords import corpus"),
    ("vbmodels/testing/draws.py", "import pytest"),
    ("vbmodels/testing/truth.py", "from vbmodels.keywords import corpus"),
    ("vbmodels/core/special.py", "import importlib\nimportlib.import_module('pyarrow')"),
    ("vbmodels/core/expfam/gamma.py", "import arviz"),
    ("flows/engine/fit.py", "from distributed import Client"),
    ("flows/run/pipeline.py", "import dask.array"),
    ("flows/keywords/documents.py", "from pyarrow import fs"),
    ("flows/keywords/documents.py", "import pyarrow.fs as fs"),
    ("flows/engine/cache.py", "import fsspec"),
    ("flows/run/pipeline.py", "from prefect import task"),
    ("flows/run/outward.py", "from openlineage.client import OpenLineageClient"),
    ("flows/run/lineage/receiver.py", "from opentelemetry import trace"),
    ("flows/engine/fit.py", "from flows.report import page"),
    ("flows/report/page.py", "from ..engine import fit"),
    ("flows/data/storage/objects.py", "from flows.engine.on_cluster import OnCluster"),
    ("flows/data/runs.py", "from flows import catalogue"),
    ("flows/bags/family.py", "from flows.keywords import documents"),
    ("flows/engine/fit.py", "from flows import family"),
    ("flows/run/pipeline.py", "import flows.cli"),
    ("flows/settings/base.py", "from flows.keywords.settings import KeywordSettings"),
    ("flows/variants/bam_walk.py", "from numba import njit"),
]

ALLOWED = [
    ("vbmodels/keywords/a.py", "import numpy.linalg\nfrom scipy import special"),
    ("vbmodels/keywords/a.py", "from vbmodels.core.expfam import Gamma\nfrom . import b"),
    ("vbmodels/keywords/a.py", "from vbmodels.keywords.published import vbss"),
    ("vbmodels/keywords/graph_kernels.py", "from numba import njit"),
    ("vbmodels/estimators/bags.py", "import sklearn\nfrom vbmodels.bags.published import vmmic"),
    ("vbmodels/estimators/base.py", "from vbmodels.core import diagnostics"),
    ("vbmodels/core/diagnostics.py", "import arviz"),
    ("vbmodels/testing/contract.py", "import pytest"),
    ("vbmodels/testing/truth.py", "from vbmodels.core.diagnostics import diagnose"),
    ("vbmodels/bags/mil_gibbs.py", "from vbmodels.core.diagnostics import diagnose"),
    ("flows/bags/family.py", "from flows.engine import fit\nfrom flows.bags import form"),
    (
        "flows/engine/dask/seam.py",
        "import dask\nfrom distributed import Client\nfrom flows.engine.block import Job",
    ),
    ("flows/data/storage/access.py", "import fsspec, s3fs\nfrom pyarrow import fs"),
    ("flows/run/lineage/datasets.py", "from openlineage.client import event_v2"),
    ("flows/run/telemetry/meters.py", "from opentelemetry.metrics import Meter"),
    ("flows/run/prefect/flow.py", "from prefect import flow\nfrom flows.data import storage"),
    ("flows/keywords/score.py", "from vbmodels.keywords import corpus\nimport pyarrow as pa"),
    ("flows/keywords/a.py", "from .text import tokenise\nfrom flows.keywords import schema"),
    ("flows/variants/bam_kernels.py", "from numba import njit"),
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
