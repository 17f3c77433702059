"""Runs recorded by real Prefect servers, read back through their API."""

import os
import re
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from prefect import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterName,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.context import FlowRunContext
from prefect.deployments.runner import RunnerDeployment
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import pipelines, stages
from flows.cli import main
from flows.events import Message, Progress, Published, Stage, Sweep, listening
from flows.faults import Fault, InputError, Interrupted
from flows.fit.holder import PartitionMemoryError
from flows.fit.job import ClusterError, ClusterLost
from flows.keywords.family import Keywords
from flows.keywords.settings import KeywordSettings
from flows.prefect import flow_run_id, page
from flows.prefect.flow import PipelineFlow, flow, is_transient
from flows.records.lock import RunBusy
from flows.records.runs import RunRecord
from flows.storage import TransientStorageError
from tests import servers
from tests.faults import pipelines as small

JOB = Path(__file__).with_name("recorded_job.py")
SUMMARY = "## Done"
RECORD = RunRecord(
    run_id="page", pipeline="keywords", source="in", settings={}, changed={"column": "a|b"},
    versions={},
    started=datetime(2026, 1, 2), finished=datetime(2026, 1, 2), seconds=1.0,
    peak_memory_bytes=1, inputs=[], rows_read=2, rows_kept=1, dropped=[], partitions=1,
    iterations=2, converged=True, elbo=1.0, warnings=["it was *late*", "b", "c", "d"],
)  # fmt: skip


def eventually(read, wanted, seconds=20.0):
    """Read until it is as wanted: the server writes task runs a moment after they end."""
    deadline = time.monotonic() + seconds
    while (found := read()) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found == wanted


def flow_run(name):
    with get_client(sync_client=True) as client:
        chosen = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
        (found,) = client.read_flow_runs(flow_run_filter=chosen)
        return found


def runs_named(part):
    with get_client(sync_client=True) as client:
        chosen = FlowRunFilter(name=FlowRunFilterName(like_=part))
        return client.read_flow_runs(flow_run_filter=chosen)


def artifacts_of(name):
    with get_client(sync_client=True) as client:
        chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run(name).id]))
        return {a.key: a for a in client.read_artifacts(artifact_filter=chosen)}


def task_states(name):
    with get_client(sync_client=True) as client:
        chosen = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
        found = client.read_task_runs(flow_run_filter=chosen)
        return sorted((task.name, task.state_name) for task in found)


def job(what, folder, home, url=None, **more):
    return subprocess.Popen(
        [sys.executable, str(JOB), what, str(folder)],
        env={**servers.environment(home, url), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, process, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def logs_of(name):
    with get_client(sync_client=True) as client:
        chosen = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run(name).id]))
        return [line.message for line in client.read_logs(chosen)]


def named(pipeline, name):
    """Return a pipeline's flow whose runs have a name that its user chose."""
    return pipeline.with_options(flow_run_name=name)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return small.simulate("keywords", str(tmp_path_factory.mktemp("simulated")))


@pytest.mark.thorough
def test_a_run_is_on_its_page(prefect_server, source, tmp_path):
    """Its stages are tasks; its log says what a person wants to know; the user's name is kept."""
    settings = {"unit": "word", "keyword_rate": 0.2, "partitions": 2, "max_iter": 60}
    target = str(tmp_path / "out")
    outcome = named(pipelines.keywords, "tuesday")(source, target, settings=settings)
    servers.drain()
    found = flow_run("tuesday")
    assert found.state_name == "Completed"
    assert found.state.message == outcome["headline"]
    assert found.parameters["settings"]["partitions"] == 2
    order = ["check", "ingest", "prepare", "fit", "score", "publish"]
    eventually(lambda: task_states("tuesday"), sorted((name, "Completed") for name in order))
    log = "\n".join(logs_of("tuesday"))
    for said in (f"run {outcome['run_id']}", "read 40 rows in 1 file", "sweep ", " rows",
                 outcome["headline"], "no unfinished run of this request"):  # fmt: skip
        assert said in log, said
    assert [line for line in log.split("\n") if line in order] == order
    assert "Finished in state Completed()" not in log
    artifacts = artifacts_of("tuesday")
    assert {key: artifact.type for key, artifact in artifacts.items()} == {
        "progress": "progress",
        "summary": "markdown",
    }
    assert all(artifact.description for artifact in artifacts.values())
    assert artifacts["progress"].data == 100
    summary = artifacts["summary"].data
    assert outcome["report"] in summary
    named_settings = set(re.findall(r"\| setting (\w+) \|", summary.replace("\\", "")))
    assert named_settings == set(settings)


