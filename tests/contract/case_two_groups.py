"""The row of the two-groups test; the truth is summed on a uniform grid with scipy.stats."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import integrate, stats
from scipy.special import expit, logsumexp

from tests.contract import calibration_variants, ends
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.case import (
    EVERY,
    Agreement,
    Best,
    Case,
    Coordinates,
    Evidence,
    Extremes,
    GlobalStep,
    Recovery,
)
from vbmodels.variants.calls import local_fdr, q_values
from vbmodels.variants.counts import Counts, Units, units
from vbmodels.variants.simulate import simulate
from vbmodels.variants.two_groups.model import TwoGroups
from vbmodels.variants.two_groups.table import tabulate

MODEL = TwoGroups()


def cut(counts: Counts, parts: int) -> list[Counts]:
    return [counts.take(index) for index in np.array_split(np.arange(len(counts)), parts)]


def batches(seed: int, parts: int) -> list[Counts]:
    counts, _ = simulate(
        np.random.default_rng(seed),
        n_locations=32,
        n_variants=3,
        vaf=0.02,
        depth=1000,
        n_replicates=2,
        error_rate=1e-3,
    )
    return cut(counts, parts)


def tiny(seed: int) -> list[Counts]:
    counts, _ = simulate(
        np.random.default_rng(seed),
        n_locations=4,
        n_variants=1,
        vaf=0.02,
        depth=300,
        n_replicates=2,
        error_rate=3e-3,
    )
    return cut(counts, 2)


def brute_force(
    r: FloatArray, n: FloatArray, case: FloatArray, kind: int, q
) -> tuple[float, float]:
    """Return log m0 and log m1 of one unit by Simpson's rule on 20,001 points of logit mu."""
    m_nodes = np.exp(np.log(30.0) + np.arange(10) / 9.0 * np.log(1e6 / 30.0))
    log_p = stats.norm.logpdf(np.log(m_nodes), q.log_m_mean, q.log_m_sd)
    log_p -= logsumexp(log_p)
    x = np.linspace(-170.0, 30.0, 20_001)
    mu, jacobian = expit(x), expit(x) * expit(-x)
    broad = stats.beta(0.1, 0.1).pdf(mu) * jacobian
    e = (1.0 - q.w) * stats.beta(q.a[kind], q.b[kind]).pdf(mu) * jacobian + q.w * broad
    m0, m1 = [], []
    for m in m_nodes:
        likelihood = [
            stats.betabinom.logpmf(k, d, m * mu, m * expit(-x)) for k, d in zip(r, n, strict=True)
        ]
        of_case = sum(v for v, c in zip(likelihood, case, strict=True) if c)
        of_control = sum(v for v, c in zip(likelihood, case, strict=True) if not c)
        both, top_case = of_case + of_control, of_case.max()
        top, top_control = both.max(), of_control.max()
        m0.append(np.log(integrate.simpson(np.exp(both - top) * e, x=x)) + top)
        g = np.exp(of_case - top_case) * broad
        tail = integrate.cumulative_simpson(g[::-1], dx=x[1] - x[0], initial=0.0)[::-1]
        inside = np.exp(of_control - top_control) * e * tail / stats.beta(0.1, 0.1).sf(mu)
        m1.append(np.log(integrate.simpson(inside, x=x)) + top_case + top_control)
    return float(logsumexp(log_p + m0)), float(logsumexp(log_p + m1))


Marginals = Callable[[Any, Units, int], tuple[float, float]]
"""Returns log m0 and log m1 of a unit at hyperparameters."""


def marginal_likelihood(
    model: Any, parts: Sequence[Counts], marginals: Marginals, max_iter: int = 3000
) -> tuple[float, Any]:
    """Return the log marginal likelihood where a fit ends, each unit by its weight, and its q."""
    q = fit(model, parts, tol=1e-10, max_iter=max_iter).q
    total = 0.0
    for of in map(units, parts):
        weight = np.ones(len(of)) if of.weight is None else of.weight
        for u in np.flatnonzero(weight):
            m0, m1 = marginals(q, of, u)
            total += weight[u] * np.logaddexp(np.log1p(-q.pi) + m0, np.log(q.pi) + m1)
    return float(total), q


