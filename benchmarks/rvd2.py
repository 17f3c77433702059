"""Variant calling: what the two-groups test and the papers' rule find, and what they cost.

    python -m benchmarks.rvd2 simulate OUT.jsonl [--seeds 10] [--first 0]  # one JSON line a run
    python -m benchmarks.rvd2 summary OUT.jsonl                 # tables from these lines
    python -m benchmarks.rvd2 data                              # HIVmix, TP53 normals
    python -m benchmarks.rvd2 bams                              # simulated BAMs, beside rivals

The simulation is the paper's: 14 variants in 400 locations. The published table stands in
`PUBLISHED` (He, Zhang, Flaherty 2015; Zhang, He, Flaherty 2017; N = 6, real synthetic DNA).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.rvd2_calls import papers, two_groups
from benchmarks.rvd2_data import run_bams, run_data
from vbmodels.variants import posterior
from vbmodels.variants.batch_null import BatchNull
from vbmodels.variants.calls import MOST_LFDR, e_bh, local_fdr, q_values
from vbmodels.variants.simulate import Truth, simulate
from vbmodels.variants.two_groups import MIXTURE, TwoGroups

LOCATIONS = 400
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


def keys(location, alt) -> set[tuple[int, int]]:
    return set(zip(np.asarray(location).tolist(), np.asarray(alt).tolist(), strict=True))


def one_run(
    vaf: float, depth: int, replicates: int, dispersion: float, seed: int, others: bool = True,
    null: str = "batch",
) -> dict:  # fmt: skip
    rng = np.random.default_rng([seed, depth, replicates, int(dispersion), int(vaf * 1e6)])
    counts, truth = simulate(
        rng,
        n_locations=LOCATIONS,
        n_variants=14 if vaf else 0,
        vaf=vaf,
        depth=depth,
        n_replicates=replicates,
        dispersion=dispersion,
    )
    found = two_groups(counts, tested(null))
    of, strict = found["units"], e_bh(found["log_bf"], 0.05)
    true = keys(truth.location, truth.alt)
    row = {
        "vaf": vaf, "depth": depth, "n": replicates, "m": dispersion, "seed": seed,
        "sweeps": found["sweeps"], "seconds": round(found["seconds"], 3),
    }  # fmt: skip
    sets = [("two_groups", found["called"]), ("strict", strict)]
    for name, chosen in sets:
        got = keys(of.location[chosen], of.alt[chosen])
        row[name] = [len(got & true), len(got - true)]
    row["doubtful"] = doubtful(found, true)
    row["coverage"] = coverage(found, truth)
    for tau, sites in (papers(counts) if others and seed == 0 and replicates > 1 else {}).items():
        hit = int(np.isin(sites, truth.location).sum())
        row[f"papers_{tau:g}"] = [hit, len(sites) - hit]
    return row


def tested(null: str) -> TwoGroups:
    """Return the model of the null."""
    if null == "batch":
        return BatchNull(alternatives=MIXTURE)
    return TwoGroups(alternatives=MIXTURE)


def doubtful(found: dict, true: set[tuple[int, int]]) -> list[list[float]]:
    """Return local rate and truth of what q <= .05 alone would call above a local rate of .05."""
    of, lfdr = found["units"], local_fdr(found["log_bf"], found["q"].pi)
    at = np.flatnonzero((q_values(lfdr) <= 0.05) & (lfdr > 0.05))
    return [[round(float(lfdr[u]), 4), float((of.location[u], of.alt[u]) in true)] for u in at]


def coverage(found: dict, truth: Truth) -> list[int]:
    """Count called true variants, and those whose 95 % interval holds the case's rate."""
    of = found["units"]
    true = keys(truth.location, truth.alt)
    at = [u for u in np.flatnonzero(found["called"]) if (of.location[u], of.alt[u]) in true]
    if not at:
        return [0, 0]
    rows = of.take(np.array(at))
    model, q = found["model"], found["q"]
    rate, _ = posterior.rates(model, q, model.rate_table(q, rows))
    mu = truth.mu_case[rows.location, rows.alt]
    inside = (rate.quantiles[:, 0] <= mu) & (mu <= rate.quantiles[:, 3])
    return [len(at), int(inside.sum())]


GRID = ((3, 1e4), (1, 1e4), (6, 1e4), (3, 1e3), (1, 1e3), (6, 1e3))
"""Replicates and dispersion of the papers' simulation."""


