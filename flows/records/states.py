"""Stored states as they are read back: damage is one sentence that names the file."""

from __future__ import annotations

from typing import TypeVar

from flows.storage import DamagedError, read_bytes
from vbmodels.core.state import State, StateError, from_bytes

S = TypeVar("S", bound=State)


def read_state(url: str, kind: type[S]) -> S:
    """Read what `vbmodels.core.state.to_bytes` made of a state.

    Raises `DamagedError` if the file is cut short, changed, or holds something else.
    """
    return state_of(read_bytes(url), kind, url)


def state_of(data: bytes, kind: type[S], url: str) -> S:
    """Return the state that a file's bytes hold; see `read_state`."""
    try:
        return from_bytes(data, kind, url)
    except StateError as error:
        raise DamagedError(" ".join(str(error).split())[:500], url) from error
