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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from vbmodels.core.special import jaakkola_lambda
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.batch import Rows
from vbmodels.experts.likelihood import CHUNK, softmax_and_log

GateBound = Literal["bohning", "bouchard"]
_TIGHT = 1e-5  # the step of Newton's that is the last
_FARTHEST = 4.0
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
    flat
        X'X packed over 4, the gates' T of Boehning's bound, which no step changes; [1,
        p (p + 1) / 2]. None for Bouchard's, and of one expert, which has no gates.
    """

    phi: FloatArray
    e: FloatArray
    gate: FloatArray
    c: FloatArray | None
    flat: FloatArray | None = None


@dataclass(frozen=True)
class RowSums(Stats):
    """What a partition returns: linear and (packed) quadratic terms of experts and gates.

    Attributes
    ----------
    linear, quadratic
        b = sum phi t/2 x [K, p] and S = sum phi lambda(e) x x' [K, p (p + 1) / 2].
    gate_linear, gate_quadratic
        a [K, p] and T, [K, p (p + 1) / 2] (Boehning's: [1, ...], one for all; None for one expert).
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
    (f, q), (g, r) = expert, gate
    phi, e = np.empty_like(g), np.empty_like(g)
    d, c = np.empty_like(g), np.empty(g.shape[1])
    old = None if before is None else before.c
    for rows in _slices(t.size):
        e[:, rows] = np.sqrt(np.maximum(q[:, rows], 0.0))
        here = e[:, rows]
        logits = g[:, rows] - _log_one_plus(here) - 0.5 * (here - t[rows] * f[:, rows])
        phi[:, rows] = softmax_and_log(logits)[0]
        if r is not None:
            start = None if old is None else old[rows]
            d[:, rows], c[rows] = _bouchard(g[:, rows], r[:, rows], start)
    return Local(phi, e, g, None) if r is None else Local(phi, e, d, c)


def _slices(size: int) -> Iterator[slice]:
    """Cut the rows so that what a step needs of them stays in cache."""
    for start in range(0, size, CHUNK):
        yield slice(start, start + CHUNK)


def _log_one_plus(e: FloatArray) -> FloatArray:
    """Return log(1 + exp(-e)) for e >= 0, where the plain form loses nothing in a sum."""
    result: FloatArray = np.log(1.0 + np.exp(-e))
    return result


def _bouchard(g: FloatArray, r: FloatArray, c: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return d and c; with the best d the bound is concave in c.

    Newton steps on the bound's slope, halving the bracket wherever a step would leave it.
    """
    c = logsumexp(g, axis=0) if c is None else c.copy()
    going = np.arange(c.size)
    part, spread, at = g, r - g * g, c
    low, high = np.full(c.size, -np.inf), np.full(c.size, np.inf)
    for _ in range(_MOST_TURNS):
        slope, curvature = _slope(part, spread, at)
        low, high = np.where(slope > 0.0, at, low), np.where(slope < 0.0, at, high)
        step = np.clip(slope / np.maximum(curvature, 1e-8), -_FARTHEST, _FARTHEST)
        trial = at + step
        # A step below the spacing of numbers goes nowhere, which is no way out of the bracket:
        # far from zero that is wide, and its middle may be infinite.
        inside = (trial > low) & (trial < high) | (trial == at)
        with np.errstate(invalid="ignore"):
            trial = np.where(inside | (slope == 0.0), trial, 0.5 * (low + high))
        c[going] = trial
        # What is left after a step of Newton's is its square.
        rest = ~inside & (slope != 0.0) | (np.abs(step) > _TIGHT)
        if not rest.any():
            break
        # The rows that are done stay as they are.
        going, at, low, high = going[rest], trial[rest], low[rest], high[rest]
        part, spread = part[:, rest], spread[:, rest]
    return np.sqrt(np.maximum(r - 2.0 * c * g + c * c, 0.0)), c


def _slope(g: FloatArray, spread: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
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


@dataclass(frozen=True)
class RowTerms:
    """What each row brings: factors of F, G, -Q and -R [K, N], and the rest [N].

    ``curve`` is None where no sum of it is made: for Boehning's gates it is 1/4.
    """

    pull: FloatArray
    slope: FloatArray
    weight: FloatArray
    curve: FloatArray | None
    constant: FloatArray


def row_terms(batch: Rows, local: Local) -> RowTerms:
    """Return the terms of every row at its local parameters, times its weight."""
    w, t, phi = batch.used, batch.t, local.phi
    pull, weight, slope, curve = (np.empty_like(phi) for _ in range(4))
    constant = np.empty(phi.shape[1])
    for rows in _slices(batch.size):
        p, e, own = phi[:, rows], local.e[:, rows], w[rows]
        lam = jaakkola_lambda(e)
        # phi log phi is 0 at phi = 0; below the smallest normal number it is as good as that.
        entropy = np.log(np.maximum(p, np.finfo(float).tiny))
        rest = np.einsum("kn,kn->n", p, lam * e * e - 0.5 * e - _log_one_plus(e) - entropy)
        if local.c is None:
            gate, beside = _bohning_terms(p, local.gate[:, rows])
        else:
            gate, beside, lam_gate = _bouchard_terms(p, local.gate[:, rows], local.c[rows])
            curve[:, rows] = own * lam_gate
        pull[:, rows] = 0.5 * own * t[rows] * p
        weight[:, rows] = own * p * lam
        slope[:, rows] = own * gate
        constant[rows] = own * (rest + beside)
    return RowTerms(pull, slope, weight, None if local.c is None else curve, constant)


def row_sums(batch: Rows, local: Local) -> RowSums:
    """Return the sums of a partition at its local parameters."""
    terms, k = row_terms(batch, local), len(local.phi)
    linear = batch.collect(np.concatenate([terms.pull, terms.slope]))
    curve = [] if terms.curve is None else [terms.curve]
    quadratic = batch.gram(np.concatenate([terms.weight, *curve]))
    return RowSums(
        linear=linear[:k],
        quadratic=quadratic[:k],
        gate_linear=linear[k:],
        gate_quadratic=local.flat if terms.curve is None else quadratic[k:],
        share=local.phi @ batch.used,
        constant=float(terms.constant.sum()),
    )


def _bohning_terms(phi: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the slope in the gates' sums, phi - pi + m/2, and the row's constant."""
    pi, log_total = softmax_and_log(m)
    # With one expert the softmax is constant and needs no bound.
    half = 0.5 if len(phi) > 1 else 0.0
    constant = np.einsum("kn,kn->n", pi - 0.5 * half * m, m) - log_total
    return phi - pi + half * m, constant


def _bouchard_terms(
    phi: FloatArray, d: FloatArray, c: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the slope, phi - 1/2 + 2 c lambda(d), the row's constant, and lambda(d)."""
    lam = jaakkola_lambda(d)
    inner = _log_one_plus(d) + 0.5 * (d - c) + lam * (c * c - d * d)
    return phi - 0.5 + 2.0 * c * lam, -c - inner.sum(0), lam
