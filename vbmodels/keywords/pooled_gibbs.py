"""Gibbs sampling for pooled VBSS, with the augmentation of the variational form.

Blocks of a sweep, each exact given the others:

    w   | alpha, a, y    Metropolis moves, z summed out;
    z   | w, alpha, a, y    y* ~ Bernoulli(r), then a normal cut at 0;
    w, a | z             jointly normal: w with a summed out, then a | w;
    alpha_d | z          Beta(A_d + sum (1 - y) 1(z > 0), B_d + k_d).

The moves come first and z is drawn right after them, so summing z out is valid (partially
collapsed Gibbs, van Dyk and Park 2008). Without them w moves by the complete data's sd,
several times less than its own, and chains take hundreds of sweeps to turn around.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from vbmodels.core.chains import Schedule
from vbmodels.core.diagnostics import Diagnosis, diagnose
from vbmodels.core.fit import fit
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.labels import per_document
from vbmodels.keywords.pooled import PooledGlobal, PooledVBSS

MOVES = 4
"""Metropolis moves of a sweep."""

APART = 2.0
"""Chains start this many posterior standard deviations away from the variational mean."""


@dataclass(frozen=True)
class PooledDraws:
    """Draws of C chains, S each.

    Parameters
    ----------
    coefficients
        [C, S, P] w, for standardised features.
    alpha
        [C, S, D], 0 in complete documents; None where documents' draws are not kept.
    intercept
        [C, S, D] a_d; None where they are not kept, or the model has none.
    keyword
        [W] P(keyword | y): the mean of P(z > 0 | w, alpha, a, y) over the draws.
    accepted
        Share of the Metropolis moves that were accepted.
    """

    coefficients: FloatArray
    alpha: FloatArray | None
    intercept: FloatArray | None
    keyword: FloatArray
    accepted: float

    def diagnose(self) -> Diagnosis:
        """Return R-hat, effective sizes and Monte-Carlo errors of the coefficients."""
        return diagnose(self.coefficients)


@dataclass(frozen=True)
class _Setting:
    """What does not change over the draws: data, priors, and the shape of the moves."""

    model: PooledVBSS
    q: PooledGlobal
    x: FloatArray  # [W, P] standardised
    y: BoolArray
    offsets: IntArray
    complete: BoolArray  # [D]
    prior_a: FloatArray
    b: FloatArray
    draw_root: FloatArray  # [P, P] root of Lambda^-1
    move_root: FloatArray  # [P, P] root of the moves' covariance
    spread_root: FloatArray  # [P, P] root of the posterior's covariance, about

    @property
    def sizes(self) -> IntArray:
        sizes: IntArray = np.diff(self.offsets)
        return sizes


@dataclass
class _Chain:
    """One chain's position, moved in place by `_sweep`."""

    w: FloatArray
    alpha: FloatArray
    a: FloatArray
    keyword: FloatArray
    accepted: int = 0


