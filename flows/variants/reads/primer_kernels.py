# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Bases of amplification primers: they show the primer, not the sample, and do not count."""

from __future__ import annotations

from flows.variants.reads.bam_kernels import (
    AT,
    BEGIN,
    CIGAR,
    DELETION,
    END,
    FLAG,
    INSERTION,
    LEAST_RECORD,
    MASKED,
    OPERATIONS,
    PAIRED,
    PRIMED,
    PRIMER,
    REVERSE,
    SKIP,
    SOFT,
    aligned,
    byte,
    int16,
    int32,
    uint32,
)
from vbmodels.core.cached_kernels import njit


@njit(cache=True, nogil=True)
def mask_primers(data, given, reads, n, low, high, floor, forward, reverse, offset, account):
    """Mask the bases of reads that begin within a primer, up to its end; as `ivar trim` clips them.

    A read on the forward strand begins at its start, one on the reverse strand at its end; a single
    read, and one that reaches over its whole template, at both.

    Parameters
    ----------
    data, given
        Bytes of records, with the qualities that count and with those that were given: a masked
        base has none, and `MASKED`.
    reads, n
        The table of reads, and how many.
    low, high
        Positions of which masked bases are counted.
    floor
        Reads that begin before it are in another account.
    forward, reverse
        [P, 2] where primers of each strand begin and end on the contig.
    offset
        Bases by which a read may begin before its primer.
    account
        [ACCOUNT] is added to.
    """
    for t in range(n):
        r, begin, end = reads[t, AT], reads[t, BEGIN], reads[t, END]
        flag = int16(data, r + FLAG)
        both = not (flag & PAIRED) or abs(int32(data, r + 28)) <= end - begin
        first, last = begin, end
        if both or not (flag & REVERSE):
            for p in range(len(forward)):
                if forward[p, 0] - offset <= begin < forward[p, 1]:
                    first = max(first, forward[p, 1])
        if both or (flag & REVERSE):
            for p in range(len(reverse)):
                if reverse[p, 0] < end <= reverse[p, 1] + offset:
                    last = min(last, reverse[p, 0])
        if first > begin or last < end:
            account[PRIMED] += int(begin >= floor)
            account[PRIMER] += _mask(data, given, reads, t, first, last, low, high)


@njit(cache=True, nogil=True)
def _mask(data, given, reads, t, first, last, low, high):
    """Mask a read's bases outside of some positions; return how many are at ``low`` to ``high``."""
    r, position = reads[t, AT], reads[t, BEGIN]
    length, base, masked = int32(data, r + 16), 0, 0
    q = r + LEAST_RECORD + byte(data, r + 8) + 4 * int16(data, r + 12) + (length + 1) // 2
    for k in range(reads[t, OPERATIONS]):
        word = uint32(data, reads[t, CIGAR] + 4 * k)
        operation, many = word & 15, word >> 4
        if aligned(operation):
            for j in range(min(many, length - base)):
                p = position + j
                if p < first or p >= last:
                    data[q + base + j], given[q + base + j] = 0, MASKED
                    masked += int(low <= p < high)
            base += many
            position += many
        elif operation in (INSERTION, SOFT):
            base += many
        elif operation in (DELETION, SKIP):
            position += many
    return masked
