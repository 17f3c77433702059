"""RVD2's local step and sums, in the mean field, over all locations of a partition at once.

With q(mu_j) = Beta(delta, gamma) a location's bound is, with m = E[mu],

    N E[lgamma(M) - lgamma(M mu) - lgamma(M (1-mu))]
        + sum_i log B(r_i + M m, n_i - r_i + M (1-m)) - KL(q || prior).

An expectation f = E_q[F] has df/d(delta) = Cov(F, log mu), and its second derivatives are third
central moments, so the quadrature that gives the value gives all derivatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, gammaln, polygamma

from vbmodels.core.state import FloatArray, IntArray

CHUNK = 256
"""Locations that are worked on at once, so that their nodes stay in the processor's cache."""
LIMITS_LOG_M = (0.0, float(np.log(1e7)))
_TAIL = 18.0
_LARGE = 10.0
# In logarithms Newton's error is about the square of its step: below .03 a step towards the
# maximum of a concave point cannot lower the bound, and after one of 3e-5 1e-9 is left.
_SAFE = 0.03
_DONE = 3e-5
_LONGEST = 1.5


class Prior(NamedTuple):
    """A0 and B0 of mu, and the mean and the precision of log M."""

    a0: float
    b0: float
    log_m: float
    precision: float


def _stirling(z: FloatArray) -> FloatArray:
    """Return lgamma(z) - (z - 1/2) log z + z - log(2 pi)/2, for z >= 10 to 1e-15."""
    w = 1.0 / (z * z)
    return (1 / 12.0 - w * (1 / 360.0 - w * (1 / 1260.0 - w * (1 / 1680.0 - w / 1188.0)))) / z


