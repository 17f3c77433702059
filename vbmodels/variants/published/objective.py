"""RVD2's bound at one location: value, gradient and Hessian in (log delta, log gamma, log M).

q(mu_j) = Beta(delta, gamma), s = delta + gamma, l1 = log mu, l2 = log(1-mu). Any
expectation f = E_q[F] has df/d(delta) = Cov(F, l1), and its second derivatives are third
central moments, so the quadrature that gives the value gives all derivatives in q too.

    collapsed    F = sum_i log BetaBin(r_i | n_i, M mu, M (1-mu))       theta integrated out
    mean field   N E[G(mu)] + sum_i log B(r_i + M m, n_i - r_i + M (1-m)),  m = E[mu]
                 G = lgamma(M) - lgamma(M mu) - lgamma(M (1-mu))        theta profiled out

and both add log B(delta, gamma) + (A0 - delta) (psi delta - psi s) + (B0 - gamma) (psi gamma
- psi s) - log B(A0, B0), minus the KL divergence of q(mu) from its prior. The text's tangent
for E[G] (eqs. 22-23) is an upper bound, so with it the objective is no bound at all; G is
integrated here. A replicate without reads drops out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, digamma, gammaln, polygamma

from vbmodels.core.special import log_rising
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.quadrature import log_mu

TAIL = 18.0


@dataclass(frozen=True)
class Derivatives:
    """Value [J], gradient [J, 3] and Hessian [J, 3, 3]."""

    value: FloatArray
    gradient: FloatArray
    hessian: FloatArray


def beta_nodes(
    delta: FloatArray, gamma: FloatArray, size: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log mu, log(1-mu) and weights of Beta(delta, gamma) on nodes, each [J, size].

    The weights of a location sum to 1: their common rounding would meet F, which is millions
    where counts are, and the bound would waver by 1e-5.

    x = logit mu = log(delta/gamma) + c sinh t, c the sd of x at the mode; the ends lie 18
    nats down the tails exp(delta x) and exp(-gamma x), and 6 sd at least.
    """
    scale = np.sqrt(1.0 / delta + 1.0 / gamma)
    t_low = -np.arcsinh((TAIL / delta) / scale + 6.0)
    t_high = np.arcsinh((TAIL / gamma) / scale + 6.0)
    step = (t_high - t_low) / (size - 1)
    t = t_low[:, None] + step[:, None] * np.arange(size)
    x = np.log(delta / gamma)[:, None] + scale[:, None] * np.sinh(t)
    l1, l2 = log_mu(x)
    log_w = delta[:, None] * l1 + gamma[:, None] * l2 - betaln(delta, gamma)[:, None]
    weights = np.exp(log_w) * (scale * step)[:, None] * np.cosh(t)
    return l1, l2, weights / weights.sum(axis=1, keepdims=True)


