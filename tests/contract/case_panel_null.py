"""The row of the test against a panel; the truth is summed on a uniform grid, by scipy.stats."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import integrate, stats
from scipy.special import betaln, expit, logsumexp

from tests.contract import case_batch_null, ends
from tests.contract.case_batch_null import log_prior, wrong_calls
from tests.contract.case_two_groups import cut, marginal_likelihood
from tests.vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.testing.case import Evidence, Extremes, Recovery
from vbmodels.variants.counts import Counts, Units
from vbmodels.variants.panel.model import PanelNull
from vbmodels.variants.two_groups.model import MIXTURE

MODEL = PanelNull()
SMALL = replace(SCENARIOS["simpanel"], depth=1000, replicates=2, members=3, member_replicates=1)


def batches(seed: int, parts: int) -> list[Counts]:
    scenario = replace(SMALL, share=0.01, n_variants=3)
    return cut(simulate_scenario(np.random.default_rng(seed), scenario, 32)[0], parts)


def tiny(seed: int) -> list[Counts]:
    scenario = replace(SMALL, share=0.01, n_variants=1, members=2)
    return cut(simulate_scenario(np.random.default_rng(seed), scenario, 4)[0], 2)


def brute_force(model: PanelNull, q: Any, of: Units, u: int) -> tuple[float, float]:
    """Return log m0 and log m1 of one unit; the alternative is Beta(.1, .1).

    Every sample's rate is integrated by the trapezoid rule at each rate of the site.
    """
    kind, who = int(of.kind[u]), of.members
    x = np.linspace(-40.0, 8.0, 1201)
    step = x[1] - x[0]
    mu, jacobian = expit(x), expit(x) * expit(-x)
    broad = stats.beta(0.1, 0.1).pdf(mu) * jacobian
    errors = stats.beta(0.5, 2500.0).pdf(mu) * jacobian
    shares = np.array([0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
    spike = np.exp(
        q.a[kind] * np.log(mu) + q.b[kind] * np.log1p(-mu) - betaln(q.a[kind], q.b[kind])
    )
    log_e = np.log((1.0 - q.w) * spike + q.w * broad + 1e-300)
    d = x[None, :] - x[:, None]
    null = (1.0 - q.v) * stats.norm.pdf(d, q.shift[kind], q.tau)
    null += q.v * stats.norm.pdf(d, q.shift[kind], 1.2)
    near_of = [stats.norm.pdf(d, shift[kind], q.tau) * step for shift in q.member_shift]
    nodes = np.exp(model.log_m)
    log_p = stats.norm.logpdf(np.log(nodes), q.log_m_mean, q.log_m_sd)
    log_p -= logsumexp(log_p)
    m0, m1 = [], []
    for node in nodes:
        m = np.full_like(mu, node)

        def sample(own: Any, m: Any = m) -> Any:
            pairs = zip(of.alt_reads[u, own], of.depth[u, own], strict=True)
            return sum(
                (stats.betabinom.logpmf(r, n, m * mu, m * expit(-x)) for r, n in pairs),
                np.zeros_like(x),
            )

        panel, control, people = np.zeros_like(x), np.zeros_like(x), []
        for p in range(who.max() + 1):
            log_l = sample(who == p)
            top = log_l.max()
            value = np.log(near_of[p] @ np.exp(log_l - top) + 1e-290) + top
            carried = np.log((np.exp(log_l - top) * broad).sum() * step) + top
            own = model.matched and p == 0
            eps = 1e-7 if own else model.contamination
            value = np.logaddexp(np.log1p(-eps) + value, np.log(eps) + carried)
            if own:
                control += value
                continue
            panel += value
            erring = np.log((np.exp(log_l - top) * errors).sum() * step) + top
            people.append([carried, erring])
        if model.matched:
            eps = model.contamination
            carried, erring = np.array(people).T[:, :, None]
            both = np.logaddexp(np.log(shares) + carried, np.log1p(-shares) + erring).sum(axis=0)
            silent = logsumexp(both) - np.log(9.0)
            panel = np.logaddexp(np.log1p(-eps) + panel, np.log(eps) + silent)
        log_site = panel + control + log_e
        of_case = sample(of.case)
        top = of_case.max(), log_site.max()
        site, shown = np.exp(log_site - top[1]), np.exp(of_case - top[0])
        m0.append(np.log((site * (null @ shown)).sum() + 1e-300) + 2.0 * np.log(step) + sum(top))
        above = integrate.cumulative_simpson((shown * broad)[::-1], dx=step, initial=0.0)[::-1]
        at = x + q.shift[kind]
        ratio = np.interp(at, x, above) / stats.beta(0.1, 0.1).sf(expit(at))
        m1.append(np.log((site * ratio).sum() * step + 1e-300) + sum(top))
    return float(logsumexp(log_p + m0)), float(logsumexp(log_p + m1))


def log_evidence(parts: Sequence[Counts]) -> float:
    """The penalised log marginal likelihood at the hyperparameters that the fit ends at."""
    total, q = marginal_likelihood(MODEL, parts, partial(brute_force, MODEL))
    return total + log_prior(q) - 2.0 * float((q.member_shift**2).sum())  # of N(0, .5^2)


def recovery_error(seed: int) -> float:
    """Wrong calls at .3 % and 4000 reads against a panel."""
    return wrong_calls(PanelNull(alternatives=MIXTURE), "simpanel", seed)


def tables() -> dict[str, list[Counts]]:
    """The tables of counts at their ends, each replicate of the control a sample of its own."""
    member = np.array([-1, -1, 0, 1])
    return {
        name: [replace(batch, member=member) for batch in batches]
        for name, batches in case_batch_null.tables().items()
    }


CASE = replace(
    case_batch_null.CASE,
    name="panel_null",
    calibration="not simulated: members' likelihoods and steps are its own; "
    "benchmarks/variants.py measures its false discoveries",
    model=lambda: MODEL,
    batches=batches,
    tiny=tiny,
    extremes=Extremes(tables=tables, empty=ends.no_counts, plain=case_batch_null.PLAIN),
    global_step=case_batch_null.global_step(MODEL),
    evidence=Evidence(log_evidence=log_evidence, largest_gap=0.2, strict=False, seeds=(0,)),
    sweeps=12,
    resume_sweeps=5,
    seeds=(0,),
    # Rounding grows more than without the members' shifts, of which a site says little.
    partition_rtol=1e-7,
    recovery=Recovery(error=recovery_error, tolerance=0.34, seeds=(0, 1, 2)),
)
