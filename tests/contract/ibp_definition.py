"""The IBP by Polya-Gamma on a tiny table, from its definition: log p, log q and the evidence."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logsumexp

from reproduce.polya_gamma import draw_polya_gamma
from tests.feature_tables import split_rows
from vbmodels.core.state import FloatArray
from vbmodels.features.ibp.model import FeatureGlobal, FeatureLocal
from vbmodels.features.table import FeatureBatch, simulate_table

K, ALPHA, WEIGHT, BIAS = 2, 1.3, 2.0, 3.0
LEVELS = np.array([2, 2, 3, 2, 4, 2])
TINY_LEVELS = np.array([2, 3])


def tiny(seed: int) -> list[FeatureBatch]:
    rng = np.random.default_rng([seed, 1])
    codes, _, _ = simulate_table(rng, 3, TINY_LEVELS, np.array([0.5, 0.5]))
    codes[0, 1] = -1
    return split_rows(codes, TINY_LEVELS, 2, grouped=False)


Answer = tuple[int, int, int]


def answers(batches: Sequence[FeatureBatch], levels: NDArray[np.int64]) -> list[Answer]:
    """Return (row, unit, 1 if it goes on else 0) of every unit that is observed."""
    found, n = [], 0
    for batch in batches:
        for row in batch.codes[batch.row_of].tolist():
            unit = 0
            for code, r in zip(row, levels.tolist(), strict=True):
                for category in range(r - 1):
                    if code >= category:
                        found.append((n, unit + category, int(code > category)))
                unit += r - 1
            n += 1
    return found


def nu_of(locals_: Sequence[FeatureLocal]) -> FloatArray:
    return np.concatenate([x.nu for x in locals_])


def tilts(q: FeatureGlobal, nu: FloatArray, seen: list[Answer]) -> FloatArray:
    """sqrt(E[psi^2]) by going through all patterns of features."""
    value = []
    for n, j, _ in seen:
        total = 0.0
        for bits in product([0, 1], repeat=K):
            z = np.array([1.0, *bits])
            p = np.prod([nu[n, k] if b else 1 - nu[n, k] for k, b in enumerate(bits)])
            total += p * ((z @ q.mean[j]) ** 2 + z @ q.covariance[j] @ z)
        value.append(np.sqrt(total))
    return np.array(value)


def broken(q: FeatureGlobal) -> FloatArray:
    """q of where a stick broke, for a feature that is off: eq 25 of the text; [K, K]."""
    lam = np.zeros((K, K))
    for k in range(K):
        sticks = [stats.beta(*t) for t in q.tau]
        log = []
        for i in range(k + 1):
            past = sum(s.expect(np.log) for s in sticks[:i])
            log.append(past + sticks[i].expect(lambda v: np.log1p(-v)))
        lam[k, : k + 1] = np.exp(log - logsumexp(log))
    return lam


def sample(
    q: FeatureGlobal,
    batches: Sequence[FeatureBatch],
    locals_: Sequence[FeatureLocal],
    rng: np.random.Generator,
    size: int,
) -> dict[str, Any]:
    nu, seen = nu_of(locals_), answers(batches, TINY_LEVELS)
    lam = broken(q)
    c = np.broadcast_to(tilts(q, nu, seen), (size, len(seen)))
    return {
        "v": np.stack([rng.beta(*t, size) for t in q.tau], 1),
        "w": np.stack(
            [
                rng.multivariate_normal(m, s, size)
                for m, s in zip(q.mean, q.covariance, strict=True)
            ],
            axis=1,
        ),
        "z": rng.random((size, *nu.shape)) < nu,
        "y": np.stack([rng.choice(K, (size, len(nu)), p=row) for row in lam], 2),
        "omega": draw_polya_gamma(c, rng),
        "alpha": q.alpha,
        "variance": q.variance,
    }


def log_q(
    draws: dict[str, Any],
    q: FeatureGlobal,
    batches: Sequence[FeatureBatch],
    locals_: Sequence[FeatureLocal],
) -> FloatArray:
    """Leave out the density of PG(1, 0), which log_joint leaves out too."""
    nu, seen, lam = nu_of(locals_), answers(batches, TINY_LEVELS), broken(q)
    total = sum(stats.beta(*t).logpdf(draws["v"][:, k]) for k, t in enumerate(q.tau))
    for j, (m, s) in enumerate(zip(q.mean, q.covariance, strict=True)):
        total += stats.multivariate_normal(m, s).logpdf(draws["w"][:, j])
    total += stats.bernoulli.logpmf(draws["z"], nu).sum((1, 2))
    with np.errstate(divide="ignore"):
        log_break = np.log(lam)[np.arange(K), draws["y"]]
    total += np.where(draws["z"], 0.0, log_break).sum((1, 2))
    c = tilts(q, nu, seen)
    return total + (np.log(np.cosh(c / 2)) - 0.5 * c**2 * draws["omega"]).sum(1)


def log_joint_learned(draws: dict[str, Any], batches: Sequence[FeatureBatch]) -> FloatArray:
    """With the priors of log alpha and of each log v_k, which are points under q."""
    alpha, variance = draws["alpha"], draws["variance"]
    prior = stats.gamma(1).logpdf(alpha) + np.log(alpha)
    prior += (stats.invgamma(1).logpdf(variance) + np.log(variance)).sum()
    return prior + log_joint(draws, batches)


def log_joint(draws: dict[str, Any], batches: Sequence[FeatureBatch]) -> FloatArray:
    v, z, w = draws["v"], draws["z"], draws["w"]
    total = stats.beta(draws["alpha"], 1).logpdf(v).sum(1)
    sd = np.sqrt(np.array([BIAS, *draws["variance"]]))
    total += stats.norm(0, sd).logpdf(w).sum((1, 2))
    log_v = np.log(v)
    for k in range(K):
        on = log_v[:, : k + 1].sum(1)[:, None]
        breaks = np.stack([np.log1p(-v[:, i]) + log_v[:, :i].sum(1) for i in range(k + 1)], 1)
        place = np.minimum(draws["y"][:, :, k], k)
        off = np.take_along_axis(breaks, place, 1)
        total += np.where(z[:, :, k], on, off).sum(1)
    for i, (n, j, answer) in enumerate(answers(batches, TINY_LEVELS)):
        psi = w[:, j, 0] + (w[:, j, 1:] * z[:, n]).sum(1)
        total += (answer - 0.5) * psi - 0.5 * draws["omega"][:, i] * psi**2 - np.log(2)
    return total


def log_evidence(batches: Sequence[FeatureBatch]) -> float:
    """Go through all feature patterns; quadrature over each unit's weights and the sticks."""
    seen = answers(batches, TINY_LEVELS)
    rows = 1 + max(n for n, _, _ in seen)
    x, weight = np.polynomial.hermite_e.hermegauss(30)
    w = np.stack(np.meshgrid(x, x, x, indexing="ij"), -1).reshape(-1, K + 1)
    w = w * np.sqrt([BIAS, WEIGHT, WEIGHT])
    mass = np.prod(np.meshgrid(weight, weight, weight, indexing="ij"), 0).ravel()
    mass = mass / mass.sum()
    t, t_weight = np.polynomial.legendre.leggauss(60)
    v, v_mass = 0.5 * (t + 1), 0.5 * t_weight
    v1, v2 = np.meshgrid(v, v, indexing="ij")
    prior = ALPHA**2 * (v1 * v2) ** (ALPHA - 1) * np.outer(v_mass, v_mass)

    @cache
    def unit(j: int, patterns: tuple[tuple[int, ...], ...]) -> float:
        value = np.ones(len(w))
        of_unit = [answer for _, unit_, answer in seen if unit_ == j]
        for answer, z in zip(of_unit, patterns, strict=True):
            p = expit(w[:, 0] + w[:, 1:] @ np.array(z))
            value = value * (p if answer else 1 - p)
        return float(mass @ value)

    total = 0.0
    units = sorted({j for _, j, _ in seen})
    for bits in product(product([0, 1], repeat=K), repeat=rows):
        z = np.array(bits)
        on = z.sum(0)
        pi1, pi2 = v1, v1 * v2
        p_z = (
            pi1 ** on[0] * (1 - pi1) ** (rows - on[0]) * pi2 ** on[1] * (1 - pi2) ** (rows - on[1])
        )
        p_x = 1.0
        for j in units:
            p_x *= unit(j, tuple(bits[n] for n, unit_, _ in seen if unit_ == j))
        total += float((prior * p_z).sum()) * p_x
    return float(np.log(total))
