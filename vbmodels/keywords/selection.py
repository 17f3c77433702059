"""Which words to call keywords: by Bayesian false discovery rate, or so many a document.

All documents are looked at at once: W words, document after document, the words of document d at
``offsets[d]:offsets[d + 1]``. Of selected candidates that say the same one stays: near duplicates,
parts of others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords import document_kernels as kernels
from vbmodels.text.candidates import Spans


def select_by_fdr(
    probability: FloatArray, observed: BoolArray, offsets: IntArray, gamma: float
) -> BoolArray:
    """Select, in each document, as many words as an expected false share of ``gamma`` allows.

    With h running over the document's probabilities,

        FDR(h) = sum_i (1 - r_i) 1(r_i >= h) / sum_i 1(r_i >= h),

    and the words with r_i >= h are selected at the smallest h with FDR(h) <= gamma
    (dissertation, section 1.3.3, whose text takes the largest h and for r_i > h:
    errata). Words of equal probability are selected together or not at all. Observed
    words are keywords: they count with r_i = 1 and are always selected.

    Parameters
    ----------
    probability
        [W] r_i = P(word i is a keyword | y), not Phi(m_i), which forgets y.
    observed
        [W] the known keywords.
    offsets
        [D + 1] the documents' first rows.
    gamma
        The level, 0 to 1.

    Raises
    ------
    ValueError
        If gamma is outside [0, 1], or lengths differ.

    Examples
    --------
    >>> r = np.array([0.9, 0.2, 0.0, 0.8])
    >>> select_by_fdr(r, np.array([False, False, True, False]), np.array([0, 4]), 0.1)
    array([ True, False,  True,  True])
    """
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"the false discovery rate must lie between 0 and 1, found {gamma}")
    _check(probability, observed, offsets)
    r = np.where(observed, 1.0, probability)
    order, rank = _ranking(r, offsets)
    sizes = np.diff(offsets)
    sorted_r = r[order]
    expected_false = _running_sum(1.0 - sorted_r, offsets)
    allowed = expected_false <= gamma * (rank + 1.0)
    # A threshold stands between two different probabilities only: at the last word of a tie.
    last_of_document = rank == np.repeat(sizes, sizes) - 1
    last_of_tie = last_of_document | np.append(sorted_r[1:] != sorted_r[:-1], True)
    size = np.zeros(len(sizes), dtype=np.int64)
    document = np.repeat(np.arange(len(sizes)), sizes)
    good = allowed & last_of_tie
    np.maximum.at(size, document[good], rank[good] + 1)
    selected = np.empty(len(r), dtype=bool)
    selected[order] = rank < size[document]
    return selected | observed


def select_new_by_fdr(
    probability: FloatArray, observed: BoolArray, offsets: IntArray, gamma: float
) -> BoolArray:
    """Select known words and, of the others, as many as ``gamma`` allows among them alone.

    As `select_by_fdr`, but known words, which are true for certain, do not pay for false new
    ones: of the words that a reader did not know before, an expected share of at most
    ``gamma`` is false in each document.

    Examples
    --------
    >>> r = np.array([0.9, 0.7, 0.0, 0.0])
    >>> known, one = np.array([False, False, True, True]), np.array([0, 4])
    >>> select_by_fdr(r, known, one, 0.1)
    array([ True,  True,  True,  True])
    >>> select_new_by_fdr(r, known, one, 0.1)
    array([ True, False,  True,  True])
    """
    _check(probability, observed, offsets)
    new = ~observed
    first = np.concatenate([[0], np.cumsum(new)])[offsets]
    selected = observed.copy()
    selected[new] = select_by_fdr(probability[new], observed[new], first, gamma)
    return selected


def word_ranks(score: FloatArray, offsets: IntArray) -> IntArray:
    """Return each word's place in its document, 1 for the largest score; ties by position.

    Examples
    --------
    >>> word_ranks(np.array([0.1, 0.5, 0.2, 0.9]), np.array([0, 2, 4]))
    array([2, 1, 2, 1])
    """
    order, rank = _ranking(score, offsets)
    ranks = np.empty(len(score), dtype=np.int64)
    ranks[order] = rank + 1
    return ranks


def _ranking(score: FloatArray, offsets: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows, best first within each document, and their ranks from 0."""
    order, rank = np.empty(len(score), np.int64), np.empty(len(score), np.int64)
    kernels.ranking(np.asarray(score, np.float64), offsets, order, rank)
    return order, rank


def _running_sum(values: FloatArray, offsets: IntArray) -> FloatArray:
    """Return the running sum within each document, each summed from its own start."""
    sizes = np.diff(offsets)
    running = np.empty(len(values))
    # Documents of one size are summed as rows, so that no document sees another's rounding.
    for n in np.unique(sizes[sizes > 0]):
        rows = offsets[:-1][sizes == n, None] + np.arange(n)
        running[rows] = np.cumsum(values[rows], axis=1)
    return running


def _check(score: FloatArray, observed: BoolArray, offsets: IntArray) -> None:
    if not len(score) == len(observed) == int(offsets[-1]):
        raise ValueError(
            f"expected one score and one observed flag for each of {int(offsets[-1])} words, "
            f"found {len(score)} and {len(observed)}"
        )
    if np.isnan(score).any():
        raise ValueError(f"word {int(np.isnan(score).argmax())} has no score (NaN)")


