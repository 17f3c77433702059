"""The row of the mixture in the contract: simulated rows, definitions, truths."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment
from scipy.special import digamma, gammaln, logsumexp, multigammaln

from vbflows_mixture.model import Global, Mixture, Rows
from vbflows_mixture.predict import told
from vbflows_mixture.simulate import simulate
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing import (
    Agreement,
    Bounds,
    Calibration,
    Case,
    Coordinates,
    Evidence,
    Extremes,
    GlobalStep,
    MonteCarlo,
    Readings,
    Recovery,
    Told,
)

PRIOR = Mixture(components=2, alpha=1.5, weight0=0.5, freedom=2.0, spread=0.5)
D = 2
NU0 = D + PRIOR.freedom
INVERSE0 = NU0 * PRIOR.spread * np.eye(D)


def cut(x: FloatArray, parts: int) -> list[Rows]:
    """Return rows as partitions."""
    return [Rows(one) for one in np.array_split(x, parts)]


def batches(seed: int, parts: int) -> list[Rows]:
    return cut(simulate(np.random.default_rng(seed), 60, 2, D)[0], parts)


def tiny(seed: int) -> list[Rows]:
    return cut(simulate(np.random.default_rng(seed), 6, 2, D)[0], 2)


def together(batches: Sequence[Rows]) -> FloatArray:
    return np.concatenate([batch.x for batch in batches])


# The definition: pi, mu, Lambda and the component of every row are drawn from q.


def responsibilities(q: Global, x: FloatArray) -> FloatArray:
    """r [N, K], row by row and component by component (Bishop 2006, (10.46))."""
    found = np.empty((len(x), len(q.conc)))
    for k, mean in enumerate(q.mean):
        w = np.linalg.inv(q.factor[k] @ q.factor[k].T)
        log_det = sum(digamma((q.shape[k] - i) / 2.0) for i in range(D))
        log_det += D * np.log(2.0) + np.linalg.slogdet(w)[1]
        gap = x - mean
        square = D / q.weight[k] + q.shape[k] * np.einsum("ni,ij,nj->n", gap, w, gap)
        found[:, k] = digamma(q.conc[k]) + 0.5 * log_det - 0.5 * square
    return np.exp(found - logsumexp(found, axis=1)[:, None])


def sample(q, batches, locals_, rng, size):
    pi = rng.dirichlet(q.conc, size)
    precision, mean = [], []
    for k, centre in enumerate(q.mean):
        w = np.linalg.inv(q.factor[k] @ q.factor[k].T)
        drawn = stats.wishart.rvs(q.shape[k], w, size, rng)
        root = np.linalg.cholesky(np.linalg.inv(q.weight[k] * drawn))
        precision.append(drawn)
        mean.append(centre + np.einsum("sij,sj->si", root, rng.standard_normal((size, D))))
    r = responsibilities(q, together(batches))
    z = (rng.random((size, len(r), 1)) > np.cumsum(r, axis=1)[None, :, :-1]).sum(-1)
    return pi, np.stack(precision, 1), np.stack(mean, 1), z


def normal_logpdf(x: FloatArray, mean: FloatArray, precision: FloatArray) -> FloatArray:
    gap = x - mean
    square = np.einsum("...i,...ij,...j->...", gap, precision, gap)
    return 0.5 * (np.linalg.slogdet(precision)[1] - D * np.log(2.0 * np.pi) - square)


def log_joint(draws, batches):
    pi, precision, mean, z = draws
    total = stats.dirichlet.logpdf(pi.T, np.full(pi.shape[1], PRIOR.alpha))
    w0 = np.linalg.inv(INVERSE0)
    for k in range(pi.shape[1]):
        total += stats.wishart.logpdf(np.moveaxis(precision[:, k], 0, -1), NU0, w0)
        total += normal_logpdf(mean[:, k], np.zeros(D), PRIOR.weight0 * precision[:, k])
    row = np.arange(len(pi))
    for n, x in enumerate(together(batches)):
        k = z[:, n]
        total += np.log(pi[row, k]) + normal_logpdf(x, mean[row, k], precision[row, k])
    return total


def log_q(draws, q, batches, locals_):
    pi, precision, mean, z = draws
    total = stats.dirichlet.logpdf(pi.T, q.conc)
    for k in range(pi.shape[1]):
        w = np.linalg.inv(q.factor[k] @ q.factor[k].T)
        total += stats.wishart.logpdf(np.moveaxis(precision[:, k], 0, -1), q.shape[k], w)
        total += normal_logpdf(mean[:, k], q.mean[k], q.weight[k] * precision[:, k])
    r = responsibilities(q, together(batches))
    return total + np.log(r[np.arange(len(r)), z]).sum(1)


def log_evidence(batches: Sequence[Rows]) -> float:
    """Every assignment of rows is summed over; pi, mu and Lambda by algebra, given one."""
    x = together(batches)
    found = []
    for z in itertools.product(range(PRIOR.components), repeat=len(x)):
        at = np.array(z)
        rows = np.bincount(at, minlength=PRIOR.components)
        total = gammaln(PRIOR.components * PRIOR.alpha)
        total -= gammaln(PRIOR.components * PRIOR.alpha + len(x))
        total += (gammaln(rows + PRIOR.alpha) - gammaln(PRIOR.alpha)).sum()
        found.append(total + sum(log_marginal(x[at == k]) for k in range(PRIOR.components)))
    return float(logsumexp(found))


def log_marginal(x: FloatArray) -> float:
    """Log density of rows of one component (Murphy 2007, "Conjugate Bayesian analysis", (266))."""
    n = len(x)
    weight, nu = PRIOR.weight0 + n, NU0 + n
    mean = x.sum(0) / weight
    inverse = INVERSE0 + x.T @ x - weight * np.outer(mean, mean)
    log_dets = NU0 * np.linalg.slogdet(INVERSE0)[1] - nu * np.linalg.slogdet(inverse)[1]
    total = multigammaln(nu / 2.0, D) - multigammaln(NU0 / 2.0, D) + 0.5 * log_dets
    return float(total + 0.5 * D * (np.log(PRIOR.weight0 / weight) - n * np.log(np.pi)))


def recovery_error(seed: int) -> float:
    """Largest distance of a mean from its own, best matched, of the best of 3 starts."""
    rng = np.random.default_rng(seed)
    mean = np.array([[-2.0, 0.0], [2.0, 1.0], [0.0, -2.0]])
    at = rng.integers(0, 3, 1500)
    x = mean[at] + rng.standard_normal((1500, 2)) * [0.5, 0.8]
    model = Mixture(components=3)
    done = max((fit(model, cut(x, 2), seed=s, tol=1e-7) for s in range(3)), key=_bound)
    gap = np.linalg.norm(done.q.mean[:, None] - mean[None], axis=-1)
    return float(gap[linear_sum_assignment(gap)].max())


def _bound(done) -> float:
    return done.trace[-1]


def pairs(rng: np.random.Generator) -> Readings:
    """The chance that two rows are of one component, and whether they are."""
    x, z = simulate(rng, 200, 2, D, PRIOR)
    r = told(fit(PRIOR, [Rows(x)], tol=1e-6).q, x)[0]
    return {"together": Told((r[::2] * r[1::2]).sum(1), (z[::2] == z[1::2]).astype(float))}


def tables() -> dict[str, list[Rows]]:
    x = np.random.default_rng(0).standard_normal((8, 2))
    return {
        "one row alone": [Rows(x[:1])],
        "constant columns": [Rows(np.ones((6, 2))), Rows(np.ones((2, 2)))],
        "all at the origin": [Rows(np.zeros((6, 2)))],
        "a row at 1e4": [Rows(np.concatenate([x, [[1e4, -1e4]]]))],
        "a column that is another": [Rows(np.repeat(x[:, :1], 2, axis=1))],
    }


CASE = Case(
    name="mixture",
    model=lambda: PRIOR,
    batches=batches,
    tiny=tiny,
    calibration=(
        Calibration(
            form="mixture",
            run=pairs,
            bounds={
                "together": Bounds(
                    large=(-0.03, 0.03),
                    slope=(0.5, 1.0),
                    bins=0.12,
                    measured="150 runs: -0.009 +- 0.007, slope 0.60 +- 0.05: too sure",
                )
            },
            few=20,
        ),
    ),
    extremes=Extremes(
        tables=tables,
        empty=lambda full: Rows(full.x[:0]),
        plain="it has no compiled loops: NumPy is all",
    ),
    agreement=Agreement(
        published=lambda model, q, batch, local: told(q, batch.x)[0],
        scored=lambda model, q, batch: told(q, batch.x)[0],
    ),
    draws="it has no sampler: nothing of draws is published",
    global_step=GlobalStep(
        coordinates=Coordinates(to_vector=PRIOR.to_vector, from_vector=PRIOR.from_vector),
        at="fixed_point",
        tolerance=1e-5,
    ),
    local_step="responsibilities follow from the components: nothing of a partition is kept",
    monte_carlo=MonteCarlo(sample=sample, log_joint=log_joint, log_q=log_q, size=6000),
    evidence=Evidence(log_evidence=log_evidence, largest_gap=3.0),
    sampler="components may be named in any order: draws of one of them have no mean of their own",
    recovery=Recovery(error=recovery_error, tolerance=0.15, seeds=(0, 1, 2)),
)
