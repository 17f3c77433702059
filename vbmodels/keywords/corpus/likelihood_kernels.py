# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""The words' terms of `likelihood`, by polynomials alone and four words at a time.

Where no tail is smaller than 10^-127, sums of probabilities need no logarithms:
1 - p = Phi(-eta) + (1 - delta) Phi(eta) adds two numbers that are not negative, so that no digits
cancel. Beyond, where phi and the tails may underflow, the same is made of logarithms.
"""

from __future__ import annotations

import math

import numpy as np

from vbmodels.core.cached_kernels import njit
from vbmodels.core.normal_kernels import (
    DENSITY,
    FAR,
    LOG_DENSITY,
    bells,
    lower_tail,
    tail_over_bell,
    tail_series,
)

SCORE, LEVEL, BEND, CROSS, LEVEL_BEND = range(5)
TERMS = 5
STRIP = 512  # words whose features stay in the processor's cache between weighing and product
SMALLEST = 1e-100  # a product of probabilities; the next factor is 10^-127 or more
MOST_ODDS = 300.0  # log; beyond are complete documents alone, whose log delta is fixed


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def _near(eta, y, delta, hidden, bell, expected, factor, out):
    """Fill what `terms` does for |eta| <= `FAR`, and the probabilities of y but for delta.

    ``delta``, ``hidden`` and ``bell`` are [W]. One formula for all words and no call: a processor
    runs four at a time.
    """
    for i in range(len(eta)):
        e, listed = eta[i], y[i]
        tail = bell[i] * tail_over_bell(abs(e))
        above = 1.0 - tail if e > 0.0 else tail
        below = tail if e > 0.0 else 1.0 - tail
        rest = below + hidden[i] * above
        density, inverse = DENSITY * bell[i], 1.0 / rest
        mills = density / above
        pull, odds = delta[i] * density * inverse, delta[i] * above * inverse
        factor[i] = above if listed else rest
        out[SCORE, i] = mills if listed else -pull
        out[LEVEL, i] = -1.0 if listed else odds
        if expected:
            out[BEND, i], out[CROSS, i], out[LEVEL_BEND, i] = mills * pull, -pull, odds
        else:
            out[BEND, i] = mills * (e + mills) if listed else pull * (pull - e)
            out[CROSS, i] = 0.0 if listed else -pull * inverse
            out[LEVEL_BEND, i] = 0.0 if listed else odds * inverse


@njit(cache=True, nogil=True, error_model="numpy")
def _far(e, listed, log_delta, delta, hidden, expected, out):
    """Fill what `terms` does [TERMS] for one word beyond `FAR`; return its log p(y)."""
    x = abs(e)
    series = tail_series(x)
    log_density = LOG_DENSITY - 0.5 * e * e
    log_tail = log_density - math.log(x) + math.log1p(series)
    steep = x / (1.0 + series)  # phi(x) / Phi(-x)
    steep_bend = -steep * steep * series  # steep (steep - x)
    if e < 0.0:
        mills, log_above, log_rest = steep, log_tail, 0.0
    else:
        mills, log_above = math.exp(log_density), 0.0
        if hidden > 0.0:
            log_rest = math.log1p(-delta) + math.log1p(math.exp(log_tail) / hidden)
        else:
            log_rest = log_tail
    pull = math.exp(log_delta + log_density - log_rest)
    bend = steep_bend if listed and e < 0.0 else mills * (e + mills)
    if not listed:
        bend = pull * (pull - e)
    if e > 0.0 and hidden == 0.0:
        pull, bend = steep, mills * (e + mills) if listed else steep_bend
    odds = math.exp(min(log_delta + log_above - log_rest, MOST_ODDS))
    inverse = math.exp(min(-log_rest, MOST_ODDS))
    out[SCORE] = mills if listed else -pull
    out[LEVEL] = -1.0 if listed else odds
    if expected:
        out[BEND], out[CROSS], out[LEVEL_BEND] = mills * pull, -pull, odds
    elif listed:
        out[BEND], out[CROSS], out[LEVEL_BEND] = bend, 0.0, 0.0
    else:
        out[BEND] = bend
        out[CROSS] = -min(pull, 1e150) * inverse
        out[LEVEL_BEND] = odds * inverse
    return log_delta + log_above if listed else log_rest


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def terms(eta, y, document, log_delta, delta, hidden, expected, out):
    """Fill each word's derivatives of log p(y) by eta and by -log delta; return the sum of log p.

    Parameters
    ----------
    eta, y, document
        [W] predictor, whether listed, number of the document.
    log_delta, delta, hidden
        [D] log delta_d, delta_d and 1 - delta_d.
    expected
        Whether to return the expected second derivatives.
    out
        [TERMS, W] to be filled; the second derivatives with their signs turned.
    """
    room = np.empty((5, len(eta)))
    near, own, other, bell, factor = room[0], room[1], room[2], room[3], room[4]
    for i in range(len(eta)):
        d = document[i]
        near[i] = eta[i] if abs(eta[i]) <= FAR else 0.0
        own[i], other[i] = delta[d], hidden[d]
    bells(near, factor, bell)
    _near(near, y, own, other, bell, expected, factor, out)
    # Few logarithms: probabilities are multiplied until the product is small.
    total, product = 0.0, 1.0
    for i in range(len(eta)):
        d = document[i]
        if abs(eta[i]) <= FAR:
            product *= factor[i]
            if product < SMALLEST:
                total += math.log(product)
                product = 1.0
            if y[i]:
                total += log_delta[d]
        else:
            total += _far(eta[i], y[i], log_delta[d], delta[d], hidden[d], expected, out[:, i])
    return total + math.log(product)


@njit(cache=True, nogil=True, error_model="numpy")
def keyword_probability(eta, y, offsets, hidden, out):
    """Fill `likelihood.keyword_probability`; ``hidden`` [D] is 1 - delta_d."""
    for d in range(len(hidden)):
        for i in range(offsets[d], offsets[d + 1]):
            x = abs(eta[i])
            tail = lower_tail(x, math.exp(-0.5 * x * x))
            above = 1.0 - tail if eta[i] > 0.0 else tail
            below = tail if eta[i] > 0.0 else 1.0 - tail
            if y[i]:
                out[i] = 1.0
            elif hidden[d] == 0.0:
                out[i] = 0.0
            else:
                out[i] = hidden[d] * above / (below + hidden[d] * above)


@njit(cache=True, nogil=True, error_model="numpy")
def by_document(word, document, slopes, level, level_bend):
    """Add what `terms` found by log delta to each document's sums, and cross it with ``slopes``.

    Parameters
    ----------
    word
        [TERMS, W] of `terms`; its rows CROSS and CROSS + 1 become those of (log pi, kappa) by eta.
    document
        [W] number of the document, those of one side by side; W is 1 or more.
    slopes
        [D, 2] minus the derivatives of log delta_d.
    level, level_bend
        [D] to be added to.
    """
    last, own, bend = document[0], level[document[0]], level_bend[document[0]]
    for i in range(len(document)):
        d = document[i]
        if d != last:
            level[last], level_bend[last] = own, bend
            last, own, bend = d, level[d], level_bend[d]
        own += word[LEVEL, i]
        bend += word[LEVEL_BEND, i]
        cross = word[CROSS, i]
        word[CROSS, i], word[CROSS + 1, i] = cross * slopes[d, 0], cross * slopes[d, 1]
    level[last], level_bend[last] = own, bend


@njit(
    cache=True,
    nogil=True,
    forceinline=True,
    error_model="numpy",
    fastmath={"contract", "nsz", "reassoc"},
)
def add_product(x, weight, total):
    """Add x diag(weight) x' to the lower triangle of ``total`` [P, P]; what is above it is void.

    x is [P, W or more], and ``weight`` [W].

    Half of what a general product computes, four rows by two at once so that sums stay in
    registers: P must be a multiple of four.
    """
    size, rows = len(x), len(weight)
    weighted = np.empty((size, min(STRIP, rows)))
    for first in range(0, rows, STRIP):
        last = min(first + STRIP, rows)
        here = last - first
        some = weight[first:last]
        for j in range(size):
            # Of slices, which no place counts from the end of: so several words go at once.
            whole, own = x[j, first:last], weighted[j]
            for i in range(here):
                own[i] = whole[i] * some[i]
        for j in range(0, size, 4):
            a, b, c, d = weighted[j], weighted[j + 1], weighted[j + 2], weighted[j + 3]
            for k in range(0, j + 4, 2):
                u, v = x[k, first:last], x[k + 1, first:last]
                au = av = bu = bv = cu = cv = du = dv = 0.0
                for i in range(here):
                    au += a[i] * u[i]
                    av += a[i] * v[i]
                    bu += b[i] * u[i]
                    bv += b[i] * v[i]
                    cu += c[i] * u[i]
                    cv += c[i] * v[i]
                    du += d[i] * u[i]
                    dv += d[i] * v[i]
                total[j, k] += au
                total[j, k + 1] += av
                total[j + 1, k] += bu
                total[j + 1, k + 1] += bv
                total[j + 2, k] += cu
                total[j + 2, k + 1] += cv
                total[j + 3, k] += du
                total[j + 3, k + 1] += dv
