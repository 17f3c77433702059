"""How a run does many things at once: in threads, retried, and kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from tenacity import RetryCallState, retry_if_exception
from tenacity.nap import sleep_using_event

from flows.data import storage
from flows.data.storage import retry
from flows.faults import InputError
from flows.fit.executor import Abandoned
from flows.run.events import Events, Retried
from flows.run.memo import Memo

R = TypeVar("R")


def transient(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    return isinstance(error, storage.TransientStorageError | ConnectionError | TimeoutError)


def threads() -> int:
    """Return how many items a mapped stage runs at once."""
    return min(8, os.cpu_count() or 1)


def each(
    events: Events,
    name: str,
    function: Callable[..., R],
    items: Sequence[Any],
    *args: Any,
    memo: Memo[R] | None = None,
    key: Callable[[Any], str] = str,
    on_stop: Callable[[], None] | None = None,
    at_once: int | None = None,
) -> list[R]:
    """Run ``function(item, *args)`` for every item, in threads; results in order.

    As many at once as this process has cores, or `at_once` where threads wait for others only.

    Storage that did not answer is asked again, with growing pauses. The first other failure stops
    the items that have not begun and is raised unchanged; `on_stop` is called at once, so that
    those that have begun need not be waited for; but where the input is wrong they end first, for
    nothing of the run may be left. With a memo, a result is kept under the key of its
    item and not made again.
    """

    def one(item: Any) -> tuple[bool, R]:
        make = partial(function, item, *args)
        return (False, make()) if memo is None else memo.get_or_make(key(item), make)

    stopped = threading.Event()
    pool = ThreadPoolExecutor(at_once or threads(), thread_name_prefix=name)
    futures: list[Future[tuple[bool, R]]] = []
    try:
        for number, item in enumerate(items):
            work = partial(_persist, events, stopped, partial(one, item))
            label = _label(name, item, number)
            futures.append(pool.submit(partial(events.task, name, work, label, itemgetter(0))))
        for future in as_completed(futures):
            future.result()
    except BaseException as error:
        stopped.set()
        if on_stop is not None and not isinstance(error, InputError):
            on_stop()
        # Ctrl-C is answered at once, but nothing whose results are kept outlives its stage: it
        # would write into a run that was removed or resumed meanwhile.
        by_hand = isinstance(error, KeyboardInterrupt)
        pool.shutdown(wait=memo is not None or not by_hand, cancel_futures=by_hand)
        raise
    pool.shutdown()
    return [future.result()[1] for future in futures]


def _persist(events: Events, stopped: threading.Event, one: Callable[[], R]) -> R:
    """Call, and call again while storage does not answer and attempts are left."""

    def attempt() -> R:
        if stopped.is_set():
            raise Abandoned
        return one()

    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, Exception):
            events.tell(Retried(state.attempt_number, state.upcoming_sleep, error))

    return retry.TASK.trying(
        within=retry.TASK_PATIENCE,
        retry=retry_if_exception(transient),
        sleep=sleep_using_event(stopped),
        before_sleep=tell,
    )(attempt)


def _label(name: str, item: Any, number: int) -> str:
    """Name a task for people: by its file, or by its number."""
    url = getattr(item, "url", item)
    return f"{name} {url.rstrip('/').rsplit('/', 1)[-1] if isinstance(url, str) else number}"
