"""Variants: counts, sheets, reads, references, regions and settings that cannot be."""

import gzip
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam

from flows.variants.schema import COUNTS
from tests.flows.variants.case_files import write_counts_of
from tests.flows.variants.variant_files import (
    sequence,
    write_bam,
    write_counts,
    write_fasta,
    write_reads,
    write_sheet,
)
from tests.sentences.said import Said, command, nth, table, text


def _drawn() -> pa.Table:
    with TemporaryDirectory() as folder:
        return pq.read_table(write_counts(Path(folder) / "counts.parquet"))


DRAWN = _drawn()
SIZE = len(DRAWN)


def counts(*settings: str, **columns: object) -> Said:
    """Counts of two samples with other columns; of ``{row: value}`` some cells are others."""
    made = DRAWN
    for name, cells in columns.items():
        if isinstance(cells, dict):
            values = made[name].to_pylist()
            for row, value in cells.items():
                values = nth(values, row, value)
            cells = pa.array(values, made.schema.field(name).type)
        place = made.column_names.index(name) if name in made.column_names else None
        made = made.append_column(name, cells) if place is None else made.set_column(
            place, name, cells)  # fmt: skip
    return table("check variants", made, *settings)


def cases_of(*settings: str) -> Said:
    words = " ".join(f"--set {setting}" for setting in ("control=normal", *settings))
    return command(
        f"check variants @/counts.parquet {words}",
        lambda folder: write_counts_of(folder / "counts.parquet", ("ann", "bob", "cid")),
    )


def with_fasta(
    *settings: str, change: Callable[..., None] | None = None,
    fasta: Callable[[Path], object] = lambda folder: None,
) -> Said:  # fmt: skip
    def files(folder: Path) -> None:
        write_fasta(folder / "ref.fa")
        write_counts(folder / "counts.parquet", change=change)
        fasta(folder)

    words = " ".join(f"--set {setting}" for setting in ("fasta=@/ref.fa", *settings))
    return command(f"check variants @/counts.parquet {words}", files)


def reads(*settings: str, rows: object = None, change: Callable[[Path], object] | None = None,
          fasta: str = "@/ref.fa") -> Said:  # fmt: skip
    """Two BAM files and their sheet; ``change`` changes the files, ``rows`` are the sheet's."""

    def files(folder: Path) -> None:
        write_reads(folder)
        if isinstance(rows, str):
            (folder / "sheet.csv").write_text(rows)
        elif rows is not None:
            write_sheet(folder, rows)
        if change is not None:
            change(folder)

    words = " ".join(f"--set {x}" for x in ((f"fasta={fasta}",) if fasta else ()) + settings)
    return command(f"check variants @/sheet.csv {words}", files)


def bed(content: bytes, *settings: str) -> Said:
    return reads("bed=@/x.bed", *settings, change=lambda f: (f / "x.bed").write_bytes(content))


def other_fasta(content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "ref.fa").write_text(content)


def linked(folder: Path) -> None:
    (folder / "link.bam").symlink_to(folder / "a.bam")
    (folder / "sub").mkdir()


def unsorted(folder: Path) -> None:
    with pysam.AlignmentFile(str(folder / "a.bam")) as file:
        header, lines = file.header, list(file)
    (folder / "a.bam.bai").unlink()
    with pysam.AlignmentFile(str(folder / "a.bam"), "wb", header=header) as file:
        for read in reversed(lines):
            file.write(read)


def shorter(folder: Path) -> None:
    write_bam(folder / "b.bam", [(0, 0, 50, 0, -1, "r", 30)], length=100, index=False)
    (folder / "b.bam.bai").unlink()


def another(folder: Path) -> None:
    rng = np.random.default_rng(5)
    names = [line for line in (folder / "ref.fa").read_text().split("\n") if line[:1] == ">"]
    text = "".join(f"{name}\n{''.join(rng.choice(list('ACGT'), 120))}\n" for name in names)
    (folder / "ref.fa").write_text(text)


def broken_block(folder: Path) -> None:
    content = bytearray((folder / "a.bam").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 30] = b"X" * 30
    (folder / "a.bam").write_bytes(bytes(content))


def packed(folder: Path) -> None:
    (folder / "ref.fa.gz").write_bytes(gzip.compress((folder / "ref.fa").read_bytes()))


def packed_in_blocks(folder: Path) -> None:
    pysam.tabix_compress(str(folder / "ref.fa"), str(folder / "ref.fa.gz"), force=True)


def stale(folder: Path) -> None:
    pysam.faidx(str(folder / "ref.fa"))
    (folder / "ref.fa").write_bytes((folder / "ref.fa").read_bytes()[:300])


