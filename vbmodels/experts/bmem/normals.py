"""Gaussian factors of gates and experts, their prior, and the angular regulariser Omega.

a_k = beta_k / |beta_k|. Omega (Xie, Zhu and Xing 2016, after Xie, Deng and Xing 2015) is the
mean less the variance, over pairs, of the angles arccos |a_i'a_j|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from vbmodels.core.linalg import cholesky, inverse, log_det
from vbmodels.core.state import FloatArray, State
from vbmodels.experts.likelihood import prior_precision
from vbmodels.experts.rows import Rows

_LEAST = 1e-12


def directions(vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return unit vectors [K, p] and lengths [K]; a vector of length 0 stays 0."""
    length = np.sqrt(np.einsum("kp,kp->k", vectors, vectors))
    return vectors / np.maximum(length, _LEAST)[:, None], length


def _through(vectors: FloatArray, slope: FloatArray) -> FloatArray:
    """Turn a gradient in the unit vectors into one in the vectors."""
    a, length = directions(vectors)
    across = slope - np.einsum("kp,kp->k", slope, a)[:, None] * a
    return np.asarray(across / np.maximum(length, _LEAST)[:, None])


def omega(vectors: FloatArray, weight: float) -> tuple[float, FloatArray]:
    """Return weight * Omega (in eq 19) and its gradient in the vectors [K, p].

    The gradient of arccos |c| is -sign(c) / sqrt(1 - c^2); where two directions coincide
    (there it has none) its denominator is held at 1e-6.
    """
    a, _ = directions(vectors)
    i, j = np.triu_indices(len(vectors), 1)
    cosine = np.clip((a @ a.T)[i, j], -1.0, 1.0)
    angle = np.arccos(np.abs(cosine))
    value = angle.mean() - angle.var()
    in_angle = (1.0 - 2.0 * (angle - angle.mean())) / angle.size
    in_cosine = -in_angle * np.sign(cosine) / np.maximum(np.sqrt(1.0 - cosine**2), 1e-6)
    pairs = np.zeros((len(vectors), len(vectors)))
    pairs[i, j] = pairs[j, i] = weight * in_cosine
    return weight * float(value), _through(vectors, pairs @ a)


@dataclass(frozen=True)
class Normals(State, kind="experts/bmem.Normals"):
    """Independent Gaussians of K vectors: mean [K, p], covariance [K, p, p]."""

    mean: FloatArray
    covariance: FloatArray

    @property
    def second(self) -> FloatArray:
        """E[v v']; [K, p, p]."""
        return self.covariance + self.mean[:, :, None] * self.mean[:, None, :]

    def along(self, batch: Rows) -> tuple[FloatArray, FloatArray]:
        """Return E v'x and E (v'x)^2 of every row; [K, N] each."""
        return batch.project(self.mean), batch.quadratic(self.second)


@dataclass(frozen=True)
class NormalPrior:
    """N(0, diag(1/tau, ..., 1/tau, 10)), the intercept last.

    ``omega`` is the weight of posterior regularisation: what is maximised is the bound plus
    omega times Omega of the means without intercepts (Xie, Zhu and Xing 2016, section on
    posterior regularisation; `omega`). It is a term of the objective, no prior.
    """

    tau: float
    omega: float = 0.0

    def start(self, k: int, columns: int, rng: np.random.Generator) -> Normals:
        """Begin near nothing, the experts slightly apart."""
        mean = 0.3 * rng.standard_normal((k, columns)) * (k > 1)
        return Normals(mean, np.broadcast_to(0.01 * np.eye(columns), (k, columns, columns)).copy())

    def update(self, old: Normals, linear: FloatArray, quadratic: FloatArray) -> Normals:
        """Maximise the objective (with Omega, eq 19: raise it); quadratic is [K or 1, p, p]."""
        precision = np.diag(prior_precision(self.tau, linear.shape[1])) + 2.0 * quadratic
        covariance = inverse(cholesky(precision, "the precision of an expert"))
        shape = old.covariance.shape
        mean = np.einsum("kij,kj->ki", np.broadcast_to(covariance, shape), linear)
        if self._regularised(len(mean)):
            mean = self._pushed(old.mean, mean, np.broadcast_to(precision, shape))
        return Normals(mean, np.broadcast_to(covariance, shape).copy())

    def divergence(self, q: Normals) -> float:
        """Return KL(q || prior) less what Omega adds (eqs 19, 20)."""
        k, p = q.mean.shape
        precision = prior_precision(self.tau, p)
        second = np.einsum("kii,i->", q.covariance, precision) + np.sum(precision * q.mean**2)
        log_dets = float(np.sum(log_det(cholesky(q.covariance, "a covariance"))))
        total = 0.5 * float(second - k * p - k * np.log(precision).sum()) - 0.5 * log_dets
        return total - (omega(q.mean[:, :-1], self.omega)[0] if self._regularised(k) else 0.0)

    def _regularised(self, k: int) -> bool:
        return self.omega > 0.0 and k > 1

    def _pushed(self, before: FloatArray, free: FloatArray, precision: FloatArray) -> FloatArray:
        """Return means with a higher -sum (m - free)'P(m - free)/2 + omega Omega(m) than before.

        A few steps of L-BFGS in the coordinates u = L'(m - free), P = L L', from the old means:
        Omega has a kink where two experts are at right angles, and the next sweep goes on.
        """
        factor = cholesky(precision, "the precision of an expert")
        back = np.swapaxes(np.linalg.inv(factor), 1, 2)

        def loss(u: FloatArray) -> tuple[float, FloatArray]:
            around = u.reshape(free.shape)
            m = free + np.einsum("kij,kj->ki", back, around)
            value, slope = omega(m[:, :-1], self.omega)
            pulled = np.zeros_like(m)
            pulled[:, :-1] = slope
            gradient = around - np.einsum("kji,kj->ki", back, pulled)
            return 0.5 * float(u @ u) - value, gradient.ravel()

        stay = np.einsum("kji,kj->ki", factor, before - free).ravel()
        options = {"maxiter": 20, "maxcor": 10, "maxls": 10}
        optimum = minimize(loss, stay, jac=True, method="L-BFGS-B", options=options)
        if not float(optimum.fun) < loss(stay)[0]:
            return before
        return np.asarray(free + np.einsum("kij,kj->ki", back, optimum.x.reshape(free.shape)))
