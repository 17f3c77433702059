"""From documents to candidate words, what is known of them, and what could not be used.

`read_documents` reads one partition; `vbmodels.keywords.features` makes features of it, with the
counts of the whole corpus. Its `Report` counts what was read, and names the first of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.text import token_kernels as kernels
from vbmodels.text.candidate_words import (
    NO_VOCABULARY,
    CandidateWords,
    Vocabulary,
    candidate_words,
    document_of,
    links_of,
    name_terms,
)
from vbmodels.text.candidates import (
    UNKNOWN_TRUTH,
    DocumentTokens,
    Marks,
    Said,
    Spans,
    fold_of,
    mark,
    said_of,
    spans_of,
)
from vbmodels.text.languages import NOUNS_IN_CAPITALS
from vbmodels.text.listed_only import ListedPhrase, Unmatched, listed_word, sort_out
from vbmodels.text.repeats import Originals, Sample
from vbmodels.text.tokens import Labels, Reading, Row, Tokens, distinct, read_tokens
from vbmodels.text.words import POS_GROUPS, TextOptions

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
    """What rows say of words: which are known and how they are scored; and of phrases.

    Parameters
    ----------
    known
        Rows of the known candidates.
    absent
        Known keyphrases that lack a candidate, as `Report` has them.
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
    listed
        Where words are the candidates: known words that are none, with the numbers of their rows.
    """

    known: set[int] = field(default_factory=set)
    absent: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=lambda: [0, 0])
    scores: dict[int, float] = field(default_factory=dict)
    unused: Named = field(default_factory=Named)
    gold: dict[int, bool] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)
    listed: dict[tuple[int, str], ListedPhrase] = field(default_factory=dict)


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
        Numbers of sentences that are left out (`repeats`).
    """
    tokens, labels, readings = read_tokens(rows, options, shared)
    words = candidate_words(tokens, options, phrases)
    if vocabulary.terms:
        words = name_terms(words, options, vocabulary)
    names = [label.doc_id for label in labels]
    shortened = _shorten(words, names, options.max_words)
    matched = _match(labels, words, options, phrases)
    report = Report(
        documents=len(names),
        tokens=len(words.tokens.token),
        absent_keywords=Named.of(matched.absent),
        shortened=Named.of(shortened),
        unused_scores=matched.unused,
        cleaned=Named.of(
            [
                f"{name} ({', '.join(one.removed)})"
                for name, one in zip(names, readings, strict=True)
                if one.removed
            ]
        ),
        languages=Counter(one.language or "" for one in readings),
        terms=words.found_terms,
        shared=Named.of([n for n, one in zip(names, readings, strict=True) if one.shared]),
        marks=Counter(label.mark for label in labels if label.mark is not None),
    )
    return _pack(labels, words, matched, report, options, phrases, vocabulary, readings)


def _match(
    labels: Sequence[Labels], words: CandidateWords, options: TextOptions, phrases: bool
) -> _Matched:
    """Match what the rows list and score with their documents' candidates."""
    found = _Matched()
    for d, label in enumerate(labels):
        doc_id, keywords, gold = label.doc_id, label.keywords, label.gold
        scored, scores = label.scored, label.scores
        if words.offsets[d] == words.offsets[d + 1] and not (keywords or scored):
            continue
        normalise = words.normaliser(d, options)
        places = words.of(d) if keywords or scored or gold is not None else {}
        for keyword in keywords or ():
            there, missing = normalise.keyword(keyword, places)
            found.known.update(map(places.__getitem__, there))
            found.sizes[0] += bool(there)
            found.sizes[1] += len(there) > 1
            every = words.stand_in(d) if missing and not phrases else set()
            for word in missing:
                stem = normalise(word)
                if stem in every:
                    found.listed[d, stem] = listed_word(words, d, word, stem)
            if absent := [f"{word}: absent" for word in missing if normalise(word) not in every]:
                found.absent.append(f"{doc_id}: {keyword} ({', '.join(absent)})")
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


