"""What a model of the corpus knows of a word: 33 features from text, graph, corpus and user.

Five of them use labels and are made without leakage: no word's feature depends on the
word's own label. Since x uses y, the models' likelihood is a pseudo-likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv
from scipy.special import ndtri

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.keywords import document_kernels as kernels
from vbmodels.keywords.graph import cooccurrences, system_matrix
from vbmodels.keywords.options import DAMPING, WINDOW
from vbmodels.keywords.units import KeywordBatch
from vbmodels.text.candidates import DocumentTokens
from vbmodels.text.words import POS_GROUPS

FEATURE_NAMES = (
    "intercept",
    "log_tf",
    "idf",
    "log_tf_idf",
    "log_textrank",
    "first_position",
    "spread",
    "log_length",
    "hyphen",
    "log_n_words",
    *(f"share_{group}" for group in POS_GROUPS),
    "in_title",
    "capitalised",
    "all_caps",
    "longest_noun_phrase",
    "share_in_noun_phrases",
    "affinity",
    "reach",
    "observed_neighbours",
    "keyphraseness",
    "left_adjacent",
    "right_adjacent",
    "neighbours_keyphraseness",
    "repeated_bigram",
    "own_score",
    "own_score_rank",
    "own_score_given",
)
"""The columns of x, in order."""

AFFINITY_FLOOR = 0.05
"""g(t) = log(AFFINITY_FLOOR + t)."""

NEUTRAL_AFFINITY = float(np.log(AFFINITY_FLOOR + 1.0))
NEUTRAL_NEIGHBOURS = 0.0
"""Values of the three graph features that use labels in a document with fewer than two
observed words, where they are not defined (a word's own label would be the only one, or
there is none)."""

OF_OWN_LABELS = {
    "affinity": NEUTRAL_AFFINITY,
    "reach": NEUTRAL_AFFINITY,
    "observed_neighbours": NEUTRAL_NEIGHBOURS,
}
"""Features of a word that hold labels of its own document, but its own, and their neutral values.

That is enough where words are known one by one. Where phrases are known, the other words of its
phrase are known with it and are its neighbours, so these features separate known words from hidden
ones.
"""

COLUMNS_OF_OWN_LABELS = [i for i, name in enumerate(FEATURE_NAMES) if name in OF_OWN_LABELS]

MOST_IN_PHRASES = 0.1
"""Share of known keywords with several words up to which words count as known one by one."""

LARGE = 200
"""Words from which on LAPACK is faster than a compiled loop over the documents."""

SMOOTHING = 3.0
"""Documents that a word's label rate is shrunk by."""


def in_phrases(known: int, several: int) -> bool:
    """Return whether words are known as phrases are, several at once.

    Parameters
    ----------
    known
        Known keywords with a candidate word.
    several
        Those of them with several.
    """
    return several > MOST_IN_PHRASES * known


@dataclass(frozen=True)
class Elsewhere(State, kind="keywords.Elsewhere"):
    """What the corpus says of the candidates of a partition.

    Parameters
    ----------
    frequency
        [W] documents of the corpus that have the candidate; 0 where it is in no counts.
    documents, labels
        [W] of the documents of folds other than its document's in which somebody has looked for
        keywords: those that have it, and those in which it is known.
    """

    frequency: IntArray
    documents: IntArray
    labels: IntArray

    @classmethod
    def of(cls, documents: IntArray, labels: IntArray, fold: IntArray) -> Self:
        """Return what counts by fold [W, N_FOLDS] say of candidates of documents of folds [W].

        A fold of -1 is that of a document outside of the counts: no fold is its own.
        """
        rows, inside = np.arange(len(fold)), fold >= 0
        total, own = documents.sum(axis=1), np.where(inside, documents[rows, fold], 0)
        known = labels.sum(axis=1) - np.where(inside, labels[rows, fold], 0)
        return cls(total, total - own, known)


