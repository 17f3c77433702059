"""``import vbflows``: what it exports, and that it loads nothing before it is used."""

import subprocess
import sys

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
