"""Listeners of installed packages: each gets every event of every run.

A package registers a class; a run makes one object of it and calls its ``on_event``::

    [project.entry-points."vbflows.listeners"]
    openlineage = "vbflows_openlineage:OpenLineage"
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from flows.events import Event

GROUP = "vbflows.listeners"


class Installed:
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

    def on_event(self, event: Event) -> None:
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


def installed(warn: Callable[[str], None]) -> list[Installed]:
    """Return the listeners of installed packages."""
    return [Installed(point, warn) for point in sorted(entry_points(group=GROUP))]
