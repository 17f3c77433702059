"""Bugs planted in an outsider's model, each with the tests that must see it.

This file is copied out of the checkout and run with the installed example, as its author's own
tests would be: eleven kinds of bugs in the model itself, and seven in what is around it (data at
their ends, compiled loops, scores, probabilities, starts).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import gammaln
from vbflows_lda.model import Global, Local, Sums, Topics
from vbflows_lda.tests.row import CASE, row, shares

from vbmodels.testing import ModelContract


class MissingGlobalDivergence(Topics):
    """The bound forgets KL(q(beta) || p(beta))."""

    def elbo(self, q, stats):
        return stats.bound


class MisscaledPrior(Topics):
    """The global step adds the prior twice."""

    def global_step(self, q, stats):
        return Global(super().global_step(q, stats).lam + self.eta)


class UnnormalisedLocal(Topics):
    """The divergence of q(theta) forgets the normalising constant of q, not of p."""

    def suff_stats(self, q, batch, local):
        gamma = local.gamma
        norm = gammaln(gamma.sum(1)) - gammaln(gamma).sum(1)
        return more(super().suff_stats(q, batch, local), float(norm.sum()))


class UnnormalisedConstant(Topics):
    """A constant is left out for each document, so the bound still rises."""

    def suff_stats(self, q, batch, local):
        return more(super().suff_stats(q, batch, local), 0.5 * len(local.gamma))


class StaleLocal(Topics):
    """The first document of a partition keeps its warm state."""

    def local_step(self, q, batch, local):
        gamma = super().local_step(q, batch, local).gamma
        if local is not None:
            gamma[:1] = local.gamma[:1]
        return Local(gamma)


class FrozenLocal(Topics):
    """A warm local state is returned as it is."""

    def local_step(self, q, batch, local):
        return super().local_step(q, batch, local) if local is None else local


class PriorInEveryPartition(Topics):
    """The prior's pseudo-counts are added by every partition, not once."""

    def suff_stats(self, q, batch, local):
        found = super().suff_stats(q, batch, local)
        return Sums(found.counts + self.eta, found.bound)


class WrongSignEntropy(Topics):
    """The divergence of q(theta) is added."""

    def suff_stats(self, q, batch, local):
        gamma, a, size = local.gamma, self.alpha, local.gamma.shape[1]
        kl = gammaln(gamma.sum(1)) - gammaln(gamma).sum(1) - gammaln(size * a) + size * gammaln(a)
        mean_log = np.log(gamma / gamma.sum(1)[:, None])  # near enough to fall
        kl = kl + ((gamma - a) * mean_log).sum(1)
        return more(super().suff_stats(q, batch, local), 2.0 * float(kl.sum()))


class SharesForWeights(Topics):
    """The global step sees counts by the mean of theta, not by exp E log theta."""

    def suff_stats(self, q, batch, local):
        share = local.gamma / local.gamma.sum(1)[:, None]
        document = np.repeat(np.arange(len(share)), np.diff(batch.offsets))
        joint = share[document] * q.weights[batch.word]
        counts = np.zeros(q.weights.shape)
        joint *= (batch.count / joint.sum(1))[:, None]
        np.add.at(counts, batch.word, joint)
        return Sums(counts, super().suff_stats(q, batch, local).bound)


class WrongShape(Topics):
    """q(theta) counts every word half."""

    def local_step(self, q, batch, local):
        return super().local_step(q, replace(batch, count=0.5 * batch.count), local)


class HiddenState(Topics):
    """The model keeps the local state on itself: nothing that is saved holds it."""

    def local_step(self, q, batch, local):
        kept = vars(self).setdefault("_kept", {})
        known = kept.get(batch.word.tobytes())
        own = replace(Topics(**{k: v for k, v in vars(self).items() if k != "_kept"}), inner=2)
        kept[batch.word.tobytes()] = new = own.local_step(q, batch, known)
        return new


class MeanOfDocuments(Topics):
    """What a partition reports is divided by its own number of documents, which may be 0."""

    def suff_stats(self, q, batch, local):
        found, documents = super().suff_stats(q, batch, local), np.float64(len(local.gamma))
        with np.errstate(invalid="ignore", divide="ignore"):
            return Sums(found.counts / documents * documents, found.bound)


class CountsPartitions(Topics):
    """Every partition reports a word that it does not have."""

    def suff_stats(self, q, batch, local):
        found = super().suff_stats(q, batch, local)
        counts = found.counts.copy()
        counts[0] += 1e-3
        return Sums(counts, found.bound)


class LogOfNothing(Topics):
    """A logarithm of the words of each document, which may be none."""

    def suff_stats(self, q, batch, local):
        with np.errstate(divide="ignore", invalid="ignore"):
            words = np.log(np.float64(np.diff(batch.offsets)))
        return more(super().suff_stats(q, batch, local), float((0.0 * words).sum()))


class OneDocumentLess(Topics):
    """The compiled loop leaves the last document of a partition as it found it."""

    def local_step(self, q, batch, local):
        gamma = super().local_step(q, batch, local).gamma
        if self.compiled:
            gamma[-1:] = self.alpha + 1.0
        return Local(gamma)


class TooSure(Topics):
    """Every topic is said to be about its frequent words, more than it is."""

    def global_step(self, q, stats):
        return Global(super().global_step(q, stats).lam ** 1.4)


class AlikeAtTheStart(Topics):
    """All topics start alike, so nothing ever separates them."""

    def init(self, observed, rng):
        lam = super().init(observed, rng).lam
        return Global(np.repeat(lam[:1], len(lam), axis=0))


MODELS = {
    MissingGlobalDivergence: {"5_bound", "6_bound"},
    MisscaledPrior: {"4_global"},
    UnnormalisedLocal: {"4_local", "5_bound"},
    UnnormalisedConstant: {"5_bound"},
    StaleLocal: {"4_local"},
    FrozenLocal: {"4_local", "10_a_score"},
    PriorInEveryPartition: {"2_partitions", "4_global"},
    WrongSignEntropy: {"4_local", "5_bound"},
    SharesForWeights: {"4_global"},
    WrongShape: {"4_local"},
    HiddenState: {"2_executors", "3_resume"},
    MeanOfDocuments: {"9_partitions"},
    CountsPartitions: {"2_partitions", "9_partitions"},
    LogOfNothing: {"9_extremes"},
    OneDocumentLess: {"9_compiled"},
    TooSure: {"8_a_few"},
    AlikeAtTheStart: {"7_recovers"},
}
"""The beginnings of the names of tests that must fail, by the bug that they see."""

for kind in MODELS:
    globals()[f"Test{kind.__name__}"] = type(f"Test{kind.__name__}", (ModelContract,), {
        "case": row(kind)})  # fmt: skip


class TestScoreByAnotherRule(ModelContract):
    """New documents are scored with another prior than the fit has."""

    case = replace(
        CASE,
        agreement=replace(
            CASE.agreement,
            scored=lambda model, q, batch: shares(
                model, q, batch, replace(model, alpha=2.0 * model.alpha).local_step(q, batch, None)
            ),
        ),
    )


CAUGHT = {f"Test{kind.__name__}": tests for kind, tests in MODELS.items()} | {
    "TestScoreByAnotherRule": {"10_a_score"}
}


def more(found: Sums, bound: float) -> Sums:
    """Return statistics with a bound that is larger."""
    return Sums(found.counts, found.bound + bound)
