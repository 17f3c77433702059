"""Scores of words that have not seen the labels of their own tenth of the documents.

At the mode of the words' log posterior with Hessian -H, leaving fold f out moves it, by one
Newton step, to

    w_(-f) = w + (H - H_f)^-1 (g - g_f),

with g (zero at the mode) and H over all documents and the prior, g_f and H_f over the fold
(Miller 1974, Biometrika 61, 1). A search ends near the mode: what is left of g is in the step. The
features that compare a word with the document's known ones are left out: they hold its labels.

So it shows how well known keyphrases are found where a document's list is hidden: its candidates
are ranked by coefficients without its tenth; the rival ranks the same candidates by tf-idf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.keywords.corpus.likelihood import likelihood, own_predictors
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.states import CorpusGlobal, CorpusStats
from vbmodels.keywords.corpus.steps import inverse
from vbmodels.keywords.features import COLUMNS_OF_OWN_LABELS, OF_OWN_LABELS
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


BEST = 10
"""Places of a document's ranking in which a known keyphrase counts as found."""
_OWN_LABELS = {*OF_OWN_LABELS, "inside_known", "holds_known", "shares_with_known"}


@dataclass(frozen=True)
class LabelledDocuments(State, kind="keywords.LabelledDocuments"):
    """Labelled documents with all of their candidates.

    Attributes
    ----------
    units
        The candidates, with their features as they are, as the units of a regression.
    place
        [D] the documents' places in their partition.
    """

    units: KeywordBatch
    place: IntArray

    @classmethod
    def of(
        cls, units: KeywordBatch, most: int, most_rows: int, further: FloatArray | None = None
    ) -> LabelledDocuments:
        """Take some of the documents with a known candidate, spread over the partition.

        ``further`` [M, P']: more columns of the features.
        """
        labelled = np.flatnonzero(units.n_observed)
        if len(labelled) > most:
            labelled = labelled[np.linspace(0, len(labelled) - 1, most).astype(int)]
        labelled = labelled[np.cumsum(units.sizes[labelled]) <= most_rows]
        chosen = np.isin(np.arange(units.n_documents), labelled)
        rows = np.flatnonzero(chosen[units.document_of_word])
        x = units.x[rows] if units.coded is None else units.coded.dense(rows)
        if further is not None:
            x = np.hstack([x, further[rows]])
        kept = units.without_graphs().of_documents(chosen)
        return cls(replace(kept, x=np.asfortranarray(x), coded=None), labelled)

    @classmethod
    def joined(cls, parts: Sequence[LabelledDocuments]) -> LabelledDocuments:
        """Put documents of several partitions together."""
        units = [part.units for part in parts]
        offsets = np.append(0, np.cumsum(np.concatenate([one.sizes for one in units])))
        together = replace(
            units[0],
            x=np.concatenate([one.x for one in units]),
            y=np.concatenate([one.y for one in units]),
            offsets=offsets,
            fold=np.concatenate([one.fold for one in units]),
            complete=np.concatenate([one.complete for one in units]),
            edge_offsets=np.zeros(len(offsets), np.int64),
            unlabelled=np.concatenate([one.unseen for one in units]),
        )
        return cls(together, np.concatenate([part.place for part in parts]))


@dataclass(frozen=True)
class Found:
    """Known candidates of each document [D]: all, and those among the `BEST` by both rankings."""

    known: IntArray
    by_model: IntArray
    by_tf_idf: IntArray


def known_among_best(
    model: CorpusProbit, q: CorpusGlobal, documents: LabelledDocuments, names: Sequence[str]
) -> Found:
    """Count the known candidates that rank among the `BEST` of their document.

    Parameters
    ----------
    model, q
        The candidates' regression, fitted to these documents among others.
    documents
        The documents.
    names
        Of the features, in order.
    """
    units, own = documents.units, [name in _OWN_LABELS for name in names[: len(q.scale)]]
    coefficients = _without_each_fold(model, q, units)
    scale = np.where(own, np.inf, q.scale)
    eta = own_predictors(units, q.location, scale, coefficients, units.fold[units.document_of_word])
    first = units.x[:, names.index("first_position")]
    rankings = (eta, units.x[:, names.index("log_tf_idf")])
    starts, document = units.offsets[:-1], units.document_of_word
    known, found = np.add.reduceat(units.y.astype(np.int64), starts), []
    for score in rankings:
        order = np.lexsort((first, -score, document))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - units.offsets[document]
        found.append(np.add.reduceat((units.y & (place < BEST)).astype(np.int64), starts))
    return Found(known, *found)


def _without_each_fold(model: CorpusProbit, q: CorpusGlobal, units: KeywordBatch) -> FloatArray:
    """Return coefficients [N_FOLDS, P] one Newton step from the mode, without each fold's units."""
    variance = model.prior(q)[1]
    sums, free = fold_sums(model, q, units), np.flatnonzero(variance > 0.0)
    square, found = np.ix_(free, free), np.repeat(q.theta[:1], len(sums.gradient), axis=0)
    for own, slope, bend in zip(found, sums.gradient, sums.information, strict=True):
        rest = inverse(q.information[0][square] - bend[square], variance[free])
        own[free] -= rest @ slope[free]
    return np.ascontiguousarray(found[:, :-2])
