"""Few variants among many locations: by which locations the hyperparameters are fitted on.

    python -m benchmarks.variants_sparse run OUT.jsonl [--seeds 4] [--first 0] [--only NAME ...]
    python -m benchmarks.variants_sparse summary OUT.jsonl

20,000 locations with 20 variants or none, in settings of `vbmodels.variants.scenarios`, each fitted
on 2,000 of them: "random" takes any with the same probability, "differing" those whose samples
differ sooner (`vbmodels.variants.sampling`, the default). Called are alleles by q-values at .05
with the fitted P(H1); locations that differ by less than 1.4 standard errors are not scored. One
JSON line a run.
"""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from dataclasses import replace

import numpy as np

from benchmarks.seeded import main
from benchmarks.variants_breaks import LEVEL, fisher, tallied
from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.state import FloatArray
from vbmodels.variants.batch import Counts, units
from vbmodels.variants.batch_null import BatchNull
from vbmodels.variants.calls import benjamini_hochberg, called, local_fdr
from vbmodels.variants.sampling import differing, numbers, probabilities
from vbmodels.variants.scenarios import NULLS, Scenario, simulate_scenario
from vbmodels.variants.two_groups import MIXTURE

LOCATIONS = 20_000
WANTED = 2_000
SCORED = 10  # level from which on locations are scored
SPARSE = {
    "1 % at 1,000": Scenario("1 % at 1,000 reads", 0.01, 20, 1000),
    ".3 % at 4,000": Scenario(".3 % at 4,000 reads", 0.003, 20, 4000),
    "1 % at 4,000, oxidation": Scenario("", 0.01, 20, 4000, oxidation=5.0),
    "1 % at 1,000, errors twice": Scenario("", 0.01, 20, 1000, errors=2.0),
    "1 % at 1,000, N = 1": Scenario("", 0.01, 20, 1000, 1),
    **NULLS,
}
DESIGNS = ("random", "differing")


def weights(counts: Counts, design: str, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Return what each location counts for, and the least probability."""
    drawn = rng.random(len(counts))
    if design == "random":
        return (drawn < WANTED / len(counts)).astype(float), 1.0
    level = differing(counts)
    own = probabilities(numbers(level), WANTED)
    least = float(own.min())
    return np.where(drawn < own[level], least / own[level], 0.0), least


def one_run(name: str, seed: int) -> dict:
    """Fit by both designs on one draw of a scenario, and call."""
    rng = np.random.default_rng([seed, 20])
    counts, truth = simulate_scenario(rng, SPARSE[name], LOCATIONS)
    of = units(counts)
    true = np.isin(4 * of.location + of.alt, 4 * truth.location + truth.alt)
    row: dict = {"scenario": name, "seed": seed, "true": int(true.sum())}
    row["fisher"] = tallied(benjamini_hochberg(fisher(of)) <= LEVEL, true)
    some = np.flatnonzero(differing(counts)[of.location] >= SCORED)
    model = BatchNull(alternatives=MIXTURE)
    for design in DESIGNS:
        weight, share = weights(counts, design, np.random.default_rng(seed))
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            done = fit(model, [replace(counts, weight=weight, share=share)], tol=1e-6)
        seconds = time.process_time() - begun
        at = model.anchored(done.q)
        log_m0, log_m1, _ = model.reweigh(at, model.table(at, of.take(some)))
        lfdr = np.ones(len(of))
        lfdr[some] = local_fdr(log_m1 - log_m0, done.q.pi)
        row[design] = tallied(called(lfdr, LEVEL), true) | {
            "cpu": round(seconds, 1), "passes": done.iterations, "pi": done.q.pi,
            "v": round(done.q.v, 6), "tau": round(done.q.tau, 3),
            "b_0": round(done.q.shift_mean, 3),
            "locations": int(np.count_nonzero(weight)),
        }  # fmt: skip
    return row


def summary(rows: list[dict]) -> list[str]:
    """Return a Markdown table, summed over seeds."""
    by = defaultdict(list)
    for row in rows:
        by[row["scenario"]].append(row)
    methods = (*DESIGNS, "fisher")
    head = " | ".join(f"{m}: found, false" for m in methods)
    lines = [f"| scenario | runs | true | {head} | v by design |", "|---|---|---|---|---|---|---|"]
    for name in SPARSE:
        if runs := by.get(name):
            cells = [
                f"{sum(r[m]['found'] for r in runs)}, {sum(r[m]['false'] for r in runs)}"
                for m in methods
            ]
            v = ", ".join(f"{np.mean([r[d]['v'] for r in runs]):.5f}" for d in DESIGNS)
            true = sum(r["true"] for r in runs)
            lines.append(f"| {name} | {len(runs)} | {true} | {' | '.join(cells)} | {v} |")
    return lines


if __name__ == "__main__":
    main(__doc__, SPARSE, one_run, summary, seeds=4)
