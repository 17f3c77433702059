"""The rows of a result: how candidates are written, and known keyphrases that are none.

A candidate is written as the forms of its words, joined. Known keyphrases that a text has and that
the rules for candidates do not find are named by a list alone, so they say nothing of what is not
listed: a model that counted them would learn that what is listed is listed. They are in the result,
with probability 1, and in nothing that a model sees.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.text import token_kernels as kernels
from vbmodels.text.candidate_words import CandidateWords, Places, occurrences_of
from vbmodels.text.candidates import DocumentTokens, Marks, Spans
from vbmodels.text.languages import SIGN, plain
from vbmodels.text.words import GENITIVE, MOST_KNOWN, Parts, TextOptions

_UNSPACED = re.compile(rf"(?<={SIGN}) (?={SIGN})")
"""A blank between letters of a script that has none between words."""
_ELISION = re.compile(r"(?<=\w['’]) ", re.ASCII)  # l'eau
_GENITIVE = re.compile(r"(?<=\w) (?=['’]s\b)", re.ASCII)  # Jerry's
Numbers = NDArray[np.signedinteger]


@dataclass(frozen=True)
class JoinedTexts(Sequence[str]):
    """Texts [M] of parts with blanks between them, joined where they are looked at.

    Attributes
    ----------
    parts
        The distinct parts.
    numbers
        [M, K] of each text's parts; -1 is none.
    otherwise
        Texts that are written otherwise, by their number.
    """

    parts: Sequence[str]
    numbers: Numbers
    otherwise: Mapping[int, str]

    @classmethod
    def of(cls, parts: Sequence[str], numbers: Numbers) -> Self:
        """Join parts; blanks that no writer puts there are left out."""
        may = np.array([*map(_may_close_up, parts), False])
        apart = np.logical_or.reduce([may[column] for column in numbers.T])
        texts = cls(parts, numbers, {})
        closed = {row: close_up(texts[row]) for row in np.flatnonzero(apart).tolist()}
        return cls(parts, numbers, closed)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, row: Any) -> Any:
        if (text := self.otherwise.get(row)) is not None:
            return text
        return " ".join([self.parts[i] for i in self.numbers[row].tolist() if i >= 0])

    def with_others(self, others: Sequence[str], order: IntArray) -> Self:
        """Return these and others in another order, of which both together have the numbers."""
        row = np.argsort(order)
        otherwise = {**self.otherwise, **dict(enumerate(others, len(self)))}
        none = np.full(len(others), -1, np.int32)
        columns = [np.append(column, none)[order] for column in self.numbers.T]
        return replace(
            self,
            numbers=np.array(columns).T,
            otherwise={int(row[i]): text for i, text in otherwise.items()},
        )


@dataclass(frozen=True)
class Written:
    """How a partition's candidates are written.

    Attributes
    ----------
    term
        [M] in the most frequent form, without the capital of a sentence's beginning.
    surface
        [M] as it is written at its first occurrence.
    stem
        [M] its stems.
    position, occurrences
        [M] tokens before its first occurrence, and how many there are.
    """

    term: JoinedTexts
    surface: JoinedTexts
    stem: JoinedTexts
    position: IntArray
    occurrences: IntArray


def written(
    tokens: DocumentTokens,
    spans: Spans,
    vocabulary: Sequence[str],
    marks: Marks,
    forms: Sequence[str],
) -> Written:
    """Return how every candidate is written.

    ``vocabulary`` and ``forms``: the partition's distinct stems, and the distinct written forms of
    its words.
    """
    width = spans.words.shape[1]
    each = _between(spans.start, spans.size[spans.phrase], width, marks.shown, marks.link)
    # "Support Vector" at a sentence's beginning is a name as much as it is elsewhere.
    kept = tokens.capital | tokens.upper
    uncapitalised = np.zeros(tokens.n_words, bool)
    uncapitalised[tokens.word[(marks.form == marks.shown) & ~kept]] = True
    named = np.flatnonzero(spans.size[spans.phrase] > 1)
    first = spans.start[named]
    between = {link for link in np.unique(marks.link[first]).tolist() if link >= 0}
    genitive = np.isin(marks.link[first], [i for i in between if plain(forms[i]) == GENITIVE])
    if tokens.letter is not None:
        kept = kept & ~tokens.letter[tokens.word]
    named = named[(kept[first + 1] | genitive) & ~uncapitalised[tokens.word[first]]]
    each[named, 0] = marks.form[spans.start[named]]
    terms = tokens.term[tokens.word]
    return Written(
        JoinedTexts.of(forms, _most_frequent(spans, each)),
        JoinedTexts.of(forms, _between(spans.first, spans.size, width, marks.form, marks.link)),
        JoinedTexts.of(vocabulary, _between(spans.first, spans.size, width, terms, tokens.between)),
        tokens.position[spans.first].astype(np.int64),
        spans.count,
    )


def _between(
    start: IntArray, size: IntArray, width: int, words: Numbers, links: Numbers
) -> Numbers:
    """Return the numbers [n, 2 width - 1] of words in a row and of what is between them.

    -1 where nothing is.

    Parameters
    ----------
    start, size
        [n] the first word of each row, and how many it has.
    words, links
        [T] numbers of every word, and of what is between it and the next one.
    """
    found = np.full((2 * width - 1, len(start)), -1, np.int32).T  # read by column
    if not len(words):
        return found
    for i in range(width):
        rows = np.flatnonzero(size > i)
        found[rows, 2 * i] = words[start[rows] + i]
        if i + 1 < width:
            rows = np.flatnonzero(size > i + 1)
            found[rows, 2 * i + 1] = links[start[rows] + i]
    return found


def _most_frequent(spans: Spans, each: Numbers) -> Numbers:
    """Return the most frequent row of ``each`` [O, K] of a phrase; the earlier of equals."""
    chosen = np.empty((each.shape[1], len(spans.size)), np.int32).T
    chosen[spans.phrase] = each
    again = np.flatnonzero(spans.count[spans.phrase] > 1)
    if not len(again):
        return chosen
    order = again[np.lexsort((spans.start[again], *each[again].T[::-1], spans.phrase[again]))]
    phrase, rows, start = spans.phrase[order], each[order], spans.start[order]
    new = np.ones(len(phrase), bool)
    new[1:] = (phrase[1:] != phrase[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
    at = np.flatnonzero(new)
    times = np.diff(np.append(at, len(phrase)))
    best = np.lexsort((start[at], -times, phrase[at]))
    first = np.ones(len(best), bool)
    first[1:] = phrase[at][best][1:] != phrase[at][best][:-1]
    one = at[best[first]]
    chosen[phrase[one]] = rows[one]
    return chosen


def _may_close_up(text: str) -> bool:
    """Whether a text of which this is a part may have a blank that no writer puts there."""
    return not text.isascii() or "/" in text or "'" in text


def close_up(text: str) -> str:
    """Leave out the blanks that no writer puts between two words."""
    text = text.replace(" / ", "/")
    if "'" in text or "’" in text:
        text = _GENITIVE.sub("", _ELISION.sub("", text))
    return text if text.isascii() else _UNSPACED.sub("", text)


def longer_phrases(
    document: IntArray,
    stem: Mapping[int, str] | Sequence[str],
    term: Mapping[int, str] | Sequence[str],
    selected: BoolArray,
    observed: BoolArray,
) -> list[str | None]:
    """Return the term of the longer phrase, selected or known, of which each candidate is a part.

    Only of selected ones that are not known; None elsewhere. A part is a phrase's words in a row.

    >>> yes, no = np.array([True, True, False]), np.zeros(3, bool)
    >>> stem = ["street lamp", "lamp", "street"]
    >>> longer_phrases(np.zeros(3, int), stem, ["street lamps", "lamps", "street"], yes, no)
    [None, 'street lamps', None]
    """
    rows = np.flatnonzero(selected | observed)
    stems = {i: f" {stem[i]} " for i in rows.tolist()}
    longer: dict[int, list[int]] = {}
    for d, (i, inside) in zip(document[rows].tolist(), stems.items(), strict=True):
        if " " in inside[1:-1]:
            longer.setdefault(d, []).append(i)
    found: list[str | None] = [None] * len(selected)
    new = np.flatnonzero(selected & ~observed)
    for d, i in zip(document[new].tolist(), new.tolist(), strict=True):
        for j in longer.get(d, ()):
            if stems[i] != stems[j] and stems[i] in stems[j]:
                found[i] = term[j]
                break
    return found


T = TypeVar("T", bound=np.generic)
SEPARATORS = (",", "|", "/", "\t", "\n", "，", "、", "；", "،")
"""What people put between keywords, where the product has ;."""


class ListedPhrase(NamedTuple):
    """A known keyphrase that is no candidate.

    Attributes
    ----------
    document
        Number of its document.
    term, stem
        It as it was given, and its words' stems.
    forms
        Its distinct forms in the text, the first one first.
    words, position
        As in the result's table.
    start, size
        Of every occurrence: candidate words of the partition before it, and inside.
    """

    document: int
    term: str
    stem: str
    forms: list[str]
    words: int
    position: int
    start: list[int]
    size: list[int]


@dataclass
class Unmatched:
    """Known keyphrases [by number of row and term] that are no candidates, sorted out.

    Attributes
    ----------
    listed
        Those that the text has; ``document`` is the row's number.
    absent
        Rows, terms and, where it can be said, reasons of the others.
    separators
        As `Report` has them.
    """

    listed: list[ListedPhrase] = field(default_factory=list)
    absent: list[tuple[int, str, str | None]] = field(default_factory=list)
    separators: Counter[str] = field(default_factory=Counter)


def sort_out(
    words: CandidateWords,
    unmatched: Iterable[tuple[int, str]],
    candidates: IntArray,
    options: TextOptions,
) -> Unmatched:
    """Look for known keyphrases that are no candidates in their texts.

    Parameters
    ----------
    words
        The partition.
    unmatched
        Numbers of rows, and terms.
    candidates
        [T] places of the candidate words among all tokens.
    options
        How text becomes words.
    """
    number = {text: i for i, text in enumerate(words.stems)}
    normal, offsets = words.kinds.normal[words.tokens.token], words.tokens.offsets
    found = Unmatched()
    seen: set[tuple[int, str]] = set()
    for d, term in unmatched:
        start, end = int(offsets[d]), int(offsets[d + 1])
        normalise, own = words.normaliser(d, options), normal[start:end]
        variants = normalise.variants(term)
        if there := occurrences_of(variants, number, own, start):
            one = _listed(words, d, term, there, candidates)
            if (d, one.stem) not in seen:
                found.listed.append(one)
            seen.add((d, one.stem))
            continue
        found.absent.append((d, term, _why_absent(variants, number, own)))
        for sign in SEPARATORS:
            pieces = [piece for piece in term.split(sign) if piece.strip()]
            split = (occurrences_of(normalise.variants(p), number, own, start) for p in pieces)
            found.separators[sign] += len(pieces) > 1 and any(split)
    return found


def listed_word(words: CandidateWords, d: int, word: str, stem: str) -> ListedPhrase:
    """Return a known word of a row that is too rare to be a candidate."""
    tokens = words.tokens
    own = np.arange(tokens.offsets[d], tokens.offsets[d + 1])
    same = words.kinds.stem[tokens.token[own]] == words.stems.index(stem)
    there = own[same & (tokens.pos[own] != kernels.OTHER)]
    return _listed(words, d, word, [(place,) for place in there.tolist()], np.zeros(0, np.int64))


def _listed(
    words: CandidateWords, d: int, term: str, there: Sequence[Places], candidates: IntArray
) -> ListedPhrase:
    tokens = words.tokens
    ends = np.array([(one[0], one[-1] + 1) for one in there])
    texts = (" ".join(tokens.names[i] for i in tokens.token[a:b]) for a, b in ends.tolist())
    stems = words.kinds.normal[tokens.token[slice(*ends[0])]]
    start, beyond = np.searchsorted(candidates, ends).T
    return ListedPhrase(
        document=d,
        term=term.strip(),
        stem=" ".join(words.stems[i] for i in stems),
        forms=list(dict.fromkeys(map(close_up, texts))),
        words=len(there[0]),
        position=int(ends[0, 0] - tokens.offsets[d]),
        start=start.tolist(),
        size=(beyond - start).tolist(),
    )


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


@dataclass(frozen=True)
class ResultRows:
    """The rows of a partition's result: its candidates, and the known keyphrases that are none.

    Letters: M candidates, E others, R = M + E rows, D documents, D' of these with a row.

    Attributes
    ----------
    candidates, listed
        The candidates, and the others.
    order
        [R] numbers of the candidates, and M and more of the others, document after document.
    spans
        Where the rows are; of others, ``key`` is 0, and ``size`` the most candidate words inside.
    words
        [R] number of words.
    texts
        How the rows are written.
    """

    candidates: Spans
    listed: Sequence[ListedPhrase]
    order: IntArray
    spans: Spans
    words: IntArray
    texts: Written

    @classmethod
    def of(
        cls, candidates: Spans, texts: Written, listed: Sequence[ListedPhrase], documents: int
    ) -> Self:
        """Put candidates and others together, of D ``documents``."""
        of = np.array([one.document for one in listed], np.int64)
        every = np.concatenate([candidates.document, of])
        order = np.argsort(every, kind="stable")
        row = np.empty(len(order), np.int64)
        row[order] = np.arange(len(order))

        def joined(values: NDArray[Any], others: Sequence[Any]) -> NDArray[Any]:
            return np.concatenate([values, np.array(others, values.dtype)])

        number = np.repeat(
            len(candidates.size) + np.arange(len(of)), [len(o.start) for o in listed]
        )
        width = candidates.words.shape[1]
        spans = Spans(
            words=np.concatenate([candidates.words, np.full((len(of), width), -1)])[order],
            size=joined(candidates.size, [max(one.size) for one in listed])[order],
            key=joined(candidates.key, [0] * len(listed))[order],
            offsets=np.searchsorted(every[order], np.arange(documents + 1)),
            first=joined(candidates.first, [one.start[0] for one in listed])[order],
            phrase=row[np.concatenate([candidates.phrase, number])],
            start=joined(candidates.start, [i for one in listed for i in one.start]),
            maximal=joined(candidates.maximal, [False] * len(number)),
        )
        return cls(
            candidates=candidates,
            listed=listed,
            order=order,
            spans=spans,
            words=joined(candidates.size, [one.words for one in listed])[order],
            texts=Written(
                texts.term.with_others([one.term for one in listed], order),
                texts.surface.with_others([one.forms[0] for one in listed], order),
                texts.stem.with_others([one.stem for one in listed], order),
                joined(texts.position, [one.position for one in listed])[order],
                joined(texts.occurrences, [len(one.start) for one in listed])[order],
            ),
        )

    @property
    def offsets(self) -> IntArray:
        """[D' + 1] rows of the documents that have any."""
        return np.unique(self.spans.offsets)

    def take(self, values: NDArray[T], others: float) -> NDArray[T]:
        """Return values [..., R] of candidates [..., M] and the one of the others."""
        more = np.full((*values.shape[:-1], len(self.listed)), others, values.dtype)
        return np.asarray(np.concatenate([values, more], axis=-1)[..., self.order])

    def complete(self, values: BoolArray) -> BoolArray:
        """Return whether the documents with a row [D'] are complete, of those with a candidate.

        Of the others, of which all that is there is known, nobody needs to know more.
        """
        every = np.ones(len(self.spans.offsets) - 1, bool)
        every[np.flatnonzero(np.diff(self.candidates.offsets))] = values
        return every[np.diff(self.spans.offsets) > 0]

    def occurring_forms(
        self, marks: Marks, forms: Sequence[str], rows: IntArray
    ) -> dict[int, list[str]]:
        """Return the distinct forms in which each of some rows occurs, in their order.

        ``marks`` and ``forms`` are those of `written`.
        """
        spans, numbers, size = self.candidates, self.order[rows], len(self.candidates.size)
        at = np.flatnonzero(np.isin(spans.phrase, numbers[numbers < size]))
        of, width = spans.phrase[at], spans.words.shape[1]
        parts = _between(spans.start[at], spans.size[of], width, marks.form, marks.link)
        own: dict[int, dict[str, None]] = {number: {} for number in numbers.tolist()}
        for phrase, form in zip(of.tolist(), JoinedTexts.of(forms, parts), strict=True):
            own[phrase].setdefault(form)
        found = {number: list(texts) for number, texts in own.items()}
        found |= {size + i: one.forms for i, one in enumerate(self.listed)}
        return {row: found[i] for row, i in zip(rows.tolist(), numbers.tolist(), strict=True)}
