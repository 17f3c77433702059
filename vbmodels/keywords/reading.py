"""From documents to candidate words, what is known of them, and the arrays that models observe.

`read_documents` reads one partition; `vbmodels.keywords.features` makes features of it, with the
counts of the whole corpus.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords import token_kernels as kernels
from vbmodels.keywords.candidates import UNKNOWN_TRUTH, Marks, Said, mark, said_of, spans_of
from vbmodels.keywords.documents import DocumentTokens
from vbmodels.keywords.features import POS_GROUPS, fold_of
from vbmodels.keywords.languages import ENGLISH, NOUNS_IN_CAPITALS, plain
from vbmodels.keywords.named_phrases import (
    MOST_BETWEEN,
    Finder,
    Occurrence,
    Pattern,
    Rules,
    occurrences_of,
    patterns_of,
)
from vbmodels.keywords.phrases.spans import VERB, Spans
from vbmodels.keywords.text import MOST_KNOWN, Normaliser, Parts, TextOptions
from vbmodels.keywords.tokens import Labels, Row, Tokens, distinct, read_tokens

SEPARATORS = (",", "|", "/", "\t", "\n", "，", "、", "；", "،")
"""What people put between keywords, where the product has ;."""
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


def _by_document(lost: Sequence[str]) -> list[str]:
    """Put one of each document before the others, which examples of many documents need.

    >>> _by_document(["a: x", "a: y", "b: z"])
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
        Documents without any candidate word: no row of the result is theirs.
    listed
        Known keyphrases.
    absent_keywords
        Those of them that are no candidates, as "doc_id: keyword". Of words, where a word of the
        keyword is none, "doc_id: keyword (missing word: absent or too rare)"; an absent word does
        not occur as a noun, adjective or verb, a rare one fewer than ``min_count`` times, and the
        keyword's other words count as observed.
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
    """

    documents: int = 0
    tokens: int = 0
    words: int = 0
    observed: int = 0
    listed: int = 0
    without_words: Named = field(default_factory=Named)
    absent_keywords: Named = field(default_factory=Named)
    shortened: Named = field(default_factory=Named)
    unused_scores: Named = field(default_factory=Named)
    cleaned: Named = field(default_factory=Named)
    separators: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    terms: Counter[str] = field(default_factory=Counter)

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

_PROPER = POS_GROUPS.index("proper_noun")


@dataclass(frozen=True)
class Vocabulary:
    """Phrases that are candidates wherever a text has them.

    ``terms``: the phrases. ``only``: whether no others are candidates, but for the known ones.
    """

    terms: tuple[str, ...] = ()
    only: bool = False


NO_VOCABULARY = Vocabulary()


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
        Known keyphrases with a candidate word, and those of them with several.
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


@dataclass(frozen=True)
class _Kinds:
    """What the distinct tokens of a partition are.

    Parameters
    ----------
    stem, normal
        [V] numbers of the stem, -1 where it has none, and of the normal form.
    link
        [V] whether it is a stop word, which may be inside a phrase.
    named
        [V] whether it is of phrases that the user names: candidates however rare.
    """

    stem: IntArray
    normal: IntArray
    link: BoolArray
    named: BoolArray


@dataclass
class _Words:
    """The candidate words of a partition's documents, as they are found.

    Parameters
    ----------
    tokens
        Its tokens.
    kinds
        What the distinct tokens are.
    stems
        [S] the distinct normal forms of these.
    least
        [D] fewest occurrences of a candidate.
    term, count, offsets
        [W] stem and occurrences of every candidate, and [D + 1] where each document's begin.
    named
        Phrases that the user names, in their order.
    separators, found_terms
        As `Report` has them: the latter are its terms.
    reasons
        Why a known keyphrase of a document is no candidate, where that can be said.
    """

    tokens: Tokens
    kinds: _Kinds
    stems: list[str]
    least: IntArray
    term: IntArray
    count: IntArray
    offsets: IntArray
    named: Sequence[Occurrence] = ()
    separators: Counter[str] = field(default_factory=Counter)
    found_terms: Counter[str] = field(default_factory=Counter)
    reasons: dict[tuple[int, str], str] = field(default_factory=dict)

    @property
    def kept(self) -> BoolArray:
        """[W] whether a candidate is of a phrase that the user names."""
        found = np.zeros(len(self.term), bool)
        for d in np.flatnonzero(np.diff(self.offsets)):
            own = self.tokens.token[self.tokens.offsets[d] : self.tokens.offsets[d + 1]]
            stems = self.kinds.stem[own[self.kinds.named[own]]]
            rows = slice(self.offsets[d], self.offsets[d + 1])
            found[rows] = np.isin(self.term[rows], stems)
        return found

    def of(self, d: int) -> dict[str, int]:
        """Return the candidates of a document with their rows."""
        first, last = int(self.offsets[d]), int(self.offsets[d + 1])
        stems = map(self.stems.__getitem__, self.term[first:last].tolist())
        return dict(zip(stems, range(first, last), strict=True))

    def stand_in(self, d: int) -> set[str]:
        """Return the stems of all words of a document, candidates or not."""
        own = slice(self.tokens.offsets[d], self.tokens.offsets[d + 1])
        stem = self.kinds.stem[self.tokens.token[own]]
        return {self.stems[i] for i in stem[(stem >= 0) & (self.tokens.pos[own] != kernels.OTHER)]}

    def normaliser(self, d: int, options: TextOptions) -> Normaliser:
        """Return the normaliser of a document's language."""
        start, end = self.tokens.offsets[d : d + 2]
        language = self.tokens.languages[self.tokens.token[start]] if start < end else ENGLISH
        return Normaliser.of(options.in_language(language))

    def is_link(self, kinds: Sequence[int], options: TextOptions) -> bool:
        """Return whether a phrase that nobody names may have these tokens inside."""
        if not self.kinds.link[list(kinds)].all():
            return False
        normalise = Normaliser.of(options.in_language(self.tokens.languages[kinds[0]]))
        return normalise.is_link([self.tokens.names[kind] for kind in kinds])

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
    """

    known: set[int] = field(default_factory=set)
    absent: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=lambda: [0, 0])
    scores: dict[int, float] = field(default_factory=dict)
    unused: Named = field(default_factory=Named)
    gold: dict[int, bool] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)


def read_documents(
    rows: Iterable[Row], options: TextOptions, phrases: bool, vocabulary: Vocabulary = NO_VOCABULARY
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
    """
    tokens, labels, readings = read_tokens(rows, options)
    words = _candidates(tokens, options)
    if phrases:
        words = _name_phrases(words, labels, options, vocabulary)
    matched = _match(labels, words, options, phrases)
    names = [label.doc_id for label in labels]
    report = Report(
        documents=len(names),
        tokens=len(words.tokens.token),
        absent_keywords=Named.of(matched.absent),
        shortened=Named.of(_shorten(words, matched, names, options.max_words)),
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
    )
    return _pack(labels, words, matched, report, options, phrases, vocabulary)


