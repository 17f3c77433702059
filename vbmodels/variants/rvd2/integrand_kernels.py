# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""RVD2's integrand at the nodes of q(mu), of its mean field.

At a node of mu, with a = M mu, b = M (1-mu) and N replicates with reads, the integrand is

    F = -N lgamma(a) + P(mu),    P = N [lgamma(M) - lgamma(b)].

b = M - M mu, so for small mu P is a polynomial in mu, the Taylor series of lgamma about M. Its
coefficients are computed once a location and M (`series_coefficients`), and a node costs a Horner
scheme in place of a log-gamma; P' and P'' give the derivatives in log M as well, because psi(b)
and psi'(b) are theirs.

All work on the nodes is done by loops over them without a branch, which the compiler turns
into vector instructions.
"""

from __future__ import annotations

from vbmodels.core.cached_kernels import njit
from vbmodels.variants.elementary_kernels import (
    HALF_LOG_TWO_PI,
    exp,
    log_beta,
    log_gamma,
    log_gamma_any,
    polygammas,
    softplus,
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
        found = _direct(m, nodes[_NU, k], used, coefficients, with_m)
        nodes[F, k], nodes[F1, k], nodes[F2, k] = found
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
