# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""One read of a partition's features, and everything that `likelihood` adds up of it.

Strip by strip of `STRIP` words: the standardised features of a strip stay in the processor's
cache while every point's predictors, terms, gradient and information are made of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.core.state import FloatArray
from vbmodels.keywords.coded_feature_kernels import standardised
from vbmodels.keywords.corpus.likelihood_kernels import (
    BEND,
    CROSS,
    SCORE,
    STRIP,
    TERMS,
    add_product,
    by_document,
    terms,
)


class Points(NamedTuple):
    """The K points at which a pass adds its sums.

    Attributes
    ----------
    w
        [K, Q] coefficients of the columns in use, Q being a multiple of four: 0 beyond them.
    log_delta, delta, hidden, slopes
        [K, D], and [K, D, 2], of the listing; see `likelihood_kernels`.
    """

    w: FloatArray
    log_delta: FloatArray
    delta: FloatArray
    hidden: FloatArray
    slopes: FloatArray


class Sums(NamedTuple):
    """What a pass adds to.

    Attributes
    ----------
    value, slope
        [K] and [K, Q] log-likelihood, and its gradient by w.
    across
        [K, 2, Q] minus its second derivatives by (log pi, kappa) and w.
    level, level_bend
        [K, D] the documents' sums of the terms by log delta.
    square
        [K, Q, Q] the lower triangle of the information of w.
    """

    value: FloatArray
    slope: FloatArray
    across: FloatArray
    level: FloatArray
    level_bend: FloatArray
    square: FloatArray


@njit(
    cache=True,
    nogil=True,
    forceinline=True,
    error_model="numpy",
    fastmath={"contract", "nsz", "reassoc"},
)
def predicted(x, w, out):
    """Fill x'w [W] of features x [P, W or more]; P must be a multiple of four."""
    out[:] = 0.0
    for j in range(0, len(w), 4):
        for i in range(len(out)):
            out[i] += (
                w[j] * x[j, i]
                + w[j + 1] * x[j + 1, i]
                + w[j + 2] * x[j + 2, i]
                + w[j + 3] * x[j + 3, i]
            )


@njit(
    cache=True,
    nogil=True,
    forceinline=True,
    error_model="numpy",
    fastmath={"contract", "nsz", "reassoc"},
)
def add_weighted(x, weight, total):
    """Add x weight of features x [P, W or more] and ``weight`` [W] to ``total`` [P].

    P must be a multiple of four.
    """
    for j in range(0, len(total), 4):
        a = b = c = d = 0.0
        for i in range(len(weight)):
            a += x[j, i] * weight[i]
            b += x[j + 1, i] * weight[i]
            c += x[j + 2, i] * weight[i]
            d += x[j + 3, i] * weight[i]
        total[j] += a
        total[j + 1] += b
        total[j + 2] += c
        total[j + 3] += d


@njit(cache=True, nogil=True, error_model="numpy")
def add_sums(columns, rows, y, document, at, expected, sums):
    """Add a partition's sums at K points.

    Parameters
    ----------
    columns, rows
        The features, `coded_feature_kernels.Columns`, and the words that have a part.
    y, document
        [W] of the partition: whether listed, number of the document.
    at
        `Points`.
    expected
        Whether Fisher's information takes the Hessian's place.
    sums
        `Sums` to be added to.
    """
    points, size = at.w.shape
    x = np.zeros((size, STRIP))
    eta, word = np.empty(STRIP), np.empty((TERMS, STRIP))
    for first in range(0, len(rows), STRIP):
        own = rows[first : first + STRIP]
        here = len(own)
        listed, where, strip = y[own], document[own], eta[:here]
        # The arrays are handed on whole: a processor adds four words at once where it knows that
        # they lie side by side.
        standardised(columns, own, x)
        for i in range(points):
            predicted(x, at.w[i], strip)
            sums.value[i] += terms(
                strip, listed, where, at.log_delta[i], at.delta[i], at.hidden[i], expected, word
            )
            by_document(word, where, at.slopes[i], sums.level[i], sums.level_bend[i])
            add_weighted(x, word[SCORE, :here], sums.slope[i])
            add_weighted(x, word[CROSS, :here], sums.across[i, 0])
            add_weighted(x, word[CROSS + 1, :here], sums.across[i, 1])
            add_product(x, word[BEND, :here], sums.square[i])


@njit(cache=True, nogil=True, error_model="numpy")
def own_predictors(columns, rows, w, own, out):
    """Fill each row's x'w by the coefficients that are its own.

    Parameters
    ----------
    columns, rows
        As in `add_sums`.
    w, own
        [C, Q] coefficients of the columns, and [W] which of them each row has.
    out
        [W] to be filled.
    """
    size = len(columns.used)
    x = np.zeros((size, STRIP))
    for first in range(0, len(rows), STRIP):
        some = rows[first : first + STRIP]
        standardised(columns, some, x)
        for i in range(len(some)):
            mine = w[own[some[i]]]
            total = 0.0
            for j in range(size):
                total += mine[j] * x[j, i]
            out[some[i]] = total


@njit(cache=True, nogil=True, error_model="numpy")
def listed(above, away, complete, unseen, most, sharpness, spread, log_delta, slopes, bends):
    """Fill `likelihood.listing`.

    Parameters
    ----------
    above
        [D] log of the listed number over that of all, less ``most``.
    away
        [D] log n_d - lbar.
    complete, unseen
        [D] documents whose keywords are all known, and at which nobody has looked.
    most, sharpness, spread
        log .97, 8, and v.
    """
    for d in range(len(above)):
        log_delta[d] = 0.0 if complete[d] else -np.inf
        free, t = 0.0, away[d]
        if not (complete[d] or unseen[d]):
            steep = sharpness * above[d]
            small = math.exp(-abs(steep))
            free = (small if steep > 0.0 else 1.0) / (1.0 + small)
            soft = max(steep, 0.0) + math.log1p(small)
            log_delta[d] = most + above[d] - soft / sharpness
        bend = -sharpness * free * (1.0 - free)
        slopes[d, 0], slopes[d, 1] = free, free * t
        bends[d, 0, 0], bends[d, 1, 1] = bend, bend * t * t + free * spread
        bends[d, 0, 1] = bends[d, 1, 0] = bend * t