def run_simulation(
    out: str, seeds: range, others: bool, null: str, grid: tuple[tuple[int, float], ...]
) -> None:
    done = set()
    if Path(out).exists():
        rows = [json.loads(line) for line in Path(out).read_text().splitlines()]
        done = {(r["vaf"], r["depth"], r["n"], r["m"], r["seed"]) for r in rows}
    plan = [
        (vaf, depth, n, m, seed)
        for seed in seeds
        for n, m in grid
        for vaf in VAFS
        for depth in DEPTHS
    ]
    with open(out, "a", encoding="utf-8") as file:
        for cell in plan:
            if cell not in done:
                file.write(json.dumps(one_run(*cell, others, null)) + "\n")
                file.flush()


def summary(path: str) -> str:
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    lines = [f"{len(rows)} runs, seeds 0 to {max(r['seed'] for r in rows)}.", ""]
    methods = ("two_groups", "strict", "papers_0", "papers_0.0005")
    lines += [
        "| N | M | test | mean sensitivity | specificity | realised FDR | worst cell FDR | "
        "runs without variants with a call |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups = sorted({(r["n"], r["m"]) for r in rows}, key=lambda g: (-g[1], g[0]))
    for n, m in [*groups, (None, None)]:
        of_group = [r for r in rows if n is None or (r["n"], r["m"]) == (n, m)]
        for method in methods:
            chosen = [r for r in of_group if method in r]
            if not chosen:
                continue
            lines.append(f"| {n or 'all'} | {m or 'all':.6} | {method} | {_line(chosen, method)} |")
    lines += ["", "The default test by its limit on the local rate, all runs:", ""]
    lines += [
        "| limit | mean sensitivity | specificity | realised FDR | worst cell FDR | runs without "
        "variants with a call |",
        "|---|---|---|---|---|---|",
    ]
    for limit in (0.2, 0.3, 0.4, 0.5, 1.0):
        as_if = [{**r, "two_groups": _limited(r, limit)} for r in rows]
        lines.append(f"| {limit:g} | {_line(as_if, 'two_groups')} |")
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


def _limited(row: dict, limit: float) -> list[float]:
    """Return true and false calls of a run had the limit on the local rate been another."""
    hit, false = row["two_groups"]
    for lfdr, true in row["doubtful"]:
        change = int(lfdr <= limit) - int(lfdr <= MOST_LFDR)
        hit, false = hit + change * true, false + change * (1.0 - true)
    return [hit, false]


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
    # The papers' rule decides about locations, the others about three alleles of each.
    tested = LOCATIONS * (1 if method.startswith("papers") else 3)
    negatives = sum(tested - (14 if r["vaf"] else 0) for r in rows)
    return (
        f"{sensitivity:.3f} | {1.0 - found[1] / negatives:.5f} | "
        f"{found[1] / max(found.sum(), 1):.4f} | {worst:.3f} | {share:.3f}"
    )


def _cell(rows: list[dict]) -> str:
    if not rows:
        return ""
    hit, false = np.array([r["two_groups"] for r in rows]).sum(axis=0)
    return f"{hit / 14 / len(rows):.2f} ({false / max(hit + false, 1):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["simulate", "summary", "data", "bams"])
    parser.add_argument("path", nargs="?")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--default-only", action="store_true", help="leave the other tests out")
    parser.add_argument("--null", choices=["batch", "exchangeable"], default="batch")
    parser.add_argument(
        "--replicates", type=int, nargs="+", default=[1, 3, 6], choices=[1, 3, 6],
        help="of the grid, those with so many",
    )  # fmt: skip
    parser.add_argument(
        "--dispersion", type=float, nargs="+", default=[1e4, 1e3], choices=[1e4, 1e3],
        help="of the grid, those with this M",
    )  # fmt: skip
    chosen = parser.parse_args()
    if chosen.what == "simulate":
        seeds = range(chosen.first, chosen.first + chosen.seeds)
        grid = tuple((n, m) for n, m in GRID if n in chosen.replicates and m in chosen.dispersion)
        run_simulation(chosen.path, seeds, not chosen.default_only, chosen.null, grid)
        return
    text = {
        "summary": lambda: summary(chosen.path),
        "data": run_data,
        "bams": run_bams,
    }[chosen.what]()
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
