"""A cluster that is not there: the seam to Dask, with a seeded schedule of mishaps.

Messages, workers and time are made up, so that an hour without an answer passes in a
microsecond and a seed repeats its schedule. What workers do with an order is the real thing.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flows.data.storage import TransientStorageError
from flows.engine import calls
from flows.engine.on_cluster import LATE
from flows.engine.placement import UNKNOWN
from flows.engine.seam import Deadly, Lost, Outcome, Raised, Result, Sent, Task, Unreachable
from flows.engine.worker import Done, Holdings, work_on
from tests.faults.mishaps import FAULTS

ALLOWED_DEATHS = 3  # Dask's distributed.scheduler.allowed-failures
RETRIES = 2  # of a task that raises
FETCH = 60.0  # seconds that fetching a result may take
EMPTY = calls.NO_WORKERS + FETCH + 30.0  # the driver may be fetching before it sees that
# A block may be late so many times with doubled patience. A call may take as long as it does,
# here at most 180 s and three tries of that; otherwise it is looked after every 30 s.
QUIET = {"fit": UNKNOWN * 2**LATE + 200.0, "calls": 1000.0}
EVENTS = 40_000  # of one run; most take some hundreds
IDLE = 60.0  # seconds that work may be with nobody while a worker takes some
RATES = ("message lost", "message twice", "task slow", "storage error")


class Violation(BaseException):
    """The property does not hold: a wait without end, other bits, or no sentence."""


@dataclass(eq=False)
class Worker:
    """A process: what it holds, and what it was given, done one after the other."""

    address: str
    slowness: float
    holdings: Holdings = field(default_factory=Holdings)
    given: list[Entry] = field(default_factory=list)
    alive: bool = True
    hangs_until: float = 0.0
    paused: bool = False  # short of memory: it ends what it began and is given nothing new
    other_source: bool = False


@dataclass(eq=False)
class Entry:
    """A task with the scheduler: queued, no-worker, processing, memory, erred or forgotten."""

    task: Task
    function: Callable[..., Any]
    ticket: Ticket
    state: str = "queued"
    deaths: int = 0
    retries: int = RETRIES
    worker: Worker | None = None  # that does it, or has done it
    idle_since: float | None = None  # when it was first seen with nobody beside an able worker
    outcome: Outcome = Lost()  # noqa: RUF009 - immutable


class Ticket:
    """A task as its driver knows it."""

    def __init__(self, world: World, mailbox: Box, tag: Any) -> None:
        self.world, self.mailbox, self.tag = world, mailbox, tag
        self.entry: Entry | None = None
        self.released = self.cancelled = False

    def outcome(self) -> Outcome:
        return self.world.fetched(self)

    def release(self) -> None:
        self.released = True
        if self.entry is not None:
            self.world.forget(self.entry)


class Box:
    """A mailbox; waiting for it lets time pass."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.items: list[tuple[Any, Sent]] = []

    def take(self, seconds: float) -> list[tuple[Any, Sent]]:
        self.world.until(self.world.time + seconds, lambda: bool(self.items))
        found, self.items = self.items, []
        return found


