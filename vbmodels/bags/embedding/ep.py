"""Expectation propagation for a probit Gaussian: sites, evidence, and its slope in prior variances.

    f_i = F_i'w,   w ~ N(0, diag(v)),   P(y_i = 1 | f_i) = Phi(f_i)

A site exp(nu_i f_i - tau_i f_i^2/2) stands for each label (Minka 2001; Rasmussen and Williams 2006,
section 3.6). With A = diag(1/v) + sum F tau F' the posterior of w is N(A^-1 sum F nu, A^-1). Of a
bag only mu_i = F_i'w and var_i = F_i'A^-1 F_i are needed: all sites are updated side by side
(parallel EP; van Gerven et al. 2009), so that a partition keeps two numbers a bag. With the cavity
ct = 1/var - tau, cm = (mu/var - nu)/ct and z = y cm/sqrt(1 + 1/ct), h = phi(z)/Z:

    Z = Phi(z),   d1 = y h/sqrt(1 + 1/ct),   d2 = h (z + h)/(1 + 1/ct)
    tau <- d2/(1 - d2/ct),   nu <- (d1 + d2 cm)/(1 - d2/ct)

    log Z_EP = sum log Z_i - (log|A| + sum log v)/2 + sum log(1 + tau/ct)/2
               + sum nu (mu - nu/(ct + tau))/2 + sum cm ct/(tau + ct) (tau cm - 2 nu)/2

(Rasmussen and Williams, eq 3.65 and the text after it, in primal form.) Z_i is the probability of
label i given all others at these v. At the fixed point the sites are stationary, so

    d log Z_EP / d log v_m = [ |w_m|^2/v_m - D_m + tr(A^-1)_mm/v_m ]/2.

The Gaussian has two forms, which are the same numbers; one costs D^3, the other n^3. Over weights
(primal) A = diag(1/v) + F'TF, [D, D]. Over the bags' scores (dual), with K = F diag(v) F',
S = T^(1/2) and B = I + S K S (Rasmussen and Williams 2006, section 3.6.1):

    Sigma = K - (C^-1 S K)'(C^-1 S K),  C C' = B,     b = nu - S B^-1 S K nu,     mu = K b
    log|A| + sum log v = log|B|
    d log Z_EP / d log v_m = v_m [ |F_m'b|^2 - tr(F_m' S B^-1 S F_m) ]/2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from vbmodels.core.linalg import cholesky, log_det, solve, solve_lower
from vbmodels.core.special import inverse_mills
from vbmodels.core.state import FloatArray, IntArray, State

LOWEST, HIGHEST = 1e-8, 1e4
"""Range of tau."""
MOST_SWEEPS = 60
FULL_SWEEPS = 16
"""Sweeps with full steps; later ones go part of the way."""
DAMPED = 0.6


@dataclass(frozen=True)
class Sites(State, kind="bags/embedding.Sites"):
    """What a partition keeps: a site for each of its labelled bags, and what those before say.

    Attributes
    ----------
    tau, nu
        Sites, [n].
    log_z
        Leave-one-out log probability of each label, [n], in nats.
    evidence
        The bags' part of log Z_EP, in nats.
    moved
        Sum of squared changes of the sites, in units of the marginals' sd.
    """

    tau: FloatArray
    nu: FloatArray
    log_z: FloatArray
    evidence: float
    moved: float


def log_chance(sign: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return log P(y) for f ~ N(mean, variance), y = +1 or -1, [n], in nats."""
    return np.asarray(log_ndtr(sign * mean / np.sqrt(1.0 + variance)))


def update(
    sign: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    tau: FloatArray,
    nu: FloatArray,
    damping: float = 1.0,
) -> Sites:
    """Update the sites of some bags.

    Parameters
    ----------
    sign
        Labels, +1 or -1, [n].
    mean, variance
        Marginals mu_i and var_i of f, [n], made with the sites given.
    tau, nu
        Sites, [n].
    damping
        Share of the way that the sites go, in (0, 1].
    """
    cavity = np.maximum(1.0 / variance - tau, 1e-10)
    centre = (mean / variance - nu) / cavity
    spread = 1.0 + 1.0 / cavity
    z = sign * centre / np.sqrt(spread)
    log_z = log_chance(sign, centre, 1.0 / cavity)
    hazard = inverse_mills(z)
    slope = sign * hazard / np.sqrt(spread)
    bend = hazard * (z + hazard) / spread
    shrunk = 1.0 - bend / cavity
    new_tau = np.clip(bend / shrunk, LOWEST, HIGHEST)
    new_nu = (slope + bend * centre) / shrunk
    # At a bound of tau the mean of the tilted distribution is still met.
    bound = new_tau != bend / shrunk
    tilted = centre + slope / cavity
    new_nu = np.where(bound, tilted * (cavity + new_tau) - cavity * centre, new_nu)
    tau_to, nu_to = tau + damping * (new_tau - tau), nu + damping * (new_nu - nu)
    both = cavity + tau
    evidence = (
        log_z
        + 0.5 * np.log1p(tau / cavity)
        + 0.5 * nu * (mean - nu / both)
        + 0.5 * centre * cavity / both * (tau * centre - 2.0 * nu)
    )
    moved = ((tau_to - tau) * variance) ** 2 + (nu_to - nu) ** 2 * variance
    return Sites(tau_to, nu_to, log_z, float(evidence.sum()), float(moved.sum()))


def damping(sweep: int) -> float:
    """Return the share of the way that sites go in a sweep, counted from 0."""
    return 1.0 if sweep < FULL_SWEEPS else DAMPED