def _rising(a: FloatArray, r: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return (
        log_rising(a, r),
        digamma(a + r) - digamma(a),
        polygamma(1, a + r) - polygamma(1, a),
    )


def collapsed_integrand(
    r: IntArray, n: IntArray, m: FloatArray, l1: FloatArray, l2: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return F and its first two derivatives in log M, without binomials; [J, K] each."""
    mu, nu, m = np.exp(l1), np.exp(l2), m[:, None]
    value, first, second = (np.zeros_like(mu) for _ in range(3))
    for i in range(r.shape[1]):
        ri, ni = r[:, i, None], n[:, i, None]
        a0, a1, a2 = _rising(m * mu, ri)
        b0, b1, b2 = _rising(m * nu, ni - ri)
        c0, c1, c2 = _rising(m, ni)
        value += a0 + b0 - c0
        first += mu * a1 + nu * b1 - c1
        second += mu * mu * a2 + nu * nu * b2 - c2
    return value, m * first, m * first + m * m * second


def mean_field_integrand(
    n_used: FloatArray, m: FloatArray, l1: FloatArray, l2: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return N G and its first two derivatives in log M; [J, K] each."""
    mu, nu, m = np.exp(l1), np.exp(l2), m[:, None]
    a, b = m * mu, m * nu
    value = gammaln(m) - gammaln(a) - gammaln(b)
    first = m * (digamma(m) - mu * digamma(a) - nu * digamma(b))
    second = first + m * m * (
        polygamma(1, m) - mu * mu * polygamma(1, a) - nu * nu * polygamma(1, b)
    )
    count = n_used[:, None]
    return count * value, count * first, count * second


def _theta_terms(
    r: IntArray, n: IntArray, m: FloatArray, mean: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return P = sum_i log B(r + M m, n - r + M (1-m)), P_m, P_L, P_mm, P_mL, P_LL; L = log M."""
    used = n > 0
    big, share = m[:, None], mean[:, None]
    alpha, beta = r + big * share, n - r + big * (1.0 - share)
    total = n + big
    pa, pb, pt = digamma(alpha), digamma(beta), digamma(total)
    ta, tb, tt = polygamma(1, alpha), polygamma(1, beta), polygamma(1, total)

    def add(terms: FloatArray) -> FloatArray:
        return np.asarray(np.where(used, terms, 0.0).sum(axis=1))

    d = add(pa - pb)
    p_l = m * add(share * pa + (1.0 - share) * pb - pt)
    return (
        add(betaln(alpha, beta)),
        m * d,
        p_l,
        m**2 * add(ta + tb),
        m * d + m**2 * add(share * ta - (1.0 - share) * tb),
        p_l + m**2 * add(share**2 * ta + (1.0 - share) ** 2 * tb - tt),
    )


def _divergence(
    delta: FloatArray, gamma: FloatArray, a0: float, b0: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return -KL(q(mu) || prior), its gradient [J, 2] and Hessian [J, 2, 2]."""
    s = delta + gamma
    psi_s, tri_s, tet_s = digamma(s), polygamma(1, s), polygamma(2, s)
    left, right, rest = a0 - delta, b0 - gamma, a0 + b0 - s
    value = betaln(delta, gamma) - betaln(a0, b0)
    value += left * (digamma(delta) - psi_s) + right * (digamma(gamma) - psi_s)
    tri_d, tri_g = polygamma(1, delta), polygamma(1, gamma)
    gradient = np.stack([left * tri_d - rest * tri_s, right * tri_g - rest * tri_s], axis=1)
    cross = tri_s - rest * tet_s
    hessian = np.empty((len(s), 2, 2))
    hessian[:, 0, 0] = left * polygamma(2, delta) - tri_d + cross
    hessian[:, 1, 1] = right * polygamma(2, gamma) - tri_g + cross
    hessian[:, 0, 1] = hessian[:, 1, 0] = cross
    return value, gradient, hessian


def derivatives(
    r: IntArray,
    n: IntArray,
    delta: FloatArray,
    gamma: FloatArray,
    log_m: FloatArray,
    prior: tuple[float, float, float, float],
    mean_field: bool,
    size: int,
) -> Derivatives:
    """Return the bound of every location, without binomials, and its derivatives.

    Parameters
    ----------
    r, n
        [J, N] reads that do not show the reference, and depth.
    delta, gamma, log_m
        [J] the location's parameters.
    prior
        A0, B0, and mean and precision of the normal prior on log M (precision 0: none).
    mean_field
        Whether theta has its own factor, rather than being integrated out.
    size
        Nodes of the quadrature.
    """
    a0, b0, mean_log_m, precision = prior
    m, s = np.exp(log_m), delta + gamma
    l1, l2, w = beta_nodes(delta, gamma, size)
    if mean_field:
        f, f1, f2 = mean_field_integrand((n > 0).sum(axis=1).astype(float), m, l1, l2)
    else:
        f, f1, f2 = collapsed_integrand(r, n, m, l1, l2)
    mean_f = (w * f).sum(axis=1)
    c1 = l1 - (digamma(delta) - digamma(s))[:, None]
    c2 = l2 - (digamma(gamma) - digamma(s))[:, None]
    wf, wf1 = w * (f - mean_f[:, None]), w * (f1 - (w * f1).sum(axis=1)[:, None])
    value, gradient_q, hessian_q = _divergence(delta, gamma, a0, b0)
    value = value + mean_f
    gradient, hessian = np.zeros((len(s), 3)), np.zeros((len(s), 3, 3))
    gradient[:, :2], hessian[:, :2, :2] = gradient_q, hessian_q
    for i, ci in enumerate((c1, c2)):
        gradient[:, i] += (wf * ci).sum(axis=1)
        hessian[:, i, 2] += (wf1 * ci).sum(axis=1)
        for k, ck in enumerate((c1, c2)):
            hessian[:, i, k] += (wf * ci * ck).sum(axis=1)
    gradient[:, 2] += (w * f1).sum(axis=1)
    hessian[:, 2, 2] += (w * f2).sum(axis=1)
    if mean_field:
        p, p_m, p_l, p_mm, p_ml, p_ll = _theta_terms(r, n, m, delta / s)
        slope = np.stack([gamma, -delta], axis=1) / (s * s)[:, None]
        bend = np.array([[-2.0 * gamma, delta - gamma], [delta - gamma, 2.0 * delta]]) / s**3
        value += p
        gradient[:, :2] += p_m[:, None] * slope
        gradient[:, 2] += p_l
        hessian[:, :2, :2] += p_mm[:, None, None] * slope[:, :, None] * slope[:, None, :]
        hessian[:, :2, :2] += p_m[:, None, None] * np.moveaxis(bend, 2, 0)
        hessian[:, :2, 2] += p_ml[:, None] * slope
        hessian[:, 2, 2] += p_ll
    scale = np.stack([delta, gamma, np.ones_like(s)], axis=1)
    gradient *= scale
    hessian[:, 2, :2] = hessian[:, :2, 2]
    hessian *= scale[:, :, None] * scale[:, None, :]
    hessian[:, [0, 1], [0, 1]] += gradient[:, :2]
    off = log_m - mean_log_m
    value -= 0.5 * precision * off**2
    gradient[:, 2] -= precision * off
    hessian[:, 2, 2] -= precision
    return Derivatives(value, gradient, hessian)
