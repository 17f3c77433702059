# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Raw records of a BAM, as they lie in its bytes: which of them count, and which may go.

A record is laid out as in section 4.2 of the SAM specification. Reads are left out as htslib's
pileup does it (`bam_plp_push`, versions 1.13 to 1.24), so that counts have the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Columns of the table of reads.
AT, BEGIN, END, CIGAR, OPERATIONS, BEFORE, WAITS, NAME = range(8)
COLUMNS = 8
LEAST_RECORD = 32  # bytes of a record's fixed fields
FLAG = 14  # where a record has its flags
MOST_RECORD = 1 << 28  # far beyond the longest reads with all of their tags
PAIRED, PROPER, MATE_UNMAPPED, REVERSE = 0x1, 0x2, 0x8, 0x10
INSERTION, DELETION, SKIP, SOFT, HARD, PADDING = 1, 2, 3, 4, 5, 6
SUPPLEMENTARY = 0x800
UNMAPPED_FLAG, SECONDARY_FLAG, FAILED_FLAG, DUPLICATE_FLAG = 0x4, 0x100, 0x200, 0x400
# The account of reads: those that reach into the positions, and those that a rule leaves out.
REACHED, UNMAPPED, SECONDARY, FAILED, DUPLICATE, LOW_MAPPING, NOT_PROPER = range(7)
# Of the reads that count, their bases at the positions, and those that a rule leaves out.
BASES, LOW_QUALITY, OF_MATE, NO_BASE, PRIMER = range(7, 12)
PRIMED = 12  # reads that count and begin in a primer
ACCOUNT = 13
MASKED = 254  # in place of the quality that was given, of a base that a primer shows


@njit(cache=True, nogil=True)
def byte(data, at):
    """Return a byte as a whole number."""
    return np.int64(data[at])


@njit(cache=True, nogil=True)
def int16(data, at):
    """Return the 16 bits from a place on, as a number from 0."""
    return byte(data, at) | (byte(data, at + 1) << 8)


@njit(cache=True, nogil=True)
def int32(data, at):
    """Return the 32 bits from a place on, with a sign."""
    low = byte(data, at) | (byte(data, at + 1) << 8) | (byte(data, at + 2) << 16)
    return np.int64(np.int32(low | (byte(data, at + 3) << 24)))


@njit(cache=True, nogil=True)
def uint32(data, at):
    """Return the 32 bits from a place on, as a number from 0."""
    return int32(data, at) & 0xFFFFFFFF


@njit(cache=True, nogil=True)
def aligned(operation):
    """Whether an operation of a CIGAR is M, = or X."""
    return operation in (0, 7, 8)


@njit(cache=True, nogil=True)
def base_at(data, bases, i):
    """Return base i of those that begin at a place, two in a byte."""
    return (byte(data, bases + (i >> 1)) >> (0 if i & 1 else 4)) & 15


@njit(cache=True, nogil=True)
def shows_equal(data, reads):
    """Whether a read has a base ``=``, which stands for that of the reference."""
    for t in range(len(reads)):
        r = reads[t, AT]
        bases = r + LEAST_RECORD + byte(data, r + 8) + 4 * int16(data, r + 12)
        for i in range(int32(data, r + 16)):
            if base_at(data, bases, i) == 0:
                return True
    return False


@njit(cache=True, nogil=True)
def spell_equal(data, given, reads, reference, origin):
    """Write the reference's bases, as records have them, in place of ``=``; N for unknown ones."""
    for t in range(len(reads)):
        r, cigar, base, position = reads[t, AT], reads[t, CIGAR], 0, reads[t, BEGIN] - origin
        length = int32(data, r + 16)
        bases = r + LEAST_RECORD + byte(data, r + 8) + 4 * int16(data, r + 12)
        for k in range(reads[t, OPERATIONS]):
            word = uint32(data, cigar + 4 * k)
            operation, many = word & 15, word >> 4
            if aligned(operation):
                for i in range(base, min(base + many, length)):
                    if base_at(data, bases, i) == 0:
                        p = position + i - base
                        letter = reference[p] if p < len(reference) and reference[p] else 15
                        spelt = byte(data, bases + (i >> 1)) | (letter << (0 if i & 1 else 4))
                        data[bases + (i >> 1)] = given[bases + (i >> 1)] = spelt
                base += many
                position += many
            elif operation in (INSERTION, SOFT):
                base += many
            elif operation in (DELETION, SKIP):
                position += many


@njit(cache=True, nogil=True)
def _width(kind):
    """Return the bytes of a sign or a number, by the type of a tag."""
    if kind in (0x41, 0x63, 0x43):  # A, c, C
        return 1
    return 2 if kind in (0x73, 0x53) else 4  # s, S


@njit(cache=True, nogil=True)
def _long_cigar(data, at, stop):
    """Return the place and the length of the CIGAR in the tag CG; (-1, 0) where there is none."""
    while at + 3 <= stop:
        kind = data[at + 2]
        if kind == 0x42:  # B: an array
            if at + 8 > stop:
                break
            of, n = data[at + 3], uint32(data, at + 4)
            width = _width(of)
            if at + 8 + n * width > stop:
                break
            if data[at] == 0x43 and data[at + 1] == 0x47 and of == 0x49:
                return at + 8, n
            at += 8 + n * width
        elif kind in (0x5A, 0x48):  # Z, H: text
            at += 3
            while at < stop and data[at] != 0:
                at += 1
            at += 1
        else:
            at += 3 + _width(kind)
    return -1, 0


