"""What a compressed input grows to: refused by its size before memory or disk are taken.

``VBFLOWS_INPUT_GIB`` says how many GiB one input file may have once it is decompressed. Without
it a file of more than 256 MiB may grow to 200 times its own size, and arrays that are held whole
may take half of the free memory.
"""

from __future__ import annotations

import math
import os
import zipfile
from typing import IO

import numpy as np
import psutil

from flows.data.storage.errors import StorageError
from flows.data.storage.urls import shown

RATIO = 200  # times a compressed file's own size
FREE = 256 * 2**20  # bytes that any file may grow to
SHARE = 0.5  # of the free memory, for what is held whole
SETTING = "VBFLOWS_INPUT_GIB"


class Expansion:
    """The bytes that one input file has grown to while it is read."""

    def __init__(self, url: str, packed: int, held: bool = False) -> None:
        self.url, self.packed, self.size = url, packed, 0
        chosen = bytes_set(SETTING, f"read {shown(url)}")
        self.limit = max(RATIO * packed, FREE) if chosen is None else chosen
        self.memory = psutil.virtual_memory().available * SHARE if held else math.inf
        if chosen is not None:
            self.memory = math.inf

    def add(self, size: int) -> None:
        """Count bytes.

        Raises `StorageError` if the file grows beyond its limit.
        """
        self.size += size
        limit = min(self.limit, self.memory)
        if self.size <= limit:
            return
        why = (
            "half of the free memory"
            if self.memory < self.limit
            else f"the limit for a file of {bytes_in_words(self.packed)}"
        )
        raise StorageError(
            f"cannot read {shown(self.url)}: it grows to more than {bytes_in_words(limit)} when it "
            f"is decompressed, {why}; if it is meant to, set {SETTING} to the GiB that one input "
            "file may grow to"
        )


def refuse_large_archive(url: str, file: IO[bytes], packed: int) -> None:
    """Raise `StorageError` if the arrays of an ``.npz`` are too large; nothing is decompressed.

    NumPy allocates what the header of an array says, whatever the archive's directory says of it.
    """
    expansion = Expansion(url, packed, held=True)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as stored:
                expansion.add(max(member.file_size, _array_bytes(stored)))


def _array_bytes(stored: IO[bytes]) -> int:
    """Return the bytes of an array by its header; 0 where it is none."""
    try:
        version = np.lib.format.read_magic(stored)
        read = np.lib.format.read_array_header_1_0
        # From version 3 on the names of fields are UTF-8; the layout is that of version 2.
        read = read if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stored)
    except ValueError:
        return 0
    return math.prod(shape) * dtype.itemsize


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