def _candidates(tokens: Tokens, options: TextOptions) -> _Words:
    """Find every document's words that are frequent enough."""
    numbers: dict[str, int] = {}
    stem, normal, acronym, link = [], [], [], []
    by_language = {
        language: Normaliser.of(options.in_language(language)) for language in {*tokens.languages}
    }
    for name, language in zip(tokens.names, tokens.languages, strict=True):
        normalise = by_language[language]
        own = normalise(name)
        normal.append(numbers.setdefault(own or plain(name), len(numbers)))
        stem.append(-1 if own is None else normal[-1])
        acronym.append(normalise.is_acronym(name))
        link.append(own is None and name[:1].isalpha())
    named = np.array(acronym, bool)[tokens.token] & (tokens.pos == kernels.OTHER)
    tokens = replace(tokens, pos=np.where(named, _PROPER, tokens.pos))
    kinds = _Kinds(
        np.array(stem, np.int64),
        np.array(normal, np.int64),
        np.array(link, bool),
        np.zeros(len(stem), bool),
    )
    least = np.array([options.least(n) for n in np.diff(tokens.offsets).tolist()], np.int64)
    return _counted(tokens, kinds, list(numbers), least)


def _counted(tokens: Tokens, kinds: _Kinds, stems: list[str], least: IntArray) -> _Words:
    """Count the candidate words of every document."""
    found = kernels.candidates(
        tokens.token, tokens.pos, tokens.offsets, kinds.stem, len(stems), least, kinds.named
    )
    return _Words(tokens, kinds, stems, least, *found)