@njit(cache=True, nogil=True)
def _rule(flag, quality, rules):
    """Return which rule leaves a read out; 0 for none."""
    least_quality, left_out, orphans = rules
    flags = flag & left_out
    if flags & UNMAPPED_FLAG:
        return UNMAPPED
    if flags & SECONDARY_FLAG:
        return SECONDARY
    if flags & FAILED_FLAG:
        return FAILED
    if flags & DUPLICATE_FLAG:
        return DUPLICATE
    if quality < least_quality:
        return LOW_MAPPING
    return NOT_PROPER if (flag & PAIRED) and not (flag & PROPER) and not orphans else 0


@njit(cache=True, nogil=True)
def _cigar(data, cigar, n_cigar, length, behind, stop):
    """Return where a read's CIGAR is, how many operations it has, and how far it reaches."""
    if n_cigar == 2 and (uint32(data, cigar) & 15) == SOFT:
        placeholder = (uint32(data, cigar) >> 4) == length
        if placeholder and (uint32(data, cigar + 4) & 15) == SKIP:
            there, many = _long_cigar(data, behind, stop)
            if there >= 0:
                cigar, n_cigar = there, many
    span = 0
    for k in range(n_cigar):
        word = uint32(data, cigar + 4 * k)
        if aligned(word & 15) or (word & 15) in (DELETION, SKIP):
            span += word >> 4
    return cigar, n_cigar, span


@njit(cache=True, nogil=True)
def find_reads(data, at, stop, tid, low, high, floor, rules, reads, n, account):
    """Find the reads of whole records that count and reach into positions low to high.

    Parameters
    ----------
    data
        Bytes of records.
    at, stop
        Where the next record starts, and where the bytes end.
    tid
        The contig.
    floor
        Reads that begin before it are in another account.
    rules
        The least mapping quality, the flags of reads that do not count, and whether paired reads
        that are not flagged as a proper pair count.
    reads, n
        The table of reads, and how many it has.
    account
        [ACCOUNT] is added to.

    Returns
    -------
    at, n
        Where the next record starts, and how many reads there are.
    state
        0: the bytes are used up; 1: no later record counts; 2: the table is full; 3: a record is
        damaged.
    """
    while at + 4 + LEAST_RECORD <= stop:
        size = int32(data, at)
        if size < LEAST_RECORD or size > MOST_RECORD:
            return at, n, 3
        if at + 4 + size > stop:
            break
        r = at + 4
        contig, begin = int32(data, r), int32(data, r + 4)
        if contig != tid or begin >= high:
            if contig > tid or contig < 0 or (contig == tid and begin >= high):
                return at, n, 1
            at += 4 + size
            continue
        rule = _rule(int16(data, r + FLAG), byte(data, r + 9), rules)
        if rule and begin < floor:
            at += 4 + size
            continue
        length, n_cigar = int32(data, r + 16), int16(data, r + 12)
        cigar = r + LEAST_RECORD + byte(data, r + 8)
        behind = cigar + 4 * n_cigar + (length + 1) // 2 + length
        span = 0
        if length >= 0 and begin >= 0 and behind <= r + size:
            cigar, n_cigar, span = _cigar(data, cigar, n_cigar, length, behind, r + size)
        elif not rule:
            return at, n, 3
        if begin + max(span, 1) > low:
            if not rule:
                if n == len(reads):
                    return at, n, 2
                reads[n, AT], reads[n, BEGIN], reads[n, END] = r, begin, begin + span
                reads[n, CIGAR], reads[n, OPERATIONS] = cigar, n_cigar
                reads[n, WAITS] = 0
                n += 1
            if begin >= floor:
                account[REACHED] += 1
                if rule:
                    account[rule] += 1
        at += 4 + size
    return at, n, 0


@njit(cache=True, nogil=True)
def retire(data, given, reads, n, last, previous, at, stop):
    """Move what later reads may overlap to the front: reads, records, an unfinished record.

    Parameters
    ----------
    data, given
        Bytes of records, and with the qualities that were given.
    reads, n
        The table of reads, whose lines change: those that stay come first.
    last
        Start of the last read that was seen; what ends before it has been passed.
    previous
        Each read's last one of the same name.
    at, stop
        Bytes of a record that is not whole yet.

    Returns
    -------
    kept
        How many reads stay.
    there, end
        Where the unfinished record is now, and where its bytes end.
    """
    later = np.full(len(previous), -1, np.int64)
    for i in range(len(previous)):
        if previous[i] >= 0:
            later[previous[i]] = i
    for i in range(len(previous)):
        if reads[i, END] >= last:
            continue
        for chain in (previous, later):
            waits = i
            while waits >= 0:
                if reads[waits, WAITS] and reads[waits, BEFORE] <= reads[i, END]:
                    reads[waits, WAITS] = 0
                waits = chain[waits]
    kept, there = 0, 0
    begin = end = 0  # neighbours among the records that stay are moved together
    for i in range(n):
        if reads[i, END] < last:
            continue
        r = reads[i, AT] - 4
        if r != end:
            data[there - (end - begin) : there] = data[begin:end]
            given[there - (end - begin) : there] = given[begin:end]
            begin = end = r
        shift = there - r
        end += 4 + int32(data, r)
        there += end - r
        for c in range(COLUMNS):
            reads[kept, c] = reads[i, c]
        reads[kept, AT] += shift
        reads[kept, CIGAR] += shift
        kept += 1
    data[there - (end - begin) : there] = data[begin:end]
    data[there : there + stop - at] = data[at:stop]
    given[there - (end - begin) : there] = given[begin:end]
    given[there : there + stop - at] = given[at:stop]
    return kept, there, there + stop - at
