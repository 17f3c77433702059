"""Several cases that share a control: CPU of one run of all beside a run of each, in one run.

    python -m benchmarks.variants_cases [--cases 1 2 4 8] [--depths 400 4000] [--positions 400]
                                        [--controls 3] [--seeds 2] [--alone 2]

BAM files of one amplicon, reads of 150 bases with errors of .001: each case of two replicates, the
control of three (``--controls``), all of one FASTA. Every command is a process of its own, after
one that is not counted, so that all compile nothing; its CPU with that of its children counts. Of
a run of many cases the first (``--alone``) have a run of their own too; whether their tables and
posterior have the same bits in both is compared, and stands in each line.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pysam

from benchmarks.variants_counting import READ
from flows.data.runs import open_run
from flows.data.states import read_state
from vbmodels.core.state import same_bits
from vbmodels.variants.batch_null import BatchGlobal
from vbmodels.variants.several import SeveralGlobal

MAIN = "from flows.cli import main; main()"
SHARE, EVERY = 0.02, 100  # of an allele of each case, and one in how many positions


def write_files(
    folder: Path, cases: int, controls: int, depth: int, length: int, seed: int
) -> Path:
    """Write the FASTA, the BAM files and the sheet of all; return the sheet."""
    rng = np.random.default_rng(seed)
    bases = rng.choice(list("ACGT"), length)
    (folder / "amp.fa").write_text(f">amp\n{''.join(bases)}\n")
    pysam.faidx(str(folder / "amp.fa"))
    rows = ["sample,replicate,path,role"]
    for c in range(cases + 1):
        name, role = (f"case{c}", "case") if c < cases else ("blood", "control")
        own = rng.permutation(length)[: length // EVERY] if c < cases else np.zeros(0, int)
        for r in range(2 if c < cases else controls):
            path = folder / f"{name}.{r}.bam"
            write_bam(path, bases, depth, own, rng)
            rows.append(f"{name},{r},{path.name},{role}")
    sheet = folder / "sheet.csv"
    sheet.write_text("\n".join(rows) + "\n")
    return sheet


def write_bam(
    path: Path, bases: np.ndarray, depth: int, carried: np.ndarray, rng: np.random.Generator
) -> None:
    """Write single reads of an amplicon with errors of .001 and alleles at some positions."""
    length = len(bases)
    header = pysam.AlignmentHeader.from_dict(
        {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "amp", "LN": length}]}
    )
    letters = np.array(list("ACGT"))
    code = np.searchsorted(letters, bases)
    starts = np.sort(rng.integers(0, length - READ + 1, depth * length // READ))
    with pysam.AlignmentFile(str(path), "wb", header=header) as file:
        for i, start in enumerate(starts.tolist()):
            shown = code[start : start + READ].copy()
            wrong = rng.random(READ) < 0.001
            shown[wrong] = rng.integers(0, 4, wrong.sum())
            for at in carried[(carried >= start) & (carried < start + READ)].tolist():
                if rng.random() < SHARE:
                    shown[at - start] = (code[at] + 1) % 4
            read = pysam.AlignedSegment(header)
            read.query_name, read.flag, read.reference_id = f"r{i}", 16 * int(rng.integers(2)), 0
            read.reference_start, read.mapping_quality, read.cigarstring = start, 60, f"{READ}M"
            read.query_sequence = "".join(letters[shown])
            read.query_qualities = pysam.qualitystring_to_array("F" * READ)
            file.write(read)
    pysam.index(str(path))


def seconds(sheet: Path, target: Path, *asked: str) -> float:
    """Return the CPU seconds of a run, and of the processes that it starts."""
    shutil.rmtree(target, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", MAIN, "variants", str(sheet), str(target),
               "--set", f"fasta={sheet.parent / 'amp.fa'}", *asked]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def same(together: Path, alone: Path, case: str, number: int) -> bool:
    """Whether a case has the same bits in both runs."""
    paths = [open_run(str(target))[0] for target in (together, alone)]
    every = read_state(f"{paths[0].root}/posterior/q.npz", SeveralGlobal)
    q = read_state(f"{paths[1].root}/posterior/q.npz", BatchGlobal)
    order = [("pos", "ascending"), ("alt", "ascending")]
    tables = [
        [pq.read_table(p.table(name)).filter(pc.field("sample") == case).sort_by(order)
         for name in ("loci", "indels")] for p in paths
    ]  # fmt: skip
    return same_bits(every.of[number], q) and tables[0] == tables[1]


def one_line(
    cases: int, controls: int, depth: int, length: int, seed: int, most_alone: int
) -> dict:
    """Run all of it once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sheet = write_files(folder, cases, controls, depth, length, seed)
        whole = ("--set", f"rows_per_partition={length}")
        alone = []
        compared = range(min(cases, most_alone))
        for c in compared:
            asked = (*whole, "--set", f"case=case{c}", "--set", "control=blood")
            alone.append(seconds(sheet, folder / f"case{c}", *asked))
        names = ",".join(f"case{c}" for c in range(cases))
        asked = (*whole, "--set", f"cases={names}", "--set", "control=blood")
        together = seconds(sheet, folder / "all", *asked)
        bits = all(
            same(folder / "all", folder / f"case{c}", f"case{c}", c) for c in compared
        )  # fmt: skip
    return {
        "cases": cases, "controls": controls, "depth": depth, "positions": length, "seed": seed,
        "alone": round(float(np.mean(alone)), 2), "together": round(together, 2),
        "same_bits": bits,
    }  # fmt: skip


def main() -> None:
    """Print a line of JSON for each setting, and the cost of a further case against a run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--depths", type=int, nargs="+", default=[400, 4000])
    parser.add_argument("--positions", type=int, default=400)
    parser.add_argument("--controls", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--alone", type=int, default=2, help="most cases with a run of their own")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        sheet = write_files(Path(name), 2, 1, 50, asked.positions, 0)
        seconds(sheet, Path(name) / "warm")
    for depth in asked.depths:
        rows = [
            one_line(cases, asked.controls, depth, asked.positions, seed, asked.alone)
            for cases in asked.cases
            for seed in range(asked.seeds)
        ]
        for row in rows:
            print(json.dumps(row), flush=True)
        slope = np.polyfit([r["cases"] for r in rows], [r["together"] for r in rows], 1)[0]
        alone = float(np.mean([r["alone"] for r in rows]))
        print(json.dumps({"depth": depth, "further_case": round(float(slope), 2), "alone": alone,
                          "ratio": round(float(slope) / alone, 2)}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
