"""The row step of coordinate ascent: the bounds on sigmoid and softmax, and what they sum to.

F = E beta_k'x, Q = E(beta_k'x)^2, G = E eta_k'x, R = E(eta_k'x)^2, t = 2 y - 1,
lambda(e) = tanh(e/2) / (4 e). The sigmoid's bound (Jaakkola and Jordan 2000) is

    log sigma(t b) >= -log(1 + exp(-e)) - e/2 + t b/2 - lambda(e)(b^2 - e^2),  best at e^2 = Q.

Gates, "bohning" (Boehning 1992): lse(f) <= lse(m) + softmax(m)'(f - m) + |f - m|^2/4, best
at m = G. "bouchard" (Bouchard 2007; eq. 12-13 of the supplement of Xie, Zhu and Xing 2016):
lse(f) <= c + sum_j [log(1 + exp(d_j)) + (f_j - c - d_j)/2 + lambda(d_j)((f_j - c)^2 - d_j^2)],
best at d_j^2 = R_j - 2 c G_j + c^2 and c = [(K/2 - 1)/2 + sum lambda(d_j) G_j] / sum lambda(d_j).
Then phi_k is proportional to exp(G_k - log(1 + exp(-e_k)) - e_k/2 + t F_k/2).

Errata of the supplement: its (15)-(17) write z_n for x_n, and (17) drops t = 2 y_n - 1, so
that as printed the labels never enter the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logsumexp, softmax, xlogy

from vbmodels.experts.batch import Rows
from vbmodels.special import jaakkola_lambda
from vbmodels.state import FloatArray, State, Stats

GateBound = Literal["bohning", "bouchard"]
_TIGHT = 1e-10
_MOST_TURNS = 200


@dataclass(frozen=True)
class Local(State):
    """A partition's own parameters.

    Attributes
    ----------
    phi
        q(z = k); [K, N].
    e
        Where the sigmoid's bound touches; [K, N].
    gate
        m of Boehning's bound, or d of Bouchard's; [K, N].
    c
        Centre of Bouchard's bound; [N]. None for Boehning's.
    """

    phi: FloatArray
    e: FloatArray
    gate: FloatArray
    c: FloatArray | None


@dataclass(frozen=True)
class RowSums(Stats):
    """What a partition returns: linear and (packed) quadratic terms of experts and gates.

    Attributes
    ----------
    linear, quadratic
        b = sum phi t/2 x [K, p] and S = sum phi lambda(e) x x' [K, p (p + 1) / 2].
    gate_linear, gate_quadratic
        a [K, p] and T; T is None where it never changes (Boehning's).
    share
        sum phi; [K].
    constant
        The rest of the bound.
    """

    linear: FloatArray
    quadratic: FloatArray
    gate_linear: FloatArray
    gate_quadratic: FloatArray | None
    share: FloatArray
    constant: float


def local_state(
    t: FloatArray,
    expert: tuple[FloatArray, FloatArray],
    gate: tuple[FloatArray, FloatArray | None],
    before: Local | None,
) -> Local:
    """Return the best local parameters for the moments (F, Q) and (G, R); R None: Boehning's."""
    f, q = expert
    g, r = gate
    e = np.sqrt(np.maximum(q, 0.0))
    logits = g - np.logaddexp(0.0, -e) - 0.5 * e + 0.5 * t * f
    phi = softmax(logits, axis=0)
    if r is None:
        return Local(phi, e, g, None)
    return Local(phi, e, *_bouchard(g, r, None if before is None else before.c))


def _bouchard(g: FloatArray, r: FloatArray, c: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return d and c; with the best d the bound is convex in c.

    Turns of c and d, each of which rises, and after each a Newton step for the rows where that
    brings the slope nearer to 0.
    """
    c = logsumexp(g, axis=0) if c is None else c
    for _ in range(_MOST_TURNS):
        before = c
        weight, _, _ = _slope(g, r, c)
        c = (0.5 * (0.5 * len(g) - 1.0) + (weight * g).sum(0)) / weight.sum(0)
        _, slope, curvature = _slope(g, r, c)
        trial = c + np.clip(slope / np.maximum(curvature, 1e-8), -4.0, 4.0)
        _, there, _ = _slope(g, r, trial)
        c = np.where(np.abs(there) < np.abs(slope), trial, c)
        if np.max(np.abs(c - before), initial=0.0) <= _TIGHT:
            break
    return np.sqrt(np.maximum(r - 2.0 * c * g + c * c, 0.0)), c


def _slope(
    g: FloatArray, r: FloatArray, c: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return lambda(d) at the best d, the bound's slope in c, and minus its curvature."""
    d = np.sqrt(np.maximum(r - 2.0 * c * g + c * c, 0.0))
    weight = jaakkola_lambda(d)
    safe = np.maximum(d, 1e-2)
    # lambda'(d) / d, whose limit at 0 is -1/48.
    tanh = np.tanh(0.5 * safe)
    bend = (0.5 * safe * (1.0 - tanh * tanh) - tanh) / (4.0 * safe**3)
    slope = 0.5 * len(g) - 1.0 - 2.0 * (weight * (c - g)).sum(0)
    return weight, slope, 2.0 * (weight + bend * (c - g) ** 2).sum(0)


def row_sums(batch: Rows, local: Local) -> RowSums:
    """Return the sums of a partition at its local parameters."""
    w, t = batch.used, batch.t
    phi, e, gate = local.phi, local.e, local.gate
    k = len(phi)
    lam = jaakkola_lambda(e)
    rest = phi * (-np.logaddexp(0.0, -e) - 0.5 * e + lam * e * e) - xlogy(phi, phi)
    if local.c is None:
        pi = softmax(gate, axis=0)
        # With one expert the softmax is constant and needs no bound.
        curve = 0.5 if k > 1 else 0.0
        slope = phi - pi + curve * gate
        constant = -logsumexp(gate, axis=0) + (pi * gate - 0.5 * curve * gate * gate).sum(0)
        curvature = None
    else:
        c, weight = local.c, jaakkola_lambda(gate)
        slope = phi - 0.5 + 2.0 * c * weight
        inner = np.logaddexp(0.0, gate) - 0.5 * (c + gate) + weight * (c * c - gate * gate)
        constant = -c - inner.sum(0)
        curvature = batch.gram(w * weight)
    return RowSums(
        linear=batch.collect(0.5 * w * t * phi),
        quadratic=batch.gram(w * phi * lam),
        gate_linear=batch.collect(w * slope),
        gate_quadratic=curvature,
        share=phi @ w,
        constant=float(w @ (rest.sum(0) + constant)),
    )
