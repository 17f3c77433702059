"""Documents to candidate words, counts, and the arrays that keyword models observe.

`prepare` reads one partition (a table of documents) into words, what is said of its candidates,
and its counts; `shards` adds the counts of all partitions; `vbmodels.keywords.features` makes
features of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.keywords import token_kernels as kernels
from flows.keywords.candidates import UNKNOWN_TRUTH, Marks, Said, mark, said_of
from flows.keywords.counts import count_candidates
from flows.keywords.shards import PHRASES, WORDS
from flows.keywords.text import Normaliser, TextOptions
from flows.keywords.tokens import Tokens, columns_of, distinct, read_tokens
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.documents import DocumentTokens
from vbmodels.keywords.features import POS_GROUPS, fold_of
from vbmodels.keywords.phrases.phrase_ids import stem_keys

MAX_NAMED = 100
"""Documents that a report names for each reason; all are counted."""


@dataclass(frozen=True)
class Told:
    """How many there were, and the first of them by name."""

    count: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str]) -> Told:
        """Tell of these."""
        return cls(len(names), tuple(names[:MAX_NAMED]))

    def __add__(self, other: Told) -> Told:
        return Told(self.count + other.count, (self.names + other.names)[:MAX_NAMED])


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
    without_words: Told = field(default_factory=Told)
    absent_keywords: Told = field(default_factory=Told)
    shortened: Told = field(default_factory=Told)
    unused_scores: Told = field(default_factory=Told)

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
class Prepared:
    """A partition before the corpus is known.

    Parameters
    ----------
    tokens
        Its candidate words as arrays.
    vocabulary
        [V] its distinct stems, sorted; ``tokens.term`` counts in it.
    names
        [D] of the documents that have a word.
    marks
        What the user says of the candidates, phrases or words.
    forms
        The distinct written forms of the words.
    counts
        Its counts (`counts.COUNTS`) of words, and of phrases where these are the candidates.
    report
        What could not be used.
    known, several
        Known keywords with a candidate word, and those of them with several.
    """

    tokens: DocumentTokens
    vocabulary: pa.Array
    names: pa.Array
    marks: Marks
    forms: pa.Array
    counts: dict[str, pa.Table]
    report: Report
    known: int
    several: int

    @property
    def unmatched(self) -> int:
        """Known keywords that may be phrases and are no candidates of their documents."""
        return self.marks.listed - int(self.marks.y.sum()) if PHRASES in self.counts else 0


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
class _Labels:
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
    unused: Told = field(default_factory=Told)
    gold: dict[int, bool] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)


def prepare(documents: pa.Table, options: TextOptions, phrases: bool) -> Prepared:
    """Read a partition of documents that `check.check_documents` found no fault in.

    Parameters
    ----------
    documents
        Columns ``doc_id``, ``text`` or ``tokens`` (with ``pos`` and ``sentence`` where
        known), ``keywords``, ``complete``. Where a row has tokens its text is not read.
    options
        How text becomes words.
    phrases
        Whether candidates are phrases, not words.
    """
    normalise = Normaliser.of(options)
    words = _candidates(read_tokens(documents, options), normalise, options)
    labels = _labels(documents, words, normalise, phrases)
    names = documents["doc_id"].to_pylist()
    report = Report(
        documents=len(names),
        tokens=len(words.tokens.token),
        absent_keywords=Told.of(labels.absent),
        shortened=Told.of(_shorten(words, labels, names, options.max_words)),
        unused_scores=labels.unused,
    )
    return _pack(documents, words, labels, report, phrases)


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


def _labels(documents: pa.Table, words: _Words, normalise: Normaliser, phrases: bool) -> _Labels:
    """Match what the rows list and score with their documents' candidates."""
    found = _Labels()
    names = ("doc_id", "keywords", "gold", "scored", "scores")
    for d, (doc_id, keywords, gold, scored, scores) in enumerate(columns_of(documents, names)):
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
                found.unused += Told.of(unused)
        if gold is not None and not phrases:
            true = {stem for keyword in gold for stem in normalise.keyword(keyword, places)[0]}
            found.gold.update((row, stem in true) for stem, row in places.items())
        if phrases and words.offsets[d] < words.offsets[d + 1]:
            found.said.append(said_of(keywords, gold, scored, scores, normalise))
    return found


