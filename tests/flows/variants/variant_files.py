"""Small files that variants are called from, and commands on them."""

import os
import time
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam

from flows import storage
from flows.records.runs import open_run
from flows.variants.input.counts import to_table
from tests.flows.commands import refused, run, succeed

QUICK = ("--set", "max_iter=4")
CONTIGS = ("chr1", "chr2", "chr10")  # in no alphabetical order
BASES = np.array(list("ACGT"))
LENGTH = 120


def run_stopped_and_resumed(capsys, monkeypatch, source, target, *arguments):
    """Run variants until its first VCF, where storage fails, then resume it."""

    def fails(*args, **kwargs):
        raise storage.StorageError("the store went away")

    with monkeypatch.context() as patched:
        patched.setattr("flows.variants.case_files.write_vcf", fails)
        code, _, err = run(capsys, "variants", source, target, *arguments)
    assert code == 1, err
    (name,) = (p.name for p in (target / "runs").iterdir())
    succeed("variants", source, target, *arguments, "--resume", name)


def options(**settings):
    return [x for name, value in settings.items() for x in ("--set", f"{name}={value}")]


@lru_cache
def sequence(contig, length=LENGTH):
    return "".join(np.random.default_rng(len(contig)).choice(BASES, length))


def write_fasta(path, contigs=CONTIGS, length=LENGTH):
    path.write_text("".join(f">{name}\n{sequence(name, length)}\n" for name in contigs))
    return path


def header_of(contigs, length):
    contigs = [{"SN": name, "LN": length} for name in contigs]
    return pysam.AlignmentHeader.from_dict({"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": contigs})


def make_read(header, name, start, bases, cigar=None, flag=0, contig=0, mapped=60, quality=40):
    """Return an alignment; its quality is one for all bases, or one for each."""
    read = pysam.AlignedSegment(header)
    read.query_name, read.flag, read.mapping_quality = name, flag, mapped
    read.query_sequence, read.cigartuples = bases, cigar or [(0, len(bases))]
    read.reference_id, read.reference_start = contig, start
    read.query_qualities = pysam.qualitystring_to_array(
        "".join(chr(33 + q) for q in np.broadcast_to(quality, len(bases)))
    )
    return read


def save_reads(path, header, reads, mode="wb", fasta=None, index=True):
    """Write reads in order of their positions."""
    fasta = None if fasta is None else str(fasta)
    with pysam.AlignmentFile(str(path), mode, header=header, reference_filename=fasta) as file:
        for read in sorted(reads, key=lambda read: (read.reference_id, read.reference_start)):
            file.write(read)
    if index:
        pysam.index(str(path))
    return path


def write_bam(path, reads=None, contigs=CONTIGS, length=LENGTH, index=True):
    """Write reads (contig, start, length, flag, mate, name, quality), 12 a contig by default."""
    if reads is None:
        reads = [
            (c, 5 * i, 50, 0, -1, f"r{c}-{i}", 30) for c in range(len(contigs)) for i in range(12)
        ]
    header, made = header_of(contigs, length), []
    for contig, start, n, flag, mate, name, quality in reads:
        bases = sequence(contigs[contig], length)[start : start + n]
        read = make_read(header, name, start, bases, None, flag, contig, quality=quality)
        if mate >= 0:
            read.next_reference_id, read.next_reference_start = contig, mate
            read.template_length = n if mate >= start else -n
        made.append(read)
    return save_reads(path, header, made, index=index)


def write_sheet(folder, rows=None, name="sheet.csv"):
    rows = rows or [("case", "1", "a.bam"), ("control", "1", "b.bam")]
    path = folder / name
    path.write_text("sample,replicate,path\n" + "".join(f"{','.join(map(str, r))}\n" for r in rows))
    return path


def write_reads(folder):
    """Write a FASTA of three contigs, two BAM files and their sheet; return the sheet."""
    write_fasta(folder / "ref.fa")
    write_bam(folder / "a.bam")
    write_bam(folder / "b.bam")
    return write_sheet(folder)


def write_counts(path, contigs=CONTIGS, samples=("case", "control"), length=40, change=None):
    """Write counts of every contig with 30 reads of the reference base."""
    tables = []
    for contig in contigs:
        ref = np.array(["ACGT".index(b) for b in sequence(contig)[:length]], np.int8)
        reads = np.zeros((length, len(samples), 4), int)
        reads[np.arange(length), :, ref] = 30
        if change:
            change(contig, reads, ref)
        tables.append(to_table(reads, ref, contig, 0, [(s, "1") for s in samples]))
    pq.write_table(pa.concat_tables(tables), path)
    return path


def edit_bed(path, text):
    """Write a BED whose time differs from the one before."""
    path.write_text(text)
    later = time.time_ns() + 10_000_000
    os.utime(path, ns=(later, later))


def loci(target):
    return pq.read_table(open_run(str(target))[0].table("loci"))


def positions(target):
    return set(loci(target)["pos"].to_pylist())


def check(capsys, source, **settings):
    return run(capsys, "check", "variants", source, *options(**settings))


def check_refused(capsys, source, **settings):
    return refused(capsys, "check", "variants", source, *options(**settings))
