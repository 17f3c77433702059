"""A Gaussian mixture with full covariances.

    pi ~ Dirichlet(alpha, ..., alpha)                        global: shares of components, [K]
    Lambda_k ~ Wishart(W0, nu0)                              global: their precisions, [D, D]
    mu_k | Lambda_k ~ N(0, (weight0 Lambda_k)^-1)            global: their means, [D]
    z_n | pi ~ Categorical(pi)                               local: the component of row n
    x_n | z_n ~ N(mu_{z_n}, Lambda_{z_n}^-1)

q = Dirichlet(pi; conc) prod_k N(mu_k; mean_k, (weight_k Lambda_k)^-1) Wishart(Lambda_k; W_k,
shape_k) prod_n Categorical(z_n; r_n), Bishop (2006), "Pattern recognition and machine learning",
section 10.2. r_n is always its optimum given the others, so it is summed out of the bound and never
stored. Columns should have mean 0 and standard deviation 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, multigammaln

from vbflows_mixture import start
from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class Rows(State):
    """One partition: x [N, D]."""

    x: FloatArray


@dataclass(frozen=True)
class Observed(Stats):
    """What the start needs: rows [C], their sums [C, D] by cell, and their squares' sum."""

    rows: FloatArray
    totals: FloatArray
    squares: float


@dataclass(frozen=True)
class Global(State):
    """The factors of pi, mu and Lambda; K first.

    Attributes
    ----------
    conc, weight, shape
        [K].
    mean
        [K, D].
    factor
        Lower Cholesky factor of W_k^-1, [K, D, D].
    """

    conc: FloatArray
    weight: FloatArray
    shape: FloatArray
    mean: FloatArray
    factor: FloatArray


@dataclass(frozen=True)
class Sums(Stats):
    """Sums of r [K], r x [K, D] and r x x' [K, D, D], and the local part of the bound."""

    rows: FloatArray
    totals: FloatArray
    squares: FloatArray
    bound: float


