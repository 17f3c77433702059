# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Counts and sums by allele over raw records of a BAM."""

from __future__ import annotations

import numpy as np

from flows.variants.reads.bam_kernels import (
    AT,
    BASES,
    BEGIN,
    CIGAR,
    DELETION,
    HARD,
    INSERTION,
    LEAST_RECORD,
    LOW_QUALITY,
    MASKED,
    NO_BASE,
    OPERATIONS,
    PADDING,
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
from vbmodels.core.cached_kernels import njit

# Sums of an allele's reads at a location.
BASE_Q, BASE_Q2, MAP_Q, MAP_Q2, TO_END, TO_END2, NEAR, CLIPPED, MISMATCHES, MANY = range(10)
NO_BASE_Q = 10
SUMS = 11
MISSING = 255  # a base quality that a record does not have
NEAR_BASES = 5  # of an indel of the same read
CLOSE, MANY_MISMATCHES = 10, 2  # more than these, within so many bases of a read, are many
WORDS = 8  # of packed sums; seven are used
MOST_PACKED, MOST_BYTES = 2**19, 2**27  # reads, and their bytes, whose sums fit into the words
_HALF, _SQUARES, _LONG_SQUARES = 32, 40, 43  # bits of a word's lower sum
MOST_TO_END = 2**16 - 1
_MOST_PLACES = 1024  # mismatches of a read whose places are kept


@njit(cache=True, nogil=True)
def _differs(data, bases, qualities, i, least, reference, p):
    quality = data[qualities + i]
    unknown = p < 0 or p >= len(reference) or reference[p] == 0
    if unknown or quality < least or quality == MASKED:
        return 0
    return int(base_at(data, bases, i) != reference[p])


@njit(cache=True, nogil=True)
def _mismatches(
    data, cigar, n, begin, bases, qualities, length, least, reference, pairs, origin, places
):
    """Find the confident bases of a read that differ from the reference; return how many.

    Two bases lie in a byte; ``pairs`` has the reference's in that form from every position on.
    """
    different, base, position = 0, 0, begin - origin
    for k in range(n):
        word = uint32(data, cigar + 4 * k)
        operation, many = word & 15, word >> 4
        if aligned(operation):
            i, stop = base, min(base + many, length)
            shift = position - base
            while i < stop:
                p = i + shift
                if i & 1 == 0 and 0 <= p < len(pairs) and data[bases + (i >> 1)] == pairs[p]:
                    i += 2  # one beyond the last is no base of the read, and is not looked at
                    continue
                if _differs(data, bases, qualities, i, least, reference, p):
                    places[min(different, _MOST_PLACES - 1)] = i
                    different += 1
                i += 1
            base += many
            position += many
        elif operation in (INSERTION, SOFT):
            base += many
        elif operation in (DELETION, SKIP):
            position += many
    return different


@njit(cache=True, nogil=True)
def _to_next_indel(data, cigar, n, k):
    """Return how many aligned bases lie between operation ``k`` and the next indel."""
    bases = 0
    for j in range(k + 1, n):
        word = uint32(data, cigar + 4 * j)
        if (word & 15) == PADDING:
            continue
        if not aligned(word & 15):
            return bases if (word & 15) in (INSERTION, DELETION) else 1 << 30
        bases += word >> 4
    return 1 << 30


@njit(cache=True, nogil=True)
def clip(data, cigar, n, from_end):
    """Return the soft-clipped bases at one end of a read, and whether any are clipped there."""
    soft, clipped = 0, 0
    for j in range(n):
        word = uint32(data, cigar + 4 * (n - 1 - j if from_end else j))
        if (word & 15) not in (SOFT, HARD):
            break
        clipped = 1
        if (word & 15) == SOFT:
            soft += word >> 4
    return soft, clipped


@njit(cache=True, nogil=True)
def _others(places, wrong, i):
    """Return how many of a read's mismatches are at other bases than ``i``, and close to it."""
    others, close = wrong, 0
    for m in range(min(wrong, _MOST_PLACES)):
        if places[m] == i:
            others -= 1
        elif abs(places[m] - i) <= CLOSE:
            close += 1
    return others, close


@njit(cache=True, nogil=True)
def _add_base(sums, strand, base_quality, quality, clipped, end, near, others, close):
    """Add a read to the packed sums [WORDS] of the allele that it shows at one position."""
    missing = int(base_quality == MISSING)
    base_quality *= 1 - missing
    sums[0] += 1 << (_HALF * strand)
    sums[1] += base_quality + (end << _HALF)
    sums[2] += base_quality * base_quality + (near << _SQUARES)
    sums[3] += quality * quality + (clipped << _SQUARES)
    sums[4] += quality + (others << _HALF)
    sums[5] += end * end + (int(close > MANY_MISMATCHES) << _LONG_SQUARES)
    sums[6] += missing


@njit(cache=True, nogil=True)
def _add_deletion(data, bases, q, before, length, least, code, start, stop, deleted):
    """Add a read to the positions that it lacks, where its base before them counts."""
    if not 0 <= before < length or data[q + before] < least:
        return
    if code[base_at(data, bases, before)] >= 0:
        for p in range(max(start, 0), min(stop, len(deleted))):
            deleted[p] += 1


@njit(cache=True, nogil=True)
def tally(
    data, given, reads, low, high, least, code, reference, pairs, origin, packed, deleted, account
):
    """Add reads to the packed sums of positions ``low`` to ``high``.

    Parameters
    ----------
    data, given
        Bytes of records with the qualities that count, and with those that were given.
    reads
        The table of reads: at most `MOST_PACKED`, of at most `MOST_BYTES`.
    least
        The least base quality.
    code
        [16] which of ACGT a base of a record is, -1 for none.
    reference, pairs, origin
        Bases of the reference as records have them, 0 for unknown, and where they begin; and every
        two neighbours of them in one byte.
    packed
        [high - low, 4, WORDS] to be added to; two sums in each word, as `unpack` has them.
    deleted
        [high - low] reads with a deletion there, to be added to.
    account
        [ACCOUNT] to be added to: the bases, and those of a low quality or that are no base.
    """
    places = np.empty(_MOST_PLACES, np.int64)
    looked_at = low_quality = no_base = 0
    for t in range(len(reads)):
        r, begin = reads[t, AT], reads[t, BEGIN]
        strand = 1 if int16(data, r + 14) & REVERSE else 0
        length, quality = int32(data, r + 16), byte(data, r + 9)
        bases = r + LEAST_RECORD + byte(data, r + 8) + 4 * int16(data, r + 12)
        q = bases + (length + 1) // 2
        cigar, n_cigar = reads[t, CIGAR], reads[t, OPERATIONS]
        lead, clipped = clip(data, cigar, n_cigar, False)
        trail, clipped_too = clip(data, cigar, n_cigar, True)
        last = length - trail - 1
        wrong = _mismatches(
            given, cigar, n_cigar, begin, bases, q, length, least, reference, pairs, origin, places
        )
        base, position, after = 0, begin, -(1 << 30)
        for k in range(n_cigar):
            word = uint32(data, cigar + 4 * k)
            operation, many = word & 15, word >> 4
            if not aligned(operation):
                if operation == DELETION:
                    _add_deletion(
                        data,
                        bases,
                        q,
                        base - 1,
                        length,
                        least,
                        code,
                        position - low,
                        position + many - low,
                        deleted,
                    )
                if operation in (INSERTION, SOFT):
                    base += many
                elif operation in (DELETION, SKIP):
                    position += many
                if operation in (INSERTION, DELETION):
                    after = base
                elif operation == SKIP:
                    after = -(1 << 30)
                continue
            before = base + many + _to_next_indel(data, cigar, n_cigar, k)
            start, stop = max(0, low - position), min(many, high - position, length - base)
            looked_at += max(0, stop - start)
            for j in range(start, stop):
                i = base + j
                if data[q + i] < least:
                    low_quality += int(given[q + i] < least)
                    continue
                shown = base_at(data, bases, i)
                b = code[shown]
                if b < 0:
                    no_base += 1
                    continue
                p = position + j
                end = min(i - lead, last - i, MOST_TO_END)
                near = int(i < after + NEAR_BASES or i >= before - NEAR_BASES)
                others, close = _others(places, wrong, i)
                _add_base(
                    packed[p - low, b],
                    strand,
                    byte(given, q + i),
                    quality,
                    clipped | clipped_too,
                    end,
                    near,
                    others,
                    close,
                )
            base += many
            position += many
    account[BASES] += looked_at
    account[LOW_QUALITY] += low_quality
    account[NO_BASE] += no_base


@njit(cache=True, nogil=True)
def bases_shown(data, reads, n, positions, least, code, shown):
    """Fill in which base each read shows at neighbouring positions; -1 where none counts.

    Behind an insertion or a deletion nothing counts: the bases are no neighbours in the read.

    Parameters
    ----------
    data, reads, n, least, code
        See `tally`.
    positions
        [P] rising.
    shown
        [n, P] filled with -1.
    """
    for t in range(n):
        r, position = reads[t, AT], reads[t, BEGIN]
        length = int32(data, r + 16)
        bases = r + LEAST_RECORD + byte(data, r + 8) + 4 * int16(data, r + 12)
        q, base = bases + (length + 1) // 2, 0
        first = -1  # operation of the first base
        for k in range(reads[t, OPERATIONS]):
            word = uint32(data, reads[t, CIGAR] + 4 * k)
            operation, many = word & 15, word >> 4
            if operation in (INSERTION, DELETION, SKIP) and first >= 0:
                break
            if aligned(operation):
                for p in range(len(positions)):
                    i = base + positions[p] - position
                    if base <= i < min(base + many, length):
                        first = k
                        if data[q + i] >= least:
                            shown[t, p] = code[base_at(data, bases, i)]
                position += many
                base += many
            elif operation in (INSERTION, SOFT):
                base += many
            elif operation in (DELETION, SKIP):
                position += many


@njit(cache=True, nogil=True)
def unpack(packed, counts, sums):
    """Add packed sums to counts [J, 2, 4] and sums [J, 4, SUMS], and empty them."""
    half, squares = (1 << _HALF) - 1, (1 << _SQUARES) - 1
    for p in range(len(packed)):
        for b in range(4):
            words, to = packed[p, b], sums[p, b]
            if words[0] == 0:
                continue
            counts[p, 0, b] += words[0] & half
            counts[p, 1, b] += words[0] >> _HALF
            to[BASE_Q] += words[1] & half
            to[TO_END] += words[1] >> _HALF
            to[BASE_Q2] += words[2] & squares
            to[NEAR] += words[2] >> _SQUARES
            to[MAP_Q2] += words[3] & squares
            to[CLIPPED] += words[3] >> _SQUARES
            to[MAP_Q] += words[4] & half
            to[MISMATCHES] += words[4] >> _HALF
            to[TO_END2] += words[5] & ((1 << _LONG_SQUARES) - 1)
            to[MANY] += words[5] >> _LONG_SQUARES
            to[NO_BASE_Q] += words[6]
            words[:] = 0
