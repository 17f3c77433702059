"""BMEM's coordinate ascent with the paper's bound on the gates' softmax (Bouchard 2007).

Eqs VI, 12 and 13 of the supplement of Xie, Zhu and Xing (2016), with the letters of
`vbmodels.experts.bmem.model`:

    lse(f) <= c + sum_j [log(1 + exp(d_j)) + (f_j - c - d_j)/2 + lambda(d_j)((f_j - c)^2 - d_j^2)],
    best at d_j^2 = R_j - 2 c G_j + c^2,  c = [(K/2 - 1)/2 + sum lambda(d_j) G_j] / sum lambda(d_j).

Its slack grows with the spread of the gates so fast that one expert keeps nearly all rows, which
is why the product takes Boehning's.

Errata of the supplement: its (15)-(17) write z_n for x_n, and (17) drops t = 2 y_n - 1, so
that as printed the labels never enter the bound; both are corrected here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from vbmodels.core.special import jaakkola_lambda
from vbmodels.core.state import FloatArray
from vbmodels.experts.bmem.model import (
    BoundedExperts,
    Local,
    Mixture,
    RowSums,
    RowTerms,
    local_state,
    log_one_plus,
    row_terms,
    sums_of,
)
from vbmodels.experts.bmem.mutual_angular import Angular
from vbmodels.experts.bmem.normals import Normals
from vbmodels.experts.rows import Rows

TIGHT = 1e-5  # the step of Newton's that is the last
FARTHEST = 4.0
MOST_TURNS = 200


@dataclass(frozen=True)
class BouchardLocal(Local):
    """Local parameters with the centre of the bound, c [N]; ``gate`` is d [K, N]."""

    c: FloatArray | None = None


@dataclass(frozen=True)
class BouchardExperts(BoundedExperts):
    """Coordinate ascent with Bouchard's bound on the gates; of two experts or more."""

    def local_step(self, q: Mixture, batch: Rows, local: Any) -> BouchardLocal:
        """Return the best local parameters at ``q``."""
        (g, r), expert = along_both(q.gates, q.experts, batch)
        found = local_state(batch.t, expert, g)
        d, c = best_centre(g, r, None if local is None else local.c)
        return BouchardLocal(found.phi, found.e, d, None, c)

    def suff_stats(self, q: Mixture, batch: Rows, local: Any) -> RowSums:
        """Return the sums at the local parameters, with a T for every gate."""
        sums = sums_of(batch, local, _terms(batch, local))
        return replace(sums, gate_quadratic=batch.gram(batch.used * jaakkola_lambda(local.gate)))

    def unit_bounds(self, q: Mixture, batch: Rows, local: Any) -> FloatArray:
        """Return what every row brings to the bound."""
        curve = batch.used * jaakkola_lambda(local.gate)
        return bounds_of(q, batch, _terms(batch, local), curve)


def _terms(batch: Rows, local: Any) -> RowTerms:
    def gates(phi: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Return the slope, phi - 1/2 + 2 c lambda(d), and the row's constant."""
        d, c = local.gate[:, rows], local.c[rows]
        lam = jaakkola_lambda(d)
        inner = log_one_plus(d) + 0.5 * (d - c) + lam * (c * c - d * d)
        return phi - 0.5 + 2.0 * c * lam, -c - inner.sum(0)

    return row_terms(batch, local, gates)


def best_centre(
    g: FloatArray, r: FloatArray, c: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return d [K, N] and c [N] (eqs 12, 13); with the best d the bound is concave in c.

    Newton steps on the bound's slope, halving the bracket wherever a step would leave it.
    """
    c = logsumexp(g, axis=0) if c is None else c.copy()
    going = np.arange(c.size)
    part, spread, at = g, r - g * g, c
    low, high = np.full(c.size, -np.inf), np.full(c.size, np.inf)
    for _ in range(MOST_TURNS):
        slope, curvature = slope_of(part, spread, at)
        low, high = np.where(slope > 0.0, at, low), np.where(slope < 0.0, at, high)
        step = np.clip(slope / np.maximum(curvature, 1e-8), -FARTHEST, FARTHEST)
        trial = at + step
        # A step below the spacing of numbers goes nowhere, which is no way out of the bracket:
        # far from zero that is wide, and its middle may be infinite.
        inside = (trial > low) & (trial < high) | (trial == at)
        with np.errstate(invalid="ignore"):
            trial = np.where(inside | (slope == 0.0), trial, 0.5 * (low + high))
        c[going] = trial
        # What is left after a step of Newton's is its square.
        rest = ~inside & (slope != 0.0) | (np.abs(step) > TIGHT)
        if not rest.any():
            break
        # The rows that are done stay as they are.
        going, at, low, high = going[rest], trial[rest], low[rest], high[rest]
        part, spread = part[:, rest], spread[:, rest]
    return np.sqrt(np.maximum(r - 2.0 * c * g + c * c, 0.0)), c


def slope_of(g: FloatArray, spread: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bound's slope in c at the best d, and minus its curvature; spread = R - G^2."""
    away = c - g
    along = away * away
    exact = spread + along
    square = np.maximum(exact, 1e-4)
    safe = np.sqrt(square)
    tanh = np.tanh(0.5 * safe)
    weight = tanh / (4.0 * safe)
    # lambda'(d) / d = ((1 - tanh^2) / 8 - lambda) / d^2, whose limit at 0 is -1/48.
    bend = (0.125 * (1.0 - tanh * tanh) - weight) / square
    if exact.min(initial=1.0) < 1e-4:
        # There the series of lambda; its next term is rounding.
        exact = np.maximum(exact, 0.0)
        near = 0.125 - exact / 96.0 + exact * exact / 960.0
        weight = np.where(exact < 1e-4, near, weight)
    slope = 0.5 * len(g) - 1.0 - 2.0 * np.einsum("kn,kn->n", weight, away)
    return slope, 2.0 * (weight.sum(0) + np.einsum("kn,kn->n", bend, along))


def bounds_of(q: Mixture, batch: Rows, terms: RowTerms, curve: FloatArray) -> FloatArray:
    """Return what every row brings to the bound; ``curve`` multiplies -R of the gates."""
    (g, r), (f, square) = along_both(q.gates, q.experts, batch)
    bound: FloatArray = terms.constant + np.einsum("kn,kn->n", terms.pull, f)
    bound += np.einsum("kn,kn->n", terms.slope, g)
    bound -= np.einsum("kn,kn->n", terms.weight, square)
    return bound - (curve * r).sum(0) if len(g) > 1 else bound


def along_both(
    gates: Normals | Angular, experts: Normals | Angular, batch: Rows
) -> list[tuple[FloatArray, FloatArray]]:
    """Return E v'x and E (v'x)^2 of gates and of experts; Gaussians in one pass of the rows."""
    if isinstance(gates, Angular) or isinstance(experts, Angular):
        return [gates.along(batch), experts.along(batch)]
    k = len(gates.mean)
    mean, covariance = (
        np.concatenate([getattr(v, name) for v in (gates, experts)])
        for name in ("mean", "covariance")
    )
    first, second = Normals(mean, covariance).along(batch)
    return [(first[:k], second[:k]), (first[k:], second[k:])]
