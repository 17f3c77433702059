"""Which words to call keywords: by Bayesian false discovery rate, or so many a document.

Both work on all documents at once: W words, document after document, the words of
document d at ``offsets[d]:offsets[d + 1]``.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords import document_kernels as kernels


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


def select_share(
    score: FloatArray, observed: BoolArray, offsets: IntArray, share: float
) -> BoolArray:
    """Select the same share of every document's words, observed ones first.

    A document of n words and k observed ones gets max(k, round(n * share)) of them: the k
    and the best of the others (dissertation, section 1.4.1, "approximately the same
    number" for methods without probabilities). Ties go to the word that comes first.

    Parameters
    ----------
    score
        [W] the larger, the likelier a keyword; any scale.
    observed
        [W] the known keywords.
    offsets
        [D + 1] the documents' first rows.
    share
        The share of each document's candidate words, 0 to 1.

    Examples
    --------
    >>> score = np.array([0.1, 3.0, 2.0, -1.0])
    >>> select_share(score, np.array([False, False, False, True]), np.array([0, 4]), 0.5)
    array([False,  True, False,  True])
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the share of words must lie between 0 and 1, found {share}")
    _check(score, observed, offsets)
    order, rank = _ranking(np.where(observed, np.inf, score), offsets)
    sizes = np.diff(offsets)
    wanted = np.floor(sizes * share + 0.5)
    selected = np.empty(len(score), dtype=bool)
    selected[order] = rank < np.repeat(wanted, sizes)
    return selected | observed


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
