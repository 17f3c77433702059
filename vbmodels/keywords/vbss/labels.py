"""What labels that miss keywords say: q(z) of every word and q(alpha_d) of every document.

A word is a keyword, y* = 1, when its latent importance z is positive. A keyword is listed
with probability 1 - alpha_d, any other word never (Hu 2024, eq 1.1 and section 1.3.2):

    z = eta + e,  e ~ N(0, 1);   P(y = 1 | z > 0) = 1 - alpha_d,   P(y = 1 | z <= 0) = 0.

Letters: W words, D documents; c_d = exp E[log alpha_d]; n_d words, k_d listed ones. In a
document whose keywords are all known, alpha_d = 0: log c_d = -inf, and y is the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from vbmodels.core.special import truncated_mean
from vbmodels.core.state import BoolArray, FloatArray

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


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
    """Set q(z) at its optimum (A.1.1.1, A.1.1.2), given eta [W], y [W] and each log c [W].

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
    mean[y] = truncated_mean(eta[y])
    return LatentImportance(log_norm, mean, keyword)
