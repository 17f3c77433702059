"""Mixture of logistic experts by coordinate ascent on bounds of sigmoid and softmax.

q = prod_k q(beta_k) q(eta_k) prod_n q(z_n). The row step is that of `row_step`; with its sums

    bound = constant + sum_k [b_k'E beta_k - tr(S_k E beta_k beta_k')]
          + sum_k [a_k'E eta_k - tr(T_k E eta_k eta_k')] - KL(q || prior),

T = X'X/4 for Boehning's gates. Priors: "gaussian" (here: V = (diag tau + 2 S)^-1, m = V b) and
"mabn2", the mutual angular prior of type II (`mabn`).

This bound is no judge of the number of experts: its slack grows with K and with the spread
of the gates, by more than the data say (Bouchard's leaves one expert nearly all rows). K is
chosen by held-out log-likelihood (`marginal`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from vbmodels.experts.batch import Observed, Rows
from vbmodels.experts.candidate import INTERCEPT_PRECISION
from vbmodels.experts.mabn import Angular, AngularPrior
from vbmodels.experts.posterior import Component, Posterior
from vbmodels.experts.row_step import GateBound, Local, RowSums, local_state, row_sums
from vbmodels.linalg import cholesky, inverse, log_det, unpack
from vbmodels.state import FloatArray, State, Stats

Prior = Literal["gaussian", "mabn2"]


@dataclass(frozen=True)
class Seen(Stats):
    """Counts of the rows, and X'X packed."""

    observed: Observed
    gram: FloatArray


@dataclass(frozen=True)
class Normals(State):
    """Independent Gaussians of K vectors: mean [K, p], covariance [K, p, p]."""

    mean: FloatArray
    covariance: FloatArray

    @property
    def second(self) -> FloatArray:
        """E[v v']; [K, p, p]."""
        result: FloatArray = self.covariance + self.mean[:, :, None] * self.mean[:, None, :]
        return result

    def along(self, batch: Rows) -> tuple[FloatArray, FloatArray]:
        """Return E v'x and E (v'x)^2 of every row; [K, N] each."""
        return batch.project(self.mean), batch.quadratic(self.second)


Factors = Normals | Angular


@dataclass(frozen=True)
class Mixture(State):
    """The global parameters: gates and experts, and X'X packed."""

    gates: Any
    experts: Any
    gram: FloatArray


@dataclass(frozen=True)
class NormalPrior:
    """N(0, diag(1/tau, ..., 1/tau, 10)), the intercept last."""

    tau: float

    def precision(self, columns: int) -> FloatArray:
        """Return the diagonal; [p]."""
        result = np.full(columns, self.tau)
        result[-1] = INTERCEPT_PRECISION
        return result

    def start(self, k: int, columns: int, rng: np.random.Generator) -> Normals:
        """Begin near nothing, the experts slightly apart."""
        mean = 0.3 * rng.standard_normal((k, columns)) * (k > 1)
        return Normals(mean, np.broadcast_to(0.01 * np.eye(columns), (k, columns, columns)).copy())

    def update(self, old: Normals, linear: FloatArray, quadratic: FloatArray) -> Normals:
        """Maximise the bound; quadratic [K, p, p], or [1, p, p] for all."""
        precision = np.diag(self.precision(linear.shape[1])) + 2.0 * quadratic
        covariance = inverse(cholesky(precision, "the precision of an expert"))
        mean = np.einsum("kij,kj->ki", np.broadcast_to(covariance, old.covariance.shape), linear)
        return Normals(mean, np.broadcast_to(covariance, old.covariance.shape).copy())

    def divergence(self, q: Normals) -> float:
        """Return KL(q || prior)."""
        k, p = q.mean.shape
        precision = self.precision(p)
        second = np.einsum("kii,i->", q.covariance, precision) + np.sum(precision * q.mean**2)
        log_dets = float(np.sum(log_det(cholesky(q.covariance, "a covariance"))))
        return 0.5 * float(second - k * p - k * np.log(precision).sum()) - 0.5 * log_dets


@dataclass(frozen=True)
class BoundedExperts:
    """Coordinate ascent for mixtures of logistic experts.

    Parameters
    ----------
    n_experts
        K; with 1 it is Bayesian logistic regression, and the gates are left out.
    prior
        "gaussian" or "mabn2".
    gate_bound
        "bohning" or "bouchard".
    tau
        Precision of the Gaussian prior.
    angular
        The mutual angular prior.
    """

    n_experts: int = 5
    prior: Prior = "gaussian"
    gate_bound: GateBound = "bohning"
    tau: float = 1.0
    angular: AngularPrior = field(default_factory=AngularPrior)

    @property
    def law(self) -> NormalPrior | AngularPrior:
        """The prior of gates and of experts."""
        return self.angular if self.prior == "mabn2" else NormalPrior(self.tau)

    def observe(self, batch: Rows) -> Seen:
        """Return counts and X'X of the labelled rows."""
        return Seen(Observed.of(batch), batch.gram(batch.used[None])[0])

    def init(self, observed: Seen, rng: np.random.Generator) -> Mixture:
        """Begin at random."""
        observed.observed.refuse_one_class()
        columns = observed.observed.squares.size
        gates = self.law.start(self.n_experts, columns, rng)
        return Mixture(gates, self.law.start(self.n_experts, columns, rng), observed.gram)

    def local_step(self, q: Mixture, batch: Rows, local: Local | None) -> Local:
        """Return the best local parameters at ``q``."""
        bouchard = self.gate_bound == "bouchard" and self.n_experts > 1
        gate = q.gates.along(batch) if bouchard else (batch.project(q.gates.mean), None)
        return local_state(batch.t, q.experts.along(batch), gate, local)

    def suff_stats(self, q: Mixture, batch: Rows, local: Local) -> RowSums:
        """Return the sums at the local parameters."""
        return row_sums(batch, local)

    def global_step(self, q: Mixture, stats: RowSums) -> Mixture:
        """Return the gates and experts that maximise the bound (mabn2: that raise it in turn)."""
        gates = self.law.update(q.gates, stats.gate_linear, self._curvature(q, stats))
        experts = self.law.update(q.experts, stats.linear, unpack(stats.quadratic))
        return Mixture(gates, experts, q.gram)

    def elbo(self, q: Mixture, stats: RowSums) -> float:
        """Return the bound; see the module's text."""
        value = stats.constant + np.sum(stats.linear * q.experts.mean)
        value += np.sum(stats.gate_linear * q.gates.mean)
        value -= np.sum(unpack(stats.quadratic) * q.experts.second)
        value -= np.sum(self._curvature(q, stats) * q.gates.second)
        return float(value) - self.law.divergence(q.gates) - self.law.divergence(q.experts)

    def posterior(self, q: Mixture) -> Posterior:
        """Return one component with its covariances."""
        factors = (q.gates, q.experts)
        mean = np.stack([f.mean for f in factors])
        covariance = np.stack([f.second for f in factors])
        covariance -= mean[..., :, None] * mean[..., None, :]
        sd = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
        return Posterior((Component(mean, sd, covariance),))

    def _curvature(self, q: Mixture, stats: RowSums) -> FloatArray:
        """T of every gate; [K or 1, p, p]."""
        if stats.gate_quadratic is not None:
            return unpack(stats.gate_quadratic)
        return (0.25 if self.n_experts > 1 else 0.0) * unpack(q.gram)[None]
