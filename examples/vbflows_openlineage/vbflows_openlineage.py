"""Sends the start and the end of every run to the OpenLineage server at ``OPENLINEAGE_URL``."""

import json
import os
from datetime import UTC, datetime
from urllib.request import Request, urlopen
from uuid import uuid4

from flows.events import Accepted, Event, Failed, Published, Requested

SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
PRODUCER = "vbflows-openlineage"


class OpenLineage:
    """What one run reads and writes, and how it ends."""

    def __init__(self) -> None:
        self.run, self.job, self.inputs, self.outputs = str(uuid4()), "", [], []

    def on_event(self, event: Event) -> None:
        """Send an event that begins or ends a run."""
        match event:
            case Requested(pipeline=pipeline, sources=sources, target=target):
                self.job, self.inputs, self.outputs = pipeline, list(sources), [target]
                self._send("START")
            case Accepted(inputs=inputs):
                self.inputs = [file.url for file in inputs]
            case Published():
                self._send("COMPLETE")
            case Failed(error=error):
                self._send("ABORT" if isinstance(error, KeyboardInterrupt) else "FAIL")

    def _send(self, kind: str) -> None:
        body = {
            "eventType": kind, "eventTime": datetime.now(UTC).isoformat(),
            "producer": PRODUCER, "schemaURL": SCHEMA, "run": {"runId": self.run},
            "job": {"namespace": "vbflows", "name": self.job},
            "inputs": [{"namespace": "vbflows", "name": url} for url in self.inputs],
            "outputs": [{"namespace": "vbflows", "name": url} for url in self.outputs],
        }  # fmt: skip
        url = os.environ["OPENLINEAGE_URL"].rstrip("/") + "/api/v1/lineage"
        header = {"Content-Type": "application/json"}
        urlopen(Request(url, json.dumps(body).encode(), header), timeout=3).close()
