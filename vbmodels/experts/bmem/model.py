"""Mixture of logistic experts by coordinate ascent on bounds of sigmoid and softmax.

q = prod_k q(beta_k) q(eta_k) prod_n q(z_n). The row step is that of `row_step`; with its sums

    bound = constant + sum_k [b_k'E beta_k - tr(S_k E beta_k beta_k')]
          + sum_k [a_k'E eta_k - tr(T_k E eta_k eta_k')] - KL(q || prior),

T = X'X/4 for Boehning's gates: every row's sums are all that the global parameters need of it.
Priors: "gaussian" (here: V = (diag tau + 2 S)^-1, m = V b) and
"mabn2", the mutual angular prior of type II (`mutual_angular`). With ``omega`` the experts'
Gaussians are regularised towards wide angles (`normals`), and the bound has that term too. The loop
is SQUAREM's, guarded by the bound, in the coordinates of `coordinates`.

With weights the likelihood is prod_n p(y_n | x_n)^w_n. Each row's bound holds whatever its q(z_n)
and is multiplied by w_n, its entropy with it: q(z_n) stays the unweighted one, its sums get w_n.

This bound is no judge of the number of experts: its slack grows with K and with the spread
of the gates, by more than the data say. Choose K by held-out log-likelihood.

Gates and experts as a vector without constraints, for the acceleration of coordinate ascent.

Gaussians: the mean and the Cholesky factor of the covariance with a logarithmic diagonal.
Angular factors: the direction (which is normalised on the way back) and the logarithms of
concentration, shape and mean length.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from vbmodels.core.linalg import cholesky, pack, unpack
from vbmodels.core.state import FloatArray, State
from vbmodels.experts.bmem.mutual_angular import Angular, AngularPrior
from vbmodels.experts.bmem.normals import NormalPrior, Normals
from vbmodels.experts.bmem.row_step import (
    Local,
    RowSums,
    RowTerms,
    local_state,
    row_sums,
)
from vbmodels.experts.posterior import Component, Posterior
from vbmodels.experts.rows import Observed, Rows


def flat(q: Normals | Angular) -> FloatArray:
    """Return the coordinates of one factor."""
    if isinstance(q, Angular):
        rest = np.log(np.concatenate([q.concentration, q.shape, q.length]))
        return np.concatenate([q.direction.ravel(), rest])
    factor = cholesky(q.covariance, "a covariance")
    at = np.arange(factor.shape[-1])
    factor[:, at, at] = np.log(factor[:, at, at])
    return np.concatenate([q.mean.ravel(), pack(factor).ravel()])


def moved(q: Normals | Angular, vector: FloatArray) -> Normals | Angular:
    """Return a factor like ``q`` at these coordinates."""
    if isinstance(q, Angular):
        k, p = q.direction.shape
        direction = vector[: k * p].reshape(k, p)
        direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        rest = np.exp(vector[k * p :]).reshape(3, k)
        return Angular(direction, *rest)
    k, p = q.mean.shape
    factor = np.zeros((k, p, p))
    rows, columns = np.tril_indices(p)
    factor[:, rows, columns] = vector[k * p :].reshape(k, -1)
    at = np.arange(p)
    factor[:, at, at] = np.exp(factor[:, at, at])
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
        found = local_state(batch.t, q.experts.along(batch), batch.project(q.gates.mean))
        if self.n_experts == 1:
            return found
        flat = 0.25 * batch.gram(batch.used[None]) if local is None else local.flat
        return replace(found, flat=flat)

    def suff_stats(self, q: Mixture, batch: Rows, local: Local) -> RowSums:
        """Return the sums at the local parameters."""
        return row_sums(batch, local)

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


def bounds_of(q: Mixture, batch: Rows, terms: RowTerms, curve: FloatArray) -> FloatArray:
    """Return what every row brings to the bound; ``curve`` multiplies -R of the gates."""
    (g, r), (f, square) = along_both(q.gates, q.experts, batch)
    bound: FloatArray = terms.constant + np.einsum("kn,kn->n", terms.pull, f)
    bound += np.einsum("kn,kn->n", terms.slope, g)
    bound -= np.einsum("kn,kn->n", terms.weight, square)
    return bound - (curve * r).sum(0) if len(g) > 1 else bound


def _curvature(stats: RowSums) -> FloatArray:
    """T of every gate; [K or 1, p, p]: none of one expert, whose gates are left out."""
    if stats.gate_quadratic is None:
        return np.zeros_like(unpack(stats.quadratic))
    return unpack(stats.gate_quadratic)


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
