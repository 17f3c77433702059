"""Variants from reads in the shape of public bug reports: what each command gives and prints."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pysam
import pytest

from tests.cases.reads import (
    reference_bases,
    write_pairs,
    write_reference,
    write_sheet,
    write_two,
)
from tests.flows.commands import run


class Case(NamedTuple):
    """A command in the folder of its files, its exit code, and what it prints and does not."""

    files: Callable[[Path], object]
    words: str
    code: int
    printed: tuple[str, ...]
    absent: tuple[str, ...] = ()


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


CASES = {
    "a FASTA in the sheet's folder": Case(
        two(), "check variants samples.csv", 0,
        ("The reference is ref.fa, the only FASTA in the sheet's folder",),
    ),
    "two FASTA files in the sheet's folder": Case(
        with_another_fasta, "check variants samples.csv", 2,
        ("old.fasta and ref.fa in the sheet's folder", "--set fasta=FILE"),
    ),
    "no FASTA": Case(
        lambda folder: (write_two(folder), (folder / "ref.fa").unlink()),
        "check variants samples.csv", 2, ("--set fasta=FILE",),
    ),
    "a sheet of tabs without replicates": Case(
        sheet("case\tt.bam", "control\tn.bam", first="sample\tpath", name="samples.tsv"),
        "check variants samples.tsv", 0, ("no errors",),
    ),
    "a sheet of semicolons, roles by names": Case(
        sheet("p7-Tumour;1;t.bam", "p7-normal;1;n.bam", first="Sample;Replicate;Path"),
        "check variants samples.csv", 0,
        ("By their names p7-Tumour is the case and p7-normal the control",),
    ),
    "Excel's Unicode text": Case(
        sheet("treated\tt.bam", "untreated\tn.bam", first="sample\tpath", name="samples.txt",
              encoding="utf-16"),
        "check variants samples.txt", 0, ("treated is the case and untreated the control",),
    ),
    "roles and columns by other names": Case(
        sheet("ann, t.bam, Tumour", "bob, n.bam, normal", first="sample_id, bam, role"),
        "check variants samples.csv", 0, ("no errors",),
    ),
    "names in letters of western Europe": Case(
        sheet("José,1,t.bam", "Josè,1,n.bam", encoding="cp1252"),
        "check variants samples.csv --set case=José --set control=Josè", 0, ("no errors",),
    ),
    "counts in CSV": Case(
        sheet("chr1,7,A,case,1,9,0,0,0", first="chrom,pos,ref,sample,replicate,A,C,G,T"),
        "check variants samples.csv", 2, ("base counts, which are not read from CSV", "Parquet"),
    ),
    "a file that is not there, and no FASTA": Case(
        lambda folder: write_sheet(folder, "ann,none.bam", first="sample,path"),
        "check variants samples.csv", 2, ("row 1: expected a BAM or CRAM file", "no file"),
    ),
    "more cells than names": Case(
        sheet("case,1,t.bam,n.bam", "control,1,n.bam"), "check variants samples.csv", 2,
        ("row 1", "3 cells", "also n.bam"),
    ),
    "a role twice": Case(
        sheet("case,1,t.bam,case,control", "control,1,n.bam,control,",
              first="sample,replicate,path,role,role"),
        "check variants samples.csv", 2, ("column role", "this column once"),
    ),
    "names that say no role": Case(
        sheet("ann,1,t.bam", "bob,1,n.bam"), "check variants samples.csv", 2,
        ("a sample named 'case'", "role"),
    ),
    "duplicates of amplicons": Case(
        two(duplicates=0.95), "check variants samples.csv", 0,
        ("Reads flagged as duplicates are not counted: case 5", "of 600 (9", "duplicates=keep",
         "not used: read not counted: flagged as duplicates: 1,"),
    ),
    "duplicates are kept": Case(
        two(duplicates=0.95), "check variants samples.csv --set duplicates=keep", 0,
        ("no errors",), ("not counted: flagged",),
    ),
    "few proper pairs": Case(
        two(proper=0.3), "check variants samples.csv", 0,
        ("Reads not flagged as a proper pair are not counted: case 4", "orphans=true"),
    ),
    "no proper pair": Case(
        two(proper=0.0), "check variants samples.csv", 2,
        ("zero depth everywhere: 1,200 of 1,200 reads not flagged as a proper pair",
         "set orphans=true"),
    ),
    "no proper pair, orphans": Case(
        two(proper=0.0), "check variants samples.csv --set orphans=true", 0, ("no errors",)
    ),
    "reads of a low quality": Case(
        two(quality=12),
        "check variants samples.csv",
        0,
        ("Bases of a quality below 20 are not counted: case 2", "set a lower min_base_quality"),
    ),
    "reads of a very low quality": Case(
        two(quality=8), "check variants samples.csv", 2,
        ("bases of a quality below 20", "set a lower min_base_quality"),
    ),
    "reads that map badly": Case(
        two(mapped=3), "check variants samples.csv", 2,
        ("1,200 of 1,200 reads of a mapping quality below 20", "set a lower min_mapping_quality"),
    ),
    "reads that failed": Case(
        two(flag=0x200), "check variants samples.csv", 2,
        ("1,200 of 1,200 reads flagged as failed by quality control", "--remove-flags QCFAIL"),
    ),
    "a control without reads": Case(
        empty("n.bam"), "check variants samples.csv", 2,
        ("a mean depth of at least 1 in control 1", "no read on the reference", "min_depth=0"),
    ),
    "a case without reads": Case(
        empty("t.bam"), "check variants samples.csv", 2, ("at least 1 in case 1", "min_depth=0")
    ),
    "a replicate without reads": Case(
        of_three, "check variants samples.csv", 2, ("at least 1 in case 2",)
    ),
    "a control with few reads": Case(
        lambda folder: (write_two(folder), write_pairs(folder / "n.bam", templates=2)),
        "check variants samples.csv", 2,
        ("n.bam: expected a mean depth of at least 1 in control 1", "(4 of 4 reads counted)"),
    ),
    "a case of several without reads": Case(
        of_cases, "check variants samples.csv", 2, ("e.bam: expected a mean depth", "in bob 1")
    ),
    "reads that are not aligned": Case(
        unaligned, "check variants samples.csv", 2,
        ("no read on the reference, and 1,200 elsewhere or unmapped",),
    ),
    "secondary alignments": Case(
        two(flag=0x100), "check variants samples.csv", 2,
        ("1,200 of 1,200 reads secondary alignments",),
    ),
    "a case whose reads are all duplicates": Case(
        drop_all, "check variants samples.csv", 2,
        ("in case 1", "600 of 600 reads flagged as duplicates", "duplicates=keep"),
    ),
    "a replicate without reads is allowed": Case(
        of_three, "variants samples.csv out --set min_depth=0 --set max_iter=4", 0,
        ("Without reads: case 2", "5 % of the reads would have been called, with a probability of",
         "One replicate of case, control"),
    ),
    "a case of several without reads is allowed": Case(
        of_cases, "variants samples.csv out --set min_depth=0 --set max_iter=4", 0,
        ("positions of each case", "Without reads: bob 1."),
    ),
    "chr1 in the reads, 1 in the reference": Case(
        other_names("1", "chr1"), "check variants samples.csv --set bed=x.bed", 0,
        ("Contigs of 2 files (such as t.bam) are taken for those of the reference: chr1 for 1.",),
    ),
    "MT in the reads, chrM in the reference": Case(
        other_names("chrM", "MT"), "check variants samples.csv", 0, ("MT for chrM",)
    ),
    "files exchanged": Case(
        read_groups("bob"), "check variants samples.csv", 0,
        ("Read groups (SM) name other samples than the sheet: t.bam has bob for ann",),
    ),
    "two samples in a file": Case(
        read_groups("ann", "eve"), "check variants samples.csv", 0,
        ("t.bam has reads of 2 samples (ann, eve), counted together as ann 1",),
    ),
    "a sample's own read group": Case(
        read_groups("ann"), "check variants samples.csv", 0, (), ("Read groups", "reads of 2")
    ),
    "a Picard interval_list": Case(
        intervals("@HD\tVN:1.6\n@SQ\tSN:amp\tLN:240\namp\t11\t20\t+\tx\n"),
        "check variants samples.csv --set bed=x.bed", 0, ("10 positions in 2 files",),
    ),
    "GATK intervals": Case(
        intervals("amp:11-20\namp:31\n"), "check variants samples.csv --set bed=x.bed", 0,
        ("11 positions in 2 files",),
    ),
    "an empty interval of a BED": Case(
        intervals("amp\t5\t5\n"), "check variants samples.csv --set bed=x.bed", 2,
        ("x.bed, row 1", "BED counts from 0", "CONTIG 4 5"),
    ),
    **{
        f"a reference that differs in {share:.0%}": Case(
            differing(share), "check variants samples.csv", 0,
            ("Many bases differ from", f"case 1 {int(10 * share)}", "aligned to?"),
        )
        for share in (0.12, 0.22)
    },
    "a CRAM of another reference": Case(
        cram_of_another, "check variants samples.csv", 2,
        ("t.cram: expected reads of", "the MD5 of amp in its header", "n.cram"), ("truncated",),
    ),
    "one file under two names": Case(
        copied, "check variants samples.csv", 0, ("case 1 and case 2 have the same reads",)
    ),
    "help opens with the sheet": Case(
        lambda folder: None, "variants --help", 0, ("What goes in: A sample sheet",)
    ),
    "the headline of one sample without a control": Case(
        alone, "variants samples.csv out --set max_iter=4", 0,
        ("Without a control errors that all reads share look like variants", "a panel"),
    ),
    "a sheet of one case alone": Case(
        one_role, "check variants samples.csv", 0, ("no errors",)
    ),
    "an index older than its FASTA": Case(
        stale_index, "variants samples.csv out", 2, ("rebuild the index: samtools faidx",),
    ),
    "one sample without a control": Case(
        alone, "check variants samples.csv", 0, ("no errors",)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_printed(name, tmp_path, monkeypatch, capsys):
    case = CASES[name]
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "staging"))
    folder = tmp_path / "case"
    folder.mkdir()
    case.files(folder)
    monkeypatch.chdir(folder)
    code, out, err = run(capsys, *case.words.split())
    text = " ".join((out + err).split())
    assert code == case.code, text
    for words in case.printed:
        assert words in text
    for words in case.absent:
        assert words not in text
