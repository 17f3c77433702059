"""Scores of words that have not seen the labels of their own tenth of the documents.

At the mode of the words' log posterior with Hessian -H, leaving fold f out moves it, by one
Newton step, to

    w_(-f) = w + (H - H_f)^-1 (g - g_f),

with g (zero at the mode) and H over all documents and the prior, g_f and H_f over the fold
(Miller 1974, Biometrika 61, 1). A search ends near the mode: what is left of g is in the step. The
features that compare a word with the document's known ones
are left out, since they hold its labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.state import FloatArray, Stats
from vbmodels.keywords.corpus.likelihood import likelihood, own_predictors
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.states import CorpusGlobal, CorpusStats
from vbmodels.keywords.corpus.steps import inverse
from vbmodels.keywords.features import COLUMNS_OF_OWN_LABELS
from vbmodels.keywords.units import KeywordBatch
from vbmodels.text.candidates import N_FOLDS


@dataclass(frozen=True)
class FoldSums(Stats, kind="keywords/phrases.FoldSums"):
    """Gradient [N_FOLDS, S] and information [N_FOLDS, S, S] of each fold's documents."""

    gradient: FloatArray
    information: FloatArray


def without_labels(q: CorpusGlobal) -> CorpusGlobal:
    """Return ``q`` with the features of `OF_OWN_LABELS` left out: an infinite scale drops them."""
    scale = q.scale.copy()
    scale[[i for i in COLUMNS_OF_OWN_LABELS if i < len(scale)]] = np.inf
    return replace(q, scale=scale)


def fold_sums(model: CorpusProbit, q: CorpusGlobal, batch: KeywordBatch) -> FoldSums:
    """Return a partition's sums at the first point of ``q``, fold by fold."""
    size = q.theta.shape[1]
    gradient, information = np.zeros((N_FOLDS, size)), np.zeros((N_FOLDS, size, size))
    first = replace(
        q, theta=q.theta[:1], weights=q.weights[:1], credibility=q.credibility[:1], expected=False
    )
    shares, w = model.listings(first, batch), np.ascontiguousarray(first.theta[:, :-2])
    for fold in range(N_FOLDS):
        _, slope, bend = likelihood(
            batch, q.location, q.scale, w, shares, False, documents=batch.fold == fold
        )
        gradient[fold], information[fold] = slope[0], bend[0]
    return FoldSums(gradient, information)


def left_out(
    model: CorpusProbit, q: CorpusGlobal, whole: CorpusStats, folds: FoldSums
) -> FloatArray:
    """Return coefficients [N_FOLDS + 1, P]: without each fold, and at last with all of them."""
    mean, variance = model.prior(q)
    free = np.flatnonzero(variance > 0.0)
    spread = variance[free]
    square = np.ix_(free, free)
    pull = (q.theta[0] - mean[0])[free] / spread
    total = whole.gradient[0][free] - pull
    bend = folds.information.sum(axis=0)[square] + np.diag(1.0 / spread)
    found = np.repeat(q.theta[:1], N_FOLDS + 1, axis=0)
    for fold in range(N_FOLDS):
        rest = inverse(bend - folds.information[fold][square], spread)
        found[fold, free] += rest @ (total - folds.gradient[fold][free])
    found[N_FOLDS, free] += inverse(bend, spread) @ total
    return np.ascontiguousarray(found[:, :-2])


def word_scores(q: CorpusGlobal, coefficients: FloatArray, batch: KeywordBatch) -> FloatArray:
    """Return eta [W] of every word by the coefficients that have not seen its fold."""
    return own_predictors(
        batch, q.location, q.scale, coefficients, batch.fold[batch.document_of_word]
    )
