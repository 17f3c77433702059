"""What was last made of each partition of bags; a memory, never a meaning."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass
class Memory(Generic[T]):
    """The last thing that was made of each batch, under its key.

    Entries go with their batch, and when another key is requested.
    """

    kept: dict[int, tuple[bytes, T]] = field(default_factory=dict)

    def of(self, batch: Any, key: bytes, make: Callable[[], T]) -> T:
        """Return what is made of a batch under this key, from memory where it is."""
        known = self.kept.get(id(batch))
        if known is not None and known[0] == key:
            return known[1]
        made = make()
        if id(batch) not in self.kept:
            weakref.finalize(batch, self.kept.pop, id(batch), None)
        self.kept[id(batch)] = (key, made)
        return made
