"""Documents as users give them, read into candidates by the rules of the pipeline ``keywords``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.estimators.tables import cells_of, is_frame, is_missing, names_of, values_of
from vbmodels.keywords.candidate_counts import Rows, Whole, added, count_candidates
from vbmodels.keywords.documents import KeywordBatch
from vbmodels.keywords.features import build_batch, fold_of, label_rates
from vbmodels.keywords.phrase_mates import in_phrases
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import build_phrases
from vbmodels.keywords.phrases.phrase_ids import stem_keys
from vbmodels.keywords.reading import ReadDocuments, Vocabulary, read_documents
from vbmodels.keywords.surfaces import Written, written
from vbmodels.keywords.text import TextOptions
from vbmodels.keywords.tokens import Labels, Row, split_terms

COLUMNS = (
    "doc_id", "text", "tokens", "pos", "sentence", "keywords", "complete", "scored", "scores",
)  # fmt: skip
"""The columns that are read of a table."""
ABSENT = ("doc_id", "pos", "sentence", "keywords", "complete", "scored", "scores")
"""Those of them that new documents may lack, though the user has named them."""
OUTSIDE = -1
"""Fold of a document that is not part of the counts."""


@dataclass(frozen=True)
class GivenDocuments:
    """Documents by number, and their names."""

    rows: list[Row]
    names: list[str]

    @property
    def folds(self) -> IntArray:
        """Folds [D] of the names."""
        return np.array([fold_of(name) for name in self.names], np.int64)

    def without_labels(self) -> Self:
        """Return the documents without their known keywords."""
        rows = [
            row._replace(labels=row.labels._replace(keywords=None, complete=False))
            for row in self.rows
        ]
        return replace(self, rows=rows)


def given_documents(X: Any, y: Any, complete: Any, ids: Any, scores: Any) -> GivenDocuments:
    """Return documents from arguments or a table.

    Raises
    ------
    ValueError
        If there is no document, an argument has not one entry for each, tags or sentences are not
        as many as tokens, or a score is not finite.
    """
    documents = _documents(X)
    if not documents:
        raise ValueError("expected documents in a list or in a column text or tokens")
    size = len(documents)
    known = _given(y, column_of(X, "keywords"), [None] * size, "a list of keywords")
    whole = _given(complete, column_of(X, "complete"), [False] * size, "a mark")
    names = _given(ids, column_of(X, "doc_id"), list(range(size)), "a name")
    own = _given(scores, _scores_of(X), [None] * size, "a mapping of scores")
    tags, sentences = (column_of(X, name) or [None] * size for name in ("pos", "sentence"))
    rows = []
    for d, document in enumerate(documents):
        labels = Labels(
            str(d),
            _terms(known[d]),
            not is_missing(whole[d]) and bool(whole[d]),
            None,
            *_scored(own[d]),
        )
        if isinstance(document, str):
            rows.append(Row(labels, text=document))
            continue
        tokens = [str(token) for token in document]
        for what, cells in (("pos", tags[d]), ("sentence", sentences[d])):
            if cells is not None and len(cells) != len(tokens):
                raise ValueError(
                    f"expected as many {what} as tokens in document {d}, {len(tokens)}, "
                    f"found {len(cells)}"
                )
        rows.append(Row(labels, None, tokens, tags[d], sentences[d]))
    return GivenDocuments(rows, [str(name) for name in names])


def _terms(known: Any) -> Sequence[str] | None:
    """Return a document's known keywords; None where nobody has looked for any."""
    if is_missing(known):
        return None
    return split_terms([known] if isinstance(known, str) else [str(term) for term in known])


def _scored(own: Any) -> tuple[list[str] | None, list[float] | None]:
    if is_missing(own):
        return None, None
    scores: Mapping[Any, float] = own
    for term, score in scores.items():
        if not math.isfinite(score):
            raise ValueError(f"expected finite scores, got {score} for {term!r}")
    return [str(term) for term in scores], [float(score) for score in scores.values()]


def _scores_of(X: Any) -> list[Any] | None:
    """Return a table's scores as mappings, None where a row has none."""
    words, values = column_of(X, "scored"), column_of(X, "scores")
    if words is None or values is None:
        return None
    return [
        None if is_missing(w) or is_missing(v) else _greatest(w, v)
        for w, v in zip(words, values, strict=True)
    ]


def _greatest(terms: Sequence[str], scores: Sequence[float]) -> dict[str, float]:
    """Return the greatest score of every term; the first that is no number where one is none."""
    found: dict[str, float] = {}
    for term, score in zip(terms, scores, strict=True):
        if score > found.get(term, -math.inf) or not math.isfinite(score):
            found[term] = score
    return found


