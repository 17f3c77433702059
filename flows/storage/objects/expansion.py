"""What a compressed input grows to: refused by its size before memory or disk are taken.

``VBFLOWS_INPUT_GIB`` says how many GiB one input file may have once it is decompressed. Without
it a file of more than 256 MiB may grow to 200 times its own size.
"""

from __future__ import annotations

import math
import os

from flows.storage.errors import StorageError, cannot_read
from flows.storage.objects.urls import shown

RATIO = 200  # times a compressed file's own size
FREE = 256 * 2**20  # bytes that any file may grow to
SETTING = "VBFLOWS_INPUT_GIB"


class Expansion:
    """The bytes that one input file has grown to while it is read."""

    def __init__(self, url: str, packed: int) -> None:
        self.url, self.packed, self.size = url, packed, 0
        chosen = bytes_set(SETTING, f"read {shown(url)}")
        self.limit = max(RATIO * packed, FREE) if chosen is None else chosen

    def add(self, size: int) -> None:
        """Count bytes.

        Raises `StorageError` if the file grows beyond its limit.
        """
        self.size += size
        if self.size <= self.limit:
            return
        raise cannot_read(
            shown(self.url),
            f"it grows to more than {bytes_in_words(self.limit)} "
            f"when decompressed, the limit for a file of {bytes_in_words(self.packed)}; if that "
            f"is meant, raise {SETTING} (GiB)",
        )


def bytes_set(setting: str, doing: str) -> float | None:
    """Return the bytes that an environment variable says in GiB; None where it says nothing.

    Raises `StorageError` where that is no number above 0; ``doing`` is what cannot be done then.
    """
    given = os.environ.get(setting)
    if given is None:
        return None
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not limit > 0.0:
        raise StorageError(
            f"cannot {doing}: expected a number of GiB above 0 in {setting}, found {given!r}"
        )
    return limit * 2**30


def bytes_in_words(size: float) -> str:
    """Say how much that is."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
