"""Variant calling on reads and on real counts, with other callers.

    python -m benchmarks.rvd2_data [simulated data machines pools]

freebayes, bcftools, samtools and ivar must be installed; "machines" needs art_illumina and bwa too.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pysam
from scipy.stats import false_discovery_control

from benchmarks.harness import DATA as SETS
from benchmarks.variants import BATCH, LEVEL, beta_binomial, fisher, table_row, tallied
from benchmarks.variants import two_groups as by_batch
from flows.run import run
from flows.settings import ComputeSettings
from flows.variants.settings import VariantSettings
from reproduce.rvd2 import two_groups
from vbmodels.variants.counts import Counts, units

DATA = SETS / "variants"
Calls = set[tuple[int, str]]
CALLERS = {
    "freebayes": "freebayes -f {fasta} --pooled-continuous -F 0.005 -C 2 {first} > {out}.vcf",
    "bcftools": "bcftools mpileup -d 100000 -f {fasta} {bams} | bcftools call -mv -Ov -o {out}.vcf",
    "ivar": "samtools mpileup -aa -A -d 0 -B -Q 0 {first} | ivar variants -p {out} -t 0.005 "
    "-r {fasta}",
}
"""Other callers; freebayes refuses files that share a read group, and ivar takes one."""


def read_counts(frame, chroms, samples, replicates, case: set) -> tuple[Counts, np.ndarray]:
    """Turn rows of the shared Parquet counts into `Counts`; returns the positions too."""
    frame = frame[frame["chrom"].isin(chroms)]
    index = frame[["chrom", "pos"]].astype({"chrom": str}).drop_duplicates()
    index = index.sort_values(["chrom", "pos"]).reset_index(drop=True)
    place = {key: i for i, key in enumerate(index.itertuples(index=False, name=None))}
    columns = [(s, r) for s in samples for r in replicates]
    reads = np.zeros((len(index), len(columns), 4), np.int32)
    ref = np.full(len(index), -1, np.int8)
    rows = np.array([place[key] for key in zip(frame["chrom"].astype(str), frame["pos"],
                                               strict=True)])  # fmt: skip
    ref[rows] = [("ACGT".find(b)) for b in frame["ref"].astype(str)]
    for c, (sample, replicate) in enumerate(columns):
        chosen = (frame["sample"] == sample) & (frame["replicate"] == replicate)
        reads[rows[chosen.to_numpy()], c] += frame.loc[chosen, list("ACGT")].to_numpy(np.int32)
    member = np.array([s in case for s, _ in columns])
    return Counts(reads, ref, member), index.to_numpy()


def run_data() -> str:
    """HIVmix with strands summed, and TP53 normals split three against three."""
    counts, index = deep_snv("HIVmix")
    truth = pq.read_table(DATA / "hivmix_truth.parquet").to_pandas()
    found = two_groups(counts)
    of, chosen = found["units"], found["called"]
    true = set(zip(truth["pos"], truth["alt"], strict=True))
    places = zip(of.location[chosen], of.alt[chosen], strict=True)
    got = {(index[j][1], "ACGT"[a]) for j, a in places}
    lines = [
        f"HIVmix, strands summed: {len(got & true)} of {len(true)} found, {len(got - true)} others."
    ]
    tp53 = pq.read_table(DATA / "tp53_normals_counts.parquet").to_pandas()
    names = np.array(sorted(tp53["sample"].unique().astype(str)))
    for split in range(10):
        six = np.random.default_rng(split).choice(names, 6, replace=False)
        part = tp53[tp53["sample"].isin(six)].copy()
        counts, index = read_counts(
            part, list(part["chrom"].unique()), list(six), ["1"], set(six[:3])
        )
        found = two_groups(counts)
        of = found["units"]
        share = of.alt_reads / np.maximum(of.depth, 1)
        chosen = np.flatnonzero(found["called"])
        germline = [u for u in chosen if share[u].max() > 0.2]
        shares = [np.round(share[u], 2).tolist() for u in chosen if u not in germline]
        lines.append(
            f"TP53 normals, split {split}: {len(chosen)} calls, {len(germline)} of them germline "
            f"differences (an allele above .2 in one person); others: {shares}"
        )
    return "\n\n".join(lines)


def deep_snv(name: str) -> tuple[Counts, np.ndarray]:
    """Return a case and a control of deepSNV's data, strands summed, and the positions."""
    frame = pq.read_table(DATA / "deepsnv_counts.parquet").to_pandas()
    frame = frame[frame["dataset"] == f"deepSNV_{name}"]
    samples, strands = ["test", "control"], ["fwd", "rev"]
    counts, index = read_counts(frame, list(frame["chrom"].unique()), samples, strands, {"test"})
    summed = counts.counts.reshape(len(counts), 2, 2, 4).sum(axis=2, dtype=np.int32)
    return Counts(summed, counts.ref, np.array([True, False])), index