@pytest.mark.thorough
def test_what_data_hold_cannot_write_on_the_page(prefect_server):
    @flow
    def shows():
        (recorder,) = page(None)
        recorder.on_event(Message("a line <script>"))
        recorder.on_event(Published(RECORD, "s3://bucket/a b/report.html", SUMMARY))
        return {"headline": "Done"}

    named(shows, "page")()
    artifacts = artifacts_of("page")
    summary = artifacts["summary"].data
    assert summary.startswith(SUMMARY)
    assert set(artifacts) == {"summary", "progress"}
    assert "\nThe report is `s3://bucket/a b/report.html`. " in summary


@pytest.mark.thorough
def test_progress_goes_by_the_sweeps_to_come_and_not_back(prefect_server):
    seen = []

    @flow
    def climbs():
        (recorder,) = page(None)
        for event in (
            Stage("fit"), Sweep(0, -9.0, None, None, 500), Sweep(9, -8.0, 1.0, 10.0, 500),
            Sweep(10, -7.0, 1.0, 89.0, 500), Sweep(11, -6.0, 1.0, 0.0, 500), Stage("score"),
            Progress("score", 2, 2), Stage("publish"), Progress("publish", 2, 2),
        ):  # fmt: skip
            time.sleep(1.1)  # the page is told once a second
            recorder.on_event(event)
            if not isinstance(event, Stage):
                seen.append(artifacts_of("climbs")["progress"].data)
        recorder.on_event(Published(RECORD, "report.html", SUMMARY))
        seen.append(artifacts_of("climbs")["progress"].data)
        return {"headline": "Done"}

    named(climbs, "climbs")()
    assert seen == pytest.approx([50.0, 175 / 3, 175 / 3, 200 / 3, 250 / 3, 99.0, 100.0])


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["setting", "environment", "nowhere"])
def test_the_report_is_linked_by_an_address_that_a_browser_reaches(by, prefect_server, monkeypatch):
    base = "https://reports.example/a b/"
    if by == "environment":
        monkeypatch.setenv("VBFLOWS_REPORTS", base)

    @flow
    def shows():
        (recorder,) = page("https://reports.example/a%20b" if by == "setting" else None)
        recorder.on_event(Published(RECORD, "/data/out/runs/r/report.html", SUMMARY))
        return {"headline": "Done"}

    named(shows, f"linked-{by}")()
    *_, report = artifacts_of(f"linked-{by}")["summary"].data.split("\n")
    assert "file:" not in report
    if by == "nowhere":
        assert "`/data/out/runs/r/report.html` on " in report
        assert "VBFLOWS_REPORTS" in report
    else:
        link = f"https://reports.example/a%20b/runs/{RECORD.run_id}/report.html"
        assert report == f"[The report]({link})"


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (TransientStorageError("no answer"), True),
        (ClusterLost("no worker for 120 s"), True),
        (ClusterError("a worker has vbflows of another source"), False),
        (PartitionMemoryError("a partition does not fit"), False),
        (InputError([Fault("a.csv", "a name", "null")]), False),
    ],
)
def test_what_may_succeed_a_little_later_is_tried_again(error, again):
    assert is_transient(error) == again


@pytest.mark.thorough
def test_a_stage_is_tried_again_where_storage_did_not_answer(
    prefect_server, source, tmp_path, monkeypatch
):
    """And with the options that a user gives it; other failures arrive unchanged and at once."""
    original, calls = stages.run_fit, []

    def sometimes(*args, **kwargs):
        calls.append(kwargs["resume"])
        if len(calls) == 1:
            raise ConnectionError("no answer")
        return original(*args, **kwargs)

    monkeypatch.setattr(stages, "run_fit", sometimes)
    monkeypatch.setattr(stages, "fit", stages.fit.with_options(retry_delay_seconds=0, tags=["own"]))
    settings = KeywordSettings(unit="word", keyword_rate=0.2, max_iter=20)
    named(pipelines.keywords, "again")(source, str(tmp_path / "out"), settings)
    assert calls == [False, True]

    def prepare(*args):
        raise InputError([Fault("a.parquet", "a name", "null", "doc_id", 3)])

    monkeypatch.setattr(Keywords, "prepare", prepare)
    with pytest.raises(InputError) as raised:
        named(pipelines.keywords, "wrong")(source, str(tmp_path / "other"), settings)
    assert raised.value.faults[0].row == 3
    servers.drain()
    assert flow_run("wrong").state_name == "Failed"
    states = dict(task_states("wrong"))
    assert (states["ingest"], states["prepare"]) == ("Completed", "Failed")
    assert "Traceback" not in "\n".join(logs_of("wrong"))


