"""How a partition's candidates are written: the forms of their words, joined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vbmodels.core.state import IntArray
from vbmodels.keywords.candidates import Marks
from vbmodels.keywords.documents import DocumentTokens
from vbmodels.keywords.phrases.spans import MOST_WORDS, Spans


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
