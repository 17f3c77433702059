"""One set of features out of several chains of a sampler: matched by their rows, then averaged.

Chains number their features each in its own way, and each holds some that the others do not. With
p_a(n) the mean over a chain's draws of P(z_na = 1), sums over rows of p_a p_b give the correlations
of any two features, of one chain or of two. The chain with the highest likelihood comes first; the
features of every further chain are assigned to those found so far, whose p is the sum over the
chains that have them, so that the sum of |correlation| is the largest (Kuhn 1955). A pair above
`SAME` is one feature, turned round where the correlation is negative; the others are new. What more
than half of the chains have is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.features.candidates import SAME
from vbmodels.features.patterns import Selection, select_features


@dataclass(frozen=True)
class Merged:
    """The features of all chains.

    Attributes
    ----------
    member
        [C, M] number of every feature in each chain; -1 where a chain has none such.
    turned
        [C, M] whether a chain has its complement.
    share
        [M] share of the rows that have it, the mean over the chains that know it.
    own_share
        [C, K] share of the rows with each of a chain's own features.
    chosen
        Which are reported, most common first.
    """

    member: IntArray
    turned: BoolArray
    share: FloatArray
    own_share: FloatArray
    chosen: Selection

    @property
    def found_by(self) -> IntArray:
        """How many chains have each reported feature; [F]."""
        return np.asarray((self.member[:, self.chosen.index] >= 0).sum(0))

    @property
    def used(self) -> IntArray:
        """How many features each chain has; [C]."""
        return np.asarray((self.member >= 0).sum(1))

    @property
    def complete(self) -> NDArray[np.intp]:
        """The chains that have every reported feature."""
        return np.flatnonzero((self.member[:, self.chosen.index] >= 0).all(1))


def row_products(chances: Sequence[FloatArray]) -> FloatArray:
    """Return the sums over rows of products of 1 and the chains' probabilities [N, K], each pair's.

    Returns
    -------
    products
        [1 + C K, 1 + C K].
    """
    full = np.concatenate([np.ones((len(chances[0]), 1)), *chances], axis=1)
    return np.asarray(full.T @ full)


def merged(
    products: FloatArray, order: NDArray[np.intp], flip_above: float, least_rows: float
) -> Merged:
    """Match the chains' features; see the module's text.

    Parameters
    ----------
    products
        As `row_products`, over all rows.
    order
        [C] the chains, that with the highest likelihood first.
    flip_above, least_rows
        As in `vbmodels.features.patterns.select_features`.
    """
    n_rows, chains = products[0, 0], len(order)
    mean = products[0, 1:] / n_rows
    covariance = products[1:, 1:] / n_rows - np.outer(mean, mean)
    own_share = mean.reshape(chains, -1)
    k = own_share.shape[1]
    # Row m has 1 or -1 at the places of feature m in the chains, which stand one after the other.
    found = np.zeros((0, chains * k))
    for c in order.tolist():
        own = c * k + select_features(own_share[c], n_rows, least_rows=least_rows).index
        known = _correlations(covariance, found, own)
        waits, mine = linear_sum_assignment(-np.abs(known))
        same = np.abs(known[waits, mine]) > SAME
        found[waits[same], own[mine[same]]] = np.sign(known[waits[same], mine[same]])
        new = np.delete(own, mine[same])
        found = np.concatenate([found, np.eye(chains * k)[new]])
    signs = found.reshape(len(found), chains, k).transpose(1, 0, 2)
    has = signs.any(2)
    member = np.where(has, np.abs(signs).argmax(2), -1)
    turned: BoolArray = np.asarray((signs < 0.0).any(2))
    at = own_share[np.arange(chains)[:, None], member]
    total = np.where(has, np.where(turned, 1.0 - at, at), 0.0).sum(0)
    share: FloatArray = total / has.sum(0)
    most = np.flatnonzero(2 * has.sum(0) > chains)
    chosen = select_features(share[most], n_rows, flip_above=flip_above, least_rows=0.0)
    return Merged(member, turned, share, own_share, replace(chosen, index=most[chosen.index]))


def _correlations(covariance: FloatArray, found: FloatArray, own: NDArray[np.intp]) -> FloatArray:
    """Return correlations of the features found so far with a chain's own; [M, own]."""
    between = found @ covariance
    scale = np.outer((between * found).sum(1), np.diagonal(covariance)[own])
    # A feature that all rows have alike varies with no other.
    return np.asarray(between[:, own] / np.sqrt(np.maximum(scale, 1e-300)))


def merged_chances(chances: Sequence[FloatArray], found: Merged) -> FloatArray:
    """Return every reported feature's probability: the mean of the chains that have it; [N, F].

    Parameters
    ----------
    chances
        Each chain's probabilities [N, K].
    found
        The features of all chains.
    """
    index, flipped = found.chosen.index, found.chosen.flipped
    total = np.zeros((len(chances[0]), len(index)))
    for own, member, turned in zip(
        chances, found.member[:, index], found.turned[:, index], strict=True
    ):
        p = own[:, member]
        total += np.where(member < 0, 0.0, np.where(turned != flipped, 1.0 - p, p))
    result: FloatArray = total / np.maximum(found.found_by, 1)
    return result


def merged_draws(kept: FloatArray, found: Merged) -> FloatArray:
    """Return the chains' draws of biases and weights as those of the reported features.

    A chain's feature that is not reported adds to the biases what it adds on average over the rows.
    Where a chain lacks a feature, it has the other chains' mean weights of it in every draw, and
    the biases less what they add on average.

    Parameters
    ----------
    kept
        [C, S, J, K + 1].
    found
        The features of all chains.

    Returns
    -------
    draws
        [C, S, J, F + 1].
    """
    chains, draws, units, size = kept.shape
    index, flipped = found.chosen.index, found.chosen.flipped
    result = np.zeros((chains, draws, units, len(index) + 1))
    for c in range(chains):
        change = np.zeros((len(index) + 1, size))
        change[0] = np.concatenate([[1.0], found.own_share[c]])
        for place, m in enumerate(index.tolist()):
            if (own := int(found.member[c, m])) >= 0:
                away = bool(found.turned[c, m] != flipped[place])
                change[place + 1, 1 + own] = -1.0 if away else 1.0
                change[0, 1 + own] = 1.0 if away else 0.0
        result[c] = kept[c] @ change.T
    share = np.where(flipped, 1.0 - found.share[index], found.share[index])
    has = found.member[:, index] >= 0
    for place in range(len(index)):
        mean = result[has[:, place], ..., place + 1].mean((0, 1))
        result[~has[:, place], ..., place + 1] = mean
        result[~has[:, place], ..., 0] -= share[place] * mean
    return result


def merged_weights(draws: FloatArray, found: Merged) -> tuple[FloatArray, FloatArray]:
    """Return mean [J, F + 1] and covariance [J, F + 1, F + 1] of the draws of `merged_draws`.

    Variances are those over the chains that have the feature.
    """
    chains, count, units, size = draws.shape
    pooled = draws.reshape(chains * count, units, size)
    mean = pooled.mean(0)
    away = pooled - mean
    known = np.concatenate([[1.0], np.sqrt(chains / np.maximum(found.found_by, 1))])
    scale = np.outer(known, known) / max(chains * count - 1, 1)
    covariance: FloatArray = np.einsum("sjk,sjl->jkl", away, away) * scale
    return mean, covariance
