"""What a resumed run may differ in, and what it does with what it left before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.families import expert_rival
from flows.families.catalogue import pipeline_named
from flows.faults import InputError, RunError
from flows.pipelines import run as run_module
from flows.pipelines.launch import launch
from flows.settings import ComputeSettings
from flows.storage import StorageError
from vbmodels.experts.batch import Rows
from vbmodels.state import to_bytes


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A table of 60 simulated documents."""
    (url,) = pipeline_named("keywords").simulate(str(tmp_path_factory.mktemp("simulated")), 60, 1)
    return pq.read_table(url)


@pytest.fixture
def source(corpus, tmp_path):
    """Three files of 20 documents."""
    folder = tmp_path / "in"
    folder.mkdir()
    for i, name in enumerate("abc"):
        pq.write_table(corpus.slice(20 * i, 20), folder / f"{name}.parquet")
    return folder


def go(source, target, resume=None, since=None, name="keywords", **changes):
    asked = {"keyword_rate": 0.2, "rows_per_partition": 20, "max_iter": 3}
    asked = {**asked, **changes} if name == "keywords" else changes
    settings = pipeline_named(name).settings(**asked)
    return launch(name, str(source), str(target), settings, ComputeSettings(), resume, False, since)


@pytest.fixture
def stopped(monkeypatch):
    """Begin a run that fails at a stage; return its name."""

    def begin(source, target, stage="run_fit", **changes):
        def fails(*args, **kwargs):
            raise StorageError("the store went away")

        before = set(os.listdir(target / "runs")) if target.exists() else set()
        with monkeypatch.context() as patch:
            patch.setattr(run_module, stage, fails)
            with pytest.raises(RunError, match=r"the store went away.*--resume"):
                go(source, target, **changes)
        (run_id,) = set(os.listdir(target / "runs")) - before
        return run_id

    return begin


def result(target, outcome):
    return pq.read_table(Path(target) / "runs" / outcome["run_id"] / "keywords")


def test_a_resumed_run_with_a_file_less_or_more_is_refused(source, stopped, tmp_path, corpus):
    run_id = stopped(source, tmp_path / "out")
    a = source / "a.parquet"
    kept = tmp_path / "kept.parquet"
    os.rename(a, kept)
    with pytest.raises(InputError, match=r"expected the file .*a\.parquet, which the run began"):
        go(source, tmp_path / "out", run_id)
    os.rename(kept, source / "zz.parquet")
    with pytest.raises(InputError) as caught:
        go(source, tmp_path / "out", run_id)
    assert len(caught.value.faults) == 2
    assert "zz.parquet as well" in str(caught.value)
    os.rename(source / "zz.parquet", a)
    outcome = go(source, tmp_path / "out", run_id)
    assert set(result(tmp_path / "out", outcome)["doc_id"].to_pylist()) == set(
        corpus["doc_id"].to_pylist()
    )


