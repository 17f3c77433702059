"""A run's events as OpenTelemetry spans and metrics, sent by OTLP over HTTP.

A run is a span, and each of its stages one below it; sweeps and retries are events of their stage.
Metrics carry the pipeline's name alone, since a series for every run would grow without end.
"""

from __future__ import annotations

import os
from importlib import metadata
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from flows.run.events import (
    Accepted,
    Asked,
    Computing,
    Event,
    Failed,
    Needless,
    Published,
    Retried,
    Stage,
    Sweep,
)
from flows.run.telemetry.meters import Meters
from flows.run.telemetry.switch import of_signal


def receiver() -> OpenTelemetry:
    """Return what sends to where OpenTelemetry's environment variables say."""
    version = metadata.version("vbflows")
    resource = Resource.create({"service.version": version, **_name()})
    tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
    if of_signal("TRACES"):
        tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    readers = []
    if of_signal("METRICS"):
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    metering = MeterProvider(resource=resource, metric_readers=readers, shutdown_on_exit=False)
    return OpenTelemetry(tracing, metering, version)


class OpenTelemetry:
    """Makes spans and metrics of a run's events."""

    def __init__(
        self,
        tracing: TracerProvider,
        metering: MeterProvider,
        version: str,
    ) -> None:
        self._tracing, self._metering = tracing, metering
        self._tracer = tracing.get_tracer("vbflows", version)
        self._meters = Meters(metering.get_meter("vbflows", version))
        self._run: Span | None = None
        self._stage: Span | None = None

    def take(self, moment: int, event: Event) -> None:
        """Begin and end spans, and record what is measured."""
        self._meters.take(moment, event)
        match event:
            case Asked():
                self._begin(moment, event)
            case Stage(name):
                self._begin_stage(moment, name)
            case Failed(error):
                by_hand = isinstance(error, KeyboardInterrupt)
                outcome = "stopped" if by_hand else "failed"
                self._end(moment, outcome, str(error) or type(error).__name__)
            case Published(record):
                if self._run is not None:
                    self._run.set_attributes(
                        {
                            "vbflows.rows.read": record.rows_read,
                            "vbflows.rows.kept": record.rows_kept,
                            "vbflows.partitions": record.partitions,
                            "vbflows.sweeps": record.iterations,
                            "vbflows.converged": record.converged,
                            "vbflows.warnings": tuple(record.warnings),
                        }
                    )
                self._end(moment, "published")
            case Needless():
                self._end(moment, "nothing new")
            case Accepted(inputs):
                self._note("vbflows.input.bytes", sum(one.size for one in inputs))
                self._note("vbflows.input.files", len(inputs))
            case Computing(workers):
                self._note("vbflows.workers", workers)
            case Sweep(iteration, elbo):
                self._happened(moment, "sweep", {"number": iteration, "bound": float(elbo)})
            case Retried(attempt, pause, error):
                told = {"attempt": attempt, "pause": float(pause), "error": str(error)}
                self._happened(moment, "retry", told)

    def close(self) -> None:
        """Send what is left."""
        self._tracing.shutdown()
        self._metering.shutdown(timeout_millis=30_000)

    def _begin(self, moment: int, asked: Asked) -> None:
        carried = {"traceparent": os.environ.get("TRACEPARENT", "")}
        told = {
            "vbflows.run_id": asked.run_id,
            "vbflows.pipeline": asked.pipeline,
            "vbflows.kind": "score" if asked.fitted else "fit",
            "vbflows.resumed": asked.resumed,
        }
        self._run = self._tracer.start_span(
            f"vbflows {asked.pipeline}",
            context=TraceContextTextMapPropagator().extract(carried),
            attributes=told,
            start_time=moment,
        )

    def _begin_stage(self, moment: int, name: str) -> None:
        if self._stage is not None:
            self._stage.end(moment)
        if self._run is not None:
            above = trace.set_span_in_context(self._run)
            self._stage = self._tracer.start_span(name, context=above, start_time=moment)

    def _end(self, moment: int, outcome: str, fault: str = "") -> None:
        for span in (self._stage, self._run):
            if span is not None:
                if fault:
                    span.set_status(Status(StatusCode.ERROR, fault))
                if span is self._run:
                    span.set_attribute("vbflows.outcome", outcome)
                span.end(moment)
        self._run = self._stage = None

    def _note(self, name: str, value: int) -> None:
        if self._run is not None:
            self._run.set_attribute(name, value)

    def _happened(self, moment: int, name: str, told: dict[str, Any]) -> None:
        if self._stage is not None:
            self._stage.add_event(name, told, timestamp=moment)


def _name() -> dict[str, str]:
    """Return the name of the service, unless the environment has one."""
    given = os.environ.get("OTEL_SERVICE_NAME") or (
        "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    )
    return {} if given else {"service.name": "vbflows"}
