"""One run, one driver, and one scheduled run of a target: locks with a heartbeat.

A holder is alive if its process is, on the same machine; elsewhere,
if its heartbeat *changes* while the observer watches on its own clock. No two clocks
are compared, so clocks that differ do no harm.

A library does not do: filelock locks what one machine's file system sees, and an object store has
no such call; a lock that only a person may break would keep a nightly run from going on after the
machine that ran it has died.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import psutil
from pydantic import ConfigDict, Field

from flows.faults import RunError
from flows.records import json_files
from flows.storage import (
    StorageError,
    TransientStorageError,
    create_bytes,
    delete,
    is_local,
    join,
    no_retry,
    write_bytes,
)

log = logging.getLogger(__name__)

BEAT = 5.0  # seconds between two heartbeats
TIMEOUT = 3.5 * BEAT  # seconds without a change until a holder counts as dead
LOCK = "lock.json"
MOST = 2**16  # bytes of a lock
SETTLE = 0.5  # seconds until the last of several writers is known

_held: dict[str, Claim] = {}
_live: set[str] = set()  # tokens of the claims that this process has


class RunBusy(RunError):
    """Another process works on this run; one sentence for the user."""


class Holder(json_files.Form):
    """The contents of ``lock.json``: who holds the run; of any version, whatever else it says."""

    model_config = ConfigDict(extra="ignore")

    token: str
    run_id: str = ""
    host: str = "another machine"
    machine: str = ""
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0
    started: float = 0.0
    beats: int = 0
    flow_run: str = ""  # the id of Prefect's, of a run that is one


class Claim:
    """The right to write a run; made by `claim`."""

    def __init__(self, store: str, run_id: str, flow_run: str = "") -> None:
        self.store = store
        self.run_id = run_id
        self.flow_run = flow_run
        self.dead: Holder | None = None  # who held it until it died
        self.url = join(store, LOCK)
        self.token = uuid.uuid4().hex
        self._beats = 0
        self._taken_by: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="vbflows-lock", daemon=True)

    def check(self) -> None:
        """Raise `RunBusy` if another process has taken the run over meanwhile."""
        if self._taken_by is not None:
            raise RunBusy(
                f"run {self.run_id} was taken over by {self._taken_by} while this process did "
                "not answer"
            )

    def verify(self) -> None:
        """Read the lock and raise `RunBusy` if it belongs to another process by now.

        For what cannot be undone: a process that was suspended goes on before its next heartbeat.
        """
        self._look()
        self.check()

    def acquire(self, timeout: float) -> None:
        """Take the lock, or raise `RunBusy`."""
        _live.add(self.token)  # before another thread can read it
        try:
            created = create_bytes(self.url, self._content()) or self._is_ours()
            if not created:
                self.dead = self._await_end_of_holder(timeout)
                write_bytes(self.url, self._content())
            if not created or not is_local(self.url):
                self._confirm_last_writer()
        except BaseException:
            _live.discard(self.token)
            raise
        self._thread.start()

    def rename(self, run_id: str) -> None:
        """Say of which run it is."""
        self.run_id = run_id
        write_bytes(self.url, self._content())

    def stop_heartbeat(self) -> None:
        """End the heartbeat and keep the lock, for the moments until the folder is removed.

        A beat that is being written is waited for: it would make the folder again. It is written
        once, so it lasts no longer than one call of the store.
        """
        self._stop.set()
        self._thread.join()

    def release(self) -> None:
        """Give the lock back."""
        self.stop_heartbeat()
        _live.discard(self.token)
        with suppress(StorageError):
            if self._is_ours():
                delete(self.url)

    def _content(self) -> bytes:
        self._beats += 1
        return json_files.dumped(
            Holder(
                token=self.token,
                run_id=self.run_id,
                host=platform.node(),
                machine=_machine(),
                pid=os.getpid(),
                started=psutil.Process().create_time(),
                beats=self._beats,
                flow_run=self.flow_run,
            )
        )

    def _look(self) -> None:
        """Note who has taken the run over, if anyone."""
        holder = _read(self.url)
        if holder is not None and holder.token != self.token:
            self._taken_by = _name(holder)

    def _is_ours(self) -> bool:
        """Whether the lock that is there is this one: the answer to its writing may be lost."""
        holder = _read(self.url)
        return holder is not None and holder.token == self.token

    def _confirm_last_writer(self) -> None:
        time.sleep(SETTLE)
        holder = _read(self.url)
        if holder is None or holder.token != self.token:
            raise self._busy(holder)

    def _await_end_of_holder(self, timeout: float) -> Holder | None:
        """Return a holder that died, None where it has ended; raise `RunBusy` if it lives."""
        first = _read(self.url)
        if first is None:
            time.sleep(SETTLE)  # its writer may be between creating and filling it
            first = _read(self.url)
        if first is None or first.machine == _machine():
            if first is not None and _alive(first):
                raise self._busy(first)
            return first
        log.info(
            f"run {self.run_id} is locked by {_name(first)}; watching {timeout:.0f} s for its "
            "heartbeat"
        )
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            time.sleep(min(1.0, timeout / 10))
            now = _read(self.url)
            if now is None:
                return None
            if now != first:
                raise self._busy(now)
        return first

    def _busy(self, holder: Holder | None) -> RunBusy:
        run_id = self.run_id if holder is None else holder.run_id or self.run_id
        return RunBusy(f"run {run_id} is still going, in {_name(holder)}; wait for it to end")

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                with no_retry():
                    self._look()
                    if self._taken_by is not None:
                        return
                    write_bytes(self.url, self._content())
            except StorageError as error:
                log.warning(f"the heartbeat of run {self.run_id} could not be written: {error}")


@contextmanager
def claim(
    store: str, run_id: str, timeout: float = TIMEOUT, flow_run: str = "", alone: bool = False
) -> Iterator[Claim]:
    """Hold a run for the duration of a block; nested claims in one process are one.

    Parameters
    ----------
    store
        URL of the folder of the run, or of its target.
    run_id
        Name of the run, for messages.
    timeout
        Seconds to watch the heartbeat of a holder on another machine.
    flow_run
        Id of the Prefect flow run that holds it, for the one that finds it dead.
    alone
        Whether it is the outermost of its run: what this process holds is another thread's.

    Raises
    ------
    RunBusy
        If another process that is alive holds the run, or another thread.
    """
    if store in _held and not alone:
        yield _held[store]
        return
    claimed = Claim(store, run_id, flow_run)
    claimed.acquire(timeout)
    _held[store] = claimed
    try:
        yield claimed
    finally:
        del _held[store]
        claimed.release()


def stop_heartbeat(store: str) -> None:
    """End the heartbeat of a claim before its folder is removed: a beat would make it again."""
    if store in _held:
        _held[store].stop_heartbeat()


def _read(url: str) -> Holder | None:
    """Return what a lock says; None where there is none or it is unreadable."""
    try:
        return json_files.read(url, Holder, MOST)
    except TransientStorageError:
        raise
    except StorageError:
        return None


def _machine() -> str:
    """Name this machine and, within it, the space that process ids belong to."""
    parts = [platform.node()]
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        parts.append(file.read().strip())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return "|".join(parts)


def _alive(holder: Holder) -> bool:
    """Whether the process that wrote a lock on this machine is still the same one.

    One that this process gave back while storage did not answer is nobody's.
    """
    try:
        if holder.pid == os.getpid() and holder.token not in _live:
            return False
        process = psutil.Process(holder.pid)
        same = abs(process.create_time() - holder.started) < 1.0
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _name(holder: Holder | None) -> str:
    return "another process" if holder is None else f"process {holder.pid} on {holder.host}"
