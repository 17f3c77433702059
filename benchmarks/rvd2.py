"""Variant calling: what the two-groups test and the papers' rule find, and what they cost.

    python benchmarks/rvd2.py simulate OUT.jsonl [--seeds 10]   # one JSON line a run
    python benchmarks/rvd2.py summary OUT.jsonl                 # tables from these lines
    python benchmarks/rvd2.py data                              # HIVmix, TP53 normals
    python benchmarks/rvd2.py bams                              # simulated BAMs, beside rivals
    python benchmarks/rvd2.py speed                             # microseconds by part
    python benchmarks/rvd2.py large [--locations 100000]        # microseconds, sweeps, bytes

The simulation is the paper's: 14 variants in 400 locations. The published table stands in
`PUBLISHED` (He, Zhang, Flaherty 2015; Zhang, He, Flaherty 2017; N = 6, real synthetic DNA).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

from vbmodels.cavi import NotConverged, fit
from vbmodels.variants import posterior, table
from vbmodels.variants.batch import Counts, totals, units
from vbmodels.variants.calls import called, e_bh, local_fdr, q_values
from vbmodels.variants.rvd2.model import RVD2, Errors
from vbmodels.variants.rvd2.posterior_difference import compare
from vbmodels.variants.simulate import Truth, simulate
from vbmodels.variants.two_groups import MIXTURE, TwoGroups

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "variants"
VAFS = (0.0, 0.001, 0.003, 0.01, 0.1, 1.0)
DEPTHS = (40, 400, 4000, 40_000)
PUBLISHED = """| VAF | depth | MCMC sensitivity/specificity | VI |
|---|---|---|---|
| .1 % | 4129 | .14/1 | .29/1 |
| .1 % | 41449 | .86/.97 | 1/1 |
| .3 % | 4156 | 1/.99 | 1/.98 |
| 1 % | 535 | .21/1 | .29/1 |
| 1 % | 5584 | 1/.98 | 1/.98 |
| 10 % | 22 | 0/1 | .57/1 |"""


def two_groups(counts: Counts, model: TwoGroups | None = None) -> dict:
    """Fit and call; return the units, what is called and what the fit took."""
    model = model or TwoGroups(alternatives=MIXTURE)
    begun = time.process_time()
    done = fit(model, [counts], tol=1e-5)
    q = model.anchored(done.q)
    of = units(counts)
    tabulated = table.tabulate(of, q.anchor)
    m0, m1, _ = model.reweigh(q, tabulated)
    lfdr = local_fdr(m1 - m0, q.pi)
    return {
        "model": model,
        "units": of,
        "q": q,
        "table": tabulated,
        "log_bf": m1 - m0,
        "called": called(lfdr, 0.05),
        "seconds": time.process_time() - begun,
        "sweeps": done.iterations,
    }


def papers(counts: Counts) -> dict[float, np.ndarray]:
    """Return the locations that the papers' rule calls, by tau (collapsed, one M)."""
    r, n = totals(counts)
    states = []
    for member in (counts.case, ~counts.case):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            done = fit(RVD2(), [Errors(r[:, member], n[:, member])], tol=1e-6, max_iter=200)
        states.append(done.reduce.local_states(done.iterations - 1)[0])
    return {tau: np.flatnonzero(compare(*states, tau).probability > 0.95) for tau in (0.0, 5e-4)}


def keys(location, alt) -> set[tuple[int, int]]:
    return set(zip(np.asarray(location).tolist(), np.asarray(alt).tolist(), strict=True))


def one_run(
    vaf: float, depth: int, replicates: int, dispersion: float, seed: int, others: bool = True
) -> dict:
    rng = np.random.default_rng([seed, depth, replicates, int(dispersion), int(vaf * 1e6)])
    counts, truth = simulate(
        rng,
        n_variants=14 if vaf else 0,
        vaf=vaf,
        depth=depth,
        n_replicates=replicates,
        dispersion=dispersion,
    )
    found = two_groups(counts)
    of, strict = found["units"], e_bh(found["log_bf"], 0.05)
    true = keys(truth.location, truth.alt)
    row = {
        "vaf": vaf, "depth": depth, "n": replicates, "m": dispersion, "seed": seed,
        "sweeps": found["sweeps"], "seconds": round(found["seconds"], 3),
    }  # fmt: skip
    sets = [("two_groups", found["called"]), ("strict", strict)]
    # The other tests cost more than the rest, so they run on the first seeds only.
    if others and seed < 2:
        sets.append(("broad", two_groups(counts, TwoGroups())["called"]))
    for name, chosen in sets:
        got = keys(of.location[chosen], of.alt[chosen])
        row[name] = [len(got & true), len(got - true)]
    row["coverage"] = coverage(found, truth)
    for tau, sites in (papers(counts) if others and seed == 0 and replicates == 3 else {}).items():
        hit = int(np.isin(sites, truth.location).sum())
        row[f"papers_{tau:g}"] = [hit, len(sites) - hit]
    return row


