"""Counts of a region and what is known of their reads, from the raw records of a BAM.

The library inflates the blocks; the records are walked by compiled code, some megabytes at a
time. Of what later reads may overlap the records stay.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pysam
from numpy.typing import NDArray

from flows.variants.reads import bam_kernels as kernels
from flows.variants.reads import indel_alleles, mask_kernels, tally_kernels
from flows.variants.reads.alignments import own_index
from flows.variants.reads.bam_index import first_place

_LEAST_CHUNK, _MOST_CHUNK = 2**16, 2**24  # bytes that are inflated at once
_CODES = np.full(16, -1, np.int8)
_CODES[[1, 2, 4, 8]] = range(4)  # A, C, G and T of a record
_BITS = np.array([1, 2, 4, 8, 0], np.uint8)  # of A, C, G, T and anything else


@dataclass(frozen=True)
class Tally:
    """Reads of one file over a region.

    Attributes
    ----------
    counts
        [length, 2, 4] reads that show A, C, G, T on the forward and the reverse strand.
    sums
        [length, 4, 11] sums over the reads of an allele, in the order of `tally_kernels`.
    indels
        [E, 10] insertions and deletions, in the order of `indel_alleles`.
    deleted
        [length] reads with a deletion there.
    account
        [ACCOUNT] reads, bases, and those that each rule left out, in the order of `bam_kernels`.
    """

    counts: NDArray[np.int32]
    sums: NDArray[np.int64]
    indels: NDArray[np.int64]
    deleted: NDArray[np.int32]
    account: NDArray[np.int64]


@dataclass(frozen=True)
class Reading:
    """Which reads and bases count.

    Attributes
    ----------
    base_quality, mapping_quality
        The least of each.
    orphans
        Whether paired reads count that are not flagged as a proper pair.
    duplicates
        Whether reads count that are flagged as duplicates.
    primers
        Begin and end of the contig's primers, [P, 2] of each strand; None for none.
    primer_offset
        Bases by which a read may begin before its primer.
    """

    base_quality: int
    mapping_quality: int
    orphans: bool = False
    duplicates: bool = False
    primers: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    primer_offset: int = 0

    @property
    def left_out(self) -> int:
        """The flags of reads that do not count."""
        flags = kernels.UNMAPPED_FLAG | kernels.SECONDARY_FLAG | kernels.FAILED_FLAG
        return flags if self.duplicates else flags | kernels.DUPLICATE_FLAG


def tally(
    file: pysam.AlignmentFile,
    name: str,
    start: int,
    stop: int,
    reading: Reading,
    reference: Callable[[int, int], NDArray[np.int8]],
    floor: int = 0,
) -> Tally:
    """Count the reads of a region, and sum what is known of them.

    Raises `OSError` if a block or a record is damaged or the file ends too early.

    Parameters
    ----------
    file
        The BAM or CRAM, open and with an index.
    name
        The contig there.
    start, stop
        The region, from 0.
    reading
        Which reads and bases count.
    reference
        Gives the reference's bases from one position to another, as indices in ACGT or -1.
    floor
        Reads that begin before it are in another account.
    """
    contig = file.get_tid(name)
    with _records(file, name, contig, start, stop) as chunks:
        walk = _Walk(contig, start, stop, reading, reference, floor)
        _walk_through(walk, chunks)
    account = walk.account
    # What neither counts nor has a low quality, no base or a primer is the mate's.
    account[kernels.OF_MATE] = account[kernels.BASES] - walk.counts.sum(dtype=np.int64)
    others = (kernels.LOW_QUALITY, kernels.NO_BASE, kernels.PRIMER)
    account[kernels.OF_MATE] -= sum(account[rule] for rule in others)
    events = indel_alleles.merged(walk.events)
    return Tally(walk.counts, walk.sums, events, walk.deleted, account)


def templates(
    file: pysam.AlignmentFile,
    name: str,
    positions: NDArray[np.int64],
    reading: Reading,
    reference: Callable[[int, int], NDArray[np.int8]],
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return which bases each template shows at neighbouring positions, as `tally` counts them.

    Parameters
    ----------
    file, name, reading, reference
        See `tally`.
    positions
        [P] rising, from 0.

    Returns
    -------
    shown
        [T, P] indices in ACGT, -1 where no base counts.
    reverse
        [T, P] whether a read that shows the position is on the reverse strand.
    """
    contig = file.get_tid(name)
    start, stop = int(positions[0]), int(positions[-1]) + 1
    walk = _Templates(contig, start, stop, reading, reference, 0)
    walk.positions = positions
    with _records(file, name, contig, start, stop) as chunks:
        _walk_through(walk, chunks)
    shown = np.concatenate([np.empty((0, len(positions)), np.int8), *walk.shown])
    flags = np.concatenate([np.empty(0, np.int64), *walk.flags])
    names = np.concatenate([np.empty(0, np.int64), *walk.names])
    # Reads that are no pair are templates of their own, whatever their names.
    single = (flags & kernels.PAIRED) == 0
    names = np.where(single, -1 - np.arange(len(names)), names)
    unique, template = np.unique(names, return_inverse=True)
    together = np.full((len(unique), len(positions)), -1, np.int8)
    np.maximum.at(together, template.ravel(), shown)
    reverse = np.zeros(together.shape, bool)
    backwards = ((flags & kernels.REVERSE) > 0)[:, None] & (shown >= 0)
    np.logical_or.at(reverse, template.ravel(), backwards)
    return together, reverse


