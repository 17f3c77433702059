"""How a pipeline calls its stages: one by one or mapped, retried, kept, and shown.

A pipeline is one function that calls everything through a `Stages`. `Plain` runs it with
nothing around it; ``flows.run.prefect.recorded.Recorded`` makes every call a Prefect task. What
a call computes, what is retried and what is kept is the same in both. Prefect is not imported
here.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from flows.data import storage
from flows.run.kept import keeping

R = TypeVar("R")
Row = Mapping[str, Any]

_MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~!>])")
_log = logging.getLogger("vbflows.pipeline")


class Stages(Protocol):
    """What a pipeline asks of its surroundings."""

    recorded: bool

    def begin(self, run_id: str, folder: str) -> None:
        """Name the run and the URL of the folder in which finished work is kept for a resume."""

    def call(self, name: str, function: Callable[..., R], *args: Any) -> R:
        """Run one stage and return what it returns; its exception arrives unchanged."""

    def map(
        self,
        name: str,
        function: Callable[..., R],
        items: Sequence[Any],
        *args: Any,
        cache_key: Callable[[Any], str] | None = None,
        on_stop: Callable[[], None] | None = None,
    ) -> list[R]:
        """Run ``function(item, *args)`` for every item, in threads; results in order.

        Storage that did not answer is asked again, with growing pauses. The first other
        failure stops the items that have not begun and is raised unchanged; `on_stop` is
        called at once, so that those that have begun need not be waited for. With `cache_key`,
        a result is kept as JSON under its key in the run's folder and not computed again; the
        function must then say in its annotation what it returns.
        """

    def progress(self, fraction: float, text: str) -> None:
        """Show how far the run is (0 to 1), at most once a second."""

    def log(self, line: str) -> None:
        """Write one line to the run's log."""

    def markdown(self, key: str, text: str) -> None:
        """Show Markdown; HTML in it is shown as text. Pass what users wrote through `escape`."""

    def table(self, key: str, rows: Sequence[Row]) -> None:
        """Show a table: one mapping from column to value a row."""

    def link(self, key: str, url: str, text: str) -> None:
        """Show a link."""

    def image(self, key: str, image: bytes | str) -> None:
        """Show an image: the bytes of a PNG, or a URL."""


def escape(text: str) -> str:
    r"""Make text of unknown origin safe inside Markdown.

    >>> print(escape("a|b <i> [x](javascript:y)"))
    a\|b &lt;i\> \[x\](javascript:y)
    """
    one_line = " ".join(text.split())
    return _MARKDOWN.sub(r"\\\1", one_line.replace("&", "&amp;").replace("<", "&lt;"))


@dataclass(frozen=True)
class Retry:
    """How often, and after what pauses, storage that did not answer is asked again."""

    times: int = 4
    first_delay: float = 1.0  # seconds; doubles with each attempt
    jitter: float = 0.5  # a pause lies within [1 - jitter, 1 + jitter] times its nominal length

    def delay(self, attempt: int, generator: random.Random) -> float:
        """Return the seconds to wait after attempt 1, 2, ... has failed."""
        nominal: float = self.first_delay * 2.0 ** (attempt - 1)
        return nominal * generator.uniform(1.0 - self.jitter, 1.0 + self.jitter)


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    return isinstance(error, storage.TransientStorageError | ConnectionError | TimeoutError)


def threads() -> int:
    """Return how many items a mapped stage runs at once by default."""
    return min(8, os.cpu_count() or 1)


class Pace:
    """Let something happen at most once in so many seconds, from any thread."""

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds, self._last, self._lock = seconds, -float("inf"), threading.Lock()

    def due(self) -> bool:
        """Whether it may happen now; a yes counts as done."""
        with self._lock:
            now = time.monotonic()
            if now - self._last < self._seconds:
                return False
            self._last = now
            return True


class Plain:
    """Stages with nothing around them: no server, no record, the same results."""

    recorded = False

    def __init__(self, max_workers: int | None = None, retry: Retry | None = None) -> None:
        self._max_workers, self._retry = max_workers or threads(), retry or Retry()
        self._folder: str | None = None

    def begin(self, run_id: str, folder: str) -> None:
        """Keep finished work in this folder."""
        self._folder = folder
        _log.info("run %s", run_id)

    def call(self, name: str, function: Callable[..., R], *args: Any) -> R:
        """Run one stage."""
        return function(*args)

    def map(
        self,
        name: str,
        function: Callable[..., R],
        items: Sequence[Any],
        *args: Any,
        cache_key: Callable[[Any], str] | None = None,
        on_stop: Callable[[], None] | None = None,
    ) -> list[R]:
        """Run one stage for every item."""
        one = keeping(self._folder, name, function, cache_key)
        stopped = threading.Event()
        pool = ThreadPoolExecutor(self._max_workers, thread_name_prefix=name)
        futures: list[Future[Any]] = []
        try:
            futures.extend(pool.submit(self._persist, one, stopped, item, *args) for item in items)
            for future in as_completed(futures):
                future.result()
        except BaseException as error:
            stopped.set()
            if on_stop is not None:
                on_stop()
            # Ctrl-C is answered at once, but nothing whose results are kept outlives its stage: it
            # would write into a run that was removed or resumed meanwhile.
            writes = cache_key is not None or not isinstance(error, KeyboardInterrupt)
            pool.shutdown(wait=writes, cancel_futures=True)
            raise
        pool.shutdown()
        return [future.result()[1] for future in futures]

    def progress(self, fraction: float, text: str) -> None:
        """Show nothing: the terminal has its own display."""

    def log(self, line: str) -> None:
        """Write one line to Python's log."""
        _log.info("%s", line)

    def markdown(self, key: str, text: str) -> None:
        """Show nothing."""

    def table(self, key: str, rows: Sequence[Row]) -> None:
        """Show nothing."""

    def link(self, key: str, url: str, text: str) -> None:
        """Show nothing."""

    def image(self, key: str, image: bytes | str) -> None:
        """Show nothing."""

    def _persist(self, one: Callable[..., R], stopped: threading.Event, item: Any, *args: Any) -> R:
        """Call, and call again while storage does not answer and attempts are left."""
        generator = random.Random()
        for attempt in range(1, self._retry.times + 1):
            try:
                return one(item, *args)
            except Exception as error:
                if not transient(error):
                    raise
                pause = self._retry.delay(attempt, generator)
                _log.warning("attempt %d failed; next in %.1f s: %s", attempt, pause, error)
                if stopped.wait(pause):
                    raise
        return one(item, *args)
