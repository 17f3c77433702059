"""RVD2: sensitivity and specificity at the allele frequencies and depths of the papers."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from scipy.stats import false_discovery_control, hypergeom

from reproduce.page import Page, mean_se, number, published, table
from vbmodels.core.fit import fit
from vbmodels.variants.calls import called, e_bh, local_fdr
from vbmodels.variants.counts import Counts, Units, totals, units
from vbmodels.variants.rvd2.model import RVD2, Errors
from vbmodels.variants.rvd2.posterior_difference import compare
from vbmodels.variants.simulate import simulate
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups

SEEDS = 6
LOCATIONS, VARIANTS, REPLICATES = 400, 14, 6
METHODS = (
    "ours two groups", "ours e-BH (strict)", "ours RVD2, tau 0", "ours RVD2, tau 5e-4",
    "rival Fisher's exact test",
)  # fmt: skip


def tested(counts: Counts) -> tuple[Units, np.ndarray, np.ndarray]:
    """Return the units, their log Bayes factors, and which the two-groups test calls at .05."""
    model, of = TwoGroups(alternatives=MIXTURE), units(counts)
    q = model.anchored(fit(model, [counts], tol=1e-5).q)
    m0, m1, _ = model.e_step(q, model.table(q, of))
    return of, m1 - m0, called(local_fdr(m1 - m0, q.pi), 0.05)


def two_groups(counts: Counts) -> list[np.ndarray]:
    """Return the locations that the two-groups test calls, and those by e-BH."""
    of, log_bf, calls = tested(counts)
    return [np.unique(of.location[chosen]) for chosen in (calls, e_bh(log_bf, 0.05))]


def papers(counts: Counts) -> list[np.ndarray]:
    """Return the locations that the papers' rule calls, for two values of tau."""
    r, n = totals(counts)
    states = []
    for member in (counts.case, ~counts.case):
        done = fit(RVD2(), [Errors(r[:, member], n[:, member])], tol=1e-6, max_iter=200)
        states.append(done.reduce.local_states(done.iterations - 1)[0])
    case, control = states
    differ = [compare(case, control, tau).probability for tau in (0.0, 5e-4)]
    return [np.flatnonzero(p > 0.95) for p in differ]


def fisher(counts: Counts) -> list[np.ndarray]:
    """Return locations by Fisher's exact test of pooled reads, one-sided, BH at .05."""
    r, n = totals(counts)
    case = counts.case
    a, b = r[:, case].sum(1), r[:, ~case].sum(1)
    depth, other = n[:, case].sum(1), n[:, ~case].sum(1)
    p = hypergeom.sf(a - 1, depth + other, a + b, depth)
    return [np.flatnonzero(false_discovery_control(np.clip(p, 0.0, 1.0)) <= 0.05)]


def rates(sites: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Return sensitivity and specificity over locations."""
    hit = int(np.isin(sites, true).sum())
    return hit / VARIANTS, 1.0 - (len(sites) - hit) / (LOCATIONS - VARIANTS)


def sensitivity(data: Path, quick: bool) -> Page:
    """Simulate the papers' cells and call them by every method."""
    seeds = range(1 if quick else SEEDS)
    (cells,) = published("rvd2-sensitivity")
    lines, lowest, seconds = [], 1.0, []
    for vaf, depth, *theirs in cells[4:5] if quick else cells:
        found = []
        for seed in seeds:
            counts, truth = simulate(
                np.random.default_rng([seed, int(depth), int(1000 * vaf)]),
                n_locations=LOCATIONS,
                n_variants=VARIANTS,
                vaf=vaf / 100.0,
                depth=int(depth),
                n_replicates=2 if quick else REPLICATES,
            )
            clock = [time.process_time()]
            sites = []
            for method in (two_groups, papers, fisher):
                sites += method(counts)
                clock.append(time.process_time())
            found.append([rates(chosen, truth.location) for chosen in sites])
            seconds.append(np.diff(clock))
        both = np.array(found)  # [seeds, methods, 2]
        mine = [" / ".join(mean_se(both[:, m, i]) for i in (0, 1)) for m in range(len(METHODS))]
        shown = [f"{number(theirs[i], 2)} / {number(theirs[i + 1], 2)}" for i in (0, 2)]
        lines.append((f"{vaf:g} %", f"{depth:.0f}", *shown, *mine))
        lowest = min(lowest, float(both[:, 0, 1].mean()))
    spent = np.mean(seconds, axis=0)
    columns = ("VAF", "depth", "published MCMC", "published VI", *METHODS)
    return Page({
        "lowest": lowest, "rates": table(columns, lines), "seeds": list(seeds),
        "two_groups": f"{spent[0]:.1f}", "rvd2": f"{spent[1]:.1f}",
    })  # fmt: skip
