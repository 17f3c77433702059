"""Expectation propagation for a probit Gaussian: sites, evidence, and its slope in prior variances.

    f_i = F_i'w,   w ~ N(0, diag(v)),   P(y_i = 1 | f_i) = Phi(f_i)

A site exp(nu_i f_i - tau_i f_i^2/2) stands for each label (Minka 2001; Rasmussen and Williams 2006,
section 3.6). With A = diag(1/v) + sum F tau F' the posterior of w is N(A^-1 sum F nu, A^-1). Of a
bag only mu_i = F_i'w and var_i = F_i'A^-1 F_i are needed: all sites are updated side by side
(parallel EP; van Gerven et al. 2009), so that a partition keeps two numbers a bag. With the cavity
ct = 1/var - tau, cm = (mu/var - nu)/ct and z = y cm/sqrt(1 + 1/ct), h = phi(z)/Z:

    Z = Phi(z),   d1 = y h/sqrt(1 + 1/ct),   d2 = h (z + h)/(1 + 1/ct)
    tau <- d2/(1 - d2/ct),   nu <- (d1 + d2 cm)/(1 - d2/ct)

    log Z_EP = sum log Z_i - (log|A| + sum log v)/2 + sum log(1 + tau/ct)/2
               + sum nu (mu - nu/(ct + tau))/2 + sum cm ct/(tau + ct) (tau cm - 2 nu)/2

(Rasmussen and Williams, eq 3.65 and the text after it, in primal form.) Z_i is the probability of
label i given all others at these v. At the fixed point the sites are stationary, so

    d log Z_EP / d log v_m = [ |w_m|^2/v_m - D_m + tr(A^-1)_mm/v_m ]/2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from vbmodels.core.special import inverse_mills
from vbmodels.core.state import FloatArray

LOWEST, HIGHEST = 1e-8, 1e4
"""Range of tau."""


@dataclass(frozen=True)
class Updated:
    """Sites after one update, and what the sites before it say.

    Attributes
    ----------
    tau, nu
        New sites, [n].
    log_z
        Leave-one-out log probability of each label, [n], in nats.
    evidence
        The bags' part of log Z_EP at the sites before, in nats.
    moved
        Sum of squared changes of the sites, in units of the marginals' sd.
    """

    tau: FloatArray
    nu: FloatArray
    log_z: FloatArray
    evidence: float
    moved: float


def log_chance(sign: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return log P(y) for f ~ N(mean, variance), y = +1 or -1, [n], in nats."""
    return np.asarray(log_ndtr(sign * mean / np.sqrt(1.0 + variance)))


def update(
    sign: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    tau: FloatArray,
    nu: FloatArray,
    damping: float = 1.0,
) -> Updated:
    """Update the sites of some bags.

    Parameters
    ----------
    sign
        Labels, +1 or -1, [n].
    mean, variance
        Marginals mu_i and var_i of f, [n], made with the sites given.
    tau, nu
        Sites, [n].
    damping
        Share of the way that the sites go, in (0, 1].
    """
    cavity = np.maximum(1.0 / variance - tau, 1e-10)
    centre = (mean / variance - nu) / cavity
    spread = 1.0 + 1.0 / cavity
    z = sign * centre / np.sqrt(spread)
    log_z = log_chance(sign, centre, 1.0 / cavity)
    hazard = inverse_mills(z)
    slope = sign * hazard / np.sqrt(spread)
    bend = hazard * (z + hazard) / spread
    shrunk = 1.0 - bend / cavity
    new_tau = np.clip(bend / shrunk, LOWEST, HIGHEST)
    new_nu = (slope + bend * centre) / shrunk
    # At a bound of tau the mean of the tilted distribution is still met.
    bound = new_tau != bend / shrunk
    tilted = centre + slope / cavity
    new_nu = np.where(bound, tilted * (cavity + new_tau) - cavity * centre, new_nu)
    tau_to, nu_to = tau + damping * (new_tau - tau), nu + damping * (new_nu - nu)
    both = cavity + tau
    evidence = (
        log_z
        + 0.5 * np.log1p(tau / cavity)
        + 0.5 * nu * (mean - nu / both)
        + 0.5 * centre * cavity / both * (tau * centre - 2.0 * nu)
    )
    moved = ((tau_to - tau) * variance) ** 2 + (nu_to - nu) ** 2 * variance
    return Updated(tau_to, nu_to, log_z, float(evidence.sum()), float(moved.sum()))
