"""The row of the batch-aware test; the truth is summed on a uniform grid, one integral a place."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import integrate, stats
from scipy.special import betaln, expit, logsumexp

from tests.contract import calibration_variants, case_two_groups, ends
from tests.contract.case_two_groups import (
    cut,
    log_bayes_factors,
    log_prior_of_errors,
    marginal_likelihood,
)
from tests.vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.core.fit import fit
from vbmodels.testing.case import (
    EVERY,
    Coordinates,
    Evidence,
    Extremes,
    GlobalStep,
    Recovery,
)
from vbmodels.variants.calls import called, local_fdr
from vbmodels.variants.counts import Counts, Units, units
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE, of_fit

MODEL = BatchNull()
PLAIN = (
    "tests/vbmodels/variants has its marginals against a uniform grid, its sums against differences"
)
SHIFTED = replace(SCENARIOS["af.01_oxo5"], depth=1000, replicates=2)


def batches(seed: int, parts: int) -> list[Counts]:
    scenario = replace(SHIFTED, n_variants=3)
    return cut(simulate_scenario(np.random.default_rng(seed), scenario, 32)[0], parts)


def tiny(seed: int) -> list[Counts]:
    scenario = replace(SHIFTED, n_variants=1, depth=4000)
    return cut(simulate_scenario(np.random.default_rng(seed), scenario, 4)[0], 2)


def sampled(parts: list[Counts]) -> list[Counts]:
    """Weigh locations as in a sample of more: some by 1 or a quarter, every fourth by nothing."""
    weights = np.resize([1.0, 0.25, 0.0, 1.0], sum(map(len, parts)))
    of_parts = np.split(weights, np.cumsum([len(part) for part in parts])[:-1])
    return [replace(p, weight=w, share=0.125) for p, w in zip(parts, of_parts, strict=True)]


def brute_force(
    r: Any, n: Any, case: Any, kind: int, q: Any, powers: tuple[int, int] = (0, 0),
    shift: float | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Return log m0 and log m1 of one unit: the trapezoid rule at each place of the control.

    With ``powers``, of mu_case^i mu_control^j times the integrand; with ``shift``, at another
    than that of its substitution.
    """
    b = q.shift[kind] if shift is None else shift
    x = np.linspace(-40.0, 10.0, 2001)
    step = x[1] - x[0]
    mu, jacobian = expit(x), expit(x) * expit(-x)
    broad = stats.beta(0.1, 0.1).pdf(mu) * jacobian
    log_spike = q.a[kind] * np.log(mu) + q.b[kind] * np.log1p(-mu) - betaln(q.a[kind], q.b[kind])
    e = (1.0 - q.w) * np.exp(log_spike) + q.w * broad
    d = x[None, :] - x[:, None] - b
    null = (1.0 - q.v) * stats.norm.pdf(d, 0.0, q.tau) + q.v * stats.norm.pdf(d, 0.0, 1.2)
    nodes = np.geomspace(30.0, 1e6, 10)
    log_p = stats.norm.logpdf(np.log(nodes), q.log_m_mean, q.log_m_sd)
    log_p -= logsumexp(log_p)
    m0, m1 = [], []
    for m in nodes:
        likelihood = [
            stats.betabinom.logpmf(k, depth, m * mu, m * expit(-x))
            for k, depth in zip(r, n, strict=True)
        ]
        of_case = np.sum([v for v, c in zip(likelihood, case, strict=True) if c], axis=0)
        of_control = np.sum([v for v, c in zip(likelihood, case, strict=True) if not c], axis=0)
        top = of_case.max(), of_control.max()
        shown = np.exp(of_case - top[0]) * mu ** powers[0]
        control = np.exp(of_control - top[1]) * e * mu ** powers[1]
        m0.append(np.log((control * (null @ shown)).sum()) + 2.0 * np.log(step) + sum(top))
        g = shown * broad
        above = integrate.cumulative_simpson(g[::-1], dx=step, initial=0.0)[::-1]
        at = x + b
        ratio = np.interp(at, x, above) / stats.beta(0.1, 0.1).sf(expit(at))
        m1.append(np.log((control * ratio).sum() * step) + sum(top))
    return float(logsumexp(log_p + m0)), float(logsumexp(log_p + m1))


def log_evidence(parts: Sequence[Counts], model: BatchNull = MODEL) -> float:
    """The penalised log marginal likelihood at the hyperparameters that the fit ends at.

    Of a sample every unit's counts by its weight, and of the priors of what rare units say only
    the share that the sample's objective is of that of all.
    """

    def marginals(q: Any, of: Units, u: int) -> tuple[float, float]:
        unit = of.alt_reads[u], of.depth[u], of.case, of.kind[u]
        return brute_force(*unit, q, shift=shift_of(of, u, q))

    total, q = marginal_likelihood(model, parts, marginals)
    return total + log_prior(q, parts[0].share)


