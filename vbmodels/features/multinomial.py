"""The IBP with multinomial-logit observations by variational inference (Ruiz et al. 2014).

The bound is that of section 4 of the text, corrected. Category r of column d has weights b^d_0r,
b^d_kr ~ N(0, sigma_B^2) and
p(x_nd = r) ∝ exp(b^d_0r + z_n . b^d_r) (eqs 6-8). With q(b) = N(phi, sigma^2),
E_kr = exp(phi_kr + sigma^2_kr / 2) and

    P_nr = E_0r prod_k (1 - nu_nk + nu_nk E_kr),

each cell costs log sum_r P_nr (eq 40 at its best xi, eq 26). The text's eq 24 has the sign of
its likelihood part wrong; the derivative of the bound is

    logit nu_nk = prior + sum_d (phi_k x_nd - xi_nd sum_r P_nr^(without k) (E_kr - 1)).

With u = phi + sigma^2 / 2, T = sum_n xi_nd P_nr, its derivative t in u and a = sum_n E[z_n] over
the category's cells, the bound in a category's weights is

    a . phi - T(u) - sum_k (phi_k^2 + sigma_k^2) / (2 v) + sum_k log(sigma_k^2) / 2,

v the prior variance. T's second derivatives are not negative, so their row sums h bound its
curvature: phi moves by (a - t - phi / v) / (h + 1 / v), log sigma^2 to -log(t + 1 / v). A step that
would lower the bound is halved. The softmax has a free direction: each column's most frequent
category is held at 0, which doubles the variance of the others (for two categories the same
model, exactly).

When the bound has converged the features are held, and Polya-Gamma sets the weights that reports,
missing cells and new rows are read from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlog1py, xlogy

from vbmodels.core.algorithm import Algorithm, Phase, Save, Show
from vbmodels.core.cavi import draw, evaluate
from vbmodels.core.linalg import pack, unpack
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats
from vbmodels.features.ibp.model import FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.ibp.predict import HeldGlobal
from vbmodels.features.ibp.sticks import bound_log_off, fit_sticks, mean_log_on, stick_bound
from vbmodels.features.table import FeatureBatch, bearable


def indicators(codes: NDArray[np.int16], levels: IntArray) -> FloatArray:
    """Return 1 where a row has a category; [U, L]."""
    column = np.repeat(np.arange(len(levels)), levels)
    category = np.concatenate([np.arange(r) for r in levels])
    return np.asarray((codes[:, column] == category).astype(np.float64))


def cells_of(batch: FeatureBatch, rows: slice) -> tuple[FloatArray, FloatArray]:
    """Return the indicators [B, L] and which cells are there [B, D]."""
    codes = batch.codes[rows]
    return indicators(codes, batch.levels), (codes >= 0).astype(np.float64)


def normalised(
    log_p: FloatArray, values: FloatArray, answered: FloatArray, levels: IntArray
) -> FloatArray:
    """Return exp(values) / sum of exp(log_p) over each column's categories, 0 if missing."""
    column = np.repeat(np.arange(len(levels)), levels)
    total = _log_sums(log_p, levels)
    return np.exp(values - total[:, column]) * answered[:, column]


def log_totals(log_p: FloatArray, levels: IntArray, answered: FloatArray) -> FloatArray:
    """log sum of exp over each column's categories, 0 if missing; [B, D]; eqs 38-40."""
    return _log_sums(log_p, levels) * answered


def _log_sums(log_p: FloatArray, levels: IntArray) -> FloatArray:
    """log sum of exp over each column's categories; [B, D]."""
    first = np.concatenate([[0], np.cumsum(levels)[:-1]])
    column = np.repeat(np.arange(len(levels)), levels)
    top = np.maximum.reduceat(log_p, first, axis=1)
    return top + np.log(np.add.reduceat(np.exp(log_p - top[:, column]), first, axis=1))


BLOCK = 256
LARGEST_LOGIT = 35.0
LARGEST_U = 30.0
"""|phi + sigma^2 / 2| stays within."""
HALVINGS = 12
LARGEST_STEP = 2.0
START = 2.0
"""Largest weight of a feature at the start."""
MOST_PAIRED = 2000
"""Categories of all columns, of more of which no pairs are counted."""


@dataclass(frozen=True)
class TextGlobal(State, kind="features/multinomial.TextGlobal"):
    """Global parameters (eqs 18, 19); L categories of all columns are in one array.

    Parameters
    ----------
    phi, log_variance
        [L, K + 1] q(b_0r), q(b_kr); the latter is log sigma^2.
    levels
        [D] categories of each column.
    tau, alpha
        Sticks [K, 2] and concentration.
    variance
        sigma_B^2.
    share, n_rows
        [K] share of the rows with nu > 1/2, and N.
    size
        Length of the weights' last step, as a part of the whole.
    """

    phi: FloatArray
    log_variance: FloatArray
    levels: IntArray
    tau: FloatArray
    alpha: float
    variance: float
    share: FloatArray
    n_rows: float
    size: float