def log_beta(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return log B(a, b); for a large argument without the difference of two log-gammas."""
    small, large = np.minimum(a, b), np.maximum(a, b)
    total = small + large
    rise = (total - 0.5) * np.log1p(small / large) + small * (np.log(large) - 1.0)
    value = gammaln(small) - rise - (_stirling(total) - _stirling(large))
    few = large < _LARGE
    value[few] = betaln(small[few], large[few])
    return np.asarray(value)


def psi_gap(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return psi(b) - psi(a + b), for a large b without the difference of two of size log b."""
    v, u = 1.0 / b, 1.0 / (a + b)
    w, x = v * v, u * u
    rest = 1 / 12.0 - (w + x) / 120.0 + (w * w + w * x + x * x) / 252.0
    gap = -np.log1p(a * v) - (0.5 + (v + u) * rest) * a * v * u
    return np.asarray(np.where(b < 2.0 * _LARGE, digamma(b) - digamma(a + b), gap))


def polygammas(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return psi(z) and psi'(z), by recurrence to z >= 8 and asymptotic series."""
    few = z < 8.0
    risen = z[few]
    psi_rise, tri_rise = np.zeros_like(risen), np.zeros_like(risen)
    for _ in range(8):
        inverse = 1.0 / risen
        psi_rise += inverse
        tri_rise += inverse * inverse
        risen += 1.0
    z = z.copy()
    z[few] = risen
    v = 1.0 / z
    w = v * v
    below = 1 / 252.0 - w * (1 / 240.0 - w * (1 / 132.0 - w * (691 / 32760.0)))
    psi = np.log(z) - 0.5 * v - w * (1 / 12.0 - w * (1 / 120.0 - w * below))
    below = 1 / 30.0 - w * (5 / 66.0 - w * (691 / 2730.0 - w * (7 / 6.0)))
    series = 1 / 6.0 - w * (1 / 30.0 - w * (1 / 42.0 - w * below))
    tri = v * (1.0 + 0.5 * v + w * series)
    psi[few] -= psi_rise
    tri[few] += tri_rise
    return psi, tri


class Nodes(NamedTuple):
    """Nodes of the quadrature over q(mu), [J, K]: log mu, log(1 - mu), and weights that sum to 1.

    ``a``, ``b``: M mu and M (1 - mu).
    """

    log_mu: FloatArray
    log_nu: FloatArray
    weight: FloatArray
    a: FloatArray
    b: FloatArray

    def mean(self, value: FloatArray) -> FloatArray:
        """Return the expectation of a value [J, K]."""
        return np.asarray((self.weight * value).sum(axis=1))


def _nodes(delta: FloatArray, gamma: FloatArray, m: FloatArray, size: int) -> Nodes:
    """Return the nodes of the quadrature.

    What the tails round off is the same factor in all weights, and F is millions where counts are:
    unscaled, the bound wavers by 1e-5.
    """
    scale = np.sqrt(1.0 / delta + 1.0 / gamma)
    low = -np.arcsinh(_TAIL / delta / scale + 6.0)
    step = (np.arcsinh(_TAIL / gamma / scale + 6.0) - low) / (size - 1)
    up = np.exp(low[:, None] + step[:, None] * np.arange(size))
    down = 1.0 / up
    x = np.log(delta / gamma)[:, None] + scale[:, None] * 0.5 * (up - down)
    small = np.exp(-np.abs(x))
    whole = 1.0 + small
    soft = np.log(whole) + (small - (whole - 1.0)) / whole
    log_mu, log_nu = np.minimum(x, 0.0) - soft, -np.maximum(x, 0.0) - soft
    log_weight = delta[:, None] * log_mu + gamma[:, None] * log_nu
    log_weight -= log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight) * (up + down)
    weight /= weight.sum(axis=1, keepdims=True)
    larger, right = m[:, None] / whole, x >= 0.0
    smaller = small * larger
    a, b = np.where(right, larger, smaller), np.where(right, smaller, larger)
    return Nodes(log_mu, log_nu, weight, a, b)


class Locations(NamedTuple):
    """Reads of some locations, their prior, and the nodes of the quadrature."""

    r: IntArray
    n: IntArray
    prior: Prior
    size: int

    def take(self, which: IntArray | slice) -> Locations:
        """Return some of them."""
        return Locations(self.r[which], self.n[which], self.prior, self.size)

    def value(self, point: FloatArray) -> FloatArray:
        """Return the bound [J] at points [J, 3] (log delta, log gamma, log M)."""
        delta, gamma, m = np.exp(point.T)
        nodes = _nodes(delta, gamma, m, self.size)
        return self._bound(point, nodes.mean(self._integrand(nodes)))

    def _integrand(self, nodes: Nodes) -> FloatArray:
        """Return F = N [lgamma(M) - lgamma(M mu) - lgamma(M (1-mu))] at the nodes, [J, K]."""
        return np.asarray(-(self.n > 0).sum(axis=1)[:, None] * log_beta(nodes.a, nodes.b))

    def _bound(self, point: FloatArray, mean_f: FloatArray) -> FloatArray:
        delta, gamma, m = np.exp(point.T)
        a0, b0, log_m, precision = self.prior
        alpha, beta = self.q_theta(delta / (delta + gamma), m)
        value = ((self.n > 0) * log_beta(alpha, beta)).sum(axis=1)
        value += log_beta(delta, gamma) - betaln(a0, b0)
        value += (a0 - delta) * psi_gap(gamma, delta) + (b0 - gamma) * psi_gap(delta, gamma)
        return np.asarray(value - 0.5 * precision * (point[:, 2] - log_m) ** 2 + mean_f)

    def q_theta(self, mean: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parameters [J, N] of q(theta_ji) (eq 5), given E[mu_j] and M_j."""
        hits = self.r + (m * mean)[:, None]
        return hits, self.n - self.r + (m * (1.0 - mean))[:, None]

    def derivatives(self, point: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the bound [J], its gradient [J, 3] and its Hessian [J, 3, 3].

        They are in (log delta, log gamma, log M).
        """
        delta, gamma, m = np.exp(point.T)
        s, used = delta + gamma, (self.n > 0).sum(axis=1)[:, None]
        a0, b0, log_m, precision = self.prior
        nodes = _nodes(delta, gamma, m, self.size)
        f = self._integrand(nodes)
        mean_f = nodes.mean(f)
        (psi_a, tri_a), (psi_b, tri_b) = polygammas(nodes.a), polygammas(nodes.b)
        psi_m, tri_m = (value[:, None] for value in polygammas(m))
        # In log M; large and of opposite sign, so they must meet the same weights.
        f1 = used * (m[:, None] * psi_m - nodes.a * psi_a - nodes.b * psi_b)
        f2 = used * ((m * m)[:, None] * tri_m - nodes.a**2 * tri_a - nodes.b**2 * tri_b)
        c1 = nodes.log_mu - psi_gap(gamma, delta)[:, None]
        c2 = nodes.log_nu - psi_gap(delta, gamma)[:, None]
        off, off1 = f - mean_f[:, None], f1 - nodes.mean(f1)[:, None]
        mean = delta / s
        p_m, p_l, p_mm, p_ml, p_ll = self._theta_slopes(mean, m)
        m1, m2, s3 = gamma / s**2, -delta / s**2, s**3
        tri_s, tri_d, tri_g = (polygammas(value)[1] for value in (s, delta, gamma))
        rest = a0 + b0 - s
        cross = tri_s - rest * polygamma(2, s)
        gradient, hessian = np.empty((len(m), 3)), np.empty((len(m), 3, 3))
        g1 = nodes.mean(off * c1) + (a0 - delta) * tri_d - rest * tri_s + p_m * m1
        g2 = nodes.mean(off * c2) + (b0 - gamma) * tri_g - rest * tri_s + p_m * m2
        gradient[:, 0], gradient[:, 1] = delta * g1, gamma * g2
        gradient[:, 2] = nodes.mean(f1) - precision * (point[:, 2] - log_m) + p_l
        h11 = nodes.mean(off * c1 * c1) + (a0 - delta) * polygamma(2, delta) - tri_d + cross
        h22 = nodes.mean(off * c2 * c2) + (b0 - gamma) * polygamma(2, gamma) - tri_g + cross
        h11 += p_mm * m1 * m1 - p_m * 2.0 * gamma / s3
        h22 += p_mm * m2 * m2 + p_m * 2.0 * delta / s3
        h12 = nodes.mean(off * c1 * c2) + cross + p_mm * m1 * m2 + p_m * (delta - gamma) / s3
        h13 = nodes.mean(off1 * c1) + p_ml * m1
        h23 = nodes.mean(off1 * c2) + p_ml * m2
        hessian[:, 0, 0] = delta * delta * h11 + gradient[:, 0]
        hessian[:, 1, 1] = gamma * gamma * h22 + gradient[:, 1]
        hessian[:, 2, 2] = nodes.mean(f1 + f2) - precision + p_ll
        hessian[:, 0, 1] = hessian[:, 1, 0] = delta * gamma * h12
        hessian[:, 0, 2] = hessian[:, 2, 0] = delta * h13
        hessian[:, 1, 2] = hessian[:, 2, 1] = gamma * h23
        return self._bound(point, mean_f), gradient, hessian

    def _theta_slopes(self, mean: FloatArray, m: FloatArray) -> FloatArray:
        """Return slopes of eq 5 in m = E[mu] and L = log M: P_m, P_L, P_mm, P_mL and P_LL."""
        alpha, beta = self.q_theta(mean, m)
        mean, m, rest = mean[:, None], m[:, None], (1.0 - mean)[:, None]
        (pa, ta), (pb, tb) = polygammas(alpha), polygammas(beta)
        pt, tt = polygammas(self.n + m)
        p_m, p_l = m * (pa - pb), m * (mean * pa + rest * pb - pt)
        p_ml = p_m + m * m * (mean * ta - rest * tb)
        p_ll = p_l + m * m * (mean * mean * ta + rest * rest * tb - tt)
        parts = np.stack([p_m, p_l, m * m * (ta + tb), p_ml, p_ll])
        return np.asarray((parts * (self.n > 0)).sum(axis=2))


def _steps(gradient: FloatArray, hessian: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ascent steps [J, 3] of at most `_LONGEST`, and whether one may lower the bound [J].

    Newton's, with a Levenberg shift where minus the Hessian is not positive definite.
    """
    value, vector = np.linalg.eigh(-hessian)
    largest = np.abs(hessian).max(axis=(1, 2))
    shifted = value[:, 0] <= 1e-12 * largest
    value += np.where(shifted, 1e-3 * largest - value[:, 0], 0.0)[:, None]
    along = (vector * gradient[:, :, None]).sum(axis=1) / value
    step = (vector * along[:, None, :]).sum(axis=2)
    longest = np.abs(step).max(axis=1)
    step *= np.minimum(1.0, _LONGEST / np.maximum(longest, _DONE))[:, None]
    return step, shifted | (longest >= _SAFE)


def _climb(data: Locations, point: FloatArray) -> FloatArray:
    """Return the maximum near points [J, 3], by steps halved until the bound does not fall.

    A location is left alone once its step is short, or no part of it helps.
    """
    moving = np.arange(len(point))
    for _ in range(60):
        here, some = point[moving], data.take(moving)
        value, gradient, hessian = some.derivatives(here)
        step, unsafe = _steps(gradient, hessian)
        trial = here + step
        trial[:, 2] = np.clip(trial[:, 2], *LIMITS_LOG_M)
        falling = np.flatnonzero(unsafe)
        least = (value - 1e-13 * np.abs(value))[falling]
        for _ in range(30):
            falls = some.take(falling).value(trial[falling]) < least
            falling, least = falling[falls], least[falls]
            if not len(falling):
                break
            step[falling] *= 0.5
            trial[falling] = here[falling] + step[falling]
            trial[falling, 2] = np.clip(trial[falling, 2], *LIMITS_LOG_M)
        trial[falling] = here[falling]
        point[moving] = trial
        moving = moving[np.abs(trial - here).max(axis=1) >= _DONE]
        if not len(moving):
            break
    return point


def maximise(data: Locations, start: FloatArray) -> FloatArray:
    """Return the bound's maximum [J, 3] (log delta, log gamma, log M) near a start."""
    chunks = [slice(first, first + CHUNK) for first in range(0, len(start), CHUNK)]
    found = [_climb(data.take(chunk), start[chunk].copy()) for chunk in chunks]
    return np.concatenate([start[:0], *found])


def values(data: Locations, point: FloatArray) -> FloatArray:
    """Return the bound [J] at points [J, 3]."""
    chunks = [slice(first, first + CHUNK) for first in range(0, len(point), CHUNK)]
    return np.concatenate([np.zeros(0), *(data.take(c).value(point[c]) for c in chunks)])
