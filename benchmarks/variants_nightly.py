"""What a night of variants costs: cases that share a control, in one run and with --since.

    python -m benchmarks.variants_nightly [--cases 20] [--positions 150] [--depth 1000] [--slips 0]

One amplicon, a BAM of every case and of the control, one allele of 5 % in each case; of a thousand
reads so many as `--slips` lack a base in the middle. CPU seconds of whole commands, their workers'
included: one case alone; all cases in one run; the same again with three cases more and `--since
latest`. Runs of one and of two cases come before, so that kernels are compiled. Prints a line each,
and the CPU seconds of a further case.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pysam

from benchmarks.harness import seconds

READ, ERROR = 75, 0.001
COMMAND = (sys.executable, "-m", "flows.entry", "variants")


def write_bam(path: Path, reference: np.ndarray, depth: int, rng: np.random.Generator,
              allele: int | None, slips: float) -> None:  # fmt: skip
    """Write single reads of an amplicon, of which a share of .05 carries an allele."""
    length = len(reference)
    header = pysam.AlignmentHeader.from_dict(
        {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "amplicon", "LN": length}]}
    )
    letters = np.array(list("ACGT"))
    with pysam.AlignmentFile(str(path), "wb", header=header) as file:
        starts = np.sort(rng.integers(0, length - READ + 1, depth * length // READ))
        for i, start in enumerate(starts.tolist()):
            codes = reference[start : start + READ].copy()
            wrong = np.flatnonzero(rng.random(READ) < ERROR)
            codes[wrong] = (codes[wrong] + rng.integers(1, 4, len(wrong))) % 4
            if allele is not None and 0 <= allele - start < READ and rng.random() < 0.05:
                codes[allele - start] = (reference[allele] + 1) % 4
            read, cigar = pysam.AlignedSegment(header), f"{READ}M"
            if rng.random() < slips and 20 < length // 2 - start < READ - 20:
                kept = length // 2 - start
                codes, cigar = np.delete(codes, kept), f"{kept}M1D{READ - kept - 1}M"
            read.query_name, read.query_sequence = f"r{i}", "".join(letters[codes])
            read.flag, read.reference_id, read.reference_start = 16 * (i % 2), 0, start
            read.mapping_quality, read.cigarstring = 60, cigar
            read.query_qualities = pysam.qualitystring_to_array("F" * len(codes))
            file.write(read)
    pysam.index(str(path))


def write_night(folder: Path, cases: int, positions: int, depth: int, slips: float = 0.0) -> None:
    """Write the FASTA, the control and the cases."""
    rng = np.random.default_rng(0)
    reference = rng.integers(0, 4, positions)
    text = "".join("ACGT"[code] for code in reference)
    (folder / "reference.fa").write_text(f">amplicon\n{text}\n")
    pysam.faidx(str(folder / "reference.fa"))
    write_bam(folder / "control.bam", reference, depth, rng, None, slips)
    for c in range(cases):
        write_bam(folder / f"case{c}.bam", reference, depth, rng, (10 + 7 * c) % positions,
                  slips)  # fmt: skip


def write_sheet(folder: Path, cases: range) -> str:
    """Write a sheet of some cases and the control; return its path."""
    lines = ["sample,path,role", "control,control.bam,control"]
    lines += [f"case{c},case{c}.bam,case" for c in cases]
    sheet = folder / f"samples{cases.start}-{cases.stop}.csv"
    sheet.write_text("\n".join(lines) + "\n")
    return str(sheet)


def main() -> None:
    """Print the seconds of every command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--positions", type=int, default=150)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--slips", type=float, default=0.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_night(folder, given.cases + 3, given.positions, given.depth, given.slips / 1000)
        one, all_cases, more = (
            write_sheet(folder, range(n)) for n in (1, given.cases, given.cases + 3)
        )
        sheets = (("one case", one, "alone"), (f"{given.cases} cases", all_cases, "night"),
                  ("3 cases more, --since latest", more, "night"))  # fmt: skip
        for number, sheet in enumerate((one, write_sheet(folder, range(2)))):
            seconds([*COMMAND, sheet, str(folder / f"warm{number}")], threads=None)
        taken = []
        for what, sheet, target in sheets:
            since = ("--since", "latest") if target == "night" else ()
            used, wall = seconds([*COMMAND, sheet, str(folder / target), *since], threads=None)
            taken.append(used)
            print(f"{what}: {used:.2f} CPU s, {wall:.1f} s", flush=True)
        print(f"a further case: {(taken[1] - taken[0]) / (given.cases - 1):.2f} CPU s")


if __name__ == "__main__":
    main()
