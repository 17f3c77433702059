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

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vbmodels.core.linalg import Moments
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords import coded_feature_kernels as coded_kernels
from vbmodels.keywords.coded_features import Parts
from vbmodels.keywords.corpus import likelihood_kernels as kernels
from vbmodels.keywords.corpus import pass_kernels
from vbmodels.keywords.prior.counts import CountLaw
from vbmodels.keywords.units import KeywordBatch

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
    level, centre, spread = law.scale(kappa)
    log_n = np.log(batch.sizes)
    above = law.log_listed(batch.sizes, batch.n_observed, rho)
    above -= log_rate + level + kappa * log_n + MOST_LISTED
    documents = len(above)
    found = Listing(np.empty(documents), np.empty((documents, 2)), np.empty((documents, 2, 2)))
    pass_kernels.listed(
        above,
        log_n - centre,
        batch.complete,
        batch.unseen,
        MOST_LISTED,
        SHARPNESS,
        spread,
        found.log_delta,
        found.slopes,
        found.bends,
    )
    return found


def likelihood(
    batch: KeywordBatch,
    location: FloatArray,
    scale: FloatArray,
    w: FloatArray,
    shares: list[Listing],
    expected: bool,
    further: FloatArray | None = None,
    documents: BoolArray | None = None,
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
    further
        [W, P'] further columns of the features; None where the batch has all.
    documents
        [D] whose words are looked at; None: all.
    """
    size, points = w.shape[1] + 2, len(w)
    gradient, whole = np.zeros((points, size)), np.zeros((points, size, size))
    # A constant feature has an infinite scale, and no part in anything.
    used = np.flatnonzero(np.isfinite(scale))
    places, room = np.append(used, [size - 2, size - 1]), -len(used) % 4 + len(used)
    own = np.zeros((points, room))
    own[:, : len(used)] = w[:, used]
    documents_shape = (points, batch.n_documents)
    sums = pass_kernels.Sums(
        value=np.zeros(points),
        slope=np.zeros((points, room)),
        across=np.zeros((points, 2, room)),
        level=np.zeros(documents_shape),
        level_bend=np.zeros(documents_shape),
        square=np.zeros((points, room, room)),
    )
    looked_at = ~batch.unseen if documents is None else documents & ~batch.unseen
    seen = np.flatnonzero(np.repeat(looked_at, batch.sizes))
    log_delta = np.array([s.log_delta for s in shares]).reshape(documents_shape)
    slopes = np.array([s.slopes for s in shares]).reshape(*documents_shape, 2)
    at = pass_kernels.Points(own, log_delta, np.exp(log_delta), -np.expm1(log_delta), slopes)
    pass_kernels.add_sums(
        _columns(batch, further, location, 1.0 / scale, used),
        seen,
        batch.y,
        batch.document_of_word,
        at,
        expected,
        sums,
    )
    by_w = slice(0, len(used))
    found = np.zeros((points, len(places)))
    information = np.zeros((points, len(places), len(places)))
    for i, share in enumerate(shares):
        found[i, :-2], found[i, -2:] = sums.slope[i, by_w], sums.level[i] @ share.slopes
        bend = information[i]
        lower = np.tril(sums.square[i, by_w, by_w])
        bend[:-2, :-2] = lower + np.tril(lower, -1).T
        bend[-2:, :-2] = sums.across[i, :, by_w]
        bend[:-2, -2:] = bend[-2:, :-2].T
        bend[-2:, -2:] = share.slopes.T @ (sums.level_bend[i][:, None] * share.slopes)
        if not expected:
            bend[-2:, -2:] += np.tensordot(sums.level[i], share.bends, 1)
    gradient[:, places] = found
    whole[:, places[:, None], places] = information
    return sums.value, gradient, whole


def _parts(batch: KeywordBatch) -> Parts:
    """Return what the kernels take of the features: codes, or every column as it is."""
    if batch.coded is not None:
        return batch.coded.parts
    plain = np.ascontiguousarray(batch.x.T)
    size, rows = plain.shape
    return (
        np.full(size, coded_kernels.PLAIN),
        np.arange(size),
        np.zeros(size, np.int64),
        np.zeros((0, rows), np.uint8),
        np.zeros((0, rows), np.uint16),
        plain,
        np.zeros(0),
    )


def _columns(
    batch: KeywordBatch,
    further: FloatArray | None,
    location: FloatArray,
    inverse: FloatArray,
    used: IntArray,
) -> coded_kernels.Columns:
    more = np.zeros((0, batch.n_words)) if further is None else further.T
    return coded_kernels.Columns(
        *_parts(batch), np.ascontiguousarray(more), location, inverse, used
    )


def _blocks(
    batch: KeywordBatch,
    further: FloatArray | None,
    location: FloatArray,
    inverse: FloatArray,
    used: IntArray,
    seen: IntArray,
    document: IntArray,
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield rows, their documents and their standardised features, block by block.

    Features are [P, rows], and zeros below them up to a multiple of four. The next block stands
    in their place.
    """
    columns = _columns(batch, further, location, inverse, used)
    held = np.zeros((-len(used) % 4 + len(used), min(BLOCK_WORDS, len(seen))))
    for start in range(0, len(seen), BLOCK_WORDS):
        rows = seen[start : start + BLOCK_WORDS]
        block = held[:, : len(rows)]
        coded_kernels.standardised(columns, rows, held[: len(used)])
        yield rows, document[start : start + BLOCK_WORDS], block


def moments(batch: KeywordBatch, further: FloatArray | None = None) -> Moments:
    """Return the moments of all words' features, ``further`` [W, P'] columns included.

    Block by block about the mean of the first one, which is near that of all:
    sum (x - m)(x - m)' = sum (x - c)(x - c)' - W (m - c)(m - c)'.
    """
    own = batch.x.shape[1] if batch.coded is None else len(batch.coded.kind)
    size = own if further is None else own + further.shape[1]
    rows, used, ones = np.arange(batch.n_words), np.arange(size), np.ones(size)
    if not len(rows):
        return Moments(0.0, np.zeros(size), np.zeros((size, size)))
    centre, total = np.zeros(size), np.zeros(size)
    first = rows[:BLOCK_WORDS]
    for _, _, block in _blocks(batch, further, centre, ones, used, first, first):
        centre = block[:size].mean(axis=1)
    square = np.zeros((-size % 4 + size,) * 2)
    for _, _, block in _blocks(batch, further, centre, ones, used, rows, rows):
        total += block[:size].sum(axis=1)
        kernels.add_product(block, np.ones(block.shape[1]), square)
    step = total / len(rows)
    lower = np.tril(square[:size, :size])
    scatter = lower + np.tril(lower, -1).T - len(rows) * np.outer(step, step)
    return Moments(float(len(rows)), centre + step, scatter)


def predictors(
    batch: KeywordBatch,
    location: FloatArray,
    scale: FloatArray,
    w: FloatArray,
    further: FloatArray | None = None,
) -> FloatArray:
    """Return x'w [K, W] of every word at K points w [K, P]; other parameters as `likelihood`."""
    used, rows = np.flatnonzero(np.isfinite(scale)), np.arange(batch.n_words)
    own, eta = np.ascontiguousarray(w[:, used]), np.empty((len(w), batch.n_words))
    for at, _, block in _blocks(batch, further, location, 1.0 / scale, used, rows, rows):
        eta[:, at[0] : at[-1] + 1] = own @ block[: len(used)]
    return eta


def own_predictors(
    batch: KeywordBatch, location: FloatArray, scale: FloatArray, w: FloatArray, own: IntArray
) -> FloatArray:
    """Return x'w [W] of every word by the row ``own`` [W] of coefficients w [C, P]."""
    used, eta = np.flatnonzero(np.isfinite(scale)), np.empty(batch.n_words)
    columns = _columns(batch, None, location, 1.0 / scale, used)
    pass_kernels.own_predictors(
        columns,
        np.arange(batch.n_words),
        np.ascontiguousarray(w[:, used]),
        own.astype(np.int64),
        eta,
    )
    return eta


def keyword_probability(eta: FloatArray, batch: KeywordBatch, log_delta: FloatArray) -> FloatArray:
    """Return r [W] = Phi (1 - delta) / (1 - delta Phi); 1 where listed, 0 elsewhere if complete."""
    r = np.empty(len(eta))
    kernels.keyword_probability(eta, batch.y, batch.offsets, -np.expm1(log_delta), r)
    return r
