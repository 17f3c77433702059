"""Pairs of reads with artefacts as BAM files, with their sheet, their FASTA and the truth.

A molecule of a sample carries each of its alleles with that allele's share, and is read from
both ends. Of a base at position p an error shows the base a with probability

    2e-4 x type x Gamma(2, 1/2) x library,    log type ~ N(-.245, .7^2)

where the first three are common to all samples and the library's factor is Gamma with
coefficient of variation .4. What `Artefacts` adds to them is in the case alone, as where
a control was prepared on another day; so whatever is called there is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pysam

from tests.flows.variants.bams import CONTIG, write_files
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.counts import BASES

READ = 100
GAP = 8  # bases beyond a deletion with fewer of which no aligner opens a gap
DELETED = 3
PARALOG = 300  # bases that have a copy elsewhere
_NOISE = 0.4
_QUALITIES = (25, 37, 37, 37)
MATCHED, DELETION, CLIPPED = 0, 2, 4  # operations of a CIGAR, by the numbers of SAM
LEAST = 2 * PARALOG  # bases of a reference
_LETTERS = np.array(list(BASES))
_PAIRED, _PROPER, _REVERSE, _MATE_REVERSE, _FIRST, _SECOND = 0x1, 0x2, 0x10, 0x20, 0x40, 0x80
_DUPLICATE = 0x400


def write_artefacts(target: str, rows: int, seed: int, what: Artefacts) -> list[str]:
    """Write reads over ``rows`` bases, 600 at least; return the URLs.

    The truth, ``variants``, is what the case carries, the deletion with the base before; see
    `tests.flows.variants.bams.write_files`.
    """
    rng = np.random.default_rng(seed)
    genome = draw_genome(rng, max(rows, LEAST), what)

    def reads(sample: str, header: pysam.AlignmentHeader) -> list[pysam.AlignedSegment]:
        return _aligned(draw_pairs(rng, genome, what, sample == "case"), header)

    text, truth = _text(genome.reference), _truth(genome, what)
    return write_files(target, text, what.replicates, reads, "variants", truth)


def _text(bases: IntArray) -> str:
    return "".join(_LETTERS[bases])


def _truth(genome: Genome, what: Artefacts) -> pa.Table:
    rows = [
        (v.position + 1, _text(genome.reference[[v.position]]), BASES[v.base], what.share)
        for v in genome.variants
    ]
    if what.deletion:
        at = genome.deletion_at
        lost = _text(genome.reference[at - 1 : at + DELETED])
        rows.append((at, lost, lost[0], what.deletion))
    rows.sort()
    types = {"pos": pa.int64(), "ref": pa.string(), "alt": pa.string(), "rate": pa.float64()}
    columns = {
        name: pa.array([row[i] for row in rows], kind)
        for i, (name, kind) in enumerate(types.items())
    }
    return pa.table({"chrom": pa.array([CONTIG] * len(rows), pa.string()), **columns})


def _aligned(
    pairs: Sequence[PairOfReads], header: pysam.AlignmentHeader
) -> list[pysam.AlignedSegment]:
    found = []
    for i, pair in enumerate(pairs):
        both: list[Any] = []
        for drawn, flag in (
            (pair.left, _MATE_REVERSE | _FIRST), (pair.right, _REVERSE | _SECOND),
        ):  # fmt: skip
            read = pysam.AlignedSegment(header)
            read.query_name = f"molecule{i}"
            read.flag = _PAIRED | _PROPER | flag | (_DUPLICATE if pair.duplicate else 0)
            read.query_sequence = _text(drawn.bases)
            text = "".join(map(chr, (drawn.qualities + 33).tolist()))
            read.query_qualities = pysam.qualitystring_to_array(text)
            read.reference_id, read.reference_start = 0, drawn.start
            read.mapping_quality, read.cigartuples = drawn.mapping_quality, drawn.operations
            both.append(read)
        left, right = both
        size = max(right.reference_end, left.reference_end) - min(
            left.reference_start, right.reference_start
        )
        for read, mate, sign in ((left, right, 1), (right, left, -1)):
            read.next_reference_id, read.next_reference_start = 0, mate.reference_start
            read.template_length = sign * size
        found += both
    return sorted(found, key=lambda read: read.reference_start)


@dataclass(frozen=True)
class Artefacts:
    """What is drawn.

    Attributes
    ----------
    meaning
        What it stands for.
    variants, share
        Substitutions that the case carries, one in how many bases (0: none), and their share.
    depth, replicates
        Mean reads of a position far from the ends, and replicates of each sample.
    fragment
        Mean length of a molecule; below 2 x 100 bases its two reads overlap.
    context
        Factor of the case's C>A behind a C, and of G>T before a G, as oxidised guanine has it.
    strand
        Share of positions that show one allele in 2 % of the case's reads of one strand.
    clips
        Share of the case's reads that run into the adapter; all of it but up to 3 bases is clipped.
    duplicates
        Share of the case's molecules that were copied, with what the copying got wrong; marked.
    paralog
        Share of the case's molecules over `PARALOG` bases that are those of a copy elsewhere.
    deletion
        Share of the case's molecules that lack three bases in the middle.
    """

    meaning: str
    variants: int = 0
    share: float = 0.03
    depth: int = 600
    replicates: int = 2
    fragment: int = 260
    context: float = 1.0
    strand: float = 0.0
    clips: float = 0.0
    duplicates: float = 0.0
    paralog: float = 0.0
    deletion: float = 0.0


ARTEFACTS = {
    "bam_null": Artefacts("BAM files: case and control differ at random"),
    "bam_context": Artefacts("BAM files: oxidised guanine in the case, in its context", context=20),
    "bam_strand": Artefacts("BAM files: positions that err on one strand of the case", strand=0.01),
    "bam_overlaps": Artefacts("BAM files: mates overlap", fragment=130),
    "bam_clips": Artefacts("BAM files: a fifth of its reads meet the adapter", clips=0.2),
    "bam_duplicates": Artefacts("BAM files: marked copies of the case's molecules", duplicates=0.3),
    "bam_paralog": Artefacts("BAM files: a tenth of the case's reads are a paralog's", paralog=0.1),
    "bam_deletion": Artefacts("BAM files: reads that end next to a deletion", deletion=0.3),
    "bam_variants": Artefacts("BAM files: variants of 3 %", variants=60),
    "bam_all": Artefacts(
        "BAM files: variants of 3 %, and all that goes wrong", variants=60, fragment=160,
        context=20, strand=0.01, clips=0.2, duplicates=0.3, paralog=0.1, deletion=0.3,
    ),
}  # fmt: skip


class Allele(NamedTuple):
    """A base that the case's molecules show at a position."""

    position: int
    base: int


