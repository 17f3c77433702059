"""Variant calling on reads and on real counts, with other callers on the same ones.

    python -m benchmarks.variants_reads [simulated data machines]
    python -m benchmarks.variants_reads indels [--seeds 5] [--length 900]

simulated  Simulated BAM files by the pipeline, from sample sheet to VCF, and by other callers.
data       HIVmix with strands summed, and TP53 normals split three against three.
machines   Reads of ART, which has error profiles of machines: of the same one, and of two.
indels     BAM files of `tests.flows.variants.slipped_bams`: polymerases slip in runs of one base,
           alleles are in runs, next to runs and elsewhere. Fisher's test takes case against
           control, replicates together, at the same units (those that no read shows among them)
           and controls the false discovery rate by Benjamini and Hochberg. bcftools has an indel
           where the case's genotype has it and the control's has not; it is made for genotypes, not
           for small shares.

freebayes, bcftools, samtools and ivar must be installed; "machines" needs art_illumina and bwa too;
indels do without them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pysam
from scipy.stats import false_discovery_control

from benchmarks.harness import DATA as SETS
from benchmarks.harness import head, row
from benchmarks.variants import LEVEL, fisher
from flows.run import run
from flows.settings import ComputeSettings
from flows.variants.calls.calls import Evidence, decide, summarise
from flows.variants.reads.indel_alleles import AHEAD, of_positions
from flows.variants.reads.reads import ReadCounter, reference
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from reproduce.rvd2 import tested
from tests.flows.variants.slipped_bams import CONTIG, ReadScenario, write_reads
from vbmodels.core.fit import drive
from vbmodels.variants.counts import BASES, Counts, Units
from vbmodels.variants.indels import UNSEEN, Indels, indel_units
from vbmodels.variants.sampling import sums_of
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE

DATA = SETS / "variants"
Calls = set[tuple[int, str]]
CALLERS = {
    "freebayes": "freebayes -f {fasta} --pooled-continuous -F 0.005 -C 2 {first} > {out}.vcf",
    "bcftools": "bcftools mpileup -d 100000 -f {fasta} {bams} | bcftools call -mv -Ov -o {out}.vcf",
    "ivar": "samtools mpileup -aa -A -d 0 -B -Q 0 {first} | ivar variants -p {out} -t 0.005 "
    "-r {fasta}",
}
"""Other callers; freebayes refuses files that share a read group, and ivar takes one."""


# Real counts.


def read_counts(frame: pd.DataFrame, case: set[str]) -> tuple[Counts, np.ndarray]:
    """Return counts of samples in order of their names, case first, and the positions."""
    frame = frame.astype({"chrom": str, "sample": str, "ref": str})
    places = frame.drop_duplicates(["chrom", "pos"]).set_index(["chrom", "pos"]).sort_index()
    summed = frame.groupby(["sample", "chrom", "pos"])[[*"ACGT"]].sum()
    names = sorted(frame["sample"].unique(), key=lambda name: (name not in case, name))
    reads = [summed.loc[name].reindex(places.index, fill_value=0) for name in names]
    ref = np.array(["ACGT".find(base) for base in places["ref"]], np.int8)
    member = np.array([name in case for name in names])
    return Counts(np.stack(reads, axis=1).astype(np.int32), ref, member), np.array([*places.index])


def deep_snv(name: str) -> tuple[Counts, np.ndarray]:
    """Return a case and a control of deepSNV's data, strands summed, and the positions."""
    frame = pd.read_parquet(DATA / "deepsnv_counts.parquet")
    return read_counts(frame[frame["dataset"] == f"deepSNV_{name}"], {"test"})


def run_data() -> str:
    """Call HIVmix, and splits of TP53 normals."""
    counts, index = deep_snv("HIVmix")
    truth = pd.read_parquet(DATA / "hivmix_truth.parquet")
    of, _, calls = tested(counts)
    true = set(zip(truth["pos"], truth["alt"], strict=True))
    places = zip(of.location[calls], of.alt[calls], strict=True)
    got = {(int(index[j][1]), "ACGT"[a]) for j, a in places}
    lines = [
        f"HIVmix, strands summed: {len(got & true)} of {len(true)} found, {len(got - true)} others."
    ]
    tp53 = pd.read_parquet(DATA / "tp53_normals_counts.parquet").astype({"sample": str})
    names = np.array(sorted(tp53["sample"].unique()))
    for split in range(10):
        six = np.random.default_rng(split).choice(names, 6, replace=False)
        counts, _ = read_counts(tp53[tp53["sample"].isin(six)], set(six[:3]))
        of, _, calls = tested(counts)
        share = (of.alt_reads / np.maximum(of.depth, 1))[calls]
        germline = share.max(axis=1, initial=0.0) > 0.2
        lines.append(
            f"TP53 normals, split {split}: {len(share)} calls, {germline.sum()} of them germline "
            "differences (an allele above .2 in one person); others: "
            f"{np.round(share[~germline], 2).tolist()}"
        )
    return "\n\n".join(lines)


# Reads, from sample sheet to VCF.


