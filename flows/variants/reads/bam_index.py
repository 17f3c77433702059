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
_BAI_DEPTH = 5


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
        The local ``.bai`` or ``.csi``; `damage_of` has found it whole.
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
    parsed = _Index(content(index))
    return tuple(contig.places(parsed) for contig in parsed.contigs())


_BAM = b"BAM\x01"
_MOST_INTERVALS = 2**17
_MOST_LEVELS = 9  # htslib counts more bins than these have in too small a number
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
        if data[:4] not in (BAI, CSI):
            return "what is no index of a BAM"
        _check(_Index(data), size, _references(file))
    except _Damage as damage:
        return str(damage)
    except (struct.error, OSError, ValueError, EOFError, zlib.error):
        return "an index that ends too early"
    return None


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


class _Damage(Exception):
    """What is wrong with an index."""


class _Index:
    """A ``.bai`` or ``.csi``, read number by number.

    Attributes
    ----------
    shift, depth
        Bits of a position within a bin of the last level, and the levels below the first.
    bins
        Number of bins; that of the next but one has numbers of reads.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, len(BAI)
        self.has_windows = data[: self.at] == BAI
        self.shift, self.depth, aux = _WINDOW, _BAI_DEPTH, 0
        if not self.has_windows:
            self.shift, self.depth, aux = self.take("3i")
        if not (1 <= self.shift <= 31 and 0 <= self.depth <= _MOST_LEVELS and aux >= 0):
            raise _Damage(f"levels that no index has ({self.shift}, {self.depth})")
        self.at += aux
        self.bins = int(first_bins(self.depth)[-1])

    def take(self, form: str) -> tuple[int, ...]:
        """Return the next numbers."""
        numbers = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return numbers

    def contigs(self) -> Iterator[_Contig]:
        """Yield what is said of each reference sequence."""
        for _ in range(self.take("i")[0]):
            yield _Contig(self)


class _Contig:
    """The bins of one reference sequence, and its windows.

    Attributes
    ----------
    numbers, chunks
        Of each bin with places its number, and begin and end of each of its chunks.
    firsts
        Places of the first reads of bins, or of windows where an index has these.
    summary
        Begin and end of all, then numbers of reads; none where it is not there.
    """

    def __init__(self, index: _Index) -> None:
        self.numbers: list[int] = []
        self.chunks: list[tuple[int, ...]] = []
        self.firsts: list[int] = []
        self.summary: tuple[int, ...] = ()
        (bins,) = index.take("i")
        if not 0 <= bins <= index.bins + 2:
            raise _Damage(f"a reference sequence of {bins:,} bins")
        head = "Ii" if index.has_windows else "IQi"
        seen = set[int]()
        for _ in range(bins):
            number, *first, chunks = index.take(head)
            summary = number == index.bins + 1  # places once, then numbers of reads
            unknown = number > index.bins + 1 or number == index.bins or number in seen
            if unknown or chunks < 0 or (summary and chunks != 2):
                raise _Damage(f"an odd bin ({number}, {chunks:,} chunks)")
            seen.add(number)
            places = index.take(f"{2 * chunks}Q")
            if summary:
                self.summary = places
            else:
                self.numbers.append(number)
                self.chunks.append(places)
                self.firsts += first
        if index.has_windows:
            (windows,) = index.take("i")
            if not 0 <= windows <= _MOST_INTERVALS:
                raise _Damage(f"{windows:,} intervals of a reference sequence")
            self.firsts = list(index.take(f"{windows}Q"))

    def places(self, index: _Index) -> Places:
        """Return where its reads begin."""
        first = min((chunks[0] for chunks in self.chunks if chunks and chunks[0]), default=0)
        if index.has_windows:
            starts = np.arange(len(self.firsts)) << _WINDOW
            return Places(starts, np.array(self.firsts, np.uint64), first)
        has_chunks = np.array([len(chunks) > 0 for chunks in self.chunks], bool)
        offsets = np.array(self.firsts, np.uint64)[has_chunks]
        bins = np.array(self.numbers, np.int64)[has_chunks]
        first_of_levels = first_bins(index.depth)
        level = np.searchsorted(first_of_levels, bins, side="right") - 1
        starts = (bins - first_of_levels[level]) << (index.shift + 3 * (index.depth - level))
        order = np.lexsort((offsets, starts))
        return Places(starts[order], offsets[order], first)

    def check(self, size: int) -> None:
        """Refuse places that a file of a size does not have, and first reads outside of chunks."""
        mapped = 0
        if self.summary:
            if max(self.summary[2:]) > _MOST_READS * size:
                raise _Damage(_TOO_MANY)
            mapped = self.summary[2]
        begins = [begin for chunks in self.chunks for begin in chunks[::2]]
        ends = [end for chunks in self.chunks for end in chunks[1::2]]
        spans = [*zip(begins, ends, strict=True), self.summary[:2] or (0, 0)]
        if any(begin > end or end >> 16 > size for begin, end in spans):
            raise _Damage(_ELSEWHERE)
        known = [first for first in self.firsts if first]
        if mapped and not known:
            raise _Damage("reads without their places")
        if known and not (begins and min(begins) <= min(known) and max(known) < max(ends)):
            raise _Damage("first reads where there are none")


def _check(index: _Index, size: int, references: NDArray[np.int64] | None) -> None:
    """Refuse an index that is not of a BAM of a size and with these lengths of its contigs."""
    longest = 0 if references is None else int(references.max(initial=0))
    reach = 1 << (index.shift + 3 * index.depth)
    if longest > reach and not index.has_windows:
        raise _Damage(f"levels for {reach:,} positions of a contig of {longest:,}")
    count = struct.unpack_from("<i", index.data, index.at)[0]
    if count < 0 or (references is not None and count != len(references)):
        header = "" if references is None else f" where the header has {len(references):,}"
        raise _Damage(f"an index of {count:,} reference sequences{header}")
    out_of_order = False
    for contig in index.contigs():
        rises = _rises(contig.places(index).offsets)
        if index.has_windows and not rises:
            raise _Damage("windows out of order")
        contig.check(size)
        out_of_order |= not rises
    rest = len(index.data) - index.at
    if rest == 8 and index.take("Q")[0] > _MOST_READS * size:
        raise _Damage(_TOO_MANY)
    if rest not in (0, 8):
        raise _Damage("more or less than its parts say")
    if out_of_order:
        raise _Damage("bins out of order")


def _rises(offsets: NDArray[np.uint64]) -> bool:
    known = offsets[offsets > 0]
    return bool(np.all(known[:-1] <= known[1:]))
