"""Runs recorded by real Prefect servers, read back through their API."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path

import numpy as np
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
from prefect.settings import PREFECT_API_AUTH_STRING

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.data.runs import RunRecord
from flows.faults import Fault, InputError
from flows.fit.checkpoint import Trace
from flows.keywords.settings import KeywordSettings
from flows.run import tasks
from flows.run.events import Begun, Events, Line, Listener, PartDone, Published, Sweep
from flows.run.memo import Memo
from flows.run.prefect.flow import drain, pipeline_flow
from flows.run.prefect.record import record
from flows.settings import ComputeSettings

ROOT = Path(__file__).parents[3]
JOB = Path(__file__).with_name("recorded_job.py")
RECORD = RunRecord(
    run_id="page", pipeline="keywords", source="in", settings={"column": "a|b"}, versions={},
    started=datetime(2026, 1, 2), finished=datetime(2026, 1, 2), seconds=1.0,
    peak_memory_bytes=1, inputs=[], rows_read=2, rows_kept=1, dropped=[], partitions=1,
    iterations=2, converged=True, elbo=1.0, warnings=["it was *late*"],
)  # fmt: skip


class Heard(Listener):
    """Keeps the lines."""

    def __init__(self):
        self.lines = []

    def hear(self, event):
        if isinstance(event, Line):
            self.lines.append(event.text)


def run(body, **settings):
    """Record a body as the command line does; return what it returns and what was said."""
    heard = Heard()
    request = ("in", "out", KeywordSettings(**settings), ComputeSettings(workers=2), None)
    return record("keywords", body, *request, events=Events(heard)), heard.lines


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


def artifacts_of(name):
    with get_client(sync_client=True) as client:
        chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run(name).id]))
        return {a.key: a for a in client.read_artifacts(artifact_filter=chosen)}


def task_states(name):
    with get_client(sync_client=True) as client:
        chosen = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
        found = client.read_task_runs(flow_run_filter=chosen)
        return sorted((task.name, task.state_name) for task in found)


def environment(home, url=None):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    own = {"PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
    auth = PREFECT_API_AUTH_STRING.value() or ""
    reached = {"PREFECT_API_URL": url, "PREFECT_API_AUTH_STRING": auth} if url else {}
    return {**kept, **own, **reached}


def job(what, folder, home, url=None, **more):
    return subprocess.Popen(
        [sys.executable, str(JOB), what, str(folder)],
        env={**environment(home, url), **more},
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


def states_in(home):
    with sqlite3.connect(home / "prefect.db") as database:
        flows = database.execute("select name, state_name from flow_run").fetchall()
        tasks = database.execute("select name, state_name from task_run order by name").fetchall()
    database.close()
    return flows, tasks


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.thorough
def test_a_run_is_on_its_page(prefect_server):
    during = {}

    def body(events, source, target, settings, compute, resume, since):
        events.tell(Begun("page"))
        files = [storage.InputFile(f"s3://bucket/{name}.parquet", 1, "x") for name in "ab"]
        tasks.each(events, "ingest", lambda file: file.size, files)
        events.tell(PartDone("stage <of>", 1, 4))
        events.tell(Line("worker 3 has a line"))
        during.update(artifacts_of("page"))
        top = [{"term": "a|b [x](javascript:y)", "probability": 0.5}]
        report, trace = "s3://bucket/a b/report.html", Trace(*np.arange(6.0).reshape(3, 2))
        events.tell(Published(RECORD, "Done <script>x</script>", report, top, trace))
        return settings.fdr, compute.workers

    assert run(body, fdr=0.2) == ((0.2, 2), ["worker 3 has a line"])
    found = flow_run("page")
    assert found.state_name == "Completed"
    assert found.parameters["settings"]["fdr"] == 0.2
    assert found.parameters["source"] == "in"
    wanted = [("ingest a.parquet", "Completed"), ("ingest b.parquet", "Completed")]
    eventually(lambda: task_states("page"), wanted)
    with get_client(sync_client=True) as client:
        logs = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[found.id])))
    assert "worker 3 has a line" in [line.message for line in logs]
    (progress,) = during.values()
    assert (progress.data, progress.description) == (25, r"stage &lt;of\>: 1 of 4")
    artifacts = artifacts_of("page")
    assert {key: artifact.type for key, artifact in artifacts.items()} == {
        "progress": "progress",
        "summary": "markdown",
        "top-results": "table",
        "report": "markdown",
        "trace": "image",
    }
    assert (artifacts["progress"].data, artifacts["progress"].description) == (100, "published")
    summary = artifacts["summary"].data
    assert summary.startswith(r"## Done &lt;script\>x&lt;/script\>")
    assert r"| setting column | a\|b |" in summary
    assert r"- warning: it was \*late\*" in summary
    assert r"a\\|b \\[x\\](javascript:y)" in artifacts["top-results"].data
    assert artifacts["report"].data.startswith("The report is `s3://bucket/a b/report.html`. ")
    assert artifacts["trace"].data.startswith("data:image/png;base64,iVBORw0KGgo")


@pytest.mark.thorough
@pytest.mark.parametrize("told", ["setting", "environment", "nowhere"])
def test_the_report_is_linked_by_an_address_that_a_browser_reaches(
    told, prefect_server, monkeypatch
):
    base = "https://reports.example/a b/"
    if told == "environment":
        monkeypatch.setenv("VBFLOWS_REPORTS", base)
    compute = ComputeSettings(
        reports="https://reports.example/a%20b" if told == "setting" else None
    )

    def body(events, *_):
        events.tell(Begun(f"linked-{told}"))
        events.tell(Published(RECORD, "Done", "/data/out/runs/r/report.html"))

    pipeline_flow("keywords", KeywordSettings, body)("in", "out", compute=compute)
    report = artifacts_of(f"linked-{told}")["report"].data
    assert "file:" not in report
    if told == "nowhere":
        assert "`/data/out/runs/r/report.html` on " in report
        assert "VBFLOWS_REPORTS" in report
    else:
        link = f"https://reports.example/a%20b/runs/{RECORD.run_id}/report.html"
        assert report == f"[The report]({link})"


@pytest.mark.thorough
def test_kept_work_and_failures_show_as_such(prefect_server, tmp_path):
    def read(item: int) -> int:
        return item

    def twice(name):
        def inner(events, *_):
            events.tell(Begun(name))
            return tasks.each(events, "ingest", read, [7, 8], memo=Memo(str(tmp_path), read))

        return pipeline_flow("keywords", KeywordSettings, inner)("in", "out")

    assert twice("first") == twice("again") == [7, 8]

    def fails(item: int) -> int:
        time.sleep(0.2)
        if item == 1:
            raise ValueError("damaged")
        return item

    def many(events, *_):
        events.tell(Begun("fails"))
        return tasks.each(events, "score", fails, range(12))

    with pytest.raises(ValueError, match="damaged"):
        pipeline_flow("keywords", KeywordSettings, many)("in", "out")
    drain()
    eventually(lambda: task_states("again"), [("ingest 0", "Cached"), ("ingest 1", "Cached")])
    assert flow_run("fails").state_name == "Failed"
    eventually(lambda: len(task_states("fails")), 12)
    states = dict(task_states("fails"))
    assert (states["score 1"], states["score 11"]) == ("Failed", "Cancelled")


@pytest.mark.thorough
def test_cancel_on_the_page_stops_a_run_by_hand(prefect_server):
    from prefect.states import Cancelling

    def body(events, *_):
        events.tell(Begun("cancelled-by-hand"))
        run_id = FlowRunContext.get().flow_run.id
        events.tell(Sweep(0, 1.0, None, None, 200))
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(run_id, Cancelling())
        for sweep in range(200):
            time.sleep(0.1)
            events.tell(Sweep(sweep, 1.0, None, None, 200))
        raise AssertionError("it went on")

    with pytest.raises(KeyboardInterrupt, match="cancelled on Prefect's page"):
        run(body)
    eventually(lambda: flow_run("cancelled-by-hand").state_name, "Cancelled")


def test_wrong_input_arrives_unchanged(prefect_server):
    error = InputError([Fault("a.parquet", "a name", "null", "doc_id", 3)])

    def body(events, *_):
        events.tell(Begun("wrong"))

        def check() -> None:
            raise error

        events.task("check", check)

    with pytest.raises(InputError) as raised:
        run(body)
    assert raised.value is error
    assert flow_run("wrong").state_name == "Failed"
    eventually(lambda: task_states("wrong"), [("check", "Failed")])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
def test_a_stopped_run_is_recorded_as_such(number, tmp_path, prefect_home, prefect_server):
    by_hand = number == signal.SIGINT  # Ctrl-C reaches the server of the run as well
    process = job("waits", tmp_path, prefect_home, None if by_hand else prefect_server)
    wait_for((tmp_path / "waiting").exists, process)
    os.killpg(process.pid, number)
    assert process.communicate(timeout=60) == ("interrupted\n", "")
    assert process.returncode == 130
    if by_hand:
        states = ([("run-waits", "Crashed")], [("fit", "Crashed")])
        assert states_in(prefect_home) == states
    else:
        assert flow_run("run-waits").state_name == "Crashed"


@pytest.mark.thorough
def test_the_server_of_a_run_ends_with_it(tmp_path, prefect_home):
    process = job("serve", tmp_path, prefect_home)
    wait_for((tmp_path / "url").exists, process)
    url = (tmp_path / "url").read_text()
    assert answers(url)
    process.kill()
    process.communicate()
    eventually(lambda: answers(url), False)


@pytest.fixture
def started_server(tmp_path, prefect_home):
    """Start a server as a user does; yield its address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--analytics-off"],
            env=environment(prefect_home),
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}/api"
    try:
        wait_for(lambda: answers(url), process)
        yield url, process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_server_that_dies_does_not_end_the_run(tmp_path, started_server):
    url, pid = started_server
    process = job("loses_server", tmp_path, tmp_path / "unused", url, SERVER_PID=str(pid))
    out, err = process.communicate(timeout=200)
    assert (out.splitlines()[-1], err, process.returncode) == ("[2, 3, 4, 5]", "", 0)
    assert out.startswith("The end of this run is not recorded: ")


