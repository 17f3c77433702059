"""Variant calls on simulated counts: what is found, and what is false.

    python -m benchmarks.variants shifts OUT.jsonl [--seeds 10] [--first 0] [--only NAME ...]
    python -m benchmarks.variants panel OUT.jsonl [--seeds 5]
    python -m benchmarks.variants cases OUT.jsonl [--seeds 20]

shifts  Case and control differ as libraries do: every scenario without a panel of
        `tests.vbmodels.variants.scenarios`, by the batch-aware null (the default, and with
        types=trinucleotide), the exchangeable null, Fisher's exact test on pooled reads and a
        beta-binomial likelihood ratio, both with Benjamini and Hochberg at .05.
panel   A panel of controls: the panel; its samples pooled as if they were replicates of one
        control; the first of them alone; Fisher's exact test on pooled reads and, as a rule that
        labs use, the case's share beyond that of every sample of the panel with Fisher's test
        against the highest.
cases   Several cases of one replicate each without a control, 150 positions at 4000x; every sample
        has errors of its own by site and substitution. Each case in turn is tested with the others
        as its panel ("others"), and without any ("alone"). Some scenarios carry 12 variants, each
        in as many of the cases as its number says; calls are counted by how many cases carry the
        allele, 0 for false ones.

Each method sees the same counts. OUT.jsonl gets a line a run; then all of its runs are summed up,
which is all that `--seeds 0` does.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

from benchmarks.harness import head, row
from tests.vbmodels.variants.scenarios import (
    FINDS,
    NULLS,
    PANELS,
    SCENARIOS,
    Scenario,
    simulate_scenario,
)
from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.special import log_rising
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.calls import (
    called,
    local_fdr,
    prior_from_bayes_factors,
)
from vbmodels.variants.counts import Counts, Units, units
from vbmodels.variants.panel.model import PanelNull
from vbmodels.variants.two_groups.batch_errors import observed_information, standard_errors
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups

LEVEL = 0.05
BATCH = {
    "batch": BatchNull(alternatives=MIXTURE),
    "contexts": BatchNull(alternatives=MIXTURE, types="trinucleotide"),
}


@dataclass(frozen=True)
class Fitted:
    """A fit, the false discovery rates of its units with P(H1) from all of them, and its CPU."""

    done: Any
    lfdr: FloatArray
    seconds: float


def fitted(model: TwoGroups, counts: Counts) -> Fitted:
    """Fit and estimate P(H1) from all units, as the pipeline does."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        done = fit(model, [counts], tol=1e-6)
    seconds = time.process_time() - begun
    at = model.anchored(done.q)
    log_m0, log_m1, _ = model.e_step(at, model.table(at, units(counts)))
    score = log_m1 - log_m0
    return Fitted(done, local_fdr(score, prior_from_bayes_factors(score)), seconds)


def two_groups(model: TwoGroups, counts: Counts) -> tuple[BoolArray, dict]:
    """Fit and call; return the calls, and what a run's line says of the fit."""
    found = fitted(model, counts)
    q = found.done.q
    about = {"cpu": round(found.seconds, 2), "passes": found.done.iterations}
    if isinstance(model, BatchNull):
        errors = standard_errors(observed_information(model, q, counts))
        about |= {
            "b": np.round(q.shift, 3).tolist(),
            "se": np.round(errors.of_type, 3).tolist(),
            "tau": round(q.tau, 3),
            "v": round(q.v, 5),
        }
    return called(found.lfdr, LEVEL), about


def fisher(of: Units) -> FloatArray:
    """Return one-sided p-values of pooled reads: the hypergeometric tail."""
    a, n = (v[:, of.case].sum(axis=1) for v in (of.alt_reads, of.depth))
    b, m = (v[:, ~of.case].sum(axis=1) for v in (of.alt_reads, of.depth))
    return np.asarray(stats.hypergeom.sf(a - 1, n + m, a + b, n))


def beta_binomial(of: Units) -> FloatArray:
    """Return p-values of the likelihood ratio with one M, the best for all units' nulls."""
    x = np.linspace(-16.0, 2.0, 181)
    best = -np.inf
    found = np.ones(len(of))
    for m in np.geomspace(100.0, 1e6, 13):
        a, b = m * expit(x), m * expit(-x)
        r, n = of.alt_reads[:, :, None], of.depth[:, :, None]
        rows = log_rising(a, r) + log_rising(b, n - r) - log_rising(np.full_like(x, m), n)
        case, control = rows[:, of.case].sum(axis=1), rows[:, ~of.case].sum(axis=1)
        null = (case + control).max(axis=1)
        if null.sum() > best:
            best = null.sum()
            ratio = 2.0 * (case.max(axis=1) + control.max(axis=1) - null)
            gained = case.argmax(axis=1) > control.argmax(axis=1)
            found = np.where(gained, 0.5 * stats.chi2.sf(np.maximum(ratio, 0.0), 1), 1.0)
    return found


