"""The page of a run: logs that a person reads, and artifacts of how it goes and what it found."""

from __future__ import annotations

import contextvars
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
from prefect import get_client, get_run_logger
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Crashed, State

from flows import storage
from flows.escape import escaped
from flows.events import (
    STAGES,
    Accepted,
    Event,
    Message,
    Pace,
    Progress,
    Published,
    Stage,
    Started,
    Sweep,
    TakenOver,
)
from flows.prefect import flow_run_id
from flows.report.render import as_markdown

_UNANSWERED = 60.0  # seconds without another attempt after the server did not answer
_LINES = 10.0  # seconds between two lines of how far a stage is
_BEFORE = {"load": 3} | {name: number for number, name in enumerate(STAGES)}
_IN_LINKS = ":/?#@!$&'*+,;=%~"


class CancelledOnPage(KeyboardInterrupt):
    """Someone pressed Cancel on the run's page."""


class Recorder:
    """Shows what happens on the page of the Prefect flow run in which this object is made."""

    def __init__(self, reports: str | None = None) -> None:
        """Begin; ``reports`` is the address under which a browser finds the target."""
        self._reports = reports or os.environ.get("VBFLOWS_REPORTS")
        self._flow_run = UUID(flow_run_id())
        self._logger = get_run_logger()
        # Made once: Prefect reads every setting again for it, 40 ms of CPU.
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
            self._at_once = contextvars.copy_context()
        self._bar: UUID | None = None
        self._pace, self._lines = Pace(), Pace(_LINES)
        self._before, self._fraction = 0, 0.0  # stages that are done; how much of the run is
        self._unsaid = ""  # how far the stage is, until the log says it
        self._unanswered = -float("inf")  # when the server last did not answer

    def on_event(self, event: Event) -> None:
        """Show an event, and stop the run between stages and sweeps if it was cancelled."""
        match event:
            case Started(run_id):
                self._log(f"run {run_id}")
            case TakenOver(flow_run) if flow_run not in ("", str(self._flow_run)):
                self._show(_mark_crashed, UUID(flow_run))
            case Stage(name):
                self._heed_cancel()
                if self._unsaid:
                    self._log(self._unsaid)
                self._before, self._unsaid = _BEFORE.get(name, self._before), ""
                self._log(name)
            case Accepted(inputs):
                rows = sum(file.rows for file in inputs)
                files = "1 file" if len(inputs) == 1 else f"{len(inputs):,} files"
                self._log(f"read {rows:,} rows in {files}")
            case Progress(stage, done, total) if total > 1:
                self._progress(done / total, f"{stage}: {done} of {total}")
            case Sweep(iteration, expected=expected):
                share = (iteration + 1) / expected if expected else 0.0
                self._progress(share, event.in_words())
            case Message(text):
                self._log(text)
            case Published():
                self._fraction = 1.0
                self._move_bar("published")
                self._show_outcome(event)

    def _log(self, text: str) -> None:
        self._logger.info("%s", escaped(text))

    def _progress(self, share: float, text: str) -> None:
        """Show at most once a second how far the run is, unless it was cancelled.

        Each stage is an equal part of it; ``share`` is how much of this one is done. The bar does
        not go back where more sweeps are expected than before, and 1 is a run that is published.
        """
        if self._pace.due():
            self._heed_cancel()
            self._fraction = max(self._fraction, min((self._before + share) / len(STAGES), 0.99))
            self._move_bar(text)
        self._unsaid = text
        if self._lines.due():
            self._log(text)
            self._unsaid = ""

    def _move_bar(self, text: str) -> None:
        percent, description = 100.0 * self._fraction, as_markdown(text)
        if self._bar is None:
            self._bar = self._show(create_progress_artifact, percent, "progress", description)
        else:
            self._show(update_progress_artifact, self._bar, percent, description)

    def _show_outcome(self, event: Published) -> None:
        record = event.record
        self._log(f"used {record.rows_kept:,} of {record.rows_read:,} rows")
        for loss in record.dropped:
            names = ", ".join(loss.examples[:3])
            self._log(f"not used: {loss.reason}: {loss.count:,}" + (f" ({names})" if names else ""))
        for warning in record.warnings:
            self._logger.warning("%s", escaped(warning))
        self._log(record.headline)
        summary = f"{event.summary}\n\n{_where(event, self._reports)}"
        self._show(create_markdown_artifact, summary, "summary", "What was found")

    def _heed_cancel(self) -> None:
        """Stop if the run was cancelled: a run started by hand has no runner that would do it."""
        state = self._show(_state_of, self._flow_run)
        if state is not None and (state.is_cancelling() or state.is_cancelled()):
            raise CancelledOnPage("cancelled on Prefect's page")

    def _show(self, create: Callable[..., Any], *args: Any) -> Any:
        """Call the server; a server that does not answer must not end the run."""
        if time.monotonic() - self._unanswered < _UNANSWERED:
            return None
        try:
            return self._at_once.copy().run(create, *args)
        except (httpx.HTTPError, PrefectException, OSError) as error:
            self._unanswered = time.monotonic()
            self._logger.warning("the Prefect server did not take an artifact: %s", error)
            return None


def _mark_crashed(run_id: UUID) -> None:
    """End a flow run whose process has died; Prefect refuses it for one that has ended."""
    with suppress(ObjectNotFound), get_client(sync_client=True) as client:
        client.set_flow_run_state(run_id, Crashed(message="its process died; another goes on"))


def _state_of(run_id: UUID) -> State[Any] | None:
    with get_client(sync_client=True) as client:
        return client.read_flow_run(run_id).state


def _where(event: Published, reports: str | None) -> str:
    """Return a link to the report where a browser can follow one, else its address.

    A page that comes over the network links neither files of the machine that shows it nor
    objects of a store.
    """
    url = event.report
    if reports:
        url = f"{reports.rstrip('/')}/runs/{event.record.run_id}/report.html"
    if url.startswith(("https://", "http://")):
        return f"[The report]({quote(url, safe=_IN_LINKS)})"
    place = f" on {platform.node()}" if storage.is_local(url) else ""
    return (
        f"The report is `{url.replace('`', '')}`{place}. For a link, serve the target by HTTP "
        "and set `compute.reports`, or `VBFLOWS_REPORTS`, to its address."
    )
