"""``import vbflows``: what it exports, and that it loads nothing before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vbflows
from tests.faults import pipelines


def test_every_name_is_there():
    assert set(dir(vbflows)) == set(vbflows.__all__)
    for name in vbflows.__all__:
        assert callable(getattr(vbflows, name)), name
    with pytest.raises(AttributeError, match="not topics"):
        _ = vbflows.topics


def test_the_package_loads_nothing_by_itself():
    code = "import sys, vbflows; sys.exit(len({'numpy', 'flows', 'vbmodels'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_scores_equal_those_of_the_fit(tmp_path):
    source = pipelines.simulate("experts", str(tmp_path / "in"), 60)
    fitted = pipelines.run("experts", source, str(tmp_path / "out"))
    scored = vbflows.score(fitted["target"], source, str(tmp_path / "scores"))
    assert scored["rows_read"] == fitted["rows_read"]
    assert "rows" in str(sorted(p.name for p in (tmp_path / "scores" / "runs").glob("*/*")))


PLAN = Path(__file__).parents[1] / "deploy" / "nightly.yaml"

WITHOUT_PREFECT = """
import sys
for name in ("prefect", "fastapi", "sqlalchemy", "httpx"):
    sys.modules[name] = None
try:
    from vbflows import keywords
except ImportError as error:
    print(error, file=sys.stderr)
from flows.cli import main
main(sys.argv[1:])
"""


def test_the_command_runs_without_prefect(tmp_path):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-c", WITHOUT_PREFECT, *words],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    source = pipelines.simulate("experts", str(tmp_path / "in"), 60)
    done = run("experts", source, "out", "--set", "baselines=false")
    assert done.returncode == 0, done.stderr
    assert "pip install 'vbflows[prefect]'" in done.stderr.splitlines()[0]
    assert (tmp_path / "out" / "latest.json").exists()
    refused = run("serve", str(PLAN))
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == (
        "vbflows: this needs the package prefect; install it with: pip install 'vbflows[prefect]'"
    )
