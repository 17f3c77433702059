"""Where in a BAM the reads of a region begin: the linear part of its index (.bai).

Section 5.2 of the SAM specification: for windows of 2^14 positions, the place of the first read
that overlaps each. And cutting the positions of a sample sheet by depth, by how many bytes of reads
lie in each window, so that a deep amplicon is shared by workers.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flows.variants.alignments import indexed_alignment, open_alignment, own_index, quiet
from flows.variants.regions import Region, in_file, window_of, windows
from flows.variants.settings import VariantSettings
from vbmodels.core.state import FloatArray, IntArray

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


def bytes_of_windows(index: str, size: int) -> list[NDArray[np.float64]]:
    """Return how many bytes of a BAM of some size lie in every window, contig by contig."""
    about = os.stat(index)
    found: list[NDArray[np.float64]] = []
    behind = float(size)  # where what comes next begins
    for linear in reversed(_linear(index, about.st_mtime_ns, about.st_size)):
        begin = (linear >> np.uint64(16)).astype(float)
        begin[linear == 0] = np.inf  # no read overlaps the window
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


def boundaries(
    wanted: Sequence[Region], paths: Sequence[str], parts: int, settings: VariantSettings
) -> list[int]:
    """Return where parts of the positions of all regions, laid end to end, begin, and the end.

    Half of a part's share is by positions and half by bytes of reads, so none has more than twice
    the mean of either, but for what one position has.

    Parameters
    ----------
    wanted
        The regions.
    paths
        The BAM and CRAM files; those without a ``.bai`` do not count.
    parts
        Number of parts, at most as many as positions.
    settings
        How contigs are named.
    """
    pieces = [piece for region in wanted for piece in windows(region, always=True)]
    length = np.array([piece.length for piece in pieces], np.int64)
    size = np.zeros(len(pieces))
    for path in paths:
        size += _bytes(path, pieces, length, settings)
    return cut(length, size, parts)


def cut(length: IntArray, size: FloatArray, parts: int) -> list[int]:
    """Return where parts begin, and the end, over pieces of so many positions and bytes each.

    >>> cut(np.array([100, 100]), np.array([0.0, 0.0]), 4)
    [0, 50, 100, 150, 200]
    >>> cut(np.array([100, 100]), np.array([0.0, 9e6]), 4)
    [0, 100, 134, 167, 200]
    """
    total = int(length.sum())
    weight = length / total + (size / size.sum() if size.sum() > 0 else length / total)
    at = np.concatenate([[0.0], np.cumsum(weight)])
    wanted = np.arange(1, parts) / parts * at[-1]
    found = np.ceil(np.interp(wanted, at, np.concatenate([[0], np.cumsum(length)])) - 1e-9)
    edges = [0]
    for i, edge in enumerate(found.astype(int), 1):  # at least a position to each
        edges.append(min(max(int(edge), edges[-1] + 1), total - (parts - i)))
    return [*edges, total]


def _bytes(
    path: str, pieces: Sequence[Region], length: IntArray, settings: VariantSettings
) -> FloatArray:
    """Return the bytes of each piece; those of a window are shared by its positions."""
    local = indexed_alignment(path)
    index = own_index(local)
    if index is None or not index.endswith(".bai"):
        return np.zeros(len(pieces))
    with quiet(), open_alignment(path, settings) as file:
        names = {p.contig: in_file(p.contig, file.references) for p in pieces}
        contigs = {contig: file.get_tid(str(name)) for contig, name in names.items()}
    of = bytes_of_windows(index, os.path.getsize(local))
    found = np.zeros(len(pieces))
    where: dict[tuple[int, int], list[int]] = {}
    for i, piece in enumerate(pieces):
        where.setdefault((contigs[piece.contig], window_of(piece)), []).append(i)
    for (contig, window), own in where.items():
        if 0 <= contig < len(of) and window < len(of[contig]):
            found[own] = of[contig][window] * length[own] / length[own].sum()
    return found
