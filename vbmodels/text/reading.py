"""From documents to candidate words, what is known of them, and what could not be used.

`read_documents` reads one partition; `vbmodels.keywords.features` makes features of it, with the
counts of the whole corpus. Its `Report` counts what was read, and names the first of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.text import token_kernels as kernels
from vbmodels.text.candidate_words import (
    NO_VOCABULARY,
    CandidateWords,
    Links,
    Vocabulary,
    candidate_words,
    links_of,
    name_terms,
)
from vbmodels.text.candidates import (
    UNKNOWN_TRUTH,
    DocumentTokens,
    Marks,
    Spans,
    fold_of,
    key_of,
    spans_of,
)
from vbmodels.text.languages import NOUNS_IN_CAPITALS
from vbmodels.text.result_rows import ListedPhrase, Unmatched, listed_word, sort_out
from vbmodels.text.tokens import Labels, Originals, Row, Sample, distinct, read_tokens
from vbmodels.text.words import MOST_KNOWN, MOST_TOKENS, POS_GROUPS, Normaliser, TextOptions

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


def by_document(lost: Sequence[str]) -> list[str]:
    """Put one of each document before the others, which examples of many documents need.

    >>> by_document(["a: x", "a: y", "b: z"])
    ['a: x', 'b: z', 'a: y']
    """
    first: dict[str, str] = {}
    for one in lost:
        first.setdefault(one.partition(": ")[0], one)
    ahead = {*first.values()}
    return [*first.values(), *(one for one in lost if one not in ahead)]


@dataclass(frozen=True)
class Report:
    """What was read and what could not be used; reports of partitions add.

    Parameters
    ----------
    documents, tokens, words, observed
        Documents read, their tokens, their candidate words, and the observed among these.
    without_words
        Documents of which the result has no row.
    listed
        Known keyphrases.
    absent_keywords
        Those of them that no text has, as "doc_id: keyword". Of words, where a word of the
        keyword is none, "doc_id: keyword (missing word: absent or too rare)"; an absent word does
        not occur as a noun, adjective or verb, a rare one fewer than ``min_count`` times, and the
        keyword's other words count as observed.
    listed_only
        Those of them that the text has and that the rules for candidates do not find.
    shortened
        Documents cut to ``max_words`` candidates, as "doc_id (candidates before)".
    unused_scores
        Scored terms of which no word is a candidate of the document, as "doc_id: term".
    cleaned
        Documents of which markup or running heads were taken out, as "doc_id (HTML)".
    separators
        Of signs inside known keyphrases that are not in the text: how many of these keywords would
        be if the sign were between keywords.
    languages
        Documents of each language; those of which it is not clear have the name "".
    terms
        Documents that have each term of the vocabulary; none of a term that no text has.
    shared
        Documents without sentences that most documents have.
    marks
        Documents that have each mark of a missing cell in the place of a list of keywords.
    """

    documents: int = 0
    tokens: int = 0
    words: int = 0
    observed: int = 0
    listed: int = 0
    without_words: Named = field(default_factory=Named)
    absent_keywords: Named = field(default_factory=Named)
    listed_only: Named = field(default_factory=Named)
    shortened: Named = field(default_factory=Named)
    unused_scores: Named = field(default_factory=Named)
    cleaned: Named = field(default_factory=Named)
    separators: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    terms: Counter[str] = field(default_factory=Counter)
    shared: Named = field(default_factory=Named)
    marks: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Report) -> Report:
        return Report(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


_IN_PHRASES = {
    "adjective": kernels.ADJECTIVE,
    "noun": kernels.NOUN,
    "plural_noun": kernels.NOUN,
    "proper_noun": kernels.NOUN,
}
_GROUP = np.array([*(_IN_PHRASES.get(name, 0) for name in POS_GROUPS), 0, 0])
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
        Of the [D] documents that have a word, and after them of those with a phrase of ``listed``
        alone.
    marks
        What the user says of the candidates, phrases or words.
    spans
        The candidates: phrases, or words.
    forms
        The distinct written forms of the words.
    report
        What could not be used.
    known, several
        Known keyphrases with a candidate word, and those of them with several.
    sample, originals
        What is looked at for sentences and documents that are there several times.
    listed
        Known keyphrases that are no candidates.
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
    sample: Sample
    originals: Originals
    listed: list[ListedPhrase]


@dataclass
class _Matched:
    """What rows say of words.

    Parameters
    ----------
    observed, score, gold
        [W] as `Marks` has them.
    unmatched
        Where words are the candidates: keywords, or words of them, that are none.
    known, several
        Keywords with a candidate word, and those of them with several.
    unused
        Scored terms without a candidate word, as `Report` has them.
    """

    observed: BoolArray
    score: FloatArray
    gold: NDArray[np.int8]
    unmatched: Unmatched = field(default_factory=Unmatched)
    known: int = 0
    several: int = 0
    unused: list[str] = field(default_factory=list)


class _LaidOut(NamedTuple):
    """The documents that have a candidate word, laid end to end.

    Attributes
    ----------
    tokens, vocabulary, forms
        As `ReadDocuments` has them, no word being known.
    rows
        [D] their numbers among all documents.
    places
        [T] of their candidate words among all tokens.
    form, shown, link
        [T] as `Marks` has them.
    """

    tokens: DocumentTokens
    vocabulary: list[str]
    forms: list[str]
    rows: list[int]
    places: IntArray
    form: NDArray[np.int32]
    shown: NDArray[np.int32]
    link: NDArray[np.int32]


def read_documents(
    rows: Iterable[Row],
    options: TextOptions,
    phrases: bool,
    vocabulary: Vocabulary = NO_VOCABULARY,
    shared: Container[int] = (),
) -> ReadDocuments:
    """Read documents into candidates.

    Parameters
    ----------
    rows
        The documents, of each its text or its tokens.
    options
        How text becomes words.
    phrases
        Whether candidates are phrases, not words.
    vocabulary
        Phrases that are candidates wherever a text has them.
    shared
        Numbers of sentences that are left out (`Sample`).
    """
    tokens, labels, readings = read_tokens(rows, options, shared)
    words = candidate_words(tokens, options, phrases)
    if vocabulary.terms:
        words = name_terms(words, options, vocabulary)
    names = [label.doc_id for label in labels]
    shortened = _shorten(words, names, options.max_words)
    matched = _match_words(labels, words, options, phrases)
    laid = _lay_out(labels, words, matched.score, options, phrases, vocabulary.only)
    lost = np.setdiff1d(np.arange(len(labels)), laid.rows).tolist()
    if phrases:
        marks, spans, missing = _match_phrases(labels, words, laid, options)
        missing = [(d, term) for d in lost for term in labels[d].keywords or ()] + missing
        unmatched = sort_out(words, missing, laid.places, options)
        lost += [laid.rows[d] for d in np.flatnonzero(np.diff(spans.offsets) == 0)]
        of_known = spans.words[marks.y]
        matched.observed[:] = False
        matched.observed[of_known[of_known >= 0]] = True
    else:
        unmatched, no_lists = matched.unmatched, np.zeros(len(laid.rows), np.int64)
        score = laid.tokens.score
        marks = Marks(
            matched.observed, matched.gold, no_lists, laid.form, laid.shown, laid.link, score
        )
        spans = spans_of(laid.tokens, laid.vocabulary, False)
    packed = replace(laid.tokens, y=matched.observed)
    absent = [
        f"{names[d]}: {term}" + (f" ({reason})" if reason else "")
        for d, term, reason in unmatched.absent
    ]
    listed_in = {one.document for one in unmatched.listed}
    named = [*laid.rows, *sorted(listed_in.difference(laid.rows))]
    number = {d: i for i, d in enumerate(named)}
    cleaned = [
        f"{name} ({', '.join(one.removed)})"
        for name, one in zip(names, readings, strict=True)
        if one.removed
    ]
    report = Report(
        documents=len(names),
        tokens=len(words.tokens.token),
        words=len(words.term),
        observed=int(matched.observed.sum()),
        listed=sum(len(label.keywords or ()) for label in labels),
        without_words=Named.of([names[d] for d in lost if d not in listed_in]),
        absent_keywords=Named.of(by_document(absent) if phrases else absent),
        listed_only=Named.of([f"{names[one.document]}: {one.term}" for one in unmatched.listed]),
        shortened=Named.of(shortened),
        unused_scores=Named.of(matched.unused),
        cleaned=Named.of(cleaned),
        separators=+unmatched.separators,
        languages=Counter(one.language or "" for one in readings),
        terms=words.found_terms,
        shared=Named.of([n for n, one in zip(names, readings, strict=True) if one.shared]),
        marks=Counter(label.mark for label in labels if label.mark is not None),
    )
    keys = [one.key for one in readings]
    return ReadDocuments(
        tokens=packed,
        vocabulary=laid.vocabulary,
        names=[names[d] for d in named],
        marks=marks,
        spans=spans,
        forms=laid.forms,
        report=report,
        known=matched.known,
        several=matched.several,
        listed=[one._replace(document=number[one.document]) for one in unmatched.listed],
        sample=Sample.of(keys, [one.sentences for one in readings]),
        originals=Originals(np.array(keys, np.uint64)[laid.rows], packed.fold, packed.looked_at),
    )


def _match_words(
    labels: Sequence[Labels], words: CandidateWords, options: TextOptions, phrases: bool
) -> _Matched:
    """Match the words of what the rows list and score with their documents' candidates."""
    size = len(words.term)
    found = _Matched(
        np.zeros(size, bool), np.full(size, np.nan), np.full(size, UNKNOWN_TRUTH, np.int8)
    )
    listed: dict[tuple[int, str], ListedPhrase] = {}
    for d, label in enumerate(labels):
        if not label.says_something:
            continue
        normalise, places = words.normaliser(d, options), words.of(d)
        for keyword in label.keywords or ():
            there, missing = normalise.keyword(keyword, places)
            found.observed[[places[stem] for stem in there]] = True
            found.known += bool(there)
            found.several += len(there) > 1
            every = words.stand_in(d) if missing and not phrases else set()
            for word in missing:
                if (stem := normalise(word)) in every:
                    listed[d, stem] = listed_word(words, d, word, stem)
            if absent := [f"{word}: absent" for word in missing if normalise(word) not in every]:
                found.unmatched.absent.append((d, keyword, ", ".join(absent)))
        for term, score in label.scored_terms:
            rows = [places[stem] for stem in normalise.keyword(term, places)[0]]
            found.score[rows] = np.fmax(found.score[rows], score)
            if not rows:
                found.unused.append(f"{label.doc_id}: {term}")
        if label.gold is not None and not phrases:
            true = {stem for one in label.gold for stem in normalise.keyword(one, places)[0]}
            found.gold[list(places.values())] = [stem in true for stem in places]
    found.unmatched.listed = list(listed.values())
    return found


