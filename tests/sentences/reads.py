"""Variants from reads in the shape of public bug reports: what a check says, or a run warns of."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pysam

from tests.cases.reads import (
    reference_bases,
    write_pairs,
    write_reference,
    write_sheet,
    write_two,
)
from tests.sentences.said import Files, Said, command, looked


def check(files: Files, more: str = "", sheet: str = "samples.csv") -> Said:
    """Return a case of a check of reads by their sheet."""
    return looked(f"variants @/{sheet} {more}", files)


def run(files: Files, *settings: str) -> Said:
    """Return a case of a small run."""
    words = " ".join(f"--set {one}" for one in ("max_iter=4", *settings))
    return command(f"variants @/samples.csv @/out {words}", files)


def two(**kind: object) -> Callable[[Path], object]:
    return lambda folder: write_two(folder, **kind)


def with_another_fasta(folder: Path) -> None:
    write_two(folder)
    write_reference(folder / "old.fasta")


def sheet(*rows: str, first: str = "sample,replicate,path", name: str = "samples.csv",
          encoding: str = "utf-8") -> Callable[[Path], object]:  # fmt: skip
    """Two samples and another sheet of them."""

    def files(folder: Path) -> None:
        write_two(folder)
        path = write_sheet(folder, *rows, first=first, name=name)
        path.write_text(path.read_text(), encoding=encoding)

    return files


def alone(folder: Path) -> None:
    write_reference(folder / "ref.fa")
    write_pairs(folder / "t.bam", share=0.2)
    write_sheet(folder, "ann,t.bam", first="sample,path")


def one_role(folder: Path) -> None:
    alone(folder)
    write_sheet(folder, "ann,t.bam,case", first="sample,path,role")


def stale_index(folder: Path) -> None:
    write_two(folder)
    write_reference(folder / "ref.fa")
    pysam.faidx(str(folder / "ref.fa"))
    write_reference(folder / "ref.fa", "amp version 2")


def empty(name: str) -> Callable[[Path], object]:
    """Two samples, one of whose files has no reads."""
    return lambda folder: (write_two(folder), write_pairs(folder / name, templates=0))


def of_three(folder: Path) -> None:
    """Two samples, and a replicate of the case without reads."""
    write_two(folder)
    write_pairs(folder / "t2.bam", templates=0)
    write_sheet(folder, "case,1,t.bam", "case,2,t2.bam", "control,1,n.bam")


def drop_all(folder: Path) -> None:
    write_two(folder)
    write_pairs(folder / "t.bam", duplicates=1.0)


def other_names(ours: str, theirs: str) -> Callable[[Path], object]:
    """A reference whose contig has another name than in the reads, and a BED with the latter."""

    def files(folder: Path) -> None:
        write_two(folder, contig=theirs)
        write_reference(folder / "ref.fa", ours)
        (folder / "x.bed").write_text(f"{theirs}\t10\t200\n")

    return files


def read_groups(*of_case: str) -> Callable[[Path], object]:
    """Two samples, ann and bob; read groups of ann's file."""

    def files(folder: Path) -> None:
        write_two(folder)
        groups = [{"ID": f"g{i}", "SM": name} for i, name in enumerate(of_case)]
        write_pairs(folder / "t.bam", share=0.2, header={"RG": groups})
        write_sheet(
            folder, "ann,1,t.bam,case", "bob,1,n.bam,control", first="sample,replicate,path,role"
        )

    return files


def intervals(text: str, name: str = "x.bed") -> Callable[[Path], object]:
    return lambda folder: (write_two(folder), (folder / name).write_text(text))


def differing(share: float) -> Callable[[Path], object]:
    """A reference that differs from the reads' in a share of its bases."""

    def files(folder: Path) -> None:
        write_two(folder)
        letters = list(reference_bases())
        rng = np.random.default_rng(0)
        for i in rng.choice(len(letters), int(share * len(letters)), replace=False):
            letters[i] = "A" if letters[i] != "A" else "C"
        write_reference(folder / "ref.fa", bases="".join(letters))

    return files


def cram_of_another(folder: Path) -> None:
    """A CRAM, and a reference that differs from its own in two bases."""
    write_two(folder)
    for name in ("t", "n"):
        pysam.view("-C", "-T", str(folder / "ref.fa"), "-o", str(folder / f"{name}.cram"),
                   str(folder / f"{name}.bam"), catch_stdout=False)  # fmt: skip
        pysam.index(str(folder / f"{name}.cram"))
    write_sheet(folder, "case,1,t.cram", "control,1,n.cram")
    bases = reference_bases()
    write_reference(folder / "ref.fa", bases=f"{bases[:100]}NN{bases[102:]}")
    (folder / "ref.fa.fai").unlink(missing_ok=True)


def copied(folder: Path) -> None:
    """A replicate of the case under two names."""
    write_two(folder)
    for end in ("", ".bai"):
        (folder / f"t2.bam{end}").write_bytes((folder / f"t.bam{end}").read_bytes())
    write_sheet(folder, "case,1,t.bam", "case,2,t2.bam", "control,1,n.bam")


