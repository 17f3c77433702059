"""Latent Dirichlet allocation: topics of documents.

    beta_k ~ Dirichlet(eta, ..., eta),  k = 1..K             global: the words of topic k, [V]
    theta_d ~ Dirichlet(alpha, ..., alpha)                   local: the topics of document d, [K]
    z_dn | theta_d ~ Categorical(theta_d)                    local: the topic of its n-th word
    w_dn | z_dn ~ Categorical(beta_{z_dn})

q = prod_k Dirichlet(beta_k; lam_k) prod_d Dirichlet(theta_d; gamma_d) prod_dn Categorical(phi_dn)
(Blei, Ng and Jordan 2003, "Latent Dirichlet allocation", section 5, smoothed as in 5.4). phi is
always its optimum given the others, phi_dwk ~ exp(E log theta_dk + E log beta_kw), so it is
summed out of the bound and never stored: equal words of a document share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import digamma, gammaln

from vbflows_lda import kernels
from vbflows_lda.documents import Documents
from vbflows_lda.start import Sample, clusters
from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class Global(State):
    """The factors of beta: lam [K, V]."""

    lam: FloatArray

    @cached_property
    def mean_log(self) -> FloatArray:
        """E log beta, [K, V]."""
        return _mean_log(self.lam)

    @cached_property
    def weights(self) -> FloatArray:
        """exp E log beta, a row a word: [V, K]; made once for all partitions of a process."""
        return np.ascontiguousarray(np.exp(self.mean_log).T)


@dataclass(frozen=True)
class Local(State):
    """The factors of theta: gamma [D, K]."""

    gamma: FloatArray


@dataclass(frozen=True)
class Sums(Stats):
    """What a partition returns: expected counts [V, K], and the local part of the bound."""

    counts: FloatArray
    bound: float


@dataclass(frozen=True)
class Topics:
    """Priors of the model, and how long a document's inner loop may take.

    Attributes
    ----------
    topics
        K.
    alpha, eta
        Pseudo-counts of a topic in a document, and of a word in a topic.
    inner, inner_tol
        Most updates of a document's gamma in a sweep, and the mean change of gamma, in words, below
        which they end. The bound rises whatever they are, since every sweep goes on from the last.
    compiled
        Whether documents are updated by the compiled loop, or by its NumPy form.
    """

    topics: int = 20
    alpha: float = 0.1
    eta: float = 0.05
    inner: int = 4
    inner_tol: float = 1e-3
    compiled: bool = True

    def observe(self, batch: Documents) -> Sample:
        """Take a sample of the documents."""
        return Sample.of(batch)

    def init(self, observed: Sample, rng: np.random.Generator) -> Global:
        """Start with clusters of the sample, each with the mean of all and some noise in it."""
        counts = clusters(observed.documents, self.topics, rng)
        return Global(counts + counts.mean() + rng.gamma(100.0, 0.01, counts.shape))

    def local_step(self, q: Global, batch: Documents, local: Local | None) -> Local:
        """Repeat gamma_dk = alpha + sum_w n_dw phi_dwk with phi at its optimum; 5.2 (6) and (7).

        Each document climbs from its last state and from all topics alike, and keeps the better
        end: the bound still never falls, and a document is not held by what topics were at first.
        """
        words = np.diff(np.concatenate([[0.0], np.cumsum(batch.count)])[batch.offsets])
        cold = np.repeat((self.alpha + words / self.topics)[:, None], self.topics, axis=1)
        warm = cold[:0] if local is None else local.gamma
        settle = kernels.settle if self.compiled else kernels.settle_plain
        return Local(settle(warm, cold, q.weights, batch.word, batch.count, batch.offsets,
                            self.alpha, self.inner, self.inner_tol))  # fmt: skip

    def suff_stats(self, q: Global, batch: Documents, local: Local) -> Sums:
        """Add n_dw phi_dwk, and E[log p(w, z, theta | beta)] + H[q(z)] + H[q(theta)].

        With phi at its optimum the words give sum_dw n_dw log sum_k exp(E log theta_dk + E log
        beta_kw), and theta gives -KL(q(theta_d) || p(theta_d)).
        """
        share = np.exp(_mean_log(local.gamma))
        collect = kernels.collect if self.compiled else kernels.collect_plain
        counts, words = collect(share, q.weights, batch.word, batch.count, batch.offsets)
        return Sums(counts, words - float(_kl(local.gamma, self.alpha).sum()))

    def global_step(self, q: Global, stats: Sums) -> Global:
        """Return lam_kw = eta + sum_d n_dw phi_dwk; section 5.4 (9)."""
        return Global(self.eta + stats.counts.T)

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the local part minus sum_k KL(q(beta_k) || p(beta_k))."""
        return stats.bound - float(_kl(q.lam, self.eta).sum())

    def to_vector(self, q: Global) -> FloatArray:
        """Return log lam, [K V]."""
        return np.log(q.lam).ravel()

    def from_vector(self, q: Global, vector: FloatArray) -> Global:
        """Return the inverse of `to_vector`."""
        return Global(np.exp(vector).reshape(q.lam.shape))


def _mean_log(a: FloatArray) -> FloatArray:
    """E log x under Dirichlet(a), along the last axis."""
    mean: FloatArray = digamma(a) - digamma(a.sum(axis=-1, keepdims=True))
    return mean


def _kl(a: FloatArray, prior: float) -> FloatArray:
    """KL(Dirichlet(a) || Dirichlet(prior, ..., prior)), along the last axis."""
    size = a.shape[-1]
    norm = gammaln(a.sum(axis=-1)) - gammaln(a).sum(axis=-1)
    norm = norm - gammaln(size * prior) + size * gammaln(prior)
    kl: FloatArray = norm + ((a - prior) * _mean_log(a)).sum(axis=-1)
    return kl