def run_pools(draws: int = 5, people: int = 10) -> str:
    """Pool real reads of normals, people against other people; and phiX against itself.

    True are the alleles above .2 in somebody of the case's pool and in nobody of the control's.
    What somebody in both pools has is neither true nor false.
    """
    tp53 = pq.read_table(DATA / "tp53_normals_counts.parquet").to_pandas()
    names = sorted(tp53["sample"].unique().astype(str))
    every, _ = read_counts(tp53, list(tp53["chrom"].unique()), names, ["1"], set(names[:1]))
    of = units(every)
    carried = of.alt_reads > np.maximum(0.2 * of.depth, 3.0)
    runs: dict[str, list[dict]] = {"TP53 pools": [], "phiX": []}

    def compare(name: str, counts: Counts, true: np.ndarray, either: np.ndarray) -> None:
        own, row = units(counts), {"true": int(true.sum())}
        calls = {"batch": by_batch(BATCH["batch"], counts)[0]}
        for method, p in (("fisher", fisher(own)), ("beta_binomial", beta_binomial(own))):
            calls[method] = false_discovery_control(p) <= LEVEL
        runs[name].append(row | {m: tallied(c & ~either, true) for m, c in calls.items()})

    for draw in range(draws):
        chosen = np.random.default_rng(draw).choice(len(names), 2 * people, replace=False)
        sides = chosen[:people], chosen[people:]
        reads = [every.counts[:, side].sum(axis=1, dtype=np.int32) for side in sides]
        case, control = (carried[:, side].any(axis=1) for side in sides)
        counts = Counts(np.stack(reads, axis=1), every.ref, np.array([True, False]))
        compare("TP53 pools", counts, case & ~control, case & control)
    phix, _ = deep_snv("phiX")
    compare("phiX", phix, *np.zeros((2, len(units(phix))), bool))
    methods = ("batch", "fisher", "beta_binomial")
    lines = [f"| set | runs | true | {' | '.join(methods)} |", "|---" * 6 + "|"]
    return "\n".join([*lines, *(table_row(name, rows, methods) for name, rows in runs.items())])


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
        rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
        return {(int(r[1]), r[3]) for r in rows if r[13] == "TRUE" and r[3] in "ACGT"}
    with pysam.VariantFile(str(path)) as file:
        return {
            (r.pos, a) for r in file for a in r.alts or ()
            if len(r.ref) == len(a) == 1 and list(r.filter) in ([], ["PASS"])
        }  # fmt: skip


def shell(command: str) -> None:
    """Run a command quietly."""
    subprocess.run(command, shell=True, check=True, capture_output=True)


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
            lines = [f"| reads | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
        cells = [f"{len(one & true)} of {len(true)} ({len(one - true)})" for one in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
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
    """Call reads of ART, which has error profiles of machines: of the same one, and of two.

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


RUNS = {"simulated": run_simulated, "data": run_data, "machines": run_machines, "pools": run_pools}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=[*RUNS])
    for chosen_run in parser.parse_args().what:
        print(RUNS[chosen_run](), end="\n\n", flush=True)
