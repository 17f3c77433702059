"""The toy's row: a complete example of how a model joins the contract."""

from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from tests.contract.toy import Global, Groups, Local, Toy
from vbmodels.core.expfam import Gamma, Normal
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

PRIOR = Toy()


def simulate(seed: int, groups: int, size: int, mu: float = 1.0, tau: float = 0.8) -> FloatArray:
    rng = np.random.default_rng(seed)
    z = rng.normal(mu, tau**-0.5, groups)
    lam = rng.gamma(PRIOR.c0, 1.0 / PRIOR.d0, groups)
    return z[:, None] + rng.standard_normal((groups, size)) / np.sqrt(lam)[:, None]


def batches(seed: int, parts: int) -> list[Groups]:
    return [Groups(y) for y in np.array_split(simulate(seed, 32, 4), parts)]


def tiny(seed: int) -> list[Groups]:
    return [Groups(y) for y in np.array_split(simulate(seed, 3, 3), 2)]


def local_vector(local: Local) -> FloatArray:
    z, lam = local.z, local.lam
    return np.concatenate([z.mean, np.log(z.precision), np.log(lam.shape), np.log(lam.rate)])


def local_from_vector(local: Local, vector: FloatArray) -> Local:
    mean, precision, shape, rate = np.split(vector, 4)
    return Local(Normal(mean, np.exp(precision)), Gamma(np.exp(shape), np.exp(rate)))


# The definition of the bound, from the generative model with scipy.stats.

Draws = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


def sample(
    q: Global,
    batches: Sequence[Groups],
    locals_: Sequence[Local],
    rng: np.random.Generator,
    size: int,
) -> Draws:
    tau = rng.gamma(q.shape, 1.0 / q.rate, size)
    mu = rng.normal(q.mean, 1.0 / np.sqrt(q.weight * tau))
    mean = np.concatenate([x.z.mean for x in locals_])
    sd = np.concatenate([x.z.precision for x in locals_]) ** -0.5
    shape = np.concatenate([x.lam.shape for x in locals_])
    rate = np.concatenate([x.lam.rate for x in locals_])
    z = rng.normal(mean, sd, (size, mean.size))
    return tau, mu, z, rng.gamma(shape, 1.0 / rate, (size, mean.size))


def log_joint(draws: Draws, batches: Sequence[Groups]) -> FloatArray:
    tau, mu, z, lam = draws
    y = np.concatenate([batch.y for batch in batches])
    groups = stats.norm.logpdf(z, mu[:, None], tau[:, None] ** -0.5)
    groups += stats.gamma.logpdf(lam, PRIOR.c0, scale=1.0 / PRIOR.d0)
    groups += stats.norm.logpdf(y, z[:, :, None], lam[:, :, None] ** -0.5).sum(-1)
    top = stats.gamma.logpdf(tau, PRIOR.a0, scale=1.0 / PRIOR.b0)
    return groups.sum(-1) + top + stats.norm.logpdf(mu, PRIOR.m0, (PRIOR.k0 * tau) ** -0.5)


def log_q(
    draws: Draws, q: Global, batches: Sequence[Groups], locals_: Sequence[Local]
) -> FloatArray:
    tau, mu, z, lam = draws
    mean = np.concatenate([x.z.mean for x in locals_])
    sd = np.concatenate([x.z.precision for x in locals_]) ** -0.5
    shape = np.concatenate([x.lam.shape for x in locals_])
    rate = np.concatenate([x.lam.rate for x in locals_])
    groups = stats.norm.logpdf(z, mean, sd) + stats.gamma.logpdf(lam, shape, scale=1.0 / rate)
    top = stats.gamma.logpdf(tau, q.shape, scale=1.0 / q.rate)
    return groups.sum(-1) + top + stats.norm.logpdf(mu, q.mean, (q.weight * tau) ** -0.5)