def far(folder: Path) -> None:
    """A contig longer than a .bai can hold."""
    with pysam.AlignmentFile(str(folder / "a.bam")) as file:
        lines = [read.to_string() for read in file if read.reference_id == 0]
    header = {"HD": {"VN": "1.6"}, "SQ": [{"SN": "chr1", "LN": 2**30}]}
    with pysam.AlignmentFile(str(folder / "a.bam"), "wb", header=header) as file:
        for line in lines:
            read = pysam.AlignedSegment.fromstring(line, file.header)
            read.reference_start += 2**29
            file.write(read)
    (folder / "a.bam.bai").unlink()


def unfit_contig(folder: Path) -> None:
    contigs = ("chr1", "HLA,1", "chr10")
    write_fasta(folder / "ref.fa", contigs)
    for name in ("a", "b"):
        write_bam(folder / f"{name}.bam", contigs=contigs)


def cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda f: (f / name).write_bytes((f / name).read_bytes()[:size])


def of_roles(*roles: tuple[str, str], case: str = "") -> Said:
    """A sheet whose samples have roles, each of one replicate."""
    lines = [f"{sample},{i},{i}.bam,{role}" for i, (sample, role) in enumerate(roles)]

    def copied(folder: Path) -> None:
        for i in range(len(roles)):
            write_bam(folder / f"{i}.bam")

    settings = (f"case={case}",) if case else ()
    rows = "\n".join(["sample,replicate,path,role", *lines, ""])
    return reads(*settings, rows=rows, change=copied)


def of_lists(name: str, cells: object) -> Said:
    """One row of counts of nine reads of C, with what is known of them."""
    data: dict[str, object] = {
        "chrom": ["c"], "pos": [1], "ref": ["A"], "sample": ["case"], "replicate": ["1"],
        "A": [0], "C": [9], "G": [0], "T": [0],
    }  # fmt: skip
    data |= {f.name: [[0, 0, 0, 0]] for f in COUNTS.arrow if pa.types.is_list(f.type)}
    return table("check variants", {**data, name: [cells]}, "control=")


def wrong_base(contig: str, counted: np.ndarray, ref: np.ndarray) -> None:
    if contig == "chr2":
        ref[6] = (ref[6] + 1) % 4


LARGE = np.full(SIZE, 30, np.uint64)
LARGE[3] = 2**63 + 5
TEXT = f">chr1\n{sequence('chr1')}\n"
SHEET = "sample,replicate,path\n"

