"""Mixture of logistic experts by coordinate ascent on bounds of sigmoid and softmax.

q = prod_k q(beta_k) q(eta_k) prod_n q(z_n). With F = E beta_k'x, Q = E(beta_k'x)^2, G = E eta_k'x,
R = E(eta_k'x)^2, t = 2 y - 1 and lambda(e) = tanh(e/2) / (4 e) the sigmoid's bound (Jaakkola and
Jordan 2000; eq VII) is

    log sigma(t b) >= -log(1 + exp(-e)) - e/2 + t b/2 - lambda(e)(b^2 - e^2),  best at e^2 = Q.

Gates (Boehning 1992): lse(f) <= lse(m) + softmax(m)'(f - m) + |f - m|^2/4, best at m = G.
(The paper's bound, Bouchard's, leaves one expert nearly all rows: `reproduce.bmem_bouchard`.)
Then phi_k is proportional to exp(G_k - log(1 + exp(-e_k)) - e_k/2 + t F_k/2), and with the sums

    bound = constant + sum_k [b_k'E beta_k - tr(S_k E beta_k beta_k')]
          + sum_k [a_k'E eta_k - tr(T_k E eta_k eta_k')] - KL(q || prior),

T = X'X/4: every row's sums are all that the global parameters need of it. Priors: "gaussian" (here:
V = (diag tau + 2 S)^-1, m = V b) and "mabn2", the mutual angular prior of type II
(`mutual_angular`). With ``omega`` the experts' Gaussians are regularised towards wide angles
(`normals`), and the bound has that term too. The loop is SQUAREM's, guarded by the bound, in
coordinates without constraints. Gaussians: the mean and the Cholesky factor of the covariance with
a logarithmic diagonal. Angular factors: the direction (which is normalised on the way back) and the
logarithms of concentration, shape and mean length.

With weights the likelihood is prod_n p(y_n | x_n)^w_n. Each row's bound holds whatever its q(z_n)
and is multiplied by w_n, its entropy with it: q(z_n) stays the unweighted one, its sums get w_n.

This bound does not choose the number of experts: its slack grows with K and with the spread
of the gates, by more than the data say. Choose K by held-out log-likelihood.

Errata of the supplement: its (15)-(17) write z_n for x_n, and (17) drops t = 2 y_n - 1, so
that as printed the labels never enter the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from vbmodels.core.linalg import cholesky, pack, unpack
from vbmodels.core.special import jaakkola_lambda
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.bmem.mutual_angular import Angular, AngularPrior
from vbmodels.experts.bmem.normals import NormalPrior, Normals
from vbmodels.experts.likelihood import CHUNK, softmax_and_log
from vbmodels.experts.posterior import Component, Posterior
from vbmodels.experts.rows import Observed, Rows


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
    constant
        The rest of the bound.
    """

    linear: FloatArray
    quadratic: FloatArray
    gate_linear: FloatArray
    gate_quadratic: FloatArray | None
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
    return np.log(1.0 + np.exp(-e))


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
        p, e, row_weight = phi[:, rows], local.e[:, rows], w[rows]
        lam = jaakkola_lambda(e)
        # phi log phi is 0 at phi = 0; below the smallest normal number it is as good as that.
        entropy = np.log(np.maximum(p, np.finfo(float).tiny))
        rest = np.einsum("kn,kn->n", p, lam * e * e - 0.5 * e - log_one_plus(e) - entropy)
        if gates is None:
            gate, of_gates = _bohning_terms(p, local.gate[:, rows])
        else:
            gate, of_gates = gates(p, rows)
        pull[:, rows] = 0.5 * row_weight * t[rows] * p
        weight[:, rows] = row_weight * p * lam
        slope[:, rows] = row_weight * gate
        constant[rows] = row_weight * (rest + of_gates)
    return RowTerms(pull, slope, weight, constant)


def sums_of(batch: Rows, local: Local, terms: RowTerms) -> RowSums:
    """Return the sums of the rows' terms."""
    k = len(local.phi)
    linear = batch.collect(np.concatenate([terms.pull, terms.slope]))
    return RowSums(
        linear=linear[:k],
        quadratic=batch.gram(terms.weight),
        gate_linear=linear[k:],
        gate_quadratic=local.flat,
        constant=float(terms.constant.sum()),
    )