def log_evidence(batches: Sequence[Groups]) -> float:
    """z summed out by algebra, mu, tau and lam on grids: trapezia that decay at both ends."""
    y = np.concatenate([batch.y for batch in batches])
    log_tau = np.linspace(-6.0, 4.0, 41)
    log_lam = np.linspace(-6.0, 4.0, 61)
    mu = np.linspace(-25.0, 25.0, 401)
    tau, lam = np.exp(log_tau), np.exp(log_lam)
    total = (
        stats.gamma.logpdf(tau, PRIOR.a0, scale=1.0 / PRIOR.b0)
        + log_tau
        + np.log(log_tau[1] - log_tau[0])
    )[:, None] + stats.norm.logpdf(mu, PRIOR.m0, (PRIOR.k0 * tau[:, None]) ** -0.5)
    weight = stats.gamma.logpdf(lam, PRIOR.c0, scale=1.0 / PRIOR.d0) + log_lam
    weight += np.log(log_lam[1] - log_lam[0])
    for group in y:
        # Given lam, the mean of the group is sufficient, with the squares within it.
        n, centre = group.size, group.mean()
        within = stats.norm.logpdf(group[:, None], centre, lam**-0.5).sum(0)
        within += 0.5 * np.log(2.0 * np.pi / (n * lam)) + weight
        spread = np.sqrt(1.0 / (n * lam) + 1.0 / tau[:, None])
        marginal = stats.norm.logpdf(centre, mu[None, :, None], spread[:, None, :])
        total += logsumexp(marginal + within, axis=-1)
    return float(logsumexp(total) + np.log(mu[1] - mu[0]))


def gibbs(batches: Sequence[Groups], rng: np.random.Generator) -> FloatArray:
    """Two chains of (mu, log tau, z_1..z_4); the first 300 draws are left out."""
    y = np.concatenate([batch.y for batch in batches])
    groups, size = y.shape
    chains = []
    for _ in range(2):
        mu, tau, kept = rng.normal(), rng.gamma(1.0), []
        lam = np.ones(groups)
        for draw in range(4300):
            precision = tau + size * lam
            z = rng.normal((tau * mu + lam * y.sum(1)) / precision, precision**-0.5)
            squares = ((y - z[:, None]) ** 2).sum(1)
            lam = rng.gamma(PRIOR.c0 + size / 2, 1.0 / (PRIOR.d0 + squares / 2))
            squares = ((z - mu) ** 2).sum() + PRIOR.k0 * (mu - PRIOR.m0) ** 2
            tau = rng.gamma(PRIOR.a0 + (groups + 1) / 2, 1.0 / (PRIOR.b0 + squares / 2))
            weight = PRIOR.k0 + groups
            mu = rng.normal((PRIOR.k0 * PRIOR.m0 + z.sum()) / weight, (weight * tau) ** -0.5)
            if draw >= 300:
                kept.append([mu, np.log(tau), *z[:4]])
        chains.append(kept)
    return np.array(chains)


def moments(q: Global, locals_: Sequence[Local]) -> tuple[FloatArray, FloatArray]:
    z = locals_[0].z
    tau = stats.loggamma(q.shape, loc=-np.log(q.rate))
    mu = stats.t(2 * q.shape, q.mean, np.sqrt(q.rate / (q.shape * q.weight)))
    mean = np.array([mu.mean(), tau.mean(), *z.mean[:4]])
    return mean, np.array([mu.std(), tau.std(), *z.precision[:4] ** -0.5])


def recovery_error(seed: int) -> float:
    """Largest error of mu and log tau in posterior sd, from 2000 groups."""
    done = fit(Toy(), [Groups(simulate(seed, 2000, 10))], seed=seed)
    q = done.q
    mu = abs(q.mean - 1.0) / np.sqrt(q.rate / (q.shape * q.weight))
    tau = abs(np.log(q.shape / q.rate) - np.log(0.8)) * np.sqrt(q.shape)
    return float(max(mu, tau))


CASE = Case(
    name="toy",
    calibration="It carries the other items' planted bugs; the row of counts carries this one's.",
    model=Toy,
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=lambda: {
            "one group alone": [Groups(np.array([[0.3, -0.2]]))],
            "a constant": [Groups(np.zeros((4, 3))), Groups(np.zeros((2, 3)))],
            "a million": [Groups(np.array([[1e6, 0.0], [0.0, -1e6]]))],
        },
        empty=lambda full: Groups(full.y[:0]),
        plain="it has no compiled loops: NumPy is all",
    ),
    agreement=Agreement(published=lambda model, q, batch, local: local.z.mean),
    global_step=GlobalStep(
        coordinates=Coordinates(to_vector=PRIOR.to_vector, from_vector=PRIOR.from_vector)
    ),
    local_step=LocalStep(
        coordinates=Coordinates(to_vector=local_vector, from_vector=local_from_vector)
    ),
    monte_carlo=MonteCarlo(sample=sample, log_joint=log_joint, log_q=log_q, size=40_000),
    evidence=Evidence(log_evidence=log_evidence, largest_gap=1.0),
    sampler=Sampler(draws=gibbs, moments=moments, mean_tolerance=0.2, sd_ratio=(0.7, 1.1)),
    recovery=Recovery(error=recovery_error, tolerance=4.0),
)