def log_prior(q: Any, share: float = 1.0) -> float:
    """What the objective adds to the likelihood; ``share`` of the priors of what is rare."""
    penalty = log_prior_of_errors(q, share)
    # b_t ~ N(b_0, .5^2), b_0 ~ N(0, 1), at the best b_0.
    b_0 = 4.0 * q.shift.sum() / 49.0
    penalty -= 2.0 * ((q.shift - b_0) ** 2).sum() + 0.5 * b_0**2 + 12.0 * np.log(0.5)
    penalty -= 0.5 * np.log(q.tau / 0.15) ** 2
    if q.of_context is not None:  # b_tc ~ N(b_t, .5^2)
        penalty -= 2.0 * ((q.of_context - q.shift[:, None]) ** 2).sum()
    return float(penalty + share * (0.5 * np.log(q.v) + 1000.0 * np.log1p(-q.v)))


def shift_of(of: Units, u: int, q: Any) -> float:
    """Return b of a unit: of its substitution, or of that and the neighbouring bases."""
    if q.of_context is None:
        return float(q.shift[of.kind[u]])
    return float(q.of_context[of.kind[u], of.context[u]])


def wrong_calls(model: BatchNull, scenario: str, seed: int) -> float:
    """Missed and false variants of a scenario, as a share of the true ones."""
    counts, truth = simulate_scenario(np.random.default_rng(seed), SCENARIOS[scenario])
    done = fit(model, [counts], tol=1e-6)
    m0, m1, _ = model.e_step(done.q, done.reduce.local_states(done.iterations - 1)[0])
    of = units(counts)
    calls = called(local_fdr(m1 - m0, done.q.pi), 0.05)
    found = set(zip(of.location[calls].tolist(), of.alt[calls].tolist(), strict=True))
    true = set(zip(truth.location.tolist(), truth.alt.tolist(), strict=True))
    return len(found ^ true) / len(true)


def recovery_error(seed: int) -> float:
    """Wrong calls at 1 % and 4000 reads under oxidation."""
    return wrong_calls(BatchNull(alternatives=MIXTURE), "af.01_oxo5", seed)


def global_step(model: BatchNull) -> GlobalStep:
    """Return how the step of a form is moved about its fixed point."""
    return replace(
        case_two_groups.CASE.global_step,
        coordinates=Coordinates(
            to_vector=model.to_vector, from_vector=model.from_vector, step=3e-3
        ),
        max_iter=3000,
    )


def tables() -> dict[str, list[Counts]]:
    """The tables of counts at their ends that have a control."""
    found = ends.tables_of_counts()
    return {name: batches for name, batches in found.items() if name != "a case without control"}


CASE = replace(
    case_two_groups.CASE,
    name="batch_null",
    calibration=calibration_variants.BATCH_NULL,
    model=lambda: MODEL,
    batches=batches,
    tiny=tiny,
    extremes=Extremes(tables=tables, empty=ends.no_counts, plain=PLAIN),
    agreement=replace(
        case_two_groups.CASE.agreement,
        scored=lambda model, q, batch: log_bayes_factors(
            model, q, batch, model.table(model.anchored(q), of_fit(batch))
        ),
        largest=5e-2,
    ),
    global_step=global_step(MODEL),
    evidence=Evidence(log_evidence=log_evidence, largest_gap=0.2, strict=False, seeds=(0,)),
    # A leap divides two small differences: 1e-15 in tau at the start is 3e-8 in b after 30 steps,
    # and 1e-13 is 8e-8.
    partition_rtol=1e-6,
    seeds=(0,),
    thorough=frozenset({"truth"}),
    recovery=Recovery(error=recovery_error, tolerance=0.1, seeds=(0, 1, 2)),
)


SAMPLED = replace(
    CASE,
    name="batch_null_sampled",
    calibration="that of batch_null: a sample differs from it by what its units count for",
    batches=lambda seed, parts: sampled(batches(seed, parts)),
    tiny=lambda seed: sampled(tiny(seed)),
    recovery="the test is that of batch_null, whose row counts wrong calls",
    thorough=EVERY,
)
CONTEXTS = BatchNull(types="trinucleotide")


OF_CONTEXTS = replace(
    CASE,
    name="batch_null_contexts",
    model=lambda: CONTEXTS,
    calibration="that of batch_null: the same quadrature is taken at other shifts",
    global_step=global_step(CONTEXTS),
    evidence=Evidence(
        log_evidence=lambda parts: log_evidence(parts, CONTEXTS), largest_gap=0.2, strict=False,
        seeds=(0,),
    ),
    recovery="the test is that of batch_null, whose row counts wrong calls",
    thorough=EVERY,
)  # fmt: skip
CASES = [CASE, SAMPLED, OF_CONTEXTS]
