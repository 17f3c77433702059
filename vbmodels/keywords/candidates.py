"""Candidates of a partition, phrases or words: where they are, which are known, how written.

Words are candidates of one word each (`words_as_spans`), so that what follows is one road.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.keywords.documents import DocumentTokens
from vbmodels.keywords.phrases.phrase_ids import KeyArray, key_of, stem_keys
from vbmodels.keywords.phrases.spans import MOST_WORDS, Spans, find_spans
from vbmodels.keywords.text import MOST_KNOWN, MOST_TOKENS, Normaliser

UNKNOWN_TRUTH = -1


@dataclass(frozen=True)
class Marks(State, kind="keywords.Marks"):
    """What the user says of a partition's candidates, in their order.

    Parameters
    ----------
    y
        [M] whether the candidate is known.
    gold
        [M] 1 where it is a true keyword, 0 where it is none, -1 where the truth is not known.
    listed
        [D] known keywords, those that are no candidate too.
    form, shown, link
        [T] numbers of the written form of every occurrence of a word, of that without a capital
        that only a sentence's beginning gives it, and of what is written between it and the next
        word (-1: nothing).
    score
        [M] the user's own score, NaN where there is none; None where no candidate has any.
    """

    y: BoolArray
    gold: NDArray[np.int8]
    listed: IntArray
    form: NDArray[np.int32]
    shown: NDArray[np.int32]
    link: NDArray[np.int32]
    score: FloatArray | None = None


def spans_of(tokens: DocumentTokens, vocabulary: Sequence[str], phrases: bool) -> Spans:
    """Return the candidates of a partition: phrases, or words."""
    keys = stem_keys(vocabulary)
    return find_spans(tokens, keys) if phrases else words_as_spans(tokens, keys)


def words_as_spans(tokens: DocumentTokens, term_keys: KeyArray) -> Spans:
    """Return words as phrases of one word each, in their own order."""
    size, occurrences = tokens.n_words, len(tokens.word)
    words = np.full((size, MOST_WORDS), -1)
    words[:, 0] = np.arange(size)
    first = np.zeros(size, np.int64)
    first[tokens.word[::-1]] = np.arange(occurrences)[::-1]
    return Spans(
        words=words,
        size=np.ones(size, np.int64),
        key=term_keys[tokens.term],
        offsets=tokens.offsets,
        first=first,
        phrase=tokens.word,
        start=np.arange(occurrences),
        maximal=np.zeros(occurrences, bool),
    )


@dataclass(frozen=True)
class Said:
    """What a document's row says of phrases: each as the numbers of its possible forms.

    None for a term that cannot be a candidate: of more than twelve words.
    """

    terms: Sequence[str]
    known: Sequence[tuple[int, ...]]
    gold: Sequence[tuple[int, ...]] | None
    scores: Sequence[tuple[tuple[int, ...], float]]


def said_of(
    keywords: Iterable[str] | None,
    gold: Iterable[str] | None,
    scored: Iterable[str] | None,
    scores: Iterable[float] | None,
    normalise: Normaliser,
) -> Said:
    """Read a row's keywords, true keywords and scored terms as phrases."""

    def read(terms: Iterable[str]) -> list[tuple[int, ...]]:
        return [_keys(term, normalise) for term in terms if any(map(str.isalnum, term))]

    pairs = zip(scored or (), scores or (), strict=False)
    terms = [term for term in keywords or () if any(map(str.isalnum, term))]
    return Said(
        terms,
        read(terms),
        None if gold is None else read(gold),
        [(_keys(term, normalise), value) for term, value in pairs],
    )


@lru_cache(maxsize=MOST_TOKENS)
def _keys(term: str, normalise: Normaliser) -> tuple[int, ...]:
    """Return the numbers of a term as a text may write it."""
    found = (one.parts for one in normalise.variants(term) if sum(one.is_word) <= MOST_KNOWN)
    return tuple(dict.fromkeys(map(key_of, found)))


def mark(
    tokens: DocumentTokens,
    vocabulary: Sequence[str],
    said: Sequence[Said],
    forms: tuple[IntArray, IntArray, IntArray],
) -> tuple[Marks, Spans, list[tuple[int, str]]]:
    """Find which candidate phrases the rows name.

    Parameters
    ----------
    tokens, vocabulary
        The partition's words.
    said
        [D] of every document.
    forms
        [T] as `Marks` has them: form, shown and link.

    Returns
    -------
    marks, spans
        What the rows say, and the phrases.
    absent
        Known keywords that are no candidates, with the numbers of their documents.
    """
    spans = find_spans(tokens, stem_keys(vocabulary))
    size = len(spans.size)
    y, gold = np.zeros(size, bool), np.full(size, UNKNOWN_TRUTH, np.int8)
    score = np.full(size, np.nan)
    listed = np.zeros(len(said), np.int64)
    absent = []
    for d, one in enumerate(said):
        if not (one.known or one.gold is not None or one.scores):
            continue
        low, high = int(spans.offsets[d]), int(spans.offsets[d + 1])
        place = dict(zip(spans.key[low:high].tolist(), range(low, high), strict=True))
        for term, keys in zip(one.terms, one.known, strict=True):
            rows = [place[key] for key in keys if key in place][:1]
            y[rows] = True
            if not rows:
                absent.append((d, term))
        # Terms of the same stems count once.
        listed[d] = len({keys[0] for keys in one.known if keys}) + one.known.count(())
        if one.gold is not None:
            gold[low:high] = 0
            for keys in one.gold:
                gold[[place[key] for key in keys if key in place][:1]] = 1
        for keys, value in one.scores:
            for row in [place[key] for key in keys if key in place][:1]:
                score[row] = value if math.isnan(score[row]) else max(value, score[row])
    own = score if np.isfinite(score).any() else None
    form, shown, link = (one.astype(np.int32) for one in forms)
    marks = Marks(y, gold, listed, form, shown, link, own)
    return marks, spans, absent
