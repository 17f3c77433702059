"""What labels that miss keywords say: q(z) of every word and q(alpha_d) of every document.

A word is a keyword, y* = 1, when its latent importance z is positive. A keyword is listed
with probability 1 - alpha_d, any other word never:

    z = eta + e,  e ~ N(0, 1);   P(y = 1 | z > 0) = 1 - alpha_d,   P(y = 1 | z <= 0) = 0.

Letters: W words, D documents; c_d = exp E[log alpha_d]; n_d words, k_d listed ones. In a
document whose keywords are all known, alpha_d = 0: log c_d = -inf, and y is the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from vbmodels.core.expfam import Beta, TruncatedNormal
from vbmodels.core.special import trigamma
from vbmodels.core.state import BoolArray, FloatArray, IntArray

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
SETTLED = 1e-12
MOST_STEPS = 200
MOST_LOG_ODDS = 700.0


@dataclass(frozen=True)
class LatentImportance:
    """q(z) of every word: [W] each of log Z, E[z] and r = q(z > 0)."""

    log_norm: FloatArray
    mean: FloatArray
    keyword: FloatArray


def log_tails(eta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log Phi(eta) and log Phi(-eta), both accurate in either tail."""
    small = log_ndtr(-np.abs(eta))
    large = np.log1p(-np.exp(small))
    above = eta > 0.0
    return np.where(above, large, small), np.where(above, small, large)


def latent_importance(eta: FloatArray, y: BoolArray, log_c: FloatArray) -> LatentImportance:
    """Set q(z) at its optimum, given eta [W], y [W] and each word's log c [W].

    y = 1: N(eta, 1) cut to z > 0.  y = 0: N(eta, 1) (1(z <= 0) + c 1(z > 0)) / Z with
    Z = Phi(-eta) + c Phi(eta), E[z] = eta + (c - 1) phi(eta) / Z, r = c Phi(eta) / Z.
    """
    log_above, log_below = log_tails(eta)
    log_missed = log_c + log_above
    log_norm = np.where(y, log_above, np.logaddexp(log_below, log_missed))
    keyword = np.where(y, 1.0, np.exp(log_missed - log_norm))
    pull = np.where(y, 1.0, np.expm1(log_c))
    mean = np.asarray(eta + pull * np.exp(-0.5 * eta**2 - LOG_SQRT_2PI - log_norm))
    # Far on the wrong side the two terms cancel.
    mean[y] = TruncatedNormal(eta[y], np.ones(1)).mean
    return LatentImportance(log_norm, mean, keyword)


def per_document(values: FloatArray, offsets: IntArray) -> FloatArray:
    """Sum [W] values over the words of each document: [D]."""
    if len(offsets) < 2:
        return np.zeros(0)
    sums: FloatArray = np.add.reduceat(values, offsets[:-1])
    return sums


def settle_detection(
    log_odds: FloatArray,
    unlisted: BoolArray,
    offsets: IntArray,
    prior_a: FloatArray,
    b: FloatArray,
    log_c: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Find each document's joint optimum of q(alpha_d) and the weights r of q(z).

    Coordinate ascent alternates a = A_d + sum r(c) and log c = E[log alpha | Beta(a, b)];
    its fixed point is the root of one increasing function of log c in each document, which
    Newton steps find in a few rounds. Where the slope is small the plain step is taken.

    Parameters
    ----------
    log_odds
        [W] log Phi(eta) - log Phi(-eta).
    unlisted
        [W] whether the word counts: y = 0, in a document that is not complete.
    offsets
        [D + 1] the documents' words.
    prior_a, b
        [D] A_d, and B_d + k_d.
    log_c
        [D] the start.

    Returns
    -------
    log_c, a
        [D] each.
    """
    sizes = np.diff(offsets)
    # Odds against: infinite for a word that does not count, so that its r is 0.
    against = np.where(unlisted, np.exp(-np.clip(log_odds, -MOST_LOG_ODDS, MOST_LOG_ODDS)), np.inf)
    for _ in range(MOST_STEPS):
        c = np.repeat(np.exp(log_c), sizes)
        r = c / (c + against)
        a = prior_a + per_document(r, offsets)
        miss = Beta(a, b).mean_log - log_c
        curve = trigamma(a) - trigamma(a + b)
        slope = 1.0 - curve * per_document(r - r * r, offsets)
        step = np.where(slope > 0.05, miss / np.maximum(slope, 0.05), miss)
        log_c = np.minimum(log_c + step, 0.0)
        if not np.any(np.abs(step) > SETTLED * np.maximum(1.0, np.abs(log_c))):
            break
    return log_c, a
