# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""The words' terms of `corpus_likelihood` in one pass: an exp, rational functions and a log each.

Where no tail is smaller than 10^-127, sums of probabilities need no logarithms:
1 - p = Phi(-eta) + (1 - delta) Phi(eta) adds two numbers that are not negative, so that no digits
cancel. Beyond, where phi and the tails may underflow, the same is made of logarithms.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

VALUE, SCORE, LEVEL, BEND, CROSS, LEVEL_BEND = range(6)
TERMS = 6
ACROSS = slice(CROSS, CROSS + 2)  # what `by_document` leaves in their places
STRIP = 512  # words whose features stay in the processor's cache between weighing and product
FAR = 24.0  # |eta| from which on logarithms are needed
MOST_ODDS = 300.0  # log; beyond are complete documents alone, whose log delta is fixed
_ROOT_HALF = math.sqrt(0.5)
_ROOT_OVER_PI = 1.0 / math.sqrt(math.pi)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_LOG_DENSITY = -0.5 * math.log(2.0 * math.pi)


@njit(cache=True, nogil=True, error_model="numpy")
def standardised(x, beside, location, inverse, rows, columns, out):
    """Fill [P, W] with (x - location) * inverse of rows and columns; ``beside`` follows on x."""
    size = x.shape[1]
    for j in range(len(columns)):
        k = columns[j]
        if k < size:
            for i in range(len(rows)):
                out[j, i] = (x[rows[i], k] - location[k]) * inverse[k]
        else:
            for i in range(len(rows)):
                out[j, i] = (beside[rows[i], k - size] - location[k]) * inverse[k]


@njit(cache=True, nogil=True, error_model="numpy")
def tail_series(x):
    """Return s of Phi(-x) = phi(x) / x (1 + s), to 1e-14 for x >= 24, by its asymptotic series."""
    u = 1.0 / (x * x)
    return u * (-1.0 + u * (3.0 + u * (-15.0 + u * (105.0 + u * (-945.0 + 10395.0 * u)))))


@njit(cache=True, nogil=True, error_model="numpy")
def lower_tail(x, bell):
    """Return Phi(-x), to 2e-13 for 0 <= x <= `FAR`; ``bell`` is exp(-x^2 / 2).

    By Cody's rational functions (1969, Mathematics of Computation 23, 631): the exponential of
    erfc is that of the density, so that it is computed once.
    """
    y = x * _ROOT_HALF
    if y <= 0.46875:
        s = y * y
        top = 1.85777706184603153e-1 * s + 3.16112374387056560
        top = ((top * s + 1.13864154151050156e2) * s + 3.77485237685302021e2) * s
        top += 3.20937758913846947e3
        bottom = ((s + 2.36012909523441209e1) * s + 2.44024637934444173e2) * s
        bottom = (bottom + 1.28261652607737228e3) * s + 2.84423683343917062e3
        return 0.5 * (1.0 - y * top / bottom)
    if y <= 4.0:
        top = 2.15311535474403846e-8 * y + 5.64188496988670089e-1
        top = (top * y + 8.88314979438837594) * y + 6.61191906371416295e1
        top = (top * y + 2.98635138197400131e2) * y + 8.81952221241769090e2
        top = (top * y + 1.71204761263407058e3) * y + 2.05107837782607147e3
        top = top * y + 1.23033935479799725e3
        bottom = (y + 1.57449261107098347e1) * y + 1.17693950891312499e2
        bottom = (bottom * y + 5.37181101862009858e2) * y + 1.62138957456669019e3
        bottom = (bottom * y + 3.29079923573345963e3) * y + 4.36261909014324716e3
        bottom = (bottom * y + 3.43936767414372164e3) * y + 1.23033935480374942e3
        return 0.5 * bell * top / bottom
    s = 1.0 / (y * y)
    top = (1.63153871373020978e-2 * s + 3.05326634961232344e-1) * s + 3.60344899949804439e-1
    top = ((top * s + 1.25781726111229246e-1) * s + 1.60837851487422766e-2) * s
    top += 6.58749161529837803e-4
    bottom = ((s + 2.56852019228982242) * s + 1.87295284992346725) * s
    bottom = ((bottom + 5.27905102951428412e-1) * s + 6.05183413124413191e-2) * s
    bottom += 2.33520497626869185e-3
    return 0.5 * bell / y * (_ROOT_OVER_PI - s * top / bottom)


