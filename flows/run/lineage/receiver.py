"""A run's events as OpenLineage run events, sent by its own client.

START when the run is asked for, RUNNING when its input was checked, then one of COMPLETE, FAIL and
ABORT (stopped by hand). Every attempt is a run of its own there; the tag ``vbflows.run_id`` says
what it is called here, also after ``--resume``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import (
    error_message_run,
    execution_parameters_run,
    job_type_job,
    parent_run,
    processing_engine_run,
    tags_run,
)
from openlineage.client.uuid import generate_new_uuid

from flows.data.runs import RunPaths, RunRecord
from flows.run.events import Accepted, Asked, Event, Failed, Needless, Published
from flows.run.lineage import datasets
from flows.run.lineage.switch import TRANSPORT


def receiver() -> OpenLineage:
    """Return what sends to where OpenLineage's environment variables say."""
    before = set(os.environ)
    client = OpenLineageClient()
    # It writes some of them into others, which would outlive the run, and a change of the first.
    for name in set(os.environ) - before:
        if name.startswith(TRANSPORT):
            del os.environ[name]
    return OpenLineage(client)


class OpenLineage:
    """Sends a run's events through OpenLineage's client."""

    def __init__(self, client: OpenLineageClient) -> None:
        self._client = client
        self._version = metadata.version("vbflows")
        self._producer = f"urn:vbflows:{self._version}"
        self._namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or "default"
        self._asked: Asked | None = None
        self._run = str(generate_new_uuid())
        self._facets: dict[str, Any] = {}
        self._fitted: list[InputDataset] = []
        self._inputs: list[InputDataset] = []
        self._ended = False

    def take(self, moment: int, event: Event) -> None:
        """Send what begins, what is read, and what has ended."""
        if self._ended:
            return
        match event:
            case Asked():
                self._begin(event)
                self._send(moment, RunState.START)
            case Accepted(inputs) if self._asked is not None:
                found = datasets.of_inputs(self._asked.source, inputs, self._producer)
                self._inputs = found + self._fitted
                self._send(moment, RunState.RUNNING)
            case Published(record) if self._asked is not None:
                self._ended = True
                self._facets["tags"] = self._tags(_found(record))
                paths = RunPaths(self._asked.target, record.run_id)
                outputs = datasets.of_outputs(paths, self._producer)
                self._send(moment, RunState.COMPLETE, outputs)
            case Needless():
                self._ended = True
                self._send(moment, RunState.COMPLETE)
            case Failed(error):
                self._ended = True
                self._facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                    message=str(error) or type(error).__name__,
                    programmingLanguage="Python",
                    producer=self._producer,
                )
                by_hand = isinstance(error, KeyboardInterrupt)
                self._send(moment, RunState.ABORT if by_hand else RunState.FAIL)

    def close(self) -> None:
        """Let the client send what it holds."""
        self._client.close(timeout=30.0)

    def _begin(self, asked: Asked) -> None:
        self._asked = asked
        if asked.fitted is not None:
            self._fitted = [datasets.of_fitted(asked.fitted, self._producer)]
        self._inputs = datasets.of_source(asked.source) + self._fitted
        parameters = [
            execution_parameters_run.ExecutionParameter(key=name, value=str(value))
            for name, value in sorted(asked.settings.items())
        ]
        self._facets = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=self._version, name="vbflows", producer=self._producer
            ),
            "executionParameters": execution_parameters_run.ExecutionParametersRunFacet(
                parameters=parameters, producer=self._producer
            ),
            "tags": self._tags({"run_id": asked.run_id}),
            **self._parent(),
        }

    def _parent(self) -> dict[str, Any]:
        """Return the run that started this one, as schedulers hand it down."""
        job, _, run = os.environ.get("OPENLINEAGE_PARENT_ID", "").rpartition("/")
        namespace, _, name = job.partition("/")
        if not (namespace and name and run):
            return {}
        parent = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=run),
            job=parent_run.Job(namespace=namespace, name=name),
            producer=self._producer,
        )
        return {"parent": parent}

    def _tags(self, found: Mapping[str, Any]) -> tags_run.TagsRunFacet:
        tags = [
            tags_run.TagsRunFacetFields(key=f"vbflows.{name}", value=str(value), source="vbflows")
            for name, value in found.items()
        ]
        return tags_run.TagsRunFacet(tags=tags, producer=self._producer)

    def _send(
        self, moment: int, state: RunState, outputs: list[OutputDataset] | None = None
    ) -> None:
        if self._asked is None:
            return
        what = "SCORE" if self._asked.fitted else "FIT"
        kind = job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="VBFLOWS", jobType=what, producer=self._producer
        )
        name = f"vbflows.{self._asked.pipeline}" + (".score" if self._asked.fitted else "")
        self._client.emit(
            RunEvent(
                eventTime=datetime.fromtimestamp(moment / 1e9, UTC).isoformat(),
                producer=self._producer,
                eventType=state,
                run=Run(runId=self._run, facets=self._facets),
                job=Job(namespace=self._namespace, name=name, facets={"jobType": kind}),
                inputs=self._inputs,
                outputs=outputs or [],
            )
        )


def _found(record: RunRecord) -> dict[str, Any]:
    """Return what is worth a tag of a finished run."""
    found = {
        "run_id": record.run_id,
        "rows_read": record.rows_read,
        "rows_kept": record.rows_kept,
        "partitions": record.partitions,
        "workers": record.workers,
        "sweeps": record.iterations,
        "converged": str(record.converged).lower(),
        "warnings": len(record.warnings),
    }
    return found if record.elbo is None else found | {record.objective: repr(record.elbo)}
