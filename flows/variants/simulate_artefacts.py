"""Pairs of reads with artefacts as BAM files, with their sheet, their FASTA and the truth."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pysam

from flows.data import storage
from vbmodels.core.state import IntArray
from vbmodels.variants.bases import BASES
from vbmodels.variants.read_artefacts import (
    DELETED,
    PARALOG,
    Artefacts,
    Genome,
    PairOfReads,
    draw_genome,
    draw_pairs,
)

CONTIG = "simulated"
LEAST = 2 * PARALOG  # bases of a reference
_LETTERS = np.array(list(BASES))
_PAIRED, _PROPER, _REVERSE, _MATE_REVERSE, _FIRST, _SECOND = 0x1, 0x2, 0x10, 0x20, 0x40, 0x80
_DUPLICATE = 0x400


def write_artefacts(target: str, rows: int, seed: int, what: Artefacts) -> list[str]:
    """Write reads over ``rows`` bases, 600 at least; return the URLs.

    ``samples.csv``, ``reference.fa``, a BAM with its index for every replicate, and
    ``_truth/variants.parquet``: what the case carries, the deletion with the base before.
    """
    rng = np.random.default_rng(seed)
    genome = draw_genome(rng, max(rows, LEAST), what)
    urls = [storage.join(target, name) for name in ("samples.csv", "reference.fa")]
    lines = ["sample,replicate,path"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "reads.bam")
        for sample in ("case", "control"):
            for replicate in range(1, what.replicates + 1):
                name = f"{sample}{replicate}.bam"
                pairs = draw_pairs(rng, genome, what, sample == "case")
                _write_bam(path, pairs, len(genome.reference))
                for end in ("", ".bai"):
                    with open(path + end, "rb") as file:
                        storage.write_bytes(storage.join(target, name + end), file.read())
                urls.append(storage.join(target, name))
                lines.append(f"{sample},{replicate},{name}")
    storage.write_bytes(urls[0], ("\n".join(lines) + "\n").encode())
    storage.write_bytes(urls[1], f">{CONTIG}\n{_text(genome.reference)}\n".encode())
    urls.append(storage.join(target, "_truth", "variants.parquet"))
    storage.write_table(urls[-1], _truth(genome, what))
    return urls


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


def _write_bam(path: str, pairs: Sequence[PairOfReads], length: int) -> None:
    header = pysam.AlignmentHeader.from_dict(
        {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": CONTIG, "LN": length}]}
    )
    found = []
    for i, pair in enumerate(pairs):
        both = []
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
    found.sort(key=lambda read: read.reference_start)
    with pysam.AlignmentFile(path, "wb", header=header) as file:
        for read in found:
            file.write(read)
    pysam.index(path)
