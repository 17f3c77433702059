"""Compiled sums over the patterns of rows' features; see `vbmodels.features.posterior_draws`.

exp(-s psi) of a unit answered s is a product of one factor of the bias and one of each feature;
the last of the draws is their mean, at which patterns are chosen.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray

ENUMERATED = 10
"""Features of a row whose patterns are all looked at."""
CUT, MOST = 10.0, 64
"""Nats behind the best pattern at the mean weights up to which patterns are summed at every draw,
and the most such patterns; others keep the share that they have at the mean weights."""
_FULL = 1e60
"""A product beyond this is taken to the sum of logarithms."""


def sum_patterns(
    sign: NDArray[np.int8], factors: FloatArray, log_odds: FloatArray, uniform: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return chances [N, K], and patterns [S, N, K] drawn where there are uniform numbers [N, S].

    Parameters
    ----------
    sign
        [N, J] answers.
    factors
        [S + 1, K + 1, 2 (J + 1)] factors for answers of -1 to every unit and for no answer;
        then the same for answers of 1.
    log_odds
        [S + 1, K] of the features.
    uniform
        [N, S], or [N, 0].
    """
    k = log_odds.shape[1]
    chance = np.zeros((len(sign), k))
    drawn = np.zeros((uniform.shape[1], len(sign), k), np.int8)
    if k:
        _rows(np.ascontiguousarray(sign), factors, log_odds, uniform, chance, drawn)
    return chance, drawn


@njit(cache=True, fastmath=False)
def _cost(own, count):  # type: ignore[no-untyped-def]
    """Return the sum of log(1 + own) over the first units, a multiple of four."""
    total, a, b, c, d = 0.0, 1.0, 1.0, 1.0, 1.0
    for i in range(0, count, 4):
        a *= 1.0 + own[i]
        b *= 1.0 + own[i + 1]
        c *= 1.0 + own[i + 2]
        d *= 1.0 + own[i + 3]
        if max(max(a, b), max(c, d)) > _FULL:
            total += np.log(a) + np.log(b) + np.log(c) + np.log(d)
            a = b = c = d = 1.0
    return total + np.log((a * b) * (c * d))


@njit(inline="always")
def _switch(z, k, own, steps, log_odds, odds):  # type: ignore[no-untyped-def]
    """Switch a feature; z and own move in place, the log odds are returned."""
    step = steps[int(z[k]), k]
    for i in range(len(own)):
        own[i] *= step[i]
    z[k] = 1 - z[k]
    return odds + log_odds[k] if z[k] else odds - log_odds[k]


@njit(cache=True, fastmath=False)
def _climb(steps, log_odds, count, z, own, gap):  # type: ignore[no-untyped-def]
    """Switch one feature or two while that helps; z, own and each feature's gap end in place.

    A feature's gap is how far the best pattern that was valued with it switched is behind.
    """
    k_all, odds, kept = len(log_odds), 0.0, np.empty(len(own))
    while True:
        here = odds - _cost(own, count)
        first, second, best = 0, 0, here + 1e-9
        for i in range(len(own)):
            kept[i] = own[i]
        for a in range(k_all):
            gap[a] = np.inf
        for a in range(k_all):
            moved = _switch(z, a, own, steps, log_odds, odds)
            for b in range(a, k_all):
                both = _switch(z, b, own, steps, log_odds, moved) if b > a else moved
                value = both - _cost(own, count)
                if b > a:
                    _switch(z, b, own, steps, log_odds, both)
                gap[a], gap[b] = min(gap[a], here - value), min(gap[b], here - value)
                if value > best:
                    first, second, best = a, b, value
            z[a] = 1 - z[a]
            for i in range(len(own)):
                own[i] = kept[i]
        if best <= here + 1e-9:
            return odds
        odds = _switch(z, first, own, steps, log_odds, odds)
        if second > first:
            odds = _switch(z, second, own, steps, log_odds, odds)


@njit(cache=True, fastmath=False)
def _value(steps, log_odds, count, z, odds, own, order, found, value):  # type: ignore[no-untyped-def]
    """Value the patterns of the first features in order, then z with one other switched."""
    most = min(len(order), ENUMERATED)
    size = 1 << most
    for g in range(size + 1):  # a Gray code; the last step leads back to z
        if g:
            bit = 0
            while bit < most - 1 and not (g >> bit) & 1:
                bit += 1
            odds = _switch(z, order[bit], own, steps, log_odds, odds)
        if g < size:
            for k in range(len(z)):
                found[g, k] = z[k]
            value[g] = odds - _cost(own, count)
    for last in order[most:]:
        moved = _switch(z, last, own, steps, log_odds, odds)
        for k in range(len(z)):
            found[size, k] = z[k]
        value[size] = moved - _cost(own, count)
        _switch(z, last, own, steps, log_odds, moved)
        size += 1
    return size


