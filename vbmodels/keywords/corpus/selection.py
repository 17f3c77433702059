"""Which words of a corpus to call keywords, and which documents to label first.

One threshold is over all documents.

Of the new words (those that were not known) the best are selected: the largest set whose mean
probability of being false, 1 - r, is at most a level; or the set of the largest expected F,

    argmax_i 2 sum_(j <= i) r_j / (i + sum r),

or no word, where that is better: its F is 1 if there is nothing to find, which has a probability of
prod (1 - r), about exp(-sum r), and 0 otherwise.

A partition gives a histogram of the log-odds of r, with the number of words and the sum of
1 - r in each of 4096 bins; histograms add, and the threshold stands at the edge of a bin.

Those documents are labelled first that would say most about the number of false selections. With
S the selected new words, nodes k of the rate with weights w_k and E_k = sum_S (1 - r_ik),
the number F of false ones among them has, by the law of total variance,

    Var F = sum_(i in S) sum_k w_k r_ik (1 - r_ik) + B,    B = Var_k E_k.

Somebody who lists all keywords of document d fixes its own words, and informs the rate: the
number K_d of its keywords adds t_d = K_d / max(f, c K_d) to the precision 1/V^2 of log pi, so B
falls to B (1/V^2) / (1/V^2 + t_d). f is its dispersion, and c = .13 the square of the coefficient
of variation of documents alike in length (both as in `prior.counts`): however many keywords one
document has, it fixes log pi to an sd of .36 at best. Documents are taken one after another, each
the one that lowers Var F most after those before it.

r_ik are the published probabilities: where labels are few the coefficients are integrated out of
them. That they are common to all documents, so that words err together, is not in Var F.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, logit

from vbmodels.core.state import BoolArray, FloatArray, IntArray, Stats
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.prior.counts import SPREAD_OF_NUMBERS
from vbmodels.keywords.selection import select_new_by_fdr, word_ranks

BINS = 4096
LARGEST = 16.0
"""Log-odds beyond this are put into the last bins: 1e-7 of a probability."""
ABOVE_MEAN = 1.5
"""Keyphrases that a selection gives one document at most, over the mean of a document."""
FEWEST, MOST, ROUGH = 5, 15, 0.5
"""Least of these where the mean is not given, and the most where log pi has an sd above .5."""


def number_of(q: CorpusGlobal, given: float | None) -> int:
    """Return how many keyphrases a selection gives a document at most, known ones counted.

    Parameters
    ----------
    q
        The regression of phrases.
    given
        The mean of a document where the user knows it.
    """
    if given is not None:
        return math.ceil(ABOVE_MEAN * given)
    mean = q.rate * q.law.n_words / max(q.n_documents, 1)
    number = max(math.ceil(ABOVE_MEAN * mean), FEWEST)
    return min(number, MOST) if q.sources.combined()[1] > ROUGH else number


def most_new(most: int, observed: BoolArray, offsets: IntArray) -> IntArray:
    """Return how many new candidates a document may have [D], its known ones counted."""
    known = np.diff(np.concatenate([[0], np.cumsum(observed)])[offsets])
    return np.asarray(np.maximum(most - known, 0))


def bins_of(probability: FloatArray) -> IntArray:
    """Return each word's bin [W], the surest in the last one."""
    with np.errstate(divide="ignore"):
        place = (logit(probability) + LARGEST) * (BINS / (2.0 * LARGEST))
    return np.asarray(np.clip(np.floor(place), 0, BINS - 1).astype(np.int64))


def probability_of(least: int) -> float:
    """Return the probability at which a bin begins.

    >>> probability_of(BINS // 2)
    0.5
    """
    return float(expit(least * (2.0 * LARGEST / BINS) - LARGEST))


def eligible(
    probability: FloatArray, observed: BoolArray, offsets: IntArray, most: int | IntArray | None
) -> BoolArray:
    """Return which words may be selected [W]: new ones, of each document the ``most`` [D] best."""
    new = ~observed
    if most is None:
        return new
    if isinstance(most, np.ndarray):
        most = np.repeat(most, np.diff(offsets))
    return new & (word_ranks(np.where(new, probability, -1.0), offsets) <= most)


@dataclass(frozen=True)
class Histogram(Stats, kind="keywords/corpus.Histogram"):
    """Words that may be selected, by log-odds.

    Parameters
    ----------
    words, false
        [BINS] their number and their sum of 1 - r.
    hopes
        Sum of r over all new words, also those that may not be selected.
    """

    words: IntArray
    false: FloatArray
    hopes: float

    @classmethod
    def of(
        cls,
        probability: FloatArray,
        observed: BoolArray,
        offsets: IntArray,
        most: int | IntArray | None = None,
    ) -> Self:
        """Count a partition's words."""
        may = eligible(probability, observed, offsets, most)
        r, bins = probability[may], bins_of(probability[may])
        return cls(
            np.bincount(bins, minlength=BINS).astype(np.int64),
            np.bincount(bins, 1.0 - r, BINS).astype(np.float64),
            float(probability[~observed].sum()),
        )

    def least(self, select: str, level: float) -> int:
        """Return the lowest bin that is selected by "best_f", or by "fdr" at a level."""
        return self.least_by_f() if select == "best_f" else self.least_by_fdr(level)

    def least_by_fdr(self, level: float) -> int:
        """Return the lowest bin whose words are selected; BINS where none are.

        Parameters
        ----------
        level
            Largest expected share of false ones among the new selected words.
        """
        words = np.cumsum(self.words[::-1])[::-1]
        false = np.cumsum(self.false[::-1])[::-1]
        allowed = (words > 0) & (false <= level * words)
        return int(np.argmax(allowed)) if allowed.any() else BINS

    def least_by_f(self) -> int:
        """Return the lowest bin of the set with the largest expected F; BINS where it is empty."""
        words = np.cumsum(self.words[::-1])[::-1]
        true = words - np.cumsum(self.false[::-1])[::-1]
        if not words[0]:
            return BINS
        f = 2.0 * true / np.maximum(words + self.hopes, 1e-300)
        if np.exp(-self.hopes) >= f.max():
            return BINS
        # Of equal ones the smallest set: the last bin.
        return int(BINS - 1 - np.argmax(f[::-1]))