def test_a_resumed_run_with_a_changed_file_is_refused(source, stopped, tmp_path, corpus):
    run_id = stopped(source, tmp_path / "out")
    pq.write_table(corpus.slice(20, 15), source / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet as it was when the run began, found another"):
        go(source, tmp_path / "out", run_id)


def test_partitions_that_moved_are_read_again(source, stopped, tmp_path, corpus):
    """Where a run does not say what it was asked for, no part is taken for another."""
    run_id = stopped(source, tmp_path / "out")
    (tmp_path / "out" / "runs" / run_id / "work" / "asked.json").unlink()
    (source / "a.parquet").unlink()
    outcome = go(source, tmp_path / "out", run_id)
    assert set(result(tmp_path / "out", outcome)["doc_id"].to_pylist()) == set(
        corpus["doc_id"].to_pylist()[20:]
    )


def test_a_resumed_run_with_other_settings_is_refused(source, stopped, tmp_path):
    options = {"model": "textrank", "partitions": 6}
    run_id = stopped(source, tmp_path / "out", "publish", **options)
    with pytest.raises(InputError) as caught:
        go(source, tmp_path / "out", run_id, model="ss", partitions=2)
    said = str(caught.value)
    assert 'column model: expected "textrank", with which the run began, found "ss"' in said
    assert "column partitions: expected 6, with which the run began, found 2" in said
    assert len(caught.value.faults) == 2
    assert go(source, tmp_path / "out", run_id, **options)["run_id"] == run_id


def test_a_run_of_another_pipeline_is_not_resumed(source, stopped, tmp_path):
    run_id = stopped(source, tmp_path / "out")
    pipeline_named("features").simulate(str(tmp_path / "table"), 60, 1)
    with pytest.raises(InputError, match=r"expected the pipeline keywords .* found features"):
        go(tmp_path / "table", tmp_path / "out", run_id, name="features")


def test_a_resumed_run_may_have_more_sweeps(source, stopped, tmp_path):
    """Also where it has a checkpoint, which compares the settings as well."""
    run_id = stopped(source, tmp_path / "out", "_scored", checkpoint_every=1)
    assert list((tmp_path / "out" / "runs" / run_id / "work" / "checkpoints").iterdir())
    outcome = go(source, tmp_path / "out", run_id, checkpoint_every=2, max_iter=5)
    assert outcome["iterations"] == 5


def test_nothing_of_an_earlier_attempt_stays_among_the_results(source, stopped, tmp_path):
    run_id = stopped(source, tmp_path / "out", "publish", model="textrank", partitions=2)
    root = tmp_path / "out" / "runs" / run_id
    stale = root / "keywords" / "part-00005.parquet"
    stale.write_bytes((root / "keywords" / "part-00000.parquet").read_bytes())
    go(source, tmp_path / "out", run_id, model="textrank", partitions=2)
    assert sorted(path.name for path in (root / "keywords").iterdir()) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]


def test_a_resumed_run_goes_on_from_the_run_it_began_with(source, stopped, tmp_path):
    first = go(source, tmp_path / "out", since="latest")
    run_id = stopped(source, tmp_path / "out", since="latest")
    second = go(source, tmp_path / "out", since="latest")
    with pytest.raises(InputError) as caught:
        go(source, tmp_path / "out", run_id, since=second["run_id"])
    assert f"expected a run since {first['run_id']}, as it began" in str(caught.value)
    with pytest.raises(InputError, match="found without since"):
        go(source, tmp_path / "out", run_id)
    go(source, tmp_path / "out", run_id, since="latest")
    record = json.loads((tmp_path / "out" / "runs" / run_id / "run.json").read_text())
    assert record["since"] == first["run_id"]


def test_a_resumed_first_run_stays_the_first(source, stopped, tmp_path):
    run_id = stopped(source, tmp_path / "out", since="latest")
    go(source, tmp_path / "out")
    go(source, tmp_path / "out", run_id, since="latest")
    record = json.loads((tmp_path / "out" / "runs" / run_id / "run.json").read_text())
    assert record["since"] is None


def test_what_a_run_was_asked_for_may_be_damaged(source, stopped, tmp_path):
    run_id = stopped(source, tmp_path / "out")
    asked = tmp_path / "out" / "runs" / run_id / "work" / "asked.json"
    asked.write_text('{"pipeline": ')
    assert go(source, tmp_path / "out", run_id)["run_id"] == run_id


def test_a_process_that_meets_a_run_again_reads_its_counts_anew(source, stopped, tmp_path, corpus):
    os.remove(source / "b.parquet")
    os.remove(source / "c.parquet")
    run_id = stopped(source, tmp_path / "out")
    root = tmp_path / "out" / "runs" / run_id
    (root / "work" / "asked.json").unlink()  # else other files are refused
    pq.write_table(corpus.slice(20, 40), source / "b.parquet")
    go(source, tmp_path / "out", run_id)
    about = json.loads((root / "posterior" / "corpus" / "about.json").read_text())
    assert about["n_documents"] == 60


def test_a_process_that_meets_rows_again_reads_them_anew(tmp_path):
    url = str(tmp_path / "part.npz")
    for label in (1.0, -1.0):
        rows = Rows.of(np.ones((3, 2)), np.full(3, label), np.arange(3))
        storage.write_bytes(url, to_bytes(rows))
        assert expert_rival._batch(url).t.tolist() == [label] * 3