def _match_phrases(
    labels: Sequence[Labels], words: CandidateWords, laid: _LaidOut, options: TextOptions
) -> tuple[Marks, Spans, list[tuple[int, str]]]:
    """Return what the rows say of candidate phrases, these, and keywords that are none, by row."""
    spans = spans_of(laid.tokens, laid.vocabulary, True)
    size = len(spans.size)
    y, gold = np.zeros(size, bool), np.full(size, UNKNOWN_TRUTH, np.int8)
    score, listed = np.full(size, np.nan), np.zeros(len(laid.rows), np.int64)
    known: list[int] = []
    true: list[int] = []
    absent = []
    for d, row in enumerate(laid.rows):
        label = labels[row]
        if not label.says_something:
            continue
        normalise = words.normaliser(row, options)
        low, high = spans.offsets[d : d + 2].tolist()
        place = dict(zip(spans.key[low:high].tolist(), range(low, high), strict=True))
        terms = [term for term in label.keywords or () if any(map(str.isalnum, term))]
        for term in terms:
            rows = _rows_of(term, place, normalise)
            known += rows
            if not rows:
                absent.append((row, term))
        # Terms of the same stems count once.
        first = [_keys(term, normalise)[:1] for term in terms]
        listed[d] = len({*first} - {()}) + first.count(())
        if label.gold is not None:
            gold[low:high] = 0
            true += [i for term in label.gold for i in _rows_of(term, place, normalise)]
        for term, value in label.scored_terms:
            rows = _rows_of(term, place, normalise)
            score[rows] = np.fmax(score[rows], value)
    y[known], gold[true] = True, 1
    scores = score if np.isfinite(score).any() else None
    return Marks(y, gold, listed, laid.form, laid.shown, laid.link, scores), spans, absent


