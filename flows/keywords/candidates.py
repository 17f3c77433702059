"""Candidates of a partition, phrases or words: where they are, which are known, how written.

Words are candidates of one word each (`words_as_spans`), so that what follows is one road.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.keywords.counts import count_candidates
from flows.keywords.text import MOST_TOKENS, Normaliser
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.keywords.documents import DocumentTokens
from vbmodels.keywords.phrases.phrase_ids import KeyArray, key_of, stem_keys
from vbmodels.keywords.phrases.spans import MOST_WORDS, Spans, find_spans

UNKNOWN_TRUTH = -1


@dataclass(frozen=True)
class Marks(State):
    """What the user says of a partition's candidates, in their order.

    Parameters
    ----------
    y
        [M] whether the candidate is known.
    gold
        [M] 1 where it is a true keyword, 0 where it is none, -1 where the truth is not known.
    listed
        Known keywords of all documents, those that are no candidate too.
    form
        [T] number of the written form of every occurrence of a word.
    score
        [M] the user's own score, NaN where there is none; None where no candidate has any.
    """

    y: BoolArray
    gold: NDArray[np.int8]
    listed: int
    form: NDArray[np.int32]
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

    None for a term that cannot be a candidate: of more than four words, or with a stop word inside.
    """

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
        return [_keys(term, normalise) for term in terms if any(map(str.isalpha, term))]

    pairs = zip(scored or (), scores or (), strict=False)
    return Said(
        read(keywords or ()),
        None if gold is None else read(gold),
        [(_keys(term, normalise), value) for term, value in pairs],
    )


@lru_cache(maxsize=MOST_TOKENS)
def _keys(term: str, normalise: Normaliser) -> tuple[int, ...]:
    """Return the numbers of a term as it stands, and of its words in parts if those differ."""
    found = []
    for stems in normalise.phrase(term):
        if 0 < len(stems) <= MOST_WORDS:
            found.append(key_of(stems))
    return tuple(found)


def mark(
    tokens: DocumentTokens, vocabulary: Sequence[str], said: Sequence[Said], forms: IntArray
) -> tuple[Marks, pa.Table]:
    """Find which candidate phrases the rows name, and count the partition's phrases.

    Parameters
    ----------
    tokens, vocabulary
        The partition's words.
    said
        [D] of every document.
    forms
        [T] number of the written form of every occurrence.
    """
    spans = find_spans(tokens, stem_keys(vocabulary))
    size = len(spans.size)
    y, gold = np.zeros(size, bool), np.full(size, UNKNOWN_TRUTH, np.int8)
    score = np.full(size, np.nan)
    listed = 0
    for d, one in enumerate(said):
        if not (one.known or one.gold is not None or one.scores):
            continue
        low, high = int(spans.offsets[d]), int(spans.offsets[d + 1])
        place = dict(zip(spans.key[low:high].tolist(), range(low, high), strict=True))
        for keys in one.known:
            y[[place[key] for key in keys if key in place][:1]] = True
        listed += _distinct(one.known)
        if one.gold is not None:
            gold[low:high] = 0
            for keys in one.gold:
                gold[[place[key] for key in keys if key in place][:1]] = 1
        for keys, value in one.scores:
            for row in [place[key] for key in keys if key in place][:1]:
                score[row] = value if math.isnan(score[row]) else max(value, score[row])
    own = score if np.isfinite(score).any() else None
    marks = Marks(y, gold, listed, forms.astype(np.int32), own)
    return marks, count_candidates(spans.key, tokens.fold[spans.document], y)


def _distinct(terms: Sequence[tuple[int, ...]]) -> int:
    """Count terms, those of the same stems once."""
    return len({keys[0] for keys in terms if keys}) + sum(not keys for keys in terms)


@dataclass(frozen=True)
class Written:
    """How a partition's candidates are written.

    Attributes
    ----------
    term
        [M] in the most frequent form, without the capital of a sentence's beginning.
    surface
        [M] as it stands where it stands first.
    stem
        [M] its stems.
    position, occurrences
        [M] tokens before its first occurrence, and how many there are.
    """

    term: pa.Array
    surface: pa.Array
    stem: pa.Array
    position: IntArray
    occurrences: IntArray


def written(
    tokens: DocumentTokens, spans: Spans, vocabulary: pa.Array, marks: Marks, forms: pa.Array
) -> Written:
    """Return how every candidate is written.

    Parameters
    ----------
    forms
        [F] the distinct written forms of the partition's words.
    """
    # Lower case but where capitals are more than a sentence's first.
    plain = pc.utf8_lower(forms)
    both = pa.concat_arrays([forms, plain])
    kept = tokens.capital | tokens.upper
    number = marks.form.astype(np.int64)
    texts = both.dictionary_encode()
    same = texts.indices.to_numpy().astype(np.int64)
    code = same[number + np.where(kept, 0, len(forms))] if len(number) else number
    size = spans.size[spans.phrase]
    place = spans.start[:, None] + np.arange(MOST_WORDS)
    within = np.arange(MOST_WORDS) < size[:, None]
    each = np.where(within, code[np.where(within, place, 0)] if len(code) else place, -1)
    # "Support Vector" at a sentence's beginning is a name as much as it is elsewhere.
    named = np.flatnonzero(size > 1)
    named = named[kept[spans.start[named] + 1]]
    each[named, 0] = same[number[spans.start[named]]]
    return Written(
        _joined(texts.dictionary, _most_frequent(spans, each)),
        _joined(forms, _at_first(spans, marks.form)),
        _joined(vocabulary, np.where(spans.words >= 0, tokens.term[spans.words], -1)),
        tokens.position[spans.first].astype(np.int64),
        spans.count,
    )


def _at_first(spans: Spans, form: NDArray[np.int32]) -> IntArray:
    """Numbers [M, 4] of the forms of each phrase's first occurrence, -1 beyond its words."""
    within = np.arange(MOST_WORDS) < spans.size[:, None]
    place = np.where(within, spans.first[:, None] + np.arange(MOST_WORDS), 0)
    return np.where(within, form[place] if len(form) else place, -1).astype(np.int64)


def _most_frequent(spans: Spans, each: IntArray) -> IntArray:
    """Return the most frequent row [M, 4] of ``each`` [O, 4] of a phrase; the earlier of equals."""
    chosen = np.empty((len(spans.size), MOST_WORDS), np.int64)
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


def _joined(texts: pa.Array, numbers: IntArray) -> pa.Array:
    """Join texts by blanks, row by row of their numbers [M, 4]; -1 is none, never of all four."""
    columns = [
        texts.take(pa.array(column, mask=column < 0)).cast(pa.string()) for column in numbers.T
    ]
    joined = pc.binary_join_element_wise(*columns, " ", null_handling="skip")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
