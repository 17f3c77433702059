"""What a resumed run may differ in, and what it does with what it left before."""

import json
import os
import shutil
import time
from contextlib import contextmanager
from functools import partial, update_wrapper
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows import stages, storage
from flows.catalogue import pipeline_named
from flows.events import Message, Sweep, listening
from flows.experts.input import design
from flows.faults import Fault, InputError, Interrupted, RunError
from flows.keywords.family import Keywords
from flows.records import lock
from flows.records.lock import RunBusy
from flows.run import begin
from flows.run import run as launch
from flows.run import score as launch_score
from flows.runs import publish as publishing
from flows.runs.listing import runs_of
from flows.settings import ComputeSettings
from flows.storage import StorageError
from tests.faults import pipelines
from vbmodels.core.state import to_bytes
from vbmodels.experts.rows import Rows


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
    options = {"unit": "word", "keyword_rate": 0.2, "rows_per_partition": 20, "max_iter": 60}
    options = {**options, **changes} if name == "keywords" else changes
    settings = pipeline_named(name).settings(**options)
    return launch(name, str(source), str(target), settings, ComputeSettings(), since, resume)


@pytest.fixture
def stopped(monkeypatch):
    """Begin a run that fails at a stage; return its name."""

    def begin(source, target, stage=None, **changes):
        def fails(*args, **kwargs):
            raise StorageError("the store went away")

        before = set(os.listdir(target / "runs")) if target.exists() else set()
        with monkeypatch.context() as patch:
            if stage is None:
                patch.setattr(stages, "run_fit", fails)
            else:
                patch.setattr(stage, "function", update_wrapper(fails, stage.function))
            with pytest.raises(RunError, match=r"the store went away.*--resume"):
                go(source, target, **changes)
        (run_id,) = set(os.listdir(target / "runs")) - before
        return run_id

    return begin


