"""The text's sampler (section 3): collapsed Gibbs over the IBP with Laplace-approximated weights.

p(z_nk = 1 | rest) ∝ p(X | Z) m_-n,k / N (eqs 4, 5), new features of a row by Poisson(alpha / N),
and for each column the weights beta [R, K + 1] ~ N(0, sigma_B^2) are integrated by Laplace,

    log p(x | Z) ~ f(MAP) - log|I + sigma_B^2 sum_n (diag(pi_n) - pi_n pi_n') (x) z_n z_n'| / 2

(eq 13). Rows that share features and answer share their terms (section 3.2), so costs follow
the number of distinct patterns. Every flip changes p(X | Z) of all columns: this is for small
tables in one process; `gibbs` is the sampler that rows can share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_softmax, logsumexp

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.features.table import MISSING

MOST_NEW = 2
"""Most new features of a row in one visit: more have a prior mass below (alpha / N)^3."""
ROUNDS, TOLERANCE = 50, 1e-7


@dataclass(frozen=True)
class LaplaceFit(State, kind="features/laplace_gibbs.LaplaceFit"):
    """Columns of one number of categories, R, at one Z.

    Parameters
    ----------
    beta
        [D, R, K + 1] the MAP.
    log_evidence
        Sum over columns of log p(x | Z) by Laplace.
    """

    beta: FloatArray
    log_evidence: float


def laplace(
    patterns: FloatArray, counts: FloatArray, sigma2: float, beta: FloatArray | None = None
) -> LaplaceFit:
    """Find the MAP of every column by Newton's method, and the evidence (eqs 11 to 13).

    Parameters
    ----------
    patterns
        [P, K + 1] distinct feature patterns with a leading 1.
    counts
        [D, P, R] rows of each pattern with each answer.
    sigma2
        sigma_B^2.
    beta
        Where to start; [D, R, K + 1].
    """
    d, _, r = counts.shape
    size = patterns.shape[1]
    at = np.zeros((d, r, size)) if beta is None else beta
    value = _objective(at, patterns, counts, sigma2)
    for _ in range(ROUNDS):
        gradient, hessian = _derivatives(at, patterns, counts, sigma2)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0].reshape(at.shape)
        length = np.ones(d)
        for _ in range(30):
            tried = at + length[:, None, None] * step
            new = _objective(tried, patterns, counts, sigma2)
            worse = new < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            length = np.where(worse, 0.5 * length, length)
        gain = np.max(new - value)
        at, value = tried, new
        if gain < TOLERANCE * (1.0 + np.max(np.abs(value))):
            break
    _, hessian = _derivatives(at, patterns, counts, sigma2)
    _, log_det = np.linalg.slogdet(hessian * sigma2)
    return LaplaceFit(at, float((value - 0.5 * log_det).sum()))


def _objective(
    beta: FloatArray, patterns: FloatArray, counts: FloatArray, sigma2: float
) -> FloatArray:
    """f (eq 27) without its constant: log p(x | beta, Z) - |beta|^2 / (2 sigma_B^2); [D]."""
    log_pi = log_softmax(patterns @ beta.transpose(0, 2, 1), axis=2)
    value: FloatArray = (counts * log_pi).sum((1, 2)) - 0.5 * (beta**2).sum((1, 2)) / sigma2
    return value


def _derivatives(
    beta: FloatArray, patterns: FloatArray, counts: FloatArray, sigma2: float
) -> tuple[FloatArray, FloatArray]:
    """Gradient of f [D, R (K + 1)] (eq 28), minus its Hessian [D, R (K + 1), same] (eq 29)."""
    d, r, size = beta.shape
    pi = np.exp(log_softmax(patterns @ beta.transpose(0, 2, 1), axis=2))
    total = counts.sum(2)
    gradient = (counts - total[:, :, None] * pi).transpose(0, 2, 1) @ patterns - beta / sigma2
    spread = -pi[:, :, :, None] * pi[:, :, None, :]
    place = np.arange(r)
    spread[:, :, place, place] += pi
    weight = (spread * total[:, :, None, None]).reshape(d, len(patterns), r * r)
    outer = (patterns[:, :, None] * patterns[:, None, :]).reshape(len(patterns), -1)
    blocks = (weight.transpose(0, 2, 1) @ outer).reshape(d, r, r, size, size)
    hessian = blocks.transpose(0, 1, 3, 2, 4).reshape(d, r * size, r * size)
    return gradient.reshape(d, -1), hessian + np.eye(r * size) / sigma2


@dataclass(frozen=True)
class LaplaceDraw(State, kind="features/laplace_gibbs.LaplaceDraw"):
    """One draw.

    Parameters
    ----------
    z
        [N, K].
    names
        [K] a number for each feature that stays with it while any row has it.
    born
        Features so far: the next one's number.
    fits
        Columns of each number of categories.
    """

    z: BoolArray
    names: IntArray
    born: int
    fits: tuple[LaplaceFit, ...]

    @property
    def log_evidence(self) -> float:
        """log p(X | Z)."""
        return _total(self.fits)


class LaplaceGibbs:
    """The sampler of one table; columns are worked on in groups of equal R.

    Parameters
    ----------
    codes
        [N, D] categories, -1 where missing.
    levels
        [D] categories of each column.
    alpha, sigma2
        Concentration and sigma_B^2.
    most
        No draw has more features.
    """

    def __init__(
        self,
        codes: NDArray[np.integer],
        levels: IntArray,
        alpha: float = 0.5,
        sigma2: float = 1.0,
        most: int = 50,
    ) -> None:
        self.alpha, self.sigma2, self.most = alpha, sigma2, most
        self.n_rows = len(codes)
        self.answers = []
        for r in np.unique(levels).tolist():
            mine = codes[:, levels == r]
            one_hot = (mine[:, :, None] == np.arange(r)) & (mine[:, :, None] != MISSING)
            self.answers.append(one_hot.astype(np.float64))

    def start(self, rng: np.random.Generator, features: int = 2) -> LaplaceDraw:
        """Return a start of ``features`` features at random."""
        features = min(features, self.most)
        z = rng.random((self.n_rows, features)) < 0.5
        return LaplaceDraw(z, np.arange(features), features, self.fit(z, None))

    def iterate(self, at: LaplaceDraw, rng: np.random.Generator) -> LaplaceDraw:
        """Visit every row once."""
        for n in range(self.n_rows):
            others = at.z.sum(0) - at.z[n]
            at = self._renew(n, self._flip(n, at, others, rng), others, rng)
        return at

    def fit(self, z: BoolArray, near: Sequence[LaplaceFit] | None) -> tuple[LaplaceFit, ...]:
        """Fit each column to Z (eqs 9, 10; section 3.2), from the fits of a ``near`` one."""
        patterns, back = np.unique(z, axis=0, return_inverse=True)
        member = np.zeros((len(patterns), len(z)))
        member[back.reshape(-1), np.arange(len(z))] = 1.0
        full = np.concatenate([np.ones((len(patterns), 1)), patterns], axis=1)
        fits = []
        for g, answer in enumerate(self.answers):
            n, d, r = answer.shape
            counts = (member @ answer.reshape(n, d * r)).reshape(-1, d, r).transpose(1, 0, 2)
            beta = None if near is None else _resized(near[g].beta, full.shape[1])
            fits.append(laplace(full, counts, self.sigma2, beta))
        return tuple(fits)

    def _flip(
        self, n: int, at: LaplaceDraw, others: IntArray, rng: np.random.Generator
    ) -> LaplaceDraw:
        """Draw those features of a row that others have too (eqs 4, 5)."""
        for k in np.flatnonzero(others > 0):
            flipped = at.z.copy()
            flipped[n, k] = not at.z[n, k]
            tried = replace(at, z=flipped, fits=self.fit(flipped, at.fits))
            prior = float(np.log(others[k]) - np.log(self.n_rows - others[k]))
            gain = tried.log_evidence - at.log_evidence + (prior if flipped[n, k] else -prior)
            if np.log(rng.random()) < -np.logaddexp(0.0, -gain):
                at = tried
        return at

    def _renew(
        self, n: int, at: LaplaceDraw, others: IntArray, rng: np.random.Generator
    ) -> LaplaceDraw:
        """Draw how many features the row has alone, 0 to `MOST_NEW` (section 2.2).

        Those that it had before keep their numbers as long as there are as many: features of
        one row alone are exchangeable, as their weights are integrated out.
        """
        kept = others > 0
        own = at.names[~kept & at.z[n]]
        base = at.z[:, kept]
        index = np.concatenate([[0], 1 + np.flatnonzero(kept)])
        near = [LaplaceFit(f.beta[:, :, index], 0.0) for f in at.fits]
        rate = self.alpha / self.n_rows
        options, log_p = [], []
        for j in range(min(MOST_NEW, self.most - base.shape[1]) + 1):
            new = np.zeros((self.n_rows, j), dtype=bool)
            new[n] = True
            tried = np.concatenate([base, new], axis=1)
            found = self.fit(tried, near)
            more = max(0, j - own.size)
            names = np.concatenate([at.names[kept], own[:j], at.born + np.arange(more)])
            options.append(LaplaceDraw(tried, names, at.born + more, found))
            log_p.append(_total(found) + j * np.log(rate) - rate - gammaln(j + 1.0))
        p = np.exp(np.array(log_p) - logsumexp(log_p))
        return options[int(rng.choice(len(p), p=p / p.sum()))]


def _resized(beta: FloatArray, size: int) -> FloatArray:
    if beta.shape[2] >= size:
        return beta[:, :, :size]
    grown = np.zeros((*beta.shape[:2], size))
    grown[:, :, : beta.shape[2]] = beta
    return grown


def _total(fits: Sequence[LaplaceFit]) -> float:
    return sum(f.log_evidence for f in fits)
