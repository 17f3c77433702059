# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Insertions and deletions of raw records of a BAM, moved to the left as far as they go.

An allele is the same wherever in a repeat an aligner puts it; VCF writes the leftmost place
(Tan, Abecasis, Kang 2015). A deletion of L bases from s on is that from s - 1 on where the
reference has the same base at s - 1 and s + L - 1. An insertion behind a is one behind a - 1
where its last base is the reference's at a; that base then comes first.
"""

from __future__ import annotations

import numpy as np

from flows.variants.reads.bam_kernels import (
    AT,
    BEGIN,
    CIGAR,
    DELETION,
    INSERTION,
    LEAST_RECORD,
    OPERATIONS,
    REVERSE,
    SKIP,
    SOFT,
    aligned,
    base_at,
    byte,
    int16,
    int32,
    uint32,
)
from flows.variants.reads.tally_kernels import MOST_TO_END, clip
from vbmodels.core.cached_kernels import njit

MOST_LENGTH = 50  # bases of an allele
PER_WORD = 25  # bases in one of its two words, two bits each
ANCHOR, LENGTH, FIRST, SECOND, STRAND, TO_END, MAP_Q = range(7)  # of an event
FIELDS = 7


@njit(cache=True, nogil=True)
def _shown_at(data, cigar, n, begin, place):
    """Return which base of a read is aligned to a position, -1 for none."""
    base, position = 0, begin
    for k in range(n):
        word = uint32(data, cigar + 4 * k)
        operation, many = word & 15, word >> 4
        if aligned(operation):
            if place < position + many:
                return base + place - position if place >= position else -1
            base += many
            position += many
        elif operation in (INSERTION, SOFT):
            base += many
        elif operation in (DELETION, SKIP):
            position += many
    return -1


@njit(cache=True, nogil=True)
def _deletion_moved(reference, start, length, least):
    """Return where a deletion starts after its move to the left, -1 where a base is unknown."""
    if start + length > len(reference):
        return -1
    for p in range(start, start + length):
        if reference[p] == 0:
            return -1
    while start > least and reference[start - 1] == reference[start + length - 1]:
        start -= 1
    return start


@njit(cache=True, nogil=True)
def _insertion_moved(reference, anchor, inserted, length, least):
    """Return the base before an insertion after its move to the left, and how far that was."""
    moved = 0
    while anchor >= least and anchor < len(reference):
        if reference[anchor] != inserted[(length - 1 - moved) % length]:
            break
        anchor -= 1
        moved += 1
    return anchor, moved


@njit(cache=True, nogil=True)
def _read_inserted(data, bases, at, many, length, code, inserted):
    """Fill in the inserted bases of a read; return whether all are known."""
    if at + many > length:
        return False
    known = True
    for i in range(many):
        inserted[i] = base_at(data, bases, at + i)
        known = known and code[inserted[i]] >= 0
    return known


@njit(cache=True, nogil=True)
def _write_inserted(row, inserted, many, moved, code):
    """Write the inserted bases, moved to the left, into the words of an event."""
    for i in range(many):
        which = np.int64(code[inserted[(i - moved) % many]])
        row[FIRST + i // PER_WORD] |= which << (2 * (i % PER_WORD))


@njit(cache=True, nogil=True)
def _between_matches(data, cigar, n, k):
    """Whether an operation of a CIGAR has aligned bases before and behind it."""
    if k == 0 or k == n - 1:
        return False
    before, after = uint32(data, cigar + 4 * (k - 1)) & 15, uint32(data, cigar + 4 * (k + 1)) & 15
    return aligned(before) and aligned(after)


@njit(cache=True, nogil=True)
def find_events(data, reads, low, high, least, code, reference, origin, rows):
    """Find the alleles of reads whose base before the allele, moved to the left, counts.

    That base is one of the location's depth, of which the reads of an allele are then a part;
    of mates that overlap one has it. Alleles with an unknown base, of more than `MOST_LENGTH`,
    next to another operation than a match, or moved beyond the read's start are left out.

    Parameters
    ----------
    data
        Bytes of records with the qualities that count.
    reads
        The table of reads.
    low, high
        Positions of the anchors (the base before) that are wanted.
    least, code, reference, origin
        See `tally_kernels.tally`.
    rows
        [most, FIELDS] to be filled: anchor, length (below 0 of a deletion), the inserted bases in
        two words, strand; the base before's distance to the nearest unclipped end of the read and
        the read's mapping quality.

    Returns
    -------
    int
        How many there are, whether or not ``rows`` has room.
    """
    count = 0
    inserted = np.empty(MOST_LENGTH, np.uint8)
    for t in range(len(reads)):
        n_cigar = reads[t, OPERATIONS]
        if n_cigar < 3:
            continue
        r, begin, cigar = reads[t, AT], reads[t, BEGIN], reads[t, CIGAR]
        strand = 1 if int16(data, r + 14) & REVERSE else 0
        length, quality = int32(data, r + 16), byte(data, r + 9)
        bases = r + LEAST_RECORD + byte(data, r + 8) + 4 * int16(data, r + 12)
        q = bases + (length + 1) // 2
        first = begin - origin
        base, position = 0, first
        for k in range(n_cigar):
            word = uint32(data, cigar + 4 * k)
            operation, many = word & 15, word >> 4
            if aligned(operation):
                base += many
                position += many
                continue
            at, there = base, position
            if operation in (INSERTION, SOFT):
                base += many
            elif operation in (DELETION, SKIP):
                position += many
            if operation not in (INSERTION, DELETION) or many > MOST_LENGTH or many == 0:
                continue
            if not _between_matches(data, cigar, n_cigar, k):
                continue
            moved = 0
            if operation == DELETION:
                anchor = _deletion_moved(reference, there, many, first) - 1
            else:
                if not _read_inserted(data, bases, at, many, length, code, inserted):
                    continue
                anchor, moved = _insertion_moved(reference, there - 1, inserted, many, first)
            place = anchor + origin
            if anchor < first or place < low or place >= high:
                continue
            i = _shown_at(data, cigar, n_cigar, begin, place)
            if i < 0 or i >= length or data[q + i] < least or code[base_at(data, bases, i)] < 0:
                continue
            if count < len(rows):
                rows[count, ANCHOR], rows[count, STRAND] = place, strand
                lead = clip(data, cigar, n_cigar, False)[0]
                trail = clip(data, cigar, n_cigar, True)[0]
                rows[count, TO_END] = min(i - lead, length - trail - 1 - i, MOST_TO_END)
                rows[count, MAP_Q] = quality
                rows[count, FIRST], rows[count, SECOND] = 0, 0
                rows[count, LENGTH] = -many if operation == DELETION else many
                if operation == INSERTION:
                    _write_inserted(rows[count], inserted, many, moved, code)
            count += 1
    return count
