"""What scoring and publishing a location cost beside a pass of the variants fit over it.

    python -m benchmarks.variant_stages [--locations 1000]

Counts of the papers' simulation, both nulls, at two depths. In one run, microseconds of CPU a
location, the least of three: a pass over ready tables, as a sweep of the fit makes it; the score of
its three alleles; the rates of the best one; and both as they would be with 40 nodes for every
allele, the wide component in every table and four quantiles. How far the coarser grids move log
Bayes factors is told beside the error of 40 nodes, both against 160.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from flows.variants.calls import Decision
from flows.variants.loci import rates_of
from vbmodels.variants.batch import Units, units
from vbmodels.variants.batch_null import BatchNull
from vbmodels.variants.posterior import COARSE, gains, log_bayes_factors, rates
from vbmodels.variants.simulate import simulate
from vbmodels.variants.two_groups import MIXTURE, TwoGroups

CHUNK = 600
FITTED = 6  # sweeps on the first 200 locations


def least(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least CPU seconds of three calls, and what the last returned."""
    best = np.inf
    for _ in range(3):
        begun = time.process_time()
        found = work()
        best = min(best, time.process_time() - begun)
    return best, found


def plain(model: TwoGroups, q: Any, of: Units, n_nodes: int) -> np.ndarray:
    """Return log Bayes factors with as many nodes for every unit."""
    scores = []
    for start in range(0, len(of), CHUNK):
        log_m0, log_m1, _ = model.reweigh(
            q, model.table(q, of.take(slice(start, start + CHUNK)), n_nodes)
        )
        scores.append(log_m1 - log_m0)
    return np.concatenate(scores)


def plain_rates(model: TwoGroups, q: Any, of: Units) -> None:
    """Make the rates with all that a table can hold, and all quantiles."""
    for start in range(0, len(of), CHUNK):
        rates(model, q, model.table(q, of.take(slice(start, start + CHUNK))))


def measured(model: TwoGroups, depth: int, locations: int) -> str:
    """Return one row of the page."""
    counts, _ = simulate(
        np.random.default_rng(0), n_locations=locations, n_variants=max(locations // 1000, 1),
        depth=depth, type_spread=0.0,
    )  # fmt: skip
    of = units(counts)
    few = of.take(slice(0, CHUNK))
    q: Any = model.init(model.observe(few), np.random.default_rng(0))
    table = model.table(q, few)
    for _ in range(FITTED):
        q = model.global_step(q, model.suff_stats(q, few, table))
    q = replace(q, looks=0) if isinstance(model, BatchNull) else q
    at = model.anchored(q)
    table = model.table(at, few)
    seconds, _ = least(lambda: model.reweigh(at, table))
    a_pass = seconds * 3 / len(few)
    score, found = least(lambda: log_bayes_factors(model, q, of))
    best = of.take(3 * np.arange(locations) + found.reshape(-1, 3).argmax(axis=1))
    none = Decision(float(q.pi), found[:1], found[:1], np.inf, 0)
    publish, _ = least(lambda: rates_of(model, q, none, best, np.zeros(len(best), bool)))
    score_before, fine = least(lambda: plain(model, at, of, 40))
    publish_before, _ = least(lambda: plain_rates(model, at, best))
    now, before = (score + publish) / locations, (score_before + publish_before) / locations
    rest = np.flatnonzero(~gains(at, of))
    exact = plain(model, at, of.take(rest), 160)
    off, off_fine = (np.abs(v[rest] - exact) for v in (found, fine))
    return (
        f"| {depth:,} | {'batch' if isinstance(model, BatchNull) else 'exchangeable'} "
        f"| {1e6 * a_pass:.0f} | {1e6 * score / locations:.0f} | {1e6 * publish / locations:.0f} "
        f"| **{now / a_pass:.2f}** | {before / a_pass:.2f} | {len(rest) / len(of):.2f} "
        f"| {off.max():.3f} ({off.mean():.4f}) | {off_fine.max():.3f} ({off_fine.mean():.4f}) |"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--locations", type=int, default=1000)
    locations = parser.parse_args().locations
    print(
        "| depth | null | pass, us | score | publish | both / pass | with 40 nodes for all "
        f"| alleles on {COARSE} nodes | error of their log Bayes factor: largest (mean) "
        "| with 40 nodes |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for depth in (1000, 4000):
        for model in (BatchNull("gain", MIXTURE), TwoGroups(alternatives=MIXTURE)):
            print(measured(model, depth, locations), flush=True)


if __name__ == "__main__":
    main()