CASES = {
    "a count below 0": counts(A={0: -1}),
    "a count beyond 2^63": counts(A=pa.array(np.full(SIZE, 2**63 + 5, np.uint64))),
    "a position beyond 2^63": counts(pos=pa.array(LARGE)),
    "a depth beyond 2^63": counts(depth=pa.array(LARGE)),
    "counts as CSV": text("check variants", "chrom,pos,ref,sample,replicate,A,C,G,T\n"),
    "two bases": counts(ref={3: "AC"}),
    "position 0": counts(pos={0: 0}),
    "a position that no index holds": counts(pos={0: 2**29}),
    "a contig like a formula": counts(chrom={2: "=cmd"}),
    "a contig that no VCF holds": counts(chrom={0: "a,b <i>"}),
    "another sample alone": counts(sample=pa.array(["x"] * SIZE)),
    "the case alone": counts(sample=pa.array(["case"] * SIZE)),
    "a location twice": counts(pos={0: 2}),
    "two references": counts(ref={0: "ACGT"[DRAWN["ref"][0].as_py() == "A"]}),
    "no read": counts(**{base: pa.array([0] * SIZE) for base in "ACGT"}),
    "a depth below the counts": counts(depth=pa.array([5] * SIZE)),
    "no column G": table("check variants", DRAWN.drop_columns(["G"])),
    "the case as control": counts("control=case"),
    "RVD2 without a control": counts("control=", "test=posterior_difference"),
    "contexts without a FASTA": counts("types=trinucleotide"),
    "a filter that is none": counts("skip_filters=baseq"),
    "the case in the panel": counts("panel=a,case"),
    "the control in the panel": counts("panel=a,control"),
    "RVD2 with a panel": counts("panel=a", "test=posterior_difference"),
    "nobody in the panel": counts("panel=nobody"),
    "case and cases together": cases_of("cases=ann,bob", "case=cid"),
    "a case twice": cases_of("cases=ann,bob,ann"),
    "a control among the cases": cases_of("cases=ann,normal"),
    "a case that names no folder": cases_of("cases=ann,.."),
    "RVD2 of several cases": cases_of("cases=ann,bob", "test=posterior_difference"),
    "several cases without a control": cases_of("cases=ann,bob", "control="),
    "nobody among the cases": cases_of("cases=ann,nobody"),
    "more forward reads than reads": of_lists("forward", [0, 0, 0, 10**6]),
    "a sum below 0": of_lists("to_end", [-1, 0, 0, 0]),
    "three numbers of four": of_lists("base_quality", [0, 0, 0]),
    "a null among four numbers": of_lists("clipped", [None, 0, 0, 0]),
    "counts of another reference": with_fasta(change=wrong_base),
    "counts of other contigs": with_fasta(
        fasta=lambda f: write_fasta(f / "ref.fa", ("other", "chr2", "chr10"), 30)
    ),
    "counts with the index of another FASTA": with_fasta(fasta=stale),
    "counts in a region that is none": with_fasta("region=chr1:1-2-3"),
    "no row in the region": counts("region=chr7"),
    "a region beyond the contig": reads("region=chr1:100-900"),
    "a region of no contig": reads("region=chrX:1-10"),
    **{
        f"the region {region}": reads(f"region={region}")
        for region in ("chr1:1-2-3", "chr1:", "chr1:,5")
    },
    "a region and a BED apart": bed(b"chr2\t0\t50\n", "region=chr10"),
    "a digit of a BED that is none": bed("chr1\t²\t5\n".encode()),
    "a BED in Latin-1": bed(b"chr1\t0\t5\nchr\xff1\t0\t5\n"),
    "a BED that is no gzip": bed(b"\x1f\x8b\x08\x00\x92\xff"),
    "a cut BED": bed(gzip.compress(b"chr1\t0\t5\n", mtime=0)[:-6]),
    "a BED of other places": bed(b"chr1\t0\t5\nchr7\t0\t5\nchr1\t0\t500\n"),
    "reads without a FASTA": reads(fasta=""),
    "a replicate twice": reads(rows=[("case", 1, "a.bam"), ("case", 1, "b.bam")]),
    "a file twice": reads(rows=[("case", 1, "a.bam"), ("control", 1, "a.bam")]),
    **{
        f"a file again as {name}": reads(
            rows=[("case", 1, "a.bam"), ("control", 1, name)], change=linked
        )
        for name in ("./a.bam", "link.bam", "sub/../a.bam")
    },
    "no such file": reads(rows=[("case", 1, "no.bam"), ("control", 1, "b.bam")]),
    "a cut BAM": reads(change=cut("a.bam", 600)),
    "a BAM without its end": reads(change=cut("b.bam", -28)),
    "a broken block": reads(change=broken_block),
    "a FASTA in bgzip": reads(change=packed_in_blocks, fasta="@/ref.fa.gz"),
    "a contig that no VCF holds, not used": reads(
        "bed=@/x.bed",
        change=lambda f: (unfit_contig(f), (f / "x.bed").write_bytes(b"chr1\t0\t40\n")),
    ),
    "reads out of order": reads(change=unsorted),
    "a contig of another length": reads(change=shorter),
    "a contig that no .bai holds": reads("control=", rows=[("case", 1, "a.bam")], change=far),
    "a damaged index": reads(
        change=lambda f: (f / "a.bam.bai").write_bytes(b"BAI\x01\xff\xff\xff\x7f")
    ),
    "reads of another sequence": reads(change=another),
    "a FASTA of other contigs": reads(change=other_fasta(">chr9\nACGTACGT\n")),
    "a longer FASTA": reads("region=chr1", change=other_fasta(f"{TEXT[:-1]}ACGT\n")),
    "a FASTA with lines of other lengths": reads(
        change=other_fasta(TEXT.replace("\n", "\nA\n", 1))
    ),
    "a FASTA in plain gzip": reads(change=packed, fasta="@/ref.fa.gz"),
    "a contig of reads that no VCF holds": reads(change=unfit_contig),
    "a sheet without paths": reads(rows="sample,replicate\n"),
    "a sheet without lines": reads(rows=SHEET),
    "a sheet with gaps": reads(rows=f"{SHEET}\n\ncase,1,\ncase,2,a.bam\ncase,2,b.bam\n"),
    "a sheet with a lone quotation mark": reads(rows=f'{SHEET}case,1,"{"x" * 140_000}\n'),
    "a sheet with a line break in a path": reads(rows=f'{SHEET}case,1,"a\nb.bam\ncase,2,\n'),
    "a sheet with two paths": reads(rows="sample,replicate,path,path\ncase,1,a.bam,b.bam\n"),
    "a BAM by itself": command("check variants @/a.bam", write_reads),
    "a role that is none": of_roles(("case", "case"), ("a", "other")),
    "two controls": of_roles(("case", "case"), ("a", "control"), ("b", "control")),
    "two roles of a sample": of_roles(("case", "case"), ("a", "panel"), ("a", "control")),
    "a comma in a panel": of_roles(("case", "case"), ('"a,b"', "panel")),
    "a slash in a case": of_roles(("ann", "case"), ("b/b", "case"), ("n", "control")),
    "a case that is the control": of_roles(("ann", "case"), ("bob", "case"), ("bob", "control")),
    "a case that is none of several": of_roles(
        ("ann", "case"), ("bob", "case"), ("n", "control"), case="anm"
    ),
    "cases without a control": of_roles(("ann", "case"), ("bob", "case")),
}