class World:
    """Workers, a scheduler, messages and a clock, and the seam to them."""

    name = "the simulated cluster"
    without_workers = "start some and go on with --resume"
    work = staticmethod(work_on)

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.time = 0.0
        self.jumped = 0.0
        self.events = self.looks = 0
        self.direct = 0  # tasks that a desk was asked for
        self.faults: Counter[str] = Counter()
        self.stage = "calls"
        self.heard = 0.0  # when the driver last heard or said something
        self.longest = 0.0  # time between two of those
        self.empty_since: float | None = 0.0
        self.deadly: int | None = None  # a partition that kills whoever works on it
        self.coming: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = self._names = 0
        self.state = "up"
        self.entries: dict[str, Entry] = {}
        self.everyone: list[Worker] = []
        self._plan()

    def _plan(self) -> None:
        draw = self.random
        for _ in range(draw.choice([1, 2, 2, 3, 4])):
            self.after(draw.choice([0.0, 0.0, 0.0, draw.uniform(0.0, 100.0)]), self.join)
        self.latency = draw.choice([0.002, 0.02, 0.5])
        self.pace = draw.choice([0.02, 0.3, 2.0])  # seconds a task, about
        self.replaced = draw.choice([1.0, 1.0, 0.7])  # share of dead workers
        self.budget = draw.choice([0, 1, 2, 4, 8, 16])
        self.kinds = draw.sample(list(FAULTS), draw.randint(1, len(FAULTS)))
        self.mean = draw.choice([0.1, 0.5, 2.0, 10.0])  # seconds between two faults, about
        self.rates = {kind: draw.choice([0.0, 0.0, 0.01, 0.1]) for kind in RATES}
        if draw.random() < 0.03:
            self.deadly = draw.randrange(6)
        self._plan_fault()

    # The seam.

    def now(self) -> float:
        return self.time + self.jumped

    def pause(self, seconds: float) -> None:
        self.until(self.time + seconds)

    def mailbox(self) -> Box:
        return Box(self)

    def send(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Task],
        mailbox: Box,
        tags: Sequence[Any],
    ) -> list[Ticket]:
        self.heard = self.time
        tickets = []
        for task, tag in zip(tasks, tags, strict=True):
            tickets.append(Ticket(self, mailbox, tag))
            if task.key in self.entries:
                raise Violation(f"the key {task.key} was used before")
            entry = Entry(task, function, tickets[-1])
            arrive = self._ask_desk if task.direct else self._arrive
            if not self._happens("message lost"):
                self.after(self.delay(), lambda entry=entry, arrive=arrive: arrive(entry))
        return tickets

    def status(self) -> str:
        return self.state

    def workers(self) -> dict[str, dict[str, Any]]:
        if self.state != "up":
            raise Unreachable
        self.pause(2 * self.latency)
        return {w.address: {"nthreads": 1, "memory_limit": 2**30} for w in self.present()}

    def underway(self, keys: Sequence[str]) -> list[bool]:
        if self.state != "up":
            raise Unreachable
        states = [self.entries[key].state if key in self.entries else None for key in keys]
        return [state in ("queued", "processing") for state in states]

    def fetched(self, ticket: Ticket) -> Outcome:
        """Return what became of a task; its result is gone with its worker."""
        entry = ticket.entry
        if ticket.cancelled or entry is None or entry.state not in ("memory", "erred"):
            return Lost()
        if isinstance(entry.outcome, Result) and not (entry.worker and entry.worker.alive):
            self.faults["result lost"] += 1
            self.until(self.time + self.random.choice([0.1, FETCH]))
            return Lost()
        return entry.outcome

    def forget(self, entry: Entry) -> None:
        """Nobody waits for a task: it is not begun, and ends if it was."""
        worker = entry.worker
        if entry.state == "processing" and worker is not None and worker.given[0] is entry:
            return
        if entry.state == "processing" and worker is not None:
            worker.given.remove(entry)
        entry.state = "forgotten"

    # The scheduler and its workers.

    def present(self) -> list[Worker]:
        return [worker for worker in self.everyone if worker.alive]

    def join(self) -> None:
        self._names += 1
        slowness = self.random.choice([1.0, 1.0, 1.0, 5.0])
        self.everyone.append(Worker(f"tcp://worker-{self._names}", slowness))
        self.empty_since = None
        self._give_queued()

    def resume(self, worker: Worker) -> None:
        """A paused worker takes work again."""
        worker.paused = False
        self._give_queued()

    def _give_queued(self) -> None:
        for entry in self.entries.values():
            # What prefers a worker stays where it is: Dask does not look at it again.
            if entry.state == "queued":
                self._assign(entry)

    def _arrive(self, entry: Entry) -> None:
        if self.state == "gone" or entry.ticket.cancelled or entry.ticket.released:
            return
        self.entries[entry.task.key] = entry
        entry.ticket.entry = entry
        self._assign(entry)

    def _assign(self, entry: Entry) -> None:
        able = [worker for worker in self.present() if not worker.paused]
        if not able:
            entry.state = "queued" if entry.task.worker is None else "no-worker"
            entry.idle_since = None
            return
        wanted = [worker for worker in able if worker.address == entry.task.worker]
        worker = wanted[0] if wanted else min(able, key=lambda w: len(w.given))
        entry.state, entry.worker = "processing", worker
        worker.given.append(entry)
        if len(worker.given) == 1:
            self._begin(worker)

    def _begin(self, worker: Worker) -> None:
        entry = worker.given[0]
        seconds = self.random.uniform(0.5, 1.5) * self.pace * worker.slowness
        if self._happens("task slow"):
            seconds += self.random.choice([20.0, 700.0 if self.stage == "fit" else 60.0])
        self.after(seconds, lambda: self._end(worker, entry, seconds))

    def _end(self, worker: Worker, entry: Entry, seconds: float) -> None:
        if not worker.alive or not worker.given or worker.given[0] is not entry:
            return
        if worker.hangs_until > self.time:
            self.after(worker.hangs_until - self.time, lambda: self._end(worker, entry, seconds))
            return
        if self._kills(entry):
            self.die(worker)
            return
        try:
            entry.outcome = Result(self._do(worker, entry, seconds))
        except Exception as error:
            entry.retries -= 1
            if entry.retries >= 0:
                self._begin(worker)
                return
            entry.outcome = Raised(error)
        worker.given.remove(entry)
        entry.state = "memory" if isinstance(entry.outcome, Result) else "erred"
        self._tell(entry)
        if worker.given:
            self._begin(worker)

    def _do(self, worker: Worker, entry: Entry, seconds: float) -> Any:
        """Do what a task asks for, in the worker's memory."""
        if self._happens("storage error"):
            raise TransientStorageError("the store does not answer")
        if entry.function is not self.work:
            return entry.function(*entry.task.arguments)
        order, job = entry.task.arguments
        done = work_on(worker.holdings, job, order, worker.address, 2**30, None)
        if not isinstance(done, Done):
            self.faults["job unknown"] += 1
            return done
        source = {"vbflows": "another"} if worker.other_source else {}
        return replace(done, seconds=seconds, environment={**done.environment, **source})

    def _ask_desk(self, entry: Entry) -> None:
        """Ask a worker past the scheduler: what goes wrong is told as lost, or not at all."""
        self.direct += 1
        found = [w for w in self.present() if w.address == entry.task.worker]
        if self.state != "up" or not found:
            self._tell_lost(entry)
            return
        seconds = self.random.uniform(0.5, 1.5) * self.pace * found[0].slowness
        if self._happens("task slow"):
            seconds += self.random.choice([20.0, 700.0])
        self.after(seconds, lambda: self._end_at_desk(found[0], entry, seconds))

    def _end_at_desk(self, worker: Worker, entry: Entry, seconds: float) -> None:
        if worker.hangs_until > self.time:
            again = worker.hangs_until - self.time
            self.after(again, lambda: self._end_at_desk(worker, entry, seconds))
            return
        if worker.alive and self._kills(entry):
            self.die(worker)
        if not worker.alive or self.state != "up":
            self._tell_lost(entry)
            return
        try:
            entry.outcome = Result(self._do(worker, entry, seconds))
        except Exception:
            self._tell_lost(entry)
            return
        entry.worker, entry.state, entry.ticket.entry = worker, "memory", entry
        self._tell(entry)

    def _tell_lost(self, entry: Entry) -> None:
        """Dask's call of an actor ends with an error when the worker goes, or it never ends."""
        self.faults["direct call lost"] += 1
        if self.random.random() < 0.5:
            self._tell(entry)

    def _kills(self, entry: Entry) -> bool:
        if self.deadly is None or entry.function is not self.work:
            return False
        order = entry.task.arguments[0]
        return order.start <= self.deadly < order.stop

    def _tell(self, entry: Entry) -> None:
        """Let the driver hear of a task that has ended: late, twice, or not at all."""
        if self._happens("message lost"):
            return
        for _ in range(1 + self._happens("message twice")):
            self.after(self.delay(), lambda: self.deliver(entry.ticket))

    def deliver(self, ticket: Ticket) -> None:
        self.heard = self.time
        ticket.mailbox.items.append((ticket.tag, ticket))

    def die(self, worker: Worker) -> None:
        worker.alive = False
        begun, given = worker.given[:1], list(worker.given)
        if begun and self.random.random() < 0.3 and not self._kills(begun[0]):
            try:
                self._do(worker, begun[0], 0.0)  # it was done, and nobody will hear of it
            except Exception:
                self.faults["died of an error"] += 1
        worker.given.clear()
        if not self.present():
            self.empty_since = self.time
        for entry in given:
            entry.deaths += 1  # of whatever it died: all that it was given is suspicious
            if entry.ticket.released:
                entry.state = "forgotten"
            elif entry.deaths > ALLOWED_DEATHS:
                entry.state, entry.outcome = "erred", Deadly()
                self._tell(entry)
            else:
                self._assign(entry)
        if self.random.random() < self.replaced:
            self.after(self.random.choice([2.0, 10.0, self.random.uniform(0, 200)]), self.join)

    # Time.

    def until(self, deadline: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Let things happen until a time, or until there is enough."""
        while not enough() and self.coming and self.coming[0][0] <= deadline:
            self.time, _, action = heapq.heappop(self.coming)
            self.events += 1
            action()
        if not enough():
            self.time = max(self.time, deadline)
        self._watch()

    def _watch(self) -> None:
        """See to it that no wait is beyond its limit."""
        self.looks += 1
        quiet = self.time - self.heard
        self.longest = max(self.longest, quiet)
        if quiet > QUIET[self.stage]:
            raise Violation(f"the driver has heard and said nothing for {quiet:.0f} s")
        self._watch_idle()
        if self.empty_since is not None and self.time - self.empty_since > EMPTY:
            raise Violation(f"no worker for {self.time - self.empty_since:.0f} s")
        if max(self.events, self.looks / 20) > EVENTS:
            raise Violation("the run comes to no end")

    def _watch_idle(self) -> None:
        """See to it that no work is with nobody while there are workers that take some."""
        waiting = [
            entry
            for entry in self.entries.values()
            if entry.state == "no-worker" and not entry.ticket.released
        ]
        if not waiting:
            return
        able = any(not worker.paused for worker in self.present())
        given = ("processing", "memory", "erred")
        asked_again = {_asked_for(e) for e in self.entries.values() if e.state in given}
        for entry in waiting:
            if not able or _asked_for(entry) in asked_again:
                entry.idle_since = None
            elif entry.idle_since is None:
                entry.idle_since = self.time
            elif self.time - entry.idle_since > IDLE:
                raise Violation(f"{entry.task.key} was with nobody for {IDLE:.0f} s")

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self.coming, (self.time + seconds, self._serial, action))

    def delay(self) -> float:
        return self.random.expovariate(1.0 / self.latency)

    def _happens(self, kind: str) -> bool:
        found = self.random.random() < self.rates[kind]
        if found:
            self.faults[kind] += 1
        return found

    def _plan_fault(self) -> None:
        if self.budget > 0:
            self.budget -= 1
            self.after(self.random.expovariate(1.0 / self.mean), self._fault)

    def _fault(self) -> None:
        kind = self.random.choice(self.kinds)
        if FAULTS[kind](self):
            self.faults[kind] += 1
        self._plan_fault()


def _asked_for(entry: Entry) -> str:
    """Return what a task is for: its key without the number of the try."""
    return entry.task.key.rpartition("-")[0]
