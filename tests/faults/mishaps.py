"""What may happen to a simulated cluster; each says whether it met somebody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flows.engine.worker import Holdings

if TYPE_CHECKING:
    from tests.faults.simulated_cluster import World

TTL = 45.0  # seconds until a worker that hangs is taken out
RARE = 0.03  # share of what ends every run


def worker_dies(world: World) -> bool:
    if not world.present():
        return False
    world.die(world.random.choice(world.present()))
    return True


def all_workers_die(world: World) -> bool:
    found = world.present()
    for worker in found:
        world.die(worker)
    return bool(found)


def worker_hangs(world: World) -> bool:
    if not world.present():
        return False
    worker, seconds = world.random.choice(world.present()), world.random.choice([8.0, 30.0, 1e9])
    worker.hangs_until = world.time + seconds
    if seconds > TTL:
        world.after(TTL, lambda: world.die(worker) if worker.alive else None)
    return True


def worker_pauses(world: World) -> bool:
    """It is short of memory; what it begins no more may go down with another."""
    running = [worker for worker in world.present() if not worker.paused]
    if not running:
        return False
    worker = world.random.choice(running)
    worker.paused = True
    world.after(world.random.choice([1.0, 5.0, 30.0]), lambda: world.resume(worker))
    return True


def worker_forgets(world: World) -> bool:
    """A new process under the old address."""
    found = world.present()[:1]
    for worker in found:
        worker.holdings = Holdings()
    return bool(found)


def worker_joins(world: World) -> bool:
    if len(world.present()) >= 6:
        return False
    world.join()
    return True


def other_source_joins(world: World) -> bool:
    if world.random.random() >= RARE:
        return False
    world.join()
    world.everyone[-1].other_source = True
    return True


def clock_jumps(world: World) -> bool:
    world.jumped += world.random.choice([1.0, 30.0, 4000.0])
    return True


def connection_breaks(world: World) -> bool:
    if world.state != "up":
        return False
    world.state = "away"
    for entry in world.entries.values():
        if entry.state != "forgotten":
            entry.ticket.cancelled, entry.state = True, "forgotten"
            world.after(world.delay(), lambda e=entry: world.deliver(e.ticket))
    for worker in world.everyone:
        worker.given.clear()

    def come_back() -> None:
        if world.state == "away":
            world.state = "up"

    world.after(world.random.choice([0.3, 3.0, 20.0]), come_back)
    return True


def scheduler_dies(world: World) -> bool:
    if world.random.random() >= RARE:
        return False
    world.state = "gone"
    world.coming.clear()
    return True


FAULTS: dict[str, Callable[[World], bool]] = {
    "worker dies": worker_dies,
    "all workers die": all_workers_die,
    "worker hangs": worker_hangs,
    "worker pauses": worker_pauses,
    "worker forgets": worker_forgets,
    "worker joins": worker_joins,
    "worker of another source joins": other_source_joins,
    "clock jumps": clock_jumps,
    "connection breaks": connection_breaks,
    "scheduler dies": scheduler_dies,
}