@dataclass(frozen=True)
class TextLocal(State, kind="features/multinomial.TextLocal"):
    """nu [U, K] (eq 19)."""

    nu: FloatArray


@dataclass(frozen=True)
class LevelCounts(Stats, kind="features/multinomial.LevelCounts"):
    """N, how often each category occurs [L] and each pair of them, packed; [0] of very many.

    ``levels`` is summed with ``parts``.
    """

    n_rows: float
    counts: FloatArray
    pairs: FloatArray
    levels: IntArray
    parts: int


@dataclass(frozen=True)
class TextStats(Stats, kind="features/multinomial.TextStats"):
    """Additive statistics.

    Parameters
    ----------
    n_rows, on, likely
        N, [K] expected rows and [K] likely rows with each feature.
    linear
        [L, K + 1] sum of E[z_n] (with a leading 1) over the cells of each category.
    slope
        [L, K + 1] derivative of T in u.
    curvature
        [L, K + 1] row sums of the second derivative of T in u.
    bound
        Entropy of z minus log sum_r P_nr over the cells.
    """

    n_rows: float
    on: FloatArray
    likely: FloatArray
    linear: FloatArray
    slope: FloatArray
    curvature: FloatArray
    bound: float


@dataclass(frozen=True)
class TextIBP:
    """The text's variational inference; `MultinomialIBP` reports what it finds.

    Parameters
    ----------
    n_features
        K, the truncation.
    alpha, sigma2
        Concentration (eq 2) and sigma_B^2 (below eq 6).
    """

    n_features: int
    alpha: float = 1.0
    sigma2: float = 1.0

    def observe(self, batch: FeatureBatch) -> LevelCounts:
        """Count categories and pairs of them."""
        size = int(batch.levels.sum())
        counts, pairs = np.zeros(size), np.zeros((size, size) if size <= MOST_PAIRED else (0, 0))
        for rows in _blocks(len(batch.count)):
            cells, _ = cells_of(batch, rows)
            weighted = cells * batch.count[rows, None]
            counts += weighted.sum(axis=0)
            if pairs.size:
                pairs += cells.T @ weighted
        return LevelCounts(float(batch.count.sum()), counts, pack(pairs), batch.levels, 1)

    def init(self, observed: LevelCounts, rng: np.random.Generator) -> TextGlobal:
        """Biases at the margins, weights along the directions in which categories vary most.

        Where there are fewer directions, the other features' weights are drawn around 0; from
        such weights alone the four images of section 5.1 were found in two of five sets.
        """
        k, levels = bearable(self.n_features, observed.n_rows), observed.levels // observed.parts
        phi = rng.normal(0.0, 0.5, (len(observed.counts), k + 1))
        column = np.repeat(np.arange(len(levels)), levels)
        log_count = np.log(observed.counts + 1.0)
        first = np.concatenate([[0], np.cumsum(levels)[:-1]])
        phi[:, 0] = log_count - log_count[first][column]
        along = _directions(observed, np.flatnonzero(self.free(levels)), k)
        phi[self.free(levels), 1 : 1 + along.shape[1]] = along
        phi[first] = 0.0
        on = np.full(k, 0.2 * observed.n_rows)
        tau = np.stack([np.full(k, self.alpha), np.ones(k)], axis=1)
        tau, _ = fit_sticks(on, observed.n_rows, self.alpha, tau, learn_alpha=False)
        return TextGlobal(
            phi=phi,
            log_variance=np.full(phi.shape, math.log(0.1)),
            levels=levels,
            tau=tau,
            alpha=self.alpha,
            variance=self.sigma2,
            share=np.full(k, 0.2),
            n_rows=observed.n_rows,
            size=1.0,
        )

    def free(self, levels: IntArray) -> BoolArray:
        """Return which categories have weights: all but the first of each column; [L]."""
        free = np.ones(int(levels.sum()), dtype=bool)
        free[np.concatenate([[0], np.cumsum(levels)[:-1]])] = False
        return free

    def log_mean(self, q: TextGlobal) -> FloatArray:
        """log E_kr = phi + sigma^2 / 2, 0 where pinned; [L, K + 1]."""
        u = q.phi + 0.5 * np.exp(q.log_variance)
        u = np.where(self.free(q.levels)[:, None], u, 0.0)
        return np.clip(u, -LARGEST_U, LARGEST_U)

    def local_step(self, q: TextGlobal, batch: FeatureBatch, local: TextLocal | None) -> TextLocal:
        """Set xi (eq 26), then nu_nk for k = 1..K (eqs 23, 24), xi again after each."""
        nu = np.full((len(batch.count), len(q.tau)), 0.5) if local is None else local.nu.copy()
        prior = mean_log_on(q.tau) - bound_log_off(q.tau)
        u = self.log_mean(q)
        rise = np.expm1(u[:, 1:]).T
        for rows in _blocks(len(nu)):
            cells, answered = cells_of(batch, rows)
            own = nu[rows]
            pull = prior + cells @ q.phi[:, 1:]
            factors = [1.0 + own[:, k, None] * rise[k] for k in range(own.shape[1])]
            log_p = u[:, 0] + sum((np.log(f) for f in factors), np.zeros((1, 1)))
            for k, factor in enumerate(factors):
                rest = log_p - np.log(factor)
                xi_p = normalised(log_p, rest, answered, batch.levels)
                logit = pull[:, k] - (xi_p * rise[k]).sum(1)
                own[:, k] = expit(np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT))
                log_p = rest + np.log(1.0 + own[:, k, None] * rise[k])
        return TextLocal(nu)

    def suff_stats(self, q: TextGlobal, batch: FeatureBatch, local: TextLocal) -> TextStats:
        """Sum gradient and curvature (eqs 44-51), with xi at its best for ``q`` and ``local``."""
        nu, u = local.nu, self.log_mean(q)
        linear, slope, curvature = (np.zeros(u.shape) for _ in range(3))
        bound = -float(batch.count @ (xlogy(nu, nu) + xlog1py(1.0 - nu, -nu)).sum(1))
        mean = np.exp(u[:, 1:])
        for rows in _blocks(len(nu)):
            cells, answered = cells_of(batch, rows)
            count, own = batch.count[rows], nu[rows]
            factor = 1.0 + own[:, None, :] * (mean - 1.0)
            log_p = u[:, 0] + np.log(factor).sum(2)
            weight = normalised(log_p, log_p, answered, batch.levels) * count[:, None]
            part = np.concatenate(
                [np.ones((*factor.shape[:2], 1)), own[:, None, :] * mean / factor], axis=2
            )
            scaled = part * weight[:, :, None]
            slope += scaled.sum(0)
            # The second derivative in one u twice is the first.
            curvature += (scaled * (1.0 + part.sum(2, keepdims=True) - part)).sum(0)
            z = np.concatenate([np.ones((len(own), 1)), own], axis=1)
            linear += (cells * count[:, None]).T @ z
            bound -= float(count @ log_totals(log_p, batch.levels, answered).sum(1))
        return TextStats(
            n_rows=float(batch.count.sum()),
            on=batch.count @ nu,
            likely=batch.count @ (nu > 0.5),
            linear=linear,
            slope=slope,
            curvature=curvature,
            bound=bound,
        )

    def global_step(self, q: TextGlobal, stats: TextStats) -> TextGlobal:
        """Move the weights by ``q.size`` of a step (eqs 44-51), and set the sticks (eqs 22, 25)."""
        precision = 0.5 / q.variance
        gradient = stats.linear - stats.slope - precision * q.phi
        phi = gradient / (stats.curvature + precision)
        log_variance = -np.log(stats.slope + precision) - q.log_variance
        size = np.where(self.free(q.levels), q.size, 0.0)[:, None]
        tau, _ = fit_sticks(stats.on, stats.n_rows, q.alpha, q.tau, learn_alpha=False)
        return replace(
            q,
            phi=q.phi + size * np.clip(phi, -LARGEST_STEP, LARGEST_STEP),
            log_variance=q.log_variance + size * np.clip(log_variance, -LARGEST_STEP, LARGEST_STEP),
            tau=tau,
            share=stats.likely / stats.n_rows,
            n_rows=stats.n_rows,
        )

    def elbo(self, q: TextGlobal, stats: TextStats) -> float:
        """Return the bound (eqs 17, 20, 21, 30-34, 41 and 43, with eq 42's sign corrected)."""
        prior = 2.0 * q.variance
        square = q.phi**2 + np.exp(q.log_variance)
        kl = 0.5 * (square / prior - 1.0 - q.log_variance + math.log(prior))
        sticks = stick_bound(stats.on, stats.n_rows, q.alpha, q.tau, learn_alpha=False)
        linear = float((stats.linear * np.where(self.free(q.levels)[:, None], q.phi, 0.0)).sum())
        return stats.bound + linear + sticks - float(kl[self.free(q.levels)].sum())

    def algorithm(self, q: TextGlobal) -> Algorithm:
        """Climb to where the trace has converged."""
        return self.climb(q)

    def climb(self, q: TextGlobal, tol: float | None = None, sweeps: int = 0) -> Algorithm:
        """Take steps, each halved until the bound does not fall; iteration numbers may skip.

        With ``tol`` it ends where a step raises the bound by less than this share of it, or
        where ``sweeps`` are over; without, it does not end.
        """
        stats, elbo, done = None, -math.inf, 1
        while True:
            q, stats, elbo, done = yield Save((q, stats, elbo, done))
            if stats is None:
                q, stats, elbo = yield from evaluate(self, q)
            yield Show(q, elbo, by_trace=tol is None)
            if tol is not None and done >= sweeps:
                return q
            before, size = elbo, min(1.0, 2.0 * q.size)
            for halving in range(HALVINGS + 1):
                tried = replace(q, size=size if halving < HALVINGS else 0.0)
                moved = self.global_step(tried, stats)
                found = yield from evaluate(self, moved, again=halving > 0)
                done += 1
                if math.isfinite(found[2]) and found[2] >= before:
                    break
                size *= 0.5
            q, stats, elbo = found
            q = replace(q, size=max(size, 2.0**-HALVINGS))
            if tol is not None and (elbo - before <= tol * abs(elbo)):
                return q


