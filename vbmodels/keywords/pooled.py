"""Pooled VBSS: one probit regression of keyword importance for a whole corpus.

    z_di = x_di'w + a_d + e_di,  e ~ N(0, 1);   y* = 1(z > 0);
    P(y = 1 | y* = 1) = 1 - alpha_d,  P(y = 1 | y* = 0) = 0;
    w ~ N(0, S0),  S0 = diag(100, 1, ..., 1);   a_d ~ N(0, 1/tau), an option, else a_d = 0;
    alpha_d ~ Beta(s abar_d, s (1 - abar_d)),  abar_d = 1 - k_d / (pi n_d).

q = q(w, a) prod_d q(alpha_d) prod_di q(z_di). Some of the features x are made from the
labels y (without leakage: see `vbmodels.keywords.features`), so p(y | x(y), ...) is a
pseudo-likelihood, and the "ELBO" here bounds that, not the evidence of y.

The share pi of the words that are keywords is not read off labels of which many are missing (it
can be, roughly: `vbmodels.keywords.corpus`). It is given (``keyword_rate``), or read off
documents whose keywords are all known; without either q(alpha_d) starts from a uniform prior and
the probabilities rank words but are not calibrated (`Reliability`).

Letters: D documents, W words, P features; n_d words and k_d listed keywords of document d;
X the features standardised over the corpus, column 0 constant 1; s_d = X_d'1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtri

from vbmodels.core.expfam import Beta
from vbmodels.core.moments import Moments
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.labels import (
    LatentImportance,
    latent_importance,
    log_tails,
    per_document,
    settle_detection,
)
from vbmodels.keywords.pooled_information import (
    Curvature,
    covariance,
    curvature_of,
    information,
    own_bend,
)
from vbmodels.keywords.pooled_intercept import Labelled, integrated
from vbmodels.keywords.pooled_restart import Slope, change_of_scale, newton_step

FEWEST_DOCUMENTS = 100
FEWEST_COMPLETE = 20
ALPHA_RANGE = (0.05, 0.98)
MOST_ROUNDS = 100
SETTLED = 1e-11
LONGEST = 1.0


@dataclass(frozen=True)
class PooledObserved(Stats):
    """Needed once: moments of the features, and counts for the keyword rate.

    ``documents`` are the moments of the documents' mean features, each with weight
    n_d^2 / (n_d + tau); of no rows without a document's own intercept.
    """

    words: Moments
    documents: Moments
    n_documents: int
    n_complete: int
    complete_words: int
    complete_keywords: int


@dataclass(frozen=True)
class PooledGlobal(State):
    """q(w) = N(mean, cov) in standardised units, with what a new document needs.

    Parameters
    ----------
    mean, cov
        [P], [P, P] of the coefficients w.
    gram
        [P, P] K = X'X, or with a document's own intercept
        K = X'X - sum_d s_d s_d' / (n_d + tau). Lambda = S0^-1 + K is the precision.
    information
        [P, P] J, the curvature of the bound with all else following w; its inverse is the
        covariance to report (`posterior_covariance`), wider than ``cov``.
    location, scale
        [P] standardisation: X = (x - location) / scale; column 0 is left as it is. The scale
        of a constant column is infinite, which drops it.
    rate
        pi; NaN when it is unknown.
    n_documents, n_complete
        Documents fitted, and those of them whose keywords are all known.
    """

    mean: FloatArray
    cov: FloatArray
    gram: FloatArray
    information: FloatArray
    location: FloatArray
    scale: FloatArray
    rate: float
    n_documents: int
    n_complete: int


@dataclass(frozen=True)
class PooledLocal(State):
    """q(z), q(alpha_d) and q(a_d | w) of one partition.

    Parameters
    ----------
    coefficients
        [P] the mean of q(w) that q(z) was made with.
    log_c
        [D] log c_d that q(z) was made with; -inf where the keywords are all known.
    missed
        [D] first parameter of q(alpha_d) = Beta(missed, s (1 - abar_d) + k_d).
    intercept
        [D] mean of a_d that q(z) was made with; zeros without the option.
    """

    coefficients: FloatArray
    log_c: FloatArray
    missed: FloatArray
    intercept: FloatArray


@dataclass(frozen=True)
class PooledStats(Stats):
    """One sweep's sums.

    Parameters
    ----------
    cross
        [P] X'E[z] less the intercepts' part.
    curvature
        [P, P] the data's part of the observed information; see `pooled_information`.
    bound
        The local bound.
    """

    cross: FloatArray
    curvature: FloatArray
    bound: float


@dataclass(frozen=True)
class Reliability:
    """Whether a false discovery rate may be promised, and why not."""

    reliable: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class PooledVBSS:
    """Priors and options of pooled VBSS; see the module for the model.

    Parameters
    ----------
    keyword_rate
        pi, share of the candidate words that are keywords, between 0 and 1; None to
        estimate it from complete documents.
    concentration
        s of the prior of alpha_d, where the rate is known.
    constant_sd, coefficient_sd
        Prior sd of the constant and of every other coefficient.
    document_precision
        tau of the documents' own intercepts; None for no such intercept.
    """

    keyword_rate: float | None = None
    concentration: float = 20.0
    constant_sd: float = 10.0
    coefficient_sd: float = 1.0
    document_precision: float | None = None

    def __post_init__(self) -> None:
        if self.keyword_rate is not None and not 0.0 < self.keyword_rate < 1.0:
            raise ValueError(
                f"keyword_rate must lie between 0 and 1 (a share of words), got {self.keyword_rate}"
            )
        for name in ("concentration", "constant_sd", "coefficient_sd", "document_precision"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value}")

    def observe(self, batch: KeywordBatch) -> PooledObserved:
        """Return the moments of the features and the counts behind the keyword rate."""
        n = batch.sizes.astype(float)
        between = Moments.of(batch.x[:0])
        if self.document_precision is not None:
            means = _sums_per_document(batch) / n[:, None]
            between = Moments.of(means, n**2 / (n + self.document_precision))
        return PooledObserved(
            words=Moments.of(batch.x),
            documents=between,
            n_documents=batch.n_documents,
            n_complete=int(batch.complete.sum()),
            complete_words=int(batch.sizes[batch.complete].sum()),
            complete_keywords=int(batch.n_observed[batch.complete].sum()),
        )

    def rate(self, observed: PooledObserved) -> float:
        """Return pi: as given, else the share of keywords in complete documents, else NaN."""
        if self.keyword_rate is not None:
            return self.keyword_rate
        if observed.complete_words == 0:
            return float("nan")
        # One half of a keyword more and less keeps the share inside (0, 1).
        return (observed.complete_keywords + 0.5) / (observed.complete_words + 1.0)

    def init(self, observed: PooledObserved, rng: np.random.Generator) -> PooledGlobal:
        """Start from a constant at Phi^-1(pi), all other coefficients zero (no draw is made).

        Lambda and its inverse are made here, once: they do not change over the sweeps.
        """
        location, scale = observed.words.mean.copy(), observed.words.sd()
        location[0], scale[0] = 0.0, 1.0
        gram = observed.words.about(location)
        gram = (gram - observed.documents.about(location)) / np.outer(scale, scale)
        gram = 0.5 * (gram + gram.T)
        precision = np.diag(1.0 / self.prior_variance(len(location))) + gram
        factor = cho_factor(precision)
        cov = cho_solve(factor, np.eye(len(location)))
        rate = self.rate(observed)
        mean = np.zeros(len(location))
        mean[0] = ndtri(rate) if np.isfinite(rate) else -1.0
        return PooledGlobal(
            mean=mean,
            cov=0.5 * (cov + cov.T),
            gram=gram,
            information=precision,
            location=location,
            scale=scale,
            rate=rate,
            n_documents=observed.n_documents,
            n_complete=observed.n_complete,
        )

    def restart(
        self, observed: PooledObserved, before: PooledGlobal, rng: np.random.Generator
    ) -> PooledGlobal:
        """Start from the coefficients of an earlier fit, brought to the new data's scale."""
        fresh = self.init(observed, rng)
        if before.mean.shape != fresh.mean.shape:
            return fresh
        return replace(fresh, mean=_change(before, fresh) @ before.mean)

    def partial_stats(
        self, q: PooledGlobal, batch: KeywordBatch, local: PooledLocal | None
    ) -> Slope:
        """Return the partition's part of the profiled bound's gradient and curvature."""
        if local is None:
            local = self.local_step(q, batch, None)
        eta = self._eta(q, batch, local)
        z = latent_importance(eta, batch.y, np.repeat(local.log_c, batch.sizes))
        return Slope(
            standardised_product(q, batch, z.mean - eta),
            self._curvature(q, batch, local, eta, z),
        )

    def catch_up(
        self, q: PooledGlobal, before: PooledGlobal, known: Slope, new: Slope
    ) -> PooledGlobal:
        """Take one Newton step; see `vbmodels.keywords.pooled_restart`."""
        prior = self.prior_variance(len(q.mean))
        return replace(q, mean=newton_step(q.mean, prior, _change(before, q), known, new))

    def prior_variance(self, p: int) -> FloatArray:
        """Return the diagonal [P] of S0."""
        variance = np.full(p, self.coefficient_sd**2)
        variance[0] = self.constant_sd**2
        return variance

    def prior_alpha(self, q: PooledGlobal, batch: KeywordBatch) -> tuple[FloatArray, FloatArray]:
        """Return A_d and B_d [D] of the prior Beta(A_d, B_d) of alpha_d.

        abar_d is kept within [.05, .98]. With an unknown rate the prior is uniform.
        """
        if not np.isfinite(q.rate):
            return np.ones(batch.n_documents), np.ones(batch.n_documents)
        abar = np.clip(1.0 - batch.n_observed / (q.rate * batch.sizes), *ALPHA_RANGE)
        return self.concentration * abar, self.concentration * (1.0 - abar)

    def local_step(
        self, q: PooledGlobal, batch: KeywordBatch, local: PooledLocal | None
    ) -> PooledLocal:
        """Settle q(z), q(alpha_d) and q(a_d | w) at q(w): their joint optimum, to 1e-11.

        Warm or cold, the same optimum is reached; ``local`` only shortens the way.
        """
        prior_a, prior_b = self.prior_alpha(q, batch)
        b = prior_b + batch.n_observed
        log_c = Beta(prior_a, b).mean_log
        intercept = np.zeros(batch.n_documents)
        if local is not None:
            log_c = np.where(batch.complete, log_c, local.log_c)
            intercept = local.intercept
        unlisted = ~batch.y & np.repeat(~batch.complete, batch.sizes)
        base = linear_predictor(q, batch, q.mean)
        missed = prior_a
        for _ in range(MOST_ROUNDS):
            eta = base + np.repeat(intercept, batch.sizes)
            above, below = log_tails(eta)
            log_c, missed = settle_detection(
                above - below, unlisted, batch.offsets, prior_a, b, log_c
            )
            if self.document_precision is None:
                break
            z = latent_importance(eta, batch.y, _of_words(log_c, batch))
            step = self._intercept_step(
                batch, z, self._bend(batch, eta, z, log_c, Beta(missed, b)), eta, intercept
            )
            intercept = intercept + step
            if not np.any(np.abs(step) > SETTLED):
                break
        return PooledLocal(
            coefficients=q.mean,
            log_c=np.where(batch.complete, -np.inf, log_c),
            missed=missed,
            intercept=intercept,
        )

    def _intercept_step(
        self,
        batch: KeywordBatch,
        z: LatentImportance,
        h: Curvature,
        eta: FloatArray,
        intercept: FloatArray,
    ) -> FloatArray:
        """Return the step [D] of a_d: Newton's where the bound is concave, else the plain one.

        The bound's gradient is sum_i (E z_i - eta_i) - tau a_d; with q(z) and q(alpha_d)
        following, its curvature is -(1'H 1 + tau). The plain step divides by n_d + tau.
        """
        tau = self.document_precision or 0.0
        gradient = per_document(z.mean - eta, batch.offsets) - tau * intercept
        curvature = own_bend(h, batch.offsets) + tau
        plain = batch.sizes + tau
        step: FloatArray = gradient / np.where(curvature > 1e-3 * plain, curvature, plain)
        return np.clip(step, -LONGEST, LONGEST)

    def _bend(
        self,
        batch: KeywordBatch,
        eta: FloatArray,
        z: LatentImportance,
        log_c: FloatArray,
        alpha: Beta,
    ) -> Curvature:
        """Return the curvature H of every document at q(z) and q(alpha)."""
        words = _of_words(log_c, batch)
        unlisted = ~batch.y & np.isfinite(words)
        tau = self.document_precision
        return curvature_of(eta, z, unlisted, words, alpha, batch.offsets, tau)

    def latent(self, q: PooledGlobal, batch: KeywordBatch, local: PooledLocal) -> LatentImportance:
        """Return q(z) as ``local`` defines it."""
        eta = self._eta(q, batch, local)
        return latent_importance(eta, batch.y, np.repeat(local.log_c, batch.sizes))

    def _eta(self, q: PooledGlobal, batch: KeywordBatch, local: PooledLocal) -> FloatArray:
        eta = linear_predictor(q, batch, local.coefficients)
        if self.document_precision is None:
            return eta
        return eta + np.repeat(local.intercept, batch.sizes)

    def suff_stats(self, q: PooledGlobal, batch: KeywordBatch, local: PooledLocal) -> PooledStats:
        """Return X'E[z] and the part of the bound that does not depend on the mean of q(w).

        With mq the mean that q(z) was made with, and beta_d = a_d + s_d'm / (n_d + tau), the
        intercept's part that q(a_d | w) keeps while m moves,

            bound = sum { mq^2/2 - mq E z + ln Z + (1-y) r (E ln alpha_d - ln c_d)
                          + y E ln(1 - alpha_d) } - sum_d KL(alpha_d)
                  + sum_d { beta_d sum E z - (n_d + tau) beta_d^2 / 2
                            + ln(tau / (n_d + tau)) / 2 }.
        """
        eta = self._eta(q, batch, local)
        z = latent_importance(eta, batch.y, np.repeat(local.log_c, batch.sizes))
        bound = float(np.sum(eta * (0.5 * eta - z.mean) + z.log_norm))
        bound += self._detection_bound(q, batch, local, z)
        cross = standardised_product(q, batch, z.mean)
        if self.document_precision is not None:
            more, correction = self._intercept_stats(q, batch, local, z)
            bound, cross = bound + more, cross - correction
        return PooledStats(cross, self._curvature(q, batch, local, eta, z), bound)

    def _curvature(
        self,
        q: PooledGlobal,
        batch: KeywordBatch,
        local: PooledLocal,
        eta: FloatArray,
        z: LatentImportance,
    ) -> FloatArray:
        alpha = Beta(local.missed, self.prior_alpha(q, batch)[1] + batch.n_observed)
        h = self._bend(batch, eta, z, local.log_c, alpha)
        return information(batch.x, q.location, q.scale, batch.offsets, h)

    def _detection_bound(
        self, q: PooledGlobal, batch: KeywordBatch, local: PooledLocal, z: LatentImportance
    ) -> float:
        prior_a, prior_b = self.prior_alpha(q, batch)
        alpha = Beta(local.missed, prior_b + batch.n_observed)
        hidden = per_document(np.where(batch.y, 0.0, z.keyword), batch.offsets)
        open_ = ~batch.complete
        each = hidden[open_] * (alpha.mean_log - local.log_c)[open_]
        each += (batch.n_observed * alpha.mean_log1m)[open_]
        each -= alpha.kl(Beta(prior_a, prior_b))[open_]
        return float(each.sum())

    def _intercept_stats(
        self, q: PooledGlobal, batch: KeywordBatch, local: PooledLocal, z: LatentImportance
    ) -> tuple[float, FloatArray]:
        tau = self.document_precision or 0.0
        plain = batch.sizes + tau
        sums = (_sums_per_document(batch) - batch.sizes[:, None] * q.location) / q.scale
        total = per_document(z.mean, batch.offsets)
        beta = local.intercept + sums @ local.coefficients / plain
        bound = beta * (total - 0.5 * plain * beta) + 0.5 * np.log(tau / plain)
        return float(bound.sum()), sums.T @ (total / plain)

    def global_step(self, q: PooledGlobal, stats: PooledStats) -> PooledGlobal:
        """Set the mean of q(w) to Lambda^-1 (X'E[z] - sum_d s_d sum E[z] / (n_d + tau))."""
        prior = np.diag(1.0 / self.prior_variance(len(q.mean)))
        symmetric = 0.5 * (stats.curvature + stats.curvature.T)
        return replace(q, mean=q.cov @ stats.cross, information=prior + symmetric)

    def elbo(self, q: PooledGlobal, stats: PooledStats) -> float:
        """Return the bound on the log pseudo-likelihood, for any q(w) at these statistics.

        local bound + m'X'E[z] - (m'K m + tr(V K)) / 2 - KL(N(m, V) || N(0, S0)).
        """
        m, v = q.mean, q.cov
        variance = self.prior_variance(len(m))
        fit = m @ stats.cross - 0.5 * (m @ q.gram @ m + np.sum(v * q.gram))
        log_det = np.linalg.slogdet(v)[1] - np.log(variance).sum()
        kl = 0.5 * (np.sum((m**2 + np.diag(v)) / variance) - len(m) - log_det)
        return float(stats.bound + fit - kl)

    def posterior_covariance(self, q: PooledGlobal) -> FloatArray:
        """Return the covariance [P, P] of w to report: J^-1, not that of q(w)."""
        return covariance(q.information, self.prior_variance(len(q.mean)))

    def to_vector(self, q: PooledGlobal) -> FloatArray:
        """Return the mean of q(w): its covariance does not change over the sweeps."""
        return q.mean

    def from_vector(self, q: PooledGlobal, vector: FloatArray) -> PooledGlobal:
        """Return ``q`` with another mean of q(w)."""
        return replace(q, mean=np.ascontiguousarray(vector))

    def probabilities(self, q: PooledGlobal, batch: KeywordBatch, local: PooledLocal) -> FloatArray:
        """Return P(keyword) [W] of the fitted documents: 1 where listed.

        r = q(z > 0), or with a document's own intercept its mean over that; w is not
        integrated out, since the fit's labels are in it already.
        """
        return self._keyword(q, batch, local, 1.0)

    def predict(self, q: PooledGlobal, batch: KeywordBatch) -> FloatArray:
        """Return P(keyword | labels) [W] of documents that were not fitted; q(w) is frozen.

        w is integrated out: Phi(eta) becomes Phi(eta / sqrt(1 + x'C x)), C the covariance
        of `posterior_covariance`; so is a_d (`vbmodels.keywords.pooled_intercept`).
        """
        local = self.local_step(q, batch, None)
        variance = predictor_variance(q, batch, self.posterior_covariance(q))
        return self._keyword(q, batch, local, np.sqrt(1.0 + variance))

    def _keyword(
        self,
        q: PooledGlobal,
        batch: KeywordBatch,
        local: PooledLocal,
        spread: FloatArray | float,
    ) -> FloatArray:
        """Return P(keyword) [W] with predictors divided by ``spread`` and a_d integrated out."""
        eta, tau = self._eta(q, batch, local), self.document_precision
        if tau is None:
            words = np.repeat(local.log_c, batch.sizes)
            return latent_importance(eta / spread, batch.y, words).keyword
        prior_a, prior_b = self.prior_alpha(q, batch)
        labelled = Labelled(batch.y, batch.offsets, batch.complete, prior_a, prior_b, local.log_c)
        alpha = Beta(local.missed, prior_b + batch.n_observed)
        z = labelled.latent(eta, local.log_c)
        bend = own_bend(self._bend(batch, eta, z, local.log_c, alpha), batch.offsets)
        width = 1.0 / np.sqrt(np.maximum(bend, 0.0) + tau)
        return integrated(labelled, eta, spread, local.intercept, width, tau)