def _why_absent(variants: Sequence[Parts], number: dict[str, int], normal: IntArray) -> str | None:
    """Return why a document's known keyphrase is not in its text; None where it just is not."""
    if not variants:
        return "no letter and no digit"
    if all(sum(one.is_word) > MOST_KNOWN for one in variants):
        return f"more than {MOST_KNOWN} words"
    own = {number.get(token, -1) for token in variants[0].tokens}
    if len(own) > 1 and own <= set(normal.tolist()):
        return "its words are apart"
    return None


def _name_phrases(
    words: _Words, labels: Sequence[Labels], options: TextOptions, vocabulary: Vocabulary
) -> _Words:
    """Make candidates of the known keyphrases and of a vocabulary's terms that a text has."""
    tokens, kinds = words.tokens, words.kinds
    number = {text: i for i, text in enumerate(words.stems)}
    normal = kinds.normal[tokens.token]

    def is_link(places: IntArray) -> bool:
        return words.is_link(tokens.token[places].tolist(), options)

    rules = Rules(normal, kinds.stem[tokens.token], tokens.pos, is_link)
    found: set[Occurrence] = set()
    finders: dict[str, tuple[Finder, dict[Pattern, set[str]]]] = {}
    for d, label in enumerate(labels):
        start, end = int(tokens.offsets[d]), int(tokens.offsets[d + 1])
        if start == end:
            continue
        normalise = words.normaliser(d, options)
        language = tokens.languages[tokens.token[start]]
        for term in label.keywords or ():
            there = occurrences_of(normalise.variants(term), number, normal[start:end], start)
            named = there
            if not vocabulary.only:  # else what the rules find is no candidate
                named = rules.to_name(there, start, end - start, int(words.least[d]))
            found.update(named)
            if there:
                continue
            for sign in SEPARATORS:
                pieces = [piece for piece in term.split(sign) if piece.strip()]
                split = (
                    occurrences_of(normalise.variants(p), number, normal[start:end], start)
                    for p in pieces
                )
                words.separators[sign] += len(pieces) > 1 and any(split)
            if reason := _why_absent(normalise.variants(term), number, normal[start:end]):
                words.reasons[d, term] = reason
        if vocabulary.terms:
            if language not in finders:
                terms_of: dict[Pattern, set[str]] = {}
                for term in vocabulary.terms:
                    for pattern in patterns_of(normalise.variants(term), number):
                        terms_of.setdefault(pattern, set()).add(term)
                finders[language] = Finder(terms_of), terms_of
            finder, terms_of = finders[language]
            own: set[str] = set()
            for pattern, one in finder(normal[start:end], start):
                found.add(one)
                own.update(terms_of[pattern])
            words.found_terms.update(own)
    if not found:
        return words
    places = np.unique(np.array([place for one in found for place in one.words], np.int64))
    first = len(tokens.names)
    old, kind = np.unique(tokens.token[places], return_inverse=True)
    token, pos = tokens.token.copy(), tokens.pos.copy()
    token[places] = first + kind
    # What is no ordinary candidate is in no other phrase, as verbs are not.
    plain_word = (kinds.stem[old] >= 0)[kind] & (pos[places] != kernels.OTHER)
    pos[places] = np.where(plain_word, pos[places], VERB)
    tokens = replace(
        tokens,
        names=[*tokens.names, *(tokens.names[i] for i in old)],
        languages=[*tokens.languages, *(tokens.languages[i] for i in old)],
        token=token,
        pos=pos,
    )
    kinds = _Kinds(
        np.append(kinds.stem, kinds.normal[old]),
        np.append(kinds.normal, kinds.normal[old]),
        np.append(kinds.link, kinds.link[old]),
        np.append(kinds.named, np.ones(len(old), bool)),
    )
    in_order = sorted(found, key=lambda one: (one.words[0], len(one.words)))
    return replace(
        _counted(tokens, kinds, words.stems, words.least), named=in_order,
        separators=words.separators, found_terms=words.found_terms, reasons=words.reasons,
    )  # fmt: skip


