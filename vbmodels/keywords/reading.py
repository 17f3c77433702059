"""From documents to candidate words, what is known of them, and the arrays that models observe.

`read_documents` reads one partition; `vbmodels.keywords.features` makes features of it, with the
counts of the whole corpus.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.keywords import token_kernels as kernels
from vbmodels.keywords.candidates import UNKNOWN_TRUTH, Marks, Said, mark, said_of, spans_of
from vbmodels.keywords.documents import DocumentTokens
from vbmodels.keywords.features import POS_GROUPS, fold_of
from vbmodels.keywords.phrases.spans import Spans
from vbmodels.keywords.text import Normaliser, TextOptions
from vbmodels.keywords.tokens import Labels, Row, Tokens, distinct, read_tokens

MAX_NAMED = 100
"""Documents that a report names for each reason; all are counted."""


@dataclass(frozen=True)
class Named:
    """How many there were, and the first of them by name."""

    count: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str]) -> Named:
        """Count these."""
        return cls(len(names), tuple(names[:MAX_NAMED]))

    def __add__(self, other: Named) -> Named:
        return Named(self.count + other.count, (self.names + other.names)[:MAX_NAMED])


@dataclass(frozen=True)
class Report:
    """What was read and what could not be used; reports of partitions add.

    Parameters
    ----------
    documents, tokens, words, observed
        Documents read, their tokens, their candidate words, and the observed among these.
    without_words
        Documents without any candidate word: no row of the result is theirs.
    absent_keywords
        Known keywords of which a word does not occur among the document's candidates, as
        "doc_id: keyword (missing word: absent or too rare)". An absent word does not occur
        as a noun, adjective or verb; a rare one occurs fewer than ``min_count`` times. The
        keyword's other words count as observed.
    shortened
        Documents cut to ``max_words`` candidates, as "doc_id (candidates before)".
    unused_scores
        Scored terms of which no word is a candidate of the document, as "doc_id: term".
    """

    documents: int = 0
    tokens: int = 0
    words: int = 0
    observed: int = 0
    without_words: Named = field(default_factory=Named)
    absent_keywords: Named = field(default_factory=Named)
    shortened: Named = field(default_factory=Named)
    unused_scores: Named = field(default_factory=Named)

    def __add__(self, other: Report) -> Report:
        return Report(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


_GROUP = np.array(
    [
        kernels.ADJECTIVE if name == "adjective" else kernels.NOUN if "noun" in name else 0
        for name in POS_GROUPS
    ]
    + [0, 0]
)
"""What each part of speech is in a noun phrase, and those of -2 and -1."""


@dataclass(frozen=True)
class ReadDocuments:
    """Documents before the corpus is known.

    Parameters
    ----------
    tokens
        Their candidate words as arrays.
    vocabulary
        [V] the distinct stems, sorted; ``tokens.term`` counts in it.
    names
        [D] of the documents that have a word.
    marks
        What the user says of the candidates, phrases or words.
    spans
        The candidates: phrases, or words.
    forms
        The distinct written forms of the words.
    report
        What could not be used.
    known, several
        Known keywords with a candidate word, and those of them with several.
    """

    tokens: DocumentTokens
    vocabulary: list[str]
    names: list[str]
    marks: Marks
    spans: Spans
    forms: list[str]
    report: Report
    known: int
    several: int


@dataclass
class _Words:
    """The candidate words of a partition's documents, as they are found.

    Parameters
    ----------
    tokens
        Its tokens.
    stems
        [S] the distinct stems of these.
    stem
        [V] number of the stem of each distinct token, -1 where it has none.
    term, count, offsets
        [W] stem and occurrences of every candidate, and [D + 1] where each document's begin.
    """

    tokens: Tokens
    stems: list[str]
    stem: IntArray
    term: IntArray
    count: IntArray
    offsets: IntArray

    def of(self, d: int) -> dict[str, int]:
        """Return the candidates of a document with their rows."""
        first, last = int(self.offsets[d]), int(self.offsets[d + 1])
        stems = map(self.stems.__getitem__, self.term[first:last].tolist())
        return dict(zip(stems, range(first, last), strict=True))

    def stand_in(self, d: int) -> set[str]:
        """Return the stems of all words of a document, candidates or not."""
        own = slice(self.tokens.offsets[d], self.tokens.offsets[d + 1])
        stem = self.stem[self.tokens.token[own]]
        return {self.stems[i] for i in stem[(stem >= 0) & (self.tokens.pos[own] != kernels.OTHER)]}

    def keep(self, rows: IntArray) -> None:
        """Keep some of the candidates."""
        document = np.searchsorted(self.offsets, rows, side="right") - 1
        self.term, self.count = self.term[rows], self.count[rows]
        self.offsets = np.searchsorted(document, np.arange(len(self.offsets)))


@dataclass
class _Matched:
    """What rows say of words: which are known and how they are scored; and of phrases.

    Parameters
    ----------
    known
        Rows of the known candidates.
    absent
        Known keywords that lack a candidate, as `Report` has them.
    sizes
        Keywords with a candidate word, and those of them with several.
    scores
        {row: the user's score} of every candidate that has one.
    unused
        Scored terms without a candidate word, as `Report` has them: the first, and how many.
    gold
        {row: whether it is a true keyword} of documents whose truth is known.
    said
        [D] of phrases, where these are the candidates.
    """

    known: set[int] = field(default_factory=set)
    absent: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=lambda: [0, 0])
    scores: dict[int, float] = field(default_factory=dict)
    unused: Named = field(default_factory=Named)
    gold: dict[int, bool] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)


def read_documents(rows: Iterable[Row], options: TextOptions, phrases: bool) -> ReadDocuments:
    """Read documents into candidates.

    Parameters
    ----------
    rows
        The documents, of each its text or its tokens.
    options
        How text becomes words.
    phrases
        Whether candidates are phrases, not words.
    """
    normalise = Normaliser.of(options)
    tokens, labels = read_tokens(rows, options)
    words = _candidates(tokens, normalise, options)
    matched = _match(labels, words, normalise, phrases)
    names = [label.doc_id for label in labels]
    report = Report(
        documents=len(names),
        tokens=len(words.tokens.token),
        absent_keywords=Named.of(matched.absent),
        shortened=Named.of(_shorten(words, matched, names, options.max_words)),
        unused_scores=matched.unused,
    )
    return _pack(labels, words, matched, report, phrases)


def _candidates(tokens: Tokens, normalise: Normaliser, options: TextOptions) -> _Words:
    """Find every document's words that are frequent enough."""
    numbers: dict[str, int] = {}
    stem = np.array(
        [
            -1 if s is None else numbers.setdefault(s, len(numbers))
            for s in map(normalise, tokens.names)
        ],
        np.int64,
    )
    least = np.array([options.least(n) for n in np.diff(tokens.offsets).tolist()], np.int64)
    found = kernels.candidates(tokens.token, tokens.pos, tokens.offsets, stem, len(numbers), least)
    return _Words(tokens, list(numbers), stem, *found)


def _match(
    labels: Sequence[Labels], words: _Words, normalise: Normaliser, phrases: bool
) -> _Matched:
    """Match what the rows list and score with their documents' candidates."""
    found = _Matched()
    for d, label in enumerate(labels):
        doc_id, keywords, gold = label.doc_id, label.keywords, label.gold
        scored, scores = label.scored, label.scores
        if words.offsets[d] == words.offsets[d + 1] and not keywords:
            continue
        places = words.of(d) if keywords or scored or gold is not None else {}
        for keyword in keywords or ():
            there, missing = normalise.keyword(keyword, places)
            found.known.update(map(places.__getitem__, there))
            found.sizes[0] += bool(there)
            found.sizes[1] += len(there) > 1
            if missing:
                every = words.stand_in(d)
                reasons = (
                    f"{word}: {'too rare' if normalise(word) in every else 'absent'}"
                    for word in missing
                )
                found.absent.append(f"{doc_id}: {keyword} ({', '.join(reasons)})")
        if scored is not None and scores is not None:
            unused = []
            for term, score in zip(scored, scores, strict=True):
                rows = [places[stem] for stem in normalise.keyword(term, places)[0]]
                for row in rows:
                    found.scores[row] = max(score, found.scores.get(row, -math.inf))
                if not rows:
                    unused.append(f"{doc_id}: {term}")
            if unused:
                found.unused += Named.of(unused)
        if gold is not None and not phrases:
            true = {stem for keyword in gold for stem in normalise.keyword(keyword, places)[0]}
            found.gold.update((row, stem in true) for stem, row in places.items())
        if phrases and words.offsets[d] < words.offsets[d + 1]:
            found.said.append(said_of(keywords, gold, scored, scores, normalise))
    return found


def _shorten(words: _Words, labels: _Matched, names: list[str], most: int) -> list[str]:
    """Cut long documents to the known and the most frequent words, of equal ones the earlier."""
    told, out = [], []
    for d in np.flatnonzero(np.diff(words.offsets) > most):
        first, last = int(words.offsets[d]), int(words.offsets[d + 1])
        told.append(f"{names[d]} ({last - first})")
        rows = range(first, last)
        known = sum(row in labels.known for row in rows)
        ranked = sorted(rows, key=lambda row: (row not in labels.known, -words.count[row], row))
        out += ranked[max(most, known) :]
    if out:
        kept = np.setdiff1d(np.arange(len(words.term)), out)
        place = {int(row): i for i, row in enumerate(kept)}
        words.keep(kept)
        labels.known = {place[row] for row in labels.known}
        labels.scores = {place[r]: value for r, value in labels.scores.items() if r in place}
        labels.gold = {place[r]: value for r, value in labels.gold.items() if r in place}
    return told


def _pack(
    rows: Sequence[Labels], words: _Words, labels: _Matched, report: Report, phrases: bool
) -> ReadDocuments:
    """Lay the documents that have a word end to end."""
    tokens, size = words.tokens, len(words.term)
    forms = {name: number for number, name in enumerate(tokens.names)}
    lower = np.array([forms.setdefault(n.lower(), len(forms)) for n in tokens.names], np.int64)
    table, token, best = kernels.occurrences(
        tokens.token, tokens.pos, tokens.sentence, tokens.offsets, tokens.in_sentences, words.stem,
        len(words.stems), words.term, words.offsets, _GROUP,
        np.array([name[:1].isupper() for name in tokens.names], bool),
        np.array([len(name) > 1 and name.isupper() for name in tokens.names], bool), lower,
    )  # fmt: skip
    word, position, sentence, title, pos, phrase, capital, upper = np.ascontiguousarray(table.T)
    has = np.diff(words.offsets) > 0
    sizes = np.diff(words.offsets)[has]
    names = [row.doc_id for row, kept in zip(rows, has, strict=True) if kept]
    folds = np.array([fold_of(name) for name in names], np.int64)
    used, term = distinct(words.term, len(words.stems))
    order = sorted(range(len(used)), key=lambda i: words.stems[used[i]])
    term = np.argsort(np.array(order, np.int64))[term] if len(order) else term
    vocabulary = [words.stems[used[i]] for i in order]
    observed = np.zeros(size, bool)
    observed[list(labels.known)] = True
    shown, form = distinct(best, len(forms))
    written = list(forms)
    surfaces = [written[i] for i in shown]
    complete = np.array([bool(row.complete) for row in rows], bool)
    unlabelled = np.array([row.keywords is None for row in rows], bool) & ~complete
    packed = DocumentTokens(
        term=term.astype(np.int64),
        y=observed,
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        fold=folds,
        complete=complete[has],
        n_tokens=np.diff(tokens.offsets)[has],
        length=np.array([len(surface) for surface in surfaces], np.int64)[form],
        hyphen=np.array(["-" in surface for surface in surfaces], bool)[form],
        word=word,
        position=position,
        sentence=sentence,
        title=title.astype(bool),
        pos=pos,
        phrase=phrase,
        capital=capital.astype(bool),
        upper=upper.astype(bool),
        unlabelled=unlabelled[has],
        score=_scores(labels.scores, size),
    )
    without = [row.doc_id for row, kept in zip(rows, has, strict=True) if not kept]
    report = replace(
        report, words=size, observed=len(labels.known), without_words=Named.of(without)
    )
    own, code = distinct(token, len(written))
    if phrases:
        marks, spans = mark(packed, vocabulary, labels.said, code)
    else:
        gold = np.full(size, UNKNOWN_TRUTH, np.int8)
        gold[list(labels.gold)] = list(labels.gold.values())
        marks = Marks(observed, gold, labels.sizes[0], code.astype(np.int32), packed.score)
        spans = spans_of(packed, vocabulary, False)
    return ReadDocuments(
        tokens=packed,
        vocabulary=vocabulary,
        names=names,
        marks=marks,
        spans=spans,
        forms=[written[i] for i in own],
        report=report,
        known=labels.sizes[0],
        several=labels.sizes[1],
    )


def _scores(found: dict[int, float], size: int) -> FloatArray | None:
    """Return the words' scores [W]; None where none has any."""
    if not found:
        return None
    scores = np.full(size, np.nan)
    scores[list(found)] = list(found.values())
    return scores
