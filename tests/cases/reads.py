"""Sheets, references and reads in the shape of public bug reports, small enough for tests."""

from pathlib import Path

import numpy as np
import pysam

LENGTH, READ = 240, 60
PROPER, OTHER = (99, 147), (65, 129)  # flags of two mates, of a proper pair and of another one
DUPLICATE = 0x400


def reference_bases(seed: int = 1, length: int = LENGTH) -> str:
    return "".join(np.random.default_rng(seed).choice(list("ACGT"), length))


def write_reference(path: Path, contig: str = "amp", bases: str | None = None) -> None:
    path.write_text(f">{contig}\n{bases or reference_bases()}\n")


def write_pairs(
    path: Path, *, templates: int = 300, share: float = 0.0, proper: float = 1.0,
    duplicates: float = 0.0, flag: int = 0, quality: int = 35, mapped: int = 60,
    contig: str = "amp", bases: str | None = None, seed: int = 3, header: dict | None = None,
    contigs: dict[str, int] | None = None, index: bool = True,
) -> Path:  # fmt: skip
    """Write read pairs over a contig.

    A ``share`` of the templates has another base at position 121, a share ``proper`` is flagged as
    a proper pair, a share ``duplicates`` as duplicates; ``flag`` is set in every read.
    """
    text, rng = bases or reference_bases(), np.random.default_rng(seed)
    lengths = contigs or {contig: len(text)}
    lines = [{"SN": name, "LN": n} for name, n in lengths.items()]
    top = {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": lines, **(header or {})}
    made, of = [], pysam.AlignmentHeader.from_dict(top)
    groups = [one["ID"] for one in top.get("RG", [])]
    for i in range(templates):
        start = int(rng.integers(0, len(text) - READ - 20))
        other = start + int(rng.integers(0, 20))
        flags = PROPER if rng.random() < proper else OTHER
        also = flag | (DUPLICATE if rng.random() < duplicates else 0)
        variant = rng.random() < share
        for begin, mate, own in ((start, other, flags[0]), (other, start, flags[1])):
            letters = np.array(list(text[begin : begin + READ]))
            wrong = rng.random(READ) < 0.002
            letters[wrong] = rng.choice(list("ACGT"), wrong.sum())
            if variant and 0 <= 120 - begin < READ:
                letters[120 - begin] = "A" if text[120] != "A" else "C"
            read = pysam.AlignedSegment(of)
            read.query_name, read.flag, read.mapping_quality = f"t{i}", own | also, mapped
            read.query_sequence, read.cigartuples = "".join(letters), [(0, READ)]
            read.reference_id, read.reference_start = list(lengths).index(contig), begin
            read.next_reference_id, read.next_reference_start = read.reference_id, mate
            read.template_length = (other + READ - start) * (1 if own & 0x40 else -1)
            read.query_qualities = pysam.qualitystring_to_array(chr(33 + quality) * READ)
            if groups:
                read.set_tag("RG", groups[i % len(groups)])
            made.append(read)
    made.sort(key=lambda read: (read.reference_id, read.reference_start))
    with pysam.AlignmentFile(str(path), "wb", header=of) as file:
        for read in made:
            file.write(read)
    if index:
        pysam.index(str(path))
    return path


def write_two(folder: Path, **kind: object) -> None:
    """Write a reference, a case with an allele of 20 %, a control, and their sheet."""
    write_reference(folder / "ref.fa", str(kind.get("contig", "amp")))
    write_pairs(folder / "t.bam", share=0.2, seed=3, **kind)  # type: ignore[arg-type]
    write_pairs(folder / "n.bam", seed=4, **kind)  # type: ignore[arg-type]
    write_sheet(folder, "case,1,t.bam", "control,1,n.bam")


def write_sheet(
    folder: Path, *rows: str, first: str = "sample,replicate,path", name: str = "samples.csv"
) -> Path:
    path = folder / name
    path.write_text("".join(f"{row}\n" for row in (first, *rows)))
    return path
