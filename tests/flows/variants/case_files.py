"""Small files of several cases and what they share: counts, reads, and sheets of them."""

import numpy as np
import pyarrow.parquet as pq
import pysam

from flows.variants.input.counts import to_table
from tests.flows.variants.variant_files import BASES, header_of, make_read, save_reads, sequence

CONTIGS = ("chr1", "chr2")
LENGTH = 90
READ = 40
ANCHOR = 45  # of the deletion, from 0


def write_counts_of(path, cases, controls=("normal",), locations=30, depth=2000, missing=()):
    """Write counts of 2 replicates a sample; each case carries alleles of .03 of its own.

    ``missing`` are (case, position) without a read of the case.
    """
    rng = np.random.default_rng(11)
    ref = rng.integers(0, 4, locations).astype(np.int8)
    columns = [(sample, str(r)) for sample in (*cases, *controls) for r in (1, 2)]
    counts = np.zeros((locations, len(columns), 4), int)
    for i, (sample, _) in enumerate(columns):
        for j in range(locations):
            p = np.full(4, 4e-4)
            if sample in cases and j % 10 == 3 + cases.index(sample):
                p[(ref[j] + 1) % 4] = 0.03
            p[ref[j]] = 0.0
            errors = rng.multinomial(depth, [*p, 1.0 - p.sum()])[:4]
            counts[j, i] = errors
            counts[j, i, ref[j]] = depth - errors.sum()
    table = to_table(counts, ref, "chr1", 0, columns)
    for case, pos in missing:
        of = np.array(table["sample"].to_pylist()) == case
        table = table.filter(~(of & (table["pos"].to_numpy() == pos)))
    pq.write_table(table, path)
    return path


def write_reads_of(path, seed, carried=None, deletion=0.0, depth=60, cram=None):
    """Write reads of both contigs with errors of .002, an allele and a deletion of three bases.

    ``carried`` is (contig, position from 0) of an allele in a third of the reads.
    """
    rng = np.random.default_rng(seed)
    header, made = header_of(CONTIGS, LENGTH), []
    for c, contig in enumerate(CONTIGS):
        text = sequence(contig, LENGTH)
        starts = np.sort(rng.integers(0, LENGTH - READ - 3, depth * LENGTH // READ))
        for i, start in enumerate(starts.tolist()):
            flag = 16 * int(rng.integers(2))
            letters, cigar = list(text[start : start + READ]), None
            before = ANCHOR + 1 - start
            if c == 0 and 5 < before < READ - 5 and rng.random() < deletion:
                letters = list(text[start : ANCHOR + 1] + text[ANCHOR + 4 : start + READ + 3])
                cigar = [(0, before), (2, 3), (0, READ - before)]
            elif carried and carried[0] == contig and rng.random() < 0.3:
                at = carried[1] - start
                if 0 <= at < READ:
                    letters[at] = "A" if letters[at] != "A" else "C"
            for k in np.flatnonzero(rng.random(READ) < 0.002):
                letters[k] = str(rng.choice(BASES))
            bases = "".join(letters)
            made.append(
                make_read(header, f"{contig}-{i}", start, bases, cigar, flag, c, quality=35)
            )
    return save_reads(path, header, made, "wb" if cram is None else "wc", cram)


def write_cases(folder, cases=("ann", "bob", "cid"), cram=None):
    """Write a FASTA, two replicates of every case and of a control, and the sheet with roles."""
    fasta = folder / "ref.fa"
    fasta.write_text("".join(f">{c}\n{sequence(c, LENGTH)}\n" for c in CONTIGS))
    pysam.faidx(str(fasta))
    end = "bam" if cram is None else "cram"
    rows = ["sample,replicate,path,role"]
    for i, sample in enumerate((*cases, "blood")):
        case = sample != "blood"
        for r in (1, 2):
            write_reads_of(
                folder / f"{sample}{r}.{end}", 10 * i + r,
                ("chr2", 40 + i) if case else None, 0.3 if i == 0 else 0.0,
                cram=None if cram is None else fasta,
            )  # fmt: skip
            rows.append(f"{sample},{r},{sample}{r}.{end},{'case' if case else 'control'}")
    sheet = folder / "sheet.csv"
    sheet.write_text("\n".join(rows) + "\n")
    return sheet
