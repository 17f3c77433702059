"""Documents as users give them, read into candidates by the rules of the pipeline ``keywords``."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.candidate_counts import Rows, Whole, added, count_candidates
from vbmodels.keywords.features import build_batch, in_phrases, label_rates
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import build_phrases
from vbmodels.keywords.units import KeywordBatch
from vbmodels.tables.frames import (
    cells_of,
    is_frame,
    is_missing,
    names_of,
    text_of,
    values_of,
)
from vbmodels.tables.levels import NO, YES
from vbmodels.text.candidate_words import Vocabulary
from vbmodels.text.candidates import fold_of, stem_keys
from vbmodels.text.reading import ReadDocuments, read_documents
from vbmodels.text.result_rows import ResultRows, written
from vbmodels.text.tokens import Copies, Labels, Row, split_terms, without_mark
from vbmodels.text.words import TextOptions

COLUMNS = (
    "doc_id",
    "text",
    "tokens",
    "pos",
    "sentence",
    "keywords",
    "complete",
    "scored",
    "scores",
)
"""The columns that are read of a table."""
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
        """Return the documents without their known keyphrases."""
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
    TypeError
        If an entry is of another kind than expected.
    """
    documents = _documents(X)
    if not documents:
        raise ValueError("expected documents in a list or in a column text or tokens")
    size = len(documents)
    known = _given(y, column_of(X, "keywords"), [None] * size, "a list of keywords")
    whole = _given(complete, column_of(X, "complete"), [False] * size, "a mark")
    names = _given(ids, column_of(X, "doc_id"), list(range(size)), "a name")
    scores_of = _given(scores, _scores_of(X), [None] * size, "a mapping of scores")
    tags, sentences = (column_of(X, name) or [None] * size for name in ("pos", "sentence"))
    rows = []
    for d, document in enumerate(documents):
        labels = Labels(
            str(d),
            _terms(known[d], d),
            _is_complete(whole[d], d),
            None,
            *_scored(scores_of[d], d),
        )
        labels = without_mark(labels)
        if isinstance(document, str):
            rows.append(Row(labels, text=document))
            continue
        tokens = list(map(str, _entries("a text or a list of tokens", document, d)))
        pos, sentence = tags[d], sentences[d]
        if pos is not None:
            pos = _as_many("pos", _entries("pos as a list of texts", pos, d, str), tokens, d)
        if sentence is not None:
            sentence = _entries("sentence as a list of whole numbers", sentence, d, Integral)
            sentence = _as_many("sentence", sentence, tokens, d)
        rows.append(Row(labels, None, tokens, pos, sentence))
    return GivenDocuments(rows, [str(name) for name in names])


def _entries(what: str, cells: Any, d: int, kind: type = object) -> list[Any]:
    """Return what a document has one of for each token or keyword, as a list."""
    if isinstance(cells, str | bytes | Mapping) or not isinstance(cells, Iterable):
        raise TypeError(f"expected {what} in document {d}, found {type(cells).__name__}")
    entries = list(cells)
    wrong = is_missing if kind is object else lambda cell: not isinstance(cell, kind)
    for cell in entries:
        if wrong(cell) or isinstance(cell, bytes):
            raise TypeError(f"expected {what} in document {d}, found {cell!r} among them")
    return entries


def _is_complete(mark: Any, d: int) -> bool:
    """Read whether a document's list is complete, by the words that the pipeline knows."""
    word = "" if is_missing(mark) else text_of(mark).strip().lower()
    if word not in ("", *YES, *NO):
        raise ValueError(f"expected yes or no for complete in document {d}, found {mark!r}")
    return word in YES


def _as_many(name: str, cells: list[Any], tokens: list[str], d: int) -> list[Any]:
    if len(cells) != len(tokens):
        raise ValueError(
            f"expected as many {name} as tokens in document {d}, {len(tokens)}, found {len(cells)}"
        )
    return cells


def _terms(known: Any, d: int) -> Sequence[str] | None:
    """Return a document's known keyphrases; None where nobody has looked for any."""
    if is_missing(known):
        return None
    if isinstance(known, str):
        return split_terms([known])
    return split_terms(list(map(str, _entries("keywords as a list of texts", known, d))))


def _scored(by_term: Any, d: int) -> tuple[list[str] | None, list[float] | None]:
    """Return the terms that a document's user has scored, and their scores."""
    if is_missing(by_term):
        return None, None
    if not isinstance(by_term, Mapping):
        raise TypeError(
            f"expected scores as a mapping from terms to numbers in document {d}, found "
            f"{type(by_term).__name__}"
        )
    for term, score in by_term.items():
        if not isinstance(score, Real):
            raise TypeError(f"expected numbers as scores, got {score!r} for {term!r}, document {d}")
        number: Any = score
        if not abs(number) <= sys.float_info.max:
            problem = "too large a number" if isinstance(score, Integral) else score
            raise ValueError(f"expected finite scores, got {problem} for {term!r}, document {d}")
    return [str(term) for term in by_term], [float(score) for score in by_term.values()]


def _scores_of(X: Any) -> list[Any] | None:
    """Return a table's scores as mappings, None where a row has none."""
    words, values = column_of(X, "scored"), column_of(X, "scores")
    if words is None or values is None:
        return None
    return [
        None if is_missing(w) or is_missing(v) else _paired(w, v, d)
        for d, (w, v) in enumerate(zip(words, values, strict=True))
    ]