def at_level(p: FloatArray) -> tuple[BoolArray, dict]:
    """Return what Benjamini and Hochberg call."""
    return stats.false_discovery_control(p) <= LEVEL, {}


def drawn(name: str, seed: int) -> tuple[Counts, Units, BoolArray, dict]:
    """Draw a scenario: its counts, their units, which are variants, and the begun row of a run."""
    counts, truth = simulate_scenario(np.random.default_rng(seed), SCENARIOS[name])
    of = units(counts)
    true = np.zeros(len(of), bool)
    for j, alt in zip(truth.location, truth.alt, strict=True):
        true |= (of.location == j) & (of.alt == alt)
    return counts, of, true, {"scenario": name, "seed": seed, "true": int(true.sum())}


def tallied(calls: BoolArray, true: BoolArray) -> dict:
    """Count a method's true and false calls."""
    return {"found": int((calls & true).sum()), "false": int((calls & ~true).sum())}


def table(names: Iterable[str], runs: list[dict], methods: Sequence[str]) -> list[str]:
    """Return, of each scenario and method, true and false calls, and runs with any false one."""
    columns = [f"{method}: found, false (runs with any)" for method in methods]
    lines = [head(["scenario", "runs", "true", *columns])]
    flat = pd.json_normalize(runs)
    for name in names:
        own = flat[flat["scenario"] == name]
        if own.empty:
            continue
        cells = []
        for method in methods:
            found, false = own[f"{method}.found"], own[f"{method}.false"]
            cells.append(f"{found.sum()}, {false.sum()} ({(false > 0).sum()})")
        lines.append(row([name, len(own), own["true"].sum(), *cells]))
    return lines


def cpu_ratio(runs: list[dict], first: str, second: str) -> str:
    """Return the median of a fit's CPU by one method, by another, and of their ratio."""
    cpu = pd.DataFrame({m: [run[m]["cpu"] for run in runs] for m in (first, second)})
    seconds = ", ".join(f"{m} {median:.2f}" for m, median in cpu.median().items())
    ratio = (cpu[first] / cpu[second]).median()
    return f"CPU of a fit, median seconds: {seconds}; median ratio {ratio:.2f}"


# Case and control differ as libraries do.

SHIFT_METHODS = (*BATCH, "exchangeable", "fisher", "beta_binomial")


def run_shifts(name: str, seed: int) -> dict:
    """Run every method on one draw of a scenario."""
    counts, of, true, begun = drawn(name, seed)
    found = {method: two_groups(model, counts) for method, model in BATCH.items()}
    found["exchangeable"] = two_groups(TwoGroups(alternatives=MIXTURE), counts)
    found |= {"fisher": at_level(fisher(of)), "beta_binomial": at_level(beta_binomial(of))}
    return begun | {m: tallied(calls, true) | about for m, (calls, about) in found.items()}


def sum_up_shifts(rows: list[dict]) -> list[str]:
    """Return the table and the CPU."""
    lines = table((*NULLS, *FINDS), rows, SHIFT_METHODS)
    return [*lines, "", cpu_ratio(rows, "batch", "exchangeable")]


# A panel of controls.

PANEL_METHODS = ("panel", "pooled", "one_control", "fisher", "fisher_highest")


def of_samples(counts: Counts, kept: BoolArray) -> Counts:
    """Return the counts of some replicates, those of the control as one sample's."""
    return Counts(counts.counts[:, kept], counts.ref, counts.case[kept])


def against_highest(of: Units) -> FloatArray:
    """Return the largest of Fisher's p-values against each sample of the panel."""
    p = []
    for m in range(of.members.max() + 1):
        own = of.case | (of.members == m)
        reads, depth = of.alt_reads[:, own], of.depth[:, own]
        p.append(fisher(Units(reads, depth, of.kind, of.location, of.alt, of.case[own])))
    return np.asarray(np.max(p, axis=0))


def run_panel(name: str, seed: int) -> dict:
    """Run every method on one draw of a scenario."""
    counts, of, true, begun = drawn(name, seed)
    every = np.ones(len(counts.case), bool)
    first = counts.case | (of.members == 0)
    null = BatchNull(alternatives=MIXTURE)
    found = {
        "panel": two_groups(PanelNull(alternatives=MIXTURE), counts),
        "pooled": two_groups(null, of_samples(counts, every)),
        "one_control": two_groups(null, of_samples(counts, first)),
        "fisher": at_level(fisher(of)),
        "fisher_highest": at_level(against_highest(of)),
    }
    return begun | {m: tallied(calls, true) | about for m, (calls, about) in found.items()}


def sum_up_panel(rows: list[dict]) -> list[str]:
    """Return the table, the spread tau by seed, and the CPU."""
    taus = [head(["scenario", *PANEL_METHODS[:3]])]
    for name in PANELS:
        runs = sorted((r for r in rows if r["scenario"] == name), key=lambda r: r["seed"])
        by = [", ".join(f"{r[m]['tau']:.2f}" for r in runs) for m in PANEL_METHODS[:3]]
        if runs:
            taus.append(row([name, *by]))
    lines = table(PANELS, rows, PANEL_METHODS)
    return [*lines, "", *taus, "", cpu_ratio(rows, "panel", "pooled")]


