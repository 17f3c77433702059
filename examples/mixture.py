"""A Gaussian mixture with full covariances, as a model of one file: run ``python mixture.py``.

    pi ~ Dirichlet(alpha, ..., alpha)                        global: shares of components, [K]
    Lambda_k ~ Wishart(W0, nu0)                              global: their precisions, [D, D]
    mu_k | Lambda_k ~ N(0, (weight0 Lambda_k)^-1)            global: their means, [D]
    z_n | pi ~ Categorical(pi)                               local: the component of row n
    x_n | z_n ~ N(mu_{z_n}, Lambda_{z_n}^-1)

q = Dirichlet(pi; conc) prod_k N(mu_k; mean_k, (weight_k Lambda_k)^-1) Wishart(Lambda_k; W_k,
shape_k) prod_n Categorical(z_n; r_n), Bishop (2006), "Pattern recognition and machine learning",
section 10.2. r_n is its optimum given the others, so it is summed out of the bound and not stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, multigammaln

from vbmodels.core import linalg
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class Rows(State):
    """One partition: x [N, D], of mean 0 and standard deviation 1."""

    x: FloatArray


@dataclass(frozen=True)
class Sums(Stats):
    """Sums of r [K], r x [K, D] and r x x' [K, D, D], and the local part of the bound."""

    rows: FloatArray
    totals: FloatArray
    squares: FloatArray
    bound: float


@dataclass(frozen=True)
class Global(State):
    """Parameters of q: [K], and of the components' means [K, D] and W_k^-1 = L L' [K, D, D]."""

    conc: FloatArray
    weight: FloatArray
    shape: FloatArray
    mean: FloatArray
    factor: FloatArray


@dataclass(frozen=True)
class Mixture:
    """Priors of the model; nu0 = D + 1, W0^-1 = nu0 spread I."""

    components: int = 3
    alpha: float = 1.0
    weight0: float = 0.1
    spread: float = 0.25

    def observe(self, batch: Rows) -> Sums:
        """Sum rows by the half-spaces that they are in: as many cells as components."""
        planes = np.random.default_rng(1).standard_normal((batch.x.shape[1], self.components))
        return self._sums(batch.x, np.eye(self.components)[(batch.x @ planes).argmax(1)].T, 0.0)

    def init(self, observed: Sums, rng: np.random.Generator) -> Global:
        """Start with the cells as components."""
        return self.global_step(None, observed)

    def local_step(self, q: Global, batch: Rows, local: None) -> None:
        """Keep nothing: r_n follows from q."""

    def suff_stats(self, q: Global, batch: Rows, local: None) -> Sums:
        """Add r, r x, r x x', and sum_n log sum_k exp(rho_nk), (10.46) to (10.49)."""
        rho = self.log_weights(q, batch.x)
        total = logsumexp(rho, axis=1)
        return self._sums(batch.x, np.exp(rho - total[:, None]).T, float(total.sum()))

    def global_step(self, q: Global | None, stats: Sums) -> Global:
        """Return the conjugate posterior given r: (10.58) and (10.60) to (10.63), with m0 = 0."""
        size = stats.totals.shape[1]
        weight, shape = self.weight0 + stats.rows, size + 1.0 + stats.rows
        mean = stats.totals / weight[:, None]
        inverse = stats.squares - weight[:, None, None] * mean[:, :, None] * mean[:, None, :]
        inverse = inverse + self._inverse0(size) * np.eye(size)
        factor = linalg.cholesky(inverse, "the scatter of a component")
        return Global(self.alpha + stats.rows, weight, shape, mean, factor)

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the local part minus the divergences of pi, and of mu and Lambda."""
        (count, size), total = q.mean.shape, q.conc.sum()
        shares = gammaln(total) - gammaln(q.conc).sum()
        shares += count * gammaln(self.alpha) - gammaln(count * self.alpha)
        shares += ((q.conc - self.alpha) * (digamma(q.conc) - digamma(total))).sum()
        shape0, inverse0, ratio = size + 1.0, self._inverse0(size), self.weight0 / q.weight
        half = _inverse(q)
        far = (np.einsum("kij,kj->ki", half, q.mean) ** 2).sum(axis=1)
        means = 0.5 * (size * (ratio - 1.0 - np.log(ratio)) + self.weight0 * q.shape * far)
        trace = inverse0 * (half**2).sum(axis=(1, 2))
        log_ratio = size * np.log(inverse0) - linalg.log_det(q.factor)
        wishart = 0.5 * (q.shape * (trace - size) - shape0 * log_ratio)
        wishart += 0.5 * (q.shape - shape0) * _digamma(q.shape, size)
        wishart += multigammaln(shape0 / 2.0, size)
        wishart -= np.array([multigammaln(n / 2.0, size) for n in q.shape])
        return stats.bound - float(shares + (means + wishart).sum())

    def log_weights(self, q: Global, x: FloatArray) -> FloatArray:
        """Return E log pi_k + E log N(x_n; mu_k, Lambda_k^-1), [N, K]; (10.64) to (10.66)."""
        size = x.shape[1]
        log_det = _digamma(q.shape, size) + size * np.log(2.0) - linalg.log_det(q.factor)
        constant = digamma(q.conc) - digamma(q.conc.sum())
        constant += 0.5 * (log_det - size * np.log(2.0 * np.pi) - size / q.weight)
        pairs = zip(_inverse(q), q.mean, strict=True)
        distance = np.stack([((x @ h.T - h @ m) ** 2).sum(axis=1) for h, m in pairs], axis=1)
        rho: FloatArray = constant - 0.5 * q.shape * distance
        return rho

    @staticmethod
    def _sums(x: FloatArray, r: FloatArray, bound: float) -> Sums:
        squares = np.stack([(x.T * one) @ x for one in r])
        return Sums(r.sum(axis=1), r @ x, squares, bound)

    def _inverse0(self, size: int) -> float:
        return (size + 1.0) * self.spread


def _inverse(q: Global) -> FloatArray:
    """Return L^-1, [K, D, D]."""
    size = q.mean.shape[1]
    half: FloatArray = linalg.solve_lower(q.factor, np.broadcast_to(np.eye(size), q.factor.shape))
    return half


def _digamma(shape: FloatArray, size: int) -> FloatArray:
    """sum_i digamma((shape + 1 - i) / 2), i = 1..D; [K]."""
    total: FloatArray = digamma(0.5 * (shape[:, None] - np.arange(size))).sum(axis=1)
    return total


def main() -> Global:
    """Fit rows of three groups, in four partitions."""
    rng = np.random.default_rng(0)
    centres = np.array([[-2.0, 0.0], [2.0, 1.0], [0.0, -3.0]])
    x = centres[rng.choice(3, 600, p=[0.5, 0.3, 0.2])] + 0.6 * rng.standard_normal((600, 2))
    mean, sd = x.mean(0), x.std(0)
    parts = np.array_split((x - mean) / sd, 4)
    done = fit(Mixture(3), [Rows(part) for part in parts])
    print(f"bound {done.trace[-1]:.2f} after {done.iterations} sweeps")
    for share, at in zip(done.q.conc / done.q.conc.sum(), done.q.mean * sd + mean, strict=True):
        print(f"{share:.0%} of the rows, centre {np.round(at, 2)}")
    return done.q


if __name__ == "__main__":
    main()
