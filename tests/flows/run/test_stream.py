"""Runs that learn from new files alone: what they read, keep and say, and what they refuse."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from vbflows_mixture.family import FAMILY, MixtureFamily
from vbflows_mixture.model import Global
from vbflows_mixture.settings import MixtureSettings

from flows.data.states import read_state
from flows.experts.family import FAMILY as EXPERTS
from flows.faults import InputError
from flows.run.events import Events, Listener
from flows.run.pipeline import run_pipeline
from flows.settings import ComputeSettings
from tests.faults.pipelines import published
from tests.faults.seam import Killed, Seam
from vbmodels.core.protocol import Memoisable

ROWS = 120


@pytest.fixture
def nights(tmp_path):
    """Five files of rows of one mixture, and an empty folder for those that have come."""
    url, _ = FAMILY.simulate(str(tmp_path / "drawn"), 5 * ROWS, 3)
    table = pq.read_table(url)
    (tmp_path / "in").mkdir()
    for i in range(5):
        pq.write_table(table.slice(i * ROWS, ROWS), tmp_path / f"night-{i}.parquet")
    return tmp_path


def come(nights, i, shift=0.0):
    """Put a night's file where the run looks."""
    table = pq.read_table(nights / f"night-{i}.parquet")
    if shift:
        x = [[value + shift for value in row] for row in table["features"].to_pylist()]
        table = table.set_column(1, "features", pa.array(x, pa.list_(pa.float64())))
    pq.write_table(table, nights / "in" / f"night-{i}.parquet")


def run(nights, target="out", resume=None, since="latest", workers=None, events=None, **changes):
    changes = {"components": 4, "forgetting_factor": 1.0, "partitions": 3, **changes}
    compute = ComputeSettings(workers=workers)
    return run_pipeline(
        FAMILY, events or Events(), str(nights / "in"), str(nights / target),
        MixtureSettings(**changes), compute, resume, since,
    )  # fmt: skip


def root(outcome):
    return Path(outcome["target"]) / "runs" / outcome["run_id"]


def posterior(outcome):
    return read_state(str(root(outcome) / "posterior" / "q.npz"), Global)


def left(outcome):
    """Return all that a run left to the next one, but the names of runs."""
    folder = root(outcome) / "kept"
    learnt = json.loads((folder / "stream.json").read_text())
    nights = [{**night, "run_id": ""} for night in learnt["nights"]]
    states = [(folder / name).read_bytes() for name in ("stream.npz", "reference.npz")]
    return learnt["rows"], learnt["since"], learnt["renew"], nights, states


def test_a_night_reads_new_files_alone_and_learns_what_all_rows_tell(nights):
    for i in range(5):
        come(nights, i)
        found = run(nights)
        assert found["rows_read"] == ROWS
        (nights / "in" / f"night-{i}.parquet").unlink()  # nothing needs it any more
        for old in (nights / "out" / "runs").iterdir():
            if old != root(found):
                shutil.rmtree(old)
    assert posterior(found).conc.sum() == pytest.approx(5 * ROWS + 4)
    for i in range(5):
        come(nights, i)
    whole = run(nights, "whole", since=None, forgetting_factor=None)
    stream, all_ = (np.sort(posterior(o).conc / (5 * ROWS + 4)) for o in (found, whole))
    np.testing.assert_allclose(stream, all_, atol=0.02)


def test_old_rows_are_forgotten_by_the_factor(nights):
    for i in range(3):
        come(nights, i)
        found = run(nights, forgetting_factor=0.5)
    assert posterior(found).conc.sum() == pytest.approx(ROWS * (1 + 0.5 + 0.25) + 4)
    assert left(found)[0] == pytest.approx(ROWS * 1.75)
    page = (root(found) / "report.html").read_text()
    assert "stands for 90 rows beside" in page.replace("What earlier rows told ", "")