@dataclass(frozen=True)
class Mixture:
    """Priors of the model.

    Attributes
    ----------
    components
        K.
    alpha
        Pseudo-rows of a component: small leaves those empty that are not needed.
    weight0
        Pseudo-rows of a mean.
    freedom, spread
        nu0 = D + freedom, W0^-1 = nu0 spread I: a component's variance is near ``spread`` at first.
    """

    components: int = 5
    alpha: float = 1.0
    weight0: float = 0.1
    freedom: float = 1.0
    spread: float = 0.25

    def observe(self, batch: Rows) -> Observed:
        """Sum rows by cells of the space, a sketch of where they lie."""
        cell, size = start.cells(batch.x), batch.x.shape[1]
        totals = np.zeros((start.CELLS, size))
        np.add.at(totals, cell, batch.x)
        rows = np.bincount(cell, minlength=start.CELLS).astype(float)
        return Observed(rows, totals, float((batch.x**2).sum()))

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """Start at centres of the cells, each with its rows and a common variance."""
        rows, mean, variance = start.centres(observed, self.components, rng)
        ball = np.eye(mean.shape[1]) * variance
        squares = rows[:, None, None] * (mean[:, :, None] * mean[:, None, :] + ball)
        return self.global_step(None, Sums(rows, rows[:, None] * mean, squares, 0.0))

    def local_step(self, q: Global, batch: Rows, local: None) -> None:
        """Keep nothing: r_n follows from q."""

    def suff_stats(self, q: Global, batch: Rows, local: None) -> Sums:
        """Add r, r x, r x x', and E[log p(x, z | pi, mu, Lambda)] + H[q(z)].

        With r at its optimum the last is sum_n log sum_k exp(rho_nk), (10.46) to (10.49).
        """
        x, rho = batch.x, self.log_weights(q, batch.x)
        total = logsumexp(rho, axis=1)
        r = np.exp(rho - total[:, None]).T
        squares = np.stack([(x.T * one) @ x for one in r])
        return Sums(r.sum(axis=1), r @ x, squares, float(total.sum()))

    def unit_bounds(self, q: Global, batch: Rows, local: None) -> FloatArray:
        """Return each row's log sum_k exp(rho_nk)."""
        total: FloatArray = logsumexp(self.log_weights(q, batch.x), axis=1)
        return total

    def log_weights(self, q: Global, x: FloatArray) -> FloatArray:
        """Return E log pi_k + E log N(x_n; mu_k, Lambda_k^-1), [N, K]; (10.46), (10.64) to (66)."""
        half = _inverse(q)
        distance = np.stack(
            [((x @ h.T - h @ m) ** 2).sum(axis=1) for h, m in zip(half, q.mean, strict=True)],
            axis=1,
        )
        rho: FloatArray = _constant(q) - 0.5 * q.shape * distance
        return rho

    def coupling(self, q: Global, stats: Sums) -> float:
        """Return sum_nk r_nk rho_nk by the sums alone: sum_n r_n (x_n - m)(x_n - m)' is theirs."""
        mean, across = q.mean, stats.totals[:, :, None] * q.mean[:, None, :]
        scatter = stats.squares - across - across.transpose(0, 2, 1)
        scatter = scatter + stats.rows[:, None, None] * (mean[:, :, None] * mean[:, None, :])
        half = _inverse(q)
        distance = np.einsum("kij,kjl,kil->k", half, scatter, half)
        return float(stats.rows @ _constant(q) - 0.5 * (q.shape @ distance))

    def global_step(self, q: Global | None, stats: Sums) -> Global:
        """Return the conjugate posterior given r: (10.58) and (10.60) to (10.63), with m0 = 0."""
        size = stats.totals.shape[1]
        weight = self.weight0 + stats.rows
        mean = stats.totals / weight[:, None]
        inverse = stats.squares - weight[:, None, None] * mean[:, :, None] * mean[:, None, :]
        inverse = inverse + self._inverse0(size) * np.eye(size)
        factor = linalg.cholesky(inverse, "the scatter of a component")
        shape = size + self.freedom + stats.rows
        return Global(self.alpha + stats.rows, weight, shape, mean, factor)

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the local part minus the divergences of pi, and of mu and Lambda."""
        return stats.bound - self._kl_shares(q) - float(self._kl_components(q).sum())

    def _kl_shares(self, q: Global) -> float:
        """KL(Dirichlet(conc) || Dirichlet(alpha, ..., alpha))."""
        total, size = q.conc.sum(), len(q.conc)
        norm = gammaln(total) - gammaln(q.conc).sum()
        norm = norm - gammaln(size * self.alpha) + size * gammaln(self.alpha)
        return float(norm + ((q.conc - self.alpha) * (digamma(q.conc) - digamma(total))).sum())

    def _kl_components(self, q: Global) -> FloatArray:
        """KL of the Wisharts, and of the Normals averaged over Lambda; [K]."""
        size = q.mean.shape[1]
        shape0, inverse0 = size + self.freedom, self._inverse0(size)
        ratio = self.weight0 / q.weight
        half = linalg.solve_lower(q.factor, np.broadcast_to(np.eye(size), q.factor.shape))
        far = (np.einsum("kij,kj->ki", half, q.mean) ** 2).sum(axis=1)
        normal = 0.5 * (size * (ratio - 1.0 - np.log(ratio)) + self.weight0 * q.shape * far)
        trace = inverse0 * (half**2).sum(axis=(1, 2))
        log_ratio = size * np.log(inverse0) - linalg.log_det(q.factor)
        wishart = 0.5 * (q.shape * (trace - size) - shape0 * log_ratio)
        wishart = wishart + 0.5 * (q.shape - shape0) * _wishart_digamma(q.shape, size)
        kl: FloatArray = normal + wishart + multigammaln(shape0 / 2.0, size)
        return kl - np.array([multigammaln(n / 2.0, size) for n in q.shape])

    def _inverse0(self, size: int) -> float:
        """The diagonal of W0^-1."""
        return (size + self.freedom) * self.spread

    def to_vector(self, q: Global) -> FloatArray:
        """Return logs of conc, weight and shape + 1 - D, the means, and the factors' triangles."""
        factor, (rows, columns) = q.factor.copy(), np.tril_indices(q.mean.shape[1])
        diagonal = np.arange(q.mean.shape[1])
        factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
        logs = np.log(np.concatenate([q.conc, q.weight, q.shape + 1.0 - len(diagonal)]))
        return np.concatenate([logs, q.mean.ravel(), factor[:, rows, columns].ravel()])

    def from_vector(self, q: Global, vector: FloatArray) -> Global:
        """Return the inverse of `to_vector`."""
        (count, size), (rows, columns) = q.mean.shape, np.tril_indices(q.mean.shape[1])
        ends = np.cumsum([count, count, count, count * size])
        conc, weight, shape, mean, below = np.split(vector, ends)
        factor, diagonal = np.zeros(q.factor.shape), np.arange(size)
        factor[:, rows, columns] = below.reshape(count, -1)
        factor[:, diagonal, diagonal] = np.exp(factor[:, diagonal, diagonal])
        conc, weight, shape = np.exp(conc), np.exp(weight), np.exp(shape) + size - 1.0
        return Global(conc, weight, shape, mean.reshape(count, size), factor)


def _inverse(q: Global) -> FloatArray:
    """Return inverses of the lower factors, [K, D, D]: W_k is their square."""
    half: FloatArray = linalg.solve_lower(
        q.factor, np.broadcast_to(np.eye(q.mean.shape[1]), q.factor.shape)
    )
    return half


def _constant(q: Global) -> FloatArray:
    """E log pi_k + E log |Lambda_k| / 2 - D (log 2 pi + 1 / weight_k) / 2, [K]."""
    size = q.mean.shape[1]
    log_det = _wishart_digamma(q.shape, size) + size * np.log(2.0) - linalg.log_det(q.factor)
    log_pi = digamma(q.conc) - digamma(q.conc.sum())
    constant: FloatArray = log_pi + 0.5 * (log_det - size * np.log(2.0 * np.pi) - size / q.weight)
    return constant


def _wishart_digamma(shape: FloatArray, size: int) -> FloatArray:
    """sum_i digamma((shape + 1 - i) / 2), i = 1..D; [K]."""
    total: FloatArray = digamma(0.5 * (shape[:, None] - np.arange(size))).sum(axis=1)
    return total
