"""The row of the model that the documentation walks through."""

from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp
from vbflows_counts.model import Counts, Global, GroupedCounts, Local

from tests.contract import calibration_counts
from vbmodels.core.expfam import Gamma
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.case import (
    Agreement,
    Case,
    Coordinates,
    Evidence,
    Extremes,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Recovery,
    Sampler,
)

PRIOR = GroupedCounts()
BETA = 0.5


def simulate(seed: int, groups: int, size: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    lam = rng.gamma(PRIOR.a, 1.0 / BETA, groups)
    return rng.poisson(lam[:, None], (groups, size)).astype(np.float64)


def batches(seed: int, parts: int) -> list[Counts]:
    return [Counts(y) for y in np.array_split(simulate(seed, 40, 3), parts)]


def tiny(seed: int) -> list[Counts]:
    return [Counts(y) for y in np.array_split(simulate(seed, 4, 2), 2)]


def sample(q, batches, locals_, rng, size) -> tuple[FloatArray, FloatArray]:
    shape = np.concatenate([local.lam.shape for local in locals_])
    rate = np.concatenate([local.lam.rate for local in locals_])
    return rng.gamma(q.shape, 1.0 / q.rate, size), rng.gamma(shape, 1.0 / rate, (size, shape.size))


def log_joint(draws, batches: Sequence[Counts]) -> FloatArray:
    beta, lam = draws
    y = np.concatenate([batch.y for batch in batches])
    total = stats.gamma.logpdf(beta, PRIOR.c, scale=1.0 / PRIOR.d)
    total += stats.gamma.logpdf(lam, PRIOR.a, scale=1.0 / beta[:, None]).sum(-1)
    return total + stats.poisson.logpmf(y, lam[:, :, None]).sum((-1, -2))


def log_q(draws, q: Global, batches, locals_: Sequence[Local]) -> FloatArray:
    beta, lam = draws
    shape = np.concatenate([local.lam.shape for local in locals_])
    rate = np.concatenate([local.lam.rate for local in locals_])
    groups = stats.gamma.logpdf(lam, shape, scale=1.0 / rate).sum(-1)
    return groups + stats.gamma.logpdf(beta, q.shape, scale=1.0 / q.rate)


def log_evidence(batches: Sequence[Counts]) -> float:
    """lam summed out by algebra (a negative binomial), beta by trapezia in its logarithm."""
    y = np.concatenate([batch.y for batch in batches])
    log_beta = np.linspace(-12.0, 6.0, 4001)
    beta, size, total = np.exp(log_beta)[:, None], y.shape[1], y.sum(1)
    marginal = gammaln(PRIOR.a + total) - gammaln(PRIOR.a) - gammaln(y + 1.0).sum(1)
    marginal = marginal + PRIOR.a * np.log(beta) - (PRIOR.a + total) * np.log(beta + size)
    density = stats.gamma.logpdf(beta[:, 0], PRIOR.c, scale=1.0 / PRIOR.d) + log_beta
    return float(logsumexp(marginal.sum(1) + density) + np.log(log_beta[1] - log_beta[0]))


def gibbs(batches: Sequence[Counts], rng: np.random.Generator) -> FloatArray:
    y = np.concatenate([batch.y for batch in batches])
    chains = []
    for _ in range(2):
        beta, kept = rng.gamma(1.0), []
        for draw in range(3300):
            lam = rng.gamma(PRIOR.a + y.sum(1), 1.0 / (beta + y.shape[1]))
            beta = rng.gamma(PRIOR.c + len(y) * PRIOR.a, 1.0 / (PRIOR.d + lam.sum()))
            if draw >= 300:
                kept.append([np.log(beta), *lam[:4]])
        chains.append(kept)
    return np.array(chains)


def moments(q: Global, locals_: Sequence[Local]) -> tuple[FloatArray, FloatArray]:
    beta, lam = stats.loggamma(q.shape, loc=-np.log(q.rate)), locals_[0].lam
    mean = np.array([beta.mean(), *lam.mean[:4]])
    return mean, np.array([beta.std(), *np.sqrt(lam.variance[:4])])


def recovery_error(seed: int) -> float:
    """Error of log beta in posterior sd, from 2000 groups."""
    q = fit(GroupedCounts(), [Counts(simulate(seed, 2000, 10))], seed=seed).q
    return float(abs(np.log(q.shape / q.rate / BETA)) * np.sqrt(q.shape))


def global_vector(q: Global) -> FloatArray:
    return np.log([q.shape, q.rate])


def local_vector(local: Local) -> FloatArray:
    return np.log(np.concatenate([local.lam.shape, local.lam.rate]))


CASE = Case(
    name="counts",
    calibration=calibration_counts.COUNTS,
    model=GroupedCounts,
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=lambda: {
            "one group alone": [Counts(np.array([[2.0, 3.0]]))],
            "nothing is counted": [Counts(np.zeros((4, 3))), Counts(np.zeros((2, 3)))],
            "a million": [Counts(np.array([[1e6, 0.0], [0.0, 1e6]]))],
        },
        empty=lambda full: Counts(full.y[:0]),
        plain="it has no compiled loops: NumPy is all",
    ),
    agreement=Agreement(published=lambda model, q, batch, local: local.lam.mean),
    global_step=GlobalStep(
        coordinates=Coordinates(
            to_vector=global_vector,
            from_vector=lambda q, vector: Global(*(float(x) for x in np.exp(vector))),
        )
    ),
    local_step=LocalStep(
        coordinates=Coordinates(
            to_vector=local_vector,
            from_vector=lambda local, vector: Local(Gamma(*np.split(np.exp(vector), 2))),
        )
    ),
    monte_carlo=MonteCarlo(sample=sample, log_joint=log_joint, log_q=log_q),
    evidence=Evidence(log_evidence=log_evidence, largest_gap=0.5),
    sampler=Sampler(draws=gibbs, moments=moments, mean_tolerance=0.2, sd_ratio=(0.5, 1.1)),
    recovery=Recovery(error=recovery_error, tolerance=4.0),
)
