"""Indels by the two-groups test, by Fisher's test and by bcftools, on the same reads.

    python -m benchmarks.variants_indels [--seeds 5] [--length 900]

BAM files of `tests.flows.variants.slippage`: polymerases slip in runs of one base, alleles stand in
runs, next to runs and elsewhere. Fisher's test takes case against control, replicates together,
at the same units (those that no read shows among them) and controls the false discovery rate by
Benjamini and Hochberg. `bcftools mpileup | call -m` takes an indel where the case's genotype has
it and the control's has not; it is made for genotypes, not for small shares.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import false_discovery_control

from benchmarks.variants import fisher
from flows.variants.calls.calls import Evidence, decide, summarise
from flows.variants.reads.indel_alleles import AHEAD, of_positions
from flows.variants.reads.reads import ReadCounter, reference
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.variants.slipped_bams import CONTIG, ReadScenario, write_reads
from vbmodels.core.fit import drive
from vbmodels.variants.counts import BASES, Units
from vbmodels.variants.indels import UNSEEN, Indels, indel_units
from vbmodels.variants.sampling import sums_of
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE

FDR = 0.05
SETTINGS = {
    "none, 300x": ReadScenario("", every=0, depth=300),
    "none, 1000x": ReadScenario("", every=0, depth=1000),
    "none, 1000x, slips x3 in the case": ReadScenario("", every=0, factor=3.0),
    "none, 1000x, one replicate": ReadScenario("", every=0, replicates=1),
    "5 %, 300x": ReadScenario("", 0.05, 60, depth=300),
    "5 %, 1000x": ReadScenario("", 0.05, 60),
    "2 %, 1000x": ReadScenario("", 0.02, 60),
    "2 %, 1000x, slips x3 in the case": ReadScenario("", 0.02, 60, 3.0),
    "2 %, 1000x, one replicate": ReadScenario("", 0.02, 60, replicates=1),
    "1 %, 1000x": ReadScenario("", 0.01, 60),
}
Allele = tuple[int, str, str]


def counted(folder: Path, what: ReadScenario, length: int) -> tuple[Indels, Units, list[Allele]]:
    """Return the alleles of the reads, their units and how a VCF writes each allele."""
    settings = VariantSettings(fasta=str(folder / "reference.fa"))
    region = Region(CONTIG, 0, length)
    size = what.replicates
    names = [f"{s}{r + 1}.bam" for s in ("case", "control") for r in range(size)]
    with ReadCounter(settings) as reads:
        counts = [reads.count(str(folder / name), region) for name in names]
    bases = reference(str(settings.fasta), region, AHEAD)
    tallies = [one.indels for one in counts if one.indels is not None]
    indels = of_positions(0, tallies, bases, length)
    depth = np.stack([one.counts.sum(axis=(1, 2)) for one in counts], axis=1).astype(np.int64)
    of = indel_units(indels, depth, np.arange(2 * size) < size)
    alleles = []
    for at, n, text in zip(indels.location, indels.length, indels.bases, strict=True):
        anchor = BASES[bases[at]]
        pair = (anchor, anchor + str(text)) if n > 0 else (anchor + str(text), anchor)
        alleles.append((int(at) + 1, *pair))
    return indels, of, alleles


def by_two_groups(of: Units) -> np.ndarray:
    """Return which units are called, and are alleles that reads show."""
    model = BatchNull("gain", MIXTURE)
    q = drive(model, sums_of(model, of), seed=0, tol=1e-4, max_iter=1000).q
    at = model.anchored(q)
    log_m0, log_m1, _ = model.e_step(at, model.table(at, of))
    score = log_m1 - log_m0
    decision = decide([summarise(Evidence(score))], q.pi, VariantSettings(fdr=FDR), refit=True)
    return (score >= decision.least) & (of.alt != UNSEEN)


def by_fisher(of: Units) -> np.ndarray:
    """Return which units Fisher's one-sided test calls, by Benjamini and Hochberg."""
    return (false_discovery_control(fisher(of)) <= FDR) & (of.alt != UNSEEN)


def by_bcftools(folder: Path, replicates: int) -> set[Allele]:
    """Return the indels that bcftools finds in the case and not in the control."""
    found: dict[str, set[Allele]] = {}
    for sample in ("case", "control"):
        bams = " ".join(f"{folder}/{sample}{r + 1}.bam" for r in range(replicates))
        command = (
            f"bcftools mpileup -d 1000000 -L 1000000 -f {folder}/reference.fa {bams} "
            f"| bcftools call -mv | bcftools norm -f {folder}/reference.fa -m -any "
            "| bcftools query -i 'TYPE=\"indel\"' -f '%POS %REF %ALT\\n'"
        )
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
        rows = [line.split() for line in done.stdout.splitlines()]
        found[sample] = {(int(pos), ref, alt) for pos, ref, alt in rows}
    return found["case"] - found["control"]


def where(row: dict[str, object], indels: Indels, alleles: list[Allele]) -> str:
    """Return where a true allele stands: in a run of four and more, next to one, or elsewhere."""
    name = (row["pos"], row["ref"], row["alt"])
    run = int(indels.run[int(str(row["pos"])) - 1])
    if run < 4:
        return "elsewhere"
    slips = name in alleles and bool(indels.slips[alleles.index(name)])
    return "in runs" if slips else "next to runs"


def main() -> None:
    """Draw, call and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--length", type=int, default=900)
    parser.add_argument("--only", default="", help="settings whose name begins so")
    given = parser.parse_args()
    print(
        "| setting | true | two groups | Fisher | bcftools | in runs | next to runs | elsewhere |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, what in SETTINGS.items():
        if not name.startswith(given.only):
            continue
        hits: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        places: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        total, took = 0, 0.0
        for seed in range(given.first, given.first + given.seeds):
            with tempfile.TemporaryDirectory() as text:
                folder = Path(text)
                write_reads(text, given.length, seed, replace(what, meaning=name))
                truth = pq.read_table(folder / "_truth" / "indels.parquet").to_pylist()
                indels, of, alleles = counted(folder, what, given.length)
                began = time.process_time()
                ours = by_two_groups(of)
                took += time.process_time() - began
                sets = {
                    "two groups": {alleles[int(e)] for e in of.alt[ours]},
                    "Fisher": {alleles[int(e)] for e in of.alt[by_fisher(of)]},
                }
                if shutil.which("bcftools"):
                    sets["bcftools"] = by_bcftools(folder, what.replicates)
            true = {(row["pos"], row["ref"], row["alt"]): row for row in truth}
            total += len(true)
            for rival, found in sets.items():
                hits[rival][0] += len(found & set(true))
                hits[rival][1] += len(found - set(true))
            for key, row in true.items():
                at = where(row, indels, alleles)
                places[at][0] += key in sets["two groups"]
                places[at][1] += 1
        cells = [f"{f} / {wrong}" for f, wrong in (hits[r] for r in ("two groups", "Fisher",
                                                                    "bcftools"))]  # fmt: skip
        cells += [
            f"{places[p][0]} of {places[p][1]}" for p in ("in runs", "next to runs", "elsewhere")
        ]
        print(f"| {name} | {total} | {' | '.join(cells)} |", flush=True)
        print(f"  {took / given.seeds:.1f} s CPU a fit", flush=True, file=sys.stderr)


if __name__ == "__main__":
    main()
