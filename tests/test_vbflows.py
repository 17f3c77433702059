"""``import vbflows``: what it exports, and that it loads nothing before it is used."""

import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vbflows
from flows.faults import InputError, RunError
from flows.records.runs import PublishError, open_run
from tests.faults import pipelines


def test_every_name_is_there():
    assert set(dir(vbflows)) == set(vbflows.__all__)
    for name in vbflows.__all__:
        assert callable(getattr(vbflows, name)) or name == "stages", name
    assert callable(vbflows.stages.fit)
    with pytest.raises(AttributeError, match="not topics"):
        _ = vbflows.topics


def test_the_package_loads_nothing_by_itself():
    code = "import sys, vbflows; sys.exit(len({'numpy', 'flows', 'vbmodels'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_finished_run_is_loaded_and_scores_new_data_from_memory(tmp_path, monkeypatch):
    source = pipelines.simulate("experts", str(tmp_path / "in"), 60)
    fitted = pipelines.run("experts", source, str(tmp_path / "out"))
    run = vbflows.load(tmp_path / "out")
    assert (run.pipeline, run.run_id, run.headline) == (
        "experts",
        fitted["run_id"],
        fitted["headline"],
    )
    assert run.answer.counts.rows == 60
    rows = {name: run.table("rows", library=name) for name in ("pyarrow", "pandas", "polars")}
    assert {type(one).__module__.partition(".")[0] for one in rows.values()} == set(rows)
    assert run.table("rows", ["id"]).column_names == ["id"]
    with pytest.raises(InputError, match="expected one of"):
        run.table("row")
    assert run.table("rows", ["label", "id"]).column_names == ["label", "id"]
    with pytest.raises(InputError, match="no column lable; did you mean label"):
        run.table("rows", ["id", "lable"])
    with pytest.raises(InputError, match="expected one of pyarrow, pandas, polars, found dask"):
        run.table("rows", library="dask")
    for wrong in ({"x1": [1.0]}, pd.DataFrame({"x1": [1, "a"]})):
        with pytest.raises(InputError, match="each column of one type"):
            run.score(wrong)
    new = pq.read_table(source)
    for given in (new, new.to_pandas(), [source]):
        scored = run.score(given)
        assert scored.table("rows")["id"].equals(rows["pyarrow"]["id"])
    with pytest.raises(PublishError):
        vbflows.load(str(tmp_path / "in"))
    for call in (lambda: run.score([]), lambda: vbflows.experts([], str(tmp_path / "out"))):
        with pytest.raises(InputError, match="SOURCE: expected input, found none"):
            call()
    for wrong in ({"settings": None}, {"compute": ["workers"]}):
        with pytest.raises(InputError, match="settings: expected names with values"):
            vbflows.experts(source, str(tmp_path / "out"), **wrong)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with pytest.raises(InputError, match="of the fitted run of experts are missing"):
        run.score(pa.table({"x9": [1.0]}))
    assert not [*(tmp_path / "temporary").iterdir()]


def test_scores_equal_those_of_the_fit(tmp_path, monkeypatch):
    source = pipelines.simulate("experts", str(tmp_path / "in"), 60)
    fitted = pipelines.run("experts", source, str(tmp_path / "out"))
    scored = vbflows.score(fitted["target"], source, str(tmp_path / "scores"))
    assert scored["rows_read"] == fitted["rows_read"]
    assert "rows" in str(sorted(p.name for p in (tmp_path / "scores" / "runs").glob("*/*")))
    paths, record = open_run(fitted["target"])
    old = record.model_copy(update={"results": {"kind": "label"}})
    monkeypatch.setattr("vbflows.result.open_run", lambda run: (paths, old))
    with pytest.raises(PublishError, match="an answer of this version"):
        vbflows.load(fitted["target"])


def test_a_matrix_that_cannot_be_inverted_is_a_sentence_with_its_partition(tmp_path):
    source = pipelines.simulate("experts", str(tmp_path / "in"), 60)

    def fail():
        with vbflows.begin("experts", source, str(tmp_path / "out")) as run:
            vbflows.stages.check(run)
            error = np.linalg.LinAlgError("the precision must be positive definite")
            error.add_note("in partition 3 (x.npz)")
            raise error

    with pytest.raises(RunError, match=r"positive definite; in partition 3 \(x.npz\); "):
        fail()
