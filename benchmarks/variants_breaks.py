"""Variant calls where case and control differ as libraries do: what is found, and what is false.

    python -m benchmarks.variants_breaks run OUT.jsonl [--seeds 10] [--first 0] [--only NAME ...]
    python -m benchmarks.variants_breaks summary OUT.jsonl

Every scenario of `tests.vbmodels.variants.scenarios`, each method on the same counts: the
batch-aware null (the default, and with types=trinucleotide), the exchangeable null, Fisher's
exact test on pooled reads and a beta-binomial likelihood ratio, both with Benjamini and Hochberg
at .05. One JSON line a run.
"""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import expit

from benchmarks.seeded import main
from tests.vbmodels.variants.scenarios import FINDS, NULLS, SCENARIOS, simulate_scenario
from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.special import log_rising
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.variants.calls import (
    benjamini_hochberg,
    called,
    local_fdr,
    prior_from_bayes_factors,
)
from vbmodels.variants.counts import Counts, Units, units
from vbmodels.variants.two_groups.batch_errors import observed_information, standard_errors
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups

LEVEL = 0.05
BATCH = {
    "batch": BatchNull(alternatives=MIXTURE),
    "contexts": BatchNull(alternatives=MIXTURE, types="trinucleotide"),
}
METHODS = (*BATCH, "exchangeable", "fisher", "beta_binomial")


def two_groups(model: TwoGroups, counts: Counts) -> tuple[BoolArray, dict]:
    """Fit, estimate P(H1) from all units and call, as the pipeline does."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        done = fit(model, [counts], tol=1e-6)
    seconds = time.process_time() - begun
    at = model.anchored(done.q)
    log_m0, log_m1, _ = model.e_step(at, model.table(at, units(counts)))
    score = log_m1 - log_m0
    calls = called(local_fdr(score, prior_from_bayes_factors(score)), LEVEL)
    about = {"cpu": round(seconds, 2), "passes": done.iterations}
    if isinstance(model, BatchNull):
        errors = standard_errors(observed_information(model, done.q, counts))
        about |= {
            "b": np.round(done.q.shift, 3).tolist(),
            "se": np.round(errors.of_type, 3).tolist(),
            "tau": round(done.q.tau, 3),
            "v": round(done.q.v, 5),
        }
    return calls, about


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


def table_row(name: str, runs: list[dict], methods: Sequence[str]) -> str:
    """Return a scenario's row: of each method true and false calls, and runs with any false one."""
    cells = [
        f"{sum(r[m]['found'] for r in runs)}, {sum(r[m]['false'] for r in runs)} "
        f"({sum(r[m]['false'] > 0 for r in runs)})"
        for m in methods
    ]
    true = sum(r["true"] for r in runs)
    return f"| {name} | {len(runs)} | {true} | {' | '.join(cells)} |"


def one_run(name: str, seed: int) -> dict:
    """Run every method on one draw of a scenario."""
    counts, of, true, row = drawn(name, seed)
    for method in METHODS:
        if method in BATCH:
            calls, about = two_groups(BATCH[method], counts)
        elif method == "exchangeable":
            calls, about = two_groups(TwoGroups(alternatives=MIXTURE), counts)
        else:
            p = fisher(of) if method == "fisher" else beta_binomial(of)
            calls, about = benjamini_hochberg(p) <= LEVEL, {}
        row[method] = tallied(calls, true) | about
    return row


def summary(rows: list[dict]) -> list[str]:
    """Return a Markdown table: found of true and false calls, summed over seeds."""
    by = defaultdict(list)
    for row in rows:
        by[row["scenario"]].append(row)
    head = " | ".join(f"{m}: found, false (runs with any)" for m in METHODS)
    lines = [f"| scenario | runs | true | {head} |", "|" + "---|" * (3 + len(METHODS))]
    for name in (*NULLS, *FINDS):
        if runs := by.get(name):
            lines.append(table_row(name, runs, METHODS))
    cpu = {m: [r[m]["cpu"] for r in rows] for m in ("batch", "exchangeable")}
    lines.append("")
    lines.append(
        "CPU of a fit, median seconds: "
        + ", ".join(f"{m} {np.median(v):.2f}" for m, v in cpu.items())
        + f"; median ratio {np.median(np.divide(*cpu.values())):.2f}"
    )
    return lines


if __name__ == "__main__":
    main(__doc__, NULLS | FINDS, one_run, summary, seeds=10)