def log_prior_of_errors(q: Any, share: float = 1.0) -> float:
    """What the objective adds for shares, error rates and dispersions; the rare by a share."""
    penalty = share * 0.5 * np.log([q.pi, 1.0 - q.pi, q.w, 1.0 - q.w]).sum()
    penalty -= 0.5 * (np.log(q.a / 2.0) ** 2).sum()
    penalty -= 0.5 * (np.log(q.a / q.b / 5e-4) ** 2).sum() / 9.0
    spread = ((q.log_m_mean - np.log(2000.0)) / q.log_m_sd) ** 2
    return float(penalty - spread - 5.0 * np.log(q.log_m_sd**2) - 5.0 / q.log_m_sd**2)


def log_evidence(parts: Sequence[Counts]) -> float:
    """The penalised log marginal likelihood at the hyperparameters that the fit ends at."""

    def marginals(q: Any, of: Units, u: int) -> tuple[float, float]:
        return brute_force(of.alt_reads[u], of.depth[u], of.case, of.kind[u], q)

    total, q = marginal_likelihood(MODEL, parts, marginals, max_iter=5000)
    return total + log_prior_of_errors(q)


def recovery_error(seed: int) -> float:
    """Missed and false variants at 1 % and 4000 reads, as a share of the 14."""
    counts, truth = simulate(np.random.default_rng(seed), n_locations=400, vaf=0.01, depth=4000)
    done = fit(MODEL, [counts], tol=1e-6)
    m0, m1, _ = MODEL.e_step(done.q, done.reduce.local_states(done.iterations - 1)[0])
    of = units(counts)
    called = q_values(local_fdr(m1 - m0, done.q.pi)) <= 0.05
    found = set(zip(of.location[called].tolist(), of.alt[called].tolist(), strict=True))
    true = set(zip(truth.location.tolist(), truth.alt.tolist(), strict=True))
    return len(found ^ true) / len(true)


def log_bayes_factors(model: TwoGroups, q: Any, batch: Counts, table: Any) -> FloatArray:
    log_m0, log_m1, _ = model.e_step(q, table)
    return log_m1 - log_m0


CASE = Case(
    name="two_groups",
    calibration=calibration_variants.TWO_GROUPS,
    best=Best(max_iter=40),
    model=lambda: MODEL,
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=ends.tables_of_counts,
        empty=ends.no_counts,
        plain="tests/vbmodels/variants has its marginals against a uniform grid",
    ),
    agreement=Agreement(
        published=log_bayes_factors,
        scored=lambda model, q, batch: log_bayes_factors(
            model, q, batch, tabulate(units(batch), model.anchored(q).anchor)
        ),
        largest=1e-2,
        because="a score's tables are made at the fitted error rates, those of a sweep at the "
        "first guess of them: the same integrals by two grids; the former alone are published",
        tol=1e-8,
    ),
    global_step=GlobalStep(
        coordinates=Coordinates(
            to_vector=MODEL.to_vector, from_vector=MODEL.from_vector, step=3e-3
        ),
        at="fixed_point",
        fit_tol=1e-12,
        tolerance=1e-3,
        max_iter=5000,
    ),
    local_step="the local state is a table of likelihoods: it depends on the data alone",
    monte_carlo="the objective is the log marginal likelihood itself; item 6 (evidence) checks it",
    evidence=Evidence(log_evidence=log_evidence, largest_gap=1e-2, strict=False, seeds=(0,)),
    # SQUAREM divides two small differences: rounding grows more than under plain ascent.
    partition_rtol=1e-8,
    slow=frozenset({"recovery", "stationary"}),
    thorough=EVERY,
    sampler="the posterior of mu is itself quadrature; tests/vbmodels compares it with a grid",
    recovery=Recovery(error=recovery_error, tolerance=0.08, seeds=(0, 1, 2)),
)