@dataclass(frozen=True)
class MultinomialIBP:
    """Runs `TextIBP` until its bound converges, then sets Polya-Gamma's weights at its features.

    Parameters
    ----------
    text, polya
        The models.
    tol
        The bound has converged when a sweep raises it by less than this share of it.
    sweeps
        Most sweeps of the text's bound.
    held
        Sweeps of the weights at the end.
    """

    text: TextIBP
    polya: PolyaGammaIBP
    tol: float = 1e-6
    sweeps: int = 1000
    held: int = 8

    def observe(self, batch: FeatureBatch) -> LevelCounts:
        """Count categories."""
        return self.text.observe(batch)

    def init(self, observed: LevelCounts, rng: np.random.Generator) -> TextGlobal:
        """Start as the text does."""
        return self.text.init(observed, rng)

    def local_step(self, q: Any, batch: FeatureBatch, local: Any) -> TextLocal | FeatureLocal:
        """Set the features, or hold them."""
        if not isinstance(q, HeldGlobal):
            return self.text.local_step(q, batch, local)
        if local is None:
            return self.polya.local_step(q.inner, batch, None)
        return FeatureLocal(local.nu)

    def suff_stats(self, q: Any, batch: FeatureBatch, local: Any) -> Any:
        """Collect the statistics of the present phase."""
        if isinstance(q, HeldGlobal):
            return self.polya.suff_stats(q.inner, batch, local)
        return self.text.suff_stats(q, batch, local)

    def global_step(self, q: Any, stats: Any) -> Any:
        """Move the parameters of the present phase."""
        if isinstance(q, HeldGlobal):
            return HeldGlobal(self.polya.global_step(q.inner, stats), q.left - 1)
        return self.text.global_step(q, stats)

    def elbo(self, q: Any, stats: Any) -> float:
        """Return the bound of the present phase."""
        if isinstance(q, HeldGlobal):
            return self.polya.elbo(q.inner, stats)
        return self.text.elbo(q, stats)

    def algorithm(self, q: TextGlobal) -> Algorithm:
        """Climb the text's bound, then fit the weights; the bounds do not compare."""
        q = yield Phase(self.text.climb(q, self.tol, self.sweeps))
        return (yield Phase(draw(self, self._begin(q), lambda held: held.left <= 0)))

    def _begin(self, q: TextGlobal) -> HeldGlobal:
        """Start the weights at nothing: the held features set them."""
        size, units = len(q.tau) + 1, int((q.levels - 1).sum())
        inner = FeatureGlobal(
            mean=np.zeros((units, size)),
            covariance=np.broadcast_to(0.01 * np.eye(size), (units, size, size)).copy(),
            tau=q.tau,
            alpha=self.polya.alpha,
            variance=np.full(size - 1, self.polya.weight_variance),
            share=q.share,
            n_rows=q.n_rows,
            sweep=0,
        )
        return HeldGlobal(inner, self.held)


def _directions(observed: LevelCounts, free: IntArray, k: int) -> FloatArray:
    """Return up to ``k`` principal directions of the free categories, as first weights; [F, k].

    The largest weight of each is `START`: counts are whole numbers, so no cut changes a bit.
    """
    if not observed.pairs.size:
        return np.zeros((len(free), 0))
    share = observed.counts / observed.n_rows
    covariance = unpack(observed.pairs) / observed.n_rows - np.outer(share, share)
    values, vectors = np.linalg.eigh(covariance[np.ix_(free, free)])
    vectors = vectors[:, ::-1][:, : min(k, int((values > 1e-9).sum()))]
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.asarray(START * vectors / largest)


def _blocks(n: int) -> Iterator[slice]:
    return (slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK))