@pytest.mark.thorough
@pytest.mark.parametrize("since", [None, pytest.param("latest", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(pipelines.SETTINGS))
def test_a_run_that_stopped_after_its_partitions_were_made_is_resumed(
    stopped, tmp_path, name, since
):
    """No stage removes what the kept result of one before it stands for."""
    url = pipelines.simulate(name, str(tmp_path / "in"), 60)
    options = {"name": name, "partitions": 2, **pipelines.SETTINGS[name], "since": since}
    whole = pipelines.published(go(url, tmp_path / "whole", **options))
    run_id = stopped(url, tmp_path / "out", **options)
    outcome = go(url, tmp_path / "out", run_id, **options)
    assert outcome["run_id"] == run_id
    assert pipelines.published(outcome) == whole


def test_a_resumed_run_is_of_the_files_settings_and_pipeline_that_it_began_with(
    source, stopped, tmp_path
):
    target, options = tmp_path / "out", {"unit": "word", "partitions": 6}
    run_id = stopped(source, target, stages.publish, **options)

    def refused(said, given=source, **changes):
        with pytest.raises(InputError, match=said):
            go(given, target, run_id, **{**options, **changes})

    refused(r"expected the run's file .*a\.parquet", f"{source}/[!a]*.parquet")
    more = Path(shutil.copy(source / "a.parquet", source / "zz.parquet"))
    refused(r"zz\.parquet as well")
    more.unlink()
    refused('setting model: expected the run\'s "corpus", found "vbss"', model="vbss")
    refused("setting partitions: expected the run's 6, found 2", partitions=2)
    pipeline_named("features").simulate(str(tmp_path / "table"), 60, 1)
    with pytest.raises(InputError, match="expected the run's pipeline keywords, found features"):
        go(tmp_path / "table", target, run_id, name="features")
    pq.write_table(pq.read_table(source / "b.parquet").slice(0, 15), source / "b.parquet")
    refused(r"b\.parquet as it was when the run began, found another")


class Seen:
    """Keeps the numbers of the sweeps."""

    def __init__(self):
        self.sweeps = []

    def on_event(self, event):
        if isinstance(event, Sweep):
            self.sweeps.append(event.iteration)


@pytest.mark.thorough
def test_a_resumed_run_may_have_more_sweeps(source, stopped, tmp_path):
    """Also where it has a checkpoint, which compares the settings as well."""
    words = {"unit": "word"}  # phrases pass stages in silence, whatever max_iter says
    few, more = {"checkpoint_every": 1, "max_iter": 3}, {"checkpoint_every": 2, "max_iter": 5}
    run_id = stopped(source, tmp_path / "out", stages.score, **few, **words)
    assert list((tmp_path / "out" / "runs" / run_id / "work" / "checkpoints").iterdir())
    seen = Seen()
    with listening(seen):
        outcome = go(source, tmp_path / "out", run_id, **more, **words)
    assert (outcome["iterations"], outcome["converged"]) == (5, False)
    assert seen.sweeps == [3, 4]
    assert outcome["elbo"] == go(source, tmp_path / "whole", **more, **words)["elbo"]


def test_nothing_of_an_earlier_attempt_stays_among_the_results(source, stopped, tmp_path):
    run_id = stopped(source, tmp_path / "out", stages.publish, unit="word", partitions=2)
    root = tmp_path / "out" / "runs" / run_id
    stale = root / "keywords" / "part-00005.parquet"
    stale.parent.mkdir(exist_ok=True)
    stale.write_bytes(b"of another attempt")
    go(source, tmp_path / "out", run_id, unit="word", partitions=2)
    assert sorted(path.name for path in (root / "keywords").iterdir()) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]


@pytest.mark.thorough
def test_a_resumed_run_goes_on_from_the_run_it_began_with(source, stopped, tmp_path):
    """Also where a later run has read all that it reads, so that a new one would do nothing."""
    os.rename(source / "c.parquet", tmp_path / "c.parquet")
    first = go(source, tmp_path / "out", since="latest")
    os.rename(tmp_path / "c.parquet", source / "c.parquet")
    run_id = stopped(source, tmp_path / "out", since="latest")
    second = go(source, tmp_path / "out", since="latest")
    with pytest.raises(InputError) as caught:
        go(source, tmp_path / "out", run_id, since=second["run_id"])
    assert f"expected a run since {first['run_id']}, as it began" in str(caught.value)
    with pytest.raises(InputError, match="found without since"):
        go(source, tmp_path / "out", run_id)
    assert go(source, tmp_path / "out", since="latest")["run_id"] == second["run_id"]
    assert go(source, tmp_path / "out", run_id, since="latest")["run_id"] == run_id
    record = json.loads((tmp_path / "out" / "runs" / run_id / "run.json").read_text())
    assert record["since"] == first["run_id"]


def test_a_process_that_meets_rows_again_reads_them_anew(tmp_path):
    url = str(tmp_path / "part.npz")
    for label in (1.0, -1.0):
        rows = Rows.of(np.ones((3, 2)), np.full(3, label), np.arange(3))
        storage.write_bytes(url, to_bytes(rows))
        assert design._batch_of(url, storage.fingerprint_of(url)).t.tolist() == [label] * 3


@pytest.mark.thorough
@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_stops_before_it_is_the_latest_is_published_on_resume(
    source, tmp_path, monkeypatch, after
):
    target = tmp_path / "out"
    first = go(source, target)
    before = (target / "latest.json").read_text()
    original = storage.write_bytes

    def write(url, *args, **kwargs):
        if url.endswith("/latest.json"):
            raise KeyboardInterrupt
        original(url, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_bytes", write)
        with pytest.raises(Interrupted, match=r"interrupted; nothing was published; .*--resume"):
            go(source, target)
    assert (target / "latest.json").read_text() == before
    (run_id,) = set(os.listdir(target / "runs")) - {first["run_id"]}
    if after:  # the input is of no more use
        (source / "a.parquet").unlink()
    outcome = go(source, target, run_id)
    record = json.loads((target / "runs" / run_id / "run.json").read_text())
    assert outcome["elbo"] == record["elbo"]
    assert outcome["headline"].endswith("it is published now.")
    assert json.loads((target / "latest.json").read_text())["run_id"] == run_id
    assert not (target / "runs" / run_id / "work").exists()
    with pytest.raises(InputError, match="which is published"):
        go(source, target, run_id)


@pytest.mark.thorough
def test_working_files_that_were_left_do_not_bring_an_old_run_back(source, tmp_path):
    """The very last call of a published run may fail: its folder of work then stays."""
    target = tmp_path / "out"
    first = go(source, target)["run_id"]
    time.sleep(1.1)  # ids hold seconds
    second = go(source, target)["run_id"]
    (target / "runs" / first / "work").mkdir()
    said = go(source, target, first)["headline"]
    assert f"run {second}, which is later, stays latest" in said
    assert json.loads((target / "latest.json").read_text())["run_id"] == second
    assert not (target / "runs" / first / "work").exists()
    # Without a later one it is named again.
    (target / "runs" / second / "work").mkdir()
    assert "it is published now" in go(source, target, second)["headline"]


def taken(place):
    """Take a run over; again where its heartbeat had read its own lock just before."""
    theirs = {"token": "theirs", "host": "B", "machine": "B", "pid": 1, "started": 0, "beats": 3}
    url = storage.join(place.work, "lock.json")
    for _ in range(20):
        storage.write_bytes(url, json.dumps(theirs).encode())
        time.sleep(0.1)
        if json.loads(storage.read_bytes(url))["token"] == "theirs":
            return
    raise AssertionError


@pytest.mark.parametrize("beat", [0.05, 60.0])
def test_a_driver_that_was_taken_over_publishes_nothing(source, tmp_path, monkeypatch, beat):
    """Whether its heartbeat has noticed or it goes on before the next one."""
    monkeypatch.setattr(lock, "BEAT", beat)
    original = stages.publish_run

    def publish(run):
        taken(run.paths)
        time.sleep(0.3)
        return original(run)

    monkeypatch.setattr(stages, "publish_run", publish)
    with pytest.raises(RunBusy, match="was taken over by process 1 on B"):
        go(source, tmp_path / "out", unit="word")
    assert not (tmp_path / "out" / "latest.json").exists()
    (run_id,) = os.listdir(tmp_path / "out" / "runs")
    assert not (tmp_path / "out" / "runs" / run_id / "run.json").exists()


def test_a_run_that_another_driver_published_is_left_alone(source, tmp_path, monkeypatch):
    """Its lock is gone with the working files."""
    original = stages.publish_run

    def publish(run):
        storage.write_bytes(run.paths.file("run.json"), b"theirs")
        storage.delete(run.paths.work + "/lock.json")
        return original(run)

    monkeypatch.setattr(stages, "publish_run", publish)
    with pytest.raises(RunBusy, match="was published by another process"):
        go(source, tmp_path / "out")
    assert not (tmp_path / "out" / "latest.json").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("stage", [stages.score, stages.publish])
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KeyboardInterrupt(), r"^interrupted; nothing was published; run it again$"),
        (StorageError("the store went away"), "the store went away"),
    ],
)
def test_scores_that_are_stopped_leave_nothing(
    source, tmp_path, monkeypatch, stage, error, sentence
):
    go(source, tmp_path / "fit")
    places = str(tmp_path / "fit"), str(source), str(tmp_path / "out")
    score = partial(launch_score, *places, ComputeSettings())
    first = score()

    def fails(*args):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(stage, "function", update_wrapper(fails, stage.function))
        with pytest.raises((RunError, Interrupted), match=sentence):
            score()
    assert os.listdir(tmp_path / "out" / "runs") == [first["run_id"]]
    assert json.loads((tmp_path / "out" / "latest.json").read_text())["run_id"] == first["run_id"]


