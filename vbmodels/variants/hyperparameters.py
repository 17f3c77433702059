"""Maxima of a Beta's and of a discretised normal's parameters from summed expectations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, logsumexp, polygamma

from vbmodels.core.state import FloatArray

CAP = 1e6
LIMITS_SD = 0.4, 2.0  # of log M's prior


@dataclass(frozen=True)
class BetaPrior:
    """Normal priors on log A and on log(A/B), by mean and precision; precision 0 is none."""

    log_a: float = 0.0
    log_a_precision: float = 0.0
    log_rate: float = 0.0
    log_rate_precision: float = 0.0

    def log_density(self, log_a: FloatArray, log_b: FloatArray) -> FloatArray:
        """Return the log density without its constant, [...]."""
        value = -0.5 * self.log_a_precision * (log_a - self.log_a) ** 2
        return np.asarray(
            value - 0.5 * self.log_rate_precision * (log_a - log_b - self.log_rate) ** 2
        )


FLAT = BetaPrior()


def beta_objective(
    log_a: FloatArray,
    log_b: FloatArray,
    n: FloatArray,
    s1: FloatArray,
    s2: FloatArray,
    prior: BetaPrior = FLAT,
) -> FloatArray:
    """Return A s1 + B s2 - n log B(A, B) (eqs 13, 17, 19 of RVD2's text) plus the log prior."""
    a, b = np.exp(log_a), np.exp(log_b)
    return np.asarray(a * s1 + b * s2 - n * betaln(a, b) + prior.log_density(log_a, log_b))


def beta_maximum(
    n: FloatArray,
    s1: FloatArray,
    s2: FloatArray,
    start: tuple[FloatArray, FloatArray],
    prior: BetaPrior = FLAT,
) -> tuple[FloatArray, FloatArray]:
    """Return the (A, B) that maximise `beta_objective` with A + B <= `CAP`, one pair an entry.

    Newton in (log A, log B) with backtracking; where the optimum lies beyond that, the
    best point on A + B = CAP. Without a prior, entries without data keep their start.

    Parameters
    ----------
    n, s1, s2
        [T] summed weights, E[log mu] and E[log(1-mu)] (so eqs. 18 and 20 of the text, the
        latter with its factors M0 and J put right, vanish together under a flat prior).
    start
        (A, B), each [T].
    prior
        The prior of every entry.
    """
    la, lb = np.log(start[0]), np.log(start[1])
    active = (n > 1e-12) | (prior.log_a_precision * prior.log_rate_precision > 0.0)
    last = np.full(len(n), np.inf)  # how far each moved
    for _ in range(100):
        value = beta_objective(la, lb, n, s1, s2, prior)
        step_a, step_b = _newton_step(la, lb, n, s1, s2, prior)
        size = np.where(active, 1.0, 0.0)
        # Near the maximum Newton's step is right and the objective's rounding is not.
        far = np.maximum(np.abs(step_a), np.abs(step_b)) > 1e-4
        for _ in range(40):
            tried = beta_objective(la + size * step_a, lb + size * step_b, n, s1, s2, prior)
            worse = active & far & ~(tried >= value)
            if not worse.any():
                break
            size = np.where(worse, 0.5 * size, size)
        else:
            size = np.where(worse, 0.0, size)
        la, lb = la + size * step_a, lb + size * step_b
        moved = size * np.maximum(np.abs(step_a), np.abs(step_b))
        # Newton's steps shrink quadratically here until rounding moves them.
        if np.all((moved < 1e-11) | ((moved < 1e-7) & (moved > 0.5 * last))):
            break
        last = moved
    a, b = np.exp(la), np.exp(lb)
    for i in np.flatnonzero(active & (a + b > CAP)):
        a[i], b[i] = _on_cap(n[i], s1[i], s2[i], prior)
    return a, b


def _newton_step(
    la: FloatArray,
    lb: FloatArray,
    n: FloatArray,
    s1: FloatArray,
    s2: FloatArray,
    prior: BetaPrior,
) -> tuple[FloatArray, FloatArray]:
    a, b = np.exp(la), np.exp(lb)
    of_a, of_rate = prior.log_a_precision, prior.log_rate_precision
    pull = of_rate * (la - lb - prior.log_rate)
    data_a = a * (s1 - n * (digamma(a) - digamma(a + b)))
    data_b = b * (s2 - n * (digamma(b) - digamma(a + b)))
    ga = data_a - of_a * (la - prior.log_a) - pull
    gb = data_b + pull
    shared = polygamma(1, a + b)
    # Minus the Hessian; its gradient terms are kept only where they leave it positive.
    haa = n * a * a * (polygamma(1, a) - shared) + of_a + of_rate
    hbb = n * b * b * (polygamma(1, b) - shared) + of_rate
    hab = -n * a * b * shared - of_rate
    definite = (haa > data_a) & ((haa - data_a) * (hbb - data_b) > hab * hab * (1 + 1e-9))
    haa = np.where(definite, haa - data_a, haa)
    hbb = np.where(definite, hbb - data_b, hbb)
    det = np.maximum(haa * hbb - hab * hab, np.finfo(float).tiny)
    step_a = (hbb * ga - hab * gb) / det
    step_b = (haa * gb - hab * ga) / det
    longest = np.maximum(np.abs(step_a), np.abs(step_b))
    scale = np.where(longest > 2.0, 2.0 / np.maximum(longest, 1e-300), 1.0)
    return scale * step_a, scale * step_b


def _on_cap(n: float, s1: float, s2: float, prior: BetaPrior) -> tuple[float, float]:
    def loss(logit: float) -> float:
        la = np.log(CAP) - np.logaddexp(0.0, -logit)
        lb = np.log(CAP) - np.logaddexp(0.0, logit)
        log_a, log_b, count, of_mu, of_nu = (np.asarray(v) for v in (la, lb, n, s1, s2))
        return -float(beta_objective(log_a, log_b, count, of_mu, of_nu, prior))

    best = minimize_scalar(loss, bounds=(-18.0, 18.0), method="bounded", options={"xatol": 1e-10})
    share = 1.0 / (1.0 + np.exp(-best.x))
    return CAP * share, CAP * (1.0 - share)


def log_normal_weights(log_m: FloatArray, mean: float, sd: float) -> FloatArray:
    """Return log p_q, the normal N(mean, sd^2) on the nodes ``log_m`` [Q], normalised there."""
    logits = -0.5 * ((log_m - mean) / sd) ** 2
    return np.asarray(logits - logsumexp(logits))


def log_normal_penalty(mean: float, sd: float, centre: float) -> float:
    """Return the weak hyperprior: 2 observations at ``centre``, 10 of variance 1."""
    return float(-(((mean - centre) / sd) ** 2) - 5.0 * np.log(sd * sd) - 5.0 / sd**2)


def log_normal_maximum(
    log_m: FloatArray,
    n: float,
    s1: float,
    s2: float,
    start: tuple[float, float],
    centre: float,
) -> tuple[float, float]:
    """Return (mean, sd) that maximise sum_u E log p_q plus `log_normal_penalty`.

    sd stays within `LIMITS_SD`, the mean within the nodes.

    Parameters
    ----------
    log_m
        [Q] the nodes.
    n, s1, s2
        Units, and their summed E[log M] and E[log^2 M].
    start
        (mean, sd).
    centre
        Centre of the hyperprior's mean.
    """
    low, high = float(log_m[0]), float(log_m[-1])
    ends = np.log(LIMITS_SD)
    mean, log_sd = start[0], float(np.log(start[1]))
    centred = np.stack([log_m, log_m**2])

    def value_at(mean: float, log_sd: float) -> float:
        log_p = log_normal_weights(log_m, mean, float(np.exp(log_sd)))
        # log p_q is linear in (log M, log^2 M), so their summed expectations suffice.
        slope, bend = mean * np.exp(-2.0 * log_sd), -0.5 * np.exp(-2.0 * log_sd)
        log_z = float((slope * centred[0] + bend * centred[1] - log_p)[0])
        penalty = log_normal_penalty(mean, float(np.exp(log_sd)), centre)
        return float(slope * s1 + bend * s2 - n * log_z + penalty)

    for _ in range(200):
        gradient, curvature = _log_normal_derivatives(log_m, n, s1, s2, mean, log_sd, centre)
        free = np.array([True, not _held(log_sd, gradient[1], ends)])
        free[0] = not _held(mean, gradient[0], np.array([low, high]))
        step = np.zeros(2)
        if free.any():
            values, vectors = np.linalg.eigh(curvature[np.ix_(free, free)])
            positive = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
            step[free] = vectors @ ((vectors.T @ gradient[free]) / positive)
        step *= min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        before, length = value_at(mean, log_sd), 1.0
        for _ in range(40):
            moved = float(np.clip(mean + length * step[0], low, high))
            moved_sd = float(np.clip(log_sd + length * step[1], *ends))
            near = float(np.abs(step).max()) < 1e-4
            if near or value_at(moved, moved_sd) >= before:
                mean, log_sd = moved, moved_sd
                break
            length *= 0.5
        if float(np.abs(step).max()) < 1e-12:
            break
    return mean, float(np.exp(log_sd))


def log_normal_step(
    log_m: FloatArray,
    n: float,
    s1: float,
    s2: float,
    covariance: FloatArray,
    start: tuple[float, float],
    centre: float,
) -> tuple[float, float]:
    """Return (mean, sd) after one Newton step on the log marginal likelihood.

    The score is that of the expected complete data (`log_normal_maximum`), the information
    that less the variance of the score given the data (Louis 1982).

    Parameters
    ----------
    log_m, n, s1, s2, start, centre
        See `log_normal_maximum`.
    covariance
        [3] summed over units: variance of log M, covariance with log^2 M, variance of that.
    """
    mean, log_sd = start[0], float(np.log(start[1]))
    gradient, curvature = _log_normal_derivatives(log_m, n, s1, s2, mean, log_sd, centre)
    # log p_q moves with d / s^2 and d^2 / s^2, d = log M - mean.
    turn = np.array([[1.0, 0.0], [-2.0 * mean, 1.0]]) / start[1] ** 2
    matrix = np.array([[covariance[0], covariance[1]], [covariance[1], covariance[2]]])
    free = np.array(
        [
            not _held(mean, gradient[0], log_m[[0, -1]]),
            not _held(log_sd, gradient[1], np.log(LIMITS_SD)),
        ]
    )
    step = np.zeros(2)
    if free.any():
        block = np.ix_(free, free)
        values, vectors = np.linalg.eigh((curvature - turn @ matrix @ turn.T)[block])
        least = 0.01 * float(np.abs(np.linalg.eigvalsh(curvature[block])).max())
        step[free] = vectors @ ((vectors.T @ gradient[free]) / np.maximum(values, least))
    step *= min(1.0, 0.7 / max(float(np.abs(step).max()), 1e-300))
    sd = np.exp(np.clip(log_sd + step[1], *np.log(LIMITS_SD)))
    return float(np.clip(mean + step[0], log_m[0], log_m[-1])), float(sd)


def _held(x: float, slope: float, ends: FloatArray) -> bool:
    """Whether a coordinate stands at an end of its range and wants to go further."""
    near = 1e-9  # the logarithm of an end's exponential is not the end
    return bool((x <= ends[0] + near and slope < 0.0) or (x >= ends[1] - near and slope > 0.0))


def _log_normal_derivatives(
    log_m: FloatArray, n: float, s1: float, s2: float, mean: float, log_sd: float, centre: float
) -> tuple[FloatArray, FloatArray]:
    """Return gradient and minus the Hessian in (mean, log sd)."""
    variance = float(np.exp(2.0 * log_sd))
    p = np.exp(log_normal_weights(log_m, mean, float(np.sqrt(variance))))
    d = log_m - mean
    m1, m2, m3, m4 = (float(p @ d**k) for k in (1, 2, 3, 4))
    first, second = s1 - n * mean, s2 - 2.0 * mean * s1 + n * mean * mean
    off = mean - centre
    g_mean = (first - n * m1 - 2.0 * off) / variance
    g_sd = (second - n * m2 + 2.0 * off * off + 10.0) / variance - 10.0
    h_mean = (n * (m2 - m1 * m1) / variance + 2.0) / variance
    h_cross = 2.0 * g_mean + n * (m3 - m1 * m2) / variance**2
    h_sd = 2.0 * (g_sd + 10.0) + n * (m4 - m2 * m2) / variance**2
    return np.array([g_mean, g_sd]), np.array([[h_mean, h_cross], [h_cross, h_sd]])
