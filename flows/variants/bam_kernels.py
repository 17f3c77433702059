# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Raw records of a BAM in one pass: which reads count, mates that overlap, sums by allele.

A record is laid out as in section 4.2 of the SAM specification. Reads are left out, and of two
mates that overlap one is left in place, as htslib's pileup does it (`bam_plp_push` and its
`tweak_overlap_quality`, versions 1.13 to 1.24), so counts have the same bits; a test compares.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Columns of the table of reads.
AT, BEGIN, END, CIGAR, OPERATIONS, BEFORE, WAITS, NAME = range(8)
COLUMNS = 8
# Sums of an allele's reads at a location.
BASE_Q, BASE_Q2, MAP_Q, MAP_Q2, TO_END, TO_END2, NEAR, CLIPPED, MISMATCHES, MANY = range(10)
SUMS = 10
NEAR_BASES = 5  # of an indel of the same read
BESIDE, MANY_MISMATCHES = 10, 2  # more than these, within so many bases of a read, are many
_MOST_PLACES = 1024  # mismatches of a read whose places are kept
_LEFT_OUT = 0x4 | 0x100 | 0x200 | 0x400  # unmapped, secondary, failed, duplicate
_PAIRED, _PROPER, _MATE_UNMAPPED, _REVERSE = 0x1, 0x2, 0x8, 0x10
WORDS = 8  # of packed sums; six are used
MOST_PACKED, MOST_BYTES = 2**19, 2**27  # reads, and their bytes, whose sums fit into the words
_MOST_TO_END = 2**16 - 1
_HALF, _SQUARES, _LONG_SQUARES = 32, 40, 43  # bits of a word's lower sum
_LEAST_RECORD = 32  # bytes of a record's fixed fields
_INSERTION, _DELETION, _SKIP, _SOFT, _HARD, _PADDING = 1, 2, 3, 4, 5, 6
_MOST_QUALITY = 200  # of two mates that agree


@njit(cache=True, nogil=True)
def _byte(data, at):
    return np.int64(data[at])


@njit(cache=True, nogil=True)
def _int16(data, at):
    return _byte(data, at) | (_byte(data, at + 1) << 8)


@njit(cache=True, nogil=True)
def _int32(data, at):
    low = _byte(data, at) | (_byte(data, at + 1) << 8) | (_byte(data, at + 2) << 16)
    return np.int64(np.int32(low | (_byte(data, at + 3) << 24)))


@njit(cache=True, nogil=True)
def _uint32(data, at):
    return _int32(data, at) & 0xFFFFFFFF


@njit(cache=True, nogil=True)
def _aligned(operation):
    """Whether an operation of a CIGAR is M, = or X."""
    return operation == 0 or operation == 7 or operation == 8


@njit(cache=True, nogil=True)
def _long_cigar(data, at, stop):
    """Return the place and the length of the CIGAR in the tag CG; (-1, 0) where there is none."""
    while at + 3 <= stop:
        kind = data[at + 2]
        if kind == 0x42:  # B: an array
            if at + 8 > stop:
                break
            of, n = data[at + 3], _uint32(data, at + 4)
            width = 1 if of in (0x63, 0x43) else 2 if of in (0x73, 0x53) else 4
            if at + 8 + n * width > stop:
                break
            if data[at] == 0x43 and data[at + 1] == 0x47 and of == 0x49:
                return at + 8, n
            at += 8 + n * width
        elif kind == 0x5A or kind == 0x48:  # Z, H: text
            at += 3
            while at < stop and data[at] != 0:
                at += 1
            at += 1
        else:
            width = 1 if kind in (0x41, 0x63, 0x43) else 2 if kind in (0x73, 0x53) else 4
            at += 3 + width
    return -1, 0


