"""One partition of documents as arrays: what every keyword model observes.

Letters: D documents, W candidate words of all of them (a word counts once in each
document where it stands), P features, E pairs of words that co-occur, n_d = candidate
words of document d, k_d = observed keywords among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.keywords.coded_features import CodedFeatures


@dataclass(frozen=True)
class KeywordBatch(State, kind="keywords.KeywordBatch"):
    """The candidate words of a set of documents, document after document.

    Every document has at least one candidate word (n_d >= 1): those without any never
    reach a model. A partition may be empty (D = 0, W = 0).

    Parameters
    ----------
    x
        [W, P] raw features in the order of ``features.FEATURE_NAMES``, neither centred nor
        scaled; the first column is 1. Always finite. A feature that the input cannot give
        (no part of speech, no sentences) is constant. The features that compare with the
        document's observed words have a neutral value where it has fewer than two.
    y
        [W] whether the word is an observed keyword.
    offsets
        [D + 1] words of document d are the rows ``offsets[d]:offsets[d + 1]``.
    fold
        [D] the document's fold, 0 to 9, from a hash of its name.
    complete
        [D] whether the document's keywords are all known, so that y is its truth.
    edge_row, edge_col
        [E] the graph's pairs, as word numbers within their document, row <= col; a word
        with itself (a self-loop) stands once.
    edge_count
        [E] co-occurrences of the pair: A[row, col] = A[col, row].
    edge_offsets
        [D + 1] pairs of document d are ``edge_offsets[d]:edge_offsets[d + 1]``.
    unlabelled
        [D] whether nobody has looked for the document's keywords, so that its labels say
        nothing; None where somebody has looked in all.
    coded
        What x holds, in codes; x has then no columns. None where x is as it is.
    """

    x: FloatArray
    y: BoolArray
    offsets: IntArray
    fold: IntArray
    complete: BoolArray
    edge_row: IntArray
    edge_col: IntArray
    edge_count: FloatArray
    edge_offsets: IntArray
    unlabelled: BoolArray | None = None
    coded: CodedFeatures | None = None

    @property
    def features(self) -> FloatArray:
        """[W, P] what x holds, or would if it were not coded; columns lie in one piece."""
        return np.asfortranarray(self.x) if self.coded is None else self.coded.dense()

    @property
    def unseen(self) -> BoolArray:
        """[D] ``unlabelled``, as an array."""
        return np.zeros(self.n_documents, bool) if self.unlabelled is None else self.unlabelled

    @property
    def n_documents(self) -> int:
        """D."""
        return len(self.offsets) - 1

    @property
    def n_words(self) -> int:
        """W, summed over the documents."""
        return len(self.y)

    @property
    def sizes(self) -> IntArray:
        """n_d [D]: candidate words of each document."""
        return np.diff(self.offsets)

    @property
    def n_observed(self) -> IntArray:
        """k_d [D]: observed keywords of each document."""
        return np.diff(np.searchsorted(np.flatnonzero(self.y), self.offsets))

    @property
    def document_of_word(self) -> IntArray:
        """[W] the number of the document that each word stands in."""
        return np.repeat(np.arange(self.n_documents, dtype=np.int64), self.sizes)

    def words(self, d: int) -> slice:
        """Return the rows of document d."""
        return slice(int(self.offsets[d]), int(self.offsets[d + 1]))

    def without_graphs(self) -> KeywordBatch:
        """Return the same words without what the models of the corpus do not look at."""
        nothing = np.zeros(0, np.int64)
        return replace(
            self,
            edge_row=nothing,
            edge_col=nothing,
            edge_count=np.zeros(0),
            edge_offsets=np.zeros(len(self.offsets), np.int64),
        )

    def of_documents(self, kept: BoolArray, listed: int = 0) -> KeywordBatch:
        """Return the words of some of the documents [D]; ``listed`` is for phrases."""
        words, pairs = np.repeat(kept, self.sizes), np.repeat(kept, np.diff(self.edge_offsets))
        return replace(
            self,
            x=self.x[words],
            y=self.y[words],
            offsets=np.append(0, np.cumsum(self.sizes[kept])),
            fold=self.fold[kept],
            complete=self.complete[kept],
            edge_row=self.edge_row[pairs],
            edge_col=self.edge_col[pairs],
            edge_count=self.edge_count[pairs],
            edge_offsets=np.append(0, np.cumsum(np.diff(self.edge_offsets)[kept])),
            unlabelled=self.unseen[kept],
        )

    def compact(self, without: Sequence[int] = ()) -> KeywordBatch:
        """Return the same words for the corpus model: without graphs, features in codes.

        Those of the columns ``without`` are 0.
        """
        coded = CodedFeatures.of(self.features, without)
        return replace(self.without_graphs(), x=self.x[:, :0].copy(), coded=coded)

    def adjacency(self, d: int) -> FloatArray:
        """Return A [n_d, n_d], the symmetric co-occurrence counts of document d."""
        n = int(self.offsets[d + 1] - self.offsets[d])
        pairs = slice(int(self.edge_offsets[d]), int(self.edge_offsets[d + 1]))
        row, col, count = self.edge_row[pairs], self.edge_col[pairs], self.edge_count[pairs]
        a = np.zeros((n, n))
        a[row, col] = count
        a[col, row] = count
        return a