def _match(
    labels: Sequence[Labels], words: _Words, options: TextOptions, phrases: bool
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
    shortened, out = [], []
    long = np.flatnonzero(np.diff(words.offsets) > most)
    kept_rows = {*labels.known, *(np.flatnonzero(words.kept).tolist() if len(long) else ())}
    for d in long:
        first, last = int(words.offsets[d]), int(words.offsets[d + 1])
        shortened.append(f"{names[d]} ({last - first})")
        rows = range(first, last)
        known = sum(row in kept_rows for row in rows)
        ranked = sorted(rows, key=lambda row: (row not in kept_rows, -words.count[row], row))
        out += ranked[max(most, known) :]
    if out:
        kept = np.setdiff1d(np.arange(len(words.term)), out)
        place = {int(row): i for i, row in enumerate(kept)}
        words.keep(kept)
        labels.known = {place[row] for row in labels.known}
        labels.scores = {place[r]: value for r, value in labels.scores.items() if r in place}
        labels.gold = {place[r]: value for r, value in labels.gold.items() if r in place}
    return shortened


def _pack(
    rows: Sequence[Labels], words: _Words, labels: _Matched, report: Report,
    options: TextOptions, phrases: bool, vocabulary: Vocabulary,
) -> ReadDocuments:  # fmt: skip
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
    occurrences = tokens.offsets[:-1][has][_document_of(sizes)[word]] + position
    linked = _links(words, occurrences, word, sentence, sizes, forms, options) if phrases else None
    used, term = distinct(words.term, len(words.stems))
    stems = sorted({*(words.stems[i] for i in used), *(linked.texts if linked is not None else ())})
    place = {text: i for i, text in enumerate(stems)}
    term = np.array([place[words.stems[i]] for i in used], np.int64)[term]
    observed = np.zeros(size, bool)
    observed[list(labels.known)] = True
    written = list(forms)
    shortest, form = distinct(best, len(forms))
    surfaces = [written[i] for i in shortest]
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
        link=None if linked is None else linked.link(place),
        given=None if linked is None else linked.given,
        given_only=phrases and vocabulary.only,
    )
    missing = [row for row, kept in zip(rows, has, strict=True) if not kept]
    without = Named.of([row.doc_id for row in missing])
    listed = sum(len(row.keywords or ()) for row in rows)
    report = replace(
        report, words=size, observed=len(labels.known), without_words=without, listed=listed
    )
    between = np.full(len(token), -1) if linked is None else linked.form
    own, code = distinct(np.concatenate([token, shown, between[between >= 0]]), len(written))
    of_form, of_shown = code[: len(token)], code[len(token) : 2 * len(token)]
    of_link = np.full(len(token), -1)
    of_link[between >= 0] = code[2 * len(token) :]
    if phrases:
        marks, spans, absent = mark(packed, stems, labels.said, (of_form, of_shown, of_link))
        observed[spans.words[marks.y][spans.words[marks.y] >= 0]] = True
        packed = replace(packed, y=observed)
        rows_of = np.flatnonzero(has).tolist()
        lost = [f"{row.doc_id}: {term}" for row in missing for term in row.keywords or ()]
        for d, keyword in absent:
            reason = words.reasons.get((rows_of[d], keyword))
            lost.append(f"{names[d]}: {keyword}" + (f" ({reason})" if reason else ""))
        bare = [names[d] for d in np.flatnonzero(np.diff(spans.offsets) == 0).tolist()]
        report = replace(
            report, observed=int(observed.sum()), absent_keywords=Named.of(_by_document(lost)),
            without_words=without + Named.of(bare),
            separators=+words.separators,
        )  # fmt: skip
    else:
        gold = np.full(size, UNKNOWN_TRUTH, np.int8)
        gold[list(labels.gold)] = list(labels.gold.values())
        own_form, own_shown, none = (one.astype(np.int32) for one in (of_form, of_shown, of_link))
        marks = Marks(observed, gold, labels.sizes[0], own_form, own_shown, none, packed.score)
        spans = spans_of(packed, stems, False)
    return ReadDocuments(
        tokens=packed,
        vocabulary=stems,
        names=names,
        marks=marks,
        spans=spans,
        forms=[written[i] for i in own],
        report=report,
        known=labels.sizes[0],
        several=labels.sizes[1],
    )