@pytest.mark.thorough
def test_cancel_on_the_page_stops_a_run_by_hand(prefect_server, source, tmp_path):
    from prefect.states import Cancelling

    class Cancels:
        def on_event(self, event):
            if isinstance(event, Sweep):
                run_id = FlowRunContext.get().flow_run.id
                with get_client(sync_client=True) as client:
                    client.set_flow_run_state(run_id, Cancelling())
                time.sleep(1.1)

    pipeline = named(pipelines.keywords, "cancelled-by-hand")
    with listening(Cancels()), pytest.raises(Interrupted, match="cancelled on Prefect's page; "):
        pipeline(source, str(tmp_path / "out"))
    eventually(lambda: flow_run("cancelled-by-hand").state_name, "Cancelled")


@pytest.mark.thorough
def test_settings_are_refused_as_the_command_does(prefect_server, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["keywords", str(tmp_path), str(tmp_path / "out"), "--set", "keyphrase=3"])
    said = " ".join(capsys.readouterr().err.replace("vbflows: ", "").split())
    before = {run.id for run in runs_named("")}
    with pytest.raises(InputError) as error:
        pipelines.keywords(str(tmp_path), str(tmp_path / "out"), settings={"keyphrase": 3})
    assert str(error.value) == said
    (refused,) = [run for run in runs_named("") if run.id not in before]
    assert refused.state_name == "Failed"
    assert refused.state.message.endswith(said)
    unset = temporary_settings(restore_defaults={PREFECT_API_URL})
    with unset, pytest.raises(InputError, match=re.escape(said)):
        pipelines.keywords(str(tmp_path), str(tmp_path / "out"), settings={"keyphrase": 3})


@pytest.mark.thorough
def test_the_name_that_a_user_gave_to_a_run_of_a_deployment_stays(
    prefect_server, tmp_path, monkeypatch
):
    """Prefect itself would rename it by the flow's ``flow_run_name``."""
    monkeypatch.chdir(tmp_path)  # which Prefect copies
    deployment = RunnerDeployment.from_entrypoint(
        "flows.pipelines.keywords", name="of-names",
        parameters={"source": str(tmp_path / "none"), "target": str(tmp_path / "out")},
    )  # fmt: skip
    with get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(deployment.apply(), name="the one of ours")
    command = [sys.executable, "-m", "prefect", "flow-run", "execute", str(run.id)]
    env = servers.environment(tmp_path, prefect_server)
    subprocess.run(command, env=env, capture_output=True, check=False, timeout=120)
    with get_client(sync_client=True) as client:
        ended = client.read_flow_run(run.id)
    assert (ended.name, ended.state_name) == ("the one of ours", "Failed")
    assert f"{tmp_path}/none: there is no such file or folder" in ended.state.message


def test_a_flow_is_a_plain_call_where_no_server_is_configured(source, tmp_path):
    """Prefect would start a server there that needs no password."""
    seen = []

    class Seen:
        def on_event(self, event):
            seen.append(bool(flow_run_id()))

    settings = {"unit": "word", "keyword_rate": 0.2, "max_iter": 20}
    unset = temporary_settings(restore_defaults={PREFECT_API_URL})
    with unset, listening(Seen()):
        outcome = pipelines.keywords(source, str(tmp_path / "out"), settings=settings)
        again = pipelines.score(outcome["target"], source, str(tmp_path / "scores"))
    assert outcome["rows_read"] == again["rows_read"] == 40
    assert not any(seen)
    assert isinstance(pipelines.keywords.with_options(retries=1), PipelineFlow)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
