"""Calibration of variants: the two-groups test and the sampler of RVD2."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, logit

from flows.variants.family import FAMILY
from flows.variants.settings import VariantSettings
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.calibration import SHARE, inside, ranked
from vbmodels.testing.case import Bounds, Calibration, Forecast, Readings
from vbmodels.variants.calls import called, local_fdr
from vbmodels.variants.counts import Counts, units
from vbmodels.variants.rvd2.gibbs import gibbs
from vbmodels.variants.rvd2.model import Errors, Global
from vbmodels.variants.two_groups.batch_errors import observed_information, standard_errors
from vbmodels.variants.two_groups.batch_null import (
    SHIFT_SD,
    TAU_CENTRE,
    TAU_RANGE,
    V_PRIOR,
    WIDE,
    BatchNull,
)
from vbmodels.variants.two_groups.model import BROAD, MIXTURE, TwoGroups
from vbmodels.variants.two_groups.posterior import rates

LOCATIONS, REPLICATES, DEPTH = 80, 3, 2000
Between = Callable[[np.random.Generator, np.ndarray], tuple[FloatArray, FloatArray]]


def no_batch(rng: np.random.Generator, kind: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Return where H1 begins and what H0 adds in logit mu: samples that are exchangeable."""
    return np.zeros(kind.size), np.zeros(kind.size)