@pytest.mark.slow
@pytest.mark.parametrize("lost", [signal.SIGKILL, signal.SIGSTOP])
def test_a_stopped_run_whose_server_is_gone_ends_soon(lost, tmp_path, started_server):
    """Within 35 s, and with how to go on; it was a ConnectError after 57 s."""
    url, pid = started_server
    pipeline_named("keywords").simulate(str(tmp_path / "in"), 40, 1)
    own = {"SERVER_PID": str(pid), "SERVER_SIGNAL": str(int(lost))}
    process = job("left_alone", tmp_path, tmp_path / "unused", url, **own)
    wait_for((tmp_path / "waiting").exists, process)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=100)
    assert time.monotonic() - began < 40.0
    (run,) = (tmp_path / "out" / "runs").iterdir()
    assert (err, process.returncode) == ("", 1)
    assert out.startswith("interrupted; ")
    assert f"--resume {run.name}" in out


def test_the_form_of_a_deployment(prefect_server):
    made = pipeline_flow("keywords", KeywordSettings, lambda *given: given[3:])
    deployment = made.to_deployment("by-form", entrypoint_type=None)
    with get_client(sync_client=True) as client:
        schema = client.read_deployment(deployment.apply()).parameter_openapi_schema
    assert schema["required"] == ["source", "target"]
    titles = {name: field["title"] for name, field in schema["properties"].items()}
    assert list(titles.values()) == [
        "Source",
        "Target",
        "Settings",
        "Where it is computed",
        "Resume",
        "Since",
    ]
    settings = schema["definitions"]["KeywordSettings"]
    fields = settings["properties"]
    assert set(fields) == set(KeywordSettings.model_fields)
    assert all(field["description"] for field in fields.values())
    assert "vbss" in fields["model"]["enum"]
    assert (fields["ask"]["minimum"], fields["ask"]["maximum"]) == (0, 1000)
    assert min(fields, key=lambda name: fields[name]["position"]) == "model"
    choices = [choice["title"] for choice in fields["keyword_rate"]["anyOf"]]
    assert choices == ["number", "default"]
    given = made("in", "out", settings={"fdr": 0.3}, compute={"workers": 2})
    assert given == (KeywordSettings(fdr=0.3), ComputeSettings(workers=2), None, None)
