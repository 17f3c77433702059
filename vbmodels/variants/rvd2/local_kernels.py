# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled forms of RVD2's local step and sums, in the mean field.

With q(mu_j) = Beta(delta, gamma) a location's bound is, with m = E[mu],

    N E[lgamma(M) - lgamma(M mu) - lgamma(M (1-mu))]
        + sum_i log B(r_i + M m, n_i - r_i + M (1-m)) - KL(q || prior).

An expectation f = E_q[F] has df/d(delta) = Cov(F, log mu), and its second derivatives are third
central moments, so the quadrature that gives the value gives all derivatives.
"""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import (
    HALF_LOG_TWO_PI,
    dot,
    log_beta,
    log_gamma,
    polygammas,
    psi_gap,
    tetragamma,
)
from vbmodels.variants.rvd2.integrand_kernels import (
    DIRECT,
    F1,
    F2,
    ROWS,
    WEIGHT,
    F,
    integrand,
    moments,
    place,
    series_coefficients,
    theta_terms,
)

_TAIL = 18.0
_LOW = 0.0
_HIGH = math.log(1e7)
# In logarithms Newton's error is about the square of its step: below .03 a step towards the
# maximum of a concave point cannot lower the bound, and after one of 3e-5 1e-9 is left.
_SAFE = 0.03
_DONE = 3e-5


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _derivatives(at, trigammas, means, prior, used, theta, nodes, gradient, hessian):
    """Fill gradient and Hessian in (log delta, log gamma, log M).

    Parameters
    ----------
    at
        delta, gamma, M, and log M less its prior mean.
    trigammas
        Those of delta, gamma and delta + gamma.
    means
        E[log mu], E[log(1 - mu)] and E[F].
    """
    delta, gamma, m, off = at
    tri_d, tri_g, tri_s = trigammas
    mean1, mean2, mean_f = means
    a0, b0 = prior[0], prior[1]
    s = delta + gamma
    psi_m, tri_m = polygammas(m)
    for k in range(nodes.shape[1]):
        # Large and of opposite sign to the rest, so they must meet the same weights.
        nodes[F1, k] += used * m * psi_m
        nodes[F2, k] += used * m * m * tri_m
    weight = nodes[WEIGHT]
    mean_f1 = dot(weight, nodes[F1])
    mean_f2 = dot(weight, nodes[F2]) + mean_f1
    gradient[2] = mean_f1 - prior[3] * off + theta[2]
    hessian[2, 2] = mean_f2 - prior[3] + theta[5]
    g1, g2, h11, h12, h22 = moments(nodes, F, mean1, mean2, mean_f)
    h13, h23 = moments(nodes, F1, mean1, mean2, mean_f1)[:2]
    rest = a0 + b0 - s
    tet_s = tetragamma(s)
    g1 += (a0 - delta) * tri_d - rest * tri_s
    g2 += (b0 - gamma) * tri_g - rest * tri_s
    cross = tri_s - rest * tet_s
    h11 += (a0 - delta) * tetragamma(delta) - tri_d + cross
    h22 += (b0 - gamma) * tetragamma(gamma) - tri_g + cross
    h12 += cross
    m1, m2 = gamma / (s * s), -delta / (s * s)
    s3 = s * s * s
    p_m, p_mm, p_ml = theta[1], theta[3], theta[4]
    g1 += p_m * m1
    g2 += p_m * m2
    h11 += p_mm * m1 * m1 - p_m * 2.0 * gamma / s3
    h12 += p_mm * m1 * m2 + p_m * (delta - gamma) / s3
    h22 += p_mm * m2 * m2 + p_m * 2.0 * delta / s3
    h13 += p_ml * m1
    h23 += p_ml * m2
    gradient[0], gradient[1] = delta * g1, gamma * g2
    hessian[0, 0] = delta * delta * h11 + gradient[0]
    hessian[1, 1] = gamma * gamma * h22 + gradient[1]
    hessian[0, 1] = hessian[1, 0] = delta * gamma * h12
    hessian[0, 2] = hessian[2, 0] = delta * h13
    hessian[1, 2] = hessian[2, 1] = gamma * h23


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _bound(r, n, point, prior, with_q, coefficients, used, nodes, gradient, hessian):
    """Return the value at one location; fill gradient and Hessian where ``with_q``.

    The derivatives are those in (log delta, log gamma, log M). ``nodes`` [8, size] is
    filled with what `place` and `integrand` say.
    """
    size = nodes.shape[1]
    delta, gamma, m = math.exp(point[0]), math.exp(point[1]), math.exp(point[2])
    s = delta + gamma
    a0, b0 = prior[0], prior[1]
    psi_d, tri_d = polygammas(delta)
    tri_g = polygammas(gamma)[1]
    psi_s, tri_s = polygammas(s)
    mean1, mean2 = psi_d - psi_s, psi_gap(delta, gamma)
    log_beta_q = log_beta(delta, gamma)
    value = log_beta_q - prior[4]
    value += (a0 - delta) * mean1 + (b0 - gamma) * mean2
    off = point[2] - prior[2]
    value -= 0.5 * prior[3] * off * off
    scale = math.sqrt(1.0 / delta + 1.0 / gamma)
    t_low = -math.asinh(_TAIL / delta / scale + 6.0)
    step = (math.asinh(_TAIL / gamma / scale + 6.0) - t_low) / (size - 1)
    centre = point[0] - point[1]
    place(nodes, delta, gamma, centre, scale, t_low, step, log_beta_q)
    integrand(m, nodes, used, coefficients, with_q)
    weight = nodes[WEIGHT]
    mean_f = dot(weight, nodes[F])
    value += mean_f
    theta = coefficients[DIRECT + 1 :]
    mean = delta / s
    theta_terms(r, n, m, mean, theta)
    value += theta[0]
    if not with_q:
        return value
    at, trigammas, means = (delta, gamma, m, off), (tri_d, tri_g, tri_s), (mean1, mean2, mean_f)
    _derivatives(at, trigammas, means, prior, used, theta, nodes, gradient, hessian)
    return value


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _ascent(gradient, hessian, low, step):
    """Solve (-H + shift) step = gradient, the shift raised until Cholesky succeeds.

    ``low`` [3, 3] is room for the factor.
    """
    size = 3
    shift = 0.0
    largest = 1e-12
    for i in range(size):
        largest = max(largest, abs(hessian[i, i]))
    for _ in range(40):
        good = True
        for i in range(size):
            for j in range(i + 1):
                total = -hessian[i, j] + (shift if i == j else 0.0)
                for k in range(j):
                    total -= low[i, k] * low[j, k]
                if i == j:
                    if total <= 1e-12 * largest:
                        good = False
                        break
                    low[i, i] = math.sqrt(total)
                else:
                    low[i, j] = total / low[j, j]
            if not good:
                break
        if good:
            break
        shift = max(4.0 * shift, 1e-3 * largest)
    for i in range(size):
        total = gradient[i]
        for k in range(i):
            total -= low[i, k] * step[k]
        step[i] = total / low[i, i]
    longest = 0.0
    for i in range(size - 1, -1, -1):
        total = step[i]
        for k in range(i + 1, size):
            total -= low[k, i] * step[k]
        step[i] = total / low[i, i]
        longest = max(longest, abs(step[i]))
    if longest > 1.5:
        for i in range(size):
            step[i] *= 1.5 / longest
    return longest, shift


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def newton(r, n, start, prior, size):
    """Return [J, 3] (log delta, log gamma, log M).

    Newton with a Levenberg shift where minus the Hessian is not positive definite, steps of at most
    1.5, and halving until the bound does not fall.
    """
    found = start.copy()
    nodes = np.empty((ROWS, size))
    coefficients = np.empty(DIRECT + 7)
    gradient, step, trial = np.zeros(3), np.zeros(3), np.zeros(3)
    hessian, low = np.zeros((3, 3)), np.empty((3, 3))
    full = np.empty(5)
    full[:4] = prior
    full[4] = log_beta(prior[0], prior[1])
    for j in range(len(found)):
        point = found[j]
        used = series_coefficients(n[j], math.exp(point[2]), coefficients)
        for _ in range(60):
            value = _bound(
                r[j], n[j], point, full, True, coefficients, used, nodes, gradient, hessian
            )  # fmt: skip
            longest, shift = _ascent(gradient, hessian, low, step)
            length = 1.0
            for _ in range(30):
                for i in range(3):
                    trial[i] = point[i] + length * step[i]
                trial[2] = min(max(trial[2], _LOW), _HIGH)
                used = series_coefficients(n[j], math.exp(trial[2]), coefficients)
                if longest < _SAFE and shift == 0.0:
                    break
                tried = _bound(
                    r[j], n[j], trial, full, False, coefficients, used, nodes, gradient, hessian
                )  # fmt: skip
                if tried >= value - 1e-13 * abs(value):
                    break
                length *= 0.5
            else:
                trial[:] = point
                longest = 0.0
            point[:] = trial
            if longest < _DONE:
                break
    return found


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def sums(r, n, points, prior, size):
    """Return [J, 4] at given points [J, 3].

    Value, E[log mu], E[log(1-mu)], and log C(n, r) summed over replicates.
    """
    result = np.zeros((len(points), 4))
    nodes = np.empty((ROWS, size))
    coefficients = np.empty(DIRECT + 7)
    gradient, hessian = np.zeros(3), np.zeros((3, 3))
    full = np.empty(5)
    full[:4] = prior
    full[4] = log_beta(prior[0], prior[1])
    for j in range(len(points)):
        delta, gamma = math.exp(points[j, 0]), math.exp(points[j, 1])
        used = series_coefficients(n[j], math.exp(points[j, 2]), coefficients)
        result[j, 0] = _bound(
            r[j], n[j], points[j], full, False, coefficients, used, nodes, gradient, hessian
        )
        result[j, 1] = polygammas(delta)[0] - polygammas(delta + gamma)[0]
        result[j, 2] = psi_gap(delta, gamma)
        for i in range(r.shape[1]):
            chosen = log_gamma(n[j, i] + 1.0) - log_gamma(n[j, i] - r[j, i] + 1.0)
            result[j, 3] += chosen - log_gamma(r[j, i] + 1.0) - HALF_LOG_TWO_PI
    return result
