"""The global parameters of the sweeps since the last checkpoint, for workers that must replay.

Small ones travel inside the orders and stay in the driver; no request to the store is made for
them. Only a worker that has lost a local state needs those of earlier sweeps: it says so, and they
are stored where it finds them. Large ones are stored once for all workers, at every sweep.
"""

from __future__ import annotations

from typing import Any

from flows.data.storage import delete, join, write_bytes
from flows.engine.block import COLD, Globals, globals_url
from vbmodels.core.state import nbytes, to_bytes

INSIDE = 8 * 2**20
"""Most bytes of global parameters in the orders of one sweep; Dask warns from 10 MiB on."""

HELD = 64 * 2**20
"""Most bytes that the driver holds of earlier sweeps; what is more is stored."""


class GlobalsLog:
    """The log of one executor.

    Parameters
    ----------
    folder
        URL of the folder for what is stored.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._held: dict[tuple[int, int], Globals] = {}  # by sweep and part
        self._bytes = 0
        self._stored: list[tuple[int, int]] = []
        self._maps = 0

    @property
    def whole(self) -> str | None:
        """The folder, if all that a worker can ask for stands in it."""
        return self.folder if self._stored and not self._held else None

    def place(
        self, q: Any, number: int | None, warm: int | None, blocks: int, group: int = 0
    ) -> dict[str, Any]:
        """Log a sweep's global parameters; return where its orders find them, as their fields.

        Parameters
        ----------
        number, warm
            The sweep and its start; without a number nothing is logged.
        blocks
            How many orders go out.
        group
            Which part of the sweep it is.
        """
        at, before = (COLD if n is None else n for n in (number, warm))
        logged = Globals(q, at, before)
        size = nbytes(q)
        if size * blocks <= INSIDE:
            if number is not None:
                self._hold((number, group), logged, size)
            return {"q": q}
        if number is None:
            self._maps += 1
            url = join(self.folder, f"globals-map-{self._maps:04d}.npz")
            write_bytes(url, to_bytes(logged), durable=False)
        else:
            url = self._store((number, group), logged)
        return {"place": url}

    def stored(self) -> str:
        """Store what is held; return the folder that has all of it."""
        for key, logged in self._held.items():
            self._store(key, logged)
        self._held.clear()
        self._bytes = 0
        return self.folder

    def forget(self, number: int) -> None:
        """Drop the sweeps up to one: a complete checkpoint stands in for them."""
        for old in [key for key in self._held if key[0] <= number]:
            self._bytes -= nbytes(self._held.pop(old).q)
        for old in [key for key in self._stored if key[0] <= number]:
            delete(globals_url(self.folder, *old))
            self._stored.remove(old)

    def _hold(self, key: tuple[int, int], logged: Globals, size: int) -> None:
        if self._bytes + size > HELD:
            self.stored()
        self._held[key] = logged
        self._bytes += size

    def _store(self, key: tuple[int, int], logged: Globals) -> str:
        url = globals_url(self.folder, *key)
        write_bytes(url, to_bytes(logged), durable=False)
        self._stored.append(key)
        return url
