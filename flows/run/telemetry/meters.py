"""What is measured of a run: times of stages and sweeps, the bound, bytes, retries, workers."""

from __future__ import annotations

from opentelemetry.metrics import Meter

from flows.data.runs import peak_memory
from flows.run.events import (
    Accepted,
    Asked,
    Computing,
    Event,
    Failed,
    Published,
    Retried,
    Stage,
    Sweep,
)


class Meters:
    """The instruments; units are those of UCUM (https://ucum.org), as OpenTelemetry asks."""

    def __init__(self, meter: Meter) -> None:
        self._stages = meter.create_histogram("vbflows.stage.duration", "s", "time of a stage")
        self._sweeps = meter.create_histogram("vbflows.sweep.duration", "s", "time of a sweep")
        self._bound = meter.create_gauge("vbflows.fit.bound", "1", "bound after the last sweep")
        self._bytes = meter.create_counter("vbflows.input.size", "By", "bytes of the input")
        self._rows = meter.create_counter("vbflows.input.rows", "{row}", "rows of the input")
        self._retries = meter.create_counter(
            "vbflows.storage.retries", "{retry}", "calls that were repeated"
        )
        self._workers = meter.create_gauge("vbflows.workers", "{worker}", "local workers")
        self._memory = meter.create_gauge(
            "vbflows.memory.peak", "By", "largest resident memory of the driver"
        )
        self._runs = meter.create_counter("vbflows.runs", "{run}", "runs that have ended")
        self._of: dict[str, str] = {}
        self._stage: tuple[str, int] | None = None
        self._last = 0  # when the last sweep ended, or the fit began, in nanoseconds
        self._number: int | None = -1  # of the last sweep; None where a run that goes on had some

    def take(self, moment: int, event: Event) -> None:
        """Record what an event says."""
        match event:
            case Asked():
                kind = "score" if event.fitted else "fit"
                self._of = {"vbflows.pipeline": event.pipeline, "vbflows.kind": kind}
                self._number = None if event.resumed else -1
            case Accepted(inputs):
                self._bytes.add(sum(one.size for one in inputs), self._of)
                self._rows.add(sum(one.rows for one in inputs), self._of)
            case Computing(workers):
                self._workers.set(workers, self._of)
            case Stage(name):
                self._end_stage(moment)
                self._stage = name, moment
                self._last = moment
            case Sweep(number, elbo):
                self._swept(moment, number)
                self._bound.set(float(elbo), self._of)
            case Retried():
                self._retries.add(1, self._of)
            case Published():
                self._end(moment, "published")
            case Failed(error):
                by_hand = isinstance(error, KeyboardInterrupt)
                self._end(moment, "stopped" if by_hand else "failed")

    def _swept(self, moment: int, number: int) -> None:
        """Record the mean time of the sweeps since the last that was told: some are not."""
        if self._number is not None and number > self._number:
            mean = (moment - self._last) / 1e9 / (number - self._number)
            self._sweeps.record(mean, self._of)
        self._last, self._number = moment, number

    def _end(self, moment: int, outcome: str) -> None:
        self._end_stage(moment)
        self._memory.set(peak_memory(), self._of)
        self._runs.add(1, self._of | {"vbflows.outcome": outcome})

    def _end_stage(self, moment: int) -> None:
        if self._stage is not None:
            name, since = self._stage
            self._stages.record((moment - since) / 1e9, self._of | {"vbflows.stage": name})
            self._stage = None
