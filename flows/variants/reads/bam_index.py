"""Where in a BAM the reads of a region begin, by its index.

A ``.bai`` (section 5.2 of the SAM specification) has the place of the first read that overlaps
each window of 2^14 positions; a ``.csi`` has that of each of its bins.
"""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BAI, CSI = b"BAI\x01", b"CSI\x01"
MOST_INDEX = 2**30  # bytes
_WINDOW = 14
_BAI_BINS = 37_449  # the number after them has counts


class Places(NamedTuple):
    """Virtual offsets of the first reads of a contig's windows or bins.

    ``starts``: where these begin, rising. ``offsets``: no read that overlaps such a start, or a
    later position, stands before; 0 is unknown. ``first``: that of the contig; 0 without reads.
    """

    starts: NDArray[np.int64]
    offsets: NDArray[np.uint64]
    first: int


def first_place(index: str, contig: int, start: int) -> int | None:
    """Return the virtual offset from which on a region's reads stand in a BAM.

    None: its contig has none.

    Parameters
    ----------
    index
        The local ``.bai`` or ``.csi``; `index_damage.damage_of` has found it whole.
    contig
        Number of the contig in the header.
    start
        The region's, from 0.
    """
    about = os.stat(index)
    places = _places(index, about.st_mtime_ns, about.st_size)[contig]
    reached = places.offsets[: np.searchsorted(places.starts, start, side="right")]
    return int(reached.max(initial=0)) or places.first or None


def content(index: str) -> bytes:
    """Return the bytes of a ``.bai``, or those that a ``.csi`` has packed.

    Raises
    ------
    ValueError
        If they are more than `MOST_INDEX`.
    OSError, EOFError, zlib.error
        If they cannot be unpacked.
    """
    if os.path.getsize(index) > MOST_INDEX:
        raise ValueError
    with open(index, "rb") as raw:
        if raw.read(4) == BAI:
            return BAI + raw.read()
    with gzip.open(index) as packed:
        data = packed.read(MOST_INDEX + 1)
    if len(data) > MOST_INDEX:
        raise ValueError
    return data


def first_bins(depth: int) -> NDArray[np.int64]:
    """Return the number of the first bin of each level, and of the level below the last."""
    return ((1 << 3 * np.arange(depth + 2)) - 1) // 7


@lru_cache(maxsize=64)
def _places(index: str, changed: int, size: int) -> tuple[Places, ...]:
    """Return the places of every contig; ``changed`` and ``size`` mark the version."""
    data = content(index)
    return tuple(places_of_bins(data) if data[:4] == CSI else _places_of_windows(data))


def _places_of_windows(data: bytes) -> Iterator[Places]:
    """Yield the places of every contig of a ``.bai``."""
    data += bytes(8)  # behind a last bin without chunks
    (contigs,) = struct.unpack_from("<i", data, 4)
    at, bin_of = 8, struct.Struct("<IiQ").unpack_from
    for _ in range(contigs):
        (bins,) = struct.unpack_from("<i", data, at)
        at += 4
        first = 0
        for _ in range(bins):
            number, chunks, place = bin_of(data, at)
            at += 8 + 16 * chunks
            if chunks and number < _BAI_BINS:
                first = min(first or place, place)
        (windows,) = struct.unpack_from("<i", data, at)
        offsets = np.array(struct.unpack_from(f"<{windows}Q", data, at + 4), np.uint64)
        yield Places(np.arange(windows) << _WINDOW, offsets, first)
        at += 4 + 8 * windows


def places_of_bins(data: bytes) -> Iterator[Places]:
    """Yield the places of every contig of a ``.csi``."""
    data += bytes(8)  # behind a last bin without chunks
    shift, depth, aux = struct.unpack_from("<3i", data, 4)
    firsts = first_bins(depth)
    at, bin_of = 16 + aux, struct.Struct("<IQiQ").unpack_from
    (contigs,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(contigs):
        (bins,) = struct.unpack_from("<i", data, at)
        at += 4
        numbers, offsets, first = [], [], 0
        for _ in range(bins):
            number, offset, chunks, place = bin_of(data, at)
            at += 16 + 16 * chunks
            if chunks and number < firsts[-1]:
                numbers.append(number)
                offsets.append(offset)
                first = min(first or place, place)
        bin_ids = np.array(numbers, np.int64)
        level = np.searchsorted(firsts, bin_ids, side="right") - 1
        starts = (bin_ids - firsts[level]) << (shift + 3 * (depth - level))
        places = np.array(offsets, np.uint64)
        order = np.lexsort((places, starts))
        yield Places(starts[order], places[order], first)
