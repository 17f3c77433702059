"""Mean-field vMMIC (Hu 2024): coordinate ascent with a joint factor q(U, delta).

q = prod_i q(y*_i) prod_ij q(delta_ij) q(U_ij | delta_ij) q(theta) prod_k q(a_k, b_k), with the
local factors of `local`. A sweep is one reduce: P = sum r r' + sum p (1 - p) phi phi',
h = sum E[y*] r, sum E[U] (1, x) for each modality, and the bound's scalars.

    V^-1 = L0 + P,  m = V h;   V_k^-1 = L + sum x x',  m_k = V_k sum x E[U]

    ELBO = sum_i { log Phi(s_i m*_i) + (m*_i^2 - mu_i^2)/2 - E[y*_i](m*_i - mu_i) }
         - tr(V sum r r')/2 - tr(M sum p (1 - p) phi phi')/2
         + sum_ij { (e*^2 - eta^2)/2 - E[U](e* - eta) + p log Phi(e*) + (1 - p) log Phi(-e*)
                    - p log p - (1 - p) log(1 - p) }
         - sum_k tr(V_k sum x x')/2 - KL(theta) - sum_k KL(a_k, b_k),

m*, e* the parameters inside q(y*) and q(U | delta). All that meets the present theta and
(a, b) is a sum over the data against them, so the bound at other globals needs no pass.

The optimum of this bound is a poor model (|b| grows past its true size, |beta| shrinks);
`model` is the better fit, and its mode the default start here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic.layout import Layout, Observed
from vbmodels.bags.vmmic.likelihood import Points, Sums
from vbmodels.bags.vmmic.local import Local, MeanField, Rows, SweepSums, sums, sweep
from vbmodels.bags.vmmic.model import find_mode
from vbmodels.bags.vmmic.posterior import Gaussian, Posterior
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.algorithm import Algorithm, Phase
from vbmodels.core.cavi import squarem
from vbmodels.core.state import FloatArray

FIXED = Priors(learn=False)


@dataclass(frozen=True)
class MeanFieldVMMIC:
    """Fit vMMIC by mean-field coordinate ascent (section 2.2.2).

    Parameters
    ----------
    priors
        Priors of the global parameters, with variances that are given.
    standardise
        Whether features are brought to mean 0 and standard deviation 1.
    start
        "mode": the mode of the collapsed posterior; "zero": normal with ``start_sd``.
    start_sd
        Standard deviation of the start near zero.
    """

    priors: Priors = field(default_factory=lambda: FIXED)
    standardise: bool = True
    start: str = "mode"
    start_sd: float = 0.01

    def __post_init__(self) -> None:
        if self.priors.learn:
            raise ValueError("mean-field vMMIC needs priors with given variances: learn=False")
        if self.start not in ("mode", "zero"):
            raise ValueError(f"expected the start 'mode' or 'zero', got {self.start!r}")

    def observe(self, batch: Bags) -> Observed:
        """Return the scaling's moments; they hold sum x x' of every modality too."""
        return Observed.of(batch)

    def init(self, observed: Observed, rng: np.random.Generator) -> MeanField:
        """Start at the mode of the collapsed posterior, or near zero (section 2.2.3)."""
        scaling = observed.scaling(self.standardise)
        layout = scaling.layout
        observed.refuse_hopeless()
        t, prior = self.start_sd * rng.standard_normal(layout.dim), self.priors.precision(layout)
        grams = observed.grams(scaling)
        covariances = tuple(
            inverse(gram + np.diag(prior[gate]))
            for gram, gate in zip(grams, layout.gates, strict=True)
        )
        blank = MeanField(scaling, t, np.empty((0, 0)), (), covariances, grams)
        return replace(
            self.from_vector(blank, t),
            # As narrow as so many bags make it: a wide one would drive every p to 0 at first.
            covariance=np.diag(1.0 / (prior[: layout.n_theta] + observed.bags)),
            started=self.start != "mode",
        )

    def restart(self, observed: Observed, before: MeanField, rng: np.random.Generator) -> MeanField:
        """Start at the means and covariances of an earlier fit, on the new data's scale."""
        fresh = self.init(observed, rng)
        layout = fresh.scaling.layout
        if before.scaling.layout != layout:
            return fresh
        change = before.scaling.change(fresh.scaling)
        theta = change[: layout.n_theta, : layout.n_theta]
        return replace(
            self.from_vector(fresh, change @ self.to_vector(before)),
            covariance=theta @ before.covariance @ theta.T,
            started=True,
        )

    def local_step(self, q: MeanField | Points, batch: Bags, local: Local | None) -> Local | None:
        """Update the local factors once, instance by instance."""
        if isinstance(q, Points):
            return None
        return sweep(Rows.of(batch, q.scaling), q, local)

    def suff_stats(
        self, q: MeanField | Points, batch: Bags, local: Local | None
    ) -> Sums | SweepSums:
        """Return the sums of a sweep; while the start is sought, the likelihood there."""
        if isinstance(q, Points):
            return q.sums(batch)
        if local is None:
            raise ValueError("the sums of a sweep need the partition's local factors")
        return sums(Rows.of(batch, q.scaling), local)

    def global_step(self, q: MeanField, stats: Any) -> MeanField:
        """Update q(theta) (B.1.1 to B.1.3) and every q(a_k, b_k) (B.1.4 to B.1.7), as blocks."""
        layout = q.scaling.layout
        prior = self.priors.precision(layout)
        theta = slice(0, layout.n_theta)
        precision = np.diag(prior[theta]) + self._theta_curvature(layout, stats)
        means = [of_gate @ stats.latent[k] for k, of_gate in enumerate(q.gate_covariances)]
        covariance = inverse(precision)
        return replace(
            q,
            mean=covariance @ stats.label,
            covariance=covariance,
            gate_means=tuple(means),
        )

    def elbo(self, q: MeanField, stats: Any) -> float:
        """Return the bound at ``q`` and the local factors behind ``stats`` (section 2.2.2)."""
        layout = q.scaling.layout
        theta = slice(0, layout.n_theta)
        m, v = q.mean, q.covariance
        bound = stats.total + m @ stats.label - 0.5 * m @ stats.outer @ m
        bound -= 0.5 * np.sum(v * stats.outer)
        for k, weighted in enumerate(stats.weighted):
            block = layout.slopes[k]
            second = v[block, block] + np.outer(m[block], m[block])
            bound -= 0.5 * np.sum(second * weighted)
        prior = self.priors.precision(layout)
        bound -= _divergence(m, v, prior[theta])
        for k, gram in enumerate(q.grams):
            g, gate = q.gate_means[k], layout.gates[k]
            bound += g @ stats.latent[k] - 0.5 * g @ gram @ g
            bound -= 0.5 * np.sum(q.gate_covariances[k] * gram)
            bound -= _divergence(g, q.gate_covariances[k], prior[gate])
        return float(bound)

    def to_vector(self, q: MeanField) -> FloatArray:
        """Return the means of the global factors."""
        return np.concatenate([q.mean, *q.gate_means])

    def from_vector(self, q: MeanField, vector: FloatArray) -> MeanField:
        """Move the means and keep the covariances."""
        layout = q.scaling.layout
        gates = tuple(vector[gate] for gate in layout.gates)
        return replace(q, mean=vector[: layout.n_theta], gate_means=gates)

    def posterior(self, q: MeanField) -> Posterior:
        """Return q(theta) prod q(a_k, b_k) as one Gaussian over t."""
        layout = q.scaling.layout
        precision = np.zeros((layout.dim, layout.dim))
        theta = slice(0, layout.n_theta)
        precision[theta, theta] = inverse(q.covariance)
        for k, covariance in enumerate(q.gate_covariances):
            precision[layout.gates[k], layout.gates[k]] = inverse(covariance)
        return Posterior(q.scaling, (Gaussian(self.to_vector(q), precision),))

    def algorithm(self, q: MeanField) -> Algorithm:
        """Find the start, then climb from it."""
        if not q.started:
            q = yield Phase(self._start(q), "the start was being sought")
        yield Phase(squarem(self, q))

    def _start(self, q: MeanField) -> Algorithm:
        """Start at the mode of the collapsed posterior."""
        layout, priors = q.scaling.layout, replace(self.priors, learn=True)
        mode, _ = yield from find_mode(q.scaling, priors)
        theta = slice(0, layout.n_theta)
        precision = mode.gaussian(priors, layout).precision[theta, theta]
        return replace(self.from_vector(q, mode.mean), covariance=inverse(precision), started=True)

    def _theta_curvature(self, layout: Layout, stats: SweepSums) -> FloatArray:
        curvature = stats.outer.copy()
        for k, weighted in enumerate(stats.weighted):
            curvature[layout.slopes[k], layout.slopes[k]] += weighted
        return curvature


def inverse(precision: FloatArray) -> FloatArray:
    """Return the inverse of a positive definite matrix, symmetric to the last bit."""
    result: FloatArray = cho_solve(cho_factor(precision), np.eye(len(precision)))
    return 0.5 * (result + result.T)


def _divergence(mean: FloatArray, covariance: FloatArray, prior: FloatArray) -> float:
    """Return KL(N(mean, covariance) || N(0, diag(1 / prior)))."""
    _, log_det = np.linalg.slogdet(covariance)
    inside = prior @ (np.diag(covariance) + mean**2) - mean.size
    return float(0.5 * (inside - np.log(prior).sum() - log_det))
