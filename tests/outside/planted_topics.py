"""Bugs planted in an outsider's model, each beside the tests that must see it.

This file is copied out of the checkout and run beside the installed example, as its author's own
tests would be: in local and global steps, and in what is around them (data at their ends, compiled
loops, scores, probabilities, starts). tests/contract/test_bite.py plants others in the toy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from vbflows_lda.model import Global, Local, Sums, Topics
from vbflows_lda.tests.row import CASE, row

from vbmodels.testing import ModelContract


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
    """Every topic is told to be about its frequent words, more than it is."""

    def global_step(self, q, stats):
        return Global(super().global_step(q, stats).lam ** 1.4)


class AlikeAtTheStart(Topics):
    """All topics start alike, so nothing ever tells them apart."""

    def init(self, observed, rng):
        lam = super().init(observed, rng).lam
        return Global(np.repeat(lam[:1], len(lam), axis=0))


MODELS = {
    StaleLocal: {"4_local"},
    FrozenLocal: {"4_local", "10_a_score"},
    SharesForWeights: {"4_global"},
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
            scored=lambda model, q, batch: (
                replace(model, alpha=2.0 * model.alpha).local_step(q, batch, None).gamma
            ),
        ),
    )


CAUGHT = {f"Test{kind.__name__}": tests for kind, tests in MODELS.items()} | {
    "TestScoreByAnotherRule": {"10_a_score"}
}


def more(found: Sums, bound: float) -> Sums:
    """Return statistics with a bound that is larger."""
    return Sums(found.counts, found.bound + bound)