def coverage(found: dict, truth: Truth) -> list[int]:
    """Count called true variants, and those whose 95 % interval holds the case's rate."""
    of = found["units"]
    true = keys(truth.location, truth.alt)
    at = [u for u in np.flatnonzero(found["called"]) if (of.location[u], of.alt[u]) in true]
    if not at:
        return [0, 0]
    rows = of.take(np.array(at))
    tabulated = table.tabulate(rows, found["q"].anchor)
    rate, _ = posterior.rates(found["model"], found["q"], tabulated)
    mu = truth.mu_case[rows.location, rows.alt]
    inside = (rate.quantiles[:, 0] <= mu) & (mu <= rate.quantiles[:, 3])
    return [len(at), int(inside.sum())]


def run_simulation(out: str, seeds: int, others: bool) -> None:
    done = set()
    if Path(out).exists():
        rows = [json.loads(line) for line in Path(out).read_text().splitlines()]
        done = {(r["vaf"], r["depth"], r["n"], r["m"], r["seed"]) for r in rows}
    plan = [
        (vaf, depth, n, m, seed)
        for seed in range(seeds)
        for n, m in ((3, 1e4), (1, 1e4), (6, 1e4), (3, 1e3), (1, 1e3), (6, 1e3))
        for vaf in VAFS
        for depth in DEPTHS
    ]
    with open(out, "a", encoding="utf-8") as file:
        for cell in plan:
            if cell not in done:
                file.write(json.dumps(one_run(*cell, others)) + "\n")
                file.flush()