def build_batch(
    tokens: DocumentTokens,
    elsewhere: Elsewhere,
    n_documents: int,
    rates: FloatArray,
    *,
    window: int = WINDOW,
    damping: float = DAMPING,
    own_labels: bool = True,
) -> KeywordBatch:
    """Make the graphs and the features of a partition.

    Parameters
    ----------
    tokens
        The partition's candidate words.
    elsewhere
        [W] counts of the words in the corpus.
    n_documents
        Documents of the whole corpus.
    rates
        [N_FOLDS + 1] label rate rho of all folds but one, as `label_rates` gives it; the
        last entry is the rate of all folds.
    window, damping
        The graph; see `graph`.
    own_labels
        Whether words are compared with the known ones of their own document; if not, these three
        features are neutral. Where phrases are known (`in_phrases`) they separate known words
        from hidden ones.
    """
    graphs = _graphs(tokens, window)
    folds = tokens.fold[tokens.document_of_word]
    tf = np.bincount(tokens.word, minlength=tokens.n_words).astype(np.float64)
    idf = np.log((1.0 + n_documents) / (1.0 + elsewhere.frequency)) + 1.0
    rank, affinities, reach, neighbours = _graph_features(graphs, damping, own_labels)
    phraseness = keyphraseness(elsewhere.documents, elsewhere.labels, rates[folds])
    before, after = _bigrams(tokens)
    columns = (
        np.ones(tokens.n_words),
        np.log(tf),
        idf,
        np.log(tf * idf),
        np.log(rank),
        *_place_features(tokens),
        np.log(np.maximum(tokens.length, 1)),
        tokens.hyphen,
        np.log(graphs.sizes[tokens.document_of_word]),
        *_form_features(tokens, tf),
        affinities,
        reach,
        neighbours,
        phraseness,
        np.bincount(after, minlength=tokens.n_words) / tf,
        np.bincount(before, minlength=tokens.n_words) / tf,
        _mean_of_neighbours(graphs, phraseness),
        _repeated_bigram(before, after, tokens.n_words),
        *own_score(tokens),
    )
    return replace(graphs, x=side_by_side(columns))


def side_by_side(columns: Sequence[NDArray[Any]]) -> FloatArray:
    """Return columns [W] as a matrix, each lying in one piece as whoever encodes it reads it."""
    rows = np.empty((len(columns), len(columns[0])))
    for row, column in zip(rows, columns, strict=True):
        row[:] = column
    return rows.T


def label_rates(documents: IntArray, labels: IntArray) -> FloatArray:
    """Return rho [N_FOLDS + 1], the share of observed keywords among the words of other folds.

    Parameters
    ----------
    documents, labels
        [N_FOLDS] sums over all terms of the counts of each fold.
    """
    n = np.append(documents.sum() - documents, documents.sum())
    y = np.append(labels.sum() - labels, labels.sum())
    return (y + 1.0) / (n + 2.0)


def keyphraseness(documents: IntArray, labels: IntArray, rho: FloatArray) -> FloatArray:
    """How much more often than others a candidate is an observed keyword elsewhere [W].

    log((Y_w + 3 rho) / (N_w + 3) / rho), with Y_w the label count and N_w the document
    count of the candidate in the folds other than its document's; 0 for one that no other fold
    has.

    Parameters
    ----------
    documents, labels
        [W] N_w and Y_w; see `Elsewhere`.
    rho
        [W] label rate of these folds; see `label_rates`.
    """
    return np.log((labels + SMOOTHING * rho) / (documents + SMOOTHING) / rho)


