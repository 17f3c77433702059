"""The row step of coordinate ascent: the bounds on sigmoid and softmax, and what they sum to.

F = E beta_k'x, Q = E(beta_k'x)^2, G = E eta_k'x, R = E(eta_k'x)^2, t = 2 y - 1,
lambda(e) = tanh(e/2) / (4 e). The sigmoid's bound (Jaakkola and Jordan 2000; eq VII) is

    log sigma(t b) >= -log(1 + exp(-e)) - e/2 + t b/2 - lambda(e)(b^2 - e^2),  best at e^2 = Q.

Gates (Boehning 1992): lse(f) <= lse(m) + softmax(m)'(f - m) + |f - m|^2/4, best at m = G.
(The paper's bound, Bouchard's, leaves one expert nearly all rows: `reproduce.bmem_bouchard`.)
Then phi_k is proportional to exp(G_k - log(1 + exp(-e_k)) - e_k/2 + t F_k/2).

Errata of the supplement: its (15)-(17) write z_n for x_n, and (17) drops t = 2 y_n - 1, so
that as printed the labels never enter the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vbmodels.core.special import jaakkola_lambda
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.likelihood import CHUNK, softmax_and_log
from vbmodels.experts.rows import Rows


@dataclass(frozen=True)
class Local(State, kind="experts/bmem.Local"):
    """A partition's own parameters.

    Attributes
    ----------
    phi
        q(z = k); [K, N].
    e
        Where the sigmoid's bound touches; [K, N].
    gate
        m of Boehning's bound; [K, N].
    flat
        X'X packed over 4, the gates' T, which no step changes; [1, p (p + 1) / 2]. None of one
        expert, which has no gates.
    """

    phi: FloatArray
    e: FloatArray
    gate: FloatArray
    flat: FloatArray | None = None


@dataclass(frozen=True)
class RowSums(Stats, kind="experts/bmem.RowSums"):
    """What a partition returns: linear and (packed) quadratic terms of experts and gates.

    Attributes
    ----------
    linear, quadratic
        b = sum phi t/2 x [K, p] and S = sum phi lambda(e) x x' [K, p (p + 1) / 2].
    gate_linear, gate_quadratic
        a [K, p] and T, [1, p (p + 1) / 2], one for all gates; None for one expert.
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


def local_state(t: FloatArray, expert: tuple[FloatArray, FloatArray], g: FloatArray) -> Local:
    """Return the best local parameters for the moments (F, Q) and G (eqs 15-18)."""
    f, q = expert
    phi, e = np.empty_like(g), np.empty_like(g)
    for rows in slices(t.size):
        e[:, rows] = np.sqrt(np.maximum(q[:, rows], 0.0))
        here = e[:, rows]
        logits = g[:, rows] - log_one_plus(here) - 0.5 * (here - t[rows] * f[:, rows])
        phi[:, rows] = softmax_and_log(logits)[0]
    return Local(phi, e, g)


def slices(size: int) -> Iterator[slice]:
    """Cut the rows so that what a step needs of them stays in cache."""
    for start in range(0, size, CHUNK):
        yield slice(start, start + CHUNK)


def log_one_plus(e: FloatArray) -> FloatArray:
    """Return log(1 + exp(-e)) for e >= 0, where the plain form loses nothing in a sum."""
    result: FloatArray = np.log(1.0 + np.exp(-e))
    return result


@dataclass(frozen=True)
class RowTerms:
    """What each row brings: factors of F, G and -Q [K, N], and the rest [N]."""

    pull: FloatArray
    slope: FloatArray
    weight: FloatArray
    constant: FloatArray


GateTerms = Callable[[FloatArray, slice], tuple[FloatArray, FloatArray]]


def row_terms(batch: Rows, local: Local, gates: GateTerms | None = None) -> RowTerms:
    """Return the terms of every row at its local parameters, times its weight.

    ``gates`` returns the slope in the gates' sums and the constant of another bound than
    Boehning's.
    """
    w, t, phi = batch.used, batch.t, local.phi
    pull, weight, slope = (np.empty_like(phi) for _ in range(3))
    constant = np.empty(phi.shape[1])
    for rows in slices(batch.size):
        p, e, own = phi[:, rows], local.e[:, rows], w[rows]
        lam = jaakkola_lambda(e)
        # phi log phi is 0 at phi = 0; below the smallest normal number it is as good as that.
        entropy = np.log(np.maximum(p, np.finfo(float).tiny))
        rest = np.einsum("kn,kn->n", p, lam * e * e - 0.5 * e - log_one_plus(e) - entropy)
        if gates is None:
            gate, beside = _bohning_terms(p, local.gate[:, rows])
        else:
            gate, beside = gates(p, rows)
        pull[:, rows] = 0.5 * own * t[rows] * p
        weight[:, rows] = own * p * lam
        slope[:, rows] = own * gate
        constant[rows] = own * (rest + beside)
    return RowTerms(pull, slope, weight, constant)


def row_sums(batch: Rows, local: Local) -> RowSums:
    """Return the sums of a partition at its local parameters."""
    return sums_of(batch, local, row_terms(batch, local))


def sums_of(batch: Rows, local: Local, terms: RowTerms) -> RowSums:
    """Return the sums of the rows' terms."""
    k = len(local.phi)
    linear = batch.collect(np.concatenate([terms.pull, terms.slope]))
    return RowSums(
        linear=linear[:k],
        quadratic=batch.gram(terms.weight),
        gate_linear=linear[k:],
        gate_quadratic=local.flat,
        share=local.phi @ batch.used,
        constant=float(terms.constant.sum()),
    )


def _bohning_terms(phi: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gates' slope, phi - pi + m/2, and the row's constant: in place of eqs 12, 13."""
    pi, log_total = softmax_and_log(m)
    # With one expert the softmax is constant and needs no bound.
    half = 0.5 if len(phi) > 1 else 0.0
    constant = np.einsum("kn,kn->n", pi - 0.5 * half * m, m) - log_total
    return phi - pi + half * m, constant
