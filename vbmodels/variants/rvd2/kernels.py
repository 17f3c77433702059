# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled form of RVD2's local step; `objective` holds the mathematics and the reference."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from vbmodels.variants.kernels import log_gamma, log_rising, polygammas

_TAIL = 18.0
_LOW = 0.0
_HIGH = math.log(1e7)


@njit(cache=True, nogil=True, error_model="numpy")
def _tetragamma(z):
    """Return psi''(z) for z > 0, by recurrence to z >= 10 and the asymptotic series."""
    total = 0.0
    while z < 10.0:
        total -= 2.0 / (z * z * z)
        z += 1.0
    w = 1.0 / (z * z)
    series = 0.5 - w * (1 / 6.0 - w * (1 / 6.0 - w * (3 / 10.0 - w * (5 / 6.0 - w * 691 / 210.0))))
    return total - w * (1.0 + 1.0 / z + w * series)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_beta(a, b):
    half_log_two_pi = 0.9189385332046727
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b) + half_log_two_pi


@njit(cache=True, nogil=True, error_model="numpy")
def _bound(r, n, point, prior, mean_field, size, order, nodes, gradient, hessian):
    """Fill gradient and Hessian (if ``order`` is 2) and return the value at one location.

    ``nodes`` [6, size] is room for log mu, log(1-mu), weights, and F, F', F'' in log M.
    """
    n_replicates = r.shape[0]
    delta, gamma = math.exp(point[0]), math.exp(point[1])
    m = math.exp(point[2])
    s = delta + gamma
    a0, b0 = prior[0], prior[1]
    psi_d, tri_d = polygammas(delta)
    psi_g, tri_g = polygammas(gamma)
    psi_s, tri_s = polygammas(s)
    log_beta_q = _log_beta(delta, gamma)
    value = log_beta_q - _log_beta(a0, b0)
    value += (a0 - delta) * (psi_d - psi_s) + (b0 - gamma) * (psi_g - psi_s)
    off = point[2] - prior[2]
    value -= 0.5 * prior[3] * off * off
    scale = math.sqrt(1.0 / delta + 1.0 / gamma)
    t_low = -math.asinh(_TAIL / delta / scale + 6.0)
    step = (math.asinh(_TAIL / gamma / scale + 6.0) - t_low) / (size - 1)
    centre = point[0] - point[1]
    used = 0
    base = base1 = base2 = 0.0
    psi_m, tri_m = polygammas(m)
    for i in range(n_replicates):
        if n[i] > 0:
            used += 1
            if not mean_field:
                base -= log_rising(m, n[i])
                if order == 2:
                    psi, tri = polygammas(m + n[i])
                    base1 -= psi - psi_m
                    base2 -= tri - tri_m
    mean_f = mean_f1 = mean_f2 = 0.0
    # e^t by repeated multiplication gives sinh and cosh without a call a node.
    grow = math.exp(step)
    e = math.exp(t_low)
    for k in range(size):
        sinh, cosh = 0.5 * (e - 1.0 / e), 0.5 * (e + 1.0 / e)
        e *= grow
        x = centre + scale * sinh
        small = math.exp(-abs(x))
        soft = math.log1p(small)
        l1 = -soft if x >= 0.0 else x - soft
        l2 = -x - soft if x >= 0.0 else -soft
        larger, smaller = 1.0 / (1.0 + small), small / (1.0 + small)
        mu = larger if x >= 0.0 else smaller
        nu = smaller if x >= 0.0 else larger
        w = math.exp(delta * l1 + gamma * l2 - log_beta_q) * scale * step * cosh
        a, b = m * mu, m * nu
        f = f1 = f2 = 0.0
        if mean_field:
            f = used * (log_gamma(m) - log_gamma(a) - log_gamma(b) - 0.9189385332046727)
            if order == 2:
                psi_a, tri_a = polygammas(a)
                psi_b, tri_b = polygammas(b)
                f1 = used * m * (psi_m - mu * psi_a - nu * psi_b)
                f2 = f1 + used * m * m * (tri_m - mu * mu * tri_a - nu * nu * tri_b)
        else:
            f, f1, f2 = base, base1, base2
            psi_a = tri_a = psi_b = tri_b = 0.0
            if order == 2:
                psi_a, tri_a = polygammas(a)
                psi_b, tri_b = polygammas(b)
            for i in range(n_replicates):
                if r[i] > 0:
                    f += log_rising(a, r[i])
                    if order == 2:
                        psi, tri = polygammas(a + r[i])
                        f1 += mu * (psi - psi_a)
                        f2 += mu * mu * (tri - tri_a)
                if n[i] > r[i]:
                    f += log_rising(b, n[i] - r[i])
                    if order == 2:
                        psi, tri = polygammas(b + (n[i] - r[i]))
                        f1 += nu * (psi - psi_b)
                        f2 += nu * nu * (tri - tri_b)
            f1 *= m
            f2 = f1 + m * m * f2
        nodes[0, k], nodes[1, k], nodes[2, k] = l1, l2, w
        nodes[3, k], nodes[4, k] = f, f1
        mean_f += w * f
        mean_f1 += w * f1
        mean_f2 += w * f2
    value += mean_f
    mean = delta / s
    p_m = p_l = p_mm = p_ml = p_ll = 0.0
    if mean_field:
        for i in range(n_replicates):
            if n[i] > 0:
                alpha, beta = r[i] + m * mean, n[i] - r[i] + m * (1.0 - mean)
                value += _log_beta(alpha, beta)
                pa, ta = polygammas(alpha)
                pb, tb = polygammas(beta)
                pt, tt = polygammas(n[i] + m)
                rest = 1.0 - mean
                p_m += pa - pb
                p_l += mean * pa + rest * pb - pt
                p_mm += ta + tb
                p_ml += mean * ta - rest * tb
                p_ll += mean * mean * ta + rest * rest * tb - tt
        p_m *= m
        p_l *= m
        p_mm *= m * m
        p_ml = p_m + m * m * p_ml
        p_ll = p_l + m * m * p_ll
    if order < 2:
        return value
    g1 = g2 = h11 = h12 = h22 = h13 = h23 = 0.0
    mean1, mean2 = psi_d - psi_s, psi_g - psi_s
    for k in range(size):
        c1, c2 = nodes[0, k] - mean1, nodes[1, k] - mean2
        wf = nodes[2, k] * (nodes[3, k] - mean_f)
        wf1 = nodes[2, k] * (nodes[4, k] - mean_f1)
        g1 += wf * c1
        g2 += wf * c2
        h11 += wf * c1 * c1
        h12 += wf * c1 * c2
        h22 += wf * c2 * c2
        h13 += wf1 * c1
        h23 += wf1 * c2
    rest = a0 + b0 - s
    tet_s = _tetragamma(s)
    g1 += (a0 - delta) * tri_d - rest * tri_s
    g2 += (b0 - gamma) * tri_g - rest * tri_s
    cross = tri_s - rest * tet_s
    h11 += (a0 - delta) * _tetragamma(delta) - tri_d + cross
    h22 += (b0 - gamma) * _tetragamma(gamma) - tri_g + cross
    h12 += cross
    m1, m2 = gamma / (s * s), -delta / (s * s)
    s3 = s * s * s
    g1 += p_m * m1
    g2 += p_m * m2
    h11 += p_mm * m1 * m1 - p_m * 2.0 * gamma / s3
    h12 += p_mm * m1 * m2 + p_m * (delta - gamma) / s3
    h22 += p_mm * m2 * m2 + p_m * 2.0 * delta / s3
    h13 += p_ml * m1
    h23 += p_ml * m2
    gradient[0], gradient[1] = delta * g1, gamma * g2
    gradient[2] = mean_f1 + p_l - prior[3] * off
    hessian[0, 0] = delta * delta * h11 + gradient[0]
    hessian[1, 1] = gamma * gamma * h22 + gradient[1]
    hessian[0, 1] = hessian[1, 0] = delta * gamma * h12
    hessian[0, 2] = hessian[2, 0] = delta * h13
    hessian[1, 2] = hessian[2, 1] = gamma * h23
    hessian[2, 2] = mean_f2 + p_ll - prior[3]
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def _ascent(gradient, hessian, step):
    """Solve (-H + shift) step = gradient, the shift raised until Cholesky succeeds."""
    shift = 0.0
    largest = max(abs(hessian[0, 0]), abs(hessian[1, 1]), abs(hessian[2, 2]), 1e-12)
    low = np.empty((3, 3))
    for _ in range(40):
        good = True
        for i in range(3):
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
    for i in range(3):
        total = gradient[i]
        for k in range(i):
            total -= low[i, k] * step[k]
        step[i] = total / low[i, i]
    for i in range(2, -1, -1):
        total = step[i]
        for k in range(i + 1, 3):
            total -= low[k, i] * step[k]
        step[i] = total / low[i, i]
    longest = max(abs(step[0]), abs(step[1]), abs(step[2]))
    if longest > 1.5:
        for i in range(3):
            step[i] *= 1.5 / longest


