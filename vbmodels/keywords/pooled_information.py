"""The observed information of pooled VBSS: how sure one may be of a coefficient.

q(w) has the precision of the complete data, Lambda = S0^-1 + X'X, as if z were seen. What z
and y* hide is missing from it, and its standard deviations come out three to four times too
small. The curvature of the bound with q(z), q(alpha_d) and q(a_d | w) following w is that of
the posterior itself, to the accuracy of a Laplace approximation (linear response, Giordano,
Broderick and Jordan 2018; the information of Louis 1982 where alpha is known). Per document

    H = diag(k) - rho kappa kappa',    k_i = (E z_i - eta_i) E z_i = 1 - Var z_i,
    kappa_i = c phi(eta_i) / Z_i^2 for y_i = 0,    rho = psi / (1 - psi sum r (1 - r)),
    J = S0^-1 + sum_d { X'H X - X'H 1 1'H X / (1'H 1 + tau) },

with psi = trigamma(a) - trigamma(a + b) of q(alpha_d) = Beta(a, b); the last term only with
a document's own intercept.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vbmodels.core.expfam import Beta
from vbmodels.core.special import trigamma
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.labels import LOG_SQRT_2PI, LatentImportance, per_document

BLOCK_WORDS = 1024
"""Rows worked on at once: a block of standardised features stays in the cache."""


@dataclass(frozen=True)
class Curvature:
    """H of every document: k [W], kappa [W] and rho [D], and tau or None."""

    known: FloatArray
    kappa: FloatArray
    rho: FloatArray
    tau: float | None


def curvature_of(
    eta: FloatArray,
    z: LatentImportance,
    unlisted: BoolArray,
    log_c: FloatArray,
    alpha: Beta,
    offsets: IntArray,
    tau: float | None,
) -> Curvature:
    """Return H at q(z), which was made with eta [W] and log c [W], and q(alpha) [D]."""
    kappa = np.exp(log_c - 0.5 * eta**2 - LOG_SQRT_2PI - 2.0 * z.log_norm)
    open_ = np.where(unlisted, z.keyword * (1.0 - z.keyword), 0.0)
    psi = trigamma(alpha.a) - trigamma(alpha.a + alpha.b)
    # Above zero wherever q(alpha) has settled; the floor only guards the first sweeps.
    slope = np.maximum(1.0 - psi * per_document(open_, offsets), 1e-3)
    return Curvature(
        known=(z.mean - eta) * z.mean,
        kappa=np.where(unlisted, kappa, 0.0),
        rho=psi / slope,
        tau=tau,
    )


def own_bend(h: Curvature, offsets: IntArray) -> FloatArray:
    """Return 1'H 1 [D], what the labels say of a document's own intercept."""
    mass = per_document(h.kappa, offsets)
    bend: FloatArray = per_document(h.known, offsets) - h.rho * mass**2
    return bend


def information(
    x: FloatArray, location: FloatArray, scale: FloatArray, offsets: IntArray, h: Curvature
) -> FloatArray:
    """Return sum_d X'H X [P, P], less the intercepts' part, for raw features x [W, P]."""
    total, inverse = np.zeros((x.shape[1], x.shape[1])), 1.0 / scale
    for first, last in _blocks(offsets):
        rows = slice(int(offsets[first]), int(offsets[last]))
        starts = offsets[first:last] - offsets[first]
        block = (x[rows] - location) * inverse
        weighted = block * h.known[rows, None]
        hidden = np.add.reduceat(block * h.kappa[rows, None], starts, axis=0)
        rho = h.rho[first:last]
        total += block.T @ weighted - (hidden.T * rho) @ hidden
        if h.tau is not None:
            mass = np.add.reduceat(h.kappa[rows], starts)
            across = np.add.reduceat(weighted, starts, axis=0) - (rho * mass)[:, None] * hidden
            weight = np.add.reduceat(h.known[rows], starts) - rho * mass**2 + h.tau
            total -= (across.T / weight) @ across
    return total


def _blocks(offsets: IntArray) -> list[tuple[int, int]]:
    """Cut the documents into runs of about ``BLOCK_WORDS`` words."""
    n = len(offsets) - 1
    if n == 0:
        return []
    cuts = np.flatnonzero(np.diff(offsets[:-1] // BLOCK_WORDS)) + 1
    return list(pairwise([0, *cuts.tolist(), n]))


def covariance(information: FloatArray, prior_variance: FloatArray) -> FloatArray:
    """Return J^-1 [P, P]; no direction is less sure than the prior leaves it.

    Before convergence J may have directions of no curvature: they get the prior's.
    """
    root = np.sqrt(prior_variance)
    values, axes = np.linalg.eigh(root[:, None] * information * root)
    scaled = axes * root[:, None]
    result: FloatArray = (scaled / np.maximum(values, 1.0)) @ scaled.T
    return result
