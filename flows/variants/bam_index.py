"""Where in a BAM the reads of a region begin: the linear part of its index (.bai).

Section 5.2 of the SAM specification: for windows of 2^14 positions, the place of the first read
that overlaps each.
"""

from __future__ import annotations

import os
import struct
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_WINDOW = 14
Offsets = NDArray[np.uint64]


def first_place(index: str, contig: int, start: int, stop: int) -> int | None:
    """Return the virtual offset from which on a region's reads stand in a BAM; None: it has none.

    Parameters
    ----------
    index
        The local ``.bai``; `alignment_index.damage_of` has found it whole.
    contig
        Number of the contig in the header.
    start, stop
        The region, from 0.
    """
    about = os.stat(index)
    windows = _linear(index, about.st_mtime_ns, about.st_size)[contig]
    reached = windows[start >> _WINDOW : ((stop - 1) >> _WINDOW) + 1]
    reached = reached[reached > 0]  # 0: no read overlaps the window
    return int(reached.min()) if reached.size else None


def bytes_of_windows(index: str, size: int) -> list[NDArray[np.float64]]:
    """Return how many bytes of a BAM of some size lie in every window, contig by contig."""
    about = os.stat(index)
    found: list[NDArray[np.float64]] = []
    behind = float(size)  # where what comes next begins
    for windows in reversed(_linear(index, about.st_mtime_ns, about.st_size)):
        begin = (windows >> np.uint64(16)).astype(float)
        begin[windows == 0] = np.inf  # no read overlaps the window
        begin = np.minimum.accumulate(np.append(begin, behind)[::-1])[::-1]
        found.append(np.diff(begin))
        behind = float(begin[0])
    return found[::-1]


@lru_cache(maxsize=64)
def _linear(index: str, changed: int, size: int) -> tuple[Offsets, ...]:
    """Return the offsets of every contig's windows; ``changed`` and ``size`` mark the version."""
    with open(index, "rb") as file:
        data = file.read()
    (contigs,) = struct.unpack_from("<i", data, 4)
    at, found = 8, []
    for _ in range(contigs):
        (bins,) = struct.unpack_from("<i", data, at)
        at += 4
        for _ in range(bins):
            (chunks,) = struct.unpack_from("<i", data, at + 4)
            at += 8 + 16 * chunks
        (windows,) = struct.unpack_from("<i", data, at)
        found.append(np.frombuffer(data, "<u8", windows, at + 4).copy())
        at += 4 + 8 * windows
    return tuple(found)
