# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled forms of RVD2's local step and sums, in the mean field.

With q(mu_j) = Beta(delta, gamma) a location's bound is, with m = E[mu],

    N E[lgamma(M) - lgamma(M mu) - lgamma(M (1-mu))]
        + sum_i log B(r_i + M m, n_i - r_i + M (1-m)) - KL(q || prior).

An expectation f = E_q[F] has df/d(delta) = Cov(F, log mu), and its second derivatives are third
central moments, so the quadrature that gives the value gives all derivatives.

At a node of mu, with a = M mu, b = M (1-mu) and N replicates with reads, the integrand is

    F = -N lgamma(a) + P(mu),    P = N [lgamma(M) - lgamma(b)].

b = M - M mu, so for small mu P is a polynomial in mu, the Taylor series of lgamma about M. Its
coefficients are computed once a location and M (`series_coefficients`), and a node costs a Horner
scheme in place of a log-gamma; P' and P'' give the derivatives in log M as well, because psi(b)
and psi'(b) are theirs. Loops over nodes have no branch, which the compiler turns into vector
instructions.
"""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import (
    HALF_LOG_TWO_PI,
    dot,
    exp,
    log_beta,
    log_gamma,
    log_gamma_any,
    polygammas,
    psi_gap,
    softplus,
    tetragamma,
)

# The series' remainder is M mu^9/72: 1e-11 at most for M <= 1e6.
_DEGREE = 8
_SERIES_MU = 0.02
_SERIES_M = 50.0
DIRECT = _DEGREE + 1
# Rows of ``nodes``.
_LMU, _LNU, WEIGHT, F, F1, F2, _MU, _NU = range(8)
ROWS = 8


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add_series(c, m, sign, coefficients):
    """Add sign times the series of lgamma(c - m mu) in mu, from its square on; c >= 50.

    The k-th derivative of lgamma from Stirling's series, times (-m)^k / k!.
    """
    v = 1.0 / c
    w = v * v
    ratio = m * v
    power = ratio
    for k in range(2, _DEGREE + 1):
        rest = 0.5 / k + v * (1 / 12.0 - w * ((k + 1) * (k + 2) / 720.0))
        coefficients[k] += sign * power * (m / (k * (k - 1.0)) + ratio * rest)
        power *= ratio


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def series_coefficients(n, m, coefficients):
    """Fill the polynomial P(mu) [0 .. degree] and, behind it, N lgamma(M); return N."""
    for k in range(DIRECT + 1):
        coefficients[k] = 0.0
    used = 0
    for i in range(n.shape[0]):
        if n[i] > 0:
            used += 1
    if used > 0 and m >= _SERIES_M:
        _add_series(m, m, -float(used), coefficients)
    coefficients[1] = used * m * polygammas(m)[0]
    coefficients[DIRECT] = used * log_gamma(m)
    return used


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _series(nodes, first, coefficients, with_m):
    """Fill F with P(mu) at the first nodes and, if ``with_m``, F1 and F2 with P' and P''."""
    f, f1, f2, mu = nodes[F], nodes[F1], nodes[F2], nodes[_MU]
    if not with_m:
        c = coefficients
        for k in range(first):
            v = mu[k]
            w = v * v
            even = ((c[8] * w + c[6]) * w + c[4]) * w + c[2]
            f[k] = c[0] + v * (c[1] + v * (even + v * ((c[7] * w + c[5]) * w + c[3])))
        return
    for k in range(first):
        v = mu[k]
        p = p1 = p2 = 0.0
        for i in range(_DEGREE, -1, -1):
            p2 = p2 * v + 2.0 * p1
            p1 = p1 * v + p
            p = p * v + coefficients[i]
        f[k], f1[k], f2[k] = p, p1, p2


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _direct(m, nu, used, coefficients, with_m):
    """Return P(mu) and, if ``with_m``, P'(mu) and P''(mu), without the series."""
    b = m * nu
    psi_b, tri_b = polygammas(b) if with_m else (0.0, 0.0)
    p = coefficients[DIRECT]
    return p - used * log_gamma(b), used * m * psi_b, -used * m * m * tri_b


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _add_side_a(m, nodes, used, with_m):
    """Add the side of a to F, and its derivatives in log M to F1 and F2 if ``with_m``."""
    size = nodes.shape[1]
    f, mu = nodes[F], nodes[_MU]
    for k in range(size):
        f[k] -= used * (log_gamma_any(m * mu[k]) + HALF_LOG_TWO_PI)
    if with_m:
        for k in range(size):
            a = m * mu[k]
            psi, tri = polygammas(a)
            nodes[F1, k] -= used * a * psi
            nodes[F2, k] -= used * a * a * tri


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def integrand(m, nodes, used, coefficients, with_m):
    """Fill the integrand F at the nodes of mu.

    With ``with_m`` also its slope in log M (F1, without what does not depend on mu), and
    F2, which with F1 makes the curvature: d2F/dL2 = F1 + F2.
    """
    size = nodes.shape[1]
    first = 0
    if m >= _SERIES_M:
        while first < size and nodes[_MU, first] < _SERIES_MU:
            first += 1
    _series(nodes, first, coefficients, with_m)
    for k in range(first, size):
        values = _direct(m, nodes[_NU, k], used, coefficients, with_m)
        nodes[F, k], nodes[F1, k], nodes[F2, k] = values
    if with_m:
        for k in range(size):
            nu = nodes[_NU, k]
            nodes[F1, k] *= -nu
            nodes[F2, k] *= nu * nu
    _add_side_a(m, nodes, used, with_m)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def place(nodes, delta, gamma, centre, scale, t_low, step, log_beta_q):
    """Fill log mu, log(1-mu), mu, 1-mu and the weights of q(mu) at the nodes; they sum to 1.

    ``log_beta_q`` keeps the weights in range. What it and the tails round off is the same factor
    in all of them, and F is millions where counts are: unscaled, the bound wavers by 1e-5.
    """
    l1, l2, weight, mu, nu = nodes[_LMU], nodes[_LNU], nodes[WEIGHT], nodes[_MU], nodes[_NU]
    density = scale * step
    total = 0.0
    for k in range(nodes.shape[1]):
        e = exp(t_low + step * k)
        inverse = 1.0 / e
        x = centre + scale * 0.5 * (e - inverse)
        small = exp(-abs(x))
        soft = softplus(small)
        l1[k] = min(x, 0.0) - soft
        l2[k] = -max(x, 0.0) - soft
        larger = 1.0 / (1.0 + small)
        smaller = small * larger
        mu[k] = larger if x >= 0.0 else smaller
        nu[k] = smaller if x >= 0.0 else larger
        weight[k] = exp(delta * l1[k] + gamma * l2[k] - log_beta_q) * density * 0.5 * (e + inverse)
        total += weight[k]
    for k in range(nodes.shape[1]):
        weight[k] /= total


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "nsz", "contract"},
    forceinline=True,
)
def moments(nodes, row, mean1, mean2, mean_f):
    """Return covariances under q(mu) of F with log mu, log(1-mu), their squares and product."""
    g1 = g2 = h11 = h12 = h22 = 0.0
    l1, l2, weight, f = nodes[_LMU], nodes[_LNU], nodes[WEIGHT], nodes[row]
    for k in range(nodes.shape[1]):
        c1, c2 = l1[k] - mean1, l2[k] - mean2
        wf = weight[k] * (f[k] - mean_f)
        g1 += wf * c1
        g2 += wf * c2
        h11 += wf * c1 * c1
        h12 += wf * c1 * c2
        h22 += wf * c2 * c2
    return g1, g2, h11, h12, h22


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def theta_terms(r, n, m, mean, out):
    """Fill sum_i log B(r + M m, n - r + M (1-m)) (eq 5), its slopes in m and L = log M.

    ``out`` is (P, P_m, P_L, P_mm, P_mL, P_LL).
    """
    rest = 1.0 - mean
    value = p_m = p_l = p_mm = p_ml = p_ll = 0.0
    for i in range(r.shape[0]):
        if n[i] > 0:
            alpha, beta = r[i] + m * mean, n[i] - r[i] + m * rest
            value += log_beta(alpha, beta)
            pa, ta = polygammas(alpha)
            pb, tb = polygammas(beta)
            pt, tt = polygammas(n[i] + m)
            p_m += pa - pb
            p_l += mean * pa + rest * pb - pt
            p_mm += ta + tb
            p_ml += mean * ta - rest * tb
            p_ll += mean * mean * ta + rest * rest * tb - tt
    out[0], out[1], out[2], out[3] = value, m * p_m, m * p_l, m * m * p_mm
    out[4] = out[1] + m * m * p_ml
    out[5] = out[2] + m * m * p_ll


