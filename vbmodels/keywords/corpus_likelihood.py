"""The log-likelihood of a partition's labels, its gradient and its observed information.

A word is a keyword with probability Phi(eta), eta = x'w, and listed with

    p = delta_d Phi(eta),   delta_d = u / (1 + (u / .97)^8)^(1/8),  u = k~_d / Kbar_d,

which is u, cut at .97 without a corner; p = Phi(eta) in complete documents. For theta =
(w, log pi, kappa), t = (1, log n_d - lbar) and lbar, v mean and variance of log n weighted by
n^kappa, with f = 1 / (1 + (u / .97)^8),

    d log delta_d = -f t,    d2 log delta_d = -8 f (1 - f) t t' + f v e e',   e = (0, 1).

With lambda = phi/Phi, a = delta phi / (1 - p) and o = p / (1 - p) a word's derivatives are

    y = 1:  by eta lambda, by log delta 1;   minus the second ones: eta eta lambda (eta + lambda);
    y = 0:  by eta -a,     by log delta -o;  eta eta a (a - eta),
                                             eta log delta  delta phi / (1 - p)^2,
                                             log delta log delta  p / (1 - p)^2.

Documents that nobody has labelled (delta = 0) say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.labels import LOG_SQRT_2PI, log_tails
from vbmodels.keywords.lengths import CountLaw

MOST_LISTED = float(np.log(0.97))
SHARPNESS = 8.0
BLOCK_WORDS = 4096


@dataclass(frozen=True)
class Listing:
    """log delta_d [D] (0 where complete, -inf where unlabelled) and its derivatives.

    ``slopes`` [D, 2] are minus the first ones by (log pi, kappa), ``bends`` [D, 2, 2] the second.
    """

    log_delta: FloatArray
    slopes: FloatArray
    bends: FloatArray


def listing(
    law: CountLaw, batch: KeywordBatch, log_rate: float, kappa: float, rho: float
) -> Listing:
    """Return which share of its keywords each document lists at pi and kappa."""
    log_n = np.log(batch.sizes)
    level, centre, spread = law.scale(kappa)
    log_number = log_rate + level + kappa * log_n
    above = law.log_listed(batch.sizes, batch.n_observed, rho) - log_number - MOST_LISTED
    open_ = ~(batch.complete | batch.unseen)
    free = np.where(open_, expit(-SHARPNESS * above), 0.0)
    log_delta = MOST_LISTED + above - np.logaddexp(0.0, SHARPNESS * above) / SHARPNESS
    log_delta = np.where(batch.complete, 0.0, np.where(batch.unseen, -np.inf, log_delta))
    t = np.column_stack([np.ones(len(log_n)), log_n - centre])
    bends = -SHARPNESS * (free * (1.0 - free))[:, None, None] * t[:, :, None] * t[:, None, :]
    bends[:, 1, 1] += free * spread
    return Listing(log_delta, free[:, None] * t, bends)


def predictors(x: FloatArray, location: FloatArray, scale: FloatArray, w: FloatArray) -> FloatArray:
    """Return x'w [W] of raw features for coefficients of standardised ones."""
    slope = w / scale
    eta: FloatArray = x @ slope - float(location @ slope)
    return eta