def _bohning_terms(phi: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gates' slope, phi - pi + m/2, and the row's constant: in place of eqs 12, 13."""
    pi, log_total = softmax_and_log(m)
    # With one expert the softmax is constant and needs no bound.
    half = 0.5 if len(phi) > 1 else 0.0
    constant = np.einsum("kn,kn->n", pi - 0.5 * half * m, m) - log_total
    return phi - pi + half * m, constant


def flat(q: Normals | Angular) -> FloatArray:
    """Return the coordinates of one factor."""
    if isinstance(q, Angular):
        rest = np.log(np.concatenate([q.concentration, q.shape, q.length]))
        return np.concatenate([q.direction.ravel(), rest])
    factor = cholesky(q.covariance, "a covariance")
    diagonal = np.arange(factor.shape[-1])
    factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
    return np.concatenate([q.mean.ravel(), pack(factor).ravel()])


def moved(q: Normals | Angular, vector: FloatArray) -> Normals | Angular:
    """Return a factor like ``q`` at these coordinates."""
    if isinstance(q, Angular):
        k, p = q.direction.shape
        direction = vector[: k * p].reshape(k, p)
        direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        return Angular(direction, *np.exp(vector[k * p :]).reshape(3, k))
    k, p = q.mean.shape
    factor = np.zeros((k, p, p))
    rows, columns = np.tril_indices(p)
    factor[:, rows, columns] = vector[k * p :].reshape(k, -1)
    diagonal = np.arange(p)
    factor[:, diagonal, diagonal] = np.exp(factor[:, diagonal, diagonal])
    return Normals(vector[: k * p].reshape(k, p), factor @ np.swapaxes(factor, 1, 2))


Prior = Literal["gaussian", "mabn2"]


@dataclass(frozen=True)
class Mixture(State, kind="experts/bmem.Mixture"):
    """The global parameters: gates and experts (eqs 2, 9)."""

    gates: Normals | Angular
    experts: Normals | Angular


@dataclass(frozen=True)
class BoundedExperts:
    """Coordinate ascent for mixtures of logistic experts (eq 8).

    Parameters
    ----------
    n_experts
        K; with 1 it is Bayesian logistic regression, and the gates are left out.
    prior
        "gaussian" or "mabn2".
    tau
        Precision of the Gaussian prior.
    angular
        The mutual angular prior.
    omega
        Weight of posterior regularisation of the experts, with the Gaussian prior.
    """

    n_experts: int = 5
    prior: Prior = "gaussian"
    tau: float = 1.0
    angular: AngularPrior = field(default_factory=AngularPrior)
    omega: float = 0.0

    def __post_init__(self) -> None:
        if self.prior == "mabn2" and self.omega > 0.0:
            raise ValueError("expected the Gaussian prior with omega, got mabn2: give one of them")

    @property
    def law(self) -> Any:
        """The prior of gates."""
        return self.angular if self.prior == "mabn2" else NormalPrior(self.tau)

    @property
    def expert_law(self) -> Any:
        """The prior of experts."""
        return self.angular if self.prior == "mabn2" else NormalPrior(self.tau, self.omega)

    def observe(self, batch: Rows) -> Observed:
        """Count the labelled rows."""
        return Observed.of(batch)

    def init(self, observed: Observed, rng: np.random.Generator) -> Mixture:
        """Begin at random."""
        observed.refuse_one_class()
        columns = observed.squares.size
        gates = self.law.start(self.n_experts, columns, rng)
        return Mixture(gates, self.expert_law.start(self.n_experts, columns, rng))

    def local_step(self, q: Mixture, batch: Rows, local: Local | None) -> Local:
        """Return the best local parameters at ``q``."""
        updated = local_state(batch.t, q.experts.along(batch), batch.project(q.gates.mean))
        if self.n_experts == 1:
            return updated
        flat = 0.25 * batch.gram(batch.used[None]) if local is None else local.flat
        return replace(updated, flat=flat)

    def suff_stats(self, q: Mixture, batch: Rows, local: Local) -> RowSums:
        """Return the sums at the local parameters."""
        return sums_of(batch, local, row_terms(batch, local))

    def global_step(self, q: Mixture, stats: RowSums) -> Mixture:
        """Return the gates and experts that maximise the bound (mabn2: that raise it in turn)."""
        gates = self.law.update(q.gates, stats.gate_linear, _curvature(stats))
        experts = self.expert_law.update(q.experts, stats.linear, unpack(stats.quadratic))
        return Mixture(gates, experts)

    def elbo(self, q: Mixture, stats: RowSums) -> float:
        """Return the bound (eqs 1, 10, 20); see the module's text."""
        value = stats.constant + np.sum(stats.linear * q.experts.mean)
        value += np.sum(stats.gate_linear * q.gates.mean)
        value -= np.sum(unpack(stats.quadratic) * q.experts.second)
        value -= np.sum(_curvature(stats) * q.gates.second)
        value -= self.law.divergence(q.gates) + self.expert_law.divergence(q.experts)
        return float(value)

    def to_vector(self, q: Mixture) -> FloatArray:
        """Return gates and experts without constraints."""
        return np.concatenate([flat(q.gates), flat(q.experts)])

    def from_vector(self, q: Mixture, vector: FloatArray) -> Mixture:
        """Return ``q`` moved to these coordinates."""
        half = len(vector) // 2
        gates, experts = moved(q.gates, vector[:half]), moved(q.experts, vector[half:])
        return Mixture(gates, experts)

    def posterior(self, q: Mixture) -> Posterior:
        """Return one component with its covariances."""
        factors = (q.gates, q.experts)
        mean = np.stack([f.mean for f in factors])
        covariance = np.stack([f.covariance for f in factors])
        sd = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
        return Posterior((Component(mean, sd, covariance),))


def _curvature(stats: RowSums) -> FloatArray:
    """T of every gate; [K or 1, p, p]: none of one expert, whose gates are left out."""
    if stats.gate_quadratic is None:
        return np.zeros_like(unpack(stats.quadratic))
    return unpack(stats.gate_quadratic)
