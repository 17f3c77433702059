"""The text's sampler (section 3): collapsed Gibbs over the IBP with Laplace-approximated weights.

p(z_nk = 1 | rest) ∝ p(X | Z) m_-n,k / N (eqs 4, 5), new features of a row by Poisson(alpha / N),
and for each column the weights beta [R, K + 1] ~ N(0, sigma_B^2) are integrated by Laplace,

    log p(x | Z) ~ f(MAP) - log|I + sigma_B^2 sum_n (diag(pi_n) - pi_n pi_n') (x) z_n z_n'| / 2

(eq 13). Rows that share features and answer share their terms (section 3.2), so costs follow
the number of distinct patterns. Every flip changes p(X | Z) of all columns: this is for small
tables in one process.

The text's sampler as a model of the common loop: one chain, one partition, small tables.

`LaplaceGibbs` draws Z with the weights integrated out. Its draws after the warm-up are averaged
feature by feature (a feature keeps its number while any row has it), for the features of the last
draw. At those probabilities, held, Polya-Gamma sets the weights: what reports, missing cells and
new rows are read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_softmax, logsumexp

from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import draw
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats
from vbmodels.features.ibp.model import FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.ibp.predict import HeldGlobal
from vbmodels.features.ibp.sticks import fit_sticks
from vbmodels.features.table import MISSING, FeatureBatch, UnitCounts, bearable, unit_counts

MOST_NEW = 2
"""Most new features of a row in one visit: more have a prior mass below (alpha / N)^3."""
ROUNDS, TOLERANCE = 50, 1e-7


@dataclass(frozen=True)
class LaplaceFit(State, kind="features/ibp_laplace.LaplaceFit"):
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
    return np.asarray((counts * log_pi).sum((1, 2)) - 0.5 * (beta**2).sum((1, 2)) / sigma2)


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
class LaplaceDraw(State, kind="features/ibp_laplace.LaplaceDraw"):
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


@dataclass(frozen=True)
class ObservedParts(Stats, kind="features/ibp_laplace.ObservedParts"):
    """Counts of answers, and how many partitions there are."""

    counts: UnitCounts
    parts: int


@dataclass(frozen=True)
class ChainGlobal(State, kind="features/ibp_laplace.ChainGlobal"):
    """How far the chain is; all that it draws lives with the rows.

    Parameters
    ----------
    iteration
        Iterations so far.
    seed
        Of everything that is drawn.
    n_rows, units
        N and J.
    trace
        [T, 2] number of features and log p(X, Z) at every iteration, 0 ahead.
    """

    iteration: int
    seed: int
    n_rows: float
    units: int
    trace: FloatArray


@dataclass(frozen=True)
class ChainRows(State, kind="features/ibp_laplace.ChainRows"):
    """The last draw, and how many of the draws that count had each of its features [N, K]."""

    draw: LaplaceDraw
    times: FloatArray


@dataclass(frozen=True)
class ChainSums(Stats, kind="features/ibp_laplace.ChainSums"):
    """log p(X, Z) by Laplace, and the draws that count in which a row had a feature [K]."""

    log_joint: float
    features: int
    times: FloatArray


@dataclass(frozen=True)
class LaplaceIBP:
    """The collapsed sampler with the Laplace approximation (section 3 of the text).

    Parameters
    ----------
    polya
        What sets the weights at the end; its ``n_features`` bounds the features of a draw.
    sigma2
        sigma_B^2.
    warmup, draws
        Iterations thrown away and iterations averaged.
    held
        Sweeps of the weights at the end.
    """

    polya: PolyaGammaIBP
    sigma2: float = 1.0
    warmup: int = 50
    draws: int = 50
    held: int = 8

    @property
    def last(self) -> int:
        """Iterations of the chain."""
        return self.warmup + self.draws

    def observe(self, batch: FeatureBatch) -> ObservedParts:
        """Count answers and partitions."""
        return ObservedParts(unit_counts(batch), 1)

    def init(self, observed: ObservedParts, rng: np.random.Generator) -> ChainGlobal:
        """Start the chain.

        Raises
        ------
        ValueError
            If there are several partitions: every flip needs all rows.
        """
        if observed.parts != 1:
            raise ValueError(
                f"the collapsed sampler takes one partition, got {observed.parts}: its rows are "
                "not independent given the global parameters"
            )
        counts = observed.counts
        trace = np.zeros((self.last, 2))
        return ChainGlobal(0, int(rng.integers(2**62)), counts.n_rows, len(counts.stop), trace)

    def local_step(self, q: Any, batch: FeatureBatch, local: Any) -> ChainRows | FeatureLocal:
        """Draw once; when the chain is done, hold the features' probabilities."""
        if not isinstance(q, ChainGlobal):
            return FeatureLocal(self._chance(local)) if isinstance(local, ChainRows) else local
        sampler = LaplaceGibbs(
            batch.codes[batch.row_of],
            batch.levels,
            self.polya.alpha,
            self.sigma2,
            bearable(self.polya.n_features, q.n_rows),
        )
        rng = np.random.default_rng([q.seed, q.iteration])
        if local is None:
            local = ChainRows(sampler.start(rng), np.zeros((batch.n_rows, 2)))
        draw = sampler.iterate(local.draw, rng)
        times = np.zeros(draw.z.shape)
        _, new, old = np.intersect1d(draw.names, local.draw.names, return_indices=True)
        times[:, new] = local.times[:, old]
        return ChainRows(draw, times + draw.z if q.iteration >= self.warmup else times)

    def suff_stats(self, q: Any, batch: FeatureBatch, local: Any) -> Any:
        """Sum up the draw, or what the weights need."""
        if not isinstance(q, ChainGlobal):
            return self.weights_of(q).suff_stats(q.inner, batch, local)
        value = local.draw.log_evidence + log_buffet(local.draw.z, self.polya.alpha)
        return ChainSums(value, local.draw.z.shape[1], local.times.sum(0))

    def global_step(self, q: Any, stats: Any) -> Any:
        """Count the iteration; at the end begin with the weights."""
        if isinstance(q, HeldGlobal):
            moved = self.weights_of(q).global_step(q.inner, stats)
            return replace(q, inner=moved, left=q.left - 1)
        trace = q.trace.copy()
        trace[q.iteration] = stats.features, stats.log_joint
        if q.iteration + 1 < self.last:
            return replace(q, iteration=q.iteration + 1, trace=trace)
        return HeldGlobal(self._begin(q, stats), self.held)

    def elbo(self, q: Any, stats: Any) -> float:
        """Return log p(X, Z) of the draw, then the bound at the held features."""
        if isinstance(q, ChainGlobal):
            return float(stats.log_joint)
        return self.weights_of(q).elbo(q.inner, stats)

    def objective(self, q: ChainGlobal | HeldGlobal) -> str:
        """Return what `elbo` is."""
        return "log density" if isinstance(q, ChainGlobal) else "bound"

    def algorithm(self, q: ChainGlobal) -> Algorithm:
        """Draw, then sweep the weights as often as planned."""
        return draw(self, q, lambda q: isinstance(q, HeldGlobal) and q.left <= 0)

    def weights_of(self, q: HeldGlobal) -> PolyaGammaIBP:
        """Return the model of the weights, for as many features as the chain ended with."""
        return replace(self.polya, n_features=len(q.inner.tau))

    def _chance(self, local: ChainRows) -> FloatArray:
        chance = local.times / self.draws
        return chance if chance.shape[1] else np.zeros((len(chance), 1))

    def _begin(self, q: ChainGlobal, stats: ChainSums) -> FeatureGlobal:
        """Start the weights at nothing, for the features of the last draw."""
        k = max(stats.features, 1)
        on = stats.times / self.draws if stats.features else np.zeros(1)
        polya = replace(self.polya, n_features=k)
        counts = UnitCounts(q.n_rows, q.n_rows, np.zeros(q.units), np.zeros(q.units))
        first = polya.init(counts, np.random.default_rng(q.seed))
        tau, alpha = fit_sticks(on, q.n_rows, polya.alpha, first.tau, learn_alpha=polya.learn)
        return replace(
            first, mean=np.zeros(first.mean.shape), tau=tau, alpha=alpha, share=on / q.n_rows
        )


def log_buffet(z: BoolArray, alpha: float) -> float:
    """log p(Z) of the Indian buffet process (section 2), Z up to the order of its columns.

    K log alpha - alpha H_N - sum_h log K_h! + sum_k log (N - m_k)! (m_k - 1)! / N!, with H_N the
    harmonic number and K_h how many columns equal each other.
    """
    n, k = z.shape
    m = z.sum(0)
    harmonic = float((1.0 / np.arange(1, n + 1)).sum())
    _, same = np.unique(z, axis=1, return_counts=True) if k else (None, np.zeros(0))
    each = gammaln(n - m + 1.0) + gammaln(m) - gammaln(n + 1.0)
    return float(k * np.log(alpha) - alpha * harmonic - gammaln(same + 1.0).sum() + each.sum())
