"""Variant calls from reads with artefacts: what is found, and what is false, against rivals.

    python -m benchmarks.variants_breaks_reads run OUT.jsonl [--seeds 3] [--first 0] [--rows 1500]
        [--only NAME ...]
    python -m benchmarks.variants_breaks_reads summary OUT.jsonl

Every scenario of `benchmarks.artefact_bams`, each method on the same BAM files: vbflows
with its filters of reads ("vbflows") and without ("unfiltered"), Fisher's exact test on pooled
reads and a beta-binomial likelihood ratio on the same counts, both with Benjamini and Hochberg at
.05; `bcftools mpileup | call` of case and control, an allele of the case that the control has not;
freebayes, lofreq and iVar (of `samtools mpileup`, from a share of .01 on) where they are installed,
alleles of the case that the control's calls do not have. Rivals that are not installed are named on
the error stream. Only substitutions are scored. One JSON line a run.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pysam

from benchmarks.artefact_bams import ARTEFACTS, CONTIG, write_artefacts
from benchmarks.seeded import main
from benchmarks.variants_breaks import LEVEL, beta_binomial, fisher
from flows.variants.reads import count_region, reference
from flows.variants.regions import Region
from flows.variants.settings import VariantSettings
from vbmodels.variants.calls import benjamini_hochberg
from vbmodels.variants.counts import Counts, units

RIVALS = ("bcftools", "freebayes", "lofreq", "ivar")
METHODS = ("vbflows", "unfiltered", "fisher", "beta_binomial", *RIVALS)
Calls = set[tuple[int, str]]


def vbflows(folder: Path) -> tuple[Calls, Calls, dict]:
    """Return what is called and passes its filters, what is called at all, and by what it fell."""
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main()", "variants",
         str(folder / "samples.csv"), str(folder / "out"), "--set",
         f"fasta={folder / 'reference.fa'}"],
        check=True, capture_output=True,
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    (path,) = (folder / "out").glob("runs/*/variants.vcf.gz")
    passed, every = set(), set()
    filters: dict[str, int] = defaultdict(int)
    with pysam.VariantFile(str(path)) as file:
        for record in file:
            if len(record.ref) != 1 or len(record.alts[0]) != 1:
                continue
            call = record.pos, record.alts[0]
            every.add(call)
            names = [name for name in record.filter if name != "PASS"]
            for name in names:
                filters[name] += 1
            if not names:
                passed.add(call)
    return passed, every, {"seconds": round(seconds, 1), "filters": dict(filters)}


def counted(folder: Path, length: int, replicates: int) -> Counts:
    """Count the bases of every BAM, as vbflows does."""
    settings = VariantSettings(fasta=str(folder / "reference.fa"))
    region = Region(CONTIG, 0, length)
    paths = [
        folder / f"{sample}{i}.bam"
        for sample in ("case", "control") for i in range(1, replicates + 1)
    ]  # fmt: skip
    counts = np.stack(
        [count_region(str(path), region, settings).counts.sum(axis=1) for path in paths], axis=1
    )
    case = np.arange(2 * replicates) < replicates
    return Counts(counts, reference(str(folder / "reference.fa"), region), case)


def tested(counts: Counts, method: str) -> Calls:
    """Return the alleles whose p-value is called by Benjamini and Hochberg at .05."""
    of = units(counts)
    p = fisher(of) if method == "fisher" else beta_binomial(of)
    p = np.where(of.depth.sum(axis=1) > 0, np.nan_to_num(p, nan=1.0), 1.0)  # ends without reads
    hits = np.flatnonzero(benjamini_hochberg(p) <= LEVEL)
    return {(int(of.location[i]) + 1, "ACGT"[of.alt[i]]) for i in hits}


def pooled(folder: Path, sample: str) -> Path:
    """Merge a sample's replicates under one name of sample."""
    merged, named = folder / f"{sample}.merged.bam", folder / f"{sample}.bam"
    pysam.merge("-f", str(merged), *(str(p) for p in sorted(folder.glob(f"{sample}[0-9].bam"))))
    pysam.addreplacerg("-r", f"@RG\tID:{sample}\tSM:{sample}", "-o", str(named), str(merged))
    pysam.index(str(named))
    return named


def bcftools(folder: Path, case: Path, control: Path) -> Calls:
    """Return the alleles that the case has and the control has not, called together."""
    out = folder / "bcftools.vcf"
    fasta = str(folder / "reference.fa")
    reads = subprocess.run(
        ["bcftools", "mpileup", "-Ou", "-d", "100000", "-f", fasta, str(case), str(control)],
        check=True, capture_output=True,
    ).stdout  # fmt: skip
    subprocess.run(
        ["bcftools", "call", "-mv", "-Ov", "-o", str(out)], check=True, capture_output=True,
        input=reads,
    )  # fmt: skip
    found = set()
    with pysam.VariantFile(str(out)) as file:
        for record in file:
            own = set(record.samples["case"].alleles or ())
            for allele in own - set(record.samples["control"].alleles or ()):
                if allele and len(allele) == len(record.ref) == 1:
                    found.add((record.pos, allele))
    return found