def _keeps_capital(tokens: Tokens) -> BoolArray:
    """Return whether a token [V] that begins a sentence keeps its capital, if nothing is known."""
    pairs = zip(tokens.names, tokens.languages, strict=True)
    found = [
        language in NOUNS_IN_CAPITALS or name[1:].lower() != name[1:] for name, language in pairs
    ]
    return np.array(found, bool)


def _document_of(sizes: IntArray) -> IntArray:
    """Return the number of the document of every word."""
    return np.repeat(np.arange(len(sizes)), sizes)


@dataclass(frozen=True)
class _Links:
    """What is between words that may be of one phrase.

    Parameters
    ----------
    texts
        The distinct normal forms.
    number
        [T] which of these is between a word and the next one, -1 where nothing is.
    free
        [T] whether it may be inside of phrases that nobody names.
    form
        [T] number of its written form, -1 where nothing is.
    given
        [G, 2] as `DocumentTokens` has it.
    """

    texts: list[str]
    number: IntArray
    free: BoolArray
    form: IntArray
    given: IntArray

    def link(self, place: dict[str, int]) -> IntArray:
        """Return the links [T] as `DocumentTokens` has them."""
        places = np.array([*(place[text] for text in self.texts), -1], np.int64)[self.number]
        return np.where(self.free | (self.number < 0), places, -2 - places)


def _links(
    words: _Words, occurrences: IntArray, word: IntArray, sentence: IntArray, sizes: IntArray,
    forms: dict[str, int],
    options: TextOptions,
) -> _Links:  # fmt: skip
    """Find what is between words that may be of one phrase, and the named phrases' places.

    Parameters
    ----------
    occurrences
        [T] places of the candidate words among all tokens.
    word, sentence
        [T] as `DocumentTokens` has them.
    sizes
        [D] words of every document.
    forms
        Numbers of written forms; new ones are added.
    """
    tokens, kinds = words.tokens, words.kinds
    size = len(occurrences)
    gap = np.append(np.diff(occurrences) - 1, 0)
    document = _document_of(sizes)[word]
    same = np.append((document[1:] == document[:-1]) & (sentence[1:] == sentence[:-1]), False)[
        :size
    ]
    others = np.concatenate([[0], np.cumsum(~kinds.link[tokens.token])])
    free = same & (gap > 0) & (gap <= MOST_BETWEEN)
    rows = np.flatnonzero(free)
    free[rows] = others[occurrences[rows] + gap[rows] + 1] == others[occurrences[rows] + 1]
    row_of = {place: i for i, place in enumerate(occurrences.tolist())} if words.named else {}
    given: list[tuple[int, int]] = []
    named: set[int] = set()
    for one in words.named:
        places = [row_of.get(place, -1) for place in one.words]
        if min(places) < 0 or places[-1] - places[0] != len(places) - 1:
            continue  # its document was shortened
        given.append((places[0], len(places)))
        named.update(i for i in places[:-1] if gap[i])
    texts: dict[str, int] = {}
    number, form = np.full(size, -1), np.full(size, -1)
    seen: dict[tuple[int, ...], tuple[int, int, bool]] = {}
    for i in sorted({*np.flatnonzero(free).tolist(), *named}):
        first = int(occurrences[i]) + 1
        between = tuple(tokens.token[first : first + int(gap[i])].tolist())
        if between not in seen:
            normal = " ".join(words.stems[kinds.normal[kind]] for kind in between)
            written = " ".join(tokens.names[kind] for kind in between)
            seen[between] = (
                texts.setdefault(normal, len(texts)),
                forms.setdefault(written, len(forms)),
                words.is_link(between, options),
            )
        number[i], form[i], inside = seen[between]
        free[i] &= inside
    unused = ~free
    unused[list(named)] = False
    number[unused], form[unused] = -1, -1
    return _Links(list(texts), number, free, form, np.array(given, np.int64).reshape(-1, 2))


def _scores(found: dict[int, float], size: int) -> FloatArray | None:
    """Return the words' scores [W]; None where none has any."""
    if not found:
        return None
    scores = np.full(size, np.nan)
    scores[list(found)] = list(found.values())
    return scores