def _rows_of(term: str, place: Mapping[int, int], normalise: Normaliser) -> list[int]:
    """Return the row of a term's first form that is a candidate, if one is."""
    return [place[key] for key in _keys(term, normalise) if key in place][:1]


@lru_cache(maxsize=MOST_TOKENS)
def _keys(term: str, normalise: Normaliser) -> tuple[int, ...]:
    """Return the numbers of a term as a text may write it; none of more than twelve words."""
    found = (one.parts for one in normalise.variants(term) if sum(one.is_word) <= MOST_KNOWN)
    return tuple(dict.fromkeys(map(key_of, found)))


def _shorten(words: CandidateWords, names: list[str], most: int) -> list[str]:
    """Cut long documents to the most frequent words, of equal ones the earlier."""
    shortened, out = [], []
    long = np.flatnonzero(np.diff(words.offsets) > most)
    named = words.kept if len(long) else np.zeros(0, bool)
    for d in long:
        rows = np.arange(words.offsets[d], words.offsets[d + 1])
        shortened.append(f"{names[d]} ({len(rows)})")
        ranked = rows[np.lexsort((rows, -words.count[rows], ~named[rows]))]
        out.append(ranked[max(most, int(named[rows].sum())) :])
    if out:
        words.keep(np.setdiff1d(np.arange(len(words.term)), np.concatenate(out)))
    return shortened