def affinity(m: FloatArray, observed: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean affinity to the observed words, without a word's own label.

    With O the k observed words and g(t) = log(.05 + t): an observed word i gets
    g(mean of m_il over l in O without i); any other word gets the mean over j in O of
    g(mean of m_il over l in O without j). So observed and hidden keywords both see k - 1
    labels; plain leave-one-out shows one label less to the observed.

    Parameters
    ----------
    m
        [n, k] affinity of every word to each observed word, k >= 2; or several below each other.
    observed
        [k] numbers of the observed words; or of those of each.

    Returns
    -------
    logarithmic, plain
        [n] with g as above, and with g the identity.
    """
    k = m.shape[1]
    without = (m.sum(axis=1, keepdims=True) - m) / (k - 1)
    plain = without.sum(axis=1) / k
    level = np.log(AFFINITY_FLOOR + np.maximum(without, 0.0))
    logarithmic = level.sum(axis=1) / k
    seen = np.arange(len(observed)) % k
    plain[observed] = without[observed, seen]
    logarithmic[observed] = level[observed, seen]
    return logarithmic, plain


def _graphs(tokens: DocumentTokens, window: int) -> KeywordBatch:
    """Return the batch with its graphs and, as yet, no features."""
    group = tokens.document_of_word[tokens.word]
    row, col, count = cooccurrences(tokens.word, window=window, group=group)
    edge_offsets = np.searchsorted(row, tokens.offsets).astype(np.int64)
    start = np.repeat(tokens.offsets[:-1], np.diff(edge_offsets))
    return KeywordBatch(
        x=np.zeros((tokens.n_words, 0)),
        y=tokens.y,
        offsets=tokens.offsets,
        fold=tokens.fold,
        complete=tokens.complete,
        edge_row=row - start,
        edge_col=col - start,
        edge_count=count,
        edge_offsets=edge_offsets,
        unlabelled=tokens.unlabelled,
    )


def _graph_features(
    graphs: KeywordBatch, damping: float, own_labels: bool
) -> tuple[FloatArray, ...]:
    """Return TextRank, affinity, reach and observed neighbours of every word; `_graph_scores`."""
    size = graphs.n_words
    labels = graphs.n_observed >= 2 if own_labels else np.zeros(graphs.n_documents, bool)
    whole = labels | (graphs.sizes > LARGE)
    rank = np.empty(size)
    kernels.textrank(
        np.flatnonzero(~whole),
        graphs.offsets,
        graphs.edge_row,
        graphs.edge_col,
        graphs.edge_count,
        graphs.edge_offsets,
        damping,
        rank,
    )
    neutral = (NEUTRAL_AFFINITY, NEUTRAL_AFFINITY, NEUTRAL_NEIGHBOURS)
    scores = (rank, *(np.full(size, value) for value in neutral))
    for d in np.flatnonzero(whole).tolist():
        own = graphs.words(d)
        y = graphs.y[own] & own_labels
        for column, score in zip(
            scores, _graph_scores(graphs.adjacency(d), y, damping), strict=True
        ):
            column[own] = score
    return scores


def _graph_scores(
    a: FloatArray, y: BoolArray, damping: float
) -> tuple[FloatArray, FloatArray | float, FloatArray | float, FloatArray | float]:
    """Solve B [1/sqrt(D), e_j for the observed j] once for all four scores of a document.

    TextRank as in `document_kernels.textrank`; affinity with M = n (1 - d) B^-1; reach, the
    affinity with n (1 - d) (I - d D^-1 A)^-1 = D^-1/2 M D^1/2, whose rows are n times the shares of
    the words that a walk from word i visits; the mean share of an observed word among the
    neighbours. M gives a frequent word more affinity to every other, reach does not.
    """
    n, observed = len(y), np.flatnonzero(y)
    degree = a.sum(axis=1)
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    right = np.zeros((n, 1 + len(observed)))
    right[:, 0] = 1.0 / root
    right[observed, 1 + np.arange(len(observed))] = 1.0
    _, solved, failed = dposv(system_matrix(a, damping), right, overwrite_a=True, overwrite_b=True)
    if failed:
        raise np.linalg.LinAlgError(f"the graph's matrix is not positive definite: {failed}")
    rank = (1.0 - damping) * root * solved[:, 0]
    if len(observed) < 2:
        return rank, NEUTRAL_AFFINITY, NEUTRAL_AFFINITY, NEUTRAL_NEIGHBOURS
    outside = np.maximum(degree - a.diagonal(), 1.0)
    share = a[:, observed] / outside[:, None]
    share[observed, np.arange(len(observed))] = 0.0
    m = n * (1.0 - damping) * solved[:, 1:]
    every = np.concatenate([m, m * root[observed] / root[:, None], share])
    logarithmic, plain = affinity(every, np.concatenate([observed, n + observed, 2 * n + observed]))
    return rank, logarithmic[:n], logarithmic[n : 2 * n], plain[2 * n :]


def _place_features(tokens: DocumentTokens) -> tuple[FloatArray, FloatArray]:
    """First position, log(1 + tokens before it), and spread, sd of the positions / length.

    The logarithm separates a title, an abstract and a body; with the plain share of the
    document F on papers is .015 lower, and the same on abstracts.
    """
    first = np.full(tokens.n_words, np.iinfo(np.int64).max)
    np.minimum.at(first, tokens.word, tokens.position)
    length = np.maximum(tokens.n_tokens, 1)[tokens.document_of_word]
    return np.log1p(first), spread(tokens.word, tokens.position, length)


def spread(unit: IntArray, position: IntArray, length: IntArray) -> FloatArray:
    """Return the sd of every unit's positions by its document's length [W].

    ``unit``, ``position``: of every occurrence.
    """
    times = np.bincount(unit, minlength=len(length))
    centre = np.bincount(unit, position, len(length)) / times
    away = np.square(position - centre[unit])
    return np.asarray(np.sqrt(np.bincount(unit, away, len(length)) / times) / length)


def _bigrams(tokens: DocumentTokens) -> tuple[IntArray, IntArray]:
    """Return the rows of the words that stand side by side in a sentence, in reading order."""
    document = tokens.document_of_word[tokens.word]
    joined = (
        (np.diff(tokens.position) == 1)
        & (document[1:] == document[:-1])
        & (tokens.sentence[1:] == tokens.sentence[:-1])
    )
    return tokens.word[:-1][joined], tokens.word[1:][joined]


def _repeated_bigram(before: IntArray, after: IntArray, size: int) -> FloatArray:
    """log(1 + how often a word's most frequent bigram of two words stands in its document) [W]."""
    pairs, count = np.unique((before * size + after)[before != after], return_counts=True)
    most = np.zeros(size, np.int64)
    for word in np.divmod(pairs, max(size, 1)):
        np.maximum.at(most, word, count)
    return np.log1p(most)


def own_score(tokens: DocumentTokens) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The user's score of every word, its rank, and whether it is given; see `score_columns`."""
    own = np.full(tokens.n_words, np.nan) if tokens.score is None else tokens.score
    return score_columns(own, tokens.document_of_word)


def score_columns(
    values: FloatArray, documents: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A score, the normal quantile of its rank in the document, and whether it is given.

    Where it is not given the first two are 0. Of m scored units, one with b lower ones and e
    of the same score (itself among them) has the rank (b + e/2) / m.

    Parameters
    ----------
    values, documents
        [W] score of every unit, NaN where it has none, and number of its document, those of one
        side by side.
    """
    raw, rank, given = np.zeros((3, len(values)))
    if not (rows := np.flatnonzero(np.isfinite(values))).size:
        return raw, rank, given
    score, middle = values[rows], np.empty(len(rows))
    kernels.middle_ranks(score, documents[rows], middle)
    raw[rows], rank[rows], given[rows] = score, ndtri(middle), 1.0
    return raw, rank, given


def _mean_of_neighbours(graphs: KeywordBatch, values: FloatArray) -> FloatArray:
    """Mean of ``values`` [W] over each word's neighbours in the graph, by their counts; else 0."""
    start = np.repeat(graphs.offsets[:-1], np.diff(graphs.edge_offsets))
    row, col, weight = graphs.edge_row + start, graphs.edge_col + start, graphs.edge_count
    other = row != col
    row, col, weight = row[other], col[other], weight[other]
    size = graphs.n_words
    total = np.bincount(row, weight * values[col], size) + np.bincount(
        col, weight * values[row], size
    )
    degree = np.bincount(row, weight, size) + np.bincount(col, weight, size)
    return total / np.where(degree > 0.0, degree, 1.0)


def _form_features(tokens: DocumentTokens, tf: FloatArray) -> tuple[FloatArray, ...]:
    """Shares of the parts of speech; title, capitals, noun phrases."""
    size = tokens.n_words

    def share(flag: BoolArray) -> FloatArray:
        return np.asarray(np.bincount(tokens.word, flag, size) / tf)

    longest = np.zeros(size, np.int64)
    np.maximum.at(longest, tokens.word, tokens.phrase)
    return (
        *(share(tokens.pos == code) for code in range(len(POS_GROUPS))),
        (share(tokens.title) > 0).astype(np.float64),
        share(tokens.capital),
        share(tokens.upper),
        np.log1p(longest),
        share(tokens.phrase > 1),
    )
