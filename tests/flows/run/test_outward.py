"""What OpenLineage and OpenTelemetry receive of a real run, over HTTP on this machine."""

from __future__ import annotations

import enum
import gzip
import json
import subprocess
import sys
import threading
import time
import types
import typing
import uuid
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import attr
import pyarrow.parquet as pq
import pytest

from flows.catalogue import pipeline_named
from flows.data.storage import TransientStorageError
from flows.faults import InputError, RunError
from flows.run import outward, pipeline
from flows.run.events import Events, Line, Listener, Retried
from flows.run.launch import launch, launch_score
from flows.settings import ComputeSettings

pytest.importorskip("openlineage.client", reason="the extra lineage is not installed")
pytest.importorskip("opentelemetry.exporter.otlp", reason="the extra telemetry is not installed")

ENDED = {"COMPLETE", "FAIL", "ABORT"}


class Lines(Listener):
    def __init__(self):
        self.said = []

    def hear(self, event):
        if isinstance(event, Line):
            self.said.append(event.text)


@pytest.fixture
def receiver():
    """A server that takes whatever is posted; `received` has (path, body)."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.append((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        server.received = received
        server.url = f"http://127.0.0.1:{server.server_port}"
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def both(receiver, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "nightly")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setattr(outward, "PATIENCE", 30.0)  # all is to arrive, however busy the machine
    return receiver


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    urls = pipeline_named("bags").simulate(str(folder / "simulated"), 40, 1)
    return next(url for url in urls if "truth" not in url)


def run(source, target, shown=None, **options):
    settings = pipeline_named("bags").settings(model="vmmic", max_iter=3, **options)
    return launch(
        "bags", str(source), str(target), settings, ComputeSettings(), None, False, None, shown
    )


def lineage(receiver):
    return [json.loads(body) for path, body in receiver.received if path == "/api/v1/lineage"]


def decoded(receiver):
    """Return the spans and the metrics that were received, each metric as last told."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans, metrics = [], {}
    for path, body in receiver.received:
        if path == "/v1/traces":
            for of in ExportTraceServiceRequest.FromString(body).resource_spans:
                names = {a.key: a.value.string_value for a in of.resource.attributes}
                assert names["service.name"] == "vbflows"
                spans += [span for scope in of.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for of in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in of.scope_metrics:
                    metrics |= {metric.name: metric for metric in scope.metrics}
    return spans, metrics


def attributes(span):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def published():
    """Return the classes that OpenLineage makes of its published schemas, by name."""
    folder = Path(import_module("openlineage.client.generated").__path__[0])
    classes = {}
    for path in folder.glob("*.py"):
        module = import_module(f"openlineage.client.generated.{path.stem}")
        of_it = {name: one for name, one in vars(module).items() if attr.has(one)}
        classes |= {name: one for name, one in of_it.items() if one.__module__ == module.__name__}
    return classes


def fits(value, kind, classes):
    """Whether a value of JSON is of the type that a published schema declares."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, one, classes) for one in inner)
    if origin is list:
        return isinstance(value, list) and all(fits(one, inner[0], classes) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(v, inner[1], classes) for v in value.values())
    if attr.has(kind):
        return isinstance(value, dict) and faults(value, kind, classes) == []
    if issubclass(kind, enum.Enum):
        return value in [one.value for one in kind]
    numbers = (int, float) if kind is float else kind
    return isinstance(value, numbers) and (kind is bool or not isinstance(value, bool))


def faults(value, kind, classes):
    """List what an object of JSON has otherwise than its published schema says."""
    if "_schemaURL" in value:  # a facet: its own schema says more than that of facets of its place
        own = classes[value["_schemaURL"].rpartition("/")[2]]
        if not issubclass(own, kind) or value["_schemaURL"] != own._get_schema():
            return [f"{value['_schemaURL']} is no {kind.__name__}"]
        kind = own
    hints = typing.get_type_hints(kind, None, {"ClassVar": typing.ClassVar})
    known = {one.name: one for one in attr.fields(kind)}
    found = [f"{kind.__name__}.{name} is not known" for name in value if name not in known]
    needed = (name for name, one in known.items() if one.default is attr.NOTHING)
    found += [f"{kind.__name__}.{name} is missing" for name in needed if name not in value]
    return found + [
        f"{kind.__name__}.{name}: {one!r}"
        for name, one in value.items()
        if name in known and not fits(one, hints[name], classes)
    ]


def assert_valid(event):
    """Check an event and its facets against OpenLineage's published schemas."""
    classes = published()
    assert faults(event, classes["RunEvent"], classes) == []
    assert event["schemaURL"] == classes["RunEvent"]._get_schema()
    uuid.UUID(event["run"]["runId"])
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert event["producer"].startswith("urn:vbflows:")
    assert event["job"]["namespace"] == "nightly"


def test_what_a_schema_does_not_know_is_found(both, source, tmp_path):
    run(source, tmp_path / "out")
    classes = published()

    def wrong(change):
        event = lineage(both)[-1]
        change(event)
        return faults(event, classes["RunEvent"], classes)

    assert wrong(lambda event: None) == []
    assert wrong(lambda event: event.update(eventType="ENDED"))
    assert wrong(lambda event: event.pop("job"))
    assert wrong(lambda event: event["inputs"][0].pop("name"))
    assert wrong(lambda event: event["inputs"][0]["facets"]["version"].update(version="1"))
    assert wrong(lambda event: event["inputs"][0]["facets"]["schema"]["fields"][0].pop("name"))
    assert wrong(
        lambda event: event["outputs"][0]["outputFacets"]["outputStatistics"].update(rowCount="3")
    )
    assert wrong(
        lambda event: event["run"]["facets"].update(tags=event["job"]["facets"]["jobType"])
    )


def test_a_run_arrives_at_both(both, source, tmp_path):
    outcome = run(source, tmp_path / "out")
    events = lineage(both)
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in events}) == 1
    for event in events:
        assert_valid(event)
        assert event["job"]["name"] == "vbflows.bags"
    folder = tmp_path / "out" / "runs" / outcome["run_id"]
    record = json.loads((folder / "run.json").read_text())
    (read,) = events[-1]["inputs"]
    assert (read["namespace"], read["name"]) == ("file", source)
    assert read["facets"]["version"]["datasetVersion"] == record["inputs"][0]["fingerprint"]
    names = [field["name"] for field in read["facets"]["schema"]["fields"]]
    assert names == pq.read_schema(source).names
    assert read["inputFacets"]["dataQualityMetrics"]["rowCount"] == record["rows_read"]
    assert read["inputFacets"]["inputStatistics"]["size"] == Path(source).stat().st_size
    written = {one["name"]: one for one in events[-1]["outputs"]}
    assert len(written) >= 2
    for name, one in written.items():
        table = folder / Path(name).name
        assert Path(name).parent == tmp_path / "out"
        told = one["outputFacets"]["outputStatistics"]
        parts = sorted(table.glob("*.parquet"))
        assert told["fileCount"] == len(parts) > 0
        assert told["rowCount"] == sum(pq.read_metadata(part).num_rows for part in parts)
        assert told["size"] == sum(part.stat().st_size for part in parts)
        names = [field["name"] for field in one["facets"]["schema"]["fields"]]
        assert names == pq.read_schema(parts[0]).names
        assert one["facets"]["version"]["datasetVersion"] == outcome["run_id"]
        assert one["facets"]["symlinks"]["identifiers"][0]["name"] == str(table)
    tags = {tag["key"]: tag["value"] for tag in events[-1]["run"]["facets"]["tags"]["tags"]}
    assert tags["vbflows.run_id"] == outcome["run_id"]
    assert float(tags["vbflows.bound"]) == outcome["elbo"]

    spans, metrics = decoded(both)
    (whole,) = [span for span in spans if not span.parent_span_id]
    stages = {span.name: span for span in spans if span.parent_span_id == whole.span_id}
    assert whole.name == "vbflows bags"
    assert attributes(whole)["vbflows.run_id"] == outcome["run_id"]
    assert attributes(whole)["vbflows.outcome"] == "published"
    assert [*stages] == ["check", "ingest", "partition", "fit", "score", "publish"]
    assert all(span.trace_id == whole.trace_id for span in stages.values())
    inside = [(s.start_time_unix_nano, s.end_time_unix_nano) for s in stages.values()]
    moments = [whole.start_time_unix_nano, *sum(inside, ()), whole.end_time_unix_nano]
    assert moments == sorted(moments)  # one after the other, and none begins before the run
    assert sum(end - start for start, end in inside) / 1e9 >= 0.9 * record["seconds"]
    steps = pq.read_table(folder / "trace.parquet")
    told = [attributes(event) for event in stages["fit"].events]
    assert [one["bound"] for one in told] == steps["elbo"].to_pylist()
    assert [one["number"] for one in told] == steps["iteration"].to_pylist()

    size = Path(source).stat().st_size
    assert metrics["vbflows.input.size"].sum.data_points[0].as_int == size
    assert metrics["vbflows.fit.bound"].gauge.data_points[0].as_double == outcome["elbo"]
    assert metrics["vbflows.workers"].gauge.data_points[0].as_int == 0
    (sweeps,) = metrics["vbflows.sweep.duration"].histogram.data_points
    assert sweeps.count == steps.num_rows
    assert 0 < sweeps.sum <= record["seconds"]
    assert len(metrics["vbflows.stage.duration"].histogram.data_points) == len(stages)
    assert metrics["vbflows.memory.peak"].gauge.data_points[0].as_int > 1e7