@njit(cache=True, nogil=True)
def find_reads(data, at, stop, tid, low, high, least_quality, orphans, reads, n):
    """Find the reads of whole records that count and reach into positions low to high.

    Parameters
    ----------
    data
        Bytes of records.
    at, stop
        Where the next record starts, and where the bytes end.
    tid
        The contig.
    least_quality, orphans
        The least mapping quality, and whether paired reads without their mate count.
    reads, n
        The table of reads, and how many it has.

    Returns
    -------
    at, n
        Where the next record starts, and how many reads there are.
    state
        0: the bytes are used up; 1: no later record counts; 2: the table is full; 3: a record is
        damaged.
    """
    while at + 4 + _LEAST_RECORD <= stop:
        size = _int32(data, at)
        if size < _LEAST_RECORD:
            return at, n, 3
        if at + 4 + size > stop:
            break
        r = at + 4
        contig, begin = _int32(data, r), _int32(data, r + 4)
        if contig != tid or begin >= high:
            if contig > tid or contig < 0 or (contig == tid and begin >= high):
                return at, n, 1
            at += 4 + size
            continue
        flag = _int16(data, r + 14)
        paired_alone = (flag & _PAIRED) and not (flag & _PROPER) and not orphans
        if flag & _LEFT_OUT or _byte(data, r + 9) < least_quality or paired_alone:
            at += 4 + size
            continue
        length, n_cigar = _int32(data, r + 16), _int16(data, r + 12)
        cigar = r + _LEAST_RECORD + _byte(data, r + 8)
        behind = cigar + 4 * n_cigar + (length + 1) // 2 + length
        if length < 0 or begin < 0 or behind > r + size:
            return at, n, 3
        if n_cigar == 2 and (_uint32(data, cigar) & 15) == _SOFT:
            placeholder = (_uint32(data, cigar) >> 4) == length
            if placeholder and (_uint32(data, cigar + 4) & 15) == _SKIP:
                there, many = _long_cigar(data, behind, r + size)
                if there >= 0:
                    cigar, n_cigar = there, many
        span = 0
        for k in range(n_cigar):
            word = _uint32(data, cigar + 4 * k)
            if _aligned(word & 15) or (word & 15) in (_DELETION, _SKIP):
                span += word >> 4
        if begin + max(span, 1) > low:
            if n == len(reads):
                return at, n, 2
            reads[n, AT], reads[n, BEGIN], reads[n, END] = r, begin, begin + span
            reads[n, CIGAR], reads[n, OPERATIONS] = cigar, n_cigar
            reads[n, WAITS] = 0
            n += 1
        at += 4 + size
    return at, n, 0