@njit(cache=True)
def _set_aside(found, value, size, chance):  # type: ignore[no-untyped-def]
    """Put the patterns within the cut first; add the others' shares to the chances.

    Returns how many are within the cut, and their share.
    """
    top, cut, total, within = -np.inf, CUT + 1.0, 0.0, MOST + 1
    for i in range(size):
        top = max(top, value[i])
    while within > MOST:
        cut, within = cut - 1.0, 0
        for i in range(size):
            within += int(value[i] >= top - cut)
    for i in range(size):
        total += np.exp(value[i] - top)
    kept, share = 0, 1.0
    for i in range(size):
        if value[i] >= top - cut:
            for k in range(len(chance)):
                found[kept, k] = found[i, k]
            kept += 1
        else:
            own = np.exp(value[i] - top) / total
            share -= own
            for k in range(len(chance)):
                chance[k] += own * found[i, k]
    return kept, share


@njit(cache=True)
def _weigh(factors, log_odds, place, count, own, found, value, size):  # type: ignore[no-untyped-def]
    """Set the weights of patterns, the best 1, at one draw; return their sum."""
    top, total = -np.inf, 0.0
    for p in range(size):
        for i in range(count):
            own[i] = factors[0, place[i]]
        odds = 0.0
        for k in range(len(log_odds)):
            if found[p, k]:
                odds += log_odds[k]
                for i in range(count):
                    own[i] *= factors[k + 1, place[i]]
        value[p] = odds - _cost(own, count)
        top = max(top, value[p])
    for p in range(size):
        value[p] = np.exp(value[p] - top)
        total += value[p]
    return total


@njit(cache=True)
def _sort_places(values, order):  # type: ignore[no-untyped-def]
    """Fill the places of rising values; equal ones keep their order."""
    for i in range(len(values)):
        j = i
        while j > 0 and values[order[j - 1]] > values[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@njit(cache=True)
def _rows(sign, factors, log_odds, uniform, chance, drawn):  # type: ignore[no-untyped-def]
    n_rows, units = sign.shape
    draws, k_all, width = len(factors) - 1, log_odds.shape[1], factors.shape[2] // 2
    most = (1 << min(k_all, ENUMERATED)) + max(k_all - ENUMERATED, 0)
    found, value = np.zeros((most, k_all), np.int8), np.empty(most)
    own, place = np.empty(units + 4), np.empty(units + 4, np.int64)
    z, gap, steps = np.zeros(k_all, np.int8), np.zeros(k_all), np.empty((2, k_all, units + 4))
    order = np.empty(k_all, np.int64)
    mean, mean_odds = factors[draws], log_odds[draws]
    for n in range(n_rows):
        place[:] = width - 1  # without an answer
        count = 0
        for j in range(units):
            if sign[n, j]:
                place[count] = width + j if sign[n, j] > 0 else j
                count += 1
        count += -count % 4
        for i in range(len(own)):
            own[i] = mean[0, place[i]]
            for k in range(k_all):
                steps[0, k, i] = mean[k + 1, place[i]]
                steps[1, k, i] = 1.0 / steps[0, k, i]
        z[:] = 0
        odds = _climb(steps, mean_odds, count, z, own, gap) if k_all > ENUMERATED else 0.0
        _sort_places(gap, order)
        size = _value(steps, mean_odds, count, z, odds, own, order, found, value)
        size, share = _set_aside(found, value, size, chance[n])
        for s in range(draws):
            if size == 1:
                value[0], total = 1.0, 1.0
            else:
                total = _weigh(factors[s], log_odds[s], place, count, own, found, value, size)
            left, taken = (uniform[n, s] * total, False) if len(drawn) else (0.0, True)
            for p in range(size):
                left -= value[p]
                if not taken and (left < 0.0 or p == size - 1):
                    for k in range(k_all):
                        drawn[s, n, k] = found[p, k]
                    taken = True
                for k in range(k_all):
                    chance[n, k] += found[p, k] * share * value[p] / (total * draws)