def test_workers_give_the_same_bits(nights):
    for i in range(2):
        come(nights, i)
        run(nights)
    come(nights, 2)
    shutil.copytree(nights / "out", nights / "there")
    here, there = run(nights), run(nights, "there", workers=2)
    assert published(here) == published(there)
    assert left(here) == left(there)


def test_a_night_that_is_stopped_and_resumed_ends_with_the_same_bits(nights, monkeypatch):
    for i in range(2):
        come(nights, i)
        run(nights)
    come(nights, 2)
    shutil.copytree(nights / "out", nights / "before")
    whole = run(nights)
    with monkeypatch.context() as patch:
        seam = Seam().enter(patch)
        shutil.copytree(nights / "before", nights / "counted")
        run(nights, "counted")
    begun = 1 + next(n for n, (_, path) in enumerate(seam.changes) if path.endswith("asked.json"))
    for number in random.Random(0).sample(range(begun + 1, len(seam.changes)), 6):
        target = f"stopped-{number}"
        shutil.copytree(nights / "before", nights / target)
        known = {path.name for path in (nights / target / "runs").iterdir()}
        with monkeypatch.context() as patch:
            Seam(stop_at=number).enter(patch)
            with pytest.raises(Killed):
                run(nights, target)
        (begun_run,) = {path.name for path in (nights / target / "runs").iterdir()} - known
        again = run(nights, target, resume=begun_run)
        assert published(again) == published(whole)
        assert left(again) == left(whole)


def test_where_nothing_is_new_the_latest_run_stays(nights):
    come(nights, 0)
    first = run(nights)
    again = run(nights)
    assert again["run_id"] == first["run_id"]
    assert again["lines"][0].startswith(f"There is nothing new since run {first['run_id']}")
    assert len(list((nights / "out" / "runs").iterdir())) == 1


def test_who_hears_of_a_run_hears_its_end_where_nothing_is_new(nights):
    class Hears(Listener):
        def hear(self, event):
            heard.append(type(event).__name__)

    come(nights, 0)
    run(nights)
    heard = []
    run(nights, events=Events(Hears()))
    assert heard == ["Asked", "Stage", "Needless"]


def test_an_older_run_after_which_nothing_is_new_is_not_called_the_latest(nights):
    come(nights, 0)
    first = run(nights)
    come(nights, 1)
    run(nights)
    (nights / "in" / "night-1.parquet").unlink()
    again = run(nights, since=first["run_id"])
    assert again["lines"][0] == f"There is nothing new since run {first['run_id']}."


def test_an_empty_folder_has_nothing_new(nights):
    with pytest.raises(InputError, match="no input found"):
        run(nights)
    come(nights, 0)
    first = run(nights)
    (nights / "in" / "night-0.parquet").unlink()
    assert run(nights)["run_id"] == first["run_id"]
    (nights / "in").rmdir()
    with pytest.raises(InputError, match="there is no such file or folder"):
        run(nights)


@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_another_has_overtaken_makes_the_stream_forget_nothing(
    nights, monkeypatch, first
):
    if not first:
        come(nights, 0)
        run(nights)
    come(nights, 1)
    known = {path.name for path in (nights / "out").glob("runs/*")}
    with monkeypatch.context() as patch:
        patch.setattr("flows.run.outcome.complete", _stop)
        with pytest.raises(KeyboardInterrupt):
            run(nights)
    (stopped,) = {path.name for path in (nights / "out" / "runs").iterdir()} - known
    come(nights, 2)
    second = run(nights)
    (nights / "in" / "night-2.parquet").unlink()  # it was learnt from
    with pytest.raises(InputError, match=f"found run {second['run_id']}, which has learnt since"):
        run(nights, resume=stopped)
    assert run(nights)["run_id"] == second["run_id"]


def _stop(*args):
    raise KeyboardInterrupt


