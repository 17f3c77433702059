"""What a worker remembers between sweeps: data and local states, within a stated memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

from flows.data.storage import seal, unsealed
from vbmodels.core.state import State, aligned, from_bytes, nbytes, to_bytes

Key = tuple[str, int]  # attempt, partition


@dataclass
class _Spilled:
    """A local state that is on the local disk because memory is full."""

    path: str


@dataclass
class Counts:
    """How often the cache answered, for tests and reports."""

    data_hits: int = 0
    data_misses: int = 0
    spilled: int = 0
    peak: int = 0  # bytes
    notes: list[str] = field(default_factory=list)


class Cache:
    """Data and the local states of the last two sweeps, of at most ``memory`` bytes.

    A sweep reads partitions in a circle, where evicting the least recently used one drops
    just the one that is needed next. So data give way only if they were used neither in
    this sweep nor in the one before; a partition that finds no room is read again when its
    turn comes.
    Local states come first: they push data out, and go to the local disk when they alone
    are too large. They are never dropped while they are one of the last two.

    Parameters
    ----------
    memory
        Largest number of bytes held; by default half of what this process may use.
    limit
        The memory limit of the whole process in bytes, for messages.
    folder
        Where local states that do not fit are written; by default a temporary folder.
    """

    def __init__(
        self, memory: int | None = None, limit: int | None = None, folder: str | None = None
    ) -> None:
        total = available_memory()
        self.memory = total // 2 if memory is None else memory
        self.limit_text = f"limit {(limit or total) / 2**20:.0f} MB"
        self.counts = Counts()
        self._folder = folder
        self._spill: str | None = None
        self._lock = threading.RLock()
        self._held = 0
        self._attempt = ""
        self._round = -1
        self._data: OrderedDict[Key, tuple[State, int, int]] = OrderedDict()  # state, bytes, round
        self._locals: dict[Key, dict[int, tuple[Any, int]]] = {}  # by sweep: state, bytes
        self._globals: OrderedDict[str, Any] = OrderedDict()
        self._serial = 0

    @property
    def held(self) -> int:
        """Bytes held in memory."""
        return self._held

    def note(self, line: str) -> None:
        """Remember a line for the log of whoever ordered the work."""
        with self._lock:
            self.counts.notes.append(line)

    def take_notes(self) -> list[str]:
        """Return the lines remembered so far, and forget them."""
        with self._lock:
            notes, self.counts.notes = self.counts.notes, []
            return notes

    def globals(self, url: str, read: Callable[[], Any]) -> Any:
        """Return logged global parameters, remembering the last few."""
        with self._lock:
            if url in self._globals:
                self._globals.move_to_end(url)
                return self._globals[url]
        value = read()
        with self._lock:
            self._globals[url] = value
            while len(self._globals) > 3:
                self._globals.popitem(last=False)
        return value

    def begin_sweep(self, attempt: str, number: int, warm: int | None) -> None:
        """Start a sweep: local states before ``warm`` cannot be needed any more."""
        with self._lock:
            if attempt == self._attempt and number <= self._round:
                return
            self._attempt, self._round = attempt, number
            for key, states in self._locals.items():
                if key[0] == attempt and warm is not None:
                    for old in [n for n in states if n < warm]:
                        self._forget_local(key, old)

    def get_data(self, attempt: str, index: int) -> Any:
        """Return a partition's data, or None if they must be read."""
        with self._lock:
            key = (attempt, index)
            if key not in self._data:
                self.counts.data_misses += 1
                return None
            self.counts.data_hits += 1
            batch, size, _ = self._data[key]
            self._data[key] = (batch, size, self._round)
            self._data.move_to_end(key)
            return batch

    def put_data(self, attempt: str, index: int, batch: State) -> None:
        """Keep a partition's data if there is room, or if something older can go."""
        size = nbytes(batch)
        with self._lock:
            self._forget_data((attempt, index))
            while self._held + size > self.memory and self._data:
                key, (_, _, used) = next(iter(self._data.items()))
                if key[0] == attempt and used >= self._round - 1:
                    return
                self._forget_data(key)
            if self._held + size <= self.memory:
                self._data[attempt, index] = (batch, size, self._round)
                self._hold(size)

    def get_local(self, attempt: str, index: int, number: int) -> tuple[bool, Any]:
        """Return (whether it is known, the local state) of a partition after a sweep."""
        with self._lock:
            states = self._locals.get((attempt, index), {})
            if number not in states:
                return False, None
            value = states[number][0]
            if isinstance(value, _Spilled):
                with open(value.path, "rb") as file:
                    data = unsealed(file.read(), value.path)
                return True, aligned(from_bytes(data, State, value.path))
            return True, value

    def put_local(
        self, attempt: str, index: int, number: int, local: Any, keep: int | None = None
    ) -> None:
        """Keep a partition's local state after a sweep.

        With ``keep`` (a sweep's result) only sweep ``keep`` stays beside it.
        """
        size = nbytes(local) if isinstance(local, State) else 0
        key = (attempt, index)
        with self._lock:
            for old in list(self._locals.get(key, {})):
                if old == number or (keep is not None and old != keep):
                    self._forget_local(key, old)
            self._make_room(size, attempt)
            held: Any = local
            if size and self._held + size > self.memory:
                held, size = self._write(local), 0
            self._locals.setdefault(key, {})[number] = (held, size)
            self._hold(size)

    def forget(self, attempt: str) -> None:
        """Drop all that is held of one attempt."""
        with self._lock:
            for key in [k for k in self._data if k[0] == attempt]:
                self._forget_data(key)
            for key in [k for k in self._locals if k[0] == attempt]:
                for number in list(self._locals[key]):
                    self._forget_local(key, number)
                del self._locals[key]

    def _make_room(self, size: int, attempt: str) -> None:
        while self._held + size > self.memory and self._data:
            self._forget_data(next(iter(self._data)))
        if self._held + size > self.memory:
            for key in [k for k in self._locals if k[0] != attempt]:
                for number in list(self._locals[key]):
                    self._forget_local(key, number)
                del self._locals[key]

    def _hold(self, size: int) -> None:
        self._held += size
        self.counts.peak = max(self.counts.peak, self._held)

    def _forget_data(self, key: Key) -> None:
        entry = self._data.pop(key, None)
        if entry is not None:
            self._held -= entry[1]

    def _forget_local(self, key: Key, number: int) -> None:
        value, size = self._locals[key].pop(number)
        self._held -= size
        if isinstance(value, _Spilled):
            os.remove(value.path)

    def _write(self, local: State) -> _Spilled:
        if self._spill is None:
            self._spill = tempfile.mkdtemp(prefix="vbflows-", dir=self._folder)
            weakref.finalize(self, shutil.rmtree, self._spill, ignore_errors=True)
        self._serial += 1
        self.counts.spilled += 1
        path = os.path.join(self._spill, f"{self._serial}.npz")
        with open(path, "wb") as file:
            data = to_bytes(local)
            file.write(data + seal(data))
        return _Spilled(path)


def available_memory() -> int:
    """Return the bytes that this process may use: the machine's, or its container's limit."""
    total = int(psutil.virtual_memory().total)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            total = min(total, int(file.read()))
    return total
