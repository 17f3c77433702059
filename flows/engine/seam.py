"""The seam to a cluster: what a driver asks of one, and what it hears back.

All that decides (which worker, when to ask again, when to give up) is written against these
few verbs, in `flows.engine.calls`, `flows.engine.on_cluster` and `flows.engine.placement`; what
talks to Dask decides nothing (`flows.engine.dask`). Time is part of the seam, so that a simulated
cluster can put hours of mishaps into a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

POLL = 0.5  # seconds between two looks at what is stopped, lost or late


class Abandoned(Exception):
    """A call that nobody waits for any more, because another of its stage failed."""


@dataclass(frozen=True)
class Task:
    """One thing to do on some worker.

    Attributes
    ----------
    key
        Its name, never used before.
    arguments
        What the function is called with.
    worker
        The worker that should do it; any other may. None for no wish.
    direct
        Whether this worker may be asked past the scheduler. Nobody then sees to it that the
        task is done: it is lost with its worker, and by any error.
    """

    key: str
    arguments: tuple[Any, ...]
    worker: str | None = None
    direct: bool = False


@dataclass(frozen=True)
class Result:
    """The function returned this."""

    value: Any


@dataclass(frozen=True)
class Raised:
    """The function raised this, each time that it was tried."""

    error: Exception


@dataclass(frozen=True)
class Deadly:
    """One worker after the other died while it worked on the task."""


@dataclass(frozen=True)
class Lost:
    """Nobody knows the task any more, or its result cannot be fetched."""


Outcome = Result | Raised | Deadly | Lost


class Sent(Protocol):
    """A task that was sent."""

    def outcome(self) -> Outcome:
        """Return what became of it, once it is in the mailbox."""

    def release(self) -> None:
        """Say that nobody waits for it any more: it is not begun if it was not yet."""


class Mailbox(Protocol):
    """Where tasks that have ended are heard of: late, twice, or in another order."""

    def take(self, seconds: float) -> list[tuple[Any, Sent]]:
        """Wait so long for the next; return all that have come, with the tag of each."""


class Unreachable(Exception):
    """The scheduler does not answer."""


class Seam(Protocol):
    """A cluster, without any decision.

    Attributes
    ----------
    name
        What people call it.
    without_workers
        What to do if it has no workers, for a message.
    work
        What a worker calls with an order and a job, or None for a job that it has; see
        `flows.engine.worker.work_on`.
    """

    name: str
    without_workers: str
    work: Callable[..., Any]

    def now(self) -> float:
        """Return the seconds since some moment; it never goes back."""

    def pause(self, seconds: float) -> None:
        """Wait."""

    def mailbox(self) -> Mailbox:
        """Return an empty mailbox."""

    def send(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Task],
        mailbox: Mailbox,
        tags: Sequence[Any],
    ) -> list[Sent]:
        """Ask for tasks in one message; each is put into the mailbox, with its tag, as it ends."""

    def status(self) -> str:
        """Return ``up``, ``away`` (it may come back) or ``gone``."""

    def workers(self) -> dict[str, dict[str, Any]]:
        """Return the present workers by address; raise `Unreachable`."""

    def underway(self, keys: Sequence[str]) -> list[bool]:
        """Say of each task whether it waits for a worker or is with one; raise `Unreachable`."""
