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
        The local ``.bai``; `index_damage.damage_of` has found it whole.
    contig
        Number of the contig in the header.
    start, stop
        The region, from 0.
    """
    about = os.stat(index)
    linear = _linear(index, about.st_mtime_ns, about.st_size)[contig]
    reached = linear[start >> _WINDOW : ((stop - 1) >> _WINDOW) + 1]
    reached = reached[reached > 0]  # 0: no read overlaps the window
    return int(reached.min()) if reached.size else None


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
