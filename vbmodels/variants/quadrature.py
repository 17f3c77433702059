"""Quadrature on x = logit(mu): grids with several centres, and exact one-dimensional posteriors.

Error rates lie mostly below 1e-3, and their posteriors have tails like exp(.1 x) over
hundreds of units of x, so a grid that is uniform in mu (or in x) is useless. Here x is a
smooth function of t with

    t(x) = sum_i asinh((x - m_i) / c_i),

so the nodes, uniform in t, crowd around every centre m_i at spacing c_i and spread
geometrically in the tails; the trapezoid rule in t converges exponentially.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, logsumexp, polygamma, sici

from vbmodels.core.special import log_rising
from vbmodels.core.state import FloatArray, IntArray

N_NODES = 40
TAIL = 18.0
BROAD = 0.1
WIDTH = 0.7


def log_mu(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log mu and log(1 - mu) at x = logit(mu)."""
    return -np.logaddexp(0.0, -x), -np.logaddexp(0.0, x)


def log_beta_binomial(r: IntArray, n: IntArray, x: FloatArray, m: FloatArray) -> FloatArray:
    """Return log [B(r + M mu, n - r + M (1-mu)) / B(M mu, M (1-mu))], without the binomial.

    All arguments broadcast. It keeps its digits where M mu underflows and where M is so large
    that the reads are binomial.
    """
    log_m, (l1, l2) = np.log(m), log_mu(x)
    shown = log_rising(m * expit(x), r, log_m + l1)
    rest = log_rising(m * expit(-x), n - r, log_m + l2)
    return np.asarray(shown + rest - log_rising(m, n))


def sinc_cumulative(size: int) -> FloatArray:
    """Return s[d] = 1/2 + Si(pi (d - size + 1)) / pi for d = 0 .. 2 size - 2.

    The integral of f from minus infinity to node k is sum_j f_j s[k - j + size - 1] times
    the step (Stenger's indefinite sinc rule): as accurate as the trapezoid rule itself.
    """
    steps = np.arange(-(size - 1), size)
    return np.asarray(0.5 + sici(np.pi * steps)[0] / np.pi)


def integral_above(f: FloatArray, cumulative: FloatArray) -> FloatArray:
    """Return the integral above every node, [..., K], from values times weights f, [..., K].

    The sinc rule errs by 1e-8 or so of the whole, which deep in a tail is noise; so it is
    held within a factor of the trapezoid rule, which never mistakes the size of a tail.
    """
    size = f.shape[-1]
    index = np.arange(size)[:, None] - np.arange(size)[None, :] + size - 1
    coarse = np.cumsum(f[..., ::-1], axis=-1)[..., ::-1] - 0.5 * f
    return np.asarray(np.clip(f @ cumulative[index], 0.05 * coarse, 1.5 * coarse))


def integral_below(f: FloatArray, cumulative: FloatArray) -> FloatArray:
    """Return the integral below every node; see `integral_above`."""
    return np.asarray(integral_above(f[..., ::-1], cumulative)[..., ::-1])