def test_a_run_that_is_refused_leaves_nothing(source, stopped, tmp_path, monkeypatch):
    """Unless it had begun before: then it can be resumed again."""
    run_id = stopped(source, tmp_path / "out")

    def refuses(*args):
        raise InputError([Fault("settings", "something else", "this")])

    monkeypatch.setattr(Keywords, "prepare", refuses)
    with pytest.raises(InputError):
        go(source, tmp_path / "out")
    assert os.listdir(tmp_path / "out" / "runs") == [run_id]
    with pytest.raises(InputError):
        go(source, tmp_path / "out", run_id)
    assert (tmp_path / "out" / "runs" / run_id / "work").exists()


class Said:
    """Keeps the lines."""

    def __init__(self):
        self.lines = []

    def on_event(self, event):
        if isinstance(event, Message):
            self.lines.append(event.text)


def test_auto_goes_on_with_an_unfinished_run_of_the_same_request(source, stopped, tmp_path):
    """The newest of them; of another request or without one it begins a run, and says so."""
    target, said = tmp_path / "out", Said()
    other = stopped(source, target, min_count=2)
    run_id = stopped(source, target)
    with listening(said):
        assert go(source, target, "auto")["run_id"] == run_id
        assert f"going on with run {run_id}, which was stopped" in said.lines
        fresh = go(source, target, "auto")["run_id"]
        assert fresh not in (run_id, other)
        assert "no unfinished run of this request: a new one begins" in said.lines
        assert go(source, target, "auto", min_count=2)["run_id"] == other
    changed = stopped(source, target)
    pq.write_table(pq.read_table(source / "a.parquet").slice(1), source / "a.parquet")
    assert go(source, target, "auto")["run_id"] != changed