def batch(rng: np.random.Generator, kind: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Draw b_t of every unit and the difference d under H0, from the priors of `batch_null`."""
    mean = rng.normal(0.0, 1.0)
    by_type = rng.normal(mean, SHIFT_SD, 12)
    tau = np.clip(np.exp(rng.normal(np.log(TAU_CENTRE), 1.0)), *TAU_RANGE)
    v = rng.beta(V_PRIOR[0] + 1.0, V_PRIOR[1] + 1.0)
    sd = np.where(rng.random(kind.size) < v, WIDE, tau)
    shift = by_type[kind]
    return shift, shift + sd * rng.standard_normal(kind.size)


def allele_rates(
    rng: np.random.Generator, kind: np.ndarray, between: Between
) -> tuple[FloatArray, ...]:
    """Draw mu of control and case, H1 and b of every unit, from the model of `two_groups`."""
    rate = 5e-4 * np.exp(0.7 * rng.standard_normal(12))
    shape = 2.0 * np.exp(0.3 * rng.standard_normal(12))
    pi, w = np.exp(rng.uniform(np.log(0.01), np.log(0.1))), 0.003
    broad = rng.random(kind.size) < w
    control = rng.beta(shape[kind], shape[kind] * (1.0 - rate[kind]) / rate[kind])
    control = np.where(broad, rng.beta(*BROAD, kind.size), control)
    weights = rng.dirichlet(np.ones(len(MIXTURE)))
    a, b = np.array(MIXTURE)[rng.choice(len(MIXTURE), kind.size, p=weights)].T
    shift, added = between(rng, kind)
    begins, same = expit(logit(control) + shift), expit(logit(control) + added)
    # Cut to where H1 begins: through the upper tail, which keeps its digits.
    g = stats.beta(a, b)
    changed = rng.random(kind.size) < pi
    above = g.isf(rng.random(kind.size) * g.sf(begins))
    return control, np.where(changed, np.maximum(above, begins), same), changed, shift


def two_groups_data(
    rng: np.random.Generator, between: Between
) -> tuple[Counts, np.ndarray, FloatArray, FloatArray]:
    """Counts, and H1, mu_case and b of every unit, three a location."""
    ref = rng.integers(0, 4, LOCATIONS).astype(np.int8)
    rank = np.arange(3)
    alts = rank + (rank >= ref[:, None])
    kind = (3 * ref[:, None] + rank).ravel()
    while True:
        control, case, changed, shift = allele_rates(rng, kind, between)
        # Alleles are independent in the model; their shares must still fit into one.
        if case.reshape(-1, 3).sum(1).max() < 0.9 and control.reshape(-1, 3).sum(1).max() < 0.9:
            break
    m = np.exp(rng.normal(np.log(3000.0), 0.7, kind.size))
    counts = np.zeros((LOCATIONS, 2 * REPLICATES, 4), np.int32)
    rows = np.arange(LOCATIONS)
    for i in range(2 * REPLICATES):
        mu = case if i < REPLICATES else control
        theta = rng.beta(np.maximum(m * mu, 1e-12), np.maximum(m * (1.0 - mu), 1e-12))
        depth = rng.poisson(DEPTH, LOCATIONS)
        reads = np.minimum(rng.binomial(np.repeat(depth, 3), theta).reshape(-1, 3), depth[:, None])
        counts[rows[:, None], i, alts] = reads
        counts[rows, i, ref] = np.maximum(depth - reads.sum(1), 0)
    of_case = np.arange(2 * REPLICATES) < REPLICATES
    return Counts(counts, ref, of_case), changed, case, shift


def tested(rng: np.random.Generator, model: Any, between: Between) -> Readings:
    """Local fdr of every allele, calls at the default level, intervals of their rates and of b."""
    counts, changed, mu, shift = two_groups_data(rng, between)
    settings = VariantSettings()
    q = fit(model, [counts], tol=settings.tol, max_iter=settings.max_iter).q
    at = model.anchored(q)
    table = model.table(at, units(counts))
    log_m0, log_m1, _ = model.e_step(at, table)
    lfdr = local_fdr(log_m1 - log_m0, q.pi)
    calls = called(lfdr, settings.fdr)
    interval = rates(model, at, table)[0].quantiles[:, [0, 3]]
    found = {
        "alleles": Forecast(1.0 - lfdr, changed),
        "calls": Forecast(1.0 - lfdr[calls], changed[calls]),
        "rate of a call": inside(interval[calls, 0], interval[calls, 1], mu[calls]),
    }
    if isinstance(model, BatchNull):
        error = standard_errors(observed_information(model, q, counts)).of_type
        kind, first = np.unique(units(counts).kind, return_index=True)
        low, high = (q.shift[kind] + z * error[kind] for z in (-1.96, 1.96))
        found["batch factor"] = inside(low, high, shift[first])
    return found


def two_groups(rng: np.random.Generator) -> Readings:
    """Samples that are exchangeable, by the null that says so."""
    return tested(rng, TwoGroups(alternatives=MIXTURE), no_batch)


def batch_null(rng: np.random.Generator) -> Readings:
    """Samples that differ as batches do, by the default null."""
    return tested(rng, FAMILY.model(VariantSettings()), batch)


def errors(
    rng: np.random.Generator, mu: FloatArray, m: FloatArray, depth: int, replicates: int
) -> Errors:
    n = rng.poisson(depth, (mu.size, replicates))
    theta = rng.beta((m * mu)[:, None], (m * (1.0 - mu))[:, None], n.shape)
    return Errors(rng.binomial(n, theta), n)


def rvd2_ranks(rng: np.random.Generator) -> Readings:
    """Ranks of logit mu and log M at given hyperparameters, at 40 independent locations."""
    q = Global(a0=2.0, b0=200.0, log_m=7.0)
    mu = rng.beta(q.a0, q.b0, 40)
    log_m = rng.normal(q.log_m, 0.5, 40)
    data = errors(rng, mu, np.exp(log_m), 500, REPLICATES)
    found = gibbs(data, q, rng, chains=1, warmup=60, draws=49, thin=4)
    draws = np.stack([expit(found.logit_mu[0]), found.log_m[0]], axis=2)
    return {"mu and log M": ranked(np.stack([mu, log_m], axis=1), draws, rng)}


TWO_GROUPS = (
    Calibration(
        form="variants, two_groups",
        run=two_groups,
        bounds={
            # 240 alleles say little of pi and of the mixture's weights, which are points.
            "alleles": Bounds(
                large=(-0.003, 0.003),
                slope=(0.77, 0.92),
                bins=0.25,
                measured="175 runs: -.0003 +- .0008, slope .84 +- .03, bins to -.27 +- .10",
            ),
            "calls": Bounds(
                large=(-0.03, 0.0), **SHARE, measured="175 runs: -.017 +- .005, of .014 expected"
            ),
            "rate of a call": Bounds(
                large=(-0.01, 0.02), **SHARE, measured="175 runs: .956 covered, +- .007"
            ),
        },
        few=5,
    ),
)
BATCH_NULL = (
    Calibration(
        form="variants, two_groups with the null of batches",
        run=batch_null,
        bounds={
            # Of 240 alleles some batches of the widest priors pass for variants unseen.
            "alleles": Bounds(
                large=(-0.002, 0.003),
                slope=(0.66, 0.82),
                bins=0.4,
                measured="400 runs: .0006 +- .0005, slope .74 +- .03, bins to -.35 +- .06",
            ),
            "calls": Bounds(
                large=(-0.06, 0.0), **SHARE, measured="400 runs: -.041 +- .008, of 5.6 calls a run"
            ),
            "rate of a call": Bounds(
                large=(-0.015, 0.015), **SHARE, measured="400 runs: .950 covered, +- .005"
            ),
            "batch factor": Bounds(
                large=(-0.04, 0.01), **SHARE, measured="120 runs: .929 covered, +- .007"
            ),
        },
        few=5,
    ),
)
RVD2_SAMPLED = (Calibration(form="variants, posterior_difference gibbs", run=rvd2_ranks, few=2),)