_TAIL = 18.0
_LOW = 0.0
_HIGH = math.log(1e7)
# In logarithms Newton's error is about the square of its step: below .03 a step towards the
# maximum of a concave point cannot lower the bound, and after one of 3e-5 1e-9 is left.
_SAFE = 0.03
_DONE = 3e-5


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def _derivatives(point, trigammas, means, prior, used, theta, nodes, gradient, hessian):
    """Fill gradient and Hessian in (log delta, log gamma, log M).

    Parameters
    ----------
    point
        delta, gamma, M, and log M less its prior mean.
    trigammas
        Those of delta, gamma and delta + gamma.
    means
        E[log mu], E[log(1 - mu)] and E[F].
    """
    delta, gamma, m, off = point
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
    here, trigammas, means = (delta, gamma, m, off), (tri_d, tri_g, tri_s), (mean1, mean2, mean_f)
    _derivatives(here, trigammas, means, prior, used, theta, nodes, gradient, hessian)
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
    points = start.copy()
    nodes = np.empty((ROWS, size))
    coefficients = np.empty(DIRECT + 7)
    gradient, step, trial = np.zeros(3), np.zeros(3), np.zeros(3)
    hessian, low = np.zeros((3, 3)), np.empty((3, 3))
    full = np.empty(5)
    full[:4] = prior
    full[4] = log_beta(prior[0], prior[1])
    for j in range(len(points)):
        point = points[j]
        used = series_coefficients(n[j], math.exp(point[2]), coefficients)
        for _ in range(60):
            value = _bound(
                r[j], n[j], point, full, True, coefficients, used, nodes, gradient, hessian
            )
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
                )
                if tried >= value - 1e-13 * abs(value):
                    break
                length *= 0.5
            else:
                trial[:] = point
                longest = 0.0
            point[:] = trial
            if longest < _DONE:
                break
    return points


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
