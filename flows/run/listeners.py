"""Listeners of installed packages: each gets every event of every run.

A package registers a class; a run makes one object of it and calls its ``on_event``::

    [project.entry-points."vbflows.listeners"]
    openlineage = "vbflows_openlineage:OpenLineage"
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from flows.data import storage
from flows.run.events import Event, Failed, Line, Listener, Requested
from flows.run.running import Run

GROUP = "vbflows.listeners"


class Installed(Listener):
    """The listener of a package: one event at a time; after its first exception, none.

    Parameters
    ----------
    point
        Where the package says its class is.
    warn
        Shows a sentence to the user.
    """

    def __init__(self, point: EntryPoint, warn: Callable[[str], None]) -> None:
        self._point, self._warn = point, warn
        self._lock = threading.RLock()
        self._listener: Any = None
        self._failed = False

    def hear(self, event: Event) -> None:
        """Hand an event on."""
        with self._lock:
            if self._failed:
                return
            try:
                if self._listener is None:
                    self._listener = self._point.load()()
                self._listener.on_event(event)
            except Exception as error:  # of another package: it must not end the run
                self._failed = True
                what = str(error) or type(error).__name__
                self._warn(
                    f"warning: the listener {self._point.name} ({self._point.value}) failed and "
                    f"gets no more events of this run: {what}"
                )


@contextmanager
def listened_to(run: Run) -> Iterator[None]:
    """Let installed listeners hear a run, from its first event to its last."""
    events = run.events
    for point in sorted(entry_points(group=GROUP)):
        events = events.joined(Installed(point, lambda text: run.events.tell(Line(text))))
    run.events = events
    run.events.tell(
        Requested(
            run.paths.run_id,
            run.family.name,
            tuple(storage.given(run.source)),
            run.paths.target,
            run.settings.model_dump(mode="json"),
            None if run.fitted is None else run.fitted.root,
            run.resumes,
        )
    )
    try:
        yield
    except BaseException as error:
        run.events.tell(Failed(error))
        raise
