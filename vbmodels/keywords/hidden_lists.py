"""How well the known keyphrases of a document are found where its list is hidden.

The candidates of every labelled document are ranked by coefficients that have not seen the labels
of its tenth (`vbmodels.keywords.phrases.jackknife`), without the features that compare with the
document's own known ones; the rival ranks the same candidates by tf-idf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.keywords.corpus.likelihood import own_predictors
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.corpus.steps import inverse
from vbmodels.keywords.features import OF_OWN_LABELS
from vbmodels.keywords.phrases.jackknife import fold_sums
from vbmodels.keywords.units import KeywordBatch

BEST = 10
"""Places of a document's ranking in which a known keyphrase counts as found."""
_OWN_LABELS = {*OF_OWN_LABELS, "inside_known", "holds_known", "shares_with_known"}


@dataclass(frozen=True)
class LabelledDocuments(State, kind="keywords.LabelledDocuments"):
    """Labelled documents with all of their candidates.

    Letters: D documents, M candidates, P features.

    Attributes
    ----------
    x
        [M, P] features.
    y
        [M] whether the candidate is known.
    offsets
        [D + 1] candidates of each document.
    fold, complete
        [D] as in `KeywordBatch`.
    place
        [D] their places in their partition.
    """

    x: FloatArray
    y: BoolArray
    offsets: IntArray
    fold: IntArray
    complete: BoolArray
    place: IntArray

    @classmethod
    def of(cls, units: KeywordBatch, most: int, most_rows: int) -> LabelledDocuments:
        """Take some of the documents with a known candidate, spread over the partition."""
        labelled = np.flatnonzero(units.n_observed)
        if len(labelled) > most:
            labelled = labelled[np.linspace(0, len(labelled) - 1, most).astype(int)]
        labelled = labelled[np.cumsum(units.sizes[labelled]) <= most_rows]
        chosen = np.zeros(units.n_documents, bool)
        chosen[labelled] = True
        rows = np.flatnonzero(chosen[units.document_of_word])
        offsets = np.concatenate([[0], np.cumsum(units.sizes[labelled])]).astype(np.int64)
        fold, complete = units.fold[labelled], units.complete[labelled]
        return cls(units.features[rows], units.y[rows], offsets, fold, complete, labelled)

    @classmethod
    def joined(cls, parts: Sequence[LabelledDocuments]) -> LabelledDocuments:
        """Put documents of several partitions together."""
        sizes = np.concatenate([np.diff(one.offsets) for one in parts])
        return cls(
            x=np.concatenate([one.x for one in parts]),
            y=np.concatenate([one.y for one in parts]),
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            fold=np.concatenate([one.fold for one in parts]),
            complete=np.concatenate([one.complete for one in parts]),
            place=np.concatenate([one.place for one in parts]),
        )

    @property
    def units(self) -> KeywordBatch:
        """The candidates as the units of a regression."""
        none = np.zeros(0, np.int64)
        return KeywordBatch(
            x=self.x,
            y=self.y,
            offsets=self.offsets,
            fold=self.fold,
            complete=self.complete,
            edge_row=none,
            edge_col=none,
            edge_count=np.zeros(0),
            edge_offsets=np.zeros(len(self.offsets), np.int64),
        )


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