def summary(path: str) -> str:
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    lines = [f"{len(rows)} runs, seeds 0 to {max(r['seed'] for r in rows)}.", ""]
    methods = ("two_groups", "broad", "strict", "papers_0", "papers_0.0005")
    lines += [
        "| N | M | test | mean sensitivity | realised FDR | worst cell FDR | runs without "
        "variants with a call |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = sorted({(r["n"], r["m"]) for r in rows}, key=lambda g: (-g[1], g[0]))
    for n, m in [*groups, (None, None)]:
        of_group = [r for r in rows if n is None or (r["n"], r["m"]) == (n, m)]
        for method in methods:
            chosen = [r for r in of_group if method in r]
            if not chosen:
                continue
            lines.append(f"| {n or 'all'} | {m or 'all':.6} | {method} | {_line(chosen, method)} |")
    lines += ["", "Two groups, sensitivity (FDR) by cell:", ""]
    for n, m in groups:
        lines += [f"N = {n}, M = {m:g}", "", "| VAF | " + " | ".join(map(str, DEPTHS)) + " |"]
        lines.append("|---|" + "---|" * len(DEPTHS))
        for vaf in VAFS[1:]:
            cells = [
                [r for r in rows if (r["n"], r["m"], r["vaf"], r["depth"]) == (n, m, vaf, d)]
                for d in DEPTHS
            ]
            lines.append(f"| {vaf:g} | " + " | ".join(map(_cell, cells)) + " |")
        lines.append("")
    # No equal-tailed interval holds a rate of exactly 1.
    covered = np.array([r["coverage"] for r in rows if r["vaf"] < 1.0]).sum(axis=0)
    lines.append(
        f"95 % intervals of {covered[0]} called true variants (VAF below 1) cover "
        f"{covered[1] / covered[0]:.3f}."
    )
    seconds = np.array([r["seconds"] for r in rows])
    sweeps = np.array([r["sweeps"] for r in rows])
    lines.append(
        f"A fit of 1200 units took {np.median(seconds):.2f} s (median CPU), "
        f"{np.median(sweeps):.0f} passes (largest {sweeps.max()})."
    )
    return "\n".join([*lines, "", "Published:", "", PUBLISHED])


def _line(rows: list[dict], method: str) -> str:
    with_variants = [r for r in rows if r["vaf"]]
    null = [r for r in rows if not r["vaf"]]
    of_cell = defaultdict(list)
    for r in with_variants:
        of_cell[r["vaf"], r["depth"], r["n"], r["m"]].append(r[method][0] / 14)
    sensitivity = np.mean([np.mean(values) for values in of_cell.values()])
    found = np.array([r[method] for r in rows]).sum(axis=0)
    cells = defaultdict(lambda: np.zeros(2))
    for r in with_variants:
        cells[r["vaf"], r["depth"], r["n"], r["m"]] += r[method]
    worst = max(c[1] / max(c.sum(), 1.0) for c in cells.values())
    share = np.mean([r[method][1] > 0 for r in null]) if null else float("nan")
    return f"{sensitivity:.3f} | {found[1] / max(found.sum(), 1):.4f} | {worst:.3f} | {share:.3f}"


def _cell(rows: list[dict]) -> str:
    if not rows:
        return ""
    hit, false = np.array([r["two_groups"] for r in rows]).sum(axis=0)
    return f"{hit / 14 / len(rows):.2f} ({false / max(hit + false, 1):.3f})"


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
    import pyarrow.parquet as pq

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
        ("strict", e_bh(found["log_bf"], 0.05)),
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
    import os
    import subprocess
    import tempfile

    import pysam

    from flows.families.variants import FAMILY
    from flows.pipelines.run import run_pipeline
    from flows.pipelines.stages import Plain
    from flows.settings import ComputeSettings, VariantSettings

    folder = DATA / "simbam"
    fasta = str(folder / "ref400.fa")
    rows = [line.split("\t") for line in (folder / "truth.tsv").read_text().splitlines() if line]
    true = {(int(r[1]), r[3]) for r in rows}

    def judged(path: str) -> str:
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
                {}, {"strict": True}, {"test": "posterior_difference", "tau": 5e-4},
            ):  # fmt: skip
                outcome = run_pipeline(
                    FAMILY, Plain(), sheet, os.path.join(work, "out"),
                    VariantSettings(fasta=fasta, **extra), ComputeSettings(), None,
                )  # fmt: skip
                run = os.path.join(work, "out", "runs", outcome["run_id"])
                cells.append(judged(os.path.join(run, "variants.vcf.gz")))
            bayes = os.path.join(work, "freebayes.vcf")
            with open(bayes, "w", encoding="utf-8") as file:
                subprocess.run(
                    ["freebayes", "-f", fasta, "--pooled-continuous", "-F", "0.005", "-C", "2",
                     cases[0]], stdout=file, check=True,
                )  # fmt: skip
            cells.append(judged(bayes))
            called = os.path.join(work, "bcftools.vcf")
            command = f"bcftools mpileup -d 100000 -f {fasta} {' '.join(cases)} 2>/dev/null"
            subprocess.run(f"{command} | bcftools call -mv -Ov -o {called}", shell=True, check=True)
            cells.append(judged(called))
        lines.append(f"| {depth}x {vaf} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "Found of 14 (false)."])


def run_speed() -> str:
    """Microseconds a unit and pass, a location and sweep, on simulated counts at 4000 reads."""
    lines = []
    counts, _ = simulate(np.random.default_rng(0), n_locations=2000, n_variants=20)
    for n in (1, 3, 6):
        few, _ = simulate(np.random.default_rng(0), n_locations=700, n_variants=10, n_replicates=n)
        of, model = units(few), TwoGroups()
        q = model.init(model.observe(few), np.random.default_rng(0))
        tabulated = table.tabulate(of, q.anchor)
        model.reweigh(q, tabulated)
        t0 = time.process_time()
        table.tabulate(of, q.anchor)
        t1 = time.process_time()
        model.reweigh(q, tabulated)
        t2 = time.process_time()
        small = of.take(slice(0, 200))
        t3 = time.process_time()
        plain = table.tabulate(small, q.anchor, compiled=False)
        TwoGroups(compiled=False).reweigh(q, plain)
        t4 = time.process_time()
        per = 1e6 / len(of)
        lines.append(
            f"two groups, N = {n}: table {(t1 - t0) * per:.0f} us, pass over it "
            f"{(t2 - t1) * per:.0f} us, both {(t2 - t0) * per:.0f} us a unit (goal .15 ms at "
            f"N = 3); NumPy {(t4 - t3) / 200 * 1e6:.0f} us."
        )
    r, n = totals(counts)
    data = Errors(r[:, counts.case], n[:, counts.case])
    for inference in ("collapsed", "mean_field"):
        model = RVD2(inference=inference, n_nodes=24)
        fit(model, [Errors(data.r[:5], data.n[:5])], tol=1e-4)
        begun = time.process_time()
        done = fit(model, [data], tol=1e-7, max_iter=300)
        per = (time.process_time() - begun) / done.iterations / len(data.r) * 1e6
        q, local = done.q, done.reduce.local_states(done.iterations - 1)[0]
        plain = RVD2(inference=inference, n_nodes=24, compiled=False)
        begun = time.process_time()
        few = Errors(data.r[:200], data.n[:200])
        plain.local_step(q, few, None)
        slow = (time.process_time() - begun) / 200 * 1e6
        begun = time.process_time()
        model.local_step(q, few, None)
        fast = (time.process_time() - begun) / 200 * 1e6
        lines.append(
            f"RVD2 {inference}, 24 nodes, N = 3: {per:.1f} us a location and sweep over "
            f"{done.iterations} sweeps (goal 10); from a cold start {fast:.0f} us, NumPy "
            f"{slow:.0f} us ({slow / fast:.0f} times)."
        )
        del local
    lines.append(special_functions())
    return "\n\n".join(lines)


def special_functions() -> str:
    """The kernel's digamma and trigamma beside SciPy's, one thread, values from .01 to 1e6."""
    from numba import njit
    from scipy.special import digamma, polygamma

    from vbmodels.variants.elementary.kernels import polygammas

    @njit
    def both(z, out):
        for i in range(z.shape[0]):
            out[0, i], out[1, i] = polygammas(z[i])

    z = np.exp(np.random.default_rng(0).uniform(np.log(0.01), np.log(1e6), 200_000))
    out = np.empty((2, len(z)))
    both(z, out)
    t0 = time.process_time()
    both(z, out)
    t1 = time.process_time()
    psi, tri = digamma(z), polygamma(1, z)
    t2 = time.process_time()
    worst = max(np.abs(out[0] - psi).max(), np.abs(out[1] / tri - 1).max())
    return (
        f"psi and psi' together: kernel {(t1 - t0) / len(z) * 1e9:.0f} ns an element, SciPy "
        f"{(t2 - t1) / len(z) * 1e9:.0f} ns ({(t2 - t1) / (t1 - t0):.0f} times); largest "
        f"difference {worst:.1e}."
    )


def large(locations: int) -> str:
    """Both models on many locations: time a location, sweeps, bytes."""
    import resource

    rng = np.random.default_rng(0)
    counts, _ = simulate(rng, n_locations=locations, n_variants=locations // 1000, depth=1000)
    model = TwoGroups(alternatives=MIXTURE)
    sample = counts.take(np.sort(rng.choice(locations, min(2000, locations), replace=False)))
    begun = time.process_time()
    done = fit(model, [sample], tol=1e-6)
    middle = time.process_time()
    q = model.anchored(done.q)
    for start in range(0, locations, 1000):
        of = units(counts.take(slice(start, start + 1000)))
        model.reweigh(q, table.tabulate(of, q.anchor))
    end = time.process_time()
    lines = [
        f"{locations:,} locations x 6 replicates, counts {counts.counts.nbytes / 2**20:.0f} MiB.",
        f"Two groups: fit on {3 * len(sample)} units in {middle - begun:.1f} s "
        f"({done.iterations} passes), one pass over all in {end - middle:.0f} s = "
        f"{(end - middle) / locations * 1e6:.0f} us a location; the table of 1000 locations at a "
        f"time {3000 * 400 * 4 * 8 / 2**20:.0f} MiB.",
    ]
    r, n = totals(counts)
    data = Errors(np.ascontiguousarray(r[:, counts.case]), np.ascontiguousarray(n[:, counts.case]))
    del counts, r, n
    for inference in ("collapsed", "mean_field"):
        papers_model = RVD2(inference=inference, n_nodes=24)
        fit(papers_model, [Errors(data.r[:5], data.n[:5])], tol=1e-4)
        begun = time.process_time()
        found = fit(papers_model, [data], tol=1e-8, max_iter=300)
        seconds = time.process_time() - begun
        per = seconds / found.iterations / locations * 1e6
        lines.append(
            f"RVD2 {inference}, 24 nodes, N = 3: {found.iterations} sweeps, {per:.1f} us a "
            f"location and sweep; counts {data.r.nbytes * 2 // locations} and q(mu) 24 bytes a "
            "location, a second q(mu) while it is replaced."
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return "\n\n".join([*lines, f"Peak of the process {peak:.0f} MiB."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["simulate", "summary", "data", "bams", "speed", "large"])
    parser.add_argument("path", nargs="?")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--default-only", action="store_true", help="leave the other tests out")
    parser.add_argument("--locations", type=int, default=100_000)
    chosen = parser.parse_args()
    if chosen.what == "simulate":
        run_simulation(chosen.path, chosen.seeds, not chosen.default_only)
        return
    text = {
        "summary": lambda: summary(chosen.path),
        "data": run_data,
        "bams": run_bams,
        "speed": run_speed,
        "large": lambda: large(chosen.locations),
    }[chosen.what]()
    import sys

    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