def _lay_out(
    labels: Sequence[Labels],
    words: CandidateWords,
    score: FloatArray,
    options: TextOptions,
    phrases: bool,
    only: bool,
) -> _LaidOut:
    """Lay the documents that have a word end to end."""
    tokens, names = words.tokens, words.tokens.names
    numbers: dict[str, int] = {}
    kinds = kernels.Kinds(
        stem=words.kinds.stem,
        capital=np.array([name[:1].isupper() for name in names], bool),
        upper=np.array([len(name) > 1 and name.isupper() for name in names], bool),
        form=np.array([numbers.setdefault(n, len(numbers)) for n in names], np.int64),
        lower=np.array([numbers.setdefault(n.lower(), len(numbers)) for n in names], np.int64),
        noun_capitals=np.array(
            [
                language in NOUNS_IN_CAPITALS or name[1:].lower() != name[1:] or name[1:2] == "."
                for name, language in zip(names, tokens.languages, strict=True)
            ],
            bool,
        ),
    )
    texts = kernels.Texts(
        tokens.token, tokens.pos, tokens.sentence, tokens.offsets, tokens.in_sentences
    )
    table, token, shown, best = kernels.occurrences(
        texts, kinds, len(words.stems), words.term, words.offsets, _GROUP
    )
    word, position, sentence, title, pos, phrase, capital, upper = np.ascontiguousarray(table.T)
    rows = np.flatnonzero(np.diff(words.offsets))
    sizes = np.diff(words.offsets)[rows]
    document = np.repeat(rows, sizes)[word]
    places = tokens.offsets[document] + position
    links = Links.none(len(word))
    if phrases:
        links = links_of(words, places, document, sentence, numbers, options)
    forms = list(numbers)
    used, term = distinct(words.term, len(words.stems))
    stems = sorted({*(words.stems[i] for i in used), *links.texts})
    place = {text: i for i, text in enumerate(stems)}
    complete = np.array([bool(label.complete) for label in labels], bool)
    unlabelled = np.array([label.keywords is None for label in labels], bool) & ~complete
    letter = np.isin(words.term, words.kinds.stem[words.kinds.letter])
    surfaces = [forms[i] for i in best]
    packed = DocumentTokens(
        term=np.array([place[words.stems[i]] for i in used], np.int64)[term],
        y=np.zeros(len(term), bool),
        offsets=np.append(0, np.cumsum(sizes)),
        fold=np.array([fold_of(labels[d].doc_id) for d in rows.tolist()], np.int64),
        complete=complete[rows],
        n_tokens=np.diff(tokens.offsets)[rows],
        length=np.array([len(surface) for surface in surfaces], np.int64),
        hyphen=np.array(["-" in surface for surface in surfaces], bool),
        word=word,
        position=position,
        sentence=sentence,
        title=title.astype(bool),
        pos=pos,
        phrase=phrase,
        capital=capital.astype(bool),
        upper=upper.astype(bool),
        unlabelled=unlabelled[rows],
        score=None if np.isnan(score).all() else score,
        link=links.link(place) if phrases else None,
        given=links.given if phrases else None,
        given_only=phrases and only,
        letter=letter if letter.any() else None,
    )
    # Forms that are written nowhere, as a lower-case one may be, have no number.
    parts = np.concatenate([token, shown, links.form])
    own, code = distinct(parts[parts >= 0], len(forms))
    numbered = np.full(len(parts), -1, np.int32)
    numbered[parts >= 0] = code
    form, shown, link = np.split(numbered, 3)
    return _LaidOut(
        packed, stems, [forms[i] for i in own], rows.tolist(), places, form, shown, link
    )
