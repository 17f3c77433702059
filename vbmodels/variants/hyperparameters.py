"""Maxima of a Beta's and of a discretised normal's parameters from summed expectations."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import betaln, digamma, logsumexp, polygamma

from vbmodels.state import FloatArray

CAP = 1e6


def beta_objective(
    log_a: FloatArray,
    log_b: FloatArray,
    n: FloatArray,
    s1: FloatArray,
    s2: FloatArray,
    *,
    centre: float,
    weight: float,
) -> FloatArray:
    """Return A s1 + B s2 - n log B(A, B) - weight (log A - centre)^2 / 2."""
    a, b = np.exp(log_a), np.exp(log_b)
    return np.asarray(a * s1 + b * s2 - n * betaln(a, b) - 0.5 * weight * (log_a - centre) ** 2)


def beta_maximum(
    n: FloatArray,
    s1: FloatArray,
    s2: FloatArray,
    start: tuple[FloatArray, FloatArray],
    *,
    centre: float = 0.0,
    weight: float = 0.0,
    cap: float = CAP,
) -> tuple[FloatArray, FloatArray]:
    """Return the (A, B) that maximise `beta_objective` with A + B <= cap, one pair an entry.

    Newton in (log A, log B) with backtracking; where the optimum lies beyond the cap, the
    best point on A + B = cap. Entries without data (n = 0) keep their start.

    Parameters
    ----------
    n, s1, s2
        [T] summed weights, E[log mu] and E[log(1-mu)] (so eqs. 18 and 20 of the text, the
        latter with its factors M0 and J put right, vanish together at weight = 0).
    start
        (A, B), each [T].
    centre, weight
        Mean and precision of a normal prior on log A.
    cap
        Largest A + B = M0.
    """
    fixed = {"centre": centre, "weight": weight}
    la, lb = np.log(start[0]), np.log(start[1])
    active = n > 1e-12
    value = beta_objective(la, lb, n, s1, s2, **fixed)
    for _ in range(100):
        step_a, step_b = _newton_step(la, lb, n, s1, s2, centre, weight)
        size = np.where(active, 1.0, 0.0)
        for _ in range(40):
            tried = beta_objective(la + size * step_a, lb + size * step_b, n, s1, s2, **fixed)
            worse = active & ~(tried >= value - 1e-12 * np.abs(value))
            if not worse.any():
                break
            size = np.where(worse, 0.5 * size, size)
        else:
            size = np.where(worse, 0.0, size)
        la, lb = la + size * step_a, lb + size * step_b
        value = beta_objective(la, lb, n, s1, s2, **fixed)
        if np.all(size * np.maximum(np.abs(step_a), np.abs(step_b)) < 1e-11):
            break
    a, b = np.exp(la), np.exp(lb)
    for i in np.flatnonzero(active & (a + b > cap)):
        a[i], b[i] = _on_cap(n[i], s1[i], s2[i], centre, weight, cap)
    return a, b


def _newton_step(
    la: FloatArray,
    lb: FloatArray,
    n: FloatArray,
    s1: FloatArray,
    s2: FloatArray,
    centre: float,
    weight: float,
) -> tuple[FloatArray, FloatArray]:
    a, b = np.exp(la), np.exp(lb)
    ga = a * (s1 - n * (digamma(a) - digamma(a + b))) - weight * (la - centre)
    gb = b * (s2 - n * (digamma(b) - digamma(a + b)))
    shared = polygamma(1, a + b)
    # Minus the Hessian; its gradient terms are kept only where they leave it positive.
    haa = n * a * a * (polygamma(1, a) - shared) + weight
    hbb = n * b * b * (polygamma(1, b) - shared)
    hab = -n * a * b * shared
    full_a = haa - (ga + weight * (la - centre))
    full_b = hbb - gb
    definite = (full_a > 0) & (full_a * full_b > hab * hab * (1 + 1e-9))
    haa, hbb = np.where(definite, full_a, haa), np.where(definite, full_b, hbb)
    det = np.maximum(haa * hbb - hab * hab, np.finfo(float).tiny)
    step_a = (hbb * ga - hab * gb) / det
    step_b = (haa * gb - hab * ga) / det
    longest = np.maximum(np.abs(step_a), np.abs(step_b))
    scale = np.where(longest > 2.0, 2.0 / np.maximum(longest, 1e-300), 1.0)
    return scale * step_a, scale * step_b


def _on_cap(
    n: float, s1: float, s2: float, centre: float, weight: float, cap: float
) -> tuple[float, float]:
    def loss(logit: float) -> float:
        la = np.log(cap) - np.logaddexp(0.0, -logit)
        lb = np.log(cap) - np.logaddexp(0.0, logit)
        one, other, *sums = (np.asarray(v) for v in (la, lb, n, s1, s2))
        return -float(beta_objective(one, other, *sums, centre=centre, weight=weight))

    best = minimize_scalar(loss, bounds=(-18.0, 18.0), method="bounded", options={"xatol": 1e-10})
    share = 1.0 / (1.0 + np.exp(-best.x))
    return cap * share, cap * (1.0 - share)


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
    limits: tuple[float, float] = (0.4, 2.0),
) -> tuple[float, float]:
    """Return (mean, sd) that maximise sum_u E log p_q plus `log_normal_penalty`.

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
    limits
        Range of sd; the mean stays within the nodes.
    """
    scale = 1.0 / max(n, 1.0)

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        mean, log_sd = point
        sd = np.exp(log_sd)
        logits = -0.5 * ((log_m - mean) / sd) ** 2
        log_z = logsumexp(logits)
        p = np.exp(logits - log_z)
        spread = s2 - 2.0 * mean * s1 + n * mean * mean
        value = -0.5 * spread / sd**2 - n * log_z + log_normal_penalty(mean, sd, centre)
        expected = p @ log_m
        expected_spread = p @ (log_m - mean) ** 2
        d_mean = (s1 - n * expected - 2.0 * (mean - centre)) / sd**2
        d_log_sd = (spread - n * expected_spread + 2.0 * (mean - centre) ** 2 + 10.0) / sd**2 - 10.0
        return -value * scale, -np.array([d_mean, d_log_sd]) * scale

    bounds = [(float(log_m[0]), float(log_m[-1])), tuple(np.log(limits))]
    best = minimize(
        loss,
        np.array([start[0], np.log(start[1])]),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 200},
    )
    return float(best.x[0]), float(np.exp(best.x[1]))