_OTHER_FILE = "a read is damaged, or its index is of another file; run: samtools index"


def _walk_through(walk: _Walk, chunks: _Chunks) -> None:
    read = False
    for chunk in chunks:
        if not read and int.from_bytes(chunk[4:8], "little") != walk.contig:
            raise OSError(_OTHER_FILE)
        read = True
        if walk.take(chunk):
            return
        chunks.wanted = walk.wanted
    walk.end()


class _Walk:
    """The state of a walk over the records of a region."""

    def __init__(
        self,
        contig: int,
        start: int,
        stop: int,
        reading: Reading,
        reference: Callable[[int, int], NDArray[np.int8]],
        floor: int,
    ) -> None:
        self.floor = floor
        self.account = np.zeros(kernels.ACCOUNT, np.int64)
        self.contig, self.start, self.stop = contig, start, stop
        self.reading, self.reference = reading, reference
        self.counts = np.zeros((stop - start, 2, 4), np.int32)
        self.sums = np.zeros((stop - start, 4, tally_kernels.SUMS), np.int64)
        self.deleted = np.zeros(stop - start, np.int32)
        self.events: list[NDArray[np.int64]] = []
        self.wanted = _LEAST_CHUNK
        self._packed = np.zeros((stop - start, 4, tally_kernels.WORDS), np.int64)
        self._data = np.empty(0, np.uint8)
        self._given = np.empty(0, np.uint8)
        self._reads = np.empty((1024, kernels.COLUMNS), np.int64)
        self._kept = self._at = self._end = 0
        self._first = self._last = -1
        self._taken = 0

    def take(self, chunk: bytes) -> bool:
        """Take more bytes; return whether the region is done."""
        self._append(chunk)
        at, n, done = self._find()
        reads = self._reads
        before, self._last = self._last, int(reads[n - 1, kernels.BEGIN]) if n else self._last
        size = 1 << max(int(2 * n).bit_length(), 4)
        table, previous = np.full(size, -1), np.empty(n, np.int64)
        new = reads[self._kept : n]
        if kernels.shows_equal(self._data, new):
            low, high = int(new[:, kernels.BEGIN].min()), int(new[:, kernels.END].max())
            reference = _BITS[self.reference(low, high)]
            kernels.spell_equal(self._data, self._given, new, reference, low)
        if self.reading.primers is not None and n > self._kept:
            mask_kernels.mask_primers(
                self._data,
                self._given,
                reads[self._kept :],
                n - self._kept,
                self.start,
                self.stop,
                self.floor,
                *self.reading.primers,
                self.reading.primer_offset,
                self.account,
            )
        mask_kernels.pair_mates(
            self._data,
            self._given,
            reads,
            self._kept,
            n,
            before,
            self.reading.orphans,
            table,
            previous,
        )
        passed = reads[:n, kernels.END] < self._last
        if done:
            self._tally(reads[:n])
        elif 2 * int(passed.sum()) < n:  # to move what stays would cost more than to keep all
            self._kept, self._at = n, at
        else:
            self._tally(reads[:n][passed])
            self._kept, self._at, self._end = kernels.retire(
                self._data, self._given, reads, n, self._last, previous, at, self._end
            )
        self._foresee(n)
        return done

    def end(self) -> None:
        """Add the reads that are left at the end of the file."""
        if self._end > self._at:
            raise OSError("the file ends within a read")
        self._tally(self._reads[: self._kept])

    def _append(self, chunk: bytes) -> None:
        size = self._end + len(chunk)
        self._taken += len(chunk)
        if len(self._data) < size:
            for name in ("_data", "_given"):
                old = getattr(self, name)
                new = np.empty(max(size, 2 * len(old)), np.uint8)
                new[: min(self._end, len(old))] = old[: self._end]
                setattr(self, name, new)
        new_bytes = np.frombuffer(chunk, np.uint8)
        self._data[self._end : size] = new_bytes
        self._given[self._end : size] = new_bytes
        self._end = size

    def _find(self) -> tuple[int, int, bool]:
        at, n = self._at, self._kept
        reading = self.reading
        while True:
            at, n, state = kernels.find_reads(
                self._data,
                at,
                self._end,
                self.contig,
                self.start,
                self.stop,
                self.floor,
                (reading.mapping_quality, reading.left_out, reading.orphans),
                self._reads,
                n,
                self.account,
            )
            if state == 3:
                raise OSError(_OTHER_FILE)
            if state != 2:
                return at, n, state == 1
            larger = np.empty((2 * len(self._reads), kernels.COLUMNS), np.int64)
            larger[:n] = self._reads[:n]
            self._reads = larger

    def _tally(self, reads: NDArray[np.int64]) -> None:
        reading = self.reading
        given = self._given
        # What fits into the words of packed sums at once.
        lot = (reads[:, kernels.AT] // tally_kernels.MOST_BYTES) * len(reads)
        lot += np.arange(len(reads)) // tally_kernels.MOST_PACKED
        for chunk in np.split(reads, np.flatnonzero(np.diff(lot)) + 1):
            if not len(chunk):
                continue
            low, high = int(chunk[:, kernels.BEGIN].min()), int(chunk[:, kernels.END].max())
            if high - low > kernels.MOST_RECORD:
                raise OSError(f"a read is damaged: it spans {high - low:,} positions")
            reference = _BITS[self.reference(low, high)]
            pairs = (reference[:-1] << 4) | reference[1:]
            chunk = np.ascontiguousarray(chunk)
            tally_kernels.tally(
                self._data,
                given,
                chunk,
                self.start,
                self.stop,
                reading.base_quality,
                _CODES,
                reference,
                pairs,
                low,
                self._packed,
                self.deleted,
                self.account,
            )
            tally_kernels.unpack(self._packed, self.counts, self.sums)
            events = indel_alleles.of_reads(
                self._data,
                chunk,
                self.start,
                self.stop,
                reading.base_quality,
                _CODES,
                reference,
                low,
            )
            if len(events):
                self.events.append(events)

    def _foresee(self, n: int) -> None:
        """Guess from the bytes up to here how many more the region has."""
        if n and self._first < 0:
            self._first = int(self._reads[0, kernels.BEGIN])
        ahead = self._taken * (self.stop - self._last) / max(self._last - self._first, 1)
        self.wanted = int(np.clip(1.05 * ahead, _LEAST_CHUNK, _MOST_CHUNK)) if n else _LEAST_CHUNK


class _Templates(_Walk):
    """A walk that keeps what reads show at some positions, in place of their sums."""

    positions: NDArray[np.int64]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.shown: list[NDArray[np.int8]] = []
        self.flags: list[NDArray[np.int64]] = []
        self.names: list[NDArray[np.int64]] = []

    def _tally(self, reads: NDArray[np.int64]) -> None:
        reads = np.ascontiguousarray(reads)
        shown = np.full((len(reads), len(self.positions)), -1, np.int8)
        least = max(self.reading.base_quality, 1)
        tally_kernels.bases_shown(
            self._data, reads, len(reads), self.positions, least, _CODES, shown
        )
        flag = reads[:, kernels.AT] + kernels.FLAG
        self.shown.append(shown)
        self.flags.append(self._data[flag] + 256 * self._data[flag + 1].astype(np.int64))
        self.names.append(reads[:, kernels.NAME].copy())


class _Chunks:
    """Bytes of records, as many at a time as are wanted."""

    def __init__(self, file: pysam.BGZFile | None) -> None:
        self.file = file
        self.wanted = _LEAST_CHUNK

    def __iter__(self) -> Iterator[bytes]:
        while self.file is not None and (chunk := self.file.read(self.wanted)):
            yield chunk


@contextmanager
def _inflated(path: str, place: int) -> Iterator[_Chunks]:
    """Read from a place on; a file that is damaged there cannot be closed without an error."""
    opened: Any = pysam.BGZFile  # its stub asks for an index
    packed = opened(path, "rb")
    try:
        packed.seek(place)
        yield _Chunks(packed)
    except BaseException:
        with suppress(OSError):
            packed.close()
        raise
    packed.close()


@contextmanager
def _records(
    file: pysam.AlignmentFile, name: str, contig: int, start: int, stop: int
) -> Iterator[_Chunks]:
    """Give the bytes of records from the first of a region on.

    Of a CRAM, htslib writes them to a file that goes.
    """
    path = os.fsdecode(file.filename)
    index = None if file.is_cram else own_index(path)
    if index is not None:
        place = first_place(index, contig, start)
        if place is None:
            yield _Chunks(None)
            return
        with _inflated(path, place) as chunks:
            yield chunks
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "reads.bam")
        with pysam.AlignmentFile(copy, "wbu", template=file) as written:
            for read in file.fetch(name, start, stop):
                written.write(read)
        with pysam.AlignmentFile(copy, check_sq=False) as again:
            place = again.tell()
        with _inflated(copy, place) as chunks:
            yield chunks