def test_a_stopped_run_is_recorded_as_such(number, tmp_path, prefect_home, prefect_server, source):
    (tmp_path / "in").symlink_to(Path(source).parent)
    process = job("waits", tmp_path, prefect_home, prefect_server)
    wait_for((tmp_path / "waiting").exists, process)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out
    assert "interrupted; nothing was published; repeat the command with" in " ".join(err.split())


def test_a_run_meets_a_living_one_and_goes_on_with_a_dead_one(tmp_path, prefect_server, source):
    """The next scheduled run of the same target: cancelled at once, or the same run from there."""
    (tmp_path / "in").symlink_to(Path(source).parent)
    process = job("waits", tmp_path, tmp_path / "home", prefect_server)
    wait_for((tmp_path / "waiting").exists, process)
    (run_id,) = os.listdir(tmp_path / "out" / "runs")
    settings = KeywordSettings(unit="word", keyword_rate=0.2, checkpoint_every=1)

    def again(name):
        pipeline = named(pipelines.keywords, name)
        return pipeline(f"{tmp_path}/in", f"{tmp_path}/out", settings)["run_id"]

    with pytest.raises(RunBusy, match=f"run {run_id} is still going"):
        again("meets-living")
    found = flow_run("meets-living").state
    assert (found.name, run_id in found.message) == ("Cancelled", True)
    process.kill()
    process.communicate()
    (dead,) = runs_named(f"{tmp_path.name}/in, ")
    assert dead.state_name == "Running"
    assert again("meets-dead") == run_id
    (dead,) = runs_named(dead.name)
    assert dead.state_name == "Crashed"
    assert os.listdir(tmp_path / "out" / "runs") == [run_id]
    assert sorted(os.listdir(tmp_path / "out")) == ["latest.json", "runs"]


@pytest.fixture
def started_server(prefect_home):
    """Yield the address of a server and the id of its process."""
    with servers.started(prefect_home) as (url, process):
        yield url, process.pid


@pytest.mark.slow
def test_a_server_that_dies_does_not_end_the_run(tmp_path, started_server, source):
    url, pid = started_server
    (tmp_path / "in").symlink_to(Path(source).parent)
    process = job("loses_server", tmp_path, tmp_path / "unused", url, SERVER_PID=str(pid))
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert len(os.listdir(tmp_path / "out" / "runs")) == 1
    assert "The end of this run is not recorded: " in out


@pytest.mark.slow
@pytest.mark.parametrize("lost", [signal.SIGKILL, signal.SIGSTOP])
def test_a_stopped_run_whose_server_is_gone_ends_soon(lost, tmp_path, started_server, source):
    """With how to go on; Prefect alone would wait for minutes."""
    url, pid = started_server
    (tmp_path / "in").symlink_to(Path(source).parent)
    own = {"SERVER_PID": str(pid), "SERVER_SIGNAL": str(int(lost))}
    process = job("left_alone", tmp_path, tmp_path / "unused", url, **own)
    wait_for((tmp_path / "waiting").exists, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=100)
    (run,) = (tmp_path / "out" / "runs").iterdir()
    assert process.returncode == 1, out
    assert f"--resume {run.name}" in " ".join(err.split())


def test_the_form_of_a_deployment(prefect_server):
    deployment = pipelines.keywords.to_deployment("by-form", entrypoint_type=None)
    with get_client(sync_client=True) as client:
        schema = client.read_deployment(deployment.apply()).parameter_openapi_schema
    assert schema["required"] == ["source", "target"]
    names = ["source", "target", "settings", "compute", "since", "resume"]
    assert list(schema["properties"]) == names
    assert all(schema["properties"][name]["description"] for name in names)
    settings = schema["definitions"]["KeywordSettings"]
    fields = settings["properties"]
    assert set(fields) == set(KeywordSettings.model_fields)
    assert all(field["description"] for field in fields.values())
    assert "vbss" in fields["model"]["enum"]
    assert (fields["ask"]["minimum"], fields["ask"]["maximum"]) == (0, 1000)
    order = sorted(fields, key=lambda name: fields[name]["position"])
    assert tuple(order[: len(KeywordSettings.first)]) == KeywordSettings.first
    choices = [choice["title"] for choice in fields["keyword_rate"]["anyOf"]]
    assert choices == ["number", "default"]
