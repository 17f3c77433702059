"""CPU time of counting a BAM: raw records in one pass against htslib's pileup, in one run.

    python -m benchmarks.variants_counting [--depths 400 4000 30000] [--repeats 5]

Amplicons of 400 bases, pairs of 150 bases whose mates overlap, three errors in 1000. The walk also
sums what is known of the reads, which the pileup does not. `samtools mpileup` (without its
computation of BAQ) is measured too where it is installed. Counts are compared, and must be equal.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pysam

from flows.variants.reads import count_region
from flows.variants.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.variants.pileup import pileup_region

LENGTH, READ = 400, 150


def write_bam(path: Path, depth: int, seed: int = 0) -> None:
    """Write pairs of reads of an amplicon, with its FASTA next to it."""
    rng = np.random.default_rng(seed)
    bases = rng.choice(list("ACGT"), LENGTH)
    Path(f"{path}.fa").write_text(f">amp\n{''.join(bases)}\n")
    pysam.faidx(f"{path}.fa")
    header = pysam.AlignmentHeader.from_dict(
        {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "amp", "LN": LENGTH}]}
    )
    fragments = []
    for i, start in enumerate(rng.integers(0, LENGTH - READ - 60, depth * LENGTH // (2 * READ))):
        mate = min(int(start) + int(rng.integers(20, 200)), LENGTH - READ)
        fragments += [(int(start), 99, mate, i), (mate, 147, int(start), i)]
    with pysam.AlignmentFile(str(path), "wb", header=header) as file:
        for start, flag, mate, i in sorted(fragments):
            shown = bases[start : start + READ].copy()
            wrong = rng.random(READ) < 0.003
            shown[wrong] = rng.choice(list("ACGT"), wrong.sum())
            read = pysam.AlignedSegment(header)
            read.query_name, read.flag, read.reference_id = f"INSTRUMENT:1:LANE:{i}", flag, 0
            read.reference_start, read.mapping_quality, read.cigarstring = start, 60, f"{READ}M"
            read.query_sequence = "".join(shown)
            quality = rng.choice([12, 25, 37, 37, 37], READ)
            read.query_qualities = pysam.qualitystring_to_array("".join(map(chr, quality + 33)))
            read.next_reference_id, read.next_reference_start = 0, mate
            read.template_length = (abs(mate - start) + READ) * (1 if mate >= start else -1)
            file.write(read)
    pysam.index(str(path))


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the least CPU time of several calls, of this process and those that it starts."""
    best = np.inf
    for _ in range(repeats):
        before = time.process_time() + _of_children()
        work()
        best = min(best, time.process_time() + _of_children() - before)
    return best


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a line of Markdown for each depth."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--depths", type=int, nargs="+", default=[400, 4000, 30000])
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print("| depth | bases that count | walk, s | pileup, s | ratio | samtools mpileup, s |")
    print("|---|---|---|---|---|---|")
    for depth in given.depths:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reads.bam"
            write_bam(path, depth)
            print(_line(str(path), depth, given.repeats))


def _line(path: str, depth: int, repeats: int) -> str:
    settings = VariantSettings(fasta=f"{path}.fa")
    region = Region("amp", 0, LENGTH)
    found = count_region(path, region, settings)
    expected = pileup_region(path, region, settings)
    if not np.array_equal(found.counts, expected):
        raise SystemExit("the walk and the pileup differ")
    walk = seconds(lambda: count_region(path, region, settings), repeats)
    pileup = seconds(lambda: pileup_region(path, region, settings), repeats)
    rival = "not installed"
    if shutil.which("samtools"):
        command = ["samtools", "mpileup", "-B", "-q20", "-Q20", "-d0", "-f", f"{path}.fa", path]
        rival = f"{seconds(lambda: _run(command), repeats):.3f}"
    return (
        f"| {depth:,} | {expected.sum():,} | {walk:.4f} | {pileup:.4f} | {walk / pileup:.2f} | "
        f"{rival} |"
    )


def _run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
