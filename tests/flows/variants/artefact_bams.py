"""Pairs of reads with artefacts as BAM files, with their sheet, their FASTA and the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pysam

from tests.flows.variants.bams import CONTIG, write_files
from tests.flows.variants.read_artefacts import (
    DELETED,
    PARALOG,
    Artefacts,
    Genome,
    PairOfReads,
    draw_genome,
    draw_pairs,
)
from vbmodels.core.state import IntArray
from vbmodels.variants.bases import BASES

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