@pytest.mark.thorough
def test_auto_goes_on_since_the_run_that_was_the_latest(source, stopped, tmp_path):
    target = tmp_path / "out"
    first = go(source, target)["run_id"]
    run_id = stopped(source, target, since="latest")
    outcome = go(source, target, "auto", since="latest")
    assert outcome["run_id"] == run_id
    record = json.loads((target / "runs" / run_id / "run.json").read_text())
    assert record["since"] == first
    assert go(source, target, "auto")["run_id"] != run_id


def test_latest_is_what_runs_lists_as_unfinished(source, stopped, tmp_path):
    target = tmp_path / "out"
    stopped(source, target)
    time.sleep(1.1)  # ids hold seconds
    run_id = stopped(source, target)
    unfinished = [run.run_id for run in runs_of(str(target)) if run.state == "unfinished"]
    assert unfinished[0] == run_id
    assert go(source, target, "latest")["run_id"] == run_id


@pytest.mark.parametrize("since", [None, "latest"])
def test_a_stage_that_is_tried_again_goes_on_where_it_failed(source, tmp_path, monkeypatch, since):
    """As a Prefect task is: one cluster is started, and what is complete is only published."""
    settings = pipeline_named("keywords").settings(unit="word", keyword_rate=0.2, max_iter=20)
    starts, ends, names = [], [], []
    computing, mark_latest = stages.computing, publishing.mark_latest

    @contextmanager
    def sometimes(*args):
        starts.append(args)
        try:
            with computing(*args) as made:
                yield made
        finally:
            ends.append(args)

    def claims(*args, **more):
        if len(starts) == 1:
            raise ConnectionError("no answer")
        return lock.claim(*args, **more)

    def names_at_last(*args):
        names.append(args)
        if len(names) == 1:
            raise ConnectionError("no answer")
        mark_latest(*args)

    monkeypatch.setattr(stages, "computing", sometimes)
    monkeypatch.setattr(stages, "claim", claims)
    monkeypatch.setattr(publishing, "mark_latest", names_at_last)
    target = str(tmp_path / "out")
    with begin("keywords", str(source), target, settings, since=since) as run:
        stages.check(run)
        with pytest.raises(ConnectionError):
            stages.ingest(run)
        assert (run.lock, len(ends)) == (None, 1)  # nothing of the first is left open
        for stage in (stages.ingest, stages.prepare, stages.fit, stages.score):
            stage(run)
        with pytest.raises(ConnectionError):
            stages.publish(run)
        outcome = stages.publish(run)
    assert len(starts) == 2
    assert outcome["headline"].endswith("it is published now.")
    latest = json.loads((tmp_path / "out" / "latest.json").read_text())
    assert latest["run_id"] == outcome["run_id"] == run.paths.run_id
    assert not (tmp_path / "out" / "runs" / run.paths.run_id / "work").exists()


def test_a_run_that_another_thread_has_is_not_gone_on_with(source, tmp_path, stopped):
    """Two threads of one process would write one run."""
    target = tmp_path / "out"
    run_id = stopped(source, target)
    work = str(target / "runs" / run_id / "work")
    for store, resume in ((str(target), "auto"), (work, run_id), (work, "auto")):
        with lock.claim(store, run_id), pytest.raises(RunBusy, match=f"{run_id} is still going"):
            go(source, target, resume)
    assert go(source, target, "auto")["run_id"] == run_id