def ours(cases: list[str], controls: list[str], fasta: str, **extra: object) -> Calls:
    """Return what the pipeline calls from sample sheet to VCF."""
    with tempfile.TemporaryDirectory() as work:
        sheet, target = Path(work) / "sheet.csv", Path(work) / "out"
        rows = [f"case,{i},{p}\n" for i, p in enumerate(cases)]
        rows += [f"control,{i},{p}\n" for i, p in enumerate(controls)]
        sheet.write_text("".join(["sample,replicate,path\n", *rows]), encoding="utf-8")
        settings = VariantSettings(fasta=fasta, **extra)
        outcome = run("variants", str(sheet), str(target), settings, ComputeSettings())
        return called_in(target / "runs" / outcome["run_id"] / "variants.vcf.gz")


def called_in(path: Path) -> Calls:
    """Return the substitutions of a VCF, or of ivar's table, that pass its filters."""
    if path.suffix == ".tsv":
        found = pd.read_csv(path, sep="\t")
        found = found[found["PASS"] & found["ALT"].isin([*"ACGT"])]
        return set(zip(found["POS"].tolist(), found["ALT"], strict=True))
    with pysam.VariantFile(str(path)) as file:
        return {
            (r.pos, a) for r in file for a in r.alts or ()
            if len(r.ref) == len(a) == 1 and list(r.filter) in ([], ["PASS"])
        }  # fmt: skip


def shell(command: str) -> str:
    """Run a command, and return what it prints."""
    return subprocess.run(
        command, shell=True, check=True, capture_output=True, text=True
    ).stdout  # fmt: skip


def theirs(cases: list[str], fasta: str) -> dict[str, Calls]:
    """Return what other callers call in the case."""
    found = {}
    for name, command in CALLERS.items():
        with tempfile.TemporaryDirectory() as work:
            given = {"first": cases[0], "bams": " ".join(cases), "fasta": fasta, "out": f"{work}/o"}
            shell(command.format(**given))
            found[name] = called_in(next(Path(work).glob("o.*")))
    return found


def read_table(rows: dict[str, tuple[dict[str, Calls], Calls]]) -> str:
    """Return found of true and, in brackets, false calls, of every row and method."""
    lines = []
    for name, (found, true) in rows.items():
        if not lines:
            lines = [head(["reads", *found])]
        cells = [f"{len(one & true)} of {len(true)} ({len(one - true)})" for one in found.values()]
        lines.append(row([name, *cells]))
    return "\n".join(lines)


def run_simulated() -> str:
    """Call the simulated BAMs by the pipeline, and by other callers."""
    folder, rows = DATA / "simbam", {}
    fasta = str(folder / "ref400.fa")
    listed = [line.split("\t") for line in (folder / "truth.tsv").read_text().splitlines() if line]
    true = {(int(r[1]), r[3]) for r in listed}
    for depth, vaf in ((400, "0.01"), (4000, "0.01"), (400, "0.1")):
        cases = [str(folder / f"case_{depth}_{vaf}_{i}.bam") for i in range(3)]
        controls = [str(folder / f"ctrl_{depth}_{i}.bam") for i in range(3)]
        papers = ours(cases, controls, fasta, test="posterior_difference", tau=5e-4)
        found = {"two groups": ours(cases, controls, fasta), "papers, tau 5e-4": papers}
        rows[f"{depth}x {vaf}"] = found | theirs(cases, fasta), true
    return read_table(rows)


def bam_of(name: str, machine: str, seed: int, parts: dict[str, float], work: str) -> str:
    """Draw single reads of 100 bases by ART, of each reference so deep, and align them."""
    for kind, depth in parts.items():
        shell(
            f"art_illumina -ss {machine} -i {work}/{kind}.fa -l 100 -f {depth} -rs {seed} -na "
            f"-o {work}/{name}_{kind}"
        )
    reads, made = " ".join(f"{work}/{name}_{kind}.fq" for kind in parts), f"{work}/{name}.bam"
    shell(
        rf"cat {reads} | bwa mem -R '@RG\tID:{name}\tSM:{name}' {work}/ref.fa - | "
        f"samtools sort -o {made} - && samtools index {made}"
    )
    return made


def run_machines(depth: int = 1000, share: float = 0.01, variants: int = 20) -> str:
    """Call reads of ART.

    The first 2,000 bases of the TP53 reference; the case has a haplotype with all variants.
    """
    rows, rng = {}, np.random.default_rng(0)
    lines = next((DATA / "bam").glob("*.fasta")).read_text().upper().splitlines()[1:]
    reference = "".join(lines)[:2000]
    places = np.sort(rng.choice(np.arange(100, 1900), variants, replace=False)).tolist()
    bases = list(reference)
    for j in places:
        bases[j] = rng.choice([b for b in "ACGT" if b != reference[j]])
    true = {(j + 1, bases[j]) for j in places}
    for machine in ("HS25", "MSv1"):
        with tempfile.TemporaryDirectory() as work:
            for name, text in {"ref": reference, "mutant": "".join(bases)}.items():
                Path(work, f"{name}.fa").write_text(f">{name}\n{text}\n")
            fasta = f"{work}/ref.fa"
            shell(f"samtools faidx {fasta} && bwa index {fasta}")
            mixed = {"ref": depth * (1.0 - share), "mutant": depth * share}
            cases = [bam_of(f"case{i}", machine, i, mixed, work) for i in range(3)]
            clean = {"ref": float(depth)}
            controls = [bam_of(f"control{i}", "HS25", 10 + i, clean, work) for i in range(3)]
            found = {
                "three by three": ours(cases, controls, fasta),
                "one by one": ours(cases[:1], controls[:1], fasta),
                "case alone": ours(cases[:1], [], fasta),
            }
            rivals, wrong = theirs(cases, fasta), theirs(controls, fasta)
            found |= rivals
            found |= {f"{name}, less the control's": rivals[name] - wrong[name] for name in rivals}
            rows[f"case {machine}, control HS25"] = found, true
    return read_table(rows)