def _documents(X: Any) -> list[Any]:
    """Return texts or lists of tokens; one that is missing has no words."""
    if isinstance(X, str):
        raise ValueError(
            f"expected a list of documents or a table, got one text ({X[:30]!r}): put it in a list"
        )
    if not is_frame(X):
        return ["" if is_missing(document) else document for document in values_of(X)]
    columns = [cells for name in ("tokens", "text") if (cells := column_of(X, name)) is not None]
    return [
        next((cell for cell in cells if cell is not None), "")
        for cells in zip(*columns, strict=True)
    ]


def column_of(X: Any, name: str) -> list[Any] | None:
    """Return a table's column, None where it has none of that name or is no table."""
    return cells_of(X, name) if is_frame(X) and name in names_of(X) else None


def length_of(X: Any) -> int:
    """Return the number of documents."""
    return len(cells_of(X, names_of(X)[0])) if is_frame(X) else len(X)


def _given(first: Any, second: list[Any] | None, default: Sequence[Any], what: str) -> list[Any]:
    found = values_of(first) if first is not None else second
    if found is None:
        return list(default)
    if len(found) != len(default):
        raise ValueError(f"expected {what} for each of {len(default)} documents, got {len(found)}")
    return found


@dataclass(frozen=True)
class Counts:
    """In how many documents candidates of one kind are, and the label rates [N_FOLDS + 1]."""

    whole: Whole
    rates: FloatArray

    @classmethod
    def of(cls, parts: list[Rows], lone: bool) -> Self:
        """Add the counts of partitions; ``lone`` as in `Whole.of`."""
        rows = added(parts)
        return cls(Whole.of(rows, lone), label_rates(*rows.totals))


@dataclass(frozen=True)
class Corpus:
    """The counts of the fitted documents.

    ``in_phrases`` is whether words are known several at once (`vbmodels.keywords.phrase_mates`),
    ``labelled`` whether somebody has looked for the keywords of every document.
    """

    words: Counts
    phrases: Counts | None
    n_documents: int
    in_phrases: bool
    labelled: bool

    @classmethod
    def of(cls, parts: Sequence[ReadPart], phrases: bool) -> Self:
        """Count the candidates of all partitions."""
        return cls(
            Counts.of([part.word_counts for part in parts], True),
            Counts.of([part.phrase_counts for part in parts], False) if phrases else None,
            sum(len(part.documents) for part in parts),
            in_phrases(sum(p.read.known for p in parts), sum(p.read.several for p in parts)),
            all(bool(part.read.tokens.looked_at.all()) for part in parts),
        )


@dataclass(frozen=True)
class ReadPart:
    """A partition's documents as they were read, and their numbers [D], of those with a word."""

    read: ReadDocuments
    documents: IntArray

    @classmethod
    def of(
        cls, rows: Sequence[Row], folds: IntArray, options: TextOptions, phrases: bool,
        vocabulary: Vocabulary,
    ) -> Self:  # fmt: skip
        """Read rows named by their number among all documents, whose folds are given."""
        read = read_documents(rows, options, phrases, vocabulary)
        documents = np.array(list(map(int, read.names)), np.int64)
        tokens = replace(read.tokens, fold=folds[documents])
        return cls(replace(read, tokens=tokens), documents)

    @property
    def document(self) -> IntArray:
        """Numbers [M] of the candidates' documents."""
        return self.documents[self.read.spans.document]

    @property
    def texts(self) -> Written:
        """How the candidates are written."""
        read = self.read
        return written(read.tokens, read.spans, read.vocabulary, read.marks, read.forms)

    @property
    def word_counts(self) -> Rows:
        """The counts of its words."""
        tokens = self.read.tokens
        own = tokens.document_of_word
        return count_candidates(self._word_keys, tokens.fold[own], tokens.looked_at[own], tokens.y)

    @property
    def phrase_counts(self) -> Rows:
        """The counts of its phrases."""
        tokens, spans = self.read.tokens, self.read.spans
        own = spans.document
        return count_candidates(
            spans.key, tokens.fold[own], tokens.looked_at[own], self.read.marks.y
        )

    @property
    def _word_keys(self) -> Any:
        return stem_keys(self.read.vocabulary)[self.read.tokens.term]

    def batch(self, corpus: Corpus, window: int, damping: float) -> KeywordBatch | PhraseBatch:
        """Make graphs and features with a corpus's counts."""
        read, tokens = self.read, self.read.tokens
        folds = tokens.fold[tokens.document_of_word]
        of_words = corpus.words.whole.elsewhere(self._word_keys, folds)
        words = build_batch(
            tokens,
            of_words,
            corpus.n_documents,
            corpus.words.rates,
            window=window,
            damping=damping,
            own_labels=not corpus.in_phrases,
        )
        if corpus.phrases is None:
            return words.compact()
        spans, marks = read.spans, read.marks
        of_phrases = corpus.phrases.whole.elsewhere(spans.key, tokens.fold[spans.document])
        return build_phrases(
            tokens,
            spans,
            words,
            marks.y,
            marks.score,
            marks.listed,
            of_words.frequency,
            of_phrases,
            corpus.n_documents,
            corpus.phrases.rates,
            own_labels=corpus.labelled,
        ).compact()