def test_scoring_reads_the_posterior_of_the_run(both, source, tmp_path):
    fitted = run(source, tmp_path / "out")
    both.received.clear()
    place = tmp_path / "out" / "runs" / fitted["run_id"]
    launch_score(str(place), source, str(tmp_path / "scored"), ComputeSettings(), False)
    event = lineage(both)[-1]
    assert_valid(event)
    assert (event["eventType"], event["job"]["name"]) == ("COMPLETE", "vbflows.bags.score")
    posterior = event["inputs"][-1]
    assert posterior["name"] == str(place / "posterior")
    assert posterior["facets"]["version"]["datasetVersion"] == fitted["run_id"]
    spans, metrics = decoded(both)
    (whole,) = [span for span in spans if not span.parent_span_id]
    assert attributes(whole)["vbflows.kind"] == "score"
    assert "vbflows.sweep.duration" not in metrics


def a_refused_run(source, monkeypatch):
    wrong = Path(source).parent / "wrong.parquet"
    pq.write_table(pq.read_table(source).drop_columns(["bag_id"]), wrong)
    return wrong


def a_run_without_storage(source, monkeypatch):
    def fail(*_, **__):
        raise TransientStorageError("the store does not answer", "s3://store")

    monkeypatch.setattr(pipeline, "run_fit", fail)
    return source