def of_cases(folder: Path) -> None:
    """Two cases, one of them without reads, and their control."""
    write_two(folder)
    write_pairs(folder / "e.bam", templates=0)
    rows = ("ann,t.bam,case", "bob,e.bam,case", "blood,n.bam,control")
    write_sheet(folder, *rows, first="sample,path,role")


def unaligned(folder: Path) -> None:
    write_two(folder)
    for name in ("t.bam", "n.bam"):
        with pysam.AlignmentFile(str(folder / name)) as file:
            header, reads = file.header, list(file)
        with pysam.AlignmentFile(str(folder / name), "wb", header=header) as file:
            for read in reads:
                read.flag, read.cigartuples = 4, None
                read.reference_id = read.next_reference_id = -1
                read.reference_start = read.next_reference_start = -1
                file.write(read)
        pysam.index(str(folder / name))


NO_DEPTH = "min_depth=0"
CASES = {
    "a FASTA in the sheet's folder": check(two()),
    "two FASTA files in the sheet's folder": check(with_another_fasta),
    "no FASTA": check(lambda folder: (write_two(folder), (folder / "ref.fa").unlink())),
    "a sheet of tabs without replicates": check(
        sheet("case\tt.bam", "control\tn.bam", first="sample\tpath", name="samples.tsv"),
        sheet="samples.tsv",
    ),
    "a sheet of semicolons, roles by names": check(
        sheet("p7-Tumour;1;t.bam", "p7-normal;1;n.bam", first="Sample;Replicate;Path")
    ),
    "Excel's Unicode text": check(
        sheet("treated\tt.bam", "untreated\tn.bam", first="sample\tpath", name="samples.txt",
              encoding="utf-16"),
        sheet="samples.txt",
    ),
    "roles and columns by other names": check(
        sheet("ann, t.bam, Tumour", "bob, n.bam, normal", first="sample_id, bam, role")
    ),
    "names in letters of western Europe": check(
        sheet("José,1,t.bam", "Josè,1,n.bam", encoding="cp1252"),
        "--set case=José --set control=Josè",
    ),
    "counts in CSV": check(
        sheet("chr1,7,A,case,1,9,0,0,0", first="chrom,pos,ref,sample,replicate,A,C,G,T")
    ),
    "a file that is not there, and no FASTA": check(
        lambda folder: write_sheet(folder, "ann,none.bam", first="sample,path")
    ),
    "more cells than names": check(sheet("case,1,t.bam,n.bam", "control,1,n.bam")),
    "a role twice": check(
        sheet("case,1,t.bam,case,control", "control,1,n.bam,control,",
              first="sample,replicate,path,role,role")
    ),
    "names that say no role": check(sheet("ann,1,t.bam", "bob,1,n.bam")),
    "duplicates of amplicons": check(two(duplicates=0.95)),
    "duplicates are kept": check(two(duplicates=0.95), "--set duplicates=keep"),
    "few proper pairs": check(two(proper=0.3)),
    "no proper pair": check(two(proper=0.0)),
    "no proper pair, orphans": check(two(proper=0.0), "--set orphans=true"),
    "reads of a low quality": check(two(quality=12)),
    "reads of a very low quality": check(two(quality=8)),
    "reads that map badly": check(two(mapped=3)),
    "reads that failed": check(two(flag=0x200)),
    "secondary alignments": check(two(flag=0x100)),
    "a control without reads": check(empty("n.bam")),
    "a case without reads": check(empty("t.bam")),
    "a replicate without reads": check(of_three),
    "a control with few reads": check(
        lambda folder: (write_two(folder), write_pairs(folder / "n.bam", templates=2))
    ),
    "a case of several without reads": check(of_cases),
    "reads that are not aligned": check(unaligned),
    "a case whose reads are all duplicates": check(drop_all),
    "a replicate without reads is allowed": run(of_three, NO_DEPTH),
    "a case of several without reads is allowed": run(of_cases, NO_DEPTH),
    "chr1 in the reads, 1 in the reference": check(other_names("1", "chr1"), "--set bed=@/x.bed"),
    "MT in the reads, chrM in the reference": check(other_names("chrM", "MT")),
    "files exchanged": check(read_groups("bob")),
    "two samples in a file": check(read_groups("ann", "eve")),
    "a sample's own read group": check(read_groups("ann")),
    "a Picard interval_list": check(
        intervals("@HD\tVN:1.6\n@SQ\tSN:amp\tLN:240\namp\t11\t20\t+\tx\n"), "--set bed=@/x.bed"
    ),
    "GATK intervals": check(intervals("amp:11-20\namp:31\n"), "--set bed=@/x.bed"),
    "an empty interval of a BED": check(intervals("amp\t5\t5\n"), "--set bed=@/x.bed"),
    "a reference that differs in 12%": check(differing(0.12)),
    "a reference that differs in 22%": check(differing(0.22)),
    "a CRAM of another reference": check(cram_of_another),
    "one file under two names": check(copied),
    "one sample without a control": check(alone),
    "a run of one sample without a control": run(alone),
    "a sheet of one case alone": check(one_role),
    "an index older than its FASTA": run(stale_index),
}  # fmt: skip