# Indels.

SCENARIOS = {
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
METHODS, PLACES = ("two groups", "Fisher", "bcftools"), ("in runs", "next to runs", "elsewhere")
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
    """Return which units are called."""
    model = BatchNull("gain", MIXTURE)
    q = drive(model, sums_of(model, of), seed=0, tol=1e-4, max_iter=1000).q
    at = model.anchored(q)
    log_m0, log_m1, _ = model.e_step(at, model.table(at, of))
    score = log_m1 - log_m0
    decision = decide([summarise(Evidence(score))], q.pi, VariantSettings(fdr=LEVEL), refit=True)
    return score >= decision.least


def by_bcftools(folder: Path, replicates: int) -> set[Allele]:
    """Return the indels that bcftools finds in the case and not in the control."""
    found: dict[str, set[Allele]] = {}
    for sample in ("case", "control"):
        bams = " ".join(f"{folder}/{sample}{r + 1}.bam" for r in range(replicates))
        lines = shell(
            f"bcftools mpileup -d 1000000 -L 1000000 -f {folder}/reference.fa {bams} "
            f"| bcftools call -mv | bcftools norm -f {folder}/reference.fa -m -any "
            "| bcftools query -i 'TYPE=\"indel\"' -f '%POS %REF %ALT\\n'"
        ).splitlines()
        found[sample] = {(int(pos), ref, alt) for pos, ref, alt in map(str.split, lines)}
    return found["case"] - found["control"]


def place_of(allele: Allele, indels: Indels, alleles: list[Allele]) -> str:
    """Return where a true allele is: in a run of four and more, next to one, or elsewhere."""
    if int(indels.run[allele[0] - 1]) < 4:
        return "elsewhere"
    slips = allele in alleles and bool(indels.slips[alleles.index(allele)])
    return "in runs" if slips else "next to runs"


def run_indels(given: argparse.Namespace) -> None:
    """Draw, call and print."""
    print(head(["setting", "true", *METHODS, *PLACES]))
    for name, what in SCENARIOS.items():
        if not name.startswith(given.only):
            continue
        tally, took = Counter[tuple[str, str]](), 0.0
        for seed in range(given.first, given.first + given.seeds):
            with tempfile.TemporaryDirectory() as text:
                folder = Path(text)
                write_reads(text, given.length, seed, replace(what, meaning=name))
                truth = pd.read_parquet(folder / "_truth" / "indels.parquet")
                indels, of, alleles = counted(folder, what, given.length)
                began = time.process_time()
                calls = {"two groups": by_two_groups(of)}
                took += time.process_time() - began
                calls["Fisher"] = false_discovery_control(fisher(of)) <= LEVEL
                seen = of.alt != UNSEEN
                sets = {m: {alleles[int(e)] for e in of.alt[c & seen]} for m, c in calls.items()}
                if shutil.which("bcftools"):
                    sets["bcftools"] = by_bcftools(folder, what.replicates)
            true = set(zip(truth["pos"], truth["ref"], truth["alt"], strict=True))
            for method, found in sets.items():
                tally[method, "found"] += len(found & true)
                tally[method, "false"] += len(found - true)
            for allele in true:
                at = place_of(allele, indels, alleles)
                tally[at, "true"] += 1
                tally[at, "found"] += allele in sets["two groups"]
        cells = [f"{tally[m, 'found']} / {tally[m, 'false']}" for m in METHODS]
        cells += [f"{tally[at, 'found']} of {tally[at, 'true']}" for at in PLACES]
        total = sum(tally[at, "true"] for at in PLACES)
        print(row([name, total, *cells]), flush=True)
        print(f"  {took / given.seeds:.1f} s CPU a fit", flush=True, file=sys.stderr)


RUNS = {"simulated": run_simulated, "data": run_data, "machines": run_machines}


def main() -> None:
    """Print the tables that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=[*RUNS], help=", ".join([*RUNS, "indels"]))
    parser.add_argument("--seeds", type=int, default=5, help="of indels, as the next three")
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--length", type=int, default=900)
    parser.add_argument("--only", default="", help="settings whose name begins so")
    given = parser.parse_args()
    for what in given.what:
        if what == "indels":
            run_indels(given)
        else:
            print(RUNS[what](), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
