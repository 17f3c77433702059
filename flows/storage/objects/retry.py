"""How often a call of storage is repeated, and how long it may take in all.

Repeats and their pauses are tenacity's. What the stores' own clients repeat within one request is
set where they are made, in ``flows.storage.objects.access``; Dask's own retries of a task are set
in ``flows.fit.cluster``.

No client of a store has a limit for a whole call: each of its limits is for the next byte, so a
server that sends one byte now and then is waited for without end. A call of an object store
therefore runs in a thread of its own, which is left behind when the time is over.
"""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from flows.storage.errors import TransientStorageError, storage_errors
from flows.storage.objects.urls import is_local, shown

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Retry:
    """How often something is tried again, after pauses of a random length.

    What they are at most doubles with each attempt, so that many processes do not try at once.
    """

    times: int
    first: float  # seconds of the first pause, at most

    def trying(self, within: float = math.inf, **more: Any) -> Retrying:
        """Return what calls a function until storage answers; the last failure is raised as it was.

        ``within``: seconds from the first attempt during which others may begin: one may take long
        to fail. ``**more``: for `tenacity.Retrying`, in the place of what is set here.
        """
        usual: dict[str, Any] = {
            "retry": retry_if_exception_type(TransientStorageError),
            "wait": wait_random_exponential(multiplier=self.first),
            "stop": stop_after_attempt(self.times + 1) | stop_before_delay(within),
            "reraise": True,
        }
        return Retrying(**usual | more)


CALL = Retry(times=6, first=0.5)  # of one call of an object store
PATIENCE = 15.0  # seconds after its begin in which it is repeated
SILENCE = 60.0  # seconds that it may take in all, its repeats included, or without progress
PACE = 250_000.0  # bytes a second that an object store brings or takes at least

_within = threading.local()
_left: list[threading.Thread] = []  # in calls that were given up


class _Deadline:
    """When a call of an object store is given up; it moves as the call makes progress."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.over = False
        self.extend(0)

    def extend(self, size: int) -> None:
        """Allow the usual time from now on, and that for so many bytes."""
        with self.lock:
            if self.over:
                raise _GivenUp
            self.at = time.monotonic() + SILENCE + size / PACE

    def passed(self) -> bool:
        """Whether it is over; from then on the call cannot go on."""
        with self.lock:
            self.over = time.monotonic() >= self.at
            return self.over


class _GivenUp(BaseException):
    """Ends a call of an object store that nobody waits for any more."""


def expect(size: int = 0) -> None:
    """Note progress within a call of an object store, and how many bytes are to come or to go.

    Raises `_GivenUp` if the call was given up meanwhile.
    """
    deadline: _Deadline | None = getattr(_within, "deadline", None)
    if deadline is not None:
        deadline.extend(size)


def calling_thread() -> int:
    """Return the identity of this thread, or of the one for which it calls an object store."""
    return getattr(_within, "caller", threading.get_ident())


def with_retry(action: str, url: str, call: Callable[[], R]) -> R:
    """Call, and call again for a while if an object store does not answer.

    A call within such a call is left to the outer one.

    Raises `TransientStorageError` if it brought nothing for `SILENCE` seconds, or less than `PACE`.

    Parameters
    ----------
    action, url
        What it does to which object, for the sentence. The local file system is called directly.
    call
        What is called. It notes its progress by `expect`, where it moves much.
    """
    if is_local(url) or getattr(_within, "deadline", None) is not None:
        return call()
    if getattr(_within, "call", False):
        return _limited(action, url, call)
    return _limited(action, url, lambda: CALL.trying(PATIENCE)(call))


OfUrl: TypeAlias = Callable[Concatenate[str, P], R]


def asks_storage(action: str) -> Callable[[OfUrl[P, R]], OfUrl[P, R]]:
    """Let a function of a URL be called by `with_retry`, and its errors be sentences.

    ``action``: what it does to the URL, for the sentences.
    """

    def decorate(function: OfUrl[P, R]) -> OfUrl[P, R]:
        @wraps(function)
        def ask(url: str, *args: P.args, **kwargs: P.kwargs) -> R:
            def attempt() -> R:
                with storage_errors(action, url):
                    return function(url, *args, **kwargs)

            return with_retry(action, url, attempt)

        return cast("OfUrl[P, R]", ask)

    return decorate


def _limited(action: str, url: str, call: Callable[[], R]) -> R:
    """Call in a thread of its own, and wait for it as long as it makes progress."""
    deadline, ended = _Deadline(), threading.Event()
    outcome: list[R] = []
    failure: list[BaseException] = []
    caller, context = calling_thread(), contextvars.copy_context()

    def run() -> None:
        _within.deadline, _within.caller = deadline, caller
        try:
            outcome.append(context.run(call))
        except BaseException as error:  # carried over to the waiting thread
            failure.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name=f"storage {action}", daemon=True)
    thread.start()
    while not ended.wait(max(deadline.at - time.monotonic(), 0.0)):
        if not ended.is_set() and deadline.passed():
            _left.append(thread)
            raise TransientStorageError(
                f"cannot {action} {shown(url)}: the store sent less than {PACE / 1000.0:.0f} kB "
                f"a second for {SILENCE:g} s; check the network and the endpoint "
                "(AWS_ENDPOINT_URL)"
            )
    if failure:
        raise failure[0]
    return outcome[0]


def calls_left() -> bool:
    """Whether a call that was given up goes on: Arrow's client waits for it when Python exits."""
    return any(thread.is_alive() for thread in _left)


@contextmanager
def no_retry() -> Iterator[None]:
    """Call storage once only within this block, in this thread."""
    before = getattr(_within, "call", False)
    _within.call = True
    try:
        yield
    finally:
        _within.call = before
