"""The corpus model: one probit regression, and how many keywords a document of its length has.

    y* = 1(eta + e > 0),  e ~ N(0, 1),  eta = x'w,  w ~ N(0, diag(100, 1, ..., 1));
    P(y = 1 | y* = 1, d) = delta_d = k~_d / Kbar_d, at most .97,   P(y = 1 | y* = 0) = 0;
    log Kbar_d = log(pi N / sum_j n_j^kappa) + kappa log n_d    (`keywords.prior.counts`).

In complete documents delta_d = 1, and y is the truth; in documents that nobody has labelled
delta_d = 0, and they say nothing. A word that is not listed is a keyword with probability

    r = Phi (1 - delta_d) / (1 - delta_d Phi).

theta = (w, log pi, kappa) is fitted to the mode of the penalised log-likelihood, a partition
giving its value, gradient and information: by Fisher scoring of w while far away, with pi and
kappa held (far from the mode rate and constant are one direction, along which whole steps fail),
by Newton's steps of all from where they promise less than `NEAR` nats. Steps are halved until the
objective does not fall; one that would move log pi by more than `FARTHEST` moves it so far, and w
along the ridge with it. Some features look at labels, so it is a pseudo-likelihood.

1. Labels (only where the rate is not given as a fact): log pi ~ N(log .15, .8^2) moves with the
   rest. Its mode and standard error are what the labels' shape says of the rate. The search ends
   where a step promises less than `READ` nats, and takes that step: the shape errs by .25.
2. Nodes: all that informs the rate is combined (`vbmodels.keywords.prior.rates`), and (w, kappa) is
   fitted at each of three values of log pi, together in each pass, from the tangent of the ridge
   dw / d log pi = -H_ww^-1 H_w,pi. Probabilities are averaged over them; of a rate that is given
   as a fact the middle one has all the weight.

With a prior learnt from other corpora (`vbmodels.keywords.learnt_prior`) the nodes have

    w_j ~ N(m_j, s_j^2),   w_0 | pi ~ N(Phi^-1(pi) (1 + m'Rm + sum s_j^2)^(1/2), .25^2),

with R the correlations of the features; features that hold labels keep N(0, 1). The labels' shape
is read under the prior above, and not at all where all documents list the same small number
and the user names that number or the kind of list. Without labels the second phase is all, and
its first point is the answer: delta = 0, and r = Phi(eta / (1 + x'Cx)^(1/2)), C = diag(s^2).

The trace shows the objective of the second phase, the weighted mean of the log posterior
densities of (w, kappa) at the nodes; the first is not shown.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Request, Show
from vbmodels.core.linalg import Moments
from vbmodels.core.state import FloatArray, aligned
from vbmodels.keywords.corpus.likelihood import (
    Listing,
    keyword_probability,
    likelihood,
    listing,
    moments,
    predictors,
)
from vbmodels.keywords.corpus.states import CorpusGlobal, CorpusObserved, CorpusStats, average
from vbmodels.keywords.corpus.steps import change_of_scale, inverse, newton_step
from vbmodels.keywords.prior.counts import CountLaw, Lengths
from vbmodels.keywords.prior.rates import (
    GIVEN,
    HIGHEST,
    LABELS_SD,
    OF_COMPLETE,
    OF_CORPORA,
    OF_LABELS,
    VAGUE_RATE,
    VAGUE_SD,
    LearntRegression,
    RateSources,
    labels_source,
)
from vbmodels.keywords.units import KeywordBatch

NEAR = 100.0
"""Rise in nats that Fisher's steps promise where Newton's take over."""
SETTLED, READ = 1e-10, 1e-4
"""Rise in nats that a whole step still promises where a search ends: at the nodes, and where the
labels' shape is read, which takes that step unseen."""
PLENTY = 100
"""Known keywords for each coefficient from which on w is taken for known where its labels are: what
it leaves open moves eta by some half of a percent."""
CLEAR = 0.35
"""sd of log pi by the labels' shape, were zeal even, below which other corpora, the kind of whose
lists may be another, add nothing: of words, with 28 % known, ECE is .047 without them and .064
with. Of phrases, whose shape errs by more, they help: .019 with them and .024 without."""
LEARNT_CONSTANT_SD = 0.25
"""Prior sd of the constant at a rate, where the other coefficients have a learnt prior."""
SAME_NUMBER = 0.6
"""Dispersion of the numbers of listed keywords below which all documents list the same number: one
that is listed by chance makes it larger."""
ROUNDING = 1e-13
MOST_HALVINGS = 40


BLOCK = 4096
"""Words whose features are dense at once."""