def _paired(words: Any, values: Any, d: int) -> dict[Any, Any]:
    terms = _entries("scored as a list of terms", words, d)
    scores = _entries("scores as a list of numbers", values, d, Real)
    if len(terms) != len(scores):
        raise ValueError(
            f"expected as many scores as scored terms in document {d}, {len(terms)}, found "
            f"{len(scores)}"
        )
    highest: dict[Any, Any] = {}
    for term, score in zip(terms, scores, strict=True):
        if term not in highest or score > highest[term] or score != score:  # the greatest, or NaN
            highest[term] = score
    return highest


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
    if first is not None and not isinstance(first, Iterable):
        kind = type(first).__name__
        raise TypeError(f"expected {what} for each of {len(default)} documents, got one {kind}")
    values = values_of(first) if first is not None else second
    if values is None:
        return list(default)
    if len(values) != len(default):
        raise ValueError(f"expected {what} for each of {len(default)} documents, got {len(values)}")
    return values


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

    ``in_phrases`` is whether words are known several at once (`vbmodels.keywords.features`),
    ``labelled`` whether somebody has looked for the keywords of every document, ``shared`` are the
    sentences that are left out of documents.
    """

    words: Counts
    phrases: Counts | None
    n_documents: int
    in_phrases: bool
    labelled: bool
    shared: frozenset[int]

    @classmethod
    def of(
        cls, parts: Sequence[ReadPart], phrases: bool, shared: frozenset[int] = frozenset()
    ) -> Self:
        """Count the candidates of all partitions."""
        return cls(
            Counts.of([part.word_counts for part in parts], True),
            Counts.of([part.phrase_counts for part in parts], False) if phrases else None,
            sum(int(part.counted.sum()) for part in parts),
            in_phrases(sum(p.read.known for p in parts), sum(p.read.several for p in parts)),
            all(bool(part.read.tokens.looked_at[part.counted].all()) for part in parts),
            shared,
        )


@dataclass(frozen=True)
class ReadPart:
    """A partition's documents as they were read, and the numbers of those that it names.

    ``counted`` [D]: which of the documents with a candidate word count in a fit.
    """

    read: ReadDocuments
    documents: IntArray
    counted: BoolArray

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        folds: IntArray,
        options: TextOptions,
        phrases: bool,
        vocabulary: Vocabulary,
        shared: Container[int] = (),
    ) -> Self:
        """Read rows named by their number among all documents, whose folds are given."""
        read = read_documents(rows, options, phrases, vocabulary, shared)
        documents = np.array(list(map(int, read.names)), np.int64)
        fold = folds[documents[: read.tokens.n_documents]]
        originals = replace(read.originals, fold=fold)
        read = replace(read, tokens=replace(read.tokens, fold=fold), originals=originals)
        return cls(read, documents, np.ones(len(fold), bool))

    def with_copies(self, copies: Copies) -> Self:
        """Return the partition with what is known of documents that are copies of others."""
        tokens = replace(self.read.tokens, fold=copies.fold)
        return replace(self, read=replace(self.read, tokens=tokens), counted=copies.counted)

    @property
    def rows(self) -> ResultRows:
        """The rows of the result."""
        read = self.read
        texts = written(read.tokens, read.spans, read.vocabulary, read.marks, read.forms)
        return ResultRows.of(read.spans, texts, read.listed, len(self.documents))

    @property
    def word_counts(self) -> Rows:
        """The counts of its words."""
        tokens = self.read.tokens
        doc = tokens.document_of_word
        return count_candidates(
            self._word_keys, tokens.fold[doc], tokens.looked_at[doc], tokens.y, self.counted[doc]
        )

    @property
    def phrase_counts(self) -> Rows:
        """The counts of its phrases."""
        tokens, spans = self.read.tokens, self.read.spans
        doc = spans.document
        return count_candidates(
            spans.key,
            tokens.fold[doc],
            tokens.looked_at[doc],
            self.read.marks.y,
            self.counted[doc],
        )

    @property
    def _word_keys(self) -> Any:
        return stem_keys(self.read.vocabulary)[self.read.tokens.term]

    def batch(
        self, corpus: Corpus, window: int, damping: float, counted: bool = False
    ) -> KeywordBatch | PhraseBatch:
        """Make graphs and features with a corpus's counts; ``counted``: of what counts in a fit."""
        batch, listed = self._batch(corpus, window, damping), self.read.marks.listed
        if counted:
            batch = batch.of_documents(self.counted, int(listed[self.counted].sum()))
        return batch.compact()

    def _batch(self, corpus: Corpus, window: int, damping: float) -> KeywordBatch | PhraseBatch:
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
            return words
        spans, marks = read.spans, read.marks
        of_phrases = corpus.phrases.whole.elsewhere(spans.key, tokens.fold[spans.document])
        return build_phrases(
            tokens,
            spans,
            words,
            marks.y,
            marks.score,
            int(marks.listed.sum()),
            of_words.frequency,
            of_phrases,
            corpus.n_documents,
            corpus.phrases.rates,
            own_labels=corpus.labelled,
        )