def select_above(
    probability: FloatArray,
    observed: BoolArray,
    offsets: IntArray,
    least: int,
    most: int | IntArray | None = None,
) -> BoolArray:
    """Return known words and those that may be selected in the bins from ``least`` on [W].

    Examples
    --------
    >>> r = np.array([0.9, 0.2, 1.0, 0.8])
    >>> known, documents = np.array([False, False, True, False]), np.array([0, 3, 4])
    >>> least = Histogram.of(r, known, documents).least_by_fdr(0.15)
    >>> select_above(r, known, documents, least)
    array([ True, False,  True,  True])
    """
    may = eligible(probability, observed, offsets, most)
    return observed | (may & (bins_of(probability) >= least))


def select_in_documents(
    probability: FloatArray,
    observed: BoolArray,
    offsets: IntArray,
    level: float,
    most: int | IntArray | None,
) -> BoolArray:
    """Return known words and, in each document, as many new ones as ``level`` allows [W]."""
    chosen = select_new_by_fdr(probability, observed, offsets, level)
    return chosen & (observed | eligible(probability, observed, offsets, most))


FEWEST_DOCUMENTS = 100
"""Documents from which on a false discovery rate may be relied on."""


def has_few_documents(q: CorpusGlobal) -> bool:
    """Whether a regression without a learnt prior has few documents."""
    return q.n_documents < FEWEST_DOCUMENTS and q.spread <= 1.0


@dataclass(frozen=True)
class UncertainSelections:
    """The uncertainty that labelling documents of a partition would remove.

    Attributes
    ----------
    document
        [M] numbers of documents, those that may be chosen.
    own
        [M] variance of the number of false selections in each.
    keywords
        [M] its expected number of keywords, known ones included.
    false
        [K] E_k of all documents of the partition.
    own_total
        Variance over all documents of the partition.
    """

    document: IntArray
    own: FloatArray
    keywords: FloatArray
    false: FloatArray
    own_total: float


def uncertain_selections(
    by_node: FloatArray,
    weights: FloatArray,
    observed: BoolArray,
    selected: BoolArray,
    complete: BoolArray,
    offsets: IntArray,
    most: int,
) -> UncertainSelections:
    """Return what a partition has to settle, with the documents that may be among the first.

    Parameters
    ----------
    by_node
        [K, W] probability of every word at every node.
    weights
        [K] of the nodes.
    observed, selected
        [W] known words; the selected ones, known ones included.
    complete
        [D] documents whose keywords are all known: there is nothing to label.
    offsets
        [D + 1] the documents' first rows.
    most
        Documents to choose in all. Of each partition, so many with the largest
        variance and so many with most keywords are kept: the first are among these where one
        of both decides.
    """
    new = selected & ~observed
    variance = np.where(new, weights @ (by_node * (1.0 - by_node)), 0.0)
    own = np.add.reduceat(variance, offsets[:-1])
    keywords = np.add.reduceat(np.where(observed, 1.0, weights @ by_node), offsets[:-1])
    may = np.flatnonzero(~complete)
    first = np.union1d(_largest(own, may, most), _largest(keywords, may, most))
    return UncertainSelections(
        document=first,
        own=own[first],
        keywords=keywords[first],
        false=np.where(new, 1.0 - by_node, 0.0).sum(axis=1),
        own_total=float(own.sum()),
    )


def _largest(values: FloatArray, among: IntArray, most: int) -> IntArray:
    return among[np.argsort(-values[among], kind="stable")[:most]]


def choose_documents(
    parts: Sequence[UncertainSelections],
    weights: FloatArray,
    log_rate_sd: float,
    dispersion: float,
    most: int,
) -> tuple[list[tuple[int, int]], list[float]]:
    """Return the documents to label in order, and the share of Var F that each removes.

    Parameters
    ----------
    parts
        All partitions.
    weights
        [K] of the nodes.
    log_rate_sd
        V.
    dispersion
        f.
    most
        Documents to name.

    Returns
    -------
    documents
        (partition, number of the document in it) of each.
    removed
        Share of the present Var F that it removes after those before it.
    """
    false = np.sum([part.false for part in parts], axis=0)
    between = float(weights @ (false - weights @ false) ** 2)
    total = between + sum(part.own_total for part in parts)
    own = np.concatenate([part.own for part in parts])
    keywords = np.concatenate([part.keywords for part in parts])
    keywords = keywords / np.maximum(dispersion, SPREAD_OF_NUMBERS * keywords)
    places = [(p, int(d)) for p, part in enumerate(parts) for d in part.document]
    left = np.ones(len(own), bool)
    precision = log_rate_sd**-2 if log_rate_sd > 0.0 else np.inf
    chosen, removed = [], []
    for _ in range(min(most, len(own))):
        shrink = keywords / (precision + keywords) if np.isfinite(precision) else 0.0 * keywords
        gain = np.where(left, own + between * shrink, -1.0)
        best = int(np.argmax(gain))
        if gain[best] <= 0.0:
            break
        chosen.append(places[best])
        removed.append(float(gain[best] / total))
        left[best] = False
        between *= 1.0 - float(shrink[best])
        precision += float(keywords[best])
    return chosen, removed