@njit(cache=True, nogil=True, error_model="numpy")
def terms(eta, y, document, log_delta, delta, hidden, expected, out):
    """Fill each word's log p(y) and its derivatives by eta and by -log delta.

    Parameters
    ----------
    eta, y, document
        [W] predictor, whether listed, number of the document.
    log_delta, delta, hidden
        [D] log delta_d, delta_d and 1 - delta_d.
    expected
        Whether what is expected of the second derivatives is asked for.
    out
        [TERMS, W] to be filled; the second derivatives with their signs turned.
    """
    for i in range(len(eta)):
        e, d = eta[i], document[i]
        x = abs(e)
        if x <= FAR:
            bell = math.exp(-0.5 * e * e)
            tail = lower_tail(x, bell)
            above = 1.0 - tail if e > 0.0 else tail
            below = tail if e > 0.0 else 1.0 - tail
            rest = below + hidden[d] * above
            density = _DENSITY * bell
            mills, inverse = density / above, 1.0 / rest
            p = delta[d] * above
            pull, odds = delta[d] * density * inverse, p * inverse
            if y[i]:
                value = log_delta[d] + (math.log1p(-tail) if e > 0.0 else math.log(tail))
            else:
                value = math.log1p(-p) if p < 0.5 else math.log(rest)
            bend = mills * (e + mills) if y[i] else pull * (pull - e)
        else:
            series = tail_series(x)
            log_density = _LOG_DENSITY - 0.5 * e * e
            log_tail = log_density - math.log(x) + math.log1p(series)
            steep = x / (1.0 + series)  # phi(x) / Phi(-x)
            steep_bend = -steep * steep * series  # steep (steep - x)
            if e < 0.0:
                mills, log_above, log_rest = steep, log_tail, 0.0
            else:
                mills, log_above = math.exp(log_density), 0.0
                if hidden[d] > 0.0:
                    log_rest = math.log1p(-delta[d]) + math.log1p(math.exp(log_tail) / hidden[d])
                else:
                    log_rest = log_tail
            pull = math.exp(log_delta[d] + log_density - log_rest)
            bend = steep_bend if y[i] and e < 0.0 else mills * (e + mills)
            if not y[i]:
                bend = pull * (pull - e)
            if e > 0.0 and hidden[d] == 0.0:
                pull, bend = steep, mills * (e + mills) if y[i] else steep_bend
            odds = math.exp(min(log_delta[d] + log_above - log_rest, MOST_ODDS))
            inverse = math.exp(min(-log_rest, MOST_ODDS))
            value = log_delta[d] + log_above if y[i] else log_rest
        out[VALUE, i] = value
        out[SCORE, i] = mills if y[i] else -pull
        out[LEVEL, i] = -1.0 if y[i] else odds
        if expected:
            out[BEND, i], out[CROSS, i], out[LEVEL_BEND, i] = mills * pull, -pull, odds
        elif y[i]:
            out[BEND, i], out[CROSS, i], out[LEVEL_BEND, i] = bend, 0.0, 0.0
        else:
            out[BEND, i] = bend
            out[CROSS, i] = -min(pull, 1e150) * inverse
            out[LEVEL_BEND, i] = odds * inverse


@njit(cache=True, nogil=True, error_model="numpy")
def keyword_probability(eta, y, offsets, hidden, out):
    """Fill `corpus_likelihood.keyword_probability`; ``hidden`` [D] is 1 - delta_d."""
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
        [TERMS, W] of `terms`; its rows `ACROSS` become those of (log pi, kappa) by eta.
    document
        [W] number of the document.
    slopes
        [D, 2] minus the derivatives of log delta_d.
    level, level_bend
        [D] to be added to.
    """
    for i in range(len(document)):
        d = document[i]
        level[d] += word[LEVEL, i]
        level_bend[d] += word[LEVEL_BEND, i]
        cross = word[CROSS, i]
        word[CROSS, i], word[CROSS + 1, i] = cross * slopes[d, 0], cross * slopes[d, 1]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def add_product(x, weight, total):
    """Add x diag(weight) x' to the lower triangle of ``total`` [P, P]; what is above it is void.

    Half of what a general product computes, four rows by two at once so that sums stay in
    registers: P must be a multiple of four.
    """
    size, rows = x.shape
    weighted = np.empty((size, min(STRIP, rows)))
    for first in range(0, rows, STRIP):
        last = min(first + STRIP, rows)
        here = last - first
        for j in range(size):
            for i in range(here):
                weighted[j, i] = x[j, first + i] * weight[first + i]
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