def _change(before: PooledGlobal, after: PooledGlobal) -> FloatArray:
    return change_of_scale((before.location, before.scale), (after.location, after.scale))


def linear_predictor(q: PooledGlobal, batch: KeywordBatch, w: FloatArray) -> FloatArray:
    """Return X w [W] from the raw features, without a standardised copy of them."""
    slope = w / q.scale
    eta: FloatArray = batch.x @ slope - float(q.location @ slope)
    return eta


def standardised_product(q: PooledGlobal, batch: KeywordBatch, v: FloatArray) -> FloatArray:
    """Return X'v [P] from the raw features."""
    product: FloatArray = (v @ batch.x - q.location * v.sum()) / q.scale
    return product


def _of_words(log_c: FloatArray, batch: KeywordBatch) -> FloatArray:
    """Return log c of each word's document [W], -inf where the keywords are all known."""
    words: FloatArray = np.repeat(np.where(batch.complete, -np.inf, log_c), batch.sizes)
    return words


def predictor_variance(q: PooledGlobal, batch: KeywordBatch, cov: FloatArray) -> FloatArray:
    """Return x'C x [W], the variance of the linear predictor when C is that of w."""
    x = (batch.x - q.location) / q.scale
    variance: FloatArray = np.einsum("ij,jk,ik->i", x, cov, x, optimize=True)
    return variance