@njit(cache=True, nogil=True)
def _same_name(data, one, other):
    n = _byte(data, one + 8)
    if _byte(data, other + 8) != n:
        return False
    for i in range(n):
        if data[one + _LEAST_RECORD + i] != data[other + _LEAST_RECORD + i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _hash_name(data, read):
    """Return a 32-bit FNV-1a hash of a read's name."""
    h = 2166136261
    for i in range(_byte(data, read + 8)):
        h = ((h ^ _byte(data, read + _LEAST_RECORD + i)) * 16777619) & 0xFFFFFFFF
    return h


@njit(cache=True, nogil=True)
def _slot(data, reads, i, table):
    """Return the place of a read's name in the hash table: what stands there is of that name."""
    mask = len(table) - 1
    slot = reads[i, NAME] & mask
    while table[slot] >= 0:
        other = table[slot]
        if reads[other, NAME] == reads[i, NAME] and _same_name(data, reads[other, AT], reads[i, AT]):
            break
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def _keeps_first(data, read):
    """Whether of two mates the first keeps its quality: by a hash of the name (X31, then Wang)."""
    m = 0xFFFFFFFF
    name = read + _LEAST_RECORD
    h = _byte(data, name)
    for i in range(1, _byte(data, read + 8) - 1):
        h = (h * 31 + _byte(data, name + i)) & m
    h = (h + (~(h << 15) & m)) & m
    h ^= h >> 10
    h = (h + (h << 3)) & m
    h ^= h >> 6
    h = (h + (~(h << 11) & m)) & m
    h ^= h >> 16
    return (h & 1) == 1


@njit(cache=True, nogil=True)
def pair_mates(data, reads, old, n, last, table, previous):
    """Take the quality of one of two mates where they overlap, in the bytes themselves.

    A read waits for its mate until a read of its name has been passed: one whose end lies before
    the start of the last read that was seen.

    Parameters
    ----------
    data
        Bytes of records; base qualities change.
    reads, old, n
        The table of reads; of the first ``old`` mates were looked for before.
    last
        Start of the last read before the new ones, -1 for none.
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
        flag, length = _int16(data, r + 14), _int32(data, r + 16)
        mate_contig, mate = _int32(data, r + 20), _int32(data, r + 24)
        apart = abs(_int32(data, r + 28)) >= 2 * length and mate >= reads[i, END]
        elsewhere = mate_contig >= 0 and mate_contig != _int32(data, r)
        if flag & _MATE_UNMAPPED or not (flag & _PROPER) or elsewhere or apart:
            continue
        first = _waiting(reads, previous, i, reads[i, BEFORE])
        if first >= 0:
            reads[first, WAITS] = 0
            _share_quality(data, reads, first, i)
        elif mate >= reads[i, BEGIN] or (flag & _PAIRED and mate == -1):
            reads[i, WAITS] = 1
    return last


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
        word = _uint32(data, cigar + 4 * k)
        operation, length = word & 15, word >> 4
        if _aligned(operation):
            if within < length:
                return k, within, base + 1, position + 1
        elif operation == _DELETION or operation == _SKIP:
            position += length
        elif operation == _INSERTION or operation == _SOFT:
            base += length
        k, within = k + 1, 0
    return k, 0, base, position


@njit(cache=True, nogil=True)
def _aligned_from(data, cigar, n, k, within, base, position, place):
    """Step to the first aligned base from a position of the reference on."""
    while k < n and position < place:
        rest = (_uint32(data, cigar + 4 * k) >> 4) - 1 - within
        steps = min(rest, place - position)
        if steps > 0:
            within, base, position = within + steps, base + steps, position + steps
        else:
            k, within, base, position = _next_aligned(data, cigar, n, k, within, base, position)
    return k, within, base, position


@njit(cache=True, nogil=True)
def _after_deletion(data, cigar, k):
    return k > 0 and (_uint32(data, cigar + 4 * (k - 1)) & 15) == _DELETION


@njit(cache=True, nogil=True)
def _base(data, bases, i):
    return (_byte(data, bases + (i >> 1)) >> (0 if i & 1 else 4)) & 15


@njit(cache=True, nogil=True)
def _share_quality(data, reads, one, other):
    """Give one of two mates the quality of both where they overlap, and the other none.

    Bases that agree: the sum, at most 200, on the mate that the name's hash says. That differ: .8
    of the better quality where it is. Against a deletion of the mate: .8 of it or none, by the
    hash too.
    """
    ra, rb = reads[one, AT], reads[other, AT]
    ca, na = reads[one, CIGAR], reads[one, OPERATIONS]
    cb, nb = reads[other, CIGAR], reads[other, OPERATIONS]
    la, lb = _int32(data, ra + 16), _int32(data, rb + 16)
    # Bases lie behind the record's own CIGAR, wherever the one that counts is.
    sa = ra + _LEAST_RECORD + _byte(data, ra + 8) + 4 * _int16(data, ra + 12)
    sb = rb + _LEAST_RECORD + _byte(data, rb + 8) + 4 * _int16(data, rb + 12)
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
                while True:
                    if ia < la:
                        data[qa + ia] = int(data[qa + ia] * 0.8) if first else 0
                    ka, wa, ia, pa = _next_aligned(data, ca, na, ka, wa, ia, pa)
                    if ka >= na:
                        return
                    if pa >= pb:
                        break
            elif _after_deletion(data, ca, ka):
                while True:
                    if ib < lb:
                        data[qb + ib] = 0 if first else int(data[qb + ib] * 0.8)
                    kb, wb, ib, pb = _next_aligned(data, cb, nb, kb, wb, ib, pb)
                    if kb >= nb:
                        return
                    if pb >= pa:
                        break
            else:
                continue
        # As far as both go on without an indel they stay side by side.
        run = 1
        if pa == pb:
            run = min((_uint32(data, ca + 4 * ka) >> 4) - wa, (_uint32(data, cb + 4 * kb) >> 4) - wb)
        for t in range(run):
            if ia + t >= la or ib + t >= lb:
                return
            x, y = _byte(data, qa + ia + t), _byte(data, qb + ib + t)
            if _base(data, sa, ia + t) == _base(data, sb, ib + t):
                left = min(x + y, _MOST_QUALITY)
                on_first = first
            else:
                on_first = x > y or (x == y and first)
                left = int(0.8 * max(x, y))
            data[qa + ia + t] = left if on_first else 0
            data[qb + ib + t] = 0 if on_first else left
        wa, ia, pa = wa + run - 1, ia + run - 1, pa + run - 1
        wb, ib, pb = wb + run - 1, ib + run - 1, pb + run - 1
        place = max(place, min(pa, pb) + 1)


@njit(cache=True, nogil=True)
def _differs(data, bases, qualities, i, least, reference, p):
    if p < 0 or p >= len(reference) or reference[p] == 0 or data[qualities + i] < least:
        return 0
    return int(_base(data, bases, i) != reference[p])


@njit(cache=True, nogil=True)
def _mismatches(
    data, cigar, n, begin, bases, qualities, length, least, reference, pairs, origin, places
):
    """Find the confident bases of a read that differ from the reference; return how many.

    Two bases lie in a byte; ``pairs`` has the reference's in that form from every position on.
    """
    different, base, position = 0, 0, begin - origin
    for k in range(n):
        word = _uint32(data, cigar + 4 * k)
        operation, many = word & 15, word >> 4
        if _aligned(operation):
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
        elif operation == _INSERTION or operation == _SOFT:
            base += many
        elif operation == _DELETION or operation == _SKIP:
            position += many
    return different


@njit(cache=True, nogil=True)
def _to_next_indel(data, cigar, n, k):
    """Return how many aligned bases lie between operation ``k`` and the next indel."""
    bases = 0
    for j in range(k + 1, n):
        word = _uint32(data, cigar + 4 * j)
        if (word & 15) == _PADDING:
            continue
        if not _aligned(word & 15):
            return bases if (word & 15) in (_INSERTION, _DELETION) else 1 << 30
        bases += word >> 4
    return 1 << 30


@njit(cache=True, nogil=True)
def _clip(data, cigar, n, from_end):
    """Return the soft-clipped bases at one end of a read, and whether any are clipped there."""
    soft, clipped = 0, 0
    for j in range(n):
        word = _uint32(data, cigar + 4 * (n - 1 - j if from_end else j))
        if (word & 15) != _SOFT and (word & 15) != _HARD:
            break
        clipped = 1
        if (word & 15) == _SOFT:
            soft += word >> 4
    return soft, clipped


@njit(cache=True, nogil=True)
def tally(data, given, reads, n, low, high, least, strands, code, reference, pairs, origin, packed):
    """Add reads to the packed sums of positions ``low`` to ``high``.

    Parameters
    ----------
    data, given
        Bytes of records with the qualities that count, and with those that were given.
    reads, n
        The table of reads, and how many are added: at most `MOST_PACKED`, of at most `MOST_BYTES`.
    least, strands
        The least base quality; 1, 2 or 3: forward, reverse or both are counted.
    code
        [16] which of ACGT a base of a record is, -1 for none.
    reference, pairs, origin
        Bases of the reference as records have them, 0 for unknown, and where they begin; and every
        two neighbours of them in one byte.
    packed
        [high - low, 4, WORDS] to be added to; two sums in each word, as `unpack` has them.
    """
    places = np.empty(_MOST_PLACES, np.int64)
    for t in range(n):
        r, begin = reads[t, AT], reads[t, BEGIN]
        strand = 1 if _int16(data, r + 14) & _REVERSE else 0
        if not (strands >> strand) & 1:
            continue
        one = 1 << (_HALF * strand)
        length, quality = _int32(data, r + 16), _byte(data, r + 9)
        bases = r + _LEAST_RECORD + _byte(data, r + 8) + 4 * _int16(data, r + 12)
        q = bases + (length + 1) // 2
        cigar, n_cigar = reads[t, CIGAR], reads[t, OPERATIONS]
        lead, clipped = _clip(data, cigar, n_cigar, False)
        trail, clipped_too = _clip(data, cigar, n_cigar, True)
        last = length - trail - 1
        wrong = _mismatches(
            given, cigar, n_cigar, begin, bases, q, length, least, reference, pairs, origin, places
        )
        of_read = quality * quality + ((clipped | clipped_too) << _SQUARES)
        base, position, after = 0, begin, -(1 << 30)
        for k in range(n_cigar):
            word = _uint32(data, cigar + 4 * k)
            operation, many = word & 15, word >> 4
            if not _aligned(operation):
                if operation == _INSERTION or operation == _SOFT:
                    base += many
                elif operation == _DELETION or operation == _SKIP:
                    position += many
                if operation == _INSERTION or operation == _DELETION:
                    after = base
                elif operation == _SKIP:
                    after = -(1 << 30)
                continue
            before = base + many + _to_next_indel(data, cigar, n_cigar, k)
            for j in range(max(0, low - position), min(many, high - position, length - base)):
                i = base + j
                if data[q + i] < least:
                    continue
                shown = _base(data, bases, i)
                b = code[shown]
                if b < 0:
                    continue
                p = position + j
                own = _byte(given, q + i)
                end = min(i - lead, last - i, _MOST_TO_END)
                others, beside = wrong, 0
                for m in range(min(wrong, _MOST_PLACES)):
                    if places[m] == i:
                        others -= 1
                    elif abs(places[m] - i) <= BESIDE:
                        beside += 1
                near = int(i < after + NEAR_BASES or i >= before - NEAR_BASES)
                of = packed[p - low, b]
                of[0] += one
                of[1] += own + (end << _HALF)
                of[2] += own * own + (near << _SQUARES)
                of[3] += of_read
                of[4] += quality + (others << _HALF)
                of[5] += end * end + (int(beside > MANY_MISMATCHES) << _LONG_SQUARES)
            base += many
            position += many


@njit(cache=True, nogil=True)
def unpack(packed, counts, sums):
    """Add packed sums to counts [J, 2, 4] and sums [J, 4, SUMS], and empty them."""
    half, squares = (1 << _HALF) - 1, (1 << _SQUARES) - 1
    for p in range(len(packed)):
        for b in range(4):
            of, to = packed[p, b], sums[p, b]
            if of[0] == 0:
                continue
            counts[p, 0, b] += of[0] & half
            counts[p, 1, b] += of[0] >> _HALF
            to[BASE_Q] += of[1] & half
            to[TO_END] += of[1] >> _HALF
            to[BASE_Q2] += of[2] & squares
            to[NEAR] += of[2] >> _SQUARES
            to[MAP_Q2] += of[3] & squares
            to[CLIPPED] += of[3] >> _SQUARES
            to[MAP_Q] += of[4] & half
            to[MISMATCHES] += of[4] >> _HALF
            to[TO_END2] += of[5] & ((1 << _LONG_SQUARES) - 1)
            to[MANY] += of[5] >> _LONG_SQUARES
            of[:] = 0


@njit(cache=True, nogil=True)
def retire(data, given, reads, n, last, previous, at, stop):
    """Move what later reads may overlap to the front: reads, records, an unfinished record.

    Parameters
    ----------
    data, given
        Bytes of records, and with the qualities that were given; empty where none changes.
    reads, n
        The table of reads, whose lines change: those that stay come first.
    last
        Start of the last read that was seen; what ends before it has been passed.
    previous
        Each read's last one of the same name; empty where mates were not looked for.
    at, stop
        Bytes of a record that is not whole yet.

    Returns
    -------
    kept
        How many reads stay.
    there, end
        Where the unfinished record is now, and where its bytes end.
    """
    two = len(given) > 0
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
            if two:
                given[there - (end - begin) : there] = given[begin:end]
            begin = end = r
        shift = there - r
        end += 4 + _int32(data, r)
        there += end - r
        for c in range(COLUMNS):
            reads[kept, c] = reads[i, c]
        reads[kept, AT] += shift
        reads[kept, CIGAR] += shift
        kept += 1
    data[there - (end - begin) : there] = data[begin:end]
    data[there : there + stop - at] = data[at:stop]
    if two:
        given[there - (end - begin) : there] = given[begin:end]
        given[there : there + stop - at] = given[at:stop]
    return kept, there, there + stop - at
