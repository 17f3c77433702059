"""The index of a BAM or CRAM: where the reads of a region begin, and whether it is whole.

A ``.bai`` (section 5.2 of the SAM specification) has the place of the first read that overlaps
each window of 2^14 positions; a ``.csi`` has that of each of its bins. A damaged one can end the
process, or lose reads: htslib opens the index with the file, and takes its numbers as they are. So
it is looked at before htslib loads it. CSI and CRAI have specifications of their own.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pysam
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


_BAM = b"BAM\x01"
_MOST_INTERVALS = 2**17
_MOST_LEVELS = 9  # htslib counts more bins than these have in too small a number
_MOST_BAI_BIN = 37_450  # the last one holds counts, not places
_MOST_CONTIGS = 2**24  # of a CRAM, whose header is not read here
_MOST_READS = 64  # in a byte of a file: more than its packing can hold
_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_CRAM_END = 38  # bytes of the last container of CRAM 3; that of CRAM 2.1 has 30
_ELSEWHERE = "places that the file does not have"
_TOO_MANY = "more reads than the file can hold"


class DamagedIndex(OSError):
    """An index that cannot be loaded.

    ``index``: its path. ``damage``: what is wrong with it.
    """

    def __init__(self, index: str, damage: str) -> None:
        super().__init__(f"its index {os.path.basename(index)} is damaged: {damage}")
        self.index, self.damage = index, damage


def refuse_damaged(index: str, file: str) -> None:
    """Look at an index, once for each version of it.

    Raises
    ------
    DamagedIndex
        If anything is wrong with it.
    OSError
        If that is because the file itself was cut short.
    """
    about = os.stat(index)
    damage = _damage(index, file, about.st_mtime_ns, about.st_size, os.path.getsize(file))
    if damage is not None:
        if is_cut(file):
            kind = "CRAM" if index.endswith(".crai") else "BGZF"
            raise OSError(f"no {kind} EOF marker; file may be truncated")
        raise DamagedIndex(index, damage)


def is_cut(file: str) -> bool:
    """Return whether a BAM or CRAM lacks its end; its index then has places beyond that.

    A BAM ends with an empty block, a CRAM with a container that spells EOF.
    """
    with open(file, "rb") as raw:
        cram = raw.read(4) == b"CRAM"
        raw.seek(max(os.path.getsize(file) - (_CRAM_END if cram else len(_END)), 0))
        end = raw.read()
    return b"\xe0EOF" not in end if cram else end != _END


@lru_cache(maxsize=4096)
def _damage(index: str, file: str, changed: int, size: int, size_of_file: int) -> str | None:
    return damage_of(index, file)


def damage_of(index: str, file: str) -> str | None:
    """Say what is wrong with an index; None if nothing is.

    ``index``: a local ``.bai``, ``.csi`` or ``.crai``. ``file``: the local BAM or CRAM that it is
    of.
    """
    size = os.path.getsize(file)
    try:
        if index.endswith(".crai"):
            return _crai(index, size)
        data = content(index)
        if data[:4] == BAI:
            return _walk(data, 4, size, _references(file), _MOST_BAI_BIN, linear=True)
        if data[:4] == CSI:
            return _csi(data, size, _references(file))
    except (struct.error, OSError, ValueError, EOFError, zlib.error):
        return "an index that ends too early"
    return "what is no index of a BAM"


def _references(file: str) -> NDArray[np.int64] | None:
    """Return the lengths of the references in the header of a BAM; None where it has no header."""
    opened: Any = pysam.BGZFile  # its stub asks for an index
    try:
        with opened(file, "rb") as packed:
            magic, length = struct.unpack("<4si", packed.read(8))
            if magic != _BAM or not 0 <= length <= MOST_INDEX:
                return None
            if len(packed.read(length)) < length:
                return None
            (count,) = struct.unpack("<i", packed.read(4))
            lengths: list[int] = []
            for _ in range(count):
                (name,) = struct.unpack("<i", packed.read(4))
                if not 0 < name <= MOST_INDEX:
                    return None
                packed.read(name)
                lengths += struct.unpack("<i", packed.read(4))
    except (OSError, struct.error):
        return None  # htslib says what is wrong with the file
    return np.array(lengths, np.int64)


def _crai(index: str, size: int) -> str | None:
    """Look at lines of contig, start, span, a container's place, a slice's place in it and size."""
    with open(index, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    opened: Any = gzip.open if packed else open
    with opened(index, "rb") as file:
        content: bytes = file.read(MOST_INDEX)
    for number, line in enumerate(content.splitlines(), 1):
        fields = line.split(b"\t")
        if len(fields) != 6 or not all(field.lstrip(b"-").isdigit() for field in fields):
            return f"line {number}, not of six numbers"
        contig, start, span, container, place, length = map(int, fields)
        if not -2 <= contig < _MOST_CONTIGS or not (0 <= start < 2**40 and 0 <= span < 2**40):
            return f"line {number}, of positions that no contig has"
        if min(container, place, length) < 0 or container + place + length > size:
            return _ELSEWHERE
    return None


def _csi(data: bytes, size: int, references: NDArray[np.int64] | None) -> str | None:
    shift, depth, aux = struct.unpack_from("<3i", data, 4)
    if not (1 <= shift <= 31 and 0 <= depth <= _MOST_LEVELS and aux >= 0):
        return f"levels that no index has ({shift}, {depth})"
    longest = 0 if references is None else int(references.max(initial=0))
    if longest > 1 << (shift + 3 * depth):
        return f"levels for {1 << (shift + 3 * depth):,} positions of a contig of {longest:,}"
    most = int(first_bins(depth)[-1]) + 1
    damage = _walk(data, 16 + aux, size, references, most, linear=False)
    if damage is None and not all(_rises(of.offsets) for of in places_of_bins(data)):
        return "bins out of order"
    return damage


def _rises(offsets: NDArray[np.uint64]) -> bool:
    known = offsets[offsets > 0]
    return bool(np.all(known[:-1] <= known[1:]))


def _walk(
    data: bytes,
    at: int,
    size: int,
    references: NDArray[np.int64] | None,
    most_bin: int,
    *,
    linear: bool,
) -> str | None:
    (count,) = struct.unpack_from("<i", data, at)
    if count < 0 or (references is not None and count != len(references)):
        header = "" if references is None else f" where the header has {len(references):,}"
        return f"an index of {count:,} reference sequences{header}"
    at += 4
    head = struct.Struct("<Ii" if linear else "<IQi")
    for _ in range(count):
        (bins,) = struct.unpack_from("<i", data, at)
        at += 4
        if not 0 <= bins <= most_bin + 1:
            return f"a reference sequence of {bins:,} bins"
        seen = set()
        mapped = 0
        firsts: list[int] = []  # places of the first reads of bins, or of windows
        begins: list[int] = []
        ends: list[int] = []
        for _ in range(bins):
            number, *first, chunks = head.unpack_from(data, at)
            at += head.size
            summary = number == most_bin  # places once, then numbers of reads
            unknown = number > most_bin or number == most_bin - 1 or number in seen
            if unknown or chunks < 0 or (summary and chunks != 2):
                return f"an odd bin ({number}, {chunks:,} chunks)"
            seen.add(number)
            places = struct.unpack_from(f"<{2 * chunks}Q", data, at)
            at += 16 * chunks
            if summary:
                if max(places[2:]) > _MOST_READS * size:
                    return _TOO_MANY
                mapped, places = places[2], places[:2]
            else:
                firsts += first
                begins += places[::2]
                ends += places[1::2]
            if any(b > e or e >> 16 > size for b, e in zip(places[::2], places[1::2], strict=True)):
                return _ELSEWHERE
        if linear:
            (intervals,) = struct.unpack_from("<i", data, at)
            at += 4
            if not 0 <= intervals <= _MOST_INTERVALS:
                return f"{intervals:,} intervals of a reference sequence"
            firsts = list(struct.unpack_from(f"<{intervals}Q", data, at))
            at += 8 * intervals
            if not _rises(np.array(firsts, np.uint64)):
                return "windows out of order"
        if mapped and not any(firsts):
            return "reads without their places"
        known = [first for first in firsts if first]
        if known and not (begins and min(begins) <= min(known) and max(known) < max(ends)):
            return "first reads where there are none"
    rest = len(data) - at
    if rest == 8 and struct.unpack_from("<Q", data, at)[0] > _MOST_READS * size:
        return _TOO_MANY
    return None if rest in (0, 8) else "more or less than its parts say"