def by_subtraction(folder: Path, command: list[str], case: Path, control: Path) -> Calls:
    """Return the alleles that a caller of one sample has of the case and not of the control."""
    calls = []
    for bam in (case, control):
        out = folder / f"{command[0]}.{bam.stem}.vcf"
        with out.open("w") as file:
            subprocess.run([*command, str(bam)], check=True, stdout=file, stderr=subprocess.DEVNULL)
        with pysam.VariantFile(str(out)) as records:
            calls.append({(r.pos, alt) for r in records for alt in r.alts or ()
                          if len(r.ref) == len(alt) == 1})  # fmt: skip
    return calls[0] - calls[1]


def ivar(folder: Path, case: Path, control: Path) -> Calls:
    """Return the alleles that pass iVar's own test in the case and do not in the control."""
    calls = []
    for bam in (case, control):
        piled = subprocess.run(
            ["samtools", "mpileup", "-aa", "-A", "-d", "0", "-B", "-Q", "0", str(bam)],
            check=True, capture_output=True,
        ).stdout  # fmt: skip
        subprocess.run(
            ["ivar", "variants", "-p", f"ivar.{bam.stem}", "-q", "20", "-t", "0.01", "-r",
             str(folder / "reference.fa")],
            check=True, capture_output=True, input=piled, cwd=folder,
        )  # fmt: skip
        with (folder / f"ivar.{bam.stem}.tsv").open() as file:
            calls.append(
                {(int(row["POS"]), row["ALT"]) for row in csv.DictReader(file, delimiter="\t")
                 if row["PASS"] == "TRUE" and len(row["ALT"]) == 1}
            )  # fmt: skip
    return calls[0] - calls[1]


def lacking() -> list[str]:
    """Return the rivals that are not installed."""
    needed = {"ivar": ("ivar", "samtools")}
    return [rival for rival in RIVALS if not all(map(shutil.which, needed.get(rival, (rival,))))]


def one_run(name: str, seed: int, rows: int) -> dict:
    """Run every method on one draw of a scenario."""
    what = ARTEFACTS[name]
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        write_artefacts(given, rows, seed, what)
        known = pq.read_table(folder / "_truth" / "variants.parquet").to_pylist()
        true = {(r["pos"], r["alt"]) for r in known if len(r["ref"]) == len(r["alt"])}
        passed, every, about = vbflows(folder)
        counts = counted(folder, max(rows, 600), what.replicates)
        found = {"vbflows": passed, "unfiltered": every}
        found |= {method: tested(counts, method) for method in ("fisher", "beta_binomial")}
        case, control = pooled(folder, "case"), pooled(folder, "control")
        fasta = str(folder / "reference.fa")
        absent = lacking()
        if absent:
            print(f"skipped, not installed: {', '.join(absent)}", file=sys.stderr)
        if "bcftools" not in absent:
            found["bcftools"] = bcftools(folder, case, control)
        if "ivar" not in absent:
            found["ivar"] = ivar(folder, case, control)
        for command in (
            ["freebayes", "-f", fasta, "-F", "0.01", "--pooled-continuous"],
            ["lofreq", "call", "-f", fasta],
        ):
            if command[0] not in absent:
                found[command[0]] = by_subtraction(folder, command, case, control)
    row: dict = {"scenario": name, "seed": seed, "true": len(true)}
    for method, calls in found.items():
        row[method] = {"found": len(calls & true), "false": len(calls - true)}
    row["vbflows"] |= about
    return row


def summary(rows: list[dict]) -> list[str]:
    """Return a Markdown table: found of true and false calls, summed over seeds."""
    methods = [m for m in METHODS if m in rows[0]]
    head = " | ".join(f"{m}: found, false" for m in methods)
    lines = [f"| scenario | runs | true | {head} |", "|" + "---|" * (3 + len(methods))]
    for name in ARTEFACTS:
        runs = [row for row in rows if row["scenario"] == name]
        if not runs:
            continue
        cells = [
            f"{sum(r[m]['found'] for r in runs)}, {sum(r[m]['false'] for r in runs)}"
            for m in methods
        ]
        true = sum(r["true"] for r in runs)
        lines.append(f"| {name} | {len(runs)} | {true} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main(__doc__, ARTEFACTS, one_run, summary, seeds=3, numbers={"rows": 1500})