def test_of_two_runs_at_once_the_second_to_end_is_refused(nights, monkeypatch):
    from flows.run import outcome

    come(nights, 0)
    run(nights)
    come(nights, 1)
    real, others = outcome.write_posterior, []

    def meanwhile(*args):
        if not others:
            others.append(None)
            others.append(run(nights))
        real(*args)

    monkeypatch.setattr(outcome, "write_posterior", meanwhile)
    with pytest.raises(InputError, match="which has learnt since; run the command anew"):
        run(nights)
    assert run(nights)["run_id"] == others[1]["run_id"]
    assert len(list((nights / "out" / "runs").iterdir())) == 2


def test_rows_that_are_unlike_raise_the_alarm_once_and_are_what_is_usual_then(nights):
    alarms, told = [], []
    for i, shift in enumerate((0.0, 0.0, 0.0, 2.0, 2.0)):
        come(nights, i, shift)
        found = run(nights, forgetting_factor=0.9)
        alarms.append([w for w in found["warnings"] if "unlike those before" in w])
        told.append(found["results"])
    assert [len(one) for one in alarms] == [0, 0, 0, 1, 0]
    assert "less probable than expected" in alarms[3][0]
    assert "new_rows_log_density" not in told[0]
    assert "drift_p" not in told[1]  # there is one night that the reference has not learnt from
    assert told[2]["drift_p"] > 0.005 > told[3]["drift_p"]
    assert "What is new" in (root(found) / "report.html").read_text()


def test_a_night_is_brought_to_the_scale_of_the_first(nights):
    come(nights, 0)
    first = run(nights)
    come(nights, 1, shift=3.0)
    second = run(nights)
    scales = [(root(o) / "posterior" / "scale.npz").read_bytes() for o in (first, second)]
    assert scales[0] == scales[1]
    written = pq.read_table(root(second) / "groups")
    assert written["id"].to_pylist() == pq.read_table(nights / "night-1.parquet")["id"].to_pylist()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"since": None}, "column forgetting_factor: expected a run with --since latest"),
        (
            {"components": 5},
            r"the settings of run \S+, to go on from it, found others \(components",
        ),
        ({"since": ""}, "since: expected latest, or the id of a run that finished, found nothing"),
        ({"since": "", "forgetting_factor": None}, "since: expected latest, or the id of a run"),
        ({"since": "nobody"}, "since: expected latest, or the id of a run that finished"),
    ],
)
def test_what_cannot_go_on_is_refused_and_leaves_nothing(nights, changes, sentence):
    come(nights, 0)
    run(nights)
    come(nights, 1)
    with pytest.raises(InputError, match=sentence):
        run(nights, **changes)
    assert len(list((nights / "out" / "runs").iterdir())) == 1


def test_a_file_that_has_changed_is_refused(nights):
    come(nights, 0)
    run(nights)
    come(nights, 0, shift=1.0)
    with pytest.raises(InputError, match="found another version of it, whose rows might count"):
        run(nights)


def test_a_run_that_kept_nothing_and_one_that_is_damaged_are_refused(nights):
    come(nights, 0)
    run(nights, forgetting_factor=None)
    with pytest.raises(InputError, match="which kept nothing; name one, or begin a new stream"):
        run(nights)
    first = run(nights, "other")
    (root(first) / "kept" / "stream.npz").write_bytes(b"nothing")
    come(nights, 1)
    with pytest.raises(InputError, match="kept, whole, found"):
        run(nights, "other")


@pytest.mark.parametrize("inference", ["additive", "cavi"])
def test_what_cannot_learn_so_is_refused_before_any_compute(tmp_path, inference):
    url = EXPERTS.simulate(str(tmp_path / "in"), 50, 1)[0]
    settings = EXPERTS.settings(forgetting_factor=1.0, inference=inference)
    with pytest.raises(InputError, match="a model that can learn from new rows alone"):
        run_pipeline(
            EXPERTS, Events(), url, str(tmp_path / "out"), settings, ComputeSettings(), None,
            "latest",
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_another_loop_is_refused():
    with pytest.raises(ValueError, match="climbs by loop=memoised; leave loop out"):
        MixtureSettings(forgetting_factor=0.9, loop="squarem")
    assert isinstance(MixtureFamily().model(MixtureSettings()), Memoisable)