def _pack(
    rows: Sequence[Labels],
    words: CandidateWords,
    labels: _Matched,
    report: Report,
    options: TextOptions,
    phrases: bool,
    vocabulary: Vocabulary,
    readings: Sequence[Reading],
) -> ReadDocuments:
    """Lay the documents that have a word end to end."""
    tokens, size = words.tokens, len(words.term)
    forms: dict[str, int] = {}
    form_of = np.array([forms.setdefault(n, len(forms)) for n in tokens.names], np.int64)
    lower = np.array([forms.setdefault(n.lower(), len(forms)) for n in tokens.names], np.int64)
    texts = kernels.Texts(
        tokens.token, tokens.pos, tokens.sentence, tokens.offsets, tokens.in_sentences
    )
    kinds = kernels.Kinds(
        stem=words.kinds.stem,
        capital=np.array([name[:1].isupper() for name in tokens.names], bool),
        upper=np.array([len(name) > 1 and name.isupper() for name in tokens.names], bool),
        form=form_of,
        lower=lower,
        noun_capitals=_keeps_capital(tokens),
    )
    table, token, shown, best = kernels.occurrences(
        texts, kinds, len(words.stems), words.term, words.offsets, _GROUP
    )
    word, position, sentence, title, pos, phrase, capital, upper = np.ascontiguousarray(table.T)
    has = np.diff(words.offsets) > 0
    sizes = np.diff(words.offsets)[has]
    names = [row.doc_id for row, kept in zip(rows, has, strict=True) if kept]
    folds = np.array([fold_of(name) for name in names], np.int64)
    occurrences = tokens.offsets[:-1][has][document_of(sizes)[word]] + position
    linked = (
        links_of(words, occurrences, word, sentence, sizes, forms, options) if phrases else None
    )
    used, term = distinct(words.term, len(words.stems))
    stems = sorted({*(words.stems[i] for i in used), *(linked.texts if linked is not None else ())})
    place = {text: i for i, text in enumerate(stems)}
    term = np.array([place[words.stems[i]] for i in used], np.int64)[term]
    observed = np.zeros(size, bool)
    written = list(forms)
    shortest, form = distinct(best, len(forms))
    surfaces = [written[i] for i in shortest]
    complete = np.array([bool(row.complete) for row in rows], bool)
    unlabelled = np.array([row.keywords is None for row in rows], bool) & ~complete
    letter = np.isin(words.term, words.kinds.stem[words.kinds.letter])
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
        link=None if linked is None else linked.link(place),
        given=None if linked is None else linked.given,
        given_only=phrases and vocabulary.only,
        letter=letter if letter.any() else None,
    )
    listed = sum(len(row.keywords or ()) for row in rows)
    report = replace(report, words=size, listed=listed)
    between = np.full(len(token), -1) if linked is None else linked.form
    own, code = distinct(np.concatenate([token, shown, between[between >= 0]]), len(written))
    of_form, of_shown = code[: len(token)], code[len(token) : 2 * len(token)]
    of_link = np.full(len(token), -1)
    of_link[between >= 0] = code[2 * len(token) :]
    unmatched = Unmatched(list(labels.listed.values()))
    kept_rows, lost_rows = np.flatnonzero(has).tolist(), np.flatnonzero(~has).tolist()
    if phrases:
        marks, spans, absent = mark(packed, stems, labels.said, (of_form, of_shown, of_link))
        observed[spans.words[marks.y][spans.words[marks.y] >= 0]] = True
        packed = replace(packed, y=observed)
        every = [(d, term) for d in lost_rows for term in rows[d].keywords or ()]
        every += [(kept_rows[d], term) for d, term in absent]
        unmatched = sort_out(words, every, occurrences, options)
        lost = [
            f"{rows[d].doc_id}: {term}" + (f" ({reason})" if reason else "")
            for d, term, reason in unmatched.absent
        ]
        lost_rows += [kept_rows[d] for d in np.flatnonzero(np.diff(spans.offsets) == 0).tolist()]
        report = replace(
            report,
            absent_keywords=Named.of(by_document(lost)),
            separators=+unmatched.separators,
        )
    else:
        observed[list(labels.known)] = True
        gold = np.full(size, UNKNOWN_TRUTH, np.int8)
        gold[list(labels.gold)] = list(labels.gold.values())
        own_form, own_shown, none = (one.astype(np.int32) for one in (of_form, of_shown, of_link))
        none_listed = np.zeros(len(names), np.int64)
        marks = Marks(observed, gold, none_listed, own_form, own_shown, none, packed.score)
        spans = spans_of(packed, stems, False)
    there = {one.document for one in unmatched.listed}
    number = {d: i for i, d in enumerate([*kept_rows, *sorted(there - {*kept_rows})])}
    report = replace(
        report,
        observed=int(observed.sum()),
        without_words=Named.of([rows[d].doc_id for d in lost_rows if d not in there]),
        listed_only=Named.of([f"{rows[o.document].doc_id}: {o.term}" for o in unmatched.listed]),
    )
    return ReadDocuments(
        tokens=packed,
        vocabulary=stems,
        names=[rows[d].doc_id for d in number],
        marks=marks,
        spans=spans,
        forms=[written[i] for i in own],
        report=report,
        known=labels.sizes[0],
        several=labels.sizes[1],
        listed=[one._replace(document=number[one.document]) for one in unmatched.listed],
        sample=Sample.of([one.key for one in readings], [one.sentences for one in readings]),
        originals=Originals(
            np.array([one.key for one in readings], np.uint64)[has], folds, packed.looked_at
        ),
    )


def _keeps_capital(tokens: Tokens) -> BoolArray:
    """Return whether a token [V] that begins a sentence keeps its capital, if nothing is known."""
    pairs = zip(tokens.names, tokens.languages, strict=True)
    found = [
        language in NOUNS_IN_CAPITALS or name[1:].lower() != name[1:] or name[1:2] == "."
        for name, language in pairs
    ]
    return np.array(found, bool)


def _scores(found: dict[int, float], size: int) -> FloatArray | None:
    """Return the words' scores [W]; None where none has any."""
    if not found:
        return None
    scores = np.full(size, np.nan)
    scores[list(found)] = list(found.values())
    return scores
