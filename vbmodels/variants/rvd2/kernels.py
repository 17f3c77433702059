# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled forms of RVD2's local step and sums; `objective` holds the mathematics and reference.

At a node of mu, with a = M mu, b = M (1-mu), the integrand F splits into a side of a, whose
terms are few (reads that are errors), and one of b:

    collapsed    F = sum_i log rising(a, r_i) + P(mu),
                 P = sum_i [lgamma(b + n_i - r_i) - lgamma(b) - lgamma(M + n_i) + lgamma(M)]
    mean field   F = -N lgamma(a) + P(mu),    P = N [lgamma(M) - lgamma(b)]

b + n_i - r_i = c_i - M mu with c_i = M + n_i - r_i, so for small mu P is a polynomial in mu,
the Taylor series of lgamma about c_i and M. Its coefficients are computed once a location
and M (`_coefficients`), and a node costs a Horner scheme in place of 2 N log-gammas; P' and
P'' give the derivatives in log M as well, because psi(b) and psi'(b) are theirs.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from vbmodels.variants.elementary.kernels import (
    HALF_LOG_TWO_PI,
    dot,
    exp,
    log,
    log_gamma,
    log_gamma_any,
    log_rising,
    polygammas,
    softplus,
    stirling,
)

_TAIL = 18.0
_LOW = 0.0
_HIGH = math.log(1e7)
# The series' remainder is M mu^9/72: 1e-11 at most for M <= 1e6.
_DEGREE = 8
_SERIES_MU = 0.02
_SERIES_M = 50.0
_DIRECT = _DEGREE + 1
_FEW = 12
_MOST_FACTORS = 20  # between 1e-300 and 1e300 for 1e-15 < M mu < 1e7
# Rows of ``nodes``.
_LMU, _LNU, _WEIGHT, _F, _F1, _F2, _MU, _NU, _PRODUCT = range(9)
_ROWS = 9
# In logarithms Newton's error is about the square of its step: below .03 a step towards the
# maximum of a concave point cannot lower the bound, and after one of 3e-5 1e-9 is left.
_SAFE = 0.03
_DONE = 3e-5


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _tetragamma(z):
    """Return psi''(z) for z > 0, by recurrence to z >= 10 and the asymptotic series."""
    total = 0.0
    while z < 10.0:
        total -= 2.0 / (z * z * z)
        z += 1.0
    w = 1.0 / (z * z)
    series = 0.5 - w * (1 / 6.0 - w * (1 / 6.0 - w * (3 / 10.0 - w * (5 / 6.0 - w * 691 / 210.0))))
    return total - w * (1.0 + 1.0 / z + w * series)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _large_rising(c, r):
    """Return lgamma(c + r) - lgamma(c) for c >= 10, not as the difference of two large values."""
    total = c + r
    rise = (total - 0.5) * math.log1p(r / c) + r * math.log(c) - r
    return rise + (stirling(total) - stirling(c))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _log_beta(a, b):
    """Return log B(a, b); for a large argument without the difference of two log-gammas."""
    small, large = min(a, b), max(a, b)
    if large < 10.0:
        return log_gamma(a) + log_gamma(b) - log_gamma(a + b) + HALF_LOG_TWO_PI
    return log_gamma(small) + HALF_LOG_TWO_PI - _large_rising(large, small)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _psi_gap(a, b):
    """Return psi(b) - psi(a + b), for a large b without the difference of two of size log b."""
    if b < 20.0:
        return polygammas(b)[0] - polygammas(a + b)[0]
    total = a + b
    v, u = 1.0 / b, 1.0 / total
    w, x = v * v, u * u
    gap = a * v * u
    rest = 1 / 12.0 - (w + x) / 120.0 + (w * w + w * x + x * x) / 252.0
    return -math.log1p(a * v) - 0.5 * gap - (v + u) * gap * rest


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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _coefficients(r, n, m, mean_field, coefficients):
    """Fill the polynomial P(mu) [0 .. degree] and, behind it, what P is without the series.

    The last entry is -sum_i log rising(M, n_i) if collapsed, N lgamma(M) in the mean field.
    """
    for k in range(_DIRECT + 1):
        coefficients[k] = 0.0
    used = 0
    series = m >= _SERIES_M
    for i in range(r.shape[0]):
        if n[i] > 0:
            used += 1
            if not mean_field:
                coefficients[_DIRECT] -= (
                    _large_rising(m, n[i]) if m >= 10.0 else log_rising(m, n[i])
                )
                if series:
                    c = m + (n[i] - r[i])
                    coefficients[0] -= _large_rising(c, r[i])
                    coefficients[1] += m * _psi_gap(float(n[i] - r[i]), m)
                    _add_series(c, m, 1.0, coefficients)
    if used > 0 and series:
        _add_series(m, m, -float(used), coefficients)
    if mean_field:
        coefficients[1] = used * m * polygammas(m)[0]
        coefficients[_DIRECT] = used * log_gamma(m)
    return used


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _series(nodes, first, coefficients, with_m):
    """Fill F with P(mu) at the first nodes and, if ``with_m``, F1 and F2 with P' and P''."""
    f, f1, f2, mu = nodes[_F], nodes[_F1], nodes[_F2], nodes[_MU]
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _direct(r, n, m, nu, used, mean_field, coefficients, with_m):
    """Return P(mu) and, if ``with_m``, P'(mu) and P''(mu), without the series."""
    p1 = p2 = 0.0
    b = m * nu
    p = coefficients[_DIRECT]
    psi_b, tri_b = polygammas(b) if with_m else (0.0, 0.0)
    gamma_b = log_gamma(b)
    if mean_field:
        return p - used * gamma_b, used * m * psi_b, -used * m * m * tri_b
    for i in range(r.shape[0]):
        rest = n[i] - r[i]
        if rest > 0:
            p += log_gamma(b + rest) - gamma_b if rest > _FEW else log_rising(b, rest)
            if with_m:
                psi, tri = polygammas(b + rest)
                p1 -= m * (psi - psi_b)
                p2 += m * m * (tri - tri_b)
    return p, p1, p2


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_few(r, m, nodes, with_m):
    """Add log rising(M mu, r_i) of replicates with few reads; with its derivatives in log M."""
    size = nodes.shape[1]
    f, f1, f2, mu = nodes[_F], nodes[_F1], nodes[_F2], nodes[_MU]
    product = nodes[_PRODUCT]
    factors = 0
    for i in range(r.shape[0]):
        if r[i] > _FEW:
            continue
        for j in range(r[i]):
            if factors == 0:
                for k in range(size):
                    product[k] = 1.0
            more = float(j)
            for k in range(size):
                product[k] *= m * mu[k] + more
            if with_m:
                for k in range(size):
                    a = m * mu[k]
                    share = a / (a + more)
                    f1[k] += share
                    f2[k] -= share * share
            factors += 1
            if factors == _MOST_FACTORS:
                factors = 0
                for k in range(size):
                    f[k] += log(product[k])
    if factors > 0:
        for k in range(size):
            f[k] += log(product[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_side_a(r, m, nodes, used, mean_field, with_m):
    """Add the side of a to F, and its derivatives in log M to F1 and F2 if ``with_m``."""
    size = nodes.shape[1]
    f, mu = nodes[_F], nodes[_MU]
    if mean_field:
        for k in range(size):
            f[k] -= used * (log_gamma_any(m * mu[k]) + HALF_LOG_TWO_PI)
        if with_m:
            for k in range(size):
                a = m * mu[k]
                psi, tri = polygammas(a)
                nodes[_F1, k] -= used * a * psi
                nodes[_F2, k] -= used * a * a * tri
        return
    _add_few(r, m, nodes, with_m)
    for i in range(r.shape[0]):
        if r[i] <= _FEW:
            continue
        hits = float(r[i])
        for k in range(size):
            f[k] += log_gamma_any(m * mu[k] + hits) - log_gamma_any(m * mu[k])
        if with_m:
            for k in range(size):
                a = m * mu[k]
                psi_a, tri_a = polygammas(a)
                psi, tri = polygammas(a + hits)
                nodes[_F1, k] += a * (psi - psi_a)
                nodes[_F2, k] += a * a * (tri - tri_a)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _integrand(r, n, m, nodes, used, mean_field, coefficients, with_m):
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
        found = _direct(r, n, m, nodes[_NU, k], used, mean_field, coefficients, with_m)
        nodes[_F, k], nodes[_F1, k], nodes[_F2, k] = found
    if with_m:
        for k in range(size):
            nu = nodes[_NU, k]
            nodes[_F1, k] *= -nu
            nodes[_F2, k] *= nu * nu
    _add_side_a(r, m, nodes, used, mean_field, with_m)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _place(nodes, delta, gamma, centre, scale, t_low, step, log_beta_q):
    """Fill log mu, log(1-mu), mu, 1-mu and the weights of q(mu) at the nodes."""
    l1, l2, weight, mu, nu = nodes[_LMU], nodes[_LNU], nodes[_WEIGHT], nodes[_MU], nodes[_NU]
    density = scale * step
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


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "nsz", "contract"},
)
def _moments(nodes, row, mean1, mean2, mean_f):
    """Return covariances under q(mu) of F with log mu, log(1-mu), their squares and product."""
    g1 = g2 = h11 = h12 = h22 = 0.0
    l1, l2, weight, f = nodes[_LMU], nodes[_LNU], nodes[_WEIGHT], nodes[row]
    for k in range(nodes.shape[1]):
        c1, c2 = l1[k] - mean1, l2[k] - mean2
        wf = weight[k] * (f[k] - mean_f)
        g1 += wf * c1
        g2 += wf * c2
        h11 += wf * c1 * c1
        h12 += wf * c1 * c2
        h22 += wf * c2 * c2
    return g1, g2, h11, h12, h22


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _theta_terms(r, n, m, mean, out):
    """Fill sum_i log B(r + M m, n - r + M (1-m)) and its derivatives in m and L = log M.

    ``out`` is (P, P_m, P_L, P_mm, P_mL, P_LL); see `objective`.
    """
    rest = 1.0 - mean
    value = p_m = p_l = p_mm = p_ml = p_ll = 0.0
    for i in range(r.shape[0]):
        if n[i] > 0:
            alpha, beta = r[i] + m * mean, n[i] - r[i] + m * rest
            value += _log_beta(alpha, beta)
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _bound(
    r, n, point, prior, mean_field, with_q, with_m, coefficients, used, nodes, gradient, hessian
):
    """Return the value at one location; fill gradient and Hessian as far as asked for.

    ``with_q`` asks for the derivatives in (log delta, log gamma), ``with_m`` for those in
    log M. ``nodes`` [9, size] is filled with what `_place` and `_integrand` say.
    """
    size = nodes.shape[1]
    delta, gamma, m = math.exp(point[0]), math.exp(point[1]), math.exp(point[2])
    s = delta + gamma
    a0, b0 = prior[0], prior[1]
    psi_d, tri_d = polygammas(delta)
    tri_g = polygammas(gamma)[1]
    psi_s, tri_s = polygammas(s)
    mean1, mean2 = psi_d - psi_s, _psi_gap(delta, gamma)
    log_beta_q = _log_beta(delta, gamma)
    value = log_beta_q - prior[4]
    value += (a0 - delta) * mean1 + (b0 - gamma) * mean2
    off = point[2] - prior[2]
    value -= 0.5 * prior[3] * off * off
    scale = math.sqrt(1.0 / delta + 1.0 / gamma)
    t_low = -math.asinh(_TAIL / delta / scale + 6.0)
    step = (math.asinh(_TAIL / gamma / scale + 6.0) - t_low) / (size - 1)
    centre = point[0] - point[1]
    constant1 = constant2 = 0.0
    if with_m:
        psi_m, tri_m = polygammas(m)
        if mean_field:
            constant1, constant2 = used * m * psi_m, used * m * m * tri_m
        else:
            for i in range(r.shape[0]):
                psi, tri = polygammas(m + n[i])
                constant1 -= m * (psi - psi_m)
                constant2 -= m * m * (tri - tri_m)
    _place(nodes, delta, gamma, centre, scale, t_low, step, log_beta_q)
    _integrand(r, n, m, nodes, used, mean_field, coefficients, with_m)
    weight = nodes[_WEIGHT]
    mean_f = dot(weight, nodes[_F])
    mean_f1 = mean_f2 = 0.0
    if with_m:
        for k in range(size):
            # Large and of opposite sign to the rest, so they must meet the same weights.
            nodes[_F1, k] += constant1
            nodes[_F2, k] += constant2
        mean_f1 = dot(weight, nodes[_F1])
        mean_f2 = dot(weight, nodes[_F2]) + mean_f1
    value += mean_f
    theta = coefficients[_DIRECT + 1 :]
    mean = delta / s
    if mean_field:
        _theta_terms(r, n, m, mean, theta)
        value += theta[0]
    if with_m:
        gradient[2] = mean_f1 - prior[3] * off
        hessian[2, 2] = mean_f2 - prior[3]
        if mean_field:
            gradient[2] += theta[2]
            hessian[2, 2] += theta[5]
    if not with_q:
        return value
    g1, g2, h11, h12, h22 = _moments(nodes, _F, mean1, mean2, mean_f)
    h13 = h23 = 0.0
    if with_m:
        h13, h23 = _moments(nodes, _F1, mean1, mean2, mean_f1)[:2]
    rest = a0 + b0 - s
    tet_s = _tetragamma(s)
    g1 += (a0 - delta) * tri_d - rest * tri_s
    g2 += (b0 - gamma) * tri_g - rest * tri_s
    cross = tri_s - rest * tet_s
    h11 += (a0 - delta) * _tetragamma(delta) - tri_d + cross
    h22 += (b0 - gamma) * _tetragamma(gamma) - tri_g + cross
    h12 += cross
    if mean_field:
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
    if with_m:
        hessian[0, 2] = hessian[2, 0] = delta * h13
        hessian[1, 2] = hessian[2, 1] = gamma * h23
    return value


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _likelihood(r, n, m, mean, mean_field, coefficients, nodes):
    """Return the part of the bound that M moves, with q(mu) and its nodes held."""
    used = _coefficients(r, n, m, mean_field, coefficients)
    _integrand(r, n, m, nodes, used, mean_field, coefficients, False)
    value = dot(nodes[_WEIGHT], nodes[_F])
    if mean_field:
        for i in range(r.shape[0]):
            if n[i] > 0:
                value += _log_beta(r[i] + m * mean, n[i] - r[i] + m * (1.0 - mean))
    return value


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _ascent(gradient, hessian, size, low, step):
    """Solve (-H + shift) step = gradient, the shift raised until Cholesky succeeds.

    Only the first ``size`` coordinates move; ``low`` [3, 3] is room for the factor.
    """
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
def newton(r, n, start, prior, mean_field, shared, size):
    """Return [J, 3] (log delta, log gamma, log M); see `model.newton_reference`."""
    found = start.copy()
    nodes = np.empty((_ROWS, size))
    coefficients = np.empty(_DIRECT + 7)
    gradient, step, trial = np.zeros(3), np.zeros(3), np.zeros(3)
    hessian, low = np.zeros((3, 3)), np.empty((3, 3))
    full = np.empty(5)
    full[:4] = prior
    full[4] = _log_beta(prior[0], prior[1])
    moving = 2 if shared else 3
    for j in range(len(found)):
        point = found[j]
        used = _coefficients(r[j], n[j], math.exp(point[2]), mean_field, coefficients)
        for _ in range(60):
            value = _bound(
                r[j], n[j], point, full, mean_field, True, not shared, coefficients, used, nodes,
                gradient, hessian,
            )  # fmt: skip
            longest, shift = _ascent(gradient, hessian, moving, low, step)
            length = 1.0
            for _ in range(30):
                for i in range(3):
                    trial[i] = point[i] + length * step[i]
                trial[2] = min(max(trial[2], _LOW), _HIGH)
                if not shared:
                    used = _coefficients(r[j], n[j], math.exp(trial[2]), mean_field, coefficients)
                if longest < _SAFE and shift == 0.0:
                    break
                tried = _bound(
                    r[j], n[j], trial, full, mean_field, False, False, coefficients, used, nodes,
                    gradient, hessian,
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
def sums(r, n, points, prior, mean_field, reach, size):
    """Return [J, 4 or 8] at given points [J, 3].

    Value, E[log mu], E[log(1-mu)], log C(n, r) summed over replicates; with ``reach`` > 0
    also slope and curvature of the value in log M, and what it gains at log M - reach and
    at log M + reach.
    """
    shared = reach > 0.0
    result = np.zeros((len(points), 8 if shared else 4))
    nodes = np.empty((_ROWS, size))
    coefficients = np.empty(_DIRECT + 7)
    gradient, hessian = np.zeros(3), np.zeros((3, 3))
    full = np.empty(5)
    full[:4] = prior
    full[4] = _log_beta(prior[0], prior[1])
    for j in range(len(points)):
        delta, gamma = math.exp(points[j, 0]), math.exp(points[j, 1])
        used = _coefficients(r[j], n[j], math.exp(points[j, 2]), mean_field, coefficients)
        value = _bound(
            r[j], n[j], points[j], full, mean_field, False, shared, coefficients, used, nodes,
            gradient, hessian,
        )  # fmt: skip
        result[j, 0] = value
        result[j, 1] = polygammas(delta)[0] - polygammas(delta + gamma)[0]
        result[j, 2] = _psi_gap(delta, gamma)
        for i in range(r.shape[1]):
            chosen = log_gamma(n[j, i] + 1.0) - log_gamma(n[j, i] - r[j, i] + 1.0)
            result[j, 3] += chosen - log_gamma(r[j, i] + 1.0) - HALF_LOG_TWO_PI
        if shared:
            result[j, 4], result[j, 5] = gradient[2], hessian[2, 2]
            mean = delta / (delta + gamma)
            held = dot(nodes[_WEIGHT], nodes[_F]) + (
                coefficients[_DIRECT + 1] if mean_field else 0.0
            )
            for side in range(2):
                m = math.exp(points[j, 2] + (reach if side else -reach))
                moved = _likelihood(r[j], n[j], m, mean, mean_field, coefficients, nodes)
                result[j, 6 + side] = moved - held
    return result
