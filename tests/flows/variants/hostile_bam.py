"""BAM files of all that aligners write: pairs, clips, indels, skips, odd flags, names again."""

import numpy as np
import pysam

from tests.flows.variants.variant_files import save_reads

M, I, D, N, S, H, P, EQ, X = range(9)
CONTIGS = (("first", 400), ("amp", 1500), ("last", 400))


def sequence(contig):
    length = dict(CONTIGS)[contig]
    return "".join(np.random.default_rng(len(contig)).choice(list("ACGT"), length))


def write_fasta(path):
    path.write_text("".join(f">{name}\n{sequence(name)}\n" for name, _ in CONTIGS))
    pysam.faidx(str(path))
    return path


def without_pairs(bam):
    """Copy a BAM so that no read is paired: mates that overlap count twice."""
    copy = bam.with_suffix(".single.bam")
    with pysam.AlignmentFile(str(bam)) as file:
        header, reads = file.header, list(file)
    for read in reads:
        read.flag &= ~0xEB  # but unmapped, reverse, and those of the alignment
    return save_reads(copy, header, reads)


def _cigar(rng, length, kind):
    """Draw a CIGAR over about ``length`` bases of the reference."""
    if kind == "plain":
        return [(M, length)]
    parts = []
    if rng.random() < 0.2:
        parts.append((H, int(rng.integers(1, 9))))
    if rng.random() < 0.4:
        parts.append((S, int(rng.integers(1, 12))))
    left = length
    while left > 0:
        n = int(min(left, rng.integers(1, max(2, length // 2))))
        parts.append((int(rng.choice([M, M, M, EQ, X])), n))
        left -= n
        if left > 0:
            middle = int(rng.choice([I, D, D, N, P, M]))
            parts.append((middle, int(rng.integers(1, 5))))
            if rng.random() < 0.1:
                parts.append((D if middle == I else I, 2))
    if rng.random() < 0.4:
        parts.append((S, int(rng.integers(1, 12))))
    return parts


def _read(rng, header, name, contig, start, cigar, flag, alleles):
    read = pysam.AlignedSegment(header)
    read.query_name, read.flag = name, flag
    read.mapping_quality = int(rng.choice([60, 60, 60, 20, 19, 0, 255]))
    bases, at = [], start
    reference = sequence(contig)
    for operation, n in cigar:
        if operation in (M, EQ, X):
            bases += [reference[min(p, len(reference) - 1)] for p in range(at, at + n)]
        if operation in (I, S):
            bases += list(rng.choice(list("ACGT"), n))
        if operation in (M, EQ, X, D, N):
            at += n
    wrong = rng.random(len(bases)) < 0.05
    for i in np.flatnonzero(wrong):
        bases[i] = str(rng.choice(list(alleles)))
    read.reference_id = [c for c, _ in CONTIGS].index(contig)
    read.reference_start, read.cigartuples = start, cigar
    read.query_sequence = "".join(bases)
    if rng.random() < 0.97:
        quality = rng.choice([2, 15, 19, 20, 30, 37, 41, 93], len(bases))
        read.query_qualities = pysam.qualitystring_to_array("".join(chr(33 + q) for q in quality))
    if rng.random() < 0.5:
        read.set_tag("NM", 3)
        read.set_tag("XZ", "text")
    return read


def write(path, seed, fragments=400, kind="odd", depth_at=None, length=60, htslib=False):
    """Write fragments as pairs and single reads; ``depth_at`` puts them all at one place.

    With ``htslib`` no read is flagged as supplementary: htslib counts a template twice there.
    """
    rng = np.random.default_rng(seed)
    header = pysam.AlignmentHeader.from_dict(
        {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": c, "LN": n} for c, n in CONTIGS]}
    )
    reads = []
    for f in range(fragments):
        contig = str(rng.choice([c for c, _ in CONTIGS], p=[0.05, 0.9, 0.05]))
        most = dict(CONTIGS)[contig] - 2 * length - 100
        start = int(rng.integers(0, most)) if depth_at is None else depth_at
        gap = int(rng.integers(0, 2 * length))
        name = f"f:{f}" if rng.random() < 0.95 else f"f:{f // 3}"  # names that come again
        odd = 0
        if rng.random() < 0.1:
            odd = int(rng.choice([0x400, 0x200, 0x100, 0x800]))
        proper = 0x2 if rng.random() < 0.85 else 0
        one = _read(rng, header, name, contig, start, _cigar(rng, length, kind), 0x1 | proper | odd
                    | (0x20 if proper else 0) | 0x40, "ACGTN")  # fmt: skip
        two = _read(rng, header, name, contig, start + gap, _cigar(rng, length, kind), 0x1
                    | proper | 0x10 | 0x80, "ACGT")  # fmt: skip
        for read, mate in ((one, two), (two, one)):
            read.next_reference_id = mate.reference_id
            read.next_reference_start = mate.reference_start
            if rng.random() < 0.03:
                read.next_reference_start = int(rng.choice([-1, 5]))
            read.template_length = int(
                rng.choice([gap + length, 10 * length, 0], p=[0.8, 0.1, 0.1])
            )
        if rng.random() < 0.05:
            one.flag |= 0x8
        if rng.random() < 0.1:
            one.flag &= 0x10  # no pair
        reads += [one, two]
        if rng.random() < 0.1:  # a supplementary alignment of the same name
            more = _read(rng, header, name, contig, start + int(rng.integers(0, 30)),
                         _cigar(rng, length // 3, kind), 0x801 | proper | 0x40, "ACGT")  # fmt: skip
            more.next_reference_id, more.next_reference_start = two.reference_id, start + gap
            more.template_length = gap + length
            reads.append(more)
    for read in reads:
        read.flag &= ~0x800 if htslib else ~0
    return save_reads(path, header, reads)
