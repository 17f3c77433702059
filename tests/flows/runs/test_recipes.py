"""The recipes of docs/storage.md that publish a run's tables through other libraries."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults import pipelines

PAGE = Path(__file__).parents[3] / "docs" / "storage.md"


def recipes():
    """Return the code of the section, by the library that it imports."""
    section = PAGE.read_text(encoding="utf-8").split("## Results as Delta or Iceberg tables")[1]
    found = re.findall(r"^```\{code-block\} python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return {name: code for code in found for name in ("deltalake", "pyiceberg") if name in code}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Two runs of one target in the working folder: the recipe is to bring the second."""
    monkeypatch.chdir(tmp_path)
    source = pipelines.simulate("bags", "in")
    outcomes = [pipelines.run("bags", source, "results", seed=seed, max_iter=2) for seed in (1, 2)]
    return [pq.read_table(f"results/runs/{outcome['run_id']}/bags") for outcome in outcomes]


def sorted_rows(table):
    return sorted(map(repr, table.to_pylist()))


def test_delta(published):
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    deltalake.write_deltalake("lake/bags", published[0])
    exec(recipes()["deltalake"], {})
    found = deltalake.DeltaTable("lake/bags")
    assert found.version() == 1
    assert sorted_rows(found.to_pyarrow_table()) == sorted_rows(published[1])


def test_iceberg(published, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "sqlite:///catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{Path.cwd()}")
    # It reads the environment when it is imported.
    catalog = pytest.importorskip("pyiceberg.catalog", reason="pyiceberg is not installed")
    for bags in published:
        exec(recipes()["pyiceberg"], {"bags": bags})
    found = catalog.load_catalog("lake").load_table("vbflows.bags").scan().to_arrow()
    assert sorted_rows(found) == sorted_rows(published[1])
