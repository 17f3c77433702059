"""Known keyphrases that a text has and that the rules for candidates do not find.

Nobody but a list names them, so they say nothing of what is not listed: a model that counted them
would learn that what is listed is listed. They are in the result, with probability 1, and in
nothing that a model sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.text import token_kernels as kernels
from vbmodels.text.candidate_words import CandidateWords, Occurrence, occurrences_of
from vbmodels.text.candidates import Marks, Spans
from vbmodels.text.surfaces import Written, close_up, occurring_forms
from vbmodels.text.words import MOST_KNOWN, Parts, TextOptions

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
    found = [Occurrence((place,)) for place in there.tolist()]
    return _listed(words, d, word, found, np.zeros(0, np.int64))


def _listed(
    words: CandidateWords, d: int, term: str, there: Sequence[Occurrence], candidates: IntArray
) -> ListedPhrase:
    tokens = words.tokens
    ends = np.array([(one.words[0], one.words[-1] + 1) for one in there])
    texts = (" ".join(tokens.names[i] for i in tokens.token[a:b]) for a, b in ends.tolist())
    stems = words.kinds.normal[tokens.token[slice(*ends[0])]]
    start, beyond = np.searchsorted(candidates, ends).T
    return ListedPhrase(
        document=d,
        term=term.strip(),
        stem=" ".join(words.stems[i] for i in stems),
        forms=list(dict.fromkeys(map(close_up, texts))),
        words=len(there[0].words),
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

        def in_order(values: list[str], others: Iterable[str]) -> list[str]:
            found = [*values, *others]
            return [found[i] for i in order]

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
                in_order(texts.term, (one.term for one in listed)),
                in_order(texts.surface, (one.forms[0] for one in listed)),
                in_order(texts.stem, (one.stem for one in listed)),
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
        found: NDArray[T] = np.concatenate([values, more], axis=-1)[..., self.order]
        return found

    def complete(self, values: BoolArray) -> BoolArray:
        """Return whether the documents with a row [D'] are complete, of those with a candidate.

        Of the others, of which all that is there is known, nobody needs to know more.
        """
        every = np.ones(len(self.spans.offsets) - 1, bool)
        every[np.unique(self.candidates.document)] = values
        return every[np.diff(self.spans.offsets) > 0]

    def occurring_forms(
        self, marks: Marks, forms: Sequence[str], rows: IntArray
    ) -> dict[int, list[str]]:
        """Return the distinct forms in which each of some rows occurs, in their order.

        ``marks`` and ``forms`` are those of `vbmodels.text.surfaces.occurring_forms`.
        """
        numbers, size = self.order[rows], len(self.candidates.size)
        found = occurring_forms(self.candidates, marks, forms, numbers[numbers < size])
        found |= {size + i: one.forms for i, one in enumerate(self.listed)}
        return {row: found[i] for row, i in zip(rows.tolist(), numbers.tolist(), strict=True)}