@dataclass(frozen=True)
class CorpusProbit:
    """Priors and options of the corpus model; see the module.

    Parameters
    ----------
    keyword_rate
        pi, share of the candidate words that are keywords, between 0 and 1; None where the
        user does not know it.
    keyword_rate_sd
        Standard deviation of log pi around it; 0: it is a fact.
    length_exponent
        kappa; None: from the labels and its prior.
    constant_sd, coefficient_sd
        Prior sd of the constant and of every other coefficient.
    labels_sd
        What the labels' shape errs by in log pi, beyond its standard error.
    likely_rate
        Where the search for log pi begins if nothing informs it; None: at a vague guess.
    learnt
        Prior learnt from other corpora; None: the vague one.
    """

    objective: ClassVar[str] = "log posterior"

    keyword_rate: float | None = None
    keyword_rate_sd: float = 0.0
    length_exponent: float | None = None
    constant_sd: float = 10.0
    coefficient_sd: float = 1.0
    labels_sd: float = LABELS_SD
    likely_rate: float | None = None
    learnt: LearntRegression | None = None

    def __post_init__(self) -> None:
        if self.keyword_rate is not None and not 0.0 < self.keyword_rate < 1.0:
            raise ValueError(
                f"keyword_rate must lie between 0 and 1 (a share of words), got {self.keyword_rate}"
            )
        if not 0.0 <= self.keyword_rate_sd < np.inf:
            raise ValueError(f"keyword_rate_sd must be at least 0, got {self.keyword_rate_sd}")
        for name in ("constant_sd", "coefficient_sd"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    def observe(self, batch: KeywordBatch) -> CorpusObserved:
        """Return the moments of the features and the table of lengths."""
        return CorpusObserved(
            words=moments(batch),
            lengths=Lengths.of(batch),
            n_documents=batch.n_documents,
            n_complete=int(batch.complete.sum()),
        )

    def init(self, observed: CorpusObserved, rng: np.random.Generator) -> CorpusGlobal:
        """Start from a constant, all other coefficients zero (no draw is made)."""
        location, scale = observed.words.mean.copy(), observed.words.sd()
        location[0], scale[0] = 0.0, 1.0
        law = CountLaw.of(observed.lengths, self.length_exponent)
        sources = RateSources.none()
        if self.keyword_rate is not None:
            sources = sources.with_source(
                GIVEN, float(np.log(self.keyword_rate)), self.keyword_rate_sd
            )
        if (complete := law.complete_rate()) is not None:
            sources = sources.with_source(OF_COMPLETE, *complete)
        if self.learnt is not None and law.n_words:
            size = float(np.log(law.n_words / observed.n_documents))
            sources = sources.with_source(OF_CORPORA, *self.learnt.rate.at(size))
        p = len(location)
        start = np.zeros(p + 2)
        q = CorpusGlobal(
            free_rate=True,
            theta=start[None],
            weights=np.ones(1),
            credibility=np.zeros(1),
            expected=True,
            information=np.zeros((1, p + 2, p + 2)),
            location=location,
            scale=scale,
            spread=self._spread(observed.words, scale),
            law=law,
            sources=sources,
            n_documents=observed.n_documents,
            n_complete=observed.n_complete,
        )
        if sources.speaking:
            rate = float(np.exp(min(sources.combined()[0], HIGHEST)))
        else:
            # Above the share that is listed: else delta is cut everywhere and says nothing.
            listed = law.listed / law.open_words if law.open_words else 0.0
            likely = VAGUE_RATE if self.likely_rate is None else self.likely_rate
            least = 2.0 if self.likely_rate is None else 1.2
            rate = min(max(likely, least * listed), 0.8)
        start[0], start[-2], start[-1] = ndtri(rate), np.log(rate), law.exponent
        if sources.exact or (sources.speaking and not self._reads_labels(law, sources)):
            return self._at_nodes(replace(q, theta=start[None]))
        return replace(q, theta=start[None], credibility=np.array([law.credibility(rate)]))

    def restart(
        self, observed: CorpusObserved, before: CorpusGlobal, rng: np.random.Generator
    ) -> CorpusGlobal:
        """Start from the coefficients of an earlier fit, brought to the new data's scale."""
        fresh = self.init(observed, rng)
        if before.theta.shape[1] != fresh.theta.shape[1]:
            return fresh
        change = change_of_scale((before.location, before.scale), (fresh.location, fresh.scale))
        theta = fresh.theta.copy()
        free = self.prior(fresh)[1][:-2] > 0.0
        if fresh.law.has_labels:
            theta[:, :-2][:, free] = (change @ before.mean)[free]
        return replace(fresh, theta=theta)

    def _spread(self, words: Moments, scale: FloatArray) -> float:
        """Return (1 + m'Rm + sum s_j^2)^(1/2) over the learnt features that vary."""
        if self.learnt is None or not words.weight:
            return 1.0
        used = np.isfinite(scale) & np.array(self.learnt.learnt)
        slope = np.where(used, self.learnt.mean, 0.0) / np.where(used, scale, 1.0)
        variance = np.array(self.learnt.sd)[used] ** 2
        along = float(slope @ words.scatter @ slope) / words.weight
        return float(np.sqrt(1.0 + along + variance.sum()))

    def _reads_labels(self, law: CountLaw, sources: RateSources) -> bool:
        """Whether the labels' shape says something of the rate."""
        named = sources.says[GIVEN] or (self.learnt is not None and self.learnt.kind_given)
        return bool(law.listed) and not (named and law.dispersion < SAME_NUMBER)

    def _at_nodes(self, q: CorpusGlobal) -> CorpusGlobal:
        """Return the points of the second phase, on the tangent of the ridge over log pi."""
        log_rate, weights = q.sources.nodes()
        theta = np.repeat(q.theta[:1], len(weights), axis=0)
        p = theta.shape[1]
        known = bool(q.information.any())
        if known:
            _, variance = self.prior(q)
            free = np.flatnonzero(variance > 0.0)
            free = free[free != p - 2]
            bend = q.information[0]
            slope = inverse(bend[np.ix_(free, free)], variance[free]) @ bend[free, p - 2]
            theta[:, free] -= np.outer(log_rate - q.theta[0, -2], slope)
        theta[:, -2] = log_rate
        q = replace(
            q,
            free_rate=False,
            theta=theta,
            weights=weights,
            credibility=np.array([q.law.credibility(rate) for rate in np.exp(log_rate)]),
            expected=not known,
            information=np.zeros((len(weights), p, p)),
        )
        if self.learnt is not None and not known:
            mean, _ = self.prior(q)
            q = replace(q, theta=np.hstack([mean[:, :-2], theta[:, -2:]]))
        return q

    def prior(self, q: CorpusGlobal) -> tuple[FloatArray, FloatArray]:
        """Return mean [K, P + 2] and variance [P + 2] of theta's prior; a variance of 0 holds it.

        A search by Fisher scoring holds log pi and kappa too.
        """
        points, size = q.theta.shape
        mean, variance = np.zeros((points, size)), np.full(size, self.coefficient_sd**2)
        variance[0] = self.constant_sd**2
        mean[:, -2], variance[-2] = np.log(VAGUE_RATE), VAGUE_SD**2 if q.free_rate else 0.0
        mean[:, -1], variance[-1] = q.law.exponent, q.law.exponent_sd**2
        if self.learnt is not None and not q.free_rate:
            learnt = np.array(self.learnt.learnt)
            mean[:, :-2] = np.where(learnt & np.isfinite(q.scale), self.learnt.mean, 0.0)
            mean[:, 0] = ndtri(np.exp(q.theta[:, -2])) * q.spread
            variance[:-2] = np.array(self.learnt.sd) ** 2
            variance[0] = LEARNT_CONSTANT_SD**2
            if not q.law.has_labels:
                variance[:-2][~learnt] = 0.0
        if q.free_rate and q.expected:
            variance[-2:] = 0.0
        return mean, variance

    def local_step(self, q: CorpusGlobal, batch: KeywordBatch, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(
        self, q: CorpusGlobal, batch: KeywordBatch, local: None, extra: FloatArray | None = None
    ) -> CorpusStats:
        """Return log-likelihood, gradient and information of the partition at every point.

        ``extra`` [W, P'] are features that the batch does not have.
        """
        w = np.ascontiguousarray(q.theta[:, :-2])
        return CorpusStats(
            *likelihood(batch, q.location, q.scale, w, self.listings(q, batch), q.expected, extra)
        )

    def listings(self, q: CorpusGlobal, batch: KeywordBatch) -> list[Listing]:
        """Return which share of its keywords each document lists at every point."""
        return [
            listing(q.law, batch, float(theta[-2]), float(theta[-1]), float(rho))
            for theta, rho in zip(q.theta, q.credibility, strict=True)
        ]

    def values(self, q: CorpusGlobal, stats: CorpusStats) -> FloatArray:
        """Return the log posterior density [K] of every point, but for the evidence."""
        mean, variance = self.prior(q)
        free = variance > 0.0
        away, spread = (q.theta - mean)[:, free], variance[free]
        prior = -0.5 * np.sum(away**2 / spread + np.log(2.0 * np.pi * spread), axis=1)
        return np.asarray(stats.value + prior)

    def elbo(self, q: CorpusGlobal, stats: CorpusStats) -> float:
        """Return the objective: the weighted mean of the points' log posterior densities."""
        return float(q.weights @ self.values(q, stats))

    def _steps(self, q: CorpusGlobal, stats: CorpusStats) -> tuple[FloatArray, FloatArray]:
        """Return the whole step [K, P + 2] of every point, and the rise that it promises [K]."""
        mean, variance = self.prior(q)
        free = np.flatnonzero(variance > 0.0)
        steps, promised = np.zeros_like(q.theta), np.zeros(len(q.theta))
        for i, theta in enumerate(q.theta):
            pull = (theta - mean[i])[free] / variance[free]
            gradient = stats.gradient[i][free] - pull
            bend = stats.information[i][np.ix_(free, free)] + np.diag(1.0 / variance[free])
            step = newton_step(bend, gradient, variance[free], free == len(theta) - 2)
            steps[i, free] = step
            promised[i] = 0.5 * gradient @ step
        return steps, promised

    def global_step(self, q: CorpusGlobal, stats: CorpusStats) -> CorpusGlobal:
        """Take a whole step at every point; `climb` guards it."""
        return replace(self._informed(q, stats), theta=q.theta + self._steps(q, stats)[0])

    def _informed(self, q: CorpusGlobal, stats: CorpusStats) -> CorpusGlobal:
        """Return ``q`` with the information at its points."""
        _, variance = self.prior(q)
        prior = np.where(variance > 0.0, 1.0 / np.where(variance > 0.0, variance, 1.0), 0.0)
        bend = 0.5 * (stats.information + stats.information.transpose(0, 2, 1))
        return replace(q, information=bend + np.diag(prior))

    def algorithm(self, q: CorpusGlobal) -> Algorithm:
        """Estimate the rate from the labels' shape where it is free, then fit all at its nodes."""
        if q.free_rate:
            q = yield Phase(self._read_labels(q), "the keyword rate was being read off the labels")
        q, _, _ = yield from self.climb(q)
        return q

    def search_middle(self, q: CorpusGlobal) -> Algorithm:
        """Return the mode at the middle node of the rate alone, with its statistics."""
        if q.free_rate:
            q = yield from self._read_labels(q)
        q = replace(
            q,
            theta=q.theta[:1],
            weights=np.ones(1),
            credibility=q.credibility[:1],
            information=q.information[:1],
        )
        q, stats, _ = yield from self.climb(q, silent=True)
        return q, stats

    def _read_labels(self, q: CorpusGlobal) -> Algorithm:
        """Return the nodes of log pi, after what the labels' shape says of it."""
        q, _, step = yield from self.climb(q, silent=True)
        q = replace(q, theta=q.theta + step)
        _, variance = self.prior(q)
        free = np.flatnonzero(variance > 0.0)
        covariance = inverse(q.information[0][np.ix_(free, free)], variance[free])
        place = int(np.searchsorted(free, q.theta.shape[1] - 2))
        se = float(np.sqrt(covariance[place, place]))
        mean, sd = labels_source(float(q.theta[0, -2]), se, float(q.credibility[0]), self.labels_sd)
        sources = q.sources.with_source(OF_LABELS, mean, sd)
        clear = np.hypot(se, self.labels_sd) < CLEAR
        if self.learnt is not None and not self.learnt.kind_given and clear:
            sources = sources.without(OF_CORPORA)
        return self._at_nodes(replace(q, sources=sources))

    def climb(
        self, q: CorpusGlobal, silent: bool = False
    ) -> Generator[Request, Any, tuple[CorpusGlobal, CorpusStats, FloatArray]]:
        """Search the mode at every point by whole steps, halved where the objective falls.

        Returns the points, their statistics, and the whole step [K, P + 2] that is left.
        """
        settled = READ if q.free_rate else SETTLED
        stats: CorpusStats = yield Evaluate(q)
        steps, promised = self._steps(q, stats)
        q = replace(self._informed(q, stats), expected=q.expected and bool(promised.max() > NEAR))
        share, done = np.ones(len(steps)), promised < settled
        while True:
            if not silent:
                yield Show(q, self.elbo(q, stats), by_trace=False)
            if done.all():
                return q, stats, steps
            trial = replace(q, theta=q.theta + np.where(done, 0.0, share)[:, None] * steps)
            found: CorpusStats = yield Evaluate(trial)
            before, after = self.values(q, stats), self.values(trial, found)
            risen = after >= before - ROUNDING * np.maximum(1.0, np.abs(before))
            risen |= done
            stats = found.where(risen, stats)
            q = replace(q, theta=np.where(risen[:, None], trial.theta, q.theta))
            q = aligned(self._informed(q, stats))
            steps, promised = self._steps(q, stats)
            share = np.where(risen, 1.0, 0.5 * share)
            done |= (promised < settled) | (risen & (after - before < settled))
            done |= share < 0.5**MOST_HALVINGS
            q = replace(q, expected=q.expected and bool(promised.max() > NEAR))

    # Answers.

    def posterior_covariance(self, q: CorpusGlobal) -> FloatArray:
        """Return the covariance [P, P] of w, within the nodes and between them."""
        away = q.theta[:, :-2] - q.mean
        covariance = (q.weights * away.T) @ away
        for weight, own in zip(q.weights, self._covariances(q)[:, :-2, :-2], strict=True):
            covariance += weight * own
        return covariance

    def _covariances(self, q: CorpusGlobal) -> FloatArray:
        """Return the covariance [K, P + 2, P + 2] of all parameters at every node."""
        _, variance = self.prior(q)
        free = np.flatnonzero(variance > 0.0)
        found = np.zeros(q.information.shape)
        for bend, covariance in zip(q.information, found, strict=True):
            square = np.ix_(free, free)
            covariance[square] = inverse(bend[square], variance[free])
        return found

    def exponent_sd(self, q: CorpusGlobal) -> float:
        """Return the posterior sd of kappa; 0 where it is held."""
        if q.law.exponent_sd == 0.0:
            return 0.0
        away = q.theta[:, -1] - q.exponent
        return float(np.sqrt(q.weights @ (self._covariances(q)[:, -1, -1] + away**2)))

    def probabilities(self, q: CorpusGlobal, batch: KeywordBatch, local: None) -> FloatArray:
        """Return P(keyword) [W] of the fitted documents: 1 where listed.

        Where labels are few w is integrated out, as in `predict`. A word's own y = 0 is in the
        posterior already, p(w | y) ~ p(w | other y) (1 - delta Phi), and cancels in the mean of r:

            E r = E' Phi (1 - delta) / (1 - delta E' Phi),   E' over p(w | other y),

        which is close to p(w | y).
        """
        return average(q, batch, self.by_node(q, batch, fitted=True))

    def predict(self, q: CorpusGlobal, batch: KeywordBatch) -> FloatArray:
        """Return P(keyword | labels) [W] of documents that were not fitted.

        w is integrated out: eta becomes eta / sqrt(1 + x'C x), C its covariance at each node.
        """
        return average(q, batch, self.by_node(q, batch, fitted=False))

    def by_node(
        self,
        q: CorpusGlobal,
        batch: KeywordBatch,
        *,
        fitted: bool,
        extra: FloatArray | None = None,
    ) -> FloatArray:
        """Return P(keyword) [K, W] at every node of the rate; `probabilities`, or `predict`.

        ``extra`` [W, P'] are features that the batch does not have.
        """
        eta = predictors(batch, q.location, q.scale, q.theta[:, :-2], extra)
        if not fitted or q.law.listed < PLENTY * len(q.location):
            more = np.zeros((batch.n_words, 0)) if extra is None else extra
            covariances = self._covariances(q)[:, :-2, :-2]
            for rows in np.split(np.arange(batch.n_words), np.arange(BLOCK, batch.n_words, BLOCK)):
                dense = batch.x[rows] if batch.coded is None else batch.coded.dense(rows)
                raw = np.hstack([dense, more[rows]])
                x = (raw[:, : len(q.location)] - q.location) / q.scale
                for own, covariance in zip(eta, covariances, strict=True):
                    spread = np.einsum("ij,jk,ik->i", x, covariance, x, optimize=True)
                    own[rows] /= np.sqrt(1.0 + spread)
        return np.asarray(
            np.array(
                [
                    keyword_probability(own, batch, share.log_delta)
                    for own, share in zip(eta, self.listings(q, batch), strict=True)
                ]
            )
        )


def coefficient_table(
    model: CorpusProbit, q: CorpusGlobal, names: Sequence[str]
) -> tuple[tuple[str, float, float], ...]:
    """Return (name, mean, sd) of every coefficient, for features of unit variance.

    Raises
    ------
    ValueError
        If the number of names is not the number of coefficients.
    """
    if len(names) != len(q.mean):
        raise ValueError(f"expected {len(q.mean)} names, one a coefficient, got {len(names)}")
    sd = np.sqrt(np.diag(model.posterior_covariance(q)))
    return tuple((n, float(m), float(s)) for n, m, s in zip(names, q.mean, sd, strict=True))
