"""Stages as Prefect tasks, and a pipeline as a Prefect flow."""

from __future__ import annotations

import base64
import contextvars
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
from prefect import get_client, get_run_logger, task
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelled, Completed, State
from prefect.tasks import exponential_backoff

from flows.data import storage
from flows.engine.calls import Abandoned
from flows.run.kept import keeping
from flows.run.stages import Pace, Retry, Row, escape, transient

R = TypeVar("R")
_UNANSWERED = 60.0  # seconds without another attempt after the server did not answer
_NOT_KEPT = {"persist_result": False, "cache_policy": NO_CACHE}  # large results stay out of it


class CancelledOnPage(KeyboardInterrupt):
    """Someone pressed Cancel on the run's page."""


class Recorded:
    """Stages of the Prefect flow run in which this object is made."""

    recorded = True

    def __init__(self, retry: Retry | None = None) -> None:
        run = FlowRunContext.get()
        if run is None or run.flow_run is None:
            raise RuntimeError("Recorded stages exist inside a Prefect flow run only")
        self._run_id: UUID = run.flow_run.id
        self._logger = get_run_logger()
        self._context = contextvars.copy_context()  # threads of others have none
        self._retry = retry or Retry()
        self._folder: str | None = None
        self._bar: UUID | None = None
        self._pace = Pace()
        self.cancelled = False
        self._unanswered = -float("inf")  # when the server last did not answer

    def begin(self, run_id: str, folder: str) -> None:
        """Give the flow run the run's name; keep finished work in the folder."""
        self._folder = folder
        self._show(_rename, self._run_id, run_id)

    def call(self, name: str, function: Callable[..., R], *args: Any) -> R:
        """Run one stage as one task, in the calling thread, unless the run was cancelled."""
        self._heed_cancel()

        # The arguments stay outside of Prefect, which would search and copy them.
        def stage() -> R:
            return function(*args)

        return task(stage, name=name, task_run_name=name, **_NOT_KEPT)()

    def map(
        self,
        name: str,
        function: Callable[..., R],
        items: Sequence[Any],
        *args: Any,
        cache_key: Callable[[Any], str] | None = None,
        on_stop: Callable[[], None] | None = None,
    ) -> list[R]:
        """Run one stage for every item, one task run each."""
        one = keeping(self._folder, name, function, cache_key)
        results: list[Any] = [None] * len(items)
        failures: list[State[Any]] = []  # in the order of time
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            if on_stop is not None:
                on_stop()

        def stage(index: int) -> State[Any]:
            if stopped.is_set():
                return Cancelled(message="Another item failed first, or the run was stopped.")
            try:
                found, results[index] = one(items[index], *args)
            except Abandoned:
                return Cancelled(message="Another item failed first, or the run was stopped.")
            return Completed(name="Cached") if found else Completed()

        def retry(task: Any, run: Any, state: State[Any]) -> bool:
            return transient(state.data) and not stopped.is_set()

        def fail(task: Any, run: Any, state: State[Any]) -> None:
            failures.append(state)
            stop()

        mapped = task(
            stage,
            name=name,
            task_run_name=lambda parameters: f"{name} {_label(items, parameters['index'])}",
            retries=self._retry.times,
            retry_delay_seconds=exponential_backoff(self._retry.first_delay),
            retry_jitter_factor=self._retry.jitter,
            retry_condition_fn=retry,
            on_failure=[fail],
            **_NOT_KEPT,
        )
        futures: list[PrefectFuture[Any]] = []
        try:
            futures.extend(mapped.submit(index) for index in range(len(items)))
            for future in futures:
                future.wait()
        except BaseException:
            stop()
            raise
        for state in [*failures, *(future.state for future in futures)]:
            state.result()
        return results

    def progress(self, fraction: float, text: str) -> None:
        """Move the run's progress bar, unless the run was cancelled."""
        if not (self._pace.due() or fraction >= 1.0):
            return
        if fraction < 1.0:  # then all is published, and it is too late
            self._heed_cancel()
        percent, description = 100.0 * min(max(fraction, 0.0), 1.0), escape(text)
        if self._bar is None:
            self._bar = self._show(create_progress_artifact, percent, "progress", description)
        else:
            self._show(update_progress_artifact, self._bar, percent, description)

    def log(self, line: str) -> None:
        """Write one line to the flow run's log."""
        self._logger.info("%s", line)

    def markdown(self, key: str, text: str) -> None:
        """Show Markdown as an artifact."""
        self._show(create_markdown_artifact, text.replace("<", "&lt;"), key)

    def table(self, key: str, rows: Sequence[Row]) -> None:
        """Show a table as an artifact."""
        self._show(create_table_artifact, [_cells(row) for row in rows], key)

    def link(self, key: str, url: str, text: str) -> None:
        """Show a link as an artifact."""
        self._show(create_link_artifact, _href(url), _plain(text), key)

    def image(self, key: str, image: bytes | str) -> None:
        """Show an image as an artifact; the bytes of a PNG become part of it."""
        if isinstance(image, bytes):
            image = "data:image/png;base64," + base64.b64encode(image).decode()
        self._show(create_image_artifact, image, key)

    def _heed_cancel(self) -> None:
        """Stop if the run was cancelled: a run started by hand has no runner that would do it."""
        state = self._show(_state_of, self._run_id)
        if state is not None and (state.is_cancelling() or state.is_cancelled()):
            self.cancelled = True
            raise CancelledOnPage("cancelled on Prefect's page")

    def _show(self, create: Callable[..., R], *args: Any) -> R | None:
        """Tell the server; a server that does not answer must not end the run."""
        if time.monotonic() - self._unanswered < _UNANSWERED:
            return None
        try:
            return self._context.copy().run(_at_once, create, *args)
        except (httpx.HTTPError, PrefectException, OSError) as error:
            self._unanswered = time.monotonic()
            self._logger.warning("the Prefect server did not take an artifact: %s", error)
            return None


def _at_once(create: Callable[..., R], *args: Any) -> R:
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        return create(*args)


def _rename(run_id: UUID, name: str) -> None:
    with get_client(sync_client=True) as client:
        client.update_flow_run(run_id, name=name)


def _state_of(run_id: UUID) -> State[Any] | None:
    with get_client(sync_client=True) as client:
        return client.read_flow_run(run_id).state


def _cells(row: Row) -> dict[str, Any]:
    """Return a row whose names and texts show as they are."""
    return {
        escape(column): escape(value) if isinstance(value, str) else value
        for column, value in row.items()
    }


def _plain(text: str) -> str:
    """Return text for a link, where Prefect's page undoes no escapes."""
    return re.sub(r"[\[\]<>\\]", "", " ".join(text.split()))


def _label(items: Sequence[Any], index: int) -> str:
    """Name an item for people: a file by its name, anything else by its number."""
    url = getattr(items[index], "url", items[index])
    return url.rstrip("/").rsplit("/", 1)[-1] if isinstance(url, str) else str(index)


def _href(url: str) -> str:
    """Return a URL that can stand inside a Markdown link."""
    if storage.is_local(url):
        return Path(storage.absolute(url)).as_uri()
    return quote(url, safe=":/?#@!$&'*+,;=%~")