@dataclass(frozen=True)
class Weights:
    """The Gaussian of the weights given the sites' sums.

    Attributes
    ----------
    mean
        w, [D].
    factor
        Lower Cholesky factor of A, [D, D].
    """

    mean: FloatArray
    factor: FloatArray

    @classmethod
    def of(cls, variance: FloatArray, gram: FloatArray, pull: FloatArray) -> Weights:
        """Return it from prior variances [D], sum F tau F' [D, D] and sum F nu [D]."""
        precision = gram + np.diag(1.0 / variance)
        factor = cholesky(precision, "the precision of the bags' weights")
        return cls(solve(factor, pull), factor)

    def marginals(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f for columns [n, D], two of [n]."""
        half = solve_lower(self.factor, columns.T)
        return columns @ self.mean, np.einsum("dn,dn->n", half, half)

    def constant(self, variance: FloatArray) -> float:
        """Return the part of log Z_EP that is not a sum over bags, in nats."""
        return -0.5 * float(log_det(self.factor) + np.log(variance).sum())

    def sizes_and_determined(
        self, variance: FloatArray, block: IntArray, n_blocks: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return |w_m|^2/v_m and the determined weights, D_m - tr(A^-1)_mm/v_m; two of [M].

        Half of their difference is d log Z_EP / d log v_m. ``block`` numbers the columns' blocks,
        [D]; columns of block M or above (the constant) have a fixed variance.
        """
        half = solve_lower(self.factor, np.eye(len(self.factor)))
        spread = np.einsum("ij,ij->j", half, half)
        size, determined = self.mean**2 / variance, 1.0 - spread / variance
        return by_block(size, block, n_blocks), by_block(determined, block, n_blocks)


@dataclass(frozen=True)
class Found:
    """Where EP came to rest at some prior variances.

    Attributes
    ----------
    tau, nu
        Sites, [n].
    value
        log Z_EP, in nats.
    slope
        d log Z_EP / d log v_m, [M].
    log_z
        Leave-one-out log probability of each label, [n], in nats.
    """

    tau: FloatArray
    nu: FloatArray
    value: float
    slope: FloatArray
    log_z: FloatArray


@dataclass(frozen=True)
class Gathered:
    """All fitted bags in one place.

    Attributes
    ----------
    columns
        F, [n, D].
    sign
        Labels, +1 or -1, [n].
    block
        Number of each column's block, [D]; M for the constant.
    n_blocks
        M.
    """

    columns: FloatArray
    sign: FloatArray
    block: IntArray
    n_blocks: int

    def converge(
        self,
        variance: FloatArray,
        tau: FloatArray,
        nu: FloatArray,
        tolerance: float,
        dual: bool | None = None,
    ) -> Found:
        """Sweep at prior variances [D] until sites move less than ``tolerance``.

        Parameters
        ----------
        variance
            Prior variance of each column, [D].
        tau, nu
            Sites to start from, [n].
        tolerance
            Mean squared move of the sites, in units of the marginals' sd.
        dual
            Which form; None: the one that costs less.
        """
        if dual is None:
            dual = self.columns.shape[0] <= self.columns.shape[1]
        for sweep in range(MOST_SWEEPS):
            form = _Scores(self, variance, tau, nu) if dual else _Primal(self, variance, tau, nu)
            new = update(self.sign, *form.marginals(), tau, nu, damping(sweep))
            if new.moved <= tolerance * max(1, self.sign.size):
                break
            tau, nu = new.tau, new.nu
        return Found(tau, nu, new.evidence + form.constant(), form.slope(), new.log_z)


def by_block(values: FloatArray, block: IntArray, n_blocks: int) -> FloatArray:
    """Sum values of columns [D] over their blocks, [M]; what is of no block is left out."""
    result: FloatArray = np.zeros(n_blocks + 1)
    np.add.at(result, block, values)
    return result[:n_blocks]


class _Primal:
    def __init__(self, of: Gathered, variance: FloatArray, tau: FloatArray, nu: FloatArray) -> None:
        self.of, self.variance = of, variance
        half = of.columns * np.sqrt(tau)[:, None]  # a product with itself costs half as much
        self.weights = Weights.of(variance, half.T @ half, of.columns.T @ nu)

    def marginals(self) -> tuple[FloatArray, FloatArray]:
        return self.weights.marginals(self.of.columns)

    def constant(self) -> float:
        return self.weights.constant(self.variance)

    def slope(self) -> FloatArray:
        size, determined = self.weights.sizes_and_determined(
            self.variance, self.of.block, self.of.n_blocks
        )
        return 0.5 * (size - determined)


class _Scores:
    def __init__(self, of: Gathered, variance: FloatArray, tau: FloatArray, nu: FloatArray) -> None:
        self.of, self.variance = of, variance
        scaled = of.columns * np.sqrt(variance)
        self.kernel = scaled @ scaled.T
        self.root = np.sqrt(tau)
        inner = self.root[:, None] * self.kernel * self.root
        self.factor = cholesky(inner + np.eye(len(inner)), "I + S K S")
        self.half = solve_lower(self.factor, self.root[:, None] * self.kernel)
        pulled = self.kernel @ nu
        self.pull = nu - self.root * solve(self.factor, self.root * pulled)

    def marginals(self) -> tuple[FloatArray, FloatArray]:
        spread = np.diag(self.kernel) - np.einsum("ij,ij->j", self.half, self.half)
        return self.kernel @ self.pull, spread

    def constant(self) -> float:
        return -0.5 * float(log_det(self.factor))

    def slope(self) -> FloatArray:
        of = self.of
        half = solve_lower(self.factor, self.root[:, None] * of.columns)
        each = (of.columns.T @ self.pull) ** 2 - np.einsum("ij,ij->j", half, half)
        each = 0.5 * self.variance * each
        return by_block(each, of.block, of.n_blocks)