ALIKE = 0.9
"""Share of letters in the same order from which on two candidates are one."""
_SHORTEST = 5
VERY_SHORT = 30  # tokens of a document in which whole phrases are selected
_BETWEEN = re.compile(r"[\s\-\u2010-\u2015'\u2019./_&,]+")
"""Signs between the parts of a term, with which it is the same as without."""


def without_near_duplicates(
    chosen: BoolArray,
    observed: BoolArray,
    probability: FloatArray,
    stems: Mapping[int, str] | Sequence[str],
    offsets: IntArray,
) -> BoolArray:
    """Return a selection [M] with the most probable one of every group of near duplicates.

    Known candidates stay, and what is nearly the same as one of them goes.

    Examples
    --------
    >>> stems = ["e-mail", "email", "mail", "data base", "databas", "graph"]
    >>> every, none = np.ones(6, bool), np.zeros(6, bool)
    >>> probability = np.array([0.5, 0.6, 0.4, 0.9, 0.3, 0.2])
    >>> without_near_duplicates(every, none, probability, stems, np.array([0, 6]))
    array([False,  True,  True,  True, False,  True])
    """
    rows = np.flatnonzero(chosen)
    document = np.searchsorted(offsets, rows, side="right")
    order = np.lexsort((rows, -probability[rows], ~observed[rows], document))
    rows, document = rows[order], document[order]
    letters = [_BETWEEN.sub("", stems[row]) for row in rows.tolist()]
    size = np.array(list(map(len, letters)), np.int64)
    sets = _sets_of(letters, size)
    pairs: list[tuple[int, int]] = []
    one = np.arange(len(rows))
    for step in range(1, len(rows)):
        one = one[: np.searchsorted(one, len(rows) - step)]
        one = one[document[one] == document[one + step]]
        if not len(one):
            break
        different = np.bitwise_count(sets[one] ^ sets[one + step])
        near = one[different <= (1 - ALIKE) * (size[one] + size[one + step]) + 1e-9]
        pairs += zip((near + step).tolist(), near.tolist(), strict=True)
    kept, known = np.ones(len(rows), bool), observed[rows]
    for this, other in sorted(pairs):
        if kept[this] and kept[other] and not known[this]:
            kept[this] = not _alike(letters[this], letters[other])
    return np.asarray(np.bincount(rows[kept], minlength=len(chosen)) > 0)


def _sets_of(texts: list[str], size: IntArray) -> NDArray[np.uint64]:
    """Return the letters of texts of these sizes as bits.

    Each bit that only one of two texts has is a letter without its like in the other, so most
    pairs that are not alike are found without comparing them.
    """
    every = "\0".join([*texts, ""]).encode("utf-32-le", "surrogatepass")
    bits = np.uint64(1) << (np.frombuffer(every, np.uint32) & 63).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, np.cumsum(size + 1) - size - 1)


def without_parts(
    chosen: BoolArray, observed: BoolArray, probability: FloatArray, spans: Spans
) -> BoolArray:
    """Return a selection [M] without parts and slices of others of it.

    A part is a candidate that its document has only inside longer ones which are known or at
    least as probable: "life" where it is only in "quality of life". A slice shares more than half
    of its words wherever it is with one that is more probable: "or conditions of" in "conditions
    of any kind". Known candidates stay.
    """
    r = np.where(observed, np.inf, probability)
    rows = np.flatnonzero((chosen | observed)[spans.phrase])
    rows = rows[np.argsort(spans.start[rows], kind="stable")]
    phrase, start = spans.phrase[rows], spans.start[rows]
    end, kept = start + spans.size[phrase], observed.copy()
    first = np.searchsorted(start, start - (end - start).max(initial=0), side="right")
    beyond = np.searchsorted(start, end)
    by_phrase = np.argsort(phrase, kind="stable")
    ends = np.append(0, np.cumsum(np.bincount(phrase, minlength=len(r))))
    found = np.flatnonzero(chosen & ~observed)
    found = found[np.lexsort((-spans.size[found], -r[found]))]
    kernels.keep_wholes(found, spans.size, ends, by_phrase, first, beyond, phrase, start, end, kept)
    return chosen & kept


def with_whole_phrases(
    chosen: BoolArray, observed: BoolArray, spans: Spans, n_tokens: IntArray
) -> BoolArray:
    """Return a selection [M] with whole phrases in place of their parts, in very short documents.

    A phrase that is found once, inside of a longer run of words, is a part of it: the text does not
    show that it is a phrase of its own. Known candidates stay.

    ``n_tokens`` [D]: tokens of each document.
    """
    start, end = spans.start, spans.start + spans.size[spans.phrase]
    whole = np.flatnonzero(spans.maximal)
    whole = whole[np.argsort(start[whole])]
    around = np.searchsorted(start[whole], start, side="right") - 1
    around = np.append(whole, 0)[around]
    inside = ~spans.maximal & (start[around] <= start) & (end <= end[around])
    inside &= (n_tokens <= VERY_SHORT)[spans.document][spans.phrase]
    found = chosen & ~observed
    parts = found & (spans.count == 1) & (np.bincount(spans.phrase, inside, len(chosen)) > 0)
    kept: BoolArray = chosen & ~parts
    kept[spans.phrase[around[parts[spans.phrase]]]] = True
    return kept


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    size = len(one) + len(other)
    if min(len(one), len(other)) < _SHORTEST or 2 * min(len(one), len(other)) < ALIKE * size:
        return False
    if [*filter(str.isdigit, one)] != [*filter(str.isdigit, other)]:
        return False  # interleukin 12 and 21
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE
