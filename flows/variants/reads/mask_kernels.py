# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Bases that do not count: one of two where mates overlap, and those of amplification primers.

Mates as htslib's pileup does it (`overlap_push` and `tweak_overlap_quality`, versions 1.13 to
1.24): a test compares the counts to the read. htslib pairs mates that are flagged as a proper pair;
where other pairs count too (``orphans``), all reads of a name are one template, whatever their
flags say; and a supplementary alignment is always one with the others of its read. Bases of primers
show the primer, not the sample.
"""

from __future__ import annotations

from flows.variants.reads.bam_kernels import (
    AT,
    BEFORE,
    BEGIN,
    CIGAR,
    DELETION,
    END,
    FLAG,
    INSERTION,
    LEAST_RECORD,
    MASKED,
    MATE_UNMAPPED,
    NAME,
    OPERATIONS,
    PAIRED,
    PRIMED,
    PRIMER,
    PROPER,
    REVERSE,
    SKIP,
    SOFT,
    SUPPLEMENTARY,
    WAITS,
    aligned,
    base_at,
    byte,
    int16,
    int32,
    uint32,
)
from vbmodels.core.cached_kernels import njit

_MOST_QUALITY = 200  # of two mates that agree
_STAR = 42  # the name of a read without one


@njit(cache=True, nogil=True)
def _same_name(data, one, other):
    n = byte(data, one + 8)
    if byte(data, other + 8) != n:
        return False
    same = 0
    while same < n and data[one + LEAST_RECORD + same] == data[other + LEAST_RECORD + same]:
        same += 1
    return same == n


@njit(cache=True, nogil=True)
def _hash_name(data, read):
    """Return a 32-bit FNV-1a hash of a read's name."""
    h = 2166136261
    for i in range(byte(data, read + 8)):
        h = ((h ^ byte(data, read + LEAST_RECORD + i)) * 16777619) & 0xFFFFFFFF
    return h


@njit(cache=True, nogil=True)
def _slot(data, reads, i, table):
    """Return the place of a read's name in the hash table: what stands there is of that name."""
    mask = len(table) - 1
    slot = reads[i, NAME] & mask
    while table[slot] >= 0:
        other = table[slot]
        if reads[other, NAME] == reads[i, NAME] and _same_name(
            data, reads[other, AT], reads[i, AT]
        ):
            break
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def _keeps_first(data, read):
    """Whether of two mates the first keeps its quality: by a hash of the name (X31, then Wang)."""
    m = 0xFFFFFFFF
    name = read + LEAST_RECORD
    h = byte(data, name)
    for i in range(1, byte(data, read + 8) - 1):
        h = (h * 31 + byte(data, name + i)) & m
    h = (h + (~(h << 15) & m)) & m
    h ^= h >> 10
    h = (h + (h << 3)) & m
    h ^= h >> 6
    h = (h + (~(h << 11) & m)) & m
    h ^= h >> 16
    return (h & 1) == 1


@njit(cache=True, nogil=True)
def pair_mates(data, given, reads, old, n, last, orphans, table, previous):
    """Take the quality of one of two mates where they overlap, in the bytes themselves.

    A read waits for its mate until a read of its name has been passed: one whose end lies before
    the start of the last read that was seen.

    Parameters
    ----------
    data, given
        Bytes of records, whose base qualities change, and with those that were given.
    reads, old, n
        The table of reads; of the first ``old`` mates were looked for before.
    last
        Start of the last read before the new ones, -1 for none.
    orphans
        Whether mates are found by their name alone.
    table, previous
        Room for a hash table of names, filled with -1, its length a power of 2; and for each
        read's last one of the same name.
    """
    for i in range(n):
        r = reads[i, AT]
        if i >= old:
            reads[i, NAME] = _hash_name(data, r)
        slot = _slot(data, reads, i, table)
        previous[i] = table[slot]
        if i < old:
            table[slot] = i
            continue
        reads[i, BEFORE] = last
        last = reads[i, BEGIN]
        if reads[i, END] <= reads[i, BEFORE]:
            continue  # of no length: it is never part of a column
        table[slot] = i
        _share_with_earlier(data, given, reads, previous, i, orphans)
        if orphans:
            continue
        flag, length = int16(data, r + 14), int32(data, r + 16)
        mate_contig, mate = int32(data, r + 20), int32(data, r + 24)
        apart = abs(int32(data, r + 28)) >= 2 * length and mate >= reads[i, END]
        elsewhere = mate_contig >= 0 and mate_contig != int32(data, r)
        if flag & MATE_UNMAPPED or not (flag & PROPER) or elsewhere or apart:
            continue
        first = _waiting(reads, previous, i, reads[i, BEFORE])
        if first >= 0:
            reads[first, WAITS] = 0
            _share_quality(data, given, reads, first, i)
        elif mate >= reads[i, BEGIN] or (flag & PAIRED and mate == -1):
            reads[i, WAITS] = 1
    return last


@njit(cache=True, nogil=True)
def _share_with_earlier(data, given, reads, previous, i, orphans):
    """Share the quality of read ``i`` with every earlier read of its template that it overlaps.

    From the first on, so that where three overlap the one that the name's hash says keeps it.
    Without ``orphans`` of supplementary alignments alone.
    """
    r = reads[i, AT]
    if previous[i] < 0 or (byte(data, r + 8) == 2 and byte(data, r + LEAST_RECORD) == _STAR):
        return
    flag, stop = int16(data, r + 14), -1
    while True:
        first, other = -1, previous[i]
        while other > stop:
            of_other = int16(data, reads[other, AT] + 14)
            mates = (flag | of_other) & SUPPLEMENTARY or (orphans and flag & of_other & PAIRED)
            if mates and reads[other, END] > reads[i, BEGIN]:
                first = other
            other = previous[other]
        if first < 0:
            return
        _share_quality(data, given, reads, first, i)
        stop = first


@njit(cache=True, nogil=True)
def _waiting(reads, previous, i, passed):
    """Return the read of the same name that waits for read ``i``, or -1."""
    waits = previous[i]
    while waits >= 0 and not reads[waits, WAITS]:
        waits = previous[waits]
    if waits < 0:
        return -1
    other = previous[i]
    while other >= 0:
        if reads[waits, BEFORE] <= reads[other, END] < passed:
            reads[waits, WAITS] = 0
            return -1
        other = previous[other]
    return waits


@njit(cache=True, nogil=True)
def _next_aligned(data, cigar, n, k, within, base, position):
    """Step to the next aligned base of a read; ``k`` is ``n`` where there is none."""
    within += 1
    while k < n:
        word = uint32(data, cigar + 4 * k)
        operation, length = word & 15, word >> 4
        if aligned(operation):
            if within < length:
                return k, within, base + 1, position + 1
        elif operation in (DELETION, SKIP):
            position += length
        elif operation in (INSERTION, SOFT):
            base += length
        k, within = k + 1, 0
    return k, 0, base, position


@njit(cache=True, nogil=True)
def _aligned_from(data, cigar, n, k, within, base, position, place):
    """Step to the first aligned base from a position of the reference on."""
    while k < n and position < place:
        rest = (uint32(data, cigar + 4 * k) >> 4) - 1 - within
        steps = min(rest, place - position)
        if steps > 0:
            within, base, position = within + steps, base + steps, position + steps
        else:
            k, within, base, position = _next_aligned(data, cigar, n, k, within, base, position)
    return k, within, base, position


@njit(cache=True, nogil=True)
def _after_deletion(data, cigar, k):
    return k > 0 and (uint32(data, cigar + 4 * (k - 1)) & 15) == DELETION


@njit(cache=True, nogil=True)
def _shared(x, y, agree, first):
    """Return the quality of two mates' bases together, and whether it is on the first mate."""
    if agree:
        return min(x + y, _MOST_QUALITY), first
    return int(0.8 * max(x, y)), x > y or (x == y and first)


@njit(cache=True, nogil=True)
def _weaken_in_deletion(data, cigar, n, at, qualities, length, stop, keeps):
    """Take quality of a read's bases where its mate has a deletion; return the next place.

    ``at`` is a place of the read: operation, base of the operation, base and position.
    """
    k, within, i, position = at
    while True:
        if i < length:
            data[qualities + i] = int(data[qualities + i] * 0.8) if keeps else 0
        k, within, i, position = _next_aligned(data, cigar, n, k, within, i, position)
        if k >= n or position >= stop:
            return k, within, i, position


@njit(cache=True, nogil=True)
def _share_quality(data, given, reads, one, other):
    """Give one of two mates the quality of both where they overlap, and the other none.

    Bases that agree: the sum, at most 200, on the mate that the name's hash says. That differ: .8
    of the better quality where it is. Against a deletion of the mate: .8 of it or none, by the
    hash too. Where a primer is masked in one, both keep what they have.
    """
    ra, rb = reads[one, AT], reads[other, AT]
    ca, na = reads[one, CIGAR], reads[one, OPERATIONS]
    cb, nb = reads[other, CIGAR], reads[other, OPERATIONS]
    la, lb = int32(data, ra + 16), int32(data, rb + 16)
    # Bases lie behind the record's own CIGAR, wherever the one that counts is.
    sa = ra + LEAST_RECORD + byte(data, ra + 8) + 4 * int16(data, ra + 12)
    sb = rb + LEAST_RECORD + byte(data, rb + 8) + 4 * int16(data, rb + 12)
    qa, qb = sa + (la + 1) // 2, sb + (lb + 1) // 2
    first = _keeps_first(data, ra)
    place = reads[other, BEGIN]
    ka, wa, ia, pa = _next_aligned(data, ca, na, 0, -1, -1, reads[one, BEGIN] - 1)
    kb, wb, ib, pb = _next_aligned(data, cb, nb, 0, -1, -1, reads[other, BEGIN] - 1)
    while True:
        ka, wa, ia, pa = _aligned_from(data, ca, na, ka, wa, ia, pa, place)
        kb, wb, ib, pb = _aligned_from(data, cb, nb, kb, wb, ib, pb, place)
        if ka >= na or kb >= nb:
            return
        place = max(place, pa, pb) + 1
        if pa != pb:
            if pa < pb and _after_deletion(data, cb, kb):
                at = (ka, wa, ia, pa)
                ka, wa, ia, pa = _weaken_in_deletion(data, ca, na, at, qa, la, pb, first)
            elif _after_deletion(data, ca, ka):
                at = (kb, wb, ib, pb)
                kb, wb, ib, pb = _weaken_in_deletion(data, cb, nb, at, qb, lb, pa, not first)
            else:
                continue
            if ka >= na or kb >= nb:
                return
        # As far as both go on without an indel they stay side by side.
        run = 1
        if pa == pb:
            run = min((uint32(data, ca + 4 * ka) >> 4) - wa, (uint32(data, cb + 4 * kb) >> 4) - wb)
        for t in range(run):
            if ia + t >= la or ib + t >= lb:
                return
            if given[qa + ia + t] == MASKED or given[qb + ib + t] == MASKED:
                continue
            x, y = byte(data, qa + ia + t), byte(data, qb + ib + t)
            agree = base_at(data, sa, ia + t) == base_at(data, sb, ib + t)
            left, on_first = _shared(x, y, agree, first)
            data[qa + ia + t] = left if on_first else 0
            data[qb + ib + t] = 0 if on_first else left
        wa, ia, pa = wa + run - 1, ia + run - 1, pa + run - 1
        wb, ib, pb = wb + run - 1, ib + run - 1, pb + run - 1
        place = max(place, min(pa, pb) + 1)


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