def likelihood_centre(
    r: IntArray, n: IntArray, m: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mode and scale in x of the likelihood times sqrt(mu (1-mu)).

    A few damped Newton steps: it only places nodes, so it need not be exact.

    Parameters
    ----------
    r, n
        [U, R] alternative reads and depth of one sample's replicates.
    m
        [U] dispersion M.
    start
        [U] start of x.
    """
    x = start.copy()
    slope_x = np.zeros_like(x)
    curvature = np.full_like(x, -1.0)
    active = np.ones(len(x), dtype=bool)
    for _ in range(12):
        mu, nu = expit(x), expit(-x)
        a, b, u = m * mu, m * nu, mu * nu
        slope = m * (
            digamma(r + a[:, None])
            - digamma(a)[:, None]
            - digamma(n - r + b[:, None])
            + digamma(b)[:, None]
        ).sum(axis=1)
        bend = m**2 * (
            polygamma(1, r + a[:, None])
            - polygamma(1, a)[:, None]
            + polygamma(1, n - r + b[:, None])
            - polygamma(1, b)[:, None]
        ).sum(axis=1)
        slope_x = u * slope + 0.5 * (nu - mu)
        curvature = np.where(active, u * u * bend + u * (nu - mu) * slope - u, curvature)
        step = np.clip(slope_x / np.maximum(-curvature, 0.1), -2.0, 2.0)
        x = np.where(active, x + step, x)
        active &= np.abs(step) > 0.05 / np.sqrt(np.maximum(-curvature, 0.1))
        if not active.any():
            break
    return x, 1.0 / np.sqrt(np.maximum(-curvature, 0.1))


def stretch(x: FloatArray, centres: FloatArray, scales: FloatArray) -> FloatArray:
    """Return t(x) = sum_i asinh((x - m_i) / c_i); centres and scales are [..., I]."""
    return np.asarray(np.arcsinh((x[..., None] - centres) / scales).sum(axis=-1))


def density_of_nodes(x: FloatArray, centres: FloatArray, scales: FloatArray) -> FloatArray:
    """Return dt/dx."""
    return np.asarray((1.0 / np.hypot(x[..., None] - centres, scales)).sum(axis=-1))


def grid(
    centres: FloatArray, scales: FloatArray, low: FloatArray, high: FloatArray, size: int = N_NODES
) -> tuple[FloatArray, FloatArray]:
    """Return nodes x and log weights for the trapezoid rule, both [U, size].

    Parameters
    ----------
    centres, scales
        [U, I] centres m and scales c.
    low, high
        [U] the ends.
    """
    t_low, t_high = stretch(low, centres, scales), stretch(high, centres, scales)
    step = (t_high - t_low) / (size - 1)
    target = t_low[:, None] + step[:, None] * np.arange(size)
    lower = np.broadcast_to(low[:, None], target.shape).copy()
    upper = np.broadcast_to(high[:, None], target.shape).copy()
    x = 0.5 * (lower + upper)
    before = np.full_like(x, np.inf)
    for _ in range(200):
        miss = stretch(x, centres[:, None], scales[:, None]) - target
        lower, upper = np.where(miss < 0, x, lower), np.where(miss < 0, upper, x)
        newton = x - miss / density_of_nodes(x, centres[:, None], scales[:, None])
        # Between two centres Newton's method may go to and fro within its bracket for ever: it
        # must halve what it misses by. A node in its place stays, however wide the bracket.
        halves = (newton > lower) & (newton < upper) & (np.abs(miss) <= 0.5 * before)
        close = np.abs(miss) < 1e-12 * np.maximum(1.0, np.abs(target))
        moved = np.where(halves, newton, np.where(close, x, 0.5 * (lower + upper)))
        x, before = np.where(np.abs(miss) < 1e-13, x, moved), np.abs(miss)
        if close.all():
            break
    density = density_of_nodes(x, centres[:, None], scales[:, None])
    return x, np.log(step[:, None] / density)


@dataclass(frozen=True)
class Posterior1D:
    """An exact posterior of mu on its nodes.

    Attributes
    ----------
    x, mass
        [J, K] nodes of logit(mu) and probability mass of each.
    log_evidence
        [J] log of the integral.
    """

    x: FloatArray
    mass: FloatArray
    log_evidence: FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd of mu, [J]."""
        mu = expit(self.x)
        mean = (self.mass * mu).sum(axis=1)
        return mean, np.sqrt((self.mass * (mu - mean[:, None]) ** 2).sum(axis=1))


def exact_posterior(
    r: IntArray, n: IntArray, m: FloatArray, a0: float, b0: float, size: int = 200
) -> Posterior1D:
    """Return the posterior of mu_j with theta integrated out, the yardstick of RVD2's forms.

    p(mu | r) is proportional to Beta(mu; A0, B0) prod_i BetaBin(r_i | n_i, M mu, M (1-mu)),
    eq. 1 of the text with its sum over replicates inside the integral (its eq. 3 has it
    outside, but replicates share mu).

    Parameters
    ----------
    r, n
        [J, N] reads that do not show the reference, and depth.
    m
        [J] precision M_j.
    a0, b0
        Parameters mu0 M0 and (1-mu0) M0 of the prior.
    size
        Number of nodes.
    """
    rate = (r.sum(axis=1) + 0.5) / (n.sum(axis=1) + 1.0)
    mode, scale = likelihood_centre(r, n, m, np.log(rate / (1.0 - rate)))
    prior = np.full_like(mode, np.log(a0 / b0))
    prior_scale = np.full_like(mode, np.sqrt(1.0 / a0 + 1.0 / b0))
    centres = np.stack([mode, prior, 0.5 * (mode + prior)], axis=1)
    scales = 0.5 * np.stack([scale, prior_scale, np.minimum(scale, prior_scale)], axis=1)
    reach = 4.0 * TAIL
    low = centres.min(axis=1) - reach / (a0 + (r > 0).sum(axis=1))
    high = centres.max(axis=1) + reach / (b0 + (n > r).sum(axis=1)) + 4.0 * scales.max(axis=1)
    x, log_weight = grid(centres, scales, low, high, size)
    lmu, lnu = log_mu(x)
    log_f = a0 * lmu + b0 * lnu - betaln(a0, b0) + log_weight
    for i in range(r.shape[1]):
        log_f += log_beta_binomial(r[:, i, None], n[:, i, None], x, m[:, None])
    evidence = logsumexp(log_f, axis=1)
    binomial = (gammaln(n + 1.0) - gammaln(r + 1.0) - gammaln(n - r + 1.0)).sum(axis=1)
    return Posterior1D(x, np.exp(log_f - evidence[:, None]), evidence + binomial)