def a_stopped_run(source, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "run_fit", stop)
    return source


@pytest.mark.parametrize(
    ("case", "error", "state", "outcome"),
    [
        (a_refused_run, InputError, "FAIL", "failed"),
        (a_run_without_storage, RunError, "FAIL", "failed"),
        (a_stopped_run, RunError, "ABORT", "stopped"),
    ],
)
def test_a_run_without_a_result_says_how_it_ended(
    case, error, state, outcome, both, source, tmp_path, monkeypatch
):
    with pytest.raises(error) as raised:
        run(case(source, monkeypatch), tmp_path / "out")
    events = lineage(both)
    assert [e["eventType"] for e in events if e["eventType"] in ENDED] == [state]
    assert events[-1]["eventType"] == state
    assert events[-1]["outputs"] == []
    for event in events:
        assert_valid(event)
    message = events[-1]["run"]["facets"]["errorMessage"]["message"]
    assert message in str(raised.value)
    spans, metrics = decoded(both)
    (whole,) = [span for span in spans if not span.parent_span_id]
    assert attributes(whole)["vbflows.outcome"] == outcome
    assert whole.status.code == 2  # STATUS_CODE_ERROR
    assert whole.status.message == message
    (ended,) = metrics["vbflows.runs"].sum.data_points
    assert ended.as_int == 1


def test_a_retry_is_counted(both, source, tmp_path, monkeypatch):
    fit = pipeline.run_fit

    def after_a_retry(job, executor, **more):
        told.tell(Retried(1, 0.5, TimeoutError("slow")))
        return fit(job, executor, **more)

    carry_out = pipeline._carry_out

    def with_events(of, *rest):
        nonlocal told
        told = of.events
        return carry_out(of, *rest)

    told = None
    monkeypatch.setattr(pipeline, "_carry_out", with_events)
    monkeypatch.setattr(pipeline, "run_fit", after_a_retry)
    run(source, tmp_path / "out")
    spans, metrics = decoded(both)
    assert metrics["vbflows.storage.retries"].sum.data_points[0].as_int == 1
    (fitted,) = [span for span in spans if span.name == "fit"]
    assert fitted.events[0].name == "retry"


