"""What a model knows of a phrase before any fit: 33 features from text, corpus, labels and user.

Six of them use labels. Keyphraseness counts those of other folds; the three that compare with
the document's known phrases leave the phrase's own label out, by the rule of
`vbmodels.keywords.features.affinity`. They are constant where somebody has looked for the
keywords of some documents only: what they are in the others would be no answer of a regression
that was fitted to these. Six more, from the scores of its words, are made at a fit
(`batch.scored`).
"""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.features import (
    FEATURE_NAMES,
    Elsewhere,
    keyphraseness,
    score_columns,
    side_by_side,
    spread,
)
from vbmodels.keywords.phrases import phrase_kernels as kernels
from vbmodels.keywords.phrases.batch import SCORED, PhraseBatch, ends_and_sum
from vbmodels.keywords.units import KeywordBatch
from vbmodels.text.candidates import DocumentTokens, Spans
from vbmodels.text.words import POS_GROUPS

PHRASE_FEATURES = (
    "intercept",
    "log_tf",
    "idf",
    "log_tf_idf",
    "first_position",
    "spread",
    "two_words",
    "three_words",
    "four_words",
    "log_n_phrases",
    "log_tf_over_rarest_word",
    "log_tf_over_commonest_word",
    "pmi",
    "pmi_log_documents",
    "maximal",
    "maximal_if_several",
    "in_title",
    "last_plural",
    "last_proper",
    "last_gerund",
    "first_adjective",
    "first_participle",
    "capitals",
    "keyphraseness",
    "least_word_keyphraseness",
    "most_word_keyphraseness",
    "log_tf_if_several",
    "inside_known",
    "holds_known",
    "shares_with_known",
    "own_score",
    "own_score_rank",
    "own_score_given",
    *SCORED,
)
"""The columns of a phrase's features, in order; the last ones are made at a fit."""

NEUTRAL_SHARE = float(np.log(0.05 + 0.05))
"""Of the logarithmic shares in documents with fewer than two known phrases."""


def build_phrases(
    tokens: DocumentTokens,
    spans: Spans,
    words: KeywordBatch,
    y: BoolArray,
    score: FloatArray | None,
    listed: int,
    word_documents: IntArray,
    elsewhere: Elsewhere,
    n_documents: int,
    rates: FloatArray,
    own_labels: bool = True,
) -> PhraseBatch:
    """Make the features of a partition's phrases.

    Parameters
    ----------
    tokens, spans, words
        The partition: its words, its candidate phrases, and the words with their features.
    y
        [M] which phrases are known.
    score
        [M] the user's own score, NaN where there is none; None where no phrase has any.
    listed
        Known keywords of all documents.
    word_documents
        [W] documents of the corpus that have the word.
    elsewhere
        What the corpus says of the phrases.
    n_documents
        Documents of the corpus.
    rates
        [N_FOLDS + 1] label rates of the phrases; `vbmodels.keywords.features.label_rates`.
    own_labels
        Whether phrases are compared with the known ones of their own document.
    """
    several = spans.size > 1
    tf = spans.count.astype(np.float64)
    log_tf = np.log(tf)
    frequency = np.maximum(elsewhere.frequency, 1)
    idf = np.log((1.0 + n_documents) / (1.0 + frequency)) + 1.0
    word_tf = np.bincount(tokens.word, minlength=tokens.n_words).astype(np.float64)
    low, high, _ = ends_and_sum(spans.words, word_tf)
    pmi = _pmi(spans, frequency, np.maximum(word_documents, 1), n_documents)
    maximal = np.bincount(spans.phrase, spans.maximal, len(tf)) / tf
    length = np.maximum(tokens.n_tokens, 1)[spans.document]
    common = words.x[:, FEATURE_NAMES.index("keyphraseness")]
    own = np.full(len(tf), np.nan) if score is None else score
    columns = (
        np.ones(len(tf)),
        log_tf,
        idf,
        np.log(tf * idf),
        np.log1p(tokens.position[spans.first]),
        spread(spans.phrase, tokens.position[spans.start], length),
        spans.size == 2,
        spans.size == 3,
        spans.size >= 4,
        np.log(np.diff(spans.offsets)[spans.document]),
        log_tf - np.log(low),
        log_tf - np.log(high),
        pmi,
        pmi * np.log(frequency),
        maximal,
        maximal * several,
        *_forms(tokens, spans, tf),
        keyphraseness(elsewhere.documents, elsewhere.labels, rates[tokens.fold[spans.document]]),
        *ends_and_sum(spans.words, common)[:2],
        log_tf * several,
        *_relations(spans, y if own_labels else np.zeros(len(y), bool)),
        *score_columns(own, spans.document),
    )
    x = side_by_side(columns)
    sizes = np.diff(spans.offsets)
    has = np.flatnonzero(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes[has])]).astype(np.int64)
    return PhraseBatch(
        words, x, spans.words, y, offsets, has.astype(np.int64), listed, n_documents=n_documents
    )


def _pmi(
    spans: Spans, frequency: IntArray, word_documents: IntArray, n_documents: int
) -> FloatArray:
    """log(df N^(n-1) / product of the words' df): pointwise mutual information over documents."""
    alone = ends_and_sum(spans.words, np.log(word_documents))[2]
    pmi: FloatArray = np.log(frequency) + (spans.size - 1) * np.log(max(n_documents, 1)) - alone
    return np.where(spans.size > 1, pmi, 0.0)


def _forms(tokens: DocumentTokens, spans: Spans, tf: FloatArray) -> tuple[FloatArray, ...]:
    """Title, parts of speech of the last and the first word, capitals: shares of occurrences."""
    start = spans.start
    end = start + spans.size[spans.phrase] - 1

    def share(flag: BoolArray) -> FloatArray:
        return np.asarray(np.bincount(spans.phrase, flag, len(tf)) / tf)

    def is_a(place: IntArray, group: str) -> FloatArray:
        return share(tokens.pos[place] == POS_GROUPS.index(group))

    written = tokens.capital | tokens.upper
    before = np.concatenate([[0], np.cumsum(written)])
    capitals = before[end + 1] - before[start] == end + 1 - start
    return (
        (share(tokens.title[start]) > 0).astype(np.float64),
        is_a(end, "plural_noun"),
        is_a(end, "proper_noun"),
        is_a(end, "gerund"),
        is_a(start, "adjective"),
        is_a(start, "participle"),
        share(capitals),
    )


def _relations(spans: Spans, y: BoolArray) -> tuple[FloatArray, ...]:
    """How a phrase stands to k - 1 of the document's k known ones [M] each.

    Share of them that it stands inside of, share that it holds, and the mean share of words
    that it has in common with them (of the words of both), as log(.05 + share). A known phrase
    is compared with the others; any other one with all but one, which its number picks. So both
    see k - 1 phrases drawn alike. The mean over all ways to leave one out, as words have it, is
    nearer to the middle than a single one: a phrase that overlaps with none of k is rarer than
    one that overlaps with none of k - 1, and the labels would show.
    """
    inside, holds = np.zeros(len(y)), np.zeros(len(y))
    shares = np.full(len(y), NEUTRAL_SHARE)
    kernels.relations(spans.words, spans.size, spans.key, spans.offsets, y, inside, holds, shares)
    return inside, holds, shares