# Several cases without a control.

CASE_METHODS = ("others", "alone")
N_VARIANTS, POSITIONS = 12, 150


@dataclass(frozen=True)
class Cases:
    """How many cases there are, and how many cases carry each variant, in turn."""

    count: int
    carriers: tuple[int, ...] = ()
    share: float = 0.01


CASES = {
    "null_2": Cases(2),
    "shared_2": Cases(2, (1, 2)),
    "null_3": Cases(3),
    "shared_3": Cases(3, (1, 2, 3)),
}


def simulate(name: str, seed: int) -> tuple[Counts, IntArray]:
    """Draw counts, a replicate of every case, and which cases carry what, [U, cases]."""
    rng, cases = np.random.default_rng(seed), CASES[name]
    scenario = Scenario("", members=cases.count - 1, replicates=1, site_sd=0.3, type_sd=0.3)
    counts, _ = simulate_scenario(rng, scenario, POSITIONS)
    of, reads = units(counts), counts.counts.copy()
    carried = np.zeros((len(of), cases.count), np.int64)
    places = rng.choice(len(of), N_VARIANTS if cases.carriers else 0, replace=False)
    for number, u in enumerate(places):
        j, alt, ref = of.location[u], of.alt[u], counts.ref[of.location[u]]
        for sample in rng.choice(cases.count, cases.carriers[number % len(cases.carriers)], False):
            moved = rng.binomial(reads[j, sample, ref], cases.share)
            reads[j, sample, [ref, alt]] += np.array([-moved, moved], reads.dtype)
            carried[u, sample] = 1
    return replace(counts, counts=reads), carried


def of_one(counts: Counts, sample: int, alone: bool) -> Counts:
    """Return counts with one of the samples as the case, and the others as its panel, if any."""
    case = np.arange(len(counts.case)) == sample
    if alone:
        return Counts(counts.counts[:, case], counts.ref, case[case])
    member = np.cumsum(~case) - 1
    return replace(counts, case=case, member=np.where(case, -1, member) if len(case) > 2 else None)


def run_cases(name: str, seed: int) -> dict:
    """Test every case of one draw of a scenario, by both methods."""
    counts, carried = simulate(name, seed)
    carriers = carried.sum(axis=1)
    true = Counter(carriers[carriers > 0].tolist())
    run: dict = {"scenario": name, "seed": seed, "true": dict(true)}
    for method in CASE_METHODS:
        alone = method == "alone"
        model = TwoGroups("germline", MIXTURE) if alone else PanelNull(alternatives=MIXTURE)
        found: Counter[int] = Counter()
        cpu = 0.0
        for sample in range(len(counts.case)):
            calls, about = two_groups(model, of_one(counts, sample, alone))
            found.update((carriers * carried[:, sample])[calls].tolist())
            cpu += about["cpu"]
        run[method] = {"found": dict(found), "cpu": round(cpu, 1)}
    return run


def sum_up_cases(rows: list[dict]) -> list[str]:
    """Return a table: false calls and runs with any; found of true, by how many cases carry it."""
    lines = [head(["scenario", "runs", "method", "false calls (runs with any)",
                   "found of true, by carriers"])]  # fmt: skip
    for name, cases in CASES.items():
        runs = [run for run in rows if run["scenario"] == name]
        for method in CASE_METHODS if runs else ():
            found, true = Counter[str](), Counter[str]()
            for run in runs:
                found.update(run[method]["found"])
                true.update(run["true"])
            wrong = sum(run[method]["found"].get("0", 0) > 0 for run in runs)
            shares = [f"{k}: {found[str(k)]} of {k * true[str(k)]}" for k in cases.carriers]
            lines.append(
                row([name, len(runs), method, f"{found['0']} ({wrong})", ", ".join(shares)])
            )
    return lines


@dataclass(frozen=True)
class Study:
    """Scenarios, what a run of one is, how runs are summed up, and how many seeds are usual."""

    scenarios: Iterable[str]
    run: Callable[[str, int], dict]
    sum_up: Callable[[list[dict]], list[str]]
    seeds: int


STUDIES = {
    "shifts": Study([*NULLS, *FINDS], run_shifts, sum_up_shifts, 10),
    "panel": Study([*PANELS], run_panel, sum_up_panel, 5),
    "cases": Study([*CASES], run_cases, sum_up_cases, 20),
}


def main() -> None:
    """Run scenarios, and sum up all that was run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of scenarios")
    given = parser.parse_args()
    study = STUDIES[given.study]
    seeds = study.seeds if given.seeds is None else given.seeds
    with given.out.open("a") as file:
        for seed in range(given.first, given.first + seeds):
            for name in given.only or study.scenarios:
                file.write(json.dumps(study.run(name, seed)) + "\n")
                file.flush()
    runs = [json.loads(line) for line in given.out.read_text().splitlines()]
    print("\n".join(study.sum_up(runs)))


if __name__ == "__main__":
    main()
