"""Listeners of installed packages: what they get of a run, and what one that fails costs it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import EntryPoint

import pytest

from flows import events
from flows.faults import InputError
from tests.faults import pipelines

OPENLINEAGE = EntryPoint("openlineage", "vbflows_openlineage:OpenLineage", events.GROUP)


class Failing:
    """A listener with an error in it."""

    def on_event(self, event):
        raise OSError("the disk of the listener is full")


@pytest.fixture
def installed(monkeypatch):
    """Return what registers an entry point as an installed package does."""

    def install(point):
        found = events.entry_points
        monkeypatch.setattr(
            events, "entry_points",
            lambda *, group: [point] if group == events.GROUP else found(group=group),
        )  # fmt: skip

    return install


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return pipelines.simulate("bags", str(tmp_path_factory.mktemp("in")), 20)


@pytest.fixture
def server(monkeypatch):
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, json.loads(body)))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        yield received
        server.shutdown()
        thread.join()


def test_a_run_that_is_published_is_sent(server, source, tmp_path, installed):
    installed(OPENLINEAGE)
    pipelines.run("bags", source, str(tmp_path / "out"), max_iter=2)
    assert [path for path, _ in server] == ["/api/v1/lineage"] * 2
    start, end = (event for _, event in server)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"] == end["run"]
    assert end["job"] == {"namespace": "vbflows", "name": "bags"}
    assert [one["name"] for one in end["inputs"]] == [source]
    assert [one["name"] for one in end["outputs"]] == [str(tmp_path / "out")]


def test_a_run_that_is_refused_is_sent(server, tmp_path, installed):
    installed(OPENLINEAGE)
    (tmp_path / "bags.csv").write_text("bag\n1\n")
    with pytest.raises(InputError):
        pipelines.run("bags", str(tmp_path / "bags.csv"), str(tmp_path / "out"))
    assert [event["eventType"] for _, event in server] == ["START", "FAIL"]


@pytest.mark.parametrize(
    "value", [f"{__name__}:Failing", "vbflows_not_there:Listener", "json:JSONDecoder"]
)
def test_a_listener_that_fails_is_named_once_and_ends_no_run(
    value, source, tmp_path, installed, caplog
):
    caplog.set_level("INFO", logger="vbflows.pipeline")
    installed(EntryPoint("mine", value, events.GROUP))
    outcome = pipelines.run("bags", source, str(tmp_path / "out"), max_iter=2)
    assert outcome["run_id"]
    said = [text for text in caplog.messages if "the listener mine" in text]
    assert len(said) == 1
    assert "gets no more events" in said[0]


def test_every_event_arrives_in_order(source, tmp_path, installed, monkeypatch):
    seen = []

    class Recorder:
        def on_event(self, event):
            seen.append(event)

    point = EntryPoint("mine", "nothing:Recorder", events.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Recorder)
    installed(point)
    pipelines.run("bags", source, str(tmp_path / "out"), max_iter=2)
    assert isinstance(seen[0], events.Requested)
    assert isinstance(seen[-1], events.Published)
    assert {events.Started, events.Accepted, events.Stage, events.Sweep} <= {type(e) for e in seen}