def pooled_gibbs(
    model: PooledVBSS,
    batch: KeywordBatch,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    draws: int = 2000,
    warmup: int = 1000,
    thin: int = 1,
    keep_documents: bool = False,
) -> PooledDraws:
    """Sample the posterior of pooled VBSS on the documents of one batch.

    Parameters
    ----------
    model
        Priors and options.
    batch
        All documents.
    rng
        The generator; every chain gets its own.
    chains, draws, warmup
        C, S, and the sweeps of each chain that are thrown away first.
    thin
        Sweeps for each draw that is kept.
    keep_documents
        Whether the draws of alpha and a are kept, 8 bytes each a draw and document.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if chains < 1:
        raise ValueError(f"expected at least one chain, got {chains}")
    schedule = Schedule(warmup, draws, thin)
    setting = _prepare(model, batch)
    kept, keyword, accepted = zip(
        *(_run(setting, own, schedule, keep_documents) for own in rng.spawn(chains)), strict=True
    )
    draws_of = {name: np.concatenate([one[name] for one in kept]) for name in kept[0]}
    return PooledDraws(
        coefficients=draws_of["w"],
        alpha=draws_of.get("alpha"),
        intercept=draws_of.get("a"),
        keyword=np.mean(keyword, axis=0),
        accepted=float(np.mean(accepted)),
    )


def _prepare(model: PooledVBSS, batch: KeywordBatch) -> _Setting:
    q = fit(model, [batch]).q
    x = (batch.x - q.location) / q.scale
    prior_a, prior_b = model.prior_alpha(q, batch)
    local = model.local_step(q, batch, None)
    z = model.latent(q, batch, local)
    # The observed information of w: the complete one less what z and y* hide.
    eta = x @ q.mean + np.repeat(local.intercept, batch.sizes)
    known = (z.mean - eta) * z.mean
    information = np.diag(1.0 / model.prior_variance(len(q.mean))) + (x.T * known) @ x
    values, axes = np.linalg.eigh(information)
    floor = 1.0 / np.max(np.diag(q.cov) + model.prior_variance(len(q.mean)))
    spread = axes / np.sqrt(np.maximum(values, floor))
    return _Setting(
        model=model,
        q=q,
        x=x,
        y=batch.y,
        offsets=batch.offsets,
        complete=batch.complete,
        prior_a=prior_a,
        b=prior_b + batch.n_observed,
        draw_root=np.linalg.cholesky(q.cov),
        move_root=2.38 / np.sqrt(len(q.mean)) * spread,
        spread_root=spread,
    )


def _run(
    s: _Setting, rng: np.random.Generator, schedule: Schedule, keep_documents: bool
) -> tuple[dict[str, FloatArray], FloatArray, float]:
    """Run one chain; return its draws, P(keyword | y) [W], the share of moves accepted."""
    p, d = len(s.q.mean), len(s.complete)
    chain = _Chain(
        w=s.q.mean + APART * s.spread_root @ rng.standard_normal(p),
        alpha=np.where(s.complete, 0.0, rng.beta(s.prior_a, s.b)),
        a=np.zeros(d),
        keyword=np.zeros(len(s.y)),
    )
    keyword = np.zeros(len(s.y))

    def sweeps() -> Iterator[dict[str, FloatArray]]:
        for sweep in itertools.count():
            _sweep(s, chain, rng)
            if sweep >= schedule.warmup:
                keyword[:] += chain.keyword
            found = {"w": chain.w[None]}
            if keep_documents:
                found["alpha"] = chain.alpha[None]
                if s.model.document_precision is not None:
                    found["a"] = chain.a[None]
            yield found

    kept = schedule.kept(sweeps())
    counted = schedule.sweeps - schedule.warmup
    return kept, keyword / counted, chain.accepted / (MOVES * schedule.sweeps)


def _sweep(s: _Setting, chain: _Chain, rng: np.random.Generator) -> None:
    with np.errstate(divide="ignore"):
        log_alpha = np.repeat(np.log(chain.alpha), s.sizes)
    own = np.repeat(chain.a, s.sizes)
    eta = _move(s, chain, log_alpha, own, rng)
    chain.keyword = _keyword(eta, s.y, log_alpha)
    positive = rng.random(len(eta)) < chain.keyword
    z = _cut_normal(eta, positive, rng)
    _draw_regression(s, chain, z, rng)
    hidden = per_document((positive & ~s.y).astype(np.float64), s.offsets)
    drawn = rng.beta(s.prior_a + hidden, s.b)
    chain.alpha = np.where(s.complete, 0.0, drawn)


def _move(
    s: _Setting, chain: _Chain, log_alpha: FloatArray, own: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Move w by random-walk Metropolis with z summed out; return eta at the result."""
    precision = 1.0 / s.model.prior_variance(len(chain.w))

    def log_density(w: FloatArray, eta: FloatArray) -> float:
        miss = np.logaddexp(log_ndtr(-eta), log_alpha + log_ndtr(eta))
        likelihood = np.where(s.y, log_ndtr(eta), miss).sum()
        return float(likelihood - 0.5 * precision @ w**2)

    eta = s.x @ chain.w + own
    now = log_density(chain.w, eta)
    for _ in range(MOVES):
        w = chain.w + s.move_root @ rng.standard_normal(len(chain.w))
        there = s.x @ w + own
        then = log_density(w, there)
        if np.log1p(-rng.random()) < then - now:
            chain.w, eta, now = w, there, then
            chain.accepted += 1
    return eta


def _keyword(eta: FloatArray, y: BoolArray, log_alpha: FloatArray) -> FloatArray:
    """Return P(z > 0 | eta, alpha, y) [W]."""
    log_odds = log_alpha + log_ndtr(eta) - log_ndtr(-eta)
    r: FloatArray = np.where(y, 1.0, np.exp(-np.logaddexp(0.0, -log_odds)))
    return r


def _cut_normal(eta: FloatArray, positive: BoolArray, rng: np.random.Generator) -> FloatArray:
    """Draw from N(eta, 1) cut to z > 0 where ``positive``, to z <= 0 elsewhere."""
    sign = np.where(positive, 1.0, -1.0)
    log_u = np.log1p(-rng.random(len(eta)))
    z: FloatArray = eta - sign * ndtri_exp(log_u + log_ndtr(sign * eta))
    return z


def _draw_regression(s: _Setting, chain: _Chain, z: FloatArray, rng: np.random.Generator) -> None:
    """Draw w, a | z. Lambda = S0^-1 + K is the precision of w with a summed out."""
    tau = s.model.document_precision
    noise = s.draw_root @ rng.standard_normal(len(chain.w))
    if tau is None:
        chain.w = s.q.cov @ (z @ s.x) + noise
        return
    plain = s.sizes + tau
    sums = np.add.reduceat(s.x, s.offsets[:-1], axis=0)
    total = per_document(z, s.offsets)
    chain.w = s.q.cov @ (z @ s.x - (total / plain) @ sums) + noise
    mean = (total - sums @ chain.w) / plain
    chain.a = mean + rng.standard_normal(len(mean)) / np.sqrt(plain)