def likelihood(
    batch: KeywordBatch,
    location: FloatArray,
    scale: FloatArray,
    w: FloatArray,
    shares: list[Listing],
    expected: bool,
    beside: FloatArray | None = None,
    bends: bool = True,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-likelihood [K], gradient [K, P + 2] and minus its Hessian [K, P + 2, P + 2].

    Parameters
    ----------
    batch
        The partition.
    location, scale
        [P] of the standardisation.
    w
        [K, P] coefficients at K points.
    shares
        The listing at each of them.
    expected
        Whether Fisher's information stands in the Hessian's place: it is never indefinite.
    beside
        [W, P'] further columns of the features; None where the batch has all.
    bends
        Whether the Hessian is asked for; else it is zero, and half of the time is saved.
    """
    points, size = w.shape[0], w.shape[1] + 2
    value, gradient = np.zeros(points), np.zeros((points, size))
    information = np.zeros((points, size, size))
    seen = np.repeat(~batch.unseen, batch.sizes)
    document = batch.document_of_word
    for start in range(0, batch.n_words, BLOCK_WORDS):
        rows = slice(start, start + BLOCK_WORDS)
        x = _standardised(batch.x[rows], None if beside is None else beside[rows], location, scale)
        d, y, counts = document[rows], batch.y[rows], seen[rows]
        if not counts.all():
            x, d, y = x[counts], d[counts], y[counts]
        weighted = np.empty_like(x)
        for i, share in enumerate(shares):
            word = _Words.at(x @ w[i], y, share.log_delta[d], expected)
            value[i] += word.value
            slopes = share.slopes[d]
            gradient[i, :-2] += word.score @ x
            gradient[i, -2:] += word.level @ slopes
            if not bends:
                continue
            bend = information[i]
            np.multiply(word.bend[:, None], x, out=weighted)
            bend[:-2, :-2] += x.T @ weighted
            across = x.T @ (word.cross[:, None] * slopes)
            bend[:-2, -2:] += across
            bend[-2:, :-2] += across.T
            bend[-2:, -2:] += slopes.T @ (word.level_bend[:, None] * slopes)
            if not expected:
                bend[-2:, -2:] += np.tensordot(word.level, share.bends[d], 1)
    return value, gradient, information


def _standardised(
    x: FloatArray, beside: FloatArray | None, location: FloatArray, scale: FloatArray
) -> FloatArray:
    """Return the features of some words, those beside them at the end, standardised."""
    size = x.shape[1]
    found = np.empty((len(x), len(location)))
    np.subtract(x, location[:size], out=found[:, :size])
    if beside is not None:
        np.subtract(beside, location[size:], out=found[:, size:])
    found /= scale
    return found


@dataclass(frozen=True)
class _Words:
    """log p(y) of all words together; of each its derivatives by eta and by -log delta [W].

    ``score`` and ``level`` are the first ones, ``bend``, ``cross`` and ``level_bend`` minus the
    second ones, or what is expected of them.
    """

    value: float
    score: FloatArray
    level: FloatArray
    bend: FloatArray
    cross: FloatArray
    level_bend: FloatArray

    @classmethod
    def at(cls, eta: FloatArray, y: BoolArray, log_delta: FloatArray, expected: bool) -> _Words:
        above, below = log_tails(eta)
        log_p = log_delta + above
        # 1 - p = Phi(-eta) + (1 - delta) Phi(eta): no digits cancel where delta is 1.
        with np.errstate(divide="ignore"):
            log_rest = np.logaddexp(below, np.log(-np.expm1(log_delta)) + above)
        log_phi = -0.5 * eta**2 - LOG_SQRT_2PI
        mills, pull = np.exp(log_phi - above), np.exp(log_delta + log_phi - log_rest)
        # Odds beyond e^300 are of complete documents alone, whose t is 0.
        odds = np.exp(np.minimum(log_p - log_rest, 300.0))
        rest = np.exp(np.minimum(-log_rest, 300.0))
        first = float(np.sum(np.where(y, log_p, log_rest))), np.where(y, mills, -pull)
        level = np.where(y, -1.0, odds)
        if expected:
            return cls(*first, level, bend=mills * pull, cross=-pull, level_bend=odds)
        return cls(
            *first,
            level,
            bend=np.where(y, mills * (eta + mills), pull * (pull - eta)),
            cross=np.where(y, 0.0, -np.minimum(pull, 1e150) * rest),
            level_bend=np.where(y, 0.0, odds * rest),
        )


def keyword_probability(eta: FloatArray, batch: KeywordBatch, log_delta: FloatArray) -> FloatArray:
    """Return r [W] = Phi (1 - delta) / (1 - delta Phi); 1 where listed, 0 elsewhere if complete."""
    above, below = log_tails(eta)
    words = np.repeat(log_delta, batch.sizes)
    with np.errstate(divide="ignore"):
        hidden = np.log(-np.expm1(words)) + above
    r: FloatArray = np.exp(hidden - np.logaddexp(below, hidden))
    return np.where(batch.y, 1.0, r)
