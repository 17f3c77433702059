"""Whether the index of a BAM is whole, before htslib trusts it: a damaged one can end or hang it.

The layout of BAI is that of section 5.2 of the SAM specification, of CSI that of its own.
"""

from __future__ import annotations

import os
import struct
from typing import Any

import pysam

_BAI, _CSI = b"BAI\x01", b"CSI\x01"
MOST_INDEX = 2**30  # bytes
_MOST_INTERVALS = 2**17
_MOST_BAI_BIN = 37_450  # the last one holds counts, not places


def damage_of(index: str, file: str, references: int) -> str | None:
    """Say what is wrong with the index of a BAM; None if nothing is.

    Parameters
    ----------
    index
        A local ``.bai`` or ``.csi``.
    file
        The local BAM that it is of.
    references
        How many reference sequences the BAM's header has.
    """
    size = os.path.getsize(file)
    try:
        data = _content(index)
        if data[:4] == _BAI:
            return _walk(data, 4, size, references, _MOST_BAI_BIN, linear=True)
        if data[:4] == _CSI:
            return _csi(data, size, references)
    except (struct.error, OSError, ValueError):
        return "an index that ends too early"
    return "what is no index of a BAM"


def _content(index: str) -> bytes:
    if os.path.getsize(index) > MOST_INDEX:
        raise ValueError
    with open(index, "rb") as raw:
        if raw.read(4) == _BAI:
            return _BAI + raw.read()
    opened: Any = pysam.BGZFile  # its stub asks for an index
    with opened(index, "rb") as packed:
        content: bytes = packed.read(MOST_INDEX)
    return content


def _csi(data: bytes, size: int, references: int) -> str | None:
    shift, depth, aux = struct.unpack_from("<3i", data, 4)
    if not (1 <= shift <= 31 and 0 <= depth <= 10 and aux >= 0):
        return f"levels that no index has ({shift}, {depth})"
    most = ((1 << 3 * (depth + 1)) - 1) // 7 + 1
    return _walk(data, 16 + aux, size, references, most, linear=False)


def _walk(
    data: bytes, at: int, size: int, references: int, most_bin: int, *, linear: bool
) -> str | None:
    (count,) = struct.unpack_from("<i", data, at)
    if count != references:
        return f"an index of {count:,} reference sequences where the header has {references:,}"
    at += 4
    head = struct.Struct("<Ii" if linear else "<IQi")
    for _ in range(count):
        (bins,) = struct.unpack_from("<i", data, at)
        at += 4
        if not 0 <= bins <= most_bin + 1:
            return f"a reference sequence of {bins:,} bins"
        seen = set()
        for _ in range(bins):
            number, *first, chunks = head.unpack_from(data, at)
            at += head.size
            if any(offset >> 16 > size for offset in first):
                return "places that the file does not have"
            if number > most_bin or number in seen or chunks < 0:
                return f"an odd bin ({number}, {chunks:,} chunks)"
            seen.add(number)
            places = struct.unpack_from(f"<{2 * chunks}Q", data, at)
            at += 16 * chunks
            begins, ends = places[::2], places[1::2]
            if number == most_bin:  # places once, then numbers of reads
                begins, ends = begins[:1], ends[:1]
            if any(b > e or e >> 16 > size for b, e in zip(begins, ends, strict=True)):
                return "places that the file does not have"
        if linear:
            (intervals,) = struct.unpack_from("<i", data, at)
            at += 4
            if not 0 <= intervals <= _MOST_INTERVALS:
                return f"{intervals:,} intervals of a reference sequence"
            offsets = struct.unpack_from(f"<{intervals}Q", data, at)
            at += 8 * intervals
            if any(offset >> 16 > size for offset in offsets):
                return "places that the file does not have"
    return None if len(data) - at in (0, 8) else "more or less than its parts say"