def test_many_files_are_one_input(source):
    from flows.data.runs import InputRecord
    from flows.run.lineage import datasets

    files = [
        InputRecord(url=source, size=7, fingerprint=f"{k:016x}", rows=3)
        for k in range(datasets.MOST_INPUTS + 1)
    ]
    (one,) = datasets.of_inputs("/data/*.parquet", files, "urn:vbflows:1")
    (other,) = datasets.of_inputs("/data/*.parquet", files[::-1], "urn:vbflows:1")
    assert one.name == "/data/*.parquet"
    assert one.inputFacets["inputStatistics"].rowCount == 303
    assert one.facets["version"].datasetVersion == other.facets["version"].datasetVersion


def test_a_file_takes_the_events_too(source, tmp_path, monkeypatch):
    told = tmp_path / "events.jsonl"
    config = tmp_path / "openlineage.yml"
    config.write_text(f"transport:\n  type: file\n  log_file_path: {told}\n  append: true\n")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    monkeypatch.setattr(outward, "PATIENCE", 30.0)
    run(source, tmp_path / "out")
    states = [json.loads(line)["eventType"] for line in told.read_text().splitlines()]
    assert states == ["START", "RUNNING", "COMPLETE"]


def test_receivers_that_are_down_cost_a_line_each_and_little_time(
    source, tmp_path, monkeypatch, capfd
):
    quiet = tmp_path / "quiet"
    expected = run(source, quiet)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")  # the port of discard: closed
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    shown = Lines()
    begun = time.monotonic()
    outcome = run(source, tmp_path / "out", shown)
    assert time.monotonic() - begun < outward.PATIENCE + 5.0
    assert outcome["elbo"] == expected["elbo"]
    said = [text for text in shown.said if "may miss events" in text]
    assert sorted(text.split(" ")[0] for text in said) == ["OpenLineage", "OpenTelemetry"]
    assert "127.0.0.1" not in capfd.readouterr().err


def test_an_extra_that_is_absent_is_named(source, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    for name in [name for name in sys.modules if name.startswith("flows.run.lineage.")]:
        if not name.endswith("switch"):
            monkeypatch.delitem(sys.modules, name)
    shown = Lines()
    run(source, tmp_path / "out", shown)
    (said,) = [text for text in shown.said if "OpenLineage" in text]
    assert "pip install 'vbflows[lineage]'" in said


@pytest.mark.parametrize(
    "off",
    [
        {},
        {"OPENLINEAGE_URL": "http://h", "OPENLINEAGE_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "true"},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://h",
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
        },
    ],
)
def test_nobody_hears_who_was_not_asked_for(off, monkeypatch):
    for name, value in off.items():
        monkeypatch.setenv(name, value)
    assert list(outward._asked_for()) == []


def test_their_libraries_are_loaded_only_when_asked_for():
    code = (
        "import sys, flows.run.launch;"
        "found = [m for m in sys.modules if m.startswith(('openlineage', 'opentelemetry.sdk'))];"
        "sys.exit(', '.join(found) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_for_which_nothing_is_new_has_ended_at_both(both, tmp_path):
    from vbflows_mixture.family import FAMILY
    from vbflows_mixture.settings import MixtureSettings

    rows = FAMILY.simulate(str(tmp_path / "in"), 60, 1)[0]
    settings = MixtureSettings(components=2, forgetting_factor=1.0)
    for _ in range(2):
        pipeline.run_pipeline(
            FAMILY, Events(), rows, str(tmp_path / "out"), settings, ComputeSettings(), None,
            "latest",
        )  # fmt: skip
    events = lineage(both)
    assert [event["eventType"] for event in events][-2:] == ["START", "COMPLETE"]
    assert not events[-1]["outputs"]
    spans, _ = decoded(both)
    ended = [attributes(span).get("vbflows.outcome") for span in spans]
    assert [one for one in ended if one] == ["published", "nothing new"]
