"""Variant calling on real reads and on simulated BAMs, with other callers.

    python -m benchmarks.rvd2_data

freebayes and bcftools must be installed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pysam

from flows.run import run
from flows.settings import ComputeSettings
from flows.variants.settings import VariantSettings
from reproduce.rvd2_calls import two_groups
from vbmodels.variants.calls import e_bh, local_fdr, q_values
from vbmodels.variants.counts import Counts

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "variants"


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
    frame = pq.read_table(DATA / "deepsnv_counts.parquet").to_pandas()
    truth = pq.read_table(DATA / "hivmix_truth.parquet").to_pandas()
    lines = []
    hiv = frame[frame["dataset"] == "deepSNV_HIVmix"]
    chroms = list(hiv["chrom"].unique())
    counts, index = read_counts(hiv, chroms, ["test", "control"], ["fwd", "rev"], {"test"})
    summed = counts.counts.reshape(len(counts), 2, 2, 4).sum(axis=2, dtype=np.int32)
    found = two_groups(Counts(summed, counts.ref, np.array([True, False])))
    of = found["units"]
    true = set(zip(truth["pos"], truth["alt"], strict=True))
    for name, chosen in (
        ("q <= .05", found["called"]),
        ("e-BH", e_bh(found["log_bf"], 0.05)),
    ):
        got = {(index[j][1], "ACGT"[a]) for j, a in zip(of.location[chosen], of.alt[chosen],
                                                        strict=True)}  # fmt: skip
        lines.append(
            f"HIVmix, strands summed, {name}: {len(got & true)} of {len(true)} found, "
            f"{len(got - true)} others ({found['sweeps']} passes, {found['seconds']:.1f} s)."
        )
    # The limit on the local rate was chosen after a look at this set: what others would give.
    lfdr = local_fdr(found["log_bf"], found["q"].pi)
    for limit in (0.3, 0.4, 0.5, 0.6, 0.7, 1.0):
        chosen = (q_values(lfdr) <= 0.05) & (lfdr <= limit)
        got = {(index[j][1], "ACGT"[a]) for j, a in zip(of.location[chosen], of.alt[chosen],
                                                        strict=True)}  # fmt: skip
        lines.append(
            f"HIVmix, q <= .05 and local rate <= {limit:g}: {len(got & true)} found, "
            f"{len(got - true)} others."
        )
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


def run_bams() -> str:
    """Call the simulated BAMs by the pipeline, and by bcftools and freebayes from Debian."""
    folder = DATA / "simbam"
    fasta = str(folder / "ref400.fa")
    rows = [line.split("\t") for line in (folder / "truth.tsv").read_text().splitlines() if line]
    true = {(int(r[1]), r[3]) for r in rows}

    def score_calls(path: str) -> str:
        with pysam.VariantFile(path) as file:
            found = {
                (r.pos, a) for r in file for a in r.alts or ()
                if len(r.ref) == len(a) == 1 and list(r.filter) in ([], ["PASS"])
            }  # fmt: skip
        return f"{len(found & true)} ({len(found - true)})"

    lines = [
        "| reads | two groups, 3 + 3 | e-BH | papers, tau 5e-4 | freebayes, 1 case | bcftools, "
        "3 case |",  # freebayes refuses files that share a read group
        "|---" * 6 + "|",
    ]
    for depth, vaf in ((400, "0.01"), (4000, "0.01"), (400, "0.1")):
        cases = [str(folder / f"case_{depth}_{vaf}_{i}.bam") for i in range(3)]
        controls = [str(folder / f"ctrl_{depth}_{i}.bam") for i in range(3)]
        cells = []
        with tempfile.TemporaryDirectory() as work:
            sheet = os.path.join(work, "sheet.csv")
            with open(sheet, "w", encoding="utf-8") as file:
                file.write("sample,replicate,path\n")
                for name, paths in (("case", cases), ("control", controls)):
                    file.writelines(f"{name},{i},{p}\n" for i, p in enumerate(paths))
            for extra in (
                {}, {"e_bh": True}, {"test": "posterior_difference", "tau": 5e-4},
            ):  # fmt: skip
                settings = VariantSettings(fasta=fasta, **extra)
                target = os.path.join(work, "out")
                outcome = run("variants", sheet, target, settings, ComputeSettings())
                made = os.path.join(target, "runs", outcome["run_id"], "variants.vcf.gz")
                cells.append(score_calls(made))
            bayes = os.path.join(work, "freebayes.vcf")
            with open(bayes, "w", encoding="utf-8") as file:
                subprocess.run(
                    ["freebayes", "-f", fasta, "--pooled-continuous", "-F", "0.005", "-C", "2",
                     cases[0]], stdout=file, check=True,
                )  # fmt: skip
            cells.append(score_calls(bayes))
            called = os.path.join(work, "bcftools.vcf")
            command = f"bcftools mpileup -d 100000 -f {fasta} {' '.join(cases)} 2>/dev/null"
            subprocess.run(f"{command} | bcftools call -mv -Ov -o {called}", shell=True, check=True)
            cells.append(score_calls(called))
        lines.append(f"| {depth}x {vaf} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "Found of 14 (false)."])


if __name__ == "__main__":
    print(run_bams(), run_data(), sep="\n\n")