@dataclass(frozen=True)
class Genome:
    """What both samples have in common, and what the case carries.

    Attributes
    ----------
    reference
        [L] bases as indices in ACGT.
    errors
        [L, 4] probability that a read shows each base by error.
    one_strand
        [2, L, 4] what is added to that in the case, by strand.
    variants, paralog
        Alleles of the case, and those of the copy elsewhere.
    paralog_at, deletion_at
        First base that has a copy, and the first that is lost.
    """

    reference: IntArray
    errors: FloatArray
    one_strand: FloatArray
    variants: tuple[Allele, ...]
    paralog: tuple[Allele, ...]
    paralog_at: int
    deletion_at: int


class Read(NamedTuple):
    """An aligned read of a pair; ``operations`` are (operation, bases) as in a CIGAR."""

    start: int
    operations: list[tuple[int, int]]
    bases: IntArray
    qualities: IntArray
    mapping_quality: int


class PairOfReads(NamedTuple):
    """The reads of one molecule: from its left end forwards, and from its right end backwards."""

    left: Read
    right: Read
    duplicate: bool


def draw_genome(rng: np.random.Generator, length: int, what: Artefacts) -> Genome:
    """Draw a reference, its error rates and the case's alleles; see above."""
    reference = rng.integers(0, 4, length)
    of_type = 2e-4 * np.exp(0.7 * rng.standard_normal((4, 4)) - 0.245)
    errors = of_type[reference] * rng.gamma(2.0, 0.5, (length, 4))
    errors[np.arange(length), reference] = 0.0
    one_strand = np.zeros((2, length, 4))
    hot = np.flatnonzero(rng.random(length) < what.strand)
    one_strand[rng.integers(0, 2, len(hot)), hot, _other(rng, reference[hot])] = 0.02
    deletion_at, paralog_at = length // 2, length // 5
    apart = np.abs(np.arange(length) - deletion_at) > 2 * READ
    inside = np.arange(length) - paralog_at
    apart &= (inside < -READ) | (inside > PARALOG + READ)
    apart &= ~one_strand.any(axis=(0, 2))
    apart[:READ] = apart[length - READ :] = False
    n = min(length // what.variants, int(apart.sum())) if what.variants else 0
    own = np.sort(rng.choice(np.flatnonzero(apart), n, replace=False))
    copied = np.arange(paralog_at, min(paralog_at + PARALOG, length))
    differs = np.sort(rng.choice(copied, max(1, len(copied) // 20), replace=False))
    return Genome(
        reference, errors, one_strand, _alleles(rng, reference, own),
        _alleles(rng, reference, differs), paralog_at, deletion_at,
    )  # fmt: skip


def _other(rng: np.random.Generator, bases: IntArray) -> IntArray:
    return np.asarray((bases + rng.integers(1, 4, len(bases))) % 4)


def _alleles(rng: np.random.Generator, reference: IntArray, at: IntArray) -> tuple[Allele, ...]:
    shown = _other(rng, reference[at])
    return tuple(Allele(int(p), int(b)) for p, b in zip(at, shown, strict=True))


def library(rng: np.random.Generator, genome: Genome, what: Artefacts, of_case: bool) -> FloatArray:
    """Return one library's error rates [2, L, 4], of forward and of reverse reads."""
    shape = 1.0 / _NOISE**2
    errors = genome.errors * rng.gamma(shape, 1.0 / shape, genome.errors.shape)
    if not of_case:
        return np.stack([errors, errors])
    a, c, g, t = range(4)
    reference = genome.reference
    behind_c = np.flatnonzero((reference[1:] == c) & (reference[:-1] == c)) + 1
    before_g = np.flatnonzero((reference[:-1] == g) & (reference[1:] == g))
    errors[behind_c, a] *= what.context
    errors[before_g, t] *= what.context
    return np.asarray(errors + genome.one_strand)


def draw_pairs(
    rng: np.random.Generator, genome: Genome, what: Artefacts, of_case: bool
) -> list[PairOfReads]:
    """Draw the reads of one replicate.

    Parameters
    ----------
    rng
        Source of randomness.
    genome, what
        What is read, and what goes wrong.
    of_case
        Whether it is of the case: a control has neither variants nor artefacts but for mates that
        overlap.
    """
    length = len(genome.reference)
    rates = library(rng, genome, what, of_case)
    chance = rates.sum(axis=2)
    found = []
    # No molecule lies beyond an end: so many give that depth between them.
    n = max(1, round(what.depth * max(length - what.fragment, READ) / (2 * READ)))
    for _ in range(n):
        size = int(np.clip(rng.normal(what.fragment, 20.0), READ, length - DELETED))
        place, bases, foreign = _molecule(rng, genome, what, of_case, size)
        copies = 1
        if of_case and rng.random() < what.duplicates:
            copies += int(rng.integers(1, 4))
            wrong = np.flatnonzero(rng.random(size) < 2e-3)
            bases[wrong] = _other(rng, bases[wrong])
        for copy in range(copies):
            reads = []
            for strand, part in ((0, slice(0, READ)), (1, slice(size - READ, size))):
                shown = _with_errors(rng, bases[part], place[part], rates[strand], chance[strand])
                quality = rng.choice(_QUALITIES, READ)
                clip = 0
                if of_case and rng.random() < what.clips:
                    clip, shown = _adapter(rng, shown, strand)
                start, operations = aligned(place[part], clip, strand)
                reads.append(Read(start, operations, shown, quality, 25 if foreign else 60))
            found.append(PairOfReads(reads[0], reads[1], copy > 0))
    return found


def _molecule(
    rng: np.random.Generator, genome: Genome, what: Artefacts, of_case: bool, size: int
) -> tuple[IntArray, IntArray, bool]:
    """Return a molecule's positions, its bases, and whether it is a paralog's."""
    start = int(rng.integers(0, len(genome.reference) - size - DELETED + 1))
    at = genome.deletion_at
    place = np.arange(start, start + size)
    if of_case and start < at < start + size and rng.random() < what.deletion:
        place[place >= at] += DELETED
    bases = genome.reference[place]
    if not of_case:
        return place, bases, False
    carried: Sequence[Allele] = [v for v in genome.variants if rng.random() < what.share]
    middle = start + size // 2 - genome.paralog_at
    foreign = bool(0 <= middle < PARALOG and rng.random() < what.paralog)
    if foreign:
        carried = genome.paralog
    for position, base in carried:
        bases[place == position] = base
    return place, bases, foreign


def _with_errors(
    rng: np.random.Generator, bases: IntArray, place: IntArray, rates: FloatArray,
    chance: FloatArray,
) -> IntArray:  # fmt: skip
    shown = bases.copy()
    for i in np.flatnonzero(rng.random(len(bases)) < chance[place]):
        shown[i] = rng.choice(4, p=rates[place[i]] / chance[place[i]])
    return shown


def _adapter(rng: np.random.Generator, shown: IntArray, strand: int) -> tuple[int, IntArray]:
    """Return how many bases are clipped of a read that runs into the adapter, and its bases."""
    adapter = int(rng.integers(6, 30))
    shown = shown.copy()
    of = slice(0, adapter) if strand else slice(READ - adapter, READ)
    shown[of] = rng.integers(0, 4, adapter)
    return adapter - int(rng.integers(0, 4)), shown


def aligned(place: IntArray, clip: int, strand: int) -> tuple[int, list[tuple[int, int]]]:
    """Return where a read starts and its operations, as an aligner would place it.

    Parameters
    ----------
    place
        Positions of its bases, with at most one gap.
    clip
        Bases that are clipped at its end: the right one of a forward read, else the left one.
    strand
        0 of a forward read, 1 of a reverse one.

    >>> aligned(np.array([*range(5, 15), *range(18, 28)]), 0, 0)
    (5, [(0, 10), (2, 3), (0, 10)])
    >>> aligned(np.array([5, 6, *range(10, 28)]), 0, 0)
    (8, [(0, 20)])
    >>> aligned(np.arange(5, 25), 4, 1)
    (9, [(4, 4), (0, 16)])
    """
    kept = place[clip:] if strand else place[: len(place) - clip]
    behind = np.flatnonzero(np.diff(kept) > 1) + 1
    n = len(kept)
    start = int(kept[0])
    operations = [(MATCHED, n)]
    if len(behind):
        first = int(behind[0])
        if first < GAP:
            start = int(kept[first]) - first
        elif n - first >= GAP:
            lost = int(kept[first] - kept[first - 1]) - 1
            operations = [(MATCHED, first), (DELETION, lost), (MATCHED, n - first)]
    if clip:
        operations = [(CLIPPED, clip), *operations] if strand else [*operations, (CLIPPED, clip)]
    return start, operations
