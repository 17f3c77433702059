"""The rows of the papers' RVD2; hooks from the generative model with scipy.stats."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy import stats
from scipy.special import digamma, expit, polygamma

from tests.contract import calibration_variants, ends
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.case import (
    EVERY,
    Agreement,
    Case,
    Coordinates,
    Extremes,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Recovery,
    Sampler,
)
from vbmodels.variants.rvd2.gibbs import gibbs
from vbmodels.variants.rvd2.model import RVD2, Errors, Global, Local


def reads(seed: int, locations: int, replicates: int, depth: int) -> Errors:
    rng = np.random.default_rng(seed)
    mu = rng.beta(1.5, 150.0, locations)
    m = np.exp(rng.normal(7.0, 0.4, locations))
    n = rng.poisson(depth, (locations, replicates))
    theta = rng.beta((m * mu)[:, None], (m * (1.0 - mu))[:, None], n.shape)
    return Errors(rng.binomial(n, theta), n)


def cut(data: Errors, parts: int) -> list[Errors]:
    rows = np.array_split(np.arange(len(data.r)), parts)
    return [Errors(data.r[i], data.n[i]) for i in rows]


def batches(seed: int, parts: int) -> list[Errors]:
    return cut(reads(seed, 48, 3, 500), parts)


def tiny(seed: int) -> list[Errors]:
    return cut(reads(seed, 12, 4, 3000), 2)


def case_of(model: RVD2, name: str, **items) -> Case:
    def local_vector(local: Local) -> FloatArray:
        return np.concatenate([np.log(local.delta), np.log(local.gamma), local.log_m])

    def local_from_vector(local: Local, vector: FloatArray) -> Local:
        delta, gamma, log_m = np.split(vector, 3)
        return Local(np.exp(delta), np.exp(gamma), log_m)

    def merge(parts: Sequence[Errors], states: Sequence[Local], q: Global):
        r, n = (np.concatenate([getattr(b, k) for b in parts]) for k in "rn")
        delta, gamma, log_m = (
            np.concatenate([getattr(s, k) for s in states]) for k in ("delta", "gamma", "log_m")
        )
        return r, n, delta, gamma, log_m

    def theta_factor(r, n, delta, gamma, log_m):
        m, mean = np.exp(log_m)[:, None], (delta / (delta + gamma))[:, None]
        return stats.beta(r + m * mean, n - r + m * (1.0 - mean))

    def sample(q, parts, states, rng, size):
        r, n, delta, gamma, log_m = merge(parts, states, q)
        mu = rng.beta(delta, gamma, (size, len(delta)))
        theta = theta_factor(r, n, delta, gamma, log_m).rvs((size, *r.shape), random_state=rng)
        return mu, theta, q, log_m

    def log_joint(draws, parts):
        mu, theta, q, log_m = draws
        r, n = (np.concatenate([getattr(b, k) for b in parts]) for k in "rn")
        m = np.exp(log_m)
        value = stats.beta.logpdf(mu, q.a0, q.b0).sum(axis=1)
        a, b = (m * mu)[:, :, None], (m * (1.0 - mu))[:, :, None]
        value += stats.beta.logpdf(theta, a, b).sum(axis=(1, 2))
        value += stats.binom.logpmf(r, n, theta).sum(axis=(1, 2))
        return value + stats.norm.logpdf(log_m, q.log_m, 0.5).sum()

    def log_q(draws, q, parts, states):
        mu, theta, _, _ = draws
        r, n, delta, gamma, log_m = merge(parts, states, q)
        value = stats.beta.logpdf(mu, delta, gamma).sum(axis=1)
        return value + theta_factor(r, n, delta, gamma, log_m).logpdf(theta).sum(axis=(1, 2))

    @cache
    def converged(seed: int) -> Global:
        return fit(model, batches(seed, 1), tol=1e-10, max_iter=5000).q

    def draws(parts: Sequence[Errors], rng: np.random.Generator) -> FloatArray:
        few = Errors(parts[0].r[:10], parts[0].n[:10])
        found = gibbs(few, converged(0), rng, log_m_sd=0.5, chains=2, warmup=200, draws=2000)
        return np.log(expit(found.logit_mu))

    def moments(q: Global, states: Sequence[Local]) -> tuple[FloatArray, FloatArray]:
        a, b = states[0].delta[:10], states[0].gamma[:10]
        return digamma(a) - digamma(a + b), np.sqrt(polygamma(1, a) - polygamma(1, a + b))

    def recovery_error(seed: int) -> float:
        """Error of log mu0 and of mean log M, the larger after scaling by .1 and .3."""
        q = fit(model, [reads(seed, 2000, 3, 2000)], tol=1e-7).q
        mu0 = q.a0 / (q.a0 + q.b0)
        return float(max(abs(np.log(mu0 / (1.5 / 151.5))) / 0.1, abs(q.log_m - 7.0) / 0.3))

    return Case(
        name=name,
        model=lambda: model,
        calibration=calibration_variants.RVD2_SAMPLED,
        batches=batches,
        tiny=tiny,
        extremes=Extremes(
            tables=ends.tables_of_errors,
            empty=ends.no_errors,
            plain="tests/vbmodels/variants has its sums against their formulas and its maximum",
        ),
        agreement=Agreement(
            published=lambda model, q, batch, local: np.stack(
                [np.log(local.delta), np.log(local.gamma), local.log_m]
            )
        ),
        global_step=GlobalStep(
            coordinates=Coordinates(to_vector=model.to_vector, from_vector=model.from_vector),
            at="step",
            tolerance=1e-6,
            fit_tol=1e-12,
        ),
        local_step=LocalStep(
            coordinates=Coordinates(to_vector=local_vector, from_vector=local_from_vector),
            tolerance=1e-5,
        ),
        monte_carlo=MonteCarlo(sample=sample, log_joint=log_joint, log_q=log_q),
        evidence="item 5 has its bound equal to its definition, which lies below the evidence",
        sampler=Sampler(
            draws=draws,
            moments=moments,
            mean_tolerance=items["mean_tolerance"],
            sd_ratio=items["sd_ratio"],
        ),
        # SQUAREM divides two small differences: rounding grows more than under plain ascent.
        partition_rtol=1e-8,
        slow=frozenset({"recovery"}),
        thorough=EVERY,
        recovery=Recovery(error=recovery_error, tolerance=items["recovery"], seeds=(0, 1, 2)),
    )


CASE = case_of(
    RVD2(),
    "rvd2",
    mean_tolerance=1.0,
    sd_ratio=(0.2, 1.05),
    recovery=6.0,
)