def _shorten(words: _Words, labels: _Labels, names: list[str], most: int) -> list[str]:
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
    documents: pa.Table, words: _Words, labels: _Labels, report: Report, phrases: bool
) -> Prepared:
    """Lay the documents that have a word end to end."""
    tokens, size = words.tokens, len(words.term)
    forms = {name: number for number, name in enumerate(tokens.names)}
    lower = np.array([forms.setdefault(n.lower(), len(forms)) for n in tokens.names], np.int64)
    table, token, best = kernels.occurrences(
        tokens.token, tokens.pos, tokens.sentence, tokens.offsets, tokens.told, words.stem,
        len(words.stems), words.term, words.offsets, _GROUP,
        np.array([name[:1].isupper() for name in tokens.names], bool),
        np.array([len(name) > 1 and name.isupper() for name in tokens.names], bool), lower,
    )  # fmt: skip
    word, position, sentence, title, pos, phrase, capital, upper = np.ascontiguousarray(table.T)
    has = np.diff(words.offsets) > 0
    sizes = np.diff(words.offsets)[has]
    names = documents["doc_id"].filter(pa.array(has)).combine_chunks()
    folds = np.array([fold_of(name) for name in names.to_pylist()], np.int64)
    used, term = distinct(words.term, len(words.stems))
    order = sorted(range(len(used)), key=lambda i: words.stems[used[i]])
    term = np.argsort(np.array(order, np.int64))[term] if len(order) else term
    vocabulary = pa.array([words.stems[used[i]] for i in order], pa.string())
    observed = np.zeros(size, bool)
    observed[list(labels.known)] = True
    shown, form = distinct(best, len(forms))
    written = list(forms)
    surfaces = [written[i] for i in shown]
    complete, unlabelled = _looked_at(documents)
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
    without = documents["doc_id"].filter(pa.array(~has)).to_pylist()
    report = replace(report, words=size, observed=len(labels.known), without_words=Told.of(without))
    stems = vocabulary.to_pylist()
    own, code = distinct(token, len(written))
    if phrases:
        marks, counted = mark(packed, stems, labels.said, code)
        more = {PHRASES: counted}
    else:
        gold = np.full(size, UNKNOWN_TRUTH, np.int8)
        gold[list(labels.gold)] = list(labels.gold.values())
        marks = Marks(observed, gold, labels.sizes[0], code.astype(np.int32), packed.score)
        more = {}
    keys = stem_keys(stems)[packed.term]
    return Prepared(
        tokens=packed,
        vocabulary=vocabulary,
        names=names,
        marks=marks,
        forms=pa.array([written[i] for i in own], pa.string()),
        counts={WORDS: count_candidates(keys, np.repeat(folds, sizes), observed), **more},
        report=report,
        known=labels.sizes[0],
        several=labels.sizes[1],
    )


def _looked_at(documents: pa.Table) -> tuple[BoolArray, BoolArray]:
    """Return which documents [D] are complete, and at which nobody has looked."""
    nothing = pa.nulls(len(documents))
    there = {
        name: documents[name] for name in ("complete", "keywords") if name in documents.column_names
    }
    complete = pc.fill_null(pc.cast(there.get("complete", nothing), pa.bool_()), False)
    listed = pc.is_valid(there.get("keywords", nothing))
    done = np.asarray(complete).astype(bool)
    return done, ~np.asarray(listed).astype(bool) & ~done


def _scores(found: dict[int, float], size: int) -> FloatArray | None:
    """Return the words' scores [W]; None where none has any."""
    if not found:
        return None
    scores = np.full(size, np.nan)
    scores[list(found)] = list(found.values())
    return scores
