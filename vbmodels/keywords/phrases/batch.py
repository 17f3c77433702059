"""One partition's words and phrases."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.keywords.coded_feature_kernels import PLAIN
from vbmodels.keywords.coded_features import CodedFeatures
from vbmodels.keywords.features import COLUMNS_OF_OWN_LABELS, FEATURE_NAMES, score_columns
from vbmodels.keywords.phrases import phrase_kernels as kernels
from vbmodels.keywords.units import KeywordBatch


@dataclass(frozen=True)
class PhraseBatch(State, kind="keywords/phrases.PhraseBatch"):
    """The words of a set of documents, and the candidate phrases of those that have any.

    Letters: D documents, W words, D' documents with a phrase, M phrases.

    Parameters
    ----------
    words
        The words of all D documents, those of known phrases being observed.
    x
        [M, Q] raw features of the phrases that do not hang on a fit; the first column is 1.
    member
        [M, K] rows of the phrase's words, -1 beyond the last one; where the type has no sign,
        words after its document's first one, and the type's largest number beyond the last.
    y
        [M] whether the phrase is known.
    offsets
        [D' + 1] phrases of each document that has any.
    document
        [D'] its number among the D documents.
    listed
        Known keywords of all D documents, those that are no candidate phrase too.
    coded
        As in `KeywordBatch`; without the columns `FOLLOWING` where ``n_documents`` is there.
    n_documents
        Documents of the corpus, which these columns are made with; 0 where x or ``coded`` has them.
    """

    words: KeywordBatch
    x: FloatArray
    member: NDArray[np.integer]
    y: BoolArray
    offsets: IntArray
    document: IntArray
    listed: int
    coded: CodedFeatures | None = None
    n_documents: int = 0

    @property
    def features(self) -> FloatArray:
        """[M, Q] what x holds, or would if it were not coded; columns lie in one piece."""
        coded = self.whole_coded
        return np.asfortranarray(self.x) if coded is None else coded.dense()

    @property
    def whole_coded(self) -> CodedFeatures | None:
        """``coded`` with all columns: 32 bytes a phrase more, from those of its words."""
        coded, words, size = self.coded, self.words.coded, self.n_documents
        if coded is None or words is None or not size:
            return coded

        def log_frequency(idf: FloatArray) -> FloatArray:
            frequency = np.rint((1.0 + size) / np.exp(idf - 1.0)) - 1.0
            return np.log(np.maximum(frequency, 1.0))

        plain = np.empty((len(coded.plain) + len(FOLLOWING), self.n_phrases))
        plain[: len(coded.plain)] = coded.plain
        kernels.following(
            self.member,
            *self._places,
            words.changed(IDF, log_frequency),
            words.changed(KEYPHRASENESS, np.positive),
            coded.changed(IDF, log_frequency),
            np.log(size),
            plain[len(coded.plain) :],
        )
        return replace(coded, plain=plain)

    @property
    def _places(self) -> tuple[int, IntArray, IntArray]:
        """What ends a row of ``member``, ``offsets``, and what [D'] is to be added to it."""
        if self.member.dtype.kind == "i":
            return -1, self.offsets, np.zeros(len(self.document), np.int64)
        return np.iinfo(self.member.dtype).max, self.offsets, self.words.offsets[self.document]

    def of_documents(self, kept: BoolArray, listed: int) -> PhraseBatch:
        """Return some of the documents [D], which have so many known keywords listed."""
        words = np.repeat(kept, self.words.sizes)
        row = np.append(np.cumsum(words) - 1, -1)
        own = kept[self.document]
        sizes = np.diff(self.offsets)
        phrases = np.repeat(own, sizes)
        return replace(
            self,
            words=self.words.of_documents(kept),
            x=self.x[phrases],
            member=row[self.member[phrases]],
            y=self.y[phrases],
            offsets=np.append(0, np.cumsum(sizes[own])),
            document=(np.cumsum(kept) - 1)[self.document[own]],
            listed=listed,
        )

    def compact(self) -> PhraseBatch:
        """Return the same for the corpus model: without graphs, features in codes.

        Nor has it the features of words by which no phrase is scored (`jackknife`).
        """
        words, member = self.words, self.member
        if member.dtype.kind == "i":
            first = np.repeat(words.offsets[self.document], np.diff(self.offsets))
            kind = np.min_scalar_type(int(words.sizes.max(initial=0)))
            member = np.where(member < 0, np.iinfo(kind).max, member - first[:, None]).astype(kind)
        features, none = self.features, self.x[:, :0].copy()
        whole = replace(
            self, words=words.compact(COLUMNS_OF_OWN_LABELS), x=none, member=member, n_documents=0
        )
        if self.n_documents and self.n_phrases:
            coded = CodedFeatures.of(features, FOLLOWING)
            coded.kind[list(FOLLOWING)] = PLAIN
            coded.place[list(FOLLOWING)] = len(coded.plain) + np.arange(len(FOLLOWING))
            short = replace(whole, coded=coded, n_documents=self.n_documents)
            again = short.whole_coded
            assert again is not None
            if again.plain[len(coded.plain) :].tobytes() == features[:, FOLLOWING].tobytes("F"):
                return short
        return replace(whole, coded=CodedFeatures.of(features))

    @property
    def n_phrases(self) -> int:
        """M."""
        return len(self.y)

    def units(self, x: FloatArray, coded: CodedFeatures | None = None) -> KeywordBatch:
        """Return the phrases as the units of a model of words, with features ``x`` [M, P]."""
        nothing = np.zeros(0, np.int64)
        words = self.words
        return KeywordBatch(
            x=x,
            y=self.y,
            offsets=self.offsets,
            fold=words.fold[self.document],
            complete=words.complete[self.document],
            edge_row=nothing,
            edge_col=nothing,
            edge_count=np.zeros(0),
            edge_offsets=np.zeros(len(self.document) + 1, np.int64),
            unlabelled=words.unseen[self.document],
            coded=coded,
        )

    def bare(self) -> KeywordBatch:
        """Return the phrases without features: their labels and documents."""
        return self.units(np.zeros((self.n_phrases, 0)))


SCORED = (
    "word_score_mean",
    "word_score_least",
    "word_score_most",
    "word_score_last",
    "word_score_rank",
    "single_word_score",
)
"""The columns that `scored` makes, after those of `PhraseBatch.x`."""
IDF, KEYPHRASENESS, FOLLOWING = 2, FEATURE_NAMES.index("keyphraseness"), (12, 13, 24, 25)
"""Columns: idf, of words and of phrases; keyphraseness, of words; those of phrases that follow from
these of the phrase's words."""
RANK = SCORED.index("word_score_rank")


def scored(batch: PhraseBatch, eta: FloatArray, rank: FloatArray | None = None) -> FloatArray:
    """Return what the words' scores say of the phrases [M, 6].

    Mean, least, most and last of the scores eta of its words; the normal quantile of the mean's
    rank in the document; and the score of a phrase of a single word, 0 for longer ones.

    Parameters
    ----------
    batch
        The partition.
    eta
        [W] score of every word.
    rank
        [M] the quantiles, where they are known.
    """
    found = np.empty((len(SCORED), batch.n_phrases)).T
    kernels.scores(batch.member, *batch._places, eta, found)
    if rank is None:
        rank = score_columns(found[:, 0], batch.bare().document_of_word)[1]
    found[:, RANK] = rank
    return found


def ends_and_sum(
    member: NDArray[np.signedinteger], values: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return least, most and sum [M] of the values [W] of the phrases' words [M, 4]."""
    least, most, total = (np.empty(len(member)) for _ in range(3))
    kernels.ends(member, values, least, most, total)
    return least, most, total