def _sums_per_document(batch: KeywordBatch) -> FloatArray:
    if batch.n_documents == 0:
        return np.zeros((0, batch.x.shape[1]))
    sums: FloatArray = np.add.reduceat(batch.x, batch.offsets[:-1], axis=0)
    return sums


def reliability(q: PooledGlobal, rate_given: bool) -> Reliability:
    """Say whether the probabilities of this fit support a false discovery rate."""
    reasons = []
    if not np.isfinite(q.rate):
        reasons.append(
            "the share of the words that are keywords is unknown: set keyword_rate, or mark "
            f"at least {FEWEST_COMPLETE} documents whose keywords are all known as complete"
        )
    elif not rate_given and q.n_complete < FEWEST_COMPLETE:
        reasons.append(
            f"keyword_rate was estimated from {q.n_complete} complete documents; "
            f"expected at least {FEWEST_COMPLETE}"
        )
    if q.n_documents < FEWEST_DOCUMENTS:
        reasons.append(
            f"the regression was fitted to {q.n_documents} documents; "
            f"expected at least {FEWEST_DOCUMENTS}"
        )
    return Reliability(not reasons, tuple(reasons))


def coefficient_table(
    q: Any, names: tuple[str, ...], model: Any = None
) -> tuple[tuple[str, float, float], ...]:
    """Return (name, mean, sd) of every coefficient, for features of unit variance.

    The sd comes from the observed information (`pooled_information`): that of q(w) leaves
    out what the labels hide. ``q`` is of the ``model``, this one or that of `corpus`; without
    it of this one with the default priors.

    Raises
    ------
    ValueError
        If the number of names is not the number of coefficients.
    """
    if len(names) != len(q.mean):
        raise ValueError(f"expected {len(q.mean)} names, one a coefficient, got {len(names)}")
    sd = np.sqrt(np.diag((model or PooledVBSS()).posterior_covariance(q)))
    return tuple((n, float(m), float(s)) for n, m, s in zip(names, q.mean, sd, strict=True))
