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
"""Nats behind the best pattern at the mean weights, and about the most patterns that are summed."""
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
        [S + 1, K + 1, 2 J] factors for answers of -1, then of 1.
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


@njit(inline="always")
def _cost(own, count):  # type: ignore[no-untyped-def]
    """Return the sum of log(1 + own) over the first units."""
    total, product = 0.0, 1.0
    for i in range(count):
        product *= 1.0 + own[i]
        if product > _FULL:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)


@njit(inline="always")
def _switch(own, factor, place, count, units, on):  # type: ignore[no-untyped-def]
    """Multiply by a feature's factors where it is switched on, else divide by them."""
    for i in range(count):
        there = place[i] if on else (place[i] + units) % (2 * units)
        own[i] *= factor[there]


@njit(inline="always")
def _moved(odds, log_odds, on):  # type: ignore[no-untyped-def]
    return odds + log_odds if on else odds - log_odds


@njit(cache=True)
def _climb(factors, log_odds, place, count, z, own, one, gap):  # type: ignore[no-untyped-def]
    """Switch one feature or two while that helps; z, own and each feature's gap end in place.

    A feature's gap is how far the best pattern that was valued with it switched is behind.
    """
    k_all, units = len(log_odds), len(own)
    odds = 0.0
    while True:
        here = odds - _cost(own, count)
        gap[:] = np.inf
        first, second, best = 0, 0, here + 1e-9
        for a in range(k_all):
            one[:] = own
            _switch(one, factors[a + 1], place, count, units, z[a] == 0)
            moved = _moved(odds, log_odds[a], z[a] == 0)
            for b in range(a, k_all):
                value = moved
                if b > a:
                    _switch(one, factors[b + 1], place, count, units, z[b] == 0)
                    value = _moved(moved, log_odds[b], z[b] == 0)
                value -= _cost(one, count)
                if b > a:
                    _switch(one, factors[b + 1], place, count, units, z[b] == 1)
                gap[a] = min(gap[a], here - value)
                gap[b] = min(gap[b], here - value)
                if value > best:
                    first, second, best = a, b, value
        if best <= here + 1e-9:
            return odds
        for k in range(first, second + 1):
            if k in (first, second):
                z[k] = 1 - z[k]
                odds = _moved(odds, log_odds[k], z[k] == 1)
                _switch(own, factors[k + 1], place, count, units, z[k] == 1)


@njit(cache=True)
def _value(factors, log_odds, place, count, z, odds, own, order, found, value):  # type: ignore[no-untyped-def]
    """Value the patterns of the first features in order, then z with one other switched."""
    units, most = len(own), min(len(order), ENUMERATED)
    size = 1 << most
    for g in range(size + 1):  # a Gray code; the last step leads back to z
        if g:
            bit = 0
            while bit < most - 1 and not (g >> bit) & 1:
                bit += 1
            k = order[bit]
            z[k] = 1 - z[k]
            odds = _moved(odds, log_odds[k], z[k] == 1)
            _switch(own, factors[k + 1], place, count, units, z[k] == 1)
        if g < size:
            found[g] = z
            value[g] = odds - _cost(own, count)
    for k in order[most:]:
        _switch(own, factors[k + 1], place, count, units, z[k] == 0)
        found[size] = z
        found[size, k] = 1 - z[k]
        value[size] = _moved(odds, log_odds[k], z[k] == 0) - _cost(own, count)
        _switch(own, factors[k + 1], place, count, units, z[k] == 1)
        size += 1
    return size


@njit(cache=True)
def _kept(found, value, size):  # type: ignore[no-untyped-def]
    """Put the patterns that count first, the best at the head; return how many."""
    best = 0
    for i in range(size):
        if value[i] > value[best]:
            best = i
    top, cut = found[best].copy(), value[best] - CUT
    near = np.empty(size, np.bool_)
    for i in range(size):
        apart = 0
        for k in range(len(top)):
            apart += int(found[i, k] != top[k])
        near[i] = apart <= 1
    while True:
        many = 0
        for i in range(size):
            many += int(value[i] > cut and not near[i])
        if many <= MOST:
            break
        cut += 1.0
    kept = 0
    for i in range(size):
        if near[i] or value[i] > cut:
            found[kept] = found[i]
            kept += 1
    return kept


@njit(cache=True)
def _rows(sign, factors, log_odds, uniform, chance, drawn):  # type: ignore[no-untyped-def]
    n_rows, units = sign.shape
    draws, k_all = len(factors) - 1, log_odds.shape[1]
    most = (1 << min(k_all, ENUMERATED)) + max(k_all - ENUMERATED, 0)
    found, value = np.zeros((most, k_all), np.int8), np.empty(most)
    own, one, place = np.empty(units), np.empty(units), np.empty(units, np.int64)
    z, gap = np.zeros(k_all, np.int8), np.zeros(k_all)
    mean, mean_odds = factors[draws], log_odds[draws]
    for n in range(n_rows):
        count = 0
        for j in range(units):
            if sign[n, j]:
                place[count] = units + j if sign[n, j] > 0 else j
                own[count] = mean[0, place[count]]
                count += 1
        z[:] = 0
        odds, order = 0.0, np.arange(k_all)
        if k_all > ENUMERATED:
            odds = _climb(mean, mean_odds, place, count, z, own, one, gap)
            order = np.argsort(gap, kind="mergesort")
        size = _value(mean, mean_odds, place, count, z, odds, own, order, found, value)
        size = _kept(found, value, size)
        for s in range(draws):
            total = _weigh(factors[s], log_odds[s], place, count, own, found, value, size)
            left, taken = (uniform[n, s] * total, False) if len(drawn) else (0.0, True)
            for p in range(size):
                left -= value[p]
                if not taken and (left < 0.0 or p == size - 1):
                    drawn[s, n] = found[p]
                    taken = True
                for k in range(k_all):
                    if found[p, k]:
                        chance[n, k] += value[p] / (total * draws)


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