@njit(cache=True, nogil=True, error_model="numpy")
def newton(r, n, start, prior, mean_field, shared, size):
    """Return [J, 3] (log delta, log gamma, log M); see `model.newton_reference`."""
    found = start.copy()
    nodes = np.empty((5, size))
    gradient, step, trial = np.zeros(3), np.zeros(3), np.zeros(3)
    hessian = np.zeros((3, 3))
    unused_gradient, unused_hessian = np.zeros(3), np.zeros((3, 3))
    for j in range(len(found)):
        point = found[j]
        for _ in range(60):
            value = _bound(r[j], n[j], point, prior, mean_field, size, 2, nodes, gradient, hessian)
            if shared:
                gradient[2] = 0.0
                for i in range(3):
                    hessian[i, 2] = hessian[2, i] = 0.0
                hessian[2, 2] = -1.0
            _ascent(gradient, hessian, step)
            longest = max(abs(step[0]), abs(step[1]), abs(step[2]))
            if longest < 1e-4:
                # Newton's step is right here, and a comparison of values would be noise.
                for i in range(3):
                    point[i] += step[i]
                point[2] = min(max(point[2], _LOW), _HIGH)
                if longest < 1e-7:
                    break
                continue
            length = 1.0
            for _ in range(30):
                for i in range(3):
                    trial[i] = point[i] + length * step[i]
                trial[2] = min(max(trial[2], _LOW), _HIGH)
                tried = _bound(
                    r[j], n[j], trial, prior, mean_field, size, 0, nodes,
                    unused_gradient, unused_hessian,
                )  # fmt: skip
                if tried >= value - 1e-13 * abs(value):
                    point[:] = trial
                    break
                length *= 0.5
            else:
                break
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def values(r, n, points, prior, mean_field, size):
    """Return the bound [J] at given points [J, 3], without derivatives."""
    result = np.empty(len(points))
    nodes = np.empty((5, size))
    gradient, hessian = np.zeros(3), np.zeros((3, 3))
    for j in range(len(points)):
        result[j] = _bound(
            r[j], n[j], points[j], prior, mean_field, size, 0, nodes, gradient, hessian
        )
    return result
