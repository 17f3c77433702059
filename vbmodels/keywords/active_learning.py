"""Which documents to label first: those that would say most about the number of false selections.

With S the selected new words, nodes k of the rate with weights w_k and E_k = sum_S (1 - r_ik),
the number F of false ones among them has, by the law of total variance,

    Var F = sum_(i in S) sum_k w_k r_ik (1 - r_ik) + B,    B = Var_k E_k.

Somebody who lists all keywords of document d fixes its own words, and informs the rate: the
number K_d of its keywords adds t_d = K_d / max(f, c K_d) to the precision 1/V^2 of log pi, so B
falls to B (1/V^2) / (1/V^2 + t_d). f is its dispersion, and c = .13 the square of the coefficient
of variation of documents alike in length (both as in `keyword_counts`): however many keywords one
document has, it fixes log pi to an sd of .36 at best. Documents are taken one after another, each
the one that lowers Var F most after those before it.

r_ik are the published probabilities: where labels are few the coefficients are integrated out of
them. That they are common to all documents, so that words err together, is not in Var F.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.prior.counts import SPREAD_OF_NUMBERS
from vbmodels.keywords.vbss.labels import per_document


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
    own = per_document(variance, offsets)
    keywords = per_document(np.where(observed, 1.0, weights @ by_node), offsets)
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
    order = np.argsort(-values[among], kind="stable")[:most]
    return among[order]


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
